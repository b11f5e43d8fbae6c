"""A Polars frame → a `Source`; it is exported slice by slice, since Polars keeps text in a layout of its own."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.types as is_

from rt_frames._frames.source import Chunk, Source
from rt_frames._schema.dtype import to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator


def open_polars(frame: pl.DataFrame) -> Source:
    """Open a frame in memory."""
    schema, chunk = arrow_schema(frame.schema), _chunk(frame)
    copied = (is_.is_large_string, is_.is_large_binary, is_.is_dictionary, is_.is_nested)
    return Source(
        schema,
        lambda: [chunk],
        chunk.rows,
        chunk.nbytes,
        zero_copy=not any(is_copied(arrow) for arrow in schema.types for is_copied in copied),
        dictionaries=functools.cache(lambda: _categories(frame)),
    )


def open_lazy(frame: pl.LazyFrame) -> Source:
    """Open a query; the streaming engine runs it anew each time."""
    return Source(arrow_schema(frame.collect_schema()), lambda: _run(frame), zero_copy=False)


def arrow_schema(schema: pl.Schema) -> pa.Schema:
    """Give the portable schema, or say which column is not supported."""
    known: dict[pl.DataType, pa.DataType] = {}
    fields = []
    for name, dtype in schema.items():
        if dtype.is_nested():  # Polars cannot hash one of many levels
            fields.append((name, to_arrow_type(dtype, name)))
            continue
        if dtype not in known:
            known[dtype] = to_arrow_type(dtype, name)
        fields.append((name, known[dtype]))
    return pa.schema(fields)


def _chunk(frame: pl.DataFrame) -> Chunk:
    return Chunk(
        frame.height,
        int(frame.estimated_size()),
        lambda start, length: _to_arrow(frame.slice(start, length)).to_batches(),
    )


def _run(frame: pl.LazyFrame) -> Iterator[Chunk]:
    results = frame.collect_batches(maintain_order=True, engine="streaming")
    with contextlib.ExitStack() as stack:
        if stop := getattr(results, "stop", None):
            stack.callback(stop)
        yield from map(_chunk, results)


def _categories(frame: pl.DataFrame) -> dict[str, pa.Array]:
    """Collect the categories in use; each slice alone would export only its own."""
    used = {
        name: frame.select(pl.col(name).drop_nulls().unique(maintain_order=True).cast(pl.String))
        for name, dtype in frame.schema.items()
        if isinstance(dtype, pl.Categorical)
    }
    return {name: _to_arrow(values).column(0).combine_chunks() for name, values in used.items()}


def _to_arrow(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
