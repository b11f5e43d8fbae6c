"""Which columns of two frames are the same memory under another name."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa

from rt_frames._frames.any_frame import is_a


def detect_renames(before: Any, after: Any) -> dict[str, str]:
    """Find columns that were renamed for certain: the same memory under another name.

    Only columns on one side count, with at least one row and exactly one candidate.
    """
    names = _names(before), _names(after)
    alive: list[Any] = []  # an address that was let go of could be another column's
    places: dict[tuple[Any, ...], tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, data in enumerate((before, after)):
        others = set(names[1 - side])
        for name in names[side]:
            if name not in others and len(column := _column(data, name)):
                places[_place(column, alive)][side].append(name)
    return {old[0]: new[0] for old, new in places.values() if len(old) == len(new) == 1}


def _names(data: Any) -> list[str]:
    if is_a(data, "pandas", "DataFrame") or is_a(data, "polars", "DataFrame"):
        return list(data.columns)
    return list(data.schema.names) if isinstance(data, pa.Table | pa.RecordBatch) else []


def _column(data: Any, name: str) -> Any:
    return data.column(name) if isinstance(data, pa.Table | pa.RecordBatch) else data[name]


def _place(column: Any, alive: list[Any]) -> tuple[Any, ...]:
    """Tell where a column's values lie: type (some of Arrow's cannot be hashed), length, offset and addresses."""
    dtype = getattr(column, "dtype", None)
    if is_a(dtype, "numpy", "dtype"):
        values = column.to_numpy()
        alive.append(values)
        place = values.__array_interface__
        return dtype, len(column), place["strides"], place["data"][0]
    if is_a(column, "polars", "Series"):
        column = pa.chunked_array(column)
    elif is_a(column, "pandas", "Series"):
        column = pa.array(column)
    alive.append(column)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return str(column.type), *((len(c), c.offset, *(b and b.address for b in c.buffers()[1:])) for c in chunks)
