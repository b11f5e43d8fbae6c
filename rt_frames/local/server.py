"""The development server: a folder's application over HTTP, for one machine.

It is cheroot's server, on daemon threads, which end with the process.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import hmac
import http
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

from rt_frames._arguments import is_visible
from rt_frames._text import make_printable, show_value
from rt_frames._threads import end_at_next_interrupt
from rt_frames.local.http_error import HTTPError
from rt_frames.local.patience import Patience
from rt_frames.local.root import check_process, make_root, note_process

log = logging.getLogger("rt_frames")
# one line per request
access = logging.getLogger("rt_frames.access")

# connections that are served at once
THREADS = 100
# seconds that a client may pause, or a request may wait for a lock
PAUSE_SECONDS = 600
# seconds that requests have to finish when the server stops
STOP_SECONDS = 2
# bytes of a body that are read before a refusal, which a client that sends may not see
MAX_DISCARDED_BYTES = 256 * 2**20
_PIECE_BYTES = 2**20


class LocalService:
    """The development server of a folder, for one person on one machine.

    Parameters
    ----------
    root : path
        The folder of the tables, each as ``ROOT/NAME.lance``. Created if missing.
    host : str, default "127.0.0.1"
        The address to listen on.
    port : int, default 0
        The port to listen on; 0 takes a free one.
    api_key : str, optional
        The key that requests must carry. Defaults to a random one.
    keep : datetime.timedelta, default one day
        How long a replaced version of a table is kept, to be read or restored, if the
        server is alone on its folder. Of a table that is overwritten often, at most the
        last ten overwrites are kept. Parts of an uncompleted write are kept as long,
        but at least an hour. Expired data is removed before the next write.

    Raises
    ------
    ValueError
        If ``api_key`` is empty or has characters other than visible ASCII, or ``keep``
        is negative.
    TypeError
        If ``keep`` is not a ``datetime.timedelta``.

    Examples
    --------
    >>> import tempfile
    >>> import rt_frames as rt
    >>> from rt_frames.local import LocalService
    >>> with tempfile.TemporaryDirectory() as folder, LocalService(folder) as service:
    ...     client = rt.connect(service.url, api_key=service.api_key, default=False)
    ...     client.list_tables()
    []
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        api_key: str | None = None,
        keep: datetime.timedelta = datetime.timedelta(days=1),
    ) -> None:
        self.root = Path(root).expanduser()
        if api_key is not None and not is_visible(api_key):
            raise ValueError(
                "api_key: expected visible ASCII characters without spaces, at least one"
            )
        if not isinstance(keep, datetime.timedelta):
            raise TypeError(
                f"keep: expected a datetime.timedelta, such as timedelta(days=1), got {show_value(keep)}"
            )
        if keep < datetime.timedelta(0):
            raise ValueError(
                f"keep: expected a timedelta that is not negative, got {keep}"
            )
        self._bind = host, port
        self._keep = keep
        self._key = api_key or secrets.token_urlsafe(32)
        self._running: _Running | None = None

    def __repr__(self) -> str:
        state = self.url if self._running else "not running"
        return f"LocalService({str(self.root)!r}, {state})"

    @property
    def api_key(self) -> str:
        """The key that requests must carry in ``x-api-key``.

        Examples
        --------
        >>> from rt_frames.local import LocalService
        >>> LocalService("./tables", api_key="made-up").api_key
        'made-up'
        """
        return self._key

    @property
    def url(self) -> str:
        """The URL of the running server.

        Raises
        ------
        RuntimeError
            If the server is not running.

        Examples
        --------
        >>> from rt_frames.local import LocalService
        >>> with LocalService("./tables") as service:
        ...     service.url
        'http://127.0.0.1:...'
        """
        if self._running is None:
            raise RuntimeError(
                "the server is not running; use it in a with statement, or call start()"
            )
        host, port = self._running.server.bind_addr[:2]
        if ":" in host:
            host = f"[{host}]"
        return f"http://{host}:{port}"

    def start(self) -> Self:
        """Start the server on background threads.

        Returns
        -------
        LocalService
            The server itself.

        Raises
        ------
        OSError
            If the server cannot listen on ``host`` and ``port``.
        RuntimeError
            If this process was forked from one that used a folder.

        Examples
        --------
        >>> from rt_frames.local import LocalService
        >>> service = LocalService("./tables").start()
        >>> service.close()
        """
        if self._running is None:
            check_process()
            note_process()
            make_root(self.root)
            # imported late: once imported, pylance 14 warns at every fork
            from rt_frames.local.application import Application
            from rt_frames.local.store import Store

            application = Application(Store(self.root, self._keep))
            running = _Running(application, self._key, self._bind)
            try:
                running.start()
            except BaseException:
                running.stop()
                raise
            self._running = running
        return self

    def close(self) -> None:
        """Stop the server. Requests have two seconds to finish.

        Examples
        --------
        >>> from rt_frames.local import LocalService
        >>> LocalService("./tables").close()
        """
        running = self._running
        self._running = None
        if running is not None:
            running.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


