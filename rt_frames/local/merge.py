"""Upserts: update the rows whose keys exist and insert the others, in one commit.

The stream is written to a file before the table is locked, so that a slow client blocks
nobody. Its keys are checked on the way: pylance 14 would insert two rows with the same
new key, and would insert a null key again at every call.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.types as is_

from rt_frames._names import duplicates
from rt_frames._schema.data_type import show_type, storage, value_type
from rt_frames._schema.keys import (
    compact,
    compared_bytes,
    find_equal,
    find_null,
    show_key,
)
from rt_frames._text import format_bytes, list_names
from rt_frames.local import commits, compaction, engine
from rt_frames.local.http_error import HTTPError
from rt_frames.local.validate import alignment

# parameter → the only value that is supported
_RULES = {
    "when_matched_update_all": True,
    "when_not_matched_insert_all": True,
    "when_not_matched_by_source_delete": False,
}
# parameters that do not change the result
_IGNORED = {"timeout", "use_index", "use_lsm_write"}
_NO_KEYS = (is_.is_floating, is_.is_nested, is_.is_null)
_COUNTS = ("num_updated_rows", "num_inserted_rows", "num_deleted_rows")
# of all rows of one merge, and what it takes to compare them
MAX_KEY_BYTES = 2**30


def parse_keys(parameters: dict[str, list[str]]) -> list[str]:
    """Check the parameters of a merge; return the names of its key columns."""
    unknown = set(parameters) - set(_RULES) - _IGNORED - {"on"}
    if unknown:
        raise HTTPError(
            501,
            f"a folder does not support {list_names(sorted(unknown))} in a merge; leave it out",
        )
    for name, required in _RULES.items():
        value = parameters.get(name, ["false"])[-1].lower()
        if value not in ("true", "false"):
            raise HTTPError(400, f"{name}: expected true or false, got {value!r:.100}")
        if (value == "true") != required:
            raise HTTPError(
                501,
                "a folder merges only by updating all matched rows and inserting all "
                f"others; send {name}={str(required).lower()}",
            )
    keys = parameters.get("on", [])
    if not keys:
        raise HTTPError(400, "the key columns are missing; name each with on=")
    twice = duplicates(keys)
    if twice:
        raise HTTPError(
            400,
            f"on: {list_names(twice)} more than once; name each key column once",
        )
    return keys


def check(keys: list[str], schema: pa.Schema, table: pa.Schema) -> None:
    """Refuse columns that do not fit, and keys that pylance 14 cannot match."""
    engine.check_fits(schema, table)
    for key in keys:
        if key not in table.names:
            raise HTTPError(
                400,
                f"key column {key!r:.200} is not in the table (it has {list_names(table.names)}); "
                "nothing was changed",
            )
        if key not in schema.names:
            raise HTTPError(
                400,
                f"key column {key!r:.200} is not in the stream; nothing was changed; send it",
            )
        if '"' in key:
            raise HTTPError(
                400,
                f"key column {key!r:.200} has a double quote in its name; nothing was changed; "
                "rename it",
            )
        arrow = table.field(key).type
        if not _can_be_key(arrow):
            raise HTTPError(
                400,
                f"column {key!r:.200} is {show_type(arrow)}, which cannot be a key; nothing was "
                "changed; use a column of whole numbers, text, dates, times, decimals, categories "
                "or UUIDs",
            )


def _can_be_key(arrow: pa.DataType) -> bool:
    if isinstance(arrow, pa.JsonType):
        return False
    plain = value_type(storage(arrow))
    return not any(test(plain) for test in _NO_KEYS)


def stage(
    folder: Path, keys: list[str], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> None:
    """Write the rows of a merge into staging; refuse null and duplicate keys."""
    rows = 0
    nbytes = 0
    # of each key, its values in each batch
    chunks: list[list[pa.Array]] = [[] for _ in keys]
    with pa.ipc.new_stream(str(folder / "rows"), schema) as writer:
        for batch in batches:
            for key, key_chunks in zip(keys, chunks, strict=True):
                column = _read_key(key, batch, rows)
                nbytes += compared_bytes(column)
                if nbytes > MAX_KEY_BYTES:
                    raise HTTPError(
                        413,
                        f"the keys of the rows take more than {format_bytes(MAX_KEY_BYTES)}; "
                        "nothing was changed; upsert fewer rows at once",
                    )
                key_chunks.append(compact(column))
            rows += batch.num_rows
            writer.write_batch(batch)
    if rows:
        _check_unique(keys, schema, [pa.chunked_array(one) for one in chunks])


def _read_key(key: str, batch: pa.RecordBatch, start: int) -> pa.Array:
    """Return a key column; refuse nulls."""
    column = batch.column(key)
    row = find_null(column)
    if row is not None:
        raise HTTPError(
            400,
            f"column {key!r:.200}, row {start + row}: a key must not be null; nothing was "
            "changed; fill it, or leave the row out",
        )
    return column


def _check_unique(
    keys: list[str], schema: pa.Schema, columns: list[pa.ChunkedArray]
) -> None:
    rows = find_equal(columns)
    if rows is None:
        return
    first, second = rows
    values = []
    for key, column in zip(keys, columns, strict=True):
        values.append(f"{key}={show_key(column, second, schema.field(key).type)}")
    raise HTTPError(
        400,
        f"rows {first} and {second} have the same key ({', '.join(values):.200}); nothing "
        "was changed; send one row for each key",
    )


def commit(staged: Path, keys: list[str], target: engine.Locked) -> dict[str, int]:
    """Merge staged rows into a table; return the new version and the counts."""
    table = compaction.merge_small(target)
    with pa.memory_map(str(staged / "rows")) as file:
        schema = pa.ipc.open_stream(file).schema
        try:
            check(keys, schema, table.schema)
        except HTTPError as error:
            raise HTTPError(
                409,
                f"the table's columns were changed while its rows were sent: {error}",
            ) from error
        file.seek(0)
        options = pa.ipc.IpcReadOptions(ensure_alignment=alignment(schema))
        # memory-mapped; pylance 14 joins a table, whose size it knows, faster than a
        # stream
        rows = pa.ipc.open_stream(file, options=options).read_all()
        with engine.as_http_errors():
            builder = table.merge_insert(keys)
            builder = builder.when_matched_update_all().when_not_matched_insert_all()
            transaction, counts = builder.execute_uncommitted(rows)
            numbers = {name: int(counts[name]) for name in _COUNTS}
            version = commits.commit(target.folder, table, transaction.operation)
    return {"version": version, **numbers}
