"""The casts of ``dtypes=``: cast, cast back, and refuse values that differ.

Nulls are nulls, and NaN equals NaN. The exceptions::

    text → anything            as it is parsed: the spelling is not kept; whole numbers
                               are, and finite ones stay finite
    floats → smaller floats    fractions are rounded, as ``astype`` does; finite numbers
                               stay finite, and whole numbers that a double holds
                               exactly (ids, which a null made floats) keep their value
    floats → text              the shortest digits that are read as that float
    decimals ⇄ floats          fractions by these shortest digits; to smaller floats
                               only if the caller wrote the type, else as their doubles
    UUIDs ⇄ text               as they are written
    with a zone ⇄ without      UTC only, where clock and instant are the same
    moments → times of day     never: the day would be lost
    durations → text           never: the unit would be lost
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any

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
_LAST_COUNTED = 2.0**53
_MOST_DIGITS = pa.decimal256(76, 0)
_MOMENTS = "dates and timestamps"
_DAY_LOST = "the day would be lost; take the time of day first, with .dt.time"
_UNIT_LOST = "the unit would be lost; cast it to an integer or format it first"
_NEVER = {(_MOMENTS, "times"): _DAY_LOST, ("durations", "text"): _UNIT_LOST}
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
    kinds = _kinds(array.type, target)
    # also casts of UUIDs, before extension types become their storage
    if kinds in _CASTS:
        return _cast_flat(array, target, kinds, may_round=may_round)
    if isinstance(target, pa.BaseExtensionType):
        stored = cast_exactly(array, target.storage_type, may_round=may_round)
        return pa.ExtensionArray.from_storage(target, stored)
    if isinstance(array, pa.ExtensionArray):
        return cast_exactly(array.storage, target, may_round=may_round)
    return _cast_flat(array, target, kinds, may_round=may_round)


def _cast_flat(
    array: pa.Array, target: pa.DataType, kinds: tuple[str, str], *, may_round: bool
) -> pa.Array:
    refusal = _NEVER.get(kinds) or _zone_refusal(array.type, target)
    if refusal:
        raise RefusedCast(refusal)
    cast = _cast(array, target)
    if types.is_time(target) or types.is_date64(target):
        # Arrow makes times and dates of integers out of their range (pyarrow 26)
        cast.validate(full=True)
    if kinds[0] == "text":
        _check_parsed(array, cast, may_round=may_round)
    elif kinds != ("times", "text"):
        # Arrow cannot parse times of day (pyarrow 26)
        _check_same(array, target, _is_same(array, cast, may_round=may_round))
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


def _kinds(have: pa.DataType, target: pa.DataType) -> tuple[str, str]:
    return _kind(have), _kind(target)


def _kind(arrow: pa.DataType) -> str:
    return getattr(arrow, "extension_name", "") or family(arrow)


def _zone_refusal(have: pa.DataType, target: pa.DataType) -> str | None:
    if _kinds(have, target) != (_MOMENTS, _MOMENTS):
        return None
    zones = {getattr(have, "tz", None), getattr(target, "tz", None)}
    if None not in zones or zones <= {None, *UTC}:
        return None
    cure = "convert it to UTC" if getattr(have, "tz", None) else "localize it"
    return f"only in UTC are naive and aware values the same; {cure} first"


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    cast = _CASTS.get(_kinds(array.type, target))
    return cast(array, target) if cast else array.cast(target)


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


def _is_same(array: pa.Array, cast: pa.Array, *, may_round: bool = True) -> pa.Array:
    """Return which values are kept, or are fractions that may be rounded."""
    have = array.type
    try:
        same = _is_equal(array, _cast(cast, have))
    except pa.ArrowInvalid:
        # Arrow does not parse the text of a year beyond 9999 (pyarrow 26)
        same = array.is_null()
    if not types.is_floating(cast.type):
        return same
    if types.is_decimal(have) and not (may_round or types.is_float64(cast.type)):
        doubles = _cast(array, pa.float64())
        return _call("and", [_is_same(array, doubles), _is_equal(doubles, cast)])
    if types.is_decimal(have):
        return _call("or", [same, _is_equal(array, _doubles(cast).cast(have))])
    if not may_round or not types.is_floating(have):
        return same
    doubles = _doubles(array)
    is_large = _call("greater", [_call("abs", [doubles]), pa.scalar(_LAST_COUNTED)])
    may_round = _call("or", [is_large, _call("invert", [_is_whole(doubles)])])
    may_round = _call("and", [may_round, _call("is_finite", [cast])])
    return _call("or", [same, may_round])


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


def _check_parsed(texts: pa.Array, parsed: pa.Array, *, may_round: bool) -> None:
    """Raise for text that Arrow parses to another number or day."""
    target = parsed.type
    if types.is_integer(target):
        # 0xFF is the int8 -1
        _check_same(texts, target, _call("invert", [_matches(texts, "[xX]")]))
    elif types.is_decimal(target):
        # Arrow wraps numbers that exceed the bits of the type (pyarrow 26)
        back = _doubles(parsed.cast(pa.string()))
        _check_same(texts, target, _is_equal(_doubles(texts), back))
    elif types.is_timestamp(target):
        # Arrow wraps years that nanoseconds cannot count (pyarrow 21); zones shift
        # by a day
        days = _call("utf8_slice_codeunits", [texts], pc.SliceOptions(0, 10))
        written = days.cast(pa.date32())
        shift = _call("days_between", [written, parsed.cast(pa.date32())])
        apart = _call("abs", [shift])
        _check_same(texts, target, _call("less_equal", [apart, pa.scalar(1)]))
    elif types.is_floating(target):
        _check_floats(texts, parsed, may_round=may_round)


def _check_floats(texts: pa.Array, parsed: pa.Array, *, may_round: bool) -> None:
    target = parsed.type
    floats = _doubles(parsed)
    doubles = floats
    if not types.is_float64(target):
        doubles = _doubles(texts)
        _check_same(texts, target, _is_same(doubles, parsed, may_round=may_round))
    zeros = texts.filter(_call("equal", [floats, pa.scalar(0.0)]))
    is_zero = _call("invert", [_matches(zeros, "^[^eE]*[1-9]")])
    _check_same(zeros, target, is_zero)
    sizes = _call("abs", [doubles])
    is_large = _call("greater_equal", [sizes, pa.scalar(_LAST_COUNTED)])
    _check_large(texts.filter(is_large), floats.filter(is_large), target)


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
    fractions = array.cast(pa.string()).cast(target)
    return _call("if_else", [_is_whole(doubles), whole, fractions])


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


# casts that pyarrow 26 does not have, that lose values, or that fail for good values
_CASTS: dict[tuple[str, str], Callable[[pa.Array, pa.DataType], pa.Array]] = {
    ("integers", "floats"): lambda array, target: array.cast(target, safe=False),
    ("floats", "integers"): _to_integers,
    ("integers", "decimals"): lambda array, target: array.cast(
        pa.decimal128(20, 0)
    ).cast(target),
    ("floats", "decimals"): _to_decimals,
    ("decimals", "floats"): lambda array, target: array.cast(pa.string()).cast(target),
    ("text", "arrow.uuid"): _to_uuids,
    ("text", "times"): _to_times,
    ("arrow.uuid", "text"): _uuids_to_text,
}
