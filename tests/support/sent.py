"""Send a frame to a server that keeps the body, and read the body."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import rt_frames as rt
from tests.support.servers import KEY, Server

if TYPE_CHECKING:
    from collections.abc import Iterator


class Sent(NamedTuple):
    """The stream in a body."""

    schema: pa.Schema
    read: list[pa.RecordBatch]
    body: bytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the record batches."""
        return iter(self.read)

    def table(self) -> pa.Table:
        """Validate the stream, and return all rows."""
        table = pa.Table.from_batches(self.read, self.schema)
        table.validate(full=True)
        return table


@functools.cache
def _server() -> tuple[Server, rt.Client]:
    server = Server().__enter__()  # for all tests of this process
    return server, rt.connect(server.url, api_key=KEY, default=False)


def send(data: Any, **options: Any) -> Sent:
    """Send a frame with options of `rt_frames.to_table`, and return the body."""
    server, client = _server()
    server.requests.clear()
    client.create_table("t", data, **{"compression": None, **options})
    # the request of an interrupted call may arrive late
    body = next(post.body for post in reversed(server.posts) if post.complete)
    with pa.ipc.open_stream(body) as stream:
        return Sent(stream.schema, list(stream), body)
