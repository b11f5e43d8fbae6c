"""Values as text for people: shortened, counted, listed, and safe to print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LISTED = 10


def shorten(text: str, limit: int) -> str:
    """Cut a text to ``limit`` characters, the last of them an ellipsis where something is missing."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def one_line(text: str, limit: int) -> str:
    """Put a text of any length and layout on one line of at most ``limit`` characters."""
    return shorten(" ".join(text.split()), limit)


def make_printable(text: str) -> str:
    """Escape what would end the line, move the cursor or change the direction of writing."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    )


def show_value(value: Any, limit: int = 80) -> str:
    """Show any object in a few words."""
    try:
        return shorten(
            make_printable(one_line(repr(value)[: 4 * limit + 80], limit)), limit
        )
    except Exception:  # noqa: BLE001  # a foreign repr may raise anything
        return f"an object of type {type(value).__name__}"


def list_names(names: Iterable[Any], limit: int = MAX_LISTED) -> str:
    """Write names as ``'a', 'b'``; of more than ``limit``, the first ones and how many there are in all."""
    shown = list(names)
    return ", ".join(map(show_value, shown[:limit])) + (
        f", … ({len(shown):,})" if len(shown) > limit else ""
    )


def list_some(sentences: list[str], limit: int = MAX_LISTED) -> str:
    """Put sentences in a row; of more than ``limit``, the first ones and how many more there are."""
    more = len(sentences) - limit
    return "; ".join(sentences[:limit]) + (f"; and {more:,} more" if more > 0 else "")


def count(number: int, noun: str) -> str:
    """Write a number of things: ``1 row``, ``2,000 rows``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def format_bytes(nbytes: float) -> str:
    """Write a number of bytes with three digits: ``999 B``, ``1.5 kB``, ``12.3 GB``."""
    size = nbytes
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    # larger values would be rounded to 1e+03
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        del units[0]
    return f"{size:.3g} {units[0]}"


class Message(str):
    """The text of an error or a warning, followed by a hint that names options of the call.

    Parameters
    ----------
    text : str
        What happened.
    hint : str
        What to do next, with ``{}`` for the options. The console script spells them in its own way, and leaves out a
        hint with options that its command does not have.
    **options
        The options: text, a bool, or a dict of names, with ``"…"`` for what only the caller knows.

    Examples
    --------
    >>> Message("the name is taken", "choose another one, or {}", if_exists="skip")
    'the name is taken; choose another one, or if_exists="skip"'
    """

    text: str
    hint: str
    options: dict[str, Any]

    def __new__(cls, text: str, hint: str = "", **options: Any) -> Self:
        values = {
            name: f'"{value}"' if isinstance(value, str) else repr(value)
            for name, value in options.items()
        }
        spelled = ", ".join(f"{name}={value}" for name, value in values.items())
        message = super().__new__(cls, join_hint(text, hint, spelled))
        message.text = text
        message.hint = hint
        message.options = options
        return message


def join_hint(text: str, hint: str, spelled: str) -> str:
    """Put a hint with its options behind a text, on a line of its own where the text has several."""
    between = "\n" if "\n" in text else "; "
    return f"{text}{between}{hint.replace('{}', spelled, 1)}" if hint else text
