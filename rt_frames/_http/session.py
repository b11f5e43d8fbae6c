"""Send a request, and see how it ended.

An `Ending` says how far the request came, and what was answered;
`rt_frames._protocol.meanings` says what that means, and whether to send it again.
`retry` is the loop, for one request and for a whole multipart write.

There are at most ``retries`` retries, within 60 s; the attempts of a multipart write
may take longer, but not its waits. Before the n-th, `retry` waits a random time of up
to 0.5·2ⁿ s (8 s at most), or as long as the server's Retry-After says.
"""

from __future__ import annotations

import logging
import math
import random
import re
import time
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import unquote

from requests.structures import CaseInsensitiveDict

from rt_frames import errors
from rt_frames._http.arguments import ConnectionOptions, Secrets, Timeouts
from rt_frames._http.rows import Rows, find_encoding
from rt_frames._http.transport import Head, Reply, ReplyError, Transport
from rt_frames._http.upload import Upload
from rt_frames._protocol.calls import (
    JSON,
    Failure,
    Request,
    Result,
    find_unknown,
)
from rt_frames._protocol.meanings import Ending, explain, explain_unreadable
from rt_frames._protocol.responses import (
    LANCEDB_HEADER,
    MAX_LIST_BYTES,
    Response,
    Token,
    decode_text,
)
from rt_frames._text import one_line
from rt_frames._version import __version__

log = logging.getLogger("rt_frames")

# seconds for all attempts of one request together, and for all waits of a call
RETRY_DEADLINE = 60.0
MAX_RESPONSE_BYTES = 2**20

Outcome = Result | Failure


