"""Every layout that Arrow knows for the same values, nested in every way, becomes the portable one."""

from __future__ import annotations

import contextlib

import pandas as pd
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames._schema.data_type import has_variable_items
from rt_frames._schema.portable import to_portable
from rt_frames.errors import UnsupportedTypeError
from tests.support.compare import stored
from tests.support.sent import send

VIEWS = pa.list_view(pa.string_view())


class Own(pa.ExtensionType):
    """A type of somebody else's, written in Python as pyarrow's documentation shows it; it cannot be hashed."""

    __hash__ = None  # type: ignore[assignment]  # which is what Python does where only __eq__ is written

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "own")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and other.storage_type == self.storage_type

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Own:
        return cls(storage_type)


LONG = pa.array(["a", None, "a text that is too long to lie in a view"], pa.string_view())
INNER = {
    "own type of views": pa.ExtensionArray.from_storage(Own(pa.string_view()), LONG),
    "JSON in views": pa.ExtensionArray.from_storage(pa.json_(pa.string_view()), LONG),
    "UUIDs in maps": pa.MapArray.from_arrays([0, 1, 1, 2], ["a", "b"], pa.array([bytes(16), None], pa.uuid())),
    "coded JSON": pa.DictionaryArray.from_arrays(
        [0, None, 2], pa.ExtensionArray.from_storage(pa.json_(pa.string_view()), LONG)
    ),
    "string view": pa.array(["a", None, "a text that is too long to lie in a view"], pa.string_view()),
    "coded": pa.array(["a", None, "b"]).dictionary_encode(),
    "coded views": pa.DictionaryArray.from_arrays(pa.array([0, None, 0], pa.int8()), pa.array(["a"], pa.string_view())),
    "coded numbers of two signs": pa.DictionaryArray.from_arrays([0, None, 1], pa.array([0.0, -0.0])),
    "coded halves": pa.DictionaryArray.from_arrays([0, None, 1], pa.array([0.5, 2.0], pa.float16())),
    "coded days": pa.DictionaryArray.from_arrays([0, None, 1], pa.array([1, 2], pa.date32())),
    "coded decimals": pa.DictionaryArray.from_arrays([0, None, 1], pa.array([1, 2], pa.decimal32(5, 0))),
    "coded bytes": pa.DictionaryArray.from_arrays([0, None, 1], pa.array([b"ab", b"cd"], pa.binary(2))),
    "coded structs": pa.DictionaryArray.from_arrays([0, None, 1], pa.array([{"a": 1}, {"a": None}])),
    "coded with large codes": pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.uint64()), pa.array(["a", "b"])),
    "coded lists": pa.DictionaryArray.from_arrays([0, None, 1], pa.array([[1], [2, None]])),
    "list view": pa.array([["a"], None, []], VIEWS),
    "list view out of order": pa.ListViewArray.from_arrays([1, 0, 0], [1, 2, 0], pa.array([["x"], None], VIEWS)),
    "large list view": pa.array([[1], None, []], pa.large_list_view(pa.int8())),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array([1, None], pa.int8())),
    "runs of words": pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 3], pa.int16()), pa.array(["a", None]).dictionary_encode()
    ),
    "runs of days": pa.RunEndEncodedArray.from_arrays(
        pa.array([2, 3], pa.int64()), pa.array([1, None], pa.date32()).dictionary_encode()
    ),
    "runs of views": pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 3], pa.int32()), pa.array([None, "b"], pa.string_view())
    ),
    "decimal": pa.array([1, None, 2], pa.decimal64(15, 0)),
    "extension": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8())),
    "map of views": pa.array([[("a", "b")], None, []], pa.map_(pa.string_view(), pa.string_view())),
}
WRAPPED = {
    "alone": lambda a: a,
    "list": lambda a: pa.ListArray.from_arrays(pa.array([0, 2, None, 3], pa.int32()), a),
    "large list": lambda a: pa.LargeListArray.from_arrays(pa.array([0, 2, None, 3], pa.int64()), a),
    "fixed-size list": lambda a: pa.FixedSizeListArray.from_arrays(pa.concat_arrays([a, a, a]), 3),
    "struct": lambda a: pa.StructArray.from_arrays([a], ["x"], mask=pa.array([False, False, True])),
    "map": lambda a: pa.MapArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), pa.array(["a", "b", "c"]), a),
    "list view": lambda a: pa.ListViewArray.from_arrays([0, 2, 0], [2, 1, 1], a),
}


def as_stored(arrow: pa.DataType) -> tuple[pa.DataType, dict]:
    """Return the type in which values are sent, and the dtypes that are needed: no table holds all fixed-size lists."""
    made = to_portable(arrow)
    if not has_variable_items(made):
        return made, {}
    return pa.list_(made.value_field), {"c": pa.list_(made.value_field)}


