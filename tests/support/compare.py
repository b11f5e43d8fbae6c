"""Read stored tables with other libraries, and compare value by value."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc


def stored(service, name: str) -> pa.Table:
    """Read a table with lance."""
    return lance.dataset(str(Path(service.root) / f"{name}.lance")).to_table()


def assert_same_values(actual: pa.Table, expected: pa.Table) -> None:
    """Compare names, nulls and values. NaN equals NaN; layouts may differ."""
    assert actual.schema.names == expected.schema.names
    assert actual.num_rows == expected.num_rows
    for name in expected.schema.names:
        kind = actual.schema.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        one = actual[name].cast(kind)
        other = expected[name].cast(kind)
        if pa.types.is_floating(kind):
            assert pc.is_null(one).equals(pc.is_null(other)), name
            assert pc.is_nan(one).equals(pc.is_nan(other)), name
            one = one.filter(pc.invert(pc.is_nan(one)))
            other = other.filter(pc.invert(pc.is_nan(other)))
        assert one.equals(other), name


def differing(
    stored: pa.ChunkedArray, column: pd.Series | pl.Series | pa.ChunkedArray
) -> list[tuple]:
    """List the rows in which a stored value differs from the frame's, with both."""
    if _is_numpy_time(column):
        # as integers, which Python's calendar does not limit
        stored = stored.cast(pa.int64())
    wanted = _values(column)
    found = stored.to_pylist()
    assert len(found) == len(wanted)
    rows = zip(range(len(found)), found, wanted, strict=True)
    return [row for row in rows if not _same(row[1], row[2])]


def _values(column: pd.Series | pl.Series | pa.ChunkedArray) -> list:
    """Give the values of a column, moments and spans of NumPy as integers."""
    if isinstance(column, pl.Series):
        return column.to_arrow().to_pylist()
    if isinstance(column, pa.ChunkedArray):
        return column.to_pylist()
    if isinstance(column.dtype, pd.ArrowDtype):
        return column.array.__arrow_array__().to_pylist()
    if _is_numpy_time(column):
        counts = column.to_numpy().astype("int64").tolist()
        return [None if count == -(2**63) else count for count in counts]
    return [None if _is_nan(value) else value for value in column]


def _is_numpy_time(column: object) -> bool:
    dtype = getattr(column, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "mM"


def _is_nan(value: object) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _same(found: object, wanted: object) -> bool:
    """Compare two values in Python. Missing values are equal."""
    if wanted is np.ma.masked:
        return found is None
    if isinstance(wanted, list | tuple | np.ndarray):
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    if isinstance(wanted, dict):
        return all(_same(found[key], wanted[key]) for key in wanted)
    if _is_nan(found) and isinstance(wanted, float | np.floating):
        return _is_nan(wanted)
    if found is None or pd.isna(wanted):
        return found is None and bool(pd.isna(wanted))
    if isinstance(wanted, pd.Timestamp | np.datetime64):
        return pd.Timestamp(found) == pd.Timestamp(wanted)
    if isinstance(wanted, pd.Timedelta | np.timedelta64):
        return pd.Timedelta(found) == pd.Timedelta(wanted)
    both_bool = isinstance(found, bool) == isinstance(wanted, bool | np.bool_)
    return both_bool and bool(found == wanted)
