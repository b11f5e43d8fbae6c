"""The JSON of an alter request → changes for Lance, checked against the schema."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as is_

from rt_frames._names import closest_names, duplicates, join_path
from rt_frames._schema.casts import list_kind_on_path, refusal_reason, split_reason
from rt_frames._schema.data_type import arrow_type, child_fields, iter_fields, show_type
from rt_frames._text import list_names, list_some
from rt_frames.errors import UnsupportedTypeError
from rt_frames.local.http_error import HTTPError
from rt_frames.local.validate import check_field, check_name

# the request's name → Lance's
_FIELDS = {
    "path": "path",
    "rename": "name",
    "data_type": "data_type",
    "nullable": "nullable",
}

# path → field; the empty path is the whole table
Fields = dict[str, pa.Field]


class Change(NamedTuple):
    """A change of one column, and the type that it has before."""

    type: pa.DataType
    # Lance's argument: "path", and any of "name", "data_type", "nullable"
    alteration: dict[str, Any]

    def __str__(self) -> str:
        changes = []
        if "name" in self.alteration:
            changes.append(f"rename to {self.alteration['name']!r}")
        if "data_type" in self.alteration:
            target = show_type(self.alteration["data_type"])
            changes.append(f"from {show_type(self.type)} to {target}")
        if "nullable" in self.alteration:
            changes.append(f"nullable={self.alteration['nullable']}")
        return f"column {self.alteration['path']!r:.200} ({', '.join(changes)})"[:500]


def parse_alterations(request: dict[str, Any], schema: pa.Schema) -> list[Change]:
    """Parse ``{"alterations": [...]}``. One invalid change refuses the request."""
    alterations = request.get("alterations")
    if not isinstance(alterations, list) or not alterations:
        raise HTTPError(
            400,
            'the body needs "alterations", an array with at least one object',
        )
    unknown = set(request) - {"alterations"}
    if unknown:
        raise HTTPError(
            400,
            f'unknown in the body: {list_names(sorted(unknown))}; send only "alterations"',
        )
    fields = {"": pa.field("", pa.struct(list(schema)))} | {
        path: field
        for path, field, parents in iter_fields(schema)
        # no path leads to a name with a dot, or beyond it
        if path.count(".") == len(parents)
    }
    changes = [_parse_alteration(alteration, fields) for alteration in alterations]
    twice = duplicates(change.alteration["path"] for change in changes)
    if twice:
        raise HTTPError(
            400,
            f"alterations: {list_names(twice)} more than once; nothing was changed; combine all "
            "changes of a column into one alteration",
        )
    _check_conflicts(changes)
    _check_casts(changes, fields)
    _check_new_names(changes, fields)
    _check_together(changes)
    return changes


def _parents(path: str) -> list[str]:
    """Return the paths of a field's ancestors, the table ("") first."""
    return ["", *itertools.accumulate(path.split(".")[:-1], join_path)]


def _parse_alteration(alteration: Any, fields: Fields) -> Change:
    if not isinstance(alteration, dict) or not isinstance(alteration.get("path"), str):
        raise HTTPError(
            400,
            f'alterations: expected objects with a string "path", got {alteration!r:.200}',
        )
    path = alteration["path"]
    column = f"column {path!r:.200}"
    unknown = set(alteration) - set(_FIELDS)
    if unknown:
        raise HTTPError(
            400,
            f"{column}: unknown {list_names(sorted(unknown))}; nothing was changed; use only "
            f"{list_names(_FIELDS)}",
        )
    _check_exists(path, fields)
    parsed = {}
    for key, name in _FIELDS.items():
        if alteration.get(key) is not None:
            parsed[name] = alteration[key]
    if len(parsed) == 1:
        raise HTTPError(
            400,
            f'{column}: nothing to change; give "rename", "data_type" or "nullable"',
        )
    try:
        _check_values(parsed, fields)
    except (ValueError, UnsupportedTypeError, HTTPError) as error:
        raise HTTPError(400, f"{column} cannot be changed: {error}") from None
    return Change(fields[path].type, parsed)


def _check_exists(path: str, fields: Fields) -> None:
    """Refuse a path that no column has; name its first unknown step."""
    if path and path in fields:
        return
    parent = ""
    # not split: a path may have millions of dots
    step, _, rest = path.partition(".")
    while step:
        deeper = join_path(parent, step)
        if deeper not in fields:
            break
        parent = deeper
        step, _, rest = rest.partition(".")
    names = [field.name for field in child_fields(fields[parent].type)]
    close = closest_names(step[:200], names)
    offer = f" (did you mean {list_names(close)}?)" if close else ""
    above = repr(parent)[:100] if parent else "the table"
    raise HTTPError(
        400,
        f"unknown column {path!r:.200}{offer}; {above} has {list_names(names) or 'no fields'}; "
        "nothing was changed",
    )


