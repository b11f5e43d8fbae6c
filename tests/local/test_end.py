"""How services end: told to by a signal, with their process, beside forks, and with few descriptors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from rt_frames.local import LocalService
from tests.support.compare import lance
from tests.support.local import NUMBERS, Caller, answered, message, stream


class Served:
    """``rt-frames serve`` on a folder, in a process of its own."""

    def __init__(self, root: Path) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith("RT_FRAMES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rt_frames.cli", "serve", str(root)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
        assert self.process.stdout
        url, key = (self.process.stdout.readline().strip().partition("=")[2] for _ in range(2))
        self.caller = Caller(root, url, key)

    def end(self, number: int) -> tuple[int, str, float]:
        """Send a signal; give the exit code, what was written to standard error, and the seconds that it took."""
        started = time.monotonic()
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=30)
        self.caller.close()
        return self.process.returncode, err, time.monotonic() - started


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_serve_and_its_uploads_in_bounded_time_without_a_traceback_or_a_part_of_a_table(tmp_path, number):
    served = Served(tmp_path)
    assert served.caller.create("whole", NUMBERS).status_code == 200
    body = stream(pl.DataFrame({"n": range(200_000)}).to_arrow(), rows=1000)
    uploads = [served.caller.connect() for _ in range(10)]
    for i, upload in enumerate(uploads):
        upload.sendall(served.caller.head(f"/v1/tables/t{i}", f"Content-Length: {len(body)}") + body[: len(body) // 2])
    while len(served.caller.staged()) < len(uploads):
        time.sleep(0.01)
    code, err, seconds = served.end(number)
    assert (code, "Traceback" in err) == (0, False)
    assert err.endswith("stopped\n")
    assert seconds < 8
    for upload in uploads:
        with upload:
            status, answer = answered(upload)
        assert (status, "stopping" in answer["error"]["message"]) == (503, True)
    assert [path.name for path in tmp_path.glob("*.lance")] == ["whole.lance"]
    assert served.caller.staged() == []


def test_a_signal_that_comes_while_serve_starts_ends_it(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "rt_frames.cli", "serve", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr
    while "cheroot" not in process.stderr.readline():  # the signals are handled before the service is loaded
        pass
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in err) == (0, False)


def test_an_upload_of_a_process_that_is_killed_leaves_no_table_and_its_rest_is_wiped(tmp_path):
    code = (
        "import sys, time, polars as pl, rt_frames as rt\n"
        "def frames():\n"
        "    yield pl.DataFrame({'a': range(100_000)})\n"
        "    print('half', flush=True)\n"
        "    time.sleep(60)\n"
        "rt.connect(sys.argv[1]).create_table('t', frames())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"half\n"
    staging = tmp_path / ".rt_frames-staging"
    while not list(staging.iterdir()):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert list(staging.iterdir()) != []
    run("import sys, rt_frames as rt\nassert rt.connect(sys.argv[1]).list_tables() == []", tmp_path)
    assert list(staging.iterdir()) == []


def run(code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


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


@pytest.mark.parametrize("late", [0.02, 0.06])
@pytest.mark.parametrize("step", ["client.close()", "del client", ""])
def test_ctrl_c_while_a_service_stops_ends_the_process_all_the_same(tmp_path, step, late):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED + step, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(late)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode in (0, -signal.SIGINT)
    assert b"Fatal" not in err


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
    until = time.monotonic() + 5
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


MANY = """
import gc, logging, os, sys, threading, time, polars as pl, rt_frames as rt
frame = pl.DataFrame({"a": [1, 2]})
def used(numbers):
    for i in numbers:
        with rt.connect(f"{sys.argv[1]}/{i}", default=False) as client:
            client.create_table("t", frame)
    gc.collect()
    memory = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    threads = sum("Dummy" not in thread.name for thread in threading.enumerate())  # which are the engine's
    return threads, len(os.listdir("/proc/self/fd")), len(logging.statistics), memory
before = used(range(10))
after = used(range(10, 10 + int(sys.argv[2])))
assert after[:3] <= before[:3], (before, after)
assert after[3] - before[3] < 16 * 2**20, (before, after)
"""


@pytest.mark.parametrize("folders", [20, pytest.param(200, marks=pytest.mark.long)])
def test_S11_folders_leave_no_thread_descriptor_figure_or_memory_behind(tmp_path, folders):
    run(MANY, tmp_path, folders)


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


def faulty(tmp_path: Path, before: str, code: str, *arguments: str) -> str:
    """Run code with a client, beside an operating system that was made to fail."""
    head = f"import errno, fcntl, os, sys, threading, time\n{before}\nimport polars as pl, rt_frames as rt\n"
    return run(head + code, tmp_path, *arguments)


def test_a_file_system_without_locks_is_named_in_one_sentence(tmp_path):
    before = """
