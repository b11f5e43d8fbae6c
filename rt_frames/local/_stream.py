"""An HTTP body → record batches that may be stored: every byte accounted for, every value valid.

Arrow's reader trusts what it reads: it takes a stream that was cut between two messages for a whole one,
ignores what follows the end, and hands on batches whose offsets lead out of their buffers. Lance trusts Arrow.
So all of that is looked after here, before Lance sees a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rt_frames.local._problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
MOST_COLUMNS, MOST_ROWS, MOST_ITEMS, MOST_DEPTH = 10_000, 2**27, 2**20, 64
READ = 4 * 2**20  # bytes; what a length in a stream asks for is given in portions, as they really come
LARGEST = 2**31  # bytes of one buffer

_MISTAKEN = {
    b"ARROW1": "an Arrow IPC file; send a stream (pyarrow.ipc.new_stream, not new_file)",
    b"PAR1": "a Parquet file; send an Arrow IPC stream",
    b"\x1f\x8b": "gzip; send an Arrow IPC stream, compressed inside with LZ4 or ZSTD if at all",
    b"PK": "a zip file; send an Arrow IPC stream",
    b"<": "HTML or XML; send an Arrow IPC stream",
    b"{": "JSON; send an Arrow IPC stream",
    b"[": "JSON; send an Arrow IPC stream",
}


class Body:
    """A request's body as a file that counts, remembers its end, and refuses to end early.

    Parameters
    ----------
    stream : file
        The server's view of the body.
    length : int or None
        Content-Length, where there is one.
    """

    closed = False

    def __init__(self, stream: Any, length: int | None) -> None:
        self._stream, self._length = stream, length
        self._count, self._tail = 0, b""
        self._ended = length == 0

    def read(self, size: int = -1) -> bytes:
        """Read exactly ``size`` bytes, fewer only at the end."""
        if size < 0 or size > LARGEST:
            raise Problem(400, "the stream announces a message of more than 2 GiB; send smaller batches")
        portions, left = [], size
        while left:
            portion = self._portion(min(left, READ))
            if not portion:
                break
            portions.append(portion)
            left -= len(portion)
        data = portions[0] if len(portions) == 1 else b"".join(portions)
        self._tail = (self._tail + data[-len(END) :])[-len(END) :]
        return data

    def _portion(self, size: int) -> bytes:
        if self._length is not None:
            size = min(size, self._length - self._count)
        if size <= 0:
            return b""
        try:
            portion: bytes = self._stream.read(size)
        except Exception as error:
            raise Problem(400, "the body broke off before its end; send it again") from error
        if not portion and self._length is not None:
            raise Problem(400, f"the body broke off after {self._count} of {self._length} bytes; send it again")
        self._count += len(portion)
        self._ended = not portion or self._count == self._length
        return portion

    def check_end(self) -> None:
        """Refuse a stream without its end, or with something behind it."""
        if self._tail != END:
            raise Problem(400, "the Arrow stream was cut off: its end-of-stream marker is missing; send it again")
        if self._portion(1):
            raise Problem(400, "bytes follow the end of the Arrow stream; send one stream, and nothing else")

    @property
    def finished(self) -> bool:
        """Whether all of the body was read."""
        return self._ended

    @property
    def count(self) -> int:
        """Bytes read so far."""
        return self._count

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the connection to the server."""


class _WithHead:
    """A body whose first bytes were already looked at."""

    closed = False

    def __init__(self, head: bytes, body: Body) -> None:
        self._head, self._body = head, body

    def read(self, size: int = -1) -> bytes:
        taken, self._head = self._head[:size], self._head[size:]
        return taken + self._body.read(size - len(taken)) if size > len(taken) else taken

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the connection to the server."""


def open_stream(body: Body) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Read the schema, and give the batches, checked one by one; the body's own end is checked last."""
    import pyarrow as pa

    head = body.read(8)
    _check_head(head)
    options = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific)
    try:
        reader = pa.ipc.open_stream(pa.PythonFile(_WithHead(head, body), "r"), options=options)
        _check_schema(reader.schema)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise Problem(400, f"the body does not start with a valid Arrow schema ({str(error)[:200]})") from error
    return reader.schema, _batches(reader, body)


