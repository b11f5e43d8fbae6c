"""The same values in another type: cast, cast back, and refuse values that differ.

Columns are cast so, by ``dtypes=`` and for a table, values of conditions, and stored
rows of a rewrite. Rows that are held against a condition or a key are cast before.
Nulls are nulls, and NaN equals NaN. `EXACT`, at the end, has what else is the same, and
what is not; `kinds.py` says which kinds of values a table takes without ``dtypes=``.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from rt_frames._schema.casts import UTC, family
from rt_frames._schema.data_type import show_type
from rt_frames._text import shorten
from rt_frames.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

# a double holds every integer up to here
LAST_COUNTED = 2.0**53
_MOST_DIGITS = pa.decimal256(76, 0)
_MOMENTS = "dates and timestamps"
_call = pc.call_function


class InexactCast(ValueError):
    """A cast would change a value."""


class RefusedCast(ValueError):
    """A cast would change every value; the message ends with the cure."""


def cast_exactly(
    array: pa.Array, target: pa.DataType, *, may_round: bool = True
) -> pa.Array:
    """Cast a flat, portable array, not a dictionary. Raise if a value changes.

    A float may be rounded to a smaller float if ``may_round``: the caller wrote the
    type.
    """
    if types.is_dictionary(target):
        values = cast_exactly(array, target.value_type, may_round=may_round)
        coded = values.dictionary_encode()
        indices = coded.indices.cast(target.index_type)
        return pa.DictionaryArray.from_arrays(indices, coded.dictionary)
    if array.type == target or types.is_null(array.type):
        return array.cast(target)
    # also casts of UUIDs, before extension types become their storage
    if (_kind(array.type), _kind(target)) in EXACT:
        return _cast_flat(array, target, may_round=may_round)
    if isinstance(target, pa.BaseExtensionType):
        stored = cast_exactly(array, target.storage_type, may_round=may_round)
        return pa.ExtensionArray.from_storage(target, stored)
    if isinstance(array, pa.ExtensionArray):
        return cast_exactly(array.storage, target, may_round=may_round)
    return _cast_flat(array, target, may_round=may_round)


def _cast_flat(array: pa.Array, target: pa.DataType, *, may_round: bool) -> pa.Array:
    rule = _rule(array.type, target)
    refusal = rule.refusal or _zone_refusal(array.type, target)
    if refusal:
        raise RefusedCast(refusal)
    cast = rule.cast(array, target)
    if types.is_time(target) or types.is_date64(target):
        # Arrow makes times and dates of integers out of their range (pyarrow 26)
        cast.validate(full=True)
    if rule.same is not None:
        _check_same(array, target, rule.same(array, cast, may_round))
    return cast


def cast_objects(
    values: Any, target: pa.DataType, to_arrow: Callable[[Any], Any]
) -> pa.Array:
    """Cast Python objects of several types. ``to_arrow`` converts those of one type."""
    rows: dict[tuple[type, str], list[int]] = defaultdict(list)
    for row, value in enumerate(values):
        rows[type(value), str(getattr(value, "tzinfo", None))].append(row)
    parts = [pa.nulls(0, target)]
    converted_rows = []
    for (kind, _), rows_of_kind in rows.items():
        objects = values[rows_of_kind]
        try:
            converted = to_arrow(objects)
        except (OverflowError, UnsupportedTypeError):
            if not issubclass(kind, int | np.integer):
                raise
            converted = pa.array(objects, _MOST_DIGITS)
        chunks = [converted]
        if isinstance(converted, pa.ChunkedArray):
            chunks = converted.chunks
        parts += [cast_exactly(chunk, target) for chunk in chunks]
        converted_rows += rows_of_kind
    order = np.argsort(converted_rows)
    return pa.concat_arrays(parts).take(pa.array(order))


def _kind(arrow: pa.DataType) -> str:
    return getattr(arrow, "extension_name", "") or family(arrow)


def _rule(have: pa.DataType, target: pa.DataType) -> _Rule:
    return EXACT.get((_kind(have), _kind(target)), _CAST_BACK)


def _zone_refusal(have: pa.DataType, target: pa.DataType) -> str | None:
    if {family(have), family(target)} != {_MOMENTS}:
        return None
    zones = {getattr(have, "tz", None), getattr(target, "tz", None)}
    if None not in zones or zones <= {None, *UTC}:
        return None
    cure = "convert it to UTC" if getattr(have, "tz", None) else "localize it"
    return f"only in UTC are naive and aware values the same; {cure} first"


def _check_same(array: pa.Array, target: pa.DataType, same: pa.Array) -> None:
    """Raise for the first value that is not the same."""
    # pa.scalar would import pandas if it is installed (pyarrow 26)
    if _call("all", [same]).as_py() is False:
        first = _call("index", [same], pc.IndexOptions(pa.scalar(False))).as_py()
        # not as_py(): Python has no year beyond 9999
        shown = array.slice(first, 1).to_string(skip_new_lines=True)[1:-1]
        raise InexactCast(
            f"{shorten(shown, 80)} cannot be stored exactly as {show_type(target)}"
        )


def _is_kept(array: pa.Array, cast: pa.Array, _may_round: bool) -> pa.Array:
    """Return which values are the same when they are cast back."""
    have = array.type
    try:
        return _is_equal(array, _rule(cast.type, have).cast(cast, have))
    except pa.ArrowInvalid:
        # Arrow does not parse the text of a year beyond 9999 (pyarrow 26)
        return array.is_null()


def _is_rounded(floats: pa.Array, cast: pa.Array, may_round: bool) -> pa.Array:
    """Return which floats are kept, or are fractions that may be rounded."""
    same = _is_kept(floats, cast, may_round)
    if not may_round:
        return same
    doubles = _doubles(floats)
    is_large = _call("greater", [_call("abs", [doubles]), pa.scalar(LAST_COUNTED)])
    is_fraction = _call("invert", [_is_whole(doubles)])
    is_rounded = _call("or", [is_large, is_fraction])
    is_rounded = _call("and", [is_rounded, _call("is_finite", [cast])])
    return _call("or", [same, is_rounded])


def _has_digits(decimals: pa.Array, floats: pa.Array, may_round: bool) -> pa.Array:
    """Return which decimals are the digits of a float, or its bits."""
    doubles = floats if may_round else _by_digits(decimals, pa.float64())
    bits = _doubles(doubles).cast(decimals.type)
    same = _call(
        "or", [_is_kept(decimals, doubles, may_round), _is_equal(decimals, bits)]
    )
    return same if may_round else _call("and", [same, _is_equal(doubles, floats)])


def _is_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    if isinstance(left, pa.ExtensionArray):
        left = left.storage
        right = right.storage
    # Arrow cannot compare float16 (pyarrow 26)
    if types.is_floating(left.type):
        left = _doubles(left)
        right = _doubles(right)
    same = _call("equal", [left, right])
    if types.is_floating(left.type):
        is_nan = _call("and", [_call("is_nan", [left]), _call("is_nan", [right])])
        same = _call("or", [same, is_nan])
    return _call("coalesce", [same, left.is_null()])


def _doubles(array: pa.Array) -> pa.Array:
    return array.cast(pa.float64())


def _is_whole(floats: pa.Array) -> pa.Array:
    return _call("equal", [_call("trunc", [floats]), floats])


def _is_decimal(texts: pa.Array, decimals: pa.Array, _may_round: bool) -> pa.Array:
    # Arrow wraps numbers that exceed the bits of the type (pyarrow 26)
    return _is_equal(_doubles(texts), _doubles(decimals.cast(pa.string())))


def _is_day(texts: pa.Array, moments: pa.Array, _may_round: bool) -> pa.Array:
    # Arrow wraps years that nanoseconds cannot count (pyarrow 21); zones shift by a day
    days = _call("utf8_slice_codeunits", [texts], pc.SliceOptions(0, 10))
    written = days.cast(pa.date32())
    shift = _call("days_between", [written, moments.cast(pa.date32())])
    return _call("less_equal", [_call("abs", [shift]), pa.scalar(1)])


def _is_float(texts: pa.Array, floats: pa.Array, may_round: bool) -> pa.Array:
    target = floats.type
    doubles = floats if types.is_float64(target) else _doubles(texts)
    zeros = texts.filter(_call("equal", [_doubles(floats), pa.scalar(0.0)]))
    is_zero = _call("invert", [_matches(zeros, "^[^eE]*[1-9]")])
    _check_same(zeros, target, is_zero)
    sizes = _call("abs", [doubles])
    is_large = _call("greater_equal", [sizes, pa.scalar(LAST_COUNTED)])
    _check_large(texts.filter(is_large), _doubles(floats).filter(is_large), target)
    if doubles is floats:
        return _call("true_unless_null", [floats])
    return _is_rounded(doubles, floats, may_round)


def _check_large(texts: pa.Array, floats: pa.Array, target: pa.DataType) -> None:
    """Raise for text that became infinite, and whole numbers that changed."""
    infinite = texts.filter(_call("invert", [_call("is_finite", [floats])]))
    _check_same(infinite, target, _matches(infinite, "(?i)inf"))
    whole = _matches(texts, r"^[+-]?[0-9]+(\.0*)?$")
    texts = texts.filter(whole)
    floats = floats.filter(whole)
    try:
        exact = texts.cast(pa.int64())
        back = _to_integers(floats, pa.int64())
    except pa.ArrowInvalid:
        # beyond 64 bits, or with a point; ten times as slow
        exact = texts.cast(_MOST_DIGITS)
        back = floats.cast(_MOST_DIGITS)
    _check_same(texts, target, _is_equal(exact, back))


def _matches(texts: pa.Array, pattern: str) -> pa.Array:
    return _call("match_substring_regex", [texts], pc.MatchSubstringOptions(pattern))


def _to_integers(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast floats to integers.

    Those out of range become null first, since some CPUs saturate.
    """
    doubles = _doubles(array)
    end = 2.0 ** (target.bit_width - types.is_signed_integer(target))
    above = _call("greater_equal", [doubles, pa.scalar(-end)])
    below = _call("less", [doubles, pa.scalar(end)])
    is_inside = _call("and", [above, below])
    null = pa.scalar(None, pa.float64())
    return _call("if_else", [is_inside, doubles, null]).cast(target)


