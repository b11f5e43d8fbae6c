"""The console script in a process of its own, as a shell sees it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pytest
import requests

from tests.support.processes import LONGEST, Program, python
from tests.support.servers import KEY, usual

SCRIPT = str(Path(sys.executable).with_name("rt-frames"))
IGNORING = ("sh", "-c", 'trap "" INT; exec "$0" "$@"')  # runs the words that follow


@pytest.fixture
def start():
    """Start the script; it must have ended when the test does."""
    with contextlib.ExitStack() as started:

        def start(*words: object, **environment: str) -> Program:
            env = os.environ | {"PYTHONUNBUFFERED": "1"} | environment
            return started.enter_context(Program(SCRIPT, *words, env=env))

        yield start


HELP = """
import sys
from rt_frames.cli.main import main

for words in (["--help"], ["show", "--help"], ["--version"]):
    main(words, standalone_mode=False)
try:
    main([], prog_name="rt-frames")
except SystemExit:
    pass
assert not {"pyarrow", "pandas", "polars", "requests", "lance"} & set(sys.modules)
"""


def test_help_and_completion_load_no_library_of_frames():
    env = os.environ | {"_RT_FRAMES_COMPLETE": "zsh_source"}
    with python("-c", HELP, env=env) as process:
        printed, error = process.communicate()
    assert process.returncode == 0
    assert error == ""
    assert re.search(r"rt-frames, version [\d.]+\n#compdef rt-frames\n", printed)


WITHOUT_EXTRAS = """
import sys
import rt_frames as rt
from rt_frames.cli.main import main

for module in ("cheroot", "lance"):
    sys.modules[module] = None
    for words in (["serve", "t"], ["tables", "--url", "."], ["demo"]):
        try:
            main(words)
        except SystemExit as ended:
            assert ended.code == 1
    del sys.modules[module]
