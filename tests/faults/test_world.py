"""Processes, threads, proxies and settings.

F31 to F35 and F40 of the matrix in README.md.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import errors
from tests.support.compare import stored
from tests.support.faults import MIB, certificates, fails, frame, patient
from tests.support.servers import KEY, Connection, Server

FORKS = """
import multiprocessing, os, rt_frames as rt

def count_right(client, results):
    mine = [{{"path": f"c{{os.getpid()}}", "rename": "b"}}]
    found = [client.alter_columns("t", mine).version for _ in range(50)]
    results.put(found.count(os.getpid()))

client = rt.connect({url!r}, api_key={key!r}, timeout=10)
client.list_tables()
context = multiprocessing.get_context("fork")
results = context.Queue()
children = []
for _ in range(4):
    children.append(context.Process(target=count_right, args=(client, results)))
    children[-1].start()
print(sorted(results.get(timeout=60) for _ in children))
for child in children:
    child.join(10)
"""


def test_F31_after_a_fork_every_process_gets_its_own_answers(server):
    def echo(connection: Connection) -> None:
        """Answer each alteration with the number in its column's name."""
        while True:
            request = connection.body(connection.head())
            number = re.search(rb'"c(\d+)"', request.body)
            connection.answer(
                200, {"version": int(number[1])} if number else {"tables": []}
            )

    server.script = echo
    code = FORKS.format(url=server.url, key=KEY)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert (done.stdout, done.stderr) == ("[50, 50, 50, 50]\n", "")
    assert server.connections == 5


FORKS_IN_MID_UPLOAD = """
import os, sys, time
import numpy as np, pyarrow as pa
import rt_frames as rt

def batches():
    for _ in range(4):
        yield pa.record_batch({{"a": np.arange(2**17)}})
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    raise LookupError("after the fork")

for url in {urls!r}:
    try:
        rt.connect(url, api_key={key!r}, verify={verify!r}).create_table("t", batches())
    except LookupError:
        print("raised", flush=True)
"""


@pytest.fixture
def ca(tmp_path):
    """A CA, whose certificates are in a file."""
    authority, context = certificates("service.test", "127.0.0.1")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return tmp_path / "ca.pem", context


def test_F31_a_broken_upload_is_heard_of_though_a_process_was_forked_meanwhile(ca):
    heard = [threading.Event(), threading.Event()]

    def script(connection: Connection) -> None:
        while (request := connection.head()).method == "GET":
            connection.answer(200, {"tables": []})
        try:
            connection.body(request)
        finally:
            next(event for event in heard if not event.is_set()).set()

    with Server(script) as plain, Server(script, tls=ca[1]) as tls:
        code = FORKS_IN_MID_UPLOAD.format(
            urls=[plain.url, tls.url], key=KEY, verify=str(ca[0])
        )
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
        ) as process:
            assert [process.stdout.readline() for _ in heard] == ["raised\n"] * 2
            assert all(event.wait(10) for event in heard)
            process.kill()


@pytest.mark.parametrize("lists", [5, pytest.param(100, marks=pytest.mark.long)])
def test_F32_one_client_in_many_threads_gets_every_answer_right(client, service, lists):
    names = set(client.list_tables()) | {f"threads_{lists}_{i}" for i in range(4)}

    def work(number: int) -> set[str]:
        if number < 4:
            client.create_table(
                f"threads_{lists}_{number}", pa.table({"a": [number] * 1000})
            )
        return {name for _ in range(lists) for name in client.list_tables()} - names

    with ThreadPoolExecutor(32) as pool:
        assert set().union(*pool.map(work, range(32))) == set()
    for i in range(4):
        assert stored(service, f"threads_{lists}_{i}")["a"].to_pylist() == [i] * 1000


def test_F33_settings_of_the_machine_lead_nobody_to_a_trap(
    server, tmp_path, monkeypatch
):
    with Server() as trap:
        for name in (
            "http_proxy",
            "HTTP_PROXY",
            "all_proxy",
            "ALL_PROXY",
            "https_proxy",
        ):
            monkeypatch.setenv(name, trap.url)
        (tmp_path / "netrc").write_text(
            "machine 127.0.0.1 login somebody password secret\n"
        )
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        client = patient(server)
        client.list_tables()
        client.create_table("t", frame(1))
        rt.connect(
            f"http://0.0.0.0:{server.port}",
            api_key=KEY,
            default=False,
            allow_insecure=True,
        ).list_tables()
        monkeypatch.setenv("NO_PROXY", "service.test")
        with pytest.raises(errors.ConnectError, match="nothing was sent"):
            rt.connect(
                "https://service.test", api_key=KEY, default=False, retries=0
            ).list_tables()
        assert trap.connections == 0
    assert all("authorization" not in request.headers for request in server.requests)


