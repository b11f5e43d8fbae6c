"""A frame's schema, casts and table → the plan of its columns, made once.

The plan says in which type each column is sent, who chose that type, and which columns
need a look at their values. `portable.py` knows the types, and `kinds.py` what may join
a column. A column without values fits every type: `convert.py` looks, batch by batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import types

from rt_frames._names import (
    duplicates,
    has_control_characters,
    join_path,
    list_unknown,
)
from rt_frames._schema.casts import family
from rt_frames._schema.data_type import (
    child_fields,
    contains,
    has_variable_items,
    list_kind,
    map_types,
    show_type,
    storage,
    to_data_type,
)
from rt_frames._schema.portable import is_plain, to_portable
from rt_frames._text import list_names
from rt_frames._values.kinds import (
    Code,
    check_alike,
    check_appended,
    differs_in_layout_only,
)
from rt_frames._values.refusals import Refusals
from rt_frames.errors import AlterationError, UnsupportedTypeError


@dataclasses.dataclass(frozen=True)
class PlanOptions:
    """How the columns of one call are sent: for an existing ``table``, or a new one.

    Messages show ``table_name``, and code that changes the table. With
    ``add_columns``, columns that the table lacks keep their types. With ``exact``,
    ``casts`` round no fractions either. A null in one of the ``keys`` is refused for
    what it is, whatever the table allows.
    """

    casts: Mapping[str, pa.DataType] = dataclasses.field(default_factory=dict)
    exact: bool = False
    table: pa.Schema | None = None
    table_name: str = ""
    add_columns: bool = False
    keys: tuple[str, ...] = ()


class Column(NamedTuple):
    """How a column, or a field inside it, is converted, and named in errors."""

    path: str
    # whether the caller or a table chose its type; otherwise the first batch did
    cast: bool = False
    # whether fractions may be rounded
    may_round: bool = True
    # the table whose type it gets, and whose kind of values it needs, or ""
    appended_to: str = ""
    # an item or partition: alone of all these, it changes between batches
    origin: str = ""

    def field(self, name: str) -> Column:
        """Return how a field inside is converted."""
        return self._replace(path=join_path(self.path, name))

    def check_kind(self, have: pa.DataType, target: pa.DataType) -> None:
        """Raise if the column does not take values of this type."""
        if self.appended_to:
            check_appended(have, target, self.path)
        elif not self.cast:
            check_alike(have, target, self.path, self.origin)


class Plan(NamedTuple):
    """How the columns of all batches become those that are sent.

    Parameters
    ----------
    schema : pyarrow.Schema
        The schema to send, in portable types.
    casts : dict of str to Column
        Columns that are cast. The others may differ in their layout only.
    dictionaries : set of str
        Columns that are dictionaries, or have dictionaries inside.
    required : set of str
        Columns that must not be null, or have fields inside that must not.
    nested : bool
        Whether a column is nested.
    appends : bool
        Whether the rows are added to a table.
    """

    schema: pa.Schema
    casts: Mapping[str, Column] = {}
    dictionaries: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    nested: bool = False
    appends: bool = False

    def select(self, names: list[str]) -> Plan:
        """Return the plan of the named columns."""
        fields = [self.schema.field(name) for name in names]
        return self._replace(schema=pa.schema(fields))


def make_plan(
    schema: pa.Schema, options: PlanOptions, refusals: Refusals, *, is_sent: bool = True
) -> Plan:
    """Return the plan of a frame's columns, and record those that cannot be sent.

    Without ``is_sent``, schemas are compared, and no advice is about ``dtypes``.
    """
    table = options.table
    if table is None and not options.casts and is_plain(schema):
        # without the comparison of schemas, which is slow
        return Plan(schema.remove_metadata() if schema.metadata else schema)
    stored = _stored_columns(schema.names, options)
    fields = []
    casts = {}
    dictionaries = set()
    required = set()
    known: dict[Any, _Sent] = {}
    for field in schema:
        name = field.name
        target = stored.get(name)
        try:
            cast = _choose_cast(field, target, options.casts.get(name))
            sent = _sent_by_type(field, cast, known, is_sent=is_sent)
        except UnsupportedTypeError as error:
            refusals.setdefault(name, error)
            continue
        nullable = _allows_nulls(field, target, table)
        fields.append(pa.field(name, sent.arrow, nullable, _kept_metadata(field)))
        if cast is not None:
            casts[name] = _cast_column(name, options)
        if sent.has_dictionaries:
            dictionaries.add(name)
        if name not in options.keys and (sent.requires_values or not nullable):
            required.add(name)
    return Plan(
        pa.schema(fields),
        casts,
        frozenset(dictionaries),
        frozenset(required),
        any(types.is_nested(field.type) for field in fields),
        appends=table is not None,
    )


def _stored_columns(names: list[str], options: PlanOptions) -> dict[str, pa.Field]:
    """Return the table's columns. Raise if those of the frame are too many or few."""
    stored = {field.name: field for field in options.table or ()}
    unknown = [name for name in names if name not in stored]
    if options.table is not None and unknown and not options.add_columns:
        text = f"the table has no column {list_unknown(unknown, stored)}"
        # Lance has no two columns that differ only in case (pylance 14)
        lower_case = {name.lower() for name in stored}
        if any(name.lower() in lower_case for name in unknown):
            raise AlterationError(f"{text}; rename it")
        raise AlterationError(
            f"{text}; rename it, leave it out, or pass add_columns=True to add it"
        )
    sent = set(names)
    required = [name for name, field in stored.items() if not field.nullable]
    missing = [name for name in required if name not in sent]
    if missing:
        raise AlterationError(
            f"columns that must not be null in the table are missing: {list_names(missing)}; add them"
        )
    return stored


