"""The exact bytes on the wire: the service's documentation, and nothing else."""

from __future__ import annotations

import json
import re
import struct
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import errors
from tests.support.faults import connected, fails, in_bounds, patient
from tests.support.local import stream
from tests.support.servers import KEY, Connection

FRAME = pl.DataFrame({"a": [1, 2]})
JSON = "application/json"
RENAME = rt.Alteration("a.b", rename="c", data_type="float32", nullable=False)
FLOAT = {"data_type": {"type": "float"}, "nullable": False}
RENAMED = {"path": "a.b", "rename": "c", **FLOAT}


def test_each_request_has_its_address_key_and_type_and_an_id_of_its_own(remote, server):
    remote.list_tables()
    table = FRAME.remote.to_table("t")
    rt.alter_columns("t", [RENAME])
    listed, created, altered = server.requests
    assert listed.line == "GET /v1/tables HTTP/1.1"
    assert created.line == "POST /v1/tables/t HTTP/1.1"
    assert altered.line == "POST /v1/table/t/alter_columns HTTP/1.1"
    assert listed.headers["content-type"] == JSON
    assert created.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert altered.headers["content-type"] == JSON
    assert json.loads(altered.body) == {"alterations": [RENAMED]}
    for request in server.requests:
        assert request.headers["x-api-key"] == KEY
        assert request.headers["user-agent"] == f"rt_frames/{rt.__version__}"
        assert uuid.UUID(request.headers["x-request-id"]).version == 4
        assert "cookie" not in request.headers
        assert "authorization" not in request.headers
    assert len({request.headers["x-request-id"] for request in server.requests}) == 3
    assert table.request_id == created.headers["x-request-id"]


def test_a_body_is_the_stream_of_a_frame_with_its_length(remote, server):
    table = FRAME.remote.to_table("t")
    request = server.posts[0]
    assert request.body == stream(pa.table({"a": [1, 2]}))
    assert int(request.headers["content-length"]) == len(request.body)
    assert table.nbytes == len(request.body)
    assert table.version == 1
    assert table.rows == 2
    assert table.created is True


ARROW_LIST = stream(pa.table({"name": ["a", "b"]}))
LISTS = [
    {"tables": ["a", "b"]},
    {"tables": ["a", "b"], "page_token": None},
    {"tables": ["a", "b"], "page_token": ""},
    {"tables": ["a", "b"], "next": None, "has_more": False, "total": 2},
    ["a", "b"],
    [{"name": "a"}, {"name": "b", "rows": 3}],
    {"tables": [{"name": "a"}, {"name": "b"}]},
    ARROW_LIST,
]


@pytest.mark.parametrize("body", LISTS)
def test_a_list_is_understood_in_every_form(remote, server, body):
    server.listing((200, body))
    assert remote.list_tables() == ["a", "b"]


NAMED_NEXT = [
    {"tables": ["a"], "next_page_token": "x/y"},
    # which repeats that of the request
    {"tables": ["b"], "next_page_token": "z", "page_token": "x/y"},
    {"tables": ["c"], "next_page_token": None},
]


def test_a_list_with_a_next_page_token_is_followed(remote, server):
    server.listing(*[(200, page) for page in NAMED_NEXT])
    assert remote.list_tables() == ["a", "b", "c"]
    further = [request.path for request in server.requests[1:]]
    assert further == ["/v1/tables?page_token=x%2Fy", "/v1/tables?page_token=z"]


MORE = [("nextPageToken", "2"), ("next", "/v1/tables?page=2"), ("has_more", True)]


@pytest.mark.parametrize(("field", "more"), MORE)
def test_a_list_that_goes_on_in_another_way_is_an_error(remote, server, field, more):
    server.listing((200, {"tables": ["a"], field: more}))
    with pytest.raises(errors.ResponseError, match=f"goes on at its {field}, "):
        remote.list_tables()


NOTHING = [
    (204, b""),
    (200, b""),
    (200, b"\r\n"),
    (200, b"null"),
    (200, {"tables": None}),
]


