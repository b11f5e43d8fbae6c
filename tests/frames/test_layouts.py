"""Every Arrow layout, nested in every way, comes back or is refused by path."""

from __future__ import annotations

import functools
import itertools
import re
import time

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.compare import stored
from tests.support.sent import send

VIEWS = pa.list_view(pa.string_view())
number = itertools.count()


class Own(pa.ExtensionType):
    """A user's extension type, as pyarrow's documentation shows it, without a hash."""

    __hash__ = None  # type: ignore[assignment]  # which is what Python does where only __eq__ is written

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


LONG = pa.array(
    ["a", None, "a text that is too long to lie in a view"], pa.string_view()
)
coded, runs, typed = (
    pa.DictionaryArray.from_arrays,
    pa.RunEndEncodedArray.from_arrays,
    pa.ExtensionArray.from_storage,
)
WORDS, DAYS = pa.array(["a", None]), pa.array([1, None], pa.date32())
INNER = {  # of three rows each
    "own type of views": typed(Own(pa.string_view()), LONG),
    "JSON in views": typed(pa.json_(pa.string_view()), LONG),
    "UUIDs in maps": pa.MapArray.from_arrays(
        [0, 1, 1, 2], ["a", "b"], pa.array([bytes(16), None], pa.uuid())
    ),
    "coded JSON": coded([0, None, 2], typed(pa.json_(pa.string_view()), LONG)),
    "string view": LONG,
    "coded": pa.array(["a", None, "b"]).dictionary_encode(),
    "coded views": coded(
        pa.array([0, None, 0], pa.int8()), pa.array(["a"], pa.string_view())
    ),
    "coded numbers of two signs": coded([0, None, 1], pa.array([0.0, -0.0])),
    "coded halves": coded([0, None, 1], pa.array([0.5, 2.0], pa.float16())),
    "coded days": coded([0, None, 1], pa.array([1, 2], pa.date32())),
    "coded decimals": coded([0, None, 1], pa.array([1, 2], pa.decimal32(5, 0))),
    "coded bytes": coded([0, None, 1], pa.array([b"ab", b"cd"], pa.binary(2))),
    "coded structs": coded([0, None, 1], pa.array([{"a": 1}, {"a": None}])),
    "coded with large codes": coded(
        pa.array([0, None, 1], pa.uint64()), pa.array(["a", "b"])
    ),
    "coded lists": coded([0, None, 1], pa.array([[1], [2, None]])),
    "list view": pa.array([["a"], None, []], VIEWS),
    "list view out of order": pa.ListViewArray.from_arrays(
        [1, 0, 0], [1, 2, 0], pa.array([["x"], None], VIEWS)
    ),
    "large list view": pa.array([[1], None, []], pa.large_list_view(pa.int8())),
    "runs": runs(pa.array([1, 3], pa.int32()), pa.array([1, None], pa.int8())),
    "runs of words": runs(pa.array([1, 3], pa.int16()), WORDS.dictionary_encode()),
    "runs of days": runs(pa.array([2, 3], pa.int64()), DAYS.dictionary_encode()),
    "runs of views": runs(
        pa.array([1, 3], pa.int32()), pa.array([None, "b"], pa.string_view())
    ),
    "decimal": pa.array([1, None, 2], pa.decimal64(15, 0)),
    "extension": typed(pa.bool8(), pa.array([1, None, 0], pa.int8())),
    "map of views": pa.array(
        [[("a", "b")], None, []], pa.map_(pa.string_view(), pa.string_view())
    ),
}
WRAPPED = {
    "alone": lambda a: a,
    "list": lambda a: pa.ListArray.from_arrays(
        pa.array([0, 2, None, 3], pa.int32()), a
    ),
    "large list": lambda a: pa.LargeListArray.from_arrays(
        pa.array([0, 2, None, 3], pa.int64()), a
    ),
    "fixed-size list": lambda a: pa.FixedSizeListArray.from_arrays(
        pa.concat_arrays([a, a, a]), 3
    ),
    "struct": lambda a: pa.StructArray.from_arrays(
        [a], ["x"], mask=pa.array([False, False, True])
    ),
    "map": lambda a: pa.MapArray.from_arrays(
        pa.array([0, 2, 2, 3], pa.int32()), pa.array(["a", "b", "c"]), a
    ),
    "list view": lambda a: pa.ListViewArray.from_arrays([0, 2, 0], [2, 1, 1], a),
}


