"""The values of tuples → Arrow arrays of the same values.

A NaN is a value here. `pa.array` would cut the nanoseconds of a list of Timestamps, and
take a date beside a datetime, or a moment without zone beside one with a zone, for what
it is not (pyarrow 26): only lists of one plain type are converted as a whole.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

_ALIKE = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.large_string(),
    bytes: pa.large_binary(),
}
# units of moments and of spans that are whole seconds
_COARSE = {"M": "hm", "m": "WDhm"}
_OBJECTS = np.dtype(object)
_MOST_DIGITS = pa.decimal256(76, 0)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def to_arrays(values: Iterable[Any]) -> list[pa.Array]:
    """Return a list, array or series of values as arrays, one for each type.

    Raise an error of Python or Arrow if a value has no type.
    """
    kind = type(values)
    if kind.__module__.startswith("polars."):
        return [series_to_array(values)]
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return [_decoded(values)]
    if isinstance(values, np.ndarray) and values.dtype != _OBJECTS:
        return [_from_numpy(values)]
    if getattr(values, "dtype", _OBJECTS) != _OBJECTS:
        return [_decoded(pa.array(values))]
    listed = list(values)
    kinds = {*map(type, listed)}
    if len(kinds) == 1 and kinds <= _ALIKE.keys():
        return [_to_array(listed, _ALIKE[kinds.pop()])]
    alike = defaultdict(list)
    for value in listed:
        array = to_array(value)
        alike[array.type].append(array)
    return [pa.concat_arrays(arrays) for arrays in alike.values()]


def to_array(value: Any) -> pa.Array:
    """Return one value of Python, NumPy or pandas as an array; null as a null."""
    if is_null(value):
        return pa.nulls(1)
    for kind, convert in _CONVERTERS:
        if isinstance(value, kind):
            return convert(value)
    raise TypeError(f"a value of type {type(value).__name__}")


def _from_numpy(values: Any) -> pa.Array:
    """Convert an array; Arrow has no minutes, hours and so on (pyarrow 26)."""
    kind = values.dtype.kind
    if kind in _COARSE and np.datetime_data(values.dtype)[0] in _COARSE[kind]:
        seconds = values.astype(f"{kind}8[s]")
        if not np.array_equal(seconds.astype(values.dtype), values):
            raise OverflowError("more seconds than 64 bits count")
        values = seconds
    return pa.array(values)


def _moment(value: Any) -> pa.Array:
    if hasattr(value, "to_datetime64"):
        # of pandas, in UTC
        moment = pa.array(np.array([value.to_datetime64()]))
        return moment.view(pa.timestamp(moment.type.unit, value.tz and "UTC"))
    if value.tzinfo is None:
        return pa.array([value])
    # not by Arrow, which asks for the zone's name
    count = (value - _EPOCH) // _MICROSECOND
    return pa.array([count], pa.timestamp("us", "UTC"))


def _span(value: Any) -> pa.Array:
    if hasattr(value, "to_timedelta64"):
        value = value.to_timedelta64()
    return _from_numpy(np.array([value]))


def _time(value: Any) -> pa.Array:
    if value.tzinfo is not None:
        raise TypeError("Arrow has no times of day in a zone")
    return pa.array([value])


def is_null(value: Any) -> bool:
    """Return whether a value is null. NaN is none."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    # pandas' own, which need not be loaded
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def series_to_array(values: Any) -> pa.Array:
    """Return a series of Polars as an array. Categories become text."""
    kind = str(values.dtype)
    if kind == "Object":
        # as Arrow, their addresses (Polars 2.1)
        raise ValueError(
            "where: Polars' objects cannot be compared; nothing was sent; pass values"
        )
    # Arrow has no integers of 128 bits
    if kind in ("Int128", "UInt128"):
        return pa.array(map(decimal.Decimal, values), _MOST_DIGITS)
    return _decoded(values.to_arrow())


def _to_array(values: list[Any], arrow: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, arrow)
    except OverflowError:
        return pa.array(values, _MOST_DIGITS)


def _decoded(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.dictionary_decode() if types.is_dictionary(array.type) else array


_CONVERTERS: tuple[tuple[Any, Callable[[Any], pa.Array]], ...] = (
    *(
        (kind, lambda value, arrow=arrow: _to_array([value], arrow))
        for kind, arrow in _ALIKE.items()
    ),
    (np.generic, lambda value: _from_numpy(np.array([value]))),
    (uuid.UUID, lambda value: pa.array([value.bytes], pa.binary(16))),
    (datetime.datetime, _moment),
    (datetime.timedelta, _span),
    (datetime.time, _time),
    ((datetime.date, decimal.Decimal), lambda value: pa.array([value])),
)
