"""Faults while connecting and sending: F01 to F17, F21 to F23, F30, F37, F39, F43 of the matrix in README.md."""

from __future__ import annotations

import contextlib
import http.client
import queue
import socket
import time
import traceback

import numpy as np
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames._http.response import error_class
from rt_frames.errors import (
    AuthenticationError,
    ConnectError,
    OutcomeUnknown,
    PayloadTooLarge,
    RateLimited,
    ServerError,
    TLSError,
    UploadInterrupted,
)
from tests.support.faults import MIB, Source, certificates, connected, fails, frame
from tests.support.servers import KEY, Connection, Request, Server


def on_post(server: Server, act: object) -> Server:
    """Answer lists as the service would, and hand each POST's connection, its head read, to ``act``."""

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


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_F01_a_refused_port_is_a_connect_error_after_three_attempts(caplog):
    client = rt.connect(f"http://127.0.0.1:{closed_port()}", api_key=KEY, default=False)
    source = Source()
    error = fails(lambda: client.create_table("t", source.run()), ConnectError, caplog, "nothing was sent")
    assert (error.attempts, error.bytes_sent, source.closed) == (3, 0, True)
    assert source.made <= 1


def test_F02_a_host_that_does_not_exist_is_a_connect_error(caplog):
    client = rt.connect("https://no-such.invalid", api_key=KEY, retries=1, default=False)
    assert fails(client.list_tables, ConnectError, caplog).attempts == 2


def test_F03_a_full_backlog_is_a_connect_error(caplog):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        held = [socket.socket() for _ in range(4)]
        for sock in held:
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        client = rt.connect(f"http://127.0.0.1:{full.getsockname()[1]}", api_key=KEY, timeout=0.2, retries=1,
                            default=False)  # fmt: skip
        error = fails(lambda: client.create_table("t", frame(1)), ConnectError, caplog)
        assert (error.attempts, error.table, error.rows) == (2, "t", 2**17)
        for sock in held:
            sock.close()


def test_F04_an_untrusted_certificate_is_a_tls_error_and_nothing_is_sent(server, caplog, monkeypatch):
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    _, server.tls = certificates()
    error = fails(lambda: connected(server).create_table("t", frame(1)), TLSError, caplog, "CA_BUNDLE.*verify=")
    assert (error.attempts, server.requests) == (1, [])


def test_F05_a_certificate_for_another_host_is_a_tls_error(server, caplog, tmp_path):
    authority, server.tls = certificates("example.com")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    client = connected(server, verify=tmp_path / "ca.pem")
    assert fails(client.list_tables, TLSError, caplog).attempts == 1
    assert server.requests == []


def test_F06_https_to_a_plain_port_is_a_connect_error(server, caplog):
    client = rt.connect(f"https://127.0.0.1:{server.port}", api_key=KEY, timeout=1, retries=0, default=False)
    fails(client.list_tables, ConnectError, caplog, "nothing was sent")


def test_F07_a_service_that_comes_up_late_gets_one_post_with_every_row(caplog):
    port = closed_port()
    late = Server()

    def come_up() -> None:
        time.sleep(0.3)
        late.port_wanted = port
        late.__enter__()

    import threading

    threading.Thread(target=come_up, daemon=True).start()
    client = rt.connect(f"http://127.0.0.1:{port}", api_key=KEY, retries=20, default=False)
    client.create_table("t", pa.table({"a": [1, 2, 3]}))
    assert [pa.ipc.open_stream(r.body).read_all().to_pydict() for r in late.posts] == [{"a": [1, 2, 3]}]
    late.__exit__()


@pytest.mark.parametrize("how", ["reset", "close"])
@pytest.mark.parametrize("listed", [True, False])
def test_F08_F09_a_connection_cut_in_mid_body_is_upload_interrupted(wire, caplog, how, listed):
    server, connect = wire

    def cut(connection: Connection, request: object) -> None:
        connection.body(request, 3 * MIB)
        server.listed = ["t"] if listed else []
        connection.reset() if how == "reset" else connection.sock.close()

    on_post(server, cut)
    error = fails(lambda: connect().create_table("t", frame(32)), UploadInterrupted, caplog)
    assert len(server.posts) == 1
    assert 0 < error.bytes_sent < 32 * MIB + 1000
    assert (error.listed, error.listed_before) == (listed, False)
    assert ("is listed now" if listed else "safe to send again") in str(error)


