"""Values as text for people: shortened, counted, listed, and safe to print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LISTED = 10


def shorten(text: str, limit: int) -> str:
    """Truncate a text to ``limit`` characters, of which an ellipsis is the last."""
    if len(text) <= limit:
        return text
    return text[: limit - 1] + "…"


def one_line(text: str, limit: int) -> str:
    """Put a text on one line of at most ``limit`` characters."""
    return shorten(" ".join(text.split()), limit)


def make_printable(text: str) -> str:
    """Escape non-printable characters (line ends, control and bidi characters)."""
    if text.isprintable():
        return text
    characters = []
    for character in text:
        if character.isprintable():
            characters.append(character)
        else:
            characters.append(repr(character)[1:-1])
    return "".join(characters)


def show_value(value: Any, limit: int = 80) -> str:
    """Return a short, printable repr of any object."""
    try:
        start = repr(value)[: 4 * limit + 80]
        return shorten(make_printable(one_line(start, limit)), limit)
    except Exception:  # noqa: BLE001  # a foreign repr may raise anything
        return f"an object of type {type(value).__name__}"


def list_names(names: Iterable[Any]) -> str:
    """Write names as ``'a', 'b'``.

    Of many, the first are listed, and the number of all follows.
    """
    all_names = list(names)
    text = ", ".join(map(show_value, all_names[:MAX_LISTED]))
    if len(all_names) > MAX_LISTED:
        text += f", … ({len(all_names):,})"
    return text


def list_some(sentences: list[str], limit: int = MAX_LISTED) -> str:
    """Join sentences with semicolons.

    Sentences beyond ``limit`` are only counted.
    """
    text = "; ".join(sentences[:limit])
    more = len(sentences) - limit
    if more > 0:
        text += f"; and {more:,} more"
    return text


def count(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 row``, ``2,000 rows``."""
    plural = "" if number == 1 else "s"
    return f"{number:,} {noun}{plural}"


def format_bytes(nbytes: float) -> str:
    """Write a number of bytes with three digits: ``999 B``, ``1.5 kB``, ``12.3 GB``."""
    size = nbytes
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    # the format would write 999.5 as 1e+03
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        del units[0]
    return f"{size:.3g} {units[0]}"
