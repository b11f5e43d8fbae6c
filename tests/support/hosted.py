"""A service like the hosted ones of the LanceDB family.

It accepts at most 100 MB in one body, and multipart writes. It keeps tables in memory.
Like LanceDB's servers, it reads from a cache of versions unless the request asks for
fresh data. A test can make any request fail.

It imports the dialect, because tests need small parts, and no option sets their size.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import rt_frames as rt
from rt_frames._protocol.operations import LANCEDB
from tests.support.faults import connected
from tests.support.local import stream
from tests.support.servers import Connection, Request, Server

MOST = 100 * 10**6  # bytes


def with_parts_of(nbytes: int | None) -> Any:
    """Return the dialect of such servers with parts of this size, or without parts."""
    return dataclasses.replace(LANCEDB, part_bytes=nbytes)


SMALL_PARTS = with_parts_of(100_000)
READS = ("describe", "count_rows", "query", "list_versions")


@dataclass
class Table:
    """A table, and the number of rows of each version."""

    versions: list[list[pa.Table]]

    @property
    def rows(self) -> pa.Table:
        return pa.concat_tables(self.versions[-1])


@dataclass
class Hosted:
    """A service's state. ``fault`` returns a request's fault by number and step."""

    fault: Callable[[int, str], str] = lambda _number, _step: ""
    version: str | None = "0.4.0"
    tables: dict[str, Table] = field(default_factory=dict)
    uploads: dict[str, tuple[str, int, dict[str, pa.Table], set[str]]] = field(
        default_factory=dict
    )
    steps: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    part_ids: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)
    changed: Callable[[str], None] = lambda _step: None
    # by the number of the part, from 1
    loses_part: Callable[[int], bool] = lambda _number: False
    doubles_part: Callable[[int], bool] = lambda _number: False
    held: list[tuple[Request, str, int | None]] = field(default_factory=list)
    seen: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    tells_version: bool = True
    complete_tells_version: bool = True
    # the last response to each step
    told: dict[str, Any] = field(default_factory=dict)
    # of refusals that are made up
    retry_after: str = "0"
    reason: str = "made up"
    # the version that reads see, by table
    cached: dict[str, int] = field(default_factory=dict)

    server: Server = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._ids = itertools.count()

    @contextlib.contextmanager
    def connect(self, **options: Any) -> Iterator[rt.Client]:
        """Serve, and give a client, whose dialect is LanceDB's if no other is named."""
        options = {"dialect": "lancedb", **options}
        with Server(self) as self.server, connected(self.server, **options) as client:
            yield client

    def meet(self, step: str, fault: str, times: int = sys.maxsize) -> None:
        """Have the next requests of a step meet a fault, and those of no other step."""
        left = itertools.repeat(fault, times)
        self.fault = lambda _, at: next(left, "") if at == step else ""

    def interrupt_after(self, step: str) -> None:
        """Press Ctrl-C in this process once, when a step is done."""
        main = threading.main_thread().ident

        def press(seen: str) -> None:
            if seen == step:
                self.changed = lambda _step: None
                signal.pthread_kill(main, signal.SIGINT)
                time.sleep(0.2)

        self.changed = press

    def __call__(self, connection: Connection) -> None:
        """Serve a connection."""
        while True:
            request = connection.head()
            step = self.step(request)
            with self.lock:
                self.steps.append(step)
                number = len(self.steps)
            fault = self.fault(number, step)
            if not self.receive(connection, request, fault):
                return
            if fault.isdigit() or fault == "late":
                status = 504 if fault == "late" else int(fault)
                if fault == "late":
                    self.held.append((request, step, self.newest(request)))
                connection.answer(
                    status, {"error": self.reason}, {"Retry-After": self.retry_after}
                )
                continue
            with self.lock:
                if fault.startswith("as "):
                    # nothing is done, and the response is that to an earlier request
                    status, answer = self.told[fault.removeprefix("as ")]
                else:
                    status, answer = self.told[step] = self.answer(request, step)
                if fault == "twice":
                    status, answer = self.answer(request, step)
            self.changed(step)
            if not self.respond(connection, fault, status, answer):
                return

    def receive(self, connection: Connection, request: Request, fault: str) -> bool:
        """Read a request's body. Return whether to respond."""
        if fault == "close":
            return False
        if fault == "cut":
            connection.body(request, 100)
            connection.reset()
            return False
        connection.body(request)
        self.sizes.append(len(request.body))
        if fault == "deaf":
            wait(connection)
        return fault != "deaf"

    def respond(
        self, connection: Connection, fault: str, status: int, answer: Any
    ) -> bool:
        """Respond to a request. Return whether the connection stays usable."""
        if fault == "lose the answer":
            connection.reset()
            return False
        if fault == "stall":
            wait(connection)
            return False
        if fault == "truncate":
            start = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
            connection.sock.sendall(start + b'{"version": 1')
            return False
        if fault == "page":
            answer = b"<html>It works!</html>"
        if fault == "fail when done":
            status = 500
            answer = {"error": "made up"}
        headers = {"phalanx-version": self.version} if self.version else {}
        connection.answer(status, answer, {**headers, **self.headers})
        return True

    def newest(self, request: Request) -> int | None:
        """Return the version that a request sees, or None without a table."""
        found = re.match("/v1/table/([^/]+)/", request.path)
        table = self.tables.get(found[1]) if found else None
        return table and len(table.versions)

    def release(self) -> None:
        """Carry out the requests that were confirmed before they were done.

        An upsert looks for keys in the version that was the newest when it arrived.
        """
        while self.held:
            request, step, seen = self.held.pop()
            self.seen = seen
            self.answer(request, step)
            self.seen = None

    @staticmethod
    def step(request: Request) -> str:
        """Return the name of the step that a request is."""
        path = urlsplit(request.path).path.strip("/")
        query = parse_qs(urlsplit(request.path).query)
        if path.endswith("table/list"):
            return "list"
        if path.endswith("version/list"):
            return "list_versions"
        if path.endswith("multipart_write/create"):
            return "create_parts"
        if "upload_id" in query and path.endswith("insert"):
            return "part"
        return path.rpartition("/")[2]

    def answer(self, request: Request, step: str) -> tuple[int, Any]:
        """Carry out a request."""
        query = dict(parse_qsl(urlsplit(request.path).query))
        if step == "list":
            return 200, {"tables": sorted(self.tables)}
        found = re.match("/v1/table/([^/]+)/", request.path)
        if not found:
            return 404, {"error": "there is no such address"}
        name = found[1]
        if len(request.body) > MOST:
            return 413, {"error": "Payload Too Large"}
        rows = None
        if step in ("create", "insert", "part", "merge_insert"):
            rows = pa.ipc.open_stream(request.body).read_all()
        if step == "create":
            return self.create(name, query, rows)
        if name not in self.tables:
            return 404, {"error": "there is no such table"}
        table = self.tables[name]
        if step in READS:
            pinned = json.loads(request.body or b"{}").get("version")
            if pinned and pinned > len(table.versions):
                return 404, {"error": f"there is no version {pinned}"}
            seen = pinned or self.visible(request, name)
            table = Table(table.versions[:seen])
        return getattr(self, step)(table, name, query, rows, request.body)

    def visible(self, request: Request, name: str) -> int:
        """Return the version that a read of the newest one sees."""
        newest = len(self.tables[name].versions)
        is_fresh = "x-lancedb-min-timestamp" in request.headers
        if is_fresh or self.cached.get(name, 1) > newest:
            self.cached[name] = newest
        least = int(request.headers.get("x-lancedb-min-version", 1))
        return max(self.cached.get(name, 1), least)

    def create(self, name: str, query: Any, rows: pa.Table) -> tuple[int, Any]:
        versions = []
        if name in self.tables:
            if query.get("mode") != "overwrite":
                return 409, {"error": "there is such a table"}
            versions = self.tables[name].versions
        self.tables[name] = Table([*versions, [rows]])
        return 200, {"version": len(self.tables[name].versions)}

    def describe(self, table: Table, *_: Any) -> tuple[int, Any]:
        fields = rt.data_type(pa.struct(list(table.rows.schema)))["fields"]
        answer = {"version": len(table.versions), "schema": {"fields": fields}}
        if not self.tells_version:
            del answer["version"]
        return 200, answer

    def list_versions(self, table: Table, *_: Any) -> tuple[int, Any]:
        versions = []
        for number, rows in enumerate(table.versions, 1):
            time = f"2026-03-01T{number // 60:02}:{number % 60:02}:00Z"
            total = str(sum(part.num_rows for part in rows))
            metadata = {"total_rows": total}
            versions.append(
                {"version": number, "timestamp": time, "metadata": metadata}
            )
        return 200, {"versions": versions}

    def count_rows(self, table: Table, *_: Any) -> tuple[int, Any]:
        return 200, table.rows.num_rows

    def query(self, table: Table, *_: Any) -> tuple[int, Any]:
        return 200, stream(table.rows)

    def drop(self, _table: Table, name: str, *_: Any) -> tuple[int, Any]:
        del self.tables[name]
        return 200, {}

    def insert(
        self, table: Table, _name: str, _query: Any, rows: pa.Table, _body: bytes
    ) -> tuple[int, Any]:
        table.versions.append([*table.versions[-1], rows])
        return 200, {"version": len(table.versions)}

    def merge_insert(
        self, table: Table, _name: str, query: Any, rows: pa.Table, _body: bytes
    ) -> tuple[int, Any]:
        key = query["on"]
        old = pa.concat_tables(table.versions[(self.seen or 0) - 1])[key].to_pylist()
        matched = [value for value in rows[key].to_pylist() if value in old]
        is_matched = pc.is_in(table.rows[key], pa.array(matched, rows[key].type))
        kept = table.rows.filter(pc.invert(is_matched))
        table.versions.append(
            [pa.concat_tables([kept, rows.select(kept.schema.names)])]
        )
        return 200, {
            "version": len(table.versions),
            "num_updated_rows": len(matched),
            "num_inserted_rows": rows.num_rows - len(matched),
        }

    def add_columns(self, table: Table, *rest: Any) -> tuple[int, Any]:
        rows = table.rows
        for new in pa.ipc.open_stream(rest[-1]).schema:
            if new.name in rows.column_names:
                return 400, {"error": f"there is a column {new.name}"}
            rows = rows.append_column(new, pa.nulls(rows.num_rows, new.type))
        table.versions.append([rows])
        return 200, {"version": len(table.versions)}

    def alter_columns(self, table: Table, *rest: Any) -> tuple[int, Any]:
        rows = table.rows
        for change in json.loads(rest[-1])["alterations"]:
            at = rows.schema.get_field_index(change["path"])
            field = rows.schema.field(at)
            column = rows[at]
            if "data_type" in change:
                column = column.cast(rt.arrow_type(change["data_type"]))
            name = change.get("rename", field.name)
            rows = rows.set_column(at, name, column)
        table.versions.append([rows])
        return 200, {"version": len(table.versions)}

    def drop_columns(self, table: Table, *rest: Any) -> tuple[int, Any]:
        names = json.loads(rest[-1])["columns"]
        if not {*names} <= {*table.rows.column_names}:
            return 400, {"error": "there is no such column"}
        table.versions.append([table.rows.drop_columns(names)])
        return 200, {"version": len(table.versions)}

    def delete(self, table: Table, *rest: Any) -> tuple[int, Any]:
        condition = json.loads(rest[-1])["predicate"]
        numbered = pl.DataFrame(table.rows).with_row_index("row number")
        deleted = numbered.sql(f'SELECT "row number" FROM self WHERE {condition}')
        kept = numbered.join(deleted, on="row number", how="anti")["row number"].sort()
        table.versions.append([table.rows.take(kept.to_arrow())])
        return 200, {"version": len(table.versions), "num_deleted_rows": deleted.height}

    def restore(self, table: Table, *rest: Any) -> tuple[int, Any]:
        version = json.loads(rest[-1])["version"]
        if version > len(table.versions):
            return 404, {"error": f"there is no version {version}"}
        table.versions.append(table.versions[version - 1])
        return 200, {"version": len(table.versions)}

    def create_parts(self, table: Table, name: str, *_: Any) -> tuple[int, Any]:
        upload = f"u/{next(self._ids)}"
        self.uploads[upload] = name, len(table.versions), {}, set()
        return 200, {"upload_id": upload}

    def part(
        self, _table: Table, name: str, query: Any, rows: pa.Table, _body: bytes
    ) -> tuple[int, Any]:
        found, _, parts, modes = self.uploads.get(
            query["upload_id"], ("", 0, {}, set())
        )
        if found != name:
            return 404, {"error": "there is no such upload"}
        if query["upload_part_id"] in parts:
            return 409, {"error": "there is such a part"}
        assert query["upload_part_id"] not in self.part_ids
        self.part_ids.append(query["upload_part_id"])
        if self.loses_part(len(self.part_ids)):
            return 200, {}
        if self.doubles_part(len(self.part_ids)):
            parts[query["upload_part_id"] + "b"] = rows
        parts[query["upload_part_id"]] = rows
        modes.add(query.get("mode", "append"))
        return 200, {}

    def complete(self, table: Table, name: str, query: Any, *_: Any) -> tuple[int, Any]:
        found, version, parts, modes = self.uploads.pop(
            query["upload_id"], ("", 0, {}, set())
        )
        if found != name:
            return 404, {"error": "there is no such upload"}
        (mode,) = modes
        if mode == "overwrite" and version != len(table.versions):
            return 409, {"error": "the table was changed meanwhile"}
        kept = [] if mode == "overwrite" else table.versions[-1]
        table.versions.append([*kept, *(parts[one] for one in sorted(parts))])
        if not self.complete_tells_version:
            return 200, {}
        return 200, {"version": len(table.versions)}

    def abort(self, _table: Table, _name: str, query: Any, *_: Any) -> tuple[int, Any]:
        if self.uploads.pop(query["upload_id"], None) is None:
            return 404, {"error": "there is no such upload"}
        return 200, {}


def wait(connection: Connection) -> None:
    """Wait until the client disconnects."""
    connection.sock.settimeout(60)
    connection.sock.recv(1)
