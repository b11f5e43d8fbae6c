from __future__ import annotations

import shutil

import pytest

from tests.support.local import Caller, Process, staged


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("local") / "tables"


@pytest.fixture
def caller(folder):
    """A caller of an empty folder. Afterwards nothing is staged."""
    caller = Caller(folder)
    for path in (*folder.glob("[!.]*"), *staged(folder)):
        shutil.rmtree(path)
    yield caller
    assert caller.staged() == []


@pytest.fixture(scope="session")
def elsewhere(folder):
    """The same folder, served by another process, which is measured and may not die."""
    with Process(folder) as other:
        yield other
        assert other.alive


@pytest.fixture
def other(caller, elsewhere):
    """A caller of that process; the folder is empty."""
    return elsewhere.caller
