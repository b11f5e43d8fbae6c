"""A Dask frame → its partitions as pandas frames, in order, computed a few ahead and never gathered whole."""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

MAX_PENDING = 3


def partitions(frame: Any) -> Generator[Any]:
    """Compute on the active cluster, or on local threads; what a partition raises comes out as it is."""
    with ExitStack() as stack:
        submit = _submitter(stack)
        waiting: collections.deque[Any] = collections.deque()
        for part in frame.to_delayed():
            waiting.append(submit(part))
            if len(waiting) > MAX_PENDING:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _submitter(stack: ExitStack) -> Callable[[Any], Any]:
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        try:
            compute: Callable[[Any], Any] = distributed.get_client().compute
        except ValueError:
            pass  # distributed is imported, and no cluster is active
        else:
            return compute
    pool = ThreadPoolExecutor(MAX_PENDING)
    stack.callback(pool.shutdown, cancel_futures=True)
    return lambda part: pool.submit(part.compute)
