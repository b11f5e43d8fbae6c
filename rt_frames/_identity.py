"""Which columns of two frames are the same memory under another name."""

from __future__ import annotations

from typing import Any

from rt_frames._frames import is_a


def moved_columns(before: Any, after: Any) -> dict[str, str]:
    """Find columns that were renamed for certain: the same memory under another name.

    Only columns on one side count, with at least one row and exactly one candidate.
    """
    old, new = _columns(before), _columns(after)
    gone = {name: _memory(old[name]) for name in old if name not in new}
    came = {name: _memory(new[name]) for name in new if name not in old} if gone else {}
    pairs = [(a, b) for a, place in gone.items() if place for b, other in came.items() if place == other]
    olds, news = [a for a, _ in pairs], [b for _, b in pairs]
    return {a: b for a, b in pairs if olds.count(a) == news.count(b) == 1}


def _columns(data: Any) -> dict[str, Any]:
    import pyarrow as pa

    if is_a(data, "pandas", "DataFrame"):
        return dict(data.items()) if data.columns.is_unique else {}
    if is_a(data, "polars", "DataFrame"):
        return {series.name: series for series in data.get_columns()}
    if isinstance(data, pa.Table | pa.RecordBatch):
        return dict(zip(data.schema.names, data.columns, strict=True))
    return {}


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
