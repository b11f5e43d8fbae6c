"""A write is stored once, however often it is sent, and whichever answers are lost."""

from __future__ import annotations

import json
import signal
import uuid

import lance
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import OutcomeUnknown, ResponseError, ServerError
from rt_frames.local import LocalService
from tests.longer.once import FAULTS, Proxy
from tests.support.faults import connected
from tests.support.hosted import SMALL_PARTS
from tests.support.local import ARROW, JSON, UPSERT, Caller, age, message, stream
from tests.support.servers import KEY, Server

OLD = pa.table({"id": [1, 2], "n": [10, 20]})
NEW = pa.table({"id": [2, 3], "n": [21, 30]})


@pytest.fixture
def service(tmp_path):
    with LocalService(tmp_path / "tables", api_key=KEY) as service:
        yield service


@pytest.fixture
def proxy(service):
    return Proxy(service.url)


@pytest.fixture
def client(proxy):
    with (
        Server(script=proxy) as server,
        rt.connect(server.url, api_key=KEY, dialect="lancedb", default=False) as client,
    ):
        client.create_table("t", OLD)
        proxy.writes.clear()
        yield client


@pytest.fixture
def caller(service):
    caller = Caller(service.root, service.url, KEY)
    yield caller
    caller.close()


def rows(service: LocalService, name: str = "t") -> list[tuple[object, ...]]:
    return rows_of(lance.dataset(str(service.root / f"{name}.lance")).to_table())


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def columns(service: LocalService) -> list[str]:
    return lance.dataset(str(service.root / "t.lance")).schema.names


def version(service: LocalService, name: str = "t") -> int:
    return lance.dataset(str(service.root / f"{name}.lance")).version


def create(client):
    client.create_table("new", NEW)


def append(client):
    table = client.create_table("t", NEW, if_exists="append")
    assert table.version == 2


def replace(client):
    client.create_table("t", NEW, if_exists="replace")


def upsert(client):
    table = client.create_table("t", NEW, if_exists="upsert", on="id")
    assert table.updated == 1
    assert table.inserted == 1


def delete(client):
    assert client.table("t").delete("id = 1") == 1


def rename(client):
    client.table("t").rename({"n": "m"})


def add_column(client):
    frame = OLD.append_column("x", [[1, 2]])
    rt.alter_table(frame, "t", add_columns=True, client=client)


def drop_column(client):
    rt.alter_table(OLD.drop_columns("n"), "t", drop_columns=["n"], client=client)


def restore(client):
    client.table("t", version=1).restore()


def rewrite(client):
    text = OLD.set_column(1, "n", OLD["n"].cast("string"))
    rt.alter_table(text, "t", rewrite=True, client=client)


STORED = {
    append: ("t", 2, [(1, 10), (2, 20), (2, 21), (3, 30)]),
    replace: ("t", 2, [(2, 21), (3, 30)]),
    upsert: ("t", 2, [(1, 10), (2, 21), (3, 30)]),
    delete: ("t", 2, [(2, 20)]),
    create: ("new", 1, [(2, 21), (3, 30)]),
    rename: ("t", 2, [(1, 10), (2, 20)]),
    add_column: ("t", 2, [(1, 10, None), (2, 20, None)]),
    drop_column: ("t", 2, [(1,), (2,)]),
    restore: ("t", 2, [(1, 10), (2, 20)]),
    rewrite: ("t", 2, [(1, "10"), (2, "20")]),
}


EACH = [
    *((append, fault) for fault in FAULTS),
    *((write, "lost") for write in STORED if write is not append),
]


@pytest.mark.parametrize(("write", "fault"), EACH)
def test_a_write_is_stored_once_whatever_a_proxy_makes_of_it(
    client, proxy, service, write, fault
):
    name, newest, stored = STORED[write]
    proxy.faults = [fault]
    write(client)
    assert proxy.faults == []
    assert rows(service, name) == stored
    assert version(service, name) == newest
    assert len({request.headers["x-rt-frames-call"] for request in proxy.writes}) == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_two_columns_swap_their_names_once(client, proxy, service, fault):
    proxy.faults = [fault]
    client.table("t").rename({"id": "n", "n": "id"})
    assert columns(service) == ["n", "id"]
    assert version(service) == 2


def test_a_rename_is_one_request(proxy):
    with (
        Server(script=proxy) as server,
        rt.connect(server.url, api_key=KEY, dialect="lancedb", default=False) as client,
    ):
        table = client.create_table("t", OLD)
        server.requests.clear()
        table.rename({"n": "m"})
        assert len(server.requests) == 1


