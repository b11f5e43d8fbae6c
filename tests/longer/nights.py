"""Ten nights of README's job, which is killed, or runs twice at once.

The source drifts: rows come late, columns come and go, and types change. What an error
shows is done by hand before the next run. After each night, the tables hold what rows
in plain Python say.
"""

from __future__ import annotations

import datetime as dt
import random
import re
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import lance
import polars as pl

import rt_frames as rt
from tests.support.processes import python

JOB = """
import sys, rt_frames as rt
from tests.longer import nights
rt.connect(sys.argv[1]).list_tables()  # which loads Lance
rows = nights.source(int(sys.argv[2]))
print("begun", flush=True)
nights.job(rows)
"""
FIRST = dt.date(2024, 3, 1)
DAILY = 2000
Row = dict[str, Any]
Rows = dict[int, Row]


def job(rows: pl.DataFrame, **by_hand: Any) -> None:
    """Store a night's rows by key, and in another table by day."""
    options = {"add_columns": True, **by_hand}
    rt.to_table(rows, "by_key", if_exists="upsert", on="id", **options)
    for (day,), of_day in rows.group_by("day", maintain_order=True):
        where = pl.col("day") == day
        rt.to_table(of_day, "by_day", if_exists="replace", where=where, **options)


def of_day(number: int, corrected: int = 0) -> pl.DataFrame:
    """Make the rows of a day; a correction has others."""
    first = number * DAILY
    return pl.DataFrame(
        {
            "id": range(first, first + DAILY),
            "day": FIRST + dt.timedelta(number),
            "units": [n % 100 + corrected for n in range(DAILY)],
        }
    )


def source(night: int) -> pl.DataFrame:
    """Read tonight's rows, whose columns and types are not always the same."""
    today = of_day(night)
    match night:
        case 2:  # a day comes again, corrected
            return pl.concat([of_day(0, corrected=1), today])
        case 3:
            return today.with_columns(note=pl.lit("new"))
        case 4:
            # another one comes again, without the new column
            return pl.concat([of_day(3, corrected=2), today])
        case 5:
            return today.cast({"units": pl.Int8})
        case 6:
            return today.with_columns(pl.col("units") + 0.5)
        case 7:  # a day comes late
            return pl.concat([of_day(-1), today])
        case 8:
            return today.cast({"units": pl.String})
        case 9:
            return today.select("units", "day", "id", note=pl.lit("again"), price=0.25)
    return today


def plain(row: Row) -> Row:
    """Leave out nulls: whether a column was added before its first rows is open."""
    return {name: value for name, value in row.items() if value is not None}


def days(rows: Rows) -> dict[dt.date, Rows]:
    found: dict[dt.date, Rows] = {}
    for row in rows.values():
        found.setdefault(row["day"], {})[row["id"]] = row
    return found


class Nights:
    """The rows of the tables, by id, as they must be; and what happened."""

    def __init__(self, root: Path, draw: random.Random) -> None:
        self.root = root
        self.draw = draw
        self.by_key: Rows = {}
        self.by_day: Rows = {}
        self.counts = Counter[str]()

    def run(self, night: int) -> None:
        """Run the job here, after a run that is killed, or at once with another one."""
        before = self.by_key, days(self.by_day)
        rows = source(night)
        self.add(rows)
        with python("-c", JOB, self.root, night) as other:
            assert other.stdout is not None
            other.stdout.readline()
            if self.draw.random() < 0.6:
                time.sleep(self.draw.uniform(0, 0.3))
                other.kill()
                other.wait()
                self.check_commits(*before)
            self.run_here(rows)
            _, error = other.communicate()
        kinds = {0: "done", -signal.SIGKILL: "killed"}
        end = kinds.get(other.returncode) or error.splitlines()[-1].partition(":")[0]
        self.counts[end] += 1
        units = "double" if night >= 6 else "int64"
        for name, rows_wanted in {"by_key": self.by_key, "by_day": self.by_day}.items():
            assert self.stored(name) == rows_wanted
            assert str(self.open(name).schema.field("units").type) == units

    def run_here(self, rows: pl.DataFrame) -> None:
        """Run the job, and again with what its errors show."""
        by_hand: dict[str, Any] = {}
        while True:
            try:
                return job(rows, **by_hand)
            except rt.errors.UnsupportedTypeError as error:
                if found := re.search(r"rt\.table\(.*", str(error)):
                    eval(found[0], {"rt": rt})  # our own message
                else:
                    (options,) = re.findall(r"pass dtypes=(\{.*?\})", str(error))
                    by_hand = {"dtypes": eval(options, {})}

    def add(self, rows: pl.DataFrame) -> None:
        """Add a night's rows to those that the tables must hold."""
        new = {row["id"]: row for row in rows.cast({"units": float}).to_dicts()}
        self.by_key = self.by_key | {
            key: self.by_key.get(key, {}) | row for key, row in new.items()
        }
        kept = days(self.by_day) | days(new)
        self.by_day = {
            key: row for of_day in kept.values() for key, row in of_day.items()
        }

    def open(self, name: str) -> lance.LanceDataset:
        return lance.dataset(str(self.root / f"{name}.lance"))

    def stored(self, name: str) -> Rows:
        """Read a table, in which each id is once."""
        if not (self.root / f"{name}.lance").exists():
            return {}
        found = self.open(name).to_table().to_pylist()
        rows = {row["id"]: plain(row) for row in found}
        assert len(rows) == len(found)
        return rows

    def check_commits(self, by_key: Rows, by_day: dict[dt.date, Rows]) -> None:
        """Check that a run that was killed made each of its writes whole, or not."""
        assert self.stored("by_key") in (by_key, self.by_key)
        wanted, found = days(self.by_day), days(self.stored("by_day"))
        for day in {*wanted, *found}:
            assert found.get(day, {}) in (by_day.get(day, {}), wanted[day]), day


def run(count: int, seed: int) -> Counter[str]:
    """Run ten nights with new tables, count times."""
    counts = Counter[str]()
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            nights = Nights(Path(folder), random.Random(f"{seed}/{number}"))
            with rt.connect(folder):
                for night in range(10):
                    nights.run(night)
            counts += nights.counts
    return counts
