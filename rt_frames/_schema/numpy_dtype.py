"""A NumPy dtype → the Arrow type in which its columns are sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rt_frames._schema.portable import COMPLEX_ADVICE, unsupported, untyped

_ADVICE = {
    "V": "make one column of each of its fields",
    "c": COMPLEX_ADVICE,
    "f": "cast it to float64",
    "m": "use a unit of s, ms, us or ns",
    "M": "use a unit of s, ms, us or ns",
}


def numpy_to_arrow(dtype: np.dtype[Any] | type[np.generic], path: str) -> pa.DataType:
    """Return the Arrow type of a dtype, or raise if the dtype cannot be sent."""
    if isinstance(dtype, type):
        if dtype not in np.sctypeDict.values():
            size = "int64" if issubclass(dtype, np.integer) else "float64"
            sized = f'pass one of a known size, for example "{size}" or numpy.{size}'
            raise unsupported(path, f"NumPy's abstract {dtype.__name__}", sized)
        dtype = np.dtype(dtype)
    if dtype.kind in "UT":
        return pa.large_string()
    if dtype.kind == "S":
        return pa.large_binary()
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        return pa.from_numpy_dtype(dtype.newbyteorder("="))
    if dtype.kind in "mM":
        arrow = _from_moments(dtype)
        if arrow is not None:
            return arrow
    if dtype.kind == "O":
        raise untyped(path, "NumPy's object", "object")
    raise unsupported(
        path, f"NumPy's {dtype!s:.80}", _ADVICE.get(dtype.kind, "convert it first")
    )


def _from_moments(dtype: np.dtype[Any]) -> pa.DataType | None:
    unit, count = np.datetime_data(dtype)
    if count != 1:
        return None
    if unit == "D" and dtype.kind == "M":
        return pa.date32()
    if unit not in ("s", "ms", "us", "ns"):
        return None
    if dtype.kind == "M":
        return pa.timestamp(unit)
    return pa.duration(unit)
