"""Types, and changes of types: dtypes → Arrow → ``data_type``, and two schemas → alterations.

Law: no I/O and no frames. Imports `errors` and the helpers, nothing else of the package.
"""
