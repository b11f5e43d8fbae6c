"""Files of tables → one `Source`, a few batches in memory at a time.

CSV is text: DuckDB divides it into cells, and is told how. A column gets the first of `_KINDS` whose pattern and exact
cast keep its first cells, or the type of an existing table; what comes later passes the same pattern and cast, or is
refused by its row. JSON is read by Python's own module, as Polars keeps one of two equal keys and makes text of
numbers beside text. Parquet and Arrow files state their types; pyarrow reads those.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import glob
import io
import itertools
import json
import math
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any, NamedTuple

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from rt_frames._extras import require
from rt_frames._frames.any_frame import open_source
from rt_frames._frames.convert import first_failing_row
from rt_frames._frames.exact_cast import cast_exactly
from rt_frames._frames.from_arrow import to_chunk
from rt_frames._frames.source import Chunk, Source
from rt_frames._names import clean_names
from rt_frames._schema.casts import family
from rt_frames._schema.data_type import map_types
from rt_frames._schema.portable import CONVERSION_ERRORS
from rt_frames._text import list_names, make_printable, one_line, show_value

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
}
PACKED = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}
PIPE = Path("-")
# from which the types of CSV follow
FIRST_ROWS = 20_000
BATCH_CELLS = 2**20
# in a batch
JSON_ROWS = 4096


class Options(NamedTuple):
    """How files are read; what is None follows from their names, or from what they hold.

    Parameters
    ----------
    format : str, optional
        One of the values of `SUFFIXES`.
    separator, decimal, date_format, nulls, header
        Of CSV: what separates cells, the decimal point, how dates are written, cells that mean null, and whether the
        first row names the columns.
    encoding : str, optional
        Of CSV and JSON.
    dtypes : dict of str to pyarrow.DataType
        Types of columns, in place of the inferred ones.
    rename, clean_names
        What columns are called in the table.
    table : pyarrow.Schema, optional
        Of the table that the rows are added to, whose types those of text are.
    """

    format: str | None = None
    separator: str | None = None
    decimal: str = "."
    date_format: str | None = None
    encoding: str | None = None
    nulls: tuple[str, ...] = ()
    header: bool = True
    dtypes: Mapping[str, pa.DataType] = {}
    rename: Mapping[str, str] = {}
    clean_names: bool = False
    table: pa.Schema | None = None


_DEFAULTS = Options()
_call = pc.call_function
_ENCODING = "give --encoding, such as cp1252 or utf-16"


class _Kind(NamedTuple):
    """What the cells of a column are, for errors, how they are written, and the type that holds each exactly."""

    words: str
    pattern: str
    type: pa.DataType


_DATE = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
_OFFSET = r"(Z|[+-]\d{2}(:?\d{2})?)"
_INTEGER = r"0|-?[1-9]\d*"
_NUMBER = r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"
_BOOL = "true|True|TRUE|false|False|FALSE"
_TEXT = _Kind("is text", "", pa.large_string())
# in the order in which they are tried
_KINDS = [
    _Kind("holds whole numbers", _INTEGER, pa.int64()),
    _Kind("holds numbers", _NUMBER, pa.float64()),
    _Kind("holds true and false", _BOOL, pa.bool_()),
    _Kind("holds dates", _DATE, pa.date32()),
    _Kind("holds timestamps", f"{_DATE}[T ]{_CLOCK}", pa.timestamp("us")),
    _Kind(
        "holds timestamps with an offset",
        f"{_DATE}[T ]{_CLOCK}{_OFFSET}",
        pa.timestamp("us", "UTC"),
    ),
    _Kind("holds times", _CLOCK, pa.time64("us")),
]
# of a table's column: a family of types → cells that are one of them
_PATTERNS = {
    "integers": _INTEGER,
    "floats": _NUMBER,
    "decimals": _NUMBER,
    "bool": _BOOL,
    "dates and timestamps": f"{_DATE}([T ]{_CLOCK}{_OFFSET}?)?",
    "times": _CLOCK,
    "text": "",
    "binary": "",
    "extension<arrow.uuid>": "",
}


class _File(NamedTuple):
    """A file by its name, and where it can be read again and again: a temporary copy of a pipe."""

    path: Path
    regular: Path

    def __str__(self) -> str:
        return make_printable(str(self.path))


# of all files, and what reads one
_Opened = tuple[pa.Schema, Callable[[_File], Iterable[pa.RecordBatch]]]


def open_files(
    paths: Iterable[Path], options: Options = _DEFAULTS
) -> tuple[Source, bool]:
    """Open files, those that globs name, or a pipe, as one source; say whether its types were inferred.

    The source's ``close`` removes temporary files.

    Raises
    ------
    ValueError
        If a file is missing, cannot be read, or has other columns than the first.
    click.UsageError
        If options do not go together.
    """
    found = [path for pattern in paths for path in _expand(pattern)]
    formats = list(dict.fromkeys(_format(path, options) for path in found))
    if len(formats) > 1:
        raise ValueError(
            f"the files are of several formats, {' and '.join(formats)}; make them alike first"
        )
    form = formats[0]
    for name in ("separator", "decimal", "date_format", "nulls", "header"):
        if form != "csv" and getattr(options, name) != getattr(_DEFAULTS, name):
            option = {"nulls": "null", "header": "no-header"}.get(
                name, name.replace("_", "-")
            )
            raise click.UsageError(
                f"--{option}: only CSV has it, and this is {form}; leave it out"
            )
    undo = contextlib.ExitStack()
    try:
        files = [_File(path, _regular(path, options.encoding, undo)) for path in found]
        schema, read = _OPENERS[form](files, options)
        is_inferred = form not in ("parquet", "arrow") and options.table is None
        return _to_source(schema, read, files, options, undo.close), is_inferred
    except BaseException:
        undo.close()
        raise


def read_table(path: Path, options: Options = _DEFAULTS) -> pa.Table:
    """Read a file whole."""
    with contextlib.closing(open_source(open_files([path], options)[0])) as source:
        return pa.Table.from_batches(source.batches(), source.schema)


@functools.cache
def check_date_format(text: str) -> str:
    """Return how ISO 8601 writes what a format of ``strptime`` does; refuse a format that leaves the day open."""
    # %y would make another century of it
    moment = datetime(1834, 11, 23, 13, 45, 56, tzinfo=UTC)
    try:
        with warnings.catch_warnings():
            # Python 3.13 warns of a format without a year, which is refused below
            warnings.simplefilter("ignore", DeprecationWarning)
            found = datetime.strptime(moment.strftime(text), text)
    except ValueError:
        found = datetime.min
    is_clock_known = found.time() in (time(), time(13), time(13, 45), time(13, 45, 56))
    if found.date() != moment.date() or not is_clock_known or "%Z" in text:
        advice = (
            "write it as Python's strptime does, such as %d/%m/%Y or '%Y%m%d %H:%M'"
        )
        raise click.UsageError(
            f"--date-format: {text!r:.50} does not tell day, month and full year; {advice}"
        )
    if found.tzinfo:
        return f"{_DATE}[T ]{_CLOCK}{_OFFSET}"
    return _DATE if found.time() == time() else f"{_DATE}[T ]{_CLOCK}"


def _to_source(
    schema: pa.Schema,
    read: Callable[[_File], Iterable[pa.RecordBatch]],
    files: list[_File],
    options: Options,
    close: Callable[[], None],
) -> Source:
    held = schema.names
    for option, given in (("--rename", options.rename), ("--dtype", options.dtypes)):
        if unknown := [name for name in given if name not in held]:
            raise ValueError(
                f"{option}: there is no column {unknown[0]!r}; the columns are {held!r:.500}"
            )
    names = _names_in_table(held, options)

    def chunks() -> Iterator[Chunk]:
        for file in files:
            with _naming(file):
                for batch in read(file):
                    yield to_chunk(
                        _in_order(batch, held).rename_columns(names), str(file)
                    )

    fields = []
    casts = {}
    targets = {field.name: field.type for field in options.table or ()}
    for field, name in zip(schema, names, strict=True):
        fields.append(field.with_name(name))
        target = targets.get(name, pa.null())
        if field.name in options.dtypes:
            casts[name] = options.dtypes[field.name]
        elif field.type == _TEXT.type and (
            types.is_temporal(target) or types.is_decimal(target)
        ):
            # JSON has no values of it
            casts[name] = target
    return Source(pa.schema(fields), chunks, zero_copy=False, casts=casts, close=close)


def _names_in_table(held: list[str], options: Options) -> list[str]:
    names = [options.rename.get(name, name) for name in held]
    return clean_names(names) if options.clean_names else names


def _in_order(rows: Any, names: list[str]) -> Any:
    """Return a batch or table with its columns in an order; with equal names, they have it already."""
    return rows if rows.schema.names == names else rows.select(names)


def _expand(path: Path) -> Iterator[Path]:
    if path == PIPE or path.exists() or not glob.has_magic(str(path)):
        yield path
        return
    found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  # Path.glob takes no absolute patterns
    if not found:
        raise ValueError(f"{path}: no file matches")
    yield from map(Path, found)


def _format(path: Path, options: Options) -> str:
    shown = make_printable(str(path))
    if path.is_dir():
        raise ValueError(
            f"{shown} is a folder; name its files, for example '{shown}/*.parquet'"
        )
    if path != PIPE and not path.exists():
        raise ValueError(f"{shown}: there is no such file")
    suffix = path.suffix.lower()
    if suffix in (".zip", ".bz2", ".xz"):
        raise ValueError(f"{shown}: {suffix} is not read; unpack it first")
    found = options.format or SUFFIXES.get(_suffix(path))
    if found is None:
        known = f"give --format {'|'.join(_OPENERS)}"
        if suffix.startswith(".xl"):
            known = "read what Excel wrote with pandas.read_excel"
        raise ValueError(
            f"{shown}: its name does not say what it holds, as {', '.join(SUFFIXES)} do; {known}"
        )
    return found


def _suffix(path: Path) -> str:
    return next(
        (
            suffix
            for suffix in map(str.lower, reversed(path.suffixes))
            if suffix not in PACKED
        ),
        "",
    )


def _regular(path: Path, encoding: str | None, undo: contextlib.ExitStack) -> Path:
    """Return a file that can be read again, in UTF-8 if an encoding is given: a copy, if it is not one."""
    packed = PACKED.get(path.suffix.lower())
    if path.is_file() and not packed and not encoding:
        return path
    copy = undo.enter_context(tempfile.NamedTemporaryFile(prefix="rt_frames-"))  # noqa: SIM115  # mode 0600
    with (
        _naming(_File(path, path)),
        contextlib.nullcontext(sys.stdin.buffer)
        if path == PIPE
        else path.open("rb") as raw,
    ):
        stream: Any = pa.input_stream(raw, compression=packed)
        if encoding:
            text = io.TextIOWrapper(io.BufferedReader(stream), encoding, newline="")
            copy.writelines(
                part.encode() for part in iter(functools.partial(text.read, 2**20), "")
            )
        else:
            copy.writelines(iter(functools.partial(stream.read, 2**20), b""))
    copy.flush()
    return Path(copy.name)


@contextlib.contextmanager
def _naming(file: _File) -> Iterator[None]:
    """Name the file in what its library raises, in few words."""
    try:
        yield
    except Exception as error:
        duckdb_error = getattr(sys.modules.get("duckdb"), "Error", OSError)
        if isinstance(error, pa.ArrowException | OSError | UnicodeError | duckdb_error):
            raise ValueError(f"{file}{_explain(str(error))}") from error
        raise


def _explain(text: str) -> str:
    """Say where and why a file cannot be read, without what names parameters of DuckDB."""
    found = re.search(
        r"CSV Error on Line: (\d+)\n(?:Original Line:([^\0]*?)\n+)?(.+)\n+Poss", text
    )
    if found:
        number, line, why = found.groups()
        advice = f"; {_ENCODING}" if "unicode" in why else ""
        return f", line {number}: {why.partition('.')[0]}: {one_line(line or '', 100)!r}{advice}"
    if "state machine" in text:
        return ": some lines end in CR LF and some in LF, or CR; make them alike first"
    return f" cannot be read: {one_line(text.partition(chr(10))[0], 300)}"


def _parquet(path: str) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    file = pq.ParquetFile(path)
    return file.schema_arrow, file.iter_batches()


def _arrow(path: str) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    mapped = pa.memory_map(path)
    if mapped.read(6) != b"ARROW1":
        mapped.seek(0)
        stream = pa.ipc.open_stream(mapped)
        return stream.schema, stream
    file = pa.ipc.open_file(mapped)
    return file.schema, map(file.get_batch, range(file.num_record_batches))


def _open_arrow(
    reader: Callable[[str], Any], files: list[_File], _options: Options
) -> _Opened:
    """Open files that state their types."""
    schemas = []
    for file in files:
        with _naming(file):
            schemas.append(reader(str(file.regular))[0].remove_metadata())
    first = schemas[0]
    for file, schema in zip(files, schemas, strict=True):
        _check_names(file, schema.names, files[0], first.names)
        ordered = _in_order(schema.empty_table(), first.names).schema
        for now, one in zip(ordered, first, strict=True):
            if not now.equals(one):
                raise ValueError(
                    f"{file}: column {now.name!r} is {now.type}, and {one.type} in {files[0]}; cast it first"
                )
    return first, lambda file: reader(str(file.regular))[1]


def _check_names(
    file: _File, names: list[str], first: _File, expected: list[str]
) -> None:
    """Refuse columns of other names; if names occur twice, also those in another order."""
    more = {*names} - {*expected}
    less = {*expected} - {*names}
    if names == expected or (
        not more and not less and len({*names}) == len(names) == len(expected)
    ):
        return
    lists = [
        f"{list_names(sorted(some))} {word}"
        for some, word in ((more, "added"), (less, "missing"))
        if some
    ]
    found = " and ".join(lists) or "their order"
    raise ValueError(
        f"{file} has other columns than {first}: {found}; make them alike first"
    )


def _open_csv(files: list[_File], options: Options) -> _Opened:
    require("files", "duckdb")
    headers = [_read_names(file, options) for file in files]
    names = headers[0]
    for file, header in zip(files, headers, strict=True):
        _check_names(file, header, files[0], names)
    kinds = _find_kinds(names, files, options)

    def read(file: _File) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in _cells(file, names, options):
            arrays = []
            for name, kind, cells in zip(names, kinds, batch.columns, strict=True):
                with _naming_row(file, rows, name, kind, cells, options):
                    arrays.append(_to_values(cells, kind, options))
            yield pa.RecordBatch.from_arrays(arrays, names)
            rows += batch.num_rows

    return pa.schema(
        [(name, kind.type) for name, kind in zip(names, kinds, strict=True)]
    ), read


# DuckDB detects nothing, since it is told all that it would detect
_READ_CSV = """
    SELECT * FROM read_csv(?, delim = ?, header = ?, columns = ?, auto_detect = false, strict_mode = true, quote = '"',
    escape = '"', comment = '', nullstr = [''], allow_quoted_nulls = false, hive_partitioning = false)
