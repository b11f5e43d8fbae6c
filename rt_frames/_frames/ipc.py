"""A source → the bytes of one Arrow IPC stream, without copying buffers that are in memory already.

Arrow's writer hands the frame's own buffers to a sink that only records them. Each message of a stream states its own
compression, so the codec may change between batches: one writer per codec, and their messages concatenated.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from rt_frames._frames.compression import (
    PROBE_BATCHES,
    SMALLEST_BATCH,
    Codec,
    CompressionPolicy,
)
from rt_frames._frames.source import MAX_BATCH_BYTES, Part, Source, nbytes, rows_within
from rt_frames._threads import parallel_map, prefetch

MIME = "application/vnd.apache.arrow.stream"

JOINED_BYTES = 2**12
# about what is converted at a time, on as many threads as there are, and waits to be sent
WORK_BYTES = 20 * 2**20
MAX_THREADS = 8
# of a write in parts, so that little is left to do for the service at the end of each
PART_BATCH_BYTES = 6 * 2**20
# of a batch that is joined with those that follow
SMALL_ROWS = 2**8
SMALL_BYTES = 2**12
# such batches, and how long they wait for the next
MOST_HELD = 2**10
HELD_SECONDS = 0.1
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"

# bytes and pyarrow.Buffer, in the order in which they are sent
Buffers = list[Any]


class IPCStream:
    """One Arrow IPC stream, made again each time it is iterated: batch by batch the buffers that are sent.

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
        self._source = source
        self._policy = policy
        self.rows = 0
        # bytes of a part
        self._most: int | None = None
        asked = policy.requested is None and source.nbytes is not None
        counted = policy.disabled and source.replayable and (source.zero_copy or asked)
        self._small = source.nbytes is not None and source.nbytes <= MAX_BATCH_BYTES
        self._threads = 1 if self._small else _count_threads(source)
        # to count is to make it, here
        self._made = [*self._messages()] if counted and self._small else None
        if self._made is not None:
            self.length: int | None = sum(
                len(buffer) for message in self._made for buffer in message.buffers
            )
        else:
            self.length = self._count() if counted else None

    def __iter__(self) -> Generator[Buffers]:
        with contextlib.closing(self._messages_in_time()) as messages:
            for _, buffers in messages:
                yield buffers
                del buffers

    def parts(self, most: int | None) -> Generator[Generator[Buffers]]:
        """Cut the stream into several, each to be sent before the next: whole ones, and of at most so many bytes.

        A batch that alone has more is one of them.
        """
        self._most = most
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
            following.append(next(messages)[1])
            while following:
                yield part()

    def _messages_in_time(self) -> Generator[tuple[bool, Buffers]]:
        """Yield messages, and whether they begin a part; the policy is told how long each took to leave."""
        self.rows = 0
        source = self._source
        messages = (
            self._messages() if self._made is None else (one for one in self._made)
        )
        with contextlib.closing(
            messages if self._small or source.caller_thread_only else prefetch(messages)
        ) as made:
            sent = time.perf_counter()
            for rows, codec, before, buffers, begins, _ in made:
                ready = time.perf_counter()
                self.rows += rows
                size = sum(map(len, buffers)) if self._policy.adapts else 0
                yield begins, buffers
                del buffers
                waited = ready - sent
                sent = time.perf_counter()
                # that waits for the answer to the part before it
                if not begins:
                    self._policy.record(
                        codec, before or size, size, sent - ready, waited
                    )

    def _count(self) -> int:
        """Count the bytes of the uncompressed stream, cut as it will be, without making them."""
        sink = pa.MockOutputStream()
        convert = self._source.converter() if self._threads > 1 else None
        with pa.ipc.new_stream(sink, self._source.schema) as writer:
            for part, _ in self._cut():
                batch = (
                    part.batch
                    if convert is None
                    else convert(part.batch, part.place, part.rows_before)
                )
                if batch.num_rows or convert is None:
                    writer.write_batch(batch)
        return int(sink.size())

    def _messages(self) -> Generator[_Encoded]:
        """Yield the schema with the first batch, and the end with the last where it is known: small bodies are one."""
        left = self._source.rows
        begun = False
        sent = 0
        encode = _Encoder(self._source, self._threads > 1)
        made = parallel_map(
            encode, self._tasks(), self._threads, lambda task: task.is_cheap
        )
        with contextlib.closing(made):
            for rows, codec, before, buffers, _, batch in made:
                if not buffers:
                    continue
                size = sum(map(len, buffers)) if self._most else 0
                begins = (
                    begun
                    and self._most is not None
                    and sent + size + len(_END_OF_STREAM) > self._most
                )
                if begins and batch is not None:
                    buffers = encode.begin(batch, codec)  # noqa: PLW2901  # as a stream's first
                elif begins:
                    buffers = [self._source.schema.serialize(), *buffers]  # noqa: PLW2901  # as a stream's first
                sent = size if begins else sent + size
                left = None if left is None else left - rows
                begun = True
                yield _Encoded(
                    rows,
                    codec,
                    before,
                    [*buffers, *([_END_OF_STREAM] if left == 0 else [])],
                    begins,
                )
                if left == 0:
                    return
                # before the next is made: they may hold all of a frame
                del buffers, batch
        empty = (
            []
            if begun
            else _Writer(self._source.schema, None, 0).write(self._source.empty_batch())
        )
        yield _Encoded(0, None, 0, [*empty, _END_OF_STREAM])

    def _tasks(self) -> Iterator[_Task]:
        # the first gives the schema, too
        skip = 0
        for part, as_sent in self._cut():
            codec = self._policy.next_codec()
            yield _Task(part, codec, skip, as_sent and codec is None)
            if not skip and part.batch.num_rows:
                skip = len(self._source.schema.serialize())
            del part

    def _parts(self) -> Iterator[Part]:
        """Yield the source's parts; small ones that follow each other closely are converted, and sent as one."""
        source = self._source
        held = list[Part]()
        since = time.monotonic()
        convert = source.converter() if self._threads > 1 else None
        for number, part in enumerate(
            source.parts() if convert else source.converted_parts()
        ):
            is_small = number > 0 and _is_small(part)
            if is_small and convert:
                batch = convert(part.batch, part.place, part.rows_before)
                part = part._replace(batch=batch)  # noqa: PLW2901  # the unconverted is let go of
            is_late = not source.replayable and time.monotonic() - since > HELD_SECONDS
            if held and (
                not is_small
                or is_late
                or len(held) == MOST_HELD
                or part.version != held[0].version
            ):
                yield _join(held)
                held.clear()
            if not is_small:
                yield part
            else:
                since = since if held else time.monotonic()
                held.append(part)
            del part
        if held:
            yield _join(held)

    def _cut(self) -> Iterator[tuple[Part, bool]]:
        """Cut parts to the size that the policy asks for; a rest is not left over, but goes with the last.

        In a wide table only the first ones, which show how fast the link is, are so small that its columns count.
        """
        source = self._source
        policy = self._policy
        probes_left = 0 if policy.link_known or not policy.adapts else PROBE_BATCHES
        for part in self._parts():
            as_sent = self._threads < 2 or part.batch.schema.equals(source.schema)
            start = 0
            rows = part.batch.num_rows
            size = 0 if as_sent and policy.disabled and not self._most else part.nbytes
            most = MAX_BATCH_BYTES if as_sent else WORK_BYTES // (self._threads + 2)
            while True:
                least = 0 if probes_left else source.least_bytes
                length = rows_within(
                    max(least, min(policy.batch_bytes, most)), rows, size
                )
                probes_left = max(probes_left - 1, 0)
                if rows - start <= 1.5 * length:
                    break
                yield part.slice(start, length), as_sent
                start += length
            part = part.slice(start) if start else part  # noqa: PLW2901  # the whole one is let go of
            yield part, as_sent
            del part


