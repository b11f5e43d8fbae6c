"""Write a frame: create, replace, append to or upsert into a table.

`write` looks up the table, opens the frame, adds missing columns, and sends the rows:
in one request, or in parts if they are larger than one part or of unknown size, and the
service supports it. The workers of a Dask cluster send their own partitions. An upsert
is always one request; it is stopped before its end if it is too large or has two rows
with the same key. So is a replacement of the rows that match a condition, which each of
the new rows must match.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rt_frames import errors
from rt_frames._frames.any_frame import open_source
from rt_frames._frames.open_options import OpenOptions
from rt_frames._progress import Progress
from rt_frames._protocol.calls import (
    ARROW_STREAM,
    Cures,
    Failure,
    Purpose,
    Request,
    Result,
    Steps,
    upsert_query,
    with_where,
)
from rt_frames._protocol.conditions import to_sql
from rt_frames._protocol.operations import (
    ADD_COLUMNS,
    APPEND,
    CREATE,
    REPLACE,
    REPLACE_WHERE,
    UPSERT,
)
from rt_frames._protocol.responses import parse_written
from rt_frames._schema.compare import new_columns
from rt_frames._service.changes import raise_if_unsupported
from rt_frames._service.cluster import ClusterStream, find_cluster
from rt_frames._service.columns import add_columns
from rt_frames._service.interrupts import noting_interrupts
from rt_frames._service.outcome import (
    explain_rows,
    make_error,
)
from rt_frames._service.parts import name_blocked, send_in_parts
from rt_frames._service.service import Service
from rt_frames._service.steps import noting_steps
from rt_frames._stream.compression import (
    Compression,
    CompressionPolicy,
    check_compression,
)
from rt_frames._stream.ipc import IPCStream
from rt_frames._text import count, format_bytes, list_names
from rt_frames._values.upsert_keys import no_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import pyarrow as pa

    from rt_frames._protocol.calls import Buffers, Explanation
    from rt_frames._protocol.operations import Dialect, Operation
    from rt_frames._protocol.responses import Description
    from rt_frames._stream.source import Source

log = logging.getLogger("rt_frames")

IfExists = Literal["fail", "skip", "replace", "append", "upsert"]
# bytes; before a larger upload, one list request checks address, key and name
LIST_FIRST_ABOVE = 8 * 2**20


@dataclass(frozen=True)
class WriteResult:
    """What a write or an alteration says, as fields of a `rt_frames.RemoteTable`."""

    _schema: pa.Schema | None = None
    rows: int | None = None
    nbytes: int | None = None
    version: int | None = None
    created: bool | None = None
    request_id: str | None = None
    updated: int | None = None
    inserted: int | None = None
    deleted: int | None = None


@dataclass(frozen=True)
class WriteOptions:
    """The options of `rt_frames.to_table`."""

    opening: OpenOptions
    if_exists: IfExists
    compression: Compression
    progress: bool | None

    @property
    def adds_rows(self) -> bool:
        """Whether a table that exists keeps its columns, and some of its rows."""
        return self.if_exists in ("append", "upsert") or self.opening.where is not None

    def check(self, dialect: Dialect) -> None:
        """Raise ValueError for options that cannot be used."""
        dialect.check_if_exists(self.if_exists)
        check_compression(self.compression)
        if self.opening.where is not None:
            if self.if_exists != "replace":
                raise ValueError(
                    'where: only if_exists="replace" has a condition; leave it out'
                )
            if not dialect.has(REPLACE_WHERE):
                raise ValueError(
                    f"where: this server cannot {REPLACE_WHERE.ability}; nothing was "
                    "sent; upsert by key, or delete and append, which are two commits"
                )
        if self.opening.add_columns and not self.adds_rows:
            raise ValueError(
                'add_columns: only if_exists="append" and "upsert", and "replace" with '
                "where, add columns to a table; leave it out"
            )
        if self.if_exists != "upsert":
            if self.opening.keys:
                raise ValueError('on: only if_exists="upsert" has keys; leave it out')
        elif not self.opening.keys:
            raise no_keys()
        if len(self.opening.keys) > 1 and not dialect.has_several_keys:
            raise ValueError(
                "on: only a folder is known to support several keys; combine them into "
                "one key column, for example by joining their texts"
            )


def write(service: Service, name: str, data: Any, options: WriteOptions) -> WriteResult:
    service.check_name(name)
    options.check(service.dialect)
    table = _find_table(service, name) if options.adds_rows else None
    return _write(service, name, data, options, table)


def _write(
    service: Service,
    name: str,
    data: Any,
    options: WriteOptions,
    table: Description | None,
) -> WriteResult:
    """Store a frame, among the rows of a ``table`` if it is not None."""
    opening = dataclasses.replace(
        options.opening, table=table and table.schema, table_name=name
    )
    cluster = None
    # an upsert, and a replacement of some rows, are one request
    if not opening.keys and opening.where is None:
        cluster = find_cluster(service, data, opening, options.compression)
    frame = data if cluster is None else cluster.first()
    source = open_source(frame, opening)
    purpose = Purpose(
        _operation(options, table),
        name,
        source.rows.count,
        exhausts_source=isinstance(data, Iterator),
        exist_ok=options.if_exists == "skip",
        cures=_cures(service.dialect, options),
    )
    # also of an interrupt that comes while the source is closed
    with noting_interrupts(purpose) as noted:
        try:
            if purpose.operation == REPLACE_WHERE:
                source = _with_where(source)
            if table is not None:
                return _add_rows(service, noted, source, options, cluster, table)
            return _create(service, noted, source, options, cluster)
        except errors.TableExistsError as error:
            # created by somebody else meanwhile
            if not options.adds_rows or not source.rows.replayable:
                raise
            table = _find_table(service, name)
            if table is None:
                raise name_blocked(error, name) from None
        finally:
            source.rows.close()
    return _write(service, name, data, options, table)


def _operation(options: WriteOptions, table: Description | None) -> Operation:
    if options.if_exists == "replace" and options.opening.where is None:
        return REPLACE
    if table is None:
        return CREATE
    return {"upsert": UPSERT, "replace": REPLACE_WHERE}.get(options.if_exists, APPEND)


def _with_where(source: Source) -> Source:
    """Return a source whose stream says which rows it replaces."""
    if source.where is None:
        return source
    schema = with_where(source.plan.schema, to_sql(source.where))
    return dataclasses.replace(source, plan=source.plan._replace(schema=schema))


def _find_table(service: Service, name: str) -> Description | None:
    """Describe the table to add rows to, or return None if it does not exist."""
    try:
        table = service.describe(name)
    except errors.TableNotFoundError:
        return None
    if table.schema is None:
        raise ValueError(
            f"if_exists: the service does not describe the columns of table {name!r}, "
            "so rows cannot be added by name; create another table"
        )
    return table


def _create(
    service: Service,
    purpose: Purpose,
    source: Source,
    options: WriteOptions,
    cluster: ClusterStream | None,
) -> WriteResult:
    """Create or replace the table, or skip the write if the table exists."""
    listed = _check_name_is_free(service, purpose, source.rows.nbytes)
    if listed and purpose.exist_ok:
        return _skip(service, purpose)
    purpose = purpose._replace(listed_before=listed)
    return _upload(service, purpose, source, options, cluster)


def _add_rows(
    service: Service,
    purpose: Purpose,
    source: Source,
    options: WriteOptions,
    cluster: ClusterStream | None,
    table: Description,
) -> WriteResult:
    """Add missing columns, then append or upsert."""
    name = str(purpose.table)
    # without add_columns=True, opening the source has refused them
    existing = set(table.schema.names) if table.schema else set[str]()
    unknown = [field for field in source.plan.schema if field.name not in existing]
    added = new_columns(unknown, existing)
    if not len(added):
        return _upload(service, purpose, source, options, cluster, table)
    names = list_names(added.names)
    again = "the same call adds the columns and writes the rows"
    steps = Steps(left="no row was sent", again=again)
    adding = Purpose(
        ADD_COLUMNS, name, exhausts_source=purpose.exhausts_source, steps=steps
    )
    with noting_steps(steps):
        result = add_columns(service, adding, added, table)
    done = f"columns {names} were added before"
    steps = Steps(done, again="the same call would only write the rows")
    purpose = purpose._replace(steps=steps)
    with noting_steps(steps):
        version = result.value
        # of an unknown outcome; what follows is compared with it
        if version is None:
            version = service.describe(name).version
        table = table._replace(version=version)
        return _upload(service, purpose, source, options, cluster, table)


def _skip(service: Service, purpose: Purpose) -> WriteResult:
    """Leave an existing table unchanged. Refuse an empty table of a killed upload."""
    name = str(purpose.table)
    if service.splits_writes and purpose.rows != 0 and not service.count(name):
        text = (
            f"table {name!r} exists and is empty: an upload may be running or have "
            "been killed; nothing was stored; try again later, or drop it if it stays empty"
        )
        failure = Failure(errors.TableExistsError, text, facts={"attempts": 1})
        raise make_error(failure, purpose)
    log.info("skipped: table %s exists; nothing was stored", name)
    return WriteResult(created=False)


def _check_name_is_free(
    service: Service, purpose: Purpose, nbytes: int | None
) -> bool | None:
    """List the tables before a large upload.

    A wrong address, key or name then costs one small request, not gigabytes.
    """
    is_small = nbytes is not None and nbytes <= LIST_FIRST_ABOVE
    if is_small and not purpose.exist_ok:
        return None
    listed = service.is_listed_before(purpose)
    if listed and purpose.operation == CREATE and not purpose.exist_ok:
        failure = Failure(
            errors.TableExistsError,
            f"table {purpose.table!r} exists",
            state="nothing was sent",
            facts={"attempts": 1},
        )
        raise make_error(failure, purpose)
    return listed


def _upload(
    service: Service,
    purpose: Purpose,
    source: Source,
    options: WriteOptions,
    cluster: ClusterStream | None,
    table: Description | None = None,
) -> WriteResult:
    """Send the rows, in one request or in parts; add them to ``table``, if any."""
    name = str(purpose.table)
    policy = CompressionPolicy(
        options.compression,
        service.link,
        source.rows.nbytes,
        is_loopback=service.is_loopback,
    )
    stream: IPCStream | ClusterStream = IPCStream(source, policy)
    if cluster is not None and cluster.has_rows:
        stream = cluster
    start = time.monotonic()
    with Progress(options.progress, stream.length, name) as bar:
        request = Request(
            purpose._replace(is_compressed=lambda: stream.is_compressed),
            service.dialect.path(purpose.operation, name),
            parse_written,
            content_type=ARROW_STREAM,
            nbytes=source.rows.nbytes,
            on_sent=lambda sent: bar.update(sent, stream.rows),
            replayable=source.rows.replayable,
        )
        result = None
        try:
            result = _send(service, request, source, stream, options, table)
        except errors.ResponseError as error:
            if not _refuses_codec(error, request, options):
                raise
            log.info(
                "table %s is sent again without compression: %s", name, error.status
            )
    if result is None:
        plain = dataclasses.replace(options, compression=None)
        return _upload(service, purpose, source, plain, cluster, table)
    if not result.created:
        return _skip(service, purpose)
    return _finish(purpose, source, stream, result, time.monotonic() - start)


def _refuses_codec(
    error: errors.ResponseError, request: Request, options: WriteOptions
) -> bool:
    """Return whether rows that "auto" compressed may be stored if they are not."""
    if options.compression != "auto" or not request.replayable:
        return False
    names_codec = re.search(r"(?i)compress|codec|zstd|lz4", error.message)
    is_refused = error.status in (400, 422) and names_codec is not None
    is_refused = is_refused or error.status == 415
    return is_refused and request.purpose.is_compressed()


def _send(
    service: Service,
    request: Request,
    source: Source,
    stream: IPCStream | ClusterStream,
    options: WriteOptions,
    table: Description | None,
) -> Result:
    purpose = request.purpose
    is_upsert = purpose.operation == UPSERT
    is_whole = isinstance(stream, IPCStream) and _goes_in_one(service, source)
    if not is_upsert and not is_whole:
        return send_in_parts(service, request, source, stream, options.if_exists)
    whole = dataclasses.replace(
        request,
        body=stream,  # type: ignore[arg-type]
        length=stream.length,
    )
    explain = None
    if table is not None:
        explain = functools.partial(
            explain_rows, service, purpose.operation, str(purpose.table), table
        )
    if is_upsert:
        return _send_upsert(service, whole, options, explain)
    return _send_whole(service, whole, options, explain)


def _goes_in_one(service: Service, source: Source) -> bool:
    """Return whether the rows fit into one request, or may not be split."""
    part_bytes = service.dialect.part_bytes
    if not service.splits_writes or part_bytes is None:
        return True
    # a table that is made in parts is there before its rows, which another call would
    # not replace
    if source.where is not None:
        return True
    return source.rows.nbytes is not None and source.rows.nbytes <= part_bytes


def _send_upsert(
    service: Service,
    request: Request,
    options: WriteOptions,
    explain: Callable[[Failure], Explanation] | None,
) -> Result:
    """Send an upsert in one request; stop it if it becomes too large."""
    upsert = dataclasses.replace(
        request, path=request.path + upsert_query(options.opening.keys)
    )
    max_bytes = service.dialect.upsert_bytes
    if max_bytes is not None:
        body = _Limited(request.body, str(request.purpose.table), max_bytes)
        body.check(request.length)
        upsert = dataclasses.replace(upsert, body=body)
    return _send_whole(service, upsert, options, explain)


def _send_whole(
    service: Service,
    request: Request,
    options: WriteOptions,
    explain: Callable[[Failure], Explanation] | None,
) -> Result:
    """Send a write in one request. Raise ValueError if the server cannot do it."""
    try:
        return service.send(request, explain)
    except errors.ResponseError as error:
        purpose = request.purpose
        is_own = purpose.operation in (UPSERT, REPLACE_WHERE)
        if is_own and not _refuses_codec(error, request, options):
            raise_if_unsupported(service, purpose, error)
        raise


@dataclass
class _Limited:
    """The body of an upsert. Raises PayloadTooLarge before it becomes too large."""

    stream: Any
    table: str
    max_bytes: int

    def check(self, nbytes: int | None) -> None:
        """Raise PayloadTooLarge for more bytes than hosted services accept."""
        if nbytes is None or nbytes <= self.max_bytes:
            return
        raise errors.PayloadTooLarge(
            f"could not upsert into table {self.table!r}: an upsert is one request, of "
            f"at most {format_bytes(self.max_bytes)} on this server; no row was stored; "
            "upsert the rows in several calls",
            table=self.table,
        )

    def __iter__(self) -> Generator[Buffers]:
        sent = 0
        with contextlib.closing(iter(self.stream)) as groups:
            for buffers in groups:
                sent += sum(map(len, buffers))
                self.check(sent)
                yield buffers
                del buffers


_DONE = {
    APPEND: "appended to",
    UPSERT: "upserted into",
    REPLACE_WHERE: "replaced rows of",
}


def _finish(
    purpose: Purpose,
    source: Source,
    stream: IPCStream | ClusterStream,
    result: Result,
    seconds: float,
) -> WriteResult:
    """Log a successful write, and return its result."""
    version, updated, inserted, deleted = result.value
    operation = purpose.operation
    is_new = operation not in _DONE
    # a merge reports it, too
    if source.where is None:
        deleted = None
    elif is_new:
        deleted = 0
    facts = [
        count(stream.rows, "row"),
        count(len(source.plan.schema), "column"),
        f"{result.sent} bytes",
    ]
    if updated is not None and inserted is not None:
        facts.append(f"{updated:,} updated and {inserted:,} inserted")
        if updated + inserted > stream.rows:
            log.warning(
                "table %s has several rows with the same key; all of them were updated",
                purpose.table,
            )
    if deleted is not None:
        facts.append(f"{deleted:,} deleted")
    log.info(
        "%s table %s, %s, %.0f ms, %s",
        _DONE.get(operation, f"{operation.name}d"),
        purpose.table,
        ", ".join(facts),
        1000 * seconds,
        result.request_id,
    )
    return WriteResult(
        _schema=source.plan.schema if is_new else None,
        rows=stream.rows,
        nbytes=result.sent,
        version=version,
        created=is_new,
        request_id=result.request_id,
        updated=updated,
        inserted=inserted,
        deleted=deleted,
    )


def _cures(dialect: Dialect, options: WriteOptions) -> Cures:
    """Return cures that only the caller's options allow."""
    cures: dict[type[errors.RemoteError], str] = {}
    if options.if_exists == "fail":
        taken = 'choose another name, or pass if_exists="skip"'
        if dialect.has(REPLACE):
            taken += ', "replace" or "append"'
        cures[errors.TableExistsError] = taken
    if options.compression != "zstd":
        cures[errors.PayloadTooLarge] = (
            'send less in one call, or pass compression="zstd"'
        )
    return cures
