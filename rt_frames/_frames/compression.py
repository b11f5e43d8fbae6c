"""Find the codec that gets data through fastest, by hill climbing on bytes of data per second.

Compressing runs beside sending, and the slower of the two sets the pace. If the sender waits for batches, try the
next faster codec; if it waits for the link, a stronger one; keep whichever gets more data through. After a failed
trial, a codec waits longer each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rt_frames._frames.batch_sizes import (
    BATCH_BYTES,
    LOOPBACK_BATCH_BYTES,
    MIN_BATCH_BYTES,
    SMALL_BATCH_BYTES,
)

Compression = Literal["auto", "lz4", "zstd"] | None
Codec = Literal["zstd", "lz4"] | None

# from the smallest output to the fastest
LADDER: tuple[Codec, ...] = ("zstd", "lz4", None)
# factor by which a codec must beat another to replace it
GAIN = 1.04
# multiples of a failed trial's length until the next one;
PATIENCE = 8
# but at once if the other codec was so many times faster: the link has changed
CHANGE = 1.5
# the least evidence of a codec's speed
PROBE_BATCHES = 3
PROBE_SECONDS = 0.02
# buffers on the way absorb so many at once, which tells nothing about the link
HELD_BYTES = 5 * 2**20
# bytes per second; faster than this is not a tunnel but a service that shares the processor
LOOPBACK_RATE = 180e6
# faster batches grow, as each has an overhead
BATCH_SECONDS = 0.004
# bytes; a last batch of a few rows tells nothing
TINY = 2**14


def check_compression(compression: object) -> None:
    """Refuse what is not a codec."""
    if compression not in ("auto", "lz4", "zstd", None):
        raise ValueError(
            f'compression: expected "auto", "lz4", "zstd" or None, got {compression!r}'
        )


@dataclass
class LinkMemory:
    """What the uploads of one client learned about its link. Threads may share it.

    Attributes
    ----------
    place : int or None
        Where on the ladder the next upload begins.
    patience : dict
        Seconds until a place on the ladder may be tried again.
    """

    place: int | None = None
    patience: dict[int, float] = field(default_factory=dict)


class CompressionPolicy:
    """Choose the codec and the size of each batch of one upload; a subclass may choose otherwise.

    Parameters
    ----------
    requested : "auto", "lz4", "zstd" or None
        What the caller asked for.
    memory : LinkMemory or None
        What is known about the link, updated by ``"auto"``; None within one process, where there is no link.
    nbytes : int or None
        The size of the data, if known: a single batch leaves nothing to adapt.
    is_loopback : bool
        Whether the address is this machine's. A service there shares the processor, so the first upload begins
        uncompressed; but a tunnel may begin there, too, and end elsewhere.

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
        self.link_known = self._memory.place is not None
        first: Codec = None if is_loopback else "zstd"
        place = LADDER.index(first if requested == "auto" else requested)
        if requested == "auto" and self._memory.place is not None:
            place = self._memory.place
        one_batch = nbytes is not None and nbytes <= (
            TINY if LADDER[place] else MIN_BATCH_BYTES
        )
        self.adapts = requested == "auto" and memory is not None and not one_batch
        self.disabled = requested is None or (requested == "auto" and not self.adapts)
        self.batch_bytes = (
            LOOPBACK_BATCH_BYTES
            if is_loopback and not self.link_known
            else MIN_BATCH_BYTES
        )
        if not self.adapts:
            self.batch_bytes = BATCH_BYTES if self.disabled else SMALL_BATCH_BYTES
        # bytes of data per second, last measured
        self._rates: dict[int, float] = {}
        # during a trial: the place to return to
        self._rival: int | None = None
        # bytes; seconds since the last trial began or ended
        self._sent = 0
        self._since = 0.0
        self._use(
            LADDER.index(None) if self.disabled else place,
            HELD_BYTES if LADDER[place] else 4 * LOOPBACK_BATCH_BYTES,
        )

    def next_codec(self) -> Codec:
        """Return the codec for the next batch."""
        return LADDER[self._place]

    def record(
        self, codec: Codec, before: int, after: int, sending: float, waiting: float
    ) -> None:
        """Note a batch that left.

        Parameters
        ----------
        codec : Codec
            What compressed it.
        before, after : int
            Its bytes before and after.
        sending, waiting : float
            The seconds that it took to leave, and those that the sender had waited for it.
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
        if self._rival is None and not filling:
            self._climb(rate, is_late=is_late)
        elif self._rival is not None and (
            not filling or rate < GAIN * self._rates[self._rival]
        ):
            # buffers make a link seem faster, never slower
            self._end_trial(rate, self._rival)

    def _use(self, place: int, held: int | None) -> None:
        """Take another codec; so many bytes fill buffers on the way, which are full already if it is None."""
        self._place = place
        self._full_at = self._sent + (held or 0)
        self._restart(filling=held is not None)

    def _restart(self, *, filling: bool) -> None:
        self._filling = filling
        self._batches = 0
        self._data = 0
        self._sending = self._waiting = 0.0

    def _climb(self, rate: float, *, is_late: bool) -> None:
        """Try another codec, unless it was tried in vain a short time ago."""
        place = self._place
        patience = self._memory.patience
        self._rates[place] = rate
        # the smallest output first
        others = LADDER[place + 1 : place + 2] if is_late else LADDER[:place]
        if self._is_loopback and self.next_codec() is None and rate > LOOPBACK_RATE:
            others = ()
        for other in map(LADDER.index, others):
            if (
                self._since >= patience.get(other, 0)
                or self._rates.get(other, 0) > CHANGE * rate
            ):
                self._rival = place
                self._since = 0.0
                self.batch_bytes = MIN_BATCH_BYTES
                self._use(other, HELD_BYTES if is_late else None)
                return
        self._memory.place, self.batch_bytes = (
            place,
            max(self.batch_bytes, MIN_BATCH_BYTES),
        )

    def _end_trial(self, rate: float, rival: int) -> None:
        """Keep the better codec; the other one waits, twice as long as the last time."""
        tried = self._place
        patience = self._memory.patience
        better, worse = (
            (tried, rival) if rate >= GAIN * self._rates[rival] else (rival, tried)
        )
        self._rates[tried], self._memory.place = rate, better
        patience[worse] = max(2 * patience.get(worse, 0), PATIENCE * self._since)
        patience.pop(better, None)
        self._rival = None
        self._since = 0.0
        self._use(better, None)

    def _resize(self, seconds: float) -> None:
        """Let a batch take some milliseconds: small ones cost more, large ones show changes late."""
        largest = (
            MIN_BATCH_BYTES
            if not self._rates
            else SMALL_BATCH_BYTES
            if self.next_codec()
            else BATCH_BYTES
        )
        if (
            seconds < BATCH_SECONDS
            and self._rival is None
            and (self.next_codec() or self._sent > HELD_BYTES)
        ):
            self.batch_bytes = min(2 * self.batch_bytes, largest)
        elif seconds > 4 * BATCH_SECONDS and self.batch_bytes > MIN_BATCH_BYTES:
            self.batch_bytes //= 2
