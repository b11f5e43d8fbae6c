"""A pandas dtype → the Arrow type in which its columns are sent."""

from __future__ import annotations

import contextlib

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionDtype

from rt_frames._schema.numpy_dtype import numpy_to_arrow
from rt_frames._schema.objects import infer
from rt_frames._schema.portable import (
    PANDAS_ADVICE,
    TO_TEXT,
    categorical_type,
    to_portable,
    unsupported,
    untyped,
    zone_name,
)
from rt_frames._text import show_value
from rt_frames.errors import UnsupportedTypeError

_ADVICE = {
    pd.SparseDtype: "make it dense first, with .sparse.to_dense()",
    pd.PeriodDtype: PANDAS_ADVICE["pandas.period"],
    pd.IntervalDtype: PANDAS_ADVICE["pandas.interval"],
    ExtensionDtype: f"convert it with .astype(...), or for text with .{TO_TEXT}",
}


_CATEGORIES_ADVICE = f"give its categories one simple type, for example with .cat.rename_categories(str), or use .{TO_TEXT}"


def pandas_to_arrow(
    dtype: ExtensionDtype | type[ExtensionDtype], path: str
) -> pa.DataType:
    """Return the Arrow type of a dtype, or raise if the dtype cannot be sent."""
    if isinstance(dtype, type):
        dtype = _instance(dtype, path)
    if isinstance(dtype, pd.ArrowDtype):
        arrow = dtype.pyarrow_dtype
        if pa.types.is_string(arrow):
            return pa.large_string()
        return to_portable(arrow, path)
    if isinstance(dtype, pd.StringDtype):
        return pa.large_string()
    if isinstance(dtype, pd.DatetimeTZDtype):
        zone = zone_name(dtype.tz, path, '.dt.tz_convert("UTC")')
        return pa.timestamp(dtype.unit, zone)
    if isinstance(dtype, pd.CategoricalDtype):
        return _from_categories(dtype, path)
    library = _library(type(dtype))
    # "boolean", "Int64" and so on; other libraries may use numpy_dtype otherwise
    numpy_dtype = getattr(dtype, "numpy_dtype", None)
    if library == "pandas" and numpy_dtype is not None:
        return numpy_to_arrow(numpy_dtype, path)
    if library == "geopandas":
        advice = "convert it to bytes with .to_wkb(), or to text with .to_wkt()"
        raise unsupported(path, "a geometry", advice)
    advice = next(text for kind, text in _ADVICE.items() if isinstance(dtype, kind))
    raise unsupported(path, f"pandas' {show_value(dtype)}", advice)


def _library(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _instance(kind: type[ExtensionDtype], path: str) -> ExtensionDtype:
    """Return the dtype of a class that needs no parameters."""
    if _library(kind) == "pandas":
        with contextlib.suppress(TypeError):
            return kind()
    raise unsupported(
        path,
        f"pandas' {kind.__name__} without parameters",
        _ADVICE.get(kind, "pass an instance of it"),
    )


def _from_categories(dtype: pd.CategoricalDtype, path: str) -> pa.DataType:
    if dtype.categories is None:
        raise untyped(path, "a CategoricalDtype without categories", "category")
    values = dtype.categories.dtype
    # which pandas gives to categories of nothing but missing values
    if not len(dtype.categories) and values == np.float64:
        return pa.null()
    if isinstance(values, pd.IntervalDtype | pd.PeriodDtype):
        raise unsupported(path, f"a category of {values}", _CATEGORIES_ADVICE)
    if isinstance(values, ExtensionDtype):
        return categorical_type(pandas_to_arrow(values, path))
    if values != np.dtype(object):
        return categorical_type(numpy_to_arrow(values, path))
    # Arrow would guess mixed kinds, and cannot cast dictionaries of lists (pyarrow 26)
    with contextlib.suppress(UnsupportedTypeError):
        arrow = infer(path, dtype.categories.to_numpy(dtype=object)).arrow
        if not pa.types.is_nested(arrow):
            return categorical_type(arrow)
    names = sorted({type(value).__name__ for value in dtype.categories})
    subject = f"a category of {' and '.join(names)[:200]}"
    raise unsupported(path, subject, _CATEGORIES_ADVICE)
