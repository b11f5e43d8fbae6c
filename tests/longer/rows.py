"""Writes and reads whose steps fail: all rows are stored once, or none.

The messages must be true.
"""

from __future__ import annotations

import random
import re
import socket
import tempfile
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import lance
import pyarrow as pa

import rt_frames as rt
from tests.support.hosted import with_parts_of
from tests.support.local import Process
from tests.support.servers import KEY, Connection, Request, Server

ROWS = 60_000
PARTS = 5
IN_PARTS = with_parts_of(16 * ROWS // PARTS + 2000)
PATIENCE = 1.0  # seconds that the client waits for a response
FAULTS = [
    "cut the request",
    "cut the answer",
    "lose the answer",
    "answer late",
    "never answer",
    "429",
    "500",
    "502",
    "500 when done",
    "kill",
]
NOTHING_STORED = (
    rt.errors.ConnectError,
    rt.errors.RateLimited,
    rt.errors.TableNotFoundError,
    rt.errors.BadRequest,
)


class Proxy:
    """Forwards requests to a service. One of them meets a fault."""

    def __init__(self, service: Process, random_: random.Random) -> None:
        self.service = service
        self.random = random_
        self.fault = ""
        self.left = 0

    def __call__(self, connection: Connection) -> None:
        """Serve a connection until the client closes it."""
        while True:
            request = connection.head()
            self.left -= 1
            fault = self.fault if self.left == 0 else ""
            if fault == "cut the request":
                connection.body(request, self.random.choice([0, 10, 20_000, 10**6]))
                connection.reset()
                return
            connection.body(request)
            if fault.isdigit():
                connection.answer(
                    int(fault), {"error": "made up"}, {"Retry-After": "0"}
                )
            elif fault == "kill":
                self.service.kill()
                return
            elif not self.hand_on(connection, request, fault):
                return

    def hand_on(self, connection: Connection, request: Request, fault: str) -> bool:
        """Forward a request, and return all or part of the response.

        Return whether the connection is still usable.
        """
        answer = b""
        if fault != "never answer":
            answer = forward(request, self.service.caller.url)
        if fault in ("answer late", "never answer"):
            connection.sock.settimeout(10 * PATIENCE)
            connection.sock.recv(1)  # until the client disconnects
            return False
        if fault == "500 when done":
            connection.answer(500, {"error": "made up"})
            return True
        sent = {
            "cut the answer": self.random.randrange(len(answer)),
            "lose the answer": 0,
        }.get(fault, len(answer))
        connection.sock.sendall(answer[:sent])
        return False


def forward(request: Request, url: str) -> bytes:
    """Return a service's response, head included, unchanged."""
    lines = [
        line
        for line in request.head.split(b"\r\n")
        if not line.lower().startswith((b"transfer", b"content-l", b"connection"))
    ]
    head = [
        *lines,
        b"Content-Length: %d" % len(request.body),
        b"Connection: close",
        b"",
        b"",
    ]
    address = urlsplit(url)
    answer = b""
    with socket.create_connection(
        (address.hostname, address.port), timeout=30
    ) as upstream:
        upstream.sendall(b"\r\n".join(head) + request.body)
        while piece := upstream.recv(2**20):
            answer += piece
    return answer


def added(number: int) -> pa.Table:
    """Make rows with the number of their run, in one piece per part."""
    rows = pa.table({"run": pa.array([number] * ROWS, pa.int64()), "row": range(ROWS)})
    return pa.concat_tables(
        rows.slice(at, ROWS // PARTS) for at in range(0, ROWS, ROWS // PARTS)
    )


def check_write(
    client: rt.Client, root: Path, number: int, if_exists: str, *, again: bool
) -> str:
    """Check a write with a fault: all rows once or none, and a true message."""
    name = "t" if if_exists != "fail" else f"c{number}"
    before = read(root, name)
    said = ""
    rows = added(number) if again else iter(added(number).to_batches())
    try:
        client.create_table(name, rows, if_exists=if_exists, compression=None)
        outcome = "stored"
    except rt.errors.RemoteError as error:
        outcome = type(error).__name__
        said = str(error)
    found = read(root, name)
    stored = (
        added(number)
        if if_exists != "append"
        else pa.concat_tables([before, added(number)])
    )
    there = found is not None and found.equals(stored)
    both = found is not None and before is not None
    unchanged = found.equals(before) if both else found is before
    left_empty = if_exists == "fail" and found is not None and not found.num_rows
    assert there or unchanged or left_empty, (outcome, said, found and found.num_rows)
    if outcome == "stored":
        assert there, "confirmed and lost"
    if (
        outcome in [kind.__name__ for kind in NOTHING_STORED]
        or "nothing was stored" in said
    ):
        assert not there, said
    if known := re.search(r"(?:now: |\()version (\d+), ([\d,]+) row", said):
        version = lance.dataset(str(root / f"{name}.lance")).version
        assert (int(known[1]), int(known[2].replace(",", ""))) == (
            version,
            found.num_rows,
        ), said
    if "so far the table is unchanged" in said:
        assert not there, said
    if left_empty:
        assert known or re.search(
            "if it is empty|drop table|could not be|is listed", said
        ), said
    return f"{if_exists}: {outcome}"


def read(root: Path, name: str) -> pa.Table | None:
    folder = root / f"{name}.lance"
    return lance.dataset(str(folder)).to_table() if folder.exists() else None


def check_read(table: rt.RemoteTable, folder: str) -> str:
    """Check a read with a fault: all rows or an error, never fewer rows."""
    try:
        found = table.to_arrow()
    except rt.errors.RemoteError as error:
        return f"read: {type(error).__name__}"
    assert found.equals(lance.dataset(folder).to_table())
    return "read: whole"


def run(runs: int, seed: int) -> Counter[str]:
    """Draw an operation, a step and a fault, check the rows, and count the results."""
    random_ = random.Random(seed)
    counts = Counter[str]()
    with tempfile.TemporaryDirectory() as folder, Server() as server:
        root = Path(folder) / "tables"
        service = Process(root)
        server.script = proxy = Proxy(service, random_)
        options = {"timeout": (2, 2, PATIENCE), "retries": 1}
        whole, in_parts = (
            rt.Client(server.url, api_key=KEY, dialect=one, **options)
            for one in ("lancedb", IN_PARTS)
        )
        for number in range(runs):
            if number % 20 == 0:  # it grows
                rt.connect(root, default=False).create_table(
                    "t", added(-1), if_exists="replace"
                )
            kind = random_.choice(
                ["read", "append", "fail", "append", "replace", "fail"]
            )
            client, most = (
                (whole, 2)
                if kind == "read"
                else random_.choice([(whole, 3), (in_parts, 10), (in_parts, 10)])
            )
            in_parts.list_tables()  # its response has the version of the server
            proxy.fault = random_.choice(FAULTS)
            proxy.left = random_.randint(1, most)
            if kind == "read":
                counts[check_read(client.table("t"), str(root / "t.lance"))] += 1
            else:
                counts[
                    check_write(
                        client, root, number, kind, again=random_.random() < 0.5
                    )
                ] += 1
            proxy.fault = ""
            if not service.alive:
                service.__exit__()
                service = proxy.service = Process(root)
                # writes without parts, which may still be running
                assert all(
                    (staged / "table" / "parts").exists()
                    for staged in service.caller.staged()
                )
        for client in (whole, in_parts):
            client.close()
        service.__exit__()
    return counts
