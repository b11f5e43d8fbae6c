"""Requests by hand, and ambiguous ones: S01, S09, S10.

Heads, lengths, keys, hosts and addresses.
"""

from __future__ import annotations

import http.client
import logging
import re
import socket
import threading
import time

import pytest
from cheroot.workers.threadpool import WorkerThread

import rt_frames as rt
from tests.support.local import (
    ARROW,
    JSON,
    NUMBERS,
    TABLE,
    answered,
    message,
    stream,
    until,
)

BODY = stream(TABLE)
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
LENGTH = f"Content-Length: {len(BODY)}"
CODING = "Transfer-Encoding: chunked"
BEHIND = b"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\n\r\n"


def exchanged(caller, sent: bytes, *, ends: bool = True) -> tuple[int, str]:
    """Send bytes; return status and message of the one response.

    The service must close the connection after it.
    """
    with caller.connect() as connection:
        connection.sendall(sent)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        status, answer = answered(connection)
    assert answer["error"]["code"] == status
    assert answer["error"]["message"]
    return status, answer["error"]["message"]


N = len(BODY)
HEADERS = [  # lines that go with a body and with chunks
    [f"Content-Length: -{N}"],
    ["Content-Length: -1"],
    [f"Content-Length: +{N}"],
    ["Content-Length: 1_0"],
    [f"Content-Length: {N:#x}"],
    [f"Content-Length: {N}.0"],
    ["Content-Length: 1 0"],
    [f"Content-Length: \xa0{N}"],
    [f"Content-Length: \f{N}"],
    ["Content-Length:"],
    [f"Content-Length: {'9' * 30}"],
    [f"Content-Length: {N}, {N}"],
    [LENGTH, f"Content-Length: {N - 8}"],
    [f"Content-Length: {N - 8}", LENGTH],
    [LENGTH, LENGTH],
    [LENGTH, CODING],
    [CODING, "Content-Length: 0"],
    ["Transfer-Encoding: gzip"],
    ["Transfer-Encoding: gzip, chunked"],
    ["Transfer-Encoding: chunked, chunked"],
    [CODING, CODING],
    ["Transfer-Encoding:", LENGTH],
    ["Transfer-Encoding: ,", LENGTH],
    ["Content-Length : 0", CODING],
    ["Content-Length:", f" {N}"],
    ["Content-Length", CODING],
    [f"A: b\rContent-Length: {N}"],
    ["A: b\0c", LENGTH],
    [LENGTH, "Host: example.com"],
    [LENGTH, "x-api-key: other"],
    [LENGTH, "Content-Type: application/json"],
    ["Connection: close"],
]


@pytest.mark.parametrize("lines", HEADERS, ids=ascii)
def test_a_head_that_can_be_read_in_two_ways_is_refused_with_all_behind_it(
    caller, lines
):
    for body in (BODY, CHUNKED):
        assert exchanged(caller, caller.head("/v1/tables/t", *lines) + body + BEHIND)[
            0
        ] in (400, 411)
    assert caller.tables() == []


SPACES = [
    "A: b" + " " * 60_000 + "c",
    "A: b" + " " * 60_000 + "\0",
    ":" * 60_000,
    "a" * 60_000,
    "A: " + "b" * 100_000,
]
SPACES += ["\r\n".join(["a:b"] * 12_000)]


@pytest.mark.parametrize("lines", SPACES, ids=lambda lines: ascii(lines[:10]))
def test_a_head_takes_no_longer_than_its_size_whatever_it_holds(caller, lines):
    started = time.monotonic()
    status, _ = exchanged(
        caller,
        f"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n".encode(),
    )
    assert status in ((413,) if len(lines) > 2**16 else (400, 401))
    assert time.monotonic() - started < 4


def test_a_refused_head_is_answered_while_the_body_is_still_coming_or_never_ends(
    caller,
):
    bad = caller.head("/v1/tables/t", "Content-Length: -1")
    assert exchanged(caller, bad + bytes(20 * 2**20))[0] == 400
    started = time.monotonic()
    for sent in (bad, caller.head("/v1/tables/t", CODING) + b"-1\r\n"):
        assert exchanged(caller, sent, ends=False)[0] == 400
    assert time.monotonic() - started < 8


