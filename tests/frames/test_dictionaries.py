"""Every batch arrives whole in any codec, and so do the dictionaries it relies on.

It imports the stream and its policy, because the public API fixes one codec or lets
time decide, and these tests choose the codec of each batch.
"""

from __future__ import annotations

import random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rt_frames._frames.any_frame import open_source
from rt_frames._frames.open_options import OpenOptions
from rt_frames._stream.compression import Codec, CompressionPolicy, LinkMemory
from rt_frames._stream.ipc import IPCStream


class AtWill(CompressionPolicy):
    """A policy that takes another codec for nearly every batch."""

    def __init__(self, seed: int) -> None:
        super().__init__("auto", LinkMemory())
        self._random = random.Random(seed)

    def next_codec(self) -> Codec:
        return self._random.choice(["lz4", "zstd", None])


def read(data: object, seed: int) -> pa.Table:
    """Make the stream of some data, and read its bytes with Arrow."""
    body = bytearray()
    for buffers in IPCStream(open_source(data, OpenOptions()), AtWill(seed)):
        for buffer in buffers:
            body += buffer
    table = pa.ipc.open_stream(body).read_all()
    table.validate(full=True)
    return table


PAIRS = pa.array([0, 2, None, 6, 8], pa.int32())
KEYS = pa.array(list("abcdefgh"))
ORDER = [6, 3, 0, 1]
SIZES = [2, 3, 2, 0]
a_list = pa.ListArray.from_arrays


def a_struct(*columns: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(columns, ["x", "y"][: len(columns)])


PLACES = {  # of the words of a batch, of which there are eight
    "column": lambda words: words[:4],
    "struct": lambda words: a_struct(words[:4], words[4:]),
    "list": lambda words: a_list(PAIRS, words),
    "list view": lambda words: pa.ListViewArray.from_arrays(ORDER, SIZES, words),
    "map": lambda words: pa.MapArray.from_arrays(PAIRS, KEYS, words),
    "list of structs": lambda words: a_list(PAIRS, a_struct(words)),
    "struct of lists": lambda words: a_struct(a_list(PAIRS, words)),
}
IN_POLARS = ["column", "struct", "list", "list of structs", "struct of lists"]


def placed(words: pa.Array) -> pa.RecordBatch:
    """Make a batch that has words in all places."""
    return pa.record_batch({name: place(words) for name, place in PLACES.items()})


def as_polars(batch: pa.RecordBatch) -> pl.DataFrame:
    return pl.from_arrow(batch.select(IN_POLARS))


def as_pandas(batch: pa.RecordBatch) -> pd.DataFrame:
    return pa.Table.from_batches([batch]).to_pandas(types_mapper=pd.ArrowDtype)


LIBRARIES = {
    "Arrow": pa.Table.from_batches,
    "Arrow batches": iter,
    "Polars": lambda batches: [as_polars(batch) for batch in batches],
    "pandas": lambda batches: [as_pandas(batch) for batch in batches],
}
fewer = settings(max_examples=settings().max_examples // 8)
units = st.integers(0, 300).map("unit {}".format)
cells = st.none() | st.sampled_from(["ok", "fault", "idle"]) | units
words_of_a_batch = st.lists(cells, min_size=8, max_size=8)


@pytest.mark.parametrize("library", LIBRARIES)
@fewer
@given(st.lists(words_of_a_batch, min_size=1, max_size=12), st.integers(0, 9))
def test_no_batch_relies_on_a_dictionary_that_another_codec_brought(
    library, drawn, seed
):
    """Each batch has a dictionary of its own, whose words may come back later."""
    small = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    batches = []
    for words in drawn:
        coded = pa.array(words, pa.string()).dictionary_encode()
        batches.append(placed(coded.cast(small)))
    found = read(LIBRARIES[library](batches), seed)
    wanted = pa.Table.from_batches(batches).select(found.column_names)
    assert "ordered=1" not in str(found.schema)
    assert "int8" not in str(found.schema)
    assert found.to_pydict() == wanted.to_pydict()


@pytest.mark.parametrize("seed", range(9))
def test_batches_without_values_leave_the_dictionaries_as_they_are(seed):
    whole = placed(pa.array(["a", "b", None, "c"] * 2).dictionary_encode())
    empty = pa.record_batch({name: pa.nulls(5) for name in PLACES})
    rows = whole.to_pylist()
    nothing = empty.to_pylist()
    found = read(iter([whole, empty, whole, empty, empty, whole]), seed)
    assert found.to_pylist() == rows + nothing + rows + nothing + nothing + rows


def test_two_places_whose_names_with_dots_read_alike_have_dictionaries_of_their_own():
    texts = pa.array(["a", "b", "a", "b"]).dictionary_encode()
    numbers = pa.array([5, 6, 5, 6]).dictionary_encode()
    inner = pa.StructArray.from_arrays([numbers], ["c"])
    table = pa.table({"x": pa.StructArray.from_arrays([texts, inner], ["b.c", "b"])})
    assert read(iter(table.to_batches() * 3), 1).to_pylist() == table.to_pylist() * 3


def test_a_frame_is_sent_without_the_categories_of_others():
    other = pl.Series(["elsewhere"], dtype=pl.Categorical)
    frame = pl.DataFrame({"c": ["here"]}, schema={"c": other.dtype})
    assert read(frame, 1)["c"].chunk(0).dictionary.to_pylist() == ["here"]


def test_slices_of_one_large_frame_keep_their_nested_categories():
    rows = 3_000_000
    thirds = np.arange(rows) * 3 // rows
    statuses = pl.Series(["ok", "fault", "idle"], dtype=pl.Categorical).gather(thirds)
    numbers = np.arange(rows) * 1.5
    frame = pl.DataFrame({"s": statuses, "n": numbers}).select(x=pl.struct("s", "n"))
    texts = pl.col("x").struct.field("s").cast(pl.String)
    assert pl.from_arrow(read(frame, 1)).select(texts).equals(frame.select(texts))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("make", [pl.DataFrame, pl.DataFrame.lazy])
def test_what_several_threads_convert_and_compress_arrives_whole_and_in_order(
    four_cores, make, seed
):
    n = pl.col("n")
    text = pl.when(n % 7 > 0).then(pl.format("a text of row {}", n))
    frame = pl.select(n=pl.int_range(800_000)).with_columns(text=text)
    assert pl.from_arrow(read(make(frame), seed)).equals(frame)


@pytest.mark.parametrize("index", [pa.int8(), pa.int32()])
@pytest.mark.parametrize("words", [["x", "y", None, None, "x"], [None, None, "x"]])
def test_a_batch_of_nulls_changes_no_dictionary_and_holds_no_null(index, words):
    coded = pa.array(words).dictionary_encode().cast(pa.dictionary(index, pa.string()))
    rows = pa.table({"c": coded})
    # Arrow unifies no dictionaries that hold a null (pyarrow 26)
    column = read(rows.to_reader(max_chunksize=2), seed=1)["c"].combine_chunks()
    assert column.to_pylist() == words
    assert column.dictionary.null_count == 0
