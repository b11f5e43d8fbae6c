"""The body of one attempt, cut into pieces for the socket.

A server that mistakes the end of a connection for the end of a body would store part of
a table, if it had received whole Arrow messages. So the last bytes of each message are
held back until the next one: wherever sending stops, a message is incomplete, and every
reader refuses it. The end of the stream and the end of the body are sent together.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from rt_frames._protocol.calls import Buffers

Piece = bytes | bytearray | memoryview

# bytes of a piece at most; each must be sent within the write timeout
WRITE_BYTES = 2**20
# bytes; smaller buffers are joined into one piece
COALESCE_BELOW = 2**16
# seconds; small buffers of a slow source are sent after this time
COALESCE_FOR = 0.1
# bytes; for a smaller body, the round trips of a new connection matter
SMALL = 2**20
# bytes; among them are the last ones of a message, even if the end of the stream
# follows, 8 bytes in a chunk of 13
HOLD_BACK = 32


@dataclass
class Upload:
    """The body of one attempt, and how much of it was sent.

    Parameters
    ----------
    body : iterable of groups of buffers
        The payload; iterating it starts over.
    length : int or None
        Bytes of the whole body. It is sent in chunks if the length is not known.
    timeout : float
        Seconds to send each piece.
    on_sent : callable, optional
        Called after each piece with the total bytes sent.
    nbytes : int, optional
        About how many bytes the body has, if the length is not known.
    has_body : bool
        Whether the request has a body, even if it is empty.
    timeout_per_read : bool
        Apply the read timeout to each read instead of the whole response.
    is_part : bool
        Whether it is a part of a multipart write, invisible until the commit.

    Attributes
    ----------
    started, complete : bool
        Whether the request's head was sent, and whether all was written to the socket.
    at_end : bool
        Whether sending the last piece started.
    sent : int
        Bytes written to the socket.
    framing : int
        Bytes among them that frame chunks, once all was sent.
    cause : OSError or None
        Why sending ended early.
    source_error : BaseException or None
        The exception that iterating the body raised.
    find_reply : callable
        Returns the reply of an attempt that was interrupted, or None: a call may go on
        for a moment.
    """

    body: Iterable[Buffers]
    length: int | None
    timeout: float
    on_sent: Callable[[int], None] | None = None
    nbytes: int | None = None
    has_body: bool = True
    timeout_per_read: bool = False
    is_part: bool = False
    started: bool = False
    complete: bool = False
    at_end: bool = False
    sent: int = 0
    framing: int = 0
    cause: OSError | None = None
    source_error: BaseException | None = None
    find_reply: Callable[[], Any] = lambda: None

    @property
    def size(self) -> int | None:
        """About how many bytes the body has, if it is known."""
        return self.nbytes if self.length is None else self.length

    @property
    def framing_header(self) -> tuple[str, str]:
        """The header that tells the service where the body ends."""
        if self.length is None:
            return "Transfer-Encoding", "chunked"
        return "Content-Length", str(self.length)

    @property
    def may_be_whole(self) -> bool:
        """Whether the server may have received the whole request.

        If it has no body, its head is the whole.
        """
        return self.started and (self.at_end or self.length == 0)

    @property
    def may_reuse_connection(self) -> bool:
        """Whether to use a pooled connection, which the server may be closing."""
        is_small = self.size is not None and self.size <= SMALL
        return self.is_part or is_small

    def fail(self, error: OSError) -> None:
        """Record the error without its traceback: it keeps the caller's data alive."""
        self.cause = error.with_traceback(None)

    def pieces(self) -> Generator[Piece]:
        """Yield the bytes for the wire, in chunks if the length is not known.

        Small buffers are joined. No piece but the last ends where an Arrow message
        might end.
        """
        pending = bytearray()
        last_yield = time.monotonic()
        with contextlib.closing(self.groups()) as groups:
            for group in groups:
                buffers = [*self._framed(group), b""]
                for buffer, following in itertools.pairwise(buffers):
                    if len(buffer) < COALESCE_BELOW:
                        pending += buffer
                        if len(pending) >= WRITE_BYTES:
                            piece, pending = _split(pending)
                            yield piece
                        continue
                    if pending:
                        yield pending
                    view = memoryview(buffer)
                    end = len(view)
                    if len(following) < COALESCE_BELOW:
                        end -= HOLD_BACK
                    for start in range(0, end, WRITE_BYTES):
                        yield view[start : min(start + WRITE_BYTES, end)]
                    pending = bytearray(view[end:])
                    last_yield = time.monotonic()
                is_slow = time.monotonic() - last_yield > COALESCE_FOR
                if len(pending) > (HOLD_BACK if is_slow else COALESCE_BELOW):
                    piece, pending = _split(pending)
                    yield piece
                    last_yield = time.monotonic()
        if self.length is None:
            pending += b"0\r\n\r\n"
            self.framing += 5
        self.at_end = True
        yield pending

    def _framed(self, group: Buffers) -> list[Any]:
        """Return a group as a chunk, if the body goes in chunks."""
        buffers = list(group)
        size = sum(map(len, buffers))
        if self.length is None and size:
            head = b"%x\r\n" % size
            self.framing += len(head) + 2
            return [head, *buffers, b"\r\n"]
        return buffers

    def groups(self) -> Generator[Buffers]:
        """Yield the groups of buffers, and record what iterating them raises."""
        try:
            yield from self.body
        except GeneratorExit:
            raise
        except BaseException as error:
            self.source_error = error
            raise


def _split(pending: bytearray) -> tuple[bytearray, bytearray]:
    """Split off the last HOLD_BACK bytes without copying the rest."""
    held_back = pending[-HOLD_BACK:]
    del pending[-HOLD_BACK:]
    return pending, held_back