def written(values: list) -> str:
    """Return values such that the sign of a zero counts.

    Arrow's bool8 is sent as its number.
    """
    return repr(values).replace("True", "1").replace("False", "0")


def offered_dtypes(table: pa.Table) -> dict | None:
    """Return the dtypes that an error offers. None if it leaves them to the user."""
    try:
        send(table)
    except UnsupportedTypeError as error:
        offered = str(error).partition("dtypes=")[2]
        return None if "…" in offered else eval(offered, {"pyarrow": pa})
    return {}


def reordered(array: pa.Array) -> pa.Array:
    """Give the same kind of values with the dictionary in another order."""
    if not pa.types.is_dictionary(array.type):
        return array
    values = array.dictionary
    backwards = pa.concat_arrays(
        [values.slice(place, 1) for place in reversed(range(len(values)))]
    )
    return pa.DictionaryArray.from_arrays(array.indices, backwards)


def assert_kept(column: pa.ChunkedArray) -> None:
    table = pa.table({"c": column})
    if (dtypes := offered_dtypes(table)) is not None:
        sent = send(table, dtypes=dtypes).table()["c"]
        assert written(sent.to_pylist()) == written(column.to_pylist())
        assert not re.search(
            "view|run_end|decimal32|decimal64|ordered=1|own|indices=u?int(8|16|64)",
            str(sent.type),
        )


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_each_layout_arrives_in_each_other_whatever_the_slices_and_chunks(wrap):
    for inner in INNER.values():
        array = wrap(inner)
        assert_kept(
            pa.chunked_array(
                [array, wrap(reordered(inner)), array.slice(1), array.slice(0, 0)]
            )
        )


@given(
    st.sampled_from([*INNER]),
    st.lists(st.sampled_from([*WRAPPED]), max_size=3),
    st.data(),
)
def test_every_arrow_column_arrives_equal_or_the_refusal_says_as_what_it_does(
    inner, layers, data
):
    chunks = []
    for turned, start, rows in data.draw(
        st.lists(st.tuples(st.booleans(), *[st.integers(0, 3)] * 2), min_size=1)
    ):
        array = reordered(INNER[inner]) if turned else INNER[inner]
        chunks.append(
            functools.reduce(
                lambda made, layer: WRAPPED[layer](made), layers, array
            ).slice(start, rows)
        )
    assert_kept(pa.chunked_array(chunks))


def struct_of(**fields: object) -> pa.Array:
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


ONES, NULLS, X = pa.array([1, None]), pa.nulls(2), pa.array(["x"]).dictionary_encode()
HALVES, CODES = (
    (pa.array([half, -0.0], pa.float16()) for half in (2**-23, 8)),
    pa.array([0, 1, None], pa.int8()),
)
FITS = {
    "fields in another order": (struct_of(a=ONES, b=ONES), struct_of(b=NULLS, a=ONES)),
    "an empty list": (pa.array([[1], None]), pa.array([[], None])),
    "an empty list of structs": (pa.array([[{"a": [1]}]]), pa.array([[{"a": []}], []])),
    "a list of nulls": (pa.array([[1]], pa.large_list(pa.int64())), pa.array([[None]])),
    "coded text": (struct_of(a=X), struct_of(a=pa.array(["y"], pa.string_view()))),
    "coded text that is null": (struct_of(a=X), struct_of(a=pa.nulls(1))),
    "a map of nothing": (
        pa.array([[("a", [1])]], pa.map_(pa.string(), pa.list_(pa.int8()))),
        pa.array([[("b", [])], None], pa.map_(pa.string(), pa.list_(pa.null()))),
    ),
    "coded nulls": (ONES, coded(pa.array([None], pa.int8()), pa.nulls(1))),
    "halves whose dictionaries Arrow unifies wrong": tuple(
        coded([0, 1], halves) for halves in HALVES
    ),
    "nulls among a dictionary's values": tuple(
        coded(CODES, values) for values in (WORDS, pa.array([None, "b"]))
    ),
}


