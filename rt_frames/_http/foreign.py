"""Tell exceptions of signal handlers from those of the network.

A handler runs within a call of a socket, and its TimeoutError or OSError comes out of
that call. It is not the network's, so it must reach the caller.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator

# packages that raise errors of sockets; gevent and eventlet may have replaced
# the sockets
_OF_THE_NETWORK = frozenset(
    [
        "rt_frames",
        "requests",
        "urllib3",
        "http",
        "email",
        "socket",
        "ssl",
        "selectors",
        "encodings",
        "contextlib",
        "pyarrow",
        "socks",
        "gevent",
        "eventlet",
    ]
)


def raise_foreign(error: BaseException) -> None:
    """Raise what a signal handler raised, if that is the error, or its cause."""
    foreign = find_foreign(error)
    if foreign is not None:
        raise foreign


def find_foreign(error: BaseException) -> BaseException | None:
    """Return what a signal handler raised, if that is the error, or its cause."""
    # the last: urllib3 raises its own error with the traceback of its cause (2.8)
    foreign = None
    for cause in iter_causes(error):
        if not all(_list_places(cause)):
            foreign = cause
    return foreign


def _list_places(error: BaseException) -> list[bool]:
    """Return for each frame of a traceback whether it is of the network."""
    places = []
    for frame, _ in traceback.walk_tb(error.__traceback__):
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        places.append(package in _OF_THE_NETWORK)
    return places


def iter_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Walk from an error to its cause through those of requests and urllib3."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        places = _list_places(error)
        # what the caller was handling when it called us
        if places and not places[0]:
            return
        seen.add(id(error))
        yield error
        error = _find_cause(error)


def _find_cause(error: BaseException) -> BaseException | None:
    candidates = [getattr(error, "reason", None), *error.args]
    candidates.append(error.__cause__)
    if not error.__suppress_context__:
        candidates.append(error.__context__)
    for candidate in candidates:
        if isinstance(candidate, BaseException):
            return candidate
    return None
