"""``rt-frames demo``: create and alter a table, then compare every stored value."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

import click
import lance
import pandas as pd
import polars as pl
import pyarrow as pa
from polars.testing import assert_frame_equal

from rt_frames._connect import connect
from rt_frames.cli.files import read_table
from rt_frames.cli.input_file import FileOptions

if TYPE_CHECKING:
    from pathlib import Path

    from rt_frames._client import Client, RemoteTable


def calendar() -> pa.Table:
    """Make a table of the days of forty years, with most types of columns."""
    first = datetime.date(1990, 1, 1)
    last = datetime.date(2029, 12, 31)
    day = pl.col("day")
    columns = {
        "year": day.dt.year().cast(pl.Int64),
        "week": day.dt.week(),
        "weekday": day.dt.strftime("%A"),
        "weekend": day.dt.weekday() > 5,
        "month_end": pl.when(day == day.dt.month_end()).then(day),
        "begins": pl.when(day.dt.day() == 1).then(day.dt.strftime("%B")),
        "weeks_passed": (day - first).dt.total_days() / 7,
    }
    days = pl.DataFrame({"day": pl.date_range(first, last, eager=True)})
    days = days.with_columns(**columns)
    table = days.to_arrow(compat_level=pl.CompatLevel.oldest())
    # pandas reads only signed codes; older versions of Polars export unsigned ones
    categories = table["weekday"].dictionary_encode()
    index = table.schema.get_field_index("weekday")
    return table.set_column(index, "weekday", categories)


def run(path: Path | None, folder: Path, options: FileOptions) -> list[str]:
    """Store and alter a file or the calendar, as a pandas and as a Polars frame.

    Returns a line for each table that differs from its frame.
    """
    if path is None:
        stem = "calendar"
        table = calendar()
    else:
        stem = re.sub("[^0-9A-Za-z]", "_", path.stem)
        table = read_table(path, options)
    frames = {
        f"{stem}_pandas": table.to_pandas(date_as_object=False),
        f"{stem}_polars": pl.from_arrow(table),
    }
    for name in frames:
        if (folder / f"{name}.lance").exists():
            raise ValueError(
                f"{folder} already has table {name!r}; pass another folder to --keep"
            )
    differences = []
    for name, frame in frames.items():
        library = name.rpartition("_")[2]
        rows, columns = frame.shape
        click.secho(f"\n{library}: {rows:,} rows, {columns} columns", bold=True)
        difference = _run(frame, name, folder)
        if difference:
            differences.append(f"{name}: {difference}")
        click.echo(difference or "every value read back with lance equals the frame's")
    return differences


def _show(line: str, result: Any) -> None:
    """Print a line of Python and its result."""
    click.secho(f">>> {line}", fg="cyan")
    if result is not None:
        click.echo(str(result))


def _run(frame: Any, name: str, folder: Path) -> str | None:
    """Store and alter one frame. Return how the table differs from it, or None."""
    with connect(folder, default=False) as client:
        after = _show_main_job(frame, name, folder, client)
        # the libraries' own conversions: the package must not check itself
        if isinstance(after, pd.DataFrame):
            expected = pa.Table.from_pandas(after, preserve_index=False)
        else:
            expected = after.to_arrow()
        required = _forbid_nulls(expected, client.table(name))
    _show(f'lance.dataset("{folder / name}.lance")', None)
    stored = lance.dataset(str(folder / f"{name}.lance")).to_table()
    if required is not None and stored.schema.field(required).nullable:
        return f"column {required!r} is still nullable"
    try:
        assert_frame_equal(
            pl.DataFrame(stored),
            pl.DataFrame(expected),
            check_exact=True,
            categorical_as_str=True,
        )
    except AssertionError as error:
        return str(error)
    return None


def _show_main_job(frame: Any, name: str, folder: Path, client: Client) -> Any:
    """Create and alter a table. Return a frame with its expected values."""
    target = folder if folder.is_absolute() else f"./{folder}"
    _show(f'client = rt.connect("{target}")', client)
    _show(f'df.remote.to_table("{name}")', frame.remote.to_table(name, client=client))
    _show("rt.list_tables()", client.list_tables())
    first = str(frame.columns[0])
    rename = {first: f"{first}_renamed"}
    after, line = _alter(frame, rename)
    _show(f"after = {line}", after.remote.schema)
    plan = after.remote.plan_alterations(frame, rename=rename)
    _show(f"after.remote.plan_alterations(df, rename={rename!r})", plan)
    table = after.remote.alter_table(name, frame, rename=rename, client=client)
    _show(f'after.remote.alter_table("{name}", df, rename={rename!r})', table)
    return after


def _alter(frame: Any, rename: dict[str, str]) -> tuple[Any, str]:
    """Rename columns, and cast the first int64 column that fits to int32.

    Returns the new frame, and the line of Python that makes it.
    """
    is_pandas = isinstance(frame, pd.DataFrame)
    if is_pandas:
        after: Any = frame.rename(columns=rename)
        line = f"df.rename(columns={rename!r})"
    else:
        after = frame.rename(rename)
        line = f"df.rename({rename!r})"
    for name in after.columns:
        column = after[name]
        if str(column.dtype).lower() != "int64" or not column.count():
            continue
        if column.min() < -(2**31) or column.max() >= 2**31:
            continue
        if is_pandas:
            narrow = after.astype({name: "int32"})
            return narrow, f'{line}.astype({{"{name}": "int32"}})'
        narrow = after.cast({name: pl.Int32})
        return narrow, f'{line}.cast({{"{name}": pl.Int32}})'
    return after, line


def _forbid_nulls(rows: pa.Table, table: RemoteTable) -> str | None:
    """Forbid nulls in the first column without nulls. Return its name, or None."""
    for name in rows.column_names:
        if rows.num_rows and not rows[name].null_count:
            line = f'client.table("{table.name}").set_nullable({{"{name}": False}})'
            _show(line, table.set_nullable({name: False}))
            return str(name)
    return None
