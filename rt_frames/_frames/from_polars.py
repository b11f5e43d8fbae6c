"""A Polars frame → `Rows`, exported slice by slice as it lies in memory.

Polars keeps text as views. Arrow casts them, because Polars' own conversion is slower
and blocks the other threads of Python.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping

import polars as pl
import pyarrow as pa
from pyarrow import types

from rt_frames._frames.open_options import OpenOptions
from rt_frames._names import clean_names
from rt_frames._schema.data_type import contains
from rt_frames._schema.polars_dtype import polars_to_arrow
from rt_frames._schema.portable import unsupported
from rt_frames._stream.batching import Chunk
from rt_frames._stream.source import Rows
from rt_frames._threads import Worker, result
from rt_frames._values.refusals import Refusals
from rt_frames.errors import UnsupportedTypeError

# before 1.43, Polars exports sliced structs and arrays at an offset that the values
# inside them lack; its IPC writer is correct
_MISPLACES_SLICES = tuple(map(int, pl.__version__.split(".")[:2])) < (1, 43)


def open_frame(
    frame: pl.DataFrame | pl.LazyFrame, options: OpenOptions, refusals: Refusals
) -> Rows:
    """Open a frame in memory, or a query, which runs again for each reading."""
    frame = _cleaned(frame, options.clean)
    if isinstance(frame, pl.LazyFrame):
        schema = pa.schema(_query_types(frame, refusals))
        return Rows(schema, lambda: _run(frame), zero_copy=False)
    # frame.schema is slower
    dtypes = dict(zip(frame.columns, frame.dtypes, strict=True))
    types_by_name = _types(dtypes, refusals)
    # by id, as hashing types is slower
    distinct = {id(arrow): arrow for arrow in types_by_name.values()}
    is_copied = any(contains(arrow, _is_copied) for arrow in distinct.values())
    chunk = _chunk(frame)
    return Rows(
        pa.schema(types_by_name),
        lambda: [chunk],
        chunk.rows,
        chunk.nbytes,
        zero_copy=not is_copied,
    )


def arrow_schema(
    frame: pl.DataFrame | pl.LazyFrame, options: OpenOptions, refusals: Refusals
) -> pa.Schema:
    """Return the schema, without reading rows."""
    frame = _cleaned(frame, options.clean)
    if isinstance(frame, pl.LazyFrame):
        return pa.schema(_query_types(frame, refusals))
    return pa.schema(_types(frame.schema, refusals))


def _cleaned(
    frame: pl.DataFrame | pl.LazyFrame, clean: bool
) -> pl.DataFrame | pl.LazyFrame:
    if not clean:
        return frame
    names = frame.collect_schema().names()
    return frame.rename(dict(zip(names, clean_names(names), strict=True)))


def _is_copied(arrow: pa.DataType) -> bool:
    """Return whether Polars keeps such values as views, or with other codes."""
    is_text = types.is_large_string(arrow) or types.is_large_binary(arrow)
    return bool(is_text or types.is_dictionary(arrow))


def _types(
    schema: Mapping[str, pl.DataType], refusals: Refusals
) -> dict[str, pa.DataType]:
    types_by_name = dict.fromkeys(schema, pa.null())
    for name, dtype in schema.items():
        try:
            types_by_name[name] = polars_to_arrow(dtype, name)
        except UnsupportedTypeError as error:
            refusals.setdefault(name, error)
    return types_by_name


def _query_types(query: pl.LazyFrame, refusals: Refusals) -> dict[str, pa.DataType]:
    schema = query.collect_schema()
    for name, dtype in schema.items():
        # `scan` gives this dtype to columns that Polars cannot hold
        if isinstance(dtype, pl.Object):
            advice = "if it is of a table's scan(), send the table's to_arrow()"
            refusals.setdefault(name, unsupported(name, "Polars' Object", advice))
    return _types(schema, refusals)


def _chunk(frame: pl.DataFrame) -> Chunk:
    def make_batches(
        start: int, length: int, columns: list[str] | None
    ) -> pa.RecordBatchReader:
        rows = frame.slice(start, length)
        if columns is not None:
            # `select` takes ^a$ for a pattern
            rows = rows[columns]
        return _export(rows)

    return Chunk(frame.height, int(frame.estimated_size()), make_batches)


def _export(frame: pl.DataFrame) -> pa.RecordBatchReader:
    reader = pa.RecordBatchReader.from_stream(frame)
    if _MISPLACES_SLICES and any(map(_has_slices_inside, reader.schema.types)):
        written = frame.write_ipc_stream(None, compat_level=pl.CompatLevel.newest())
        return pa.ipc.open_stream(written.getbuffer())
    return reader


def _has_slices_inside(arrow: pa.DataType) -> bool:
    return contains(arrow, lambda t: types.is_struct(t) or types.is_fixed_size_list(t))


def _run(frame: pl.LazyFrame) -> Iterator[Chunk]:
    """Run a query on a thread of its own, one batch ahead.

    Not by `collect_batches`, which ends without an error if the engine panics (Polars
    2.1).
    """
    ready: queue.SimpleQueue[pl.DataFrame | None] = queue.SimpleQueue()
    go_on: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def take(batch: pl.DataFrame) -> bool:
        ready.put(batch)
        goes_on = go_on.get()
        if not goes_on:
            # for the batches in flight
            go_on.put(False)
        return not goes_on

    def run() -> None:
        try:
            frame.sink_batches(take, maintain_order=True, engine="streaming")
        finally:
            ready.put(None)

    with Worker("query") as worker:
        done = worker.submit(run)
        try:
            while (batch := ready.get()) is not None:
                go_on.put(True)
                yield _chunk(batch)
                del batch
            result(done)
        finally:
            go_on.put(False)
