"""The embedded service: both dialects over real HTTP on this machine, tables in Lance.

A program of its own inside this package: it shares only the schema code and the helpers
with the client. ``ROOT/NAME.lance`` is table ``NAME``, which ``lance`` and ``lancedb``
can open.
"""

import importlib.util
import sys

_MODULES = ("cheroot", "lance")


def _require_extra() -> None:
    """Raise ImportError if the embedded service is not installed or supported here."""
    if sys.platform == "win32":
        raise ImportError(
            "the embedded service needs Linux, macOS or WSL; on Windows, run rt-frames "
            "serve in WSL, or connect to a hosted service"
        )
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise ModuleNotFoundError(
            f'{names} must be installed for this: pip install "rt_frames[local]"',
            name=missing[0],
        )


_require_extra()

from rt_frames.local.server import LocalService  # noqa: E402  # needs the extra

__all__ = ["LocalService"]
