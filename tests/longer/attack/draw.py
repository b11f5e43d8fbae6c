"""Draw one case: a frame of some kind, cut into pieces or not, and how it is sent."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa

from tests.longer.attack import casts, judge, make_arrow, make_duckdb, make_pandas, make_polars
from tests.longer.attack.judge import WAYS, Case

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = [0, 1, 2, 3, 4, 4, 6, 8, 12, 20, 60]
MANY_ROWS = [1_500, 6_000]
COMPRESSIONS = ["auto", "auto", None, "lz4", "zstd"]
TRIES = 30
LABELS: list[Any] = [
    *["plain", "with space", "ünï", "日本", "👍", 'a"b', "a'b", "a`b", "a/b", "a$b", "Plain", "x" * 300, " lead"],
    *["_rowid", "_rowaddr", "_distance", "0", "a.b", "", "\n", "a\0b", "\ud800", "a\\b", "%s", "{x}", "\u202e"],
]
OTHER_LABELS: list[Any] = [0, 1.5, None, True, ("a", "b"), b"x", pd.Timestamp(0), float("nan")]


def rows_of(r: random.Random) -> int:
    return r.choice(MANY_ROWS) if r.random() < 0.004 else r.choice(ROWS)


def _cuts(r: random.Random, frame: Any) -> list[Any]:
    return list(judge.pieces_of(frame, [r.randrange(len(frame) + 1) for _ in range(r.choice([0, 1, 2]))]))


def _with_own_categories(pieces: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Let every piece have only the categories that it uses, as pieces that were read one by one do."""
    return [
        piece.assign(**{
            name: piece[name].cat.remove_unused_categories()
            for name in piece.columns
            if isinstance(piece[name].dtype, pd.CategoricalDtype)
        })
        for piece in pieces
    ]  # fmt: skip


def pandas_case(r: random.Random, maker: str | None) -> Case:
    frame = make_pandas.frame(r, rows_of(r), maker)
    way = r.choice(["frame", "frame", "frame", "iterator", "turned", "dask"])
    pieces = [frame] if way == "frame" else _cuts(r, frame)
    if len(pieces) > 1 and r.random() < 0.5:
        pieces = _with_own_categories(pieces)
    options = {"index": r.choice([None, None, True, False])} if r.random() < 0.3 else {}
    return Case("pandas", pieces, way, options)


def polars_case(r: random.Random) -> Case:
    pieces = make_polars.frames(r, rows_of(r), r.choice([0, 1, 2, 3]), r.choice([1, 1, 2, 3]))
    case = Case("polars", pieces, r.choice(list(WAYS["polars"])))
    if r.random() < 0.15:  # with Polars' own views, codes and names of items
        return Case("polars", [judge.joined(case).to_arrow()], r.choice(list(WAYS["arrow"])))
    return case


def arrow_case(r: random.Random) -> Case:
    pieces = make_arrow.tables(r, rows_of(r), r.choice([0, 1, 2, 3]), r.choice([1, 1, 2]))
    return Case("arrow", pieces, r.choice(list(WAYS["arrow"])))


def dictionary_case(r: random.Random) -> Case:
    """Draw dictionaries at the top and below it, in many chunks, with codes that are nearly too small."""
    inner = make_arrow.dictionary_type(r)
    around = [lambda t: t, lambda t: t, pa.list_, lambda t: pa.struct([("a", t)]), lambda t: pa.map_(pa.string(), t)]
    type_ = r.choice([*around, lambda t: pa.list_(t, 2), make_arrow.Tagged])(inner)
    chunks = [make_arrow.array_of(r, type_, r.choice([0, 1, 5, 200])) for _ in range(r.choice([1, 2, 4]))]
    return Case("dictionaries", [pa.table({"col_0": pa.chunked_array(chunks, type_)})], r.choice(list(WAYS["arrow"])))


