"""What `_http.connection` relies upon in requests, urllib3 and http.client, and no scripted server can show.

Where one fails with a new release of theirs, its name says what moved. The rest is seen through the front door: framing
in test_wire.py, which connection is used again in test_warm_writes.py, redirects, interim and early answers in faults.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import threading

import pytest
import requests
import urllib3
from urllib3.util.ssltransport import SSLTransport

from rt_frames._http.connection import Adapter, UploadConnection
from rt_frames._http.upload import Upload
from tests.support.faults import certificates, connected
from tests.support.servers import Connection, Server


def exchange(adapter: Adapter, url: str, body: Upload | None = None, **options: object) -> requests.Response:
    """Send one request as a session does, and read the answer to its end."""
    prepared = requests.Request("POST" if body else "GET", url).prepare()
    prepared.body = body
    with adapter.send(prepared, stream=True, timeout=(2, 1), **options) as response:
        response.raw.read()
    return response


def pool_of(adapter: Adapter, url: str, verify: object = True) -> urllib3.HTTPConnectionPool:
    return adapter.get_connection_with_tls_context(requests.Request("GET", url).prepare(), verify)


@pytest.fixture
def adapter():
    with contextlib.closing(Adapter()) as adapter:
        yield adapter


def test_requests_takes_pools_from_the_manager_that_the_adapter_made(adapter, server, tmp_path):
    authority, context = certificates()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for server.tls, verify, kind in [
        (None, True, urllib3.connection.HTTPConnection),
        (context, str(tmp_path / "ca.pem"), urllib3.connection.HTTPSConnection),
    ]:
        exchange(adapter, server.url, verify=verify)
        pool = pool_of(adapter, server.url, verify)
        assert pool.num_requests == 1
        assert issubclass(pool.ConnectionCls, UploadConnection)
        assert issubclass(pool.ConnectionCls, kind)


def test_urllib3_keeps_connections_of_connection_cls_in_queue_cls(adapter, server):
    exchange(adapter, server.url)
    pool = pool_of(adapter, server.url)
    assert type(pool.pool) is pool.QueueCls is not urllib3.HTTPConnectionPool.QueueCls
    held = [pool._get_conn() for _ in range(12)]  # more than it keeps
    assert {type(connection) for connection in held} == {UploadConnection}
    for connection in held:
        pool._put_conn(connection)
    assert len(pool.pool) == 10


def test_urllib3_gives_all_to_sendall_through_tls_inside_tls():
    class OnlySendall:
        calls = 0

        def sendall(self, _data: bytes) -> None:
            self.calls += 1

    authority, server_context = certificates("service.test")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    one, other = socket.socketpair()
    serving = threading.Thread(target=lambda: server_context.wrap_socket(other, server_side=True).close())
    serving.start()
    with SSLTransport(one, context, "service.test") as transport:
        serving.join()
        transport.socket, inner = OnlySendall(), transport.socket
        assert transport.send(b"abc") == 3
        assert transport.socket.calls == 1
        transport.socket = inner


def test_http_client_reads_by_response_class_and_asks_it_for_makefile_alone():
    class OnlyMakefile:
        def makefile(self, *_args: object, **_options: object) -> io.BytesIO:
            return io.BytesIO(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    one, other = socket.socketpair()
    with one, other:
        connection = urllib3.connection.HTTPConnection("127.0.0.1")
        connection.sock = one
        connection.request("GET", "/")
        connection.response_class = lambda _sock, **options: http.client.HTTPResponse(OnlyMakefile(), **options)
        assert connection.getresponse().data == b"ok"


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
