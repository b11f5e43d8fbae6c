"""The console script ``rt-frames``.

Law: uses `_connect`, `_client` and the rooms below them, as a user's program does; only ``serve`` imports `local`.
"""
