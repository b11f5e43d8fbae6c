"""A table → a `polars.LazyFrame`, which requests rows when a query needs them."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from rt_frames import errors
from rt_frames._frames.expressions import flatten, recognised
from rt_frames._frames.to_polars import null_row, to_polars
from rt_frames._schema.leaves import Condition
from rt_frames._text import show_value
from rt_frames._values.metadata import PlainRows

Read = Callable[[list[str], list[Condition], int | None], PlainRows]


def scan(schema: pa.Schema, read: Read) -> pl.LazyFrame:
    """Return a lazy frame. Each run reads only the columns that it needs.

    Parameters
    ----------
    schema : pyarrow.Schema
        All columns.
    read : callable
        Opens the named columns, of the rows that fulfil some conditions, or at most a
        number of rows. More rows than those are harmless.
    """
    wanted = _to_polars_schema(schema)

    def source(
        columns: list[str] | None,
        predicate: pl.Expr | None,
        limit: int | None,
        _batch_rows: int | None,
    ) -> Iterator[pl.DataFrame]:
        # a table may have more columns by now
        names = wanted.names() if columns is None else columns
        # one column, to count the rows
        names = names or wanted.names()[:1]
        if predicate is not None:
            predicate = _without_dynamic(predicate)
        if limit == 0:
            return
        conditions = []
        # Polars applies the limit before the predicate
        if predicate is not None and limit is None:
            conditions = recognised(predicate, schema)
        with contextlib.closing(read(names, conditions, limit)) as batches:
            # also of a table without rows, which yields no frame to convert
            _check_schema(null_row(batches.schema).schema, wanted)
            rows = 0
            for batch in batches:
                frame = to_polars(pa.Table.from_batches([batch]), rows)
                rows += batch.num_rows
                yield frame if predicate is None else frame.filter(predicate)

    # of a pure source that is used twice, Polars 2.0 and 2.1 lose filters
    return register_io_source(source, schema=wanted, is_pure=False)


def _to_polars_schema(schema: pa.Schema) -> pl.Schema:
    """Return the schema that `to_polars` gives.

    Columns that it refuses raise when they are read.
    """
    try:
        return null_row(schema).schema
    except errors.UnsupportedTypeError as error:
        refused = error.columns
    held = pa.schema([field for field in schema if field.name not in refused])
    dtypes = null_row(held).schema
    return pl.Schema({name: dtypes.get(name, pl.Object()) for name in schema.names})


def _without_dynamic(predicate: pl.Expr) -> pl.Expr | None:
    """Remove the dynamic part that Polars 1.40 to 1.43 adds to a predicate.

    In a query for the first of sorted rows, Polars adds a condition for rows that may
    be among them, which frames cannot evaluate. Sources need not apply it.
    """
    parts = flatten(predicate, operator.and_)
    kept = [part for part in parts if not _is_dynamic(part)]
    if len(kept) == len(parts):
        return predicate
    return functools.reduce(operator.and_, kept) if kept else None


def _is_dynamic(part: pl.Expr) -> bool:
    inside = part.meta.pop()
    if len(inside) != 1 or not inside[0].meta.is_column():
        return False
    # without a value, which Polars may be unable to print
    return "dynamic_pred" in str(part)


def _check_schema(found: pl.Schema, wanted: pl.Schema) -> None:
    """Raise if types have changed since `scan`, which Polars may not notice."""
    for name, dtype in found.items():
        if dtype != wanted[name]:
            raise errors.AlterationError(
                f"column {show_value(name)} is {dtype} now, but was {wanted[name]} when "
                "scan() was called; call scan() again"
            )
