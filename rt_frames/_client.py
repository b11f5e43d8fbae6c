"""Client and RemoteTable: the service's operations, each journey on one screen; a dialect has their addresses."""

from __future__ import annotations

import contextlib
import functools
import hmac
import json
import logging
import os
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import pyarrow as pa

from rt_frames import errors
from rt_frames._display import Listing, as_html, hide_frames
from rt_frames._frames.any_frame import open_source
from rt_frames._frames.compression import Compression, CompressionPolicy, LinkMemory, check_compression
from rt_frames._frames.ipc import MIME, IPCStream
from rt_frames._frames.rewrite import altered_schema, relabelled
from rt_frames._http.dialects import Dialect, parse_dialect
from rt_frames._http.options import (
    Key,
    hide_values,
    is_loopback,
    parse_base_url,
    parse_headers,
    parse_retries,
    parse_timeouts,
)
from rt_frames._http.parts import Parts
from rt_frames._http.response import Failure, parse_count, parse_no_rows, parse_schema, parse_version
from rt_frames._http.rows import Rows, check_where, query
from rt_frames._http.session import JSON, Request, Result, Session
from rt_frames._names import DialectName, check_table_name, did_you_mean, duplicates
from rt_frames._progress import Progress
from rt_frames._schema.alterations import Alteration, AlterationPlan, as_plan
from rt_frames._schema.casts import INSTEAD
from rt_frames._schema.data_type import to_schema
from rt_frames._text import Message, count, format_bytes, list_names, list_some, show_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pandas as pd
    import polars as pl

    from rt_frames._frames.source import Source
    from rt_frames._http.response import Hint, Hints, Response
    from rt_frames.errors import Operation

    Alterations = AlterationPlan | Alteration | Mapping[str, Any] | Iterable[Any]

log = logging.getLogger("rt_frames")

T = TypeVar("T")

IfExists = Literal["fail", "skip", "replace", "append"]
LIST_FIRST_ABOVE = 8 * 2**20  # bytes; before more is sent, one list shows whether address, key and name are right


