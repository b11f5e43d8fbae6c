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
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rt_frames.errors import UnsupportedTypeError
from tests.local.test_service import COLUMNS
from tests.support.sent import send

EVERY_TYPE = [arrow for arrow, _ in COLUMNS.values()]

D = decimal.Decimal
UTC, TOKYO = dt.UTC, dt.timezone(dt.timedelta(hours=9))
MORNING, MIDNIGHT = dt.datetime(2020, 1, 1, 5, 0, 0, 1), dt.datetime(2020, 1, 1)
numbers = st.sampled_from(
    [
        0,
        1,
        -1,
        127,
        128,
        255,
        256,
        2049,
        2**24 + 1,
        2**31,
        2**53,
        2**53 + 1,
        2**62,
        2**63 - 1,
        -(2**63),
        2**63,
    ]
) | st.integers(-(2**63), 2**64 - 1)
floats = (
    st.sampled_from(
        [
            0.0,
            -0.0,
            0.5,
            0.1,
            1.0,
            300.0,
            2049.0,
            65520.0,
            16777217.0,
            2.0**53 + 2,
            2.0**63,
            2.0**64,
            1e300,
            1e-320,
        ]
    )
    | st.floats()
    | st.floats(width=16)
    | numbers.map(float)
)
decimals = (
    st.sampled_from(
        [
            *map(
                D,
                (
                    "1.25",
                    "0.1",
                    1,
                    300,
                    "-7.00",
                    "0.30",
                    "99999.99",
                    2**60,
                    2**60 + 1,
                    "1e37",
                ),
            )
        ]
    )
    | st.decimals(-(10**9), 10**9, places=3)
    | st.integers(-(10**37), 10**37).map(D)
)
days = (
    st.sampled_from([dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)])
    | st.dates()
)
moments = (
    st.sampled_from([MIDNIGHT, MORNING, dt.datetime.min, dt.datetime.max])
    | st.datetimes()
)
times = st.sampled_from([dt.time(5), dt.time(5, 0, 0, 1), dt.time(0)]) | st.times()
blobs = st.binary() | st.binary(min_size=16, max_size=16)
SPANS = [dt.timedelta(seconds=1.5), dt.timedelta(microseconds=1), dt.timedelta(200_000)]
TEXTS = [
    *(
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
    ),
    *(
        "9007199254740993",
        "9007199254740993.0",
        "9007199254740993.5",
        "9" * 38,
        "9" * 77,
        "true",
    ),
    *("nan", "-inf", "x" * 16),
    *("05:00", "05:00:00.5", "24:00", "10", "05:00Z"),
    *(
        "2020-01-01",
        "2020-01-01 05:00:00",
        "2020-01-01T05:00:00.5",
        "2020-01-01 05:00:00+09:00",
        "1500-01-01",
    ),
    str(uuid.UUID(int=5)),
]
texts = (
    st.sampled_from(TEXTS)
    | st.text()
    | numbers.map(str)
    | floats.map(str)
    | decimals.map(str)
    | moments.map(str)
)
VALUES = [  # types, and values of which each type takes those that it holds exactly
    (
        [
            pa.int8(),
            pa.uint8(),
            pa.int32(),
            pa.int64(),
            pa.uint64(),
            pa.dictionary(pa.int8(), pa.int64()),
        ],
        numbers,
    ),
    ([pa.float16(), pa.float32(), pa.float64()], floats),
    ([pa.bool_()], st.booleans()),
    ([pa.decimal128(7, 2), pa.decimal128(38, 10), pa.decimal128(38, 0)], decimals),
    ([pa.decimal256(50, 30), pa.decimal64(9, 2)], decimals),
    (
        [
            pa.string(),
            pa.large_string(),
            pa.string_view(),
            pa.dictionary(pa.int32(), pa.large_string()),
        ],
        texts,
    ),
    ([pa.binary(), pa.binary(16), pa.large_binary(), pa.binary_view()], blobs),
    ([pa.uuid()], st.uuids().map(lambda given: given.bytes)),
    ([pa.date32(), pa.date64()], days),
    ([pa.timestamp(unit) for unit in ("s", "us", "ns")], moments),
    (
        [pa.timestamp("us", "UTC"), pa.timestamp("ns", "Asia/Tokyo")],
        moments.map(lambda at: at.replace(tzinfo=UTC)),
    ),
    ([pa.time32("s"), pa.time64("us"), pa.time64("ns")], times),
    (
        [pa.duration("s"), pa.duration("us"), pa.duration("ns")],
        st.sampled_from(SPANS) | st.timedeltas(),
    ),
]
TYPES = [arrow for types, _ in VALUES for arrow in types]
FLOATS_OF = {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): float}
cells = st.one_of(st.tuples(st.sampled_from(types), values) for types, values in VALUES)


