"""That every choice of a codec arrives whole."""

from __future__ import annotations

import random
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames._frames.any_frame import open_source
from rt_frames._frames.compression import Codec, CompressionPolicy, LinkMemory
from rt_frames._frames.ipc import IPCStream

FRAMES = {
    "numbers": pl.DataFrame({"a": np.arange(5_000_000) % 7, "b": np.arange(5_000_000.0)}),
    "words": pl.DataFrame({"word": [f"w{i % 300}" for i in range(400_000)]}),
    "categories": pl.DataFrame({"word": pl.Series([f"w{i % 300}" for i in range(400_000)], dtype=pl.Categorical)}),
    "empty": pl.DataFrame(schema={"a": pl.Int64}),
}


def body_of(frame: object, compression: str | None) -> bytes:
    """Make the stream of a frame as for a link that is not known to be fast."""
    stream = IPCStream(open_source(frame), CompressionPolicy(compression, LinkMemory()))
    return b"".join(bytes(buffer) for buffers in stream for buffer in buffers)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("compression", ["auto", "lz4", "zstd", None])
def test_whatever_is_chosen_the_same_data_arrive(kind, compression):
    got = pl.from_arrow(pa.ipc.open_stream(body_of(FRAMES[kind], compression)).read_all())
    assert got.cast({c: pl.String for c in got.columns if c == "word"}).equals(
        FRAMES[kind].cast({c: pl.String for c in got.columns if c == "word"})
    )


def test_auto_compresses_what_shrinks_off_loopback():
    assert len(body_of(pl.DataFrame({"a": np.zeros(500_000)}), "auto")) < 400_000


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_batch_that_does_not_shrink_goes_uncompressed(remote, server, codec):
    noise = pl.DataFrame({"a": np.random.default_rng(0).integers(0, 2**63, 100_000)})
    rt.to_table(noise, "t", compression=codec)
    rt.to_table(noise, "t", compression=None)
    assert server.posts[0].body == server.posts[1].body


def test_a_generator_is_read_on_the_thread_of_its_caller(remote):
    threads = []

    def frames():
        for _ in range(3):
            threads.append(threading.current_thread())
            yield pl.DataFrame({"a": [1]})

    rt.to_table(frames(), "t", compression="lz4")
    assert set(threads) == {threading.current_thread()}


class AtWill(CompressionPolicy):
    """A policy that takes another codec for every batch."""

    def __init__(self, seed: int) -> None:
        super().__init__("auto", LinkMemory())
        self._random = random.Random(seed)

    def next_codec(self) -> Codec:
        return self._random.choice(["zstd", "lz4", None])


def words(seed: int, rows: int = 40) -> pa.Array:
    """Give words with a dictionary of their own, of which some come back in later batches."""
    values = pa.array(random.Random(seed).sample(["ok", "fault", "idle", "off", "on", "lost"], 2))
    return pa.DictionaryArray.from_arrays(
        pa.array([i % 3 if i % 3 < 2 else None for i in range(rows)], pa.int8()), values
    )


def pairs(rows: int = 40) -> pa.Array:
    return pa.array(range(0, rows + 1, 2), pa.int32())


CODED_PLACES = {
    "column": lambda seed: words(seed, 20),
    "struct": lambda seed: pa.StructArray.from_arrays([words(seed, 20), words(seed + 1, 20)], ["x", "y"]),
    "list": lambda seed: pa.ListArray.from_arrays(pairs(), words(seed)),
    "map": lambda seed: pa.MapArray.from_arrays(pairs(), pa.array([f"k{i}" for i in range(40)]), words(seed)),
    "list of structs": lambda seed: pa.ListArray.from_arrays(pairs(), pa.StructArray.from_arrays([words(seed)], ["x"])),
    "struct of lists": lambda seed: pa.StructArray.from_arrays([pa.ListArray.from_arrays(pairs(), words(seed))], ["x"]),
}


def polars_frames(table: pa.Table) -> list[pl.DataFrame]:
    return [pl.from_arrow(pa.Table.from_batches([batch])) for batch in table.to_batches()]


def pandas_frames(table: pa.Table) -> list[pd.DataFrame]:
    return [pa.Table.from_batches([batch]).to_pandas(types_mapper=pd.ArrowDtype) for batch in table.to_batches()]


LIBRARIES = {
    "Arrow": lambda table: table,
    "Arrow batches": lambda table: iter(table.to_batches()),
    "Polars": lambda table: iter(polars_frames(table.drop_columns("map"))),
    "pandas": lambda table: iter(pandas_frames(table)),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_batch_relies_on_a_dictionary_that_another_codec_brought(library):
    columns = {name: pa.chunked_array([make(seed) for seed in range(30)]) for name, make in CODED_PLACES.items()}
    table = pa.table(columns)
    for seed in range(5):
        source = open_source(LIBRARIES[library](table))
        body = b"".join(bytes(buffer) for buffers in IPCStream(source, AtWill(seed)) for buffer in buffers)
        got = pa.ipc.open_stream(body).read_all()
        assert got.to_pydict() == table.select(got.column_names).to_pydict()


def test_slices_of_one_large_frame_keep_their_nested_categories_whatever_the_codec():
    rows = 3_000_000
    statuses = pl.Series(["ok", "fault", "idle"]).cast(pl.Categorical).gather(np.arange(rows) * 3 // rows)
    frame = pl.DataFrame({"s": statuses, "n": np.arange(rows) * 1.5}).select(pl.struct("s", "n").alias("x"))
    stream = IPCStream(open_source(frame), AtWill(1))
    got = pl.from_arrow(pa.ipc.open_stream(b"".join(bytes(b) for buffers in stream for b in buffers)).read_all())
    texts = pl.col("x").struct.field("s").cast(pl.String)
    assert got.select(texts).equals(frame.select(texts))
