"""The embedded service's answer to a request that it refuses."""

from __future__ import annotations


class HTTPError(Exception):
    """An HTTP status, and a message that says what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
