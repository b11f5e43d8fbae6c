"""``dtypes=`` keeps the meaning of a value, or refuses it by column and row."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.types as is_
import pytest

from rt_frames._values import exact_cast
from rt_frames.errors import UnsupportedTypeError
from tests.local.test_service import COLUMNS
from tests.support.sent import send

EVERY_TYPE = [arrow for arrow, _ in COLUMNS.values()]

D = decimal.Decimal
UTC = dt.UTC
TOKYO = dt.timezone(dt.timedelta(hours=9))
MORNING = dt.datetime(2020, 1, 1, 5, 0, 0, 1)
MIDNIGHT = dt.datetime(2020, 1, 1)


def cast(array: object, target: object) -> pa.ChunkedArray | UnsupportedTypeError:
    make = pd.DataFrame if isinstance(array, pd.Series) else pa.table
    try:
        return send(make({"x": array}), dtypes={"x": target}).table()["x"]
    except UnsupportedTypeError as error:
        return error


def row_of(refused: pa.ChunkedArray | UnsupportedTypeError) -> int | None:
    assert isinstance(refused, UnsupportedTypeError), f"it became {refused}"
    row = re.match(r"column 'x'(, row (\d+))?", str(refused))[2]
    return row and int(row)


UUID = uuid.UUID(int=10)
BRACED = "{00000000-0000-0000-0000-00000000000A}"
EXACT = "2020-01-01 05:00:00.123456789"
ZONED = "2020-01-01 05:00:00+09:00"
EVENING = dt.datetime(2019, 12, 31, 20, tzinfo=UTC)
IN_TOKYO = MIDNIGHT.replace(tzinfo=TOKYO)
TOKYO_TEXT = "2020-01-01 00:00:00.000000+0900"
QUARTER = dt.time(23, 59, 59, 250_000)
CODED_NUMBERS = pa.dictionary(pa.int8(), pa.int64())
CODED_TEXT = pa.dictionary(pa.int32(), pa.large_string())
TENTH = D("0.1").quantize(D(10) ** -20)


KEPT = [  # a value, its type, another type, and what it is there
    (2**62, pa.int64(), pa.float32(), 2.0**62),
    (2**53 + 2, pa.int64(), pa.float64(), 2.0**53 + 2),
    (-0.0, pa.float64(), pa.int8(), 0),
    (0.1, pa.float64(), pa.float32(), float(np.float32(0.1))),
    (2.0**53 + 2, pa.float64(), pa.float32(), 2.0**53),
    (np.nan, pa.float64(), pa.float32(), np.nan),
    (np.nan, pa.float32(), pa.float64(), np.nan),
    (0.1, pa.float64(), pa.decimal128(38, 20), TENTH),
    (2.0**60, pa.float64(), pa.decimal128(38, 0), D(2**60)),
    (D("0.1"), pa.decimal128(7, 2), pa.float64(), 0.1),
    (D("40773466930.638206"), pa.decimal128(38, 6), pa.float64(), 40773466930.638206),
    (2**63, pa.uint64(), pa.decimal128(19, 0), D(2**63)),
    ("9007199254740992.0", pa.string(), pa.float64(), 2.0**53),
    ("9007199254740993.5", pa.string(), pa.float64(), 9007199254740993.5),
    ("-inf", pa.string(), pa.float32(), -np.inf),
    ("nan", pa.string(), pa.float64(), np.nan),
    (EXACT, pa.string(), pa.timestamp("ns"), pd.Timestamp(EXACT)),
    (ZONED, pa.string(), pa.timestamp("s", "UTC"), EVENING),
    (BRACED, pa.string(), pa.uuid(), UUID),
    ("05:00", pa.large_string(), pa.time32("s"), dt.time(5)),
    ("23:59:59.25", pa.string(), pa.time64("us"), QUARTER),
    (UUID.bytes, pa.uuid(), pa.string(), str(UUID)),
    (dt.time(5), pa.time32("s"), pa.large_string(), "05:00:00"),
    (MIDNIGHT, pa.timestamp("us"), pa.date32(), MIDNIGHT.date()),
    (MIDNIGHT, pa.timestamp("us"), pa.timestamp("s", "UTC"), f"{MIDNIGHT}+00:00"),
    (IN_TOKYO, pa.timestamp("us", "Asia/Tokyo"), pa.string(), TOKYO_TEXT),
    (MIDNIGHT, pa.timestamp("us"), pa.string(), f"{MIDNIGHT}.000000"),
    (1.0, pa.float64(), pa.string(), "1"),
    (True, pa.bool_(), pa.large_string(), "true"),
    (86_400_000, pa.int64(), pa.date64(), dt.date(1970, 1, 2)),
    (1.0, pa.float64(), CODED_NUMBERS, 1),
    (127, CODED_NUMBERS, pa.int8(), 127),
    (b"ab", pa.binary(), CODED_TEXT, "ab"),
    ("7", pa.string_view(), pa.int8(), 7),
    ("ab", pa.string_view(), pa.binary_view(), b"ab"),
    # the last one before one that is refused, below
    (127, pa.int64(), pa.int8(), 127),
    (2**63 - 1, pa.uint64(), pa.int64(), 2**63 - 1),
    (2**11, pa.int16(), pa.float16(), 2.0**11),
    (2**24, pa.int32(), pa.float32(), 2.0**24),
    (2**53, pa.int64(), pa.float64(), 2.0**53),
    (2**64 - 2**11, pa.uint64(), pa.float64(), 2.0**64 - 2**11),
    (99, pa.int64(), pa.decimal128(2, 0), D(99)),
    (127.0, pa.float32(), pa.int8(), 127),
    (-(2.0**63), pa.float64(), pa.int64(), -(2**63)),
    (2.0**64 - 2**11, pa.float64(), pa.uint64(), 2**64 - 2**11),
    (65504.0, pa.float64(), pa.float16(), 65504.0),
    (16777216.0, pa.float64(), pa.float32(), 16777216.0),
    (99.5, pa.float64(), pa.decimal128(3, 1), D("99.5")),
    (D("1.00"), pa.decimal128(7, 2), pa.int8(), 1),
    (D(2**63 - 1), pa.decimal128(38, 0), pa.int64(), 2**63 - 1),
    (D(2**53), pa.decimal128(38, 0), pa.float64(), 2.0**53),
    (D("1.50"), pa.decimal128(7, 2), pa.decimal128(2, 1), D("1.5")),
    (1, pa.int8(), pa.bool_(), True),
    ("127", pa.string(), pa.int8(), 127),
    ("16777216", pa.string(), pa.float32(), 16777216.0),
    ("1.5", pa.string(), pa.decimal128(2, 1), D("1.5")),
    ("true", pa.string(), pa.bool_(), True),
    ("ab", pa.string(), pa.binary(2), b"ab"),
    ("ä", pa.string(), pa.binary(), b"\xc3\xa4"),
    ("ä", pa.string(), pa.large_string(), "ä"),
    (b"ab", pa.binary(), pa.large_string(), "ab"),
    (2000, pa.timestamp("ms"), pa.timestamp("s"), dt.datetime(1970, 1, 1, 0, 0, 2)),
    (106_751, pa.date32(), pa.timestamp("ns"), dt.datetime(2262, 4, 11)),
    (2000, pa.time32("ms"), pa.time32("s"), dt.time(0, 0, 2)),
    (2000, pa.duration("us"), pa.duration("ms"), dt.timedelta(milliseconds=2)),
]


FAR = 1_200_000_000_000  # the year 40,000
REFUSED = [  # a value of one type, which another one does not hold
    (2**53 + 1, pa.int64(), pa.float64()),
    (2**63 - 1, pa.int64(), pa.float64()),
    (-1, pa.int8(), pa.uint64()),
    (2.0**63, pa.float64(), pa.int64()),
    (16777217.0, pa.float64(), pa.float32()),
    (2.0**40 + 1, pa.float64(), pa.float32()),
    (1e300, pa.float64(), pa.float32()),
    (np.nan, pa.float64(), pa.bool_()),
    (1e-30, pa.float64(), pa.decimal128(38, 0)),
    (D("1e37"), pa.decimal128(38, 0), pa.float64()),
    (D("300.00"), pa.decimal128(7, 2), pa.decimal128(3, 2)),
    ("0xFF", pa.string(), pa.int8()),
    ("1e400", pa.string(), pa.float64()),
    ("1e-400", pa.string(), pa.float64()),
    ("9007199254740993.0", pa.string(), pa.float64()),
    ("9" * 400, pa.string(), pa.float64()),
    ("1e39", pa.string(), pa.float32()),
    ("10000000000000000", pa.string(), pa.float32()),
    ("9" * 77, pa.string(), pa.decimal128(38, 0)),
    ("9.51009633835489e-27", pa.string(), pa.decimal128(7, 2)),
    ("1500-01-01", pa.string(), pa.timestamp("ns")),
    ("24:00", pa.string(), pa.time64("us")),
    ("10", pa.string(), pa.time64("us")),
    ("5:00", pa.string(), pa.time64("us")),
    ("05:00Z", pa.string(), pa.time64("us")),
    ("", pa.string(), pa.time64("us")),
    ("05:00:00.1234567", pa.string(), pa.time64("us")),
    ("x", pa.string(), pa.uuid()),
    (86_400, pa.int32(), pa.time32("s")),
    (5, pa.int64(), pa.date64()),
    (FAR, pa.timestamp("s"), pa.large_string()),
    (FAR, pa.timestamp("s", "UTC"), pa.large_string()),
    (2**31 - 1, pa.date32(), pa.string()),
    # the last day before the year 1
    (-719_529, pa.date32(), pa.string()),
    # the year 10,000
    (253_402_300_800_000, pa.date64(), pa.large_string()),
    (FAR + 1, pa.timestamp("s"), pa.date32()),
    (FAR, pa.timestamp("s"), pa.timestamp("ns")),
    (b"\xff", pa.binary(), pa.string()),
    (1.5, pa.float64(), CODED_NUMBERS),
    (128, CODED_NUMBERS, pa.int8()),
    (b"\xff", pa.binary(), CODED_TEXT),
    ("7.5", pa.string_view(), pa.int8()),
    (b"\xff", pa.binary_view(), pa.string_view()),
    # the first one behind one that is kept, above
    (128, pa.int64(), pa.int8()),
    (2**63, pa.uint64(), pa.int64()),
    (2**11 + 1, pa.int16(), pa.float16()),
    (2**24 + 1, pa.int32(), pa.float32()),
    (2**64 - 1, pa.uint64(), pa.float64()),
    (100, pa.int64(), pa.decimal128(2, 0)),
    (127.5, pa.float32(), pa.int8()),
    (128.0, pa.float32(), pa.int8()),
    (-(2.0**63) - 2**11, pa.float64(), pa.int64()),
    (2.0**64, pa.float64(), pa.uint64()),
    (65520.0, pa.float64(), pa.float16()),
    (99.55, pa.float64(), pa.decimal128(3, 1)),
    (100.0, pa.float64(), pa.decimal128(3, 1)),
    (D("1.01"), pa.decimal128(7, 2), pa.int8()),
    (D(2**63), pa.decimal128(38, 0), pa.int64()),
    (D(2**53 + 1), pa.decimal128(38, 0), pa.float64()),
    (D("1.55"), pa.decimal128(7, 2), pa.decimal128(2, 1)),
    (2, pa.int8(), pa.bool_()),
    ("128", pa.string(), pa.int8()),
    ("16777217", pa.string(), pa.float32()),
    ("1.55", pa.string(), pa.decimal128(2, 1)),
    ("yes", pa.string(), pa.bool_()),
    ("abc", pa.string(), pa.binary(2)),
    (2001, pa.timestamp("ms"), pa.timestamp("s")),
    (MIDNIGHT, pa.timestamp("us"), pa.timestamp("us", "Asia/Tokyo")),
    (MIDNIGHT, pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("us")),
    (106_752, pa.date32(), pa.timestamp("ns")),
    (MORNING, pa.timestamp("us"), pa.time64("us")),
    (2001, pa.time32("ms"), pa.time32("s")),
    (2001, pa.duration("us"), pa.duration("ms")),
    (2**53, pa.duration("s"), pa.duration("us")),
    (1, pa.duration("s"), pa.string()),
]


def stored_as(have: pa.DataType, value: object) -> pa.Array:
    """Make an array of a null and a value, which may be a count of a unit of time."""
    if is_.is_temporal(have) and isinstance(value, int):
        return pa.array([None, value], f"int{have.bit_width}").cast(have)
    return pa.array([None, value], have)


@pytest.mark.parametrize(("value", "have", "target", "result"), KEPT, ids=str)
def test_a_value_that_another_type_holds_is_kept(value, have, target, result):
    found = cast(stored_as(have, value), target)
    assert str(found[1].as_py()) == str(result)


@pytest.mark.parametrize(
    ("value", "have", "target"), REFUSED, ids=lambda value: ascii(value)[:40]
)
def test_a_value_that_another_type_does_not_hold_is_refused_by_row(value, have, target):
    assert row_of(cast(stored_as(have, value), target)) == 1


def test_each_row_of_the_table_of_casts_has_its_edge():
    """No other list than that of the private module has a row for each."""
    kind = exact_cast._kind
    edges = {(kind(have), kind(target)) for _, have, target, *_ in KEPT + REFUSED}
    assert exact_cast.EXACT.keys() - edges == set()


VIEW = pa.string_view()
VIEWS = pa.array([["x"]], pa.list_view(VIEW))
CODED = pl.Series(["x"], dtype=pl.Categorical)
VIEWED = [  # columns that lie in views, and what they are called: what they are sent as
    (pl.DataFrame({"x": ["x"]}), "large_string"),
    (pl.LazyFrame({"x": ["x"]}), "large_string"),
    (pl.DataFrame({"x": CODED}), "category"),
    (pl.DataFrame({"x": [["x"]]}), "large_list<item: large_string>"),
    (pl.DataFrame({"x": [{"y": "x"}]}), "struct<y: large_string>"),
    (pa.table({"x": pa.array(["x"], VIEW)}), "large_string"),
    (pa.table({"x": VIEWS}), "list<item: large_string>"),
    (pd.DataFrame({"x": pd.array(["x"], pd.ArrowDtype(VIEW))}), "large_string"),
]
BYTES = pa.list_(pa.int8())


@pytest.mark.parametrize(("frame", "called"), VIEWED)
@pytest.mark.parametrize("target", [pa.int64(), pa.struct({"z": BYTES})], ids=str)
def test_a_refused_cast_names_a_type_as_it_is_sent_and_as_no_view(
    frame, called, target
):
    told = rf"'x'.*[ (]{called}.* cannot be (cast to|stored exactly as) "
    with pytest.raises(UnsupportedTypeError, match=told) as raised:
        send([frame, frame], dtypes={"x": target})
    assert "_view" not in str(raised.value)


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table])
def test_of_columns_that_are_cast_alike_each_that_cannot_be_is_refused_by_its_row(
    make,
):
    fitting = {f"c{number}": [0, number, 100 + number] for number in range(28)}
    columns = {**fitting, "c28": [0, 28, 128], "c29": [0, 29, 129]}
    sent = send(make(fitting), dtypes=dict.fromkeys(fitting, "int8")).table()
    assert sent.to_pydict() == fitting
    told = r"'c28', row 2: .*\n.*'c29', row 2: "
    with pytest.raises(UnsupportedTypeError, match=told) as refused:
        send(make(columns), dtypes=dict.fromkeys(columns, "int8"))
    assert refused.value.columns == ("c28", "c29")


def reader(columns: dict) -> pa.RecordBatchReader:
    return pa.table(columns).to_reader()


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, reader])
def test_the_row_of_a_value_is_counted_from_the_beginning_of_a_large_frame(make):
    numbers = np.arange(3_000_000) % 100
    numbers[-7] = 300
    with pytest.raises(UnsupportedTypeError, match="'x', row 2999993: "):
        send(make({"x": numbers}), dtypes={"x": "int8"})


LISTS = pa.list_(pa.struct([("a", pa.int8())]))
FLOAT_MAPS = pa.list_(pa.map_(pa.string(), pa.float64()))
FLAG_MAPS = pa.list_(pa.map_(pa.string(), pa.bool_()))
HALF_A_FLAG = [[[("k", 1)]], [[("k", 0), ("l", 0.5)]]]
NESTED = [  # values, their type, another type, and the row that does not fit
    ([[1, 2], None, [3, 400]], pa.list_(pa.int64()), BYTES, 2),
    ([[1, 2], None, [3]], pa.list_(pa.int64()), pa.list_(pa.int8(), 2), 2),
    ([[0.5], [1e300]], pa.list_(pa.float64()), pa.large_list(pa.float32()), 1),
    (HALF_A_FLAG, FLOAT_MAPS, FLAG_MAPS, 1),
    ([[{"a": 1.0}], [], [{"a": 0.5}]], None, LISTS, 2),
    ([1], None, LISTS, 0),
    (["a"], None, BYTES, 0),
    ([{"a": 1}], None, pa.list_(pa.int8(), 1), 0),
    ([[1]], None, pa.struct({"b": pa.int8()}), 0),
    ([[1]], None, pa.map_(pa.int8(), pa.int8()), 0),
    ([{"a": 1}], None, pa.map_(pa.int8(), pa.int8()), 0),
]


def in_chunks(array: pa.Array) -> pa.ChunkedArray:
    """Give each row a chunk of its own."""
    return pa.chunked_array([array.slice(row, 1) for row in range(len(array))])


@pytest.mark.parametrize(("values", "have", "target", "row"), NESTED, ids=str)
def test_values_inside_lists_structs_and_maps_are_kept_or_refused_by_row(
    values, have, target, row
):
    column = in_chunks(pa.array(values, have))
    assert (row_of(cast(column, target)) or 0) == row
    if row:
        made = cast(column.slice(0, row), target)
        assert made.type == target
        assert made.to_pylist() == values[:row]


def test_lists_of_a_fixed_size_become_others_of_another_type():
    vectors = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2))
    target = pa.large_list(pa.dictionary(pa.int32(), pa.int64()))
    made = cast(in_chunks(vectors), target)
    assert made.type == target
    assert made.to_pylist() == vectors.to_pylist()


STRUCT = pa.array([{"a": 1, "b": 300}, None, {"a": 3, "b": None}])
STRUCTS = [
    pa.table({"x": STRUCT}),
    pl.DataFrame({"x": STRUCT}),
    pd.DataFrame({"x": STRUCT.to_pylist()}),
]


@pytest.mark.parametrize("frame", STRUCTS, ids=["Arrow", "Polars", "pandas"])
def test_fields_of_structs_go_by_name(frame):
    swapped = pa.struct([("b", pa.int64()), ("a", pa.int8())])
    made = send(frame, dtypes={"x": swapped}).table()["x"]
    assert made.type == swapped
    assert made.to_pylist() == [{"b": 300, "a": 1}, None, {"b": None, "a": 3}]
    small = pa.struct([("a", pa.int64()), ("b", pa.int8())])
    with pytest.raises(UnsupportedTypeError, match=r"'x', row 0: .*x\.b: .*300"):
        send(frame, dtypes={"x": small})


@pytest.mark.parametrize("fields", [["a"], ["x", "y"], ["a", "c"], ["a", "b", "c"]])
def test_no_field_of_a_struct_is_dropped_or_made_up(fields):
    target = pa.struct([(name, pa.int64()) for name in fields])
    with pytest.raises(UnsupportedTypeError, match=r"'x'.*fields of x are 'a', 'b'"):
        send(pa.table({"x": STRUCT}), dtypes={"x": target})


FRACTIONS = [
    (pl.Series([1.0, 0.5]), "int64"),
    (pd.Series([0.5], dtype="float32"), "int8"),
    (pa.array([[1.0, 0.5]]), BYTES),
    (pl.Series([2.5, None], dtype=pl.Float32), "uint16"),
]


@pytest.mark.parametrize(("column", "target"), FRACTIONS)
def test_a_value_that_is_refused_is_not_said_to_have_been_changed(column, target):
    said = str(cast(column, target))
    assert "cannot be stored exactly as" in said
    assert "was truncated" not in said


DAY = dt.datetime(2024, 1, 1, 1)
CURE = "correct the value or choose another type"
REFUSALS = [  # a value, the type that it is cast to, and the end of the message
    (0.5, "int8", f": 0.5 (double) cannot be stored exactly as int8; {CURE}"),
    (300, "int8", f": 300 (int64) cannot be stored exactly as int8; {CURE}"),
    (5, "time32[s]", ": 5 (int64) cannot be cast to time32[s]; choose another type"),
    ([5], "int8", ": list<item: int64> cannot be cast to int8; choose another type"),
    (DAY, "time64[us]", "would be lost; take the time of day first, with .dt.time"),
    (DAY, "timestamp[us, tz=Europe/Rome]", "values the same; localize it first"),
    ("2024-01-01T01Z", "timestamp[us]", f" (expected no zone offset); {CURE}"),
]


@pytest.mark.parametrize(("value", "target", "end"), REFUSALS, ids=str)
def test_a_refused_cast_shows_row_value_and_types_and_one_cure(value, target, end):
    message = str(cast(pa.array([None, value]), target))
    assert message.startswith("column 'x', row 1: ")
    assert message.endswith(end)


def test_what_lies_under_a_missing_struct_is_no_value():
    mask = pa.array([False, True])
    column = pa.StructArray.from_arrays([pa.array([1, 300])], ["a"], mask=mask)
    assert cast(column, pa.struct({"a": pa.int8()})).to_pylist() == [{"a": 1}, None]


NO_FLAG = pa.table({"x": pa.nulls(1, pa.bool_())})
NO_TEXTS = pa.table({"x": pa.nulls(1, pa.list_(pa.string()))})
NOTHING = {
    "NaN": pd.DataFrame({"x": [np.nan, np.nan]}),
    "NaN as objects": pd.DataFrame({"x": [np.nan, None]}, dtype=object),
    "NaT": pd.DataFrame({"x": [pd.NaT, pd.NaT]}),
    "nulls of Polars": pl.DataFrame({"x": [None, None]}, schema={"x": pl.Int8}),
    "items without a value": [NO_FLAG, NO_TEXTS],
}


@pytest.mark.parametrize("data", NOTHING.values(), ids=NOTHING)
def test_a_column_without_a_value_is_cast_to_every_type(data):
    for target in (*EVERY_TYPE, pa.uuid(), pa.json_()):
        made = send(data, dtypes={"x": target}).table()["x"]
        wanted = send(pa.table({"x": pa.nulls(1, target)})).schema.field("x")
        assert made.to_pylist() == [None, None], target
        assert made.type == wanted.type


FIVE = uuid.UUID(int=5)
FIRST_DAY = MIDNIGHT.date()
ENTRIES = pa.map_(pa.string(), pa.int8())
FITTING = [  # values of several kinds, a type, and what they are there
    ([1.0, 2, 3.0], "int64", [1, 2, 3]),
    ([2**63, 1], "uint64", [2**63, 1]),
    ([2**70], pa.decimal128(38, 0), [2**70]),
    ([FIRST_DAY, MIDNIGHT], "date32", [FIRST_DAY, FIRST_DAY]),
    ([FIVE, "a", b"b", 3, None], str, [str(FIVE), "a", "b", "3", None]),
    ([[("k", 1)], None], ENTRIES, [[("k", 1)], None]),
]
UNFITTING = [  # values of several kinds, a type, and the row that does not fit
    ([1.5, 2], "int64", 0),
    ([1, 2**64], "uint64", 1),
    ([MIDNIGHT, MORNING], "date32", 1),
    ([MIDNIGHT, MORNING.replace(tzinfo=TOKYO)], "timestamp[us]", 1),
    ([5, dt.timedelta(seconds=1.5)], "duration[s]", 1),
    ([0, None, 0.5], "bool", 2),
    ([86_400_000, 5], "date64[ms]", 1),
    ([pd.Timestamp(1), None], "timestamp[us]", 0),
    ([FIVE, b"\xff"], str, 1),
    ([1.0] * 996 + [1.5] + [1.0] * 3, "int64", 996),
    ([1.0] * 999 + [1.5], "int64", 999),
]


@pytest.mark.parametrize(("values", "target", "wanted"), FITTING)
def test_objects_are_cast_each_as_what_it_is(values, target, wanted):
    assert cast(pd.Series(values, dtype=object), target).to_pylist() == wanted


@pytest.mark.parametrize(("values", "target", "row"), UNFITTING)
def test_objects_that_do_not_fit_are_refused_by_row(values, target, row):
    assert row_of(cast(pd.Series(values, dtype=object), target)) == row


def test_lists_of_several_kinds_are_refused_whatever_they_are_cast_to():
    mixed = pd.Series([[FIRST_DAY, MORNING]], dtype=object)
    assert "mixes types" in str(cast(mixed, pa.list_(pa.date32())))
