"""Rows in, buffers of one Arrow IPC stream out.

The plot: a `Source` (`source.py`) has chunks of rows and cuts them into batches of a
size that suits the service. `ipc.py` asks it for batches, in `_values`' types, and
writes the stream: `batching.py` cuts and joins, `compression.py` chooses the codec from
what the link and the data turn out to be.

Imports `_values` and what is below it.
"""
