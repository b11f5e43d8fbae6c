"""The error for a missing extra."""

from __future__ import annotations

import importlib.util


def require(extra: str, *modules: str) -> None:
    """Raise an ImportError with the command to run, where one of an extra's modules is not installed."""
    if missing := [
        module for module in modules if importlib.util.find_spec(module) is None
    ]:
        text = f'{" and ".join(missing)} must be installed for this: pip install "rt_frames[{extra}]"'
        raise ModuleNotFoundError(text, name=missing[0])
