"""Faults in answers: F18 to F20, F24 to F29, F36 to F38 of the matrix in README.md."""

from __future__ import annotations

import gzip
import time

import pytest

import rt_frames as rt
from rt_frames.errors import (
    AuthenticationError,
    BadRequest,
    ConflictError,
    OutcomeUnknown,
    PayloadTooLarge,
    RedirectError,
    RemoteError,
    ResponseError,
    ServerError,
    TableExistsError,
    TransportError,
)
from tests.support.faults import connected, fails, frame, in_bounds
from tests.support.servers import KEY, Connection, Server


def raw(server: Server, method: str, act: object) -> Server:
    """Answer one method's requests by ``act(connection)`` after reading them; others as the service would."""

    def script(connection: Connection) -> None:
        while True:
            request = connection.body(connection.head())
            if request.method == method:
                act(connection)
                return
            connection.answer(200, {"tables": []} if request.method == "GET" else {})

    server.script = script
    return server


def drip(connection: Connection, head: bytes, seconds: float = 8) -> None:
    connection.sock.sendall(head)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connection.sock.sendall(b" ")
        time.sleep(0.05)


def flood(connection: Connection, head: bytes) -> None:
    connection.sock.sendall(head)
    for _ in range(200):
        connection.sock.sendall(b"x" * 2**20)


@pytest.fixture
def trap():
    """A server that nobody may talk to."""
    with Server() as elsewhere:
        yield elsewhere
        assert elsewhere.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("where", ["host", "path", "port"])
def test_F18_a_redirect_is_an_error_and_its_target_is_left_alone(remote, server, trap, caplog, status, where):
    target = {"host": f"http://localhost:{trap.port}/v1/tables", "path": "/v2/tables", "port": trap.url + "/v1"}[where]
    server.answering((status, b"", {"Location": target}))
    error = fails(lambda: remote.create_table("t", frame(1)), RedirectError, caplog, "never followed|not followed")
    assert (error.status, len(server.posts)) == (status, 1)
    assert "/v1" not in str(error)
    remote.close()  # what the server answers is settled when a connection is made
    server.listing((status, b"", {"Location": target}))
    fails(remote.list_tables, RedirectError, caplog)
    assert len(server.requests) == 2


BOMB = gzip.compress(b"x" * 2**28)


@pytest.mark.parametrize("body", ["endless", "bomb"])
def test_F19_the_body_of_a_redirect_costs_neither_time_nor_memory(server, trap, caplog, body):
    head = f"HTTP/1.1 307 Moved\r\nLocation: {trap.url}/x\r\n".encode()

    def act(connection: Connection) -> None:
        if body == "endless":
            flood(connection, head + b"\r\n")
        else:
            connection.sock.sendall(head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB)

    raw(server, "POST", act)
    with in_bounds(seconds=1, mib=20):
        fails(lambda: connected(server, timeout=5).create_table("t", frame(1)), RedirectError, caplog)


KINDS = {
    400: BadRequest,
    401: AuthenticationError,
    403: AuthenticationError,
    404: ResponseError,
    409: TableExistsError,
    413: PayloadTooLarge,
    415: ResponseError,
    422: BadRequest,
}
BODIES = {
    "JSON": {"error": {"code": 1, "message": "reason " * 200}},
    "HTML": b"<html><body><p>reason</p></body></html>",
    "empty": b"",
    "binary": bytes(range(256)) * 40,
    "key": f"your key {KEY} is {KEY}".encode(),
    "deep": b"[" * 200_000,
    "number": b"1" * 5000,
}


@pytest.mark.parametrize("body", BODIES)
def test_F20_every_refusal_has_its_class_and_a_short_message_without_the_key(remote, server, caplog, body):
    for number, (status, kind) in enumerate(KINDS.items(), 1):
        server.answering((status, BODIES[body]))
        error = fails(lambda: remote.create_table("t", frame(1)), kind, caplog)
        assert len(error.message) <= 300
        assert len(server.posts) == number
        if body == "key":
            assert error.message == "your key *** is ***"
            assert "***" in error.body
        assert all(char.isprintable() for char in str(error))


