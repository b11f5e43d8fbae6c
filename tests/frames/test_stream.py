"""The Arrow stream of a body: batches, dictionaries, length and compression."""

from __future__ import annotations

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
from tests.support.sent import send

MIB = 2**20
WORDS = pl.DataFrame(
    {"n": np.arange(100_000), "word": [f"w{i % 300}" for i in range(100_000)]}
)
FRAMES = {
    "pandas": pd.DataFrame({"n": np.arange(9.0), "s": [f"row {i}" for i in range(9)]}),
    "objects": pd.DataFrame({"o": pd.Series(["x", None] * 9, dtype=object)}),
    "words": WORDS,
    "coded words": WORDS.cast({"word": pl.Categorical}),
    "large": pl.DataFrame(
        {
            "n": np.arange(5_000_000),
            "c": pl.Series(["u"] * 5_000_000, dtype=pl.Categorical),
        }
    ),
    "chunks": pa.table({"n": pa.chunked_array([[1, 2], [], [3]])}),
    "wide": pa.table({f"c{i}": np.arange(9.0) + i for i in range(3_000)}),
    "empty pandas": pd.DataFrame({"n": np.arange(0)}),
    "empty Polars": pl.DataFrame(schema={"n": pl.Int8, "c": pl.Categorical}),
    "empty Arrow": pa.schema(
        [("u", pa.uuid()), ("l", pa.list_(pa.string()))]
    ).empty_table(),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_the_same_rows_arrive_whatever_the_codec_and_a_small_frame_in_one_batch(
    four_cores, kind
):
    frame, whole = FRAMES[kind], send(FRAMES[kind]).table()
    assert whole.num_rows == len(frame)
    assert np.array_equal(whole[0], frame[whole.schema.names[0]])
    for compression in ("auto", "lz4", "zstd"):
        sent = send(frame, compression=compression)
        assert sent.table().equals(whole), compression
        assert (len(sent.read) == 1) == (kind not in ("chunks", "large"))


def test_a_large_frame_begins_with_small_batches_and_goes_on_with_larger_ones():
    values = np.arange(5 * 2**20)
    sizes = [batch.nbytes / MIB for batch in send(pa.table({"n": values})).read]
    assert sizes[0] <= 4 < max(sizes) <= 32
    assert sizes[0] == min(sizes)
    assert sum(sizes) == values.nbytes / MIB


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
    table = pa.table(
        {"t": pa.chunked_array([days.slice(3, 0), days.slice(1, 2), days.slice(4)])}
    )
    assert (
        send(pa.RecordBatchReader.from_stream(table)).table()["t"].to_pylist()
        == days.to_pylist()[1:3]
    )
    assert send(pa.RecordBatchReader.from_stream(table.slice(2))).table().num_rows == 0


def rows_of(kind: str, count: int):
    """Give frames of one row, each with dictionaries of its own."""
    for number in range(count):
        columns = {"n": [number], "c": [f"category {number // 100}"]}
        if kind == "Arrow":
            yield pa.record_batch(
                {**columns, "c": pa.array(columns["c"]).dictionary_encode()}
            )
        elif kind == "pandas":
            yield pd.DataFrame(columns).astype({"c": "category"})
        else:
            yield pl.DataFrame(
                columns,
                schema_overrides={
                    "c": pl.Categorical if kind == "Polars" else pl.String
                },
            )


@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize("kind", ["Arrow", "plain", "pandas", "Polars"])
def test_frames_of_one_row_are_sent_as_few_batches(kind, codec):
    sent = send(rows_of(kind, 400), compression=codec)
    assert len(sent.read) < 200
    assert sent.table().to_pydict() == {
        "n": [*range(400)],
        "c": [f"category {n // 100}" for n in range(400)],
    }


def test_small_frames_that_come_slowly_do_not_wait_for_each_other():
    def slowly():
        for number in range(3):
            yield pl.DataFrame({"n": [number]})
            time.sleep(0.15)

    assert len(send(slowly()).read) == 3


def test_a_small_frame_that_does_not_fit_is_named_by_its_place_and_row():
    frames = (
        pa.table({"n": [str(number) if number != 77 else "x"]}) for number in range(100)
    )
    with pytest.raises(UnsupportedTypeError, match="'n', item 77, row 0"):
        send(frames, dtypes={"n": "int64"})


def coded(names: list[str | None]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(range(len(names)), pa.int32()), pa.array(names, pa.string())
    )


MANY = [f"category {n}" for n in range(5_000)]
SERIES = {  # batches, and how many times the bytes of their values may be sent
    "ever new categories": (
        [coded([f"category {n} of {b}" for n in range(500)]) for b in range(60)],
        1.2,
    ),
    "few behind many": ([coded(MANY), *(coded(MANY[n : n + 3]) for n in range(99))], 2),
    "the same again and again": ([coded(MANY)] * 50, 1.2),
}


@pytest.mark.parametrize("kind", SERIES)
def test_categories_are_sent_once_and_few_do_not_wait_for_many(kind):
    columns, times = SERIES[kind]
    sent = send(iter([pa.record_batch({"c": column}) for column in columns]))
    assert sent.table()["c"].to_pylist() == [
        name for column in columns for name in column.to_pylist()
    ]
    distinct = {name for column in columns for name in column.to_pylist()}
    assert len(sent.body) < times * (
        coded([*distinct]).nbytes + sum(column.indices.nbytes for column in columns)
    )


CHUNKS = {  # of one table
    "each with values of its own": [["a", "b"], ["c"], ["b", "d"]],
    "which go on": [["a"], ["a", "b"], ["a", "b", "c"]],
    "in another order": [["a", "b", "c"], ["c", "d", "a"], ["b", "a"]],
    "a value twice": [["a", "b", "a"], ["b", "b", "c"]],
    "and nulls": [["a", None], ["a", None, "b"], ["b", None]],
    "none": [["a", "b"], [], ["b"]],
}


@pytest.mark.parametrize("kind", CHUNKS)
def test_chunks_of_a_table_may_have_different_dictionaries(kind):
    chunks = [coded(names) for names in CHUNKS[kind]]
    sent = send(
        pa.table(
            {"c": pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string()))}
        )
    )
    assert sent.table()["c"].to_pylist() == [
        name for names in CHUNKS[kind] for name in names
    ]


def test_dictionaries_that_together_outgrow_their_codes_are_stored(
    client, service, name
):
    halves = [
        pa.array([f"{half}{i}" for i in range(100)]).dictionary_encode()
        for half in "abc"
    ]
    rt.to_table(
        (
            pa.record_batch({"c": half.cast(pa.dictionary(pa.int8(), pa.string()))})
            for half in halves
        ),
        name,
    )
    assert stored(service, name)["c"].to_pylist() == [
        word for half in halves for word in half.to_pylist()
    ]


def test_nested_categories_of_polars_are_sent_without_pandas(server):
    code = (
        "import sys, polars as pl, rt_frames as rt\n"
        f"client, word = rt.connect({server.url!r}, api_key='k'), pl.Categorical\n"
        "frame = pl.DataFrame({'l': [['x'], None], 's': [{'q': 'x'}, {'q': None}], 'd': ['a', 'b'], 't': ['x', '']})\n"
        "frame = frame.cast({'l': pl.List(word), 's': pl.Struct({'q': word}), 'd': word})\n"
        "for data in (frame, frame.lazy(), frame.clear(), [frame, frame], frame.to_arrow()):\n"
        "    for compression in (None, 'auto', 'zstd'):\n"
        "        client.create_table('t', data, compression=compression)\n"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
