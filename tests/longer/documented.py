"""A hosted table service, written from its documentation alone, over a real socket.

What the documentation leaves open is drawn for each response: statuses, bodies, shapes
of lists and errors, and whether one request's changes are made in turn or at once. What
it says is insisted on: paths, the key, types of content, and the fields of a change.
"""

from __future__ import annotations

import gzip
import http.server
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import types

from tests.support.local import stream

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
PAGE = "page_token=2"
KEY = "key-of-the-project-1a2b3c"
FLAT = {"halffloat": pa.float16(), "float": pa.float32(), "double": pa.float64()}
# by the first word of a type, of what follows it
PARTS: dict[str, Callable[..., pa.DataType]] = {
    "date32": lambda _: pa.date32(),
    "date64": lambda _: pa.date64(),
    "time32": pa.time32,
    "time64": pa.time64,
    "duration": pa.duration,
    "timestamp": lambda unit, zone: pa.timestamp(unit, None if zone == "-" else zone),
    "decimal": lambda bits, digits: getattr(pa, f"decimal{bits}")(
        *map(int, digits.split(":"))
    ),
}
NESTED: dict[str, Callable[..., pa.DataType]] = {
    "struct": lambda fields, _: pa.struct(fields),
    "list": lambda fields, _: pa.list_(*fields),
    "large_list": lambda fields, _: pa.large_list(*fields),
    "fixed_size_list": lambda fields, length: pa.list_(*fields, length),
    "fixed_size_binary": lambda _, length: pa.binary(length),
}
CHANGES = {"path": str, "rename": str, "data_type": dict, "nullable": bool}


