"""Any dtype means what a column of it becomes when it is sent."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rt_frames as rt
from rt_frames._frames import source_of
from rt_frames.errors import UnsupportedTypeError

CATEGORY = "dict:large_string:int32:false"

SAID = [
    (np.int8, "int8"),
    (np.dtype("uint64"), "uint64"),
    (np.dtype(">f8"), "double"),
    (np.float16, "halffloat"),
    (np.bool_, "bool"),
    (np.str_, "large_string"),
    (np.dtype("U5"), "large_string"),
    (np.dtype("S5"), "large_binary"),
    (np.dtype("datetime64[ms]"), "timestamp:ms:-"),
    (np.dtype("timedelta64[ns]"), "duration:ns"),
    (pd.Int8Dtype(), "int8"),
    (pd.Int64Dtype, "int64"),
    (pd.Float32Dtype(), "float"),
    (pd.BooleanDtype(), "bool"),
    (pd.StringDtype("python"), "large_string"),
    (pd.StringDtype("pyarrow"), "large_string"),
    (pd.DatetimeTZDtype("ns", "Europe/Paris"), "timestamp:ns:Europe/Paris"),
    (pd.DatetimeTZDtype("s", "UTC"), "timestamp:s:UTC"),
    (pd.CategoricalDtype(["a"]), CATEGORY),
    (pd.CategoricalDtype([1, 2]), "dict:int64:int32:false"),
    (pd.CategoricalDtype([1.5]), "double"),
    (pd.ArrowDtype(pa.string()), "large_string"),
    (pd.ArrowDtype(pa.decimal128(10, 2)), "decimal:128:10:2"),
    (pd.ArrowDtype(pa.date32()), "date32:day"),
    (pl.Int8, "int8"),
    (pl.UInt64(), "uint64"),
    (pl.Float16, "halffloat"),
    (pl.Float32, "float"),
    (pl.Float64, "double"),
    (pl.Boolean, "bool"),
    (pl.String, "large_string"),
    (pl.Binary, "large_binary"),
    (pl.Date, "date32:day"),
    (pl.Time, "time64:ns"),
    (pl.Datetime, "timestamp:us:-"),
    (pl.Datetime("ms", "UTC"), "timestamp:ms:UTC"),
    (pl.Duration, "duration:us"),
    (pl.Duration("ns"), "duration:ns"),
    (pl.Decimal(10, 2), "decimal:128:10:2"),
    (pl.Categorical, CATEGORY),
    (pl.Enum(["a", "b"]), CATEGORY),
    (pl.Null, "null"),
    (pa.string_view(), "large_string"),
    (pa.binary_view(), "large_binary"),
    (pa.string(), "string"),
    (pa.decimal32(5, 2), "decimal:128:5:2"),
    (pa.run_end_encoded(pa.int32(), pa.string_view()), "large_string"),
    (pa.dictionary(pa.int8(), pa.string_view()), "dict:large_string:int8:false"),
    (bool, "bool"),
    (int, "int64"),
    (float, "double"),
    (str, "large_string"),
    (bytes, "large_binary"),
    (dt.datetime, "timestamp:us:-"),
    (dt.date, "date32:day"),
    (dt.time, "time64:ns"),
    (dt.timedelta, "duration:us"),
    ("str", "large_string"),
    ("string", "large_string"),
    ("utf8", "string"),
    ("int", "int64"),
    ("double", "double"),
    ("float32", "float"),
    ("Int64", "int64"),
    ("boolean", "bool"),
    ("f4", "float"),
    ("large_string", "large_string"),
    ("int64[pyarrow]", "int64"),
    ("string[python]", "large_string"),
    ("datetime64[ns]", "timestamp:ns:-"),
    ("datetime64[us, UTC]", "timestamp:us:UTC"),
    ("timestamp[us]", "timestamp:us:-"),
    ("timestamp[us, tz=UTC]", "timestamp:us:UTC"),
    ("timestamp[ns, tz=+01:00]", "timestamp:ns:+01:00"),
    ("duration[s]", "duration:s"),
    ("date32", "date32:day"),
    ("decimal128(10, 2)", "decimal:128:10:2"),
]


@pytest.mark.parametrize(("dtype", "name"), SAID, ids=[str(dtype) for dtype, _ in SAID])
def test_a_dtype_is_said_by_its_name(dtype, name):
    assert rt.data_type(dtype) == {"type": name}


def test_nested_dtypes_of_polars_are_said_with_their_fields():
    item = {"name": "item", "type": {"type": "large_string"}, "nullable": True}
    assert rt.data_type(pl.List(pl.String)) == {"type": "large_list", "fields": [item]}
    inner = {"type": "fixed_size_list", "fields": [{**item, "type": {"type": "int8"}}], "length": 3}
    assert rt.data_type(pl.Array(pl.Int8, (2, 3))) == {
        "type": "fixed_size_list",
        "fields": [{**item, "type": inner}],
        "length": 2,
    }
    x = {"name": "x", "type": {"type": "int8"}, "nullable": True}
    assert rt.data_type(pl.Struct({"x": pl.Int8})) == {"type": "struct", "fields": [x]}


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (object, "object.*not known"),
        (np.dtype(object), "object.*not known"),
        ("object", "object.*not known"),
        ("category", "no value type"),
        (pd.CategoricalDtype(), "no value type"),
        (decimal.Decimal, r"decimal128\(10, 2\)"),
        (pd.PeriodDtype("D"), "to_timestamp"),
        (pd.IntervalDtype("int64"), "left"),
        (pd.SparseDtype("int64"), "to_dense"),
        (np.complex128, "real"),
        (np.longdouble, "float64"),
        (np.dtype("datetime64"), "unit"),
        (np.dtype([("a", "i4")]), "cannot be sent"),
        (np.floating, "abstract"),
        (pl.Object, "Object"),
        (pl.Int128, "Int64"),
        (pl.List(pl.UInt128), "'item'.*UInt64"),
        (pl.List, r"pl\.List\(pl\.Int64\)"),
        (pl.Array, r"pl\.Array"),
        (pl.Struct, r"pl\.Struct"),
        (pl.Decimal, r"pl\.Decimal\(10, 2\)"),
        (pl.Enum, r"pl\.Enum"),
        (pl.Unknown, "Unknown"),
        (pa.month_day_nano_interval(), "duration"),
        (pa.dense_union([pa.field("a", pa.int8())]), "one column of each"),
        (pa.map_(pa.string(), pa.int8()), "no data_type"),
        (list, "say a dtype"),
        (list[int], "say a dtype"),
        (None, "say a dtype"),
        (3.5, "say a dtype"),
    ],
    ids=str,
)
def test_what_cannot_be_said_is_refused_with_advice(dtype, words):
    with pytest.raises(UnsupportedTypeError, match=words):
        rt.data_type(dtype)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("float", "float64.*float32"),
        ("foo", "'foo' is not known"),
        ("", "is not known"),
        ("decimal128(99, 2)", "precision"),
        ("timestamp[us, tz=UTC][pyarrow", "is not known"),
        ("int64; drop", "is not known"),
    ],
)
def test_strings_that_mean_nothing_or_two_things_are_refused(text, words):
    with pytest.raises(ValueError, match=words):
        rt.data_type(text)


anything = st.one_of(
    st.text(),
    st.binary(),
    st.integers(),
    st.floats(),
    st.lists(st.integers()),
    st.dictionaries(st.text(), st.text()),
    st.from_regex(r"(int|float|datetime64|timestamp|decimal128|Sparse|period|interval|category)[\[(<]?\w{0,4}[\])>]?"),
    st.sampled_from([Exception, type, int.__add__, rt, pd.DataFrame, pl.DataFrame, pl.col("a"), pa.schema([])]),
)


@settings(max_examples=1000, deadline=None, derandomize=True)
@given(anything)
def test_nothing_is_guessed_and_nothing_crashes(dtype):
    try:
        said = rt.data_type(dtype)
    except (ValueError, UnsupportedTypeError):
        return
    assert rt.data_type(rt.arrow_type(said)) == said


def sent_as(frame: object) -> dict:
    return rt.data_type(source_of(frame).schema.field("c").type)


@pytest.mark.parametrize(
    "dtype",
    [d for d, _ in SAID if isinstance(d, np.dtype | pd.api.extensions.ExtensionDtype) and str(d) not in ("<U5", "|S5")],
    ids=str,
)
def test_a_pandas_column_is_sent_as_its_dtype_says(dtype):
    assert sent_as(pd.DataFrame({"c": pd.Series([], dtype=dtype)})) == rt.data_type(dtype)


@pytest.mark.parametrize(
    "dtype",
    [
        *[d for d, _ in SAID if isinstance(d, pl.DataType) or (isinstance(d, type) and issubclass(d, pl.DataType))],
        pl.List(pl.List(pl.Categorical)),
        pl.Array(pl.Float32, (2, 3)),
        pl.Struct({"x": pl.Enum(["a"]), "y": pl.List(pl.Time)}),
    ],
    ids=str,
)
def test_a_polars_column_is_sent_as_its_dtype_says(dtype):
    if dtype == pl.Null:
        with pytest.raises(UnsupportedTypeError, match="no values and no type"):
            sent_as(pl.DataFrame(schema={"c": dtype}))
    else:
        assert sent_as(pl.DataFrame(schema={"c": dtype})) == rt.data_type(dtype)


@pytest.mark.parametrize("arrow", [pa.dictionary(pa.int8(), pa.string()), pa.list_view(pa.string_view()), pa.uuid()])
def test_an_arrow_column_is_sent_in_its_portable_form(arrow):
    frame = pa.table({"c": pa.array([], arrow)})
    sent = source_of(frame).schema.field("c").type
    assert pa.Table.from_batches(source_of(frame).open(), source_of(frame).schema).schema.field("c").type == sent
    assert sent == {"list_view": pa.list_(pa.large_string())}.get(str(arrow).partition("<")[0], arrow)
