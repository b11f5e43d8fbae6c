"""Types of the frames that `rt_frames.to_table` takes, for type checkers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class ArrowStream(Protocol):
    """Tables and readers of pyarrow, Polars, DuckDB and others, and a `RemoteTable`."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class ArrowArray(Protocol):
    """A record batch."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...


class DaskFrame(Protocol):
    """A Dask DataFrame, which has no annotations of its own."""

    def to_delayed(self) -> Any: ...
    def get_partition(self, n: Any) -> Any: ...


class ArrowDataset(Protocol):
    """A `pyarrow.dataset.Dataset`."""

    def get_fragments(self, filter: Any = None) -> Any: ...  # noqa: A002  # pyarrow's name


OneFrame: TypeAlias = Union[
    "pd.DataFrame",
    "pl.DataFrame",
    "pl.LazyFrame",
    ArrowStream,
    ArrowArray,
    DaskFrame,
    ArrowDataset,
]
Frame: TypeAlias = OneFrame | Iterable[OneFrame]
