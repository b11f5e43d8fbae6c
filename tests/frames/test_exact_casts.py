"""What ``dtypes=`` does to values: any of them keeps its meaning in another type, or is refused by column and row."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.types as is_
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.sent import send

D = decimal.Decimal
UTC, TOKYO = dt.UTC, dt.timezone(dt.timedelta(hours=9))
MORNING, MIDNIGHT = dt.datetime(2020, 1, 1, 5, 0, 0, 1), dt.datetime(2020, 1, 1)
INTS = [0, 1, -1, 127, 128, 255, 256, 2049, 2**24 + 1, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63]
FLOATS = [0.0, -0.0, 0.5, 0.1, 1.0, 300.0, 2049.0, 65520.0, 16777217.0, 2.0**53 + 2, 2.0**63, 2.0**64, 1e300, 1e-320]
DECIMALS = [D("1.25"), D("0.1"), D(1), D(300), D("-7.00"), D("0.30"), D("99999.99"), D(2**60), D(2**60 + 1), D("1e37")]
DATES = [dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
MOMENTS = [MIDNIGHT, MORNING, dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]
TIMES = [dt.time(5), dt.time(5, 0, 0, 1), dt.time(0)]
SPANS = [dt.timedelta(seconds=1), dt.timedelta(seconds=1.5), dt.timedelta(microseconds=1), dt.timedelta(days=200_000)]
TEXTS = [
    *("", "a", "1", "-7", "1.5", "0.1", "300", "1e3", "0xFF", "-0x1", "1e400", "1e-400", "1e-30", "16777217"),
    "9007199254740993",
    *("9007199254740993.0", "9007199254740993.5", "9" * 38, "9" * 77, "true", "nan", "-inf", "x" * 16),
    *("2020-01-01", "2020-01-01 05:00:00", "2020-01-01T05:00:00.5", "2020-01-01 05:00:00+09:00", "1500-01-01"),
    str(uuid.UUID(int=5)),
]  # fmt: skip
numbers = st.sampled_from(INTS) | st.integers(-(2**63), 2**64 - 1)
floats = st.sampled_from(FLOATS) | st.floats() | st.floats(width=16) | numbers.map(float)
decimals = st.sampled_from(DECIMALS) | st.decimals(-(10**9), 10**9, places=3) | st.integers(-(10**37), 10**37).map(D)
moments = st.sampled_from(MOMENTS) | st.datetimes()
texts = st.sampled_from(TEXTS) | st.text() | numbers.map(str) | floats.map(str) | decimals.map(str) | moments.map(str)
VALUES = [  # types, and values of which each type takes those that it holds exactly
    ([pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), pa.dictionary(pa.int8(), pa.int64())], numbers),
    ([pa.float16(), pa.float32(), pa.float64()], floats),
    ([pa.bool_()], st.booleans()),
    ([pa.decimal128(7, 2), pa.decimal128(38, 10), pa.decimal128(38, 0)], decimals),
    ([pa.decimal256(50, 30), pa.decimal64(9, 2)], decimals),
    ([pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.large_string())], texts),
    ([pa.binary(), pa.binary(16), pa.large_binary()], st.binary() | st.binary(min_size=16, max_size=16)),
    ([pa.uuid()], st.uuids().map(lambda given: given.bytes)),
    ([pa.date32(), pa.date64()], st.sampled_from(DATES) | st.dates()),
    ([pa.timestamp(unit) for unit in ("s", "us", "ns")], moments),
    ([pa.timestamp("us", "UTC"), pa.timestamp("ns", "Asia/Tokyo")], moments.map(lambda at: at.replace(tzinfo=UTC))),
    ([pa.time32("s"), pa.time64("us"), pa.time64("ns")], st.sampled_from(TIMES) | st.times()),
    ([pa.duration("s"), pa.duration("us"), pa.duration("ns")], st.sampled_from(SPANS) | st.timedeltas()),
]  # fmt: skip
TYPES = [arrow for types, _ in VALUES for arrow in types]
KINDS = {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): float}
cells = st.one_of(st.tuples(st.sampled_from(types), values) for types, values in VALUES)


def cast(array: pa.Array, target: object) -> pa.Array | UnsupportedTypeError:
    try:
        source = send(pa.table({"x": array}), dtypes={"x": target})
    except UnsupportedTypeError as error:
        return error
    return pa.chunked_array([batch.column(0) for batch in source.batches()]).combine_chunks()


def behind_a_null(arrow: pa.DataType, value: object) -> pa.Array | None:
    """Make an array of a null and a value, if the type holds that exactly."""
    flat = arrow.value_type if is_.is_dictionary(arrow) else arrow
    try:
        array = pa.array([None, value], flat)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None
    if is_.is_floating(flat) and not is_nan(value) and float(array[1].as_py()) != value:
        return None
    if is_.is_temporal(flat) and array[1].as_py() not in (value, getattr(value, "date", int)()):
        return None
    return array.dictionary_encode().cast(arrow) if is_.is_dictionary(arrow) else array


@settings(max_examples=3 * settings().max_examples)
@given(cells, st.sampled_from(TYPES))
def test_a_value_keeps_its_meaning_in_any_other_type_or_is_refused_by_row(cell, target):
    array = behind_a_null(*cell)
    assume(array is not None)
    found = cast(array, target)
    if isinstance(found, UnsupportedTypeError):
        assert array.type != target
        impossible = isinstance(cast(array.slice(0, 1), target), UnsupportedTypeError)
        assert str(found).startswith(f"column 'x'{'' if impossible else ', row 1'} (batch 0): ")
    else:
        assert found[0].as_py() is None
        assert means_the_same(array[1], found[1]), f"{array} became {found}"


def means_the_same(before: pa.Scalar, after: pa.Scalar) -> bool:
    for one, other in ((before, after), (after, before)):
        if is_.is_integer(plain(one).type) and is_.is_temporal(other.type):  # a number of days, seconds, …
            return pa.array([other]).cast(pa.int32() if other.type.bit_width == 32 else pa.int64())[0] == plain(one)
    before, after = plain(before), plain(after)
    one, other = before.as_py(), after.as_py()
    number, found = fraction(one), fraction(other)
    if number is not None and found is not None:
        return number == found or (is_nan(one) and is_nan(other)) or rounded(before, after)
    if isinstance(one, str) != isinstance(other, str):
        return written(one, after) if isinstance(one, str) else nearest(other, before) or written(other, before)
    if isinstance(one, uuid.UUID) or isinstance(other, uuid.UUID):
        return getattr(one, "bytes", one) == getattr(other, "bytes", other)
    if not is_.is_temporal(before.type):
        return one == other
    zones = {getattr(scalar.type, "tz", None) for scalar in (before, after)}
    return nanoseconds(before) == nanoseconds(after) and zones != {None, "Asia/Tokyo"}


def is_nan(value: object) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def plain(scalar: pa.Scalar) -> pa.Scalar:
    return scalar.value if is_.is_dictionary(scalar.type) else scalar


def fraction(value: object) -> Fraction | float | None:
    if isinstance(value, float | np.floating) and not np.isfinite(value):
        return float(value)
    return Fraction(value) if isinstance(value, bool | int | float | np.floating | D) else None


def rounded(before: pa.Scalar, after: pa.Scalar) -> bool:
    """Tell whether a float is a decimal by its digits, or a fraction was rounded."""
    if is_.is_decimal(before.type) or is_.is_decimal(after.type):
        number, exact = (after, before) if is_.is_decimal(before.type) else (before, after)
        return D(str(KINDS[number.type](number.as_py()))) == exact.as_py()
    one, other = before.as_py(), after.as_py()
    if not (is_.is_floating(before.type) and is_.is_floating(after.type)):
        return False
    counted = float(one).is_integer() and abs(one) <= 2**53
    return not counted and np.isfinite(other) and KINDS[after.type](one) == other


def nanoseconds(scalar: pa.Scalar) -> tuple[str, int]:
    kind = "span" if is_.is_duration(scalar.type) else "time" if is_.is_time(scalar.type) else "moment"
    if is_.is_date(scalar.type):
        return kind, (scalar.as_py() - dt.date(1970, 1, 1)).days * 86_400 * 10**9
    many = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[scalar.type.unit]
    return kind, scalar.value * many


def nearest(text: str, scalar: pa.Scalar) -> bool:
    """Tell whether a text is read as a float."""
    value = scalar.as_py()
    return is_.is_floating(scalar.type) and (KINDS[scalar.type](text) == value or is_nan(value))


def written(text: str, scalar: pa.Scalar) -> bool:
    """Tell whether a text is one way to write a value."""
    value = scalar.as_py()
    if isinstance(value, bool):
        return text.lower() in (str(value).lower(), str(int(value)))
    if fraction(value) is not None:
        whole = D(text).is_finite() and D(text) == D(text).to_integral_value() and "e" not in text.lower()
        return (nearest(text, scalar) and not whole) or fraction(D(text)) == fraction(value)
    if isinstance(value, bytes):
        return text.encode() == value
    if is_.is_time(scalar.type):
        return dt.time.fromisoformat(text) == value
    if is_.is_date(scalar.type) or is_.is_timestamp(scalar.type):
        moment = np.datetime64(text[:26].split("+", maxsplit=1)[0].rstrip("Z"), "us") if "+" not in text else None
        zoned = dt.datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None) if moment is None else moment
        return int(np.datetime64(zoned, "us").astype(int)) * 1000 == nanoseconds(scalar)[1]
    return isinstance(value, uuid.UUID) and text == str(value)


KEPT = [  # a value, its type, another type, and what it is there
    (2**62, pa.int64(), pa.float32(), 2.0**62),
    (2**53 + 2, pa.int64(), pa.float64(), 2.0**53 + 2),
    (-0.0, pa.float64(), pa.int8(), 0),
    (0.1, pa.float64(), pa.float32(), float(np.float32(0.1))),
    (0.1, pa.float64(), pa.decimal128(38, 20), D("0.1").quantize(D(10) ** -20)),
    (2.0**60, pa.float64(), pa.decimal128(38, 0), D(2**60)),
    (D("0.1"), pa.decimal128(7, 2), pa.float64(), 0.1),
    (D("40773466930.638206"), pa.decimal128(38, 6), pa.float64(), 40773466930.638206),
    (2**63, pa.uint64(), pa.decimal128(19, 0), D(2**63)),
    ("9007199254740992.0", pa.string(), pa.float64(), 2.0**53),
    ("9007199254740993.5", pa.string(), pa.float64(), 9007199254740993.5),
    ("-inf", pa.string(), pa.float32(), -np.inf),
    ("nan", pa.string(), pa.float64(), np.nan),
    ("2020-01-01 05:00:00.123456789", pa.string(), pa.timestamp("ns"), pd.Timestamp("2020-01-01 05:00:00.123456789")),
    ("2020-01-01 05:00:00+09:00", pa.string(), pa.timestamp("s", "UTC"), dt.datetime(2019, 12, 31, 20, tzinfo=UTC)),
    ("{00000000-0000-0000-0000-00000000000A}", pa.string(), pa.uuid(), uuid.UUID(int=10)),
    (uuid.UUID(int=10).bytes, pa.uuid(), pa.string(), str(uuid.UUID(int=10))),
    (dt.time(5), pa.time32("s"), pa.large_string(), "05:00:00"),
    (MIDNIGHT, pa.timestamp("us"), pa.date32(), MIDNIGHT.date()),
    (MIDNIGHT, pa.timestamp("us"), pa.timestamp("s", "UTC"), MIDNIGHT.replace(tzinfo=UTC)),
    (MIDNIGHT.replace(tzinfo=TOKYO), pa.timestamp("us", "Asia/Tokyo"), pa.string(), "2020-01-01 00:00:00.000000+0900"),
    (86_400_000, pa.int64(), pa.date64(), dt.date(1970, 1, 2)),
]


@pytest.mark.parametrize(("value", "have", "target", "result"), KEPT, ids=str)
def test_a_value_that_another_type_holds_is_kept(value, have, target, result):
    found = cast(pa.array([None, value], have), target)
    assert str(found[1].as_py()) == str(result)


FAR = 1_200_000_000_000  # the year 40,000
REFUSED = [
    (2**53 + 1, pa.int64(), pa.float64()),
    (2**63 - 1, pa.int64(), pa.float64()),
    (-1, pa.int8(), pa.uint64()),
    (2.0**63, pa.float64(), pa.int64()),
    (16777217.0, pa.float64(), pa.float32()),
    (1e300, pa.float64(), pa.float32()),
    (np.nan, pa.float64(), pa.bool_()),
    (1e-30, pa.float64(), pa.decimal128(38, 0)),
    (D("1e37"), pa.decimal128(38, 0), pa.float64()),
    (D("300.00"), pa.decimal128(7, 2), pa.decimal128(3, 2)),
    ("0xFF", pa.string(), pa.int8()),
    ("1e400", pa.string(), pa.float64()),
    ("1e39", pa.string(), pa.float32()),
    ("9007199254740993.0", pa.string(), pa.float64()),
    ("10000000000000000", pa.string(), pa.float32()),
    ("9" * 400, pa.string(), pa.float64()),
    ("9" * 77, pa.string(), pa.decimal128(38, 0)),
    ("9.51009633835489e-27", pa.string(), pa.decimal128(7, 2)),
    ("1500-01-01", pa.string(), pa.timestamp("ns")),
    (86_400, pa.int32(), pa.time32("s")),
    (5, pa.int64(), pa.date64()),
    (FAR, pa.timestamp("s"), pa.large_string()),
    (FAR, pa.timestamp("s", "UTC"), pa.large_string()),
    (2**31 - 1, pa.date32(), pa.string()),
    (FAR + 1, pa.timestamp("s"), pa.date32()),
    (FAR, pa.timestamp("s"), pa.timestamp("ns")),
    (b"\xff", pa.binary(), pa.string()),
]


@pytest.mark.parametrize(("value", "have", "target"), REFUSED, ids=str)
def test_a_value_that_another_type_does_not_hold_is_refused_by_row(value, have, target):
    width = pa.int64() if is_.is_temporal(have) and have.bit_width == 64 else pa.int32()
    held = pa.array([None, value], width).cast(have) if is_.is_temporal(have) else pa.array([None, value], have)
    assert str(cast(held, target)).startswith("column 'x', row 1 (batch 0): ")


VIEWS = [(pa.string_view(), pa.large_string(), text) for text in TEXTS] + [
    (pa.binary_view(), pa.large_binary(), b"x" * 16)
]


@pytest.mark.parametrize(
    ("view", "portable", "value"), [*VIEWS, (pa.binary_view(), pa.large_binary(), b"x" * 16)], ids=str
)
def test_a_view_is_cast_as_its_portable_form_is(view, portable, value):
    for target in TYPES:
        one, other = (cast(pa.array([None, value], arrow), target) for arrow in (view, portable))
        assert str(one).replace(str(view), str(portable)) == str(other)


@pytest.mark.parametrize("values", [[1], ["a"], [{"a": 1}], [[1]]])
@pytest.mark.parametrize(
    "target",
    [pa.list_(pa.int8()), pa.list_(pa.int8(), 1), pa.struct([("b", pa.int8())]), pa.map_(pa.int8(), pa.int8())],
)
def test_kinds_of_nesting_that_do_not_fit_are_refused_by_column(values, target):
    frame = pa.table({"x": values})
    if is_.is_list(frame["x"].type) and not is_.is_struct(target) and not is_.is_map(target):
        return
    with pytest.raises(UnsupportedTypeError, match=r"'x' \(batch 0\)|'x', row 0"):
        send(frame, dtypes={"x": target})


STRUCT = pa.array([{"a": 1, "b": 300}, None, {"a": 3, "b": None}])


@pytest.mark.parametrize(
    "frame", [pa.table({"x": STRUCT}), pl.DataFrame({"x": STRUCT}), pd.DataFrame({"x": STRUCT.to_pylist()})]
)
def test_fields_of_structs_go_by_name_and_none_is_dropped_or_made_up(frame):
    swapped = pa.struct([("b", pa.int64()), ("a", pa.int8())])
    source = send(frame, dtypes={"x": swapped})
    rows = [row for batch in source.batches() for row in batch.column(0).to_pylist()]
    assert (source.schema.types, rows) == ([swapped], [{"b": 300, "a": 1}, None, {"b": None, "a": 3}])
    for fields in (["a"], ["a", "c"], ["a", "b", "c"]):
        with pytest.raises(UnsupportedTypeError, match=r"'x'.*its fields are 'a', 'b', not 'a'"):
            send(frame, dtypes={"x": pa.struct([(name, pa.int64()) for name in fields])})
    with pytest.raises(UnsupportedTypeError, match=r"'x', row 0 .*x\.b: .*300"):
        send(frame, dtypes={"x": pa.struct([("a", pa.int64()), ("b", pa.int8())])})


@pytest.mark.parametrize(
    ("values", "target", "row"),
    [
        ([[1, 2], None, [3, 400]], pa.list_(pa.int8()), 2),
        ([[1, 2], None, [3]], pa.list_(pa.int8(), 2), 2),
        ([[0.5], [1e300]], pa.large_list(pa.float32()), 1),
        ([[[("k", 1)]], [[("k", 0), ("l", 0.5)]]], pa.list_(pa.map_(pa.string(), pa.bool_())), 1),
        ([[{"a": 1.0}], [], [{"a": 0.5}]], pa.list_(pa.struct([("a", pa.int8())])), 2),
    ],
)
def test_values_inside_lists_structs_and_maps_are_kept_or_refused_by_row(values, target, row):
    held = {"k": pa.list_(pa.map_(pa.string(), pa.float64()))} if "map" in str(target) else {}
    frame = pa.table({"x": pa.chunked_array([pa.array(values, held.get("k")).slice(i, 1) for i in range(len(values))])})
    with pytest.raises(UnsupportedTypeError, match=f"'x', row {row} "):
        send(frame, dtypes={"x": target})
    source = send(frame.slice(0, row), dtypes={"x": target})
    assert [value for batch in source.batches() for value in batch.column(0).to_pylist()] == values[:row]


@pytest.mark.parametrize(
    ("values", "target", "result"),
    [
        ([1.5, 2], "int64", "row 0: 1.5"),
        ([1.0, 2], "int64", [1, 2]),
        ([2**63, 1], "uint64", [2**63, 1]),
        ([1, 2**64], "uint64", "row 1: 18446744073709551616"),
        ([MIDNIGHT, MORNING], "date32", "row 1"),
        ([MIDNIGHT.date(), MIDNIGHT], "date32", [MIDNIGHT.date()] * 2),
        ([MIDNIGHT, MORNING.replace(tzinfo=TOKYO)], "timestamp[us]", "row 1"),
        ([5, dt.timedelta(seconds=1.5)], "duration[s]", "row 1"),
        ([0, None, 0.5], "bool", "row 2: 0.5"),
        ([86_400_000, 5], "date64[ms]", "row 1: 5"),
        ([pd.Timestamp(1), None], "timestamp[us]", "row 0"),
        ([uuid.UUID(int=5), "a", b"b", 3, None], str, [str(uuid.UUID(int=5)), "a", "b", "3", None]),
        ([uuid.UUID(int=5), b"\xff"], str, "row 1"),
    ],
)
def test_objects_are_cast_each_as_what_it_is(values, target, result):
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    if isinstance(result, str):
        with pytest.raises(UnsupportedTypeError, match=f"'x', {result}"):
            send(frame, dtypes={"x": target})
        return
    (batch,) = send(frame, dtypes={"x": target}).batches()
    assert batch.column(0).to_pylist() == result


def test_an_object_that_is_refused_in_a_long_column_is_named_by_its_own_row():
    for row in (996, 999):
        values = [1.0] * 1000
        values[row] = 1.5
        with pytest.raises(UnsupportedTypeError, match=f"'x', row {row}: 1.5 cannot be converted to int64"):
            send(pd.DataFrame({"x": pd.Series(values, dtype=object)}), dtypes={"x": "int64"})


def test_objects_that_are_pairs_become_maps_and_mixed_lists_are_refused():
    def sent(values: list, target: pa.DataType) -> list:
        source = send(pd.DataFrame({"x": pd.Series(values, dtype=object)}), dtypes={"x": target})
        return [row for batch in source.batches() for row in batch.column(0).to_pylist()]

    assert sent([[("k", 1)], None], pa.map_(pa.string(), pa.int8())) == [[("k", 1)], None]
    with pytest.raises(UnsupportedTypeError, match="'x' mixes kinds"):
        sent([[MORNING.date(), MORNING]], pa.list_(pa.date32()))


@pytest.mark.parametrize("target", [pa.list_(pa.int8()), pa.large_list(pa.dictionary(pa.int32(), pa.int64()))])
def test_lists_of_one_size_become_lists(target):
    column = pa.array([[0, 0], [1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)).slice(1)
    made = cast(column, target)
    assert (made.type, made.to_pylist()) == (target, [[1, 2], None, [3, 4]])


def test_what_lies_under_a_missing_struct_is_no_value():
    column = pa.StructArray.from_arrays([pa.array([1, 300])], ["a"], mask=pa.array([False, True]))
    assert cast(column, pa.struct([("a", pa.int8())])).to_pylist() == [{"a": 1}, None]


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.date32(), pa.date64()])
@pytest.mark.parametrize("year", ["10000", "40000", "-0001"])
def test_years_that_text_does_not_give_back_are_refused_by_row(client, kind, year):
    moments = pa.array(np.array(["2020-01-01", f"{year}-01-01"], "datetime64[ms]"))
    with pytest.raises(UnsupportedTypeError, match=r"column 'v', row 1 .*cannot be kept exactly as large_string"):
        rt.to_table(pa.table({"v": moments.cast(kind)}), "t", dtypes={"v": "large_string"})
