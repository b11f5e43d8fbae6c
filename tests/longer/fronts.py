"""nginx, Apache, haproxy and squid in front of the development server.

It runs those that are installed, each on its own ports, and sends through each: creates
of every kind, lists and alters, early refusals, hints, bodies over a limit, connections
that close after a second, and reloads during all of it. Every table is stored once and
complete, every refusal has its class, "safe to send again" is true, and no file of a
front has the key. On Debian: ``apt-get install nginx-light apache2 haproxy squid``.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
import trustme

import rt_frames as rt
from tests.support.local import Process, logged
from tests.support.servers import KEY

# only squid resolves it: the client uses no proxy for this machine
HOST = "service.test"
LIMIT = 2**20
BIG = pa.table({"n": np.arange(2**19)})
SIZES = [10, 10, 10, 50_000, 300_000]  # rows
NGINX = """
user root; worker_processes 2; daemon off;
pid {folder}/nginx.pid; error_log {folder}/error.log info;
events {{ }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  client_max_body_size 0; proxy_http_version 1.1; proxy_set_header X-Request-ID $request_id;
  ssl_certificate {cert}; ssl_certificate_key {cert};
  server {{ listen 127.0.0.1:{plain}; location / {{ proxy_pass {service}; }} }}
  server {{
    listen 127.0.0.1:{tls} ssl; proxy_request_buffering off;
    location / {{ proxy_pass {service}; }}
  }}
  server {{
    listen 127.0.0.1:{limit}; client_max_body_size {most};
    location / {{ proxy_pass {service}; }}
  }}
  server {{ listen 127.0.0.1:{idle}; keepalive_timeout 1s; location / {{ proxy_pass {service}; }} }}
  server {{ listen 127.0.0.1:{decoding}; location / {{ proxy_pass {service}/; }} }}
  server {{ listen 127.0.0.1:{below}; location /api/ {{ proxy_pass {service}/; }} }}
}}
"""
APACHE = """
ServerName 127.0.0.1
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
DefaultRuntimeDir {folder}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
Listen 127.0.0.1:{plain}
Listen 127.0.0.1:{decoding}
<VirtualHost 127.0.0.1:{plain}>
  AllowEncodedSlashes NoDecode
  ProxyPass / {service}/ nocanon
</VirtualHost>
<VirtualHost 127.0.0.1:{decoding}>
  AllowEncodedSlashes On
  ProxyPass / {service}/
</VirtualHost>
"""
HAPROXY = """
global
  log stdout format raw local0
defaults
  mode http
  log global
  option httplog
  timeout connect 5s
  timeout client 30s
  timeout server 30s
  default_backend service
frontend plain
  bind 127.0.0.1:{plain}
frontend tls
  bind 127.0.0.1:{tls} ssl crt {cert}
frontend hints
  bind 127.0.0.1:{hints}
  http-request early-hint Link "</style.css>; rel=preload"
frontend limit
  bind 127.0.0.1:{limit}
  acl large req.hdr_val(content-length) gt {most}
  acl chunked req.hdr(transfer-encoding) -m found
  http-request deny deny_status 413 if large or chunked
frontend idle
  bind 127.0.0.1:{idle}
  timeout http-keep-alive 1s
backend service
  http-request set-header Host {address}
  server one {address}
