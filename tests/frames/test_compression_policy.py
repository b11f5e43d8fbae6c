"""How fast ``compression="auto"`` is on a link, beside the best fixed codec.

It imports the policy, because no test can have a hundred real links of known speed. The
uploads are computed: threads make batches, a few ahead of the one that is sent; the
sender writes them into a socket, which accepts as much as it has room for at once, and
the rest as the link drains it. Nothing is random.
"""

from __future__ import annotations

import collections
import heapq
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from rt_frames._stream.compression import Codec, CompressionPolicy, LinkMemory

MB = 10**6
COPYING = 5000 * MB  # bytes per second into a socket that has room
PER_BATCH = 150e-6  # seconds that a batch costs, however small

# by codec: input bytes per second, and compressed bytes per input byte
Figures = Mapping[Codec, tuple[float, float]]

# measured with one thread of a small machine
MIXED = {"zstd": (300 * MB, 0.29), "lz4": (650 * MB, 0.487)}
NUMBERS = {"zstd": (293 * MB, 0.432), "lz4": (768 * MB, 0.62)}
TEXT = {"zstd": (230 * MB, 0.303), "lz4": (400 * MB, 0.53)}
RANDOM = {"zstd": (3300 * MB, 1.0), "lz4": (3500 * MB, 1.0)}
CONSTANT = {"zstd": (7000 * MB, 0.0001), "lz4": (5500 * MB, 0.004)}
DATA = (MIXED, NUMBERS, TEXT, RANDOM, CONSTANT)
CODECS = ("zstd", "lz4", None)


@dataclass
class SimulatedLink:
    """The link between a client and a service.

    Parameters
    ----------
    rate : float
        Bytes per second.
    round_trip : float
        Seconds.
    queue : float
        Bytes that the link holds.
    socket : float
        Bytes that the sender's socket holds.
    changes : sequence of (seconds, rate)
        Later rates, and the seconds since the upload began at which they start.
    service : mapping of codec to float
        Bytes of data per second that the service processes, if it shares this machine's
        processor and is slower than the link.
    """

    rate: float
    round_trip: float = 0.02
    queue: float = MB
    socket: float = MB / 2
    changes: Sequence[tuple[float, float]] = ()
    service: Mapping[Codec, float] | None = None
    _now: float = field(default=0, init=False)
    _held: float = field(default=0, init=False)

    def begin(self) -> float:
        """Open a connection, and return the seconds that this took."""
        self._now = self.round_trip
        self._held = 0
        return self._now

    def _rate(self) -> float:
        rates = [rate for after, rate in self.changes if after <= self._now]
        return [self.rate, *rates][-1]

    def _pass(self, until: float) -> None:
        edges = [after for after, _ in self.changes if self._now < after < until]
        for edge in [*edges, until]:
            self._held = max(0, self._held - self._rate() * (edge - self._now))
            self._now = edge

    def _drain(self, left: float) -> float:
        """Let time pass until the link holds no more than this."""
        while self._held - left > 1:
            done = self._now + (self._held - left) / self._rate()
            edges = [after for after, _ in self.changes if after > self._now]
            self._pass(min([*edges, done]))
        return self._now

    def write(self, start: float, batch: Batch) -> float:
        """Return the time at which all bytes have left the sender."""
        self._pass(start)
        nbytes = batch.after
        if self.service:  # as many bytes as would occupy the link for that long
            nbytes = max(nbytes, batch.before * self.rate / self.service[batch.codec])
        while nbytes > 0:
            room = self.queue + self.socket - self._held
            # the kernel wakes a writer only when there is enough room
            wanted = min(nbytes, self.socket / 3)
            if room < wanted - 1:
                self._drain(self.queue + self.socket - wanted)
                continue
            taken = min(nbytes, room)
            self._held += taken
            self._pass(self._now + taken / COPYING)
            nbytes -= taken
        return self._now

    def finish(self) -> float:
        """Return the time at which the response has arrived."""
        return self._drain(0) + self.round_trip


@dataclass
class Batch:
    """A batch: when it was ready, its size before and after, and its codec."""

    ready: float
    before: float
    after: float
    codec: Codec


@dataclass
class SimulatedUpload:
    """An upload. `run` returns its seconds.

    Parameters
    ----------
    data : mapping
        By codec, the input bytes per second of one thread, and compressed bytes per
        input byte. A later part of the data may have its own figures.
    size : float
        Bytes.
    link : SimulatedLink
        The link.
    threads : int
        How many threads make batches.
    source : float
        Bytes per second at which the source yields data.
    """

    data: Figures
    size: float
    link: SimulatedLink
    # first byte of other data, and its figures
    later: tuple[float, Figures] | None = None
    threads: int = 1
    source: float = math.inf

    def run(self, policy: CompressionPolicy) -> float:
        sent = self.link.begin()
        self._free = [sent] * self.threads
        self._came = sent
        coming = collections.deque([self._make(sent, policy)])
        ahead = 1
        while (batch := coming.popleft()) is not None:
            start = max(sent, batch.ready)
            if batch.ready <= sent:
                ahead = max(ahead - 1, 1)
            else:
                ahead = min(ahead + 1, self.threads)
            # one more waits to be sent
            while len(coming) < (ahead + 1 if self.threads > 1 else 1):
                coming.append(self._make(start, policy))
            waited = start - sent
            sent = self.link.write(start, batch)
            policy.record(
                batch.codec, int(batch.before), int(batch.after), sent - start, waited
            )
        return self.link.finish()

    def _make(self, now: float, policy: CompressionPolicy) -> Batch | None:
        made = sum(self._sizes)
        size = min(self.size - made, policy.batch_bytes)
        if size <= 0:
            return None
        self._sizes.append(size)
        data = self.later[1] if self.later and made >= self.later[0] else self.data
        codec = policy.next_codec()
        rate, share = data[codec] if codec else (math.inf, 1.0)
        self._came = max(now, self._came) + size / self.source
        ready = max(self._came, heapq.heappop(self._free)) + PER_BATCH + size / rate
        heapq.heappush(self._free, ready)
        return Batch(ready, size, size * share, codec)

    def __post_init__(self) -> None:
        self._sizes: list[float] = []


