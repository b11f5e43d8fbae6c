"""Responses of a service, and the errors that they become.

F18 to F20, F24 to F29 and F36 to F38 of the matrix in README.md.
"""

from __future__ import annotations

import functools
import gzip
import itertools
import time

import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import errors
from tests.support.faults import connected, fails, in_bounds, patient
from tests.support.hosted import SMALL_PARTS, Hosted, serving
from tests.support.servers import KEY, Connection, Server

SMALL = pa.table({"a": [1, 2]})


def calls(client: rt.Client) -> dict:
    return {
        "list": client.list_tables,
        "create": lambda: client.create_table("t", SMALL),
        "alter": lambda: client.table("t").rename({"a": "b"}),
    }


def raw(server: Server, method: str, act: object) -> Server:
    """Answer the requests of one method by ``act(connection)``, after reading them.

    Answer the others as the service would.
    """

    def script(connection: Connection) -> None:
        while True:
            request = connection.body(connection.head())
            if request.method == method:
                act(connection)
                return
            connection.answer(200, {"tables": []} if request.method == "GET" else {})

    server.script = script
    return server


def drip(connection: Connection, head: bytes) -> None:
    connection.sock.sendall(head)
    for _ in range(1200):
        connection.sock.sendall(b" ")
        time.sleep(0.05)


def flood(connection: Connection, head: bytes) -> None:
    connection.sock.sendall(head)
    for _ in range(200):
        connection.sock.sendall(b"x" * 2**20)


def say(text: bytes):
    return lambda connection: connection.sock.sendall(text)


@functools.cache
def bomb() -> bytes:
    return gzip.compress(bytes(2**27), 1)


OPEN = errors.OutcomeUnknown, errors.OutcomeUnknown, ["list"]
STATUSES = {  # what a list, a create and an alteration raise, and which of them are sent again
    101: (errors.TransportError, *OPEN),
    **dict.fromkeys((202, 203, 206, 207), (errors.ResponseError, *OPEN)),
    **dict.fromkeys((301, 304, 308), (*[errors.RedirectError] * 3, [])),
    **dict.fromkeys((400, 422), (*[errors.BadRequest] * 3, [])),
    **dict.fromkeys((401, 403), (*[errors.AuthenticationError] * 3, [])),
    404: (errors.ResponseError, errors.ResponseError, errors.TableNotFoundError, []),
    409: (errors.ResponseError, errors.TableExistsError, errors.ConflictError, []),
    413: (*[errors.PayloadTooLarge] * 3, []),
    **dict.fromkeys((406, 415), (*[errors.ResponseError] * 3, [])),
    429: (*[errors.RateLimited] * 3, ["list", "create", "alter"]),
    **dict.fromkeys((500, 502, 503, 504), (*[errors.ServerError] * 3, ["list"])),
    **dict.fromkeys((501, 507), (*[errors.ServerError] * 3, [])),
}


@pytest.mark.parametrize("status", STATUSES)
def test_F20_F23_F24_each_status_has_its_error_and_only_what_is_safe_is_sent_again(
    server, caplog, status
):
    *kinds, again = STATUSES[status]
    for what, kind in zip(calls(rt), kinds, strict=True):
        (server.listing if what == "list" else server.answering)(
            (status, b"", {"Retry-After": "0"})
        )
        server.requests.clear()
        error = fails(calls(patient(server, retries=1))[what], kind, caplog)
        asked = [r for r in server.requests if what != "list" or r.path == "/v1/tables"]
        sent = asked if what == "list" else server.posts
        assert (len(sent), error.attempts) == (1 + (what in again),) * 2, what
        if what == "list":
            continue
        is_open = kind is errors.OutcomeUnknown or status in (500, 502, 503, 504)
        assert ("the outcome is unknown" in str(error)) == is_open
        assert ("nothing was" in str(error)) == (not is_open)
        assert not is_open or error.listed == (False if what == "create" else None)


ROWS = pa.table({"n": range(1000)})
DESCRIBED = {
    "version": 1,
    "schema": {"fields": [{"name": "n", "type": {"type": "int64"}, "nullable": True}]},
}
UNCOMPRESSED = (
    "; if the server does not support compressed Arrow buffers, pass compression=None"
)


