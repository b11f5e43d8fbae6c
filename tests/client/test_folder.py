"""A folder is called: on the caller's thread, beside itself, and until it is left.

The rows come and go between the caller's thread and one of the call, without a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import os
import shutil
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.local import staged
from tests.support.processes import python
from tests.support.sources import Source

ROWS = pa.table({"n": [1, 2, 3]})
N = pl.col("n")
MANY = pa.table({"n": np.arange(2**21)})


def numbers(place, name: str) -> list[int]:
    return sorted(place.read(name)["n"].to_pylist())


# What is open


OPEN = """
import os, sys, threading
import rt_frames as rt
def sockets():
    links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    lines = open("/proc/self/net/tcp").readlines() + open("/proc/self/net/tcp6").readlines()
    return [line for line in lines if any(f"[{line.split()[9]}]" in link for link in links)]
client = rt.connect(sys.argv[1])
assert "lance" not in sys.modules
assert "cheroot" not in sys.modules
import pyarrow as pa
client.create_table("t", pa.table({"n": [1, 2, 3]}))
assert client.table("t").count() == 3
ours = [thread for thread in threading.enumerate() if "rt_frames" in thread.name]
print(ours, sockets())
"""


def test_a_folder_opens_no_port_and_leaves_no_thread(tmp_path):
    with python("-c", OPEN, tmp_path / "tables") as program:
        assert program.communicate() == ("[] []\n", "")


def test_a_stream_has_a_thread_until_it_was_read(place, name):
    place.create(name, MANY)
    reader = pa.RecordBatchReader.from_stream(place.table(name))
    reader.read_next_batch()
    reader.read_all()
    assert [t for t in threading.enumerate() if "rt_frames" in t.name] == []


def test_a_stream_and_a_scan_outlive_their_client(tmp_path):
    client = rt.connect(tmp_path / "tables", default=False)
    client.create_table("t", MANY)
    reader = pa.RecordBatchReader.from_stream(client.table("t"))
    scan = client.table("t").scan().filter(N < 5)
    client.close()
    del client
    gc.collect()
    assert reader.read_all().equals(MANY)
    assert scan.collect()["n"].to_list() == [0, 1, 2, 3, 4]


def test_a_stream_that_is_left_half_way_ends(place, name):
    place.create(name, MANY)
    for _ in range(20):
        reader = pa.RecordBatchReader.from_stream(place.table(name))
        reader.read_next_batch()
        del reader
    gc.collect()
    assert [t for t in threading.enumerate() if "rt_frames" in t.name] == []


def test_eighty_streams_are_read_at_once(place, name):
    place.create(name, MANY)
    readers = [pa.RecordBatchReader.from_stream(place.table(name)) for _ in range(80)]
    assert {reader.read_next_batch()["n"][0].as_py() for reader in readers} == {0}
    assert all(reader.read_all().num_rows for reader in readers)


# Whose thread makes the rows


def test_a_cursor_that_belongs_to_its_thread_is_a_source(place, name):
    def frames():
        cursor = connection.execute("SELECT n FROM t")
        while rows := cursor.fetchmany(1000):
            yield pl.DataFrame(rows, schema=["n"], orient="row")

    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (n INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(3000)])
        place.create(name, frames())
        place.append(name, frames())
    assert numbers(place, name) == sorted([*range(3000)] * 2)


def test_a_generator_that_fills_one_buffer_again_is_copied(place, name):
    buffer = np.zeros(2**16, np.int64)
    batch = pa.record_batch([pa.array(buffer)], ["n"])

    def batches():
        for number in range(40):
            buffer[:] = number
            yield batch

    place.create(name, batches(), compression=None)
    counts = place.read(name)["n"].value_counts().to_pylist()
    assert sorted((one["values"], one["counts"]) for one in counts) == [
        (number, 2**16) for number in range(40)
    ]


def test_a_call_of_another_thread_is_a_call(place, name):
    async def store():
        return await asyncio.to_thread(place.create, name, ROWS)

    assert asyncio.run(store()).rows == 3
    assert numbers(place, name) == [1, 2, 3]


@pytest.mark.parametrize("if_exists", ["fail", "append", "replace"])
@pytest.mark.parametrize(
    "error", [LookupError("no"), OSError("disk"), pa.ArrowInvalid("x")]
)
def test_a_source_that_raises_stores_nothing(place, name, if_exists, error):
    place.create(name, ROWS)
    table = f"{name}_new" if if_exists == "fail" else name
    source = Source(3, error, lambda _: ROWS)
    with pytest.raises(type(error)) as caught:
        place.create(table, source.run(), if_exists=if_exists)
    assert caught.value is error
    assert source.closed
    assert place.client.list_tables().count(table) == (table == name)
    assert numbers(place, name) == [1, 2, 3]
    assert place.open(name).version == 1


def test_a_refused_source_is_closed_and_not_read(place, name):
    source = Source(None, make=lambda _: ROWS)
    with pytest.raises(rt.errors.BadRequest, match="not a valid table name"):
        place.create("no name", source.run())
    assert source.closed
    assert source.made < 10


# Sources that use the folder


def test_a_table_is_copied_appended_to_itself_and_replaced_by_its_scan(place, name):
    table = place.create(name, ROWS)
    place.create(f"{name}_copy", table)
    place.append(name, place.table(name))
    assert numbers(place, f"{name}_copy") == [1, 2, 3]
    assert numbers(place, name) == [1, 1, 2, 2, 3, 3]
    place.create(name, place.table(name).scan().filter(N > 1), if_exists="replace")
    assert numbers(place, name) == [2, 2, 3, 3]


USES = {
    "reads": (lambda table: table.to_polars(), [1, 2, 3, 7]),
    "appends": (
        lambda table: rt.to_table(
            ROWS[:1], table.name, if_exists="append", client=table.client
        ),
        [1, 1, 2, 3, 7],
    ),
    "deletes": (lambda table: table.delete(N == 2), [1, 3, 7]),
}


@pytest.mark.parametrize("use", USES)
def test_a_generator_may_use_the_table_that_it_is_written_to(place, name, use):
    act, after = USES[use]
    place.create(name, ROWS)

    def rows():
        act(place.table(name))
        yield pa.table({"n": [7]})

    place.append(name, rows())
    assert numbers(place, name) == after


def test_a_generator_that_drops_its_table_is_told_that_nothing_was_stored(place, name):
    place.create(name, ROWS)

    def rows():
        yield ROWS
        place.table(name).drop()

    with pytest.raises(rt.errors.TableNotFoundError, match="nothing was stored"):
        place.append(name, rows())
    assert name not in place.client.list_tables()


# Many at once


def test_ten_threads_append_and_lose_nothing(place, name):
    place.create(name, ROWS[:0])
    with ThreadPoolExecutor(10) as pool:
        frames = [pa.table({"n": [number]}) for number in range(50)]
        assert len([*pool.map(lambda frame: place.append(name, frame), frames)]) == 50
    assert numbers(place, name) == [*range(50)]


APPENDS = """
import sys, pyarrow as pa, rt_frames as rt
client = rt.connect(sys.argv[1])
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 20):
    client.create_table("t", pa.table({"n": [number]}), if_exists="append")
