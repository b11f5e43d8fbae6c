"""Draw frames with ``dtypes=`` at the edges of what the targets hold, and judge what a cast may make of a value.

A cast may change the form of a value and never its content: what the target cannot hold exactly has to be refused.
"""

from __future__ import annotations

import datetime as dt
import fractions
import uuid
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from tests.longer.attack import values
from tests.longer.attack.values import DAY, NANOSECONDS, Value

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

UTC = dt.UTC
EDGES: dict[str, list[Any]] = {
    "ints": [0, 1, -1, 127, 128, -129, 255, 256, 2049, 65504, 2**24 + 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "floats": [0.0, 1.0, -0.0, 0.5, 2049.0, 65520.0, 1e300, 16777217.0, 2.0**63, 1e-320, float("inf"), float("nan")],
    "decimals": [Decimal("1.2345"), Decimal("1.20"), Decimal("999.99"), Decimal(1000), Decimal(2**60 + 1)],
    "bools": [True, False],
    "dates": [dt.date(2020, 2, 29), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "datetimes": [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 5), dt.datetime(2020, 1, 1, 5, 0, 0, 1)],
    "aware": [dt.datetime(2020, 1, 1, tzinfo=UTC), dt.datetime(2020, 1, 1, 5, 0, 0, 1, tzinfo=UTC)],
    "far datetimes": [dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1)],
    "years of five digits": [
        *map(np.datetime64, ["40000-01-01T00:00:01", "10000-02-29T05:00:00", "-0044-03-15T12:00:00"])
    ],
    "times": [dt.time(5), dt.time(5, 0, 0, 1), dt.time(23, 59, 59, 999999)],
    "spans": [
        dt.timedelta(seconds=1),
        dt.timedelta(seconds=1.5),
        dt.timedelta(microseconds=1),
        dt.timedelta(days=200_000),
    ],
    "stamps": [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01 05:00:00.000000001")],
    "deltas": [pd.Timedelta("1s"), pd.Timedelta(1)],
    "texts": ["", "1", "-7", "1.5", "true", "2020-01-01", "2020-01-01 05:00:00", "Ä", "1e3", "x" * 30, "300"],
    "blobs": [b"", b"ab", b"\xff", b"abc"],
    "uuids": [uuid.UUID(int=5), uuid.UUID(int=2**127 + 1)],
    "int lists": [[1, 300], [], [None, 2**31]],
    "float lists": [[0.5, 1.0], [2.0], []],
    "structs": [{"a": 1, "b": 300}, {"a": 2, "b": 4}, {"a": None, "b": 1}],
    "mixed numbers": [0, 1, 2, 0.5, 1.0, 2**53 + 1],
    "mixed datetimes": [dt.datetime(2020, 1, 1, 5), dt.datetime(2020, 1, 1, tzinfo=UTC)],
    "mixed days": [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)],
    "mixed spans": [dt.timedelta(seconds=1.5), 5],
    "mixed texts": ["a", b"b", uuid.UUID(int=5), 3],
}
TARGETS: list[Any] = [
    *[pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
    *[pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(), pa.string_view()],
    *[pa.binary(), pa.large_binary(), pa.binary(3), pa.binary(16), pa.date32(), pa.date64()],
    *[pa.decimal128(5, 2), pa.decimal128(38, 10), pa.decimal256(50, 0), pa.decimal128(3, 0), pa.decimal32(5, 2)],
    *[pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    *[pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")],
    *[pa.duration(unit) for unit in ("s", "ms", "us", "ns")],
    *[pa.list_(pa.int8()), pa.large_list(pa.int64()), pa.list_(pa.float32()), pa.list_(pa.int64(), 2)],
    *[pa.struct([("b", pa.int64()), ("a", pa.int64())]), pa.struct([("a", pa.int8())])],
    *[pa.struct([("a", pa.int64()), ("b", pa.int16())]), pa.struct([("a", pa.int64()), ("c", pa.int64())])],
    *[pa.dictionary(pa.int32(), pa.large_string()), pa.dictionary(pa.int8(), pa.int64()), pa.null(), pa.uuid()],
    *["str", "string", "int64", "Int8", "float64", "float32", "uint8", "bool", "boolean", "date32", "timestamp[us]"],
    *["datetime64[s]", "timedelta64[s]", "datetime64[ns, UTC]", "double", "int", "large_string", "utf8", "category"],
    *[int, float, str, bool, bytes, dt.date, dt.datetime, dt.timedelta, dt.time],
    *[np.int16, np.dtype("f4"), pl.Int8, pl.Float32, pl.String, pl.Date, pl.Datetime("ms"), pl.Decimal(10, 2)],
    *[
        pl.List(pl.Int8),
        pl.Struct({"b": pl.Int64, "a": pl.Int64}),
        pd.Int16Dtype(),
        pd.StringDtype(),
        pd.CategoricalDtype(),
    ],
]


def frame(r: random.Random, rows: int) -> tuple[Any, dict[str, Any]]:
    """Make a frame of one column in one of the libraries, and the cast that is asked for."""
    kind = r.choice(list(EDGES))
    edges = EDGES[kind]
    drawn = [r.choice([*edges, *edges, None]) for _ in range(max(rows, 1))]
    if r.random() < 0.5:
        drawn = [r.choice(edges[:2]) for _ in drawn]
    made: Callable[[list[Any]], Any] = r.choice(
        [_pandas_object, _pandas_object, _pandas_inferred, _arrow, _arrow, _polars]
    )
    return made(drawn), {"col_0": r.choice(_near(kind) if r.random() < 0.6 else TARGETS)}


def _near(kind: str) -> list[Any]:
    """Choose the targets that somebody would ask for."""
    first = EDGES[kind][0]
    if isinstance(first, int | float | Decimal):
        return [t for t in TARGETS[:30] if pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)]
    if isinstance(first, dt.timedelta):
        return [t for t in TARGETS[:60] if isinstance(t, pa.DataType) and pa.types.is_duration(t)]
    if isinstance(first, dt.date | dt.time):
        return [t for t in TARGETS[:60] if isinstance(t, pa.DataType) and pa.types.is_temporal(t)]
    if isinstance(first, list | dict):
        return [t for t in TARGETS if isinstance(t, pa.DataType) and pa.types.is_nested(t)]
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return [*(t for t in TARGETS[:60] if isinstance(t, pa.DataType) and any(test(t) for test in texts)), "str", str]


def _pandas_object(cells: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"col_0": pd.Series(cells, dtype=object)})


def _pandas_inferred(cells: list[Any]) -> pd.DataFrame:
    frame = pd.DataFrame({"col_0": cells})
    return frame.convert_dtypes(infer_objects=False) if len(cells) % 2 else frame


def _arrow(cells: list[Any]) -> pa.Table:
    return pa.table({"col_0": pa.array(cells)})


def _polars(cells: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"col_0": pl.Series(cells)})