@pytest.mark.parametrize(
    ("status", "rows", "options", "is_offered"),
    [
        (400, ROWS, {"compression": "zstd"}, True),
        (415, ROWS, {"compression": "lz4"}, True),
        (415, ROWS.to_reader, {"compression": "zstd"}, True),
        (415, ROWS, {"compression": "zstd", "if_exists": "append"}, True),
        (400, ROWS, {"compression": None}, False),
        # on loopback, which needs no codec
        (415, ROWS, {}, False),
        (415, ROWS[:0], {"compression": "zstd"}, False),
        (422, ROWS, {"compression": "zstd"}, False),
        (406, ROWS, {"compression": "zstd"}, False),
    ],
)
def test_a_server_that_may_not_support_compressed_buffers_gets_them_as_they_are(
    server, status, rows, options, is_offered
):
    def script(connection: Connection) -> None:
        while True:
            request = connection.body(connection.head())
            if "/describe/" in request.path:
                connection.answer(200, DESCRIBED)
            elif request.method == "GET":
                connection.answer(200, {"tables": []})
            else:
                connection.answer(status, {"error": "unreadable"})

    server.script = script
    client = patient(server, dialect="lancedb")
    data = rows() if callable(rows) else rows
    with pytest.raises(errors.ResponseError) as caught:
        client.create_table("t", data, **options)
    assert caught.value.status == status
    assert (UNCOMPRESSED in str(caught.value)) == is_offered


def test_a_part_that_a_server_cannot_read_may_be_sent_uncompressed():
    hosted = Hosted(fault=lambda _, step: "415" if step == "part" else "")
    rows = pa.table({"n": range(50_000)})
    with serving(hosted) as server:
        client = patient(server, dialect=SMALL_PARTS)
        client.list_tables()
        with pytest.raises(errors.ResponseError, match=UNCOMPRESSED):
            client.create_table("t", rows, compression="lz4")


def test_an_embedded_service_reads_compressed_buffers_and_says_what_it_refuses(service):
    client = rt.connect(service.url, api_key=service.api_key, default=False)
    with pytest.raises(errors.BadRequest) as caught:
        client.create_table("not a name", ROWS, compression="zstd")
    assert "compress" not in str(caught.value)


NOT_OF_A_TABLE, COLUMN = errors.ResponseError, errors.BadRequest
CODED = [  # what a create, an alteration, a query and an append raise, by the code in the answer
    (
        409,
        5,
        [
            errors.TableExistsError,
            errors.ConflictError,
            NOT_OF_A_TABLE,
            errors.ConflictError,
        ],
    ),
    (
        409,
        14,
        [
            errors.ConflictError,
            errors.ConflictError,
            NOT_OF_A_TABLE,
            errors.ConflictError,
        ],
    ),
    (
        409,
        19,
        [
            errors.ConflictError,
            errors.ConflictError,
            NOT_OF_A_TABLE,
            errors.ConflictError,
        ],
    ),
    (404, 4, [NOT_OF_A_TABLE, *[errors.TableNotFoundError] * 3]),
    (404, 12, [NOT_OF_A_TABLE, *[COLUMN] * 3]),
    *(
        (409, code, [errors.TableExistsError, errors.ConflictError])
        for code in ("14", True, [14], {}, 14.5, 2**70)
    ),
]


@pytest.mark.parametrize(
    ("status", "code", "kinds"),
    CODED,
    ids=[f"{status} {code}" for status, code, _ in CODED],
)
def test_a_code_tells_apart_what_has_one_status(server, status, code, kinds):
    described = {
        "version": 1,
        "schema": {
            "fields": [{"name": "a", "type": {"type": "int64"}, "nullable": True}]
        },
    }

    def script(connection: Connection) -> None:
        while request := connection.body(connection.head()):
            if request.method == "GET":
                connection.answer(200, {"tables": []})
            elif "/describe/" in request.path:
                connection.answer(200, described)
            else:
                connection.answer(status, {"error": "no", "code": code})

    server.script = script
    client = connected(server, retries=0, dialect="lancedb")
    create, alter = list(calls(client).values())[1:]
    asked = [
        create,
        alter,
        client.table("t").to_arrow,
        lambda: client.create_table("t", SMALL, if_exists="append"),
    ]
    for call, kind in zip(asked, kinds, strict=False):
        with pytest.raises(errors.ResponseError) as raised:
            call()
        assert type(raised.value) is kind


