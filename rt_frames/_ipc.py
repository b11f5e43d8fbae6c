"""Record batches → the bytes of one Arrow IPC stream, without copying what already lies in memory.

Arrow's writer does not fill a buffer here: it hands the frame's own buffers to a sink that only notes them.
Every message of a stream says for itself whether and how it is compressed, so the codec may change from one
batch to the next: there is one writer per codec, and their messages are strung together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from rt_frames._frames import Source

Compression = Literal["auto", "lz4", "zstd"] | None
CODECS: tuple[Compression, ...] = ("auto", "lz4", "zstd", None)
MIME = "application/vnd.apache.arrow.stream"

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"

Buffers = list[Any]  # bytes and pyarrow.Buffer, in the order in which they are sent


def check_compression(compression: Any) -> None:
    """Refuse what is no codec."""
    if compression not in CODECS:
        raise ValueError(f'compression: expected "auto", "lz4", "zstd" or None, got {compression!r}')


def settled(compression: Compression, *, fast: bool) -> Compression:
    """Settle ``"auto"``: nothing on a link that is faster than compressing, otherwise LZ4."""
    if compression != "auto":
        return compression
    return None if fast else "lz4"


def length_of(source: Source) -> int:
    """Count the bytes of the uncompressed stream, without making them."""
    import pyarrow as pa

    sink = pa.MockOutputStream()
    with pa.ipc.new_stream(sink, source.schema) as writer:
        for batch in source.open():
            writer.write_batch(batch)
    return int(sink.size())


def messages(source: Source, codec: Callable[[], Compression]) -> Iterator[Buffers]:
    """Give the stream batch by batch; ``codec`` is asked before each one.

    Whatever the source raises comes out as it is, and the stream is then not finished.
    """
    head = source.schema.serialize()
    yield [head]
    writers: dict[Compression, _Writer] = {}
    for batch in source.open():
        chosen = codec()
        if chosen not in writers:
            writers[chosen] = _Writer(source.schema, chosen, len(head))
        yield writers[chosen].write(batch)
    yield [_END]


class _Writer:
    """Arrow's stream writer for one codec; the first ``skip`` bytes are the schema, which was sent before."""

    def __init__(self, schema: pa.Schema, codec: Compression, skip: int) -> None:
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
