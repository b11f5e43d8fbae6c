"""The exact bytes on the wire: the service's documentation, and nothing else."""

from __future__ import annotations

import json
import re
import socket
import time
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import (
    AuthenticationError,
    BadRequest,
    ConflictError,
    ConnectError,
    OutcomeUnknown,
    PayloadTooLarge,
    RateLimited,
    ResponseError,
    ServerError,
    TableExistsError,
    TableNotFoundError,
    UploadInterrupted,
)
from tests.support.faults import local_variables
from tests.support.servers import KEY

FRAME = pl.DataFrame({"a": [1, 2]})


def test_a_list_is_one_get_with_key_and_content_type(remote, server):
    assert remote.list_tables() == []
    (request,) = server.requests
    assert request.line == "GET /v1/tables HTTP/1.1"
    headers = request.headers
    assert headers["x-api-key"] == KEY
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"] == f"rt_frames/{rt.__version__}"
    assert uuid.UUID(headers["x-request-id"]).version == 4
    assert "cookie" not in headers
    assert "authorization" not in headers


def test_a_create_is_one_post_of_an_arrow_stream(remote, server):
    table = FRAME.remote.to_table("t")
    (request,) = server.requests
    assert request.line == "POST /v1/tables/t HTTP/1.1"
    assert request.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert request.headers["x-api-key"] == KEY
    assert int(request.headers["content-length"]) == len(request.body) == table.nbytes
    assert request.headers["x-request-id"] == table.request_id
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("a", pa.int64())])) as writer:
        writer.write_table(pa.table({"a": [1, 2]}))
    assert request.body == sink.getvalue().to_pybytes()
    assert (table.version, table.rows, table.created) == (1, 2, True)


def test_an_alter_is_one_post_of_json_to_its_own_path(remote, server):
    table = rt.alter_columns("t", [rt.Alteration("a.b", rename="c", data_type="float32", nullable=False)])
    (request,) = server.requests
    assert request.line == "POST /v1/table/t/alter_columns HTTP/1.1"
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.body) == {
        "alterations": [{"path": "a.b", "rename": "c", "data_type": {"type": "float"}, "nullable": False}]
    }
    assert table.version == 1


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (lambda t: t.rename({"a": "b", "c": "d"}), [{"path": "a", "rename": "b"}, {"path": "c", "rename": "d"}]),
        (lambda t: t.cast({"a": pl.Int8}), [{"path": "a", "data_type": {"type": "int8"}}]),
        (lambda t: t.set_nullable({"a": True}), [{"path": "a", "nullable": True}]),
        (lambda t: t.alter_columns({"path": "a", "rename": "b"}), [{"path": "a", "rename": "b"}]),
    ],
)
def test_each_method_of_a_table_is_one_request(remote, server, call, body):
    assert call(remote.table("t")).name == "t"
    (request,) = server.requests
    assert json.loads(request.body) == {"alterations": body}


def arrow_list() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("name", pa.string())])) as writer:
        writer.write_table(pa.table({"name": ["a", "b"]}))
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "body",
    [
        {"tables": ["a", "b"]},
        {"tables": ["a", "b"], "page_token": None},
        {"tables": ["a", "b"], "page_token": ""},
        ["a", "b"],
        [{"name": "a"}, {"name": "b", "rows": 3}],
        {"tables": [{"name": "a"}, {"name": "b"}]},
        arrow_list(),
    ],
)
def test_a_list_is_understood_in_every_form(remote, server, body):
    server.listing((200, body))
    assert remote.list_tables() == ["a", "b"]


def test_a_list_in_arrow_form_that_is_cut_anywhere_is_an_error(remote, server):
    whole = arrow_list()
    server.listing(*((200, whole[:size]) for size in range(8, len(whole), 8)))
    for _ in range(8, len(whole), 8):
        with pytest.raises(ResponseError, match="could not list tables: the answer is "):
            rt.connect(server.url, api_key="k-12345678", retries=0, default=False).list_tables()


def test_a_list_is_followed_page_by_page(remote, server):
    server.listing((200, {"tables": ["b"], "page_token": "x/1"}), (200, {"tables": ["a"], "page_token": "y"}),
                   (200, {"tables": []}))  # fmt: skip
    assert remote.list_tables() == ["b", "a"]
    assert [r.path for r in server.requests] == ["/v1/tables", "/v1/tables?page_token=x%2F1", "/v1/tables?page_token=y"]


