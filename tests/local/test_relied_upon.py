"""What the embedded service relies upon in its server and its engine, beyond their documents."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import logging
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from cheroot.server import HTTPConnection, HTTPRequest
from cheroot.wsgi import Gateway_10, Server

from rt_frames.local import LocalService, engine, server

if TYPE_CHECKING:
    from collections.abc import Iterator

# cheroot


class Connection(HTTPConnection):
    closed = 0

    def close(self) -> None:
        super().close()
        type(self).closed += 1


class Gateway(Gateway_10):
    """Answers nothing, and shows its request to the test."""

    def respond(self) -> None:
        self.req.server.seen.append(self)
        super().respond()


def answer_nothing(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "0")])
    return []


@contextlib.contextmanager
def running(gateway: type[Gateway] = Gateway, **attributes: Any) -> Iterator[Any]:
    server: Any = Server(("127.0.0.1", 0), answer_nothing, numthreads=1, timeout=5, shutdown_timeout=1)
    server.gateway, server.seen, server.expiration_interval = gateway, [], 0.1
    for name, value in attributes.items():
        setattr(server, name, value)
    server.prepare()
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def ask(server: Any, *lines: str, body: bytes = b"") -> bytes:
    """Send a POST, and give the head of its answer."""
    with socket.create_connection(server.bind_addr, timeout=5) as connection:
        connection.sendall("\r\n".join(["POST / HTTP/1.1", "Host: h", *lines, "", ""]).encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer and (data := connection.recv(65536)):
            answer += data
    return answer


def test_cheroot_makes_its_connections_of_connection_class_and_closes_them():
    Connection.closed = 0
    with running(ConnectionClass=Connection) as server:
        assert b" 200 " in ask(server, "Connection: close")
    assert Connection.closed == 1


def test_cheroot_gives_a_connection_a_socket_and_two_files_and_a_request_its_connection_and_environment():
    with running() as server:
        ask(server, "Content-Length: 4", body=b"abcd")
        (gateway,) = server.seen
    connection = gateway.req.conn
    assert isinstance(connection.socket, socket.socket)
    assert callable(connection.rfile.readinto1)
    assert callable(connection.rfile.readline)
    assert callable(connection.wfile.close)
    assert gateway.env["REQUEST_URI"] == "/"


def test_cheroot_leaves_the_file_that_it_writes_to_open_behind_a_closed_connection():
    """The day this fails, `_Connection` may go."""
    with running() as server:
        ask(server, "Connection: close")
    assert not server.seen[0].req.conn.wfile.closed


def test_cheroot_reads_before_an_answer_what_remaining_says_and_no_more():
    class Forgetful(Gateway):
        def __init__(self, req: Any) -> None:
            self.length = req.rfile.remaining
            req.rfile.remaining = 0
            super().__init__(req)

    with running(Forgetful) as server:
        started = time.monotonic()
        assert b" 200 " in ask(server, f"Content-Length: {2**40}")
        assert time.monotonic() - started < 2
        assert server.seen[0].length == 2**40


def test_cheroot_tells_a_chunked_request_by_chunked_read_and_leaves_its_body_in_the_file():
    class Reading(Gateway):
        def respond(self) -> None:
            self.chunk = self.req.conn.rfile.readline(), bytearray(4)
            self.req.conn.rfile.readinto1(memoryview(self.chunk[1])[:2])
            self.chunked = self.req.chunked_read
            super().respond()

    with running(Reading) as server:
        ask(server, "Transfer-Encoding: chunked", body=b"2\r\nab\r\n0\r\n\r\n")
        (gateway,) = server.seen
    assert (gateway.chunked, gateway.chunk) == (True, (b"2\r\n", bytearray(b"ab\0\0")))


def test_cheroot_closes_a_connection_whose_close_connection_is_set_where_an_answer_starts():
    class Closing(Gateway):
        def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Any:
            self.req.close_connection = True
            return super().start_response(status, headers, exc_info)

    with running(Closing) as server:
        assert b"Connection: close" in ask(server)


def test_cheroot_stops_within_its_expiration_interval():
    with running() as server:
        ask(server)
        started = time.monotonic()
    assert time.monotonic() - started < 2


def test_cheroot_reads_headers_with_header_reader_and_tells_what_it_refuses_with_simple_response():
    refused = []

    class Strict(HTTPRequest):
        def header_reader(self, rfile: Any, headers: dict[bytes, bytes]) -> None:
            while (line := rfile.readline()) != b"\r\n":
                headers[line[:4]] = line
            raise ValueError("made up")

        def simple_response(self, status: str, msg: str = "") -> None:
            refused.append((status, msg, self.conn.rfile.read(4), self.response_protocol))
            super().simple_response(status, msg)

    class Handling(Connection):
        RequestHandlerClass = Strict

    with running(ConnectionClass=Handling) as server:
        assert b" 400 " in ask(server, "Content-Length: 4", body=b"abcd")
        assert server.seen == []
    assert refused == [("400 Bad Request", "made up", b"abcd", "HTTP/1.1")]


def test_cheroot_is_ready_until_it_stops_and_keeps_its_figures():
    with running() as server:
        assert server.ready
        assert f"Cheroot HTTPServer {id(server)}" in logging.statistics
    assert not server.ready


def test_cheroot_refuses_headers_over_max_request_header_size():
    with running(max_request_header_size=1000) as server:
        assert b" 413 " in ask(server, "A: " + "a" * 2000)


def test_cheroot_tells_its_errors_to_error_log():
    class Failing(Gateway):
        def respond(self) -> None:
            raise ValueError("made up")

    told: list[tuple[str, int, bool]] = []
    with running(Failing, error_log=lambda msg="", level=0, traceback=False: told.append((msg, level, traceback))):
        pass
    with running(Failing, error_log=lambda msg="", level=0, traceback=False: told.append((msg, level, traceback))) as s:
        assert b" 500 " in ask(s)
    assert [(message, traceback) for message, _, traceback in told] == [("ValueError('made up')", True)]


# Lance

TABLE = pa.table(
    {
        "n": [1, 300],
        "m": [1, None],
        "t": ["a", "b"],
        "at": [datetime.datetime(2024, 3, 31, 2, 30), None],
    }
)
WORDS = {
    "Cannot cast timezone": [{"path": "at", "data_type": pa.timestamp("us", "Europe/Berlin")}],
    "contains NULL values": [{"path": "m", "nullable": False}],
}


@pytest.fixture
def folder(tmp_path) -> str:
    lance.write_dataset(TABLE, str(tmp_path / "t.lance"))
    return str(tmp_path / "t.lance")


def test_every_reason_that_is_read_from_lance_has_a_test():
    assert set(WORDS) == set(engine._REASONS)


@pytest.mark.parametrize("words", WORDS)
def test_lance_refuses_with_these_words_and_then_a_place_in_its_source(folder, words):
    with pytest.raises(OSError, match=words) as refused:
        lance.dataset(folder).alter_columns(*WORDS[words])
    reason, place, line = str(refused.value).partition(engine._PLACE)
    assert words in reason
    assert " " not in place + line + reason.rpartition(", ")[2]
    named = WORDS[words][0]["path"] if words in ("Cannot cast column", "contains NULL values") else ""
    assert reason.partition(engine._COLUMN)[2].partition('"')[0] == named


def test_lance_tells_of_a_value_that_arrow_does_not_cast(folder):
    with pytest.raises(OSError, match="Can't cast value 300 to type Int8") as refused:
        lance.dataset(folder).alter_columns({"path": "n", "data_type": pa.int8()})
    assert engine._OF_A_VALUE in str(refused.value)


def test_cheroots_pool_tells_what_is_idle_and_waits_and_grows(tmp_path):
    with LocalService(tmp_path) as service:
        pool = service._server.requests
        assert (pool.idle, pool.qsize) == (server.THREADS, 0)
        pool.grow(2)
        assert pool.idle == server.THREADS + 2
        assert sum(isinstance(thread, server.WorkerThread) for thread in threading.enumerate()) >= server.THREADS + 2


def test_cheroots_threads_are_daemons_where_the_one_is_that_prepares_the_server_and_have_what_they_answer():
    class Looking(Gateway):
        def respond(self) -> None:
            thread = threading.current_thread()
            seen.append((type(thread), thread.daemon, thread.server is self.req.server, thread.conn is self.req.conn))
            super().respond()

    seen: list[Any] = []
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(stack.enter_context(running(Looking))), daemon=True)
    with contextlib.ExitStack() as stack:
        thread.start()
        thread.join()
        ask(made[0])
    assert seen == [(server.WorkerThread, True, True, True)]


def test_lance_calls_a_table_that_was_changed_meanwhile_a_commit_conflict(folder):
    first, second = lance.dataset(folder), lance.dataset(folder)
    first.alter_columns({"path": "n", "name": "k"})
    with pytest.raises(OSError, match=engine._CONFLICT):
        second.alter_columns({"path": "t", "name": "u"})


def test_lance_calls_a_cast_beside_a_rename_an_incompatible_concurrent_transaction(folder):
    first, second = lance.dataset(folder), lance.dataset(folder)
    first.alter_columns({"path": "t", "name": "u"})
    with pytest.raises(OSError, match=engine._CONFLICT):
        second.alter_columns({"path": "n", "data_type": pa.int32()})


def test_lance_tells_the_number_of_an_error_of_the_disk(tmp_path):
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    code = f"{limit}; resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16)); import lance, pyarrow as pa"
    write = f"lance.write_dataset(pa.table({{'n': range(10**6)}}), {str(tmp_path / 'big')!r})"
    done = subprocess.run([sys.executable, "-c", f"{code}; {write}"], capture_output=True, text=True, check=False)
    found = engine._OS_ERROR.search(done.stderr)
    assert found, done.stderr
    assert int(found[1]) in engine._NO_SPACE


def test_importing_lance_starts_no_thread_and_warns_of_nothing():
    code = """
import os, numpy, pandas, pyarrow
before = len(os.listdir("/proc/self/task"))
import lance
print(len(os.listdir("/proc/self/task")) - before)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_process_forks_in_silence_before_it_starts_a_service_and_its_child_may_start_one(tmp_path):
    code = f"""
import os, warnings
warnings.filterwarnings("ignore", category=DeprecationWarning)  # Python's own, for forks beside a thread of numpy's
from rt_frames.local import LocalService
service = LocalService({str(tmp_path)!r})
if child := os.fork():
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
import pyarrow as pa
from tests.support.local import Caller
with service:
    caller = Caller(service.root, service.url, service.api_key)
    assert caller.create("t", pa.table({{"a": [1]}})).status_code == 200
    caller.close()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_the_numbers_of_versions_grow_by_one(folder):
    """An alteration that is taken back is found by its version."""
    dataset = lance.dataset(folder)
    for number, name in zip(itertools.count(2), "kn", strict=False):
        dataset.alter_columns({"path": {"k": "n", "n": "k"}[name], "name": name})
        assert (dataset.version, lance.dataset(folder).latest_version) == (number, number)
