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
import struct
import uuid
from decimal import Decimal
from zoneinfo import ZoneInfo

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.faults import connected
from tests.support.hosted import Hosted, Table

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1)
NAN_BELOW = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0000))[0]
NAN = float("nan")
INF = float("inf")
STEPS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
TEXT = ["", "a", "A", "it's", "ä", "z`?", "\U0001f600", "\uffff", "a ", 'q"']
BYTES = [b"", b"\0", b"a", b"a\0", b"'\xff", b"\xff"]


def whole(bits, *, signed):
    lowest = -(2 ** (bits - 1)) if signed else 0
    highest = lowest + 2**bits - 1
    values = [lowest, lowest + 1, 0, 1, 2, 3, highest - 1, highest]
    kind = f"{'Int' if signed else 'UInt'}{bits}"
    return pa.type_for_alias(kind.lower()), values, getattr(pl, kind)


def moments(unit, zone):
    second = 10**9 // STEPS[unit]
    first = -62_135_510_400 * second
    last = 253_402_210_799 * second
    if unit == "ns":
        first = -(2**63) + 10**14
        last = 2**63 - 10**14
    values = [first, -1, 0, 1, 1_700_000_000 * second, last]
    kind = pl.Datetime("ms" if unit == "s" else unit, zone)
    scale = 1000 if unit == "s" else 1
    return pa.timestamp(unit, zone), values, kind, scale


def counted(arrow, values, dtype, scale=1):
    """Numbers that are stored as they are, and the literals of dtype."""
    storage = pa.int32() if arrow.bit_width == 32 else pa.int64()
    column = pa.array([*values, None], storage).cast(arrow)
    literals = [pl.Series([value * scale]).cast(dtype) for value in values]
    return column, [pl.select(one).to_series() for one in literals]


def plain(arrow, values, dtype=None):
    column = pa.array([*values, None], arrow)
    return column, [pl.Series([value], dtype=dtype) for value in values]


FLOATS = [-INF, -1.5, -0.0, 0.0, 0.5, 1.5, INF, NAN, NAN_BELOW]
F16 = [-65504.0, 65504.0, 2.0**-24]
F32 = [3.4028234663852886e38, 2.0**-149, 0.10000000149011612]
F64 = [1.7976931348623157e308, 5e-324, 0.1, 2.0**53]
KINDS = {
    "bool": plain(pa.bool_(), [True, False]),
    "float32": plain(pa.float32(), [*FLOATS, *F32], pl.Float32),
    "float64": plain(pa.float64(), [*FLOATS, *F64], pl.Float64),
    "decimal": plain(
        pa.decimal128(38, 5),
        [Decimal(0), Decimal("-1.5"), Decimal("9" * 33)],
        pl.Decimal(38, 5),
    ),
    "small decimal": plain(
        pa.decimal128(4, 4), [Decimal("0.9999"), Decimal("-0.1")], pl.Decimal(4, 4)
    ),
    "text": plain(pa.string(), TEXT),
    "large text": plain(pa.large_string(), TEXT),
    "category": plain(pa.dictionary(pa.int32(), pa.string()), TEXT),
    "binary": plain(pa.binary(), BYTES),
    "large binary": plain(pa.large_binary(), BYTES),
    "fixed binary": plain(pa.binary(3), [b"abc", b"\0\0\0", b"\xff'`"]),
    "UUID": plain(pa.uuid(), [b"\0" * 16, b"a" * 16, b"\xff" * 16]),
    "date32": counted(pa.date32(), [-719162, -1, 0, 1, 2932896], pl.Date),
}
for bits in (8, 16, 32, 64):
    KINDS[f"int{bits}"] = plain(*whole(bits, signed=True))
    KINDS[f"uint{bits}"] = plain(*whole(bits, signed=False))
