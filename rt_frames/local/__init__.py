"""The embedded service: both dialects of the endpoints over real HTTP on this machine, tables in Lance.

It is a program of its own that happens to live in this package: it shares nothing with the client but the
vocabulary of types. ``ROOT/NAME.lance`` is table ``NAME``, for ``lance`` and ``lancedb`` to open.
"""

from rt_frames._extras import require

require("local", "cheroot", "lance")

from rt_frames.local.server import LocalService  # noqa: E402  # it imports the extra

__all__ = ["LocalService"]
