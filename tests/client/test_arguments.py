"""Arguments that many functions have: flags, and what is passed by position."""

from __future__ import annotations

import functools
import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rt_frames as rt
from rt_frames.errors import NotConnectedError
from tests.support.servers import KEY

FRAME = pd.DataFrame({"n": [1]})
WIDE = pd.DataFrame({"n": [1], "m": [2]})
URL = "https://words-x1.us-east-1.example.com"
NOWHERE = rt.connect(URL, api_key="k", default=False)
DOORS = {  # functions, and what they are called with
    "to_table": (rt.to_table, [FRAME, "t"]),
    "tee": (rt.tee, [FRAME, "t"]),
    "plan_alterations": (rt.plan_alterations, [FRAME, FRAME]),
    "alter_table": (rt.alter_table, [FRAME, "t", FRAME]),
    "create_table": (rt.Client.create_table, [NOWHERE, "t", FRAME]),
    "remote.to_table": (FRAME.remote.to_table, ["t"]),
    "remote.tee": (FRAME.remote.tee, ["t"]),
    "remote.plan_alterations": (FRAME.remote.plan_alterations, [FRAME]),
    "remote.alter_table": (FRAME.remote.alter_table, ["t", FRAME]),
    "connect": (rt.connect, [URL]),
    "Client": (functools.partial(rt.Client, api_key="k"), [URL]),
}


def flags_of(function: object) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.annotation in ("bool", "bool | None")]


FLAGS = [
    (door, flag) for door, (function, _) in DOORS.items() for flag in flags_of(function)
]


def test_every_flag_of_a_public_function_is_tested():
    functions = [getattr(rt, name) for name in rt.__all__ if name != "errors"]
    for handle in (rt.Client, rt.RemoteTable, type(FRAME.remote)):
        functions += [one for _, one in inspect.getmembers(handle, inspect.isfunction)]
    known = {rt.RemoteTable.compact, rt.RemoteTable.__init__, rt.Client.__init__}
    for function, _ in DOORS.values():
        known |= {function, getattr(function, "__func__", None)}
    for function in functions:
        if inspect.isfunction(function) and function not in known:
            assert flags_of(function) == [], function
    names = {"index", "clean_names", "add_columns", "progress", "lossy", "rewrite"}
    assert {flag for _, flag in FLAGS} == names | {"allow_insecure", "default"}


@pytest.mark.parametrize(("door", "flag"), FLAGS, ids=map(": ".join, FLAGS))
def test_a_flag_is_true_or_false_alone(remote, server, door, flag):
    function, arguments = DOORS[door]
    with pytest.raises(ValueError, match=rf"^{flag}: expected True or False, got "):
        function(*arguments, **{flag: "no"})
    assert server.requests == []


@pytest.mark.parametrize("value", [["n"], 1, 0, "", object], ids=repr)
def test_no_other_value_is_true_or_false(value):
    with pytest.raises(ValueError, match=r"^lossy: expected True or False, got "):
        rt.alter_table(FRAME, "t", FRAME, lossy=value, client=NOWHERE)


@pytest.mark.parametrize("value", ["no", 1, None], ids=repr)
def test_purge_is_true_or_false_alone(place, name, value):
    table = place.create(name, FRAME)
    with pytest.raises(ValueError, match=r"^purge: expected True or False, got "):
        table.compact(purge=value)
    assert table.compact(purge=np.False_).version == 1


@pytest.mark.parametrize("dtypes", ["int64", {"n": "flot64"}, {"n": object}], ids=repr)
def test_types_that_cannot_be_used_are_refused_before_a_request(server, dtypes):
    client = rt.connect(server.url, api_key=KEY, dialect="lancedb", default=False)
    with pytest.raises((TypeError, ValueError)):
        client.create_table("t", FRAME, dtypes=dtypes, if_exists="append")
    assert server.requests == []


def test_numpys_true_and_false_are_python_s(server):
    plan = WIDE.remote.plan_alterations(FRAME, add_columns=np.True_)
    assert plan.added.names == ["m"]
    rt.connect(server.url, api_key=KEY, allow_insecure=np.True_, default=np.False_)
    with pytest.raises(NotConnectedError):
        rt.list_tables()