REASONS = {  # a body, and the message that is found in it
    "an error and a code": ({"error": "the reason", "code": 5}, "the reason"),
    "a detail": (
        {"type": "about:blank", "title": "Bad", "detail": "the reason"},
        "the reason",
    ),
    "details": ({"detail": [{"msg": "the reason", "loc": ["x"]}]}, "the reason"),
    "nothing": (b"", ""),
    "what is long": ({"error": {"message": "reason " * 200}}, None),
    "binary": (bytes(range(256)) * 40, None),
    "the key": (f"your key {KEY} is {KEY}".encode(), "your key *** is ***"),
    "the key where a message is cut": (b"x" * 290 + f" {KEY}, {KEY}".encode(), None),
    "parts of the key": (KEY[:-1].encode() * 50, None),
    "JSON without end": (b"[" * 200_000, None),
    "a number without end": (b"1" * 5000, None),
    "JSON that is nested": (b'{"error": ' * 800 + b"1" + b"}" * 800, None),
    "tags that never end": (b"<head " * 11_000, None),
    "attributes that never end": (b"<a b='" * 11_000, None),
    "tags that never begin": (b"<" * 65_000, None),
}


@pytest.mark.parametrize(("body", "message"), REASONS.values(), ids=REASONS)
def test_F20_the_reason_is_found_in_any_body_at_once_short_printable_and_without_the_key(
    server, caplog, body, message
):
    server.answering((400, body))
    started = time.process_time()
    error = fails(calls(patient(server))["create"], errors.BadRequest, caplog)
    # CPU time, since it is the time of a parser that is tested
    assert time.process_time() - started < 3
    assert message is None or error.message == message
    assert len(error.message) <= 300
    assert str(error).isprintable()
    assert str(error).count("nothing was stored") == 1
    assert "***" in error.body or KEY not in str(body)
    assert (error.status, error.table, error.rows) == (400, "t", 2)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    "words",
    [
        "",
        "denied",
        "Invalid API key",
        "the x-api-key header is missing or wrong; give a key",
    ],
)
def test_F20_a_wrong_key_is_said_once(server, caplog, status, words):
    server.answering((status, {"error": words} if words else b""))
    said = str(
        fails(calls(patient(server))["create"], errors.AuthenticationError, caplog)
    )
    assert said.lower().count("key") == max(1, words.count("key"))
    assert ("belongs to this project" in said) == ("key" not in words)


# of whatever the message of a server says, a table named so is a table
@pytest.mark.parametrize("name", ["conversions", "monkeys", "versions"])
def test_a_404_of_a_table_keeps_its_cure_whatever_the_name(server, name):
    server.answering((404, {"error": f"no table {name!r}"}))
    client = connected(server, retries=0)
    with pytest.raises(errors.TableNotFoundError) as raised:
        client.table(name).rename({"a": "b"})
    assert str(raised.value).endswith("check the name in rt.list_tables()")


@pytest.mark.parametrize(
    ("status", "cure"),
    [
        (408, "try again"),
        (409, "try again"),
        (411, "count the rows of table 't': 411, no"),
        (425, "try again"),
        (505, "region and domain"),
        (511, "log in to the network first"),
    ],
)
def test_a_count_that_is_refused_has_a_cure_of_a_count(server, status, cure):
    server.answering((status, {"error": "no"}))
    client = connected(server, retries=0, dialect="lancedb")
    with pytest.raises(errors.ResponseError) as raised:
        client.table("t").count()
    assert str(raised.value).endswith(cure)
    assert "frame" not in str(raised.value)


HEADS = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Ty",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
    b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0",
]


@pytest.mark.parametrize("head", HEADS)
def test_a_success_whose_head_is_cut_leaves_the_outcome_unknown(server, head):
    raw(server, "POST", say(head))
    client = connected(server, retries=2)
    for call in list(calls(client).values())[1:]:
        server.requests.clear()
        with pytest.raises(errors.OutcomeUnknown, match="within the head"):
            call()
        assert len(server.posts) == 1


@pytest.mark.parametrize(
    ("header", "seconds"), [("100000", 1e5), (" 7 ", 7), ("x", None)]
)
def test_the_pause_is_the_one_that_the_service_asks_for(server, header, seconds):
    server.answering((429, {}, {"Retry-After": header}))
    client = connected(server, retries=0)
    with pytest.raises(errors.RateLimited) as raised:
        client.create_table("t", SMALL)
    assert raised.value.retry_after == seconds


