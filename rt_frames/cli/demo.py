"""The main job from end to end with one frame, ending with a comparison of every stored value."""

from __future__ import annotations

import datetime
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

    from rt_frames._client import Client


def calendar() -> pa.Table:
    """Make a table of the days of forty years: most kinds of columns, some with nulls."""
    day = pl.col("day")
    first = datetime.date(1990, 1, 1)
    begins = (day == day.dt.month_start()) & (day.dt.month() % 3 == 1)
    days = pl.DataFrame(
        {"day": pl.date_range(first, datetime.date(2029, 12, 31), eager=True)}
    ).with_columns(
        year=day.dt.year().cast(pl.Int64),
        week=day.dt.week(),
        weekday=day.dt.strftime("%A"),
        weekend=day.dt.weekday() > 5,
        month_end=pl.when(day == day.dt.month_end()).then(day),
        begins=pl.when(begins).then(pl.format("quarter {}", day.dt.quarter())),
        weeks_passed=(day - first).dt.total_days() / 7,
    )
    table = days.to_arrow(compat_level=pl.CompatLevel.oldest())
    place = table.schema.get_field_index("weekday")
    return table.set_column(place, "weekday", table["weekday"].dictionary_encode())


def run(path: Path | None, folder: Path, options: FileOptions) -> list[str]:
    """Do the main job with a file, or a calendar, as a frame of each library; say which tables differ from theirs."""
    table = calendar() if path is None else read_table(path, options)
    stem = (
        "calendar"
        if path is None
        else "".join(c if c.isalnum() and c.isascii() else "_" for c in path.stem)
    )
    wrong = []
    if kept := [
        f"{stem}_{library}"
        for library in ("pandas", "polars")
        if (folder / f"{stem}_{library}.lance").exists()
    ]:
        raise ValueError(
            f"{folder} has a table {kept[0]}; give another folder to --keep"
        )
    for library, frame in {
        "pandas": table.to_pandas(date_as_object=False),
        "polars": pl.from_arrow(table),
    }.items():
        click.secho(
            f"\n{library}: {frame.shape[0]:,} rows, {frame.shape[1]} columns", bold=True
        )
        difference = _run(frame, f"{stem}_{library}", folder)
        click.echo(difference or "every value read back with lance equals the frame's")
        wrong += [f"{stem}_{library}: {difference}"] if difference else []
    return wrong


def _show(line: str, result: Any) -> None:
    """Show a line of Python beside its result."""
    click.secho(f">>> {line}", fg="cyan")
    if result is not None:
        click.echo(str(result))


def _run(frame: Any, name: str, folder: Path) -> str | None:
    """Do the main job, and say what differs at last."""
    with connect(folder, default=False) as client:
        expected, full = _show_main_job(frame, name, folder, client)
    stored = lance.dataset(str(folder / f"{name}.lance")).to_table()
    if full is not None and stored.schema.field(full).nullable:
        return f"column {full!r} may still hold nulls"
    try:
        frames = (pl.DataFrame(table) for table in (stored, expected))
        assert_frame_equal(*frames, check_exact=True, categorical_as_str=True)
    except AssertionError as error:
        return str(error)
    return None


def _show_main_job(
    frame: Any, name: str, folder: Path, client: Client
) -> tuple[pa.Table, str | None]:
    """Create and alter a table; give what it holds then, and the column that no longer takes nulls."""
    where = folder if folder.is_absolute() else f"./{folder}"
    _show(f'client = rt.connect("{where}")', client)
    _show(f'df.remote.to_table("{name}")', frame.remote.to_table(name, client=client))
    _show("rt.list_tables()", client.list_tables())
    rename = {str(frame.columns[0]): f"{frame.columns[0]}_renamed"}
    after, line = _alter(frame, rename)
    _show(f"after = {line}", after.remote.schema)
    plan = after.remote.plan_alterations(frame, rename=rename)
    _show(f"after.remote.plan_alterations(df, rename={rename!r})", plan)
    table = after.remote.alter_table(name, frame, rename=rename, client=client)
    _show(f'after.remote.alter_table("{name}", df, rename={rename!r})', table)
    # through the library's own conversion, which this package does not use
    is_pandas = isinstance(after, pd.DataFrame)
    expected = (
        pa.Table.from_pandas(after, preserve_index=False)
        if is_pandas
        else after.to_arrow()
    )
    full = next(
        (
            column
            for column in expected.schema.names
            if len(expected) and not expected[column].null_count
        ),
        None,
    )
    if full is not None:
        table = client.table(name).set_nullable({full: False})
        _show(f'client.table("{name}").set_nullable({{"{full}": False}})', table)
    _show(f'lance.dataset("{folder / name}.lance")', None)
    return expected, full


def _alter(frame: Any, rename: dict[str, str]) -> tuple[Any, str]:
    """Rename columns, and return the first one of 64-bit integers half the width, where its values allow it."""
    is_pandas = isinstance(frame, pd.DataFrame)
    after: Any = frame.rename(columns=rename) if is_pandas else frame.rename(rename)
    line = f"df.rename({'columns=' if is_pandas else ''}{rename!r})"
    for name in after.columns:
        found = after[name]
        if (
            str(found.dtype).lower() == "int64"
            and found.count()
            and -(2**31) <= found.min() <= found.max() < 2**31
        ):
            if is_pandas:
                return after.astype(
                    {name: "int32"}
                ), f'{line}.astype({{"{name}": "int32"}})'
            return after.cast({name: pl.Int32}), f'{line}.cast({{"{name}": pl.Int32}})'
    return after, line