def cast(array: object, target: object) -> pa.ChunkedArray | UnsupportedTypeError:
    frame = (
        pd.DataFrame({"x": array})
        if isinstance(array, pd.Series)
        else pa.table({"x": array})
    )
    try:
        return send(frame, dtypes={"x": target}).table()["x"]
    except UnsupportedTypeError as error:
        return error


def row_of(refused: pa.ChunkedArray | UnsupportedTypeError) -> int | None:
    assert isinstance(refused, UnsupportedTypeError), f"it became {refused}"
    row = re.match(r"column 'x'(, row (\d+))?", str(refused))[2]
    return row and int(row)


def behind_a_null(arrow: pa.DataType, value: object) -> pa.Array | None:
    """Make an array of a null and a value, if the type holds that exactly."""
    flat = arrow.value_type if is_.is_dictionary(arrow) else arrow
    try:
        array = pa.array([None, value], flat)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None
    if is_.is_floating(flat) and value == value and float(array[1].as_py()) != value:  # noqa: PLR0124
        return None
    if is_.is_temporal(flat) and array[1].as_py() not in (
        value,
        getattr(value, "date", int)(),
    ):
        return None
    return array.dictionary_encode().cast(arrow) if is_.is_dictionary(arrow) else array


@settings(max_examples=2 * settings().max_examples)
@given(cells, st.sampled_from(TYPES))
def test_a_value_keeps_its_meaning_in_any_other_type_or_is_refused_by_row(cell, target):
    array = behind_a_null(*cell)
    assume(array is not None)
    found = cast(array, target)
    if isinstance(found, UnsupportedTypeError):
        assert array.type != target
        assert row_of(found) == 1 or isinstance(
            cast(array.slice(0, 1), target), UnsupportedTypeError
        )
    else:
        assert found[0].as_py() is None
        assert means_the_same(array[1], found[1]), f"{array} became {found}"


def means_the_same(before: pa.Scalar, after: pa.Scalar) -> bool:
    """Return whether the other type has the value, its nearest float or its text."""
    before, after = (
        scalar.value if is_.is_dictionary(scalar.type) else scalar
        for scalar in (before, after)
    )
    one, other = (
        float(v) if isinstance(v, np.floating) else v
        for v in (before.as_py(), after.as_py())
    )
    timed = [is_.is_temporal(scalar.type) for scalar in (before, after)]
    # a number of days, seconds, …
    if any(timed) and any(is_.is_integer(scalar.type) for scalar in (before, after)):
        return count(before) == count(after)
    if isinstance(one, str) != isinstance(other, str):
        return written(one, after) if isinstance(one, str) else written(other, before)
    if all(timed):
        zones = {getattr(scalar.type, "tz", None) for scalar in (before, after)}
        return nanoseconds(before) == nanoseconds(after) and zones != {
            None,
            "Asia/Tokyo",
        }
    one, other = (
        value.bytes if isinstance(value, uuid.UUID) else value for value in (one, other)
    )
    return one == other or (one != one and other != other) or rounded(before, after)  # noqa: PLR0124  # NaN


def rounded(before: pa.Scalar, after: pa.Scalar) -> bool:
    """Tell whether a float is a decimal by its digits, or a fraction was rounded."""
    if is_.is_decimal(before.type) or is_.is_decimal(after.type):
        number, exact = (
            (after, before) if is_.is_decimal(before.type) else (before, after)
        )
        return (
            number.type in FLOATS_OF
            and D(str(FLOATS_OF[number.type](number.as_py()))) == exact.as_py()
        )
    if not (is_.is_floating(before.type) and is_.is_floating(after.type)):
        return False
    one, other = before.as_py(), after.as_py()
    counted = float(one).is_integer() and abs(one) <= 2**53
    return not counted and np.isfinite(other) and FLOATS_OF[after.type](one) == other


