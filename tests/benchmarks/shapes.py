"""Frames of every shape against what anybody would write: an Arrow table, its stream in a BytesIO, `requests.post`.

Run: ``python -m tests.benchmarks.shapes``, with words of the names of shapes to run only those. The last column says
how many times as long rt_frames takes; of ``Polars text``, how much of a POST of prepared bytes it reaches.
"""

from __future__ import annotations

import datetime
import decimal
import io
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import requests

import rt_frames as rt
from tests.benchmarks._frames import stream_of, strings
from tests.benchmarks._sinks import sink

if TYPE_CHECKING:
    from collections.abc import Callable

HEADERS = {"x-api-key": "k", "Content-Type": "application/vnd.apache.arrow.stream"}
ROWS = 200_000
DAY, WORDS = datetime.date(2024, 1, 1), [f"word {i}" for i in range(5000)]


def wide(columns: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({f"c{i}": rng.normal(size=rows) for i in range(columns)})


def objects(cell: Callable[[int], Any]) -> pd.DataFrame:
    return pd.DataFrame({"o": pd.Series([cell(i) for i in range(ROWS)], dtype=object)})


def shapes() -> dict[str, Callable[[], Any]]:
    few, many = np.random.default_rng(2).integers(0, 5000, (2, 2_000_000)), ROWS * 10
    text = [WORDS[i] for i in few[0][:ROWS]]
    return {
        "10,000 x 10, Arrow": lambda: wide(10_000, 10),
        "10,000 x 10, Polars": lambda: pl.from_arrow(wide(10_000, 10)),
        "10,000 x 10, pandas": lambda: wide(10_000, 10).to_pandas(),
        "3,000 x 1,000, Polars": lambda: pl.from_arrow(wide(3_000, 1_000)),
        "3,000 x 1,000, pandas": lambda: wide(3_000, 1_000).to_pandas(),
        "objects, text": lambda: objects(lambda i: text[i]),
        "objects, text and None": lambda: objects(lambda i: text[i] if i % 7 else None),
        "objects, dates": lambda: objects(lambda i: DAY + datetime.timedelta(i % 1000)),
        "objects, decimals": lambda: objects(lambda i: decimal.Decimal(i) / 100),
        "objects, dicts": lambda: objects(lambda i: {"x": i, "name": text[i]}),
        "objects, arrays": lambda: objects(lambda i: np.arange(i % 5, dtype="float64")),
        "pandas category": lambda: pd.DataFrame({"c": pd.Categorical.from_codes(few[0], WORDS)}),
        "pandas Int64": lambda: pd.DataFrame({"n": pd.array(np.arange(many), dtype="Int64")}),
        "pandas Int64 and NA": lambda: pd.DataFrame({"n": pd.array([*range(ROWS), None] * 10, dtype="Int64")}),
        "Polars Categorical": lambda: pl.DataFrame({"c": pl.Series(text * 10, dtype=pl.Categorical)}),
        "ten rows": lambda: pd.DataFrame({"a": range(10), "b": np.arange(10) / 2, "t": list("abcdefghij")}),
    }  # fmt: skip


def by_hand(url: str, data: Any) -> None:
    if isinstance(data, pa.Table):
        table = data
    else:
        table = data.to_arrow() if isinstance(data, pl.DataFrame) else pa.Table.from_pandas(data)
    body = io.BytesIO()
    with pa.ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table)
    post(url, body.getvalue())


def post(url: str, body: Any) -> None:
    requests.post(f"{url}/v1/table/t/create/", data=body, headers=HEADERS, timeout=60).raise_for_status()


def in_threads(way: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(way) for _ in range(80)]:
                done.result()

    return run


def compare(title: str, ours: Callable[[], Any], other: Callable[[], Any], *, as_speed: bool = False) -> None:
    """Run both by turns until two seconds went by, and print their medians."""
    ours(), other()
    times: tuple[list[float], list[float]] = [], []
    start = time.perf_counter()
    while len(times[1]) < 7 or (time.perf_counter() - start < 2 and len(times[1]) < 200):
        for way, taken in zip((ours, other), times, strict=True):
            began = time.perf_counter()
            way()
            taken.append(time.perf_counter() - began)
    one, two = (statistics.median(taken) for taken in times)
    ratio = two / one if as_speed else one / two
    print(f"{title:<28}{one * 1000:>10.1f} ms{two * 1000:>10.1f} ms{ratio:>8.2f}", flush=True)


def main(words: list[str]) -> None:
    print(f"{'':<28}{'rt_frames':>13}{'by hand':>13}")
    with sink() as port, rt.connect(f"http://127.0.0.1:{port}", api_key="k", default=False) as client:
        url = f"http://127.0.0.1:{port}"
        for name, make in shapes().items():
            if words and not any(word in name for word in words):
                continue
            data = make()
            ways = [
                lambda data=data: client.create_table("t", data, progress=False),
                lambda data=data: by_hand(url, data),
            ]
            compare(name, *ways)
            if name == "ten rows":
                compare("ten rows, 8 threads, 80 x", *map(in_threads, ways))
        if not words or "Polars text" in words:
            data = pl.from_arrow(strings(200 * 10**6))
            prepared = stream_of(data)
            ours = lambda: client.create_table("t", data, progress=False)  # noqa: E731
            compare("Polars text, of prepared", ours, lambda: post(url, prepared), as_speed=True)


if __name__ == "__main__":
    main(sys.argv[1:])
