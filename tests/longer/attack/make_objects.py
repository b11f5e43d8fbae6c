"""Draw Python objects of every kind, as they stand in cells of pandas' object columns."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import random
import uuid
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

Draw = Callable[[random.Random], Any]

ZONES = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/New_York", "Australia/Lord_Howe"]
TEXTS = ["", "a", "b", "Ä", "日本", "👍🏽", "nul\0nul", "x" * 40, "line\nline", "1", "True", "2020-01-01", " "]
SURROGATES = ["\ud800", "ok\udcff", "\udfff\ud800"]
INTS = [0, 1, -1, 7, 127, 128, 255, 256, 2**24 + 1, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
HUGE_INTS = [2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**30]
FLOATS = [0.0, -0.0, 0.1, 1.0, 1.5, -2.5, 1e300, -1e-300, 5e-324, float("inf"), float("-inf"), 2.0**53, 16777217.0]
NUMPY_INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
DTYPES = ["i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "?", "M8[D]", "M8[s]", "M8[ms]", "M8[ns]", "m8[s]", "m8[ms]"]
DTYPES += ["m8[ns]", "U3", "S3", ">i4", ">f8", ">M8[s]", "c8"]
UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]


class Color(enum.Enum):
    """An enumeration of plain members."""

    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    """An enumeration of numbers."""

    LOW = 1
    HIGH = 9


class Word(str):
    """Text of a class of one's own."""

    __slots__ = ()


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024  # what is drawn is the plain old kind


@dataclasses.dataclass
class Thing:
    """An object that no column can hold."""

    size: int = 1


def aware(r: random.Random) -> dt.datetime:
    zone = r.choice([dt.UTC, dt.timezone(dt.timedelta(hours=9)), dt.timezone(dt.timedelta(minutes=-210))])
    return moment(r).replace(tzinfo=zone)


def zoned(r: random.Random) -> dt.datetime:
    """Draw moments near a change of summer time too, on both sides of the fold."""
    day = r.choice([dt.datetime(2024, 10, 27, 2, 30), dt.datetime(2024, 3, 31, 2, 30), dt.datetime(1900, 1, 1, 5)])
    return day.replace(tzinfo=zoneinfo.ZoneInfo(r.choice(ZONES)), fold=r.randrange(2))


def moment(r: random.Random) -> dt.datetime:
    edge = [dt.datetime.min, dt.datetime.max, dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]
    drawn = dt.datetime(r.randrange(1900, 2100), 1, 1) + dt.timedelta(microseconds=r.randrange(10**13))
    midnight = dt.datetime(2020, 2, 29)
    return r.choice([drawn, drawn, midnight, edge[r.randrange(4)]])


def day(r: random.Random) -> dt.date:
    drawn = dt.date(1900, 1, 1) + dt.timedelta(days=r.randrange(80_000))
    return r.choice([drawn, drawn, drawn, dt.date.min, dt.date.max])


def time(r: random.Random) -> dt.time:
    return r.choice([dt.time(r.randrange(24), r.randrange(60)), dt.time(0), dt.time(23, 59, 59, 999999)])


def span(r: random.Random) -> dt.timedelta:
    small = dt.timedelta(microseconds=r.randrange(-(10**9), 10**9))
    return r.choice([small, dt.timedelta(days=r.randrange(1000)), dt.timedelta(0), dt.timedelta(days=106_000)])


def stamp(r: random.Random) -> pd.Timestamp:
    unit = r.choice(["s", "ms", "us", "ns", "ns", "ns"])
    count = r.randrange(-(10**9), 2 * 10**9) * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    return pd.Timestamp(np.datetime64(count + r.randrange(1000), unit))


def stamp_zoned(r: random.Random) -> pd.Timestamp:
    return stamp(r).tz_localize("UTC").tz_convert(r.choice(ZONES))


def delta(r: random.Random) -> pd.Timedelta:
    return pd.Timedelta(np.timedelta64(r.randrange(-(10**10), 10**10), r.choice(["s", "ms", "us", "ns", "ns"])))


def numpy_moment(r: random.Random) -> np.datetime64:
    unit = r.choice(UNITS)
    many = {"Y": 50, "M": 600, "W": 3000, "D": 20_000}.get(unit, 10**9)
    return np.datetime64(r.randrange(-many, many), r.choice([unit, unit, (unit, r.randrange(1, 4))]))


def numpy_span(r: random.Random) -> np.timedelta64:
    return np.timedelta64(r.randrange(-1000, 1000), r.choice(UNITS))


def number(r: random.Random) -> Decimal:
    digits = "".join(r.choice("0123456789") for _ in range(r.choice([1, 3, 9, 18, 30, 38, 39, 60])))
    return Decimal(digits).scaleb(-r.choice([0, 0, 2, 5, 20])).copy_sign(r.choice([1, -1]))


def numpy_int(r: random.Random) -> np.integer:
    kind = r.choice(NUMPY_INTS)
    info = np.iinfo(kind)
    return kind(r.choice([info.min, info.max, r.randrange(100)]))