for unit, step in STEPS.items():
    time = pa.type_for_alias(f"time{32 if step >= 10**6 else 64}[{unit}]")
    span = pl.Duration("ms" if unit == "s" else unit)
    scale = 1000 if unit == "s" else 1
    of_day = [0, 1, 86_400 * 10**9 // step - 1]
    spans = [-(10**12), -1, 0, 1, 10**12]
    KINDS[f"time {unit}"] = counted(time, of_day, pl.Time, step)
    KINDS[f"duration {unit}"] = counted(pa.duration(unit), spans, span, scale)
    for zone in (None, "UTC", "America/New_York"):
        KINDS[f"moment {unit} {zone}"] = counted(*moments(unit, zone))
# since Polars 2
if hasattr(pl, "Float16"):
    KINDS["float16"] = plain(pa.float16(), [*FLOATS, *F16], pl.Float16)
TABLE_ROWS = 60


def draw_table(r, names):
    """Draw columns of these types, with nulls, and a number for each row."""
    columns = {"id": pa.array(range(TABLE_ROWS))}
    for name in names:
        values, _ = KINDS[name]
        places = [r.randrange(len(values)) for _ in range(TABLE_ROWS)]
        columns[name] = values.take(pa.array(places))
    return pa.table(columns)


COMPARISONS = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)


def draw_leaf(r, names):
    name = r.choice(names)
    column = pl.col(name)
    literals = KINDS[name][1]

    def value():
        one = r.choice(literals)
        is_cut = getattr(one.dtype, "time_unit", "") == "ns" or one.dtype == pl.Time
        if is_cut or r.random() < 0.5:
            return pl.lit(one)
        return pl.lit(one[0], dtype=one.dtype)

    kind = r.randrange(10)
    if name == "bool" and kind < 3:
        return column
    if kind < 4:
        compare = r.choice(COMPARISONS[:2] if name == "category" else COMPARISONS)
        found = compare(column, value())
        if r.random() < 0.2:
            found = compare(value(), column)
        return found
    if kind < 7:
        some = r.choices(literals, k=r.randrange(1, 5))
        series = pl.concat(some)
        if r.random() < 0.3:
            series = pl.concat([series, pl.Series([None], dtype=series.dtype)])
        if r.random() < 0.2:
            series = series.clear()
        return column.is_in(series)
    if kind == 7 and name != "category":
        closed = r.choice(["both", "left", "right", "none"])
        return column.is_between(value(), value(), closed)
    return column.is_null() if r.random() < 0.5 else column.is_not_null()


def draw(r, names, depth=0):
    choice = r.random()
    if depth > 4 or choice < 0.35:
        return draw_leaf(r, names)
    if choice < 0.38:
        return pl.lit(r.choice([True, False, None]), dtype=pl.Boolean)
    if choice < 0.55:
        return ~draw(r, names, depth + 1)
    join = r.choice([operator.and_, operator.or_])
    parts = [draw(r, names, depth + 1) for _ in range(r.randrange(2, 4))]
    return functools.reduce(join, parts)


def is_exact(expression):
    """Whether Polars can build this NaN's node again, which 1.35 cannot."""
    return pl.lit(NAN).meta.eq(pl.lit(NAN)) or "NaN" not in str(expression)


