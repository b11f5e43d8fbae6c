"""Every Arrow layout, nested in every way, comes back; other types have a path."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.compare import stored
from tests.support.sent import send

VIEWS = pa.list_view(pa.string_view())


class Own(pa.ExtensionType):
    """A user's extension type, as pyarrow's documentation shows it, without a hash."""

    # which is what Python does if only __eq__ is written
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "own")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.storage_type == self.storage_type

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(
        cls, storage_type: pa.DataType, serialized: bytes
    ) -> Own:
        return cls(storage_type)


LONG = ["a", None, "a text that is too long to lie in a view"]
LONG_VIEWS = pa.array(LONG, pa.string_view())
JSON_VIEWS = pa.ExtensionArray.from_storage(pa.json_(pa.string_view()), LONG_VIEWS)
OWN_VIEWS = pa.ExtensionArray.from_storage(Own(pa.string_view()), LONG_VIEWS)
BYTE_FLAGS = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], "int8"))
UUIDS = pa.array([bytes(16), None], pa.uuid())
WORDS = pa.array(["a", None])
DAYS = pa.array([1, None], pa.date32())
VIEW_WORDS = pa.array([None, "b"], pa.string_view())
PARTLY = [0, None, 1]
BIG_CODES = pa.array(PARTLY, pa.uint64())
SMALL_CODES = pa.array([0, None, 0], pa.int8())
LISTED_VIEWS = pa.array([["x"], None], VIEWS)
VIEW_MAPS = pa.map_(pa.string_view(), pa.string_view())
coded = pa.DictionaryArray.from_arrays
runs = pa.RunEndEncodedArray.from_arrays
INNER = {  # of three rows each
    "own type of views": OWN_VIEWS,
    "JSON in views": JSON_VIEWS,
    "UUIDs in maps": pa.MapArray.from_arrays([0, 1, 1, 2], ["a", "b"], UUIDS),
    "coded JSON": coded([0, None, 2], JSON_VIEWS),
    "string view": LONG_VIEWS,
    "coded": pa.array(["a", None, "b"]).dictionary_encode(),
    "coded views": coded(SMALL_CODES, pa.array(["a"], pa.string_view())),
    "coded numbers of two signs": coded(PARTLY, pa.array([0.0, -0.0])),
    "coded halves": coded(PARTLY, pa.array([0.5, 2.0], pa.float16())),
    "coded days": coded(PARTLY, pa.array([1, 2], pa.date32())),
    "coded decimals": coded(PARTLY, pa.array([1, 2], pa.decimal32(5, 0))),
    "coded bytes": coded(PARTLY, pa.array([b"ab", b"cd"], pa.binary(2))),
    "coded structs": coded(PARTLY, pa.array([{"a": 1}, {"a": None}])),
    "coded with large codes": coded(BIG_CODES, pa.array(["a", "b"])),
    "coded lists": coded(PARTLY, pa.array([[1], [2, None]])),
    "list view": pa.array([["a"], None, []], VIEWS),
    "swapped list view": pa.ListViewArray.from_arrays(
        [1, 0, 0], [1, 2, 0], LISTED_VIEWS
    ),
    "large list view": pa.array([[1], None, []], pa.large_list_view(pa.int8())),
    "runs": runs(pa.array([1, 3], pa.int32()), pa.array([1, None], pa.int8())),
    "runs of words": runs(pa.array([1, 3], pa.int16()), WORDS.dictionary_encode()),
    "runs of days": runs(pa.array([2, 3], pa.int64()), DAYS.dictionary_encode()),
    "runs of views": runs(pa.array([1, 3], pa.int32()), VIEW_WORDS),
    "decimal": pa.array([1, None, 2], pa.decimal64(15, 0)),
    "extension": BYTE_FLAGS,
    "map of views": pa.array([[("a", "b")], None, []], VIEW_MAPS),
}
OFFSETS = pa.array([0, 2, None, 3], pa.int32())
LARGE_OFFSETS = pa.array([0, 2, None, 3], pa.int64())
MAP_OFFSETS = pa.array([0, 2, 2, 3], pa.int32())
MASK = pa.array([False, False, True])
WRAPPED = {
    "alone": lambda a: a,
    "list": lambda a: pa.ListArray.from_arrays(OFFSETS, a),
    "large list": lambda a: pa.LargeListArray.from_arrays(LARGE_OFFSETS, a),
    "struct": lambda a: pa.StructArray.from_arrays([a], ["x"], mask=MASK),
    "map": lambda a: pa.MapArray.from_arrays(MAP_OFFSETS, ["a", "b", "c"], a),
    "list view": lambda a: pa.ListViewArray.from_arrays([0, 2, 0], [2, 1, 1], a),
}
NUMBERS = [  # which Lance keeps in lists of a fixed size
    *("coded numbers of two signs", "coded halves", "coded days", "coded decimals"),
    *("coded bytes", "runs", "runs of days", "decimal", "extension"),
]
# whose types have no text that every service reads
NOT_OFFERED = ["UUIDs in maps", "JSON in views", "coded JSON", "map of views"]
OFFERED = [name for name in INNER if name not in NUMBERS + NOT_OFFERED]
NUMBERS_ONLY = "must be numbers"
NOT_PORTABLE = "view|run_end|decimal32|decimal64|ordered=1|own|indices=u?int(8|16|64)"


def written(values: list) -> str:
    """Return values such that the sign of a zero counts.

    Arrow's bool8 is sent as its number.
    """
    return repr(values).replace("True", "1").replace("False", "0")


def reordered(array: pa.Array) -> pa.Array:
    """Give the same kind of values with the dictionary in another order."""
    if not pa.types.is_dictionary(array.type):
        return array
    values = array.dictionary
    backwards = [values.slice(place, 1) for place in reversed(range(len(values)))]
    return coded(array.indices, pa.concat_arrays(backwards))


def assert_kept(column: pa.ChunkedArray, **options: object) -> None:
    sent = send(pa.table({"c": column}), **options).table()["c"]
    assert written(sent.to_pylist()) == written(column.to_pylist())
    assert not re.search(NOT_PORTABLE, str(sent.type))


def chunked(array: pa.Array, *wraps: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    turned = reordered(array)
    for wrap in wraps:
        array = wrap(array)
        turned = wrap(turned)
    return pa.chunked_array([array, turned, array.slice(1), array.slice(0, 0)])


def vectors(inner: str) -> pa.ChunkedArray:
    def of_three(array: pa.Array) -> pa.Array:
        # each row is another one
        rows = [array, array[1:], array[:1], array[2:], array[:2]]
        return pa.FixedSizeListArray.from_arrays(pa.concat_arrays(rows), 3)

    return chunked(INNER[inner], of_three)


@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
def test_each_layout_arrives_in_two_others_whatever_the_slices_and_chunks(inner):
    for wraps in itertools.product(WRAPPED.values(), repeat=2):
        assert_kept(chunked(inner, *wraps))


@pytest.mark.parametrize("inner", NUMBERS)
def test_numbers_of_each_layout_arrive_in_lists_of_a_fixed_size(inner):
    assert_kept(vectors(inner))


@pytest.mark.parametrize("inner", OFFERED)
def test_lists_of_a_fixed_size_of_others_arrive_as_the_refusal_says(inner):
    column = vectors(inner)
    with pytest.raises(UnsupportedTypeError, match=NUMBERS_ONLY) as refused:
        send(pa.table({"c": column}))
    offered = str(refused.value).partition("dtypes=")[2]
    assert_kept(column, dtypes=eval(offered, {"pyarrow": pa}))


@pytest.mark.parametrize("inner", NOT_OFFERED)
def test_of_maps_and_extension_types_the_refusal_offers_no_type(inner):
    cure = "cast it to lists of variable size$"
    with pytest.raises(UnsupportedTypeError, match=f"{NUMBERS_ONLY}.*; {cure}"):
        send(pa.table({"c": vectors(inner)}))


A = pa.struct([("a", pa.int8())])
AB = pa.struct([("a", pa.int8()), ("b", pa.int8())])
BEHIND = pa.array([False, True])
UNDER = pa.StructArray.from_arrays([pa.array([1, 300])], ["a"], mask=BEHIND)
OUTSIDE = pa.FixedSizeListArray.from_arrays(pa.array([300, 2]), 1)[1:]
WRONG = {  # a column, and a type to which Arrow casts it wrong, or not at all
    "runs": (INNER["runs"], pa.int8()),
    "list views": (LISTED_VIEWS, pa.list_(pa.string())),
    "a field less": (pa.array([{"a": 1, "b": 2}], AB), A),
    "a field more": (pa.array([{"a": 1}], A), AB),
    "whole numbers": (pa.array([[16777217.0]]), pa.list_(pa.float32())),
    "coded structs": (coded([0], pa.array([{"a": 1}], A)), A),
    "under a null": (UNDER, A),
    "outside a slice": (OUTSIDE, pa.list_(pa.int8(), 1)),
}


@pytest.mark.parametrize(("array", "target"), WRONG.values(), ids=WRONG)
def test_columns_are_taken_apart_for_what_arrow_casts_wrong(array, target):
    """Where it is right, `_values/convert.py` may leave it to Arrow (pyarrow 26)."""
    try:
        made = array.cast(target)
        made.validate(full=True)
    except pa.ArrowException:
        return
    assert made.to_pylist() != array.to_pylist()


def struct_of(**fields: object) -> pa.Array:
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


ONES = pa.array([1, None])
NULLS = pa.nulls(2)
X = pa.array(["x"]).dictionary_encode()
Y = pa.array(["y"], pa.string_view())
CODES = pa.array([0, 1, None], pa.int8())
NO_CODES = pa.array([None], pa.int8())
SMALL_HALVES = coded([0, 1], pa.array([2**-23, -0.0], pa.float16()))
HALVES = coded([0, 1], pa.array([8, -0.0], pa.float16()))
LARGE_LISTS = pa.array([[1]], pa.large_list(pa.int64()))
MAPPED = pa.array([[("a", [1])]], pa.map_(pa.string(), pa.list_(pa.int8())))
NONE_MAPPED = pa.array([[("b", [])], None], pa.map_(pa.string(), pa.list_(pa.null())))
FITS = {  # a column of a first frame, and one of a later frame
    "fields in another order": (struct_of(a=ONES, b=ONES), struct_of(b=NULLS, a=ONES)),
    "an empty list": (pa.array([[1], None]), pa.array([[], None])),
    "an empty list of structs": (pa.array([[{"a": [1]}]]), pa.array([[{"a": []}], []])),
    "a list of nulls": (LARGE_LISTS, pa.array([[None]])),
    "coded text": (struct_of(a=X), struct_of(a=Y)),
    "coded text that is null": (struct_of(a=X), struct_of(a=pa.nulls(1))),
    "a map of nothing": (MAPPED, NONE_MAPPED),
    "large binary": (pa.array([b"x"]), pa.array([b"y"], pa.large_binary())),
    "coded nulls": (ONES, coded(NO_CODES, pa.nulls(1))),
    "halves whose dictionaries Arrow unifies wrong": (SMALL_HALVES, HALVES),
    "coded with nulls": (coded(CODES, WORDS), coded(CODES, pa.array([None, "b"]))),
}


@pytest.mark.parametrize(("first", "later"), FITS.values(), ids=FITS)
def test_what_fits_into_the_first_frame_is_taken_from_later_ones(first, later):
    sent = send([pa.table({"c": first}), pa.table({"c": later})]).table()
    assert sent["c"].to_pylist() == first.to_pylist() + later.to_pylist()


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (SMALL_HALVES, HALVES),
        (coded(CODES, WORDS), coded(CODES, pa.array([None, "b"]))),
    ],
)
def test_the_chunks_of_a_pandas_column_may_have_other_dictionaries(first, later):
    column = pd.arrays.ArrowExtensionArray(pa.chunked_array([first, later]))
    sent = send(pd.DataFrame({"c": column})).table()
    assert sent["c"].to_pylist() == first.to_pylist() + later.to_pylist()


FIXED = pa.array([[1]], pa.list_(pa.int64(), 1))
FITS_NOT = {
    "a field less": (struct_of(a=ONES, b=ONES), struct_of(a=ONES)),
    "another field": (struct_of(a=ONES), struct_of(b=ONES)),
    "other numbers": (struct_of(a=ONES), struct_of(a=ONES.cast("int8"))),
    "text in lists": (pa.array([[1]]), pa.array([["x"]])),
    "lists of a fixed size": (pa.array([[1]]), FIXED),
    "a list for a number": (ONES, pa.array([[], []])),
    "bytes of a fixed size": (pa.array([b"x"]), pa.array([b"y"], pa.binary(1))),
}


@pytest.mark.parametrize(("first", "later"), FITS_NOT.values(), ids=FITS_NOT)
def test_what_does_not_fit_into_the_first_frame_is_refused_by_column_and_item(
    client, first, later
):
    frames = [pa.table({"c": first}), pa.table({"c": later})]
    told = r"'c[.a-z]*' is .* in item 1, but .* before it"
    with pytest.raises(UnsupportedTypeError, match=told):
        client.create_table("never", frames)
    assert "never" not in client.list_tables()


REQUIRED = pa.field("r", pa.int64(), nullable=False)
PAIR = pa.struct([("a", pa.int8()), ("b", pa.float32())])
NULL_MAP = pa.map_(pa.dictionary(pa.int8(), pa.null()), pa.int8())
NULL_KEY = runs(pa.array([1, 2], pa.int32()), VIEW_WORDS.cast("string"))
LISTS = pa.list_(pa.struct([REQUIRED]))
STRUCTS = pa.struct([pa.field("r", pa.list_(REQUIRED))])
ODD_NAME = pa.struct([("a\n", pa.int8())])
REFUSED = [  # arrays, the path that is named, and what is said of it
    (pa.nulls(2, pa.list_(pa.int8(), 0)), "x", "size 0"),
    (pa.nulls(2, pa.struct([("a", pa.binary(0))])), "x", "size 0"),
    (pa.nulls(2, pa.list_(PAIR, 2)), "x", NUMBERS_ONLY),
    (pa.nulls(2, pa.struct([("s", pa.list_(pa.string(), 2))])), "x.s", NUMBERS_ONLY),
    (pa.nulls(2, pa.list_(pa.list_(pa.uuid(), 2), 2)), "x", NUMBERS_ONLY),
    (pa.nulls(2, pa.list_(ODD_NAME)), "x.item", "control characters"),
    (pa.nulls(1, pa.struct([("m", NULL_MAP)])), "x.m", "keys have no type"),
    (pa.MapArray.from_arrays([0, 2], NULL_KEY, pa.array([1, 2])), "x', row 0", "keys"),
]


@pytest.mark.parametrize(("array", "path", "said"), REFUSED)
def test_what_no_table_holds_is_refused_by_its_path(array, path, said):
    with pytest.raises(UnsupportedTypeError, match=rf"'{path}.*{said}"):
        send(pa.table({"x": array}))


NO_NULL = pa.StructArray.from_arrays([ONES], fields=[REQUIRED])
REQUIRED_UUID = REQUIRED.with_type(pa.uuid())
NO_NULL_UUID = pa.StructArray.from_arrays([UUIDS], fields=[REQUIRED_UUID])
WITH_NULLS = [
    (NO_NULL, "x.r"),
    # beside null structs
    (pa.array([[{"r": 1}, None], None, [{"r": None}]], LISTS), "x.item.r"),
    (pa.array([None, {"r": None}, {"r": [None]}], STRUCTS), "x.r.r"),
    (pa.StructArray.from_arrays([NO_NULL_UUID], ["s"]), "x.s.r"),
]


@pytest.mark.parametrize(("array", "path"), WITH_NULLS)
def test_a_null_where_none_may_be_is_refused_by_its_path(array, path):
    with pytest.raises(UnsupportedTypeError, match=rf"'{path}.*nulls"):
        send(pa.table({"x": array}))
    fine = array[:1]
    assert send(pa.table({"x": fine})).table()["x"].to_pylist() == fine.to_pylist()


def test_a_column_that_may_not_be_null_is_refused_where_it_is():
    schema = pa.schema([REQUIRED])
    table = pa.table({"r": [1, None]}, schema)
    assert send(table.slice(0, 1)).schema == schema
    with pytest.raises(UnsupportedTypeError, match="'r' has nulls"):
        send(table)
    with pytest.raises(UnsupportedTypeError, match="'r' has nulls"):
        send([table.slice(0, 1), pa.table({"r": [2, None]})])


def test_all_columns_that_have_nulls_and_may_not_are_named_in_any_chunk():
    may = pa.field("may", pa.int64())
    full = [REQUIRED.with_name(name) for name in ("x", "y", "z")]
    schema = pa.schema([*full, may])
    second = pa.table([[1], [None], [3], [4]], schema)
    first = pa.table([[None], [2], [3], [None]], schema)
    table = pa.concat_tables([second, first])
    with pytest.raises(UnsupportedTypeError, match="'x' has nulls") as refused:
        send(table)
    assert refused.value.columns == ("x", "y")


def test_structs_of_lists_of_a_fixed_size_are_stored_as_the_refusal_says():
    fixed = pa.array([[{"a": 1, "b": None}, None], None], pa.list_(PAIR, 2))
    with pytest.raises(UnsupportedTypeError, match="dtypes="):
        send(pa.table({"x": fixed}))
    dtypes = {"x": pa.list_(PAIR)}
    found = send(pa.table({"x": fixed}), dtypes=dtypes).table()["x"]
    assert found.to_pylist() == fixed.to_pylist()


def test_items_without_a_name_get_one():
    """DuckDB's arrays have such."""
    nameless = pa.list_(pa.field("", pa.list_(pa.field("", pa.float32()), 2)))
    column = send(pa.table({"x": pa.array([[[1, 2]], None], nameless)})).table()["x"]
    assert column.type == pa.list_(pa.list_(pa.float32(), 2))
    assert column.to_pylist() == [[[1, 2]], None]


