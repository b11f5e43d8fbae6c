"""Making values fit: one column in another type, and never another value.

The plot: `plan.py` decides once in which type each column is sent (the caller's, else
the table's, else its own), and which need a look at their values. `convert.py` carries
the plan out batch by batch: `kinds.py` says what may join a column, `exact_cast.py`
makes the same values in another type, `arrays.py` takes nested arrays apart, and
`dictionaries.py` keeps the dictionaries of a stream.
While rows pass, `upsert_keys.py` collects keys, and `matching.py` holds rows against a
condition, whose columns and values `leaf.py` compares. `rewrite.py` does with stored
rows what `convert.py` does with new ones, and `metadata.py` takes away what a schema
carries besides types. What cannot be sent is told of all columns at once
(`refusals.py`), with the row (`failing_row.py`).

Imports `_schema`, `errors` and the helpers.
"""