"""


@functools.cache
def _database() -> Any:
    import duckdb

    return duckdb.connect()


def _cells(
    file: _File, names: list[str], options: Options, limit: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the cells of CSV as text; an empty one is null unless it is quoted."""
    header = _read_names(file, options)
    columns = {f"c{number}": "VARCHAR" for number in range(len(header))}
    path = re.sub(r"([\[*?])", r"[\1]", str(file.regular.absolute()))
    nulls = pc.SetLookupOptions(pa.array(options.nulls, _TEXT.type))
    with _database().cursor() as connection:
        # large_string
        connection.sql("SET arrow_large_buffer_size = true")
        rows = connection.sql(
            _READ_CSV, params=[path, _separator(file, options), options.header, columns]
        )
        if limit is not None:
            rows = rows.limit(limit)
        for batch in rows.to_arrow_reader(max(BATCH_CELLS // len(header), 2048)):
            arrays = batch.columns
            if options.nulls:
                null = pa.scalar(None, _TEXT.type)
                arrays = [
                    _call(
                        "replace_with_mask",
                        [cells, _call("is_in", [cells], nulls), null],
                    )
                    for cells in arrays
                ]
            yield _in_order(pa.RecordBatch.from_arrays(arrays, header), names)


def _find_kinds(names: list[str], files: list[_File], options: Options) -> list[_Kind]:
    """Return what each column is: as the caller or a table says, or the first kind that keeps the first cells."""
    known = _known_kinds(names, options)
    fitting = [_KINDS] * len(names)
    for file in files:
        with _naming(file):
            for batch in _cells(file, names, options, FIRST_ROWS):
                for place, cells in enumerate(batch.columns):
                    fitting[place] = [
                        kind
                        for kind in fitting[place]
                        if place in known or _keeps(kind, cells, options)
                    ]
    for place, kinds in enumerate(fitting):
        # without a cell, all kinds are left
        known.setdefault(place, _TEXT if len(kinds) in (0, len(_KINDS)) else kinds[0])
    return [known[place] for place in range(len(names))]


def _known_kinds(names: list[str], options: Options) -> dict[int, _Kind]:
    """Return the kinds of columns, by place, that the caller or a table gives."""
    targets = {field.name: field.type for field in options.table or ()}
    known = {}
    for place, (name, new) in enumerate(
        zip(names, _names_in_table(names, options), strict=True)
    ):
        arrow = options.dtypes.get(name, targets.get(new))
        if arrow is None:
            continue
        if types.is_dictionary(arrow):
            arrow = arrow.value_type
        if arrow == pa.binary(16):
            # some services describe the storage alone
            arrow = pa.uuid()
        pattern = _PATTERNS.get(family(arrow) or str(arrow))
        if name in options.dtypes:
            known[place] = _Kind(f"is to be {arrow}", "", arrow)
        elif pattern is None:
            raise ValueError(
                f"column {name!r} is {arrow} in the table, which no text becomes; use Parquet or NDJSON"
            )
        else:
            known[place] = _Kind(f"is {arrow} in the table", pattern, arrow)
    return known


def _keeps(kind: _Kind, cells: pa.Array, options: Options) -> bool:
    try:
        # most kinds are ruled out by these
        _to_values(cells.slice(0, 100), kind, options)
        _to_values(cells, kind, options)
    except CONVERSION_ERRORS:
        return False
    return True


def _to_values(cells: pa.Array, kind: _Kind, options: Options) -> pa.Array:
    """Return the values of cells; raise one of `CONVERSION_ERRORS` if they are not all of a kind."""
    if options.decimal != "." and (
        types.is_floating(kind.type) or types.is_decimal(kind.type)
    ):
        _check_all(
            _call(
                "invert",
                [_call("match_substring", [cells], pc.MatchSubstringOptions("."))],
            )
        )
        cells = _call(
            "replace_substring",
            [cells],
            pc.ReplaceSubstringOptions(options.decimal, "."),
        )
    is_moment = types.is_date(kind.type) or types.is_timestamp(kind.type)
    if options.date_format and is_moment:
        cells = _to_iso(cells, options.date_format)
    if kind.pattern:
        _check_all(
            _call(
                "match_substring_regex",
                [cells],
                pc.MatchSubstringOptions(f"^({kind.pattern})$"),
            )
        )
    if is_moment and getattr(kind.type, "tz", None) in ("UTC", "Etc/UTC", "+00:00"):
        to_utc = pc.ReplaceSubstringOptions(f"^({_DATE}[T ]{_CLOCK})$", r"\1Z")
        cells = _call("replace_substring_regex", [cells], to_utc)
    return cells if kind.type == cells.type else cast_exactly(cells, kind.type)


def _check_all(passed: pa.Array) -> None:
    if _call("all", [passed]).as_py() is False:
        raise ValueError("not of this kind")


def _to_iso(cells: pa.Array, date_format: str) -> pa.Array:
    """Rewrite moments in the form of ISO 8601; those that the format cannot write have it already."""
    pattern = check_date_format(date_format)
    coded = cells.dictionary_encode()
    found = []
    for text in coded.dictionary.to_pylist():
        try:
            moment = datetime.strptime(text, date_format)
        except ValueError:
            if re.fullmatch(pattern, text):
                # not as the format says
                raise
            found.append(text)
        else:
            found.append(str(moment.date() if pattern == _DATE else moment))
    return pa.array(found, cells.type).take(coded.indices)


@contextlib.contextmanager
def _naming_row(
    file: _File, rows: int, name: str, kind: _Kind, cells: pa.Array, options: Options
) -> Iterator[None]:
    """Name the first cell that is not of a kind."""
    try:
        yield
    except CONVERSION_ERRORS as error:
        row, _ = first_failing_row(
            len(cells),
            lambda a, b: _to_values(cells.slice(a, b - a), kind, options),
            error,
        )
        place = row or 0
        advice = (
            f"give --dtype {shlex.quote(f'{name}=string')}"
            if kind in _KINDS
            else "correct it"
        )
        text = f"column {name!r} {kind.words}, and this is {show_value(cells[place].as_py())}"
        raise ValueError(f"{file}, row {rows + place}: {text}; {advice}") from None


def _separator(file: _File, options: Options) -> str:
    separator = options.separator or ("\t" if _suffix(file.path) == ".tsv" else ",")
    if separator == options.decimal:
        raise click.UsageError(
            f"--decimal: {separator!r} separates the cells; give another --separator, such as ';'"
        )
    return separator


def _read_names(file: _File, options: Options) -> list[str]:
    """Return the names in the first row; DuckDB would change those that are empty, or equal but for case."""
    separator = _separator(file, options)
    with (
        _naming(file),
        file.regular.open(
            encoding="utf-8-sig", errors="surrogateescape", newline=""
        ) as text,
    ):
        try:
            names = next(csv.reader(text, delimiter=separator, strict=True), [])
        except csv.Error as error:
            raise ValueError(f"{file}, line 1: {error}") from None
    if not names:
        raise ValueError(f"{file}, line 1: there are no columns")
    if any("\udc80" <= character <= "\udcff" for character in "".join(names)):
        raise ValueError(f"{file}, line 1: this is not UTF-8; {_ENCODING}")
    other = re.search(r"[,;\t|]", names[0])
    if (
        len(names) == 1
        and options.separator is None
        and other
        and other[0] != separator
    ):
        raise ValueError(
            f"{file} has one column, {names[0]!r:.100}; give --separator {other[0]!r}"
        )
    return (
        names if options.header else [f"column{number}" for number in range(len(names))]
    )


def _to_float(text: str) -> float:
    number = float(text)
    if math.isinf(number) or (number == 0 and re.match("[-0.]*[1-9]", text)):
        raise ValueError(f"{text:.50} is beyond 64-bit floats")
    return number


def _to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in an object"
        )
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_to_object, parse_float=_to_float)


