"""Files of tables → one `Source`, a few batches in memory at a time: Parquet, CSV, NDJSON and Arrow IPC, or a pipe.

CSV and NDJSON say nothing of types: those of a sample hold for the whole file, and a value that contradicts them later
is refused with file and line. Nothing is read a second time, but for what lies before such a line.
"""

from __future__ import annotations

import bisect
import codecs
import contextlib
import functools
import glob
import io
import itertools
import json as standard_json
import re
import sys
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
from pyarrow import csv, json, types

from rt_frames._frames.any_frame import open_source
from rt_frames._frames.from_arrow import to_chunk
from rt_frames._frames.from_polars import open_lazy
from rt_frames._frames.refusals import Refusals
from rt_frames._frames.source import Chunk, Source
from rt_frames._names import clean_names
from rt_frames._text import list_names, one_line

SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".tsv": "csv",
    ".ndjson": "ndjson", ".jsonl": "ndjson",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow",
}  # fmt: skip
PACKED = (".gz", ".bz2", ".zst", ".lz4")  # CSV and NDJSON may be
PIPE = Path("-")
BLOCK_BYTES = 4 * 2**20  # of text, parsed at a time
MIN_LINES = 2  # of a sample: the names and a row
_STARTS = {  # of what is not UTF-8
    b"\x1f\x8b": "gzip; decompress it first",
    b"BZh": "bzip2; decompress it first",
    b"\x28\xb5\x2f\xfd": "zstd; decompress it first",
    codecs.BOM_UTF16_LE: "UTF-16; give --encoding utf-16",
    codecs.BOM_UTF16_BE: "UTF-16; give --encoding utf-16",
    b"": "not UTF-8; give --encoding, such as cp1252",
}
_END = "\n\r\r\n" * 8  # blank lines after CSV, which are nothing but in a cell that a quote keeps open


class Options(NamedTuple):
    """How files are read; what is None follows from their names.

    Parameters
    ----------
    format : str, optional
        One of the values of `SUFFIXES`.
    separator, decimal, encoding, nulls
        What lies between the cells of CSV, what its decimal point and its characters are, which cells mean null.
    sample : int
        Bytes of each CSV or NDJSON file that its columns' types are taken from.
    dtypes : dict of str to pyarrow.DataType
        Types of columns, in place of the sample's.
    rename, clean_names
        What columns are called in the table.
    """

    format: str | None = None
    separator: str | None = None
    decimal: str = "."
    encoding: str | None = None
    nulls: tuple[str, ...] = ()
    sample: int = 2**20
    dtypes: Mapping[str, pa.DataType] = {}
    rename: Mapping[str, str] = {}
    clean_names: bool = False


_DEFAULTS = Options()
_decode = standard_json.JSONDecoder(strict=False).raw_decode


class _File(NamedTuple):
    """An opened file: its schema, null where a sample held no value, and its rows in the schema that is wanted.

    Of one whose types are those of a sample, ``sampled`` is how it is parsed, and ``wide`` names the columns of whole
    numbers that a float would round.
    """

    path: Path
    schema: pa.Schema
    batches: Callable[[pa.Schema], Iterable[pa.RecordBatch]]
    sampled: type[_Csv | _Ndjson] | None = None
    wide: Container[str] = ()


def open_files(paths: Iterable[Path], options: Options = _DEFAULTS) -> Source:
    """Open files, those that globs name, or a pipe, as one source, in the order given; globs in that of their names.

    Raises
    ------
    ValueError
        If a file is missing, cannot be read, or has other columns than the first.
    """
    asked = options.dtypes
    parsed = {name: t.value_type if types.is_dictionary(t) else t for name, t in asked.items()}
    options = options._replace(dtypes=parsed)
    files = [_open(path, options) for pattern in paths for path in _expand(pattern)]
    schema = _common_schema(files, options.dtypes)
    for option, given in (("--rename", options.rename), ("--dtype", asked)):
        if unknown := [name for name in given if name not in schema.names]:
            raise ValueError(f"{option}: there is no column {unknown[0]!r}; the columns are {schema.names!r:.500}")
    for file in files:  # a sample of other types either fits those of all, or has the line that does not
        if file.sampled and file.path != PIPE and file.schema.types != schema.types:
            with _naming(file.path):
                next(iter(file.batches(schema)), None)
    names = [options.rename.get(name, name) for name in schema.names]
    names = clean_names(names) if options.clean_names else names

    def chunks() -> Iterator[Chunk]:
        for file in files:
            with _naming(file.path):
                for batch in file.batches(schema):
                    ordered = batch if file.schema.names == schema.names else batch.select(schema.names)
                    yield to_chunk(ordered.rename_columns(names), str(file.path))

    renamed = pa.schema(list(zip(names, schema.types, strict=True)))
    casts = {new: asked[old] for old, new in zip(schema.names, names, strict=True) if old in asked}
    return Source(renamed, chunks, replayable=all(file.path != PIPE for file in files), zero_copy=False, casts=casts)


