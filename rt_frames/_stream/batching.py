"""A batch has up to 16 MiB, or 4 MiB if it is compressed or one of the first four.

The last of a chunk may have twice that, which saves a short one. Each has at least one
row and 16 KiB for each column, unless its chunk has less. Chunks of up to 256 rows and
4 KiB are joined, up to 1,024 that come within 0.1 seconds. A part of a multipart write
has as many batches as the service's limit allows.

All sizes are of the data in memory, before compression. What adapts stays below them:

- `CompressionPolicy` chooses sizes from 2 MiB on, and begins with 256 KiB on loopback.
  The three batches that probe a link may have less than 16 KiB for each column.
- Ranges of a chunk whose values must be converted have 8 MiB, and if several threads
  convert them, share 20 MiB. Uncompressed batches are such ranges.

`Source` cuts chunks before they are read, so that only a range of them is in memory.
`IPCStream` joins slices, which must be converted for that, and cuts them again to the
size that suits the link. Both use `cut`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, Self, TypeVar

import pyarrow as pa

from rt_frames._values.convert import Converter

# 16 MiB: the overhead of a batch no longer shows, and two or three fit into the memory
# that an upload may take
TARGET_BATCH_BYTES = 16 * 2**20
# chunks up to this size are not split: their rest would be a batch of few rows
MAX_BATCH_BYTES = 2 * TARGET_BATCH_BYTES
# 2 MiB: in smaller batches, the overhead shows
MIN_BATCH_BYTES = 2 * 2**20
# 4 MiB: compressed batches, and the first ones
SMALL_BATCH_BYTES = 2 * MIN_BATCH_BYTES
FIRST_BATCHES = TARGET_BATCH_BYTES // SMALL_BATCH_BYTES
# 256 KiB: the first batches to an address on this machine, which may be a tunnel: data
# that is sent uncompressed before the tunnel is recognised costs time
LOOPBACK_BATCH_BYTES = 2**18
# 16 KiB per column and batch: each column has a fixed cost, which shows in wide tables
COLUMN_BYTES = 2**14
# 20 MiB that all threads together convert or keep ready, besides the batch being sent
WORK_BYTES = 20 * 2**20
# 4 KiB, and 256 rows: smaller batches are joined with those that follow; smaller
# buffers are written together
JOINED_BYTES = 2**12
JOINED_ROWS = 2**8
# small batches that are joined, and the seconds that the first waits for the others
MAX_PENDING = 2**10
PENDING_SECONDS = 0.1
# a remainder of up to half a batch joins the last one
MAX_STRETCH = 1.5


class Chunk(NamedTuple):
    """Rows that lie in memory, from ``start`` on.

    ``make_batches(start, rows, columns)`` makes batches of a range of rows, with the
    named columns or (None) all of them.
    """

    rows: int
    nbytes: int
    make_batches: Callable[[int, int, list[str] | None], Iterable[pa.RecordBatch]]
    origin: str = ""
    start: int = 0

    def slice(self, start: int, length: int) -> Chunk:
        """Return ``length`` of the rows."""
        return self._replace(
            rows=length,
            nbytes=self.nbytes * length // max(self.rows, 1),
            start=self.start + start,
        )


class Slice(NamedTuple):
    """Some rows of a source.

    ``origin`` (an item or partition) and the rows before these in it locate a row in
    errors. ``version`` is that of the dictionaries of converted rows.
    """

    batch: pa.RecordBatch
    origin: str
    nbytes: int
    rows_before: int
    version: int = 0

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.batch.num_rows)

    def slice(self, start: int, length: int) -> Slice:
        """Return ``length`` of the rows."""
        return self._replace(
            batch=self.batch.slice(start, length),
            nbytes=self.nbytes * length // max(self.rows, 1),
            rows_before=self.rows_before + start,
        )

    def converted(self, convert: Converter) -> Slice:
        """Return the rows in the schema to send."""
        batch = convert(self.batch, self.origin, self.rows_before)
        return self._replace(batch=batch, version=convert.dictionaries.version)


class _Piece(Protocol):
    """A chunk or a slice."""

    @property
    def rows(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def slice(self, start: int, length: int) -> Self: ...


_PieceT = TypeVar("_PieceT", bound=_Piece)


def cut(
    pieces: Iterable[_PieceT], next_bytes: Callable[[_PieceT], int]
) -> Iterator[_PieceT]:
    """Cut each piece into about as many bytes as is asked for, at least one row.

    ``next_bytes(piece)`` is asked for each of them.
    """
    for piece in pieces:
        total = piece.rows
        start = 0
        while True:
            limit = next_bytes(piece)
            length = max(1, total * limit // max(piece.nbytes, limit))
            if total - start <= MAX_STRETCH * length:
                break
            yield piece.slice(start, length)
            start += length
        if start:
            piece = piece.slice(start, total - start)  # noqa: PLW2901  # the whole one is released
        yield piece
        # a frame is released before the next is asked for: each may be large
        del piece


def join(
    slices: Iterable[Slice], convert: Converter | None, *, waits: bool
) -> Iterator[Slice]:
    """Join small slices in quick succession, but not the first of all.

    ``convert`` converts them, if they are not in the schema to send. ``waits`` is
    whether the next one may come late.
    """
    pending = list[Slice]()
    since = time.monotonic()
    for number, rows in enumerate(slices):
        is_small = number > 0 and _is_small(rows)
        if is_small and convert:
            rows = rows.converted(convert)  # noqa: PLW2901  # the unconverted is released
        if pending:
            is_late = waits and time.monotonic() - since > PENDING_SECONDS
            is_full = len(pending) == MAX_PENDING
            is_new_version = rows.version != pending[0].version
            if not is_small or is_late or is_full or is_new_version:
                yield _joined(pending)
                pending.clear()
        if is_small:
            if not pending:
                since = time.monotonic()
            pending.append(rows)
        else:
            yield rows
        del rows
    if pending:
        yield _joined(pending)


def _is_small(rows: Slice) -> bool:
    if rows.rows > JOINED_ROWS:
        return False
    return rows.nbytes <= JOINED_BYTES or nbytes(rows.batch) <= JOINED_BYTES


def _joined(slices: list[Slice]) -> Slice:
    if len(slices) == 1:
        return slices[0]
    batch = pa.concat_batches([rows.batch for rows in slices])
    return slices[0]._replace(batch=batch, nbytes=sum(rows.nbytes for rows in slices))


def least_bytes(columns: int) -> int:
    """Return the size of a batch from which the fixed cost of columns does not show."""
    return min(COLUMN_BYTES * columns, TARGET_BATCH_BYTES)


def nbytes(
    data: pa.RecordBatch | pa.Table | pa.ChunkedArray, exact: bool = True
) -> int:
    """Return the bytes that the rows themselves take.

    Of views, pyarrow 21 knows only the size of the buffers. As counting takes long for
    wide tables, the buffers of small data count in full unless ``exact``.
    """
    if not exact:
        size = int(data.get_total_buffer_size())
        if size <= TARGET_BATCH_BYTES:
            return size
    try:
        return int(data.nbytes)
    except pa.ArrowTypeError:
        return int(data.get_total_buffer_size())
