"""A Polars frame → Arrow record batches, slice by slice: Polars keeps text in a layout of its own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rt_frames._frames.batches import check_names, rows_per_piece
from rt_frames._schema.dtype import to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl
    import pyarrow as pa


def arrow_schema(schema: pl.Schema) -> pa.Schema:
    """Give the portable schema, or say which column cannot be sent."""
    import pyarrow as pa

    check_names(schema.names())
    known: dict[pl.DataType, pa.DataType] = {}
    for name, dtype in schema.items():
        if dtype not in known:
            known[dtype] = to_arrow_type(dtype, name)
    return pa.schema([(name, known[dtype]) for name, dtype in schema.items()])


def is_ready(schema: pl.Schema) -> bool:
    """Tell whether all columns lie in memory as Arrow lays them out."""
    import pyarrow.types as is_

    views = (is_.is_large_string, is_.is_large_binary, is_.is_dictionary, is_.is_nested)
    return not any(is_view(arrow) for arrow in arrow_schema(schema).types for is_view in views)


def pieces(frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    """Export a frame slice by slice."""
    step = rows_per_piece(frame.height, int(frame.estimated_size()))
    for start in range(0, frame.height, step):
        yield from _to_arrow(frame.slice(start, step)).to_batches()


def lazy_pieces(frame: pl.LazyFrame) -> Iterator[pa.RecordBatch]:
    """Run a query with the streaming engine and export what it gives, in order."""
    results = frame.collect_batches(maintain_order=True, engine="streaming")
    stop = getattr(results, "stop", None)
    with contextlib.ExitStack() as stack:
        if stop is not None:
            stack.callback(stop)
        for batch in results:
            yield from pieces(batch)


def dictionaries(frame: pl.DataFrame) -> dict[str, pa.Array]:
    """Collect the categories in use; each slice alone would export only its own."""
    import polars as pl

    used = {
        name: frame.select(pl.col(name).drop_nulls().unique(maintain_order=True).cast(pl.String))
        for name, dtype in frame.schema.items()
        if isinstance(dtype, pl.Categorical)
    }
    return {name: _to_arrow(values).column(0).combine_chunks() for name, values in used.items()}


def _to_arrow(frame: pl.DataFrame) -> pa.Table:
    from polars import CompatLevel

    return frame.to_arrow(compat_level=CompatLevel.oldest())
