"""Clients and services killed at random moments.

No table is ever partial, and confirmed writes stay. One table is replaced and read all
the time; others are created and altered twice. `run_days` replaces the rows of one day.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import numpy as np
import polars as pl
import pyarrow as pa

import rt_frames as rt
from tests.support.local import Process, logged, stream
from tests.support.servers import KEY

ROWS = 400_000
REPLACE = "/v1/table/kept/create/?mode=overwrite"


def table(number: int) -> pa.Table:
    """Make a table whose size and rows follow from its number."""
    n = np.arange(number, number + ROWS // (1 + number % 5))
    return pa.table({"n": n, "half": n / 2})


class Tables:
    """The writes of one writer to a folder, and the states that are allowed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.attempted = self.replaced = self.altered = self.reads = 0

    def write(self, url: str) -> None:
        """Replace a table, create and alter others, until the service is killed."""
        with (
            rt.connect(
                url, api_key=KEY, dialect="lancedb", retries=0, default=False
            ) as client,
            contextlib.suppress(rt.errors.RemoteError),
        ):
            while True:
                self.attempted += 1
                number = self.attempted
                client.create_table("kept", table(number), if_exists="replace")
                self.replaced = number
                client.create_table(f"t{number}", table(number)).rename(
                    {"half": "halves"}
                ).cast({"n": "int32"})
                self.altered = number

    def break_off(self, service: Process, part: float) -> None:
        """Send part of a replacement of the table, then close the connection."""
        body = stream(table(self.attempted), rows=10_000)
        with service.caller.connect() as connection:
            connection.sendall(
                service.caller.head(REPLACE, f"Content-Length: {len(body)}")
            )
            connection.sendall(body[: int(part * len(body))])

    def read(self) -> int:
        """Check that the replaced table is complete, and return its number."""
        found = lance.dataset(str(self.root / "kept.lance")).to_table()
        number = found["n"][0].as_py()
        assert found.equals(table(number)), number
        self.reads += 1
        return number

    def read_until(self, stop: threading.Event) -> None:
        """Read a table repeatedly: it always exists, and its number never falls."""
        last = 0
        while not stop.is_set():
            found = self.read()
            assert found >= last
            last = found

    def check(self) -> Counter[str]:
        """Check the tables, and drop those that were created."""
        states = Counter[str]()
        assert self.replaced <= self.read() <= self.attempted
        for folder in self.root.glob("t*.lance"):
            number = int(folder.stem[1:])
            dataset = lance.dataset(str(folder))
            found = dataset.to_table()
            state = (found.column_names[1], str(found.schema.field("n").type))
            allowed = [("half", "int64"), ("halves", "int64"), ("halves", "int32")]
            assert state in (allowed[2:] if number <= self.altered else allowed), (
                number,
                state,
            )
            assert (
                found.rename_columns(["n", "half"])
                .cast(table(0).schema)
                .equals(table(number))
            ), number
            assert dataset.checkout_version(1).to_table().equals(table(number)), number
            states["-".join(state)] += 1
            shutil.rmtree(folder)
        return states


def run(kills: int, seed: int) -> Counter[str]:
    """Kill the service or close a connection, check the tables, and repeat."""
    draw = random.Random(seed)
    counts = Counter[str]()
    stop = threading.Event()
    with (
        tempfile.TemporaryDirectory() as folder,
        logged(),
        ThreadPoolExecutor(2) as pool,
    ):
        tables = Tables(Path(folder))
        with Process(Path(folder)) as service:
            service.client.create_table("kept", table(0))
        reader = pool.submit(tables.read_until, stop)
        try:
            while counts["client"] + counts["service"] < kills and not reader.done():
                with Process(Path(folder)) as service:
                    assert service.caller.staged() == []
                    for _ in range(draw.randrange(3)):
                        tables.break_off(service, draw.random())
                        counts["client"] += 1
                    writer = pool.submit(tables.write, service.caller.url)
                    time.sleep(draw.uniform(0, 0.7))
                    service.kill()
                    counts["service"] += 1
                    writer.result(30)
                counts += tables.check()
        finally:
            stop.set()
        reader.result(30)
        return counts + Counter(
            replaced=tables.replaced, altered=tables.altered, reads=tables.reads
        )


def rows_of(day: int, number: int) -> pa.Table:
    """Make the rows of a day, whose number says which write they are of."""
    rows = 50_000 + 1000 * (number % 7)
    return pa.table({"day": np.full(rows, day), "number": np.full(rows, number)})


class Days:
    """Replaces the rows of one day among others, until the service is killed."""

    def __init__(self, root: Path) -> None:
        self.folder = str(root / "days.lance")
        self.attempted = 0
        self.replaced = 0

    def write(self, url: str) -> None:
        with (
            rt.connect(
                url, api_key=KEY, dialect="lancedb", retries=0, default=False
            ) as client,
            contextlib.suppress(rt.errors.RemoteError),
        ):
            while True:
                number = self.attempted + 1
                self.attempted = number
                client.create_table(
                    "days",
                    rows_of(1, number),
                    if_exists="replace",
                    where=pl.col("day") == 1,
                )
                self.replaced = number

    def check(self) -> bool:
        """Check that each day is there once. Return whether an open write was done."""
        found = lance.dataset(self.folder).to_table()
        for day in (0, 2):
            others = found.filter(pa.compute.field("day") == day)
            assert others.equals(rows_of(day, 0)), day
        today = found.filter(pa.compute.field("day") == 1)
        number = today["number"][0].as_py()
        assert self.replaced <= number <= self.attempted
        assert today.equals(rows_of(1, number)), number
        return bool(number > self.replaced)


def run_days(kills: int, seed: int) -> Counter[str]:
    """Kill the service while it replaces the rows of a day, check them, and repeat."""
    draw = random.Random(seed)
    counts = Counter[str]()
    with (
        tempfile.TemporaryDirectory() as folder,
        logged(),
        ThreadPoolExecutor(1) as pool,
    ):
        root = Path(folder)
        days = Days(root)
        with Process(root) as service:
            parts = [rows_of(day, 0) for day in range(3)]
            service.client.create_table("days", pa.concat_tables(parts))
        for _ in range(kills):
            with Process(root) as service:
                before = days.replaced
                writer = pool.submit(days.write, service.caller.url)
                time.sleep(draw.uniform(0, 0.7))
                service.kill()
                writer.result(30)
            counts["open, done" if days.check() else "open, not done"] += 1
            counts["replaced"] += days.replaced - before
    return counts
