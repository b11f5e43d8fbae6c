"""Responses of a service, and the errors that they become.

F18 to F20, F24 to F29 and F36 to F38 of the matrix in README.md.
"""

from __future__ import annotations

import functools
import gzip
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import errors
from tests.support.faults import connected, fails, in_bounds, patient
from tests.support.hosted import SMALL_PARTS, Hosted
from tests.support.local import stream
from tests.support.servers import KEY, Connection, Request, Server

SMALL = pa.table({"a": [1, 2]})
RETRY_AT_ONCE = {"Retry-After": "0"}


def create(client: rt.Client) -> rt.RemoteTable:
    return client.create_table("t", SMALL)


def alter(client: rt.Client) -> rt.RemoteTable:
    return client.table("t").rename({"a": "b"})


def raw(server: Server, method: str, act: Callable[[Connection], object]) -> None:
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


def drip(connection: Connection, head: bytes) -> None:
    connection.sock.sendall(head)
    for _ in range(1200):
        connection.sock.sendall(b" ")
        time.sleep(0.05)


def flood(connection: Connection, head: bytes) -> None:
    connection.sock.sendall(head)
    for _ in range(200):
        connection.sock.sendall(b"x" * 2**20)


def say(text: bytes) -> Callable[[Connection], None]:
    return lambda connection: connection.sock.sendall(text)


BOMB = gzip.compress(bytes(2**27), 1)

BAD = errors.BadRequest
CONFLICT = errors.ConflictError
EXISTS = errors.TableExistsError
LIMITED = errors.RateLimited
NOT_FOUND = errors.TableNotFoundError
UNKNOWN = errors.OutcomeUnknown
OTHER = errors.ResponseError
SERVER = errors.ServerError
SENT_ON = errors.RedirectError
# what a list, a create and an alteration raise, whether the last two may have acted,
# and which of them are sent again; of each other status, see tests/meanings.txt
STATUSES = {
    101: (errors.TransportError, UNKNOWN, UNKNOWN, True, "list"),
    206: (OTHER, UNKNOWN, UNKNOWN, True, "list"),
    304: (SENT_ON, SENT_ON, SENT_ON, False, ""),
    400: (BAD, BAD, BAD, False, ""),
    404: (OTHER, OTHER, NOT_FOUND, False, ""),
    408: (OTHER, OTHER, OTHER, False, "list"),
    409: (OTHER, EXISTS, CONFLICT, False, "list"),
    425: (OTHER, OTHER, OTHER, False, "all"),
    429: (LIMITED, LIMITED, LIMITED, False, "all"),
    499: (SERVER, SERVER, SERVER, True, ""),
    500: (SERVER, SERVER, SERVER, True, "list"),
    501: (SERVER, SERVER, SERVER, False, ""),
}


@pytest.mark.parametrize("status", STATUSES)
def test_F20_F23_F24_a_list_has_the_error_of_each_status_and_may_be_asked_for_again(
    server, caplog, status
):
    server.listing((status, b"", RETRY_AT_ONCE))
    client = patient(server, retries=1)
    error = fails(client.list_tables, STATUSES[status][0], caplog)
    asked = [request for request in server.requests if request.path == "/v1/tables"]
    assert error.attempts == len(asked) == (2 if STATUSES[status][-1] else 1)


@pytest.mark.parametrize("status", STATUSES)
def test_F20_F23_F24_a_create_and_an_alteration_have_the_error_of_each_status(
    server, caplog, status
):
    _, of_create, of_alter, may_have_acted, again = STATUSES[status]
    server.answering((status, b"", RETRY_AT_ONCE))
    client = patient(server, retries=1, dialect="documented")
    created = fails(lambda: create(client), of_create, caplog)
    looks = [request for request in server.requests if request.method == "GET"]
    assert len(looks) == may_have_acted
    altered = fails(lambda: alter(client), of_alter, caplog)
    for error in (created, altered):
        assert error.attempts == (2 if again == "all" else 1)
        assert ("the outcome is unknown" in str(error)) == may_have_acted
        assert ("nothing was" in str(error)) != may_have_acted
    assert len(server.posts) == created.attempts + altered.attempts
    if may_have_acted:
        assert created.listed is False
        assert altered.listed is None