def read_table(path: Path) -> pa.Table:
    """Read a file whole."""
    source = open_source(open_files([path]))
    return pa.Table.from_batches(source.batches(), source.schema)


def _common_schema(files: list[_File], dtypes: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the schema that all files have, in the order of the first; what no sample held a value of is text."""
    first = min(files, key=lambda file: file.sampled is not None)  # samples fit themselves to what states its types
    found = _in_order(first, files[0])
    kinds: list[dict[pa.DataType, list[Path]]] = [{} for _ in found]
    for file in files:
        for column, (field, other) in enumerate(zip(found, _in_order(file, files[0]), strict=True)):
            one, two, name = field.type, other.type, field.name
            kinds[column].setdefault(two, []).append(file.path)
            if types.is_null(one) or one == two or types.is_null(two) or name in dtypes:
                found[column] = other if types.is_null(one) else field
            elif not file.sampled:
                raise ValueError(
                    f"{file.path}: column {name!r} is {two}, and {one} in {first.path}; cast it first, or say which "
                    f"type it is: --dtype {name}={one}"
                )
            elif {one, two} == {pa.int64(), pa.float64()} and first.sampled and not any(name in f.wide for f in files):
                found[column] = field.with_type(pa.float64())
            elif all(file.sampled is _Csv for file in files):  # which is text before it is anything
                found[column] = field.with_type(pa.large_string())
    if all(file.sampled is _Csv for file in files):
        for field, kind in zip(found, kinds, strict=True):
            _warn_of_text(field, kind)
    unknown = pa.large_string() if any(file.sampled for file in files) else pa.null()
    return pa.schema([(f.name, unknown if types.is_null(f.type) else f.type) for f in found])


def _warn_of_text(field: pa.Field, kinds: dict[pa.DataType, list[Path]]) -> None:
    """Say which CSV files made text of what others hold as something else."""
    texts = {t: "text" if types.is_large_string(t) else str(t) for t in kinds if not types.is_null(t)}
    by_files = sorted((len(kinds[t]), name, kinds[t][0]) for t, name in texts.items())
    others = [name for _, name, _ in by_files if name != "text"]
    if types.is_large_string(field.type) and others and len(by_files) > 1:
        listed = [f"{path}{f' and {n - 1} more' if n > 1 else ''}: {name}" for n, name, path in by_files]
        said = f"column {field.name!r} is read as text, as its type differs ({', '.join(listed)})"
        warnings.warn(f"{said}; --dtype {field.name}={others[-1]!r} refuses that", stacklevel=4)


def _in_order(file: _File, first: _File) -> list[pa.Field]:
    """Return the file's columns in the first one's order."""
    schema, names = file.schema, first.schema.names
    if schema.names == names:
        return list(schema)
    if sorted(schema.names) != sorted(names) or len({*names}) < len(names):
        more, less = {*schema.names} - {*names}, {*names} - {*schema.names}
        lists = [f"{list_names(sorted(some))} {word}" for some, word in ((more, "added"), (less, "missing")) if some]
        found = " and ".join(lists) or "their order"
        raise ValueError(f"{file.path} has other columns than {first.path}: {found}; make them alike first")
    return [schema.field(name) for name in names]


def _expand(path: Path) -> Iterator[Path]:
    if path == PIPE or path.exists() or not glob.has_magic(str(path)):
        yield path
        return
    found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  # Path.glob takes no absolute patterns
    if not found:
        raise ValueError(f"{path}: no file matches")
    yield from map(Path, found)


def _open(path: Path, options: Options) -> _File:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name its files, for example '{path}/*.parquet'")
    if path != PIPE and not path.exists():
        raise ValueError(f"{path}: there is no such file")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        del suffixes[-1]
    found = options.format or SUFFIXES.get("".join(suffixes[-1:]))
    if found is None:
        excel = "; read what Excel wrote with pandas.read_excel" if path.suffix.lower().startswith(".xl") else ""
        known = f"{', '.join(SUFFIXES)} do; give --format {'|'.join(_OPENERS)}"
        raise ValueError(f"{path}: its name does not say what it holds, as {known}{excel}")
    if found in ("parquet", "arrow") and path.suffix.lower() in PACKED:
        raise ValueError(f"{path}: only CSV and NDJSON files may be compressed as a whole; decompress it first")
    with _naming(path):
        return _OPENERS[found](path, options)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in what its library raises, on one line."""
    try:
        yield
    except (pa.ArrowException, pl.exceptions.PolarsError, OSError, UnicodeError) as error:
        raise ValueError(f"{path} cannot be read: {one_line(str(error), 300)}") from error


def _open_parquet(path: Path, _options: Options) -> _File:
    return _scanned(path, pl.scan_parquet(io.BytesIO(sys.stdin.buffer.read()) if path == PIPE else path, glob=False))


def _scanned(path: Path, frame: pl.LazyFrame) -> _File:
    refusals = Refusals()
    source = open_lazy(frame, False, refusals)
    refusals.check(source.schema.names)
    return _File(path, source.schema, lambda _: (b for rows, _, cut, _ in source.chunks() for b in cut(0, rows, None)))


def _open_arrow(path: Path, _options: Options) -> _File:
    if path == PIPE:
        piped = pa.ipc.open_stream(sys.stdin.buffer)
        return _File(path, piped.schema, lambda _: piped)
    data = pa.memory_map(str(path)).read_buffer()
    if data[:6].to_pybytes() == b"ARROW1":
        return _scanned(path, pl.scan_ipc(path, glob=False))
    return _File(path, pa.ipc.open_stream(data).schema, lambda _: pa.ipc.open_stream(data))


class _Joined(io.RawIOBase):
    """Streams that are read one after the other, such as the sample of standard input and its rest."""

    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view, done = memoryview(buffer), 0
        for part in self._parts:
            while done < len(view) and (count := part.readinto(view[done:])):
                done += count
        return done


def _join(*parts: Any) -> pa.NativeFile:
    return pa.PythonFile(_Joined(*parts), "r")


class _Csv(NamedTuple):
    """How CSV is parsed, what a column of a sample becomes, and what the parser's errors mean."""

    path: Path
    options: Options

    def parse(self, stream: Any, wanted: Any, block: int, read: Any = csv.open_csv) -> Any:
        """Parse a stream in blocks of so many bytes, its columns as those types that are wanted."""
        options, is_tsv = self.options, ".tsv" in map(str.lower, self.path.suffixes)
        whole = read is csv.read_csv
        reader = read(
            stream if whole else _join(stream, io.BytesIO(_END.encode())),
            csv.ReadOptions(use_threads=False, block_size=block),  # threads would not count rows
            csv.ParseOptions(
                delimiter=options.separator or ("\t" if is_tsv else ","),
                newlines_in_values=True,
                invalid_row_handler=(lambda _row: "skip") if whole else None,  # named when it is read
            ),
            csv.ConvertOptions(
                column_types=wanted,
                decimal_point=options.decimal,
                null_values=["", *options.nulls],
                strings_can_be_null=True,
                quoted_strings_can_be_null=bool(options.nulls),
            ),
        )
        return reader if whole else _check_quotes(reader)

    def infer(self, sample: pa.Buffer) -> tuple[pa.Schema, Container[str]]:
        """Find the columns of a sample, and which hold whole numbers that a float would round."""
        found = self.parse(pa.BufferReader(sample), None, sample.size + 1, csv.read_csv)
        names = found.schema.names
        if len(names) == 1 and self.options.separator is None and (other := re.search(r"[;\t|]", names[0])):
            raise ValueError(f"{self.path} has one column, {names[0]!r:.100}; give --separator {other[0]!r}")
        texts = {f.name: pa.string() for f in found.schema if _is_number(f.type)}
        cells = self.parse(pa.BufferReader(sample), texts, sample.size + 1, csv.read_csv)
        settled = [_settle_cell(f.type, column) for f, column in zip(found.schema, cells.columns, strict=True)]
        return pa.schema(list(zip(names, settled, strict=True))), _find_wide(found)

    def explain(self, error: Exception, schema: pa.Schema, rows: int, lines: Iterable[bytes]) -> str | None:
        """Return line and column of an error; where cells hold line ends a row is no line, so the line is looked at."""
        if row := re.match(r"CSV parse error: Row #(\d+): ((?:.|\n)*)", str(error)):
            number, text = int(row[1]), row[2]
            start = text.partition(": ")[2].partition("\n")[0][:50]
            return f"{_line(lines, number, start)}: {one_line(text, 200)}"
        if "straddling" in str(error):
            long = f"this row is longer than {BLOCK_BYTES // 2**20} MB, as if a quote is opened and never closed"
            return f"{_line(lines, rows + 2, chr(34))}: {long}; if it is that long, give a larger --sample"
        cell = re.match(r"In CSV column #(\d+): Row #(\d+): ([^']*)(?:'((?:.|\n)*)')?", str(error))
        if cell is None:
            return None
        name, arrow, number, value = schema.names[int(cell[1])], schema.types[int(cell[1])], int(cell[2]), cell[4]
        if "invalid UTF8" in cell[3]:
            return f"{_line(lines, number, chr(0xFFFD))}: column {name!r} is not UTF-8; give --encoding, such as cp1252"
        if value is None:
            return f"row {number}: column {name!r} is {arrow}: {cell[3]}; give --dtype {name}=string"
        if value.endswith(_END):
            start = '"' + value.partition("\n")[0].replace('"', '""')
            return f"{_line(lines, number, start)}: a quote is opened and never closed"
        why = ", with a zone" if "no zone" in cell[3] else ", without a zone" if "a zone" in cell[3] else ""
        why = ", which it would change" if cell[3] == "float changes " else why
        given = [f"--dtype {name}={self._wider(arrow, value)}"]
        if not re.search(r"\d", value):
            given.append(f"--null {value!r:.50}")
        if name not in self.options.dtypes:
            given.append("a larger --sample")
        return (
            f"{_line(lines, number, value)}: column {name!r} is {arrow}, and this is {value!r:.100}{why}; give "
            f"{', '.join(given[:-1])}{', or ' if given[1:] else ''}{given[-1]}"
        )

    def _wider(self, arrow: pa.DataType, value: str) -> str:
        """Name a type that also holds the value, with the further option that it takes."""
        if types.is_signed_integer(arrow) and re.fullmatch(r"-?\d{1,20}", value):
            return "int64" if -(2**63) <= int(value) < 2**63 else "uint64" if 0 <= int(value) < 2**64 else "string"
        if types.is_integer(arrow) and re.fullmatch(r"[-+]?\d*[.,]\d+(e[-+]?\d+)?", value):
            point = "," if "," in value else "."
            return "float64" if point == self.options.decimal else f"float64 with --decimal {point}"
        return "string"


def _check_quotes(reader: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Refuse a last cell that holds the end of the stream: its quote is never closed."""
    row = 1
    for batch in reader:
        row += batch.num_rows
        if batch.num_rows and str(cell := batch.columns[-1][-1]).endswith(_END):
            raise pa.ArrowInvalid(f"In CSV column #{batch.num_columns - 1}: Row #{row}: never closed '{cell}'")
        yield batch


def _check_floats(
    batches: Iterable[pa.RecordBatch], columns: list[int], as_text: Callable[[], Iterable[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Refuse numbers that floats change: from a batch that has large ones, cells are read once more, as text."""
    row, again = 2, None
    for number, batch in enumerate(batches):
        values: dict[int, Any] = {column: pl.Series(batch.columns[column]) for column in columns}
        if large := [c for c, v in values.items() if max(-(v.min() or 0), v.max() or 0) > 2**53]:
            again = again or enumerate(as_text())
            texts = next(texts for at, texts in again if at == number)
            for column in large:
                cells = pl.Series(texts.columns[column]).str.strip_chars()
                if (at := _find_changed(cells, values[column])) is not None:
                    raise pa.ArrowInvalid(f"In CSV column #{column}: Row #{row + at}: float changes '{cells[at]}'")
        row += batch.num_rows
        yield batch


def _find_changed(cells: pl.Series, values: pl.Series) -> int | None:
    """Return the first of the numbers that are rounded as floats, or too large for them."""
    beyond = values.is_infinite() & ~cells.str.contains("(?i)inf")
    suspects = (beyond | cells.str.contains(r"^[-+]?\d{16,}$")).arg_true()
    return next((at for at in suspects if beyond[at] or _is_rounded(cells[at])), None)


def _settle_cell(arrow: pa.DataType, cells: pa.ChunkedArray) -> pa.DataType:
    """Return the type that a column of a sample becomes: times keep fractions, and numbers all their digits.

    What is not UTF-8 comes as binary, and is refused as text.
    """
    if _is_number(arrow):
        return _settle_numbers(arrow, pl.Series(cells.drop_null()).str.strip_chars())
    if types.is_string(arrow) or types.is_binary(arrow):
        return pa.large_string()
    if types.is_timestamp(arrow) and arrow.unit == "s":
        return pa.timestamp("us", arrow.tz)
    return pa.time64("us") if types.is_time(arrow) else arrow


def _settle_numbers(arrow: pa.DataType, cells: pl.Series) -> pa.DataType:
    if cells.str.contains(r"^(\+\d+|0[xX].*)$").any():  # a telephone number, a hash
        return pa.large_string()
    if types.is_integer(arrow):
        return arrow
    whole = cells.filter(cells.str.contains(r"^-?\d+$"))
    if len(whole) < len(cells):
        changed = _find_changed(cells, cells.str.replace(",", ".").cast(pl.Float64, strict=False))
        return arrow if changed is None else pa.large_string()
    fit = all(re.fullmatch(r"\d{1,20}", cell) and int(cell) < 2**64 for cell in whole)
    return pa.uint64() if fit else pa.large_string()


def _is_number(arrow: pa.DataType) -> bool:
    return bool(types.is_integer(arrow) or types.is_floating(arrow))


def _is_rounded(number: str | int) -> bool:
    """Return whether a float would round a whole number."""
    return len(str(number)) > 15 and Decimal(float(str(number))) != Decimal(number)


def _find_wide(sample: pa.Table) -> set[str]:
    columns = {
        f.name: pl.Series(c) for f, c in zip(sample.schema, sample.columns, strict=True) if types.is_integer(f.type)
    }
    return {name for name, column in columns.items() if (column.cast(pl.Float64).abs() >= 2**53).any()}


def _line(lines: Iterable[bytes], number: int, text: str) -> str:
    """Call a row by its line, where the line of that number holds the text."""
    line = next(itertools.islice(lines, number - 1, None), b"").decode("utf-8", "replace")
    return f"{'line' if text in line else 'row'} {number}"


class _Ndjson(NamedTuple):
    """As `_Csv`."""

    path: Path
    options: Options

    def parse(self, stream: Any, wanted: pa.Schema | None, block: int, read: Any = json.open_json) -> Any:
        """Parse a stream in blocks of so many bytes, as the schema that is wanted."""
        options = json.ParseOptions(wanted, unexpected_field_behavior="infer" if wanted is None else "error")
        reader = read(stream, json.ReadOptions(use_threads=False, block_size=block), options)
        return reader if wanted is None else pa.RecordBatchReader.from_batches(wanted, map(_valid, reader))

    def infer(self, sample: pa.Buffer) -> tuple[pa.Schema, Container[str]]:
        """Find the columns of a sample, and which hold whole numbers that a float would round."""
        text = sample.to_pybytes().decode("utf-8-sig")
        if text.lstrip().startswith("["):
            raise ValueError(
                f"{self.path} is a JSON array; NDJSON has one object per line, which jq -c '.[]' makes of it"
            )
        try:
            found = self.parse(pa.BufferReader(sample), None, sample.size + 1, json.read_json)
        except pa.ArrowInvalid as error:
            if where := self.explain(error, None, 0, io.BytesIO(sample)):
                raise ValueError(f"{self.path}, {where}") from error
            raise
        settled = {f.name: f.type if types.is_null(f.type) else self._settle(f.type) for f in found.schema}
        rows = list(_objects(text)) if "double" in str(found.schema) else []
        for name in settled.keys() - self.options.dtypes.keys():
            values = [row[name] for row in rows if row.get(name) is not None]
            if types.is_floating(settled[name]) and all(type(n) is int and 0 <= n < 2**64 for n in values):
                settled[name] = pa.uint64()
            elif rounded := [number for value in values for number in _find_rounded(settled[name], value)]:
                raise ValueError(
                    f"{self.path}: column {name!r} is {settled[name]}, which rounds {rounded[0]:.100}; give --dtype "
                    f"{name}={settled[name]} to allow that, or one that holds it, such as 'decimal128(38, 0)'"
                )
        return pa.schema(settled), _find_wide(found)

    def _settle(self, arrow: pa.DataType) -> pa.DataType:
        """Leave texts that look like times texts."""
        if types.is_struct(arrow):
            return pa.struct([field.with_type(self._settle(field.type)) for field in arrow])
        if types.is_list(arrow):
            return pa.list_(self._settle(arrow.value_type))
        is_text = types.is_string(arrow) or types.is_timestamp(arrow) or types.is_null(arrow)
        return pa.large_string() if is_text else arrow

    def explain(self, error: Exception, schema: pa.Schema | None, rows: int, lines: Iterable[bytes]) -> str | None:
        """Find the line of an error among those that come after so many rows: the first that cannot be parsed."""
        near = list(itertools.islice(lines, rows, rows + BLOCK_BYTES // 8 if schema else None))
        at = bisect.bisect_left(range(len(near)), True, key=lambda at: not self._fits(near[: at + 1], schema))
        if at == len(near):
            return None
        reason = re.sub(r"^JSON parse error: | in row \d+$", "", one_line(str(error), 300))
        if "unexpected field" in reason:
            new = sorted(_decode(near[at].decode().strip())[0].keys() - {*schema.names} if schema else ())
            reason += f" {list_names(new)}; give a larger --sample" if new else "; give a larger --sample"
        elif re.search(r"Column\(/|convert", reason):
            reason += self._advise(schema or pa.schema([]), near[max(0, at - 1000) : at + 1])
        return f"line {rows + at + 1}: {reason}"

    def _fits(self, lines: list[bytes], schema: pa.Schema | None) -> bool:
        try:
            self.parse(io.BytesIO(b"{}\n" + b"".join(lines)), schema, 2**30).read_all()
        except (pa.ArrowException, UnicodeError):
            return False
        return True

    def _advise(self, schema: pa.Schema, lines: list[bytes]) -> str:
        """Name the column and a type that lines can be parsed with, where there is one."""
        for column, field in enumerate(schema):
            for arrow in (pa.int64(), pa.uint64(), pa.float64(), pa.string()):
                if self._fits(lines, schema.set(column, field.with_type(arrow))):
                    larger = "" if field.name in self.options.dtypes else ", or a larger --sample"
                    return f"; give --dtype {field.name}={'float64' if arrow == pa.float64() else arrow}{larger}"
        return "; no type holds both: make all values of the column one kind first"


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of NDJSON, of which several may be on one line, or one on several."""
    with contextlib.suppress(ValueError):  # at the end of a sample
        at = len(text) - len(text.lstrip())
        while at < len(text):
            found, end = _decode(text, at)
            yield found
            at = end + len(text[end : end + 64]) - len(text[end : end + 64].lstrip())


def _find_rounded(arrow: pa.DataType, value: Any) -> list[str]:
    """Return the whole numbers in a value that are rounded where its type has floats."""
    if types.is_struct(arrow) and value is not None:
        return [number for field in arrow for number in _find_rounded(field.type, value.get(field.name))]
    if types.is_list(arrow) and value is not None:
        return [number for item in value for number in _find_rounded(arrow.value_type, item)]
    return [str(value)] if types.is_floating(arrow) and type(value) is int and _is_rounded(value) else []


def _valid(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate(full=True)  # the parser takes any bytes for text
    return batch


def _whole_lines(path: Path, head: bytes, options: Options) -> pa.Buffer:
    """Return the lines of a sample, as UTF-8."""
    try:
        _ = options.encoding or codecs.getincrementaldecoder("utf-8")().decode(head.partition(b"\n")[0])
    except UnicodeError as error:
        said = next(said for start, said in _STARTS.items() if head.startswith(start))
        raise ValueError(f"{path}, line 1: this is {said}") from error
    sample = head.decode(options.encoding or "utf-8", "replace").encode()
    if len(head) % options.sample == 0:  # of its last line a part may be missing
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    elif not sample.endswith(b"\n"):
        sample += b"\n"
    copy = pa.BufferOutputStream()  # which is Arrow's own, so that its threads need nothing of Python
    copy.write(sample)
    return copy.getvalue()


def _open_text(form: type[_Csv | _Ndjson], path: Path, options: Options) -> _File:
    """Open a file of lines of text: its schema comes from a sample, and is what the rest is parsed with."""
    text = form(path, options)

    def open_stream() -> pa.NativeFile:
        stream = _join(io.BytesIO(head), sys.stdin.buffer) if path == PIPE else pa.input_stream(str(path))
        return pa.transcoding_input_stream(stream, options.encoding, "utf8") if options.encoding else stream

    with contextlib.nullcontext(sys.stdin.buffer) if path == PIPE else pa.input_stream(str(path)) as file:
        head = file.read(options.sample)
        while head.count(b"\n") < MIN_LINES and (more := file.read(options.sample)) and len(head) < BLOCK_BYTES:
            head += more
    sample = _whole_lines(path, head, options)
    found, wide = text.infer(sample)
    # Arrow's parser makes text of strings alone: what else is asked for is cast behind it
    parsed = (f for f in found if form is _Ndjson and types.is_large_string(f.type))
    asked = {**options.dtypes, **{f.name: f.type for f in parsed}}
    schema = pa.schema((f.name, asked.get(f.name, f.type)) for f in found)

    def batches(wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        rows = 0
        own = wanted if wanted.names == schema.names else pa.schema([wanted.field(name) for name in schema.names])
        try:
            for batch in _read(text, open_stream, own, max(BLOCK_BYTES, sample.size)):
                yield batch
                rows += batch.num_rows
        except (pa.ArrowException, UnicodeError) as error:
            lines: Any = [] if path == PIPE else io.BufferedReader(open_stream())
            if where := text.explain(error, own, rows, lines):
                raise ValueError(f"{path}, {where}") from error
            raise

    return _File(path, schema, batches, form, wide)


def _read(
    text: _Csv | _Ndjson, open_stream: Callable[[], Any], wanted: pa.Schema, block: int
) -> Iterable[pa.RecordBatch]:
    """Parse what a stream holds; floats of CSV are checked where it can be opened again."""
    parsed: Iterable[pa.RecordBatch] = text.parse(open_stream(), wanted, block)
    floats = [f.name for f in wanted if types.is_float64(f.type) and f.name not in text.options.dtypes]
    if isinstance(text, _Ndjson) or text.path == PIPE or not floats:
        return parsed
    cells = pa.schema([f.with_type(pa.large_string()) if f.name in floats else f for f in wanted])
    return _check_floats(parsed, [*map(wanted.names.index, floats)], lambda: text.parse(open_stream(), cells, block))


_OPENERS: dict[str, Callable[[Path, Options], _File]] = {
    "parquet": _open_parquet,
    "csv": functools.partial(_open_text, _Csv),
    "ndjson": functools.partial(_open_text, _Ndjson),
    "arrow": _open_arrow,
}
