"""The WSGI application: three routes, one header, errors as ``{"error": {"code", "message"}}``."""

from __future__ import annotations

import contextlib
import hmac
import http
import json
import logging
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from rt_frames.local._changes import changes_in, said
from rt_frames.local._problem import Problem
from rt_frames.local._stream import Body, open_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rt_frames.local._store import Store

log = logging.getLogger("rt_frames")

ARROW, JSON = "application/vnd.apache.arrow.stream", "application/json"
MOST_JSON = 16 * 2**20
LINGER_SECONDS, LINGER_BYTES = 5.0, 256 * 2**20
Environ = dict[str, Any]


class Application:
    """Answers requests with what the store does.

    Parameters
    ----------
    store : Store
        The tables.
    api_key : str
        The key that every request must carry.
    """

    def __init__(self, store: Store, api_key: str) -> None:
        self._store, self._key = store, api_key.encode()

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = _body_of(environ)
        try:
            self._check_caller(environ)
            status, answer = 200, self._route(environ, body)
        except Problem as problem:
            status, answer = problem.status, {"error": {"code": problem.status, "message": str(problem)}}
        except Exception:
            log.exception("the embedded service failed")
            status, answer = 500, {"error": {"code": 500, "message": "the embedded service failed; its log says why"}}
        payload = json.dumps(answer).encode()
        headers = [("Content-Type", JSON), ("Content-Length", str(len(payload)))]
        if not body.finished:
            headers.append(("Connection", "close"))
        if request_id := environ.get("HTTP_X_REQUEST_ID"):
            headers.append(("x-request-id", re.sub(r"[^\w.-]", "", request_id, flags=re.ASCII)[:100]))
        start_response(f"{status} {http.HTTPStatus(status).phrase}", headers)
        return _answered(payload, body)

    def _check_caller(self, environ: Environ) -> None:
        host = environ.get("HTTP_HOST", "")
        allowed = {"127.0.0.1", "localhost", "[::1]", environ.get("rt_frames.host")}
        if re.sub(r":\d+$", "", host).lower() not in allowed:
            raise Problem(400, "wrong Host header; this service answers only under its own address")
        given = environ.get("HTTP_X_API_KEY", "").encode("latin-1", "replace")
        if not hmac.compare_digest(given, self._key):
            raise Problem(401, "the x-api-key header is missing or wrong")

    def _route(self, environ: Environ, body: Body) -> dict[str, Any]:
        path, method = environ["REQUEST_URI"].partition("?")[0], environ["REQUEST_METHOD"]
        path = re.sub(r"^https?://[^/]*", "", path)
        for wanted, pattern, respond in self._routes:
            if match := re.fullmatch(pattern, path):
                if method != wanted:
                    raise Problem(405, f"{method} is not possible here; use {wanted}")
                return respond(self, environ, body, *map(_decoded, match.groups()))
        raise Problem(404, "there is no such address; there are GET /v1/tables, POST /v1/tables/{name} and "
                           "POST /v1/table/{name}/alter_columns")  # fmt: skip

    def _list(self, _environ: Environ, _body: Body) -> dict[str, Any]:
        return {"tables": self._store.names()}

    def _create(self, environ: Environ, body: Body, name: str) -> dict[str, Any]:
        _check_content_type(environ, ARROW)
        self._store.check_free(name)
        schema, batches = open_stream(body)
        return {"version": self._store.create(name, schema, batches)}

    def _alter(self, environ: Environ, body: Body, name: str) -> dict[str, Any]:
        _check_content_type(environ, JSON)
        schema = self._store.schema(name)
        text = body.read(MOST_JSON)
        if not body.finished and body.read(1):
            raise Problem(413, f"an alter request has at most {MOST_JSON // 2**20} MiB")
        changes = changes_in(text, schema)
        try:
            return {"version": self._store.alter(name, changes)}
        except Problem as problem:
            raise Problem(problem.status, f"{problem}: {said(changes, schema)}") from problem

    _routes = (
        ("GET", r"/v1/tables", _list),
        ("POST", r"/v1/tables/([^/]+)", _create),
        ("POST", r"/v1/table/([^/]+)/alter_columns", _alter),
    )


def _check_content_type(environ: Environ, wanted: str) -> None:
    given = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    if given != wanted:
        raise Problem(415, f"Content-Type is {given!r:.100}; this request needs {wanted}")


def _decoded(name: str) -> str:
    try:
        return unquote_to_bytes(name).decode()
    except UnicodeDecodeError:
        raise Problem(400, "the table's name is no percent-encoded UTF-8") from None


def _body_of(environ: Environ) -> Body:
    stream = environ["wsgi.input"]
    if environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked":
        return Body(_Chunks(stream.rfile), None)
    return Body(stream, int(environ.get("CONTENT_LENGTH") or 0))


class _Chunks:
    """A chunked body; the server's own reader keeps each chunk whole in memory, whatever its size."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._left, self._ended = stream, 0, False

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes; nothing at the end alone."""
        if self._left == 0 and not self._ended:
            self._next()
        portion: bytes = self._stream.read(min(size, self._left)) if self._left else b""
        if self._left and not portion:
            raise EOFError
        self._left -= len(portion)
        if portion and self._left == 0:
            self._line(b"")
        return portion

    def _next(self) -> None:
        size = self._stream.readline(256).strip().partition(b";")[0]
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,16}", size):
            raise EOFError
        self._left = int(size, 16)
        if self._left == 0:
            while self._stream.readline(8192) not in (b"\r\n", b"\n"):
                pass
            self._ended = True

    def _line(self, wanted: bytes) -> None:
        if self._stream.readline(256).strip() != wanted:
            raise EOFError


def _answered(payload: bytes, body: Body) -> Iterator[bytes]:
    """Give the answer first; then take in, for a while, what is still being sent, so that it is heard."""
    yield payload
    until = time.monotonic() + LINGER_SECONDS
    with contextlib.suppress(Problem, OSError):
        while not body.finished and time.monotonic() < until and body.count < LINGER_BYTES:
            if not body.read(2**20):
                break