@pytest.mark.parametrize("status", [501, 505, 507, 511])
def test_a_create_that_certainly_did_nothing_lists_no_tables(server, status):
    server.answering((status, {"error": "no"}))
    client = connected(server, retries=0, dialect="documented")
    with pytest.raises(errors.ServerError, match="nothing was stored"):
        client.create_table("t", SMALL)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [499, 520, 524])
def test_a_create_that_a_proxy_gave_up_may_have_been_carried_out(server, status):
    server.answering((status, {"error": "no"}))
    client = connected(server, retries=2, dialect="documented")
    with pytest.raises(errors.ServerError, match="the outcome is unknown"):
        client.create_table("t", SMALL)
    assert [request.method for request in server.requests] == ["POST", "GET"]


SPELLED = [
    ("ab/c+d=efg", r"no ab\/c\u002Bd=efg", "no ***"),
    ("ab/c+d=efg", r"no ab\u002fc\u002bd\u003Defg", "no ***"),
    ("ab/c+d=efg", "no ab&#x2F;c&#43;d&#61;efg or ab%2Fc%2bd%3Defg", "no *** or ***"),
    ('a"b<c&\\defg', r"no a\"b<c&\\defg", "no ***"),
    ('a"b<c&\\defg', "no a&quot;b&lt;c&amp;%5cdefg", "no ***"),
    ('a%41"bcdefg', r"no a%41\"bcdefg", "no ***"),
    (r"a%5C\bcdefg", r"no a%5C\\bcdefg", "no ***"),
    ('a&lt;"bcdefg', r"no a&lt;\"bcdefg or a%26lt;%22bcdefg", "no *** or ***"),
    ("test", "table 'test_sales' of latest test", "table 'test_sales' of latest ***"),
    ("test", r"no\ntest", "no ***"),
    ("test-key", "my_test-keys", "my_***s"),
]


@pytest.mark.parametrize(("key", "said", "shown"), SPELLED)
def test_F20_a_key_is_struck_out_however_it_is_spelled_and_words_are_left(
    server, key, said, shown
):
    client = rt.connect(server.url, api_key=key, retries=0, default=False)
    for status, encoding in itertools.product((400, 503, 200), ("utf-8", "utf-16")):
        server.answering((status, f'{{"error": "{said}"}}'.encode(encoding)))
        with pytest.raises(errors.RemoteError) as raised:
            client.table("t").rename({"a": "b"})
        assert shown in str(raised.value)
        assert status == 200 or "***" in raised.value.body
        assert key not in f"{raised.value} {vars(raised.value)}".replace(
            "latest", ""
        ).replace("test_sales", "")


def test_F20_what_errors_tell_of_headers_is_without_the_key_and_further_secrets(
    server, caplog
):
    server.listing(
        (302, b"", {"Location": f"https://{KEY}.example.com/"}),
        (200, b"", {"Content-Encoding": KEY}),
    )
    ask = patient(server, retries=0).list_tables
    assert "***.example.com" in str(fails(ask, errors.RedirectError, caplog))
    assert "***" in str(fails(ask, errors.ResponseError, caplog))
    value = "Bearer another-secret-0123456789"
    for status in (200, 302, 400, 500):
        server.listing(
            (
                status,
                {"message": f"bad {value}!"},
                {"Location": f"http://x.test/{value}"},
            )
        )
        with pytest.raises(errors.RemoteError) as caught:
            patient(server, retries=0, headers={"Authorization": value}).list_tables()
        assert "another-secret" not in f"{caught.value!r} {vars(caught.value)}"


def test_F18_a_redirect_is_an_error_and_its_target_is_left_alone(server, caplog):
    targets = [
        "http://localhost:{}/v1/tables",
        "/v2/tables",
        "http://me:pass-word@127.0.0.1:{}/v1",
        "",
        "//localhost:{}/v1",
    ]
    with Server() as trap:
        for status, target in zip((301, 302, 303, 307, 308), targets, strict=True):
            server.listing(
                (
                    status,
                    b"",
                    {"Location": target.format(trap.port), "Set-Cookie": "a=1"},
                )
            )
            server.requests.clear()
            for call in calls(patient(server)).values():
                error = fails(call, errors.RedirectError, caplog)
                assert (error.status, "pass-word" in str(error)) == (status, False)
            assert len(server.requests) == 3
            assert not any("cookie" in request.headers for request in server.requests)
    assert trap.connections == 0


