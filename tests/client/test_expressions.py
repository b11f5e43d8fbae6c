"""Conditions as expressions: the rows are those that Polars finds in memory."""

from __future__ import annotations

import bisect
import contextlib
import datetime as dt
import functools
import json
import operator
import random
import re
from decimal import Decimal
from zoneinfo import ZoneInfo

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.conditions import (
    EPOCH,
    KINDS,
    NAN,
    NAN_BELOW,
    TABLE_ROWS,
    UTC,
    draw,
    draw_table,
)
from tests.support.faults import connected
from tests.support.hosted import Hosted, Table

SHUFFLED = random.Random(7).sample([*KINDS], len(KINDS))
# of 50 expressions each, about a quarter of the kinds
ROUNDS = [range(first, first + 1) for first in range(4)]


@pytest.mark.parametrize(
    "rounds", [*ROUNDS, pytest.param(range(200), marks=pytest.mark.long)], ids=str
)
@pytest.mark.filterwarnings("ignore")
def test_the_rows_are_those_that_polars_finds(tmp_path, rounds):
    seed = 7 if len(rounds) == 1 else random.randrange(2**32)
    print("seed", seed)  # noqa: T201  # to draw the same again
    folder = tmp_path / "tables"
    hosted = Hosted()
    with rt.connect(folder, default=False) as client, hosted.connect() as other:
        for round_ in rounds:
            r = random.Random(f"{seed}/{round_}")
            names = SHUFFLED[round_ % 4 :: 4]
            if len(rounds) > 1:
                names = r.sample(SHUFFLED, len(names))
            rows = draw_table(r, names)
            client.create_table("t", rows, if_exists="replace")
            hosted.tables["t"] = Table([[rows]])
            if round_ % 2:
                index_columns(folder / "t.lance", names, r)
            check_round(client, folder, names, r, sent_by(hosted, other))


def index_columns(path, names, r):
    """Build a BTREE on a third of the columns that can have one."""
    table = lance.dataset(str(path))
    for name in names:
        # an index on a type that has none is refused
        if r.random() < 0.3:
            with contextlib.suppress(TypeError, OSError, ValueError):
                table.create_scalar_index(name, "BTREE")


def sent_by(hosted, client):
    """Return a function that returns the SQL of an expression, as a service gets it."""

    def sent(expression):
        client.table("t").count(expression)
        return json.loads(hosted.server.posts[-1].body)["predicate"]

    return sent


def open_official(folder):
    """Open a table by the engine that LanceDB's own client brings."""
    # which takes a second
    import lancedb

    return lancedb.connect(folder).open_table("t")


def check_round(client, folder, names, r, sent):
    table = client.table("t")
    frame = table.to_polars()
    official = open_official(folder)
    first = lance.dataset(str(folder / "t.lance")).version
    for _ in range(50):
        expression = draw(r, names)
        if not expression.meta.root_names():
            continue
        wanted = frame.filter(expression)["id"].to_list()
        found = table.to_arrow(columns=["id"], where=expression)
        assert found["id"].to_pylist() == wanted, str(expression)
        if r.random() < 0.3:
            assert table.count(expression) == len(wanted), str(expression)
        scanned = table.scan().filter(expression).select("id").collect()
        assert scanned["id"].to_list() == wanted, str(expression)
        if r.random() < 0.3:
            text = sent(expression)
            query = official.search().where(text).select(["id"]).limit(TABLE_ROWS)
            assert query.to_arrow()["id"].to_pylist() == wanted, text
            assert official.count_rows(text) == len(wanted), text
        if r.random() < 0.1:
            assert table.delete(expression) == len(wanted), str(expression)
            left = table.to_arrow(columns=["id"])["id"].to_pylist()
            assert sorted({*range(TABLE_ROWS)} - {*wanted}) == left
            if wanted:
                client.table("t", version=first).restore()
                table = client.table("t")
                official.checkout_latest()


