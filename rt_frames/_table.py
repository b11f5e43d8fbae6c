"""RemoteTable: a table of the service, and what is known about it here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rt_frames._display import Listing, as_html
from rt_frames._schema.alterations import Alteration, AlterationPlan
from rt_frames._text import count, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from rt_frames._client import Client


@dataclass(frozen=True)
class RemoteTable:
    """A table of the service, and what is known about it here.

    Parameters
    ----------
    name : str
        The table's name.
    client : Client
        The service that it lives in.
    schema : pyarrow.Schema or None
        What was sent, where this object comes from sending it.
    rows, nbytes : int or None
        Rows, and bytes of the request's body, that were sent.
    version : int or None
        The table's version, where the service tells it.
    created : bool or None
        True after creating it, False where it was there already, None where nobody asked.
    request_id : str or None
        The ``x-request-id`` of the request that this object comes from.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames as rt
    >>> table = rt.to_table(pl.DataFrame({"n": [1, 2]}), "counted")
    >>> table.rename({"n": "count"}).cast({"count": "int16"}).set_nullable({"count": False}).version
    4
    """

    name: str
    client: Client
    schema: pa.Schema | None = None
    rows: int | None = None
    nbytes: int | None = None
    version: int | None = None
    created: bool | None = None
    request_id: str | None = None

    def __repr__(self) -> str:
        facts = "".join(f", {fact}" for fact in self._facts())
        return f"RemoteTable({self.name!r}{facts}, at {self.client})"

    def _repr_html_(self) -> str:
        fields = [(f.name, str(f.type), "yes" if f.nullable else "no") for f in self.schema or ()]
        title = f"Remote table {self.name}: {', '.join(self._facts())}".removesuffix(": ")
        request = f", request {self.request_id}" if self.request_id is not None else ""
        return as_html(Listing(title, ("column", "type", "nullable"), fields, [f"at {self.client}{request}"]))

    def _facts(self) -> Iterator[str]:
        if self.schema is not None:
            yield count(len(self.schema), "column")
        if self.rows is not None:
            yield count(self.rows, "row")
        if self.nbytes:
            yield f"{format_bytes(self.nbytes)} sent"
        if self.version is not None:
            yield f"version {self.version}"
        if self.created is False and self.schema is None and self.version is None:
            yield "was there already"

    def alter_columns(
        self, alterations: AlterationPlan | Alteration | Mapping[str, Any] | Iterable[Any]
    ) -> RemoteTable:
        """Change columns, all of them or none, in one request.

        Parameters
        ----------
        alterations : AlterationPlan, Alteration, dict of the service's form, or several of them
            What to change. An empty plan is not sent.

        Returns
        -------
        RemoteTable
            The table, for the next call of a chain; the same is true of the methods below.

        Examples
        --------
        >>> import rt_frames as rt
        >>> table = rt.connect(default=False).table("readings")
        >>> table.alter_columns({"path": "at", "rename": "time"}).version
        2
        """
        if isinstance(alterations, AlterationPlan) and not alterations:
            return self
        return self.client.alter_columns(self.name, alterations)

    def rename(self, columns: Mapping[str, str]) -> RemoteTable:
        """Rename columns in one request.

        Parameters
        ----------
        columns : dict of str to str
            New names by path; inside a struct ``"outer.inner"``.

        Returns
        -------
        RemoteTable
            The table, with the version that the service answered.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).table("readings").rename({"at": "time"}).version
        2
        """
        return self.alter_columns([Alteration(path, rename=name) for path, name in columns.items()])

    def cast(self, dtypes: Mapping[str, Any]) -> RemoteTable:
        """Change types in one request.

        Parameters
        ----------
        dtypes : dict of str to dtype
            New types by path; any dtype that `rt_frames.data_type` takes.

        Returns
        -------
        RemoteTable
            The table, with the version that the service answered.

        Raises
        ------
        BadRequest
            If the service does not cast the one type to the other; nothing was changed.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).table("readings").cast({"at": "int32"}).version
        2
        """
        return self.alter_columns([Alteration(path, data_type=dtype) for path, dtype in dtypes.items()])

    def set_nullable(self, nullable: Mapping[str, bool]) -> RemoteTable:
        """Allow or forbid nulls in one request.

        Parameters
        ----------
        nullable : dict of str to bool
            Whether there may be nulls, by path.

        Returns
        -------
        RemoteTable
            The table, with the version that the service answered.

        Raises
        ------
        BadRequest
            If nulls are to be forbidden where there are some; nothing was changed.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).table("readings").set_nullable({"at": False}).version
        2
        """
        return self.alter_columns([Alteration(path, nullable=may) for path, may in nullable.items()])