# of those that are set, the last counts
VARIABLES = ["SSL_CERT_DIR", "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"]


@pytest.mark.parametrize("variable", ["verify", *VARIABLES])
def test_F33_a_private_ca_is_trusted_where_it_is_named(
    server, ca, tmp_path, monkeypatch, variable
):
    path, server.tls = ca
    other = certificates()[0]
    other.cert_pem.write_to_path(str(tmp_path / "other.pem"))
    for lesser in VARIABLES:
        if lesser == variable:
            break
        monkeypatch.setenv(lesser, str(tmp_path / "other.pem"))
    if variable == "SSL_CERT_DIR":  # whose files are named by what OpenSSL looks for
        if (openssl := shutil.which("openssl")) is None:
            pytest.skip("openssl is not installed here")
        named = subprocess.run(
            [openssl, "x509", "-hash", "-noout", "-in", path],
            capture_output=True,
            check=True,
        )
        (tmp_path / "certs").mkdir()
        shutil.copy(path, tmp_path / "certs" / f"{named.stdout.decode().strip()}.0")
        path = f"{tmp_path / 'missing'}:{tmp_path / 'certs'}"
        # does not count then
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing"))
    if variable != "verify":
        monkeypatch.setenv(variable, str(path))
    client = patient(server, verify=path if variable == "verify" else True)
    client.create_table("t", frame(1))
    assert client.list_tables() == []


def test_F33_a_ca_bundle_that_cannot_be_used_is_said_before_any_request(
    tmp_path, monkeypatch
):
    (tmp_path / "no.pem").write_text("certificate")
    for path in (
        tmp_path / "missing.pem",
        tmp_path / "no.pem",
        tmp_path / "missing" / "folder",
    ):
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
        for variable, verify in (("REQUESTS_CA_BUNDLE", True), ("verify", path)):
            words = f"^{variable}: .*{re.escape(str(path))}"
            with pytest.raises(ValueError, match=words):
                rt.connect("https://service.test", api_key=KEY, verify=verify)
    rt.connect("https://service.test", api_key=KEY, verify=False)
    rt.connect("http://127.0.0.1", api_key=KEY)


def tunnel(asked: list[str], target: int, pause: float = 0):
    """Be a CONNECT proxy that leads every name to one local port.

    It pauses once, after it has passed on a MiB.
    """

    def script(connection: Connection) -> None:
        asked.append(connection.head().line)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.sock.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with socket.create_connection(("127.0.0.1", target)) as onward:
            threading.Thread(
                target=pump, args=(onward, connection.sock), daemon=True
            ).start()
            pump(connection.sock, onward, pause)
            onward.shutdown(socket.SHUT_RDWR)

    return script


def pump(one: socket.socket, other: socket.socket, pause: float = 0) -> None:
    left = MIB if pause else math.inf
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
            left -= len(data)
            if left < 0:
                time.sleep(pause)
                left = math.inf


def through(url: str, ca: object, **options: object) -> rt.Client:
    """Connect to a service beyond a proxy."""
    return rt.connect(
        url, api_key=KEY, verify=ca, **{"retries": 0, "default": False, **options}
    )


