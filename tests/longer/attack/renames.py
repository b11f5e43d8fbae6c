"""Draw pairs of frames and see which renames a plan infers: none between unrelated frames, and those that were made.

A rename is provable where both frames own the same memory. Unrelated frames are drawn of one dtype, with equal values
or others, at sizes at which freed memory is soon used again; and frames that share memory but not meaning: other nulls
over the same values, the same codes for other words, the same items in other lists.
"""

from __future__ import annotations

import dataclasses
import random
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import rt_frames as rt
from tests.longer.attack import (
    arrow_cells,
    make_arrow,
    make_objects,
    make_pandas,
    make_polars,
    pandas_cells,
    polars_cells,
)
from tests.longer.attack.judge import Outcome, describe

if TYPE_CHECKING:
    from collections.abc import Callable

DRAWN_ROWS = [1, 2, 5, 20]
TIMES = [1, 1, 10, 100, 200]  # how often the drawn rows are repeated
PANDAS = {name: maker for name, maker in make_pandas.MAKERS.items() if name not in ("refused", "object")}


@dataclasses.dataclass
class Pair:
    """Two frames, and the one rename between them that was made, if any."""

    kind: str
    before: Any
    after: Any
    made: dict[str, str]

    def describe(self) -> str:
        return f"before {describe(self.before)}, after {describe(self.after)}"


def _pandas_column(r: random.Random) -> Callable[[], pd.Series]:
    """Choose a dtype; each call gives a column of it, with memory of its own and the same or other values."""
    seed, rows, times = r.random(), r.choice(DRAWN_ROWS), r.choice(TIMES)
    maker = PANDAS.get(r.choice([*PANDAS, "object"]), _objects)

    def make() -> pd.Series:
        column = maker(random.Random(seed), rows).reset_index(drop=True)
        return pd.concat([column] * times, ignore_index=True) if times > 1 else column

    return make


def _objects(r: random.Random, rows: int) -> pd.Series:
    return pd.Series(make_objects.ordinary_column(r, rows), dtype=object)


def _polars_column(r: random.Random) -> Callable[[], pl.Series]:
    seed, rows, times = r.random(), r.choice(DRAWN_ROWS), r.choice(TIMES)
    dtype = make_polars.random_type(r, r.choice([0, 0, 1, 2]))

    def make() -> pl.Series:
        column = make_polars.column(random.Random(seed), dtype, rows)
        return pl.concat([column] * times, rechunk=True) if times > 1 else column

    return make


def _arrow_column(r: random.Random) -> Callable[[], pa.ChunkedArray]:
    seed, rows = r.random(), r.choice(DRAWN_ROWS)
    type_ = make_arrow.random_type(r, r.choice([0, 0, 1, 2]))
    return lambda: make_arrow.column(random.Random(seed), type_, rows)


def _frame(columns: dict[str, Any]) -> Any:
    first = next(iter(columns.values()))
    if isinstance(first, pd.Series):
        return pd.DataFrame(columns, copy=False)
    return pl.DataFrame(columns) if isinstance(first, pl.Series) else pa.table(columns)


def _reversed(column: Any) -> Any:
    if isinstance(column, pd.Series):
        return column.iloc[::-1].reset_index(drop=True)
    if isinstance(column, pl.Series):
        return column.gather(list(range(len(column)))[::-1])
    return column.take(list(range(len(column)))[::-1])


COLUMNS = {"pandas": _pandas_column, "polars": _polars_column, "arrow": _arrow_column}


def unrelated(r: random.Random, library: str) -> Pair:
    """Make two frames of one dtype that have nothing to do with each other."""
    make = COLUMNS[library](r)
    others = [COLUMNS[library](r)() for _ in range(r.choice([0, 0, 1]))]
    shared = {f"same_{i}": column for i, column in enumerate(others) if len(column) == len(make())}
    first, second = make(), make()
    if r.random() < 0.5:
        second = _reversed(second)
    before, after = _frame({"col_a": first, **shared}), _frame({"col_b": second, **shared})
    return Pair(f"{library} unrelated", before, after, {})


def renamed(r: random.Random, library: str) -> Pair:
    """Rename a column as each library's users do."""
    columns = {f"col_{i}": COLUMNS[library](r)() for i in range(r.choice([1, 2]))}
    rows = len(columns["col_0"])
    before = _frame({name: column for name, column in columns.items() if len(column) == rows})
    if isinstance(before, pd.DataFrame):
        after = before.rename(columns={"col_0": "new"})
    elif isinstance(before, pl.DataFrame):
        rest = [pl.col(name) for name in before.columns[1:]]
        chosen = before.select(pl.col("col_0").alias("new"), *rest)
        after = r.choice([chosen, before.rename({"col_0": "new"}), before.with_columns(new="col_0").drop("col_0")])
    else:
        after = before.rename_columns(["new", *before.column_names[1:]])
    return Pair(f"{library} renamed", before, after, {"col_0": "new"})


def _other_nulls(r: random.Random) -> tuple[Any, Any]:
    column = pl.Series([r.randrange(9) for _ in range(50)], dtype=r.choice([pl.Int8, pl.Int64, pl.Float64]))
    frame = pl.DataFrame({"col_a": column})
    return frame, frame.select(col_b=pl.when(pl.col("col_a") > 4).then("col_a"))


def _replaced(r: random.Random) -> tuple[Any, Any]:
    frame = pl.DataFrame({"col_a": [1, 2, 3] * r.choice([1, 50])})
    return frame, frame.select(col_b=pl.col("col_a").replace(1, None))


