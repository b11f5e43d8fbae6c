"""Checks of arguments that many public functions have."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar

from rt_frames._names import duplicates, what_is_meant
from rt_frames._text import show_value

P = ParamSpec("P")
T = TypeVar("T")


def is_visible(text: str) -> bool:
    """Return whether a text, such as a key, is visible ASCII that a header carries."""
    return bool(text) and all("!" <= char <= "~" for char in text)


def check_flag(name: str, value: Any) -> bool:
    """Return True or False. Raise ValueError for anything else."""
    # NumPy's own, if it is loaded
    numpy_bool = getattr(sys.modules.get("numpy"), "bool_", bool)
    if isinstance(value, bool | numpy_bool):
        return bool(value)
    raise ValueError(f"{name}: expected True or False, got {show_value(value)}")


def check_optional_flag(name: str, value: Any) -> bool | None:
    """Return None, True or False. Raise ValueError for anything else."""
    return None if value is None else check_flag(name, value)


def check_whole_number(name: str, value: Any, least: int) -> int:
    """Return a whole number of Python, NumPy or pandas. Raise ValueError otherwise."""
    is_number = hasattr(value, "__index__") and not isinstance(value, bool)
    if is_number and value >= least:
        return operator.index(value)
    raise ValueError(
        f"{name}: expected a whole number from {least}, got {show_value(value)}"
    )


def parse_names(option: str, value: Any) -> list[str]:
    """Return one or more names of columns, each once. Raise ValueError otherwise."""
    names = [value] if isinstance(value, str) else []
    # a dict may rename, which nobody does here
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        names = list(value)
    are_names = all(isinstance(name, str) and name for name in names)
    if not names or not are_names or duplicates(names):
        raise ValueError(
            f"{option}: expected the name of a column, or a list of names, each once, "
            f"got {show_value(value)}"
        )
    return names


def by_keyword(
    cure: str = "", **by_type: str
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Name the keyword of an argument by position, and say which option is meant.

    ``by_type`` are the keywords of values by the name of their type. ``cure`` says what
    to do if none is meant. The signature stays as it is.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters = inspect.signature(function).parameters.values()
        most = sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters)
        others = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        known = [one.name for one in parameters if one.name != "self"]

        @functools.wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            __tracebackhide__ = True
            if len(args) > most and (others or cure):
                value = args[most]
                keyword = by_type.get(type(value).__name__)
                shown = show_value(value)
                advice = cure or f"pass it by its keyword, one of {', '.join(others)}"
                if keyword is not None:
                    advice = f"pass it as {keyword}={shown}"
                raise TypeError(
                    f"{function.__name__}: got {shown} by position; {advice}"
                )
            for name in options:
                if name in known:
                    continue
                meant = what_is_meant(name, known, cure)
                raise TypeError(
                    f"{function.__name__}: no option {name!r:.100}; {meant}"
                )
            return function(*args, **options)

        return call

    return decorate
