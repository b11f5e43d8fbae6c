"""The console script ``rt-frames``.

Law: uses `_api`, as a user's program does; only ``serve`` imports `local`.
"""
