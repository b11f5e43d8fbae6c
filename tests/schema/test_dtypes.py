"""Any dtype → what a column of it becomes when it is sent, and the errors for those that become nothing."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import subprocess
import sys
import typing

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
from rt_frames._schema.any_dtype import to_arrow_type
from rt_frames._schema.portable import to_portable
from rt_frames.errors import UnsupportedTypeError
from tests.support.sent import send
from tests.support.types import same

TEXT, CODED = pa.large_string(), pa.dictionary(pa.int32(), pa.large_string())
DATE, NOON = dt.date(2025, 1, 1), dt.datetime(2025, 1, 1, 12)


# dtype, its Arrow type, a value of it
PANDAS = [
    *((np.dtype(n), pa.type_for_alias(n), 1) for n in ("int8", "int16", "int32", "int64", "uint8", "uint16")),
    *((np.dtype(n), pa.type_for_alias(n), 1) for n in ("uint32", "uint64", "float16", "float32", "float64", "bool")),
    *((pd.api.types.pandas_dtype(n), pa.type_for_alias(n.lower()), 1) for n in ("Int8", "Int16", "Int32", "Int64")),
    *((pd.api.types.pandas_dtype(n), pa.type_for_alias(n.lower()), 1) for n in ("UInt8", "UInt16", "UInt32", "UInt64")),
    *((pd.api.types.pandas_dtype(n), pa.type_for_alias(n.lower()), 1) for n in ("Float32", "Float64")),
    *((np.dtype(f"M8[{unit}]"), pa.timestamp(unit), NOON) for unit in ("s", "ms", "us", "ns")),
    *((np.dtype(f"m8[{unit}]"), pa.duration(unit), dt.timedelta(1)) for unit in ("s", "ms", "us", "ns")),
    *((pd.DatetimeTZDtype(u, "UTC"), pa.timestamp(u, "UTC"), NOON) for u in ("s", "ms", "us", "ns")),
    (pd.DatetimeTZDtype("ms", "Europe/Paris"), pa.timestamp("ms", "Europe/Paris"), NOON),
    (pd.DatetimeTZDtype("us", dt.timezone(dt.timedelta(hours=-1.5))), pa.timestamp("us", "-01:30"), NOON),
    (pd.BooleanDtype(), pa.bool_(), True),
    (pd.StringDtype("python"), TEXT, "x"),
    (pd.StringDtype("pyarrow"), TEXT, "x"),
    *([(pd.StringDtype(na_value=np.nan), TEXT, "x")] if pd.__version__ >= "3" else []),
    (pd.ArrowDtype(pa.string()), TEXT, "x"),
    (pd.ArrowDtype(pa.float32()), pa.float32(), 1.5),
    (pd.ArrowDtype(pa.date32()), pa.date32(), DATE),
    (pd.ArrowDtype(pa.decimal128(10, 2)), pa.decimal128(10, 2), decimal.Decimal("1.25")),
    (pd.ArrowDtype(pa.list_(pa.int8())), pa.list_(pa.int8()), [1]),
    (pd.CategoricalDtype(["b", "a"]), CODED, "a"),
    (pd.CategoricalDtype(["b", "a"], ordered=True), CODED, "a"),
    (pd.CategoricalDtype(pd.Index(["a"], dtype=object)), CODED, "a"),
    (pd.CategoricalDtype(pd.Index(["a"], dtype=pd.ArrowDtype(pa.string()))), CODED, "a"),
    (pd.CategoricalDtype([3, 4]), pa.dictionary(pa.int32(), pa.int64()), 3),
    (pd.CategoricalDtype(pd.array([3], dtype="UInt8")), pa.dictionary(pa.int32(), pa.uint8()), 3),
    (pd.CategoricalDtype([1.5]), pa.float64(), 1.5),
    (pd.CategoricalDtype([True]), pa.bool_(), True),
    (pd.CategoricalDtype([DATE]), pa.date32(), DATE),
]


@pytest.mark.parametrize(("dtype", "arrow", "value"), PANDAS, ids=[str(dtype) for dtype, _, _ in PANDAS])
def test_a_pandas_dtype_is_what_its_column_becomes(dtype, arrow, value):
    assert same(to_arrow_type(dtype), arrow)
    value = pd.Timestamp(value).tz_localize("UTC") if getattr(dtype, "tz", None) else value
    frame = pd.DataFrame({"c": pd.Series([value], dtype=dtype)})
    (batch,) = send(frame).batches()
    assert same(batch.schema.field("c").type, arrow)
    assert same(as_sent(pa.Table.from_pandas(frame).schema.field("c").type), arrow)


def as_sent(arrow: pa.DataType) -> pa.DataType:
    """Give the one form of categories and of text from pandas to what pandas' own conversion makes of a column."""
    arrow = to_portable(arrow)
    if not pa.types.is_dictionary(arrow):
        return TEXT if pa.types.is_string(arrow) else arrow
    value = as_sent(arrow.value_type)
    integer_or_text = pa.types.is_integer(value) or value == TEXT
    return pa.dictionary(pa.int32(), value) if integer_or_text else value


