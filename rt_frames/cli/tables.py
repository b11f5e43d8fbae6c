"""The commands on tables: list, show, restore, compact and drop them."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from rt_frames._display import Listing, as_text
from rt_frames._text import count, make_printable, shorten, show_value
from rt_frames.cli.command import Command, is_quiet, printable_lines
from rt_frames.cli.options import (
    connect,
    json_option,
    service_options,
    table_argument,
    version_argument,
)

if TYPE_CHECKING:
    import pyarrow as pa


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


@click.command(
    cls=Command, epilog="Example: rt-frames show sales --rows 5 --url ./tables"
)
@table_argument
@click.option(
    "--rows", type=click.IntRange(1), metavar="N", help="Also print the first N rows."
)
@click.option(
    "--version",
    type=click.IntRange(1),
    metavar="N",
    help="Read this version of the table. Default: the newest.",
)
@service_options
@json_option
def show(
    name: str, rows: int | None, version: int | None, as_json: bool, **service: Any
) -> None:
    """Show the columns and the number of rows of table NAME.

    Needs a service that can describe tables.
    """
    if rows and as_json:
        raise click.UsageError("--rows and --json cannot be combined; leave one out")
    from rt_frames._client import listed_columns, service_of

    client = connect(**service)
    # all of it is of one version, if the service reports any
    schema, known, _ = service_of(client).describe(name, version=version)
    table = client.table(name, version=known)
    if schema is None:
        raise ValueError(
            f"{table.client} cannot describe table {name!r} in this dialect; if the "
            "server offers LanceDB's API, pass --dialect lancedb"
        )
    all_rows = table.count()
    if as_json:
        facts = {
            "table": name,
            "columns": [
                {
                    "name": field.name,
                    "type": str(field.type),
                    "nullable": field.nullable,
                }
                for field in schema
            ],
            "rows": all_rows,
            "version": known,
        }
        click.echo(json.dumps(facts))
        return
    sizes = [count(len(schema), "column"), count(all_rows, "row")]
    if version is not None:
        sizes.append(f"version {version}")
    title = f"{name}: {', '.join(sizes)}, at {table.client}"
    columns = [
        (column, kind, nullable or "yes")
        for column, kind, nullable in listed_columns(schema)
    ]
    click.echo(as_text(Listing(title, ("column", "type", "nullable"), columns)))
    if rows and all_rows:
        click.echo(f"\n{_draw(table.to_arrow(limit=rows))}")


@click.command(cls=Command, epilog="Example: rt-frames history sales --url ./tables")
@table_argument
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    default=100,
    show_default=True,
    help="The maximum number of versions.",
)
@service_options
@json_option
def history(name: str, limit: int, as_json: bool, **service: Any) -> None:
    """List the versions of table NAME, newest first, in UTC."""
    versions = connect(**service).table(name).history(limit)
    if as_json:
        facts = [
            {**version._asdict(), "time": version.time.isoformat()}
            for version in versions
        ]
        click.echo(json.dumps(facts))
        return
    click.echo(repr(versions))


@click.command(
    cls=Command, epilog="Example: rt-frames restore sales 1 --yes --url ./tables"
)
@table_argument
@version_argument
@click.option("--yes", is_flag=True, help="Confirm; later versions are kept.")
@service_options
def restore(name: str, version: int, yes: bool, **service: Any) -> None:
    """Make VERSION of table NAME the newest, with its rows and columns."""
    if not yes:
        raise click.UsageError(
            f"this would make version {version} of table {name!r} the newest; nothing "
            "was changed; pass --yes to confirm"
        )
    table = connect(**service).table(name, version=version).restore()
    if not is_quiet():
        click.echo(
            f"restored version {version} of {name} as version {table.version}, "
            f"at {table.client}"
        )


@click.command(cls=Command, epilog="Example: rt-frames compact sales --url ./tables")
@table_argument
@click.option(
    "--purge",
    is_flag=True,
    help="Also remove what was deleted from the disk, and all older versions, for good.",
)
@service_options
def compact(name: str, purge: bool, **service: Any) -> None:
    """Merge the small files of table NAME.

    Needs a folder.
    """
    table = connect(**service).table(name).compact(purge=purge)
    if not is_quiet():
        click.echo(f"compacted {name}, at {table.client}")


@click.command(cls=Command, epilog="Example: rt-frames drop sales --yes --url ./tables")
@table_argument
@click.option("--yes", is_flag=True, help="Confirm; the rows cannot be recovered.")
@service_options
def drop(name: str, yes: bool, **service: Any) -> None:
    """Drop table NAME and all its rows."""
    if not yes:
        raise click.UsageError(
            f"this would drop table {name!r} and all its rows for good; nothing was "
            "changed; pass --yes to confirm"
        )
    table = connect(**service).table(name)
    table.drop()
    if not is_quiet():
        click.echo(f"dropped {name}, at {table.client}")


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
