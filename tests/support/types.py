"""Compare Arrow types and the names of their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def same(one: pa.DataType, other: pa.DataType) -> bool:
    """Compare types with the names of their children; ``==`` ignores those of lists."""
    return one.equals(other, check_metadata=True)
