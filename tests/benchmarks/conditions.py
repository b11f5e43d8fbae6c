"""One day of many: what a condition moves and costs.

Run ``python -m tests.benchmarks.conditions [MILLIONS]``. Ten million rows of a hundred
days are in a table, a Parquet file and, where ``deltalake`` is installed, a Delta
table. The service has a process of its own; the bytes are those that a relay passes on.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

import rt_frames as rt
from tests.benchmarks._frames import WORDS
from tests.longer.bounds import seconds_of
from tests.support.local import Process
from tests.support.servers import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DAYS = 100
FIRST = datetime.date(2024, 1, 1)
DAY = pl.col("day") == FIRST + datetime.timedelta(days=50)
REPEATS = 5


def orders(rows: int) -> pa.Table:
    """Make rows in order of their days."""
    rng = np.random.default_rng(1)
    days = np.arange(rows) * DAYS // rows
    start = (FIRST - datetime.date(1970, 1, 1)).days
    words = pa.array(WORDS, pa.large_string())
    return pa.table(
        {
            "id": np.arange(rows),
            "day": pa.array((days + start).astype("int32")).cast("date32"),
            "units": rng.integers(0, 1000, rows),
            "price": rng.normal(size=rows),
            "place": words.take(pa.array(rng.integers(0, len(WORDS), rows))),
        }
    )


class Relay:
    """Passes connections on to a port, and counts the bytes that come back."""

    def __init__(self, port: int) -> None:
        self.received = 0
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(("127.0.0.1", self._port))
            for ways in ((near, far, 0), (far, near, 1)):
                threading.Thread(target=self._pass_on, args=ways, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, weight: int) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(2**18):
                self.received += len(data) * weight
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


def connected(url: str) -> rt.RemoteTable:
    client = rt.connect(url, api_key=KEY, dialect="lancedb", default=False)
    return client.table("orders")


def delta(folder: Path, rows: pa.Table) -> Iterator[Path]:
    """Yield the path of a Delta table, if its library is installed."""
    with contextlib.suppress(ImportError):
        import deltalake

        deltalake.write_deltalake(folder / "delta", rows)
        yield folder / "delta"


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as name, Process(Path(name, "t")) as service:
        table = orders(rows)
        day = pl.DataFrame(table).filter(DAY).estimated_size()
        print(f"{rows:,} rows, {table.nbytes / 1e6:,.0f} MB; a day has {day / 1e6:.1f}")
        service.client.create_table("orders", table)
        parquet = Path(name, "orders.parquet")
        pl.DataFrame(table).write_parquet(parquet)
        relay = Relay(int(service.caller.url.rpartition(":")[2]))
        near = connected(service.caller.url)
        far = connected(relay.url)
        ours: dict[str, Callable[[rt.RemoteTable], pl.DataFrame]] = {
            "scan().filter": lambda one: one.scan().filter(DAY).collect(),
            "where=": lambda one: one.to_polars(where=DAY),
            "scan(), filtered here": lambda one: (
                one.scan().with_row_index().filter(DAY).collect()
            ),
        }
        for words, read in ours.items():
            before = relay.received
            found = read(far).height
            moved = relay.received - before
            show(words, found, lambda read=read: read(near), service.pid, moved)
        files = {"pl.scan_parquet": pl.scan_parquet(parquet)}
        for path in delta(Path(name), table):
            files["pl.scan_delta"] = pl.scan_delta(str(path))
        for words, query in files.items():
            found = query.filter(DAY).collect().height
            show(words, found, lambda query=query: query.filter(DAY).collect())


def show(
    words: str,
    found: int,
    read: Callable[[], pl.DataFrame],
    service: int | None = None,
    moved: int | None = None,
) -> None:
    """Print the least processor time of some runs, here and in the service."""
    runs = []
    for _ in range(REPEATS):
        before = 0.0 if service is None else seconds_of(service)
        here = time.process_time()
        started = time.perf_counter()
        read()
        wall = time.perf_counter() - started
        here = time.process_time() - here
        there = 0.0 if service is None else seconds_of(service) - before
        runs.append((here + there, here, there, wall))
    _, here, there, wall = min(runs)
    bytes_ = "" if moved is None else f"{moved / 1e6:>9.1f} MB moved"
    print(
        f"{words:<24}{found:>9,} rows{here:>8.2f} s here{there:>8.2f} s in the service"
        f"{wall:>8.2f} s in all{bytes_}",
        flush=True,
    )


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    millions = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    main(int(millions * 1e6))
