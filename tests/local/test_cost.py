"""What each kind of write to a folder costs: calls for files, and files that stay.

Each call takes a millisecond or more where the folder is on a network.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import rt_frames as rt
from tests.support.local import Caller, Write

ROWS = pl.DataFrame({"id": range(1000), "s": ["a"] * 1000})
TEN = ROWS[:10]
MORE = TEN.with_columns(pl.col("id") + 1000)
NEW = pl.DataFrame({"new": pl.Series([], dtype=pl.Int64)})
FIRST = pl.col("id") < 10


def write(frame, **options):
    return lambda table: rt.to_table(frame, table.name, client=table.client, **options)


def alter(frame, **options):
    return lambda table: rt.alter_table(
        frame, table.name, client=table.client, **options
    )


def in_parts(mode):
    def do(table):
        write = Write(Caller(Path(table.client.url)), table.name)
        for _ in range(2):
            assert write.part(TEN.to_arrow(), mode=mode).status_code == 200
        assert write.end().status_code == 200

    return do


WRITES = {
    "create": write(ROWS),
    "append": write(TEN, if_exists="append"),
    "append-in-parts": in_parts("append"),
    "upsert": write(TEN, if_exists="upsert", on="id"),
    "replace": write(TEN, if_exists="replace"),
    "replace-in-parts": in_parts("overwrite"),
    "replace-where": write(TEN, if_exists="replace", where=FIRST),
    "delete": lambda table: table.delete(FIRST),
    "cast": lambda table: table.cast({"id": "int32"}),
    "rename": lambda table: table.rename({"id": "key"}),
    "add-columns": alter(NEW, add_columns=True),
    "drop-columns": alter(TEN[["id"]], drop_columns=["s"]),
    "restore": lambda table: table.client.table(table.name, version=1).restore(),
    "compact": lambda table: table.compact(),
    "purge": lambda table: table.compact(purge=True),
    "drop": lambda table: table.drop(),
}
# system calls for files, those that open a manifest, syncs, and the files of the table
COSTS = {
    "create": (77, 2, 6, 4),
    "append": (141, 10, 5, 10),
    "append-in-parts": (237, 11, 6, 11),
    "upsert": (141, 10, 7, 11),
    "replace": (153, 8, 5, 10),
    "replace-in-parts": (339, 10, 6, 11),
    "replace-where": (189, 11, 7, 11),
    "delete": (98, 8, 5, 10),
    "cast": (171, 11, 6, 11),
    "rename": (133, 9, 3, 9),
    "add-columns": (157, 13, 3, 9),
    "drop-columns": (157, 13, 3, 9),
    "restore": (95, 12, 3, 9),
    "compact": (101, 8, 5, 10),
    "purge": (305, 18, 10, 4),
    "drop": (56, 0, 1, 0),
}


def main(root):
    """Make a table of two versions for each write, and write between two marks."""
    with rt.connect(root, default=False) as client:
        for name, do in WRITES.items():
            if name != "create":
                for frame in (ROWS, MORE):
                    rt.to_table(frame, name, client=client, if_exists="append")
            table = client.table(name)
            (root / f"begin {name}").exists()
            do(table)
            (root / "end").exists()


def trace(log, *words):
    """Run a program, and log its system calls that name a file or sync one."""
    subprocess.run(
        ["strace", "-fyo", log, "-e", "trace=%file,fsync,fdatasync", *words],
        cwd=Path(__file__).parents[2],
        check=True,
    )


def measure(root, log):
    """Return what each write costs that a traced program has made."""
    marks = rf'"{root}/begin (.*?)"(.*?)"{root}/end"'
    costs = {}
    for name, between in re.findall(marks, log.read_text(), re.DOTALL):
        lines = [line for line in between.splitlines() if str(root) in line]
        # the second half of a call that another thread's call has cut in two
        calls = [line for line in lines if "resumed>" not in line]
        opened = [line for line in calls if re.search(r'openat.*\.manifest"', line)]
        syncs = [line for line in calls if "sync(" in line]
        files = [path for path in root.glob(f"{name}.lance/**/*") if path.is_file()]
        costs[name] = (*map(len, (calls, opened, syncs, files)),)
    return costs


def test_every_kind_of_write_costs_what_it_did(tmp_path):
    try:
        trace("/dev/null", "true")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs strace, and leave to trace")
    root = tmp_path / "tables"
    trace(tmp_path / "log", sys.executable, "-m", __name__, root)
    costs = measure(root, tmp_path / "log")
    assert costs.keys() == COSTS.keys()
    for name, (most, *others) in COSTS.items():
        calls, *measured = costs[name]
        assert measured == others, name
        # newer Pythons look at files less often
        assert calls <= most, name


if __name__ == "__main__":
    main(Path(sys.argv[1]))
