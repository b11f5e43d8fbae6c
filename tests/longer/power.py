"""The power fails at random moments, while a folder's tables are changed, and later.

A process changes tables on an ext4 file system in a file. The file is copied while that
process stands still: the copy has what the disk has, without what the system has yet to
write. Every table on the copy can be read and written, and each change is there if its
call has returned, and there or not if it has not.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import polars as pl

import rt_frames as rt
from tests.support.disks import mounted, new_disk
from tests.support.local import Caller, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IMAGE_BYTES = 2**24
ROWS = pl.DataFrame({"id": range(3000), "v": range(3000), "day": [1, 2, 3] * 1000})
MORE = pl.DataFrame({"id": range(3000, 3100), "v": range(100), "day": [4] * 100})
CHANGED = MORE.with_columns(id=pl.col("id") - 50)
NEW = pl.DataFrame({"new": pl.Series([None], dtype=pl.String)})
THIRDS = pl.col("v").is_in(range(0, 3000, 3))


class Tables:
    """The tables of a folder, and what is done with them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.client = rt.connect(root, default=False)
        self.caller = Caller(root)

    def store(self, frame: pl.DataFrame, name: str = "t", **options: Any) -> None:
        rt.to_table(frame, name, client=self.client, **options)

    def alter(self, frame: pl.DataFrame, **options: Any) -> None:
        rt.alter_table(frame, "t", client=self.client, **options)

    def append_in_parts(self) -> None:
        write = Write(self.caller)
        for number in (1, 2):
            rows = MORE.with_columns(id=pl.col("id") + 100 * number).to_arrow()
            part = f"{number:08}-0000-8000-8000-000000000000"
            assert write.part(rows, part).status_code == 200
        assert write.end().status_code == 200

    def restore(self) -> None:
        before = self.table.history()[1]
        self.client.table("t", version=before.version).restore()

    @property
    def table(self) -> rt.RemoteTable:
        return self.client.table("t")

    def read(self) -> dict[str, Any]:
        """Read every table with Lance, in any order of rows."""
        tables = {}
        for folder in sorted(self.root.glob("*.lance")):
            tables[folder.stem] = in_order(lance.dataset(str(folder)).to_table())
        return tables


# each finds what the one before it left; after the last, there is no table
STEPS: dict[str, Callable[[Tables], Any]] = {
    "create": lambda there: there.store(ROWS),
    "append": lambda there: there.store(MORE, if_exists="append"),
    "append in parts": lambda there: there.append_in_parts(),
    "delete": lambda there: there.table.delete(pl.col("id") < 10),
    "replace rows": lambda there: there.store(
        MORE, if_exists="replace", where=pl.col("day") == 4
    ),
    "upsert": lambda there: there.store(CHANGED, if_exists="upsert", on="id"),
    "delete many": lambda there: there.table.delete(THIRDS),
    "restore": lambda there: there.restore(),
    "cast": lambda there: there.table.cast({"v": "int32"}),
    "rename": lambda there: there.table.rename({"v": "u"}),
    "add": lambda there: there.alter(NEW, add_columns=True),
    "drop columns": lambda there: there.alter(MORE[["id", "day"]], drop_columns=["u"]),
    "compact": lambda there: there.table.compact(),
    "purge": lambda there: there.table.compact(purge=True),
    "replace": lambda there: there.store(ROWS, if_exists="replace"),
    "rewrite": lambda there: there.alter(ROWS.cast({"v": pl.String}), rewrite=True),
    "create another": lambda there: there.store(MORE, "u"),
    "drop": lambda there: there.table.drop(),
    "drop the other": lambda there: there.client.table("u").drop(),
}


def in_order(table: Any) -> Any:
    return table.sort_by([(name, "ascending") for name in table.column_names])


def rehearse(root: Path) -> list[dict[str, Any]]:
    """Return what is in the tables before each step."""
    there = Tables(root)
    found = []
    for step in STEPS.values():
        found.append(there.read())
        step(there)
    assert there.read() == found[0] == {}
    return found


def change_tables(root: str, seed: str) -> None:
    """Do the steps, again and again, with pauses now and then."""
    there = Tables(Path(root))
    draw = random.Random(seed)
    number = 0
    while True:
        for step in STEPS.values():
            print("begun", number, flush=True)
            step(there)
            number += 1
            print("done", number, flush=True)
            time.sleep(draw.choice([0, 0, 0, 0.1]))


class Writer:
    """A process that changes tables, until it is stopped."""

    def __init__(self, root: Path, seed: int) -> None:
        code = f"from tests.longer import power; power.change_tables({str(root)!r}, '{seed}')"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        self._last = {"begun": 0, "done": 0}
        # once it has begun
        os.read(self._output, len("begun 0\n"))
        os.set_blocking(self._output, False)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[tuple[int, int]]:
        """Let it stand still; yield how many steps are done, and begun."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)
        with contextlib.suppress(BlockingIOError):
            for line in os.read(self._output, 2**16).splitlines():
                what, _, number = line.decode().partition(" ")
                self._last[what] = int(number)
        yield self._last["done"], self._last["begun"] + 1
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def copy_image(image: Path, copy: Path) -> None:
    """Copy the image of a disk as it is at one moment."""
    content = image.read_bytes()
    while (again := image.read_bytes()) != content:
        content = again
    copy.write_bytes(content)


def check(root: Path, expected: list[dict[str, Any]]) -> int:
    """Check the tables after a power cut; return which of the states they are in."""
    there = Tables(root)
    names = there.client.list_tables()
    found = {}
    for name in names:
        found[name] = in_order(there.client.table(name).to_arrow())
    assert found in expected, f"{found} is none of {expected}"
    for name in names:
        there.client.table(name).compact()
    assert there.read() == found
    return expected.index(found)


def run(cuts: int, seed: int) -> Counter[str]:
    """Cut the power, check what is there, and repeat."""
    draw = random.Random(seed)
    counts = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        expected = rehearse(work / "tables")
        image = new_disk(work / "disk", IMAGE_BYTES)
        copy = work / "copy"
        # what is not synced is there in part, a second later
        with mounted(image, work / "mounted", "commit=1") as disk:
            writer = Writer(disk / "tables", seed)
            try:
                for _ in range(cuts):
                    time.sleep(draw.uniform(0, 0.4))
                    with writer.stopped() as (done, begun):
                        copy_image(image, copy)
                    states = [expected[n % len(STEPS)] for n in (done, begun)]
                    with mounted(copy, work / "after") as after:
                        reached = check(after / "tables", states)
                    step = [*STEPS][done % len(STEPS)]
                    counts[f"{step}, {'done' if reached else 'not done'}"] += 1
            finally:
                writer.kill()
    return counts
