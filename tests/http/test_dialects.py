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

    def script(connection) -> None:
        while True:
            request = connection.body(connection.head())
            connection.answer(*routes.get(request.path, (otherwise, b"")))

    server.script = script


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
        # before the first write, to see what the server can do
        f"GET {LIST}",
        "POST /v1/table/t-1.x_Y/create/?mode=create",
        "POST /v1/table/t-1.x_Y/create/?mode=overwrite",
        "POST /v1/table/t-1.x_Y/describe/?load_detailed_metadata=true",
        "POST /v1/table/t-1.x_Y/alter_columns/",
        f"GET {LIST}",
    ]
    _, created, replaced, _, altered, _ = server.requests
    assert created.body == replaced.body
    assert json.loads(altered.body) == {"alterations": [{"path": "a", "rename": "b"}]}
    assert {request.headers["x-api-key"] for request in server.requests} == {KEY}


@pytest.mark.parametrize(
    ("dialect", "first", "further"),
    [
        ("documented", "/v1/tables", "/v1/tables?page_token="),
        ("lancedb", LIST, f"{LIST}&page_token="),
    ],
)
def test_a_list_is_followed_over_its_pages(server, dialect, first, further):
    server.listing(
        (200, {"tables": ["b"], "page_token": "x/y &="}),
        (200, {"tables": ["a"], "page_token": "z"}),
        (200, {"tables": []}),
    )
    assert connected(server, dialect=dialect).list_tables() == ["b", "a"]
    found = asked(server)
    assert found == [f"GET {first}", f"GET {further}x%2Fy%20%26%3D", f"GET {further}z"]


def test_an_argument_the_environment_and_a_pickle_say_the_dialect(server, monkeypatch):
    monkeypatch.setenv("RT_FRAMES_DIALECT", "lancedb")
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    client = rt.connect(server.url)
    client.list_tables()
    pickle.loads(pickle.dumps(client)).list_tables()
    rt.connect(server.url, dialect="documented").list_tables()
    assert asked(server) == [f"GET {LIST}", f"GET {LIST}", "GET /v1/tables"]
    assert rt.table("t").schema is None


def test_an_unknown_dialect_of_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("RT_FRAMES_DIALECT", "lance")
    told = r"RT_FRAMES_DIALECT.*documented.*lancedb.*'lance'"
    with pytest.raises(ValueError, match=told):
        rt.connect("http://localhost:1", api_key=KEY)


@pytest.mark.parametrize("unknown", ["", "LANCEDB", 1, "folder"])
@pytest.mark.parametrize(
    ("target", "key"),
    [
        ("http://localhost:1", KEY),
        ("./tables", None),
    ],
)
def test_an_unknown_dialect_is_refused(unknown, target, key):
    with pytest.raises(ValueError, match=r"dialect.*documented.*lancedb"):
        rt.connect(target, api_key=key, dialect=unknown)


@pytest.mark.parametrize("dialect", [None, *LISTS])
def test_a_folder_can_do_everything_in_every_dialect(tmp_path, dialect):
    client = rt.connect(tmp_path, dialect=dialect)
    again = pickle.loads(pickle.dumps(client))
    assert replace(client).version == 1
    assert replace(again).version == 2
    assert again.table("t").schema == pa.schema({"a": pa.int64()})


# calls, and a status that tells them of another dialect
TELLING = [
    (404, rt.Client.list_tables),
    (404, create),
    (405, rt.Client.list_tables),
    (405, create),
    (405, alter),
    (406, rt.Client.list_tables),
    (406, create),
    (406, alter),
]
NOT_IMPLEMENTED = [
    (501, rt.Client.list_tables),
    (501, create),
    (501, alter),
]


@pytest.mark.parametrize(("status", "call"), [*TELLING, *NOT_IMPLEMENTED])
def test_one_look_tells_which_dialect_fits_and_nothing_is_sent_again(
    server, caplog, status, call
):
    routed(server, {LIST: (200, {"tables": []})}, status)
    client = connected(server)
    kind = errors.ServerError if status == 501 else errors.ResponseError
    error = fails(lambda: call(client), kind, caplog, f'{status}.*dialect="lancedb"')
    assert error.status == status
    assert error.attempts == 1
    assert "outcome is unknown" not in str(error)
    assert len(server.requests) == 2
    assert server.requests[1].path == LIST


@pytest.mark.parametrize(("status", "call"), TELLING)
@pytest.mark.parametrize("named_by", ["argument", "environment", "Client"])
@pytest.mark.parametrize(
    ("dialect", "other"),
    [
        ("documented", LIST),
        ("lancedb", "/v1/tables"),
    ],
)
def test_a_dialect_that_was_named_is_the_only_one_that_is_asked_for(
    server, caplog, monkeypatch, dialect, other, named_by, status, call
):
    routed(server, {other: (200, {"tables": []})}, status)
    if named_by == "environment":
        monkeypatch.setenv("RT_FRAMES_DIALECT", dialect)
        client = connected(server)
    elif named_by == "argument":
        client = connected(server, dialect=dialect)
    else:
        client = rt.Client(server.url, api_key=KEY, dialect=dialect)
    error = fails(lambda: call(client), errors.ResponseError, caplog, str(status))
    assert "dialect" not in str(error)
    assert f"GET {other}" not in asked(server)


def test_after_a_create_that_is_not_implemented_nothing_else_is_asked(server, caplog):
    routed(server, {}, 501)
    client = connected(server, dialect="documented")
    fails(lambda: create(client), errors.ServerError, caplog, "501")
    assert asked(server) == ["POST /v1/tables/t"]


def test_a_client_without_a_named_dialect_looks_for_another_one_also_unpickled(
    server, caplog, monkeypatch
):
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    routed(server, {LIST: (200, {"tables": []})})
    client = rt.Client(server.url, api_key=KEY)
    again = pickle.loads(pickle.dumps(client))
    fails(client.list_tables, errors.ResponseError, caplog, "lancedb")
    fails(again.list_tables, errors.ResponseError, caplog, "lancedb")


@pytest.mark.parametrize("call", [rt.Client.list_tables, create])
@pytest.mark.parametrize(
    ("status", "look"),
    [
        (404, (404, b"")),
        (405, (200, b"<html>hello</html>")),
        (404, (401, {})),
        (405, (500, {})),
    ],
)
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


def test_a_description_may_be_without_a_schema(lancedb, server):
    server.answering((200, {}), (200, {"version": 3}), (200, {"schema": None}))
    assert rt.table("t").schema is None
    assert rt.table("t").schema is None
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


def test_a_strict_server_tells_schema_and_version_as_it_is_asked_for_them_in_the_address(
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


@pytest.mark.parametrize(
    "first",
    [
        (429, {}, {"Retry-After": "0"}),
        (503, {}),
        (200, b"not JSON"),
    ],
)
def test_a_description_is_asked_for_again_since_that_changes_nothing(
    lancedb, server, first
):
    server.answering(first, (200, {"schema": SCHEMA}))
    assert rt.table("t").schema == pa.schema({"a": pa.int64()})
    assert len(server.posts) == 2


@pytest.mark.parametrize(
    ("listed", "call", "told"),
    [
        (["t"], create, "is listed now"),
        (["t"], replace, "old rows or the new"),
        ([], create, "is not listed yet"),
        ([], replace, "is not listed yet"),
    ],
)
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


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (409, errors.ConflictError, "replace table 't'"),
        (503, errors.ServerError, "old rows or the new"),
    ],
)
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
