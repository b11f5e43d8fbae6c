"""What Lance is asked to do, and what its failures mean.

Lance has threads of its own: a process must not fork and go on using it. Its panics arrive as BaseException.
"""

from __future__ import annotations

import contextlib
import errno
import re
from typing import TYPE_CHECKING, Any

from rt_frames._prefetch import prefetch
from rt_frames.local.alter_request import Change, changes_in, find, said
from rt_frames.local.http_error import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

PAGE = 2 * 2**20  # bytes of a column that make a page; what the engine collects for larger ones, it copies first
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS)
_FAMILIES = (
    "the engine casts only inside a kind: integers, floats, decimals, text, binary, dates and timestamps, times, "
    "durations, and lists of one"
)
_TWO_REQUESTS = "the engine does not do all of it in one request; send two: casts first, then names and nullability"

# part of the engine's message → what it means
_REASONS = {
    "Cannot cast column": _FAMILIES,
    "Merge operation": _TWO_REQUESTS,
    "non-nullable and cast": _TWO_REQUESTS,
    "Cannot access field": "the engine cannot look for nulls inside lists; what is inside them stays nullable",
    "contains NULL values": "the column holds nulls; it stays nullable until they are gone",
}


class Conflict(Exception):  # it is tried again, and no error
    """Another process changed the table in the meantime."""


def write(folder: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Write a new table, look at it, and give its version."""
    import lance
    import pyarrow as pa

    seen = _Seen(batches)
    try:
        reader = pa.RecordBatchReader.from_batches(schema, seen)
        lance.write_dataset(reader, str(folder), data_cache_bytes=PAGE)
        return look_at(folder, seen.rows)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if isinstance(seen.error, Problem):
            raise seen.error from None
        raise failure(seen.error or error, "the table could not be stored") from error


class _Seen:
    """Batches on their way to the engine: counted, and their own error kept, which the engine words anew."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with contextlib.closing(prefetch(self._batches, steps=2)) as coming:
            try:
                for batch in coming:
                    self.rows += batch.num_rows
                    yield batch
            except Exception as error:
                self.error = error
                raise


def look_at(folder: Path, rows: int | None = None) -> int:
    """Open a table and read of it, so that none is published that cannot be read."""
    import lance

    dataset = lance.dataset(str(folder))
    count = dataset.count_rows()
    if rows is not None and count != rows:
        raise Problem(500, f"{rows} rows were written and {count} can be read")
    if count:
        dataset.take([0, count - 1])
    return int(dataset.version)


def alter(folder: Path, body: bytes) -> int:
    """Apply the changes that a request asks for, all or none, and give the new version."""
    import lance

    dataset: Any = lance.dataset(str(folder))
    schema, before = dataset.schema, dataset.version
    changes = changes_in(body, schema)
    _check_dates(dataset, changes)
    try:
        dataset.alter_columns(*changes)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if "commit conflict" in str(error).lower():
            raise Conflict from error
        raise failure(error, f"nothing was changed, {said(changes, schema)}") from error
    return _looked_at(folder, before, dataset.version, said(changes, schema))


def _looked_at(folder: Path, before: int, after: int, what: str) -> int:
    """Go back, where a change that the engine made left a table that cannot be read."""
    import lance

    try:
        return look_at(folder)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if lance.dataset(str(folder)).latest_version == after:
            old: Any = lance.dataset(str(folder), version=before)
            old.restore()
        raise failure(error, f"the change was taken back, the table could not be read after it, {what}") from error


def _check_dates(dataset: Any, changes: list[Change]) -> None:
    """Refuse dates that a timestamp cannot hold; the engine would store other ones without a word."""
    import pyarrow as pa

    for change in changes:
        fields = find(dataset.schema, change["path"])
        old, new = _innermost(fields[-1].type), _innermost(change.get("data_type", pa.null()))
        if pa.types.is_date(old) and pa.types.is_timestamp(new):
            steps = [field.name for field in fields[1:]]
            for batch in dataset.to_batches(columns=[fields[0].name]):
                try:
                    _values(batch.column(0), steps).cast(pa.timestamp(new.unit))
                except pa.ArrowInvalid as error:
                    raise Problem(400, f"{said([change], dataset.schema)}: {error}; choose a coarser unit") from None


def _innermost(arrow: pa.DataType) -> pa.DataType:
    import pyarrow.types as is_

    while is_.is_list(arrow) or is_.is_large_list(arrow) or is_.is_fixed_size_list(arrow):
        arrow = arrow.value_type
    return arrow


def _values(array: Any, steps: list[str]) -> Any:
    """Go down to the values that a path means, through structs by name and through lists of any kind."""
    import pyarrow.types as is_

    while is_.is_nested(array.type):
        if is_.is_struct(array.type):
            array = array.flatten()[array.type.get_field_index(steps.pop(0))]
        else:
            array, steps = array.flatten(), steps[1:]
    return array


def failure(error: BaseException, what: str) -> Problem:
    """Say what a failure of the engine or of the disk means to who asked."""
    text = str(error)
    number = re.search(r"\(os error (\d+)\)", text)
    if getattr(error, "errno", None) in _NO_ROOM or (number and int(number[1]) in _NO_ROOM):
        return Problem(507, f"{what}: the disk is full or cannot be written to; make room and try again")
    for part, reason in _REASONS.items():
        if part in text:
            return Problem(400, f"{what}: {reason}")
    return Problem(400, f"{what}: the engine says {_first_words(error)!r}")


def _first_words(error: BaseException) -> str:
    """Keep the engine's reason, without the places in its source."""
    text = re.split(r",? ?(?:/[^ ]*)?/?rust/[^ ]*\.rs", str(error) or type(error).__name__)[0]
    return " ".join(text.split())[:300].rstrip(" ,:")
