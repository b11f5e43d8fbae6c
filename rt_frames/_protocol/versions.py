"""The versions of a table, as `RemoteTable.history` returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rt_frames._display import Listing, as_html, as_text
from rt_frames._text import count

if TYPE_CHECKING:
    import datetime


class Version(NamedTuple):
    """A version of a table.

    Parameters
    ----------
    version : int
        The number, for ``rt.table(name, version=…)``.
    time : datetime.datetime
        When it was made, in UTC.
    operation : str or None
        What made it: "create", "replace", "replace where", "append", "upsert",
        "delete", "alter", "add columns", "drop columns", "restore", or another word of
        the engine. None if the service does not report it.
    rows : int or None
        The rows that the table had; None if the service does not report them.

    Examples
    --------
    >>> import rt_frames as rt
    >>> newest, *_ = rt.table("readings").history()
    >>> newest.version, newest.operation, newest.rows
    (1, 'create', 2)
    """

    version: int
    time: datetime.datetime
    operation: str | None
    rows: int | None


class History(tuple[Version, ...]):
    """Versions that are shown as a table. A slice is a plain tuple."""

    __slots__ = ()

    def __repr__(self) -> str:
        return as_text(self._listing())

    def _repr_html_(self) -> str:
        return as_html(self._listing())

    def _listing(self) -> Listing:
        rows = []
        for version, time, operation, number in self:
            cells = [str(version), f"{time:%Y-%m-%d %H:%M:%S}", operation or ""]
            cells.append("" if number is None else f"{number:,}")
            rows.append(tuple(cells))
        return Listing(
            f"{count(len(self), 'version')}, newest first",
            ("version", "time (UTC)", "operation", "rows"),
            rows,
            # the caller has limited them
            max_rows=len(rows),
        )
