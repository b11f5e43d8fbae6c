"""Files of tables → one `Source`, a few batches in memory at a time.

DuckDB reads CSV and JSON. It infers types from a sample and casts by them, loosely: a late ``1.7`` becomes 2, a zone
is dropped. So the cells of CSV come as text, and each is cast if its text is one of the type's, or refused by its row.
Parquet and Arrow files state their types; pyarrow reads those.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import glob
import io
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from rt_frames._extras import require
from rt_frames._frames.any_frame import open_source
from rt_frames._frames.from_arrow import to_chunk
from rt_frames._frames.source import Chunk, Source
from rt_frames._names import clean_names
from rt_frames._text import list_names, make_printable, one_line

SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".tsv": "csv",
    ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "json",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow",
}  # fmt: skip
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
PIPE = Path("-")
SAMPLE_ROWS = 20_480  # DuckDB's default


class Options(NamedTuple):
    """How files are read; what is None follows from their names, or from what they hold.

    Parameters
    ----------
    format : str, optional
        One of the values of `SUFFIXES`.
    separator, decimal, date_format, encoding, nulls, header
        Of CSV: what separates cells, the decimal point, how dates are written, the characters, cells that mean null,
        and whether the first row names the columns.
    sample : int
        Rows of each CSV file from which types are inferred; -1 for all.
    dtypes : dict of str to pyarrow.DataType
        Types of columns, in place of the inferred ones.
    rename, clean_names
        What columns are called in the table.
    """

    format: str | None = None
    separator: str | None = None
    decimal: str = "."
    date_format: str | None = None
    encoding: str | None = None
    nulls: tuple[str, ...] = ()
    header: bool = True
    sample: int = SAMPLE_ROWS
    dtypes: Mapping[str, pa.DataType] = {}
    rename: Mapping[str, str] = {}
    clean_names: bool = False


_DEFAULTS = Options()
_ENCODING = "give --encoding, such as cp1252 or utf-16"
_DAY, _CLOCK = r"\d{4}-\d{1,2}-\d{1,2}", r"([01]?\d|2[0-3]):\d{2}(:\d{2}([.]\d{1,6}0*)?)?"
_WHOLE = "0|-?[1-9][0-9]*"
# DuckDB's type of a CSV column → cells that its cast preserves; columns of other types stay text
_CELLS = {
    "BOOLEAN": "(?i)true|false",
    "BIGINT": _WHOLE,
    "HUGEINT": _WHOLE,
    "DOUBLE": r"(?i)-?((0|[1-9]\d{0,14})|(0|[1-9]\d*)?[.]\d*)(e[-+]?\d+)?|-?inf(inity)?|nan",
    "DATE": _DAY,
    "TIME": _CLOCK,
    "TIMESTAMP": f"{_DAY}[T ]{_CLOCK}",
    "TIMESTAMP WITH TIME ZONE": f"{_DAY}[T ]{_CLOCK} ?(Z|UTC|[-+]\\d{{2}}(:\\d{{2}})?)",
}


class _File(NamedTuple):
    """A file by its name, and where it can be read again and again: a temporary copy of a pipe."""

    path: Path
    regular: Path

    def __str__(self) -> str:
        return make_printable(str(self.path))


class _Opened(NamedTuple):
    """What the files hold, what reads one of them, and what was inferred where they are text."""

    schema: pa.Schema
    read: Callable[[_File], Iterable[pa.RecordBatch]]
    inferred: str | None = None


def open_files(paths: Iterable[Path], options: Options = _DEFAULTS) -> tuple[Source, str | None]:
    """Open files, those that globs name, or a pipe, as one source; say what was inferred where they are text.

    The source's ``close`` removes temporary files.

    Raises
    ------
    ValueError
        If a file is missing, cannot be read, or has other columns than the first.
    """
    found = [path for pattern in paths for path in _expand(pattern)]
    formats = dict.fromkeys(_format(path, options) for path in found)
    if len({_OPENERS[form] for form in formats}) > 1:
        raise ValueError(f"the files are of several formats, {' and '.join(formats)}; make them alike first")
    _check_options(next(iter(formats)), options)
    undo = contextlib.ExitStack()
    try:
        files = [_File(path, _regular(path, options.encoding, undo)) for path in found]
        opened = _OPENERS[next(iter(formats))](files, options)
        return _to_source(opened, files, options, undo.close), opened.inferred
    except BaseException:
        undo.close()
        raise


def _check_options(form: str, options: Options) -> None:
    if options.decimal not in (".", ",") or options.decimal == options.separator:
        raise ValueError(f"--decimal: expected . or , and not the separator, got {options.decimal!r}")
    for name, option in {
        "separator": "separator",
        "decimal": "decimal",
        "date_format": "date-format",
        "nulls": "null",
        "header": "no-header",
    }.items():
        if form != "csv" and getattr(options, name) != getattr(_DEFAULTS, name):
            raise ValueError(f"--{option}: only CSV has it, and this is {form}; leave it out")


def read_table(path: Path, options: Options = _DEFAULTS) -> pa.Table:
    """Read a file whole."""
    with contextlib.closing(open_source(open_files([path], options)[0])) as source:
        return pa.Table.from_batches(source.batches(), source.schema)


def _to_source(opened: _Opened, files: list[_File], options: Options, close: Callable[[], None]) -> Source:
    held, asked = opened.schema.names, options.dtypes
    for option, given in (("--rename", options.rename), ("--dtype", asked)):
        if unknown := [name for name in given if name not in held]:
            raise ValueError(f"{option}: there is no column {unknown[0]!r}; the columns are {held!r:.500}")
    names = [options.rename.get(name, name) for name in held]
    names = clean_names(names) if options.clean_names else names

    def chunks() -> Iterator[Chunk]:
        for file in files:
            with _naming(file):
                for batch in opened.read(file):
                    yield to_chunk(batch.rename_columns(names), str(file))

    schema = pa.schema([field.with_name(name) for field, name in zip(opened.schema, names, strict=True)])
    casts = {new: asked[old] for old, new in zip(held, names, strict=True) if old in asked}
    return Source(schema, chunks, zero_copy=False, casts=casts, close=close)


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
        raise ValueError(f"{shown} is a folder; name its files, for example '{shown}/*.parquet'")
    if path != PIPE and not path.exists():
        raise ValueError(f"{shown}: there is no such file")
    found = options.format or SUFFIXES.get(_suffix(path))
    if found is None:
        suffix = path.suffix.lower()
        other = "unzip it first" if suffix == ".zip" else "read what Excel wrote with pandas.read_excel"
        known = f"give --format {'|'.join(_OPENERS)}" if suffix[:3] not in (".xl", ".zi") else other
        raise ValueError(f"{shown}: its name does not say what it holds, as {', '.join(SUFFIXES)} do; {known}")
    return found


def _suffix(path: Path) -> str:
    return next((suffix for suffix in map(str.lower, reversed(path.suffixes)) if suffix not in PACKED), "")


def _regular(path: Path, encoding: str | None, undo: contextlib.ExitStack) -> Path:
    """Return a file that can be read again, in UTF-8 where an encoding is given: a copy, if it is not one."""
    packed = PACKED.get(path.suffix.lower())
    if path.is_file() and not packed and not encoding:
        return path
    copy = undo.enter_context(tempfile.NamedTemporaryFile(prefix="rt_frames-"))  # noqa: SIM115  # mode 0600
    with (
        _naming(_File(path, path)),
        contextlib.nullcontext(sys.stdin.buffer) if path == PIPE else path.open("rb") as raw,
    ):
        stream: Any = pa.input_stream(raw, compression=packed)
        if encoding:
            text = io.TextIOWrapper(io.BufferedReader(stream), encoding, newline="")
            copy.writelines(part.encode() for part in iter(functools.partial(text.read, 2**20), ""))
        else:
            copy.writelines(iter(functools.partial(stream.read, 2**20), b""))
    copy.flush()
    return Path(copy.name)


@contextlib.contextmanager
def _naming(*files: _File) -> Iterator[None]:
    """Name the file in what its library raises, in few words."""
    try:
        yield
    except Exception as error:
        duckdb_error = getattr(sys.modules.get("duckdb"), "Error", OSError)
        if isinstance(error, pa.ArrowException | OSError | UnicodeError | csv.Error | duckdb_error):
            file = next((file for file in files if f'"{file.regular.absolute()}"' in str(error)), files[0])
            raise ValueError(f"{file}{_explain(str(error))}") from error
        raise


def _explain(text: str) -> str:
    """Say where and why a file cannot be read, without the hints that name parameters of DuckDB."""
    said = re.split(r"\n\s*(?:Possible|Potential|Try |LINE \d|\* )", text)[0].strip()
    if found := re.search(r"\brow \d+: [^\0]*", said):
        return f", {one_line(found[0], 300)}"
    if found := re.search(r"CSV Error on Line: (\d+)\n(?:Original Line:([^\0]*)\n)?(.+)\Z", said):
        number, line, why = found.groups()
        advice = f"; {_ENCODING}" if "unicode" in why else ""
        return f", line {number}: {why}: {one_line(line or '', 100)!r}{advice}"
    if "state machine" in said:
        return ": some lines end in CR LF and some in LF, or CR; make them alike first"
    said = re.sub(r'^([A-Z]\w+ )+Error: | in file ".*",', "", said)
    if found := re.match(r"Malformed JSON at byte \d+ in (\S+) (\d+): (.+)", said):
        place, number, why = found.groups()  # DuckDB counts one too many
        advice = f"; {_ENCODING}" if "UTF-8" in why else ""
        return (
            f", {place.rpartition('/')[2]} {int(number) - 1}: malformed JSON: {one_line(why, 200).rstrip('.')}{advice}"
        )
    return f" cannot be read: {one_line(said, 300)}"


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


def _open_arrow(reader: Callable[[str], Any], files: list[_File], _options: Options) -> _Opened:
    """Open files that state their types."""
    schemas = []
    for file in files:
        with _naming(file):
            schemas.append(reader(str(file.regular))[0].remove_metadata())
    for file, schema in zip(files, schemas, strict=True):
        _check_names(file, schema.names, files[0], schemas[0].names)
        if unlike := [(now, one) for now, one in zip(schema, schemas[0], strict=True) if not now.equals(one)]:
            now, one = unlike[0]
            raise ValueError(f"{file}: column {now.name!r} is {now.type}, and {one.type} in {files[0]}; cast it first")
    return _Opened(schemas[0], lambda file: reader(str(file.regular))[1])


def _check_names(file: _File, names: list[str], first: _File, expected: list[str]) -> None:
    if names != expected:
        more, less = {*names} - {*expected}, {*expected} - {*names}
        lists = [f"{list_names(sorted(some))} {word}" for some, word in ((more, "added"), (less, "missing")) if some]
        found = " and ".join(lists) or "their order"
        raise ValueError(f"{file} has other columns than {first}: {found}; make them alike first")


def _query(function: str, files: list[_File], select: str = "*", **options: Any) -> Any:
    """Return DuckDB's relation of what a function reads, with options; it is read as a stream, and runs each time."""
    import duckdb

    # a name such as s3://… would load code from the network
    connection = duckdb.connect(
        config=dict.fromkeys(["autoinstall_known_extensions", "autoload_known_extensions"], False)
    )
    # text as large_string, like that of Polars and pandas
    for setting in ("TimeZone = 'UTC'", "arrow_large_buffer_size = true", "enable_progress_bar = false"):
        connection.sql(f"SET {setting}")
    names = [re.sub(r"([\[*?])", r"[\1]", str(file.regular.absolute())) for file in files]
    given = "".join(f", {name} = ?" for name in options)
    first = names[0] if function == "sniff_csv" else names
    return connection.sql(f"SELECT {select} FROM {function}(?{given})", params=[first, *options.values()])  # noqa: S608  # nosec B608


