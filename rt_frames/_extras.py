"""The error for a missing extra."""

from __future__ import annotations

import importlib.util


def require(extra: str, *modules: str) -> None:
    """Raise an ImportError with the command to run, where one of an extra's modules is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise ModuleNotFoundError(
            f'{names} must be installed for this: pip install "rt_frames[{extra}]"',
            name=missing[0],
        )
