from __future__ import annotations

import logging
import shutil

import pytest

from tests.support.local import Caller


@pytest.fixture
def caller(service, caplog):
    """A caller of the service, whose folder is empty; afterwards nothing is staged, and the key was not logged."""
    for path in service.root.glob("[!.]*"):
        shutil.rmtree(path)
    caplog.set_level(logging.DEBUG)
    caller = Caller(service.root, service.url, service.api_key)
    yield caller
    caller.close()
    assert caller.staged() == []
    assert caller.key not in caplog.text
