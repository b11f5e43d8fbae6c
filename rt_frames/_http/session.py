"""The shared HTTP session: key, timeouts, retries, and the outcome of each attempt.

One explicit loop owns every retry, and it knows how much of the body was sent::

    nothing sent      → tried again, always
    part sent         → a read is tried again; a create or replace is UploadInterrupted, an alter OutcomeUnknown
    all sent          → a read is tried again; a write without an answer is OutcomeUnknown
    2xx all the same  → where it came early, is a 202 or a web page, a write is OutcomeUnknown;
                        where it cannot be understood, a read is tried again
    429               → tried again while the body can be made again
    500 502 503 504   → a read is tried again; a write is ServerError, its outcome is open
    anything else     → never tried again

At most ``retries`` repetitions, with full jitter up to 0.5·2ⁿ s (8 s at most) between them, 60 s in all;
the server's Retry-After is obeyed up to 60 s.
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
import ssl
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import requests
from requests.exceptions import InvalidProxyURL, InvalidSchema
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
from rt_frames._http.connection import Adapter
from rt_frames._http.dialects import DIALECTS, Dialect
from rt_frames._http.options import (
    Key,
    Secret,
    Secrets,
    Timeouts,
    find_ca_bundle,
    is_loopback,
)
from rt_frames._http.response import (
    READS,
    Failure,
    Hints,
    Response,
    explain_refusal,
    explain_unreadable,
    find_doubt,
    find_message,
    parse_table_names,
    read_response,
)
from rt_frames._http.rows import Rows
from rt_frames._http.upload import Buffers, Upload
from rt_frames._text import Message, format_bytes, make_printable, one_line, shorten
from rt_frames._version import __version__

log = logging.getLogger("rt_frames")

JSON = "application/json"
# seconds for all attempts of one request together
RETRY_DEADLINE = 60.0
MAX_LIST_BYTES = 16 * 2**20
MAX_ANSWER_BYTES = 2**20
# of a commit that may have been carried out when a proxy asked for it first
_ASKED_TWICE = (404, 413, 429)
# http.client's message, before the rest of the status
_REFUSED_BY_PROXY = "Tunnel connection failed: 4"
_BY_PROXY = (ProxyError, InvalidProxyURL, InvalidSchema, URLSchemeUnknown)
_NEVER_CONNECTED = (NewConnectionError, ConnectTimeoutError, SSLError, *_BY_PROXY)


class Request(NamedTuple):
    """One request as a value: what is asked, and how a successful answer is read.

    Parameters
    ----------
    operation, table : str
        What errors and messages speak of.
    method, path, content_type : str
        As HTTP has them.
    parse : callable
        Gives the value in a successful answer, or raises a ValueError.
    body : iterable of groups of buffers, optional
        What is sent, iterated again for each attempt.
    length : int, optional
        Its bytes; where that is not known, it goes chunked.
    nbytes : int, optional
        About how many, where the length is not known.
    on_sent : callable, optional
        Told after each piece how many bytes were sent so far.
    replayable : bool
        Whether the body can be iterated again.
    rows : int, optional
        What errors tell.
    used_up : bool
        Whether the source of the body could be read once only.
    listed_before : bool, optional
        Whether the table was listed before, where the caller looked.
    may_be_there : bool
        Whether a table that is there already is as welcome as a new one.
    streams : dict, optional
        A query, whose answer is rows, which are read as they come.
    headers : dict of str to str
        Further ones.
    step : str
        Of a write in parts: the "empty" table that it begins with, or a "part", which nobody sees before "complete".
    patience : float
        Seconds for its answer, where that is less than anybody asked for.
    attempt : callable, optional
        How it is sent, where that takes several requests: called with the session and the request's id.
    look : callable, optional
        Says what became of it when it failed, or nothing.
    hints : dict of error to hint
        What the caller can do about some errors: the arguments of a `Message` after its text.
    """

    operation: errors.Operation
    method: str
    path: str
    content_type: str
    parse: Callable[[Response], Any]
    table: str | None = None
    body: Iterable[Buffers] | None = None
    length: int | None = None
    nbytes: int | None = None
    on_sent: Callable[[int], None] | None = None
    replayable: bool = True
    rows: int | None = None
    used_up: bool = False
    listed_before: bool | None = None
    may_be_there: bool = False
    streams: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    step: Literal["", "empty", "part", "complete"] = ""
    patience: float = math.inf
    attempt: Callable[[Session, str], Result | Failure | BaseException] | None = None
    look: Callable[[Failure], str] | None = None
    hints: Hints = MappingProxyType({})

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.operation in READS

    @property
    def what(self) -> str:
        """What errors say could not be done."""
        words = {"list": "list tables", "query": f"read table {self.table!r}"}
        words |= {
            "count_rows": f"count the rows of table {self.table!r}",
            "append": f"append to table {self.table!r}",
        }
        return words.get(self.operation, f"{self.operation} table {self.table!r}")

    @property
    def makes_table(self) -> bool:
        """Whether it stores a whole table."""
        return self.operation in ("create", "replace")

    def error(self, failure: Failure) -> errors.RemoteError:
        """Make the error of this request, with what only the caller knows."""
        text = failure.text
        # otherwise a second call would store only the rest
        if self.used_up:
            text += "; this reader or iterator is exhausted: create a new one before you send it again"
        hint, options = self.hints.get(failure.kind, failure.hint)
        return failure.kind(
            Message(text, hint, **options),
            table=self.table,
            rows=self.rows,
            **failure.facts,
        )


LIST = Request("list", "GET", "", JSON, parse_table_names)


def fresh_headers(version: int | None = None) -> dict[str, str]:
    """Return the headers by which LanceDB's servers, which cache, read what is stored now, and at least a version."""
    now = datetime.datetime.now(datetime.UTC)
    headers = {"x-lancedb-min-timestamp": now.isoformat(timespec="microseconds")}
    if version is not None:
        headers["x-lancedb-min-version"] = str(version)
    return headers


