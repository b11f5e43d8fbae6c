"""``compression="auto"`` against each fixed codec on simulated links.

Run ``python -m tests.benchmarks.links`` for the table, which takes some minutes. One
point of it:
``--rate 60 --data text --size 100 --round-trip 80 --queue 4 --way tunnel``.

The client gets no hint. ``direct`` is an address of this machine other than loopback,
and ``tunnel`` is 127.0.0.1. Both lead through the link to a sink that discards what it
reads. In each round the ways alternate: ``"auto"`` by a new client, ``"auto"`` by the
same client again, and each codec by a new client. A ratio is the best codec's median
time divided by that of ``"auto"``: above 1, ``"auto"`` is faster than every codec.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rt_frames as rt
from tests.benchmarks._frames import WORDS
from tests.benchmarks._sinks import sink
from tests.benchmarks.link import Link, linked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MB = 10**6
# a table repeats a block of so many bytes, which no codec sees: it looks back far less
BLOCK = 64 * MB
CODECS = ("zstd", "lz4", None)


def mixed(nbytes: int) -> pa.Table:
    """Numbers and text as an ETL job has them, half of each."""
    rows = nbytes // 84
    rng = np.random.default_rng(1)
    words = [
        pa.array(WORDS).take(pa.array(rng.integers(0, len(WORDS), rows)))
        for _ in range(2)
    ]
    numbers = {
        "id": np.arange(rows),
        "count": rng.integers(0, 1000, rows),
        "x": rng.normal(size=rows),
    }
    text = {
        name: column.cast(pa.large_string())
        for name, column in zip(("place", "kind"), words, strict=True)
    }
    return pa.table({**numbers, "price": rng.integers(0, 100_000, rows) / 100, **text})


def text(nbytes: int) -> pa.Table:
    """One column of sentences, of words that are as frequent as those of a language."""
    rows = nbytes // 60
    rng = np.random.default_rng(2)
    letters = np.array(list("etaoinshrdlucmfwyp"))
    words = [
        "".join(rng.choice(letters, length)) for length in rng.integers(2, 10, 5000)
    ]
    frequency = 1 / np.arange(1, len(words) + 1)
    drawn = rng.choice(len(words), size=(8, rows), p=frequency / frequency.sum())
    words = pa.array(words, pa.large_string())
    sentences = pc.binary_join_element_wise(
        *(words.take(pa.array(one)) for one in drawn), pa.scalar(" ", words.type)
    )
    return pa.table({"text": sentences})


def random(nbytes: int) -> pa.Table:
    """Noise, which nothing compresses."""
    rng = np.random.default_rng(3)
    return pa.table({name: rng.integers(0, 2**63, nbytes // 32) for name in "abcd"})


def constant(nbytes: int) -> pa.Table:
    """Zeros, which compress to almost nothing."""
    return pa.table({name: np.zeros(nbytes // 32) for name in "abcd"})


DATA: dict[str, Callable[[int], pa.Table]] = {
    "mixed": mixed,
    "text": text,
    "random": random,
    "constant": constant,
}


def table_of(kind: str, nbytes: int) -> pa.Table:
    """Return a table of about this size in bytes."""
    block = DATA[kind](min(nbytes, BLOCK)).combine_chunks()
    table = pa.concat_tables([block] * -(-nbytes // block.nbytes))
    return table.slice(0, block.num_rows * nbytes // block.nbytes)


class Point(NamedTuple):
    """A line of the table: MB, MB/s, round trip in ms, and later rates by seconds."""

    rate: float
    size: int
    data: str = "mixed"
    way: str = "direct"
    round_trip: float = 20
    queue: float = 1
    changes: tuple[tuple[float, float], ...] = ()

    @property
    def link(self) -> Link:
        changes = tuple((after, rate * MB) for after, rate in self.changes)
        return Link(self.rate * MB, self.round_trip / 1000, self.queue * MB, changes)

    def describe(self) -> str:
        later = "".join(
            f", {rate:g} MB/s after {after:g} s" for after, rate in self.changes
        )
        link = (
            f"{self.rate:g} MB/s{later}, {self.round_trip:g} ms, {self.queue:g} MB"
            if self.rate
            else "no limit"
        )
        return f"| {link} | {self.way} | {self.data}, {self.size} MB |"


USUAL = (
    *(
        Point(rate, size)
        for rate, size in (
            (1, 10),
            (8, 40),
            (60, 100),
            (125, 200),
            (500, 200),
            (1250, 500),
        )
    ),
    *(
        Point(rate, size, way="tunnel")
        for rate, size in ((8, 40), (60, 100), (60, 200), (125, 200))
    ),
    *(Point(rate, size, "text") for rate, size in ((8, 40), (60, 100), (500, 200))),
    *(Point(60, 100, data) for data in ("random", "constant")),
    *(Point(rate, 40) for rate in (30, 125, 1250)),
    Point(60, 100, round_trip=80, queue=4),
    Point(60, 100, round_trip=2, queue=0.25),
    Point(12.5, 200, changes=((2, 250),)),
    Point(250, 400, changes=((1, 30),)),
    Point(0, 200, way="loopback"),
)


def own_address() -> str:
    """Return this machine's address in the network; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect(("192.0.2.1", 9))
        return asking.getsockname()[0]