def test_F33_F40_behind_a_proxy_every_write_and_list_goes_at_the_first_attempt(
    server, ca, monkeypatch
):
    path, server.tls = ca
    asked: list[str] = []
    with Server(tunnel(asked, server.port)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        client = through("https://service.test", path)
        for _ in range(3):
            client.create_table("t", frame(2))
            assert client.list_tables() == []
            client.table("t").rename({"a": "b"})
        client.close()
    assert [r.path for r in server.requests] == [
        "/v1/tables/t",
        "/v1/tables",
        "/v1/table/t/alter_columns",
    ] * 3
    # a connection for each large upload, which the small requests after it ride
    assert len(asked) == 3
    assert {line.rpartition(" ")[0] for line in asked} == {"CONNECT service.test:443"}


def test_F40_after_a_refusal_in_mid_upload_the_proxy_is_asked_anew(
    server, ca, monkeypatch
):
    def refuse_early(connection: Connection) -> None:
        while connection.head().method == "GET":
            connection.answer(200, {"tables": []})
        connection.answer(413)
        while connection.sock.recv(2**16):
            pass

    path, server.tls = ca
    server.script = refuse_early
    asked = list[str]()
    with Server(tunnel(asked, server.port)) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        with through("https://service.test", path) as client:
            with pytest.raises(errors.PayloadTooLarge):
                client.create_table("t", frame(32), compression=None)
            assert client.list_tables() == []
    assert len(asked) > 1


def test_F40_an_https_proxy_that_does_not_read_for_a_while_gets_every_byte(
    server, ca, monkeypatch
):
    """TLS inside TLS must finish a record that it began, however long that takes."""
    path, server.tls = ca
    proxy_authority, context = certificates()
    with path.open("ab") as authorities:
        authorities.write(proxy_authority.cert_pem.bytes())
    with Server(tunnel([], server.port, pause=0.8), tls=context) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        data = frame(16)
        with through("https://service.test", path) as client:
            client.create_table("t", data, compression=None)
    assert pa.ipc.open_stream(server.posts[0].body).read_all() == data


def silent(connection: Connection) -> None:
    connection.head()
    connection.sock.settimeout(60)
    connection.sock.recv(1)


def drip(connection: Connection) -> None:
    connection.head()
    connection.sock.sendall(b"HTTP/1.1 200 Connection established\r\n")
    for _ in range(600):
        connection.sock.sendall(b"x: y\r\n")
        time.sleep(0.1)


def refuse(status: str):
    return lambda connection: (
        connection.head(),
        connection.sock.sendall(f"HTTP/1.1 {status}\r\n\r\n".encode()),
    )


PROXIES = {
    "none": (None, "refused", 2),
    "silent": (silent, "timed out", 2),
    "dripping": (drip, "(timed out|in time)", 2),
    "a login": (
        refuse("407 Proxy Authentication Required"),
        "407.*HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT",
        1,
    ),
    "no": (refuse("403 Forbidden"), "403 Forbidden", 1),
    "odd": (refuse("403 \x1b[2JNo\rway"), r"403 \\x1b\[2JNo\\rway", 1),
    "down": (refuse("502 Bad Gateway"), "502 Bad Gateway", 2),
}


@pytest.mark.parametrize(
    ("form", "scheme"), [*((form, "http") for form in PROXIES), ("a login", "https")]
)
def test_F40_a_proxy_that_lets_nothing_through_is_named(
    ca, monkeypatch, caplog, form, scheme
):
    script, told, attempts = PROXIES[form]
    path, context = ca
    with (
        Server(script, tls=context if scheme == "https" else None) as proxy,
        socket.socket() as nobody,
    ):
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        port = proxy.port if script is not None else nobody.getsockname()[1]
        monkeypatch.setenv(
            "HTTPS_PROXY", f"{scheme}://somebody:pass-word@127.0.0.1:{port}"
        )
        client = through("https://service.test", path, timeout=0.3, retries=1)
        start = time.monotonic()
        error = fails(
            lambda: client.create_table("t", frame(1)),
            errors.ConnectError,
            caplog,
            f"(?s)127.0.0.1:{port} for https://service.test.*{told}",
        )
        assert error.attempts == attempts
        assert "nothing was sent" in str(error)
        assert "pass-word" not in str(error) + caplog.text
        # a duration, since timeouts are tested: a proxy goes on for a minute
        assert time.monotonic() - start < 20
        assert all(KEY.encode() not in request.head for request in proxy.requests)


def test_F40_a_proxy_that_is_no_url_is_named_without_its_password(monkeypatch, caplog):
    odd = (
        "http://u:{}@proxy:99999",
        "u:{}@proxy:99999",
        "http://u:{}/x@proxy",
        "http://u:{}@",
        "http://u:{}@[::1",
    )
    for proxy in odd:
        monkeypatch.setenv("HTTPS_PROXY", proxy.format("pass-word"))
        error = fails(
            through("https://service.test", True).list_tables,
            errors.ConnectError,
            caplog,
            "not a URL",
        )
        assert "nothing was sent" in str(error)
        assert "pass-word" not in str(error) + caplog.text


def test_F40_a_proxy_whose_certificate_nobody_vouches_for_is_named(monkeypatch, caplog):
    with Server(tls=certificates()[1]) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        client = through("https://service.test", True, timeout=1, retries=2)
        told = f"the certificate of proxy 127.0.0.1:{proxy.port}.*REQUESTS_CA_BUNDLE"
        assert fails(client.list_tables, errors.TLSError, caplog, told).attempts == 1


def test_F34_a_bad_key_is_refused_before_anything_is_sent_and_not_repeated(
    server, monkeypatch
):
    for key in ("", "k\n", " k", "k k", "é", "k\x00", 3):
        with pytest.raises(ValueError, match="api_key") as error:
            rt.connect(server.url, api_key=key)
        assert repr(key) not in str(error.value)
    monkeypatch.setenv("RT_FRAMES_API_KEY", "")
    with pytest.raises(errors.NotConnectedError, match="key"):
        rt.connect(server.url)
    assert server.connections == 0


SMALL = pa.table({"a": [1]})
NAMES = [
    *("t", "~x", "-", "@", " ", "a b", "é", "名", "x" * 255),
    *("...", "..a", "a..", "a.b"),
    *("50%", "a%20b", "a?b#c", "+", "a+b&c=d", "'\"<>", "a;b", "a:b"),
]


def test_F35_every_name_arrives_as_it_is(remote, server):
    for name in NAMES:
        remote.create_table(name, SMALL)
        remote.table(name).rename({"a": "b"})
        quoted = quote(name, safe="")
        assert [r.path for r in server.requests[-2:]] == [
            f"/v1/tables/{quoted}",
            f"/v1/table/{quoted}/alter_columns",
        ]
        assert re.fullmatch(r"[A-Za-z0-9%._~-]+", quoted)


NO_NAMES = [
    *("", ".", ".."),
    *("a\nb", "\r\n", "\x00", "\x7f", "\ud800", "\udcff", "é" * 128, "x" * 256),
    *(3, None),
]
ELSEWHERE = [
    *("../table/sales/drop", "a/b", "/", "a\\b", "..\\sales"),
    *("..%2Fsales", "a%5cb", "%2e"),
]
READ_OTHERWISE = ["a$b", "a b", "é", "x" * 129, "a:b"]  # by servers of that family


@pytest.mark.parametrize(
    ("path", "name", "folder"),
    [
        ("./tables/sales", "sales", "./tables"),
        ("../sales", "sales", ".."),
        ("/data/tables/sales.lance", "sales", "/data/tables"),
        ("/sales", "sales", "/"),
        ("~/tables/sales", "sales", "~/tables"),
        (r"C:\tables\sales", "sales", "C:/tables"),
        ("./tables%2Fsales", "sales", "./tables"),
    ],
)
def test_a_path_in_the_place_of_a_name_is_taken_apart(client, path, name, folder):
    with pytest.raises(ValueError, match="expected a name, not a path") as refused:
        client.create_table(path, SMALL)
    cure = f"; pass '{name}' alone, and name the folder in rt.connect('{folder}')"
    assert str(refused.value).endswith(cure)


@pytest.mark.parametrize(
    ("dialect", "more"), [("documented", []), ("lancedb", READ_OTHERWISE)]
)
def test_F35_a_name_that_no_address_carries_or_that_may_lead_elsewhere_is_never_sent(
    server, dialect, more
):
    client = patient(server, dialect=dialect)
    calls = [
        lambda name: client.create_table(name, SMALL, if_exists="skip"),
        client.table,
        lambda name: client.alter_columns(name, {"path": "a", "rename": "b"}),
        lambda name: rt.RemoteTable(name, client).rename({"a": "b"}),
    ]
    for name, call in itertools.product([*NO_NAMES, *ELSEWHERE, *more], calls):
        with pytest.raises((ValueError, TypeError), match="name: ") as error:
            call(name)
        assert name not in NO_NAMES[3:-2] or name not in str(error.value)
    assert server.connections == 0
