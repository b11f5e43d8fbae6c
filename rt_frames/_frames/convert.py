"""Arrow data → the portable schema, and batches of it.

`portable_layout` decides once, by type. A `Converter` then converts each batch, touching only columns whose layout
differs. Nested columns are taken apart, converted and reassembled, because Arrow's own cast lacks dictionaries of
nested values, truncates list views and run-end-encoding inside lists, and casts all that lies behind a slice of lists.

The dictionaries of one place (a column, or a field inside one) become one dictionary, as readers keep only the newest.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from rt_frames._frames.dictionaries import Dictionaries
from rt_frames._frames.exact_cast import cast_exactly
from rt_frames._frames.kinds import (
    Code,
    check_alike,
    check_appended,
    has_no_value,
    not_alike,
    not_in_table,
)
from rt_frames._frames.refusals import Refusals
from rt_frames._names import duplicates, has_control_characters, join_path
from rt_frames._schema.data_type import (
    child_fields,
    has_variable_items,
    is_list,
    list_kind,
    map_types,
    storage,
    to_data_type,
)
from rt_frames._schema.portable import (
    CONVERSION_ERRORS,
    is_plain,
    to_portable,
    unsupported,
)
from rt_frames._text import Message, list_names
from rt_frames.errors import UnsupportedTypeError

# of columns that are cast together
JOINED_VALUES = 2**16

# pa.array and pa.scalar would import pandas if it is installed
_ZERO = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(bytes(8))])


class Layout(NamedTuple):
    """The schema that is sent, and of which columns the type alone does not tell whether they can be sent as they are.

    Parameters
    ----------
    schema : pyarrow.Schema
        In portable types.
    dictionaries : set of str
        Columns that are dictionaries or hold some.
    required : set of str
        Columns in which, or inside which, nothing may be null.
    nested : bool
        Whether something may lie inside a column.
    """

    schema: pa.Schema
    dictionaries: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    nested: bool = False

    def only(self, names: list[str]) -> Layout:
        """Return the layout of some columns."""
        schema = pa.schema([self.schema.field(name) for name in names])
        return Layout(
            schema,
            self.dictionaries.intersection(names),
            self.required.intersection(names),
            self.nested,
        )


def portable_layout(
    schema: pa.Schema, casts: Mapping[str, pa.DataType] | None, refusals: Refusals
) -> Layout:
    """Return what is sent, and note which columns are not supported; no ``casts`` where nothing is sent."""
    if not casts and is_plain(schema):
        # comparing schemas is slow
        return Layout(schema.remove_metadata() if schema.metadata else schema)
    fields = []
    dictionaries = []
    required = []
    known: dict[tuple[str, str], _SentType] = {}
    for field in schema:
        name = field.name
        sent = None
        if name not in refusals:
            try:
                sent = _sent_type(field, casts, known)
            except UnsupportedTypeError as error:
                refusals[name] = error
        if sent is None:
            fields.append(pa.field(name, pa.null()))
            continue
        fields.append(pa.field(name, sent.arrow, field.nullable, _kept_metadata(field)))
        if sent.has_dictionaries:
            dictionaries.append(name)
        if sent.requires_values or not field.nullable:
            required.append(name)
    nested = any(types.is_nested(sent.arrow) for sent in known.values())
    return Layout(
        pa.schema(fields), frozenset(dictionaries), frozenset(required), nested
    )


class _SentType(NamedTuple):
    """What columns of a given type are sent as."""

    given: pa.DataType
    cast: pa.DataType | None
    arrow: pa.DataType
    has_dictionaries: bool
    requires_values: bool


def _sent_type(
    field: pa.Field,
    casts: Mapping[str, pa.DataType] | None,
    known: dict[tuple[str, str], _SentType],
) -> _SentType:
    """Return what a column is sent as; a wide table has few types, and each is looked into once."""
    name = field.name
    cast = (casts or {}).get(name)
    try:
        given = field.type
        # types may be equal whose items have different names, and have one text that are not equal
        key = str(given), str(cast)
        if key in known and known[key].given == given and known[key].cast == cast:
            return known[key]
        arrow = to_portable(given, name)
    except KeyError:
        # pyarrow has no class for them, and raises on their type
        raise unsupported(
            name,
            "Arrow's interval",
            "cast it to a duration, or to a struct of its parts",
        ) from None
    is_void = contains(arrow, _is_void)
    if cast is not None:
        is_void = is_void or contains(cast, _is_void)
        arrow = cast
    # Arrow divides by the size
    if is_void:
        raise UnsupportedTypeError(
            f"column {name!r}: lists or bytes of the fixed size 0 hold nothing; leave the column out"
        )
    _check_type(arrow, None if casts is None else field, name)
    has_dictionaries = contains(arrow, types.is_dictionary)
    known[key] = _SentType(
        given,
        cast,
        arrow,
        has_dictionaries,
        any(map(_requires_values, _value_fields(arrow))),
    )
    return known[key]


def _kept_metadata(field: pa.Field) -> dict[bytes, bytes] | None:
    if not field.metadata:
        return None
    kept = {
        k: v for k, v in field.metadata.items() if k.startswith(b"ARROW:extension:")
    }
    is_standard = kept.get(b"ARROW:extension:name") in (b"arrow.uuid", b"arrow.json")
    return kept if is_standard else None


def _is_void(arrow: pa.DataType) -> bool:
    if types.is_fixed_size_list(arrow):
        return list_kind(arrow)[1] == 0
    return types.is_fixed_size_binary(arrow) and int(arrow.byte_width) == 0


def _check_type(arrow: pa.DataType, column: pa.Field | None, path: str) -> None:
    if types.is_null(arrow):
        text = f"column {path!r} has no values and no type; a table's null column could never be cast later"
        if column is None:
            raise UnsupportedTypeError(
                f"{text}; cast it to the type that it is meant to have"
            )
        raise UnsupportedTypeError(
            Message(
                text, "pass its type: {}", dtypes={column.name: _example(column.type)}
            )
        )
    children = child_fields(arrow)
    names = [child.name for child in children]
    if odd := [name for name in names if has_control_characters(name)]:
        raise UnsupportedTypeError(
            f"column {path!r}: names of fields contain control characters: {list_names(odd)}; rename them"
        )
    if types.is_struct(arrow) and (not names or duplicates(names) or not all(names)):
        raise UnsupportedTypeError(
            f"column {path!r}: a struct needs distinct field names, not {names!r:.200}; rename them or drop the column"
        )
    for child in children:
        _check_type(child.type, column, join_path(path, child.name))
    if has_variable_items(arrow):
        text = f"column {path!r}: tables cannot hold {arrow!s:.200}, fixed-size lists whose items vary in size"
        if column is None:
            raise UnsupportedTypeError(f"{text}; make lists of variable size of them")
        raise UnsupportedTypeError(
            Message(text, "pass {}", dtypes={column.name: _example(column.type)})
        )


def _example(arrow: pa.DataType) -> Any:
    """Return a dtype to pass for a column that cannot be sent: text in the place of nulls, lists of variable size."""
    if not types.is_nested(arrow):
        return "large_string"
    made = map_types(to_portable(arrow), _storable)
    if made == pa.list_(pa.uuid()):
        return Code("pyarrow.list_(pyarrow.uuid())")
    try:
        return (
            "…"
            if contains(made, lambda t: isinstance(t, pa.BaseExtensionType))
            else to_data_type(made)
        )
    except UnsupportedTypeError:
        # a map has none
        return "…"


def _storable(arrow: pa.DataType) -> pa.DataType:
    if types.is_null(arrow):
        return pa.large_string()
    return pa.list_(arrow.value_field) if has_variable_items(arrow) else arrow


def first_bad(
    length: int, convert: Callable[[int, int], object], error: Exception
) -> tuple[int | None, Exception]:
    """Find the first of so many rows that cannot be converted, and why; no row where none is to blame alone."""
    start = 0
    stop = length
    # if even zero rows cannot be converted, there is no type
    middle = 0
    while start < stop:
        try:
            convert(start, middle)
        except CONVERSION_ERRORS as reason:
            if middle - start < 2:
                return (start if middle > start else None), reason
            stop = middle
            error = reason
        else:
            start = middle
        middle = (start + stop + 1) // 2
    return None, error


class _Column(NamedTuple):
    """How one column is converted, and what errors tell of it."""

    place: str
    # whether its type is wanted by the caller or a table; otherwise it is that of the first batch
    cast: bool
    # whether fractions may be rounded
    rounds: bool
    # whether its type is that of a table, whose kind of values it needs
    appended: bool

    def check_kind(self, have: pa.DataType, target: pa.DataType, path: str) -> None:
        """Refuse values of a kind that the column does not take."""
        if self.appended:
            check_appended(have, target, path)
        elif not self.cast:
            check_alike(have, target, path, self.place)

    def check_parts(self, have: pa.DataType, target: pa.DataType, path: str) -> None:
        """Refuse parts other than those of the target, which no cast of the caller's makes of them."""
        if self.appended:
            raise not_in_table(to_portable(have), target, path)
        if not self.cast:
            raise not_alike(to_portable(have), target, path, self.place)


