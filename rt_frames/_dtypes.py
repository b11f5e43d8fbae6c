"""Any dtype → Arrow type: pandas, NumPy, Polars, pyarrow, Python, and strings in their spellings.

One rule ties types to frames: a dtype means what a column of that dtype becomes when it is sent.
Libraries are recognised without importing them: a dtype of a library that is not loaded cannot exist.
"""

from __future__ import annotations

import datetime
import decimal
import re
import sys
from typing import TYPE_CHECKING, Any

from rt_frames._data_types import arrow_type, data_type_of
from rt_frames._polars_dtypes import from_polars
from rt_frames._portable import PANDAS_ADVICE, coded, portable, refuse

if TYPE_CHECKING:
    import pyarrow as pa


def data_type(dtype: Any) -> dict[str, Any]:
    """Say any dtype as the service's ``data_type`` object: what a column of it becomes when it is sent.

    Parameters
    ----------
    dtype : dtype
        Of pandas, NumPy, Polars or pyarrow; a Python type; or a string such as ``"Int64"``, ``"float32"``,
        ``"timestamp[us, tz=UTC]"``. An object that is a ``data_type`` already is checked.

    Returns
    -------
    dict
        As the service's documentation describes it under "Column alteration"; the names of types are those
        that the service's official client sends.

    Raises
    ------
    UnsupportedTypeError
        If a column of that type cannot be sent, or the service has no word for it.
    ValueError
        If a string means nothing, or two things.

    Examples
    --------
    >>> import rt_frames as rt
    >>> rt.data_type("timestamp[us, tz=UTC]")
    {'type': 'timestamp:us:UTC'}
    >>> rt.data_type(int)
    {'type': 'int64'}
    """
    return data_type_of(arrow_type_of(dtype))


def arrow_type_of(dtype: Any, path: str = "") -> pa.DataType:
    """Give the portable Arrow type of any dtype; ``path`` is the column's, for the error."""
    import pyarrow as pa

    if isinstance(dtype, pa.DataType):
        return portable(dtype, path)
    if isinstance(dtype, str):
        return portable(_from_string(dtype, path), path)
    if isinstance(dtype, dict):
        return portable(arrow_type(dtype), path)
    for module, convert in (("polars", from_polars), ("pandas", _from_pandas), ("numpy", _from_numpy)):
        found = convert(dtype, path) if module in sys.modules else None
        if found is not None:
            return portable(found, path)
    return portable(_from_python(dtype, path), path)


_AMBIGUOUS = 'dtype "float" is 64 bits in pandas and 32 in Arrow; say "float64" or "float32"'
_SPELLINGS = 'for example "int64", "float32", "large_string", "Int64", "timestamp[us, tz=UTC]", "decimal128(10, 2)"'
_OWN_WORDS = {"str": "large_string", "string": "large_string", "utf8": "string", "int": "int64", "double": "float64"}
_NO_TYPE = {
    "object": "without data it is not known what it holds; say the type of the values",
    "category": "the bare word has no value type; give the CategoricalDtype or Enum, or the values' own type",
}


def _from_string(text: str, path: str) -> pa.DataType:
    import pyarrow as pa

    if text == "float":
        raise ValueError(_AMBIGUOUS)
    if text in _NO_TYPE:
        raise refuse(path, f"dtype {text!r}", _NO_TYPE[text])
    try:
        return pa.type_for_alias(_OWN_WORDS.get(text, text))
    except ValueError:
        pass
    found = _with_parameters(text)
    return found if found is not None else _from_pandas_string(text, path)


def _with_parameters(text: str) -> pa.DataType | None:
    """Read the spellings that Arrow prints and does not read."""
    import pyarrow as pa

    try:
        if match := re.fullmatch(r"timestamp\[(s|ms|us|ns), ?tz=([^\[\]]+)\]", text):
            return pa.timestamp(match[1], match[2])
        if match := re.fullmatch(r"decimal(32|64|128|256)\((\d+), ?(-?\d+)\)", text, re.ASCII):
            return getattr(pa, f"decimal{match[1]}")(int(match[2]), int(match[3]))
        if match := re.fullmatch(r"fixed_size_binary\[(\d{1,9})\]", text, re.ASCII):
            return pa.binary(int(match[1]))
    except (ValueError, TypeError, AttributeError, OverflowError, pa.ArrowException) as error:
        raise ValueError(f"dtype {text!r:.80}: {error}") from None
    return None


def _from_pandas_string(text: str, path: str) -> pa.DataType:
    import numpy as np
    from pandas.api.types import pandas_dtype

    if not text.isascii() or not re.fullmatch(r"[<>=|]?[A-Za-z][\w\[\], :./+()-]*|[<>=|]?[A-Za-z]\d+", text):
        raise ValueError(f"dtype {text!r:.80} is not known; {_SPELLINGS}")
    try:
        dtype = pandas_dtype(text)
    except Exception:  # noqa: BLE001  # pandas' parsers of strings raise many kinds
        raise ValueError(f"dtype {text!r:.80} is not known; {_SPELLINGS}") from None
    if isinstance(dtype, np.dtype):
        return _from_numpy_dtype(dtype, path)
    found = _from_pandas(dtype, path)
    if found is None:
        raise ValueError(f"dtype {text!r:.80} is not known; {_SPELLINGS}")
    return found


