"""What is asked of a service about one table.

`service` has the requests; `write` and `rewrite` are journeys of several; `cluster` has those that Dask's workers make;
`folder` starts the embedded service.

Law: imports `_schema`, `_frames`, `_http`, `errors` and the helpers; `folder` alone imports `local`, late.
"""