def _other_words(r: random.Random) -> tuple[Any, Any]:
    frame = pd.DataFrame({"col_a": pd.Categorical(["x", "y"] * r.choice([1, 50]))})
    return frame, pd.DataFrame({"col_b": frame["col_a"].cat.rename_categories(["y", "z"])})


def _other_dictionary(r: random.Random) -> tuple[Any, Any]:
    codes = pa.array([0, 1] * r.choice([1, 50]), pa.int8())
    words = [["x", "y"], ["y", "x"]]
    made = [pa.DictionaryArray.from_arrays(codes, pa.array(each)) for each in words]
    return pa.table({"col_a": made[0]}), pa.table({"col_b": made[1]})


def _other_mask(r: random.Random) -> tuple[Any, Any]:
    numbers, rows = np.arange(50), 50
    masks = [np.zeros(rows, bool), np.array([r.random() < 0.5 for _ in range(rows)])]
    made = [pd.Series(pd.arrays.IntegerArray(numbers, mask), copy=False) for mask in masks]
    return pd.DataFrame({"col_a": made[0]}, copy=False), pd.DataFrame({"col_b": made[1]}, copy=False)


def _other_struct_nulls(r: random.Random) -> tuple[Any, Any]:
    child = pa.array(range(50))
    masks = [pa.array([r.random() < 0.3 for _ in range(50)]) for _ in range(2)]
    made = [pa.StructArray.from_arrays([child], names=["x"], mask=mask) for mask in masks]
    return pa.table({"col_a": made[0]}), pa.table({"col_b": made[1]})


def _other_offsets(_: random.Random) -> tuple[Any, Any]:
    items = pa.array(range(50))
    made = [pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items) for offsets in ([0, 10, 50], [0, 20, 50])]
    return pa.table({"col_a": made[0]}), pa.table({"col_b": made[1]})


def _other_slice(r: random.Random) -> tuple[Any, Any]:
    library = r.choice(["pandas", "polars", "arrow"])
    if library == "pandas":
        column = pd.Series(np.arange(50))
        return pd.DataFrame({"col_a": column.iloc[:-1]}), pd.DataFrame({"col_b": column.iloc[1:]})
    if library == "polars":
        series = pl.Series(range(50))
        return pl.DataFrame({"col_a": series[:-1]}), pl.DataFrame({"col_b": series[1:]})
    array = pa.array(range(50))
    return pa.table({"col_a": array[:-1]}), pa.table({"col_b": array[1:]})


def _two_candidates(_: random.Random) -> tuple[Any, Any]:
    frame = pl.DataFrame({"col_a": [1, 2, 3]})
    return frame, frame.select(pl.col("col_a").alias("col_b"), pl.col("col_a").alias("col_c"))


def _reversed_view(_: random.Random) -> tuple[Any, Any]:
    column = pd.Series(np.arange(51))
    return pd.DataFrame({"col_a": column}), pd.DataFrame({"col_b": column.iloc[::-1].reset_index(drop=True)})


SHARING = [
    *[_other_nulls, _replaced, _other_words, _other_dictionary, _other_mask, _other_struct_nulls],
    *[_other_offsets, _other_slice, _two_candidates, _reversed_view],
]


def sharing(r: random.Random, _library: str) -> Pair:
    """Make two frames that share memory, and mean something else by it."""
    before, after = r.choice(SHARING)(r)
    return Pair("shared memory", before, after, {})


def draw(seed: str) -> Pair:
    """Draw the pair of a seed; what a library cannot even make is drawn again."""
    for attempt in range(30):
        r = random.Random(f"{seed}/{attempt}")
        make = r.choices([unrelated, renamed, sharing], [8, 2, 1])[0]
        try:
            pair = make(r, r.choice(list(COLUMNS)))
            pair.describe()
            changed = _means(pair.before) != _means(pair.after)
        except (Exception, pl.exceptions.PanicException):  # noqa: BLE001  # pandas' and Arrow's own limits
            continue
        if changed or pair.kind != "shared memory":
            return pair
    raise RuntimeError(f"nothing could be drawn for {seed}")


def _means(frame: Any) -> list[Any]:
    if isinstance(frame, pd.DataFrame):
        return pandas_cells.cells(frame.iloc[:, 0])
    return (
        polars_cells.cells(frame.to_series()) if isinstance(frame, pl.DataFrame) else arrow_cells.cells(frame.column(0))
    )


def judge(pair: Pair) -> Outcome:
    """Plan, and look for renames."""
    try:
        plan = rt.plan_alterations(pair.before, pair.after, strict=False)
    except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001  # it is what is judged
        text = f"{type(error).__name__}: {str(error)[:600]}"
        ours = isinstance(error, rt.errors.RemoteError) or type(error) in (ValueError, TypeError)
        named = any(name in str(error) for name in (*_names(pair.before), *_names(pair.after)))
        return Outcome("REFUSED" if ours and named else "FOREIGN", type(error).__name__, text)
    inferred = {alteration.path: alteration.rename for alteration in plan if alteration.rename is not None}
    if inferred == pair.made:
        return Outcome("EQUAL")
    what = "a rename that was made is not inferred" if pair.made else "a rename is inferred that nobody made"
    return Outcome("WRONG", f"{what}: {_first_type(pair.before)}", f"{inferred} for {pair.made}")


def _first_type(frame: Any) -> str:
    dtype = frame.schema.types[0] if isinstance(frame, pa.Table) else frame[frame.columns[0]].dtype
    return re.split(r"[(<\[]", str(dtype))[0]


def _names(frame: Any) -> list[str]:
    return frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)
