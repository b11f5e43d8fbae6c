"""Tuples as conditions: the rows are those that plain Python finds, without Polars."""

from __future__ import annotations

import datetime as dt
import math
import operator
import random
import uuid
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.conditions import EPOCH, KINDS, NAN, STEPS, TABLE_ROWS, UTC

BERLIN = ZoneInfo("Europe/Berlin")
DATES64 = pa.array([-(10**6), 0, 19_000, None], pa.int64())
EVERY = {name: column for name, (column, _) in KINDS.items()}
EVERY["date64"] = pa.array(
    [None if day is None else day * 86_400_000 for day in DATES64.to_pylist()]
).view(pa.date64())
COMPARISONS = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def meanings(column):
    """Return what a column means: moments and the like in nanoseconds."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if not pa.types.is_temporal(column.type):
        return column.to_pylist()
    width = pa.int32() if column.type.bit_width == 32 else pa.int64()
    step = 86_400 * 10**9 if pa.types.is_date32(column.type) else 10**6
    step = STEPS[getattr(column.type, "unit", "ms")] if step == 10**6 else step
    counts = column.view(width).to_pylist()
    return [None if count is None else count * step for count in counts]


def order(meaning):
    """Return a key in which NaN equals itself, and is above all numbers."""
    is_nan = isinstance(meaning, float) and math.isnan(meaning)
    return (is_nan, 0 if is_nan else meaning)


def holds(cell, op, values):
    """Whether a cell fulfils a tuple: the oracle."""
    if cell is None:
        return False
    if op == "in":
        return any(order(cell) == order(value) for value in values)
    if op == "not in":
        return not holds(cell, "in", values)
    return COMPARISONS[op](order(cell), order(values[0]))


def forms_of_numbers(arrow, number):
    if pa.types.is_boolean(arrow):
        return [number, np.bool_(number)]
    if isinstance(number, Decimal):
        return [number, int(number)] if number == int(number) else [number]
    forms = [number, *map(Decimal, [number] if isinstance(number, int) else [])]
    if isinstance(number, int):
        forms.append(np.int64(number) if number < 2**63 else np.uint64(number))
        return [*forms, float(number)] if abs(number) < 2**53 else forms
    forms += [np.float64(number), getattr(np, f"float{arrow.bit_width}")(number)]
    is_whole = math.isfinite(number) and abs(number) < 2**53 and number == int(number)
    return [*forms, int(number)] if is_whole else forms


def forms_of_moments(arrow, nanoseconds):
    unit = arrow.unit
    counted = np.datetime64(nanoseconds // STEPS[unit], unit)
    micro, rest = divmod(nanoseconds, 1000)
    if arrow.tz is None:
        plain = [] if rest else [EPOCH + dt.timedelta(microseconds=micro)]
        return [counted, pd.Timestamp(counted), *plain]
    zoned = pd.Timestamp(counted, tz="UTC")
    plain = []
    if not rest:
        moment = EPOCH.replace(tzinfo=UTC) + dt.timedelta(microseconds=micro)
        offset = dt.timezone(dt.timedelta(hours=-7, seconds=1))
        plain = [moment, moment.astimezone(BERLIN), moment.astimezone(offset)]
    return [zoned, zoned.tz_convert("Asia/Tokyo"), *plain]


def forms(arrow, meaning):
    """Return values of Python, NumPy and pandas that mean one value of a column."""
    t = pa.types
    if isinstance(meaning, str):
        return [meaning, np.str_(meaning)]
    if isinstance(meaning, bytes):
        is_uuid = getattr(arrow, "extension_name", "") == "arrow.uuid"
        other = uuid.UUID(bytes=meaning) if is_uuid else memoryview(meaning).tobytes()
        return [meaning, other]
    if not t.is_temporal(arrow):
        return forms_of_numbers(arrow, meaning)
    micro, rest = divmod(meaning, 1000)
    if t.is_date(arrow):
        days = meaning // (86_400 * 10**9)
        date = dt.date.fromordinal(days + 719_163) if days > -719_163 else None
        return [np.datetime64(days, "D"), *([] if date is None else [date])]
    if t.is_duration(arrow):
        counted = np.timedelta64(meaning // STEPS[arrow.unit], arrow.unit)
        plain = [] if rest else [dt.timedelta(microseconds=micro)]
        return [counted, pd.Timedelta(counted), *plain]
    if t.is_time(arrow):
        at = EPOCH + dt.timedelta(microseconds=micro)
        return [] if rest else [at.time()]
    return forms_of_moments(arrow, meaning)


def containers(column, places, r):
    """Return lists and arrays of some values of a column."""
    stored = column.take(pa.array(places, pa.int64()))
    cells = meanings(stored)
    arrays = [stored, pa.chunked_array([stored[:1], stored[1:]])]
    arrow = column.type
    if not isinstance(arrow, pa.BaseExtensionType) and not pa.types.is_date64(arrow):
        arrays.append(pl.Series("x", stored))
    listed = [forms(arrow, cell) for cell in cells]
    if not all(listed):
        return arrays
    drawn = [r.choice(some) for some in listed]
    lists = [drawn, tuple(drawn), (one for one in drawn), np.array([*drawn, 0], object)]
    lists[-1] = lists[-1][:-1]
    return [*arrays, *lists, *lists, pd.Series(drawn, dtype=object)]


def draw_tuple(r, columns):
    """Return a tuple, what its values mean, and an expression that says the same."""
    name = r.choice([*columns])
    column = EVERY[name]
    ops = ["==", "!=", "in", "not in"] if name == "category" else [*COMPARISONS, "in"]
    op = r.choice([*ops, "not in"])
    if op not in COMPARISONS:
        places = [r.randrange(len(column) - 1) for _ in range(r.randrange(5))]
        values = r.choice(containers(column, places, r))
        return name, op, values, [meanings(column)[place] for place in places], None
    meaning = r.choice(meanings(column)[:-1])
    some = forms(column.type, meaning)
    if not some:
        return draw_tuple(r, columns)
    value = r.choice(some)
    expression = None
    if type(value).__module__ in ("builtins", "datetime", "decimal"):
        expression = COMPARISONS[op](pl.col(name), value)
    return name, op, value, [meaning], expression


@pytest.mark.parametrize("number", [300, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore")
def test_the_rows_are_those_that_python_finds(tmp_path, number):
    seed = 7 if number == 300 else random.randrange(2**32)
    print("seed", seed)  # noqa: T201  # to draw the same again
    r = random.Random(seed)
    columns = {}
    for name, column in EVERY.items():
        places = [r.randrange(len(column)) for _ in range(TABLE_ROWS)]
        columns[name] = column.take(pa.array(places))
    rows = pa.table({"id": range(TABLE_ROWS), **columns})
    cells = {name: meanings(column) for name, column in columns.items()}
    with rt.connect(tmp_path, default=False) as client:
        table = client.create_table("t", rows)
        for _ in range(number):
            name, op, value, meant, expression = draw_tuple(r, columns)
            said = f"{name} {op} {value!r}"
            found = [
                row for row, cell in enumerate(cells[name]) if holds(cell, op, meant)
            ]
            asked = [[(name, op, value)]]
            if op in ("==", "="):
                asked.append([(name, "in", [value])])
            if expression is not None:
                asked.append(expression)
            for where in asked:
                ids = table.to_arrow(columns=["id"], where=where)["id"].to_pylist()
                assert ids == found, said


ROWS = pa.table(
    {
        "n": pa.array([1, 2, None], pa.int64()),
        "s": pa.array(["a", "b", None]),
        "at": pa.array([EPOCH, dt.datetime(2024, 1, 1), None], pa.timestamp("s")),
        "ns": pa.array([EPOCH, dt.datetime(2024, 1, 1), None], pa.timestamp("ns")),
    }
)


@pytest.fixture
def table(place, name):
    return place.create(name, ROWS)


TUPLES = [
    ([("n", "=", 2)], [2]),
    ([("n", ">=", 1), ("s", "in", ["a", "z"])], [1]),
    ([("n", "in", [])], []),
    ([("n", "not in", ())], [1, 2]),
    ([[("n", "==", 1)], [("n", ">", 1), ("s", "==", "b")]], [1, 2]),
    ([[("n", "==", 1)], [("n", ">", 1), ("s", "==", "z")]], [1]),
    ([("ns", "<", dt.datetime(9999, 12, 31))], [1, 2]),
    ([("ns", "not in", [dt.datetime(9999, 12, 31), EPOCH])], [2]),
    ([("ns", "<", dt.datetime(1, 1, 1))], []),
]


@pytest.mark.parametrize(("filters", "found"), TUPLES)
def test_tuples_are_those_of_pandas(table, filters, found):
    assert table.to_arrow(where=filters)["n"].to_pylist() == found
    assert table.count(filters) == len(found)


NS = pa.timestamp("ns")
NANO = pd.Timestamp("2024-01-05 00:00:00.000000001")
MINUTE = np.datetime64("2024-01-05T00:00")
HOURS = np.array(["2024-01-05T00"], "datetime64[h]")
SPAN = pd.Timedelta(1)
DAY = dt.date(2024, 1, 5)
MIDNIGHT = dt.datetime(2024, 1, 5)
ZERO = pd.Timestamp(0, tz="UTC")
IN_UTC = MIDNIGHT.replace(tzinfo=UTC)
IN_BERLIN = pa.timestamp("us", "Europe/Berlin")
ONE = dt.datetime(2024, 10, 27, 1, tzinfo=UTC)
SECOND_TWO = dt.datetime(2024, 10, 27, 2, fold=1, tzinfo=BERLIN)
CENTS = pa.decimal128(10, 2)
PRICE = Decimal("1.10")
DIGITS = Decimal("0." + "1" * 38)
INT128 = pl.Series([10**30], dtype=pl.Int128)
# a column, one value of it, and a list that was read as another one, or was refused
TRAPS = {
    "moments in nanoseconds": (NS, NANO, [NANO, pd.Timestamp(0)]),
    "moments in two units": (NS, NANO, [MIDNIGHT, NANO]),
    "NumPy's moments in two units": (NS, NANO, [MINUTE, NANO.to_datetime64()]),
    "spans in two units": (pa.duration("ns"), SPAN, [dt.timedelta(1), SPAN]),
    "hours and minutes": (pa.timestamp("ms"), MIDNIGHT, HOURS),
    "days and weeks": (pa.duration("s"), dt.timedelta(7), [np.timedelta64(1, "W")]),
    "decimals of many digits": (pa.decimal128(38, 38), DIGITS, [Decimal(0), DIGITS]),
    "integers on floats": (pa.float64(), 1.0, [1, 2]),
    "floats on integers": (pa.int64(), 1, [1.0]),
    "both": (pa.int64(), 1, [1.0, 3]),
    "integers beyond 64 bits": (pa.decimal128(38, 0), Decimal(10**30), [1, 10**30]),
    "integers of both signs": (pa.uint64(), 2**64 - 1, [0, 2**64 - 1]),
    "dates on date64": (pa.date64(), DAY, [DAY]),
    "midnight on date64": (pa.date64(), DAY, [MIDNIGHT]),
    "decimals of other places": (CENTS, PRICE, [Decimal("1.1"), Decimal("1.1000")]),
    "floats on decimals": (CENTS, PRICE, [1.1]),
    "small floats": (pa.float32(), np.float32(0.1), [np.float32(0.1), 2]),
    "NaN": (pa.float64(), NAN, [np.nan]),
    "a negative zero": (pa.float64(), 0.0, [-0.0]),
    "zones": (pa.timestamp("us", "UTC"), IN_UTC, [IN_UTC.astimezone(BERLIN), ZERO]),
    "a fold": (IN_BERLIN, ONE, [SECOND_TWO]),
    "UUIDs": (pa.uuid(), b"a" * 16, [uuid.UUID(bytes=b"a" * 16)]),
    "bytes with a zero": (pa.binary(), b"a\0", [np.bytes_(b"a\0"), b"a\0"]),
    "categories of pandas": (pa.string(), "a", pd.Categorical(["a", "b"])),
    "categories of Polars": (pa.string(), "a", pl.Series(["a"], dtype=pl.Categorical)),
    "nullable integers": (pa.int8(), 1, pd.array([1, 2], "Int64")),
    "an index": (pa.timestamp("us"), MIDNIGHT, pd.DatetimeIndex([MIDNIGHT])),
    "integers of 128 bits": (pa.decimal128(38, 0), Decimal(10**30), INT128),
    "a range": (pa.int64(), 1, range(2)),
    "a set": (pa.string(), "a", {"a"}),
}


@pytest.mark.parametrize(("arrow", "cell", "values"), TRAPS.values(), ids=TRAPS)
def test_a_list_keeps_every_value(place, name, arrow, cell, values):
    column = pa.array([getattr(cell, "value", cell), None], storage(arrow)).cast(arrow)
    table = place.create(name, pa.table({"n": [1, 2], "x": column}))
    assert table.count([("x", "in", values)]) == 1
    assert table.delete([("x", "not in", values)]) == 0
    assert place.read(name).num_rows == 2


def storage(arrow):
    """Return the type in which Python's values are converted without loss."""
    return pa.int64() if getattr(arrow, "unit", "") == "ns" else arrow


