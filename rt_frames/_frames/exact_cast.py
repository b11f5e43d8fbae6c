"""The casts of ``dtypes=``: no value changes its meaning, or the cast is refused.

Arrow's own cast sees to ranges, units and digits where both types count alike. This adds what it lets through::

    whole numbers → float      only where the float is that number
    floats → smaller floats    fractions are rounded, as ``astype`` does; finite stays finite, and whole numbers that
                               a double counts exactly (ids, which a null made floats) stay what they are
    decimals ⇄ floats          by their digits, of which none is lost
    numbers → bool             0 and 1
    whole numbers → times      less than a day; → date64: whole days
    timestamps → dates         midnight only; never to a time of day, which would lose the day
    with a zone ⇄ without      UTC only, where clock and instant are the same
    durations → text           never: their unit would be lost
    UUIDs ⇄ text               as they are written
"""

from __future__ import annotations

import decimal
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from rt_frames._schema.portable import to_portable
from rt_frames.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

_LAST_COUNTED = 2.0**53  # up to here a double counts every whole number
_INTEGER_DIGITS = pa.decimal128(20, 0)  # which hold any integer of Arrow's
_UTC = ("UTC", "Etc/UTC", "+00:00")


def cast_exactly(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast values that are not nested; what cannot be cast exactly is a ValueError or an Arrow error."""
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_run_end_encoded(array.type):
        array = pc.call_function("run_end_decode", [array])
    if types.is_string_view(array.type) or types.is_binary_view(array.type):  # few of Arrow's functions take views
        array = array.cast(to_portable(array.type))
    if types.is_dictionary(target):
        coded = cast_exactly(array, target.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(coded.indices.cast(target.index_type), coded.dictionary)
    if array.type == target or types.is_null(array.type):
        return array.cast(target)
    cast = next((cast for applies, cast in _RULES if applies(array.type, target)), pa.Array.cast)
    return cast(array, target)


def cast_objects(values: Any, target: pa.DataType, to_arrow: Callable[[Any], Any]) -> pa.Array:
    """Cast an array of Python objects of several kinds; ``to_arrow`` makes an array of those of one kind."""
    rows: dict[tuple[type, str], list[int]] = defaultdict(list)
    for row, value in enumerate(values):
        rows[type(value), str(getattr(value, "tzinfo", None))].append(row)
    parts = [pa.nulls(0, target)]
    for (kind, _), some in rows.items():
        try:
            made = to_arrow(values[some])
        except (OverflowError, UnsupportedTypeError):
            if not issubclass(kind, int | np.integer):
                raise
            made = pa.array(values[some], pa.decimal256(76, 0))
        chunks = made.chunks if isinstance(made, pa.ChunkedArray) else [made]
        parts += [cast_exactly(chunk, target) for chunk in chunks]
    order = np.argsort([row for some in rows.values() for row in some])
    return pa.concat_arrays(parts).take(pa.array(order))


def _is_number(arrow: pa.DataType) -> bool:
    return bool(types.is_integer(arrow) or types.is_floating(arrow) or types.is_boolean(arrow))


def _is_text(arrow: pa.DataType) -> bool:
    return bool(types.is_string(arrow) or types.is_large_string(arrow))


def _check(same: Any, array: pa.Array, target: pa.DataType, why: str = "") -> None:
    """Refuse a cast by the first value that is not the same; nulls are."""
    if isinstance(same, np.ndarray):
        same = pa.array(same, mask=array.is_null().to_numpy(zero_copy_only=False))
    differs = pc.call_function("index", [same], pc.IndexOptions(pa.scalar(False))).as_py()
    if differs >= 0:
        raise ValueError(f"{array[differs]} cannot be kept exactly as {target}{why}")


def _numpy(array: pa.Array) -> np.ndarray[Any, Any]:
    filled = array.fill_null(pa.scalar(0).cast(array.type)) if array.null_count else array
    return filled.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow has no annotations


def _cast_number(array: pa.Array, target: pa.DataType) -> pa.Array:
    have = array.type
    if types.is_boolean(have) or (types.is_integer(have) and types.is_integer(target)):
        return array.cast(target)
    made = array.cast(target, safe=False)
    if types.is_boolean(target):
        values = _numpy(array)
        _check((values == 0) | (values == 1), array, target)
    elif types.is_integer(have):
        _check(_same_whole(_numpy(made), _numpy(array)), array, target)
    elif types.is_integer(target):
        _check(_same_whole(_numpy(array), _numpy(made)), array, target)
    elif target.bit_width < have.bit_width:
        _check(_is_rounding(_numpy(array), _numpy(made)), array, target, "; round it first if that is acceptable")
    return made


def _same_whole(floats: np.ndarray[Any, Any], integers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return which floats equal the integers; both ends of an integer's range are powers of two, exact in a double."""
    limits, doubles = np.iinfo(integers.dtype), floats.astype(np.float64)
    inside = (doubles >= float(limits.min)) & (doubles < float(limits.max + 1)) & (np.trunc(doubles) == doubles)
    same: np.ndarray[Any, Any] = inside & (np.where(inside, doubles, 0).astype(integers.dtype) == integers)
    return same


def _is_rounding(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    before, after = before.astype(np.float64), after.astype(np.float64)
    with np.errstate(invalid="ignore"):
        counted = (np.trunc(before) == before) & (np.abs(before) <= _LAST_COUNTED)
    same: np.ndarray[Any, Any] = (before == after) | np.isnan(before) | (np.isfinite(after) & ~counted)
    return same


def _parse_floats(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Read text; whole numbers that a float cannot hold, and infinity for what is finite, are no rounding."""
    doubles = array.cast(pa.float64())
    large = pc.call_function("greater_equal", [pc.call_function("abs", [doubles]), pa.scalar(_LAST_COUNTED)])
    for text, value in zip(array.filter(large).to_pylist(), doubles.filter(large).to_pylist(), strict=True):
        written = decimal.Decimal(text)
        counted = written == written.to_integral_value() and "e" not in text.lower()
        if (counted and written != value) or (np.isinf(value) and written.is_finite()):
            raise ValueError(f"{text:.80} cannot be kept exactly as {target}")
    return _cast_number(doubles, target)


def _cast_decimal(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast by the digits as they are written: Arrow's own way between decimals and floats misses the nearest."""
    have, text = array.type, pa.large_string()
    if types.is_decimal(target):  # beyond 128 bits Arrow begins anew, and tells nobody
        sizes = pc.call_function("abs", [array.cast(pa.float64(), safe=False)])
        limit = pa.scalar(10.0 ** (target.precision - target.scale))
        _check(pc.call_function("less_equal", [sizes, limit]), array, target)
    if types.is_integer(have):
        return array.cast(_INTEGER_DIGITS).cast(target)
    if types.is_floating(have):
        numbers = array.cast(pa.float64())
        whole = pc.call_function("equal", [pc.call_function("trunc", [numbers]), numbers])
        return pc.call_function("if_else", [whole, numbers.cast(target), array.cast(text).cast(target)])
    made = array.cast(text).cast(target) if types.is_floating(target) else array.cast(target)
    if types.is_floating(target):
        backs = (made.cast(text).cast(have), made.cast(pa.float64()).cast(have))  # digits, or the very number
        same = (pc.call_function("equal", [array, back]) for back in backs)
        _check(pc.call_function("or_kleene", list(same)), array, target)
    return made


def _cast_moment(array: pa.Array, target: pa.DataType) -> pa.Array:
    if types.is_time(target):
        raise ValueError("the day would be lost; take the time of day first, with .dt.time")
    zones = {getattr(arrow, "tz", None) for arrow in (array.type, target)}
    if None in zones and not zones <= {None, *_UTC} and (types.is_timestamp(target) or types.is_date(target)):
        raise ValueError(
            "naive and zone-aware values are the same in UTC only; localize it, or convert it to UTC, first"
        )
    made = array.cast(target)
    if types.is_timestamp(array.type) and types.is_date(target):
        _check(pc.call_function("equal", [made.cast(array.type), array]), array, target, "; it has a time of day")
    return made


def _cast_extension(array: pa.Array, target: pa.DataType) -> pa.Array:
    have = array.type
    if isinstance(target, pa.BaseExtensionType):
        if target.extension_name == "arrow.uuid" and _is_text(have):
            parsed = [text if text is None else uuid.UUID(text).bytes for text in array.to_pylist()]
            return pa.ExtensionArray.from_storage(target, pa.array(parsed, target.storage_type))
        return pa.ExtensionArray.from_storage(target, cast_exactly(array, target.storage_type))
    if have.extension_name == "arrow.uuid" and _is_text(target):
        return pa.array([value if value is None else str(value) for value in array.to_pylist()], target)
    return cast_exactly(array.storage, target)


def _cast_to_date64(array: pa.Array, target: pa.DataType) -> pa.Array:
    made = array.cast(target)
    _check(_numpy(array) % 86_400_000 == 0, array, target, "; it is not a whole day")
    return made


def _cast_to_time(array: pa.Array, target: pa.DataType) -> pa.Array:
    made = array.cast(target)
    seconds = _numpy(array) / {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[target.unit]
    _check((seconds >= 0) & (seconds < 86_400), array, target)
    return made


def _refuse_duration(array: pa.Array, target: pa.DataType) -> pa.Array:
    raise ValueError(f"{array.type} as {target} would lose the unit; cast it to an integer or format it first")


def _parse_integers(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Read text as decimal digits: Arrow takes 0xFF, too, for the int8 -1."""
    hexadecimal = pc.call_function("match_substring_regex", [array], pc.MatchSubstringOptions("^-?0[xX]"))
    _check(pc.call_function("invert", [hexadecimal]), array, target)
    return array.cast(target)


_RULES: tuple[tuple[Callable[[pa.DataType, pa.DataType], bool], Callable[[pa.Array, pa.DataType], pa.Array]], ...] = (
    (lambda *both: any(isinstance(arrow, pa.BaseExtensionType) for arrow in both), _cast_extension),
    (lambda *both: all(map(_is_number, both)), _cast_number),
    (lambda *both: any(map(types.is_decimal, both)), _cast_decimal),
    (lambda have, _: types.is_date(have) or types.is_timestamp(have), _cast_moment),
    (lambda have, want: types.is_integer(have) and types.is_date64(want), _cast_to_date64),
    (lambda have, want: types.is_integer(have) and types.is_time(want), _cast_to_time),
    (lambda have, want: types.is_duration(have) and _is_text(want), _refuse_duration),
    (lambda have, want: _is_text(have) and types.is_floating(want), _parse_floats),
    (lambda have, want: _is_text(have) and types.is_integer(want), _parse_integers),
)
