"""The console script ``rt-frames``.

Layering (tests/test_house.py): uses `_connect`, `_client` and the packages below them,
as a user's program does. Only ``serve`` imports `local`.
"""
