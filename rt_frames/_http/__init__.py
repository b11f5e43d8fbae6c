"""HTTP requests to a service, and what its responses mean.

Layering (tests/test_house.py): bytes only; imports `errors` and the helpers.
"""
