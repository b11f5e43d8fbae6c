"""What a signal handler raises comes out, whatever its class, and nothing is repeated.

A job that limits its time so would else see its TimeoutError taken for the network's.
"""

from __future__ import annotations

import contextlib
import signal
import time

import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import ConnectError
from tests.support.faults import connected, frame
from tests.support.local import stream

ROWS = pa.table({"a": [1]})
RAISED = [TimeoutError, OSError, ConnectionResetError, ValueError, LookupError]
ALTERED = "the request to alter table 't' was sent before the interrupt"
CREATED = "the request to create table 't' was sent before the interrupt"
CALLS = {  # a call, and what its note begins with
    "list": (rt.Client.list_tables, ""),
    "create": (lambda client: client.create_table("t", ROWS), CREATED),
    "alter": (lambda client: client.table("t").rename({"a": "b"}), ALTERED),
}


@contextlib.contextmanager
def alarm(error: BaseException, seconds: float = 0.3):
    """Have a handler raise an error after some time."""

    def handler(*_):
        raise error

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def stall(connection) -> None:
    connection.body(connection.head())
    time.sleep(20)


def stall_in_body(connection) -> None:
    request = connection.body(connection.head())
    del request
    connection.sock.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"tables"')
    time.sleep(20)


def read_nothing(connection) -> None:
    connection.head()
    time.sleep(20)


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("script", [stall, stall_in_body])
@pytest.mark.parametrize(("call", "note"), CALLS.values(), ids=CALLS)
def test_what_a_handler_raises_while_a_response_is_awaited(
    server, call, note, script, kind
):
    error = kind("of mine")
    server.script = script
    client = connected(server, timeout=20)
    with alarm(error), pytest.raises(kind) as caught:
        call(client)
    assert caught.value is error
    assert len(server.requests) == 1
    notes = getattr(error, "__notes__", [])
    assert [text.partition(";")[0] for text in notes] == ([note] if note else [])


@pytest.mark.parametrize("kind", RAISED)
def test_what_a_handler_raises_while_a_body_is_sent(server, kind):
    error = kind("of mine")
    server.script = read_nothing
    client = connected(server, timeout=20)
    with alarm(error), pytest.raises(kind) as caught:
        client.create_table("t", frame(64), compression=None)
    assert caught.value is error
    assert len(server.posts) <= 1
    assert not hasattr(error, "__notes__")


@pytest.mark.parametrize("kind", RAISED)
def test_what_a_handler_raises_while_rows_are_read(server, kind):
    body = stream(pa.table({"a": range(10)}))

    def script(connection):
        connection.body(connection.head())
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sock.sendall(head + body[:-8])
        time.sleep(20)

    error = kind("of mine")
    server.script = script
    client = connected(server, timeout=20, dialect="lancedb")
    with alarm(error), pytest.raises(kind) as caught:
        client.table("t").to_arrow()
    assert caught.value is error


def test_an_error_that_the_caller_handles_is_not_the_networks():
    client = rt.connect(
        "http://127.0.0.1:9", api_key="made-up", retries=0, default=False
    )
    try:
        int("of mine")
    except ValueError:
        with pytest.raises(ConnectError, match="refused") as caught:
            client.list_tables()
    assert "of mine" not in str(caught.value)
