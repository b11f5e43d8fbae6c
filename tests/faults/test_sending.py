"""Faults while connecting and sending.

F01 to F17, F21, F22, F30, F37, F39 and F43 of the matrix in README.md.
"""

from __future__ import annotations

import contextlib
import http.client
import queue
import re
import socket
import threading
import time
import traceback

import numpy as np
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import errors
from tests.support.faults import MIB, certificates, connected, fails, frame, patient
from tests.support.servers import KEY, Connection, Request, Server
from tests.support.sources import Source


def on_post(server: Server, act: object) -> Server:
    """Answer lists as the service would, and pass the head of each POST to ``act``."""

    def script(connection: Connection) -> None:
        while True:
            request = connection.head()
            if request.method == "GET":
                connection.answer(200, {"tables": server.listed})
            else:
                act(connection, request)
                return

    server.script = script
    return server


def read_on(connection: Connection, request: Request, size: int) -> None:
    """Read so many bytes of a body of known length, or what is left of it."""
    length = int(request.headers["content-length"])
    request.body += connection.exactly(min(size, length - len(request.body)))
    request.complete = len(request.body) == length


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_F01_a_refused_port_is_a_connect_error_after_three_attempts_which_the_log_tells(
    caplog,
):
    client = rt.connect(f"http://127.0.0.1:{closed_port()}", api_key=KEY, default=False)
    source = Source()
    error = fails(
        lambda: client.create_table("t", source.run()),
        errors.ConnectError,
        caplog,
        "nothing was sent",
    )
    assert (error.attempts, error.bytes_sent, source.closed) == (3, 0, True)
    assert source.made <= 1
    told = [record for record in caplog.records if record.name == "rt_frames"]
    again = [record.getMessage() for record in told if record.levelname == "INFO"]
    assert len(again) == 2
    for line in again:
        assert re.search(r"/v1/tables\S* is retried in [\d.]+ s: .*refused", line)


def test_F02_a_host_that_does_not_exist_is_a_connect_error(caplog):
    client = rt.connect(
        "https://no-such.invalid", api_key=KEY, retries=1, default=False
    )
    assert fails(client.list_tables, errors.ConnectError, caplog).attempts == 2


def test_F03_a_full_backlog_is_a_connect_error(caplog):
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        contextlib.ExitStack() as held,
    ):
        for _ in range(4):
            sock = held.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        client = rt.connect(url, api_key=KEY, timeout=0.2, retries=1, default=False)
        error = fails(
            lambda: client.create_table("t", frame(1)), errors.ConnectError, caplog
        )
        assert (error.attempts, error.table, error.rows) == (2, "t", 2**17)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "example.com"], ids=["F04 nobody vouches", "F05 another host"]
)
def test_F04_F05_a_certificate_that_is_not_accepted_is_a_tls_error_and_nothing_is_sent(
    server, caplog, tmp_path, host
):
    authority, server.tls = certificates(host)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    client = connected(
        server, verify=True if host == "127.0.0.1" else tmp_path / "ca.pem"
    )
    error = fails(
        lambda: client.create_table("t", frame(1)),
        errors.TLSError,
        caplog,
        r"CA_BUNDLE.*verify=",
    )
    assert (error.attempts, server.requests) == (1, [])


def test_F07_a_service_that_comes_up_late_gets_one_post_with_every_row():
    late = Server(port_wanted=closed_port())
    timer = threading.Timer(0.3, late.__enter__)
    timer.start()
    client = rt.connect(
        f"http://127.0.0.1:{late.port_wanted}", api_key=KEY, retries=20, default=False
    )
    client.create_table("t", pa.table({"a": [1, 2, 3]}))
    found = [pa.ipc.open_stream(r.body).read_all().to_pydict() for r in late.posts]
    assert found == [{"a": [1, 2, 3]}]
    timer.join()
    late.__exit__()


class Over(threading.Event):
    """What a silent server waits for, and whether it was the first to give up."""

    ran_out = False

    def wait(self, timeout: float | None = 30) -> bool:
        is_over = super().wait(timeout)
        self.ran_out = self.ran_out or not is_over
        return is_over


