"""Send a request, and see how it ended.

An `Ending` says how far the request came, and what was answered;
`rt_frames._protocol.meanings` says what that means, and whether to send it again.
`retry` is the loop, for one request and for a whole multipart write.

There are at most ``retries`` retries, within 60 s. Before the n-th, `retry` waits a
random time of up to 0.5·2ⁿ s (8 s at most), or as long as the server's Retry-After
says.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import math
import os
import random
import re
import ssl
import time
import traceback
from collections.abc import Callable, Iterator

import requests
import urllib3
from requests.exceptions import InvalidProxyURL, InvalidSchema
from requests.structures import CaseInsensitiveDict
from requests.utils import get_environ_proxies, prepend_scheme_if_needed, select_proxy
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProxyError,
    SSLError,
    URLSchemeUnknown,
)
from urllib3.util import parse_url

from rt_frames import errors
from rt_frames._http.arguments import (
    ConnectionOptions,
    Key,
    Secret,
    Secrets,
    find_ca_bundle,
    is_loopback,
)
from rt_frames._http.connection import Adapter
from rt_frames._http.rows import Rows, find_encoding
from rt_frames._http.upload import Upload
from rt_frames._protocol.calls import (
    JSON,
    Failure,
    Request,
    Result,
    find_call,
    find_unknown,
)
from rt_frames._protocol.meanings import (
    Ending,
    How,
    explain,
    explain_unreadable,
)
from rt_frames._protocol.operations import UNREPORTED_ABILITIES
from rt_frames._protocol.responses import (
    ABILITIES_HEADER,
    CALL_HEADER,
    LANCEDB_HEADER,
    MAX_LIST_BYTES,
    SERVER_HEADER,
    SINCE_HEADER,
    Response,
)
from rt_frames._text import make_printable, one_line, shorten
from rt_frames._version import __version__

log = logging.getLogger("rt_frames")

# seconds for all attempts of one request together
RETRY_DEADLINE = 60.0
MAX_RESPONSE_BYTES = 2**20
_BY_PROXY = (ProxyError, InvalidProxyURL, InvalidSchema, URLSchemeUnknown)
_NEVER_CONNECTED = (NewConnectionError, ConnectTimeoutError, SSLError, *_BY_PROXY)
# the words of http.client, before the rest of a proxy's status
_PROXY_WORDS: tuple[tuple[str, How], ...] = (
    ("Tunnel connection failed: 407", "proxy login"),
    ("Tunnel connection failed: 4", "proxy refused"),
)
# the words of OpenSSL, before and since 3.1
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")

Outcome = Result | Failure


class Session:
    """Sends each `Request` to one service.

    Parameters
    ----------
    base : str
        ``https://host[:port]``, without a slash at the end.
    key : Key
        The API key.
    options : ConnectionOptions
        Timeouts, retries, extra headers and certificates; ``verify=True`` lets the
        environment name a CA bundle.

    Attributes
    ----------
    can : frozenset of str
        What responses have shown that the server can do.
    has_answered : bool
        Whether a response was the server's.
    server_version : tuple of int
        Major and minor version of the server, once a response has shown it.
    """

    def __init__(self, base: str, key: Key, options: ConnectionOptions) -> None:
        self.base = base
        self.timeouts = options.timeouts
        self.retries = options.retries
        self.verify = find_ca_bundle(options.verify, base)
        self._key = key
        self._headers = options.headers
        values = options.headers.values()
        secrets = [value for value in values if isinstance(value, Secret)]
        self._secrets = Secrets([key, *secrets])
        # (id of the process, its adapter)
        self._opened: tuple[int, Adapter] | None = None
        self.can: frozenset[str] = frozenset()
        self.has_answered = False
        self.server_version = (0, 0)

    def close(self) -> None:
        """Close all connections. The next request opens new ones."""
        opened = self._opened
        self._opened = None
        if opened is not None:
            opened[1].close()

    def send(self, request: Request, retries: int | None = None) -> Outcome:
        """Send a request, again if that is safe. Return the outcome.

        A service that stores a write once is asked after an unknown outcome.
        """
        if retries is None:
            retries = self.retries
        deadline = min(RETRY_DEADLINE, request.max_timeout)
        outcome = retry(self._attempt, _may_repeat, request, retries, deadline)
        failure = find_unknown(outcome)
        if failure is None or request.since is None:
            return outcome
        asked = find_call(request)
        found = retry(self._attempt, _may_repeat, asked, retries, deadline)
        if isinstance(found, Failure):
            return outcome
        return found._replace(sent=failure.sent)

    def _attempt(self, request: Request) -> Outcome:
        """Make one attempt, and record it for the note of an interrupt."""
        upload = self._new_upload(request)
        last = request.purpose.last_attempt
        if last is None:
            return self._log_attempt(request, upload)
        last.begin(request, lambda: upload.may_be_whole)
        outcome = self._log_attempt(request, upload)
        last.end(outcome)
        return outcome

    def _log_attempt(self, request: Request, upload: Upload) -> Outcome:
        """Make one attempt, and log it."""
        start = time.monotonic()
        status = "no response"
        try:
            stream = self._exchange(request, upload)
            status = str(stream.status_code)
            self._note_server(stream)
            return self._read(request, upload, stream)
        except (OSError, HTTPError, http.client.HTTPException) as error:
            # requests' errors are OSErrors
            if upload.source_error is None:
                return self._explain_no_response(request, upload, error)
            source_error = upload.source_error
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
        # outside the try, so that the request's error does not become its context
        try:
            raise source_error
        finally:
            # a cycle of error and frame would keep the caller's data alive
            del source_error

    def _new_upload(self, request: Request) -> Upload:
        return Upload(
            request.body or (),
            request.length,
            self.timeouts.write,
            request.on_sent,
            request.nbytes,
            timeout_per_read=request.query is not None,
            is_part=request.step in ("begin", "part"),
            complete=request.body is None,
        )

    def _headers_for(self, request: Request) -> dict[str, str]:
        """Return all headers but the key's."""
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
        if request.since is not None:
            headers[CALL_HEADER] = request.id
            headers[SINCE_HEADER] = str(request.since)
        headers.update(request.headers)
        return headers

    def _exchange(self, request: Request, upload: Upload) -> requests.Response:
        """Send the head and body, and read the head of the response."""
        headers = self._headers_for(request)
        url = self.base + request.path
        prepared = requests.Request(request.method, url, headers=headers).prepare()
        if request.body is not None:
            prepared.body = upload  # type: ignore[assignment]  # sent by our own connection
        prepared.headers["x-api-key"] = self._key
        connect = min(self.timeouts.connect, request.max_timeout)
        read = min(self.timeouts.read, request.max_timeout)
        return self._open_adapter().send(
            prepared,
            stream=True,
            timeout=(connect, read),
            verify=self.verify,
            proxies=self._proxies(),
        )

    def _open_adapter(self) -> Adapter:
        """Return this process's adapter: a forked child must not share connections."""
        pid = os.getpid()
        opened = self._opened
        if opened is None or opened[0] != pid:
            opened = pid, Adapter(pool_maxsize=64)
            self._opened = opened
        return opened[1]

    def _read(
        self, request: Request, upload: Upload, stream: requests.Response
    ) -> Outcome:
        """Read the body of a response, or the first rows in it."""
        if request.query and stream.status_code == 200 and upload.complete:
            return self._open_rows(request, stream)
        max_bytes = MAX_RESPONSE_BYTES
        if request.kind == "read" and stream.ok:
            max_bytes = MAX_LIST_BYTES
        with stream:
            response = _read_response(stream, max_bytes)
        # what a read returned is shown only if it cannot be parsed
        is_shown = request.kind != "read" or response.status >= 300
        ending = Ending(
            "answered" if upload.complete else "early",
            sent=upload.sent,
            length=upload.length,
            response=self._redact(response) if is_shown else response,
            retry_after=_parse_retry_after(response),
        )
        failure = explain(request, ending)
        if failure is not None:
            return failure
        try:
            value = request.parse(response)
        except ValueError as error:
            problem = self._secrets.hide(str(error))
            return explain_unreadable(request, self._redact(response), problem)
        return Result(value, request.id, upload.sent)

    def _redact(self, response: Response) -> Response:
        """Return a copy without secrets: a server may echo the key."""
        headers = CaseInsensitiveDict[str]()
        for name, value in response.headers.items():
            headers[name] = self._secrets.hide(value)
        text = self._secrets.hide(
            response.body.decode(json.detect_encoding(response.body), "replace")
        )
        problem = self._secrets.hide(response.problem or "")
        return Response(response.status, headers, text.encode(), problem or None)

    def _open_rows(self, request: Request, stream: requests.Response) -> Outcome:
        """Open a streamed response and read its first batch.

        Later failures raise the request's error.
        """

        def fail(reason: str) -> Exception:
            make_error = request.fail or OSError
            return make_error(self._secrets.hide(reason), request.id)

        try:
            return Result(Rows(stream, fail, request.query or {}), request.id, 0)
        except ValueError as error:
            response = Response(stream.status_code, {}, b"")
            problem = self._secrets.hide(str(error))
            return explain_unreadable(request, response, problem)

    def _explain_no_response(
        self, request: Request, upload: Upload, error: BaseException
    ) -> Failure:
        """Return the failure of an attempt that ended in an error."""
        causes = list(_iter_causes(upload.cause or error))
        try:
            ending = self._find_ending(request, upload, causes)
        finally:
            # the frames form a cycle with the error, and keep the callers' data alive
            for cause in _iter_causes(error):
                traceback.clear_frames(cause.__traceback__)
        failure = explain(request, ending)
        assert failure is not None  # noqa: S101  # nosec B101  # no response, no success
        return failure

    def _find_ending(
        self, request: Request, upload: Upload, causes: list[BaseException]
    ) -> Ending:
        """Return how far a request without a response came."""
        root = causes[-1]
        reason = self._secrets.hide(str(root) or type(root).__name__)
        reason = shorten(make_printable(reason), 200)
        if upload.started:
            how: How = "all sent" if upload.complete else "partly sent"
            return Ending(how, reason, upload.sent, upload.length)
        where = f"{self.base}: {reason}"
        is_proxy = _contains(causes, *_BY_PROXY)
        if is_proxy:
            where = f"proxy {self._proxy()} for {where}"
        if _contains(causes, ssl.SSLCertVerificationError):
            return Ending("certificate", where)
        if is_proxy:
            return Ending(_find_how(reason), where)
        if request.kind == "read" and not _contains(causes, *_NEVER_CONNECTED):
            return Ending("all sent", f"no response from {self.base} ({reason})")
        if any(words in reason for words in _NO_TLS):
            return Ending("no TLS", where)
        return Ending("unsent", where)

    def _proxy(self) -> str:
        """Return the proxy, without user and password."""
        proxy = select_proxy(self.base, get_environ_proxies(self.base)) or ""
        return proxy.rpartition("@")[2].rpartition("://")[2]

    def _note_server(self, stream: requests.Response) -> None:
        """Note what the headers say that the server can do.

        What was seen is kept: a proxy's own responses have no such header.
        """
        # of a server error, a proxy's
        if stream.status_code < 500:
            self.has_answered = True
        can = stream.headers.get(ABILITIES_HEADER)
        if can is not None:
            self.can = frozenset(can.split())
        elif SERVER_HEADER in stream.headers:
            self.can = frozenset(UNREPORTED_ABILITIES)
        version = stream.headers.get(LANCEDB_HEADER, "")
        match = re.match(r"(\d{1,9})\.(\d{1,9})\.", version)
        if match:
            self.server_version = (int(match[1]), int(match[2]))

    def _proxies(self) -> dict[str, str]:
        """Return the environment's proxies, for https only.

        A proxy could read the key in plain http.
        """
        if is_loopback(self.base) or not self.base.startswith("https:"):
            return {}
        proxies = get_environ_proxies(self.base)
        proxy = select_proxy(self.base, proxies)
        if not proxy:
            return proxies
        # the error would show the proxy's password
        with contextlib.suppress(ValueError, TypeError):
            if parse_url(prepend_scheme_if_needed(proxy, "http")).host:  # type: ignore[no-untyped-call]
                return proxies
        raise InvalidProxyURL("not a URL")


