"""Any dtype → Arrow type: pandas, NumPy, Polars, pyarrow, Python, and strings in their spellings.

One rule ties types to frames: a dtype means what a column of that dtype becomes when it is sent.
Libraries are recognised without importing them: a dtype of a library that is not loaded cannot exist.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import re
import sys
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rt_frames._schema.data_type import arrow_type, shown, to_data_type
from rt_frames._schema.polars_dtype import from_polars
from rt_frames._schema.portable import PANDAS_ADVICE, coded, portable, refuse

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
        If a string means nothing, or two things, or a ``data_type`` object is wrong or incomplete.

    Examples
    --------
    >>> import rt_frames as rt
    >>> rt.data_type("timestamp[us, tz=UTC]")
    {'type': 'timestamp:us:UTC'}
    >>> rt.data_type(int)
    {'type': 'int64'}
    """
    return to_data_type(to_arrow_type(dtype))


def to_arrow_type(dtype: Any, path: str = "") -> pa.DataType:
    """Give the portable Arrow type of any dtype; ``path`` is the column's, for the error."""
    try:
        return portable(_arrow(dtype, path), path)
    except RecursionError:
        raise refuse(path, "a type nested this deeply", "flatten it first") from None


def _arrow(dtype: Any, path: str) -> pa.DataType:
    import pyarrow as pa

    if isinstance(dtype, pa.DataType):
        return dtype
    if isinstance(dtype, str):
        return _arrow(_read(dtype, path), path)
    if isinstance(dtype, Mapping):
        return arrow_type(dtype)
    for module, convert in (("polars", from_polars), ("pandas", _from_pandas), ("numpy", _from_numpy)):
        found = convert(dtype, path) if sys.modules.get(module) else None
        if found is not None:
            return found
    return _from_python(dtype, path)


_SPELLINGS = 'for example "int64", "float32", "large_string", "Int64", "timestamp[us, tz=UTC]", "decimal128(10, 2)"'
_NO_TYPE = {
    "object": "without data it is not known what it holds; say the type of the values",
    "category": "the bare word has no value type; give the CategoricalDtype or Enum, or the values' own type",
}
_OWN_WORDS = {"str": "large_string", "string": "large_string", "utf8": "string", "int": "int64", "double": "float64"}


def _read(text: str, path: str) -> Any:
    """Give the dtype of pyarrow, pandas or NumPy that a string means."""
    import pyarrow as pa

    if text == "float":
        raise ValueError('dtype "float" is 64 bits in pandas and 32 in Arrow; say "float64" or "float32"')
    if text in _NO_TYPE:
        raise refuse(path, f"dtype {text!r}", _NO_TYPE[text])
    name = text.removesuffix("[pyarrow]")
    found = _read_arrow(_OWN_WORDS.get(name, name))
    if found is None:
        return _read_pandas(text)
    # with pandas' suffix it is text from pandas, which is laid out large
    return pa.large_string() if name != text and pa.types.is_string(found) else found


def _read_arrow(text: str) -> pa.DataType | None:
    """Read what Arrow reads, and the spellings with parameters that it prints and does not read."""
    import pyarrow as pa

    try:
        if match := re.fullmatch(r"timestamp\[(s|ms|us|ns), ?tz=([\w+:/-]+)\]", text, re.ASCII):
            return pa.timestamp(match[1], match[2])
        if match := re.fullmatch(r"decimal(32|64|128|256)\((\d+), ?(-?\d+)\)", text, re.ASCII):
            return getattr(pa, f"decimal{match[1]}")(int(match[2]), int(match[3]))
        if match := re.fullmatch(r"fixed_size_binary\[(\d{1,9})\]", text, re.ASCII):
            return pa.binary(int(match[1]))
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        raise ValueError(f"dtype {text!r:.80}: {error}") from None
    try:
        # Arrow ignores case, and would take NumPy's "U8", text of eight characters, for uint8
        return pa.type_for_alias(text) if text == text.lower() else None
    except ValueError:
        return None


def _read_pandas(text: str) -> Any:
    unknown = ValueError(f"dtype {text!r:.80} is not known; say one, {_SPELLINGS}")
    # NumPy's "a5" is on its way out
    if not re.fullmatch(r"[<>=|]?(?!a\d*$)[A-Za-z?][\w\[\], :./+()-]*", text, re.ASCII):
        raise unknown
    try:
        from pandas.api.types import pandas_dtype

        return pandas_dtype(text)
    except Exception:  # noqa: BLE001  # pandas' parsers of strings raise many kinds
        raise unknown from None


def _from_pandas(dtype: Any, path: str) -> pa.DataType | None:
    import pandas as pd
    import pyarrow as pa

    if isinstance(dtype, type) and issubclass(dtype, pd.api.extensions.ExtensionDtype):
        dtype = _instance(dtype, path)
    if not isinstance(dtype, pd.api.extensions.ExtensionDtype):
        return None
    if isinstance(dtype, pd.ArrowDtype):
        return pa.large_string() if pa.types.is_string(dtype.pyarrow_dtype) else dtype.pyarrow_dtype
    if isinstance(dtype, pd.StringDtype):
        return pa.large_string()
    if isinstance(dtype, pd.DatetimeTZDtype):
        return pa.timestamp(dtype.unit, _zone(dtype.tz, path))
    if isinstance(dtype, pd.CategoricalDtype):
        return _from_categories(dtype, path)
    # boolean, Int64 and their like; of what other libraries add, the type of the data is not known
    numpy_dtype = getattr(dtype, "numpy_dtype", None) if _is_pandas_own(type(dtype)) else None
    if numpy_dtype is not None:
        return _from_numpy_dtype(numpy_dtype, path)
    advice = PANDAS_ADVICE.get(type(dtype).__name__, 'convert it with .astype(...), for example to "str"')
    raise refuse(path, f"pandas' {shown(dtype)}", advice)