def count(scalar: pa.Scalar) -> int:
    if not is_.is_temporal(scalar.type):
        return scalar.as_py()
    return pa.array([scalar]).cast(f"int{scalar.type.bit_width}")[0].as_py()


def nanoseconds(scalar: pa.Scalar) -> tuple[str, int]:
    kind = (
        "span"
        if is_.is_duration(scalar.type)
        else "time"
        if is_.is_time(scalar.type)
        else "moment"
    )
    unit = getattr(scalar.type, "unit", "ms")
    many = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1, "day": 86_400 * 10**9}
    return kind, count(scalar) * many["day" if is_.is_date32(scalar.type) else unit]


def written(text: str, scalar: pa.Scalar) -> bool:
    """Tell whether a text is one way to write a value."""
    value, arrow = scalar.as_py(), scalar.type
    if isinstance(value, bool):
        return text.lower() in (str(value).lower(), str(int(value)))
    if is_.is_floating(arrow):
        number, whole = (
            FLOATS_OF[arrow](text),
            re.fullmatch(r"[+-]?[0-9]+(\.0*)?", text),
        )
        return bool(
            D(text) == D(float(value))
            if whole
            else str(float(number)) == str(float(value))
        )
    if isinstance(value, int | D):
        return D(text) == value
    if isinstance(value, bytes):
        return text.encode() == value
    if is_.is_time(arrow):
        return dt.time.fromisoformat(text) == value
    if is_.is_temporal(arrow):
        moment = (
            np.datetime64(text[:26].rstrip("Z"), "us")
            if "+" not in text
            else dt.datetime.fromisoformat(text)
        )
        moment = (
            moment.astimezone(UTC).replace(tzinfo=None)
            if isinstance(moment, dt.datetime)
            else moment
        )
        return (
            int(np.datetime64(moment, "us").astype(int)) * 1000
            == nanoseconds(scalar)[1]
        )
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
    (
        "2020-01-01 05:00:00.123456789",
        pa.string(),
        pa.timestamp("ns"),
        pd.Timestamp("2020-01-01 05:00:00.123456789"),
    ),
    (
        "2020-01-01 05:00:00+09:00",
        pa.string(),
        pa.timestamp("s", "UTC"),
        dt.datetime(2019, 12, 31, 20, tzinfo=UTC),
    ),
    (
        "{00000000-0000-0000-0000-00000000000A}",
        pa.string(),
        pa.uuid(),
        uuid.UUID(int=10),
    ),
    ("05:00", pa.large_string(), pa.time32("s"), dt.time(5)),
    ("23:59:59.25", pa.string(), pa.time64("us"), dt.time(23, 59, 59, 250_000)),
    (uuid.UUID(int=10).bytes, pa.uuid(), pa.string(), str(uuid.UUID(int=10))),
    (dt.time(5), pa.time32("s"), pa.large_string(), "05:00:00"),
    (MIDNIGHT, pa.timestamp("us"), pa.date32(), MIDNIGHT.date()),
    (
        MIDNIGHT,
        pa.timestamp("us"),
        pa.timestamp("s", "UTC"),
        MIDNIGHT.replace(tzinfo=UTC),
    ),
    (
        MIDNIGHT.replace(tzinfo=TOKYO),
        pa.timestamp("us", "Asia/Tokyo"),
        pa.string(),
        "2020-01-01 00:00:00.000000+0900",
    ),
    (86_400_000, pa.int64(), pa.date64(), dt.date(1970, 1, 2)),
]


