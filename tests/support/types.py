"""Arrow types, compared to the last name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def same(one: pa.DataType, other: pa.DataType) -> bool:
    """Compare types and the names of their children, which ``==`` ignores for lists."""
    return one.equals(other, check_metadata=True)