def _is_pandas_own(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "pandas"


def _instance(dtype: type, path: str) -> Any:
    """Make what a class of pandas stands for that needs no parameters."""
    if _is_pandas_own(dtype):
        with contextlib.suppress(TypeError):
            return dtype()
    advice = PANDAS_ADVICE.get(dtype.__name__, "give an instance of it")
    raise refuse(path, f"pandas' {dtype.__name__} without parameters", advice)


def _zone(zone: Any, path: str) -> str:
    """Name a time zone as Arrow does, if that name means the same zone: for some, Arrow has but a guess."""
    import pyarrow as pa

    winter_and_summer = (1735689600, 1751328000)
    with contextlib.suppress(ValueError, TypeError, LookupError):
        arrow = pa.timestamp("s", zone)
        named = [pa.scalar(second, arrow).as_py() for second in winter_and_summer]
        if all(at.utcoffset() == at.astimezone(zone).utcoffset() for at in named):
            return str(arrow.tz)
    raise refuse(path, f"the time zone {shown(zone)}", 'convert it to one with a name, .dt.tz_convert("UTC")')


def _from_categories(dtype: Any, path: str) -> pa.DataType:
    import numpy as np
    import pyarrow as pa

    if dtype.categories is None:
        raise refuse(path, "a CategoricalDtype without categories", _NO_TYPE["category"])
    if dtype.categories.dtype != np.dtype(object):
        return coded(portable(_arrow(dtype.categories.dtype, path), path))
    kinds = sorted({type(value).__name__ for value in dtype.categories})
    with contextlib.suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        value = pa.array(dtype.categories, from_pandas=True).type
        # mixed kinds would be guessed at, and a dictionary of lists cannot be decoded
        if len(kinds) <= 1 and not pa.types.is_nested(value):
            return coded(value)
    advice = "make its categories of one plain kind, for example with .cat.rename_categories(str)"
    raise refuse(path, f"a category of {' and '.join(kinds)[:200]}", advice)


def _from_numpy(dtype: Any, path: str) -> pa.DataType | None:
    import numpy as np

    if isinstance(dtype, np.dtype):
        return _from_numpy_dtype(dtype, path)
    if not isinstance(dtype, type) or not issubclass(dtype, np.generic):
        return None
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.type is not dtype:
        raise refuse(path, f"NumPy's abstract {dtype.__name__}", f"say which size, {_SPELLINGS}")
    return _from_numpy_dtype(found, path)


_NUMPY_ADVICE = {
    "O": _NO_TYPE["object"],
    "V": "make a column of each of its fields",
    "c": "send .real and .imag as two columns",
    "f": "cast it to float64",
    "m": "use a unit of s, ms, us or ns",
    "M": "use a unit of s, ms, us or ns",
}


def _from_numpy_dtype(dtype: Any, path: str) -> pa.DataType:
    import numpy as np
    import pyarrow as pa

    if dtype.kind in "UT":
        return pa.large_string()
    if dtype.kind == "S":
        return pa.large_binary()
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        return pa.from_numpy_dtype(dtype.newbyteorder("="))
    if dtype.kind in "mM":
        unit, count = np.datetime_data(dtype)
        if count == 1 and unit in ("s", "ms", "us", "ns"):
            return pa.timestamp(unit) if dtype.kind == "M" else pa.duration(unit)
        if (dtype.kind, count, unit) == ("M", 1, "D"):
            return pa.date32()
    raise refuse(path, f"NumPy's {dtype!s:.80}", _NUMPY_ADVICE.get(dtype.kind, "convert it first"))


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
_PYTHON_ADVICE = {
    decimal.Decimal: "it has no precision; say pyarrow.decimal128(10, 2), or pl.Decimal(10, 2)",
    object: _NO_TYPE["object"],
    complex: _NUMPY_ADVICE["c"],
    list: "say a dtype with what it holds, for example pyarrow.list_(pyarrow.int64()) or pl.List(pl.Int64)",
    dict: 'say a dtype with its fields, for example pl.Struct({"x": pl.Int64}) or the pyarrow.struct(...) of them',
}


def _from_python(dtype: Any, path: str) -> pa.DataType:
    import pyarrow as pa

    def of(table: dict[Any, str], kind: Any) -> str | None:
        # not a look-up: a stranger's class may refuse to be hashed or compared
        return next((value for known, value in table.items() if kind is known), None)

    if name := of(_PYTHON, dtype):
        return pa.type_for_alias(name)
    advice = of(_PYTHON_ADVICE, typing.get_origin(dtype) or dtype) or f"say a dtype, {_SPELLINGS}"
    raise refuse(path, f"{shown(dtype)} as a dtype", advice)
