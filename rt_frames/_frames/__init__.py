"""Any frame → one Arrow IPC stream.

Layering (tests/test_house.py): knows no HTTP; imports `_schema`, `errors` and the
helpers.
"""
