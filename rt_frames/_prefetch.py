"""An iterator run a few steps ahead of its reader, on a thread: the next item is made while one is used."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

T = TypeVar("T")


def prefetch(source: Iterator[T], steps: int = 1) -> Generator[T]:
    """Give what ``source`` gives, made at most so many steps ahead.

    What the source raises is raised here. However this ends, the source is closed, on its thread, and the
    thread has ended.
    """
    wanted: queue.SimpleQueue[None] = queue.SimpleQueue()
    made: queue.SimpleQueue[T | _Ended] = queue.SimpleQueue()
    stop = threading.Event()
    thread = threading.Thread(target=_run, args=(source, wanted, stop, made), name="rt_frames prefetch", daemon=True)
    try:
        thread.start()
        for _ in range(steps):
            wanted.put(None)
        while not isinstance(step := made.get(), _Ended):
            wanted.put(None)
            yield step
    finally:
        stop.set()
        wanted.put(None)
        if thread.is_alive():
            thread.join()
    if step.error is not None:
        try:
            raise step.error
        finally:
            del step  # a frame that holds its own error would hold the caller's data, too


class _Ended:
    error: BaseException | None = None


def _run(
    source: Iterator[T], wanted: queue.SimpleQueue[None], stop: threading.Event, made: queue.SimpleQueue[T | _Ended]
) -> None:
    ended = _Ended()
    try:
        while wanted.get() is None and not stop.is_set():
            made.put(next(source))
    except StopIteration:
        pass
    except BaseException as error:  # noqa: BLE001  # raised where the reader is
        ended.error = error
    try:
        getattr(source, "close", lambda: None)()
    finally:
        made.put(ended)
