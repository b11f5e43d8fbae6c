"""A small table as text for a terminal, and as HTML for a notebook.

The text is aligned for the terminal's width; the HTML brings no outside resources and takes its colours
from the page, so that it reads well on dark and on light.
"""

from __future__ import annotations

import html
import shutil
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_ROWS = 60
_NARROWEST = 12


class Table(NamedTuple):
    """What is shown: the rows in full, each display shortens them for itself."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: Sequence[str] = ()


def as_text(table: Table) -> str:
    """Draw the table with aligned columns, no wider than the terminal where that can be."""
    lines = [tuple(_printable(cell) for cell in row) for row in (table.head, *table.rows[:MOST_ROWS])]
    widths = _fitted([max(map(_width, column)) for column in zip(*lines, strict=True)])
    drawn = ["  ".join(map(_padded, line, widths)).rstrip() for line in lines]
    drawn.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([table.title, "", *drawn, *_more(table), *("\n" + _printable(n) for n in table.notes)])


def as_html(table: Table) -> str:
    """Draw the table for a notebook."""
    cell = 'style="text-align:left;padding:.2em 1em .2em 0;border-bottom:1px solid rgba(128,128,128,.4)"'
    head = "".join(f"<th {cell}>{_escaped(name)}</th>" for name in table.head)
    rows = "".join(
        "<tr>" + "".join(f"<td {cell}><code>{_escaped(value)}</code></td>" for value in row) + "</tr>"
        for row in table.rows[:MOST_ROWS]
    )
    below = "".join(f'<p style="white-space:pre-line">{_escaped(n)}</p>' for n in (*_more(table), *table.notes))
    drawn = f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return (
        f'<div style="color:inherit;background:transparent"><p><b>{_escaped(table.title)}</b></p>'
        f"{drawn if rows else ''}{below}</div>"
    )


def _more(table: Table) -> list[str]:
    left = len(table.rows) - MOST_ROWS
    return [f"… and {left:,} more"] if left > 0 else []


def _escaped(text: str) -> str:
    return html.escape(_printable(text))


def _printable(text: str) -> str:
    """Write out what would move the cursor or turn the direction of writing."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def _fitted(widths: list[int]) -> list[int]:
    """Take from the widest columns what the terminal does not have."""
    room = shutil.get_terminal_size((120, 24)).columns - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _width(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _padded(text: str, width: int) -> str:
    if _width(text) > width:
        while _width(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - _width(text))


def size_in_words(nbytes: int) -> str:
    """Write a number of bytes as people read it."""
    size, units = float(nbytes), ["B", "kB", "MB", "GB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        del units[0]
    return f"{size:.3g} {units[0]}"


def counted(count: int, noun: str) -> str:
    """Write a number of things."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
