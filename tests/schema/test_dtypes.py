"""Any dtype → the type that a column of it is sent as, or an error."""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys
import types
import typing
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from dateutil import tz
from hypothesis import given
from hypothesis import strategies as st
from polars.testing.parametric import dtypes as polars_dtypes

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.sent import send
from tests.support.types import same

TEXT = pa.large_string()
CODED = pa.dictionary(pa.int32(), TEXT)
DATE = dt.date(2025, 1, 1)
NOON = dt.datetime(2025, 1, 1, 12)
UTC_NOON = pd.Timestamp(NOON, tz="UTC")
DAY = dt.timedelta(1)
WEST = dt.timezone(dt.timedelta(hours=-1.5))
UINT8_CATEGORIES = pd.array([3], dtype="UInt8")
ARROW_CATEGORIES = pd.Index(["a"], dtype=pd.ArrowDtype(pa.string()))


def meant(dtype: object) -> pa.DataType:
    """Give the type in which a column is sent for which a dtype was asked."""
    sent = send(pa.table({"outer": pa.nulls(1)}), dtypes={"outer": dtype})
    return sent.schema.field("outer").type


def column(frame: object) -> pa.DataType:
    return send(frame).schema.field("c").type


LOWER = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
# as pandas and Polars call their own
UPPER = "Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Float32 Float64"
PANDAS = [  # a dtype or pandas' name of it, its Arrow type, a value of it
    (name, pa.type_for_alias(name.lower()), 1) for name in f"{LOWER} {UPPER}".split()
]
for unit in ("s", "ms", "us", "ns"):
    PANDAS += [
        (f"datetime64[{unit}]", pa.timestamp(unit), NOON),
        (f"timedelta64[{unit}]", pa.duration(unit), DAY),
        (f"datetime64[{unit}, UTC]", pa.timestamp(unit, "UTC"), UTC_NOON),
    ]
PANDAS += [
    ("bool", pa.bool_(), True),
    ("datetime64[ms, Asia/Tokyo]", pa.timestamp("ms", "Asia/Tokyo"), UTC_NOON),
    (pd.DatetimeTZDtype("us", WEST), pa.timestamp("us", "-01:30"), UTC_NOON),
    ("boolean", pa.bool_(), True),
    ("str", TEXT, "x"),
    ("string[python]", TEXT, "x"),
    ("string[pyarrow]", TEXT, "x"),
    (pd.ArrowDtype(pa.string()), TEXT, "x"),
    (pd.ArrowDtype(pa.string_view()), TEXT, "x"),
    (pd.ArrowDtype(pa.float32()), pa.float32(), 1.5),
    (pd.ArrowDtype(pa.date32()), pa.date32(), DATE),
    (pd.ArrowDtype(pa.decimal128(10, 2)), pa.decimal128(10, 2), Decimal("1.25")),
    (pd.ArrowDtype(pa.list_(pa.int8())), pa.list_(pa.int8()), [1]),
    (pd.CategoricalDtype(["b", "a"]), CODED, "a"),
    (pd.CategoricalDtype(["b", "a"], ordered=True), CODED, "a"),
    (pd.CategoricalDtype(pd.Index(["a"], dtype=object)), CODED, "a"),
    (pd.CategoricalDtype(ARROW_CATEGORIES), CODED, "a"),
    (pd.CategoricalDtype([3, 4]), pa.dictionary(pa.int32(), pa.int64()), 3),
    (pd.CategoricalDtype(UINT8_CATEGORIES), pa.dictionary(pa.int32(), pa.uint8()), 3),
    (pd.CategoricalDtype([1.5]), pa.float64(), 1.5),
    (pd.CategoricalDtype([True]), pa.bool_(), True),
    (pd.CategoricalDtype([DATE]), pa.date32(), DATE),
]


@pytest.mark.parametrize(("dtype", "arrow", "value"), PANDAS, ids=str)
def test_a_pandas_dtype_is_what_its_column_becomes(dtype, arrow, value):
    frame = pd.DataFrame({"c": pd.Series([value], dtype=dtype)})
    assert same(meant(dtype), arrow)
    assert same(meant(pd.api.types.pandas_dtype(dtype)), arrow)
    assert same(column(frame), arrow)


