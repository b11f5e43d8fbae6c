"""Opening frames, and reading them back.

The plot: `any_frame.py` knows every form of data (`frame_types.py` has their types).
The file of its library (`from_pandas.py`, `from_polars.py`, `from_arrow.py`,
`from_dask.py`) makes `Rows` of it, as `open_options.py` says, and `any_frame.py` adds
the plan of their columns: that is the `Source`. Rows that were read become frames in
`to_pandas.py`, `to_polars.py` or, lazily, `scan.py`. What a condition may be stands in
`where.py`: `expressions.py` of Polars, or `tuples.py` with `given_values.py`.

Knows no HTTP. Imports `_stream` and what is below it.
"""
