"""One request to the service, and what its answer means.

Law: bytes, no frames and no schemas. Imports `errors` and the helpers, nothing else of the package.
"""
