"""Python objects in cells: at every depth what is kept or refused in a column is kept or refused alike."""

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
DAY, MOMENT = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)
NANO = pd.Timestamp("2020-01-01 00:00:00.000000001")
TICK = pd.Timedelta(1, "ns")
LONG = dt.timedelta(seconds=5)
ID = uuid.UUID(int=7)
with warnings.catch_warnings():  # NumPy 2.5 warns where one is made; files and pickles of older ones bring them still
    warnings.simplefilter("ignore", DeprecationWarning)
    NAT, NO_DURATION = np.datetime64("NaT"), np.timedelta64("NaT")


def column_of(values: list) -> pd.Series:
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        array[row] = value
    return pd.Series(array, dtype=object)


def sent(values: list | pd.Categorical, **options) -> pa.ChunkedArray:
    source = send(pd.DataFrame({"x": values if isinstance(values, pd.Categorical) else column_of(values)}), **options)
    table = pa.Table.from_batches(source.batches(), source.schema)
    table.validate(full=True)
    return table["x"]


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


KEPT = {
    "nanoseconds": ([NANO, MOMENT], pa.timestamp("ns"), [NANO, pd.Timestamp(MOMENT)]),
    "nanoseconds in a later row": ([MOMENT, NANO], pa.timestamp("ns"), [pd.Timestamp(MOMENT), NANO]),
    "durations of nanoseconds": ([TICK, dt.timedelta(1)], pa.duration("ns"), [TICK, pd.Timedelta(1, "D")]),
    "durations of NumPy's units": (
        [np.timedelta64(5, "ns"), np.timedelta64(5, "s")],
        pa.duration("ns"),
        [pd.Timedelta(5, "ns"), pd.Timedelta(5, "s")],
    ),
    "moments of NumPy's units": (
        [np.datetime64("2020-01-01", "s"), np.datetime64("2020-01-01", "ms")],
        pa.timestamp("ms"),
        [dt.datetime(2020, 1, 1)] * 2,
    ),
    "moments of NumPy's unit": ([np.datetime64(MOMENT, "s"), NAT, None], pa.timestamp("s"), [MOMENT, None, None]),
    "durations of a coarse unit": ([pd.Timedelta(np.timedelta64(5, "s")), pd.NaT], pa.duration("us"), [LONG, None]),
    "days of NumPy's": ([np.datetime64("2020-01-01"), DAY], pa.date32(), [DAY, DAY]),
    "NaT without a unit": ([NAT, MOMENT], pa.timestamp("us"), [None, MOMENT]),
    "NaT of durations": ([NO_DURATION, dt.timedelta(1)], pa.duration("us"), [None, dt.timedelta(1)]),
    "whole numbers and floats": ([1, 2.5, 2**60], pa.float64(), [1.0, 2.5, 2.0**60]),
    "numbers of 64 bits": ([2**63, 1], pa.uint64(), [2**63, 1]),
    "small numbers": ([np.int8(1), np.int8(2)], pa.int8(), [1, 2]),
    "what pandas calls missing": ([1, float("nan"), pd.NA, None, pd.NaT], pa.int64(), [1, None, None, None, None]),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KEPT)
def test_what_is_kept_is_kept_at_every_depth(kind, place):
    values, arrow, wanted = KEPT[kind]
    column = sent([PLACES[place][0](value) for value in values])
    assert innermost(column.type) == arrow
    assert [leaf(value) for value in column.to_pylist()] == wanted


