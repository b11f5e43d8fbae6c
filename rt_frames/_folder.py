"""The embedded service on a folder, run inside this process and shared by all clients of the folder."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from rt_frames._client import Client

if TYPE_CHECKING:
    from pathlib import Path

    from rt_frames.local import LocalService


class FolderClient(Client):
    """A client of the embedded service on a folder."""

    def __init__(self, folder: Path, **options: Any) -> None:
        service = _services.of(folder)
        super().__init__(service.url, api_key=service.api_key, **options)
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def __reduce__(self) -> tuple[Any, ...]:
        return _folder_client, (self._folder, self._options)


def _folder_client(folder: Path, options: dict[str, Any]) -> Client:
    return FolderClient(folder, **options)


class _Services:
    """The embedded services of this process, one a folder."""

    def __init__(self) -> None:
        self._running: dict[tuple[int, Path], LocalService] = {}
        self._lock = threading.Lock()

    def of(self, folder: Path) -> LocalService:
        """Give the folder's service, started when it is asked for the first time."""
        from rt_frames.local import LocalService

        place = os.getpid(), folder.resolve()
        with self._lock:
            if place not in self._running:
                self._running[place] = LocalService(folder).start()
            return self._running[place]


_services = _Services()
