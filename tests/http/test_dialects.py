"""The two dialects on the wire: addresses, limits, and the meaning of a 404."""

from __future__ import annotations

import json
import pickle

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import errors
from tests.support.faults import connected, fails
from tests.support.servers import KEY

FRAME = pl.DataFrame({"a": [1, 2]})
LIST = "/v1/namespace/$/table/list?limit=1000"
LISTS = {"documented": "/v1/tables", "lancedb": LIST}
SCHEMA = {"fields": [{"name": "a", "type": {"type": "int64"}, "nullable": True}]}


@pytest.fixture
def lancedb(server):
    with rt.connect(server.url, api_key=KEY, dialect="lancedb") as client:
        yield client


def asked(server) -> list[str]:
    return [request.route for request in server.requests]


def routed(server, routes: dict[str, tuple], otherwise: int = 404) -> None:
    """Answer by path; the paths that have no answer get another status."""

    server.responding(lambda request: routes.get(request.path, (otherwise, b"")))


def create(client: rt.Client) -> rt.RemoteTable:
    return client.create_table("t", FRAME)


def replace(client: rt.Client) -> rt.RemoteTable:
    return client.create_table("t", FRAME, if_exists="replace")


def alter(client: rt.Client) -> rt.RemoteTable:
    return client.table("t").rename({"a": "b"})


def test_every_operation_goes_where_the_official_client_sends_it(lancedb, server):
    server.answering(
        (200, {"version": 1}),
        (200, {"version": 2}),
        (200, {"version": 3, "schema": SCHEMA}),
        (200, {}),
    )
    FRAME.remote.to_table("t-1.x_Y")
    FRAME.remote.to_table("t-1.x_Y", if_exists="replace")
    assert rt.table("t-1.x_Y").schema == pa.schema({"a": pa.int64()})
    rt.table("t-1.x_Y").rename({"a": "b"})
    rt.list_tables()
    assert asked(server) == [
        "POST /v1/table/t-1.x_Y/create/?mode=create",
        "POST /v1/table/t-1.x_Y/create/?mode=overwrite",
        "POST /v1/table/t-1.x_Y/describe/?load_detailed_metadata=true",
        "POST /v1/table/t-1.x_Y/alter_columns/",
        f"GET {LIST}",
    ]
    created, replaced, _, altered, _ = server.requests
    assert created.body == replaced.body
    assert json.loads(altered.body) == {"alterations": [{"path": "a", "rename": "b"}]}
    assert {request.headers["x-api-key"] for request in server.requests} == {KEY}


PAGES = [
    (200, {"tables": ["b"], "page_token": "x/y &="}),
    (200, {"tables": ["a"], "page_token": "z"}),
    (200, {"tables": []}),
]
ADDRESSES = [
    ("documented", "/v1/tables", "/v1/tables?page_token="),
    ("lancedb", LIST, f"{LIST}&page_token="),
]


@pytest.mark.parametrize(("dialect", "first", "further"), ADDRESSES)
def test_a_list_is_followed_over_its_pages(server, dialect, first, further):
    server.listing(*PAGES)
    client = connected(server, dialect=dialect)
    assert client.list_tables() == ["b", "a"]
    assert server.requests[0].path == first
    assert server.requests[1].path == f"{further}x%2Fy%20%26%3D"
    assert server.requests[2].path == f"{further}z"


def test_an_argument_the_environment_and_a_pickle_say_the_dialect(server, monkeypatch):
    monkeypatch.setenv("RT_FRAMES_DIALECT", "lancedb")
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    client = rt.connect(server.url)
    client.list_tables()
    pickle.loads(pickle.dumps(client)).list_tables()
    rt.connect(server.url, dialect="documented").list_tables()
    assert asked(server) == [f"GET {LIST}", f"GET {LIST}", "GET /v1/tables"]
    assert rt.table("t").schema is None


@pytest.mark.parametrize("unknown", ["", "LANCEDB", 1, "folder"])
def test_an_unknown_dialect_is_refused_though_a_folder_needs_none(unknown):
    with pytest.raises(ValueError, match=r"dialect.*documented.*lancedb"):
        rt.connect("./tables", dialect=unknown)


@pytest.mark.parametrize("dialect", [None, *LISTS])
def test_a_folder_can_do_everything_in_every_dialect(tmp_path, dialect):
    client = rt.connect(tmp_path, dialect=dialect)
    again = pickle.loads(pickle.dumps(client))
    assert replace(client).version == 1
    assert replace(again).version == 2
    assert again.table("t").schema == pa.schema({"a": pa.int64()})


