"""The embedded service of a folder.

It starts with the folder's first client in a process, and stops after the last.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import secrets
import sys
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rt_frames._http.arguments import ConnectionOptions, Key
from rt_frames._protocol.operations import ABILITIES, FOLDER
from rt_frames._service.service import Service
from rt_frames._text import show_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from rt_frames._http.session import Session
    from rt_frames.local import LocalService


class FolderService(Service):
    """The embedded service of one folder, in this process."""

    repr_suffix = ", embedded service"

    def __init__(
        self, folder: Path, options: ConnectionOptions, *, start: bool = True
    ) -> None:
        self._shown = str(folder)
        # whatever the working directory is later, or in another process
        self._folder = folder.absolute()
        self._release: Callable[[], Any] = lambda: None
        self._reopening = threading.Lock()
        url = self._start() if start else "http://127.0.0.1"
        super().__init__(url, _services_key, options, FOLDER)
        self._session.has_answered = True
        self._session.can = frozenset(ABILITIES)
        self.closed = not start
        # in-process: compression cannot pay
        self.link = None

    def _start(self) -> str:
        key = os.getpid(), Path(os.path.realpath(self._folder))
        try:
            service = _acquire_service(key)
        except OSError as error:
            raise not_a_folder(self._shown, error) from error
        release = weakref.finalize(self, _release_service, key)
        # services stop with the process
        release.atexit = False
        self._release = release
        return service.url

    @property
    def session(self) -> Session:
        with self._reopening:
            if self.closed:
                self._session.base = self._start()
                self.closed = False
        return super().session

    def close(self) -> None:
        # a session reopened meanwhile has a release of its own
        with self._reopening:
            super().close()
            self._release()

    def __str__(self) -> str:
        return self._shown

    def __reduce__(self) -> tuple[Any, ...]:
        # not started here: an exception while unpickling breaks a process pool
        options = dataclasses.replace(self._options, verify=True)
        return functools.partial(FolderService, start=False), (self._folder, options)


# (process, folder) → service and number of clients
_running_services: dict[tuple[int, Path], tuple[LocalService, int]] = {}
# a client may be collected while another is made
_services_lock = threading.RLock()
_services_key = Key(secrets.token_urlsafe(32))
# Windows has no forks
if sys.platform != "win32":
    os.register_at_fork(
        before=_services_lock.acquire,
        after_in_parent=_services_lock.release,
        after_in_child=_services_lock.release,
    )


def _acquire_service(key: tuple[int, Path]) -> LocalService:
    """Return a folder's service; start it for the first client."""
    # the engine is loaded only if a folder is used
    from rt_frames.local import LocalService

    with _services_lock:
        if key in _running_services:
            service, clients = _running_services[key]
            _running_services[key] = service, clients + 1
            return service
    # outside the lock: start() waits for a thread, in which a client's finalizer may
    # want the lock
    _, folder = key
    started = LocalService(folder, api_key=_services_key).start()
    with _services_lock:
        service, clients = _running_services.get(key, (started, 0))
        _running_services[key] = service, clients + 1
    # another thread was faster
    if service is not started:
        started.close()
    return service


def _release_service(key: tuple[int, Path]) -> None:
    """Stop a folder's service after its last client, in the process that started it."""
    with _services_lock:
        service, clients = _running_services.pop(key)
        if clients > 1:
            _running_services[key] = service, clients - 1
    process, _ = key
    if clients == 1 and process == os.getpid():
        service.close()


def not_a_folder(target: str | os.PathLike[str], error: Exception) -> ValueError:
    folder = show_value(os.fspath(target))
    reason = getattr(error, "strerror", None) or error
    return ValueError(
        f"{folder} cannot be a folder of tables: {reason}; choose another"
    )