def test_two_calls_with_the_same_rows_are_two(client, service):
    client.create_table("t", NEW, if_exists="append")
    client.create_table("t", NEW, if_exists="append")
    assert rows(service) == [(1, 10), (2, 20), *2 * [(2, 21)], *2 * [(3, 30)]]
    assert version(service) == 3


@pytest.mark.parametrize("fault", ["lost", "an earlier answer"])
def test_a_reader_that_is_exhausted_was_stored_if_the_service_says_so(
    client, proxy, service, fault
):
    proxy.faults = [fault]
    reader = NEW.to_reader()
    table = client.create_table("t", reader, if_exists="upsert", on="id")
    assert table.version == 2
    assert table.updated == 1
    assert table.inserted == 1
    assert table.nbytes > 100
    assert len(proxy.writes) == 1
    assert version(service) == 2


def test_a_reader_that_is_exhausted_may_still_be_stored_if_it_is_not_yet(client, proxy):
    proxy.faults = ["not sent"]
    with pytest.raises(OutcomeUnknown, match="so far the table is unchanged"):
        client.create_table("t", NEW.to_reader(), if_exists="upsert", on="id")
    assert len(proxy.writes) == 1


@pytest.mark.parametrize("write", [append, upsert, rename])
def test_an_interrupted_write_says_that_it_was_stored(client, proxy, service, write):
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    proxy.faults = ["interrupted"]
    try:
        with pytest.raises(KeyboardInterrupt) as interrupt:
            write(client)
    finally:
        signal.signal(signal.SIGALRM, handler)
    assert interrupt.value.__notes__[0].endswith("it was carried out (version 2)")
    assert version(service) == 2


@pytest.mark.parametrize("then", ["401", "429"])
def test_what_may_have_been_stored_still_may_when_the_next_attempt_is_refused(
    client, proxy, then
):
    proxy.faults = ["not sent", then, then, then]
    with pytest.raises(OutcomeUnknown, match="so far the table is unchanged"):
        client.create_table("t", NEW, if_exists="append")


@pytest.mark.parametrize("then", ["401", "404"])
def test_what_was_stored_is_a_success_when_the_next_attempt_is_refused(
    client, proxy, service, then
):
    proxy.faults = ["lost", then]
    assert client.create_table("t", NEW, if_exists="append").version == 2
    assert version(service) == 2


def test_a_truncated_write_is_sent_again(client, proxy, service):
    proxy.faults = ["truncated"]
    frame = pa.table({"id": range(10**6), "n": range(10**6)})
    client.create_table("t", frame, if_exists="append", compression=None)
    assert len(proxy.writes) == 2
    assert lance.dataset(str(service.root / "t.lance")).count_rows() == 2 + 10**6


@pytest.fixture
def in_parts(proxy):
    with (
        Server(script=proxy) as server,
        connected(server, dialect=SMALL_PARTS) as client,
    ):
        client.create_table("t", OLD)
        proxy.writes.clear()
        yield client


@pytest.mark.parametrize("fault", ["twice", "twice at once"])
@pytest.mark.parametrize("if_exists", ["append", "replace"])
def test_parts_that_a_proxy_sends_twice_are_stored_once(
    in_parts, proxy, service, if_exists, fault
):
    proxy.part_fault = fault
    in_parts.create_table("t", MANY, if_exists=if_exists, compression=None)
    before = rows_of(OLD) if if_exists == "append" else []
    assert rows(service) == before + rows_of(MANY)
    assert version(service) == 2


def commits_of(proxy: Proxy) -> list[str]:
    return [one.path for one in proxy.writes if "complete" in one.path]


def lose_commit(proxy: Proxy, meanwhile) -> None:
    """Lose the first commit before the service, where something happens then."""

    def draw_fault():
        if len(commits_of(proxy)) != 1:
            return ""
        meanwhile()
        return "not sent"

    proxy.draw_fault = draw_fault


def end_uploads(service: LocalService) -> None:
    """Leave what a service leaves that is killed when it begins a commit."""
    for upload in service.root.glob(".rt_frames-staging/*/table/upload"):
        upload.unlink()


MANY = pa.table({"id": range(10, 20_010), "n": range(20_000)})
APPENDING = {"if_exists": "append", "compression": None}


@pytest.mark.parametrize("fault", ["twice", "twice at once", "lost", "not sent"])
def test_a_write_in_parts_is_stored_once(in_parts, proxy, service, fault):
    proxy.faults = [fault]
    in_parts.create_table("t", MANY, **APPENDING)
    assert proxy.faults == []
    assert rows(service) == rows_of(OLD) + rows_of(MANY)
    assert version(service) == 2


