"""Faults of clients, disks and callers that the embedded service has to survive: S01, S02, S08 to S10."""

from __future__ import annotations

import random
import socket
import struct
import time

import pyarrow as pa
import pyarrow.parquet
import pytest

from rt_frames.local import LocalService
from tests.support.local import ARROW, TABLE, Caller, Process, answered, message, stream


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


# S01


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.long)])  # messages end at multiples of 8
def test_s01_a_stream_cut_at_any_byte_is_refused_and_leaves_nothing(caller, step):
    body = stream(TABLE, rows=2)
    for cut in {*range(0, len(body), step), *range(0, len(body), 13)}:
        answer = caller.create("t", body[:cut])
        assert (answer.status_code, caller.staged()) == (400, []), cut
        assert any(word in message(answer) for word in ("cut", "empty")), cut
    assert caller.tables() == []
    assert caller.create("t", body).status_code == 200
    assert caller.read("t").equals(TABLE)


def test_s01_a_body_shorter_than_its_length_is_refused_whole_stream_or_not(caller):
    body = stream(TABLE)
    for sent in (0, 1, 8, 300, len(body)):
        with caller.connect() as connection:
            connection.sendall(caller.head("/v1/tables/t", f"Content-Length: {len(body) + 1}") + body[:sent])
            connection.shutdown(socket.SHUT_WR)
            status, answer = answered(connection)
        assert status == 400
        assert f"broke off after {sent} bytes" in answer["error"]["message"]
    assert caller.tables() == []


def test_s01_a_body_longer_than_its_length_is_refused(caller):
    body = stream(TABLE)
    with caller.connect() as connection:
        connection.sendall(caller.head("/v1/tables/t", f"Content-Length: {len(body) - 8}") + body)
        connection.shutdown(socket.SHUT_WR)
        status = int(connection.recv(65536).split()[1])
    assert status == 400
    assert caller.tables() == []


@pytest.mark.parametrize("ending", [b"", b"0", b"0\r\n", b"5\r\nab", b"\r\n\r\n", b"-1\r\n\r\n", b"zz\r\n\r\n"])
def test_s01_a_chunked_body_without_its_last_chunk_is_refused(caller, ending):
    body = stream(TABLE)
    chunks = b"%x\r\n%b\r\n" % (len(body), body)
    with caller.connect() as connection:
        connection.sendall(caller.head("/v1/tables/t", "Transfer-Encoding: chunked") + chunks + ending)
        connection.shutdown(socket.SHUT_WR)
        status, _ = answered(connection)
    assert status == 400
    assert caller.tables() == []


# S02