_AS_STORED = _Column("", cast=True, rounds=False, appended=False)


class Converter:
    """Turn the batches of one source into batches of one portable schema.

    Parameters
    ----------
    layout : Layout
        What is sent.
    casts : collection of str
        Columns that the caller wants cast; of the others only the layout may differ.
    exact : collection of str
        Columns that are cast without rounding fractions.
    appends : bool
        Whether those are cast to the types of a table that rows are added to.

    Attributes
    ----------
    dictionaries : Dictionaries
        Those that were given to the batches so far.
    """

    def __init__(
        self,
        layout: Layout,
        casts: Collection[str] = (),
        exact: Collection[str] = (),
        *,
        appends: bool = False,
    ) -> None:
        self._schema = layout.schema
        self._dictionary_columns = layout.dictionaries
        self._required = layout.required
        self._nested = layout.nested
        self._casts = casts
        self._exact = exact
        self._appends = appends
        self.dictionaries = Dictionaries()

    def __call__(
        self, batch: pa.RecordBatch, place: str, rows_before: int
    ) -> pa.RecordBatch:
        """Convert one batch; the error for one that does not fit names its column, its row and its ``place``."""
        by_column = self._dictionary_columns or self._nested
        if not by_column and batch.schema.equals(self._schema):
            has_nulls = any(batch.column(name).null_count for name in self._required)
            if not has_nulls:
                return batch
        have = batch.schema.names
        want = self._schema.names
        if have != want:
            if sorted(have) != sorted(want):
                sides = (
                    (word, {*one} - {*other})
                    for word, one, other in (
                        ("missing", want, have),
                        ("new", have, want),
                    )
                )
                unlike = ", ".join(
                    f"{word} {list_names(sorted(names))}"
                    for word, names in sides
                    if names
                )
                text = f"{place} has other columns than the first one: {unlike}"
                raise UnsupportedTypeError(
                    f"{text}; all data of one table needs the same columns"
                )
            batch = batch.select(want)
        columns = []
        refusals = Refusals()
        cast = self._cast_short(batch, place) if self._casts else {}
        for array, field in zip(batch.columns, self._schema, strict=True):
            try:
                made = cast.get(field.name)
                if made is None:
                    made = self._column(array, field, place, rows_before)
                columns.append(made)
                if field.name in self._required:
                    # Arrow cannot drop nulls of nested extension types
                    stored = self._convert(
                        columns[-1],
                        map_types(field.type, storage),
                        field.name,
                        _AS_STORED,
                    )
                    _check_required(stored, field, field.name, appends=self._appends)
            except UnsupportedTypeError as error:
                refusals.setdefault(field.name, error)
        refusals.check(want)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _cast_short(self, batch: pa.RecordBatch, place: str) -> dict[str, pa.Array]:
        """Cast short columns of one type together: in a wide table, calls of Arrow take longer than what they do.

        Columns of which one cannot be cast are left out, for the error to name it.
        """
        rows = batch.num_rows
        # columns that are joined
        most = JOINED_VALUES // max(rows, 1)
        if most < 2 or not rows:
            return {}
        groups = defaultdict(list)
        for array, field in zip(batch.columns, self._schema, strict=True):
            is_flat = types.is_primitive(array.type) and types.is_primitive(field.type)
            if is_flat and array.type != field.type and field.name in self._casts:
                groups[array.type, field.type, self._rules(field.name, place)].append(
                    (field.name, array)
                )
        made = {}
        for (_, target, rules), columns in groups.items():
            for start in range(0, len(columns), most):
                some = columns[start : start + most]
                with contextlib.suppress(*CONVERSION_ERRORS):
                    joined = self._convert(
                        pa.concat_arrays([array for _, array in some]),
                        target,
                        "",
                        rules,
                    )
                    for i, (name, _) in enumerate(some):
                        made[name] = joined.slice(i * rows, rows)
        return made

    def _rules(self, name: str, place: str) -> _Column:
        is_exact = name in self._exact
        return _Column(
            place,
            name in self._casts,
            rounds=not is_exact,
            appended=is_exact and self._appends,
        )

    def _column(
        self, array: pa.Array, field: pa.Field, place: str, rows_before: int
    ) -> pa.Array:
        name = field.name
        if (
            array.type == field.type
            and name not in self._dictionary_columns
            and not _is_cut(array)
        ):
            return array
        column = self._rules(name, place)
        try:
            return self._convert(array, field.type, name, column)
        except UnsupportedTypeError:
            raise
        except CONVERSION_ERRORS as error:
            row, reason = first_bad(
                len(array),
                lambda a, b: self._convert(
                    array.slice(a, b - a), field.type, name, column
                ),
                error,
            )
            where = "" if row is None else f", row {rows_before + row}"
            where += f" of {place}" if place else ""
            # nothing was done
            said = str(reason)[:300].replace("was truncated", "would be truncated")
            raise UnsupportedTypeError(
                f"column {name!r}{where}: {to_portable(array.type)} cannot be converted to {field.type}: "
                f"{said}; correct the values or choose another type"
            ) from None

    def _convert(
        self, array: pa.Array, target: pa.DataType, path: str, column: _Column
    ) -> pa.Array:
        """Return the values of an array in another type, the dictionaries inside it as those of the whole stream."""
        if array.type != target:
            array = _cast_values(array, target, path, column)
        while isinstance(array, pa.ExtensionArray) and not isinstance(
            target, pa.BaseExtensionType
        ):
            array = array.storage
        if isinstance(array, pa.ExtensionArray) and array.type != target:
            stored = self._convert(array.storage, target.storage_type, path, column)
            return pa.ExtensionArray.from_storage(target, stored)
        if types.is_run_end_encoded(array.type):
            return self._convert(array.values, target, path, column).take(
                _positions_in_runs(array)
            )
        if types.is_dictionary(target):
            coded = (
                array if types.is_dictionary(array.type) else array.dictionary_encode()
            )
            values = self._convert(coded.dictionary, target.value_type, path, column)
            return self.dictionaries.unify(coded.indices, values, path)
        if types.is_dictionary(array.type):
            return self._convert(array.dictionary, target, path, column).take(
                array.indices
            )
        if types.is_null(array.type):
            array = pa.nulls(len(array), target)
        if (
            array.type == target
            and not contains(target, types.is_dictionary)
            and not _is_cut(array)
        ):
            return array if len(array) else pa.nulls(0, target)
        return (
            self._convert_nested(array, target, path, column)
            if types.is_nested(target)
            else array.cast(target)
        )

    def _convert_nested(
        self, array: pa.Array, target: pa.DataType, path: str, column: _Column
    ) -> pa.Array:
        if types.is_struct(target) and types.is_struct(array.type):
            return self._struct(array, target, path, column)
        if types.is_map(target) and types.is_map(array.type):
            return self._map(array, target, path, column)
        if (
            not types.is_nested(array.type)
            or types.is_struct(array.type)
            or not is_list(target)
        ):
            column.check_parts(array.type, target, path)
            raise ValueError(f"{path} is {to_portable(array.type)}, not {target}")
        if types.is_fixed_size_list(array.type):
            if types.is_fixed_size_list(target):
                return self._fixed_size_list(array, target, path, column)
            column.check_parts(array.type, target, path)
            fixed = pa.list_(target.value_field, array.type.list_size)
            return self._fixed_size_list(array, fixed, path, column).cast(target)
        if types.is_fixed_size_list(target):
            return self._list(array, pa.list_(target.value_field), path, column).cast(
                target
            )
        return self._list(array, target, path, column)

    def _struct(
        self, array: pa.Array, target: pa.DataType, path: str, column: _Column
    ) -> pa.Array:
        have, want = ([field.name for field in arrow] for arrow in (array.type, target))
        if sorted(have) != sorted(want):
            column.check_parts(array.type, target, path)
            raise ValueError(
                f"its fields are {list_names(have)}, not {list_names(want)}"
            )
        # without values under a null struct
        parts = dict(zip(have, array.flatten(), strict=True))
        fields = [
            self._convert(parts[f.name], f.type, join_path(path, f.name), column)
            for f in target
        ]
        return pa.StructArray.from_arrays(
            fields, fields=list(target), mask=array.is_null()
        )

    def _map(
        self, array: pa.Array, target: pa.DataType, path: str, column: _Column
    ) -> pa.Array:
        offsets, *parts = _from_first(array.offsets, array.keys, array.items)
        keys, items = (
            self._convert(part, field.type, join_path(path, field.name), column)
            for part, field in zip(parts, target.field(0).type, strict=True)
        )
        return pa.MapArray.from_arrays(
            offsets, keys, items, type=target, mask=array.is_null()
        )

    def _fixed_size_list(
        self, array: pa.Array, target: pa.DataType, path: str, column: _Column
    ) -> pa.Array:
        size = array.type.list_size
        if size != target.list_size:
            raise ValueError(f"its lists have {size} items, not {target.list_size}")
        (items,) = _parts(array)
        items = self._convert(
            items, target.value_type, join_path(path, target.value_field.name), column
        )
        return pa.FixedSizeListArray.from_arrays(
            items, type=target, mask=array.is_null()
        )

    def _list(
        self, array: pa.Array, target: pa.DataType, path: str, column: _Column
    ) -> pa.Array:
        """Put a list or list view together again around its items, which then lie one behind the other."""
        kind, width = (
            (pa.ListArray, pa.int32())
            if types.is_list(target)
            else (pa.LargeListArray, pa.int64())
        )
        field = target.value_field
        offsets = array.offsets
        items = array.values
        view = types.is_list_view(array.type) or types.is_large_list_view(array.type)
        if not view:
            offsets, items = _from_first(offsets, items)
        # flatten() loses buffers of extension types
        items = self._convert(items, field.type, join_path(path, field.name), column)
        if view:
            lengths = (
                pc.call_function("list_value_length", [array])
                .fill_null(0)
                .cast(pa.int64())
            )
            items = items.take(
                _positions_in_views(offsets.to_numpy(), lengths.to_numpy())
            )
            offsets = pa.concat_arrays(
                [_ZERO, pc.call_function("cumulative_sum", [lengths])]
            )
        return kind.from_arrays(
            offsets.cast(width), items, type=target, mask=array.is_null()
        )