ROWS = pa.table(
    {
        "n": pa.array([1, 2, None], pa.int64()),
        "i8": pa.array([1, 2, None], pa.int8()),
        "u8": pa.array([1, 2, None], pa.uint8()),
        "f4": pa.array([0.5, 0.25, None], pa.float32()),
        "x": pa.array([0.5, NAN, None]),
        "s": pa.array(["a", "b", None]),
        "t": pa.array(["a", "c", None]),
        "c": pa.array(["a", "b", None]).dictionary_encode(),
        "d": pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]),
        "at": pa.array([EPOCH, dt.datetime(2024, 1, 1), None], pa.timestamp("s")),
        "ns": pa.array([EPOCH, dt.datetime(2024, 1, 1), None], pa.timestamp("ns")),
        "utc": pa.array([EPOCH, EPOCH, None], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.50"), None, None], pa.decimal128(5, 2)),
        "big": pa.array([Decimal("1.50"), None, None], pa.decimal256(60, 2)),
        "list": pa.array([[1], [2], None]),
    }
)


@pytest.fixture
def table(place, name):
    return place.create(name, ROWS)


n = pl.col("n")
s = pl.col("s")
d = pl.col("d")
at = pl.col("at")
OTHERS = [
    (n.cast(pl.Int32) > 1, "cannot be sent"),
    (n + 1 > 1, "cannot be sent"),
    (s.str.contains("a"), "cannot be sent"),
    (pl.col("list").list.len() > 0, "cannot be sent"),
    (pl.col("list") == [1], "cannot be"),
    (n == pl.lit([1]), r"\[1\] does not fit"),
    (n.is_in(pl.Series([n], dtype=pl.Object)), "cannot be sent"),
    (n > n.mean(), "cannot be sent"),
    (n.shift() == 1, "cannot be sent"),
    (n.is_nan(), "cannot be sent"),
    (n == pl.lit(None), "is_null"),
    (n.eq_missing(1), "cannot be sent"),
    (n.is_in([1], nulls_equal=True), "cannot be sent"),
    (s == pl.col("t"), "pl.lit"),
    (n.is_between("n", "i8"), "pl.lit"),
    (n.alias("m") == 1, "cannot be sent"),
    (pl.len() == 3, "cannot be sent"),
    (pl.all() == 1, "cannot be sent"),
    (pl.col("^n$") == 1, "cannot be sent"),
    (pl.when(n == 1).then(True).otherwise(False), "cannot be sent"),
    ((n == 1) ^ (s == "a"), "cannot be sent"),
    (pl.lit(1) == pl.lit(1), "cannot be sent"),
    ((n == 1).fill_null(value=True), "cannot be sent"),
    (n.reverse() == 1, "cannot be sent"),
    (n == pl.Series([1, 2, 3]), "cannot be sent"),
    (n, "not bool"),
    (pl.col("m") == 1, "no column 'm'; "),
    (s == 1, "1 does not fit column 's' .*pass text"),
    (n == "a", "pass an int in its range"),
    (pl.col("i8") == 300, "300 does not fit"),
    (pl.col("i8").is_in([1, 300]), "300 does not fit"),
    (pl.col("u8") > -1, "-1 does not fit"),
    (n == 1.5, "pass an int"),
    (pl.col("f4") == 0.1, r"np\.float32"),
    (pl.col("x") == 2**53 + 1, "exact"),
    (d == dt.datetime(2024, 1, 1), "pass a date"),
    (at == dt.date(2024, 1, 1), "pass a datetime"),
    (at == dt.datetime(1970, 1, 1, microsecond=5), "no finer than s"),
    (pl.col("price") == Decimal("1.505"), "to 2 decimal places"),
    (pl.col("price") == 1.205, "to 2 decimal places"),
    (pl.col("price") == 10_000, "in its range"),
    (pl.col("c") < "b", "no order"),
    (pl.col("big") == Decimal("1.5"), "cannot be compared"),
]


@pytest.mark.filterwarnings("ignore")
def test_any_other_expression_is_refused_and_no_row_goes(place, table):
    for other, words in OTHERS:
        with pytest.raises(ValueError, match=f"^where: .*{words}"):
            table.delete(other)
        with pytest.raises(ValueError, match=f"^where: .*{words}"):
            table.count((n == 1) & ~other)
    assert place.open(table.name).version == 1


def test_the_cure_of_a_read_is_a_scan_of_the_same_version(place, table):
    old = place.table(table.name, version=1)
    words = re.escape(f'rt.table("{table.name}").scan().filter(')
    with pytest.raises(ValueError, match=words):
        table.count(n.abs() > 1)
    words = re.escape(f'rt.table("{table.name}", version=1).scan().filter(')
    with pytest.raises(ValueError, match=words):
        old.to_polars(where=n.abs() > 1)