@pytest.mark.parametrize("answer", NOTHING)
def test_a_project_without_tables_may_be_listed_with_nothing(remote, server, answer):
    server.listing(answer)
    assert remote.list_tables() == []


@pytest.mark.parametrize("answer", NOTHING)
def test_a_list_with_nothing_never_says_that_it_is_safe_to_send_again(server, answer):
    server.responding(lambda one: answer if one.method == "GET" else (500, b""))
    client = connected(server, dialect="documented", retries=0)
    rows = iter([pa.table({"a": [1]})])
    words = "the tables could not be listed, so table 't' may exist"
    with pytest.raises(errors.ServerError, match=words) as caught:
        client.create_table("t", rows)
    assert caught.value.listed_before is None
    assert caught.value.listed is None
    paths = [request.route for request in server.requests]
    assert paths == ["GET /v1/tables", "POST /v1/tables/t", "GET /v1/tables"]


ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
UNKNOWN_LISTS = [
    (200, {"data": ["a"]}),
    (200, {"tables": {"a": {}}}),
    (200, stream(pa.table({"table": ["a"]})), ARROW),
]


@pytest.mark.parametrize("answer", UNKNOWN_LISTS)
def test_a_list_of_unknown_form_stops_no_write_but_one_that_may_be_left_out(
    server, answer
):
    server.listing(answer, (200, {}))
    client = connected(server, dialect="documented")
    rows = pl.LazyFrame({"a": [1]})
    assert client.create_table("t", rows).rows == 1
    paths = [request.route for request in server.requests]
    assert paths == ["GET /v1/tables", "POST /v1/tables/t"]
    # the service might replace a table that is there
    server.listing(answer)
    with pytest.raises(errors.ResponseError, match="could not list tables"):
        client.create_table("t", rows, if_exists="skip")
    assert len(server.posts) == 1


@pytest.mark.parametrize("body", [b"<p>hello</p>", {"error": "no"}, b"[1"])
def test_what_is_no_list_stops_a_large_write(server, body):
    server.listing((200, body))
    client = connected(server, dialect="documented", retries=0)
    with pytest.raises(errors.ResponseError, match="could not list tables"):
        client.create_table("t", pl.LazyFrame({"a": [1]}))
    assert not server.posts


@pytest.mark.parametrize("answer", NOTHING)
def test_of_other_services_a_list_with_nothing_is_an_error(server, answer):
    server.listing(answer)
    client = connected(server, dialect="lancedb", retries=0)
    with pytest.raises(errors.ResponseError, match="could not list tables"):
        client.list_tables()


@pytest.mark.parametrize("size", range(8, len(ARROW_LIST), 40))
def test_a_list_in_arrow_form_that_is_cut_anywhere_is_an_error(server, size):
    server.listing((200, ARROW_LIST[:size]))
    with pytest.raises(errors.ResponseError, match="list"):
        patient(server, retries=0).list_tables()


def compressed_list(columns: dict, compression: str = "zstd") -> bytes:
    return stream(pa.table(columns), compression=compression)


def list_with_offsets(*ends: int) -> bytes:
    """Return a list of two names with other offsets than its writer's."""
    whole = compressed_list({"name": ["a", "bb"]}, None)
    good = struct.pack("<3i", 0, 1, 3)
    assert whole.count(good) == 1
    return whole.replace(good, struct.pack("<3i", 0, *ends))


def long_name() -> pa.Array:
    return pa.array(["n" * 2**28])


def names_that_share_a_value() -> pa.Array:
    codes = pa.array([0] * 1_000, pa.int32())
    return pa.DictionaryArray.from_arrays(codes, ["n" * 2**20])


NO_NAMES = "not an Arrow stream with a name"
LISTS_THAT_HARM = {
    "offsets far beyond": lambda: list_with_offsets(1, 2**30),
    "offsets just beyond": lambda: list_with_offsets(1, 500),
    "offsets that go back": lambda: list_with_offsets(3, 1),
    "a long name": lambda: compressed_list({"name": long_name()}),
    "one value": lambda: compressed_list({"name": names_that_share_a_value()}),
    "a long cell": lambda: compressed_list({"name": ["a"], "x": long_name()}, "lz4"),
}


