"""Servers that discard what they read, each in its own process.

The benchmarks run them as ``-m tests.benchmarks._sinks``. ``http`` answers each POST
with ``{"version": 1}`` and each GET with no tables. ``flight`` takes DoPut.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOM = 2**20


class Reader:
    """A connection that reads heads and discards bodies."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._room = memoryview(bytearray(ROOM))
        self._start = self._end = 0

    def _fill(self) -> None:
        self._start = 0
        self._end = self._sock.recv_into(self._room)
        if not self._end:
            raise ConnectionError

    def line(self) -> bytes:
        found = b""
        while not found.endswith(b"\n"):
            if self._start == self._end:
                self._fill()
            held = bytes(self._room[self._start : min(self._end, self._start + 8192)])
            part = held[: held.find(b"\n") + 1] or held
            self._start += len(part)
            found += part
        return found.strip()

    def forget(self, size: int) -> None:
        while size:
            if self._start == self._end:
                self._fill()
            taken = min(size, self._end - self._start)
            self._start += taken
            size -= taken

    def forget_chunks(self) -> None:
        while size := int(self.line(), 16):
            self.forget(size)
            self.line()
        self.line()

    def request(self) -> bytes:
        """Read one request, and return its method."""
        method = self.line().partition(b" ")[0]
        headers = {}
        while line := self.line():
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if headers.get(b"transfer-encoding") == b"chunked":
            self.forget_chunks()
        else:
            self.forget(int(headers.get(b"content-length", 0)))
        return method


def _converse(sock: socket.socket, context: ssl.SSLContext | None) -> None:
    with sock, contextlib.suppress(OSError):
        if context is not None:
            sock = context.wrap_socket(sock, server_side=True)
        reader = Reader(sock)
        while True:
            body = json.dumps(
                {"tables": []} if reader.request() == b"GET" else {"version": 1}
            ).encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            sock.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def serve_http(certificate: str = "") -> None:
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listener.getsockname()[1], flush=True)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=_converse, args=(sock, context), daemon=True).start()


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


def sink(
    kind: str = "http", *certificate: Path
) -> contextlib.AbstractContextManager[int]:
    """Start a sink. With a certificate it speaks TLS."""
    return running("_sinks", kind, *certificate)


if __name__ == "__main__":
    if sys.argv[1] == "flight":
        serve_flight()
    else:
        serve_http(*sys.argv[2:])
