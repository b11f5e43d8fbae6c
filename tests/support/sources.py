"""A generator to upload, which records its position and whether it was closed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = pa.record_batch({"a": np.arange(2**17)})  # 1 MiB


class Source:
    """Yield ``count`` items by their numbers, or endlessly; then raise ``error``."""

    def __init__(
        self,
        count: int | None = 8,
        error: BaseException | None = None,
        make: Callable[[int], Any] = lambda number: BATCH,
    ) -> None:
        self.made = 0
        self.closed = False
        self._count = count
        self._error = error
        self._make = make

    def run(self) -> Iterator[Any]:
        try:
            for number in (
                itertools.count() if self._count is None else range(self._count)
            ):
                self.made += 1
                yield self._make(number)
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True
