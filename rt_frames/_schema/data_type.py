"""Arrow type ⇄ the service's ``data_type`` object, both directions side by side.

A ``data_type`` object names a type in one string, parameters behind colons::

    int64 · large_string · timestamp:us:UTC · decimal:128:10:2 · dict:large_string:int32:false

``length`` belongs to ``fixed_size_binary`` and ``fixed_size_list``; the children of nested types are in
``fields``, each with ``name``, ``type`` (again an object) and ``nullable``. The names are those that the
official client of this protocol was recorded to send (its list is in ``tests/schema/data_types.json``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rt_frames.errors import UnsupportedTypeError

if TYPE_CHECKING:
    import pyarrow as pa

_UNITS = {"time32": ("s", "ms"), "time64": ("us", "ns"), "duration": ("s", "ms", "us", "ns")}

# name on the wire → name of the pyarrow type; every type without parameters
_PLAIN = {
    "null": "null",
    "bool": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "halffloat": "halffloat",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "large_string",
    "binary": "binary",
    "large_binary": "large_binary",
    "date32:day": "date32[day]",
    "date64:ms": "date64[ms]",
    **{f"{kind}:{unit}": f"{kind}[{unit}]" for kind, units in _UNITS.items() for unit in units},
}
_SYNONYMS = {
    "utf8": "string",
    "large_utf8": "large_string",
    "float16": "halffloat",
    "float32": "float",
    "float64": "double",
    "boolean": "bool",
}
_NAMES = {arrow: name for name, arrow in _PLAIN.items()}


def to_data_type(arrow: pa.DataType, path: str = "") -> dict[str, Any]:
    """Say an Arrow type as the service's ``data_type`` object.

    Parameters
    ----------
    arrow : pyarrow.DataType
        The type.
    path : str
        Path of the column, for the error.

    Raises
    ------
    UnsupportedTypeError
        If the vocabulary has no word for the type.
    """
    try:
        return _say(arrow, path)
    except RecursionError:
        raise _no_word("a type nested this deeply", path) from None


def _say(arrow: pa.DataType, path: str) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.types as is_

    if isinstance(arrow, pa.BaseExtensionType):
        return _say(arrow.storage_type, path)
    if is_.is_struct(arrow) or is_.is_list(arrow) or is_.is_large_list(arrow):
        kind = "struct" if is_.is_struct(arrow) else "list" if is_.is_list(arrow) else "large_list"
        return {"type": kind, "fields": _children(arrow, path)}
    if is_.is_fixed_size_list(arrow):
        return {"type": "fixed_size_list", "fields": _children(arrow, path), "length": arrow.list_size}
    if is_.is_fixed_size_binary(arrow) and not is_.is_decimal(arrow):
        return {"type": "fixed_size_binary", "length": arrow.byte_width}
    return {"type": _name(arrow, path)}


def _children(arrow: pa.DataType, path: str) -> list[dict[str, Any]]:
    fields = [arrow.field(i) for i in range(arrow.num_fields)]
    return [
        {"name": f.name, "type": _say(f.type, f"{path}.{f.name}" if path else f.name), "nullable": f.nullable}
        for f in fields
    ]


def _name(arrow: pa.DataType, path: str) -> str:
    import pyarrow.types as is_

    if name := _NAMES.get(str(arrow)):
        return name
    # a zone called "-" would read as none
    if is_.is_timestamp(arrow) and arrow.tz != "-":
        return f"timestamp:{arrow.unit}:{arrow.tz or '-'}"
    if is_.is_decimal128(arrow) or is_.is_decimal256(arrow):
        return f"decimal:{arrow.bit_width}:{arrow.precision}:{arrow.scale}"
    if is_.is_dictionary(arrow) and not is_.is_nested(arrow.value_type):
        value, index = _name(arrow.value_type, path), _name(arrow.index_type, path)
        return f"dict:{value}:{index}:{str(arrow.ordered).lower()}"
    raise _no_word(f"Arrow's {arrow}", path)


def _no_word(what: str, path: str) -> UnsupportedTypeError:
    column = f"column {path!r}: " if path else ""
    return UnsupportedTypeError(f"{column}the service has no data_type for {what}; cast it first")


def arrow_type(data_type: Mapping[str, Any]) -> pa.DataType:
    """Turn the service's ``data_type`` object into an Arrow type; the inverse of `data_type`.

    Besides the names that `data_type` gives, the sister dialect's are understood: ``utf8``,
    ``large_utf8``, ``float16``, ``float32``, ``float64``, ``boolean``.

    Parameters
    ----------
    data_type : dict
        Object with ``type``, and ``fields`` and ``length`` where the type has them. The service's
        documentation gives its shape ("Column alteration") but lists no names; the names are those its
        official client sends.

    Returns
    -------
    pyarrow.DataType
        The Arrow type that a column of this `data_type` has.

    Raises
    ------
    ValueError
        If the object is wrong or incomplete; the message shows the path inside the object.

    Examples
    --------
    >>> import rt_frames as rt
    >>> rt.arrow_type({"type": "timestamp:us:UTC"})
    TimestampType(timestamp[us, tz=UTC])
    """
    try:
        return _read(data_type, "data_type")
    except RecursionError:
        raise ValueError("data_type: nested too deeply to be read") from None


def _read(given: Any, at: str) -> pa.DataType:
    import pyarrow as pa

    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
        raise ValueError(f'{at}: expected an object with a "type", such as {{"type": "int64"}}, got {shown(given)}')
    name = given["type"]
    if name == "struct":
        return pa.struct(_fields(given, at))
    if name in ("list", "large_list", "fixed_size_list"):
        return _read_list(given, name, at)
    if given.get("fields"):
        raise ValueError(f'{at}.fields: a "{name:.80}" has no fields')
    if name == "fixed_size_binary":
        return pa.binary(_length(given, at))
    if given.get("length") is not None:
        raise ValueError(f'{at}.length: a "{name:.80}" has no length')
    return _read_name(name, f"{at}.type")


def _read_list(given: Mapping[str, Any], name: str, at: str) -> pa.DataType:
    import pyarrow as pa

    fields = _fields(given, at)
    if len(fields) != 1:
        raise ValueError(f"{at}.fields: a {name} has exactly one field, its item; got {len(fields)}")
    if name == "fixed_size_list":
        return pa.list_(fields[0], _length(given, at))
    return pa.list_(fields[0]) if name == "list" else pa.large_list(fields[0])


def _length(given: Mapping[str, Any], at: str) -> int:
    length = given.get("length")
    if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length < 2**31:
        raise ValueError(f'{at}.length: a {given["type"]} needs a "length", a whole number; got {shown(length)}')
    return length


def _fields(given: Mapping[str, Any], at: str) -> list[pa.Field]:
    import pyarrow as pa

    fields = given.get("fields")
    if not isinstance(fields, list):
        raise ValueError(f'{at}.fields: a {given["type"]} needs "fields", an array; got {shown(fields)}')
    read = []
    for i, child in enumerate(fields):
        here = f"{at}.fields[{i}]"
        if not isinstance(child, Mapping):
            raise ValueError(f'{here}: expected an object with "name", "type" and "nullable", got {shown(child)}')
        if not isinstance(child.get("name"), str):
            raise ValueError(f"{here}.name: expected a string, got {shown(child.get('name'))}")
        if not isinstance(child.get("nullable"), bool):
            raise ValueError(f"{here}.nullable: expected true or false, got {shown(child.get('nullable'))}")
        arrow = _read(child.get("type"), f"{here}.type")
        if pa.types.is_null(arrow) and not child["nullable"]:
            raise ValueError(f"{here}.nullable: a null type is always nullable")
        try:
            read.append(pa.field(child["name"], arrow, child["nullable"]))
        except UnicodeError as error:
            raise ValueError(f"{here}.name: {error}") from None
    return read


def _read_name(name: str, at: str) -> pa.DataType:
    import pyarrow as pa

    plain = _PLAIN.get(_SYNONYMS.get(name, name))
    if plain:
        return pa.type_for_alias(plain)
    kind, _, rest = name.partition(":")
    try:
        if kind == "timestamp":
            unit, _, zone = rest.partition(":")
            return pa.timestamp(unit, None if zone == "-" else zone) if zone else _unknown(name, at)
        if match := re.fullmatch(r"decimal:(128|256):(\d{1,9}):(-?\d{1,9})", name, re.ASCII):
            return {"128": pa.decimal128, "256": pa.decimal256}[match[1]](int(match[2]), int(match[3]))
        if kind == "dict":
            value, index, ordered = rest.rsplit(":", 2)
            return pa.dictionary(
                _read_name(index, at), _read_name(value, at), ordered={"true": True, "false": False}[ordered]
            )
    except (ValueError, KeyError, TypeError, pa.ArrowException):
        pass
    return _unknown(name, at)


def _unknown(name: str, at: str) -> pa.DataType:
    raise ValueError(
        f"{at}: unknown type {name!r:.80}; names look like int64, double, large_string, timestamp:us:UTC, "
        "decimal:128:10:2, dict:large_string:int32:false"
    )


def shown(value: Any) -> str:
    """Show any object in a few words for a message."""
    try:
        return " ".join(repr(value)[:400].split())[:80]
    except Exception:  # noqa: BLE001  # a stranger's repr may raise anything
        return f"an object of type {type(value).__name__}"