def written(values: list) -> str:
    """Give values so that the sign of a zero counts; Arrow's bool8 is sent as the number that it is."""
    return repr(values).replace("True", "1").replace("False", "0")


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
@pytest.mark.parametrize("start", [0, 1])
def test_the_values_stay_whatever_the_layout(inner, wrap, start):
    array = wrap(inner)
    want, dtypes = as_stored(array.type)
    source = send(pa.table({"c": array.slice(start)}), dtypes=dtypes)
    (batch,) = source.batches()
    batch.validate(full=True)
    assert batch.schema.types == source.schema.types == [want]
    assert written(batch.column(0).to_pylist()) == written(array.to_pylist()[start:])


def reordered(array: pa.Array) -> pa.Array:
    """Give the same kind of values with the dictionary in another order."""
    if not pa.types.is_dictionary(array.type):
        return array
    values = array.dictionary
    backwards = pa.concat_arrays([values.slice(place, 1) for place in reversed(range(len(values)))])
    return pa.DictionaryArray.from_arrays(array.indices, backwards)


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
def test_chunks_whose_dictionaries_differ_keep_their_values(inner, wrap):
    array = wrap(inner)
    chunks = [array, wrap(reordered(inner)), array.slice(1), array.slice(0, 0)]
    source = send(pa.table({"c": pa.chunked_array(chunks)}), dtypes=as_stored(array.type)[1])
    got = pa.Table.from_batches(source.batches(), source.schema)
    got.validate(full=True)
    assert written(got["c"].to_pylist()) == written([value for chunk in chunks for value in chunk.to_pylist()])


@pytest.mark.parametrize("unit", [0, 1], ids=["months", "days and milliseconds"])
def test_intervals_are_refused_by_column(unit):
    """Only the C++ library makes these; here a schema's unit is written over."""
    written = bytearray(pa.schema([("x", pa.month_day_nano_interval())]).serialize().to_pybytes())
    schemas = []
    for place in (place for place, byte in enumerate(written) if byte == 2):
        changed = written.copy()
        changed[place] = unit
        with contextlib.suppress(pa.ArrowInvalid, OSError):
            schemas.append(pa.ipc.read_schema(pa.py_buffer(bytes(changed))))
    (schema,) = (schema for schema in schemas if "interval" in str(schema) and "nano" not in str(schema))
    with pytest.raises(UnsupportedTypeError, match=r"'x': Arrow's .*interval cannot be sent; cast it"):
        send(pa.RecordBatchReader.from_batches(schema, []))


@pytest.mark.parametrize(
    ("arrow", "message"),
    [
        (pa.list_(pa.int8(), 0), "'x': lists or bytes of the fixed size 0"),
        (pa.struct([("a", pa.binary(0))]), "'x': lists or bytes of the fixed size 0"),
        (pa.list_(pa.struct([("a\n", pa.int8())])), "'x.item': .*control characters"),
    ],
    ids=str,
)
def test_types_that_no_table_holds_are_refused_by_their_path(arrow, message):
    with pytest.raises(UnsupportedTypeError, match=message):
        send(pa.table({"x": pa.nulls(2, arrow)}))


def test_lists_of_the_fixed_size_0_are_refused_whatever_they_are_cast_to():
    with pytest.raises(UnsupportedTypeError, match="'x': lists or bytes of the fixed size 0"):
        send(pa.table({"x": pa.nulls(2, pa.list_(pa.int8(), 0))}), dtypes={"x": pa.list_(pa.int8())})


REQUIRED = pa.field("r", pa.int64(), nullable=False)
NOT_NULL = {
    "x": (pa.field("x", pa.int64(), nullable=False), [1, None]),
    "x.r": (pa.field("x", pa.struct([REQUIRED])), [{"r": 1}, None, {"r": None}]),
    "x.item.r": (pa.field("x", pa.list_(pa.struct([REQUIRED]))), [[{"r": 1}, None], None, [{"r": None}]]),
    "x.r.r": (pa.field("x", pa.struct([pa.field("r", pa.list_(REQUIRED))])), [None, {"r": None}, {"r": [None]}]),
}


@pytest.mark.parametrize("path", NOT_NULL)
def test_nulls_where_a_schema_says_there_are_none_are_refused_by_path(path):
    field, values = NOT_NULL[path]
    table = pa.table({"x": pa.array(values, field.type)}, schema=pa.schema([field]))
    with pytest.raises(UnsupportedTypeError, match=f"column '{path}' has nulls"):
        send(table)
    kept = send(table.slice(0, 1)).batches()
    assert [row for batch in kept for row in batch.column(0).to_pylist()] == values[:1]


