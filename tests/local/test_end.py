"""How services and uploads end.

By signals, with their process, beside forks, and without room, locks or descriptors.
S02, S08, S13 of the matrix in tests/faults/README.md.
"""

from __future__ import annotations

import gc
import os
import resource
import shutil
import signal
import socket
import struct
import threading
import time
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.local import LocalService
from tests.support.compare import lance
from tests.support.local import (
    NUMBERS,
    TABLE,
    UPSERT,
    Caller,
    Process,
    answered,
    message,
    run,
    stream,
    until,
)
from tests.support.processes import python

LONG = pa.table({"n": range(200_000)})
BODY = stream(LONG, rows=1000)
SMALL = pa.table({"a": [1, 2]})


def half_sent(caller: Caller, name: str = "t") -> socket.socket:
    """Begin an upload, and wait until the service has begun to store it."""
    before = len(caller.staged())
    connection = caller.connect()
    head = caller.head(f"/v1/tables/{name}", f"Content-Length: {len(BODY)}")
    connection.sendall(head + BODY[: len(BODY) // 2])
    until(lambda: len(caller.staged()) > before)
    return connection


def set_linger(connection: socket.socket, seconds: int) -> None:
    """Have the end of a connection wait for unsent bytes; 0 seconds reset it."""
    value = struct.pack("ii", 1, seconds)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, value)


def test_a_signal_ends_serve_and_its_uploads_soon_without_a_traceback_or_a_table(
    tmp_path,
):
    with python("-m", "rt_frames.cli", "serve", tmp_path) as process:
        url = process.stdout.readline().strip().partition("=")[2]
        key = process.stdout.readline().strip().partition("=")[2]
        caller = Caller(tmp_path, url, key)
        assert caller.create("whole", NUMBERS).status_code == 200
        uploads = [half_sent(caller, f"t{i}") for i in range(10)]
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate()
    assert time.monotonic() - started < 8
    assert process.returncode == 0
    assert "Traceback" not in error
    assert error.endswith("stopped\n")
    for upload in uploads:
        with upload:
            status, answer = answered(upload)
        assert status == 503
        assert "stopping" in answer["error"]["message"]
    assert [path.name for path in tmp_path.glob("*.lance")] == ["whole.lance"]
    assert caller.staged() == []
    caller.close()


def test_a_signal_that_comes_while_serve_starts_ends_it(tmp_path):
    words = ["-X", "importtime", "-m", "rt_frames.cli", "serve", tmp_path]
    with python(*words) as process:
        # the signals are handled before the service is loaded
        while "cheroot" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate()
    assert process.returncode == 0
    assert "Traceback" not in error


def test_S02_a_client_that_dies_in_mid_upload_leaves_nothing_and_the_name_free(caller):
    for linger in (0, 1):
        connection = half_sent(caller)
        set_linger(connection, linger)
        connection.close()
        until(lambda: not caller.staged())
        assert caller.tables() == []
    assert caller.create("t", BODY).status_code == 200
    assert caller.read("t").equals(LONG)


def test_S02_a_service_that_is_killed_in_mid_upload_starts_clean(tmp_path):
    with Process(tmp_path) as first:
        assert first.caller.create("old", TABLE).status_code == 200
        with half_sent(first.caller):
            with LocalService(tmp_path):
                assert first.caller.staged() != []  # a living writer's
            first.kill()
    assert first.caller.staged() != []
    with LocalService(tmp_path) as service:
        caller = Caller(tmp_path, service.url, service.api_key)
        assert caller.staged() == []
        assert caller.tables() == ["old"]
        assert caller.create("t", TABLE).status_code == 200
        assert caller.read("old").equals(caller.read("t"))
        caller.close()


def test_S08_S13_without_room_nothing_is_stored_or_changed_and_the_error_says_so(
    tmp_path,
):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))"
    big = pa.table({"n": np.random.default_rng(8).integers(2**30, size=300_000)})
    lance.write_dataset(big, str(tmp_path / "there.lance"))
    with Process(tmp_path, limit) as service:
        caller = service.caller

        def replace(table: pa.Table) -> int:
            return caller.post_rows("small/create/?mode=overwrite", table).status_code

        def files() -> int:
            return len(list((tmp_path / "small.lance" / "data").iterdir()))

        assert "disk" in message(caller.create("big", big), 507)
        assert caller.tables() == ["there"]
        assert caller.staged() == []
        answer = caller.alter("there", {"path": "n", "data_type": {"type": "int32"}})
        assert "'n'" in message(answer, 507)
        assert "disk" in message(answer)
        with pytest.raises(rt.errors.ServerError, match="nothing was stored"):
            service.client.table("there").cast({"n": "int32"})
        assert caller.read("there").equals(big)
        assert caller.create("small", TABLE).status_code == 200
        assert replace(big) == 507
        assert caller.read("small").equals(TABLE)
        assert files() == 1
        answer = caller.post_rows(f"small/merge_insert/?on=n&{UPSERT}", big)
        assert "disk" in message(answer, 507)
        assert caller.read("small").equals(TABLE)
        assert files() == 1
        for _ in range(11):
            assert replace(TABLE) == 200
        assert files() == 12
        for manifest in tmp_path.glob("small.lance/_versions/*"):
            os.utime(manifest, (0, 0))
        assert replace(big) == 507
        # room was made before it was needed
        assert files() == 1


