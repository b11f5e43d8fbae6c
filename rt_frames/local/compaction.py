"""Merge the small files of a table, and rewrite those that hold more than its rows.

Every append and upsert adds a fragment, and every upsert and delete a file to each
older one; Lance reads and writes the list of all at each commit. So a write first
merges the small fragments at the table's end, if they are many. Fragments in the middle
stay, since Lance puts what it rewrites at the end: the order of the rows is kept.

The caller holds the table's lock.
"""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any

from lance import LanceOperation
from lance.optimize import Compaction
from pyarrow import types

from rt_frames._schema.data_type import iter_fields
from rt_frames.local import cleanup, commits, engine, scans
from rt_frames.local.http_error import HTTPError

log = logging.getLogger("rt_frames")

# a fragment is small below both
FULL_ROWS = 2**20
FULL_BYTES = 2**26
# small fragments that a table may have
MAX_SMALL = 32
# an older fragment is rewritten if the newer ones have a quarter of its rows, or if
# so many of its rows are deleted
MAX_TIMES_LARGER = 4
MAX_DELETED = 0.3


def merge_small(target: engine.Locked) -> Any:
    """Merge a table's small fragments if they are many; return the table.

    What fails is logged.
    """
    folder = target.folder
    table = target.newest
    if len(table.get_fragments()) <= MAX_SMALL:
        return table
    try:
        small = _list_small(table)
        _leave_out_large(small)
        if len(small) <= MAX_SMALL or _find_obstacle(table):
            return table
        _rewrite(folder, table, small)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  # panics
        log.warning(
            "table %s: small files were not merged, which affects no rows: %s",
            folder.stem,
            error,
        )
    return engine.open_table(folder)


def compact(
    _staged: Path, target: engine.Locked, request: dict[str, Any]
) -> dict[str, int]:
    """Merge a table's small fragments; return the new version.

    With ``{"purge": true}``, rewrite every fragment that holds deleted rows, or dropped
    or cast columns, and remove all versions but the newest.
    """
    purge = request.get("purge", False)
    if set(request) - {"purge"} or not isinstance(purge, bool):
        raise HTTPError(400, 'the body takes "purge" alone; send {"purge": true} or {}')
    folder = target.folder
    table = target.newest
    version = int(table.version)
    with engine.as_http_errors():
        obstacle = _find_obstacle(table)
        if purge and not obstacle:
            obstacle = _find_kept(folder, table) or _find_unused(folder, table)
        if obstacle:
            raise HTTPError(400, f"{obstacle}; nothing was changed")
        fragments = _list_small(table)
        if purge:
            # of damaged rows, an older version may have the last that can be read
            commits.check_readable(folder, table)
            fragments = _list_from_first_outdated(table, len(fragments))
        # a second call does it again: the first may have been killed before the purge
        # a purge also needs a log entry without the values of a condition
        if purge or len(fragments) > 1:
            version = _rewrite(folder, table, fragments)
        if purge:
            cleanup.purge_versions(folder)
    return {"version": version}


def _find_obstacle(table: Any) -> str:
    """Return why pylance 14 cannot rewrite a table without harm, or ""."""
    if table.describe_indices():
        return (
            "the table has indices, which would have to be rewritten; drop them first"
        )
    if engine.narrow_dictionaries(table.schema):
        return (
            "dictionaries with codes under 32 bits could not be read if their files were "
            "merged; store the table again with codes of int32"
        )
    return ""


def _find_kept(folder: Path, table: Any) -> str:
    """Return what keeps old versions from being removed, or ""."""
    if table.tags.list() or table.branches.list():
        return "a tag or a branch needs old versions; delete it first, with lance"
    if cleanup.has_link(folder):
        return "a link in the table's folder leads to files that are not removed"
    return ""


def _find_unused(folder: Path, table: Any) -> str:
    """Return which dictionary may hold a value that no row has, or "".

    Lance 14 copies dictionaries as they are. Of those inside others, nobody looks.
    """
    for path, field, _ in iter_fields(table.schema):
        if not types.is_dictionary(field.type):
            continue
        is_nested = "." in path
        if is_nested or _has_unused(table, path):
            cast = {path: str(field.type.value_type)}
            option = ", rewrite=True" if is_nested else ""
            return (
                f"column {path!r} may have categories that no row has, and a purge would leave them; "
                f'first call rt.table("{folder.stem}").cast({cast}{option})'
            )
    return ""


def _has_unused(table: Any, name: str) -> bool:
    """Return whether a fragment has a category that none of its rows has."""
    for fragment in table.get_fragments():
        stored = set()
        used = set()
        for batch in fragment.to_batches(columns=[name]):
            column = batch.column(0)
            stored |= {*column.dictionary.to_pylist()}
            codes = column.indices.drop_null().unique()
            used |= {*column.dictionary.take(codes).to_pylist()}
        if stored != used:
            return True
    return False


def _list_small(table: Any) -> list[Any]:
    """List the small fragments at the table's end, in its order."""
    newest_first = (part.metadata for part in reversed(table.get_fragments()))
    small = list(itertools.takewhile(_is_small, newest_first))
    return small[::-1]


def _is_small(fragment: Any) -> bool:
    nbytes: int = sum(file.file_size_bytes for file in fragment.files)
    return bool(fragment.physical_rows < FULL_ROWS) and nbytes < FULL_BYTES


def _leave_out_large(fragments: list[Any]) -> None:
    """Remove the first fragments that have far more rows than all that follow."""
    newer = sum(fragment.physical_rows for fragment in fragments)
    while fragments:
        rows = fragments[0].physical_rows
        newer -= rows
        is_large = rows > MAX_TIMES_LARGER * newer
        if not is_large or _count_deleted(fragments[0]) >= MAX_DELETED * rows:
            return
        del fragments[0]


def _count_deleted(fragment: Any) -> int:
    deleted = fragment.deletion_file
    return 0 if deleted is None else int(deleted.num_deleted_rows)


def _list_from_first_outdated(table: Any, small: int) -> list[Any]:
    """List the fragments from the first that holds more than the table's rows."""
    ids = commits.field_ids(table.lance_schema.fields())
    fragments = [fragment.metadata for fragment in table.get_fragments()]
    outdated = [
        number
        for number, fragment in enumerate(fragments)
        if _count_deleted(fragment) or _has_other_fields(fragment, ids)
    ]
    # one small fragment has nothing to be merged with
    small_since = len(fragments) - small if small > 1 else len(fragments)
    return fragments[min([*outdated, small_since]) :]


def _has_other_fields(fragment: Any, ids: set[int]) -> bool:
    return any(not ids.issuperset(file.fields) for file in fragment.files)


def _rewrite(folder: Path, table: Any, fragments: list[Any]) -> int:
    """Rewrite the last fragments of a table; return the new version."""
    chosen = {fragment.id for fragment in fragments}
    others = [part.fragment_id for part in table.get_fragments()]
    options: Any = {
        "target_rows_per_fragment": FULL_ROWS,
        # more than none: pylance 14 rewrites all that are not excluded
        "materialize_deletions_threshold": -1.0,
        "excluded_fragment_ids": [number for number in others if number not in chosen],
        "io_buffer_size": scans.BUFFER_BYTES,
        "batch_size": scans.batch_rows(table, table.schema, fragments),
        "num_threads": 1,
    }
    groups = []
    for task in Compaction.plan(table, options).tasks:
        new = task.execute(table).new_fragments
        groups.append(LanceOperation.RewriteGroup(task.fragments, new))
    return commits.commit(folder, table, LanceOperation.Rewrite(groups, []))
