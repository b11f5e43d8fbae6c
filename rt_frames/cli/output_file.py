"""Rows → a file, with a few batches in memory at a time.

Parquet and Arrow files get Arrow's own types. CSV and NDJSON are written batch by batch
through Polars, whose sinks would read the rows on other threads: there an interrupt
comes late, and an error of the service as one of Polars.
"""

from __future__ import annotations

import contextlib
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

from rt_frames import errors
from rt_frames._frames.source import nbytes
from rt_frames._frames.to_polars import to_polars
from rt_frames._schema.data_type import child_fields, map_types, storage
from rt_frames._text import list_some, make_printable, one_line
from rt_frames.cli.files import SUFFIXES

# a group of rows of a Parquet file is written when it has one of them
GROUP_ROWS = 2**20
GROUP_BYTES = 2**26


class OutputFile:
    """A file to write, in the format that its suffix tells.

    Nobody sees it before it is complete: it is written beside its place, and renamed.

    Parameters
    ----------
    path : Path
        Where it will be.
    replace : bool
        Whether it may exist already.

    Raises
    ------
    click.UsageError
        If no format has the suffix.
    ValueError
        If there is no such folder, or a file that may not be replaced.
    """

    def __init__(self, path: Path, *, replace: bool) -> None:
        self._shown = make_printable(str(path))
        # a link stays one
        self._path = path.resolve()
        self._write = _writer_of(path)
        if not self._path.parent.is_dir():
            raise ValueError(f"{self._shown}: there is no such folder")
        if self._path.exists() and not replace:
            raise ValueError(
                f"{self._shown} exists already; give another name, or --force to replace it"
            )

    def write(self, reader: pa.RecordBatchReader) -> tuple[int, int]:
        """Write all rows; return their number, and that of bytes."""
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
    """What a format has no form for."""


class _Counted:
    """Record batches, and how many rows they had so far."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self.schema: pa.Schema = reader.schema
        self.count = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            yield batch
            self.count += batch.num_rows


def _write_parquet(rows: _Counted, file: Any) -> None:
    # Parquet has no seconds, and older versions of pyarrow wrap large ones around
    fields = [
        field.with_type(map_types(field.type, _without_seconds))
        for field in rows.schema
    ]
    as_written = pa.schema(fields)
    with pq.ParquetWriter(file, rows.schema) as writer:
        for group in _join(rows):
            if not as_written.equals(rows.schema):
                group.cast(as_written)
            writer.write_table(group)


def _without_seconds(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(arrow) and arrow.unit == "s":
        return pa.timestamp("ms", arrow.tz)
    return arrow


def _join(rows: _Counted) -> Iterator[pa.Table]:
    """Join batches to tables that make good groups."""
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
    """Write a file, which has one dictionary for each column.

    A table has others in each of its files. They are gathered from all rows first,
    which are kept on disk; Polars reads no file with dictionaries that grow.
    """
    schema = rows.schema
    if not _has_dictionary(pa.struct(list(schema))):
        with pa.ipc.new_file(file, schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        return
    known = schema.empty_table()
    with tempfile.TemporaryFile(dir=Path(file.name).parent) as copy:
        with pa.ipc.new_stream(copy, schema) as stream:
            for batch in rows:
                known = _unify(known, batch).slice(0, 0)
                stream.write_batch(batch)
        copy.seek(0)
        with pa.ipc.new_file(file, schema) as writer:
            for batch in pa.ipc.open_stream(copy):
                writer.write_table(_unify(known, batch))


def _has_dictionary(arrow: pa.DataType) -> bool:
    if types.is_dictionary(arrow):
        return True
    return any(_has_dictionary(child.type) for child in child_fields(arrow))


def _unify(known: pa.Table, batch: pa.RecordBatch) -> pa.Table:
    """Return a batch's rows with dictionaries that begin with the known ones."""
    table = pa.Table.from_batches([batch])
    return pa.concat_tables([known, table]).unify_dictionaries()


def _write_csv(separator: str, rows: _Counted, file: Any) -> None:
    _check_text("CSV", rows.schema, _fits_csv)
    header = to_polars(_without_extensions(rows.schema).empty_table())
    header.write_csv(file, separator=separator)
    _write_frames(
        rows,
        lambda frame: frame.write_csv(file, include_header=False, separator=separator),
    )


def _write_ndjson(rows: _Counted, file: Any) -> None:
    _check_text("NDJSON", rows.schema, _fits_json)
    _write_frames(rows, lambda frame: frame.write_ndjson(file))


def _write_frames(rows: _Counted, write: Callable[[pl.DataFrame], None]) -> None:
    plain = _without_extensions(rows.schema)
    for batch in rows:
        table = pa.Table.from_batches([batch]).cast(plain)
        frame = to_polars(table, rows.count)
        try:
            write(frame)
        except (KeyboardInterrupt, SystemExit, OSError):
            raise
        except BaseException as error:
            # Polars panics, for example at days out of its calendar
            last = rows.count + batch.num_rows - 1
            raise _UnwritableError(
                f"rows {rows.count} to {last} hold a value that Polars has no text for; "
                "export to .parquet"
            ) from error


def _without_extensions(schema: pa.Schema) -> pa.Schema:
    """Return a schema where JSON is text; Polars writes no extension type as CSV."""
    return pa.schema(
        [field.with_type(map_types(field.type, storage)) for field in schema]
    )


def _check_text(
    form: str, schema: pa.Schema, fits: Callable[[pl.DataType], bool]
) -> None:
    """Refuse columns that a format of text cannot hold."""
    refused = []
    for field, plain in zip(schema, _without_extensions(schema), strict=True):
        nulls = pa.table([pa.nulls(1, plain.type)], [field.name])
        is_held = False
        with contextlib.suppress(errors.UnsupportedTypeError):
            is_held = fits(to_polars(nulls).dtypes[0])
        if not is_held:
            refused.append(f"{field.name!r}, {field.type}")
    if refused:
        raise _UnwritableError(
            f"{form} has no form for {list_some(refused)}; leave such columns out with "
            "--columns, or export to .parquet"
        )


def _fits_csv(dtype: pl.DataType) -> bool:
    return not dtype.is_nested() and dtype not in (pl.Binary, pl.Duration, pl.Object)


def _fits_json(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.List | pl.Array):
        return _fits_json(dtype.inner)  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        return all(_fits_json(field.dtype) for field in dtype.fields)  # type: ignore[arg-type]
    return dtype not in (pl.Binary, pl.Object)


_Writer = Callable[[_Counted, Any], None]
_WRITERS: dict[str, _Writer] = {
    "parquet": _write_parquet,
    "arrow": _write_arrow,
    "csv": functools.partial(_write_csv, ","),
    "ndjson": _write_ndjson,
}
# whose format is another than its name among `SUFFIXES` tells
_SPECIAL: dict[str, _Writer] = {
    ".tsv": functools.partial(_write_csv, "\t"),
    ".arrows": _write_stream,
}


def _writer_of(path: Path) -> _Writer:
    suffix = path.suffix.lower()
    known = [name for name, form in SUFFIXES.items() if form in _WRITERS]
    if suffix not in known:
        raise click.UsageError(
            f"{make_printable(str(path))}: the suffix tells the format; give one of "
            f"{', '.join(known)}"
        )
    return _SPECIAL.get(suffix) or _WRITERS[SUFFIXES[suffix]]