VECTOR = pa.list_(pa.field("x", pa.float32(), nullable=False), 2)
FULL_VECTOR = pa.field("y", VECTOR, nullable=False)
VECTORS = {
    "with a null among their items": pa.array([[1, 2], None, [3, None]], VECTOR),
    "in a struct": pa.array([{"s": [1, 2]}], pa.struct([("s", VECTOR)])),
    "in lists": pa.array([[[1, 2]], []], pa.list_(FULL_VECTOR)),
    "of vectors": pa.array([[[1, 2], [3, 4]]], pa.list_(FULL_VECTOR, 2)),
    "in maps": pa.array([[("a", [1, 2])], None], pa.map_(pa.string(), VECTOR)),
}


@pytest.mark.parametrize("array", VECTORS.values(), ids=VECTORS)
def test_of_the_items_of_fixed_size_lists_only_the_type_is_told_as_no_table_keeps_more(
    service, name, array
):
    frame = pa.table({"c": array})
    with rt.connect(service.url, api_key=service.api_key, dialect="lancedb"):
        table = rt.to_table(frame, name)
        assert table.schema.equals(stored(service, name).schema)
        assert stored(service, name)["c"].to_pylist() == array.to_pylist()
        assert "nothing to alter" in repr(rt.alter_table(frame, name))
        assert "nothing to alter" in repr(rt.alter_table(frame.schema, name))
        assert "nothing to alter" in repr(rt.alter_table(table.schema, name))


