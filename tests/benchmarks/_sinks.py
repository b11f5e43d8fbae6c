"""Servers that discard what they read, each in its own process.

The benchmarks run them as ``-m tests.benchmarks._sinks``. ``http`` answers each POST
with ``{"version": 1}`` and each GET with no tables. ``flight`` takes DoPut.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOM = 2**20


def discard(file: BinaryIO, size: int, room: memoryview) -> None:
    while size:
        read = file.readinto(room[:size])
        if not read:
            raise ConnectionError
        size -= read


def read_request(file: BinaryIO, room: memoryview) -> bytes:
    """Read one request, and return its method."""
    method = file.readline().partition(b" ")[0]
    if not method:
        raise ConnectionError
    headers = http.client.parse_headers(file)
    if headers["Transfer-Encoding"] != "chunked":
        discard(file, int(headers["Content-Length"] or 0), room)
        return method
    while size := int(file.readline(), 16):
        discard(file, size, room)
        file.readline()
    file.readline()
    return method


def _converse(sock: socket.socket) -> None:
    room = memoryview(bytearray(ROOM))
    with sock, sock.makefile("rb") as file, contextlib.suppress(OSError):
        while True:
            is_list = read_request(file, room) == b"GET"
            body = json.dumps({"tables": []} if is_list else {"version": 1}).encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            sock.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def serve_http() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listener.getsockname()[1], flush=True)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=_converse, args=[sock], daemon=True).start()


def serve_flight() -> None:
    from pyarrow import flight

    class Forgetting(flight.FlightServerBase):
        def do_put(self, context, descriptor, reader, writer) -> None:
            for _ in reader:
                pass

    server = Forgetting("grpc://127.0.0.1:0")
    print(server.port, flush=True)
    server.serve()


@contextlib.contextmanager
def running(module: str, *words: object) -> Iterator[int]:
    """Run a server of this folder in its own process, and yield its port."""
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def sink(kind: str = "http") -> contextlib.AbstractContextManager[int]:
    """Start a sink."""
    return running("_sinks", kind)


if __name__ == "__main__":
    {"http": serve_http, "flight": serve_flight}[sys.argv[1]]()
