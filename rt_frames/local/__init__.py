"""The embedded service: both dialects over real HTTP on this machine, tables in Lance.

A program of its own inside this package: it shares only the schema code and the helpers
with the client. ``ROOT/NAME.lance`` is table ``NAME``, which ``lance`` and ``lancedb``
can open.
"""

from rt_frames._extras import require_local

require_local()

from rt_frames.local.server import LocalService  # noqa: E402  # needs the extra

__all__ = ["LocalService"]