ENDS = """
import sys, threading, time, polars as pl, rt_frames as rt
from rt_frames.local import LocalService
LocalService(sys.argv[1]).start()
client, half = rt.connect(sys.argv[1]), threading.Event()
def frames():
    yield from [pl.DataFrame({"a": range(300_000)})] * 4
    half.set()
    time.sleep(30)
threading.Thread(target=client.create_table, args=("t", frames()), daemon=True).start()
assert half.wait(20)
print(time.time())
"""


def test_the_interpreter_ends_beside_a_forgotten_service_whose_upload_leaves_no_table(
    tmp_path,
):
    ended = float(run(ENDS, tmp_path))
    assert time.time() - ended < 8
    with LocalService(tmp_path) as service:
        assert list((service.root / ".rt_frames-staging").iterdir()) == []
        assert list(service.root.glob("*.lance")) == []


STOPPED = """
import os, signal, socket, sys, threading, time
from rt_frames.local import LocalService
with LocalService(sys.argv[1]):
    pass
before = threading.active_count()
for _ in range(3):
    service = LocalService(sys.argv[1]).start()
    port = int(service.url.rpartition(":")[2])
    threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        service.close()
        time.sleep(10)
    except KeyboardInterrupt:
        print("interrupted")
    service.close()
    until = time.monotonic() + 10
    is_open = True
    while is_open and time.monotonic() < until:
        time.sleep(0.01)
        with socket.socket() as tried:
            is_open = not tried.connect_ex(("127.0.0.1", port))
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= before, threading.enumerate()
    if not is_open:
        print("stopped")
"""


def test_a_service_whose_stop_is_interrupted_stops_all_the_same(tmp_path):
    assert run(STOPPED, tmp_path) == "interrupted\nstopped\n" * 3


FORK = """
import os, pickle, sys, threading, warnings
# Python's own, for forks beside threads
warnings.filterwarnings("ignore", category=DeprecationWarning)
import pyarrow as pa, rt_frames as rt
from rt_frames.local import LocalService
table, root = pa.table({"a": [1, 2]}), sys.argv[1]
def in_a_child(work):
    if number := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0
        return
    try:
        work()
        os._exit(0)
    finally:
        os._exit(3)
def start():
    with rt.connect(f"{root}/early", default=False) as client:
        client.create_table("t", table)
def refused():
    # a pool would wait for ever for a task that cannot be unpickled
    sent = pickle.loads(packed)
    for use in (sent.list_tables, lambda: rt.connect(f"{root}/new", default=False)):
        try:
            use()
        except RuntimeError as error:
            assert "'spawn', or run rt-frames serve" in str(error)
        else:
            raise AssertionError
def use():
    client.create_table("child", table)
    refused()
    client.close()
LocalService(f"{root}/early")
in_a_child(start)
warnings.filterwarnings("ignore", "lance is not fork-safe")
client = rt.connect(f"{root}/one", default=False)
client.create_table("before", table)
packed = pickle.dumps(client)
in_a_child(use)
ended = threading.Event()
def busy():
    while not ended.is_set():
        rt.connect(f"{root}/two", default=False).close()
thread = threading.Thread(target=busy)
thread.start()
for _ in range(10):
    in_a_child(refused)
ended.set()
thread.join()
assert client.list_tables() == ["before", "child"]
client.close()
"""


def test_children_of_a_fork_use_their_parents_service_and_start_one_only_if_it_had_none(
    tmp_path,
):
    run(FORK, tmp_path)
    for table in ("early/t", "one/child"):
        assert lance.dataset(str(tmp_path / f"{table}.lance")).to_table().equals(SMALL)