def test_a_table_that_is_made_in_parts_is_stored_once(in_parts, proxy, service):
    # the table without rows, and then its end
    proxy.faults = ["", "lost"]
    in_parts.create_table("new", MANY, compression=None)
    assert proxy.faults == []
    assert rows(service, "new") == rows_of(MANY)
    assert version(service, "new") == 2


LOST = [
    ("t", "append", rows_of(OLD)),
    ("t", "replace", []),
    ("new", "fail", []),
]


@pytest.mark.parametrize(("name", "if_exists", "before"), LOST)
def test_a_write_in_parts_begins_anew_if_the_service_lost_it(
    in_parts, proxy, service, name, if_exists, before
):
    lose_commit(proxy, lambda: end_uploads(service))
    in_parts.create_table(name, MANY, if_exists=if_exists, compression=None)
    assert len(set(commits_of(proxy))) == 2
    assert len(commits_of(proxy)) == 3
    assert rows(service, name) == before + rows_of(MANY)


def test_a_reader_that_is_exhausted_was_not_stored_if_the_service_lost_its_parts(
    in_parts, proxy, service
):
    lose_commit(proxy, lambda: end_uploads(service))
    with pytest.raises(ResponseError, match="nothing was stored") as error:
        in_parts.create_table("t", MANY.to_reader(max_chunksize=5_000), **APPENDING)
    assert not isinstance(error.value, OutcomeUnknown)
    assert rows(service) == rows_of(OLD)


def test_a_write_in_parts_may_be_stored_if_its_versions_are_gone(
    in_parts, proxy, service, caller
):
    def make_again():
        caller.send("POST", "/v1/table/t/drop/")
        caller.create("t", OLD)

    in_parts.create_table("t", NEW, if_exists="append")
    lose_commit(proxy, make_again)
    with pytest.raises(OutcomeUnknown):
        in_parts.create_table("t", MANY, **APPENDING)
    assert rows(service) == rows_of(OLD)


def test_a_write_in_parts_may_be_stored_if_a_proxy_knows_no_upload(in_parts, proxy):
    proxy.faults = ["not sent", "404"]
    with pytest.raises(OutcomeUnknown):
        in_parts.create_table("t", MANY, **APPENDING)


def test_a_service_that_does_not_store_once_gets_a_write_once(tmp_path):
    old = {"x-rt-frames": "0.3.0", "phalanx-version": "0.4.0"}
    server = Server().answering((200, {"version": 1}, old), (502, b"", {}))
    with (
        server,
        rt.connect(server.url, api_key=KEY, default=False) as client,
    ):
        client.create_table("a", OLD)
        with pytest.raises(ServerError):
            client.create_table("b", OLD)
    assert len(server.posts) == 2
    assert "x-rt-frames-call" not in server.posts[1].headers


@pytest.mark.parametrize(("dialect", "lists"), [("lancedb", 1), ("documented", 0)])
def test_a_new_client_lists_the_tables_before_its_first_write(service, dialect, lists):
    proxy = Proxy(service.url)
    with (
        Server(script=proxy) as server,
        rt.connect(server.url, api_key=KEY, dialect=dialect, default=False) as client,
    ):
        client.create_table("a", OLD)
        client.create_table("b", OLD)
        assert len(server.requests) == 2 + lists
    # one without an answer yet is not asked with the documented dialect
    assert len(proxy.writes) == 1 + lists


def send(caller: Caller, path: str, body: bytes, since: int, call: str):
    return caller.send(
        "POST",
        path,
        body,
        content_type=ARROW,
        x_rt_frames_call=call,
        x_rt_frames_since=str(since),
    )


INSERT = "/v1/table/t/insert/"
CALL = "7b0f5e9e-57a1-4b0c-a6a5-0ad5c3ff1d53"


def test_the_service_returns_the_id_and_the_first_answer(caller):
    caller.create("t", OLD)
    call = str(uuid.uuid4())
    first = send(caller, INSERT, stream(NEW), 1, call)
    second = send(caller, INSERT, stream(NEW), 1, call)
    assert first.json() == second.json() == {"version": 2}
    assert first.headers["x-rt-frames-call"] == second.headers["x-rt-frames-call"]
    assert caller.version("t") == 2


def test_the_answer_of_a_create_has_the_etag_of_its_version(caller):
    call = str(uuid.uuid4())
    first = send(caller, "/v1/tables/t", stream(OLD), 0, call)
    send(caller, INSERT, stream(NEW), 1, str(uuid.uuid4()))
    second = send(caller, "/v1/tables/t", stream(OLD), 0, call)
    assert second.json() == {"version": 1}
    assert second.headers["ETag"] == first.headers["ETag"]


