"""The two dialects on the wire: what is asked where, what each cannot do, and what a 404 then says."""

from __future__ import annotations

import json
import pickle

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames._http.dialects import DIALECTS, Dialect
from rt_frames.errors import (
    BadRequest,
    ConflictError,
    OutcomeUnknown,
    ResponseError,
    ServerError,
    TableExistsError,
    TableNotFoundError,
    TransportError,
    UploadInterrupted,
)
from tests.support.faults import fails
from tests.support.servers import KEY

FRAME = pl.DataFrame({"a": [1, 2]})
LIST = "/v1/namespace/$/table/list?limit=1000"
SCHEMA = {"fields": [{"name": "a", "type": {"type": "int64"}, "nullable": True}]}


@pytest.fixture
def lancedb(server):
    with rt.connect(server.url, api_key=KEY, dialect="lancedb") as client:
        yield client


def asked(server) -> list[str]:
    return [request.line.removesuffix(" HTTP/1.1") for request in server.requests]


def routed(server, routes: dict[str, tuple], otherwise: int = 404) -> None:
    """Answer by the start of the path, the first that fits; anything else is not found, or with another status."""

    def script(connection) -> None:
        while True:
            request = connection.body(connection.head())
            found = next((answer for path, answer in routes.items() if request.path.startswith(path)), (otherwise, b""))
            connection.answer(*found)

    server.script = script


def test_every_operation_goes_where_the_official_client_sends_it(lancedb, server):
    server.answering((200, {"version": 1}), (200, {"version": 2}), (200, {"version": 3, "schema": SCHEMA}), (200, {}))
    FRAME.remote.to_table("t-1.x_Y")
    FRAME.remote.to_table("t-1.x_Y", if_exists="replace")
    assert rt.table("t-1.x_Y").schema == pa.schema({"a": pa.int64()})
    rt.table("t-1.x_Y").rename({"a": "b"})
    rt.list_tables()
    assert asked(server) == [
        "POST /v1/table/t-1.x_Y/create/?mode=create",
        "POST /v1/table/t-1.x_Y/create/?mode=overwrite",
        "POST /v1/table/t-1.x_Y/describe/",
        "POST /v1/table/t-1.x_Y/alter_columns/",
        f"GET {LIST}",
    ]
    created, replaced, _, altered, _ = server.requests
    assert created.body == replaced.body
    assert json.loads(altered.body) == {"alterations": [{"path": "a", "rename": "b"}]}
    assert {request.headers["x-api-key"] for request in server.requests} == {KEY}


def test_the_documented_addresses_are_the_default(remote, server):
    server.answering((200, {}))
    FRAME.remote.to_table("t")
    rt.table("t").rename({"a": "b"})
    rt.list_tables()
    assert rt.table("t").schema is None
    assert asked(server) == ["POST /v1/tables/t", "POST /v1/table/t/alter_columns", "GET /v1/tables"]


def test_a_list_is_followed_over_its_pages(lancedb, server):
    server.listing((200, {"tables": ["a"], "page_token": "x/y &="}), (200, {"tables": ["b"]}))
    assert lancedb.list_tables() == ["a", "b"]
    assert asked(server) == [f"GET {LIST}", f"GET {LIST}&page_token=x%2Fy%20%26%3D"]


def test_the_environment_says_the_dialect_too(server, monkeypatch):
    monkeypatch.setenv("RT_FRAMES_DIALECT", "lancedb")
    rt.connect(server.url, api_key=KEY).list_tables()
    rt.connect(server.url, api_key=KEY, dialect="documented").list_tables()
    assert asked(server) == [f"GET {LIST}", "GET /v1/tables"]
    monkeypatch.setenv("RT_FRAMES_DIALECT", "lance")
    with pytest.raises(ValueError, match='RT_FRAMES_DIALECT: expected "documented" or "lancedb", got \'lance\''):
        rt.connect(server.url, api_key=KEY)


@pytest.mark.parametrize("dialect", ["", "LANCEDB", 1, "folder"])
def test_a_dialect_that_is_not_known_is_refused(server, dialect):
    for target in ("https://words-x1.us-east-1.example.com", "./tables"):
        with pytest.raises(ValueError, match='expected "documented" or "lancedb"'):
            rt.connect(target, api_key=KEY if "https" in target else None, dialect=dialect)


