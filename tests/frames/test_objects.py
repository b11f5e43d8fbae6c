"""Python objects in cells are kept or refused alike at every depth."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import uuid
import warnings
import zoneinfo

import dateutil.tz
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from rt_frames.errors import UnsupportedTypeError
from tests.support.sent import send

UTC = dt.UTC
DAY = dt.date(2020, 1, 1)
MOMENT = dt.datetime(2020, 1, 1, 5)
NANO = pd.Timestamp("2020-01-01 00:00:00.000000001")
TICK = pd.Timedelta(1, "ns")
LONG = dt.timedelta(seconds=5)
ID = uuid.UUID(int=7)
SECONDS = np.timedelta64(5, "s")
AGES = np.timedelta64(10**10, "s")
ENDS = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)]
# NumPy 2.5 warns where one is made; files and pickles of older ones bring them still
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    NAT = np.datetime64("NaT")
    NO_DURATION = np.timedelta64("NaT")


def column_of(values: list) -> pd.Series:
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        array[row] = value
    return pd.Series(array, dtype=object)


def sent(values: list | pd.Categorical | pd.Series, **options) -> pa.ChunkedArray:
    column = column_of(values) if isinstance(values, list) else values
    return send(pd.DataFrame({"x": column}), **options).table()["x"]


def refusal(values: list | pd.Categorical | pd.Series, **options) -> str:
    with pytest.raises(UnsupportedTypeError) as refused:
        sent(values, **options)
    assert refused.value.columns == ("x",)
    return str(refused.value)


PLACES = {
    "in the column": (lambda v: v, ""),
    "in lists": (lambda v: [v], ".item"),
    "in dicts": (lambda v: {"a": v}, ".a"),
    "in arrays of objects": (lambda v: np.array([v, None], dtype=object), ".item"),
    "in lists of dicts": (lambda v: [{"a": v}], ".item.a"),
    "in dicts of lists": (lambda v: {"a": [v]}, ".a.item"),
}


def innermost(arrow: pa.DataType) -> pa.DataType:
    return innermost(arrow.field(0).type) if pa.types.is_nested(arrow) else arrow


def leaf(value: object) -> object:
    if isinstance(value, list):
        return leaf(value[0])
    return leaf(value["a"]) if isinstance(value, dict) else value


PRICES = [decimal.Decimal("1.25"), decimal.Decimal("100.00")]
LAST_DAYS = [end.date() for end in ENDS]
PLAIN = pd.Timestamp(MOMENT)
ONE_DAY = dt.timedelta(1)
TWO_UNITS = [np.datetime64(MOMENT, unit) for unit in ("s", "ms")]
NUMPY_DAY = np.datetime64("2020-01-01")
FLOATS = [1.0, 2.5, 2.0**60]
MISSING = [1, float("nan"), pd.NA, None, pd.NaT]
NANOS = pa.timestamp("ns")
NANO_SPANS = pa.duration("ns")
SPANS = pa.duration("us")
# values, the type that they are sent in, and what is stored if that is not the same
KEPT = {
    "bytes": ([b"a", None], pa.binary()),
    "decimals": (PRICES, pa.decimal128(5, 2)),
    "times": ([dt.time(1, 2, 3), None], pa.time64("us")),
    "moments to the calendar's ends": (ENDS, pa.timestamp("us")),
    "days to the calendar's ends": (LAST_DAYS, pa.date32()),
    "nanoseconds": ([NANO, MOMENT], NANOS, [NANO, PLAIN]),
    "nanoseconds in a later row": ([MOMENT, NANO], NANOS, [PLAIN, NANO]),
    "durations of nanoseconds": ([TICK, ONE_DAY], NANO_SPANS, [TICK, ONE_DAY]),
    "durations of NumPy's units": ([5 * TICK, SECONDS], NANO_SPANS, [5 * TICK, LONG]),
    "moments of two units": (TWO_UNITS, pa.timestamp("ms"), [MOMENT] * 2),
    "moments of NumPy's unit": ([TWO_UNITS[0], NAT], pa.timestamp("s"), [MOMENT, None]),
    "a coarse unit": ([pd.Timedelta(SECONDS), pd.NaT], SPANS, [LONG, None]),
    "beyond nanoseconds": ([pd.Timedelta(AGES), LONG], SPANS, [AGES.item(), LONG]),
    "days of NumPy's": ([NUMPY_DAY, DAY], pa.date32(), [DAY, DAY]),
    "NaT without a unit": ([NAT, MOMENT], pa.timestamp("us"), [None, MOMENT]),
    "NaT of durations": ([NO_DURATION, ONE_DAY], SPANS, [None, ONE_DAY]),
    "whole numbers and floats": ([1, 2.5, 2**60], pa.float64(), FLOATS),
    "numbers of 64 bits": ([2**63, 1], pa.uint64()),
    "small numbers": ([np.int8(1), np.int8(2)], pa.int8()),
    "what pandas calls missing": (MISSING, pa.int64(), [1, *[None] * 4]),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KEPT)
def test_what_is_kept_is_kept_at_every_depth(kind, place):
    values, arrow, *wanted = KEPT[kind]
    column = sent([PLACES[place][0](value) for value in values])
    assert innermost(column.type) == arrow
    assert [leaf(value) for value in column.to_pylist()] == (wanted or [values])[0]


IN_UTC = MOMENT.replace(tzinfo=UTC)
IN_TOKYO = pd.Timestamp(MOMENT, tz="Asia/Tokyo")
LATE_YEAR = pd.Timestamp(np.datetime64(10**13, "s"))
LATE_DAY = np.datetime64(2**40, "D")
ENDLESS_NUMBER = decimal.Decimal("-Infinity")
LONGEST = pd.Timedelta(np.timedelta64(2**62, "ms"))
NO_ZONE = "datetime without a time zone in row 1"
REFUSED = {  # values, and what the refusal tells
    "a date and a moment": ([DAY, MOMENT], f"date|{NO_ZONE}"),
    "with and without a zone": ([MOMENT, IN_UTC], "row 1|without|with a time zone"),
    "moments of two zones": ([IN_UTC, IN_TOKYO], "row 1|Asia/Tokyo"),
    "text and bytes": (["s", b"x"], "str|bytes in row 1"),
    "text and a list behind a null": (["text", None, ["y"]], "str|row 2"),
    "text and a date behind a null": (["text", None, DAY], "str|row 2"),
    "a number and a duration": ([7, np.timedelta64(5, "ns")], "int|timedelta in row 1"),
    "bool and number": ([True, 1], "bool|int in row 1"),
    "numbers that no float holds": ([0.5, 2**53 + 1], "row 1|9007199254740993"),
    "numbers over 64 bits": ([-1, 2**63], "row 1|64 bits"),
    "times with a zone": ([None, dt.time(1, tzinfo=UTC)], "row 1|zone"),
    "a signalling NaN": ([None, decimal.Decimal("sNaN")], "row 1|signalling NaN"),
    "a year that Python does not know": ([None, LATE_YEAR], "row 1|9999"),
    "a unit that Arrow does not know": ([np.timedelta64(1, "h")], "timedelta64[h]"),
    "complex numbers": ([1j], "complex"),
    "an object": ([object()], "object"),
    "a day beyond 32 bits": ([NUMPY_DAY, LATE_DAY], "row 1"),
    "a number beyond all floats": ([0.5, 10**400], "row 1|float"),
    "an infinite number": ([decimal.Decimal(1), ENDLESS_NUMBER], "row 1|infinite"),
    "a duration beyond 64 bits": ([None, LONGEST], "row 1"),
    "lone surrogates": (["a", "\ud800"], "row 1|surrogates"),
    "keys that are no text": ([{"k": 1}, {1: 2}], "row 1|key 1"),
    "keys with control characters": ([{"k\n": 1}], "row 0|key 'k"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_is_refused_at_every_depth_with_its_place_and_row(kind, place):
    values, facts = REFUSED[kind]
    wrap, path = PLACES[place]
    said = refusal([wrap(value) for value in values])
    assert [fact for fact in facts.split("|") if fact not in said] == []
    assert "cannot be converted to" in said or f"'x{path}" in said


def as_matrix(row: list, dtype: str) -> np.ndarray:
    return np.array([row], dtype).view(np.matrix)


ONE_SECOND = np.array([1], "m8[s]")
ONE_MS = np.array([1, "NaT"], "m8[ms]")
TWO_DAYS = ["1970-01-02", "NaT"]
AT_SECONDS = np.array([1], "M8[s]")
AT_NANOS = np.array([1], "M8[ns]")
LARGE = np.ma.array([1, 2**64 - 1], mask=[0, 1], dtype="u8")
OF_MOMENTS = [np.array([[1, "NaT"]], "M8[s]"), np.array([[2]], "M8[ms]")]
OF_TWO_KINDS = [np.array([[1]]), np.array([[1.5], [np.nan]])]
OF_THREE = np.arange(4, dtype=">i2").reshape(2, 1, 2)
MATRICES = [as_matrix([1, 2], "i8"), as_matrix([None], "O")]
OF_SPANS = [as_matrix([1, "NaT"], "m8[ms]"), [[LONG]]]
OF_DAYS = [as_matrix(TWO_DAYS, "M8[D]"), [[DAY]]]
MASKED_ONE = [[1, None]]
ARRAYS = {
    "durations of two units": ([ONE_SECOND, ONE_MS], [[1000], [1, None]]),
    "durations and Python's": ([ONE_SECOND, [LONG]], [[10**6], [5 * 10**6]]),
    "moments of two units": ([AT_SECONDS, AT_NANOS], [[10**9], [1]]),
    "moments beyond Python's years": ([np.array([10**13], "M8[s]")], [[10**13]]),
    "days": ([np.array(TWO_DAYS, "M8[D]")], [[1, None]]),
    "masked numbers": ([np.ma.array([1, 2], mask=[0, 1]), [3]], [[1, None], [3]]),
    "masked numbers too large": ([LARGE, [-3]], [[1, None], [-3]]),
    "masked moments": ([np.ma.array([1, 2], mask=[0, 1], dtype="M8[s]")], MASKED_ONE),
    "masked objects": ([np.ma.array([1, "a"], mask=[0, 1], dtype=object)], MASKED_ONE),
    "big-endian numbers": ([np.array([1, 2], ">i4")], [[1, 2]]),
    "of two kinds": ([np.array([1]), np.array([1.5]), [2]], [[1.0], [1.5], [2.0]]),
    "of two widths": ([np.array([1], "i1"), np.array([300], "u2")], [[1], [300]]),
    "an empty one beside text": ([np.array([]), ["a"]], [[], ["a"]]),
    "no moments": ([np.array([], "M8[s]"), np.array([1.5])], [[], [1.5]]),
    "two dimensions": ([np.arange(4).reshape(2, 2)], [[[0, 1], [2, 3]]]),
    "moments in two": (OF_MOMENTS, [[[1000, None]], [[2]]]),
    "two dimensions of two kinds": (OF_TWO_KINDS, [[[1.0]], [[1.5], [None]]]),
    "masked in two": ([np.ma.array([[1, 2]], mask=[[0, 1]])], [MASKED_ONE]),
    "big-endian in three": ([OF_THREE], [[[[0, 1]], [[2, 3]]]]),
    "objects in two": ([np.array([[1, None], [2, 3]], object)], [[[1, None], [2, 3]]]),
    "matrices": (MATRICES, [[[1, 2]], [[None]]]),
    "matrices of moments": ([as_matrix(TWO_DAYS, "M8[s]")], [[[86_400, None]]]),
    "matrices of durations": (OF_SPANS, [[[1000, None]], [[5 * 10**6]]]),
    "matrices of days": (OF_DAYS, [[[1, None]], [[18262]]]),
    "text": ([np.array(["a", "b"]), np.array(["ccc"])], [["a", "b"], ["ccc"]]),
    "sets": ([{1}, frozenset([2]), set()], [[1], [2], []]),
    "sets of text": ([{"a"}, {None}, set()], [["a"], [None], []]),
    "frozen sets": ([frozenset([1]), frozenset([2.5])], [[1.0], [2.5]]),
}


def counted(value: object) -> object:
    """Give what is stored, moments as the numbers that they are."""
    if isinstance(value, pa.ListScalar):
        return [counted(item) for item in value.values]
    if not value.is_valid:
        return None
    return value.value if hasattr(value, "value") else value.as_py()


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_in_cells_keep_their_values_units_and_masks(kind):
    values, wanted = ARRAYS[kind]
    assert [counted(value) for value in sent(values)] == wanted


@pytest.mark.parametrize("value", [NANO, TICK], ids=["moment", "duration"])
def test_categories_that_are_objects_keep_their_nanoseconds(value):
    column = sent(
        pd.Categorical.from_codes([0, -1], categories=pd.Index([value], dtype=object))
    )
    assert column.to_pylist() == [value, None]


def test_looking_for_a_field_puts_none_into_a_dict_that_makes_its_own():
    values = [collections.defaultdict(int, a=1), collections.defaultdict(int, b=2)]
    assert sent(values).to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": 2}]
    assert values == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("value", ["text", DAY, MOMENT, b"x", 1, True])
def test_what_pandas_calls_missing_is_null_before_and_after_the_first_value(value):
    for missing in (None, np.nan, pd.NaT, pd.NA, NAT):
        found = sent([missing, value, missing, value]).to_pylist()
        assert found == [None, value, None, value], missing


class Hourly(dt.tzinfo):
    def utcoffset(self, _):
        return dt.timedelta(hours=1)

    def tzname(self, _):
        return "hourly"


ENDLESS: list = []
ENDLESS.append(ENDLESS)
ODD_TEXT = pd.Index(["a", "\ud800"], dtype=object)


def categories(*values: object) -> pd.Categorical:
    return pd.Categorical.from_codes(
        range(len(values)), pd.Index(column_of([*values]), tupleize_cols=False)
    )


NO_MOMENT = np.array(["NaT"], "M8[ms]")
HALF = np.array([1.5], ">f8")
MASKED = np.ma.array([1, 2], mask=[1, 0])
LINE = np.array([1.0])
SQUARE = np.array([[1.0, 2.0]])
BAD_CATEGORIES = pd.Categorical.from_codes([0, 1], ODD_TEXT)
BAD_STRINGS = pd.Series(ODD_TEXT).astype("string[python]")
UNEVEN = dt.timezone(dt.timedelta(hours=5, seconds=30))
NAMELESS = dateutil.tz.tzoffset("X", 3600)
SUMMER = dateutil.tz.tzstr("EST5EDT")
UNEVEN_CATEGORIES = pd.Categorical([pd.Timestamp(MOMENT, tz=UNEVEN)])
ODD = {  # columns, and what the refusal tells
    "moments that are missing and floats": ([NO_MOMENT, HALF], "float in row 1"),
    "moments that are missing and a list": ([NO_MOMENT, [5]], "int in row 1"),
    "masked numbers and text": ([MASKED, ["a"]], "str in row 1"),
    "arrays of one dimension and two": ([LINE, SQUARE, LINE], ""),
    "a list that holds itself": ([ENDLESS], "32 levels"),
    "categories with and without a zone": (categories(MOMENT, IN_UTC), "category"),
    "categories of days and moments": (categories(DAY, MOMENT), "category"),
    "categories of text and bytes": (categories("a", b"b"), "category"),
    "categories of tuples": (categories((1,), (2,)), "category"),
    "categories that no UTF-8 can carry": (BAD_CATEGORIES, "row 1|surrogates"),
    "strings that no UTF-8 can carry": (BAD_STRINGS, "row 1|surrogates"),
    "a zone with seconds": ([MOMENT.replace(tzinfo=UNEVEN)], "astimezone"),
    "a zone without a name": ([MOMENT.replace(tzinfo=NAMELESS)], "astimezone"),
    "one with summer, to Arrow without": ([MOMENT.replace(tzinfo=SUMMER)], "zone"),
    "one's own": ([MOMENT.replace(tzinfo=Hourly())], "astimezone(datetime.UTC)"),
    "categories in a zone with seconds": (UNEVEN_CATEGORIES, "zone"),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_columns_are_refused_with_what_is_wrong(kind):
    column, facts = ODD[kind]
    said = refusal(column)
    assert [fact for fact in facts.split("|") if fact not in said] == []


@pytest.mark.parametrize(
    "zone",
    [dt.timezone(dt.timedelta(hours=2)), zoneinfo.ZoneInfo("Europe/Berlin")],
    ids=str,
)
def test_a_zone_is_named_as_arrow_knows_it(zone):
    found = sent([MOMENT.replace(tzinfo=zone)]).type
    assert found == pa.timestamp("us", str(zone).removeprefix("UTC"))


def test_uuids_stay_what_they_are_and_their_text_is_their_text():
    assert sent([ID, None]).type == pa.uuid()
    assert sent([ID, None]).to_pylist() == [ID, None]
    assert sent([ID, None], dtypes={"x": "str"}).to_pylist() == [str(ID), None]


PAIRS = pa.map_(pa.string(), pa.list_(pa.duration("ms")))
NO_MAPS = [
    [None],
    [("a", None), pd.NA],
    [decimal.Decimal("sNaN")],
    {None},
    [["a", None]],
    [("a",)],
    [("a", None, 1)],
    np.timedelta64(5, "ms"),
    "a",
    5,
    np.array([None]),
]


@pytest.mark.parametrize("odd", NO_MAPS, ids=repr)
def test_what_is_no_map_is_refused_by_row_where_arrow_would_end_the_process(odd):
    pairs = [("a", [SECONDS]), ("b", None)]
    assert "row 1" in refusal([pairs, odd], dtypes={"x": PAIRS})
    found = sent([pairs, None, []], dtypes={"x": PAIRS}).to_pylist()
    assert found == [[("a", [LONG]), ("b", None)], None, []]