class Result(NamedTuple):
    """What a successful request brought: the value in its answer, its id, and the bytes of body sent.

    ``created`` is False where the table was there already, and may be.
    """

    value: Any
    request_id: str
    sent: int
    created: bool = True


class Session:
    """Sends each `Request` to one service.

    Parameters
    ----------
    base : str
        ``https://host[:port]``, without a slash at the end.
    dialect : Dialect
        Where tables are listed.
    key : Key
        The API key.
    timeout : Timeouts
        Seconds.
    retries : int
        Repetitions after the first attempt.
    headers : dict
        Further headers for every request.
    verify : bool or str
        Whether, or against which CA bundle, the server's certificate is checked; where True, the environment may say.
    """

    def __init__(
        self,
        base: str,
        dialect: Dialect,
        key: Key,
        timeout: Timeouts,
        retries: int,
        headers: Mapping[str, str],
        verify: bool | str,
    ) -> None:
        self.base = base
        self.timeouts = timeout
        self.retries = retries
        self.verify = find_ca_bundle(verify, base)
        self._dialect = dialect
        self._key = key
        self._headers = dict(headers)
        self._secrets = Secrets(
            [key, *(value for value in headers.values() if isinstance(value, Secret))]
        )
        self._adapter: tuple[int, Adapter] | None = None
        # as known from answers
        self.takes_parts = False
        # likewise
        self.is_embedded = False

    def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        (_, adapter), self._adapter = self._adapter or (0, None), None
        if adapter is not None:
            adapter.close()

    def list_tables(
        self, retries: int | None = None, before: Request = LIST
    ) -> list[str]:
        """List the names of all tables, page by page; errors tell the table and rows of what is to come after it."""
        names: list[str] = []
        seen: set[str] = set()
        first = path = self._dialect.tables
        deadline = time.monotonic() + self.timeouts.read
        headers = fresh_headers() if self._dialect.describe else {}
        about = LIST._replace(
            table=before.table,
            rows=before.rows,
            used_up=before.used_up,
            headers=headers,
        )
        while True:
            request = about._replace(path=path)
            result = self.send(request, retries)
            page, token = result.value
            names += page
            if token is None:
                return names
            repeated = token in seen
            seen.add(token)
            late = time.monotonic() > deadline
            if repeated or late:
                text = "could not list tables: the service gave the same page_token twice; tell the people who run it"
                if late:
                    text = f"could not list tables: {len(seen):,} pages took all {self.timeouts.read:g} s; allow more"
                facts = {"status": 200, "request_id": result.request_id, "attempts": 1}
                raise request.error(Failure(errors.ResponseError, text, facts))
            path = f"{first}{'&' if '?' in first else '?'}page_token={token}"

    def send(self, request: Request, retries: int | None = None) -> Result:
        """Send a request, again where that is safe; return what its answer says, or raise its error."""
        outcome = self.repeat(request, str(uuid.uuid4()), retries)
        if isinstance(outcome, Result):
            return outcome
        if isinstance(outcome, BaseException):
            try:
                raise outcome
            finally:
                # a reference cycle would keep the caller's data alive
                del outcome
        if request.may_be_there and outcome.kind is errors.TableExistsError:
            if (listed := self._is_listed(request)) is True:
                return Result(None, outcome.facts["request_id"], 0, created=False)
            outcome = _settle_doubt(outcome, request, listed)
        raise self._complete(outcome, request)

    def repeat(
        self, request: Request, request_id: str, retries: int | None = None
    ) -> Result | Failure | BaseException:
        """Send a request, again where that is safe; return how it ended."""
        start = time.monotonic()
        attempt = 0
        while True:
            attempt += 1
            outcome = (
                request.attempt(self, request_id)
                if request.attempt
                else self._attempt(request, request_id)
            )
            if not isinstance(outcome, Failure):
                return outcome
            pause = _pause(outcome, attempt)
            late = (
                request.attempt is None
                and time.monotonic() + pause - start > RETRY_DEADLINE
            )
            if (
                attempt > (self.retries if retries is None else retries)
                or late
                or not _may_repeat(outcome, request)
            ):
                outcome.facts.update(request_id=request_id, attempts=attempt)
                return outcome
            # an answer may repeat the request, so only its status is logged
            status = outcome.facts.get("status")
            reason = (
                f"the service answered {status}"
                if status
                else one_line(outcome.text, 300)
            )
            log.info(
                "%s %s is sent again in %.1f s: %s",
                request.method,
                request.path,
                pause,
                reason,
            )
            time.sleep(pause)

    def _complete(self, failure: Failure, request: Request) -> errors.RemoteError:
        """Make a request's error; a further look tells whether its table is there, or what the server speaks."""
        status = failure.facts.get("status")
        operation = request.operation
        no_such_address = status in (405, 406, 501) or (
            status == 404 and operation in ("list", "create", "replace")
        )
        if no_such_address and not request.attempt and (other := self._find_dialect()):
            hint = "this server speaks another dialect: connect with {}, or else check the URL"
            return request.error(failure._replace(hint=(hint, {"dialect": other})))
        advice = ""
        if request.look is not None:
            advice = "its outcome could not be looked at; look at the table before sending again"
            with contextlib.suppress(Exception):
                advice = request.look(failure)
        elif failure.is_open:
            advice = self._advise(failure, request)
        if no_such_address and not advice:
            advice = "there is no such project at this address; check the URL, or the database, region and domain"
        return request.error(failure.with_advice(advice))

    def _advise(self, failure: Failure, request: Request) -> str:
        """Say what to do where the outcome is open."""
        if request.makes_table:
            listed = self._is_listed(request)
            failure.facts.update(listed=listed, listed_before=request.listed_before)
            return _describe_outcome(
                request, listed, partially_sent=failure.kind is errors.UploadInterrupted
            )
        if request.operation == "drop":
            return "wait until the service's time-out is over, then list the tables to see whether it is there"
        return (
            ""
            if request.is_read
            else "look at the table's columns before sending the change again"
        )

    def _note_server(self, answer: requests.Response) -> None:
        """Note whether a server is an embedded service, and whether it takes writes in parts, as its version says."""
        self.is_embedded = "x-rt-frames" in answer.headers
        if told := re.match(
            r"(\d{1,9})\.(\d{1,9})\.", answer.headers.get("phalanx-version", "")
        ):
            self.takes_parts = (int(told[1]), int(told[2])) >= (
                0,
                4,
            ) and self._dialect.multipart_create is not None

    def _is_listed(self, request: Request) -> bool | None:
        """Look once whether a request's table is listed; None where that cannot be told."""
        # must not mask the first failure
        with contextlib.suppress(Exception):
            return request.table in self.list_tables(retries=0)
        return None

    def _find_dialect(self) -> str | None:
        """Look once which other dialect the server speaks, for the message alone."""
        others = (
            dialect
            for dialect in DIALECTS.values()
            if dialect.name != self._dialect.name
        )
        answers = (
            (
                other.name,
                self._attempt(LIST._replace(path=other.tables), str(uuid.uuid4())),
            )
            for other in others
        )
        with contextlib.suppress(Exception):
            return next(
                (name for name, answer in answers if isinstance(answer, Result)), None
            )
        return None

    def _attempt(
        self, request: Request, request_id: str
    ) -> Result | Failure | BaseException:
        """Send once; what the source raised is returned, so that it does not drag the request along as its context."""
        start = time.monotonic()
        upload = None
        status = "no answer"
        if request.body is not None:
            upload = Upload(
                request.body,
                request.length,
                self.timeouts.write,
                request.on_sent,
                request.nbytes,
            )
            upload.patient = request.streams is not None
            upload.is_part = request.step == "part"
        try:
            stream = self._exchange(request, upload, request_id)
            status = str(stream.status_code)
            self._note_server(stream)
            if (
                request.streams
                and stream.status_code == 200
                and upload
                and upload.complete
            ):
                return self._open_rows(request, stream, request_id)
            with stream:
                response = read_response(
                    stream,
                    MAX_LIST_BYTES
                    if request.is_read and stream.ok
                    else MAX_ANSWER_BYTES,
                )
            value = _interpret(request, upload, response, self._secrets)
            if isinstance(value, Failure):
                return value
            return Result(value, request_id, upload.sent if upload else 0)
        except (OSError, HTTPError, http.client.HTTPException) as error:
            # requests' errors are OSErrors
            if upload is not None and upload.source_error is not None:
                return upload.source_error
            try:
                return _interpret_failure(
                    request, upload, error, self.base, self._secrets, self._proxy()
                )
            finally:
                _break_cycles(error)
        finally:
            sent = upload.sent if upload else 0
            if upload is not None:
                # its frames hold the upload
                upload.source_error = None
            ms = (time.monotonic() - start) * 1000
            words = "%s %s %s, %d bytes sent, %.1f ms, %s"
            log.debug(words, request.method, request.path, status, sent, ms, request_id)

    def _open_rows(
        self, request: Request, stream: requests.Response, request_id: str
    ) -> Result | Failure:
        """Read the first rows of an answer; what happens to the others is told by an error of this request."""

        def fail(kind: type[errors.RemoteError], reason: str) -> errors.RemoteError:
            text = self._secrets.hide(f"could not {request.what}: {reason}")
            return request.error(Failure(kind, text, {"request_id": request_id}))

        try:
            return Result(Rows(stream, fail, request.streams or {}), request_id, 0)
        except ValueError as error:
            text = self._secrets.hide(
                f"could not {request.what}: {error}; check the address"
            )
            return Failure(errors.ResponseError, text, {"status": stream.status_code})

    def _exchange(
        self, request: Request, upload: Upload | None, request_id: str
    ) -> requests.Response:
        """Send the head and body, and read the head of the answer."""
        headers = {
            "User-Agent": f"rt_frames/{__version__}",
            "Accept": "*/*" if request.streams else JSON,
            "Accept-Encoding": "identity",
            **self._headers,
            "Content-Type": request.content_type,
            "x-request-id": request_id,
            **request.headers,
        }
        prepared = requests.Request(
            request.method, self.base + request.path, headers=headers
        ).prepare()
        prepared.body = upload  # type: ignore[assignment]  # sent by our own connection
        prepared.headers["x-api-key"] = self._key
        pid, adapter = self._adapter or (0, None)
        # a forked child must not share connections
        if adapter is None or pid != os.getpid():
            adapter = Adapter(pool_maxsize=64)
            self._adapter = os.getpid(), adapter
        timeout = tuple(
            min(seconds, request.patience)
            for seconds in (self.timeouts.connect, self.timeouts.read)
        )
        return adapter.send(
            prepared,
            stream=True,
            timeout=timeout,
            verify=self.verify,
            proxies=self._proxies(),
        )

    def _proxies(self) -> dict[str, str]:
        """Take proxies from the environment, for https alone: one would read plain http."""
        use = self.base.startswith("https:") and not is_loopback(self.base)
        proxies = get_environ_proxies(self.base) if use else {}
        if proxy := select_proxy(self.base, proxies):
            # its message shows the password
            with contextlib.suppress(ValueError, TypeError):
                if parse_url(prepend_scheme_if_needed(proxy, "http")).host:  # type: ignore[no-untyped-call]
                    return proxies
            raise InvalidProxyURL("it is not a URL")
        return proxies

    def _proxy(self) -> str:
        """Name the proxy, without what it is logged in with."""
        proxies = get_environ_proxies(self.base)
        return (
            (select_proxy(self.base, proxies) or "")
            .rpartition("@")[2]
            .rpartition("://")[2]
        )