@pytest.mark.parametrize("how", ["FIN", "RST"])
def test_s02_a_client_that_dies_in_mid_upload_leaves_nothing_and_the_name_free(caller, how):
    table = pa.table({"n": range(200_000)})
    body = stream(table, rows=1000)
    connection = caller.connect()
    connection.sendall(caller.head("/v1/tables/t", f"Content-Length: {len(body)}") + body[: len(body) // 2])
    assert until(caller.staged)
    if how == "RST":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    assert until(lambda: not caller.staged())
    assert caller.tables() == []
    assert caller.create("t", body).status_code == 200
    assert caller.read("t").equals(table)


def test_s02_a_service_that_is_killed_in_mid_upload_starts_clean(tmp_path, caplog):
    body = stream(pa.table({"n": range(3_000_000)}), rows=10_000)
    with Process(tmp_path) as first:
        killed = first.caller
        assert killed.create("old", TABLE).status_code == 200
        with killed.connect() as connection:
            connection.sendall(killed.head("/v1/tables/t", f"Content-Length: {len(body)}") + body[: len(body) // 2])
            assert until(killed.staged)
            with LocalService(tmp_path):
                assert killed.staged() != []  # a living writer's
            first.kill()
    assert killed.staged() != []
    with LocalService(tmp_path) as service:
        caller = Caller(tmp_path, service.url, service.api_key)
        assert caller.staged() == []
        assert caller.tables() == ["old"]
        assert caller.create("t", TABLE).status_code == 200
        assert caller.read("old").equals(caller.read("t"))
        caller.close()


def test_s02_a_service_that_stops_in_mid_upload_answers_and_leaves_nothing(tmp_path):
    body = stream(pa.table({"n": range(200_000)}), rows=1000)
    with LocalService(tmp_path) as service:
        caller = Caller(tmp_path, service.url, service.api_key)
        connection = caller.connect()
        connection.sendall(caller.head("/v1/tables/t", f"Content-Length: {len(body)}") + body[: len(body) // 2])
        assert until(caller.staged)
        started = time.monotonic()
    assert time.monotonic() - started < 5
    with connection:
        status, _ = answered(connection)
    assert status == 503
    assert caller.staged() == []
    assert not (tmp_path / "t.lance").exists()
    caller.close()


# S08 to S10


def test_s08_a_full_disk_is_a_server_error_and_nothing_is_listed(tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))"
    rng = random.Random(8)
    big = pa.table({"n": [rng.random() for _ in range(300_000)]})
    with Process(tmp_path, limit) as service:
        answer = service.caller.create("big", big)
        assert answer.status_code == 507
        assert "disk" in message(answer)
        assert service.caller.tables() == []
        assert service.caller.staged() == []
        assert service.caller.create("small", TABLE).status_code == 200
        assert service.caller.tables() == ["small"]
        path = "/v1/table/small/create/?mode=overwrite"
        assert service.caller.send("POST", path, stream(big), content_type=ARROW).status_code == 507
        assert service.caller.read("small").equals(TABLE)
        assert len(list((tmp_path / "small.lance" / "data").iterdir())) == 1
        for _ in range(11):
            assert service.caller.send("POST", path, stream(TABLE), content_type=ARROW).status_code == 200
        assert len(list((tmp_path / "small.lance" / "data").iterdir())) == 11
        assert service.caller.send("POST", path, stream(big), content_type=ARROW).status_code == 507
        assert len(list((tmp_path / "small.lance" / "data").iterdir())) == 10  # room was made before it was needed
        assert service.alive


@pytest.mark.parametrize("key", ["", "wrong", "é".encode(), b"\xff\xfe", None], ids=repr)
def test_s09_a_wrong_key_is_refused_on_every_route(caller, key):
    caller.create("t", TABLE)
    for method, path in (
        ("GET", "/v1/tables"),
        ("POST", "/v1/tables/u"),
        ("POST", "/v1/table/t/alter_columns"),
        ("GET", "/x"),
    ):
        answer = caller.send(method, path, stream(TABLE), x_api_key=key, content_type=ARROW)
        assert answer.status_code == 401
        assert caller.key not in answer.text + str(answer.headers)
    assert caller.tables() == ["t"]


def test_s09_half_a_key_and_a_longer_one_are_wrong(caller):
    for key in (caller.key[:-1], caller.key + "x", caller.key.swapcase()):
        assert caller.send("GET", "/v1/tables", x_api_key=key).status_code == 401


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1.example.com:80", "evil", "127.0.0.1:80:80", ""])
def test_s09_a_host_that_is_not_this_one_is_refused(caller, host):
    answer = caller.send("GET", "/v1/tables", host=host)
    assert answer.status_code == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "LOCALHOST:8080", "[::1]:80"])
def test_s09_every_name_of_this_machine_is_accepted(caller, host):
    assert caller.send("GET", "/v1/tables", host=host).status_code == 200


NAMES = [
    "..", ".", ".hidden", "%2e%2e", "..%2f..%2fx", "%2Fetc%2Fx", "a%2Fb", "..%5cx", "file:%2F%2F%2Ftmp%2Fx",
    "s3:%2F%2Fb%2Fx", "a%00b", "%0a", "%20", "%C3%A9", "%FF", "x" * 129, "a:b", ".staging", "~", "a%3Fb", "%252e%252e",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_s10_a_name_that_could_lead_elsewhere_is_refused(caller, name):
    def everything():
        return sorted(str(path) for path in caller.root.parent.rglob("*"))

    before = everything()
    for path in (f"/v1/tables/{name}", f"/v1/table/{name}/alter_columns"):
        with caller.connect() as connection:
            connection.sendall(
                caller.head(path, f"Content-Length: {len(stream(TABLE))}", "Connection: close") + stream(TABLE)
            )
            status, _ = answered(connection)
        assert status == 400
    assert everything() == before


def test_s10_a_path_that_climbs_is_no_route(caller):
    for path in (
        "/v1/tables/../x",
        "/v1/tables/../../x",
        "/v1//tables/x",
        "//v1/tables/x",
        "/v1/tables/x/",
        "/V1/tables/x",
    ):
        with caller.connect() as connection:
            connection.sendall(caller.head(path, "Content-Length: 0", "Connection: close"))
            status = int(connection.recv(65536).split()[1])
        assert status in (400, 404)
    assert caller.tables() == []