"""


def test_two_processes_append_and_lose_nothing(tmp_path):
    rt.connect(tmp_path, default=False).create_table("t", ROWS[:0])
    with (
        python("-c", APPENDS, tmp_path, 0) as one,
        python("-c", APPENDS, tmp_path, 20) as two,
    ):
        assert [one.wait(), two.wait()] == [0, 0]
    stored = lance.dataset(str(tmp_path / "t.lance")).to_table()
    assert sorted(stored["n"].to_pylist()) == [*range(40)]


def test_a_read_whose_file_is_gone_says_that(place, name):
    place.create(name, ROWS)
    place.append(name, ROWS)
    (place.root / f"{name}.lance" / "data").rename(place.root / "elsewhere")
    with pytest.raises(
        rt.errors.ServerError, match=r"data/\w+.lance of the table is missing"
    ):
        place.table(name).to_arrow()


def test_a_table_always_has_a_history_while_it_is_purged(place, name):
    table = place.create(name, ROWS)
    ended = threading.Event()

    def purge():
        while not ended.is_set():
            place.append(name, ROWS)
            table.compact(purge=True)

    purging = [threading.Thread(target=purge) for _ in range(3)]
    for thread in purging:
        thread.start()
    counts = [len(place.table(name).history()) for _ in range(100)]
    ended.set()
    for thread in purging:
        thread.join()
    assert min(counts) > 0


# Locks


@contextlib.contextmanager
def locked(table: Path):
    handle = os.open(table, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    yield
    os.close(handle)


def test_a_lock_of_another_process_is_waited_for_until_the_read_timeout(tmp_path):
    client = rt.connect(tmp_path, timeout=(1, 1, 0.3), default=False)
    client.create_table("t", ROWS)
    with locked(tmp_path / "t.lance"):
        words = "locked the table for 0.3 s; nothing was changed; try again later$"
        with pytest.raises(rt.errors.ServerError, match=words) as caught:
            client.create_table("t", ROWS, if_exists="append")
        assert caught.value.attempts == 1
        assert client.table("t").count() == 3
    client.create_table("t", ROWS, if_exists="append")
    assert client.table("t").count() == 6


# Ctrl-C

INTERRUPTED = """
import fcntl, os, sys, threading, time
import pyarrow as pa, rt_frames as rt
client = rt.connect(sys.argv[1])
client.create_table("t", pa.table({"n": [1]}))
handle = os.open(sys.argv[1] + "/t.lance", os.O_RDONLY)
fcntl.flock(handle, fcntl.LOCK_EX)
print("locked", flush=True)
try:
    client.create_table("t", pa.table({"n": [2]}), if_exists="append")
except KeyboardInterrupt as error:
    print(getattr(error, "__notes__", []), flush=True)
