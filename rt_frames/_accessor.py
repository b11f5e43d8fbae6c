"""``df.remote``: the functions of this package as methods of a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rt_frames import _api
from rt_frames._arguments import by_keyword
from rt_frames._display import hide_traceback, share_docstring, show_choices
from rt_frames._names import what_is_meant
from rt_frames._service.write import IfExists
from rt_frames._stream.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from rt_frames._client import Client, Expression, RemoteTable
    from rt_frames._frames.frame_types import Frame
    from rt_frames._schema.alterations import AlterationPlan

FrameT = TypeVar("FrameT", bound="Frame")


class RemoteAccessor(Generic[FrameT]):
    """The methods of ``df.remote``.

    Parameters
    ----------
    frame : frame
        A pandas, Polars or Dask DataFrame.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames
    >>> pl.DataFrame({"n": [1, 2]}).remote.to_table("counted").rows
    2
    """

    __slots__ = ("_frame",)

    def __init__(self, frame: FrameT) -> None:
        self._frame = frame

    def __repr__(self) -> str:
        frame = type(self._frame).__name__
        return (
            f"<remote methods of a {frame}: to_table, tee, alter_table, "
            "plan_alterations, schema>"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            column = 'for a column named "remote" write df["remote"]'
            meant = what_is_meant(name, dir(type(self)), column)
            raise AttributeError(f"df.remote has no {name!r}; {meant}")

    @property
    @hide_traceback
    def schema(self) -> pa.Schema:
        """The Arrow schema that would be sent.

        Examples
        --------
        >>> import pandas as pd
        >>> pd.DataFrame({"n": [1], "s": ["x"]}).remote.schema
        n: int64
        s: large_string
        """
        return _api.schema(self._frame)

    @by_keyword(str="if_exists", dict="dtypes", Expr="where")
    def to_table(
        self,
        name: str,
        *,
        if_exists: IfExists = "fail",
        on: str | Sequence[str] | None = None,
        where: Expression | None = None,
        add_columns: bool = False,
        dtypes: Mapping[str, Any] | None = None,
        index: bool | None = None,
        clean_names: bool = False,
        progress: bool | None = None,
        compression: Compression = "auto",
        client: Client | None = None,
    ) -> RemoteTable:
        """Create a remote table from this frame, or write to an existing one.

        Parameters and errors as in `rt_frames.to_table`.

        Examples
        --------
        >>> import pandas as pd
        >>> df = pd.DataFrame({"word": ["a", "b"], "n": [1, 2]})
        >>> df.remote.to_table("words").rows
        2
        """
        __tracebackhide__ = True
        return _api.to_table(
            self._frame,
            name,
            if_exists=if_exists,
            on=on,
            where=where,
            add_columns=add_columns,
            dtypes=dtypes,
            index=index,
            clean_names=clean_names,
            progress=progress,
            compression=compression,
            client=client,
        )

    @by_keyword(str="if_exists", dict="dtypes", Expr="where")
    def tee(
        self,
        name: str,
        *,
        if_exists: IfExists = "fail",
        on: str | Sequence[str] | None = None,
        where: Expression | None = None,
        add_columns: bool = False,
        dtypes: Mapping[str, Any] | None = None,
        index: bool | None = None,
        clean_names: bool = False,
        progress: bool | None = None,
        compression: Compression = "auto",
        client: Client | None = None,
    ) -> FrameT:
        """Call `to_table` and return this frame, unchanged.

        Parameters and errors as in `rt_frames.to_table`.

        Examples
        --------
        >>> import pandas as pd
        >>> df = pd.DataFrame({"n": [1, 2, 3]})
        >>> int(df.remote.tee("numbers")["n"].sum())
        6
        """
        __tracebackhide__ = True
        return _api.tee(
            self._frame,
            name,
            if_exists=if_exists,
            on=on,
            where=where,
            add_columns=add_columns,
            dtypes=dtypes,
            index=index,
            clean_names=clean_names,
            progress=progress,
            compression=compression,
            client=client,
        )

    @by_keyword(dict="rename", list="drop_columns")
    def plan_alterations(
        self,
        before: Any,
        *,
        rename: Mapping[str, str] | None = None,
        nullable: Mapping[str, bool] | None = None,
        add_columns: bool = False,
        drop_columns: str | Sequence[str] = (),
        dtypes: Mapping[str, Any] | None = None,
        index: bool | None = None,
        clean_names: bool = False,
    ) -> AlterationPlan:
        """Plan the changes that give a table of ``before`` the columns of this frame.

        Parameters and errors as in `rt_frames.plan_alterations`.

        Examples
        --------
        >>> import pandas as pd
        >>> before = pd.DataFrame({"n": [1, 2]})
        >>> before.astype("int32").remote.plan_alterations(before).to_json()
        {'alterations': [{'path': 'n', 'data_type': {'type': 'int32'}}]}
        """
        __tracebackhide__ = True
        return _api.plan_alterations(
            before,
            self._frame,
            rename=rename,
            nullable=nullable,
            add_columns=add_columns,
            drop_columns=drop_columns,
            dtypes=dtypes,
            index=index,
            clean_names=clean_names,
        )

    @by_keyword(dict="rename", list="drop_columns")
    def alter_table(
        self,
        name: str,
        before: Any = None,
        *,
        rename: Mapping[str, str] | None = None,
        nullable: Mapping[str, bool] | None = None,
        add_columns: bool = False,
        drop_columns: str | Sequence[str] = (),
        lossy: bool = False,
        rewrite: bool = False,
        dtypes: Mapping[str, Any] | None = None,
        index: bool | None = None,
        clean_names: bool = False,
        client: Client | None = None,
    ) -> RemoteTable:
        """Change a table's columns to those of this frame.

        Parameters and errors as in `rt_frames.alter_table`.

        Examples
        --------
        >>> import pandas as pd
        >>> before = pd.DataFrame({"n": [1, 2]})
        >>> _ = before.remote.to_table("counts")
        >>> before.astype("int32").remote.alter_table("counts")
        RemoteTable('counts', version 2, n: int64 to int32, at tables)
        """
        __tracebackhide__ = True
        return _api.alter_table(
            self._frame,
            name,
            before,
            rename=rename,
            nullable=nullable,
            add_columns=add_columns,
            drop_columns=drop_columns,
            lossy=lossy,
            rewrite=rewrite,
            dtypes=dtypes,
            index=index,
            clean_names=clean_names,
            client=client,
        )


share_docstring(RemoteAccessor.to_table, _api.to_table)
share_docstring(RemoteAccessor.tee, _api.tee)
share_docstring(RemoteAccessor.plan_alterations, _api.plan_alterations)
share_docstring(RemoteAccessor.alter_table, _api.alter_table)
for writer in (RemoteAccessor.to_table, RemoteAccessor.tee):
    show_choices(writer, IfExists=IfExists, Compression=Compression)
