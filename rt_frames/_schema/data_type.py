"""Arrow type ⇄ the service's ``data_type`` object.

The object names a type in one string, with parameters after colons::

    int64 · large_string · timestamp:us:UTC · decimal:128:10:2
    dict:large_string:int32:false

``fixed_size_binary`` and ``fixed_size_list`` have a ``length``. Nested types have their
children in ``fields``, each with ``name``, ``type`` (again an object) and ``nullable``.
The names were recorded from the official client of this protocol
(``tests/schema/data_types.json``).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import types

from rt_frames._names import join_path
from rt_frames._text import one_line, shorten, show_value
from rt_frames.errors import UnsupportedTypeError

# levels of nesting, of which a map has two: half of Arrow's limit, so that a service
# can wrap a column
MAX_LEVELS = 32

# bytes or items of fixed size in one value: cheap to describe, expensive to make
MAX_FIXED_SIZE = 2**24

# types around a field, outermost first
Parents = tuple[pa.DataType, ...]

# types without parameters: these names are aliases in Arrow, too
_PLAIN = (
    "null",
    "bool",
    "halffloat",
    "float",
    "double",
    "string",
    "large_string",
    "binary",
    "large_binary",
)
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_UNITS = {
    "date32": ["day"],
    "date64": ["ms"],
    "time32": ["s", "ms"],
    "time64": ["us", "ns"],
}
_UNITS["duration"] = ["s", "ms", "us", "ns"]
_TYPES = {
    **{name: pa.type_for_alias(name) for name in (*_PLAIN, *INTEGERS)},
    **{
        f"{kind}:{unit}": pa.type_for_alias(f"{kind}[{unit}]")
        for kind, units in _UNITS.items()
        for unit in units
    },
}
_NAMES = {arrow: name for name, arrow in _TYPES.items()}
# as frames and tables have them; other indices are told apart by Arrow's own text
_CATEGORY = re.compile(r"dictionary<values=([^<>]*), indices=int32, ordered=([01])>")
# read but never sent
_SYNONYMS = (
    "utf8",
    "large_utf8",
    "float16",
    "float32",
    "float64",
    "boolean",
    "date32",
    "date64",
)
_TYPES |= {name: pa.type_for_alias(name) for name in _SYNONYMS}


def list_kind(arrow: pa.DataType) -> tuple[str, int]:
    """Return a list's kind and fixed size, ``"", 0`` for any other type."""
    if types.is_fixed_size_list(arrow):
        return "fixed_size_list", arrow.list_size
    if types.is_list(arrow):
        return "list", 0
    if types.is_large_list(arrow):
        return "large_list", 0
    return "", 0


def is_list(arrow: pa.DataType) -> bool:
    """Return whether a type is a list of any kind, but no list view."""
    return list_kind(arrow)[0] != ""


def fixed_items(arrow: pa.DataType) -> tuple[pa.DataType, int]:
    """Return the innermost item type of fixed-size lists, and the items per value."""
    size = 1
    while types.is_fixed_size_list(arrow):
        size = size * arrow.list_size
        arrow = arrow.value_type
    return arrow, size


def fixed_size(arrow: pa.DataType) -> int:
    """Return the number of fixed-size items, or bytes, in one value; else 1."""
    item, size = fixed_items(arrow)
    if types.is_fixed_size_binary(item):
        return size * int(item.byte_width)
    return size


def has_variable_items(arrow: pa.DataType) -> bool:
    """Return whether fixed-size lists have items that the engine cannot store in them.

    Text and lists vary in size. Lance 14 stores structs, but reads them only alone,
    without other columns; it refuses UUIDs.
    """
    item, _ = fixed_items(arrow)
    fixed = (
        types.is_primitive(item)
        or types.is_decimal(item)
        or types.is_fixed_size_binary(item)
    )
    return item != arrow and not fixed


def type_text(arrow: pa.DataType) -> str:
    """Return a type in Arrow's words, but dictionaries as the categories they are.

    Text in a category is large_string, as that of frames is, unless it is named.
    """
    return _CATEGORY.sub(_as_category, str(arrow))