def test_F10_a_server_that_stops_reading_is_upload_interrupted_after_the_write_timeout(wire, caplog):
    server, connect = wire
    on_post(server, lambda connection, _request: time.sleep(4))
    started = time.monotonic()
    error = fails(lambda: connect(timeout=(1, 0.5, 5)).create_table("t", frame(64)), UploadInterrupted, caplog)
    assert time.monotonic() - started < 4
    assert (len(server.posts), error.attempts) == (1, 1)


def test_F11_a_slow_steady_reader_gets_all_of_it(wire):
    server, connect = wire

    def read_slowly(connection: Connection, request: object) -> None:
        while not request.complete:
            length = int(request.headers["content-length"])
            most = min(length, len(request.body) + MIB // 2)
            piece = most - len(request.body)
            request.body += connection._exactly(piece)
            request.complete = len(request.body) == length
            time.sleep(1 / 32)
        connection.answer(200, {})

    on_post(server, read_slowly)
    data = frame(16)
    connect(timeout=(0.5, 0.5, 5)).create_table("t", data, compression=None)
    assert pa.ipc.open_stream(server.posts[0].body).read_all() == data


@pytest.mark.parametrize("how", ["close", "reset", "silence"])
@pytest.mark.parametrize("listed", [True, False])
def test_F12_F13_F14_all_sent_and_no_answer_is_outcome_unknown(wire, caplog, how, listed):
    server, connect = wire

    def read_and_say_nothing(connection: Connection, request: object) -> None:
        connection.body(request)
        server.listed = ["t"] if listed else []
        if how == "silence":
            time.sleep(2)
        elif how == "reset":
            connection.reset()

    on_post(server, read_and_say_nothing)
    error = fails(lambda: connect().create_table("t", frame(1)), OutcomeUnknown, caplog)
    assert (len(server.posts), error.listed, error.listed_before) == (1, listed, None)
    assert error.bytes_sent > MIB


@pytest.mark.parametrize(("status", "kind"), [(413, PayloadTooLarge), (401, AuthenticationError)])
@pytest.mark.parametrize("manner", ["closes", "lingers", "holds", "drains"])
def test_F15_F16_an_early_refusal_is_heard_and_the_next_call_works(wire, caplog, status, kind, manner):
    server, connect = wire

    def refuse(connection: Connection, request: object) -> None:
        connection.body(request, MIB)
        connection.answer(status, {"error": "too much"}, {"Connection": "close"})
        if manner == "lingers":
            time.sleep(0.3)
        elif manner == "holds":
            time.sleep(1.5)
        elif manner == "drains":
            connection.body(request)

    on_post(server, refuse)
    client = connect(timeout=(1, 1, 3))
    try:
        fails(lambda: client.create_table("t", frame(32)), kind, caplog, "too much")
    except UploadInterrupted:  # a reset can overtake the answer: the kernel then drops what was not read yet
        assert manner == "closes"
    assert client.list_tables() == []
    assert len(server.posts) == 1


def test_F17_an_early_success_is_outcome_unknown(wire, caplog):
    server, connect = wire

    def hasty(connection: Connection, request: object) -> None:
        connection.body(request, MIB)
        connection.answer(200, {})
        time.sleep(1)

    on_post(server, hasty)
    error = fails(lambda: connect(timeout=(1, 1, 3)).create_table("t", frame(64)), OutcomeUnknown, caplog, "whole body")
    assert len(server.posts) == 1
    assert error.bytes_sent < 64 * MIB


INTERIM = b"".join(b"HTTP/1.1 %d Wait\r\nLink: </a>\r\n\r\n" % status for status in (100, 102, 103, 103))
WHEN = {  # how much of the body was read → what is then said
    "before": {0: INTERIM},
    "while": {4 * MIB: INTERIM},
    "in pieces while": {n * MIB: INTERIM[n : n + 1] for n in range(31)} | {31 * MIB: INTERIM[31:]},
    "after": {64 * MIB: INTERIM},
}


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("final", [200, 413])
def test_F37_interim_answers_do_not_end_an_upload_and_the_answer_is_what_comes_after_them(wire, caplog, when, final):
    server, connect = wire

    def script(connection: Connection, request: Request) -> None:
        length = int(request.headers["content-length"])
        for read, interim in WHEN[when].items():
            request.body += connection._exactly(min(read, length) - len(request.body))
            connection.sock.sendall(interim)
        if final == 200:
            request.body += connection._exactly(length - len(request.body))
        connection.answer(final)
        time.sleep(1 if final == 413 else 0)

    on_post(server, script)
    client, data = connect(timeout=(1, 2, 2)), frame(48)
    if final == 200:
        assert client.create_table("t", data, compression=None).created
        assert pa.ipc.open_stream(server.posts[0].body).read_all() == data
    else:
        fails(lambda: client.create_table("t", data, compression=None), PayloadTooLarge, caplog)
    assert client.list_tables() == []
    assert len(server.posts) == 1


@pytest.mark.parametrize("wait", ["0", "1", "soon", "-1", "1e9", "", "Wed, 21 Oct 2015 07:28:00 GMT", "٣"])
def test_F21_too_many_requests_is_tried_again_whatever_it_asks_for(remote, server, wait):
    server.answering((429, {}, {"Retry-After": wait}), (200, {}))
    started = time.monotonic()
    remote.create_table("t", frame(1))
    assert len(server.posts) == 2
    assert server.posts[0].body == server.posts[1].body
    assert server.posts[0].headers["x-request-id"] == server.posts[1].headers["x-request-id"]
    assert time.monotonic() - started < 3


def test_F21_a_wait_beyond_a_minute_is_not_waited_for(remote, server, caplog):
    server.answering((429, {}, {"Retry-After": "120"}))
    error = fails(lambda: remote.create_table("t", frame(1)), RateLimited, caplog)
    assert (error.retry_after, error.attempts) == (120.0, 1)
    assert str(error).endswith("; wait 120 s before the next call")


def test_F22_a_source_that_reads_once_is_not_sent_twice(remote, server, caplog):
    server.answering((429, {}, {"Retry-After": "0"}))
    source = Source()
    error = fails(lambda: remote.create_table("t", source.run()), RateLimited, caplog)
    assert (len(server.posts), error.retry_after, source.closed) == (1, 0.0, True)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_F23_a_server_error_is_never_sent_again(remote, server, caplog, status):
    server.answering((status, {}))
    error = fails(
        lambda: remote.create_table("t", frame(1)), ServerError, caplog, "not known whether the service acted"
    )
    assert (len(server.posts), error.listed) == (1, False)
    error = fails(
        lambda: remote.table("t").rename({"a": "b"}), ServerError, caplog, "not known whether the service acted"
    )
    assert (len(server.posts), error.attempts) == (2, 1)


@pytest.mark.parametrize(
    ("body", "said"),
    [({}, "Insufficient Storage; nothing was stored; try again when there is room"), ({"error": "no room"}, "no room")],
)
def test_F23_what_could_not_be_stored_leaves_no_outcome_open(remote, server, caplog, body, said):
    server.answering((507, body))
    error = fails(lambda: remote.create_table("t", frame(1)), ServerError, caplog)
    assert str(error) == f"could not create table 't': the service answered 507, {said}"
    assert (len(server.posts), error.listed) == (1, False)
    error = fails(lambda: remote.table("t").rename({"a": "b"}), ServerError, caplog)
    assert str(error) == f"could not alter table 't': the service answered 507, {said}"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (408, "body did not arrive in the time.*collect a slow source"),
        (411, "compression=None"),
        (413, r"after [\d.]+ MB of"),
    ],
)
def test_F20_a_refusal_of_a_body_for_its_size_or_pace_says_what_helps(remote, server, caplog, status, words):
    server.answering((status, {}))
    error = fails(lambda: remote.create_table("t", frame(1)), error_class(status, "create"), caplog, words)
    assert ('compression="zstd"' in str(error)) == (status == 413)
    small = fails(lambda: remote.create_table("t", frame(1), compression="zstd"), type(error), caplog)
    assert "zstd" not in str(small)
    fails(lambda: remote.table("t").rename({"a": "b"}), type(error), caplog)
    assert len(server.posts) == 3


