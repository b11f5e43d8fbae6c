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
from tests.support.servers import KEY

UTC = pl.Datetime("ms", "UTC")
EXACT = [  # some of the pairs of types that keep all values
    (pl.UInt8, pl.Int64),
    (pl.String, pl.Categorical),
    (UTC, pl.Datetime("us")),
]
LOSSY = [(pl.Int64, pl.Float64), (pl.Date, pl.Datetime("us")), (pl.Boolean, pl.Int64)]


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
        rt.alter_table(
            {"m": "float64"}, "t", {"n": "int64"}, rename={"n": "m"}, lossy=True
        )
    assert "may not make these casts: n: int64 to double" in str(refused.value)
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


TWO_STRUCTS = {"s": "t", "s.x": "y", "t": "u", "t.x": "z"}
CHAINS = [  # renames, and the paths in the order in which they free each name
    ({"a": "b", "b": "c"}, ["b", "a"]),
    ({"b": "c", "a": "b"}, ["b", "a"]),
    ({"a": "b", "c": "d", "d": "e", "b": "c"}, ["d", "c", "b", "a"]),
    ({"s.x": "y", "s.y": "z"}, ["s.y", "s.x"]),
    ({"s": "t", "s.x": "y"}, ["s.x", "s"]),
    (TWO_STRUCTS, ["s.x", "t.x", "t", "s"]),
]


@pytest.mark.parametrize(("renames", "paths"), CHAINS, ids=str)
def test_renames_in_a_chain_free_a_name_before_it_is_taken(
    remote, server, renames, paths
):
    rt.table("t").rename(renames)
    rt.alter_columns("t", [{"path": p, "rename": n} for p, n in renames.items()])
    for request in server.requests:
        sent = json.loads(request.body)["alterations"]
        assert [change["path"] for change in sent] == paths


def test_a_long_chain_of_renames_is_sent_in_a_moment(remote, server):
    names = [f"c{number}" for number in range(5001)]
    rt.table("t").rename(dict(itertools.pairwise(names)))
    sent = json.loads(server.requests[0].body)["alterations"]
    assert [change["path"] for change in sent] == names[-2::-1]


EXCHANGES = [{"a": "b", "b": "a"}, {"s.x": "y", "s.y": "z", "s.z": "x", "k": "l"}]


@pytest.mark.parametrize("renames", EXCHANGES, ids=str)
def test_names_are_exchanged_only_where_the_engine_is_known(remote, server, renames):
    table = rt.table("t")
    with pytest.raises(
        AlterationError, match=r"exchange their names.*nothing was sent"
    ):
        table.rename(renames)
    assert server.requests == []
    client = rt.connect(server.url, api_key=KEY, dialect="lancedb", default=False)
    client.table("t").rename(renames)
    sent = json.loads(server.requests[-1].body)["alterations"]
    assert [change["path"] for change in sent] == list(renames)
