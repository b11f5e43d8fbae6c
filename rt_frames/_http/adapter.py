"""requests' session over our connections: two adapters, one that keeps connections and one that never does."""

from __future__ import annotations

import socket
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from rt_frames._http.connection import FreshManners, Manners

if TYPE_CHECKING:
    from collections.abc import Iterable


class _TLSManners(Manners, HTTPSConnection):
    pass


class _FreshTLSManners(FreshManners, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls: Any = Manners


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls: Any = _TLSManners


class _FreshPool(HTTPConnectionPool):
    ConnectionCls: Any = FreshManners


class _FreshTLSPool(HTTPSConnectionPool):
    ConnectionCls: Any = _FreshTLSManners


_NO_DELAY = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), 60) for name in ("TCP_KEEPIDLE",) if hasattr(socket, name)),
]


class Adapter(HTTPAdapter):
    """requests' adapter over these connections; it never repeats anything by itself.

    Parameters
    ----------
    fresh : bool
        Whether every request opens a connection of its own.
    """

    def __init__(self, *, fresh: bool) -> None:
        self._pools = {"http": _FreshPool, "https": _FreshTLSPool} if fresh else {"http": _Pool, "https": _TLSPool}
        super().__init__(max_retries=0, pool_maxsize=64)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        options["socket_options"] = [*_NO_DELAY, *_KEEP_ALIVE]
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = self._pools
        return manager


class _Session(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002  # requests' own name
        """Follow nothing: requests would read the whole body of a redirect even where it must not follow."""
        return None


def open_session(fresh: Iterable[str]) -> requests.Session:
    """Open a session without cookies, netrc and environment; addresses under ``fresh`` are never pooled."""
    session = _Session()
    session.trust_env = False
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    for prefix in ("http://", "https://"):
        session.mount(prefix, Adapter(fresh=False))
    for prefix in fresh:
        session.mount(prefix, Adapter(fresh=True))
    return session
