"""One description of each parameter, for all functions and methods that take it.

A method such as ``df.remote.to_table`` has a summary and an example of its own. When it
is imported, it gets the rest from the function of `_api` that it refers to, so that a
notebook shows everything at once.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

_REFERENCE = re.compile(r"\s*Parameters and errors as in\s`[\w.]+`\.")
_ORDER = ("", "Parameters", "Returns", "Raises", "Examples")


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
    for title in _ORDER:
        if title in own:
            head = f"{title}\n{'-' * len(title)}\n" if title else ""
            sections.append(head + own[title])
    function.__doc__ = "\n\n".join(sections)


def show_choices(function: Any, **aliases: Any) -> None:
    """Show the words of aliases in the signature, in place of the aliases' names."""
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
