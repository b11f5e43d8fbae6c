"""Frames to send, and the output of results."""

from __future__ import annotations

import datetime
import decimal
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


def objects(cell: Callable[[int], Any]) -> pd.DataFrame:
    return pd.DataFrame(
        {"o": pd.Series([cell(i) for i in range(200_000)], dtype=object)}
    )


FIRST_DAY = datetime.date(2024, 1, 1)
WITH_NULLS = [*range(200_000), None] * 10
TEN_ROWS = {"a": range(10), "b": np.arange(10) / 2, "t": list("abcdefghij")}


def words_of(rows: int) -> np.ndarray:
    """Return random places in `WORDS`."""
    return np.random.default_rng(2).integers(0, len(WORDS), rows)


TEXTS = WORDS[words_of(200_000)].tolist()


def text(i: int) -> str:
    return TEXTS[i]


def text_or_none(i: int) -> str | None:
    return TEXTS[i] if i % 7 else None


def day(i: int) -> datetime.date:
    return FIRST_DAY + datetime.timedelta(i % 1000)


def numbers(i: int) -> np.ndarray:
    return np.arange(i % 5, dtype="float64")


def pandas_category() -> pd.DataFrame:
    codes = pd.Categorical.from_codes(words_of(2_000_000), WORDS)
    return pd.DataFrame({"c": codes})


def polars_category() -> pl.DataFrame:
    words = WORDS[words_of(2_000_000)]
    return pl.DataFrame({"c": pl.Series(words, dtype=pl.Categorical)})


def optional(values: Any) -> pd.DataFrame:
    return pd.DataFrame({"n": pd.array(values, dtype="Int64")})


# functions that make frames of other shapes than long plain tables
SHAPES: dict[str, Callable[[], Any]] = {
    "10,000 x 10, Arrow": lambda: wide(10_000, 10),
    "10,000 x 10, Polars": lambda: pl.from_arrow(wide(10_000, 10)),
    "10,000 x 10, pandas": lambda: wide(10_000, 10).to_pandas(),
    "3,000 x 1,000, Polars": lambda: pl.from_arrow(wide(3_000, 1_000)),
    "3,000 x 1,000, pandas": lambda: wide(3_000, 1_000).to_pandas(),
    "objects, text": lambda: objects(text),
    "objects, text and None": lambda: objects(text_or_none),
    "objects, dates": lambda: objects(day),
    "objects, decimals": lambda: objects(lambda i: decimal.Decimal(i) / 100),
    "objects, dicts": lambda: objects(lambda i: {"x": i, "name": text(i)}),
    "objects, arrays": lambda: objects(numbers),
    "pandas category": pandas_category,
    "pandas Int64": lambda: optional(words_of(2_000_000)),
    "pandas Int64 and NA": lambda: optional(WITH_NULLS),
    "Polars Categorical": polars_category,
    "ten rows": lambda: pd.DataFrame(TEN_ROWS),
}


MAKERS = {"numeric": numeric, "strings": strings, "nested": nested, "lists": lists}


def frames(kind: str, nbytes: int) -> dict[str, Any]:
    """Return the same data as a frame of each library."""
    table = MAKERS[kind](nbytes)
    made: dict[str, Any] = {"Arrow": table, "Polars": pl.from_arrow(table)}
    if kind in ("numeric", "strings"):
        made["pandas"] = pd.DataFrame(
            {
                name: column.to_pandas()
                if pa.types.is_primitive(column.type)
                else pd.array(column, dtype="str")
                for name, column in zip(table.column_names, table.columns, strict=True)
            }
        )
    return made


def stream_of(data: Any) -> bytes:
    """Write a frame as an Arrow stream with pyarrow."""
    table = arrow_of(data)
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, table.schema) as writer:
        writer.write_table(table)
    return written.getvalue().to_pybytes()


def arrow_of(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    return (
        data.to_arrow()
        if isinstance(data, pl.DataFrame)
        else pa.Table.from_pandas(data)
    )


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


def show(
    title: str, medians: Mapping[str, float], nbytes: int, ours: str = "rt_frames"
) -> None:
    """Print the speed of each way, and its time relative to that of rt_frames."""
    for name, seconds in medians.items():
        ratio = seconds / medians[ours]
        taken = f"{seconds * 1000:>10.1f} ms{nbytes / seconds / 1e9:>8.2f} GB/s"
        print(f"{title:<24}{name:<26}{taken}{ratio:>8.2f}x")
