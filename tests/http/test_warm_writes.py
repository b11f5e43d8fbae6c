"""Which writes ride a connection that was just used, and which open their own."""

from __future__ import annotations

import itertools
import random
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from rt_frames import errors
from tests.support.faults import certificates, connected
from tests.support.servers import Connection, Server, usual

SMALL = pl.DataFrame({"n": np.arange(10_000), "word": ["some text"] * 10_000})


def answering_with(headers: dict[str, str], version: str = "1.1"):
    """Make a script that answers each request with further headers."""

    def script(connection: Connection) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        while True:
            connection.body(connection.head())
            connection.sock.sendall(f"HTTP/{version} 200 OK\r\n{lines}Content-Length: 2\r\n\r\n{{}}".encode())

    return script


@pytest.mark.parametrize("compression", ["auto", "zstd", None])
@pytest.mark.parametrize("tls", [False, True])
def test_a_loop_of_small_creates_rides_one_connection(server, tmp_path, tls, compression):
    authority, context = certificates()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server.tls = context if tls else None
    client = connected(server, verify=tmp_path / "ca.pem")
    for number in range(5):
        client.create_table(f"t{number}", SMALL, compression=compression)
    assert [request.path[-2:] for request in server.posts] == ["t0", "t1", "t2", "t3", "t4"]
    assert all(pa.ipc.open_stream(request.body).read_all().num_rows == 10_000 for request in server.posts)
    assert server.connections == 1


def test_changes_in_a_row_ride_one_connection_and_so_does_a_create_after_a_list(remote, server):
    remote.table("t").rename({"a": "b"}).cast({"b": "int16"}).set_nullable({"b": False})
    remote.list_tables()
    remote.create_table("t", SMALL)
    assert (len(server.posts), server.connections) == (4, 1)


def test_a_write_after_a_pause_opens_its_own_connection(remote, server):
    remote.create_table("t", SMALL)
    time.sleep(0.55)
    remote.create_table("t", SMALL)
    assert server.connections == 2


@pytest.mark.parametrize(
    "data",
    [pa.table({"n": np.arange(2**18)}), (SMALL for _ in range(1))],
    ids=["more than 1 MiB", "who knows how much"],
)
def test_what_is_large_or_may_be_opens_its_own_connection(remote, server, data):
    remote.create_table("t", SMALL)
    assert server.connections == 1
    remote.create_table("t", data)
    assert server.connections == 2


@pytest.mark.parametrize(
    ("headers", "version", "connections"),
    [
        ({"Keep-Alive": "timeout=60, max=100"}, "1.1", 1),
        ({"Keep-Alive": "max=100"}, "1.1", 1),
        ({"Keep-Alive": "timeout=0"}, "1.1", 2),
        ({"Connection": "close"}, "1.1", 2),
        ({"Connection": "keep-alive"}, "1.0", 2),
    ],
)
def test_what_a_server_says_of_its_connection_is_heeded(remote, server, headers, version, connections):
    server.script = answering_with(headers, version)
    remote.create_table("t", SMALL)
    remote.create_table("t", SMALL)
    assert (len(server.posts), server.connections) == (2, connections)


def test_a_server_that_tells_its_time_is_given_up_after_half_of_it(remote, server):
    server.script = answering_with({"Keep-Alive": "Timeout = 1"})
    for pause in (0, 0.2, 0.55):
        time.sleep(pause)
        remote.create_table("t", SMALL)
    assert server.connections == 2


def test_a_connection_that_the_server_closed_or_spoke_on_again_is_not_used(remote, server):
    for extra in (b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"):

        def script(connection: Connection, extra: bytes = extra) -> None:
            connection.body(connection.head())
            connection.answer(200, {"version": 1})
            connection.sock.sendall(extra)

        server.script = script
        for _ in range(3):
            assert remote.create_table("t", SMALL).version == 1
            time.sleep(0.1)
    assert (len(server.posts), server.connections) == (6, 6)


def test_F41_what_gets_no_answer_on_a_connection_that_was_just_used_is_never_sent_again(wire):
    server, connect = wire
    remote = connect()

    def script(connection: Connection) -> None:
        connection.body(connection.head())
        connection.answer(200, {"version": 1})
        connection.body(connection.head())

    server.script = script
    remote.create_table("t", SMALL)
    with pytest.raises(errors.OutcomeUnknown):
        remote.create_table("t", SMALL)
    assert len(server.posts) == 2


def test_F41_once_a_server_hung_up_on_a_connection_that_was_just_used_every_write_opens_its_own(wire):
    server, connect = wire
    remote = connect()

    def script(connection: Connection) -> None:
        connection.body(connection.head())
        connection.answer(200, {"version": 1})
        connection.body(connection.head())
        server.script = usual

    server.script = script
    remote.create_table("t", SMALL)
    with pytest.raises(errors.OutcomeUnknown):
        remote.create_table("t", SMALL)
    before = server.connections
    for _ in range(3):
        remote.create_table("t", SMALL)
    assert (len(server.posts), server.connections - before) == (5, 3)


def test_F41_a_server_that_closes_after_each_answer_without_a_word_fails_at_most_one_write(wire):
    server, connect = wire

    def script(connection: Connection) -> None:
        request = connection.body(connection.head())
        connection.answer(200, {"tables": []} if request.method == "GET" else {"version": 1})

    server.script = script
    remote, failed = connect(retries=9), 0
    for number in range(40):
        try:
            remote.create_table(f"t{number}", SMALL, if_exists="skip")
        except errors.TransportError:
            failed += 1
    assert failed <= 1


@pytest.mark.parametrize(
    ("threads", "creates", "idle"),
    [(8, 5, 1.0)] + [pytest.param(12, 25, idle, marks=pytest.mark.long) for idle in (1.5, 2, 3)],
)
def test_F41_no_write_is_lost_or_doubled_at_servers_that_hang_up_on_idle_connections(threads, creates, idle):
    def impatient(connection: Connection) -> None:
        connection.sock.settimeout(idle)
        while True:
            request = connection.body(connection.head())
            connection.answer(200, {"tables": []} if request.method == "GET" else {"version": 1})

    numbers, chance = itertools.count(), random.Random(41)
    pauses = [
        [chance.choice([0, 0.05, 0.45, 0.5, idle, idle * chance.random()]) for _ in range(creates)]
        for _ in range(threads)
    ]
    with Server(impatient) as server, connected(server, timeout=10) as client, ThreadPoolExecutor(threads) as pool:

        def create(mine: list[float]) -> None:
            for pause in mine:
                time.sleep(pause)
                client.create_table(f"t{next(numbers)}", SMALL)

        list(pool.map(create, pauses))
        assert sorted(request.path for request in server.posts) == sorted(
            f"/v1/tables/t{number}" for number in range(threads * creates)
        )
        assert server.connections < threads * creates
