"""The main job from end to end, once with pandas and once with Polars, ending with a look at every stored value."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rt_frames import _api
from rt_frames._frames.any_frame import arrow_schema, open_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Step(NamedTuple):
    """A line of Python as its user would write it, and what came back."""

    line: str
    result: Any


def calendar(first: int = 1990, last: int = 2029) -> dict[str, list[Any]]:
    """Make a table of days: what a calendar says, and how old the moon is."""
    day, days = datetime.date(first, 1, 1), []
    while day.year <= last:
        days.append(day)
        day += datetime.timedelta(days=1)
    new_moon, month = datetime.date(2000, 1, 6).toordinal() + 0.76, 29.530588853
    ages = [(d.toordinal() - new_moon) % month for d in days]
    return {
        "day": days,
        "year": [d.year for d in days],
        "week": [d.isocalendar().week for d in days],
        "weekday": [d.strftime("%A") for d in days],
        "weekend": [d.isoweekday() > 5 for d in days],
        "month_end": [d if (d + datetime.timedelta(days=1)).day == 1 else None for d in days],
        "leap_day": ["29 February" if (d.month, d.day) == (2, 29) else None for d in days],
        "moon_age": ages,
        "moonlight": [(1 - math.cos(2 * math.pi * age / month)) / 2 for age in ages],
    }


def calendar_pandas() -> pd.DataFrame:
    """Give the calendar as a pandas frame."""
    import pandas as pd

    frame = pd.DataFrame(calendar())
    return frame.assign(day=pd.to_datetime(frame["day"]), weekday=frame["weekday"].astype("category"))


def calendar_polars() -> pl.DataFrame:
    """Give the calendar as a Polars frame."""
    import polars as pl

    return pl.DataFrame(calendar()).with_columns(pl.col("weekday").cast(pl.Categorical))


def run(frame: Any, name: str, folder: Path) -> Iterator[Step]:
    """Do the main job with one frame; the last step's result is the list of differences that were found."""
    client = _api.connect(folder, default=False)
    yield Step(f'client = rt.connect("{folder}")', client)
    yield Step(f'df.remote.to_table("{name}")', frame.remote.to_table(name, client=client))
    yield Step("rt.list_tables()", client.list_tables())
    renames, after, line = _changed(frame)
    yield Step(line, arrow_schema(after))
    yield Step(
        f"after.remote.plan_alterations(df, rename={renames!r})", after.remote.plan_alterations(frame, rename=renames)
    )
    table = after.remote.alter_table(name, frame, rename=renames, client=client)
    yield Step(f'after.remote.alter_table("{name}", df, rename={renames!r})', table)
    full = _full_column(after)
    if full is not None:
        table = client.table(name).set_nullable({full: False})
        yield Step(f'client.table("{name}").set_nullable({{"{full}": False}})', table)
    yield Step(f'lance.dataset("{folder / name}.lance")', differences(after, folder / f"{name}.lance", full))


def _changed(frame: Any) -> tuple[dict[str, str], Any, str]:
    """Rename the first column, and give the first number whose values allow it another width."""
    first = str(frame.columns[0])
    renames, casts = {first: f"{first}_renamed"}, _other_width(frame)
    method = "rename(columns=" if hasattr(frame, "iloc") else "rename("
    after = frame.rename(columns=renames) if hasattr(frame, "iloc") else frame.rename(renames)
    line = f"after = df.{method}{renames!r})"
    if casts is None:
        return renames, after, line
    column, dtype = casts
    column = renames.get(column, column)
    if hasattr(frame, "iloc"):
        return renames, after.astype({column: dtype}), f'{line}.astype({{"{column}": "{dtype}"}})'
    import polars as pl

    return renames, after.cast({column: getattr(pl, dtype)}), f'{line}.cast({{"{column}": pl.{dtype}}})'


def _other_width(frame: Any) -> tuple[str, str] | None:
    """Find a column of whole numbers, or of any, that another width of the same kind holds too."""
    widths = {"int64": "int32", "int32": "int64", "float32": "float64"}
    widths |= {"Int64": "Int32", "Int32": "Int64", "Float32": "Float64"}
    for column in frame.columns:
        before = str(frame[column].dtype)
        dtype = widths.get(before)
        if dtype is None or (dtype.lower() == "int32" and not _fits(frame[column])):
            continue
        return str(column), dtype
    return None


def _fits(numbers: Any) -> bool:
    low, high = numbers.min(), numbers.max()
    return low == low and low is not None and low >= -(2**31) and high < 2**31  # noqa: PLR0124  # NaN is no number


def _full_column(frame: Any) -> str | None:
    """Find a column without nulls."""
    table = _as_table(frame)
    return next((name for name in table.schema.names if table.num_rows and table[name].null_count == 0), None)


def _as_table(frame: Any) -> pa.Table:
    import pyarrow as pa

    source = open_source(frame)
    return pa.Table.from_batches(source.batches(), source.schema)


def differences(frame: Any, stored: Path, full: str | None) -> list[str]:
    """Read a table with Lance, not with this package, and compare it with a frame value by value."""
    import lance

    table, wanted = lance.dataset(str(stored)).to_table(), _as_arrow(frame)
    if table.schema.names != wanted.schema.names:
        return [f"columns {table.schema.names!r}, expected {wanted.schema.names!r}"]
    found = [f"{table.num_rows} rows, expected {wanted.num_rows}"] if table.num_rows != wanted.num_rows else []
    if full is not None and table.schema.field(full).nullable:
        found.append(f"column {full!r} may still hold nulls")
    return found + [f"column {name!r}" for name in wanted.schema.names if not _equal(table[name], wanted[name])]


def _as_arrow(frame: Any) -> pa.Table:
    """Convert a frame by its own library's way, which this package does not take."""
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False) if hasattr(frame, "iloc") else frame.to_arrow()


def _equal(stored: pa.ChunkedArray, wanted: pa.ChunkedArray) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = wanted.type.value_type if pa.types.is_dictionary(wanted.type) else wanted.type
    one, other = stored.cast(kind), wanted.cast(kind)
    if pa.types.is_floating(kind):  # NaN equals itself here
        nans = [pc.call_function("is_nan", [values]) for values in (one, other)]
        one, other = (
            pc.call_function("if_else", [nan, 0, values]) for nan, values in zip(nans, (one, other), strict=True)
        )
        return bool(nans[0].equals(nans[1]) and one.equals(other))
    return bool(one.equals(other))
