"""Print what each ending of each request means; ``--check`` compares with the file.

``python -m tests.meanings`` writes ``meanings.txt``: for every ending of a request, and
every operation, the error, whether the service may have acted, whether the request is
repeated, and the end of the message. Operations and endings of the same meaning share
a row. It calls private modules: the rows are more than a server can answer in a minute.
"""

from __future__ import annotations

import json
import ssl
import sys
from pathlib import Path
from typing import Any, NamedTuple

from urllib3.exceptions import NewConnectionError, ProtocolError, ProxyError

from rt_frames._http.arguments import Secrets
from rt_frames._http.failures import explain_no_response, interpret
from rt_frames._http.request import Failure, Purpose, Request
from rt_frames._http.response import Response, parse_count, parse_version
from rt_frames._http.session import _may_repeat
from rt_frames._http.upload import Upload

FILE = Path(__file__).with_name("meanings.txt")
READS = ["list", "describe", "count_rows", "query", "indices"]
ROWS = ["create", "replace", "append", "upsert"]
CHANGES = ["alter", "add_columns", "drop_columns", "delete", "restore", "drop"]
PARTS = [
    ("create", "empty"),
    ("create", "part"),
    ("replace", "part"),
    ("append", "part"),
    ("alter", "part"),
    ("create", "complete"),
    ("replace", "complete"),
    ("append", "complete"),
    ("alter", "complete"),
]
REQUESTS = [(operation, "") for operation in READS + ROWS + CHANGES] + PARTS
# statuses that some code or some document of HTTP gives a meaning of its own
STATUSES = [
    *(301, 304, 308, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 412, 413),
    *(415, 418, 421, 422, 423, 425, 426, 428, 429, 431, 451, 499),
    *(500, 501, 502, 503, 504, 505, 507, 511, 520, 524, 599, 600),
]
BODIES: dict[str, tuple[int, Any]] = {
    "400 already exists": (400, {"error": "Table 't' already exists"}),
    "404 conversions": (404, {"error": "no table 'conversions'"}),
    "404 version": (404, {"error": "version 3 does not exist"}),
    "404 code 4": (404, {"error": "no table", "code": 4}),
    "404 code 12": (404, {"error": "no column 'a'", "code": 12}),
    "409 code 5": (409, {"error": "exists", "code": 5}),
    "409 code 14": (409, {"error": "concurrent commit", "code": 14}),
    "409 code 19": (409, {"error": "not possible in this state", "code": 19}),
    "401 key": (401, {"error": "the x-api-key header is missing"}),
    "429 Retry-After": (429, {"error": "slow down"}),
    "507 message": (507, {"error": "no room"}),
    "200 no JSON": (200, b"accepted"),
    "200 page": (200, b"<html>login</html>"),
    "200 error": (200, {"error": "it failed"}),
    "200 list": (200, []),
    "202": (202, {}),
    "206": (206, {}),
    "103 at the end": (103, b""),
}
# how much of the body was sent before the connection failed
UNSENT = {
    "unsent": NewConnectionError(None, "refused"),  # type: ignore[arg-type]
    "unsent, proxy refuses": ProxyError("no", OSError("Tunnel connection failed: 403")),
    "unsent, proxy's login": ProxyError("no", OSError("Tunnel connection failed: 407")),
    "unsent, proxy fails": ProxyError("no", OSError("Tunnel connection failed: 503")),
    "unsent, certificate": ssl.SSLCertVerificationError("certificate verify failed"),
    "unsent, no TLS there": ssl.SSLError("WRONG_VERSION_NUMBER"),
}
SENT = ["partly", "all", "early 200"]


class Meaning(NamedTuple):
    """What an ending of a request means."""

    error: str
    acted: str
    repeat: str
    text: str

    def __str__(self) -> str:
        return f"{self.error}, acted: {self.acted}, repeat: {self.repeat}\n      {self.text}"


def endings() -> list[str]:
    """Return the names of all endings."""
    return [*UNSENT, *SENT, *map(str, STATUSES), *BODIES]


def meaning(operation: str, step: str, ending: str) -> Meaning:
    """Return what the package makes of an ending."""
    table = None if operation == "list" else "t"
    purpose = Purpose(operation, table, rows=2)  # type: ignore[arg-type]
    parse = parse_count if operation in READS else parse_version
    request = Request(purpose, "/", parse, multipart_step=step)  # type: ignore[arg-type]
    upload = Upload((), 100, 1.0, started=True, complete=True, sent=100)
    if ending in UNSENT:
        upload = Upload((), 100, 1.0)
        failure = _without_response(request, upload, UNSENT[ending])
    elif ending == "partly":
        upload = Upload((), 100, 1.0, started=True, sent=50)
        failure = _without_response(request, upload, ProtocolError("closed"))
    elif ending == "all":
        failure = _without_response(request, upload, ProtocolError("closed"))
    else:
        if ending == "early 200":
            upload = Upload((), 100, 1.0, started=True, sent=50)
        failure = interpret(request, upload, _response(ending), Secrets([]))
    if not isinstance(failure, Failure):
        return Meaning("none", "yes", "", "")
    return Meaning(
        failure.kind.__name__,
        "maybe" if failure.outcome_unknown else "no",
        "yes" if _may_repeat(failure, request) else "no",
        _generalize(failure.text, purpose.action),
    )


def _without_response(
    request: Request, upload: Upload, error: BaseException
) -> Failure:
    return explain_no_response(request, upload, error, "URL", "PROXY", Secrets([]))


def _response(ending: str) -> Response:
    status, content = BODIES.get(ending, (0, {"error": "MESSAGE"}))
    if ending.isdigit() and ending not in BODIES:
        status = int(ending)
    if ending == "early 200":
        status = 200
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    headers = {"Retry-After": "7"} if ending == "429 Retry-After" else {}
    return Response(status, headers, body)


def _generalize(text: str, action: str) -> str:
    """Leave out what every row repeats: the operation and the status."""
    text = text.replace(f"could not {action}: ", "could not …: ")
    for status in STATUSES:
        text = text.replace(f"{status}, MESSAGE", "STATUS, MESSAGE")
    return text


def transcript() -> str:
    """Return all distinct meanings, as text."""
    by_rows: dict[str, list[str]] = {}
    for ending in endings():
        names: dict[Meaning, list[str]] = {}
        for operation, step in REQUESTS:
            name = f"{operation}/{step}" if step else operation
            names.setdefault(meaning(operation, step, ending), []).append(name)
        rows = [f"  {_shorten(among)}\n    {found}" for found, among in names.items()]
        by_rows.setdefault("\n".join(rows), []).append(ending)
    sections = []
    for rows, same in by_rows.items():
        sections.append(f"# {' | '.join(same)}\n{rows}\n")
    return "\n".join(sections)


def _shorten(names: list[str]) -> str:
    """Write groups of operations as one word."""
    groups = {
        "EVERY REQUEST": [f"{name}/{step}" if step else name for name, step in REQUESTS],
        "READS": READS,
        "ROWS": ROWS,
        "CHANGES": CHANGES,
        "PARTS": [f"{name}/part" for name, step in PARTS if step == "part"],
        "COMMITS": [f"{name}/complete" for name, step in PARTS if step == "complete"],
    }
    left = [*names]
    words = []
    for word, group in groups.items():
        if set(group) <= set(left):
            words.append(word)
            left = [name for name in left if name not in group]
    return " ".join(words + left)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(FILE.read_text() != transcript())
    FILE.write_text(transcript())
