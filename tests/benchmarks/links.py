"""``compression="auto"`` against each fixed codec on simulated links.

Run ``python -m tests.benchmarks.links``, which prints the table in some minutes; words
choose rates, in MB/s.

The client gets no hint. ``direct`` is an address of this machine other than loopback,
and ``tunnel`` is 127.0.0.1. Both lead through the link to a sink that discards what it
reads. In each round the ways alternate: ``"auto"`` by a new client, ``"auto"`` by the
same client again, and each codec by a new client. A ratio is the best codec's median
time divided by that of ``"auto"``: above 1, ``"auto"`` is faster than every codec.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import rt_frames as rt
from tests.benchmarks._frames import numeric, strings
from tests.benchmarks._sinks import sink
from tests.benchmarks.link import Link, linked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MB = 10**6
# a table repeats a block of so many bytes, which no codec sees: it looks back far less
BLOCK = 64 * MB
CODECS = {"none": None, "lz4": "lz4", "zstd": "zstd"}
REPEATS = 3
ROUND_TRIP = 0.02
QUEUE = MB


class Point(NamedTuple):
    """A line of the table."""

    rate: float  # MB/s
    size: int  # MB
    way: str


USUAL = [
    Point(1, 10, "direct"),
    Point(8, 40, "direct"),
    Point(8, 40, "tunnel"),
    Point(60, 200, "direct"),
    Point(60, 200, "tunnel"),
    Point(125, 200, "direct"),
    Point(125, 200, "tunnel"),
    Point(500, 200, "direct"),
    Point(500, 200, "tunnel"),
    Point(1250, 200, "direct"),
    Point(1250, 200, "tunnel"),
]
HEAD = """
| link | way | data | none (s) | LZ4 (s) | ZSTD (s) | first upload | second upload |
|---|---|---|---|---|---|---|---|
"""


def mixed(nbytes: int) -> pa.Table:
    """Numbers and text as an ETL job has them, half of each."""
    rows = min(nbytes, BLOCK) // 84
    block = numeric(rows * 32)
    texts = strings(rows * 52)
    for name in ("place", "kind"):
        block = block.append_column(name, texts[name])
    block = block.combine_chunks()
    table = pa.concat_tables([block] * -(-nbytes // block.nbytes))
    return table.slice(0, block.num_rows * nbytes // block.nbytes)


def own_address() -> str:
    """Return this machine's address in the network; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect(("192.0.2.1", 9))
        return asking.getsockname()[0]


@contextlib.contextmanager
def connecting(point: Point) -> Iterator[Callable[[], rt.Client]]:
    """Start sink and link, and yield a function that opens a new client."""
    host = own_address() if point.way == "direct" else "127.0.0.1"
    link = Link(point.rate * MB, ROUND_TRIP, QUEUE)
    with sink() as target, linked(target, link) as port:

        def connect() -> rt.Client:
            client = rt.connect(
                f"http://{host}:{port}", api_key="k", default=False, allow_insecure=True
            )
            client.list_tables()  # opens the connection, for every way alike
            return client

        yield connect


def measure(point: Point, repeats: int) -> dict[str, float]:
    """Return the median seconds of each way."""
    table = mixed(point.size * MB)
    times: dict[str, list[float]] = {}

    def timed(way: str, client: rt.Client, codec: Any) -> None:
        start = time.perf_counter()
        client.create_table("t", table, compression=codec, progress=False)
        times.setdefault(way, []).append(time.perf_counter() - start)

    with connecting(point) as connect:
        for _ in range(repeats):
            with connect() as client:
                timed("first", client, "auto")
                timed("second", client, "auto")
            for way, codec in CODECS.items():
                with connect() as client:
                    timed(way, client, codec)
    return {way: statistics.median(taken) for way, taken in times.items()}


def show(point: Point, repeats: int = REPEATS) -> None:
    """Print a line: the codecs' seconds, and the ratios of both uploads."""
    medians = measure(point, repeats)
    best = min(CODECS, key=medians.__getitem__)
    link = f"{point.rate} MB/s, {ROUND_TRIP * 1000:.0f} ms, {QUEUE / MB:.0f} MB"
    cells = [link, point.way, f"mixed, {point.size} MB"]
    cells += [f"{medians[way]:.2f}{' ←' * (way == best)}" for way in CODECS]
    cells += [f"{medians[best] / medians[which]:.2f}" for which in ("first", "second")]
    print(f"| {' | '.join(cells)} |", flush=True)


def main(rates: list[str]) -> None:
    print(HEAD.strip())
    for point in USUAL:
        if not rates or str(point.rate) in rates:
            show(point)


if __name__ == "__main__":
    main(sys.argv[1:])