def test_a_list_that_never_ends_is_an_error(remote, server):
    server.listing((200, {"tables": ["a"], "page_token": "x"}))
    with pytest.raises(ResponseError, match="same page_token twice"):
        remote.list_tables()


def test_F44_a_list_of_ever_new_pages_ends_with_the_read_timeout(wire):
    server, connect = wire
    server.listing(*((200, {"tables": [f"t{n}"], "page_token": str(n)}) for n in range(20_000)))
    with connect(timeout=(1, 1, 0.5)) as client:
        start = time.monotonic()
        with pytest.raises(ResponseError, match=r"[0-9,]+ pages took all 0.5 s; allow more"):
            client.list_tables()
        assert time.monotonic() - start < 5


def test_F44_a_list_of_ever_more_names_ends_before_memory_does(wire):
    server, connect = wire
    names = ["a"] * 300_000
    server.listing(*((200, {"tables": names, "page_token": str(n)}) for n in range(9)))
    with pytest.raises(ResponseError, match="came to no end in 4 pages"):
        connect(timeout=30).list_tables()
    assert len(server.requests) == 4


@pytest.mark.parametrize("status", [200, 201, 204])
@pytest.mark.parametrize(
    "body", [{}, {"version": 2}, {"location": "s3://x", "version": 2}, {"error": None, "version": 2}, b"", b" \r\n"]
)
def test_a_success_has_no_body_or_a_json_object(remote, server, status, body):
    body = b"" if status == 204 else body
    server.answering((status, body))
    version = 2 if isinstance(body, dict) and "version" in body else None
    assert FRAME.remote.to_table("t").version == version
    assert remote.table("t").rename({"a": "b"}).version == version


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, {"error": "no space left"}), "the service answered 200 with an error, no space left"),
        ((201, {"version": 2, "error": {"code": 3}}), "the service answered 201 with an error, without a message"),
        ((200, {"error": f"not for {KEY}"}), r"the service answered 200 with an error, not for \*\*\*"),
        ((200, b"It works!"), "the service answered 200, but with no JSON object: 'It works!'"),
        ((200, f"{KEY} \n".encode()), r"the service answered 200, but with no JSON object: '\*\*\* \\n'"),
        ((200, b"null"), "but with no JSON object: 'null'"),
        ((200, b"[1]"), "but with no JSON object"),
        ((200, b"\xff"), "but with no JSON object"),
        ((200, b"{" * 100_000), "but with no JSON object"),
        ((200, b"", {"Content-Type": "text/html"}), "a web page answered 200, check the address"),
        ((206, {}), "the service answered 206, which confirms nothing"),
        ((207, {"version": 2}), "the service answered 207, which confirms nothing"),
        ((203, b""), "the service answered 203, which confirms nothing"),
    ],
)
def test_what_else_says_success_leaves_the_outcome_open(remote, server, answer, words):
    server.listed = ["t"]
    server.answering(answer)
    with pytest.raises(
        OutcomeUnknown, match=rf"no response confirms it \(.*{words}.*\); table 't' is listed now"
    ) as error:
        FRAME.remote.to_table("t")
    assert (error.value.listed, error.value.attempts) == (True, 1)
    with pytest.raises(
        OutcomeUnknown, match=rf"{words}.*\); look at the table's columns before sending the change again"
    ):
        remote.table("t").rename({"a": "b"})
    assert len(server.posts) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 5, "message": "the reason"}},
        {"error": "the reason", "code": 5},
        {"detail": "the reason"},
        {"detail": [{"msg": "the reason", "loc": ["x"]}]},
        {"type": "about:blank", "title": "Bad", "detail": "the reason"},
        {"message": "the reason"},
        b"the reason",
        b"<html><head><title>x</title></head><body><h1>the reason</h1></body></html>",
    ],
)
def test_the_reason_is_found_in_every_form_of_an_error(remote, server, body):
    server.answering((400, body))
    with pytest.raises(BadRequest, match="the reason") as error:
        FRAME.remote.to_table("t")
    assert error.value.message == "the reason"
    assert (error.value.status, error.value.table, error.value.rows, error.value.attempts) == (400, "t", 2, 1)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequest),
        (401, AuthenticationError),
        (403, AuthenticationError),
        (404, TableNotFoundError),
        (409, ConflictError),
        (413, PayloadTooLarge),
        (415, ResponseError),
        (422, BadRequest),
        (202, OutcomeUnknown),
    ],
)
def test_every_status_of_an_alter_has_its_error(remote, server, status, kind):  # those of a create: F20, F24
    server.answering((status, {}))
    with pytest.raises(kind) as error:
        remote.table("t").rename({"a": "b"})
    assert type(error.value) is kind
    assert len(server.posts) == 1