@pytest.mark.parametrize(
    ("dtype", "arrow"),
    [
        (pd.Int64Dtype, pa.int64()),
        (pd.Float32Dtype, pa.float32()),
        (pd.BooleanDtype, pa.bool_()),
        (pd.StringDtype, TEXT),
        (pd.ArrowDtype(pa.string_view()), TEXT),
        (pd.ArrowDtype(pa.decimal32(5, 2)), pa.decimal128(5, 2)),
        (pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())), pa.dictionary(pa.int32(), pa.string())),
        (pd.CategoricalDtype([]), pa.null()),
        (pd.CategoricalDtype(pd.DatetimeIndex([NOON], tz="UTC").as_unit("ms")), pa.timestamp("ms", "UTC")),
        (pd.DatetimeTZDtype("us", tz.gettz("Europe/Paris")), pa.timestamp("us", "Europe/Paris")),
        (np.int32, pa.int32()),
        (np.float16, pa.float16()),
        (np.longlong, pa.int64()),
        (np.bool_, pa.bool_()),
        (np.str_, TEXT),
        (np.bytes_, pa.large_binary()),
        (np.dtype(">i4"), pa.int32()),
        (np.dtype(">f8"), pa.float64()),
        (np.dtype(">M8[ms]"), pa.timestamp("ms")),
        (np.dtype("U10"), TEXT),
        (np.dtype("S5"), pa.large_binary()),
        (np.dtypes.StringDType(), TEXT),
        (np.dtype("M8[D]"), pa.date32()),
    ],
    ids=str,
)
def test_classes_of_pandas_and_dtypes_of_numpy_are_known_too(dtype, arrow):
    assert same(to_arrow_type(dtype), arrow)


POLARS = [
    *((getattr(pl, n), pa.type_for_alias(n.lower())) for n in ("Int8", "Int16", "Int32", "Int64", "Float32")),
    *((getattr(pl, n), pa.type_for_alias(n.lower())) for n in ("UInt8", "UInt16", "UInt32", "UInt64", "Float64")),
    (pl.Boolean, pa.bool_()),
    (pl.String, TEXT),
    (pl.Utf8, TEXT),
    (pl.Binary, pa.large_binary()),
    (pl.Date, pa.date32()),
    (pl.Time, pa.time64("ns")),
    (pl.Null, pa.null()),
    (pl.Datetime, pa.timestamp("us")),
    (pl.Datetime("ms", "Europe/Paris"), pa.timestamp("ms", "Europe/Paris")),
    (pl.Duration, pa.duration("us")),
    (pl.Duration("ns"), pa.duration("ns")),
    (pl.Decimal(10, 2), pa.decimal128(10, 2)),
    (pl.Decimal(scale=3), pa.decimal128(38, 3)),
    (pl.Categorical, CODED),
    (pl.Enum(["a", "b"]), CODED),
    (pl.List(pl.String), pa.large_list(TEXT)),
    (pl.List(pl.Categorical), pa.large_list(CODED)),
    (pl.Array(pl.Int8, 3), pa.list_(pa.int8(), 3)),
    (pl.Array(pl.Int8, (2, 3)), pa.list_(pa.list_(pa.int8(), 3), 2)),
    (
        pl.Struct({"x": pl.Int8, "y": pl.List(pl.Date)}),
        pa.struct([("x", pa.int8()), ("y", pa.large_list(pa.date32()))]),
    ),
]
if hasattr(pl, "Float16"):  # since Polars 1.36
    POLARS.append((pl.Float16, pa.float16()))


