"""The Arrow stream of a body: batches, dictionaries, length and compression."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.compare import stored
from tests.support.faults import connected
from tests.support.sent import send

MIB = 2**20
NUMBERED = range(100_000)
WORDS = pl.DataFrame({"n": NUMBERED, "word": [f"w{n % 300}" for n in NUMBERED]})
SENTENCES = pd.DataFrame({"n": np.arange(9.0), "s": [f"row {n}" for n in range(9)]})
MANY_CODES = pl.repeat("u", 2_000_000, dtype=pl.Categorical, eager=True)
EMPTY = pa.schema([("u", pa.uuid()), ("l", pa.list_(pa.string()))]).empty_table()
SMALL = {
    "pandas": SENTENCES,
    "objects": pd.DataFrame({"o": pd.Series(["x", None] * 9, dtype=object)}),
    "words": WORDS,
    "coded words": WORDS.cast({"word": pl.Categorical}),
    "wide": pa.table({f"c{number}": np.arange(9.0) for number in range(3_000)}),
    "empty pandas": pd.DataFrame({"n": np.arange(0)}),
    "empty Polars": pl.DataFrame(schema={"n": pl.Int8, "c": pl.Categorical}),
    "empty Arrow": EMPTY,
}
LARGE = {
    "large": pl.DataFrame({"n": np.arange(2_000_000), "c": MANY_CODES}),
    "chunks": pa.table({"n": pa.chunked_array([[1, 2], [], [3]])}),
}


@pytest.mark.parametrize("kind", [*SMALL, *LARGE])
@pytest.mark.parametrize("codec", ["auto", "zstd"])
def test_the_same_rows_arrive_whatever_the_codec_and_a_small_frame_in_one_batch(
    four_cores, kind, codec
):
    frame = {**SMALL, **LARGE}[kind]
    whole = send(frame).table()
    sent = send(frame, compression=codec)
    assert whole.num_rows == len(frame)
    assert np.array_equal(whole[0], frame[whole.schema.names[0]])
    assert sent.table().equals(whole)
    assert (len(sent.read) == 1) == (kind in SMALL)


def test_a_large_frame_begins_with_small_batches_and_goes_on_with_larger_ones():
    values = np.arange(5 * 2**20)
    sent = send(pa.table({"n": values}))
    sizes = [batch.nbytes / MIB for batch in sent.read]
    assert sizes[0] <= 4 < max(sizes) <= 32
    assert sizes[0] == min(sizes)
    assert sum(sizes) == values.nbytes / MIB


NUMBERS = pa.table({"n": np.arange(12 * MIB)})
SHARED = pd.Series(["x" * 100] * 400_000, dtype=object)
WIDE = pa.table({f"c{number}": np.arange(6_000.0) for number in range(500)})
VIEWS = pa.table({"t": pa.array(["x" * 100] * 400_000, pa.string_view())})
# a frame, its codec, and the MiB of most batches
SIZES = {
    "as it is": (NUMBERS, None, 16),
    "compressed": (NUMBERS.slice(0, 5 * MIB), "zstd", 4),
    "objects, which take more than their values": (SHARED.to_frame("t"), None, 8),
    "16 KiB for each column": (WIDE, "zstd", 8),
    "all that four threads convert": (VIEWS, None, 20 / 6),
}


@pytest.mark.parametrize(("frame", "codec", "size"), SIZES.values(), ids=SIZES)
def test_batches_are_as_large_as_memory_and_overhead_allow(
    four_cores, frame, codec, size
):
    sizes = [batch.nbytes / MIB for batch in send(frame, compression=codec).read]
    # the first ones are small, so that the service begins early
    later = sizes[4:] if len(sizes) > 4 else sizes
    assert statistics.median_low(later) == pytest.approx(size, rel=0.4)


def test_the_first_batches_to_this_machine_are_small_as_it_may_be_a_tunnel(server):
    # a client that has sent something knows the link
    connected(server).create_table("t", NUMBERS.slice(0, 5 * MIB))
    with pa.ipc.open_stream(server.posts[0].body) as sent:
        assert next(sent).nbytes == pytest.approx(MIB / 4, rel=0.1)


@pytest.mark.parametrize(
    ("rows", "columns", "kind", "batches"),
    [
        (200, 1, np.int64, 2),
        (50, 10, np.int64, 2),
        # of more than 256 rows, or 4 KiB, none is copied
        (300, 1, np.int8, 100),
        (100, 10, np.int64, 100),
    ],
)
def test_frames_are_joined_if_they_are_small(rows, columns, kind, batches):
    def make(number):
        values = np.full(rows, number, kind)
        return pa.record_batch({f"c{name}": values.copy() for name in range(columns)})

    frames = pa.Table.from_batches(map(make, range(100)))
    assert len(send(frames).read) == batches


def test_no_more_than_a_thousand_frames_are_joined():
    frames = pa.table({"n": pa.chunked_array([[n] for n in range(3000)])})
    sizes = [batch.num_rows for batch in send(frames).read]
    assert sizes == [1, 1024, 1024, 951]


@pytest.mark.parametrize("length", [41, 43, 48])
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_no_batch_of_few_rows_is_left_over_between_large_ones(length, codec):
    column = pa.repeat(pa.scalar("x" * length), 1_200_000)
    sent = send(pa.table({"t": column}), compression=codec)
    sizes = [batch.num_rows for batch in sent.read]
    assert sum(sizes) == len(column)
    assert min(sizes) > 10_000


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_batch_that_does_not_shrink_goes_uncompressed(codec):
    noise = pl.DataFrame({"a": np.random.default_rng(0).integers(0, 2**63, 100_000)})
    assert send(noise, compression=codec).body == send(noise).body


def test_metadata_of_a_schema_stays_here():
    table = pa.table({"n": [1]}).replace_schema_metadata({"mine": "secret"})
    assert send(table).schema.metadata is None


def test_slices_without_rows_that_come_through_a_c_stream_are_left_out():
    days = pa.array([1, None, 3, 4], pa.timestamp("ms"))
    chunks = [days.slice(3, 0), days.slice(1, 2), days.slice(4)]
    table = pa.table({"t": pa.chunked_array(chunks)})
    sent = send(pa.RecordBatchReader.from_stream(table)).table()
    assert sent["t"].to_pylist() == days.to_pylist()[1:3]
    assert send(pa.RecordBatchReader.from_stream(table.slice(2))).table().num_rows == 0


def row(number: int) -> dict[str, list]:
    return {"n": [number], "c": [f"category {number // 100}"]}


def coded_row(number: int) -> pa.RecordBatch:
    codes = pa.array(row(number)["c"]).dictionary_encode()
    return pa.record_batch({"n": [number], "c": codes})


CATEGORICAL = {"c": pl.Categorical}
ONE_ROW = [  # frames of one row, each with dictionaries of its own
    (coded_row, None),
    (coded_row, "zstd"),
    (lambda n: pl.DataFrame(row(n)), None),
    (lambda n: pd.DataFrame(row(n)).astype({"c": "category"}), None),
    (lambda n: pl.DataFrame(row(n), schema_overrides=CATEGORICAL), None),
]


@pytest.mark.parametrize(("make", "codec"), ONE_ROW)
def test_frames_of_one_row_are_sent_as_few_batches(make, codec):
    sent = send((make(number) for number in range(400)), compression=codec)
    found = sent.table().to_pydict()
    assert len(sent.read) < 200
    assert found["n"] == list(range(400))
    assert found["c"] == [f"category {number // 100}" for number in range(400)]


def test_small_frames_that_come_slowly_do_not_wait_for_each_other():
    def slowly():
        for number in range(3):
            yield pl.DataFrame({"n": [number]})
            time.sleep(0.15)

    assert len(send(slowly()).read) == 3


def test_a_small_frame_that_does_not_fit_is_named_by_its_place_and_row():
    frames = [pa.table({"n": [str(number)]}) for number in range(100)]
    frames[77] = pa.table({"n": ["x"]})
    with pytest.raises(UnsupportedTypeError, match="'n', item 77, row 0"):
        send(iter(frames), dtypes={"n": "int64"})


def coded(names: list[str | None]) -> pa.Array:
    codes = pa.array(range(len(names)), pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()))


MANY = [f"category {n}" for n in range(5_000)]
EVER_NEW = [[f"category {n} of {b}" for n in range(500)] for b in range(60)]
SERIES = {  # the names of each batch, and how many times their bytes may be sent
    "ever new categories": (EVER_NEW, 1.2),
    "few behind many": ([MANY, *(MANY[n : n + 3] for n in range(99))], 2),
    "the same again and again": ([MANY] * 50, 1.2),
}


@pytest.mark.parametrize(("series", "times"), SERIES.values(), ids=SERIES)
def test_categories_are_sent_once_and_few_do_not_wait_for_many(series, times):
    names = list(itertools.chain(*series))
    sent = send(pa.record_batch({"c": coded(batch)}) for batch in series)
    at_least = coded(list(set(names))).nbytes + 4 * len(names)
    assert sent.table()["c"].to_pylist() == names
    assert len(sent.body) < times * at_least


CHUNKS = {  # of one table
    "each with values of its own": [["a", "b"], ["c"], ["b", "d"]],
    "which go on": [["a"], ["a", "b"], ["a", "b", "c"]],
    "in another order": [["a", "b", "c"], ["c", "d", "a"], ["b", "a"]],
    "a value twice": [["a", "b", "a"], ["b", "b", "c"]],
    "and nulls": [["a", None], ["a", None, "b"], ["b", None]],
    "none": [["a", "b"], [], ["b"]],
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_chunks_of_a_table_may_have_different_dictionaries(chunks):
    column = pa.chunked_array([coded(names) for names in chunks])
    sent = send(pa.table({"c": column})).table()
    assert sent["c"].to_pylist() == list(itertools.chain(*chunks))


def test_dictionaries_that_together_outgrow_their_codes_are_stored(
    client, service, name
):
    small_codes = pa.dictionary(pa.int8(), pa.string())
    words = [f"word {number}" for number in range(300)]
    first = pa.array(words[:100]).dictionary_encode().cast(small_codes)
    second = pa.array(words[100:200]).dictionary_encode().cast(small_codes)
    third = pa.array(words[200:]).dictionary_encode().cast(small_codes)
    batches = [pa.record_batch({"c": column}) for column in (first, second, third)]
    rt.to_table(iter(batches), name)
    assert stored(service, name)["c"].to_pylist() == words


WITHOUT_PANDAS = """
import sys
import polars as pl
import rt_frames as rt
client = rt.connect(sys.argv[1], api_key="k")
word = pl.Categorical
columns = {"l": [["x"], None], "s": [{"q": "x"}, {"q": None}], "d": ["a", "b"]}
schema = {"l": pl.List(word), "s": pl.Struct({"q": word}), "d": word}
frame = pl.DataFrame({**columns, "t": ["x", ""]}).cast(schema)
for data in (frame, frame.lazy(), frame.clear(), [frame, frame], frame.to_arrow()):
    for compression in (None, "auto", "zstd"):
        client.create_table("t", data, compression=compression)
print("pandas" in sys.modules)
"""


def test_nested_categories_of_polars_are_sent_without_pandas(server):
    command = [sys.executable, "-c", WITHOUT_PANDAS, server.url]
    assert subprocess.check_output(command, text=True).strip() == "False"
