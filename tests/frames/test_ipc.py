"""One stream of a source: whole whatever codec each batch has, and as long as was said."""

from __future__ import annotations

import contextlib
import gc
import itertools
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rt_frames._frames.any_frame import open_source
from rt_frames._frames.compression import Compression, CompressionPolicy, LinkMemory
from rt_frames._frames.ipc import HELD_SECONDS, IPCStream
from rt_frames._frames.source import BATCH_BYTES, FIRST_BATCH_BYTES
from rt_frames.errors import UnsupportedTypeError


class Alternating(CompressionPolicy):
    """Another codec for nearly every batch."""

    def __init__(self, *codecs: Compression) -> None:
        super().__init__("lz4", LinkMemory())
        self.next_codec = itertools.cycle(codecs).__next__


def stream(data, policy: CompressionPolicy | None = None) -> IPCStream:
    return IPCStream(open_source(data), policy or CompressionPolicy(None, LinkMemory()))


def read(made: IPCStream) -> pa.Table:
    """Read a stream with Arrow, which is told nothing but its bytes."""
    table = pa.ipc.open_stream(b"".join(bytes(buffer) for buffers in made for buffer in buffers)).read_all()
    table.validate(full=True)
    return table


def test_slices_without_rows_that_come_through_a_c_stream_are_left_out():
    days = pa.array([1, None, 3, 4], pa.timestamp("ms"))
    table = pa.table({"t": pa.chunked_array([days.slice(3, 0), days.slice(1, 2), days.slice(4)])})
    assert read(stream(pa.RecordBatchReader.from_stream(table)))["t"].to_pylist() == days.to_pylist()[1:3]
    empty = pa.RecordBatchReader.from_stream(table.slice(2))
    assert read(stream(empty)).num_rows == 0


WORDS = pa.array(["a", "b", None, "c", "a", "d"])
HOLDERS = {
    "struct": lambda a: pa.StructArray.from_arrays([a], ["x"]).slice(1, 3),
    "list": lambda a: pa.ListArray.from_arrays(pa.array([0, 2, None, 6], pa.int32()), a),
    "large list": lambda a: pa.LargeListArray.from_arrays(pa.array([0, 2, None, 6], pa.int64()), a),
    "list view": lambda a: pa.ListViewArray.from_arrays([3, 0, 1], [3, 2, 0], a),
    "map": lambda a: pa.MapArray.from_arrays(pa.array([0, 2, None, 6], pa.int32()), pa.array(list("abcdef")), a),
    "list of structs": lambda a: pa.ListArray.from_arrays([0, 1, 3, 6], pa.StructArray.from_arrays([a, a], ["x", "y"])),
}


@pytest.mark.parametrize("codecs", [(None, "lz4"), ("zstd", None, "lz4", None, "zstd"), ("lz4", "lz4", None)], ids=str)
@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_dictionaries_at_any_depth_arrive_whole_whatever_codec_each_batch_has(hold, codecs):
    shifted = [WORDS.take(pa.array([(i + step) % len(WORDS) for i in range(6)])) for step in range(12)]
    batches = [pa.record_batch({"c": hold(words.dictionary_encode())}) for words in shifted]
    want = [row for batch in batches for row in batch.to_pylist()]
    for data in (iter(batches), pa.Table.from_batches(batches)):
        assert read(stream(data, Alternating(*codecs))).to_pylist() == want


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_dictionaries_at_any_depth_have_codes_of_32_bits_and_no_order(hold):
    small = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    halves = [WORDS.take(pa.array(rows)).dictionary_encode().cast(small) for rows in ([0, 1, 2, 0, 1, 2], [5] * 6)]
    batches = [pa.record_batch({"c": hold(half)}) for half in halves]
    table = read(stream(iter(batches)))
    assert table.to_pylist() == [row for batch in batches for row in batch.to_pylist()]
    assert "indices=int32, ordered=0" in str(table.schema)


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["x", "y", "z"])])
def test_polars_categories_at_any_depth_arrive_whole(dtype):
    frame = pl.DataFrame({"c": [["x", None], None, ["z"]], "s": [{"q": "x"}, {"q": "y"}, {"q": None}]})
    frame = frame.cast({"c": pl.List(dtype), "s": pl.Struct({"q": dtype})})
    frames = [frame.slice(i % 3, 2) for i in range(9)]
    table = read(stream(iter(frames), Alternating(None, "zstd", "lz4")))
    assert table.to_pylist() == [row for part in frames for row in part.to_dicts()]