def _to_opened(files: list[_File], names: list[str], relation: Callable[[_File], Any], inferred: str) -> _Opened:
    def read(file: _File) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_stream(relation(file))

    with _naming(files[0]):
        found = pa.RecordBatchReader.from_stream(relation(files[0]).limit(0)).schema.types
    return _Opened(pa.schema(list(zip(names, found, strict=True))), read, inferred)


def _open_csv(files: list[_File], options: Options) -> _Opened:
    require("files", "duckdb")
    given: dict[str, Any] = {
        "header": options.header, "quote": '"', "escape": '"', "comment": "", "skip": 0, "strict_mode": True,
        "nullstr": ["", *options.nulls], "allow_quoted_nulls": bool(options.nulls),
    }  # fmt: skip
    if separator := options.separator or ("\t" if _suffix(files[0].path) == ".tsv" else ""):
        given["delim"] = separator
    sample = {**given, "sample_size": options.sample, "decimal_separator": options.decimal}
    if options.date_format:
        sample["dateformat"] = options.date_format
    given["delim"], kinds, formats = _sniff(files, sample)
    _warn_of_ambiguous_dates(files, sample, kinds, formats)
    names, *others = [_read_names(file, given["delim"], options) for file in files]
    for file, other in zip(files[1:], others, strict=True):
        _check_names(file, other, files[0], names)
    if is_broken := len(kinds) != len(names):
        kinds = ["VARCHAR"] * len(names)
    cells = [_cell(f"c{n}", *column, formats, options) for n, column in enumerate(zip(names, kinds, strict=True))]
    given |= {"auto_detect": False, "columns": {f"c{n}": "VARCHAR" for n in range(len(names))}}

    def relation(file: _File) -> Any:
        return _query("read_csv", [file], ", ".join(cells), **given, hive_partitioning=False)

    shown = [f"{kind.lower()}s as {form}" for kind, form in formats.items() if form and kind in kinds]
    opened = _to_opened(files, names, relation, ", ".join([f"separator {given['delim']!r}", *shown]))
    for file in files if is_broken else []:  # to report the line
        with _naming(file):
            for _ in opened.read(file):
                pass
    return opened