SCALARS: dict[str, Draw] = {
    "bool": lambda r: r.random() < 0.5,
    "np.bool": lambda r: np.bool_(r.random() < 0.5),
    "int": lambda r: r.choice([*INTS, r.randrange(-1000, 1000)]),
    "huge int": lambda r: r.choice(HUGE_INTS),
    "IntEnum": lambda r: r.choice(list(Level)),
    "np.integer": numpy_int,
    "float": lambda r: r.choice([*FLOATS, r.random()]),
    "np.float": lambda r: r.choice([np.float16, np.float32, np.float64])(r.choice([0.1, 2.5, -0.0, 6e4])),
    "longdouble": lambda r: np.longdouble(r.choice(["0.1", "1.5"])),
    "complex": lambda r: r.choice([1j, np.complex64(1)]),
    "Decimal": number,
    "Decimal NaN": lambda r: Decimal(r.choice(["NaN", "Infinity", "-Infinity", "-0"])),
    "str": lambda r: r.choice(TEXTS),
    "surrogate": lambda r: r.choice(SURROGATES),
    "np.str": lambda r: np.str_(r.choice(TEXTS)),
    "own str": lambda r: Word(r.choice(TEXTS)),
    "bytes": lambda r: r.choice([b"", b"a", b"\xff\x00", b"1"]),
    "bytearray": lambda r: r.choice([bytearray(b"ab"), memoryview(b"ab")]),
    "np.bytes": lambda _: np.bytes_(b"ab"),
    "UUID": lambda r: uuid.UUID(int=r.getrandbits(128)),
    "date": day, "datetime": moment, "aware": aware, "zoned": zoned, "time": time, "timedelta": span,
    "aware time": lambda _: dt.time(5, tzinfo=dt.UTC),
    "Timestamp": stamp, "Timestamp zoned": stamp_zoned, "Timedelta": delta,
    "datetime64": numpy_moment, "timedelta64": numpy_span,
    "Period": lambda r: pd.Period(day(r).replace(year=2000), r.choice("DM")),
    "Interval": lambda r: pd.Interval(0, r.randrange(1, 5)),
    "Enum": lambda r: r.choice(list(Color)),
    "object": lambda r: r.choice([object(), Thing(), print, ..., Thing]),
    "pa.scalar": lambda r: pa.scalar(r.choice([1, "a", dt.date(2020, 1, 1)])),
    "DateOffset": lambda _: pd.offsets.MonthEnd(),
}  # fmt: skip
FAMILIES = [
    ["bool", "np.bool", "int", "np.integer", "float", "np.float", "huge int", "Decimal", "longdouble", "IntEnum"],
    ["str", "np.str", "own str", "bytes", "np.bytes", "bytearray", "surrogate", "UUID", "Enum"],
    ["date", "datetime", "aware", "zoned", "Timestamp", "Timestamp zoned", "datetime64", "time", "Period"],
    ["timedelta", "Timedelta", "timedelta64", "int", "time"],
]
COMMON = ["bool", "int", "float", "str", "bytes", "date", "datetime", "Timestamp", "timedelta", "Decimal", "np.integer"]


def null(r: random.Random) -> Any:
    unit = r.choice(["D", "s", "us", "ns", "generic"])
    moments = [np.datetime64("NaT", unit), np.timedelta64("NaT", unit)]
    return r.choice([None, None, None, float("nan"), pd.NA, pd.NaT, np.float32("nan"), *moments])


def typed_array(r: random.Random) -> np.ndarray:
    """Draw an array of a dtype of its own: any kind, order of bytes and layout, masked or not."""
    size = r.randrange(4)
    dtype = np.dtype(r.choice(DTYPES))
    drawn = np.array([r.randrange(100) for _ in range(size)])
    array = drawn.astype("i8").astype(dtype) if dtype.kind in "mM" else drawn.astype(dtype)
    shape = r.random()
    if shape < 0.1:
        array = np.stack([array, array])
    elif shape < 0.2:
        array = np.repeat(array, 2)[::2]
    elif shape < 0.3:
        array = np.ma.masked_array(array, [r.random() < 0.4 for _ in range(size)])
    elif shape < 0.35:
        array = array[:1].reshape(()) if size else array
    elif dtype.kind == "f" and size and shape < 0.5:
        array[0] = np.nan
    elif dtype.kind in "mM" and size and shape < 0.5:
        array[0] = "NaT"
    return array


def _object_array(items: list) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def _series(items: list) -> pd.Series:
    return pd.Series(items, dtype=object)


Nest = Callable[[random.Random, Draw], Any]


def _items(r: random.Random, draw: Draw) -> list:
    inner = null if r.random() < 0.2 else lambda _: None
    return [draw(r) if r.random() < 0.85 else inner(r) for _ in range(r.randrange(4))]


