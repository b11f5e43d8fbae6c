"""Hand requests on to a service."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.support.hosted import with_parts_of

if TYPE_CHECKING:
    from tests.support.servers import Request

# several parts of the rows that are written here
IN_PARTS = with_parts_of(200_000)


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