@pytest.mark.parametrize(("dtype", "arrow"), POLARS, ids=[str(dtype) for dtype, _ in POLARS])
def test_a_polars_dtype_is_known_as_class_and_as_instance(dtype, arrow):
    assert same(to_arrow_type(dtype), arrow)
    if isinstance(dtype, type):
        assert same(to_arrow_type(dtype()), arrow)


def test_a_map_of_polars_is_a_map():
    kind = getattr(pl, "Map", None)
    if kind is not None:  # Polars has it since 2.1
        assert to_arrow_type(kind(pl.String, pl.Int8)) == pa.map_(TEXT, pa.int8())
        with pytest.raises(UnsupportedTypeError, match=r"pl\.Map\("):
            to_arrow_type(kind)


exportable = polars_dtypes(excluded_dtypes=[pl.Object, pl.Int128, pl.UInt128, pl.Unknown])


def small_dictionaries(arrow: pa.DataType) -> pa.DataType:
    """Give categories their one form, at any depth."""
    if pa.types.is_dictionary(arrow):
        return CODED
    if pa.types.is_struct(arrow):
        return pa.struct([field.with_type(small_dictionaries(field.type)) for field in arrow])
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(arrow.value_field.with_type(small_dictionaries(arrow.value_type)), arrow.list_size)
    if pa.types.is_large_list(arrow):
        return pa.large_list(arrow.value_field.with_type(small_dictionaries(arrow.value_type)))
    return arrow


@given(exportable.filter(lambda dtype: "Extension" not in str(dtype)))
def test_whatever_polars_nests_becomes_what_polars_itself_exports(dtype):
    exported = pl.DataFrame(schema={"c": dtype}).to_arrow(compat_level=pl.CompatLevel.oldest())
    assert same(to_arrow_type(dtype), small_dictionaries(to_portable(exported.schema.field("c").type)))


@pytest.mark.parametrize(
    ("dtype", "arrow"),
    [
        (int, pa.int64()),
        (float, pa.float64()),
        (bool, pa.bool_()),
        (str, TEXT),
        (bytes, pa.large_binary()),
        (dt.datetime, pa.timestamp("us")),
        (dt.date, pa.date32()),
        (dt.time, pa.time64("ns")),
        (dt.timedelta, pa.duration("us")),
        (type(None), pa.null()),
    ],
)
def test_a_python_type_is_what_polars_takes_it_for(dtype, arrow):
    assert to_arrow_type(dtype) == arrow
    assert to_arrow_type(pl.DataType.from_python(dtype)) == arrow


