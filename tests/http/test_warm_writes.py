"""Which writes ride a connection that was just used, and which open their own."""

from __future__ import annotations

import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import errors
from tests.support.faults import connected, frame, patient
from tests.support.servers import Connection, usual

SMALL = pl.DataFrame({"n": np.arange(10_000), "word": ["some text"] * 10_000})


def answering_with(headers: dict[str, str], version: str = "1.1"):
    """Make a script that answers each request with further headers."""
    lines = [f"HTTP/{version} 200 OK", "Content-Length: 2"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    answer = "\r\n".join([*lines, "", "{}"]).encode()

    def script(connection: Connection) -> None:
        while True:
            connection.body(connection.head())
            connection.sock.sendall(answer)

    return script


def after_an_answer(then):
    """Make a script that answers one request and then does something else."""

    def script(connection: Connection) -> None:
        request = connection.body(connection.head())
        body = {"tables": []} if request.method == "GET" else {"version": 1}
        connection.answer(200, body)
        then(connection)

    return script


def test_small_writes_and_lists_in_a_row_ride_one_connection(wire):
    server, connect = wire
    client = connect()
    client.create_table("t0", SMALL, compression="auto")
    client.create_table("t1", SMALL, compression="zstd")
    client.create_table("t2", SMALL, compression=None)
    client.table("t").rename({"a": "b"}).cast({"b": "int16"}).set_nullable({"b": False})
    client.list_tables()
    client.create_table("t3", SMALL)
    creates = [request for request in server.posts if "/tables/" in request.path]
    assert [request.path[-2:] for request in creates] == ["t0", "t1", "t2", "t3"]
    for request in creates:
        assert pa.ipc.open_stream(request.body).read_all().num_rows == 10_000
    assert len(server.posts) == 7
    assert server.connections == 1


@pytest.mark.parametrize("make", [lambda: frame(2), lambda: iter([SMALL])])
def test_what_is_large_or_may_be_opens_its_own_connection(remote, server, make):
    remote.create_table("t", SMALL)
    remote.create_table("t", make())
    assert server.connections == 2


KEPT = [  # what a server says, and a pause after which it keeps the connection
    ({"Keep-Alive": "timeout=60, max=100"}, [0.7]),
    ({"Keep-Alive": "max=9, timeout=3"}, [0.7]),
]
LET_GO = [  # what a server says, and pauses of which it keeps it after all but the last
    ({}, [0.55]),
    ({"Keep-Alive": "timeout=2"}, [1.1]),
    ({"Keep-Alive": "max=100"}, [0.2, 0.55]),
    ({"Keep-Alive": "timeout=0"}, [0]),
    ({"Keep-Alive": "Timeout = 1"}, [0.55]),
    ({"Connection": "close"}, [0]),
    pytest.param({"Keep-Alive": "timeout=600"}, [29, 31], marks=pytest.mark.long),
]


def create_after(client: rt.Client, pauses: list[float]) -> None:
    client.create_table("t", SMALL)
    for pause in pauses:
        time.sleep(pause)
        client.create_table("t", SMALL)


@pytest.mark.parametrize(("headers", "pauses"), KEPT)
def test_a_connection_that_a_server_keeps_is_used(remote, server, headers, pauses):
    server.script = answering_with(headers)
    create_after(remote, pauses)
    assert server.connections == 1


@pytest.mark.parametrize(("headers", "pauses"), LET_GO)
def test_a_connection_that_a_server_may_let_go_is_not_used(
    remote, server, headers, pauses
):
    server.script = answering_with(headers)
    create_after(remote, pauses)
    assert server.connections == 2


def test_a_connection_of_an_older_http_is_not_used_again(remote, server):
    server.script = answering_with({"Connection": "keep-alive"}, version="1.0")
    create_after(remote, [0])
    assert server.connections == 2


class Resetting:
    """Answers once, and resets the connection when the next head is to be sent."""

    def __init__(self) -> None:
        self.armed = threading.Event()
        self._sending = threading.Event()
        self._closed = threading.Event()
        # a hook cannot be removed
        sys.addaudithook(self._wait)

    def _wait(self, event: str, _: object) -> None:
        if event == "http.client.send" and self.armed.is_set():
            self.armed.clear()
            self._sending.set()
            self._closed.wait(20)
            time.sleep(0.05)

    def __call__(self, connection: Connection) -> None:
        connection.body(connection.head())
        connection.answer(200, {"tables": []}, {"Keep-Alive": "timeout=60"})
        self._sending.wait(20)
        connection.reset()
        self._closed.set()


DROP_N = rt.AlterationPlan(dropped=["n"])
WRITES = {
    "create": lambda client: client.create_table("t", SMALL),
    "alter": lambda client: client.table("t").rename({"n": "m"}),
    "drop columns": lambda client: client.alter_columns("t", DROP_N),
    "drop": lambda client: client.table("t").drop(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_fails_before_its_head_was_sent_is_sent_again(server, write):
    resetting = Resetting()
    server.script = resetting
    client = patient(server, dialect="lancedb")
    client.list_tables()
    server.script = usual
    resetting.armed.set()
    write(client)
    assert not resetting.armed.is_set()
    changes = [request for request in server.posts if "describe" not in request.path]
    assert len(changes) == 1


def test_of_the_connections_that_many_threads_opened_64_are_kept(remote, server):
    all_at_once = threading.Barrier(70)

    def answer(_: object) -> tuple:
        all_at_once.wait(20)
        return 200, {"tables": []}

    def list_70_times() -> list:
        with ThreadPoolExecutor(70) as pool:
            return list(pool.map(lambda _: remote.list_tables(), range(70)))

    server.responding(answer)
    assert list_70_times() == [[]] * 70
    assert server.connections == 70
    assert list_70_times() == [[]] * 70
    assert server.connections == 76


TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("extra", [b"", TIMED_OUT])
def test_F28_a_connection_that_the_server_closed_or_spoke_on_again_is_not_used(
    remote, server, extra
):
    server.script = after_an_answer(lambda connection: connection.sock.sendall(extra))
    assert remote.create_table("t", SMALL).version == 1
    time.sleep(0.2)
    assert remote.list_tables() == []
    time.sleep(0.2)
    assert remote.create_table("t", SMALL).version == 1
    assert len(server.posts) == 2
    assert server.connections == 3


def test_F41_after_no_answer_nothing_is_sent_again_and_writes_open_their_own(wire):
    server, connect = wire
    remote = connect()

    def hang_up(connection: Connection) -> None:
        connection.body(connection.head())
        server.script = usual

    server.script = after_an_answer(hang_up)
    remote.create_table("t", SMALL)
    with pytest.raises(errors.OutcomeUnknown):
        remote.create_table("t", SMALL)
    assert len(server.posts) == 2
    before = server.connections
    for _ in range(3):
        remote.create_table("t", SMALL)
    assert len(server.posts) == 5
    assert server.connections == before + 3


def test_F41_a_server_that_closes_after_each_answer_fails_at_most_one_write(server):
    server.script = after_an_answer(lambda connection: None)
    remote = connected(server, retries=9)
    failed = []
    for number in range(10):
        try:
            remote.create_table(f"t{number}", SMALL, if_exists="skip")
        except errors.TransportError as error:
            failed.append(error)
    assert len(failed) <= 1


@pytest.mark.long
@pytest.mark.parametrize("idle", [1, 1.5, 2, 3])
def test_F41_no_write_is_lost_or_doubled_at_servers_that_hang_up_on_idle_connections(
    server, idle
):
    threads = 12
    creates = 25

    def impatient(connection: Connection) -> None:
        connection.sock.settimeout(idle)
        usual(connection)

    def create(thread: int) -> None:
        chance = random.Random(thread)
        for number in range(creates):
            pauses = [0, 0.05, 0.45, 0.5, idle, idle * chance.random()]
            time.sleep(chance.choice(pauses))
            client.create_table(f"t{thread * creates + number}", SMALL)

    server.script = impatient
    client = connected(server, timeout=10)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(create, range(threads)))
    names = [f"/v1/tables/t{number}" for number in range(threads * creates)]
    assert sorted(request.path for request in server.posts) == sorted(names)
    assert server.connections < threads * creates
