"""The main job from end to end with one frame, ending with a look at every stored value."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import lance
import pandas as pd
import polars as pl
import pyarrow as pa

from rt_frames import _api
from rt_frames.cli.files import read_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def calendar() -> dict[str, Any]:
    """Make the days of forty years a frame of each library: most kinds of columns, some with nulls."""
    first, end = datetime.date(1990, 1, 1), datetime.date(2030, 1, 1)
    days = [datetime.date.fromordinal(number) for number in range(first.toordinal(), end.toordinal())]
    columns = {
        "day": days,
        "year": [day.year for day in days],
        "week": [day.isocalendar().week for day in days],
        "weekday": [day.strftime("%A") for day in days],
        "weekend": [day.isoweekday() > 5 for day in days],
        "month_end": [day if (day + datetime.timedelta(days=1)).day == 1 else None for day in days],
        "begins": [f"quarter {day.month // 3 + 1}" if day.month % 3 == day.day == 1 else None for day in days],
        "weeks_passed": [(day - first).days / 7 for day in days],
    }
    frame = pd.DataFrame(columns)
    return {
        "pandas": frame.assign(day=pd.to_datetime(frame["day"]), weekday=frame["weekday"].astype("category")),
        "polars": pl.DataFrame(columns).with_columns(pl.col("weekday").cast(pl.Categorical)),
    }


def of_file(path: Path) -> dict[str, Any]:
    """Read a file as a frame of each library."""
    table = read_table(path)
    return {"pandas": table.to_pandas(), "polars": pl.from_arrow(table)}


def run(frame: Any, name: str, folder: Path, show: Callable[[str, Any], None]) -> list[str]:
    """Do the main job, show each line of Python beside its result, and give the differences that were found at last."""
    client = _api.connect(folder, default=False)
    show(f'client = rt.connect("{folder}")', client)
    show(f'df.remote.to_table("{name}")', frame.remote.to_table(name, client=client))
    show("rt.list_tables()", client.list_tables())
    rename = {str(frame.columns[0]): f"{frame.columns[0]}_renamed"}
    is_pandas = isinstance(frame, pd.DataFrame)
    after, line = _alter_pandas(frame, rename) if is_pandas else _alter_polars(frame, rename)
    show(f"after = {line}", after.remote.schema)
    plan = after.remote.plan_alterations(frame, rename=rename)
    show(f"after.remote.plan_alterations(df, rename={rename!r})", plan)
    table = after.remote.alter_table(name, frame, rename=rename, client=client)
    show(f'after.remote.alter_table("{name}", df, rename={rename!r})', table)
    # by the library's own way, which this package does not take
    expected = pa.Table.from_pandas(after, preserve_index=False) if is_pandas else after.to_arrow()
    full = next((column for column in expected.schema.names if len(expected) and not expected[column].null_count), None)
    if full is not None:
        table = client.table(name).set_nullable({full: False})
        show(f'client.table("{name}").set_nullable({{"{full}": False}})', table)
    show(f'lance.dataset("{folder / name}.lance")', None)
    return _differences(lance.dataset(str(folder / f"{name}.lance")).to_table(), expected, full)


_PANDAS_WIDTHS = {"int64": "int32", "int32": "int64", "float32": "float64"}
_PANDAS_WIDTHS |= {"Int64": "Int32", "Int32": "Int64", "Float32": "Float64"}
_POLARS_WIDTHS: dict[Any, Any] = {pl.Int64: pl.Int32, pl.Int32: pl.Int64, pl.Float32: pl.Float64}
_INT32 = -(2**31), 2**31 - 1


def _alter_pandas(frame: pd.DataFrame, rename: dict[str, str]) -> tuple[Any, str]:
    """Rename columns, and give the first numbers whose values allow it another width."""
    after, line = frame.rename(columns=rename), f"df.rename(columns={rename!r})"
    for column, values in after.items():
        dtype = _PANDAS_WIDTHS.get(values.dtype.name)
        if dtype and (dtype.lower() != "int32" or values.between(*_INT32).all()):
            return after.astype({column: dtype}), f'{line}.astype({{"{column}": "{dtype}"}})'
    return after, line


def _alter_polars(frame: pl.DataFrame, rename: dict[str, str]) -> tuple[Any, str]:
    """As `_alter_pandas`."""
    after, line = frame.rename(rename), f"df.rename({rename!r})"
    for values in after.get_columns():
        dtype = _POLARS_WIDTHS.get(values.dtype)
        if dtype and (dtype != pl.Int32 or values.is_between(*_INT32).all()):
            return after.cast({values.name: dtype}), f'{line}.cast({{"{values.name}": pl.{dtype}}})'
    return after, line


def _differences(stored: pa.Table, expected: pa.Table, full: str | None) -> list[str]:
    """Compare a table that Lance read with a frame's columns, value by value."""
    if stored.schema.names != expected.schema.names:
        return [f"columns {stored.schema.names!r}, expected {expected.schema.names!r}"]
    found = [f"{len(stored)} rows, expected {len(expected)}"] if len(stored) != len(expected) else []
    if full is not None and stored.schema.field(full).nullable:
        found.append(f"column {full!r} may still hold nulls")
    return found + [f"column {name!r}" for name in stored.schema.names if not _equal(stored[name], expected[name])]


def _equal(stored: pa.ChunkedArray, expected: pa.ChunkedArray) -> bool:
    kind = expected.type.value_type if pa.types.is_dictionary(expected.type) else expected.type
    one, other = stored.cast(kind), expected.cast(kind)
    return bool(one.equals(other)) or pl.Series(one).equals(pl.Series(other))  # where NaN equals itself
