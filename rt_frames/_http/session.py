"""Send requests, retry them if that is safe, and classify the outcome.

`retry` is the loop, `_may_repeat` decides, and `failures.py` knows what was sent::

    nothing sent     → retried, always
    part sent        → a read is retried; a create, replace or append is
                       UploadInterrupted, an alter OutcomeUnknown
    all sent         → a read is retried; a write without a response is OutcomeUnknown
    doubtful 2xx     → early, 202 or HTML: a write is OutcomeUnknown;
                       not to be parsed: a read is retried
    429              → retried if the body can be iterated again
    500 502 503 504  → a read is retried; a write is ServerError, its outcome unknown
    anything else    → never retried

There are at most ``retries`` retries, within 60 s. Before the n-th, `retry` waits a
random time of up to 0.5·2ⁿ s (8 s at most), or as long as the server's Retry-After
says. `multipart.py` retries whole multipart writes by the same loop.
"""

from __future__ import annotations

import contextlib
import datetime
import http.client
import logging
import math
import os
import random
import re
import time
import traceback
from collections.abc import Callable

import requests
from requests.exceptions import InvalidProxyURL
from requests.utils import get_environ_proxies, prepend_scheme_if_needed, select_proxy
from urllib3.exceptions import HTTPError
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
from rt_frames._http.dialects import DIALECTS, Dialect
from rt_frames._http.failures import (
    REFUSED_BY_PROXY,
    describe_outcome,
    explain_no_response,
    explain_safely,
    interpret,
    iter_causes,
    reclassify_exists,
)
from rt_frames._http.request import JSON, Failure, Outcome, Purpose, Request, Result
from rt_frames._http.response import MAX_LIST_BYTES, parse_table_names, read_response
from rt_frames._http.rows import Rows
from rt_frames._http.upload import Upload
from rt_frames._text import one_line
from rt_frames._version import __version__

log = logging.getLogger("rt_frames")

# seconds for all attempts of one request together
RETRY_DEADLINE = 60.0
MAX_RESPONSE_BYTES = 2**20
LIST = Purpose("list")


def fresh_headers(version: int | None = None) -> dict[str, str]:
    """Return headers with which LanceDB's servers bypass their cache.

    They then read the newest version, and at least ``version``.
    """
    now = datetime.datetime.now(datetime.UTC)
    headers = {"x-lancedb-min-timestamp": now.isoformat(timespec="microseconds")}
    if version is not None:
        headers["x-lancedb-min-version"] = str(version)
    return headers