FAR = 1_200_000_000_000  # the year 40,000
REFUSED = [  # values of one type, of which another one holds none
    ([2**53 + 1, 2**63 - 1], pa.int64(), pa.float64()),
    ([-1], pa.int8(), pa.uint64()),
    ([2.0**63], pa.float64(), pa.int64()),
    ([16777217.0, 2.0**40 + 1, 1e300], pa.float64(), pa.float32()),
    ([np.nan], pa.float64(), pa.bool_()),
    ([1e-30], pa.float64(), pa.decimal128(38, 0)),
    ([D("1e37")], pa.decimal128(38, 0), pa.float64()),
    ([D("300.00")], pa.decimal128(7, 2), pa.decimal128(3, 2)),
    (["0xFF"], pa.string(), pa.int8()),
    (["1e400", "9007199254740993.0", "9" * 400], pa.string(), pa.float64()),
    (["1e39", "10000000000000000"], pa.string(), pa.float32()),
    (["9" * 77], pa.string(), pa.decimal128(38, 0)),
    (["9.51009633835489e-27"], pa.string(), pa.decimal128(7, 2)),
    (["1500-01-01"], pa.string(), pa.timestamp("ns")),
    (
        ["24:00", "10", "5:00", "05:00Z", "", "05:00:00.1234567"],
        pa.string(),
        pa.time64("us"),
    ),
    (["x"], pa.string(), pa.uuid()),
    ([86_400], pa.int32(), pa.time32("s")),
    ([5], pa.int64(), pa.date64()),
    ([FAR], pa.timestamp("s"), pa.large_string()),
    ([FAR], pa.timestamp("s", "UTC"), pa.large_string()),
    # the second is the last day before the year 1
    ([2**31 - 1, -719_529], pa.date32(), pa.string()),
    ([253_402_300_800_000], pa.date64(), pa.large_string()),  # the year 10,000
    ([FAR + 1], pa.timestamp("s"), pa.date32()),
    ([FAR], pa.timestamp("s"), pa.timestamp("ns")),
    ([b"\xff"], pa.binary(), pa.string()),
]
CASES = [
    *KEPT,
    *(
        (value, have, target, None)
        for values, have, target in REFUSED
        for value in values
    ),
]


@pytest.mark.parametrize(
    ("value", "have", "target", "result"), CASES, ids=lambda value: str(value)[:40]
)
def test_a_value_that_another_type_holds_is_kept_and_any_other_is_refused_by_row(
    value, have, target, result
):
    is_count = is_.is_temporal(have) and isinstance(value, int)
    found = cast(
        pa.array([None, value], f"int{have.bit_width}" if is_count else have).cast(
            have
        ),
        target,
    )
    if result is None:
        assert row_of(found) == 1
    else:
        assert str(found[1].as_py()) == str(result)


VIEW, TEXT = pa.string_view(), pl.Series(["x"])
VIEWED = [  # columns that lie in views, and what they are called: what they are sent as
    (pl.DataFrame({"x": TEXT}), "large_string"),
    (pl.LazyFrame({"x": TEXT}), "large_string"),
    (
        pl.DataFrame({"x": TEXT.cast(pl.Categorical)}),
        "dictionary<values=large_string, ",
    ),
    (pl.DataFrame({"x": [["x"]]}), "large_list<item: large_string>"),
    (pl.DataFrame({"x": [{"y": "x"}]}), "struct<y: large_string>"),
    (pa.table({"x": pa.array(["x"], VIEW)}), "large_string"),
    (
        pa.table({"x": pa.array([["x"]], pa.list_view(VIEW))}),
        "list<item: large_string>",
    ),
    (pd.DataFrame({"x": pd.array(["x"], pd.ArrowDtype(VIEW))}), "large_string"),
]


@pytest.mark.parametrize(("frame", "called"), VIEWED)
def test_a_refused_cast_names_a_type_as_it_is_sent_and_as_no_view(frame, called):
    for target in (
        pa.int64(),
        pa.date32(),
        pa.list_(pa.int8()),
        pa.struct([("z", pa.list_(pa.int8()))]),
    ):
        with pytest.raises(
            UnsupportedTypeError,
            match=rf"'x'.*[ (]{called}.* cannot be (cast to|stored exactly as) ",
        ) as raised:
            send([frame, frame], dtypes={"x": target})
        assert "_view" not in str(raised.value)


