"""Write a frame: create, replace or append to a table, in one request or in parts.

`write` is the whole journey. Data larger than one part, or of unknown size, go in parts if the service takes them; the
workers of a Dask cluster send their own.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rt_frames import errors
from rt_frames._frames.any_frame import open_source
from rt_frames._frames.compression import (
    Compression,
    CompressionPolicy,
    check_compression,
)
from rt_frames._frames.ipc import MIME, IPCStream
from rt_frames._http.multipart import MultipartUpload, Sent, send_parts
from rt_frames._http.request import Failure, Purpose, Request, Result
from rt_frames._http.response import parse_version
from rt_frames._progress import Progress
from rt_frames._service.cluster import ClusterStream, find_cluster
from rt_frames._service.service import Description, Service
from rt_frames._text import count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from rt_frames._frames.source import Source
    from rt_frames._http.dialects import Dialect
    from rt_frames._http.request import Hint, Hints
    from rt_frames._http.response import Response
    from rt_frames.errors import Operation

log = logging.getLogger("rt_frames")

IfExists = Literal["fail", "skip", "replace", "append"]
# to wait for an answer after a write has failed
CLEAN_UP_SECONDS = 10.0
_REFUSED = (errors.ConflictError, errors.BadRequest, errors.AuthenticationError)
NOTHING_STORED = "nothing of it is stored"
_MAY_DO_IT = "but the service may still do it"
_MAY_BE_LATE = f"{_MAY_DO_IT}: wait until its time-out is over, and check again before you send again"
_CHECK_FIRST = "check whether the rows are there before you send them again"
_DROP_LATE = (
    "wait until its time-out is over, drop table {!r} if it is there, and send again"
)
_EMPTY_LEFT = "table {!r}, which was made for it, may be there without rows: drop it before you send again"
# bytes; before a larger upload, one list request checks address, key and name
LIST_FIRST_ABOVE = 8 * 2**20


class Written(NamedTuple):
    """What became of a write: the fields of a `rt_frames.RemoteTable`."""

    schema: pa.Schema | None = None
    rows: int | None = None
    nbytes: int | None = None
    version: int | None = None
    created: bool | None = None
    request_id: str | None = None


@dataclass(frozen=True)
class WriteOptions:
    """The options of `rt_frames.to_table`."""

    dtypes: Mapping[str, Any] | None
    index: bool | None
    clean_names: bool
    if_exists: IfExists
    compression: Compression
    progress: bool | None


def write(service: Service, name: str, data: Any, how: WriteOptions) -> Written:
    """Store a frame."""
    service.check_name(name)
    service.dialect.check_if_exists(how.if_exists)
    check_compression(how.compression)
    table = _find_table(service, name) if how.if_exists == "append" else None
    return _write(service, name, data, how, table)


def _write(
    service: Service, name: str, data: Any, how: WriteOptions, table: Description | None
) -> Written:
    """Store a frame, as rows of a table or in the place of none."""
    options: dict[str, Any] = {
        "dtypes": how.dtypes,
        "index": how.index,
        "clean_names": how.clean_names,
    }
    options["table"] = table and table.schema
    cluster = find_cluster(service, data, options, how.compression)
    source = open_source(data if cluster is None else cluster.first(), **options)
    operation: Operation = (
        "replace" if how.if_exists == "replace" else "append" if table else "create"
    )
    purpose = Purpose(
        operation,
        name,
        source.rows,
        exhausts_source=isinstance(data, Iterator),
        exist_ok=how.if_exists == "skip",
        hints=_hints(service.dialect, how),
        explain_outcome=functools.partial(explain_failed_append, service, name, table)
        if table
        else None,
    )
    try:
        listed = None if table else _check_name_is_free(service, purpose, source.nbytes)
        if listed and purpose.exist_ok:
            return _skip(service, purpose)
        purpose = purpose._replace(listed_before=listed)
        return _upload(service, purpose, source, how, cluster)
    except errors.TableExistsError as error:
        # created by somebody else meanwhile
        if how.if_exists != "append" or not source.replayable:
            raise
        table = _find_table(service, name)
        if table is None:
            raise _not_there(error, name) from None
    finally:
        source.close()
    return _write(service, name, data, how, table)


def _find_table(service: Service, name: str) -> Description | None:
    """Look up what rows are to be added to; None where there is no such table, and it is made of them."""
    try:
        table = service.describe(name)
    except errors.TableNotFoundError:
        return None
    if table.schema is None:
        raise ValueError(
            f"if_exists: the service does not tell the columns of table {name!r}, to append by name"
        )
    return table


def explain_failed_append(
    service: Service, name: str, before: Description, failure: Failure
) -> str:
    """Say what became of an append in one request."""
    if not failure.outcome_unknown:
        return ""
    # what was cut off is never carried out
    late = (
        "so it is safe to send again"
        if failure.kind is errors.UploadInterrupted
        else _MAY_BE_LATE
    )
    return _compare_versions(service, name, before, late)


def _compare_versions(
    service: Service,
    name: str,
    before: Description,
    late: str,
    check: str = _CHECK_FIRST,
) -> str:
    """Say what a write came to whose outcome is open, as far as versions and numbers of rows tell.

    ``late`` says what to do if nothing is done so far, and ``check`` otherwise.
    """
    try:
        _, version = service.describe(name)
        rows = service.count(name, version=version)
    except errors.TableNotFoundError:
        return f"there is no table {name!r} any more, so nothing of it is stored"
    if version is None:
        return f"its version is not told, and it has {count(rows, 'row')} now; {check}"
    had = service.count(name, version=before.version)
    was = f"it had version {before.version} and {count(had, 'row')} before, and has {version} and {rows:,} now"
    if (version, rows) == (before.version, had):
        return f"{was}: nothing was done so far, {late}"
    return f"{was}: {check}"


def _skip(service: Service, purpose: Purpose) -> Written:
    """Leave the table that is there; one without rows may be what an upload in parts left that was killed."""
    name = str(purpose.table)
    if service.takes_parts and purpose.rows != 0 and not service.count(name):
        text = f"table {name!r} exists and is empty: an upload may be running, or was killed; append to it, or drop it"
        raise purpose.error(Failure(errors.TableExistsError, text, {"attempts": 1}))
    log.info("skipped table %s, which is there already; nothing was stored", name)
    return Written(created=False)


def _check_name_is_free(
    service: Service, purpose: Purpose, nbytes: int | None
) -> bool | None:
    """List before much is sent: a wrong address, key or name costs one small request, not gigabytes."""
    is_small = nbytes is not None and nbytes <= LIST_FIRST_ABOVE
    if is_small and not purpose.exist_ok:
        return None
    listed = purpose.table in service.session.list_tables(before=purpose)
    if listed and purpose.operation == "create" and not purpose.exist_ok:
        text = f"table {purpose.table!r} exists already; nothing was sent"
        raise purpose.error(Failure(errors.TableExistsError, text, {"attempts": 1}))
    return listed


def _upload(
    service: Service,
    purpose: Purpose,
    source: Source,
    how: WriteOptions,
    cluster: ClusterStream | None,
) -> Written:
    policy = CompressionPolicy(
        how.compression, service.link, source.nbytes, is_loopback=service.is_loopback
    )
    stream = (
        cluster
        if cluster is not None and cluster.has_rows
        else IPCStream(source, policy)
    )
    name = str(purpose.table)
    start = time.monotonic()
    with Progress(how.progress, stream.length, name) as bar:
        request = Request(
            purpose,
            service.dialect.path(purpose.operation, name),
            parse_version,
            content_type=MIME,
            nbytes=source.nbytes,
            on_sent=lambda sent: bar.update(sent, stream.rows),
            replayable=source.replayable,
        )
        fits = source.nbytes is not None and source.nbytes <= (
            service.dialect.part_bytes or 0
        )
        if isinstance(stream, IPCStream) and (fits or not service.takes_parts):
            result = service.session.send(
                replace(request, body=stream, length=stream.length)
            )
        else:
            result = _send_in_parts(service, request, source, how, stream)
    if not result.created:
        return _skip(service, purpose)
    size = f"{count(stream.rows, 'row')}, {count(len(source.schema), 'column')}, {result.sent} bytes"
    ms = (time.monotonic() - start) * 1000
    done = "appended to" if purpose.operation == "append" else f"{purpose.operation}d"
    log.info("%s table %s, %s, %.0f ms, %s", done, name, size, ms, result.request_id)
    is_new = purpose.operation != "append"
    schema = source.schema if is_new else None
    return Written(
        schema,
        stream.rows,
        result.sent,
        result.value,
        created=is_new,
        request_id=result.request_id,
    )


class _Made(NamedTuple):
    """A table without rows that a write in parts made for them."""

    table: Description
    etag: str | None


def _make_table(
    service: Service, request: Request, source: Source, how: WriteOptions
) -> _Made | None:
    """Make the table that parts are to fill; None if there is one, which is to be skipped or replaced."""
    name = str(request.purpose.table)
    empty = IPCStream(source.without_rows(), CompressionPolicy(None, None, 0))
    path = service.dialect.path("create", name)
    purpose = request.purpose._replace(
        operation="create",
        explain_outcome=functools.partial(_explain_failed_table, name),
    )
    create = Request(
        purpose,
        path,
        _parse_made,
        content_type=MIME,
        body=empty,
        length=empty.length,
        replayable=request.replayable,
        multipart_step="empty",
    )
    try:
        result = service.session.send(create)
    except errors.TableExistsError as error:
        if how.if_exists == "fail" and purpose.listed_before is False:
            text = f"{error}; it was not listed before: if it is empty, a proxy may have asked for it twice, so drop it"
            raise errors.TableExistsError(
                f"{text} and send again", **vars(error)
            ) from None
        if how.if_exists != "replace":
            raise
        if not _is_there(service, name):
            raise _not_there(error, name) from None
        return None
    except (errors.OutcomeUnknown, errors.ServerError) as error:
        is_welcome = how.if_exists == "replace" or (
            how.if_exists == "append" and source.replayable
        )
        if not is_welcome or not _is_there(service, name):
            raise
        if how.if_exists == "append":
            raise errors.TableExistsError(str(error), table=name) from None
        return None
    if not result.created:
        return None
    version, etag = result.value
    return _Made(Description(source.schema, version), etag)


def _explain_failed_table(name: str, failure: Failure) -> str:
    if not failure.outcome_unknown:
        return ""
    return f"no row was sent, but the service may still make the table: {_DROP_LATE.format(name)}"


def _not_there(error: errors.TableExistsError, name: str) -> errors.ConflictError:
    """Make the error for a create that was refused as if its table existed."""
    text = f"{error}; there is no table {name!r}, so something else is in the way; nothing was stored"
    return errors.ConflictError(text, **vars(error))


def _is_there(service: Service, name: str) -> bool:
    with contextlib.suppress(errors.RemoteError):
        service.describe(name)
        return True
    return False


def _send_in_parts(
    service: Service,
    request: Request,
    source: Source,
    how: WriteOptions,
    stream: IPCStream | ClusterStream,
) -> Result:
    """Send what is too large for one request; where there is no table yet, an empty one is made first."""
    session = service.session
    purpose = request.purpose
    name = str(purpose.table)
    made = None
    if purpose.operation == "create" or purpose.listed_before is False:
        made = _make_table(service, request, source, how)
        if made is None and purpose.operation == "create":
            return Result(None, "", 0, created=False)
    before = made.table if made else service.describe(name)
    if isinstance(stream, ClusterStream):
        send: Callable[..., Sent] = stream.send
    else:
        send = functools.partial(
            send_parts,
            functools.partial(stream.parts, service.dialect.part_bytes),
            session,
        )
    etag = made.etag if made else None
    upload = MultipartUpload(session, request, service.dialect, send, etag)
    end = functools.cache(functools.partial(_end_parts, service, name, upload, made))
    late = f"{_MAY_DO_IT}: {_DROP_LATE.format(name)}" if made else _MAY_BE_LATE
    explain_outcome = functools.partial(
        explain_failed_parts, service, name, upload, before, end, late=late
    )
    try:
        return upload.run(explain_outcome)
    except BaseException as error:
        # including the source's, and Ctrl-C
        told = isinstance(error, errors.RemoteError) and upload.commit_started
        said = (
            "it is not known whether its rows were made visible"
            if upload.commit_started
            else end()
        )
        if not told and said != NOTHING_STORED and said not in str(error):
            error.add_note(f"table {name!r}: {said}")
        raise


def explain_failed_parts(
    service: Service,
    name: str,
    upload: MultipartUpload,
    before: Description,
    end: Callable[[], str],
    failure: Failure,
    *,
    late: str = _MAY_BE_LATE,
    check: str = _CHECK_FIRST,
) -> str:
    """Say what became of a write in parts that failed; once its end was asked for, it may have been done."""
    if not upload.commit_started or failure.kind in _REFUSED:
        return end()
    try:
        return _compare_versions(service, name, before, late, check)
    except errors.RemoteError:
        return f"its outcome could not be looked at, {late}"


def _end_parts(
    service: Service, name: str, upload: MultipartUpload, made: _Made | None
) -> str:
    """Say that nothing is stored; an empty table that was made for it is dropped, if nobody has changed it."""
    if made is None:
        return NOTHING_STORED
    try:
        version = service.describe(name, max_timeout=CLEAN_UP_SECONDS).version
        if None in (version, made.table.version):
            return f"{NOTHING_STORED}; {_EMPTY_LEFT.format(name)}"
        rows = service.count(name, version=version, max_timeout=CLEAN_UP_SECONDS)
        if version != made.table.version or rows:
            return f"{NOTHING_STORED}; somebody else has changed table {name!r}, which stays"
        if not upload.commit_started:
            service.drop(name, etag=made.etag, max_timeout=CLEAN_UP_SECONDS)
            return NOTHING_STORED
    except errors.TableNotFoundError:
        return NOTHING_STORED
    except Exception:
        # must not mask why the write failed
        log.debug("table %s could not be dropped again", name, exc_info=True)
    return f"{NOTHING_STORED}; {_EMPTY_LEFT.format(name)}"


def _parse_made(response: Response) -> tuple[int | None, str | None]:
    return parse_version(response), response.headers.get("ETag")


def _hints(dialect: Dialect, how: WriteOptions) -> Hints:
    """Return what a caller can do about errors of a create, beside what was tried."""
    hints: dict[type[errors.RemoteError], Hint] = {}
    if how.if_exists == "fail":
        taken = "choose another name, or pass {} to leave the table as it is"
        if dialect.replace:
            taken += ', "replace" to replace all its rows, or "append" to add these'
        hints[errors.TableExistsError] = taken, {"if_exists": "skip"}
    if how.compression != "zstd":
        hints[errors.PayloadTooLarge] = "{} makes it smaller", {"compression": "zstd"}
    return hints
