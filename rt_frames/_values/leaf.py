"""A column and what it is compared with → a leaf of a condition, or a refusal.

Values are cast to the column's type as rows are that are appended: exactly, by
`exact_cast.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from rt_frames._names import did_you_mean
from rt_frames._schema.casts import family
from rt_frames._schema.data_type import child_fields, show_type, storage, value_type
from rt_frames._schema.keys import as_bits, show_key
from rt_frames._schema.leaves import Compare, Condition, IsIn, Not
from rt_frames._schema.portable import CONVERSION_ERRORS, to_portable
from rt_frames._values.exact_cast import LAST_COUNTED, cast_exactly
from rt_frames._values.failing_row import first_failing_row
from rt_frames._values.kinds import is_family

_call = pc.call_function
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
# what a column is compared with; the type is formatted into it
_WANTED = {
    "booleans": "True or False",
    "integers": "an int in its range",
    "floats": "a number that is exact there, such as np.float{0.bit_width}(0.1)",
    "decimals": "a number in its range, rounded to {0.scale} decimal places",
    "text": "text",
    "binary": "bytes",
    "bytes of one length": "{0.byte_width} bytes",
    "dates": "a date",
    "moments": "a datetime such as datetime(2024, 1, 31), no finer than {0.unit}",
    "times": "a time, no finer than {0.unit}",
    "durations": "a timedelta, no finer than {0.unit}",
}


@dataclass(frozen=True)
class Column:
    """A column, or a field of a struct, and its type in the table."""

    path: tuple[str, ...]
    type: pa.DataType

    def __str__(self) -> str:
        return f"column {'.'.join(self.path)!r}"


def find_column(schema: pa.Schema, path: Sequence[str], owner: str) -> Column:
    """Return a column of ``owner`` by its name, a field by all names of its path."""
    arrow = pa.struct(list(schema))
    for depth, name in enumerate(path):
        fields = child_fields(arrow) if types.is_struct(arrow) else []
        names = [field.name for field in fields]
        if name not in names:
            word = "field" if depth else "column"
            inside = f"{'.'.join(path[:depth])!r} in " if depth else ""
            raise ValueError(
                f"where: {inside}{owner} has no {word} {name!r}; "
                f"{did_you_mean(name, names)}"
            )
        if "`" in name:
            raise ValueError(
                f"where: column {name!r} has a backtick, which the engine cannot read; "
                "rename the column first"
            )
        arrow = fields[names.index(name)].type
    return Column(tuple(path), arrow)


def make(column: Column, symbol: str, given: Sequence[pa.Array]) -> Condition:
    """Compare a column with values, none of which is null.

    With one value by one of ``== != < <= > >=``, or with any number by ``in``.
    """
    _check_comparable(column, symbol)
    parts = [as_compared(pa.nulls(0, _plain(column.type)))]
    parts += [_make_exact(column, array) for array in given if len(array)]
    exact = pa.concat_arrays(parts).unique()
    if symbol == "in":
        return IsIn(column.path, column.type, exact)
    if len(exact):
        return Compare(column.path, column.type, symbol, exact[0].as_py())
    # before or after all that the column can hold
    none = IsIn(column.path, column.type, exact)
    is_after = as_compared(given[0])[0].as_py() > 0
    holds = ("!=", "<", "<=") if is_after else ("!=", ">", ">=")
    return Not(none) if symbol in holds else none


def as_compared(array: pa.Array) -> pa.Array:
    """Return a column in a type in which Arrow compares the values of conditions."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_temporal(array.type):
        return as_bits(array)
    if types.is_fixed_size_binary(array.type):
        return array.cast(pa.binary())
    if types.is_floating(array.type):
        # -0.0 becomes 0.0, and there is one NaN
        floats = _call("add", [array.cast(pa.float64()), pa.scalar(0.0)])
        return _call(
            "if_else", [_call("is_nan", [floats]), pa.scalar(float("nan")), floats]
        )
    return array


