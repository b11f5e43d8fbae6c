"""The form of an Arrow type that every reader of a table understands.

::

    string_view, binary_view        → large_string, large_binary
    list_view, large_list_view      → list, large_list
    run-end-encoded                 → its value type
    decimal32, decimal64            → decimal128
    dictionary of text,
    bytes or integers               → with int32 codes, unordered
    any other dictionary            → its values
    arrow.json                      → with the storage string
    arrow.uuid                      → itself
    other extension types           → their storage
    union, interval                 → none: an error that says what to cast to
"""

from __future__ import annotations

import contextlib
import functools
import re
import zoneinfo
from typing import Any

import pyarrow as pa
from pyarrow import types

from rt_frames._names import join_path
from rt_frames._schema.data_type import (
    INTEGERS,
    check_level,
    column_prefix,
    map_fields,
    show_type,
)
from rt_frames._text import show_value
from rt_frames.errors import UnsupportedTypeError

_FLAT = (
    "bool",
    "float16",
    "float32",
    "float64",
    "string",
    "large_string",
    "date32",
    "date64",
)
_TIMES = ("time32[s]", "time64[us]", "timestamp[s]", "duration[s]")
_PORTABLE_IDS = frozenset(
    pa.type_for_alias(name).id for name in (*_FLAT, *_TIMES, *INTEGERS)
)
# values that dictionaries may have
_CODED = (
    types.is_integer,
    types.is_string,
    types.is_large_string,
    types.is_binary,
    types.is_large_binary,
)
# two of the kinds have no class, only a number (pyarrow 26)
_INTERVAL_IDS = (21, 22, pa.month_day_nano_interval().id)

# seconds since 1970
_WINTER_AND_SUMMER = (1735689600, 1751328000)
# errors that conversions of values raise
CONVERSION_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError)

# not .astype(str), which turns missing values into text (pandas 2)
TO_TEXT = 'map(str, na_action="ignore")'
COMPLEX_ADVICE = "split it into two columns, .to_numpy().real and .to_numpy().imag"
# advice for dtypes that do not say what type their values have
UNTYPED = {
    "object": 'pass that type, such as "large_string"',
    "category": "pass a CategoricalDtype with categories, an Enum, or for text "
    "pyarrow.dictionary(pyarrow.int32(), pyarrow.large_string())",
}
# pandas' extension types by their Arrow names
PANDAS_ADVICE = {
    "pandas.period": f"convert it with .dt.to_timestamp(), or .{TO_TEXT}",
    "pandas.interval": f"split it into two columns, pandas.IntervalIndex(column).left and .right, or use .{TO_TEXT}",
}


def unsupported(path: str, subject: str, advice: str) -> UnsupportedTypeError:
    """Return the error for a type that cannot be sent."""
    return UnsupportedTypeError(
        f"{column_prefix(path)}{subject} cannot be sent; {advice}"
    )


def untyped(path: str, subject: str, kind: str) -> UnsupportedTypeError:
    """Return the error for a dtype that does not say what type its values have."""
    return UnsupportedTypeError(
        f"{column_prefix(path)}{subject} does not say what type its values have; "
        f"{UNTYPED[kind]}"
    )


def zone_name(zone: Any, path: str, advice: str) -> str:
    """Return Arrow's name of a time zone, or raise if that name has other offsets."""
    with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
        arrow = pa.timestamp("s", zone)
        if all(_is_same_offset(second, arrow, zone) for second in _WINTER_AND_SUMMER):
            return str(arrow.tz)
    subject = f"the time zone {show_value(zone)}"
    raise unsupported(path, subject, f"convert it to a named zone, {advice}")


def _is_same_offset(second: int, arrow: pa.DataType, zone: Any) -> bool:
    moment = pa.scalar(second, arrow).as_py()
    return bool(moment.utcoffset() == moment.astimezone(zone).utcoffset())


def _with_known_zone(arrow: pa.DataType, path: str) -> pa.DataType:
    """Refuse a zone that nobody knows: no library could read the column."""
    zone = getattr(arrow, "tz", None)
    if zone is None or _is_known_zone(zone):
        return arrow
    subject = f"the time zone {zone!r:.100}"
    raise unsupported(path, subject, "use one such as Europe/Berlin")