def test_a_400_that_says_already_exists_is_that_for_a_create_alone(remote, server):
    server.answering((400, {"error": "table t already exists"}))
    with pytest.raises(TableExistsError):
        FRAME.remote.to_table("t")
    with pytest.raises(BadRequest) as error:
        remote.table("t").rename({"a": "b"})
    assert type(error.value) is BadRequest


def test_a_404_to_a_create_says_that_the_address_is_wrong(remote, server):
    server.answering((404, {}))
    with pytest.raises(ResponseError, match="check the URL"):
        FRAME.remote.to_table("t")


def test_skip_leaves_a_listed_table_as_it_is(remote, server):
    server.listed = ["t"]
    server.answering((200, {}))
    table = FRAME.remote.to_table("t", if_exists="skip")
    assert (table.created, server.posts) == (False, [])


NONE, TAKEN = (200, {"tables": []}), (200, {"tables": ["t"]})


@pytest.mark.parametrize("refusal", [(409, {}), (400, {"error": "table t already exists"})])
def test_skip_believes_a_refusal_that_the_list_confirms(remote, server, refusal):
    server.listing(NONE, refusal, TAKEN)
    assert FRAME.remote.to_table("t", if_exists="skip").created is False
    assert [r.method for r in server.requests] == ["GET", "POST", "GET"]


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        ((409, {"error": "locked by a migration"}), ConflictError),
        ((409, {"error": "t", "code": 5}), ConflictError),
        ((400, {"error": "an index of that name already exists"}), BadRequest),
    ],
)
@pytest.mark.parametrize(
    ("look", "words"),
    [
        (NONE, "no table 't' is listed, so something else is in the way; nothing was stored"),
        ((500, {}), "the tables could not be listed, so it is not known whether table 't' is there"),
        ((200, b"<html>"), "the tables could not be listed, so it is not known whether table 't' is there"),
    ],
)
def test_skip_says_of_no_table_that_it_was_there_unless_it_is_listed(remote, server, refusal, kind, look, words):
    server.listing(NONE, refusal, look)
    with pytest.raises(ResponseError, match=rf"answered {refusal[0]}, {refusal[1]['error']}; {words}$") as error:
        FRAME.remote.to_table("t", if_exists="skip")
    assert type(error.value) is kind
    assert (error.value.status, error.value.message) == (refusal[0], refusal[1]["error"])
    assert [r.method for r in server.requests] == ["GET", "POST", "GET"]


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("if_exists", ["fail", "skip"])
@pytest.mark.parametrize(
    "kind", [TableExistsError, OutcomeUnknown, UploadInterrupted, ServerError, RateLimited, ConnectError]
)
def test_an_error_of_this_package_out_of_the_callers_own_source_is_passed_on_as_it_is(
    remote, server, kind, if_exists, after
):
    own = kind("no table 'another'", table="another", attempts=7)
    before = (own.args, dict(vars(own)))

    def batches():
        yield from [FRAME] * after
        server.listed = ["t"]
        raise own

    with pytest.raises(kind) as error:
        rt.to_table(batches(), "t", if_exists=if_exists)
    assert error.value is own
    assert KEY not in "".join(local_variables(own))
    assert (own.args, vars(own)) == before
    assert (own.__cause__, own.__context__, getattr(own, "__notes__", [])) == (None, None, [])
    assert len(server.posts) <= after


def test_a_large_upload_looks_first_and_sends_nothing_to_a_taken_name(remote, server):
    server.listed = ["t"]
    server.answering((200, {}))
    with pytest.raises(TableExistsError, match="nothing was sent"):
        rt.to_table(pl.DataFrame({"a": np.zeros(2**21)}), "t")
    assert [r.method for r in server.requests] == ["GET"]


