"""The threads of the embedded service's server, which end when they are idle.

cheroot's own pool only grows. It asks of a pool what `Pool` has.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import threading
import time
from collections import deque
from typing import Any

from cheroot.workers import threadpool

# cheroot's sign that a thread shall end
END: Any = threadpool._SHUTDOWNREQUEST  # type: ignore[attr-defined]  # noqa: SLF001  # of cheroot 11
MAX_THREADS = 128
IDLE_SECONDS = 5


def _return_memory() -> None:
    """Return memory that glibc keeps of requests, such as Lance's, to the system."""
    # other C libraries have no such function
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class Pool:
    """Starts a thread for each connection for which none is idle.

    Parameters
    ----------
    server : cheroot.server.HTTPServer
        The server, whose connections the threads respond to.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._changed = threading.Condition()
        self._queue: deque[Any] = deque()
        self._threads: set[Any] = set()
        self.idle = 0

    def start(self) -> None:
        """Do nothing: threads start with connections."""

    @property
    def qsize(self) -> int:
        """The number of connections that wait for a thread."""
        return len(self._queue)

    def put(self, connection: Any) -> None:
        """Hand a connection to a thread."""
        with self._changed:
            self._queue.append(connection)
            self._changed.notify()
            if self.idle < len(self._queue) and len(self._threads) < MAX_THREADS:
                thread: Any = threadpool.WorkerThread(self._server)  # type: ignore[no-untyped-call]  # of cheroot
                # cheroot 11 keeps figures by name, of threads that ended, too
                thread.name = "rt_frames server"
                thread.start()
                self._threads.add(thread)

    def get(self) -> Any:
        """Return the next connection, or `END` to a thread that was idle for long."""
        with self._changed:
            self.idle += 1
            is_there = self._changed.wait_for(lambda: self._queue, IDLE_SECONDS)
            self.idle -= 1
            if is_there:
                return self._queue.popleft()
            self._threads.discard(threading.current_thread())
        _return_memory()
        return END

    def stop(self, timeout: float) -> None:
        """End all threads. After the timeout, they read no more of their requests."""
        deadline = time.monotonic() + timeout
        with self._changed:
            threads = list(self._threads)
            self._queue.extend([END] * len(threads))
            self._changed.notify_all()
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0))
            connection = thread.conn
            if thread.is_alive() and connection is not None:
                with contextlib.suppress(OSError):
                    connection.socket.shutdown(socket.SHUT_RD)
            thread.join()