END = b"\r\n0\r\n\r\n"
WHOLE = b"%x\r\n%b" % (len(BODY), BODY)
CHUNKS = [
    b"-5\r\n",
    b"+" + WHOLE + END,
    b"0x" + WHOLE + END,
    b"1_0\r\n",
    b" " + WHOLE + END,
    b"\r\n" + BODY,
    b";a=b\r\n" + BODY,
    b"f" * 16 + b"\r\n" + BODY,
    b"%x\n" % N + BODY + END,
    b"%x;a\rb\r\n" % N + BODY + END,
    b"%x;" % N + b"a" * 5000,
    b"%x\r\n" % (N - 8) + BODY + END,
    b"%x\r\n" % (N + 8) + BODY + END,
    WHOLE + b"0\r\n\r\n",
    WHOLE + b"\r\n0\r\n" + b"a: b\r\n" * 1000 + b"\r\n",
    WHOLE + b"\r\n0\r\na: b",
    WHOLE + b"\r\n",
    WHOLE + b"\r\n0",
    WHOLE + b"\r\n0\r\n",
    WHOLE + b"\r\n5\r\nab",
    WHOLE + b"\r\n\r\n\r\n",
    WHOLE + b"\r\nz\r\n\r\n",
]


@pytest.mark.parametrize(
    "chunks", CHUNKS, ids=lambda sent: ascii(sent.replace(BODY, b"BODY")[:40])
)
def test_S01_chunks_that_are_none_are_refused(caller, chunks):
    status, told = exchanged(caller, caller.head("/v1/tables/t", CODING) + chunks)
    assert (status, "truncated" in told or "bytes follow" in told) == (400, True)
    assert caller.tables() == []


def test_S01_a_body_of_another_length_and_chunks_of_http_1_0_are_refused(
    caller,
):
    for sent in (0, 1, 8, 300, len(BODY)):
        head = caller.head("/v1/tables/t", f"Content-Length: {len(BODY) + 1}")
        status, told = exchanged(caller, head + BODY[:sent])
        assert (status, f"{sent} bytes" in told) == (400, True)
    # what is beyond is answered as another request
    with caller.connect() as connection:
        connection.sendall(
            caller.head("/v1/tables/t", f"Content-Length: {len(BODY) - 8}") + BODY
        )
        connection.shutdown(socket.SHUT_WR)
        assert b" 400 " in connection.recv(65536).split(b"\r\n")[0]
    old = caller.head("/v1/tables/t", CODING).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    assert exchanged(caller, old + CHUNKED)[0] == 400
    assert caller.tables() == []


def test_what_is_well_formed_though_rare_is_taken(caller):
    extended = b"%X ;a=b\r\n%b\r\n00;c\r\nTrailer: x\r\n\r\n" % (len(BODY), BODY)
    rare = (
        [f"content-length: \t {len(BODY):09} \t", "A: b", "A: c"],
        ["Transfer-encoding: Chunked", "Empty:"],
    )
    for number, (lines, body) in enumerate(zip(rare, (BODY, extended), strict=True)):
        with caller.connect() as connection:
            connection.sendall(
                caller.head(f"/v1/tables/t{number}", *lines, "Connection: close") + body
            )
            assert answered(connection)[0] == 200
        assert caller.read(f"t{number}").equals(TABLE)


DOORS = [
    ("GET", "/v1/tables"),
    ("POST", "/v1/tables/u"),
    ("POST", "/v1/table/t/alter_columns"),
    ("GET", "/x"),
]
DOORS += [
    ("POST", f"/v1/table/t/{last}/")
    for last in ("describe", "count_rows", "query", "insert", "drop", "create")
]


def test_S09_a_wrong_key_is_refused_at_every_door(caller):
    caller.create("t", TABLE)
    near = caller.key[:-1], caller.key + "x", caller.key.swapcase()
    for key in ("", "wrong", "é".encode(), b"\xff\xfe", None, *near):
        for method, path in DOORS:
            answer = caller.send(method, path, BODY, x_api_key=key, content_type=ARROW)
            assert answer.status_code == 401
            assert key in near or caller.key not in answer.text + str(answer.headers)
    assert caller.tables() == ["t"]