class _Running:
    """A server that listens, as a WSGI application."""

    def __init__(self, application: Any, key: str, bind: tuple[str, int]) -> None:
        from cheroot import server, wsgi

        class Connection(server.HTTPConnection):
            def close(self) -> None:
                # cheroot 11.1 leaves the writer to its finalizer, and Python 3.13
                # prints what that raises where the client is gone; it waits for none
                with contextlib.suppress(OSError):
                    self.socket.settimeout(0)
                    self.wfile.close()
                super().close()

        self._application = application
        self._key = key.encode()
        host = bind[0].lower()
        self._hosts = {"127.0.0.1", "localhost", "[::1]", host, f"[{host}]"}
        self._any_host = host in ("0.0.0.0", "::", "")  # nosec B104  # noqa: S104  # only compared
        self._requests: set[Patience] = set()
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        listener: Any = wsgi.Server(
            bind,
            self,
            numthreads=THREADS,
            server_name="rt_frames",
            request_queue_size=128,
            timeout=PAUSE_SECONDS,
            shutdown_timeout=1,
        )
        listener.error_log = _log_error
        listener.ConnectionClass = Connection
        self.server = listener

    def start(self) -> None:
        """Listen, on threads that the interpreter does not wait for."""
        listening: SimpleQueue[BaseException | None] = SimpleQueue()
        arguments = (listening,)
        threading.Thread(target=self._serve, args=arguments, daemon=True).start()
        error = listening.get()
        if error is not None:
            raise error
        _running.add(self)

    def _serve(self, listening: SimpleQueue[BaseException | None]) -> None:
        try:
            self.server.prepare()
        except BaseException as error:  # noqa: BLE001  # raised by `start`
            self._stopped.set()
            listening.put(error)
            return
        # now, as no thread can start when the interpreter ends
        threading.Thread(target=self._wait_to_stop, daemon=True).start()
        listening.put(None)
        self.server.serve()

    def _wait_to_stop(self) -> None:
        self._stopping.wait()
        for patience in list(self._requests):
            patience.is_over = True
        self.server.stop()
        self._stopped.set()

    def stop(self) -> None:
        """Stop. A response that nobody reads is left to itself."""
        _running.discard(self)
        self._stopping.set()
        self._stopped.wait(STOP_SECONDS)

    def finish(self) -> None:
        """Wait for Lance: a thread that returns from it later aborts the process."""
        self.stop()
        deadline = time.monotonic() + STOP_SECONDS
        while self._requests and time.monotonic() < deadline:
            time.sleep(0.01)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterator[bytes]:
        """Respond to a request."""
        from rt_frames.local.application import Asked, refuse
        from rt_frames.local.arrow_stream import Body

        start = time.monotonic()
        sent = environ["wsgi.input"]
        body = Body(lambda size: _receive(sent, size))
        asked = Asked(
            environ["REQUEST_METHOD"],
            re.sub("^https?://[^/]*", "", environ["REQUEST_URI"]),
            _headers(environ),
            body,
        )
        patience = Patience(PAUSE_SECONDS)
        self._requests.add(patience)
        try:
            self._check(asked.headers)
            answer = self._application.answer(asked, patience)
        except HTTPError as error:
            answer = refuse(error)
        except KeyboardInterrupt:
            # Polars 2.1 raises it in any thread, and cheroot would end the server
            answer = refuse(HTTPError(500, "the request was interrupted"))
        finally:
            self._requests.discard(patience)
        headers = [*answer.headers.items()]
        if not _discard(sent):
            headers.append(("Connection", "close"))
        access.debug(
            "%s %s %.300s %s, %d bytes received, %.0f ms",
            environ["REMOTE_ADDR"],
            asked.method,
            make_printable(asked.target),
            answer.status,
            body.received,
            (time.monotonic() - start) * 1000,
        )
        phrase = http.HTTPStatus(answer.status).phrase
        start_response(f"{answer.status} {phrase}", headers)
        return self._pieces(iter(answer.payload), patience)

    def _pieces(self, payload: Iterator[bytes], patience: Patience) -> Iterator[bytes]:
        """Yield the payload; `finish` waits while a piece is computed."""
        piece: bytes | None = b""
        while piece is not None and not self._stopping.is_set():
            self._requests.add(patience)
            try:
                piece = next(payload, None)
            finally:
                self._requests.discard(patience)
            if piece:
                yield piece

    def _check(self, headers: Mapping[str, str]) -> None:
        """Refuse a caller without the key, and pages of other hosts in a browser."""
        host = re.sub(r":\d+$", "", headers.get("host", "")).lower()
        if not self._any_host and host not in self._hosts:
            raise HTTPError(
                400,
                "the Host header is not an address of this server; use the server's URL",
            )
        key = headers.get("x-api-key", "").encode("latin-1", "replace")
        if not hmac.compare_digest(key, self._key):
            raise HTTPError(401, "the x-api-key header is missing or wrong")


_running: set[_Running] = set()


@atexit.register
def _finish_requests() -> None:
    if _running:
        end_at_next_interrupt()
    for running in list(_running):
        running.finish()


def _headers(environ: dict[str, Any]) -> dict[str, str]:
    headers = {"content-type": environ.get("CONTENT_TYPE", "")}
    for name, value in environ.items():
        if name.startswith("HTTP_"):
            headers[name.removeprefix("HTTP_").replace("_", "-").lower()] = value
    return headers


def _receive(sent: Any, size: int) -> bytes:
    """Return a piece of a body, or b"" at its end."""
    piece = b""
    is_truncated = False
    try:
        piece = sent.read(min(size, _PIECE_BYTES))
    except (OSError, ValueError):
        is_truncated = True
    # cheroot accepts a body that is shorter than its Content-Length
    remaining: int = getattr(sent, "remaining", 0)
    if is_truncated or (remaining and not piece):
        raise HTTPError(400, "the body was truncated; send all of it again")
    return piece


def _discard(sent: Any) -> bool:
    """Read the rest of a refused body. Return whether its end was reached."""
    discarded = 0
    try:
        while discarded < MAX_DISCARDED_BYTES:
            piece = _receive(sent, _PIECE_BYTES)
            if not piece:
                return True
            discarded += len(piece)
    except HTTPError:
        pass
    # cheroot would read all that remains at once
    sent.remaining = 0
    return False


def _log_error(message: str = "", level: int = 0, traceback: bool = False) -> None:
    log.debug(
        "the development server, level %s: %s", level, message, exc_info=traceback
    )
