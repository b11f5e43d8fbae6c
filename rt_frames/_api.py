"""The functions of the package, and the default client that they use.

The environment can configure it: ``RT_FRAMES_URL``, or ``_DB``, ``_REGION`` and ``_DOMAIN``; ``RT_FRAMES_API_KEY``; and
``RT_FRAMES_DIALECT``. ``__all__`` is the list of public names; the package loads them on first use.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rt_frames import errors
from rt_frames._client import Client, RemoteTable, client_of
from rt_frames._display import hide_frames
from rt_frames._frames.any_frame import arrow_schemas
from rt_frames._http.dialects import FOLDER, parse_dialect
from rt_frames._http.options import Key, Secret, hide_values
from rt_frames._names import check_order
from rt_frames._schema.alterations import Alteration, AlterationPlan, check_values_kept
from rt_frames._schema.any_dtype import data_type
from rt_frames._schema.compare import check_no_cycle, plan
from rt_frames._schema.data_type import arrow_type
from rt_frames._service import Service
from rt_frames._text import Message, list_some, show_value
from rt_frames._writes import IfExists

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rt_frames._client import Alterations
    from rt_frames._frames.compression import Compression
    from rt_frames._http.session import Session
    from rt_frames._names import DialectName
    from rt_frames.local import LocalService

_default_client: Client | None = None
_default_settings: dict[str, Secret] | None = None  # the environment that described the default client

__all__ = [
    "Alteration",
    "AlterationPlan",
    "Client",
    "RemoteTable",
    "alter_columns",
    "alter_table",
    "arrow_type",
    "connect",
    "data_type",
    "disconnect",
    "list_tables",
    "plan_alterations",
    "table",
    "to_table",
]


def connect(
    target: str | os.PathLike[str] | None = None,
    *,
    api_key: str | None = None,
    region: str | None = None,
    domain: str | None = None,
    timeout: float | tuple[float, float, float] | None = None,
    retries: int = 2,
    headers: Mapping[str, str] | None = None,
    verify: bool | str | os.PathLike[str] = True,
    allow_insecure: bool = False,
    dialect: DialectName | None = None,
    default: bool = True,
) -> Client:
    """Choose the service. No request is made.

    Parameters
    ----------
    target : str or path, optional
        A base URL that begins with ``https://``; a database's name, with ``region`` and ``domain``; or a folder for the
        embedded service, created if missing: a path, or a string that begins with ``./``, ``../``, ``/`` or ``~``.
        Defaults to the environment.
    api_key : str, optional
        The project's key. Defaults to ``RT_FRAMES_API_KEY``; a folder needs none.
    region, domain : str, optional
        Parts of ``https://{target}.{region}.{domain}``, the form that the service documents.
    timeout : float or tuple of float, optional
        Seconds: one number, or ``(connect, write, read)`` for connecting, for sending each piece of the body, and for
        receiving the whole response, or each piece of rows. Defaults to ``(10, 60, 300)``.
    retries : int, default 2
        How many times to repeat a request that cannot take effect twice.
    headers : dict of str to str, optional
        Additional headers for every request. Their values are secrets, except those of ``x-lancedb-…`` headers.
    verify : bool or path, default True
        Whether to check the server's certificate; a path names the CA bundle. True uses the first of
        ``REQUESTS_CA_BUNDLE``, ``CURL_CA_BUNDLE``, ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``, otherwise certifi's.
    allow_insecure : bool, default False
        Allow plain ``http`` to another machine, where anybody on the network can read the key.
    dialect : {"documented", "lancedb"}, optional
        The endpoints of the server: those in the service's documentation, or those of LanceDB's servers, which can also
        describe, read, append to, replace and drop tables. Defaults to ``RT_FRAMES_DIALECT``, or else "documented". A
        folder supports all of it.
    default : bool, default True
        Make this the client of ``df.remote`` and of the package's functions.

    Returns
    -------
    Client
        A client that has made no request yet.

    Raises
    ------
    NotConnectedError
        If no service is configured, or a URL has no key.
    ValueError
        If an argument cannot be used.

    Examples
    --------
    >>> import rt_frames as rt
    >>> rt.connect("https://words-x1.us-east-1.example.com", api_key="k-123", default=False)
    Client('https://words-x1.us-east-1.example.com')
    """
    __tracebackhide__ = True
    api_key, headers = None if api_key is None else Key(api_key), hide_values(headers)
    options: dict[str, Any] = {"timeout": timeout, "retries": retries, "headers": headers, "verify": verify}
    client = _make_client(target, api_key, region, domain, dialect, allow_insecure, options)
    if default:
        global _default_client, _default_settings
        _default_client, _default_settings = client, None
    return client


@hide_frames
def _make_client(
    target: Any, api_key: Key | None, region: str | None, domain: str | None, dialect: str | None,
    allow_insecure: bool, options: dict[str, Any],
) -> Client:  # fmt: skip
    where = parse_target(target, region, domain)
    spoken = parse_dialect(dialect if dialect is not None else os.environ.get("RT_FRAMES_DIALECT") or "documented")
    if isinstance(where, Path):
        if api_key is not None:
            raise ValueError("api_key: the embedded service of a folder has its own; leave the option out")
        return client_of(FolderService(where, dialect=FOLDER, **options))
    if api_key is None and not (api_key := Key(os.environ.get("RT_FRAMES_API_KEY"))):
        text = f"no API key for {where.rpartition('@')[2]:.100}"
        raise errors.NotConnectedError(Message(text, "give {}, or set RT_FRAMES_API_KEY", api_key="…"))
    return Client(where, api_key=api_key, allow_insecure=allow_insecure, dialect=spoken, **options)


def disconnect() -> None:
    """Close the default client and forget it; the next call reads the environment again.

    Examples
    --------
    >>> import rt_frames as rt
    >>> rt.disconnect()
    """
    global _default_client
    if _default_client is not None:
        _default_client.close()
    _default_client = None


def _resolve(client: Client | None) -> Client:
    """Return the client that was asked for, that of the last `connect`, or one that the environment describes."""
    __tracebackhide__ = True
    if client is not None:
        if not isinstance(client, Client):
            raise TypeError(f"client: expected what rt.connect(..., default=False) gives, got {show_value(client)}")
        return client
    global _default_settings
    settings = {name: Secret(value) for name, value in os.environ.items() if name.startswith("RT_FRAMES_")}
    found = _default_client
    if found is None or found._closed or _default_settings not in (None, settings):  # noqa: SLF001  # same package
        found, _default_settings = connect(), settings
    return found


def to_table(
    data: Any,
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
    """Create a remote table from any frame.

    Parameters
    ----------
    data : frame
        pandas, Polars or Dask DataFrame, Polars LazyFrame, pyarrow Table, RecordBatch, RecordBatchReader or Dataset,
        any object with ``__arrow_c_stream__``, or a list or iterator of frames or record batches of one schema. It
        is never changed.
    name : str
        The new table's name; it cannot contain a slash or a backslash.
    client : Client, optional
        Where to create it. Defaults to the client of the last `connect`.
    dtypes : dict of str to dtype, optional
        Columns to cast before sending, by their names in the table; any dtype that `data_type` takes. Struct fields
        are matched by name. A value that the type cannot hold exactly is refused, with column and row; only the
        fractions of floats are rounded.
    index : bool, optional
        pandas only. None keeps the index as columns, named as ``reset_index`` would name them, but drops an unnamed
        integer index. True keeps any index; False drops it.
    clean_names : bool, default False
        Whether to turn labels that a table cannot have into valid names: numbers and dates become text, the levels of
        a MultiIndex are joined with ``_``, dots, backticks and control characters become ``_``, and duplicates are
        numbered. The table's ``schema`` shows the result.
    if_exists : {"fail", "skip", "replace", "append"}, default "fail"
        What to do if the name is taken: "fail" raises; "skip" sends nothing and returns the existing table, with
        ``created=False``; "replace" replaces all its rows; "append" adds rows to it. The last two are all or nothing,
        and need a folder or ``dialect="lancedb"``. Appended columns are matched by name: those that the frame lacks
        become null, types are cast within a family (numbers; text and categories; dates and times), and a value that
        does not fit exactly is refused with its row.
    compression : {"auto", "lz4", "zstd", None}, default "auto"
        Codec of the Arrow IPC buffers. "auto" chooses for each batch; None sends them uncompressed.
    progress : bool, optional
        Whether to show a progress bar. None shows one in a terminal or notebook, after two seconds.

    Returns
    -------
    RemoteTable
        A handle, with what was sent and what the service answered.

    Raises
    ------
    ValueError, TypeError
        If an argument or a column's name cannot be used; nothing was sent.
    UnsupportedTypeError
        If a column's type, or a value in it, cannot be sent; nothing was stored. A stream may raise it late.
    TableExistsError
        If the name is taken.
    UploadInterrupted, OutcomeUnknown
        If the connection failed during the request; the message says what is certain and what is not.
    RemoteError
        For every other failure; `rt_frames.errors` shows the tree.

    Examples
    --------
    >>> import pandas as pd
    >>> import rt_frames as rt
    >>> table = rt.to_table(pd.DataFrame({"word": ["a", "b"], "n": [1, 2]}), "words")
    >>> table.rows
    2
    """
    __tracebackhide__ = True
    check_order(data, name, "rt.to_table(df, {})")
    return _resolve(client).create_table(
        name,
        data,
        dtypes=dtypes,
        index=index,
        clean_names=clean_names,
        if_exists=if_exists,
        compression=compression,
        progress=progress,
    )


def table(name: str, *, client: Client | None = None) -> RemoteTable:
    """Return a handle to an existing table; no request is made.

    Parameters
    ----------
    name : str
        The table's name.
    client : Client, optional
        Defaults to the client of the last `connect`.

    Returns
    -------
    RemoteTable
        A handle, whose ``schema`` asks the service, if it can describe a table.

    Raises
    ------
    ValueError, TypeError
        If the name is not valid for a table.

    Examples
    --------
    >>> import rt_frames as rt
    >>> rt.table("readings").schema
    at: int64
    """
    __tracebackhide__ = True
    return _resolve(client).table(name)


def list_tables(*, client: Client | None = None) -> list[str]:
    """List the names of the project's tables.

    Parameters
    ----------
    client : Client, optional
        Defaults to the client of the last `connect`.

    Returns
    -------
    list of str
        In the order in which the service gives them.

    Raises
    ------
    RemoteError
        If the service cannot be reached, refuses the key, or sends an unexpected response.

    Examples
    --------
    >>> import rt_frames as rt
    >>> "flights" in rt.list_tables()
    False
    """
    __tracebackhide__ = True
    return _resolve(client).list_tables()


@hide_frames
def plan_alterations(
    before: Any,
    after: Any,
    *,
    rename: Mapping[str, str] | None = None,
    nullable: Mapping[str, bool] | None = None,
    strict: bool = True,
    dtypes: Mapping[str, Any] | None = None,
    index: bool | None = None,
    clean_names: bool = False,
) -> AlterationPlan:
    """Plan the changes that give a table made from ``before`` the columns of ``after``.

    Nothing is sent. The plan marks casts that the engine refuses, and those that may change stored values.

    Parameters
    ----------
    before, after : frame, pyarrow.Schema, polars.Schema, dict of str to dtype, or RemoteTable
        What the table was created from, or the table itself where the service can describe it, and what its columns
        should become. No rows are read; a source that can be read only once, such as a generator or reader, is
        refused. ``before`` can also be the path (`os.PathLike`) of a file with the bytes of `pyarrow.Schema.serialize`.
    rename : dict of str to str, optional
        Renamed columns, by their paths in ``before``, such as ``"outer.inner"`` inside a struct. Columns are compared
        by name: without it, two columns of one type that swapped names show no change. For a stored table, a rename
        counts as done if the old name is gone and the new one exists; a swap never does.
    nullable : dict of str to bool, optional
        Columns to allow or forbid nulls in, by old or new name. Two schemas state it themselves.
    strict : bool, default True
        Whether a column on one side only is an error. The service can neither add nor drop columns.
    dtypes : dict of str to dtype, optional
        Types of columns of ``after``, as in `to_table`.
    index : bool, optional
        As in `to_table`, for the pandas frames of both sides.
    clean_names : bool, default False
        As in `to_table`, for both sides.

    Returns
    -------
    AlterationPlan
        The changes, in the order of ``before``; falsy when there are none.

    Raises
    ------
    AlterationError
        If the schemas do not match; the message names the columns and shows a call that would work.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames as rt
    >>> before = pl.DataFrame({"n": [1, 2]})
    >>> rt.plan_alterations(before, before.cast(pl.Int32)).to_json()
    {'alterations': [{'path': 'n', 'data_type': {'type': 'int32'}}]}
    """
    stored = [side for side, data in (("before", before), ("after", after)) if isinstance(data, RemoteTable)]
    before, after = _known_schema("before", before), _known_schema("after", after)
    return plan(
        *arrow_schemas(before, after, dtypes=dtypes, index=index, clean_names=clean_names, stored=stored),
        rename=rename,
        nullable=nullable,
        strict=strict,
        stored="before" in stored,
        compare_nullability=isinstance(before, pa.Schema) and isinstance(after, pa.Schema),
    )


def _known_schema(side: str, data: Any) -> Any:
    """Return the schema of a table, or that in a file; anything else as it is."""
    if isinstance(data, os.PathLike) and side == "before":
        try:
            return pa.ipc.read_schema(pa.py_buffer(Path(data).read_bytes()))
        except pa.ArrowException as error:
            text = f"before: {data} holds no schema; keep one with Path(…).write_bytes(df.remote.schema.serialize())"
            raise ValueError(text) from error
    if not isinstance(data, RemoteTable):
        return data
    if data.schema is None:
        raise ValueError(
            f"{side}: the columns of table {data.name!r} are not known here, and its service does not describe tables; "
            "either pass what it was created from, a frame or a schema that was kept (df.remote.schema gives it):\n"
            f"    df.remote.alter_table({data.name!r}, before)\n"
            "or, where the server speaks that, use a dialect that can describe a table:\n"
            '    rt.connect(…, dialect="lancedb")'
        )
    return data.schema


@hide_frames
def alter_table(
    data: Any,
    name: str,
    before: Any = None,
    *,
    rename: Mapping[str, str] | None = None,
    nullable: Mapping[str, bool] | None = None,
    strict: bool = True,
    lossy: bool = False,
    rewrite: bool = False,
    dtypes: Mapping[str, Any] | None = None,
    index: bool | None = None,
    clean_names: bool = False,
    client: Client | None = None,
) -> RemoteTable:
    """Alter a table so that its columns become those of this frame.

    Where the service can describe the table, changes that are made already are left out: a second call does nothing.

    Parameters
    ----------
    data : frame
        A frame or schema, as in `plan_alterations`.
    name : str
        The table.
    before : frame, pyarrow.Schema, polars.Schema, dict of str to dtype, path, or RemoteTable, optional
        What the table was created from, as in `plan_alterations`. None asks the service, if it can describe tables.
    rename, nullable, strict : optional
        As in `plan_alterations`.
    lossy : bool, default False
        Whether casts may change stored values: round, truncate or shift them, or make them infinite.
    rewrite : bool, default False
        Whether to do all of it in one commit, by reading all rows, casting them exactly and replacing them; also what
        the engine refuses, or what may change values. A value that does not fit is refused with its row. Indices are
        dropped, with a warning, and nobody else may write to the table meanwhile, which the embedded service ensures.
        Needs a folder, or ``dialect="lancedb"`` and a server that takes multipart writes.
    dtypes, index, clean_names : optional
        As in `plan_alterations`.
    client : Client, optional
        Where the table is. Defaults to the client of the last `connect`.

    Returns
    -------
    RemoteTable
        The table, with its new version; its repr shows what changed.

    Raises
    ------
    AlterationError
        If the schemas do not match, the table matches neither of them, the engine refuses a cast, or stored values may
        change without ``lossy=True``; nothing was sent.
    ValueError
        If ``before`` is not given and the service cannot tell.
    RemoteError
        If the service refuses or cannot be reached, as in `alter_columns`.

    Examples
    --------
    >>> import polars as pl
    >>> before = pl.DataFrame({"n": [1, 2]})
    >>> _ = before.remote.to_table("counts")
    >>> before.cast(pl.Int32).remote.alter_table("counts")
    RemoteTable('counts', version 2, n: int64 to int32, at tables)
    """
    check_order(data, name, "rt.alter_table(df, {})")
    if rewrite and lossy:
        raise ValueError("rewrite, lossy: a rewrite casts exactly; pass only one of them")
    options: dict[str, Any] = {"rename": rename, "nullable": nullable, "strict": strict}
    options |= {"dtypes": dtypes, "index": index, "clean_names": clean_names}
    with errors.about(name):
        return _alter_table(_resolve(client).table(name), data, before, options, lossy=lossy, rewrite=rewrite)


def _alter_table(
    asked: RemoteTable, data: Any, before: Any, options: dict[str, Any], *, lossy: bool, rewrite: bool
) -> RemoteTable:
    found = plan_alterations(asked if before is None else before, data, **options)
    check_no_cycle(options["rename"] or {})
    if before is not None and asked.schema is not None:
        found = _check_state(asked.name, found, plan_alterations(asked, data, **options))
    if rewrite and found:
        altered = asked._rewrite(found)  # noqa: SLF001  # same package
    else:
        check_values_kept(found, lossy=lossy, instead=asked._instead)  # noqa: SLF001  # same package
        altered = asked.alter_columns(found)
    if isinstance(before, RemoteTable):
        before._forget_schema()  # noqa: SLF001  # same package
    return altered


def _check_state(name: str, found: AlterationPlan, left: AlterationPlan) -> AlterationPlan:
    """Return what is left to do, if all of it is a part of what was found between before and after."""
    known = {one.path: one for one in found}
    if strange := [str(one) for one in left if not _is_part(one, known.get(one.path))]:
        raise errors.AlterationError(
            f"table {name!r} matches neither before nor after (from after it differs by {list_some(strange)}); nothing "
            "was sent; leave before out to alter what is there"
        )
    return left


def _is_part(one: Alteration, whole: Alteration | None) -> bool:
    """Return whether a change is the same as another one, or as some of it, of a column of the same type."""
    if whole is None or not one.to_json().items() <= whole.to_json().items():
        return False
    return one.data_type is None or bool(one.before == whole.before)


def alter_columns(name: str, alterations: Alterations, *, client: Client | None = None) -> RemoteTable:
    """Change columns of a table in one request, all of them or none.

    Parameters
    ----------
    name : str
        The table.
    alterations : AlterationPlan, or iterable of Alteration or dict
        The changes; a dict has the service's form, as in ``plan.to_json()``. An empty plan is not sent.
    client : Client, optional
        Defaults to the client of the last `connect`.

    Returns
    -------
    RemoteTable
        The table, with its new version.

    Raises
    ------
    ValueError
        If ``alterations`` is an empty list, or one of them changes nothing or is malformed.
    BadRequest
        If the service refuses, with the column and both types; nothing was changed.
    TableNotFoundError
        If there is no such table.
    RemoteError
        For every other failure; `rt_frames.errors` shows the tree.

    Examples
    --------
    >>> import rt_frames as rt
    >>> rt.alter_columns("readings", [rt.Alteration("at", rename="time")]).name
    'readings'
    """
    __tracebackhide__ = True
    return _resolve(client).alter_columns(name, alterations)


_THREE_WAYS = """connect in one of these ways:
    rt.connect("https://words-x1.us-east-1.example.com", api_key="...")                # a hosted service
    rt.connect("words-x1", region="us-east-1", domain="example.com", api_key="...")    # the same, in parts
    rt.connect("./tables")                      # a folder: the embedded service, without an account