def deep_case(r: random.Random) -> Case:
    """Draw one value under very many levels of lists or structs."""
    levels = r.choice([5, 20, 40, 62, 63, 64, 65, 100])
    struct = r.random() < 0.5
    library = r.choice(["pandas", "polars", "arrow"])
    if library == "polars":
        series = pl.Series([1, 2])
        for _ in range(levels):
            series = series.to_frame("a").to_struct() if struct else series.implode()
        return Case("deep", [pl.DataFrame({"col_0": series})], "frame")
    if library == "arrow":
        array = pa.array([1, 2])
        for _ in range(levels):
            lists = lambda inner: pa.ListArray.from_arrays(pa.array([0, *[len(inner)] * 2], pa.int32()), inner)  # noqa: E731
            array = pa.StructArray.from_arrays([array], names=["a"]) if struct else lists(array)
        return Case("deep", [pa.table({"col_0": array})], "table")
    cell: Any = 1
    for _ in range(levels):
        cell = {"a": cell} if struct else [cell]
    return Case("deep", [pd.DataFrame({"col_0": pd.Series([cell, None], dtype=object)})], "frame")


def duckdb_case(r: random.Random) -> Case:
    return Case("duckdb", [make_duckdb.query(r, rows_of(r))], r.choice(list(WAYS["duckdb"])))


def cast_case(r: random.Random) -> Case:
    frame, dtypes = casts.frame(r, r.choice([1, 2, 3, 6]))
    return Case(
        "casts", [frame], r.choice(["frame" if not isinstance(frame, pa.Table) else "table"]), {"dtypes": dtypes}
    )


def label_case(r: random.Random) -> Case:
    """Draw names of columns and of fields that somebody may find hard to store."""
    labels = r.sample(LABELS, r.choice([1, 2, 3]))
    library = r.choice(["pandas", "arrow", "polars", "fields"])
    if library == "pandas":
        labels += [r.choice(OTHER_LABELS)] if r.random() < 0.3 else []
        labels += [labels[0]] if r.random() < 0.1 else []
        frame = pd.DataFrame([range(len(labels))] * 2)
        frame.columns = pd.Index(labels, dtype=object)
        return Case("labels", [frame], "frame")
    if library == "polars":
        return Case("labels", [pl.DataFrame({label.replace("\ud800", "?"): [1] for label in labels})], "frame")
    labels = [label.replace("\ud800", "?") for label in labels]
    labels += [labels[0]] if r.random() < 0.1 else []
    if library == "fields":
        struct = pa.StructArray.from_arrays([pa.array([1, 2])] * len(labels), names=labels)
        return Case("labels", [pa.table({"col_0": struct})], "table")
    return Case("labels", [pa.table([pa.array([1, 2])] * len(labels), names=labels)], "table")


KINDS: dict[str, tuple[int, Callable[[random.Random], Case]]] = {  # with how often each is drawn
    "pandas object": (26, lambda r: pandas_case(r, "object")),
    "pandas category": (9, lambda r: pandas_case(r, "category")),
    "pandas plain": (
        8,
        lambda r: pandas_case(r, r.choice(["numpy", "moments", "zoned", "nullable", "text", "refused"])),
    ),
    "pandas Arrow": (4, lambda r: pandas_case(r, "arrow")),
    "pandas mixed": (5, lambda r: pandas_case(r, None)),
    "polars": (14, polars_case),
    "arrow": (15, arrow_case),
    "dictionaries": (5, dictionary_case),
    "duckdb": (6, duckdb_case),
    "casts": (12, cast_case),
    "labels": (2, label_case),
    "deep": (1, deep_case),
}


def draw(seed: str, only: str | None = None) -> Case:
    """Draw the case of a seed; what a library cannot even make is drawn again."""
    kinds = {name: kind for name, kind in KINDS.items() if only is None or only in name}
    for attempt in range(TRIES):
        r = random.Random(f"{seed}/{attempt}")
        name = r.choices(list(kinds), [often for often, _ in kinds.values()])[0]
        try:
            case = kinds[name][1](r)
            judge.held(case)
            case.describe()
            WAYS[judge.origin_of(case.pieces[0])][case.way](case)
        except (Exception, pl.exceptions.PanicException):  # noqa: BLE001  # pandas' and Arrow's own limits
            continue
        case.kind = name if case.way != "dask" else "dask"
        case.options["compression"] = r.choice(COMPRESSIONS)
        return case
    raise RuntimeError(f"nothing could be drawn for {seed}")
