"""Values as text for people: shortened, counted, listed, and safe to print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

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


def list_names(names: Iterable[Any], limit: int = MAX_LISTED) -> str:
    """Write names as ``'a', 'b'``.

    Names beyond ``limit`` are left out, and the number of all names follows.
    """
    all_names = list(names)
    text = ", ".join(map(show_value, all_names[:limit]))
    if len(all_names) > limit:
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


class Message(str):
    """The text of an error or warning, with a hint that names options of the call.

    Parameters
    ----------
    text : str
        What happened.
    hint : str
        What to do next, with ``{}`` for the options. The CLI spells them as its own,
        and drops a hint whose options the command lacks.
    **options
        The options: text, a bool, or a dict of names, with ``"…"`` for a value that
        only the caller knows.

    Examples
    --------
    >>> Message("the name is taken", "choose another one, or {}", if_exists="skip")
    'the name is taken; choose another one, or if_exists="skip"'
    """

    text: str
    hint: str
    options: dict[str, Any]
    # of a message that `join_lines` made, each with its own hint
    lines: tuple[Message, ...] = ()

    def __new__(cls, text: str, hint: str = "", **options: Any) -> Self:
        arguments = []
        for name, value in options.items():
            literal = f'"{value}"' if isinstance(value, str) else repr(value)
            arguments.append(f"{name}={literal}")
        message = super().__new__(cls, join_hint(text, hint, ", ".join(arguments)))
        message.text = text
        message.hint = hint
        message.options = options
        return message


def join_lines(lines: Iterable[Message]) -> Message:
    """Join messages as the lines of one. Each line keeps its hint."""
    lines = tuple(lines)
    message = Message("\n".join(lines))
    message.lines = lines
    return message


def join_hint(text: str, hint: str, spelled: str) -> str:
    """Append a hint with its options.

    On a new line if the text has several lines; as a sentence if the hint has several.
    """
    if not hint:
        return text
    separator = "; "
    if "\n" in text:
        separator = "\n"
    elif "\n" in hint:
        separator = ". "
    return text + separator + hint.replace("{}", spelled, 1)
