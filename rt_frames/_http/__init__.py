"""Requests to the service, and the meaning of its answers.

Layering (tests/test_house.py): bytes only; imports `errors` and the helpers.
"""
