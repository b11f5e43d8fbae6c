"""The public functions.

``__all__`` lists the public names, which the package imports on first access.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from rt_frames import errors
from rt_frames._arguments import by_keyword, check_flag, check_optional_flag
from rt_frames._client import Client, RemoteTable, service_of
from rt_frames._connect import connect, disconnect, resolve
from rt_frames._display import hide_traceback, share_docstring, show_choices
from rt_frames._frames.any_frame import arrow_schemas, sent_schema, type_reader
from rt_frames._names import check_order
from rt_frames._protocol.versions import Version
from rt_frames._schema.alterations import (
    Alteration,
    AlterationPlan,
    check_values_kept,
)
from rt_frames._schema.any_dtype import data_type
from rt_frames._schema.compare import check_no_cycle, plan
from rt_frames._schema.data_type import arrow_type
from rt_frames._service import alter
from rt_frames._service.replace_columns import replace_columns
from rt_frames._service.write import IfExists
from rt_frames._stream.compression import Compression
from rt_frames._text import list_some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rt_frames._client import Alterations, Expression
    from rt_frames._frames.frame_types import Frame

AnyFrame = TypeVar("AnyFrame", bound="Frame")

__all__ = [
    "Alteration",
    "AlterationPlan",
    "Client",
    "RemoteTable",
    "Version",
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


@by_keyword(str="if_exists", dict="dtypes", Client="client", Expr="where")
def to_table(
    data: Frame,
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
    """Create a remote table from a frame, or write to an existing one.

    Parameters
    ----------
    data : frame
        pandas, Polars or Dask DataFrame, Polars LazyFrame, pyarrow Table, RecordBatch,
        RecordBatchReader or Dataset, any object with ``__arrow_c_stream__``, or a list
        or iterator of frames or record batches of one schema. Data is never changed.
    name : str
        The table's name; it cannot contain a slash or a backslash.
    if_exists : {"fail", "skip", "replace", "append", "upsert"}, default "fail"
        What to do if the table exists. "fail" raises an error. "skip" sends nothing and
        returns a handle with ``created=False``. "replace" replaces all rows, or those
        that match ``where``. "append" adds the rows. "upsert" updates the rows whose
        keys are in the table, and inserts the others. "append", "upsert" and "replace"
        with ``where`` create a missing table; they match columns by name, and a column
        that the frame lacks becomes null, or keeps its value in an updated row. They
        cast types within a family (numbers; text and categories; dates and times), and
        a value that does not fit exactly raises an error that names its row. "replace",
        "append" and "upsert" take effect in one commit, and need a folder or
        ``dialect="lancedb"``.
    on : str or list of str, optional
        The key columns of an upsert, whose values identify a row: whole numbers, text,
        binary, dates, times, decimals, booleans, UUIDs or categories. A null key, or
        two rows with the same key, raise an error that names the rows. The keys of all
        rows are kept in memory until they are checked. Several columns need a folder.
    where : polars.Expr or list of tuples, optional
        Which rows "replace" replaces, such as ``pl.col("day") == day``; an expression
        or tuples as in `RemoteTable.to_arrow`. Each row of the frame must match it,
        too: one that does not raises an error that names it, and nothing is stored. The
        same call again ends in the same rows. Needs a folder.
    add_columns : bool, default False
        Whether "append", "upsert" and "replace" with ``where`` first add the columns
        that only the frame has, with nulls in the rows of the table. Without it, such
        columns are an error.
    dtypes : dict of str to dtype, optional
        New types of columns, by their names in the table; any dtype that `data_type`
        accepts. Struct fields are matched by name. A value that does not fit exactly
        raises an error that names column and row; only fractions of floats are rounded.
        A number counts in the unit of its new type: 90 as ``duration[s]`` is 90 s.
    index : bool, optional
        pandas only. None keeps the index as columns, named as ``reset_index`` would
        name them, but drops an unnamed integer index. True keeps any index; False drops
        it.
    clean_names : bool, default False
        Whether to turn other labels into valid names: numbers and dates become text,
        the levels of a MultiIndex are joined with ``_``, dots, backticks and control
        characters become ``_``. Two labels that become one name are an error. The
        table's ``schema`` shows the result.
    progress : bool, optional
        Whether to show a progress bar. None shows one in a terminal or notebook, after
        two seconds.
    compression : {"auto", "lz4", "zstd", None}, default "auto"
        Codec of the Arrow IPC buffers. "auto" chooses for each batch; None sends the
        buffers uncompressed.
    client : Client, optional
        Defaults to the client of the last `connect`.

    Returns
    -------
    RemoteTable
        A handle to the table; ``rows``, ``nbytes`` and ``version`` describe this write.

    Notes
    -----
    Data that is larger than a request may be, or of unknown size, goes in parts if the
    server supports it. After their commit, the rows of the version that it reports are
    counted, less those of the version before it in an append. They are not if the
    server reports no version, or keeps no version before it.

    Raises
    ------
    ValueError, TypeError
        If an argument or a column's name cannot be used; nothing was sent.
    UnsupportedTypeError
        If a column's type, or a value in it, cannot be sent; nothing was stored. With a
        stream, it may be raised after part of the data was sent.
    TableExistsError
        If the table exists.
    UploadInterrupted, OutcomeUnknown
        If the connection failed during the request, or a write in parts stored another
        number of rows than was sent; the message says whether rows were stored, as far
        as that is known.
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
        if_exists=if_exists,
        on=on,
        where=where,
        add_columns=add_columns,
        dtypes=dtypes,
        index=index,
        clean_names=clean_names,
        progress=progress,
        compression=compression,
    )


