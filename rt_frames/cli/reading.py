"""The commands that only read: tables, show and export."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rt_frames._text import (
    Message,
    count,
    format_bytes,
    make_printable,
    shorten,
    show_value,
)
from rt_frames.cli.command import Command, is_quiet, printable_lines
from rt_frames.cli.options import connect, json_option, service_options, table_argument
from rt_frames.cli.report import columns_as_json, print_columns, print_json

if TYPE_CHECKING:
    import pyarrow as pa

    from rt_frames._client import RemoteTable


@click.command(cls=Command, epilog="Example: rt-frames tables --url ./tables")
@service_options
@json_option
def tables(as_json: bool, **service: Any) -> None:
    """List the names of all tables."""
    names = connect(**service).list_tables()
    if as_json:
        click.echo(json.dumps(names))
        return
    for name in names:
        click.echo(make_printable(name))


_version = click.option(
    "--version",
    type=click.IntRange(1),
    metavar="N",
    help="Read this version of the table. Default: the newest.",
)


@click.command(
    cls=Command, epilog="Example: rt-frames show sales --rows 5 --url ./tables"
)
@table_argument
@click.option(
    "--rows", type=click.IntRange(1), metavar="N", help="Also print the first N rows."
)
@_version
@service_options
@json_option
def show(
    name: str, rows: int | None, version: int | None, as_json: bool, **service: Any
) -> None:
    """Show the columns and the number of rows of table NAME.

    Needs a service that can describe tables.
    """
    if rows and as_json:
        raise click.UsageError(
            "--rows and --json cannot be combined; write rows to a file with rt-frames export"
        )
    table = connect(**service).table(name, version=version)
    schema = _schema(table)
    all_rows = table.count()
    if as_json:
        print_json(table, columns=columns_as_json(schema), rows=all_rows)
        return
    facts = [count(len(schema), "column"), count(all_rows, "row")]
    if version is not None:
        facts.append(f"version {version}")
    print_columns(f"{name}: {', '.join(facts)}, at {table.client}", schema)
    if rows and all_rows:
        click.echo(f"\n{_draw(table.to_arrow(limit=rows))}")


def _draw(table: pa.Table) -> str:
    """Draw rows as a table of text.

    Polars draws only text here: it panics at dates out of its range, or wraps them.
    """
    import polars as pl

    texts = [
        pl.Series(name, map(_cell_text, table[name]), pl.String)
        for name in table.column_names
    ]
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    has_box_characters = encoding.lower().startswith("utf")
    with pl.Config(
        tbl_formatting=None if has_box_characters else "ASCII_FULL_CONDENSED",
        tbl_width_chars=shutil.get_terminal_size((120, 24)).columns,
        tbl_rows=-1,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
        fmt_str_lengths=40,
    ):
        return printable_lines(str(pl.DataFrame(texts)))


def _cell_text(value: pa.Scalar[Any]) -> str | None:
    """Return Arrow's text of a value, or Python's if Arrow has none.

    Python has no dates after 9999; Arrow writes them.
    """
    import pyarrow as pa

    if not value.is_valid:
        return None
    with contextlib.suppress(pa.ArrowException):
        return shorten(make_printable(value.cast(pa.string()).as_py()), 40)
    with contextlib.suppress(Exception):
        return show_value(value.as_py(), 40)
    return f"<{value.type}>"


def _schema(table: RemoteTable) -> pa.Schema:
    if table.schema is None:
        text = f"{table.client} cannot describe table {table.name!r} in this dialect"
        hint = "if the server offers LanceDB's API, connect with {}"
        raise ValueError(Message(text, hint, dialect="lancedb"))
    return table.schema


@click.command(
    cls=Command,
    epilog="Example: rt-frames export sales sales.parquet --where 'qty > 0' --url ./tables",
)
@table_argument
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--where",
    metavar="SQL",
    help="Only rows that match this condition, such as \"day < date '2024-03-01'\".",
)
@click.option(
    "--columns",
    multiple=True,
    metavar="NAME",
    help="Only this column. Repeatable.",
)
@click.option("--limit", type=click.IntRange(0), metavar="N", help="At most N rows.")
@_version
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@service_options
@json_option
def export(
    name: str,
    path: Path,
    where: str | None,
    columns: tuple[str, ...],
    limit: int | None,
    version: int | None,
    force: bool,
    as_json: bool,
    **service: Any,
) -> None:
    """Write the rows of table NAME to FILE.

    The file extension chooses the format: Parquet (.parquet, .pq), Arrow (.arrow,
    .feather, .ipc; .arrows for a stream), CSV (.csv, .tsv) or NDJSON (.ndjson, .jsonl).
    Parquet and Arrow keep the table's types. CSV cannot hold lists, structs, durations
    and binary values; NDJSON cannot hold binary values, and has null for NaN.

    Rows are streamed, so a table may be larger than memory. FILE appears when it is
    complete; an existing FILE is refused, or replaced at the end with --force.
    """
    from rt_frames._client import read_batches
    from rt_frames.cli.output_file import OutputFile

    file = OutputFile(path, replace=force)
    table = connect(**service).table(name, version=version)
    with read_batches(table, list(columns) or None, where, limit) as reader:
        schema = reader.schema
        rows, size = file.write(reader)
    if as_json:
        print_json(
            table,
            file=str(path),
            rows=rows,
            columns=columns_as_json(schema),
            bytes=size,
        )
    elif not is_quiet():
        facts = [count(rows, "row"), count(len(schema), "column"), format_bytes(size)]
        text = f"exported {name}: {', '.join(facts)}, to {path}"
        click.echo(make_printable(text))
