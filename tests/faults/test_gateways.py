"""Gateways that pass on only documented headers, and proxies that answer by themselves.

F51 of the matrix in README.md. What the client says is compared with what Lance reads.
"""

from __future__ import annotations

from collections.abc import Callable

import lance
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import OutcomeUnknown, RemoteError, ResponseError
from rt_frames.local import LocalService
from tests.support.faults import connected
from tests.support.hosted import SMALL_PARTS
from tests.support.servers import KEY, Server, forward

OLD = pa.table({"id": [1, 2], "n": [10, 20]})
NEW = pa.table({"id": [2, 3], "n": [21, 30]})
MANY = pa.table({"id": range(10, 20_010), "n": range(20_000)})
BEFORE = [(1, 10), (2, 20)]
ID = pl.col("id")

# the service's documentation names the first two, HTTP needs the others
DOCUMENTED = (b"x-api-key", b"content-type", b"host", b"content-length", b"connection")


@pytest.fixture
def service(tmp_path):
    with LocalService(tmp_path / "tables", api_key=KEY) as service:
        with rt.connect(service.root, default=False) as folder:
            folder.create_table("t", OLD)
        yield service


def stripped(head: bytes) -> bytes:
    """Return a head with documented headers alone."""
    first, *lines = head.split(b"\r\n")
    kept = [line for line in lines if line.lower().startswith(DOCUMENTED)]
    return b"\r\n".join([first, *kept])


def gateway(service: LocalService) -> Server:
    """Return a server that passes documented headers on, in both directions."""

    def script(connection):
        request = connection.body(connection.head())
        request.head = stripped(request.head)
        head, _, body = forward(request, service.url).partition(b"\r\n\r\n")
        connection.sock.sendall(stripped(head) + b"\r\n\r\n" + body)

    return Server(script=script)


def rows(service: LocalService, name: str = "t") -> object:
    """Return the rows of a table with its columns, or None without one."""
    path = service.root / f"{name}.lance"
    if not path.exists():
        return None
    table = lance.dataset(str(path)).to_table()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def columns(service: LocalService) -> list[str]:
    return lance.dataset(str(service.root / "t.lance")).schema.names


def add(client):
    wider = OLD.append_column("x", pa.array([0, 0]))
    rt.alter_table(wider, "t", OLD, add_columns=True, client=client)


def drop_column(client):
    plan = rt.plan_alterations(OLD, OLD.drop_columns("n"), drop_columns=["n"])
    client.alter_columns("t", plan)


def upsert(client):
    client.create_table("t", NEW, if_exists="upsert", on="id")


def store(name: str, **options: object) -> Callable[[rt.Client], object]:
    return lambda client: client.create_table(name, NEW, **options)


ONLY_NEW = [(2, 21), (3, 30)]
BOTH = [(1, 10), (2, 20), *ONLY_NEW]
# of each dialect: a call, and the rows of its table then
LANCEDB = {
    "create": (store("new"), "new", ONLY_NEW),
    "replace": (store("t", if_exists="replace"), "t", ONLY_NEW),
    "append": (store("t", if_exists="append"), "t", BOTH),
    "upsert": (upsert, "t", [(1, 10), (2, 21), (3, 30)]),
    "rename": (lambda client: client.table("t").rename({"n": "m"}), "t", BEFORE),
    "add a column": (add, "t", [(1, 10, None), (2, 20, None)]),
    "drop a column": (drop_column, "t", [(1,), (2,)]),
    "delete": (lambda client: client.table("t").delete(ID == 1), "t", [(2, 20)]),
    "restore": (lambda client: client.table("t", version=1).restore(), "t", BEFORE),
    "drop": (lambda client: client.table("t").drop(), "t", None),
}
HOSTED = {name: LANCEDB[name] for name in ("create", "rename")}
CALLS = [
    *(("lancedb", name) for name in LANCEDB),
    *(("documented", name) for name in HOSTED),
]


@pytest.mark.parametrize(("dialect", "name"), CALLS)
def test_F51_headers_that_nobody_documents_are_not_needed(service, dialect, name):
    call, table, after = LANCEDB[name]
    with gateway(service) as server, connected(server, dialect=dialect) as client:
        call(client)
    assert rows(service, table) == after
    assert name != "rename" or columns(service) == ["id", "m"]


def test_F51_a_large_write_is_stored_once_behind_such_a_gateway(service):
    with gateway(service) as server, connected(server, dialect=SMALL_PARTS) as client:
        client.create_table("t", MANY, if_exists="append", compression=None)
    assert lance.dataset(str(service.root / "t.lance")).count_rows() == 2 + 20_000


def answering_itself(service: LocalService, step: str) -> Server:
    """Return a proxy that answers requests to a path by itself, with ``200 {}``."""

    def script(connection):
        request = connection.body(connection.head())
        if f"/{step}" in request.path and request.method == "POST":
            connection.answer(200, {})
        else:
            connection.sock.sendall(forward(request, service.url))

    return Server(script=script)


# a documented success: nothing shows that the service never got the request
BELIEVED = [
    ("documented", "create", "tables/new"),
    ("documented", "rename", "alter_columns"),
    ("lancedb", "create", "create/"),
    ("lancedb", "replace", "create/"),
    ("lancedb", "append", "insert/"),
    ("lancedb", "upsert", "merge_insert/"),
    ("lancedb", "rename", "alter_columns/"),
    ("lancedb", "add a column", "add_columns/"),
    ("lancedb", "drop a column", "drop_columns/"),
    ("lancedb", "delete", "delete/"),
    ("lancedb", "restore", "restore/"),
    ("lancedb", "drop", "drop/"),
]


@pytest.mark.parametrize(("dialect", "name", "step"), BELIEVED)
def test_F51_a_proxys_own_success_changes_nothing_and_reports_no_version(
    service, dialect, name, step
):
    call, table, _ = LANCEDB[name]
    server = answering_itself(service, step)
    with server, connected(server, dialect=dialect) as client:
        result = call(client)
    assert getattr(result, "version", None) is None
    assert rows(service, table) == (None if table == "new" else BEFORE)


# what asks for a value is not taken in
ASKING = {
    "multipart_write/create": lambda client: client.create_table(
        "t", MANY, if_exists="append", compression=None
    ),
    "count_rows/": lambda client: client.table("t").count(),
    "query/": lambda client: client.table("t").to_arrow(),
    "version/list/": lambda client: client.table("t").history(),
}


@pytest.mark.parametrize("step", ASKING)
def test_F51_a_proxys_own_success_is_no_answer_to_a_question(service, step):
    server = answering_itself(service, step)
    with server, connected(server, dialect=SMALL_PARTS) as client:
        client.list_tables()
        with pytest.raises(ResponseError):
            ASKING[step](client)
    assert rows(service) == BEFORE


@pytest.mark.parametrize("if_exists", ["append", "replace"])
def test_F51_parts_that_a_proxy_took_are_missed(service, if_exists):
    server = answering_itself(service, "insert/")
    with server, connected(server, dialect=SMALL_PARTS) as client:
        client.list_tables()
        with pytest.raises(RemoteError) as caught:
            client.create_table("t", MANY, if_exists=if_exists, compression=None)
    assert isinstance(caught.value, OutcomeUnknown)
    assert rows(service) in (BEFORE, [])
