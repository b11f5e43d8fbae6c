"""Where ``df.remote`` comes from: put on a library's frames when that library is imported, by whomever.

Before or after this package makes no difference; it imports none of them itself, nor, until then, its own rooms.
"""

from __future__ import annotations

import operator
import sys

TYPE_CHECKING = False  # as typing says it, whose import takes longer than all of this
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class _Uncached:
    """Makes an accessor on each access: one kept on the frame would keep the frame alive with it."""

    def __get__(self, frame: Any, owner: type) -> Any:
        from rt_frames._accessor import RemoteAccessor

        return RemoteAccessor if frame is None else RemoteAccessor(frame)

    def __set__(self, frame: Any, value: Any) -> None:
        raise AttributeError("remote is the accessor of rt_frames and cannot be assigned")


_REGISTRARS = {
    "pandas": "api.extensions.register_dataframe_accessor",
    "polars": "api.register_dataframe_namespace",
    "dask.dataframe": "extensions.register_dataframe_accessor",
}


def _put_on(library: ModuleType) -> None:
    from rt_frames._accessor import RemoteAccessor

    registrar = operator.attrgetter(_REGISTRARS[library.__name__])(library)
    registrar("remote")(RemoteAccessor)
    library.DataFrame.remote = _Uncached()


class _WhenImported:
    """Finds nothing itself: it lets the other finders work, and registers the accessor once they did."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _REGISTRARS:
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            loader: Any = _Registering(spec.loader)
            spec.loader = loader
        return spec


class _Registering:
    """Runs a module as its own loader would, then registers the accessor."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]  # any loader

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _put_on(module)


def register() -> None:
    """Put the accessor on the frames of every library, now or when it is imported."""
    for name in _REGISTRARS:
        module = sys.modules.get(name)
        frame = getattr(module, "DataFrame", None)
        if frame is not None and not isinstance(vars(frame).get("remote"), _Uncached):
            _put_on(module)  # type: ignore[arg-type]  # it has a DataFrame, so it is there
    if not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())