def test_a_delete_needs_a_column_and_a_read_does_not(place, table):
    for constant in (pl.lit(True), ~pl.lit(False), pl.lit(True) & True):
        with pytest.raises(ValueError, match=r"names no column.*nothing was deleted"):
            table.delete(constant)
        assert table.count(constant) == 3
    assert place.read(table.name).num_rows == 3


BERLIN = ZoneInfo("Europe/Berlin")
NOON = dt.datetime(2024, 1, 5, 12)
NOON_UTC = NOON.replace(tzinfo=UTC)
NOON_BERLIN = NOON_UTC.astimezone(BERLIN)
NEW_YORK = ZoneInfo("America/New_York")
IN_ETC = NOON_UTC.astimezone(ZoneInfo("Etc/GMT-1"))
NOON_HALF = NOON_UTC.astimezone(ZoneInfo("Asia/Kolkata"))
MOMENTS = pa.table(
    {
        "n": [1, 2],
        "naive": pa.array([NOON, EPOCH], pa.timestamp("us")),
        "ns": pa.array([NOON, EPOCH], pa.timestamp("ns")),
        "utc": pa.array([NOON_UTC, None], pa.timestamp("us", "UTC")),
        "berlin": pa.array([NOON_UTC, None], pa.timestamp("us", "Europe/Berlin")),
        "offset": pa.array([NOON_UTC, None], pa.timestamp("us", "+01:00")),
        # which Polars does not know
        "half": pa.array([NOON_UTC, None], pa.timestamp("us", "+05:30")),
    }
)
MOMENTS_IN_POLARS = pl.DataFrame(MOMENTS.drop_columns("half"))
WITHOUT = [
    ("utc", NOON, "without zone", "give it the zone UTC"),
    ("utc", pd.Timestamp(NOON), "without zone", "give it the zone UTC"),
    ("utc", np.datetime64(NOON), "without zone", "give it the zone UTC"),
    ("offset", NOON, "without zone", "give it the zone [+]01:00"),
    ("naive", NOON_UTC, "in zone UTC", "pass one without zone"),
    ("naive", pd.Timestamp(NOON_BERLIN), "in zone ", "pass one without"),
]


@pytest.fixture
def moments_table(place, name):
    return place.create(name, MOMENTS)


@pytest.mark.parametrize(("column", "moment", "fact", "cure"), WITHOUT)
def test_a_moment_has_a_zone_if_its_column_has_one(
    moments_table, column, moment, fact, cure
):
    words = f"column '{column}' .*{fact}.*; nothing was sent; {cure}"
    compared = pl.col(column) <= moment
    between = pl.col(column).is_between(moment, moment)
    for where in (compared, between, [(column, "in", [moment])]):
        with pytest.raises(ValueError, match=words):
            moments_table.delete(where)
    with pytest.raises(pl.exceptions.PolarsError):
        moments_table.scan().filter(compared).select("n").collect()


@pytest.mark.parametrize("column", ["utc", "berlin", "offset", "half"])
@pytest.mark.parametrize("moment", [NOON_UTC, NOON_BERLIN, IN_ETC, NOON_HALF], ids=str)
def test_an_instant_is_the_same_in_every_zone(moments_table, column, moment):
    c = pl.col(column)
    same = [c == moment, c.is_in([moment]), [(column, "==", moment)]]
    same += [[(column, "in", [moment, pd.Timestamp(moment)])], [(column, ">=", moment)]]
    assert [moments_table.count(where) for where in same] == [1] * 5
    after = [c > moment, c != moment, [(column, "not in", [moment])]]
    assert [moments_table.count(where) for where in after] == [0] * 3


@pytest.mark.parametrize("column", ["utc", "berlin", "offset"])
def test_a_scan_compares_moments_of_two_zones_where_polars_does(moments_table, column):
    zone = MOMENTS_IN_POLARS.schema[column].time_zone
    other = NOON_UTC.astimezone(NEW_YORK)

    def found(where):
        query = moments_table.scan().filter(where).select("n")
        return query.collect()["n"].to_list()

    assert found(pl.col(column) == NOON_UTC.astimezone(ZoneInfo(zone))) == [1]
    assert found(pl.col(column).is_in([other])) == [1]
    with pytest.raises(pl.exceptions.PolarsError):
        found(pl.col(column) == other)


