"""What `connect` is told, or what the environment says → a URL or a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from rt_frames import errors

_THREE_WAYS = """\
    rt.connect("https://words-x1.us-east-1.example.com", api_key="...")    # a hosted service, or the parts of its
    rt.connect("words-x1", region="us-east-1", domain="example.com", api_key="...")              # address
    rt.connect("./tables")                      # a folder: the embedded service, without an account
or set RT_FRAMES_URL and RT_FRAMES_API_KEY in the environment (or RT_FRAMES_DB, RT_FRAMES_REGION, RT_FRAMES_DOMAIN)"""


def parse_target(target: Any, region: str | None, domain: str | None) -> str | Path:
    """Tell a URL, which is given back as a string, from a folder."""
    if target is None:
        target, region, domain = _from_environment(region, domain)
    if region is not None or domain is not None:
        return _from_parts(target, region, domain)
    if isinstance(target, os.PathLike):
        return Path(target).expanduser()
    if not isinstance(target, str):
        raise TypeError(
            f"target: expected a URL, a database's name or a folder, got {type(target).__name__}:\n{_THREE_WAYS}"
        )
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", target):
        return target
    if target.startswith((".", "~")) or "/" in target or os.sep in target:
        return Path(target).expanduser()
    raise ValueError(
        f"target: {target!r:.100} is neither a URL nor a folder; a database's name needs region=... and domain=...; "
        f"these forms exist:\n{_THREE_WAYS}"
    )


def _from_environment(region: str | None, domain: str | None) -> tuple[str, str | None, str | None]:
    if url := os.environ.get("RT_FRAMES_URL"):
        if region is not None or domain is not None:
            raise ValueError("region, domain: they go with a database's name, but RT_FRAMES_URL names a whole address")
        return url, None, None
    database = os.environ.get("RT_FRAMES_DB")
    if not database:
        raise errors.NotConnectedError(f"not connected to any service; say which one first:\n{_THREE_WAYS}")
    return (
        database,
        region or os.environ.get("RT_FRAMES_REGION", ""),
        domain or os.environ.get("RT_FRAMES_DOMAIN", ""),
    )


def _from_parts(database: Any, region: str | None, domain: str | None) -> str:
    for name, value in {"target": database, "region": region, "domain": domain}.items():
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", value):
            raise ValueError(
                f"{name}: {value!r:.100} is no part of a host name; the address is made of three:\n{_THREE_WAYS}"
            )
    return f"https://{database}.{region}.{domain}"
