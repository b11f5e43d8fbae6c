"""The routes: a request → what is done with the store, and the answer.

They are those of the service's documentation and those of the official client,
``lancedb``. Errors are ``{"error": {"code", "message"}}``. A folder's client calls the
application (`rt_frames._service.folder`); `server.py` puts it behind HTTP.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote

import pyarrow as pa

from rt_frames._protocol.calls import ARROW_STREAM, JSON
from rt_frames._protocol.responses import LANCEDB_HEADER, PARTS_SINCE
from rt_frames._schema.data_type import to_data_type
from rt_frames._text import list_names
from rt_frames.errors import UnsupportedTypeError
from rt_frames.local import (
    changes,
    compaction,
    engine,
    history,
    merge,
    query,
    replace_where,
)
from rt_frames.local.arrow_stream import Body
from rt_frames.local.http_error import HTTPError
from rt_frames.local.patience import Patience, waiting
from rt_frames.local.store import Store
from rt_frames.local.uploads import Uploads
from rt_frames.local.validate import open_stream

log = logging.getLogger("rt_frames")

MAX_JSON_BYTES = 16 * 2**20
EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"


class Asked(NamedTuple):
    """A request.

    Parameters
    ----------
    method, target : str
        As in HTTP's request line; the target is a path, with a query if any.
    headers : dict of str to str
        By name in lower case.
    body : Body
        The body.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: Body

    @property
    def content_type(self) -> str:
        value = self.headers.get("content-type", "")
        return value.partition(";")[0].strip().lower()

    def parameter(self, name: str) -> str:
        """Return a parameter of the query, or ""."""
        query = self.target.partition("?")[2]
        return parse_qs(query).get(name, [""])[-1]

    def check_content_type(self, expected: str) -> None:
        if self.content_type != expected:
            raise HTTPError(
                415,
                f"Content-Type: expected {expected}, got {self.content_type!r:.100}",
            )


class Answer(NamedTuple):
    """A response. A payload that is no list is computed while it is iterated."""

    status: int
    headers: dict[str, str]
    payload: Iterable[bytes]


