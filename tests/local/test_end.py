"""How services and uploads end: by signals, with their process, beside forks, without room, locks or descriptors.

S02, S08, S13 of the matrix in tests/faults/README.md.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest

from rt_frames.local import LocalService
from tests.support.compare import lance
from tests.support.local import ARROW, NUMBERS, TABLE, Caller, Process, answered, message, stream

LONG = pa.table({"n": range(200_000)})
BODY = stream(LONG, rows=1000)


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def half_sent(caller: Caller, name: str = "t") -> socket.socket:
    """Begin an upload, and wait until the service has begun to store it."""
    before, connection = len(caller.staged()), caller.connect()
    connection.sendall(caller.head(f"/v1/tables/{name}", f"Content-Length: {len(BODY)}") + BODY[: len(BODY) // 2])
    assert until(lambda: len(caller.staged()) > before)
    return connection


def python(*arguments: object, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)], cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def run(code: str, *arguments: object, quiet: bool = False) -> str:
    """Run code to its end, where it is to be quiet without a warning, and give what it printed."""
    with python(*["-W", "error"] * quiet, "-c", code, *arguments) as process:
        printed, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert not (quiet and error), error
    return printed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_serve_and_its_uploads_in_bounded_time_without_a_traceback_or_a_part_of_a_table(tmp_path, number):
    env = {name: value for name, value in os.environ.items() if not name.startswith("RT_FRAMES")}
    process = python("-m", "rt_frames.cli", "serve", tmp_path, env=env)
    url, key = (process.stdout.readline().strip().partition("=")[2] for _ in range(2))
    caller = Caller(tmp_path, url, key)
    assert caller.create("whole", NUMBERS).status_code == 200
    uploads = [half_sent(caller, f"t{i}") for i in range(10)]
    started = time.monotonic()
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert time.monotonic() - started < 8
    assert (process.returncode, "Traceback" in error, error.endswith("stopped\n")) == (0, False, True)
    for upload in uploads:
        with upload:
            status, answer = answered(upload)
        assert (status, "stopping" in answer["error"]["message"]) == (503, True)
    assert [path.name for path in tmp_path.glob("*.lance")] == ["whole.lance"]
    assert caller.staged() == []
    caller.close()


def test_a_signal_that_comes_while_serve_starts_ends_it(tmp_path):
    process = python("-X", "importtime", "-m", "rt_frames.cli", "serve", tmp_path)
    while "cheroot" not in process.stderr.readline():  # the signals are handled before the service is loaded
        pass
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in error) == (0, False)


@pytest.mark.parametrize("how", ["FIN", "RST"])
def test_S02_a_client_that_dies_in_mid_upload_leaves_nothing_and_the_name_free(caller, how):
    connection = half_sent(caller)
    if how == "RST":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    assert until(lambda: not caller.staged())
    assert caller.tables() == []
    assert caller.create("t", BODY).status_code == 200
    assert caller.read("t").equals(LONG)


def test_S02_a_service_that_is_killed_in_mid_upload_starts_clean_and_one_that_stops_answers(tmp_path):
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
        upload, started = half_sent(caller, "u"), time.monotonic()
    assert time.monotonic() - started < 8
    with upload:
        assert answered(upload)[0] == 503
    assert caller.staged() == []
    assert not (tmp_path / "u.lance").exists()
    caller.close()


def test_S08_a_full_disk_is_a_server_error_and_nothing_is_listed(tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))"
    big, path = pa.table({"n": np.random.default_rng(8).random(300_000)}), "/v1/table/small/create/?mode=overwrite"

    def files() -> int:
        return len(list((tmp_path / "small.lance" / "data").iterdir()))

    with Process(tmp_path, limit) as service:
        caller = service.caller

        def replace(table: pa.Table) -> int:
            return caller.send("POST", path, stream(table), content_type=ARROW).status_code

        answer = caller.create("big", big)
        assert (answer.status_code, "disk" in message(answer)) == (507, True)
        assert (caller.tables(), caller.staged()) == ([], [])
        assert caller.create("small", TABLE).status_code == 200
        assert replace(big) == 507
        assert caller.read("small").equals(TABLE)
        assert files() == 1
        assert [replace(TABLE) for _ in range(11)] == [200] * 11
        assert files() == 11
        assert replace(big) == 507
        assert files() == 10  # room was made before it was needed
        assert service.alive


FIFTY = """
import resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
import threading, time, polars as pl, rt_frames as rt
frame = pl.DataFrame({"a": [1, 2]})
clients = [rt.connect(f"{sys.argv[1]}/{i}", default=False) for i in range(50)]
for client in clients:
    client.create_table("t", frame)
