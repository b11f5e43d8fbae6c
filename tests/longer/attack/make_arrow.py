"""Draw Arrow tables: every type at every depth, with offsets, views, garbage under nulls, and chunks that differ."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

TEXTS = ["", "a", "b", "Ä", "日本語", "👍🏽", "nul\0nul", "longer than twelve bytes", "x" * 60, "1", "null"]
ZONES = [None, None, "UTC", "Europe/Berlin", "+05:30", "-11:00", "America/New_York", "Asia/Kathmandu"]
UNITS = ["s", "ms", "us", "ns"]
PLAIN = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
]  # fmt: skip
TEXT = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]

JSON_TYPES = [pa.json_(pa.string()), pa.json_(pa.large_string()), pa.json_(pa.string_view())]
JSON = ['{"a": 1}', "[1, null]", "3", '"text"', '{"b": {"c": [0.5, "Ä", "longer than twelve bytes"]}}', "null", "{}"]
ODD_JSON = [
    '{"a": NaN}',
    "-Infinity",
    '"\\ud800"',
    '{"a": 1, "a": 2}',
    "[1e400]",
    "18446744073709551616",
    "{",
    "01",
    "",
]


class Tagged(pa.ExtensionType):
    """An extension type written in Python, as pyarrow's documentation shows them, around any storage."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "test.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"tag"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Tagged:
        return cls(storage)


def leaf_type(r: random.Random) -> pa.DataType:
    """Draw a type without children."""
    kinds: list[Callable[[], pa.DataType]] = [
        lambda: r.choice(PLAIN),
        lambda: r.choice(PLAIN),
        lambda: r.choice(TEXT),
        lambda: r.choice(TEXT),
        lambda: pa.timestamp(r.choice(UNITS), r.choice(ZONES)),
        lambda: pa.duration(r.choice(UNITS)),
        lambda: pa.binary(r.choice([1, 3, 16])),
        lambda: r.choice([pa.decimal32(5, 2), pa.decimal64(12, 4), pa.decimal128(38, 10), pa.decimal256(60, 5)]),
        lambda: r.choice([pa.decimal128(5, -2), pa.decimal128(3, 3), pa.decimal32(9, 0), pa.decimal64(18, 18)]),
    ]
    return r.choice(kinds)()


def random_type(r: random.Random, depth: int) -> pa.DataType:
    """Draw a type, of at most so many levels."""
    if depth == 0 or r.random() < 0.2:
        return leaf_type(r)
    if r.random() < 0.03:
        return r.choice([pa.null(), pa.month_day_nano_interval(), pa.binary(0)])
    nested: list[Callable[[pa.DataType], pa.DataType]] = [
        pa.list_, pa.large_list, pa.list_view, pa.large_list_view,
        lambda inner: pa.list_(inner, r.choice([0, 1, 2, 2, 3, 3])),
        lambda inner: pa.struct([("a", inner), ("b", random_type(r, depth - 1))]),
        lambda inner: pa.struct([("a", inner)]),
        lambda inner: pa.map_(r.choice([pa.string(), pa.int32(), pa.date32(), leaf_type(r)]), inner),
        lambda inner: pa.run_end_encoded(r.choice([pa.int16(), pa.int32(), pa.int64()]), inner),
        lambda inner: inner if isinstance(inner, Tagged) else Tagged(inner),
    ]  # fmt: skip
    if r.random() < 0.3:
        return dictionary_type(r)
    if r.random() < 0.06:
        inner = r.choice([Tagged(r.choice(TEXT)), r.choice(JSON_TYPES), pa.uuid(), Tagged(dictionary_type(r))])
        return r.choice([inner, pa.list_(inner), pa.struct([("a", inner)]), pa.map_(pa.string(), inner)])
    if r.random() < 0.06:
        return r.choice([pa.uuid(), r.choice(JSON_TYPES), pa.bool8(), pa.fixed_shape_tensor(pa.int8(), [2])])
    if r.random() < 0.04:
        make = r.choice([pa.dense_union, pa.sparse_union])
        return make([pa.field("u", leaf_type(r)), pa.field("v", pa.int8())])
    return r.choice(nested)(random_type(r, depth - 1))


def dictionary_type(r: random.Random) -> pa.DataType:
    inner = leaf_type(r)
    if r.random() < 0.1:
        inner = r.choice([pa.list_, lambda x: pa.struct([("a", x)])])(inner)
    if r.random() < 0.5:
        inner = r.choice(TEXT[:3])
    code = r.choice([pa.int8(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()])
    return pa.dictionary(code, inner, ordered=r.random() < 0.1)


def array_of(r: random.Random, type_: pa.DataType, rows: int, nulls: float | None = None) -> pa.Array:
    """Fill an array of a type."""
    nulls = r.choice([0, 0, 0.2, 0.6]) if nulls is None else nulls
    valid = [r.random() >= nulls for _ in range(rows)]
    if type_ in JSON_TYPES:
        known = [*JSON, *ODD_JSON] if r.random() < 0.2 else JSON
        texts = [r.choice(known) if r.random() >= nulls else None for _ in range(rows)]
        return pa.ExtensionArray.from_storage(type_, pa.array(texts, type_.storage_type))
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, array_of(r, type_.storage_type, rows, nulls))
    for is_type, make in _NESTED:
        if is_type(type_):
            return make(r, type_, valid)
    return _leaves(r, type_, valid)