@pytest.fixture
def over():
    over = Over()
    yield over
    over.set()


MID = 3 * MIB
ALL = None
INTERRUPTED = errors.UploadInterrupted
UNKNOWN = errors.OutcomeUnknown
SO_MUCH = r"[\d.]+ MB of 33\.\d MB"
# how much of a body is read, what comes then, whether the table is listed later;
# what is raised, and says
OPEN = {
    "F08": (MID, "reset", True, INTERRUPTED, rf"{SO_MUCH}.*is listed now"),
    "F09": (MID, "close", False, INTERRUPTED, rf"{SO_MUCH}.*safe to send again"),
    "F10": (0, "silence", False, INTERRUPTED, r"of 33\.\d MB"),
    "F12": (ALL, "close", True, UNKNOWN, "is listed now"),
    "F13": (ALL, "reset", False, UNKNOWN, "listed yet"),
    "F14": (ALL, "silence", True, UNKNOWN, "is listed now"),
    "F17": (MID, "200", False, UNKNOWN, "whole body"),
}


WIRES = [("plain", case) for case in OPEN] + [("tls", "F10")]


@pytest.mark.parametrize(("wire", "case"), WIRES, indirect=["wire"])
def test_a_create_that_is_not_answered_says_how_far_it_came_and_is_sent_once(
    wire, over, caplog, case
):
    server, connect = wire
    read, then, listed, kind, told = OPEN[case]

    def act(connection: Connection, request: Request) -> None:
        connection.body(request, read)
        server.listed = ["t"] if listed else []
        if then == "reset":
            connection.reset()
        elif then == "200":
            connection.answer(200, {})
        if then in ("200", "silence"):
            over.wait()

    on_post(server, act)
    create = connect(timeout=(1, 0.5, 1)).create_table
    error = fails(lambda: create("t", frame(32), compression=None), kind, caplog, told)
    assert not over.ran_out
    assert len(server.posts) == 1
    assert error.attempts == 1
    assert error.listed == listed
    assert error.listed_before is False
    assert (error.bytes_sent > 32 * MIB) == (read is ALL)