FULL_FLOAT = {"name": "x", "type": {"type": "float"}, "nullable": False}
FULL_CODE = {**FULL_FLOAT, "type": {"type": "dict:string:int8:false"}}
OBJECTS = [
    ([1.0, 2.0], {"type": "fixed_size_list", "length": 2, "fields": [FULL_FLOAT]}),
    ("a", {"type": "dict:string:int8:true"}),
    (["b"], {"type": "list", "fields": [FULL_CODE]}),
]


@pytest.mark.parametrize(("value", "dtype"), OBJECTS)
def test_an_object_in_dtypes_says_no_more_than_tables_keep(
    client, service, name, value, dtype
):
    table = rt.to_table(pl.DataFrame({"c": [value]}), name, dtypes={"c": dtype})
    assert table.schema.equals(stored(service, name).schema)
    assert stored(service, name)["c"].to_pylist() == [value]


def lists(offsets: list[int], items: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), items)


PAIRS = pa.map_(pa.string(), pa.int64())
MAPS = pa.array([[("a", 1)], [("b", 2), ("c", None)], []], PAIRS)
MAP_LISTS = lists([0, 1, 3], MAPS)
CODED = pa.array(["a", "b"]).dictionary_encode()
VECTOR_BYTES = pa.array([[1, 2]], pa.list_(pa.int8(), 2))
# slices as other writers make them
TWO = pa.array([2], pa.int32()).buffers()[1]
NO_BYTES = pa.py_buffer(b"")
NO_TEXT = pa.Array.from_buffers(pa.string(), 0, [None, TWO, pa.py_buffer(b"abc")])
NO_LISTS = pa.Array.from_buffers(
    pa.list_(pa.int64()), 0, [None, TWO], children=[pa.array([1, 2, 3])]
)
NO_MOMENTS = pa.Array.from_buffers(pa.timestamp("ns"), 0, [None, NO_BYTES], offset=2)
EMPTY_SLICES = {
    "items without a buffer, as Polars gives them": lists([0, 0, 0], NO_MOMENTS),
    "in a struct": struct_of(x=lists([0, 0], NO_MOMENTS)),
    "lists of maps": lists([0, 0], MAP_LISTS.slice(2, 0)),
    "maps behind others": lists([0, 2, 2], MAPS).slice(1),
    "lists behind others": lists([0, 2, 2], MAP_LISTS).slice(1),
    "codes": lists([0, 0], CODED.slice(2, 0)),
    "UUIDs": lists([0, 0], UUIDS.slice(2, 0)),
    "fixed-size lists": lists([0, 0], VECTOR_BYTES.slice(1, 0)),
    "text that does not begin at 0": lists([0, 0, 0], NO_TEXT),
    "structs of lists that do not begin at 0": lists([0, 0], struct_of(x=NO_LISTS)),
    "keys that do not begin at 0": pa.MapArray.from_arrays([0, 0], NO_TEXT, NO_TEXT),
    "lists of text not from 0": lists([0, 1, 2], lists([0, 0, 0], NO_TEXT)),
}