def test_nulls_beside_uuids_are_refused_by_path_too():
    ids = pa.StructArray.from_arrays(
        [pa.array([bytes(16), None], pa.uuid())], fields=[pa.field("r", pa.uuid(), nullable=False)]
    )
    table = pa.table({"x": pa.StructArray.from_arrays([ids], ["s"])})
    with pytest.raises(UnsupportedTypeError, match=r"column 'x\.s\.r' has nulls"):
        send(table)
    (batch,) = send(table.slice(0, 1)).batches()
    assert batch.to_pylist() == table.to_pylist()[:1]


def test_items_without_a_name_get_one():
    """DuckDB's arrays have such."""
    nameless = pa.list_(pa.field("", pa.list_(pa.field("", pa.float32()), 2)))
    source = send(pa.table({"x": pa.array([[[1, 2]], None], nameless)}))
    assert source.schema.field("x").type == pa.list_(pa.list_(pa.float32(), 2))
    assert next(source.batches()).column(0).to_pylist() == [[[1, 2]], None]


def test_map_keys_in_runs_that_hold_a_null_are_refused_by_column():
    keys = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array([None, "b"]))
    with pytest.raises(UnsupportedTypeError, match=r"'c', row 0 .*NULL valued keys"):
        list(send(pa.table({"c": pa.MapArray.from_arrays([0, 2], keys, pa.array([1, 2]))})).batches())


@pytest.mark.parametrize(
    "wrap", [lambda a: a, lambda a: pa.StructArray.from_arrays([a], ["x"])], ids=["alone", "struct"]
)
@pytest.mark.parametrize("kind", [pa.large_list, pa.list_], ids=["large list", "list"])
def test_of_a_slice_of_lists_only_its_own_items_are_converted(kind, wrap):
    items = pa.array([f"a text of some length, number {i}" for i in range(40_000)], pa.string_view())
    lists = pa.ListArray.from_arrays(pa.array(range(0, 40_001, 4), pa.int32()), items).cast(kind(pa.string_view()))
    array = wrap(lists)
    parts = [pa.table({"c": array.slice(start, 100)}) for start in range(0, len(array), 100)]
    batches = [batch for part in parts for batch in send(part).batches()]
    assert [value for batch in batches for value in batch["c"].to_pylist()] == array.to_pylist()
    assert sum(batch.get_total_buffer_size() for batch in batches) < 1.5 * sum(batch.nbytes for batch in batches)


def lists(offsets: list[int], items: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), items)


MAPS = pa.array([[("a", 1)], [("b", 2), ("c", None)], []], pa.map_(pa.string(), pa.int64()))
NOTHING_AT_TWO = pa.Array.from_buffers(pa.timestamp("ns"), 0, [None, pa.py_buffer(b"")], offset=2)
EMPTY_SLICES = {
    "items without a buffer, as Polars gives them": lists([0, 0, 0], NOTHING_AT_TWO),
    "in a struct": pa.StructArray.from_arrays([lists([0, 0], NOTHING_AT_TWO)], ["x"]),
    "lists of maps": lists([0, 0], lists([0, 1, 3], MAPS).slice(2, 0)),
    "maps behind others": lists([0, 2, 2], MAPS).slice(1),
    "lists behind others": lists([0, 2, 2], lists([0, 1, 3], MAPS)).slice(1),
    "codes": lists([0, 0], pa.array(["a", "b"]).dictionary_encode().slice(2, 0)),
    "UUIDs": lists([0, 0], pa.array([bytes(16)] * 2, pa.uuid()).slice(2, 0)),
    "fixed-size lists": lists([0, 0], pa.array([[1, 2]], pa.list_(pa.int8(), 2)).slice(1, 0)),
}


@pytest.mark.parametrize("array", EMPTY_SLICES.values(), ids=EMPTY_SLICES)
def test_empty_slices_inside_are_sent_as_nothing(service, client, name, array):
    rt.to_table(pa.table({"c": array, "n": range(len(array))}), name)
    assert stored(service, name)["c"].to_pylist() == array.to_pylist()


@pytest.mark.parametrize("values", [[2**-23, -0.0], [0.5, None]], ids=["halves", "with a null"])
def test_chunks_of_dictionaries_are_not_unified_by_arrow(service, client, name, values):
    chunks = [
        pa.DictionaryArray.from_arrays([0, 1], pa.array(values, pa.float16())),
        pa.DictionaryArray.from_arrays([0], pa.array([65504.0], pa.float16())),
    ]
    frame = pd.DataFrame({"c": pd.arrays.ArrowExtensionArray(pa.chunked_array(chunks))})
    rt.to_table(frame, name)
    assert stored(service, name)["c"].to_pylist() == [*values, 65504.0]
