"""Check the arguments of a client. Each error names its argument."""

from __future__ import annotations

import functools
import hashlib
import html
import ipaddress
import itertools
import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

from urllib3.util import parse_url

from rt_frames._arguments import check_flag, check_whole_number, is_visible
from rt_frames._display import hide_traceback
from rt_frames._text import show_value

# sockets allow less than 2**31 ms
MAX_SECONDS = 10**6
# characters; a shorter key may occur inside ordinary words
SHORT_KEY_CHARS = 8
_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_OWN_HEADERS = {
    "x-api-key",
    "content-type",
    "content-length",
    "transfer-encoding",
    "host",
    "x-request-id",
}


class Timeouts(NamedTuple):
    """Seconds to connect, to send each piece of a body, to receive a response."""

    connect: float = 10.0
    write: float = 60.0
    read: float = 300.0


class Secret(str):
    """A string hidden from reprs (so from tracebacks with locals), not picklable."""

    def __repr__(self) -> str:
        return "'***'"

    def __reduce__(self) -> Any:
        raise TypeError(
            "API keys and extra headers are secrets, which cannot be pickled; connect again in the other process"
        )


class Key(Secret):
    """An API key.

    Wrap the argument in the first line of any function that takes one, so that no
    traceback shows it.
    """

    def __new__(cls, value: Any) -> Self:
        return super().__new__(cls, value if isinstance(value, str) else "")

    def check(self) -> None:
        """Raise ValueError if no header can carry the key."""
        if not is_visible(self):
            raise ValueError(
                "api_key: expected one or more visible ASCII characters, without spaces "
                "or line ends; check how the key was copied or read from its file"
            )

    @functools.lru_cache(maxsize=16)  # noqa: B019  # for a few keys; each part of a cluster's write needs one
    def fingerprint(self, salt: bytes) -> bytes:
        """Return a salted scrypt hash, which identifies the key without revealing it.

        Each guess takes milliseconds.
        """
        return hashlib.scrypt(self.encode(), salt=salt, n=2**12, r=8, p=1)


class Secrets(tuple[Secret, ...]):
    """Secrets to redact from server messages: the key and extra header values."""

    def hide(self, text: str) -> str:
        """Redact the secrets, also if they are escaped.

        A short key is redacted only as a whole word.
        """
        for number, secret in enumerate(self):
            is_key = number == 0
            if is_key or len(secret) >= SHORT_KEY_CHARS:
                text = _redact(text, secret)
        return text


NO_SECRETS = Secrets()


def _redact(text: str, secret: str) -> str:
    pattern = re.escape(secret)
    if len(secret) < SHORT_KEY_CHARS:
        pattern = rf"(?<!\w){pattern}(?!\w)"
    # every escape begins with one of these
    if not re.search(r"[&%\\]", text):
        return re.sub(pattern, "***", text)
    for decodings in _list_decodings():
        decoded = text
        for decode in decodings:
            decoded = decode(decoded)
        if re.search(pattern, decoded):
            text = re.sub(pattern, "***", decoded)
    return text


@functools.cache
def _list_decodings() -> list[tuple[Callable[[str], str], ...]]:
    """List the ways in which a text may be escaped, the plain one first.

    Each is tried alone, too: in a key, %41 is no escape.
    """
    # twice, as JSON may be nested in JSON
    decodings = (html.unescape, unquote, _unescape, _unescape)
    found: list[tuple[Callable[[str], str], ...]] = []
    for number in range(len(decodings) + 1):
        found += itertools.combinations(decodings, number)
    return list(dict.fromkeys(found))


def _unescape(text: str) -> str:
    """Resolve JSON escapes."""
    return re.sub(r"\\(?:u00([0-9a-fA-F]{2})|(.))", _unescape_json, text)


def _unescape_json(match: re.Match[str]) -> str:
    code, char = match.groups()
    if code:
        return chr(int(code, 16))
    return " " if char in "bfnrt" else char


@dataclass(frozen=True)
class ConnectionOptions:
    """Options of a connection, which `parse_options` checks.

    Parameters
    ----------
    timeouts : Timeouts
        Seconds.
    retries : int
        Retries after the first attempt.
    headers : dict of str to str
        Extra headers of every request.
    verify : bool or str
        Whether to check the server's certificate, or the CA bundle to check it with.
    """

    timeouts: Timeouts
    retries: int
    headers: Mapping[str, str]
    verify: bool | str


@hide_traceback
def parse_options(
    timeout: Any, retries: Any, headers: Any, verify: Any
) -> ConnectionOptions:
    """Check the options of `rt_frames.connect`.

    `hide_values` has wrapped the values of ``headers`` already.
    """
    return ConnectionOptions(
        parse_timeouts(timeout),
        check_whole_number("retries", retries, 0),
        parse_headers(headers),
        _parse_verify(verify),
    )


