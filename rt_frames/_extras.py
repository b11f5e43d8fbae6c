"""What a missing extra says: the command that installs it from where this package was installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from urllib.parse import unquote, urlsplit


def require(extra: str, *modules: str) -> None:
    """Raise an ImportError with the command to run, where one of an extra's modules is not installed."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        text = f"{' and '.join(missing)} must be installed for this: {install_command(extra)}"
        raise ModuleNotFoundError(text, name=missing[0])


def install_command(extra: str) -> str:
    """Return the command that installs an extra; pip notes where a package came from, if it was no index."""
    try:
        note = importlib.metadata.distribution("rt_frames").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        note = None
    origin = json.loads(note or "{}")
    url, vcs = origin.get("url", ""), origin.get("vcs_info", {}).get("vcs")
    what = f"rt_frames[{extra}]"
    if url.startswith("file:") and vcs is None:
        what = f"{unquote(urlsplit(url).path)}[{extra}]"
    elif url:
        what = f"{what} @ {f'{vcs}+' if vcs else ''}{url}"
    return f'pip install {"-e " if origin.get("dir_info", {}).get("editable") else ""}"{what}"'
