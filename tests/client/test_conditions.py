"""Values in conditions: each finds its row, and no text changes a condition."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rt_frames as rt
from tests.support.faults import connected


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tables = tmp_path_factory.mktemp("conditions") / "tables"
    with rt.connect(tables, default=False) as client:
        yield client


def moments(first: dt.datetime, last: dt.datetime, step: int, zone=None):
    """Make datetimes between two, in steps of so many microseconds."""
    microsecond = dt.timedelta(microseconds=1)
    return st.integers(0, (last - first) // (microsecond * step)).map(
        lambda steps: (first + steps * step * microsecond).replace(tzinfo=zone)
    )


FIRST, LAST = dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)
IN_NS = dt.datetime(1678, 1, 1), dt.datetime(2262, 1, 1)
EAST = dt.timezone(dt.timedelta(hours=5, minutes=30))


def times(step: int):
    return st.integers(0, 86_400_000_000 // step - 1).map(
        lambda steps: (dt.datetime.min + dt.timedelta(microseconds=steps * step)).time()
    )


def stamps(zone):
    return st.integers(-(2**63) + 10**15, 2**63 - 10**15).map(
        lambda number: pd.Timestamp(number, tz=zone)
    )


def integers(bits: int, *, signed: bool = True):
    if signed:
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.integers(0, 2**bits - 1)


def floats(bits: int):
    return st.floats(width=bits, allow_nan=False, allow_infinity=False)


def _to_half(number):
    return float(np.float16(number / 7))


def decimals(digits: int, places: int):
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda number: Decimal(f"{number}E-{places}"))


TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from("'`?;\"()-\\%"))
KINDS = {  # a type of column, and values that it holds
    "bool": (pa.bool_(), st.booleans()),
    **{
        f"{'int' if signed else 'uint'}{bits}": (
            pa.type_for_alias(f"{'int' if signed else 'uint'}{bits}"),
            integers(bits, signed=signed),
        )
        for bits in (8, 16, 32, 64)
        for signed in (True, False)
    },
    "float16": (pa.float16(), st.integers(-60_000, 60_000).map(_to_half)),
    "float32": (pa.float32(), floats(32)),
    "float64": (pa.float64(), floats(64)),
    "decimal128": (pa.decimal128(38, 5), decimals(38, 5)),
    "small decimal": (pa.decimal128(4, 4), decimals(4, 4)),
    "decimal without places": (pa.decimal128(20, 0), decimals(20, 0)),
    "decimal256": (pa.decimal256(76, 30), decimals(76, 30)),
    "text": (pa.string(), TEXT),
    "large text": (pa.large_string(), TEXT),
    "category": (pa.dictionary(pa.int32(), pa.string()), TEXT),
    "binary": (pa.binary(), st.binary(max_size=40)),
    "large binary": (pa.large_binary(), st.binary(max_size=40)),
    "fixed binary": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "UUID": (pa.uuid(), st.uuids()),
    "date32": (pa.date32(), st.dates()),
    "date64": (pa.date64(), st.dates()),
    "time32[s]": (pa.time32("s"), times(10**6)),
    "time32[ms]": (pa.time32("ms"), times(1000)),
    "time64[us]": (pa.time64("us"), times(1)),
    "time64[ns]": (pa.time64("ns"), times(1)),
    "timestamp[s]": (pa.timestamp("s"), moments(FIRST, LAST, 10**6)),
    "timestamp[ms]": (pa.timestamp("ms"), moments(FIRST, LAST, 1000)),
    "timestamp[us]": (pa.timestamp("us"), moments(FIRST, LAST, 1)),
    "timestamp[ns]": (pa.timestamp("ns"), moments(*IN_NS, 1)),
    "nanoseconds": (pa.timestamp("ns"), stamps(None)),
    "nanoseconds in UTC": (pa.timestamp("ns", "UTC"), stamps("UTC")),
    "nanoseconds in Berlin": (
        pa.timestamp("ns", "Europe/Berlin"),
        stamps("Asia/Kolkata"),
    ),
    **{
        f"timestamp[{unit}] in {zone}": (
            pa.timestamp(unit, zone),
            moments(FIRST, LAST, step, EAST),
        )
        for zone in ("UTC", "America/New_York", "+05:30")
        for unit, step in (("s", 10**6), ("ms", 1000), ("us", 1))
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_row_with_a_value_is_found_and_no_other(folder, kind):
    """By its order, too: as many rows are less, and as many greater, as Python says."""
    arrow, values = KINDS[kind]

    @settings(max_examples=8)
    @given(st.lists(values, min_size=2, max_size=8, unique=True))
    def check(column):
        rows = pa.table(
            {
                "c": pa.array([*map(_stored, column), None], arrow),
                "n": range(len(column) + 1),
            }
        )
        table = folder.create_table("k", rows, if_exists="replace")
        for place, value in enumerate(column):
            found = table.to_arrow(columns=["n"], where="c = ?", params=[value])
            alike = [n for n, other in enumerate(column) if other == value]
            assert found["n"].to_pylist() == alike
            assert place in alike
        value = column[0]
        if kind != "category":  # which Lance does not order
            less = sum(_stored(other) < _stored(value) for other in column)
            assert table.count("c < ?", params=[value]) == less
        assert table.count("c IN (?, ?)", params=column[:2]) == 2

    check()


def _stored(value):
    """Return a value as Arrow takes it, which knows no UUID before 23."""
    return value.bytes if isinstance(value, uuid.UUID) else value


HOSTILE = st.lists(
    st.sampled_from(
        [
            "'",
            "''",
            "`",
            "?",
            " OR 1 = 1",
            "--",
            "/*",
            "*/",
            ";",
            ")",
            "(",
            "\\",
            "$$",
            '"',
            "\n",
            "x",
        ]
    )
    | st.characters(codec="utf-8"),
    max_size=12,
).map("".join)


@given(first=HOSTILE, second=HOSTILE)
@settings(max_examples=100)
def test_no_text_changes_a_condition(folder, first, second):
    """Neither another text nor a placeholder nor what follows it."""
    rows = [first, second, "x", "?", "' OR 1 = 1 --", None]
    table = folder.create_table("h", pa.table({"it's": rows}), if_exists="replace")

    def found(where, *params):
        return table.to_arrow(where=where, params=params)["it's"].to_pylist()

    assert found("`it's` = ?", first) == [text for text in rows if text == first]
    assert found("`it's` = ? OR`it's`='?'OR `it's` =?", first, second) == [
        text for text in rows if text in (first, second, "?")
    ]
    assert found("NOT (`it's` = ?) AND `it's` <> ?", first, second) == [
        text for text in rows if text not in (first, second, None)
    ]


class Level(enum.IntEnum):
    HIGH = 7

    def __str__(self):
        return "0 OR true"


class Name(str):
    __slots__ = ()

    def replace(self, *_):
        return "0' OR true"


class Price(float):
    def __repr__(self):
        return "0 OR true"


NOON = dt.datetime(2024, 3, 1, 12, 0, 0, 5)
ONE = pa.table(  # one row, and one of nulls
    {
        "n": pa.array([7, None], pa.int64()),
        "ok": pa.array([True, None]),
        "x": pa.array([0.1, None]),
        "small": pa.array([0.1, None], pa.float32()),
        "text": pa.array(["seven", None]),
        "raw": pa.array([b"\0'", None]),
        "day": pa.array([NOON.date(), None]),
        "at": pa.array([NOON, None], pa.timestamp("us")),
        "fine": pa.array([pd.Timestamp(NOON).value + 1, None], pa.timestamp("ns")),
        "zoned": pa.array([NOON, None], pa.timestamp("us", "Europe/Berlin")),
        "price": pa.array([Decimal("1.50"), None]),
        "far": pa.array([2**64 - 1, None], pa.uint64()),
        "near": pa.array([-(2**63), None], pa.int64()),
    }
)
FOUND = [  # a column, and a value that is in it
    *(("n", kind(7)) for kind in (int, np.int8, np.uint64, Level, Decimal)),
    ("n", Decimal("7.00")),
    ("n", Decimal("0.7E1")),
    ("far", 2**64 - 1),
    ("far", np.uint64(2**64 - 1)),
    ("near", -(2**63)),
    ("ok", True),
    ("ok", np.True_),
    ("x", 0.1),
    ("x", np.float64(0.1)),
    ("x", Price(0.1)),
    ("small", np.float32(0.1)),
    ("text", "seven"),
    ("text", np.str_("seven")),
    ("text", Name("seven")),
    ("raw", b"\0'"),
    ("raw", np.bytes_(b"\0'")),
    ("day", NOON.date()),
    ("day", np.datetime64("2024-03-01")),
    ("at", NOON),
    ("at", pd.Timestamp(NOON)),
    ("at", np.datetime64(NOON, "us")),
    ("at", np.datetime64(NOON, "ns")),
    ("fine", pd.Timestamp(pd.Timestamp(NOON).value + 1)),
    ("fine", np.datetime64(NOON, "ns") + np.timedelta64(1, "ns")),
    ("zoned", NOON.replace(tzinfo=dt.UTC)),
    ("zoned", pd.Timestamp(NOON, tz="UTC").tz_convert("Asia/Kolkata")),
    ("price", Decimal("1.5")),
    ("price", Decimal("1.50")),
]


@pytest.mark.parametrize(
    ("column", "value"),
    FOUND,
    ids=[f"{column}: {type(value).__name__}" for column, value in FOUND],
)
def test_values_of_other_libraries_and_subclasses_are_what_they_hold(
    folder, column, value
):
    table = folder.create_table("one", ONE, if_exists="replace")
    assert table.count(f"{column} = ?", params=[value]) == 1
    assert table.count(f"{column} <> ?", params=[value]) == 0


def test_conditions_read_as_they_do_everywhere(folder):
    table = folder.create_table("one", ONE, if_exists="replace")
    one = {"where": "n = ? AND `text` = ? AND text <> '?'", "params": (7, "seven")}
    assert table.to_arrow(**one).num_rows == 1
    assert table.to_pandas(**one, columns=["n"]).shape == (1, 1)
    assert table.to_polars(**one, limit=1).height == 1
    assert table.count(**one) == 1
    assert table.count("n-?=?", params=[-1, 8]) == 1
    assert table.count("text = '?'", params=[]) == 0
    for missing in (None, pd.NA, pd.NaT, np.datetime64("NaT", "ns")):
        assert table.count("n = ?", params=[missing]) == 0
        assert table.count("n = 7 AND ? IS NULL", params=[missing]) == 1


@pytest.mark.parametrize("words", [1, 300, 1400])
def test_a_text_of_many_words_is_one_value(folder, words):
    text = "it's (so) " * (words // 2) + "so"
    table = folder.create_table("w", pa.table({"s": [text, "so"]}), if_exists="replace")
    assert table.count("s = ?", params=[text]) == 1 + (words == 1)


def test_many_values_fit_in_one_condition(folder):
    days = [NOON + dt.timedelta(days=day) for day in range(40)]
    table = folder.create_table("d", pa.table({"at": days}), if_exists="replace")
    placeholders = ", ".join("?" * 39)
    assert table.count(f"at IN ({placeholders})", params=days[1:]) == 39


class Odd:
    def __repr__(self):
        raise RuntimeError


REFUSED = [  # a value, the error, and what is said of it
    (float("nan"), ValueError, "value 2 is nan: .*isnan"),
    (np.float32("nan"), ValueError, "value 2 is .*nan.*isnan"),
    (float("-inf"), ValueError, "value 2 is -inf: .*column < -1"),
    (Decimal("NaN"), ValueError, "value 2 is Decimal"),
    (Decimal("sNaN"), ValueError, "value 2 is Decimal"),
    (Decimal("Infinity"), ValueError, "value 2 is Decimal"),
    (Decimal("1E+1000000"), ValueError, "value 2 is .*76 digits"),
    (Decimal("1" * 40 + "." + "1" * 40), ValueError, "value 2 is .*76 digits"),
    (10**76, ValueError, "value 2 is 1000.*76 digits"),
    (-(10**5000), ValueError, "value 2 is .*76 digits"),
    ("\ud800", ValueError, "value 2 is .*surrogate"),
    (dt.time(1, tzinfo=dt.UTC), ValueError, "value 2 is .*zone"),
    (dt.datetime.min.replace(tzinfo=EAST), ValueError, "value 2 is "),
    (np.datetime64("20000-01-01", "us"), ValueError, "value 2 is .*years"),
    (np.datetime64(1, "ps"), ValueError, "value 2 is .*nanoseconds"),
    (pd.Timestamp(np.datetime64("20000-01-01", "s")), ValueError, "value 2 is .*years"),
    (dt.timedelta(1), TypeError, "value 2 is of type datetime.timedelta; expected"),
    (pd.Timedelta(1), TypeError, "value 2 is of type pandas.*Timedelta; "),
    (np.timedelta64(1, "ns"), TypeError, "value 2 is of type numpy.timedelta64; "),
    (np.longdouble(1), TypeError, "value 2 is of type numpy.longdouble; "),
    (1j, TypeError, "value 2 is of type complex; "),
    (np.array(1), TypeError, "value 2 is of type numpy.ndarray; "),
    ([1], TypeError, "value 2 is of type list; "),
    (bytearray(b"x"), TypeError, "value 2 is of type bytearray; "),
    (pa.scalar(1), TypeError, "value 2 is of type pyarrow"),
    (Odd(), TypeError, "value 2 is of type .*Odd; "),
    (int, TypeError, "value 2 is of type type; "),
]


@pytest.mark.parametrize(
    ("value", "kind", "words"), REFUSED, ids=[str(words) for _, _, words in REFUSED]
)
def test_a_value_without_a_literal_is_refused_by_its_place(server, value, kind, words):
    table = connected(server, dialect="lancedb").table("t")
    with pytest.raises(kind, match=f"^params: {words}"):
        table.count("a = ? AND b = ?", params=[1, value])
    assert server.requests == []


UNUSABLE = {  # a condition and values
    ("n = ?", None): "params: 1 . outside quotes, but 0 values; ",
    ("n = ?", (1, 2)): "params: 1 . outside quotes, but 2 values; ",
    ("n = '?' AND `?` = 1", (1,)): "params: 0 . outside quotes, but 1 value; ",
    (None, (1,)): "params: there is no condition",
    ("n = ? -- ' \n", (1,)): "where: -- outside closed quotes",
    ("n = ? /* ' */", (1,)): r"where: /\* outside closed quotes",
    ("n = ? AND s = 'x", (1,)): "where: ' outside closed quotes",
    ("n = ? AND `s = 1", (1,)): "where: ` outside closed quotes",
    ("s = E'\\' ? '", ("x",)): "where: ' outside closed quotes",
    ("s = $$?$$", ("x",)): r"where: \$ outside closed quotes",
    ("n = ?)", (1,)): "where: 'n = .*closes a parenthesis",
    ("n = ?", "1"): "params: expected a list of values, one for each ., got '1'",
    ("n = ?", b"1"): "params: expected a list",
    ("n = ?", 1): "params: expected a list",
}


@pytest.mark.parametrize("given_", UNUSABLE, ids=str)
def test_values_and_conditions_that_do_not_belong_together_are_refused(server, given_):
    where, params = given_
    table = connected(server, dialect="lancedb").table("t")
    for read in (table.to_arrow, table.to_pandas, table.to_polars, table.count):
        with pytest.raises((ValueError, TypeError), match=f"^{UNUSABLE[given_]}"):
            read(where=where, params=params)
    for collection in ({"n": 1}, {1}):
        with pytest.raises(TypeError, match=r"^params: expected a list of values"):
            table.count("n = ?", params=collection)
    assert server.requests == []


FINER = [
    ("ms", dt.datetime(2024, 1, 1, microsecond=999)),
    ("ms", dt.datetime(2024, 1, 1, microsecond=999, tzinfo=dt.UTC)),
    ("us", pd.Timestamp("2024-01-01 00:00:00.000000500")),
    ("us", np.datetime64("2024-01-01T00:00:00.000000500", "ns")),
    ("s", dt.datetime(2024, 1, 1, microsecond=500_000)),
]


@pytest.mark.parametrize(("unit", "value"), FINER, ids=str)
def test_a_moment_finer_than_its_column_is_refused_not_cut(folder, unit, value):
    moments = pa.array([dt.datetime(2024, 1, 1)], pa.timestamp(unit))
    times = pa.array([dt.time(1)], pa.time64("us"))
    data = pa.table({"at": moments, "time": times, "n": [1]})
    table = folder.create_table("cut", data, if_exists="replace")
    for call in (
        table.count,
        table.delete,
        lambda w, params: table.to_arrow(where=w, params=params),
    ):
        for where in ("at = ?", "n = 1 AND ? <= `at`"):
            with pytest.raises(
                ValueError, match=rf"'at' \(timestamp\[{unit}\]\), .*truncate"
            ):
                call(where, params=[value])
    assert table.count("n = ?", params=[1]) == 1
    assert table.count("at = ?", params=[dt.datetime(2024, 1, 1)]) == 1
