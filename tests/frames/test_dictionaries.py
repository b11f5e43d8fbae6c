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
from rt_frames._frames.compression import Codec, CompressionPolicy, LinkMemory
from rt_frames._frames.ipc import IPCStream
from rt_frames._frames.source import OpenOptions


class AtWill(CompressionPolicy):
    """A policy that takes another codec for nearly every batch."""

    def __init__(self, seed: int) -> None:
        super().__init__("auto", LinkMemory())
        self._random = random.Random(seed)

    def next_codec(self) -> Codec:
        return self._random.choice(["lz4", "zstd", None])


def read(data: object, seed: int) -> pa.Table:
    """Make the stream of some data, and read its bytes with Arrow."""
    body = b"".join(
        bytes(buffer)
        for buffers in IPCStream(open_source(data, OpenOptions()), AtWill(seed))
        for buffer in buffers
    )
    table = pa.ipc.open_stream(body).read_all()
    table.validate(full=True)
    return table


PAIRS = pa.array([0, 2, None, 6, 8], pa.int32())
KEYS = pa.array(list("abcdefgh"))
PLACES = {  # of the words of a batch, of which there are eight
    "column": lambda words: words[:4],
    "struct": lambda words: pa.StructArray.from_arrays(
        [words[:4], words[4:]], ["x", "y"]
    ),
    "list": lambda words: pa.ListArray.from_arrays(PAIRS, words),
    "list view": lambda words: pa.ListViewArray.from_arrays(
        [6, 3, 0, 1], [2, 3, 2, 0], words
    ),
    "map": lambda words: pa.MapArray.from_arrays(PAIRS, KEYS, words),
    "list of structs": lambda words: pa.ListArray.from_arrays(
        PAIRS, pa.StructArray.from_arrays([words], ["x"])
    ),
    "struct of lists": lambda words: pa.StructArray.from_arrays(
        [pa.ListArray.from_arrays(PAIRS, words)], ["x"]
    ),
}
LIBRARIES = {
    "Arrow": pa.Table.from_batches,
    "Arrow batches": iter,
    "Polars": lambda batches: [
        pl.from_arrow(batch.select([*set(PLACES) - {"map", "list view"}]))
        for batch in batches
    ],
    "pandas": lambda batches: [
        pa.Table.from_batches([batch]).to_pandas(types_mapper=pd.ArrowDtype)
        for batch in batches
    ],
}
cells = (
    st.none()
    | st.sampled_from(["ok", "fault", "idle"])
    | st.integers(0, 300).map("unit {}".format)
)


@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=settings().max_examples // 8)
@given(
    st.lists(st.lists(cells, min_size=8, max_size=8), min_size=1, max_size=12),
    st.integers(0, 9),
)
def test_no_batch_relies_on_a_dictionary_that_another_codec_brought(
    library, drawn, seed
):
    """Each batch has a dictionary of its own, whose words may come back later."""
    small = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    coded = [
        pa.array(words, pa.string()).dictionary_encode().cast(small) for words in drawn
    ]
    batches = [
        pa.record_batch({name: place(words) for name, place in PLACES.items()})
        for words in coded
    ]
    found = read(LIBRARIES[library](batches), seed)
    assert "ordered=1" not in str(found.schema)
    assert "int8" not in str(found.schema)
    assert (
        found.to_pydict()
        == pa.Table.from_batches(batches).select(found.column_names).to_pydict()
    )


def test_batches_without_values_leave_the_dictionaries_as_they_are():
    words = pa.array(["a", "b", None, "c"] * 2).dictionary_encode()
    whole = pa.record_batch({name: place(words) for name, place in PLACES.items()})
    empty = pa.record_batch({name: pa.nulls(5) for name in PLACES})
    batches = [whole, empty, whole, empty, empty, whole]
    for seed in range(9):
        assert read(iter(batches), seed).to_pylist() == [
            row for batch in batches for row in batch.to_pylist()
        ]


def test_two_places_whose_names_with_dots_read_alike_have_dictionaries_of_their_own():
    texts, numbers = (
        pa.array(values * 2).dictionary_encode() for values in (["a", "b"], [5, 6])
    )
    inner = pa.StructArray.from_arrays([numbers], ["c"])
    table = pa.table({"x": pa.StructArray.from_arrays([texts, inner], ["b.c", "b"])})
    assert read(iter(table.to_batches() * 3), 1).to_pylist() == table.to_pylist() * 3


def test_slices_of_one_large_frame_keep_their_nested_categories():
    rows = 3_000_000
    statuses = (
        pl.Series(["ok", "fault", "idle"])
        .cast(pl.Categorical)
        .gather(np.arange(rows) * 3 // rows)
    )
    frame = pl.DataFrame({"s": statuses, "n": np.arange(rows) * 1.5}).select(
        pl.struct("s", "n").alias("x")
    )
    texts = pl.col("x").struct.field("s").cast(pl.String)
    assert pl.from_arrow(read(frame, 1)).select(texts).equals(frame.select(texts))


@pytest.mark.parametrize(
    "make", [pl.DataFrame, pl.DataFrame.lazy], ids=["frame", "query"]
)
def test_what_several_threads_convert_and_compress_arrives_whole_and_in_order(
    four_cores, make
):
    rows = pl.select(n=pl.int_range(800_000))
    text = rows.select(
        "n",
        text=pl.when(pl.col("n") % 7 > 0).then(
            pl.format("a text of row {}", pl.col("n"))
        ),
    )
    for seed in range(2):
        assert pl.from_arrow(read(make(text), seed)).equals(text)
