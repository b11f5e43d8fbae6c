"""The two dialects on the wire: addresses, limits, and the meaning of a 404."""

from __future__ import annotations

import functools
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
    return [request.line.removesuffix(" HTTP/1.1") for request in server.requests]


def routed(server, routes: dict[str, tuple], otherwise: int = 404) -> None:
    """Answer by the first prefix of the path that fits; else with another status."""

    def script(connection) -> None:
        while True:
            request = connection.body(connection.head())
            found = next(
                (
                    answer
                    for path, answer in routes.items()
                    if request.path.startswith(path)
                ),
                (otherwise, b""),
            )
            connection.answer(*found)

    server.script = script


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


@pytest.mark.parametrize(("dialect", "first"), LISTS.items())
def test_a_list_is_followed_over_its_pages(server, dialect, first):
    pages = (
        (200, {"tables": ["b"], "page_token": "x/y &="}),
        (200, {"tables": ["a"], "page_token": "z"}),
    )
    server.listing(*pages, (200, {"tables": []}))
    assert connected(server, dialect=dialect).list_tables() == ["b", "a"]
    further = f"GET {first}{'&' if '?' in first else '?'}page_token="
    assert asked(server) == [f"GET {first}", f"{further}x%2Fy%20%26%3D", f"{further}z"]


def test_an_argument_the_environment_and_a_pickle_say_the_dialect(server, monkeypatch):
    monkeypatch.setenv("RT_FRAMES_DIALECT", "lancedb")
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    client = rt.connect(server.url)
    client.list_tables()
    pickle.loads(pickle.dumps(client)).list_tables()
    rt.connect(server.url, dialect="documented").list_tables()
    assert asked(server) == [f"GET {LIST}", f"GET {LIST}", "GET /v1/tables"]
    assert rt.table("t").schema is None
    monkeypatch.setenv("RT_FRAMES_DIALECT", "lance")
    with pytest.raises(
        ValueError, match=r"RT_FRAMES_DIALECT.*documented.*lancedb.*'lance'"
    ):
        rt.connect(server.url, api_key=KEY)
    for unknown in ("", "LANCEDB", 1, "folder"):
        for target, key in ((server.url, KEY), ("./tables", None)):
            with pytest.raises(ValueError, match=r"dialect.*documented.*lancedb"):
                rt.connect(target, api_key=key, dialect=unknown)


@pytest.mark.parametrize("dialect", [None, *LISTS])
def test_a_folder_can_do_everything_in_every_dialect(tmp_path, dialect):
    client = rt.connect(tmp_path, dialect=dialect)
    for i, known in enumerate((client, pickle.loads(pickle.dumps(client))), 1):
        assert known.create_table("t", FRAME, if_exists="replace").version == i
        assert known.table("t").schema == pa.schema({"a": pa.int64()})


def calls_of(client, status: int) -> list:
    """Return calls that a status tells of another dialect."""
    calls = [client.list_tables, lambda: client.create_table("t", FRAME)]
    if status != 404:
        calls.append(lambda: client.table("t").rename({"a": "b"}))
    return calls


@pytest.mark.parametrize("status", [404, 405, 406, 501])
def test_one_look_tells_which_dialect_fits_and_nothing_is_sent_again(
    server, caplog, status
):
    routed(server, {LIST: (200, {"tables": []})}, status)
    kind = errors.ServerError if status == 501 else errors.ResponseError
    for call in calls_of(connected(server), status):
        server.requests.clear()
        error = fails(call, kind, caplog, f'{status}.*dialect="lancedb"')
        assert (error.status, error.attempts) == (status, 1)
        assert "outcome is unknown" not in str(error)
        assert [request.path for request in server.requests][1:] == [LIST]


@pytest.mark.parametrize("status", [404, 405, 406])
@pytest.mark.parametrize("named_by", ["argument", "environment", "Client"])
@pytest.mark.parametrize(("dialect", "other"), [LISTS, [*LISTS][::-1]])
def test_a_dialect_that_was_named_is_the_only_one_that_is_asked_for(
    server, caplog, monkeypatch, dialect, other, named_by, status
):
    routed(server, {LISTS[other]: (200, {"tables": []})}, status)
    if named_by == "environment":
        monkeypatch.setenv("RT_FRAMES_DIALECT", dialect)
        client = connected(server)
    elif named_by == "argument":
        client = connected(server, dialect=dialect)
    else:
        client = rt.Client(server.url, api_key=KEY, dialect=dialect)
    for call in calls_of(client, status):
        server.requests.clear()
        error = fails(call, errors.ResponseError, caplog, f"{status}.*")
        assert "dialect" not in str(error)
        assert len(server.requests) == 1


def test_after_a_create_that_is_not_implemented_nothing_else_is_asked(server, caplog):
    routed(server, {}, 501)
    client = connected(server, dialect="documented")
    create = functools.partial(client.create_table, "t", FRAME)
    fails(create, errors.ServerError, caplog, "501")
    assert asked(server) == ["POST /v1/tables/t"]


def test_a_client_without_a_named_dialect_looks_for_another_one_also_unpickled(
    server, caplog, monkeypatch
):
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    routed(server, {LIST: (200, {"tables": []})})
    client = rt.Client(server.url, api_key=KEY)
    for known in (client, pickle.loads(pickle.dumps(client))):
        fails(known.list_tables, errors.ResponseError, caplog, "lancedb")


def test_a_server_that_speaks_neither_is_said_to_be_at_another_address(server, caplog):
    for status, other in (
        (404, (404, b"")),
        (405, (200, b"<html>hello</html>")),
        (404, (401, {})),
        (405, (500, {})),
    ):
        routed(server, {LIST: other}, status)
        client = connected(server)
        for call in (
            client.list_tables,
            functools.partial(client.create_table, "t", FRAME),
        ):
            server.requests.clear()
            error = fails(
                call, errors.ResponseError, caplog, f"{status}.*check the URL"
            )
            assert "dialect" not in str(error)
            assert [request.path for request in server.requests][1:] == [LIST]


