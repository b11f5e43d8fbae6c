"""CSV files: DuckDB splits them into cells of text, which are cast here.

DuckDB detects nothing, as its casts may change values: it gets all options. A column
gets the type of the caller or of an existing table. Otherwise it gets the first of
`_KINDS` whose pattern and exact cast keep its cells in the first rows of all files.
Every later cell must pass the same pattern and cast; otherwise an error names its row.
"""

from __future__ import annotations

import csv
import functools
import re
import shlex
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, time
from typing import Any, NamedTuple

import click
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from rt_frames._extras import require
from rt_frames._frames.convert import first_failing_row
from rt_frames._frames.exact_cast import cast_exactly
from rt_frames._schema.casts import family
from rt_frames._schema.data_type import value_type
from rt_frames._schema.portable import CONVERSION_ERRORS
from rt_frames._text import one_line, show_value
from rt_frames.cli.input_file import (
    ENCODING_ADVICE,
    FileOptions,
    InputFile,
    Opened,
    check_column_names,
    errors_named_after,
    in_order,
    suffix_of,
    unreadable,
)

# of each file, to infer the types from
FIRST_ROWS = 20_000
BATCH_CELLS = 2**20

_call = pc.call_function


class _Kind(NamedTuple):
    """A kind of cells: words for errors, a pattern, and the type they are cast to."""

    description: str
    pattern: str
    type: pa.DataType


_DATE = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
_OFFSET = r"(Z|[+-]\d{2}(:?\d{2})?)"
_TIMESTAMP = f"{_DATE}[T ]{_CLOCK}"
_INTEGER = r"0|-?[1-9]\d*"
_NUMBER = r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"
_BOOL = "true|True|TRUE|false|False|FALSE"
_TEXT = _Kind("is text", "", pa.large_string())
_NULL = pa.scalar(None, _TEXT.type)
# tried in this order
_KINDS = [
    _Kind("holds whole numbers", _INTEGER, pa.int64()),
    _Kind("holds numbers", _NUMBER, pa.float64()),
    _Kind("holds true and false", _BOOL, pa.bool_()),
    _Kind("holds dates", _DATE, pa.date32()),
    _Kind("holds timestamps", _TIMESTAMP, pa.timestamp("us")),
    _Kind(
        "holds timestamps with an offset",
        _TIMESTAMP + _OFFSET,
        pa.timestamp("us", "UTC"),
    ),
    _Kind("holds times", _CLOCK, pa.time64("us")),
]
# family or name of a table column's type → pattern of the cells that it accepts
_PATTERNS = {
    "integers": _INTEGER,
    "floats": f"{_NUMBER}|NaN|-?inf",
    "decimals": _NUMBER,
    "bool": _BOOL,
    "dates and timestamps": f"{_DATE}([T ]{_CLOCK}{_OFFSET}?)?",
    "times": _CLOCK,
    "text": "",
    "binary": "",
    "extension<arrow.uuid>": "",
}
# every option is set, so that DuckDB detects nothing
_READ_CSV = """
    SELECT * FROM read_csv(?, delim = ?, header = ?, columns = ?, auto_detect = false, strict_mode = true, quote = '"',
    escape = '"', comment = '', nullstr = [''], allow_quoted_nulls = false, hive_partitioning = false)
"""


def open_csv(files: list[InputFile], options: FileOptions) -> Opened:
    """Open CSV files, and infer the types that neither caller nor table gives."""
    require("files")
    names = _read_names(files[0], options)
    for file in files[1:]:
        check_column_names(file, _read_names(file, options), files[0], names)
    kinds = _find_kinds(names, files, options)
    schema = pa.schema(list(zip(names, [kind.type for kind in kinds], strict=True)))
    return schema, functools.partial(_read_values, kinds, names, options)


def _read_values(
    kinds: list[_Kind], names: list[str], options: FileOptions, file: InputFile
) -> Iterator[pa.RecordBatch]:
    rows_before = 0
    for batch in _read_cells(names, options, file):
        columns = []
        for name, kind, cells in zip(names, kinds, batch.columns, strict=True):
            try:
                columns.append(_to_values(cells, kind, options))
            except CONVERSION_ERRORS as error:
                row = _find_bad_row(cells, kind, options, error)
                reason = _explain_cell(name, kind, cells[row].as_py())
                raise ValueError(f"{file}, row {rows_before + row}: {reason}") from None
        yield pa.RecordBatch.from_arrays(columns, names)
        rows_before += batch.num_rows


def _read_names(file: InputFile, options: FileOptions) -> list[str]:
    """Read the column names of a file.

    Not by DuckDB, which changes empty names, and names that are equal but for case.
    Raises ValueError if the line is empty, not UTF-8, or has another separator.
    """
    separator = _separator(file, options)
    cells = _read_first_line(file, separator)
    if not cells:
        raise ValueError(f"{file}, line 1: there are no columns")
    if re.search("[\udc80-\udcff]", "".join(cells)):
        raise ValueError(f"{file}, line 1: not UTF-8; {ENCODING_ADVICE}")
    if len(cells) == 1 and options.separator is None:
        other = re.search(r"[,;\t|]", cells[0])
        if other and other[0] != separator:
            raise ValueError(
                f"{file} has one column, {cells[0]!r:.100}; pass --separator {other[0]!r}"
            )
    if options.header:
        return cells
    return [f"column{number}" for number in range(len(cells))]


