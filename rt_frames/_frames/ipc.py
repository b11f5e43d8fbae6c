"""A source → the bytes of one Arrow IPC stream, without copying what already lies in memory.

Arrow's writer does not fill a buffer here: it hands the frame's own buffers to a sink that only notes them.
Every message of a stream says for itself whether and how it is compressed, so the codec may change from one
batch to the next: there is one writer per codec, and their messages are strung together.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rt_frames._frames.source import MAX_BATCH_BYTES, Source, nbytes
from rt_frames._prefetch import prefetch

if TYPE_CHECKING:
    from rt_frames._frames.compression import Codec, CompressionPolicy

MIME = "application/vnd.apache.arrow.stream"

JOINED_BYTES = 2**12
SOUNDED = 2  # batches of any frame that tell how fast the link is
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"

Buffers = list[Any]  # bytes and pyarrow.Buffer, in the order in which they are sent


class IPCStream:
    """One Arrow IPC stream, made anew each time it is iterated: batch by batch the buffers that are sent.

    Batches are made one ahead where there are several. What the source raises comes out as it is, and the stream is
    then not finished.

    Parameters
    ----------
    source : Source
        What is sent.
    policy : CompressionPolicy
        Chooses the codec of each batch.

    Attributes
    ----------
    length : int or None
        Bytes of the whole stream, where they are cheap to count or the caller asked for no compression.
    rows : int
        Rows that were given so far.
    """

    def __init__(self, source: Source, policy: CompressionPolicy) -> None:
        self._source, self._policy, self.rows = source, policy, 0
        asked = policy.requested is None and source.nbytes is not None
        counted = policy.disabled and source.replayable and (source.zero_copy or asked)
        self._small = source.nbytes is not None and source.nbytes <= MAX_BATCH_BYTES
        self._made = [*self._messages()] if counted and self._small else None  # to count is to make it, here
        if self._made is not None:
            self.length: int | None = sum(len(buffer) for _, _, buffers in self._made for buffer in buffers)
        else:
            self.length = _count(source) if counted else None

    def __iter__(self) -> Generator[Buffers]:
        self.rows, source = 0, self._source
        messages = self._messages() if self._made is None else (one for one in self._made)
        with contextlib.closing(messages if self._small or source.caller_thread_only else prefetch(messages)) as made:
            sent = time.perf_counter()
            for rows, codec, buffers in made:
                ready = time.perf_counter()
                self.rows += rows
                size = sum(map(len, buffers)) if self._policy.adapts else 0
                yield buffers
                del buffers
                waited, sent = ready - sent, time.perf_counter()
                self._policy.record_write(codec, size, sent - ready, waited)

    def _messages(self) -> Generator[tuple[int, Codec, Buffers]]:
        """Give the schema with the first batch, and the end with the last where that is known: small bodies are one."""
        schema, policy, skip, left = self._source.schema, self._policy, 0, self._source.rows

        @functools.cache
        def writer(codec: Codec) -> _Writer:
            return _Writer(schema, codec, skip)  # the first gives the schema, too

        thin = 0 if policy.link_known or not policy.adapts else SOUNDED
        cut = functools.partial(self._source.batches, lambda: policy.batch_bytes, thin=thin)
        for batch in self._source.batches() if policy.disabled else cut():
            codec, start = policy.next_codec(), time.perf_counter()
            buffers = writer(codec).write(batch)
            if codec is not None:
                seconds, before, after = time.perf_counter() - start, nbytes(batch), sum(map(len, buffers))
                # dictionaries that were made must be sent: their writer does not make them again
                if after >= before and not self._source.layout.dictionaries:
                    buffers, after = writer(None).write(batch), before
                policy.record_compression(codec, before, after, seconds)
            left = None if left is None else left - batch.num_rows
            yield batch.num_rows, codec, [*buffers, *([_END_OF_STREAM] if left == 0 else [])]
            if left == 0:
                return
            skip = skip or len(schema.serialize())
            del batch, buffers  # before the next is made: they may hold all of a frame
        yield 0, None, [_END_OF_STREAM]


def _count(source: Source) -> int:
    """Count the bytes of the uncompressed stream, without making them."""
    sink = pa.MockOutputStream()
    with pa.ipc.new_stream(sink, source.schema) as writer:
        for batch in source.batches():
            writer.write_batch(batch)
    return int(sink.size())


class _Writer:
    """Arrow's stream writer for one codec; the first ``skip`` bytes are the schema, which was sent before."""

    def __init__(self, schema: pa.Schema, codec: Codec, skip: int) -> None:
        self._sink = _Sink(skip)
        compression = pa.Codec("zstd", compression_level=6) if codec == "zstd-6" else codec
        options = pa.ipc.IpcWriteOptions(compression=compression)
        # which joins small buffers, and hands on the large ones as they are
        self._file = pa.BufferedOutputStream(pa.PythonFile(self._sink, "w"), JOINED_BYTES)
        self._writer = pa.ipc.new_stream(self._file, schema, options=options)

    def write(self, batch: pa.RecordBatch) -> Buffers:
        self._writer.write_batch(batch)
        self._file.flush()
        return self._sink.take()


class _Sink:
    """A file for Arrow's writer that keeps what is written as it comes."""

    closed = False

    def __init__(self, skip: int) -> None:
        self._skip = skip
        self._buffers: Buffers = []

    def write(self, data: Any) -> int:
        size = len(data)
        if self._skip < size:
            self._buffers.append(data[self._skip :] if self._skip else data)
        self._skip = max(self._skip - size, 0)
        return size

    def flush(self) -> None:
        """Do nothing; there is nothing behind this file."""

    def close(self) -> None:
        """Do nothing; the stream's end is written by its owner."""

    def take(self) -> Buffers:
        taken, self._buffers = self._buffers, []
        return taken