@pytest.mark.parametrize("dialect", [None, *DIALECTS, Dialect("another", "/v9", "/v9/{}", "/v9/{}/columns")])
def test_a_folder_can_do_everything_in_every_dialect(tmp_path, dialect):
    client = rt.connect(tmp_path, dialect=dialect)
    for i, known in enumerate((client, pickle.loads(pickle.dumps(client))), 1):
        assert known.create_table("t", FRAME, if_exists="replace").version == i
        assert known.table("t").schema == pa.schema({"a": pa.int64()})
        assert known.list_tables() == ["t"]


def test_a_client_that_was_pickled_keeps_its_dialect(lancedb, server, monkeypatch):
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    pickle.loads(pickle.dumps(lancedb)).list_tables()
    assert asked(server) == [f"GET {LIST}"]


@pytest.mark.parametrize("name", ["a$b", "a b", "é", "x" * 129, "a:b"])
def test_names_that_such_servers_read_otherwise_are_refused_before_anything_is_sent(lancedb, server, name):
    calls = [FRAME.remote.to_table, rt.table, lambda t: rt.alter_columns(t, {"path": "a", "rename": "b"})]
    for call in calls:
        with pytest.raises(ValueError, match=r"name: .*128.*digits"):
            call(name)
    assert server.requests == []


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((400, {"code": 400, "error": "Bad request: table t already exists"}), TableExistsError),
        ((409, {"error": "t", "code": 5}), TableExistsError),
        ((400, {"code": 400, "error": "Bad request: Table limit of 1000 exceeded"}), BadRequest),
        ((400, b"Failed to deserialize the JSON body"), BadRequest),
        ((500, {"error": "alter_columns: Schema", "code": 18}), ServerError),
    ],
)
def test_errors_of_such_servers_are_told_apart(lancedb, server, answer, kind):
    server.answering(answer)
    with pytest.raises(ResponseError) as error:
        FRAME.remote.to_table("t")
    assert type(error.value) is kind
    assert error.value.message in str(error.value)
    assert len(server.posts) == 1


def test_a_create_that_finds_the_name_taken_is_skipped(lancedb, server):
    server.listing((200, []), (400, {"error": "table t already exists"}), (200, ["t"]))
    assert FRAME.remote.to_table("t", if_exists="skip").created is False


@pytest.mark.parametrize(
    ("dialect", "speaks"), [("documented", LIST), ("lancedb", "/v1/tables")], ids=["documented", "lancedb"]
)
def test_after_a_404_one_look_tells_which_dialect_fits_and_nothing_is_sent_again(server, dialect, speaks):
    routed(server, {speaks: (200, {"tables": []})})
    other = {"documented": "lancedb", "lancedb": "documented"}[dialect]
    with rt.connect(server.url, api_key=KEY, dialect=dialect) as client:
        calls = {"list": client.list_tables, "create": lambda: client.create_table("t", FRAME)}
        for what, call in calls.items():
            server.requests.clear()
            with pytest.raises(
                ResponseError, match=rf'could not {what} .*404.*another dialect: .*dialect="{other}"'
            ) as error:
                call()
            assert (error.value.status, error.value.attempts) == (404, 1)
            assert [request.path for request in server.requests][1:] == [speaks]


@pytest.mark.parametrize("status", [405, 501])
@pytest.mark.parametrize(("dialect", "speaks"), [("documented", LIST), ("lancedb", "/v1/tables")])
def test_a_405_or_501_is_explained_as_a_404_is(server, dialect, speaks, status):
    routed(server, {speaks: (200, {"tables": []})}, status)
    other = {"documented": "lancedb", "lancedb": "documented"}[dialect]
    with rt.connect(server.url, api_key=KEY, dialect=dialect) as client:
        calls = [
            client.list_tables,
            lambda: client.create_table("t", FRAME),
            lambda: client.table("t").rename({"a": "b"}),
        ]
        for call in calls:
            server.requests.clear()
            with pytest.raises(
                ResponseError, match=rf'{status}, .*; it takes no such request.*; this server speaks.*dialect="{other}"'
            ) as error:
                call()
            assert (error.value.status, error.value.attempts) == (status, 1)
            assert "not known whether" not in str(error.value)
            assert [request.path for request in server.requests][1:] == [speaks]