def _is_small(part: Part) -> bool:
    rows = part.batch.num_rows
    return rows <= SMALL_ROWS and (
        part.nbytes <= SMALL_BYTES or nbytes(part.batch) <= SMALL_BYTES
    )


def _join(parts: list[Part]) -> Part:
    batches = [part.batch for part in parts]
    joined = batches[0] if len(parts) == 1 else pa.concat_batches(batches)
    return parts[0]._replace(batch=joined, nbytes=sum(part.nbytes for part in parts))


def _count_threads(source: Source) -> int:
    """Return how many threads convert and compress: one where earlier batches count, or columns are many."""
    if source.caller_thread_only or source.layout.dictionaries:
        return 1
    most = WORK_BYTES // max(SMALLEST_BATCH, source.least_bytes) - 2
    return max(1, min(int(pa.cpu_count()), MAX_THREADS, most))


class _Task(NamedTuple):
    """A part, the codec for it, how much of the stream's beginning was sent before, and whether there is no work."""

    part: Part
    codec: Codec
    skip: int
    is_cheap: bool


class _Encoded(NamedTuple):
    """The message of a part, and how many bytes of data its codec was given; 0 if none.

    It ``begins`` another stream where it was too large for the one before it; that takes the ``batch`` itself, where
    messages rely on dictionaries of earlier ones.
    """

    rows: int
    codec: Codec
    before: int
    buffers: Buffers
    begins: bool = False
    batch: pa.RecordBatch | None = None


