"""What Arrow data become before they are sent: the portable schema, and batches of it.

`portable_schema` decides once, by type. A `Converter` then turns batch after batch and touches only columns whose
layout differs. Arrow's own cast does most of it, but it has none out of dictionaries of nested values, and out of list
views and run-end-encoding inside lists it makes arrays that are too short: what holds such a layout is taken apart, its
items converted, and put together again.

The dictionaries of one place, a column or a field inside one, become one dictionary that only ever grows: a reader
keeps just the newest, and so reads every batch right, whichever writer sent it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from rt_frames._frames.exact_cast import cast_exactly
from rt_frames._names import duplicates, join_path
from rt_frames._schema.data_type import to_data_type
from rt_frames._schema.portable import is_portable, to_portable
from rt_frames._text import list_names
from rt_frames.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_LISTS = (is_.is_list, is_.is_large_list, is_.is_fixed_size_list, is_.is_list_view, is_.is_large_list_view)
_CONVERSION_ERRORS = (pa.ArrowException, ValueError, TypeError)
# pa.array and pa.scalar would import pandas where it is installed
_ZERO = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(bytes(8))])


def portable_schema(schema: pa.Schema, casts: Mapping[str, pa.DataType]) -> pa.Schema:
    """Give the schema that is sent, or say which column is not supported."""
    # extension types are asked for first: some cannot be hashed
    plain = [not isinstance(arrow, pa.BaseExtensionType) and is_portable(arrow) for arrow in schema.types]
    if all(plain) and not casts and not any(field.metadata for field in schema):
        return schema.remove_metadata()
    fields = []
    for field, as_it_is in zip(schema, plain, strict=True):
        arrow = field.type if as_it_is else to_portable(field.type, field.name)
        arrow = casts.get(field.name, arrow)
        _check_type(arrow, field, field.name)
        kept = {k: v for k, v in (field.metadata or {}).items() if k.startswith(b"ARROW:extension:")}
        standard = kept.get(b"ARROW:extension:name") in (b"arrow.uuid", b"arrow.json")
        fields.append(pa.field(field.name, arrow, field.nullable, kept if standard else None))
    return pa.schema(fields)


def _check_type(arrow: pa.DataType, column: pa.Field, path: str) -> None:
    if is_.is_null(arrow):
        raise UnsupportedTypeError(
            f"column {path!r} has no values and no type; a table's null column could never be cast later: "
            f"pass its type, for example dtypes={ {column.name: _example(column.type)}!r}"
        )
    children = [arrow.field(i) for i in range(arrow.num_fields)]
    names = [child.name for child in children]
    if is_.is_struct(arrow) and (not names or duplicates(names) or not all(names)):
        raise UnsupportedTypeError(f"column {path!r}: a struct needs fields with distinct names, not {names!r:.200}")
    for child in children:
        _check_type(child.type, column, join_path(path, child.name))


def _example(arrow: pa.DataType) -> Any:
    """Give a dtype to pass for a column of no values, or for one that holds such values: text in their place."""
    if not is_.is_nested(arrow):
        return "large_string"
    try:
        return to_data_type(_with_text(to_portable(arrow)))
    except UnsupportedTypeError:
        return ...  # a map has no word


def _with_text(arrow: pa.DataType) -> pa.DataType:
    if is_.is_struct(arrow):
        return pa.struct([field.with_type(_with_text(field.type)) for field in arrow])
    if is_.is_fixed_size_list(arrow):
        return pa.list_(_with_text(arrow.value_type), arrow.list_size)
    if is_.is_list(arrow) or is_.is_large_list(arrow):
        return (pa.list_ if is_.is_list(arrow) else pa.large_list)(_with_text(arrow.value_type))
    return pa.large_string() if is_.is_null(arrow) else arrow


class Converter:
    """Turn the batches of one source into batches of one portable schema.

    Parameters
    ----------
    schema : pyarrow.Schema
        The portable schema.
    casts : collection of str
        Columns that the caller wants cast; of the others only the layout may differ.
    dictionaries : dict of str to pyarrow.Array
        Values of top-level dictionaries that are known beforehand.
    """

    def __init__(
        self, schema: pa.Schema, casts: Collection[str] = (), dictionaries: Mapping[str, pa.Array] | None = None
    ) -> None:
        self._schema, self._casts, self._place, self._exact, self._rows = schema, casts, "", False, 0
        self._coded = coded_columns(schema)
        self._dictionaries = {
            name: values.cast(schema.field(name).type.value_type)
            for name, values in (dictionaries or {}).items()
            if is_.is_dictionary(schema.field(name).type)
        }
        self._compared: set[tuple[str, pa.DataType]] = set()

    def __call__(self, batch: pa.RecordBatch, place: str) -> pa.RecordBatch:
        """Convert one batch; the error for one that does not fit names its column and its ``place``."""
        rows_before, self._rows = self._rows, self._rows + batch.num_rows
        if not self._coded and batch.schema.equals(self._schema):
            return batch
        self._place, have, want = place, batch.schema.names, self._schema.names
        if have != want:
            if sorted(have) != sorted(want):
                raise UnsupportedTypeError(
                    f"{place} has other columns than the first one: missing {sorted(set(want) - set(have))}, "
                    f"new {sorted(set(have) - set(want))}; all data of one table needs the same columns"
                )
            batch = batch.select(want)
        pairs = zip(batch.columns, self._schema, strict=True)
        columns = [self._column(array, field, rows_before) for array, field in pairs]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, array: pa.Array, field: pa.Field, rows_before: int) -> pa.Array:
        if array.type == field.type and field.name not in self._coded:
            return array
        self._compare(array.type, field)
        self._exact = field.name in self._casts
        try:
            return self._converted(array, field.type, field.name)
        except UnsupportedTypeError:
            raise
        except _CONVERSION_ERRORS as error:
            row, reason = self._first_refused(array, field, error)
            where = "" if row is None else f", row {rows_before + row}"
            raise UnsupportedTypeError(
                f"column {field.name!r}{where} ({self._place}): {array.type} does not become "
                f"{field.type}: {str(reason)[:300]}; correct the values or choose another type"
            ) from error

    def _first_refused(self, array: pa.Array, field: pa.Field, error: Exception) -> tuple[int | None, Exception]:
        """Halve the rows until one is left; where not even none can be converted, it is none."""
        row, length = 0, 0
        while len(array) > 1:
            try:
                self._converted(array.slice(0, length), field.type, field.name)
            except _CONVERSION_ERRORS as reason:
                if length == 0:
                    return None, reason
                array, error = array.slice(0, length), reason
            else:
                array, row = array.slice(length), row + length
            length = len(array) // 2
        return row, error

    def _compare(self, arrow: pa.DataType, field: pa.Field) -> None:
        """Refuse a type of other values than the first batch's, once a type."""
        if arrow == field.type or is_.is_null(arrow) or field.name in self._casts:
            return
        if (field.name, arrow) in self._compared:
            return
        became = to_portable(arrow, field.name)
        if _meaning(became) != _meaning(field.type):
            raise UnsupportedTypeError(
                f"column {field.name!r} is {became} in {self._place} and {field.type} in the first one; "
                f"cast it beforehand, or give dtypes={{{field.name!r}: ...}}"
            )
        self._compared.add((field.name, arrow))

    def _converted(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        """Give the values of an array in another type, the dictionaries inside it as those of the whole stream."""
        if self._exact and not is_.is_nested(target):
            array = _cast_leaf(array, target, path)
        array = _unwrapped(array, target)
        if is_.is_dictionary(target):
            return self._one_dictionary(array if array.type == target else array.cast(target), path)
        coded = _contains(target, is_.is_dictionary)
        if array.type == target and not coded:
            return array
        if is_.is_null(array.type):
            return pa.nulls(len(array), target)
        if is_.is_struct(target) and is_.is_struct(array.type):
            return self._struct(array, target, path)
        if not is_.is_nested(target) or not (self._exact or coded or _contains(array.type, _is_beyond_arrow)):
            return array.cast(target)
        return self._rebuilt(array, target, path)

    def _rebuilt(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        """Take lists and maps apart, convert their items, and put them together again."""
        if is_.is_map(target) and is_.is_map(array.type):
            return self._map(array, target, path)
        if not any(is_list(array.type) for is_list in _LISTS) or not any(is_list(target) for is_list in _LISTS):
            raise ValueError(f"{path} is {array.type}, not {target}")
        if is_.is_fixed_size_list(target) and is_.is_fixed_size_list(array.type):
            size = array.type.list_size
            if size != target.list_size:
                raise ValueError(f"its lists have {size} items, not {target.list_size}")
            items = array.values.slice(array.offset * size, len(array) * size)
            items = self._converted(items, target.value_type, join_path(path, target.value_field.name))
            return pa.FixedSizeListArray.from_arrays(items, type=target, mask=array.is_null())
        if is_.is_fixed_size_list(target):
            return self._list(array, pa.list_(target.value_field), path).cast(target)
        return self._list(array, target, path)

    def _struct(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        have, want = ([field.name for field in arrow] for arrow in (array.type, target))
        if sorted(have) != sorted(want):
            raise ValueError(f"its fields are {list_names(have)}, not {list_names(want)}")
        fields = [self._converted(array.field(f.name), f.type, join_path(path, f.name)) for f in target]
        return pa.StructArray.from_arrays(fields, fields=list(target), mask=array.is_null())

    def _map(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        offsets, pairs = array.offsets, target.field(0).type
        start, stop = offsets[0].as_py(), offsets[-1].as_py()
        keys, items = (
            self._converted(part.slice(start, stop - start), field.type, join_path(path, field.name))
            for part, field in zip((array.keys, array.items), pairs, strict=True)
        )
        offsets = pc.call_function("subtract", [offsets, offsets[0]])
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=array.is_null())

    def _list(self, array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
        """Put a list or list view together again around its items, which then lie one behind the other."""
        items = self._converted(array.flatten(), target.value_type, join_path(path, target.value_field.name))
        kind, width = (pa.ListArray, pa.int32()) if is_.is_list(target) else (pa.LargeListArray, pa.int64())
        lengths = pc.call_function("list_value_length", [array]).fill_null(_ZERO[0]).cast(pa.int64())
        offsets = pa.concat_arrays([_ZERO, pc.call_function("cumulative_sum", [lengths])]).cast(width)
        return kind.from_arrays(offsets, items, type=target, mask=array.is_null())

    def _one_dictionary(self, array: pa.DictionaryArray, path: str) -> pa.DictionaryArray:
        known = self._dictionaries.setdefault(path, array.dictionary)
        if known is array.dictionary:
            return array
        if known.equals(array.dictionary):
            return pa.DictionaryArray.from_arrays(array.indices, known)
        places = _places(array.dictionary, known)
        if places.null_count:
            new = array.dictionary.filter(places.is_null())
            known = self._dictionaries[path] = pa.concat_arrays([known, new.unique()])
            if len(known) > 2 ** (array.type.index_type.bit_width - 1):
                raise UnsupportedTypeError(
                    f"column {path!r} ({self._place}): its dictionaries together have {len(known)} values, too many "
                    f"for {array.type.index_type} codes; cast it to dictionary<int32, {array.type.value_type}> first"
                )
            places = _places(array.dictionary, known)
        return pa.DictionaryArray.from_arrays(places.take(array.indices), known)


def _cast_leaf(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    try:
        return cast_exactly(array, target)
    except _CONVERSION_ERRORS as error:
        raise ValueError(f"{path}: {error}") from error


def _places(values: pa.Array, known: pa.Array) -> pa.Array:
    """Tell where each value stands among the known ones; null where it does not."""
    return pc.call_function("index_in", [values], pc.SetLookupOptions(value_set=known))


def coded_columns(schema: pa.Schema) -> set[str]:
    """Name the columns that are dictionaries or hold some."""
    return {field.name for field in schema if _contains(field.type, is_.is_dictionary)}


def _contains(arrow: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Tell whether a type, or one inside it, passes a test."""
    fields = range(arrow.num_fields)
    return test(arrow) or (len(fields) > 0 and any(_contains(arrow.field(i).type, test) for i in fields))


def _is_beyond_arrow(arrow: pa.DataType) -> bool:
    tests = (is_.is_dictionary, is_.is_run_end_encoded, is_.is_list_view, is_.is_large_list_view)
    return isinstance(arrow, pa.BaseExtensionType) or any(test(arrow) for test in tests)


def _unwrapped(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Take off what a type wraps around the values of another one."""
    if isinstance(array, pa.ExtensionArray) and not isinstance(target, pa.BaseExtensionType):
        return _unwrapped(array.storage, target)
    if is_.is_run_end_encoded(array.type):
        return _unwrapped(pc.call_function("run_end_decode", [array]), target)
    if is_.is_dictionary(array.type) and is_.is_nested(target):
        return _unwrapped(array.dictionary.take(array.indices), target)
    return array


def _meaning(arrow: pa.DataType) -> pa.DataType:
    """Give the one type that stands for all in which the same values can lie."""
    if is_.is_dictionary(arrow):
        return _meaning(arrow.value_type)
    if is_.is_string(arrow):
        return pa.large_string()
    if is_.is_struct(arrow):
        return pa.struct([field.with_type(_meaning(field.type)) for field in arrow])
    if is_.is_fixed_size_list(arrow):
        return pa.list_(arrow.value_field.with_type(_meaning(arrow.value_type)), arrow.list_size)
    if is_.is_list(arrow) or is_.is_large_list(arrow):
        return pa.large_list(arrow.value_field.with_type(_meaning(arrow.value_type)))
    return arrow
