"""Helpers of the folder's tests: streams, requests and processes."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import lance
import pyarrow as pa
import requests

import rt_frames as rt
from rt_frames.local.application import Application, Asked
from rt_frames.local.arrow_stream import Body
from rt_frames.local.patience import Patience
from rt_frames.local.root import make_root
from rt_frames.local.store import KEEP, Store
from tests.support.processes import memory, python
from tests.support.servers import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# earlier ones swap names and cast in one request
STRICT_MERGES = int(lance.__version__.partition(".")[0]) >= 14
ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
UPSERT = "when_matched_update_all=true&when_not_matched_insert_all=true"

_SERVE = """
import sys
{before}
from rt_frames.local import LocalService
with LocalService(sys.argv[1], api_key=sys.argv[2]) as service:
    print(service.url, flush=True)
    sys.stdin.read()
"""


def stream(
    table: pa.Table, *, compression: str | None = None, rows: int | None = None
) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


@dataclass
class Answered:
    """The answer of a folder's application, as requests names its parts."""

    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class Caller:
    """Calls the application of a folder, without HTTP."""

    def __init__(self, root: Path, keep: dt.timedelta = KEEP) -> None:
        make_root(root)
        self.root = root
        self._application = Application(Store(root, keep))

    def send(
        self, method: str, path: str, body: Any = None, **headers: str | None
    ) -> Any:
        named = {}
        for name, value in headers.items():
            if value is not None:
                named[name.replace("_", "-")] = value
        if isinstance(body, str | bytes | None):
            body = [body.encode() if isinstance(body, str) else body or b""]
        asked = Asked(method, path, named, Body(_reader(body)))
        answer = self._application.answer(asked, Patience(60))
        return Answered(answer.status, answer.headers, b"".join(answer.payload))

    def create(self, name: str, table: Any) -> requests.Response:
        body = stream(table) if isinstance(table, pa.Table) else table
        return self.send("POST", f"/v1/tables/{name}", body, content_type=ARROW)

    def post_rows(self, path: str, rows: Any) -> requests.Response:
        """Send a table, or the body of one, to an operation of a table."""
        body = stream(rows) if isinstance(rows, pa.Table) else rows
        return self.send("POST", f"/v1/table/{path}", body, content_type=ARROW)

    def alter(self, name: str, *alterations: Any) -> requests.Response:
        body = json.dumps({"alterations": alterations})
        return self.send(
            "POST", f"/v1/table/{name}/alter_columns", body, content_type=JSON
        )

    def ask(self, operation: str, **request: object) -> requests.Response:
        """Send an operation of table ``t``, whose body is JSON."""
        path = f"/v1/table/t/{operation}/"
        return self.send("POST", path, json.dumps(request), content_type=JSON)

    def tables(self) -> list[str]:
        return self.send("GET", "/v1/tables").json()["tables"]

    def read(self, name: str) -> pa.Table:
        return lance.dataset(str(self.root / f"{name}.lance")).to_table()

    def version(self, name: str) -> int:
        return lance.dataset(str(self.root / f"{name}.lance")).version

    def staged(self) -> list[Path]:
        return staged(self.root)


def _reader(pieces: Iterable[bytes]) -> Callable[[int], bytes]:
    """Return a function that reads from pieces of bytes."""
    left = iter(pieces)
    rest = b""

    def read(size: int) -> bytes:
        nonlocal rest
        while not rest:
            rest = next(left, b"")
            if not rest:
                break
        piece = rest[:size]
        rest = rest[size:]
        return piece

    return read


class HTTPCaller(Caller):
    """A minimal client of a development server on a folder."""

    def __init__(self, root: Path, url: str, api_key: str) -> None:
        self.root = root
        self.url = url
        self.key = api_key
        self._session = requests.Session()
        self._session.trust_env = False

    def close(self) -> None:
        self._session.close()

    def send(
        self, method: str, path: str, body: Any = None, **headers: str | None
    ) -> requests.Response:
        named = {"x-api-key": self.key}
        for name, value in headers.items():
            named[name.replace("_", "-")] = value
        return self._session.request(
            method, self.url + path, data=body, headers=named, timeout=60
        )

    def connect(self) -> socket.socket:
        url = urlsplit(self.url)
        return socket.create_connection((url.hostname, url.port), timeout=30)

    def head(self, path: str, *lines: str) -> bytes:
        """Return the head of a POST, to send over a socket."""
        first = [f"POST {path} HTTP/1.1", "Host: localhost", f"x-api-key: {self.key}"]
        return "\r\n".join([*first, f"Content-Type: {ARROW}", *lines, "", ""]).encode()


