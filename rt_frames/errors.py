"""The exceptions of this package, as one tree.

::

    RemoteError                       .table .request_id .rows .attempts .done
    ├── NotConnectedError             no service was configured
    ├── UnsupportedTypeError          also a TypeError: unsupported columns   .columns
    ├── AlterationError               also a ValueError: schemas that do not match
    ├── TransportError                no usable response      .bytes_sent
    │   ├── ConnectError · TLSError   nothing was sent
    │   ├── UploadInterrupted         part was sent           .listed .listed_before
    │   └── OutcomeUnknown            all was sent            .listed .listed_before
    └── ResponseError                 an unsuccessful response   .status .message .body
        │                             .retry_after
        ├── AuthenticationError 401 403 · TableNotFoundError 404 · TableExistsError 409
        ├── ConflictError 409 · PayloadTooLarge 413 · BadRequest 400 422
        ├── RateLimited 429 · RedirectError 3xx
        └── ServerError 5xx and 499 (.listed .listed_before)

A message says what happened, to which table and column, and ends with what to do next.
Every error pickles, and none carries the API key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


class RemoteError(Exception):
    """The base class of every exception of this package.

    Parameters
    ----------
    text : str
        What happened and what to do next.
    **facts
        Values of the class's attributes, such as ``table="sales"``.

    Attributes
    ----------
    table : str or None
        The table that was being created or altered.
    request_id : str or None
        The ``x-request-id`` that was sent, the same on every attempt of one call.
    rows : int or None
        Rows of the frame, if known.
    attempts : int
        Number of attempts to send the request.
    done : str
        What the call had changed before, in commits of its own; "" if nothing.

    Examples
    --------
    >>> import rt_frames as rt
    >>> try:
    ...     rt.connect(default=False).table("nowhere").rename({"a": "b"})
    ... except rt.errors.RemoteError as error:
    ...     print(type(error).__name__, error.table, error.attempts)
    TableNotFoundError nowhere 1
    """

    table: str | None = None
    request_id: str | None = None
    rows: int | None = None
    attempts: int = 0
    done: str = ""

    def __init__(self, text: str, **facts: Any) -> None:
        super().__init__(text)
        self.add(**facts)

    def add(self, **facts: Any) -> None:
        """Set attributes that only the caller knows."""
        for name, value in facts.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no attribute {name!r}")
            setattr(self, name, value)


class NotConnectedError(RemoteError):
    """No service, or no API key, is configured by ``connect`` or the environment."""


class UnsupportedTypeError(RemoteError, TypeError):
    """A column's type is not supported.

    The message names the column, and the type to cast it to.

    Attributes
    ----------
    columns : tuple of str
        Every column that cannot be sent.
    """

    columns: tuple[str, ...] = ()


class AlterationError(RemoteError, ValueError):
    """The schemas do not match, or a cast may change values.

    The message shows the arguments to pass.
    """


@contextlib.contextmanager
def about(table: str) -> Iterator[None]:
    """Add the table's name to column errors raised in this block."""
    try:
        yield
    except (UnsupportedTypeError, AlterationError) as error:
        error.add(table=table)
        raise


class _Outcome:
    listed: bool | None = None
    listed_before: bool | None = None


class TransportError(RemoteError):
    """No usable response arrived.

    Attributes
    ----------
    bytes_sent : int
        Bytes of the request's body that were written to the socket.
    """

    bytes_sent: int = 0


class ConnectError(TransportError):
    """The connection failed, and nothing was sent."""


class TLSError(TransportError):
    """The server's certificate was not accepted, and nothing was sent."""


class UploadInterrupted(_Outcome, TransportError):
    """The connection failed after part of the body was sent.

    Attributes
    ----------
    listed, listed_before : bool or None
        Whether the table was listed after the failure, and before the upload; None if
        unknown.
    """


class OutcomeUnknown(_Outcome, TransportError):
    """The request may have taken effect, but no response confirmed it.

    Attributes
    ----------
    listed, listed_before : bool or None
        Whether the table was listed after the failure, and before the upload; None if
        unknown.
    """


class ResponseError(RemoteError):
    """The service answered with a status other than success.

    Attributes
    ----------
    status : int
        The HTTP status.
    message : str
        The service's own message, shortened.
    body : str
        The start of the response's body.
    retry_after : float or None
        Seconds to wait, from the service's Retry-After header; None without one.
    """

    status: int = 0
    message: str = ""
    body: str = ""
    retry_after: float | None = None


class AuthenticationError(ResponseError):
    """401 or 403: the API key was not accepted."""


class TableNotFoundError(ResponseError):
    """404 for a table: it does not exist."""


class TableExistsError(ResponseError):
    """409, or 400 with such a message: the table exists already."""


class ConflictError(ResponseError):
    """409 on a change: somebody else changed the table at the same time."""


class PayloadTooLarge(ResponseError):
    """413: the service does not accept a body of that size."""


class BadRequest(ResponseError):
    """400 or 422: the service refused the request."""


class RateLimited(ResponseError):
    """429: too many requests."""


class RedirectError(ResponseError):
    """3xx: the service has another URL.

    Redirects are never followed, as that would pass on the API key.
    """


class ServerError(_Outcome, ResponseError):
    """5xx or 499: the service, or a proxy before it, failed, perhaps after acting.

    Only 501, 505, 507 and 511 guarantee that nothing was stored.

    Attributes
    ----------
    listed, listed_before : bool or None
        Whether the table was listed after the failure, and before the upload; None if
        unknown.
    """


__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]  # every class above
    name
    for name, kind in globals().items()
    if isinstance(kind, type) and issubclass(kind, RemoteError)
]


# for tab completion
def __dir__() -> list[str]:
    return __all__