def _allows_nulls(
    field: pa.Field, stored: pa.Field | None, table: pa.Schema | None
) -> bool:
    if table is None:
        return bool(field.nullable)
    return stored is None or bool(field.nullable and stored.nullable)


def _choose_cast(
    field: pa.Field, stored: pa.Field | None, requested: pa.DataType | None
) -> pa.DataType | None:
    """Return the type that the caller or the table chose, or None.

    None if the service would describe the column's own type as it does the table's.
    """
    if stored is None:
        return requested
    name = field.name
    target = stored.type
    have = to_portable(field.type if requested is None else requested, name)
    # == ignores the names of items, which the engine compares (pyarrow 26)
    if have.equals(target, check_metadata=True):
        return requested
    if types.is_null(have):
        return target
    wanted = map_types(target, storage)
    kept = map_types(have, storage)
    if requested is not None and not differs_in_layout_only(kept, wanted):
        raise UnsupportedTypeError(
            f"column {name!r} is {show_type(have)}, but {show_type(target)} in the "
            "table; leave it out of dtypes=, or name that type"
        )
    # some services describe only the storage of extension types
    if wanted == target and kept.equals(wanted, check_metadata=True):
        return requested
    if isinstance(have, pa.JsonType) and family(target) == "text":
        return requested
    return target


def _cast_column(name: str, options: PlanOptions) -> Column:
    if name in options.casts:
        return Column(name, cast=True, may_round=not options.exact)
    return Column(name, cast=True, may_round=False, appended_to=options.table_name)


class _Sent(NamedTuple):
    """The type in which columns are sent, and whether they need a look inside."""

    arrow: pa.DataType
    has_dictionaries: bool
    requires_values: bool


def _sent_by_type(
    field: pa.Field, cast: pa.DataType | None, known: dict[Any, _Sent], *, is_sent: bool
) -> _Sent:
    """Return how a column is sent: wide tables have many columns of few types."""
    arrow = field.type
    # a type of the caller's own may have no hash
    key = None if isinstance(arrow, pa.ExtensionType) else (arrow, cast)
    if key is None or key not in known:
        known[key] = _sent(field, cast, is_sent=is_sent)
    return known[key]


