"""The shared HTTP session: key, time-outs, retries, and what an answer means.

One explicit loop owns every repetition, and it knows how far the body came::

    nothing sent    → tried again, always
    part sent       → a list is tried again; a create is UploadInterrupted, an alter OutcomeUnknown
    all sent        → a list is tried again; a write without an answer is OutcomeUnknown
    429             → tried again while the body can be made again
    500 502 503 504 → a list is tried again; a write is ServerError, its outcome is open
    anything else   → never tried again

At most ``retries`` repetitions, with full jitter up to 0.5·2ⁿ s (8 s at most) between them, 60 s in all;
the server's Retry-After is obeyed up to 60 s.
"""

from __future__ import annotations

import logging
import os
import random
import time
import traceback
from typing import TYPE_CHECKING, Any

from rt_frames import errors
from rt_frames._http.call import Call, Done
from rt_frames._http.options import Timeouts, is_loopback
from rt_frames._http.response import BODY, Answer, error_of, read_answer
from rt_frames._text import format_bytes
from rt_frames._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import requests

    from rt_frames._http.call import Key
    from rt_frames._http.connection import Upload

log = logging.getLogger("rt_frames")

PATIENCE = 60.0  # seconds for all attempts of one call together
LIST_CAP, ANSWER_CAP = 16 * 2**20, 2**20


class Session:
    """Sends each `Call` to one service.

    Parameters
    ----------
    base : str
        ``https://host[:port]``, without a slash at the end.
    key : Key
        The API key.
    timeout : Timeouts
        Seconds.
    retries : int
        Repetitions after the first attempt.
    headers : dict
        Further headers for every request.
    verify : bool or str
        Whether, or against which CA bundle, the server's certificate is checked.
    """

    def __init__(
        self,
        base: str,
        key: Key,
        timeout: Timeouts,
        retries: int,
        headers: Mapping[str, str],
        verify: bool | str,
    ) -> None:
        self.base, self.timeouts, self.retries, self.verify = base, timeout, retries, verify
        self._key, self._headers = key, dict(headers)
        self._open: tuple[int, requests.Session] | None = None

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def perform(self, call: Call, retries: int | None = None) -> Done:
        """Send a call, again where that is safe; give what its answer says, or raise its error."""
        import uuid

        retries = self.retries if retries is None else retries
        request_id, start, attempt = str(uuid.uuid4()), time.monotonic(), 0
        while True:
            attempt += 1
            outcome = self._attempt(call, request_id)
            if isinstance(outcome, Done):
                return outcome
            pause = _pause(outcome, attempt)
            late = time.monotonic() + pause - start > PATIENCE
            if isinstance(outcome, errors.RemoteError):
                outcome.add(table=call.table, request_id=request_id, rows=call.rows, attempts=attempt)
            if attempt > retries or late or not _may_repeat(outcome, call):
                try:
                    raise outcome
                finally:
                    del outcome  # a frame that holds its own error would hold the caller's data, too
            log.debug("%s %s: %s; again in %.1f s", call.method, call.path, type(outcome).__name__, pause)
            time.sleep(pause)

    def _attempt(self, call: Call, request_id: str) -> Done | BaseException:
        """Send once; errors are given back, not raised, so that none drags the request along as its context."""
        import http.client

        import requests
        import urllib3

        start, answer = time.monotonic(), None
        upload = call.upload() if call.upload else None
        try:
            with self._send(call, upload, request_id) as response:
                answer = read_answer(response, LIST_CAP if call.operation == "list" else ANSWER_CAP)
            value = self._judge(call, upload, answer)
            return value if isinstance(value, BaseException) else Done(value, request_id, upload.sent if upload else 0)
        except (
            requests.RequestException,
            urllib3.exceptions.HTTPError,
            http.client.HTTPException,
            OSError,
        ) as error:
            if upload is not None and upload.source_error is not None:
                return upload.source_error
            try:
                return self._failure(call, upload, error)
            finally:
                _untangle(error)
        finally:
            log.debug(
                "%s %s %s, %d bytes sent, %.1f ms, %s",
                call.method,
                call.path,
                answer.status if answer else "no answer",
                upload.sent if upload else 0,
                (time.monotonic() - start) * 1000,
                request_id,
            )

    def _send(self, call: Call, upload: Upload | None, request_id: str) -> requests.Response:
        import requests

        headers = {
            "User-Agent": f"rt_frames/{__version__}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            **self._headers,
            "Content-Type": call.content_type,
            "x-request-id": request_id,
        }
        prepared = requests.Request(call.method, self.base + call.path, headers=headers).prepare()
        if upload is not None:
            prepared.body = upload  # type: ignore[assignment]  # our connection sends it
            prepared.headers["Content-Length"] = str(upload.length or 0)
        self._key.sign(prepared.headers)
        return self._session().send(
            prepared,
            stream=True,
            timeout=(self.timeouts.connect, self.timeouts.read),
            allow_redirects=False,
            **self._environment(),
        )

    def _session(self) -> requests.Session:
        """Give the shared session of this process; a forked child must not share its parent's connections."""
        if self._open is None or self._open[0] != os.getpid():
            from rt_frames._http.adapter import open_session

            self._open = (
                os.getpid(),
                open_session(fresh=[f"{self.base}/v1/tables/", f"{self.base}/v1/table/"]),
            )
        return self._open[1]

    def _environment(self) -> dict[str, Any]:
        """Take proxies and the CA bundle from the environment, for https alone: a proxy would read plain http."""
        from requests.utils import get_environ_proxies

        verify: bool | str = self.verify
        if not self.base.startswith("https:"):
            return {"verify": verify, "proxies": {}}
        if verify is True:
            verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        proxies = {} if is_loopback(self.base) else get_environ_proxies(self.base)
        return {"verify": verify, "proxies": proxies}

    def _judge(self, call: Call, upload: Upload | None, answer: Answer) -> Any:
        """Tell what an answer means: the value it holds, or an error."""
        if answer.status < 200:
            return self._unknown(call, upload, f"the service's last word was the interim status {answer.status}")
        if answer.status >= 300:
            return error_of(answer, call.operation, call.table, self._key.hide)
        if upload is not None and not upload.complete:
            upload.answered = True
            return self._unknown(call, upload, f"the service answered {answer.status} before it had the whole body")
        if upload is not None and answer.status == 202:
            return self._unknown(call, upload, "the service answered 202, accepted but not done")
        try:
            return call.read(answer)
        except ValueError as error:
            start = self._key.hide(answer.body[:BODY].decode("utf-8", "replace"))
            text = f"could not list tables: {error}; the answer starts with {start[:200]!r}; check the address"
            return errors.ResponseError(text, status=answer.status, message=self._key.hide(str(error)), body=start)

    def _failure(self, call: Call, upload: Upload | None, error: BaseException) -> errors.TransportError:
        """Tell what it means that no answer came: the state of the body decides."""
        import ssl

        cause = upload.cause if upload is not None and upload.cause is not None else error
        chain = list(_chain(cause))
        reason = self._key.hide(_reason(chain[-1]))
        if upload is not None and upload.begun:
            return self._unknown(call, upload, reason)
        where = f"{self.base}: {reason}; nothing was sent"
        if any(isinstance(e, ssl.SSLCertVerificationError) for e in chain):
            return errors.TLSError(
                f"the certificate was not accepted, {where}; check the host name, or give verify=PATH"
            )
        if upload is None and not any(type(e).__name__ in _NEVER_CONNECTED for e in chain):
            return errors.TransportError(f"could not list tables of {self.base}: no answer came ({reason}); try again")
        return errors.ConnectError(f"could not connect, {where}; check the address and the network, then try again")

    def _unknown(self, call: Call, upload: Upload | None, reason: str) -> errors.TransportError:
        if upload is None:
            return errors.TransportError(f"could not list tables: {reason}; try again")
        sent, whole = upload.sent, upload.length
        if call.operation == "create" and not upload.complete and not upload.answered:
            amount = f"{format_bytes(sent)} of {format_bytes(whole)}" if whole else format_bytes(sent)
            text = f"table {call.table!r}: {amount} were sent and the connection broke ({reason})"
            return errors.UploadInterrupted(text, bytes_sent=sent)
        part = "all" if upload.complete else format_bytes(sent)
        text = f"table {call.table!r}: {part} was sent, but no answer tells what became of it ({reason})"
        return errors.OutcomeUnknown(text, bytes_sent=sent)