class RefusalError(Exception):
    """A request is answered by a status, and changes nothing."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


# What a request says


def read_type(said: dict[str, Any]) -> pa.DataType:
    """Return the Arrow type of a ``data_type`` object."""
    if {*said} - {"type", "fields", "length"}:
        raise RefusalError(400, f"no such fields: {said}")
    name = said["type"]
    word, *parts = name.split(":", 2)
    if word in NESTED:
        return NESTED[word](
            [*map(read_field, said.get("fields", ()))], said.get("length")
        )
    if word == "dict":
        value, index, _ = name.removeprefix("dict:").rsplit(":", 2)
        return pa.dictionary(read_type({"type": index}), read_type({"type": value}))
    if word in PARTS:
        return PARTS[word](*parts)
    return FLAT.get(name) or pa.type_for_alias(name)


def read_field(said: dict[str, Any]) -> pa.Field:
    if {*said} != {"name", "type", "nullable"}:
        raise RefusalError(400, f"not the fields of a child: {said}")
    return pa.field(said["name"], read_type(said["type"]), said["nullable"])


def read_changes(body: bytes) -> list[dict[str, Any]]:
    asked = json.loads(body)
    if {*asked} != {"alterations"} or not asked["alterations"]:
        raise RefusalError(400, "alterations: expected a list of changes")
    for change in asked["alterations"]:
        if len(change) < 2 or "path" not in change:
            raise RefusalError(400, f"changes nothing: {change}")
        for field, value in change.items():
            if not isinstance(value, CHANGES.get(field, ())):
                raise RefusalError(400, f"{field}: not as documented: {value!r}")
    return asked["alterations"]


# What a change does


def cast(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    try:
        return column.cast(arrow, safe=False)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.array(column.to_pylist(), arrow)


def altered(
    path: str, field: pa.Field, column: pa.Array, changes: dict[str, Any]
) -> tuple[pa.Field, pa.Array]:
    """Return a column after those of the changes that are for it or its fields."""
    if any(one.startswith(f"{path}.") for one in changes):
        column = altered_inside(path, column, changes)
        field = field.with_type(column.type)
    change = changes.pop(path, {})
    if "data_type" in change:
        field = field.with_type(read_type(change["data_type"]))
        column = cast(column, field.type)
    field = field.with_nullable(change.get("nullable", field.nullable))
    if column.null_count and not field.nullable:
        raise RefusalError(400, f"{path} has nulls")
    return field.with_name(change.get("rename", field.name)), column


def altered_inside(path: str, column: Any, changes: dict[str, Any]) -> pa.Array:
    arrow, mask = column.type, column.is_null()
    inner = column.flatten() if types.is_struct(arrow) else [column.values]
    pairs = [
        altered(f"{path}.{arrow.field(at).name}", arrow.field(at), values, changes)
        for at, values in enumerate(inner)
    ]
    fields, arrays = map(list, zip(*pairs, strict=True))
    check_names(fields)
    if types.is_struct(arrow):
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)
    new = pa.large_list(*fields)
    return pa.LargeListArray.from_arrays(column.offsets, *arrays, type=new, mask=mask)


def check_names(fields: list[pa.Field]) -> None:
    names = [field.name for field in fields]
    if len({*names}) < len(names):
        raise RefusalError(400, f"two columns of one name: {names}")


def alter(table: pa.Table, changes: dict[str, Any]) -> pa.Table:
    left = dict(changes)
    columns = [
        altered(field.name, field, column.combine_chunks(), left)
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    if left:
        raise RefusalError(400, f"no such columns: {[*left]}")
    check_names([field for field, _ in columns])
    schema = pa.schema([field for field, _ in columns])
    return pa.table([values for _, values in columns], schema=schema)


class Service:
    """The tables of a project, the requests that arrived, and the responses."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.responses: list[Answer] = []
        self.draw(random.Random(0))

    def draw(self, r: random.Random) -> None:
        """Drop all tables, and take other habits."""
        self.r = r
        self.tables = {name: pa.table({"n": [1]}) for name in r.sample("uvw", 2)}
        self.version = r.choice(["HTTP/1.0", "HTTP/1.1"])
        self.at_once = r.random() < 0.5
        self.ignores_parameters = r.random() < 0.5
        self.is_plainly_listed = True
        # the status and the words with which all requests are refused, if any
        self.refuses: tuple[int, str] | None = None

    def respond(self, method: str, url: str, headers: Any, body: bytes) -> Answer:
        self.requests.append(f"{method} {url}")
        try:
            response = self.route(method, url, headers, body)
        except RefusalError as error:
            response = draw_error(self.r, error.status, str(error))
        except (pa.ArrowException, ValueError, TypeError, KeyError) as error:
            response = draw_error(self.r, 400, f"cannot do that: {error}")
        self.responses.append(response)
        return response

    def route(self, method: str, url: str, headers: Any, body: bytes) -> Answer:
        path, _, parameters = url.partition("?")
        if self.refuses is not None:
            raise RefusalError(*self.refuses)
        if headers["x-api-key"] != KEY:
            raise RefusalError(self.r.choice([401, 403]), "the key is not one of ours")
        if parameters not in ("", PAGE) and not self.ignores_parameters:
            raise RefusalError(400, f"no such parameters: {parameters}")
        match method, *map(unquote, path.split("/")):
            case "GET", "", "v1", "tables":
                self.check_content(headers, JSON)
                return self.list(parameters)
            case "POST", "", "v1", "tables", name:
                self.check_content(headers, ARROW)
                if name in self.tables:
                    raise RefusalError(409, f"there is a table {name}")
                self.tables[name] = pa.ipc.open_stream(body).read_all()
            case "POST", "", "v1", "table", name, "alter_columns":
                self.check_content(headers, JSON)
                if name not in self.tables:
                    raise RefusalError(404, f"there is no table {name}")
                self.tables[name] = self.altered(self.tables[name], read_changes(body))
            case _:
                raise RefusalError(404, f"there is no {path}")
        return draw_success(self.r, name)

    def list(self, parameters: str) -> Answer:
        names = [*self.tables]
        if parameters == PAGE:
            return 200, *draw_json(self.r, {"tables": names[1:]})
        self.is_plainly_listed = self.r.random() < 0.7
        shapes = PLAIN_LISTS if self.is_plainly_listed else OTHER_LISTS
        return 200, *encode(self.r, self.r.choice(shapes)(names))

    def check_content(self, headers: Any, expected: str) -> None:
        if headers["content-type"] != expected:
            raise RefusalError(415, f"expected {expected}")

    def altered(self, table: pa.Table, changes: list[dict[str, Any]]) -> pa.Table:
        if self.at_once:
            by_path = {change["path"]: change for change in changes}
            if len(by_path) < len(changes):
                raise RefusalError(400, "two changes of one column")
            return alter(table, by_path)
        for change in changes:
            table = alter(table, {change["path"]: change})
        return table


# What a response says

Answer = tuple[int, str, bytes]


