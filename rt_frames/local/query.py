"""Count rows, or send them as an Arrow stream, with a filter.

The JSON is that of the official client, ``lancedb``, for ``count_rows``, ``head`` and
``search`` without a vector.
"""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as is_

from rt_frames._schema.data_type import child_fields, fixed_items, storage
from rt_frames._text import list_names
from rt_frames.local import engine
from rt_frames.local.arrow_stream import count_bytes
from rt_frames.local.http_error import HTTPError

MAX_BATCH_ROWS = 2**17
# if a column varies in width
MAX_VARYING_ROWS = 2**13
SAMPLED_ROWS = 64
# on disk, of a table without more rows, which is not sampled
SMALL_BYTES = 2**16
BATCH_BYTES = 2**22
# in memory, where pylance 14 holds a dozen batches
MEASURED_BYTES = 2**20
BUFFER_BYTES = 2**26
_QUERY = {
    "k",
    "offset",
    "columns",
    "filter",
    "with_row_id",
    "version",
    "prefilter",
    "vector",
}


def parse_request(body: dict[str, Any]) -> dict[str, Any]:
    """Validate the numbers of a request; null counts as absent."""
    request = {name: value for name, value in body.items() if value is not None}
    for name in {"version", "k", "offset"} & set(request):
        value = request[name]
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not 0 <= value < 2**63:
            raise HTTPError(
                400, f"{name}: expected a non-negative integer, got {value!r:.100}"
            )
    return request


def parse_filter(text: Any, state: str = "; nothing was changed") -> str | None:
    """Return a filter as it is, in Lance's SQL. Refuse what is not text.

    ``state`` ends the fact in the message of a refusal.
    """
    if text is None or isinstance(text, str):
        return text
    raise HTTPError(
        400, f'the filter is not a string{state}; send a condition such as "n > 1"'
    )


def count_rows(table: Any, request: dict[str, Any]) -> int:
    """Count the rows that match the filter."""
    condition = parse_filter(request.get("predicate"), state="")
    with engine.as_http_errors(invalid="filter", state=""):
        return int(table.count_rows(condition))


def read_rows(table: Any, request: dict[str, Any]) -> Iterator[bytes]:
    """Return the result of a query as an Arrow stream.

    The first batch is read here, so that an invalid query is refused with a status.
    """
    _check_supported(request)
    # Lance does not say whether it refuses the filter or the columns (pylance 14)
    invalid = "query" if "columns" in request else "filter"
    with engine.as_http_errors(invalid=invalid, state=""):
        reader = table.scanner(
            columns=request.get("columns"),
            filter=parse_filter(request.get("filter"), state=""),
            limit=request.get("k"),
            offset=request.get("offset"),
            with_row_id=bool(request.get("with_row_id")),
            batch_size=_batch_rows(table, request.get("columns")),
            batch_readahead=2,
            # more of them take three times the memory if the reader is slow
            fragment_readahead=1,
            io_buffer_size=BUFFER_BYTES,
        ).to_reader()
        first = next(reader, None)
    return _stream(reader, [] if first is None else [first])


def _check_supported(request: dict[str, Any]) -> None:
    if request.get("vector"):
        raise HTTPError(
            501,
            "a folder has no vector search; open it with lancedb.connect",
        )
    unknown = set(request) - _QUERY
    if unknown:
        raise HTTPError(
            501,
            f"a folder does not support {list_names(sorted(unknown))} in a query; leave it out",
        )
    columns = request.get("columns", [])
    if not isinstance(columns, list) or not all(isinstance(c, str) for c in columns):
        raise HTTPError(
            501,
            f"columns: expected an array of strings, their names, got {columns!r:.100}",
        )


def _batch_rows(table: Any, columns: list[str] | None) -> int:
    """Return the number of rows in `BATCH_BYTES` on disk, `MEASURED_BYTES` in memory.

    Lance applies its own limit in bytes only after it has read more.
    """
    rows = table.count_rows()
    file_bytes = 0
    for fragment in table.get_fragments():
        for file in fragment.metadata.files:
            file_bytes += file.file_size_bytes or 0
    row_bytes = file_bytes / max(rows, 1)
    widths = {
        field.name: _width(field.type)
        for field in table.schema
        if columns is None or field.name in columns
    }
    varying = [name for name, width in widths.items() if width is None]
    most = MAX_VARYING_ROWS if varying else MAX_BATCH_ROWS
    measured = sum(filter(None, widths.values()))
    is_small = rows <= SAMPLED_ROWS and file_bytes <= SMALL_BYTES
    if varying and not is_small:
        measured += _measure_rows(table, rows, varying)
    batch_rows = min(
        BATCH_BYTES / max(row_bytes, 1), MEASURED_BYTES / max(measured, 1), most
    )
    return max(int(batch_rows), 1)


def _width(arrow: pa.DataType) -> float | None:
    """Return the bytes of a value in memory, of a category those of its code.

    None if they vary.
    """
    item, items = fixed_items(storage(arrow))
    if is_.is_struct(item):
        widths = [_width(field.type) for field in child_fields(item)]
        return None if None in widths else items * sum(filter(None, widths))
    if is_.is_null(item):
        return 0
    try:
        return float(items * item.bit_width / 8)
    except ValueError:
        return None


def _measure_rows(table: Any, rows: int, columns: list[str]) -> float:
    """Return the mean size of rows, in the part of a table where it is largest."""
    largest = 0.0
    # few at first: rows may be large
    for count in (min(8, rows), SAMPLED_ROWS):
        if count > rows or count * largest > BATCH_BYTES:
            break
        numbers = sorted({(2 * i + 1) * rows // (2 * count) for i in range(count)})
        sample = table.take(numbers, columns=columns).combine_chunks()
        (batch,) = sample.to_batches()
        parts = [batch.slice(start, 8) for start in range(0, len(numbers), 8)]
        largest = max(count_bytes(part) / part.num_rows for part in parts)
    return largest


def _stream(reader: Any, first: list[pa.RecordBatch]) -> Iterator[bytes]:
    sink = io.BytesIO()
    with (
        engine.as_http_errors(state=""),
        contextlib.closing(reader),
        pa.ipc.new_stream(sink, reader.schema) as writer,
    ):
        for batch in itertools.chain(first, reader):
            writer.write_batch(batch)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()