def _as_category(match: re.Match[str]) -> str:
    values, ordered = match.groups()
    kind = "category" if ordered == "0" else "ordered category"
    return kind if values == "large_string" else f"{kind} of {values}"


def show_type(arrow: pa.DataType) -> str:
    """Return a type as text for a message; zones and names of fields may be long."""
    return one_line(type_text(arrow), 200)


def storage(arrow: pa.DataType) -> pa.DataType:
    """Return an extension type's storage type, any other type as it is."""
    return arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow


def value_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type of a dictionary's values, any other type as it is."""
    return arrow.value_type if types.is_dictionary(arrow) else arrow


def child_fields(arrow: pa.DataType) -> list[pa.Field]:
    """Return the fields of a nested type, none for any other."""
    return [arrow.field(i) for i in range(arrow.num_fields)]


def contains(arrow: pa.DataType, test: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a type, or a type inside it, passes a test."""
    if test(arrow):
        return True
    children = child_fields(storage(arrow))
    return any(contains(child.type, test) for child in children)


def iter_fields(
    fields: Iterable[pa.Field], path: str = "", parents: Parents = ()
) -> Iterator[tuple[str, pa.Field, Parents]]:
    """Yield fields and all inside them, each with its path and the types around it."""
    for field in fields:
        field_path = join_path(path, field.name)
        yield field_path, field, parents
        children = child_fields(storage(field.type))
        yield from iter_fields(children, field_path, (*parents, field.type))


def map_fields(
    arrow: pa.DataType, change: Callable[[pa.Field], pa.Field]
) -> pa.DataType:
    """Return a nested type with changed fields. A list view becomes a list."""
    if types.is_map(arrow):
        # without keys_sorted, which tables do not store
        return pa.map_(change(arrow.key_field), change(arrow.item_field))
    fields = list(map(change, child_fields(arrow)))
    if types.is_struct(arrow):
        return pa.struct(fields)
    if types.is_fixed_size_list(arrow):
        return pa.list_(fields[0], arrow.list_size)
    if types.is_large_list(arrow) or types.is_large_list_view(arrow):
        return pa.large_list(fields[0])
    return pa.list_(fields[0])


def map_types(
    arrow: pa.DataType, change: Callable[[pa.DataType], pa.DataType]
) -> pa.DataType:
    """Return a type after changes of the types inside it, and then of itself."""

    def change_inside(field: pa.Field) -> pa.Field:
        return field.with_type(map_types(field.type, change))

    if types.is_nested(arrow):
        arrow = map_fields(arrow, change_inside)
    return change(arrow)


def to_data_type(
    arrow: pa.DataType, path: str = "", level: int = 0, *, maps: bool = False
) -> dict[str, Any]:
    """Return the service's ``data_type`` object. Errors name the ``path``.

    Maps raise unless ``maps``: services describe them, but cast nothing to them.
    """
    check_level(path, level)
    if isinstance(arrow, pa.BaseExtensionType):
        return to_data_type(arrow.storage_type, path, level + 1, maps=maps)
    if types.is_fixed_size_binary(arrow):
        return {"type": "fixed_size_binary", "length": arrow.byte_width}
    kind, length = list_kind(arrow)
    if types.is_struct(arrow):
        kind = "struct"
    elif types.is_map(arrow) and maps:
        kind = "map"
    if not kind:
        return {"type": _to_name(arrow, path)}
    fields = []
    for child in child_fields(arrow):
        child_path = join_path(path, child.name)
        child_type = to_data_type(child.type, child_path, level + 1, maps=maps)
        fields.append(
            {"name": child.name, "type": child_type, "nullable": child.nullable}
        )
    data_type: dict[str, Any] = {"type": kind, "fields": fields}
    if kind == "fixed_size_list":
        data_type["length"] = length
    return data_type


def _to_name(arrow: pa.DataType, path: str) -> str:
    # a zone named "-" would read as no zone
    if types.is_timestamp(arrow) and arrow.tz != "-":
        return f"timestamp:{arrow.unit}:{arrow.tz or '-'}"
    if types.is_decimal128(arrow) or types.is_decimal256(arrow):
        return f"decimal:{arrow.bit_width}:{arrow.precision}:{arrow.scale}"
    if types.is_dictionary(arrow):
        value = to_data_type(arrow.value_type, path)
        if set(value) == {"type"}:
            # always false: no service stores whether categories are ordered
            return f"dict:{value['type']}:{_NAMES[arrow.index_type]}:false"
    elif name := _NAMES.get(arrow):
        return name
    raise UnsupportedTypeError(
        f"{column_prefix(path)}the service has no data_type for Arrow's {show_type(arrow)}; cast it first"
    )


def column_prefix(path: str) -> str:
    """Return the start of a message about a column, empty without a path."""
    return f"column {path!r}: " if path else ""


def check_level(path: str, level: int) -> None:
    """Refuse types that are nested too deeply."""
    if level > MAX_LEVELS:
        raise too_deep(path)


def too_deep(path: str) -> UnsupportedTypeError:
    """Return the error for a type of too many levels."""
    # each level adds to the path
    subject = f"column {shorten(path, 60)!r}" if path else "the type"
    return UnsupportedTypeError(
        f"{subject} is nested more than {MAX_LEVELS} levels deep; flatten it first"
    )


def arrow_type(data_type: Mapping[str, Any]) -> pa.DataType:
    """Turn the service's ``data_type`` object into an Arrow type.

    It is the inverse of `data_type`.

    Besides the names that `data_type` returns, it reads ``utf8``, ``large_utf8``,
    ``float16``, ``float32``, ``float64``, ``boolean``, ``date32`` and ``date64``; and
    ``map``, which services use to describe tables, though none casts to a map.

    Parameters
    ----------
    data_type : dict
        Object with ``type``, and ``fields`` and ``length`` if the type has them. The
        service's documentation describes it ("Column alteration") but lists no type
        names. They are those that its official client sends.

    Returns
    -------
    pyarrow.DataType
        The Arrow type that a column of this `data_type` has.

    Raises
    ------
    ValueError
        If the object is wrong or incomplete. The message has the path in the object.
    UnsupportedTypeError
        If the type is nested too deeply.

    Examples
    --------
    >>> import rt_frames as rt
    >>> rt.arrow_type({"type": "timestamp:us:UTC"})
    TimestampType(timestamp[us, tz=UTC])
    """
    return _parse(data_type, "data_type", 0)


def to_schema(described: Any) -> pa.Schema:
    """Turn a service's description of columns, ``{"fields": […]}``, into a schema.

    Extension types are restored if the metadata of fields has their names, as in Arrow.
    """
    _expect(Mapping, described, "schema", 'an object with "fields"')
    fields = _parse_fields(described, "schema", -1)
    schema = pa.schema(fields, _parse_metadata(described))
    try:
        return pa.ipc.read_schema(pa.py_buffer(schema.serialize()))
    except pa.ArrowException as error:
        raise ValueError(f"schema: {error}") from None


def _parse_metadata(described: Mapping[str, Any]) -> dict[str, str]:
    """Return the metadata of a field or schema, without pairs that are not text."""
    metadata = described.get("metadata")
    if not isinstance(metadata, Mapping):
        return {}
    return {
        key: value
        for key, value in metadata.items()
        if isinstance(key, str) and isinstance(value, str)
    }


def _parse(spec: Any, at: str, level: int) -> pa.DataType:
    if level > MAX_LEVELS:
        root = at.partition(".")[0]
        raise UnsupportedTypeError(f"{root}: {too_deep('')}")
    if not isinstance(spec, Mapping) or not isinstance(spec.get("type"), str):
        raise ValueError(
            f'{at}: expected an object with a "type", such as {{"type": "int64"}}, got {show_value(spec)}'
        )
    name = spec["type"]
    has_fields = bool(spec.get("fields"))
    if name == "struct":
        return pa.struct(_parse_fields(spec, at, level))
    if name in ("list", "large_list", "fixed_size_list"):
        return _parse_list(spec, at, level)
    if name == "map" and has_fields:
        return _parse_list(spec, at, level)
    if has_fields:
        raise ValueError(f'{at}.fields: "{name:.80}" takes no fields; leave them out')
    if name == "fixed_size_binary":
        return pa.binary(_parse_length(spec, at))
    if spec.get("length") is not None:
        raise ValueError(f'{at}.length: "{name:.80}" takes no length; leave it out')
    return _parse_name(name, f"{at}.type")


def _expect(kind: type, value: Any, at: str, expected: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{at}: expected {expected}, got {show_value(value)}")
    return value


def _parse_list(spec: Mapping[str, Any], at: str, level: int) -> pa.DataType:
    name = spec["type"]
    fields = _parse_fields(spec, at, level)
    if len(fields) != 1:
        raise ValueError(
            f"{at}.fields: a {name} needs exactly one field, its item, got {len(fields)}"
        )
    (item,) = fields
    if name == "fixed_size_list":
        arrow = pa.list_(item, _parse_length(spec, at))
        if fixed_size(arrow) > MAX_FIXED_SIZE:
            raise ValueError(
                f"{at}.length: fixed sizes, multiplied by those inside, must be at most "
                f"{MAX_FIXED_SIZE:,}"
            )
        return arrow
    if name == "list":
        return pa.list_(item)
    if name == "large_list":
        return pa.large_list(item)
    pair = child_fields(item.type)
    if not types.is_struct(item.type) or len(pair) != 2 or pair[0].nullable:
        raise ValueError(
            f"{at}.fields: the item of a map must be a struct of two fields, its keys, not nullable, and its values"
        )
    return pa.map_(*pair)


def _parse_length(spec: Mapping[str, Any], at: str) -> int:
    length = spec.get("length")
    is_bool = isinstance(length, bool)
    if isinstance(length, int) and not is_bool and 0 <= length <= MAX_FIXED_SIZE:
        return length
    raise ValueError(
        f"{at}.length: a {spec['type']} needs a length from 0 to {MAX_FIXED_SIZE}, got {show_value(length)}"
    )


def _parse_fields(spec: Mapping[str, Any], at: str, level: int) -> list[pa.Field]:
    parsed = []
    children = _expect(list, spec.get("fields"), f"{at}.fields", "an array of fields")
    for number, child in enumerate(children):
        parsed.append(_parse_field(child, f"{at}.fields[{number}]", level + 1))
    return parsed


def _parse_field(spec: Any, at: str, level: int) -> pa.Field:
    _expect(Mapping, spec, at, 'an object with "name", "type" and "nullable"')
    name = _expect(str, spec.get("name"), f"{at}.name", "a string")
    nullable = _expect(bool, spec.get("nullable"), f"{at}.nullable", "true or false")
    arrow = _parse(spec.get("type"), f"{at}.type", level)
    if types.is_null(arrow) and not nullable:
        raise ValueError(f"{at}.nullable: a field of type null must be nullable")
    try:
        return pa.field(name, arrow, nullable, _parse_metadata(spec))
    except UnicodeError as error:
        raise ValueError(f"{at}.name: {error}") from None


def _parse_name(name: str, at: str) -> pa.DataType:
    arrow = _TYPES.get(name)
    if arrow is not None:
        return arrow
    with contextlib.suppress(ValueError, TypeError, pa.ArrowException):
        # the longest name of a zone has 32 characters; Polars 2.1 takes seconds for
        # 100 kB
        if match := re.fullmatch(r"timestamp:(\w+):(.{1,100})", name):
            zone = None if match[2] == "-" else match[2]
            return pa.timestamp(match[1], zone)
        if match := re.fullmatch(
            r"decimal:(128|256):(\d{1,9}):(-?\d{1,9})", name, re.ASCII
        ):
            precision = int(match[2])
            scale = int(match[3])
            if match[1] == "128":
                return pa.decimal128(precision, scale)
            return pa.decimal256(precision, scale)
        if match := re.fullmatch(r"dict:(.+):(\w+):(true|false)", name):
            codes = _parse_name(match[2], at)
            value = _parse_name(match[1], at)
            return pa.dictionary(codes, value, ordered=match[3] == "true")
    raise ValueError(
        f"{at}: unknown type {name!r:.80}; pass a name such as int64, double, large_string, timestamp:us:UTC, "
        "decimal:128:10:2, dict:large_string:int32:false"
    )
