"""The seam between a `Session` and what answers it.

A transport takes the head of a request and its `Upload`, and returns a `Reply`: over
sockets (`sockets.py`), or by a call in this process
(`rt_frames._service.folder`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from rt_frames._http.arguments import Timeouts
from rt_frames._http.upload import Upload
from rt_frames._protocol.arrow_messages import Bytes
from rt_frames._protocol.meanings import Ending


class Head(NamedTuple):
    """The head of a request, and how long its steps may take.

    Parameters
    ----------
    method, path, headers : str, and dict of str to str
        As HTTP has them. The path includes the query.
    timeouts : Timeouts
        For this request.
    is_read : bool
        Whether the request changes nothing.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    timeouts: Timeouts
    is_read: bool


class ReplyError(OSError):
    """A response of which the rest does not come."""


class Reply(Protocol):
    """A response, whose body is read as it arrives."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, whose names are found in any case."""

    def read(self, size: int) -> Bytes:
        """Return at most ``size`` bytes; none at the end. May raise `ReplyError`."""

    def close(self) -> None:
        """Read no more."""


class Transport(Protocol):
    """What answers the requests of a session.

    Attributes
    ----------
    base : str
        The address, or the folder.
    is_certain : bool
        Whether a refusal is the service's own and means that nothing was done: no
        response can be lost, or come from a proxy.
    """

    base: str
    is_certain: bool

    def send(self, head: Head, upload: Upload) -> Reply | Ending:
        """Send a request. Return its reply, or how far it came without one."""

    def close(self) -> None:
        """Close what a later request can open again."""
