"""Which columns of two frames are the same memory under another name.

Only memory that a frame owns proves anything. What an export allocates lies elsewhere the next time, while the first
still lives: so each column is exported twice, and what moved must have equal content. Memory full of zeros proves
nothing either: Polars lends the same to every column of them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import types

from rt_frames._frames.any_frame import is_a

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Column(NamedTuple):
    """A column, where the memory lies that its frame owns, and what an export made; the first export keeps it there."""

    name: str
    dtype: Any
    place: tuple[Any, ...]
    made: list[pa.Buffer | None]
    export: Any


def detect_renames(before: Any, after: Any) -> dict[str, str]:
    """Find columns that were renamed for certain: the same memory under another name.

    Only columns on one side are looked at; where they do not all find each other, those on both sides, too, since one
    name may have gone to another column.
    """
    names = _names(before), _names(after)
    old, new = (set(side) for side in names)
    found = _match(before, after, [n for n in names[0] if n not in new], [n for n in names[1] if n not in old])
    if old - new - found.keys() and new - old - set(found.values()):
        found = _match(before, after, *names)
    return found


def _match(before: Any, after: Any, old: list[str], new: list[str]) -> dict[str, str]:
    """Pair columns that lie in the same place, which no third one does."""
    places: defaultdict[tuple[Any, ...], tuple[list[_Column], list[_Column]]] = defaultdict(lambda: ([], []))
    for side, (data, names) in enumerate(((before, old), (after, new)) if old and new else ()):
        for name in names:
            if column := _owned(name, data.column(name) if isinstance(data, _TABLES) else data[name]):
                places[column.place][side].append(column)
    pairs = [(old[0], new[0]) for old, new in places.values() if len(old) == len(new) == 1]
    return {a.name: b.name for a, b in pairs if a.name != b.name and a.dtype == b.dtype and a.made == b.made}


_TABLES = pa.Table | pa.RecordBatch


def _names(data: Any) -> list[str]:
    if is_a(data, "pandas", "DataFrame") or is_a(data, "polars", "DataFrame"):
        return list(data.columns)
    return list(data.schema.names) if isinstance(data, _TABLES) else []


def _owned(name: str, column: Any) -> _Column | None:
    """Tell where the memory lies that the frame owns; None where it owns none, or there are no rows."""
    dtype = column.dtype if hasattr(column, "dtype") else column.type
    if is_a(dtype, "numpy", "dtype") or (is_a(dtype, "pandas", "StringDtype") and dtype.storage == "python"):
        one, other = (column.to_numpy() for _ in range(2))
        place = one.__array_interface__["data"][0], one.strides, len(one)
        owned = len(one) > 0 and place[0] == other.__array_interface__["data"][0]
        return _Column(name, dtype, place, [], one) if owned else None
    exports = [_export(column) for _ in range(2)]
    parts, others = ([*_parts(export)] for export in exports)
    buffers, again = ([buffer for part in some for buffer in part.buffers()] for some in (parts, others))
    stays = [
        a is b is None or (a and b and a.address) == (b and b.address) for a, b in zip(buffers, again, strict=True)
    ]
    owned = [buffer for buffer, stay in zip(buffers, stays, strict=True) if stay]
    if not any(buffer and np.frombuffer(buffer, np.bool_).any() for buffer in owned):
        return None
    shape = [(len(part), part.offset) for part in parts]
    place = *shape, *(buffer and stay and buffer.address for buffer, stay in zip(buffers, stays, strict=True))
    return _Column(name, dtype, place, [b for b, stay in zip(buffers, stays, strict=True) if not stay], exports[0])


def _export(column: Any) -> pa.ChunkedArray:
    if is_a(column, "pandas", "Series"):
        column = pa.array(column)
    elif is_a(column, "polars", "Series"):
        # the codes; what they stand for is the same for all columns of the dtype
        column = pa.chunked_array(column.to_physical() if is_a(column.dtype, "polars", "Categorical") else column)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _parts(data: Any) -> Iterator[pa.Array]:
    """Give the arrays that a column consists of."""
    if isinstance(data, pa.ChunkedArray):
        for chunk in data.chunks:
            yield from _parts(chunk)
        return
    yield data
    arrow = data.type
    if types.is_primitive(arrow):
        return
    if isinstance(data, pa.ExtensionArray):
        yield from _parts(data.storage)
    elif types.is_dictionary(arrow):
        yield from _parts(data.dictionary)
    elif types.is_struct(arrow):
        for at in range(arrow.num_fields):
            yield from _parts(data.field(at))
    elif types.is_map(arrow):
        yield from _parts(data.keys)
        yield from _parts(data.items)
    elif types.is_nested(arrow) or types.is_run_end_encoded(arrow):
        yield from _parts(data.values)