def retry(
    attempt: Callable[[Request], Outcome],
    may_repeat: Callable[[Failure, Request], bool],
    request: Request,
    retries: int,
    deadline: float = math.inf,
) -> Outcome:
    """Make attempts until one succeeds or must not be retried.

    The outcome is unknown if that of any attempt is, unless a later one settles it.
    """
    start = time.monotonic()
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
        if attempts > retries or is_late or not may_repeat(outcome, request):
            # an error that says that nothing was sent is one of all attempts
            is_unsent = outcome.error in (errors.ConnectError, errors.TLSError)
            if partly is not None and is_unsent:
                outcome = partly
            outcome = unknown or outcome
            outcome.facts.update(request_id=request.id, attempts=attempts)
            return outcome
        _log_retry(request, outcome, pause)
        time.sleep(pause)


def _log_retry(request: Request, failure: Failure, pause: float) -> None:
    reason = one_line(failure.text, 300)
    # a server may echo the request, so only its status is logged
    status = failure.facts.get("status")
    if status:
        reason = f"status {status}"
    log.info(
        "%s %s is retried in %.1f s: %s", request.method, request.path, pause, reason
    )


def _may_repeat(failure: Failure, request: Request) -> bool:
    is_replayable = failure.repeat == "again" and request.replayable
    return failure.repeat == "always" or is_replayable


