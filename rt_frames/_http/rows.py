"""Read the rows of a response as they arrive, an Arrow stream or file.

A truncated response is an error: Arrow accepts a stream that ends between two messages,
so its end marker is checked here. An Arrow file is such a stream after the padded word
ARROW1, followed by a footer that ends in that word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from rt_frames._http.foreign import raise_foreign
from rt_frames._http.transport import Reply, ReplyError
from rt_frames._names import duplicates
from rt_frames._protocol.arrow_messages import (
    MARKER,
    MAX_DECOMPRESSED_BYTES,
    Bytes,
    MessageFile,
    TooLarge,
)
from rt_frames._protocol.calls import ALL_ROWS
from rt_frames._text import count, format_bytes, list_names, one_line

RECEIVE_BYTES = 2**20
MAX_ZONE_CHARS = 100
_FILE_START = b"ARROW1\0\0"
_FILE_END = b"ARROW1"
# bytes to which writers in Rust pad the start of a file; Arrow C++ pads it to 8
_FILE_ALIGNMENT = 64


def find_encoding(headers: Mapping[str, str]) -> str:
    """Return the Content-Encoding, or "" for identity, the only supported one."""
    encoding = headers.get("Content-Encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding


class Rows:
    """The rows of a response. Iterating yields record batches, once.

    Parameters
    ----------
    reply : Reply
        A response of which only the head was read.
    fail : callable
        Called with the reason why the response is incomplete; returns the exception to
        raise.
    query : dict
        The body of the query.

    Raises
    ------
    ValueError
        If the response is not Arrow data, or has other columns than requested.
    """

    def __init__(
        self,
        reply: Reply,
        fail: Callable[[str], Exception],
        query: Mapping[str, Any],
    ) -> None:
        self._fail = fail
        self._max_rows = query.get("k", ALL_ROWS)
        try:
            self._body = _Body(reply)
            self._reader = pa.ipc.open_stream(MessageFile(self._body.read))
            self.schema: pa.Schema = self._reader.schema
            _check_columns(self.schema.names, query)
            _check_zones(self.schema)
            self._first = next(self._reader, None)
        except BaseException as error:
            reply.close()
            if isinstance(error, pa.ArrowException):
                raise ValueError(
                    f"the response is not an Arrow stream ({one_line(str(error), 200)})"
                ) from None
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        rows = 0
        batch = self._first
        self._first = None
        try:
            while batch is not None:
                rows += batch.num_rows
                _check_views(batch)
                # offsets beyond the buffers would expose other memory
                batch.validate(full=True)
                self._check_rows(rows)
                yield batch
                batch = next(self._reader, None)
            self._body.check_end()
        except (OSError, ValueError, pa.ArrowException) as error:
            raise_foreign(error)
            reason = f"the response failed after {count(rows, 'row')} ({one_line(str(error), 300)})"
            raise self._fail(reason) from None
        finally:
            self._body.close()

    def _check_rows(self, rows: int) -> None:
        if rows > self._max_rows:
            requested = count(self._max_rows, "row")
            raise ReplyError(f"more than the {requested} requested")

    def close(self) -> None:
        """Close the response, even if rows are unread."""
        self._body.close()


def _check_zones(schema: pa.Schema) -> None:
    """Refuse zones that are no names: Polars 2.1 takes seconds for 100 kB."""
    for field in schema:
        zone = getattr(field.type, "tz", None) or ""
        if len(zone) > MAX_ZONE_CHARS:
            raise ValueError(
                f"the response has a time zone of {len(zone):,} characters"
            )


def _check_views(batch: pa.RecordBatch) -> None:
    """Refuse views of texts that overlap so much that they are long to read."""
    for column in batch.columns:
        if types.is_string_view(column.type) or types.is_binary_view(column.type):
            # each view begins with its length
            views = np.frombuffer(column.buffers()[1] or b"", np.int32)
            nbytes = int(views[::4].sum(dtype=np.int64))
            if nbytes > MAX_DECOMPRESSED_BYTES:
                raise TooLarge(f"the views of a batch show {format_bytes(nbytes)}")


def _check_columns(names: list[str], query: Mapping[str, Any]) -> None:
    requested = query.get("columns", names)
    if duplicates(names) or names != requested:
        raise ValueError(
            f"the response has other columns than requested, {list_names(names)}"
        )


class _Body:
    """A response body as a file for Arrow. A read beyond its end is an error."""

    closed = False

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        encoding = find_encoding(reply.headers)
        if encoding:
            raise ValueError(f"the response is encoded as {encoding!r:.40}")
        start = bytes(self._receive(len(_FILE_START)))
        self._is_file = start == _FILE_START
        if self._is_file:
            start = self._skip_padding()
        if not start.startswith(MARKER):
            raise ValueError(f"the response is not an Arrow stream, got {start!r}")
        self._start = start

    def read(self, size: int) -> Bytes:
        """Return exactly ``size`` bytes. Memory grows only as they arrive."""
        start = self._start[:size]
        self._start = self._start[size:]
        data = self._receive(size - len(start))
        if len(start) + len(data) < size:
            raise ReplyError("truncated before its end marker")
        return start + data if start else data

    def check_end(self) -> None:
        """Check that nothing follows the stream, or in a file, only the footer."""
        rest = b""
        while piece := self._reply.read(RECEIVE_BYTES):
            rest = (rest + piece)[-len(_FILE_END) :]
        expected = _FILE_END if self._is_file else b""
        if rest != expected:
            raise ReplyError("no end marker at its end")

    def close(self) -> None:
        self._reply.close()

    def _skip_padding(self) -> bytes:
        """Return the first eight bytes of the stream in a file."""
        start = b""
        for _ in range(len(_FILE_START), _FILE_ALIGNMENT + 1, 8):
            start = bytes(self._receive(8))
            if start != bytes(8):
                break
        return start

    def _receive(self, size: int) -> Bytes:
        """Return ``size`` bytes, or fewer at the end; uncopied if they come at once."""
        piece = self._reply.read(size)
        if len(piece) == size:
            return piece
        received = bytearray(piece)
        while piece and len(received) < size:
            piece = self._reply.read(size - len(received))
            received += piece
        return received
