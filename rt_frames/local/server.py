"""The HTTP server of the embedded service, which ends with the process.

cheroot's classes are changed so that headers have one meaning, a slow client holds up
no other, and a client that still sends sees an early response.
``tests/local/test_relied_upon.py`` lists the internals of cheroot that this depends on.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import errno
import json
import logging
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Self
from wsgiref.types import WSGIApplication

from cheroot.server import HTTPConnection, HTTPRequest
from cheroot.workers.threadpool import WorkerThread
from cheroot.wsgi import Gateway_10, Server

from rt_frames._arguments import is_visible
from rt_frames._protocol.operations import ABILITIES
from rt_frames._protocol.responses import ABILITIES_HEADER, SERVER_HEADER
from rt_frames._text import show_value
from rt_frames._threads import end_at_next_interrupt
from rt_frames._version import __version__
from rt_frames.local.body import Body
from rt_frames.local.http_error import HTTPError
from rt_frames.local.pool import Pool

log = logging.getLogger("rt_frames")

# seconds from the first byte of a request's head to its last, and between requests
HEAD_SECONDS = 10
# seconds per read of a body: a client may compute it while sending
BODY_SECONDS = 600
# seconds for a request in progress when the service stops
DRAIN_SECONDS = 1
MAX_HEADER_BYTES = 64 * 2**10
_HEADER_NAME = re.compile(rb"[\w!#$%&'*+.^`|~-]+")
_FORBIDDEN_IN_VALUE = re.compile(rb"[\0\r\n]")
_SINGLE_HEADERS = (
    b"Content-Length",
    b"Transfer-Encoding",
    b"Content-Type",
    b"Host",
    b"X-Api-Key",
)


class LocalService:
    """The embedded service on a folder.

    Several services, also in several processes, may share a folder. A forked process
    cannot start a service if its parent ran one, because Lance's threads do not survive
    a fork.

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
        How long a replaced version of a table is kept, to be read or restored; at least
        ten minutes. Of a table that is overwritten often, at most the last ten
        overwrites are kept longer than that. Parts of an uncompleted write are kept as
        long, but at least an hour. Expired data is removed before the next write.

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
        self._server: Any = None
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
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        state = self.url if self._server else "not running"
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
        """The URL of the running service.

        Raises
        ------
        RuntimeError
            If the service is not running.

        Examples
        --------
        >>> from rt_frames.local import LocalService
        >>> with LocalService("./tables") as service:
        ...     service.url
        'http://127.0.0.1:...'
        """
        server = self._server
        if server is None:
            raise RuntimeError(
                "the service is not running; use it in a with statement, or call start()"
            )
        host, port = server.bind_addr[:2]
        if ":" in host:
            host = f"[{host}]"
        return f"http://{host}:{port}"

    def start(self) -> Self:
        """Start the service on background threads.

        Returns
        -------
        LocalService
            The service itself.

        Raises
        ------
        OSError
            If the service cannot listen on ``host`` and ``port``.
        RuntimeError
            If this process was forked from one that ran a service.

        Examples
        --------
        >>> from rt_frames.local import LocalService
        >>> service = LocalService("./tables").start()
        >>> service.close()
        """
        if self._server is None:
            if _service_pids - {os.getpid()}:
                raise RuntimeError(
                    "the embedded service cannot start in a process forked from one that ran it: "
                    "its engine does not survive a fork; start processes with multiprocessing's "
                    "'spawn', or run rt-frames serve and set the RT_FRAMES_ variables that it prints"
                )
            _service_pids.add(os.getpid())
            # imported late: once imported, pylance 14 warns at every fork
            from rt_frames.local.store import Store
            from rt_frames.local.wsgi import Application

            try:
                store = Store(self.root, self._keep)
                application = Application(store, self._key, self._bind[0])
                _do_uninterrupted(partial(self._listen, application))
            except KeyboardInterrupt:
                _do_uninterrupted(self._stop)
                raise
        return self

    def _listen(self, application: WSGIApplication) -> None:
        with self._lock:
            if self._server is None:
                server: Any = _Server(self._bind, application)
                server.prepare()
                threading.Thread(target=server.serve, daemon=True).start()
                self._server = server
                _running_servers.add(server)

    def close(self) -> None:
        """Stop the service. Requests have a second to finish, responses two.

        Examples
        --------
        >>> from rt_frames.local import LocalService
        >>> LocalService("./tables").close()
        """
        # `_finish_responses` has cleared `ready` if the process ends
        if self._server is not None and self._server.ready:
            _do_uninterrupted(self._stop)

    def _stop(self) -> None:
        with self._lock:
            server = self._server
            self._server = None
            if server is not None:
                _running_servers.discard(server)
                server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


_running_servers: set[Any] = set()
# other ids than this process's own are those of parents
_service_pids: set[int] = set()


