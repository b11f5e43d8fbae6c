"""Where a client goes and how: the address, the key, time-outs and retries. What it does there is in `_client`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

from rt_frames import errors
from rt_frames._display import Table, as_html
from rt_frames._http.options import Key, is_loopback, parse_base_url, parse_headers, parse_retries, parse_timeouts
from rt_frames._http.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping


class Endpoint:
    """One project of the service, and the session that talks to it; `Client` documents the parameters."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str,
        timeout: float | tuple[float, float, float] | None = None,
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        verify: bool | str | os.PathLike[str] = True,
        allow_insecure: bool = False,
    ) -> None:
        verify = verify if isinstance(verify, bool) else os.fspath(verify)
        self._options: dict[str, Any] = {
            "timeout": parse_timeouts(timeout),
            "retries": parse_retries(retries),
            "headers": parse_headers(headers),
            "verify": verify,
        }
        self._session = Session(parse_base_url(url, allow_insecure=allow_insecure), Key(api_key), **self._options)
        self._fast = is_loopback(self.url)

    @property
    def url(self) -> str:
        """The service's address.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect("https://words-x1.us-east-1.example.com/", api_key="made-up", default=False).url
        'https://words-x1.us-east-1.example.com'
        """
        return self._session.base

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"Client({str(self)!r})"

    def _repr_html_(self) -> str:
        connect, write, read = self._session.timeouts
        rows = [
            ("timeouts", f"{connect:g} s to connect, {write:g} s for each piece sent, {read:g} s for an answer"),
            ("retries", str(self._session.retries)),
            ("API key", "given, never shown"),
        ]
        return as_html(Table(f"Client of {self}", ("setting", "value"), rows))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_key_from_environment, (type(self), self.url, self._options)

    def close(self) -> None:
        """Close the connections; a call after that opens new ones.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).close()
        """
        self._session.close()


def _with_key_from_environment(kind: type[Endpoint], url: str, options: dict[str, Any]) -> Endpoint:
    """Make a client again in another process; keys are not pickled."""
    key = os.environ.get("RT_FRAMES_API_KEY")
    if not key:
        raise errors.NotConnectedError(
            f"a client of {url} was unpickled, and keys are not pickled; set RT_FRAMES_API_KEY in this process too"
        )
    return kind(url, api_key=key, allow_insecure=True, **options)
