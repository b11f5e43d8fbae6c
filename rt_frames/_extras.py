"""The error for a missing extra."""

from __future__ import annotations

import importlib.util
import sys

_MODULES = ("cheroot", "lance")


def require_local() -> None:
    """Raise ImportError if folders are not installed for, or not supported here."""
    if sys.platform == "win32":
        raise ImportError(
            "folders of tables need Linux, macOS or WSL; on Windows, run rt-frames serve "
            "in WSL, or connect to a hosted service"
        )
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        # without its name, to which Python 3.15 adds a guess
        raise ModuleNotFoundError(
            f'{names} must be installed for this: pip install "rt_frames[local]"'
        )
