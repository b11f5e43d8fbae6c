"""urllib3 connections that stream an `Upload` and notice early responses.

- Pieces are at most 1 MiB, each within the write timeout.
- If the server responds before everything was sent, sending stops.
- Interim responses (1xx) are skipped before, while and after a body is sent.
- After a failed write, the response is still read: the server may have sent one before
  it closed.
- The read timeout covers the whole response, not each read.
- A body reuses a pooled connection only if it is small or one part of a write, and only
  for half the time that the server keeps it, or right after a response if the server
  does not tell: if it closes the connection meanwhile, the outcome is unknown. Once
  that has happened, no body reuses a connection. A connection whose body was truncated
  is never pooled.
- If a connection fails before it has taken a whole head, nothing was sent.

Internals of requests, urllib3 and http.client that this depends on, each covered by a
test in tests/http or tests/faults:

- requests' `HTTPAdapter` takes its pools from the manager that `init_poolmanager` or
  `proxy_manager_for` makes, hands a prepared request's body to the connection as it is,
  and follows no redirect (its `Session` would, and take cookies and netrc besides);
- urllib3's pools, of the manager's `pool_classes_by_scheme`, keep connections of their
  `ConnectionCls` in a `QueueCls` by `put`, `get` and `qsize` alone, ask a connection's
  `is_connected` before they use it again, and call `request` with the connect timeout
  in `timeout`, `getresponse` with the read timeout;
- urllib3's `request` puts each header by `putheader`, `Content-Length: 0` if a POST has
  no body that it knows;
- urllib3 sends through TLS inside TLS by an `SSLTransport`, whose `send` gives all to
  the socket's `sendall`;
- http.client's `getresponse`, and `_tunnel`, which urllib3's `connect` calls, read by
  `response_class(sock, ...)`, which only asks that socket for `makefile`; its `begin`
  reads a head if `headers` is None, and sets `msg`, with the lines that are no headers,
  and `will_close`, whereupon the connection is closed.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import queue
import re
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, cast

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError, ProxyError
from urllib3.util.ssltransport import SSLTransport
from urllib3.util.wait import wait_for_read

from rt_frames._http.foreign import raise_foreign
from rt_frames._http.upload import Upload

# seconds that a write may block before the server's response is polled
POLL_AFTER = 0.25
# seconds to read what a server sent before it closed
DRAIN_SECONDS = 2.0
RECEIVE_BYTES = 2**16
# seconds; a body may reuse a connection this long after a response that does not tell
# how long the server keeps it: half the shortest keep-alive in use
REUSE_SECONDS = 0.5
# seconds at most; routers forget idle connections
MAX_REUSE_SECONDS = 30.0
# TCP_NOTSENT_LOWAT: a short send queue makes write times show the link's speed
MAX_UNSENT_BYTES = 2**18
# 101 ends HTTP on its connection
_INTERIM = re.compile(rb"\A(?:HTTP/1\.1 1(?!01)\d\d.*?\n\r?\n)+", re.DOTALL)
_INTERIM_START = b"HTTP/1.1 1"

_SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
]
# seconds of silence before the first probe; an old Windows has no option for it
if sys.platform == "darwin":
    _SOCKET_OPTIONS.append((socket.IPPROTO_TCP, socket.TCP_KEEPALIVE, 60))
elif hasattr(socket, "TCP_KEEPIDLE"):
    _SOCKET_OPTIONS.append((socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60))
# (adapter, body) of the request being sent: `is_connected` takes no arguments
_sending: ContextVar[tuple[Any, Upload | None]] = ContextVar(
    "_sending", default=(SimpleNamespace(saw_unannounced_close=False), None)
)


class Adapter(HTTPAdapter):
    """requests' adapter over these connections to one server, without retries."""

    # just after a response without "Connection: close"
    saw_unannounced_close = False

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Use our pool classes."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        """Use our pool classes behind a proxy, too."""
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager

    def send(
        self, request: requests.PreparedRequest, *args: Any, **options: Any
    ) -> requests.Response:
        """Send a request, whose body may be an `Upload`."""
        token = _sending.set((self, request.body))  # type: ignore[arg-type]  # requests knows of no body of this kind
        try:
            return super().send(request, *args, **options)
        finally:
            _sending.reset(token)


class UploadConnection(HTTPConnection):
    """An HTTP connection that sends an `Upload` and notices early responses."""

    # http.client's debug output would show the key (Python 3.11)
    debuglevel = 0
    _upload: Upload | None = None
    _reuse_until = 0.0

    @property
    def is_connected(self) -> bool:
        """Whether the next request may reuse the connection.

        Most uploads open a new one.
        """
        adapter, body = _sending.get()
        is_recent = time.monotonic() < self._reuse_until
        is_open = super().is_connected
        if is_recent and self.sock is not None and not is_open:
            adapter.saw_unannounced_close = True
        if body is None or not is_open:
            return is_open
        may_reuse = is_recent and not adapter.saw_unannounced_close
        return may_reuse and body.may_reuse_connection

    def connect(self) -> None:
        self._reuse_until = 0.0
        self.socket_options = [*_SOCKET_OPTIONS]
        try:
            super().connect()
        except ssl.SSLCertVerificationError:
            raise
        except OSError as error:
            # if the TLS handshake fails or stalls, nothing was sent either
            raise NewConnectionError(
                self, str(error) or type(error).__name__
            ) from error
        if sys.platform != "win32":
            # for TLS inside TLS, urllib3's SSLTransport has no setsockopt (urllib3 2.8)
            with contextlib.suppress(OSError, AttributeError):
                self.sock.setsockopt(
                    socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_BYTES
                )

    def _tunnel(self) -> None:
        try:
            # the timeout covers the proxy's whole response
            self._set_response_reader(cast("float", self.timeout))
            super()._tunnel()
        except OSError as error:
            raise ProxyError(str(error), error) from error

    def _set_response_reader(
        self,
        seconds: float,
        early: bytes = b"",
        *,
        request_truncated: bool = False,
        per_read: bool = False,
    ) -> None:
        """Make http.client read ``early``, then the socket, for at most ``seconds``.

        The timeout covers the whole response, or each read if ``per_read``.
        """

        def response_class(sock: Any, *args: Any, **options: Any) -> _HTTPResponse:
            reader = _DeadlineReader(sock, early, seconds, per_read=per_read)
            response = _HTTPResponse(reader, *args, **options)  # type: ignore[arg-type]  # the subset of a socket that is used
            response.request_truncated = request_truncated
            response.reader = reader
            return response

        self.response_class = response_class  # type: ignore[assignment]  # the only method that http.client calls

    def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        **options: Any,
    ) -> None:
        if self.sock is None:
            self.connect()
        sock: Any = self.sock
        self._upload = body
        self._early = b""
        self._is_reused = time.monotonic() < self._reuse_until
        if body is not None:
            body.started = True
            self.timeout = min(body.timeout, POLL_AFTER)
            # TLS inside TLS cannot resume a record that was sent in part
            if isinstance(sock, SSLTransport):
                self.timeout = body.timeout
        with self._shut_down_on_error(sock):
            try:
                super().request(method, url, None, headers, **options)
            except OSError:
                if body is not None:
                    body.started = False
                raise
            if body is not None:
                self._send_body(sock, body)

    def putheader(self, header: Any, *values: Any) -> None:
        if self._upload is not None and header.lower() == "content-length":
            header, *values = self._upload.framing_header  # type: ignore[assignment]  # a list iterates as well
        super().putheader(header, *values)

    def _send_body(self, sock: Any, upload: Upload) -> None:
        with contextlib.closing(upload.pieces()) as pieces:
            for piece in pieces:
                if not self._send_piece(sock, upload, memoryview(piece)):
                    return
                upload.sent += len(piece)
                if upload.on_sent is not None:
                    upload.on_sent(upload.sent)
        # after a body of another length, the server would misread the next request
        upload.complete = upload.length in (None, upload.sent)

    def _send_piece(self, sock: Any, upload: Upload, piece: memoryview) -> bool:
        """Send one piece, polling for a response.

        Return False if the server responded or the connection failed.
        """
        deadline = time.monotonic() + upload.timeout
        unsent = piece
        while unsent:
            if self._poll_response(sock, upload):
                return False
            try:
                unsent = unsent[sock.send(unsent) :]
            except OSError as error:
                raise_foreign(error)
                if not isinstance(error, TimeoutError) or time.monotonic() > deadline:
                    upload.fail(error)
                    return False
        return True

    def _poll_response(self, sock: Any, upload: Upload) -> bool:
        """Return whether the server sent its final response, or closed, meanwhile."""
        if not wait_for_read(sock, timeout=0):
            return False
        timeout = sock.gettimeout()
        sock.settimeout(0)
        try:
            # SSLTransport, for TLS inside TLS, may return 0
            received = sock.recv(RECEIVE_BYTES) or b""
        except (BlockingIOError, ssl.SSLWantReadError):
            # a TLS record without data
            return False
        except OSError as error:
            raise_foreign(error)
            upload.fail(error)
            return True
        finally:
            sock.settimeout(timeout)
        early = _INTERIM.sub(b"", self._early + received)
        self._early = early
        is_interim = _INTERIM_START.startswith(early[: len(_INTERIM_START)])
        # nothing yet, or the start of another interim response
        is_unfinished = received and is_interim and len(early) < RECEIVE_BYTES
        return not is_unfinished

    def getresponse(self) -> Any:
        seconds = cast("float", self.timeout)
        upload = self._upload
        # a pooled connection must not keep the caller's data
        self._upload = None
        request_truncated = upload is not None and not upload.complete
        if request_truncated:
            seconds = min(seconds, DRAIN_SECONDS)
        per_read = upload is not None and upload.timeout_per_read
        self._set_response_reader(
            seconds,
            self._early,
            request_truncated=request_truncated,
            per_read=per_read,
        )
        with self._shut_down_on_error(self.sock):
            response = super().getresponse()
        self._reuse_until = time.monotonic() + _reuse_seconds(response)
        return response

    @contextlib.contextmanager
    def _shut_down_on_error(self, sock: Any) -> Iterator[None]:
        """Shut the socket down on failure: close() leaves it open in forks."""
        try:
            yield
        except BaseException as error:
            if self._is_reused and isinstance(error, ConnectionError):
                _sending.get()[0].saw_unannounced_close = True
            # SSLTransport, for TLS inside TLS, has no shutdown
            with contextlib.suppress(OSError, AttributeError):
                sock.shutdown(socket.SHUT_RDWR)
            raise


def _reuse_seconds(response: Any) -> float:
    """Return for how many seconds a body may reuse the connection."""
    if response.version < 11:
        return 0.0
    keep_alive = response.headers.get("Keep-Alive", "")
    match = re.search(r"(?i)timeout\s*=\s*(\d{1,9})", keep_alive)
    if match is None:
        return REUSE_SECONDS
    return min(MAX_REUSE_SECONDS, int(match[1]) / 2)


class _TLSUploadConnection(UploadConnection, HTTPSConnection):
    pass


class _IdleConnections(deque[Any]):
    """A lock-free pool queue: Ctrl-C in queue.Queue can leave its lock held."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def put(self, connection: Any, block: bool = True) -> None:  # noqa: ARG002  # urllib3's signature
        if len(self) >= self._size:
            raise queue.Full
        self.append(connection)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ARG002  # urllib3's signature
        try:
            return self.pop()
        except IndexError:
            raise queue.Empty from None

    def qsize(self) -> int:
        return len(self)