def flock(*_):
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
fcntl.flock = flock"""
    said = faulty(tmp_path, before, "try: rt.connect(sys.argv[1])\nexcept ValueError as error: print(error)")
    assert "the file system has no locks" in said
    assert str(tmp_path) in said


def test_S13_a_fault_of_the_file_system_is_the_services_and_names_no_folder(tmp_path):
    before = """
def rename(*_, **__):
    number = getattr(errno, names.pop())
    raise OSError(number, os.strerror(number), sys.argv[1])
os.rename = rename
names = ["EPERM", "EXDEV", "ESTALE", "EIO", "EBUSY", "EROFS", "EDQUOT", "ENOSPC"]"""
    code = """
client = rt.connect(sys.argv[1])
while names:
    try: client.create_table("t", pl.DataFrame({"a": [1]}))
    except rt.errors.ServerError as error: print(error.status, error.listed, sys.argv[1] in str(error))
print(client.list_tables())"""
    said = faulty(tmp_path, before, code).splitlines()
    assert said == ["507 False False"] * 3 + ["500 False False"] * 5 + ["[]"]


@pytest.mark.parametrize(
    ("number", "why"),
    [
        ("ENOSPC", "the disk is full (No space left on device); make room and try again"),
        ("EROFS", "the service may not write to its folder (Read-only file system); allow that, or use another folder"),
        ("EACCES", "the service may not write to its folder (Permission denied); allow that, or use another folder"),
    ],
)
def test_S13_what_could_not_be_stored_is_told_without_doubt(tmp_path, number, why):
    before = """
def rename(*_, **__):
    raise OSError(number, os.strerror(number))
os.rename = rename
number = getattr(errno, sys.argv[2])"""
    code = """
client = rt.connect(sys.argv[1])
try: client.create_table("t", pl.DataFrame({"a": [1]}))
except rt.errors.ServerError as error: print(error)"""
    said = faulty(tmp_path, before, code, number)
    assert said == f"could not create table 't': the service answered 507, the table could not be stored: {why}\n"


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
    said = faulty(tmp_path, before, code).splitlines()
    assert said == ["200", "500 500", "503", "200 {'tables': ['t', 'u']}"]


def test_S13_an_alter_for_which_there_is_no_room_changes_nothing_and_says_so(tmp_path):
    code = """
import resource
client = rt.connect(sys.argv[1])
client.create_table("t", pl.DataFrame({"a": range(300_000)}))
resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, 2**18))
try: client.table("t").cast({"a": "int32"})
except rt.errors.ServerError as error: print(error)
print(client.table("t").schema.field("a").type)"""
    said, still = faulty(tmp_path, "", code).splitlines()
    assert said == (
        "could not alter table 't': the service answered 507, nothing was changed, column 'a' (from int64 to int32): "
        "the disk is full (File too large); make room and try again"
    )
    assert still == "int64"


def test_S13_a_folder_that_is_removed_in_mid_upload_is_the_services_fault(tmp_path):
    body = stream(pl.DataFrame({"n": range(200_000)}).to_arrow(), rows=1000)
    with LocalService(tmp_path / "tables") as service:
        caller = Caller(service.root, service.url, service.api_key)

        def removing():
            yield body[: len(body) // 2]
            while not caller.staged():
                time.sleep(0.01)
            (tmp_path / "tables").rename(tmp_path / "gone")
            (tmp_path / "tables").write_text("a file, so that the engine cannot make it again")
            yield body[len(body) // 2 :]

        answer = caller.create("t", removing())
        assert answer.status_code == 500
        assert str(tmp_path) not in message(answer)
        assert caller.tables() == []
        caller.close()


LATE = """
real = os.scandir
def scandir(path):
    if str(path).endswith("tables"):
        late.set()
        time.sleep(5)
    return real(path)
os.scandir = scandir
late = threading.Event()"""


def test_a_file_system_that_answers_a_list_late_holds_up_no_create(tmp_path):
    code = """
client = rt.connect(sys.argv[1] + "/tables")
client.create_table("warm", pl.DataFrame({"a": [1]}))
lister = threading.Thread(target=client.list_tables)
lister.start()
assert late.wait(10)
client.create_table("t", pl.DataFrame({"a": [1]}))
assert lister.is_alive()
lister.join()"""
    faulty(tmp_path, LATE, code)
    assert sorted(path.name for path in (tmp_path / "tables").glob("*.lance")) == ["t.lance", "warm.lance"]
