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

from rt_frames._text import list_names
from rt_frames.local import engine, scans
from rt_frames.local.http_error import HTTPError

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
        return scans.count_matches(table, condition)


def read_rows(table: Any, request: dict[str, Any]) -> Iterator[bytes]:
    """Return the result of a query as an Arrow stream.

    The first batch is read here, so that an invalid query is refused with a status.
    """
    _check_supported(request)
    # Lance does not say whether it refuses the filter or the columns (pylance 14)
    invalid = "query" if "columns" in request else "filter"
    with engine.as_http_errors(invalid=invalid, state=""):
        condition = parse_filter(request.get("filter"), state="")
        reader = table.scanner(
            **scans.options(table, request.get("columns"), condition),
            limit=request.get("k"),
            offset=request.get("offset"),
            with_row_id=bool(request.get("with_row_id")),
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
