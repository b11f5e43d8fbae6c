"""Arrow batches → batches of the portable schema.

A `Converter` touches only columns whose layout differs. Nested columns are taken apart,
converted and reassembled. Arrow makes lists of one kind of those of another; its own
cast of whole columns decodes no runs, miscounts list views, makes up and drops fields
of structs, rounds whole numbers in floats, and fails for values that no row has, under
a null or outside a slice of fixed-size lists (pyarrow 21 to 26).

The dictionaries of one path (a column, or a field inside one) become one dictionary, as
readers keep only the newest.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict

import pyarrow as pa
from pyarrow import types

from rt_frames._names import join_path
from rt_frames._schema.data_type import (
    contains,
    is_list,
    map_types,
    show_type,
    storage,
)
from rt_frames._schema.leaves import Condition
from rt_frames._schema.portable import (
    CONVERSION_ERRORS,
    to_portable,
)
from rt_frames._text import list_names, make_printable, shorten
from rt_frames._values.arrays import (
    arrays_inside,
    is_cut,
    positions_in_runs,
    positions_in_views,
    rebased,
)
from rt_frames._values.dictionaries import Dictionaries
from rt_frames._values.exact_cast import InexactCast, RefusedCast, cast_exactly
from rt_frames._values.failing_row import first_failing_row
from rt_frames._values.kinds import has_no_value, spell, wider_number
from rt_frames._values.matching import check_rows
from rt_frames._values.plan import Column, Plan, requires_values, value_fields
from rt_frames._values.refusals import Refusals
from rt_frames.errors import UnsupportedTypeError

# of short columns that one call casts
JOINED_VALUES = 2**16


class Converter:
    """Converts the batches of one source as planned.

    Parameters
    ----------
    plan : Plan
        How columns become those that are sent.
    where : Condition, optional
        What each row must match.

    Attributes
    ----------
    dictionaries : Dictionaries
        The dictionaries of the batches so far.
    """

    def __init__(self, plan: Plan, where: Condition | None = None) -> None:
        self._plan = plan
        self._where = where
        self.dictionaries = Dictionaries()

    def __call__(
        self, batch: pa.RecordBatch, origin: str, rows_before: int
    ) -> pa.RecordBatch:
        """Convert one batch. Errors name column, row and ``origin``."""
        converted = self._converted(batch, origin, rows_before)
        if self._where is not None:
            check_rows(self._where, converted, origin, rows_before)
        return converted

    def _converted(
        self, batch: pa.RecordBatch, origin: str, rows_before: int
    ) -> pa.RecordBatch:
        if self._is_as_sent(batch):
            return batch
        batch = self._in_order(batch, origin)
        short = self._cast_short(batch) if self._plan.casts else {}
        columns = []
        refusals = Refusals()
        for array, field in zip(batch.columns, self._plan.schema, strict=True):
            try:
                converted = short.get(field.name)
                if converted is None:
                    converted = self._column(array, field, origin, rows_before)
                if field.name in self._plan.required:
                    self._check_nulls(converted, field)
                columns.append(converted)
            except UnsupportedTypeError as error:
                refusals.setdefault(field.name, error)
        refusals.check(self._plan.schema.names)
        return pa.RecordBatch.from_arrays(columns, schema=self._plan.schema)

    def _check_nulls(self, array: pa.Array, field: pa.Field) -> None:
        name = field.name
        if types.is_nested(field.type):
            # Arrow cannot drop nulls of nested extension types (pyarrow 26)
            stored = map_types(field.type, storage)
            array = self._convert(array, stored, Column(name, cast=True))
        _check_required(array, field, name, appends=self._plan.appends)

    def _is_as_sent(self, batch: pa.RecordBatch) -> bool:
        plan = self._plan
        if plan.dictionaries or plan.nested or plan.required:
            return False
        return bool(batch.schema.equals(plan.schema))

    def _in_order(self, batch: pa.RecordBatch, origin: str) -> pa.RecordBatch:
        """Return the batch with its columns in the order of the first batch."""
        have = batch.schema.names
        want = self._plan.schema.names
        if have == want:
            return batch
        if sorted(have) == sorted(want):
            return batch.select(want)
        missing = {*want} - {*have}
        extra = {*have} - {*want}
        sides = []
        if missing:
            sides.append(f"missing {list_names(sorted(missing))}")
        if extra:
            sides.append(f"extra {list_names(sorted(extra))}")
        text = f"{origin} has other columns than the data before it: {', '.join(sides)}"
        raise UnsupportedTypeError(f"{text}; give both the same columns")

    def _cast_short(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Cast short columns of one type in one call, as wide tables have many.

        A call of Arrow takes longer than a few values: one by one, 100 columns of
        10,000 rows take 2.5 times as long, 200 columns of ten rows 4.6 times. If one of
        the columns cannot be cast, all are left out, so that the error names it.
        """
        rows = batch.num_rows
        at_once = JOINED_VALUES // rows if rows else 0
        if at_once < 2:
            return {}
        cast = {}
        for target, columns in self._flat_casts(batch):
            for start in range(0, len(columns), at_once):
                joined = columns[start : start + at_once]
                whole = pa.concat_arrays([array for _, array in joined])
                with contextlib.suppress(*CONVERSION_ERRORS):
                    values = self._convert(whole, target, joined[0][0])
                    for number, (column, _) in enumerate(joined):
                        cast[column.path] = values.slice(number * rows, rows)
        return cast

    def _flat_casts(
        self, batch: pa.RecordBatch
    ) -> list[tuple[pa.DataType, list[tuple[Column, pa.Array]]]]:
        """Return the columns that are cast between flat types, grouped by cast."""
        groups = defaultdict(list)
        casts = self._plan.casts
        for array, field in zip(batch.columns, self._plan.schema, strict=True):
            column = casts.get(field.name)
            have = array.type
            want = field.type
            is_flat = types.is_primitive(have) and types.is_primitive(want)
            if column is not None and is_flat and have != want:
                groups[have, want, column.may_round].append((column, array))
        return [(want, columns) for (_, want, _), columns in groups.items()]

    def _column(
        self, array: pa.Array, field: pa.Field, origin: str, rows_before: int
    ) -> pa.Array:
        name = field.name
        target = field.type
        has_dictionaries = name in self._plan.dictionaries
        if array.type == target and not has_dictionaries and not is_cut(array):
            return array
        column = self._plan.casts.get(name, Column(name))._replace(origin=origin)
        try:
            return self._convert(array, target, column)
        except UnsupportedTypeError:
            raise
        except CONVERSION_ERRORS as error:

            def convert(start: int, stop: int) -> pa.Array:
                rows = array.slice(start, stop - start)
                return self._convert(rows, target, column)

            row, reason = first_failing_row(len(array), convert, error)
            text = f"column {name!r}"
            if origin:
                text += f", {origin}"
            if row is not None:
                text += f", row {rows_before + row}"
            rows = array if row is None else array.slice(row, 1)
            cure = "correct the value or choose another type"
            if column.appended_to:
                cure = f"correct the value, or {_offer_cast(rows, target, column)}"
            failure = _describe_failure(rows, target, reason, cure)
            raise UnsupportedTypeError(f"{text}: {failure}") from None

    def _convert(
        self, array: pa.Array, target: pa.DataType, column: Column
    ) -> pa.Array:
        """Convert an array to the target type, with the stream's dictionaries."""
        if array.type != target:
            array = _cast_values(array, target, column)
        if not isinstance(target, pa.BaseExtensionType):
            while isinstance(array, pa.ExtensionArray):
                array = array.storage
        elif isinstance(array, pa.ExtensionArray) and array.type != target:
            stored = self._convert(array.storage, target.storage_type, column)
            return pa.ExtensionArray.from_storage(target, stored)
        is_coded = types.is_dictionary(array.type) or types.is_dictionary(target)
        if is_coded or types.is_run_end_encoded(array.type):
            return self._convert_coded(array, target, column)
        if types.is_null(array.type):
            array = pa.nulls(len(array), target)
        has_dictionaries = contains(target, types.is_dictionary)
        if array.type == target and not has_dictionaries and not is_cut(array):
            return array if len(array) else pa.nulls(0, target)
        if types.is_nested(target):
            return self._convert_nested(array, target, column)
        return array.cast(target)

    def _convert_coded(
        self, array: pa.Array, target: pa.DataType, column: Column
    ) -> pa.Array:
        if types.is_run_end_encoded(array.type):
            values = self._convert(array.values, target, column)
            return values.take(positions_in_runs(array))
        if not types.is_dictionary(target):
            values = self._convert(array.dictionary, target, column)
            return values.take(array.indices)
        if types.is_null(array.type):
            # encoded, it would have a dictionary of one null (pyarrow 26)
            array = pa.nulls(len(array), target.value_type)
        if not types.is_dictionary(array.type):
            array = array.dictionary_encode()
        values = self._convert(array.dictionary, target.value_type, column)
        return self.dictionaries.unify(array.indices, values, column.path)

    def _convert_nested(
        self, array: pa.Array, target: pa.DataType, column: Column
    ) -> pa.Array:
        have = array.type
        if types.is_struct(target) and types.is_struct(have):
            return self._struct(array, target, column)
        if types.is_map(target) and types.is_map(have):
            return self._map(array, target, column)
        has_items = types.is_nested(have) and not types.is_struct(have)
        if has_items and is_list(target):
            return self._lists(array, target, column)
        column.check_kind(have, target)
        raise _no_cast(have, target, column.path)

    def _lists(self, array: pa.Array, target: pa.DataType, column: Column) -> pa.Array:
        """Convert the items of lists of any kind, and let Arrow make the other kind."""
        have = array.type
        field = target.value_field
        mask = array.is_null()
        if types.is_fixed_size_list(have):
            if not types.is_fixed_size_list(target):
                column.check_kind(have, target)
            elif have.list_size != target.list_size:
                raise ValueError(
                    f"the lists of {column.path} have {have.list_size} items, not {target.list_size}"
                )
            (items,) = arrays_inside(array)
            items = self._inside(items, field, column)
            fixed = pa.list_(field, have.list_size)
            lists = pa.FixedSizeListArray.from_arrays(items, type=fixed, mask=mask)
            return lists if fixed == target else lists.cast(target)
        offsets, items = self._items(array, field, column)
        if types.is_large_list(target):
            offsets = offsets.cast(pa.int64())
            return pa.LargeListArray.from_arrays(offsets, items, type=target, mask=mask)
        offsets = offsets.cast(pa.int32())
        listed = pa.list_(field)
        lists = pa.ListArray.from_arrays(offsets, items, type=listed, mask=mask)
        if types.is_list(target):
            return lists
        try:
            return lists.cast(target)
        except pa.ArrowInvalid:
            size = target.list_size
            text = f"the lists of {column.path} must have {size} items"
            raise ValueError(text) from None

    def _items(
        self, array: pa.Array, field: pa.Field, column: Column
    ) -> tuple[pa.Array, pa.Array]:
        """Return the offsets and the converted items of lists or list views."""
        # flatten() loses buffers of extension types
        if types.is_list_view(array.type) or types.is_large_list_view(array.type):
            items = self._inside(array.values, field, column)
            offsets, positions = positions_in_views(array)
            return offsets, items.take(positions)
        offsets, items = rebased(array.offsets, array.values)
        return offsets, self._inside(items, field, column)

    def _struct(self, array: pa.Array, target: pa.DataType, column: Column) -> pa.Array:
        have = [field.name for field in array.type]
        want = [field.name for field in target]
        if sorted(have) != sorted(want):
            column.check_kind(array.type, target)
            raise ValueError(
                f"the fields of {column.path} are {list_names(have)}, not {list_names(want)}"
            )
        # flatten() makes the values under a null struct null
        children = dict(zip(have, array.flatten(), strict=True))
        converted = []
        for field in target:
            child = self._inside(children[field.name], field, column)
            converted.append(child)
        mask = array.is_null()
        return pa.StructArray.from_arrays(converted, fields=list(target), mask=mask)

    def _inside(self, array: pa.Array, field: pa.Field, column: Column) -> pa.Array:
        return self._convert(array, field.type, column.field(field.name))

    def _map(self, array: pa.Array, target: pa.DataType, column: Column) -> pa.Array:
        offsets, keys, items = rebased(array.offsets, array.keys, array.items)
        keys = self._inside(keys, target.key_field, column)
        items = self._inside(items, target.item_field, column)
        mask = array.is_null()
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)


