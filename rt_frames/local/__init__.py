"""The tables of a folder, in Lance, and a development server for them.

A program of its own inside this package: it shares only the protocol, the schema code
and the helpers with the client. ``ROOT/NAME.lance`` is table ``NAME``, which ``lance``
and ``lancedb`` can open.
"""

from rt_frames._extras import require_local

require_local()

from rt_frames.local.server import LocalService  # noqa: E402  # needs the extra

__all__ = ["LocalService"]
