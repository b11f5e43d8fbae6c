"""Open files of all formats as one `Source`, with a few batches in memory at a time.

`csv_files` and `json_files` read text. This module reads Parquet and Arrow.
"""

from __future__ import annotations

import contextlib
import glob
import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from rt_frames._frames.any_frame import open_source
from rt_frames._frames.from_arrow import to_chunk
from rt_frames._frames.source import Chunk, Source
from rt_frames._names import did_you_mean
from rt_frames._text import make_printable
from rt_frames.cli.csv_files import open_csv
from rt_frames.cli.input_file import (
    PACKED,
    FileOptions,
    InputFile,
    Opened,
    check_column_names,
    errors_named_after,
    in_order,
    suffix_of,
)
from rt_frames.cli.json_files import open_json

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
PIPE = Path("-")
# bytes or characters copied at a time
CHUNK = 2**20
_DEFAULTS = FileOptions()
_CSV_OPTIONS = {
    "separator": "--separator",
    "decimal": "--decimal",
    "date_format": "--date-format",
    "nulls": "--null",
    "header": "--no-header",
}


def open_files(paths: Iterable[Path], options: FileOptions) -> tuple[Source, bool]:
    """Open files, globs or standard input as one source.

    Also returns whether to print the types: text files have columns that the table
    lacks. The source's ``close`` removes temporary copies.

    Raises
    ------
    ValueError
        If a file is missing, cannot be read, or has other columns than the first.
    click.UsageError
        If an option does not apply to the format.
    """
    expanded: list[Path] = []
    for path in paths:
        expanded += _expand(path)
    file_format = _common_format(expanded, options)
    if file_format != "csv":
        _refuse_csv_options(file_format, options)
    copies = contextlib.ExitStack()
    try:
        files = []
        for path in expanded:
            readable = _readable_path(path, options.encoding, copies)
            files.append(InputFile(path, readable))
        opened = _open(file_format, files, options)
        source = _to_source(opened, files, options, copies.close)
    except BaseException:
        copies.close()
        raise
    has_types = file_format in ("parquet", "arrow")
    table_columns = set(options.table_types())
    shows_types = not has_types and not table_columns.issuperset(source.schema.names)
    return source, shows_types


def read_table(path: Path, options: FileOptions) -> pa.Table:
    """Read a whole file into a table."""
    source, _ = open_files([path], options)
    with contextlib.closing(open_source(source)) as source:
        return pa.Table.from_batches(source.batches(), source.schema)


def _expand(path: Path) -> list[Path]:
    if path == PIPE or path.exists() or not glob.has_magic(str(path)):
        return [path]
    names = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  # Path.glob takes no absolute patterns
    if not names:
        raise ValueError(f"{path}: no file matches")
    return [Path(name) for name in names]


def _common_format(paths: list[Path], options: FileOptions) -> str:
    formats = list(dict.fromkeys(_format(path, options) for path in paths))
    if len(formats) > 1:
        raise ValueError(
            f"the files have several formats, {' and '.join(formats)}; pass files of one format"
        )
    return formats[0]


def _format(path: Path, options: FileOptions) -> str:
    shown = make_printable(str(path))
    if path.is_dir():
        raise ValueError(
            f"{shown} is a folder; pass its files, for example '{shown}/*.parquet'"
        )
    if path != PIPE and not path.exists():
        raise ValueError(f"{shown}: no such file")
    suffix = path.suffix.lower()
    if suffix in (".zip", ".bz2", ".xz"):
        raise ValueError(f"{shown}: {suffix} files are not supported; unpack it first")
    file_format = options.format or SUFFIXES.get(suffix_of(path))
    if file_format is not None:
        return file_format
    if suffix.startswith(".xl"):
        raise ValueError(
            f"{shown}: Excel files are not supported; load it with pandas.read_excel"
        )
    reason = "no file extension names its format"
    if suffix:
        reason = f"unknown file extension {suffix!r}"
    raise ValueError(
        f"{shown}: {reason}; pass --format parquet, csv, ndjson, json or arrow"
    )


def _refuse_csv_options(file_format: str, options: FileOptions) -> None:
    for name, option in _CSV_OPTIONS.items():
        if getattr(options, name) != getattr(_DEFAULTS, name):
            raise click.UsageError(
                f"{option}: only for CSV, but the format is {file_format}; leave it out"
            )


