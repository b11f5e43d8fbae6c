"""Multipart writes: several requests carry the rows, and a last one commits them.

An upload is created, each part is a request with an Arrow stream of its own, and one
last request commits them all. Until that request starts, nothing is visible, so the
whole write can be aborted or restarted; afterwards it never is. No part is sent twice
in one upload.
"""

from __future__ import annotations

import contextlib
import secrets
import uuid
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from urllib.parse import quote

from rt_frames import errors
from rt_frames._http.dialects import Dialect
from rt_frames._http.failures import explain_safely
from rt_frames._http.request import (
    JSON,
    STORED_NOTHING,
    Failure,
    Outcome,
    Request,
    Result,
)
from rt_frames._http.response import parse_upload_id
from rt_frames._http.session import Session, retry
from rt_frames._http.upload import Buffers

# best effort: the user may have pressed Ctrl-C because the server hangs
ABORT_SECONDS = 2.0
# before the commit a conflict is about the upload: a proxy may have sent a part twice
_TRANSIENT = (
    errors.TransportError,
    errors.ServerError,
    errors.RateLimited,
    errors.TableNotFoundError,
    errors.ConflictError,
)

# bytes sent, and the failure that stopped the rest
Sent = tuple[int, Failure | None]


class MultipartUpload:
    """Sends one `Request` in parts.

    Parameters
    ----------
    session : Session
        Of a server that supports multipart writes.
    request : Request
        The whole write; its path is for the log alone.
    dialect : Dialect
        Has the paths.
    send : callable
        Sends all parts, given a request with their path.
    etag : str, optional
        Of the table, if nobody may have changed it before the commit.

    Attributes
    ----------
    commit_started : bool
        Whether the commit has started; from then on the upload is never aborted.
    """

    def __init__(
        self,
        session: Session,
        request: Request,
        dialect: Dialect,
        send: Callable[[Request], Sent],
        etag: str | None = None,
    ) -> None:
        self._session = session
        self._request = request
        self._dialect = dialect
        self._send = send
        self._condition = {"If-Match": etag} if etag else {}
        # bytes of all attempts
        self._sent = 0
        self.commit_started = False

    def run(self, explain_outcome: Callable[[Failure], str]) -> Result:
        """Send all parts and commit them, with retries if that is safe."""
        outcome = retry(
            self._attempt, self._may_repeat, self._request, self._session.retries
        )
        if isinstance(outcome, Result):
            return outcome
        facts = outcome.facts
        if issubclass(outcome.kind, errors.TransportError):
            facts["bytes_sent"] = facts.get("bytes_sent", 0) + self._sent
        if outcome.kind is errors.ConnectError and self._sent:
            outcome = outcome._replace(kind=errors.UploadInterrupted)
        advice = explain_safely(explain_outcome, outcome)
        raise self._request.purpose.error(outcome.with_advice(advice))

    def _attempt(self, request: Request) -> Outcome:
        """Create an upload, send its parts and commit them."""
        self.commit_started = False
        create = replace(self._control("multipart_create"), parse=parse_upload_id)
        created = self._session.try_send(create)
        if isinstance(created, Failure):
            return created
        upload = f"?upload_id={quote(created.value, safe='')}"
        try:
            return self._send_and_commit(request, upload)
        finally:
            if not self.commit_started:
                self._abort(upload)

    def _send_and_commit(self, request: Request, upload: str) -> Outcome:
        path = self._path("append") + upload
        if request.purpose.operation in ("replace", "alter"):
            path += "&mode=overwrite"
        sent, failure = self._send(replace(request, path=path))
        self._sent += sent
        if failure is not None:
            return failure
        complete = replace(
            self._control("multipart_complete", upload),
            headers=self._condition,
            replayable=False,
            multipart_step="complete",
        )
        self.commit_started = True
        outcome = self._session.try_send(complete)
        if isinstance(outcome, Result):
            return outcome._replace(sent=sent)
        # certainly not committed if it was not sent, or if there was no room
        no_room = outcome.facts.get("status") == STORED_NOTHING
        did_nothing = no_room or outcome.kind is errors.ConnectError
        self.commit_started = not did_nothing
        return outcome

    def _may_repeat(self, failure: Failure, request: Request) -> bool:
        if not request.replayable:
            return False
        if self.commit_started:
            is_conflict = failure.kind is errors.ConflictError
            return is_conflict and request.purpose.operation == "replace"
        is_final = failure.facts.get("status") in (501, STORED_NOTHING)
        return issubclass(failure.kind, _TRANSIENT) and not is_final

    def _control(self, operation: str, query: str = "") -> Request:
        """Return a request about the whole upload, without a body."""
        return replace(
            self._request,
            path=self._path(operation) + query,
            content_type=JSON,
            body=[[b""]],
            length=0,
            on_sent=None,
            replayable=True,
            is_compressed=None,
            multipart_step="part",
        )

    def _path(self, operation: str) -> str:
        return self._dialect.path(operation, str(self._request.purpose.table))

    def _abort(self, upload: str) -> None:
        """Ask the server to discard the parts, which otherwise expire."""
        request = self._control("multipart_abort", upload)
        for _ in range(2):
            attempt_id = str(uuid.uuid4())
            request = replace(request, max_timeout=ABORT_SECONDS, id=attempt_id)
            outcome = self._session.try_send(request, retries=0)
            if isinstance(outcome, Result):
                return


def send_parts(
    bodies: Callable[[], Generator[Iterable[Buffers]]],
    session: Session,
    request: Request,
    partition: int = 0,
) -> Sent:
    """Send bodies one after the other, as the parts of one partition."""
    sent = 0

    def report(part_sent: int) -> None:
        if request.on_sent is not None:
            request.on_sent(sent + part_sent)

    with contextlib.closing(bodies()) as opened:
        for number, body in enumerate(opened):
            part = replace(
                request,
                path=f"{request.path}&upload_part_id={part_id(partition, number)}",
                body=body,
                on_sent=report,
                replayable=False,
                multipart_step="part",
            )
            outcome = session.try_send(part)
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