SLIPS = {
    "if_exists='replace'": [
        lambda: FRAME.remote.to_table("t", "replace"),
        lambda: FRAME.remote.tee("t", "replace"),
        lambda: rt.to_table(FRAME, "t", "replace"),
        lambda: rt.tee(FRAME, "t", "replace"),
        lambda: rt.table("t").client.create_table("t", FRAME, "replace"),
    ],
    "where=<Expr": [
        lambda: rt.table("t").to_pandas(pl.col("n") > 3),
        lambda: rt.table("t").to_polars(pl.col("n") > 3),
        lambda: rt.table("t").to_arrow(pl.col("n") > 3, 5),
    ],
    "columns=['n']": [lambda: rt.table("t").to_polars(["n"])],
    "limit=5": [lambda: rt.table("t").to_pandas(5)],
    "version=1": [
        lambda: rt.table("t", 1),
        lambda: rt.table("t").client.table("t", 1),
    ],
    "rename={'n': 'm'}": [
        lambda: rt.alter_table(FRAME, "t", FRAME, {"n": "m"}),
        lambda: rt.plan_alterations(FRAME, FRAME, {"n": "m"}),
        lambda: FRAME.remote.alter_table("t", FRAME, {"n": "m"}),
        lambda: FRAME.remote.plan_alterations(FRAME, {"n": "m"}),
    ],
    "client=Client(": [
        lambda: rt.list_tables(rt.table("t").client),
        lambda: rt.table("t", rt.table("t").client),
        lambda: rt.alter_columns("t", [], rt.table("t").client),
    ],
}
SLIP_CASES = [(words, call) for words, calls in SLIPS.items() for call in calls]


@pytest.mark.parametrize(("words", "call"), SLIP_CASES)
def test_what_is_passed_by_position_is_told_its_keyword(remote, server, words, call):
    with pytest.raises(TypeError) as refused:
        call()
    assert f" by position; pass it as {words}" in str(refused.value)
    assert server.requests == []


def test_a_value_that_fits_no_keyword_is_told_all_of_them():
    with pytest.raises(TypeError, match=r"to_table: got 1\.5 by .* client, dtypes, "):
        rt.to_table(FRAME, "t", 1.5)


@pytest.mark.parametrize(
    "function", [rt.to_table, rt.RemoteTable.to_pandas, rt.table, rt.alter_table]
)
def test_signatures_show_that_options_are_keywords(function):
    parameters = inspect.signature(function).parameters
    assert parameters[[*parameters][-1]].kind is inspect.Parameter.KEYWORD_ONLY


MISSPELLED = [
    (FRAME.remote, "to_tabel", "to_table"),
    (FRAME.remote, "Schema", "schema"),
    (rt, "list_table", "list_tables"),
    (rt, "Remotetable", "RemoteTable"),
]


@pytest.mark.parametrize(("owner", "name", "meant"), MISSPELLED)
def test_a_misspelled_attribute_is_told_the_name_that_is_meant(owner, name, meant):
    with pytest.raises(AttributeError, match=f"no '{name}'; did you mean '{meant}'"):
        getattr(owner, name)


@pytest.mark.parametrize("retries", [np.int64(2), np.uint8(0), 1])
def test_retries_are_any_whole_number(retries):
    rt.connect(URL, api_key="k", retries=retries, default=False)


@pytest.mark.parametrize("retries", [-1, True, 1.0, "2", None, np.int8(-1)])
def test_other_retries_are_refused(retries):
    with pytest.raises(ValueError, match=r"^retries: expected a whole number from 0"):
        rt.connect(URL, api_key="k", retries=retries)


@pytest.mark.parametrize("verify", [None, 1, "", Path("none.pem")], ids=repr)
def test_an_unusable_verify_is_named(verify):
    with pytest.raises(ValueError, match=r"^verify: "):
        rt.connect(URL, api_key="k", verify=verify)