class _Encoder(threading.local):
    """Makes messages of parts, each thread for itself: converts them, if they were not, and has Arrow compress them."""

    def __init__(self, source: Source, converts: bool) -> None:
        self._source = source
        self._convert = source.converter() if converts else None
        self._writers: dict[Codec, _Writer] = {}
        # of the dictionaries that they all sent
        self._version = 0

    def __call__(self, task: _Task) -> _Encoded:
        part, codec, skip, _ = task
        batch = (
            part.batch
            if self._convert is None
            else self._convert(part.batch, part.place, part.rows_before)
        )
        if self._convert is not None and not batch.num_rows:
            return _Encoded(0, codec, 0, [])
        if part.version != self._version:
            self._version = part.version
            self._writers = (
                {codec: self._writers[codec]} if codec in self._writers else {}
            )
        buffers = self._writer(codec, skip).write(batch)
        relied_upon = self._source.layout.dictionaries
        before = 0 if codec is None else nbytes(batch)
        # dictionaries that were made must be sent: their writer does not make them again
        if codec is not None and sum(map(len, buffers)) >= before and not relied_upon:
            buffers = self._writer(None, skip).write(batch)
        return _Encoded(
            batch.num_rows, codec, before, buffers, batch=batch if relied_upon else None
        )

    def begin(self, batch: pa.RecordBatch, codec: Codec) -> Buffers:
        """Make the first message of a stream: with the schema, and all of its dictionaries."""
        self._writers = {codec: _Writer(self._source.schema, codec, 0)}
        return self._writers[codec].write(batch)

    def _writer(self, codec: Codec, skip: int) -> _Writer:
        if codec not in self._writers:
            self._writers[codec] = _Writer(self._source.schema, codec, skip)
        return self._writers[codec]


class _Writer:
    """Arrow's stream writer for one codec; the first ``skip`` bytes are the schema, which was sent before."""

    def __init__(self, schema: pa.Schema, codec: Codec, skip: int) -> None:
        self._sink = _Sink(skip)
        options = pa.ipc.IpcWriteOptions(compression=codec)
        # which joins small buffers, and hands on the large ones as they are
        self._file = pa.BufferedOutputStream(
            pa.PythonFile(self._sink, "w"), JOINED_BYTES
        )
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
        taken = self._buffers
        self._buffers = []
        return taken
