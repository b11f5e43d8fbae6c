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

BATCH = 2**20  # bytes
MOST = 40  # batches on the way at once; the system's own buffers hold some of them


class Endless:
    """Batches that count themselves, for as long as somebody reads."""

    schema = pa.schema([("n", pa.int64())])

    def __init__(self) -> None:
        self.made, self.closed = 0, False

    def batches(self):
        try:
            while True:
                self.made += 1
                yield pa.record_batch([np.random.default_rng(self.made).integers(0, 2**63, BATCH // 8)], self.schema)
        finally:
            self.closed = True

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def frames(self):
        for batch in self.batches():
            yield pl.from_arrow(batch)


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


@pytest.mark.parametrize("kind", ["batches", "reader", "frames"])
@pytest.mark.parametrize("compression", ["auto", None, "zstd"])
def test_a_slow_network_slows_the_source_and_a_broken_one_closes_it(held, kind, compression):
    source, raised = Endless(), []

    def upload() -> None:
        with rt.connect(held.url, api_key=KEY, retries=0, default=False) as client:
            try:
                client.create_table("endless", getattr(source, kind)(), compression=compression)
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
