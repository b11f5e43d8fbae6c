"""Read Arrow columns cell by cell, from their buffers' logical layout, and say which type is promised to be stored."""

from __future__ import annotations

import bisect
import decimal
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from tests.longer.attack import values
from tests.longer.attack.values import NANOSECONDS, Value

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT_EXTENSIONS = ("arrow.uuid", "arrow.json")


def cells(array: pa.Array | pa.ChunkedArray) -> list[Value]:
    """Say what each cell means."""
    try:
        type_ = array.type
    except KeyError:  # pyarrow has no class for two of the three interval types
        return [("unknown", "interval")] * len(array)
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in cells(chunk)]
    if isinstance(type_, pa.BaseExtensionType):
        return _extension(array)
    for is_type, read in _READERS:
        if is_type(type_):
            return read(array)
    return [("unknown", str(type_))] * len(array)


def _each(make: Callable[[Any], Value]) -> Callable[[pa.Array], list[Value]]:
    return lambda array: [None if x is None else make(x) for x in array.to_pylist()]


def _extension(array: pa.ExtensionArray) -> list[Value]:
    stored = cells(array.storage)
    if array.type.extension_name == "arrow.uuid":
        return [None if value is None else ("uuid", value[1]) for value in stored]
    if array.type.extension_name == "arrow.json":
        return [None if value is None else _json(value[1]) for value in stored]
    return stored


def _json(text: str) -> Value:
    """Compare documents, not spaces: the engine writes them anew."""
    try:
        return ("json", json.dumps(json.loads(text, parse_float=decimal.Decimal), sort_keys=True, default=str))
    except ValueError:
        return ("unknown", "text that is no JSON")


def _counts(array: pa.Array) -> list[int | None]:
    wide = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return array.cast(wide).to_pylist()


def _temporal(array: pa.Array) -> list[Value]:
    type_ = array.type
    if pt.is_date32(type_):
        return [None if x is None else ("date", x) for x in _counts(array)]
    if pt.is_date64(type_):
        return [None if x is None else _date64(x) for x in _counts(array)]
    many = NANOSECONDS[type_.unit]
    if pt.is_timestamp(type_):
        zone = type_.tz and values.plain_zone(type_.tz)
        return [None if x is None else ("ts", x * many, zone) for x in _counts(array)]
    kind = "dur" if pt.is_duration(type_) else "time"
    return [None if x is None else (kind, x * many) for x in _counts(array)]


def _date64(milliseconds: int) -> Value:
    days, rest = divmod(milliseconds, 86_400_000)
    return ("unknown", "date64 with a time of day") if rest else ("date", days)


def _list(array: pa.Array) -> list[Value]:
    offsets = array.offsets.to_pylist()
    return _parts(array, offsets[:-1], offsets[1:])


def _list_view(array: pa.Array) -> list[Value]:
    starts = array.offsets.to_pylist()
    return _parts(array, starts, [start + size for start, size in zip(starts, array.sizes.to_pylist(), strict=True)])


def _fixed_size_list(array: pa.Array) -> list[Value]:
    size, first = array.type.list_size, array.offset
    starts = [(first + i) * size for i in range(len(array))]
    return _parts(array, starts, [start + size for start in starts])


def _parts(array: pa.Array, starts: list[int], ends: list[int]) -> list[Value]:
    """Cut the items of a list, reading only those that valid rows use."""
    used = [(a, b) for a, b, valid in zip(starts, ends, array.is_valid().to_pylist(), strict=True) if valid and b > a]
    first, last = min((a for a, _ in used), default=0), max((b for _, b in used), default=0)
    items = cells(array.values.slice(first, last - first))
    valid = array.is_valid().to_pylist()
    return [
        ("list", tuple(items[a - first : b - first] if b > a else ())) if ok else None
        for a, b, ok in zip(starts, ends, valid, strict=True)
    ]