sys.modules["lance"] = None
rt.connect("./t")
"""
CURE = 'must be installed for this: pip install "rt_frames[local]"'


def test_a_missing_extra_is_a_sentence_with_its_command(tmp_path):
    with Program(sys.executable, "-c", WITHOUT_EXTRAS, cwd=tmp_path) as process:
        printed, error = process.communicate()
    lines = error.splitlines()
    assert lines[:3] == [f"Error: cheroot {CURE}"] * 3
    assert lines[3:6] == [f"Error: lance {CURE}"] * 3
    assert printed == ""
    assert lines[-1] == f"ModuleNotFoundError: lance {CURE}"


def test_serve_answers_until_it_is_interrupted_and_writes_a_line_for_each_request(
    run, start, tmp_path, monkeypatch
):
    process = start("serve", tmp_path / "tables")
    env = dict(
        process.stdout.readline().removeprefix("export ").strip().split("=", 1)
        for _ in range(3)
    )
    assert run("tables", "--json", **env).stdout == "[]\n"
    # not all dialects can describe tables
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    pl.DataFrame({"n": [1]}).remote.to_table("t", if_exists="replace")
    assert run("show", "t").returncode == 0
    requests.get(
        f"{env['RT_FRAMES_URL']}/v1/tables%0Ax",
        headers={"x-api-key": "wrong"},
        timeout=9,
    )
    process.send_signal(signal.SIGINT)
    _, log = process.communicate()
    assert process.returncode == 0
    assert re.search(
        r" 127\.0\.0\.1 POST /v1/table/t/create/?\S* 200, \d+ bytes received, \d+ ms\n",
        log,
    )
    assert re.search(
        r" 127\.0\.0\.1 GET /v1/tables%0Ax 401, 0 bytes received, \d+ ms\n", log
    )
    assert env["RT_FRAMES_API_KEY"] not in log


def test_serve_does_not_repeat_a_key_that_it_was_given(start, tmp_path):
    process = start("serve", tmp_path, RT_FRAMES_API_KEY=KEY)
    assert "RT_FRAMES_URL=" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert KEY not in process.stdout.read() + process.stderr.read()


@pytest.mark.parametrize(
    ("host", "printed"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]")]
)
def test_serve_prints_an_address_that_can_be_called(
    run, start, tmp_path, host, printed
):
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    process = start("serve", tmp_path, "--host", host, RT_FRAMES_API_KEY=KEY)
    url = process.stdout.readline().strip().partition("=")[2]
    assert url.startswith(f"http://{printed}:")
    done = run("tables", "--json", RT_FRAMES_URL=url, RT_FRAMES_API_KEY=KEY)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert done.stdout == "[]\n"
    assert done.stderr == ""


def test_a_port_in_use_is_a_sentence(start, service, tmp_path):
    port = service.url.rpartition(":")[2]
    process = start("serve", tmp_path, "--port", port)
    out, err = process.communicate()
    assert process.returncode == 1
    assert out == ""
    assert err == (
        f"Error: cannot listen on 127.0.0.1, port {port}: address already in use; "
        "pass another --port or --host\n"
    )


def test_serve_ignores_an_interrupt_as_it_was_started_to(tmp_path):
    """A shell starts what it runs in the background so."""
    env = os.environ | {"PYTHONUNBUFFERED": "1", "RT_FRAMES_API_KEY": KEY}
    with Program(*IGNORING, SCRIPT, "serve", tmp_path, env=env) as process:
        url = process.stdout.readline().strip().partition("=")[2]
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        assert requests.get(
            f"{url}/v1/tables", headers={"x-api-key": KEY}, timeout=9
        ).json() == {"tables": []}
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate()
        assert process.returncode == 0
    assert f"stop with kill {process.pid}\n" in log
    assert log.endswith("stopped\n")


UPLOAD = """
import polars as pl
import rt_frames as rt
print(rt.to_table(pl.DataFrame({"n": [1]}), "t"))
"""


def test_an_upload_ignores_an_interrupt_as_it_was_started_to(server):
    def interrupt_and_answer(connection):
        process.send_signal(signal.SIGINT)
        usual(connection)

    server.script = interrupt_and_answer
    env = os.environ | {"RT_FRAMES_URL": server.url, "RT_FRAMES_API_KEY": KEY}
    with Program(*IGNORING, sys.executable, "-c", UPLOAD, env=env) as process:
        out, err = process.communicate()
    assert process.returncode == 0
    assert err == ""
    assert out.startswith("RemoteTable('t', ")


def test_ctrl_c_ends_a_command_at_once_with_130(start, server):
    begun = threading.Event()
    ended = threading.Event()

    def never_answer(connection):
        connection.head()
        begun.set()
        ended.wait(LONGEST)

    server.script = never_answer
    process = start("tables", RT_FRAMES_URL=server.url, RT_FRAMES_API_KEY=KEY)
    assert begun.wait(LONGEST)
    # Python handles a signal late that comes just as a wait begins
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    ended.set()
    assert process.returncode == 130
    assert out == ""
    assert err == "interrupted\n"


@pytest.mark.parametrize("late", [0, pytest.param(0.1, marks=pytest.mark.long)])
def test_ctrl_c_after_the_last_word_of_a_command_ends_it_at_once(start, tmp_path, late):
    process = start("demo", "--keep", tmp_path / "tables")
    assert any(line.startswith("next: ") for line in iter(process.stdout.readline, ""))
    # its service stops, and then the interpreter
    time.sleep(late)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    # shells call -SIGINT 130, too; 0 if the command was over already
    assert process.returncode in (130, -signal.SIGINT, 0)
    assert "Traceback" not in err


def test_a_reader_that_closes_its_pipe_ends_a_command_quietly(start, server):
    server.listed = [f"table {number}" for number in range(100_000)]
    server.answering((200, {}))
    process = start("tables", RT_FRAMES_URL=server.url, RT_FRAMES_API_KEY=KEY)
    assert process.stdout.readline() == "table 0\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 1
