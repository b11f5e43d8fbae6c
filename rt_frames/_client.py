"""Client and RemoteTable: the public handles. A `Service` does the work."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow as pa

from rt_frames import errors
from rt_frames._arguments import (
    by_keyword,
    check_flag,
    check_optional_flag,
    check_whole_number,
)
from rt_frames._display import Listing, as_html, hide_traceback
from rt_frames._frames.any_frame import parse_open_options
from rt_frames._frames.from_arrow import Readable
from rt_frames._http.arguments import Key, hide_values, parse_options
from rt_frames._http.rows import Rows
from rt_frames._names import (
    RESERVED,
    DialectName,
    check_order,
    did_you_mean,
    what_is_meant,
)
from rt_frames._protocol.calls import Result, query
from rt_frames._protocol.operations import (
    DESCRIBE,
    QUERY,
    Dialect,
    parse_dialect,
)
from rt_frames._protocol.responses import Description
from rt_frames._protocol.versions import History
from rt_frames._schema.alterations import (
    Alteration,
    AlterationPlan,
    as_plan,
    describe_changes,
)
from rt_frames._schema.data_type import is_list, iter_fields, type_text
from rt_frames._service import alter, changes, history, reads
from rt_frames._service.hosted import HostedService
from rt_frames._service.replace_columns import replace_columns
from rt_frames._service.service import Service
from rt_frames._service.where import write_fitting
from rt_frames._service.write import IfExists, WriteOptions, write
from rt_frames._stream.compression import Compression
from rt_frames._text import count, format_bytes, list_some, show_value
from rt_frames._values.metadata import PlainRows, without_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd
    import polars as pl

    from rt_frames._frames.frame_types import Frame
    from rt_frames._protocol.versions import Version
    from rt_frames._schema.leaves import Condition

    Tuple = tuple[str, str, Any]
    Expression = pl.Expr | Sequence[Tuple | Sequence[Tuple]]
    Alterations = AlterationPlan | Alteration | Mapping[str, Any] | Iterable[Any]

# seconds; a notebook's display must not hang
DISPLAY_TIMEOUT = 2.0

T = TypeVar("T")
_DROP_COLUMNS = (
    "this drops the table; of columns, rt.alter_table(df, name, drop_columns=…), whose "
    "frame lacks them"
)


class Client:
    """A client of one project of a service, as `rt_frames.connect` returns it.

    Parameters
    ----------
    url : str
        ``https://{database}.{region}.{domain}``, the form in the service's
        documentation.
    api_key : str
        Sent in the ``x-api-key`` header of every request, and shown nowhere.
    timeout, retries, headers, verify, allow_insecure, dialect : optional
        As in `rt_frames.connect`.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it.

    Examples
    --------
    >>> import rt_frames as rt
    >>> url = "https://words-x1.us-east-1.example.com"
    >>> with rt.Client(url, api_key="made-up") as client:
    ...     print(client)
    https://words-x1.us-east-1.example.com
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str,
        timeout: float | tuple[float, float, float] | None = None,
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        verify: bool | str | os.PathLike[str] = True,
        allow_insecure: bool = False,
        dialect: DialectName | Dialect | None = None,
    ) -> None:
        # before anything can raise, as a traceback may show the arguments
        api_key = Key(api_key)
        headers = hide_values(headers)
        self._service: Service = HostedService(
            url,
            api_key,
            parse_options(timeout, retries, headers, verify),
            parse_dialect(dialect),
            allow_insecure=check_flag("allow_insecure", allow_insecure),
        )

    @property
    def url(self) -> str:
        """The service's address, or the folder.

        Examples
        --------
        >>> import rt_frames as rt
        >>> url = "https://words-x1.us-east-1.example.com/"
        >>> rt.connect(url, api_key="made-up", default=False).url
        'https://words-x1.us-east-1.example.com'
        """
        return self._service.url

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            meant = what_is_meant(name, dir(type(self)))
            raise AttributeError(f"Client has no {name!r:.100}; {meant}")

        # Python asks for item 0 to iterate
        def __getitem__(self, name: Any) -> Any:
            raise TypeError("a client is no dict; use .table(name) and .list_tables()")

    def __str__(self) -> str:
        return str(self._service)

    def __repr__(self) -> str:
        # a traceback may show a client whose __init__ failed
        if "_service" not in vars(self):
            return "Client(…)"
        return f"Client({str(self)!r}{self._service.repr_suffix})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return wrap_service, (self._service,)

    def close(self) -> None:
        """Close the connections; a later call opens new ones.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).close()
        """
        self._service.close()

    @hide_traceback
    @by_keyword(int="version", datetime="version", Timestamp="version")
    def table(
        self, name: str, *, version: int | datetime.datetime | None = None
    ) -> RemoteTable:
        """Return a handle to an existing table, or to a version of it.

        Parameters and errors as in `rt_frames.table`.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).table("readings").rename({"at": "time"}).version
        2
        """
        self._service.check_name(name)
        if version is None:
            return RemoteTable(name, self)
        self._service.dialect.path(QUERY, name)
        if isinstance(version, datetime.date | str):
            version = history.version_at(self._service, name, _check_zone(version))
        version = check_whole_number("version", version, 1)
        return RemoteTable(name, self, version=version, _pinned=True)

    @hide_traceback
    def list_tables(self) -> list[str]:
        """List the names of the tables.

        Parameters and errors as in `rt_frames.list_tables`.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).list_tables()
        ['readings']
        """
        return self._service.list_tables()

    @hide_traceback
    @by_keyword(str="if_exists", dict="dtypes", Expr="where")
    def create_table(
        self,
        name: str,
        data: Frame,
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
    ) -> RemoteTable:
        """Create a remote table from a frame, or write to an existing one.

        Parameters and errors as in `rt_frames.to_table`.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> client = rt.connect(default=False)
        >>> client.create_table("counted", pl.DataFrame({"n": [1, 2]})).rows
        2
        """
        check_order(data, name, "client.create_table({}, df)")
        rows: Any = data
        if isinstance(data, RemoteTable):
            # not through __arrow_c_stream__: Arrow would replace our exceptions, and
            # the source could not be read again
            rows = Readable(data._reader)  # noqa: SLF001  # same module
        with errors.about(name):
            options = WriteOptions(
                parse_open_options(dtypes, index, clean_names, add_columns, on, where),
                if_exists,
                compression,
                check_optional_flag("progress", progress),
            )
            result = write(self._service, name, rows, options)
        return RemoteTable(name, self, **vars(result))

    @hide_traceback
    def alter_columns(self, name: str, alterations: Alterations) -> RemoteTable:
        """Change columns of a table in one request, all of them or none.

        Parameters and errors as in `rt_frames.alter_columns`.

        Examples
        --------
        >>> import rt_frames as rt
        >>> client = rt.connect(default=False)
        >>> alteration = rt.Alteration("at", data_type="int32")
        >>> client.alter_columns("readings", alteration).version
        2
        """
        return self.table(name).alter_columns(alterations)


