"""Explain a failed attempt: a status, a missing response, a doubtful success.

`interpret` reads a response, `explain_no_response` the error raised instead. Both
decide by how much of the body was sent; `session.py` has the table.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import urllib3
from requests.exceptions import InvalidProxyURL, InvalidSchema
from urllib3.exceptions import (
    ConnectTimeoutError,
    NewConnectionError,
    ProxyError,
    SSLError,
    URLSchemeUnknown,
)

from rt_frames import errors
from rt_frames._http.arguments import Secrets
from rt_frames._http.request import (
    READ_OPERATIONS,
    STORED_NOTHING,
    Failure,
    Purpose,
    Request,
)
from rt_frames._http.response import Response, decode_json, get_field
from rt_frames._http.upload import Upload
from rt_frames._text import format_bytes, make_printable, one_line, shorten

# characters of a service's message that an error keeps
MAX_MESSAGE = 300
MAX_BODY_SHOWN = 2000
# http.client's message, before the rest of the status
REFUSED_BY_PROXY = "Tunnel connection failed: 4"
# of a commit that a proxy may have sent twice, and the first time with success
_SENT_TWICE = (404, 413, 429)
_BY_PROXY = (ProxyError, InvalidProxyURL, InvalidSchema, URLSchemeUnknown)
_NEVER_CONNECTED = (NewConnectionError, ConnectTimeoutError, SSLError, *_BY_PROXY)
_BY_STATUS = {
    400: errors.BadRequest,
    401: errors.AuthenticationError,
    403: errors.AuthenticationError,
    404: errors.TableNotFoundError,
    409: errors.ConflictError,
    413: errors.PayloadTooLarge,
    422: errors.BadRequest,
    429: errors.RateLimited,
}
# codes of the Lance namespace specification, which has several errors for 404 and 409
_BY_CODE = {
    # no such column
    12: errors.BadRequest,
    14: errors.ConflictError,
    # the table's state does not allow it
    19: errors.ConflictError,
}
_WITHOUT_CODEC = (
    "if the server does not support compressed Arrow buffers, pass compression=None"
)
_ADVICE: dict[type[errors.RemoteError] | int, str] = {
    errors.AuthenticationError: "check that the API key belongs to this project",
    errors.TableNotFoundError: "check the name in rt.list_tables()",
    errors.ConflictError: "somebody changed the table at the same time; check it, then try again",
    errors.PayloadTooLarge: "send less in one call",
    errors.BadRequest: "nothing was changed",
    errors.RedirectError: "not followed, as it would pass on the API key; connect to the new URL",
    errors.ServerError: "the outcome is unknown",
    **dict.fromkeys((405, 406, 501), "the server does not support this request"),
    408: "the body took longer than the server allows; collect a slow source into memory first",
    411: "the server needs the length first; send a frame in memory, with compression=None",
    STORED_NOTHING: "nothing was stored; try again when there is room",
}
_MESSAGE_FIELDS = (
    "error",
    "detail",
    "message",
    "msg",
    "title",
    "errors",
    "error_description",
    "reason",
)


def interpret(
    request: Request, upload: Upload, response: Response, secrets: Secrets
) -> Any:
    """Return the value in a response, or the `Failure` that it means."""
    status = response.status
    if status >= 300:
        return _explain_refusal(request, upload, response.without(secrets))
    doubt = ""
    if status < 200:
        doubt = f"the connection closed after an interim {status} response"
    elif not upload.complete:
        upload.responded_early = True
        doubt = f"the service responded {status} before the whole body was sent"
    elif not request.purpose.is_read:
        doubt = _find_doubt(response.without(secrets))
    if doubt:
        return _explain_unconfirmed(request, upload, doubt)
    try:
        return request.parse(response)
    except ValueError as error:
        problem = secrets.hide(str(error))
        return _explain_unreadable(request, response.without(secrets), problem)


def explain_no_response(
    request: Request,
    upload: Upload,
    error: BaseException,
    base: str,
    proxy: str,
    secrets: Secrets,
) -> Failure:
    """Classify an attempt that got no response by how much of the body was sent."""
    causes = list(iter_causes(upload.cause or error))
    root = causes[-1]
    reason = secrets.hide(str(root) or type(root).__name__)
    reason = shorten(make_printable(reason), 200)
    if upload.started:
        return _explain_unconfirmed(request, upload, reason)
    through = f"proxy {proxy} for " if _contains(causes, *_BY_PROXY) else ""
    unsent = "this request was not" if request.multipart_step else "nothing was"
    endpoint = f"{through}{base}: {reason}; {unsent} sent"
    if _contains(causes, ssl.SSLCertVerificationError):
        advice = "check the host name, or set REQUESTS_CA_BUNDLE to its CA bundle"
        text = f"could not verify the certificate of {endpoint}; {advice}"
        return Failure(errors.TLSError, text, {}, hint='or pass verify="PATH"')
    if request.purpose.is_read and not _contains(causes, *_NEVER_CONNECTED):
        text = f"could not {request.purpose.action}: no response from {base} ({reason}); try again"
        return Failure(errors.TransportError, text, {})
    advice = _advise_connecting(reason, through)
    return Failure(
        errors.ConnectError, f"could not connect to {endpoint}; {advice}", {}
    )


def _advise_connecting(reason: str, through: str) -> str:
    if f"{REFUSED_BY_PROXY}07" in reason:
        return "the proxy needs a login; set HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"
    if through:
        return "check HTTPS_PROXY or ALL_PROXY, or name the host in NO_PROXY to use no proxy"
    # OpenSSL's wording before and since 3.1
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
        return "that port does not speak https; try http://"
    return "check the URL and the network, then try again"


def iter_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Walk from an error to its cause through those of requests and urllib3."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = _find_cause(error)


def _find_cause(error: BaseException) -> BaseException | None:
    candidates = [getattr(error, "reason", None), *error.args]
    candidates += [error.__cause__, error.__context__]
    for candidate in candidates:
        if isinstance(candidate, BaseException):
            return candidate
    return None


def _contains(causes: list[BaseException], *kinds: type[BaseException]) -> bool:
    return any(isinstance(cause, kinds) for cause in causes)


def _explain_unconfirmed(request: Request, upload: Upload, reason: str) -> Failure:
    """Return the failure of a request that may or may not have been carried out."""
    purpose = request.purpose
    step = request.multipart_step
    if purpose.is_read:
        text = f"could not {purpose.action}: {reason}; try again"
        return Failure(errors.TransportError, text, {})
    kind: type[errors.RemoteError] = errors.OutcomeUnknown
    is_truncated = (
        purpose.writes_rows and not upload.complete and not upload.responded_early
    )
    if step == "complete":
        text = f"the commit began, but the outcome is unknown ({reason})"
    elif step == "empty":
        text = f"creating it without rows began, but the outcome is unknown ({reason})"
    elif step == "part" or is_truncated:
        kind = errors.UploadInterrupted
        text = (
            f"the connection failed after sending {_describe_amount(upload)} ({reason})"
        )
    else:
        amount = "everything"
        if not upload.complete:
            amount = format_bytes(upload.sent)
        text = f"{amount} was sent, but the outcome is unknown ({reason})"
    facts = {"bytes_sent": upload.sent}
    return Failure(kind, f"table {purpose.table!r}: {text}", facts)


def _describe_amount(upload: Upload) -> str:
    whole = f" of {format_bytes(upload.length)}" if upload.length else ""
    return f"{format_bytes(upload.sent)}{whole}"


def _explain_refusal(request: Request, upload: Upload, response: Response) -> Failure:
    """Return the failure for a status of 300 or more."""
    purpose = request.purpose
    status = response.status
    message = _find_message(response.body)
    is_commit = request.multipart_step == "complete"
    if is_commit and status in _SENT_TWICE:
        answer = f"{status}, {message}".rstrip(", ")
        reason = f"{answer}; a proxy may have sent it twice"
        return _explain_unconfirmed(request, upload, reason)
    # parts are appended to an existing table, and are invisible until the commit
    is_part = is_commit or request.multipart_step == "part"
    operation = "append" if is_part else purpose.operation
    kind = _error_class(response, operation, message)
    facts = {"status": status, "message": message, "body": _show_body(response)}
    reason = message or http.client.responses.get(status, "without a message")
    if kind is errors.RateLimited:
        facts["retry_after"] = _parse_retry_after(response)
    elif kind is errors.PayloadTooLarge and not purpose.is_read:
        reason += f" (sent {_describe_amount(upload)})"
    elif kind is errors.RedirectError:
        reason = f"redirected to {_find_new_host(response)}"
    text = f"could not {purpose.action}: {status}, {reason}"
    failure = Failure(kind, text, facts, _find_hint(request, response))
    advice = _advise(failure, request)
    if advice in reason:
        return failure
    return failure.with_advice(advice)


def _find_hint(request: Request, response: Response) -> str:
    """Return the cure if a server may not know compressed buffers.

    An embedded service does, and says itself what it refuses.
    """
    is_embedded = "x-rt-frames" in response.headers
    if response.status not in (400, 415) or is_embedded:
        return ""
    if request.is_compressed is None or not request.is_compressed():
        return ""
    return _WITHOUT_CODEC


def _error_class(
    response: Response, operation: errors.Operation, message: str
) -> type[errors.ResponseError]:
    """Return the error class for an HTTP status."""
    status = response.status
    is_create = operation == "create"
    if is_create and status == 400 and "already exists" in message.lower():
        return errors.TableExistsError
    # the path, not the table, was not found
    if status == 404 and operation in ("list", "create", "replace"):
        return errors.ResponseError
    if status == 409 and operation in READ_OPERATIONS:
        return errors.ResponseError
    if status in (404, 409):
        code = get_field(decode_json(response.body), "code")
        if isinstance(code, int) and code in _BY_CODE:
            return _BY_CODE[code]
    if is_create and status == 409:
        return errors.TableExistsError
    if status // 100 == 3:
        return errors.RedirectError
    if status // 100 == 5:
        return errors.ServerError
    return _BY_STATUS.get(status, errors.ResponseError)


def _advise(failure: Failure, request: Request) -> str:
    """Return the state and the cure after a refusal, or ""."""
    kind = failure.kind
    is_read = request.purpose.is_read
    status = failure.facts["status"]
    message = failure.facts["message"]
    if kind is errors.RateLimited:
        seconds = failure.facts["retry_after"]
        pause = f"{max(seconds, 1):,.0f} s " if seconds else ""
        return f"wait {pause}before the next call"
    if is_read and kind is errors.ServerError and status != 501:
        return "try again later"
    if is_read and kind is errors.BadRequest:
        return ""
    if kind is errors.ServerError and request.multipart_step == "part":
        return ""
    # the cure depends on the table that was created for the parts
    if kind is errors.ConflictError and request.multipart_step:
        return "somebody changed the table at the same time"
    if kind is errors.ServerError and request.multipart_step == "complete":
        return _ADVICE[kind] if failure.outcome_unknown else ""
    if status == STORED_NOTHING and message:
        return "nothing was stored"
    # the table exists, but not its version
    if kind is errors.TableNotFoundError and "version" in message.lower():
        return ""
    # the server's message names the key already
    if kind is errors.AuthenticationError and "key" in message.lower():
        return ""
    return _ADVICE.get(status) or _ADVICE.get(kind, "")


def _parse_retry_after(response: Response) -> float | None:
    """Return the seconds that the service asks to wait, or None."""
    header = response.headers.get("Retry-After", "")
    try:
        return float(urllib3.Retry().parse_retry_after(header))
    except (urllib3.exceptions.InvalidHeader, ValueError, TypeError, OverflowError):
        return None


def _find_new_host(response: Response) -> str:
    location = response.headers.get("Location", "")
    match = re.match(r"(?i)https?://(?:[^/?#@]*@)?([a-z0-9.:*\[\]-]+)", location)
    return match[1][:100] if match else "another path of the same host"


def _find_doubt(response: Response) -> str:
    """Return why a 2xx response does not confirm a write, or "".

    Confirmed: no body, or a JSON object without an error. Anything else comes from a
    proxy.
    """
    status = response.status
    start = response.body.lstrip()[:1]
    if status == 202:
        return "status 202, accepted but not done"
    if status not in (200, 201, 204):
        return f"unexpected status {status}"
    # some frameworks label JSON so by default
    content_type = response.headers.get("Content-Type", "").lower()
    is_html = status != 204 and "text/html" in content_type
    if start == b"<" or (is_html and (start != b"{" or response.problem)):
        return f"the {status} response is a web page: check the URL"
    if response.problem:
        return f"the {status} response cannot be read: {response.problem}"
    if not start:
        return ""
    content = decode_json(response.body)
    if not isinstance(content, dict):
        shown = _show_body(response)[:100]
        return f"the {status} response is not a JSON object: {shown!r}"
    if not content.get("error"):
        return ""
    message = _find_message(response.body) or "without a message"
    return f"the {status} response reports an error, {message}"


def _explain_unreadable(request: Request, response: Response, problem: str) -> Failure:
    """Return the failure for a 2xx response that cannot be parsed."""
    body = _show_body(response)
    message = shorten(make_printable(problem), MAX_MESSAGE)
    shown = shorten(body, 100)
    text = f"could not {request.purpose.action}: {message}; the body starts with {shown!r}; check the URL"
    facts = {"status": response.status, "message": message, "body": body}
    return Failure(errors.ResponseError, text, facts)


def _show_body(response: Response) -> str:
    return shorten(response.body.decode("utf-8", "replace"), MAX_BODY_SHOWN)


def _find_message(body: bytes) -> str:
    """Find the message in an error's body: JSON, HTML or plain text."""
    text = body[: 2**16].decode("utf-8", "replace")
    content = decode_json(body)
    if content is not None:
        text = _find_sentence(content)
    elif "<" in text[:200]:
        # html.parser takes minutes for 64 kB of unclosed tags
        text = re.sub("<[^<>]*>", " ", re.split("(?i)</head>", text)[-1])
    text = text.replace("\ufffd", " ")
    printable = "".join(char if char.isprintable() else " " for char in text)
    return one_line(printable, MAX_MESSAGE)


