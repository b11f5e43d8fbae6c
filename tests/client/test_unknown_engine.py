"""Alterations on the documented service: its document names no engine.

So nothing is refused in the name of one. What may change values needs `lossy=True`, and
whatever the service refuses comes back as its response.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json

import pandas as pd
import polars as pl
import pytest

import rt_frames as rt
from rt_frames.errors import AlterationError, BadRequest

DAY = dt.date(2024, 2, 29)
PANDAS = {
    "int32": pd.Series([1], dtype="int32"),
    "int64": pd.Series([1], dtype="int64"),
    "UInt8": pd.Series([1], dtype="UInt8"),
    "float32": pd.Series([1], dtype="float32"),
    "float64": pd.Series([1], dtype="float64"),
    "bool": pd.Series([True]),
    "str": pd.Series(["a"]),
    "category": pd.Series(["a"], dtype="category"),
    "date": pd.Series([DAY]),
    "datetime64[s]": pd.Series([DAY], dtype="datetime64[s]"),
    "datetime64[ns]": pd.Series([DAY], dtype="datetime64[ns]"),
    "datetime64[ns, UTC]": pd.Series([DAY], dtype="datetime64[ns, UTC]"),
    "timedelta64[ns]": pd.Series([dt.timedelta(1)], dtype="timedelta64[ns]"),
}
POLARS = {
    "Int32": pl.Int32,
    "Int64": pl.Int64,
    "UInt8": pl.UInt8,
    "Float32": pl.Float32,
    "Float64": pl.Float64,
    "Boolean": pl.Boolean,
    "String": pl.String,
    "Categorical": pl.Categorical,
    "Date": pl.Date,
    "Datetime us": pl.Datetime("us"),
    "Datetime ms UTC": pl.Datetime("ms", "UTC"),
    "Duration": pl.Duration("us"),
    "Time": pl.Time,
}
FRAMES = {
    **{name: column.to_frame("c") for name, column in PANDAS.items()},
    **{name: pl.DataFrame(schema={"c": dtype}) for name, dtype in POLARS.items()},
}
PAIRS = [*itertools.permutations(PANDAS, 2), *itertools.permutations(POLARS, 2)]
# the pairs of types that keep all values
EXACT = {
    *itertools.permutations(("int32", "int64", "UInt8"), 2),
    *itertools.permutations(("Int32", "Int64", "UInt8"), 2),
    ("float32", "float64"),
    ("Float32", "Float64"),
    *itertools.permutations(("str", "category"), 2),
    *itertools.permutations(("String", "Categorical"), 2),
    ("date", "datetime64[s]"),
    ("Date", "Datetime ms UTC"),
    ("datetime64[s]", "datetime64[ns]"),
    ("datetime64[s]", "datetime64[ns, UTC]"),
    *itertools.permutations(("datetime64[ns]", "datetime64[ns, UTC]"), 2),
    ("Datetime ms UTC", "Datetime us"),
}


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=map(" to ".join, PAIRS))
def test_every_pair_of_dtypes_is_sent_if_need_be_by_lossy(remote, server, old, new):
    before = FRAMES[old]
    after = FRAMES[new]
    plan = after.remote.plan_alterations(before)
    options = {}
    if (old, new) not in EXACT:
        options["lossy"] = True
        with pytest.raises(AlterationError, match="nothing was sent; pass lossy=True"):
            after.remote.alter_table("t", before)
        assert server.requests == []
    after.remote.alter_table("t", before, **options)
    rt.alter_columns("t", plan)
    rt.table("t").cast({"c": plan[0].data_type})
    bodies = [json.loads(request.body) for request in server.requests]
    assert bodies == [plan.to_json()] * 3


def test_a_plan_of_many_changes_goes_in_one_request(remote, server):
    before = pl.Schema({"a": pl.Int64, "b": pl.String, "c": pl.Int64})
    after = pl.Schema({"a": pl.Float64, "b": pl.Date, "d": pl.Int64})
    options = {"rename": {"c": "d"}, "nullable": {"d": False}}
    plan = rt.plan_alterations(before, after, **options)
    rt.alter_table(after, "t", before, lossy=True, **options)
    (request,) = server.requests
    assert json.loads(request.body) == plan.to_json()
    assert len(plan) == 3


@pytest.mark.parametrize(
    "alter",
    [
        lambda before, after: rt.alter_table(after, "t", before, lossy=True),
        lambda before, after: rt.alter_columns("t", rt.plan_alterations(before, after)),
    ],
)
def test_a_cast_that_the_service_refuses_is_named_with_both_types(
    remote, server, alter
):
    server.answering((400, {"error": "unsupported"}))
    with pytest.raises(BadRequest, match="unsupported") as refused:
        alter({"n": "int64"}, {"n": "float64"})
    assert "n: int64 to double" in str(refused.value)
    assert "nothing was changed" in str(refused.value)


def test_a_rewrite_is_neither_offered_nor_made(remote, server):
    before = {"n": "int64"}
    after = {"n": "float64"}
    with pytest.raises(AlterationError) as refused:
        rt.alter_table(after, "t", before)
    assert "rewrite" not in str(refused.value)
    with pytest.raises(ValueError, match="documented"):
        rt.alter_table(after, "t", before, rewrite=True)
    assert server.requests == []


def test_a_name_with_a_backtick_is_renamed_where_no_engine_is_known(remote, server):
    rt.table("t").rename({"a`b": "ab"})
    (request,) = server.requests
    assert json.loads(request.body)["alterations"] == [{"path": "a`b", "rename": "ab"}]