# of 50 expressions each
ROUNDS = [range(first, first + 1) for first in range(10)]


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
            names = r.sample([*KINDS], len(KINDS) // 4)
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


def check_official(folder, text, wanted):
    """Send a text by the engine that LanceDB's own client brings."""
    # which takes a second
    import lancedb

    table = lancedb.connect(folder).open_table("t")
    found = table.search().where(text).select(["id"]).limit(TABLE_ROWS).to_arrow()
    assert found["id"].to_pylist() == wanted, text
    assert table.count_rows(text) == len(wanted), text


def check_round(client, folder, names, r, sent):
    table = client.table("t")
    frame = table.to_polars()
    first = lance.dataset(str(folder / "t.lance")).version
    for _ in range(50):
        expression = draw(r, names)
        if not expression.meta.root_names() or not is_exact(expression):
            continue
        wanted = frame.filter(expression)["id"].to_list()
        found = table.to_arrow(columns=["id"], where=expression)
        assert found["id"].to_pylist() == wanted, str(expression)
        if r.random() < 0.3:
            assert table.count(expression) == len(wanted), str(expression)
        scanned = table.scan().filter(expression).select("id").collect()
        assert scanned["id"].to_list() == wanted, str(expression)
        if r.random() < 0.3:
            check_official(folder, sent(expression), wanted)
        if r.random() < 0.1:
            assert table.delete(expression) == len(wanted), str(expression)
            left = table.to_arrow(columns=["id"])["id"].to_pylist()
            assert sorted({*range(TABLE_ROWS)} - {*wanted}) == left
            client.table("t", version=first).restore()
            table = client.table("t")


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
    (s == 1, "pass text"),
    (n == "a", "pass a number"),
    (pl.col("i8") == 300, "out of range"),
    (pl.col("i8").is_in([1, 300]), "out of range"),
    (pl.col("u8") > -1, "out of range"),
    (n == 1.5, "whole number"),
    (pl.col("f4") == 0.1, "Float32"),
    (pl.col("x") == 2**53 + 1, "exact"),
    (d == dt.datetime(2024, 1, 1), "pass a date"),
    (at == dt.date(2024, 1, 1), "pass a datetime"),
    (at == dt.datetime(1970, 1, 1, microsecond=5), "finer"),
    (pl.col("price") == Decimal("1.505"), "2 decimal places"),
    (pl.col("price") == 1.2, r'pass Decimal\("1.2"\)'),
    (pl.col("price") == 10_000, "out of range"),
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


TUPLES = [
    ([("n", "==", 1)], [1]),
    ([("n", "=", 2)], [2]),
    ([("n", "!=", 1)], [2]),
    ([("n", "<", 2)], [1]),
    ([("n", "<=", 2)], [1, 2]),
    ([("n", ">", 1)], [2]),
    ([("n", ">=", 1), ("s", "in", ["a", "z"])], [1]),
    ([("n", "not in", {1})], [2]),
    ([("s", "==", "b")], [2]),
    ([("n", "in", [])], []),
    ([("n", "not in", ())], [1, 2]),
    ([("at", ">", dt.datetime(2000, 1, 1))], [2]),
    ([[("n", "==", 1)], [("n", ">", 1), ("s", "==", "b")]], [1, 2]),
    ([[("n", "==", 1)], [("n", ">", 1), ("s", "==", "z")]], [1]),
]


def test_a_tuple_may_have_a_uuid(place, name):
    ids = [uuid.UUID(int=1), uuid.UUID(int=2)]
    column = pa.array([one.bytes for one in ids], pa.uuid())
    table = place.create(name, pa.table({"n": [1, 2], "u": column}))
    assert table.count([("u", "==", ids[0])]) == 1
    assert table.count([("u", "in", ids)]) == 2


BERLIN = ZoneInfo("Europe/Berlin")
NOON = dt.datetime(2024, 1, 5, 12)
NOON_UTC = NOON.replace(tzinfo=UTC)
NOON_BERLIN = NOON_UTC.astimezone(BERLIN)
IN_BERLIN = pl.Datetime("us", "Europe/Berlin")
IN_ETC = NOON_UTC.astimezone(ZoneInfo("Etc/GMT-1"))
MOMENTS = pa.table(
    {
        "n": [1, 2],
        "naive": pa.array([NOON, EPOCH], pa.timestamp("us")),
        "ns": pa.array([NOON, EPOCH], pa.timestamp("ns")),
        "utc": pa.array([NOON_UTC, None], pa.timestamp("us", "UTC")),
        "berlin": pa.array([NOON_UTC, None], pa.timestamp("us", "Europe/Berlin")),
        "offset": pa.array([NOON_UTC, None], pa.timestamp("us", "+01:00")),
    }
)
MOMENTS_IN_POLARS = pl.DataFrame(MOMENTS)
OTHER_ZONES = [
    ("utc", NOON_BERLIN, "in zone Europe/Berlin", "convert it to UTC"),
    ("utc", pd.Timestamp(NOON_BERLIN), "in zone Europe/Berlin", "convert it to UTC"),
    (
        "utc",
        pl.lit(NOON, dtype=IN_BERLIN),
        "in zone Europe/Berlin",
        "convert it to UTC",
    ),
    ("utc", NOON, "without zone", "give it the zone UTC"),
    ("utc", pd.Timestamp(NOON), "without zone", "give it the zone UTC"),
    ("utc", np.datetime64(NOON), "without zone", "give it the zone UTC"),
    ("berlin", NOON_UTC, "in zone UTC", "convert it to Europe/Berlin"),
    ("offset", NOON_UTC, "in zone UTC", "convert it to Etc/GMT-1"),
    ("naive", NOON_UTC, "in zone UTC", "pass one without zone"),
    ("naive", pd.Timestamp(NOON_BERLIN), "in zone Europe/Berlin", "pass one without"),
]
CURED = [
    ("utc", NOON_UTC),
    ("berlin", NOON_BERLIN),
    ("offset", IN_ETC),
    ("naive", NOON),
]


@pytest.fixture
def moments_table(place, name):
    return place.create(name, MOMENTS)


@pytest.mark.parametrize(("column", "moment", "fact", "cure"), OTHER_ZONES)
def test_a_moment_is_compared_in_the_zone_of_its_column(
    moments_table, column, moment, fact, cure
):
    words = f"column '{column}' .*{fact}; nothing was sent; {cure}"
    compared = pl.col(column) <= moment
    for where in (compared, pl.col(column).is_between(moment, moment)):
        with pytest.raises(pl.exceptions.PolarsError):
            MOMENTS_IN_POLARS.filter(where)
        with pytest.raises(ValueError, match=words):
            moments_table.delete(where)
    with pytest.raises(pl.exceptions.PolarsError, match=words):
        moments_table.scan().filter(compared).collect()


@pytest.mark.parametrize(("column", "moment"), CURED)
def test_a_moment_in_the_zone_of_its_column_finds_its_row(
    moments_table, column, moment
):
    where = pl.col(column) == moment
    assert moments_table.count(where) == 1
    assert moments_table.scan().filter(where).collect()["n"].to_list() == [1]


@pytest.mark.parametrize("column", ["utc", "berlin", "offset"])
def test_a_list_may_have_moments_of_another_zone_as_in_polars(moments_table, column):
    where = pl.col(column).is_in([NOON_UTC.astimezone(ZoneInfo("America/New_York"))])
    assert MOMENTS_IN_POLARS.filter(where)["n"].to_list() == [1]
    assert moments_table.to_arrow(where=where)["n"].to_pylist() == [1]
    with pytest.raises(ValueError, match=f"column '{column}' .*without zone"):
        moments_table.count(pl.col(column).is_in([NOON]))


def test_a_zone_that_polars_does_not_know_is_not_compared(place, name):
    moments = pa.array([NOON_UTC, None], pa.timestamp("us", "+05:30"))
    table = place.create(name, pa.table({"half": moments}))
    with pytest.raises(ValueError, match=r"'half' is timestamp.* cannot be compared"):
        table.count(pl.col("half") == NOON_UTC)
    assert table.count(pl.col("half").is_null()) == 1


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_tuple_may_have_a_list_of_numpy_moments(moments_table, unit):
    column = "ns" if unit == "ns" else "naive"
    values = np.array([NOON, EPOCH], f"datetime64[{unit}]")
    assert moments_table.count([(column, "in", values)]) == 2
    assert moments_table.count([(column, "not in", list(values[1:]))]) == 1


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
    with pytest.raises(ValueError, match="pass it as an int"):
        table.delete(n == 2.0**53)


@pytest.mark.parametrize(("filters", "found"), TUPLES)
def test_tuples_are_those_of_pandas(table, filters, found):
    assert table.to_arrow(where=filters)["n"].to_pylist() == found
    assert table.count(filters) == len(found)


NO_TUPLES = [
    [],
    ["n > 1"],
    [n > 1],
    [("n", ">")],
    [("n", "like", 1)],
    [("n", ["=="], 1)],
    [("n", "in", [1, None])],
    [("n", "in", [1, "a"])],
    [("n", "==", object())],
    [("at", "==", pd.NaT)],
    [("at", "in", pd.DatetimeIndex([None]))],
    [("n", "in", "ab")],
    [("n", "==", [1])],
    [("n", "==", None)],
    [[("n", "==", 1)], ("n", "==", 2)],
    [[("n", "==", 1)], []],
    [[[("n", "==", 1)]]],
    [("ns", "==", pd.Timestamp(1))],
    [("ns", "in", [pd.Timestamp(1)])],
]


@pytest.mark.parametrize("filters", NO_TUPLES)
def test_other_lists_are_refused(table, filters):
    with pytest.raises(ValueError, match=r"^where: "):
        table.delete(filters)
    assert table.count() == 3


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
    with pytest.raises(ValueError, match=r"^where: this service does not describe"):
        bare.delete(n > 1)
    assert server.requests == []
