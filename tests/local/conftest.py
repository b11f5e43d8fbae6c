from __future__ import annotations

import logging
import shutil

import pytest

from tests.support.local import Caller, Process


@pytest.fixture
def caller(service, caplog):
    """A caller of the service, whose folder is empty.

    Afterwards nothing is staged, and the key was not logged.
    """
    for path in service.root.glob("[!.]*"):
        shutil.rmtree(path)
    caplog.set_level(logging.DEBUG)
    caller = Caller(service.root, service.url, service.api_key)
    yield caller
    caller.close()
    assert caller.staged() == []
    assert caller.key not in caplog.text


@pytest.fixture(scope="session")
def elsewhere(service):
    """The same folder, served by another process, which is measured and may not die."""
    with Process(service.root) as other:
        yield other
        assert other.alive


@pytest.fixture
def other(caller, elsewhere):
    """A caller of that process; the folder is empty."""
    return elsewhere.caller
