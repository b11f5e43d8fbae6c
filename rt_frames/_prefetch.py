"""An iterator run one step ahead of its reader, on a thread: the next item is made while one is used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

T = TypeVar("T")


def prefetch(source: Iterator[T]) -> Generator[T]:
    """Give what ``source`` gives, one step ahead.

    What the source raises is raised here. However this ends, the source is closed, on its thread, and the
    thread has ended.
    """
    wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
    made: queue.SimpleQueue[T | _Ended] = queue.SimpleQueue()
    thread = threading.Thread(target=_run, args=(source, wanted, made), name="rt_frames prefetch", daemon=True)
    try:
        thread.start()
        wanted.put(True)
        while not isinstance(step := made.get(), _Ended):
            wanted.put(True)
            yield step
    finally:
        wanted.put(False)
        if thread.is_alive():  # an interrupt may have come before it was
            thread.join()
    if step.error is not None:
        try:
            raise step.error
        finally:
            del step  # a frame that holds its own error would hold the caller's data, too


class _Ended:
    error: BaseException | None = None


def _run(source: Iterator[T], wanted: queue.SimpleQueue[bool], made: queue.SimpleQueue[T | _Ended]) -> None:
    ended = _Ended()
    try:
        while wanted.get():
            made.put(next(source))
    except StopIteration:
        pass
    except BaseException as error:  # noqa: BLE001  # raised where the reader is
        ended.error = error
    try:
        getattr(source, "close", lambda: None)()
    finally:
        made.put(ended)
