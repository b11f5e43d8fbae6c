"""Ctrl-C at random moments, over every kind of source and every operation: at once, nothing left behind, all goes on.

A process of its own uploads, lists and alters; another one sends it SIGINT. Then processes of one upload each are
interrupted twice: however they end, it is never by an abort.

Run: ``python -m tests.longer.interrupts [--interrupts 1000] [--seed N]``.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gc
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.dataframe as dd
import duckdb
import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import rt_frames as rt
from tests.support.local import Process, logged
from tests.support.servers import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = 200_000
SLOW = 1.5  # seconds; a batch that takes so long is waited for by nobody
AT_ONCE = 1.0  # seconds, on a machine that has other things to do
_KILLER = """
import os, select, signal, sys, time
sent = []
for line in sys.stdin:
    word, given = line.split()
    if word == "stop":
        print(given, *sent, flush=True)
    else:
        sent = []
        if not select.select([sys.stdin], [], [], float(given))[0]:
            sent = [time.monotonic()]
            os.kill(os.getppid(), signal.SIGINT)
"""


class Killer:
    """Sends this process a SIGINT after some time, from outside."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-uc", _KILLER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            start_new_session=True,
        )  # fmt: skip
        self._stops = 0

    def arm(self, delay: float) -> None:
        self._process.stdin.write(f"arm {delay}\n")

    def disarm(self) -> list[float]:
        """Tell when it was sent, if it was; the SIGINT may come in here, too, and then this is called again."""
        self._stops += 1
        self._process.stdin.write(f"stop {self._stops}\n")
        while (said := self._process.stdout.readline().split())[0] != str(self._stops):
            pass
        return [float(sent) for sent in said[1:]]

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def numbers() -> pa.Table:
    return pa.table({"n": np.arange(ROWS), "half": np.arange(ROWS) / 2})