def test_F19_the_body_of_a_redirect_costs_neither_time_nor_memory(server, caplog):
    head, packed = b"HTTP/1.1 307 Moved\r\nLocation: http://localhost:1/x\r\n", bomb()
    packed = (
        b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed
    )
    for act in (
        lambda connection: flood(connection, head + b"\r\n"),
        say(head + packed),
    ):
        raw(server, "POST", act)
        with in_bounds(seconds=20, mib=20):
            fails(
                calls(connected(server, timeout=60))["create"],
                errors.RedirectError,
                caplog,
            )


CONFIRMED = [
    {},
    {"version": 2},
    {"location": "s3://x", "version": 2},
    {"error": None, "version": 2},
    b"",
    b" \r\n",
]


def test_a_success_has_no_body_or_a_json_object_of_whatever_type(remote, server):
    for status, body in [*itertools.product((200, 201), CONFIRMED), (204, b"")]:
        server.answering(
            (
                status,
                body,
                {"Content-Type": "text/html"} if isinstance(body, dict) else {},
            )
        )
        version = 2 if isinstance(body, dict) and "version" in body else None
        assert remote.create_table("t", SMALL).version == version
        assert remote.table("t").rename({"a": "b"}).version == version


HTML = {"Content-Type": "text/html; charset=utf-8"}
DOUBTED = {  # an answer that says success, and what is told of it
    "an error without words": ((201, {"version": 2, "error": {"code": 3}}), "error"),
    "an error with the key": ((200, {"error": f"not for {KEY}"}), "not for ***"),
    "text": ((200, b"It works!"), "It works!"),
    "text of HTML": ((200, b"It works!", HTML), "web page"),
    "the key": ((200, f"{KEY} \n".encode()), "***"),
    "null": ((200, b"null"), "null"),
    "an array": ((200, b"[1]"), "not a JSON object"),
    "no text": ((200, b"\xff"), "not a JSON object"),
    "JSON without end": ((200, b"{" * 100_000), "not a JSON object"),
    "HTML alone": ((200, b"", HTML), "web page"),
    "a page of no type": ((201, b"\n <html></html>"), "web page"),
    "a page of another type": (
        (200, b"<html></html>", {"Content-Type": "application/json"}),
        "web page",
    ),
    "a compressed page": (
        (200, gzip.compress(b"<html>"), {**HTML, "Content-Encoding": "gzip"}),
        "web page",
    ),
}


@pytest.mark.parametrize(("answer", "told"), DOUBTED.values(), ids=DOUBTED)
def test_F38_what_else_says_success_leaves_the_outcome_open(
    server, caplog, answer, told
):
    server.listed = ["t"]
    server.answering(answer)
    made = calls(connected(server))
    error = fails(made["create"], errors.OutcomeUnknown, caplog)
    assert (error.listed, error.attempts) == (True, 1)
    for shown in (error, fails(made["alter"], errors.OutcomeUnknown, caplog)):
        assert told in str(shown)
        assert str(answer[0]) in str(shown)
    assert len(server.posts) == 2


