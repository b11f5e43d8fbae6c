"""The dictionaries of one stream: one for each column and place, unified from batch to batch; it only grows.

No batch may rely on a dictionary that another codec's writer sent, so each is given the whole one of its place.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types


class Dictionaries:
    """What is known of the dictionary of each path, such as ``"address.city"``, and type: names may hold dots."""

    def __init__(self, known: dict[tuple[str, pa.DataType], pa.Array]) -> None:
        self._known = known

    def unify(self, codes: pa.Array, values: pa.Array, path: str) -> pa.DictionaryArray:
        """Return codes of some values as codes of their place's dictionary, which grows by those that are new."""
        # seen as signed, codes beyond 31 bits are below zero
        codes = codes.view(pa.int32()) if types.is_uint32(codes.type) else codes.cast(pa.int32())
        ends = pc.call_function("min_max", [codes]).as_py()  # which takes a quarter of the time of Arrow's own check
        if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < len(values):
            raise ValueError(f"codes from {ends['min']} to {ends['max']} do not stand for {len(values)} values")
        place = path, values.type
        known = self._known.setdefault(place, values)
        if not known.equals(values):
            positions = _positions(values, known)
            if positions.null_count:
                new = values.filter(positions.is_null()).unique()
                known = self._known[place] = pa.concat_arrays([known, new])
                positions = _positions(values, known)
            codes = positions.take(codes)
        return pa.DictionaryArray.from_arrays(codes, known, safe=False)


def _positions(values: pa.Array, known: pa.Array) -> pa.Array:
    """Return where each value stands among the known ones; null where it does not."""
    return pc.call_function("index_in", [values], pc.SetLookupOptions(value_set=known))
