"""Frames to send, and ways to do the same by turns."""

from __future__ import annotations

import datetime
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WORDS = np.array(
    [
        f"{word} {i}"
        for i in range(500)
        for word in ("north", "south-east", "W", "a longer district")
    ]
)


def numeric(nbytes: int) -> pa.Table:
    """Four columns of numbers, half of them random: they compress as real data do."""
    rows = nbytes // 32
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "id": np.arange(rows),
            "count": rng.integers(0, 1000, rows),
            "price": rng.integers(0, 100_000, rows) / 100,
            "x": rng.normal(size=rows),
        }
    )


def strings(nbytes: int) -> pa.Table:
    rows = nbytes // 52
    rng = np.random.default_rng(2)
    columns = {
        name: pa.array(WORDS).take(pa.array(rng.integers(0, len(WORDS), rows)))
        for name in ("place", "kind")
    }
    return pa.table(
        {name: column.cast(pa.large_string()) for name, column in columns.items()}
        | {"n": np.arange(rows)}
    )


def nested(nbytes: int) -> pa.Table:
    rows = nbytes // 56
    rng = np.random.default_rng(3)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int64) * 4)
    lists = pa.LargeListArray.from_arrays(offsets, pa.array(rng.normal(size=rows * 4)))
    point = pa.StructArray.from_arrays(
        [pa.array(rng.normal(size=rows)), pa.array(np.arange(rows))], ["x", "y"]
    )
    return pa.table({"values": lists, "point": point})


def lists(nbytes: int) -> pa.Table:
    """Lists of four texts."""
    text = strings(nbytes * 2)["place"].combine_chunks()
    offsets = pa.array(np.arange(len(text) // 4 + 1, dtype=np.int64) * 4)
    return pa.table({"places": pa.LargeListArray.from_arrays(offsets, text)})


def wide(columns: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({f"c{i}": rng.normal(size=rows) for i in range(columns)})


FIRST_DAY = datetime.date(2024, 1, 1)


def words_of(rows: int) -> np.ndarray:
    """Return random places in `WORDS`."""
    return np.random.default_rng(2).integers(0, len(WORDS), rows)


def ten_rows(_nbytes: int) -> pa.Table:
    return pa.table({"a": range(10), "b": np.arange(10) / 2, "t": list("abcdefghij")})


MAKERS = {
    "numeric": numeric,
    "strings": strings,
    "nested": nested,
    "lists": lists,
    "ten rows": ten_rows,
}


def frames(kind: str, nbytes: int) -> dict[str, Any]:
    """Return the same data as a frame of each library."""
    table = MAKERS[kind](nbytes)
    made: dict[str, Any] = {"Arrow": table, "Polars": pl.from_arrow(table)}
    if kind in ("numeric", "strings", "ten rows"):
        # as pandas keeps text by itself, from 2.3 on
        text = pd.StringDtype(na_value=np.nan)
        mapper = dict.fromkeys([pa.string(), pa.large_string()], text)
        made["pandas"] = table.to_pandas(types_mapper=mapper.get)
    return made


def stream_of(data: Any) -> bytes:
    """Write a frame as an Arrow stream with pyarrow."""
    table = arrow_of(data)
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, table.schema) as writer:
        writer.write_table(table)
    return written.getvalue().to_pybytes()


def arrow_of(data: Any) -> pa.Table:
    if isinstance(data, pl.DataFrame):
        return data.to_arrow()
    return data if isinstance(data, pa.Table) else pa.Table.from_pandas(data)


def alternating(
    ways: Mapping[str, Callable[[], Any]],
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each way, after a round that does not count."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 1):
        for name, way in ways.items():
            start = clock()
            way()
            times[name].append(clock() - start)
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}
