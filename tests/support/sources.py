"""Rows to upload in every form, and a generator that records its position and end."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = pa.record_batch({"a": np.arange(2**17)})  # 1 MiB


def _to_dask(rows: pa.Table) -> Any:
    dd = pytest.importorskip("dask.dataframe")
    return dd.from_pandas(rows.to_pandas(types_mapper=pd.ArrowDtype), npartitions=2)


# each gives the rows of an Arrow table; a reader and a generator, row by row
FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "Arrow": lambda rows: rows,
    "pandas": lambda rows: rows.to_pandas(),
    "LazyFrame": lambda rows: pl.from_arrow(rows).lazy(),
    "reader": lambda rows: rows.to_reader(max_chunksize=1),
    "generator": lambda rows: (rows[n : n + 1] for n in range(rows.num_rows)),
    "Dask": _to_dask,
}


class Source:
    """Yield ``count`` items by their numbers, or endlessly; then raise ``error``."""

    def __init__(
        self,
        count: int | None = 8,
        error: BaseException | None = None,
        make: Callable[[int], Any] = lambda number: BATCH,
    ) -> None:
        self.made = 0
        self.closed = False
        self._count = count
        self._error = error
        self._make = make

    def run(self) -> Iterator[Any]:
        try:
            for number in (
                itertools.count() if self._count is None else range(self._count)
            ):
                self.made += 1
                yield self._make(number)
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True
