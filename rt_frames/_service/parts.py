"""Multipart writes, for data that is larger than one request or of unknown size.

Parts are appended to a table. If it does not exist, an empty table is created first,
and dropped again if the write fails before its commit started.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, NamedTuple

from rt_frames import errors
from rt_frames._frames.compression import CompressionPolicy
from rt_frames._frames.ipc import MIME, IPCStream
from rt_frames._http.multipart import MultipartUpload, Sent, send_parts
from rt_frames._http.request import Failure, Request, Result
from rt_frames._http.response import parse_version
from rt_frames._service.cluster import ClusterStream
from rt_frames._service.outcome import MAY_BE_LATE, MAY_DO_IT, explain_multipart
from rt_frames._service.service import Description, Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from rt_frames._frames.source import Source
    from rt_frames._http.response import Response

log = logging.getLogger("rt_frames")

# seconds; the write has failed, and its error should not wait long
CLEAN_UP_SECONDS = 10.0
_NOTHING_STORED = "nothing of it is stored"
_DROP_LATE = (
    "wait until its time-out is over, drop table {!r} if it is there, and send again"
)
_EMPTY_LEFT = (
    "table {!r}, which was made for it, may be there without rows: drop it before you "
    "send again"
)


class _NewTable(NamedTuple):
    """The empty table that was created for the parts of a write."""

    table: Description
    etag: str | None


def send_in_parts(
    service: Service,
    request: Request,
    source: Source,
    stream: IPCStream | ClusterStream,
    if_exists: str,
) -> Result:
    """Send all parts and commit them."""
    session = service.session
    purpose = request.purpose
    name = str(purpose.table)
    created = None
    if purpose.operation == "create" or purpose.listed_before is False:
        created = _create_empty(service, request, source, if_exists)
        if created is None and purpose.operation == "create":
            return Result(None, "", 0, created=False)
    if isinstance(stream, ClusterStream):
        send: Callable[..., Sent] = stream.send
    else:
        bodies = functools.partial(stream.parts, service.dialect.part_bytes)
        send = functools.partial(send_parts, bodies, session)
    if created is None:
        before = service.describe(name)
        etag = None
        late = MAY_BE_LATE
    else:
        before, etag = created
        late = f"{MAY_DO_IT}: {_DROP_LATE.format(name)}"
    upload = MultipartUpload(session, request, service.dialect, send, etag)
    # both the error and the note below call it
    clean_up = functools.cache(
        functools.partial(_clean_up, service, name, upload, created)
    )
    explain_outcome = functools.partial(
        explain_multipart, service, name, upload, before, clean_up, late=late
    )
    try:
        return upload.run(explain_outcome)
    except BaseException as error:
        # including errors of the source, and Ctrl-C
        if upload.commit_started:
            note = "it is not known whether its rows were made visible"
            already_reported = isinstance(error, errors.RemoteError)
        else:
            note = clean_up()
            already_reported = note == _NOTHING_STORED or note in str(error)
        if not already_reported:
            error.add_note(f"table {name!r}: {note}")
        raise


def _create_empty(
    service: Service, request: Request, source: Source, if_exists: str
) -> _NewTable | None:
    """Create the empty table for the parts. None if it exists, which is allowed."""
    name = str(request.purpose.table)
    create = _empty_request(service, request, source)
    try:
        result = service.session.send(create)
    except errors.TableExistsError as error:
        if if_exists == "fail" and create.purpose.listed_before is False:
            text = (
                f"{error}; it was not listed before: if it is empty, a proxy may have "
                "asked for it twice, so drop it and send again"
            )
            raise errors.TableExistsError(text, **vars(error)) from None
        exists = _exists(service, name) if if_exists == "replace" else None
        if exists is None:
            raise
        if not exists:
            raise not_there(error, name) from None
        return None
    except (errors.OutcomeUnknown, errors.ServerError) as error:
        adds_rows = if_exists in ("append", "upsert") and source.replayable
        is_welcome = adds_rows or if_exists == "replace"
        if not is_welcome or not _exists(service, name):
            raise
        if adds_rows:
            raise errors.TableExistsError(str(error), table=name) from None
        return None
    if not result.created:
        return None
    version, etag = result.value
    return _NewTable(Description(source.schema, version), etag)


def _empty_request(service: Service, request: Request, source: Source) -> Request:
    """Return the request that creates a table with the columns of a write."""
    name = str(request.purpose.table)
    empty = IPCStream(source.without_rows(), CompressionPolicy(None, None, 0))
    purpose = request.purpose._replace(
        operation="create",
        explain_outcome=functools.partial(_explain_create, name),
    )
    return Request(
        purpose,
        service.dialect.path("create", name),
        _parse_created,
        content_type=MIME,
        body=empty,
        length=empty.length,
        replayable=request.replayable,
        multipart_step="empty",
    )


def _explain_create(name: str, failure: Failure) -> str:
    if not failure.outcome_unknown:
        return ""
    advice = _DROP_LATE.format(name)
    return f"no row was sent, but the service may still make the table: {advice}"


def not_there(error: errors.TableExistsError, name: str) -> errors.ConflictError:
    """Return the error for a refused create although the table does not exist."""
    text = (
        f"{error}; there is no table {name!r}, so something else is in the way; "
        "nothing was stored"
    )
    return errors.ConflictError(text, **vars(error))


def _exists(service: Service, name: str) -> bool | None:
    """Return whether a table exists, or None if the service does not say."""
    try:
        service.describe(name)
    except errors.TableNotFoundError:
        return False
    except errors.RemoteError:
        return None
    return True


def _clean_up(
    service: Service, name: str, upload: MultipartUpload, created: _NewTable | None
) -> str:
    """Drop the empty table unless somebody changed it; describe the result."""
    if created is None:
        return _NOTHING_STORED
    known = created.table.version
    try:
        version = service.describe(name, max_timeout=CLEAN_UP_SECONDS).version
        if None in (version, known):
            return f"{_NOTHING_STORED}; {_EMPTY_LEFT.format(name)}"
        rows = service.count(name, version=version, max_timeout=CLEAN_UP_SECONDS)
        if version != known or rows:
            return f"{_NOTHING_STORED}; somebody else has changed table {name!r}, which stays"
        if not upload.commit_started:
            service.drop(name, etag=created.etag, max_timeout=CLEAN_UP_SECONDS)
            return _NOTHING_STORED
    except errors.TableNotFoundError:
        return _NOTHING_STORED
    except Exception:
        # must not mask why the write failed
        log.debug("table %s could not be dropped again", name, exc_info=True)
    return f"{_NOTHING_STORED}; {_EMPTY_LEFT.format(name)}"


def _parse_created(response: Response) -> tuple[int | None, str | None]:
    return parse_version(response), response.headers.get("ETag")