def _struct(array: pa.Array) -> list[Value]:
    names = [field.name for field in array.type]
    columns = [cells(array.field(i)) for i in range(len(names))]
    rows = zip(*columns, strict=True) if columns else [()] * len(array)
    return [
        ("struct", tuple(zip(names, row, strict=True))) if valid else None
        for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


def _map(array: pa.Array) -> list[Value]:
    offsets = array.offsets.to_pylist()
    first, last = offsets[0], offsets[-1]
    keys, items = (cells(part.slice(first, last - first)) for part in (array.keys, array.items))
    pairs = list(zip(keys, items, strict=True))
    return [
        ("map", tuple(pairs[a - first : b - first])) if valid else None
        for a, b, valid in zip(offsets[:-1], offsets[1:], array.is_valid().to_pylist(), strict=True)
    ]


def _dictionary(array: pa.Array) -> list[Value]:
    dictionary = cells(array.dictionary)
    return [None if code is None else dictionary[code] for code in array.indices.to_pylist()]


def _runs(array: pa.Array) -> list[Value]:
    ends, run_values = array.run_ends.to_pylist(), cells(array.values)
    return [run_values[bisect.bisect_right(ends, i)] for i in range(array.offset, array.offset + len(array))]


_READERS: list[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], list[Value]]]] = [
    (pt.is_null, lambda array: [None] * len(array)),
    (pt.is_boolean, _each(lambda x: ("bool", x))),
    (pt.is_integer, _each(lambda x: ("int", x))),
    (pt.is_floating, _each(lambda x: values.float_value(float(x)))),
    (pt.is_decimal, _each(values.decimal_value)),
    (lambda t: pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t), _each(lambda x: ("str", x))),
    (lambda t: pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t), _each(lambda x: ("bytes", x))),
    (pt.is_fixed_size_binary, _each(lambda x: ("bytes", x))),
    (lambda t: pt.is_temporal(t) and not pt.is_interval(t), _temporal),
    (lambda t: pt.is_list(t) or pt.is_large_list(t), _list),
    (lambda t: pt.is_list_view(t) or pt.is_large_list_view(t), _list_view),
    (pt.is_fixed_size_list, _fixed_size_list),
    (pt.is_struct, _struct),
    (pt.is_map, _map),
    (pt.is_dictionary, _dictionary),
    (pt.is_run_end_encoded, _runs),
]


def promised_type(type_: pa.DataType) -> pa.DataType:
    """Say which type is to be stored for a given one; dictionaries count as the type of their values."""
    if isinstance(type_, pa.BaseExtensionType):
        if type_.extension_name in KEPT_EXTENSIONS:
            return type_
        return promised_type(type_.storage_type)
    if pt.is_dictionary(type_) or pt.is_run_end_encoded(type_):
        return promised_type(type_.value_type)
    if pt.is_string_view(type_):
        return pa.large_string()
    if pt.is_binary_view(type_):
        return pa.large_binary()
    if pt.is_decimal32(type_) or pt.is_decimal64(type_):
        return pa.decimal128(type_.precision, type_.scale)
    if pt.is_timestamp(type_) and type_.tz:
        return pa.timestamp(type_.unit, values.plain_zone(type_.tz))
    return _promised_nested_type(type_)


def _promised_nested_type(type_: pa.DataType) -> pa.DataType:
    if pt.is_list(type_) or pt.is_list_view(type_):
        return pa.list_(promised_type(type_.value_type))
    if pt.is_large_list(type_) or pt.is_large_list_view(type_):
        return pa.large_list(promised_type(type_.value_type))
    if pt.is_fixed_size_list(type_):
        return pa.list_(promised_type(type_.value_type), type_.list_size)
    if pt.is_struct(type_):
        return pa.struct([pa.field(field.name, promised_type(field.type)) for field in type_])
    if pt.is_map(type_):
        return pa.map_(promised_type(type_.key_type), promised_type(type_.item_type))
    return type_