def _is_cut(array: pa.Array) -> bool:
    """Return whether something inside is empty, which Arrow's writer gets wrong if it is a slice behind some rows."""
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    if not types.is_nested(array.type) or types.is_union(array.type):
        return False
    if not len(array):
        return array.offset > 0 or not types.is_struct(array.type)
    return any(not len(part) or _is_cut(part) for part in _parts(array))


def _parts(array: pa.Array) -> list[pa.Array]:
    """Return what is inside an array, as far as its rows use it."""
    if types.is_struct(array.type):
        return [array.field(i) for i in range(array.type.num_fields)]
    if types.is_map(array.type):
        return _used(array.offsets, array.keys, array.items)
    if types.is_fixed_size_list(array.type):
        size = array.type.list_size
        return [array.values.slice(array.offset * size, len(array) * size)]
    return _used(array.offsets, array.values)


def _used(offsets: pa.Array, *parts: pa.Array) -> list[pa.Array]:
    """Cut off what lies before the first offset and behind the last."""
    start = offsets[0].as_py()
    stop = offsets[-1].as_py()
    return [part.slice(start, stop - start) for part in parts]


def _from_first(offsets: pa.Array, *parts: pa.Array) -> list[pa.Array]:
    """Count offsets from the first, and cut what lies before it and behind the last off what they are offsets into."""
    return [
        pc.call_function("subtract", [offsets, offsets[0]]),
        *_used(offsets, *parts),
    ]