ROWS = pa.table({"n": range(1000)})
NUMBERS = {"name": "n", "type": {"type": "int64"}, "nullable": True}
DESCRIBED = {"version": 1, "schema": {"fields": [NUMBERS]}}
UNCOMPRESSED = (
    "; if the server does not support compressed Arrow buffers, pass compression=None"
)


def refusing(server: Server, status: int, body: object) -> None:
    """List and describe tables, and answer everything else with a status."""

    def answer(request: Request) -> tuple:
        if "/describe/" in request.path:
            return 200, DESCRIBED
        return (200, {"tables": []}) if request.method == "GET" else (status, body)

    server.responding(answer)


ZSTD = {"compression": "zstd"}
LZ4 = {"compression": "lz4"}
PLAIN = {"compression": None}
FROM_A_READER = {**ZSTD, "if_exists": "append"}
COMPRESSED = [  # status, rows, options, whether they may be sent as they are instead
    (415, ROWS, LZ4, True),
    (415, ROWS.to_reader, FROM_A_READER, True),
    (422, lambda: iter([ROWS]), ZSTD, True),
    (500, ROWS, LZ4, True),
    (422, ROWS, PLAIN, False),
    # on loopback, which needs no codec
    (415, ROWS, {}, False),
    (415, ROWS[:0], ZSTD, False),
    (507, ROWS, ZSTD, False),
]


@pytest.mark.parametrize(("status", "rows", "options", "is_offered"), COMPRESSED)
def test_a_server_that_may_not_support_compressed_buffers_may_get_them_as_they_are(
    server, status, rows, options, is_offered
):
    refusing(server, status, {"error": "unreadable"})
    client = patient(server, dialect="lancedb")
    data = rows() if callable(rows) else rows
    with pytest.raises(errors.ResponseError) as caught:
        client.create_table("t", data, **options)
    assert caught.value.status == status
    assert (UNCOMPRESSED in str(caught.value)) == is_offered


def test_a_part_that_a_server_cannot_read_may_be_sent_uncompressed():
    hosted = Hosted(fault=lambda _, step: "415" if step == "part" else "")
    rows = pa.table({"n": range(50_000)})
    with Server(hosted) as server:
        client = patient(server, dialect=SMALL_PARTS)
        client.list_tables()
        with pytest.raises(errors.ResponseError, match=UNCOMPRESSED):
            client.create_table("t", rows, compression="lz4")


def readable(request) -> bool:
    """Return whether a body has no compressed buffer."""
    plain = pa.ipc.open_stream(request.body).read_all()
    return len(request.body) > plain.nbytes


REFUSED = [
    (415, b""),
    (400, {"error": "cannot decompress: ZSTD is not enabled"}),
    (422, {"error": "unsupported codec"}),
]


@pytest.fixture
def elsewhere(server):
    """A client for which the server is not on this machine: "auto" compresses."""
    url = f"http://0.0.0.0:{server.port}"
    options = {"api_key": KEY, "allow_insecure": True, "dialect": "documented"}
    return rt.connect(url, retries=0, default=False, **options)


MANY = pa.table({"n": range(200_000)})


@pytest.mark.parametrize("answer", REFUSED)
def test_what_auto_compressed_is_sent_once_more_uncompressed(elsewhere, server, answer):
    server.answering(answer, (200, {"version": 1}))
    assert elsewhere.create_table("t", MANY).version == 1
    assert [readable(request) for request in server.posts] == [False, True]
    for request in server.posts:
        assert pa.ipc.open_stream(request.body).read_all() == MANY


AGAIN = [  # an answer, rows, options, and how often they are sent
    ((400, {"error": "no"}), MANY, {}, 1),
    ((500, {"error": "codec"}), MANY, {}, 1),
    ((415, b""), MANY, ZSTD, 1),
    ((415, b""), lambda: iter([MANY]), {}, 1),
    ((415, b""), MANY, {}, 2),
]


