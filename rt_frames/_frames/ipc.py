"""Record batches → the bytes of one Arrow IPC stream, without copying what already lies in memory.

Arrow's writer does not fill a buffer here: it hands the frame's own buffers to a sink that only notes them.
Every message of a stream says for itself whether and how it is compressed, so the codec may change from one
batch to the next: there is one writer per codec, and their messages are strung together.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rt_frames._frames.batches import PIECE, nbytes_of
from rt_frames._prefetch import prefetch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa

    from rt_frames._frames.any_frame import Source
    from rt_frames._frames.compression import Codec, Codecs, Compression

MIME = "application/vnd.apache.arrow.stream"

FIRST, SAMPLE = 4 * 2**20, 2**20  # bytes
_TRIED: tuple[Codec, ...] = ("lz4", "zstd")
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"

Buffers = list[Any]  # bytes and pyarrow.Buffer, in the order in which they are sent


def length_of(source: Source) -> int:
    """Count the bytes of the uncompressed stream, without making them."""
    import pyarrow as pa

    sink = pa.MockOutputStream()
    with pa.ipc.new_stream(sink, source.schema) as writer:
        for batch in _batches(source):
            writer.write_batch(batch)
    return int(sink.size())


def exact_length(source: Source, compression: Compression, codecs: Codecs) -> int | None:
    """Count the bytes of the stream where that is cheap, or where the caller asked for nothing else."""
    asked = compression is None and source.nbytes is not None
    exact = codecs.never and source.repeatable and (source.ready or asked)
    return length_of(source) if exact else None


def messages(source: Source, codecs: Codecs, on_rows: Callable[[int], None] = lambda _: None) -> Generator[Buffers]:
    """Give the stream batch by batch, made one batch ahead where there is more than one.

    ``on_rows`` is told the number of rows of each.
    Whatever the source raises comes out as it is, and the stream is then not finished.
    """
    made = _messages(source, codecs, on_rows)
    small = source.nbytes is not None and source.nbytes <= PIECE
    return made if small or source.bound else prefetch(made)


def _messages(source: Source, codecs: Codecs, on_rows: Callable[[int], None]) -> Generator[Buffers]:
    head = source.schema.serialize()
    yield [head]
    writers = _Writers(source.schema, len(head))
    for batch in _batches(source):
        if codecs.wants_samples:
            _sample(batch, codecs, len(head))
        on_rows(batch.num_rows)
        yield writers.write(batch, codecs)
    yield [_END]


def _batches(source: Source) -> Iterator[pa.RecordBatch]:
    """Cut the first batch, so that the link is known, and the service begins, before much was sent."""
    batches = source.open()
    for first in batches:
        step = _rows_of(first, FIRST)
        yield from (first.slice(start, step) for start in range(0, first.num_rows, step))
        break
    yield from batches


def _rows_of(batch: pa.RecordBatch, nbytes: int) -> int:
    """Tell how many rows have about so many bytes."""
    return max(1, int(batch.num_rows * nbytes // max(nbytes_of(batch), nbytes)))


def _sample(batch: pa.RecordBatch, codecs: Codecs, skip: int) -> None:
    """Compress some rows with each codec, and forget them."""
    rows = batch.slice(0, _rows_of(batch, SAMPLE))
    for codec in _TRIED:
        writer = _Writer(batch.schema, codec, skip)
        writer.write(batch.slice(0, 0))  # dictionaries, which come once, are no part of the sample
        _timed(writer, rows, codec, codecs)


def _timed(writer: _Writer, batch: pa.RecordBatch, codec: Codec, codecs: Codecs) -> Buffers:
    start = time.perf_counter()
    buffers = writer.write(batch)
    seconds = time.perf_counter() - start
    codecs.compressed(codec, nbytes_of(batch), sum(map(len, buffers)), seconds)
    return buffers


class _Writers:
    """One writer per codec; a batch that does not shrink goes uncompressed."""

    def __init__(self, schema: pa.Schema, skip: int) -> None:
        self._schema, self._skip = schema, skip
        self._writers: dict[Codec, _Writer] = {}

    def write(self, batch: pa.RecordBatch, codecs: Codecs) -> Buffers:
        codec = codecs.choose()
        if codec is None:
            return self._writer(None).write(batch)
        buffers = _timed(self._writer(codec), batch, codec, codecs)
        # a batch with dictionaries may carry them, and then says little about itself
        if sum(map(len, buffers)) < nbytes_of(batch) or _has_dictionaries(self._schema):
            return buffers
        return self._writer(None).write(batch)

    def _writer(self, codec: Codec) -> _Writer:
        if codec not in self._writers:
            self._writers[codec] = _Writer(self._schema, codec, self._skip)
        return self._writers[codec]


def _has_dictionaries(schema: pa.Schema) -> bool:
    return any("dictionary<" in str(arrow) for arrow in schema.types)


class _Writer:
    """Arrow's stream writer for one codec; the first ``skip`` bytes are the schema, which was sent before."""

    def __init__(self, schema: pa.Schema, codec: Codec, skip: int) -> None:
        import pyarrow as pa

        self._sink = _Sink(skip)
        options = pa.ipc.IpcWriteOptions(compression=codec)
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._sink, "w"), schema, options=options)

    def write(self, batch: pa.RecordBatch) -> Buffers:
        self._writer.write_batch(batch)
        return self._sink.take()


class _Sink:
    """A file for Arrow's writer that keeps what is written as it comes."""

    closed = False

    def __init__(self, skip: int) -> None:
        self._skip = skip
        self._buffers: Buffers = []

    def write(self, data: Any) -> int:
        if self._skip > 0:
            self._skip -= len(data)
        else:
            self._buffers.append(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing; there is nothing behind this file."""

    def close(self) -> None:
        """Do nothing; the stream's end is written by its owner."""

    def take(self) -> Buffers:
        taken, self._buffers = self._buffers, []
        return taken