def shuffled(r: random.Random, value: Any) -> Any:
    """Put the fields of all objects in another order."""
    if isinstance(value, list):
        return [shuffled(r, one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: shuffled(r, value[name]) for name in r.sample([*value], len(value))}


def draw_json(r: random.Random, value: Any, media: str = JSON) -> tuple[str, bytes]:
    text = json.dumps(
        shuffled(r, value), ensure_ascii=r.random() < 0.5, indent=r.choice([None, 2])
    )
    charset = r.choice(["", "", "utf-8", "UTF-8", '"utf-8"', "utf-16", "utf-16-le"])
    space = r.choice(["", " "])
    kind = f"{media};{space}charset={charset}" if charset else media
    return kind, text.encode(charset.strip('"') or "utf-8")


def encode(r: random.Random, value: Any) -> tuple[str, bytes]:
    """Encode columns as an Arrow stream, and all else as JSON."""
    if not isinstance(value, pa.Table):
        return draw_json(r, value, r.choice([JSON, JSON, "application/vnd.x.v1+json"]))
    return ARROW, stream(value)


def draw_success(r: random.Random, name: str) -> Answer:
    values: list[Any] = [
        {},
        {"name": name, "version": 2, "columns": [{"name": "é", "type": "int64"}]},
        {"status": "ok", "error": None},
        {"table": {"name": name}, "rows": 3, "metadata": {"version": "two"}},
        {"version": r.choice([1, 2**70, -1, 1.5, "1", True, None, [1]])},
        *([name], name, True, None, 7),
        pa.table({"name": [name], "version": [2]}),
    ]
    status = r.choice([200, 200, 200, 201, 201, 202, 204])
    if status == 204 or r.random() < 0.2:
        return status, r.choice(["", JSON, ARROW]), b""
    return status, *encode(r, r.choice(values))


PLAIN_LISTS: list[Callable[[list[str]], Any]] = [
    lambda names: names,
    lambda names: {"tables": names},
    lambda names: [{"name": name, "rows": 3} for name in names],
    lambda names: {"tables": [{"name": one, "id": "7", "schema": {}} for one in names]},
    lambda names: {"tables": names, "page_token": None, "total": len(names)},
    lambda names: {"tables": names, "next_page_token": "", "has_more": False},
    lambda names: {"tables": names[:1], "page_token": "2"},
    lambda names: {"tables": names[:1], "next_page_token": "2", "page_token": "1"},
    lambda names: pa.table({"name": names, "rows": [3] * len(names)}),
]
# shapes that a client may not know
OTHER_LISTS: list[Callable[[list[str]], Any]] = [
    lambda names: {"data": names},
    lambda names: {"items": [{"table_name": name} for name in names]},
    lambda names: {"data": {"tables": names}},
    lambda names: {"tables": {name: {"rows": 3} for name in names}},
    lambda names: {name: {"rows": 3} for name in names},
    lambda names: {"tables": names[:1], "nextPageToken": "2"},
    lambda names: {"tables": names[:1], "next": "/v1/tables?page=2"},
    lambda names: {"tables": names[:1], "has_more": True},
    lambda names: {"tables": names[:1], "cursor": "2"},
    lambda names: {"names": " ".join(names)},
    lambda names: pa.table({"table_name": names}),
]


def draw_error(r: random.Random, status: int, reason: str) -> Answer:
    values: list[Any] = [
        {"error": reason},
        {"error": {"code": "invalid", "message": reason}},
        {"message": reason, "code": status},
        {"error": "Refused", "message": reason, "status": status},
        {"error": "invalid_request", "error_description": reason},
        {"title": "Refused", "status": status, "detail": reason},
        {"detail": [{"loc": ["body"], "msg": reason, "type": "invalid"}]},
        {"errors": [{"message": reason}]},
        *([reason], reason, None, {}),
        pa.table({"error": [reason]}),
    ]
    bodies = [
        *(encode(r, r.choice(values)) for _ in range(4)),
        ("application/problem+json", json.dumps({"detail": reason}).encode()),
        ("text/plain; charset=iso-8859-1", reason.encode("latin-1", "replace")),
        ("text/html", f"<html><body><h1>{reason}</h1></body></html>".encode()),
        ("", b""),
    ]
    return status, *r.choice(bodies)


# HTTP


class Handler(http.server.BaseHTTPRequestHandler):
    service: Service
    wbufsize = -1

    def handle_one_request(self) -> None:
        self.protocol_version = self.service.version
        super().handle_one_request()

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def answer(self) -> None:
        body = self.read_body()
        answer = self.service.respond(self.command, self.path, self.headers, body)
        self.send(self.service.r, *answer)

    do_GET = do_POST = answer  # noqa: N815  # so named by http.server

    def read_body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def send(self, r: random.Random, status: int, kind: str, body: bytes) -> None:
        headers = {"x-request-id": "r"} if r.random() < 0.3 else {}
        if kind:
            headers["content-type"] = kind
        if body and "gzip" in self.headers["accept-encoding"] and r.random() < 0.3:
            body = gzip.compress(body)
            headers["content-encoding"] = "gzip"
        # HTTP/1.0 has no chunks, and 204 no body
        ways = ["length", "length", "close"]
        if self.protocol_version == "HTTP/1.1":
            ways.append("chunks")
        way = r.choice(ways) if status != 204 else ""
        if way == "length":
            headers["content-length"] = str(len(body))
        elif way == "close":
            headers["connection"] = "close"
            self.close_connection = True
        elif way == "chunks":
            headers["transfer-encoding"] = "chunked"
            at = r.randint(0, len(body))
            parts = [*filter(None, (body[:at], body[at:])), b""]
            body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
        self.send_response_only(status, r.choice([None, "", "As asked", "é"]))
        spelled = r.choice([str.lower, str.upper, str.title])
        for name in r.sample([*headers], len(headers)):
            self.send_header(spelled(name), headers[name])
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving() -> Iterator[tuple[Service, str]]:
    """Serve on a port of this machine; yield the service and its URL."""
    service = Service()
    handler = type("OfService", (Handler,), {"service": service})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket.listen(128)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield service, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