@pytest.mark.parametrize("array", EMPTY_SLICES.values(), ids=EMPTY_SLICES)
def test_empty_slices_inside_are_sent_as_nothing(service, client, name, array):
    rt.to_table(pa.table({"c": array, "n": range(len(array))}), name)
    assert stored(service, name)["c"].to_pylist() == array.to_pylist()


def struct_around(inner: pa.DataType) -> pa.DataType:
    return pa.struct([("f", inner)])


def map_around(inner: pa.DataType) -> pa.DataType:
    return pa.map_(pa.string(), inner)


MAKERS = {  # what puts a type into another, and how many levels are taken
    "list": (pa.large_list, pa.int64(), 32),
    "struct": (struct_around, pa.int64(), 32),
    "map": (map_around, pa.int64(), 16),
    "Polars": (pl.List, pl.Int64, 32),
}


def deep(kind: str, levels: int) -> object:
    """Give a type of so many levels."""
    make, dtype, _ = MAKERS[kind]
    for _ in range(levels):
        dtype = make(dtype)
    return dtype


def schema_of(dtype: object) -> pa.Schema | pl.Schema:
    if isinstance(dtype, pa.DataType):
        return pa.schema({"x": dtype})
    return pl.Schema({"x": dtype})


def empty(dtype: object) -> pa.Table | pl.DataFrame:
    if isinstance(dtype, pa.DataType):
        return pa.schema({"x": dtype}).empty_table()
    return pl.DataFrame(schema={"x": dtype})