@pytest.mark.parametrize(
    ("key", "said", "shown"),
    [
        ("ab/c+d=efg", r"no ab\/c\u002Bd=efg", "no ***"),
        ("ab/c+d=efg", r"no ab\u002fc\u002bd\u003Defg", "no ***"),
        ("ab/c+d=efg", "no ab&#x2F;c&#43;d&#61;efg or ab%2Fc%2bd%3Defg", "no *** or ***"),
        ('a"b<c&\\defg', r"no a\"b<c&\\defg", "no ***"),
        ('a"b<c&\\defg', "no a&quot;b&lt;c&amp;%5cdefg", "no ***"),
        ("test", "table 'test_sales' of latest test", "table 'test_sales' of latest ***"),
        ("test", r"no\ntest", "no ***"),
        ("test-key", "my_test-keys", "my_***s"),
    ],
)
@pytest.mark.parametrize("status", [400, 503, 200])
def test_F20_a_key_is_struck_out_however_it_is_spelled_and_words_are_left(server, key, said, shown, status):
    body = f'{{"error": "{said}"}}'.encode()
    for encoded in (body, body.decode().encode("utf-16")):
        server.answering((status, encoded))
        client = rt.connect(server.url, api_key=key, retries=0, default=False)
        with pytest.raises(RemoteError) as raised:
            client.table("t").rename({"a": "b"})
        assert shown in str(raised.value)
        assert status == 200 or "***" in raised.value.body
        assert key not in f"{raised.value} {vars(raised.value)}".replace("latest", "").replace("test_sales", "")


def test_F20_headers_that_errors_tell_of_may_hold_the_key_too(remote, server, caplog):
    server.listing((302, b"", {"Location": f"https://{KEY}.example.com/"}), (200, b"", {"Content-Encoding": KEY}))
    fails(remote.list_tables, RedirectError, caplog, r"redirects to \*\*\*\.example\.com")
    fails(remote.list_tables, ResponseError, caplog, r"encoded as '\*\*\*'")


@pytest.mark.parametrize("message", ["column 'a' is odd", "", "nothing was changed, column 'a' is odd"])
def test_F20_a_refusal_says_once_that_nothing_was_changed(remote, server, caplog, message):
    server.answering((400, {"error": message}))
    error = fails(lambda: remote.table("t").rename({"a": "b"}), BadRequest, caplog)
    assert str(error).startswith(f"could not alter table 't': the service answered 400, {message or 'Bad Request'}")
    assert str(error).count("nothing was changed") == 1


HOSTILE = {
    "tags that never end": b"<head " * 11_000,
    "attributes that never end": b"<a b='" * 11_000,
    "tags that never begin": b"<" * 65_000,
    "JSON that is nested": b'{"error": ' * 800 + b"1" + b"}" * 800,
}


@pytest.mark.parametrize("body", HOSTILE)
def test_an_error_whose_body_takes_long_to_read_is_told_at_once(remote, server, caplog, body):
    server.answering((500, HOSTILE[body]))
    started = time.monotonic()
    fails(lambda: remote.table("t").rename({"a": "b"}), ServerError, caplog, "answered 500")
    assert time.monotonic() - started < 2


def test_F24_accepted_is_not_done(remote, server, caplog):
    server.answering((202, {}))
    fails(lambda: remote.create_table("t", frame(1)), OutcomeUnknown, caplog, "202")
    assert len(server.posts) == 1


def test_F24_no_content_is_success_and_not_modified_is_none(remote, server, caplog):
    server.answering((204, b""), (304, b""))
    assert remote.create_table("t", frame(1)).created
    fails(lambda: remote.create_table("t", frame(1)), RedirectError, caplog)


@pytest.mark.parametrize("status", [100, 101, 102, 103])
def test_F25_an_interim_status_alone_is_no_answer_and_the_next_call_gets_its_own(server, caplog, status):
    client = connected(server)
    raw(server, "POST", lambda c: c.sock.sendall(b"HTTP/1.1 %d Wait\r\n\r\n" % status))
    error = fails(lambda: client.create_table("t", frame(1)), OutcomeUnknown, caplog)
    assert (len(server.posts), error.listed) == (1, False)
    assert client.list_tables() == []


