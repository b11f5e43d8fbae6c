"""A listing as text for a terminal, and as HTML for a notebook.

The text is aligned for the terminal's width; the HTML brings no outside resources and takes its colours
from the page, so that it reads well on dark and on light.
"""

from __future__ import annotations

import html
import shutil
from typing import TYPE_CHECKING, NamedTuple

from rt_frames._text import make_printable, shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ROWS = 60  # that are shown
_MIN_WIDTH = 12  # characters that a column keeps, however narrow the terminal is
_CELL = 'style="text-align:left;padding:.2em 1em .2em 0;border-bottom:1px solid rgba(128,128,128,.4)"'


class Listing(NamedTuple):
    """A title, rows of cells under a head, and notes below."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: Sequence[str] = ()


def as_text(listing: Listing) -> str:
    """Draw a listing with aligned columns, no wider than the terminal where that can be."""
    lines = [tuple(map(make_printable, line)) for line in (listing.head, *listing.rows[:MAX_ROWS])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    available = shutil.get_terminal_size((120, 24)).columns - 2 * (len(widths) - 1)
    while sum(widths) > available and max(widths) > _MIN_WIDTH:
        widths[widths.index(max(widths))] -= 1
    lines.insert(1, tuple("-" * width for width in widths))
    drawn = ["  ".join(map(str.ljust, map(shorten, line, widths), widths)).rstrip() for line in lines]
    return "\n".join([listing.title, "", *drawn, *_more(listing), *(f"\n{make_printable(n)}" for n in listing.notes)])


def as_html(listing: Listing) -> str:
    """Draw a listing for a notebook, every word of it escaped."""
    head = "".join(f"<th {_CELL}>{_escape(name)}</th>" for name in listing.head)
    lines = (
        "".join(f"<td {_CELL}><code>{_escape(cell)}</code></td>" for cell in row) for row in listing.rows[:MAX_ROWS]
    )
    body = "".join(f"<tr>{cells}</tr>" for cells in lines)
    table = f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    below = "".join(f"<p>{_escape(text)}</p>" for text in (*_more(listing), *listing.notes))
    title = f"<p><b>{_escape(listing.title)}</b></p>"
    return f'<div style="color:inherit;background:transparent">{title}{table if body else ""}{below}</div>'


def _more(listing: Listing) -> list[str]:
    more = len(listing.rows) - MAX_ROWS
    return [f"… and {more:,} more"] if more > 0 else []


def _escape(text: str) -> str:
    return html.escape(make_printable(text))
