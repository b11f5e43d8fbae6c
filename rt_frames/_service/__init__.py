"""Requests to a service about one table.

`service` is the service, and sends a request; `reads`, `changes`, `history`, `columns`
and `alter` make the requests about a table; `write`, `parts`, `multipart` and
`replace_columns` combine several; `outcome` explains a write whose outcome is unknown,
`interrupts` one that was interrupted; `cluster` sends a Dask frame from its workers;
`folder` and `hosted` are the two kinds of services.

Layering (tests/test_house.py): imports `_frames`, `_http` and what is below them;
`folder` alone imports `local`, late.
"""
