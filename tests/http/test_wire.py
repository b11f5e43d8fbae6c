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
from tests.support.faults import in_bounds, patient
from tests.support.local import stream
from tests.support.servers import KEY, Connection

FRAME = pl.DataFrame({"a": [1, 2]})
JSON = "application/json"


def test_each_request_has_its_address_key_and_type_and_an_id_of_its_own(remote, server):
    remote.list_tables()
    table = FRAME.remote.to_table("t")
    rt.alter_columns(
        "t", [rt.Alteration("a.b", rename="c", data_type="float32", nullable=False)]
    )
    assert [
        (request.line, request.headers["content-type"]) for request in server.requests
    ] == [
        ("GET /v1/tables HTTP/1.1", JSON),
        ("POST /v1/tables/t HTTP/1.1", "application/vnd.apache.arrow.stream"),
        ("POST /v1/table/t/alter_columns HTTP/1.1", JSON),
    ]
    heads = [request.headers for request in server.requests]
    assert {(head["x-api-key"], head["user-agent"]) for head in heads} == {
        (KEY, f"rt_frames/{rt.__version__}")
    }
    ids = [head["x-request-id"] for head in heads]
    assert {uuid.UUID(one).version for one in ids} == {4}
    assert len({*ids}) == 3
    assert not {"cookie", "authorization"} & {name for head in heads for name in head}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("a", pa.int64())])) as writer:
        writer.write_table(pa.table({"a": [1, 2]}))
    body = server.requests[1].body
    assert body == sink.getvalue().to_pybytes()
    assert int(heads[1]["content-length"]) == len(body) == table.nbytes
    assert (table.request_id, table.version, table.rows, table.created) == (
        ids[1],
        1,
        2,
        True,
    )
    assert json.loads(server.requests[2].body) == {
        "alterations": [
            {
                "path": "a.b",
                "rename": "c",
                "data_type": {"type": "float"},
                "nullable": False,
            }
        ]
    }


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


def test_a_list_in_arrow_form_that_is_cut_anywhere_is_an_error(server):
    whole = arrow_list()
    for size in range(8, len(whole), 8):
        server.listing((200, whole[:size]))
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
    return pa.array(["n" * 2**29])


def names_that_share_a_value() -> pa.Array:
    codes = pa.array([0] * 1_000, pa.int32())
    return pa.DictionaryArray.from_arrays(codes, ["n" * 2**20])


LISTS_THAT_HARM = {
    "offsets far beyond": lambda: list_with_offsets(1, 2**30),
    "offsets just beyond": lambda: list_with_offsets(1, 500),
    "offsets that go back": lambda: list_with_offsets(3, 1),
    "a long name": lambda: compressed_list({"name": long_name()}),
    "a long name in LZ4": lambda: compressed_list({"name": long_name()}, "lz4"),
    "one value": lambda: compressed_list({"name": names_that_share_a_value()}),
    "a long cell": lambda: compressed_list({"name": ["a"], "x": long_name()}),
}


@pytest.mark.parametrize("make", LISTS_THAT_HARM.values(), ids=LISTS_THAT_HARM)
def test_a_list_in_arrow_form_shows_no_other_memory_and_takes_little(server, make):
    server.listing((200, make()))
    client = patient(server, retries=0)
    with (
        in_bounds(seconds=20, mib=128),
        pytest.raises(errors.ResponseError, match="not an Arrow stream with a name"),
    ):
        client.list_tables()


def test_a_count_survives_a_list_of_the_other_dialect_with_bad_offsets(server):
    listed = list_with_offsets(1, 2**30)

    def script(connection: Connection) -> None:
        while request := connection.body(connection.head()):
            connection.answer(
                *((200, listed) if request.method == "GET" else (501, {}))
            )

    server.script = script
    with pytest.raises(errors.ServerError, match="501"):
        patient(server, retries=0, dialect="lancedb").table("t").count()


def test_F44_a_list_of_ever_new_pages_ends_with_the_read_timeout(server):
    server.listing(
        *((200, {"tables": [f"t{n}"], "page_token": str(n)}) for n in range(20_000))
    )
    with (
        patient(server, timeout=(1, 1, 0.5)) as client,
        pytest.raises(errors.ResponseError, match=r"0\.5 s"),
    ):
        client.list_tables()
    assert len(server.requests) < 20_000


NONE, TAKEN = (200, {"tables": []}), (200, {"tables": ["t"]})


@pytest.mark.parametrize(
    "refusal", [None, (409, {}), (400, {"error": "table t already exists"})]
)
def test_skip_believes_the_list_and_a_refusal_that_the_list_confirms(
    remote, server, refusal
):
    server.listing(*([NONE, refusal, TAKEN] if refusal else [TAKEN]))
    assert FRAME.remote.to_table("t", if_exists="skip").created is False
    assert [r.method for r in server.requests] == (
        ["GET", "POST", "GET"] if refusal else ["GET"]
    )


