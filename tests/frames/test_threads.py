"""Uploads that other threads read and encode: in order, closed, nothing left."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.compare import stored
from tests.support.local import run, until
from tests.support.servers import KEY, Server
from tests.support.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connection

pytestmark = pytest.mark.usefixtures("four_cores")

ROWS = 2**15  # of about a megabyte
BATCHES = 20
# batches of a megabyte on the way at once; the system's own buffers hold some of them
MOST = 40
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string_view())])
NUMBERS = pa.schema([("n", pa.int64())])
N = pl.col("n")


def text_of(rows: int, start: int = 0) -> pl.DataFrame:
    numbers = pl.select(n=pl.int_range(start, start + rows))
    return numbers.select("n", text=pl.format("a text of row {}", N))


def batch(number: int) -> pa.RecordBatch:
    text = text_of(ROWS, number * ROWS)
    return text.to_arrow(compat_level=pl.CompatLevel.newest()).to_batches()[0]


def own_threads() -> list[str]:
    """Return the names of the package's threads, without a call's."""
    names = [thread.name for thread in threading.enumerate()]
    names = [name for name in names if name.startswith("rt_frames ")]
    return [name for name in names if name != "rt_frames server"]


def noted(
    seen: list[int | None], error: BaseException | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield batches, raise an error at the end, and note the thread of each step.

    A None is noted when the generator is closed.
    """
    try:
        for number in range(BATCHES):
            seen.append(threading.get_ident())
            yield batch(number)
        if error is not None:
            raise error
    finally:
        seen.append(threading.get_ident())
        seen.append(None)


def reader(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema = SCHEMA
) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, batches)


def frame() -> pl.DataFrame:
    return text_of(2 * ROWS * BATCHES)


SOURCES = {
    "reader": (lambda: reader(noted([])), ROWS * BATCHES),
    "query": (lambda: frame().lazy(), 2 * ROWS * BATCHES),
    "frame": (frame, 2 * ROWS * BATCHES),
}


@pytest.mark.parametrize("compression", ["zstd", None])
@pytest.mark.parametrize(("make", "rows"), SOURCES.values(), ids=SOURCES)
def test_rows_that_several_threads_encode_arrive_in_order(
    client, service, name, make, rows, compression
):
    table = client.create_table(name, make(), compression=compression)
    assert table.rows == rows
    assert pl.from_arrow(stored(service, name)).equals(frame().head(rows))


ENDS = [None, LookupError("no such sensor"), KeyboardInterrupt("mine"), SystemExit(3)]


@pytest.mark.parametrize("ends", ENDS, ids=repr)
def test_a_reader_is_read_on_one_thread_of_its_own(client, name, ends):
    client.list_tables()
    seen = []
    data = reader(noted(seen, ends))
    with raising(ends):
        client.create_table(name, data)
    assert seen.pop() is None
    assert len(seen) > 1
    assert len(set(seen)) == 1
    assert threading.get_ident() not in seen
    assert (name in client.list_tables()) == (ends is None)
    until(lambda: not own_threads())


@pytest.mark.parametrize("ends", ENDS, ids=repr)
def test_an_iterator_is_read_and_closed_on_the_thread_of_the_caller(client, name, ends):
    client.list_tables()
    seen = []
    with raising(ends):
        client.create_table(name, noted(seen, ends))
    assert seen.pop() is None
    assert len(seen) > 1
    assert set(seen) == {threading.get_ident()}
    assert (name in client.list_tables()) == (ends is None)
    until(lambda: not own_threads())


@pytest.mark.parametrize("open_data", [reader, iter])
def test_a_source_whose_upload_is_cut_is_read_on_one_thread(remote, server, open_data):
    remote.list_tables()
    server.script = hang_up
    seen = []
    data = open_data(noted(seen))
    with pytest.raises(rt.errors.RemoteError):
        remote.create_table("t", data)
    # a reader's source is closed once nobody holds the reader
    if open_data is iter:
        assert seen.pop() is None
    assert len(seen) > 1
    assert len(set(seen)) == 1
    assert (threading.get_ident() in seen) == (open_data is iter)
    until(lambda: not own_threads())


@contextlib.contextmanager
def raising(error: BaseException | None) -> Iterator[None]:
    """Check that a block raises that very error, or none."""
    if error is None:
        yield
        return
    with pytest.raises(type(error)) as raised:
        yield
    assert raised.value is error


