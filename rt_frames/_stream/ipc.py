"""A source → the bytes of one Arrow IPC stream, without copying buffers.

Arrow's writer hands the frame's own buffers to a sink that only records them. Each
message of a stream states its own compression, so the codec may change between batches:
one writer per codec, and their messages concatenated.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from rt_frames._stream.batching import (
    FIRST_BATCHES,
    JOINED_BYTES,
    MAX_BATCH_BYTES,
    MIN_BATCH_BYTES,
    SMALL_BATCH_BYTES,
    WORK_BYTES,
    Slice,
    cut,
    join,
    least_bytes,
    nbytes,
)
from rt_frames._stream.compression import PROBE_BATCHES, Codec, CompressionPolicy
from rt_frames._stream.source import Source
from rt_frames._threads import parallel_map, prefetch
from rt_frames._values.upsert_keys import KeyCheck

MAX_THREADS = 8
# bytes of a frame that is encoded before it is sent
_TINY_BYTES = 2**16
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"

# bytes and pyarrow.Buffer, in the order in which they are sent
Buffers = list[Any]


class IPCStream:
    """One Arrow IPC stream, which each iteration makes again, batch by batch.

    Batches are made one ahead. Errors of the source propagate, and then the stream has
    no end.

    Parameters
    ----------
    source : Source
        The data to send.
    policy : CompressionPolicy
        Chooses the codec of each batch.

    Attributes
    ----------
    length : int or None
        Bytes of the whole stream, if they are cheap to count or the caller asked for no
        compression.
    rows : int
        Rows of the messages that were yielded so far.
    is_compressed : bool
        Whether buffers of these messages are compressed.
    """

    def __init__(self, source: Source, policy: CompressionPolicy) -> None:
        self._source = source
        self._policy = policy
        self.rows = 0
        self.is_compressed = False
        self.length: int | None = None
        # the limit of one part of a multipart write
        self._max_bytes: int | None = None
        size = source.rows.nbytes
        self._is_small = size is not None and size <= MAX_BATCH_BYTES
        self._threads = 1 if self._is_small else _count_threads(source)
        self._converts = self._threads > 1
        # a small stream, which is made to count its bytes
        self._counted: list[_Encoded] | None = None
        chose_none = policy.requested is None and size is not None
        # servers may need a length, and conversion of so little costs no time
        is_tiny = size is not None and size <= _TINY_BYTES
        is_counted = policy.disabled and (source.zero_copy or chose_none)
        if (is_counted or is_tiny) and source.rows.replayable:
            if self._is_small:
                self._counted = list(self._messages())
                self.length = sum(message.nbytes() for message in self._counted)
            else:
                self.length = self._count()

    def __iter__(self) -> Generator[Buffers]:
        with contextlib.closing(self._messages_in_time()) as messages:
            for _, buffers in messages:
                yield buffers
                del buffers

    def parts(self, max_bytes: int | None) -> Generator[Generator[Buffers]]:
        """Split into complete streams, each of which is read before the next.

        Each has at most ``max_bytes``, unless one batch with all dictionaries has more.
        """
        self._max_bytes = max_bytes
        following = list[Buffers]()

        def part() -> Generator[Buffers]:
            yield following.pop()
            for begins, buffers in messages:
                if begins:
                    following.append(buffers)
                    yield [_END_OF_STREAM]
                    return
                yield buffers
                del buffers

        with contextlib.closing(self._messages_in_time()) as messages:
            _, first = next(messages)
            following.append(first)
            del first
            while following:
                yield part()

    def _messages_in_time(self) -> Generator[tuple[bool, Buffers]]:
        """Yield messages and whether each begins a part, and record their times."""
        self.rows = 0
        self.is_compressed = False
        policy = self._policy
        if self._counted is None:
            messages = self._messages()
        else:
            messages = (message for message in self._counted)
        if not self._is_small and not self._source.rows.caller_thread_only:
            messages = prefetch(messages)
        with contextlib.closing(messages):
            sent = time.perf_counter()
            for message in messages:
                ready = time.perf_counter()
                codec = message.codec
                begins = message.begins
                buffers = message.buffers
                size = message.nbytes() if policy.adapts else 0
                uncompressed = message.uncompressed or size
                self.rows += message.rows
                self.is_compressed |= codec is not None
                del message
                yield begins, buffers
                del buffers
                waited = ready - sent
                sent = time.perf_counter()
                # the first of a part waits for the response to the part before it
                if not begins:
                    policy.record(codec, uncompressed, size, sent - ready, waited)

    def _count(self) -> int:
        """Count the bytes of the uncompressed stream without making them."""
        sink = pa.MockOutputStream()
        convert = self._source.converter() if self._converts else None
        with pa.ipc.new_stream(sink, self._source.plan.schema) as writer:
            for rows in self._slices():
                if convert is not None:
                    rows = rows.converted(convert)  # noqa: PLW2901  # the unconverted is released
                if rows.batch.num_rows or convert is None:
                    writer.write_batch(rows.batch)
        return int(sink.size())

    def _messages(self) -> Generator[_Encoded]:
        """Yield encoded batches, the first with the schema.

        The last one has the end of the stream if the number of rows is known, so that a
        small body is one message.
        """
        source = self._source
        remaining = source.rows.count
        is_empty = True
        part = _PartSize(self._max_bytes)
        keys = KeyCheck(source.keys)
        encode = _Encoder(source, converts=self._converts)
        encoded = parallel_map(
            encode, self._tasks(), self._threads, lambda task: task.is_cheap
        )
        with contextlib.closing(encoded):
            for message in encoded:
                buffers = message.buffers
                if not buffers:
                    continue
                is_empty = False
                keys.add(message.keys)
                begins = part.overflows_with(buffers)
                if begins:
                    buffers = encode.begin_stream(message)
                    part = _PartSize(self._max_bytes)
                part.add(buffers)
                if remaining is not None:
                    remaining -= message.rows
                is_last = remaining == 0
                if is_last:
                    keys.check()
                    buffers = [*buffers, _END_OF_STREAM]
                yield message._replace(
                    buffers=buffers, begins=begins, batch=None, keys=()
                )
                if is_last:
                    return
                # released before the next is made: they may hold a whole frame
                del message, buffers
        keys.check()
        end = [_END_OF_STREAM]
        if is_empty:
            writer = _Writer(source.plan.schema, None, 0)
            end = [*writer.write(source.empty_batch()), _END_OF_STREAM]
        yield _Encoded(0, None, 0, end)

    def _tasks(self) -> Iterator[_Task]:
        # only the first message has the schema
        schema_bytes = 0
        for rows in self._slices():
            codec = self._policy.next_codec()
            is_cheap = codec is None and self._is_as_sent(rows)
            yield _Task(rows, codec, schema_bytes, is_cheap)
            if not schema_bytes and rows.batch.num_rows:
                schema_bytes = len(self._source.plan.schema.serialize())
            del rows

    def _slices(self) -> Iterator[Slice]:
        """Yield the rows in slices of the size of a batch."""
        source = self._source
        convert = source.converter() if self._converts else None
        slices = source.slices() if convert else source.converted_slices()
        joined = join(slices, convert, waits=not source.rows.replayable)
        return cut(joined, self._batch_bytes())

    def _batch_bytes(self) -> Callable[[Slice], int]:
        """Return what says how many bytes of a slice are the next batch."""
        policy = self._policy
        least = least_bytes(len(self._source.plan.schema))
        batches_before = 0
        probes = 0
        if policy.adapts and not policy.link_known:
            probes = PROBE_BATCHES

        def next_bytes(rows: Slice) -> int:
            nonlocal batches_before
            limit = policy.batch_bytes
            is_as_sent = self._is_as_sent(rows)
            # rows that are neither converted nor compressed need no slices
            if is_as_sent and policy.disabled and not self._max_bytes:
                limit = max(rows.nbytes, limit)
            if not is_as_sent:
                limit = min(limit, WORK_BYTES // (self._threads + 2))
            if batches_before < FIRST_BATCHES:
                limit = min(limit, SMALL_BATCH_BYTES)
            # in a wide table, only those that probe the link may be so small that the
            # fixed cost of each column shows
            if batches_before >= probes:
                limit = max(limit, least)
            batches_before += 1
            return limit

        return next_bytes

    def _is_as_sent(self, rows: Slice) -> bool:
        if not self._converts:
            return True
        return bool(rows.batch.schema.equals(self._source.plan.schema))


def _count_threads(source: Source) -> int:
    """Return how many threads convert and compress.

    One if batches depend on earlier ones, or the table is wide.
    """
    if source.rows.caller_thread_only or source.plan.dictionaries:
        return 1
    batches = WORK_BYTES // max(MIN_BATCH_BYTES, least_bytes(len(source.plan.schema)))
    return max(1, min(int(pa.cpu_count()), MAX_THREADS, batches - 2))


class _Task(NamedTuple):
    """Rows to encode with a codec.

    The first ``schema_bytes`` of the codec's stream were sent before. A cheap task is
    done without another thread.
    """

    rows: Slice
    codec: Codec
    schema_bytes: int
    is_cheap: bool


class _Encoded(NamedTuple):
    """The message of some rows.

    ``uncompressed`` is their bytes before compression, 0 without a codec. ``begins`` is
    whether it begins the next part, as it was too large for the one before. It keeps
    the ``batch`` if messages rely on dictionaries of earlier ones, and the columns of
    an upsert's ``keys``.
    """

    rows: int
    codec: Codec
    uncompressed: int
    buffers: Buffers
    begins: bool = False
    batch: pa.RecordBatch | None = None
    keys: Sequence[pa.Array] = ()

    def nbytes(self) -> int:
        """Return the length of the message."""
        return _length(self.buffers)


class _PartSize:
    """Counts the bytes of a part, to begin the next one before it is too large."""

    def __init__(self, max_bytes: int | None) -> None:
        self._max_bytes = max_bytes
        self._nbytes = 0

    def overflows_with(self, buffers: Buffers) -> bool:
        """Return whether a message would make the part too large."""
        if self._max_bytes is None or self._nbytes == 0:
            return False
        total = self._nbytes + _length(buffers) + len(_END_OF_STREAM)
        return total > self._max_bytes

    def add(self, buffers: Buffers) -> None:
        if self._max_bytes is not None:
            self._nbytes += _length(buffers)


def _length(buffers: Buffers) -> int:
    return sum(map(len, buffers))


class _Encoder(threading.local):
    """Makes messages of slices. Each thread has its own writers."""

    def __init__(self, source: Source, *, converts: bool) -> None:
        self._schema = source.plan.schema
        self._has_dictionaries = bool(source.plan.dictionaries)
        self._keys = source.keys
        self._convert = source.converter() if converts else None
        self._writers: dict[Codec, _Writer] = {}
        # of the dictionaries
        self._sent_version = 0

    def __call__(self, task: _Task) -> _Encoded:
        rows = task.rows
        codec = task.codec
        if self._convert is not None:
            rows = rows.converted(self._convert)
            if not rows.batch.num_rows:
                return _Encoded(0, codec, 0, [])
        if task.rows.version != self._sent_version:
            self._sent_version = task.rows.version
            # the other writers would send all dictionaries again
            for other in self._writers.keys() - {codec}:
                del self._writers[other]
        batch = rows.batch
        buffers = self._write(batch, task, codec)
        uncompressed = 0
        if codec is not None:
            uncompressed = nbytes(batch)
            # encoded dictionaries must be sent: a writer encodes them only once
            is_smaller = _length(buffers) < uncompressed
            if not is_smaller and not self._has_dictionaries:
                buffers = self._write(batch, task, None)
        keys = [batch.column(name) for name in self._keys]
        kept = batch if self._has_dictionaries else None
        return _Encoded(
            batch.num_rows, codec, uncompressed, buffers, batch=kept, keys=keys
        )

    def begin_stream(self, message: _Encoded) -> Buffers:
        """Make a message the first of a stream, with schema and all dictionaries."""
        if message.batch is None:
            return [self._schema.serialize(), *message.buffers]
        writer = _Writer(self._schema, message.codec, 0)
        self._writers = {message.codec: writer}
        return writer.write(message.batch)

    def _write(self, batch: pa.RecordBatch, task: _Task, codec: Codec) -> Buffers:
        if codec not in self._writers:
            self._writers[codec] = _Writer(self._schema, codec, task.schema_bytes)
        return self._writers[codec].write(batch)


class _Writer:
    """Arrow's stream writer for one codec.

    The first ``skip`` bytes are the schema, which was sent before.
    """

    def __init__(self, schema: pa.Schema, codec: Codec, skip: int) -> None:
        self._sink = _Sink(skip)
        options = pa.ipc.IpcWriteOptions(compression=codec)
        # joins small buffers, and passes large ones on as they are
        self._file = pa.BufferedOutputStream(
            pa.PythonFile(self._sink, "w"), JOINED_BYTES
        )
        self._writer = pa.ipc.new_stream(self._file, schema, options=options)

    def write(self, batch: pa.RecordBatch) -> Buffers:
        self._writer.write_batch(batch)
        self._file.flush()
        return self._sink.take()


class _Sink:
    """A file that keeps the buffers that Arrow writes, without copying them."""

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
        """Do nothing: the buffers stay in memory."""

    def close(self) -> None:
        """Do nothing: `IPCStream` writes the end of the stream."""

    def take(self) -> Buffers:
        taken = self._buffers
        self._buffers = []
        return taken
