"""nginx, Apache, haproxy and squid, those that are installed, in front of the embedded service, on ports of their own.

Through each: creates of every kind, lists and alters, early refusals, hints, limits of bodies, connections that are
closed after a second, and reloads in the middle of it all. Every table is stored once and whole, every refusal is of
its class, what is "safe to send again" is, and the key is in no file that they write.

Run: ``python -m tests.longer.fronts [--creates 300] [--seed N]``; Debian has them: ``apt-get install nginx-light
apache2 haproxy squid``.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import trustme

import rt_frames as rt
from tests.support.local import Process, logged
from tests.support.servers import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOST = "service.test"  # known to squid alone: the client goes to this machine without a proxy
LIMIT = 2**20
NGINX = """
user root; worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/error.log info; daemon off;
events {{ }}
http {{
  access_log {folder}/access.log; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  client_max_body_size 0; proxy_http_version 1.1;
  ssl_certificate {cert}; ssl_certificate_key {cert};
  server {{ listen 127.0.0.1:{plain}; location / {{ proxy_pass {service}; }} }}
  server {{ listen 127.0.0.1:{tls} ssl; location / {{ proxy_pass {service}; proxy_request_buffering off; }} }}
  server {{ listen 127.0.0.1:{limit}; client_max_body_size {most}; location / {{ proxy_pass {service}; }} }}
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
# as names of tables, for what decodes an address once more, or resolves the dots in it
NAMES = [
    *[
        "a.b",
        ".hidden",
        "a b",
        "%",
        "a%20b",
        "a%2520b",
        "%2e%2e",
        "%2E",
        "..",
        ".",
        "a..b",
        "ä",
        "日本",
        "a+b",
        "a&b=c",
    ],
    *["a/b", "a%2Fb", "a%252Fb", "a\\b", "../table/kept/drop", "x/../kept", "kept/", "kept%2F", "/kept", "kept%00"],
    *["kept?", "kept?mode=overwrite", "kept#", "kept;x", "kept%3F", "kept%23", "kep%74", " kept", "kept ", "KEPT"],
]
# how each is started in the foreground and told to read its configuration again, and what it has
FRONTS: dict[str, tuple[str, list[str], signal.Signals, list[str]]] = {
    "nginx": (
        NGINX,
        ["-e", "{folder}/start.log", "-c"],
        signal.SIGHUP,
        ["plain", "tls", "limit", "idle", "decoding", "below"],
    ),
    "apache2": (APACHE, ["-D", "FOREGROUND", "-f"], signal.SIGUSR1, ["plain", "decoding"]),
    "haproxy": (HAPROXY, ["-W", "-db", "-f"], signal.SIGUSR2, ["plain", "tls", "limit", "idle", "hints"]),
    "squid": (SQUID, ["-N", "-f"], signal.SIGHUP, ["proxy"]),
}


def binary(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


def free_ports(names: list[str]) -> dict[str, int]:
    with contextlib.ExitStack() as stack:
        taken = {name: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for name in names}
        return {name: listener.getsockname()[1] for name, listener in taken.items()}


@contextlib.contextmanager
def front(name: str, folder: Path, **known: object) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, int]]]:
    """Start one in a folder of its own; its ports answer."""
    template, arguments, _, doors = FRONTS[name]
    folder.mkdir()
    folder.chmod(0o777)  # for those that give up root
    (folder / "hosts").write_text(f"127.0.0.1 {HOST}\n")
    ports = free_ports(doors)
    config = folder / "config"
    config.write_text(template.format(folder=folder, most=LIMIT, **ports, **known))
    command = [binary(name), *(part.format(folder=folder) for part in arguments), str(config)]
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=printed)
        try:
            for port in ports.values():
                wait_for(port, process, folder)
            yield process, ports
        finally:
            process.terminate()
            process.wait(30)