SPELLED = {
    "int64": pa.int64(),
    "int": pa.int64(),
    "Int64": pa.int64(),
    "i4": pa.int32(),
    ">i4": pa.int32(),
    "uint8": pa.uint8(),
    "float32": pa.float32(),
    "Float32": pa.float32(),
    "double": pa.float64(),
    "half": pa.float16(),
    "halffloat": pa.float16(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "?": pa.bool_(),
    "str": TEXT,
    "string": TEXT,
    "utf8": pa.string(),
    "large_string": TEXT,
    "string_view": TEXT,
    "string[python]": TEXT,
    "string[pyarrow]": TEXT,
    "utf8[pyarrow]": TEXT,
    "U10": TEXT,
    "U8": TEXT,
    "S5": pa.large_binary(),
    "bytes": pa.large_binary(),
    "binary": pa.binary(),
    "fixed_size_binary[16]": pa.binary(16),
    "date32": pa.date32(),
    "date32[day]": pa.date32(),
    "date64[ms]": pa.date64(),
    "time32[s]": pa.time32("s"),
    "time64[us]": pa.time64("us"),
    "timestamp[us]": pa.timestamp("us"),
    "timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"),
    "timestamp[ns, tz=+05:30]": pa.timestamp("ns", "+05:30"),
    "timestamp[s, tz=America/Port-au-Prince]": pa.timestamp("s", "America/Port-au-Prince"),
    "datetime64[ms]": pa.timestamp("ms"),
    "datetime64[ns, UTC]": pa.timestamp("ns", "UTC"),
    "datetime64[us, Europe/Paris]": pa.timestamp("us", "Europe/Paris"),
    "M8[s]": pa.timestamp("s"),
    "timedelta64[ns]": pa.duration("ns"),
    "duration[us]": pa.duration("us"),
    "decimal128(10, 2)": pa.decimal128(10, 2),
    "decimal128(10,-2)": pa.decimal128(10, -2),
    "decimal256(50, 4)": pa.decimal256(50, 4),
    "decimal32(5, 2)": pa.decimal128(5, 2),
    "null": pa.null(),
    "int64[pyarrow]": pa.int64(),
    "float[pyarrow]": pa.float32(),
    "timestamp[us, tz=UTC][pyarrow]": pa.timestamp("us", "UTC"),
    "decimal128(10, 2)[pyarrow]": pa.decimal128(10, 2),
}


@pytest.mark.parametrize(("text", "arrow"), SPELLED.items())
def test_a_string_means_what_pandas_or_arrow_says(text, arrow):
    assert to_arrow_type(text) == arrow


@pytest.mark.parametrize(
    "arrow", [a for a in SPELLED.values() if not pa.types.is_float16(a) and a != pa.float32()], ids=str
)
def test_what_arrow_prints_can_be_said(arrow):
    assert to_arrow_type(str(arrow)) == (TEXT if arrow == pa.string() else arrow)


def test_exactly_float_is_ambiguous():
    with pytest.raises(ValueError, match=r'64 bits in pandas and 32 in Arrow; pass "float64" or "float32"'):
        rt.data_type("float")


MEANINGLESS = [
    *("", "nope", "Float", "INT64", " int64", "int64\n", "int 64", "list", "list<item: int64>", "pl.Int64"),
    *("a5", "timestamp", "timestamp[x]", "timestamp[us, tz=]", "timestamp[us, tz=a b]", "timestamp[us, tz=a\nb]"),
    *("decimal(10, 2)", "decimal128(39, 2)", "decimal128(0, 0)", "decimal128(10, 99999999999999999999)"),
    *(
        "int64; drop",
        "timestamp[us, tz=UTC][pyarrow",
        "fixed_size_binary[-1]",
        "datetime64[ns, Nowhere/Zone]",
        "timestamp:us:UTC",
        "\0",
        "\ud800",
        "é",
    ),
    *("x" * 100_000, "decimal128(" + "1" * 5000 + ", 2)"),
]


@pytest.mark.parametrize("text", MEANINGLESS, ids=lambda text: ascii(text)[:30])
def test_a_string_that_means_nothing_is_a_value_error(text):
    with pytest.raises(ValueError, match="dtype"):
        to_arrow_type(text)


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


