"""What may be asked of a service, and what its answers mean.

`operations` has a row for each operation, with its path in each dialect; `calls` the
requests and their bodies; `responses` the parsers; `meanings` a row for each ending of
a request; `conditions` which rows a condition selects.

Layering (tests/test_house.py): no sockets, no frames, no requests; imports `_schema`,
`errors` and the helpers.
"""
