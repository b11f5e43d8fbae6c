"""Names of columns and tables, and the dotted paths of nested columns."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import TYPE_CHECKING

from rt_frames._text import list_names

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from typing import TypeVar

    T = TypeVar("T", bound=Hashable)


def has_control_characters(name: str) -> bool:
    """Tell whether a name holds control characters, or surrogates that no UTF-8 can carry."""
    # whatever is neither of them is mostly printable, which is the cheaper question
    return not name.isprintable() and any(
        code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000 for code in map(ord, name)
    )


def duplicates(names: Iterable[T]) -> list[T]:
    """Give what occurs more than once, in the order in which it first occurs."""
    return [name for name, number in Counter(names).items() if number > 1]


def check_column_names(names: list[str], advice: str = "rename them") -> None:
    """Refuse column names that the service's engine cannot keep."""
    if not names:
        raise ValueError("the frame has no columns; a table needs at least one")
    if twice := duplicates(names):
        raise ValueError(f"column names must be unique; these occur more than once: {list_names(twice)}; {advice}")
    if "" in names:
        raise ValueError("a column has the empty string for a name; rename it")
    if odd := [name for name in names if has_control_characters(name)]:
        raise ValueError(f"column names must not hold control characters: {list_names(odd)}; rename them")


def check_no_dots(names: list[str]) -> None:
    """Refuse column names that would read as the path of a nested column."""
    if dotted := [name for name in names if "." in name]:
        renames = {name: name.replace(".", "_") for name in dotted[:10]}
        raise ValueError(
            f"column names must not hold a dot, it separates the levels of nested columns: {list_names(dotted)}; "
            f"rename them, for example with {renames!r}"
        )


def join_path(parent: str, name: str) -> str:
    """Give the path of a nested column, such as ``outer.inner``."""
    return f"{parent}.{name}" if parent else name


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Offer the names that are closest to one that is not known, or else all of them."""
    names = list(known)
    close = difflib.get_close_matches(name, names, 3) or sorted(names)
    return f"did you mean {list_names(close)}?" if close else "there is none to name"