@contextlib.contextmanager
def connecting(point: Point) -> Iterator[Callable[[], rt.Client]]:
    """Start sink and link, and yield a function that opens a new client."""
    host = own_address() if point.way == "direct" else "127.0.0.1"
    with contextlib.ExitStack() as running:
        port = running.enter_context(sink())
        port = running.enter_context(linked(port, point.link)) if point.rate else port

        def connect() -> rt.Client:
            client = rt.connect(
                f"http://{host}:{port}", api_key="k", default=False, allow_insecure=True
            )
            client.list_tables()  # opens the connection, for every way alike
            return client

        yield connect


def measure(point: Point, repeats: int) -> dict[str, float]:
    """Return the median seconds of each way.

    What takes long and varies little is repeated a third as often.
    """
    table = table_of(point.data, point.size * MB)
    times = {}
    if point.rate and point.size > 3 * point.rate:
        repeats = max(repeats // 3, 1)

    def timed(way: str, client: rt.Client, codec: Any) -> None:
        start = time.perf_counter()
        client.create_table("t", table, compression=codec, progress=False)
        times.setdefault(way, []).append(time.perf_counter() - start)

    with connecting(point) as connect:
        for _ in range(repeats):
            with connect() as client:
                timed("first", client, "auto")
                timed("second", client, "auto")
            for codec in CODECS:
                with connect() as client:
                    timed(str(codec).lower(), client, codec)
    return {way: statistics.median(taken) for way, taken in times.items()}


def show(point: Point, medians: dict[str, float]) -> None:
    """Print a line: the codecs' seconds, and the ratios of both uploads."""
    codecs = ("none",) if point.way == "loopback" else ("none", "lz4", "zstd")
    best = min(codecs, key=medians.__getitem__)
    cells = [
        f"{medians[way]:.2f}" + (" ←" if way == best else "")
        for way in ("none", "lz4", "zstd")
    ]
    cells += [f"{medians[best] / medians[which]:.2f}" for which in ("first", "second")]
    print(point.describe(), " | ".join(cells), "|", flush=True)


def _change(word: str) -> tuple[float, float]:
    after, _, rate = word.partition(":")
    return float(after), float(rate)


def main() -> None:
    parser = argparse.ArgumentParser(
        description='compression="auto" against each codec, on links'
    )
    parser.add_argument("--rate", type=float, help="MB/s; without it, the usual table")
    parser.add_argument("--size", type=int, default=100, help="MB")
    parser.add_argument("--data", choices=DATA, default="mixed")
    parser.add_argument(
        "--way", choices=("direct", "tunnel", "loopback"), default="direct"
    )
    parser.add_argument("--round-trip", type=float, default=20, help="ms")
    parser.add_argument("--queue", type=float, default=1, help="MB")
    parser.add_argument(
        "--changes", type=_change, nargs="+", default=(), metavar="SECONDS:MB/S"
    )
    parser.add_argument("--repeats", type=int, default=3)
    given = vars(parser.parse_args())
    repeats = given.pop("repeats")
    print(
        "| link | way | data | none (s) | LZ4 (s) | ZSTD (s) | first upload | second upload |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for point in USUAL if given["rate"] is None else [Point(**given)]:
        show(point, measure(point, repeats))


if __name__ == "__main__":
    main()