def _decode(text: bytes, file: _File, line: int) -> Any:
    try:
        return _DECODER.decode(text.decode("utf-8-sig" if line == 1 else "utf-8"))
    except UnicodeDecodeError:
        raise ValueError(
            f"{file}, line {line}: this is not UTF-8; {_ENCODING}"
        ) from None
    except json.JSONDecodeError as error:
        advice = (
            "; if each line has an object, give --format ndjson"
            if error.msg == "Extra data"
            else ""
        )
        raise ValueError(
            f"{file}, line {line + error.lineno - 1}: malformed JSON: {error.msg}{advice}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}, line {line}: {error}") from None


def _read_objects(form: str, file: _File) -> Iterator[Any]:
    if form == "json":
        found = _decode(file.regular.read_bytes(), file, 1)
        yield from found if isinstance(found, list) else [found]
        return
    with file.regular.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _decode(line.rstrip(), file, number)


def _open_json(form: str, files: list[_File], _options: Options) -> _Opened:
    """Open JSON; all of it is read twice, first for the types, which are those that Arrow infers."""

    def arrays(file: _File, arrow: pa.DataType | None = None) -> Iterator[pa.Array]:
        objects = _read_objects(form, file)
        for rows_before in itertools.count(0, JSON_ROWS):
            rows = list(itertools.islice(objects, JSON_ROWS))
            if not rows:
                return
            try:
                array = _to_structs(rows, arrow, 0, len(rows))
            except CONVERSION_ERRORS as error:
                row, reason = first_failing_row(
                    len(rows), functools.partial(_to_structs, rows, arrow), error
                )
                where = f", row {rows_before + row}" if row is not None else ""
                raise ValueError(
                    f"{file}{where}: {one_line(str(reason), 200)}; make the values alike"
                ) from None
            yield array

    found = pa.schema([])
    for file in files:
        for array in arrays(file):
            try:
                found = pa.unify_schemas(
                    [found, pa.schema(list(array.type))], promote_options="permissive"
                )
            except pa.ArrowException as error:
                raise ValueError(
                    f"{file}: {one_line(str(error), 200)}; make the values alike"
                ) from None
    if not found.names:
        raise ValueError(f"{files[0]}: there are no columns")
    struct = map_types(
        pa.struct(list(found)),
        lambda arrow: _TEXT.type if types.is_string(arrow) else arrow,
    )
    return pa.schema(list(struct)), lambda file: map(
        pa.RecordBatch.from_struct_array, arrays(file, struct)
    )


