"""What `_http.connection` relies upon in requests, urllib3 and http.client, and no frame that is sent can show.

The rest is seen through the front door: framing in test_wire.py, which connection is used again in test_warm_writes.py,
redirects, interim and early answers, and TLS inside TLS in faults.
"""

from __future__ import annotations

import contextlib
import http.client

import pytest
import requests

from rt_frames._http.connection import Adapter, UploadConnection
from rt_frames._http.upload import Upload
from tests.support.faults import connected
from tests.support.servers import Connection, Server


def exchange(adapter: Adapter, url: str, body: Upload | None = None, **options: object) -> requests.Response:
    """Send one request as a session does, and read the answer to its end."""
    prepared = requests.Request("POST" if body else "GET", url).prepare()
    prepared.body = body
    with adapter.send(prepared, stream=True, timeout=(2, 1), **options) as response:
        response.raw.read()
    return response


@pytest.fixture
def adapter():
    with contextlib.closing(Adapter()) as adapter:
        yield adapter


def test_http_client_keeps_lines_that_are_no_headers_in_msg_and_urllib3_then_logs_nothing(server, caplog):
    def script(connection: Connection) -> None:
        key = connection.head().headers["x-api-key"]
        connection.sock.sendall(f"HTTP/1.1 200 OK\r\n{key} : {key}\r\n{key}\r\n\r\n[]".encode())

    server.script = script
    with caplog.at_level("DEBUG"):
        assert connected(server).list_tables() == []
    assert server.requests[0].headers["x-api-key"] not in caplog.text


def test_a_proxys_answer_is_not_read_by_what_read_the_last_answer():
    with Server() as server:
        connection = UploadConnection("127.0.0.1", server.port, timeout=2)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        assert connection.response_class is http.client.HTTPResponse
        connection.close()


@pytest.mark.parametrize("length", [2, 7])
def test_a_body_that_is_not_as_long_as_was_said_ends_its_connection(adapter, server, length):
    """What is beyond its end would be taken for the next request, and what is missing be waited for."""
    body = Upload([[b"abc"], [b"de"]], length, timeout=0.5)
    with contextlib.suppress(requests.RequestException):
        exchange(adapter, server.url, body)
    assert not body.complete
    assert exchange(adapter, server.url).status_code == 200
    assert server.connections == 2