def _read_first_line(file: InputFile, separator: str) -> list[str]:
    """Return the cells of the first line. An invalid byte becomes a surrogate."""
    with (
        errors_named_after(file),
        file.readable.open(
            encoding="utf-8-sig", errors="surrogateescape", newline=""
        ) as text,
    ):
        try:
            return next(csv.reader(text, delimiter=separator, strict=True), [])
        except csv.Error as error:
            raise ValueError(f"{file}, line 1: {error}") from None


def _separator(file: InputFile, options: FileOptions) -> str:
    separator = options.separator or ","
    if options.separator is None and suffix_of(file.path) == ".tsv":
        separator = "\t"
    if separator == options.decimal:
        raise click.UsageError(
            f"--decimal: {separator!r} also separates the cells; pass another --separator, such as ';'"
        )
    return separator


def _find_kinds(
    names: list[str], files: list[InputFile], options: FileOptions
) -> list[_Kind]:
    """Return each column's kind: as known, else the first kind that keeps its cells."""
    kinds = _known_kinds(names, options)
    # index of a column → kinds that keep all of its cells so far
    candidates = {index: _KINDS for index, kind in enumerate(kinds) if kind is None}
    for file in files:
        for batch in _read_cells(names, options, file, FIRST_ROWS):
            for index, remaining in candidates.items():
                cells = batch.column(index)
                candidates[index] = [
                    kind for kind in remaining if _keeps(kind, cells, options)
                ]
    for index, remaining in candidates.items():
        # a column whose cells are all empty keeps all kinds, and is text
        if 0 < len(remaining) < len(_KINDS):
            kinds[index] = remaining[0]
    return [kind or _TEXT for kind in kinds]


def _known_kinds(names: list[str], options: FileOptions) -> list[_Kind | None]:
    """Return the kinds that the caller or a table gives. None for other columns."""
    table_types = options.table_types()
    kinds: list[_Kind | None] = []
    for name, new_name in zip(names, options.names_in_table(names), strict=True):
        if name in options.dtypes:
            arrow = _cell_type(options.dtypes[name])
            kinds.append(_Kind(f"is to be {arrow}", "", arrow))
        elif new_name in table_types:
            arrow = _cell_type(table_types[new_name])
            kinds.append(_table_kind(name, arrow))
        else:
            kinds.append(None)
    return kinds


def _cell_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type of a column's values."""
    arrow = value_type(arrow)
    # some services describe a UUID by its storage
    return pa.uuid() if arrow == pa.binary(16) else arrow


def _table_kind(name: str, arrow: pa.DataType) -> _Kind:
    pattern = _PATTERNS.get(family(arrow) or str(arrow))
    if pattern is None:
        raise ValueError(
            f"column {name!r} is {arrow} in the table, which CSV cannot hold; use Parquet or NDJSON"
        )
    return _Kind(f"is {arrow} in the table", pattern, arrow)


def _keeps(kind: _Kind, cells: pa.Array, options: FileOptions) -> bool:
    try:
        # cheap: the first cells rule out most kinds
        _to_values(cells.slice(0, 100), kind, options)
        _to_values(cells, kind, options)
    except CONVERSION_ERRORS:
        return False
    return True