@by_keyword(str="if_exists", dict="dtypes", Client="client", Expr="where")
def tee(
    data: AnyFrame,
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
) -> AnyFrame:
    """Call `to_table` and return the frame, unchanged, for method chaining.

    An iterator or reader is exhausted afterwards. Parameters and errors as in
    `rt_frames.to_table`.

    Returns
    -------
    frame
        ``data`` itself.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames as rt
    >>> lazy = pl.LazyFrame({"n": [1, 2]})
    >>> lazy.pipe(rt.tee, "numbered").select("n").collect().height
    2
    """
    __tracebackhide__ = True
    to_table(
        data,
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
    return data


@hide_traceback
def schema(data: Frame) -> pa.Schema:
    """Return the Arrow schema in which a frame would be sent.

    Parameters
    ----------
    data : frame
        As in `to_table`. The first item of an iterator or reader is consumed.

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


@by_keyword(int="version", datetime="version", Timestamp="version", Client="client")
def table(
    name: str,
    *,
    version: int | datetime.datetime | None = None,
    client: Client | None = None,
) -> RemoteTable:
    """Return a handle to an existing table, or to a version of it.

    No request is made, unless ``version`` is a time.

    Parameters
    ----------
    name : str
        The table's name.
    version : int or datetime, optional
        A version to read, or a time with a zone, which means the newest version then.
        Such a handle is read-only, except that ``restore()`` makes its version the
        newest. Defaults to the newest version at each read. Versions count from 1,
        again after a drop; a folder keeps replaced versions for a day.
        `RemoteTable.history` lists them.
    client : Client, optional
        Defaults to the client of the last `connect`.

    Returns
    -------
    RemoteTable
        A handle. Accessing ``schema`` makes a request, if the service can describe
        tables.

    Raises
    ------
    ValueError, TypeError
        If the name is not valid for a table, or a time has no zone.
    TableNotFoundError
        If ``version`` is a time before that of the oldest version.

    Examples
    --------
    >>> import rt_frames as rt
    >>> rt.table("readings").schema
    at: int64
    """
    __tracebackhide__ = True
    return resolve(client).table(name, version=version)


@by_keyword(Client="client")
def list_tables(*, client: Client | None = None) -> list[str]:
    """List the names of the project's tables.

    Parameters
    ----------
    client : Client, optional
        Defaults to the client of the last `connect`.

    Returns
    -------
    list of str
        The names, in the order of the service's response.

    Raises
    ------
    RemoteError
        If the service cannot be reached, refuses the key, or sends an unexpected
        response.

    Examples
    --------
    >>> import rt_frames as rt
    >>> "flights" in rt.list_tables()
    False
    """
    __tracebackhide__ = True
    return resolve(client).list_tables()


@hide_traceback
@by_keyword(dict="rename", list="drop_columns")
def plan_alterations(
    before: Any,
    after: Any,
    *,
    rename: Mapping[str, str] | None = None,
    nullable: Mapping[str, bool] | None = None,
    add_columns: bool = False,
    drop_columns: str | Sequence[str] = (),
    dtypes: Mapping[str, Any] | None = None,
    index: bool | None = None,
    clean_names: bool = False,
) -> AlterationPlan:
    """Plan the changes that give a table made from ``before`` the columns of ``after``.

    Nothing is sent. The plan marks casts that the engine refuses, and casts that may
    change stored values.

    Parameters
    ----------
    before, after : frame, Arrow or Polars schema, dict of str to dtype, or RemoteTable
        The old and the new columns. ``before`` is what the table was created from, or
        the table itself if the service can describe it. No rows are read; a source that
        can be read only once, such as a generator or reader, is refused. ``before`` can
        also be the path (`os.PathLike`) of a file with the bytes of
        `pyarrow.Schema.serialize`. A stored type that Polars reads as another one, such
        as ``time64[us]``, is not changed by a Polars frame that has it so.
    rename : dict of str to str, optional
        Renamed columns, by their paths in ``before``, such as ``"outer.inner"`` inside
        a struct. Columns are compared by name, so two columns of the same type that
        swapped names look unchanged unless you pass ``rename``. For a stored table, a
        rename counts as done if the old name is missing and the new name exists; a swap
        never counts as done.
    nullable : dict of str to bool, optional
        Whether columns allow nulls, by old or new name. Only frames need it; an Arrow
        schema states its own nullability.
    add_columns : bool, default False
        Whether to add the columns that only ``after`` has, nullable and with nulls in
        all rows. Without it, such columns are an error. No field is added inside a
        struct.
    drop_columns : str or list of str, default ()
        Columns of ``before`` to drop. Other columns that only ``before`` has are kept.
    dtypes : dict of str to dtype, optional
        Types of columns of ``after``, as in `to_table`.
    index : bool, optional
        pandas only: whether the index of both sides is kept, as in `to_table`.
    clean_names : bool, default False
        Whether to turn other labels of both sides into valid names, as in `to_table`.

    Returns
    -------
    AlterationPlan
        The changes, in the order of ``before``, but a name is freed before another
        column takes it; falsy if there are none.

    Raises
    ------
    AlterationError
        If the schemas do not match; the message names the columns and the arguments to
        pass.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames as rt
    >>> before = pl.DataFrame({"n": [1, 2]})
    >>> rt.plan_alterations(before, before.cast(pl.Int32)).to_json()
    {'alterations': [{'path': 'n', 'data_type': {'type': 'int32'}}]}
    """
    adds_columns = check_flag("add_columns", add_columns)
    check_flag("clean_names", clean_names)
    check_optional_flag("index", index)
    stored = []
    table = before if isinstance(before, RemoteTable) else None
    if table is not None:
        stored.append("before")
    if isinstance(after, RemoteTable):
        stored.append("after")
    before = _known_schema("before", before)
    after = _known_schema("after", after)
    is_stored = "before" in stored
    read_type = type_reader(after) if is_stored else None
    are_schemas = isinstance(before, pa.Schema) and isinstance(after, pa.Schema)
    try:
        schemas = arrow_schemas(
            before,
            after,
            dtypes=dtypes,
            index=index,
            clean_names=clean_names,
            stored=stored,
            read_type=read_type,
        )
    except ValueError as error:
        if not _is_rename(before):
            raise
        raise ValueError(
            f"before: {error}; if columns were renamed, pass rename={before!r:.200}"
        ) from None
    return plan(
        *schemas,
        rename=rename,
        nullable=nullable,
        add_columns=adds_columns,
        drop_columns=drop_columns,
        # other services may describe only the storage of extension types
        shows_extensions=table is not None
        and service_of(table.client).dialect.describes_extensions,
        stored=is_stored,
        compare_nullability=are_schemas,
        read_type=read_type,
        cast=dtypes or (),
    )


def _is_rename(before: Any) -> bool:
    """Return whether ``before`` may be a dict of new names, not of dtypes."""
    if not isinstance(before, Mapping):
        return False
    return all(isinstance(name, str) for name in before.values())


def _known_schema(side: str, data: Any) -> Any:
    """Return the schema of a table or of a schema file.

    Other data is returned unchanged.
    """
    if isinstance(data, os.PathLike) and side == "before":
        try:
            return pa.ipc.read_schema(pa.py_buffer(Path(data).read_bytes()))
        except pa.ArrowException as error:
            raise ValueError(
                f"before: {data} contains no Arrow schema; write one with "
                "Path(…).write_bytes(df.remote.schema.serialize())"
            ) from error
    if not isinstance(data, RemoteTable):
        return data
    if data.schema is None:
        raise ValueError(
            f"{side}: the service does not describe the columns of table {data.name!r}; "
            "pass the frame that it was created from, or its schema (df.remote.schema):\n"
            f"    df.remote.alter_table({data.name!r}, before)\n"
            "or, if the server offers LanceDB's API, connect with that dialect:\n"
            '    rt.connect(…, dialect="lancedb")'
        )
    return data.schema


@hide_traceback
@by_keyword(dict="rename", list="drop_columns")
def alter_table(
    data: Any,
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
    """Change a table's columns to those of a frame.

    If the service can describe the table, changes already made are skipped: a second
    call does nothing.

    Parameters
    ----------
    data : frame
        A frame or schema, as in `plan_alterations`.
    name : str
        The table's name.
    before : frame, schema, dict of str to dtype, path, or RemoteTable, optional
        What the table was created from, as in `plan_alterations`. Defaults to the
        columns that the service describes.
    rename, nullable, add_columns, drop_columns : optional
        As in `plan_alterations`. Changes, added and dropped columns are one request
        each, in this order; changes are two if the engine of a folder or of LanceDB's
        servers needs two. If one of them fails, the error lists the changes made before
        it, and the same call makes the others.
    lossy : bool, default False
        Whether casts may change stored values: round, truncate or shift them, or make
        them infinite. A service whose engine is unknown is sent any cast with it.
    rewrite : bool, default False
        Whether all rows may be read, cast exactly and replaced, if a change needs it: a
        cast that the engine refuses, or a lossy one. Then all changes are one commit. A
        value that does not fit raises an error that shows it. No number becomes a date,
        time or duration, or back, as its unit is not known. Indices are dropped, with a
        warning. Nobody else may write to the table meanwhile; a folder refuses the
        commit otherwise. Needs a folder, or ``dialect="lancedb"`` and a server that
        supports multipart writes.
    dtypes, index, clean_names : optional
        As in `plan_alterations`.
    client : Client, optional
        Defaults to the client of the last `connect`.

    Returns
    -------
    RemoteTable
        The table, with its new version; its repr shows what changed.

    Raises
    ------
    AlterationError
        If the schemas do not match, the table has neither the old nor the new columns,
        the engine of a folder or of LanceDB's servers refuses a cast, or stored values
        may change without ``lossy=True``; nothing was sent.
    ValueError
        If ``before`` is omitted and the service cannot describe tables.
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
    lossy = check_flag("lossy", lossy)
    rewrite = check_flag("rewrite", rewrite)
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
    service = service_of(table.client)
    if rewrite and alter.needs_rewrite(service, changes):
        result = replace_columns(service, table.name, table.schema, changes)
    else:
        alter.check_engine(service, table.name, changes)
        if not lossy:
            check_values_kept(changes)
        result = alter.send_all(service, table.name, changes)
    if isinstance(before, RemoteTable):
        before._forget_schema()  # noqa: SLF001  # the caller's handle
    if not changes:
        return replace(table, _changed=changes)
    return RemoteTable(table.name, table.client, **vars(result), _changed=changes)


def _check_state(name: str, changes: AlterationPlan, remaining: AlterationPlan) -> None:
    """Raise AlterationError if a remaining change was not planned."""
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
            f"table {name!r} has neither the old nor the new columns (it differs from "
            f"the new ones by {list_some(unplanned)}); nothing was sent; omit before= to "
            "alter the table as it is"
        )


