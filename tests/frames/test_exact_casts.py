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
from hypothesis import assume, given
from hypothesis import strategies as st

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
SMALL = [0, 1, -1, 127, 128, 255, 256, 2049, 2**24 + 1, 2**31]
LARGE = [2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63]
FLOATS = [0.0, -0.0, 0.5, 0.1, 1.0, 300.0, 2049.0, 65520.0, 16777217.0]
FAR_FLOATS = [2.0**53 + 2, 2.0**63, 2.0**64, 1e300, 1e-320]
CENTS = [D("1.25"), D("0.1"), D("-7.00"), D("0.30"), D("99999.99")]
WHOLE = [D(1), D(300), D(2**60), D(2**60 + 1), D("1e37")]
DAYS = [dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
MOMENTS = [MIDNIGHT, MORNING, dt.datetime.min, dt.datetime.max]
TIMES = [dt.time(5), dt.time(5, 0, 0, 1), dt.time(0)]
SPANS = [dt.timedelta(seconds=1.5), dt.timedelta(microseconds=1), dt.timedelta(200_000)]
TEXTS = [
    "",
    "a",
    "1",
    "-7",
    "1.5",
    "0.1",
    "300",
    "1e3",
    "0xFF",
    "-0x1",
    "1e400",
    "1e-400",
    "1e-30",
    "16777217",
    "9007199254740993",
    "9007199254740993.0",
    "9007199254740993.5",
    "9" * 38,
    "9" * 77,
    "true",
    "nan",
    "-inf",
    "x" * 16,
    "05:00",
    "05:00:00.5",
    "24:00",
    "10",
    "05:00Z",
    "2020-01-01",
    "2020-01-01 05:00:00",
    "2020-01-01T05:00:00.5",
    "2020-01-01 05:00:00+09:00",
    "1500-01-01",
    str(uuid.UUID(int=5)),
]
numbers = st.sampled_from(SMALL + LARGE) | st.integers(-(2**63), 2**64 - 1)
whole_floats = numbers.map(float)
any_floats = st.floats() | st.floats(width=16)
floats = st.sampled_from(FLOATS + FAR_FLOATS) | any_floats | whole_floats
any_decimals = st.decimals(-(10**9), 10**9, places=3)
whole_decimals = st.integers(-(10**37), 10**37).map(D)
decimals = st.sampled_from(CENTS + WHOLE) | any_decimals | whole_decimals
days = st.sampled_from(DAYS) | st.dates()
moments = st.sampled_from(MOMENTS) | st.datetimes()
aware = moments.map(lambda at: at.replace(tzinfo=UTC))
times = st.sampled_from(TIMES) | st.times()
spans = st.sampled_from(SPANS) | st.timedeltas()
blobs = st.binary() | st.binary(min_size=16, max_size=16)
identifiers = st.uuids().map(lambda given: given.bytes)
shown = (numbers | floats | decimals | moments).map(str)
texts = st.sampled_from(TEXTS) | st.text() | shown
VALUES = [  # types, and values of which each type takes those that it holds exactly
    (pa.int8(), numbers),
    (pa.uint8(), numbers),
    (pa.int32(), numbers),
    (pa.int64(), numbers),
    (pa.uint64(), numbers),
    (pa.dictionary(pa.int8(), pa.int64()), numbers),
    (pa.float16(), floats),
    (pa.float32(), floats),
    (pa.float64(), floats),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(7, 2), decimals),
    (pa.decimal128(38, 10), decimals),
    (pa.decimal128(38, 0), decimals),
    (pa.decimal256(50, 30), decimals),
    (pa.decimal64(9, 2), decimals),
    (pa.string(), texts),
    (pa.large_string(), texts),
    (pa.string_view(), texts),
    (pa.dictionary(pa.int32(), pa.large_string()), texts),
    (pa.binary(), blobs),
    (pa.binary(16), blobs),
    (pa.large_binary(), blobs),
    (pa.binary_view(), blobs),
    (pa.uuid(), identifiers),
    (pa.date32(), days),
    (pa.date64(), days),
    (pa.timestamp("s"), moments),
    (pa.timestamp("us"), moments),
    (pa.timestamp("ns"), moments),
    (pa.timestamp("us", "UTC"), aware),
    (pa.timestamp("ns", "Asia/Tokyo"), aware),
    (pa.time32("s"), times),
    (pa.time64("us"), times),
    (pa.time64("ns"), times),
    (pa.duration("s"), spans),
    (pa.duration("us"), spans),
    (pa.duration("ns"), spans),
]
FLOATS_OF = {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): float}
cells = st.sampled_from(VALUES).flatmap(lambda row: st.tuples(st.just(row[0]), row[1]))
targets = st.sampled_from([arrow for arrow, _ in VALUES])


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


def behind_a_null(arrow: pa.DataType, value: object) -> pa.Array | None:
    """Make an array of a null and a value, if the type holds that exactly."""
    if is_.is_dictionary(arrow):
        flat = behind_a_null(arrow.value_type, value)
        return flat and flat.dictionary_encode().cast(arrow)
    try:
        array = pa.array([None, value], arrow)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None
    kept = array[1].as_py()
    if is_.is_floating(arrow) and not np.isnan(value) and float(kept) != value:
        return None
    if is_.is_date(arrow) and kept not in (value, getattr(value, "date", int)()):
        return None
    if is_.is_temporal(arrow) and not is_.is_date(arrow) and kept != value:
        return None
    return array