INEXACT = [  # for a column, whatever the operator: a value of another kind, or finer
    ("n", 1.5, "1.5 does not fit column 'n'"),
    ("n", 10**40, "does not fit column 'n'"),
    ("n", 2.0**60, "pass an int in its range"),
    ("n", "1", "pass an int"),
    ("n", True, "pass an int"),
    ("n", Decimal("1E-40"), "1E-40 does not fit"),
    ("s", 1, "pass text"),
    ("s", b"a", "pass text"),
    ("at", dt.datetime(1970, 1, 1, microsecond=5), "no finer than s"),
    ("at", pd.Timestamp(1), "no finer than s"),
    ("at", np.datetime64(1, "ns"), "no finer than s"),
    ("at", dt.date(2024, 1, 1), "pass a datetime"),
    ("at", dt.datetime(2024, 1, 1, tzinfo=UTC), "pass one without zone"),
    ("at", dt.timedelta(1), "pass a datetime"),
]


@pytest.mark.parametrize(("column", "value", "words"), INEXACT, ids=str)
def test_a_value_that_is_not_exact_in_its_column_is_refused_by_name(
    place, table, column, value, words
):
    fitting = table.to_arrow()[column][0].as_py()
    for filters in (
        [(column, "!=", value)],
        [(column, "in", [value])],
        [(column, "not in", [fitting, value])],
    ):
        with pytest.raises(ValueError, match=f"^where: .*{words}"):
            table.delete(filters)
    assert place.open(table.name).version == 1


