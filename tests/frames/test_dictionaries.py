"""No batch relies on a dictionary that another codec's writer sent, at whatever depth and from whatever library."""

from __future__ import annotations

import random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rt_frames._frames.any_frame import open_source
from rt_frames._frames.compression import Codec, CompressionPolicy, LinkMemory
from rt_frames._frames.ipc import IPCStream


class AtWill(CompressionPolicy):
    """A policy that takes another codec for every batch."""

    def __init__(self, seed: int) -> None:
        super().__init__("auto", LinkMemory())
        self._random = random.Random(seed)

    def next_codec(self) -> Codec:
        return self._random.choice(["lz4", "zstd", None])


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


def test_a_batch_without_values_leaves_the_dictionaries_as_they_are():
    whole = pa.table({name: make(3) for name, make in CODED_PLACES.items()}).to_batches()[0]
    empty = pa.record_batch({name: pa.nulls(5) for name in CODED_PLACES})
    batches = [whole, empty, whole, empty, empty, whole]
    for seed in range(20):
        stream = IPCStream(open_source(iter(batches)), AtWill(seed))
        got = pa.ipc.open_stream(b"".join(bytes(b) for buffers in stream for b in buffers)).read_all()
        assert got.to_pylist() == [row for batch in batches for row in batch.to_pylist()]


def test_two_places_whose_names_with_dots_read_alike_have_dictionaries_of_their_own():
    texts, numbers = (pa.array(values * 2).dictionary_encode() for values in (["a", "b"], [5, 6]))
    inner = pa.StructArray.from_arrays([numbers], ["c"])
    table = pa.table({"x": pa.StructArray.from_arrays([texts, inner], ["b.c", "b"])})
    stream = IPCStream(open_source(iter(table.to_batches() * 3)), AtWill(1))
    got = pa.ipc.open_stream(b"".join(bytes(b) for buffers in stream for b in buffers)).read_all()
    assert got.to_pylist() == table.to_pylist() * 3


def test_slices_of_one_large_frame_keep_their_nested_categories_whatever_the_codec():
    rows = 3_000_000
    statuses = pl.Series(["ok", "fault", "idle"]).cast(pl.Categorical).gather(np.arange(rows) * 3 // rows)
    frame = pl.DataFrame({"s": statuses, "n": np.arange(rows) * 1.5}).select(pl.struct("s", "n").alias("x"))
    stream = IPCStream(open_source(frame), AtWill(1))
    got = pl.from_arrow(pa.ipc.open_stream(b"".join(bytes(b) for buffers in stream for b in buffers)).read_all())
    texts = pl.col("x").struct.field("s").cast(pl.String)
    assert got.select(texts).equals(frame.select(texts))


def test_a_dictionary_may_hold_a_null_among_its_values_in_one_chunk_or_in_several():
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(values))
        for values in (["a", None], [None, "b"])
    ]
    for column in (chunks[:1], chunks):
        frame = pd.DataFrame({"a": pd.Series(pa.chunked_array(column), dtype=pd.ArrowDtype(column[0].type))})
        source = open_source(frame)
        sent = pa.Table.from_batches(source.batches(), source.schema)
        assert sent["a"].to_pylist() == ["a", None, None, None, "b", None][: 3 * len(column)]
        assert pa.types.is_dictionary(sent["a"].type)


def sent_by(data: object, policy: CompressionPolicy) -> tuple[int, pa.Table]:
    body = b"".join(bytes(buffer) for buffers in IPCStream(open_source(data), policy) for buffer in buffers)
    return len(body), pa.ipc.open_stream(body).read_all()


def coded(names: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(range(len(names)), pa.int32()), pa.array(names))


def test_ever_new_categories_are_sent_once():
    batches = [pa.record_batch({"c": coded([f"category {n} of {b}" for n in range(500)])}) for b in range(60)]
    size, got = sent_by(iter(batches), CompressionPolicy(None, LinkMemory()))
    assert got["c"].to_pylist() == [name for batch in batches for name in batch["c"].to_pylist()]
    assert size < 1.2 * sum(batch.nbytes for batch in batches)


def test_few_categories_do_not_wait_for_a_batch_of_many():
    many = [f"category {n}" for n in range(5_000)]
    batches = [
        pa.record_batch({"c": coded(many)}),
        *(pa.record_batch({"c": coded(many[n : n + 3])}) for n in range(99)),
    ]
    size, got = sent_by(iter(batches), CompressionPolicy(None, LinkMemory()))
    assert got["c"].to_pylist() == [name for batch in batches for name in batch["c"].to_pylist()]
    assert size < 2 * batches[0].nbytes


@pytest.mark.parametrize("seed", range(20))
def test_categories_that_come_and_go_stay_what_they_are_whatever_the_codec(seed):
    draw = random.Random(seed)
    pools = [[f"{pool} {n}" for n in range(draw.choice([1, 2, 5, 100]))] for pool in range(4)]
    batches = []
    for _ in range(60):
        one, other = ([draw.choice(draw.choice(pools)) for _ in range(4)] for _ in range(2))
        inner = pa.StructArray.from_arrays([coded(sorted(set(other)))], ["x"]).take(pa.array([0] * 4))
        batches.append(pa.record_batch({"a": pa.array(one).dictionary_encode(), "b": inner}))
    _, got = sent_by(iter(batches), AtWill(seed))
    assert got.to_pylist() == [row for batch in batches for row in batch.to_pylist()]
