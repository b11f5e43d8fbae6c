"""The nightly job: upserts and scans.

Run ``python -m tests.benchmarks.nightly``; words of ``upsert``, ``scan`` and
``memory`` choose parts. Ways alternate. Memory is measured in a process of its own,
with the development server in another one, on a table of 2 GB in the folder for
temporary files.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import polars as pl
import pyarrow as pa
import requests

import rt_frames as rt
from rt_frames.local import LocalService
from tests.benchmarks._frames import WORDS, alternating, stream_of
from tests.benchmarks._sinks import sink
from tests.support.faults import resident
from tests.support.local import Process
from tests.support.servers import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MILLION = 10**6
UPSERTED = 100_000
BATCH_ROWS = 2**16
MEMORY_BYTES = 2 * 10**9
REPEATS = 11
CLOCKS = {"": time.perf_counter, " (CPU)": time.process_time}


def connected(url: str, key: str = KEY) -> rt.Client:
    return rt.connect(url, api_key=key, dialect="lancedb", default=False)


def sales(start: int, stop: int) -> pa.Table:
    """Make rows of numbers and text, with the numbers from start to stop as keys."""
    rows = stop - start
    rng = np.random.default_rng(start)
    words = pa.array(WORDS, pa.large_string())
    return pa.table(
        {
            "id": np.arange(start, stop),
            "count": rng.integers(0, 1000, rows),
            "price": rng.normal(size=rows),
            "place": words.take(pa.array(rng.integers(0, len(WORDS), rows))),
        }
    )


def keyed(table: pa.Table, kind: str) -> pa.Table:
    """Make keys of another type of a table's numbers."""
    if kind == "int64":
        return table
    text = [f"order-{number:012d}" for number in table["id"].to_pylist()]
    return table.set_column(0, "id", pa.array(text, pa.large_string()))


class Upserts:
    """One table, and fresh copies of it, into which the same rows are upserted."""

    def __init__(self, folder: Path, port: int, kind: str) -> None:
        self._folder = folder
        self._url = f"http://127.0.0.1:{port}/v1/table/t/merge_insert/"
        self._copies = 0
        start = MILLION - UPSERTED // 2
        self._rows = keyed(sales(start, start + UPSERTED), kind)
        self._body = stream_of(self._rows)
        table = keyed(sales(0, MILLION), kind)
        lance.write_dataset(table, str(folder / "made.lance"))

    def copy(self) -> Path:
        self._copies += 1
        path = self._folder / f"t{self._copies}.lance"
        shutil.copytree(self._folder / "made.lance", path)
        return path

    def ours(self, client: rt.Client, path: Path) -> None:
        client.create_table(
            path.stem, self._rows, if_exists="upsert", on="id", progress=False
        )

    def by_hand(self, path: Path) -> None:
        builder = lance.dataset(str(path)).merge_insert("id").when_matched_update_all()
        builder.when_not_matched_insert_all().execute(self._rows)

    def wire(self) -> None:
        """Send the prepared stream to a server that discards it."""
        requests.post(self._url, data=self._body, timeout=60).raise_for_status()


def upsert() -> None:
    """Upsert rows of which half the keys exist."""
    for kind in ("int64", "large_string"):
        for measured, clock in CLOCKS.items():
            upsert_keys(kind, measured, clock)


def upsert_keys(kind: str, measured: str, clock: Callable[[], float]) -> None:
    """Upsert by keys of one type; the CPU time is that of this process."""
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        service = opened.enter_context(LocalService(folder))
        by_folder = opened.enter_context(rt.connect(folder, default=False))
        by_url = opened.enter_context(connected(service.url, service.api_key))
        upserts = Upserts(folder, opened.enter_context(sink()), kind)
        waiting = [upserts.copy() for _ in range(3 * (REPEATS + 1))]
        ways = {
            "a folder": lambda: upserts.ours(by_folder, waiting.pop()),
            "a URL of this machine": lambda: upserts.ours(by_url, waiting.pop()),
            "merge_insert of Lance": lambda: upserts.by_hand(waiting.pop()),
            "prepared POST": upserts.wire,
        }
        medians = alternating(ways, REPEATS, clock)
    own = medians["merge_insert of Lance"]
    whole = own + medians["prepared POST"]
    for name, seconds in medians.items():
        print(
            f"upsert{measured}, {kind:<14}{name:<24}{seconds * 1000:>7.0f} ms"
            f"{seconds / own:>7.2f} of Lance's,{seconds / whole:>6.2f} with the wire",
            flush=True,
        )