def test_S09_every_name_of_this_machine_is_accepted_and_no_other(caller):
    hosts = dict.fromkeys(
        ("localhost", "127.0.0.1:1", "LOCALHOST:8080", "[::1]:80"), 200
    )
    hosts |= dict.fromkeys(
        ("example.com", "127.0.0.1.example.com:80", "evil", "127.0.0.1:80:80", ""), 400
    )
    assert {
        host: caller.send("GET", "/v1/tables", host=host).status_code for host in hosts
    } == hosts


NAMES = [
    "..",
    ".",
    ".hidden",
    "%2e%2e",
    "..%2f..%2fx",
    "%2Fetc%2Fx",
    "a%2Fb",
    "..%5cx",
    "file:%2F%2F%2Ftmp%2Fx",
    "s3:%2F%2Fb%2Fx",
    "a%00b",
    "%0a",
    "%20",
    "%C3%A9",
    "%FF",
    "x" * 129,
    "a:b",
    ".staging",
    "~",
    "a%3Fb",
    "%252e%252e",
]
CLIMBING = [
    "tables/../x",
    "tables/../../x",
    "/tables/x",
    "tables/x/",
    "../v1/tables/x",
    "TABLES/x",
]


def test_S10_a_name_or_path_that_could_lead_elsewhere_is_refused(caller):
    def everything():
        return sorted(str(path) for path in caller.root.parent.rglob("*"))

    before = everything()
    paths = [f"tables/{name}" for name in NAMES] + [
        f"table/{name}/alter_columns" for name in NAMES
    ]
    for path in paths + CLIMBING:
        status, _ = exchanged(
            caller, caller.head(f"/v1/{path}", LENGTH, "Connection: close") + BODY
        )
        assert status in ((400, 404) if path in CLIMBING else (400,)), path
    assert everything() == before


TABLES = ("describe", "count_rows", "query", "alter_columns", "drop")
WRONG = [
    ("GET", "/", None, 404),
    ("GET", "/v1/tables/", None, 404),
    ("POST", "/v1/table/t", ARROW, 404),
    ("POST", "/v1/tables/a/b", ARROW, 404),
    ("POST", "/v1/tables", ARROW, 405),
    ("GET", "/v1/tables/t", None, 405),
    ("POST", "/v1/table/t/update/", JSON, 501),
    ("POST", f"/v1/table/t/{'x' * 1000}/", JSON, 501),
    ("DELETE", "/v1/tables/t", None, 405),
    ("POST", "/v1/tables/t", ARROW, 409),
    ("POST", "/v1/tables/new", None, 415),
    ("POST", "/v1/tables/new", JSON, 415),
    ("POST", "/v1/table/t/alter_columns", ARROW, 415),
    *(("GET", f"/v1/table/t/{last}/", None, 405) for last in TABLES),
    *(("POST", f"/v1/table/nix/{last}/", JSON, 404) for last in TABLES),
    *(("POST", f"/v1/table/..%2Ft/{last}/", JSON, 400) for last in TABLES),
]


def test_wrong_addresses_methods_and_content_types_have_answers_of_their_own(caller):
    caller.create("t", NUMBERS)
    for method, path, kind, status in WRONG:
        answer = caller.send(
            method, path, b"{}" if kind == JSON else BODY, content_type=kind
        )
        assert (answer.status_code, 0 < len(message(answer)) < 140) == (status, True), (
            path
        )
        assert "/nix/" not in path or "'nix'" in message(answer)
    assert caller.tables() == ["t"]
    assert caller.read("t").equals(NUMBERS)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\nx-api-key: KEY\r\n\r\n", 200),
        (
            (
                b"POST /v1/table/t/query/ HTTP/1.1\r\nHost: localhost\r\n"
                b"x-api-key: KEY\r\nContent-Length: 0\r\n\r\n"
            ),
            200,
        ),
        (
            b"GET /v1/tables HTTP/1.1\r\nHost: example.com\r\nx-api-key: KEY\r\n\r\n",
            400,
        ),
        (b"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\n\r\n", 401),
        (b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\nx-api-key: KEY\r\n\r\n", 404),
        (
            b"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            400,
        ),
        (b"GET /v1/tables HTTP/3.0\r\n\r\n", 505),
        (b"nothing\r\n\r\n", 400),
    ],
)
def test_every_answer_names_the_service_and_its_version(caller, head, status):
    caller.create("t", NUMBERS)
    with caller.connect() as connection:
        connection.sendall(head.replace(b"KEY", caller.key.encode()))
        lines = connection.recv(65536).partition(b"\r\n\r\n")[0].decode().split("\r\n")
    assert int(lines[0].split()[1]) == status
    assert f"x-rt-frames: {rt.__version__}" in lines


