"""Arrow arrays, taken apart: what is inside them, and where its rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

# pa.array and pa.scalar would import pandas if it is installed (pyarrow 26)
_ZERO = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(bytes(8))])


def is_cut(array: pa.Array) -> bool:
    """Return whether an array inside is empty.

    Arrow's writer miscounts an empty slice that another library exported (pyarrow 26).
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not types.is_nested(array.type) or types.is_union(array.type):
        return False
    if not len(array):
        return array.offset > 0 or not types.is_struct(array.type)
    return any(not len(child) or is_cut(child) for child in arrays_inside(array))


def arrays_inside(array: pa.Array) -> list[pa.Array]:
    """Return the arrays inside an array, trimmed to its rows."""
    if types.is_struct(array.type):
        return [array.field(i) for i in range(array.type.num_fields)]
    if types.is_map(array.type):
        return _used(array.offsets, array.keys, array.items)
    if types.is_fixed_size_list(array.type):
        size = array.type.list_size
        return [array.values.slice(array.offset * size, len(array) * size)]
    return _used(array.offsets, array.values)


def _used(offsets: pa.Array, *children: pa.Array) -> list[pa.Array]:
    """Trim values to the range that the offsets cover."""
    start = offsets[0].as_py()
    length = offsets[-1].as_py() - start
    return [child.slice(start, length) for child in children]


def rebased(offsets: pa.Array, *children: pa.Array) -> list[pa.Array]:
    """Rebase offsets to 0, and trim values to the range that the offsets cover."""
    rebased = pc.call_function("subtract", [offsets, offsets[0]])
    return [rebased, *_used(offsets, *children)]


def positions_in_views(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the offsets of list views as of lists, and the items' positions."""
    lengths = pc.call_function("list_value_length", [array])
    lengths = lengths.fill_null(0).cast(pa.int64())
    ends = pc.call_function("cumulative_sum", [lengths])
    sizes = lengths.to_numpy()
    starts = array.offsets.to_numpy()
    shifts = starts.astype(np.int64) - (ends.to_numpy() - sizes)
    positions = np.repeat(shifts, sizes) + np.arange(sizes.sum())
    return pa.concat_arrays([_ZERO, ends]), _as_arrow(positions)


def _as_arrow(numbers: np.ndarray[Any, Any]) -> pa.Array:
    values = pa.py_buffer(numbers.astype(np.int64, copy=False))
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, values])


def positions_in_runs(array: pa.RunEndEncodedArray) -> pa.Array:
    """Return the run of each row. Arrow's own decoding knows few types (pyarrow 21)."""
    rows = np.arange(array.offset, array.offset + len(array))
    ends = array.run_ends.to_numpy()
    return _as_arrow(np.searchsorted(ends, rows, side="right"))
