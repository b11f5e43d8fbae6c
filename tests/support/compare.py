"""Read stored tables with other libraries, and compare value by value."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["assert_same_values", "differing", "lance", "stored"]


def stored(service, name: str) -> pa.Table:
    """Read a table with lance."""
    return lance.dataset(str(Path(service.root) / f"{name}.lance")).to_table()


def assert_same_values(actual: pa.Table, expected: pa.Table) -> None:
    """Compare names, nulls and values. NaN equals NaN; layouts may differ."""
    assert actual.schema.names == expected.schema.names
    assert actual.num_rows == expected.num_rows
    for name in expected.schema.names:
        kind = actual.schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        one, other = actual[name].cast(kind), expected[name].cast(kind)
        if pa.types.is_floating(kind):
            assert pc.is_null(one).equals(pc.is_null(other)), name
            assert pc.is_nan(one).equals(pc.is_nan(other)), name
            one, other = (
                pc.if_else(pc.is_nan(c), pa.scalar(0, kind), c) for c in (one, other)
            )
        assert one.equals(other), name


def differing(
    stored: pa.ChunkedArray, column: pd.Series | pl.Series | pa.ChunkedArray
) -> list[tuple]:
    """List the rows in which a stored value differs from the frame's, with both."""
    if isinstance(column, pl.Series):
        column = pa.chunked_array([column.to_arrow()])
    if isinstance(column, pa.ChunkedArray):
        wanted = column.to_pylist()
    elif isinstance(column.dtype, pd.ArrowDtype):
        wanted = column.array.__arrow_array__().to_pylist()
    elif isinstance(column.dtype, np.dtype) and column.dtype.kind in "mM":
        # as integers, which Python's calendar does not limit
        stored, counts = (
            stored.cast(pa.int64()),
            column.to_numpy().astype("int64").tolist(),
        )
        wanted = [None if count == -(2**63) else count for count in counts]
    else:
        wanted = [
            None if isinstance(value, float) and np.isnan(value) else value
            for value in column
        ]
    found = stored.to_pylist()
    assert len(found) == len(wanted)
    return [
        pair
        for pair in zip(range(len(found)), found, wanted, strict=True)
        if not _same(*pair[1:])
    ]


def _same(found: object, wanted: object) -> bool:
    """Compare two values in Python. Missing values are equal."""
    if wanted is np.ma.masked:
        return found is None
    if isinstance(wanted, list | tuple | np.ndarray):
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    if isinstance(wanted, dict):
        return all(_same(found[key], wanted[key]) for key in wanted)
    if (
        isinstance(found, float)
        and isinstance(wanted, float | np.floating)
        and np.isnan(found)
    ):
        return bool(np.isnan(wanted))
    if found is None or pd.isna(wanted):
        return found is None and bool(pd.isna(wanted))
    if isinstance(wanted, pd.Timestamp | pd.Timedelta | np.datetime64 | np.timedelta64):
        kind = (
            pd.Timestamp
            if isinstance(wanted, pd.Timestamp | np.datetime64)
            else pd.Timedelta
        )
        return kind(found) == kind(wanted)
    return bool(found == wanted) and isinstance(found, bool) == isinstance(
        wanted, bool | np.bool_
    )