class Application:
    """Routes requests to the store.

    Parameters
    ----------
    store : Store
        The tables.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._uploads = Uploads(store)

    def answer(self, asked: Asked, patience: Patience) -> Answer:
        """Carry out a request."""
        try:
            with waiting(patience):
                status, value = 200, self._route(asked)
        except HTTPError as error:
            return refuse(error)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # Lance's panics are BaseExceptions, too (pylance 14)
            log.exception("the folder failed")
            return refuse(
                HTTPError(
                    500,
                    "the folder failed unexpectedly; see the log of its process",
                )
            )
        finally:
            if asked.content_type == ARROW_STREAM:
                # that of batches, which the pool would keep
                pa.default_memory_pool().release_unused()
        if isinstance(value, Iterator):
            return Answer(status, _headers(ARROW_STREAM), value)
        return _json(status, value)

    def _route(self, asked: Asked) -> Any:
        path = asked.target.partition("?")[0]
        for method, route, respond in self._routes:
            match = re.fullmatch(_pattern(route), path)
            if match is None:
                continue
            if asked.method != method:
                raise HTTPError(
                    405,
                    f"{asked.method:.20} is not allowed at this path; use {method}",
                )
            answer: Callable[..., Any] = partial(respond, self, asked)
            return answer(*map(unquote, match.groups()))
        # a 404 would mean that the table is missing
        status = 501 if re.fullmatch("/v1/table/[^/]+/.+", path) else 404
        raise HTTPError(status, f"a folder has no endpoint {path!r:.100}")

    def _list(self, asked: Asked) -> dict[str, Any]:
        after = asked.parameter("page_token")
        names = self._store.names(after)
        page = list(itertools.islice(names, _limit(asked)))
        if next(names, None) is None:
            return {"tables": page}
        return {"tables": page, "page_token": page[-1]}

    def _create(
        self, asked: Asked, name: str, *, replace: bool = False
    ) -> dict[str, Any]:
        self._store.check_free(name, replace=replace)
        asked.check_content_type(ARROW_STREAM)
        schema, batches = open_stream(asked.body)
        version = self._store.create(
            name,
            schema,
            batches,
            replace=replace,
            etag=_if_match(asked) if replace else "",
        )
        return {"version": version}

    def _create_or_replace(self, asked: Asked, name: str) -> dict[str, Any]:
        mode = asked.parameter("mode").lower() or "create"
        if mode not in ("create", "overwrite", "exist_ok"):
            raise HTTPError(
                400,
                f"mode: expected create, overwrite or exist_ok, got {mode!r:.100}",
            )
        try:
            return self._create(asked, name, replace=mode == "overwrite")
        except HTTPError as error:
            if error.status != 409 or _if_match(asked):
                raise
            if mode == "exist_ok":
                return {"version": self._store.open(name).version}
            # the official client expects this status for a name that is taken
            raise HTTPError(400, str(error)) from error

    def _insert(self, asked: Asked, name: str) -> dict[str, Any]:
        self._store.check_there(name)
        mode = asked.parameter("mode").lower()
        upload_id = asked.parameter("upload_id")
        part = asked.parameter("upload_part_id")
        if mode not in ("", "append", "overwrite"):
            raise HTTPError(
                400, f"mode: expected append or overwrite, got {mode!r:.100}"
            )
        if upload_id or part:
            return self._add_part(
                asked, name, upload_id, part, replace=mode == "overwrite"
            )
        if mode == "overwrite":
            return self._create(asked, name, replace=True)
        asked.check_content_type(ARROW_STREAM)
        return {"version": self._store.append(name, *open_stream(asked.body))}

    def _merge_insert(self, asked: Asked, name: str) -> dict[str, int]:
        self._store.check_there(name)
        asked.check_content_type(ARROW_STREAM)
        keys = merge.parse_keys(parse_qs(asked.target.partition("?")[2]))
        return self._store.merge(name, keys, *open_stream(asked.body))

    def _replace_where(self, asked: Asked, name: str) -> dict[str, int]:
        self._store.check_there(name)
        unknown = parse_qs(asked.target.partition("?")[2], keep_blank_values=True)
        if unknown:
            raise HTTPError(
                400,
                f"unknown parameters: {list_names(sorted(unknown))}; nothing was changed; "
                "leave them out",
            )
        asked.check_content_type(ARROW_STREAM)
        schema, batches = open_stream(asked.body)
        condition = replace_where.parse_condition(schema)
        return self._store.replace_where(name, condition, schema, batches)

    def _add_part(
        self,
        asked: Asked,
        name: str,
        upload_id: str,
        part: str,
        *,
        replace: bool,
    ) -> dict[str, Any]:
        asked.check_content_type(ARROW_STREAM)
        if not re.fullmatch(r"[0-9a-fA-F-]{1,64}", part):
            raise HTTPError(400, f"upload_part_id: expected a UUID, got {part!r:.100}")
        asked.body.checksum = 0
        schema, batches = open_stream(asked.body)
        self._uploads.add_part(
            name,
            upload_id,
            part.lower(),
            replace=replace,
            schema=schema,
            batches=batches,
            content=lambda: (
                f"{replace=}, {asked.body.received} bytes, {asked.body.checksum}"
            ),
        )
        return {}

    def _begin_parts(self, _asked: Asked, name: str) -> dict[str, Any]:
        upload_id, version = self._uploads.begin(name)
        return {"upload_id": upload_id, "version": version}

    def _complete_parts(self, asked: Asked, name: str) -> dict[str, Any]:
        upload_id = asked.parameter("upload_id")
        version = self._uploads.complete(name, upload_id)
        return {"version": version}

    def _abort_parts(self, asked: Asked, name: str) -> dict[str, Any]:
        self._uploads.abort(name, asked.parameter("upload_id"))
        return {}

    def _read_request(self, asked: Asked, name: str, example: str) -> dict[str, Any]:
        """Return the JSON of a change of a table that is there."""
        self._store.check_there(name)
        asked.check_content_type(JSON)
        return _read_json(asked.body, example)

    def _alter(self, asked: Asked, name: str) -> dict[str, Any]:
        example = '{"alterations": [{"path": "a", "rename": "b"}]}'
        request = self._read_request(asked, name, example)
        version = self._store.change(name, partial(changes.alter, request=request))
        return {"version": version}

    def _add_columns(self, asked: Asked, name: str) -> dict[str, int]:
        self._store.check_there(name)
        if asked.content_type == JSON:
            raise HTTPError(
                501,
                "a folder does not compute columns; send an Arrow schema "
                "without rows, to add columns of nulls",
            )
        asked.check_content_type(ARROW_STREAM)
        schema, batches = open_stream(asked.body)
        if next(batches, None) is not None:
            raise HTTPError(
                400,
                "the stream has rows, but new columns are null in all rows; nothing was "
                "changed; send a schema without rows",
            )
        return self._store.change(name, partial(changes.add_columns, schema=schema))

    def _drop_columns(self, asked: Asked, name: str) -> dict[str, int]:
        request = self._read_request(asked, name, '{"columns": ["a"]}')
        return self._store.change(name, partial(changes.drop_columns, request=request))

    def _delete(self, asked: Asked, name: str) -> dict[str, int]:
        request = self._read_request(asked, name, '{"predicate": "n > 1"}')
        return self._store.change(name, partial(changes.delete, request=request))

    def _restore(self, asked: Asked, name: str) -> dict[str, int]:
        body = self._read_request(asked, name, '{"version": 3}')
        request = query.parse_request(body)
        if set(request) != {"version"}:
            raise HTTPError(
                400, 'the body needs "version" and nothing else; send {"version": 3}'
            )
        version = request["version"]
        change = partial(changes.restore, version=version)
        return self._store.change(name, change, spared=version)

    def _compact(self, asked: Asked, name: str) -> dict[str, int]:
        request = self._read_request(asked, name, '{"purge": false}')
        change = partial(compaction.compact, request=request)
        compacted = self._store.change(name, change)
        if request.get("purge"):
            self._store.end_idle_writes(name)
        return compacted

    def _describe(self, asked: Asked, name: str) -> dict[str, Any]:
        table, _ = self._open(asked, name)
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
        etag = self._store.etag(name, table.version)
        return {"version": table.version, "etag": etag, "schema": schema}

    def _list_indices(self, asked: Asked, name: str) -> dict[str, Any]:
        table, _ = self._open(asked, name)
        indices = [
            {"index_name": index.name, "columns": index.field_names}
            for index in table.describe_indices()
        ]
        return {"indexes": indices}

    def _list_versions(self, asked: Asked, name: str) -> dict[str, Any]:
        table = self._store.open(name)
        with engine.as_http_errors(state=""):
            return {"versions": history.list_versions(table, _limit(asked))}

    def _count_rows(self, asked: Asked, name: str) -> int:
        table, request = self._open(asked, name)
        with self._store.naming_damage(name, table):
            return query.count_rows(table, request)

    def _query(self, asked: Asked, name: str) -> Iterator[bytes]:
        table, request = self._open(asked, name)
        with self._store.naming_damage(name, table):
            rows = query.read_rows(table, request)
        return self._read_on(name, table, rows)

    def _read_on(self, name: str, table: Any, rows: Iterator[bytes]) -> Iterator[bytes]:
        with self._store.naming_damage(name, table):
            yield from rows

    def _open(self, asked: Asked, name: str) -> tuple[Any, dict[str, Any]]:
        request = query.parse_request(_read_json(asked.body, "{}, or no body"))
        table = self._store.open(name, request.get("version"))
        return table, request

    def _drop(self, _asked: Asked, name: str) -> dict[str, Any]:
        self._store.drop(name)
        return {}

    _routes = (
        ("GET", "/v1/tables", _list),
        ("POST", "/v1/tables/{name}", _create),
        ("POST", "/v1/table/{name}/alter_columns/", _alter),
        ("POST", "/v1/table/{name}/add_columns/", _add_columns),
        ("POST", "/v1/table/{name}/drop_columns/", _drop_columns),
        ("POST", "/v1/table/{name}/delete/", _delete),
        ("POST", "/v1/table/{name}/restore/", _restore),
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


def refuse(error: HTTPError) -> Answer:
    """Return the answer to a refused request."""
    return _json(error.status, {"error": {"code": error.status, "message": str(error)}})


def _json(status: int, content: Any) -> Answer:
    encoded = json.dumps(content).encode()
    headers = {**_headers(JSON), "Content-Length": str(len(encoded))}
    return Answer(status, headers, [encoded])


def _headers(content_type: str) -> dict[str, str]:
    # a client looks for multipart writes in the version of LanceDB's servers
    return {
        "Content-Type": content_type,
        LANCEDB_HEADER: "{}.{}.0".format(*PARTS_SINCE),
    }


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


def _limit(asked: Asked) -> int | None:
    """Return how many items a list may have, or None."""
    limit = asked.parameter("limit")
    if not limit:
        return None
    if not re.fullmatch("0*[1-9][0-9]{0,17}", limit):
        raise HTTPError(400, f"limit: expected a positive integer, got {limit!r:.100}")
    return int(limit)


def _if_match(asked: Asked) -> str:
    """Return the ETag that the table must still have. Empty and ``*`` mean any."""
    return asked.headers.get("if-match", "").strip('"')


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
