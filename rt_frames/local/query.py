"""Count rows, or send them as an Arrow stream, with a filter.

The JSON is that of the official client, ``lancedb``, for ``count_rows``, ``head`` and
``search`` without a vector.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as is_

from rt_frames._protocol.conditions import MAX_BYTES
from rt_frames._schema.data_type import child_fields, fixed_items, storage
from rt_frames._text import format_bytes, list_names
from rt_frames.local import engine
from rt_frames.local.arrow_stream import count_bytes
from rt_frames.local.http_error import HTTPError

log = logging.getLogger("rt_frames")

MAX_BATCH_ROWS = 2**17
# if a column varies in width
MAX_VARYING_ROWS = 2**13
SAMPLED_ROWS = 64
BATCH_BYTES = 2**22
# in memory, where Lance 14 holds a dozen batches
MEASURED_BYTES = 2**20
BUFFER_BYTES = 2**26
# words and operators that may nest in each other; about 350 levels crash Lance
MAX_NESTED = 250
# AND and OR, which Lance reads in quadratic time: 20,000 take five seconds
MAX_JOINED = 12_000
_CLOSINGS = {"(": ")", "[": "]", "{": "}", "case": "end"}
# a quoted text or name, which is one operand
_QUOTED = re.compile("'[^']*'|`[^`]*`")
# characters with which Lance may find other quotes than `_QUOTED`
_UNCLEAR = re.compile(r"['`\\$]")
# outside quotes, Lance reads these in another way than the caller expects
_MISREAD = {
    ";": "and the engine ignores everything after it; leave it out",
    '"': "and the engine reads \"…\" as text; write text in '…', and unusual column names in `…`",
    "--": "and a comment may hide the end of the filter; leave it out",
    "/*": "and a comment may hide the end of the filter; leave it out",
}
# functions that make long values of short ones
_GROWING = re.compile(
    r"\b(repeat|[lr]pad|range|generate_series|(?:array|list)_(?:repeat|resize))`?\s*\(",
    re.IGNORECASE,
)
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


def count_rows(table: Any, request: dict[str, Any]) -> int:
    """Count the rows that match the filter."""
    condition = check_filter(request.get("predicate"))
    with engine.as_http_errors(invalid="filter", state=""):
        return int(table.count_rows(condition))


def read_rows(table: Any, request: dict[str, Any]) -> Iterator[bytes]:
    """Return the result of a query as an Arrow stream.

    The first batch is read here, so that an invalid query is refused with a status.
    """
    _check_supported(request)
    # Lance does not say whether it refuses the filter or the columns
    invalid = "query" if "columns" in request else "filter"
    with engine.as_http_errors(invalid=invalid, state=""):
        reader = table.scanner(
            columns=request.get("columns"),
            filter=check_filter(request.get("filter")),
            limit=request.get("k"),
            offset=request.get("offset"),
            with_row_id=bool(request.get("with_row_id")),
            batch_size=_batch_rows(table, request.get("columns")),
            batch_readahead=2,
            io_buffer_size=BUFFER_BYTES,
        ).to_reader()
        first = next(reader, None)
    return _stream(reader, [] if first is None else [first])


def _check_supported(request: dict[str, Any]) -> None:
    if request.get("vector"):
        raise HTTPError(
            501,
            "the embedded service has no vector search; open the tables' folder with lancedb.connect",
        )
    unknown = set(request) - _QUERY
    if unknown:
        raise HTTPError(
            501,
            f"the embedded service does not support {list_names(sorted(unknown))} in a query; leave it out",
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
    if rows and varying:
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
    try:
        with (
            contextlib.closing(reader),
            pa.ipc.new_stream(sink, reader.schema) as writer,
        ):
            for batch in itertools.chain(first, reader):
                writer.write_batch(batch)
                yield sink.getvalue()
                sink.seek(0)
                sink.truncate()
        yield sink.getvalue()
    except Exception:
        log.exception(
            "the embedded service failed while sending rows; the response is truncated"
        )
        raise


def check_filter(text: Any) -> str | None:
    """Refuse a filter that would overflow Lance's stack; return it in parentheses."""
    if text is None:
        return None
    if not isinstance(text, str) or len(text.encode(errors="replace")) > MAX_BYTES:
        raise HTTPError(
            400,
            f"the filter is not a string of at most {format_bytes(MAX_BYTES)}; send a condition such as "
            "\"n > 1 AND s = 'x'\"",
        )
    bare = _QUOTED.sub(" ", text)
    _check_end(text, bare)
    is_clear = not _UNCLEAR.search(bare)
    nested = _count_nested(bare) if is_clear else len(_words(text))
    if nested > MAX_NESTED:
        raise HTTPError(
            400,
            f"the filter nests more than {MAX_NESTED} words and operators; shorten it, "
            "for example with column IN (1, 2, 3)",
        )
    joined = len(re.findall(r"\b(?:and|or)\b", bare, re.IGNORECASE))
    if joined > MAX_JOINED:
        raise HTTPError(
            400,
            f"the filter has {joined:,} AND and OR, more than {MAX_JOINED:,}; send it in pieces, or "
            "write column IN (1, 2, 3)",
        )
    # without parentheses, Lance ignores anything after a complete condition
    return f"({text})"


def _words(text: str) -> list[str]:
    """Return words and operators; numbers in digits alone do not nest."""
    found = re.findall(r"\w+|->|[^\w\s.']", text)
    return [word.lower() for word in found if not word.isdecimal()]


@dataclass
class _Level:
    """What is between one parenthesis, bracket or CASE and its end."""

    closing: str = ""
    # words since the last AND, OR or comma
    here: int = 0
    # those in whose operand the engine may read a following AND
    kept: int = 0
    open_betweens: int = 0


def _count_nested(text: str) -> int:
    """Count the words and operators that may nest in each other, up to the limit.

    Operands of AND, OR and commas do not nest in each other. Those inside parentheses
    nest in what is before them.
    """
    levels = [_Level()]
    most = 0
    for word in _words(text):
        level = levels[-1]
        if word == "and" and level.open_betweens:
            level.open_betweens -= 1
            level.here += 1
        elif word in ("and", "or", ","):
            level.here = level.kept
        elif word in _CLOSINGS.values() and word != "end":
            _close(levels, word)
        elif word == "end" and level.closing == "end":
            levels.pop()
        else:
            level.here += 1
            level.kept += word in ("interval", "->")
            level.open_betweens += word == "between"
        if word in _CLOSINGS:
            levels.append(_Level(_CLOSINGS[word]))
        most = max(most, sum(one.here for one in levels))
        # deeper levels would take quadratic time
        if most > MAX_NESTED:
            break
    return most


def _close(levels: list[_Level], closing: str) -> None:
    """Leave the innermost pair of brackets, and the CASEs without END inside."""
    if closing in [level.closing for level in levels]:
        while levels.pop().closing != closing:
            pass


def _check_end(text: str, bare: str) -> None:
    """Refuse a filter of which Lance would ignore or misread a part.

    ``bare`` is the text without its quoted parts.
    """
    for mark, reason in _MISREAD.items():
        if mark in bare:
            raise HTTPError(
                400, f"the filter {text!r:.100} contains {mark!r}, {reason}"
            )
    growing = _GROWING.search(re.sub("'[^']*'", "''", text))
    if growing:
        raise HTTPError(
            400,
            f"the filter {text!r:.100} calls {growing[1]}(), which may take all memory; "
            "compute such values before",
        )
    depth = 0
    for char in bare:
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        if depth < 0:
            raise HTTPError(
                400,
                f"the filter {text!r:.100} closes a parenthesis that was not opened",
            )