class Client:
    """A connection to one project of the service; `rt_frames.connect` makes it.

    Parameters
    ----------
    url : str
        ``https://{database}.{region}.{domain}``, the form in the service's documentation.
    api_key : str
        Goes into the ``x-api-key`` header of every request, and shows nowhere else.
    timeout, retries, headers, verify, allow_insecure, dialect : optional
        As in `rt_frames.connect`.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it.

    Examples
    --------
    >>> import rt_frames as rt
    >>> with rt.Client("https://words-x1.us-east-1.example.com", api_key="made-up") as client:
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
        dialect: DialectName | Dialect = "documented",
    ) -> None:
        api_key = self._key = Key(api_key)
        headers = hide_values(headers)
        self._dialect = parse_dialect(dialect)
        self._options: dict[str, Any] = {
            "timeout": parse_timeouts(timeout),
            "retries": parse_retries(retries),
            "headers": parse_headers(headers),
            "verify": verify if isinstance(verify, bool) else os.fsdecode(verify),
        }
        base = parse_base_url(url, allow_insecure=allow_insecure)
        self._key.check()
        self._is_loopback = is_loopback(base)
        self._link: LinkMemory | None = LinkMemory()
        self._session = Session(base, self._dialect, self._key, **self._options)
        self._unusable = ""  # why, where it was unpickled without what it needs
        self.closed = False  # whether `close` was called: a default client is then forgotten

    @property
    def url(self) -> str:
        """The service's address.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect("https://words-x1.us-east-1.example.com/", api_key="made-up", default=False).url
        'https://words-x1.us-east-1.example.com'
        """
        return self._session.base

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return (
            f"Client({str(self)!r})" if "_session" in vars(self) else "Client(…)"
        )  # tracebacks show what is half made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        salt = os.urandom(16)
        options = {**self._options, "dialect": self._dialect, "allow_insecure": True}
        return _unpickle, (self.url, options, salt, self._key.fingerprint(salt))

    def close(self) -> None:
        """Close the connections; a call after that opens new ones.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).close()
        """
        self.closed = True
        self._session.close()

    def _open_session(self) -> Session:
        """Return the session; what keeps it from being used is said now that it is needed."""
        if self._unusable:
            raise errors.NotConnectedError(self._unusable)
        return self._session

    def _send_json(
        self, operation: Operation, name: str, content: Any, parse: Callable[[Response], Any], **about: Any
    ) -> Result:
        self._check_name(name)
        path, body = self._dialect.path(operation, name), json.dumps(content, allow_nan=False).encode()
        request = Request(operation, "POST", path, JSON, parse, table=name, body=[[body]], length=len(body), **about)
        return self._open_session().send(request)

    @hide_frames
    def table(self, name: str) -> RemoteTable:
        """Return a handle to an existing table; no request is made.

        Parameters
        ----------
        name : str
            The table's name.

        Returns
        -------
        RemoteTable
            A handle.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).table("readings").rename({"at": "time"}).version
        2
        """
        self._check_name(name)
        return RemoteTable(name, self)

    def _check_name(self, name: Any) -> None:
        check_table_name(name)
        self._dialect.check_name(name)

    def _describe(self, name: str) -> tuple[pa.Schema | None, int | None]:
        """Ask for a table's schema and version; None where such a service cannot describe tables, or does not tell."""
        if self._dialect.describe is None:
            return None, None
        # without that some servers leave the schema out
        asked = {"load_detailed_metadata": True}
        found = self._send_json("describe", name, asked, lambda answer: (_to_schema(answer), parse_version(answer)))
        schema, version = found.value
        return schema, version

    def _read(self, name: str, asked: Mapping[str, Any]) -> Rows:
        """Ask for rows, which are read as they come."""
        rows: Rows = self._send_json("query", name, asked, parse_no_rows, streams=asked).value
        return rows

    def _count(self, name: str, where: str | None, version: int | None = None) -> int:
        asked = {"version": version} if where is None else {"version": version, "predicate": check_where(where)}
        found: int = self._send_json("count_rows", name, asked, parse_count).value
        return found

    def _drop(self, name: str) -> None:
        self._check_name(name)
        path, start = self._dialect.path("drop", name), time.monotonic()
        request = Request("drop", "POST", path, JSON, parse_version, table=name, body=[[b""]], length=0)
        result = self._open_session().send(request)
        log.info("dropped table %s, %.0f ms, %s", name, (time.monotonic() - start) * 1000, result.request_id)

    @hide_frames
    def list_tables(self) -> list[str]:
        """List the names of the tables; parameters and errors as in `rt_frames.list_tables`.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).list_tables()
        ['readings']
        """
        return self._open_session().list_tables()

    @hide_frames
    def create_table(
        self,
        name: str,
        data: Any,
        *,
        dtypes: Mapping[str, Any] | None = None,
        index: bool | None = None,
        clean_names: bool = False,
        if_exists: IfExists = "fail",
        compression: Compression = "auto",
        progress: bool | None = None,
    ) -> RemoteTable:
        """Create a table from any frame; parameters and errors as in `rt_frames.to_table`.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> rt.connect(default=False).create_table("counted", pl.DataFrame({"n": [1, 2]})).rows
        2
        """
        self._check_name(name)
        self._dialect.check_if_exists(if_exists)
        check_compression(compression)
        table = self._find_table(name) if if_exists == "append" else None
        rows = data._reader() if isinstance(data, RemoteTable) else data  # noqa: SLF001  # whose errors stay ours so
        source = open_source(rows, dtypes=dtypes, index=index, clean_names=clean_names, table=table and table.schema)
        operation: Operation = "replace" if if_exists == "replace" else "append" if table else "create"
        request = Request(
            operation, "POST", self._dialect.path(operation, name), MIME, parse_version, table=name, rows=source.rows,
            nbytes=source.nbytes, replayable=source.replayable, used_up=isinstance(data, Iterator),
            may_be_there=if_exists == "skip", hints=_hints(self._dialect, compression),
            look=functools.partial(self._compare_versions, table) if table else None,
        )  # fmt: skip
        try:
            listed = None if table else self._check_name_is_free(request)
            if listed and request.may_be_there:
                return self._skip(request)
            return self._upload(request._replace(listed_before=listed), source, compression, progress)
        except errors.TableExistsError:
            if if_exists != "append" or not source.replayable:
                raise
        finally:
            source.close()
        return self.create_table(  # somebody else made it meanwhile
            name, data, dtypes=dtypes, index=index, clean_names=clean_names, if_exists=if_exists,
            compression=compression, progress=progress,
        )  # fmt: skip

    def _find_table(self, name: str) -> RemoteTable | None:
        """Look up what rows are to be added to; None where there is no such table, and it is made of them."""
        try:
            schema, version = self._describe(name)
        except errors.TableNotFoundError:
            return None
        if schema is None:
            raise ValueError(f"if_exists: the service does not tell the columns of table {name!r}, to append by name")
        return RemoteTable(name, self, schema, version=version)

    def _compare_versions(self, before: RemoteTable, failure: Failure) -> str:
        """Say what a write came to whose outcome is open, as far as versions and numbers of rows tell."""
        if not failure.is_open:
            return ""
        _, version = self._describe(before.name)
        rows, had = self._count(before.name, None), self._count(before.name, None, before.version)
        was = f"it had version {before.version} and {count(had, 'row')} before, and has {version} and {rows:,} now"
        if (version, rows) == (before.version, had):
            return f"{was}: nothing was added so far"
        return f"{was}: look whether the rows are there before you send them again"

    def _skip(self, request: Request) -> RemoteTable:
        """Return the table that is there; one without rows may be what an upload in parts left that was killed."""
        table = RemoteTable(str(request.table), self, created=False)
        if self._sends_parts and request.rows != 0 and not table.count():
            text = f"table {table.name!r} exists and is empty: an upload may have been killed; drop it, or append to it"
            raise request.error(Failure(errors.TableExistsError, text, {"attempts": 1}))
        log.info("skipped table %s, which is there already; nothing was stored", table.name)
        return table

    def _check_name_is_free(self, request: Request) -> bool | None:
        """List before much is sent: a wrong address, key or name costs one small request, not gigabytes."""
        if not request.may_be_there and request.nbytes is not None and request.nbytes <= LIST_FIRST_ABOVE:
            return None
        listed = request.table in self._open_session().list_tables(before=request)
        if listed and request.operation == "create" and not request.may_be_there:
            text = f"table {request.table!r} exists already; nothing was sent"
            raise request.error(Failure(errors.TableExistsError, text, {"attempts": 1}))
        return listed

    def _upload(self, request: Request, source: Source, compression: Compression, progress: bool | None) -> RemoteTable:
        policy = CompressionPolicy(compression, self._link, source.nbytes, is_loopback=self._is_loopback)
        stream, name, start = IPCStream(source, policy), str(request.table), time.monotonic()
        with Progress(progress, stream.length, name) as bar:
            request = request._replace(
                body=stream, length=stream.length, on_sent=lambda sent: bar.update(sent, stream.rows)
            )
            if self._sends_parts and (source.nbytes is None or source.nbytes > (self._dialect.part_bytes or 0)):
                result = self._send_in_parts(request, source, stream)
            else:
                result = self._open_session().send(request)
        if not result.created:
            return self._skip(request)
        size = f"{count(stream.rows, 'row')}, {count(len(source.schema), 'column')}, {result.sent} bytes"
        ms = (time.monotonic() - start) * 1000
        done = "appended to" if request.operation == "append" else f"{request.operation}d"
        log.info("%s table %s, %s, %.0f ms, %s", done, name, size, ms, result.request_id)
        schema = None if request.operation == "append" else source.schema
        facts = (schema, stream.rows, result.sent, result.value)
        return RemoteTable(name, self, *facts, created=schema is not None, request_id=result.request_id)

    @property
    def _sends_parts(self) -> bool:
        return self._session.takes_parts and self._dialect.part_bytes is not None

    def _send_in_parts(self, request: Request, source: Source, stream: IPCStream) -> Result:
        """Send what is too large for one request; where there is no table yet, an empty one is made first."""
        session, name, made = self._open_session(), str(request.table), None
        if request.operation == "create" or request.listed_before is False:
            empty = IPCStream(source.without_rows(), CompressionPolicy(None, None, 0))
            path = self._dialect.path("create", name)
            result = session.send(
                request._replace(path=path, operation="create", body=empty, length=empty.length, on_sent=None)
            )
            if not result.created:
                return result
            made = RemoteTable(name, self, version=result.value)
        before = made or RemoteTable(name, self, version=self._describe(name)[1])
        parts = Parts(request, self._dialect, lambda: stream.parts(self._dialect.part_bytes))
        end = functools.cache(functools.partial(self._end_parts, parts, made))
        look = functools.partial(self._look_at_parts, parts, before, end)
        try:
            return session.send(request._replace(attempt=parts.attempt, look=look))
        except BaseException:
            end()  # where nobody looked: at an exception of the source, or Ctrl-C
            raise

    def _look_at_parts(self, parts: Parts, before: RemoteTable, end: Callable[[], str], failure: Failure) -> str:
        return (parts.completing and self._compare_versions(before, failure)) or end()

    def _end_parts(self, parts: Parts, made: RemoteTable | None) -> str:
        """Say that nothing is stored; an empty table that was made for it goes, where nobody has changed it."""
        if made is None:
            return "nothing of it is stored"
        kept = f"nothing of it is stored, and table {made.name!r} is there without rows; drop it, or append to it"
        with contextlib.suppress(Exception):
            if parts.completing or self._describe(made.name)[1] != made.version or made.version is None:
                return kept
            self._drop(made.name)
            return "nothing of it is stored"
        return kept

    def _rewrite(self, table: RemoteTable, plan: AlterationPlan) -> RemoteTable:
        """Read a table, cast its rows exactly, and replace them in one commit, if nobody else wrote meanwhile."""
        name, schema, seen = table.name, table.schema, list[int | None]()
        self._dialect.path("multipart_create", name)
        if schema is None or not self._session.takes_parts:
            raise ValueError(f"rewrite: the service of table {name!r} does not tell that it takes writes in parts")
        renamed, casts = altered_schema(schema, plan)

        def check(known: pa.Schema, version: int | None) -> None:
            if (known, version) != (schema, *(seen or [version])):
                text = f"could not rewrite table {name!r}: somebody else wrote to it meanwhile; nothing was changed"
                raise errors.ConflictError(text, table=name)

        def rows() -> Iterator[pa.RecordBatch]:  # read once the write has begun, as they are then
            known, version = self._describe(name)
            check(known, version)
            seen.append(version)
            found = self._read(name, {**query(), "version": version})
            check(found.schema, version)
            yield from relabelled(found, renamed)

        def bodies() -> Generator[Any]:
            yield from stream.parts(self._dialect.part_bytes)
            check(*self._describe(name))  # not every service does so itself

        source = open_source(pa.RecordBatchReader.from_batches(renamed, rows()), dtypes=casts, exact=True)
        stream = IPCStream(source, CompressionPolicy("auto", self._link, is_loopback=self._is_loopback))
        request = Request("alter", "POST", "", MIME, parse_version, table=name, replayable=False)
        parts = Parts(request, self._dialect, bodies)
        look = functools.partial(self._look_at_parts, parts, table, lambda: "nothing was changed")
        try:
            result = self._open_session().send(request._replace(attempt=parts.attempt, look=look))
        finally:
            source.close()
        log.info("rewrote table %s, %s, %s", name, count(stream.rows, "row"), result.request_id)
        facts = {"version": result.value, "created": False, "request_id": result.request_id}
        return RemoteTable(name, self, rows=stream.rows, nbytes=result.sent, **facts, _changed=plan)

    @hide_frames
    def alter_columns(self, name: str, alterations: Alterations) -> RemoteTable:
        """Change columns of a table in one request; parameters and errors as in `rt_frames.alter_columns`.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).alter_columns("readings", rt.Alteration("at", data_type="int32")).version
        2
        """
        plan = as_plan(alterations)
        if not plan:
            return replace(self.table(name), _changed=plan)
        several = isinstance(alterations, AlterationPlan) and len(plan.requests()) > 1
        each = f"plan_alterations(…).requests() gives two; send each of them with rt.alter_columns({name!r}, …)"
        hints: Hints = {errors.BadRequest: (each, {})} if several else {}
        start = time.monotonic()
        result = self._send_json("alter", name, plan.to_json(), parse_version, hints=hints)
        log.info("altered table %s, %.0f ms, %s", name, (time.monotonic() - start) * 1000, result.request_id)
        facts = {"version": result.value, "created": False, "request_id": result.request_id}
        return RemoteTable(name, self, **facts, _changed=plan)


