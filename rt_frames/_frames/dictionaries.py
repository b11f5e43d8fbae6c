"""The dictionaries of one stream: one for each place, growing by the new values of each batch.

A dictionary starts anew with a batch of whose values it knew less than half, or which has few beside it, so that no
batch brings much more than its own values. As no batch may rely on a dictionary that another codec's writer sent, each
gets the whole one of its place; a version number tells a writer which ones its reader has already.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

FEW, TIMES = 64, 4  # values that a dictionary may always hold, and how many per value of the batch


class Dictionaries:
    """What is known of the dictionary of each path, such as ``"address.city"``, and type: names may hold dots.

    Attributes
    ----------
    version : int
        Another one after each change of any of them.
    """

    def __init__(self, known: dict[tuple[str, pa.DataType], pa.Array]) -> None:
        self._known, self.version = known, 0

    def unify(self, codes: pa.Array, values: pa.Array, path: str) -> pa.DictionaryArray:
        """Return codes of some values as codes of their place's dictionary, which grows by those that are new."""
        # as signed numbers, codes beyond 31 bits are negative
        codes = codes.view(pa.int32()) if types.is_uint32(codes.type) else codes.cast(pa.int32())
        ends = pc.call_function("min_max", [codes]).as_py()  # a quarter of the time of Arrow's own check
        if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < len(values):
            raise ValueError(f"codes from {ends['min']} to {ends['max']} do not stand for {len(values)} values")
        place = path, values.type
        known = self._known.setdefault(place, values)
        if not known.equals(values):
            too_many = len(values) > 0 and len(known) > max(FEW, TIMES * len(values))
            positions = None if too_many else _positions(values, known)
            if positions is None or 2 * positions.null_count > len(values):
                known = self._change(place, values)
            else:
                if positions.null_count:
                    new = values.filter(positions.is_null()).unique()
                    known = self._change(place, pa.concat_arrays([known, new]))
                    positions = _positions(values, known)
                codes = positions.take(codes)
        return pa.DictionaryArray.from_arrays(codes, known, safe=False)

    def _change(self, place: tuple[str, pa.DataType], values: pa.Array) -> pa.Array:
        self._known[place] = values
        self.version += 1
        return values


def _positions(values: pa.Array, known: pa.Array) -> pa.Array:
    """Return where each value stands among the known ones; null where it does not."""
    return pc.call_function("index_in", [values], pc.SetLookupOptions(value_set=known))
