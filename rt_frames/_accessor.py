"""``df.remote``: the functions of this package as methods of a frame, forwarded and nothing more.

The accessor is put on a library's frames when that library is imported, by whomever, before or after
this package; it imports none itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rt_frames import _connect
from rt_frames._frames import source_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    import pyarrow as pa

    from rt_frames._alterations import AlterationPlan
    from rt_frames._client import Client, IfExists
    from rt_frames._codecs import Compression
    from rt_frames._table import RemoteTable


class RemoteAccessor:
    """What a frame can do with the remote service."""

    __slots__ = ("_frame",)

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __repr__(self) -> str:
        return (
            f"<remote methods of a {type(self._frame).__name__}: to_table, tee, alter_table, plan_alterations, schema>"
        )

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema that would be sent."""
        return source_of(self._frame).schema

    def to_table(
        self,
        name: str,
        *,
        client: Client | None = None,
        dtypes: Mapping[str, Any] | None = None,
        index: bool | None = None,
        if_exists: IfExists = "fail",
        compression: Compression = "auto",
        progress: bool | None = None,
    ) -> RemoteTable:
        """Create remote table ``name`` from this frame; `rt_frames.to_table` documents the options.

        Examples
        --------
        >>> import polars as pl
        >>> pl.DataFrame({"word": ["a", "b"]}).remote.to_table("two_words").rows
        2
        """
        return _connect.to_table(
            self._frame,
            name,
            client=client,
            dtypes=dtypes,
            index=index,
            if_exists=if_exists,
            compression=compression,
            progress=progress,
        )

    def tee(
        self,
        name: str,
        *,
        client: Client | None = None,
        dtypes: Mapping[str, Any] | None = None,
        index: bool | None = None,
        if_exists: IfExists = "fail",
        compression: Compression = "auto",
        progress: bool | None = None,
    ) -> Any:
        """Create remote table ``name`` from this frame and give the same frame back, for a chain that goes on.

        Examples
        --------
        >>> import pandas as pd
        >>> df = pd.DataFrame({"n": [1, 2, 3]})
        >>> int(df.remote.tee("numbers")["n"].sum())
        6
        """
        self.to_table(
            name,
            client=client,
            dtypes=dtypes,
            index=index,
            if_exists=if_exists,
            compression=compression,
            progress=progress,
        )
        return self._frame

    def plan_alterations(
        self,
        before: Any,
        *,
        rename: Mapping[str, str] | None = None,
        nullable: Mapping[str, bool] | None = None,
        strict: bool = True,
    ) -> AlterationPlan:
        """Work out what `alter_table` would send, and send nothing; see `rt_frames.plan_alterations`."""
        return _connect.plan_alterations(before, self._frame, rename=rename, nullable=nullable, strict=strict)

    def alter_table(
        self,
        name: str,
        before: Any,
        *,
        rename: Mapping[str, str] | None = None,
        nullable: Mapping[str, bool] | None = None,
        strict: bool = True,
        client: Client | None = None,
    ) -> RemoteTable:
        """Alter table ``name``, created from ``before``, so that its columns become those of this frame.

        Examples
        --------
        >>> import polars as pl
        >>> before = pl.DataFrame({"n": [1, 2]})
        >>> _ = before.remote.to_table("counts")
        >>> before.cast(pl.Int32).remote.alter_table("counts", before).name
        'counts'
        """
        plan = self.plan_alterations(before, rename=rename, nullable=nullable, strict=strict)
        return _connect.alter_columns(name, plan, client=client)


class _Uncached:
    """Makes an accessor on each access: one kept on the frame would keep the frame alive with it."""

    def __get__(self, frame: Any, owner: type) -> Any:
        return RemoteAccessor if frame is None else RemoteAccessor(frame)

    def __set__(self, frame: Any, value: Any) -> None:
        raise AttributeError("remote is the accessor of rt_frames and cannot be assigned")


def _register_pandas(pandas: ModuleType) -> None:
    pandas.api.extensions.register_dataframe_accessor("remote")(RemoteAccessor)
    pandas.DataFrame.remote = _Uncached()


def _register_polars(polars: ModuleType) -> None:
    polars.api.register_dataframe_namespace("remote")(RemoteAccessor)
    polars.DataFrame.remote = _Uncached()


def _register_dask(dataframe: ModuleType) -> None:
    dataframe.extensions.register_dataframe_accessor("remote")(RemoteAccessor)
    dataframe.DataFrame.remote = _Uncached()


_REGISTER = {"pandas": _register_pandas, "polars": _register_polars, "dask.dataframe": _register_dask}


class _WhenImported:
    """Finds nothing itself: it lets the other finders work, and registers the accessor once they did."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _REGISTER:
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
        _REGISTER[module.__name__](module)


def register() -> None:
    """Put the accessor on the frames of every library, now or when it is imported."""
    for name, put in _REGISTER.items():
        module = sys.modules.get(name)
        frame = getattr(module, "DataFrame", None)
        if frame is not None and not isinstance(vars(frame).get("remote"), _Uncached):
            put(module)  # type: ignore[arg-type]  # it has a DataFrame, so it is there
    if not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())
