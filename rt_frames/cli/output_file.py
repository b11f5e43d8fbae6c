"""Write rows to a file, with a few batches in memory at a time.

Arrow writes Parquet and Arrow files, with the table's types. Polars writes CSV and
NDJSON, batch by batch. Its sinks would read the rows on other threads, where Ctrl-C is
handled late and an error of the service becomes an error of Polars.
"""

from __future__ import annotations

import functools
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from rt_frames._frames.source import nbytes
from rt_frames._frames.to_polars import to_polars
from rt_frames._schema.casts import family
from rt_frames._schema.data_type import child_fields, map_types, storage, value_type
from rt_frames._text import list_some, make_printable, one_line

# a row group of a Parquet file ends when it reaches one of these sizes
GROUP_ROWS = 2**20
GROUP_BYTES = 2**26


class OutputFile:
    """A file to write, in the format that its suffix names.

    The file appears when it is complete: a temporary file in the same folder is
    renamed.

    Parameters
    ----------
    path : Path
        The path of the complete file.
    replace : bool
        Whether an existing file is replaced.

    Raises
    ------
    click.UsageError
        If the suffix names no format.
    ValueError
        If the folder does not exist, the path is no regular file, or the file exists
        and ``replace`` is False.
    """

    def __init__(self, path: Path, *, replace: bool) -> None:
        self._shown = make_printable(str(path))
        # a symbolic link stays: its target is replaced
        self._path = path.resolve()
        suffix = path.suffix.lower()
        if suffix not in _WRITERS:
            raise click.UsageError(
                f"{self._shown}: the file extension chooses the format; use one of "
                f"{', '.join(_WRITERS)}"
            )
        self._write = _WRITERS[suffix]
        if not self._path.parent.is_dir():
            folder = make_printable(str(path.parent))
            raise ValueError(
                f"{self._shown}: folder {folder} does not exist; create it first"
            )
        if self._path.exists() and not self._path.is_file():
            raise ValueError(
                f"{self._shown} is not a regular file; choose another name"
            )
        if self._path.exists() and not replace:
            raise ValueError(
                f"{self._shown} exists; choose another name, or pass --force to replace it"
            )

    def write(self, reader: pa.RecordBatchReader) -> tuple[int, int]:
        """Write all rows. Return the number of rows, and the size in bytes."""
        part = self._path.with_name(f".rt_frames-{secrets.token_hex(4)}.part")
        rows = _Counted(reader)
        try:
            with part.open("xb") as file:
                if self._path.exists():
                    shutil.copymode(self._path, part)
                self._write(rows, file)
            size = part.stat().st_size
            part.replace(self._path)
        except (pa.ArrowException, OSError, _UnwritableError) as error:
            reason = one_line(getattr(error, "strerror", None) or str(error), 300)
            raise ValueError(f"{self._shown} cannot be written: {reason}") from error
        finally:
            part.unlink(missing_ok=True)
        return rows.count, size


class _UnwritableError(Exception):
    """A column or value that the format cannot hold."""