@pytest.mark.parametrize(("answer", "rows", "options", "times"), AGAIN)
def test_a_refusal_is_sent_again_uncompressed_only_where_that_may_help(
    elsewhere, server, answer, rows, options, times
):
    server.answering(answer)
    data = rows() if callable(rows) else rows
    with pytest.raises(errors.ResponseError) as caught:
        elsewhere.create_table("t", data, **options)
    assert len(server.posts) == times
    # if it was not tried
    assert (UNCOMPRESSED in str(caught.value)) == (times == 1)


SLOW = "collect a slow source into memory first"


@pytest.mark.parametrize(("rows", "is_slow"), [(ROWS, False), (iter([ROWS]), True)])
def test_only_a_source_that_may_be_slow_is_to_be_collected(server, rows, is_slow):
    server.answering((408, b""))
    with pytest.raises(errors.ResponseError) as caught:
        patient(server).create_table("t", rows)
    assert (SLOW in str(caught.value)) is is_slow
    assert ("try again" in str(caught.value)) is not is_slow


NGINX = b"<center><h1>413 Request Entity Too Large</h1></center><hr>nginx/1.24"


@pytest.mark.parametrize(("body", "is_named"), [(NGINX, True), (b"too large", False)])
def test_the_limit_of_nginx_is_named(remote, server, body, is_named):
    server.answering((413, body))
    with pytest.raises(errors.PayloadTooLarge) as caught:
        create(remote)
    assert ("raise client_max_body_size" in str(caught.value)) is is_named


CODED = [  # a status, a code in the answer, and what a create and an alteration raise
    (409, 5, EXISTS, CONFLICT),
    (409, 14, CONFLICT, CONFLICT),
    (404, 4, OTHER, NOT_FOUND),
    (404, 12, OTHER, BAD),
    (409, "14", EXISTS, CONFLICT),
    (409, True, EXISTS, CONFLICT),
    (409, [14], EXISTS, CONFLICT),
    (409, {}, EXISTS, CONFLICT),
    (409, 14.5, EXISTS, CONFLICT),
    (409, 2**70, EXISTS, CONFLICT),
]


@pytest.mark.parametrize(("status", "code", "of_create", "of_alter"), CODED)
def test_a_code_tells_apart_what_has_one_status(
    server, caplog, status, code, of_create, of_alter
):
    refusing(server, status, {"error": "no", "code": code})
    client = connected(server, retries=0, dialect="lancedb")
    fails(lambda: create(client), of_create, caplog)
    fails(lambda: alter(client), of_alter, caplog)


