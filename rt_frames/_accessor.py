"""``df.remote``: the functions of this package as methods of a frame, forwarded and nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rt_frames import _connect
from rt_frames._frames import source_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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
