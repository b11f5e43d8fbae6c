"""The server around the application: starts on a free port, stops with the process."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rt_frames.local._routes import Application
from rt_frames.local._store import Store

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable


class LocalService:
    """The embedded service on a folder.

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
        self, root: str | os.PathLike[str], *, host: str = "127.0.0.1", port: int = 0, api_key: str | None = None
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
        """The key that requests must carry in ``x-api-key``."""
        return self._key

    @property
    def url(self) -> str:
        """The address, once the service runs."""
        if self._server is None:
            raise RuntimeError("the service is not running; use it in a with statement, or call start()")
        host, port = self._server.bind_addr[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> Self:
        """Listen, and answer on threads in the background."""
        from cheroot.wsgi import Server

        with self._lock:
            if self._server is None:
                application = Application(Store(self.root), self._key)
                self._server = Server(
                    self._bind, self._with_host(application), numthreads=16, request_queue_size=128, timeout=60,
                    shutdown_timeout=1, server_name="rt_frames",
                )  # fmt: skip
                self._server.prepare()
                for work in (self._server.serve, self._close_with_the_process):
                    threading.Thread(target=work, daemon=True).start()
        return self

    def _with_host(self, application: Application) -> Callable[..., Iterable[bytes]]:
        def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            environ["rt_frames.host"] = self._bind[0]
            return application(environ, start_response)

        return answer

    def _close_with_the_process(self) -> None:
        """Stop the server's workers, which would keep the interpreter from ending."""
        threading.main_thread().join()
        self.close()

    def close(self) -> None:
        """Stop answering; what is being stored is given a second to finish."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
