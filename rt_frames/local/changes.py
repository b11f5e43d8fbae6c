"""Delete rows, alter, add and drop columns, restore a version: each is one commit.

The caller holds the table's lock, and passes a path in staging for a draft. Requests
are checked first: pylance 14 accepts names that make a table unreadable.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as is_
from lance import LanceOperation
from lance.fragment import write_fragments

from rt_frames._names import duplicates
from rt_frames._schema.data_type import iter_fields
from rt_frames._text import list_names
from rt_frames.local import commits, compaction, engine, scans
from rt_frames.local.alter_request import Change, describe, parse_alterations
from rt_frames.local.http_error import HTTPError
from rt_frames.local.query import parse_filter
from rt_frames.local.validate import MAX_COLUMNS, MAX_FIELDS

_VALUE_ERROR = "LanceError(Arrow)"
_COLUMN_QUOTE = 'olumn "'


def delete(
    _staged: Path, target: engine.Locked, request: dict[str, Any]
) -> dict[str, int]:
    """Delete the rows that match a filter; return their number and the new version."""
    _check_members(request, "predicate")
    condition = parse_filter(request.get("predicate"))
    if condition is None or not condition.strip():
        raise HTTPError(
            400,
            'the filter is missing; nothing was changed; send {"predicate": "n > 1"}, or drop '
            "the table",
        )
    table = compaction.merge_small(target)
    with engine.as_http_errors():
        operation, deleted = delete_matches(table, condition)
        numbers = {"num_deleted_rows": deleted}
        version = commits.commit(target.folder, table, operation)
    return {"version": version, **numbers}


def delete_matches(table: Any, condition: str) -> tuple[Any, int]:
    """Mark the rows that match as deleted; return the operation, and their number."""
    changed = []
    emptied = []
    deleted = 0
    with engine.as_http_errors(invalid="filter"):
        options = scans.options(table, [], condition)
        for fragment in table.get_fragments():
            found = table.scanner(
                fragments=[fragment], with_row_address=True, **options
            ).to_table()
            addresses = found.column("_rowaddr").to_pylist()
            # in its fragment
            numbers = [address % 2**32 for address in addresses]
            deleted += len(numbers)
            if not numbers:
                continue
            left = fragment.delete_rows(numbers)
            if left is None:
                emptied.append(fragment.fragment_id)
            else:
                changed.append(left)
    # without the condition: it may hold personal data, which would stay in the log
    return LanceOperation.Delete(changed, emptied, ""), deleted


def alter(staged: Path, target: engine.Locked, request: dict[str, Any]) -> int:
    """Apply the changes of a request, all or none; return the new version."""
    folder = target.folder
    table = target.newest
    changes = parse_alterations(request, table.schema)
    with engine.as_http_errors():
        draft = commits.draft(folder, table, staged)
        try:
            draft.alter_columns(*(change.alteration for change in changes))
        except BaseException as error:
            # Lance's panics are BaseExceptions (pylance 14)
            suspects = _find_suspects(changes, str(error))
            with engine.as_http_errors(describe(suspects)):
                raise
        operation = commits.last_operation(draft)
        subject = f"{describe(changes)}: the table could not be read after this change"
        verify = partial(_verify, draft, _cast_columns(changes), subject)
        return commits.commit(folder, table, operation, verify=verify)


def _verify(draft: Any, columns: list[str], subject: str) -> None:
    """Raise if changed columns of a draft cannot be read."""
    with engine.as_http_errors(subject):
        engine.verify_readable(draft, columns)


def _cast_columns(changes: list[Change]) -> list[str]:
    """Return the top-level columns that a cast rewrites, by their new names."""
    new_names = {}
    cast = set()
    for _, alteration in changes:
        path = alteration["path"]
        if "name" in alteration:
            new_names[path] = alteration["name"]
        if "data_type" in alteration:
            cast.add(path.partition(".")[0])
    return [new_names.get(column, column) for column in cast]


def _find_suspects(changes: list[Change], reason: str) -> list[Change]:
    """Return the change that Lance names, or else all that may have failed."""
    path = reason.partition(_COLUMN_QUOTE)[2].partition('"')[0]
    named = [change for change in changes if change.alteration["path"] == path]
    casts = [change for change in changes if "data_type" in change.alteration]
    if not named and _VALUE_ERROR in reason:
        return casts
    return named or changes


def add_columns(
    staged: Path, target: engine.Locked, schema: pa.Schema
) -> dict[str, int]:
    """Add columns of nulls; return the new version."""
    folder = target.folder
    table = target.newest
    _check_new_columns(schema, table.schema)
    with engine.as_http_errors():
        draft = commits.draft(folder, table, staged)
        draft.add_columns(schema)
        operation = commits.last_operation(draft)
        subject = "the table could not be read with these columns"
        verify = partial(_verify, draft, schema.names, subject)
        version = commits.commit(folder, table, operation, verify=verify)
    return {"version": version}


def _check_new_columns(schema: pa.Schema, table: pa.Schema) -> None:
    # lower case → name
    names = {name.lower(): name for name in table.names}
    for field in schema:
        known = names.get(field.name.lower())
        if known == field.name:
            raise HTTPError(
                400,
                f"column {known!r:.200} already exists; nothing was changed; leave it out",
            )
        if known is not None:
            raise HTTPError(
                400,
                f"columns {known!r:.200} and {field.name!r:.200} differ only in case; nothing "
                "was changed; choose another name",
            )
        names[field.name.lower()] = field.name
        if not field.nullable:
            raise HTTPError(
                400,
                f"column {field.name!r:.200} is not nullable, but new columns are null in all "
                "rows; nothing was changed; make it nullable",
            )
        if is_.is_null(field.type):
            raise HTTPError(
                400,
                f"column {field.name!r:.200} has no type; nothing was changed; give it a type",
            )
    if len(names) > MAX_COLUMNS:
        raise HTTPError(
            400,
            f"the table would have {len(names)} columns, more than {MAX_COLUMNS}; nothing was "
            "changed; add fewer",
        )
    number = len(list(iter_fields([*table, *schema])))
    if number > MAX_FIELDS:
        raise HTTPError(
            400,
            f"the table would have {number} fields, those inside its columns included, more "
            f"than {MAX_FIELDS}; nothing was changed; add fewer",
        )


def drop_columns(
    staged: Path, target: engine.Locked, request: dict[str, Any]
) -> dict[str, int]:
    """Drop top-level columns; return the new version."""
    _check_members(request, "columns")
    names = request.get("columns")
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or not names:
        raise HTTPError(
            400, 'the column names are missing; send {"columns": ["a", "b"]}'
        )
    twice = duplicates(names)
    if twice:
        raise HTTPError(
            400, f"columns: {list_names(twice)} more than once; name each column once"
        )
    folder = target.folder
    table = target.newest
    known = dict.fromkeys(table.schema.names)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise HTTPError(
            400,
            f"unknown columns: {list_names(unknown)}; the table has {list_names(known)}; "
            "nothing was changed",
        )
    if len(names) == len(known):
        raise HTTPError(
            400,
            "these are all columns of the table; nothing was changed; leave one, or drop the "
            "table",
        )
    with engine.as_http_errors():
        draft = commits.draft(folder, table, staged)
        # first: no rows can be written without a column that must not be null
        draft.drop_columns(names)
        added = _add_nulls(table, draft, {*names})
        operation = commits.last_operation(draft)
        if added is not None:
            operation = LanceOperation.Merge(added, operation.schema)
        return {"version": commits.commit(folder, table, operation)}


def _add_nulls(table: Any, draft: Any, dropped: set[str]) -> list[Any] | None:
    """Add a column of nulls to fragments that store only columns to be dropped.

    A fragment lacks columns that were added later, or that an append left out. A
    fragment without any data makes the table unreadable. Return all fragments, or None
    if there is no such fragment.
    """
    kept = [
        field for field in table.lance_schema.fields() if field.name() not in dropped
    ]
    ids = commits.field_ids(kept)
    fragments = [fragment.metadata for fragment in table.get_fragments()]
    has_added = False
    for fragment in fragments:
        stored: set[int] = set()
        for file in fragment.files:
            stored.update(file.fields)
        if not stored & ids:
            fragment.files += _write_nulls(
                draft, kept[0].name(), fragment.physical_rows
            )
            has_added = True
    return fragments if has_added else None


def _write_nulls(table: Any, name: str, rows: int) -> list[Any]:
    """Write nulls of a column, as one fragment; return its files."""
    field = table.schema.field(name)
    nulls = pa.table([pa.nulls(rows, field.type)], pa.schema([field]))
    (fragment,) = write_fragments(nulls, table, mode="append", max_rows_per_file=rows)
    return list(fragment.files)


def restore(_staged: Path, target: engine.Locked, version: int) -> dict[str, int]:
    """Commit an old version as the newest; return its new number."""
    old = engine.open_table(target.folder, version, state="; nothing was changed")
    commits.check_readable(target.folder, old, limit=1)
    with engine.as_http_errors():
        table = engine.open_past_damage(target)
        operation = LanceOperation.Restore(version)
        return {"version": commits.commit(target.folder, table, operation)}


def _check_members(request: dict[str, Any], member: str) -> None:
    unknown = set(request) - {member}
    if unknown:
        raise HTTPError(
            400,
            f'unknown in the body: {list_names(sorted(unknown))}; send only "{member}"',
        )
