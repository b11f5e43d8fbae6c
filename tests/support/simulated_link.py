"""A computed upload: how long a compression policy takes on a link.

Threads make batches, a few ahead of the one that is sent. The sender writes them into a
socket, which accepts as much as it has room for at once, and the rest as the link
drains it. Nothing is random.
"""

from __future__ import annotations

import collections
import heapq
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MB = 10**6
COPYING = 5000 * MB  # bytes per second into a socket that has room
PER_BATCH = 150e-6  # seconds that a batch costs, however small

Codec = Literal["lz4", "zstd"] | None
# by codec: input bytes per second, and compressed bytes per input byte
Figures = "Mapping[Codec, tuple[float, float]]"

# measured with one thread of a small machine
MIXED = {"zstd": (300 * MB, 0.29), "lz4": (650 * MB, 0.487)}
NUMBERS = {"zstd": (293 * MB, 0.432), "lz4": (768 * MB, 0.62)}
TEXT = {"zstd": (230 * MB, 0.303), "lz4": (400 * MB, 0.53)}
RANDOM = {"zstd": (3300 * MB, 1.0), "lz4": (3500 * MB, 1.0)}
CONSTANT = {"zstd": (7000 * MB, 0.0001), "lz4": (5500 * MB, 0.004)}


class Policy(Protocol):
    """A compression policy, as an upload asks it."""

    batch_bytes: int

    def next_codec(self) -> Codec:
        """Choose the codec of the next batch."""

    def record(
        self, codec: Codec, before: int, after: int, seconds: float, waited: float
    ) -> None:
        """Learn how long a batch took."""


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
        return (
            [self.rate] + [rate for after, rate in self.changes if after <= self._now]
        )[-1]

    def _pass(self, until: float) -> None:
        for edge in [
            after for after, _ in self.changes if self._now < after < until
        ] + [until]:
            self._held = max(0, self._held - self._rate() * (edge - self._now))
            self._now = edge

    def _drain(self, left: float) -> float:
        """Let time pass until the link holds no more than this."""
        while self._held - left > 1:
            done = self._now + (self._held - left) / self._rate()
            self._pass(
                min([after for after, _ in self.changes if after > self._now] + [done])
            )
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
    """An upload. `run` returns its seconds and sets `codecs`, by batch.

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
    codecs: list[Codec] = field(default_factory=list)

    def run(self, policy: Policy) -> float:
        sent = self.link.begin()
        self._free = [sent] * self.threads
        self._came = sent
        coming = collections.deque([self._make(sent, policy)])
        ahead = 1
        while (batch := coming.popleft()) is not None:
            start = max(sent, batch.ready)
            ahead = (
                max(ahead - 1, 1)
                if batch.ready <= sent
                else min(ahead + 1, self.threads)
            )
            # one more waits to be sent
            while len(coming) < (ahead + 1 if self.threads > 1 else 1):
                coming.append(self._make(start, policy))
            waited = start - sent
            sent = self.link.write(start, batch)
            policy.record(
                batch.codec, int(batch.before), int(batch.after), sent - start, waited
            )
        return self.link.finish()

    def _make(self, now: float, policy: Policy) -> Batch | None:
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
        self.codecs.append(codec)
        return Batch(ready, size, size * share, codec)

    def __post_init__(self) -> None:
        self._sizes: list[float] = []

    def bytes_by(self, codec: Codec) -> float:
        """Return how many bytes of data a codec compressed."""
        return sum(
            size
            for size, used in zip(self._sizes, self.codecs, strict=True)
            if used == codec
        )