# calls, and a status that tells them of another dialect
TELLING = [
    (404, rt.Client.list_tables, errors.ResponseError),
    (404, create, errors.ResponseError),
    (405, create, errors.ResponseError),
    (405, alter, errors.ResponseError),
    (406, alter, errors.ResponseError),
    (501, rt.Client.list_tables, errors.ServerError),
    (501, create, errors.ServerError),
    (501, alter, errors.ServerError),
]


@pytest.mark.parametrize(("status", "call", "kind"), TELLING)
def test_one_look_tells_which_dialect_fits_and_nothing_is_sent_again(
    server, caplog, status, call, kind
):
    routed(server, {LIST: (200, {"tables": []})}, status)
    client = connected(server)
    error = fails(lambda: call(client), kind, caplog, f'{status}.*dialect="lancedb"')
    assert error.status == status
    assert error.attempts == 1
    assert "outcome is unknown" not in str(error)
    assert len(server.requests) == 2
    assert server.requests[1].path == LIST


NAMED = [
    ("documented", LIST, 404, rt.Client.list_tables),
    ("documented", LIST, 405, create),
    ("documented", LIST, 406, alter),
    ("lancedb", "/v1/tables", 404, rt.Client.list_tables),
    ("lancedb", "/v1/tables", 405, create),
    ("lancedb", "/v1/tables", 406, alter),
]


@pytest.mark.parametrize(("dialect", "other", "status", "call"), NAMED)
def test_a_dialect_that_was_named_is_the_only_one_that_is_asked_for(
    server, caplog, dialect, other, status, call
):
    routed(server, {other: (200, {"tables": []})}, status)
    client = rt.Client(server.url, api_key=KEY, dialect=dialect)
    error = fails(lambda: call(client), errors.ResponseError, caplog, str(status))
    assert "dialect" not in str(error)
    assert f"GET {other}" not in asked(server)


def test_a_dialect_that_the_environment_names_is_the_only_one_that_is_asked_for(
    server, caplog, monkeypatch
):
    monkeypatch.setenv("RT_FRAMES_DIALECT", "documented")
    routed(server, {LIST: (200, {"tables": []})})
    fails(connected(server).list_tables, errors.ResponseError, caplog, "404")
    assert asked(server) == ["GET /v1/tables"]


def test_a_client_without_a_named_dialect_looks_for_another_one_also_unpickled(
    server, caplog, monkeypatch
):
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    routed(server, {LIST: (200, {"tables": []})})
    client = rt.Client(server.url, api_key=KEY)
    again = pickle.loads(pickle.dumps(client))
    fails(client.list_tables, errors.ResponseError, caplog, "lancedb")
    fails(again.list_tables, errors.ResponseError, caplog, "lancedb")


LOOKS = [
    (404, (404, b""), rt.Client.list_tables),
    (405, (200, b"<html>hello</html>"), create),
    (404, (401, {}), create),
    (405, (500, {}), rt.Client.list_tables),
]


@pytest.mark.parametrize(("status", "look", "call"), LOOKS)
def test_a_server_that_speaks_neither_is_said_to_be_at_another_address(
    server, caplog, status, look, call
):
    routed(server, {LIST: look}, status)
    client = connected(server)
    told = f"{status}.*check the URL"
    error = fails(lambda: call(client), errors.ResponseError, caplog, told)
    assert "dialect" not in str(error)
    assert len(server.requests) == len(LISTS)
    assert server.requests[1].path == LIST


def nested(levels: int) -> bytes:
    opened = '{"type": "list", "fields": [{"name": "i", "nullable": true, "type": '
    kind = opened * levels + "1" + "}]}" * levels
    return f'{{"schema": {{"fields": [{{"name": "a", "type": {kind}}}]}}}}'.encode()


NO_UNIT = {"name": "at", "type": {"type": "timestamp"}, "nullable": True}
NO_TYPE = {"name": "at", "nullable": True}
TWICE = {"fields": [*SCHEMA["fields"], *SCHEMA["fields"]]}
NO_SCHEMAS = {
    "an array": ({"version": 1, "schema": []}, "object"),
    "no fields": ({"version": 1, "schema": {}}, "fields"),
    "no unit": ({"version": 1, "schema": {"fields": [NO_UNIT]}}, "'timestamp'"),
    "no type": ({"version": 1, "schema": {"fields": [NO_TYPE]}}, "type"),
    "a name twice": ({"version": 1, "schema": TWICE}, "'a' more than once"),
    "40 levels": (nested(40), ""),
    "300 levels": (nested(300), ""),
    "900 levels": (nested(900), ""),
    "100,000 levels": (nested(100_000), ""),
}