def _interpret(
    request: Request, upload: Upload | None, response: Response, secrets: Secrets
) -> Any:
    """Return what an answer means: the value it holds, or a `Failure`."""
    status = response.status
    if status < 200:
        return _open_outcome(
            request, upload, f"the connection closed after an interim {status} response"
        )
    if status in _ASKED_TWICE and request.step == "complete":
        answer = f"the service answered {status}, {find_message(response.without(secrets).body)}".rstrip(
            ", "
        )
        return _open_outcome(
            request, upload, f"{answer}, and may have been asked twice"
        )
    if status >= 300:
        sent = (
            _describe_amount(upload)
            if upload is not None and not request.is_read
            else ""
        )
        table_exists = request.step in ("part", "complete")
        operation = "append" if table_exists else request.operation
        return explain_refusal(
            response.without(secrets),
            operation,
            request.what,
            sent,
            is_seen=not table_exists,
        )
    if upload is not None and not upload.complete:
        upload.answered = True
        return _open_outcome(
            request,
            upload,
            f"the service answered {status} before it had the whole body",
        )
    if not request.is_read and (doubt := find_doubt(response.without(secrets))):
        return _open_outcome(request, upload, doubt)
    try:
        return request.parse(response)
    except ValueError as error:
        return explain_unreadable(
            response.without(secrets), request.what, secrets.hide(str(error))
        )


