"""Arrow data → a Polars frame. Errors name the columns that Polars cannot hold."""

from __future__ import annotations

from typing import cast

import polars as pl
import pyarrow as pa
from pyarrow import types

from rt_frames._schema.data_type import (
    fixed_size,
    iter_fields,
    map_types,
    show_type,
    storage,
)
from rt_frames._schema.polars_dtype import polars_to_arrow
from rt_frames._text import one_line
from rt_frames._values.convert import Converter
from rt_frames._values.metadata import without_metadata
from rt_frames._values.plan import Column, Plan
from rt_frames._values.refusals import Refusals
from rt_frames.errors import UnsupportedTypeError

_HAS_EXTENSIONS = hasattr(pl, "BaseExtension")
_MAX_NULL_ITEMS = 2**16
_HAS_MAPS = hasattr(pl, "Map")


def to_polars(table: pa.Table, first_row: int = 0) -> pl.DataFrame:
    """Convert to a frame of the same values. Errors count rows from ``first_row``."""
    if table.num_columns and not table.num_rows and _null_rows(table.schema):
        return null_row(table.schema).clear()
    refusals = Refusals()
    for field in table.schema:
        # Polars panics, which prints lines to stderr (Polars 2.1)
        if any(
            types.is_decimal256(inside.type) for _, inside, _ in iter_fields([field])
        ):
            refusals[field.name] = _refusal(field)
    refusals.check(table.column_names, "read")
    try:
        return _convert(table, first_row)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        # Polars panics (Polars 2.1)
        for field in table.schema:
            try:
                _check(table.select([field.name]), field, first_row)
            except UnsupportedTypeError as error:
                refusals.setdefault(field.name, error)
        refusals.check(table.column_names, "read")
        raise


def null_row(schema: pa.Schema) -> pl.DataFrame:
    """Convert a row of nulls: without rows, Polars 2.1 takes types that it refuses."""
    rows = _null_rows(schema)
    nulls = [pa.nulls(rows, field.type) for field in without_metadata(schema)]
    return to_polars(pa.table(nulls, schema.names))


def _null_rows(schema: pa.Schema) -> int:
    """Return how many rows of nulls a conversion is tried with: one, if it is small.

    A null of a fixed-size list takes the space of all its items.
    """
    sizes = [fixed_size(field.type) for _, field, _ in iter_fields(schema)]
    widest = max(sizes, default=0)
    return 1 if widest <= _MAX_NULL_ITEMS else 0


def _convert(table: pa.Table, first_row: int) -> pl.DataFrame:
    return cast("pl.DataFrame", pl.from_arrow(_for_polars(table, first_row)))


def read_type(arrow: pa.DataType) -> pa.DataType | None:
    """Return the type in which Polars sends what it reads as a type, if it can."""
    try:
        column = null_row(pa.schema([("c", arrow)])).to_series()
        return polars_to_arrow(column.dtype, "c")
    except UnsupportedTypeError:
        return None


def _for_polars(table: pa.Table, first_row: int) -> pa.Table:
    """Cast columns that Polars refuses or reads wrongly to types that it reads."""
    fields = []
    casts = {}
    for field in table.schema:
        arrow = map_types(field.type, _read_as)
        fields.append(field.with_type(arrow))
        if arrow != field.type:
            casts[field.name] = Column(field.name, cast=True)
    if not casts:
        return table
    schema = pa.schema(fields)
    convert = Converter(Plan(schema, casts))
    batches = []
    rows = first_row
    for batch in table.to_batches():
        batches.append(convert(batch, "", rows))
        rows += batch.num_rows
    return pa.Table.from_batches(batches, schema)


def _read_as(arrow: pa.DataType) -> pa.DataType:
    # Polars' own cast of seconds wraps large ones around (Polars 2.1)
    if types.is_timestamp(arrow) and arrow.unit == "s":
        return pa.timestamp("ms", arrow.tz)
    if types.is_duration(arrow) and arrow.unit == "s":
        return pa.duration("ms")
    # Polars 1.35 refuses extension types, or panics
    if not _HAS_EXTENSIONS:
        arrow = storage(arrow)
    # Polars 1.35 reads a null map as an empty list
    if types.is_map(arrow) and not _HAS_MAPS:
        fields = [arrow.key_field.with_name("key"), arrow.item_field.with_name("value")]
        return pa.list_(pa.struct(fields))
    return arrow


def _check(column: pa.Table, field: pa.Field, first_row: int) -> None:
    try:
        _convert(column, first_row)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001  # Polars panics
        # of a cast, the row and the value: the column is named already, and no value
        # can be corrected here
        reason = (
            str(error)
            .removeprefix(f"column {field.name!r}, ")
            .partition("; correct the value")[0]
        )
        raise _refusal(field, f" ({one_line(reason, 200)})") from None


def _refusal(field: pa.Field, reason: str = "") -> UnsupportedTypeError:
    text = f"column {field.name!r}: Polars cannot hold Arrow's {show_type(field.type)}{reason}"
    return UnsupportedTypeError(
        f"{text}; leave it out with columns=[…], or use to_arrow()"
    )