def wrap_service(service: Service) -> Client:
    """Wrap an existing service in a client."""
    client = object.__new__(Client)
    # as `__init__` does
    client._service = service
    return client


def service_of(client: Client) -> Service:
    """Return the service behind a client."""
    return client._service  # noqa: SLF001  # the only access from outside


@dataclass(frozen=True)
class RemoteTable:
    """A handle to one table.

    Parameters
    ----------
    name : str
        The table's name.
    client : Client
        The client of its service.
    _schema : pyarrow.Schema or None
        Its columns, if known; see ``schema``.
    rows, nbytes : int or None
        Rows that the write sent, and the size of the request body in bytes; ``count()``
        has the rows of the table.
    version : int or None
        The version that is read, or that the write made, if the service reports it;
        ``history()`` has the newest.
    created : bool or None
        True if the call created the table, False if it existed, None if unknown.
    request_id : str or None
        The ``x-request-id`` of the request that returned this object.
    updated, inserted : int or None
        Rows that an upsert updated and inserted, if the service reports it.
    deleted : int or None
        Rows that ``if_exists="replace"`` with ``where`` replaced.
    _changed : AlterationPlan or None
        The changes that were made, for the repr.
    _pinned : bool
        Whether the handle reads ``version`` alone, and is read-only.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames as rt
    >>> table = rt.to_table(pl.DataFrame({"n": [1, 2]}), "counted")
    >>> table = table.rename({"n": "count"}).cast({"count": "int16"})
    >>> table.set_nullable({"count": False}).version
    4
    """

    name: str
    client: Client
    _schema: pa.Schema | None = field(default=None, compare=False)
    rows: int | None = None
    nbytes: int | None = None
    version: int | None = None
    created: bool | None = None
    request_id: str | None = None
    updated: int | None = None
    inserted: int | None = None
    deleted: int | None = None
    _changed: AlterationPlan | None = field(default=None, compare=False)
    _pinned: bool = False
    # reads must not return an older version
    _since: int | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        since = None if self._pinned else self.version
        object.__setattr__(self, "_since", since)

    @property
    @hide_traceback
    def schema(self) -> pa.Schema | None:
        """The Arrow schema: as sent, else as the service describes it.

        It is fetched once, and again after an alteration. None if the service cannot
        describe tables.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.table("readings").schema
        at: int64
        """
        if self._schema is None:
            object.__setattr__(self, "_schema", self._describe().schema)
        return self._schema

    @property
    @hide_traceback
    def columns(self) -> list[str]:
        """The names of the columns.

        They are fetched as ``schema`` is.

        Raises
        ------
        ValueError
            If the service cannot describe tables.
        TableNotFoundError
            If the table does not exist.
        RemoteError
            If the service refuses or cannot be reached.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.table("readings").columns
        ['at']
        """
        schema = self.schema
        if schema is None:
            self._service.dialect.path(DESCRIBE, self.name)
            raise ValueError(
                "columns: this service does not describe tables; read a row: "
                ".head(1).columns"
            )
        names: list[str] = schema.names
        return names

    if not TYPE_CHECKING:

        def __len__(self) -> int:
            # bool(), too
            raise TypeError(
                "a table has no length; use .count(), or look for its name in "
                "rt.list_tables()"
            )

        # Python asks for item 0 to iterate
        def __getitem__(self, key: Any) -> Any:
            names = [key] if isinstance(key, str) else key
            shown = show_value(names) if isinstance(names, list) else "[…]"
            raise TypeError(
                "a table is no frame; read rows with .to_polars(), columns with "
                f".to_polars(columns={shown})"
            )

        def __getattr__(self, name: str) -> Any:
            column = f"read a column with .to_polars(columns=[{name!r:.100}])"
            meant = what_is_meant(name, dir(type(self)), column)
            raise AttributeError(f"RemoteTable has no {name!r:.100}; {meant}")

    def _describe(self, max_timeout: float = math.inf) -> Description:
        return self._service.describe(
            self.name,
            version=self._read_version,
            since=self._since,
            max_timeout=max_timeout,
        )

    @property
    def _read_version(self) -> int | None:
        """The version that is read; None for the newest."""
        return self.version if self._pinned else None

    def __repr__(self) -> str:
        facts = ", ".join([repr(self.name), *self._facts()])
        return f"RemoteTable({facts}, at {self.client})"

    def _repr_html_(self) -> str:
        """Show the columns in a notebook, fetching what is unknown.

        A handle that no write returned also shows version and rows, or that the table
        does not exist.
        """
        found: list[str] = []
        # a display never raises
        with contextlib.suppress(Exception):
            found = self._look_up()
        rows = listed_columns(self._schema or ())
        title = f"Remote table {self.name}"
        facts = found or self._facts()
        if facts:
            title += f": {', '.join(facts)}"
        note = f"at {self.client}"
        if self.request_id is not None:
            note += f", request {self.request_id}"
        return as_html(Listing(title, ("column", "type", "nullable"), rows, [note]))

    def _look_up(self) -> list[str]:
        """Fetch what a display shows, within its timeout.

        Return the facts, unless the handle has those of a write.
        """
        deadline = time.monotonic() + DISPLAY_TIMEOUT
        is_of_write = self.request_id is not None
        if is_of_write and self._schema is not None:
            return []
        try:
            schema, version, _ = self._describe(max_timeout=DISPLAY_TIMEOUT)
        except errors.TableNotFoundError:
            return [*self._facts(), "does not exist"]
        if schema is not None:
            object.__setattr__(self, "_schema", schema)
        if is_of_write or version is None:
            return []
        rows = None
        with contextlib.suppress(errors.RemoteError):
            rows = self._service.count(
                self.name, version=version, max_timeout=deadline - time.monotonic()
            )
        found = replace(self, rows=rows, version=version)
        return found._facts()  # noqa: SLF001  # same class

    @hide_traceback
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Stream all rows to a library that reads Arrow.

        For example ``polars.DataFrame(table)``, ``pyarrow.table(table)`` or DuckDB.
        """
        return self._reader().__arrow_c_stream__(requested_schema)

    def _reader(
        self,
        columns: str | Sequence[str] | None = None,
        where: Expression | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Open a reader that fetches rows lazily.

        Dropping the reader closes the connection.
        """
        content = query(columns, limit)
        condition = self._condition(where)
        if condition is not None:
            content["filter"] = condition
        content["version"] = self._read_version
        if limit == 0:
            # which some servers read as no limit
            content["k"] = 1
        rows = PlainRows(self._query(content))
        if limit == 0:
            rows.close()
            return pa.RecordBatchReader.from_batches(rows.schema, [])
        return pa.RecordBatchReader.from_batches(rows.schema, iter(rows))

    def _condition(self, where: Expression | None) -> str | None:
        return reads.find_condition(
            self._service, self.name, where, self._read_version, self._since
        )

    def _query(self, content: Mapping[str, Any]) -> Rows:
        try:
            return reads.read_rows(self._service, self.name, content, since=self._since)
        except errors.BadRequest:
            self._check_columns(content.get("columns", ()))
            raise

    def _check_columns(self, columns: Sequence[str]) -> None:
        """Refuse columns that the table lacks, if the service describes it."""
        schema = None
        if columns:
            with contextlib.suppress(errors.RemoteError):
                schema = self._describe().schema
        if schema is None:
            return
        known = {*RESERVED}
        readable = []
        for path, _, parents in iter_fields(schema):
            known.add(path)
            if not any(map(is_list, parents)):
                readable.append(path)
        for name in columns:
            if name.replace("`", "") not in known:
                raise ValueError(
                    f"columns: table {self.name!r} has no column {name!r}; "
                    f"{did_you_mean(name, readable)}"
                ) from None

    @hide_traceback
    @by_keyword(Expr="where", list="columns", int="limit")
    def to_arrow(
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Expression | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Read rows into a `pyarrow.Table`.

        Parameters
        ----------
        columns : str or list of str, optional
            Columns to read, in this order. Defaults to all.
        where : polars.Expr or list of tuples, optional
            A Polars expression such as ``pl.col("day") >= day``: columns, or fields of
            structs, compared with values, ``is_in``, ``is_between``, ``is_null``,
            ``is_not_null`` and bool columns, joined by ``&``, ``|`` and ``~``. It means
            what it means in Polars, and each value must be exact in its column's type.
            Or the tuples of ``pandas.read_parquet``, such as ``[("day", ">=", day),
            ("shop", "in", shops)]``, all of which must hold. Their values never pass
            through Polars, which cuts the nanoseconds of a pandas Timestamp, has no
            literal of a UUID, and is an hour off in the summers from 2100 on. The table
            is described first.
        limit : int, optional
            The maximum number of rows.

        Returns
        -------
        pyarrow.Table
            The rows, in the types of the table.

        Raises
        ------
        ValueError
            If an argument cannot be used, a part of an expression is of another kind,
            or the service cannot be read from.
        RemoteError
            If the service refuses, cannot be reached, or sends an incomplete response.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> table = rt.table("readings")
        >>> table.to_arrow(where=pl.col("at") > 1, limit=10)["at"].to_pylist()
        [2]
        """
        return self._reader(columns, where, limit).read_all()

    @hide_traceback
    @by_keyword(Expr="where", list="columns", int="limit")
    def to_pandas(
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Expression | None = None,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """Read rows into a pandas frame.

        Integers and booleans with nulls get pandas' nullable dtypes, such as ``Int64``
        and ``boolean``.

        Parameters
        ----------
        columns, where, limit : optional
            As in `to_arrow`.

        Returns
        -------
        pandas.DataFrame
            The rows.

        Raises
        ------
        ValueError, RemoteError
            As in `to_arrow`.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.table("readings").to_pandas().columns.tolist()
        ['at']
        """
        from rt_frames._frames.to_pandas import to_pandas

        return to_pandas(self._reader(columns, where, limit).read_all())

    @hide_traceback
    @by_keyword(Expr="where", list="columns", int="limit")
    def to_polars(
        self,
        *,
        columns: str | Sequence[str] | None = None,
        where: Expression | None = None,
        limit: int | None = None,
    ) -> pl.DataFrame:
        """Read rows into a Polars frame.

        Parameters
        ----------
        columns, where, limit : optional
            As in `to_arrow`.

        Returns
        -------
        polars.DataFrame
            The rows.

        Raises
        ------
        ValueError, RemoteError
            As in `to_arrow`.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.table("readings").to_polars().columns
        ['at']
        """
        from rt_frames._frames.to_polars import to_polars

        return to_polars(self._reader(columns, where, limit).read_all())

    @hide_traceback
    @by_keyword()
    def head(self, n: int = 5) -> pl.DataFrame:
        """Read the first rows into a Polars frame.

        Parameters
        ----------
        n : int, default 5
            The maximum number of rows.

        Returns
        -------
        polars.DataFrame
            The rows, as of ``to_polars(limit=n)``.

        Raises
        ------
        ValueError, RemoteError
            As in `to_arrow`.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.table("readings").head(1)["at"].to_list()
        [1]
        """
        return self.to_polars(limit=check_whole_number("n", n, 0))

    @hide_traceback
    @by_keyword("use .scan().filter(…) and .select(…)")
    def scan(self) -> pl.LazyFrame:
        """Return a Polars query that fetches only the rows and columns it needs.

        This call fetches the table's schema and version, and every run reads that
        version, so that two uses in one query agree. Call it again for the newest
        version. If the service reports no version, each run reads the newest.

        The service selects columns, the first rows of ``head``, and the rows of those
        conditions that ``where`` of `to_arrow` takes, too. Polars applies all others,
        batch by batch.

        Returns
        -------
        polars.LazyFrame
            The rows, in the types of `to_polars`. A column that Polars cannot hold has
            the type ``Object``, and reading it raises an error.

        Raises
        ------
        ValueError
            If the service cannot be read from.
        RemoteError
            If the service refuses, cannot be reached, or sends an incomplete response.
            Before Polars 2, a running query raises a ``ComputeError`` with the same
            message.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> late = rt.table("readings").scan().filter(pl.col("at") > 1)
        >>> late.collect()["at"].to_list()
        [2]
        """
        from rt_frames._frames.scan import scan

        service = self._service
        # raises an error with a cure if the dialect cannot read
        service.dialect.path(QUERY, self.name)
        schema, version, _ = self._describe()

        def read(
            columns: list[str] | None, conditions: list[Condition], limit: int | None
        ) -> PlainRows:
            content = {**query(columns, limit), "version": version}
            condition = write_fitting(conditions)
            if condition is not None:
                content["filter"] = condition
            rows = reads.read_rows(service, self.name, content, since=self._since)
            return PlainRows(rows)

        if schema is None:
            with contextlib.closing(read(None, [], 1)) as rows:
                schema = rows.schema
        schema = without_metadata(schema)
        return scan(schema, read)

    @hide_traceback
    @by_keyword()
    def count(self, where: Expression | None = None) -> int:
        """Count the rows.

        Parameters
        ----------
        where : optional
            As in `to_arrow`.

        Returns
        -------
        int
            The number of rows.

        Raises
        ------
        ValueError, RemoteError
            As in `to_arrow`.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> rt.table("readings").count(pl.col("at") > 0)
        2
        """
        condition = self._condition(where)
        return self._service.count(
            self.name, self._read_version, condition, since=self._since
        )

    @hide_traceback
    @by_keyword()
    def delete(self, where: Expression) -> int | None:
        """Delete the rows that match a condition, in one commit.

        A comparison never matches a null: ``pl.col("day") != day`` keeps rows without
        a day, ``(pl.col("day") != day) | pl.col("day").is_null()`` deletes them.

        Parameters
        ----------
        where : polars.Expr or list of tuples
            A condition, as in `to_arrow`. An expression must name a column.

        Returns
        -------
        int or None
            The number of deleted rows; None if the service does not report it.

        Raises
        ------
        ValueError
            If the condition cannot be used, or the service cannot delete rows.
        OutcomeUnknown
            If no response confirms the deletion. Running it again gives the same
            result, unless somebody added such rows meanwhile.
        ServerError
            If the service failed, perhaps after deleting the rows.
        RemoteError
            If the service refuses or cannot be reached; nothing was deleted.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> table = pl.DataFrame({"n": [1, 2, 3]}).remote.to_table("shrinking")
        >>> table.delete(pl.col("n") > 1)
        2
        """
        self._check_newest()
        if where is None:
            raise ValueError(
                "where: a delete needs a condition; to delete all rows, store a frame "
                'without rows with if_exists="replace"'
            )
        version, rows = changes.delete(self._service, self.name, where)
        if version is not None:
            object.__setattr__(self, "_since", version)
        return rows

    @hide_traceback
    @by_keyword()
    def history(self, limit: int = 100) -> tuple[Version, ...]:
        """List the versions of the table that are kept, newest first.

        Left out are those in which a folder only merged files. They have
        the rows of the version before.

        Parameters
        ----------
        limit : int, default 100
            The maximum number of versions.

        Returns
        -------
        tuple of Version
            The versions, shown as a table. A folder reports operations and rows; other
            services may leave them out.

        Raises
        ------
        ValueError
            If the service cannot list versions.
        TableNotFoundError
            If the table does not exist.
        RemoteError
            If the service refuses or cannot be reached.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> table = pl.DataFrame({"n": [1, 2, 3]}).remote.to_table("looked_back_on")
        >>> table.delete(pl.col("n") > 1)
        2
        >>> for version in table.history():
        ...     print(version.version, version.operation, version.rows)
        2 delete 1
        1 create 3
        """
        limit = check_whole_number("limit", limit, 1)
        versions = history.list_versions(
            self._service, self.name, limit, since=self._since
        )
        return History(versions)

    @hide_traceback
    @by_keyword("restore a version by rt.table(name, version=…).restore()")
    def restore(self) -> RemoteTable:
        """Restore this handle's version, with its rows and columns, as the newest.

        Later versions are kept. Needs a handle from ``rt.table(name, version=…)``.

        Returns
        -------
        RemoteTable
            The table, with its new version.

        Raises
        ------
        ValueError
            If the handle is of no version, or the service cannot restore versions.
        TableNotFoundError
            If the service keeps no such version.
        OutcomeUnknown, ServerError
            If the version may have been restored; restoring it again gives the same
            rows.
        RemoteError
            If the service refuses or cannot be reached; nothing was changed.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> table = pl.DataFrame({"n": [1, 2, 3]}).remote.to_table("kept")
        >>> table.delete(pl.col("n") > 1)
        2
        >>> rt.table("kept", version=1).restore().count()
        3
        """
        if not self._pinned or self.version is None:
            raise ValueError(
                "restore: this handle is of no version; choose one of .history(): "
                f"rt.table({self.name!r}, version=…).restore()"
            )
        result = history.restore(self._service, self.name, self.version)
        return self._after(result)

    @hide_traceback
    @by_keyword(bool="purge")
    def compact(self, *, purge: bool = False) -> RemoteTable:
        """Merge the table's small files, and optionally remove what was deleted.

        A folder merges small files by itself, when a write finds many of them. This
        merges them now, while other writers wait.

        Deleted rows, dropped columns and values before a cast are on the disk until
        their versions expire and their files are rewritten. ``purge=True`` removes
        them now, with every version but the newest. Writes that began before are
        refused and store nothing, and readers of older versions get an error.

        Parameters
        ----------
        purge : bool, default False
            Whether to rewrite all files that hold more than the table's rows, and to
            remove all older versions. They cannot be recovered.

        Returns
        -------
        RemoteTable
            The table, with its new version.

        Raises
        ------
        ValueError
            If the service has no such operation, as LanceDB's servers, which merge
            files by themselves.
        OutcomeUnknown, ServerError
            If the table may have been compacted; it is safe to compact it again.
        RemoteError
            If the service refuses, for example because the table has indices, or, with
            ``purge``, categories that no row has, or cannot be reached; nothing was
            changed.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> table = pl.DataFrame({"n": [1, 2, 3]}).remote.to_table("people")
        >>> table.delete(pl.col("n") == 2)
        1
        >>> table.compact(purge=True).count()
        2
        """
        self._check_newest()
        purge = check_flag("purge", purge)
        result = changes.compact(self._service, self.name, purge=purge)
        return self._after(result)

    def _after(self, result: Result) -> RemoteTable:
        """Return the table as a change left it, whose value is the version."""
        return RemoteTable(
            self.name,
            self.client,
            version=result.value,
            created=False,
            request_id=result.request_id,
        )

    def _check_newest(self) -> None:
        if self._pinned:
            raise ValueError(
                f"version {self.version} of table {self.name!r} is read-only; change "
                f"rt.table({self.name!r}), or call restore() to make this version the "
                "newest"
            )

    @hide_traceback
    @by_keyword(cure=_DROP_COLUMNS)
    def drop(self) -> None:
        """Drop the table and all its rows; they cannot be recovered.

        Raises
        ------
        TableNotFoundError
            If the table does not exist.
        ValueError
            If the service cannot drop tables.
        RemoteError
            If the service refuses, cannot be reached, or does not respond.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> pl.DataFrame({"n": [1]}).remote.to_table("short_lived").drop()
        """
        self._check_newest()
        changes.drop(self._service, self.name)
        self._forget_schema()
        # another table of that name would count its versions from 1
        object.__setattr__(self, "_since", None)

    def _forget_schema(self) -> None:
        """Forget the columns of a table that may have been altered."""
        object.__setattr__(self, "_schema", None)

    @property
    def _service(self) -> Service:
        return service_of(self.client)

    def _facts(self) -> list[str]:
        """Return the known facts for the repr, without a request."""
        facts = []
        if self._schema is not None:
            facts.append(count(len(self._schema), "column"))
        if self.rows is not None:
            facts.append(count(self.rows, "row"))
        if self.updated is not None and self.inserted is not None:
            facts.append(f"{self.updated:,} updated")
            facts.append(f"{self.inserted:,} inserted")
        if self.deleted is not None:
            facts.append(f"{self.deleted:,} deleted")
        if self.nbytes:
            facts.append(f"{format_bytes(self.nbytes)} sent")
        if self.version is not None:
            facts.append(f"version {self.version}")
        if self._changed is not None:
            changes = describe_changes(self._changed)
            facts.append(list_some(changes, 4) or "nothing to alter")
        if not facts and self.created is False:
            facts.append("already existed")
        return facts

    @hide_traceback
    def alter_columns(self, alterations: Alterations) -> RemoteTable:
        """Change columns of the table in one request, all of them or none.

        Parameters and errors as in `rt_frames.alter_columns`.

        Examples
        --------
        >>> import rt_frames as rt
        >>> table = rt.connect(default=False).table("readings")
        >>> table.alter_columns({"path": "at", "rename": "time"}).version
        2
        """
        self._check_newest()
        plan = as_plan(alterations)
        service = self._service
        with errors.about(self.name):
            plan = alter.with_types(service, self.name, plan, self._since)
            alter.check_engine(service, self.name, plan)
        if not plan:
            unchanged = replace(self, _changed=plan)
            object.__setattr__(unchanged, "_since", self._since)
            return unchanged
        try:
            result = alter.send(service, self.name, plan)
        finally:
            # also after an error: the outcome may be unknown
            self._forget_schema()
        return RemoteTable(self.name, self.client, **vars(result), _changed=plan)

    @hide_traceback
    @by_keyword("pass a dict, such as {'old': 'new'}")
    def rename(self, columns: Mapping[str, str]) -> RemoteTable:
        """Rename columns in one request.

        Parameters
        ----------
        columns : dict of str to str
            New names by path, such as ``"outer.inner"`` inside a struct.

        Returns
        -------
        RemoteTable
            The table, with its new version.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).table("readings").rename({"at": "time"}).version
        2
        """
        return self.alter_columns(
            [Alteration(path, rename=name) for path, name in _items("columns", columns)]
        )

    @hide_traceback
    @by_keyword(bool="rewrite")
    def cast(self, dtypes: Mapping[str, Any], *, rewrite: bool = False) -> RemoteTable:
        """Change types, in one commit.

        Parameters
        ----------
        dtypes : dict of str to dtype
            New types by path; any dtype that `rt_frames.data_type` accepts.
        rewrite : bool, default False
            Whether to read all rows, cast them exactly and replace the table, as in
            `rt_frames.alter_table`, if the engine refuses a cast, or may change values
            by it. Without it, the engine casts as it does.

        Returns
        -------
        RemoteTable
            The table, with its new version.

        Raises
        ------
        AlterationError
            If the engine of a folder or of LanceDB's servers refuses the cast, or with
            ``rewrite=True`` no rewrite makes it; nothing was sent.
        BadRequest
            If another service refuses the cast, or a stored value does not fit; nothing
            was changed.
        UnsupportedTypeError
            If a value does not fit that is read to be rewritten; nothing was changed.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).table("readings").cast({"at": "int32"}).version
        2
        >>> rt.table("readings").cast({"at": "float64"}, rewrite=True).schema
        at: double
        """
        casts = [
            Alteration(path, data_type=dtype)
            for path, dtype in _items("dtypes", dtypes)
        ]
        if check_flag("rewrite", rewrite):
            return self._cast_exactly(casts)
        return self.alter_columns(casts)

    def _cast_exactly(self, casts: list[Alteration]) -> RemoteTable:
        """Cast columns that do not have the type yet, by a rewrite if it needs one."""
        self._check_newest()
        service = self._service
        service.dialect.path(QUERY, self.name)
        with errors.about(self.name):
            schema = self._describe().schema
            plan = as_plan(casts)
            if schema is not None:
                plan = alter.with_open_casts(self.name, plan, schema)
                if not alter.needs_rewrite(service, plan):
                    return self.alter_columns(plan)
            try:
                result = replace_columns(service, self.name, schema, plan)
            finally:
                self._forget_schema()
        return RemoteTable(self.name, self.client, **vars(result), _changed=plan)

    @hide_traceback
    @by_keyword("pass a dict, such as {'column': False}")
    def set_nullable(self, nullable: Mapping[str, bool]) -> RemoteTable:
        """Allow or forbid nulls in one request.

        Parameters
        ----------
        nullable : dict of str to bool
            Whether columns allow nulls, by path.

        Returns
        -------
        RemoteTable
            The table, with its new version.

        Raises
        ------
        BadRequest
            If a column to be made non-nullable contains nulls; nothing was changed.

        Examples
        --------
        >>> import rt_frames as rt
        >>> table = rt.connect(default=False).table("readings")
        >>> table.set_nullable({"at": False}).version
        2
        """
        return self.alter_columns(
            [
                Alteration(path, nullable=is_allowed)
                for path, is_allowed in _items("nullable", nullable)
            ]
        )


def listed_columns(schema: Iterable[pa.Field]) -> list[tuple[str, str, str]]:
    """Return the rows of a listing: names, types, and "no" where no null may be."""
    return [
        (column.name, type_text(column.type), "" if column.nullable else "no")
        for column in schema
    ]


def _check_zone(moment: datetime.date | str) -> datetime.datetime:
    if isinstance(moment, datetime.datetime) and moment.tzinfo is not None:
        return moment
    raise ValueError(
        f"version: {show_value(moment)} is no number, and no datetime with a zone; pass "
        "one, such as datetime(2024, 1, 31, tzinfo=UTC)"
    )


def _items(option: str, by_path: Mapping[str, T]) -> Iterable[tuple[str, T]]:
    if not isinstance(by_path, Mapping) or not by_path:
        raise TypeError(
            f"{option}: expected a dict, such as {{'column': …}}, got {show_value(by_path)}"
        )
    return by_path.items()
