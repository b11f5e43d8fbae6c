"""Displays: a listing as text for a terminal and as HTML for a notebook, and tracebacks without inner frames.

The text is aligned to the terminal's width; the HTML loads nothing and inherits the page's colours, light or dark.
"""

from __future__ import annotations

import functools
import html
import shutil
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from rt_frames._text import make_printable, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from types import TracebackType

P = ParamSpec("P")
T = TypeVar("T")

# rows shown at most
MAX_ROWS = 60
# characters that a column keeps on the narrowest terminal
_MIN_WIDTH = 12
_MARK = ' style="background:rgba(235,140,0,.2);font-weight:bold"'
_CELL = 'style="text-align:left;padding:.2em 1em .2em 0;border-bottom:1px solid rgba(128,128,128,.4)"'


class Listing(NamedTuple):
    """A title, rows of cells under a head, and notes below; columns without a word are not shown.

    ``marked`` are rows that a reader should not miss.
    """

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: Sequence[str] = ()
    marked: Collection[int] = ()

    def shown(self) -> list[tuple[str, ...]]:
        """Return the head and the rows that are shown."""
        lines = [
            tuple(map(make_printable, line))
            for line in (self.head, *self.rows[:MAX_ROWS])
        ]
        columns = [
            column
            for column in zip(*lines, strict=True)
            if any(column[1:]) or not self.rows
        ]
        return list(zip(*columns, strict=True))


def as_text(listing: Listing) -> str:
    """Draw a listing with aligned columns, no wider than the terminal where that can be."""
    lines = listing.shown()
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    available = shutil.get_terminal_size((120, 24)).columns - 2 * (len(widths) - 1)
    while sum(widths) > available and max(widths) > _MIN_WIDTH:
        widths[widths.index(max(widths))] -= 1
    lines.insert(1, tuple("-" * width for width in widths))
    drawn = [
        "  ".join(map(str.ljust, map(shorten, line, widths), widths)).rstrip()
        for line in lines
    ]
    return "\n".join(
        [
            make_printable(listing.title),
            "",
            *drawn,
            *_more(listing),
            *(f"\n{make_printable(n)}" for n in listing.notes),
        ]
    )


def as_html(listing: Listing) -> str:
    """Draw a listing for a notebook, every word of it escaped."""
    head, *lines = listing.shown()
    top = "".join(f'<th scope="col" {_CELL}>{html.escape(name)}</th>' for name in head)
    body = "".join(
        f"<tr{_MARK if number in listing.marked else ''}>"
        f"{''.join(f'<td {_CELL}>{_code(cell)}</td>' for cell in line)}</tr>"
        for number, line in enumerate(lines)
    )
    table = f'<table style="border-collapse:collapse"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    below = "".join(
        f"<p>{_escape(text)}</p>" for text in (*_more(listing), *listing.notes)
    )
    title = f"<p><b>{_escape(listing.title)}</b></p>"
    return f'<div style="color:inherit;background:transparent">{title}{table if body else ""}{below}</div>'


def _code(cell: str) -> str:
    return f"<code>{html.escape(cell)}</code>" if cell else ""


def hide_traceback(function: Callable[P, T]) -> Callable[P, T]:
    """Let notebooks and pytest show the caller's line and the one that raised, and of a cause its words alone.

    They leave out frames that have a local variable ``__tracebackhide__``; Python's own traceback shows all.
    """

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            return function(*args, **options)
        except Exception as error:
            _mark(error.__traceback__ and error.__traceback__.tb_next, ours_alone=True)
            if type(error).__module__.startswith(_PACKAGE):
                cause = error.__cause__ or error.__context__
                while cause is not None:
                    _mark(cause.__traceback__)
                    cause = cause.__cause__ or cause.__context__
            raise

    return call


_PACKAGE = __name__.partition(".")[0]


def _mark(step: TracebackType | None, *, ours_alone: bool = False) -> None:
    while step is not None:
        if not ours_alone or str(step.tb_frame.f_globals.get("__name__")).startswith(
            _PACKAGE
        ):
            step.tb_frame.f_locals["__tracebackhide__"] = True
        step = step.tb_next


def _more(listing: Listing) -> list[str]:
    more = len(listing.rows) - MAX_ROWS
    return [f"… and {more:,} more"] if more > 0 else []


def _escape(text: str) -> str:
    return html.escape(make_printable(text))