REFUSED = [
    (pd.PeriodDtype("D"), r"period\[D\].*to_timestamp"),
    (pd.PeriodDtype, r"PeriodDtype.*to_timestamp"),
    (pd.IntervalDtype("int64"), r"interval\[int64\].*\.array\.left"),
    (pd.CategoricalDtype(pd.interval_range(0, 2)), r'interval.*map\(str, na_action="ignore"\)'),
    (pd.SparseDtype("int64"), r"Sparse.*to_dense"),
    (pd.CategoricalDtype(), r"CategoricalDtype without categories.*value type"),
    (pd.CategoricalDtype, r"CategoricalDtype without categories.*value type"),
    (pd.CategoricalDtype([1, "a"]), r"category of int and str.*one plain kind"),
    (pd.CategoricalDtype([(1, 2), (3, 4)]), r"category of tuple.*one plain kind"),
    (pd.CategoricalDtype([object()]), r"category of object.*one plain kind"),
    (pd.DatetimeTZDtype, r"DatetimeTZDtype without parameters.*instance"),
    (pd.ArrowDtype, r"ArrowDtype without parameters.*instance"),
    (pd.DatetimeTZDtype("us", tz.tzoffset("X", 3600)), r"time zone.*tz_convert"),
    (pd.DatetimeTZDtype("us", tz.tzstr("EST5EDT")), r"time zone.*tz_convert"),
    (pd.DatetimeTZDtype("us", dt.timezone(dt.timedelta(seconds=90))), r"time zone.*tz_convert"),
    (pd.api.extensions.ExtensionDtype, r"astype"),
    (Strange(), r"Strange.*astype"),
    (Strange, r"Strange.*instance"),
    (pd.ArrowDtype(pa.month_day_nano_interval()), r"month_day_nano_interval.*duration"),
    (np.dtype(object), r"object.*values' type is not known"),
    (np.dtype("c16"), r"complex128.*\.real and \.imag"),
    (np.longdouble, r"float128.*float64" if np.dtype(np.longdouble).itemsize == 16 else "float64"),
    (np.dtype("V5"), r"V5.*column of each"),
    (np.dtype("i4,f8"), r"f0.*column of each"),
    (np.dtype(("i4", (3,))), r"i4.*column of each"),
    (np.dtype("M8"), r"datetime64.*unit of s, ms, us or ns"),
    (np.dtype("M8[h]"), r"datetime64\[h\].*unit of s, ms, us or ns"),
    (np.dtype("M8[25s]"), r"datetime64\[25s\].*unit of s, ms, us or ns"),
    (np.dtype("M8[2D]"), r"datetime64\[2D\].*unit of s, ms, us or ns"),
    (np.dtype("m8[D]"), r"timedelta64\[D\].*unit of s, ms, us or ns"),
    (np.dtype("m8[10ns]"), r"timedelta64\[10ns\].*unit of s, ms, us or ns"),
    (np.floating, r"abstract floating.*size"),
    (np.generic, r"abstract generic.*size"),
    (pl.List, r"pl\.List\(pl\.Int64\)"),
    (pl.Array, r"pl\.Array\(pl\.Float32, 3\)"),
    (pl.Struct, r"pl\.Struct\("),
    (pl.Enum, r"pl\.Enum\("),
    (pl.Decimal, r"pl\.Decimal\(10, 2\)"),
    (pl.Struct([("x", pl.Int8)]), r"Struct of .*pl\.Struct\(\{"),
    (pl.Int128, r"Int128.*pl\.Decimal\(38, 0\)"),
    (pl.UInt128, r"UInt128.*pl\.UInt64"),
    (pl.Object, r"Object.*map_elements\(str"),
    (pl.Unknown, r"Unknown.*cast it"),
    (pl.DataType, r"DataType.*cast it"),
    (decimal.Decimal, r"precision.*decimal128\(10, 2\)"),
    (object, r"object.*values' type is not known"),
    (complex, r"\.real and \.imag"),
    (list, r"pyarrow\.list_\("),
    (list[int], r"pyarrow\.list_\("),
    (typing.List[int], r"pyarrow\.list_\("),  # noqa: UP006  # the old spelling is what is tried
    (dict, r"pl\.Struct\("),
    (dict[str, int], r"pl\.Struct\("),
    ("object", r"object.*values' type is not known"),
    ("O", r"object.*values' type is not known"),
    ("category", r"category.*CategoricalDtype or Enum"),
    ("period[D]", r"period\[D\].*to_timestamp"),
    ("interval[int64, right]", r"interval.*\.array\.left"),
    ("Sparse[int64]", r"Sparse.*to_dense"),
    ("complex128", r"\.real and \.imag"),
    ("datetime64", r"datetime64.*unit of s, ms, us or ns"),
    ("datetime64[h]", r"datetime64\[h\].*unit of s, ms, us or ns"),
    ("month_day_nano_interval", r"month_day_nano_interval.*duration"),
    (pa.month_day_nano_interval(), r"month_day_nano_interval.*duration"),
    (pa.dense_union([pa.field("a", pa.int8())]), r"union.*one column of each"),
    *(
        (value, "for example")
        for value in (None, 5, 1.5, True, b"int64", (), [], set(), ..., NotImplemented, int | None)
    ),
    *(
        (value, "for example")
        for value in (typing.Any, set, dt.tzinfo, collections, pd.NaT, pd.NA, pd.Timestamp, pl.col("a"))
    ),
    *((value, "for example") for value in (np.int32(4), np.array([1, 2]), pd.Series([1, 2]), pl.Series([1]), pa.int64)),
    *((value, "for example") for value in (pa.field("a", pa.int8()), pa.schema([]), np.dtype, np.dtypes.Int32DType)),
    (Hostile(), "an object of type Hostile"),
    (HostileType("Named", (), {}), "an object of type HostileType"),
]
if hasattr(pl, "Extension"):  # since Polars 1.36
    REFUSED += [(pl.Extension, "instance"), (pl.Extension("a.name", pl.String), r"a\.name.*\.ext\.storage\(\)")]