def _is_part(alteration: Alteration, whole: Alteration | None) -> bool:
    """Return whether ``whole`` contains a change, for a column of the same type."""
    if whole is None:
        return False
    if not alteration.to_json().items() <= whole.to_json().items():
        return False
    return alteration.data_type is None or bool(alteration.before == whole.before)


@by_keyword(Client="client")
def alter_columns(
    name: str, alterations: Alterations, *, client: Client | None = None
) -> RemoteTable:
    """Change columns of a table in one request, all of them or none.

    Parameters
    ----------
    name : str
        The table's name.
    alterations : AlterationPlan, or iterable of Alteration or dict
        The changes; a dict has the form of the items of ``plan.to_json()``. An empty
        plan is not sent.
    client : Client, optional
        Defaults to the client of the last `connect`.

    Returns
    -------
    RemoteTable
        The table, with its new version.

    Raises
    ------
    ValueError
        If ``alterations`` is an empty list, or one of them changes nothing or is
        malformed.
    AlterationError
        If the engine of a folder or of LanceDB's servers refuses a cast; nothing was
        sent. `alter_table` has ``rewrite=True`` for it.
    BadRequest
        If the service refuses a change; nothing was changed.
    TableNotFoundError
        If the table does not exist.
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


share_docstring(tee, to_table)
share_docstring(alter_table, plan_alterations, to_table)
share_docstring(Client.create_table, to_table)
share_docstring(Client.list_tables, list_tables)
share_docstring(Client.alter_columns, alter_columns)
share_docstring(Client.table, table)
share_docstring(RemoteTable.alter_columns, alter_columns)
for reader in (RemoteTable.to_pandas, RemoteTable.to_polars, RemoteTable.count):
    share_docstring(reader, RemoteTable.to_arrow)
for writer in (to_table, tee, Client.create_table):
    show_choices(writer, IfExists=IfExists, Compression=Compression)