def _to_decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast floats to decimals, 0.1 to 0.1. Arrow casts the binary digits."""
    doubles = _doubles(array)
    whole = doubles.cast(target)
    fractions = _by_digits(array, target)
    return _call("if_else", [_is_whole(doubles), whole, fractions])


def _by_digits(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(pa.string()).cast(target)


def _to_uuids(array: pa.Array, target: pa.DataType) -> pa.Array:
    parsed = [text and uuid.UUID(text).bytes for text in array.to_pylist()]
    stored = pa.array(parsed, target.storage_type)
    return pa.ExtensionArray.from_storage(target, stored)


def _to_times(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse times of day behind a date: Arrow parses timestamps only (pyarrow 26)."""
    # Arrow would read 10 as ten o'clock (pyarrow 26)
    _check_same(array, target, _matches(array, ":"))
    day = pc.ReplaceSliceOptions(0, 0, "1970-01-01 ")
    moments = _call("binary_replace_slice", [array], day)
    try:
        return moments.cast(pa.timestamp(target.unit)).cast(target)
    except pa.ArrowInvalid:
        raise ValueError("not a time of day such as 09:30 or 23:59:59") from None


def _uuids_to_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    texts = [value and str(value) for value in array.to_pylist()]
    return pa.array(texts, target)


