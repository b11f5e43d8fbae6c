"""The world around, processes, threads, proxies, settings: F31 to F35, F40 of the matrix in README.md."""

from __future__ import annotations

import contextlib
import math
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import quote

import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames._http.options import find_ca_bundle
from tests.support.compare import stored
from tests.support.faults import MIB, certificates, connected, fails, frame
from tests.support.servers import KEY, Connection, Server


def echo(connection: Connection) -> None:
    """Answer each list with the name that the caller put into a header."""
    while True:
        request = connection.body(connection.head())
        connection.answer(200, {"tables": [request.headers.get("x-who", "")]})


FORKS = """
import multiprocessing, rt_frames as rt

def count_right(client, name, results):
    client._service._session._headers["x-who"] = name
    results.put(sum(client.list_tables() == [name] for _ in range(200)))

client = rt.connect({url!r}, api_key={key!r}, timeout=10)
client.list_tables()
context = multiprocessing.get_context("fork")
results = context.Queue()
children = [context.Process(target=count_right, args=(client, f"child {{i}}", results)) for i in range(4)]
[child.start() for child in children]
print(sorted(results.get(timeout=60) for _ in children))
[child.join(10) for child in children]
"""


def test_F31_after_a_fork_every_process_gets_its_own_answers(server):
    server.script = echo
    code = FORKS.format(url=server.url, key=KEY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=90)
    assert (done.stdout, done.stderr) == ("[200, 200, 200, 200]\n", "")
    assert server.connections == 5


FORKS_IN_MID_UPLOAD = """
import os, sys, time
import numpy as np, pyarrow as pa
import rt_frames as rt

def batches():
    for _ in range(4):
        yield pa.record_batch({{"a": np.arange(2**17)}})
    if os.fork() == 0:
        time.sleep(8)
        os._exit(0)
    raise LookupError("after the fork")

rt.connect({url!r}, api_key={key!r}, verify={verify!r}).create_table("t", batches())
"""


@pytest.mark.parametrize("tls", [False, True])
def test_F31_a_broken_upload_is_heard_of_though_a_process_was_forked_meanwhile(server, tmp_path, tls):
    authority, context = certificates()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server.tls = context if tls else None
    heard = threading.Event()

    def script(connection: Connection) -> None:
        connection.body(connection.head())
        connection.answer(200, {"tables": []})
        try:
            connection.body(connection.head())
        finally:
            heard.set()

    server.script = script
    code = FORKS_IN_MID_UPLOAD.format(url=server.url, key=KEY, verify=str(tmp_path / "ca.pem") if tls else True)
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
        assert process.wait(timeout=30) == 1
        assert heard.wait(3)


