"""The WSGI application: routes, headers, errors as ``{"error": {"code", "message"}}``.

The routes are those of the service's documentation and those of the official client,
``lancedb``.
"""

from __future__ import annotations

import contextlib
import hmac
import http
import itertools
import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote

import pyarrow as pa

from rt_frames._protocol.calls import ARROW_STREAM, JSON
from rt_frames._protocol.operations import ABILITIES
from rt_frames._protocol.responses import (
    ABILITIES_HEADER,
    CALL_HEADER,
    LANCEDB_HEADER,
    PARTS_SINCE,
    SERVER_HEADER,
)
from rt_frames._schema.data_type import to_data_type
from rt_frames._text import list_names, make_printable
from rt_frames._version import __version__
from rt_frames.errors import UnsupportedTypeError
from rt_frames.local import (
    calls,
    changes,
    compaction,
    engine,
    history,
    merge,
    query,
    replace_where,
)
from rt_frames.local.body import Body
from rt_frames.local.calls import Call
from rt_frames.local.http_error import HTTPError
from rt_frames.local.store import Store
from rt_frames.local.uploads import Uploads
from rt_frames.local.validate import open_stream

log = logging.getLogger("rt_frames")
# one line per request
access = logging.getLogger("rt_frames.access")

MAX_JSON_BYTES = 16 * 2**20
EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"
Environ = dict[str, Any]


