"""A value of an expression → the same value in its column's type, or a refusal."""

from __future__ import annotations

import contextlib
import functools
import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import polars as pl
import pyarrow as pa
from pyarrow import types

from rt_frames._schema.casts import family
from rt_frames._schema.data_type import show_type
from rt_frames._text import show_value

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY_MS = 86_400_000
_FLOATS = {16: "<e", 32: "<f", 64: "<d"}


@dataclass(frozen=True)
class Value:
    """A value of Polars, and its dtype; moments and the like as numbers."""

    value: Any
    dtype: pl.DataType


@dataclass(frozen=True)
class Outside:
    """A moment or duration before or after all that its column can hold."""

    is_after: bool


class OtherZone(Exception):
    """A column is compared with a moment whose zone is not the column's."""


class _Inexact(Exception):
    """The value is not exact in the type, for a reason."""


def check_comparable(name: str, arrow: pa.DataType, symbol: str) -> None:
    """Raise ValueError if a column cannot be compared with values."""
    if types.is_dictionary(arrow) and _is_text(arrow.value_type):
        if symbol not in ("==", "!="):
            raise ValueError(
                f"where: column {name!r} has categories, which have no order here; use "
                "==, != or is_in"
            )
        return
    if _converter(arrow) is None:
        raise ValueError(
            f"where: column {name!r} is {show_type(arrow)}, which cannot be compared; "
            "nothing was sent; use other columns, or is_null()"
        )


def check_zone(
    name: str, arrow: pa.DataType, dtype: pl.DataType, *, in_list: bool = False
) -> None:
    """Raise OtherZone if Polars does not compare a column with moments of a dtype.

    It compares moments of two zones only if they are in a list.
    """
    if not types.is_timestamp(arrow) or not isinstance(dtype, pl.Datetime):
        return
    zone = _zone(arrow)
    if dtype.time_zone == zone or (in_list and zone and dtype.time_zone):
        return
    given = f"in zone {dtype.time_zone}"
    cure = f"convert it to {zone}"
    if not zone:
        cure = "pass one without zone"
    elif not dtype.time_zone:
        given = "without zone"
        cure = f"give it the zone {zone}"
    raise OtherZone(
        f"where: column {name!r} ({show_type(arrow)}) is compared with a moment "
        f"{given}; nothing was sent; {cure}"
    )


@functools.cache
def _zone(arrow: pa.DataType) -> str | None:
    """Return Polars' name of the zone of moments. None if it knows no such zone."""
    with contextlib.suppress(pl.exceptions.ComputeError):
        return cast("pl.Datetime", pl.Series(pa.array([], arrow)).dtype).time_zone
    return None


def convert(name: str, arrow: pa.DataType, value: Value) -> Any:
    """Return a value in a column's type. Raise ValueError if it is not exact there."""
    plain = _plain(arrow)
    try:
        return _converter(plain)(value, plain)
    except _Inexact as error:
        shown = show_value(value.value)
        if isinstance(value.dtype, pl.Date | pl.Datetime | pl.Time):
            shown = str(pl.Series([value.value]).cast(value.dtype).cast(pl.String)[0])
        raise ValueError(
            f"where: {shown} does not fit column {name!r} ({show_type(arrow)}): {error}; "
            "nothing was sent"
        ) from None


def _plain(arrow: pa.DataType) -> pa.DataType:
    if types.is_dictionary(arrow):
        return arrow.value_type
    return arrow.storage_type if _is_uuid(arrow) else arrow


def _is_uuid(arrow: pa.DataType) -> bool:
    return getattr(arrow, "extension_name", "") == "arrow.uuid"


def _converter(arrow: pa.DataType) -> Any:
    for test, converter in _CONVERTERS:
        if test(arrow):
            return converter
    return None


def _bool(given: Value, _arrow: pa.DataType) -> bool:
    if given.dtype != pl.Boolean():
        raise _Inexact("pass True or False")
    return bool(given.value)


def _number(given: Value) -> Any:
    if not given.dtype.is_numeric():
        raise _Inexact("pass a number")
    return given.value


def _integer(given: Value, arrow: pa.DataType) -> int:
    value = _number(given)
    if not math.isfinite(value) or value != int(value):
        raise _Inexact("pass a whole number")
    # Polars compares as floats, to which several whole numbers are equal
    if isinstance(value, float) and abs(value) >= 2**53:
        raise _Inexact("pass it as an int")
    bits = arrow.bit_width
    lowest = -(2 ** (bits - 1)) if types.is_signed_integer(arrow) else 0
    if not lowest <= value < lowest + 2**bits:
        raise _Inexact("it is out of range")
    return int(value)