@pytest.mark.parametrize("make", LISTS_THAT_HARM.values(), ids=LISTS_THAT_HARM)
def test_a_list_in_arrow_form_shows_no_other_memory_and_takes_little(
    server, caplog, make
):
    server.listing((200, make()))
    client = patient(server, retries=0)
    with in_bounds(seconds=20, mib=128):
        fails(client.list_tables, errors.ResponseError, caplog, NO_NAMES)


def test_a_count_survives_a_list_of_the_other_dialect_with_bad_offsets(server):
    # the count, and then the list
    server.listing((501, {}), (200, list_with_offsets(1, 2**30)))
    table = patient(server, retries=0, dialect="lancedb").table("t")
    with pytest.raises(errors.ServerError, match="501"):
        table.count()


def test_F44_a_list_of_ever_new_pages_ends_with_the_read_timeout(server):
    pages = [{"tables": [f"t{n}"], "page_token": str(n)} for n in range(20_000)]
    server.listing(*((200, page) for page in pages))
    client = patient(server, timeout=(1, 1, 0.5))
    with pytest.raises(errors.ResponseError, match=r"0\.5 s"):
        client.list_tables()
    assert len(server.requests) < 20_000


NONE = (200, {"tables": []})
TAKEN = (200, {"tables": ["t"]})


def methods(server) -> list[str]:
    return [request.method for request in server.requests]


def test_skip_believes_the_list(remote, server):
    server.listing(TAKEN)
    assert FRAME.remote.to_table("t", if_exists="skip").created is False
    assert methods(server) == ["GET"]


REFUSALS = [(409, {}), (400, {"error": "table t already exists"})]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_skip_believes_a_refusal_that_the_list_confirms(remote, server, refusal):
    server.listing(NONE, refusal, TAKEN)
    assert FRAME.remote.to_table("t", if_exists="skip").created is False
    assert methods(server) == ["GET", "POST", "GET"]


@pytest.mark.parametrize("code", [14, 19])
def test_skip_is_for_a_name_that_is_taken_and_no_other_conflict(remote, server, code):
    server.listing(NONE, (409, {"error": "try again", "code": code}), TAKEN)
    with pytest.raises(errors.ConflictError):
        FRAME.remote.to_table("t", if_exists="skip")


LOCKED = {"error": "locked by a migration"}
INDEX = {"error": "an index of that name already exists"}


NOT_TAKEN = [
    (409, LOCKED, errors.ConflictError, NONE, "nothing was stored"),
    (409, LOCKED, errors.ConflictError, (500, {}), "may exist"),
    (409, {"error": "t", "code": 5}, errors.ConflictError, NONE, "nothing was stored"),
    (400, INDEX, errors.BadRequest, NONE, "nothing was stored"),
    (400, INDEX, errors.BadRequest, (500, {}), "may exist"),
]


@pytest.mark.parametrize(("status", "body", "kind", "look", "told"), NOT_TAKEN)
def test_skip_says_of_no_table_that_it_was_there_unless_it_is_listed(
    remote, server, status, body, kind, look, told
):
    server.listing(NONE, (status, body), look)
    with pytest.raises(errors.ResponseError, match=told) as error:
        FRAME.remote.to_table("t", if_exists="skip")
    assert type(error.value) is kind
    assert error.value.status == status
    assert error.value.message == body["error"]
    assert methods(server) == ["GET", "POST", "GET"]