@pytest.mark.parametrize("kind", MAKERS)
def test_the_last_level_that_is_taken_is_stored(client, service, name, kind):
    rt.to_table(empty(deep(kind, MAKERS[kind][2])), name)
    assert stored(service, name).schema.names == ["x"]


FLAT = {"x": "int64"}
ATTEMPTS = [
    lambda dtype: send(empty(dtype)),
    lambda dtype: send(pa.table({"x": [1]}), dtypes={"x": dtype}),
    lambda dtype: rt.plan_alterations(FLAT, empty(dtype)),
    lambda dtype: rt.plan_alterations(empty(dtype), FLAT),
    lambda dtype: rt.Alteration("x", data_type=dtype),
]


@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize("kind", MAKERS)
def test_one_level_more_is_refused_by_column(kind, attempt):
    dtype = deep(kind, 33)
    with pytest.raises(UnsupportedTypeError, match=r"'x\..*32 levels"):
        attempt(dtype)


@pytest.mark.parametrize("make", [schema_of, lambda dtype: {"x": dtype}])
@pytest.mark.parametrize("kind", MAKERS)
def test_however_many_levels_more_are_refused_at_once(kind, make):
    columns = make(deep(kind, 5000))
    start = time.process_time()
    with pytest.raises(UnsupportedTypeError, match=r"'x\..*32 levels"):
        rt.plan_alterations(columns, FLAT)
    # CPU time, since a walk that is not linear would take longer
    assert time.process_time() - start < 5
