"""A Dask frame → its partitions as pandas frames, in order, computed a few ahead and never gathered whole."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from rt_frames._prefetch import parallel_map

MAX_PENDING = 3


def partitions(frame: Any) -> Generator[Any]:
    """Compute as Dask is set up, on the active cluster or here; exceptions of a partition propagate."""
    return parallel_map(lambda part: part.compute(), iter(frame.to_delayed()), MAX_PENDING)