class _Pool(HTTPConnectionPool):
    ConnectionCls: Any = UploadConnection
    QueueCls: Any = _IdleConnections


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls: Any = _TLSUploadConnection
    QueueCls: Any = _IdleConnections


_POOLS = {"http": _Pool, "https": _TLSPool}


class _HTTPResponse(http.client.HTTPResponse):
    """An HTTPResponse that skips every 1xx and closes connections in doubt."""

    request_truncated = False
    reader: _DeadlineReader

    def begin(self) -> None:
        self._begin()
        # http.client itself skips only 100 (Python 3.11)
        while self.status < 200 and self.status != 101:
            self.headers = None  # type: ignore[assignment]  # as before the first head
            self._begin()
        # malformed header lines may repeat the key, and urllib3 2.8 would log them
        self.msg.defects.clear()
        self.msg.set_payload("")
        # the service may read the next request as the rest of this body, or may still
        # respond
        self.will_close = self.will_close or self.request_truncated or self.status < 200

    def _begin(self) -> None:
        super().begin()
        # http.client takes the end of the connection for the end of the head
        # (Python 3.11)
        if self.reader.is_at_end:
            raise http.client.RemoteDisconnected(
                "the connection closed within the head of the response"
            )


class _DeadlineReader(io.RawIOBase):
    """A raw reader of the bytes received while sending, then of the socket."""

    def __init__(
        self, sock: Any, early: bytes, seconds: float, *, per_read: bool
    ) -> None:
        self._sock = sock
        self._early = early
        self._seconds = seconds
        self._per_read = per_read
        self._deadline = time.monotonic() + seconds
        self.is_at_end = False
        self._raw = sock.makefile("rb", buffering=0)

    def makefile(self, *_args: Any, **_options: Any) -> io.BufferedReader:
        """Return a buffered reader, as a socket does for http.client."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._early:
            size = min(len(buffer), len(self._early))
            buffer[:size] = self._early[:size]
            self._early = self._early[size:]
            return size
        seconds = self._seconds
        if not self._per_read:
            seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the response did not arrive in time")
        self._sock.settimeout(seconds)
        size = self._raw.readinto(buffer)
        self.is_at_end = size == 0
        return size  # type: ignore[no-any-return]  # sockets' raw files are untyped

    def close(self) -> None:
        self._raw.close()
        super().close()