OTHERS = [
    f"{INSERT}?mode=overwrite",
    f"/v1/table/t/merge_insert/?on=id&{UPSERT}",
    "/v1/tables/t",
]


@pytest.mark.parametrize("path", OTHERS)
def test_an_id_belongs_to_one_request(caller, path):
    caller.create("t", OLD)
    call = str(uuid.uuid4())
    send(caller, INSERT, stream(NEW), 1, call)
    refused = send(caller, path, stream(NEW), 1, call)
    assert refused.status_code == 422
    assert "another request had this id" in message(refused)
    assert caller.version("t") == 2


@pytest.mark.parametrize(("call", "since"), [("7", "1"), (CALL, "-1"), (CALL, "")])
def test_an_id_that_is_no_uuid_and_a_version_that_is_no_number_are_refused(
    caller, call, since
):
    caller.create("t", OLD)
    assert send(caller, INSERT, stream(NEW), since, call).status_code == 400
    assert caller.version("t") == 1


def test_a_call_that_began_before_a_drop_cannot_be_told(caller, service):
    caller.create("t", OLD)
    for _ in range(2):
        send(caller, INSERT, stream(NEW), 1, str(uuid.uuid4()))
    caller.send("POST", "/v1/table/t/drop/")
    caller.create("t", OLD)
    refused = send(caller, INSERT, stream(NEW), 3, str(uuid.uuid4()))
    assert refused.status_code == 409
    assert "cannot be told" in message(refused)
    assert rows(service) == [(1, 10), (2, 20)]


def test_a_call_whose_versions_are_gone_cannot_be_told(caller, service):
    caller.create("t", OLD)
    for _ in range(3):
        send(caller, INSERT, stream(NEW), 1, str(uuid.uuid4()))
    dataset = lance.dataset(str(service.root / "t.lance"))
    dataset.cleanup_old_versions(versions=[3])
    refused = send(caller, INSERT, stream(NEW), 2, str(uuid.uuid4()))
    assert refused.status_code == 409
    assert caller.version("t") == 4
    assert send(caller, INSERT, stream(NEW), 3, str(uuid.uuid4())).status_code == 200


def test_a_create_is_looked_for_in_the_versions_of_the_last_minutes(caller, service):
    call = str(uuid.uuid4())
    send(caller, "/v1/tables/t", stream(OLD), 0, call)
    assert send(caller, "/v1/tables/t", stream(OLD), 0, call).status_code == 200
    age(service.root / "t.lance" / "_versions", hours=0.2)
    refused = send(caller, "/v1/tables/t", stream(OLD), 0, call)
    assert refused.status_code == 409
    assert "already exists" in message(refused)


@pytest.mark.parametrize("since", [0, 1])
def test_a_rename_that_is_undone_is_not_made_again_by_a_late_arrival(
    caller, service, since
):
    caller.create("t", OLD)
    alter = "/v1/table/t/alter_columns/"
    first = json.dumps({"alterations": [{"path": "n", "rename": "m"}]})
    headers = {"x_rt_frames_call": CALL, "x_rt_frames_since": str(since)}
    for _ in range(2):
        renamed = caller.send("POST", alter, first, content_type=JSON, **headers)
        assert renamed.json() == {"version": 2}
        caller.alter("t", {"path": "m", "rename": "n"})
        assert columns(service) == ["id", "n"]


def test_a_restore_leaves_the_ids_before_it(caller):
    caller.create("t", OLD)
    call = str(uuid.uuid4())
    send(caller, INSERT, stream(NEW), 1, call)
    body = json.dumps({"version": 1})
    caller.send("POST", "/v1/table/t/restore/", body, content_type=JSON)
    assert send(caller, INSERT, stream(NEW), 1, call).json() == {"version": 2}
    assert caller.read("t").equals(OLD)


def test_a_purge_that_is_sent_again_purges_again(caller, service):
    caller.create("t", OLD)
    for _ in range(2):
        send(caller, INSERT, stream(NEW), 1, str(uuid.uuid4()))
    purge = ("POST", "/v1/table/t/compact/", '{"purge": true}')
    call = {"x_rt_frames_call": CALL, "x_rt_frames_since": "3"}
    for _ in range(2):
        compacted = caller.send(*purge, content_type=JSON, **call)
        assert compacted.status_code == 200
        assert len(lance.dataset(str(service.root / "t.lance")).versions()) == 1
        caller.send("POST", INSERT, stream(NEW), content_type=ARROW)
        caller.send("POST", INSERT, stream(NEW), content_type=ARROW)
