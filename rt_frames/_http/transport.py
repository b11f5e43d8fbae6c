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
    """A response, whose body is read as it arrives.

    `read` returns at most ``size`` bytes, and none at the end. It raises `ReplyError`
    if the rest does not come. The headers are found in any case.
    """

    status: int
    headers: Mapping[str, str]

    def read(self, size: int) -> Bytes: ...

    def close(self) -> None: ...


class Transport(Protocol):
    """What answers the requests of a session.

    `send` returns the reply to a request, or how far it came without one. `close`
    closes what a later request can open again.

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

    def send(self, head: Head, upload: Upload) -> Reply | Ending: ...

    def close(self) -> None: ...
