"""How fast frames are converted and compressed on one core and on more. Run: ``python -m tests.benchmarks.cores``.

Nothing is sent: a network or a service that is slower than the last column is what an upload waits for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from rt_frames._frames.any_frame import open_source
from rt_frames._frames.compression import CompressionPolicy, LinkMemory
from rt_frames._frames.ipc import IPCStream
from tests.benchmarks._frames import alternating, numeric, strings

if TYPE_CHECKING:
    from rt_frames._frames.compression import Compression

NBYTES = 104 * 10**6


def mixed(nbytes: int) -> pa.Table:
    """Six columns: two of text, four of numbers."""
    text, numbers = strings(nbytes // 2), numeric(nbytes // 2)
    rows = min(len(text), len(numbers))
    columns = [text["place"], text["kind"], *numbers.columns]
    return pa.table({f"c{place}": column.slice(0, rows) for place, column in enumerate(columns)})


def make(data: pa.Table | pl.DataFrame, compression: Compression) -> None:
    stream = IPCStream(open_source(data), CompressionPolicy(compression, LinkMemory(), is_loopback=True))
    sum(len(buffer) for buffers in stream for buffer in buffers)


def measure() -> None:
    """Print the rates on the cores that this process may use."""
    for name, table in {"mixed": mixed(NBYTES), "one text": strings(NBYTES * 2).select(["place"])}.items():
        ways = {"Polars, none": partial(make, pl.from_arrow(table), "auto")}  # nobody waits, so nothing is
        for codec in ("lz4", "zstd"):
            ways[f"Arrow, {codec}"] = partial(make, table, codec)
            ways[f"Polars, {codec}"] = partial(make, pl.from_arrow(table), codec)
        for way, seconds in alternating(ways).items():
            print(
                f"{name:<12}{way:<16}{pa.cpu_count():>3} core(s){table.nbytes / seconds / 1e6:>8.0f} MB/s", flush=True
            )


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))
    count = 1
    while count <= len(cores):
        some = set(cores[:count])
        command = [sys.executable, "-m", "tests.benchmarks.cores", "--here"]
        subprocess.run(command, check=True, preexec_fn=lambda some=some: os.sched_setaffinity(0, some))
        count *= 2


if __name__ == "__main__":
    measure() if "--here" in sys.argv else main()
