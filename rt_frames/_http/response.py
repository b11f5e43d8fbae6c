"""A service's answer: read within bounds, never trusted, and turned into a value or an error.

No answer may make this code fail: a body that cannot be read becomes a `Response` with a ``problem``, and a message is
found in any form that services use for errors.
"""

from __future__ import annotations

import contextlib
import http
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import requests
import urllib3
from requests.structures import CaseInsensitiveDict

from rt_frames import errors
from rt_frames._http.options import Secrets
from rt_frames._text import make_printable, one_line, shorten

READS = (
    "list",
    "describe",
    "count_rows",
    "query",
    "indices",
    # operations that change nothing and may always be repeated
)
# RFC 4918: no room to store it, so nothing was done
STORED_NOTHING = 507
# characters of a service's message that an error keeps
MAX_MESSAGE = 300
MAX_BODY_SHOWN = 2000
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
# the Lance namespace specification has several errors for 404 and for 409, which their code tells apart
_BY_CODE = {
    # no such column
    12: errors.BadRequest,
    14: errors.ConflictError,
    # the table's state does not allow it
    19: errors.ConflictError,
}


class Response(NamedTuple):
    """Status, headers and body; ``problem`` says why the body is not whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    problem: str | None = None

    def without(self, secrets: Secrets) -> Response:
        """Return what errors may tell of an answer, which may repeat the key."""
        body = secrets.hide(
            self.body.decode(json.detect_encoding(self.body), "replace")
        ).encode()
        headers = {
            name.lower(): secrets.hide(value) for name, value in self.headers.items()
        }
        return Response(
            self.status,
            CaseInsensitiveDict(headers),
            body,
            self.problem and secrets.hide(self.problem),
        )


def find_encoding(headers: Mapping[str, str]) -> str:
    """Return how a body is encoded, which was not asked for; nothing where it is not."""
    encoding = headers.get("Content-Encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding


def read_response(response: requests.Response, max_bytes: int) -> Response:
    """Read a body of at most ``max_bytes``; the connection sees to the deadline."""
    status = response.status_code
    headers = response.headers
    if encoding := find_encoding(headers):
        return Response(status, headers, b"", f"it is encoded as {encoding!r:.40}")
    body = bytearray()
    problem = None
    try:
        while problem is None and (
            piece := response.raw.read1(2**16, decode_content=False)
        ):
            body += piece
            if len(body) > max_bytes:
                problem = f"it is longer than {max_bytes // 2**20} MiB"
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        problem = f"it broke off ({type(error).__name__})"
    return Response(status, headers, bytes(body[:max_bytes]), problem)


def _decode_json(body: bytes) -> Any:
    """Decode JSON; None where it is none, or is nested too deeply."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(body)
    return None


def _get(found: Any, name: str) -> Any:
    return found.get(name) if isinstance(found, dict) else None


def _decode_whole(response: Response) -> Any:
    """Decode an answer that is worth nothing without its body."""
    if response.problem:
        raise ValueError(f"the answer could not be read: {response.problem}")
    found = _decode_json(response.body)
    if found is None:
        raise ValueError("the answer is not JSON")
    return found


def parse_table_names(response: Response) -> tuple[list[str], str | None]:
    """Read a list of tables, in any form that services of this kind give it, and the token of its next page.

    ``{"tables": [...], "page_token": ...}``, a bare array, objects with ``name``, or an Arrow stream with
    a ``name`` column; the service's documentation leaves the form open.
    """
    names: Any
    if response.body[:4] == b"\xff\xff\xff\xff" and not response.problem:
        names = _read_arrow_names(response.body)
        token = None
    else:
        found = _decode_whole(response)
        names, token = (
            (found.get("tables"), found.get("page_token"))
            if isinstance(found, dict)
            else (found, None)
        )
    if isinstance(names, list):
        names = [name.get("name") if isinstance(name, dict) else name for name in names]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError('the answer is not a list of tables such as {"tables": ["a"]}')
    if not isinstance(token, str | None):
        raise ValueError("the answer's page_token is not a string")
    return names, quote(token, safe="") if token else None


def parse_schema(response: Response) -> Any:
    """Read the schema in a table's description, where the service gives it."""
    return _get(_decode_whole(response), "schema")


def _read_arrow_names(body: bytes) -> Any:
    if not body.endswith(b"\xff\xff\xff\xff\0\0\0\0"):
        raise ValueError("the answer is an Arrow stream without its end")
    try:
        return pa.ipc.open_stream(body).read_all().column("name").to_pylist()
    except (pa.ArrowException, KeyError, OSError) as error:
        raise ValueError(
            f"the answer is not an Arrow stream with a name column ({error})"
        ) from None