ADVICE = {"type": "about:blank", "title": "Bad", "detail": "the reason"}
REASONS = {  # a body, and the message that is found in it
    "an error and a code": ({"error": "the reason", "code": 5}, "the reason"),
    "a title of the status": ({"error": "Bad", "message": "the reason"}, "the reason"),
    "a word": ({"error": "bad", "error_description": "the reason"}, "the reason"),
    "a detail": (ADVICE, "the reason"),
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
def test_F20_the_reason_is_found_in_any_body_short_printable_and_without_the_key(
    server, caplog, body, message
):
    server.answering((400, body))
    client = patient(server)
    started = time.process_time()
    error = fails(lambda: create(client), errors.BadRequest, caplog)
    # CPU time, since it is the time of a parser that is tested
    assert time.process_time() - started < 3
    assert message is None or error.message == message
    assert len(error.message) <= 300
    assert str(error).isprintable()
    assert str(error).count("nothing was stored") == 1
    assert "***" in error.body or KEY not in str(body)
    assert error.status == 400
    assert error.table == "t"
    assert error.rows == 2


SPOKEN = "la clé est refusée: 数"
CHARSETS = [
    ("iso-8859-1", "latin-1", "la clé est refusée: ?"),
    ('"windows-1252"', "cp1252", "la clé est refusée: ?"),
    ("Shift_JIS", "shift_jis", "la cl? est refus?e: 数"),
    ("utf-16", "utf-16", SPOKEN),
    ("UTF-8", "utf-8", SPOKEN),
    # none of these is a charset
    ("nonsense", "utf-8", SPOKEN),
    ("base64", "utf-8", SPOKEN),
    ("rot13", "utf-8", SPOKEN),
]


@pytest.mark.parametrize("mime", ["text/plain", "application/json", "text/html"])
@pytest.mark.parametrize(("charset", "codec", "said"), CHARSETS)
def test_F20_a_reason_is_read_in_its_charset(
    remote, server, mime, charset, codec, said
):
    text = f"{SPOKEN} {KEY}"
    if mime == "application/json":
        text = json.dumps({"error": text}, ensure_ascii=False)
    body = text.encode(codec, "replace")
    server.answering((400, body, {"Content-Type": f"{mime}; charset={charset}"}))
    with pytest.raises(errors.BadRequest) as caught:
        create(remote)
    assert caught.value.message == f"{said} ***"


def test_a_list_is_read_in_its_charset(remote, server):
    body = json.dumps({"tables": ["é"]}, ensure_ascii=False).encode("latin-1")
    server.listing((200, body, {"Content-Type": "application/json; charset=latin1"}))
    assert remote.list_tables() == ["é"]


@pytest.mark.parametrize(
    "token", [KEY, f"x{KEY}", f"{KEY[:3]}%{ord(KEY[3]):x}{KEY[4:]}"]
)
@pytest.mark.parametrize("field", ["page_token", "next_page_token"])
def test_F20_a_token_that_holds_the_key_is_not_sent_back(server, caplog, field, token):
    server.listing((200, {"tables": ["a"], field: token}))
    client = patient(server, retries=0)
    words = "a token or id in the response contains the API key"
    fails(client.list_tables, errors.ResponseError, caplog, words)
    assert len(server.requests) == 1


def test_F20_an_upload_id_that_holds_the_key_is_not_sent_back(caplog):
    hosted = Hosted()
    hosted.create_parts = lambda *_: (200, {"upload_id": f"u-{KEY}"})
    with hosted.connect(dialect=SMALL_PARTS) as client:
        client.list_tables()
        words = "a token or id in the response contains the API key"
        rows = pa.table({"n": range(50_000)})
        write = functools.partial(client.create_table, "t", rows)
        fails(write, errors.ResponseError, caplog, words)
    assert hosted.tables == {}
    assert all(KEY not in request.path for request in hosted.server.requests)


@pytest.mark.parametrize(
    ("header", "seconds"), [("100000", 1e5), (" 7 ", 7), ("x", None)]
)
def test_the_pause_is_the_one_that_the_service_asks_for(server, header, seconds):
    server.answering((429, {}, {"Retry-After": header}))
    client = connected(server, retries=0)
    with pytest.raises(errors.RateLimited) as raised:
        create(client)
    assert raised.value.retry_after == seconds


@pytest.mark.parametrize(("days", "seconds"), [(2, 2 * 86400), (-1, 0)])
def test_the_pause_may_be_given_as_a_date(server, days, seconds):
    date = format_datetime(datetime.now(UTC) + timedelta(days=days), usegmt=True)
    server.answering((429, {}, {"Retry-After": date}))
    client = connected(server, retries=0)
    with pytest.raises(errors.RateLimited) as raised:
        create(client)
    assert raised.value.retry_after == pytest.approx(seconds, abs=60)


@pytest.fixture
def in_tokyo(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_a_date_of_the_oldest_form_is_in_utc(server):
    date = time.asctime(time.gmtime(time.time() + 3600))
    server.answering((429, {}, {"Retry-After": date}))
    client = connected(server, retries=0)
    with pytest.raises(errors.RateLimited) as raised:
        create(client)
    assert raised.value.retry_after == pytest.approx(3600, abs=60)


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
@pytest.mark.parametrize(
    ("status", "encoding"), [(400, "utf-8"), (503, "utf-16"), (200, "utf-8")]
)
def test_F20_a_key_is_struck_out_however_it_is_spelled_and_words_are_left(
    server, key, said, shown, status, encoding
):
    server.answering((status, f'{{"error": "{said}"}}'.encode(encoding)))
    client = rt.connect(server.url, api_key=key, retries=0, default=False)
    with pytest.raises(errors.RemoteError) as raised:
        alter(client)
    assert shown in str(raised.value)
    assert status == 200 or "***" in raised.value.body
    told = f"{raised.value} {vars(raised.value)}"
    # two words that hold the key "test"
    assert key not in told.replace("latest", "").replace("test_sales", "")


def test_F20_what_errors_tell_of_headers_is_without_the_key(server, caplog):
    server.listing(
        (302, b"", {"Location": f"https://{KEY}.example.com/"}),
        (200, b"", {"Content-Encoding": KEY}),
    )
    ask = patient(server, retries=0).list_tables
    assert "***.example.com" in str(fails(ask, errors.RedirectError, caplog))
    assert "***" in str(fails(ask, errors.ResponseError, caplog))


@pytest.mark.parametrize("status", [200, 302, 400, 500])
def test_F20_what_errors_tell_is_without_further_secrets(server, status):
    secret = "Bearer another-secret-0123456789"
    location = {"Location": f"http://x.test/{secret}"}
    server.listing((status, {"message": f"bad {secret}!"}, location))
    client = patient(server, retries=0, headers={"Authorization": secret})
    with pytest.raises(errors.RemoteError) as caught:
        client.list_tables()
    assert "another-secret" not in f"{caught.value!r} {vars(caught.value)}"


TARGETS = [
    (301, "http://localhost:{}/v1/tables"),
    (302, "/v2/tables"),
    (303, "http://me:pass-word@127.0.0.1:{}/v1"),
    (307, ""),
    (308, "//localhost:{}/v1"),
]


@pytest.mark.parametrize(("status", "target"), TARGETS)
@pytest.mark.parametrize("call", [rt.Client.list_tables, create, alter])
def test_F18_a_redirect_is_an_error_and_its_target_is_left_alone(
    server, caplog, status, target, call
):
    with Server() as trap:
        headers = {"Location": target.format(trap.port), "Set-Cookie": "a=1"}
        server.listing((status, b"", headers))
        client = patient(server)
        first = fails(lambda: call(client), errors.RedirectError, caplog)
        fails(lambda: call(client), errors.RedirectError, caplog)
    assert first.status == status
    assert "pass-word" not in str(first)
    assert len(server.requests) == 2
    assert "cookie" not in server.requests[1].headers
    assert trap.connections == 0


MOVED = b"HTTP/1.1 307 Moved\r\nLocation: http://localhost:1/x\r\n"
PACKED = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB
BODIES = {
    "endless": lambda connection: flood(connection, MOVED + b"\r\n"),
    "packed": say(MOVED + PACKED),
}


@pytest.mark.parametrize("form", BODIES)
def test_F19_the_body_of_a_redirect_costs_neither_time_nor_memory(server, caplog, form):
    raw(server, "POST", BODIES[form])
    client = connected(server, timeout=60)
    with in_bounds(seconds=20, mib=20):
        fails(lambda: create(client), errors.RedirectError, caplog)


HTML = {"Content-Type": "text/html; charset=utf-8"}
CONFIRMED = [  # an answer that says success, and the version in it
    ((204, b""), None),
    ((200, b""), None),
    ((201, b" \r\n"), None),
    ((200, {}, HTML), None),
    ((201, {"version": 2}, HTML), 2),
    ((200, {"location": "s3://x", "version": 2}, HTML), 2),
    ((201, {"error": None, "version": 2}, HTML), 2),
]


@pytest.mark.parametrize(("answer", "version"), CONFIRMED)
def test_a_success_has_no_body_or_a_json_object_of_whatever_type(
    remote, server, answer, version
):
    server.answering(answer)
    assert create(remote).version == version
    assert alter(remote).version == version


ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
ARROW_WITH_A_PARAMETER = {"Content-Type": f"{ARROW['Content-Type']}; x=1"}
JSON = {"Content-Type": "application/json; charset=utf-8"}
OPEN = {  # what the documentation leaves open
    "null": (200, b"null", JSON),
    "a word": (201, b'"created"', JSON),
    "a list": (200, b"[]\n", JSON),
    "a list of an untold type": (200, b'[{"version": 2}]', {}),
    "a number": (200, b"0", JSON),
    "false": (200, b"false", JSON),
    "Arrow": (200, stream(pa.table({"version": [2]})), ARROW),
    "Arrow with a parameter": (201, b"\xff\xff", ARROW_WITH_A_PARAMETER),
}


@pytest.mark.parametrize("answer", OPEN.values(), ids=OPEN)
def test_the_documented_service_may_confirm_with_any_json_and_with_arrow(
    remote, server, answer
):
    server.answering(answer)
    assert create(remote).created is True
    assert alter(remote).version is None
    assert len(server.posts) == 2


@pytest.mark.parametrize("answer", OPEN.values(), ids=OPEN)
def test_F38_other_services_confirm_as_they_are_known_to(server, answer):
    server.answering(answer)
    client = connected(server, dialect="lancedb", retries=0)
    for call in (create, alter):
        with pytest.raises(errors.OutcomeUnknown, match="not a JSON object"):
            call(client)


PACKED_HTML = {**HTML, "Content-Encoding": "gzip"}
DOUBTED = {  # an answer that says success, and what is told of it
    "an error without words": (201, {"version": 2, "error": {"code": 3}}, {}, "error"),
    "an error with the key": (200, {"error": f"not for {KEY}"}, {}, "not for ***"),
    "text": (200, b"It works!", {}, "It works!"),
    "text of HTML": (200, b"It works!", HTML, "web page"),
    "the key": (200, f"{KEY} \n".encode(), {}, "***"),
    "null as text": (200, b"null", {"Content-Type": "text/plain"}, "null"),
    "an array as text": (200, b"[1]", {"Content-Type": "text/plain"}, "[1]"),
    "an error in an array": (200, b'[{"error": "no room"}]', JSON, "no room"),
    "an error as Arrow's": (200, b"<html>", ARROW, "web page"),
    "no text": (200, b"\xff", {}, "not a JSON object"),
    "JSON without end": (200, b"{" * 100_000, {}, "not a JSON object"),
    "HTML alone": (200, b"", HTML, "web page"),
    "a page of no type": (201, b"\n <html></html>", {}, "web page"),
    "a page of another type": (200, b"<html></html>", JSON, "web page"),
    "a compressed page": (200, gzip.compress(b"<html>"), PACKED_HTML, "web page"),
}


@pytest.mark.parametrize("form", DOUBTED)
def test_F38_what_else_says_success_leaves_the_outcome_open(server, caplog, form):
    status, body, headers, told = DOUBTED[form]
    server.listed = ["t"]
    server.answering((status, body, headers))
    client = connected(server)
    created = fails(lambda: create(client), errors.OutcomeUnknown, caplog)
    altered = fails(lambda: alter(client), errors.OutcomeUnknown, caplog)
    assert created.listed is True
    assert created.attempts == 1
    for error in (created, altered):
        assert told in str(error)
        assert str(status) in str(error)
    assert len(server.posts) == 2


def interim(status: int) -> bytes:
    return b"HTTP/1.1 %d Wait\r\nLink: </a.css>; rel=preload\r\n\r\n" % status


EARLY = b"HTTP/1.1 103 Early Hints\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\n"
NO_ANSWERS = {  # what is sent in place of an answer, and what is told of it
    "nothing": (b"", None),
    "100 alone": (interim(100), None),
    "101 alone": (interim(101), None),
    "102 alone": (interim(102), None),
    "103 alone": (interim(103), None),
    "another version": (b"HTTP/9 yes\r\n\r\n", None),
    "binary": (b"\x00\x01\x02\x03\r\n\r\n", None),
    "no status": (b"HTTP/1.1 abc\r\n\r\n", None),
    "SSH": (b"SSH-2.0\r\n", None),
    "a cut body": (HEAD + b'Content-Length: 99\r\n\r\n{"version": 1', None),
    "a first line": (HEAD, "within the head"),
    "a cut name": (HEAD + b"Content-Ty", "within the head"),
    "a header": (HEAD + b"Content-Type: application/json\r\n", "within the head"),
    "a cut length": (EARLY + HEAD + b"Content-Length: 0", "within the head"),
}


@pytest.mark.parametrize(("sent", "told"), NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_F25_F26_F27_F36_no_whole_answer_leaves_the_outcome_open(
    server, caplog, sent, told
):
    raw(server, "POST", say(sent))
    client = patient(server)
    created = fails(lambda: create(client), errors.OutcomeUnknown, caplog, told)
    altered = fails(lambda: alter(client), errors.OutcomeUnknown, caplog, told)
    assert created.listed is False
    assert altered.table == "t"
    assert altered.attempts == 1
    assert len(server.posts) == 2
    # the next call gets its own answer
    assert client.list_tables() == []


NONE = {"tables": []}
SURROGATE = b'{"tables": [], "page_token": "\\ud800"}'
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
TRANSPORT = errors.TransportError
NO_NAMES = b"\xff\xff\xff\xff\x10\x00\x00\x00" + bytes(64)
LISTS = {
    "HTML": (OTHER, lambda c: c.answer(200, b"<html>hello</html>")),
    "cut": (OTHER, say(HEAD + b'Content-Length: 999\r\n\r\n{"tables": ["a"')),
    "cut chunked": (OTHER, say(HEAD + CHUNKED + b'5\r\n{"tab\r\n')),
    "deep": (OTHER, lambda c: c.answer(200, b"[" * 200_000)),
    "number": (OTHER, lambda c: c.answer(200, b'{"tables": %s}' % (b"1" * 5000))),
    "huge": (OTHER, lambda c: flood(c, HEAD + b"\r\n")),
    "names are numbers": (OTHER, lambda c: c.answer(200, {"tables": [1, 2]})),
    "no tables": (OTHER, lambda c: c.answer(200, {"names": []})),
    "token is a number": (OTHER, lambda c: c.answer(200, {**NONE, "page_token": 5})),
    "dripping": (OTHER, lambda c: drip(c, HEAD + b"Content-Length: 99999\r\n\r\n")),
    "bomb": (OTHER, lambda c: c.answer(200, BOMB, {"Content-Encoding": "gzip"})),
    "arrow without names": (OTHER, lambda c: c.answer(200, NO_NAMES)),
    "surrogate": (OTHER, lambda c: c.answer(200, SURROGATE)),
    "no HTTP": (TRANSPORT, say(b"\xff\x1b[2J\r\n\r\n")),
    "nothing": (TRANSPORT, lambda _: None),
    "dripping head": (TRANSPORT, lambda c: drip(c, HEAD + b"x-slow: ")),
}


@pytest.mark.parametrize(("kind", "act"), LISTS.values(), ids=LISTS)
def test_F29_a_list_that_cannot_be_understood_is_an_error_in_time_and_bounds(
    server, caplog, kind, act
):
    raw(server, "GET", act)
    client = connected(server, retries=0)
    # a drip goes on for a minute
    with in_bounds(seconds=20, mib=128):
        fails(client.list_tables, kind, caplog)


SECOND = [  # status, error, what the look meets
    (500, SERVER, "deep"),
    (500, SERVER, "dripping"),
    (500, SERVER, "surrogate"),
    (500, SERVER, "no HTTP"),
    (500, SERVER, "nothing"),
    (500, SERVER, "dripping head"),
    (404, OTHER, "nothing"),
]


@pytest.mark.parametrize(("status", "kind", "look"), SECOND)
def test_what_a_second_look_meets_hides_no_first_fault(
    server, caplog, status, kind, look
):
    def script(connection: Connection) -> None:
        while connection.body(connection.head()).method == "POST":
            connection.answer(status, {"error": "the first fault"})
        LISTS[look][1](connection)

    server.script = script
    client = connected(server, timeout=0.3)
    error = fails(lambda: create(client), kind, caplog)
    assert error.status == status
    assert error.message == "the first fault"
    assert len(server.posts) == 1
