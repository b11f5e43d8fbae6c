"""The service at a URL, with a key, which no pickle has."""

from __future__ import annotations

import dataclasses
import hmac
import os
from typing import TYPE_CHECKING, Any

from rt_frames import errors
from rt_frames._http.arguments import (
    ConnectionOptions,
    Key,
    Secret,
    Secrets,
    is_loopback,
    parse_base_url,
)
from rt_frames._http.sockets import SocketTransport
from rt_frames._service.outcome import explain_unusable
from rt_frames._service.service import Service
from rt_frames._stream.compression import LinkMemory

if TYPE_CHECKING:
    from rt_frames._http.session import Session
    from rt_frames._protocol.operations import Dialect


class HostedService(Service):
    """A service, with the parameters of `rt_frames.Client`; pickled without its key."""

    def __init__(
        self,
        url: str,
        key: Key,
        options: ConnectionOptions,
        dialect: Dialect,
        *,
        allow_insecure: bool = False,
    ) -> None:
        base = parse_base_url(url, allow_insecure=allow_insecure)
        key.check()
        self._key = key
        values = options.headers.values()
        hidden = [value for value in values if isinstance(value, Secret)]
        self.is_picklable = not hidden
        self.is_loopback = is_loopback(base)
        self.link = LinkMemory()
        # (salt, fingerprint) of the key, which replace it in pickles
        self._proof: tuple[bytes, bytes] | None = None
        # set if this service was unpickled without its key
        self._unpickle_error = ""
        secrets = Secrets([key, *hidden])
        transport = SocketTransport(base, key, options.verify, secrets)
        super().__init__(transport, options, dialect, secrets)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._proof is None:
            salt = os.urandom(16)
            self._proof = (salt, self._key.fingerprint(salt))
        return _unpickle, (self.url, self._options, self.dialect, *self._proof)

    @property
    def session(self) -> Session:
        if self._proof is not None and not self._unpickle_error:
            salt, fingerprint = self._proof
            # scrypt: takes milliseconds the first time
            if not hmac.compare_digest(self._key.fingerprint(salt), fingerprint):
                self._unpickle_error = explain_unusable(
                    self.url,
                    "RT_FRAMES_API_KEY in this process is not the key that it was made "
                    "with; set the right key here",
                )
        if self._unpickle_error:
            raise errors.NotConnectedError(self._unpickle_error)
        return super().session


def _unpickle(
    url: str,
    options: ConnectionOptions,
    dialect: Dialect,
    salt: bytes,
    fingerprint: bytes,
) -> HostedService:
    """Make a service in another process, whose environment must hold the same key.

    A missing or wrong key is reported on first use: an exception while unpickling
    breaks a process pool, and a scheduler that only passes the service on needs no key.
    """
    key = Key(os.environ.get("RT_FRAMES_API_KEY"))
    problem = ""
    if not key:
        key = Key("none")
        problem = explain_unusable(
            url,
            "keys are not pickled, and RT_FRAMES_API_KEY is not set in this process; "
            "set it here",
        )
    try:
        service = HostedService(url, key, options, dialect, allow_insecure=True)
    except ValueError as error:
        # a missing CA bundle, or an invalid key
        problem = problem or explain_unusable(
            url, f"in this process, {error}; correct this here"
        )
        unverified = dataclasses.replace(options, verify=False)
        service = HostedService(
            url, Key("none"), unverified, dialect, allow_insecure=True
        )
    service._proof = (salt, fingerprint)  # noqa: SLF001  # same module
    service._unpickle_error = problem  # noqa: SLF001  # same module
    return service