@given(cells, targets)
def test_a_value_keeps_its_meaning_in_any_other_type_or_is_refused_by_row(cell, target):
    array = behind_a_null(*cell)
    assume(array is not None)
    found = cast(array, target)
    if isinstance(found, pa.ChunkedArray):
        assert found[0].as_py() is None
        assert means_the_same(array[1], found[1]), f"{array} became {found}"
    else:
        assert array.type != target
        # no row is named where the type takes not even the null
        null = cast(array.slice(0, 1), target)
        assert row_of(found) == 1 or isinstance(null, UnsupportedTypeError)


def means_the_same(before: pa.Scalar, after: pa.Scalar) -> bool:
    """Return whether the other type has the value, its nearest float or its text."""
    if is_.is_dictionary(before.type):
        return means_the_same(before.value, after)
    if is_.is_dictionary(after.type):
        return means_the_same(before, after.value)
    timed = is_.is_temporal(before.type), is_.is_temporal(after.type)
    # a number of days, seconds, …, which may be a moment that Python does not have
    if any(timed) and (is_.is_integer(before.type) or is_.is_integer(after.type)):
        return count(before) == count(after)
    one = plain(before)
    other = plain(after)
    if isinstance(one, str) and not isinstance(other, str):
        return written(one, after)
    if isinstance(other, str) and not isinstance(one, str):
        return written(other, before) or read_back(other, before)
    if all(timed):
        zones = {getattr(before.type, "tz", None), getattr(after.type, "tz", None)}
        is_same = nanoseconds(before) == nanoseconds(after)
        return is_same and zones != {None, "Asia/Tokyo"}
    both_nan = one != one and other != other  # noqa: PLR0124
    return one == other or both_nan or rounded(before, after)


def plain(scalar: pa.Scalar) -> object:
    """Give a value as a type of Python that can be compared."""
    value = scalar.as_py()
    if isinstance(value, np.floating):
        return float(value)
    return value.bytes if isinstance(value, uuid.UUID) else value


def rounded(before: pa.Scalar, after: pa.Scalar) -> bool:
    """Tell whether a float is a decimal by its digits, or a fraction was rounded."""
    if is_.is_decimal(before.type):
        return has_digits(after, before)
    if is_.is_decimal(after.type):
        return has_digits(before, after)
    if not (is_.is_floating(before.type) and is_.is_floating(after.type)):
        return False
    one = before.as_py()
    other = after.as_py()
    counted = float(one).is_integer() and abs(one) <= 2**53
    return not counted and np.isfinite(other) and FLOATS_OF[after.type](one) == other


def has_digits(number: pa.Scalar, exact: pa.Scalar) -> bool:
    if number.type not in FLOATS_OF:
        return False
    return D(str(FLOATS_OF[number.type](number.as_py()))) == exact.as_py()


def count(scalar: pa.Scalar) -> int:
    if not is_.is_temporal(scalar.type):
        return scalar.as_py()
    return pa.array([scalar]).cast(f"int{scalar.type.bit_width}")[0].as_py()


NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1, "day": 86_400 * 10**9}


def nanoseconds(scalar: pa.Scalar) -> tuple[str, int]:
    """Return the kind of a moment, time or span, and its nanoseconds."""
    arrow = scalar.type
    kind = "moment"
    if is_.is_duration(arrow):
        kind = "span"
    if is_.is_time(arrow):
        kind = "time"
    unit = "day" if is_.is_date32(arrow) else getattr(arrow, "unit", "ms")
    return kind, count(scalar) * NANOSECONDS[unit]


def written(text: str, scalar: pa.Scalar) -> bool:
    """Tell whether a text is one way to write a value."""
    value = scalar.as_py()
    arrow = scalar.type
    if isinstance(value, bool):
        return text.lower() in (str(value).lower(), str(int(value)))
    if is_.is_floating(arrow):
        if re.fullmatch(r"[+-]?[0-9]+(\.0*)?", text):
            return D(text) == D(float(value))
        return str(float(FLOATS_OF[arrow](text))) == str(float(value))
    if isinstance(value, int | D):
        return D(text) == value
    if isinstance(value, bytes):
        return text.encode() == value
    if is_.is_time(arrow):
        return dt.time.fromisoformat(text) == value
    if is_.is_temporal(arrow):
        return microseconds(text) * 1000 == nanoseconds(scalar)[1]
    return isinstance(value, uuid.UUID) and text == str(value)


def read_back(text: str, scalar: pa.Scalar) -> bool:
    """Tell whether a text has the fewest digits that the float is read from."""
    return scalar.type in FLOATS_OF and FLOATS_OF[scalar.type](text) == scalar.as_py()


def microseconds(text: str) -> int:
    """Read a moment as microseconds since 1970, in UTC."""
    if "+" in text:
        aware = dt.datetime.fromisoformat(text)
        moment = np.datetime64(aware.astimezone(UTC).replace(tzinfo=None), "us")
    else:
        moment = np.datetime64(text[:26].rstrip("Z"), "us")
    return int(moment.astype(int))


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
