"""HTTP: connections that stream a body, one exchange, the rows of a response.

Layering (tests/test_house.py): bytes only, and no word of the service; imports
`_protocol`, `errors` and the helpers.
"""
