"""Choose the service: `connect`, the environment, and the default client.

Environment variables: ``RT_FRAMES_URL``, or ``RT_FRAMES_DB``, ``RT_FRAMES_REGION`` and
``RT_FRAMES_DOMAIN``; ``RT_FRAMES_API_KEY``; ``RT_FRAMES_DIALECT``.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from rt_frames import errors
from rt_frames._arguments import check_flag
from rt_frames._client import Client, service_of, wrap_service
from rt_frames._display import hide_traceback
from rt_frames._http.arguments import (
    ConnectionOptions,
    Key,
    Secret,
    hide_values,
    parse_base_url,
    parse_options,
)
from rt_frames._names import what_is_meant
from rt_frames._protocol.operations import parse_dialect
from rt_frames._service.folder import not_a_folder, open_folder
from rt_frames._service.hosted import HostedService
from rt_frames._text import show_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rt_frames._names import DialectName
    from rt_frames._service.service import Service

_default_client: Client | None = None
# RT_FRAMES_* values from which the default client was made
_default_settings: dict[str, Secret] | None = None

_HOST_PART = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
# how a string that names a folder begins
_FOLDER = r"\.{1,2}/|/(?!/)|~"
if sys.platform == "win32":
    _FOLDER += r"|\.{0,2}\\|[A-Za-z]:[\\/]"
_WAYS_TO_CONNECT = """Ways to connect:
    rt.connect("https://words-x1.us-east-1.example.com", api_key="...")                # a hosted service
    rt.connect("words-x1", region="us-east-1", domain="example.com", api_key="...")    # the same, in parts
    rt.connect("./tables")                      # a folder, without an account
