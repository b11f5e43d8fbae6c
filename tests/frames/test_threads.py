"""Uploads that other threads read and encode: in order, closed, nothing left."""

from __future__ import annotations

import contextlib
import gc
import subprocess
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
from tests.support.local import until
from tests.support.servers import KEY, Server
from tests.support.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connection

pytestmark = pytest.mark.usefixtures("four_cores")

ROWS, BATCHES = 2**15, 20  # of each about a megabyte
MOST = 40  # batches of a megabyte on the way at once; the system's own buffers hold some of them
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string_view())])
NUMBERS = pa.schema([("n", pa.int64())])


def text_of(rows: int, start: int = 0) -> pl.DataFrame:
    return pl.select(n=pl.int_range(start, start + rows)).select(
        "n", text=pl.format("a text of row {}", pl.col("n"))
    )


def batch(number: int) -> pa.RecordBatch:
    (made,) = (
        text_of(ROWS, number * ROWS)
        .to_arrow(compat_level=pl.CompatLevel.newest())
        .to_batches()
    )
    return made


def own_threads() -> list[str]:
    """Return the names of the package's threads, without the embedded service's."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("rt_frames ")]


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
        seen += [threading.get_ident(), None]


def reader(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema = SCHEMA
) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, batches)


def frame() -> pl.DataFrame:
    return text_of(2 * ROWS * BATCHES)


@pytest.mark.parametrize("compression", ["zstd", None])
@pytest.mark.parametrize(
    "make",
    [lambda: reader(noted([])), lambda: frame().lazy(), frame],
    ids=["reader", "query", "frame"],
)
def test_rows_that_several_threads_encode_arrive_in_order(
    client, service, name, make, compression
):
    rows = client.create_table(name, make(), compression=compression).rows
    assert pl.from_arrow(stored(service, name)).equals(frame().head(rows))
    assert rows in (ROWS * BATCHES, 2 * ROWS * BATCHES)


ENDS = [
    None,
    "cut",
    LookupError("no such sensor"),
    KeyboardInterrupt("mine"),
    SystemExit(3),
]


@pytest.mark.parametrize("ends", ENDS, ids=repr)
@pytest.mark.parametrize(
    ("open_data", "is_callers"),
    [(reader, False), (iter, True)],
    ids=["reader", "iterator"],
)
def test_a_reader_is_read_on_one_thread_of_its_own_and_an_iterator_on_the_callers_where_it_is_closed(
    client, remote, server, name, ends, open_data, is_callers
):
    remote.list_tables(), client.list_tables()
    here, seen = threading.get_ident(), []
    data = open_data(noted(seen, ends if isinstance(ends, BaseException) else None))
    if ends == "cut":
        server.script = hang_up
        with pytest.raises(rt.errors.RemoteError):
            remote.create_table("t", data)
    elif ends is None:
        remote.create_table("t", data)
    else:
        with pytest.raises(type(ends)) as raised:
            client.create_table(name, data)
        assert raised.value is ends
        assert name not in client.list_tables()
    # a reader's source is closed once nobody holds the reader
    if ends != "cut" or is_callers:
        assert seen.pop() is None
    assert len(seen) > 1
    assert {thread == here for thread in seen} == {is_callers}
    assert len(set(seen)) == 1
    until(lambda: not own_threads())


def test_a_value_that_one_of_several_threads_cannot_convert_is_told_by_its_row(
    client, name
):
    bad = ROWS * BATCHES - 1000
    texts = (
        pl.when(pl.col("n") == bad)
        .then(pl.lit("?"))
        .otherwise(pl.col("n").cast(pl.String))
    )
    with pytest.raises(UnsupportedTypeError, match=rf"column 'x', row {bad}: .\?. "):
        client.create_table(
            name,
            frame().lazy().select(x=texts),
            dtypes={"x": "int64"},
            compression="zstd",
        )
    assert name not in client.list_tables()


def small_batches(bad: set[int], error: Exception | None) -> Iterator[pa.RecordBatch]:
    for start in range(0, 1000, 10):
        if error is not None and start == 500:
            raise error
        yield pa.record_batch(
            {
                "n": [
                    -1 if row in bad else row % 100 for row in range(start, start + 10)
                ]
            },
            NUMBERS,
        )


@pytest.mark.parametrize("bad", [{0, 12}, {5, 15, 25}, {7}])
@pytest.mark.parametrize(
    "error", [None, LookupError("no such sensor"), pa.ArrowInvalid("broken")]
)
@pytest.mark.parametrize("compression", ["zstd", None])
def test_of_several_faults_the_first_is_told_whoever_meets_it_first(
    client, name, bad, error, compression
):
    data = reader(small_batches(bad, error), NUMBERS)
    with pytest.raises(UnsupportedTypeError, match=f"column 'n', row {min(bad)}: "):
        client.create_table(name, data, dtypes={"n": "uint8"}, compression=compression)
    assert name not in client.list_tables()


@pytest.mark.parametrize(
    ("compression", "fails"), [("zstd", True), ("zstd", False), (None, False)]
)
def test_a_frame_is_freed_at_once_after_threads_encoded_it(
    remote, server, compression, fails
):
    data = frame().select("text").to_pandas(use_pyarrow_extension_array=True)
    gone = weakref.ref(data)
    remote.list_tables()
    if fails:
        server.script = hang_up
    gc.collect()
    gc.disable()
    try:
        if fails:
            with pytest.raises(rt.errors.RemoteError):
                remote.create_table("t", data, compression=compression)
        else:
            remote.create_table("t", data, compression=compression)
        del data
        assert gone() is None
    finally:
        gc.enable()


def test_a_frame_of_an_iterator_is_let_go_of_before_the_next_is_made(remote):
    made: list[weakref.ref] = []
    alive: list[int] = []

    def frames() -> Iterator[pl.DataFrame]:
        for i in range(5):
            alive.append(sum(one() is not None for one in made))
            part = pl.select(n=pl.int_range(100_000) + i)
            made.append(weakref.ref(part))
            yield part
            del part

    rt.to_table(frames(), "t")
    assert alive == [0] * 5


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


@pytest.mark.parametrize(
    ("open_data", "compression"),
    [
        (iter, None),
        (lambda batches: reader(batches, NUMBERS), "auto"),
        (lambda batches: reader(batches, NUMBERS), None),
        (lambda batches: map(pl.from_arrow, batches), "zstd"),
    ],
    ids=["batches", "reader, auto", "reader", "frames"],
)
def test_a_slow_network_slows_the_source_and_a_broken_one_closes_it(
    held, open_data, compression
):
    source = Source(
        None,
        make=lambda n: pa.record_batch(
            [np.random.default_rng(n).integers(0, 2**63, 2**17)], NUMBERS
        ),
    )
    assert (
        0
        < upload_slowly(
            held, open_data(source.run()), lambda: source.made, compression=compression
        )
        < MOST
    )
    assert source.closed


def test_dask_partitions_are_computed_side_by_side_and_only_a_few_ahead(held):
    dd = pytest.importorskip("dask.dataframe")
    begun, computed = [], []

    def part(number: int) -> pd.DataFrame:
        begun.append(number)
        until(lambda: number > 1 or {0, 1} <= {*begun}, 30)
        computed.append(number)
        return pd.DataFrame(
            {"n": np.random.default_rng(number).integers(2**62, size=2**19)}
        )

    parts = dd.from_map(part, range(40), meta=pd.DataFrame({"n": np.arange(2)}))
    assert 0 < upload_slowly(held, parts, lambda: len(computed)) < 20  # of 4 MiB
    assert sorted(computed) == [*range(len(computed))]


LASTING = ["frame.to_arrow().to_reader()", "pl.concat([frame] * 3)"]
# older versions of Polars have such an executor themselves
if tuple(map(int, pl.__version__.split(".")[:2])) >= (1, 38):
    LASTING.append("frame.lazy()")


@pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 12, 3),
    reason="Python starts no thread once the main one has ended (gh-113964)",
)
def test_an_upload_of_a_thread_that_outlives_the_main_one_is_whole(server):
    """The executor of `concurrent.futures` would raise RuntimeError there."""
    code = f"""
