"""Requests whose length or form two readers could understand in two ways: refused, and the connection closed."""

from __future__ import annotations

import socket
import time

import pytest

from tests.support.local import TABLE, answered, stream

BODY = stream(TABLE)
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
LENGTH, CODING = f"Content-Length: {len(BODY)}", "Transfer-Encoding: chunked"
BEHIND = b"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\n\r\n"


def exchanged(caller, sent: bytes, *, ends: bool = True) -> tuple[int, str]:
    """Send bytes and give status and message of the one answer to them, after which the service must hang up."""
    with caller.connect() as connection:
        connection.sendall(sent)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        status, answer = answered(connection)
    assert answer["error"]["code"] == status
    return status, answer["error"]["message"]


HEADERS = {
    "a negative length": [f"Content-Length: -{len(BODY)}"],
    "minus one": ["Content-Length: -1"],
    "a plus sign": [f"Content-Length: +{len(BODY)}"],
    "an underscore": ["Content-Length: 1_0"],
    "hexadecimal": [f"Content-Length: {len(BODY):#x}"],
    "a fraction": [f"Content-Length: {len(BODY)}.0"],
    "a space inside": ["Content-Length: 1 0"],
    "a no-break space": [f"Content-Length: \xa0{len(BODY)}"],
    "a form feed": [f"Content-Length: \f{len(BODY)}"],
    "an empty length": ["Content-Length:"],
    "a length of 30 digits": [f"Content-Length: {'9' * 30}"],
    "two lengths in a list": [f"Content-Length: {len(BODY)}, {len(BODY)}"],
    "two lengths": [LENGTH, f"Content-Length: {len(BODY) - 8}"],
    "two lengths, the other way": [f"Content-Length: {len(BODY) - 8}", LENGTH],
    "a length twice": [LENGTH, LENGTH],
    "a length and chunks": [LENGTH, CODING],
    "chunks and a length": [CODING, "Content-Length: 0"],
    "an unknown coding": ["Transfer-Encoding: gzip"],
    "a coding before chunks": ["Transfer-Encoding: gzip, chunked"],
    "chunks twice": ["Transfer-Encoding: chunked, chunked"],
    "chunks in two headers": [CODING, CODING],
    "an empty coding": ["Transfer-Encoding:", LENGTH],
    "a comma for a coding": ["Transfer-Encoding: ,", LENGTH],
    "a space before the colon": ["Content-Length : 0", CODING],
    "a folded line": ["Content-Length:", f" {len(BODY)}"],
    "no colon": ["Content-Length", CODING],
    "a bare CR": [f"A: b\rContent-Length: {len(BODY)}"],
    "a NUL": ["A: b\0c", LENGTH],
    "two hosts": [LENGTH, "Host: example.com"],
    "two keys": [LENGTH, "x-api-key: other"],
    "two types": [LENGTH, "Content-Type: application/json"],
}


@pytest.mark.parametrize("lines", HEADERS.values(), ids=HEADERS)
def test_a_head_that_can_be_read_in_two_ways_is_refused_and_nothing_behind_it_is_a_request(caller, lines):
    head = caller.head("/v1/tables/t", *lines)
    for body in (BODY, CHUNKED):
        status, message = exchanged(caller, head + body + BEHIND)
        assert status == 400
        assert message
    assert caller.tables() == []


SPACES = {
    "spaces in a value": "A: b" + " " * 60_000 + "c",
    "spaces before a NUL": "A: b" + " " * 60_000 + "\0",
    "colons": ":" * 60_000,
    "a name without a colon": "a" * 60_000,
    "one name many times": "\r\n".join(["a:b"] * 12_000),
}


@pytest.mark.parametrize("lines", SPACES.values(), ids=SPACES)
def test_a_head_takes_no_longer_than_its_size_whatever_it_holds(caller, lines):
    started = time.monotonic()
    with caller.connect() as connection:
        connection.sendall(f"GET /v1/tables HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n".encode())
        connection.shutdown(socket.SHUT_WR)
        assert answered(connection)[0] in (400, 401)
    assert time.monotonic() - started < 2


def test_a_refused_head_is_answered_while_the_body_is_still_coming(caller):
    with caller.connect() as connection:
        connection.sendall(caller.head("/v1/tables/t", "Content-Length: -1"))
        for _ in range(20):
            connection.sendall(bytes(2**20))
        connection.shutdown(socket.SHUT_WR)
        assert answered(connection)[0] == 400


CHUNKS = {
    "a negative size": b"-5\r\n",
    "a plus sign": b"+%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n",
    "a prefix": b"0x%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n",
    "an underscore": b"1_0\r\n",
    "a leading space": b" %x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n",
    "no size": b"\r\n" + BODY,
    "only an extension": b";a=b\r\n" + BODY,
    "a size of 16 digits": b"f" * 16 + b"\r\n" + BODY,
    "no CR": b"%x\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n",
    "a CR in an extension": b"%x;a\rb\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n",
    "an endless extension": b"%x;" % len(BODY) + b"a" * 5000,
    "a chunk that is longer": b"%x\r\n" % (len(BODY) - 8) + BODY + b"\r\n0\r\n\r\n",
    "a chunk that is shorter": b"%x\r\n" % (len(BODY) + 8) + BODY + b"\r\n0\r\n\r\n",
    "no line end behind a chunk": b"%x\r\n" % len(BODY) + BODY + b"0\r\n\r\n",
    "endless trailers": b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n" + b"a: b\r\n" * 1000,
    "a trailer without an end": b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\na: b",
    "no trailer's end": b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n",
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_chunks_that_are_none_are_refused(caller, chunks):
    status, message = exchanged(caller, caller.head("/v1/tables/t", CODING) + chunks)
    assert status == 400
    assert "broke off" in message or "bytes follow" in message
    assert caller.tables() == []


def test_chunks_of_http_1_0_and_a_body_without_a_length_are_refused(caller):
    head = caller.head("/v1/tables/t", CODING).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    assert exchanged(caller, head + CHUNKED)[0] == 400
    assert exchanged(caller, caller.head("/v1/tables/t", "Connection: close") + BODY)[0] in (400, 411)
    assert caller.tables() == []


def test_what_is_well_formed_though_rare_is_taken(caller):
    extended = b"%X ;a=b\r\n%b\r\n00;c\r\nTrailer: x\r\n\r\n" % (len(BODY), BODY)
    for number, (lines, body) in enumerate(
        [
            ([f"content-length: \t {len(BODY):09} \t", "A: b", "A: c"], BODY),
            (["Transfer-encoding: Chunked", "Empty:"], extended),
        ]
    ):
        with caller.connect() as connection:
            connection.sendall(caller.head(f"/v1/tables/t{number}", *lines, "Connection: close") + body)
            assert answered(connection)[0] == 200
        assert caller.read(f"t{number}").equals(TABLE)


def test_nothing_that_is_never_ended_waits_longer_than_a_silent_client(service, caller):
    """The body is cut without a hang-up: the service's answer is about what came, as soon as it can be known."""
    started = time.monotonic()
    status, _ = exchanged(caller, caller.head("/v1/tables/t", CODING) + b"-1\r\n", ends=False)
    assert status == 400
    status, _ = exchanged(caller, caller.head("/v1/tables/t", "Content-Length: -1"), ends=False)
    assert status == 400
    assert time.monotonic() - started < 8
