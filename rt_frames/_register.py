"""Attach ``df.remote`` to the frames of each library when that library is imported, before or after this package.

This file imports none of the libraries, and `_accessor` only when ``remote`` is first used. Whatever fails here, the
import of the library succeeds.

Relied upon: the set ``DataFrame._accessors``, in which the registrars of pandas, Polars and Dask note the names of
accessors. pandas reads it for ``dir(df)``, and lets no column of such a name be an attribute.
"""

from __future__ import annotations

import sys
import warnings

# as typing says it, whose import takes longer than all of this
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_LIBRARIES = ("pandas", "polars", "dask.dataframe")


def register() -> None:
    """Attach the accessor to the frames of every library, now or when it is imported."""
    if not any(map(_is_ours, sys.meta_path)):
        sys.meta_path.insert(0, _ImportHook())
    for name in _LIBRARIES:
        library = sys.modules.get(name)
        if library is not None:
            _attach(library, stacklevel=4)


class _Remote:
    """The attribute ``remote``: an accessor made on each access, since one kept on the frame would keep it alive."""

    def __get__(self, frame: Any, owner: type) -> Any:
        from rt_frames._accessor import RemoteAccessor

        return RemoteAccessor if frame is None else RemoteAccessor(frame)

    def __set__(self, frame: Any, value: Any) -> None:
        raise AttributeError(
            "remote is the accessor of rt_frames and cannot be assigned"
        )


def _attach(library: ModuleType, stacklevel: int) -> None:
    """Attach the accessor; a ``remote`` that is there already and not ours is left, with a warning."""
    frame: Any = getattr(library, "DataFrame", None)
    if frame is None:
        return
    parents = getattr(frame, "__mro__", ())
    owners = [parent for parent in parents if "remote" in vars(parent)]
    if owners and _is_ours(vars(owners[0])["remote"]):
        return
    reason = "it has a 'remote' of its own"
    if not owners:
        try:
            frame.remote = _Remote()
        except (AttributeError, TypeError) as error:
            reason = str(error)
        else:
            names = getattr(frame, "_accessors", None)
            if isinstance(names, set):
                names.add("remote")
            return
    message = f"df.remote cannot be attached to {library.__name__}.DataFrame: {reason}"
    warnings.warn(
        f"{message}; use rt_frames.to_table(df, ...) instead", UserWarning, stacklevel
    )


def _is_ours(thing: object) -> bool:
    """Return whether this file made it, also after a reload, when `isinstance` no longer could."""
    return type(thing).__module__ == __name__


class _ImportHook:
    """Finds nothing itself: it lets the finders after it work, and has the accessor attached to what they find."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _LIBRARIES:
            return None
        # never the finders before it: two hooks could call each other for ever
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            if hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        _attach_to_next(spec.loader)
                    return spec
        return None


def _attach_to_next(loader: Any) -> None:
    """Have the accessor attached to the next module that a loader loads."""

    def exec_module(module: ModuleType) -> None:
        # this function, which restores the method
        del loader.exec_module
        loader.exec_module(module)
        try:
            _attach(module, stacklevel=3)
        except Warning:
            # turned into an error by a filter; the library's import must survive it
            return

    try:
        loader.exec_module = exec_module
    except (AttributeError, TypeError):
        # a loader in C; `register` may still run after the import
        return
