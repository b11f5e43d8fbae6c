"""Sources without end in sight: a slow network slows them, and however it ends they are closed."""

from __future__ import annotations

import threading
import time

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.servers import KEY, Server
from tests.support.sources import Source

BATCH = 2**20  # bytes
MOST = 40  # batches on the way at once; the system's own buffers hold some of them


SCHEMA = pa.schema([("n", pa.int64())])


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch([np.random.default_rng(number).integers(0, 2**63, BATCH // 8)], SCHEMA)


KINDS = {
    "batches": lambda batches: batches,
    "reader": lambda batches: pa.RecordBatchReader.from_batches(SCHEMA, batches),
    "frames": lambda batches: (pl.from_arrow(batch) for batch in batches),
}


@pytest.fixture
def held():
    """A server that takes a megabyte and then holds the line until it is told to hang up."""
    go_on = threading.Event()

    def script(connection):
        request = connection.head()
        if request.method == "GET":
            connection.answer(200, {"tables": []})
            request = connection.head()
        connection.body(request, 2**20)
        go_on.wait(30)
        connection.reset()

    with Server(script=script) as server:
        server.go_on = go_on
        yield server
        go_on.set()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compression", ["auto", None, "zstd"])
def test_a_slow_network_slows_the_source_and_a_broken_one_closes_it(held, kind, compression):
    source, raised = Source(None, make=batch), []

    def upload() -> None:
        with rt.connect(held.url, api_key=KEY, retries=0, default=False) as client:
            try:
                client.create_table("endless", KINDS[kind](source.run()), compression=compression)
            except rt.errors.RemoteError as error:
                raised.append(error)

    thread = threading.Thread(target=upload)
    thread.start()
    settled(lambda: source.made)
    made = source.made
    time.sleep(0.3)
    assert 0 < made == source.made < MOST
    held.go_on.set()
    thread.join(20)
    assert [type(error) for error in raised] == [rt.errors.UploadInterrupted]
    del raised[:]

    assert source.closed


def settled(count) -> None:
    """Wait until a number has not changed for half a second."""
    last, since = -1, time.monotonic()
    while time.monotonic() - since < 0.5:
        if count() != last:
            last, since = count(), time.monotonic()
        time.sleep(0.02)