SUMMER = dt.datetime(2150, 7, 1, 12, tzinfo=BERLIN)


def test_a_summer_after_2100_is_not_an_hour_off(place, name):
    """As it is in Polars' own literals."""
    column = pa.array([SUMMER.astimezone(UTC)], pa.timestamp("us", "Europe/Berlin"))
    table = place.create(name, pa.table({"at": column}))
    for moment in (SUMMER, pd.Timestamp(SUMMER), SUMMER.astimezone(UTC)):
        assert table.count([("at", "==", moment)]) == 1
        assert table.count([("at", "in", [moment])]) == 1
    assert table.count(pl.col("at") == SUMMER.astimezone(UTC)) == 1


ZEROS = [
    (pl.col("x") == -0.0, 2),
    (pl.col("x").is_in([-0.0, 1.5]), 2),
    (pl.col("x") >= 0.0, 2),
    (pl.col("x") > -0.0, 0),
    (pl.col("x") < 0.0, 0),
]


@pytest.mark.parametrize(("condition", "rows"), ZEROS, ids=str)
def test_there_is_one_zero(place, name, condition, rows):
    table = place.create(name, pa.table({"x": [0.0, -0.0]}))
    assert table.count(condition) == rows


def test_a_float_that_equals_several_whole_numbers_is_refused(place, name):
    table = place.create(name, pa.table({"n": [2**53, 2**53 + 1]}))
    assert table.count(n == 2**53) == 1
    with pytest.raises(ValueError, match="pass an int"):
        table.delete(n == 2.0**53)


def test_a_condition_that_the_service_would_find_too_long_is_not_sent(table):
    def is_too_long(size):
        try:
            return table.count(s == "x" * size) != 0
        except ValueError as error:
            return "more than 1.05 MB; nothing was sent" in str(error)

    # the search comes to both sides of the limit
    sizes = range(2**20 - 100, 2**20)
    longest = bisect.bisect_left(sizes, x=True, key=is_too_long)
    assert 0 < longest < len(sizes)


FAR = dt.datetime(9999, 12, 31)
LONG_AGO = dt.datetime(1, 1, 1)
ns = pl.col("ns")
USUAL = [  # beyond what nanoseconds count, and with nulls
    (ns < FAR, 2),
    (ns <= FAR, 2),
    (ns != FAR, 2),
    (ns >= FAR, 0),
    (ns == FAR, 0),
    (ns > LONG_AGO, 2),
    (ns < LONG_AGO, 0),
    (~ns.is_in([FAR]), 2),
    (~n.is_in([1, None]), 1),
    (~n.is_in([1]) | ~n.is_in([2]), 2),
    (pl.col("x") > 1, 1),
    (n.is_in(pl.Series("days", [2, 7])), 1),
]


@pytest.mark.parametrize(("condition", "rows"), USUAL)
def test_the_usual_conditions(table, condition, rows):
    assert table.count(condition) == rows


def test_hundreds_of_parts_and_thousands_of_values_fit(table):
    many = functools.reduce(operator.or_, [n == number for number in range(2, 302)])
    assert table.count(many) == 1
    assert table.count(~many) == 1
    assert table.count(n.is_in(range(2, 5000))) == 1


def test_more_bytes_than_a_service_takes_are_refused(table):
    texts = [str(number) * 10 for number in range(50_000)]
    with pytest.raises(ValueError, match=r"^where: the condition has .* upsert by key"):
        table.count(s.is_in(texts))


def test_a_deeper_expression_is_refused(table):
    deep = n > 1
    for number in range(99):
        deep = (deep & (n == number)) | (n > number)
    with pytest.raises(ValueError, match=r"^where: .*nested more than 40"):
        table.count(deep)


def test_a_chain_of_4_000_comparisons_fits(table):
    chain = functools.reduce(operator.or_, [n > number for number in range(4_000)])
    assert table.count(chain) == 2


def test_what_expressions_need_is_said(server, table):
    # since pandas 3
    if hasattr(pd, "col"):
        with pytest.raises(ValueError, match=r"pandas.*pl\.col\('n'\) > 1"):
            table.count(pd.col("n") > 1)
    bare = connected(server, dialect="documented").table("t")
    with pytest.raises(ValueError, match=r"^cannot delete rows with dialect="):
        bare.delete(n > 1)
    assert server.requests == []


