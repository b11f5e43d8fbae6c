"""A request's body on its way: cut into pieces for the socket, and how far it came."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    Buffers = Iterable[Any]  # bytes-like objects, in the order in which they are sent

WRITE_BYTES = 2**20  # a piece has at most so many, and each must leave within the write timeout
COALESCE_BELOW = 2**16  # bytes; smaller buffers are copied together into one piece


@dataclass
class Upload:
    """A body for one attempt, and how far it came.

    Parameters
    ----------
    body : iterable of groups of buffers
        What is sent; iterating it begins at its start.
    length : int or None
        Bytes of the whole body; where it is not known, the body goes chunked.
    timeout : float
        Seconds in which each piece must have left.
    on_sent : callable, optional
        Told after each piece how many bytes were sent so far, its own bytes, and the seconds it took.

    Attributes
    ----------
    begun, complete : bool
        Whether sending began, and whether all was handed to the network.
    sent : int
        Bytes that were.
    answered : bool
        Whether the service answered before the body was complete.
    cause : OSError or None
        Why sending ended early.
    source_error : BaseException or None
        What the body itself raised.
    """

    body: Iterable[Buffers]
    length: int | None
    timeout: float
    on_sent: Callable[[int, int, float], None] | None = None
    begun: bool = False
    complete: bool = False
    sent: int = 0
    answered: bool = False
    cause: OSError | None = None
    source_error: BaseException | None = None

    @property
    def framing_header(self) -> tuple[str, str]:
        """The header that tells the service where the body ends."""
        return ("Transfer-Encoding", "chunked") if self.length is None else ("Content-Length", str(self.length))

    def fail(self, error: OSError) -> None:
        """Note why sending ended, without the traceback: its frames hold this object, and with it the caller's data."""
        self.cause = error.with_traceback(None)

    def pieces(self) -> Generator[bytes | memoryview]:
        """Give what goes over the wire, framed where the length is not known."""
        with contextlib.closing(self._groups()) as groups:
            for group in groups:
                buffers = list(group)
                if self.length is None:
                    buffers = [b"%x\r\n" % sum(map(len, buffers)), *buffers, b"\r\n"]
                yield from _pack(buffers)
        if self.length is None:
            yield b"0\r\n\r\n"

    def _groups(self) -> Generator[Buffers]:
        try:
            yield from self.body
        except GeneratorExit:
            raise
        except BaseException as error:
            self.source_error = error
            raise


def _pack(buffers: Buffers) -> Iterator[bytes | memoryview]:
    """Join what is small, cut what is large, copy nothing of size."""
    small = bytearray()
    for buffer in buffers:
        if len(buffer) < COALESCE_BELOW and len(small) < WRITE_BYTES:
            small += buffer
            continue
        if small:
            yield bytes(small)
            small.clear()
        view = memoryview(buffer)
        for start in range(0, len(view), WRITE_BYTES):
            yield view[start : start + WRITE_BYTES]
    if small:
        yield bytes(small)