def _do_uninterrupted(work: Callable[[], None]) -> None:
    """Run ``work`` on a thread: Ctrl-C interrupts the wait, not the work.

    The thread and those that it starts are daemons: the interpreter does not wait for
    them.
    """
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
            done.set_result(None)
        except BaseException as error:  # noqa: BLE001  # raised again by `result`
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    done.result()


@atexit.register
def _finish_responses() -> None:
    """Wait for responses in progress when the interpreter ends.

    A thread that returns from Lance after that aborts the process. The servers are not
    stopped: that would start a thread, which the ending interpreter forbids.
    """
    for server in list(_running_servers):
        server.ready = False
    responding = _list_responding()
    if responding:
        end_at_next_interrupt()
    deadline = time.monotonic() + DRAIN_SECONDS
    for thread, conn in responding:
        while thread.conn is conn and thread.is_alive():
            if time.monotonic() > deadline:
                _shut_down(conn)
            time.sleep(0.01)


def _list_responding() -> list[tuple[Any, Any]]:
    """List the threads of all servers that have a connection, with it."""
    responding = []
    threads: list[Any] = list(threading.enumerate())
    for thread in threads:
        if isinstance(thread, WorkerThread) and isinstance(thread.server, _Server):
            conn = thread.conn
            if conn is not None:
                responding.append((thread, conn))
    return responding


def _shut_down(conn: Any) -> None:
    with contextlib.suppress(OSError):
        conn.socket.shutdown(socket.SHUT_RDWR)


class _Request(HTTPRequest):
    """Rejects ambiguous framing (request smuggling), with errors as JSON."""

    def read_request_line(self) -> bool:
        """Refuse a request target such as ``http://[/``, for which cheroot 11 fails."""
        try:
            return bool(super().read_request_line())  # type: ignore[no-untyped-call]  # of cheroot
        except ValueError:
            self.simple_response(
                "400 Bad Request",
                "the request target is malformed; send a path such as /v1/tables",
            )
            return False

    def header_reader(self, rfile: Any, headers: dict[bytes, bytes]) -> None:
        """Read the headers strictly.

        cheroot keeps the last of two equal names, and accepts lengths such as -1, +5
        and 1_0.
        """
        values: dict[bytes, list[bytes]] = defaultdict(list)
        line = rfile.readline()
        while line != b"\r\n":
            name, value = _parse_header(line)
            if name in values and name in _SINGLE_HEADERS:
                raise ValueError(
                    f"header {name.decode()} occurs more than once; send it once"
                )
            values[name].append(value)
            line = rfile.readline()
        for name, lines in values.items():
            headers[name] = b", ".join(filter(None, lines))
        self._check_framing(headers)

    def _check_framing(self, headers: dict[bytes, bytes]) -> None:
        length = headers.get(b"Content-Length")
        coding = headers.get(b"Transfer-Encoding")
        if length is not None and not re.fullmatch(rb"[0-9]{1,18}", length):
            raise ValueError(
                "Content-Length is not a number of bytes; send digits only"
            )
        if coding is None:
            return
        if coding.lower() != b"chunked" or self.response_protocol != "HTTP/1.1":
            raise ValueError(
                "Transfer-Encoding is not supported; send 'chunked', with HTTP/1.1"
            )
        if length is not None:
            raise ValueError(
                "Content-Length and Transfer-Encoding are both present; send one of them"
            )

    def simple_response(self, status: str, msg: str = "") -> None:
        """Refuse a request and close, since its body could pass for another request."""
        self.close_connection = True
        error = {"code": int(status[:3]), "message": msg or status[4:]}
        body = json.dumps({"error": error})
        response = (
            f"HTTP/1.1 {status}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n"
            f"{SERVER_HEADER}: {__version__}\r\n"
            f"{ABILITIES_HEADER}: {' '.join(ABILITIES)}\r\n"
            "Connection: close\r\n"
            "\r\n"
            f"{body}"
        )
        with contextlib.suppress(OSError):
            self.conn.wfile.write(response.encode())
            # not for a head that is late: the connection has no thread
            if self.conn.head_start is None:
                self.conn.adopt(Body(self.conn.rfile, sys.maxsize))


def _is_head(data: bytes) -> bool:
    """Return whether data hold a head, or a line end for which it is refused."""
    return b"\r\n\r\n" in data or data.count(b"\n") > data.count(b"\r\n")


def _parse_header(line: bytes) -> tuple[bytes, bytes]:
    """Return the name of a header in title case, and its value."""
    name, colon, value = line.removesuffix(b"\r\n").partition(b":")
    is_whole = line.endswith(b"\r\n") and colon == b":"
    is_named = _HEADER_NAME.fullmatch(name) is not None
    if not is_whole or not is_named or _FORBIDDEN_IN_VALUE.search(value):
        raise ValueError(
            "a header line is malformed; send a name, a colon, a value and a line end"
        )
    return name.title(), value.strip(b" \t")