NESTS: dict[str, Nest] = {
    "list": _items,
    "tuple": lambda r, draw: tuple(_items(r, draw)),
    "pair": lambda r, draw: Point(draw(r), draw(r)),
    "object array": lambda r, draw: _object_array(_items(r, draw)),
    "deque": lambda r, draw: collections.deque(_items(r, draw)),
    "dict": lambda r, draw: {"a": draw(r)},
    "dict of two": lambda r, draw: dict(r.sample([("a", draw(r)), ("b", draw(r))], r.choice([1, 2, 2, 2]))),
    "dict with null": lambda r, draw: {"a": draw(r), "b": null(r), "c": r.choice([draw(r), null(r)])},
    "Series": lambda r, draw: _series(_items(r, draw)),
}
PLAIN_NESTS = ["list", "tuple", "dict", "dict of two", "dict with null", "object array"]
SPECIALS: dict[str, Draw] = {
    "typed array": typed_array,
    "set": lambda r: r.choice([set, frozenset])(r.sample([1, 2, 3, 40], r.randrange(4))),
    "dict with other keys": lambda r: r.choice([{1: 2}, {None: 1}, {"a": 1, 2: 3}, {b"k": 1}, {}]),
    "masked cell": lambda _: np.ma.masked,
    "range": lambda r: range(r.randrange(3)),
    "structured": lambda r: np.array([(1, r.random())], [("x", "i4"), ("y", "f4")])[r.choice([0, slice(0, 1)])],
    "pd.Series": lambda r: pd.Series(r.choice([[1, 2], [1.5, None], ["a"], [pd.Timestamp(5), pd.NaT]])),
    "pl.Series": lambda r: pl.Series(r.choice([[1, 2], ["a", None], [dt.date(2020, 1, 1)]])),
    "pa.array": lambda r: pa.array(r.choice([[1, 2], ["a", None], [dt.date(2020, 1, 1)]])),
    "generator": lambda _: (x for x in [1, 2]),
    "dict view": lambda _: {"a": 1}.keys(),
    "pd.Categorical": lambda _: pd.Categorical(["a", "b", None]),
    "empty": lambda r: r.choice([[], {}, (), np.array([]), [[]], {"a": {}}, {"a": []}, np.array([[]])]),
}


def nested(r: random.Random, draw: Draw, depth: int) -> Draw:
    """Wrap a kind of scalar into containers, the same for every cell that it draws."""
    for _ in range(depth):
        nest, inner = NESTS[r.choice(PLAIN_NESTS if r.random() < 0.8 else list(NESTS))], draw
        draw = lambda r, nest=nest, inner=inner: nest(r, inner)  # noqa: E731  # each layer keeps its own
    return draw


def draw_kind(r: random.Random, family: list[str] | None = None) -> Draw:
    if family is None and r.random() < 0.15:
        return SPECIALS[r.choice(list(SPECIALS))]
    names = family or (COMMON if r.random() < 0.4 else list(SCALARS))
    return SCALARS[r.choice(names)]


ORDINARY = [
    *COMMON,
    "np.bool",
    "np.float",
    "np.str",
    "UUID",
    "aware",
    "time",
    "Timedelta",
    "Timestamp zoned",
    "bytearray",
]


def ordinary_column(r: random.Random, rows: int) -> list:
    """Draw cells of one kind that somebody would store, with a null here and there."""
    draw = SCALARS[r.choice(ORDINARY)] if r.random() < 0.85 else typed_array
    for _ in range(r.choice([0, 0, 1, 1, 2])):
        nest, inner = NESTS[r.choice(PLAIN_NESTS)], draw
        draw = lambda r, nest=nest, inner=inner: nest(r, inner)  # noqa: E731  # each layer keeps its own
    nulls = r.choice([0, 0.2])
    plain = [None, float("nan"), pd.NA, pd.NaT] if r.random() < 0.5 else [None]
    return [r.choice(plain) if r.random() < nulls else draw(r) for _ in range(rows)]


def column(r: random.Random, rows: int) -> list:
    """Draw the cells of a column: mostly of one kind, else of two or three that may not go together."""
    if r.random() < 0.5:
        return ordinary_column(r, rows)
    depth = r.choice([0, 0, 0, 1, 1, 1, 2, 2, 3])
    kinds = r.choice([1, 2, 2, 3])
    family = r.choice(FAMILIES) if kinds > 1 and r.random() < 0.8 else None
    draws = [draw_kind(r, family) for _ in range(kinds)]
    if r.random() < 0.25:  # the kinds meet inside one container
        draws = [nested(r, lambda r, draws=tuple(draws): r.choice(draws)(r), depth)]
    elif r.random() < 0.7:  # the same containers around each of them
        seed = r.random()
        draws = [nested(random.Random(seed), draw, depth) for draw in draws]
    else:
        draws = [nested(r, draw, r.randrange(depth + 1)) for draw in draws]
    nulls = r.choice([0, 0, 0.1, 0.5])
    return [null(r) if r.random() < nulls else r.choice(draws)(r) for _ in range(rows)]


def series(r: random.Random, rows: int) -> pd.Series:
    """Make an object column of such cells."""
    return pd.Series(_object_array(column(r, rows)), dtype=object)
