"""Multipart writes: several requests carry the rows, and a last one commits them.

An upload is created, each part is a request with an Arrow stream of its own, and one
last request commits them all. Until that request starts, nothing is visible, so the
whole write can be aborted or restarted; afterwards it never is. No part is sent twice
in one upload. The commit does not know how many parts there were, so the rows of the
version that it reports are counted.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import uuid
from collections.abc import Callable
from dataclasses import replace

from rt_frames import errors
from rt_frames._http.session import Outcome, retry
from rt_frames._protocol.calls import (
    Explanation,
    Failure,
    Request,
    Result,
    Stage,
    upload_query,
)
from rt_frames._protocol.operations import (
    ABORT_PARTS,
    ALTER,
    APPEND,
    BEGIN_PARTS,
    COMMIT_PARTS,
    REPLACE,
    Operation,
)
from rt_frames._protocol.responses import parse_upload
from rt_frames._service.interrupts import version_in
from rt_frames._service.outcome import explained, make_error
from rt_frames._service.service import Service
from rt_frames._stream.ipc import IPCStream
from rt_frames._text import count

log = logging.getLogger("rt_frames")

# best effort: the user may have pressed Ctrl-C because the server hangs
ABORT_SECONDS = 2.0

# bytes sent, and the failure that stopped the rest
Sent = tuple[int, Failure | None]
# the table's version before the write, if it is known, and the rows that were sent
Expected = tuple[int | None, int]


class MultipartUpload:
    """Sends one `Request` in parts.

    Parameters
    ----------
    service : Service
        It supports multipart writes.
    request : Request
        The whole write; its path is for the log alone.
    send : callable
        Sends all parts, given a request with their path.

    Attributes
    ----------
    commit_started : bool
        Whether the commit has started; from then on the upload is never aborted.
    """

    def __init__(
        self,
        service: Service,
        request: Request,
        send: Callable[[Request], Sent],
    ) -> None:
        self._service = service
        self._session = service.session
        self._request = request
        self._dialect = service.dialect
        self._send = send
        # bytes of all attempts
        self._sent = 0
        self.commit_started = False

    def run(
        self,
        explain: Callable[[Failure], Explanation],
        expected: Callable[[], Expected],
    ) -> Result:
        """Send all parts and commit them, with retries if that is safe.

        Afterwards, the rows are counted and compared with the ``expected`` ones.
        """
        outcome = retry(self._attempt, self._request, self._session.retries, how="anew")
        if isinstance(outcome, Result):
            doubt = self._count(version_in(outcome.value), *expected())
            if not doubt:
                return outcome
            outcome = Failure(
                errors.OutcomeUnknown,
                f"table {self._request.purpose.table!r}: {doubt}",
                acted="maybe",
                facts={"request_id": outcome.request_id, "attempts": 1},
            )
        facts = outcome.facts
        if issubclass(outcome.error, errors.TransportError):
            facts["bytes_sent"] = facts.get("bytes_sent", 0) + self._sent
        if outcome.error is errors.ConnectError and self._sent:
            outcome = replace(outcome, error=errors.UploadInterrupted)
        raise make_error(explained(outcome, explain), self._request.purpose)

    def _count(self, version: int | None, before: int | None, rows: int) -> str:
        """Return why a version does not hold the rows that were sent, or ""."""
        if version is None:
            return ""
        if before is not None and version <= before:
            return (
                f"the commit of {count(rows, 'row')} reported version {version}, but the "
                f"table had version {before} before"
            )
        name = str(self._request.purpose.table)
        try:
            found = self._service.count(name, version)
            # of an append, others may have written since it began
            if not self._replaces:
                found -= self._service.count(name, version - 1)
        except errors.TableNotFoundError:
            # the version before is gone
            return ""
        except errors.RemoteError as error:
            log.warning("the rows of table %s were not counted: %s", name, error)
            return ""
        if found == rows:
            return ""
        verb = "has" if self._replaces else "added"
        return f"{count(rows, 'row')} were sent, but version {version} {verb} {found:,}"

    @property
    def _replaces(self) -> bool:
        return self._request.purpose.operation in (REPLACE, ALTER)

    def _attempt(self, request: Request) -> Outcome:
        """Create an upload, send its parts and commit them."""
        self.commit_started = False
        begin = self._control(BEGIN_PARTS, "begin")
        created = self._session.send(replace(begin, parse=parse_upload))
        if isinstance(created, Failure):
            return created
        upload = upload_query(created.value)
        try:
            return self._send_and_commit(request, upload)
        finally:
            if not self.commit_started:
                self._abort(upload)

    def _send_and_commit(self, request: Request, upload: str) -> Outcome:
        path = self._path(APPEND) + upload
        if self._replaces:
            path += "&mode=overwrite"
        sent, failure = self._send(replace(request, path=path))
        self._sent += sent
        if failure is not None:
            return failure
        commit = self._control(COMMIT_PARTS, "commit", upload)
        self.commit_started = True
        try:
            outcome = self._session.send(replace(commit, replayable=False))
        except BaseException:
            # an interrupt may come before the request is whole
            last = request.purpose.last_attempt
            self.commit_started = last is None or last.sent is not None
            raise
        if isinstance(outcome, Result):
            return outcome._replace(sent=sent)
        self.commit_started = not outcome.is_final
        return outcome

    def _control(self, operation: Operation, stage: Stage, query: str = "") -> Request:
        """Return a request about the whole upload, without a body."""
        request = self._request
        return Request(
            request.purpose._replace(stage=stage, is_compressed=bool),
            self._path(operation) + query,
            request.parse,
            body=[[b""]],
            length=0,
            id=request.id,
        )

    def _path(self, operation: Operation) -> str:
        return self._dialect.path(operation, str(self._request.purpose.table))

    def _abort(self, upload: str) -> None:
        """Ask the server to discard the parts, which otherwise expire."""
        request = self._control(ABORT_PARTS, "part", upload)
        for _ in range(2):
            attempt_id = str(uuid.uuid4())
            request = replace(request, max_timeout=ABORT_SECONDS, id=attempt_id)
            outcome = self._session.send(request, retries=0)
            if isinstance(outcome, Result):
                return


def send_parts(
    stream: IPCStream,
    service: Service,
    request: Request,
    partition: int = 0,
) -> Sent:
    """Send a stream in bodies one after the other, as the parts of one partition."""
    sent = 0

    def report(part_sent: int) -> None:
        if request.on_sent is not None:
            request.on_sent(sent + part_sent)

    with contextlib.closing(stream.parts(service.dialect.part_bytes)) as bodies:
        for number, body in enumerate(bodies):
            part = replace(
                request,
                purpose=request.purpose._replace(stage="part"),
                path=f"{request.path}&upload_part_id={part_id(partition, number)}",
                body=body,
                on_sent=report,
                replayable=False,
            )
            outcome = service.session.send(part)
            if isinstance(outcome, Failure):
                return sent, outcome
            sent += outcome.sent
    return sent, None


def part_id(partition: int, number: int) -> uuid.UUID:
    """Return a UUIDv8 (RFC 9562) that sorts by partition and number.

    The rest is random.
    """
    position = partition << 96 | number << 80
    version = 8 << 76
    variant = 0b10 << 62
    random_bits = secrets.randbits(12) << 64 | secrets.randbits(62)
    return uuid.UUID(int=position | version | variant | random_bits)
