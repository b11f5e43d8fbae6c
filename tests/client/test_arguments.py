"""Arguments that many functions have: flags, and what is passed by position."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rt_frames as rt
from tests.support.servers import KEY

FRAME = pd.DataFrame({"n": [1]})
WIDE = pd.DataFrame({"n": [1], "m": [2]})
UPSERT = {"if_exists": "upsert", "on": "n"}
URL = "https://words-x1.us-east-1.example.com"
DOORS = {
    "to_table": (rt.to_table, lambda **flags: rt.to_table(FRAME, "t", **flags)),
    "tee": (rt.tee, lambda **flags: rt.tee(FRAME, "t", **flags)),
    "plan_alterations": (
        rt.plan_alterations,
        lambda **flags: rt.plan_alterations(FRAME, FRAME, **flags),
    ),
    "alter_table": (
        rt.alter_table,
        lambda **flags: rt.alter_table(FRAME, "t", FRAME, **flags),
    ),
    "create_table": (
        rt.Client.create_table,
        lambda **flags: rt.table("t").client.create_table("t", FRAME, **flags),
    ),
    "remote.to_table": (
        FRAME.remote.to_table,
        lambda **flags: FRAME.remote.to_table("t", **flags),
    ),
    "remote.tee": (FRAME.remote.tee, lambda **flags: FRAME.remote.tee("t", **flags)),
    "remote.plan_alterations": (
        FRAME.remote.plan_alterations,
        lambda **flags: FRAME.remote.plan_alterations(FRAME, **flags),
    ),
    "remote.alter_table": (
        FRAME.remote.alter_table,
        lambda **flags: FRAME.remote.alter_table("t", FRAME, **flags),
    ),
    "connect": (rt.connect, lambda **flags: rt.connect(URL, api_key="k", **flags)),
    "Client": (rt.Client, lambda **flags: rt.Client(URL, api_key="k", **flags)),
}


def flags_of(function: object) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.annotation in ("bool", "bool | None")]


FLAGS = [
    (door, flag) for door, (function, _) in DOORS.items() for flag in flags_of(function)
]


def test_every_flag_of_a_public_function_is_tested():
    functions = [getattr(rt, name) for name in rt.__all__ if name != "errors"]
    handles = (rt.Client, rt.RemoteTable, type(FRAME.remote))
    for handle in handles:
        functions += [one for _, one in inspect.getmembers(handle, inspect.isfunction)]
    known = {function for function, _ in DOORS.values()}
    known |= {getattr(function, "__func__", None) for function in known}
    known.add(rt.RemoteTable.compact)
    fields = {rt.RemoteTable.__init__, rt.Client.__init__}
    for function in functions:
        if callable(function) and not isinstance(function, type):
            assert function in known | fields or not flags_of(function), function
    names = {"index", "clean_names", "add_columns", "progress", "lossy", "rewrite"}
    assert {flag for _, flag in FLAGS} == names | {"allow_insecure", "default"}


@pytest.mark.parametrize(("door", "flag"), FLAGS, ids=map(": ".join, FLAGS))
@pytest.mark.parametrize("value", ["no", ["n"], 1, 0, "", object], ids=repr)
def test_a_flag_is_true_or_false_alone(remote, server, door, flag, value):
    _, call = DOORS[door]
    with pytest.raises(ValueError, match=rf"^{flag}: expected True or False, got "):
        call(**{flag: value})
    assert server.requests == []


@pytest.mark.parametrize("value", ["no", 1, None], ids=repr)
def test_purge_is_true_or_false_alone(service, name, value):
    client = rt.connect(service.url, api_key=KEY, dialect="lancedb", default=False)
    table = client.create_table(name, FRAME)
    with pytest.raises(ValueError, match=r"^purge: expected True or False, got "):
        table.compact(purge=value)
    assert table.compact(purge=np.False_).version == 1


@pytest.mark.parametrize("dtypes", ["int64", {"n": "flot64"}, {"n": object}], ids=repr)
@pytest.mark.parametrize("write", [{"if_exists": "append"}, UPSERT], ids=repr)
def test_types_that_cannot_be_used_are_refused_before_a_request(server, write, dtypes):
    client = rt.connect(server.url, api_key=KEY, dialect="lancedb", default=False)
    with pytest.raises((TypeError, ValueError)):
        client.create_table("t", FRAME, dtypes=dtypes, **write)
    assert server.requests == []


@pytest.mark.parametrize(("door", "flag"), FLAGS, ids=map(": ".join, FLAGS))
def test_a_flag_may_be_numpys(remote, door, flag):
    _, call = DOORS[door]
    call(**{flag: np.False_})


def test_numpys_true_is_true(remote, server):
    plan = WIDE.remote.plan_alterations(FRAME, add_columns=np.True_)
    assert plan.added.names == ["m"]
    wide = pd.DataFrame({"n": [1.5]})
    narrow = wide.astype("float32")
    narrow.remote.alter_table("t", wide, lossy=np.True_)
    assert len(server.posts) == 1
    rt.connect(server.url, api_key=KEY, allow_insecure=np.True_, default=np.True_)


SLIPS = {
    "if_exists='replace'": [
        lambda: FRAME.remote.to_table("t", "replace"),
        lambda: FRAME.remote.tee("t", "replace"),
        lambda: rt.to_table(FRAME, "t", "replace"),
        lambda: rt.tee(FRAME, "t", "replace"),
        lambda: rt.table("t").client.create_table("t", FRAME, "replace"),
    ],
    "where='n > 3'": [
        lambda: rt.table("t").to_pandas("n > 3"),
        lambda: rt.table("t").to_polars("n > 3"),
        lambda: rt.table("t").to_arrow("n > 3", 5),
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


@pytest.mark.parametrize(
    ("owner", "name", "meant"),
    [
        (FRAME.remote, "to_tabel", "to_table"),
        (FRAME.remote, "Schema", "schema"),
        (FRAME.remote, "plan_alteration", "plan_alterations"),
        (rt, "list_table", "list_tables"),
        (rt, "Remotetable", "RemoteTable"),
        (rt, "plan_alteration", "plan_alterations"),
    ],
)
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
