"""Ordered work on other threads.

`prefetch` computes the next item while the caller uses one, `parallel_map` computes
several at once.
"""

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
from typing import Any, Self, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_END: Any = object()


class Worker:
    """A thread that makes calls in order.

    Leaving ``with`` joins the thread, except after Ctrl-C.

    This is no executor of `concurrent.futures`, for two reasons. An executor refuses
    calls once the main thread has ended, although uploads on other threads go on. And
    an interrupt in ``Future.result`` may become a RuntimeError, or leave a lock for
    which the thread then waits. A wait for a ``SimpleQueue`` has neither problem, nor
    has its ``put`` as a callback: neither is Python code.

    Parameters
    ----------
    name : str
        A word for the thread's purpose, which is part of the thread's name.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = _Thread(name, self._calls, weakref.ref(self, self._calls.put))
        allow_interrupts()
        try:
            self._thread.start()
        except BaseException as error:
            # an interrupt may keep this object alive, and so the thread
            self._calls.put(None)
            # in its place may come the error of a lock (Python 3.11)
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise

    def submit(
        self, call: Callable[..., Any], *arguments: Any
    ) -> queue.SimpleQueue[Any]:
        """Queue a call. Pass the reply to `result`."""
        reply: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._calls.put((reply, call, arguments))
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: object, error: BaseException | None, _traceback: object
    ) -> None:
        self._calls.put(None)
        while error is not None and not isinstance(error, KeyboardInterrupt):
            error = error.__context__
        if error is None:
            self._thread.join()


class _Thread(threading.Thread):
    def __init__(
        self, name: str, calls: queue.SimpleQueue[Any], worker: weakref.ref[Worker]
    ) -> None:
        super().__init__(name=f"rt_frames {name}", daemon=True)
        self.calls = calls
        # its callback ends this thread when the worker is collected
        self._worker = worker

    def run(self) -> None:
        while _run_call(self.calls.get()):
            pass


def _run_call(task: Any) -> bool:
    """Make one call and keep no reference to it. Return False at the end."""
    # None, or the weak reference to a collected worker, is the end
    if not isinstance(task, tuple):
        return False
    reply, call, arguments = task
    try:
        reply.put((call(*arguments), None))
    except BaseException as error:  # noqa: BLE001  # raised by `result`
        # without this frame, which still runs when `result` raises
        outer = error.__traceback__ and error.__traceback__.tb_next
        reply.put((None, error.with_traceback(outer)))
        # from Python 3.13 on, the frame may outlive the call
        del outer
    del task, reply, call, arguments
    return True


def result(reply: queue.SimpleQueue[Any]) -> Any:
    """Wait for a call. Return its result, or raise its exception."""
    value, error = reply.get()
    if error is None:
        return value
    try:
        raise error
    finally:
        # a reference cycle would keep the caller's data alive
        del error


@atexit.register
def _end_threads() -> None:
    """Join all threads.

    A thread that returns from pyarrow 26 or Polars 2.1 after the interpreter's end
    aborts the process.
    """
    # the oldest first: its call may wait for the calls of the others
    while (thread := _oldest_thread()) is not None:
        end_at_next_interrupt()
        thread.calls.put(None)
        thread.join()


def _oldest_thread() -> _Thread | None:
    for thread in threading.enumerate():
        if isinstance(thread, _Thread) and thread.is_alive():
            return thread
    return None


def end_at_next_interrupt() -> None:
    """Let the next Ctrl-C end the process at once, and flush the output."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for stream in (sys.stdout, sys.stderr):
            # a program without a console has none
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()


def allow_interrupts() -> None:
    """Let Ctrl-C interrupt a wait for a thread.

    Polars 2.1 sets SA_RESTART, with which the system resumes such a wait. Windows has
    no SA_RESTART.
    """
    if sys.platform != "win32":
        signal.siginterrupt(signal.SIGINT, True)


def prefetch(
    source: Iterator[T], is_small: Callable[[T], bool] = lambda _: True
) -> Generator[T]:
    """Yield the items of an iterator, read one step ahead on a thread.

    The item after one that is not small is read once that one was used.

    That thread also closes the iterator, whose exceptions propagate. After a
    KeyboardInterrupt, nobody waits for the running step, which may end late.
    """
    with Worker("prefetch") as worker:
        try:
            reply = worker.submit(next, source, _END)
            while (item := result(reply)) is not _END:
                runs_ahead = is_small(item)
                if runs_ahead:
                    reply = worker.submit(next, source, _END)
                yield item
                del item
                if not runs_ahead:
                    reply = worker.submit(next, source, _END)
        finally:
            worker.submit(getattr(source, "close", lambda: None))


def parallel_map(
    work: Callable[[T], R],
    items: Iterator[T],
    threads: int,
    is_cheap: Callable[[T], bool] = lambda _: False,
) -> Generator[R]:
    """Yield the results of a function for each item, in order.

    Threads work on the next items meanwhile. An exception is raised in its item's
    place.

    Parameters
    ----------
    work : callable
        Called on several threads at once.
    items : iterator
        Read on the calling thread.
    threads : int
        The maximum number of threads. With 1, the calling thread does all work.
    is_cheap : callable
        Whether the calling thread does an item itself, if all before it are finished.
    """
    if threads < 2:
        yield from map(work, items)
        return
    replies: collections.deque[queue.SimpleQueue[Any]] = collections.deque()
    ended = threading.Event()
    failed: list[Exception] = []

    def work_unless_ended(item: T) -> R | None:
        return None if ended.is_set() else work(item)

    with contextlib.ExitStack() as stack:
        workers = _Workers(threads, stack)
        ahead = 1
        try:
            for item in _until_error(items, failed):
                if not replies and is_cheap(item):
                    yield work(item)
                    continue
                replies.append(workers.next().submit(work_unless_ended, item))
                del item
                # results that nobody uses yet only take memory
                while len(replies) > ahead:
                    if replies[0].empty():
                        ahead = min(ahead + 1, threads)
                    else:
                        ahead = max(ahead - 1, 1)
                    yield result(replies.popleft())
            while replies:
                yield result(replies.popleft())
            if failed:
                raise failed.pop()
        finally:
            ended.set()


class _Workers:
    """Workers in rotation, each started on first use."""

    def __init__(self, limit: int, stack: contextlib.ExitStack) -> None:
        self._limit = limit
        self._stack = stack
        self._workers: collections.deque[Worker] = collections.deque()

    def next(self) -> Worker:
        if len(self._workers) < self._limit:
            worker = self._stack.enter_context(Worker("worker"))
        else:
            worker = self._workers.popleft()
        self._workers.append(worker)
        return worker


def _until_error(items: Iterator[T], failed: list[Exception]) -> Iterator[T]:
    """Yield items until an exception, which goes to ``failed`` instead."""
    try:
        yield from items
    except Exception as error:  # noqa: BLE001  # raised in its place
        failed.append(error)