def same_after_cast(expected: Value, found: Value, target: pa.DataType | None) -> bool:
    """Tell whether a cast may have made this of that."""
    if values.same(expected, found, mixed=True):
        return True
    if expected is None or found is None:
        return False
    number, found_number = values.number_of(expected), values.number_of(found)
    if number is not None and found_number is not None:
        tests = {"dec": _is_nearest, "float": _is_rounded}
        return number == found_number or (expected[0] in tests and tests[expected[0]](number, found_number, target))
    return _same_inside(expected, found, target) or _same_otherwise(expected, found, target)


def _same_inside(expected: tuple, found: tuple, target: pa.DataType | None) -> bool:
    match expected, found:
        case ("list", items), ("list", found_items):
            inner = getattr(target, "value_type", None)
            return len(items) == len(found_items) and all(
                same_after_cast(a, b, inner) for a, b in zip(items, found_items, strict=True)
            )
        case ("struct", items), ("struct", found_items):
            by_name, found_by_name = dict(items), dict(found_items)
            return set(by_name) == set(found_by_name) and all(
                same_after_cast(value, found_by_name[name], None) for name, value in items
            )
    return False


def _same_otherwise(expected: tuple, found: tuple, target: pa.DataType | None) -> bool:
    match expected, found:
        case ("str", text), (kind, *_) if kind != "str":
            return _text_means(text, found)
        case (kind, *_), ("str", text) if kind != "str":
            return _text_means(text, expected)
        case ("int", count), (("ts" | "dur" | "time" | "date") as kind, *_):
            many = DAY if kind == "date" else NANOSECONDS[target.unit]
            return count * many == _nanoseconds(found)
        case (("ts" | "dur" | "time" | "date" | "day?"), *_), ("int", count):
            return any(count * many == _nanoseconds(expected) for many in NANOSECONDS.values())
        case ("uuid", raw), ("bytes", found_raw):
            return raw == found_raw
    return _same_moment(expected, found)


