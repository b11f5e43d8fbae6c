"""An HTTP body → a schema and record batches that are safe to store.

Arrow reads batches whose offsets point outside their buffers, and Lance trusts offsets,
so everything that would crash Lance is refused here.
"""

from __future__ import annotations

import contextlib
import decimal
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from rt_frames._names import RESERVED, duplicates, has_control_characters, join_path
from rt_frames._schema.data_type import (
    MAX_FIXED_SIZE,
    child_fields,
    contains,
    fixed_size,
    has_variable_items,
    iter_fields,
    show_type,
    storage,
)
from rt_frames._text import format_bytes, list_names, one_line
from rt_frames.local.arrow_stream import Body, StreamFile, count_bytes
from rt_frames.local.http_error import HTTPError
from rt_frames.local.scans import width

MAX_COLUMNS = 10_000
MAX_FIELDS = 20_000
MAX_DEPTH = 60
# pylance 14 takes three times the size of a cell to store it
MAX_CELL_BYTES = 100_000_000
# per table: cheap to send, expensive to read
MAX_NULLS = 2**24
_FOREIGN = (
    is_.is_union,
    is_.is_run_end_encoded,
    is_.is_interval,
    is_.is_string_view,
    is_.is_binary_view,
    is_.is_list_view,
    is_.is_large_list_view,
)
_CATEGORIES = (
    is_.is_integer,
    is_.is_floating,
    is_.is_boolean,
    is_.is_string,
    is_.is_large_string,
    is_.is_binary,
    is_.is_large_binary,
)


def open_stream(body: Body) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Read the schema; return it with an iterator of checked batches.

    The iterator ends normally only if the stream ends with the body.
    """
    file = StreamFile(body)
    with _as_client_error("the schema of the Arrow stream"):
        schema = file.read_schema()
        _check_schema(schema)
        options = pa.ipc.IpcReadOptions(ensure_alignment=alignment(schema))
        reader = pa.ipc.open_stream(pa.PythonFile(file, "r"), options=options)
    return reader.schema, _batches(reader, file)


def alignment(schema: pa.Schema) -> pa.ipc.Alignment:
    """Return the alignment of buffers that Lance needs.

    pylance 14 panics on decimals not aligned to 16 bytes; Arrow's default is 8.
    """
    if any(contains(arrow, is_.is_decimal) for arrow in schema.types):
        return pa.ipc.Alignment.At64Byte
    return pa.ipc.Alignment.DataTypeSpecific


def _batches(reader: Any, file: StreamFile) -> Iterator[pa.RecordBatch]:
    schema = reader.schema
    rows = 0
    nulls = 0
    untyped = [field.name for field in schema if is_.is_null(field.type)]
    checked = [field for field in schema if _restricts_values(field)]
    for number in itertools.count(1):
        with _as_client_error(f"batch {number} of the Arrow stream"):
            batch = next(reader, None)
            if batch is None:
                return file.check_end()
            nulls += len(untyped) * batch.num_rows
            if nulls > MAX_NULLS:
                raise HTTPError(
                    413,
                    f"columns {list_names(untyped)} have more than {MAX_NULLS:,} nulls and no type; "
                    "give them a type",
                )
            _check_batch(batch, rows)
            _check_cells(batch, rows)
            for field in checked:
                _check_values(field.name, field, batch.column(field.name), rows)
        rows += batch.num_rows
        if batch.num_rows:
            yield batch
        # its memory is free before the next batch is read
        del batch


def _restricts_values(column: pa.Field) -> bool:
    """Return whether a field in the column, at any depth, is JSON or required."""
    for _, field, _ in iter_fields([column]):
        if not field.nullable or isinstance(field.type, pa.JsonType):
            return True
    return False


def _check_batch(batch: pa.RecordBatch, rows_before: int) -> None:
    """Refuse values that their types do not allow. Rows count from the first batch."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                row = None
                # the values of a slice of others are not its own
                if not is_.is_nested(column.type) and not is_.is_dictionary(
                    column.type
                ):
                    row = _find_first(pa.record_batch([column], [name]), _is_invalid)
                place = _place(name, row, rows_before)
                raise HTTPError(
                    400, f"{place}: {one_line(str(error), 300)}; correct the value"
                ) from None
        raise


def _place(path: str, row: int | None, rows_before: int | None) -> str:
    """Return the column and the row, if both the row and those before it are known."""
    if row is None or rows_before is None:
        return f"column {path!r:.200}"
    return f"column {path!r:.200}, row {rows_before + row} of the Arrow stream"


def _is_invalid(batch: pa.RecordBatch) -> bool:
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        return True
    return False


