"""Read pandas columns cell by cell, by what their dtype keeps, and say which column an index becomes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from tests.longer.attack import arrow_cells, values
from tests.longer.attack.values import NAN_OR_NULL, Value

REFUSED = (pd.PeriodDtype, pd.IntervalDtype, pd.SparseDtype)


def cells(series: pd.Series) -> list[Value]:
    """Say what each cell means."""
    dtype = series.dtype
    if isinstance(dtype, REFUSED):
        return [("unknown", str(dtype))] * len(series)
    if isinstance(dtype, pd.CategoricalDtype):
        words = cells(pd.Series(dtype.categories))
        return [None if code < 0 else words[code] for code in series.cat.codes.tolist()]
    if isinstance(dtype, pd.ArrowDtype):
        return [NAN_OR_NULL if x == ("float", "nan") else x for x in arrow_cells.cells(series.array.__arrow_array__())]
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _zoned(series)
    if isinstance(dtype, pd.StringDtype) or pd.api.types.is_object_dtype(dtype):
        return [values.value_of(x, top=True) for x in series.tolist()]
    if isinstance(dtype, np.dtype):
        return _numpy(series.to_numpy())
    return _nullable(series)


def _zoned(series: pd.Series) -> list[Value]:
    zone = values.zone_of(series.dtype.tz)
    naive = values.numpy_moments(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if zone is None:
        return [value and ("unknown", "a zone without a name") for value in naive]
    return [value and ("ts", value[1], zone) for value in naive]


def _numpy(array: np.ndarray) -> list[Value]:
    if array.dtype.kind in "mM":
        return values.numpy_moments(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))))
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return [None if x != x else values.float_value(x) for x in array.tolist()]  # noqa: PLR0124  # a NaN
    kind = {"b": "bool", "i": "int", "u": "int"}.get(array.dtype.kind)
    if kind is None:
        return [("unknown", str(array.dtype))] * len(array)
    return [(kind, x) for x in array.tolist()]


def _nullable(series: pd.Series) -> list[Value]:
    """Read pandas' own nullable numbers; a NaN that is not missing may become either."""
    missing = series.isna().tolist()
    plain = series.array.to_numpy(dtype=series.dtype.numpy_dtype, na_value=series.dtype.numpy_dtype.type(0))
    found = _numpy(plain)
    return [None if gone else value or NAN_OR_NULL for gone, value in zip(missing, found, strict=True)]


def promised_type(series: pd.Series) -> pa.DataType | None:
    """Say which Arrow type is to be stored; None where that depends on the values."""
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return promised_type(pd.Series(dtype.categories))
    if isinstance(dtype, pd.ArrowDtype):
        if pa.types.is_dictionary(dtype.pyarrow_dtype):  # as a category, or as Arrow's own: both are right
            return None
        type_ = arrow_cells.promised_type(dtype.pyarrow_dtype)
        return pa.large_string() if pa.types.is_string(dtype.pyarrow_dtype) else type_
    if isinstance(dtype, pd.StringDtype):
        return pa.large_string()
    if isinstance(dtype, pd.DatetimeTZDtype):
        zone = values.zone_of(dtype.tz)
        return zone and pa.timestamp(dtype.unit, zone)
    plain = getattr(dtype, "numpy_dtype", dtype)
    if not isinstance(plain, np.dtype) or plain.kind not in "biufmM" or plain.itemsize > 8:
        return None
    return pa.from_numpy_dtype(plain.newbyteorder("="))


def with_index(frame: pd.DataFrame, index: bool | None) -> pd.DataFrame:
    """Make columns of the levels that are to be stored, by the rules that are promised for ``index=``."""
    levels = frame.index
    named = [name is not None for name in levels.names]
    keep = index
    if index is None:
        plain = levels.nlevels == 1 and pd.api.types.is_integer_dtype(levels.dtype)
        keep = any(named) or not plain
    return frame.reset_index() if keep else frame.reset_index(drop=True)