INTERIM = b"".join(
    b"HTTP/1.1 %d Wait\r\nLink: </style.css>; rel=preload\r\n\r\n" % status
    for status in (100, 102, 103, 103, 199)
)
NO_ANSWERS = {
    "nothing": lambda connection: None,
    **{
        f"{status} alone": say(b"HTTP/1.1 %d Wait\r\n\r\n" % status)
        for status in (100, 101, 102, 103)
    },
    "another version": say(b"HTTP/9 yes\r\n\r\n"),
    "binary": say(b"\x00\x01\x02\x03\r\n\r\n"),
    "no status": say(b"HTTP/1.1 abc\r\n\r\n"),
    "SSH": say(b"SSH-2.0\r\n"),
    "a cut body": say(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"version": 1'),
}


@pytest.mark.parametrize("form", NO_ANSWERS)
def test_F25_F26_F27_F36_no_whole_answer_leaves_the_outcome_open_and_nothing_is_sent_twice(
    server, caplog, form
):
    raw(server, "POST", NO_ANSWERS[form])
    made = calls(patient(server))
    assert fails(made["create"], errors.OutcomeUnknown, caplog).listed is False
    error = fails(made["alter"], errors.OutcomeUnknown, caplog)
    assert (len(server.posts), error.table, error.attempts) == (2, "t", 1)
    assert made["list"]() == []  # the next call gets its own answer


def test_F37_a_list_after_interim_answers_is_that_of_its_own_request(wire):
    server, connect = wire

    def script(connection: Connection) -> None:
        for number in range(5):
            connection.body(connection.head())
            connection.sock.sendall(INTERIM)
            connection.answer(200, [f"answer {number}"])

    server.script = script
    client = connect(retries=0)
    assert [client.list_tables() for _ in range(5)] == [
        [f"answer {number}"] for number in range(5)
    ]
    assert server.connections == 1


HEAD = b"HTTP/1.1 200 OK\r\n"
LISTS = {
    "HTML": lambda c: c.answer(200, b"<html>hello</html>"),
    "cut": say(HEAD + b'Content-Length: 999\r\n\r\n{"tables": ["a"'),
    "cut chunked": say(HEAD + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"tab\r\n'),
    "deep": lambda c: c.answer(200, b"[" * 200_000),
    "number": lambda c: c.answer(200, b'{"tables": ' + b"1" * 5000 + b"}"),
    "huge": lambda c: flood(c, HEAD + b"\r\n"),
    "names are numbers": lambda c: c.answer(200, {"tables": [1, 2]}),
    "no tables": lambda c: c.answer(200, {"names": []}),
    "token is a number": lambda c: c.answer(200, {"tables": [], "page_token": 5}),
    "dripping": lambda c: drip(c, HEAD + b"Content-Length: 99999\r\n\r\n"),
    "bomb": lambda c: c.answer(200, bomb(), {"Content-Encoding": "gzip"}),
    "arrow without names": lambda c: c.answer(
        200, b"\xff\xff\xff\xff\x10\x00\x00\x00" + bytes(64)
    ),
}
UNREADABLE = {  # no answers, for the client that asked for a list
    "surrogate": lambda c: c.answer(200, b'{"tables": [], "page_token": "\\ud800"}'),
    "no HTTP": say(b"\xff\x1b[2J\r\n\r\n"),
    "nothing": lambda c: None,
    "dripping head": lambda c: drip(c, HEAD + b"x-slow: "),
}


@pytest.mark.parametrize("form", [*LISTS, *UNREADABLE])
def test_F29_a_list_that_cannot_be_understood_is_an_error_in_time_and_bounds(
    server, caplog, form
):
    bomb()
    raw(server, "GET", {**LISTS, **UNREADABLE}[form])
    kind = (
        errors.TransportError
        if form in ("no HTTP", "nothing", "dripping head")
        else errors.ResponseError
    )
    # a drip goes on for a minute
    with in_bounds(seconds=20, mib=128):
        fails(connected(server, retries=0).list_tables, kind, caplog)


FIRST = {500: errors.ServerError, 404: errors.ResponseError, 409: errors.ConflictError}
LOOKS = {"deep": LISTS["deep"], "dripping": LISTS["dripping"], **UNREADABLE}


@pytest.mark.parametrize(
    ("status", "look"),
    [*((500, look) for look in LOOKS), (404, "nothing"), (409, "dripping")],
)
def test_what_a_second_look_meets_hides_no_first_fault(server, caplog, status, look):
    # `skip` lists the tables first, too
    looks = [lambda connection: connection.answer(200, {"tables": []})] * (
        status == 409
    )

    def script(connection: Connection) -> None:
        while True:
            if connection.body(connection.head()).method == "POST":
                connection.answer(status, {"error": "the first fault"})
            elif looks:
                looks.pop()(connection)
            else:
                return LOOKS[look](connection)

    server.script = script
    client, how = connected(server, timeout=0.3), "skip" if status == 409 else "fail"
    error = fails(
        lambda: client.create_table("t", SMALL, if_exists=how), FIRST[status], caplog
    )
    assert (error.status, error.message, len(server.posts)) == (
        status,
        "the first fault",
        1,
    )