def _positions_in_views(
    starts: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]
) -> pa.Array:
    """Return where the items of lists lie, list after list."""
    before = np.cumsum(lengths) - lengths
    positions = np.repeat(starts.astype(np.int64) - before, lengths) + np.arange(
        lengths.sum()
    )
    return pa.Array.from_buffers(
        pa.int64(), len(positions), [None, pa.py_buffer(positions)]
    )


def _cast_values(
    array: pa.Array, target: pa.DataType, path: str, column: _Column
) -> pa.Array:
    """Return nulls for an array without a value, and values that are not nested as the column casts them."""
    if has_no_value(array):
        return pa.nulls(len(array))
    if types.is_nested(target):
        return array
    column.check_kind(array.type, target, path)
    if not column.cast:
        return array
    values = _decode(array)
    if types.is_nested(values.type):
        raise ValueError(f"{path} is {to_portable(values.type)}, not {target}")
    try:
        return cast_exactly(values, target, rounds=column.rounds)
    except CONVERSION_ERRORS as error:
        raise ValueError(f"{path}: {error}" if "." in path else str(error)) from error


def _decode(array: pa.Array) -> pa.Array:
    """Return values that are not nested in their portable layout, none of them coded: Arrow casts few others."""
    if types.is_dictionary(array.type):
        return _decode(array.dictionary).take(array.indices)
    if types.is_run_end_encoded(array.type):
        return _decode(array.values).take(_positions_in_runs(array))
    arrow = to_portable(array.type)
    if isinstance(array, pa.ExtensionArray):
        inside = _decode(array.storage)
        return (
            pa.ExtensionArray.from_storage(arrow, inside)
            if isinstance(arrow, pa.BaseExtensionType)
            else inside
        )
    return array if types.is_nested(arrow) or array.type == arrow else array.cast(arrow)