def texts() -> list[str]:
    return [f"row {number % 1000}" for number in range(ROWS // 4)]


def batches(table: pa.Table, pause: float = 0.0) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches(max_chunksize=ROWS // 8):
        time.sleep(pause)
        yield batch


def reader(pause: float = 0.0) -> pa.RecordBatchReader:
    table = numbers()
    return pa.RecordBatchReader.from_batches(table.schema, batches(table, pause))


def identity(part: pd.DataFrame, pause: float = 0.0) -> pd.DataFrame:
    time.sleep(pause)
    return part


def partitioned(pause: float = 0.0) -> Any:
    frame = dd.from_pandas(pd.DataFrame({"n": np.arange(ROWS)}), npartitions=5)
    return frame.map_partitions(functools.partial(identity, pause=pause), meta=frame._meta)


def sources(folder: Path) -> dict[str, Callable[[], Any]]:
    """Give what makes a frame of each kind; those that are slow take some seconds for a batch."""
    path = folder / "numbers.parquet"
    pq.write_table(numbers(), path, row_group_size=ROWS // 8)
    return {
        "table": numbers,
        "pandas": lambda: pd.DataFrame({"n": np.arange(ROWS), "half": np.arange(ROWS) / 2}),
        "pandas objects": lambda: pd.DataFrame({"text": pd.Series(texts(), dtype=object)}),
        "polars": lambda: pl.DataFrame({"text": texts()}),
        "lazy": lambda: pl.scan_parquet(path).filter(pl.col("n") >= 0),
        "lazy, slow": lambda: pl.scan_parquet(path).map_batches(functools.partial(identity, pause=SLOW)),
        "reader": reader,
        "reader, slow": functools.partial(reader, SLOW),
        "duckdb": lambda: duckdb.connect().sql(f"SELECT * FROM '{path}'"),
        "dataset": lambda: ds.dataset(path),
        "generator": lambda: batches(numbers()),
        "generator, slow": lambda: batches(numbers(), SLOW),
        "frames": lambda: (pl.DataFrame({"n": np.arange(ROWS // 4)}) for _ in range(4)),
        "dask": partitioned,
        "dask, slow": functools.partial(partitioned, SLOW),
    }


class Worker:
    """Calls and is interrupted, and looks after each interrupt whether anything stayed."""

    def __init__(self, url: str, root: Path, seed: int) -> None:
        self._root, self._random, self._killer = root, random.Random(seed), Killer()
        self._client = rt.connect(url, api_key=KEY, default=False)
        self._client.create_table("alter", pa.table({"n": [1]}))
        self._folder = tempfile.TemporaryDirectory()
        self._made = sources(Path(self._folder.name))
        self._takes: dict[str, float] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self.latest = 0.0
        self._unraisable: list[str] = []
        sys.unraisablehook = lambda info: self._unraisable.append(repr((info.exc_value, info.object)))

    def close(self) -> None:
        self._killer.close()
        self._folder.cleanup()
        self._client.close()

    def _call(self, kind: str, watched: list[weakref.ref[Any]]) -> None:
        if kind == "list":
            self._client.list_tables()
        elif kind == "alter":
            self._client.table("alter").set_nullable({"n": True})
        else:
            data = self._made[kind]()
            watched.append(weakref.ref(data))
            name = f"t{sum(self.counts.values())}_{len(self._takes)}"
            self._client.create_table(name, data, compression=self._random.choice(["auto", "zstd", None]))

    def round(self, kind: str) -> None:
        """Interrupt one call, if it is not faster."""
        if kind not in self._takes:
            start = time.monotonic()
            self._takes[kind] = SLOW
            if not kind.endswith("slow"):
                self._call(kind, [])
                self._takes[kind] = time.monotonic() - start
                self._check([])
        watched: list[weakref.ref[Any]] = []
        late = self._interrupt(kind, watched)
        self.counts[f"{kind}: {'done' if late is None else 'interrupted'}"] += 1
        self.latest = max(self.latest, late or 0)
        assert self.latest < AT_ONCE, f"{kind}: {self.latest:.1f} s late"
        self._check(watched)

    def _interrupt(self, kind: str, watched: list[weakref.ref[Any]]) -> float | None:
        """Make a call, and tell how late it was interrupted."""
        delay = self._random.uniform(0, 1.1 * self._takes[kind])
        try:
            self._killer.arm(delay)
            self._call(kind, watched)
            sent = self._killer.disarm()
        except KeyboardInterrupt:
            return time.monotonic() - self._killer.disarm()[0]
        except RuntimeError as error:  # DuckDB's own word for it
            if kind != "duckdb" or "interrupt" not in str(error).lower():
                raise
            return time.monotonic() - self._killer.disarm()[0]
        assert not sent, f"{kind}: SIGINT was swallowed {self._unraisable}"
        return None

    def _check(self, watched: list[weakref.ref[Any]]) -> None:
        """See that no thread and no frame stays, that the next call works, and that no table is there in part."""
        until = time.monotonic() + 10 * SLOW
        while (left := self._left(watched)) and time.monotonic() < until:
            time.sleep(0.1)
            if not any(name.startswith("rt_frames") for name in left):  # threads need the interpreter to end
                gc.collect()
        if left:
            import faulthandler

            faulthandler.dump_traceback(all_threads=True)
        assert not left, left
        for name in set(self._client.list_tables()) - {"alter"}:  # also of a call before, which was interrupted late
            stored = self._root / f"{name}.lance"
            assert lance.dataset(str(stored)).count_rows() in (ROWS, ROWS // 4)
            shutil.rmtree(stored)

    def _left(self, watched: list[weakref.ref[Any]]) -> list[str]:
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("rt_frames")]
        return threads + [type(ref()).__name__ for ref in watched if ref() is not None]


def work(url: str, root: str, count: int, seed: int) -> None:
    """Be the process that is interrupted; print what happened."""
    worker = Worker(url, Path(root), seed)
    kinds = ["list", "alter", *worker._made]
    random.Random(seed).shuffle(kinds)
    for number in range(count):
        worker.round(kinds[number % len(kinds)])
    worker.close()
    print(json.dumps({"latest": worker.latest, **worker.counts}))


_TWICE = """
import sys, tempfile
from pathlib import Path
import rt_frames as rt
from tests.longer.interrupts import sources
client = rt.connect(sys.argv[1], api_key=sys.argv[2], default=False)
data = sources(Path(tempfile.mkdtemp()))[sys.argv[3]]()
print("ready", flush=True)
client.create_table("twice", data)
"""


def interrupt_twice(url: str, kind: str, random_: random.Random) -> int:
    """Interrupt a process twice, and give how it ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", _TWICE, url, KEY, kind], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()
    for pause in (0.5, 0.2):
        time.sleep(random_.uniform(0, pause))
        process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGINT, 0), (kind, process.returncode, printed)
    assert "Fatal" not in printed, printed
    assert KEY not in printed
    return process.returncode


def run(count: int, seed: int) -> dict[str, float]:
    """Interrupt so many calls, and a hundredth as many processes twice."""
    with tempfile.TemporaryDirectory() as folder, logged(), Process(Path(folder)) as service:
        command = ["-m", "tests.longer.interrupts", "--work", service.caller.url, folder, str(count), str(seed)]
        worker = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
        assert (worker.returncode, worker.stderr) == (0, ""), worker.stderr
        random_ = random.Random(seed)
        slow = ["reader, slow", "dask, slow", "lazy, slow", "generator, slow"]
        for kind in random_.choices(slow, k=count // 100):
            interrupt_twice(service.caller.url, kind, random_)
    return json.loads(worker.stdout)


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interrupts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    print(run(options.interrupts, options.seed))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