def _interpret_failure(
    request: Request,
    upload: Upload | None,
    error: BaseException,
    base: str,
    secrets: Secrets,
    proxy: str = "",
) -> Failure:
    """Return what it means that no answer came: the state of the body decides."""
    cause = upload.cause if upload is not None and upload.cause is not None else error
    causes = list(_causes(cause))
    reason = shorten(
        make_printable(secrets.hide(str(causes[-1]) or type(causes[-1]).__name__)), 200
    )
    if upload is not None and upload.begun:
        return _open_outcome(request, upload, reason)
    through = (
        f"proxy {proxy} for " if any(isinstance(e, _BY_PROXY) for e in causes) else ""
    )
    where = f"{through}{base}: {reason}; {'this request was not' if request.step else 'nothing was'} sent"
    if any(isinstance(e, ssl.SSLCertVerificationError) for e in causes):
        advice = "check the host name, or name the authority that signed it with REQUESTS_CA_BUNDLE"
        text = f"the certificate was not accepted, {where}; {advice}"
        return Failure(
            errors.TLSError, text, {}, ("{} names it, too", {"verify": "PATH"})
        )
    if request.is_read and not any(isinstance(e, _NEVER_CONNECTED) for e in causes):
        text = f"could not {request.what} of {base}: no response ({reason}); try again"
        return Failure(errors.TransportError, text, {})
    advice = "check the address and the network, then try again"
    # OpenSSL's wording before and since 3.1
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
        advice = "that port does not speak https; try http://"
    if through:
        advice = "check the proxy, which HTTPS_PROXY or ALL_PROXY names; NO_PROXY names hosts to go to without it"
    if f"{_REFUSED_BY_PROXY}07" in reason:
        advice = "the proxy wants a login: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"
    return Failure(errors.ConnectError, f"could not connect to {where}; {advice}", {})