@pytest.mark.parametrize(
    "make", [pl.DataFrame, pd.DataFrame, pa.table], ids=["Polars", "pandas", "Arrow"]
)
def test_of_many_columns_that_are_cast_alike_those_that_cannot_be_are_refused_each_with_its_row(
    make,
):
    columns = {f"c{i}": [0, i, 100 + i] for i in range(40)}
    fitting = {name: values for name, values in columns.items() if max(values) < 128}
    assert (
        send(make(fitting), dtypes=dict.fromkeys(fitting, "int8")).table().to_pydict()
        == fitting
    )
    with pytest.raises(
        UnsupportedTypeError, match=r"'c28', row 2: .*\n.*'c29', row 2: "
    ) as refused:
        send(make(columns), dtypes=dict.fromkeys(columns, "int8"))
    assert refused.value.columns == tuple(
        name for name in columns if name not in fitting
    )


@pytest.mark.parametrize(
    "make", [pl.DataFrame, pd.DataFrame, lambda columns: pa.table(columns).to_reader()]
)
def test_the_row_of_a_value_is_counted_from_the_beginning_of_a_large_frame(make):
    numbers = np.arange(3_000_000) % 100
    numbers[-7] = 300
    with pytest.raises(UnsupportedTypeError, match="'x', row 2999993: "):
        send(make({"x": numbers}), dtypes={"x": "int8"})


LISTS = pa.list_(pa.struct([("a", pa.int8())]))
MAPS = [pa.list_(pa.map_(pa.string(), kind)) for kind in (pa.float64(), pa.bool_())]
NESTED = [  # values, their type if it is not what Arrow infers, another type, and the row that does not fit
    ([[1, 2], None, [3, 400]], None, pa.list_(pa.int8()), 2),
    ([[1, 2], None, [3]], None, pa.list_(pa.int8(), 2), 2),
    ([[0.5], [1e300]], None, pa.large_list(pa.float32()), 1),
    ([[[("k", 1)]], [[("k", 0), ("l", 0.5)]]], *MAPS, 1),
    ([[{"a": 1.0}], [], [{"a": 0.5}]], None, LISTS, 2),
    (
        [[1, 2], None, [3, 4]],
        pa.list_(pa.int64(), 2),
        pa.large_list(pa.dictionary(pa.int32(), pa.int64())),
        3,
    ),
    ([1], None, LISTS, 0),
    (["a"], None, pa.list_(pa.int8()), 0),
    ([{"a": 1}], None, pa.list_(pa.int8(), 1), 0),
    ([[1]], None, pa.struct([("b", pa.int8())]), 0),
    ([[1]], None, pa.map_(pa.int8(), pa.int8()), 0),
    ([{"a": 1}], None, pa.map_(pa.int8(), pa.int8()), 0),
]


@pytest.mark.parametrize(("values", "have", "target", "row"), NESTED, ids=str)
def test_values_inside_lists_structs_and_maps_are_kept_or_refused_by_row(
    values, have, target, row
):
    column = pa.chunked_array(
        [pa.array(values, have).slice(i, 1) for i in range(len(values))]
    )
    if row < len(values):
        assert (row_of(cast(column, target)) or 0) == row
    if row:
        made = cast(column.slice(0, row), target)
        assert (made.type, made.to_pylist()) == (target, values[:row])


STRUCT = pa.array([{"a": 1, "b": 300}, None, {"a": 3, "b": None}])


@pytest.mark.parametrize(
    "make", [pa.table, pl.DataFrame, lambda x: pd.DataFrame({"x": x["x"].to_pylist()})]
)
def test_fields_of_structs_go_by_name_and_none_is_dropped_or_made_up(make):
    frame, swapped = (
        make({"x": STRUCT}),
        pa.struct([("b", pa.int64()), ("a", pa.int8())]),
    )
    made = send(frame, dtypes={"x": swapped}).table()["x"]
    assert (made.type, made.to_pylist()) == (
        swapped,
        [{"b": 300, "a": 1}, None, {"b": None, "a": 3}],
    )
    for fields in (["a"], ["x", "y"], ["a", "c"], ["a", "b", "c"]):
        with pytest.raises(
            UnsupportedTypeError, match=r"column 'x'.*fields of x are 'a', 'b'"
        ):
            send(
                frame, dtypes={"x": pa.struct([(name, pa.int64()) for name in fields])}
            )
    with pytest.raises(UnsupportedTypeError, match=r"'x', row 0: .*x\.b: .*300"):
        send(frame, dtypes={"x": pa.struct([("a", pa.int64()), ("b", pa.int8())])})


