"""A cluster that writes a table while its workers are killed.

All rows are stored once, or none and an error is raised.
``python -m tests.longer.cluster 2`` writes that many gigabytes, and prints the client's
time and memory, next to those of the same frame written through the client.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dask.dataframe as dd
import lance
import numpy as np
import pandas as pd

import rt_frames as rt
from tests.support.local import Process
from tests.support.servers import KEY

PARTITIONS = 8
ROWS = 20_000
META = {"n": "int64", "half": "float64"}


def partition(number: int, rows: int = ROWS) -> pd.DataFrame:
    """Make a partition whose rows show its number and whether it is complete."""
    n = np.arange(rows) + number * rows
    return pd.DataFrame({"n": n, "half": n / 2})


def frame(partitions: int = PARTITIONS, rows: int = ROWS) -> Any:
    return dd.from_map(partition, range(partitions), rows=rows, meta=META)


@contextlib.contextmanager
def cluster(workers: int = 2) -> Iterator[str]:
    """Run a scheduler and workers, which have the key and restart when killed."""
    command = [sys.executable, "-c", _CLUSTER, str(workers)]
    environment = {**os.environ, "RT_FRAMES_API_KEY": KEY}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout
        yield process.stdout.readline().decode().strip()
        process.communicate()


_CLUSTER = """
import logging, sys, dask, distributed
if __name__ == "__main__":
    dask.config.set({"distributed.logging.distributed": "critical"})
    with distributed.LocalCluster(
        n_workers=int(sys.argv[1]),
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


def run(runs: int, seed: int) -> Counter[str]:
    """Kill a worker at a random moment of each write, and check the stored rows."""
    import distributed

    draw = random.Random(seed)
    ends = Counter[str]()
    with tempfile.TemporaryDirectory() as folder, Process(Path(folder)) as service:
        for number in range(runs):
            name = f"t{number}"
            with cluster() as address, distributed.Client(address) as workers:
                pid = draw.choice([*workers.run(os.getpid).values()])
                killing = threading.Timer(
                    draw.uniform(0, 1), os.kill, (pid, signal.SIGKILL)
                )
                killing.start()
                ends[end := write(service.caller.url, name)] += 1
                killing.join()
            check(Path(folder), name, is_there=end == "whole")
    return ends


def write(url: str, name: str) -> str:
    """Write a table, and return how that ended."""
    try:
        rt.connect(url, api_key=KEY, dialect="lancedb", default=False).create_table(
            name, frame(), compression=None
        )
    except Exception as error:  # noqa: BLE001  # Dask's own, too
        return type(error).__name__
    return "whole"


def check(
    folder: Path,
    name: str,
    *,
    is_there: bool,
    partitions: int = PARTITIONS,
    rows: int = ROWS,
) -> None:
    """Check that a table has all rows in order, or does not exist."""
    path = folder / f"{name}.lance"
    start = 0
    assert path.exists() == is_there, name
    if is_there:
        for batch in lance.dataset(path).to_batches():
            n = np.arange(start, start + batch.num_rows)
            assert np.array_equal(batch["n"].to_numpy(), n), name
            assert np.array_equal(batch["half"].to_numpy(), n / 2), name
            start += batch.num_rows
        assert start == partitions * rows


class Measured(NamedTuple):
    """A write's seconds, its client's peak memory, and the bytes the client sent."""

    seconds: float
    peak: int
    sent: int


def measure(gigabytes: float, *, through_the_client: bool = False) -> Measured:
    """Write so much in partitions of 50 MB from two workers, and check it."""
    rows = 50 * 10**6 // 16
    partitions = round(gigabytes * 20)
    with (
        tempfile.TemporaryDirectory() as folder,
        Process(Path(folder)) as service,
        cluster() as address,
    ):
        command = [
            sys.executable,
            "-c",
            _CLIENT,
            address,
            service.caller.url,
            KEY,
            str(partitions),
            str(rows),
        ]
        told = subprocess.check_output(
            [*command, str(int(through_the_client))], text=True
        )
        check(Path(folder), "t", is_there=True, partitions=partitions, rows=rows)
    return Measured(*json.loads(told))


_CLIENT = """
import distributed, json, os, socket, struct, sys, time
from pathlib import Path
import rt_frames as rt
from tests.longer.cluster import frame
from tests.support.processes import memory

if __name__ == "__main__":
    scheduler, url, key, partitions, rows, through = sys.argv[1:]
    with distributed.Client(scheduler) as workers:
        client = rt.connect(url, api_key=key, dialect="lancedb", default=False)
        client.list_tables()
        data = frame(int(partitions), int(rows))
        if int(through):
            data = (part.compute() for part in data.to_delayed())
        start, sent = time.perf_counter(), 0
        client.create_table("t", data)
        seconds = time.perf_counter() - start
        for one in Path("/proc/self/fd").iterdir():
            if one.is_symlink() and os.readlink(one).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(one.name))) as connection:
                    if connection.family != socket.AF_UNIX:
                        # bytes that were acknowledged, in Linux's tcp_info
                        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
                        sent += struct.unpack_from("Q", info, 120)[0]
    print(json.dumps([seconds, memory("VmHWM"), sent]))
"""


if __name__ == "__main__":
    for way in (False, True):
        seconds, peak, sent = measure(float(sys.argv[1]), through_the_client=way)
        print("through the client" if way else "by the workers", f"{seconds:.1f} s,")
        print(f"  the client at most {peak / 1e6:.0f} MB, sent {sent / 1e6:.2f} MB")