def parse_no_rows(response: Response) -> None:
    """Refuse an answer to a query that is a success, and has no rows."""
    raise ValueError(f"the service answered {response.status}, which gives no rows")


def parse_upload_id(response: Response) -> str:
    """Read the id of a write in parts."""
    found = _get(_decode_whole(response), "upload_id")
    if not isinstance(found, str) or not found:
        raise ValueError("the answer has no upload_id")
    return found


def parse_indices(response: Response) -> list[str]:
    """Read the names of a table's indices."""
    found = _get(_decode_whole(response), "indexes")
    return (
        [str(name) for one in found if (name := _get(one, "index_name"))]
        if isinstance(found, list)
        else []
    )


def parse_count(response: Response) -> int:
    """Read a number of rows."""
    found = _decode_whole(response)
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise ValueError("the answer is not a number of rows")
    return found


def parse_version(response: Response) -> int | None:
    """Read the version that a write made, where the service tells it; success has many forms."""
    version = _get(_decode_json(response.body), "version")
    return (
        version if isinstance(version, int) and not isinstance(version, bool) else None
    )


def parse_deleted(response: Response) -> tuple[int | None, int | None]:
    """Read the version that a delete made and the number of rows, if reported."""
    rows = _get(_decode_json(response.body), "num_deleted_rows")
    is_number = isinstance(rows, int) and not isinstance(rows, bool)
    return parse_version(response), rows if is_number else None


def find_doubt(response: Response) -> str:
    """Say why an answer confirms no write though its status is that of a success; nothing where it does.

    It does with no body, or with a JSON object that holds no error; what else answers so is something in between.
    """
    status = response.status
    start = response.body.lstrip()[:1]
    if status == 202:
        return "the service answered 202, accepted but not done"
    if status not in (200, 201, 204):
        return f"the service answered {status}, which confirms nothing"
    # some frameworks label JSON so by default
    is_html = (
        status != 204
        and "text/html" in response.headers.get("Content-Type", "").lower()
    )
    if start == b"<" or (is_html and (start != b"{" or response.problem)):
        return f"a web page answered {status}, check the address"
    if response.problem:
        return f"the service answered {status} with a body that cannot be read: {response.problem}"
    if not start:
        return ""
    found = _decode_json(response.body)
    if not isinstance(found, dict):
        return f"the service answered {status}, but with no JSON object: {_show_body(response)[:100]!r}"
    if not found.get("error"):
        return ""
    return f"the service answered {status} with an error, {find_message(response.body) or 'without a message'}"


_ADVICE: dict[type[errors.RemoteError] | int, str] = {
    errors.AuthenticationError: "check the API key and that it belongs to this project",
    errors.TableNotFoundError: "rt.list_tables(), or rt-frames tables, shows the names that exist",
    errors.ConflictError: "somebody changed the table at the same time; check it, then try again",
    errors.PayloadTooLarge: "this server takes no more in one request; send less in one table",
    errors.BadRequest: "nothing was changed",
    errors.RedirectError: "connect to the address that the service moved to; redirects are not followed, they "
    "would carry the API key",
    errors.ServerError: "it is not known whether the service acted",
    **dict.fromkeys((405, 406, 501), "it takes no such request at that address"),
    408: "the body did not arrive in the time that it allows; collect a slow source into memory first",
    411: "it wants the length first, which compression=None sends for a frame in memory",
    STORED_NOTHING: "nothing was stored; try again when there is room",
}
# the arguments of a `Message` after its text
Hint = tuple[str, Mapping[str, Any]]
Hints = Mapping[type[errors.RemoteError], Hint]


