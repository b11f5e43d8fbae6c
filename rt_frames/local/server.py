"""The server around the application: starts on a free port, stops with the process.

Internals of cheroot that this depends on, each covered by a test in ``tests/local``:

- `ConnectionClass`, `RequestHandlerClass` and `gateway` choose the classes of a server.
- A connection has `rfile`, `wfile`, `socket` and `close`.
- A request has `conn`, `chunked_read` and `close_connection`, reads headers with
  `header_reader` and refuses with `simple_response`. As many bytes as `rfile.remaining`
  says are read before a response is sent.
- A server has `expiration_interval`, `max_request_header_size` and `error_log`, calls
  `process_conn` for a readable connection, clears `ready` when it begins to stop, keeps
  figures in `logging.statistics`.
- Its pool `requests` has `idle`, `qsize` and `grow`. Its threads are `WorkerThread`s,
  with a `server`, and a `conn` while they respond. They are daemons if the thread that
  prepares the server is one.
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

from rt_frames._text import show_value
from rt_frames._threads import end_at_next_interrupt
from rt_frames._version import __version__
from rt_frames.local.body import Body
from rt_frames.local.http_error import HTTPError

log = logging.getLogger("rt_frames")

# threads that wait for requests, besides two of cheroot's; more if bodies are slow
THREADS = 6
MAX_THREADS = 128
# seconds for a whole head, however slowly it arrives
HEAD_SECONDS = 10
# seconds; a client may compute what it sends
BODY_SECONDS = 600
# seconds for a client to send and read once the service stops
LAST_SECONDS = 1
MAX_HEADER_BYTES = 64 * 2**10
_HEADER_NAME = re.compile(rb"[\w!#$%&'*+.^`|~-]+")
_SINGLE_HEADERS = (
    b"Content-Length",
    b"Transfer-Encoding",
    b"Content-Type",
    b"Host",
    b"X-Api-Key",
)


class LocalService:
    """The embedded service on a folder.

    Several services, also of several processes, may run on one folder. The engine has
    threads of its own: a forked process cannot start a service if its parent had one.

    Parameters
    ----------
    root : path
        Where tables live, each as ``ROOT/NAME.lance``; made when it is missing.
    host : str, default "127.0.0.1"
        The address to listen on.
    port : int, default 0
        The port to listen on; 0 takes a free one.
    api_key : str, optional
        The key that requests must carry. Defaults to a random one.
    keep : datetime.timedelta, default one day
        How long a replaced version of a table is kept, for those who still read it or
        want it back; of a table that is overwritten often, at most the last ten
        overwrites. With ``timedelta(0)`` only the newest is kept, and until the next
        write the one before. Parts of a write that nobody completes are kept as long,
        but for an hour at least. Expired data are removed before the next write.

    Raises
    ------
    ValueError
        If the key has other than visible ASCII characters or `keep` is negative.
    TypeError
        If `keep` is no ``datetime.timedelta``.

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
        if api_key is not None and (
            not api_key or not all("!" <= char <= "~" for char in api_key)
        ):
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
        return f"LocalService({str(self.root)!r}, {self.url if self._server else 'not running'})"

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
        """The address, while the service runs.

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
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> Self:
        """Listen, and answer on threads in the background.

        Returns
        -------
        LocalService
            Itself.

        Raises
        ------
        OSError
            If the address cannot be listened on.

        Examples
        --------
        >>> from rt_frames.local import LocalService
        >>> service = LocalService("./tables").start()
        >>> service.close()
        """
        if self._server is None:
            if _processes - {os.getpid()}:
                raise RuntimeError(
                    "the embedded service cannot run in a process forked from one that ran it: its engine does not "
                    "survive a fork. Start processes with multiprocessing's 'spawn', or run rt-frames serve beside "
                    "them and set what it prints, RT_FRAMES_URL and the others"
                )
            _processes.add(os.getpid())
            # imported late: Lance warns at every fork once it is imported
            from rt_frames.local.store import Store
            from rt_frames.local.wsgi import Application

            try:
                store = Store(self.root, self._keep)
                _do_uninterrupted(
                    partial(self._listen, Application(store, self._key, self._bind[0]))
                )
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
                _running.add(server)

    def close(self) -> None:
        """Stop answering; requests on the way are given a second to finish.

        Examples
        --------
        >>> from rt_frames.local import LocalService
        >>> LocalService("./tables").close()
        """
        # not when the process ends
        if self._server is not None and self._server.ready:
            _do_uninterrupted(self._stop)

    def _stop(self) -> None:
        with self._lock:
            server = self._server
            self._server = None
            if server is not None:
                _running.discard(server)
                server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


# the servers
_running: set[Any] = set()
# process ids that ran a service; any other than this was a parent
_processes: set[int] = set()


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
        except BaseException as error:  # noqa: BLE001  # raised by the thread that waits for it
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    done.result()


@atexit.register
def _end_answers() -> None:
    """Wait for responses in progress when the interpreter ends.

    A thread that leaves the engine after that aborts the process. No thread can be
    started here any more, so the servers are not stopped; they end with the process.
    """
    for server in list(_running):
        server.ready = False
    threads: list[Any] = [
        thread for thread in threading.enumerate() if isinstance(thread, WorkerThread)
    ]
    ours = [thread for thread in threads if isinstance(thread.server, _Server)]
    answering = [(thread, conn) for thread in ours if (conn := thread.conn) is not None]
    if answering:
        end_at_next_interrupt()
    until = time.monotonic() + LAST_SECONDS
    for thread, conn in answering:
        while thread.conn is conn and thread.is_alive():
            if time.monotonic() > until:
                with contextlib.suppress(OSError):
                    conn.socket.shutdown(socket.SHUT_RDWR)
            time.sleep(0.01)


class _Request(HTTPRequest):
    """Rejects ambiguous framing (request smuggling), with the usual JSON errors."""

    def parse_request(self) -> None:
        """Read the head, for `HEAD_SECONDS` at most."""
        reader = self.conn.rfile.raw
        sock = self.conn.socket
        reader.deadline = time.monotonic() + HEAD_SECONDS
        try:
            super().parse_request()
        finally:
            reader.deadline = None
            sock.settimeout(HEAD_SECONDS)

    def header_reader(self, rfile: Any, headers: dict[bytes, bytes]) -> None:
        """Read the headers strictly.

        cheroot's own reader takes the last of two, and lengths such as -1, +5 and 1_0.
        """
        values: dict[bytes, list[bytes]] = defaultdict(list)
        while (line := rfile.readline()) != b"\r\n":
            name, colon, value = line.removesuffix(b"\r\n").partition(b":")
            if not (
                line.endswith(b"\r\n") and colon and _HEADER_NAME.fullmatch(name)
            ) or set(value) & set(b"\0\r\n"):
                raise ValueError(
                    "a header is not a name, a colon, a value and a line end; correct it"
                )
            if (name := name.title()) in values and name in _SINGLE_HEADERS:
                raise ValueError(
                    f"the header {name.decode()} is there twice; send it once"
                )
            values[name].append(value.strip(b" \t"))
        headers.update(
            (name, b", ".join(filter(None, lines))) for name, lines in values.items()
        )
        length = headers.get(b"Content-Length")
        coding = headers.get(b"Transfer-Encoding")
        if length is not None and not re.fullmatch(rb"[0-9]{1,18}", length):
            raise ValueError(
                "the Content-Length is not a number of bytes; send digits alone"
            )
        if coding is not None and (
            coding.lower() != b"chunked" or self.response_protocol != "HTTP/1.1"
        ):
            raise ValueError(
                "the Transfer-Encoding is not understood; send 'chunked', with HTTP/1.1"
            )
        if length is not None and coding is not None:
            raise ValueError(
                "Content-Length and Transfer-Encoding exclude each other; send one of them"
            )

    def simple_response(self, status: str, msg: str = "") -> None:
        """Refuse a request and close; the next bytes could pass for another request."""
        self.close_connection = True
        answer = json.dumps(
            {"error": {"code": int(status[:3]), "message": msg or status[4:]}}
        )
        head = (
            f"Content-Type: application/json\r\nContent-Length: {len(answer)}\r\n"
            f"x-rt-frames: {__version__}\r\nConnection: close"
        )
        with contextlib.suppress(OSError):
            self.conn.wfile.write(
                f"HTTP/1.1 {status}\r\n{head}\r\n\r\n{answer}".encode()
            )
            self.conn.adopt(Body(self.conn.rfile, sys.maxsize))


class _DeadlineReader(socket.SocketIO):
    """A socket reader with an optional deadline."""

    deadline: float | None = None

    def readinto(self, b: Any) -> int | None:
        if self.deadline is not None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._sock.settimeout(left)  # type: ignore[attr-defined]  # SocketIO's signature
        return super().readinto(b)


class _Connection(HTTPConnection):
    """Closes both files of its socket.

    cheroot forgets the one for writing, whose finalizer then fails to send the rest.
    """

    RequestHandlerClass = _Request

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rfile._raw = _DeadlineReader(self.socket, "rb")  # noqa: SLF001  # cheroot builds the file from Python's

    def adopt(self, body: Body) -> None:
        """Discard input for a while, so that the client sees an early response."""
        with contextlib.suppress(HTTPError, OSError):
            self.socket.shutdown(socket.SHUT_WR)
            self.socket.settimeout(1)
            body.linger()

    def close(self) -> None:
        try:
            super().close()
        finally:
            with contextlib.suppress(OSError):
                self.wfile.close()


class _Gateway(Gateway_10):
    """Passes on the raw body; closes the connection if it was not read to its end."""

    def __init__(self, req: Any) -> None:
        length = None if req.chunked_read else req.rfile.remaining
        self._body = Body(req.conn.rfile, length, lambda: req.server.ready)
        # the server would read all of the rest before it answers
        req.rfile.remaining = 0
        super().__init__(req)
        self.env["rt_frames.body"] = self._body
        self.env["rt_frames.wait_for_body"] = lambda: req.conn.socket.settimeout(
            BODY_SECONDS
        )

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Any:
        if not self._body.ended:
            self.req.close_connection = True
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
            numthreads=THREADS,
            max=MAX_THREADS,
            request_queue_size=128,
            timeout=HEAD_SECONDS,
            shutdown_timeout=LAST_SECONDS,
            server_name="rt_frames",
        )
        self.gateway = _Gateway

    def process_conn(self, conn: Any) -> None:
        """Hand a connection to a thread, to a new one if all are busy."""
        if self.requests.idle <= self.requests.qsize:
            self.requests.grow(THREADS)
        super().process_conn(conn)

    def stop(self) -> None:
        """Stop, and drop the figures that cheroot keeps of every server."""
        super().stop()
        logging.statistics.pop(f"Cheroot HTTPServer {id(self)}", None)  # type: ignore[attr-defined]  # made by cheroot

    def error_log(self, msg: str = "", level: int = 0, traceback: bool = False) -> None:
        log.debug(
            "the embedded service's server, level %s: %s",
            level,
            msg,
            exc_info=traceback,
        )
        if (
            isinstance(error := sys.exc_info()[1], OSError)
            and error.errno == errno.EMFILE
        ):
            # out of descriptors until a connection ends; polling is the only way
            time.sleep(0.1)