class _NoCast(ValueError):
    """The type of a whole column has no cast to the target."""


def _no_cast(have: pa.DataType, target: pa.DataType, path: str) -> ValueError:
    text = f"{path} is {show_type(to_portable(have))}, not {show_type(target)}"
    return ValueError(text) if "." in path else _NoCast(text)


def _describe_failure(
    array: pa.Array, target: pa.DataType, reason: Exception, cure: str
) -> str:
    """Say why an array, or its only row, cannot be cast, and what to do."""
    have = to_portable(array.type)
    subject = show_type(have)
    value = ""
    if len(array) == 1 and not types.is_nested(have):
        value = _show_only_value(array)
    if value:
        subject = f"{value} ({subject})"
    if isinstance(reason, pa.ArrowNotImplementedError | _NoCast):
        return f"{subject} cannot be cast to {show_type(target)}; choose another type"
    if isinstance(reason, RefusedCast):
        return f"{subject} cannot be cast to {show_type(target)}: {reason}"
    why = str(reason)[:300]
    if isinstance(reason, InexactCast):
        why = ""
    elif isinstance(reason, pa.ArrowException) and value:
        # the rest repeats the value and the types
        why = why.partition(f" as a scalar of type {target}: ")[2].rstrip(".")
    detail = f" ({why})" if why else ""
    return f"{subject} cannot be stored exactly as {show_type(target)}{detail}; {cure}"


