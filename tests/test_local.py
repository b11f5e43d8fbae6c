"""The embedded service on its own: what it takes, what it refuses, and that it never shows half a table."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import lancedb
import pyarrow as pa
import pytest
import requests

import rt_frames as rt
from rt_frames.local import LocalService
from tests.compare import stored
from tests.servers import KEY

if TYPE_CHECKING:
    from collections.abc import Callable

ARROW = "application/vnd.apache.arrow.stream"
TABLE = pa.table({"a": [1, 2, 3], "s": ["x", None, "z"]})


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def post(service, path: str, body: object, content_type: str = ARROW, **headers: str) -> requests.Response:
    every = {"x-api-key": service.api_key, "content-type": content_type, **headers}
    return requests.post(f"{service.url}/v1/{path}", data=body, headers=every, timeout=30)


def alter(service, name: str, *alterations: dict) -> requests.Response:
    every = {"x-api-key": service.api_key}
    return requests.post(
        f"{service.url}/v1/table/{name}/alter_columns", json={"alterations": alterations}, headers=every, timeout=30
    )


def names(service) -> list[str]:
    return requests.get(f"{service.url}/v1/tables", headers={"x-api-key": service.api_key}, timeout=30).json()["tables"]


def message(answer: requests.Response) -> str:
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    return error["message"]


def staged(service) -> list[str]:
    return [path.name for path in (Path(service.root) / ".staging").iterdir()]


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not what() and time.monotonic() < until:
        time.sleep(0.01)


@pytest.fixture
def fresh(tmp_path):
    with LocalService(tmp_path / "root", api_key=KEY) as running:
        yield running


def test_a_table_is_a_folder_that_lance_and_lancedb_open(fresh):
    assert post(fresh, "tables/t", stream(TABLE)).json() == {"version": 1}
    assert names(fresh) == ["t"]
    assert lance.dataset(f"{fresh.root}/t.lance").to_table() == TABLE
    assert lancedb.connect(str(fresh.root)).open_table("t").to_arrow() == TABLE


def test_names_are_listed_sorted(fresh):
    for name in ("b", "a", "c.d", "_", "0"):
        assert post(fresh, f"tables/{name}", stream(TABLE)).status_code == 200
    assert names(fresh) == ["0", "_", "a", "b", "c.d"]


def test_S01_a_stream_that_is_cut_at_any_byte_is_refused_and_leaves_nothing(fresh):
    whole = stream(TABLE)
    statuses = {post(fresh, "tables/cut", whole[:i]).status_code for i in range(len(whole))}
    assert statuses == {400}
    assert (names(fresh), staged(fresh)) == ([], [])
    assert post(fresh, "tables/cut", whole).status_code == 200


@pytest.mark.parametrize("ending", [b"", b"5\r\nabc"], ids=["no last chunk", "half a chunk"])
def test_S01_a_chunked_body_without_its_end_is_refused(fresh, ending):
    body = stream(TABLE)
    head = f"POST /v1/tables/t HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {KEY}\r\nContent-Type: {ARROW}\r\n"
    with socket.create_connection(("127.0.0.1", int(fresh.url.rpartition(":")[2]))) as sock:
        framed = b"%x\r\n%b\r\n" % (len(body), body)
        sock.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + framed + ending)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(65536).startswith(b"HTTP/1.1 400")
    assert (names(fresh), staged(fresh)) == ([], [])


def test_S01_a_content_length_that_is_not_met_is_refused(fresh):
    body = stream(TABLE)
    head = f"POST /v1/tables/t HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {KEY}\r\nContent-Type: {ARROW}\r\n"
    with socket.create_connection(("127.0.0.1", int(fresh.url.rpartition(":")[2]))) as sock:
        sock.sendall(head.encode() + f"Content-Length: {len(body) + 9}\r\n\r\n".encode() + body)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(65536).startswith(b"HTTP/1.1 400")
    assert (names(fresh), staged(fresh)) == ([], [])


def test_a_chunked_body_of_any_chunk_size_is_taken(fresh):
    body = stream(TABLE)
    for size in (1, 7, 100, len(body)):
        pieces = (body[i : i + size] for i in range(0, len(body), size))
        assert post(fresh, f"tables/c{size}", pieces).status_code == 200
        assert lance.dataset(f"{fresh.root}/c{size}.lance").to_table() == TABLE


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"a,b\n1,2\n3,4\n", "CSV"),
        (b"<html></html>", "HTML"),
        (b'{"a": 1}', "JSON"),
        (b"PAR1\x15\x04\x15\x10", "Parquet"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "gzip"),
        (b"ARROW1\x00\x00" + stream(TABLE), "Arrow IPC file"),
        (stream(TABLE) + b"\x00", "follow the end"),
        (stream(TABLE) * 2, "follow the end"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x" * 100, "sensible size"),
    ],
)
def test_S03_what_is_no_arrow_stream_is_refused_with_a_helpful_sentence(fresh, body, words):
    answer = post(fresh, "tables/t", body)
    assert answer.status_code == 400
    assert words in message(answer)
    assert (names(fresh), staged(fresh)) == ([], [])


def vectors(item: pa.DataType, size: int = 2) -> pa.Table:
    return pa.table({"c": pa.array([], pa.list_(item, size))})


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pa.table({"c": pa.nulls(2)}), "'c'.*null"),
        (pa.table({"c": pa.array([], pa.list_(pa.null()))}), "'c.item'.*null"),
        (pa.table({"a.b": [1]}), "'a.b'.*dot"),
        (pa.table({"": [1]}), "empty"),
        (pa.table({"a\x00": [1]}), "control"),
        (pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["c", "c"]), "more than once.*'c'"),
        (pa.table({"c": pa.array([], pa.struct([]))}), "'c'.*fields"),
        (vectors(pa.string()), "'c'.*fixed-size"),
        (vectors(pa.struct([("x", pa.int8())])), "'c'.*fixed-size"),
        (vectors(pa.int8(), 2**20 + 1), "'c'.*1048576"),
        (pa.table({"c": pa.array(["a"]).cast(pa.string_view())}), "'c'.*string_view"),
        (pa.table({f"c{i}": pa.array([], pa.int8()) for i in range(10_001)}), "10000"),
        (pa.table({}), "0 columns"),
    ],
)
def test_S04_streams_that_would_harm_the_engine_are_refused_by_column(fresh, table, words):
    answer = post(fresh, "tables/t", stream(table))
    assert answer.status_code == 400
    assert re.search(words, message(answer))
    assert (names(fresh), staged(fresh)) == ([], [])


def test_S04_offsets_that_lead_out_of_their_buffers_are_refused(fresh):
    offsets = pa.py_buffer(b"".join(i.to_bytes(4, "little") for i in (0, 1, 2**30, 3)))
    text = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abc")])
    answer = post(fresh, "tables/t", stream(pa.table({"s": text})))
    assert answer.status_code == 400
    assert "not valid" in message(answer)


def test_S05_of_four_creates_of_one_name_one_wins(fresh):
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(post(fresh, "tables/t", stream(TABLE)).status_code))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200, 409, 409, 409]
    assert lance.dataset(f"{fresh.root}/t.lance").to_table() == TABLE
    assert staged(fresh) == []


def test_S06_alters_at_once_are_done_one_after_the_other(fresh):
    post(fresh, "tables/t", stream(pa.table({f"c{i}": [i] for i in range(8)})))
    answers: list[int] = []
    threads = [
        threading.Thread(
            target=lambda i=i: answers.append(alter(fresh, "t", {"path": f"c{i}", "rename": f"d{i}"}).status_code)
        )
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 8
    assert lance.dataset(f"{fresh.root}/t.lance").to_table().to_pydict() == {f"d{i}": [i] for i in range(8)}


REFUSED = [
    ([{"path": "nope", "rename": "b"}], "'nope'.*'a'"),
    ([{"path": "a", "rename": "s"}], "same name.*'s'"),
    ([{"path": "a", "rename": ""}], "empty"),
    ([{"path": "a", "rename": "x\x00y"}], "control"),
    ([{"path": "a", "rename": "x.y"}], "dot"),
    ([{"path": "a", "rename": "b"}, {"path": "a", "nullable": True}], "more than once.*'a'"),
    ([{"path": "a"}], "'a'.*nothing"),
    ([{"path": "a", "colour": "red"}], "colour"),
    ([{"path": "a", "data_type": {"type": "nope"}}], "'a'.*data_type.type.*nope"),
    ([{"path": "a", "data_type": {"type": "fixed_size_list"}}], "'a'.*data_type.fields"),
    ([{"path": "a", "nullable": "yes"}], "'a'.*nullable"),
    ([{"path": "a", "rename": "b"}, {"path": "s", "data_type": {"type": "int64"}}], "'s'.*string to int64"),
    ([{"path": "s", "nullable": False}], "'s'.*nullable=False"),
    ([{"path": "a", "data_type": {"type": "int8"}, "nullable": False}], "'a'.*int64 to int8.*nullable"),
    ([], "at least one"),
]


@pytest.mark.parametrize(("alterations", "words"), REFUSED)
def test_S06_S07_a_bad_alteration_is_refused_and_nothing_changes(fresh, alterations, words):
    post(fresh, "tables/t", stream(TABLE))
    answer = alter(fresh, "t", *alterations)
    assert answer.status_code == 400
    assert re.search(words, message(answer)), message(answer)
    table = lance.dataset(f"{fresh.root}/t.lance")
    assert (table.version, table.to_table()) == (1, TABLE)


def test_alterations_have_the_semantics_of_the_engine(fresh):
    nested = pa.table({"a": [1], "b": [2], "o": [{"x": 1, "y": [{"z": 2}]}]})
    post(fresh, "tables/t", stream(nested))
    assert alter(fresh, "t", {"path": "a", "rename": "b"}, {"path": "b", "rename": "a"}).json() == {"version": 2}
    assert alter(fresh, "t", {"path": "o.x", "rename": "w"}, {"path": "o.y.item.z", "rename": "q"}).status_code == 200
    cast = {"path": "o.w", "data_type": {"type": "int32"}}
    assert alter(fresh, "t", cast, {"path": "a", "data_type": {"type": "int8"}, "rename": "n"}).status_code == 200
    table = lance.dataset(f"{fresh.root}/t.lance").to_table()
    assert table.to_pylist() == [{"b": 1, "n": 2, "o": {"w": 1, "y": [{"q": 2}]}}]
    assert table.schema.field("n").type == pa.int8()
    assert table.schema.field("o").type.field("w").type == pa.int32()


def test_S09_only_the_right_key_and_the_right_host_are_answered(fresh):
    url = f"{fresh.url}/v1/tables"
    for headers in ({}, {"x-api-key": ""}, {"x-api-key": KEY + "x"}, {"x-api-key": "é".encode()}):
        assert requests.get(url, headers=headers, timeout=30).status_code == 401
    assert requests.get(url, headers={"x-api-key": KEY, "Host": "example.com"}, timeout=30).status_code == 400


@pytest.mark.parametrize(
    "name",
    [
        ".x",
        "%2e%2e",
        "..%2Fx",
        "%2Ftmp%2Fx",
        "file%3A%2F%2F%2Ftmp%2Fx",
        "s3%3A%2F%2Fx",
        "a%5Cb",
        "a" * 129,
        "%ff",
        "%00",
    ],
)
def test_S10_names_that_lead_elsewhere_are_refused(fresh, name):
    before = set(Path(fresh.root).parent.iterdir())
    sock = socket.create_connection(("127.0.0.1", int(fresh.url.rpartition(":")[2])))
    body = stream(TABLE)
    head = f"POST /v1/tables/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {KEY}\r\nContent-Type: {ARROW}\r\n"
    with sock:
        sock.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert sock.recv(65536).split(b" ")[1] in (b"400", b"404")
    assert (names(fresh), set(Path(fresh.root).parent.iterdir())) == ([], before)


@pytest.mark.parametrize(
    ("method", "path", "content_type", "status"),
    [
        ("DELETE", "tables/t", ARROW, 405),
        ("POST", "tables", ARROW, 405),
        ("GET", "table/t/alter_columns", ARROW, 405),
        ("GET", "nothing", ARROW, 404),
        ("POST", "tables/t", "application/json", 415),
        ("POST", "table/t/alter_columns", "application/json", 404),
    ],
)
def test_other_requests_are_told_what_is_wrong(fresh, method, path, content_type, status):
    headers = {"x-api-key": KEY, "content-type": content_type}
    answer = requests.request(method, f"{fresh.url}/v1/{path}", headers=headers, data=b"{}", timeout=30)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)


def test_S02_a_killed_client_leaves_nothing(fresh):
    body = stream(pa.table({"a": range(100_000)}))
    head = f"POST /v1/tables/t HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {KEY}\r\nContent-Type: {ARROW}\r\n"
    sock = socket.create_connection(("127.0.0.1", int(fresh.url.rpartition(":")[2])))
    sock.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:-100])
    wait_for(lambda: staged(fresh) != [])
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    sock.close()
    wait_for(lambda: staged(fresh) == [])
    assert (names(fresh), staged(fresh)) == ([], [])
    assert post(fresh, "tables/t", body).status_code == 200


def test_S02_a_killed_service_leaves_nothing_that_the_next_one_keeps(tmp_path):
    env = {**os.environ, "RT_FRAMES_API_KEY": KEY}
    command = [sys.executable, "-m", "rt_frames.cli", "serve", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as service:
        url = service.stdout.readline().removeprefix("export RT_FRAMES_URL=").strip()
        body = stream(pa.table({"a": range(1_000_000)}))
        head = f"POST /v1/tables/t HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {KEY}\r\nContent-Type: {ARROW}\r\n"
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as sock:
            sock.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:-100])
            wait_for(lambda: list((tmp_path / ".staging").iterdir()) != [])
            service.send_signal(signal.SIGKILL)
            service.wait()
    assert list((tmp_path / ".staging").iterdir()) != []
    with LocalService(tmp_path, api_key=KEY) as again:
        assert (names(again), staged(again)) == ([], [])
        assert post(again, "tables/t", body).status_code == 200


def test_two_services_on_one_folder_do_not_disturb_each_other(fresh):
    body = stream(TABLE)
    head = f"POST /v1/tables/slow HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {KEY}\r\nContent-Type: {ARROW}\r\n"
    with socket.create_connection(("127.0.0.1", int(fresh.url.rpartition(":")[2]))) as sock:
        sock.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:-8])
        time.sleep(0.2)
        with LocalService(fresh.root, api_key=KEY) as other:
            assert post(other, "tables/t", body).status_code == 200
            sock.sendall(body[-8:])
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
            assert names(fresh) == names(other) == ["slow", "t"]
            assert alter(other, "slow", {"path": "a", "rename": "b"}).json() == {"version": 2}
            assert alter(fresh, "slow", {"path": "b", "rename": "c"}).json() == {"version": 3}


def test_an_early_refusal_is_heard_while_much_is_still_being_sent(fresh):
    started = time.monotonic()
    chunks = (b"x" * 2**20 for _ in range(64))
    assert post(fresh, "tables/t", chunks, **{"x-api-key": "wrong"}).status_code == 401
    assert time.monotonic() - started < 5


def test_a_process_that_forgets_its_service_still_ends(tmp_path):
    code = f"import rt_frames as rt; c = rt.connect({str(tmp_path)!r}); print(c.list_tables())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)


def test_a_row_of_dictionaries_is_stored_as_it_was_meant(fresh):
    batches = [pa.record_batch({"c": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["x", "a", "x"])]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    post(fresh, "tables/t", sink.getvalue().to_pybytes())
    assert stored(fresh, "t")["c"].to_pylist() == ["a", "b", "x", "a", "x"]


def test_a_closed_service_can_be_started_again(tmp_path):
    service = LocalService(tmp_path)
    with service:
        key = service.api_key
        rt.connect(service.url, api_key=key, default=False).list_tables()
    with pytest.raises(RuntimeError, match="not running"):
        _ = service.url
    with service:
        assert names(service) == []
    service.close()
