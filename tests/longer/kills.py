"""Clients and services killed at random moments: no table is ever listed in part, and old versions stay.

Run: ``python -m tests.longer.kills [--replace] [--kills 200] [--seed N]``; with ``--replace`` a table is replaced all
the time, and read meanwhile.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import multiprocessing
import random
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import requests

import rt_frames as rt
from tests.support.local import ARROW, Process, logged, stream
from tests.support.servers import KEY

ROWS = 400_000


def table(number: int) -> pa.Table:
    """Make a table that says itself whether it is whole."""
    return pa.table({"n": np.arange(ROWS) + number, "half": (np.arange(ROWS) + number) / 2})


def work(url: str, number: int, start: object) -> None:
    """Create a table and alter it twice, until killed."""
    client = rt.connect(url, api_key=KEY, default=False, retries=0)
    start.set()
    try:
        made = client.create_table(f"t{number}", table(number))
        made.rename({"half": "halves"}).cast({"n": "int32"})
    except rt.errors.RemoteError:
        pass


def check(service: Process, numbers: range) -> collections.Counter[str]:
    """Read tables back, where they are listed: each must be in one of the three states that it may be in."""
    states: collections.Counter[str] = collections.Counter()
    for name, dataset in service.tables().items():
        number = int(name[1:])
        if number not in numbers:
            continue
        found = dataset.to_table()
        names = found.schema.names
        assert names in (["n", "half"], ["n", "halves"]), names
        assert found.schema.field("n").type in (pa.int64(), pa.int32())
        assert np.array_equal(found["n"].to_numpy(), np.arange(ROWS) + number), name
        assert np.array_equal(found[names[1]].to_numpy(), (np.arange(ROWS) + number) / 2), name
        assert np.array_equal(dataset.checkout_version(1).to_table()["n"].to_numpy(), np.arange(ROWS) + number)
        states["-".join([names[1], str(found.schema.field("n").type)])] += 1
    return states


def run(kills: int, seed: int) -> collections.Counter[str]:
    """Kill a client or the service, look at what is left, and go on."""
    random_ = random.Random(seed)
    counts: collections.Counter[str] = collections.Counter()
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, logged():
        for number in range(kills):
            with Process(Path(folder)) as service:
                start = processes.Event()
                client = processes.Process(target=work, args=(service.caller.url, number, start))
                client.start()
                start.wait(30)
                time.sleep(random_.uniform(0, 0.25))
                victim = random_.choice(["client", "service"])
                (client if victim == "client" else service).kill()
                client.join(30)
                counts[victim] += 1
            with Process(Path(folder)) as again:
                check(again, range(number, number + 1))
                assert [p for p in (Path(folder) / ".rt_frames-staging").iterdir() if p.suffix != ".lock"] == []
        with Process(Path(folder)) as last:
            counts.update(check(last, range(kills)))
    return counts


REPLACE = "/v1/table/t/create/?mode=overwrite"


class Replaced:
    """One table that is replaced again and again: each has its number in its column's name and in all its rows."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "t.lance")
        self.attempted = self.acknowledged = self.reads = 0

    def body(self) -> bytes:
        """Give the next table, of another size each time."""
        self.attempted += 1
        number = self.attempted
        return stream(pa.table({f"c{number}": np.arange(number, number + ROWS // (1 + number % 5))}), rows=10_000)

    def read(self) -> int:
        """Read what is there, and tell its number: it is whole."""
        found = lance.dataset(self.path).to_table()
        (name,) = found.schema.names
        number = int(name[1:])
        assert np.array_equal(found[name].to_numpy(), np.arange(number, number + ROWS // (1 + number % 5))), name
        self.reads += 1
        return number

    def replace(self, service: Process) -> None:
        """Replace until the service is killed."""
        with contextlib.suppress(requests.RequestException):
            while True:
                answer = service.caller.send("POST", REPLACE, self.body(), content_type=ARROW)
                assert answer.status_code == 200, answer.text
                self.acknowledged = self.attempted

    def break_off(self, service: Process, part: float) -> None:
        """Send a part of a table, and hang up."""
        body = self.body()
        with service.caller.connect() as connection:
            connection.sendall(service.caller.head(REPLACE, f"Content-Length: {len(body)}"))
            connection.sendall(body[: int(part * len(body))])

    def check(self) -> None:
        """Read what is left: the last table that was acknowledged, or one that was on the way behind it."""
        assert self.acknowledged <= self.read() <= self.attempted
        assert len(lance.dataset(self.path).versions()) <= 12


def read_meanwhile(table: Replaced, stop: threading.Event) -> None:
    """Open and read the table, over and over; there is always one, and it never becomes an older one."""
    last = 0
    while not stop.is_set():
        found = table.read()
        assert found >= last
        last = found


def run_replacing(kills: int, seed: int) -> collections.Counter[str]:
    """Replace a table, kill the service or hang up in the middle, and look at what is left."""
    random_ = random.Random(seed)
    counts: collections.Counter[str] = collections.Counter()
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as folder, logged(), ThreadPoolExecutor(2) as pool:
        table = Replaced(Path(folder))
        with Process(Path(folder)) as service:
            assert service.caller.send("POST", REPLACE, table.body(), content_type=ARROW).json() == {"version": 1}
        reader = pool.submit(read_meanwhile, table, stop)
        try:
            while sum(counts.values()) < kills and not reader.done():
                with Process(Path(folder)) as service:
                    assert service.caller.staged() == []
                    for _ in range(random_.randrange(3)):
                        table.break_off(service, random_.random())
                        counts["client"] += 1
                    writer = pool.submit(table.replace, service)
                    time.sleep(random_.uniform(0, 0.5))
                    service.kill()
                    counts["service"] += 1
                    writer.result(30)
                table.check()
        finally:
            stop.set()
        reader.result(30)
        counts["acknowledged"], counts["reads"] = table.acknowledged, table.reads
        versions = lance.dataset(table.path).versions()
        counts["unused files"] = len(list(Path(table.path, "data").iterdir())) - len(versions)
    return counts


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replace", action="store_true")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    print(dict((run_replacing if options.replace else run)(options.kills, options.seed)))


if __name__ == "__main__":
    main()