def _sent(field: pa.Field, cast: pa.DataType | None, *, is_sent: bool) -> _Sent:
    name = field.name
    portable = to_portable(field.type, name)
    arrow = portable if cast is None else cast
    # Arrow cannot build lists of the fixed size 0 (pyarrow 26)
    if contains(portable, _has_size_0) or contains(arrow, _has_size_0):
        raise UnsupportedTypeError(
            f"column {name!r}: lists or bytes of the fixed size 0 hold no values; leave the column out"
        )
    _check_type(arrow, field if is_sent else None, name)
    return _Sent(
        arrow,
        contains(arrow, types.is_dictionary),
        any(map(requires_values, value_fields(arrow))),
    )


def _kept_metadata(field: pa.Field) -> dict[bytes, bytes] | None:
    metadata = field.metadata or {}
    if metadata.get(b"ARROW:extension:name") not in (b"arrow.uuid", b"arrow.json"):
        return None
    keys = [key for key in metadata if key.startswith(b"ARROW:extension:")]
    return {key: metadata[key] for key in keys}


def _has_size_0(arrow: pa.DataType) -> bool:
    if types.is_fixed_size_list(arrow):
        return list_kind(arrow)[1] == 0
    return types.is_fixed_size_binary(arrow) and int(arrow.byte_width) == 0


def _check_type(arrow: pa.DataType, column: pa.Field | None, path: str) -> None:
    if types.is_null(arrow):
        text = f"column {path!r} has no values, so its type is unknown"
        raise _unsuitable(text, "cast it first", "pass its type, such as", column)
    children = child_fields(arrow)
    names = [child.name for child in children]
    odd = [name for name in names if has_control_characters(name)]
    if odd:
        raise UnsupportedTypeError(
            f"column {path!r}: field names must not contain control characters: {list_names(odd)}; rename them"
        )
    if types.is_struct(arrow) and (not names or duplicates(names) or not all(names)):
        raise UnsupportedTypeError(
            f"column {path!r}: a struct needs distinct field names, not {names!r:.200}; rename them or drop the column"
        )
    for child in children:
        _check_type(child.type, column, join_path(path, child.name))
    if has_variable_items(arrow):
        text = f"column {path!r} is {show_type(arrow)}; the items of fixed-size lists must be numbers, booleans, times or bytes of a fixed size"
        raise _unsuitable(text, "cast it to lists of variable size", "pass", column)


def _unsuitable(
    text: str, cure: str, advice: str, column: pa.Field | None
) -> UnsupportedTypeError:
    """Make the error for a type. The advice is for callers who can pass ``dtypes``."""
    example = None if column is None else _example(column.type)
    if column is None or example is None:
        return UnsupportedTypeError(f"{text}; {cure}")
    dtypes = {column.name: example}
    return UnsupportedTypeError(f"{text}; {advice} {dtypes=}")


def _example(arrow: pa.DataType) -> Any:
    """Return a dtype to pass for a column that cannot be sent, if one can be written.

    Nulls become text, and fixed-size lists that cannot be stored become lists.
    """
    if not types.is_nested(arrow):
        return "large_string"
    storable = map_types(to_portable(arrow), _storable)
    if storable == pa.list_(pa.uuid()):
        return Code("pyarrow.list_(pyarrow.uuid())")
    if contains(storable, lambda t: isinstance(t, pa.BaseExtensionType)):
        return None
    try:
        return to_data_type(storable)
    except UnsupportedTypeError:
        # a map has no data_type
        return None


def _storable(arrow: pa.DataType) -> pa.DataType:
    if types.is_null(arrow):
        return pa.large_string()
    if has_variable_items(arrow):
        return pa.list_(arrow.value_field)
    return arrow


def requires_values(field: pa.Field) -> bool:
    """Return whether a field or one inside must not be null. Map keys do not count."""
    return not field.nullable or any(map(requires_values, value_fields(field.type)))


def value_fields(arrow: pa.DataType) -> list[pa.Field]:
    return [arrow.item_field] if types.is_map(arrow) else child_fields(arrow)