def _float(given: Value, arrow: pa.DataType) -> float:
    value = _number(given)
    code = _FLOATS[arrow.bit_width]
    try:
        (stored,) = struct.unpack(code, struct.pack(code, float(value)))
    except OverflowError:
        raise _Inexact("it is out of range") from None
    if stored != value and not math.isnan(value):
        raise _Inexact(
            f"pass one that is exact, such as pl.lit(…, dtype=pl.Float{arrow.bit_width})"
        )
    # -0.0 is 0.0
    return float(stored) + 0.0


def _decimal(given: Value, arrow: pa.DataType) -> Decimal:
    value = _number(given)
    if not math.isfinite(value):
        raise _Inexact("pass a finite number")
    unscaled = Fraction(value) * Fraction(10) ** arrow.scale
    if unscaled.denominator != 1:
        if isinstance(value, float):
            raise _Inexact(f'no float is exact there; pass Decimal("{value!r}")')
        raise _Inexact(f"it has more than {arrow.scale} decimal places")
    if abs(unscaled) >= 10**arrow.precision:
        raise _Inexact("it is out of range")
    return Decimal((int(unscaled < 0), _digits(unscaled.numerator), -arrow.scale))


def _digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


def _text(given: Value, _arrow: pa.DataType) -> str:
    if not isinstance(given.dtype, pl.String | pl.Categorical | pl.Enum):
        raise _Inexact("pass text")
    return str(given.value)


def _bytes(given: Value, arrow: pa.DataType) -> bytes:
    if given.dtype != pl.Binary():
        raise _Inexact("pass bytes")
    value = bytes(given.value)
    if types.is_fixed_size_binary(arrow) and len(value) != arrow.byte_width:
        raise _Inexact(f"pass {arrow.byte_width} bytes")
    return value


def _date(given: Value, arrow: pa.DataType) -> int:
    value = given.value
    if isinstance(given.dtype, pl.Datetime) and types.is_date64(arrow):
        # Polars reads these dates as moments
        per_day = 86_400 * 10**9 // _NANOSECONDS[given.dtype.time_unit]
        value, rest = divmod(value, per_day)
        if given.dtype.time_zone is None and not rest:
            return int(value) * _DAY_MS
    elif given.dtype == pl.Date():
        return value * _DAY_MS if types.is_date64(arrow) else int(value)
    raise _Inexact("pass a date")


def _time(given: Value, arrow: pa.DataType) -> int:
    if given.dtype != pl.Time():
        raise _Inexact("pass a time")
    return _in_unit(given.value, arrow)


def _in_unit(nanoseconds: int, arrow: pa.DataType) -> int:
    value, rest = divmod(nanoseconds, _NANOSECONDS[arrow.unit])
    if rest:
        raise _Inexact(f"it is finer than the column; round it to {arrow.unit}")
    return value


def _moment(given: Value, arrow: pa.DataType) -> int | Outside:
    if not isinstance(given.dtype, pl.Datetime):
        raise _Inexact("pass a datetime, such as datetime(2024, 1, 31)")
    return _span(given.value, given.dtype.time_unit, arrow)


def _duration(given: Value, arrow: pa.DataType) -> int | Outside:
    if not isinstance(given.dtype, pl.Duration):
        raise _Inexact("pass a timedelta")
    return _span(given.value, given.dtype.time_unit, arrow)


def _span(number: int, unit: str, arrow: pa.DataType) -> int | Outside:
    nanoseconds = number * _NANOSECONDS[unit]
    whole = nanoseconds // _NANOSECONDS[arrow.unit]
    if not -(2**63) <= whole < 2**63:
        return Outside(whole > 0)
    return _in_unit(nanoseconds, arrow)


def _is_moment(arrow: pa.DataType) -> bool:
    # Polars 2.1 knows no offsets such as +05:30
    return types.is_timestamp(arrow) and bool(arrow.tz) == bool(_zone(arrow))


def _is_text(arrow: pa.DataType) -> bool:
    return family(arrow) == "text"


def _is_bytes(arrow: pa.DataType) -> bool:
    is_fixed = types.is_fixed_size_binary(arrow) or _is_uuid(arrow)
    return is_fixed or family(arrow) == "binary"


_CONVERTERS: tuple[tuple[Any, Any], ...] = (
    (types.is_boolean, _bool),
    (types.is_integer, _integer),
    (types.is_floating, _float),
    (types.is_decimal128, _decimal),
    (_is_text, _text),
    (_is_bytes, _bytes),
    (types.is_date, _date),
    (types.is_time, _time),
    (_is_moment, _moment),
    (types.is_duration, _duration),
)
