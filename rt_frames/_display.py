"""Listings as text and as HTML, tracebacks without this package's frames, docstrings.

The text is aligned to the terminal's width. The HTML loads nothing and inherits the
page's colours, light or dark.

A method such as ``df.remote.to_table`` has a summary and an example of its own. When it
is imported, it gets the descriptions of parameters, results and errors from the
function of `_api` that it refers to, so that a notebook shows everything at once.
"""

from __future__ import annotations

import functools
import html
import inspect
import os
import re
import shutil
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from rt_frames._text import make_printable, shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import FrameType

P = ParamSpec("P")
T = TypeVar("T")

# characters that a column keeps, however narrow the terminal is
_MIN_WIDTH = 12
_MARK = ' style="background:rgba(235,140,0,.2);font-weight:bold"'
_CELL = 'style="text-align:left;padding:.2em 1em .2em 0;border-bottom:1px solid rgba(128,128,128,.4)"'


class Listing(NamedTuple):
    """A table to display: title, head, rows and notes.

    Empty columns are left out. HTML highlights the rows whose numbers are ``marked``.
    Rows beyond ``max_rows`` are only counted.
    """

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: Sequence[str] = ()
    marked: Collection[int] = ()
    max_rows: int = 60

    def lines(self) -> list[tuple[str, ...]]:
        """Return the head and the first rows, without empty columns."""
        columns = []
        for column in zip(self.head, *self.rows[: self.max_rows], strict=True):
            cells = column[1:]
            if any(cells) or not self.rows:
                columns.append(column)
        return [tuple(map(make_printable, line)) for line in zip(*columns, strict=True)]


def as_text(listing: Listing) -> str:
    """Write a listing as aligned text, no wider than the terminal if possible."""
    lines = listing.lines()
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    available = shutil.get_terminal_size((120, 24)).columns - 2 * (len(widths) - 1)
    while sum(widths) > available and max(widths) > _MIN_WIDTH:
        widths[widths.index(max(widths))] -= 1
    lines.insert(1, tuple("-" * width for width in widths))
    text = [make_printable(listing.title), ""]
    for line in lines:
        shortened = map(shorten, line, widths)
        text.append("  ".join(map(str.ljust, shortened, widths)).rstrip())
    text += _more(listing)
    text += [f"\n{make_printable(note)}" for note in listing.notes]
    return "\n".join(text)


def as_html(listing: Listing) -> str:
    """Write a listing as HTML for a notebook, with all text escaped."""
    head, *lines = listing.lines()
    parts = [
        '<div style="color:inherit;background:transparent">',
        f"<p><b>{_escape(listing.title)}</b></p>",
    ]
    if lines:
        parts.append('<table style="border-collapse:collapse"><thead><tr>')
        parts += [f'<th scope="col" {_CELL}>{html.escape(name)}</th>' for name in head]
        parts.append("</tr></thead><tbody>")
        for number, line in enumerate(lines):
            mark = _MARK if number in listing.marked else ""
            parts.append(f"<tr{mark}>")
            for cell in line:
                code = f"<code>{html.escape(cell)}</code>" if cell else ""
                parts.append(f"<td {_CELL}>{code}</td>")
            parts.append("</tr>")
        parts.append("</tbody></table>")
    notes = [*_more(listing), *listing.notes]
    parts += [f"<p>{_escape(note)}</p>" for note in notes]
    parts.append("</div>")
    return "".join(parts)


# returns the note of an interrupt, from the first request of the running call on
note_after: ContextVar[Callable[[], str]] = ContextVar("note_after", default=str)


def hide_traceback(function: Callable[P, T]) -> Callable[P, T]:
    """Hide the package's frames in the tracebacks of notebooks and pytest.

    They leave out frames with a local variable ``__tracebackhide__``. What remains is
    the caller's line, the line that raised, and the message of each cause. Python's own
    traceback shows all frames. Of an interrupt, each shows the caller's lines alone,
    and what became of the last request: it may come when all is done but the return.
    """

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        __tracebackhide__ = True
        note_after.set(str)
        try:
            return function(*args, **options)
        except Exception as error:
            # from the next frame on: this one hides itself
            _hide(error.__traceback__ and error.__traceback__.tb_next, _is_ours)
            if type(error).__module__.startswith(_PACKAGE):
                cause = error.__cause__ or error.__context__
                while cause is not None:
                    _hide(cause.__traceback__, lambda _: True)
                    cause = cause.__cause__ or cause.__context__
            raise
        except KeyboardInterrupt as error:
            # Ctrl-C may come while an unrelated error is handled
            error.__suppress_context__ = True
            note = note_after.get()()
            note_after.set(str)
            if note and not hasattr(error, "__notes__"):
                error.add_note(note)
            left = _leave_out(error.__traceback__, _is_library)
            raise error.with_traceback(left) from error.__cause__
        except BaseException as error:
            _hide(error.__traceback__ and error.__traceback__.tb_next, _is_library)
            error.__suppress_context__ = True
            raise

    return call