def _check_values(alteration: dict[str, Any], fields: Fields) -> None:
    """Check the values of a change, and parse its type.

    Some of the values that are refused here would crash Lance.
    """
    if not isinstance(alteration.get("nullable", True), bool):
        raise ValueError(
            f'"nullable" must be true or false, got {alteration["nullable"]!r:.100}'
        )
    if not isinstance(alteration.get("name", ""), str):
        raise ValueError(f'"rename" must be a string, got {alteration["name"]!r:.100}')
    if "name" in alteration:
        check_name(alteration["name"])
    if "data_type" in alteration:
        alteration["data_type"] = arrow_type(alteration["data_type"])
        check_field(pa.field(alteration["path"], alteration["data_type"]))
    _check_inside(alteration, fields)


def _check_inside(alteration: dict[str, Any], fields: Fields) -> None:
    """Refuse changes inside lists and maps that pylance 14 does not support.

    Some of them would make the table unreadable.
    """
    field = fields[alteration["path"]]
    above = [fields[path].type for path in _parents(alteration["path"])]
    if any(map(is_.is_map, above)):
        raise ValueError(
            "the engine cannot change fields inside a map; create a new table"
        )
    if (
        field.nullable
        and not alteration.get("nullable", True)
        and not all(map(is_.is_struct, above))
    ):
        raise ValueError(
            "the engine cannot check for nulls inside lists; leave the field nullable"
        )


def _check_conflicts(changes: list[Change]) -> None:
    """Refuse changes inside a column that is cast: pylance 14 confuses the two."""
    casts = set()
    for _, alteration in changes:
        if "data_type" in alteration:
            casts.add(alteration["path"])
    for _, alteration in changes:
        path = alteration["path"]
        cast = casts.intersection(_parents(path))
        if cast:
            raise HTTPError(
                400,
                f"column {list_names(cast)} is cast, and {path!r:.200} inside it is changed, too; "
                "nothing was changed; put both into one data_type, or send two requests",
            )


def _check_casts(changes: list[Change], fields: Fields) -> None:
    """Refuse casts that pylance 14 does not support."""
    refused = []
    for arrow, alteration in changes:
        target = alteration.get("data_type")
        if target is None:
            continue
        parents = [fields[path].type for path in _parents(alteration["path"])]
        reason = refusal_reason(arrow, target, list_kind_on_path(parents))
        if reason:
            types = f"from {show_type(arrow)} to {show_type(target)}"
            column = f"column {alteration['path']!r:.200} ({types})"
            refused.append(f"{column}: {reason}")
    if refused:
        raise HTTPError(
            400,
            f"{list_some(refused, 2)}; nothing was changed; cast all its rows and replace "
            "the table",
        )


def _check_new_names(changes: list[Change], fields: Fields) -> None:
    """Refuse renames that would give two columns of a level the same name."""
    # parent → path → new name
    levels: dict[str, dict[str, str]] = defaultdict(dict)
    for _, alteration in changes:
        if "name" in alteration:
            path = alteration["path"]
            levels[_parents(path)[-1]][path] = alteration["name"]
    for parent, renames in levels.items():
        names = [field.name for field in child_fields(fields[parent].type)]
        new_names = [renames.get(join_path(parent, name), name) for name in names]
        twice = duplicates(new_names)
        if twice:
            refused = [
                f"{path!r:.200} to {name!r:.200}"
                for path, name in renames.items()
                if name in twice
            ]
            raise HTTPError(
                400,
                f"cannot rename {list_some(refused)}: two columns would have the same name; "
                "nothing was changed; choose another name",
            )


def _check_together(changes: list[Change]) -> None:
    """Refuse changes that need two requests: in one, pylance 14 fails or does harm."""
    alterations = []
    for _, alteration in changes:
        name = alteration.get("name")
        cast = alteration.get("data_type")
        nullable = alteration.get("nullable")
        alterations.append((alteration["path"], name, cast, nullable))
    reason = split_reason(alterations)
    if reason:
        raise HTTPError(
            400,
            f"{describe(changes)}: {reason}; nothing was changed; send two: casts first, then "
            "names and nullability",
        )


def describe(changes: list[Change]) -> str:
    """List changes for a message, casts first, in about 120 characters."""
    first, *others = sorted(
        changes, key=lambda change: "data_type" not in change.alteration
    )
    text = str(first)
    hidden = len(others)
    for change in others:
        longer = f"{text}; {change}"
        if len(longer) > 120:
            break
        text = longer
        hidden -= 1
    return f"{text} and {hidden} more" if hidden else text