@pytest.mark.parametrize(("body", "told"), NO_SCHEMAS.values(), ids=NO_SCHEMAS)
def test_a_description_that_is_not_understood_says_what_was_not(
    server, caplog, body, told
):
    server.answering((200, body))
    table = connected(server, dialect="lancedb", retries=0).table("t")
    words = f"describe table 't'.*{told}"
    fails(lambda: table.schema, errors.ResponseError, caplog, words)


def test_a_description_that_does_not_come_is_named(server, caplog):
    # reads the request, and hangs up
    server.script = lambda connection: connection.body(connection.head())
    table = connected(server, dialect="lancedb", retries=0).table("t")
    fails(lambda: table.schema, errors.TransportError, caplog, "describe table 't'")


@pytest.mark.parametrize("described", [{}, {"version": 3}, {"schema": None}])
def test_a_description_may_be_without_a_schema(lancedb, server, described):
    server.answering((200, described))
    assert rt.table("t").schema is None
    with pytest.raises(ValueError, match="does not describe the columns of table 't'"):
        FRAME.remote.alter_table("t")


def test_a_description_is_asked_for_once_and_not_by_repr(lancedb, server):
    server.answering((200, {"schema": SCHEMA}))
    table = rt.table("t")
    assert repr(table) == f"RemoteTable('t', at {server.url})"
    assert server.requests == []
    assert "int64" in table._repr_html_()
    assert table.schema == pa.schema({"a": pa.int64()})
    assert "1 column" in repr(table)
    assert len(server.requests) == 1


def test_a_strict_server_is_asked_for_schema_and_version_in_the_address(
    lancedb, server
):
    described = {"location": "s3://x", "version": 3, "schema": SCHEMA}
    asked_for = "/v1/table/t/describe/?load_detailed_metadata=true"
    routed(server, {asked_for: (200, described)}, 200)
    assert rt.table("t").schema == pa.schema({"a": pa.int64()})
    assert FRAME.remote.to_table("t", if_exists="append").created is False
    FRAME.cast(pl.Int32).remote.alter_table("t")
    described, appended, _, altered = server.posts[1:]
    assert appended.path == "/v1/table/t/insert/"
    assert altered.path == "/v1/table/t/alter_columns/"
    assert json.loads(described.body) == {"load_detailed_metadata": True}


AGAIN = [(429, {}, {"Retry-After": "0"}), (503, {}), (200, b"not JSON")]


@pytest.mark.parametrize("first", AGAIN)
def test_a_description_is_asked_for_again_since_that_changes_nothing(
    lancedb, server, first
):
    server.answering(first, (200, {"schema": SCHEMA}))
    assert rt.table("t").schema == pa.schema({"a": pa.int64()})
    assert len(server.posts) == 2


OPEN = [
    (["t"], create, "is listed now"),
    (["t"], replace, "old rows or the new"),
    ([], create, "is not listed yet"),
    ([], replace, "is not listed yet"),
]


@pytest.mark.parametrize(("listed", "call", "told"), OPEN)
def test_an_open_create_or_replace_is_looked_up_where_the_dialect_lists(
    server, caplog, listed, call, told
):
    def script(connection) -> None:
        while (request := connection.head()).method == "GET":
            connection.answer(200, {"tables": listed})
        connection.body(request)

    server.script = script
    client = connected(server, dialect="lancedb")
    error = fails(lambda: call(client), errors.OutcomeUnknown, caplog, told)
    assert error.listed is bool(listed)
    assert asked(server)[-1] == f"GET {LIST}"
    assert len(server.posts) == 1


REFUSED = [
    (409, errors.ConflictError, "replace table 't'"),
    (503, errors.ServerError, "old rows or the new"),
]


@pytest.mark.parametrize(("status", "kind", "told"), REFUSED)
def test_a_replace_is_never_sent_twice(lancedb, server, caplog, status, kind, told):
    server.listed = ["t"]
    server.answering((status, {}))
    fails(lambda: replace(lancedb), kind, caplog, told)
    assert len(server.posts) == 1


def test_a_replace_is_one_request(lancedb, server):
    server.answering((200, {"version": 7}))
    table = rt.to_table(iter([FRAME]), "t", if_exists="replace")
    assert table.version == 7
    assert table.created is True
    assert table.rows == 2
    # the tables are listed before data that may be large
    assert asked(server) == [f"GET {LIST}", "POST /v1/table/t/create/?mode=overwrite"]
