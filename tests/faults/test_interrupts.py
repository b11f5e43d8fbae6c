"""Ctrl-C at each step, and at the end of the interpreter.

F45, and what F46 to F49 have of it, of the matrix in README.md.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.faults import MIB, certificates
from tests.support.processes import Program, python
from tests.support.servers import KEY, Connection, Server, usual

# seconds, on a busy machine: an event cannot show that nothing was waited for
AT_ONCE = 10.0
# seconds of what must not be waited for
LONG = 30

DESCRIBED = {
    "version": 1,
    "schema": {
        "fields": [{"name": "a", "type": {"type": "int64"}, "nullable": True}],
    },
}


class Calling(Program):
    """Calls the service and is interrupted."""

    def __init__(
        self, server: Server, verify: object, what: str, seconds: float = LONG
    ) -> None:
        calls = f"Calls({server.url!r}, {verify!r}, {seconds})"
        code = f"from tests.support.interrupted import Calls; {calls}.{what}()"
        super().__init__(
            sys.executable,
            "-c",
            code,
            stdin=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )

    def call(self, name: str) -> None:
        self.stdin.write(name + "\n")
        self.stdin.flush()

    def interrupt(self) -> None:
        self.send_signal(signal.SIGINT)

    def end(self) -> tuple[str, str]:
        """Wait for its end, which must be no abort, and return what it printed."""
        printed, errors = self.communicate()
        assert "Fatal" not in errors, errors
        assert KEY not in errors
        return printed, errors


class Stalling:
    """Serves, but stalls at one step of one request until the client is gone."""

    def __init__(self) -> None:
        self.step = ""
        self.method = "POST"
        self.stalled = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, connection: Connection) -> None:
        while True:
            request = connection.head()
            is_look = "/describe/" in request.path
            if not self.step or request.method != self.method or is_look:
                connection.body(request)
                answer = DESCRIBED if is_look else {}
                connection.answer(
                    200, {"tables": []} if request.method == "GET" else answer
                )
                continue
            step = self.step
            self.step = ""
            connection.body(request, MIB // 2 if step in ("body", "batch") else None)
            if step == "pause":
                connection.answer(429, {}, {"Retry-After": str(LONG)})
            self.stalled.set()
            if step != "pause":
                self.go_on.wait(LONG)
                return


@pytest.fixture(params=["plain", "tls"])
def stalling(request, tmp_path):
    """A service that stalls, over either kind of wire, and what vouches for it."""
    with Server(script=Stalling()) as server:
        if request.param == "tls":
            authority, server.tls = certificates()
            authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        yield server, str(tmp_path / "ca.pem") if server.tls else True
        server.script.go_on.set()


STEPS = {
    "plain": [
        ("list", "pause"),
        ("alter", "answer"),
        ("small", "pause"),
        ("large", "body"),
        ("large", "answer"),
        ("text", "answer"),
        ("reader", "batch"),
        ("generator", "batch"),
    ],
    "tls": [
        ("list", "answer"),
        ("small", "answer"),
        ("large", "body"),
        ("text", "body"),
        ("compressed", "batch"),
    ],
}


def test_F45_an_interrupt_ends_whatever_is_waited_for_at_once_and_the_next_call_works(
    stalling,
):
    server, verify = stalling
    interrupt_each(server, verify, STEPS["tls" if server.tls else "plain"])


NOTES = {
    "small": "create table 't'",
    "alter": "alter table 't'",
    "upsert": "upsert into table 't'",
    "add": "add columns to table 't'",
    "drop": "drop columns of table 't'",
    "delete": "delete rows of table 't'",
    "restore": "restore table 't'",
}
CHANGES = [
    ("upsert", "body"),
    ("upsert", "answer"),
    ("reading upsert", "batch"),
    ("add", "answer"),
    ("drop", "pause"),
    ("drop", "answer"),
    ("delete", "pause"),
    ("delete", "answer"),
    ("restore", "answer"),
]


@pytest.mark.parametrize("stalling", ["plain"], indirect=True)
def test_F46_F47_F48_F49_an_interrupt_ends_a_change_at_once_and_the_next_call_works(
    stalling,
):
    server, verify = stalling
    interrupt_each(server, verify, CHANGES)
    changed = [request for request in server.posts if "/describe/" not in request.path]
    assert len(changed) == len(CHANGES)


def note_after(call: str, step: str) -> str:
    """Return the note of an interrupt: none if nothing can come of the request."""
    if step != "answer" or call == "list":
        return ""
    action = NOTES.get(call, NOTES["small"])
    look = "check the table"
    if call == "alter":
        look = (
            "no request of this service shows the table's columns: look at them in the "
            "service's dashboard"
        )
    return (
        f" the request to {action} was sent before the interrupt; "
        f"it may still be carried out: {look} before sending it again"
    )


def interrupt_each(server: Server, verify: object, steps: list) -> None:
    """Interrupt calls, each at a step of its request; then one more call works."""
    script = server.script
    with Calling(server, verify, "in_turn") as program:
        for call, step in steps:
            script.stalled.clear()
            script.step = step
            script.method = "GET" if call == "list" else "POST"
            program.call(call)
            assert script.stalled.wait(60), (call, step)
            time.sleep(0.05)
            start = time.monotonic()
            program.interrupt()
            printed = program.stdout.readline()
            assert printed == f"interrupted{note_after(call, step)}\n", (call, step)
            assert time.monotonic() - start < AT_ONCE, (call, step)
            assert program.stdout.readline() == "[]\n", (call, step)
        program.interrupt()  # as it waits for another call
        assert program.end()[1].endswith("KeyboardInterrupt\n")


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
def test_F45_an_interrupt_at_any_step_of_a_request_leaves_nothing_locked(step):
    with (
        Server(script=Stalling()) as server,
        Calling(server, True, "everywhere") as program,
    ):
        program.call(str(step))
        printed, errors = program.end()
    assert printed, errors
    assert int(printed) > 200


@pytest.mark.parametrize("step", [19, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["append", "delete", "rename", "drop"])
def test_F45_an_interrupt_at_any_step_of_a_change_says_whether_it_was_carried_out(
    kind, step, tmp_path
):
    folder = f"Folder({str(tmp_path)!r}).everywhere({kind!r}, {step})"
    code = f"from tests.support.interrupted import Folder; {folder}"
    with python("-c", code, seconds=10 * LONG) as program:
        printed, errors = program.communicate()
    count, _, found = printed.partition(" ")
    assert found == "[(False, False), (True, True)]\n", errors
    assert int(count) > 200 / step


@pytest.mark.parametrize("stalling", ["tls"], indirect=True)
def test_F45_a_second_interrupt_ends_the_process_at_once_without_an_abort(
    stalling,
):
    server, verify = stalling
    server.script.step = "batch"
    with Calling(server, verify, "compressed") as program:
        assert server.script.stalled.wait(60)
        time.sleep(0.05)
        start = time.monotonic()
        program.interrupt()
        assert any(line.endswith("KeyboardInterrupt\n") for line in program.stderr)
        # nobody is quicker; one that comes while other libraries end is theirs, and is
        # lost
        time.sleep(0.1)
        program.interrupt()
        program.end()
        assert program.returncode == -signal.SIGINT
        assert time.monotonic() - start < AT_ONCE


@pytest.mark.parametrize("stalling", ["tls"], indirect=True)
def test_F45_the_interpreter_ends_in_the_middle_of_an_upload_on_a_daemon_thread(
    stalling,
):
    server, verify = stalling
    server.script.step = "batch"
    with Calling(server, verify, "on_a_daemon_thread", seconds=0.5) as program:
        assert server.script.stalled.wait(60)
        program.call("end")
        program.end()
        assert program.returncode == 0


SALES = pa.table({"n": [1]})


def press(connection: Connection) -> None:
    """Interrupt the client while it waits for its response."""
    connection.body(connection.head())
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    time.sleep(0.2)


def generate():
    yield SALES
    signal.raise_signal(signal.SIGINT)


def handling():
    try:
        int("of the caller's own")
    except ValueError:
        rt.list_tables()


@pytest.mark.parametrize(
    ("call", "callers_frames"),
    [
        (rt.list_tables, 1),
        (handling, 2),
        (lambda: rt.to_table(SALES, "t"), 2),
        (lambda: rt.table("t").rename({"n": "m"}), 2),
        (lambda: rt.to_table(generate(), "t", compression=None), 3),
    ],
    ids=["list", "while an error is handled", "create", "alter", "source"],
)
def test_notebooks_show_the_callers_lines_of_an_interrupt(call, callers_frames):
    ultratb = pytest.importorskip("IPython.core.ultratb")
    script = usual if callers_frames == 3 else press
    with (
        Server(script=script) as server,
        rt.connect(server.url, api_key=KEY),
        pytest.raises(KeyboardInterrupt) as raised,
    ):
        call()
    trace = ultratb.FormattedTB(mode="Context").structured_traceback(
        KeyboardInterrupt, raised.value, raised.tb
    )
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(trace))
    files = re.findall(r"^File (.*):\d+, in ", text, re.MULTILINE)
    names = [Path(file).name for file in files]
    assert names.count(Path(__file__).name) == callers_frames
    # IPython always shows the last one
    assert len(names) <= callers_frames + 1
    assert "ValueError: " not in text


HANGING = """
import threading, time

def forgotten():
    time.sleep(100)

threading.Thread(target=forgotten).start()
print("started", flush=True)
"""


def test_a_program_that_hangs_shows_where_each_of_its_threads_is(capsys):
    with Program(sys.executable, "-c", HANGING, seconds=1) as program:
        assert program.wait() == -signal.SIGABRT
    with Program(sys.executable, "-c", HANGING) as program:
        assert program.stdout.readline() == "started\n"
    assert "in forgotten" in capsys.readouterr().out