def _hints(dialect: Dialect, compression: Compression) -> Hints:
    """Return what a caller can do about errors of a create."""
    taken = "choose another name, or {} to leave the table as it is"
    if dialect.replace:
        taken += ', or "replace", which replaces all its rows by these'
    hints: dict[type[errors.RemoteError], Hint] = {errors.TableExistsError: (taken, {"if_exists": "skip"})}
    if compression != "zstd":
        hints[errors.PayloadTooLarge] = "{} makes it smaller", {"compression": "zstd"}
    return hints


def _to_schema(response: Response) -> pa.Schema | None:
    """Read the schema in a table's description; None where the service does not tell it."""
    if (found := parse_schema(response)) is None:
        return None
    try:
        schema = to_schema(found)
    except (ValueError, errors.UnsupportedTypeError) as error:
        raise ValueError(f"the description of its columns is not understood: {error}") from None
    if twice := duplicates(schema.names):
        raise ValueError(f"the description of its columns names {list_names(twice)} twice")
    return schema


def _unpickle(url: str, options: dict[str, Any], salt: bytes, fingerprint: bytes) -> Client:
    """Make a client again in another process, whose environment must hold the same key: keys are not pickled.

    What is missing there is told when the client is used: pools do not survive an error before that.
    """
    key, problem = Key(os.environ.get("RT_FRAMES_API_KEY")), ""
    if not key:
        problem = "keys are not pickled; set RT_FRAMES_API_KEY in this process too"
    elif not hmac.compare_digest(key.fingerprint(salt), fingerprint):
        problem = (
            "RT_FRAMES_API_KEY holds another key than the one it was made with; set the variable to that key, or call "
            "rt_frames.connect(..., api_key=...) in this process"
        )
    try:
        client = Client(url, api_key="none" if problem else key, **options)
    except ValueError as error:  # of a CA bundle that is not here
        problem, client = problem or str(error), Client(url, api_key="none", **{**options, "verify": False})
    client._unusable = problem and f"a client of {url} was unpickled, and {problem}"  # noqa: SLF001  # same package
    return client