def test_a_large_upload_looks_first_and_sends_nothing_to_a_taken_name(remote, server):
    server.listed = ["t"]
    server.answering((200, {}))
    with pytest.raises(errors.TableExistsError, match="nothing was sent"):
        rt.to_table(pl.DataFrame({"a": np.zeros(2**21)}), "t")
    assert methods(server) == ["GET"]


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table])
def test_a_frame_of_one_chunk_goes_in_several_batches_with_its_length(server, make):
    columns = {"a": np.arange(3_000_000), "b": np.arange(3_000_000.0)}
    patient(server).create_table("t", make(columns), compression=None)
    request = server.posts[0]
    batches = list(pa.ipc.open_stream(request.body))
    assert int(request.headers["content-length"]) == len(request.body)
    assert len(batches) > 2
    assert max(batch.nbytes for batch in batches) < 20 * 2**20
    assert pa.Table.from_batches(batches) == pa.table(columns)


def test_what_has_no_known_length_comes_chunked(server):
    table = patient(server).create_table("t", iter([FRAME, FRAME]))
    request = server.posts[0]
    assert table.nbytes == len(request.body)
    assert request.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in request.headers
    assert pa.ipc.open_stream(request.body).read_all()["a"].to_pylist() == [1, 2, 1, 2]


LONG = 3_000_000


@pytest.mark.parametrize("more", [64_000, -64_000])
def test_a_body_that_is_not_as_long_as_was_said_ends_its_connection(server, more):
    """Bytes beyond the end would be read as a request; missing ones be waited for.

    The memory of the table is changed while it is sent.
    """
    ends = np.arange(0, 10 * LONG + 1, 10, dtype=np.int32)
    text = np.zeros(11 * LONG, np.uint8)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text)]
    table = pa.table({"a": pa.Array.from_buffers(pa.binary(), LONG, buffers)})

    def script(connection):
        while True:
            request = connection.head()
            if request.method == "POST":
                ends[LONG // 2 :] += more
            connection.body(request)
            connection.answer(200, {"tables": []})

    server.script = script
    client = patient(server, timeout=(20, 20, 2), retries=0)
    with pytest.raises(errors.TransportError):
        client.create_table("t", table, compression=None)
    assert client.list_tables() == []
    assert server.requests[-1].line == "GET /v1/tables HTTP/1.1"


CELL = "a cell that nobody else may read"


def logged(caplog, level: str) -> list[str]:
    """Return the messages of the package on one level, and check for secrets."""
    assert KEY not in caplog.text
    assert CELL not in caplog.text
    records = [record for record in caplog.records if record.name == "rt_frames"]
    return [record.getMessage() for record in records if record.levelname == level]


def test_the_log_tells_a_create_and_what_is_sent_again_and_why_and_no_cell_or_key(
    remote, server, caplog
):
    caplog.set_level("DEBUG", "rt_frames")
    refusal = {"error": {"message": f"slow down with {CELL} and {KEY}"}}
    server.listing((429, refusal, {"Retry-After": "0"}), (200, {"version": 1}))
    table = pl.DataFrame({"text": [CELL]}).remote.to_table("t")
    first, second = logged(caplog, "DEBUG")
    again, created = logged(caplog, "INFO")
    assert " 429, " in first
    assert " 200, " in second
    assert re.search("/v1/tables/t .*retried.*429", again)
    assert re.search(f"created table t.* 1 row.*1 column.*{table.request_id}", created)


def test_lines_that_are_no_headers_are_not_logged_as_they_may_repeat_the_key(
    server, caplog
):
    def script(connection: Connection) -> None:
        connection.head()
        lines = f"HTTP/1.1 200 OK\r\n{KEY} : {KEY}\r\n{KEY}\r\n\r\n[]"
        connection.sock.sendall(lines.encode())

    server.script = script
    with caplog.at_level("DEBUG"):
        assert patient(server).list_tables() == []
    assert server.requests[0].headers["x-api-key"] == KEY
    assert KEY not in caplog.text


def test_a_table_of_an_unknown_outcome_is_told_with_what_can_be_done_there(
    remote, server
):
    server.listed = ["t"]
    server.answering((500, b""))
    words = (
        "look at it in the service's dashboard, or store the rows under another name"
    )
    with pytest.raises(errors.ServerError, match=words):
        remote.create_table("t", pa.table({"a": [1]}))
    server.answering((200, {"version": 1}))
    remote.create_table("t_2", pa.table({"a": [1]}))