def _check_head(head: bytes) -> None:
    for magic, mistake in _MISTAKEN.items():
        if head.startswith(magic):
            raise Problem(400, f"this is {mistake}")
    if len(head) < 8 or head[:4] != b"\xff\xff\xff\xff":
        raise Problem(400, "this is no Arrow IPC stream; it is empty, cut, or text such as CSV")
    if not 0 < int.from_bytes(head[4:], "little", signed=True) < 2**28:
        raise Problem(400, "the Arrow stream does not start with a schema of a sensible size")


def _batches(reader: Any, body: Body) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    number = 0
    while True:
        number += 1
        try:
            batch = reader.read_next_batch()
            if batch.num_rows > MOST_ROWS:
                raise Problem(400, f"batch {number} has {batch.num_rows} rows; send at most {MOST_ROWS} in one")
            batch.validate(full=True)
        except StopIteration:
            body.check_end()
            return
        except (pa.ArrowException, OSError, ValueError, UnicodeError) as error:
            raise Problem(400, f"batch {number} of the Arrow stream is not valid: {str(error)[:300]}") from error
        if batch.num_rows:
            yield _aligned(batch)


def _aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copy decimals to where the engine takes them: it wants 16 bytes, and a stream only promises 8."""
    import pyarrow as pa

    if "decimal" not in str(batch.schema.types):
        return batch
    columns = [
        pa.concat_arrays([column, column.slice(0, 0)]) if "decimal" in str(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _check_schema(schema: pa.Schema) -> None:
    if not 0 < len(schema.names) <= MOST_COLUMNS:
        raise Problem(400, f"the stream has {len(schema.names)} columns; a table has 1 to {MOST_COLUMNS}")
    _check_names(schema.names, "")
    for field in schema:
        check_name(field.name)
        _check_type(field.type, field.name, 0)


def check_name(name: str) -> None:
    """Refuse a column name that the engine cannot keep or address."""
    if not name:
        raise Problem(400, "a column's name is empty; give it one")
    if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in name):
        raise Problem(400, f"column name {name!r} holds control characters; rename it")
    if "." in name:
        raise Problem(400, f"column name {name!r} holds a dot, which separates the levels of a path; rename it")


def _check_names(names: list[str], path: str) -> None:
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})[:10]
        where = f"fields of column {path!r}" if path else "columns"
        raise Problem(400, f"{where} occur more than once: {twice!r}; names must be unique")


def _check_type(arrow: pa.DataType, path: str, depth: int) -> None:
    """Refuse types that make Lance panic, or write what it cannot read back."""
    import pyarrow.types as is_

    if depth > MOST_DEPTH:
        raise Problem(400, f"column {path!r:.200} is nested more than {MOST_DEPTH} levels deep")
    if is_.is_null(arrow):
        raise Problem(400, f"column {path!r} has type null and could never be cast; give it a type")
    if is_.is_union(arrow) or is_.is_run_end_encoded(arrow) or is_.is_interval(arrow) or "_view" in str(arrow):
        raise Problem(400, f"column {path!r} has type {str(arrow)[:200]}, which tables cannot hold; cast it first")
    if is_.is_decimal(arrow) and arrow.bit_width < 128:
        raise Problem(400, f"column {path!r} has type {arrow}; cast it to decimal128")
    if is_.is_fixed_size_list(arrow):
        _check_vector(arrow, path)
    if not is_.is_nested(arrow):
        return
    fields = [arrow.field(i) for i in range(arrow.num_fields)]
    if is_.is_struct(arrow):
        _check_names([field.name for field in fields], path)
        if not fields or not all(field.name for field in fields):
            raise Problem(400, f"column {path!r}: a struct needs fields, each with a name")
    for field in fields:
        _check_type(field.type, f"{path}.{field.name}", depth + 1)


def _check_vector(arrow: pa.DataType, path: str) -> None:
    import pyarrow.types as is_

    if not 0 < arrow.list_size <= MOST_ITEMS:
        raise Problem(400, f"column {path!r}: lists of fixed size {arrow.list_size}; sizes go from 1 to {MOST_ITEMS}")
    item = arrow.value_type
    fixed = is_.is_primitive(item) or is_.is_decimal(item) or is_.is_fixed_size_binary(item)
    if not fixed or is_.is_null(item):
        raise Problem(400, f"column {path!r}: fixed-size lists of {str(item)[:100]}; use lists of variable size")
