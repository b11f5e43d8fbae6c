"""A table, a stream of batches or a dataset of Arrow → `Rows`, without copying."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from rt_frames._names import clean_names
from rt_frames._stream.batching import Chunk, nbytes
from rt_frames._stream.source import Rows
from rt_frames.errors import UnsupportedTypeError

if TYPE_CHECKING:
    import pyarrow.dataset as ds

# some readers still yield rows after close()
_READ_FROM: weakref.WeakSet[pa.RecordBatchReader] = weakref.WeakSet()


def open_table(table: pa.Table, clean: bool) -> Rows:
    """Open a table, of which each chunk may have its own dictionaries."""
    if clean:
        table = table.rename_columns(clean_names(table.column_names))
    size = nbytes(table, exact=False)
    # slices of one buffer would each count all of it
    chunks = [
        to_chunk(batch, size=size * batch.num_rows // table.num_rows)
        for batch in table.to_batches()
    ]
    return Rows(table.schema, lambda: chunks, table.num_rows, size)


def open_reader(reader: pa.RecordBatchReader, clean: bool) -> Rows:
    """Open a stream of batches.

    Once reading has begun, the thread that reads it closes it.
    """
    if reader in _READ_FROM:
        raise ValueError(
            "data: an earlier call has already read from this reader; create a new one"
        )
    schema = clean_schema(reader.schema, clean)
    names = schema.names if clean else None

    def chunks() -> Iterator[Chunk]:
        _READ_FROM.add(reader)
        with contextlib.closing(reader):
            try:
                yield from _chunks(reader, names)
            except pa.ArrowInvalid as error:
                if "non-zero null count" not in str(error):
                    raise
                raise UnsupportedTypeError(
                    "data: the stream has rows that are null as a whole; leave them out"
                ) from error

    def close() -> None:
        if reader not in _READ_FROM:
            reader.close()

    return Rows(schema, chunks, replayable=False, close=close)


@dataclass(frozen=True)
class Readable:
    """Rows that can be read more than once."""

    read: Callable[[], pa.RecordBatchReader]


def open_readable(data: Readable, clean: bool) -> Rows:
    """Open rows that are requested again for each reading.

    The first response has the schema.
    """
    first = open_reader(data.read(), clean)
    unread = [first]

    def chunks() -> Iterable[Chunk]:
        rows = unread.pop() if unread else open_reader(data.read(), clean)
        return rows.chunks()

    def close() -> None:
        for rows in unread:
            rows.close()

    return replace(first, chunks=chunks, replayable=True, close=close)


def open_dataset(dataset: ds.Dataset, clean: bool) -> Rows:
    """Open a dataset, which can be read again and again."""
    schema = clean_schema(dataset.schema, clean)
    names = schema.names if clean else None

    def chunks() -> Iterator[Chunk]:
        return _chunks(
            dataset.to_batches(batch_readahead=4, fragment_readahead=1), names
        )

    return Rows(schema, chunks, zero_copy=False)


def clean_schema(schema: pa.Schema, clean: bool) -> pa.Schema:
    """Return the schema with cleaned names, if the caller wants that."""
    if not clean:
        return schema
    names = clean_names(schema.names)
    return pa.schema(
        [field.with_name(name) for field, name in zip(schema, names, strict=True)]
    )


def _chunks(
    batches: Iterable[pa.RecordBatch], names: list[str] | None
) -> Iterator[Chunk]:
    for batch in batches:
        yield to_chunk(batch if names is None else batch.rename_columns(names))
        del batch


def to_chunk(batch: pa.RecordBatch, size: int | None = None) -> Chunk:
    """Make a chunk of a batch. Its slices are views."""

    def make_batches(
        start: int, length: int, columns: list[str] | None
    ) -> list[pa.RecordBatch]:
        rows = batch
        if length != batch.num_rows:
            rows = batch.slice(start, length)
        if columns is not None:
            rows = rows.select(columns)
        return [rows]

    if size is None:
        size = nbytes(batch, exact=False)
    return Chunk(batch.num_rows, size, make_batches)
