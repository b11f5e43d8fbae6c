"""Arguments that many functions have, such as flags, and their signatures."""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys
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
    "cast": (rt.RemoteTable("t", NOWHERE).cast, [{"n": "int8"}]),
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


@pytest.mark.parametrize("series", [pd.Series([1]), pl.Series([1])])
def test_a_column_says_that_frames_have_remote_but_not_for_tab(series):
    with pytest.raises(AttributeError, match=r"\.to_frame\(\)\.remote"):
        getattr(series, "remote")  # noqa: B009  # not a statement without effect
    assert "remote" not in dir(series)
    assert not hasattr(series, "remote")
    assert hasattr(series.to_frame(), "remote")
    assert pd.Series({"remote": 7}).remote == 7


def test_the_signature_of_connect_has_no_other_argument_by_position():
    kinds = [one.kind.name for one in inspect.signature(rt.connect).parameters.values()]
    assert kinds == ["POSITIONAL_OR_KEYWORD", *["KEYWORD_ONLY"] * (len(kinds) - 1)]


INTERRUPTED = """
import signal, sys
import polars as pl
import rt_frames as rt

def frames():
    yield pl.DataFrame({"n": [1]})
    signal.raise_signal(signal.SIGINT)

rt.connect(sys.argv[1])
rt.to_table(frames(), "t")
"""


def test_ctrl_c_shows_the_lines_of_the_caller(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(INTERRUPTED, "utf-8")
    program = [sys.executable, script, tmp_path / "tables"]
    ended = subprocess.run(program, check=False, capture_output=True, text=True)
    lines = ended.stderr.splitlines()
    assert lines[-1] == "KeyboardInterrupt"
    assert '    rt.to_table(frames(), "t")' in lines
    assert len(lines) < 30


PARTS = """
import pyarrow as pa
from rt_frames.local import LocalService
import rt_frames as rt

with LocalService(__import__("sys").argv[1], api_key="k") as service:
    client = rt.connect(service.url, api_key="k", dialect="lancedb")
    rt.to_table(pa.table({"n": [1]}), "t")
    rt.to_table(pa.table({"n": [1]}), "t", if_exists="append")
    rt.to_table(iter([pa.table({"n": [1]})] * 2), "t", if_exists="append")
    client.table("t").drop()
"""


def test_no_file_is_written_in_the_encoding_of_the_locale(tmp_path):
    options = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
    program = [sys.executable, *options, "-c", PARTS, tmp_path]
    ended = subprocess.run(program, check=False, capture_output=True, text=True)
    assert ended.stderr == ""


@pytest.mark.parametrize("threads", ["0", "1"])
def test_a_folder_refuses_a_number_of_threads_with_which_lance_hangs(
    tmp_path, monkeypatch, threads
):
    monkeypatch.setenv("LANCE_IO_THREADS", threads)
    words = f"LANCE_IO_THREADS={threads}: .* 2 or more"
    with pytest.raises(ValueError, match=words):
        rt.connect(tmp_path / "tables", default=False).list_tables()
    monkeypatch.setenv("LANCE_IO_THREADS", "2")
    with rt.connect(tmp_path / "tables", default=False) as client:
        assert client.list_tables() == []


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


@pytest.mark.parametrize(
    "function", [rt.to_table, rt.RemoteTable.to_pandas, rt.table, rt.alter_table]
)
def test_signatures_show_that_options_are_keywords(function):
    parameters = inspect.signature(function).parameters
    assert parameters[[*parameters][-1]].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("door", ["to_table", "tee", "create_table"])
def test_options_stand_in_the_order_of_their_use(door):
    function, _ = DOORS[door]
    parameters = inspect.signature(function).parameters.values()
    options = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    rows = ["if_exists", "on", "where", "add_columns"]
    columns = ["dtypes", "index", "clean_names"]
    sending = ["progress", "compression"]
    client = [] if door == "create_table" else ["client"]
    assert options == rows + columns + sending + client


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
