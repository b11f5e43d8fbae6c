"""Requests to the service, and the meaning of its answers.

Law: bytes, no frames and no schemas. Imports `errors` and the helpers, nothing else of the package.
"""
