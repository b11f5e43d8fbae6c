"""How writes to a folder end.

By signals, beside forks, and without room, descriptors or the folder. S02, S08, S13 of
the matrix in tests/faults/README.md.
"""

from __future__ import annotations

import os
import resource
import time

import lance
import numpy as np
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.local import (
    TABLE,
    UPSERT,
    Process,
    manifests,
    message,
    run,
    staged,
    stream,
    until,
)
from tests.support.processes import python

LONG = pa.table({"n": range(200_000)})
BODY = stream(LONG, rows=1000)
SMALL = pa.table({"a": [1, 2]})
WRITER = """
import sys, time, pyarrow as pa, rt_frames as rt
def batches():
    yield from pa.table({"n": range(2**20)}).to_batches(max_chunksize=1000)
    print("half", flush=True)
    time.sleep(60)
rt.connect(sys.argv[1], default=False).create_table("t", batches())
"""


def test_S02_what_a_killed_writer_left_is_removed_by_the_next_write(caller):
    with python("-c", WRITER, caller.root) as writer:
        assert writer.stdout.readline() == "half\n"
        assert caller.create("old", TABLE).status_code == 200
        # a living writer's
        assert caller.staged() != []
        writer.kill()
        writer.wait()
    assert caller.tables() == ["old"]
    assert caller.create("t", TABLE).status_code == 200
    assert caller.staged() == []
    assert caller.read("t").equals(TABLE)


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

        assert "too large" in message(caller.create("big", big), 507)
        assert caller.tables() == ["there"]
        assert caller.staged() == []
        answer = caller.alter("there", {"path": "n", "data_type": {"type": "int32"}})
        assert "'n'" in message(answer, 507)
        assert "too large" in message(answer)
        with pytest.raises(rt.errors.ServerError, match="nothing was stored"):
            service.client.table("there").cast({"n": "int32"})
        assert caller.read("there").equals(big)
        assert caller.create("small", TABLE).status_code == 200
        assert replace(big) == 507
        assert caller.read("small").equals(TABLE)
        assert files() == 1
        answer = caller.post_rows(f"small/merge_insert/?on=n&{UPSERT}", big)
        assert "too large" in message(answer, 507)
        assert caller.read("small").equals(TABLE)
        assert files() == 1
        for _ in range(5):
            assert replace(TABLE) == 200
        assert files() == 6
        yesterday = time.time() - 40 * 3600
        for manifest in manifests(tmp_path, "small").values():
            os.utime(manifest, (yesterday, yesterday))
        assert replace(big) == 507
        # room was made before it was needed
        assert files() == 1


FORK = """
import os, pickle, sys, threading, warnings
# Python's own, for forks beside threads
warnings.filterwarnings("ignore", category=DeprecationWarning)
import pyarrow as pa, rt_frames as rt
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
def use():
    early.create_table("t", table)
    early.close()
def refused():
    # a pool would wait for ever for a task that cannot be unpickled
    sent = pickle.loads(packed)
    for use in (
        client.list_tables,
        sent.list_tables,
        lambda: client.create_table("t", table),
        lambda: rt.connect(f"{root}/new", default=False),
    ):
        try:
            use()
        except RuntimeError as error:
            assert "'spawn'" in str(error)
        else:
            raise AssertionError
    client.close()
early = rt.connect(f"{root}/early", default=False)
in_a_child(use)
warnings.filterwarnings("ignore", "lance is not fork-safe")
client = rt.connect(f"{root}/one", default=False)
client.create_table("before", table)
packed = pickle.dumps(client)
in_a_child(refused)
ended = threading.Event()
def busy():
    while not ended.is_set():
        rt.connect(f"{root}/two", default=False).list_tables()
thread = threading.Thread(target=busy)
thread.start()
for _ in range(10):
    in_a_child(refused)
ended.set()
thread.join()
assert client.list_tables() == ["before"]
client.close()
"""


def test_a_process_is_refused_that_was_forked_after_its_parent_used_a_folder(tmp_path):
    run(FORK, tmp_path)
    found = lance.dataset(str(tmp_path / "early" / "t.lance")).to_table()
    assert found.equals(SMALL)
    assert not (tmp_path / "new").exists()


def test_a_process_without_descriptors_says_so_and_stores_nothing(elsewhere, other):
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
            answer = call()
        finally:
            resource.prlimit(process, what, limits)
        assert "Too many open files" in message(answer, 507)
    assert other.create("u", BODY).status_code == 200
    assert other.tables() == ["t", "u"]


def test_S13_a_folder_removed_in_mid_upload_is_an_error_and_nothing_was_stored(
    tmp_path,
):
    folder = tmp_path / "tables"

    def removing():
        yield from LONG.to_batches(max_chunksize=1000)[:100]
        until(lambda: staged(folder))
        folder.rename(tmp_path / "gone")
        folder.write_text("a file, so that the engine cannot make it again")
        yield from LONG.to_batches(max_chunksize=1000)[100:]

    with (
        rt.connect(folder, default=False) as client,
        pytest.raises(rt.errors.ServerError, match="nothing was stored") as caught,
    ):
        client.create_table("t", removing())
    assert str(tmp_path) not in str(caught.value)
    assert list(tmp_path.glob("gone/*.lance")) == []


def test_a_table_that_somebody_damaged_can_be_dropped(caller):
    caller.create("t", SMALL)
    for manifest in manifests(caller.root).values():
        manifest.write_bytes(b"damaged")
    answer = caller.ask("describe")
    assert "replace or drop the table" in message(answer, 500)
    assert caller.create("u", SMALL).status_code == 200


def test_rows_that_are_read_when_their_client_closes_are_all_there(tmp_path):
    table = pa.table({"n": np.random.default_rng(0).integers(2**62, size=4 * 10**6)})
    client = rt.connect(tmp_path / "tables", default=False)
    reader = pa.RecordBatchReader.from_stream(client.create_table("t", table))
    first = reader.read_next_batch()
    client.close()
    rest = reader.read_all()
    assert pa.concat_tables([pa.table(first), rest]).equals(table)