# by name: requests and urllib3 are imported when the first request is made, not before
_NEVER_CONNECTED = (
    "NewConnectionError",
    "NameResolutionError",
    "ConnectTimeoutError",
    "ConnectTimeout",
    "SSLError",
    "ProxyError",
)


def _may_repeat(outcome: BaseException, call: Call) -> bool:
    if isinstance(outcome, errors.ConnectError):
        return True
    if isinstance(outcome, errors.RateLimited):
        return call.repeatable
    if call.operation != "list" or not isinstance(outcome, errors.TransportError | errors.ResponseError):
        return False
    status = getattr(outcome, "status", 0)
    return status in (500, 502, 503, 504) or status // 100 == 2 or type(outcome) is errors.TransportError


def _pause(outcome: BaseException, attempt: int) -> float:
    asked = getattr(outcome, "retry_after", None)
    return asked if asked is not None else random.uniform(0, min(8.0, 0.5 * 2**attempt))  # noqa: S311  # jitter, no secret


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Walk from an error to its cause, through the wrappings of requests and urllib3."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        inside = [getattr(error, "reason", None), *error.args]
        error = next((e for e in inside if isinstance(e, BaseException)), None) or error.__cause__ or error.__context__


def _untangle(error: BaseException) -> None:
    """Clear the frames that an error went through: those that raised it hold it, a circle that holds all callers."""
    for one in _chain(error):
        traceback.clear_frames(one.__traceback__)


def _reason(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) < 200 else text[:199] + "…"