def _sniff(files: list[_File], sample: dict[str, Any]) -> tuple[str, list[str], dict[str, str | None]]:
    """Return the separator of CSV, its columns' types in all files, and the formats of dates and times.

    Where a file cannot be read there are no types.
    """
    import duckdb

    separator, kinds, formats = sample.get("delim", ","), list[str](), dict[str, str | None]()
    with contextlib.suppress(duckdb.Error):
        relations = [_query("sniff_csv", [file], **sample) for file in files]
        found = [dict(zip(one.columns, one.limit(1).fetchall()[0], strict=True)) for one in relations]
        if len(found[0]["Columns"]) > 1:
            separator = found[0]["Delimiter"]
        for kind, key in (("DATE", "DateFormat"), ("TIMESTAMP", "TimestampFormat")):
            formats[kind] = next((one[key] for one in found if one[key]), None)
        inferred = _query(
            "read_csv", files, **{**sample, "delim": separator}, files_to_sniff=-1, hive_partitioning=False
        )
        kinds = [str(kind) for kind in inferred.types]
    return separator, kinds, formats


def _warn_of_ambiguous_dates(
    files: list[_File], sample: dict[str, Any], kinds: list[str], formats: dict[str, str | None]
) -> None:
    """Warn where day and month may be exchanged in all dates, so that another file may be read the other way."""
    found = formats.get("DATE") or ""
    other = {"%d/%m/%Y": "%m/%d/%Y", "%m/%d/%Y": "%d/%m/%Y", "%d-%m-%Y": "%m-%d-%Y", "%m-%d-%Y": "%d-%m-%Y"}.get(found)
    if not other or "dateformat" in sample or "DATE" not in kinds:
        return
    if _sniff(files, {**sample, "dateformat": other})[1] == kinds:
        warnings.warn(f"dates are read as {found}, and {other} would fit as well; give --date-format", stacklevel=2)


