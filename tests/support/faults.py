"""Checks for every fault test: no key, sources closed, nothing sent twice."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import ssl
import time
import traceback
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
import trustme

import rt_frames as rt
from tests.support.processes import memory, reset_peak
from tests.support.servers import KEY, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 2**20


def frame(mib: int = 8) -> pa.Table:
    """Make a replayable frame of some size."""
    return pa.table({"a": np.arange(mib * 2**17)})


def chain(error: BaseException) -> Iterator[BaseException]:
    """Walk over an error, its causes and its contexts."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [e for e in (one.__cause__, one.__context__) if e is not None]


def assert_no_key(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """Check that neither the error nor the log shows the key."""
    for one in chain(error):
        shown = [
            str(one),
            repr(one),
            "".join(traceback.format_exception(one)),
            repr(one.__dict__),
            *local_variables(one),
        ]
        if isinstance(one, rt.errors.RemoteError):
            again = pickle.loads(pickle.dumps(one))
            assert (type(again), str(again), again.__dict__) == (
                type(one),
                str(one),
                one.__dict__,
            )
            shown.append(pickle.dumps(one).decode("latin-1"))
        assert all(KEY not in text for text in shown), type(one)
    assert KEY not in caplog.text


def local_variables(error: BaseException) -> Iterator[str]:
    """Yield the local variables in an error's traceback, except those of tests."""
    for frame in traceback.TracebackException.from_exception(
        error, capture_locals=True
    ).stack:
        if f"{os.sep}tests{os.sep}" not in frame.filename:
            yield repr(frame.locals)


@contextlib.contextmanager
def in_bounds(seconds: float, mib: int) -> Iterator[None]:
    """Check how long a block takes, and how far memory peaks above its start."""
    gc.collect()
    reset_peak()
    before = memory()
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds
    assert memory("VmHWM") - before < mib * MIB


def fails(
    call: object,
    kind: type[BaseException],
    caplog: pytest.LogCaptureFixture,
    words: str | None = None,
) -> rt.errors.RemoteError:
    """Make a call that must raise one error, and check what always holds."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises(kind, match=words) as raised:
        call()
    assert type(raised.value) is kind
    assert_no_key(raised.value, caplog)
    # what was not closed warns here
    gc.collect(1)
    return raised.value


def certificates(*names: str) -> tuple[trustme.CA, ssl.SSLContext]:
    """Make a CA, and a server's context with a certificate of it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    return authority, context


def patient(server: Server, **options: object) -> rt.Client:
    """Connect to a server, with timeouts for a busy machine."""
    return connected(server, **{"timeout": 20, **options})


def connected(server: Server, **options: object) -> rt.Client:
    """Connect to a server, with short timeouts."""
    return rt.connect(
        server.url, api_key=KEY, **{"timeout": (1, 1, 1), "default": False, **options}
    )
