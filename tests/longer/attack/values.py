"""What a cell means, as tuples that can be compared: the same for Python objects, pandas, Polars and Arrow.

``None`` is a null. All else is a tuple whose first item is its kind: ``("int", 5)``, ``("ts", nanoseconds, zone)``.
Time is counted in whole nanoseconds, and floats are kept as text of their exact bits. ``("unknown", why)`` equals
nothing: such a cell has to be refused. Kinds that end in ``?`` stand for more than one acceptable answer.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import fractions
import math
import re
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

EPOCH = dt.datetime(1970, 1, 1)
EPOCH_UTC = EPOCH.replace(tzinfo=dt.UTC)
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "m": 60 * 10**9, "h": 3600 * 10**9}
NANOSECONDS |= {"D": 86_400 * 10**9, "W": 7 * 86_400 * 10**9}
FINER = {"ps": 10**3, "fs": 10**6, "as": 10**9}  # how many of them make a nanosecond
DAY = NANOSECONDS["D"]
NAN_OR_NULL = ("nan?",)  # where a NaN is not clearly pandas' word for a missing value, either will do
UTC_NAMES = {"utc", "etc/utc", "z", "+00:00", "utc+00:00", "zulu", "gmt", "etc/gmt"}

Value = tuple | None


def unknown(thing: object) -> Value:
    """Say that nothing could be stored for this."""
    return ("unknown", type(thing).__name__)


def float_value(number: float) -> Value:
    """Keep every bit that counts: the sign of zero does, the payload of a NaN does not."""
    return ("float", "nan" if math.isnan(number) else float(number).hex())


def decimal_value(number: decimal.Decimal) -> Value:
    """Compare by digits: 1.10 is 1.1."""
    if not number.is_finite():
        return None if number.is_nan() else unknown(number)
    sign, digits, exponent = number.as_tuple()
    whole = int("".join(map(str, digits)) or "0")
    while whole and whole % 10 == 0:
        whole, exponent = whole // 10, exponent + 1
    return ("dec", -whole if sign else whole, exponent if whole else 0)


def timestamp_value(count: int, unit: str, zone: str | None) -> Value:
    return ("ts", count * NANOSECONDS[unit], zone and plain_zone(zone))


def plain_zone(name: str) -> str:
    """Give one name to the many spellings of UTC and of a fixed offset."""
    if name.lower() in UTC_NAMES:
        return "UTC"
    offset = re.fullmatch(r"(?:UTC)?([+-])(\d\d?):?(\d\d)(:\d\d)?", name)
    if offset:
        sign, hours, minutes, seconds = offset.groups()
        return f"{sign}{int(hours):02}:{minutes}{seconds or ''}"
    return name


def zone_of(zone: dt.tzinfo) -> str | None:
    """Name a Python time zone; None where it has no name."""
    key = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if key:
        return plain_zone(key)
    offset = zone.utcoffset(None)
    if offset is None:
        return None
    seconds = int(offset.total_seconds())
    sign, seconds = "-" if seconds < 0 else "+", abs(seconds)
    rest = f":{seconds % 60:02}" if seconds % 60 else ""
    return plain_zone(f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}{rest}")


def _nanoseconds(delta: dt.timedelta) -> int:
    return ((delta.days * 86_400 + delta.seconds) * 10**6 + delta.microseconds) * 1000


def _of_datetime(moment: dt.datetime) -> Value:
    if moment.tzinfo is None:
        return ("ts", _nanoseconds(moment - EPOCH), None)
    zone = zone_of(moment.tzinfo)
    return unknown(moment) if zone is None else ("ts", _nanoseconds(moment - EPOCH_UTC), zone)


def _of_timestamp(moment: pd.Timestamp) -> Value:
    zone = None if moment.tz is None else zone_of(moment.tz)
    if moment.tz is not None and zone is None:
        return unknown(moment)
    return timestamp_value(int(moment.asm8.view("i8")), moment.unit, zone)


def _of_time(time: dt.time) -> Value:
    if time.tzinfo is not None:
        return unknown(time)
    return ("time", (((time.hour * 60 + time.minute) * 60 + time.second) * 10**6 + time.microsecond) * 1000)


def numpy_moments(array: np.ndarray) -> list[Value]:
    """Read datetime64 or timedelta64 of any unit."""
    return [_numpy_moment(x, array.dtype) for x in array.view("i8").tolist()]


def _numpy_moment(count: int, dtype: np.dtype) -> Value:
    if count == np.iinfo("i8").min:
        return None
    unit, many = np.datetime_data(dtype)
    count *= many
    is_date = dtype.kind == "M"
    if unit in ("Y", "M") and is_date:
        return ("day?", int(np.datetime64(count, unit).astype("M8[D]").astype("i8")))
    if unit in FINER and count % FINER[unit] == 0:
        unit, count = "ns", count // FINER[unit]
    if unit not in NANOSECONDS:
        return ("unknown", str(dtype))
    if is_date and unit in ("D", "W"):
        return ("day?", count * NANOSECONDS[unit] // DAY)
    return ("ts", count * NANOSECONDS[unit], None) if is_date else ("dur", count * NANOSECONDS[unit])


def _of_numpy_scalar(x: np.generic, *, top: bool) -> Value:
    if isinstance(x, np.datetime64 | np.timedelta64):
        return numpy_moments(np.array([x]))[0]
    if isinstance(x, np.floating):
        return _of_float(x, top=top)
    if isinstance(x, np.bool_):
        return ("bool", bool(x))
    if isinstance(x, np.integer):
        return ("int", int(x))
    if isinstance(x, np.void):
        if x.dtype.names:
            return ("struct", tuple((name, value_of(x[name])) for name in x.dtype.names))
        return ("bytes", x.tobytes())
    return unknown(x)


def _of_float(x: Any, *, top: bool) -> Value:
    if math.isnan(x):
        return None if top else NAN_OR_NULL
    return float_value(float(x)) if float(x) == x else unknown(x)


def _of_array(array: np.ndarray) -> Value:
    if array.ndim == 0:
        return value_of(array[()])
    if isinstance(array, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(array)
        return ("list", tuple(None if m is np.True_ else _of_item(x) for x, m in zip(array, mask, strict=True)))
    if array.ndim == 1 and array.dtype.kind in "mM":
        return ("list", tuple(numpy_moments(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))))))
    return ("list", tuple(_of_item(x) for x in array))


def _of_item(x: object) -> Value:
    return value_of(x)


def _of_dict(cell: dict) -> Value:
    if not all(isinstance(key, str) for key in cell):
        return ("unknown", "dict with keys that are not text")
    return ("struct", tuple((str(key), value_of(item)) for key, item in cell.items()))


def _of_frame_part(cell: object) -> Value | None:
    """Read a Series, an Index or an Arrow object that stands in a cell."""
    from tests.longer.attack import arrow_cells, pandas_cells, polars_cells

    if isinstance(cell, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return ("list", tuple(pandas_cells.cells(pd.Series(cell, copy=False))))
    if isinstance(cell, pl.Series):
        return ("list", tuple(polars_cells.cells(cell)))
    if isinstance(cell, pa.Array | pa.ChunkedArray):
        return ("list", tuple(arrow_cells.cells(cell)))
    if isinstance(cell, pa.Scalar):
        return arrow_cells.cells(pa.array([cell], cell.type))[0]
    return unknown(cell)


def value_of(cell: Any, *, top: bool = False) -> Value:
    """Say what a Python object means; ``top`` is true for a cell itself and false for what is inside of one."""
    if cell is None or cell is pd.NA or cell is pd.NaT or cell is np.ma.masked:
        return None
    if isinstance(cell, enum.Enum) and not isinstance(cell, int | str):
        return unknown(cell)
    for kinds, read in _READERS:
        if isinstance(cell, kinds):
            return read(cell)
    if isinstance(cell, float):
        return _of_float(cell, top=top)
    if isinstance(cell, np.generic):
        return _of_numpy_scalar(cell, top=top)
    return _of_frame_part(cell)


_READERS: list[tuple[Any, Any]] = [
    (bool, lambda x: ("bool", x)),
    (np.timedelta64, lambda x: numpy_moments(np.array([x]))[0]),
    (int, lambda x: ("int", int(x))),
    (str, lambda x: ("str", str.__str__(x) if not isinstance(x, enum.Enum) else x.value)),
    ((bytes, bytearray, memoryview), lambda x: ("bytes", bytes(x))),
    (decimal.Decimal, decimal_value),
    (uuid.UUID, lambda x: ("uuid", x.bytes)),
    (pd.Timestamp, _of_timestamp),
    (dt.datetime, _of_datetime),
    (dt.date, lambda x: ("date", x.toordinal() - EPOCH.toordinal())),
    (dt.time, _of_time),
    (pd.Timedelta, lambda x: ("dur", int(x.asm8.view("i8")) * NANOSECONDS[x.unit])),
    (dt.timedelta, lambda x: ("dur", _nanoseconds(x))),
    (dict, _of_dict),
    ((list, tuple, range, collections.deque), lambda x: ("list", tuple(value_of(item) for item in x))),
    ((set, frozenset), lambda x: ("set?", tuple(value_of(item) for item in x))),
    (np.ndarray, _of_array),
]


def number_of(value: Value) -> fractions.Fraction | float | None:
    """Give the exact number of a value, where it is one."""
    match value:
        case ("int" | "bool", number):
            return fractions.Fraction(int(number))
        case ("float", text):
            number = float.fromhex(text) if text != "nan" else math.nan
            return fractions.Fraction(number) if math.isfinite(number) else number
        case ("dec", whole, exponent):
            return fractions.Fraction(whole) * fractions.Fraction(10) ** exponent
    return None


def same(expected: Value, found: Value, *, mixed: bool = False) -> bool:
    """Tell whether what was found may stand for what was expected; ``mixed``: whole numbers may have become floats."""
    if expected == found:
        return expected is None or expected[0] != "unknown"
    if expected is None or found is None:
        return expected == NAN_OR_NULL
    return _same_scalar(expected, found, mixed=mixed) or _same_container(expected, found, mixed=mixed)


def _same_scalar(expected: tuple, found: tuple, *, mixed: bool) -> bool:
    match expected, found:
        case ("nan?",), ("float", "nan"):
            return True
        case ("day?", days), ("date", found_days):
            return days == found_days
        case ("day?", days), ("ts", nanoseconds, None):
            return days * DAY == nanoseconds
        case ("uuid", raw), ("str", text):
            return str(uuid.UUID(bytes=raw)) == text
        case ("int", number), ("float", _) if mixed:
            return number_of(found) == number
    return False


def _same_container(expected: tuple, found: tuple, *, mixed: bool) -> bool:
    match expected, found:
        case ("list", items), ("list", found_items):
            return len(items) == len(found_items) and all(map(_comparison(mixed), items, found_items))
        case ("set?", items), ("list", found_items):
            return _same_set(items, found_items, mixed=mixed)
        case ("map", items), ("map", found_items):
            return same(("list", tuple(map(_pair, items))), ("list", tuple(map(_pair, found_items))), mixed=mixed)
        case ("struct", items), ("struct", found_items):
            return _same_struct(items, found_items, mixed=mixed)
    return False


def _comparison(mixed: bool) -> Any:
    return lambda a, b: same(a, b, mixed=mixed)


def _pair(item: tuple[Value, Value]) -> Value:
    return ("list", item)


def _same_set(items: Iterable[Value], found: Iterable[Value], *, mixed: bool) -> bool:
    left = list(found)
    for item in items:
        match_ = next((x for x in left if same(item, x, mixed=mixed)), left)
        if match_ is left:
            return False
        left.remove(match_)
    return not left


def _same_struct(items: tuple, found: tuple, *, mixed: bool) -> bool:
    """Compare by place where the names agree, else by name: a name that a dictionary lacks is a null."""
    if [name for name, _ in items] == [name for name, _ in found]:
        return all(same(a, b, mixed=mixed) for (_, a), (_, b) in zip(items, found, strict=True))
    by_name, found_by_name = dict(items), dict(found)
    if not set(by_name) <= set(found_by_name) or len(found_by_name) != len(found):
        return False
    return all(same(by_name.get(name), value, mixed=mixed) for name, value in found)


def kinds_in(value: Value) -> set[str]:
    """Name all kinds of value that occur, at every depth."""
    if value is None:
        return {"null"}
    kind, *parts = value
    if kind in ("list", "set?"):
        return {kind}.union(*(kinds_in(item) for item in parts[0]))
    if kind == "struct":
        return {kind}.union(*(kinds_in(item) for _, item in parts[0]))
    if kind == "map":
        return {kind}.union(*(kinds_in(item) for pair in parts[0] for item in pair))
    return {f"{kind} zone" if kind == "ts" and parts[1] else kind}