or set RT_FRAMES_URL and RT_FRAMES_API_KEY in the environment (or RT_FRAMES_DB, RT_FRAMES_REGION, RT_FRAMES_DOMAIN)"""


def parse_target(target: Any, region: str | None, domain: str | None) -> str | Path:
    """Return a URL as a string, a folder as a path."""
    if target is None:
        target, region, domain = _from_environment(region, domain)
    if region is not None or domain is not None:
        return _from_parts(target, region, domain)
    if isinstance(target, os.PathLike):
        return _parse_folder(target)
    if not isinstance(target, str):
        text = f"target: expected a URL, a database's name or a folder, got {type(target).__name__}"
        raise TypeError(Message(text, _THREE_WAYS, target="…"))
    if scheme := re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", target):
        if scheme[1].lower() not in ("http", "https"):
            shown = target.rpartition("@")[2]
            raise ValueError(f"expected https://HOST, http://HOST or a folder, got {shown!r:.100}")
        return target
    if target in (".", "..") or re.match(r"\.{1,2}/|/(?!/)|~", target):
        return _parse_folder(target)
    text = f"{target.rpartition('@')[2]!r:.100} is neither a URL nor a folder"
    fix = "http:// or https:// is missing before an address, ./ before a folder"
    raise ValueError(Message(f"{text}; {fix}", _THREE_WAYS, target="…"))


def _parse_folder(target: str | os.PathLike[str]) -> Path:
    try:
        folder = Path(target).expanduser()
        is_file = folder.resolve().is_file()
    except (OSError, RuntimeError, ValueError) as error:  # no such user, a cycle of links, a name that is too long
        raise _not_a_folder(target, error) from None
    if is_file:
        raise ValueError(f"{folder} is a file; expected a folder, for the tables of the embedded service")
    return folder


def _not_a_folder(target: str | os.PathLike[str], error: Exception) -> ValueError:
    reason = getattr(error, "strerror", None) or error
    return ValueError(f"{show_value(os.fspath(target))} cannot be a folder of tables: {reason}; choose another")


def _from_environment(region: str | None, domain: str | None) -> tuple[str | None, str | None, str | None]:
    if url := os.environ.get("RT_FRAMES_URL"):
        if region is not None or domain is not None:
            raise ValueError("region, domain: they go with a database's name, but RT_FRAMES_URL names a whole address")
        return url, None, None
    database = os.environ.get("RT_FRAMES_DB") or None
    if database is None and region is None and domain is None:
        closed = ", the default client was closed" if _default_client is not None and _default_client._closed else ""  # noqa: SLF001  # same package
        raise errors.NotConnectedError(Message(f"not connected to any service{closed}", _THREE_WAYS, target="…"))
    region = region or os.environ.get("RT_FRAMES_REGION")
    domain = domain or os.environ.get("RT_FRAMES_DOMAIN")
    if database is not None and (region is None or domain is None):
        raise ValueError(f"RT_FRAMES_DB={database:.100} needs RT_FRAMES_REGION and RT_FRAMES_DOMAIN beside it")
    return database, region, domain


def _from_parts(database: Any, region: str | None, domain: str | None) -> str:
    parts = {"target": database, "region": region, "domain": domain}
    if isinstance(database, str) and "://" in database:
        raise ValueError(
            "region, domain: they go with a database's name, but target is a whole address; leave them out"
        )
    if missing := [name for name, value in parts.items() if value is None]:
        given = [name for name in parts if name not in missing]
        text = f"{' and '.join(missing)} must be given with {' and '.join(given)}"
        raise ValueError(Message(text, _THREE_WAYS, target="…"))
    for name, value in parts.items():
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", value):
            text = f"{name}: expected a part of a host name, got {value!r:.100}"
            raise ValueError(Message(text, _THREE_WAYS, target="…"))
    return f"https://{database}.{region}.{domain}"


class FolderService(Service):
    """The embedded service on a folder, which runs in this process as long as the folder has a client."""

    about = ", the embedded service, which needs no key"

    def __init__(self, folder: Path, *, start: bool = True, **options: Any) -> None:
        self._folder = folder
        self._leave: Callable[[], Any] = lambda: None
        self._reopening = threading.Lock()
        super().__init__(self._start_service() if start else "http://127.0.0.1", api_key=_services_key, **options)
        self.closed = not start
        self.link = None  # no link to compress for

    def _start_service(self) -> str:
        place = os.getpid(), Path(os.path.realpath(self._folder))
        try:
            url = _start_service(place)
        except OSError as error:
            raise _not_a_folder(self._folder, error) from error
        self._leave = leave = weakref.finalize(self, _leave_service, place)
        leave.atexit = False  # services end with the process
        return url

    @property
    def session(self) -> Session:
        with self._reopening:
            if self.closed:
                self._session.base, self.closed = self._start_service(), False
        return super().session

    def close(self) -> None:
        super().close()
        self._leave()

    def __str__(self) -> str:
        return str(self._folder)

    def __reduce__(self) -> tuple[Any, ...]:
        # raised when the service is used: an error while unpickling would break process pools
        options = {**self._options, "dialect": self.dialect, "verify": True, "start": False}
        return functools.partial(FolderService, **options), (self._folder,)


_services: dict[tuple[int, Path], tuple[LocalService, int]] = {}  # (process, folder) → service and number of clients
_services_lock = threading.RLock()  # a client may be collected while another is made
_services_key = Key(secrets.token_urlsafe(32))
_unlock = _services_lock.release
os.register_at_fork(before=_services_lock.acquire, after_in_parent=_unlock, after_in_child=_unlock)


def _start_service(place: tuple[int, Path]) -> str:
    """Return the address of the folder's embedded service, started for its first client."""
    from rt_frames.local import LocalService  # load the engine only when it is used

    with _services_lock:
        if place in _services:
            service, clients = _services[place]
            _services[place] = service, clients + 1
            return service.url
    # outside the lock: this waits for threads, which may collect a client
    started = LocalService(place[1], api_key=_services_key).start()
    with _services_lock:
        service, clients = _services.get(place, (started, 0))
        _services[place] = service, clients + 1
    if service is not started:  # another thread was faster
        started.close()
    return service.url


def _leave_service(place: tuple[int, Path]) -> None:
    """Stop the folder's embedded service after its last client, in the process that started it."""
    with _services_lock:
        service, clients = _services.pop(place)
        if clients > 1:
            _services[place] = service, clients - 1
    if clients == 1 and place[0] == os.getpid():
        service.close()
