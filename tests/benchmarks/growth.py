"""What one more small write costs, and how many files there are, as a table grows old.

Run ``python -m tests.benchmarks.growth``, with ``--long`` up to 3,000 writes.
"""

from __future__ import annotations

import argparse
import datetime
import os
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import rt_frames as rt
from rt_frames.local import LocalService

BASE_ROWS = 100_000
ROWS = 1_000
COUNTS = (10, 100, 300, 1_000, 3_000)
# writes of which each number is the mean
MEASURED = 10
KEPT = datetime.timedelta(days=1)
Write = Callable[[pa.Table], object]


def rows(keys: np.ndarray) -> pa.Table:
    return pa.table({"id": keys, "x": keys / 7, "word": [f"w{key}" for key in keys]})


def upserted(number: int) -> pa.Table:
    random = np.random.default_rng(number)
    return rows(np.sort(random.choice(BASE_ROWS, ROWS, replace=False)))


def appended(number: int) -> pa.Table:
    first = BASE_ROWS + number * ROWS
    return rows(np.arange(first, first + ROWS))


def measure(title: str, folder: Path, write: Write, frame, counts) -> None:
    """Print the processor's time of a write, and the files, after each count."""
    figures = []
    spent: list[float] = []
    for number in range(1, counts[-1] + 1):
        table = frame(number)
        start = time.process_time()
        write(table)
        spent.append(time.process_time() - start)
        if number in counts:
            mean = sum(spent[-MEASURED:]) / MEASURED * 1000
            longest = max(spent) * 1000
            files = sum(len(names) for _, _, names in os.walk(folder))
            figures.append(
                f"{number:,}: {mean:.1f} ({longest:.0f}) ms, {files:,} files"
            )
    print(f"{title:<22}" + "; ".join(figures), flush=True)


def ours(root: Path, counts) -> None:
    with LocalService(root / "ours") as service:
        client = rt.connect(
            service.url,
            api_key=service.api_key,
            dialect="lancedb",
            default=False,
        )
        for kind, frame in (("upsert", upserted), ("append", appended)):
            client.create_table(kind, rows(np.arange(BASE_ROWS)), progress=False)
            options = {"on": "id"} if kind == "upsert" else {}

            def write(table, kind=kind, options=options):
                rt.to_table(table, kind, client=client, if_exists=kind, **options)

            folder = root / "ours" / f"{kind}.lance"
            measure(f"rt_frames {kind}", folder, write, frame, counts)
            after_a_day(client, folder, frame(0), write)


def after_a_day(client: rt.Client, folder: Path, table: pa.Table, write: Write) -> None:
    """Print the time of the first write after all versions expired."""
    long_ago = time.time() - 25 * 3600
    for path in folder.rglob("*"):
        os.utime(path, (long_ago, long_ago))
    times = []
    for _ in range(3):
        start = time.perf_counter()
        write(table)
        times.append(f"{time.perf_counter() - start:.2f} s")
    left = len(lance.dataset(str(folder)).versions())
    print(
        f"{'  versions expired':<22}{', '.join(times)}; {left:,} versions", flush=True
    )


def by_deltalake(root: Path, counts) -> None:
    import deltalake

    folder = str(root / "delta")
    deltalake.write_deltalake(folder, rows(np.arange(BASE_ROWS)))

    def upsert(table):
        merge = deltalake.DeltaTable(folder).merge(
            table, "s.id = t.id", source_alias="s", target_alias="t"
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def append(table):
        deltalake.write_deltalake(folder, table, mode="append")

    measure("deltalake upsert", Path(folder), upsert, upserted, counts)
    measure("deltalake append", Path(folder), append, appended, counts)


def by_lancedb(root: Path, counts) -> None:
    import lancedb

    folder = root / "lancedb"
    database = lancedb.connect(folder)
    for kind, frame in (("upsert", upserted), ("append", appended)):
        table = database.create_table(kind, rows(np.arange(BASE_ROWS)))

        def upsert(rows, table=table):
            merge = table.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(rows)

        write = upsert if kind == "upsert" else table.add
        measure(f"lancedb {kind}", folder / f"{kind}.lance", write, frame, counts)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--most", type=int, default=1_000)
    options = parser.parse_args()
    most = COUNTS[-1] if options.long else options.most
    counts = [count for count in COUNTS if count <= most]
    print("mean (longest) processor time of a write of 1,000 rows, after n writes")
    with tempfile.TemporaryDirectory() as folder:
        ours(Path(folder), counts)
        if find_spec("deltalake"):
            by_deltalake(Path(folder), counts)
        if find_spec("lancedb"):
            by_lancedb(Path(folder), counts)


if __name__ == "__main__":
    main()
