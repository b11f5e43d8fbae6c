"""A folder beside `lance`, `lancedb` and `deltalake`: the same calls by turns.

Run ``python -m tests.benchmarks.folder``; words choose calls by the start of their
names. It prints milliseconds of processor time, and how many times as many rt_frames
took. Libraries that are not installed are left out.
"""

from __future__ import annotations

import datetime as dt
import functools
import importlib.util
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import rt_frames as rt
from tests.benchmarks._frames import (
    FIRST_DAY,
    WORDS,
    alternating,
    nested,
    numeric,
    strings,
    wide,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # the name of a library → its call
    Ways = dict[str, Callable[[], Any]]

NBYTES = 60 * 10**6
MILLION = 10**6
FRAMES = 30
REPEATS = 5
# and as many times more of calls that take milliseconds
SMALL = 6
OURS = "rt_frames"
ON_ID = "t.id = s.id"
IS_FIRST = f"day = date '{FIRST_DAY}'"
READS: dict[str, dict[str, Callable[[Any], Any]]] = {  # of a table that was opened
    "rows": {
        OURS: lambda table: table.to_polars(),
        "lance": lambda table: pl.from_arrow(table.to_table()),
        "lancedb": lambda table: pl.from_arrow(table.to_arrow()),
        "deltalake": lambda table: pl.from_arrow(pa.table(table.to_pyarrow_table())),
    },
    "count": {
        OURS: lambda table: table.count(),
        "lance": lambda table: table.count_rows(),
        "lancedb": lambda table: table.count_rows(),
        "deltalake": lambda table: table.count(),
    },
    "head": {
        OURS: lambda table: table.head(5),
        "lance": lambda table: table.head(5),
        "lancedb": lambda table: table.head(5),
    },
    "a day": {
        OURS: lambda table: table.to_polars(where=pl.col("day") == FIRST_DAY),
        "lance": lambda table: pl.from_arrow(table.to_table(filter=IS_FIRST)),
        "lancedb": lambda table: table.search().where(IS_FIRST).limit(None).to_polars(),
        "deltalake": lambda table: table.to_pyarrow_table([("day", "=", FIRST_DAY)]),
    },
    "a day of scan": {
        OURS: lambda table: table.scan().filter(pl.col("day") == FIRST_DAY).collect(),
    },
}


def categories(nbytes: int) -> pa.Table:
    rows = nbytes // 12
    codes = pa.array(words_of(rows).astype(np.int32))
    column = pa.DictionaryArray.from_arrays(codes, pa.array(WORDS, pa.large_string()))
    return pa.table({"k": column, "n": np.arange(rows)})


KINDS: dict[str, Callable[[int], pa.Table]] = {
    "numbers": numeric,
    "text": strings,
    "nested": nested,
    "categories": categories,
    "100 columns": lambda nbytes: wide(100, nbytes // 800),
    "1,000 columns": lambda nbytes: wide(1000, nbytes // 8000),
}


def daily(height: int) -> pa.Table:
    """Make rows, a tenth of them of each day."""
    rows = np.arange(height)
    days = pa.array([FIRST_DAY + dt.timedelta(n) for n in range(10)])
    return pa.table(
        {"id": rows, "day": days.take(pa.array(rows * 10 // height)), "x": rows / 7}
    )


def with_text_keys(table: pa.Table) -> pa.Table:
    keys = [f"order-{key:012d}" for key in table["id"].to_pylist()]
    return table.set_column(0, "id", pa.array(keys))


class Peers:
    """A new folder, in which every library has tables of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = rt.connect(folder / OURS, default=False)
        self.libraries = {
            name for name in ("lancedb", "deltalake") if importlib.util.find_spec(name)
        }

    def path(self, library: str, name: str) -> str:
        return str(self.folder / library / f"{name}.lance")

    def database(self) -> Any:
        import lancedb

        return lancedb.connect(self.folder / "lancedb")

    def delta(self, name: str) -> Any:
        import deltalake

        return deltalake.DeltaTable(self.path("deltalake", name))

    def chosen(self, ways: Ways) -> Ways:
        """Leave out the libraries that are not installed."""
        left_out = {"lancedb", "deltalake"} - self.libraries
        return {name: way for name, way in ways.items() if name not in left_out}

    def store(self, name: str, data: Any, **options: Any) -> None:
        self.client.create_table(name, data, progress=False, **options)

    def store_delta(self, name: str, data: Any, **options: Any) -> None:
        import deltalake

        deltalake.write_deltalake(self.path("deltalake", name), data, **options)

    def write(self, name: str, data: Callable[[], Any], mode: str = "append") -> Ways:
        """Return the ways to write a frame or a stream, and to replace by it."""
        if_exists = "append" if mode == "append" else "replace"
        path = self.path("lance", name)

        def database() -> None:
            if mode == "append":
                self.database().open_table(name).add(data())
            else:
                self.database().create_table(name, data(), mode=mode)

        return self.chosen(
            {
                OURS: lambda: self.store(name, data(), if_exists=if_exists),
                "lance": lambda: lance.write_dataset(data(), path, mode=mode),
                "lancedb": database,
                "deltalake": lambda: self.store_delta(name, data(), mode=mode),
            }
        )

    def read(self, name: str, call: str) -> Ways:
        """Return the ways to open a table, and to read of it what ``READS`` says."""
        path = self.path("lance", name)
        openers = {
            OURS: lambda: self.client.table(name),
            "lance": lambda: lance.dataset(path),
            "lancedb": lambda: self.database().open_table(name),
            "deltalake": lambda: self.delta(name),
        }
        ways: Ways = {}
        for library, read in READS[call].items():
            ways[library] = functools.partial(read_opened, openers[library], read)
        return self.chosen(ways)

    def upsert(self, name: str, rows: pa.Table) -> Ways:
        def merge(builder: Any) -> None:
            builder = builder.when_matched_update_all()
            builder.when_not_matched_insert_all().execute(rows)

        def delta() -> None:
            merger = self.delta(name).merge(
                rows, ON_ID, source_alias="s", target_alias="t"
            )
            merger.when_matched_update_all().when_not_matched_insert_all().execute()

        path = self.path("lance", name)
        return self.chosen(
            {
                OURS: lambda: self.store(name, rows, if_exists="upsert", on="id"),
                "lance": lambda: merge(lance.dataset(path).merge_insert("id")),
                "lancedb": lambda: merge(
                    self.database().open_table(name).merge_insert("id")
                ),
                "deltalake": delta,
            }
        )

    def replace_day(self, name: str, rows: pa.Table) -> Ways:
        """Return the ways to replace the first day: two commits for two of them."""
        path = self.path("lance", name)

        def in_lance() -> None:
            lance.dataset(path).delete(IS_FIRST)
            lance.write_dataset(rows, path, mode="append")

        def in_lancedb() -> None:
            table = self.database().open_table(name)
            table.delete(IS_FIRST)
            table.add(rows)

        ours = {"if_exists": "replace", "where": pl.col("day") == FIRST_DAY}
        theirs = {"mode": "overwrite", "predicate": f"day = '{FIRST_DAY}'"}
        return self.chosen(
            {
                OURS: lambda: self.store(name, rows, **ours),
                "lance": in_lance,
                "lancedb": in_lancedb,
                "deltalake": lambda: self.store_delta(name, rows, **theirs),
            }
        )


def read_opened(opener: Callable[[], Any], read: Callable[[Any], Any]) -> Any:
    return read(opener())


def show(name: str, ways: Ways, repeats: int) -> None:
    medians = alternating(ways, repeats, time.process_time)
    line = f"{name:<26}"
    for library, seconds in medians.items():
        line += f"{library:>12}{seconds * 1000:>8.1f}"
        if library != OURS:
            line += f" ({medians[OURS] / seconds:.2f})"
    print(line, flush=True)


def frames(
    peers: Peers, wanted: Callable[[str], bool], nbytes: int, repeats: int
) -> None:
    """Create and read tables of every kind, made of one frame and of thirty."""
    for kind, make in KINDS.items():
        table = make(nbytes)
        name = kind.replace(" ", "-").replace(",", "")
        rows = -(-len(table) // FRAMES)

        def streamed(table: pa.Table = table, rows: int = rows) -> Any:
            pieces = table.to_batches(max_chunksize=rows)
            return pa.RecordBatchReader.from_batches(table.schema, pieces)

        if wanted("create"):
            streams = peers.write(name, streamed, "overwrite")
            show(f"create {kind}, {FRAMES} frames", streams, repeats)
        whole = peers.write(name, lambda table=table: table, "overwrite")
        if wanted("create"):
            show(f"create {kind}", whole, repeats)
        if wanted("read"):
            for write in whole.values():
                write()
            show(f"read {kind}", peers.read(name, "rows"), repeats)


def calls(peers: Peers, rows: int) -> Iterator[tuple[str, Ways, int]]:
    """Make a table, and yield calls that change or ask it, and how often."""
    table = daily(rows)
    for write in peers.write("t", lambda: table, "overwrite").values():
        write()
    for call in ("count", "head", "a day", "a day of scan"):
        yield call, peers.read("t", call), SMALL
    ten = table.slice(0, 10)
    yield "append ten rows", peers.write("t", lambda: ten), SMALL
    existing = pa.array(range(0, rows, rows // 1000))
    thousand = table.take(existing).set_column(0, "id", pc.add(existing, 500))
    yield "upsert 1,000", peers.upsert("t", thousand), 1
    day = table.filter(pc.equal(table["day"], FIRST_DAY))
    yield "upsert a day", peers.upsert("t", day), 1
    yield "replace a day", peers.replace_day("t", day), 1
    named = with_text_keys(table)
    for write in peers.write("named", lambda: named, "overwrite").values():
        write()
    of_day = with_text_keys(day)
    yield "upsert a day, by text", peers.upsert("named", of_day), 1


def main(
    words: list[str],
    nbytes: int = NBYTES,
    rows: int = MILLION,
    repeats: int = REPEATS,
) -> None:
    def wanted(name: str) -> bool:
        return not words or name.startswith(tuple(words))

    with tempfile.TemporaryDirectory() as folder:
        peers = Peers(Path(folder))
        frames(peers, wanted, nbytes, repeats)
        for name, ways, times in calls(peers, rows):
            if wanted(name):
                show(name, ways, repeats * times)


if __name__ == "__main__":
    main(sys.argv[1:])
