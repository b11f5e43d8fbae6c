"""A body whose length differs from its Content-Length.

It imports the adapter and the upload, because no frame makes such a body.
"""

from __future__ import annotations

import contextlib

import pytest
import requests

from rt_frames._http.connection import Adapter
from rt_frames._http.upload import Upload


@pytest.mark.parametrize("length", [2, 7])
def test_a_body_that_is_not_as_long_as_was_said_ends_its_connection(server, length):
    """Bytes beyond the end would be read as a request; missing ones be waited for."""
    with contextlib.closing(Adapter()) as adapter:
        for method, body in (
            ("POST", Upload([[b"abc"], [b"de"]], length, timeout=0.5)),
            ("GET", None),
        ):
            request = requests.Request(method, server.url).prepare()
            request.body = body
            with contextlib.suppress(requests.RequestException):
                adapter.send(request, stream=True, timeout=(2, 1)).raw.read()
    assert server.requests[-1].line == "GET / HTTP/1.1"
    assert server.connections == 2
