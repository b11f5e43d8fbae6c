"""The connection that a body travels on: urllib3's own, with the manners that an upload needs.

- Pieces of at most 1 MiB, each within a write time-out of its own.
- The server may answer before everything was sent: it is heard, and sending stops.
- A write that fails is no answer: what the server said before it hung up is still looked for.
- The whole answer must arrive by a deadline, however slowly it drips.
- A connection for writes is never taken from the pool: it might be stale.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import ssl
import time
from typing import TYPE_CHECKING, Any

from urllib3.connection import HTTPConnection
from urllib3.exceptions import NewConnectionError
from urllib3.util.wait import wait_for_read

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from rt_frames._frames.ipc import Buffers

PIECE = 2**20
SMALL = 2**16
LISTEN = 0.25  # seconds that a write may block before it is looked whether the server says something
LAST_WORDS = 2.0  # seconds for what a server said before it hung up


class Upload:
    """A body on its way, and how far it came.

    Parameters
    ----------
    messages : callable
        Gives the body in groups of buffers, anew on each call.
    length : int or None
        Bytes of the whole body; where it is not known, the body goes chunked.
    timeout : float
        Seconds in which each piece must have left.
    on_sent : callable, optional
        Told the bytes of each piece that left, and the seconds that took.
    """

    def __init__(
        self,
        messages: Callable[[], Iterable[Buffers]],
        length: int | None,
        timeout: float,
        on_sent: Callable[[int, float], None] | None = None,
    ) -> None:
        self.messages = messages
        self.length = length
        self.timeout = timeout
        self.on_sent = on_sent
        self.begun = False
        self.sent = 0
        self.complete = False
        self.answered = False
        self.cause: BaseException | None = None
        self.source_error: BaseException | None = None

    def broke(self, error: OSError) -> None:
        """Note why sending ended, without the traceback: its frames hold this object, and with it the caller's data."""
        self.cause = error.with_traceback(None)

    def pieces(self) -> Generator[bytes | memoryview]:
        """Give what goes over the wire, framed where the length is not known."""
        framed = self.length is None
        with contextlib.closing(self._taken()) as taken:
            for buffers in taken:
                size = sum(len(buffer) for buffer in buffers)
                yield from _packed([b"%x\r\n" % size, *buffers, b"\r\n"] if framed else buffers)
        if framed:
            yield b"0\r\n\r\n"

    def _taken(self) -> Generator[Buffers]:
        try:
            yield from self.messages()
        except GeneratorExit:
            raise
        except BaseException as error:
            self.source_error = error
            raise


def _packed(buffers: Buffers) -> Iterator[bytes | memoryview]:
    """Join what is small, cut what is large, copy nothing of size."""
    small = bytearray()
    for buffer in buffers:
        if len(buffer) < SMALL and len(small) < PIECE:
            small += buffer
            continue
        if small:
            yield bytes(small)
            small.clear()
        view = memoryview(buffer)
        for start in range(0, len(view), PIECE):
            yield view[start : start + PIECE]
    if small:
        yield bytes(small)


class _Answer(io.RawIOBase):
    """What the server says: bytes that were read while sending, then the socket, until the deadline."""

    def __init__(self, sock: Any, early: bytes, deadline: float) -> None:
        self._sock, self._early, self._deadline = sock, early, deadline
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int | None:
        if self._early:
            taken = self._early[: len(into)]
            into[: len(taken)] = taken
            self._early = self._early[len(taken) :]
            return len(taken)
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer did not arrive in time")
        self._sock.settimeout(left)
        return self._raw.readinto(into)  # type: ignore[no-any-return]  # sockets' raw files are untyped

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Socket:
    """What http.client needs of a socket in order to read one answer."""

    def __init__(self, answer: _Answer) -> None:
        self._answer = answer

    def makefile(self, *_args: Any, **_options: Any) -> io.BufferedReader:
        return io.BufferedReader(self._answer)