@dataclass(frozen=True)
class RemoteTable:
    """A table of the service, and what is known about it here.

    Parameters
    ----------
    name : str
        The table's name.
    client : Client
        The service that it lives in.
    _schema : pyarrow.Schema or None
        What is known of its columns; ``schema`` gives that, or asks.
    rows, nbytes : int or None
        Rows, and bytes of the request's body, that were sent.
    version : int or None
        The table's version, where the service tells it.
    created : bool or None
        True after creating it, False where it was there already, None where nobody asked.
    request_id : str or None
        The ``x-request-id`` of the request that this object comes from.
    _changed : AlterationPlan or None
        What was altered, for those who look at the table.

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
    _schema: pa.Schema | None = field(default=None, compare=False)
    rows: int | None = None
    nbytes: int | None = None
    version: int | None = None
    created: bool | None = None
    request_id: str | None = None
    _changed: AlterationPlan | None = field(default=None, compare=False)

    @property
    @hide_frames
    def schema(self) -> pa.Schema | None:
        """The columns: what was sent, or else what the service says, which is asked once; None where it cannot.

        After altering it is asked for anew.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.table("readings").schema
        at: int64
        """
        if self._schema is None:
            object.__setattr__(self, "_schema", self.client._describe(self.name)[0])  # noqa: SLF001  # same package
        return self._schema

    def __repr__(self) -> str:
        return f"RemoteTable({', '.join([repr(self.name), *self._facts()])}, at {self.client})"

    def _repr_html_(self) -> str:
        fields = [(f.name, str(f.type), "" if f.nullable else "no") for f in self._schema or ()]
        title = f"Remote table {self.name}: {', '.join(self._facts())}".removesuffix(": ")
        request = f", request {self.request_id}" if self.request_id is not None else ""
        return as_html(Listing(title, ("column", "type", "nullable"), fields, [f"at {self.client}{request}"]))

    @hide_frames
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Offer all rows to whatever reads Arrow: ``polars.DataFrame(table)``, ``pyarrow.table(table)``, DuckDB."""
        return self._reader().__arrow_c_stream__(requested_schema)

    def _reader(
        self, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """Ask for rows, which come as the reader is read; where it is let go, the connection is closed."""
        asked = query(columns, where, limit)
        if limit == 0 and self.schema is not None:  # to a server, 0 may mean no limit
            names = columns or self.schema.names
            if unknown := [name for name in names if name not in self.schema.names]:
                raise ValueError(f"columns: {did_you_mean(unknown[0], self.schema.names)} there is no {unknown[0]!r}")
            return pa.RecordBatchReader.from_batches(pa.schema([self.schema.field(name) for name in names]), [])
        rows = self.client._read(self.name, asked)  # noqa: SLF001  # same package
        return pa.RecordBatchReader.from_batches(rows.schema, iter(rows))

    @hide_frames
    def to_arrow(
        self, *, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pa.Table:
        """Read rows into a `pyarrow.Table`.

        Parameters
        ----------
        columns : list of str, optional
            Columns to read, in this order. Defaults to all.
        where : str, optional
            An SQL condition for rows, in the words of the service's engine; never build one from input.
        limit : int, optional
            Rows to read at most.

        Returns
        -------
        pyarrow.Table
            The rows, in the types that the table has.

        Raises
        ------
        ValueError
            If an argument cannot be used, or the service documents no way to read rows back.
        RemoteError
            If the service refuses or cannot be reached, or its answer is not whole.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.table("readings").to_arrow(where="at > 1", limit=10).column_names
        ['at']
        """
        return self._reader(columns, where, limit).read_all()

    @hide_frames
    def to_pandas(
        self, *, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Read rows into a pandas frame; whole numbers and booleans with nulls are ``Int64`` … and ``boolean``.

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

    @hide_frames
    def to_polars(
        self, *, columns: Sequence[str] | None = None, where: str | None = None, limit: int | None = None
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

    @hide_frames
    def count(self, where: str | None = None) -> int:
        """Count the rows.

        Parameters
        ----------
        where : str, optional
            A condition, as in `to_arrow`.

        Returns
        -------
        int
            Rows that there are now.

        Raises
        ------
        ValueError, RemoteError
            As in `to_arrow`.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.table("readings").count("at > 0")
        2
        """
        return self.client._count(self.name, where)  # noqa: SLF001  # same package

    @hide_frames
    def drop(self) -> None:
        """Drop the table and all its rows, which nothing brings back.

        Raises
        ------
        TableNotFoundError
            If there is no such table.
        ValueError
            If the service documents no way to drop a table.
        RemoteError
            If the service refuses or cannot be reached; where no answer came, the error says so.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> pl.DataFrame({"n": [1]}).remote.to_table("short_lived").drop()
        """
        self.client._drop(self.name)  # noqa: SLF001  # same package
        self._forget_schema()

    def _instead(self) -> Message:
        """Say what can be done where the engine refuses a cast."""
        client = self.client
        if not client._dialect.multipart_create:  # noqa: SLF001  # same package
            return Message(f"the service can neither read rows back nor replace a table, so {INSTEAD}")
        if not client._session.takes_parts:  # noqa: SLF001  # same package
            return Message(f"the service takes no writes in parts, which a rewrite needs, so {INSTEAD}")
        rows = "rows"
        with contextlib.suppress(errors.RemoteError):  # which must not hide the refusal
            rows = count(self.count(), "row")
        return Message(f"all {rows} can be read, cast exactly and replaced", "pass {}", rewrite=True)

    def _facts(self) -> list[str]:
        return [*known_facts(self)] or ["was there already"] * (self.created is False)

    @hide_frames
    def alter_columns(self, alterations: Alterations) -> RemoteTable:
        """Change columns in one request, and return the table; parameters and errors as in `rt_frames.alter_columns`.

        Examples
        --------
        >>> import rt_frames as rt
        >>> table = rt.connect(default=False).table("readings")
        >>> table.alter_columns({"path": "at", "rename": "time"}).version
        2
        """
        try:
            altered = self.client.alter_columns(self.name, alterations)
        except (errors.OutcomeUnknown, errors.ServerError):
            self._forget_schema()
            raise
        if not altered._changed:  # noqa: SLF001  # same package
            return replace(self, _changed=altered._changed)  # noqa: SLF001  # same package
        self._forget_schema()
        return altered

    def _forget_schema(self) -> None:
        object.__setattr__(self, "_schema", None)

    @hide_frames
    def rename(self, columns: Mapping[str, str]) -> RemoteTable:
        """Rename columns in one request.

        Parameters
        ----------
        columns : dict of str to str
            New names by path; inside a struct ``"outer.inner"``.

        Returns
        -------
        RemoteTable
            The table, for the next call of a chain.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).table("readings").rename({"at": "time"}).version
        2
        """
        return self.alter_columns([Alteration(path, rename=name) for path, name in _items("columns", columns)])

    @hide_frames
    def cast(self, dtypes: Mapping[str, Any]) -> RemoteTable:
        """Change types in one request.

        Parameters
        ----------
        dtypes : dict of str to dtype
            New types by path; any dtype that `rt_frames.data_type` takes.

        Returns
        -------
        RemoteTable
            The table, for the next call of a chain.

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
        return self.alter_columns([Alteration(path, data_type=dtype) for path, dtype in _items("dtypes", dtypes)])

    @hide_frames
    def set_nullable(self, nullable: Mapping[str, bool]) -> RemoteTable:
        """Allow or forbid nulls in one request.

        Parameters
        ----------
        nullable : dict of str to bool
            Whether there may be nulls, by path.

        Returns
        -------
        RemoteTable
            The table, for the next call of a chain.

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
        return self.alter_columns([Alteration(path, nullable=may) for path, may in _items("nullable", nullable)])


def known_facts(table: RemoteTable) -> Iterator[str]:
    """Say what is known of a table, without asking its service."""
    if table._schema is not None:  # noqa: SLF001  # same package
        yield count(len(table._schema), "column")  # noqa: SLF001  # same package
    if table.rows is not None:
        yield count(table.rows, "row")
    if table.nbytes:
        yield f"{format_bytes(table.nbytes)} sent"
    if table.version is not None:
        yield f"version {table.version}"
    if table._changed is not None:  # noqa: SLF001  # same package
        yield list_some([*map(str, table._changed)], 4) or "nothing to alter"  # noqa: SLF001  # same package


def _items(option: str, asked: Mapping[str, T]) -> Iterable[tuple[str, T]]:
    if not isinstance(asked, Mapping) or not asked:
        raise TypeError(f"{option}: expected a dict by path, such as {{'outer.inner': …}}, got {show_value(asked)}")
    return asked.items()