threads = [thread for thread in threading.enumerate() if "Dummy" not in thread.name]  # the engine's own
assert len(threads) <= 2 + 8 * len(clients), threads
assert [client.list_tables() for client in clients] == [["t"]] * 50
print(time.time())
"""


def test_256_descriptors_are_enough_for_50_folders_which_end_with_the_interpreter_at_once(tmp_path):
    ended = float(run(FIFTY, tmp_path))
    assert time.time() - ended < 6  # half a second, on a machine that has nothing else to do
    assert len(list(tmp_path.glob("*/t.lance"))) == 50


INTERRUPTED = """
import sys, polars as pl, rt_frames as rt
client = rt.connect(sys.argv[1], default=False)
client.create_table("t", pl.DataFrame({"a": [1, 2]}), if_exists="skip")
print("ready", flush=True)
"""


@pytest.mark.parametrize(("step", "late"), [("client.close()", 0.02), ("", 0.06)])
def test_ctrl_c_while_a_service_stops_ends_the_process_all_the_same(tmp_path, step, late):
    process = python("-c", INTERRUPTED + step, tmp_path)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(late)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode in (0, -signal.SIGINT)
    assert "Fatal" not in error


AGAIN = """
import os, signal, socket, sys, threading, time, rt_frames as rt
from rt_frames.local import LocalService
with LocalService(sys.argv[1]):
    pass
before = threading.active_count()
for _ in range(5):
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
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= before, threading.enumerate()
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        print("stopped")
"""


def test_a_service_whose_stop_is_interrupted_stops_all_the_same(tmp_path):
    assert run(AGAIN, tmp_path) == "interrupted\nstopped\n" * 5


DAEMON = """
import sys, threading, time, polars as pl, rt_frames as rt
client, half = rt.connect(sys.argv[1]), threading.Event()
def frames():
    yield from [pl.DataFrame({"a": range(300_000)})] * 4
    half.set()
    time.sleep(30)
threading.Thread(target=client.create_table, args=("t", frames()), daemon=True).start()
assert half.wait(20)
print(time.time())
"""


def test_the_interpreter_ends_in_the_middle_of_an_upload_to_its_own_service_which_leaves_no_table(tmp_path):
    ended = float(run(DAEMON, tmp_path, quiet=True))
    assert time.time() - ended < 8
    with LocalService(tmp_path) as service:
        assert list((service.root / ".rt_frames-staging").iterdir()) == []
        assert list(service.root.glob("*.lance")) == []


FORK = """
import os, sys, threading, time, warnings
warnings.filterwarnings("ignore", category=DeprecationWarning)
import pyarrow as pa, rt_frames as rt
table = pa.table({"a": [1, 2]})
root = sys.argv[1]
client = rt.connect(f"{root}/one", default=False)
client.create_table("before", table)
def child(work):
    if number := os.fork():
        return number
    try:
        work()
        try:
            rt.connect(f"{root}/new", default=False)
        except RuntimeError as error:
            assert "fork" in str(error)
            client.close()
            os._exit(0)
    finally:
        os._exit(3)
def end(number):
    assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0
end(child(lambda: client.create_table("child", table)))
ended = threading.Event()
def busy():
    while not ended.is_set():
        rt.connect(f"{root}/two", default=False).close()
thread = threading.Thread(target=busy)
thread.start()
for _ in range(10):
    end(child(lambda: None))
ended.set()
thread.join()
assert client.list_tables() == ["before", "child"]
client.close()
"""


def test_children_of_a_fork_use_their_parents_service_and_cannot_start_one(tmp_path):
    run(FORK, tmp_path)
    assert lance.dataset(str(tmp_path / "one" / "child.lance")).to_table().to_pydict() == {"a": [1, 2]}


def faulty(tmp_path: Path, before: str, code: str, *arguments: str) -> list[str]:
    """Run code with a client, beside an operating system that was made to fail."""
    head = f"import datetime, errno, fcntl, os, sys, threading, time\n{before}\nimport polars as pl, rt_frames as rt\n"
    return run(head + code, tmp_path, *arguments).splitlines()


def test_a_file_system_without_locks_is_named(tmp_path):
    before = """