def test_a_service_without_descriptors_says_that_it_is_its_own_fault(elsewhere, other):
    assert other.create("t", LONG).status_code == 200
    process = elsewhere.pid
    what = resource.RLIMIT_NOFILE
    limits = resource.prlimit(process, what)
    for call in (
        lambda: other.create("u", BODY),
        lambda: other.send("POST", "/v1/table/t/drop/"),
    ):
        assert other.tables() == ["t"]  # on a connection that is then there
        resource.prlimit(process, what, (3, limits[1]))
        try:
            status = call().status_code
        finally:
            resource.prlimit(process, what, limits)
        assert status == 500
    assert other.create("u", BODY).status_code == 200
    assert other.tables() == ["t", "u"]


def test_S13_a_folder_removed_in_mid_upload_is_the_services_fault_and_the_outcome_open(
    tmp_path,
):
    folder = tmp_path / "tables"

    def removing():
        yield from LONG.to_batches(max_chunksize=1000)[:100]
        until(lambda: list((folder / ".rt_frames-staging").iterdir()))
        folder.rename(tmp_path / "gone")
        folder.write_text("a file, so that the engine cannot make it again")
        yield from LONG.to_batches(max_chunksize=1000)[100:]

    with (
        rt.connect(folder, default=False) as client,
        pytest.raises(rt.errors.ServerError, match="outcome is unknown") as caught,
    ):
        client.create_table("t", removing())
    assert caught.value.status == 500
    assert caught.value.listed is False
    assert str(tmp_path) not in str(caught.value)


def test_a_table_that_somebody_damaged_is_the_services_fault_which_its_log_explains(
    caller, caplog
):
    caller.create("t", SMALL)
    for manifest in (caller.root / "t.lance" / "_versions").iterdir():
        manifest.write_bytes(b"damaged")
    answer = caller.send("POST", "/v1/table/t/describe/", "{}")
    assert str(caller.root) not in message(answer, 500)
    assert "the embedded service failed" in caplog.text
    assert caller.create("u", SMALL).status_code == 200


def test_early_refusals_and_clients_that_vanish_print_nothing_and_leave_no_warning(
    tmp_path, capfd
):
    with LocalService(tmp_path) as service:
        caller = Caller(service.root, service.url, service.api_key)
        body = stream(TABLE)
        for path in ("/v1/tables/..", "/v1/tables/%252e", "/x", "/v1/tables/t"):
            with caller.connect() as connection:
                length = f"Content-Length: {len(body)}"
                connection.sendall(caller.head(path, length, "Connection: close"))
                connection.sendall(body)
                answered(connection)
            # with 0 the service answers on a connection that was reset
            for linger in (0, 1):
                with caller.connect() as connection:
                    head = caller.head(path, f"Content-Length: {2**20}")
                    connection.sendall(head + bytes(1000))
                    set_linger(connection, linger)
        caller.close()
    gc.collect()  # and pytest is told to take warnings for errors
    assert capfd.readouterr().err == ""


def test_a_service_starts_and_stops_as_often_as_it_is_told_with_a_key_of_its_own(
    tmp_path,
):
    service = LocalService(tmp_path / "made" / "here", api_key="k-1")
    with pytest.raises(RuntimeError, match="not running"):
        _ = service.url
    service.close()
    for _ in range(2):
        with service, service as same:
            assert same.start() is service
            client = rt.connect(service.url, api_key="k-1", default=False)
            assert client.list_tables() == []
        assert "k-1" not in repr(service)
        service.close()
        shutil.rmtree(service.root)
    assert len({LocalService(tmp_path).api_key for _ in range(20)}) == 20


# the server forgets a socket then
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_taken_port_is_an_error_and_leaves_the_service_stopped(tmp_path, caller):
    other = LocalService(tmp_path / "other", port=urlsplit(caller.url).port)
    with pytest.raises(OSError, match=r"(?i)address"):
        other.start()
    assert "not running" in repr(other)


def test_a_client_closes_though_rows_of_its_folder_are_unread(tmp_path):
    table = pa.table({"n": np.random.default_rng(0).integers(2**62, size=4 * 10**6)})
    client = rt.connect(tmp_path / "tables", default=False)
    reader = pa.RecordBatchReader.from_stream(client.create_table("t", table))
    reader.read_next_batch()
    closing = threading.Thread(target=client.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    with pytest.raises(pa.ArrowInvalid, match="the response failed"):
        reader.read_all()
