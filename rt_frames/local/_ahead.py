"""Batches a few steps ahead of their reader, on a thread of their own: receiving goes on while storing works."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pyarrow as pa

MOST_BYTES = 16 * 2**20  # more would not be faster: memory that was just used is the quickest to fill


def ahead(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
    """Give the same batches; what their source raises is raised here."""
    line = _Line()
    thread = threading.Thread(target=line.fill, args=(batches,), daemon=True)
    thread.start()
    try:
        while (batch := line.take()) is not None:
            yield batch
    finally:
        line.close()
        thread.join()
    if line.error is not None:
        raise line.error


class _Line:
    """Batches that wait; as many bytes of them as are allowed, but always one."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._changed = threading.Condition()
        self._waiting: deque[tuple[pa.RecordBatch, int]] = deque()
        self._bytes, self._over = 0, False

    def fill(self, batches: Iterator[pa.RecordBatch]) -> None:
        try:
            for batch in batches:
                if not self._put(batch):
                    break
        except BaseException as error:  # noqa: BLE001  # raised where the reader is
            self.error = error
        self.close()

    def _put(self, batch: pa.RecordBatch) -> bool:
        size = batch.get_total_buffer_size()
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._bytes == 0 or self._bytes + size <= MOST_BYTES)
            self._waiting.append((batch, size))
            self._bytes += size
            self._changed.notify_all()
            return not self._over

    def take(self) -> pa.RecordBatch | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._over)
            if not self._waiting:
                return None
            batch, size = self._waiting.popleft()
            self._bytes -= size
            self._changed.notify_all()
            return batch

    def close(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
