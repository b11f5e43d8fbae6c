"""The messages of an Arrow stream, each looked at before Arrow is given it.

Arrow's reader trusts what it reads: it allocates what a length says, expands what a buffer says that it
expands to, takes a stream that was cut between two messages for a whole one, and ignores what follows the end.
The frame of a message is eight bytes (a mark, a length), metadata of that length, and a body as long as the
metadata says. Metadata are a flatbuffer: a table's fields are found through the list of offsets before it.
"""

from __future__ import annotations

import itertools
import os
import struct
import threading
from collections.abc import Iterator

from rt_frames.local.body import Body
from rt_frames.local.http_error import HTTPError

MAX_METADATA_BYTES, MAX_MESSAGE_BYTES, MAX_BATCH_ROWS = 2**26, 2**31, 2**27
MAX_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2  # of one message of each request, together
_MARK = b"\xff\xff\xff\xff"
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3  # the MessageHeader of Arrow's Message.fbs

_OTHER_FORMATS = {
    b"ARROW1": 'an Arrow IPC *file*; send a *stream* (pyarrow.ipc.new_stream, or Polars\' "write_ipc_stream")',
    b"PAR1": "a Parquet file; send an Arrow IPC stream",
    b"\x1f\x8b": "gzip; send an Arrow IPC stream, compressed inside with LZ4 or ZSTD if at all",
    b"\x28\xb5\x2f\xfd": "ZSTD; send an Arrow IPC stream, compressed inside with LZ4 or ZSTD if at all",
    b"PK\x03\x04": "a zip file; send an Arrow IPC stream",
    b"<": "HTML or XML; send an Arrow IPC stream",
    b"{": "JSON; send an Arrow IPC stream",
    b"[": "JSON; send an Arrow IPC stream",
}


class StreamFile:
    """The messages of a body as the file that Arrow reads; its reads may have any size.

    Parameters
    ----------
    body : Body
        The request's body.
    """

    closed = False

    def __init__(self, body: Body) -> None:
        self._parts, self._rest = iter(_Messages(body)), memoryview(b"")

    def first(self) -> bytes:
        """Return the first message, which stays to be read."""
        message = b"".join(itertools.islice(self._parts, 3))
        self._rest = memoryview(message)
        return message

    def read(self, size: int) -> memoryview | bytes:
        """Return ``size`` bytes, fewer only at the end; a whole part of a message is given without a copy."""
        taken: list[memoryview] = []
        parts = filter(None, itertools.chain([self._rest], self._parts))
        while size and (part := next(parts, None)) is not None:
            taken.append(part[:size])
            self._rest = part[size:]
            size -= len(taken[-1])
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def close(self) -> None:
        """Leave the connection to the server."""


