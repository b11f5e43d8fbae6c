"""Frames of every shape against what anybody would write: an Arrow table, its stream in a BytesIO, `requests.post`.

Run: ``python -m tests.benchmarks.shapes``, with words of the names of shapes to run only those. The last column says
how many times as long rt_frames takes.
"""

from __future__ import annotations

import datetime
import decimal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import rt_frames as rt
from tests.benchmarks._frames import alternating
from tests.benchmarks._sinks import sink
from tests.benchmarks.upload import by_bytesio

if TYPE_CHECKING:
    from collections.abc import Callable

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


def in_threads(way: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(way) for _ in range(80)]:
                done.result()

    return run


def main(words: list[str]) -> None:
    print(f"{'':<28}{'rt_frames':>13}{'by hand':>13}")
    with sink() as port, rt.connect(f"http://127.0.0.1:{port}", api_key="k", default=False) as client:
        for name, make in shapes().items():
            if words and not any(word in name for word in words):
                continue
            data = make()
            ways = {
                "ours": lambda data=data: client.create_table("t", data, progress=False),
                "by hand": lambda data=data: by_bytesio(client.url, data),
            }
            compared = {name: (ways, 50)}
            if name == "ten rows":
                compared["ten rows, 8 threads, 80 x"] = ({one: in_threads(way) for one, way in ways.items()}, 7)
            for title, (pair, repeats) in compared.items():
                ours, other = alternating(pair, repeats).values()
                print(f"{title:<28}{ours * 1000:>10.1f} ms{other * 1000:>10.1f} ms{ours / other:>8.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