class Session:
    """Sends each `Request` to one service.

    Parameters
    ----------
    transport : Transport
        What answers.
    options : ConnectionOptions
        Timeouts, retries and extra headers.
    secrets : Secrets
        What no error may show.

    Attributes
    ----------
    server_version : tuple of int
        Major and minor version of the server, once a response has shown it.
    """

    def __init__(
        self, transport: Transport, options: ConnectionOptions, secrets: Secrets
    ) -> None:
        self.transport = transport
        self.timeouts = options.timeouts
        self.retries = options.retries
        self._headers = options.headers
        self._secrets = secrets
        self.server_version = (0, 0)

    def close(self) -> None:
        """Close all connections. The next request opens new ones."""
        self.transport.close()

    def send(self, request: Request, retries: int | None = None) -> Outcome:
        """Send a request, again if that is safe. Return the outcome."""
        if retries is None:
            retries = self.retries
        deadline = min(RETRY_DEADLINE, request.max_timeout)
        return retry(self._attempt, request, retries, deadline)

    def _attempt(self, request: Request) -> Outcome:
        """Make one attempt, and record it for the note of an interrupt."""
        upload = self._new_upload(request)
        last = request.purpose.last_attempt
        if last is None:
            return self._log_attempt(request, upload)
        last.begin(
            request.purpose,
            lambda: upload.may_be_whole,
            lambda: self._find_late(request, upload),
        )
        outcome = self._log_attempt(request, upload)
        last.end(outcome)
        return outcome

    def _find_late(self, request: Request, upload: Upload) -> Outcome | None:
        """Return the outcome of an interrupted attempt, or None if it is unknown."""
        reply = upload.find_reply()
        return None if reply is None else self._read(request, upload, reply)

    def _log_attempt(self, request: Request, upload: Upload) -> Outcome:
        """Make one attempt, and log it."""
        start = time.monotonic()
        status = "no response"
        try:
            reply = self.transport.send(self._head(request), upload)
            if upload.source_error is None:
                if isinstance(reply, Ending):
                    return self._explain_no_reply(request, reply)
                status = str(reply.status)
                self._note_version(reply)
                return self._read(request, upload, reply)
            raised = upload.source_error
        finally:
            # the error's frames hold the upload
            upload.source_error = None
            log.debug(
                "%s %s %s, %d bytes sent, %.1f ms, %s",
                request.method,
                request.path,
                status,
                upload.sent,
                (time.monotonic() - start) * 1000,
                request.id,
            )
        try:
            raise raised
        finally:
            # a cycle of error and frame would keep the caller's data alive
            del raised

    def _new_upload(self, request: Request) -> Upload:
        return Upload(
            request.body or (),
            request.length,
            self.timeouts.write,
            request.on_sent,
            request.nbytes,
            has_body=request.body is not None,
            timeout_per_read=request.query is not None,
            is_part=request.purpose.stage == "part",
            complete=request.body is None,
        )

    def _head(self, request: Request) -> Head:
        """Return the head, but for what is the transport's own."""
        headers = {
            "User-Agent": f"rt_frames/{__version__}",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
        }
        if request.query is None:
            headers["Accept"] = JSON
        headers.update(self._headers)
        headers["Content-Type"] = request.content_type
        headers["x-request-id"] = request.id
        headers.update(request.headers)
        timeouts = Timeouts(
            min(self.timeouts.connect, request.max_timeout),
            self.timeouts.write,
            min(self.timeouts.read, request.max_timeout),
        )
        return Head(
            request.method, request.path, headers, timeouts, request.purpose.is_read
        )

    def _read(self, request: Request, upload: Upload, reply: Reply) -> Outcome:
        """Read the body of a response, or the first rows in it."""
        if request.query and reply.status == 200 and upload.complete:
            return self._open_rows(request, reply)
        is_read = request.purpose.is_read
        max_bytes = MAX_RESPONSE_BYTES
        if is_read and reply.status < 400:
            max_bytes = MAX_LIST_BYTES
        response = _read_response(reply, max_bytes)
        # what a read returned is shown only if it cannot be parsed
        is_shown = not is_read or response.status >= 300
        ending = Ending(
            "answered" if upload.complete else "early",
            sent=upload.sent,
            length=upload.length,
            response=self._redact(response) if is_shown else response,
            retry_after=_parse_retry_after(response),
            is_certain=self.transport.is_certain,
            is_open=request.has_open_body,
            has_size=upload.size is not None,
        )
        failure = explain(request.purpose, ending)
        if failure is not None:
            return failure
        try:
            value = request.parse(response)
            self._check_tokens(value)
        except ValueError as error:
            problem = self._secrets.hide(str(error))
            return explain_unreadable(request.purpose, self._redact(response), problem)
        return Result(value, request.id, upload.sent - upload.framing)

    def _check_tokens(self, value: object) -> None:
        """Raise ValueError for a token, sent back in a URL, that holds a secret."""
        for part in value if isinstance(value, tuple) else (value,):
            if not isinstance(part, Token):
                continue
            text = unquote(part)
            if self._secrets.hide(text) != text:
                raise ValueError(
                    "a token or id in the response contains the API key, or the value of "
                    "an extra header, which would be logged; report this to the operator"
                )

    def _redact(self, response: Response) -> Response:
        """Return a copy without secrets: a server may echo the key."""
        headers = CaseInsensitiveDict[str]()
        for name, value in response.headers.items():
            headers[name] = self._secrets.hide(value)
        text = self._secrets.hide(decode_text(response))
        problem = self._secrets.hide(response.problem or "")
        return Response(response.status, headers, text.encode(), problem or None)

    def _open_rows(self, request: Request, reply: Reply) -> Outcome:
        """Open a streamed response and read its first batch."""
        purpose = request.purpose
        # a folder says itself what to do
        cure = "" if self.transport.is_certain else "; read it again"

        def fail(reason: str) -> errors.TransportError:
            return errors.TransportError(
                f"could not {purpose.action}: {self._secrets.hide(reason)}{cure}",
                table=purpose.table,
                request_id=request.id,
            )

        try:
            return Result(Rows(reply, fail, request.query or {}), request.id, 0)
        except ReplyError as error:
            reason = self._secrets.hide(str(error))
            return self._explain_no_reply(request, Ending("all sent", reason))
        except ValueError as error:
            response = Response(reply.status, {}, b"")
            problem = self._secrets.hide(str(error))
            return explain_unreadable(purpose, response, problem)

    def _explain_no_reply(self, request: Request, ending: Ending) -> Failure:
        """Return the failure of an attempt without a response."""
        failure = explain(request.purpose, ending)
        assert failure is not None  # noqa: S101  # nosec B101  # no response, no success
        return failure

    def _note_version(self, reply: Reply) -> None:
        """Note the server's version, which a proxy's own responses do not have."""
        version = reply.headers.get(LANCEDB_HEADER, "")
        match = re.match(r"(\d{1,9})\.(\d{1,9})\.", version)
        if match:
            self.server_version = (int(match[1]), int(match[2]))