"""
SQUID = """
http_port 127.0.0.1:{proxy}
http_access allow all
hosts_file {folder}/hosts
pid_filename {folder}/squid.pid
access_log stdio:{folder}/access.log
cache_log {folder}/cache.log
cache deny all
coredump_dir {folder}
shutdown_lifetime 1 seconds
"""
# table names that change if an address is decoded twice, or its dots resolved
NAMES = [
    *("a.b", ".hidden", "..", ".", "a..b", "%2e%2e", "%2E", "x/../kept"),
    *("%", "a b", "a%20b", "a%2520b", "ä", "日本", "a+b", "a&b=c"),
    *("a/b", "a%2Fb", "a%252Fb", "a\\b", "../table/kept/drop"),
    *("kept/", "kept%2F", "/kept", "kept%00", "kep%74", " kept", "kept ", "KEPT"),
    *("kept?", "kept?mode=overwrite", "kept#", "kept;x", "kept%3F", "kept%23"),
]


class Front(NamedTuple):
    """How to start a front in the foreground and reload it, and its ports."""

    config: str
    arguments: str
    doors: str
    reload: signal.Signals


FRONTS = {
    "nginx": Front(
        NGINX,
        "-e {folder}/start.log -c",
        "plain tls limit idle decoding below",
        signal.SIGHUP,
    ),
    "apache2": Front(APACHE, "-D FOREGROUND -f", "plain decoding", signal.SIGUSR1),
    "haproxy": Front(
        HAPROXY, "-W -db -f", "plain tls limit idle hints", signal.SIGUSR2
    ),
    "squid": Front(SQUID, "-N -f", "proxy", signal.SIGHUP),
}


def binary(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


@contextlib.contextmanager
def started(
    name: str, place: Path, service: str
) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    """Start a front in its own folder, and yield the addresses of its ports."""
    front = FRONTS[name]
    folder = place / f"{name}-front"
    folder.mkdir()
    folder.chmod(0o777)  # for fronts that give up root
    (folder / "hosts").write_text(f"127.0.0.1 {HOST}\n")
    with contextlib.ExitStack() as free:
        taken = {
            door: free.enter_context(socket.create_server(("127.0.0.1", 0)))
            for door in front.doors.split()
        }
        ports = {door: listener.getsockname()[1] for door, listener in taken.items()}
    known = {
        "service": service,
        "address": urlsplit(service).netloc,
        "cert": place / "cert.pem",
        "most": LIMIT,
    }
    (folder / "config").write_text(front.config.format(folder=folder, **known, **ports))
    command = [
        binary(name),
        *front.arguments.format(folder=folder).split(),
        str(folder / "config"),
    ]
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=printed)
    try:
        for port in ports.values():
            wait_for(port, process, folder / "printed")
        schemes = {"tls": "https"}
        paths = {"below": "/api"}
        yield (
            process,
            {
                door: f"{schemes.get(door, 'http')}://127.0.0.1:{port}{paths.get(door, '')}"
                for door, port in ports.items()
            },
        )
    finally:
        process.terminate()
        process.wait(30)


def wait_for(port: int, process: subprocess.Popen[bytes], printed: Path) -> None:
    for _ in range(300):
        assert process.poll() is None, printed.read_text()
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 1),
        ):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens on {port}: {printed.read_text()}")


class Opened(NamedTuple):
    """A service behind a front: its addresses, and the front's reload."""

    service: Process
    doors: dict[str, str]
    reload: Callable[[], None]
    authority: Path

    def connect(self, door: str, **options: Any) -> rt.Client:
        return rt.connect(
            self.doors[door],
            **{"api_key": KEY, "default": False, "verify": self.authority, **options},
        )


@contextlib.contextmanager
def opened(name: str) -> Iterator[Opened]:
    """Start a service and a front, and check that no file of it has the key."""
    with tempfile.TemporaryDirectory() as folder, logged():
        place = Path(folder)
        authority = trustme.CA()
        place.chmod(0o711)  # for fronts that give up root
        authority.cert_pem.write_to_path(place / "ca.pem")
        authority.issue_cert(
            "127.0.0.1", HOST
        ).private_key_and_cert_chain_pem.write_to_path(place / "cert.pem")
        with contextlib.ExitStack() as stack:
            service = stack.enter_context(Process(place / "tables"))
            process, doors = stack.enter_context(
                started(name, place, service.caller.url)
            )
            # squid connects to the port that speaks TLS
            if proxy := doors.pop("proxy", None):
                behind = next(other for other in ("haproxy", "nginx") if binary(other))
                _, inner = stack.enter_context(
                    started(behind, place, service.caller.url)
                )
                doors["tunnel"] = inner["tls"].replace("127.0.0.1", HOST)
                environment = stack.enter_context(pytest.MonkeyPatch.context())
                environment.setenv("HTTPS_PROXY", proxy)
                environment.setenv("NO_PROXY", "")
            yield Opened(
                service,
                doors,
                lambda: process.send_signal(FRONTS[name].reload),
                place / "ca.pem",
            )
        for path in place.glob("*-front/**/*"):
            assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


