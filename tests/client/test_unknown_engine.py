"""Alterations on the documented service: its document names no engine.

So nothing is refused in the name of one. What may change values needs `lossy=True`, and
whatever the service refuses comes back as its response.
"""

from __future__ import annotations

import itertools
import json

import polars as pl
import pytest

import rt_frames as rt
from rt_frames.errors import AlterationError, BadRequest

UTC = pl.Datetime("ms", "UTC")
DTYPES = [
    pl.Int64,
    pl.UInt8,
    pl.Float32,
    pl.Float64,
    pl.Boolean,
    pl.String,
    pl.Categorical,
    pl.Date,
    pl.Datetime("us"),
    UTC,
    pl.Duration("us"),
    pl.Time,
]
# the pairs of types that keep all values
EXACT = [
    (pl.Int64, pl.UInt8),
    (pl.UInt8, pl.Int64),
    (pl.Float32, pl.Float64),
    (pl.String, pl.Categorical),
    (pl.Categorical, pl.String),
    (pl.Date, UTC),
    (UTC, pl.Datetime("us")),
]
LOSSY = [pair for pair in itertools.permutations(DTYPES, 2) if pair not in EXACT]


@pytest.mark.parametrize(("old", "new"), EXACT, ids=str)
def test_a_cast_that_keeps_all_values_is_sent_by_every_call(remote, server, old, new):
    before = pl.DataFrame(schema={"c": old})
    after = pl.DataFrame(schema={"c": new})
    plan = after.remote.plan_alterations(before)
    after.remote.alter_table("t", before)
    rt.alter_columns("t", plan)
    rt.table("t").cast({"c": new})
    bodies = [json.loads(request.body) for request in server.requests]
    assert bodies == [plan.to_json()] * 3


@pytest.mark.parametrize(("old", "new"), LOSSY, ids=str)
def test_any_other_cast_is_sent_by_lossy_alone(remote, server, old, new):
    with pytest.raises(AlterationError, match="nothing was sent; pass lossy=True"):
        rt.alter_table({"c": new}, "t", {"c": old})
    assert server.requests == []
    rt.alter_table({"c": new}, "t", {"c": old}, lossy=True)
    assert len(server.requests) == 1


def test_a_plan_of_many_changes_goes_in_one_request(remote, server):
    before = pl.Schema({"a": pl.Int64, "b": pl.String, "c": pl.Int64})
    after = pl.Schema({"a": pl.Float64, "b": pl.Date, "d": pl.Int64})
    options = {"rename": {"c": "d"}, "nullable": {"d": False}}
    plan = rt.plan_alterations(before, after, **options)
    rt.alter_table(after, "t", before, lossy=True, **options)
    (request,) = server.requests
    assert json.loads(request.body) == plan.to_json()
    assert len(plan) == 3


def test_a_cast_that_the_service_refuses_is_named_with_both_types(remote, server):
    server.answering((400, {"error": "unsupported"}))
    with pytest.raises(BadRequest, match="unsupported") as refused:
        rt.alter_table({"n": "float64"}, "t", {"n": "int64"}, lossy=True)
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
