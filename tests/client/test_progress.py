"""The progress bar: shown on request, or on a terminal if an upload takes long."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
import termios

import nbformat
import polars as pl
import pytest

import rt_frames as rt
from rt_frames.errors import UploadInterrupted
from tests.notebooks import executed

FRAME = pl.DataFrame({"n": range(1000)})

UPLOADS = """
import sys, time
import polars as pl
import rt_frames as rt

def frames(seconds):
    for i in range(6):
        time.sleep(seconds if i == 3 else 0)
        yield pl.DataFrame({"n": [i]})

def upload(client, name):
    rt.to_table(frames(0), f"{name}_short", client=client)
    # a bar is shown after two seconds
    rt.to_table(frames(2.1), f"{name}_long", client=client)
"""


def test_it_is_shown_when_asked_for(remote, capsys):
    rt.to_table(FRAME, "sales", progress=True)
    shown = capsys.readouterr().err
    assert "sales: 100%" in shown
    assert "1,000 rows" in shown
    assert "B/s" in shown


def test_a_short_upload_shows_nothing(remote, capsys):
    for progress in (None, False):
        rt.to_table(FRAME, "sales", progress=progress)
    assert capsys.readouterr() == ("", "")


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
    frame = pl.DataFrame({"n": range(4_000_000)})
    client = rt.connect(server.url, api_key="k", retries=0)
    with client, pytest.raises(UploadInterrupted):
        rt.to_table(frame, "sales", progress=True)
    assert capsys.readouterr().err.endswith("\n")


IN_A_NOTEBOOK = """
import polars as pl
import rt_frames as rt

rt.connect("./tables")
frame = pl.DataFrame({"n": range(1000)})
_ = rt.to_table(frame, "known", compression=None, progress=True)
_ = rt.to_table((frame for _ in range(3)), "streamed", progress=True)
_ = rt.to_table(frame, "short")
"""


def test_a_notebook_shows_bars_that_the_browser_draws_and_nothing_on_stderr(tmp_path):
    path = tmp_path / "progress.ipynb"
    cell = nbformat.v4.new_code_cell(IN_A_NOTEBOOK)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    known, streamed = executed(path, tmp_path).cells[0].outputs
    html = known.data["text/html"]
    text = known.data["text/plain"]
    value, most = re.search(r'<progress value="(\d+)" max="(\d+)"', html).groups()
    assert value == most
    assert "known: " in html
    assert re.fullmatch(
        r"known: [\d.]+ kB of [\d.]+ kB, 1,000 rows, [\d.]+ [kM]?B/s, \d+ s", text
    )
    assert re.fullmatch(
        r"streamed: [\d.]+ [kM]?B, 3,000 rows, [\d.]+ [kM]?B/s, \d+ s",
        streamed.data["text/plain"],
    )
    assert [output.output_type for output in (known, streamed)] == ["display_data"] * 2


def test_a_long_upload_is_shown_on_a_terminal_alone(client, service, name, capfd):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    connect = f"rt.connect({service.url!r}, api_key={service.api_key!r})"
    program = [sys.executable, "-c", f"{UPLOADS}\nupload({connect}, {name!r})"]
    with subprocess.Popen(program, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        here = {}
        exec(UPLOADS, here)
        here["upload"](client, f"{name}_here")
        shown = b""
        with contextlib.suppress(OSError):  # how the end of a terminal is told
            while part := os.read(ours, 4096):
                shown += part
    os.close(ours)
    assert process.returncode == 0, shown
    assert all(words in shown for words in (f"{name}_long: ".encode(), b"6 rows"))
    assert f"{name}_short: ".encode() not in shown
    assert capfd.readouterr() == ("", "")


ON_A_BROKEN_STDERR = """
import io, sys, traceback, polars as pl, rt_frames as rt
sys.excepthook = lambda *raised: traceback.print_exception(*raised, file=sys.stdout)
url, api_key, name = sys.argv[1:]
rt.connect(url, api_key=api_key)
broken = type("Broken", (), {"write": lambda *_: 1 / 0, "flush": lambda *_: None})()
(closed := io.StringIO()).close()
for number, sys.stderr in enumerate([sys.stderr, None, broken, closed]):
    frames = (pl.DataFrame({"n": range(100_000)}) for _ in range(5))
    print(rt.to_table(frames, f"{name}_{number}", progress=True).rows)
"""


def test_a_bar_that_cannot_be_drawn_ends_and_the_upload_goes_on(service, name):
    arguments = [service.url, service.api_key, name]
    program = [sys.executable, "-c", ON_A_BROKEN_STDERR, *arguments]
    with open("/dev/full", "w") as full:  # noqa: PTH123  # a device
        printed = subprocess.check_output(program, stderr=full, text=True, timeout=60)
    assert printed == "500000\n" * 4