REFUSED = {
    "a date and a moment": ([DAY, MOMENT], "mixes kinds.*date, row 1 is datetime"),
    "a moment with and one without a zone": ([MOMENT, MOMENT.replace(tzinfo=UTC)], "without.*row 1 is.*with a time"),
    "moments of two zones": ([MOMENT.replace(tzinfo=UTC), pd.Timestamp(MOMENT, tz="Asia/Tokyo")], "row 1.*Asia/Tokyo"),
    "text and bytes": (["s", b"x"], "mixes kinds.*str, row 1 is bytes"),
    "a number and a duration": ([7, np.timedelta64(5, "ns")], "mixes kinds.*int, row 1 is timedelta"),
    "bool and number": ([True, 1], "mixes kinds.*bool, row 1 is int"),
    "numbers that no float holds": ([0.5, 2**53 + 1], r'row 1.*9007199254740993.*map\(str, na_action="ignore"\)'),
    "numbers over 64 bits": ([-1, 2**63], "row 1.*64 bits"),
    "times with a zone": ([None, dt.time(1, tzinfo=UTC)], "row 1.*time of day with a zone"),
    "a signalling NaN": ([None, decimal.Decimal("sNaN")], "row 1.*signalling NaN"),
    "a year that Python does not know": ([None, pd.Timestamp(np.datetime64(10**13, "s"))], "row 1.*years 1 to 9999"),
    "a unit that Arrow does not know": ([np.timedelta64(1, "h")], r"timedelta64\[h\]"),
    "complex numbers": ([1j], "complex"),
    "a day beyond 32 bits": ([np.datetime64("2020-01-01"), np.datetime64(2**40, "D")], "row 1.*(large|out of|convert)"),
    "a number beyond all floats": ([0.5, 10**400], "row 1.*no float holds exactly"),
    "an infinite number": ([decimal.Decimal(1), decimal.Decimal("-Infinity")], "row 1.*is infinite"),
    "a duration beyond 64 bits": (
        [None, pd.Timedelta(np.timedelta64(2**62, "ms"))],
        "row 1.*(does not fit|[Oo]verflow)",
    ),
    "lone surrogates": (["a", "\ud800"], "row 1.*surrogates"),
    "keys that are no text": ([{"k": 1}, {1: 2}], "row 1.*key 1"),
    "keys with control characters": ([{"k\n": 1}], "row 0.*key 'k.n'"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_is_refused_at_every_depth_with_its_place_and_row(kind, place):
    values, message = REFUSED[kind]
    wrap, path = PLACES[place]
    with pytest.raises(UnsupportedTypeError, match=f"(?s)'x'.*{message}") as refused:
        sent([wrap(value) for value in values])
    assert "cannot be converted to" in str(refused.value) or not path or f"'x{path}" in str(refused.value)


ARRAYS = {
    "durations of two units": ([np.array([1], "m8[s]"), np.array([1, "NaT"], "m8[ms]")], [[1000], [1, None]]),
    "durations and Python's": ([np.array([1], "m8[s]"), [dt.timedelta(seconds=1)]], [[10**6], [10**6]]),
    "moments of two units": ([np.array([1], "M8[s]"), np.array([1], "M8[ns]")], [[10**9], [1]]),
    "moments beyond Python's years": ([np.array([10**13], "M8[s]")], [[10**13]]),
    "days": ([np.array(["1970-01-02", "NaT"], "M8[D]")], [[1, None]]),
    "masked numbers": ([np.ma.array([1, 2], mask=[0, 1]), [3]], [[1, None], [3]]),
    "masked numbers too large": ([np.ma.array([1, 2**64 - 1], mask=[0, 1], dtype="u8"), [-3]], [[1, None], [-3]]),
    "masked moments": ([np.ma.array([1, 2], mask=[0, 1], dtype="M8[s]")], [[1, None]]),
    "masked objects": ([np.ma.array([1, "a"], mask=[0, 1], dtype=object)], [[1, None]]),
    "big-endian numbers": ([np.array([1, 2], ">i4")], [[1, 2]]),
    "numbers of two kinds": ([np.array([1]), np.array([1.5]), [2]], [[1.0], [1.5], [2.0]]),
    "numbers of two widths": ([np.array([1], "i1"), np.array([300], "u2")], [[1], [300]]),
    "an empty one beside text": ([np.array([]), ["a"]], [[], ["a"]]),
    "an empty one of moments beside numbers": ([np.array([], "M8[s]"), np.array([1.5])], [[], [1.5]]),
    "two dimensions": ([np.arange(4).reshape(2, 2)], [[[0, 1], [2, 3]]]),
    "moments of two dimensions": (
        [np.array([[1, "NaT"]], "M8[s]"), np.array([["NaT"]], "M8[ms]")],
        [[[1000, None]], [[None]]],
    ),
    "two dimensions of two kinds": ([np.array([[1]]), np.array([[1.5], [np.nan]])], [[[1.0]], [[1.5], [None]]]),
    "masked numbers of two dimensions": ([np.ma.array([[1, 2]], mask=[[0, 1]])], [[[1, None]]]),
    "big-endian numbers of three dimensions": ([np.arange(4, dtype=">i2").reshape(2, 1, 2)], [[[[0, 1]], [[2, 3]]]]),
    "objects of two dimensions": ([np.array([[1, None], [2, 3]], object)], [[[1, None], [2, 3]]]),
    "matrices": ([np.array([[1, 2]]).view(np.matrix), np.array([[None]]).view(np.matrix)], [[[1, 2]], [[None]]]),
    "text": ([np.array(["a", "b"]), np.array(["ccc"])], [["a", "b"], ["ccc"]]),
    "sets": ([{1}, frozenset([2]), set()], [[1], [2], []]),
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


def test_arrays_of_two_kinds_are_refused_though_all_of_one_is_missing():
    with pytest.raises(UnsupportedTypeError, match=r"'x' mixes kinds at 'x.item'.*row 1 is float"):
        sent([np.array(["NaT"], "M8[ms]"), np.array([1.5], ">f8")])


def test_arrays_and_values_of_two_kinds_are_told_by_row_though_one_is_missing_or_masked():
    with pytest.raises(UnsupportedTypeError, match=r"first value is datetime.*, row 1 is int \(5\)"):
        sent([np.array(["NaT"], "M8[ms]"), [5]])
    with pytest.raises(UnsupportedTypeError, match=r"first value is int, row 1 is str \('a'\)"):
        sent([np.ma.array([1, 2], mask=[1, 0]), ["a"]])


def test_objects_that_hold_themselves_are_refused_by_column():
    endless: list = []
    endless.append(endless)
    with pytest.raises(UnsupportedTypeError, match=r"'x' is nested over 60 levels"):
        sent([endless])


@pytest.mark.parametrize(
    ("value", "arrow"), [(NANO, pa.timestamp("ns")), (TICK, pa.duration("ns"))], ids=["moment", "duration"]
)
def test_categories_that_are_objects_keep_their_nanoseconds(value, arrow):
    column = sent(pd.Categorical.from_codes([0, -1], categories=pd.Index([value], dtype=object)))
    assert (column.type, column.to_pylist()) == (arrow, [value, None])


@pytest.mark.parametrize(
    "values", [[MOMENT, MOMENT.replace(tzinfo=UTC)], [DAY, MOMENT], ["a", b"b"], [[1], [2]]], ids=repr
)
def test_categories_of_several_kinds_are_refused_by_column(values):
    index = pd.Index(column_of([tuple(v) if isinstance(v, list) else v for v in values]), tupleize_cols=False)
    with pytest.raises(UnsupportedTypeError, match="'x': a category of"):
        sent(pd.Categorical.from_codes([0, 1], categories=index))


ODD_TEXT = pd.Index(["a", "\ud800"], dtype=object)


@pytest.mark.parametrize(
    "column",
    [pd.Series(ODD_TEXT), pd.Series(ODD_TEXT).astype("string[python]"), pd.Categorical.from_codes([0, 1], ODD_TEXT)],
    ids=["objects", "strings", "categories"],
)
def test_text_that_no_utf8_can_carry_is_refused_by_column_and_row(column):
    with pytest.raises(UnsupportedTypeError, match=r"'x.*, row 1: .*surrogates"):
        send(pd.DataFrame({"x": column}))


def test_uuids_stay_what_they_are_and_their_text_is_their_text():
    assert sent([ID, None]).type == pa.uuid()
    assert sent([ID, None]).to_pylist() == [ID, None]
    assert sent([ID, None], dtypes={"x": "str"}).to_pylist() == [str(ID), None]


@pytest.mark.parametrize("values", [["a", None], [DAY] * 9, [{"k": 1}], [np.array([1.5])], [decimal.Decimal("1.50")]])
def test_objects_are_converted_once_to_be_tried_out_and_to_be_sent(values):
    source = send(pd.DataFrame({"x": column_of(values)}))
    first, again = (next(iter(source.batches())).column(0) for _ in range(2))
    addresses = [[buffer and buffer.address for buffer in array.buffers()] for array in (first, again)]
    assert addresses[0] == addresses[1]


def test_looking_for_a_field_puts_none_into_a_dict_that_makes_its_own():
    values = [collections.defaultdict(int, a=1), collections.defaultdict(int, b=2)]
    assert sent(values).to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": 2}]
    assert values == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("odd", "wanted"),
    [
        (np.ma.MaskedArray([3.0, 4.0], [True, False]), [None, 4.0]),
        (np.array([3, 4], "int16"), [3.0, 4.0]),
        (np.array([np.nan, 4]), [None, 4.0]),
        (np.array([3.0, None], object), [3.0, None]),
        ([3.0, None], [3.0, None]),
        (np.array([]), []),
        (None, None),
    ],
)
def test_one_array_unlike_the_others_is_seen_wherever_it_stands(odd, wanted):
    one = np.array([1.0, 2.0])
    for row in range(3):
        values = [one, one]
        values.insert(row, odd)
        assert sent(values).to_pylist()[row] == wanted


def test_an_array_of_two_dimensions_among_others_is_refused_by_row():
    with pytest.raises(UnsupportedTypeError, match="'x'"):
        sent([np.array([1.0]), np.array([[1.0, 2.0]]), np.array([1.0])])


@pytest.mark.parametrize("missing", [None, np.nan, pd.NaT, pd.NA, NAT])
@pytest.mark.parametrize("value", ["text", DAY, MOMENT, b"x", 1, True])
def test_what_pandas_calls_missing_is_null_before_and_after_the_first_value(missing, value):
    assert sent([missing, value, missing, value]).to_pylist() == [None, value, None, value]


@pytest.mark.parametrize("other", [b"x", 1, DAY, ["y"]])
def test_text_is_told_from_what_comes_after_it(other):
    with pytest.raises(UnsupportedTypeError, match=r"mixes kinds: its first value is str, row 2"):
        sent(["text", None, other])


class Hourly(dt.tzinfo):
    def utcoffset(self, _):
        return dt.timedelta(hours=1)

    def tzname(self, _):
        return "hourly"


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        (dt.timezone(dt.timedelta(hours=2)), "+02:00"),
        (zoneinfo.ZoneInfo("Europe/Berlin"), "Europe/Berlin"),
        (dt.timezone(dt.timedelta(hours=5, seconds=30)), None),
        (dateutil.tz.tzoffset("X", 3600), None),
        (dateutil.tz.tzstr("EST5EDT"), None),  # which Arrow takes for one without summer
        (Hourly(), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_zone_is_named_as_arrow_knows_it_or_refused_by_column(zone, name):
    frame = pd.DataFrame({"a": pd.Series([dt.datetime(2024, 7, 1, 12, tzinfo=zone)], dtype=object)})
    if name is None:
        with pytest.raises(UnsupportedTypeError, match=r"column 'a': the time zone .*astimezone\(datetime.UTC\)"):
            send(frame)
    else:
        assert send(frame).schema.field("a").type == pa.timestamp("us", name)


PAIRS = pa.map_(pa.string(), pa.list_(pa.duration("ms")))


NO_MAPS = [
    [None], [("a", None), pd.NA], [decimal.Decimal("sNaN")], {None}, [["a", None]], [("a",)], [("a", None, 1)],
    np.timedelta64(5, "ms"), "a", 5, np.array([None]),
]  # fmt: skip


@pytest.mark.parametrize("odd", NO_MAPS, ids=repr)
def test_what_is_no_map_is_refused_by_row_where_arrow_would_end_the_process(odd):
    pairs = [("a", [np.timedelta64(5, "s")]), ("b", None)]
    with pytest.raises(UnsupportedTypeError, match="'x', row 1"):
        sent([pairs, odd], dtypes={"x": PAIRS})
    assert sent([pairs, None, []], dtypes={"x": PAIRS}).to_pylist() == [[("a", [LONG]), ("b", None)], None, []]


def test_categories_in_a_zone_without_a_name_are_refused_by_column():
    zone = dt.timezone(dt.timedelta(seconds=1))
    with pytest.raises(UnsupportedTypeError, match="column 'x': the time zone"):
        sent(pd.Categorical([pd.Timestamp(MOMENT, tz=zone)]))