def _readable_path(
    path: Path, encoding: str | None, copies: contextlib.ExitStack
) -> Path:
    """Return the path of a file that can be read repeatedly, in UTF-8.

    A pipe, a compressed file or a file in another encoding is copied. ``copies``
    removes the copies.
    """
    compression = PACKED.get(path.suffix.lower())
    if path.is_file() and not compression and not encoding:
        return path
    # a folder, as Windows cannot open a NamedTemporaryFile a second time; no other
    # user may read it
    folder = copies.enter_context(
        tempfile.TemporaryDirectory(prefix="rt_frames-", ignore_cleanup_errors=True)
    )
    copied = Path(folder) / "copy"
    with errors_named_after(InputFile(path, path)), contextlib.ExitStack() as stack:
        raw: Any = sys.stdin.buffer
        if path != PIPE:
            raw = stack.enter_context(path.open("rb"))
        stream: Any = pa.input_stream(raw, compression=compression)
        target = stack.enter_context(copied.open("wb"))
        if encoding:
            text = io.TextIOWrapper(io.BufferedReader(stream), encoding, newline="")
            while part := text.read(CHUNK):
                target.write(part.encode())
        else:
            shutil.copyfileobj(stream, target, CHUNK)
    return copied


def _open(file_format: str, files: list[InputFile], options: FileOptions) -> Opened:
    if file_format == "csv":
        return open_csv(files, options)
    if file_format in ("json", "ndjson"):
        return open_json(files, by_line=file_format == "ndjson")
    if file_format == "parquet":
        return _open_arrow(_read_parquet, files)
    return _open_arrow(_read_arrow, files)


def _to_source(
    opened: Opened,
    files: list[InputFile],
    options: FileOptions,
    close: Callable[[], None],
) -> Source:
    schema, read = opened
    _check_columns("--rename", options.rename, schema.names)
    _check_columns("--dtype", options.dtypes, schema.names)
    names = options.names_in_table(schema.names)

    def chunks() -> Iterator[Chunk]:
        for file in files:
            with errors_named_after(file):
                for batch in read(file):
                    yield to_chunk(batch.rename_columns(names), str(file))

    renamed = schema.empty_table().rename_columns(names).schema
    casts = _casts(renamed, options.table_types())
    for name, new_name in zip(schema.names, names, strict=True):
        if name in options.dtypes:
            casts[new_name] = options.dtypes[name]
    return Source(renamed, chunks, zero_copy=False, casts=casts, close=close)


def _casts(
    schema: pa.Schema, targets: dict[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """Return the casts of text columns to types that JSON cannot hold."""
    casts = {}
    for field in schema:
        target = targets.get(field.name, pa.null())
        if types.is_large_string(field.type) and (
            types.is_temporal(target) or types.is_decimal(target)
        ):
            casts[field.name] = target
    return casts


def _check_columns(option: str, columns: Iterable[str], names: list[str]) -> None:
    for name in columns:
        if name not in names:
            raise ValueError(
                f"{option}: the files have no column {name!r}; {did_you_mean(name, names)}"
            )


_Read = Callable[[InputFile], tuple[pa.Schema, Iterable[pa.RecordBatch]]]


def _open_arrow(read: _Read, files: list[InputFile]) -> Opened:
    """Open Parquet or Arrow files. Raises ValueError if their types differ."""
    schemas = []
    for file in files:
        with errors_named_after(file):
            schemas.append(read(file)[0].remove_metadata())
    first = schemas[0]
    for file, schema in zip(files, schemas, strict=True):
        check_column_names(file, schema.names, files[0], first.names)
        ordered = in_order(schema.empty_table(), first.names).schema
        for field, expected in zip(ordered, first, strict=True):
            if not field.equals(expected):
                raise ValueError(
                    f"{file}: column {field.name!r} is {field.type}, but {expected.type} in {files[0]}; cast it first"
                )

    def read_batches(file: InputFile) -> Iterator[pa.RecordBatch]:
        for batch in read(file)[1]:
            yield in_order(batch, first.names)

    return first, read_batches


def _read_parquet(file: InputFile) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    parquet = pq.ParquetFile(str(file.readable))
    return parquet.schema_arrow, parquet.iter_batches()


def _read_arrow(file: InputFile) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    mapped = pa.memory_map(str(file.readable))
    if mapped.read(6) != b"ARROW1":
        mapped.seek(0)
        stream = pa.ipc.open_stream(mapped)
        return stream.schema, stream
    arrow = pa.ipc.open_file(mapped)
    return arrow.schema, map(arrow.get_batch, range(arrow.num_record_batches))
