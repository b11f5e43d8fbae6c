"""The development server: a folder's application over HTTP. S01, S02, S09.

What its parser takes and refuses is cheroot's.
"""

from __future__ import annotations

import gc
import http.client
import json
import logging
import shutil
import signal
import socket
import struct
import time
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.local import LocalService
from tests.support.local import (
    ARROW,
    NUMBERS,
    TABLE,
    HTTPCaller,
    answered,
    run,
    stream,
    until,
)
from tests.support.processes import python
from tests.support.servers import KEY

MIB = 2**20
BODY = stream(TABLE)
LENGTH = f"Content-Length: {len(BODY)}"
CODING = "Transfer-Encoding: chunked"
CHUNK = b"%x\r\n%b\r\n" % (len(BODY), BODY)
LONG = pa.table({"n": range(2**20)})
LONG_BODY = stream(LONG, rows=1000)


@pytest.fixture
def there(tmp_path, caplog):
    """A caller of a server. Afterwards nothing is staged, and no key was logged."""
    caplog.set_level(logging.DEBUG)
    with LocalService(tmp_path / "tables", api_key=KEY) as service:
        caller = HTTPCaller(service.root, service.url, KEY)
        yield caller
        caller.close()
        until(lambda: caller.staged() == [])
    assert KEY not in caplog.text