def _read_response(response: requests.Response, max_bytes: int) -> Response:
    """Read a body of at most ``max_bytes``. The connection has the deadline."""
    body = bytearray()
    problem = None
    encoding = find_encoding(response.headers)
    if encoding:
        problem = f"it is encoded as {encoding!r:.40}"
    try:
        while problem is None:
            piece = response.raw.read1(2**16, decode_content=False)
            if not piece:
                break
            body += piece
            if len(body) > max_bytes:
                problem = f"it is longer than {max_bytes // 2**20} MiB"
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        problem = f"it was interrupted ({type(error).__name__})"
    return Response(
        response.status_code, response.headers, bytes(body[:max_bytes]), problem
    )


def _parse_retry_after(response: Response) -> float | None:
    """Return the seconds that the service asks to wait, or None."""
    header = response.headers.get("Retry-After", "").strip()
    # urllib3 shortens waits to six hours (2.8), and 2.3 reads numbers of any length
    if re.fullmatch(r"\d{1,9}", header):
        return float(header)
    try:
        return float(urllib3.Retry().parse_retry_after(header))
    except (urllib3.exceptions.InvalidHeader, ValueError, TypeError, OverflowError):
        return None


def _find_how(reason: str) -> How:
    """Return how a proxy failed."""
    for words, how in _PROXY_WORDS:
        if words in reason:
            return how
    return "proxy failed"


def _iter_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Walk from an error to its cause through those of requests and urllib3."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = _find_cause(error)


def _find_cause(error: BaseException) -> BaseException | None:
    candidates = [getattr(error, "reason", None), *error.args]
    candidates.append(error.__cause__)
    if not error.__suppress_context__:
        candidates.append(error.__context__)
    for candidate in candidates:
        if isinstance(candidate, BaseException):
            return candidate
    return None


def _contains(causes: list[BaseException], *classes: type[BaseException]) -> bool:
    return any(isinstance(cause, classes) for cause in causes)