class Session:
    """Sends each `Request` to one service.

    Parameters
    ----------
    base : str
        ``https://host[:port]``, without a slash at the end.
    dialect : Dialect
        Has the path of the list of tables.
    key : Key
        The API key.
    options : ConnectionOptions
        Timeouts, retries, extra headers and certificates; ``verify=True`` lets the
        environment name a CA bundle.
    """

    def __init__(
        self,
        base: str,
        dialect: Dialect,
        key: Key,
        options: ConnectionOptions,
    ) -> None:
        self.base = base
        self.timeouts = options.timeouts
        self.retries = options.retries
        self.verify = find_ca_bundle(options.verify, base)
        self._dialect = dialect
        self._key = key
        self._headers = options.headers
        values = options.headers.values()
        secrets = [value for value in values if isinstance(value, Secret)]
        self._secrets = Secrets([key, *secrets])
        # (id of the process, its adapter)
        self._opened: tuple[int, Adapter] | None = None
        # False until a response header shows it
        self.takes_parts = False
        self.is_embedded = False

    def close(self) -> None:
        """Close all connections. The next request opens new ones."""
        opened = self._opened
        self._opened = None
        if opened is not None:
            opened[1].close()

    def list_tables(
        self, retries: int | None = None, before: Purpose = LIST
    ) -> list[str]:
        """List all tables, following pages.

        ``before`` is the write that this check precedes; errors name its table.
        """
        purpose = Purpose("list", before.table, before.rows, before.exhausts_source)
        headers = fresh_headers() if self._dialect.describe else {}
        deadline = time.monotonic() + self.timeouts.read
        first = self._dialect.tables
        separator = "&" if "?" in first else "?"
        path = first
        names: list[str] = []
        tokens: set[str] = set()
        while True:
            request = Request(purpose, path, parse_table_names, "GET", headers=headers)
            result = self.send(request, retries)
            page, token = result.value
            names += page
            if token is None:
                return names
            problem = ""
            if token in tokens:
                problem = "the service returned the same page_token twice; report this to its operator"
            tokens.add(token)
            if time.monotonic() > deadline:
                problem = f"{len(tokens):,} pages took the whole read timeout, {self.timeouts.read:g} s; increase the timeout"
            if problem:
                text = f"could not list tables: {problem}"
                facts = {"status": 200, "request_id": result.request_id, "attempts": 1}
                raise purpose.error(Failure(errors.ResponseError, text, facts))
            path = f"{first}{separator}page_token={token}"

    def send(self, request: Request, retries: int | None = None) -> Result:
        """Send a request, with retries if that is safe. Raise its error if it fails."""
        outcome = self.try_send(request, retries)
        if isinstance(outcome, Result):
            return outcome
        purpose = request.purpose
        if purpose.exist_ok and outcome.kind is errors.TableExistsError:
            listed = self._is_listed(purpose.table)
            if listed:
                return Result(None, request.id, 0, created=False)
            outcome = reclassify_exists(outcome, purpose.table, listed)
        raise self._error(outcome, purpose)

    def try_send(self, request: Request, retries: int | None = None) -> Outcome:
        """Send a request, with retries if that is safe. Return the outcome."""
        if retries is None:
            retries = self.retries
        return retry(self._attempt, _may_repeat, request, retries, RETRY_DEADLINE)

    def _error(self, failure: Failure, purpose: Purpose) -> errors.RemoteError:
        """Make the exception, after checking the list or the server's dialect."""
        status = failure.facts.get("status")
        # a 404 about a table is a TableNotFoundError
        is_other_404 = status == 404 and failure.kind is errors.ResponseError
        lacks_endpoint = is_other_404 or status in (405, 406, 501)
        if lacks_endpoint:
            dialect = self._find_dialect()
            if dialect:
                hint = (
                    "this server offers another API; connect with "
                    f'dialect="{dialect}", or check the URL'
                )
                return purpose.error(failure._replace(hint=hint))
        advice = ""
        if purpose.explain_outcome is not None:
            advice = explain_safely(purpose.explain_outcome, failure)
        elif failure.outcome_unknown:
            advice = self._advise(failure, purpose)
        if lacks_endpoint and not advice:
            advice = "check the URL, or the database, region and domain"
        return purpose.error(failure.with_advice(advice))

    def _advise(self, failure: Failure, purpose: Purpose) -> str:
        """Return the cure if the outcome is unknown."""
        if purpose.is_read:
            return ""
        if purpose.operation == "drop":
            return (
                "wait until the service's time-out is over, then list the tables to see "
                f"whether {purpose.table!r} exists"
            )
        if not purpose.writes_rows:
            return "check the table's columns before sending the change again"
        listed = self._is_listed(purpose.table)
        failure.facts.update(listed=listed, listed_before=purpose.listed_before)
        return describe_outcome(purpose, failure, listed)

    def _is_listed(self, table: str | None) -> bool | None:
        """Return whether a table is listed, or None if the list cannot be read."""
        # must not mask the first failure
        with contextlib.suppress(Exception):
            return table in self.list_tables(retries=0)
        return None

    def _find_dialect(self) -> str | None:
        """Return the dialect in which the server lists its tables, or None.

        It is not looked for if the caller named one.
        """
        if not self._dialect.is_assumed:
            return None
        with contextlib.suppress(Exception):
            for name, other in DIALECTS.items():
                if name == self._dialect.name:
                    continue
                request = Request(LIST, other.tables, parse_table_names, "GET")
                if isinstance(self._attempt(request), Result):
                    return name
        return None

    def _attempt(self, request: Request) -> Outcome:
        """Make one attempt, and record it for the note of an interrupt."""
        upload = self._new_upload(request)
        last = request.purpose.last_attempt
        if last is None:
            return self._log_attempt(request, upload)
        last.begin(request, upload)
        last.outcome = self._log_attempt(request, upload)
        return last.outcome

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
            is_part=request.multipart_step == "part",
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
        if request.purpose.is_read and stream.ok:
            max_bytes = MAX_LIST_BYTES
        with stream:
            response = read_response(stream, max_bytes)
        value = interpret(request, upload, response, self._secrets)
        if isinstance(value, Failure):
            return value
        return Result(value, request.id, upload.sent)

    def _open_rows(self, request: Request, stream: requests.Response) -> Outcome:
        """Open a streamed response and read its first batch.

        Later failures raise this request's errors.
        """
        purpose = request.purpose

        def fail(reason: str) -> errors.RemoteError:
            text = self._secrets.hide(f"could not {purpose.action}: {reason}")
            facts = {"request_id": request.id}
            return purpose.error(Failure(errors.TransportError, text, facts))

        try:
            return Result(Rows(stream, fail, request.query or {}), request.id, 0)
        except ValueError as error:
            text = f"could not {purpose.action}: {error}; check the URL"
            facts = {"status": stream.status_code}
            return Failure(errors.ResponseError, self._secrets.hide(text), facts)

    def _explain_no_response(
        self, request: Request, upload: Upload, error: BaseException
    ) -> Failure:
        try:
            proxy = select_proxy(self.base, get_environ_proxies(self.base)) or ""
            # without user and password
            proxy = proxy.rpartition("@")[2].rpartition("://")[2]
            return explain_no_response(
                request, upload, error, self.base, proxy, self._secrets
            )
        finally:
            # the frames form a cycle with the error, and keep the callers' data alive
            for cause in iter_causes(error):
                traceback.clear_frames(cause.__traceback__)

    def _note_server(self, stream: requests.Response) -> None:
        """Detect an embedded service and multipart support from the headers."""
        self.is_embedded = "x-rt-frames" in stream.headers
        version = stream.headers.get("phalanx-version", "")
        match = re.match(r"(\d{1,9})\.(\d{1,9})\.", version)
        if match:
            is_new = (int(match[1]), int(match[2])) >= (0, 4)
            self.takes_parts = is_new and self._dialect.multipart_create is not None

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
    """Make attempts until one succeeds or must not be retried."""
    start = time.monotonic()
    attempts = 0
    while True:
        outcome = attempt(request)
        attempts += 1
        if isinstance(outcome, Result):
            return outcome
        pause = outcome.facts.get("retry_after")
        if pause is None:
            pause = random.uniform(0, 0.5 * 2 ** min(attempts, 4))  # noqa: S311  # nosec B311  # jitter needs no cryptographic randomness
        is_late = time.monotonic() + pause - start > deadline
        if attempts > retries or is_late or not may_repeat(outcome, request):
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
    if failure.kind is errors.ConnectError:
        return REFUSED_BY_PROXY not in failure.text
    if failure.kind is errors.RateLimited:
        return request.replayable
    is_part = request.multipart_step == "part" and request.replayable
    if not is_part and not request.purpose.is_read:
        return False
    if failure.kind in (errors.TransportError, errors.UploadInterrupted):
        return True
    status = failure.facts.get("status", 0)
    return status in (500, 502, 503, 504) or status // 100 == 2