fcntl.flock(handle, fcntl.LOCK_UN)
print(client.table("t").count())
"""


def test_an_interrupt_ends_the_wait_for_a_lock_and_nothing_is_stored(tmp_path):
    with python("-c", INTERRUPTED, tmp_path) as program:
        assert program.stdout.readline() == "locked\n"
        time.sleep(0.3)
        program.send_signal(signal.SIGINT)
        assert program.communicate() == ("[]\n1\n", "")


DRAWN = """
import logging, random, signal, sys, time
import numpy as np, polars as pl, pyarrow as pa, rt_frames as rt
from rt_frames.errors import RemoteError
client = rt.connect(sys.argv[1])
draw = random.Random(int(sys.argv[2]))
rows = pa.table({"n": np.arange(2**17), "s": pa.array(map(str, range(2**17)))})
client.create_table("t", rows)
signal.signal(signal.SIGALRM, signal.default_int_handler)
def pieces():
    for start in range(0, 2**17, 2**15):
        yield rows.slice(start, 2**15)
table = client.table("t")
# an upsert by a key that several rows have is warned of
logging.getLogger("rt_frames").setLevel("ERROR")
CALLS = {
    "append": lambda: client.create_table("t", rows, if_exists="append"),
    "pieces": lambda: client.create_table("t", pieces(), if_exists="append"),
    "upsert": lambda: client.create_table("t", rows[:9], if_exists="upsert", on="n"),
    "replace": lambda: client.create_table("t", rows, if_exists="replace"),
    "delete": lambda: table.delete(pl.col("n") < 1000),
    "read": lambda: table.to_arrow(),
    "scan": lambda: table.scan().filter(pl.col("n") > 5).collect(),
    "count": lambda: table.count(),
}
for number in range(int(sys.argv[3])):
    call = draw.choice([*CALLS])
    before = (table.history(limit=1)[0].version, table.count())
    note = "done"
    signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0005, 0.06))
    try:
        CALLS[call]()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except (KeyboardInterrupt, pl.exceptions.ComputeError) as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # Polars before 2.0 words an interrupt of a scan itself
        assert "KeyboardInterrupt" in repr(error)
        note = "".join(getattr(error, "__notes__", []))
    after = (table.history(limit=1)[0].version, table.count())
    is_write = call in ("append", "pieces", "upsert", "replace", "delete")
    # a compaction makes versions, too
    changed = after[0] != before[0]
    if note == "done" or "was carried out" in note:
        assert changed == (is_write and (call != "delete" or changed)), (call, note, before, after)
    elif note == "":
        assert before[1] == after[1], (call, before, after)
        time.sleep(0.1)
        assert table.count() == before[1], (call, before)
    else:
        assert "may still be carried out" in note, note
        print(call, note)
print("ended")
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_an_interrupt_at_any_moment_tells_what_was_done(tmp_path, seed):
    with python("-c", DRAWN, tmp_path, seed, 60, seconds=120) as program:
        printed, error = program.communicate()
    assert printed == "ended\n", error


# Ends


ENDS = """
import sys, threading, time
import polars as pl, pyarrow as pa, rt_frames as rt
client = rt.connect(sys.argv[1])
client.create_table("t", pa.table({"n": range(2**21)}))
half = threading.Event()
def frames():
    yield from [pl.DataFrame({"n": range(300_000)})] * 4
    half.set()
    time.sleep(30)
threading.Thread(target=client.create_table, args=("u", frames()), daemon=True).start()
assert half.wait(20)
stream = pa.RecordBatchReader.from_stream(client.table("t"))
stream.read_next_batch()
print(time.time())
"""


def test_the_interpreter_ends_beside_a_write_and_a_stream(tmp_path):
    with python("-W", "error", "-c", ENDS, tmp_path) as program:
        printed, error = program.communicate()
    assert (program.returncode, error) == (0, "")
    assert time.time() - float(printed) < 8
    client = rt.connect(tmp_path, default=False)
    client.create_table("v", ROWS)
    assert client.list_tables() == ["t", "v"]
    assert staged(tmp_path) == []


# A folder that version 0.4 wrote


def test_a_folder_of_version_4_is_swept_and_goes_on(tmp_path):
    client = rt.connect(tmp_path, default=False)
    client.create_table("t", ROWS)
    properties = {"rt_frames.call": "7b0f5e9e-57a1-4b0c-a6a5-0ad5c3ff1d53"}
    operation = lance.LanceOperation.Delete([], [], "false")
    transaction = lance.Transaction(1, operation, transaction_properties=properties)
    lance.LanceDataset.commit(str(tmp_path / "t.lance"), transaction)
    staging = tmp_path / ".rt_frames-staging"
    for name, is_open in (("a" * 32, True), ("b" * 32, False)):
        (staging / name / "table").mkdir(parents=True)
        if is_open:
            (staging / name / "table" / "parts").mkdir()
            (staging / name / "table" / "upload").write_text("t")
    with locked(staging / ("a" * 32)):
        client.create_table("t", ROWS, if_exists="append")
    assert staged(tmp_path) == [staging / ("a" * 32)]
    shutil.rmtree(staging / ("a" * 32))
    assert client.table("t").count() == 6
