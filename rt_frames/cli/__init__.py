"""The CLI, ``rt-frames``.

Layering (tests/test_house.py): imports `_connect`, `_client` and the packages below
them. Only ``serve`` imports `local`.
"""