def test_a_value_that_one_of_several_threads_cannot_convert_is_told_by_its_row(
    client, name
):
    bad = ROWS * BATCHES - 1000
    texts = pl.when(bad == N).then(pl.lit("?")).otherwise(N.cast(pl.String))
    query = frame().lazy().select(x=texts)
    with pytest.raises(UnsupportedTypeError, match=rf"column 'x', row {bad}: .\?. "):
        client.create_table(name, query, dtypes={"x": "int64"}, compression="zstd")
    assert name not in client.list_tables()


def small_batches(bad: set[int], error: Exception | None) -> Iterator[pa.RecordBatch]:
    values = [-1 if row in bad else row % 100 for row in range(1000)]
    for start in range(0, 1000, 10):
        if error is not None and start == 500:
            raise error
        yield pa.record_batch({"n": values[start : start + 10]}, NUMBERS)


BROKEN = pa.ArrowInvalid("broken")
FAULTS = [
    (None, "zstd"),
    (LookupError("none"), "zstd"),
    (BROKEN, "zstd"),
    (BROKEN, None),
]


@pytest.mark.parametrize("bad", [{0, 12}, {5, 15, 25}, {7}])
@pytest.mark.parametrize(("error", "compression"), FAULTS)
def test_of_several_faults_the_first_is_told_whoever_meets_it_first(
    client, name, bad, error, compression
):
    data = reader(small_batches(bad, error), NUMBERS)
    with pytest.raises(UnsupportedTypeError, match=f"column 'n', row {min(bad)}: "):
        client.create_table(name, data, dtypes={"n": "uint8"}, compression=compression)
    assert name not in client.list_tables()


def encoded_text() -> pd.DataFrame:
    return frame().select("text").to_pandas(use_pyarrow_extension_array=True)


@pytest.mark.parametrize("compression", ["zstd", None])
def test_a_frame_is_freed_at_once_after_threads_encoded_it(remote, compression):
    data = encoded_text()
    gone = weakref.ref(data)
    with without_collections():
        remote.create_table("t", data, compression=compression)
        del data
        assert gone() is None


def test_a_frame_is_freed_at_once_after_its_upload_was_cut(remote, server):
    data = encoded_text()
    gone = weakref.ref(data)
    remote.list_tables()
    server.script = hang_up
    failed = []  # pytest would keep the error, which holds what its frames hold
    with without_collections():
        try:
            remote.create_table("t", data, compression="zstd")
        except rt.errors.RemoteError as error:
            failed.append(type(error))
        del data
        assert gone() is None
    assert failed == [rt.errors.UploadInterrupted]


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Collect now, and not in a block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_a_frame_of_an_iterator_is_let_go_of_before_the_next_is_made(remote):
    made: list[weakref.ref] = []
    alive: list[weakref.ref] = []

    def frames() -> Iterator[pl.DataFrame]:
        for start in range(5):
            alive.extend(one for one in made if one() is not None)
            part = pl.select(n=pl.int_range(100_000) + start)
            made.append(weakref.ref(part))
            yield part
            del part

    rt.to_table(frames(), "t")
    assert len(made) == 5
    assert alive == []


def begun(connection: Connection):
    """Answer what is asked before the upload, and return its head."""
    while (request := connection.head()).method == "GET":
        connection.answer(200, {"tables": []})
    return request


def hang_up(connection: Connection) -> None:
    """Read a megabyte of a body, and no more."""
    connection.body(begun(connection), 2**20)
    connection.reset()


def settled(count) -> None:
    """Wait until a number is there and has not changed for half a second.

    It is a duration, because no event tells that a queue is full.
    """
    last = 0
    since = time.monotonic()
    while not last or time.monotonic() - since < 0.5:
        if count() != last:
            last = count()
            since = time.monotonic()
        assert time.monotonic() - since < 60
        time.sleep(0.02)


@pytest.fixture
def held():
    """A server that reads a megabyte and then waits until the test ends it."""
    go_on = threading.Event()

    def script(connection: Connection) -> None:
        connection.body(begun(connection), 2**20)
        go_on.wait(30)
        connection.reset()

    with Server(script=script) as server:
        server.go_on = go_on
        yield server
        go_on.set()


def upload_slowly(held: Server, data: object, count, **options: object) -> int:
    """Upload to a server that does not read, and return the count once it settles."""
    raised: list[type[Exception]] = []  # errors would hold what their frames hold

    def upload() -> None:
        with rt.connect(held.url, api_key=KEY, retries=0, default=False) as client:
            try:
                client.create_table("endless", data, **options)
            except rt.errors.RemoteError as error:
                raised.append(type(error))

    thread = threading.Thread(target=upload)
    thread.start()
    settled(lambda: len(held.posts) and count())
    made = count()
    held.go_on.set()
    thread.join(20)
    assert raised == [rt.errors.UploadInterrupted]
    return made


