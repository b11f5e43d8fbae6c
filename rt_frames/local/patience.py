"""How long a request waits for locks, and whether its caller still wants it.

Both belong to the thread that carries the request out, in `waiting`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar

from rt_frames.local.http_error import HTTPError


class Patience:
    """The patience of one caller.

    Parameters
    ----------
    seconds : float
        How long the request waits for a lock.

    Attributes
    ----------
    is_over : bool
        Whether the caller was interrupted; another thread sets it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self.is_over = False

    def check(self) -> None:
        """Raise 503 if the caller was interrupted, so that nothing is committed."""
        if self.is_over:
            raise HTTPError(503, "the call was interrupted; nothing was changed")

    def wait(self, pause: float) -> None:
        """Wait for a lock. Raise 503 after an interrupt, or if it takes too long."""
        self.check()
        if time.monotonic() > self._deadline:
            raise HTTPError(
                503,
                f"somebody else has locked the table for {self._seconds:g} s; nothing was "
                "changed; try again later",
            )
        time.sleep(pause)


_current: ContextVar[Patience] = ContextVar("patience")


@contextlib.contextmanager
def waiting(patience: Patience) -> Iterator[None]:
    """Let the requests of the block have this patience."""
    token = _current.set(patience)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Patience:
    """Return the patience of the request that this thread carries out."""
    return _current.get()
