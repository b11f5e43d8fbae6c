"""The public functions. ``__all__`` is the list of public names; the package loads them on first use."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import pyarrow as pa

from rt_frames import errors
from rt_frames._client import (
    Client,
    RemoteTable,
    alter_by_kind,
    check_plan,
    forget_schema,
    rewrite_columns,
)
from rt_frames._connect import connect, disconnect, resolve
from rt_frames._display import hide_traceback
from rt_frames._frames.any_frame import arrow_schemas, sent_schema
from rt_frames._names import check_order
from rt_frames._schema.alterations import Alteration, AlterationPlan
from rt_frames._schema.any_dtype import data_type
from rt_frames._schema.compare import check_no_cycle, plan
from rt_frames._schema.data_type import arrow_type
from rt_frames._text import list_some

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rt_frames._client import Alterations
    from rt_frames._frames.compression import Compression
    from rt_frames._frames.frame_types import Frame
    from rt_frames._service.write import IfExists

AnyFrame = TypeVar("AnyFrame", bound="Frame")
P = ParamSpec("P")
T = TypeVar("T")

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
    "schema",
    "table",
    "tee",
    "to_table",
]


def refuse_strict(function: Callable[P, T]) -> Callable[P, T]:
    """Refuse the option ``strict`` of versions before 0.3, and name those in its place."""

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        __tracebackhide__ = True
        if "strict" in options:
            raise TypeError(
                "strict is no option any more: columns that only the table has are left "
                "alone; add_columns=True adds columns, drop_columns=[…] drops them"
            )
        return function(*args, **options)

    return call


def to_table(
    data: Frame,
    name: str,
    *,
    client: Client | None = None,
    dtypes: Mapping[str, Any] | None = None,
    index: bool | None = None,
    clean_names: bool = False,
    if_exists: IfExists = "fail",
    on: str | Sequence[str] | None = None,
    add_columns: bool = False,
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
    if_exists : {"fail", "skip", "replace", "append", "upsert"}, default "fail"
        What to do if the name is taken: "fail" raises; "skip" sends nothing and returns
        the existing table, with ``created=False``; "replace" replaces all its rows;
        "append" adds rows to it; "upsert" replaces the rows whose keys it has, and adds
        the others. The last two create the table if there is none. The last three are
        all or nothing, and need a folder or ``dialect="lancedb"``. Columns of added rows
        are matched by name: those that the frame lacks become null, or keep their values
        in a row that is updated. Types are cast within a family (numbers; text and
        categories; dates and times), and a value that does not fit exactly is refused
        with its row.
    on : str or list of str, optional
        The columns whose values identify a row, for an upsert: whole numbers, text,
        binary, dates, times, decimals, booleans, UUIDs or categories. Null keys, and two
        rows with one key, are refused by row. The keys of all rows are held in memory
        until they are checked. Several columns need an embedded service.
    add_columns : bool, default False
        Whether columns that only the frame has are added to the table first, with nulls
        in its rows, by "append" and "upsert". Without it, they are an error.
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
    return resolve(client).create_table(
        name,
        data,
        dtypes=dtypes,
        index=index,
        clean_names=clean_names,
        if_exists=if_exists,
        on=on,
        add_columns=add_columns,
        compression=compression,
        progress=progress,
    )


def tee(
    data: AnyFrame,
    name: str,
    *,
    client: Client | None = None,
    dtypes: Mapping[str, Any] | None = None,
    index: bool | None = None,
    clean_names: bool = False,
    if_exists: IfExists = "fail",
    on: str | Sequence[str] | None = None,
    add_columns: bool = False,
    compression: Compression = "auto",
    progress: bool | None = None,
) -> AnyFrame:
    """Create a remote table and return the frame, unchanged, for method chaining.

    Parameters
    ----------
    data : frame
        As in `to_table`. An iterator or reader is exhausted afterwards.
    name : str
        The table's name.
    client, dtypes, index, clean_names, if_exists, on, add_columns : optional
        As in `to_table`.
    compression, progress : optional
        As in `to_table`.

    Returns
    -------
    frame
        ``data`` itself.

    Raises
    ------
    RemoteError, ValueError, TypeError
        As in `to_table`.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames as rt
    >>> pl.LazyFrame({"n": [1, 2]}).pipe(rt.tee, "numbered").select("n").collect().height
    2
    """
    __tracebackhide__ = True
    to_table(
        data,
        name,
        client=client,
        dtypes=dtypes,
        index=index,
        clean_names=clean_names,
        if_exists=if_exists,
        on=on,
        add_columns=add_columns,
        compression=compression,
        progress=progress,
    )
    return data


@hide_traceback
def schema(data: Frame) -> pa.Schema:
    """Return the Arrow schema in which a frame would be sent.

    Parameters
    ----------
    data : frame
        As in `to_table`. An iterator or reader loses its first item.

    Returns
    -------
    pyarrow.Schema
        The columns of the table that `to_table` would create.

    Raises
    ------
    UnsupportedTypeError
        If a column's type, or a value in it, cannot be sent.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames as rt
    >>> rt.schema(pl.LazyFrame({"n": [1], "s": ["x"]}))
    n: int64
    s: large_string
    """
    return sent_schema(data)


def table(
    name: str, *, version: int | None = None, client: Client | None = None
) -> RemoteTable:
    """Return a handle to an existing table; no request is made.

    Parameters
    ----------
    name : str
        The table's name.
    version : int, optional
        A version to read. Such a handle never changes the table, except that
        ``restore()`` makes its version the newest. Defaults to the newest version at
        each read. Versions count from 1, anew after a drop; a folder keeps those that
        were replaced for a day.
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
    return resolve(client).table(name, version=version)


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
    return resolve(client).list_tables()


