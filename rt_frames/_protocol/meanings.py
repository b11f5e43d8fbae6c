"""What an ending of a request means: which error, whether the service acted, a cure.

`MEANINGS` is the whole of it, a row for each case; the first row that fits counts. The
rows of the documented service's statuses come first among the statuses; those that name
LanceDB's codes follow the documentation of the Lance namespace. `explain` finds the
row of an ending, and the words for it; `_http/session.py` decides how an attempt ended,
and repeats it as ``repeat`` says, `_service/multipart.py` a whole write in parts;
`make_error` in `_service/outcome.py` joins the words to a sentence.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rt_frames import errors
from rt_frames._protocol.calls import Acted, Failure, Lacks, Purpose, Repeat
from rt_frames._protocol.responses import (
    MAX_MESSAGE,
    find_code,
    find_doubt,
    find_message,
    find_new_host,
    show_body,
)
from rt_frames._text import format_bytes, make_printable, shorten

if TYPE_CHECKING:
    from rt_frames._protocol.responses import Response

How = Literal[
    "unsent",
    "no TLS",
    "proxy failed",
    "proxy refused",
    "proxy login",
    "certificate",
    "partly sent",
    "all sent",
    "early",
    "answered",
]


class Meaning(NamedTuple):
    """A row.

    Parameters
    ----------
    endings : str
        Statuses, or how far the request came. "4xx" and "5xx" are all others.
    requests : str
        Kinds of requests: "read", "rows", "change"; of a multipart write "empty" (the
        table that it starts with), "begin", "part" and "commit"; "any". With a colon,
        of one operation: "rows:create".
    error : type
        The exception.
    acted : str
        Whether the service may have acted: "no" or "maybe".
    repeat : str
        Whether to send the request again.
    cure : str
        What to do.
    says : str
        Counts only if the service's words or code say this; see `_find_word`.
    lacks : str
        Whether the server lacks the operation: "no", "maybe" or "yes".
    is_final : bool
        Whether a commit has certainly failed. Of other refusals, a proxy may have sent
        the commit twice.
    """

    endings: str
    requests: str
    error: type[errors.RemoteError]
    acted: Acted
    repeat: Repeat
    cure: str = ""
    says: str = ""
    lacks: Lacks = "no"
    is_final: bool = False


_UNCONFIRMED = "partly sent|all sent|early"
_CHECK_NETWORK = "check the URL and the network, then try again"
_CHECK_PROXY = (
    "check HTTPS_PROXY or ALL_PROXY, or name the host in NO_PROXY to use no proxy"
)
_PROXY_LOGIN = "the proxy needs a login; set HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"
_CERTIFICATE = (
    "check the host name, or set REQUESTS_CA_BUNDLE to its CA bundle, or pass "
    'verify="PATH"'
)
_CHECK_TABLE = "check the table before sending it again"
DROP_EMPTY = (
    "wait for the service's timeout, drop the table if it is empty, and send again"
)
_CHECK_LIST = (
    "wait until the service's time-out is over, then list the tables to see whether it "
    "exists"
)
_NEW_URL = "not followed, as it would pass on the API key; connect to the new URL"
_CHECK_KEY = "check that the API key belongs to this project"
_CHECK_URL = "check the URL, or the database, region and domain"
_CHECK_NAME = "check the name in rt.list_tables()"
_TRY_AGAIN = "try again"
_CHANGED = "somebody changed the table at the same time; check it, then try again"
_PART_CHANGED = (
    "somebody changed the table at the same time, or a proxy sent a request twice"
)
_TWICE = "a proxy may have sent it twice"
_WITHOUT_CODEC = (
    "if the server does not support compressed Arrow buffers, pass compression=None"
)
# statuses of servers that cannot read compressed buffers
_UNREADABLE = (400, 415, 422, 500, 502, 503, 504)
_NGINX = "or raise client_max_body_size in the configuration of nginx"
_LESS = "send less in one call"
# a rewrite's parts are as large as hosted services allow
_LIMIT = "raise the limit of the server, or of the proxy before it, to 100 MB"
_SLOW = (
    "the body took longer than the server allows; collect a slow source into memory "
    "first"
)
_NEEDS_LENGTH = (
    "the server needs the length first; send a frame in memory, with compression=None"
)
_UNSUPPORTED = f"the server does not support this request; {_CHECK_URL}"
_WAIT = "wait before the next call"
_LATER = "try again later"
_ROOM = "try again when there is room"
# cures that a Retry-After makes exact
_WAITS = ("", _TRY_AGAIN, _WAIT, _LATER, _ROOM)

_Bad = errors.BadRequest
_Unknown = errors.OutcomeUnknown
_Response = errors.ResponseError
_Server = errors.ServerError

MEANINGS = (
    # nothing was sent
    Meaning(
        "unsent",
        "any",
        errors.ConnectError,
        "no",
        "always",
        _CHECK_NETWORK,
        is_final=True,
    ),
    Meaning(
        "no TLS",
        "any",
        errors.ConnectError,
        "no",
        "always",
        "that port does not speak https; try http://",
        is_final=True,
    ),
    Meaning(
        "proxy failed",
        "any",
        errors.ConnectError,
        "no",
        "always",
        _CHECK_PROXY,
        is_final=True,
    ),
    Meaning(
        "proxy refused",
        "any",
        errors.ConnectError,
        "no",
        "never",
        _CHECK_PROXY,
        is_final=True,
    ),
    Meaning(
        "proxy login",
        "any",
        errors.ConnectError,
        "no",
        "never",
        _PROXY_LOGIN,
        is_final=True,
    ),
    Meaning("certificate", "any", errors.TLSError, "no", "never", _CERTIFICATE),
    # no response, or one that confirms nothing
    Meaning(
        _UNCONFIRMED,
        "read",
        errors.TransportError,
        "no",
        "again",
        _TRY_AGAIN,
    ),
    Meaning(_UNCONFIRMED, "begin", errors.UploadInterrupted, "no", "again"),
    Meaning(_UNCONFIRMED, "part", errors.UploadInterrupted, "no", "anew"),
    Meaning("partly sent", "rows", errors.UploadInterrupted, "maybe", "never"),
    Meaning(
        _UNCONFIRMED,
        "change:drop",
        _Unknown,
        "maybe",
        "never",
        _CHECK_LIST,
    ),
    Meaning(_UNCONFIRMED, "empty", _Unknown, "maybe", "never", DROP_EMPTY),
    Meaning(_UNCONFIRMED, "any", _Unknown, "maybe", "never", _CHECK_TABLE),
    Meaning("unreadable", "any", _Response, "no", "again", "check the URL"),
    # the service refused, and did nothing
    Meaning("3xx", "any", errors.RedirectError, "no", "never", _NEW_URL),
    Meaning(
        "400",
        "rows:create|empty:create",
        errors.TableExistsError,
        "no",
        "never",
        says="exists",
    ),
    Meaning("400|422", "any", _Bad, "no", "never"),
    Meaning("415", "any", _Response, "no", "never", lacks="maybe"),
    Meaning("401|403", "any", errors.AuthenticationError, "no", "never", _CHECK_KEY),
    Meaning("404", "commit", _Unknown, "maybe", "never", _TWICE),
    Meaning(
        "404",
        "read:list|rows:create|rows:replace|empty:create",
        _Response,
        "no",
        "never",
        _CHECK_URL,
        lacks="yes",
    ),
    Meaning("404", "any", _Bad, "no", "never", says="no column"),
    Meaning("404", "begin|part", errors.TableNotFoundError, "no", "anew", _CHECK_NAME),
    Meaning(
        "404",
        "any",
        errors.TableNotFoundError,
        "no",
        "never",
        _CHECK_NAME,
        lacks="maybe",
    ),
    Meaning("405|406", "any", _Response, "no", "never", _UNSUPPORTED, lacks="yes"),
    Meaning("501", "any", _Server, "no", "never", _UNSUPPORTED, lacks="yes"),
    Meaning("408", "rows|empty|part", _Response, "no", "never", _SLOW, "slow"),
    Meaning("408|409|425", "read", _Response, "no", "again", _TRY_AGAIN),
    Meaning("408", "any", _Response, "no", "never", _TRY_AGAIN),
    Meaning("425", "commit", _Unknown, "maybe", "never", _TWICE),
    Meaning("425", "part", _Response, "no", "anew", _TRY_AGAIN),
    Meaning("425", "any", _Response, "no", "again", _TRY_AGAIN),
    Meaning("409", "commit:replace", errors.ConflictError, "no", "anew", _PART_CHANGED),
    Meaning("409", "commit", errors.ConflictError, "no", "never", _PART_CHANGED),
    Meaning("409", "begin|part", errors.ConflictError, "no", "anew", _PART_CHANGED),
    Meaning("409", "any", errors.ConflictError, "no", "never", _CHANGED, "conflict"),
    Meaning("409", "rows:create|empty:create", errors.TableExistsError, "no", "never"),
    Meaning("409", "any", errors.ConflictError, "no", "never", _CHANGED),
    Meaning("411", "rows|empty|part", _Response, "no", "never", _NEEDS_LENGTH),
    Meaning("413|429", "commit", _Unknown, "maybe", "never", _TWICE),
    Meaning("413", "any", errors.PayloadTooLarge, "no", "never", says="itself"),
    Meaning(
        "413", "read|change|part:alter", errors.PayloadTooLarge, "no", "never", _LIMIT
    ),
    Meaning("413", "any", errors.PayloadTooLarge, "no", "never", _LESS),
    Meaning("429", "part", errors.RateLimited, "no", "anew", _WAIT),
    Meaning("429", "any", errors.RateLimited, "no", "again", _WAIT),
    # the service, or a proxy before it, failed
    Meaning("505", "any", _Server, "no", "never", _UNSUPPORTED),
    Meaning("511", "any", _Server, "no", "never", "log in to the network first"),
    # a folder says itself what was done, and what to do
    Meaning("500|503|507", "any", _Server, "no", "never", says="itself"),
    Meaning("507", "any", _Server, "no", "never", _ROOM, is_final=True),
    Meaning("500|502|503|504", "read", _Server, "no", "again", _LATER),
    Meaning("500|502|503|504", "begin", _Server, "no", "again"),
    Meaning("499|5xx", "read", _Server, "no", "never", _LATER),
    Meaning("499|5xx", "begin|part", _Server, "no", "anew"),
    Meaning("499|5xx", "change:drop", _Server, "maybe", "never", _CHECK_LIST),
    Meaning("499|5xx", "empty", _Server, "maybe", "never", DROP_EMPTY),
    Meaning("499|5xx", "any", _Server, "maybe", "never", _CHECK_TABLE),
    Meaning("4xx|6xx", "any", _Response, "no", "never"),
)
# successes that may confirm a write, and what is said of another one
_CONFIRMING = (200, 201, 204)
_DOUBTS = {202: "status 202, accepted but not done"}
# what is said of a table on which a request did not act; what became of a multipart
# write is known once it was aborted
_UNTOUCHED = {
    "read": "",
    "rows": "nothing was stored",
    "empty": "nothing was stored",
    "change": "nothing was changed",
    "begin": "",
    "part": "",
    "commit": "",
}
# what LanceDB's codes and the words of services say
_CODES = {12: "no column", 14: "conflict", 19: "conflict"}
_EXISTS = "already exists"


@dataclass(frozen=True)
class Ending:
    """How one attempt of a request ended.

    Parameters
    ----------
    how : str
        How far the request came.
    reason : str
        The words of a library, or of the connection's other end.
    sent : int
        Bytes of the body that were sent.
    length : int, optional
        Bytes of the whole body, if known.
    response : Response, optional
        The response, without secrets.
    retry_after : float, optional
        Seconds that the service asks to wait.
    is_certain : bool
        Whether the response is surely the service's, and about this request.
    is_open : bool
        Whether the documentation leaves the body of a success open.
    has_size : bool
        Whether it is known about how many bytes the body has.
    """

    how: How
    reason: str = ""
    sent: int = 0
    length: int | None = None
    response: Response | None = None
    retry_after: float | None = None
    is_certain: bool = False
    is_open: bool = False
    has_size: bool = True

    @property
    def amount(self) -> str:
        """How much was sent, in words."""
        whole = f" of {format_bytes(self.length)}" if self.length else ""
        return f"{format_bytes(self.sent)}{whole}"


def explain(purpose: Purpose, ending: Ending) -> Failure | None:
    """Return why an attempt failed, or None if its response is a success."""
    failure = _explain(purpose, ending)
    return failure and dataclasses.replace(
        failure, sent=ending.sent, retry_after=ending.retry_after
    )


def _explain(purpose: Purpose, ending: Ending) -> Failure | None:
    response = ending.response
    if response is None:
        return _explain_unconfirmed(purpose, ending)
    if response.status >= 300:
        return _explain_refusal(purpose, ending, response)
    doubt = ""
    how: How = "all sent" if ending.how == "answered" else "early"
    if response.status < 200:
        how = "all sent" if ending.how == "answered" else "partly sent"
        doubt = f"the connection closed after an interim {response.status} response"
    elif ending.how == "early":
        doubt = (
            f"the service responded {response.status} before the whole body was sent"
        )
    elif not purpose.is_read:
        doubt = _DOUBTS.get(response.status, f"unexpected status {response.status}")
        if response.status in _CONFIRMING:
            doubt = find_doubt(response, is_open=ending.is_open)
    if not doubt:
        return None
    unconfirmed = dataclasses.replace(ending, how=how, reason=doubt)
    return _explain_unconfirmed(purpose, unconfirmed)


def may_lack_operation(error: errors.ResponseError) -> bool:
    """Return whether a refusal may mean that the server lacks the operation."""
    return any(
        meaning.lacks != "no"
        and meaning.error is type(error)
        and str(error.status) in meaning.endings.split("|")
        for meaning in MEANINGS
    )


def cure_unknown(purpose: Purpose) -> str:
    """Return what to do if nothing is known of a request that was sent."""
    cure = purpose.cures.get(errors.OutcomeUnknown)
    return cure or _find(purpose, "all sent").cure


def explain_unreadable(purpose: Purpose, response: Response, problem: str) -> Failure:
    """Return the failure of a success whose body cannot be parsed."""
    message = shorten(make_printable(problem), MAX_MESSAGE)
    body = show_body(response)
    text = f"could not {purpose.action}: {message}"
    if body:
        text += f"; the body starts with {shorten(body, 100)!r}"
    facts = {"status": response.status, "message": message, "body": body}
    return _failure(purpose, _find(purpose, "unreadable"), text, facts)


def _explain_unconfirmed(purpose: Purpose, ending: Ending) -> Failure:
    """Return the failure of an attempt without a response that says what was done."""
    meaning = _find(purpose, ending.how)
    about_table = f"table {purpose.table!r}: "
    facts = {}
    if issubclass(meaning.error, errors.TransportError):
        facts["bytes_sent"] = ending.sent
    if meaning.error is errors.ConnectError:
        text = f"could not connect to {ending.reason}"
    elif meaning.error is errors.TLSError:
        text = f"could not verify the certificate of {ending.reason}"
    elif purpose.is_read:
        text = f"could not {purpose.action}: {ending.reason}"
    elif meaning.error is errors.UploadInterrupted:
        text = (
            f"{about_table}the connection failed after sending {ending.amount} "
            f"({ending.reason})"
        )
    elif purpose.stage == "commit":
        text = f"{about_table}the commit began ({ending.reason})"
    elif purpose.stage == "empty":
        text = f"{about_table}creating it without rows began ({ending.reason})"
    else:
        amount = "everything"
        if ending.how != "all sent":
            amount = format_bytes(ending.sent)
        text = f"{about_table}{amount} was sent ({ending.reason})"
    return _failure(purpose, meaning, text, facts)


def _explain_refusal(purpose: Purpose, ending: Ending, response: Response) -> Failure:
    """Return the failure for a status of 300 or more."""
    status = response.status
    message = find_message(response)
    says = _find_word(ending, message)
    # a broken server may send any three digits
    hundreds = min(status // 100, 6)
    meaning = _find(purpose, str(status), f"{hundreds}xx", says=says)
    reason = message or _phrase(status)
    if meaning.error is errors.OutcomeUnknown:
        reason = f"{status}, {reason}"
        unknown = dataclasses.replace(ending, how="all sent", reason=reason)
        failure = _explain_unconfirmed(purpose, unknown)
        return dataclasses.replace(failure, repeat=meaning.repeat, cure=meaning.cure)
    facts = {
        "status": status,
        "message": message,
        "body": show_body(response),
        "retry_after": ending.retry_after,
    }
    if ending.retry_after and meaning.cure in _WAITS:
        meaning = meaning._replace(cure=_wait(ending.retry_after))
    if meaning.error is errors.RedirectError:
        reason = f"redirected to {find_new_host(response)}"
    elif meaning.error is errors.PayloadTooLarge and not purpose.is_read:
        reason += f" (sent {ending.amount})"
    text = f"could not {purpose.action}: {status}, {reason}"
    hint = _find_hint(purpose, ending)
    failure = dataclasses.replace(_failure(purpose, meaning, text, facts), hint=hint)
    # some servers say it themselves
    if "nothing was " in message:
        failure = dataclasses.replace(failure, state="")
    return failure


def _wait(seconds: float) -> str:
    return f"wait {max(seconds, 1):,.0f} s before the next call"


def _find_word(ending: Ending, message: str) -> str:
    """Return the word of a row for what a response says, or "".

    "itself": it says itself what to do, as that of a folder.
    "slow": the source of the body may be.
    """
    code = ending.response and find_code(ending.response)
    word = _CODES.get(code or 0, "")
    if not word and _EXISTS in message.lower():
        word = "exists"
    if word:
        return word
    if ending.is_certain:
        return "itself"
    # a source of unknown size may be slow
    return "" if ending.has_size else "slow"


def _find_hint(purpose: Purpose, ending: Ending) -> str:
    """Return what may help besides the cure, by what was sent and who responded."""
    response = ending.response
    if response is None or ending.is_certain:
        return ""
    if response.status == 413 and b"nginx" in response.body.lower():
        return _NGINX
    if response.status in _UNREADABLE:
        return _WITHOUT_CODEC if purpose.is_compressed() else ""
    return ""


def _phrase(status: int) -> str:
    """Return HTTP's words for a status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "without a message"


