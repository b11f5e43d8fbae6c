"""A process that is killed while it replaces the rows of one day of a folder's table.

Each day is there once, and confirmed writes stay.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import rt_frames as rt

WRITER = """
import itertools, sys, polars as pl, rt_frames as rt
from tests.longer.kills import rows_of
client = rt.connect(sys.argv[1], default=False)
client.table("days").count()  # which loads Lance
for number in itertools.count(int(sys.argv[2])):
    print("begun", number, flush=True)
    rows = rows_of(1, number)
    client.create_table("days", rows, if_exists="replace", where=pl.col("day") == 1)
    print("done", number, flush=True)
"""


def rows_of(day: int, number: int) -> pa.Table:
    """Make the rows of a day, whose number says which write they are of."""
    rows = 50_000 + 1000 * (number % 7)
    return pa.table({"day": np.full(rows, day), "number": np.full(rows, number)})


def replace_until_killed(root: Path, first: int, seconds: float) -> tuple[int, int]:
    """Return the numbers of the last write that was begun, and that was done."""
    command = [sys.executable, "-c", WRITER, str(root), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        begun = writer.stdout.readline()
        time.sleep(seconds)
        writer.kill()
        printed, _ = writer.communicate()
    last = {"done": first - 1}
    for line in [begun, *printed.splitlines()]:
        what, number = line.split()
        last[what] = int(number)
    return last["begun"], last["done"]


def check(root: Path, begun: int, done: int) -> bool:
    """Check that each day is there once. Return whether an open write was done."""
    found = lance.dataset(str(root / "days.lance")).to_table()
    for day in (0, 2):
        others = found.filter(pa.compute.field("day") == day)
        assert others.equals(rows_of(day, 0)), day
    today = found.filter(pa.compute.field("day") == 1)
    number = today["number"][0].as_py()
    assert done <= number <= begun
    assert today.equals(rows_of(1, number)), number
    return bool(number > done)


def run(kills: int, seed: int) -> Counter[str]:
    """Kill a process while it replaces the rows of a day, check them, and repeat."""
    draw = random.Random(seed)
    counts = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with rt.connect(root, default=False) as client:
            parts = [rows_of(day, 0) for day in range(3)]
            client.create_table("days", pa.concat_tables(parts))
        done = 0
        for _ in range(kills):
            first = done + 1
            begun, done = replace_until_killed(root, first, draw.uniform(0, 0.7))
            counts["replaced"] += done + 1 - first
            is_done = check(root, begun, done)
            counts["open, done" if is_done else "open, not done"] += 1
            done += is_done
    return counts
