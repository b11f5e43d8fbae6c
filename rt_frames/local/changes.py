"""Delete rows, add and drop columns, restore a version: each is one commit.

The caller holds the table's lock. Requests are checked first, since Lance accepts names
that make a table unreadable, and filters of which it reads only the beginning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.types as is_

from rt_frames._names import duplicates
from rt_frames._schema.data_type import iter_fields
from rt_frames._text import list_names
from rt_frames.local import engine
from rt_frames.local.http_error import HTTPError
from rt_frames.local.query import check_filter
from rt_frames.local.validate import MAX_COLUMNS, MAX_FIELDS


def delete(folder: Path, request: dict[str, Any]) -> dict[str, int]:
    """Delete the rows that match a filter; return their number and the new version."""
    _check_members(request, "predicate")
    condition = check_filter(request.get("predicate"))
    if condition is None or not request["predicate"].strip():
        raise HTTPError(
            400,
            'the filter is missing; nothing was changed; send {"predicate": "n > 1"}, or drop '
            "the table",
        )
    table: Any = lance.dataset(str(folder))
    with engine.as_http_errors(invalid="filter"):
        deleted = table.delete(condition)["num_deleted_rows"]
    return {"num_deleted_rows": int(deleted), "version": int(table.version)}


def add_columns(folder: Path, schema: pa.Schema) -> dict[str, int]:
    """Add columns of nulls; return the new version."""
    table: Any = lance.dataset(str(folder))
    _check_new_columns(schema, table.schema)
    before = table.version
    with engine.as_http_errors():
        table.add_columns(schema)
    with engine.as_http_errors("the table could not be read with these columns"):
        return {"version": engine.keep_readable(folder, table, before, schema.names)}


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


def drop_columns(folder: Path, request: dict[str, Any]) -> dict[str, int]:
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
    table: Any = lance.dataset(str(folder))
    known = table.schema.names
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
        _rewrite_rows_without(table, names)
        table.drop_columns(names)
    return {"version": int(table.version)}


def _rewrite_rows_without(table: Any, dropped: list[str]) -> None:
    """Rewrite fragments that store only columns to be dropped.

    A fragment lacks columns that were added later, or that an append left out. A
    fragment without any data makes the table unreadable.
    """
    kept: set[int] = set()
    for field in table.lance_schema.fields():
        if field.name() not in dropped:
            kept |= _field_ids(field)
    for fragment in table.get_fragments():
        stored: set[int] = set()
        for file in fragment.metadata.files:
            stored.update(file.fields)
        if not stored & kept:
            # an update writes all columns, with nulls for those that were not stored
            first = fragment.fragment_id << 32
            rows = f"_rowaddr >= {first} AND _rowaddr < {first + 2**32}"
            table.update({dropped[0]: f"`{dropped[0]}`"}, where=rows)


def _field_ids(field: Any) -> set[int]:
    ids = {field.id()}
    for child in field.children():
        ids |= _field_ids(child)
    return ids


def restore(folder: Path, version: int) -> dict[str, int]:
    """Commit an old version as the newest; return its new number."""
    try:
        table: Any = lance.dataset(str(folder), version=version)
    except BaseException as error:
        # Lance's panics are BaseExceptions
        raise HTTPError(
            404,
            f"version {version} does not exist or was removed; nothing was changed",
        ) from error
    with engine.as_http_errors():
        table.restore()
    return {"version": int(table.version)}


def _check_members(request: dict[str, Any], member: str) -> None:
    unknown = set(request) - {member}
    if unknown:
        raise HTTPError(
            400,
            f'unknown in the body: {list_names(sorted(unknown))}; send only "{member}"',
        )