or set RT_FRAMES_URL and RT_FRAMES_API_KEY in the environment (or RT_FRAMES_DB, RT_FRAMES_REGION, RT_FRAMES_DOMAIN)"""


def connect(
    target: str | os.PathLike[str] | None = None,
    *misplaced: Never,
    api_key: str | None = None,
    region: str | None = None,
    domain: str | None = None,
    timeout: float | tuple[float, float, float] | None = None,
    retries: int = 2,
    headers: Mapping[str, str] | None = None,
    verify: bool | str | os.PathLike[str] = True,
    allow_insecure: bool = False,
    dialect: DialectName | None = None,
    default: bool = True,
    **unknown: Never,
) -> Client:
    """Connect to a service by URL, or to a folder.

    It makes no request.

    Parameters
    ----------
    target : str or path, optional
        A base URL that begins with ``https://``; a database's name, with ``region`` and
        ``domain``; or a folder of tables, created if missing: a path, or a string that
        begins with ``./``, ``../``, ``/`` or ``~``. Defaults to ``RT_FRAMES_URL``, or
        ``RT_FRAMES_DB``, ``RT_FRAMES_REGION`` and ``RT_FRAMES_DOMAIN``.
    api_key : str, optional
        The project's key. Defaults to ``RT_FRAMES_API_KEY``; a folder needs none.
    region, domain : str, optional
        Parts of ``https://{target}.{region}.{domain}``, the form in the service's
        documentation.
    timeout : float or tuple of float, optional
        Seconds: one number, or ``(connect, write, read)``: to connect, to send each
        chunk of the body, and to receive the whole response (of rows, each chunk).
        Defaults to ``(10, 60, 300)``.
    retries : int, default 2
        Number of retries, for requests that cannot take effect twice.
    headers : dict of str to str, optional
        Extra headers for every request. Their values are secrets, except those of
        ``x-lancedb-…`` headers.
    verify : bool or path, default True
        Whether to check the server's certificate; a path names the CA bundle. True uses
        the first of ``REQUESTS_CA_BUNDLE``, ``CURL_CA_BUNDLE``, ``SSL_CERT_FILE`` and
        ``SSL_CERT_DIR``, otherwise certifi's.
    allow_insecure : bool, default False
        Whether to allow plain ``http`` to another machine: anybody on the network can
        read the key.
    dialect : {"documented", "lancedb"}, optional
        The API the server speaks. "documented" has the endpoints in the service's
        documentation, which create and alter tables. "lancedb" has the endpoints of
        LanceDB's servers, which also describe, read, append to, replace and drop
        tables. Defaults to ``RT_FRAMES_DIALECT``, else "documented"; if neither is set,
        a server that has no such endpoint is asked for the other API's list, for the
        error's message. A folder supports everything.
    default : bool, default True
        Whether ``df.remote`` and the package's functions use this client.

    Returns
    -------
    Client
        A client that has made no request yet.

    Raises
    ------
    NotConnectedError
        If no service is configured, or a URL has no key.
    ValueError
        If an argument cannot be used.

    Examples
    --------
    >>> import rt_frames as rt
    >>> url = "https://words-x1.us-east-1.example.com"
    >>> rt.connect(url, api_key="k-123", default=False)
    Client('https://words-x1.us-east-1.example.com')
    """
    __tracebackhide__ = True
    api_key = None if api_key is None else Key(api_key)
    headers = hide_values(headers)
    # no local variable shows what may be the key
    names = list(unknown)
    del unknown
    for name in names:
        meant = what_is_meant(name, _parameters)
        raise TypeError(f"connect: no option {name!r:.100}; {meant}")
    if misplaced:
        del misplaced
        raise TypeError(
            "connect: got two values by position; pass the key as api_key=…, and others "
            "by their keywords"
        )
    default = check_flag("default", default)
    service = _make_service(
        parse_target(target, region, domain),
        api_key,
        dialect,
        parse_options(timeout, retries, headers, verify),
        allow_insecure=check_flag("allow_insecure", allow_insecure),
    )
    client = wrap_service(service)
    if default:
        global _default_client, _default_settings
        _default_client = client
        _default_settings = None
    return client


# as callers see it
_parameters = dict(inspect.signature(connect).parameters)
del _parameters["misplaced"], _parameters["unknown"]
connect.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [*_parameters.values()],
    return_annotation=inspect.signature(connect).return_annotation,
)


@hide_traceback
def _make_service(
    target: str | Path,
    api_key: Key | None,
    dialect: str | None,
    options: ConnectionOptions,
    *,
    allow_insecure: bool,
) -> Service:
    if dialect is None:
        dialect = os.environ.get("RT_FRAMES_DIALECT") or None
    # also if it is not used: a folder has a dialect of its own
    parsed_dialect = parse_dialect(dialect)
    if isinstance(target, Path):
        if api_key is not None:
            raise ValueError("api_key: a folder needs no key; leave it out")
        return open_folder(target, options)
    target = parse_base_url(target, allow_insecure=allow_insecure)
    if api_key is None:
        api_key = Key(os.environ.get("RT_FRAMES_API_KEY"))
        if not api_key:
            host = target.rpartition("@")[2]
            raise errors.NotConnectedError(
                f'no API key for {host:.100}; pass api_key="…", or set RT_FRAMES_API_KEY'
            )
    return HostedService(
        target, api_key, options, parsed_dialect, allow_insecure=allow_insecure
    )


def disconnect() -> None:
    """Close the default client and forget it.

    The next call without a client is configured by the environment.

    Examples
    --------
    >>> import rt_frames as rt
    >>> rt.disconnect()
    """
    global _default_client
    if _default_client is not None:
        _default_client.close()
    _default_client = None


def resolve(client: Client | None) -> Client:
    """Return ``client``, else the default client, else a client of the environment."""
    __tracebackhide__ = True
    if client is not None:
        if not isinstance(client, Client):
            raise TypeError(
                "client: expected a Client, as rt.connect() returns, got "
                f"{show_value(client)}"
            )
        return client
    global _default_settings
    settings = {
        name: Secret(value)
        for name, value in os.environ.items()
        if name.startswith("RT_FRAMES_")
    }
    default = _default_client
    is_outdated = _default_settings not in (None, settings)
    if default is None or service_of(default).closed or is_outdated:
        default = connect()
        _default_settings = settings
    return default


@hide_traceback
def parse_target(target: Any, region: str | None, domain: str | None) -> str | Path:
    """Return a URL as a string, a folder as a path."""
    if target is None:
        target, region, domain = _from_environment(region, domain)
    if region is not None or domain is not None:
        return _from_parts(target, region, domain)
    if isinstance(target, os.PathLike):
        return _parse_folder(target)
    if not isinstance(target, str):
        kind = type(target).__name__
        text = f"target: expected a URL, a database name or a folder, got {kind}"
        raise TypeError(f"{text}. {_WAYS_TO_CONNECT}")
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", target)
    if scheme is not None:
        if scheme[1].lower() not in ("http", "https"):
            shown = target.rpartition("@")[2]
            raise ValueError(
                f"{shown!r:.100} is no URL of a service; expected https://HOST, "
                "http://HOST or a folder"
            )
        return target
    if target in (".", "..") or re.match(_FOLDER, target):
        return _parse_folder(target)
    shown = target.rpartition("@")[2]
    text = (
        f"{shown!r:.100} is neither a URL nor a folder; write https://, http:// or ./ "
        "before it"
    )
    raise ValueError(f"{text}. {_WAYS_TO_CONNECT}")


def _parse_folder(target: str | os.PathLike[str]) -> Path:
    try:
        folder = Path(target).expanduser()
        is_file = folder.resolve().is_file()
    except (OSError, RuntimeError, ValueError) as error:
        # no such user, a cycle of links, or a name that is too long
        raise not_a_folder(target, error) from None
    if is_file:
        raise ValueError(f"{folder} is a file; expected a folder of tables")
    return folder


def _from_environment(
    region: str | None, domain: str | None
) -> tuple[str | None, str | None, str | None]:
    url = os.environ.get("RT_FRAMES_URL")
    if url:
        if region is not None or domain is not None:
            raise ValueError(
                "region, domain: only for a database name, but RT_FRAMES_URL is a whole "
                "URL; leave them out"
            )
        return url, None, None
    database = os.environ.get("RT_FRAMES_DB") or None
    if database is None and region is None and domain is None:
        text = "not connected to any service"
        if _default_client is not None and service_of(_default_client).closed:
            text += ": the default client was closed"
        raise errors.NotConnectedError(f"{text}. {_WAYS_TO_CONNECT}")
    region = region or os.environ.get("RT_FRAMES_REGION")
    domain = domain or os.environ.get("RT_FRAMES_DOMAIN")
    if database is not None and (region is None or domain is None):
        raise ValueError(
            f"RT_FRAMES_DB={database:.100} also needs RT_FRAMES_REGION and "
            "RT_FRAMES_DOMAIN; set them, or RT_FRAMES_URL instead"
        )
    return database, region, domain


def _from_parts(database: Any, region: str | None, domain: str | None) -> str:
    if isinstance(database, str) and "://" in database:
        raise ValueError(
            "region, domain: only for a database name, but target is a whole URL; leave "
            "them out"
        )
    parts = {"target": database, "region": region, "domain": domain}
    missing = [name for name in parts if parts[name] is None]
    if missing:
        need = "a database name needs region= and domain="
        if database is None:
            need = "region= and domain= need a database name"
        text = f"{', '.join(missing)}: missing; {need}"
        raise ValueError(f"{text}. {_WAYS_TO_CONNECT}")
    for name, value in parts.items():
        if not isinstance(value, str) or not _HOST_PART.fullmatch(value):
            text = f"{name}: expected a part of a host name, got {value!r:.100}"
            raise ValueError(f"{text}. {_WAYS_TO_CONNECT}")
    return f"https://{database}.{region}.{domain}"