@pytest.mark.parametrize(
    ("dtype", "message"), REFUSED, ids=[f"{i}-{message}" for i, (_, message) in enumerate(REFUSED)]
)
def test_a_dtype_that_cannot_be_sent_is_refused_with_the_column_and_what_helps(dtype, message):
    with pytest.raises(UnsupportedTypeError, match=f"(?s)^column 'outer': .*{message}"):
        to_arrow_type(dtype, "outer")
    with pytest.raises(UnsupportedTypeError):
        rt.data_type(dtype)


@pytest.mark.parametrize(
    ("dtype", "path"),
    [
        (pl.Struct({"x": pl.List(pl.Object)}), "c.x.item"),
        (pl.Struct({".x": pl.Int128}), "c..x"),
        (pl.Array(pl.Int128, (2, 3)), "c.item.item"),
        (pa.struct([("x", pa.list_(pa.field("element", pa.month_day_nano_interval())))]), "c.x.element"),
        (pa.map_(pa.string(), pa.dense_union([])), "c.value"),
        (pd.ArrowDtype(pa.list_(pa.month_day_nano_interval())), "c.item"),
    ],
    ids=str,
)
def test_the_path_goes_down_to_what_cannot_be_sent(dtype, path):
    with pytest.raises(UnsupportedTypeError, match=rf"^column '{path}': "):
        to_arrow_type(dtype, "c")


def in_a_struct(arrow: pa.DataType) -> pa.DataType:
    element = pa.field("element", arrow, nullable=pa.types.is_null(arrow))
    return pa.struct([pa.field("a", pa.list_(element), nullable=False)])


class Money(pa.ExtensionType):
    """An extension type as Arrow's documentation shows them, which cannot be hashed."""

    def __init__(self) -> None:
        super().__init__(pa.string_view(), "some.money")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Money:
        return cls()


PORTABLE = [
    (pa.string(), pa.string()),
    (pa.binary(), pa.binary()),
    (pa.string_view(), TEXT),
    (pa.binary_view(), pa.large_binary()),
    (pa.list_view(pa.field("x", pa.string_view(), nullable=False)), pa.list_(pa.field("x", TEXT, nullable=False))),
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
    (pa.map_(pa.field("k", pa.int8(), nullable=False), pa.int8()),) * 2,
    (pa.map_(pa.int8(), pa.int8(), keys_sorted=True), pa.map_(pa.int8(), pa.int8())),
    (pa.list_(pa.string_view(), 3), pa.list_(TEXT, 3)),
    (pa.null(), pa.null()),
    (pa.uuid(), pa.uuid()),
    (pa.json_(pa.string()), pa.json_(pa.string())),
    (pa.json_(pa.string_view()), pa.json_(TEXT)),
    (pa.bool8(), pa.int8()),
    (pa.opaque(pa.string_view(), "a", "b"), TEXT),
    (pa.fixed_shape_tensor(pa.float32(), [2, 3]), pa.list_(pa.float32(), 6)),
    (Money(), TEXT),
]