NO_TUPLES = [
    ([], "got no tuple"),
    (["n > 1"], "expected tuples"),
    ([pl.col("n") > 1], "expected tuples"),
    ([("n", ">")], "expected tuples"),
    ([("n", "like", 1)], "unknown operator 'like'"),
    ([("n", ["=="], 1)], "expected tuples"),
    ([("m", "==", 1)], "no column 'm'; "),
    ([("n", "in", [1, None])], "is_null"),
    ([("n", "in", pd.Series([1.0, None]))], "is_null"),
    ([("n", "in", [1, "a"])], "'a' does not fit"),
    ([("n", "==", object())], "cannot be compared; nothing was sent"),
    ([("n", "in", [dt.time(1, tzinfo=UTC)])], "cannot be compared"),
    ([("n", "==", Decimal("NaN"))], "cannot be compared"),
    ([("n", "in", [1, Decimal("sNaN")])], "cannot be compared"),
    ([("n", "==", 10**80)], "cannot be compared"),
    ([("s", "==", "\ud800")], "cannot be compared"),
    ([("at", "==", pd.NaT)], "is_null"),
    ([("at", "==", np.datetime64("NaT", "ns"))], "is_null"),
    ([("at", "in", pd.DatetimeIndex([None]))], "is_null"),
    ([("n", "==", pd.NA)], "is_null"),
    ([("n", "==", None)], "is_null"),
    ([("at", ">", np.datetime64(2**60, "h"))], "cannot be compared"),
    ([("n", "in", "ab")], "needs a list"),
    ([("n", "in", 1)], "needs a list"),
    ([("n", "==", [1])], "needs one value"),
    ([("n", "==", np.array([1]))], "needs one value"),
    ([("n", "in", np.array([[1]]))], "cannot be compared"),
    ([("n", "==", pl.lit(1))], "cannot be compared"),
    ([("s", "in", pl.Series([b"a"], dtype=pl.Object))], "cannot be compared"),
    ([[("n", "==", 1)], ("n", "==", 2)], "expected tuples"),
    ([[("n", "==", 1)], []], "got no tuple"),
    ([[[("n", "==", 1)]]], "expected tuples"),
]


@pytest.mark.parametrize(("filters", "words"), NO_TUPLES)
def test_other_lists_are_refused(place, table, filters, words):
    with pytest.raises(ValueError, match=f"^where: .*{words}"):
        table.delete(filters)
    assert place.open(table.name).version == 1


SIZES = {"fits": (60_000, True), "does not fit": (400_000, False)}


@pytest.mark.parametrize(("number", "fits"), SIZES.values(), ids=SIZES)
def test_the_size_of_a_list_is_looked_at_first(place, table, number, fits):
    filters = [("n", "in", range(2, number))]
    if fits:
        assert table.delete(filters) == 1
        return
    words = "the condition has at least .*; nothing was sent; upsert by key, or read"
    with pytest.raises(ValueError, match=f"^where: {words}"):
        table.delete(filters)
    assert place.open(table.name).version == 1