def test_a_405_of_a_server_that_speaks_neither_says_that_the_address_is_wrong(remote, server):
    routed(server, {}, 405)
    for call in (remote.list_tables, lambda: remote.create_table("t", FRAME)):
        with pytest.raises(ResponseError, match=r"405, Method Not Allowed; .*no such project at this address"):
            call()


@pytest.mark.parametrize("other", [(404, b""), (200, b"<html>hello</html>"), (401, {}), (500, {})])
def test_a_404_of_a_server_that_speaks_neither_says_that_the_address_is_wrong(remote, server, other):
    routed(server, {LIST: other})
    with pytest.raises(ResponseError, match="no such project at this address") as error:
        remote.list_tables()
    assert "dialect" not in str(error.value)
    assert [request.path for request in server.requests] == ["/v1/tables", LIST]


def test_a_404_to_an_alter_or_a_description_says_that_there_is_no_such_table(lancedb, server):
    server.answering((404, {"error": "nope", "code": 4}))
    for call in (lambda: rt.table("t").rename({"a": "b"}), lambda: rt.table("t").schema):
        with pytest.raises(TableNotFoundError, match="names that exist"):
            call()
    assert [request.method for request in server.requests] == ["POST", "POST"]


@pytest.mark.parametrize("body", [{}, {"version": 3}, {"schema": None}])
def test_a_schema_that_does_not_come_is_none(lancedb, server, body):
    server.answering((200, body))
    assert rt.table("t").schema is None
    with pytest.raises(ValueError, match="columns of table 't' are not known here"):
        FRAME.remote.alter_table("t")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], "expected an object"),
        ({}, "fields"),
        ({"fields": [{"name": "at", "type": {"type": "timestamp"}, "nullable": True}]}, "'timestamp'"),
        ({"fields": [{"name": "at", "nullable": True}]}, "type"),
    ],
)
def test_a_schema_that_is_not_understood_says_what_was_not(lancedb, server, schema, words):
    server.answering((200, {"version": 1, "schema": schema}))
    with pytest.raises(ResponseError, match=f"table 't'.*description.*not understood.*{words}"):
        rt.table("t").schema  # noqa: B018  # asks


def test_a_description_is_asked_for_once_and_not_by_looking_at_the_table(lancedb, server):
    server.answering((200, {"schema": SCHEMA}))
    table = rt.table("t")
    assert (repr(table), "<b>" in table._repr_html_()) == (f"RemoteTable('t', at {server.url})", True)
    assert server.requests == []
    assert table.schema == table.schema == pa.schema({"a": pa.int64()})
    assert len(server.requests) == 1
    assert "1 column" in repr(table)


@pytest.mark.parametrize("first", [(429, {}, {"Retry-After": "0"}), (503, {}), (200, b"not JSON")])
def test_a_description_is_asked_for_again_since_that_changes_nothing(lancedb, server, first):
    server.answering(first, (200, {"schema": SCHEMA}))
    assert rt.table("t").schema == pa.schema({"a": pa.int64()})
    assert len(server.posts) == 2


@pytest.mark.parametrize("levels", [40, 300, 900, 100_000])
def test_a_description_that_is_nested_without_end_is_not_understood(lancedb, server, caplog, levels):
    nested = '{"type": "list", "fields": [{"name": "item", "nullable": true, "type": ' * levels
    server.answering(
        (200, f'{{"schema": {{"fields": [{{"name": "a", "type": {nested}1{"}]}" * levels}}}]}}}}'.encode())
    )
    fails(lambda: rt.table("t").schema, ResponseError, caplog, "could not describe table 't'")


def test_a_description_that_never_comes_is_no_open_outcome(server):
    server.script = lambda connection: connection.body(connection.head())
    table = rt.connect(server.url, api_key=KEY, dialect="lancedb", retries=0).table("t")
    with pytest.raises(TransportError, match="could not describe table 't'") as error:
        table.schema  # noqa: B018  # asks
    assert type(error.value) is TransportError


