"""``df.remote``: the functions of this package as methods of a frame, forwarded and nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rt_frames import _api
from rt_frames._display import hide_frames
from rt_frames._frames.any_frame import sent_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from rt_frames._client import Client, IfExists, RemoteTable
    from rt_frames._frames.compression import Compression
    from rt_frames._schema.alterations import AlterationPlan

Frame = TypeVar("Frame")


class RemoteAccessor(Generic[Frame]):
    """What a frame can do with the remote service.

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

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __repr__(self) -> str:
        return (
            f"<remote methods of a {type(self._frame).__name__}: to_table, tee, alter_table, plan_alterations, schema>"
        )

    @property
    @hide_frames
    def schema(self) -> pa.Schema:
        """The Arrow schema that would be sent.

        Examples
        --------
        >>> import pandas as pd
        >>> pd.DataFrame({"n": [1], "s": ["x"]}).remote.schema
        n: int64
        s: large_string
        """
        return sent_schema(self._frame)

    def to_table(
        self,
        name: str,
        *,
        client: Client | None = None,
        dtypes: Mapping[str, Any] | None = None,
        index: bool | None = None,
        clean_names: bool = False,
        if_exists: IfExists = "fail",
        compression: Compression = "auto",
        progress: bool | None = None,
    ) -> RemoteTable:
        """Create a remote table from this frame.

        Parameters
        ----------
        name : str
            The new table's name.
        client : Client, optional
            Where to create it. Defaults to the client of the last `rt_frames.connect`.
        dtypes : dict of str to dtype, optional
            Columns to cast on the way, by their names in the table.
        index : bool, optional
            pandas only: whether index levels become columns. None: all but an unnamed integer index.
        clean_names : bool, default False
            Make valid names of labels that a table cannot have, as in `rt_frames.to_table`.
        if_exists : {"fail", "skip", "replace"}, default "fail"
            What happens when the name is taken.
        compression : {"auto", "lz4", "zstd", None}, default "auto"
            Codec of the Arrow IPC buffers. "auto" chooses batch by batch; None sends them uncompressed.
        progress : bool, optional
            Whether a bar is shown. None: in a terminal or notebook, after two seconds.

        Returns
        -------
        RemoteTable
            What was sent, and what the service answered.

        Raises
        ------
        ValueError, TypeError
            If an argument, a column's name or its type cannot be used; nothing was stored.
        RemoteError
            For everything else that can fail; `rt_frames.errors` shows the tree.

        Examples
        --------
        >>> import polars as pl
        >>> pl.DataFrame({"word": ["a", "b"]}).remote.to_table("two_words").rows
        2
        """
        __tracebackhide__ = True
        return _api.to_table(
            self._frame,
            name,
            client=client,
            dtypes=dtypes,
            index=index,
            clean_names=clean_names,
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
        clean_names: bool = False,
        if_exists: IfExists = "fail",
        compression: Compression = "auto",
        progress: bool | None = None,
    ) -> Frame:
        """Create a remote table and give this frame back, unchanged; parameters and errors as in `rt_frames.to_table`.

        Examples
        --------
        >>> import pandas as pd
        >>> df = pd.DataFrame({"n": [1, 2, 3]})
        >>> int(df.remote.tee("numbers")["n"].sum())
        6
        """
        __tracebackhide__ = True
        _api.to_table(
            self._frame,
            name,
            client=client,
            dtypes=dtypes,
            index=index,
            clean_names=clean_names,
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
        clean_names: bool = False,
    ) -> AlterationPlan:
        """Work out what `alter_table` would send; parameters and errors as in `rt_frames.plan_alterations`.

        Examples
        --------
        >>> import pandas as pd
        >>> before = pd.DataFrame({"n": [1, 2]})
        >>> before.astype("int32").remote.plan_alterations(before).to_json()
        {'alterations': [{'path': 'n', 'data_type': {'type': 'int32'}}]}
        """
        __tracebackhide__ = True
        return _api.plan_alterations(
            before, self._frame, rename=rename, nullable=nullable, strict=strict, clean_names=clean_names
        )

    def alter_table(
        self,
        name: str,
        before: Any = None,
        *,
        rename: Mapping[str, str] | None = None,
        nullable: Mapping[str, bool] | None = None,
        strict: bool = True,
        clean_names: bool = False,
        client: Client | None = None,
    ) -> RemoteTable:
        """Alter a table so that its columns become those of this frame.

        Parameters
        ----------
        name : str
            The table.
        before : frame, pyarrow.Schema, polars.Schema, dict of str to dtype, or RemoteTable, optional
            What the table was created from. None asks the service, where it can describe a table: a folder's, and
            one with ``dialect="lancedb"``.
        rename, nullable, strict, clean_names : optional
            As in `rt_frames.plan_alterations`.
        client : Client, optional
            Where the table is. Defaults to the client of the last `rt_frames.connect`.

        Returns
        -------
        RemoteTable
            The table, with the version that the service answered.

        Raises
        ------
        AlterationError
            If the two don't fit; nothing was sent.
        ValueError
            If ``before`` is not given and the service cannot tell.
        RemoteError
            If the service refuses or cannot be reached, as in `rt_frames.alter_columns`.

        Examples
        --------
        >>> import polars as pl
        >>> before = pl.DataFrame({"n": [1, 2]})
        >>> _ = before.remote.to_table("counts")
        >>> before.cast(pl.Int32).remote.alter_table("counts", before).name
        'counts'
        """
        __tracebackhide__ = True
        before = _api.table(name, client=client) if before is None else before
        plan = _api.plan_alterations(
            before, self._frame, rename=rename, nullable=nullable, strict=strict, clean_names=clean_names
        )
        return _api.alter_columns(name, plan, client=client)