def noise(number: int) -> pa.RecordBatch:
    numbers = np.random.default_rng(number).integers(0, 2**63, 2**17)
    return pa.record_batch([numbers], NUMBERS)


STREAMS = {
    "batches": (iter, None),
    "reader, auto": (lambda batches: reader(batches, NUMBERS), "auto"),
    "reader": (lambda batches: reader(batches, NUMBERS), None),
    "frames": (lambda batches: map(pl.from_arrow, batches), "zstd"),
}


@pytest.mark.parametrize(("open_data", "compression"), STREAMS.values(), ids=STREAMS)
def test_a_slow_network_slows_the_source_and_a_broken_one_closes_it(
    held, open_data, compression
):
    source = Source(None, make=noise)
    made = upload_slowly(
        held, open_data(source.run()), lambda: source.made, compression=compression
    )
    assert 0 < made < MOST
    assert source.closed


def test_dask_partitions_are_computed_side_by_side_and_only_a_few_ahead(held):
    dd = pytest.importorskip("dask.dataframe")
    begun = []
    computed = []

    def part(number: int) -> pd.DataFrame:
        begun.append(number)
        until(lambda: number > 1 or {0, 1} <= {*begun}, 30)
        computed.append(number)
        return noise(number).to_pandas()

    parts = dd.from_map(part, range(160), meta=noise(0).to_pandas())
    made = upload_slowly(held, parts, lambda: len(computed))
    assert 0 < made < 80
    assert sorted(computed) == list(range(len(computed)))


LASTING = """
import sys, threading, time
import polars as pl
import rt_frames as rt

client = rt.connect(sys.argv[1], api_key="k")
n = pl.int_range(800_000).alias("n")
frame = pl.select(n).with_columns(text=pl.format("a text of row {}", "n"))
data = [frame.to_arrow().to_reader(), pl.concat([frame] * 3)]
# older versions of Polars have such an executor themselves
if tuple(map(int, pl.__version__.split(".")[:2])) >= (1, 38):
    data.append(frame.lazy())

def upload():
    threading.main_thread().join()
    time.sleep(0.2)
    for one in data:
        client.create_table("t", one, compression="zstd")
    print(len(data))

threading.Thread(target=upload).start()
"""


@pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 12, 3),
    reason="Python starts no thread once the main one has ended (gh-113964)",
)
def test_an_upload_of_a_thread_that_outlives_the_main_one_is_whole(server):
    """The executor of `concurrent.futures` would raise RuntimeError there."""
    printed = run(LASTING, server.url, seconds=60)
    assert len(server.posts) == int(printed)
    for request in server.posts:
        rows = pa.ipc.open_stream(request.body).read_all()["n"].to_numpy()
        assert np.array_equal(rows % 800_000, np.arange(len(rows)) % 800_000)


MEMORY = """
import sys
import polars as pl, pyarrow as pa, rt_frames as rt

url, column, cores = sys.argv[1:]
pa.set_cpu_count(int(cores))
text = pl.format("a text of row {}", pl.int_range(6_000_000))
frame = pl.select(text=text)
if column == "lists":
    frame = frame.select(lists=pl.col("text").reshape((-1, 4)).arr.to_list())
rt.connect(url, api_key="k").create_table("t", frame)
print(pa.default_memory_pool().max_memory())
"""


@pytest.mark.parametrize(("column", "cores"), [("text", 2), ("lists", 16)])
def test_what_is_converted_at_a_time_takes_little_memory_however_many_cores_there_are(
    column, cores
):
    def swallow(connection: Connection) -> None:
        begun(connection)
        while not connection.sock.recv(2**20).endswith(b"0\r\n\r\n"):
            pass
        connection.answer(200)

    with Server(script=swallow) as server:
        printed = run(MEMORY, server.url, column, str(cores))
    assert int(printed) < 64e6


@pytest.mark.parametrize("compression", ["zstd", None])
@pytest.mark.parametrize("kind", ["iterator", "reader"])
def test_an_error_of_a_source_holds_no_rows_once_it_was_dropped(
    remote, kind, compression
):
    known: list[weakref.ref] = []

    def batches():
        for _ in range(6):
            rows = text_of(ROWS)
            known.append(weakref.ref(rows))
            yield from rows.to_arrow(compat_level=pl.CompatLevel.newest()).to_batches()
        raise LookupError("no such sensor")

    data = batches() if kind == "iterator" else reader(batches())
    with without_collections():
        with contextlib.suppress(LookupError):  # pytest would keep it
            remote.create_table("t", data, compression=compression)
        del data
        assert [each() for each in known if each() is not None] == []
    assert len(known) == 6
