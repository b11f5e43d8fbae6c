"""A Dask frame → its partitions as pandas frames, in order, computed a few ahead and never gathered whole."""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from rt_frames._prefetch import Background, allow_interrupts

MAX_PENDING = 3


def partitions(frame: Any) -> Generator[Any]:
    """Compute on the active cluster, or on local threads; what a partition raises comes out as it is."""
    submit = _submitter()
    allow_interrupts()
    waiting: collections.deque[Any] = collections.deque()
    for part in frame.to_delayed():
        if len(waiting) == MAX_PENDING:
            yield waiting.popleft().result()
        waiting.append(submit(part))
    while waiting:
        yield waiting.popleft().result()


def _submitter() -> Callable[[Any], Any]:
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        try:
            compute: Callable[[Any], Any] = distributed.get_client().compute
        except ValueError:
            pass  # distributed is imported, and no cluster is active
        else:
            return compute
    return _compute_on_a_thread


def _compute_on_a_thread(part: Any) -> Future[Any]:
    future: Future[Any] = Future()

    def compute() -> None:
        try:
            future.set_result(part.compute())
        except BaseException as error:  # noqa: BLE001  # raised where the result is asked for
            future.set_exception(error)

    Background(compute, "partition").start()
    return future
