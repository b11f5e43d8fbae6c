"""A request's body as exact reads: it counts, knows its end, and refuses to end early.

The server's own bodies take a cut Content-Length for a clean end, and keep each chunk whole in memory, whatever
its size; so bodies are read here, from the connection's file.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa

from rt_frames.local.http_error import HTTPError

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BufferedIOBase

LINGER_SECONDS, LINGER_BYTES = 5.0, 256 * 2**20
MAX_TRAILERS = 100


class Body(ABC):
    """A request's body, of either framing.

    Parameters
    ----------
    stream : io.BufferedIOBase
        The connection's file, which may hold more than the body.
    """

    ended: bool  # whether all of it was read

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream, self.received = stream, 0
        self.is_wanted: Callable[[], bool] = lambda: True  # no more where the service stops, and hangs up

    @abstractmethod
    def _receive(self, view: memoryview) -> int:
        """Fill some of ``view``; 0 at the end alone, and EOFError when it came early."""

    def read(self, size: int) -> pa.Buffer:
        """Read ``size`` bytes, fewer only at the end, into memory that Arrow allocated: it needs no copy later."""
        buffer = pa.allocate_buffer(size)
        view, filled = memoryview(buffer).cast("B"), 0
        while filled < size and (count := self._readinto(view[filled:])):
            filled += count
        return buffer.slice(0, filled)

    def _readinto(self, view: memoryview) -> int:
        if self.ended:
            return 0
        try:
            count = self._receive(view)
        except (EOFError, OSError, ValueError) as error:
            broke_off = f"the body broke off after {self.received} bytes; send all of it again"
            if not self.is_wanted():
                raise HTTPError(503, f"the service is stopping: {broke_off} when it runs") from error
            raise HTTPError(400, broke_off) from error
        self.received += count
        return count

    def linger(self) -> None:
        """Take in, for a while, what is still being sent, so that an early answer is heard."""
        until, start = time.monotonic() + LINGER_SECONDS, self.received
        view = memoryview(bytearray(2**20))
        while not self.ended and time.monotonic() < until and self.received - start < LINGER_BYTES:
            self._readinto(view)


class SizedBody(Body):
    """A body with a Content-Length."""

    def __init__(self, stream: BufferedIOBase, length: int) -> None:
        super().__init__(stream)
        self._left, self.ended = length, length <= 0

    def _receive(self, view: memoryview) -> int:
        count = self._stream.readinto1(view[: self._left])
        if not count:
            raise EOFError
        self._left -= count
        self.ended = self._left == 0
        return count


class ChunkedBody(Body):
    """A chunked body."""

    def __init__(self, stream: BufferedIOBase) -> None:
        super().__init__(stream)
        self._left, self.ended = 0, False

    def _receive(self, view: memoryview) -> int:
        if self._left == 0:
            self._open_chunk()
        if self.ended:
            return 0
        count = self._stream.readinto1(view[: self._left])
        self._left -= count
        if not count or (self._left == 0 and self._stream.readline(3) != b"\r\n"):
            raise EOFError
        return count

    def _open_chunk(self) -> None:
        size = re.fullmatch(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?\r\n", self._stream.readline(1024))
        if not size:
            raise EOFError
        self._left = int(size[1], 16)
        if self._left == 0:
            for _ in range(MAX_TRAILERS):
                line = self._stream.readline(8192)
                if not line.endswith(b"\r\n"):
                    raise EOFError
                if line == b"\r\n":
                    self.ended = True
                    return
            raise EOFError