class _Response(http.client.HTTPResponse):
    """An answer without the lines of its head that are none: urllib3 would log them, and they may repeat the key."""

    def begin(self) -> None:
        super().begin()
        self.msg.defects.clear()
        self.msg.set_payload("")


class Manners(HTTPConnection):
    """An HTTP connection that sends an `Upload` and hears early answers."""

    _upload: Upload | None = None
    _early = b""

    def connect(self) -> None:
        try:
            super().connect()
        except ssl.SSLCertVerificationError:
            raise
        except OSError as error:  # a handshake that fails or stalls sent nothing either
            raise NewConnectionError(self, str(error) or type(error).__name__) from error

    def request(self, method: str, url: str, body: Any = None, headers: Any = None, **options: Any) -> None:
        if self.sock is None:
            self.connect()
        sock: Any = self.sock
        self._upload, self._early = body, b""
        if body is None:
            super().request(method, url, None, headers, **options)
            return
        body.begun = True
        self.timeout = min(body.timeout, LISTEN)
        super().request(method, url, None, headers, **options)
        self._send_body(sock, body)

    def putheader(self, header: Any, *values: Any) -> None:
        if self._upload is not None and self._upload.length is None and header.lower() == "content-length":
            header, values = "Transfer-Encoding", ("chunked",)
        super().putheader(header, *values)

    def _send_body(self, sock: Any, upload: Upload) -> None:
        with contextlib.closing(upload.pieces()) as pieces:
            for piece in pieces:
                start = time.perf_counter()
                if not self._send_piece(sock, upload, memoryview(piece)):
                    return
                upload.sent += len(piece)
                if upload.on_sent is not None:
                    upload.on_sent(len(piece), time.perf_counter() - start)
        upload.complete = True

    def _send_piece(self, sock: Any, upload: Upload, left: memoryview) -> bool:
        """Send a piece, listening now and then; False where the server spoke up or the connection broke."""
        until = time.monotonic() + upload.timeout
        while left:
            if self._heard(sock):
                return False
            try:
                left = left[sock.send(left) :]
            except TimeoutError as error:
                if time.monotonic() > until:
                    upload.broke(error)
                    return False
            except OSError as error:
                upload.broke(error)
                return False
        return True

    def _heard(self, sock: Any) -> bool:
        """Tell whether the server said something, or hung up, while we are still sending."""
        if not wait_for_read(sock, timeout=0):
            return False
        waits, timeout = (BlockingIOError, ssl.SSLWantReadError), sock.gettimeout()
        sock.settimeout(0)
        try:
            self._early += sock.recv(SMALL)
            self._upload.answered = bool(self._early)  # type: ignore[union-attr]  # only asked while sending
        except waits:
            return False  # a TLS record that carries no data
        except OSError as error:
            self._upload.broke(error)  # type: ignore[union-attr]  # only asked while sending
        finally:
            sock.settimeout(timeout)
        return True

    def getresponse(self) -> Any:
        patience = self.timeout if isinstance(self.timeout, int | float) else None
        upload, self._upload = self._upload, None  # a pooled connection must not keep the caller's data
        if upload is not None and not upload.complete:
            patience = LAST_WORDS if patience is None else min(patience, LAST_WORDS)
        deadline = time.monotonic() + (patience if patience is not None else float("inf"))
        sock, early = self.sock, self._early

        def response_class(_sock: Any, *args: Any, **options: Any) -> http.client.HTTPResponse:
            return _Response(_Socket(_Answer(sock, early, deadline)), *args, **options)  # type: ignore[arg-type]  # the part of a socket that is used

        self.response_class = response_class  # type: ignore[assignment]  # http.client calls it, no more
        return super().getresponse()


class FreshManners(Manners):
    """The same for writes: one found in the pool counts as dropped, so that it is opened anew."""

    @property
    def is_connected(self) -> bool:
        return False
