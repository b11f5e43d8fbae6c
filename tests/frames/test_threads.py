"""Uploads that are read and encoded on other threads: in order, closed where they were read, and nothing stays."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from typing import TYPE_CHECKING

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.compare import stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connection

ROWS, BATCHES = 2**15, 24  # of each about a megabyte
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string_view())])


@pytest.fixture(autouse=True)
def _four_cores():
    """Arrow counts four cores, whatever the machine has."""
    cores = pa.cpu_count()
    pa.set_cpu_count(4)
    yield
    pa.set_cpu_count(cores)


def batch(number: int) -> pa.RecordBatch:
    rows = range(number * ROWS, (number + 1) * ROWS)
    return pa.record_batch([list(rows), [f"a text of row {row}" for row in rows]], SCHEMA)


def noted(seen: list[int], error: BaseException | None = None) -> Iterator[pa.RecordBatch]:
    """Yield batches, raise an error at last, and note on which thread each step was made."""
    try:
        for number in range(BATCHES):
            seen.append(threading.get_ident())
            yield batch(number)
        if error is not None:
            raise error
    finally:
        seen.append(threading.get_ident())


def reader(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, batches)


@pytest.mark.parametrize("compression", ["auto", "zstd", None])
@pytest.mark.parametrize("kind", ["reader", "query", "frame"])
def test_rows_that_several_threads_encode_arrive_in_order(client, service, name, kind, compression):
    table = pa.Table.from_batches(map(batch, range(BATCHES)))
    frame = pl.from_arrow(table)
    data = {"reader": lambda: reader(noted([])), "query": frame.lazy, "frame": lambda: pl.concat([frame, frame])}[kind]
    rows = client.create_table(name, data(), compression=compression).rows
    found = stored(service, name)
    assert found["n"].to_pylist() == [*range(ROWS * BATCHES)] * (rows // ROWS // BATCHES)
    assert found["text"].to_pylist()[-2 * ROWS :] == table["text"].to_pylist()[-2 * ROWS :]


@pytest.mark.parametrize("ends", ["whole", "error", "refused"])
def test_a_reader_is_read_and_closed_on_one_thread_of_its_own_and_an_iterator_on_the_callers(remote, server, ends):
    remote.list_tables()
    here, error = threading.get_ident(), LookupError("no such sensor")
    for open_data, is_callers in ((reader, False), (iter, True)):
        seen: list[int] = []
        if ends == "refused":
            server.answering((400, {"message": "no"}))
        data = open_data(noted(seen, error if ends == "error" else None))
        if ends == "whole":
            remote.create_table("t", data)
        else:
            with pytest.raises((LookupError, rt.errors.RemoteError)) as raised:
                remote.create_table("t", data)
            assert (raised.value is error) == (ends == "error")
        assert len(seen) > 1
        assert len(set(seen)) == 1
        assert (seen[0] == here) == is_callers
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("rt_frames")]


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt("mine"), SystemExit(3)], ids=repr)
def test_exceptions_of_a_source_propagate_and_nothing_is_stored(client, name, error):
    with pytest.raises(type(error)) as raised:
        client.create_table(name, reader(noted([], error)))
    assert raised.value is error
    assert name not in client.list_tables()


def hang_up(connection: Connection) -> None:
    """Read a megabyte of a body, and no more."""
    request = connection.head()
    if request.method == "GET":
        connection.answer(200, {"tables": []})
        request = connection.head()
    connection.body(request, 2**20)
    connection.reset()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("compression", ["zstd", None])
def test_a_frame_is_freed_at_once_after_threads_encoded_it(remote, server, compression, fails):
    frame = pd.DataFrame({"text": pd.array([f"a text of row {i}" for i in range(2**21)], dtype="string[pyarrow]")})
    gone = weakref.ref(frame)
    remote.list_tables()
    if fails:
        server.script = hang_up
    gc.collect()
    gc.disable()
    try:
        if fails:
            with pytest.raises(rt.errors.RemoteError):
                remote.create_table("t", frame, compression=compression)
        else:
            remote.create_table("t", frame, compression=compression)
        del frame
        assert gone() is None
    finally:
        gc.enable()


LASTING = ["frame.to_arrow().to_reader()", "pl.concat([frame] * 3)"]
if tuple(map(int, pl.__version__.split(".")[:2])) >= (1, 38):  # before, Polars itself had such an executor
    LASTING.append("frame.lazy()")


@pytest.mark.parametrize("data", LASTING)
def test_an_upload_of_a_thread_that_outlives_the_main_one_is_whole(tmp_path, data):
    """`concurrent.futures.ThreadPoolExecutor` raises RuntimeError there: no new futures after interpreter shutdown."""
    code = f"""
import sys, threading, time, polars as pl, rt_frames as rt
client = rt.connect(sys.argv[1])
frame = pl.select(n=pl.int_range(800_000)).select("n", text=pl.format("a text of row {{}}", pl.col("n")))
def upload():
    threading.main_thread().join()
    time.sleep(0.2)
    client.create_table("t", {data}, compression="zstd")
threading.Thread(target=upload).start()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stderr == ""
    rows = lance.dataset(str(tmp_path / "t.lance")).to_table(columns=["n"])["n"].to_pylist()
    assert rows == [*range(800_000)] * (len(rows) // 800_000)