@pytest.mark.parametrize("lists", [10, pytest.param(100, marks=pytest.mark.long)])
def test_F32_one_client_in_many_threads_gets_every_answer_right(client, service, lists):
    names = set(client.list_tables()) | {f"threads_{lists}_{i}" for i in range(4)}
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            if number < 4:
                client.create_table(f"threads_{lists}_{number}", pa.table({"a": [number] * 1000}))
            wrong.extend(set(client.list_tables()) - names for _ in range(lists))
        except BaseException as error:  # noqa: BLE001  # told below
            wrong.append({error})

    threads = [threading.Thread(target=work, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [what for what in wrong if what] == []
    for i in range(4):
        assert stored(service, f"threads_{lists}_{i}")["a"].to_pylist() == [i] * 1000


def test_F33_settings_of_the_machine_lead_nobody_to_a_trap(server, tmp_path, monkeypatch):
    with Server() as trap:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, trap.url)
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password secret\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        client = connected(server)
        client.list_tables()
        client.create_table("t", frame(1))
        assert trap.connections == 0
    assert all("authorization" not in request.headers for request in server.requests)


def tunnel(asked: list[str], target: int, rate: float = math.inf):
    """Be a CONNECT proxy: any name ends at one local port, which gets so many bytes a second."""

    def script(connection: Connection) -> None:
        asked.append(connection.head().line)
        connection.sock.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with socket.create_connection(("127.0.0.1", target)) as onward:
            threading.Thread(target=pump, args=(onward, connection.sock), daemon=True).start()
            pump(connection.sock, onward, rate)
            onward.shutdown(socket.SHUT_RDWR)

    return script


def pump(one: socket.socket, other: socket.socket, rate: float = math.inf) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
            time.sleep(len(data) / rate)


@pytest.mark.parametrize(
    "variable", ["verify", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"]
)
def test_F33_a_private_ca_is_trusted_where_it_is_named(server, tmp_path, monkeypatch, variable):
    authority, server.tls = certificates()
    path = str(tmp_path / "ca.pem")
    authority.cert_pem.write_to_path(path)
    if variable == "SSL_CERT_DIR":  # whose files are named by what OpenSSL looks for
        if (openssl := shutil.which("openssl")) is None:
            pytest.skip("openssl is not installed here")
        named = subprocess.run([openssl, "x509", "-hash", "-noout", "-in", path], capture_output=True, check=True)
        (tmp_path / "certs").mkdir()
        shutil.copy(path, tmp_path / "certs" / f"{named.stdout.decode().strip()}.0")
        path = f"{tmp_path / 'missing'}:{tmp_path / 'certs'}"
    if variable != "verify":
        monkeypatch.setenv(variable, path)
    client = connected(server, verify=path if variable == "verify" else True)
    client.create_table("t", frame(1))
    assert client.list_tables() == []


def test_https_to_a_port_that_speaks_http_says_so(service, caplog):
    client = rt.connect(service.url.replace("http:", "https:"), api_key=KEY, retries=0, default=False)
    fails(client.list_tables, rt.errors.ConnectError, caplog, "that port does not speak https; try http://")


@pytest.mark.parametrize("what", ["missing", "not PEM", "a folder that is none"])
@pytest.mark.parametrize("variable", ["verify", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_F33_a_ca_bundle_that_cannot_be_used_is_said_before_any_request(tmp_path, monkeypatch, variable, what):
    path = tmp_path / "ca.pem"
    if what == "not PEM":
        path.write_text("certificate")
    if what == "a folder that is none":
        path = path / "below"
    if variable != "verify":
        monkeypatch.setenv(variable, str(path))
    verify = path if variable == "verify" else True
    with pytest.raises(ValueError, match=f"^{variable}: .*{re.escape(str(path))}"):
        rt.connect("https://service.test", api_key=KEY, verify=verify)
    rt.connect("https://service.test", api_key=KEY, verify=False)


def test_F33_what_the_environment_names_is_obeyed_in_the_order_that_is_documented(tmp_path, monkeypatch):
    mine, other, url = certificates()[0], certificates()[0], "https://service.test"
    for number, authority in enumerate([mine, other]):
        authority.cert_pem.write_to_path(str(tmp_path / f"{number}.pem"))
    first, second = str(tmp_path / "0.pem"), str(tmp_path / "1.pem")
    order = ["SSL_CERT_DIR", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"]
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing"))  # as OpenSSL does: what is missing does not count
    assert find_ca_bundle(True, url) is True
    for path, variable in zip([str(tmp_path), first, second, first], order, strict=True):
        monkeypatch.setenv(variable, path)
        assert find_ca_bundle(True, url) == path
        assert find_ca_bundle(second, url) == second
        assert find_ca_bundle(True, "http://127.0.0.1") is True


def test_F33_https_goes_through_the_proxy_that_the_environment_names(server, tmp_path, monkeypatch):
    authority, server.tls = certificates("service.test")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    asked: list[str] = []
    with Server(tunnel(asked, server.port)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        client = rt.connect("https://service.test", api_key=KEY, verify=tmp_path / "ca.pem", default=False)
        client.create_table("t", frame(1))
        assert client.list_tables() == []
    assert set(asked) == {"CONNECT service.test:443 HTTP/1.0"} or set(asked) == {"CONNECT service.test:443 HTTP/1.1"}
    assert [r.path for r in server.requests] == ["/v1/tables/t", "/v1/tables"]
    assert KEY not in "".join(asked)


def test_F40_behind_a_proxy_every_write_and_list_goes_at_the_first_attempt(server, tmp_path, monkeypatch):
    authority, server.tls = certificates("service.test")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    asked: list[str] = []
    with Server(tunnel(asked, server.port)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        client = rt.connect("https://service.test", api_key=KEY, verify=tmp_path / "ca.pem", retries=0, default=False)
        for _ in range(3):
            client.create_table("t", frame(2))
            assert client.list_tables() == []
            client.table("t").rename({"a": "b"})
        client.close()
    assert len(server.requests) == 9
    assert len(asked) == 3  # a connection for each large upload, which the small requests after it ride


def silent(connection: Connection) -> None:
    connection.head()
    time.sleep(5)


def drip(connection: Connection) -> None:
    connection.head()
    connection.sock.sendall(b"HTTP/1.1 200 Connection established\r\n")
    for _ in range(50):
        connection.sock.sendall(b"x: y\r\n")
        time.sleep(0.1)


def refuse(status: str):
    return lambda connection: (connection.head(), connection.sock.sendall(f"HTTP/1.1 {status}\r\n\r\n".encode()))


PROXIES = [
    (None, "refused.*check the proxy.*NO_PROXY", 2),
    (silent, "timed out.*check the proxy", 2),
    (drip, "(timed out|in time);.*check the proxy", 2),
    (refuse("407 Proxy Authentication Required"), "407.*HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT", 1),
    (refuse("403 Forbidden"), "403 Forbidden; nothing was sent; check the proxy", 1),
    (refuse("403 \x1b[2JNo\rway"), r"403 \\x1b\[2JNo\\rway; nothing", 1),
    (refuse("502 Bad Gateway"), "502 Bad Gateway; nothing was sent; check the proxy", 2),
]


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(("script", "words", "attempts"), PROXIES)
def test_F40_a_proxy_that_lets_nothing_through_is_named(tmp_path, monkeypatch, caplog, script, words, attempts, scheme):
    authority, context = certificates()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with Server(script, tls=context if scheme == "https" else None) as proxy, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        port = proxy.port if script is not None else nobody.getsockname()[1]
        monkeypatch.setenv("HTTPS_PROXY", f"{scheme}://somebody:pass-word@127.0.0.1:{port}")
        options = {"verify": tmp_path / "ca.pem", "timeout": (1, 1, 1), "retries": 1, "default": False}
        client = rt.connect("https://service.test", api_key=KEY, **options)
        start = time.monotonic()
        for call in (client.list_tables, lambda: client.create_table("t", frame(1))):
            error = fails(
                call, rt.errors.ConnectError, caplog, f"proxy 127.0.0.1:{port} for https://service.test: .*{words}"
            )
            assert error.attempts == attempts
            assert "pass-word" not in str(error) + caplog.text
        assert time.monotonic() - start < 8
        assert all(KEY.encode() not in request.head for request in proxy.requests)


@pytest.mark.parametrize(
    "proxy", ["http://u:{}@proxy:99999", "u:{}@proxy:99999", "http://u:{}/x@proxy", "http://u:{}@", "http://u:{}@[::1"]
)
def test_F40_a_proxy_that_is_no_url_is_named_without_its_password(monkeypatch, caplog, proxy):
    monkeypatch.setenv("HTTPS_PROXY", proxy.format("pass-word"))
    client = rt.connect("https://service.test", api_key=KEY, retries=0, default=False)
    for call in (client.list_tables, lambda: client.create_table("t", frame(1))):
        error = fails(call, rt.errors.ConnectError, caplog, "it is not a URL; nothing was sent; check the proxy")
        assert "pass-word" not in str(error) + caplog.text


def test_F40_a_proxy_whose_certificate_nobody_vouches_for_is_named(monkeypatch, caplog):
    with Server(tls=certificates()[1]) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        client = rt.connect("https://service.test", api_key=KEY, timeout=1, default=False)
        words = f"not accepted, proxy 127.0.0.1:{proxy.port} for https://service.test: .*REQUESTS_CA_BUNDLE"
        assert fails(client.list_tables, rt.errors.TLSError, caplog, words).attempts == 1


def test_F40_an_https_proxy_on_a_slow_link_gets_every_byte(server, tmp_path, monkeypatch):
    authority, server.tls = certificates("service.test")
    proxy_authority, context = certificates()
    authorities = authority.cert_pem.bytes() + proxy_authority.cert_pem.bytes()
    (tmp_path / "ca.pem").write_bytes(authorities)
    with Server(tunnel([], server.port, rate=4 * MIB), tls=context) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        client = rt.connect("https://service.test", api_key=KEY, verify=tmp_path / "ca.pem", retries=0, default=False)
        data = frame(12)
        client.create_table("t", data, compression=None)
        client.close()
    assert pa.ipc.open_stream(server.posts[0].body).read_all() == data


@pytest.mark.parametrize("key", ["", "k\n", " k", "k k", "é", "k\x00", 3])
def test_F34_a_bad_key_is_refused_before_anything_is_sent_and_not_repeated(server, key):
    with pytest.raises(ValueError, match="api_key") as error:
        rt.connect(server.url, api_key=key)
    assert repr(key) not in str(error.value)
    assert server.connections == 0


def test_F34_an_empty_key_in_the_environment_is_none(server, monkeypatch):
    monkeypatch.setenv("RT_FRAMES_API_KEY", "")
    with pytest.raises((ValueError, rt.errors.NotConnectedError), match="key"):
        rt.connect(server.url)
    assert server.connections == 0


SMALL = pa.table({"a": [1]})
NAMES = ["t", "a b", "é", "50%", "a%20b", "a?b#c", "名", "a.b", "...", "..a", "a..", "~x", "-", "+", "a+b&c=d"]
NAMES += ["x" * 255, "'\"<>", "a;b", "a:b", "@", " "]


@pytest.mark.parametrize("name", NAMES)
def test_F35_every_name_arrives_as_it_is(remote, server, name):
    remote.create_table(name, SMALL)
    remote.table(name).rename({"a": "b"})
    quoted = quote(name, safe="")
    assert [r.path for r in server.requests] == [f"/v1/tables/{quoted}", f"/v1/table/{quoted}/alter_columns"]
    assert re.fullmatch(r"[A-Za-z0-9%._~-]+", quoted)


BAD = ["", ".", "..", "a\nb", "\r\n", "\x00", "\x7f", "\ud800", "\udcff", "é" * 128, "x" * 256, 3, None]


@pytest.mark.parametrize("name", BAD)
def test_F35_a_name_that_no_address_carries_is_refused_before_anything_is_sent(remote, server, name):
    with pytest.raises((ValueError, TypeError), match="name: ") as error:
        remote.create_table(name, SMALL)
    assert name in ("", ".", "..", 3, None) or name not in str(error.value)
    assert server.requests == []


ELSEWHERE = ["../table/sales/drop", "tmp/../sales", "a/b", "/", "a\\b", "..\\sales", "..%2Fsales", "a%5cb"]
ELSEWHERE += ["%2e", "%2E."]


@pytest.mark.parametrize("dialect", ["documented", "lancedb"])
def test_F35_a_name_that_something_in_between_may_decode_is_refused_before_anything_is_sent(server, dialect):
    client = connected(server, dialect=dialect)
    calls = [
        lambda name: client.create_table(name, SMALL, if_exists="skip"),
        client.table,
        lambda name: client.alter_columns(name, {"path": "a", "rename": "b"}),
        lambda name: rt.RemoteTable(name, client).rename({"a": "b"}),
    ]
    if dialect == "lancedb":
        calls.append(lambda name: rt.RemoteTable(name, client).schema)
    for name in ELSEWHERE:
        for call in calls:
            with pytest.raises(ValueError, match=r"name: a table's name cannot (contain / or \\.*write _|be empty)"):
                call(name)
    assert server.connections == 0