@pytest.mark.parametrize("columns", FITS.values(), ids=FITS)
def test_what_fits_into_the_first_frame_is_taken_from_later_ones(columns):
    wanted = [value for column in columns for value in column.to_pylist()]
    assert (
        send([pa.table({"c": column}) for column in columns]).table()["c"].to_pylist()
        == wanted
    )
    if len({column.type for column in columns}) == 1:
        frame = pd.DataFrame(
            {"c": pd.arrays.ArrowExtensionArray(pa.chunked_array(columns))}
        )
        assert send(frame).table()["c"].to_pylist() == wanted


FITS_NOT = {
    "a field less": (struct_of(a=ONES, b=ONES), struct_of(a=ONES)),
    "another field": (struct_of(a=ONES), struct_of(b=ONES)),
    "other numbers": (struct_of(a=ONES), struct_of(a=ONES.cast("int8"))),
    "text in lists": (pa.array([[1]]), pa.array([["x"]])),
    "lists of a fixed size": (
        pa.array([[1]]),
        pa.array([[1]], pa.list_(pa.int64(), 1)),
    ),
    "a list for a number": (ONES, pa.array([[], []])),
}


@pytest.mark.parametrize("columns", FITS_NOT.values(), ids=FITS_NOT)
def test_what_does_not_fit_into_the_first_frame_is_refused_by_column_and_item(
    client, columns
):
    with pytest.raises(
        UnsupportedTypeError, match=r"'c[.a-z]*' is .* in item 1, but .* before it"
    ):
        client.create_table("never", [pa.table({"c": column}) for column in columns])
    assert "never" not in client.list_tables()