def _check_comparable(column: Column, symbol: str) -> None:
    """Raise ValueError if a column cannot be compared with values."""
    kind = _kind(_plain(column.type))
    has_codes = types.is_dictionary(column.type)
    if kind not in _WANTED or (has_codes and kind != "text"):
        raise ValueError(
            f"where: {column} is {show_type(column.type)}, which cannot be compared; "
            "nothing was sent; use other columns, or is_null()"
        )
    if has_codes and symbol not in ("==", "!=", "in"):
        raise ValueError(
            f"where: {column} has categories, which have no order here; use ==, != or "
            "is_in"
        )


def _plain(arrow: pa.DataType) -> pa.DataType:
    if getattr(arrow, "extension_name", "") == "arrow.uuid":
        return storage(arrow)
    return value_type(arrow)


def _kind(arrow: pa.DataType) -> str:
    """Return what a type is compared with, a key of `_WANTED`, or another word."""
    if types.is_boolean(arrow):
        return "booleans"
    if types.is_fixed_size_binary(arrow):
        return "bytes of one length"
    if types.is_timestamp(arrow):
        return "moments"
    if types.is_decimal256(arrow):
        return "wide decimals"
    return "dates" if types.is_date(arrow) else family(arrow)


def _make_exact(column: Column, given: pa.Array) -> pa.Array:
    """Return values in the column's type, as `as_compared` does.

    Moments and durations before or after all that it can hold are left out.
    """
    target = _plain(column.type)
    given = given.cast(to_portable(given.type))
    is_dated = {_kind(given.type), _kind(target)} == {"dates", "moments"}
    # Polars reads the dates of date64 as moments
    is_other = is_dated and not types.is_date64(target)
    if is_other or not is_family(given.type, target):
        raise _refusal(column, given, 0)
    if types.is_timestamp(given.type):
        given = _in_zone(column, given, getattr(target, "tz", None))
    given = _within(given, target)

    def cast(start: int, stop: int) -> pa.Array:
        part = given.slice(start, stop - start)
        if types.is_floating(part.type) and types.is_integer(target):
            _check_counted(part)
        exact = cast_exactly(part, target, may_round=False)
        if exact.null_count:
            raise ValueError("a value became null")
        return exact

    try:
        return as_compared(cast(0, len(given)))
    except CONVERSION_ERRORS as error:
        row, _ = first_failing_row(len(given), cast, error)
        raise _refusal(column, given, row or 0) from None


def _refusal(column: Column, given: pa.Array, row: int) -> ValueError:
    shown = show_key(pa.chunked_array([given]), row, given.type)
    wanted = _WANTED[_kind(_plain(column.type))].format(_plain(column.type))
    return ValueError(
        f"where: {shown} does not fit {column} ({show_type(column.type)}); nothing was "
        f"sent; pass {wanted}"
    )


def _in_zone(column: Column, given: pa.Array, zone: str | None) -> pa.Array:
    """Return the same instants in the zone of a column."""
    if bool(given.type.tz) != bool(zone):
        fact = f"in zone {given.type.tz}" if given.type.tz else "without zone"
        cure = f"give it the zone {zone}" if zone else "pass one without zone"
        raise ValueError(
            f"where: {column} ({show_type(column.type)}) is compared with a moment "
            f"{fact}; nothing was sent; {cure}"
        )
    return given.view(pa.timestamp(given.type.unit, zone))


def _within(given: pa.Array, target: pa.DataType) -> pa.Array:
    """Leave out moments and durations before or after all that a type can hold."""
    if _kind(target) not in ("moments", "durations"):
        return given
    ratio = _NANOSECONDS[given.type.unit] // _NANOSECONDS[target.unit]
    if ratio <= 1:
        return given
    counts = given.view(pa.int64())
    above = _call("greater_equal", [counts, pa.scalar(-(2**63 // ratio))])
    below = _call("less_equal", [counts, pa.scalar((2**63 - 1) // ratio)])
    return given.filter(_call("and", [above, below]))


def _check_counted(floats: pa.Array) -> None:
    """Raise for floats to which Polars finds several whole numbers equal."""
    sizes = _call("abs", [floats.cast(pa.float64())])
    is_large = _call("greater_equal", [sizes, pa.scalar(LAST_COUNTED)])
    if _call("any", [is_large]).as_py():
        raise ValueError("several whole numbers are equal to it")