def _read_names(file: _File, separator: str, options: Options) -> list[str]:
    """Return the names in the first row; DuckDB would change those that are empty, or equal but for case."""
    with _naming(file), file.regular.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
        names = next(csv.reader(text, delimiter=separator, strict=True), [])
    if not names:
        raise ValueError(f"{file}, line 1: there are no columns")
    if any("\udc80" <= character <= "\udcff" for character in "".join(names)):
        raise ValueError(f"{file}, line 1: this is not UTF-8; {_ENCODING}")
    other = re.search(r"[,;\t|]", names[0])
    if len(names) == 1 and options.separator is None and other and other[0] != separator:
        raise ValueError(f"{file} has one column, {names[0]!r:.100}; give --separator {other[0]!r}")
    return names if options.header else [f"column{number}" for number in range(len(names))]


def _cell(cell: str, name: str, kind: str, formats: Mapping[str, str | None], options: Options) -> str:
    """Return the SQL that casts the text of a cell exactly, or refuses it."""
    target, written = options.dtypes.get(name, pa.null()), formats.get(kind)
    if types.is_temporal(target):
        drops_zone = kind.endswith("ZONE") and types.is_timestamp(target) and target.tz is None
        by_type = kind.startswith(("DATE", "TIME")) and not drops_zone
    else:
        by_type = types.is_null(target) or types.is_boolean(target)
    is_typed = kind in _CELLS and "%y" not in (written or "") and by_type  # the century of %y is a guess
    is_number = types.is_floating(target) or types.is_decimal(target) or (is_typed and kind == "DOUBLE")
    text = f"trim({cell})"
    if is_number and options.decimal != ".":
        text = f"translate({text}, {_quote(options.decimal + '.')}, {_quote('.' + options.decimal)})"
    if not is_typed:
        return text if is_number else cell
    value = f"TRY_CAST({text} AS {'DECIMAL(38, 0)' if kind == 'HUGEINT' else kind})"
    fits = f"regexp_full_match({text}, {_quote(_CELLS[kind])})"
    if kind == "DOUBLE":
        fits += f" AND NOT (isinf({value}) AND regexp_matches({text}, '[0-9]'))"
    if written:  # %Y also accepts two digits, as a year of the first century
        parsed = f"CAST(try_strptime({text}, {_quote(written)}) AS {kind})"
        value = f"CASE WHEN {fits} THEN {value} WHEN regexp_matches({text}, '[0-9]{{4}}') THEN {parsed} END"
        fits = "true"
    where = f"{cell} IS NOT NULL AND (({value}) IS NULL OR NOT ({fits}))"
    return _refuse(where, cell, name, kind, value)