@refuse_strict
@hide_traceback
def plan_alterations(
    before: Any,
    after: Any,
    *,
    rename: Mapping[str, str] | None = None,
    nullable: Mapping[str, bool] | None = None,
    add_columns: bool = False,
    drop_columns: Sequence[str] = (),
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
    add_columns : bool, default False
        Whether columns that only ``after`` has are added, nullable and all null at
        first. Without it, they are an error. No field is ever added inside a struct.
    drop_columns : list of str, default ()
        Columns of ``before`` to drop. Others that only ``before`` has are left alone.
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
    stored = []
    if isinstance(before, RemoteTable):
        stored.append("before")
    if isinstance(after, RemoteTable):
        stored.append("after")
    before = _known_schema("before", before)
    after = _known_schema("after", after)
    are_schemas = isinstance(before, pa.Schema) and isinstance(after, pa.Schema)
    schemas = arrow_schemas(
        before,
        after,
        dtypes=dtypes,
        index=index,
        clean_names=clean_names,
        stored=stored,
    )
    return plan(
        *schemas,
        rename=rename,
        nullable=nullable,
        add_columns=add_columns,
        drop_columns=drop_columns,
        stored="before" in stored,
        compare_nullability=are_schemas,
    )


def _known_schema(side: str, data: Any) -> Any:
    """Return the schema of a table, or that in a file; anything else as it is."""
    if isinstance(data, os.PathLike) and side == "before":
        try:
            return pa.ipc.read_schema(pa.py_buffer(Path(data).read_bytes()))
        except pa.ArrowException as error:
            raise ValueError(
                f"before: {data} holds no schema; keep one with "
                "Path(…).write_bytes(df.remote.schema.serialize())"
            ) from error
    if not isinstance(data, RemoteTable):
        return data
    if data.schema is None:
        raise ValueError(
            f"{side}: the columns of table {data.name!r} are not known here, and its "
            "service does not describe tables; either pass what it was created from, a "
            "frame or a schema that was kept (df.remote.schema gives it):\n"
            f"    df.remote.alter_table({data.name!r}, before)\n"
            "or, where the server speaks that, use a dialect that can describe a table:\n"
            '    rt.connect(…, dialect="lancedb")'
        )
    return data.schema


@refuse_strict
@hide_traceback
def alter_table(
    data: Any,
    name: str,
    before: Any = None,
    *,
    rename: Mapping[str, str] | None = None,
    nullable: Mapping[str, bool] | None = None,
    add_columns: bool = False,
    drop_columns: Sequence[str] = (),
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
    rename, nullable, add_columns, drop_columns : optional
        As in `plan_alterations`. Changes, added and dropped columns are a request each,
        in this order; if one of them fails, the error says which were made, and the
        same call makes the others.
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
        raise ValueError(
            "rewrite, lossy: a rewrite casts exactly; pass only one of them"
        )
    options: dict[str, Any] = {
        "rename": rename,
        "nullable": nullable,
        "add_columns": add_columns,
        "drop_columns": drop_columns,
        "dtypes": dtypes,
        "index": index,
        "clean_names": clean_names,
    }
    with errors.about(name):
        return _alter_table(
            resolve(client).table(name),
            data,
            before,
            options,
            lossy=lossy,
            rewrite=rewrite,
        )


def _alter_table(
    table: RemoteTable,
    data: Any,
    before: Any,
    options: dict[str, Any],
    *,
    lossy: bool,
    rewrite: bool,
) -> RemoteTable:
    changes = plan_alterations(table if before is None else before, data, **options)
    check_no_cycle(options["rename"] or {})
    if before is not None and table.schema is not None:
        remaining = plan_alterations(table, data, **options)
        _check_state(table.name, changes, remaining)
        changes = remaining
    if rewrite and changes:
        altered = rewrite_columns(table, changes)
    else:
        check_plan(table, changes, lossy=lossy)
        altered = alter_by_kind(table, changes)
    if isinstance(before, RemoteTable):
        forget_schema(before)
    return altered


def _check_state(name: str, changes: AlterationPlan, remaining: AlterationPlan) -> None:
    """Refuse a table whose remaining changes are not among those planned."""
    planned = {alteration.path: alteration for alteration in changes}
    added = list(changes.added)
    unplanned = [
        str(alteration)
        for alteration in remaining
        if not _is_part(alteration, planned.get(alteration.path))
    ]
    unplanned += [
        f"{column.name}: only in after"
        for column in remaining.added
        if column not in added
    ]
    if unplanned:
        raise errors.AlterationError(
            f"table {name!r} matches neither before nor after (from after it differs by "
            f"{list_some(unplanned)}); nothing was sent; leave before out to alter what "
            "is there"
        )


def _is_part(alteration: Alteration, whole: Alteration | None) -> bool:
    """Return whether a change is part of another one, of a column of the same type."""
    if whole is None:
        return False
    if not alteration.to_json().items() <= whole.to_json().items():
        return False
    return alteration.data_type is None or bool(alteration.before == whole.before)


def alter_columns(
    name: str, alterations: Alterations, *, client: Client | None = None
) -> RemoteTable:
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
    return resolve(client).alter_columns(name, alterations)
