"""Arrow data → a `Source`: a table, a stream of batches, or a dataset. Nothing is copied."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from rt_frames._frames.source import Chunk, Source, nbytes
from rt_frames._schema.portable import is_portable, to_portable

if TYPE_CHECKING:
    import pyarrow.dataset as ds


def open_table(table: pa.Table) -> Source:
    """Open a table; its chunks may have different dictionaries, whose values are known beforehand."""
    return Source(
        table.schema,
        lambda: _chunks(table.to_batches()),
        table.num_rows,
        nbytes(table),
        dictionaries=functools.cache(lambda: _dictionaries(table)),
    )


def open_reader(reader: pa.RecordBatchReader) -> Source:
    """Open a stream of batches; from the first on, it is closed where it is read, which may be on another thread."""
    begun = False

    def chunks() -> Iterator[Chunk]:
        nonlocal begun
        begun = True
        with contextlib.closing(reader):
            yield from _chunks(reader)

    def close() -> None:
        if not begun:
            reader.close()

    return Source(reader.schema, chunks, replayable=False, close=close)


def open_dataset(dataset: ds.Dataset) -> Source:
    """Open a dataset, which is read anew each time."""

    def chunks() -> Iterator[Chunk]:
        return _chunks(dataset.to_batches(batch_readahead=4, fragment_readahead=1))

    return Source(dataset.schema, chunks, zero_copy=False)


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
    return map(_chunk, batches)


def _chunk(batch: pa.RecordBatch) -> Chunk:
    return Chunk(batch.num_rows, nbytes(batch), lambda start, length, names: [batch.slice(start, length).select(names)])


def _dictionaries(table: pa.Table) -> dict[str, pa.Array]:
    columns = zip(table.column_names, table.columns, strict=True)
    coded = {n: c for n, c in columns if types.is_dictionary(c.type) and is_portable(c.type.value_type)}
    return {
        name: pa.concat_arrays([chunk.dictionary for chunk in column.chunks]).unique()
        for name, column in coded.items()
        if column.num_chunks > 1 and types.is_dictionary(to_portable(column.type))
    }