def _parse_verify(verify: Any) -> bool | str:
    if isinstance(verify, str | bytes | os.PathLike):
        return os.fsdecode(verify)
    return check_flag("verify", verify)


def parse_timeouts(timeout: Any) -> Timeouts:
    """Check ``timeout``: None, seconds, or ``(connect, write, read)``."""
    if timeout is None:
        return Timeouts()
    parts = timeout if isinstance(timeout, tuple) else (timeout,) * 3
    if len(parts) != 3 or not all(map(_is_positive, parts)):
        raise ValueError(
            f"timeout: expected a positive number of seconds up to {MAX_SECONDS:,}, or a tuple (connect, write, read), "
            f"got {show_value(timeout)}"
        )
    return Timeouts(*map(float, parts))


def _is_positive(number: Any) -> bool:
    return (
        isinstance(number, int | float)
        and not isinstance(number, bool)
        and 0 < number <= MAX_SECONDS
    )


def hide_values(headers: Any) -> Any:
    """Wrap header values in `Secret`. A value that is not a string becomes None.

    Values of LanceDB's own headers, such as a database's name, are no secrets.
    """
    if not isinstance(headers, Mapping):
        return headers
    hidden: dict[Any, str | None] = {}
    for name, value in headers.items():
        if not isinstance(value, str):
            hidden[name] = None
        elif isinstance(name, str) and name.lower().startswith("x-lancedb-"):
            hidden[name] = value
        else:
            hidden[name] = Secret(value)
    return hidden


def parse_headers(headers: Any) -> dict[str, str]:
    """Check extra headers, whose values `hide_values` has wrapped."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise TypeError(
            f"headers: expected a dict of strings, got {type(headers).__name__}"
        )
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"headers: {show_value(name)} is not a valid header name")
        if not isinstance(value, str):
            raise ValueError(f"headers: the value of {name!r} is not a string")
        if not value.isascii() or not value.isprintable() or value != value.strip():
            raise ValueError(
                f"headers: the value of {name!r} contains characters that a header cannot have"
            )
        if name.lower() in _OWN_HEADERS:
            raise ValueError(
                f"headers: {name!r} is set by this package; leave it out, and pass the key as api_key"
            )
    return dict(headers)


def parse_base_url(url: Any, *, allow_insecure: bool) -> str:
    """Check a URL, and return it as ``https://host[:port]``, without a final slash."""
    if not isinstance(url, str):
        raise TypeError(f"url: expected a string, got {type(url).__name__}")
    shown = url.rpartition("@")[2][:100]
    try:
        # by urllib3, as when the request is sent
        parts = parse_url(url)
    except ValueError:
        raise ValueError(
            f"url: expected https://HOST or https://HOST:PORT, got {shown!r}"
        ) from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"url: expected https://HOST, got {shown!r}")
    if not parts.host:
        raise ValueError(f"url: {shown!r} has no host; expected https://HOST")
    is_plain = url.isascii() and url.isprintable() and not re.search(r"[ \\]", url)
    if not is_plain or (parts.auth, parts.query, parts.fragment) != (None, None, None):
        raise ValueError(
            "url: expected https://HOST without user name, query, fragment or special characters"
        )
    base = parts.url.rstrip("/")
    if "/v1/" in f"{base}/":
        raise ValueError(
            f"url: {shown!r} has the path /v1, which every request adds; leave it out"
        )
    if parts.scheme == "http" and not is_loopback(base) and not allow_insecure:
        raise ValueError(
            f"url: {shown!r} would send the API key unencrypted; use https, or "
            "allow_insecure=True on a trusted network"
        )
    return base


def find_ca_bundle(verify: bool | str, base: str) -> bool | str:
    """Return the CA bundle to verify with, or ``verify`` as a bool.

    Raise ValueError if the configured bundle is unusable.
    """
    if isinstance(verify, str):
        return _check_ca_bundle("verify", verify)
    if not verify or not base.startswith("https:"):
        return verify
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        if path := os.environ.get(name):
            return _check_ca_bundle(name, path)
    # like OpenSSL, skip paths that do not exist
    file = os.environ.get("SSL_CERT_FILE", "")
    folders = os.environ.get("SSL_CERT_DIR", "").split(os.pathsep)
    for path in (file, *folders):
        if os.path.exists(path):  # noqa: PTH110  # the path is passed on unchanged
            return path
    return True


def _check_ca_bundle(name: str, path: str) -> str:
    try:
        if os.path.isdir(path):  # noqa: PTH112  # the path is passed on unchanged
            os.scandir(path).close()
        else:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        raise ValueError(
            f"{name}: {path!r} contains no certificate in PEM format"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"{name}: the CA bundle {path!r} cannot be read: {reason}"
        ) from None
    return path


def is_loopback(base: str) -> bool:
    """Return whether the host of a URL is this machine."""
    host = parse_url(base).host or ""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
