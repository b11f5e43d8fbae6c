"""Work on other threads, in order: `prefetch` makes the next item while one is used, `parallel_map` makes several."""

from __future__ import annotations

import atexit
import collections
import contextlib
import queue
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any, Self, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_END: Any = object()


class Worker:
    """One thread, which makes calls in order; `with` waits for its end, unless Ctrl-C is on its way.

    `concurrent.futures.ThreadPoolExecutor` refuses calls once the main thread has ended, while uploads on other threads
    go on.

    Parameters
    ----------
    name : str
        What the thread is for.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # an interrupt may leave this object anywhere; in a finalizer written in Python, one would be ignored
        self._thread = _Thread(name, self._calls, weakref.ref(self, self._calls.put))
        allow_interrupts()
        self._thread.start()

    def submit(self, call: Callable[..., R], *arguments: Any) -> Future[R]:
        """Have a function called after those before it."""
        future: Future[R] = Future()
        self._calls.put((future, call, arguments))
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._calls.put(None)
        while error is not None and not isinstance(error, KeyboardInterrupt):
            error = error.__context__
        if error is None:
            self._thread.join()


class _Thread(threading.Thread):
    def __init__(self, name: str, calls: queue.SimpleQueue[Any], _gone: Any) -> None:
        super().__init__(name=f"rt_frames {name}", daemon=True)
        self.calls, self._gone = calls, _gone

    def run(self) -> None:
        while _make(self.calls.get()):
            pass


def _make(task: Any) -> bool:
    """Make one call, of which no reference stays here; return whether it was one."""
    if not isinstance(task, tuple):
        return False
    future, call, arguments = task
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(call(*arguments))
        except BaseException as error:  # noqa: BLE001  # raised where the result is asked for
            future.set_exception(error)
    del task, future, call, arguments
    return True


@atexit.register
def _end_threads() -> None:
    """Wait for what threads are at: one that comes out of Arrow or Polars after the interpreter's end aborts it."""
    while threads := [one for one in threading.enumerate() if isinstance(one, _Thread) and one.is_alive()]:
        end_at_next_interrupt()
        threads[0].calls.put(None)  # the oldest may need the others
        threads[0].join()


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
    """Yield the items of an iterator, which is read one step ahead and closed, all on one thread of its own.

    Exceptions of the source propagate. After a KeyboardInterrupt the step on the way ends on its own, maybe late.
    """
    coming: collections.deque[Future[T]] = collections.deque()
    with Worker("prefetch") as worker:
        try:
            coming.append(worker.submit(next, source, _END))
            while (item := coming.popleft().result()) is not _END:
                coming.append(worker.submit(next, source, _END))
                yield item
                del item
        finally:
            worker.submit(getattr(source, "close", lambda: None))


def parallel_map(
    work: Callable[[T], R], items: Iterator[T], threads: int, is_cheap: Callable[[T], bool] = lambda _: False
) -> Generator[R]:
    """Yield the results of a function for each item, in order, while threads are at those behind it.

    Exceptions propagate, each in its item's place.

    Parameters
    ----------
    work : callable
        Called on several threads at once.
    items : iterator
        Read on this thread.
    threads : int
        How many at most; with one, all is done on this thread.
    is_cheap : callable
        Whether an item is done on this thread, where nothing before it is on its way.
    """
    if threads < 2:
        yield from map(work, items)
        return
    coming: collections.deque[Future[R]] = collections.deque()
    workers: collections.deque[Worker] = collections.deque()
    ahead = 1
    with contextlib.ExitStack() as stack:
        try:
            for item in items:
                if not coming and is_cheap(item):
                    yield work(item)
                    continue
                started = len(workers) == threads
                workers.append(workers.popleft() if started else stack.enter_context(Worker("worker")))
                coming.append(workers[-1].submit(work, item))
                del item
                while len(coming) > ahead:
                    # results that nobody waits for only take memory
                    ahead = max(ahead - 1, 1) if coming[0].done() else min(ahead + 1, threads)
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            for future in coming:
                future.cancel()