@pytest.mark.parametrize("raised", [LookupError("batch 7"), OSError("disk"), ValueError("bad"), KeyboardInterrupt()])
def test_F30_what_the_source_raises_comes_out_as_it_is_and_nothing_is_stored(client, caplog, raised):
    source = Source(8, raised)
    with pytest.raises(type(raised)) as error:
        client.create_table("torn", source.run())
    assert error.value is raised
    assert source.closed
    assert "torn" not in client.list_tables()
    assert KEY not in caplog.text


def test_F30_an_error_of_this_package_out_of_the_source_is_not_taken_for_one_of_the_upload(client):
    raised = rt.errors.UploadInterrupted("of another table", table="another")
    before = dict(vars(raised))
    with pytest.raises(rt.errors.UploadInterrupted) as error:
        client.create_table("torn", Source(8, raised).run())
    assert error.value is raised
    assert (str(raised), vars(raised)) == ("of another table", before)


@pytest.mark.parametrize("batches", [2, 3, 8])
def test_F39_a_service_that_takes_the_end_of_a_connection_for_the_end_of_a_body_gets_no_table(wire, batches):
    server, connect = wire
    came: queue.Queue[bytes] = queue.Queue()

    def lenient(connection: Connection, request: Request) -> None:
        data = connection._left
        with contextlib.suppress(OSError):
            while more := connection.sock.recv(MIB):
                data += more
        came.put(data)

    on_post(server, lenient)
    with pytest.raises(LookupError):
        connect().create_table("t", Source(batches, LookupError("no more")).run(), compression=None)
    body, wire = b"", came.get(timeout=5)
    while wire:
        size, _, wire = wire.partition(b"\r\n")
        body, wire = body + wire[: int(size, 16)], wire[int(size, 16) + 2 :]
    assert len(body) > (batches - 2) * MIB
    with pytest.raises((pa.ArrowInvalid, OSError)):
        pa.ipc.open_stream(body).read_all()


