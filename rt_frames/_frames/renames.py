"""Which columns of two frames are the same memory under another name."""

from __future__ import annotations

from typing import Any

from rt_frames._frames.any_frame import is_a


def detect_renames(before: Any, after: Any) -> dict[str, str]:
    """Find columns that were renamed for certain: the same memory under another name.

    Only columns on one side count, with at least one row and exactly one candidate.
    """
    old, new = _names(before), _names(after)
    there = set(old), set(new)
    gone, came = [n for n in old if n not in there[1]], [n for n in new if n not in there[0]]
    if not gone or not came:
        return {}
    places = {name: _memory(_column(after, name)) for name in came}
    pairs = [(a, b) for a in gone if (place := _memory(_column(before, a))) for b in came if places[b] == place]
    olds, news = [a for a, _ in pairs], [b for _, b in pairs]
    return {a: b for a, b in pairs if olds.count(a) == news.count(b) == 1}


def _names(data: Any) -> list[str]:
    import pyarrow as pa

    if is_a(data, "pandas", "DataFrame") or is_a(data, "polars", "DataFrame"):
        return list(data.columns)
    return list(data.schema.names) if isinstance(data, pa.Table | pa.RecordBatch) else []


def _column(data: Any, name: str) -> Any:
    import pyarrow as pa

    return data.column(name) if isinstance(data, pa.Table | pa.RecordBatch) else data[name]


def _memory(column: Any) -> tuple[Any, ...] | None:
    """Tell where a column's values lie: type, length, offset and addresses; None where there are no rows."""
    import pyarrow as pa

    if len(column) == 0:
        return None
    dtype = getattr(column, "dtype", None)
    if is_a(dtype, "numpy", "dtype"):
        place = column.to_numpy().__array_interface__
        return str(dtype), len(column), place["strides"], place["data"][0]
    if is_a(column, "polars", "Series"):
        column = pa.chunked_array(column)
    elif is_a(column, "pandas", "Series"):
        column = pa.array(column)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return str(column.type), *((len(c), c.offset, *(b and b.address for b in c.buffers()[1:])) for c in chunks)