INTERIM = b"".join(
    b"HTTP/1.1 %d Wait\r\nLink: </style.css>; rel=preload\r\n\r\n" % status for status in (100, 102, 103, 103, 199)
)


def test_F37_a_list_after_interim_answers_is_that_of_its_own_request(wire):
    server, connect = wire

    def script(connection: Connection) -> None:
        for number in range(5):
            connection.body(connection.head())
            connection.sock.sendall(INTERIM)
            connection.answer(200, [f"answer {number}"])

    server.script = script
    client = connect(retries=0)
    assert [client.list_tables() for _ in range(5)] == [[f"answer {number}"] for number in range(5)]
    assert server.connections == 1


@pytest.mark.parametrize(
    "line", [b"HTTP/9 yes\r\n\r\n", b"\x00\x01\x02\x03\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"SSH-2.0\r\n"]
)
def test_F26_a_status_line_that_cannot_be_read_is_outcome_unknown(server, caplog, line):
    raw(server, "POST", lambda c: c.sock.sendall(line))
    fails(lambda: connected(server).create_table("t", frame(1)), OutcomeUnknown, caplog)
    assert len(server.posts) == 1


def test_F27_a_success_whose_body_is_cut_confirms_nothing(server, caplog):
    raw(server, "POST", lambda c: c.sock.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"version": 1'))
    words = "answered 200 with a body that cannot be read: it broke off"
    fails(lambda: connected(server).create_table("t", frame(1)), OutcomeUnknown, caplog, words)
    fails(lambda: connected(server).table("t").rename({"a": "b"}), OutcomeUnknown, caplog, words)
    assert len(server.posts) == 2


HTML, JSON = {"Content-Type": "text/html; charset=utf-8"}, {"Content-Type": "application/json"}
PAGES = {
    "a page": (200, b"<!doctype html><title>Welcome</title>", HTML),
    "a page of no type": (201, b"\n <html></html>", {}),
    "a page of another type": (200, b"<html></html>", JSON),
    "text": (200, b"It works!", HTML),
    "compressed": (200, gzip.compress(b"<html></html>"), {**HTML, "Content-Encoding": "gzip"}),
}


@pytest.mark.parametrize("page", PAGES)
def test_F38_a_web_page_is_no_word_of_the_service(wire, caplog, page):
    server, connect = wire
    remote = connect()
    server.answering(PAGES[page])
    error = fails(lambda: remote.create_table("t", frame(1)), OutcomeUnknown, caplog, "web page .* check the address")
    assert (len(server.posts), error.listed) == (1, False)
    fails(lambda: remote.table("t").rename({"a": "b"}), OutcomeUnknown, caplog, "web page .* check the address")
    assert len(server.posts) == 2


@pytest.mark.parametrize("body", [b'{"version": 3}', b" {}"])
def test_F38_what_a_service_says_with_the_wrong_type_is_a_success(wire, body):
    server, connect = wire
    remote = connect()
    server.answering((200, body, HTML))
    assert remote.create_table("t", frame(1)).created
    assert remote.table("t").rename({"a": "b"}).version in (None, 3)


def test_F28_a_list_is_tried_again_after_server_errors(remote, server):
    server.listing((500, b""), (500, b""), (200, {"tables": ["a"]}))
    assert remote.list_tables() == ["a"]
    assert len(server.requests) == 3


def test_F28_a_connection_that_went_stale_is_noticed(server):
    client = connected(server)

    def once(connection: Connection) -> None:
        connection.body(connection.head())
        connection.answer(200, {"tables": ["a"]})

    server.script = once
    for _ in range(20):
        assert client.list_tables() == ["a"]
        assert client.create_table("t", frame(1)).created


HEAD = b"HTTP/1.1 200 OK\r\n"
LISTS = {
    "HTML": lambda c: c.answer(200, b"<html>hello</html>"),
    "cut": lambda c: c.sock.sendall(HEAD + b'Content-Length: 999\r\n\r\n{"tables": ["a"'),
    "cut chunked": lambda c: c.sock.sendall(HEAD + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"tab\r\n'),
    "deep": lambda c: c.answer(200, b"[" * 200_000),
    "number": lambda c: c.answer(200, b'{"tables": ' + b"1" * 5000 + b"}"),
    "huge": lambda c: flood(c, HEAD + b"\r\n"),
    "names are numbers": lambda c: c.answer(200, {"tables": [1, 2]}),
    "no tables": lambda c: c.answer(200, {"names": []}),
    "token is a number": lambda c: c.answer(200, {"tables": [], "page_token": 5}),
    "dripping": lambda c: drip(c, HEAD + b"Content-Length: 99999\r\n\r\n"),
    "bomb": lambda c: c.answer(200, BOMB, {"Content-Encoding": "gzip"}),
    "arrow without names": lambda c: c.answer(200, b"\xff\xff\xff\xff\x10\x00\x00\x00" + bytes(64)),
}


@pytest.mark.parametrize("form", LISTS)
def test_F29_a_list_that_cannot_be_understood_is_a_response_error_in_time_and_bounds(server, caplog, form):
    raw(server, "GET", LISTS[form])
    with in_bounds(seconds=3, mib=64):
        error = fails(connected(server, retries=0).list_tables, ResponseError, caplog)
    assert error.status == 200


@pytest.mark.parametrize("form", [*LISTS, "surrogate", "no HTTP", "nothing"])
@pytest.mark.parametrize("status", [500, 404, 409])
def test_what_a_second_look_meets_hides_no_first_fault(server, caplog, form, status):
    others = {
        "surrogate": lambda c: c.answer(200, b'{"tables": [], "page_token": "\\ud800"}'),
        "no HTTP": lambda c: c.sock.sendall(b"\xff\x1b[2J\r\n\r\n"),
        "nothing": lambda c: None,
    }
    act = {**LISTS, **others}[form]
    free = [status == 409]  # `skip` looks before it sends, too

    def script(connection: Connection) -> None:
        while True:
            if connection.body(connection.head()).method == "POST":
                connection.answer(status, {"error": "the first fault"})
            elif free[0]:
                free[0] = False
                connection.answer(200, {"tables": []})
            else:
                act(connection)
                return

    server.script = script
    kind = {500: ServerError, 404: ResponseError, 409: ConflictError}[status]
    client, how = connected(server, timeout=0.5), "skip" if status == 409 else "fail"
    error = fails(lambda: client.create_table("t", frame(1), if_exists=how), kind, caplog, "the first fault")
    assert (error.status, len(server.posts)) == (status, 1)


def test_F29_headers_that_drip_end_at_the_deadline(server, caplog):
    raw(server, "GET", lambda c: drip(c, HEAD + b"x-slow: "))
    started = time.monotonic()
    fails(connected(server, retries=0).list_tables, TransportError, caplog)
    assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (lambda c: None, OutcomeUnknown),
        (lambda c: c.answer(409, b""), ConflictError),
        (lambda c: c.answer(500, b""), ServerError),
    ],
    ids=["hang up", "409", "500"],
)
def test_F36_an_alter_is_never_sent_twice(server, caplog, act, kind):
    raw(server, "POST", act)
    error = fails(lambda: connected(server).table("t").rename({"a": "b"}), kind, caplog)
    assert (len(server.posts), error.table, error.attempts) == (1, "t", 1)


def test_a_part_of_the_key_in_an_answer_takes_no_time(server):
    for length in (8, len(KEY) - 1):
        server.listing((401, f"the key {KEY[:length] * 50} is wrong".encode(), {"X": KEY[:length] * 50}))
        started = time.monotonic()
        with pytest.raises(AuthenticationError):
            connected(server, retries=0).list_tables()
        assert time.monotonic() - started < 2


@pytest.mark.parametrize("status", [200, 302, 400, 500])
def test_values_of_further_headers_are_struck_out_too(server, status):
    value = "Bearer another-secret-0123456789"
    server.listing((status, {"message": f"bad {value}!"}, {"Location": f"http://x.test/{value}"}))
    with pytest.raises(RemoteError) as caught:
        connected(server, retries=0, headers={"Authorization": value}).list_tables()
    assert "another-secret" not in f"{caught.value!r} {vars(caught.value)}"
