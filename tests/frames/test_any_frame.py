"""Whatever a frame holds: it is stored and reads back equal, value by value, or it is refused by column."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.extra import pandas as hpd
from polars.testing import assert_frame_equal
from polars.testing.parametric import dataframes

import rt_frames as rt
from tests.support.compare import lance
from tests.support.examples import uploading

number = itertools.count()


def there_and_back(client, service, frame) -> pa.Table | None:
    """Store a frame and read it with lance; None where it was refused in the way it may be."""
    name = f"any_{next(number)}"
    try:
        client.create_table(name, frame)
    except (rt.errors.RemoteError, ValueError) as refused:
        message = str(refused)
    else:
        message = ""
    if message:
        named = any(repr(column)[1:-1] in message for column in frame.columns)
        assert named or "no columns" in message, message
        assert name not in client.list_tables()
        return None
    stored = lance.dataset(str(Path(service.root) / f"{name}.lance")).to_table()
    shutil.rmtree(Path(service.root) / f"{name}.lance")
    return stored


nested = {pl.List: 3, pl.Array: 3, pl.Struct: 3}
flat = [pl.Int8, pl.UInt64, pl.Float32, pl.String, pl.Binary, pl.Boolean, pl.Date, pl.Datetime, pl.Categorical]


@uploading
@given(frame=dataframes(max_cols=4, max_size=6, allow_null=True))
def test_every_polars_frame_comes_back_equal_or_is_refused_by_column(client, service, frame):
    stored = there_and_back(client, service, frame)
    if stored is not None:
        assert_frame_equal(pl.from_arrow(stored), frame, categorical_as_str=True, check_dtypes=False, check_exact=True)


@uploading
@given(frame=dataframes(max_cols=3, max_size=6, allowed_dtypes=[*nested, *flat], allow_null=True, min_cols=1))
def test_every_nested_polars_frame_comes_back_equal_or_is_refused_by_column(client, service, frame):
    stored = there_and_back(client, service, frame)
    if stored is not None:
        assert_frame_equal(pl.from_arrow(stored), frame, categorical_as_str=True, check_dtypes=False, check_exact=True)


text = st.text(st.characters(codec="utf-8"), max_size=8)
moments = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
whole = st.integers(-(2**63), 2**63 - 1)
objects = st.one_of(
    *(
        st.lists(st.none() | kind, max_size=6)
        for kind in (
            text,
            whole,
            st.booleans(),
            st.binary(max_size=4),
            st.dates(),
            st.datetimes(),
            st.times(),
            st.floats(allow_nan=False),
            st.timedeltas(dt.timedelta(-(10**5)), dt.timedelta(10**5)),
            st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9),
            st.lists(whole, max_size=3),
            st.fixed_dictionaries({"x": whole, "y": text}),
            text | whole,
        )
    )
)


def column(values: list, dtype: object) -> pd.Series:
    return pd.Series(values, dtype=dtype)


def objects_column(values: list) -> pd.Series:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return pd.Series(array, dtype=object)


COARSE = "s" if int(pd.__version__[0]) >= 3 else "ns"  # pandas 2 takes other units of timedeltas through objects only
numpy_dtypes = st.one_of(
    hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.floating_dtypes(sizes=(16, 32, 64)), hnp.boolean_dtypes(),
    hnp.datetime64_dtypes(max_period="s", min_period="ns"), hnp.timedelta64_dtypes(max_period=COARSE, min_period="ns"),
    hnp.complex_number_dtypes(),
)  # fmt: skip
numpy_columns = numpy_dtypes.flatmap(lambda dtype: hpd.series(dtype=dtype, index=hpd.range_indexes(max_size=6)))
optional = {
    "Int8": st.integers(-128, 127),
    "UInt64": st.integers(0, 2**64 - 1),
    "Float32": st.floats(width=32, allow_nan=False),
    "boolean": st.booleans(),
    "string": text,
    "str": text,
    "int64[pyarrow]": whole,
    "double[pyarrow]": st.floats(allow_nan=False),
    "datetime64[ns, Europe/Paris]": moments.map(lambda m: pd.Timestamp(m, tz="UTC")),
    "datetime64[us, UTC]": moments.map(lambda m: pd.Timestamp(m, tz="UTC")),
    "category": text,
    pd.CategoricalDtype([1, 5, 9]): st.sampled_from([1, 5, 9]),
    pd.ArrowDtype(pa.decimal128(10, 2)): st.integers(-(10**7), 10**7).map(lambda i: decimal.Decimal(i) / 100),
    pd.ArrowDtype(pa.list_(pa.string())): st.lists(text, max_size=3),
    pd.ArrowDtype(pa.struct([("x", pa.int8())])): st.fixed_dictionaries({"x": st.integers(-128, 127)}),
    pd.ArrowDtype(pa.date32()): st.dates(),
}
optional_columns = st.sampled_from(list(optional)).flatmap(
    lambda dtype: st.lists(st.none() | optional[dtype], max_size=6).map(lambda values: column(values, dtype))
)
pandas_columns = numpy_columns | optional_columns | objects.map(objects_column)


def same(stored: object, wanted: object) -> bool:
    """Compare one value as Python sees it, missing being missing whatever it is called."""
    if isinstance(wanted, list | tuple | np.ndarray):
        return len(stored) == len(wanted) and all(map(same, stored, wanted))
    if isinstance(wanted, dict):
        return all(same(stored[key], wanted[key]) for key in wanted)
    if stored is None or wanted is None or wanted is pd.NA or wanted is pd.NaT or wanted != wanted:  # noqa: PLR0124  # NaN
        return stored is None and bool(pd.isna(wanted))
    if isinstance(wanted, pd.Timestamp | pd.Timedelta | np.datetime64 | np.timedelta64):
        kind = pd.Timestamp if isinstance(wanted, pd.Timestamp | np.datetime64) else pd.Timedelta
        return kind(stored) == kind(wanted)
    return bool(stored == wanted) and isinstance(stored, bool) == isinstance(wanted, bool | np.bool_)


def as_python(stored: pa.ChunkedArray, series: pd.Series) -> tuple[list, list]:
    """Give both sides' values; moments beyond Python's calendar as the numbers that they are."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "mM":
        numbers = series.to_numpy().astype("int64").tolist()
        return stored.cast(pa.int64()).to_pylist(), [None if n == -(2**63) else n for n in numbers]
    return stored.to_pylist(), series.tolist()


@uploading
@given(columns=st.lists(pandas_columns, min_size=1, max_size=3))
def test_every_pandas_frame_comes_back_equal_or_is_refused_by_column(client, service, columns):
    rows = min(map(len, columns))
    frame = pd.DataFrame({f"c{i}": series.iloc[:rows].reset_index(drop=True) for i, series in enumerate(columns)})
    stored = there_and_back(client, service, frame)
    if stored is not None:
        for name in frame.columns:
            found, wanted = as_python(stored[name], frame[name])
            assert len(found) == len(wanted)
            assert all(map(same, found, wanted)), (name, frame[name].dtype, found, wanted)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_of_every_unit_come_back_to_the_last_digit(client, service, unit):
    ends = [np.datetime64(sign * (2**62), unit) for sign in (-1, 1)] if unit == "ns" else []
    values = np.array([0, 1, -1, 10**9 + 1, *ends], dtype=f"datetime64[{unit}]")
    stored = there_and_back(client, service, pd.DataFrame({"t": values}))
    assert stored["t"].type == pa.timestamp(unit)
    assert stored["t"].cast(pa.int64()).to_pylist() == values.astype("int64").tolist()