def test_the_service_that_cannot_describe_says_the_two_ways(remote, server):
    with pytest.raises(ValueError, match=r'(?s)alter_table\(\'t\', before\).*connect\(…, dialect="lancedb"\)'):
        FRAME.remote.alter_table("t")
    with pytest.raises(ValueError, match="before: the columns of table 't' are not known"):
        rt.plan_alterations(rt.table("t"), FRAME)
    assert server.requests == []


@pytest.mark.parametrize("dialect", ["documented", "lancedb"])
@pytest.mark.parametrize(("cut", "kind"), [(100, UploadInterrupted), (None, OutcomeUnknown)])
def test_an_open_create_is_looked_up_where_the_dialect_lists(server, dialect, cut, kind):
    def script(connection) -> None:
        while (request := connection.head()).method == "GET":
            connection.answer(200, {"tables": ["t"]})
        connection.body(request, cut)

    server.script = script
    client = rt.connect(server.url, api_key=KEY, dialect=dialect)
    with pytest.raises(kind, match="table 't' is listed now") as error:
        client.create_table("t", pl.DataFrame({"a": range(500_000)}), compression=None)
    assert (error.value.listed, error.value.listed_before) == (True, None)
    assert asked(server)[1:] == [{"documented": "GET /v1/tables", "lancedb": f"GET {LIST}"}[dialect]]
    assert len(server.posts) == 1


def test_replace_is_one_request_and_never_sent_twice(lancedb, server):
    server.listed = ["t"]
    for answer, kind in ((409, ConflictError), (503, ServerError)):
        server.requests.clear()
        server.answering((answer, {}))
        with pytest.raises(ResponseError, match="could not replace table 't'") as error:
            FRAME.remote.to_table("t", if_exists="replace")
        assert type(error.value) is kind
        assert len(server.posts) == 1
    assert error.value.listed is True
    assert "holds the old rows or the new" in str(error.value)


@pytest.mark.parametrize("listed", [["t"], []])
@pytest.mark.parametrize(("cut", "kind"), [(100, UploadInterrupted), (None, OutcomeUnknown)])
def test_an_open_replace_says_what_may_be_there(lancedb, server, listed, cut, kind):
    def script(connection) -> None:
        while True:
            request = connection.head()
            if request.method == "POST":
                connection.body(request, cut)
                return
            connection.answer(200, {"tables": listed})

    server.script = script
    with pytest.raises(kind) as error:
        rt.to_table(pl.DataFrame({"a": range(500_000)}), "t", if_exists="replace", compression=None)
    assert error.value.listed is bool(listed)
    assert ("holds the old rows or the new" if listed else "no table 't' is listed") in str(error.value)


def test_a_large_replace_looks_first_and_sends_all_the_same(lancedb, server):
    server.listed = ["t"]
    server.answering((200, {"version": 7}))
    table = rt.to_table(iter([FRAME]), "t", if_exists="replace")
    assert (table.version, table.created, table.rows) == (7, True, 2)
    assert asked(server) == [f"GET {LIST}", "POST /v1/table/t/create/?mode=overwrite"]


def test_what_a_dialect_cannot_do_is_refused_with_the_reason(remote, server):
    with pytest.raises(ValueError, match=r'(?s)"replace" is not possible.*documents no way.*dialect="lancedb"'):
        FRAME.remote.to_table("t", if_exists="replace")
    with pytest.raises(ValueError, match=r'"append" is not possible.*use "fail" or "skip"'):
        FRAME.remote.to_table("t", if_exists="append")
    with pytest.raises(ValueError, match='expected "fail" or "skip", got \'x\''):
        FRAME.remote.to_table("t", if_exists="x")
    assert server.requests == []


def test_a_frame_without_rows_is_a_schema_and_a_batch_of_no_rows(lancedb, server):
    for frame in (FRAME.head(0), FRAME.head(0).to_pandas(), FRAME.lazy().head(0), FRAME.head(0).to_arrow()):
        server.requests.clear()
        rt.to_table(frame, "t")
        batches = list(pa.ipc.open_stream(server.posts[0].body))
        assert [batch.num_rows for batch in batches] == [0]
