"""The CLI, ``rt-frames``: look at, restore and drop tables, and serve a folder.

`main` has the group and ``serve``; `tables` and `demo` have the other commands.
Layering (tests/test_house.py): imports `_connect`, `_client` and the helpers. Only
``serve`` and ``demo`` import `local`.
"""
