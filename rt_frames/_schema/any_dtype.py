"""Any dtype → Arrow type: pandas, NumPy, Polars, pyarrow, Python, and their spellings.

A dtype means the Arrow type in which a column of that dtype is sent. Libraries are
recognised without importing them: a library that is not loaded has no dtypes.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import difflib
import re
import sys
from collections.abc import Mapping
from typing import Any, get_origin

import numpy as np
import pyarrow as pa

from rt_frames._schema.arrow_text import parse_arrow
from rt_frames._schema.data_type import INTEGERS, arrow_type, to_data_type
from rt_frames._schema.numpy_dtype import numpy_to_arrow
from rt_frames._schema.portable import (
    COMPLEX_ADVICE,
    UNTYPED,
    to_portable,
    unsupported,
    untyped,
)
from rt_frames._text import show_value
from rt_frames.errors import UnsupportedTypeError

_EXAMPLES = 'pass a dtype such as "int64", "float32", "large_string", "Int64", "timestamp[us, tz=UTC]", "decimal128(10, 2)"'
# names of types in databases and in everyday speech → names to suggest
_COMMON_NAMES = {
    **dict.fromkeys(("text", "varchar", "char"), "large_string"),
    **dict.fromkeys(("integer", "bigint", "long"), "int64"),
    "smallint": "int16",
    "tinyint": "int8",
    "real": "float32",
    "numeric": "decimal128(38, 9)",
    "date": "date32",
    "time": "time64[us]",
    "blob": "large_binary",
    "bytea": "large_binary",
    **dict.fromkeys(("datetime", "timestamp"), "timestamp[us]"),
    **dict.fromkeys(("timedelta", "duration"), "duration[us]"),
    **dict.fromkeys(("list", "array"), "list<item: int64>"),
    "struct": "struct<x: int64>",
}
# names with parameters → the service's names, but for the parameters
_PARAMETRIC: dict[str, str] = {
    **dict.fromkeys(("decimal", "decimal128", "numeric"), "decimal:128"),
    "decimal256": "decimal:256",
    "datetime": "timestamp",
    "timedelta": "duration",
}
_SUGGESTED = [
    *INTEGERS,
    *_COMMON_NAMES.values(),
    "bool",
    "string",
    "binary",
    "float16",
    "float64",
]
# where pandas and everyday speech differ from Arrow
_OUR_NAMES = {
    "str": "large_string",
    "string": "large_string",
    "utf8": "string",
    "int": "int64",
    "double": "float64",
}
_PYTHON_TYPES: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.large_string(),
    bytes: pa.large_binary(),
    datetime.datetime: pa.timestamp("us"),
    datetime.date: pa.date32(),
    datetime.time: pa.time64("ns"),
    datetime.timedelta: pa.duration("us"),
    type(None): pa.null(),
}
_PYTHON_ADVICE: dict[Any, str] = {
    decimal.Decimal: "it has no precision; pass pyarrow.decimal128(10, 2), or pl.Decimal(10, 2)",
    complex: COMPLEX_ADVICE,
    list: "pass a dtype with the type of its items, for example pyarrow.list_(pyarrow.int64()) or pl.List(pl.Int64)",
    dict: 'pass a dtype with its fields, for example pl.Struct({"x": pl.Int64}) or pyarrow.struct({"x": pyarrow.int64()})',
}


def data_type(dtype: Any) -> dict[str, Any]:
    """Return any dtype as the service's ``data_type`` object.

    The object is the type in which a column of that dtype is sent.

    Parameters
    ----------
    dtype : dtype
        A dtype of pandas, NumPy, Polars or pyarrow; a Python type; or a string such as
        ``"Int64"``, ``"float32"``, ``"timestamp[us, tz=UTC]"``, or Arrow's text of a
        nested type, ``"list<item: int64>"``. A ``data_type`` object is checked.

    Returns
    -------
    dict
        The object that the service's documentation describes under "Column alteration".
        Its type names are those that the service's official client sends.

    Raises
    ------
    UnsupportedTypeError
        If a column of that type cannot be sent, or the service has no name for it.
    ValueError
        If a string is unknown or ambiguous, or a ``data_type`` object is wrong or
        incomplete.

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
    """Return the portable Arrow type of any dtype. Errors name the ``path``."""
    try:
        arrow = _convert(dtype, path)
        # a data_type object, or a dtype of Polars, may have a zone that nobody knows
        to_portable(arrow, path)
    except ValueError as error:
        raise ValueError(f"column {path!r}: {error}" if path else str(error)) from error
    return arrow