def _leaves(r: random.Random, type_: pa.DataType, valid: list[bool]) -> pa.Array:
    """Fill an array without children; where there is room for it, something else stands under its nulls."""
    if pt.is_decimal(type_):
        return _decimals(r, type_, valid)
    if pt.is_float16(type_):
        drawn = [np.float16(r.choice([0.1, -0.0, 65504, 1e-7, float("nan"), float("inf")])) for _ in valid]
        return pa.array(drawn, type_, mask=np.array([not ok for ok in valid], bool))
    draw = _draw_of(r, type_)
    whole = pa.array([draw() for _ in valid], type_)
    if pt.is_primitive(type_) and not all(valid) and r.random() < 0.7:
        bits = np.packbits(np.array(valid, bool), bitorder="little")
        return pa.Array.from_buffers(type_, len(valid), [pa.py_buffer(bits.tobytes()), whole.buffers()[1]])
    return pa.array([x if ok else None for x, ok in zip(_python(whole), valid, strict=True)], type_)


def _python(array: pa.Array) -> list:
    if not pt.is_temporal(array.type) or pt.is_interval(array.type):
        return array.to_pylist()
    return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()


def _draw_of(r: random.Random, type_: pa.DataType) -> Callable[[], object]:
    """Draw values of a type without children, at the edges of what it holds too."""
    if pt.is_integer(type_):
        low, high = _limits(type_)
        return lambda: r.choice([low, high, r.randrange(100), r.randrange(max(low, -1000), 100)])
    if pt.is_floating(type_):
        return lambda: r.choice([0.5, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 2.0**-140])
    if pt.is_boolean(type_):
        return lambda: r.random() < 0.5
    if pt.is_interval(type_):
        return lambda: (r.randrange(9), r.randrange(9), r.randrange(9))
    if pt.is_date64(type_):
        return lambda: r.choice([0, r.randrange(-20_000, 20_000)]) * 86_400_000
    if pt.is_time(type_):
        top = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit]
        return lambda: r.choice([0, top - 1, r.randrange(top)])
    if pt.is_temporal(type_):
        limit = 2**31 - 1 if pt.is_date32(type_) else 2**63 - 1
        return lambda: r.choice([0, -1, r.randrange(-20_000, 20_000), r.randrange(10**6), limit, -limit])
    if pt.is_fixed_size_binary(type_):
        return lambda: r.randbytes(type_.byte_width)
    if pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_):
        return lambda: r.choice(TEXTS)
    return lambda: r.choice([*(text.encode() for text in TEXTS), b"\xff\xfe", r.randbytes(20)])


def _limits(type_: pa.DataType) -> tuple[int, int]:
    info = np.iinfo(type_.to_pandas_dtype())
    return int(info.min), int(info.max)


def _decimals(r: random.Random, type_: pa.DataType, valid: list[bool]) -> pa.Array:
    top = 10**type_.precision - 1
    drawn = [Decimal(r.choice([top, -top, 0, r.randrange(top)])).scaleb(-type_.scale) for _ in valid]
    digits = [tuple(x.as_tuple()) for x in drawn]
    exact = [Decimal((s, d, -type_.scale)) for s, d, _ in digits]
    wide = pa.decimal256(type_.precision, type_.scale)
    return pa.array([x if ok else None for x, ok in zip(exact, valid, strict=True)], wide).cast(type_)


def _mask(valid: list[bool]) -> pa.Array | None:
    return None if all(valid) else pa.array([not ok for ok in valid], pa.bool_())


def _offsets(r: random.Random, rows: int, large: bool) -> tuple[pa.Array, int]:
    """Draw offsets that may begin behind the first item and end before the last."""
    offsets = [r.choice([0, 0, 2])]
    for _ in range(rows):
        offsets.append(offsets[-1] + r.choice([0, 1, 2, 3]))
    return pa.array(offsets, pa.int64() if large else pa.int32()), offsets[-1] + r.choice([0, 2])


def _lists(r: random.Random, type_: pa.DataType, valid: list[bool]) -> pa.Array:
    large = pt.is_large_list(type_)
    offsets, total = _offsets(r, len(valid), large)
    items = array_of(r, type_.value_type, total)
    return (pa.LargeListArray if large else pa.ListArray).from_arrays(offsets, items, type=type_, mask=_mask(valid))