@pytest.mark.parametrize("share", [0.1, pytest.param(0.95, marks=pytest.mark.long)])
def test_an_idle_connection_is_kept_for_as_long_as_each_answer_says(caller, share):
    connection = http.client.HTTPConnection(caller.url.removeprefix("http://"))
    connection.request("GET", "/v1/tables")
    response = connection.getresponse()
    response.read()
    kept = re.fullmatch(r"timeout=(\d+)", response.headers["Keep-Alive"])
    used = connection.sock
    time.sleep(share * int(kept[1]))
    connection.request("GET", "/v1/tables")
    assert connection.getresponse().status == 401
    assert connection.sock is used
    connection.close()


def test_a_write_rides_the_connection_of_one_a_second_ago(service, caplog):
    caplog.set_level(logging.DEBUG, "urllib3.connectionpool")
    key = service.api_key
    with rt.connect(service.url, api_key=key, dialect="lancedb") as client:
        client.create_table("warm", TABLE)
        time.sleep(1)
        client.create_table("warm", TABLE, if_exists="replace")
        client.table("warm").drop()
    assert caplog.text.count("Starting new HTTP connection") == 1
    assert "Resetting dropped connection" not in caplog.text


def workers(service) -> int:
    """Count the threads of a service that respond to requests."""
    port = service.url.rpartition(":")[2]
    return sum(
        isinstance(thread, WorkerThread) and str(thread.server.bind_addr[1]) == port
        for thread in threading.enumerate()
    )


HEAD = b"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\nx-api-key: %b\r\n\r\n"


def test_300_connections_without_a_head_take_no_thread_and_hold_up_nobody(
    caller, service
):
    no_head = b"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\n\r\nG"
    silent = []
    for started in (b"", b"GET /v1", HEAD[:40], no_head):
        for _ in range(75):
            connection = caller.connect()
            connection.sendall(started)
            silent.append(connection)
    until(lambda: workers(service) <= 20)
    start = time.monotonic()
    assert caller.tables() == []
    assert time.monotonic() - start < 2
    for connection in silent:
        connection.close()


def test_threads_end_when_they_are_idle(caller, service):
    uploads = []
    for number in range(40):
        uploads.append(caller.connect())
        uploads[-1].sendall(caller.head(f"/v1/tables/t{number}", LENGTH))
    until(lambda: workers(service) >= 40)
    for upload in uploads:
        upload.sendall(BODY)
        upload.shutdown(socket.SHUT_WR)
        assert answered(upload)[0] == 200
        upload.close()
    until(lambda: workers(service) == 0)
    assert len(caller.tables()) == 40


@pytest.mark.parametrize("size", [1, 7, 50])
def test_a_head_that_comes_in_pieces_is_read(caller, size):
    head = HEAD % caller.key.encode()
    with caller.connect() as connection:
        for start in range(0, len(head), size):
            connection.sendall(head[start : start + size])
            time.sleep(0.005)
        connection.shutdown(socket.SHUT_WR)
        assert answered(connection) == (200, {"tables": []})


def test_a_head_that_takes_more_than_ten_seconds_is_answered_with_408(caller):
    with caller.connect() as silent, caller.connect() as trickling:
        start = time.monotonic()
        silent.sendall(b"GET /v1")
        while time.monotonic() < start + 10.5:
            trickling.sendall(b"x")
            time.sleep(0.5)
        assert answered(silent)[0] == 408
        assert answered(trickling)[0] == 408
    assert time.monotonic() - start < 15


def test_requests_sent_at_once_on_one_connection_are_answered_in_turn(caller):
    head = HEAD % caller.key.encode()
    with caller.connect() as connection:
        connection.sendall(head * 20 + head[:-1])
        wait_for_lists(connection, 20)
        connection.sendall(head[-1:])
        wait_for_lists(connection, 1)


def wait_for_lists(connection: socket.socket, count: int) -> None:
    data = b""
    while data.count(b'{"tables": []}') < count:
        part = connection.recv(65536)
        assert part
        data += part
