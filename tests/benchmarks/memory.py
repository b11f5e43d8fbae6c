"""Peak memory of uploads, each in its own process.

Run ``python -m tests.benchmarks.memory``. For a frame in memory, the peak above the
frame; for a stream, the peak of the whole process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import rt_frames as rt
from tests.benchmarks._frames import frames, numeric
from tests.benchmarks._sinks import sink
from tests.support.faults import resident

if TYPE_CHECKING:
    from collections.abc import Iterator

GB = 10**9
FILE = Path(tempfile.gettempdir()) / "rt_frames_memory.parquet"


def reader(nbytes: int) -> pa.RecordBatchReader:
    rows = 500_000
    schema = pa.schema([("a", pa.int64()), ("b", pa.float64())])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, nbytes // 16, rows):
            yield pa.record_batch(
                [
                    np.arange(start, start + rows),
                    np.random.default_rng(0).normal(size=rows),
                ],
                schema,
            )

    return pa.RecordBatchReader.from_batches(schema, batches())


def lazy(nbytes: int) -> pl.LazyFrame:
    """Read a file of 0.2 GB repeatedly, and compute a value of each row."""
    return pl.concat([pl.scan_parquet(FILE)] * (5 * nbytes // GB)).with_columns(
        y=pl.col("x") * 0.5
    )


def partition(number: int, rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(number)
    return pd.DataFrame({name: rng.normal(size=rows) for name in "abcdefgh"})


def dask(port: str, size: str) -> None:
    """Upload 40 partitions of two processes, and print the peak here, in partitions."""
    import dask.dataframe as dd
    import distributed

    rows = int(float(size) * GB) // 40 // 64
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster),
        rt.connect(f"http://127.0.0.1:{port}", api_key="k", default=False) as client,
    ):
        for each in (10, rows):
            Path("/proc/self/clear_refs").write_text("5")
            before = resident("VmRSS")
            client.create_table(
                "t",
                dd.from_map(partition, range(40), rows=each, meta=partition(0, 1)),
                progress=False,
            )
    peak = resident("VmHWM") - before
    partitions = peak / (rows * 64)
    taken = f"{peak / 1e6:>10.0f} MB, {partitions:.1f} partitions"
    print(f"{'Dask, 40 partitions':<22}{size:>4} GB{taken}")


def one(port: str, kind: str, size: str) -> None:
    """Upload in this process and print its peak."""
    nbytes = int(float(size) * GB)
    before = 0
    if kind in ("reader", "lazy"):
        data = {"reader": reader, "lazy": lazy}[kind](nbytes)
    else:
        data = frames(kind.split(maxsplit=1)[0], nbytes)[kind.split()[1]]
    with rt.connect(f"http://127.0.0.1:{port}", api_key="k", default=False) as client:
        if kind not in ("reader", "lazy"):
            # what is imported once is no memory of an upload
            rt.to_table(pl.DataFrame({"a": [1]}), "t", client=client)
            Path("/proc/self/clear_refs").write_text("5")
            before = resident("VmRSS")
        client.create_table("t", data, progress=False)
    print(f"{kind:<22}{size:>4} GB{max(0, resident('VmHWM') - before) / 1e6:>10.0f} MB")


def main() -> None:
    kinds = [
        f"{kind} {library}"
        for kind in ("numeric", "strings")
        for library in ("Arrow", "Polars", "pandas")
    ]
    kinds.append("lists Polars")
    cases = [(kind, "1") for kind in kinds] + [
        (kind, size) for kind in ("reader", "lazy") for size in ("1", "4", "16")
    ]
    cases.append(("dask", "10"))
    pl.from_arrow(numeric(GB // 5)).write_parquet(FILE)
    try:
        with sink() as port:
            for case in cases:
                subprocess.run(
                    [sys.executable, "-m", "tests.benchmarks.memory", str(port), *case],
                    check=True,
                )
    finally:
        FILE.unlink()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[2] == "dask":
        dask(sys.argv[1], sys.argv[3])
    else:
        one(*sys.argv[1:])
