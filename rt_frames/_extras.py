"""The error for a missing extra."""

from __future__ import annotations

import importlib.util
import sys

# the modules of each extra
_MODULES = {"files": ["duckdb"], "local": ["cheroot", "lance"]}


def require(extra: str) -> None:
    """Raise ImportError if an extra is not installed, or not supported here."""
    if extra == "local" and sys.platform == "win32":
        raise ImportError(
            "the embedded service needs Linux, macOS or WSL; on Windows, run rt-frames "
            "serve in WSL, or connect to a hosted service"
        )
    missing = [
        name for name in _MODULES[extra] if importlib.util.find_spec(name) is None
    ]
    if missing:
        names = " and ".join(missing)
        raise ModuleNotFoundError(
            f'{names} must be installed for this: pip install "rt_frames[{extra}]"',
            name=missing[0],
        )
