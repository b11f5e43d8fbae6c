"""An HTTP body → a schema and record batches that may be stored: every byte accounted for, every value valid.

Arrow hands on batches whose offsets lead out of their buffers, and Lance trusts them; so all that Lance
would break on is refused here, before it sees a batch.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as is_

from rt_frames._names import duplicates, has_control_characters
from rt_frames._schema.data_type import child_fields
from rt_frames._text import list_names, one_line
from rt_frames.local.http_error import HTTPError
from rt_frames.local.ipc_messages import Messages

if TYPE_CHECKING:
    from rt_frames.local.body import Body

MAX_COLUMNS, MAX_LIST_SIZE, MAX_DEPTH = 10_000, 2**20, 64
_RESERVED = ("_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version")
_FOREIGN = (
    is_.is_union, is_.is_run_end_encoded, is_.is_interval,
    is_.is_string_view, is_.is_binary_view, is_.is_list_view, is_.is_large_list_view,
)  # fmt: skip
_CATEGORIES = (
    is_.is_integer, is_.is_floating, is_.is_boolean,
    is_.is_string, is_.is_large_string, is_.is_binary, is_.is_large_binary,
)  # fmt: skip


def open_stream(body: Body) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Read the schema, and give the batches, checked one by one; the stream's end is checked last."""
    messages = Messages(body)
    with _as_client_error("the schema of the Arrow stream"):
        schema = pa.ipc.read_schema(pa.py_buffer(messages.first()))
        _check_schema(schema)
        options = pa.ipc.IpcReadOptions(ensure_alignment=_alignment(schema))
        reader = pa.ipc.open_stream(pa.PythonFile(messages, "r"), options=options)
    return reader.schema, _batches(reader, messages)


def _alignment(schema: pa.Schema) -> pa.ipc.Alignment:
    """Choose how memory is aligned for Lance, which panics where it is not: 16 bytes for decimals, Arrow gives 8."""
    wide = any(is_.is_decimal(arrow) for field in schema for _, arrow in _walk(field.type, field.name))
    return pa.ipc.Alignment.At64Byte if wide else pa.ipc.Alignment.DataTypeSpecific


def _batches(reader: Any, messages: Messages) -> Iterator[pa.RecordBatch]:
    for number in itertools.count(1):
        with _as_client_error(f"batch {number} of the Arrow stream"):
            batch = next(reader, None)
            if batch is None:
                break
            batch.validate(full=True)
        if batch.num_rows:
            yield batch
        del batch  # its memory is free for the next
    messages.check_end()


@contextlib.contextmanager
def _as_client_error(what: str) -> Iterator[None]:
    """Do what fails only because of what was sent."""
    try:
        yield
    except HTTPError:
        raise
    except Exception as error:
        reason = one_line(str(error), 300)
        raise HTTPError(400, f"{what} is not valid: {reason}; write it anew and send it again") from error


def _check_schema(schema: pa.Schema) -> None:
    if not 0 < len(schema.names) <= MAX_COLUMNS:
        raise HTTPError(400, f"the stream has {len(schema.names)} columns; a table has 1 to {MAX_COLUMNS}")
    _check_unique(schema.names, "columns")
    for field in schema:
        check_name(field.name)
        if not is_.is_null(field.type):
            _check_type(field)


def check_name(name: str) -> None:
    """Refuse a column name that the engine cannot keep or address."""
    reasons = {
        "is empty": not name,
        "holds control characters": has_control_characters(name),
        "holds a dot or a backtick, which paths are made with": "." in name or "`" in name,
        "is reserved for the engine": name in _RESERVED,
    }
    for reason, applies in reasons.items():
        if applies:
            raise HTTPError(400, f"column name {name!r:.200} {reason}; choose another")


def _check_unique(names: list[str], what: str) -> None:
    if twice := duplicates(names):
        raise HTTPError(400, f"{what} occur more than once: {list_names(twice)}; names must be unique")


def _check_type(column: pa.Field) -> None:
    """Refuse types that make Lance panic, or write what it cannot read back."""
    for path, arrow in _walk(column.type, column.name):
        if advice := _unsupported_reason(arrow):
            raise HTTPError(400, f"column {path!r:.200}: tables cannot hold {str(arrow)[:200]}; {advice}")
        names = [field.name for field in child_fields(arrow)]
        _check_unique(names, f"fields of column {path!r:.200}")
        for name in names:
            if not name or has_control_characters(name):
                raise HTTPError(400, f"column {path!r:.200} has a field with the name {name!r:.100}; rename that")


def _walk(arrow: pa.DataType, path: str, depth: int = 0) -> Iterator[tuple[str, pa.DataType]]:
    """Give a type, and all types inside it, as they are stored, with their paths."""
    if depth > MAX_DEPTH:
        raise HTTPError(400, f"column {path!r:.200} is nested more than {MAX_DEPTH} levels deep; flatten it")
    stored = arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
    yield path, stored
    for field in child_fields(stored):
        yield from _walk(field.type, f"{path}.{field.name}", depth + 1)


def _unsupported_reason(arrow: pa.DataType) -> str | None:
    if is_.is_fixed_size_list(arrow):
        if not 0 < arrow.list_size <= MAX_LIST_SIZE:
            return f"fixed sizes go from 1 to {MAX_LIST_SIZE}"
        item = arrow.value_type
        fixed = is_.is_primitive(item) or is_.is_decimal(item) or is_.is_fixed_size_binary(item)
        return None if fixed or is_.is_fixed_size_list(item) else "use a list of variable size"
    if is_.is_null(arrow):
        return "give it a type"
    if any(test(arrow) for test in _FOREIGN):
        return "cast it first"
    if is_.is_decimal(arrow) and arrow.bit_width < 128:
        return "cast it to decimal128"
    if is_.is_dictionary(arrow) and not any(test(arrow.value_type) for test in _CATEGORIES):
        return "send the values themselves"
    return "give it a field" if is_.is_struct(arrow) and not arrow.num_fields else None