def retry(
    attempt: Callable[[Request], Outcome],
    request: Request,
    retries: int,
    deadline: float = math.inf,
    how: Literal["again", "anew"] = "again",
) -> Outcome:
    """Make attempts until one succeeds or must not be retried.

    The outcome is unknown if that of any attempt is. A whole multipart write, which
    begins "anew", needs its source for each attempt.
    """
    start = time.monotonic()
    waited = 0.0
    attempts = 0
    unknown = None
    partly = None
    while True:
        outcome = attempt(request)
        attempts += 1
        if isinstance(outcome, Result):
            return outcome
        unknown = find_unknown(outcome, unknown)
        if outcome.sent:
            partly = outcome
        pause = outcome.retry_after
        if pause is None:
            pause = random.uniform(0, 0.5 * 2 ** min(attempts, 4))  # noqa: S311  # nosec B311  # jitter needs no cryptographic randomness
        is_late = time.monotonic() + pause - start > deadline
        is_late = is_late or waited + pause > RETRY_DEADLINE
        if attempts > retries or is_late or not _may_repeat(outcome, request, how):
            # an error that says that nothing was sent is one of all attempts
            is_unsent = outcome.error in (errors.ConnectError, errors.TLSError)
            if partly is not None and is_unsent:
                outcome = partly
            outcome = unknown or outcome
            outcome.facts.update(request_id=request.id, attempts=attempts)
            return outcome
        _log_retry(request, outcome, pause)
        time.sleep(pause)
        waited += pause


def _log_retry(request: Request, failure: Failure, pause: float) -> None:
    reason = one_line(failure.text, 300)
    # a server may echo the request, so only its status is logged
    status = failure.facts.get("status")
    if status:
        reason = f"status {status}"
    log.info(
        "%s %s is retried in %.1f s: %s", request.method, request.path, pause, reason
    )


def _may_repeat(failure: Failure, request: Request, how: str) -> bool:
    if failure.repeat == "always" and how == "again":
        return True
    return request.replayable and failure.repeat in ("always", how)


def _read_response(reply: Reply, max_bytes: int) -> Response:
    """Read a body of at most ``max_bytes``. The connection has the deadline."""
    body = bytearray()
    problem = None
    encoding = find_encoding(reply.headers)
    if encoding:
        problem = f"it is encoded as {encoding!r:.40}"
    try:
        while problem is None:
            piece = reply.read(2**16)
            if not piece:
                break
            body += piece
            if len(body) > max_bytes:
                problem = f"it is longer than {max_bytes // 2**20} MiB"
    except ReplyError as error:
        problem = f"it was interrupted: {error}"
    finally:
        reply.close()
    return Response(reply.status, reply.headers, bytes(body[:max_bytes]), problem)


def _parse_retry_after(response: Response) -> float | None:
    """Return the seconds that the service asks to wait, or None."""
    header = response.headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d{1,9}", header):
        return float(header)
    try:
        # urllib3 shortens waits to six hours (2.8)
        moment = parsedate_to_datetime(header)
        # HTTP's oldest form has no zone
        moment = moment.replace(tzinfo=moment.tzinfo or UTC)
        return max(moment.timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
