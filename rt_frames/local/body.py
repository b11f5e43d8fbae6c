"""Read a request's body from the connection's file, with an error if it is truncated.

cheroot's own readers accept a body shorter than its Content-Length, and hold each chunk
in memory, whatever its size.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable
from io import BufferedIOBase

import pyarrow as pa

from rt_frames.local.http_error import HTTPError

LINGER_SECONDS = 5.0
LINGER_BYTES = 256 * 2**20
MAX_TRAILERS = 100


class Body:
    """A request's body.

    Parameters
    ----------
    stream : io.BufferedIOBase
        The connection's file, which may hold more than the body.
    length : int or None
        The Content-Length. None for a chunked body.
    is_wanted : callable, optional
        Returns whether the service still runs. It closes connections when it stops.

    Attributes
    ----------
    ended : bool
        Whether the body was read to its end.
    received : int
        Bytes read so far.
    checksum : int or None
        Their CRC-32, if this was set to 0 before.
    """

    checksum: int | None = None

    def __init__(
        self,
        stream: BufferedIOBase,
        length: int | None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._stream = stream
        self._chunked = length is None
        self._is_wanted = is_wanted
        # of the body, or of the current chunk
        self._bytes_left = length or 0
        self.received = 0
        self.ended = length == 0

    def read(self, size: int) -> memoryview:
        """Read ``size`` bytes into Arrow's memory, or fewer at the end of the body."""
        view = memoryview(pa.allocate_buffer(size)).cast("B")
        filled = 0
        while filled < size:
            count = self._readinto(view[filled:])
            if not count:
                break
            filled += count
        return view[:filled]

    def _readinto(self, view: memoryview) -> int:
        if self.ended:
            return 0
        try:
            count = self._receive(view)
        except (EOFError, OSError, ValueError) as error:
            problem = f"the body was truncated after {self.received} bytes"
            if not self._is_wanted():
                raise HTTPError(
                    503,
                    f"the service is stopping; {problem}; send all of it again when it runs",
                ) from error
            raise HTTPError(400, f"{problem}; send all of it again") from error
        self.received += count
        if self.checksum is not None:
            self.checksum = zlib.crc32(view[:count], self.checksum)
        return count

    def linger(self) -> None:
        """Discard input for `LINGER_SECONDS`, so that the client reads a response.

        A client that finds the connection closed while it sends may not read.
        """
        deadline = time.monotonic() + LINGER_SECONDS
        max_received = self.received + LINGER_BYTES
        view = memoryview(bytearray(2**20))
        while not self.ended and self.received < max_received:
            if time.monotonic() >= deadline:
                break
            self._readinto(view)

    def _receive(self, view: memoryview) -> int:
        """Fill a part of ``view``. 0 at the end of the body; EOFError if truncated."""
        if self._chunked and self._bytes_left == 0:
            self._open_chunk()
            if self.ended:
                return 0
        count = self._stream.readinto1(view[: self._bytes_left])
        self._bytes_left -= count
        if not count:
            raise EOFError
        if self._bytes_left == 0:
            if not self._chunked:
                self.ended = True
            elif self._stream.readline(3) != b"\r\n":
                raise EOFError
        return count

    def _open_chunk(self) -> None:
        size = re.fullmatch(
            rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?\r\n", self._stream.readline(1024)
        )
        if not size:
            raise EOFError
        self._bytes_left = int(size[1], 16)
        trailers = 0
        while self._bytes_left == 0 and not self.ended:
            line = self._stream.readline(8192)
            trailers += 1
            if not line.endswith(b"\r\n") or trailers > MAX_TRAILERS:
                raise EOFError
            self.ended = line == b"\r\n"
