"""The JSON of an alter request → changes for the engine, every one checked against the table's schema first."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from rt_frames._schema.data_type import arrow_type
from rt_frames.local.http_error import Problem
from rt_frames.local.validate import check_name

if TYPE_CHECKING:
    import pyarrow as pa

_FIELDS = {"path", "rename", "data_type", "nullable"}

Change = dict[str, Any]  # as the engine takes it: "path" and any of "name", "data_type", "nullable"


def changes_in(body: bytes, schema: pa.Schema) -> list[Change]:
    """Read ``{"alterations": [...]}``; nothing of it is applied unless all of it makes sense."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(400, 'the body is no JSON; send {"alterations": [{"path": "a", "rename": "b"}]}') from None
    alterations = found.get("alterations") if isinstance(found, dict) else None
    if not isinstance(alterations, list) or not alterations:
        raise Problem(400, 'the body needs "alterations", an array with at least one object')
    if unknown := set(found) - {"alterations"}:
        raise Problem(400, f'unknown {sorted(unknown)!r:.200}; the body has "alterations" and nothing else')
    changes = [_change(one, schema) for one in alterations]
    if twice := _twice(change["path"] for change in changes):
        raise Problem(400, f"columns occur more than once: {twice!r:.300}; say all of a column in one alteration")
    _check_apart(changes)
    _check_new_names(changes, schema)
    return changes


def _twice(names: Any) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _change(given: Any, schema: pa.Schema) -> Change:
    if not isinstance(given, dict) or not isinstance(given.get("path"), str):
        raise Problem(400, f'an alteration needs a "path", a string; got {given!r:.200}')
    path = given["path"]
    if unknown := set(given) - _FIELDS:
        raise Problem(400, f"column {path!r:.200}: unknown {sorted(unknown)!r:.200}; there are {sorted(_FIELDS)}")
    fields = find(schema, path)
    change: Change = {"path": path}
    if given.get("rename") is not None:
        change["name"] = _new_name(path, given["rename"])
    if given.get("data_type") is not None:
        change["data_type"] = _new_type(path, given["data_type"], fields)
    if given.get("nullable") is not None:
        if not isinstance(given["nullable"], bool):
            raise Problem(400, f'column {path!r:.200}: "nullable" is true or false, not {given["nullable"]!r:.100}')
        change["nullable"] = given["nullable"]
    if len(change) == 1:
        raise Problem(400, f'column {path!r:.200}: nothing to change; give "rename", "data_type" or "nullable"')
    return change


def _new_name(path: str, name: Any) -> str:
    if not isinstance(name, str):
        raise Problem(400, f'column {path!r:.200}: "rename" is a string, not {name!r:.100}')
    try:
        name.encode()
        check_name(name)
    except (Problem, UnicodeEncodeError) as problem:
        raise Problem(400, f"column {path!r:.200} cannot be renamed: {problem}") from None
    return name


def _new_type(path: str, data_type: Any, fields: list[pa.Field]) -> pa.DataType:
    import pyarrow.types as is_

    try:
        arrow = arrow_type(data_type)
    except ValueError as error:
        raise Problem(400, f"column {path!r:.200}: {error}") from None
    if any(is_.is_large_list(above.type) or is_.is_fixed_size_list(above.type) for above in fields[:-1]):
        raise Problem(
            400, f"column {path!r:.200} cannot be cast from {fields[-1].type} to {arrow}: the engine casts inside a "
            "list, but not inside a large_list or a list of fixed size; create the table anew with the new type"
        )  # fmt: skip
    return arrow


def find(schema: pa.Schema, path: str) -> list[pa.Field]:
    """Follow a path, level by level, and give the fields on it."""
    fields, found = list(schema), []
    for step in path.split("."):
        field = next((field for field in fields if field.name == step), None)
        if field is None:
            names = [field.name for field in fields]
            raise Problem(
                400,
                f"there is no column {path!r:.200}; where {step!r:.100} should be there are {names!r:.300}",
            )
        found.append(field)
        fields = _children(field.type)
    return found


def _children(arrow: pa.DataType) -> list[pa.Field]:
    import pyarrow.types as is_

    if is_.is_struct(arrow):
        return list(arrow)
    lists = is_.is_list(arrow) or is_.is_large_list(arrow) or is_.is_fixed_size_list(arrow)
    return [arrow.value_field] if lists else []


def _check_apart(changes: list[Change]) -> None:
    """Refuse a change inside a column that is cast as a whole, which the engine mixes up."""
    casts = {change["path"] for change in changes if "data_type" in change}
    for change in changes:
        steps = change["path"].split(".")
        for above in (".".join(steps[:i]) for i in range(1, len(steps))):
            if above in casts:
                raise Problem(
                    400,
                    f"column {above!r:.200} is cast, and {change['path']!r:.200} inside it is changed too; "
                    "say both in one data_type, or send two requests",
                )


def _check_new_names(changes: list[Change], schema: pa.Schema) -> None:
    """Refuse names that two columns of one level would then have."""
    renames = {change["path"]: change["name"] for change in changes if "name" in change}
    for prefix in {path.rpartition(".")[0] for path in renames}:
        siblings = _children(find(schema, prefix)[-1].type) if prefix else list(schema)
        names = [renames.get(f"{prefix}.{field.name}" if prefix else field.name, field.name) for field in siblings]
        if twice := _twice(names):
            who = [path for path, name in renames.items() if name in twice and path.rpartition(".")[0] == prefix]
            raise Problem(400, f"columns {who!r:.200} cannot be renamed: {twice!r:.200} exists; choose another name")


def said(changes: list[Change], schema: pa.Schema) -> str:
    """Name the columns of a change that was refused, casts first, with both types; as many as leave room for why."""
    parts = []
    for change in sorted(changes, key=lambda change: "data_type" not in change):
        what = [f"rename to {change['name']!r}"] if "name" in change else []
        if "data_type" in change:
            what.append(f"from {find(schema, change['path'])[-1].type} to {change['data_type']}")
        if "nullable" in change:
            what.append(f"nullable={change['nullable']}")
        parts.append(f"column {change['path']!r:.200} ({', '.join(what)})"[:500])
    shown = next((n for n in range(1, len(parts)) if len("; ".join(parts[: n + 1])) > 120), len(parts))
    return "; ".join(parts[:shown]) + (f" and {len(parts) - shown} more" if len(parts) > shown else "")