def _check_cells(batch: pa.RecordBatch, start: int) -> None:
    """Refuse a cell, or a category, that the engine has no room for."""
    if batch.nbytes <= MAX_CELL_BYTES:
        return
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for values in (column, *_categories(column)):
            row = _find_first(pa.record_batch([values], [name]), _is_large)
            if row is not None:
                place = f", row {start + row}" if values is column else ""
                raise HTTPError(
                    413,
                    f"column {name!r:.200}{place}: a value takes more than "
                    f"{format_bytes(MAX_CELL_BYTES)}; nothing was stored; divide it",
                )


def _categories(column: pa.Array) -> list[pa.Array]:
    return [column.dictionary] if is_.is_dictionary(column.type) else []


def _is_large(batch: pa.RecordBatch) -> bool:
    return count_bytes(batch) > MAX_CELL_BYTES


def _find_first(
    batch: pa.RecordBatch, test: Callable[[pa.RecordBatch], bool], start: int = 0
) -> int | None:
    """Return the first row that passes a test, which batches that have it pass."""
    if not test(batch):
        return None
    if batch.num_rows < 2:
        return start
    half = batch.num_rows // 2
    found = _find_first(batch.slice(0, half), test, start)
    if found is None:
        found = _find_first(batch.slice(half), test, start + half)
    return found


def _check_values(
    path: str, field: pa.Field, array: pa.Array, rows_before: int | None = None
) -> None:
    """Refuse, at any depth, nulls in required fields and JSON that pylance 14 changes.

    Only of a whole column, the values are its rows.
    """
    # Arrow does not check the offsets of an empty array (pyarrow 26)
    if not len(array):
        return
    if array.null_count and not field.nullable:
        raise HTTPError(
            400,
            f"column {path!r:.200} contains nulls, but its field is not nullable; make it nullable",
        )
    if isinstance(field.type, pa.JsonType):
        _check_json(array.storage, path, rows_before)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type.num_fields and array.null_count:
        array = array.filter(array.is_valid())
    for child in _children(path, array):
        _check_values(*child)


def _children(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Field, pa.Array]]:
    """Yield the path, field and values of each child of an array."""
    arrow = array.type
    fields = child_fields(array.type)
    if is_.is_struct(arrow):
        arrays = [array.field(i) for i in range(len(fields))]
    elif is_.is_map(arrow):
        arrays = [
            pa.StructArray.from_arrays(
                [array.keys, array.items], fields=child_fields(fields[0].type)
            )
        ]
    else:
        arrays = [array.flatten() for _ in fields]
    for field, values in zip(fields, arrays, strict=True):
        yield join_path(path, field.name), field, values


def _check_json(texts: pa.Array, path: str, rows_before: int | None) -> None:
    """Refuse JSON that the JSONB format of pylance 14 rejects or changes.

    Only texts that match `_UNSURE` need the slow, strict parser.
    """
    is_unsure = pc.call_function(
        "match_substring_regex", [texts], pc.MatchSubstringOptions(_UNSURE)
    )
    pairs = zip(texts.to_pylist(), is_unsure.to_pylist(), strict=True)
    for row, (text, unsure) in enumerate(pairs):
        try:
            if text is None:
                continue
            if unsure:
                _read_strictly(text)
            else:
                _READ(text)
        except (ValueError, RecursionError) as error:
            reason = one_line(str(error), 100)
            raise HTTPError(
                400,
                f"{_place(path, row, rows_before)}: the JSON {text!r:.100} cannot be stored "
                f"unchanged ({reason}); nothing was stored; correct it, or store it in a "
                "column of text",
            ) from None


def _read_strictly(text: str) -> None:
    value = json.loads(
        text,
        parse_int=_check_integer,
        parse_float=_check_float,
        object_pairs_hook=_check_names,
    )
    # the json module also accepts NaN and lone surrogates
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


def _check_integer(digits: str) -> None:
    if not -(2**63) <= int(digits) < 2**64:
        raise ValueError(f"{digits:.40} does not fit into 64 bits")


def _check_float(digits: str) -> None:
    """Refuse a number that is neither the shortest nor a 17-digit form of a double."""
    double = float(digits)
    if repr(double) == digits:
        return
    if math.isfinite(double):
        exact = [decimal.Decimal(repr(double)), decimal.Decimal(f"{double:.17g}")]
        # InvalidOperation: an exponent of more than 18 digits
        with contextlib.suppress(decimal.InvalidOperation):
            if decimal.Decimal(digits) in exact:
                return
    raise ValueError(f"{digits:.40} would change as a float of 64 bits")


def _check_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = duplicates(name for name, _ in pairs)
        raise ValueError(f"{list_names(twice)} more than once in an object")
    return members