class Application:
    """Routes requests to the store.

    Parameters
    ----------
    store : Store
        The tables.
    api_key : str
        The key that every request must carry.
    host : str
        The address that the server listens on. Only this address and the loopback names
        are accepted in the Host header.
    """

    def __init__(self, store: Store, api_key: str, host: str) -> None:
        self._store = store
        self._uploads = Uploads(store)
        self._key = api_key.encode()
        self._hosts = {
            "127.0.0.1",
            "localhost",
            "[::1]",
            host.lower(),
            f"[{host.lower()}]",
        }
        self._any_host = host in ("0.0.0.0", "::", "")  # nosec B104  # noqa: S104  # only compared

    def __call__(
        self, environ: Environ, start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        body: Body = environ["rt_frames.body"]
        start = time.monotonic()
        status, answer = self._answer(environ, body)
        if _content_type(environ) == ARROW_STREAM:
            # that of batches, which the pool would keep
            pa.default_memory_pool().release_unused()
        access.debug(
            "%s %s %.300s %s, %d bytes received, %.0f ms",
            environ.get("REMOTE_ADDR", "-"),
            environ["REQUEST_METHOD"],
            make_printable(environ["REQUEST_URI"]),
            status,
            body.received,
            (time.monotonic() - start) * 1000,
        )
        payload: Iterable[bytes]
        if isinstance(answer, Iterator):
            payload = answer
            headers = [("Content-Type", ARROW_STREAM)]
        else:
            encoded = json.dumps(answer).encode()
            payload = [encoded]
            headers = [("Content-Type", JSON), ("Content-Length", str(len(encoded)))]
        headers += _common_headers(environ)
        start_response(f"{status} {http.HTTPStatus(status).phrase}", headers)
        return payload

    def _answer(self, environ: Environ, body: Body) -> tuple[int, Any]:
        try:
            self._check_caller(environ)
            environ["rt_frames.wait_for_body"]()
            return 200, self._route(environ, body)
        except HTTPError as error:
            status = error.status
            message = str(error)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # Lance's panics are BaseExceptions, too (pylance 14)
            log.exception("the embedded service failed")
            status = 500
            message = "the embedded service failed; see the log of its process"
        return status, {"error": {"code": status, "message": message}}

    def _check_caller(self, environ: Environ) -> None:
        host = re.sub(r":\d+$", "", environ.get("HTTP_HOST", "")).lower()
        if not self._any_host and host not in self._hosts:
            raise HTTPError(
                400,
                "the Host header is not an address of this service; use the service's URL",
            )
        key = environ.get("HTTP_X_API_KEY", "").encode("latin-1", "replace")
        if not hmac.compare_digest(key, self._key):
            raise HTTPError(
                401,
                "the x-api-key header is missing or wrong; check the API key and that it "
                "belongs to this service",
            )

    def _route(self, environ: Environ, body: Body) -> Any:
        path = environ["REQUEST_URI"].partition("?")[0]
        path = re.sub(r"^https?://[^/]*", "", path)
        for method, route, respond in self._routes:
            match = re.fullmatch(_pattern(route), path)
            if match is None:
                continue
            if environ["REQUEST_METHOD"] != method:
                raise HTTPError(
                    405,
                    f"{environ['REQUEST_METHOD']:.20} is not allowed at this path; use {method}",
                )
            answer: Callable[..., Any] = partial(respond, self, environ, body)
            names = [*map(unquote, match.groups())]
            if not names:
                return answer()
            return self._answer_once(environ, body, answer, *names)
        # a 404 would mean that the table is missing
        status = 501 if re.fullmatch("/v1/table/[^/]+/.+", path) else 404
        raise HTTPError(status, f"the embedded service has no endpoint {path!r:.100}")

    def _answer_once(
        self, environ: Environ, body: Body, answer: Callable[..., Any], name: str
    ) -> Any:
        """Answer a request, or give the answer that an earlier attempt was given."""
        is_read = environ["REQUEST_METHOD"] == "GET"
        call = calls.parse(
            environ.get("HTTP_X_RT_FRAMES_CALL", ""),
            environ.get("HTTP_X_RT_FRAMES_SINCE", ""),
            "" if is_read else environ["REQUEST_URI"],
        )
        try:
            with calls.serving(call):
                return answer(name)
        except HTTPError as error:
            kept = call and self._find_kept(name, call, error)
            if not kept:
                raise
        # the client expects no success before it has sent all
        while body.read(2**20):
            pass
        response, environ["rt_frames.etag"] = kept
        return response

    def _find_kept(
        self, name: str, call: Call, refusal: HTTPError
    ) -> tuple[dict[str, int], str] | None:
        try:
            return self._store.find_call(name, call)
        except HTTPError as error:
            # of a commit, a client takes 404 for certain; other refusals tell more
            if error.status == 422 or refusal.status == 404:
                raise
        return None

    def _find_call(self, _environ: Environ, _body: Body, _name: str) -> None:
        # `_answer_once` has the answer of a call that was carried out
        raise HTTPError(404, "this call was not carried out so far")

    def _list(self, environ: Environ, _body: Body) -> dict[str, Any]:
        after = _query_parameter(environ, "page_token")
        names = self._store.names(after)
        page = list(itertools.islice(names, _limit(environ)))
        if next(names, None) is None:
            return {"tables": page}
        return {"tables": page, "page_token": page[-1]}

    def _create(
        self, environ: Environ, body: Body, name: str, *, replace: bool = False
    ) -> dict[str, Any]:
        self._store.check_free(name, replace=replace)
        _check_content_type(environ, ARROW_STREAM)
        schema, batches = open_stream(body)
        version, environ["rt_frames.etag"] = self._store.create(
            name, schema, batches, replace=replace
        )
        return {"version": version}

    def _create_or_replace(
        self, environ: Environ, body: Body, name: str
    ) -> dict[str, Any]:
        mode = _query_parameter(environ, "mode").lower() or "create"
        if mode not in ("create", "overwrite", "exist_ok"):
            raise HTTPError(
                400,
                f"mode: expected create, overwrite or exist_ok, got {mode!r:.100}",
            )
        try:
            return self._create(environ, body, name, replace=mode == "overwrite")
        except HTTPError as error:
            if error.status != 409 or isinstance(error, calls.CannotTell):
                raise
            if mode == "exist_ok":
                return {"version": self._store.open(name).version}
            # the official client expects this status for a name that is taken
            raise HTTPError(400, str(error)) from error

    def _insert(self, environ: Environ, body: Body, name: str) -> dict[str, Any]:
        self._store.check_there(name)
        mode = _query_parameter(environ, "mode").lower()
        upload_id = _query_parameter(environ, "upload_id")
        part = _query_parameter(environ, "upload_part_id")
        if mode not in ("", "append", "overwrite"):
            raise HTTPError(
                400, f"mode: expected append or overwrite, got {mode!r:.100}"
            )
        if upload_id or part:
            return self._add_part(
                environ, body, name, upload_id, part, replace=mode == "overwrite"
            )
        if mode == "overwrite":
            return self._create(environ, body, name, replace=True)
        _check_content_type(environ, ARROW_STREAM)
        return {"version": self._store.append(name, *open_stream(body))}

    def _merge_insert(self, environ: Environ, body: Body, name: str) -> dict[str, int]:
        self._store.check_there(name)
        _check_content_type(environ, ARROW_STREAM)
        keys = merge.parse_keys(parse_qs(str(environ["QUERY_STRING"])))
        return self._store.merge(name, keys, *open_stream(body))

    def _replace_where(self, environ: Environ, body: Body, name: str) -> dict[str, int]:
        self._store.check_there(name)
        unknown = parse_qs(str(environ["QUERY_STRING"]), keep_blank_values=True)
        if unknown:
            raise HTTPError(
                400,
                f"unknown parameters: {list_names(sorted(unknown))}; nothing was changed; "
                "leave them out",
            )
        _check_content_type(environ, ARROW_STREAM)
        schema, batches = open_stream(body)
        condition = replace_where.parse_condition(schema)
        return self._store.replace_where(name, condition, schema, batches)

    def _add_part(
        self,
        environ: Environ,
        body: Body,
        name: str,
        upload_id: str,
        part: str,
        *,
        replace: bool,
    ) -> dict[str, Any]:
        _check_content_type(environ, ARROW_STREAM)
        if not re.fullmatch(r"[0-9a-fA-F-]{1,64}", part):
            raise HTTPError(400, f"upload_part_id: expected a UUID, got {part!r:.100}")
        body.checksum = 0
        schema, batches = open_stream(body)
        self._uploads.add_part(
            name,
            upload_id,
            part.lower(),
            replace=replace,
            schema=schema,
            batches=batches,
            content=lambda: f"{replace=}, {body.received} bytes, {body.checksum}",
        )
        return {}

    def _begin_parts(self, _environ: Environ, _body: Body, name: str) -> dict[str, Any]:
        upload_id, version = self._uploads.begin(name)
        return {"upload_id": upload_id, "version": version}

    def _complete_parts(
        self, environ: Environ, _body: Body, name: str
    ) -> dict[str, Any]:
        upload_id = _query_parameter(environ, "upload_id")
        version = self._uploads.complete(name, upload_id, _if_match(environ))
        return {"version": version}

    def _abort_parts(self, environ: Environ, _body: Body, name: str) -> dict[str, Any]:
        self._uploads.abort(name, _query_parameter(environ, "upload_id"))
        return {}

    def _alter(self, environ: Environ, body: Body, name: str) -> dict[str, Any]:
        self._store.check_there(name)
        _check_content_type(environ, JSON)
        request = _read_json(body, '{"alterations": [{"path": "a", "rename": "b"}]}')
        version = self._store.change(name, partial(changes.alter, request=request))
        return {"version": version}

    def _add_columns(self, environ: Environ, body: Body, name: str) -> dict[str, int]:
        self._store.check_there(name)
        if _content_type(environ) == JSON:
            raise HTTPError(
                501,
                "the embedded service does not compute columns; send an Arrow schema "
                "without rows, to add columns of nulls",
            )
        _check_content_type(environ, ARROW_STREAM)
        schema, batches = open_stream(body)
        if next(batches, None) is not None:
            raise HTTPError(
                400,
                "the stream has rows, but new columns are null in all rows; nothing was "
                "changed; send a schema without rows",
            )
        return self._store.change(name, partial(changes.add_columns, schema=schema))

    def _drop_columns(self, environ: Environ, body: Body, name: str) -> dict[str, int]:
        self._store.check_there(name)
        _check_content_type(environ, JSON)
        request = _read_json(body, '{"columns": ["a"]}')
        return self._store.change(name, partial(changes.drop_columns, request=request))

    def _delete(self, environ: Environ, body: Body, name: str) -> dict[str, int]:
        self._store.check_there(name)
        _check_content_type(environ, JSON)
        request = _read_json(body, '{"predicate": "n > 1"}')
        return self._store.change(name, partial(changes.delete, request=request))

    def _restore(self, environ: Environ, body: Body, name: str) -> dict[str, int]:
        self._store.check_there(name)
        _check_content_type(environ, JSON)
        request = query.parse_request(_read_json(body, '{"version": 3}'))
        if set(request) != {"version"}:
            raise HTTPError(
                400, 'the body needs "version" and nothing else; send {"version": 3}'
            )
        version = request["version"]
        change = partial(changes.restore, version=version)
        return self._store.change(name, change, spared=version)

    def _compact(self, environ: Environ, body: Body, name: str) -> dict[str, int]:
        self._store.check_there(name)
        _check_content_type(environ, JSON)
        request = _read_json(body, '{"purge": false}')
        return self._store.change(name, partial(compaction.compact, request=request))

    def _describe(self, _environ: Environ, body: Body, name: str) -> dict[str, Any]:
        table, _ = self._open(body, name)
        try:
            fields = to_data_type(pa.struct(list(table.schema)), maps=True)["fields"]
        except UnsupportedTypeError as error:
            raise HTTPError(501, f"the schema cannot be described: {error}") from error
        _add_metadata(fields, table.lance_schema.fields())
        schema: dict[str, Any] = {"fields": fields}
        if table.schema.metadata:
            metadata = {}
            for key, value in table.schema.metadata.items():
                metadata[key.decode()] = value.decode()
            schema["metadata"] = metadata
        return {"version": table.version, "schema": schema}

    def _list_indices(self, _environ: Environ, body: Body, name: str) -> dict[str, Any]:
        table, _ = self._open(body, name)
        indices = [
            {"index_name": index.name, "columns": index.field_names}
            for index in table.describe_indices()
        ]
        return {"indexes": indices}

    def _list_versions(
        self, environ: Environ, _body: Body, name: str
    ) -> dict[str, Any]:
        table = self._store.open(name)
        with engine.as_http_errors(state=""):
            return {"versions": history.list_versions(table, _limit(environ))}

    def _count_rows(self, _environ: Environ, body: Body, name: str) -> int:
        return query.count_rows(*self._open(body, name))

    def _query(self, _environ: Environ, body: Body, name: str) -> Iterator[bytes]:
        return query.read_rows(*self._open(body, name))

    def _open(self, body: Body, name: str) -> tuple[Any, dict[str, Any]]:
        request = query.parse_request(_read_json(body, "{}, or no body"))
        table = self._store.open(name, request.get("version"))
        return table, request

    def _drop(self, environ: Environ, _body: Body, name: str) -> dict[str, Any]:
        self._store.drop(name, _if_match(environ))
        return {}

    _routes = (
        ("GET", "/v1/tables", _list),
        ("POST", "/v1/tables/{name}", _create),
        ("POST", "/v1/table/{name}/alter_columns/", _alter),
        ("POST", "/v1/table/{name}/add_columns/", _add_columns),
        ("POST", "/v1/table/{name}/drop_columns/", _drop_columns),
        ("POST", "/v1/table/{name}/delete/", _delete),
        ("POST", "/v1/table/{name}/restore/", _restore),
        ("GET", "/v1/table/{name}/call/", _find_call),
        ("POST", "/v1/table/{name}/compact/", _compact),
        ("GET", "/v1/namespace/$/table/list", _list),
        ("GET", "/v1/table/", _list),
        ("POST", "/v1/table/{name}/create/", _create_or_replace),
        ("POST", "/v1/table/{name}/insert/", _insert),
        ("POST", "/v1/table/{name}/merge_insert/", _merge_insert),
        ("POST", "/v1/table/{name}/replace_where/", _replace_where),
        ("POST", "/v1/table/{name}/multipart_write/create/", _begin_parts),
        ("POST", "/v1/table/{name}/multipart_write/complete/", _complete_parts),
        ("POST", "/v1/table/{name}/multipart_write/abort/", _abort_parts),
        ("POST", "/v1/table/{name}/describe/", _describe),
        ("POST", "/v1/table/{name}/count_rows/", _count_rows),
        ("POST", "/v1/table/{name}/query/", _query),
        ("POST", "/v1/table/{name}/index/list/", _list_indices),
        ("POST", "/v1/table/{name}/version/list/", _list_versions),
        ("POST", "/v1/table/{name}/drop/", _drop),
    )


def _common_headers(environ: Environ) -> list[tuple[str, str]]:
    headers = [
        (LANCEDB_HEADER, "{}.{}.0".format(*PARTS_SINCE)),
        (SERVER_HEADER, __version__),
        (ABILITIES_HEADER, " ".join(ABILITIES)),
    ]
    etag = environ.get("rt_frames.etag")
    if etag:
        headers.append(("ETag", f'"{etag}"'))
    call_id = environ.get("HTTP_X_RT_FRAMES_CALL", "")
    if calls.is_id(call_id):
        headers.append((CALL_HEADER, call_id))
    request_id = environ.get("HTTP_X_REQUEST_ID")
    if request_id:
        safe_id = re.sub(r"[^\w.-]", "", request_id, flags=re.ASCII)[:100]
        headers.append(("x-request-id", safe_id))
    return headers


def _add_metadata(descriptions: list[dict[str, Any]], fields: list[Any]) -> None:
    """Add field metadata to a described schema, extension types in Arrow's form."""
    # Lance lists no children of a fixed_size_list (pylance 14)
    for description, field in zip(descriptions, fields, strict=False):
        metadata = dict(field.metadata)
        if not metadata.get(EXTENSION_METADATA):
            metadata.pop(EXTENSION_METADATA, None)
        # Lance's name for the type, which it stores and returns as Arrow's
        if metadata.get(EXTENSION_NAME) == "lance.json":
            metadata[EXTENSION_NAME] = "arrow.json"
        if metadata:
            description["metadata"] = metadata
        _add_metadata(description["type"].get("fields", []), field.children())


def _pattern(route: str) -> str:
    """Turn a route into a regular expression. A final slash becomes optional."""
    pattern = re.escape(route).replace(r"\{name\}", "([^/]+)")
    pattern = pattern.replace(r"\$", r"(?:\$|%24)")
    return f"{pattern}?" if route.endswith("/") else pattern


def _query_parameter(environ: Environ, name: str) -> str:
    return parse_qs(str(environ["QUERY_STRING"])).get(name, [""])[-1]


def _limit(environ: Environ) -> int | None:
    """Return how many items a list may have, or None."""
    limit = _query_parameter(environ, "limit")
    if not limit:
        return None
    if not re.fullmatch("0*[1-9][0-9]{0,17}", limit):
        raise HTTPError(400, f"limit: expected a positive integer, got {limit!r:.100}")
    return int(limit)


def _if_match(environ: Environ) -> str:
    """Return the ETag that the table must still have. Empty and ``*`` mean any."""
    return str(environ.get("HTTP_IF_MATCH", "")).strip('"')


def _read_json(body: Body, example: str) -> dict[str, Any]:
    """Parse a JSON object. An empty body counts as an empty object."""
    text = bytes(body.read(MAX_JSON_BYTES))
    if body.read(1):
        raise HTTPError(
            413,
            f"the JSON body is larger than {MAX_JSON_BYTES // 2**20} MiB; send several requests",
        )
    with contextlib.suppress(ValueError, RecursionError):
        parsed = json.loads(text or b"{}")
        if isinstance(parsed, dict):
            return parsed
    raise HTTPError(400, f"the body is not a JSON object; send {example}")


def _content_type(environ: Environ) -> str:
    value: str = environ.get("CONTENT_TYPE", "")
    return value.partition(";")[0].strip().lower()


def _check_content_type(environ: Environ, expected: str) -> None:
    content_type = _content_type(environ)
    if content_type != expected:
        raise HTTPError(
            415, f"Content-Type: expected {expected}, got {content_type!r:.100}"
        )