class _Connection(HTTPConnection):
    """A connection that waits for whole heads without a thread.

    It also closes `wfile`. cheroot 11 leaves it open; its finalizer then fails to send
    what is buffered.
    """

    RequestHandlerClass = _Request
    rbufsize = MAX_HEADER_BYTES + 1
    # when the first bytes of an incomplete head were seen
    head_start: float | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # cheroot asks this before it waits for more
        self.rfile.has_data = self.has_head

    def has_head(self) -> bool:
        """Read what has arrived; return whether a thread need not wait for more."""
        data = b""
        self.socket.settimeout(0)
        try:
            data = self.rfile.peek(self.rbufsize)
            is_done = _is_head(data) or len(data) >= self.rbufsize
            # b"" if the client closed the connection
            is_done = is_done or not self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            is_done = False
        except OSError:
            is_done = True
        finally:
            self.socket.settimeout(HEAD_SECONDS)
        if is_done:
            self.head_start = None
        elif data and self.head_start is None:
            self.head_start = time.monotonic()
        return is_done

    def is_late(self) -> bool:
        """Return whether a head takes too long to arrive."""
        start = self.head_start
        return start is not None and time.monotonic() > start + HEAD_SECONDS

    def adopt(self, body: Body) -> None:
        """Discard input for a while, so that the client sees an early response."""
        with contextlib.suppress(HTTPError, OSError):
            self.socket.shutdown(socket.SHUT_WR)
            self.socket.settimeout(1)
            body.linger()

    def close(self) -> None:
        # cheroot 11 closes connections on which nothing arrives, without a response
        if self.head_start is not None and self.server.ready:
            self.socket.settimeout(0)
            _Request(self.server, self).simple_response("408 Request Timeout")
        try:
            super().close()
        finally:
            with contextlib.suppress(OSError):
                self.wfile.close()


class _Gateway(Gateway_10):
    """Passes on the raw body. Closes the connection if its end was not reached."""

    def __init__(self, req: Any) -> None:
        length = None if req.chunked_read else req.rfile.remaining
        self._body = Body(req.conn.rfile, length, lambda: req.server.ready)
        # cheroot 11 would read the rest of the body before it sends the response
        req.rfile.remaining = 0
        super().__init__(req)
        self.env["rt_frames.body"] = self._body
        self.env["rt_frames.wait_for_body"] = lambda: req.conn.socket.settimeout(
            BODY_SECONDS
        )

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Any:
        if not self._body.ended:
            self.req.close_connection = True
        # how long cheroot keeps an idle connection, as `_Server` sets it
        headers = [*headers, ("Keep-Alive", f"timeout={HEAD_SECONDS}")]
        return super().start_response(status, headers, exc_info)

    def respond(self) -> None:
        super().respond()
        self.req.conn.socket.settimeout(HEAD_SECONDS)
        if not self._body.ended:
            self.req.conn.adopt(self._body)


class _Server(Server):
    ConnectionClass = _Connection
    # how long stopping takes
    expiration_interval = 0.1
    max_request_header_size = MAX_HEADER_BYTES

    def __init__(self, bind: tuple[str, int], application: WSGIApplication) -> None:
        super().__init__(
            bind,
            application,
            request_queue_size=128,
            timeout=HEAD_SECONDS,
            shutdown_timeout=DRAIN_SECONDS,
            server_name="rt_frames",
        )
        self.gateway = _Gateway
        self.requests = Pool(self)

    def process_conn(self, conn: Any) -> None:
        """Hand a connection to a thread once the head of a request has arrived."""
        if conn.has_head():
            super().process_conn(conn)
        elif conn.is_late():
            conn.close()
        else:
            self.put_conn(conn)

    def stop(self) -> None:
        """Stop, and drop the statistics that cheroot 11 keeps of every server."""
        stopped = threading.Event()
        threading.Thread(target=self._abort, args=(stopped,), daemon=True).start()
        try:
            super().stop()
        finally:
            stopped.set()
        logging.statistics.pop(f"Cheroot HTTPServer {id(self)}", None)  # type: ignore[attr-defined]  # made by cheroot

    def _abort(self, stopped: threading.Event) -> None:
        """Abort responses that take too long, until the server has stopped.

        After `DRAIN_SECONDS`, cheroot shuts sockets down for reading alone, so that
        uploads get a response. Then it waits, also for responses that nobody reads.
        """
        while not stopped.wait(2 * DRAIN_SECONDS):
            for thread, conn in _list_responding():
                if thread.server is self:
                    _shut_down(conn)

    def error_log(self, msg: str = "", level: int = 0, traceback: bool = False) -> None:
        log.debug(
            "the embedded service's server, level %s: %s",
            level,
            msg,
            exc_info=traceback,
        )
        error = sys.exc_info()[1]
        if isinstance(error, OSError) and error.errno == errno.EMFILE:
            # no file descriptor is free; accept fails at once until a connection ends
            time.sleep(0.1)