def _refuse(where: str, cell: str, name: str, kind: str, value: str) -> str:
    """Return the SQL that refuses some cells by their row, counted from 0."""
    start, end = _quote(f": column {name!r} is {kind}, and this is '"), _quote(f"'; give {_as_text(name)}")
    said = f"'row ' || (row_number() OVER () - 1) || {start} || left(CAST({cell} AS VARCHAR), 80) || {end}"
    return f"CASE WHEN {where} THEN error({said}) ELSE {value} END"


def _as_text(name: str) -> str:
    return f"--dtype {shlex.quote(f'{name}=string')}"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _open_json(files: list[_File], options: Options) -> _Opened:
    require("files", "duckdb")
    with _naming(*files):
        found = _query("read_json", files, sample_size=-1, records="true", map_inference_threshold=-1,
                       maximum_sample_files=2**31)  # fmt: skip
        keys = _query("read_json_objects", files, "DISTINCT unnest(json_keys(json))", format="auto").fetchall()
    if changed := {key for (key,) in keys} ^ set(found.columns):
        raise ValueError(f"{files[0]}: columns without names, or equal but for case: {list_names(sorted(changed))}")
    columns, cells = {}, []
    for name, kind in zip(found.columns, found.types, strict=True):
        cell, target = _identifier(name), options.dtypes.get(name, pa.null())
        is_text = str(kind) == "DOUBLE" or not (types.is_null(target) or types.is_nested(target))
        columns[name] = "VARCHAR" if is_text else _json_type(kind)
        if "JSON" in columns[name]:
            raise ValueError(f"{files[0]}: {name!r} holds values of several kinds, or none; give {_as_text(name)}")
        value = _cell(cell, name, str(kind), {}, options) if is_text else cell
        if types.is_decimal(target):  # DuckDB read it as a float, which holds 15 digits
            value = _refuse(f"{cell} LIKE '%.%' AND length({cell}) > 16", cell, name, "a float", value)
        elif "DOUBLE" in columns[name]:
            # from 2**53 on, it may have been an integer
            unsure = rf"regexp_matches(CAST({cell} AS VARCHAR), '\binf\b|\b9\d{{15}}[.]0\b|e[+]')"
            value = _refuse(unsure, cell, name, str(kind), value)
        cells.append(f"{value} AS {cell}")

    def relation(file: _File) -> Any:
        return _query("read_json", [file], ", ".join(cells), columns=columns, records="true")

    return _to_opened(files, list(columns), relation, "JSON")


def _json_type(kind: Any) -> str:
    """Name the type that keeps what JSON says; DuckDB would make dates, times and UUIDs of text."""
    if kind.id in ("list", "struct", "map"):
        parts = {name: _json_type(child) for name, child in kind.children}
        if kind.id == "struct":
            return f"STRUCT({', '.join(f'{_identifier(name)} {part}' for name, part in parts.items())})"
        return f"{parts['child']}[]" if kind.id == "list" else f"MAP({', '.join(parts.values())})"
    return str(kind) if str(kind) in ("BOOLEAN", "BIGINT", "UBIGINT", "HUGEINT", "DOUBLE", "JSON") else "VARCHAR"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_OPENERS: dict[str, Callable[[list[_File], Options], _Opened]] = {
    "parquet": functools.partial(_open_arrow, _parquet),
    "csv": _open_csv,
    "ndjson": _open_json,
    "json": _open_json,
    "arrow": functools.partial(_open_arrow, _arrow),
}