import sys, threading, time, polars as pl, rt_frames as rt
client = rt.connect({server.url!r}, api_key="k")
frame = pl.select(n=pl.int_range(800_000)).select("n", text=pl.format("a text of row {{}}", pl.col("n")))
def upload():
    threading.main_thread().join()
    time.sleep(0.2)
    for data in ({", ".join(LASTING)}):
        client.create_table("t", data, compression="zstd")
threading.Thread(target=upload).start()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    for request in server.posts:
        rows = pa.ipc.open_stream(request.body).read_all()["n"].to_numpy()
        assert np.array_equal(rows % 800_000, np.arange(len(rows)) % 800_000)
    assert len(server.posts) == len(LASTING)


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
        code = f"""
import polars as pl, pyarrow as pa, rt_frames as rt
pa.set_cpu_count({cores})
text = pl.select(n=pl.int_range(6_000_000)).select(text=pl.format("a text of row {{}}", pl.col("n")))
frame = text if {column == "text"} else text.select(lists=pl.col("text").reshape((-1, 4)).arr.to_list())
rt.connect({server.url!r}, api_key="k").create_table("t", frame)
print(pa.default_memory_pool().max_memory())
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
    assert int(done.stdout) < 64e6


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
    gc.disable()
    try:
        with contextlib.suppress(LookupError):  # pytest would keep it
            remote.create_table("t", data, compression=compression)
        del data
        assert [each() for each in known if each() is not None] == []
    finally:
        gc.enable()
    assert len(known) == 6
