"""The JSON of an alter request → changes for the engine, every one checked against the table's schema first."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as is_

from rt_frames._names import duplicates
from rt_frames._schema.data_type import arrow_type, child_fields, is_list
from rt_frames._text import list_names
from rt_frames.local.http_error import HTTPError
from rt_frames.local.validate import check_field, check_name

_FIELDS = {"path": "path", "rename": "name", "data_type": "data_type", "nullable": "nullable"}  # ours → the engine's


class Column:
    """A column, or a field inside one; what is inside it is looked up by name once: there may be thousands."""

    def __init__(self, field: pa.Field) -> None:
        self.name, self.type = field.name, field.type

    @cached_property
    def children(self) -> dict[str, Column]:
        """What a path can name inside: the fields of a struct, the item of a list."""
        named = is_.is_struct(self.type) or is_list(self.type)
        return {field.name: Column(field) for field in child_fields(self.type)} if named else {}


class Change(NamedTuple):
    """What becomes of one column."""

    path: list[Column]  # from the whole table down to the column
    given: dict[str, Any]  # as the engine takes it: "path", and any of "name", "data_type", "nullable"

    def __str__(self) -> str:
        what = [f"rename to {self.given['name']!r}"] if "name" in self.given else []
        if "data_type" in self.given:
            what.append(f"from {self.path[-1].type} to {self.given['data_type']}")
        if "nullable" in self.given:
            what.append(f"nullable={self.given['nullable']}")
        return f"column {self.given['path']!r:.200} ({', '.join(what)})"[:500]


def parse_alterations(asked: dict[str, Any], schema: pa.Schema) -> list[Change]:
    """Read ``{"alterations": [...]}``; nothing of it is applied unless all of it makes sense."""
    alterations = asked.get("alterations")
    if not isinstance(alterations, list) or not alterations:
        raise HTTPError(400, 'the JSON of the body needs "alterations", an array with at least one object')
    if unknown := set(asked) - {"alterations"}:
        raise HTTPError(400, f'unknown {list_names(sorted(unknown))}; the body has "alterations" and nothing else')
    table = Column(pa.field("", pa.struct(list(schema))))
    changes = [_parse_alteration(alteration, table) for alteration in alterations]
    if twice := duplicates(change.given["path"] for change in changes):
        raise HTTPError(400, f"columns occur more than once: {list_names(twice)}; put all of a column into one object")
    _check_apart(changes)
    _check_new_names(changes)
    return changes


def _parse_alteration(alteration: Any, table: Column) -> Change:
    if not isinstance(alteration, dict) or not isinstance(alteration.get("path"), str):
        raise HTTPError(400, f'an alteration needs a "path", a string; got {alteration!r:.200}')
    column = f"column {alteration['path']!r:.200}"
    if unknown := set(alteration) - set(_FIELDS):
        raise HTTPError(400, f"{column}: unknown {list_names(sorted(unknown))}; there are {list_names(_FIELDS)}")
    path = _resolve_path(table, alteration["path"])
    given = {name: alteration[key] for key, name in _FIELDS.items() if alteration.get(key) is not None}
    if len(given) == 1:
        raise HTTPError(400, f'{column}: nothing to change; give "rename", "data_type" or "nullable"')
    try:
        _check_values(given, path)
    except (ValueError, HTTPError) as error:
        raise HTTPError(400, f"{column} cannot be changed: {error}") from None
    return Change(path, given)


def _check_values(given: dict[str, Any], path: list[Column]) -> None:
    """Refuse what the engine would not take or not survive, and put an Arrow type in the place of its name."""
    if not isinstance(given.get("nullable", True), bool):
        raise ValueError(f'"nullable" is true or false, not {given["nullable"]!r:.100}')
    if not isinstance(given.get("name", ""), str):
        raise ValueError(f'"rename" is a string, not {given["name"]!r:.100}')
    if "name" in given:
        check_name(given["name"])
    if "data_type" in given:
        given["data_type"] = arrow_type(given["data_type"])
        check_field(pa.field(given["path"], given["data_type"]))
        if any(is_.is_large_list(above.type) or is_.is_fixed_size_list(above.type) for above in path[:-1]):
            raise ValueError(
                f"the engine does not cast {path[-1].type} to {given['data_type']} here: it casts inside a list, but "
                "not inside a large_list or a list of fixed size; create the table anew with the new type"
            )


def _resolve_path(table: Column, path: str) -> list[Column]:
    columns = [table]
    for step in path.split("."):
        level = columns[-1].children
        if step not in level:
            raise HTTPError(400, f"there is no column {path!r:.200}: no {step!r:.100} among {list_names(level)}")
        columns.append(level[step])
    return columns


def _check_apart(changes: list[Change]) -> None:
    """Refuse a change inside a column that is cast as a whole, which the engine mixes up."""
    casts = {path[-1]: given["path"] for path, given in changes if "data_type" in given}
    for path, given in changes:
        if cast := next((casts[above] for above in path[:-1] if above in casts), None):
            raise HTTPError(
                400, f"column {cast!r:.200} is cast, and {given['path']!r:.200} inside it is changed too; "
                "put both into one data_type, or send two requests"
            )  # fmt: skip


def _check_new_names(changes: list[Change]) -> None:
    """Refuse names that two columns of one level would then have."""
    levels: dict[Column, dict[str, str]] = defaultdict(dict)
    for path, given in changes:
        if "name" in given:
            levels[path[-2]][path[-1].name] = given["name"]
    for level, renamed in levels.items():
        if twice := set(duplicates(renamed.get(name, name) for name in level.children)):
            who = [given["path"] for path, given in changes if path[-2] is level and given.get("name") in twice]
            what = f"columns {list_names(who)} cannot be renamed: {list_names(sorted(twice))} would be there twice"
            raise HTTPError(400, f"{what}; choose another name")


def describe(changes: list[Change]) -> str:
    """Name the columns of a change that was refused, casts first, with both types; as many as leave room for why."""
    first, *others = sorted(changes, key=lambda change: "data_type" not in change.given)
    text, left = str(first), len(others)
    for change in others:
        longer = f"{text}; {change}"
        if len(longer) > 120:
            break
        text, left = longer, left - 1
    return f"{text} and {left} more" if left else text