def wait_for(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    for _ in range(300):
        assert process.poll() is None, (folder / "printed").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens on {port}: {(folder / 'printed').read_text()}")


@dataclass
class Visitor:
    """Calls the service through one door after the other, and keeps count of what must be stored."""

    root: Path
    random: random.Random
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    stored: dict[str, int] = field(default_factory=dict)  # the tables, by what is in them
    open: set[str] = field(default_factory=set)  # of which nobody knows
    number: int = 0

    def table(self, rows: int) -> tuple[str, pa.Table]:
        self.number += 1
        return f"t{self.number}", pa.table({"n": np.arange(rows) + self.number})

    def create(self, client: rt.Client, door: str, *, calm: bool = True) -> None:
        """Create a table; where the front is reloaded meanwhile, what fails must say truly how."""
        name, data = self.table(self.random.choice([10, 10, 10, 50_000, 300_000]))
        form: Callable[[], Any] = self.random.choice(
            [lambda: data, lambda: iter(data.to_batches(max_chunksize=40_000))]
        )
        try:
            client.create_table(name, form(), compression=self.random.choice(["auto", None, "zstd"]))
        except (rt.errors.TransportError, rt.errors.ServerError) as error:
            if calm:
                raise
            self.counts[f"{door}: {type(error).__name__}"] += 1
            if "nothing was sent" in str(error):
                return
            if "safe to send again" not in str(error):
                self.open.add(name)
                return
            client.create_table(name, form())
        self.stored[name] = self.number
        self.counts[f"{door}: created"] += 1

    def rest(self, client: rt.Client, stranger: rt.Client, door: str) -> None:
        """List, alter, and be refused."""
        name = self.random.choice(list(self.stored))
        assert set(self.stored) <= set(client.list_tables())
        altered = client.table(name).set_nullable({"n": True})
        assert altered.name == name
        self.refused(rt.errors.TableExistsError, door, lambda: client.create_table(name, pa.table({"n": [1]})))
        self.refused(rt.errors.TableNotFoundError, door, lambda: client.table("nowhere").rename({"a": "b"}))
        big = pa.table({"n": np.arange(2**19)})
        self.refused(rt.errors.AuthenticationError, door, lambda: stranger.create_table("strange", big))
        assert "strange" not in client.list_tables()

    def refused(self, kind: type[rt.errors.RemoteError], door: str, call: Callable[[], object]) -> None:
        try:
            call()
        except rt.errors.RemoteError as error:
            if type(error) is not kind:
                raise
            self.counts[f"{door}: {kind.__name__}"] += 1
        else:
            raise AssertionError(f"{door}: {kind.__name__} was expected")

    def visit(self, door: str, url: str, creates: int, **options: Any) -> None:
        """Do everything through one door."""
        with (
            rt.connect(url, api_key=KEY, default=False, **options) as client,
            rt.connect(url, api_key="wrong", default=False, **options) as stranger,
        ):
            for turn in range(creates):
                if door.endswith("limit"):
                    name, data = self.table(2 * LIMIT // 8)
                    large = functools.partial(client.create_table, name, data)
                    self.refused(rt.errors.PayloadTooLarge, door, large)
                    name, data = self.table(10)
                    client.create_table(name, data)
                    self.stored[name] = self.number
                    continue
                self.create(client, door)
                if turn % 10 == 9:
                    self.rest(client, stranger, door)
                if door.endswith("idle") and turn % 5 == 0:
                    time.sleep(self.random.uniform(0.95, 1.05))

    def visit_reloaded(self, door: str, url: str, creates: int, reload: Callable[[], None], **options: Any) -> None:
        """Create while the front reads its configuration again and again."""
        ended = threading.Event()

        def reload_often() -> None:
            while not ended.wait(self.random.uniform(0.2, 3)):  # squid is deaf for a second each time
                reload()

        thread = threading.Thread(target=reload_often)
        thread.start()
        try:
            with rt.connect(url, api_key=KEY, default=False, retries=6, **options) as client:
                for _ in range(creates):
                    self.create(client, f"{door}, reloaded", calm=False)
        finally:
            ended.set()
            thread.join()

    def check(self, service: Process) -> None:
        """Read every table back."""
        tables = service.tables()
        assert set(self.stored) <= set(tables)
        assert set(tables) <= self.stored.keys() | self.open
        for name, dataset in tables.items():
            found = dataset.to_table()["n"].to_numpy()
            assert np.array_equal(found, np.arange(len(found)) + int(name[1:])), name
            assert len(found) in (10, 50_000, 300_000), name


def run(creates: int, seed: int) -> dict[str, collections.Counter[str]]:
    """Visit every front that is installed; give what happened at each."""
    counts = {}
    installed = [name for name in FRONTS if binary(name)]
    authority = trustme.CA()
    with tempfile.TemporaryDirectory() as place, logged():
        Path(place).chmod(0o711)  # those that give up root go through it
        authority.cert_pem.write_to_path(f"{place}/ca.pem")
        issued = authority.issue_cert("127.0.0.1", HOST)
        issued.private_key_and_cert_chain_pem.write_to_path(f"{place}/cert.pem")
        for name in installed:
            with Process(Path(place) / f"tables of {name}") as service:
                visitor = Visitor(service.root, random.Random(seed))
                visit(name, Path(place), service, visitor, creates)
                visitor.check(service)
                counts[name] = visitor.counts
        for path in Path(place).glob("*-front/**/*"):
            assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    return counts


def address(door: str, port: int) -> str:
    return f"{'https' if door == 'tls' else 'http'}://127.0.0.1:{port}{'/api' if door == 'below' else ''}"


def run_names() -> dict[str, collections.Counter[str]]:
    """Give tables names that may lead elsewhere, through all that speaks plain HTTP: each is its own table, or none."""
    counts: dict[str, collections.Counter[str]] = {}
    for name in ("nginx", "apache2", "haproxy"):
        if not binary(name):
            continue
        with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
            Path(place).chmod(0o711)
            cert = Path(place) / "cert.pem"
            trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(cert)
            service = stack.enter_context(Process(Path(place) / "tables"))
            url = service.caller.url
            known = {"service": url, "address": urlsplit(url).netloc, "cert": cert}
            _, ports = stack.enter_context(front(name, Path(place) / "front", **known))
            for door, port in ports.items():
                if door != "tls":
                    counts[f"{name} {door}"] = _names(address(door, port), service)
    return counts


def _names(url: str, service: Process) -> collections.Counter[str]:
    counts: collections.Counter[str] = collections.Counter()
    stored = {"kept": ["kept"]}
    with rt.connect(url, api_key=KEY, default=False) as client:
        client.create_table("kept", pa.table({"x": stored["kept"]}), if_exists="skip")
        for name in NAMES:
            for call in (
                lambda: client.create_table(name, pa.table({"x": [name]})),  # noqa: B023  # called at once
                lambda: client.table(name).rename({"x": "y"}).rename({"y": "x"}),  # noqa: B023
            ):
                try:
                    call()
                except (ValueError, rt.errors.ResponseError) as error:
                    counts[type(error).__name__] += 1
                else:
                    stored[name] = [name]
                    counts["done"] += 1
        tables = service.tables()
        assert {name: tables[name].to_table().to_pydict() for name in tables} == {
            n: {"x": x} for n, x in stored.items()
        }
        assert tables["kept"].version == 1
        for name in stored.keys() - {"kept"}:
            shutil.rmtree(service.root / f"{name}.lance")
    return counts


def visit(name: str, place: Path, service: Process, visitor: Visitor, creates: int) -> None:
    """Go through all the doors of one front."""
    known = {"service": service.caller.url, "address": urlsplit(service.caller.url).netloc, "cert": place / "cert.pem"}
    with contextlib.ExitStack() as stack:
        process, ports = stack.enter_context(front(name, place / f"{name}-front", **known))
        doors = {door: address(door, port) for door, port in ports.items()}
        if proxy := doors.pop("proxy", None):  # squid goes to what speaks TLS
            behind = next(other for other in ("haproxy", "nginx") if binary(other))
            _, behind_ports = stack.enter_context(front(behind, place / f"{behind}-behind-front", **known))
            doors = {"tunnel": f"https://{HOST}:{behind_ports['tls']}"}
            stack.enter_context(environment(HTTPS_PROXY=proxy, NO_PROXY=""))
        for door, url in doors.items():
            options = {"verify": place / "ca.pem"} if url.startswith("https") else {}
            visitor.visit(f"{name} {door}", url, creates * 2 // 3 // len(doors) + 1, **options)
        door, url = list(doors.items())[-1]
        options = {"verify": place / "ca.pem"} if url.startswith("https") else {}
        _, _, again, _ = FRONTS[name]
        visitor.visit_reloaded(f"{name} {door}", url, creates // 3, lambda: process.send_signal(again), **options)


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--creates", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    for door, counts in run_names().items():
        print(door, dict(counts))
    print(f"seed {options.seed}")
    for name, counts in run(options.creates, options.seed).items():
        print(name, dict(counts))


if __name__ == "__main__":
    main()