def test_a_service_that_tells_no_types_of_columns_filters_nothing(server):
    server.listing((200, {"version": 1}))
    table = connected(server, dialect="lancedb").table("t")
    words = r"does not tell the types of the columns; nothing was read; use .*scan\(\)"
    with pytest.raises(ValueError, match=rf"^where: .*{words}"):
        table.count(n > 1)
    with pytest.raises(ValueError, match=r"^where: .*nothing was deleted"):
        table.delete([("n", ">", 1)])
    assert [post.path.split("/")[4] for post in server.posts] == ["describe"] * 2


FIELD_NAMES = ["x", "a b", "q'\"?", "ok", "at"]
FIELDS = pa.StructArray.from_arrays(
    [
        pa.array([1, 2, None, 4, 5]),
        pa.array([NAN, NAN_BELOW, 0.5, -0.0, None]),
        pa.array(["it's", "b", None, "d", "e"]),
        pa.array([True, False, None, True, True]),
        pa.array([EPOCH] * 5, pa.timestamp("us", "UTC")),
    ],
    FIELD_NAMES,
    # the fourth is null, whatever is in its fields
    mask=pa.array([False, False, False, True, False]),
)
NESTED = pa.table(
    {
        "n": range(5),
        "s": FIELDS,
        "o": pa.StructArray.from_arrays(
            [FIELDS], ["in"], mask=pa.array([False, True, False, False, False])
        ),
    }
)
x = s.struct.field("x")
nan = s.struct.field("a b")
quoted = s.struct.field("q'\"?")
deep = pl.col("o").struct.field("in").struct.field("x")
OF_FIELDS = [
    x == 1,
    x != 1,
    ~(x > 1),
    x.is_in([1, 2]),
    ~x.is_in([1, 2]),
    x.is_between(2, 4),
    x.is_null(),
    x.is_not_null(),
    s.struct["x"] == 5,
    nan == NAN,
    nan > 0.0,
    ~(nan > 0.0),
    nan == 0.0,
    quoted == "it's",
    ~quoted.is_in(["it's", "b"]),
    s.struct.field("ok"),
    ~s.struct.field("ok"),
    deep >= 1,
    ~(deep >= 1),
    deep.is_null(),
    (deep == 1) | (n == 4),
    s.is_null(),
    ~s.is_null() & (x > 1),
]


@pytest.mark.parametrize("where", OF_FIELDS, ids=str)
def test_a_field_of_a_struct_is_compared_as_a_column_is(place, name, where):
    table = place.create(name, NESTED)
    wanted = pl.DataFrame(NESTED).filter(where)["n"].to_list()
    assert table.to_polars(where=where)["n"].to_list() == wanted
    assert table.scan().filter(where).collect()["n"].to_list() == wanted
    matching = NESTED.take(pa.array(wanted, pa.int64()))
    again = place.create(name, matching, if_exists="replace", where=where)
    assert again.deleted == len(wanted)
    assert table.delete(where) == len(wanted)
    kept = [number for number in range(5) if number not in wanted]
    assert place.read(name)["n"].to_pylist() == kept


NO_FIELDS = [
    (s.struct.field("y") == 1, "'s' in the table has no field 'y'; known: "),
    (n.struct.field("y") == 1, "'n' in the table has no field 'y'; "),
    (s.struct.field("`") == 1, "has a backtick"),
    (s.struct.field("*") == 1, "cannot be sent"),
    (s.struct.field("x", "ok") == 1, "cannot be sent"),
    (s.struct.field("x").struct.field("y") == 1, "'s.x' in the table has no field"),
    (s == {"x": 1}, "cannot be"),
    (x == "a", "column 's.x' .*pass an int"),
]


@pytest.mark.parametrize(("where", "words"), NO_FIELDS, ids=str)
def test_what_is_no_field_is_refused(place, name, where, words):
    fields = FIELDS.flatten()
    odd = pa.StructArray.from_arrays([*fields, fields[0]], [*FIELD_NAMES, "`"])
    table = place.create(name, NESTED.set_column(1, "s", odd))
    with pytest.raises(ValueError, match=f"^where: .*{words}"):
        table.delete(where)
    assert place.open(name).version == 1
