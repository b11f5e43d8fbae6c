"""Servers that follow a test's script, on raw sockets, and keep every byte."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

KEY = "k-3f9c0a77b1d24e58"


@dataclass
class Request:
    """One request as received."""

    head: bytes
    body: bytes = b""
    complete: bool = False

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n")[0].decode("latin-1")

    @property
    def route(self) -> str:
        return self.line.removesuffix(" HTTP/1.1")

    @property
    def method(self) -> str:
        return self.line.split(" ")[0]

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
            if name
        }


class Connection:
    """A connection that a script controls."""

    def __init__(self, sock: socket.socket, server: Server) -> None:
        self.sock = sock
        self._server = server
        self._left = b""

    def _more(self, size: int = 65536) -> bytes:
        data = self.sock.recv(size)
        if not data:
            raise ConnectionError
        return data

    def head(self) -> Request:
        """Read a request's head."""
        while b"\r\n\r\n" not in self._left:
            self._left += self._more()
        head, _, self._left = self._left.partition(b"\r\n\r\n")
        request = Request(head)
        self._server.requests.append(request)
        return request

    def body(self, request: Request, most: int | None = None) -> Request:
        """Read a request's body, or its first ``most`` bytes."""
        if request.headers.get("transfer-encoding") == "chunked":
            while most is None or len(request.body) < most:
                line = self._line()
                size = int(line, 16)
                request.body += self.exactly(size)
                self._line()
                if size == 0:
                    request.complete = True
                    break
            return request
        length = int(request.headers.get("content-length", 0))
        wanted = length if most is None else min(most, length)
        request.body = self.exactly(wanted)
        request.complete = wanted == length
        return request

    def _line(self) -> bytes:
        while b"\r\n" not in self._left:
            self._left += self._more()
        line, _, self._left = self._left.partition(b"\r\n")
        return line

    def rest(self) -> bytes:
        """Read whatever comes until the connection ends."""
        data = self._left
        with contextlib.suppress(OSError):
            while more := self.sock.recv(2**20):
                data += more
        return data

    def exactly(self, size: int) -> bytes:
        """Read so many bytes."""
        parts = [self._left]
        have = len(self._left)
        while have < size:
            parts.append(self._more(2**20))
            have += len(parts[-1])
        data = b"".join(parts)
        self._left = data[size:]
        return data[:size]

    def answer(
        self,
        status: int = 200,
        body: bytes | dict | list = b"",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send a whole response."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Something", f"Content-Length: {len(raw)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)

    def reset(self) -> None:
        """Close the connection with RST."""
        self.sock.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
        )
        self.sock.close()


def usual(connection: Connection) -> None:
    """Respond as an empty service does, until the client disconnects."""
    while True:
        request = connection.body(connection.head())
        connection.answer(
            200, {"tables": []} if request.method == "GET" else {"version": 1}
        )


@dataclass
class Server:
    """Listens on loopback; each connection is handed to ``script``.

    ``answers`` is a simpler script: the response to each POST in turn.
    """

    script: object = usual
    tls: object = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    errors: list[BaseException] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    port_wanted: int = 0

    def __enter__(self) -> Self:
        self._listener = socket.create_server(
            ("127.0.0.1", self.port_wanted), backlog=64
        )
        self.port = self._listener.getsockname()[1]
        self._stop = threading.Event()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def posts(self) -> list[Request]:
        return [request for request in self.requests if request.method == "POST"]

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
                self._open.append(sock)
            self.script(Connection(sock, self))
        except OSError:
            pass
        except BaseException as error:
            self.errors.append(error)
            raise
        finally:
            with contextlib.suppress(OSError):
                sock.close()

    def answering(self, *answers: tuple) -> Server:
        """Respond to the POSTs in turn; the last response repeats.

        A response is ``(status, body, headers)``. Lists have ``listed``.
        """
        # also for connections that are already open
        self._answers = answers
        self._count = itertools.count()

        def answer(request: Request) -> tuple:
            if request.method == "GET":
                return 200, {"tables": self.listed}
            return self._answers[min(next(self._count), len(self._answers) - 1)]

        return self.responding(answer)

    def listing(self, *answers: tuple) -> Server:
        """Respond to all requests in turn, as `answering` does to POSTs."""
        count = itertools.count()
        last = len(answers) - 1
        return self.responding(lambda _: answers[min(next(count), last)])

    def responding(self, answer: Callable[[Request], tuple]) -> Server:
        """Respond to each request as ``answer(request)`` says."""

        def script(connection: Connection) -> None:
            while True:
                connection.answer(*answer(connection.body(connection.head())))

        self.script = script
        return self

    def stop_listening(self) -> None:
        """Refuse further connections; those that are open stay."""
        self._stop.set()
        # a second call finds it closed
        with contextlib.suppress(OSError):
            # closing it would not wake the thread that waits in `accept`
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def __exit__(self, *_: object) -> None:
        self.stop_listening()
        for sock in self._open:
            # its own thread closes it: closed here, its number could be reused while
            # that thread reads
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        assert not self.errors, self.errors


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