class Failure(NamedTuple):
    """Why a request failed: what its error is made of, once nothing more can be learned."""

    kind: type[errors.RemoteError]
    text: str
    facts: dict[str, Any]
    hint: Hint = ("", {})
    # certain, so the request may be repeated
    nothing_done: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it leaves open what was done."""
        if self.facts.get("status") == STORED_NOTHING:
            return False
        return self.kind in (
            errors.UploadInterrupted,
            errors.OutcomeUnknown,
            errors.ServerError,
        )

    def with_advice(self, advice: str) -> Failure:
        """Return it with more to say."""
        return self._replace(text=f"{self.text}; {advice}") if advice else self


def error_class(
    status: int, operation: errors.Operation, message: str = "", code: Any = None
) -> type[errors.ResponseError]:
    """Return the error that an answer means which is not a success."""
    if operation == "create" and status == 400 and "already exists" in message.lower():
        return errors.TableExistsError
    if (status == 404 and operation in ("list", "create", "replace")) or (
        status == 409 and operation in READS
    ):
        # not about a table
        return errors.ResponseError
    if status in (404, 409) and isinstance(code, int) and code in _BY_CODE:
        return _BY_CODE[code]
    if operation == "create" and status == 409:
        return errors.TableExistsError
    if status // 100 == 3:
        return errors.RedirectError
    return (
        errors.ServerError
        if status // 100 == 5
        else _BY_STATUS.get(status, errors.ResponseError)
    )


def explain_refusal(
    response: Response,
    operation: errors.Operation,
    what: str,
    sent: str = "",
    *,
    is_seen: bool = True,
) -> Failure:
    """Read an answer that is not a success.

    ``sent`` tells how much of a body it is about, and ``is_seen`` whether anybody could see what the request did.
    """
    status = response.status
    message = find_message(response.body)
    kind = error_class(
        status, operation, message, _get(_decode_json(response.body), "code")
    )
    facts = {"status": status, "message": message, "body": _show_body(response)}
    said = message or (
        http.HTTPStatus(status).phrase
        if status in set(http.HTTPStatus)
        else "without a message"
    )
    advice = _ADVICE.get(status) or _ADVICE.get(kind, "")
    if kind is errors.RateLimited:
        facts["retry_after"] = wait = parse_retry_after(
            response.headers.get("Retry-After", "")
        )
        advice = f"wait {f'{max(wait, 1):,.0f} s ' if wait else ''}before the next call"
    elif kind is errors.ServerError and operation in READS and status != 501:
        advice = "try again later"
    elif status == STORED_NOTHING and message:
        advice = "nothing was stored"
    elif kind is errors.BadRequest and operation in READS:
        advice = ""
    elif kind is errors.AuthenticationError and "key" in message.lower():
        # the service's own words name the key
        advice = ""
    elif kind is errors.PayloadTooLarge and sent:
        said += f", after {sent} were sent"
    elif kind is errors.RedirectError:
        said = f"it redirects to {_find_host(response.headers.get('Location', ''))}"
    text = f"could not {what}: the service answered {status}, {said}"
    if advice in said or (kind is errors.ServerError and not is_seen):
        advice = ""
    return Failure(kind, f"{text}; {advice}" if advice else text, facts)


def explain_unreadable(response: Response, what: str, problem: str) -> Failure:
    """Say that an answer is a success by its status alone."""
    body = _show_body(response)
    message = shorten(make_printable(problem), MAX_MESSAGE)
    text = f"could not {what}: {message}; the answer starts with {body[:200]!r}; check the address"
    return Failure(
        errors.ResponseError,
        text,
        {"status": response.status, "message": message, "body": body},
    )


def _show_body(response: Response) -> str:
    return shorten(response.body.decode("utf-8", "replace"), MAX_BODY_SHOWN)


def find_message(body: bytes) -> str:
    """Find the sentence for people in an error's body: JSON of any known form, HTML, or plain text."""
    text = body[: 2**16].decode("utf-8", "replace")
    decoded = _decode_json(body)
    if decoded is not None:
        text = _find_sentence(decoded)
    elif "<" in text[:200]:
        # html.parser takes minutes for 64 kB of unclosed tags
        text = re.sub("<[^<>]*>", " ", re.split("(?i)</head>", text)[-1])
    printable = "".join(
        char if char.isprintable() and char != "\ufffd" else " " for char in text
    )
    return one_line(printable, MAX_MESSAGE)


def _find_sentence(value: Any, levels: int = 9) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and levels:
        return "; ".join(
            filter(None, (_find_sentence(item, levels - 1) for item in value[:5]))
        )
    if not isinstance(value, dict) or not levels:
        return ""
    names = (
        "error",
        "detail",
        "message",
        "msg",
        "title",
        "errors",
        "error_description",
        "reason",
    )
    return next(
        filter(None, (_find_sentence(value.get(name), levels - 1) for name in names)),
        "",
    )


def _find_host(location: str) -> str:
    found = re.match(r"(?i)https?://(?:[^/?#@]*@)?([a-z0-9.:*\[\]-]+)", location)
    return found[1][:100] if found else "another path of the same host"


def parse_retry_after(header: str) -> float | None:
    """Return the seconds that the service asks to wait; None where it says nothing that can be read."""
    try:
        return float(urllib3.Retry().parse_retry_after(header))
    except (urllib3.exceptions.InvalidHeader, ValueError, TypeError, OverflowError):
        return None
