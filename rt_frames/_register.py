"""Attach ``df.remote`` to the frames of pandas, Polars and Dask.

A library that is imported later gets it through an import hook. This file imports none
of the libraries, and `_accessor` only when ``remote`` is first used. If anything fails
here, the import of the library still succeeds.

Internals that this depends on: the set ``DataFrame._accessors``, in which pandas,
Polars and Dask keep the names of registered accessors. pandas reads it for ``dir(df)``,
and to keep a column of such a name from becoming an attribute.
"""

from __future__ import annotations

import sys
import warnings

# not typing.TYPE_CHECKING: importing typing costs more than this module
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_LIBRARIES = ("pandas", "polars", "dask.dataframe")


def register() -> None:
    """Attach the accessor to the frames of each library, now or when it is imported."""
    if not any(map(_is_ours, sys.meta_path)):
        sys.meta_path.insert(0, _ImportHook())
    for name in _LIBRARIES:
        library = sys.modules.get(name)
        if library is not None:
            _attach(library, stacklevel=4)


class _Remote:
    """The attribute ``remote``: a new accessor on each access.

    An accessor stored on the frame would keep the frame alive.
    """

    def __get__(self, frame: Any, owner: type) -> Any:
        from rt_frames._accessor import RemoteAccessor

        return RemoteAccessor if frame is None else RemoteAccessor(frame)

    def __set__(self, frame: Any, value: Any) -> None:
        raise AttributeError(
            "df.remote is the accessor of rt_frames and cannot be assigned; assign a "
            'column as df["remote"]'
        )


class _NoRemote:
    """The attribute ``remote`` of a column, which says what to do; not for Tab."""

    def __get__(self, column: Any, owner: type) -> Any:
        raise AttributeError(
            f"a {owner.__name__} is one column, not a frame; call .to_frame().remote"
        )


def _attach_to_columns(library: ModuleType) -> None:
    """Have columns say that only frames have ``remote``."""
    column: Any = getattr(library, "Series", None)
    if column is None or "remote" in dir(column):
        return
    names = getattr(column, "__dir__", object.__dir__)

    def without_remote(self: Any) -> list[str]:
        return [name for name in names(self) if name != "remote"]

    column.remote = _NoRemote()
    column.__dir__ = without_remote
    # of Polars, which is asked next, and would say that there is no such attribute
    ask_next = vars(column).get("__getattr__")
    if ask_next is not None:

        def ask(self: Any, name: str) -> Any:
            if name == "remote":
                return vars(column)["remote"].__get__(self, column)
            return ask_next(self, name)

        column.__getattr__ = ask


def _attach(library: ModuleType, stacklevel: int) -> None:
    """Attach the accessor, or warn if the frames have another ``remote``."""
    frame: Any = getattr(library, "DataFrame", None)
    if frame is None:
        return
    _attach_to_columns(library)
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
    """Return whether an object is of a class of this file.

    After a reload of the file, `isinstance` is False for older objects.
    """
    return type(thing).__module__ == __name__


class _ImportHook:
    """Finds a library through the finders after it, to attach the accessor."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _LIBRARIES:
            return None
        # not the finders before it: two hooks could call each other forever
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            if not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is None:
                continue
            if hasattr(spec.loader, "exec_module"):
                _attach_to_next(spec.loader)
            return spec
        return None


def _attach_to_next(loader: Any) -> None:
    """Replace a loader's ``exec_module`` for one call, to attach the accessor.

    Python has no import hook that runs after the import.
    """

    def exec_module(module: ModuleType) -> None:
        # restore the method
        del loader.exec_module
        loader.exec_module(module)
        try:
            _attach(module, stacklevel=3)
        except Warning:
            # a filter turned it into an error, which must not fail the import
            return

    try:
        loader.exec_module = exec_module
    except (AttributeError, TypeError):
        # a loader written in C; `register` may still run after the import
        return
