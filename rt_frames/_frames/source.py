"""A `Source`: the data to send, as a schema in portable types and record batches.

Each library's module makes one of its frames. A source has chunks (frames, partitions
or record batches), which are sliced here to the size of a batch; `ipc.py` slices again
to the size that suits the link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from rt_frames._frames.batch_sizes import (
    COLUMN_BYTES,
    MAX_BATCH_BYTES,
    SMALL_BATCH_BYTES,
    TARGET_BATCH_BYTES,
)
from rt_frames._frames.convert import Converter
from rt_frames._frames.layout import Layout
from rt_frames._frames.refusals import Refusals
from rt_frames._frames.upsert_keys import KeyCheck
from rt_frames._names import CleanLabels
from rt_frames.errors import UnsupportedTypeError

_UNKNOWN = Layout(pa.schema([]))


class Chunk(NamedTuple):
    """Rows that lie in memory.

    ``make_batches(start, length, columns)`` makes batches of a range of rows, with the
    named columns or (None) all of them.
    """

    rows: int
    nbytes: int
    make_batches: Callable[[int, int, list[str] | None], Iterable[pa.RecordBatch]]
    origin: str = ""


@dataclass(frozen=True)
class OpenOptions:
    """How the frames of one call are opened, for an existing ``table`` or a new one.

    Rows have no null in their ``keys``, and no two rows have the same keys. With
    ``exact``, ``casts`` round no fractions either.
    """

    casts: Mapping[str, pa.DataType] = field(default_factory=dict)
    keep_index: bool | None = None
    clean: CleanLabels | None = None
    add_columns: bool = False
    keys: tuple[str, ...] = ()
    table: pa.Schema | None = None
    exact: bool = False


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

    def slice(self, start: int, length: int | None = None) -> Slice:
        """Return ``length`` of the rows, or all from ``start`` on."""
        rows = self.batch.slice(start, length)
        size = self.nbytes * rows.num_rows // max(self.batch.num_rows, 1)
        return self._replace(
            batch=rows, nbytes=size, rows_before=self.rows_before + start
        )

    def converted(self, convert: Converter) -> Slice:
        """Return the rows in the schema to send."""
        batch = convert(self.batch, self.origin, self.rows_before)
        return self._replace(batch=batch, version=convert.dictionaries.version)


@dataclass(frozen=True)
class Source:
    """The data to send.

    Parameters
    ----------
    schema : pyarrow.Schema
        The schema to send; until `open_source` has made it portable, the library's.
    layout : Layout
        The layout to send, once `open_source` has made it.
    chunks : callable
        Returns the rows; may be called again only if ``replayable``.
    rows, nbytes : int or None
        Size in memory; None if unknown.
    replayable : bool
        Whether the data can be read a second time.
    zero_copy : bool
        Whether the data lies in memory about as it is sent: reading it makes no Python
        objects, and parses and computes nothing.
    caller_thread_only : bool
        Whether chunks must be read on the caller's thread: a generator may use objects
        that belong to that thread.
    value_checked : set of str
        Columns that may have single values that cannot be sent.
    casts : dict of str to pyarrow.DataType
        Types that the caller asked for, or that a table has.
    exact : set of str
        Columns to cast without rounding fractions.
    appends : bool
        Whether the exact columns are cast to the types of a table, to add rows to it.
    keys : tuple of str
        Key columns that are still to be checked, while the rows are converted.
    close : callable
        Releases a generator or reader, whether it was read or not.
    """

    schema: pa.Schema
    chunks: Callable[[], Iterable[Chunk]]
    rows: int | None = None
    nbytes: int | None = None
    replayable: bool = True
    zero_copy: bool = True
    caller_thread_only: bool = False
    value_checked: frozenset[str] = frozenset()
    casts: Mapping[str, pa.DataType] = field(default_factory=dict)
    exact: frozenset[str] = frozenset()
    appends: bool = False
    keys: tuple[str, ...] = ()
    layout: Layout = _UNKNOWN
    close: Callable[[], None] = lambda: None

    @property
    def least_bytes(self) -> int:
        """The size of a batch from which the fixed cost of columns does not show."""
        return min(COLUMN_BYTES * len(self.schema), TARGET_BATCH_BYTES)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield record batches of the schema, at least one, which may be empty."""
        is_empty = True
        for rows in self.converted_slices():
            yield rows.batch
            is_empty = False
            del rows
        # some services refuse a schema without a batch
        if is_empty:
            yield self.empty_batch()

    def without_rows(self) -> Source:
        """Return a source of the same columns without rows."""
        return replace(
            self,
            chunks=list,
            rows=0,
            nbytes=0,
            replayable=True,
            caller_thread_only=False,
        )

    def empty_batch(self) -> pa.RecordBatch:
        """Return a batch of the schema without rows."""
        return pa.RecordBatch.from_arrays(
            [pa.nulls(0, arrow) for arrow in self.schema.types], schema=self.schema
        )

    def converter(self, columns: list[str] | None = None) -> Converter:
        """Return a converter of rows to the schema, or to some of its columns.

        Without dictionaries, which grow, several converters may share the slices.
        """
        layout = self.layout if columns is None else self.layout.select(columns)
        return Converter(layout, self.casts, self.exact, appends=self.appends)

    def converted_slices(self) -> Iterator[Slice]:
        """Yield the rows, converted to the schema."""
        convert = self.converter()
        for rows in self.slices():
            converted = rows.converted(convert)
            # a frame is released before the next is asked for: each may be large
            del rows
            # Arrow's writer miscounts an empty slice from a C stream
            if converted.batch.num_rows:
                yield converted
            del converted

    def slices(self) -> Iterator[Slice]:
        """Yield the rows as they lie in memory, the first few in smaller slices."""
        limit = max(SMALL_BATCH_BYTES, self.least_bytes)
        is_first = True
        for rows in self._slice(self.chunks()):
            total = rows.batch.num_rows
            length = rows_within(limit, total, rows.nbytes) if is_first else total
            is_first = False
            if length >= total:
                yield rows
            else:
                for start in range(0, total, length):
                    yield rows.slice(start, length)
            del rows

    def check_values(self, refusals: Refusals) -> None:
        """Convert the `value_checked` columns, to fail before anything is sent."""
        if self.nbytes is None or not self.value_checked:
            return
        unrefused = self.value_checked - refusals.keys()
        names = [name for name in self.schema.names if name in unrefused]
        chunks = list(self.chunks())
        try:
            self._try(chunks, names)
        except UnsupportedTypeError:
            # column by column, to report each
            for name in names:
                with refusals.recording(name):
                    self._try(chunks, [name])

    def check_keys(self) -> None:
        """Check the keys of rows in memory, to fail before anything is sent."""
        keys = list(self.keys)
        check = KeyCheck(keys)
        convert = self.converter(keys)
        for rows in self._slice(self.chunks(), keys):
            batch = rows.converted(convert).batch
            check.add([batch.column(name) for name in keys])
        check.check()

    def _try(self, chunks: list[Chunk], columns: list[str]) -> None:
        convert = self.converter(columns)
        for rows in self._slice(chunks, columns):
            rows.converted(convert)

    def _slice(
        self, chunks: Iterable[Chunk], columns: list[str] | None = None
    ) -> Iterator[Slice]:
        """Yield the rows of chunks in slices of the size of a batch."""
        rows_before = 0
        last_origin = ""
        # Arrow's casts take up to twice the memory of their result
        limit = TARGET_BATCH_BYTES if self.zero_copy else TARGET_BATCH_BYTES // 2
        for rows, size, make_batches, origin in chunks:
            if origin != last_origin:
                rows_before = 0
                last_origin = origin
            step = max(rows, 1)
            if size > MAX_BATCH_BYTES:
                step = rows_within(limit, rows, size)
            for start in range(0, max(rows, 1), step):
                length = min(step, rows - start)
                for batch in make_batches(start, length, columns):
                    batch_size = size * batch.num_rows // max(rows, 1)
                    yield Slice(batch, origin, batch_size, rows_before)
                    rows_before += batch.num_rows
                    del batch
            del make_batches


def rows_within(limit: int, rows: int, nbytes: int) -> int:
    """Return how many rows have about ``limit`` bytes, at least one."""
    return max(1, rows * limit // max(nbytes, limit))


def nbytes(
    data: pa.RecordBatch | pa.Table | pa.ChunkedArray, exact: bool = True
) -> int:
    """Return the bytes that the rows themselves take.

    Of views, older Arrow knows only the size of the buffers. As counting takes long for
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
