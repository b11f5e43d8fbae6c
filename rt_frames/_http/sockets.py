"""The transport over sockets: one attempt of a request, and how it ended.

It sends through requests' adapter over `connection.py`, and finds proxies and
certificates as requests does.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import ssl
import traceback
from collections.abc import Mapping

import requests
import urllib3
from requests.exceptions import InvalidProxyURL, InvalidSchema
from requests.utils import get_environ_proxies, prepend_scheme_if_needed, select_proxy
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProxyError,
    SSLError,
    URLSchemeUnknown,
)
from urllib3.util import parse_url

from rt_frames._http.arguments import Key, Secrets, find_ca_bundle, is_loopback
from rt_frames._http.connection import Adapter
from rt_frames._http.foreign import find_foreign, iter_causes, raise_foreign
from rt_frames._http.transport import Head, ReplyError
from rt_frames._http.upload import Upload
from rt_frames._protocol.meanings import Ending, How
from rt_frames._text import make_printable, shorten

# bytes of one read of a response
RECEIVE_BYTES = 2**20
_BY_PROXY = (ProxyError, InvalidProxyURL, InvalidSchema, URLSchemeUnknown)
_NEVER_CONNECTED = (NewConnectionError, ConnectTimeoutError, SSLError, *_BY_PROXY)
# the words of http.client, before the rest of a proxy's status
_PROXY_WORDS: tuple[tuple[str, How], ...] = (
    ("Tunnel connection failed: 407", "proxy login"),
    ("Tunnel connection failed: 4", "proxy refused"),
)
# the words of OpenSSL, before and since 3.1
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


class SocketReply:
    """A response of which only the head was read."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    def read(self, size: int) -> bytes:
        """Return what has arrived, with errors in words for people."""
        try:
            return self._response.raw.read1(
                min(size, RECEIVE_BYTES), decode_content=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise_foreign(error)
            if isinstance(error, urllib3.exceptions.ReadTimeoutError):
                raise ReplyError("it did not arrive in time") from None
            raise ReplyError("the connection closed before its end") from None

    def close(self) -> None:
        """Close the connection, if the body was not read to its end."""
        self._response.close()


class SocketTransport:
    """Sends requests to one server.

    Parameters
    ----------
    base : str
        ``https://host[:port]``, without a slash at the end.
    key : Key
        The API key.
    verify : bool or str
        Whether to check the certificate, and with which CA bundle; True lets the
        environment name one.
    secrets : Secrets
        What no error may show.
    """

    # a proxy may answer for the server
    is_certain = False

    def __init__(
        self, base: str, key: Key, verify: bool | str, secrets: Secrets
    ) -> None:
        self.base = base
        self._key = key
        self._secrets = secrets
        self._verify = find_ca_bundle(verify, base)
        # (id of the process, its adapter)
        self._opened: tuple[int, Adapter] | None = None

    def close(self) -> None:
        """Close all connections. The next request opens new ones."""
        opened = self._opened
        self._opened = None
        if opened is not None:
            opened[1].close()

    def send(self, head: Head, upload: Upload) -> SocketReply | Ending:
        """Send the head and body, and read the head of the response."""
        try:
            return self._exchange(head, upload)
        except (OSError, HTTPError, http.client.HTTPException) as error:
            # requests' errors are OSErrors
            if upload.source_error is not None:
                # which the session raises, with its frames
                return Ending("partly sent")
            foreign = find_foreign(error)
            if foreign is None:
                return self._explain(head, upload, error)
        # outside the try, so that the request's error does not become its context
        try:
            raise foreign
        finally:
            # a cycle of error and frame would keep the caller's data alive
            del foreign

    def _exchange(self, head: Head, upload: Upload) -> SocketReply:
        url = self.base + head.path
        prepared = requests.Request(head.method, url, headers=head.headers).prepare()
        if upload.has_body:
            prepared.body = upload  # type: ignore[assignment]  # sent by our own connection
        prepared.headers["x-api-key"] = self._key
        response = self._open_adapter().send(
            prepared,
            stream=True,
            timeout=(head.timeouts.connect, head.timeouts.read),
            verify=self._verify,
            proxies=self._proxies(),
        )
        return SocketReply(response)

    def _open_adapter(self) -> Adapter:
        """Return this process's adapter: a forked child must not share connections."""
        pid = os.getpid()
        opened = self._opened
        if opened is None or opened[0] != pid:
            opened = pid, Adapter(pool_maxsize=64)
            self._opened = opened
        return opened[1]

    def _explain(self, head: Head, upload: Upload, error: BaseException) -> Ending:
        try:
            causes = list(iter_causes(upload.cause or error))
            return self._find_ending(head, upload, causes)
        finally:
            # the frames form a cycle with the error, and keep the caller's data alive
            for cause in iter_causes(error):
                traceback.clear_frames(cause.__traceback__)

    def _find_ending(
        self, head: Head, upload: Upload, causes: list[BaseException]
    ) -> Ending:
        """Return how far a request without a response came."""
        root = causes[-1]
        reason = self._secrets.hide(str(root) or type(root).__name__)
        reason = shorten(make_printable(reason), 200)
        if upload.started:
            how: How = "all sent" if upload.complete else "partly sent"
            return Ending(how, reason, upload.sent, upload.length)
        where = f"{self.base}: {reason}"
        is_proxy = _contains(causes, *_BY_PROXY)
        if is_proxy:
            where = f"proxy {self._proxy()} for {where}"
        if _contains(causes, ssl.SSLCertVerificationError):
            return Ending("certificate", where)
        if is_proxy:
            return Ending(_find_how(reason), where)
        if head.is_read and not _contains(causes, *_NEVER_CONNECTED):
            return Ending("all sent", f"no response from {self.base} ({reason})")
        if any(words in reason for words in _NO_TLS):
            return Ending("no TLS", where)
        return Ending("unsent", where)

    def _proxy(self) -> str:
        """Return the proxy, without user and password."""
        proxy = select_proxy(self.base, get_environ_proxies(self.base)) or ""
        return proxy.rpartition("@")[2].rpartition("://")[2]

    def _proxies(self) -> dict[str, str]:
        """Return the environment's proxies, for https only.

        A proxy could read the key in plain http.
        """
        if is_loopback(self.base) or not self.base.startswith("https:"):
            return {}
        proxies = get_environ_proxies(self.base)
        proxy = select_proxy(self.base, proxies)
        if not proxy:
            return proxies
        # the error would show the proxy's password
        with contextlib.suppress(ValueError, TypeError):
            if parse_url(prepend_scheme_if_needed(proxy, "http")).host:  # type: ignore[no-untyped-call]
                return proxies
        raise InvalidProxyURL("not a URL")


def _find_how(reason: str) -> How:
    """Return how a proxy failed."""
    for words, how in _PROXY_WORDS:
        if words in reason:
            return how
    return "proxy failed"


def _contains(causes: list[BaseException], *classes: type[BaseException]) -> bool:
    return any(isinstance(cause, classes) for cause in causes)
