"""A multipart write, for data larger than one request may be: all parts become visible at once, or none.

An upload is begun, each part is a request with an Arrow stream of its own, and one last request commits them all. Until
that request begins, nothing is visible, so the whole write can be abandoned or restarted; afterwards it never is. No
part is sent twice in one upload.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import uuid
from collections.abc import Callable, Generator, Iterable
from typing import Literal
from urllib.parse import quote

from rt_frames import errors
from rt_frames._http.dialects import Dialect
from rt_frames._http.response import STORED_NOTHING, Failure, parse_upload_id
from rt_frames._http.session import JSON, Request, Result, Session
from rt_frames._http.upload import Buffers

# the answer is not needed, and Ctrl-C may have come because none arrive
ABORT_SECONDS = 2.0
# before the commit a conflict is about the upload, of which a proxy may have sent a part twice
_MAY_PASS = (
    errors.TransportError,
    errors.ServerError,
    errors.RateLimited,
    errors.TableNotFoundError,
    errors.ConflictError,
)

# bytes sent, and the error that stopped the rest
Sent = tuple[int, Failure | BaseException | None]


class Parts:
    """How a `Request` is sent in parts: what `Session.send` calls in the place of one attempt.

    Parameters
    ----------
    request : Request
        What the parts are of.
    dialect : Dialect
        One of a server that takes parts.
    send : callable
        Sends all parts, given the session, a request with their address, and its id.
    etag : str, optional
        Of the table that the parts are for, if nobody may have changed it.

    Attributes
    ----------
    completing : bool
        Whether the request that makes them visible was begun: from then on nothing is given up.
    """

    def __init__(
        self,
        request: Request,
        dialect: Dialect,
        send: Callable[[Session, Request, str], Sent],
        etag: str | None = None,
    ) -> None:
        self._request = request
        self._dialect = dialect
        self._send = send
        self._condition = {"If-Match": etag} if etag else {}
        # bytes, by all attempts
        self._sent = 0
        self.completing = False

    def attempt(
        self, session: Session, request_id: str
    ) -> Result | Failure | BaseException:
        """Send all parts, and make them visible."""
        self.completing = False
        begun = session.repeat(
            self._empty("multipart_create")._replace(parse=parse_upload_id), request_id
        )
        if not isinstance(begun, Result):
            return self._explain_failure(begun)
        upload = f"?upload_id={quote(begun.value, safe='')}"
        mode = (
            "&mode=overwrite" if self._request.operation in ("replace", "alter") else ""
        )
        path = self._dialect.path("append", str(self._request.table))
        try:
            sent, trouble = self._send(
                session,
                self._request._replace(path=f"{path}{upload}{mode}"),
                request_id,
            )
            self._sent += sent
            if trouble is not None:
                return self._explain_failure(trouble)
            complete = self._empty("multipart_complete", upload, step="complete")
            self.completing = True
            outcome = session.repeat(
                complete._replace(headers=self._condition), request_id
            )
            self.completing = not _is_without_effect(outcome)
        finally:
            if not self.completing:
                self._abort(session, upload)
        return (
            outcome._replace(sent=sent)
            if isinstance(outcome, Result)
            else self._explain_failure(outcome)
        )

    def _empty(
        self,
        operation: str,
        query: str = "",
        step: Literal["part", "complete"] = "part",
    ) -> Request:
        """Return a request about all parts, which has no body."""
        path = self._dialect.path(operation, str(self._request.table)) + query
        replayable = step == "part"
        return self._request._replace(
            path=path,
            content_type=JSON,
            body=[[b""]],
            length=0,
            on_sent=None,
            replayable=replayable,
            step=step,
        )

    def _explain_failure(
        self, outcome: Failure | BaseException
    ) -> Failure | BaseException:
        """Note of a failure how much was sent in all, and whether the write may begin again."""
        if not isinstance(outcome, Failure):
            return outcome
        if issubclass(outcome.kind, errors.TransportError):
            outcome.facts["bytes_sent"] = (
                outcome.facts.get("bytes_sent", 0) + self._sent
            )
        if outcome.kind is errors.ConnectError and self._sent:
            outcome = outcome._replace(kind=errors.UploadInterrupted)
        again = issubclass(outcome.kind, _MAY_PASS) and outcome.facts.get(
            "status"
        ) not in (501, STORED_NOTHING)
        if self.completing:
            again = (
                outcome.kind is errors.ConflictError
                and self._request.operation == "replace"
            )
        return outcome._replace(nothing_done=again)

    def _abort(self, session: Session, upload: str) -> None:
        """Have the parts removed; who cannot be told removes them by itself, in time."""
        request = self._empty("multipart_abort", upload)._replace(
            patience=ABORT_SECONDS
        )
        for _ in range(2):
            if isinstance(
                session.repeat(request, str(uuid.uuid4()), retries=0), Result
            ):
                return


def _is_without_effect(outcome: Result | Failure | BaseException) -> bool:
    """Return whether a commit is certain not to have been made: it was not sent, or there was no room for it."""
    if not isinstance(outcome, Failure):
        return False
    return (
        outcome.kind is errors.ConnectError
        or outcome.facts.get("status") == STORED_NOTHING
    )


def send_parts(
    bodies: Callable[[], Generator[Iterable[Buffers]]],
    session: Session,
    request: Request,
    request_id: str,
    partition: int = 0,
) -> Sent:
    """Send one body after the other, as the parts of one partition of a frame."""
    sent = 0
    with contextlib.closing(bodies()) as opened:
        for number, body in enumerate(opened):
            part = request._replace(
                path=f"{request.path}&upload_part_id={part_id(partition, number)}",
                body=body,
                length=None,
                nbytes=None,
                on_sent=functools.partial(_log_part, request, sent),
                replayable=False,
                step="part",
            )
            outcome = session.repeat(part, request_id)
            if not isinstance(outcome, Result):
                return sent, outcome
            sent += outcome.sent
    return sent, None


def _log_part(request: Request, before: int, sent: int) -> None:
    if request.on_sent is not None:
        request.on_sent(before + sent)


def part_id(partition: int, number: int) -> uuid.UUID:
    """Return an id of version 8 in RFC 9562, whose text sorts by partition and number; the rest of it is drawn."""
    drawn = 0x8 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    return uuid.UUID(int=partition << 96 | number << 80 | drawn)