def _describe_amount(upload: Upload) -> str:
    whole = f" of {format_bytes(upload.length)}" if upload.length else ""
    return f"{format_bytes(upload.sent)}{whole}"


def _open_outcome(request: Request, upload: Upload | None, reason: str) -> Failure:
    """Return the failure of a request that may or may not have been carried out."""
    if upload is None or request.is_read:
        return Failure(
            errors.TransportError, f"could not {request.what}: {reason}; try again", {}
        )
    facts = {"bytes_sent": upload.sent}
    if request.step == "complete":
        text = f"table {request.table!r}: no response confirms that its parts were made visible ({reason})"
        return Failure(errors.OutcomeUnknown, text, facts)
    if request.step == "empty":
        text = f"table {request.table!r}: no response confirms that it was made, without rows at first ({reason})"
        return Failure(errors.OutcomeUnknown, text, facts)
    tells_part = (
        (request.makes_table or request.look)
        and not upload.complete
        and not upload.answered
    )
    if request.step == "part" or tells_part:
        text = f"table {request.table!r}: {_describe_amount(upload)} were sent and the connection broke ({reason})"
        return Failure(errors.UploadInterrupted, text, facts)
    part = "all" if upload.complete else format_bytes(upload.sent)
    text = f"table {request.table!r}: {part} was sent, but no response confirms it ({reason})"
    return Failure(errors.OutcomeUnknown, text, facts)


