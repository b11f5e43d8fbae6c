"""Which writes ride a connection that was just used, and which open their own."""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from rt_frames import errors
from tests.support.faults import connected, frame, patient
from tests.support.servers import Connection, Server, usual

SMALL = pl.DataFrame({"n": np.arange(10_000), "word": ["some text"] * 10_000})


def answering_with(headers: dict[str, str], version: str = "1.1"):
    """Make a script that answers each request with further headers."""

    def script(connection: Connection) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        while True:
            connection.body(connection.head())
            connection.sock.sendall(
                f"HTTP/{version} 200 OK\r\n{lines}Content-Length: 2\r\n\r\n{{}}".encode()
            )

    return script


def after_an_answer(then=lambda connection: connection.body(connection.head())):
    """Make a script that answers one request and then does something else."""

    def script(connection: Connection) -> None:
        request = connection.body(connection.head())
        connection.answer(
            200, {"tables": []} if request.method == "GET" else {"version": 1}
        )
        then(connection)

    return script


def test_small_writes_and_lists_in_a_row_ride_one_connection(wire):
    server, connect = wire
    client = connect()
    for number, compression in enumerate(["auto", "zstd", None, "auto"]):
        client.create_table(f"t{number}", SMALL, compression=compression)
    client.table("t").rename({"a": "b"}).cast({"b": "int16"}).set_nullable({"b": False})
    client.list_tables()
    client.create_table("t4", SMALL)
    made = [request for request in server.posts if "/tables/" in request.path]
    assert [request.path[-2:] for request in made] == ["t0", "t1", "t2", "t3", "t4"]
    assert all(
        pa.ipc.open_stream(request.body).read_all().num_rows == 10_000
        for request in made
    )
    assert (len(server.posts), server.connections) == (8, 1)


@pytest.mark.parametrize(
    "second",
    [lambda: time.sleep(0.55) or SMALL, lambda: frame(2), lambda: iter([SMALL])],
    ids=["after a pause", "more than 1 MiB", "who knows how much"],
)
def test_what_comes_late_or_is_large_or_may_be_opens_its_own_connection(
    remote, server, second
):
    remote.create_table("t", SMALL)
    remote.create_table("t", second())
    assert server.connections == 2


@pytest.mark.parametrize(
    ("headers", "version", "pauses", "connections"),
    [
        ({"Keep-Alive": "timeout=60, max=100"}, "1.1", [0, 0, 0.7], 1),
        ({"Keep-Alive": "max=9, timeout=4"}, "1.1", [0, 1.7, 0.7], 1),
        ({"Keep-Alive": "timeout=4"}, "1.1", [0, 2.1], 2),
        pytest.param(
            {"Keep-Alive": "timeout=600"}, "1.1", [0, 29, 31], 2, marks=pytest.mark.long
        ),
        ({"Keep-Alive": "max=100"}, "1.1", [0, 0.4, 0.55], 2),
        ({"Keep-Alive": "timeout=0"}, "1.1", [0, 0], 2),
        ({"Keep-Alive": "Timeout = 1"}, "1.1", [0, 0.1, 0.55], 2),
        ({"Connection": "close"}, "1.1", [0, 0], 2),
        ({"Connection": "keep-alive"}, "1.0", [0, 0], 2),
    ],
)
def test_what_a_server_says_of_its_connection_is_heeded(
    remote, server, headers, version, pauses, connections
):
    server.script = answering_with(headers, version)
    for pause in pauses:
        time.sleep(pause)
        remote.create_table("t", SMALL)
    assert (len(server.posts), server.connections) == (len(pauses), connections)


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


WRITES = {
    "create": lambda client: client.create_table("t", SMALL),
    "alter": lambda client: client.table("t").rename({"n": "m"}),
    "delete": lambda client: client.table("t").delete("n > 1"),
    "drop": lambda client: client.table("t").drop(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_fails_before_its_head_was_sent_is_sent_again(server, write):
    resetting = Resetting()
    server.script = resetting
    with patient(server, dialect="lancedb") as client:
        client.list_tables()
        server.script = usual
        resetting.armed.set()
        write(client)
    assert not resetting.armed.is_set()
    changes = [request for request in server.posts if "describe" not in request.path]
    assert len(changes) == 1


def test_of_the_connections_that_many_threads_opened_64_are_kept(remote, server):
    all_at_once = threading.Barrier(70)

    def script(connection: Connection) -> None:
        while True:
            connection.body(connection.head())
            all_at_once.wait(20)
            connection.answer(200, {"tables": []})

    server.script = script
    for opened in (70, 76):
        with ThreadPoolExecutor(70) as pool:
            assert [*pool.map(lambda _: remote.list_tables(), range(70))] == [[]] * 70
        assert server.connections == opened


@pytest.mark.parametrize(
    "extra", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"]
)
def test_F28_a_connection_that_the_server_closed_or_spoke_on_again_is_not_used(
    remote, server, extra
):
    server.script = after_an_answer(lambda connection: connection.sock.sendall(extra))
    for _ in range(2):
        assert remote.create_table("t", SMALL).version == 1
        time.sleep(0.2)
        assert remote.list_tables() == []
        time.sleep(0.2)
    assert (len(server.posts), server.connections) == (2, 4)


def test_F41_what_gets_no_answer_is_never_sent_again_and_every_write_then_opens_its_own_connection(
    wire,
):
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
    assert (len(server.posts), server.connections - before) == (5, 3)


def test_F41_a_server_that_closes_after_each_answer_without_a_word_fails_at_most_one_write(
    server,
):
    server.script = after_an_answer(lambda connection: None)
    remote, failed = connected(server, retries=9), 0
    for number in range(10):
        try:
            remote.create_table(f"t{number}", SMALL, if_exists="skip")
        except errors.TransportError:
            failed += 1
    assert failed <= 1


@pytest.mark.long
@pytest.mark.parametrize("idle", [1, 1.5, 2, 3])
def test_F41_no_write_is_lost_or_doubled_at_servers_that_hang_up_on_idle_connections(
    idle,
):
    threads, creates = 12, 25

    def impatient(connection: Connection) -> None:
        connection.sock.settimeout(idle)
        usual(connection)

    numbers, chance = itertools.count(), random.Random(41)
    choices = [0, 0.05, 0.45, 0.5, idle]
    pauses = [
        [chance.choice([*choices, idle * chance.random()]) for _ in range(creates)]
        for _ in range(threads)
    ]
    with (
        Server(impatient) as server,
        connected(server, timeout=10) as client,
        ThreadPoolExecutor(threads) as pool,
    ):

        def create(mine: list[float]) -> None:
            for pause in mine:
                time.sleep(pause)
                client.create_table(f"t{next(numbers)}", SMALL)

        list(pool.map(create, pauses))
        assert sorted(request.path for request in server.posts) == sorted(
            f"/v1/tables/t{number}" for number in range(threads * creates)
        )
        assert server.connections < threads * creates
