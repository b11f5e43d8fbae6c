"""A Dask frame → its partitions, in order, computed a few ahead, never all at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import pyarrow as pa

from rt_frames._threads import parallel_map

MAX_PENDING = 3


class Partition(NamedTuple):
    """One partition. Without a frame, a placeholder that only carries the schema."""

    frame: Any
    number: int
    schema: pa.Schema | None = None
    close: Callable[[], None] = lambda: None


def partitions(frame: Any) -> Generator[Partition]:
    """Yield the partitions, computed on the active cluster or in this process.

    Empty ones are left out, since their columns may have no types yet. If all are
    empty, the last one is yielded.
    """
    computed = parallel_map(
        lambda part: part.compute(), iter(frame.to_delayed()), MAX_PENDING
    )
    has_rows = False
    empty = None
    with contextlib.closing(computed):
        for number, part in enumerate(computed):
            if len(part):
                has_rows = True
                yield Partition(part, number)
            else:
                empty = part
            del part
    if not has_rows:
        yield Partition(empty, 0)
