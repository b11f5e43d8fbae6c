"""Arrow data → a Polars frame. Errors name the columns that Polars cannot hold."""

from __future__ import annotations

from typing import cast

import polars as pl
import pyarrow as pa
from pyarrow import types

from rt_frames._frames.convert import Converter, Layout
from rt_frames._frames.refusals import Refusals
from rt_frames._schema.data_type import map_types, show_type
from rt_frames._text import one_line
from rt_frames.errors import UnsupportedTypeError


def to_polars(table: pa.Table, first_row: int = 0) -> pl.DataFrame:
    """Convert to a frame of the same values. Errors count rows from ``first_row``."""
    try:
        return _convert(table, first_row)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        # Polars panics
        refusals = Refusals()
        for field in table.schema:
            with refusals.recording(field.name):
                _check(table.select([field.name]), field, first_row)
        refusals.check(table.column_names, "read")
        raise


def _convert(table: pa.Table, first_row: int) -> pl.DataFrame:
    return cast("pl.DataFrame", pl.from_arrow(_without_seconds(table, first_row)))


def _without_seconds(table: pa.Table, first_row: int) -> pa.Table:
    """Cast timestamps and durations in seconds to milliseconds.

    Polars' own cast wraps large ones around.
    """
    fields = []
    changed = set()
    for field in table.schema:
        arrow = map_types(field.type, _in_milliseconds)
        fields.append(field.with_type(arrow))
        if arrow != field.type:
            changed.add(field.name)
    if not changed:
        return table
    schema = pa.schema(fields)
    convert = Converter(Layout(schema), changed)
    batches = []
    rows = first_row
    for batch in table.to_batches():
        batches.append(convert(batch, "", rows))
        rows += batch.num_rows
    return pa.Table.from_batches(batches, schema)


def _in_milliseconds(arrow: pa.DataType) -> pa.DataType:
    if types.is_timestamp(arrow) and arrow.unit == "s":
        return pa.timestamp("ms", arrow.tz)
    if types.is_duration(arrow) and arrow.unit == "s":
        return pa.duration("ms")
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
        text = f"column {field.name!r}: Polars cannot hold Arrow's {show_type(field.type)} ({one_line(reason, 200)})"
        raise UnsupportedTypeError(
            f"{text}; leave it out with columns=[…], or use to_arrow()"
        ) from None