def _convert(dtype: Any, path: str) -> pa.DataType:
    if isinstance(dtype, pa.DataType):
        return to_portable(dtype, path)
    if isinstance(dtype, str):
        return _convert(_parse(dtype, path), path)
    if isinstance(dtype, Mapping):
        return arrow_type(dtype)
    if isinstance(dtype, np.dtype) or _is_subclass(dtype, np.generic):
        return numpy_to_arrow(dtype, path)
    if _is_a(dtype, "polars", "DataType"):
        from rt_frames._schema.polars_dtype import polars_to_arrow

        return polars_to_arrow(dtype, path)
    if _is_a(dtype, "pandas.api.extensions", "ExtensionDtype"):
        from rt_frames._schema.pandas_dtype import pandas_to_arrow

        return pandas_to_arrow(dtype, path)
    # no dict lookup: a foreign class may refuse to be hashed or compared
    for python, arrow in _PYTHON_TYPES.items():
        if dtype is python:
            return arrow
    if dtype is object:
        raise untyped(path, "the dtype object", "object")
    raise unsupported(path, f"the dtype {show_value(dtype)}", _advice(dtype))


def _advice(dtype: Any) -> str:
    origin = get_origin(dtype) or dtype
    for python, advice in _PYTHON_ADVICE.items():
        if origin is python:
            return advice
    return _EXAMPLES


def _is_a(dtype: Any, module: str, name: str) -> bool:
    """Return whether a dtype is of a library's class, without importing the library."""
    base = getattr(sys.modules.get(module), name, ())
    return isinstance(dtype, base) or _is_subclass(dtype, base)


def _is_subclass(dtype: Any, base: Any) -> bool:
    return isinstance(dtype, type) and issubclass(dtype, base)


def _parse(text: str, path: str) -> Any:
    """Return the dtype of pyarrow, pandas or NumPy that a string names."""
    if text == "float":
        raise ValueError(
            'dtype "float" is 64 bits in pandas and 32 in Arrow; pass "float64" or "float32"'
        )
    if text in UNTYPED:
        raise untyped(path, f"dtype {text!r}", text)
    if text == "complex":
        raise unsupported(path, f"dtype {text!r}", COMPLEX_ADVICE)
    name = text.removesuffix("[pyarrow]")
    try:
        arrow = parse_arrow(_OUR_NAMES.get(name, name))
    except ValueError as error:
        raise ValueError(f"dtype {text!r:.80}: {error}") from None
    if arrow is None:
        return _parse_pandas(text)
    # with the suffix it is pandas' text, which is sent as large_string
    if name != text and pa.types.is_string(arrow):
        return pa.large_string()
    return arrow


def _parse_pandas(text: str) -> Any:
    # not NumPy's "a5", which is deprecated
    if re.fullmatch(r"[<>=|]?(?!a\d*$)[A-Za-z?][\w\[\], :./+()-]*", text, re.ASCII):
        # pandas' parsers raise many kinds of errors
        with contextlib.suppress(Exception):
            import pandas as pd

            return pd.api.types.pandas_dtype(text)
    raise ValueError(f"dtype {text!r:.80} is unknown; {_did_you_mean(text)}")


def _did_you_mean(text: str) -> str:
    words: list[str] = re.findall(r"[\w+/-]+", re.sub(r"\btz *= *", "", text)) or [text]
    word = words[0].lower()
    names = [text]
    if len(words) in (2, 3):
        name = ":".join([_PARAMETRIC.get(word, word), *words[1:]])
        # a timestamp may lack its zone, a decimal its scale
        names += [name, f"{name}:-", f"{name}:0"]
    for name in names:
        with contextlib.suppress(ValueError, UnsupportedTypeError):
            return f'did you mean "{arrow_type({"type": name})}"?'
    suggestions = difflib.get_close_matches(text.lower(), _SUGGESTED, 1)
    if word in _COMMON_NAMES:
        suggestions = [_COMMON_NAMES[word]]
    if not suggestions:
        return _EXAMPLES
    return f'did you mean "{suggestions[0]}"?'