def _find(purpose: Purpose, *endings: str, says: str = "") -> Meaning:
    """Return the first row that fits."""
    kind = purpose.kind
    requests = {"any", kind, f"{kind}:{purpose.operation.name}"}
    for meaning in MEANINGS:
        if requests.isdisjoint(meaning.requests.split("|")):
            continue
        if set(endings).isdisjoint(meaning.endings.split("|")):
            continue
        if meaning.says in ("", says):
            return meaning
    raise LookupError(f"no meaning of {endings} for {sorted(requests)}")


def _failure(
    purpose: Purpose, meaning: Meaning, text: str, facts: dict[str, Any]
) -> Failure:
    return Failure(
        meaning.error,
        text,
        meaning.acted,
        meaning.repeat,
        _state(purpose, meaning),
        meaning.cure,
        facts,
        lacks=meaning.lacks,
        is_final=meaning.is_final,
    )


def _state(purpose: Purpose, meaning: Meaning) -> str:
    """Return what became of the table, as far as this request alone shows."""
    kind = purpose.kind
    if issubclass(meaning.error, errors.ConnectError | errors.TLSError):
        is_alone = kind in ("read", "rows", "change")
        return "nothing was sent" if is_alone else "this request was not sent"
    if meaning.acted == "maybe":
        # of a truncated body, only a look at the table shows more
        if meaning.error is errors.UploadInterrupted:
            return ""
        return "the outcome is unknown"
    return _UNTOUCHED[kind]
