"""The server around the application: starts on a free port, stops with the process."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import secrets
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rt_frames.local.body import Body, Chunked, Sized
from rt_frames.local.http_error import Problem
from rt_frames.local.store import Store
from rt_frames.local.wsgi import Application

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("rt_frames")

THREADS = 32
SILENCE_SECONDS = 600  # a client that computes what it sends may take its time
MOST_HEADERS = 64 * 2**10


class LocalService:
    """The embedded service on a folder.

    Several services, also of several processes, may run on one folder. The engine has threads of its own:
    in a forked process the service refuses to start where its parent had started one.

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

    Examples
    --------
    >>> import tempfile
    >>> import rt_frames as rt
    >>> from rt_frames.local import LocalService
    >>> with tempfile.TemporaryDirectory() as folder, LocalService(folder) as service:
    ...     rt.connect(service.url, api_key=service.api_key, default=False).list_tables()
    []
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        api_key: str | None = None,
    ) -> None:
        if api_key is not None and (not api_key or not all("!" <= char <= "~" for char in api_key)):
            raise ValueError("api_key: expected visible ASCII characters without spaces, at least one")
        self.root = Path(root).expanduser()
        self._bind = host, port
        self._key = api_key or secrets.token_urlsafe(32)
        self._server: Any = None
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
            raise RuntimeError("the service is not running; use it in a with statement, or call start()")
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
        with self._lock:
            if self._server is None:
                _running.check_process()
                application = Application(Store(self.root), self._key, self._bind[0])
                server = _server(self._bind, application)
                server.prepare()
                threading.Thread(target=server.serve, daemon=True).start()
                self._server = server
                _running.add(self)
        return self

    def close(self) -> None:
        """Stop answering; requests on the way are given a second to finish.

        Examples
        --------
        >>> from rt_frames.local import LocalService
        >>> LocalService("./tables").close()
        """
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            _running.discard(self)
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


class _Running:
    """The services of this process; the interpreter would wait for their threads for ever."""

    def __init__(self) -> None:
        self._services: set[LocalService] = set()
        self._process: int | None = None

    def check_process(self) -> None:
        if self._process not in (None, os.getpid()):
            raise RuntimeError(
                "the embedded service cannot run in a process forked from one that ran it: its engine does not "
                "survive a fork. Start processes with multiprocessing's 'spawn', or connect to the parent's URL"
            )

    def add(self, service: LocalService) -> None:
        self._services.add(service)
        if self._process is None:
            self._process = os.getpid()
            threading.Thread(target=self._close_with_the_process, daemon=True).start()

    def discard(self, service: LocalService) -> None:
        self._services.discard(service)

    def _close_with_the_process(self) -> None:
        threading.main_thread().join()
        for service in list(self._services):
            service.close()


_running = _Running()


def _server(bind: tuple[str, int], application: Application) -> Any:
    from cheroot.wsgi import Server

    server: Any = Server(
        bind, application, numthreads=THREADS, request_queue_size=128, timeout=SILENCE_SECONDS,
        shutdown_timeout=1, server_name="rt_frames",
    )  # fmt: skip
    server.expiration_interval = 0.1  # how long stopping takes
    server.gateway = _gateway()
    server.max_request_header_size = MOST_HEADERS
    server.error_log = _log_error
    return server


def _log_error(msg: str = "", level: int = 0, traceback: bool = False) -> None:
    log.debug("the embedded service's server, level %s: %s", level, msg, exc_info=traceback)


@functools.cache
def _gateway() -> Callable[[Any], Any]:
    """Make the server's way to the application, which gives it the body as it is on the wire."""
    from cheroot import wsgi

    base: Any = wsgi.Gateway_10

    class Gateway(base):  # type: ignore[misc]  # cheroot is untyped
        """Hands over the body, and closes a connection whose body was not read to its end."""

        def __init__(self, req: Any) -> None:
            left = getattr(req.rfile, "remaining", 0)
            self._body = Body(Chunked(req.conn.rfile) if req.chunked_read else Sized(req.conn.rfile, max(left, 0)))
            req.rfile.remaining = 0  # the server would take in what is left, whole, before it answers
            super().__init__(req)

        def get_environ(self) -> dict[str, Any]:
            return {**super().get_environ(), "rt_frames.body": self._body}

        def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Any:
            if not self._body.ended:
                self.req.close_connection = True
            return super().start_response(status, headers, exc_info)

        def respond(self) -> None:
            super().respond()
            if not self._body.ended:
                with contextlib.suppress(Problem, OSError):
                    self.req.conn.socket.shutdown(socket.SHUT_WR)
                    self.req.conn.socket.settimeout(1)
                    self._body.linger()

    return Gateway