@pytest.mark.parametrize(
    "data",
    [
        pl.DataFrame({"a": np.arange(3_000_000), "b": np.arange(3_000_000.0)}),
        pd.DataFrame({"a": np.arange(3_000_000), "b": np.arange(3_000_000.0)}),
        pa.table({"a": np.arange(3_000_000), "b": np.arange(3_000_000.0)}),
    ],
    ids=["polars", "pandas", "arrow"],
)
def test_a_frame_of_one_chunk_goes_in_several_batches_with_its_length(remote, server, data):
    rt.to_table(data, "t", compression=None)
    request = server.posts[0]
    assert int(request.headers["content-length"]) == len(request.body)
    reader = pa.ipc.open_stream(request.body)
    batches = list(reader)
    assert len(batches) > 2
    assert max(batch.nbytes for batch in batches) < 20 * 2**20
    assert pa.Table.from_batches(batches) == pa.table({"a": np.arange(3_000_000), "b": np.arange(3_000_000.0)})


def test_a_source_of_unknown_length_goes_chunked(remote, server):
    rt.to_table(iter([FRAME, FRAME]), "t")
    assert server.posts[0].headers["transfer-encoding"] == "chunked"
    assert "content-length" not in server.posts[0].headers
    assert pa.ipc.open_stream(server.posts[0].body).read_all().to_pydict() == {"a": [1, 2, 1, 2]}


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_codec_compresses_the_buffers_of_the_stream(remote, server, codec):
    frame = pl.DataFrame({"a": np.zeros(100_000)})
    rt.to_table(frame, "t", compression=codec)
    rt.to_table(frame, "t", compression=None)
    small, large = (request.body for request in server.posts)
    assert len(small) < len(large) / 10
    assert pa.ipc.open_stream(small).read_all() == pa.ipc.open_stream(large).read_all()


def test_further_headers_go_with_every_request(server):
    with rt.connect(server.url, api_key=KEY, headers={"x-team": "red"}, default=False) as client:
        client.list_tables()
    assert server.requests[0].headers["x-team"] == "red"


def test_logs_tell_each_request_and_table_and_never_the_key(remote, caplog):
    with caplog.at_level("DEBUG"):
        FRAME.remote.to_table("t")
    ours = [r for r in caplog.records if r.name == "rt_frames"]
    assert [r.levelname for r in ours] == ["DEBUG", "INFO"]
    assert re.search(r"POST /v1/tables/t 200, \d+ bytes sent, [\d.]+ ms, [0-9a-f-]{36}", ours[0].getMessage())
    assert re.match(r"created table t, 2 rows, 1 column, \d+ bytes, \d+ ms, [0-9a-f-]{36}$", ours[1].getMessage())
    assert KEY not in caplog.text


def test_info_tells_what_was_skipped_and_why_something_is_sent_again(remote, server, caplog):
    caplog.set_level("INFO", "rt_frames")
    cell = "a cell that nobody else may read"
    refusal = {"error": {"message": f"slow down with {cell} and {KEY}"}}
    server.listing(
        (429, refusal, {"Retry-After": "0"}), (200, {"version": 1}), NONE, (409, {"error": "it exists"}), TAKEN
    )
    pl.DataFrame({"text": [cell]}).remote.to_table("t")
    pl.DataFrame({"text": [cell]}).remote.to_table("t", if_exists="skip")
    first, _, third = (record.getMessage() for record in caplog.records)
    assert re.fullmatch(r"POST /v1/tables/t is sent again in [\d.]+ s: the service answered 429", first)
    assert third == "skipped table t, which is there already; nothing was stored"
    assert KEY not in caplog.text
    assert cell not in caplog.text


def test_info_tells_a_connection_that_failed(caplog):
    caplog.set_level("INFO", "rt_frames")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = rt.connect(f"http://127.0.0.1:{port}", api_key=KEY, retries=1, default=False)
    with pytest.raises(rt.errors.ConnectError):
        client.list_tables()
    (line,) = (record.getMessage() for record in caplog.records)
    assert re.match(r"GET /v1/tables is sent again in [\d.]+ s: could not connect to .*Connection refused", line)