@pytest.mark.parametrize("code", [14, 19])
def test_skip_is_for_a_name_that_is_taken_and_no_other_conflict(remote, server, code):
    server.listing(NONE, (409, {"error": "try again", "code": code}), TAKEN)
    with pytest.raises(errors.ConflictError):
        FRAME.remote.to_table("t", if_exists="skip")


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        ((409, {"error": "locked by a migration"}), errors.ConflictError),
        ((409, {"error": "t", "code": 5}), errors.ConflictError),
        ((400, {"error": "an index of that name already exists"}), errors.BadRequest),
    ],
)
@pytest.mark.parametrize(
    ("look", "told"), [(NONE, "nothing was stored"), ((500, {}), "may exist")]
)
def test_skip_says_of_no_table_that_it_was_there_unless_it_is_listed(
    remote, server, refusal, kind, look, told
):
    server.listing(NONE, refusal, look)
    with pytest.raises(errors.ResponseError, match=told) as error:
        FRAME.remote.to_table("t", if_exists="skip")
    assert (type(error.value), error.value.status, error.value.message) == (
        kind,
        refusal[0],
        refusal[1]["error"],
    )
    assert [r.method for r in server.requests] == ["GET", "POST", "GET"]


def test_a_large_upload_looks_first_and_sends_nothing_to_a_taken_name(remote, server):
    server.listed = ["t"]
    server.answering((200, {}))
    with pytest.raises(errors.TableExistsError, match="nothing was sent"):
        rt.to_table(pl.DataFrame({"a": np.zeros(2**21)}), "t")
    assert [r.method for r in server.requests] == ["GET"]


@pytest.mark.parametrize(
    "library", [pl.DataFrame, pd.DataFrame, pa.table], ids=["polars", "pandas", "arrow"]
)
def test_a_frame_of_one_chunk_goes_in_several_batches_with_its_length_and_what_else_comes_chunked(
    server, library
):
    columns = {"a": np.arange(3_000_000), "b": np.arange(3_000_000.0)}
    with patient(server) as client:
        client.create_table("t", library(columns), compression=None)
        client.create_table("t", iter([FRAME, FRAME]))
    request, of_unknown_length = server.posts
    assert int(request.headers["content-length"]) == len(request.body)
    batches = list(pa.ipc.open_stream(request.body))
    assert len(batches) > 2
    assert max(batch.nbytes for batch in batches) < 20 * 2**20
    assert pa.Table.from_batches(batches) == pa.table(columns)
    assert of_unknown_length.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in of_unknown_length.headers
    assert pa.ipc.open_stream(of_unknown_length.body).read_all().to_pydict() == {
        "a": [1, 2, 1, 2]
    }


def test_the_log_tells_each_request_and_table_what_is_sent_again_and_why_and_no_cell_or_key(
    remote, server, caplog
):
    caplog.set_level("DEBUG", "rt_frames")
    cell = "a cell that nobody else may read"
    refusal = (
        429,
        {"error": {"message": f"slow down with {cell} and {KEY}"}},
        {"Retry-After": "0"},
    )
    server.listing(
        refusal, (200, {"version": 1}), NONE, (409, {"error": "it exists"}), TAKEN
    )
    table = pl.DataFrame({"text": [cell]}).remote.to_table("t")
    pl.DataFrame({"text": [cell]}).remote.to_table("t", if_exists="skip")
    lines = [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.name == "rt_frames"
    ]
    requests, (again, created, *_, skipped) = (
        [text for level, text in lines if level == one] for one in ("DEBUG", "INFO")
    )
    for status, text in zip((429, 200, 200, 409, 200), requests, strict=True):
        assert f" {status}, " in text
    assert re.search("/v1/tables/t .*retried.*429", again)
    assert re.search(f"created table t.* 1 row.*1 column.*{table.request_id}", created)
    assert re.search("skipped: table t exists; nothing was stored", skipped)
    assert KEY not in caplog.text
    assert cell not in caplog.text


def test_lines_that_are_no_headers_are_not_logged_as_they_may_repeat_the_key(
    server, caplog
):
    def script(connection: Connection) -> None:
        key = connection.head().headers["x-api-key"]
        connection.sock.sendall(
            f"HTTP/1.1 200 OK\r\n{key} : {key}\r\n{key}\r\n\r\n[]".encode()
        )

    server.script = script
    with caplog.at_level("DEBUG"):
        assert patient(server).list_tables() == []
    assert server.requests[0].headers["x-api-key"] not in caplog.text