def scan() -> None:
    """Filter a scan, and read the same columns as they are."""
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        process = opened.enter_context(Process(folder))
        client = opened.enter_context(connected(process.caller.url))
        table = client.create_table("t", sales(0, 4 * MILLION), progress=False)
        for columns in (["id", "price"], ["id", "count", "price", "place"]):
            scan_columns(table, columns)


def scan_columns(table: rt.RemoteTable, columns: list[str]) -> None:
    """Read some columns in four ways."""
    some = table.scan().select(columns)
    condition = pl.col("price") > 1
    ways = {
        "scan, filter": lambda: some.filter(condition).collect(),
        "scan": some.collect,
        "to_polars, filter": lambda: table.to_polars(columns=columns).filter(condition),
        "to_polars": lambda: table.to_polars(columns=columns),
    }
    for measured, clock in CLOCKS.items():
        medians = alternating(ways, REPEATS, clock)
        for name, seconds in medians.items():
            ratio = seconds / medians["to_polars"]
            print(
                f"{len(columns)} columns{measured:<12}{name:<32}{seconds * 1000:>8.0f} ms"
                f"{ratio:>7.2f}",
                flush=True,
            )


def large() -> Iterator[pa.RecordBatch]:
    """Make the batches of a table of 2 GB."""
    words = pa.array(WORDS, pa.large_string())
    for start in itertools.count(step=BATCH_ROWS):
        if start * 40 > MEMORY_BYTES:
            return
        rng = np.random.default_rng(start)
        numbers = np.arange(start, start + BATCH_ROWS)
        place = words.take(pa.array(rng.integers(0, len(WORDS), BATCH_ROWS)))
        price = rng.normal(size=BATCH_ROWS)
        yield pa.record_batch([numbers, price, place], ["id", "price", "place"])


def peak(url: str, name: str, way: str) -> None:
    """Run a streaming query in this process, and print the process's peak."""
    with connected(url) as client:
        some = client.table(name).scan().filter(pl.col("price") > 0)
        if way == "count":
            some.select(pl.len()).collect(engine="streaming")
        else:
            with tempfile.TemporaryDirectory() as folder:
                some.sink_parquet(Path(folder) / "rows.parquet", engine="streaming")
    print(resident("VmHWM"))


def memory() -> None:
    """Print how far a large table's scan peaks above that of one row."""
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        process = opened.enter_context(Process(folder))
        batches = large()
        first = next(batches)
        stored = pa.RecordBatchReader.from_batches(
            first.schema, itertools.chain([first], batches)
        )
        lance.write_dataset(stored, str(folder / "large.lance"))
        lance.write_dataset(pa.table(first.slice(0, 1)), str(folder / "one.lance"))
        for way in ("count", "sink_parquet"):
            peaks = {}
            for name in ("one", "large"):
                words = ["peak", process.caller.url, name, way]
                command = [sys.executable, "-m", "tests.benchmarks.nightly", *words]
                ended = subprocess.run(command, check=True, stdout=subprocess.PIPE)
                peaks[name] = int(ended.stdout)
            above = (peaks["large"] - peaks["one"]) / 1e6
            print(
                f"memory, 2 GB        {way:<32}{above:>8.0f} MB above {peaks['one'] / 1e6:.0f} MB",
                flush=True,
            )


PARTS = {"upsert": upsert, "scan": scan, "memory": memory}


def main(wanted: list[str]) -> None:
    """Print the chosen parts, or all."""
    print(f"load {os.getloadavg()[0]:.1f}")
    for name, part in PARTS.items():
        if not wanted or name in wanted:
            part()


if __name__ == "__main__":
    if sys.argv[1:2] == ["peak"]:
        peak(*sys.argv[2:])
    else:
        main(sys.argv[1:])
