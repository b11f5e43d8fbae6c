"""A request's body as a file from which Arrow reads a stream, complete or not at all.

Arrow itself accepts a stream that is truncated between two messages, and ignores bytes
after its end.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pyarrow as pa

from rt_frames._protocol.arrow_messages import (
    END_OF_STREAM,
    MARKER,
    Bytes,
    MessageFile,
    TooLarge,
)
from rt_frames.local.http_error import HTTPError

# bytes of one message
MAX_READ = 2**31

_OTHER_FORMATS = {
    b"ARROW1": "an Arrow IPC *file*; send a *stream* (pyarrow.ipc.new_stream, or write_ipc_stream in Polars)",
    b"PAR1": "a Parquet file; send an Arrow IPC stream",
    b"\x1f\x8b": "gzip; send an Arrow IPC stream, compressed inside with LZ4 or ZSTD if at all",
    b"\x28\xb5\x2f\xfd": "ZSTD; send an Arrow IPC stream, compressed inside with LZ4 or ZSTD if at all",
    b"PK\x03\x04": "a zip file; send an Arrow IPC stream",
    b"<": "HTML or XML; send an Arrow IPC stream",
    b"{": "JSON; send an Arrow IPC stream",
    b"[": "JSON; send an Arrow IPC stream",
}


class Body:
    """The body of a request.

    Parameters
    ----------
    receive : callable
        Returns at most so many bytes of the body; none at its end. Raises HTTPError if
        it is truncated.

    Attributes
    ----------
    received : int
        Bytes read so far.
    checksum : int or None
        Their CRC-32, if this was set to 0 before.
    """

    checksum: int | None = None

    def __init__(self, receive: Callable[[int], Bytes]) -> None:
        self._receive = receive
        self.received = 0

    def read(self, size: int) -> memoryview:
        """Read ``size`` bytes into Arrow's memory, or fewer at the end of the body."""
        view = memoryview(pa.allocate_buffer(size)).cast("B")
        filled = 0
        while filled < size:
            piece = self._receive(size - filled)
            if not piece:
                break
            view[filled : filled + len(piece)] = piece
            filled += len(piece)
        self.received += filled
        if self.checksum is not None:
            self.checksum = zlib.crc32(view[:filled], self.checksum)
        return view[:filled]


class StreamFile:
    """A file object with the Arrow stream of a body.

    Arrow stops reading at the end-of-stream marker, so the end of the body within a
    read is an error.

    Parameters
    ----------
    body : Body
        The request's body.
    """

    closed = False

    def __init__(self, body: Body) -> None:
        self._body = body
        self._start = bytes(body.read(8))
        _check_start(self._start)
        self._messages = MessageFile(self._receive)
        self._schema = b""

    def read_schema(self) -> pa.Schema:
        """Return the schema. Its message is kept: `read` returns it once more."""
        frame = bytes(self._messages.read(8))
        metadata = self._messages.read(int.from_bytes(frame[4:], "little"))
        self._schema = frame + bytes(metadata)
        return pa.ipc.read_schema(pa.py_buffer(self._schema))

    def read(self, size: int) -> Bytes:
        """Return ``size`` bytes; memory grows only as they arrive."""
        if self._schema:
            data = self._schema[:size]
            self._schema = self._schema[size:]
            return data
        try:
            return self._messages.read(size)
        except TooLarge as error:
            raise HTTPError(
                413, f"{error}; nothing was stored; send smaller batches"
            ) from None

    def _receive(self, size: int) -> Bytes:
        if size > MAX_READ:
            raise HTTPError(
                400,
                f"a message of the Arrow stream has {size} bytes; send batches under 2 GiB",
            )
        if size < 0:
            raise ValueError("a message of the Arrow stream is malformed")
        start = self._start[:size]
        self._start = self._start[size:]
        data = self._body.read(size - len(start))
        if len(start) + len(data) < size:
            raise HTTPError(
                400,
                f"the Arrow stream is truncated after {self._body.received} bytes: its end-of-stream "
                "marker is missing; close the writer before sending, and send all of it again",
            )
        return start + data if start else data

    def check_end(self) -> None:
        """Refuse bytes after the end of the stream."""
        if self._body.read(1):
            raise HTTPError(
                400,
                "bytes follow the end of the Arrow stream; send one stream, and nothing else",
            )

    def close(self) -> None:
        """Do nothing: the connection belongs to the server."""


def _check_start(start: bytes) -> None:
    for magic, mistake in _OTHER_FORMATS.items():
        if start.startswith(magic):
            raise HTTPError(400, f"the body is {mistake}")
    if not start.startswith(MARKER) or len(start) < 8 or start == END_OF_STREAM:
        raise HTTPError(
            400,
            "the body is not an Arrow IPC stream, but empty, truncated or another format such as "
            "CSV; write it with pyarrow.ipc.new_stream",
        )


def count_bytes(batch: pa.RecordBatch) -> int:
    """Return the bytes of a batch in a stream, without the values of dictionaries."""
    nothing = pa.ipc.get_record_batch_size(batch.slice(0, 0))
    return int(pa.ipc.get_record_batch_size(batch) - nothing)
