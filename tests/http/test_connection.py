"""What is relied upon in requests, urllib3 and http.client: one test for each part that `_http.connection` names.

Where one fails with a new release of theirs, its name says what moved.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import threading
import time

import pytest
import requests
import urllib3
from urllib3.util.ssltransport import SSLTransport

from rt_frames._http.connection import Adapter, UploadConnection
from rt_frames._http.upload import Upload
from tests.support.faults import MIB, certificates, connected
from tests.support.servers import Connection, Server


def exchange(adapter: Adapter, url: str, body: Upload | None = None, **options: object) -> requests.Response:
    """Send one request as a session does, and read the answer to its end."""
    prepared = requests.Request("POST" if body else "GET", url).prepare()
    prepared.body = body
    with adapter.send(prepared, stream=True, timeout=(2, 2), **options) as response:
        response.raw.read()
    return response


def upload(*buffers: bytes, length: int | None = None) -> Upload:
    return Upload([[buffer] for buffer in buffers], length, timeout=2)


@pytest.fixture
def adapter():
    adapter = Adapter()
    yield adapter
    adapter.close()


def test_requests_takes_pools_from_the_manager_that_the_adapter_made(adapter, server, tmp_path):
    pool = adapter.get_connection_with_tls_context(requests.Request("GET", server.url).prepare(), True)
    assert issubclass(pool.ConnectionCls, UploadConnection)
    exchange(adapter, server.url)
    assert pool.num_requests == 1
    authority, server.tls = certificates()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    exchange(adapter, server.url, verify=str(tmp_path / "ca.pem"))
    secure = adapter.get_connection_with_tls_context(
        requests.Request("GET", server.url).prepare(), str(tmp_path / "ca.pem")
    )
    assert (secure.num_requests, secure.scheme) == (1, "https")
    assert issubclass(secure.ConnectionCls, UploadConnection)
    assert issubclass(secure.ConnectionCls, urllib3.connection.HTTPSConnection)


def test_requests_hands_a_body_to_the_connection_as_it_is(adapter, server, monkeypatch):
    seen = []
    request = UploadConnection.request

    def recorded(self: UploadConnection, method: str, url: str, body: object = None, *args: object, **options: object):
        seen.append(body)
        return request(self, method, url, body, *args, **options)

    monkeypatch.setattr(UploadConnection, "request", recorded)
    body = upload(b"abc")
    exchange(adapter, server.url, body)
    assert seen == [body]
    assert seen[0] is body


def test_requests_adapter_follows_no_redirect_and_sends_no_cookies(adapter, server):
    server.listing((302, b"", {"Location": "/elsewhere", "Set-Cookie": "a=1"}), (200, b""))
    assert exchange(adapter, server.url).status_code == 302
    assert exchange(adapter, server.url).status_code == 200
    assert [request.path for request in server.requests] == ["/", "/"]
    assert "cookie" not in server.requests[1].headers


def test_urllib3_keeps_connections_of_connection_cls_in_queue_cls(adapter, server):
    for _ in range(2):
        exchange(adapter, server.url)
    assert server.connections == 1
    pool = adapter.get_connection_with_tls_context(requests.Request("GET", server.url).prepare(), True)
    assert type(pool.pool) is pool.QueueCls is not urllib3.HTTPConnectionPool.QueueCls
    held = [pool._get_conn() for _ in range(12)]  # more than it keeps
    assert {type(connection) for connection in held} == {UploadConnection}
    for connection in held:
        pool._put_conn(connection)
    assert len(pool.pool) == 10


def test_urllib3_asks_is_connected_before_it_uses_a_connection_again(adapter, server):
    for body in (None, None, upload(b"abc"), None, upload(b"abc"), upload(b"abc")):
        exchange(adapter, server.url, body)
    # the first, and one for each body that may be large; what comes after a body may use its connection
    assert server.connections == 4


def test_urllib3_has_the_connect_timeout_in_timeout_for_request_and_the_read_timeout_for_getresponse(
    adapter, server, monkeypatch
):
    seen = []
    for name in ("request", "getresponse"):
        method = getattr(UploadConnection, name)

        def recorded(self: UploadConnection, *args: object, method=method, **options: object):
            seen.append(self.timeout)
            return method(self, *args, **options)

        monkeypatch.setattr(UploadConnection, name, recorded)
    prepared = requests.Request("GET", server.url).prepare()
    adapter.send(prepared, stream=True, timeout=(3, 4)).close()
    assert seen == [3, 4]


@pytest.mark.parametrize(("length", "header"), [(6, "content-length"), (None, "transfer-encoding")])
def test_urllib3_puts_each_header_by_putheader_and_a_length_of_0_for_a_body_that_it_does_not_know(
    adapter, server, length, header
):
    exchange(adapter, server.url, upload(b"abc", b"def", length=length))
    (request,) = server.posts
    framing = {name for name in request.headers if name in ("content-length", "transfer-encoding")}
    assert (framing, request.body, request.complete) == ({header}, b"abcdef", True)


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
    connection = urllib3.connection.HTTPConnection("127.0.0.1")
    connection.sock = one
    connection.request("GET", "/")
    connection.response_class = lambda _sock, **options: http.client.HTTPResponse(OnlyMakefile(), **options)
    assert connection.getresponse().data == b"ok"
    one.close()
    other.close()


def test_http_client_keeps_lines_that_are_no_headers_in_msg_and_urllib3_then_logs_nothing(server, caplog):
    def script(connection: Connection) -> None:
        key = connection.head().headers["x-api-key"]
        connection.sock.sendall(f"HTTP/1.1 200 OK\r\n{key} : {key}\r\n{key}\r\n\r\n[]".encode())

    server.script = script
    with caplog.at_level("DEBUG"):
        assert connected(server).list_tables() == []
    assert server.requests[0].headers["x-api-key"] not in caplog.text


def test_http_client_begins_with_the_next_head_where_headers_is_none():
    one, other = socket.socketpair()
    other.sendall(b"HTTP/1.1 103 Wait\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    with one, other, http.client.HTTPResponse(one) as response:
        response.begin()
        assert response.status == 103
        response.headers = None
        response.begin()
        assert (response.status, response.read(), list(response.headers)) == (200, b"ok", ["Content-Length"])


def test_http_client_closes_the_connection_where_begin_sets_will_close(adapter, server):
    def refuse(connection: Connection) -> None:
        connection.body(connection.head(), MIB)
        connection.answer(413)
        time.sleep(1)

    server.script = refuse
    assert exchange(adapter, server.url, upload(bytes(32 * MIB), length=32 * MIB)).status_code == 413
    pool = adapter.get_connection_with_tls_context(requests.Request("GET", server.url).prepare(), True)
    (kept,) = [connection for connection in pool.pool if connection is not None]
    assert kept.is_closed


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
    body = upload(b"abc", b"de", length=length)
    with contextlib.suppress(requests.RequestException):
        exchange(adapter, server.url, body)
    assert not body.complete
    assert exchange(adapter, server.url).status_code == 200
    assert server.connections == 2