_PACKAGE = __name__.partition(".")[0]
_PYTHON = str(Path(os.__file__).parent)
# part of the paths of packages, in Debian's Python, too
_INSTALLED = {"site-packages", "dist-packages"}


def _hide(
    traceback: TracebackType | None, is_hidden: Callable[[FrameType], bool]
) -> None:
    while traceback is not None:
        if is_hidden(traceback.tb_frame):
            traceback.tb_frame.f_locals["__tracebackhide__"] = True
        traceback = traceback.tb_next


def _leave_out(
    traceback: TracebackType | None, is_hidden: Callable[[FrameType], bool]
) -> TracebackType | None:
    """Return a traceback without the frames that are hidden."""
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    left: TracebackType | None = None
    for entry in reversed(entries):
        if not is_hidden(entry.tb_frame):
            left = TracebackType(left, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return left


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith(_PACKAGE)


def _is_library(frame: FrameType) -> bool:
    """Return whether a frame is of this package, another one, or Python itself."""
    file = frame.f_code.co_filename
    is_pythons = file.startswith(("<frozen ", _PYTHON))
    return is_pythons or _is_ours(frame) or bool(_INSTALLED & {*Path(file).parts})


_REFERENCE = re.compile(r"\s*Parameters and errors as in\s`[\w.]+`\.")
_SECTIONS = ("", "Parameters", "Returns", "Raises", "Examples")


def share_docstring(function: Any, *owners: Any) -> None:
    """Complete a docstring by those of other functions.

    The description of a parameter comes from the first of them that does not refer to
    another one ("As in …"), results and errors from the first that has any.
    """
    # none with python -OO
    if function.__doc__ is None:
        return
    own = _split(function.__doc__)
    docs = [own, *(_split(owner.__doc__) for owner in owners)]
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    if names:
        own["Parameters"] = "\n".join(_describe(name, docs) for name in names)
    for title in ("Returns", "Raises"):
        known = [doc[title] for doc in docs if title in doc]
        if known:
            own[title] = known[0]
    own[""] = _REFERENCE.sub("", own[""])
    sections = []
    for title in _SECTIONS:
        if title in own:
            head = f"{title}\n{'-' * len(title)}\n" if title else ""
            sections.append(head + own[title])
    function.__doc__ = "\n\n".join(sections)


def show_choices(function: Any, **aliases: Any) -> None:
    """Show the words of aliases in the signature, in place of the aliases' names."""
    # wrappers have annotations of their own in Python 3.14
    function = inspect.unwrap(function)
    for name, annotation in function.__annotations__.items():
        if annotation in aliases:
            function.__annotations__[name] = aliases[annotation]


def _split(doc: str) -> dict[str, str]:
    """Return the sections of a docstring by title; that of the summary is empty."""
    sections: dict[str, str] = {}
    title = ""
    for part in re.split(r"\n\n(?=\w+\n-{3,}\n)", inspect.cleandoc(doc)):
        text = part
        if sections:
            title, _, text = part.split("\n", 2)
        sections[title] = text
    return sections


def _describe(name: str, docs: list[dict[str, str]]) -> str:
    """Return the first description of a parameter that is no reference."""
    found = ""
    for doc in docs:
        for entry in re.split(r"\n(?=\S)", doc.get("Parameters", "")):
            head, _, text = entry.partition("\n")
            names, _, kind = head.partition(" : ")
            if name in names.split(", "):
                found = f"{name} : {kind}\n{text}"
                if not text.lstrip().startswith("As in "):
                    return found
    return found


def _more(listing: Listing) -> list[str]:
    more = len(listing.rows) - listing.max_rows
    if more <= 0:
        return []
    return [f"… and {more:,} more"]


def _escape(text: str) -> str:
    return html.escape(make_printable(text))