def _from_pandas(dtype: Any, path: str) -> pa.DataType | None:
    import pandas as pd
    import pyarrow as pa

    if isinstance(dtype, type) and issubclass(dtype, pd.api.extensions.ExtensionDtype):
        dtype = _instance(dtype, path)
    if not isinstance(dtype, pd.api.extensions.ExtensionDtype):
        return None
    if isinstance(dtype, pd.ArrowDtype):
        text = pa.large_string() if pa.types.is_string(dtype.pyarrow_dtype) else None
        return text or dtype.pyarrow_dtype
    if isinstance(dtype, pd.StringDtype):
        return pa.large_string()
    if isinstance(dtype, pd.BooleanDtype):
        return pa.bool_()
    if isinstance(dtype, pd.DatetimeTZDtype):
        return pa.timestamp(dtype.unit, dtype.tz)
    if isinstance(dtype, pd.CategoricalDtype):
        return _from_categories(dtype, path)
    numpy_dtype = getattr(dtype, "numpy_dtype", None)
    if numpy_dtype is not None and not isinstance(dtype, pd.SparseDtype):
        return _from_numpy_dtype(numpy_dtype, path)
    raise refuse(path, f"pandas' {dtype}", PANDAS_ADVICE.get(type(dtype).__name__, "convert it with .astype(...)"))


def _instance(dtype: type, path: str) -> Any:
    try:
        return dtype()
    except TypeError:
        raise refuse(path, f"pandas' {dtype.__name__} without parameters", "give an instance of it") from None


def _from_categories(dtype: Any, path: str) -> pa.DataType:
    import numpy as np
    import pyarrow as pa

    if dtype.categories is None:
        raise refuse(path, "a CategoricalDtype without categories", _NO_TYPE["category"])
    values = dtype.categories
    if values.dtype == np.dtype(object):
        return coded(pa.array(values, from_pandas=True).type)
    return coded(arrow_type_of(values.dtype, path))


def _from_numpy(dtype: Any, path: str) -> pa.DataType | None:
    import numpy as np

    if isinstance(dtype, type) and issubclass(dtype, np.generic):
        if dtype is np.str_ or dtype is np.bytes_:
            return _from_python(str if dtype is np.str_ else bytes, path)
        try:
            dtype = np.dtype(dtype)
        except TypeError:
            raise refuse(path, f"NumPy's abstract {dtype.__name__}", f"say which size, {_SPELLINGS}") from None
    return _from_numpy_dtype(dtype, path) if isinstance(dtype, np.dtype) else None


def _from_numpy_dtype(dtype: Any, path: str) -> pa.DataType:
    import numpy as np
    import pyarrow as pa

    if dtype.kind in "UT":
        return pa.large_string()
    if dtype.kind == "S":
        return pa.large_binary()
    if dtype.kind == "O":
        raise refuse(path, "dtype object", _NO_TYPE["object"])
    try:
        if dtype.kind == "M" and np.datetime_data(dtype)[0] == "D":
            return pa.date32()
        return pa.from_numpy_dtype(dtype.newbyteorder("="))
    except (pa.ArrowException, NotImplementedError, ValueError) as error:
        advice = {
            "c": "send .real and .imag as two columns",
            "m": "use a unit of s, ms, us or ns",
            "M": "use a unit of s, ms, us or ns",
        }.get(dtype.kind, "cast it to float64")
        raise refuse(path, f"NumPy's {dtype}", advice) from error


_PYTHON = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "large_string",
    bytes: "large_binary",
    datetime.datetime: "timestamp[us]",
    datetime.date: "date32",
    datetime.time: "time64[ns]",
    datetime.timedelta: "duration[us]",
    type(None): "null",
}


def _from_python(dtype: Any, path: str) -> pa.DataType:
    import pyarrow as pa

    if isinstance(dtype, type) and dtype in _PYTHON:
        return pa.type_for_alias(_PYTHON[dtype])
    if dtype is decimal.Decimal:
        raise refuse(path, "Decimal without precision", "say pyarrow.decimal128(10, 2), or pl.Decimal(10, 2)")
    if dtype is object:
        raise refuse(path, "dtype object", _NO_TYPE["object"])
    raise refuse(path, f"{_shown(dtype)} as a dtype", f"say a dtype of pandas, Polars or Arrow, {_SPELLINGS}")


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.80}"
    except Exception:  # noqa: BLE001  # a stranger's repr may raise anything
        return f"an object of type {type(value).__name__}"
