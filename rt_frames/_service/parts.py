"""Multipart writes, for data that is larger than one request or of unknown size.

Parts are appended to a table. If it does not exist, an empty table is created first,
and dropped again if the write fails before its commit started.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from typing import TYPE_CHECKING

from rt_frames import errors
from rt_frames._protocol.calls import (
    ARROW_STREAM,
    Explanation,
    Failure,
    Request,
    Result,
)
from rt_frames._protocol.meanings import DROP_EMPTY
from rt_frames._protocol.operations import CREATE
from rt_frames._protocol.responses import Description, parse_version
from rt_frames._service.changes import drop
from rt_frames._service.cluster import ClusterStream
from rt_frames._service.multipart import MultipartUpload, Sent, send_parts
from rt_frames._service.outcome import (
    CHECK_AGAIN,
    MAY_TAKE_EFFECT,
    explain_commit,
)
from rt_frames._service.service import Service
from rt_frames._stream.compression import CompressionPolicy
from rt_frames._stream.ipc import IPCStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rt_frames._stream.source import Source

log = logging.getLogger("rt_frames")

# seconds; the write has failed, and its error should not wait long
CLEAN_UP_SECONDS = 10.0
_NOTHING_STORED = Explanation("nothing was stored")
_EMPTY_LEFT = (
    "table {!r}, created for this write, may still exist; if it is empty, drop it before "
    "sending again"
)


_REPEATED = (
    "it was not listed before: if it is empty, a proxy may have repeated the request; "
    "drop it, and send again"
)


def send_in_parts(
    service: Service,
    request: Request,
    source: Source,
    stream: IPCStream | ClusterStream,
    if_exists: str,
) -> Result:
    """Send all parts and commit them.

    If the table exists, and nothing is to be written to it, ``created`` is False.
    """
    purpose = request.purpose
    created = None
    with _leaving_no_empty_table(service, request):
        if purpose.operation == CREATE or purpose.listed_before is False:
            created = _create_empty(service, request, source, if_exists)
            if created is None and purpose.operation == CREATE:
                return Result(None, "", 0, created=False)
        if isinstance(stream, ClusterStream):
            send: Callable[..., Sent] = stream.send
        else:
            send = functools.partial(send_parts, stream, service)
        return _PartsWrite(service, request, send, created).run(lambda: stream.rows)


@contextlib.contextmanager
def _leaving_no_empty_table(service: Service, request: Request) -> Iterator[None]:
    """Drop the empty table if an interrupt comes just after it was created."""
    try:
        yield
    except errors.RemoteError:
        raise
    except BaseException as error:
        last = request.purpose.last_attempt
        if last is None or last.purpose is None or last.purpose.stage != "empty":
            raise
        # without a response, the note of the interrupt says what to do
        if isinstance(last.outcome, Result):
            created = Description(None, last.outcome.value)
            name = str(request.purpose.table)
            state = _drop_empty(service, name, created)
            if state == _NOTHING_STORED:
                last.clear()
            else:
                error.add_note(f"table {name!r}: {state.found}; {state.cure}")
        raise


class _PartsWrite:
    """One multipart write, which explains its failure and cleans up after it."""

    def __init__(
        self,
        service: Service,
        request: Request,
        send: Callable[..., Sent],
        created: Description | None,
    ) -> None:
        self._service = service
        self._name = str(request.purpose.table)
        self._created = created
        if created is None:
            self._before = service.describe(self._name)
            self._if_unchanged = CHECK_AGAIN
        else:
            self._before = created
            self._if_unchanged = f"{MAY_TAKE_EFFECT}: {DROP_EMPTY}"
        self._upload = MultipartUpload(service, request, send)
        self._is_explained = False
        self._state_after_failure: Explanation | None = None

    def run(self, rows: Callable[[], int]) -> Result:
        """Send all parts and commit them. Afterwards, the ``rows`` are counted."""
        try:
            return self._upload.run(
                self._explain_outcome, lambda: (self._before.version, rows())
            )
        except BaseException as error:
            # including errors of the source, and Ctrl-C
            self._tell_state(error)
            raise

    def _explain_outcome(self, failure: Failure) -> Explanation:
        self._is_explained = True
        if failure.acted == "no":
            return self._clean_up()
        return explain_commit(
            self._service,
            self._name,
            self._before,
            if_unchanged=self._if_unchanged,
        )

    def _tell_state(self, error: BaseException) -> None:
        """Add the state of the table to an error that does not report it."""
        if self._is_explained or self._upload.commit_started:
            return
        state = self._clean_up()
        if state != _NOTHING_STORED:
            error.add_note(f"table {self._name!r}: {state.found}; {state.cure}")

    def _clean_up(self) -> Explanation:
        """Drop the empty table, once. Return the table's state, with a cure if any."""
        if self._state_after_failure is None:
            self._state_after_failure = _drop_empty(
                self._service,
                self._name,
                self._created,
                may_drop=not self._upload.commit_started,
            )
        return self._state_after_failure