FRACTIONS = [
    (pl.Series([1.0, 0.5]), "int64"),
    (pd.Series([0.5], dtype="float32"), "int8"),
    (pa.array([[1.0, 0.5]]), pa.list_(pa.int8())),
    (pl.Series([2.5, None], dtype=pl.Float32), "uint16"),
]


@pytest.mark.parametrize(
    ("column", "target"), FRACTIONS, ids=lambda value: str(value)[:20]
)
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
    column = pa.StructArray.from_arrays(
        [pa.array([1, 300])], ["a"], mask=pa.array([False, True])
    )
    assert cast(column, pa.struct([("a", pa.int8())])).to_pylist() == [{"a": 1}, None]


NOTHING = {
    "NaN": pd.DataFrame({"x": [np.nan, np.nan]}),
    "NaN as objects": pd.DataFrame({"x": [np.nan, None]}, dtype=object),
    "NaT": pd.DataFrame({"x": [pd.NaT, pd.NaT]}),
    "nulls of Polars": pl.DataFrame({"x": [None, None]}, schema={"x": pl.Int8}),
    "items without a value": [
        pa.table({"x": pa.nulls(1, arrow)})
        for arrow in (pa.bool_(), pa.list_(pa.string()))
    ],
}


@pytest.mark.parametrize("data", NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("target", [*EVERY_TYPE, pa.uuid(), pa.json_()], ids=str)
def test_a_column_without_a_value_is_cast_to_every_type(data, target):
    made = send(data, dtypes={"x": target}).table()["x"]
    assert (made.null_count, len(made)) == (2, 2)
    assert (
        made.type == send(pa.table({"x": pa.nulls(1, target)})).schema.field("x").type
    )


OBJECTS = [  # values of several kinds, a type, and what they are there, or the row that does not fit
    ([1.5, 2], "int64", 0),
    ([1.0, 2, 3.0], "int64", [1, 2, 3]),
    ([2**63, 1], "uint64", [2**63, 1]),
    ([1, 2**64], "uint64", 1),
    ([2**70], pa.decimal128(38, 0), [2**70]),
    ([MIDNIGHT, MORNING], "date32", 1),
    ([MIDNIGHT.date(), MIDNIGHT], "date32", [MIDNIGHT.date()] * 2),
    ([MIDNIGHT, MORNING.replace(tzinfo=TOKYO)], "timestamp[us]", 1),
    ([5, dt.timedelta(seconds=1.5)], "duration[s]", 1),
    ([0, None, 0.5], "bool", 2),
    ([86_400_000, 5], "date64[ms]", 1),
    ([pd.Timestamp(1), None], "timestamp[us]", 0),
    (
        [uuid.UUID(int=5), "a", b"b", 3, None],
        str,
        [str(uuid.UUID(int=5)), "a", "b", "3", None],
    ),
    ([uuid.UUID(int=5), b"\xff"], str, 1),
    ([[("k", 1)], None], pa.map_(pa.string(), pa.int8()), [[("k", 1)], None]),
    ([1.0] * 996 + [1.5] + [1.0] * 3, "int64", 996),
    ([1.0] * 999 + [1.5], "int64", 999),
]


@pytest.mark.parametrize(
    ("values", "target", "result"), OBJECTS, ids=lambda value: str(value)[:60]
)
def test_objects_are_cast_each_as_what_it_is_or_refused_by_row(values, target, result):
    found = cast(pd.Series(values, dtype=object), target)
    assert (found.to_pylist() if isinstance(result, list) else row_of(found)) == result


def test_lists_of_several_kinds_are_refused_whatever_they_are_cast_to():
    assert "mixes types" in str(
        cast(
            pd.Series([[MORNING.date(), MORNING]], dtype=object), pa.list_(pa.date32())
        )
    )
