"""The JSON of an alter request → changes for the engine, checked against the schema."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as is_

from rt_frames._names import closest_names, duplicates, join_path
from rt_frames._schema.casts import list_kind_on_path, refusal_reason, split_reason
from rt_frames._schema.data_type import arrow_type, child_fields, iter_fields
from rt_frames._text import count, list_names
from rt_frames.local.http_error import HTTPError
from rt_frames.local.validate import check_field, check_name

# ours → the engine's
_FIELDS = {
    "path": "path",
    "rename": "name",
    "data_type": "data_type",
    "nullable": "nullable",
}

_REWRITE = "alter_table(…, rewrite=True), or rt-frames alter --rewrite, casts all rows exactly and replaces them"

# by path; empty for the whole table
Fields = dict[str, pa.Field]


class Change(NamedTuple):
    """What becomes of one column."""

    # its present type
    type: pa.DataType
    # in the engine's form: "path", and any of "name", "data_type", "nullable"
    given: dict[str, Any]

    def __str__(self) -> str:
        actions = []
        if "name" in self.given:
            actions.append(f"rename to {self.given['name']!r}")
        if "data_type" in self.given:
            actions.append(f"from {self.type} to {self.given['data_type']}")
        if "nullable" in self.given:
            actions.append(f"nullable={self.given['nullable']}")
        return f"column {self.given['path']!r:.200} ({', '.join(actions)})"[:500]


def parse_alterations(request: dict[str, Any], schema: pa.Schema) -> list[Change]:
    """Read and check ``{"alterations": [...]}`` as a whole, before any is applied."""
    alterations = request.get("alterations")
    if not isinstance(alterations, list) or not alterations:
        raise HTTPError(
            400,
            'the JSON of the body needs "alterations", an array with at least one object',
        )
    if unknown := set(request) - {"alterations"}:
        raise HTTPError(
            400,
            f'unknown {list_names(sorted(unknown))}; the body has "alterations" and nothing else',
        )
    table = pa.field("", pa.struct(list(schema)))
    fields = {path: field for path, field, _ in iter_fields([table])}
    changes = [_parse_alteration(alteration, fields) for alteration in alterations]
    if twice := duplicates(change.given["path"] for change in changes):
        raise HTTPError(
            400,
            f"columns occur more than once: {list_names(twice)}; put all of a column into one object",
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
            400, f'an alteration needs a "path", a string; got {alteration!r:.200}'
        )
    path = alteration["path"]
    column = f"column {path!r:.200}"
    if unknown := set(alteration) - set(_FIELDS):
        raise HTTPError(
            400,
            f"{column}: unknown {list_names(sorted(unknown))}; there are {list_names(_FIELDS)}",
        )
    _check_there(path, fields)
    given = {}
    for key, name in _FIELDS.items():
        if alteration.get(key) is not None:
            given[name] = alteration[key]
    if len(given) == 1:
        raise HTTPError(
            400,
            f'{column}: nothing to change; give "rename", "data_type" or "nullable"',
        )
    try:
        _check_values(given, fields)
    except (ValueError, HTTPError) as error:
        raise HTTPError(400, f"{column} cannot be changed: {error}") from None
    return Change(fields[path].type, given)


def _check_there(path: str, fields: Fields) -> None:
    """Refuse the path of no column, by its first unknown step."""
    if path and path in fields:
        return
    known = ""
    step, _, rest = path.partition(".")
    while step and join_path(known, step) in fields:
        known = join_path(known, step)
        step, _, rest = rest.partition(".")
    names = [field.name for field in child_fields(fields[known].type)]
    close = closest_names(step[:200], names)
    offer = f" (did you mean {list_names(close)}?)" if close else ""
    above = repr(known)[:100] if known else "the table"
    raise HTTPError(
        400, f"there is no column {path!r:.200}{offer}; {above} has {list_names(names)}"
    )


def _check_values(given: dict[str, Any], fields: Fields) -> None:
    """Refuse values that the engine cannot take; make data_type an Arrow type."""
    if not isinstance(given.get("nullable", True), bool):
        raise ValueError(f'"nullable" is true or false, not {given["nullable"]!r:.100}')
    if not isinstance(given.get("name", ""), str):
        raise ValueError(f'"rename" is a string, not {given["name"]!r:.100}')
    if "name" in given:
        check_name(given["name"])
    if "data_type" in given:
        given["data_type"] = arrow_type(given["data_type"])
        check_field(pa.field(given["path"], given["data_type"]))
    _check_inside(given, fields)


def _check_inside(given: dict[str, Any], fields: Fields) -> None:
    """Refuse changes in lists and maps that fail, or that break the table."""
    field = fields[given["path"]]
    above = [fields[path].type for path in _parents(given["path"])]
    if any(map(is_.is_map, above)):
        raise ValueError("the engine changes nothing inside a map; create a new table")
    forbids_nulls = field.nullable and not given.get("nullable", True)
    if forbids_nulls and not all(map(is_.is_struct, above)):
        raise ValueError(
            "the engine cannot look for nulls inside lists; what is inside them stays nullable"
        )


def _check_conflicts(changes: list[Change]) -> None:
    """Refuse a change inside a column that is cast: the engine mixes them up."""
    casts = {change.given["path"] for change in changes if "data_type" in change.given}
    for change in changes:
        path = change.given["path"]
        if cast := casts.intersection(_parents(path)):
            raise HTTPError(
                400,
                f"column {list_names(cast)} is cast, and {path!r:.200} inside it is changed too; "
                "put both into one data_type, or send two requests",
            )


def _check_casts(changes: list[Change], fields: Fields) -> None:
    """Refuse casts that the engine does not do."""
    refused = []
    for arrow, given in changes:
        target = given.get("data_type")
        if target is None:
            continue
        lists = list_kind_on_path(
            fields[above].type for above in _parents(given["path"])
        )
        reason = refusal_reason(arrow, target, lists)
        if reason:
            column = f"column {given['path']!r:.200} (from {arrow} to {target})"
            refused.append(f"{column}: {reason}")
    if len(refused) > 2:
        refused[2:] = [count(len(refused) - 2, "more column")]
    if refused:
        raise HTTPError(400, f"nothing was changed, {'; '.join(refused)}; {_REWRITE}")


def _check_new_names(changes: list[Change], fields: Fields) -> None:
    """Refuse names that two columns of one level would then have."""
    levels: dict[str, dict[str, str]] = defaultdict(dict)
    for _, given in changes:
        if "name" in given:
            levels[_parents(given["path"])[-1]][given["path"]] = given["name"]
    for level, renamed in levels.items():
        names = []
        for field in child_fields(fields[level].type):
            path = join_path(level, field.name)
            names.append(renamed.get(path, field.name))
        if twice := duplicates(names):
            who = [path for path, name in renamed.items() if name in twice]
            what = f"columns {list_names(who)} cannot be renamed: {list_names(sorted(twice))} would be there twice"
            raise HTTPError(400, f"{what}; choose another name")


def _check_together(changes: list[Change]) -> None:
    """Refuse what the engine does in two requests alone, or wrongly in one."""
    requested = [
        (one["path"], one.get("name"), one.get("data_type"), one.get("nullable"))
        for _, one in changes
    ]
    if reason := split_reason(requested):
        text = f"nothing was changed, {describe(changes)}: {reason}"
        raise HTTPError(
            400, f"{text}; send two: casts first, then names and nullability"
        )


def describe(changes: list[Change]) -> str:
    """Name columns with their changes, casts first; as many as leave room for why."""
    first, *others = sorted(changes, key=lambda change: "data_type" not in change.given)
    text = str(first)
    left = len(others)
    for change in others:
        longer = f"{text}; {change}"
        if len(longer) > 120:
            break
        text = longer
        left = left - 1
    return f"{text} and {left} more" if left else text