def _create_empty(
    service: Service, request: Request, source: Source, if_exists: str
) -> Description | None:
    """Create the empty table for the parts. None if it exists, which is allowed."""
    name = str(request.purpose.table)
    create = _empty_request(service, request, source, if_exists)
    try:
        result = service.send(create, _explain_create)
    except errors.TableExistsError as error:
        if if_exists != "replace":
            raise
        exists = _exists(service, name)
        if exists is None:
            raise
        if not exists:
            raise name_blocked(error, name) from None
        return None
    except (errors.OutcomeUnknown, errors.ServerError) as error:
        adds_rows = if_exists in ("append", "upsert") and source.rows.replayable
        is_welcome = adds_rows or if_exists == "replace"
        if not is_welcome or not _exists(service, name):
            raise
        if adds_rows:
            raise errors.TableExistsError(str(error), table=name) from None
        return None
    if not result.created:
        return None
    return Description(source.plan.schema, result.value)


def _empty_request(
    service: Service, request: Request, source: Source, if_exists: str
) -> Request:
    """Return the request that creates a table with the columns of a write."""
    name = str(request.purpose.table)
    empty = IPCStream(source.without_rows(), CompressionPolicy(None, None, 0))
    purpose = request.purpose._replace(
        operation=CREATE, stage="empty", is_compressed=bool
    )
    if if_exists == "fail" and purpose.listed_before is False:
        purpose = purpose._replace(
            cures={**purpose.cures, errors.TableExistsError: _REPEATED}
        )
    return Request(
        purpose,
        service.dialect.path(CREATE, name),
        parse_version,
        content_type=ARROW_STREAM,
        body=empty,
        length=empty.length,
        replayable=request.replayable,
    )


def _explain_create(failure: Failure) -> Explanation:  # noqa: ARG001  # as all explanations
    return Explanation(
        "no row was sent, but the service may still create the table",
    )


def name_blocked(error: errors.TableExistsError, name: str) -> errors.ConflictError:
    """Return the error for a refused create although the table does not exist."""
    reason = f"{error.status}, {error.message}".rstrip(", ")
    text = (
        f"could not create table {name!r}: {reason}; but no table of that name was "
        "found, so something else may have it; nothing was stored"
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


def _drop_empty(
    service: Service, name: str, created: Description | None, *, may_drop: bool = True
) -> Explanation:
    """Drop the empty table unless somebody changed it. Return the table's state."""
    if created is None:
        return _NOTHING_STORED
    may_exist = Explanation(_NOTHING_STORED.found, _EMPTY_LEFT.format(name))
    known = created.version
    try:
        version = service.describe(name, max_timeout=CLEAN_UP_SECONDS).version
        if None in (version, known):
            return may_exist
        rows = service.count(name, version=version, max_timeout=CLEAN_UP_SECONDS)
        if version != known or rows:
            return Explanation(
                f"{_NOTHING_STORED.found}; somebody else changed table {name!r}, so it "
                "was not dropped"
            )
        if may_drop:
            drop(service, name, max_timeout=CLEAN_UP_SECONDS)
            return _NOTHING_STORED
    except errors.TableNotFoundError:
        return _NOTHING_STORED
    except Exception:
        # must not mask why the write failed
        log.debug("table %s could not be dropped again", name, exc_info=True)
    return may_exist