POLARS = [
    (getattr(pl, name), pa.type_for_alias(name.lower())) for name in UPPER.split()
]
POLARS += [
    (pl.Boolean, pa.bool_()),
    (pl.String, TEXT),
    (pl.Utf8, TEXT),
    (pl.Binary, pa.large_binary()),
    (pl.Date, pa.date32()),
    (pl.Time, pa.time64("ns")),
    (pl.Categorical, CODED),
    (pl.Enum(["a", "b"]), CODED),
    (pl.Datetime, pa.timestamp("us")),
    (pl.Datetime("ms", "Europe/Paris"), pa.timestamp("ms", "Europe/Paris")),
    (pl.Duration, pa.duration("us")),
    (pl.Duration("ns"), pa.duration("ns")),
    (pl.Decimal(10, 2), pa.decimal128(10, 2)),
    (pl.Decimal(scale=3), pa.decimal128(38, 3)),
    (pl.List(pl.String), pa.large_list(TEXT)),
    (pl.List(pl.Categorical), pa.large_list(CODED)),
    (pl.Array(pl.Int8, (2, 3)), pa.list_(pa.list_(pa.int8(), 3), 2)),
    (pl.Struct({"y": pl.List(pl.Date)}), pa.struct({"y": pa.large_list(pa.date32())})),
]
if hasattr(pl, "Float16"):  # since Polars 1.36
    POLARS.append((pl.Float16, pa.float16()))


@pytest.mark.parametrize(("dtype", "arrow"), POLARS, ids=str)
def test_a_polars_dtype_is_what_its_column_becomes_as_class_and_as_instance(
    dtype, arrow
):
    frame = pl.DataFrame(schema={"c": dtype})
    assert same(meant(dtype), arrow)
    assert same(meant(frame.schema["c"]), arrow)
    assert same(column(frame), arrow)


@pytest.mark.skipif(not hasattr(pl, "Map"), reason="Polars has it since 2.1")
def test_a_map_of_polars_is_a_map():
    assert meant(pl.Map(pl.String, pl.Int8)) == pa.map_(TEXT, pa.int8())
    with pytest.raises(UnsupportedTypeError, match=r"pl\.Map\("):
        meant(pl.Map)


NOT_EXPORTED = [pl.Object, pl.Int128, pl.UInt128, pl.Unknown]
exportable = polars_dtypes(excluded_dtypes=NOT_EXPORTED).filter(
    lambda dtype: "Extension" not in str(dtype)
)


@given(exportable)
def test_whatever_polars_nests_becomes_what_polars_itself_exports(dtype):
    frame = pl.DataFrame(schema={"c": dtype})
    exported = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    assert rt.data_type(dtype) == rt.data_type(exported.schema.field("c").type)


MOMENT_CATEGORIES = pd.DatetimeIndex([UTC_NOON]).as_unit("ms")
SHORT_CODES = pa.dictionary(pa.int8(), pa.string())
OTHERS = [
    (pd.Int64Dtype, pa.int64()),
    (pd.Float32Dtype, pa.float32()),
    (pd.BooleanDtype, pa.bool_()),
    (pd.StringDtype, TEXT),
    (pd.ArrowDtype(pa.decimal32(5, 2)), pa.decimal128(5, 2)),
    (pd.ArrowDtype(SHORT_CODES), pa.dictionary(pa.int32(), pa.string())),
    (pd.CategoricalDtype(MOMENT_CATEGORIES), pa.timestamp("ms", "UTC")),
    (np.int32, pa.int32()),
    (np.float16, pa.float16()),
    (np.longlong, pa.int64()),
    (np.bool_, pa.bool_()),
    (np.str_, TEXT),
    (np.bytes_, pa.large_binary()),
    (np.dtypes.StringDType(), TEXT),
    (np.dtype("U10"), TEXT),
    (np.dtype("S5"), pa.large_binary()),
    (np.dtype("M8[D]"), pa.date32()),
    (np.dtype(">i4"), pa.int32()),
    (np.dtype(">f8"), pa.float64()),
    (np.dtype(">M8[ms]"), pa.timestamp("ms")),
    (int, pa.int64()),
    (float, pa.float64()),
    (bool, pa.bool_()),
    (str, TEXT),
    (bytes, pa.large_binary()),
    (dt.datetime, pa.timestamp("us")),
    (dt.date, pa.date32()),
    (dt.time, pa.time64("ns")),
    (dt.timedelta, pa.duration("us")),
]


