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

    Only columns on one side are looked at; where they do not all find each other, or names on both sides come in
    another order, those on both sides, too, since a name may have gone to another column.
    """
    names = _names(before, after)
    old, new = (set(side) for side in names)
    found = _match(before, after, [n for n in names[0] if n not in new], [n for n in names[1] if n not in old])
    unmatched = old - new - found.keys() and new - old - set(found.values())
    if unmatched or [n for n in names[0] if n in new] != [n for n in names[1] if n in old]:
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


def _names(*sides: Any) -> list[list[str]]:
    """Name the columns of each side, where it is a frame whose memory can be looked at."""
    names: list[list[str]] = []
    for data in sides:
        is_frame = is_a(data, "pandas", "DataFrame") or is_a(data, "polars", "DataFrame")
        names.append(list(data.columns if is_frame else data.schema.names if isinstance(data, _TABLES) else ()))
    return names


def _owned(name: str, column: Any) -> _Column | None:
    """Return where the memory lies that the frame owns; None where it owns none, or there are no rows."""
    dtype = column.dtype if hasattr(column, "dtype") else column.type
    if is_a(dtype, "numpy", "dtype") or (is_a(dtype, "pandas", "StringDtype") and dtype.storage == "python"):
        one, other = (column.to_numpy() for _ in range(2))
        place = one.__array_interface__["data"][0], one.strides, len(one)
        owned = len(one) > 0 and place[0] == other.__array_interface__["data"][0]
        return _Column(name, dtype, place, [], one) if owned else None
    try:
        exports = [_export(column) for _ in range(2)]
    except pa.ArrowException:  # such as categories that are NumPy's numbers of several widths
        return None
    parts, others = ([*_parts(export)] for export in exports)
    buffers, again = ([buffer for part, _ in some for buffer in part.buffers()] for some in (parts, others))
    proves = [with_values for part, with_values in parts for _ in part.buffers()]
    places = [_stays(*both) for both in zip(buffers, again, strict=True)]
    owned = [b for b, place, proof in zip(buffers, places, proves, strict=True) if place and proof]
    if not any(np.frombuffer(buffer, np.bool_).any() for buffer in owned):
        return None
    made = [buffer for buffer, place in zip(buffers, places, strict=True) if place is False]
    return _Column(name, dtype, (*((len(part), part.offset) for part, _ in parts), *places), made, exports[0])


def _stays(buffer: pa.Buffer | None, again: pa.Buffer | None) -> int | bool | None:
    """Return the address of a buffer that lies where it lay; False if it was made again, None if it is empty."""
    if not buffer and not again:
        return None
    return buffer.address if buffer and again and buffer.address == again.address else False


def _export(column: Any) -> pa.ChunkedArray:
    if is_a(column, "pandas", "Series"):
        column = pa.array(column)
    elif is_a(column, "polars", "Series"):
        # the codes; what they stand for is the same for all columns of the dtype
        column = pa.chunked_array(column.to_physical() if is_a(column.dtype, "polars", "Categorical") else column)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _parts(data: Any, with_values: bool = True) -> Iterator[tuple[pa.Array, bool]]:
    """Yield the arrays of a column, and whether they are its own: the values of an Enum are those of its dtype."""
    if isinstance(data, pa.ChunkedArray):
        for chunk in data.chunks:
            yield from _parts(chunk)
        return
    yield data, with_values
    arrow = data.type
    if types.is_primitive(arrow):
        return
    inside: list[pa.Array] = []
    if isinstance(data, pa.ExtensionArray):
        inside = [data.storage]
    elif types.is_dictionary(arrow):
        inside, with_values = [data.dictionary], False
    elif types.is_struct(arrow):
        inside = [data.field(at) for at in range(arrow.num_fields)]
    elif types.is_map(arrow):
        inside = [data.keys, data.items]
    elif types.is_nested(arrow) or types.is_run_end_encoded(arrow):
        inside = [data.values]
    for part in inside:
        yield from _parts(part, with_values)
