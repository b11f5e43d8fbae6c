"""What to say when two schemas do not fit: the columns by name, and the call that would fit."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from rt_frames.errors import AlterationError

if TYPE_CHECKING:
    from collections.abc import Iterable


def close_names(name: str, names: Iterable[str]) -> str:
    """Say which names look alike; nothing where none does."""
    near = difflib.get_close_matches(name, list(names), n=3)
    return f"; close to it: {', '.join(map(repr, near))}" if near else ""


def unknown_path(option: str, path: str, paths: Iterable[str]) -> AlterationError:
    """Say that a path in an option leads to no column that can be altered."""
    return AlterationError(
        f"{option}={{{path!r}: ...}}: there is no column {path!r} before the change{close_names(path, paths)}"
    )


def one_sided(prefix: str, gone: list[Any], came: list[Any]) -> AlterationError:
    """Say which columns are on one side only, and offer the renames that would explain them."""
    missing = [prefix + field.name for field in gone]
    new = [prefix + field.name for field in came]
    parts = [f"only before: {_listed(missing)}"] if missing else []
    parts += [f"only after: {_listed(new)}"] if new else []
    return AlterationError(
        f"columns are on one side only ({'; '.join(parts)}), and the service can neither add nor drop any; "
        f"{_offer(prefix, gone, came)}strict=False leaves them as they are"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _offer(prefix: str, gone: list[Any], came: list[Any]) -> str:
    """Pair what is gone with what came: of the same type first, then by likeness of names, then by order."""
    free = list(came[:50])
    renames = {}
    for old in gone[:50]:
        same = [field for field in free if field.type == old.type] or free
        if not same:
            break
        near = difflib.get_close_matches(old.name, [field.name for field in same], n=1, cutoff=0.0)
        new = next((field for field in same if near and field.name == near[0]), same[0])
        renames[prefix + old.name] = new.name
        free.remove(new)
    return f"if they were renamed, say so: rename={renames!r}; " if renames else ""