@pytest.mark.parametrize(("dtype", "arrow"), OTHERS, ids=str)
def test_classes_of_pandas_dtypes_of_numpy_and_types_of_python_are_known_too(
    dtype, arrow
):
    assert same(meant(dtype), arrow)


PYTHON = [int, float, bool, str, bytes, dt.datetime, dt.date, dt.time, dt.timedelta]


@pytest.mark.parametrize("kind", PYTHON)
def test_a_type_of_python_means_what_it_means_to_polars(kind):
    assert same(meant(kind), meant(pl.DataType.from_python(kind)))


NULLS = [
    pl.Null,
    pl.Null(),
    type(None),
    "null",
    pa.null(),
    pd.CategoricalDtype([]),
    pd.Categorical([None]).dtype,
]


@pytest.mark.parametrize("dtype", NULLS, ids=str)
def test_the_type_of_nulls_is_known_and_no_column_is_sent_in_it(dtype):
    assert rt.data_type(dtype) == {"type": "null"}
    with pytest.raises(UnsupportedTypeError, match="'outer' has no values, so its "):
        meant(dtype)


SPELLED = [  # beside the names of PANDAS
    ("int", pa.int64()),
    ("int64[pyarrow]", pa.int64()),
    ("i4", pa.int32()),
    (">i4", pa.int32()),
    ("float[pyarrow]", pa.float32()),
    ("double", pa.float64()),
    ("half", pa.float16()),
    ("halffloat", pa.float16()),
    ("?", pa.bool_()),
    ("string", TEXT),
    ("large_string", TEXT),
    ("string_view", TEXT),
    ("utf8[pyarrow]", TEXT),
    ("U10", TEXT),
    ("U8", TEXT),
    ("utf8", pa.string()),
    ("S5", pa.large_binary()),
    ("bytes", pa.large_binary()),
    ("large_binary", pa.large_binary()),
    ("binary", pa.binary()),
    ("fixed_size_binary[16]", pa.binary(16)),
    ("date32", pa.date32()),
    ("date32[day]", pa.date32()),
    ("date64[ms]", pa.date64()),
    ("time32[s]", pa.time32("s")),
    ("time64[us]", pa.time64("us")),
    ("timestamp[us]", pa.timestamp("us")),
    ("timestamp[us, tz=UTC]", pa.timestamp("us", "UTC")),
    ("timestamp[us,tz=UTC]", pa.timestamp("us", "UTC")),
    ("timestamp[us, tz=UTC][pyarrow]", pa.timestamp("us", "UTC")),
    ("timestamp[ns, tz=+05:30]", pa.timestamp("ns", "+05:30")),
    ("timestamp[s, tz=Asia/Ust-Nera]", pa.timestamp("s", "Asia/Ust-Nera")),
    ("timestamp[ms]", pa.timestamp("ms")),
    ("datetime64[us, Europe/Paris]", pa.timestamp("us", "Europe/Paris")),
    ("M8[s]", pa.timestamp("s")),
    ("duration[us]", pa.duration("us")),
    ("decimal128(10, 2)", pa.decimal128(10, 2)),
    ("decimal128(10, 2)[pyarrow]", pa.decimal128(10, 2)),
    ("decimal128(10,-2)", pa.decimal128(10, -2)),
    ("decimal256(50, 4)", pa.decimal256(50, 4)),
    ("decimal32(5, 2)", pa.decimal128(5, 2)),
]


@pytest.mark.parametrize(("text", "arrow"), SPELLED)
def test_a_string_means_what_pandas_or_arrow_says(text, arrow):
    assert meant(text) == arrow


def test_exactly_float_is_ambiguous():
    with pytest.raises(ValueError, match=r'"float64" or "float32"'):
        rt.data_type("float")


# as messages print them; of the bare words "float" and "string", see their own tests
PRINTED = [
    *map(pa.type_for_alias, ["bool", "int8", "uint64", "float16", "float64"]),
    *(pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(16)),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.duration("ms")),
    *(pa.timestamp("ns"), pa.timestamp("us", "Europe/Berlin")),
    *(pa.timestamp("s", "+05:30"), pa.decimal128(38, -3), pa.decimal256(40, 2)),
    *(pa.uuid(), pa.json_(), CODED, pa.dictionary(pa.int32(), pa.int8())),
]
flat = st.sampled_from(PRINTED)
inside = st.sampled_from([*PRINTED, pa.float32(), pa.string()])
field_names = st.sampled_from(["item", "x", "a b", "element", "größe", "not null"])