def _to_structs(
    rows: list[Any], arrow: pa.DataType | None, _start: int, end: int
) -> pa.Array:
    """Convert all rows up to one, which may differ from any before it."""
    array = pa.array(rows[:end], arrow)
    if end and (not types.is_struct(array.type) or array.null_count):
        raise ValueError("this is no object")
    if arrow is None:
        _refuse_bools(rows[:end], array.type)
    return array


def _refuse_bools(values: list[Any], arrow: pa.DataType) -> None:
    """Refuse true and false among floats, which Arrow takes for 1 and 0."""
    if types.is_struct(arrow):
        for field in arrow:
            _refuse_bools(
                [value.get(field.name) for value in values if value], field.type
            )
    elif types.is_list(arrow):
        items = itertools.chain.from_iterable(value for value in values if value)
        _refuse_bools(list(items), arrow.value_type)
    elif types.is_floating(arrow) and any(isinstance(value, bool) for value in values):
        raise ValueError("true and false are no numbers")


_OPENERS: dict[str, Callable[[list[_File], Options], _Opened]] = {
    "parquet": functools.partial(_open_arrow, _parquet),
    "csv": _open_csv,
    "ndjson": functools.partial(_open_json, "ndjson"),
    "json": functools.partial(_open_json, "json"),
    "arrow": functools.partial(_open_arrow, _arrow),
}
