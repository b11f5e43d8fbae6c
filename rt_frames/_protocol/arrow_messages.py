"""An Arrow stream as a file for Arrow, whose messages stay small once decompressed.

pyarrow (26) decompresses a message before anybody can ask for its size, and 17 kB of
zeros become gigabytes. The size stands in the message: its metadata, a flatbuffer, has
the place of each buffer, and a compressed buffer begins with its size.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from rt_frames._text import format_bytes

Bytes = bytes | bytearray | memoryview

# of a batch and its dictionaries
MAX_DECOMPRESSED_BYTES = 2**30
MARKER = b"\xff\xff\xff\xff"
END_OF_STREAM = MARKER + b"\0\0\0\0"
# kinds of messages
_DICTIONARY = 2
_BATCH = 3
# the number of a field in its flatbuffer table
_VERSION, _KIND, _HEADER, _BODY_BYTES = range(4)
_BUFFERS, _COMPRESSION = 2, 3
_ID, _DATA, _IS_DELTA = range(3)
_VERSION_4 = 3
# how Arrow 0.17 marked compressed batches
_OLD_COMPRESSION = b"ARROW:experimental_compression"
_UNCOMPRESSED = -1


class TooLarge(ValueError):
    """A message that takes too much memory once it is decompressed."""


class MessageFile:
    """Reads an Arrow stream message by message.

    Parameters
    ----------
    read : callable
        Returns exactly the number of bytes that it is passed, or raises.
    max_bytes : int
        Of a batch and its dictionaries, once they are decompressed.

    Raises
    ------
    TooLarge
        If a batch takes more.
    ValueError
        If a message is malformed.
    """

    closed = False

    def __init__(
        self, read: Callable[[int], Bytes], max_bytes: int = MAX_DECOMPRESSED_BYTES
    ) -> None:
        self._read = read
        self._max_bytes = max_bytes
        # pieces of a message in the sizes in which Arrow reads them, the next one last
        self._pieces: list[Bytes] = []
        # id → bytes: a reader holds its dictionaries
        self._dictionaries: dict[int, int] = {}

    def read(self, size: int) -> Bytes:
        """Return the next ``size`` bytes."""
        if not self._pieces:
            self._pieces = self._read_message()
        piece = self._pieces.pop()
        if len(piece) == size:
            return piece
        if len(piece) > size:
            self._pieces.append(memoryview(piece)[size:])
            return memoryview(piece)[:size]
        return bytes(piece) + bytes(self.read(size - len(piece)))

    def close(self) -> None:
        """Do nothing: the file belongs to the caller."""

    def _read_message(self) -> list[Bytes]:
        marker = self._read(4)
        length = self._read(4)
        if marker != MARKER:
            raise ValueError("a message of the Arrow stream has no marker")
        size = int.from_bytes(length, "little")
        if not size:
            # the end of the stream
            return [length, marker]
        metadata = self._read(size)
        try:
            message = _Message(metadata)
            body = self._read(message.body_bytes)
            self._check_size(message, body)
        except (struct.error, OverflowError):
            raise ValueError("a message of the Arrow stream is malformed") from None
        pieces = [body] if len(body) else []
        return [*pieces, metadata, length, marker]

    def _check_size(self, message: _Message, body: Bytes) -> None:
        size = message.decompressed_bytes(body)
        if message.kind == _DICTIONARY:
            if message.is_delta:
                size += self._dictionaries.get(message.id, 0)
            self._dictionaries[message.id] = size
            size = 0
        size += sum(self._dictionaries.values())
        if size > self._max_bytes:
            raise TooLarge(
                f"a batch takes {format_bytes(size)} once decompressed, more than "
                f"{format_bytes(self._max_bytes)}"
            )


class _Message:
    """The metadata of a message. struct.error if malformed."""

    def __init__(self, metadata: Bytes) -> None:
        self._metadata = metadata
        message = self._follow(0)
        self.body_bytes = self._number(message, _BODY_BYTES, "<q")
        self.kind = self._number(message, _KIND, "<B")
        self.id = 0
        self.is_delta = False
        self._version = self._number(message, _VERSION, "<h")
        self._batch = self._follow(self._field(message, _HEADER))
        if self.kind == _DICTIONARY:
            self.id = self._number(self._batch, _ID, "<q")
            self.is_delta = bool(self._number(self._batch, _IS_DELTA, "<B"))
            self._batch = self._follow(self._field(self._batch, _DATA))

    def decompressed_bytes(self, body: Bytes) -> int:
        """Return the size of the compressed buffers once they are decompressed."""
        if self.kind not in (_DICTIONARY, _BATCH) or not self._is_compressed():
            return 0
        vector = self._follow(self._field(self._batch, _BUFFERS))
        end = vector + 4 + 16 * self._unpack("<I", vector)
        total = 0
        for start, length in struct.iter_unpack(
            "<qq", self._metadata[vector + 4 : end]
        ):
            if length > 0:
                (size,) = struct.unpack_from("<q", body, start)
                if size != _UNCOMPRESSED:
                    # Arrow refuses a negative size
                    total += max(size, 0)
        return total

    def _is_compressed(self) -> bool:
        if self._field(self._batch, _COMPRESSION):
            return True
        is_old = self._version == _VERSION_4
        return is_old and _OLD_COMPRESSION in bytes(self._metadata)

    def _field(self, table: int, number: int) -> int:
        """Return the place of a table's field, or 0."""
        fields = table - self._unpack("<i", table)
        place = 4 + 2 * number
        if place >= self._unpack("<H", fields):
            return 0
        offset = self._unpack("<H", fields + place)
        return table + offset if offset else 0

    def _number(self, table: int, number: int, form: str) -> int:
        place = self._field(table, number)
        return self._unpack(form, place) if place else 0

    def _follow(self, place: int) -> int:
        return place + self._unpack("<I", place)

    def _unpack(self, form: str, place: int) -> int:
        (value,) = struct.unpack_from(form, self._metadata, place)
        return int(value)