def _is_nearest(number: fractions.Fraction, found: fractions.Fraction | float, target: pa.DataType | None) -> bool:
    """Tell whether a float's shortest text has all digits of a decimal, so that it can be had back."""
    if not isinstance(found, fractions.Fraction):
        return False
    kind = {pa.float16(): np.float16, pa.float32(): np.float32}.get(target, np.float64)
    return fractions.Fraction(str(kind(float(found)))) == number


def _is_rounded(
    number: fractions.Fraction | float, found: fractions.Fraction | float, target: pa.DataType | None
) -> bool:
    """Tell whether a fraction is the nearest float of fewer bits."""
    kind = {pa.float16(): np.float16, pa.float32(): np.float32}.get(target)
    fraction = isinstance(number, fractions.Fraction) and number.denominator > 1
    return kind is not None and fraction and fractions.Fraction(float(kind(float(number)))) == found


def _nanoseconds(value: Value) -> int:
    return value[1] * DAY if value[0] in ("date", "day?") else value[1]


def _same_moment(expected: Value, found: Value) -> bool:
    """Compare dates and timestamps; between naive and zoned ones, the instant or the clock on the wall may stay."""
    dated = ("ts", "date", "day?")
    if expected[0] not in dated or found[0] not in dated:
        return False
    if _nanoseconds(expected) == _nanoseconds(found):
        return True
    if expected[0] != "ts" or found[0] != "ts" or (expected[2] is None) == (found[2] is None):
        return False
    return _wall_clock(expected) == _wall_clock(found)


def _wall_clock(value: Value) -> int:
    _, nanoseconds, zone = value
    if zone is None:
        return nanoseconds
    stamp = pd.Timestamp(nanoseconds // 10**9, unit="s", tz="UTC").tz_convert(zone)
    return nanoseconds + int(stamp.utcoffset().total_seconds()) * 10**9


def _text_means(text: str, value: Value) -> bool:
    """Tell whether a text is one way to write a value."""
    try:
        number = values.number_of(value)
        if number is not None:
            spelled = {"true": 1, "false": 0}.get(text.lower())
            written = Decimal(text) if spelled is None else spelled
            return written == number or float(written) == number or (number != number and text.lower() == "nan")  # noqa: PLR0124  # a NaN
        match value:
            case ("bytes", raw):
                return text.encode() == raw
            case ("uuid", _):
                return text == str(uuid.UUID(bytes=value[1]))
            case (("ts" | "date" | "day?"), *_):
                stamp = pd.Timestamp(text)
                plain = stamp.tz_convert("UTC").tz_localize(None) if stamp.tz else stamp
                return values.value_of(plain)[1] in (
                    _nanoseconds(value),
                    _wall_clock(("ts", _nanoseconds(value), None)),
                )
            case (("dur" | "time"), nanoseconds):
                return pd.Timedelta(text).value == nanoseconds
    except (ValueError, InvalidOperation, OverflowError):
        return False
    return False