FRAMES = {
    "pandas": pd.DataFrame({"n": np.arange(9.0), "s": [f"row {i}" for i in range(9)]}),
    "objects": pd.DataFrame({"o": pd.Series(["x", None] * 9, dtype=object)}),
    "polars": pl.DataFrame({"n": np.arange(5_000_000), "c": pl.Series(["u"] * 5_000_000, dtype=pl.Categorical)}),
    "arrow": pa.table({"n": pa.chunked_array([[1, 2], [], [3]])}),
    "empty pandas": pd.DataFrame({"n": np.arange(0)}),
    "empty polars": pl.DataFrame(schema={"n": pl.Int8, "c": pl.Categorical}),
    "empty arrow": pa.schema([("u", pa.uuid()), ("l", pa.list_(pa.string()))]).empty_table(),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_the_length_is_what_is_sent_and_rows_are_counted_anew_each_time(frame):
    made = stream(frame)
    for _ in range(2):
        sent = sum(len(buffer) for buffers in made for buffer in buffers)
        assert (sent, made.rows) == (made.length, len(frame))


@pytest.mark.parametrize("kind", ["pandas", "objects", "empty pandas", "empty polars", "empty arrow"])
def test_a_small_frame_is_one_message_and_one_batch_even_without_rows(kind):
    (buffers,) = stream(FRAMES[kind])
    (batch,) = pa.ipc.open_stream(b"".join(map(bytes, buffers)))
    assert batch.num_rows == len(FRAMES[kind])


def test_the_messages_of_a_small_frame_are_made_once_however_often_they_are_sent():
    made = stream(pd.DataFrame({"c": pd.Categorical(["x", "y"] * 50_000)}))
    first, again = ([buffer for buffers in made for buffer in buffers] for _ in range(2))
    assert len(first) == len(again)
    assert all(one is other for one, other in zip(first, again, strict=True))


def test_small_buffers_are_joined_and_large_ones_are_the_frames_own():
    wide = pa.table({f"c{i}": np.arange(10.0) + i for i in range(3_000)})
    made = stream(wide)
    assert sum(len(buffers) for buffers in made) < 300
    assert read(made).equals(wide)
    column = np.arange(10**6)
    addresses = {
        buffer.address for buffers in stream(pa.table({"n": column})) for buffer in buffers if len(buffer) > 1e6
    }
    assert column.__array_interface__["data"][0] in addresses


def test_a_large_frame_begins_with_small_batches_and_goes_on_with_larger_ones():
    table = pa.table({"n": np.arange(3 * BATCH_BYTES // 8)})
    sizes = [batch.nbytes for batch in open_source(table).batches()]
    assert sizes == [FIRST_BATCH_BYTES] * 4 + [BATCH_BYTES] * 2


def test_the_length_is_counted_only_where_it_is_cheap_or_asked_for():
    text = pl.DataFrame({"s": ["x"]})
    lengths = {
        (kind, asked): IPCStream(open_source(data), CompressionPolicy(asked, LinkMemory(), 8)).length is not None
        for kind, data in (("numbers", pl.DataFrame({"n": [1]})), ("text", text), ("query", text.lazy()))
        for asked in ("auto", "lz4", None)
    }
    assert [key for key, counted in lengths.items() if counted] == [
        ("numbers", "auto"),
        ("numbers", None),
        ("text", None),
    ]


def test_a_polars_frame_is_sent_without_pandas():
    code = (
        "import sys, polars as pl\n"
        "from rt_frames._frames.any_frame import open_source\n"
        "from rt_frames._frames.compression import CompressionPolicy, LinkMemory\n"
        "from rt_frames._frames.ipc import IPCStream\n"
        "word = pl.Categorical\n"
        "frame = pl.DataFrame({'l': [['x'], None], 's': [{'q': 'x'}, {'q': None}], 'd': ['a', 'b'], 't': ['x', '']})\n"
        "frame = frame.cast({'l': pl.List(word), 's': pl.Struct({'q': word}), 'd': word})\n"
        "for data in (frame, frame.lazy(), frame.clear(), [frame, frame], frame.to_arrow()):\n"
        "    for compression in (None, 'auto', 'zstd'):\n"
        "        list(IPCStream(open_source(data), CompressionPolicy(compression, LinkMemory())))\n"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.fixture
def four_cores():
    """Arrow counts four cores, whatever the machine has."""
    cores = pa.cpu_count()
    pa.set_cpu_count(4)
    yield
    pa.set_cpu_count(cores)


ROWS = 1_500_000
TEXT = pl.select(n=pl.int_range(ROWS)).select(
    "n",
    text=pl.when(pl.col("n") % 7 > 0).then(pl.format("a text of row {}", pl.col("n"))),
    lists=pl.concat_list(pl.format("{}", pl.col("n") % 100), pl.lit("item")),
)


def threads_of(made: IPCStream) -> tuple[bytes, set[str]]:
    """Read a stream; give its bytes, and which threads of ours were there meanwhile."""
    parts, seen = [], set()
    for buffers in made:
        parts += map(bytes, buffers)
        seen |= {thread.name for thread in threading.enumerate() if thread.name.startswith("rt_frames")}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rt_frames")]
    return b"".join(parts), seen


@pytest.mark.parametrize("codecs", [(None,), ("zstd",), (None, "lz4", "zstd", "lz4", None)], ids=str)
@pytest.mark.parametrize("query", [False, True], ids=["frame", "query"])
def test_what_several_threads_convert_and_compress_arrives_whole_and_in_order(four_cores, query, codecs):
    made = stream(TEXT.lazy() if query else TEXT, Alternating(*codecs))
    written, seen = threads_of(made)
    table = pa.ipc.open_stream(written).read_all()
    table.validate(full=True)
    assert pl.from_arrow(table).equals(TEXT)
    assert made.rows == ROWS
    assert seen == {"rt_frames prefetch", "rt_frames worker", *(["rt_frames query"] if query else [])}


def test_a_length_is_that_of_what_is_sent_however_many_threads_convert(four_cores):
    for data in (TEXT, TEXT.select("text", "lists"), TEXT.to_arrow(compat_level=pl.CompatLevel.newest())):
        made = stream(data)
        assert made.length == sum(len(buffer) for buffers in made for buffer in buffers)


def test_threads_are_started_only_for_work_that_can_be_shared(four_cores):
    coded = TEXT.with_columns((pl.col("n") % 100).cast(pl.String).cast(pl.Categorical))
    none = CompressionPolicy(None, LinkMemory())
    for data, policy, want in [
        (TEXT.head(1000), CompressionPolicy("zstd", LinkMemory()), set()),
        (TEXT.to_arrow(), none, {"rt_frames prefetch"}),
        (coded, none, {"rt_frames prefetch"}),  # dictionaries grow from batch to batch
        (iter([TEXT]), none, set()),
    ]:
        written, seen = threads_of(stream(data, policy))
        assert seen == want
        assert pa.ipc.open_stream(written).read_all().num_rows in (ROWS, 1000)


def test_a_value_that_one_of_several_threads_cannot_convert_is_told_by_its_row(four_cores):
    bad = ROWS - 1000
    query = TEXT.lazy().select(x=pl.when(pl.col("n") == bad).then(pl.lit("?")).otherwise(pl.col("n").cast(pl.String)))
    made = IPCStream(open_source(query, dtypes={"x": "int64"}), CompressionPolicy("zstd", LinkMemory()))
    with pytest.raises(UnsupportedTypeError, match=rf"column 'x', row {bad} .*'\?'"):
        list(made)
    assert 0 < made.rows < bad
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rt_frames")]


def test_an_error_of_a_source_that_is_read_on_another_thread_holds_no_rows_once_it_was_dropped(four_cores):
    known: list[weakref.ref] = []

    def batches():
        for _ in range(6):
            frame = pl.select(n=pl.int_range(2**17)).select(n=pl.format("{}", pl.col("n")))
            known.append(weakref.ref(frame))
            yield from frame.to_arrow(compat_level=pl.CompatLevel.newest()).to_batches()
        raise LookupError("no such sensor")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.string_view())]), batches())
    made = IPCStream(open_source(reader), CompressionPolicy("zstd", LinkMemory()))
    gc.disable()
    try:
        with contextlib.suppress(LookupError):  # pytest would keep it
            list(made)
        del made, reader
        assert [each() for each in known if each() is not None] == []
    finally:
        gc.enable()
    assert len(known) == 6


@pytest.mark.parametrize("column", ["text", "lists"])
@pytest.mark.parametrize("cores", [2, 16])
def test_what_is_converted_at_a_time_takes_little_memory_however_many_cores_there_are(column, cores):
    code = f"""
import polars as pl, pyarrow as pa
from rt_frames._frames.any_frame import open_source
from rt_frames._frames.compression import CompressionPolicy, LinkMemory
from rt_frames._frames.ipc import HELD_SECONDS, IPCStream
pa.set_cpu_count({cores})
text = pl.select(n=pl.int_range(8_000_000)).select(text=pl.format("a text of row {{}}", pl.col("n")))
frame = text if {column == "text"} else text.select(lists=pl.col("text").reshape((-1, 4)).arr.to_list())
policy = CompressionPolicy("auto", LinkMemory(), is_loopback=True)
assert sum(len(buffer) for buffers in IPCStream(open_source(frame), policy) for buffer in buffers) > 200e6
print(pa.default_memory_pool().max_memory())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64e6


def rows_of(kind: str, count: int):
    """Give frames of one row, each with dictionaries of its own."""
    for number in range(count):
        columns = {"n": [number], "t": [f"row {number}"], "c": [f"category {number // 500}"]}
        if kind == "arrow":
            yield pa.record_batch({**columns, "c": pa.array(columns["c"]).dictionary_encode()})
        elif kind == "plain":
            yield pa.record_batch(columns)
        elif kind == "pandas":
            yield pd.DataFrame(columns).astype({"c": "category"})
        else:
            yield pl.DataFrame(columns, schema_overrides={"c": pl.Categorical})


@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize("kind", ["arrow", "plain", "pandas", "polars"])
def test_frames_of_one_row_are_sent_as_few_batches(kind, codec):
    sent = list(stream(rows_of(kind, 2_000), CompressionPolicy(codec, LinkMemory())))
    batches = list(pa.ipc.open_stream(b"".join(bytes(buffer) for buffers in sent for buffer in buffers)))
    assert len(batches) < 200
    got = pa.Table.from_batches(batches).to_pydict()
    assert got["n"] == list(range(2_000))
    assert got["c"] == [f"category {number // 500}" for number in range(2_000)]


def test_the_length_of_a_table_of_small_chunks_is_what_is_sent():
    table = pa.Table.from_batches(rows_of("plain", 500))
    made = stream(pa.concat_tables([table, table.slice(0, 0), table]))
    assert sum(len(buffer) for buffers in made for buffer in buffers) == made.length
    assert made.rows == 1_000


def test_small_frames_that_come_slowly_do_not_wait_for_each_other():
    def slowly():
        for number in range(4):
            yield pl.DataFrame({"n": [number]})
            time.sleep(1.5 * HELD_SECONDS)

    assert len(list(stream(slowly()))) >= 4


def test_a_small_frame_that_does_not_fit_is_named_by_its_place_and_row():
    frames = (pa.table({"n": [str(number) if number != 77 else "x"]}) for number in range(100))
    with pytest.raises(UnsupportedTypeError, match=r"'n', row 77 \(item 77\)"):
        list(IPCStream(open_source(frames, dtypes={"n": "int64"}), CompressionPolicy(None, LinkMemory())))
