"""The progress bar: there when it is asked for, or when an upload takes long and somebody can see it."""

from __future__ import annotations

import os
import pty
import re
import shlex
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

TWO_UPLOADS = """
import sys, time
import polars as pl
import rt_frames as rt

def frames(seconds):
    for i in range(6):
        time.sleep(seconds if i == 3 else 0)
        yield pl.DataFrame({"n": [i]})

url, key, name = sys.argv[1:]
rt.connect(url, api_key=key)
rt.to_table(frames(0), f"{name}_short")
rt.to_table(frames(2.1), f"{name}_long")  # a bar is shown after two seconds
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
    with pytest.raises(ValueError, match=r"progress: .*'yes'"):
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
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(IN_A_NOTEBOOK)]), path)
    known, streamed = executed(path, tmp_path).cells[0].outputs
    html, text = known.data["text/html"], known.data["text/plain"]
    value, most = re.search(r'<progress value="(\d+)" max="(\d+)"', html).groups()
    assert value == most
    assert "known: " in html
    assert re.fullmatch(r"known: [\d.]+ kB of [\d.]+ kB, 1,000 rows, [\d.]+ [kM]?B/s, \d+ s", text)
    assert re.fullmatch(r"streamed: [\d.]+ [kM]?B, 3,000 rows, [\d.]+ [kM]?B/s, \d+ s", streamed.data["text/plain"])
    assert [output.output_type for output in (known, streamed)] == ["display_data"] * 2


def shown_on_a_terminal(command: list[str]) -> str:
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
    command = [sys.executable, "-c", TWO_UPLOADS, service.url, service.api_key]
    with subprocess.Popen([*command, f"{name}_2"], stderr=subprocess.PIPE, text=True) as unseen:
        shown = shown_on_a_terminal([*command, f"{name}_1"])
        assert unseen.communicate()[1] == ""
    assert unseen.returncode == 0
    assert f"{name}_1_long: " in shown
    assert "6 rows" in shown
    assert f"{name}_1_short: " not in shown


BREAKS = {  # a shell's redirection, and what the program itself does
    "closed by the shell": ("2>&-", ""),
    "full": ("2>/dev/full", ""),
    "closed": ("", "sys.stderr.close()"),
    "broken": ("", "sys.stderr = type('B', (), {'write': lambda *_: 1 / 0, 'flush': lambda *_: None})()"),
}


def test_a_bar_that_cannot_be_drawn_ends_and_the_upload_goes_on(service, name):
    running = {}
    for number, (how, (redirection, does)) in enumerate(BREAKS.items()):
        code = f"""
import sys, polars as pl, rt_frames as rt
{does}
rt.connect({service.url!r}, api_key={service.api_key!r})
frames = (pl.DataFrame({{"n": range(100_000)}}) for _ in range(5))
print(rt.to_table(frames, "{name}_{number}", progress=True).rows)
"""
        command = f"{shlex.join([sys.executable, '-c', code])} {redirection}"
        running[how] = subprocess.Popen(command, shell=True, stdout=-1, stderr=-1, text=True)
    ended = {how: process.communicate(timeout=60) for how, process in running.items()}
    assert ended == dict.fromkeys(BREAKS, ("500000\n", ""))