class _Rule(NamedTuple):
    """How values of one kind become another, and which of them are then the same.

    ``same`` may raise, too, and is None if ``cast`` raises for all others; ``refusal``
    says why none would be.
    """

    cast: Callable[[pa.Array, pa.DataType], pa.Array] = pa.Array.cast
    same: Callable[[pa.Array, pa.Array, bool], pa.Array] | None = _is_kept
    refusal: str = ""


_CAST_BACK = _Rule()
_PARSED = _Rule(same=None)
# of values of one kind in a type of another; kinds that are not here are cast back
EXACT: dict[tuple[str, str], _Rule] = {
    # Arrow refuses all beyond 2**53, even those that a float equals (pyarrow 26)
    ("integers", "floats"): _Rule(lambda array, target: array.cast(target, safe=False)),
    # Arrow wants room for all digits that the type may have (pyarrow 26)
    ("integers", "decimals"): _Rule(
        lambda array, target: array.cast(pa.decimal128(20, 0)).cast(target)
    ),
    ("floats", "integers"): _Rule(_to_integers),
    # with may_round, fractions are rounded, as by astype; finite numbers stay finite,
    # and whole numbers that a double holds exactly (ids, which a null made floats)
    # keep their value
    ("floats", "floats"): _Rule(same=_is_rounded),
    # the shortest digits that are read as that float, as in text
    ("floats", "decimals"): _Rule(_to_decimals),
    # with may_round, in smaller floats, too; else as their doubles there
    ("decimals", "floats"): _Rule(_by_digits, _has_digits),
    # as it is parsed: the spelling is not kept; whole numbers are, and finite ones
    # stay finite; 0xFF is refused, which Arrow takes for the int8 -1 (pyarrow 26)
    ("text", "integers"): _Rule(
        same=lambda texts, *_: _call("invert", [_matches(texts, "[xX]")])
    ),
    ("text", "floats"): _Rule(same=_is_float),
    ("text", "decimals"): _Rule(same=_is_decimal),
    ("text", _MOMENTS): _Rule(same=_is_day),
    ("text", "times"): _Rule(_to_times, None),
    ("text", "arrow.uuid"): _Rule(_to_uuids, None),
    ("text", "text"): _PARSED,
    ("text", "binary"): _PARSED,
    # booleans, and bytes of a fixed size
    ("text", ""): _PARSED,
    ("arrow.uuid", "text"): _Rule(_uuids_to_text),
    # Arrow cannot parse times of day (pyarrow 26)
    ("times", "text"): _PARSED,
    (_MOMENTS, "times"): _Rule(
        refusal="the day would be lost; take the time of day first, with .dt.time"
    ),
    ("durations", "text"): _Rule(
        refusal="the unit would be lost; cast it to an integer or format it first"
    ),
}