def half_sent(caller: HTTPCaller, name: str = "t") -> socket.socket:
    """Begin an upload, and wait until the server has begun to store it."""
    before = len(caller.staged())
    connection = caller.connect()
    head = caller.head(f"/v1/tables/{name}", f"Content-Length: {len(LONG_BODY)}")
    connection.sendall(head + LONG_BODY[: len(LONG_BODY) // 2])
    until(lambda: len(caller.staged()) > before)
    return connection


def hang_up(connection: socket.socket, seconds: int) -> None:
    """Close a connection, which waits for unsent bytes; 0 seconds reset it."""
    linger = struct.pack("ii", 1, seconds)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    connection.close()


DOORS = [
    ("GET", "/v1/tables"),
    ("POST", "/v1/tables/u"),
    ("POST", "/v1/table/t/alter_columns"),
    ("GET", "/x"),
]
DOORS += [
    ("POST", f"/v1/table/t/{last}/")
    for last in ("describe", "count_rows", "query", "insert", "drop", "create")
]


def test_S09_a_wrong_key_is_refused_at_every_door(there):
    there.create("t", TABLE)
    near = KEY[:-1], KEY + "x", KEY.swapcase()
    for key in ("", "wrong", "é".encode(), b"\xff\xfe", None, *near):
        for method, path in DOORS:
            answer = there.send(method, path, BODY, x_api_key=key, content_type=ARROW)
            assert answer.status_code == 401
            assert key in near or KEY not in answer.text + str(answer.headers)
    assert there.tables() == ["t"]


def test_S09_every_name_of_this_machine_is_accepted_and_no_other(there):
    hosts = dict.fromkeys(
        ("localhost", "127.0.0.1:1", "LOCALHOST:8080", "[::1]:80"), 200
    )
    hosts |= dict.fromkeys(
        ("example.com", "127.0.0.1.example.com:80", "evil", "127.0.0.1:80:80", ""), 400
    )
    assert {
        host: there.send("GET", "/v1/tables", host=host).status_code for host in hosts
    } == hosts


def test_one_port_speaks_both_dialects(there):
    for dialect in ("documented", "lancedb"):
        with rt.connect(there.url, api_key=KEY, dialect=dialect) as client:
            client.create_table(dialect, NUMBERS)
            client.table(dialect).rename({"a": "d"})
        assert there.read(dialect).equals(NUMBERS.rename_columns(["d", "b", "c"]))
    assert there.tables() == ["documented", "lancedb"]


TRUNCATED = {
    "nothing": (LENGTH, b""),
    "half of it": (LENGTH, BODY[: len(BODY) // 2]),
    "a byte less": (f"Content-Length: {len(BODY) + 1}", BODY),
    "no chunk": (CODING, b""),
    "half a chunk": (CODING, CHUNK[: len(CHUNK) // 2]),
    "no last chunk": (CODING, CHUNK),
}


@pytest.mark.parametrize(("line", "sent"), TRUNCATED.values(), ids=TRUNCATED)
def test_S01_a_truncated_body_is_refused(there, line, sent):
    with there.connect() as connection:
        connection.sendall(there.head("/v1/tables/t", line) + sent)
        connection.shutdown(socket.SHUT_WR)
        status, answer = answered(connection)
    assert (status, "truncated" in answer["error"]["message"]) == (400, True)
    assert there.tables() == []


@pytest.mark.parametrize(("announced", "sent"), [(8, 8), (2**20, 256)])
def test_a_refusal_reaches_who_still_sends_and_the_next_request_works(
    there, announced, sent
):
    there.create("t", TABLE)
    with there.connect() as connection:
        length = f"Content-Length: {announced * MIB}"
        connection.sendall(there.head("/v1/tables/t", length))
        for _ in range(sent):
            connection.sendall(bytes(MIB))
        answer = connection.recv(65536)
    assert b" 409 " in answer.split(b"\r\n")[0]
    assert (b"Connection: close" in answer) == (announced > sent)
    assert there.create("u", TABLE).status_code == 200


def test_rows_that_are_not_needed_do_not_disturb_the_next_request(there):
    there.create("t", TABLE)
    connection = http.client.HTTPConnection(urlsplit(there.url).netloc)
    headers = {"x-api-key": KEY, "Content-Type": ARROW}
    for method, path, body, answer in [
        ("POST", "/v1/table/t/create/?mode=exist_ok", iter([BODY]), {"version": 1}),
        ("GET", "/v1/tables", None, {"tables": ["t"]}),
    ]:
        connection.request(method, path, body, headers)
        assert json.load(connection.getresponse()) == answer
    connection.close()


def test_S02_a_client_that_dies_in_mid_upload_leaves_nothing_and_the_name_free(there):
    for seconds in (0, 1):
        hang_up(half_sent(there), seconds)
        until(lambda: not there.staged())
        assert there.tables() == []
    assert there.create("t", LONG_BODY).status_code == 200
    assert there.read("t").equals(LONG)


def test_refusals_and_clients_that_vanish_print_nothing(there, capfd):
    for path in ("/v1/tables/..", "/v1/tables/%252e", "/x", "/v1/tables/t"):
        for seconds in (0, 1):
            connection = there.connect()
            head = there.head(path, f"Content-Length: {MIB}")
            connection.sendall(head + bytes(1000))
            hang_up(connection, seconds)
    assert there.tables() == []
    gc.collect()  # pytest takes what a finalizer raises for an error
    assert capfd.readouterr().err == ""


def test_close_does_not_wait_for_rows_that_nobody_reads(tmp_path):
    rows = pa.table({"n": np.random.default_rng(0).integers(2**62, size=4 * 10**6)})
    with (
        LocalService(tmp_path, api_key=KEY) as service,
        rt.connect(service.url, api_key=KEY, dialect="lancedb") as client,
    ):
        reader = pa.RecordBatchReader.from_stream(client.create_table("t", rows))
        reader.read_next_batch()
        started = time.monotonic()
        service.close()
        assert time.monotonic() - started < 4
        with pytest.raises(pa.ArrowInvalid, match="the response failed"):
            reader.read_all()


FORGOTTEN = """
import sys, threading, time, polars as pl, rt_frames as rt
from rt_frames.local import LocalService
service, half = LocalService(sys.argv[1]).start(), threading.Event()
client = rt.connect(service.url, api_key=service.api_key)
client.create_table("whole", pl.DataFrame({"a": [1]}))
def frames():
    yield from [pl.DataFrame({"a": range(300_000)})] * 4
    half.set()
    time.sleep(30)
def upload():
    client.create_table("t", frames())
if sys.argv[2] == "beside an upload":
    threading.Thread(target=upload, daemon=True).start()
    assert half.wait(20)
print(time.time())
"""


@pytest.mark.parametrize("how", ["alone", "beside an upload"])
def test_a_program_that_forgets_to_close_its_server_ends(tmp_path, how):
    ended = float(run(FORGOTTEN, tmp_path, how))
    assert time.time() - ended < 8
    assert [path.name for path in tmp_path.glob("*.lance")] == ["whole.lance"]


STOPPED = """
import os, signal, socket, sys, threading, time
from rt_frames.local import LocalService
with LocalService(sys.argv[1]) as service:
    port = int(service.url.rpartition(":")[2])
def is_free():
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
for delay in (0.0, 0.01, 0.02, 0.05, 0.1):
    service = LocalService(sys.argv[1], port=port)
    try:
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
        service.start()
        service.close()
        time.sleep(10)
    except KeyboardInterrupt:
        print("interrupted")
    service.close()
    until = time.monotonic() + 10
    while not is_free():
        assert time.monotonic() < until
        time.sleep(0.01)
"""


def test_a_server_whose_start_or_stop_is_interrupted_leaves_its_port(tmp_path):
    assert run(STOPPED, tmp_path) == "interrupted\n" * 5


def test_a_server_starts_and_stops_as_often_as_it_is_told_with_a_key_of_its_own(
    tmp_path,
):
    service = LocalService(tmp_path / "made" / "here", api_key=KEY)
    with pytest.raises(RuntimeError, match="not running"):
        _ = service.url
    service.close()
    for _ in range(2):
        with service, service as same:
            assert same.start() is service
            client = rt.connect(service.url, api_key=KEY, default=False)
            assert client.list_tables() == []
        assert KEY not in repr(service)
        service.close()
        shutil.rmtree(service.root)
    assert len({LocalService(tmp_path).api_key for _ in range(20)}) == 20


# cheroot forgets a socket then
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_taken_port_is_an_error_and_leaves_the_server_stopped(tmp_path, there):
    other = LocalService(tmp_path / "other", port=urlsplit(there.url).port)
    with pytest.raises(OSError, match=r"(?i)address"):
        other.start()
    assert "not running" in repr(other)


def test_a_signal_ends_serve_and_its_uploads_soon_without_a_traceback_or_a_table(
    tmp_path,
):
    with python("-m", "rt_frames.cli", "serve", tmp_path) as process:
        url = process.stdout.readline().strip().partition("=")[2]
        key = process.stdout.readline().strip().partition("=")[2]
        caller = HTTPCaller(tmp_path, url, key)
        assert caller.create("whole", NUMBERS).status_code == 200
        uploads = [half_sent(caller, f"t{i}") for i in range(10)]
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate()
    assert time.monotonic() - started < 8
    assert process.returncode == 0
    assert "Traceback" not in error
    assert error.endswith("stopped\n")
    assert [path.name for path in tmp_path.glob("*.lance")] == ["whole.lance"]
    for upload in uploads:
        upload.close()
    caller.close()


def test_a_signal_that_comes_while_serve_starts_ends_it(tmp_path):
    words = ["-X", "importtime", "-m", "rt_frames.cli", "serve", tmp_path]
    with python(*words) as process:
        # the signals are handled before the server is loaded
        while "cheroot" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate()
    assert process.returncode == 0
    assert "Traceback" not in error
