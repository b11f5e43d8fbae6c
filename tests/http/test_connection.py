"""A body whose length differs from its Content-Length."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rt_frames import errors
from tests.support.faults import patient

ROWS = 3_000_000


@pytest.mark.parametrize("more", [64_000, -64_000])
def test_a_body_that_is_not_as_long_as_was_said_ends_its_connection(server, more):
    """Bytes beyond the end would be read as a request; missing ones be waited for.

    The memory of the table is changed while it is sent.
    """
    ends = np.arange(0, 10 * ROWS + 1, 10, dtype=np.int32)
    text = np.zeros(11 * ROWS, np.uint8)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text)]
    table = pa.table({"a": pa.Array.from_buffers(pa.binary(), ROWS, buffers)})

    def script(connection):
        while True:
            request = connection.head()
            if request.method == "POST":
                ends[ROWS // 2 :] += more
            connection.body(request)
            connection.answer(200, {"tables": []})

    server.script = script
    client = patient(server, timeout=(20, 20, 2), retries=0)
    with pytest.raises(errors.TransportError):
        client.create_table("t", table, compression=None)
    assert client.list_tables() == []
    assert server.requests[-1].line == "GET /v1/tables HTTP/1.1"
