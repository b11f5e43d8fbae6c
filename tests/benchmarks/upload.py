"""The same frame sent in several ways to a sink that discards it.

Run ``python -m tests.benchmarks.upload``; names of kinds of frames choose kinds. The
last column divides each way's time by that of rt_frames: below 1, rt_frames is slower.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import requests

import rt_frames as rt
from tests.benchmarks._frames import (
    MAKERS,
    alternating,
    arrow_of,
    frames,
    stream_of,
)
from tests.benchmarks._sinks import sink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NBYTES = 208 * 10**6
HEADERS = {"x-api-key": "k", "Content-Type": "application/vnd.apache.arrow.stream"}


def post(url: str, body: Any) -> None:
    requests.post(
        f"{url}/v1/tables/t", data=body, headers=HEADERS, timeout=60
    ).raise_for_status()


def by_bytesio(url: str, data: Any) -> None:
    table = arrow_of(data)
    body = io.BytesIO()
    with pa.ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table)
    body.seek(0)
    post(url, body)


def by_flight(port: int, data: Any) -> None:
    from pyarrow import flight

    table = arrow_of(data)
    with flight.connect(f"grpc://127.0.0.1:{port}") as client:
        writer, _ = client.do_put(flight.FlightDescriptor.for_path("t"), table.schema)
        writer.write_table(table)
        writer.close()


def official(url: str) -> Callable[[Any], Any]:
    """Return the service's own client, connected to a sink."""
    import lancedb

    database = lancedb.connect("db://benchmark", api_key="k", host_override=url)
    return lambda data: database.create_table("t", arrow_of(data))


def ways(
    url: str, flight_port: int, data: Any, client: rt.Client
) -> dict[str, Callable[[], Any]]:
    prepared = stream_of(data)
    create = official(url)
    return {
        "rt_frames": lambda: client.create_table("t", data, progress=False),
        "prepared POST": lambda: post(url, prepared),
        "BytesIO + requests": lambda: by_bytesio(url, data),
        "pyarrow.flight DoPut": lambda: by_flight(flight_port, data),
        "official client": lambda: create(data),
    }


def show(title: str, medians: Mapping[str, float], nbytes: int) -> None:
    """Print the speed of each way, and its time relative to that of rt_frames."""
    for name, seconds in medians.items():
        ratio = seconds / medians["rt_frames"]
        taken = f"{seconds * 1000:>10.1f} ms{nbytes / seconds / 1e9:>8.2f} GB/s"
        print(f"{title:<24}{name:<26}{taken}{ratio:>8.2f}x")


def main(kinds: list[str], nbytes: int = NBYTES, repeats: int = 5) -> None:
    with sink() as port, sink("flight") as flight_port:
        url = f"http://127.0.0.1:{port}"
        with rt.connect(url, api_key="k", default=False) as client:
            for kind in kinds or MAKERS:
                for library, data in frames(kind, nbytes).items():
                    tried = ways(url, flight_port, data, client)
                    found = alternating(tried, repeats)
                    show(f"{kind}, {library}", found, arrow_of(data).nbytes)


if __name__ == "__main__":
    main(sys.argv[1:])