def flock(*_):
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
fcntl.flock = flock"""
    (said,) = faulty(tmp_path, before, "try: rt.connect(sys.argv[1])\nexcept ValueError as error: print(error)")
    assert "no locks" in said
    assert str(tmp_path) in said


def test_S13_a_fault_of_the_file_system_is_the_services_names_no_folder_and_tells_what_is_certain(tmp_path):
    before = """
def rename(*_, **__):
    number = getattr(errno, names[0])
    raise OSError(number, os.strerror(number), sys.argv[1])
os.rename = rename
names = ["EPERM", "EXDEV", "ESTALE", "EIO", "EBUSY", "EROFS", "EACCES", "EDQUOT", "ENOSPC"]"""
    code = """
client = rt.connect(sys.argv[1])
while names:
    try: client.create_table("t", pl.DataFrame({"a": [1]}))
    except rt.errors.ServerError as error: print(names.pop(0), error.listed, sys.argv[1] in str(error), error)
print(client.list_tables())"""
    *said, tables = faulty(tmp_path, before, code)
    assert tables == "[]"
    for line, status in zip(said, [500] * 5 + [507] * 4, strict=True):
        assert line.split()[1:3] == ["False", "False"], line
        assert f"answered {status}, the table could not be stored" in line
        assert ("not known" in line) == (status == 500)
    assert "may not write" in said[6]
    assert "disk is full" in said[8]


def test_a_service_without_descriptors_or_threads_says_that_it_is_its_own_fault(tmp_path):
    code = """
import resource, requests, pyarrow as pa
from rt_frames.local import LocalService
sink = pa.BufferOutputStream()
table = pa.table({"a": range(300_000)})
with pa.ipc.new_stream(sink, table.schema) as writer: writer.write_table(table)
with LocalService(sys.argv[1], api_key="k") as service, requests.Session() as session:
    session.headers.update({"x-api-key": "k", "Content-Type": "application/vnd.apache.arrow.stream"})
    create = lambda name: session.post(f"{service.url}/v1/tables/{name}", data=sink.getvalue().to_pybytes())
    print(create("t").status_code)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, limits[1]))
    print(create("u").status_code, session.post(f"{service.url}/v1/table/t/drop/").status_code)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    start, threading.Thread.start = threading.Thread.start, no_thread
    print(create("u").status_code)
    threading.Thread.start = start
    print(create("u").status_code, session.get(f"{service.url}/v1/tables").json())"""
    before = """
def no_thread(*_): raise RuntimeError("can't start new thread")"""
    assert faulty(tmp_path, before, code) == ["200", "500 500", "503", "200 {'tables': ['t', 'u']}"]


def test_S13_an_alter_for_which_there_is_no_room_changes_nothing_and_says_so(tmp_path):
    code = """
import resource
client = rt.connect(sys.argv[1])
client.create_table("t", pl.DataFrame({"a": range(300_000)}))
resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, 2**18))
try: client.table("t").cast({"a": "int32"})
except rt.errors.ServerError as error: print(error)
print(client.table("t").schema.field("a").type)"""
    said, still = faulty(tmp_path, "", code)
    assert [fact for fact in ("507", "nothing was changed", "'a'", "disk is full") if fact not in said] == []
    assert still == "int64"


def test_S13_a_folder_that_is_removed_in_mid_upload_is_the_services_fault(tmp_path):
    with LocalService(tmp_path / "tables") as service:
        caller = Caller(service.root, service.url, service.api_key)

        def removing():
            yield BODY[: len(BODY) // 2]
            assert until(caller.staged)
            (tmp_path / "tables").rename(tmp_path / "gone")
            (tmp_path / "tables").write_text("a file, so that the engine cannot make it again")
            yield BODY[len(BODY) // 2 :]

        answer = caller.create("t", removing())
        assert (answer.status_code, str(tmp_path) in message(answer)) == (500, False)
        assert caller.tables() == []
        caller.close()


def test_a_file_system_that_answers_a_list_late_holds_up_no_create(tmp_path):
    before = """
