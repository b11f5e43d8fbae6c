"""The exception for a request that a folder refuses."""

from __future__ import annotations


class HTTPError(Exception):
    """An HTTP status, and a message with the reason and a cure."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