class _Counted:
    """Record batches, with a count of the rows that were processed."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self.schema: pa.Schema = reader.schema
        self.count = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            yield batch
            self.count += batch.num_rows


def _write_parquet(rows: _Counted, file: Any) -> None:
    # Parquet has no seconds, and pyarrow 21 wraps large ones around
    schema = _map_columns(rows.schema, _without_seconds)
    with pq.ParquetWriter(file, schema) as writer:
        for group in _join(rows):
            writer.write_table(group.cast(schema))


def _map_columns(
    schema: pa.Schema, change: Callable[[pa.DataType], pa.DataType]
) -> pa.Schema:
    """Return a schema with a change applied to every type in it."""
    fields = [field.with_type(map_types(field.type, change)) for field in schema]
    return pa.schema(fields, schema.metadata)


def _without_seconds(arrow: pa.DataType) -> pa.DataType:
    if types.is_timestamp(arrow) and arrow.unit == "s":
        return pa.timestamp("ms", arrow.tz)
    return arrow


def _join(rows: _Counted) -> Iterator[pa.Table]:
    """Join batches into tables of the size of a row group."""
    group: list[pa.RecordBatch] = []
    group_rows = 0
    group_bytes = 0
    for batch in rows:
        group.append(batch)
        group_rows += batch.num_rows
        group_bytes += nbytes(batch)
        if group_rows >= GROUP_ROWS or group_bytes >= GROUP_BYTES:
            yield pa.Table.from_batches(group)
            group = []
            group_rows = 0
            group_bytes = 0
    if group:
        yield pa.Table.from_batches(group)


def _write_stream(rows: _Counted, file: Any) -> None:
    with pa.ipc.new_stream(file, rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)


def _write_arrow(rows: _Counted, file: Any) -> None:
    """Write an Arrow file.

    It may have one dictionary per column, but each file of a table has its own. All
    rows are therefore copied to disk while their dictionaries are unified. Polars 2.1
    does not read a file whose dictionaries grow.
    """
    schema = rows.schema
    if not _has_dictionary(pa.struct(list(schema))):
        with pa.ipc.new_file(file, schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        return
    dictionaries = schema.empty_table()
    with tempfile.TemporaryFile(dir=Path(file.name).parent) as copy:
        with pa.ipc.new_stream(copy, schema) as stream:
            for batch in rows:
                dictionaries = _unify(dictionaries, batch).slice(0, 0)
                stream.write_batch(batch)
        copy.seek(0)
        with pa.ipc.new_file(file, schema) as writer:
            for batch in pa.ipc.open_stream(copy):
                writer.write_table(_unify(dictionaries, batch))


def _has_dictionary(arrow: pa.DataType) -> bool:
    if types.is_dictionary(arrow):
        return True
    return any(_has_dictionary(child.type) for child in child_fields(arrow))


def _unify(dictionaries: pa.Table, batch: pa.RecordBatch) -> pa.Table:
    """Return a batch as a table whose dictionaries extend those of an empty table."""
    table = pa.Table.from_batches([batch])
    return pa.concat_tables([dictionaries, table]).unify_dictionaries()


def _write_csv(separator: str, rows: _Counted, file: Any) -> None:
    schema = _text_schema("CSV", rows.schema)
    to_polars(schema.empty_table()).write_csv(file, separator=separator)
    write = functools.partial(
        pl.DataFrame.write_csv, file=file, include_header=False, separator=separator
    )
    _write_frames(rows, schema, write)


def _write_ndjson(rows: _Counted, file: Any) -> None:
    schema = _text_schema("NDJSON", rows.schema)
    _write_frames(rows, schema, functools.partial(pl.DataFrame.write_ndjson, file=file))


def _write_frames(
    rows: _Counted, schema: pa.Schema, write: Callable[[pl.DataFrame], object]
) -> None:
    for batch in rows:
        table = pa.Table.from_batches([batch]).cast(schema)
        frame = to_polars(table, rows.count)
        try:
            write(frame)
        except (KeyboardInterrupt, SystemExit, OSError):
            raise
        except BaseException as error:
            # Polars panics, for example at days out of its calendar
            last = rows.count + batch.num_rows - 1
            raise _UnwritableError(
                f"rows {rows.count} to {last} hold a value that Polars cannot write as "
                "text; export to .parquet"
            ) from error


def _text_schema(file_format: str, schema: pa.Schema) -> pa.Schema:
    """Return the schema to write. Raise if a format of text cannot hold a column.

    JSON columns become text: Polars does not write extension types as CSV.
    """
    plain = _map_columns(schema, storage)
    refused = []
    for column, written in zip(schema, plain, strict=True):
        if not _fits_text(written.type, file_format):
            refused.append(f"column {column.name!r}, {column.type}")
    if refused:
        raise _UnwritableError(
            f"{file_format} cannot hold {list_some(refused)}; select other columns with "
            "--columns, or export to .parquet"
        )
    return plain


def _fits_text(arrow: pa.DataType, file_format: str) -> bool:
    """Return whether Polars can write a type in a format of text."""
    is_csv = file_format == "CSV"
    if types.is_nested(arrow):
        children = [child.type for child in child_fields(arrow)]
        return not is_csv and all(_fits_text(child, file_format) for child in children)
    arrow = value_type(arrow)
    if types.is_boolean(arrow) or types.is_null(arrow):
        return True
    if types.is_duration(arrow):
        return not is_csv
    if types.is_decimal(arrow):
        # the decimals of Polars
        return bool(types.is_decimal128(arrow) and arrow.scale >= 0)
    return family(arrow) not in ("", "binary")


_Writer = Callable[[_Counted, Any], None]
_WRITERS: dict[str, _Writer] = {
    ".parquet": _write_parquet,
    ".pq": _write_parquet,
    ".csv": functools.partial(_write_csv, ","),
    ".tsv": functools.partial(_write_csv, "\t"),
    ".ndjson": _write_ndjson,
    ".jsonl": _write_ndjson,
    ".arrow": _write_arrow,
    ".feather": _write_arrow,
    ".ipc": _write_arrow,
    ".arrows": _write_stream,
}