TABLE = pa.table(
    {
        "n": [1, None, 3],
        "text": ["a", "bb", None],
        "k": pa.array(["u", "v", "u"]).dictionary_encode(),
    }
)
NUMBERS = pa.table({"a": [1, 2, 3], "b": [1.5, None, 3.5], "c": ["x", None, "z"]})
INTEGERS = {"name": "item", "type": {"type": "int64"}, "nullable": True}
LIST_64 = {"type": "large_list", "fields": [INTEGERS]}
POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
NESTED_SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "m": pa.int64(),
        "t": pa.string(),
        "s": POINT,
        "l": pa.list_(POINT),
        "v": pa.list_(pa.int16()),
        "at": pa.timestamp("us"),
    }
)
NESTED = {
    "n": [1, 2],
    "m": [3, 4],
    "t": ["u", "v"],
    "s": [{"x": 1, "y": "p"}, {"x": 2, "y": "q"}],
    "l": [[{"x": 5, "y": "r"}], []],
    "v": [[1], [2, 3]],
    "at": [dt.datetime(2020, 1, 2, 3), None],
}


class Write:
    """A write in parts, by hand."""

    def __init__(self, caller: Caller, name: str = "t") -> None:
        self.caller = caller
        self.name = name
        self.path = f"/v1/table/{name}"
        self.answer = caller.send("POST", f"{self.path}/multipart_write/create/")
        assert self.answer.headers["phalanx-version"] == "0.4.0"
        self.id = self.answer.json().get("upload_id", "")

    def part(
        self,
        table: Any,
        part: object = None,
        mode: str = "append",
        caller: Caller | None = None,
    ) -> Any:
        query = f"upload_id={self.id}&upload_part_id={part or uuid.uuid4()}&mode={mode}"
        return (caller or self.caller).post_rows(f"{self.name}/insert/?{query}", table)

    def end(
        self, how: str = "complete", caller: Caller | None = None, **headers: str
    ) -> Any:
        path = f"{self.path}/multipart_write/{how}?upload_id={self.id}"
        return (caller or self.caller).send("POST", path, **headers)

    @property
    def parts(self) -> Path:
        return self.caller.root / ".rt_frames-staging" / self.id / "table" / "parts"

    def arriving(self, part: object) -> list[Path]:
        return list(self.parts.glob(f"{part}.*"))


def nested() -> pa.Table:
    return pa.table(NESTED, NESTED_SCHEMA)


def age(folder: Path, hours: float) -> None:
    """Make a file, or all files of a folder, some hours older."""
    then = time.time() - 3600 * hours
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (then, then))


def staged(root: Path, inside: str = "") -> list[Path]:
    """List what stands in a folder's staging, or what matches inside of that."""
    return list(root.glob(f".rt_frames-staging/*{inside}"))


def manifests(root: Path, name: str = "t") -> dict[int, Path]:
    """Return the manifest of each version of a table."""
    files = root.glob(f"{name}.lance/_versions/*.manifest")
    return {2**64 - 1 - int(file.stem): file for file in files}


def unnamed(root: Path) -> list[str]:
    """List the files of table ``t`` in no version, except Lance's hint and our list."""
    folder = root / "t.lance"
    named = lance.dataset(str(folder)).tracked_files().read_all()["path"].to_pylist()
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = {str(path.relative_to(folder)) for path in files}
    lists = {"_versions/latest_version_hint.json", "_rt_frames_begun"}
    return sorted(found - lists - {*named})


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def message(answer: requests.Response, status: int | None = None) -> str:
    """Check the form of an error response and its status. Return its message."""
    error = answer.json()["error"]
    assert set(error) == {"code", "message"}
    assert error["code"] == answer.status_code
    assert status in (None, answer.status_code), error
    return error["message"]


def answered(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """Read a whole response from a socket."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while portion := connection.recv(65536):
            data += portion
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@contextlib.contextmanager
def logged() -> Iterator[None]:
    """Log everything, and check that the key is not in it."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert [line for line in log.getvalue().splitlines() if KEY in line] == []


def run(code: str, *arguments: object, seconds: float = 90) -> str:
    """Run code, which must end without a warning, and return its output."""
    with python("-W", "error", "-c", code, *arguments, seconds=seconds) as process:
        printed, error = process.communicate()
    assert error == ""
    assert process.returncode == 0
    return printed


class Process:
    """A service in another process, to measure and kill. It prints no key."""

    def __init__(self, root: Path, before: str = "") -> None:
        self.root = root
        # closed when this service ends
        self._printed = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE.format(before=before), str(root), KEY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "RUST_BACKTRACE": "0"},
        )
        assert self._process.stdout
        url = self._process.stdout.readline().decode().strip()
        self.caller = HTTPCaller(root, url, KEY)
        self.client = rt.connect(url, api_key=KEY, default=False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def megabytes(self, what: str = "VmRSS") -> int:
        return memory(what, self.pid) // 2**20

    def tables(self) -> dict[str, lance.LanceDataset]:
        """Open every listed table with lance."""
        return {
            name: lance.dataset(str(self.root / f"{name}.lance"))
            for name in self.client.list_tables()
        }

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.caller.close()
        self._process.communicate(timeout=30)
        self._printed.seek(0)
        assert KEY not in self._printed.read()
        self._printed.close()
