"""The embedded service: the three endpoints over real HTTP on this machine, tables in Lance.

It is a program of its own that happens to live in this package: it shares nothing with the client but the
vocabulary of types. ``ROOT/NAME.lance`` is table ``NAME``, for ``lance`` and ``lancedb`` to open.
"""

from rt_frames.local.server import LocalService

__all__ = ["LocalService"]