def _offer_cast(array: pa.Array, target: pa.DataType, column: Column) -> str:
    """Offer to change the table's column to a type of number that holds the value."""
    wider = wider_number(to_portable(array.type), target)
    # the type that both have may not hold the value either
    with contextlib.suppress(*CONVERSION_ERRORS):
        if wider is not None:
            cast_exactly(_decode(array), wider, may_round=False)
            dtypes = json.dumps({column.path: spell(wider)}, ensure_ascii=False)
            name = json.dumps(column.appended_to, ensure_ascii=False)
            return (
                "change the table's column once: "
                f"rt.table({name}).cast({dtypes}, rewrite=True)"
            )
    return "alter the table's column"


def _show_only_value(array: pa.Array) -> str:
    # a code of a category may have no value, and text may not be UTF-8
    with contextlib.suppress(*CONVERSION_ERRORS):
        # not as_py(): Python has no year beyond 9999
        shown = _decode(array).to_string(skip_new_lines=True)[1:-1]
        return make_printable(shorten(shown, 80))
    return ""


def _cast_values(array: pa.Array, target: pa.DataType, column: Column) -> pa.Array:
    """Cast values that are not nested.

    An array without values becomes one of Arrow's null type.
    """
    if has_no_value(array):
        return pa.nulls(len(array))
    if types.is_nested(target):
        return array
    column.check_kind(array.type, target)
    if not column.cast:
        return array
    path = column.path
    values = _decode(array)
    if types.is_nested(values.type):
        raise _no_cast(values.type, target, path)
    try:
        return cast_exactly(values, target, may_round=column.may_round)
    except CONVERSION_ERRORS as error:
        if "." not in path:
            raise
        # Arrow writes of a cast that did not happen as if it had (pyarrow 26)
        reason = str(error).replace("was truncated", "would be truncated")
        raise ValueError(f"{path}: {reason}") from error