def _list_views(r: random.Random, type_: pa.DataType, valid: list[bool]) -> pa.Array:
    """Let lists overlap and stand in any order, as views may."""
    large = pt.is_large_list_view(type_)
    total = len(valid) + 3
    sizes = [r.randrange(3) for _ in valid]
    starts = [r.randrange(total - size) for size in sizes]
    code = pa.int64() if large else pa.int32()
    make = pa.LargeListViewArray if large else pa.ListViewArray
    items = array_of(r, type_.value_type, total)
    return make.from_arrays(pa.array(starts, code), pa.array(sizes, code), items, type=type_, mask=_mask(valid))


def _fixed_size_lists(r: random.Random, type_: pa.DataType, valid: list[bool]) -> pa.Array:
    if type_.list_size == 0:  # pyarrow divides by it
        return pa.array([[] if ok else None for ok in valid], type_)
    items = array_of(r, type_.value_type, len(valid) * type_.list_size)
    return pa.FixedSizeListArray.from_arrays(items, type=type_, mask=_mask(valid))


def _structs(r: random.Random, type_: pa.DataType, valid: list[bool]) -> pa.Array:
    children = [array_of(r, field.type, len(valid)) for field in type_]
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=_mask(valid))


def _maps(r: random.Random, type_: pa.DataType, valid: list[bool]) -> pa.Array:
    offsets, total = _offsets(r, len(valid), large=False)
    keys, items = array_of(r, type_.key_type, total, nulls=0), array_of(r, type_.item_type, total)
    return pa.MapArray.from_arrays(offsets, keys, items, type=type_, mask=_mask(valid))


def _dictionaries(r: random.Random, type_: pa.DataType, valid: list[bool]) -> pa.Array:
    """Draw codes into a dictionary of its own, which may hold values twice, nulls, and values that no code uses."""
    size = r.choice([1, 3, 8, 100])
    words = array_of(r, type_.value_type, size, nulls=r.choice([0, 0, 0, 0.2]))
    codes = pa.array([r.randrange(size) if ok else None for ok in valid], type_.index_type)
    return pa.DictionaryArray.from_arrays(codes, words, ordered=type_.ordered)


def _run_ends(r: random.Random, type_: pa.DataType, valid: list[bool]) -> pa.Array:
    rows = len(valid)
    ends = sorted({rows, *(r.randrange(1, rows + 1) for _ in range(r.randrange(rows + 1)))}) if rows else []
    items = array_of(r, type_.value_type, len(ends))
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, type_.run_end_type), items)


def _unions(r: random.Random, type_: pa.DataType, valid: list[bool]) -> pa.Array:
    codes = pa.array([r.randrange(type_.num_fields) for _ in valid], pa.int8())
    children = [array_of(r, type_.field(i).type, len(valid)) for i in range(type_.num_fields)]
    names = [type_.field(i).name for i in range(type_.num_fields)]
    if type_.mode == "sparse":
        return pa.UnionArray.from_sparse(codes, children, names)
    return pa.UnionArray.from_dense(codes, pa.array(range(len(valid)), pa.int32()), children, names)


_NESTED: list[tuple[Callable, Callable]] = [
    (lambda t: pt.is_list(t) or pt.is_large_list(t), _lists),
    (lambda t: pt.is_list_view(t) or pt.is_large_list_view(t), _list_views),
    (pt.is_fixed_size_list, _fixed_size_lists),
    (pt.is_struct, _structs),
    (pt.is_map, _maps),
    (pt.is_dictionary, _dictionaries),
    (pt.is_run_end_encoded, _run_ends),
    (pt.is_union, _unions),
    (pt.is_null, lambda r, type_, valid: pa.nulls(len(valid))),
]


def column(r: random.Random, type_: pa.DataType, rows: int) -> pa.ChunkedArray:
    """Make a column of several chunks, each drawn for itself, some of them slices, some of them empty."""
    parts = sorted(r.randrange(rows + 1) for _ in range(r.choice([0, 0, 1, 2])))
    sizes = [b - a for a, b in zip([0, *parts], [*parts, rows], strict=True)]
    chunks = []
    for size in sizes:
        skipped, cut = r.choice([(0, 0), (0, 0), (3, 0), (1, 2), (8, 1)])
        chunks.append(array_of(r, type_, skipped + size + cut).slice(skipped, size))
    return pa.chunked_array(chunks, type_)


def tables(r: random.Random, rows: int, depth: int, pieces: int) -> list[pa.Table]:
    """Make tables of one schema, of one to three drawn columns."""
    types = [random_type(r, depth) for _ in range(r.choice([1, 1, 1, 2, 3]))]
    metadata = r.choice([None, None, {b"k": b"v"}])
    fields = [pa.field(f"col_{i}", type_, metadata=metadata) for i, type_ in enumerate(types)]
    schema = pa.schema(fields, metadata=metadata)
    return [pa.table([column(r, type_, rows) for type_ in types], schema=schema) for _ in range(pieces)]