def nest(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.builds(pa.field, field_names, inner, st.booleans())
    items = st.builds(pa.field, st.just("item"), inner)
    several = st.lists(fields, min_size=1, unique_by=lambda field: field.name)
    lists = st.builds(pa.list_, fields) | st.builds(pa.large_list, fields)
    fixed_lists = st.builds(pa.list_, items, st.just(3))
    structs = st.builds(pa.struct, several)
    return lists | fixed_lists | structs


@given(flat | nest(st.recursive(inside, nest, max_leaves=5)))
def test_what_arrow_prints_of_a_type_is_read_as_that_type(arrow):
    printed = str(rt.Alteration("c", data_type=arrow).data_type)
    assert same(rt.Alteration("c", data_type=printed).data_type, arrow)
    assert rt.data_type(f"{printed}[pyarrow]") == rt.data_type(arrow)


def test_a_list_needs_no_name_for_its_items_and_a_map_is_read_as_printed():
    lists = pa.list_(pa.float32())
    assert meant("list<int64>") == pa.list_(pa.int64())
    assert meant("map<string, list<item: float>>") == pa.map_(pa.string(), lists)


@pytest.mark.parametrize("dtype", ["list", "list[int64]", "array<int>", "List(Int64)"])
def test_a_list_in_other_words_is_offered_as_one(dtype):
    with pytest.raises(ValueError, match='did you mean "list<item: int64>"'):
        rt.data_type(dtype)
    assert meant("list<item: int64>") == pa.list_(pa.int64())


OFFERED = {
    "decimal:128:10:2": "decimal128(10, 2)",
    "decimal:256:40:2": "decimal256(40, 2)",
    "decimal(10)": "decimal128(10, 0)",
    "NUMERIC(10,2)": "decimal128(10, 2)",
    "timestamp:us:UTC": "timestamp[us, tz=UTC]",
    "timestamp:ms:-": "timestamp[ms]",
    "timestamp:us:+05:30": "timestamp[us, tz=+05:30]",
    "timestamp[ms, tz = Europe/Berlin]": "timestamp[ms, tz=Europe/Berlin]",
    "Datetime(ns)": "timestamp[ns]",
    "timedelta(ms)": "duration[ms]",
    "time64:ns": "time64[ns]",
}


@pytest.mark.parametrize(("text", "offer"), OFFERED.items(), ids=OFFERED)
def test_a_type_that_is_offered_keeps_the_parameters(text, offer):
    with pytest.raises(ValueError, match=re.escape(f'did you mean "{offer}"?')):
        rt.data_type(text)
    assert str(meant(offer)) == offer


def test_the_type_inside_that_is_unknown_is_named():
    with pytest.raises(ValueError, match=r"'list<struct<x: foo>>': 'foo' is not a "):
        rt.data_type("list<struct<x: foo>>")


def test_a_type_nested_without_end_is_refused():
    with pytest.raises(UnsupportedTypeError, match="nested more than 32 levels"):
        rt.data_type("list<" * 5000 + "int64" + ">" * 5000)


MEANINGLESS = [
    *("", "nope", "Float", "INT64", " int64", "int64\n", "int64; drop", "pl.Int64"),
    *("list", "list<foo>", "list<item: int64>]", "list<item: decimal128(99, 2)>"),
    *("fixed_size_list<item: int64>[9999999999]", "fixed_size_binary[-1]"),
    *("dictionary<int64>", "dictionary<values=int64, indices=string, ordered=0>"),
    *("timestamp", "timestamp[us, tz=]", "timestamp[us, tz=a\nb]"),
    *("datetime64[ns, Nowhere/Zone]", "decimal128(39, 2)"),
    *("decimal128(10, 99999999999999999999)", "decimal128(" + "1" * 5000 + ", 2)"),
    *("\ud800", "x" * 100_000),
]


@pytest.mark.parametrize("text", MEANINGLESS, ids=lambda text: ascii(text)[:30])
def test_a_string_that_means_nothing_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"^column 'outer': dtype"):
        meant(text)


class Strange(pd.api.extensions.ExtensionDtype):
    """Another library's dtype, which claims more than is known."""

    type = int
    numpy_dtype = "int64"


