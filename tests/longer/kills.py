"""Clients and services killed at random moments.

No table is ever partial, and confirmed writes stay. One table is replaced and read all
the time; others are created and altered twice.
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
        assert len(lance.dataset(str(self.root / "kept.lance")).versions()) <= 12
        for folder in self.root.glob("t*.lance"):
            number, dataset = int(folder.stem[1:]), lance.dataset(str(folder))
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
    draw, counts, stop = random.Random(seed), Counter[str](), threading.Event()
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
