"""The JSON of an alter request → changes for the engine, every one checked against the table's schema first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rt_frames._data_types import arrow_type
from rt_frames.local._problem import Problem
from rt_frames.local._stream import check_name

if TYPE_CHECKING:
    import pyarrow as pa

_FIELDS = {"path", "rename", "data_type", "nullable"}


def changes_in(body: bytes, schema: pa.Schema) -> list[dict[str, Any]]:
    """Read ``{"alterations": [...]}``; nothing of it is applied unless all of it makes sense."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(400, 'the body is no JSON; send {"alterations": [{"path": "a", "rename": "b"}]}') from None
    alterations = found.get("alterations") if isinstance(found, dict) else None
    if not isinstance(alterations, list) or not alterations:
        raise Problem(400, 'the body needs "alterations", an array with at least one object')
    changes = [_change(one, schema) for one in alterations]
    paths = [change["path"] for change in changes]
    if len(set(paths)) < len(paths):
        raise Problem(400, f"columns occur more than once: {sorted({p for p in paths if paths.count(p) > 1})!r:.300}")
    _check_new_names(changes, schema)
    return changes


def _change(given: Any, schema: pa.Schema) -> dict[str, Any]:
    if not isinstance(given, dict) or not isinstance(given.get("path"), str):
        raise Problem(400, f'an alteration needs a "path", a string; got {given!r:.200}')
    path = given["path"]
    if unknown := set(given) - _FIELDS:
        raise Problem(400, f"column {path!r:.200}: unknown {sorted(unknown)!r:.200}; there are {sorted(_FIELDS)}")
    find(schema, path)
    change: dict[str, Any] = {"path": path}
    if given.get("rename") is not None:
        change["name"] = _new_name(path, given["rename"])
    if given.get("data_type") is not None:
        change["data_type"] = _new_type(path, given["data_type"])
    if given.get("nullable") is not None:
        if not isinstance(given["nullable"], bool):
            raise Problem(400, f'column {path!r}: "nullable" is true or false, not {given["nullable"]!r:.100}')
        change["nullable"] = given["nullable"]
    if len(change) == 1:
        raise Problem(400, f'column {path!r}: nothing to change; give "rename", "data_type" or "nullable"')
    return change


def _new_name(path: str, name: Any) -> str:
    if not isinstance(name, str):
        raise Problem(400, f'column {path!r}: "rename" is a string, not {name!r:.100}')
    check_name(name)
    return name


def _new_type(path: str, data_type: Any) -> pa.DataType:
    try:
        return arrow_type(data_type)
    except ValueError as error:
        raise Problem(400, f"column {path!r}: {error}") from None


def children(arrow: pa.DataType) -> list[pa.Field]:
    """Give the fields below a type, as paths go down through them."""
    import pyarrow.types as is_

    if is_.is_struct(arrow):
        return list(arrow)
    lists = is_.is_list(arrow) or is_.is_large_list(arrow) or is_.is_fixed_size_list(arrow)
    return [arrow.value_field] if lists else []


def find(schema: pa.Schema, path: str) -> pa.Field:
    """Follow a path, level by level."""
    found, fields = None, list(schema)
    for step in path.split("."):
        names = [field.name for field in fields]
        found = next((field for field in fields if field.name == step), None)
        if found is None:
            raise Problem(400, f"there is no column {path!r:.200}; at {step!r:.100} there are {names!r:.300}")
        fields = children(found.type)
    return found


def _check_new_names(changes: list[dict[str, Any]], schema: pa.Schema) -> None:
    """Refuse names that two columns of one level would then have."""
    renames = {change["path"]: change["name"] for change in changes if "name" in change}
    for prefix in {path.rpartition(".")[0] for path in renames}:
        siblings = children(find(schema, prefix).type) if prefix else list(schema)
        names = [renames.get(f"{prefix}.{f.name}".lstrip("."), f.name) for f in siblings]
        if twice := {name for name in names if names.count(name) > 1}:
            raise Problem(400, f"columns would have the same name: {sorted(twice)!r:.200}; choose another name")


def said(changes: list[dict[str, Any]], schema: pa.Schema) -> str:
    """Name the columns of a change that was refused, and both types of each cast."""
    parts = []
    for change in changes:
        field = find(schema, change["path"])
        what = [f"{field.type} to {change['data_type']}"] if "data_type" in change else []
        what += [f"rename to {change['name']!r}"] if "name" in change else []
        what += [f"nullable={change['nullable']}"] if "nullable" in change else []
        parts.append(f"column {change['path']!r} ({', '.join(what)})")
    return "; ".join(parts[:10]) + (f" and {len(parts) - 10} more" if len(parts) > 10 else "")