class Hostile:
    """An object that does not want to be looked at."""

    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("compared")

    def __repr__(self):
        raise RuntimeError("shown")


class HostileType(type):
    def __hash__(cls):
        raise RuntimeError("hashed")

    def __eq__(cls, other):
        raise RuntimeError("compared")

    def __repr__(cls):
        raise RuntimeError("shown")


INTERVALS = pd.interval_range(0, 2)
HOURLY = tz.tzoffset("X", 3600)
NEW_YORK = tz.tzstr("EST5EDT")
UNEVEN = dt.timezone(dt.timedelta(seconds=90))
PARTS = pa.month_day_nano_interval()
REFUSED = [  # what helps, and a dtype that is refused with it
    ("Europe/Berlin", "timestamp[us, tz=Berlin]"),
    ("to_timestamp", pd.PeriodDtype("D")),
    ("to_timestamp", pd.PeriodDtype),
    ("to_timestamp", "period[D]"),
    ("IntervalIndex(column).left", pd.IntervalDtype("int64")),
    ("IntervalIndex(column).left", "interval[int64, right]"),
    ('map(str, na_action="ignore")', pd.CategoricalDtype(INTERVALS)),
    ('map(str, na_action="ignore")', pd.CategoricalDtype([object()])),
    ("to_dense", pd.SparseDtype("int64")),
    ("to_dense", "Sparse[int64]"),
    ("CategoricalDtype with categories, an Enum", pd.CategoricalDtype()),
    ("CategoricalDtype with categories, an Enum", pd.CategoricalDtype),
    ("CategoricalDtype with categories, an Enum", "category"),
    ("one simple type", pd.CategoricalDtype([1, "a"])),
    ("one simple type", pd.CategoricalDtype([(1, 2), (3, 4)])),
    ("instance", pd.DatetimeTZDtype),
    ("instance", pd.ArrowDtype),
    ("instance", Strange),
    ("tz_convert", pd.DatetimeTZDtype("us", HOURLY)),
    ("tz_convert", pd.DatetimeTZDtype("us", NEW_YORK)),
    ("tz_convert", pd.DatetimeTZDtype("us", UNEVEN)),
    ("astype", pd.api.extensions.ExtensionDtype),
    ("astype", Strange()),
    ("duration", pd.ArrowDtype(PARTS)),
    ("duration", PARTS),
    ("duration", "month_day_nano_interval"),
    ("what type its values have", np.dtype(object)),
    ("what type its values have", object),
    ("what type its values have", "object"),
    ("what type its values have", "O"),
    (".to_numpy().real", np.dtype("c16")),
    (".to_numpy().real", complex),
    (".to_numpy().real", "complex128"),
    ("float64", np.longdouble),
    ("float64", np.floating),
    ("size", np.floating),
    ("size", np.generic),
    ("column of each", np.dtype("V5")),
    ("column of each", np.dtype("i4,f8")),
    ("column of each", np.dtype(("i4", (3,)))),
    ("column of each", pa.dense_union([pa.field("a", pa.int8())])),
    ("unit of s, ms, us or ns", np.dtype("M8")),
    ("unit of s, ms, us or ns", np.dtype("M8[h]")),
    ("unit of s, ms, us or ns", np.dtype("M8[25s]")),
    ("unit of s, ms, us or ns", np.dtype("M8[2D]")),
    ("unit of s, ms, us or ns", np.dtype("m8[D]")),
    ("unit of s, ms, us or ns", np.dtype("m8[10ns]")),
    ("s, ms, us or ns", "datetime64"),
    ("s, ms, us or ns", "datetime64[h]"),
    ("pl.List(pl.Int64)", pl.List),
    ("pl.Array(pl.Float32, 3)", pl.Array),
    ("pl.Struct({", pl.Struct),
    ("pl.Struct({", pl.Struct([("x", pl.Int8)])),
    ("pl.Struct({", dict),
    ("pl.Struct({", dict[str, int]),
    ("pl.Enum(", pl.Enum),
    ("pl.Decimal(10, 2)", pl.Decimal),
    ("pl.Decimal(10, 2)", Decimal),
    ("pl.Decimal(38, 0)", pl.Int128),
    ("1 to 38 digits", pl.Decimal(50, 3)),
    ("1 to 38 digits", pl.Decimal(39)),
    ("1 to 38 digits", pl.Decimal(0, 0)),
    ("fewer items", pl.Array(pl.Int8, 2**31)),
    ("fewer items", pl.Array(pl.Int8, 2**40)),
    ("pl.UInt64", pl.UInt128),
    ("map_elements(str", pl.Object),
    ("cast it", pl.Unknown),
    ("cast it", pl.DataType),
    ("pyarrow.list_(", list),
    ("pyarrow.list_(", list[int]),
    ("pyarrow.list_(", typing.List[int]),  # noqa: UP006  # the old spelling is what is tried
    ("precision", Decimal),
    ("pass a dtype such as", True),
    ("pass a dtype such as", []),
    ("pass a dtype such as", int | None),
    ("pass a dtype such as", typing.Any),
    ("pass a dtype such as", pd.NA),
    ("pass a dtype such as", np.array([1, 2])),
    ("pass a dtype such as", pa.field("a", pa.int8())),
    ("pass a dtype such as", np.dtypes.Int32DType),
    ("an object of type Hostile", Hostile()),
    ("an object of type Hostile", HostileType("Named", (), {})),
]
if hasattr(pl, "Extension"):  # since Polars 1.36
    REFUSED.append(("instance", pl.Extension))
    REFUSED.append((".ext.storage()", pl.Extension("a.name", pl.String)))