def _find_sentence(value: Any, levels: int = 9) -> str:
    if isinstance(value, str):
        return value
    if levels and isinstance(value, list):
        sentences = [_find_sentence(item, levels - 1) for item in value[:5]]
        return "; ".join(filter(None, sentences))
    if levels and isinstance(value, dict):
        for name in _MESSAGE_FIELDS:
            sentence = _find_sentence(value.get(name), levels - 1)
            if sentence:
                return sentence
    return ""


def explain_safely(explain_outcome: Callable[[Failure], str], failure: Failure) -> str:
    """Explain the outcome of a write. A second error must not mask the first."""
    with contextlib.suppress(Exception):
        return explain_outcome(failure)
    return "the table could not be checked; check it before sending again"


def reclassify_exists(
    failure: Failure, table: str | None, listed: bool | None
) -> Failure:
    """Reclassify "already exists" when the list does not show the table."""
    if listed is None:
        reason = f"the tables could not be listed, so table {table!r} may exist"
    else:
        reason = f"table {table!r} is not listed, so something else is in the way; nothing was stored"
    kind = errors.ConflictError if failure.facts["status"] == 409 else errors.BadRequest
    return failure._replace(kind=kind, text=f"{failure.text}; {reason}")


def describe_outcome(purpose: Purpose, failure: Failure, listed: bool | None) -> str:
    """Explain the outcome of a create or replace by the list of tables."""
    table = f"table {purpose.table!r}"
    if purpose.operation == "replace" and listed is not False:
        return f"{table} may hold the old rows or the new ones; check it, or replace it again"
    if listed is None:
        return f"the tables could not be listed, so {table} may exist; check before sending again"
    if listed:
        before = "but may have existed before"
        if purpose.listed_before is False:
            before = "and was not before"
        return f"{table} is listed now, {before}; check that it is complete before you go on"
    if failure.kind is errors.UploadInterrupted:
        return f"{table} is not listed; it is safe to send again"
    return f"{table} is not listed yet; check before sending again"