def nested(levels: int) -> bytes:
    inside = (
        '{"type": "list", "fields": [{"name": "item", "nullable": true, "type": '
        * levels
    )
    return f'{{"schema": {{"fields": [{{"name": "a", "type": {inside}1{"}]}" * levels}}}]}}}}'.encode()


NO_SCHEMAS = {
    "an array": ([], "object"),
    "no fields": ({}, "fields"),
    "no unit": (
        {"fields": [{"name": "at", "type": {"type": "timestamp"}, "nullable": True}]},
        "'timestamp'",
    ),
    "no type": ({"fields": [{"name": "at", "nullable": True}]}, "type"),
    "a name twice": ({"fields": SCHEMA["fields"] * 2}, "'a' more than once"),
    **{f"{levels} levels": (nested(levels), "") for levels in (40, 300, 900, 100_000)},
}


@pytest.mark.parametrize(("schema", "told"), NO_SCHEMAS.values(), ids=NO_SCHEMAS)
def test_a_description_that_is_not_understood_says_what_was_not(
    server, caplog, schema, told
):
    server.answering(
        (200, schema if isinstance(schema, bytes) else {"version": 1, "schema": schema})
    )
    client = connected(server, dialect="lancedb", retries=0)
    fails(
        lambda: client.table("t").schema,
        errors.ResponseError,
        caplog,
        f"describe table 't'.*{told}",
    )
    # reads the request, and hangs up
    server.script = lambda connection: connection.body(connection.head())
    client.close()
    fails(
        lambda: client.table("t").schema,
        errors.TransportError,
        caplog,
        "describe table 't'",
    )


def test_a_description_is_asked_for_once_and_not_by_repr_and_may_be_without_a_schema(
    lancedb, server
):
    server.answering((200, {}), (200, {"version": 3}), (200, {"schema": None}))
    assert [rt.table("t").schema for _ in range(3)] == [None] * 3
    with pytest.raises(ValueError, match="does not describe the columns of table 't'"):
        FRAME.remote.alter_table("t")
    server.requests.clear()
    server.answering((200, {"schema": SCHEMA}))
    table = rt.table("t")
    assert repr(table) == f"RemoteTable('t', at {server.url})"
    assert server.requests == []
    assert "int64" in table._repr_html_()
    assert table.schema == table.schema == pa.schema({"a": pa.int64()})
    assert len(server.requests) == 1
    assert "1 column" in repr(table)


def test_a_strict_server_tells_schema_and_version_as_it_is_asked_for_them_in_the_address(
    lancedb, server
):
    def script(connection) -> None:
        while True:
            request = connection.body(connection.head())
            described = {"location": "s3://x"}
            if request.path.endswith("/describe/?load_detailed_metadata=true"):
                described = {"location": "s3://x", "version": 3, "schema": SCHEMA}
            connection.answer(200, described)

    server.script = script
    assert rt.table("t").schema == pa.schema({"a": pa.int64()})
    assert FRAME.remote.to_table("t", if_exists="append").created is False
    FRAME.cast(pl.Int32).remote.alter_table("t")
    described, appended, _, altered = server.posts[1:]
    assert (appended.path, altered.path) == (
        "/v1/table/t/insert/",
        "/v1/table/t/alter_columns/",
    )
    assert json.loads(described.body) == {"load_detailed_metadata": True}


def test_a_description_is_asked_for_again_since_that_changes_nothing(lancedb, server):
    for first in ((429, {}, {"Retry-After": "0"}), (503, {}), (200, b"not JSON")):
        server.answering(first, (200, {"schema": SCHEMA}))
        assert rt.table("t").schema == pa.schema({"a": pa.int64()})
    assert len(server.posts) == 6


@pytest.mark.parametrize("listed", [True, False])
def test_an_open_create_or_replace_is_looked_up_where_the_dialect_lists(
    server, caplog, listed
):
    def script(connection) -> None:
        while (request := connection.head()).method == "GET":
            connection.answer(200, {"tables": ["t"] if listed else []})
        connection.body(request)

    server.script = script
    client = connected(server, dialect="lancedb")
    for how, told in (
        ("fail", "is listed now" if listed else "is not listed yet"),
        ("replace", "old rows or the new" if listed else "is not listed yet"),
    ):
        server.requests.clear()
        create = functools.partial(client.create_table, "t", FRAME, if_exists=how)
        assert fails(create, errors.OutcomeUnknown, caplog, told).listed is listed
        assert asked(server)[-1] == f"GET {LIST}"
        assert len(server.posts) == 1


def test_replace_is_one_request_and_never_sent_twice(lancedb, server, caplog):
    server.listed = ["t"]
    server.answering((409, {}), (503, {}), (200, {"version": 7}))
    fails(
        lambda: FRAME.remote.to_table("t", if_exists="replace"),
        errors.ConflictError,
        caplog,
        "replace table 't'",
    )
    error = fails(
        lambda: FRAME.remote.to_table("t", if_exists="replace"),
        errors.ServerError,
        caplog,
        "old rows or the new",
    )
    assert error.listed is True
    assert len(server.posts) == 2
    server.requests.clear()
    table = rt.to_table(iter([FRAME]), "t", if_exists="replace")
    assert (table.version, table.created, table.rows) == (7, True, 2)
    # the tables are listed before data that may be large
    assert asked(server) == [f"GET {LIST}", "POST /v1/table/t/create/?mode=overwrite"]
