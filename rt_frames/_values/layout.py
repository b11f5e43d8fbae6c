"""A schema → the layout in which its columns are sent, decided once, by type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import types

from rt_frames._names import duplicates, has_control_characters, join_path
from rt_frames._schema.data_type import (
    child_fields,
    contains,
    has_variable_items,
    list_kind,
    map_types,
    show_type,
    to_data_type,
)
from rt_frames._schema.portable import is_plain, to_portable
from rt_frames._text import list_names
from rt_frames._values.kinds import Code
from rt_frames._values.refusals import Refusals
from rt_frames.errors import UnsupportedTypeError


class Layout(NamedTuple):
    """The schema to send, and the columns that need a look at their values.

    Parameters
    ----------
    schema : pyarrow.Schema
        In portable types.
    dictionaries : set of str
        Columns that are dictionaries, or have dictionaries inside.
    required : set of str
        Columns that must not be null, or have fields inside that must not.
    nested : bool
        Whether a column is nested.
    """

    schema: pa.Schema
    dictionaries: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    nested: bool = False

    def select(self, names: list[str]) -> Layout:
        """Return the layout of the named columns."""
        fields = [self.schema.field(name) for name in names]
        dictionaries = self.dictionaries.intersection(names)
        required = self.required.intersection(names)
        return Layout(pa.schema(fields), dictionaries, required, self.nested)


def portable_layout(
    schema: pa.Schema, casts: Mapping[str, pa.DataType] | None, refusals: Refusals
) -> Layout:
    """Return the layout in which columns are sent, and record unsupported ones.

    ``casts`` is None if schemas are compared and nothing is sent.
    """
    if not casts and is_plain(schema):
        # without the comparison of schemas, which is slow
        return Layout(schema.remove_metadata() if schema.metadata else schema)
    fields = []
    dictionaries = set()
    required = set()
    nested = False
    known: dict[Any, _Sent] = {}
    for field in schema:
        name = field.name
        sent = None
        if name not in refusals:
            try:
                sent = _sent_by_type(field, casts, known)
            except UnsupportedTypeError as error:
                refusals.setdefault(name, error)
        if sent is None:
            fields.append(pa.field(name, pa.null()))
            continue
        metadata = _kept_metadata(field)
        fields.append(pa.field(name, sent.arrow, field.nullable, metadata))
        nested = nested or types.is_nested(sent.arrow)
        if sent.has_dictionaries:
            dictionaries.add(name)
        if sent.requires_values or not field.nullable:
            required.add(name)
    return Layout(
        pa.schema(fields), frozenset(dictionaries), frozenset(required), nested
    )


class _Sent(NamedTuple):
    """The type in which columns are sent, and whether they need a look inside."""

    arrow: pa.DataType
    has_dictionaries: bool
    requires_values: bool


def _sent_by_type(
    field: pa.Field, casts: Mapping[str, pa.DataType] | None, known: dict[Any, _Sent]
) -> _Sent:
    """Return how a column is sent: wide tables have many columns of few types."""
    arrow = field.type
    cast = casts.get(field.name) if casts else None
    # a type of the caller's own may have no hash
    key = None if isinstance(arrow, pa.ExtensionType) else (arrow, cast)
    if key is None or key not in known:
        known[key] = _sent(field, cast, is_sent=casts is not None)
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
    if column is None:
        return UnsupportedTypeError(f"{text}; {cure}")
    dtypes = {column.name: _example(column.type)}
    return UnsupportedTypeError(f"{text}; {advice} {dtypes=}")


def _example(arrow: pa.DataType) -> Any:
    """Return a dtype to pass for a column that cannot be sent.

    Nulls become text, and fixed-size lists that cannot be stored become lists.
    """
    if not types.is_nested(arrow):
        return "large_string"
    storable = map_types(to_portable(arrow), _storable)
    if storable == pa.list_(pa.uuid()):
        return Code("pyarrow.list_(pyarrow.uuid())")
    if contains(storable, lambda t: isinstance(t, pa.BaseExtensionType)):
        return "…"
    try:
        return to_data_type(storable)
    except UnsupportedTypeError:
        # a map has no data_type
        return "…"


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
