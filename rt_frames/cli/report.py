"""Print a table's columns and the outcome of a command, as text or JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from rt_frames._display import Listing, as_text
from rt_frames._text import make_printable
from rt_frames.cli.command import is_quiet

if TYPE_CHECKING:
    import pyarrow as pa

    from rt_frames._client import RemoteTable


def columns_as_json(schema: pa.Schema | None) -> list[dict[str, Any]] | None:
    """Return the columns as objects for JSON, or None if they are unknown."""
    if schema is None:
        return None
    return [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in schema
    ]


def report(action: str, table: RemoteTable, as_json: bool, **facts: Any) -> None:
    """Print the outcome of a command, as text or JSON. -q prints no text."""
    from rt_frames._client import known_facts

    if as_json:
        print_json(table, **facts)
    elif not is_quiet():
        words = ", ".join([*known_facts(table), f"at {table.client}"])
        click.echo(make_printable(f"{action} {table.name}: {words}"))


def print_json(table: RemoteTable, **facts: Any) -> None:
    """Print facts about a table as JSON, with its name and version."""
    click.echo(json.dumps({"table": table.name, **facts, "version": table.version}))


def print_columns(title: str, schema: pa.Schema) -> None:
    """Print the columns and their types as a table below a title."""
    rows = []
    for field in schema:
        nullable = "yes" if field.nullable else "no"
        rows.append((field.name, str(field.type), nullable))
    click.echo(as_text(Listing(title, ("column", "type", "nullable"), rows)))