def _positions_in_runs(array: pa.RunEndEncodedArray) -> pa.Array:
    """Return which run each row lies in; Arrow's own decoding knows few types."""
    rows = np.arange(array.offset, array.offset + len(array))
    positions = np.searchsorted(array.run_ends.to_numpy(), rows, side="right").astype(
        np.int64
    )
    return pa.Array.from_buffers(
        pa.int64(), len(positions), [None, pa.py_buffer(positions)]
    )


def _requires_values(field: pa.Field) -> bool:
    """Return whether a field, or one inside it, may not be null; the keys of a map never are."""
    return not field.nullable or any(map(_requires_values, _value_fields(field.type)))


def _check_required(
    array: pa.Array, field: pa.Field, path: str, *, appends: bool
) -> None:
    """Refuse nulls where the schema says that there are none."""
    if not field.nullable and array.null_count:
        cure = "make the field nullable, or fill the nulls"
        if appends:
            cure = f"fill the nulls, or let the table take them, with rt.table(name).set_nullable({{{path!r}: True}})"
        raise UnsupportedTypeError(
            f"column {path!r} has nulls, but its field is not nullable; {cure}"
        )
    if not any(_requires_values(child) for child in _value_fields(field.type)):
        return
    # values under a null are never seen
    present = array.drop_null()
    if types.is_struct(field.type):
        parts = present.flatten()
    else:
        parts = [present.items if types.is_map(field.type) else present.flatten()]
    for child, part in zip(_value_fields(field.type), parts, strict=True):
        _check_required(part, child, join_path(path, child.name), appends=appends)


def _value_fields(arrow: pa.DataType) -> list[pa.Field]:
    return [arrow.item_field] if types.is_map(arrow) else child_fields(arrow)


def contains(arrow: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a type, or one inside it, passes a test."""
    return test(arrow) or any(
        contains(field.type, test) for field in child_fields(arrow)
    )