class _Messages:
    """The messages of a body, as they come: of each the frame, the metadata and the body."""

    _lock = threading.RLock()  # another request's messages may be collected while it is held
    _together = 0  # bytes of the largest messages of all requests

    def __init__(self, body: Body) -> None:
        self._body, self._number, self._largest = body, 0, 0

    def __del__(self) -> None:
        with _Messages._lock:
            _Messages._together -= self._largest

    def __iter__(self) -> Iterator[memoryview]:
        frame = self._body.read(8)
        _check_first(bytes(frame))
        while length := self._parse_frame(frame):
            self._number += 1
            metadata = self._read_exactly(length)
            yield from (frame, metadata, self._receive_body(metadata))
            frame = self._body.read(8)
        if self._body.read(1):  # before Arrow sees the end, behind which it does not look
            raise HTTPError(400, "bytes follow the end of the Arrow stream; send one stream, and nothing else")
        yield frame

    def _parse_frame(self, frame: memoryview) -> int:
        if len(frame) < 8:
            raise self._cut_off()
        length = int.from_bytes(frame[4:], "little", signed=True)
        if frame[:4] != _MARK or not 0 <= length <= MAX_METADATA_BYTES:
            raise HTTPError(400, f"no Arrow message begins where message {self._number + 1} should; send it again")
        return length

    def _receive_body(self, metadata: memoryview) -> memoryview:
        try:
            length, compressed = _parse_metadata(metadata)
            if not 0 <= length <= MAX_MESSAGE_BYTES:
                raise HTTPError(400, f"message {self._number} has {length} bytes; send batches under 2 GiB")
            self._take_memory(length)
            body = self._read_exactly(length)
            # the first eight bytes of a compressed buffer say how large it becomes
            expanded = sum(max(_number(body, offset, "<q"), size) for offset, size in compressed if size >= 8)
        except (struct.error, IndexError) as error:
            raise HTTPError(400, f"message {self._number} of the Arrow stream is damaged; send it again") from error
        if expanded > MAX_MESSAGE_BYTES:
            raise HTTPError(400, f"message {self._number} expands to more than 2 GiB; send smaller batches")
        self._take_memory(length + expanded)
        return body

    def _take_memory(self, nbytes: int) -> None:
        with _Messages._lock:
            more = max(nbytes - self._largest, 0)
            if _Messages._together + more > MAX_BYTES:
                raise HTTPError(429, "other uploads take the memory there is; send smaller batches, or all of it later")
            _Messages._together += more
            self._largest += more

    def _read_exactly(self, size: int) -> memoryview:
        if len(data := self._body.read(size)) < size:
            raise self._cut_off()
        return data

    def _cut_off(self) -> HTTPError:
        return HTTPError(
            400, f"the Arrow stream was cut off after message {self._number}: its end-of-stream marker is missing; "
            "close the writer before sending, and send all of it again"
        )  # fmt: skip


def _check_first(prefix: bytes) -> None:
    for magic, mistake in _OTHER_FORMATS.items():
        if prefix.startswith(magic):
            raise HTTPError(400, f"the body is {mistake}")
    if prefix[:4] != _MARK or len(prefix) < 8 or prefix[4:] == b"\0\0\0\0":
        raise HTTPError(
            400, "the body is not an Arrow IPC stream; it is empty, cut, or something else such as CSV. "
            "pyarrow.ipc.new_stream writes one"
        )  # fmt: skip


def _parse_metadata(metadata: memoryview) -> tuple[int, list[tuple[int, int]]]:
    """Read a message's body length and, where its buffers are compressed, their offsets and sizes in the body."""
    message = _follow(metadata, 0)
    kind, header, body_length = (_find_field(metadata, message, slot) for slot in (1, 2, 3))
    length = _number(metadata, body_length, "<q") if body_length else 0
    if kind and header and metadata[kind] in (_DICTIONARY_BATCH, _RECORD_BATCH):
        batch = _follow(metadata, header)
        if metadata[kind] == _DICTIONARY_BATCH:
            batch = _follow(metadata, _find_field(metadata, batch, 1))  # the values, which are a batch inside
        return length, _compressed_buffers(metadata, batch)
    return length, []


def _compressed_buffers(metadata: memoryview, batch: int) -> list[tuple[int, int]]:
    rows, buffers, compression = (_find_field(metadata, batch, slot) for slot in (0, 2, 3))
    if rows and not 0 <= (count := _number(metadata, rows, "<q")) <= MAX_BATCH_ROWS:
        raise HTTPError(400, f"a batch has {count} rows; send at most {MAX_BATCH_ROWS} in one")
    if not (buffers and compression):
        return []
    vector = _follow(metadata, buffers)
    data = metadata[vector + 4 : vector + 4 + 16 * _number(metadata, vector, "<I")]
    return list(struct.iter_unpack("<qq", data))


def _find_field(data: memoryview, table: int, slot: int) -> int:
    """Find a field of a flatbuffer's table; 0 where the table does not have it."""
    offsets = table - _number(data, table, "<i")
    if 4 + 2 * slot >= _number(data, offsets, "<H"):
        return 0
    offset = _number(data, offsets + 4 + 2 * slot, "<H")
    return table + offset if offset else 0


def _follow(data: memoryview, at: int) -> int:
    return at + _number(data, at, "<I")


def _number(data: memoryview, at: int, form: str) -> int:
    if at < 0:
        raise IndexError(at)
    return int(struct.unpack_from(form, data, at)[0])
