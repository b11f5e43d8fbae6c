"""A frame in one request and in parts, on loopback and through links.

Run ``python -m tests.benchmarks.parts [--size MB] [--times N]``. The embedded service
receives. The ways alternate. A ratio is the median time of one request divided by that
of parts: above 1, parts are faster.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rt_frames as rt
from tests.benchmarks.link import Link, linked
from tests.benchmarks.links import MB, table_of
from tests.support.hosted import with_parts_of
from tests.support.local import Process
from tests.support.servers import KEY

if TYPE_CHECKING:
    import pyarrow as pa

LINKS = {
    "loopback": None,
    "60 MB/s, 30 ms": Link(60 * MB, 0.03, 4 * MB),
    "125 MB/s, 10 ms": Link(125 * MB, 0.01, 4 * MB),
    "125 MB/s, 80 ms": Link(125 * MB, 0.08, 4 * MB),
}
WAYS = {"one request": with_parts_of(None), "in parts": "lancedb"}


def seconds(url: str, way: str, table: pa.Table, compression: Any) -> float:
    """Store a table, drop it again, and tell how long storing it took."""
    with rt.connect(url, api_key=KEY, dialect=WAYS[way], default=False) as client:
        client.list_tables()
        start = time.perf_counter()
        made = client.create_table("t", table, compression=compression)
        taken = time.perf_counter() - start
        made.drop()
    return taken


def main() -> None:
    """Print a line for each link."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--compression", choices=["auto", "lz4", "zstd"])
    asked = parser.parse_args()
    table = table_of("random", asked.size * MB)
    for name, link in LINKS.items():
        with contextlib.ExitStack() as opened:
            folder = opened.enter_context(tempfile.TemporaryDirectory())
            service = opened.enter_context(Process(Path(folder)))
            url = service.caller.url
            port = int(service.caller.url.rpartition(":")[2])
            if link is not None:
                url = f"http://127.0.0.1:{opened.enter_context(linked(port, link))}"
            seconds(url, "in parts", table, asked.compression)
            took: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(asked.times):
                for way, times in took.items():
                    times.append(seconds(url, way, table, asked.compression))
        one, parts = (statistics.median(times) for times in took.values())
        taken = f"one request {one:6.2f} s, in parts {parts:6.2f} s"
        print(f"{name:<18} {taken}, ratio {one / parts:.2f}", flush=True)


if __name__ == "__main__":
    main()