@pytest.mark.parametrize("raised", [LookupError("batch 7"), KeyboardInterrupt()])
def test_F43_a_display_of_local_variables_does_not_show_the_key(remote, raised):
    source = Source(8, raised)
    with pytest.raises(type(raised)) as error:
        remote.create_table("t", source.run())
    shown = "".join(traceback.TracebackException.from_exception(error.value, capture_locals=True).format())
    assert "'x-api-key': '***'" in shown
    assert KEY not in shown


def test_F43_what_http_client_prints_for_debugging_does_not_show_the_key(remote, monkeypatch, capsys):
    monkeypatch.setattr(http.client.HTTPConnection, "debuglevel", 1)
    remote.create_table("t", frame(1))
    assert KEY not in "".join(capsys.readouterr())


def test_a_broken_upload_says_how_much_of_how_much_was_sent(remote, server, caplog):
    on_post(server, lambda connection, request: (connection.body(request, 10 * MIB), connection.reset()))
    words = (
        r"table 't': [\d.]+ MB of 26[89] MB were sent and the connection broke .*; no table 't' is listed; it is safe"
    )
    zeros = pa.table({"a": np.zeros(2**25)})
    fails(lambda: remote.create_table("t", zeros, compression=None), UploadInterrupted, caplog, words)


@pytest.mark.parametrize("kind", ["reader", "iterator", "list"])
def test_what_was_read_of_a_reader_or_iterator_is_not_taken_for_all_of_it(server, remote, caplog, kind):
    """After a failure the rest of it alone would be stored; a list is there as it was."""
    batches = pa.table({"n": np.arange(400_000)}).to_batches(max_chunksize=1000)
    make = {
        "reader": lambda: pa.RecordBatchReader.from_batches(batches[0].schema, batches),
        "iterator": lambda: iter(batches),
    }
    data = make.get(kind, lambda: batches)()
    server.answering((503, {}), (503, {}), (503, {}))
    advice = "this reader or iterator is used up: make it anew before you send it again"
    error = fails(lambda: remote.create_table("t", data), ServerError, caplog, "the service answered 503")
    assert (advice in str(error)) == (kind != "list")
    server.answering((200, {}))
    if kind == "reader":
        with pytest.raises(ValueError, match="this reader was read by an earlier call"):
            remote.create_table("t", data)
        data = make[kind]()
    if kind != "iterator":
        assert remote.create_table("t", data).rows == 400_000
