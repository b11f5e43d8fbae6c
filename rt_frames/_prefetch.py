"""Iterators that work on other threads than their reader's: the next item is made while one is used.

`prefetch` runs an iterator one step ahead. `parallel_map` makes something of each item on several threads, in order.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import queue
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Background(threading.Thread):
    """A thread that nobody waits for but the end of the interpreter; ``stop`` asks it to end after what it is at."""

    def __init__(self, run: Callable[[], None], name: str, stop: Callable[[], Any] = lambda: None) -> None:
        super().__init__(target=run, name=f"rt_frames {name}", daemon=True)
        self.stop = stop


@atexit.register
def _end_threads() -> None:
    """Wait for what threads are at: one that comes out of Arrow or Polars after the interpreter's end aborts it."""
    threads = [thread for thread in threading.enumerate() if isinstance(thread, Background)]
    if threads:
        end_at_next_interrupt()
    for thread in threads:
        thread.stop()
    for thread in threads:
        if thread.is_alive():  # an interrupt may have come while it was started
            thread.join()


def end_at_next_interrupt() -> None:
    """Let another Ctrl-C end the process as it ends programs in other languages, at once; what was printed is shown."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for printed in filter(None, (sys.stdout, sys.stderr)):
            with contextlib.suppress(OSError, ValueError):
                printed.flush()


def allow_interrupts() -> None:
    """Let Ctrl-C end a wait for a thread; Polars has the system take such a wait up again, as Python never does."""
    signal.siginterrupt(signal.SIGINT, True)


def prefetch(source: Iterator[T]) -> Generator[T]:
    """Yield what ``source`` yields, one step ahead.

    What the source raises is raised here. However this ends, the source is closed, on its thread. By then the thread
    has ended, save after a KeyboardInterrupt: it ends after the step that it is at, which may take long.
    """
    wanted: queue.SimpleQueue[Any] = queue.SimpleQueue()
    made: queue.SimpleQueue[T | _Ended] = queue.SimpleQueue()
    reader = _Reader()
    # an interrupt may come at any place, also where things are cleaned up: the end of this frame then puts what is not
    # True; and `threading` keeps a thread for ever whose start was interrupted, so that it is not given the source yet
    gone = weakref.ref(reader, wanted.put)
    thread = Background(lambda: _run(wanted, made, gone), "prefetch", lambda: wanted.put(False))
    allow_interrupts()
    try:
        thread.start()
        wanted.put(source)
        wanted.put(True)
        while not isinstance(step := made.get(), _Ended):
            wanted.put(True)
            yield step
    finally:
        wanted.put(False)
        if thread.is_alive() and not _is_interrupted(sys.exception()):
            thread.join()
        del reader
    if step.error is not None:
        try:
            raise step.error
        finally:
            del step  # a frame that holds its own error would hold the caller's data, too


class _Reader:
    """Alive while somebody reads."""


class _Ended:
    error: BaseException | None = None


def _is_interrupted(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _run(wanted: queue.SimpleQueue[Any], made: queue.SimpleQueue[Any], _gone: Any) -> None:
    ended, source = _Ended(), wanted.get()
    try:
        while wanted.get() is True:
            made.put(next(source))
        ended.error = RuntimeError("the interpreter ends")  # whoever reads must not take this for the source's end
    except StopIteration:
        pass
    except BaseException as error:  # noqa: BLE001  # raised where the reader is
        ended.error = error
    try:
        getattr(source, "close", lambda: None)()
    finally:
        made.put(ended)


def parallel_map(
    start: Callable[[], Callable[[T], R]], items: Iterator[T], threads: int, is_cheap: Callable[[T], bool]
) -> Generator[R]:
    """Yield what a function makes of each item, in order, while threads are at those behind it.

    What is made of an item may raise, and is raised in its place. By the end, however it comes, the threads have ended,
    each after the item that it is at. To be read on a thread that no interrupt reaches, as `prefetch` does it.

    Parameters
    ----------
    start : callable
        Gives a function for one thread.
    items : iterator
        Read on this thread; one is let go of when it was made.
    threads : int
        How many at most; with one all is made on this thread.
    is_cheap : callable
        Tells of an item that it is made at once on this thread, where no other is at work.
    """
    if threads < 2:
        yield from map(start(), items)
        return
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    coming: collections.deque[queue.SimpleQueue[Any]] = collections.deque()
    workers: list[Background] = []
    here, ahead = start(), 1
    try:
        for item in items:
            if not coming and is_cheap(item):
                yield here(item)
                continue
            coming.append(queue.SimpleQueue())
            asked.put((item, coming[-1]))
            del item
            if len(workers) < min(len(coming), threads):
                worker = Background(functools.partial(_work, asked, start()), "worker")
                worker.start()
                workers.append(worker)
            while len(coming) > ahead:
                # who waits tells how many are made ahead: those that are made already only take memory
                ahead = min(ahead + 1, threads) if coming[0].empty() else max(ahead - 1, 1)
                yield _made(coming.popleft())
        while coming:
            yield _made(coming.popleft())
    finally:
        with contextlib.suppress(queue.Empty):
            while True:
                asked.get_nowait()
        for _ in workers:
            asked.put(None)
        for worker in workers:
            worker.join()


def _work(asked: queue.SimpleQueue[Any], work: Callable[[Any], Any]) -> None:
    while (task := asked.get()) is not None:
        item, made = task
        del task
        try:
            made.put((work(item), None))
        except BaseException as error:  # noqa: BLE001  # raised where the reader is
            made.put((None, error))
        del item, made  # before it waits for the next


def _made(coming: queue.SimpleQueue[Any]) -> Any:
    result, error = coming.get()
    if error is None:
        return result
    try:
        raise error
    finally:
        del error  # a frame that holds its own error would hold the caller's data, too
