"""A `Source`: rows in chunks, and the plan of their columns.

Each library's module makes the `Rows` of one of its frames, with the library's own
types; `open_source` adds the `Plan`. Chunks (frames, partitions or record batches) are
cut here before they are read; `batching.py` says how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from rt_frames._schema.leaves import Condition, columns_of
from rt_frames._stream.batching import (
    MAX_BATCH_BYTES,
    TARGET_BATCH_BYTES,
    Chunk,
    Slice,
    cut,
)
from rt_frames._values.convert import Converter
from rt_frames._values.plan import Plan
from rt_frames._values.refusals import Refusals
from rt_frames._values.upsert_keys import KeyCheck
from rt_frames.errors import UnsupportedTypeError


@dataclass(frozen=True)
class Rows:
    """The rows of a frame, as its library has them.

    Parameters
    ----------
    schema : pyarrow.Schema
        The library's types.
    chunks : callable
        Returns the rows; may be called again only if ``replayable``.
    count, nbytes : int or None
        Number, and size in memory; None if unknown.
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
    close : callable
        Releases a generator or reader, whether it was read or not.
    """

    schema: pa.Schema
    chunks: Callable[[], Iterable[Chunk]]
    count: int | None = None
    nbytes: int | None = None
    replayable: bool = True
    zero_copy: bool = True
    caller_thread_only: bool = False
    value_checked: frozenset[str] = frozenset()
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Source:
    """The data to send.

    Parameters
    ----------
    rows : Rows
        What is sent.
    plan : Plan
        How its columns are sent.
    keys : tuple of str
        Key columns that are still to be checked, while the rows are converted.
    where : Condition or None
        What each row must match, checked whenever rows are converted.
    """

    rows: Rows
    plan: Plan
    keys: tuple[str, ...] = ()
    where: Condition | None = None

    @property
    def zero_copy(self) -> bool:
        """Whether the data lies in memory about as it is sent."""
        return self.rows.zero_copy and self.plan.schema.equals(self.rows.schema)

    def without_rows(self) -> Source:
        """Return a source of the same columns without rows."""
        return Source(Rows(self.rows.schema, list, 0, 0), self.plan)

    def empty_batch(self) -> pa.RecordBatch:
        """Return a batch of the schema without rows."""
        schema = self.plan.schema
        return pa.RecordBatch.from_arrays(
            [pa.nulls(0, arrow) for arrow in schema.types], schema=schema
        )

    def converter(self, columns: list[str] | None = None) -> Converter:
        """Return a converter of rows to the schema, or to some of its columns.

        Without dictionaries, which grow, several converters may share the slices.
        """
        plan = self.plan if columns is None else self.plan.select(columns)
        return Converter(plan, self.where)

    def converted_slices(self, columns: list[str] | None = None) -> Iterator[Slice]:
        """Yield the rows, converted to the schema, or to some of its columns."""
        convert = self.converter(columns)
        for rows in self.slices(columns):
            converted = rows.converted(convert)
            # a frame is released before the next is asked for: each may be large
            del rows
            # Arrow's writer miscounts an empty slice from a C stream (pyarrow 26)
            if converted.batch.num_rows:
                yield converted
            del converted

    def check_values(self, refusals: Refusals) -> None:
        """Convert columns in memory whose values may fail, before anything is sent."""
        plan = self.plan
        checked = self.rows.value_checked | plan.casts.keys() | plan.required
        unrefused = checked - refusals.keys()
        if self.rows.nbytes is None or not unrefused:
            return
        names = [name for name in plan.schema.names if name in unrefused]
        try:
            self._try(names)
        except UnsupportedTypeError:
            # column by column, to report each
            for name in names:
                try:
                    self._try([name])
                except UnsupportedTypeError as error:
                    refusals.setdefault(name, error)

    def check_keys(self, keys: list[str]) -> None:
        """Check the keys of rows in memory, to fail before anything is sent."""
        check = KeyCheck(keys)
        for rows in self.converted_slices(keys):
            check.add([rows.batch.column(name) for name in keys])
        check.check()

    def check_where(self) -> None:
        """Check the condition on rows in memory, to fail before anything is sent."""
        if self.where is not None:
            self._try(columns_of(self.where))

    def _try(self, columns: list[str]) -> None:
        for _ in self.converted_slices(columns):
            pass

    def slices(self, columns: list[str] | None = None) -> Iterator[Slice]:
        """Yield the rows as they lie in memory, with the named columns or all."""
        rows_before = 0
        last_origin = ""
        for chunk in cut(self.rows.chunks(), self._range_bytes):
            origin = chunk.origin
            if origin != last_origin:
                rows_before = 0
                last_origin = origin
            for batch in chunk.make_batches(chunk.start, chunk.rows, columns):
                size = chunk.nbytes * batch.num_rows // max(chunk.rows, 1)
                yield Slice(batch, origin, size, rows_before)
                rows_before += batch.num_rows
                del batch
            del chunk

    def _range_bytes(self, chunk: Chunk) -> int:
        """Return how many bytes of a chunk are made batches at once."""
        if chunk.nbytes <= MAX_BATCH_BYTES:
            return MAX_BATCH_BYTES
        # Arrow's casts take up to twice the memory of their result (pyarrow 26)
        return TARGET_BATCH_BYTES if self.zero_copy else TARGET_BATCH_BYTES // 2