def seconds(link: dict, upload: dict, policy: CompressionPolicy) -> float:
    return SimulatedUpload(link=SimulatedLink(**link), **upload).run(policy)


def best(link: dict, upload: dict) -> float:
    """Give the seconds of the best codec."""
    policies = [CompressionPolicy(codec, LinkMemory()) for codec in CODECS]
    return min(seconds(link, upload, policy) for policy in policies)


def shares(link: dict, upload: dict, is_loopback: bool = False) -> list[float]:
    """Return what share of the best codec's speed two uploads of a client reach."""
    memory = LinkMemory()
    found = []
    for _ in range(2):
        policy = CompressionPolicy("auto", memory, is_loopback=is_loopback)
        found.append(best(link, upload) / seconds(link, upload, policy))
    return found


def logarithmic(drawn: random.Random, low: float, high: float) -> float:
    return math.exp(drawn.uniform(math.log(low), math.log(high)))


def draw(seed: int, rates: tuple, sizes: tuple) -> tuple[dict, dict]:
    """Draw a steady link and an upload, from ranges of MB/s and MB.

    Buffers have up to 2 MB, and processors one core to many.
    """
    drawn = random.Random(seed)
    link = {
        "rate": logarithmic(drawn, *rates) * MB,
        "round_trip": logarithmic(drawn, 0.001, 0.1),
        "queue": drawn.choice([0.25, 0.5, 1]) * MB,
        "socket": drawn.choice([0.25, 0.5, 1]) * MB,
    }
    factor = drawn.uniform(0.6, 1.6)
    data = {}
    for codec, (speed, share) in drawn.choice(DATA).items():
        data[codec] = (speed * factor, share)
    upload = {
        "data": data,
        "size": logarithmic(drawn, *sizes) * MB,
        "threads": drawn.choice([1, 2, 4, 8]),
    }
    return link, upload


@pytest.mark.parametrize(
    ("rates", "sizes", "is_loopback", "usual", "least"),
    [
        # to the internet
        ((1, 125), (40, 400), False, 0.97, 0.85),
        # in a data center
        ((450, 550), (200, 400), False, 0.9, 0.7),
        # through a tunnel that begins on this machine
        ((1, 125), (40, 400), True, 0.92, 0.8),
    ],
)
def test_auto_is_never_far_slower_than_the_best_codec_on_a_steady_link(
    rates, sizes, is_loopback, usual, least
):
    found = []
    for seed in range(16):
        link, upload = draw(seed, rates, sizes)
        if best(link, upload) > 0.3:
            found += shares(link, upload, is_loopback)
    assert statistics.median_high(found) >= usual
    assert min(found) >= least


@pytest.mark.parametrize(
    ("rate", "after", "later", "data"),
    [
        (12.5, 1, 250, MIXED),
        (250, 0.5, 12.5, NUMBERS),
        (1250, 0.2, 30, TEXT),
        (30, 0.5, 500, MIXED),
    ],
)
def test_auto_follows_a_link_that_changes(rate, after, later, data):
    link = {"rate": rate * MB, "changes": [(after, later * MB)]}
    first, _ = shares(link, {"data": data, "size": 500 * MB})
    assert first >= 0.9


@pytest.mark.parametrize(
    ("zstd", "lz4", "plain", "threads"),
    [
        (80, 90, 100, 1),
        (110, 140, 160, 4),
        (70, 150, 200, 1),
        (250, 350, 400, 4),
    ],
)
def test_auto_does_not_take_a_busy_service_on_this_machine_for_a_slow_link(
    zstd, lz4, plain, threads
):
    """The service takes so much data per second, and less if it must decompress."""
    takes = {"zstd": zstd * MB, "lz4": lz4 * MB, None: plain * MB}
    link = {"rate": plain * MB, "service": takes, "round_trip": 0.0002}
    upload = {"data": MIXED, "size": 300 * MB, "threads": threads}
    assert min(shares(link, upload, is_loopback=True)) >= 0.95


SIZES = [0, 1, 2**15, 2**21, 2**34]
TIMES = [0.0, 1e-9, 0.001, 0.03, 5.0, 1e6]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_seen_a_codec_and_a_size_come_of_it(seed):
    drawn = random.Random(seed)
    memory = LinkMemory()
    for _ in range(5):
        policy = CompressionPolicy("auto", memory, is_loopback=drawn.random() < 0.5)
        for _ in range(500):
            codec = drawn.choice([*CODECS, *[policy.next_codec()] * 12])
            sizes = drawn.choices(SIZES, k=2)
            policy.record(codec, *sizes, *drawn.choices(TIMES, k=2))
            assert policy.next_codec() in CODECS
            assert 2**18 <= policy.batch_bytes <= 2**24