def _decode(array: pa.Array) -> pa.Array:
    """Decode values to their portable layout: Arrow casts few others (pyarrow 26)."""
    if types.is_dictionary(array.type):
        return _decode(array.dictionary).take(array.indices)
    if types.is_run_end_encoded(array.type):
        return _decode(array.values).take(positions_in_runs(array))
    arrow = to_portable(array.type)
    if isinstance(array, pa.ExtensionArray):
        stored = _decode(array.storage)
        if isinstance(arrow, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(arrow, stored)
        return stored
    if types.is_nested(arrow) or array.type == arrow:
        return array
    return array.cast(arrow)


def _check_required(
    array: pa.Array, field: pa.Field, path: str, *, appends: bool
) -> None:
    """Raise if a field that must not be null has nulls."""
    if not field.nullable and array.null_count:
        cure = "make its field nullable"
        if appends:
            cure = f"allow them in the table: set_nullable({{{path!r}: True}})"
        raise UnsupportedTypeError(
            f"column {path!r} has nulls, which are not allowed; fill them, or {cure}"
        )
    fields = value_fields(field.type)
    if not any(map(requires_values, fields)):
        return
    # no reader sees the values under a null
    present = array.drop_null()
    if types.is_map(field.type):
        children = [present.items]
    elif types.is_struct(field.type):
        children = present.flatten()
    else:
        children = [present.flatten()]
    for child, values in zip(fields, children, strict=True):
        child_path = join_path(path, child.name)
        _check_required(values, child, child_path, appends=appends)
