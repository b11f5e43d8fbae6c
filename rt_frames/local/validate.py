"""An HTTP body → a schema and record batches that may be stored: every byte accounted for, every value valid.

Arrow hands on batches whose offsets lead out of their buffers, and Lance trusts them; so all that Lance
would break on is refused here, before it sees a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rt_frames.local.http_error import Problem
from rt_frames.local.ipc_messages import Messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from rt_frames.local.body import Body

MOST_COLUMNS, MOST_ITEMS, MOST_DEPTH = 10_000, 2**20, 64
_RESERVED = ("_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version")


def open_stream(body: Body) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Read the schema, and give the batches, checked one by one; the stream's end is checked last."""
    import pyarrow as pa

    messages = Messages(body)

    def opened() -> Any:
        schema = pa.ipc.read_schema(pa.py_buffer(messages.first()))
        _check_schema(schema)
        options = pa.ipc.IpcReadOptions(ensure_alignment=_alignment(schema))
        return pa.ipc.open_stream(pa.PythonFile(messages, "r"), options=options)

    reader = _blaming_the_body(opened, "the schema of the Arrow stream")
    return reader.schema, _batches(reader, messages)


def _alignment(schema: pa.Schema) -> pa.ipc.Alignment:
    """Choose how memory is aligned for Lance, which panics where it is not: 16 bytes for decimals, Arrow gives 8."""
    import pyarrow as pa

    wide = any(word in str(field.type) for field in schema for word in ("decimal", "extension"))
    return pa.ipc.Alignment.At64Byte if wide else pa.ipc.Alignment.DataTypeSpecific


def _batches(reader: Any, messages: Messages) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    def checked() -> pa.RecordBatch | None:
        pa.default_memory_pool().release_unused()  # what other threads are done with; older pools keep it all
        batch = next(reader, None)
        if batch is not None:
            batch.validate(full=True)
        return batch

    number = 1
    while (batch := _blaming_the_body(checked, f"batch {number} of the Arrow stream")) is not None:
        number += 1
        if batch.num_rows:
            yield batch
    messages.check_end()


def _blaming_the_body(work: Callable[[], Any], what: str) -> Any:
    """Do what fails only because of what was sent."""
    try:
        return work()
    except Problem:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise Problem(400, f"{what} is not valid: {text[:300]}; write it anew and send it again") from error


def _check_schema(schema: pa.Schema) -> None:
    if not 0 < len(schema.names) <= MOST_COLUMNS:
        raise Problem(400, f"the stream has {len(schema.names)} columns; a table has 1 to {MOST_COLUMNS}")
    _check_unique(schema.names, "")
    for field in schema:
        check_name(field.name)
        if str(field.type) != "null":
            _check_type(field.type, field.name, 0)


def check_name(name: str) -> None:
    """Refuse a column name that the engine cannot keep or address."""
    if not name:
        raise Problem(400, "a column's name is empty; give it one")
    if _has_control(name):
        raise Problem(400, f"column name {name!r:.200} holds control characters; rename it")
    if "." in name or "`" in name:
        raise Problem(400, f"column name {name!r:.200} holds a dot or a backtick, which paths are made with; rename it")
    if name in _RESERVED:
        raise Problem(400, f"column name {name!r} is reserved for the engine; rename it")


def _has_control(name: str) -> bool:
    return any(ord(char) < 32 or 127 <= ord(char) < 160 for char in name)


def _check_unique(names: list[str], path: str) -> None:
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})[:10]
        where = f"fields of column {path!r:.200}" if path else "columns"
        raise Problem(400, f"{where} occur more than once: {twice!r:.300}; names must be unique")


def _check_type(arrow: pa.DataType, path: str, depth: int) -> None:
    """Refuse types that make Lance panic, or write what it cannot read back."""
    import pyarrow as pa
    import pyarrow.types as is_

    if isinstance(arrow, pa.BaseExtensionType):
        arrow = arrow.storage_type
    if depth > MOST_DEPTH:
        raise Problem(400, f"column {path!r:.200} is nested more than {MOST_DEPTH} levels deep; flatten it")
    if advice := _unfit(arrow):
        raise Problem(400, f"column {path!r:.200} has type {str(arrow)[:200]}, which tables cannot hold; {advice}")
    if not is_.is_nested(arrow):
        return
    fields = [arrow.field(i) for i in range(arrow.num_fields)]
    _check_unique([field.name for field in fields], path)
    for field in fields:
        if not field.name or _has_control(field.name):
            raise Problem(400, f"column {path!r:.200} has a field with the name {field.name!r:.100}; rename that")
        _check_type(field.type, f"{path}.{field.name}", depth + 1)


def _unfit(arrow: pa.DataType) -> str | None:
    import pyarrow.types as is_

    if is_.is_fixed_size_list(arrow):
        return _unfit_vector(arrow.value_type, arrow.list_size)
    foreign = is_.is_union(arrow) or is_.is_run_end_encoded(arrow) or is_.is_interval(arrow) or "_view" in str(arrow)
    reasons = {
        "give it a type": is_.is_null(arrow),
        "cast it first": foreign,
        "cast it to decimal128": is_.is_decimal(arrow) and arrow.bit_width < 128,
        "send the values themselves": is_.is_dictionary(arrow) and not _may_be_dictionary(arrow.value_type),
        "give it a field": is_.is_struct(arrow) and not arrow.num_fields,
    }
    return next((advice for advice, applies in reasons.items() if applies), None)


def _may_be_dictionary(value: pa.DataType) -> bool:
    import pyarrow.types as is_

    tests = (
        is_.is_integer,
        is_.is_floating,
        is_.is_boolean,
        is_.is_string,
        is_.is_large_string,
        is_.is_binary,
    )
    return is_.is_large_binary(value) or any(test(value) for test in tests)


def _unfit_vector(item: pa.DataType, size: int) -> str | None:
    import pyarrow.types as is_

    if not 0 < size <= MOST_ITEMS:
        return f"fixed sizes go from 1 to {MOST_ITEMS}"
    fixed = is_.is_primitive(item) or is_.is_decimal(item) or is_.is_fixed_size_binary(item)
    return None if fixed or is_.is_fixed_size_list(item) else "use a list of variable size"