def _settle_doubt(failure: Failure, request: Request, listed: bool | None) -> Failure:
    """Return the failure of a create that was refused as if its table were there, which the list does not confirm."""
    seen = f"no table {request.table!r} is listed, so something else is in the way; nothing was stored"
    if listed is None:
        seen = f"the tables could not be listed, so it is not known whether table {request.table!r} is there"
    kind = errors.ConflictError if failure.facts["status"] == 409 else errors.BadRequest
    return failure._replace(kind=kind, text=f"{failure.text}; {seen}")


def _describe_outcome(
    request: Request, listed: bool | None, *, partially_sent: bool
) -> str:
    """Say what the list makes certain after a create or replace whose outcome is not known."""
    table = f"table {request.table!r}"
    if request.operation == "replace" and listed is not False:
        return f"it is not known whether {table} holds the old rows or the new ones; check it, or replace it again"
    if listed is None:
        return f"the tables could not be listed, so {table} may exist; check before sending again"
    if listed:
        known = (
            "was not before"
            if request.listed_before is False
            else "it is not known whether it was before"
        )
        return f"{table} is listed now, and {known}; check that it is complete before you go on"
    if partially_sent:
        return f"no {table} is listed; it is safe to send again"
    return f"no {table} is listed yet; check before sending again"


def _may_repeat(failure: Failure, request: Request) -> bool:
    if request.attempt is not None:
        return failure.nothing_done and request.replayable
    if failure.kind is errors.ConnectError:
        return _REFUSED_BY_PROXY not in failure.text
    if failure.kind is errors.RateLimited:
        return request.replayable
    status = failure.facts.get("status", 0)
    changes_nothing = request.is_read or (request.step == "part" and request.replayable)
    no_answer = failure.kind in (errors.TransportError, errors.UploadInterrupted)
    return changes_nothing and (
        no_answer or status in (500, 502, 503, 504) or status // 100 == 2
    )


def _pause(failure: Failure, attempt: int) -> float:
    asked = failure.facts.get("retry_after")
    return asked if asked is not None else random.uniform(0, 0.5 * 2 ** min(attempt, 4))  # noqa: S311  # nosec B311  # jitter needs no cryptographic randomness


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Walk from an error to its cause, through the wrappings of requests and urllib3."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        inside = [getattr(error, "reason", None), *error.args]
        error = (
            next((e for e in inside if isinstance(e, BaseException)), None)
            or error.__cause__
            or error.__context__
        )


def _break_cycles(error: BaseException) -> None:
    """Clear the frames that an error went through: those that raised it hold it, a circle that holds all callers."""
    for one in _causes(error):
        traceback.clear_frames(one.__traceback__)
