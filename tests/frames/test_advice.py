"""Every message that offers code is tried: the code is run, and helps."""

from __future__ import annotations

import ast
import re

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames._frames.any_frame import open_source
from rt_frames.errors import UnsupportedTypeError


def refusal(frame: object, **options: object) -> str:
    with pytest.raises((UnsupportedTypeError, ValueError)) as caught:
        open_source(frame, **options)
    return str(caught.value)


def objects(*values: object) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


@pytest.mark.parametrize(
    "frame",
    [
        objects(None, None),
        objects([], None),
        objects({"a": None, "b": 1}),
        objects([{"a": []}]),
        pl.DataFrame({"x": [None]}),
        pl.DataFrame({"x": [[None], []]}),
        pl.DataFrame({"x": [{"a": [None], "b": 1.5}]}),
        pl.DataFrame({"x": pl.Series([[None, None]], dtype=pl.Array(pl.Null, 2))}),
        pa.table({"x": pa.array([[], None])}),
        pa.table({"x": pa.array([[[]]], pa.list_view(pa.list_(pa.null())))}),
    ],
)
def test_the_dtypes_that_are_offered_for_a_column_of_no_values_are_taken(frame):
    offered = re.search(r"dtypes=(\{.*\})$", refusal(frame))
    source = open_source(frame, dtypes=ast.literal_eval(offered[1]))
    rows = [row for batch in source.batches() for row in batch.column(0).to_pylist()]
    assert rows == (frame["x"].tolist() if isinstance(frame, pd.DataFrame) else frame["x"].to_pylist() if isinstance(frame, pa.Table) else frame["x"].to_list())  # fmt: skip  # noqa: E501


def test_whole_numbers_beyond_64_bits_are_sent_as_the_type_that_holds_them():
    (batch,) = open_source(objects(2**63, 1), dtypes={"x": "uint64"}).batches()
    assert batch.column(0).to_pylist() == [2**63, 1]
    assert "'x', row 0" in refusal(objects(2**70), dtypes={"x": "uint64"})
    (batch,) = open_source(objects(2**70), dtypes={"x": pa.decimal128(38, 0)}).batches()
    assert batch.column(0).to_pylist() == [2**70]


PERIODS = pd.Series(pd.period_range("2020", periods=2, freq="M"), name="x")
CUT = pd.Series(pd.cut([1, 5], [0, 2, 6]), name="x")


@pytest.mark.parametrize(
    ("frame", "code", "helped"),
    [
        (objects("a", 1), "df['x'].astype(str)", lambda df: df["x"].astype(str)),
        (PERIODS.to_frame(), ".dt.to_timestamp()", lambda df: df["x"].dt.to_timestamp()),
        (PERIODS.to_frame(), ".astype(str)", lambda df: df["x"].astype(str)),
        (CUT.to_frame(), ".astype(str)", lambda df: df["x"].astype(str)),
        (CUT.to_frame(), ".cat.rename_categories(str)", lambda df: df["x"].cat.rename_categories(str)),
        (pd.DataFrame({"x": pd.interval_range(0, 2)}), ".astype(str)", lambda df: df["x"].astype(str)),
        (pd.DataFrame({"x": pd.interval_range(0, 2)}), ".array.left", lambda df: pd.Series(df["x"].array.left)),
        (
            pd.DataFrame({"x": pd.arrays.SparseArray([0, 1])}),
            ".sparse.to_dense()",
            lambda df: df["x"].sparse.to_dense(),
        ),
        (pd.DataFrame({"x": [1j]}), ".real", lambda df: df["x"].to_numpy().real),
        (pl.DataFrame({"x": pl.Series([1], dtype=pl.Int128)}), "pl.Int64", lambda df: df["x"].cast(pl.Int64)),
        (pl.DataFrame({"x": pl.Series([1], dtype=pl.UInt128)}), "pl.UInt64", lambda df: df["x"].cast(pl.UInt64)),
    ],
)
def test_what_a_message_offers_makes_a_column_that_can_be_sent(frame, code, helped):
    assert code in refusal(frame)
    column = helped(frame)
    open_source(column.to_frame() if isinstance(column, pl.Series) else pd.DataFrame({"x": column}))


def test_labels_and_dots_are_mended_as_the_message_says():
    assert "df.rename(columns=str)" in refusal(pd.DataFrame({0: [1]}))
    open_source(pd.DataFrame({0: [1]}).rename(columns=str))
    frame = pd.DataFrame({"a.b": [1]})
    offered = re.search(r"with (\{.*\})$", refusal(frame))
    open_source(frame.rename(columns=ast.literal_eval(offered[1])))


@pytest.mark.parametrize("dtype", ["float", "int33", {"type": "int33"}, {"type": "list"}, "object", complex])
def test_a_dtype_that_means_nothing_is_refused_with_its_column(dtype):
    assert re.search(r"column 'x'", refusal(objects(1), dtypes={"x": dtype}))
    with pytest.raises((ValueError, TypeError), match="column 'x'"):
        rt.plan_alterations({"x": dtype}, {"x": int})
