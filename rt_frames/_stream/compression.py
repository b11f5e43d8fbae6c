"""Find the fastest codec and size of batches, by hill climbing on bytes per second.

Compressing and sending run in parallel, and the slower of the two sets the pace. If
the sender waits for batches, try the next faster codec; if it waits for the link, a
stronger one; keep the codec that gets more data through. After each failed trial, a
codec waits longer for its next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rt_frames._stream.batching import (
    LOOPBACK_BATCH_BYTES,
    MIN_BATCH_BYTES,
    SMALL_BATCH_BYTES,
    TARGET_BATCH_BYTES,
)

Compression = Literal["auto", "lz4", "zstd"] | None
Codec = Literal["zstd", "lz4"] | None

# from the smallest output to the fastest
LADDER: tuple[Codec, ...] = ("zstd", "lz4", None)
# factor by which a codec must beat another to replace it
GAIN = 1.04
# a codec waits this many times as long as its failed trial took
PATIENCE = 8
# it does not wait if it was this many times as fast: the link has changed
CHANGE = 1.5
# the least evidence of a codec's speed
PROBE_BATCHES = 3
PROBE_SECONDS = 0.02
# bytes; network buffers swallow this much before the link's speed shows
SWALLOWED_BYTES = 5 * 2**20
# bytes per second; faster than this is not a tunnel but a service that shares the
# processor
LOOPBACK_RATE = 180e6
# faster batches grow, as each has an overhead
BATCH_SECONDS = 0.004
# bytes; a last batch of a few rows tells nothing
TINY = 2**14


def check_compression(compression: object) -> None:
    """Raise ValueError for an unknown codec."""
    if compression not in ("auto", "lz4", "zstd", None):
        raise ValueError(
            f'compression: expected "auto", "lz4", "zstd" or None, got {compression!r}'
        )


@dataclass
class LinkMemory:
    """What the uploads of one client learned about its link. Threads may share it.

    Attributes
    ----------
    rung : int or None
        Index in LADDER at which the next upload starts.
    patience : dict
        Seconds until a rung may be tried again.
    """

    rung: int | None = None
    patience: dict[int, float] = field(default_factory=dict)


class CompressionPolicy:
    """Chooses the codec and the size of each batch of one upload.

    Parameters
    ----------
    requested : "auto", "lz4", "zstd" or None
        The caller's option.
    memory : LinkMemory or None
        What earlier uploads learned about the link, updated by ``"auto"``. None for a
        service in the same process, to which there is no link.
    nbytes : int or None
        The size of the data, if known: with a single batch, nothing can adapt.
    is_loopback : bool
        Whether the address is this machine's. Its service shares the processor, so
        the first upload begins uncompressed; but it may be a tunnel to elsewhere.

    Attributes
    ----------
    requested : "auto", "lz4", "zstd" or None
        As above.
    adapts : bool
        Whether the codec may change from batch to batch.
    disabled : bool
        Whether nothing is compressed.
    link_known : bool
        Whether an earlier upload learned something about the link.
    batch_bytes : int
        The size of the next batch.
    """

    def __init__(
        self,
        requested: Compression,
        memory: LinkMemory | None,
        nbytes: int | None = None,
        *,
        is_loopback: bool = False,
    ) -> None:
        self._memory = memory or LinkMemory()
        self._is_loopback = is_loopback
        self.requested = requested
        self.link_known = self._memory.rung is not None
        rung = self._first_rung()
        one_batch = TINY if LADDER[rung] else MIN_BATCH_BYTES
        is_one_batch = nbytes is not None and nbytes <= one_batch
        is_auto = requested == "auto"
        self.adapts = is_auto and memory is not None and not is_one_batch
        self.disabled = requested is None or (is_auto and not self.adapts)
        if self.disabled:
            rung = LADDER.index(None)
        self.batch_bytes = self._first_batch_bytes()
        # bytes of data per second, last measured
        self._rates: dict[int, float] = {}
        # during a trial: the rung to return to
        self._rival: int | None = None
        # bytes; seconds since the last trial began or ended
        self._sent = 0
        self._since = 0.0
        swallowed = SWALLOWED_BYTES if LADDER[rung] else 4 * LOOPBACK_BATCH_BYTES
        self._use(rung, swallowed)

    def _first_rung(self) -> int:
        if self.requested != "auto":
            return LADDER.index(self.requested)
        if self._memory.rung is not None:
            return self._memory.rung
        return LADDER.index(None if self._is_loopback else "zstd")

    def _first_batch_bytes(self) -> int:
        if self.disabled:
            return TARGET_BATCH_BYTES
        if not self.adapts:
            return SMALL_BATCH_BYTES
        if self._is_loopback and not self.link_known:
            return LOOPBACK_BATCH_BYTES
        return MIN_BATCH_BYTES

    def next_codec(self) -> Codec:
        """Return the codec for the next batch."""
        return LADDER[self._rung]

    def record(
        self, codec: Codec, before: int, after: int, sending: float, waiting: float
    ) -> None:
        """Record a batch that was sent.

        Parameters
        ----------
        codec : Codec
            The batch's codec.
        before, after : int
            The batch's bytes before and after compression.
        sending, waiting : float
            The seconds that the batch took to be sent, and that the sender had waited
            for it.
        """
        if not self.adapts or codec != self.next_codec() or before < TINY:
            return
        self._sent += after
        self._resize(sending + waiting)
        self._batches += 1
        self._data += before
        self._sending += sending
        self._waiting += waiting
        seconds = self._sending + self._waiting
        if self._batches < PROBE_BATCHES or seconds < PROBE_SECONDS:
            return
        rate = self._data / seconds
        is_late = self._waiting > self._sending
        filling = self._filling
        self._since += seconds
        self._restart(filling=filling and self._sent <= self._full_at)
        if self._rival is None:
            if not filling:
                self._climb(rate, is_late=is_late)
        # buffers make a link seem faster, never slower
        elif not filling or rate < GAIN * self._rates[self._rival]:
            self._end_trial(rate, self._rival)

    def _use(self, rung: int, swallowed: int | None) -> None:
        """Switch to a rung of the ladder.

        ``swallowed`` is how many bytes network buffers take; None if they are full.
        """
        self._rung = rung
        self._full_at = self._sent + (swallowed or 0)
        self._restart(filling=swallowed is not None)

    def _restart(self, *, filling: bool) -> None:
        self._filling = filling
        self._batches = 0
        self._data = 0
        self._sending = self._waiting = 0.0

    def _climb(self, rate: float, *, is_late: bool) -> None:
        """Start a trial of another codec, unless one failed recently."""
        rung = self._rung
        patience = self._memory.patience
        self._rates[rung] = rate
        # the smallest output first
        candidates = range(rung)
        if is_late:
            candidates = range(rung + 1, min(rung + 2, len(LADDER)))
        if self._is_loopback and self.next_codec() is None and rate > LOOPBACK_RATE:
            candidates = range(0)
        for candidate in candidates:
            has_waited = self._since >= patience.get(candidate, 0)
            if has_waited or self._rates.get(candidate, 0) > CHANGE * rate:
                self._rival = rung
                self._since = 0.0
                self.batch_bytes = MIN_BATCH_BYTES
                self._use(candidate, SWALLOWED_BYTES if is_late else None)
                return
        self._memory.rung = rung
        self.batch_bytes = max(self.batch_bytes, MIN_BATCH_BYTES)

    def _end_trial(self, rate: float, rival: int) -> None:
        """Keep the better codec. The other waits at least twice as long as before."""
        tried = self._rung
        patience = self._memory.patience
        better = rival
        worse = tried
        if rate >= GAIN * self._rates[rival]:
            better = tried
            worse = rival
        self._rates[tried] = rate
        self._memory.rung = better
        patience[worse] = max(2 * patience.get(worse, 0), PATIENCE * self._since)
        patience.pop(better, None)
        self._rival = None
        self._since = 0.0
        self._use(better, None)

    def _resize(self, seconds: float) -> None:
        """Choose a batch size that takes milliseconds.

        Smaller batches have more overhead, larger ones react late.
        """
        codec = self.next_codec()
        largest = TARGET_BATCH_BYTES
        if not self._rates:
            largest = MIN_BATCH_BYTES
        elif codec:
            largest = SMALL_BATCH_BYTES
        if seconds < BATCH_SECONDS:
            if self._rival is None and (codec or self._sent > SWALLOWED_BYTES):
                self.batch_bytes = min(2 * self.batch_bytes, largest)
        elif seconds > 4 * BATCH_SECONDS and self.batch_bytes > MIN_BATCH_BYTES:
            self.batch_bytes //= 2