# escapes (perhaps half of a pair); NaN and Infinity; integers beyond 64 bits
_UNSURE = r"\\u|N|I|[0-9]{19}"
_READ = json.JSONDecoder(
    object_pairs_hook=_check_names, parse_float=_check_float
).decode


@contextlib.contextmanager
def _as_client_error(subject: str) -> Iterator[None]:
    """Turn any exception in this block into a 400."""
    try:
        yield
    except HTTPError:
        raise
    except Exception as error:
        reason = one_line(str(error), 300)
        raise HTTPError(
            400, f"{subject} is invalid: {reason}; write it again and resend it"
        ) from error


def _check_schema(schema: pa.Schema) -> None:
    if not 0 < len(schema.names) <= MAX_COLUMNS:
        raise HTTPError(
            400,
            f"the stream has {len(schema.names)} columns; send 1 to {MAX_COLUMNS}",
        )
    _check_unique(schema.names, "columns")
    for number, (path, _, parents) in enumerate(iter_fields(schema), 1):
        if len(parents) > MAX_DEPTH:
            raise HTTPError(
                400,
                f"column {path!r:.200} is nested more than {MAX_DEPTH} levels deep; flatten it",
            )
        if number > MAX_FIELDS:
            raise HTTPError(
                400,
                f"a table has at most {MAX_FIELDS} fields, those inside its columns "
                f"included; send fewer: {path!r:.200} is one too many",
            )
    for field in schema:
        check_name(field.name)
        if not is_.is_null(field.type):
            check_field(field)


def check_name(name: str) -> None:
    """Refuse a column name that pylance 14 cannot store or address."""
    if not name:
        problem = "is empty"
    elif has_control_characters(name):
        problem = "contains control characters"
    elif "." in name:
        problem = "contains a dot, which separates the levels of a path"
    elif "`" in name:
        problem = "contains a backtick, which quotes the parts of a path"
    elif name == "*":
        problem = "means all columns in a query"
    elif name in RESERVED:
        problem = "is reserved for the engine"
    else:
        return
    raise HTTPError(400, f"column name {name!r:.200} {problem}; choose another")


def _check_unique(names: list[str], subject: str) -> None:
    twice = duplicates(names)
    if twice:
        raise HTTPError(
            400,
            f"{subject} occur more than once: {list_names(twice)}; names must be unique",
        )


def check_field(column: pa.Field) -> None:
    """Refuse types on which pylance 14 panics, or that it cannot read back."""
    for path, field, _ in iter_fields([column]):
        advice = _advise_on_type(field)
        if advice:
            raise HTTPError(
                400,
                f"column {path!r:.200}: tables cannot store {show_type(field.type)}; {advice}",
            )
        known, _ = width(field.type)
        if known > MAX_CELL_BYTES:
            raise HTTPError(
                400,
                f"column {path!r:.200}: each value of {show_type(field.type)}, null or not, takes "
                f"{format_bytes(int(known))}, more than {format_bytes(MAX_CELL_BYTES)}; use a list "
                "of variable size",
            )
        names = [child.name for child in child_fields(storage(field.type))]
        _check_unique(names, f"fields of column {path!r:.200}")
        for name in names:
            if not name or has_control_characters(name):
                raise HTTPError(
                    400,
                    f"column {path!r:.200} has a field with the name {name!r:.100}; rename the field",
                )


def _advise_on_type(field: pa.Field) -> str | None:
    """Return the cure for a type that tables cannot hold, or None."""
    arrow = storage(field.type)
    if _has_lance_metadata(field):
        return "it is read back in another form; send it without the field's metadata"
    if not 0 < fixed_size(arrow) <= MAX_FIXED_SIZE:
        return (
            f"fixed sizes, multiplied by those inside, must be 1 to {MAX_FIXED_SIZE:,}"
        )
    if has_variable_items(arrow):
        return "use a list of variable size"
    if is_.is_null(arrow):
        return "give it a type"
    if _is_any(arrow, _FOREIGN):
        return "cast it first"
    if is_.is_map(arrow) and arrow.keys_sorted:
        return "make it a map without keys_sorted"
    if is_.is_decimal(arrow) and arrow.bit_width < 128:
        return "cast it to decimal128"
    if is_.is_dictionary(arrow) and not _is_any(arrow.value_type, _CATEGORIES):
        return "send the values themselves"
    if is_.is_struct(arrow) and not arrow.num_fields:
        return "give it a field"
    return None


def _is_any(arrow: pa.DataType, tests: Iterable[Callable[[Any], bool]]) -> bool:
    return any(test(arrow) for test in tests)


def _has_lance_metadata(field: pa.Field) -> bool:
    metadata = field.metadata or {}
    extension = metadata.get(b"ARROW:extension:name", b"")
    return b"lance-encoding:blob" in metadata or extension.startswith(b"lance.")