@functools.lru_cache
def _is_known_zone(zone: str) -> bool:
    if re.fullmatch(r"[+-]\d\d:?\d\d", zone, re.ASCII):
        return True
    try:
        zoneinfo.ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return False
    return True


def is_plain(schema: pa.Schema) -> bool:
    """Return whether all columns are nullable and portable as they are."""
    return all(map(_is_plain_field, schema))


def _is_plain_field(field: pa.Field) -> bool:
    arrow = field.type
    is_portable = arrow.id in _PORTABLE_IDS and getattr(arrow, "tz", None) is None
    return is_portable and field.nullable and not field.metadata


def to_portable(arrow: pa.DataType, path: str = "", level: int = 0) -> pa.DataType:
    """Return the portable form of an Arrow type. Errors name the ``path``."""
    check_level(path, level)
    if arrow.id in _PORTABLE_IDS:
        return _with_known_zone(arrow, path)
    if isinstance(arrow, pa.BaseExtensionType):
        return _portable_extension(arrow, path, level + 1)
    if types.is_run_end_encoded(arrow):
        return to_portable(arrow.value_type, path, level + 1)
    if types.is_nested(arrow):
        return _portable_nested(arrow, path, level + 1)
    if types.is_string_view(arrow):
        return pa.large_string()
    if types.is_binary_view(arrow):
        return pa.large_binary()
    if types.is_decimal32(arrow) or types.is_decimal64(arrow):
        return pa.decimal128(arrow.precision, arrow.scale)
    if types.is_dictionary(arrow):
        return _portable_dictionary(to_portable(arrow.value_type, path, level + 1))
    if arrow.id in _INTERVAL_IDS:
        advice = "cast it to a duration, or to a struct of its parts"
        raise unsupported(path, f"Arrow's {show_type(arrow)}", advice)
    return arrow


def _portable_dictionary(value: pa.DataType) -> pa.DataType:
    """Return the dictionary type of values, or their own type if it has none.

    The engine stores no other dictionaries. Nor would floats be safe in one: 0.0 and
    -0.0 are equal, but differ.
    """
    if any(test(value) for test in _CODED):
        return pa.dictionary(pa.int32(), value)
    return value


def _portable_nested(arrow: pa.DataType, path: str, level: int) -> pa.DataType:
    if types.is_union(arrow):
        advice = "make one column of each of its types"
        raise unsupported(path, f"Arrow's {show_type(arrow)}", advice)
    # the items of DuckDB's arrays have no name, and cannot be renamed
    unnamed = "" if types.is_struct(arrow) else "item"
    if types.is_map(arrow):
        unnamed = ""
        level += 1
        if types.is_null(to_portable(arrow.key_type, path, level)):
            subject = f"Arrow's {show_type(arrow)}, whose keys have no type,"
            raise unsupported(path, subject, "cast it to a map of another key type")

    def portable_field(field: pa.Field) -> pa.Field:
        inside = to_portable(field.type, join_path(path, field.name), level)
        # the engine keeps only the type of their items
        if types.is_fixed_size_list(arrow):
            return pa.field("item", inside)
        nullable = field.nullable or types.is_null(inside)
        return pa.field(field.name or unnamed, inside, nullable)

    return map_fields(arrow, portable_field)


def _portable_extension(
    arrow: pa.BaseExtensionType, path: str, level: int
) -> pa.DataType:
    name = arrow.extension_name
    if name == "arrow.uuid":
        return arrow
    if name == "arrow.json":
        # as the engine returns it, whatever its storage was
        return pa.json_()
    if name in PANDAS_ADVICE:
        kind = name.removeprefix("pandas.")
        raise unsupported(path, f"pandas' {kind}", PANDAS_ADVICE[name])
    return to_portable(arrow.storage_type, path, level)


def categorical_type(value: pa.DataType) -> pa.DataType:
    """Return the type in which categories of pandas or Polars are sent."""
    if types.is_string(value) or types.is_large_string(value):
        return pa.dictionary(pa.int32(), pa.large_string())
    if types.is_integer(value):
        return pa.dictionary(pa.int32(), value)
    return value