real, late, go_on = os.scandir, threading.Event(), threading.Event()
def scandir(path):
    if str(path).endswith("tables"):
        late.set()
        go_on.wait(20)
    return real(path)
os.scandir = scandir"""
    code = """
client = rt.connect(sys.argv[1] + "/tables")
client.create_table("warm", pl.DataFrame({"a": [1]}))
lister = threading.Thread(target=client.list_tables)
lister.start()
assert late.wait(20)
client.create_table("t", pl.DataFrame({"a": [1]}))
assert lister.is_alive()
go_on.set()
lister.join()"""
    faulty(tmp_path, before, code)
    assert sorted(path.name for path in (tmp_path / "tables").glob("*.lance")) == ["t.lance", "warm.lance"]


def test_a_version_that_was_replaced_stays_for_ten_minutes(tmp_path):
    code = """
import lance
client, real = rt.connect(sys.argv[1]), datetime.datetime
class Later(real):
    @classmethod
    def now(cls, zone=None): return real.fromtimestamp(time.time(), zone) + datetime.timedelta(minutes=minutes)
datetime.datetime = Later
for minutes in (0, 0, 0, 9, 11):
    client.create_table("t", pl.DataFrame({"a": [1]}), if_exists="replace")
    print([version["version"] for version in lance.dataset(sys.argv[1] + "/t.lance").versions()])"""
    assert faulty(tmp_path, "", code)[-2:] == ["[1, 2, 3, 4]", "[4, 5]"]


def test_a_forgotten_service_does_not_keep_the_interpreter_from_ending(tmp_path):
    code = """
import sys, pyarrow as pa
from rt_frames.local import LocalService
from tests.support.local import Caller
service = LocalService(sys.argv[1]).start()
LocalService(sys.argv[1]).start()
caller = Caller(service.root, service.url, service.api_key)
assert caller.create("t", pa.table({"a": [1]})).status_code == 200
print("end")
"""
    assert run(code, tmp_path, quiet=True) == "end\n"


def test_early_refusals_and_clients_that_vanish_leave_no_warning(tmp_path):
    code = """
import gc, socket, struct, sys
from rt_frames.local import LocalService
from tests.support.local import TABLE, Caller, answered, stream
with LocalService(sys.argv[1]) as service:
    caller = Caller(service.root, service.url, service.api_key)
    body = stream(TABLE)
    for path in ("/v1/tables/..", "/v1/tables/%252e", "/x", "/v1/tables/t"):
        with caller.connect() as connection:
            connection.sendall(caller.head(path, f"Content-Length: {len(body)}", "Connection: close") + body)
            answered(connection)
        for linger in (0, 1):  # seconds; with 0 the service's answer meets a connection that was reset
            with caller.connect() as connection:
                connection.sendall(caller.head(path, f"Content-Length: {2**20}") + bytes(1000))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, linger))
    for host in ("localhost", "evil"):
        caller.send("GET", "/v1/tables", host=host)
    caller.close()
gc.collect()
print("end")
"""
    assert run(code, tmp_path, quiet=True) == "end\n"


def test_a_service_starts_and_stops_as_often_as_it_is_told(tmp_path):
    service = LocalService(tmp_path / "made" / "here", api_key="k-1")
    with pytest.raises(RuntimeError, match="not running"):
        _ = service.url
    service.close()
    for _ in range(2):
        with service, service as same:
            assert same.start() is service
            caller = Caller(service.root, service.url, "k-1")
            assert caller.tables() == []
            caller.close()
        assert "k-1" not in repr(service)
        service.close()
    assert service.root.is_dir()


def test_every_service_has_a_random_key_and_a_bad_one_is_refused_unseen(tmp_path):
    assert len({LocalService(tmp_path).api_key for _ in range(20)}) == 20
    for bad in ("", "a b", "k\n", "é"):
        with pytest.raises(ValueError, match="api_key") as caught:
            LocalService(tmp_path, api_key=bad)
        assert not bad or bad not in str(caught.value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the server forgets a socket then
def test_a_taken_port_is_an_error_and_leaves_the_service_stopped(tmp_path, caller):
    other = LocalService(tmp_path / "other", port=urlsplit(caller.url).port)
    with pytest.raises(OSError, match=r"(?i)address"):
        other.start()
    assert "not running" in repr(other)
