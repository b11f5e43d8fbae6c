"""The dictionaries of one stream, one per path: each batch adds its new values.

A dictionary is replaced if it lacked most of a batch's values, or is much larger than
the batch's values, so that no batch sends much more than its own values. A batch cannot
rely on a dictionary that another codec's writer sent, so each batch gets the whole
dictionary of its path; a version number tells a writer which dictionaries were sent.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

# a dictionary is kept up to this many values, or this many per value of the batch
KEPT_VALUES = 64
KEPT_PER_VALUE = 4


class Dictionaries:
    """The dictionary of each path, such as ``"address.city"``, and type.

    By type too, as a name with a dot may equal the path of another column.

    Attributes
    ----------
    version : int
        Grows with each change of a dictionary.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, pa.DataType], pa.Array] = {}
        self.version = 0

    def unify(self, codes: pa.Array, values: pa.Array, path: str) -> pa.DictionaryArray:
        """Return codes of the path's dictionary, to which new values are added."""
        if types.is_uint32(codes.type):
            # codes beyond 31 bits are then negative
            codes = codes.view(pa.int32())
        elif not types.is_int32(codes.type):
            codes = codes.cast(pa.int32())
        _check_codes(codes, len(values))
        key = path, values.type
        known = self._known.setdefault(key, values)
        if not known.equals(values):
            # a dictionary that has only grown keeps its codes
            if not values.slice(0, len(known)).equals(known):
                codes, values = _unify(known, codes, values)
            if not known.equals(values):
                self._known[key] = values
                self.version += 1
        return pa.DictionaryArray.from_arrays(codes, self._known[key], safe=False)


def _unify(
    known: pa.Array, codes: pa.Array, values: pa.Array
) -> tuple[pa.Array, pa.Array]:
    """Return codes and values of a dictionary that begins with the known one.

    The same codes and values if that dictionary would be too large.
    """
    # Arrow cannot unify dictionaries that have nulls (pyarrow 26)
    has_nulls = known.null_count or values.null_count
    limit = max(KEPT_VALUES, KEPT_PER_VALUE * len(values))
    is_too_large = len(values) > 0 and len(known) > limit
    if has_nulls or is_too_large:
        return codes, values
    before = pa.DictionaryArray.from_arrays(pa.nulls(0, pa.int32()), known, safe=False)
    coded = pa.DictionaryArray.from_arrays(codes, values, safe=False)
    unified = pa.chunked_array([before, coded]).unify_dictionaries().chunk(1)
    new_values = len(unified.dictionary) - len(known)
    if 2 * new_values > len(values):
        return codes, values
    return unified.indices, unified.dictionary


def _check_codes(codes: pa.Array, length: int) -> None:
    """Raise if a code has no value, in a quarter of the time of Arrow's check."""
    stored = np.frombuffer(
        codes.buffers()[1] or b"", np.uint32, len(codes), 4 * codes.offset
    )
    # as unsigned numbers, negative ones are large
    if not len(stored) or stored.max() < length:
        return
    # without the codes under nulls
    ends = pc.call_function("min_max", [codes]).as_py()
    if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < length:
        raise ValueError(
            f"its codes are from {ends['min']} to {ends['max']}, for {length} values"
        )