class Visitor:
    """Calls the service through each port, and records what must be stored."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.counts = Counter[str]()
        self.number = 0
        self.stored: set[str] = set()
        self.open: set[str] = set()  # tables whose outcome is unknown

    def table(self, rows: int) -> tuple[str, pa.Table]:
        self.number += 1
        return f"t{self.number}", pa.table({"n": np.arange(rows) + self.number})

    def create(self, client: rt.Client, door: str, *, calm: bool = True) -> None:
        """Create a table. During a reload of the front, errors must be true."""
        name, data = self.table(self.draw.choice(SIZES))
        again = self.draw.random() < 0.5
        rows = data if again else iter(data.to_batches(max_chunksize=40_000))
        try:
            client.create_table(
                name, rows, compression=self.draw.choice(["auto", None, "zstd"])
            )
        except (rt.errors.TransportError, rt.errors.ServerError) as error:
            if calm:
                raise
            self.counts[f"{door}: {type(error).__name__}"] += 1
            if "nothing was sent" in str(error):
                return
            if "safe to send again" not in str(error):
                self.open.add(name)
                return
            client.create_table(name, data)
        self.stored.add(name)
        self.counts[f"{door}: created"] += 1

    def refused(
        self, kind: type[rt.errors.RemoteError], door: str, call: Callable[[], object]
    ) -> None:
        with pytest.raises(kind) as raised:
            call()
        assert raised.type is kind
        self.counts[f"{door}: {kind.__name__}"] += 1

    def visit(self, opened: Opened, door: str, creates: int) -> None:
        """Make all calls through one port: create, list, alter, and refusals."""
        with (
            opened.connect(door) as client,
            opened.connect(door, api_key="wrong") as stranger,
        ):
            for turn in range(creates):
                if door == "limit":
                    self.meet_limit(client, door)
                else:
                    self.create(client, door)
                if door == "idle" and turn % 5 == 0:
                    time.sleep(self.draw.uniform(0.95, 1.05))
                if turn % 5 != 4 or door == "limit":
                    continue
                name = self.draw.choice(sorted(self.stored))
                assert self.stored <= set(client.list_tables())
                client.table(name).set_nullable({"n": True})
                self.refused(
                    rt.errors.TableExistsError,
                    door,
                    lambda name=name: client.create_table(name, BIG),
                )
                self.refused(
                    rt.errors.TableNotFoundError,
                    door,
                    lambda: client.table("nowhere").rename({"a": "b"}),
                )
                self.refused(
                    rt.errors.AuthenticationError,
                    door,
                    lambda: stranger.create_table("strange", BIG),
                )

    def meet_limit(self, client: rt.Client, door: str) -> None:
        name, data = self.table(2 * LIMIT // 8)
        self.refused(
            rt.errors.PayloadTooLarge, door, lambda: client.create_table(name, data)
        )
        name, few = self.table(10)
        client.create_table(name, few)
        self.stored.add(name)

    def visit_reloaded(self, opened: Opened, door: str, creates: int) -> None:
        """Create tables while the front reloads its configuration repeatedly."""
        ended = threading.Event()

        def reload_often() -> None:
            # squid accepts no connection for a second each time
            while not ended.wait(self.draw.uniform(0.2, 3)):
                opened.reload()

        thread = threading.Thread(target=reload_often)
        thread.start()
        try:
            with opened.connect(door, retries=6) as client:
                for _ in range(creates):
                    self.create(client, f"{door}, reloaded", calm=False)
        finally:
            ended.set()
            thread.join()

    def check(self, service: Process) -> None:
        """Read every table back."""
        tables = service.tables()
        assert self.stored <= tables.keys() <= self.stored | self.open
        for name, dataset in tables.items():
            found = dataset.to_table()["n"].to_numpy()
            assert np.array_equal(found, np.arange(len(found)) + int(name[1:])), name
            assert len(found) in SIZES, name


def run(creates: int, seed: int) -> Counter[str]:
    """Run every front that is installed, and return what happened at each."""
    counts = Counter[str]()
    for name in filter(binary, FRONTS):
        with opened(name) as one:
            visitor = Visitor(seed)
            for door in one.doors:
                visitor.visit(one, door, creates * 2 // 3 // len(one.doors) + 1)
            visitor.visit_reloaded(one, door, creates // 3)
            visitor.check(one.service)
        counts += Counter(
            {f"{name} {what}": many for what, many in visitor.counts.items()}
        )
    return counts


def run_names(_count: int = 0, _seed: int = 0) -> Counter[str]:
    """Create tables with tricky names through every port of plain HTTP.

    Each name is its own table, or is refused.
    """
    counts = Counter[str]()
    for front in filter(binary, ["nginx", "apache2", "haproxy"]):
        with opened(front) as one:
            for door in one.doors.keys() - {"tls"}:
                with one.connect(door) as client:
                    client.create_table(
                        "kept", pa.table({"x": ["kept"]}), if_exists="skip"
                    )
                    stored = {
                        "kept",
                        *(name for name in NAMES if takes_name(client, name)),
                    }
                    counts[f"{front} {door}: done"] = len(stored) - 1
                tables = one.service.tables()
                assert {
                    name: tables[name].to_table().to_pydict() for name in tables
                } == {n: {"x": [n]} for n in stored}
                assert tables["kept"].version == 1
                for name in stored - {"kept"}:
                    shutil.rmtree(one.service.root / f"{name}.lance")
    return counts


def takes_name(client: rt.Client, name: str) -> bool:
    """Create and alter a table of this name, and return whether that was done."""
    try:
        client.create_table(name, pa.table({"x": [name]}))
        done = True
    except (ValueError, rt.errors.ResponseError):
        done = False
    with (
        contextlib.nullcontext()
        if done
        else pytest.raises((ValueError, rt.errors.ResponseError))
    ):
        client.table(name).rename({"x": "y"}).rename({"y": "x"})
    return done
