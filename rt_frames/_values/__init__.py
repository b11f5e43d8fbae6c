"""Making values fit: one column in another type, and never another value.

The plot: `layout.py` decides in which types columns are sent, for an append `append.py`
by those of the table. `convert.py` carries that out batch by batch: it asks `kinds.py`
what may join a column, `exact_cast.py` for the same values in another type, `arrays.py`
for the values inside nested arrays, `dictionaries.py` for the dictionaries of a stream.
While rows pass, `upsert_keys.py` collects keys, and `matching.py` holds rows against a
condition, whose columns and values `leaf.py` compares. `rewrite.py` does with stored
rows what `convert.py` does with new ones, and `metadata.py` takes away what a schema
carries besides types. What cannot be sent is told of all columns at once
(`refusals.py`), with the row (`failing_row.py`).

Imports `_schema`, `errors` and the helpers.
"""