def _read_cells(
    names: list[str], options: FileOptions, file: InputFile, limit: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the cells as text, with the columns in the order of ``names``.

    An empty cell is null unless it is quoted.
    """
    import duckdb

    names_in_file = _read_names(file, options)
    columns = {f"c{number}": "VARCHAR" for number in range(len(names_in_file))}
    # DuckDB reads a path as a glob
    path = re.sub(r"([\[*?])", r"[\1]", str(file.readable.absolute()))
    parameters = [path, _separator(file, options), options.header, columns]
    batch_rows = max(BATCH_CELLS // len(names_in_file), 2048)
    try:
        # not closed here: DuckDB may refuse that after Ctrl-C, as "busy"
        connection = _database().cursor()
        rows = connection.sql(_READ_CSV, params=parameters)
        if limit is not None:
            rows = rows.limit(limit)
        for batch in rows.to_arrow_reader(batch_rows):
            ordered = in_order(batch.rename_columns(names_in_file), names)
            yield _replace_nulls(ordered, options.nulls)
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise _explain_duckdb(file, error) from error


@functools.cache
def _database() -> Any:
    import duckdb

    # DuckDB then exports text as large_string
    return duckdb.connect(config={"arrow_large_buffer_size": True})


def _replace_nulls(batch: pa.RecordBatch, nulls: tuple[str, ...]) -> pa.RecordBatch:
    if not nulls:
        return batch
    null_texts = pc.SetLookupOptions(pa.array(nulls, _TEXT.type))
    columns = []
    for cells in batch.columns:
        is_null = _call("is_in", [cells], null_texts)
        columns.append(_call("if_else", [is_null, _NULL, cells]))
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _explain_duckdb(file: InputFile, error: Exception) -> ValueError:
    """Return an error with line and reason, without DuckDB's advice on SQL options."""
    text = str(error)
    match = re.search(
        r"CSV Error on Line: (\d+)\n(?:Original Line:([^\0]*?)\n+)?(.+)\n+Poss", text
    )
    if match:
        number, line, fault = match.groups()
        reason = f"{fault.partition('.')[0]}: {one_line(line or '', 100)!r}"
        if "unicode" in fault:
            reason += f"; {ENCODING_ADVICE}"
        return ValueError(f"{file}, line {number}: {reason}")
    if "state machine" in text:
        return ValueError(
            f"{file}: the lines end in a mix of CR LF, LF or CR; convert them to one kind"
        )
    return unreadable(file, error)


def _to_values(cells: pa.Array, kind: _Kind, options: FileOptions) -> pa.Array:
    """Cast cells of text to the type of their kind.

    Raises one of `CONVERSION_ERRORS` if a cell is not of this kind.
    """
    arrow = kind.type
    has_fractions = types.is_floating(arrow) or types.is_decimal(arrow)
    is_moment = types.is_date(arrow) or types.is_timestamp(arrow)
    if options.decimal != "." and has_fractions:
        _check_all(cells, "[^.]*")
        cells = _replace(cells, options.decimal, ".")
    if options.date_format and is_moment:
        cells = _to_iso(cells, options.date_format)
    if kind.pattern:
        _check_all(cells, kind.pattern)
    if types.is_timestamp(arrow) and arrow.tz in ("UTC", "Etc/UTC", "+00:00"):
        cells = _replace(cells, f"^({_TIMESTAMP})$", r"\1Z")
    if arrow == cells.type:
        return cells
    return cast_exactly(cells, arrow)


def _check_all(cells: pa.Array, pattern: str) -> None:
    whole_cell = pc.MatchSubstringOptions(f"^({pattern})$")
    matches = _call("match_substring_regex", [cells], whole_cell)
    if _call("all", [matches]).as_py() is False:
        raise ValueError("not of this kind")


def _replace(cells: pa.Array, pattern: str, text: str) -> pa.Array:
    replacement = pc.ReplaceSubstringOptions(pattern, text)
    return _call("replace_substring_regex", [cells], replacement)


def _find_bad_row(
    cells: pa.Array, kind: _Kind, options: FileOptions, error: Exception
) -> int:
    def convert(start: int, end: int) -> pa.Array:
        return _to_values(cells.slice(start, end - start), kind, options)

    row, _ = first_failing_row(len(cells), convert, error)
    return row or 0


def _explain_cell(name: str, kind: _Kind, cell: str) -> str:
    advice = "correct it"
    if kind in _KINDS:
        as_text = shlex.quote(f"{name}=string")
        advice = f"pass --dtype {as_text}"
    return f"column {name!r} {kind.description}, but this cell is {show_value(cell)}; {advice}"


@functools.cache
def check_date_format(text: str) -> str:
    """Return the pattern of the dates of a format, once they are rewritten in ISO 8601.

    Raises click.UsageError if the format leaves day, century or time ambiguous.
    """
    # in a century that %y does not read
    moment = datetime(1834, 11, 23, 13, 45, 56, tzinfo=UTC)
    try:
        with warnings.catch_warnings():
            # Python 3.13 warns of a format without a year; it is refused below
            warnings.simplefilter("ignore", DeprecationWarning)
            parsed = datetime.strptime(moment.strftime(text), text)
    except ValueError:
        parsed = datetime.min
    is_clock_known = parsed.time() in (time(), time(13), time(13, 45), moment.time())
    if parsed.date() != moment.date() or not is_clock_known or "%Z" in text:
        raise click.UsageError(
            f"--date-format: {text!r:.50} does not fix day, month and full year; use "
            "Python's strptime codes, such as %d/%m/%Y or '%Y%m%d %H:%M'"
        )
    if parsed.tzinfo:
        return _TIMESTAMP + _OFFSET
    if parsed.time() == time():
        return _DATE
    return _TIMESTAMP


def _to_iso(cells: pa.Array, date_format: str) -> pa.Array:
    """Rewrite dates and timestamps in ISO 8601.

    Text in another format stays as it is: the kind's pattern refuses it. Text that is
    in ISO 8601 already raises ValueError, as the pattern would accept it.
    """
    iso_pattern = check_date_format(date_format)
    encoded = cells.dictionary_encode()
    texts = []
    for text in encoded.dictionary.to_pylist():
        try:
            moment = datetime.strptime(text, date_format)
        except ValueError:
            if re.fullmatch(iso_pattern, text):
                # all dates of a column have one format
                raise
            texts.append(text)
            continue
        if iso_pattern == _DATE:
            texts.append(str(moment.date()))
        else:
            texts.append(str(moment))
    return pa.array(texts, cells.type).take(encoded.indices)
