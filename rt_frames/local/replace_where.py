"""Replace the rows that match a condition, in one commit.

The stream is staged before the table is locked, so that a slow client blocks nobody,
and all its rows must match the condition, too. Which rows of the table match is found
under the lock: of two calls for a new day, the second replaces the rows of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance import LanceOperation

from rt_frames._protocol.calls import WHERE_KEY
from rt_frames.local import changes, commits, compaction, engine, scans
from rt_frames.local.http_error import HTTPError


def parse_condition(schema: pa.Schema) -> str:
    """Return the condition in a stream's schema."""
    given: bytes = (schema.metadata or {}).get(WHERE_KEY, b"")
    condition = given.decode(errors="replace")
    if not condition.strip():
        raise HTTPError(
            400,
            "the condition is missing; nothing was changed; send it as rt_frames.where "
            "in the metadata of the stream's schema",
        )
    return condition


def stage(
    staged: Any,
    condition: str,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
) -> list[Any]:
    """Write rows into staging; refuse those that do not match the condition."""
    # the condition may hold personal data, and must not become part of the table
    fragments = engine.stage_append(staged, schema.remove_metadata(), batches)
    # no reader sees it: a version of the staging folder with these rows alone
    operation = LanceOperation.Overwrite(staged.lance_schema, fragments)
    version = commits.commit(Path(staged.uri), staged, operation, in_staging=True)
    alone = staged.checkout_version(version)
    rows = alone.count_rows()
    with engine.as_http_errors(invalid="filter"):
        matched = scans.count_matches(alone, condition)
    if matched != rows:
        raise HTTPError(
            400,
            f"{rows - matched} of the {rows} rows do not match the condition; nothing was "
            "changed; send rows that match it",
        )
    return fragments


def commit(
    staged: Any, fragments: list[Any], condition: str, target: engine.Locked
) -> dict[str, int]:
    """Replace the rows that match now; return the new version and their number."""
    table = compaction.merge_small(target)
    commits.check_same_columns(table, staged)
    deletion, deleted = changes.delete_matches(table, condition)
    operation = LanceOperation.Update(
        removed_fragment_ids=deletion.deleted_fragment_ids,
        updated_fragments=deletion.updated_fragments,
        new_fragments=fragments,
    )
    files = commits.data_files(staged, fragments)
    numbers = {"num_deleted_rows": deleted}
    version = commits.commit(target.folder, table, operation, staged=files)
    return {"version": version, **numbers}