REQUIRED = pa.field("r", pa.int64(), nullable=False)
NUMBERS = pa.struct([("a", pa.int8()), ("b", pa.float32())])
KEYLESS = pa.nulls(
    1, pa.struct([("m", pa.map_(pa.dictionary(pa.int8(), pa.null()), pa.int8()))])
)
NULL_KEY = pa.RunEndEncodedArray.from_arrays(
    pa.array([1, 2], pa.int32()), pa.array([None, "b"])
)
IDS = pa.array([bytes(16), None], pa.uuid())
IDS = pa.StructArray.from_arrays([IDS], fields=[REQUIRED.with_type(IDS.type)])
LIST, STRUCT = (
    pa.list_(pa.struct([REQUIRED])),
    pa.struct([pa.field("r", pa.list_(REQUIRED))]),
)
REFUSED = {  # arrays, the path that is named, and what is said of it
    "lists of the size 0": (pa.nulls(2, pa.list_(pa.int8(), 0)), "x", "size 0"),
    "bytes of the size 0": (
        pa.nulls(2, pa.struct([("a", pa.binary(0))])),
        "x",
        "size 0",
    ),
    "structs in lists of a fixed size": (
        pa.nulls(2, pa.list_(NUMBERS, 2)),
        "x",
        "must be numbers",
    ),
    "text in lists of a fixed size": (
        pa.nulls(2, pa.struct([("s", pa.list_(pa.string(), 2))])),
        "x.s",
        "must be numbers",
    ),
    "UUIDs in lists of a fixed size": (
        pa.nulls(2, pa.list_(pa.list_(pa.uuid(), 2), 2)),
        "x",
        "must be numbers",
    ),
    "odd names": (
        pa.nulls(2, pa.list_(pa.struct([("a\n", pa.int8())]))),
        "x.item",
        "control characters",
    ),
    "keys without a type": (KEYLESS, "x.m", "keys have no type"),
    "a null among keys": (
        pa.MapArray.from_arrays([0, 2], NULL_KEY, pa.array([1, 2])),
        "x', row 0",
        "keys",
    ),
    "a null": (pa.StructArray.from_arrays([ONES], fields=[REQUIRED]), "x.r", "nulls"),
    "a null beside null structs": (
        pa.array([[{"r": 1}, None], None, [{"r": None}]], LIST),
        "x.item.r",
        "nulls",
    ),
    "a null in a list": (
        pa.array([None, {"r": None}, {"r": [None]}], STRUCT),
        "x.r.r",
        "nulls",
    ),
    "a null UUID": (pa.StructArray.from_arrays([IDS], ["s"]), "x.s.r", "nulls"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_no_table_holds_is_refused_by_its_path(kind):
    array, path, said = REFUSED[kind]
    with pytest.raises(UnsupportedTypeError, match=rf"'{path}.*{said}"):
        send(pa.table({"x": array}))
    if said == "nulls":
        assert (
            send(pa.table({"x": array[:1]})).table()["x"].to_pylist()
            == array[:1].to_pylist()
        )


def test_a_column_that_may_not_be_null_is_refused_where_it_is():
    table = pa.table(
        {"x": [1, None]}, pa.schema([pa.field("x", pa.int64(), nullable=False)])
    )
    assert send(table.slice(0, 1)).schema == table.schema
    for data in (table, [table.slice(0, 1), pa.table({"x": [2, None]})]):
        with pytest.raises(UnsupportedTypeError, match="'x' has nulls"):
            send(data)


def test_all_columns_that_have_nulls_and_may_not_are_named_whichever_chunk_they_are_in():
    schema = pa.schema(
        [
            pa.field(name, pa.int64(), nullable=name == "may")
            for name in ("x", "may", "y", "z")
        ]
    )
    chunks = [[1, None, 3, 4], [1, 2, None, 4], [None, 2, 3, 4]]
    table = pa.concat_tables(
        [
            pa.Table.from_pylist([dict(zip(schema.names, row, strict=True))], schema)
            for row in chunks
        ]
    )
    with pytest.raises(UnsupportedTypeError, match="'x' has nulls") as refused:
        send(table)
    assert refused.value.columns == ("x", "y")


def test_structs_of_lists_of_a_fixed_size_are_stored_as_the_refusal_says():
    fixed = pa.array([[{"a": 1, "b": None}, None], None], pa.list_(NUMBERS, 2))
    with pytest.raises(UnsupportedTypeError, match="dtypes="):
        send(pa.table({"x": fixed}))
    dtypes = {"x": pa.list_(NUMBERS)}
    found = send(pa.table({"x": fixed}), dtypes=dtypes).table()["x"]
    assert found.to_pylist() == fixed.to_pylist()


def test_items_without_a_name_get_one():
    """DuckDB's arrays have such."""
    nameless = pa.list_(pa.field("", pa.list_(pa.field("", pa.float32()), 2)))
    column = send(pa.table({"x": pa.array([[[1, 2]], None], nameless)})).table()["x"]
    assert (column.type, column.to_pylist()) == (
        pa.list_(pa.list_(pa.float32(), 2)),
        [[[1, 2]], None],
    )


VECTOR = pa.list_(pa.field("x", pa.float32(), nullable=False), 2)
VECTORS = {
    "with a null among their items": pa.array([[1, 2], None, [3, None]], VECTOR),
    "in a struct": pa.array([{"s": [1, 2]}], pa.struct([("s", VECTOR)])),
    "in lists": pa.array(
        [[[1, 2]], []], pa.list_(pa.field("y", VECTOR, nullable=False))
    ),
    "of vectors": pa.array(
        [[[1, 2], [3, 4]]], pa.list_(pa.field("y", VECTOR, nullable=False), 2)
    ),
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
        for after in (frame, frame.schema, table.schema):
            assert "nothing to alter" in repr(rt.alter_table(after, name))


def test_an_object_in_dtypes_says_no_more_than_tables_keep(client, service, name):
    item = {"name": "x", "type": {"type": "float"}, "nullable": False}
    dtypes = {
        "v": {"type": "fixed_size_list", "length": 2, "fields": [item]},
        "d": {"type": "dict:string:int8:true"},
        "l": {
            "type": "list",
            "fields": [{**item, "type": {"type": "dict:string:int8:false"}}],
        },
    }
    frame = pl.DataFrame({"v": [[1.0, 2.0]], "d": ["a"], "l": [["b"]]})
    assert rt.to_table(frame, name, dtypes=dtypes).schema.equals(
        stored(service, name).schema
    )
    assert stored(service, name).to_pylist() == frame.to_dicts()


def lists(offsets: list[int], items: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), items)


MAPS = pa.array(
    [[("a", 1)], [("b", 2), ("c", None)], []], pa.map_(pa.string(), pa.int64())
)
TWO = pa.array([2], pa.int32()).buffers()[1]
# slices as other writers make them
NO_TEXT = pa.Array.from_buffers(pa.string(), 0, [None, TWO, pa.py_buffer(b"abc")])
NO_LISTS = pa.Array.from_buffers(
    pa.list_(pa.int64()), 0, [None, TWO], children=[pa.array([1, 2, 3])]
)
NOTHING_AT_TWO = pa.Array.from_buffers(
    pa.timestamp("ns"), 0, [None, pa.py_buffer(b"")], offset=2
)
EMPTY_SLICES = {
    "items without a buffer, as Polars gives them": lists([0, 0, 0], NOTHING_AT_TWO),
    "in a struct": pa.StructArray.from_arrays([lists([0, 0], NOTHING_AT_TWO)], ["x"]),
    "lists of maps": lists([0, 0], lists([0, 1, 3], MAPS).slice(2, 0)),
    "maps behind others": lists([0, 2, 2], MAPS).slice(1),
    "lists behind others": lists([0, 2, 2], lists([0, 1, 3], MAPS)).slice(1),
    "codes": lists([0, 0], pa.array(["a", "b"]).dictionary_encode().slice(2, 0)),
    "UUIDs": lists([0, 0], pa.array([bytes(16)] * 2, pa.uuid()).slice(2, 0)),
    "fixed-size lists": lists(
        [0, 0], pa.array([[1, 2]], pa.list_(pa.int8(), 2)).slice(1, 0)
    ),
    "text whose offsets do not begin at 0": lists([0, 0, 0], NO_TEXT),
    "structs of lists whose offsets do not begin at 0": lists(
        [0, 0], pa.StructArray.from_arrays([NO_LISTS], ["x"])
    ),
    "keys whose offsets do not begin at 0": pa.MapArray.from_arrays(
        [0, 0], NO_TEXT, pa.array([], pa.int8())
    ),
    "lists of lists of text whose offsets do not begin at 0": lists(
        [0, 1, 2], lists([0, 0, 0], NO_TEXT)
    ),
}


@pytest.mark.parametrize("array", EMPTY_SLICES.values(), ids=EMPTY_SLICES)
def test_empty_slices_inside_are_sent_as_nothing(service, client, name, array):
    rt.to_table(pa.table({"c": array, "n": range(len(array))}), name)
    assert stored(service, name)["c"].to_pylist() == array.to_pylist()


MAKERS = {
    "list": pa.large_list,
    "struct": lambda inner: pa.struct([("f", inner)]),
    "map": lambda inner: pa.map_(pa.string(), inner),
    "Polars": pl.List,
}


def deep(kind: str, levels: int) -> tuple[object, object]:
    """Give a type of so many levels, and what has a column of it."""
    flat = pl.Int64 if kind == "Polars" else pa.int64()
    dtype = functools.reduce(lambda inner, _: MAKERS[kind](inner), range(levels), flat)
    schema = pl.Schema({"x": dtype}) if kind == "Polars" else pa.schema([("x", dtype)])
    if levels > 1000:
        return dtype, schema
    return dtype, pl.DataFrame(
        schema=schema
    ) if kind == "Polars" else schema.empty_table()


@pytest.mark.parametrize("kind", MAKERS)
def test_the_last_level_that_is_taken_is_stored(client, service, name, kind):
    rt.to_table(deep(kind, 16 if kind == "map" else 32)[1], name)
    assert stored(service, name).schema.names == ["x"]


@pytest.mark.parametrize("levels", [33, 5000])
@pytest.mark.parametrize("kind", MAKERS)
def test_one_level_more_is_refused_by_column_at_once(kind, levels):
    start = time.process_time()
    flat = {"x": "int64"}
    dtype, frame = deep(kind, levels)
    attempts = [
        lambda: rt.plan_alterations(frame, flat),
        lambda: rt.plan_alterations({"x": dtype}, flat),
    ]
    if levels < 1000:
        attempts += [
            lambda: send(frame),
            lambda: send(pa.table({"x": [1]}), dtypes={"x": dtype}),
            lambda: rt.plan_alterations(flat, frame),
            lambda: rt.Alteration("x", data_type=dtype),
        ]
    for attempt in attempts:
        with pytest.raises(UnsupportedTypeError, match=r"'x\..*32 levels"):
            attempt()
    # CPU time, since a walk that is not linear would take longer
    assert time.process_time() - start < 5
