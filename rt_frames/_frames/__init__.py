"""Any frame → one Arrow IPC stream.

Law: knows no HTTP. Imports `_schema`, `errors` and the helpers, nothing else of the package.
"""
