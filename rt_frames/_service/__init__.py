"""Requests to a service about one table.

`service` has the single requests; `write`, `parts` and `rewrite` combine several;
`outcome` explains those whose outcome is unknown; `cluster` has the requests that
Dask's workers make; `folder` starts the embedded service.

Layering (tests/test_house.py): imports `_schema`, `_frames`, `_http`, `errors` and the
helpers; `folder` alone imports `local`, late.
"""
