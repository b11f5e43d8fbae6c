"""One iterator a few steps ahead of its reader, on a thread of its own: receiving goes on while storing works."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

STEPS = 2
_END = object()


def ahead(source: Iterator[Any]) -> Generator[Any]:
    """Give what ``source`` gives; what it raises is raised here."""
    waiting: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(STEPS)
    stop = threading.Event()

    def put(item: Any, error: BaseException | None = None) -> None:
        while not stop.is_set():
            try:
                waiting.put((item, error), timeout=0.1)
            except queue.Full:
                continue
            return

    def run() -> None:
        try:
            for item in source:
                put(item)
                if stop.is_set():
                    return
            put(_END)
        except BaseException as error:  # noqa: BLE001  # raised where the reader is
            put(_END, error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while (got := waiting.get())[0] is not _END:
            yield got[0]
        if got[1] is not None:
            raise got[1]
    finally:
        stop.set()
        thread.join()
