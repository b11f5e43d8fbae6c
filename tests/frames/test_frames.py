"""Frames of pandas and Polars come back value by value.

What cannot be stored is refused by column, before anything is sent.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.extra import pandas as hpd
from polars.testing import assert_frame_equal
from polars.testing.parametric import dataframes

import rt_frames as rt
from tests.support.compare import differing, stored
from tests.support.sent import send

number = itertools.count()
# each example is an upload
uploading = settings(max_examples=settings().max_examples // 4)


def there_and_back(client, service, frame, **options) -> pa.Table:
    """Store a frame and read it with lance."""
    name = f"frame_{next(number)}"
    rows = client.create_table(name, frame, **options).rows
    found = stored(service, name)
    shutil.rmtree(Path(service.root) / f"{name}.lance")
    assert found.num_rows == rows == len(frame)
    return found


# of which no column can be stored, or only some arrays
NOT_SENT = [pl.Null, pl.Object, pl.Unknown, pl.Int128, pl.UInt128, pl.Array]
NUMBERS = [pl.Array, pl.Int8, pl.UInt64, pl.Float32, pl.Date, pl.Datetime]
NESTED = [pl.List, pl.Struct, pl.Int8, pl.String, pl.Binary, pl.Boolean, pl.Categorical]


def frames(**dtypes: list) -> st.SearchStrategy[pl.DataFrame]:
    return dataframes(min_cols=1, max_cols=3, max_size=6, allow_null=True, **dtypes)


any_frames = frames(excluded_dtypes=NOT_SENT).filter(
    lambda frame: "Extension" not in str(frame.schema)
)
nested_frames = frames(allowed_dtypes=NESTED)
arrays = frames(allowed_dtypes=NUMBERS)


@uploading
@given(any_frames | nested_frames | arrays)
def test_every_polars_frame_comes_back_equal(client, service, frame):
    assert_frame_equal(
        pl.from_arrow(there_and_back(client, service, frame)),
        frame,
        categorical_as_str=True,
        check_dtypes=False,
        check_exact=True,
    )


text = st.text(st.characters(codec="utf-8"), max_size=8)
moments = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
zoned = st.builds(pd.Timestamp, moments, tz=st.just("UTC"))
whole = st.integers(-(2**63), 2**63 - 1)
small = st.integers(-128, 127)
real = st.floats(allow_nan=False)
cents = st.integers(-(10**9), 10**9)
prices = cents.map(lambda many: decimal.Decimal(many) / 100)
spans = st.timedeltas(dt.timedelta(-(10**5)), dt.timedelta(10**5))
kinds = [
    text,
    whole,
    st.booleans(),
    st.binary(max_size=4),
    st.dates(),
    st.datetimes(),
    st.times(),
    real,
    spans,
    prices,
    st.lists(whole, min_size=1, max_size=3),
    st.fixed_dictionaries({"x": whole, "y": text}),
]


def objects_column(values: list) -> pd.Series:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return pd.Series(array, dtype=object)


@st.composite
def some(draw, kind: st.SearchStrategy) -> list:
    """Draw values, of which the first is not null, so that they have a type."""
    return [draw(kind), *draw(st.lists(st.none() | kind, max_size=5))]


# pandas 2 takes other units of timedeltas through objects only
COARSE = "s" if int(pd.__version__[0]) >= 3 else "ns"
numpy_dtypes = st.one_of(
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.boolean_dtypes(),
    hnp.datetime64_dtypes(max_period="s", min_period="ns"),
    hnp.timedelta64_dtypes(max_period=COARSE, min_period="ns"),
)
numpy_columns = numpy_dtypes.flatmap(
    lambda dtype: hpd.series(dtype=dtype, index=hpd.range_indexes(1, 6))
)
optional = {
    "Int8": small,
    "UInt64": st.integers(0, 2**64 - 1),
    "Float32": st.floats(width=32, allow_nan=False),
    "boolean": st.booleans(),
    "string": text,
    "str": text,
    "int64[pyarrow]": whole,
    "double[pyarrow]": real,
    "datetime64[ns, Europe/Paris]": zoned,
    "datetime64[us, UTC]": zoned,
    "category": text,
    pd.CategoricalDtype([1, 5, 9]): st.sampled_from([1, 5, 9]),
    pd.ArrowDtype(pa.decimal128(10, 2)): prices,
    pd.ArrowDtype(pa.list_(pa.string())): st.lists(text, max_size=3),
    pd.ArrowDtype(pa.date32()): st.dates(),
    pd.ArrowDtype(pa.struct([("x", pa.int8())])): st.fixed_dictionaries({"x": small}),
}


@st.composite
def optional_columns(draw) -> pd.Series:
    dtype = draw(st.sampled_from(list(optional)))
    return pd.Series(draw(some(optional[dtype])), dtype=dtype)


def every_other_masked(values: list[int]) -> np.ma.MaskedArray:
    mask = [row % 2 for row in range(len(values))]
    return np.ma.array(values, mask=mask, dtype="i8")


missing = [
    None,
    pd.NA,
    pd.NaT,
    float("nan"),
    np.datetime64("NaT", "s"),
    np.timedelta64("NaT", "s"),
]
array_dtypes = st.sampled_from([">i4", "i8", "M8[ms]", "m8[s]", "M8[D]"])
cells = st.one_of(
    *kinds,
    moments.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    moments.map(lambda moment: pd.Timestamp(moment) + pd.Timedelta(1)),
    st.builds(np.timedelta64, cents, st.just("ms")),
    st.builds(np.datetime64, cents, st.just("s")),
    st.sampled_from(missing),
    hnp.arrays(array_dtypes, st.integers(0, 3)),
    hnp.arrays("f4", st.integers(0, 3)).map(np.nan_to_num),
    st.lists(whole, max_size=3).map(every_other_masked),
)
nested_cells = st.recursive(
    cells,
    lambda cell: st.lists(cell, max_size=3) | st.fixed_dictionaries({"a": cell}),
    max_leaves=4,
)


@st.composite
def alike(draw) -> pd.Series:
    return objects_column(draw(some(draw(st.sampled_from(kinds)))))


pandas_columns = numpy_columns | optional_columns() | alike()


@uploading
@given(st.lists(pandas_columns, min_size=1, max_size=3))
def test_every_pandas_frame_comes_back_equal(client, service, columns):
    rows = min(len(column) for column in columns)
    frame = pd.DataFrame()
    for place, column in enumerate(columns):
        frame[f"c{place}"] = column.iloc[:rows].reset_index(drop=True)
    found = there_and_back(client, service, frame)
    for name in frame.columns:
        assert differing(found[name], frame[name]) == [], (name, frame[name].dtype)


@st.composite
def mixed(draw) -> pd.Series:
    repeated = [draw(nested_cells)] * draw(st.integers(1, 3))
    return objects_column(repeated + draw(st.lists(nested_cells, max_size=2)))


@uploading
@given(mixed())
def test_no_object_becomes_another_one_beside_what_has_other_types(column):
    """test_objects.py says which of them cannot be sent."""
    try:
        found = send(column.to_frame("c")).table()["c"]
    except rt.errors.UnsupportedTypeError as refused:
        assert refused.columns == ("c",)  # noqa: PT017
    else:
        assert differing(found, column) == []


POINT = pl.Struct({"x": pl.Int64, "y": pl.String})
POINTS = [None if n % 3 == 0 else {"x": n, "y": str(n)} for n in range(20)]
IN_STRUCTS = [None if n % 4 == 0 else {"p": p} for n, p in enumerate(POINTS)]
IN_LISTS = [None if n % 4 == 0 else [p] * (n % 3) for n, p in enumerate(POINTS)]
STRUCTS = pl.DataFrame(
    {
        "struct": pl.Series(POINTS, dtype=POINT),
        "inside": pl.Series(IN_STRUCTS, dtype=pl.Struct({"p": POINT})),
        "list": pl.Series(IN_LISTS, dtype=pl.List(POINT)),
    }
)
ROW = pl.int_range(pl.len())
PAIR = pl.Array(pl.Int64, 2)
PAIRS = [None if n % 3 == 0 else [n, None] for n in range(20)]
TWO_PAIRS = [[pair, None] for pair in PAIRS]
ARRAYS = pl.DataFrame(
    {
        "array": pl.Series(PAIRS, dtype=PAIR),
        "arrays": pl.Series(TWO_PAIRS, dtype=pl.Array(PAIR, 2)),
        "list": pl.Series(TWO_PAIRS, dtype=pl.List(PAIR)),
    }
)


CUTS = {
    "slice": lambda frame, start: frame.slice(start, 9),
    "lazy slice": lambda frame, start: frame.lazy().slice(start, 9),
    "filter": lambda frame, start: frame.lazy().filter(
        ROW.is_between(start, start + 8)
    ),
}


@pytest.mark.parametrize("frame", [STRUCTS, ARRAYS], ids=["structs", "arrays"])
@pytest.mark.parametrize("start", [1, 3, 9])
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_rows_cut_out_of_a_polars_frame_are_those_rows(
    client, service, name, frame, start, cut
):
    rt.to_table(cut(frame, start), name)
    assert stored(service, name).to_pylist() == frame.to_dicts()[start : start + 9]


MISSING = [
    pd.Series([1.0, np.nan]),
    pd.Series([1, np.nan], dtype="float16"),
    pd.Series(pd.to_datetime(["2020-01-01", None])),
    pd.Series(pd.to_timedelta(["1s", None])),
    pd.Series([1, None], dtype="Int64"),
    pd.Series([True, None], dtype="boolean"),
    pd.Series(["x", None]),
    pd.Series(["x", np.nan], dtype=object),
    pd.Series(["x", None], dtype="category"),
]


@pytest.mark.parametrize("column", MISSING, ids=lambda column: str(column.dtype))
def test_what_pandas_calls_missing_is_null(column):
    assert send(pd.DataFrame({"c": column})).table()["c"].null_count == 1


def test_a_polars_nan_stays():
    frame = pl.DataFrame({"f": [1.0, float("nan"), None]})
    assert send(frame).table()["f"].null_count == 1


def test_dtypes_cast_on_the_way_and_the_callers_frame_is_never_changed(client, service):
    columns = {"a": [1, 2], "note": [None, None], "when": ["2020-01-01", "2021-02-03"]}
    frame = pd.DataFrame(columns, index=pd.Index([5, 6], name="k"))
    copy = frame.copy(deep=True)
    dtypes = {"a": "int8", "note": str, "when": pl.Date, "k": "float32"}
    table = there_and_back(client, service, frame, dtypes=dtypes)
    pd.testing.assert_frame_equal(frame, copy)
    assert table["k"].equals(pa.chunked_array([pa.array([5, 6], pa.float32())]))
    assert table["a"].equals(pa.chunked_array([pa.array([1, 2], pa.int8())]))
    assert table["note"].equals(pa.chunked_array([pa.nulls(2, pa.large_string())]))
    assert table["when"].to_pylist() == [dt.date(2020, 1, 1), dt.date(2021, 2, 3)]


def labeled(*labels: object) -> pd.DataFrame:
    columns = pd.Index(labels, tupleize_cols=False)
    return pd.DataFrame([range(len(labels))], columns=columns)


WIDE = [1, 300]
ONE_BYTE = {"dtypes": {"a": "int8"}}
REFUSED = [  # frames, options, and what is named
    (pd.DataFrame(index=range(3)), {}, "no columns"),
    (pl.DataFrame(), {}, "no columns"),
    (pa.table({}), {}, "no columns"),
    (labeled(1, "b"), {}, "strings.*1"),
    (labeled(("a", "b"), "c"), {}, r"strings.*\('a', 'b'\)"),
    (labeled("a", "a"), {}, "more than once.*'a'"),
    (labeled("a", ""), {}, "number 2.*empty"),
    (labeled("a", "x\ny"), {}, "control characters"),
    (labeled("a", "x.y"), {}, "dots.*'x.y'.*clean_names=True"),
    (pd.DataFrame({"a": WIDE}), ONE_BYTE, "'a'.*row 1.*300.*int8"),
    (pl.DataFrame({"a": WIDE}), ONE_BYTE, "'a'.*row 1.*300.*int8"),
    (pl.DataFrame({"a": [1]}), {"dtypes": {"b": "int8"}}, "'b'"),
    (pl.DataFrame({"a": [1]}), {"index": True}, "index.*pandas"),
]


@pytest.mark.parametrize(("frame", "options", "facts"), REFUSED)
def test_what_cannot_be_sent_is_named_before_anything_is_sent(
    remote, server, frame, options, facts
):
    with pytest.raises((ValueError, rt.errors.UnsupportedTypeError), match=facts):
        rt.to_table(frame, "t", **options)
    assert server.requests == []


MARS = pa.array([0], pa.timestamp("us", "Mars/Olympus"))
NO_ZONES = {  # columns in a zone that nobody knows
    "Arrow": pa.table({"at": MARS}),
    "a list": pa.table({"at": pa.ListArray.from_arrays([0, 1], MARS)}),
    "codes": pa.table({"at": MARS.dictionary_encode()}),
    "reader": pa.table({"at": MARS}).to_reader(),
    "pandas": pd.DataFrame({"at": pd.arrays.ArrowExtensionArray(MARS)}),
}


@pytest.mark.parametrize("frame", NO_ZONES.values(), ids=NO_ZONES)
def test_a_zone_that_nobody_knows_is_refused_by_column(remote, server, frame):
    words = r"'at.*Mars/Olympus"
    with pytest.raises(rt.errors.UnsupportedTypeError, match=words):
        rt.to_table(frame, "t")
    assert server.requests == []


ON_MARS = [
    "timestamp[us, tz=Mars/Olympus]",
    MARS.type,
    pl.Datetime("us", "Mars/Olympus"),
    pd.ArrowDtype(MARS.type),
    {"type": "timestamp:us:Mars/Olympus"},
]


@pytest.mark.parametrize("dtype", ON_MARS, ids=str)
def test_a_zone_that_nobody_knows_is_refused_as_a_dtype_and_in_plans(remote, dtype):
    calls = [
        lambda: rt.data_type(dtype),
        lambda: rt.plan_alterations({"at": "int64"}, {"at": dtype}),
        lambda: rt.to_table(pl.DataFrame({"at": [1]}), "t", dtypes={"at": dtype}),
    ]
    for call in calls:
        with pytest.raises(rt.errors.UnsupportedTypeError, match="Mars/Olympus"):
            call()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+05:30", "Etc/GMT+5"])
def test_a_zone_that_is_known_is_sent(zone):
    column = pa.array([0], pa.timestamp("us", zone))
    assert send(pa.table({"at": column})).table()["at"].type == column.type


class MoneyDtype(pd.api.extensions.ExtensionDtype):
    """A dtype of a library that only its arrays can write as Arrow."""

    name = "money"
    type = decimal.Decimal

    @classmethod
    def construct_array_type(cls):
        return MoneyArray


class MoneyArray(pd.api.extensions.ExtensionArray):
    dtype = MoneyDtype()

    def __init__(self, cents):
        self.cents = np.asarray(cents)

    def __len__(self):
        return len(self.cents)

    def __getitem__(self, rows):
        return MoneyArray(self.cents[rows])

    def copy(self):
        return MoneyArray(self.cents.copy())

    def __arrow_array__(self, type=None):  # noqa: A002  # the protocol's
        return pa.array(self.cents, pa.decimal128(9, 2))

    nbytes = 16


def test_a_column_that_only_its_array_can_write_is_sent_as_that_writes_it():
    frame = pd.DataFrame(
        {"price": MoneyArray([decimal.Decimal("1.50"), None]), "n": [1, 2]}
    )
    found = send(frame).table()
    assert found["price"].type == pa.decimal128(9, 2)
    assert found["price"].to_pylist() == [decimal.Decimal("1.50"), None]
    assert rt.schema(frame) == found.schema


SAME_NAMES = [
    (pd.DataFrame({"a": [1]}, index=pd.Index([7], name="a")), "'a'"),
    (pd.DataFrame({"index": [1]}, index=["x"]), "'index'"),
]


@pytest.mark.parametrize(("frame", "named"), SAME_NAMES)
def test_a_level_of_the_index_with_the_name_of_a_column_is_refused_or_left_out(
    remote, server, frame, named
):
    with pytest.raises(ValueError, match=f"{named}.*index=False"):
        rt.to_table(frame, "t")
    assert server.requests == []
    assert send(frame, index=False).table().to_pydict() == frame.to_dict("list")
    with pytest.raises(ValueError, match=named):
        send(frame, clean_names=True)


def one(level: object, **named: object) -> pd.DataFrame:
    return pd.DataFrame({"a": [1]}, index=pd.Index([level], **named))


def in_runs(level: object) -> pd.DataFrame:
    runs = pa.chunked_array([pa.RunEndEncodedArray.from_arrays([1], [level])])
    return pd.DataFrame({"a": [1]}, pd.Index(pd.arrays.ArrowExtensionArray(runs)))


PLAIN = pd.DataFrame({"a": [1]})
DAY = pd.DatetimeIndex(["2020-01-01"])
MULTI = pd.MultiIndex.from_tuples([(1, "x"), (2, "y")], names=["k", None])
NAMELESS = pd.MultiIndex.from_tuples([(1, 2)])
LEVEL = pd.MultiIndex.from_arrays([["x"]])
VIEWS = pd.ArrowDtype(pa.string_view())
TEXTS = pd.ArrowDtype(pa.large_string())
CODES = pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))
LISTS = pd.ArrowDtype(pa.list_view(pa.int8()))
CORRELATED = pd.DataFrame({"a": [1, 2, 3], "b": [3, 1, 2]}).corr()
FRAMES = [  # frames, the option, and the columns
    (PLAIN, None, ["a"]),
    (PLAIN, True, ["index", "a"]),
    (one(7, name="k"), None, ["k", "a"]),
    (one(7, name="k"), False, ["a"]),
    (one(7, name="k"), np.False_, ["a"]),
    (pd.DataFrame({"a": [1.0, 2.0]}, MULTI), None, ["k", "level_1", "a"]),
    (pd.DataFrame({"a": [1.0, 2.0]}, MULTI), False, ["a"]),
    (pd.DataFrame({"a": [1]}, DAY.rename("day")), None, ["day", "a"]),
    (pd.DataFrame({"a": [1]}, DAY), None, ["index", "a"]),
    (pd.DataFrame({"a": [1]}, DAY), False, ["a"]),
    (pd.DataFrame({"a": [1]}, pd.CategoricalIndex(["u"], name="c")), None, ["c", "a"]),
    (pd.DataFrame({"a": [1]}, NAMELESS), None, ["level_0", "level_1", "a"]),
    (pd.DataFrame({"a": [1]}, LEVEL), None, ["level_0", "a"]),
    (pd.DataFrame({"index": [1]}, LEVEL), None, ["level_0", "index"]),
    (pd.DataFrame({"a": [1]}, LEVEL), False, ["a"]),
    (one(1.5), None, ["index", "a"]),
    (one(True), None, ["index", "a"]),
    (one(7, dtype="Int64"), None, ["a"]),
    (one(7, dtype="uint8"), None, ["a"]),
    (one("x", dtype=VIEWS), None, ["index", "a"]),
    (one("x", dtype=TEXTS), None, ["index", "a"]),
    (one("x", dtype=CODES), None, ["index", "a"]),
    (one([7], dtype=LISTS), None, ["index", "a"]),
    (one([7], dtype=LISTS), True, ["index", "a"]),
    (in_runs(7), None, ["a"]),
    (in_runs("x"), None, ["index", "a"]),
    (pd.DataFrame({"a": [1.5, 2.5, 9.0]}).describe(), None, ["index", "a"]),
    (CORRELATED, None, ["index", "a", "b"]),
    (pd.DataFrame({"a": [1, 2, 3]}).query("a > 1"), None, ["a"]),
]


def as_text(values: list) -> list[str]:
    return [str(value) for value in values]


@pytest.mark.parametrize(("frame", "index", "columns"), FRAMES)
def test_index_levels_become_columns_by_rule(frame, index, columns):
    table = send(frame, index=index).table()
    wanted = frame.reset_index() if len(columns) > len(frame.columns) else frame
    assert table.schema.names == columns
    assert list(wanted.columns) == columns
    for name in columns:
        assert as_text(table[name].to_pylist()) == as_text(wanted[name].tolist())


@pytest.mark.parametrize("frame", [row[0] for row in FRAMES if row[1] is None])
def test_a_plan_has_the_same_columns_of_the_index(frame):
    sent = send(frame).table().schema
    assert rt.plan_alterations(frame, sent).to_json() == {"alterations": []}


def test_a_change_of_the_index_is_seen_by_a_plan():
    seconds = pd.DataFrame({"a": [1]}, index=DAY.as_unit("s"))
    milliseconds = pd.DataFrame({"a": [1]}, index=DAY.as_unit("ms"))
    (change,) = rt.plan_alterations(seconds, milliseconds)
    assert change.path == "index"
    plan = rt.plan_alterations(seconds, seconds.reset_index(drop=True))
    assert plan.left_alone == ("index",)
