"""The console script ``rt-frames``.

Law: uses `_api`, `_connect` and `_client`, as a user's program does; only ``serve`` imports `local`.
"""
