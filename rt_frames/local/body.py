"""A request's body as exact reads: it counts, knows its end, and refuses to end early."""

from __future__ import annotations

import re
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from rt_frames.local.http_error import Problem

if TYPE_CHECKING:
    import pyarrow as pa

ROOM = 25 * 2**20  # the messages of our own client have 16 to 24 MiB
LINGER_SECONDS, LINGER_BYTES = 5.0, 256 * 2**20


def _received(stream: Any, view: memoryview) -> int:
    """Read what is there: the server's file first gives what it read ahead, then the socket writes into ``view``."""
    if stream.has_data():
        data = stream.read1(len(view))
        view[: len(data)] = data
        return len(data)
    return int(stream.raw.readinto(view))


class Framing(Protocol):
    """How a body's end is told: `readinto` gives 0 at the end alone, and raises EOFError when it came early."""

    @property
    def ended(self) -> bool: ...

    def readinto(self, view: memoryview) -> int: ...


class Sized:
    """A body with a Content-Length."""

    def __init__(self, stream: Any, length: int) -> None:
        self._stream, self._left = stream, length

    @property
    def ended(self) -> bool:
        return self._left == 0

    def readinto(self, view: memoryview) -> int:
        if self.ended or not view:
            return 0
        count = _received(self._stream, view[: self._left])
        if not count:
            raise EOFError
        self._left -= count
        return count


class Chunked:
    """A chunked body; the server's own reader would keep each chunk whole in memory, whatever its size."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._left, self.ended = stream, 0, False

    def readinto(self, view: memoryview) -> int:
        if self._left == 0 and not self.ended:
            self._open_chunk()
        if self.ended or not view:
            return 0
        count = _received(self._stream, view[: self._left])
        self._left -= count
        if not count or (self._left == 0 and self._stream.readline(3) != b"\r\n"):
            raise EOFError
        return count

    def _open_chunk(self) -> None:
        size = re.fullmatch(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\n]*)?\r\n", self._stream.readline(1024))
        if not size:
            raise EOFError
        self._left = int(size[1], 16)
        if self._left == 0:
            self._skip_trailers()
            self.ended = True

    def _skip_trailers(self) -> None:
        for _ in range(100):
            line = self._stream.readline(8192)
            if line == b"\r\n":
                return
            if not line.endswith(b"\r\n"):
                break
        raise EOFError


class _Rooms:
    """Memory for what is received, used again when Arrow has let go of it: fresh memory is slow to fill."""

    def __init__(self) -> None:
        self._free = deque[Any](maxlen=4)

    def take(self, size: int) -> memoryview:
        """Give at least ``size`` bytes; they come back by themselves with the last buffer that is made of them."""
        import pyarrow as pa

        if not ROOM // 8 < size <= ROOM:
            return memoryview(pa.allocate_buffer(size)).cast("B")
        try:
            room = self._free.pop()
        except IndexError:
            room = pa.allocate_buffer(ROOM)
        view = memoryview(room).cast("B")
        weakref.finalize(view, self._free.append, room).atexit = False
        return view


_rooms = _Rooms()


class Body:
    """A request's body.

    Parameters
    ----------
    framing : Sized or Chunked
        Where the bytes come from.
    """

    def __init__(self, framing: Framing) -> None:
        self._framing, self.count = framing, 0

    @property
    def ended(self) -> bool:
        """Whether all of it was read."""
        return self._framing.ended

    def read(self, size: int) -> pa.Buffer:
        """Read ``size`` bytes, fewer only at the end; memory that Arrow allocated needs no copy later."""
        import pyarrow as pa

        room = _rooms.take(size)
        filled = 0
        while filled < size and (count := self._readinto(room[filled:size])):
            filled += count
        return pa.py_buffer(room).slice(0, filled)

    def _readinto(self, view: memoryview) -> int:
        try:
            count = self._framing.readinto(view)
        except (EOFError, OSError, ValueError) as error:
            raise Problem(400, f"the body broke off after {self.count} bytes; send all of it again") from error
        self.count += count
        return count

    def linger(self) -> None:
        """Take in, for a while, what is still being sent, so that an early answer is heard."""
        until, start = time.monotonic() + LINGER_SECONDS, self.count
        view = memoryview(bytearray(2**20))
        while not self.ended and time.monotonic() < until and self.count - start < LINGER_BYTES:
            self._readinto(view)
