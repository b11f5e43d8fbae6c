"""How the frames of one call are opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from rt_frames._frames.where import Checked


@dataclass(frozen=True)
class OpenOptions:
    """How the frames of one call are opened, for an existing ``table`` or a new one.

    Messages show ``table_name``, and code that changes the table.
    Rows have no null in their ``keys``, and no two rows have the same keys. All rows
    match ``where``. With ``exact``, ``casts`` round no fractions either.
    """

    casts: Mapping[str, pa.DataType] = field(default_factory=dict)
    keep_index: bool | None = None
    clean: bool = False
    add_columns: bool = False
    keys: tuple[str, ...] = ()
    table: pa.Schema | None = None
    table_name: str = ""
    exact: bool = False
    where: Checked | None = None
