"""JSON and NDJSON, parsed by Python's json module and typed by Arrow.

Polars 2.1 would change values without an error: it keeps one of two equal keys, reads
1e-400 as 0.0, rounds 9007199254740993 in a column with fractions, turns numbers in a
column with text into text, and a lone surrogate into a null character.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import types

from rt_frames._frames.convert import first_failing_row
from rt_frames._names import duplicates
from rt_frames._schema.data_type import map_types
from rt_frames._schema.portable import CONVERSION_ERRORS
from rt_frames._text import one_line
from rt_frames.cli.input_file import ENCODING_ADVICE, InputFile, Opened

T = TypeVar("T")
BATCH_ROWS = 4096


def open_json(files: list[InputFile], *, by_line: bool) -> Opened:
    """Open JSON or NDJSON files. All are read twice: first to infer the types."""
    inferred = pa.schema([])
    for file in files:
        for rows_before, rows in _read_batches(file, by_line):
            add_types = functools.partial(_add_types, inferred)
            inferred = _convert(file, rows_before, rows, add_types)
    if not inferred.names:
        raise ValueError(f"{files[0]}: there are no columns")
    struct = map_types(pa.struct(list(inferred)), _widen_text)

    def read(file: InputFile) -> Iterator[pa.RecordBatch]:
        for rows_before, rows in _read_batches(file, by_line):
            to_structs = functools.partial(_to_structs, arrow=struct)
            array = _convert(file, rows_before, rows, to_structs)
            yield pa.RecordBatch.from_struct_array(array)

    return pa.schema(list(struct)), read


def _widen_text(arrow: pa.DataType) -> pa.DataType:
    return pa.large_string() if types.is_string(arrow) else arrow


def _read_batches(file: InputFile, by_line: bool) -> Iterator[tuple[int, list[Any]]]:
    """Yield batches of a file's values, each with the number of values before it."""
    values = _read_lines(file) if by_line else _read_document(file)
    for rows_before in itertools.count(0, BATCH_ROWS):
        rows = list(itertools.islice(values, BATCH_ROWS))
        if not rows:
            return
        yield rows_before, rows


def _read_lines(file: InputFile) -> Iterator[Any]:
    with file.readable.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _decode(line.rstrip(), file, number)


def _read_document(file: InputFile) -> Iterator[Any]:
    document = _decode(file.readable.read_bytes(), file, 1)
    if isinstance(document, list):
        yield from document
    else:
        yield document


def _decode(text: bytes, file: InputFile, line: int) -> Any:
    encoding = "utf-8-sig" if line == 1 else "utf-8"
    try:
        return _DECODER.decode(text.decode(encoding))
    except UnicodeDecodeError:
        reason = f"not UTF-8; {ENCODING_ADVICE}"
    except json.JSONDecodeError as error:
        line += error.lineno - 1
        reason = f"malformed JSON: {error.msg}"
        if error.msg == "Extra data":
            reason += "; if each line holds an object, pass --format ndjson"
    except (ValueError, RecursionError) as error:
        reason = str(error)
    raise ValueError(f"{file}, line {line}: {reason}")


def _to_float(text: str) -> float:
    number = float(text)
    if math.isinf(number) or (number == 0 and re.match("[-0.]*[1-9]", text)):
        raise ValueError(f"{text:.50} does not fit into a 64-bit float")
    return number


def _to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        repeated = duplicates(key for key, _ in pairs)
        raise ValueError(f"key {repeated[0]!r} occurs twice in an object")
    return values


_NO_OBJECT = "not an object"
_DECODER = json.JSONDecoder(object_pairs_hook=_to_object, parse_float=_to_float)


def _convert(
    file: InputFile,
    rows_before: int,
    rows: list[Any],
    convert: Callable[[list[Any]], T],
) -> T:
    """Convert rows. An error names the first row that does not fit the rows before."""

    def convert_first(_start: int, end: int) -> None:
        # Arrow infers no struct from an empty list
        if end:
            convert(rows[:end])

    try:
        return convert(rows)
    except CONVERSION_ERRORS as error:
        row, reason = first_failing_row(len(rows), convert_first, error)
        location = str(file)
        if row is not None:
            location += f", row {rows_before + row}"
        text = one_line(str(reason), 200)
        cure = "give each column one type"
        if text == _NO_OBJECT:
            cure = "make each row an object"
        if isinstance(reason, OverflowError):
            text = "an integer does not fit into int64"
            cure = "write it as text, in quotes, and pass its type with --dtype"
        raise ValueError(f"{location}: {text}; {cure}") from None


def _add_types(inferred: pa.Schema, rows: list[Any]) -> pa.Schema:
    """Return the inferred schema, extended by the types of more rows."""
    struct = _to_structs(rows).type
    _refuse_bools(rows, struct)
    schema = pa.schema(list(struct))
    return pa.unify_schemas([inferred, schema], promote_options="permissive")


def _to_structs(rows: list[Any], arrow: pa.DataType | None = None) -> pa.Array:
    array = pa.array(rows, arrow)
    if rows and (not types.is_struct(array.type) or array.null_count):
        raise ValueError(_NO_OBJECT)
    return array


def _refuse_bools(values: list[Any], arrow: pa.DataType) -> None:
    """Raise ValueError for bools among floats: Arrow converts them to 1.0 and 0.0."""
    if types.is_struct(arrow):
        objects = [value for value in values if value]
        for field in arrow:
            _refuse_bools([value.get(field.name) for value in objects], field.type)
    elif types.is_list(arrow):
        lists = [value for value in values if value]
        _refuse_bools(list(itertools.chain.from_iterable(lists)), arrow.value_type)
    elif types.is_floating(arrow) and any(isinstance(value, bool) for value in values):
        raise ValueError("true and false are not numbers")
