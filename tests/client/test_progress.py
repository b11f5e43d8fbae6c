"""The progress bar: there when it is asked for, or when an upload takes long and somebody can see it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios

import polars as pl
import pytest

import rt_frames as rt
from rt_frames.errors import UploadInterrupted

FRAME = pl.DataFrame({"n": range(1000)})

SLOW = """
import sys, time
import polars as pl
import rt_frames as rt

def frames():
    for i in range(6):
        time.sleep(0.5)
        yield pl.DataFrame({"n": [i]})

client = rt.connect(sys.argv[1], api_key=sys.argv[2])
rt.to_table(frames() if sys.argv[4] == "slow" else next(frames()), sys.argv[3])
"""


def test_it_is_shown_when_asked_for(remote, capsys):
    rt.to_table(FRAME, "sales", progress=True)
    shown = capsys.readouterr().err
    assert "sales: 100%" in shown
    assert "1,000 rows" in shown
    assert "B/s" in shown


@pytest.mark.parametrize("progress", [None, False])
def test_a_short_upload_shows_nothing(remote, capsys, progress):
    rt.to_table(FRAME, "sales", progress=progress)
    assert capsys.readouterr() == ("", "")


def test_anything_else_is_refused_before_a_request(remote, server):
    with pytest.raises(ValueError, match="progress: expected None, True or False, got 'yes'"):
        rt.to_table(FRAME, "sales", progress="yes")
    assert server.posts == []


def test_a_body_that_is_sent_twice_is_counted_once(remote, server, capsys):
    server.answering((429, b"", {"Retry-After": "0"}), (200, {"version": 1}))
    table = rt.to_table(FRAME, "sales", progress=True)
    assert len(server.posts) == 2
    last = capsys.readouterr().err.rstrip().rpartition("\r")[2]
    assert "sales: 100%" in last
    whole = f"{table.nbytes / 1000:.2f}k"
    assert f"{whole}/{whole}" in last


def test_it_ends_with_the_upload_when_that_fails(server, capsys):
    def hang_up(connection):
        request = connection.body(connection.head(), 2**20)
        if request.method == "POST":
            connection.reset()
        connection.answer(200, {"tables": []})

    server.script = hang_up
    with (
        rt.connect(server.url, api_key="k", retries=0) as client,
        pytest.raises(UploadInterrupted),
    ):
        rt.to_table(pl.DataFrame({"n": range(4_000_000)}), "sales", progress=True, if_exists="fail", client=client)
    assert capsys.readouterr().err.endswith("\n")


def run(service, name: str, pace: str, terminal: bool) -> str:
    """Upload in a process of its own; give what its terminal, or its standard error, showed."""
    command = [sys.executable, "-c", SLOW, service.url, service.api_key, name, pace]
    if not terminal:
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    with subprocess.Popen(command, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # how the end of a terminal is told
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode()


def test_a_long_upload_is_shown_on_a_terminal_alone(service, name):
    assert f"{name}_1: " in run(service, f"{name}_1", "slow", terminal=True)
    assert run(service, f"{name}_2", "short", terminal=True) == ""
    assert run(service, f"{name}_3", "slow", terminal=False) == ""