@pytest.mark.parametrize("wire", ["plain"], indirect=True)
def test_F11_a_slow_steady_reader_gets_all_of_it(wire):
    server, connect = wire

    def read_slowly(connection: Connection, request: Request) -> None:
        while not request.complete:
            read_on(connection, request, MIB // 2)
            time.sleep(1 / 32)
        connection.answer(200, {})

    on_post(server, read_slowly)
    # two seconds, which is longer than a write may take
    data = frame(32)
    connect(timeout=(5, 1.5, 20)).create_table("t", data, compression=None)
    assert pa.ipc.open_stream(server.posts[0].body).read_all() == data


@pytest.mark.parametrize(
    ("wire", "manner"),
    [
        *(("plain", manner) for manner in ("closes", "lingers", "holds", "drains")),
        ("tls", "holds"),
    ],
    indirect=["wire"],
)
def test_F15_F16_an_early_refusal_is_heard_and_the_next_call_works(
    wire, caplog, manner
):
    server, connect = wire
    status = 413
    kind = errors.PayloadTooLarge
    if manner in ("lingers", "drains"):
        status = 401
        kind = errors.AuthenticationError

    def refuse(connection: Connection, request: object) -> None:
        connection.body(request, MIB)
        connection.answer(status, {"error": "too much"}, {"Connection": "close"})
        time.sleep({"lingers": 0.3, "holds": 1.5}.get(manner, 0))
        if manner == "drains":
            connection.body(request)

    on_post(server, refuse)
    client = connect(timeout=(1, 1, 3))
    try:
        fails(lambda: client.create_table("t", frame(32)), kind, caplog, "too much")
    # a reset can overtake the answer: the kernel then drops what was not read yet
    except errors.UploadInterrupted:
        assert manner == "closes"
    assert client.list_tables() == []
    # no more was sent, whether it was read or not
    assert [request.complete for request in server.posts] == [False]


INTERIM = b"".join(
    b"HTTP/1.1 %d Wait\r\nLink: </a>\r\n\r\n" % status
    for status in (100, 102, 103, 103)
)
WHEN = {  # how much of the body was read → what is then said
    "before": {0: INTERIM},
    "while": {4 * MIB: INTERIM},
    "in pieces while": {n * MIB // 2: INTERIM[n : n + 1] for n in range(31)}
    | {16 * MIB: INTERIM[31:]},
    "after": {64 * MIB: INTERIM},
}


PIECES = "in pieces while"


@pytest.mark.parametrize(
    ("wire", "when", "final"),
    [
        *(("plain", when, 200) for when in WHEN),
        ("tls", PIECES, 413),
    ],
    indirect=["wire"],
)
def test_F37_interim_answers_do_not_end_an_upload_and_the_last_is_its_answer(
    wire, over, caplog, when, final
):
    server, connect = wire

    def script(connection: Connection, request: Request) -> None:
        for read, interim in WHEN[when].items():
            read_on(connection, request, read - len(request.body))
            connection.sock.sendall(interim)
        read_on(connection, request, 64 * MIB if final == 200 else 0)
        connection.answer(final)
        over.wait()

    on_post(server, script)
    client = connect(timeout=60)
    data = frame(24)
    if final == 200:
        assert client.create_table("t", data, compression=None).created
        assert pa.ipc.open_stream(server.posts[0].body).read_all() == data
    else:
        fails(
            lambda: client.create_table("t", data, compression=None),
            errors.PayloadTooLarge,
            caplog,
        )
        # the client heard it while it sent the body
        assert not over.ran_out
    over.set()
    assert client.list_tables() == []
    assert len(server.posts) == 1


def test_a_refused_upload_is_not_said_to_be_unsent_if_the_server_is_gone_then(caplog):
    def script(connection):
        request = connection.head()
        while request.method == "GET":
            connection.answer(200, {"tables": []})
            request = connection.head()
        connection.body(request)
        connection.answer(429, {}, {"Retry-After": "1"})
        stop.close()

    with contextlib.ExitStack() as stop:
        server = stop.enter_context(Server(script=script))
        client = patient(server, dialect="lancedb", retries=1)
        error = fails(
            lambda: client.create_table("t", frame(33), compression=None),
            errors.RateLimited,
            caplog,
            "nothing was stored",
        )
    assert error.attempts == 2


@pytest.mark.parametrize("wait", ["0", "1", "Wed, 21 Oct 2015 07:28:00 GMT", "٣"])
def test_F21_too_many_requests_is_tried_again_whatever_it_asks_for(
    remote, server, wait
):
    server.answering((429, {}, {"Retry-After": wait}), (200, {}))
    started = time.monotonic()
    remote.create_table("t", frame(1))
    one, other = server.posts
    assert one.body == other.body
    assert one.headers["x-request-id"] == other.headers["x-request-id"]
    # a duration, since the wait is tested: right ones take about a second
    assert time.monotonic() - started < 20


def test_F21_F22_a_long_wait_or_a_source_that_reads_once_is_not_tried_again(
    remote, server, caplog
):
    server.answering((429, {}, {"Retry-After": "120"}), (429, {}, {"Retry-After": "0"}))
    error = fails(
        lambda: remote.create_table("t", frame(1)), errors.RateLimited, caplog, "120 s"
    )
    assert (error.retry_after, error.attempts) == (120.0, 1)
    source = Source()
    error = fails(
        lambda: remote.create_table("t", source.run()), errors.RateLimited, caplog
    )
    assert (len(server.posts), error.retry_after, source.closed) == (2, 0.0, True)


RAISED = [
    LookupError("batch 7"),
    OSError("disk"),
    ValueError("bad"),
    KeyboardInterrupt(),
    errors.TableExistsError("no table 'another'", table="another", attempts=7),
    errors.OutcomeUnknown("no table 'another'", table="another", attempts=7),
    errors.ConnectError("no table 'another'", table="another", attempts=7),
]


@pytest.mark.parametrize("raised", RAISED, ids=repr)
def test_F30_F43_what_a_source_raises_comes_out_without_the_key_and_stores_nothing(
    client, caplog, raised
):
    args = raised.args
    attributes = dict(vars(raised))
    for if_exists, after in (("fail", 0), ("skip", 1), ("fail", 8)):
        source = Source(after, raised)
        with pytest.raises(type(raised)) as error:
            client.create_table("torn", source.run(), if_exists=if_exists)
        assert error.value is raised
        assert source.closed
        stack = traceback.TracebackException.from_exception(raised, capture_locals=True)
        shown = "".join(stack.format())
        is_hidden = after == 0 or isinstance(raised, KeyboardInterrupt)
        assert is_hidden or "'x-api-key': '***'" in shown
        assert KEY not in shown + caplog.text
        assert raised.args == args
        assert vars(raised) == attributes
        assert raised.__cause__ is None
        assert raised.__context__ is None
        assert getattr(raised, "__notes__", []) == []
        raised.__traceback__ = None
    assert "torn" not in client.list_tables()


def test_F43_what_http_client_prints_for_debugging_does_not_show_the_key(
    remote, monkeypatch, capsys
):
    monkeypatch.setattr(http.client.HTTPConnection, "debuglevel", 1)
    remote.create_table("t", frame(1))
    assert KEY not in "".join(capsys.readouterr())


def numbers(number: int) -> pa.RecordBatch:
    # large and small batches in turn
    return pa.record_batch({"a": np.arange(2 ** (17 * (number % 2)))})


def columns(number: int) -> pa.RecordBatch:
    # many small buffers, which are joined
    return pa.record_batch({f"c{n}": np.arange(100) for n in range(2000)})


def dictionaries(number: int) -> pa.RecordBatch:
    codes = pa.array(np.arange(10, dtype="int32"))
    values = pa.array(np.arange(10 + 2**15 * number))
    return pa.record_batch({"k": pa.DictionaryArray.from_arrays(codes, values)})


@pytest.mark.parametrize(
    ("make", "pause"),
    [(numbers, 0), (columns, 0), (columns, 0.11), (dictionaries, 0)],
)
def test_F39_a_service_that_takes_a_broken_body_for_a_whole_one_gets_no_table(
    server, make, pause
):
    """Wherever it was broken off: no whole message is at the end of what came."""
    came: queue.Queue[bytes] = queue.Queue()

    on_post(server, lambda connection, _: came.put(connection.rest()))
    client = connected(server)

    def make_slowly(number: int) -> pa.RecordBatch:
        time.sleep(pause)
        return make(number)

    for count in (1, 3, 6):
        source = Source(count, LookupError("no more"), make_slowly)
        with pytest.raises(LookupError):
            client.create_table("t", source.run(), compression=None)
        with pytest.raises((pa.ArrowInvalid, OSError)):
            pa.ipc.open_stream(unframed(came.get(timeout=20))).read_all()


def unframed(wire: bytes) -> bytes:
    """Read chunks as a lenient server does: up to the end of the connection."""
    data = []
    at = 0
    while 0 <= (end := wire.find(b"\r\n", at)) < len(wire) - 2:
        start = end + 2
        stop = end + 2 + int(wire[at:end], 16)
        data.append(wire[start:stop])
        at = stop + 2
    return b"".join(data)


def test_what_was_read_of_a_reader_or_iterator_is_not_taken_for_all_of_it(
    server, caplog
):
    """After a failure only the rest of a reader would be stored; a list is whole."""
    batches = pa.table({"n": np.arange(40_000)}).to_batches(max_chunksize=1000)
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    client = patient(server, retries=0)
    for data in (reader, iter(batches), batches):
        server.answering((503, {}))
        error = fails(
            lambda data=data: client.create_table("t", data), errors.ServerError, caplog
        )
        assert ("exhausted" in str(error)) == (data is not batches)
    server.answering((200, {}))
    with pytest.raises(ValueError, match="earlier call"):
        client.create_table("t", reader)
    assert client.create_table("t", batches).rows == 40_000
