"""Rows in, buffers of one Arrow IPC stream out.

The plot: a `Source` (`source.py`) is `Rows`, in chunks and in their library's types,
and the `Plan` of their columns (`_values/plan.py`). `ipc.py` asks it for batches as
planned, of a size that suits the service, and writes the stream: `batching.py` cuts and
joins, `compression.py` chooses the codec from what the link and the data turn out to
be.

Imports `_values` and what is below it.
"""
