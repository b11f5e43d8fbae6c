"""A table's rows with the columns of a plan: renamed first, then cast."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import pyarrow as pa

from rt_frames._names import join_path
from rt_frames._schema.alterations import Alteration, AlterationPlan
from rt_frames._schema.casts import guesses_unit
from rt_frames._schema.data_type import (
    child_fields,
    is_list,
    list_kind,
    map_fields,
    value_type,
)
from rt_frames._schema.portable import CONVERSION_ERRORS
from rt_frames._text import list_names
from rt_frames._values.exact_cast import cast_exactly
from rt_frames._values.metadata import with_schema

_NO_CAST = "a rewrite cannot cast {}; keep the type, or create a new table"
_NO_UNIT = (
    "a number shows no unit of time, so {} is never cast between numbers and times; read "
    "the rows, convert them in the frame, and replace the table"
)


def explain_stuck(changes: Iterable[Alteration]) -> str:
    """Return what to do about casts that no rewrite makes; "" if there are none."""
    stuck = defaultdict(list)
    for change in changes:
        if change.data_type is None or change.before is None:
            continue
        problem = _find_problem(change.before, change.data_type)
        if problem:
            stuck[problem].append(change.path)
    advice = [problem.format(list_names(paths)) for problem, paths in stuck.items()]
    return "; ".join(advice)


def _find_problem(before: pa.DataType, after: pa.DataType) -> str:
    """Return the advice if a rewrite makes no such cast, or ""."""
    if is_list(before) and is_list(after):
        sizes = {list_kind(before)[1], list_kind(after)[1]}
        if len(sizes - {0}) > 1:
            return _NO_CAST
        return _find_problem(before.value_type, after.value_type)
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        old = {field.name: field.type for field in before}
        new = {field.name: field.type for field in after}
        if old.keys() != new.keys():
            return _NO_CAST
        problems = [_find_problem(arrow, new[name]) for name, arrow in old.items()]
        return next(filter(None, problems), "")
    if pa.types.is_nested(before) or pa.types.is_nested(after):
        return "" if before == after else _NO_CAST
    if guesses_unit(before, after):
        return _NO_UNIT
    try:
        # what has no rows fails by its type alone
        cast_exactly(pa.array([], value_type(before)), value_type(after))
    except CONVERSION_ERRORS:
        return _NO_CAST
    return ""


def altered_schema(
    schema: pa.Schema, plan: AlterationPlan
) -> tuple[pa.Schema, dict[str, pa.DataType]]:
    """Return a schema with a plan's names and nullability, and the plan's casts.

    The casts are by new names. Added columns come last, dropped ones are left out.
    """
    changes = {change.path: change for change in plan}
    fields = []
    casts = {}
    for field in schema:
        if field.name in plan.dropped:
            continue
        renamed = _altered(field, "", changes, casts=False)
        cast = _altered(field, "", changes, casts=True)
        fields.append(renamed)
        if cast.type != renamed.type:
            casts[renamed.name] = cast.type
    fields += plan.added
    return pa.schema(fields, schema.metadata), casts


def _altered(
    field: pa.Field, parent: str, changes: dict[str, Alteration], *, casts: bool
) -> pa.Field:
    path = join_path(parent, field.name)
    change = changes.get(path)
    arrow = field.type
    if pa.types.is_nested(arrow):
        arrow = map_fields(
            arrow, lambda inside: _altered(inside, path, changes, casts=casts)
        )
    if change is None:
        return field.with_type(arrow)
    if casts and change.data_type is not None:
        arrow = change.data_type
    nullable = field.nullable if change.nullable is None else change.nullable
    return pa.field(change.rename or field.name, arrow, nullable, field.metadata)


def with_metadata_of(schema: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Return a schema with the metadata of one of the same names, at every depth."""
    fields = [
        _with_metadata_of(field, source)
        for field, source in zip(schema, other, strict=True)
    ]
    return pa.schema(fields, other.metadata)


def _with_metadata_of(field: pa.Field, source: pa.Field) -> pa.Field:
    inside = _fields_inside(source.type)
    is_nested = pa.types.is_nested(field.type)
    if is_nested and len(inside) == len(_fields_inside(field.type)):
        sources = iter(inside)
        arrow = map_fields(
            field.type, lambda child: _with_metadata_of(child, next(sources))
        )
        field = field.with_type(arrow)
    kept = dict(source.metadata or {})
    if field.type != source.type:
        # cast from an extension type that this process does not know
        for key in source.metadata or ():
            if key.startswith(b"ARROW:extension:"):
                del kept[key]
    return field.with_metadata(kept) if kept else field


def _fields_inside(arrow: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(arrow):
        return [arrow.key_field, arrow.item_field]
    return child_fields(arrow)


def altered_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, plan: AlterationPlan
) -> Iterator[pa.RecordBatch]:
    """Yield batches under other names, at any depth, and other nullability.

    No value is touched. Added columns hold nulls, dropped ones are left out.
    """
    for batch in batches:
        kept = batch.drop_columns(list(plan.dropped))
        arrays = kept.columns
        fields = list(kept.schema)
        for field in plan.added:
            arrays.append(pa.nulls(batch.num_rows, field.type))
            fields.append(field)
        columns = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        yield with_schema(columns, schema)
