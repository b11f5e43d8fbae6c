"""A service that is killed while it replaces the rows of one day.

Each day is there once, and confirmed writes stay.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import numpy as np
import polars as pl
import pyarrow as pa

import rt_frames as rt
from tests.support.local import Process, logged
from tests.support.servers import KEY


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


def run(kills: int, seed: int) -> Counter[str]:
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