@pytest.mark.parametrize(("helps", "dtype"), REFUSED)
def test_a_dtype_that_cannot_be_sent_is_refused_with_the_column_and_what_helps(
    helps, dtype
):
    with pytest.raises(UnsupportedTypeError) as refused:
        meant(dtype)
    assert "column 'outer'" in str(refused.value)
    assert helps in str(refused.value)
    with pytest.raises(UnsupportedTypeError):
        rt.data_type(dtype)


DEEP = [
    (pl.Struct({"x": pl.List(pl.Object)}), "outer.x.item"),
    (pl.Struct({".x": pl.Int128}), "outer..x"),
    (pl.Array(pl.Int128, (2, 3)), "outer.item.item"),
    (pl.List(pl.Decimal(50, 3)), "outer.item"),
    (pl.Struct({"x": pl.Array(pl.Int8, 2**31)}), "outer.x"),
    (pa.struct([("x", pa.list_(pa.field("element", PARTS)))]), "outer.x.element"),
    (pa.map_(pa.string(), pa.dense_union([])), "outer.value"),
    (pd.ArrowDtype(pa.list_(PARTS)), "outer.item"),
]


@pytest.mark.parametrize(("dtype", "path"), DEEP, ids=str)
def test_the_path_goes_down_to_what_cannot_be_sent(dtype, path):
    with pytest.raises(UnsupportedTypeError, match=rf"^column '{path}': "):
        meant(dtype)


class Money(pa.ExtensionType):
    """An extension type as Arrow's documentation shows them, which cannot be hashed."""

    def __init__(self) -> None:
        super().__init__(pa.string_view(), "some.money")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(
        cls, storage_type: pa.DataType, serialized: bytes
    ) -> Money:
        return cls()


MARKED = pa.field("x", pa.int8(), metadata={"pandas": "3.0"})
PLAIN = pa.field("x", pa.int8())
FULL_VIEWS = pa.field("x", pa.string_view(), nullable=False)
FULL_TEXTS = pa.field("x", TEXT, nullable=False)
PORTABLE = [
    (pa.string(), pa.string()),
    (pa.binary(), pa.binary()),
    (pa.string_view(), TEXT),
    (pa.binary_view(), pa.large_binary()),
    (pa.list_view(FULL_VIEWS), pa.list_(FULL_TEXTS)),
    (pa.large_list_view(pa.int8()), pa.large_list(pa.int8())),
    (pa.run_end_encoded(pa.int32(), pa.string_view()), TEXT),
    (pa.decimal32(5, 2), pa.decimal128(5, 2)),
    (pa.decimal64(10, 2), pa.decimal128(10, 2)),
    (pa.decimal256(50, 2), pa.decimal256(50, 2)),
    (pa.dictionary(pa.int8(), pa.string_view()), CODED),
    (pa.dictionary(pa.uint64(), pa.binary()), pa.dictionary(pa.int32(), pa.binary())),
    (pa.dictionary(pa.int8(), pa.float32()), pa.float32()),
    (pa.dictionary(pa.int8(), pa.date32()), pa.date32()),
    (pa.dictionary(pa.int8(), pa.decimal32(5, 2)), pa.decimal128(5, 2)),
    (pa.dictionary(pa.int8(), pa.list_(pa.string_view())), pa.list_(TEXT)),
    (pa.map_(pa.string_view(), pa.decimal32(5, 2)), pa.map_(TEXT, pa.decimal128(5, 2))),
    (pa.map_(pa.int8(), pa.int8(), keys_sorted=True), pa.map_(pa.int8(), pa.int8())),
    (pa.list_(pa.decimal32(5, 2), 3), pa.list_(pa.decimal128(5, 2), 3)),
    (pa.uuid(), pa.uuid()),
    (pa.json_(pa.string()), pa.json_(pa.string())),
    (pa.json_(pa.string_view()), pa.json_()),
    (pa.bool8(), pa.int8()),
    (Money(), TEXT),
    (pa.opaque(pa.string_view(), "a", "b"), TEXT),
    (pa.struct([MARKED]), pa.struct([PLAIN])),
    (pa.fixed_shape_tensor(pa.float32(), [2, 3]), pa.list_(pa.float32(), 6)),
    (pa.list_(MARKED), pa.list_(PLAIN)),
]


