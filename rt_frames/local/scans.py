"""Scan a table with a few batches in memory, however wide its columns are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as is_

from rt_frames._schema.data_type import child_fields, fixed_items, storage
from rt_frames.local.arrow_stream import count_bytes

MAX_BATCH_ROWS = 2**17
# if a column varies in width
MAX_VARYING_ROWS = 2**13
SAMPLED_ROWS = 64
# on disk, of a table without more rows, which is not sampled
SMALL_BYTES = 2**16
# of a batch in memory, where pylance 14 holds a dozen
BATCH_BYTES = 2**20
# of each column in a batch, up to the largest one: pylance 14 takes as long for less
COLUMN_BYTES = 2**12
MAX_BATCH_BYTES = 2**22
BUFFER_BYTES = 2**24


def options(
    table: Any, columns: list[str] | None, condition: str | None
) -> dict[str, Any]:
    """Return options for a scanner with which its batches are small in memory."""
    touched = _list_touched(table, columns, condition)
    return {
        "columns": columns,
        "filter": condition,
        "batch_size": batch_rows(table, touched),
        "batch_readahead": 2,
        # of more, each takes a buffer if the reader is slow
        "fragment_readahead": 1,
        "io_buffer_size": BUFFER_BYTES,
    }


def count_matches(table: Any, condition: str | None) -> int:
    """Count the rows that match a condition."""
    if condition is None:
        return int(table.count_rows())
    rows = table.scanner(with_row_id=True, **options(table, [], condition))
    return int(rows.count_rows())


def _list_touched(
    table: Any, columns: list[str] | None, condition: str | None
) -> list[pa.Field]:
    """List the columns that are read, and those whose names occur in the condition."""
    read = None if columns is None else {name.partition(".")[0] for name in columns}
    words = _find_words(condition or "")
    return [
        field
        for field in table.schema
        if read is None
        or field.name in read
        or (condition and _find_words(field.name) <= words)
    ]


def _find_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def batch_rows(
    table: Any, touched: Iterable[pa.Field], fragments: list[Any] | None = None
) -> int:
    """Return the number of rows in a batch of some columns.

    Only rows of ``fragments`` are read, the last of the table; by default all. Lance
    applies its own limit in bytes only after it has read more.
    """
    if fragments is None:
        fragments = [fragment.metadata for fragment in table.get_fragments()]
    widths = {field.name: width(field.type) for field in touched}
    varying = [name for name, (_, varies) in widths.items() if varies]
    row_bytes = sum(known for known, _ in widths.values())
    batch_bytes = min(max(COLUMN_BYTES * len(widths), BATCH_BYTES), MAX_BATCH_BYTES)
    if not varying:
        return _divide(batch_bytes, row_bytes, MAX_BATCH_ROWS)
    rows = sum(fragment.num_rows for fragment in fragments)
    disk = sum(file.file_size_bytes or 0 for part in fragments for file in part.files)
    if rows > SAMPLED_ROWS or disk > SMALL_BYTES:
        row_bytes += _measure(table, rows, varying)
    most = _divide(MAX_BATCH_BYTES, disk / max(rows, 1), MAX_VARYING_ROWS)
    return _divide(batch_bytes, row_bytes, most)


def _divide(batch_bytes: int, row_bytes: float, most: int) -> int:
    return max(min(int(batch_bytes / max(row_bytes, 1)), most), 1)


def width(arrow: pa.DataType) -> tuple[float, bool]:
    """Return the bytes that each value takes in memory, and whether some take more.

    Of a category, they are those of its code.
    """
    item, items = fixed_items(storage(arrow))
    if is_.is_struct(item):
        inside = [width(field.type) for field in child_fields(item)]
        known = items * sum(known for known, _ in inside)
        return known, any(varies for _, varies in inside)
    if is_.is_null(item):
        return 0, False
    try:
        return items * item.bit_width / 8, False
    except ValueError:
        return 0, True


def _measure(table: Any, rows: int, columns: list[str]) -> float:
    """Return the mean size of the last rows, in the part where it is largest."""
    first = table.count_rows() - rows
    largest = 0.0
    # few at first: rows may be large
    for count in (min(8, rows), SAMPLED_ROWS):
        if count > rows or count * largest > MAX_BATCH_BYTES:
            break
        numbers = sorted(
            {first + (2 * i + 1) * rows // (2 * count) for i in range(count)}
        )
        sample = table.take(numbers, columns=columns).combine_chunks()
        (batch,) = sample.to_batches()
        parts = [batch.slice(start, 8) for start in range(0, len(numbers), 8)]
        largest = max(count_bytes(part) / part.num_rows for part in parts)
    return largest