@pytest.mark.parametrize(("arrow", "sent"), PORTABLE, ids=[str(arrow) for arrow, _ in PORTABLE])
def test_an_arrow_type_becomes_its_portable_form_at_any_depth(arrow, sent):
    assert same(to_arrow_type(arrow), sent)
    assert same(to_arrow_type(in_a_struct(arrow)), in_a_struct(sent))
    assert same(to_portable(sent), sent)


def test_metadata_of_children_is_dropped():
    inner = pa.field("x", pa.int8(), metadata={"pandas": "3.0"})
    assert to_arrow_type(pa.struct([inner])).field("x").metadata is None
    assert to_arrow_type(pa.list_(inner)).value_field.metadata is None


@pytest.mark.parametrize("name", ["pandas.period", "pandas.interval"])
def test_pandas_own_extension_types_are_refused(name):
    column = {"pandas.period": pd.period_range("2025", periods=1, freq="D"), "pandas.interval": pd.interval_range(0, 1)}
    arrow = pa.Table.from_pandas(pd.DataFrame({"c": column[name]})).schema.field("c").type
    assert arrow.extension_name == name
    with pytest.raises(UnsupportedTypeError, match=r"^column 'c': pandas'"):
        to_arrow_type(arrow, "c")


def test_a_type_nested_too_deeply_is_refused():
    arrow, polars = pa.int8(), pl.Int8
    for _ in range(5000):
        arrow, polars = pa.list_(arrow), pl.List(polars)
    for dtype in (arrow, polars):
        with pytest.raises(UnsupportedTypeError, match=r"^column 'c\.item.*more than 32 levels deep"):
            to_arrow_type(dtype, "c")


words = st.sampled_from(
    ["int64", "float", "timestamp[", "us", ", tz=", "]", "decimal128(", "10", ",", ")", "[pyarrow]"]
)
more_words = st.sampled_from(
    ["Sparse[", "period[", "interval[", "datetime64[", "M8[", "U", "S", "V", "i4", "category", ">"]
)
spelling = st.text() | st.lists(words | more_words | st.characters(codec="ascii"), max_size=6).map("".join)
plain_objects = st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | st.dates() | st.decimals()
objects = st.recursive(
    plain_objects | spelling | st.builds(Hostile) | st.sampled_from([int, str, list, pl.Int8, np.int8, pa.int8()]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(spelling, inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=5,
)
any_class = st.sampled_from(
    [v for m in (pd, np, pl, pa, dt, typing) for v in vars(m).values() if not isinstance(v, type(pd))]
)


@given(spelling | objects | any_class)
def test_whatever_is_given_is_a_type_or_an_error_of_ours(value):
    try:
        arrow = to_arrow_type(value, "c")
    except (UnsupportedTypeError, ValueError) as error:
        arrow, shown = None, str(error)
        mine = type(error) in (UnsupportedTypeError, ValueError)
    assert arrow is not None or (mine and shown and len(shown) < 600)
    assert arrow is None or same(to_portable(arrow), arrow)


def printed_by(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


def test_where_pandas_cannot_be_imported_its_spellings_are_unknown():
    code = (
        "import sys; sys.modules['pandas'] = None\nimport rt_frames as rt\n"
        "try: rt.data_type('Int64')\nexcept ValueError as error: print(error)"
    )
    assert printed_by(code).startswith("dtype 'Int64' is not known; did you mean")


@pytest.mark.parametrize(
    "arrow", [pa.dictionary(pa.int8(), pa.string()), pa.list_view(pa.string_view()), pa.uuid(), Money()], ids=str
)
def test_an_arrow_column_is_sent_in_its_portable_form(arrow):
    source = send(pa.table({"c": pa.array([], arrow)}))
    sent = pa.Table.from_batches(source.batches(), source.schema)
    assert same(sent.schema.field("c").type, to_portable(arrow))
    assert same(source.schema.field("c").type, to_portable(arrow))


def test_a_polars_column_is_sent_as_its_dtype_says_and_one_without_a_type_is_refused():
    for dtype, arrow in POLARS:
        frame = pl.DataFrame(schema={"c": dtype})
        if dtype == pl.Null:
            with pytest.raises(UnsupportedTypeError, match="'c' has no values and no type"):
                send(frame)
        else:
            assert same(send(frame).schema.field("c").type, arrow)