def assert_sent_as(asked: pa.DataType, sent: pa.DataType) -> None:
    empty = pa.Table.from_batches([], pa.schema({"c": asked}))
    assert same(meant(asked), sent)
    assert same(column(empty), sent)


def in_a_struct(arrow: pa.DataType) -> pa.DataType:
    items = pa.field("element", arrow, nullable=False)
    return pa.struct([pa.field("a", pa.list_(items), nullable=False)])


@pytest.mark.parametrize(("arrow", "portable"), PORTABLE, ids=str)
def test_an_arrow_type_is_sent_in_its_portable_form_whether_asked_for_or_had(
    arrow, portable
):
    assert_sent_as(arrow, portable)
    assert_sent_as(portable, portable)
    assert_sent_as(in_a_struct(arrow), in_a_struct(portable))


@pytest.mark.parametrize(
    "values", [pd.period_range("2025", "2025", freq="D"), INTERVALS]
)
def test_pandas_own_extension_types_are_refused(values):
    arrow = pa.Table.from_pandas(pd.DataFrame({"c": values})).schema.field("c").type
    assert arrow.extension_name.startswith("pandas.")
    with pytest.raises(UnsupportedTypeError, match=r"^column 'outer': pandas'"):
        meant(arrow)


WORDS = (
    "int64|float|timestamp[|us|, tz=|]|decimal128(|10|,|)|[pyarrow]|Sparse[|period["
    "|interval[|datetime64[|M8[|U|S|V|i4|category|>"
)
words = st.sampled_from(WORDS.split("|"))
spelling = st.text() | st.lists(words | st.characters(codec="ascii"), max_size=6).map(
    "".join
)
plain_objects = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.binary()
    | st.dates()
    | st.decimals()
)
objects = st.recursive(
    plain_objects
    | spelling
    | st.builds(Hostile)
    | st.sampled_from([int, str, list, pl.Int8, np.int8, pa.int8()]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(spelling, inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=5,
)
VALUES = []
for module in (pd, np, pl, pa, dt, typing):
    VALUES += vars(module).values()
anything = st.sampled_from(
    [value for value in VALUES if not isinstance(value, types.ModuleType)]
)


@given(spelling | objects | anything)
def test_whatever_is_given_is_a_type_or_an_error_of_ours(value):
    try:
        said = rt.data_type(value)
    except (UnsupportedTypeError, ValueError) as error:
        said = error
    if isinstance(said, Exception):
        assert type(said) in (UnsupportedTypeError, ValueError)
        assert 0 < len(str(said)) < 600
    else:
        assert rt.data_type(said) == said
        assert rt.data_type(rt.arrow_type(said)) == said


WITHOUT_PANDAS = """
import sys
sys.modules["pandas"] = None
import rt_frames as rt
try:
    rt.data_type("Int64")
except ValueError as error:
    print(error)
"""


def test_where_pandas_cannot_be_imported_its_spellings_are_unknown():
    printed = subprocess.check_output([sys.executable, "-c", WITHOUT_PANDAS], text=True)
    assert "'Int64'" in printed
    assert "int64" in printed
