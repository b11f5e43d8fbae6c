"""Which codec gets the data there fastest: decided batch by batch, from who waits for whom.

Compressing runs beside the sending, so the slower of the two counts: a codec that takes in ``rate`` bytes per second
and leaves ``share`` of them gets ``min(rate, link / share)`` bytes through. How fast the link is, shows in two ways:

- The sender waits for the link: what leaves meanwhile is its rate.
- The sender waits for the codec: the link may be faster. But buffers on the way take megabytes at once, so only what
  leaves beyond them tells. Then a quicker codec is tried, and if that one waits for the link, its rate is known.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

Compression = Literal["auto", "lz4", "zstd"] | None
Codec = Literal["zstd-6", "zstd", "lz4"] | None

LADDER: tuple[Codec, ...] = ("zstd-6", "zstd", "lz4", None)  # from the smallest result to the quickest
WORTH = 0.96  # each step that costs more work must gain more than the rest,
STAY = 1.02  # and each change, too

HELD_BYTES = 5 * 2**20  # what buffers on the way hold where the socket's own is kept small; seldom more
SEEN_BYTES, SEEN_SECONDS = 2**20, 0.02  # what must leave while the link holds up, for its rate to be known
NEAR_RATE = 180e6  # on loopback a rate above this is the service's own: it shares the processor with the compressing,
# which then gains nothing,
SLOW_RATE = 40e6  # and below this it is a link's
TRIED_BYTES = 4 * 2**20  # of data, after which a codec that is tried has shown what it gets through
OF_LATE = 0.6  # how much of what was waited counts at the next batch
FORGET_BYTES = 64 * 2**20  # data change: when so much left as it was, codecs that were of no use are tried again
SMALLEST_BATCH, LARGEST_BATCH = 2 * 2**20, 16 * 2**20
FIRST_NEAR_BATCH = 2**18  # what left uncompressed before a tunnel showed, took longer than it had to
SETTLED = 4  # batches, after which they may grow
TINY = 2**14  # bytes: what leaves at once anyway


def check_compression(compression: object) -> None:
    """Refuse what is not a codec."""
    if compression not in ("auto", "lz4", "zstd", None):
        raise ValueError(f'compression: expected "auto", "lz4", "zstd" or None, got {compression!r}')


class CodecStats(NamedTuple):
    """What a codec does with this data: bytes it takes in per second, and the share of them that is left."""

    rate: float
    share: float

    def through(self, link: float) -> float:
        """Return the bytes of data that get through per second, on a link of so many bytes per second."""
        return min(self.rate, link / self.share)


class Known(NamedTuple):
    """What is known of a link: the codec that did best, the rate, and the bytes until a quicker codec is tried.

    ``taken`` is how many bytes of data the service takes in per second, where that is less than the link's rate.
    """

    codec: Codec
    link: float = math.inf
    patience: int = HELD_BYTES
    taken: float = math.inf


@dataclass
class LinkMemory:
    """What one client's uploads saw of its link, for the next one to begin with. Threads may share it."""

    known: Known | None = None


class CompressionPolicy:
    """The codec of each batch of one upload; a subclass may choose otherwise.

    Parameters
    ----------
    requested : "auto", "lz4", "zstd" or None
        What the caller asked for.
    memory : LinkMemory or None
        What is known of the link, to which ``"auto"`` adds; None where there is no link, within one process.
    nbytes : int or None
        How much will be sent, where that is known: with a batch or less there is nothing to adapt.
    near : bool
        Whether the address is this machine's. The first upload then begins uncompressed, and stays so until the
        link proves slow: a tunnel may begin here and end elsewhere.

    Attributes
    ----------
    disabled : bool
        Whether nothing of this upload is compressed.
    adapts : bool
        Whether the codec may change from batch to batch.
    link_known : bool
        Whether an upload before this one saw the link.
    batch_bytes : int
        How large the next batch should be.
    """

    def __init__(
        self, requested: Compression, memory: LinkMemory | None, nbytes: int | None = None, *, near: bool = False
    ) -> None:
        self._memory = memory or LinkMemory()
        codec, self._link, self._patience, self._taken = self._memory.known or Known(None if near else "zstd")
        if codec is None and self._link < NEAR_RATE and not near:
            codec = "zstd"  # what was sent before may have been data that do not shrink
        one_batch = nbytes is not None and nbytes <= (TINY if codec else SMALLEST_BATCH)
        self.requested, self.link_known = requested, self._memory.known is not None
        self.adapts = requested == "auto" and memory is not None and not one_batch
        self.disabled = requested is None or (requested == "auto" and not self.adapts)
        self._stats: dict[Codec, CodecStats] = {}
        self._seen: set[Codec] = set()  # codecs whose rate is what left, not what one batch took
        self._total = 0  # bytes that left, by whichever codec
        self._near, self._kept = near, codec is not None  # what compressing promised: an upload before saw it
        self._left: tuple[float, float] | None = None  # for a smaller codec: the link's rate, and what got through then
        self._codec: Codec = None if self.disabled else codec if requested == "auto" else requested
        self._use(self._codec)
        if near and not self.link_known:
            self.batch_bytes = FIRST_NEAR_BATCH
        if not self.adapts:
            self.batch_bytes = LARGEST_BATCH if self.disabled else 2 * SMALLEST_BATCH

    def _use(self, codec: Codec) -> None:
        self._tries = self._link == math.inf and codec != self._codec
        self._codec = codec
        self._sent, self._batches, self.batch_bytes = 0, 0, SMALLEST_BATCH
        self._sending = self._waiting = 0.0  # seconds, of late
        self._free = (0, 0.0)  # bytes and seconds, since the codec holds up
        self._full: list[tuple[float, int]] = []  # seconds and bytes of each batch, since the link holds up
        self._through = (0, 0.0, 0.0)  # batches, bytes of data and seconds, for what the codec gets through
        self._before = 0.0  # seconds that the batch before took to leave
        self._rate = self._link if self._link < math.inf else 0.0  # of the link, at the last look

    def next_codec(self) -> Codec:
        """Return the codec for the next batch."""
        return self._codec

    def record_compression(self, codec: Codec, before: int, after: int, seconds: float) -> None:
        """Note what a codec did with a batch."""
        if before < 4 * TINY:
            return  # a last batch of a few rows shows nothing
        rate, share = before / max(seconds, 1e-9), max(after, 1) / before
        old = self._stats.get(codec, CodecStats(rate, share))
        seen = old.rate if codec in self._seen else (old.rate + rate) / 2
        self._stats[codec] = CodecStats(seen, (old.share + share) / 2)

    def record_write(self, codec: Codec, nbytes: int, seconds: float, waited: float) -> None:
        """Note how long a batch took to leave, and how long the sender had waited for it to be made."""
        if not self.adapts or codec != self._codec:
            return
        self._batches += 1
        self._resize(seconds + waited)
        self._sent += nbytes
        self._total += nbytes
        if self._sent > FORGET_BYTES:
            self._sent, self._taken = HELD_BYTES, math.inf
            kept = self._stats.get(codec)  # another thread may add to them
            self._stats = {} if kept is None else {codec: kept}
            self._seen &= {codec}
        # batches that are made side by side are ready side by side: one is waited for, and the next ones are not
        self._sending, self._waiting = OF_LATE * self._sending + seconds, OF_LATE * self._waiting + waited
        quicker = False
        if self._near and codec is None and waited > seconds / 4:
            self._full = []  # a source that takes the processor makes the service slow, too
        if self._waiting > self._sending:
            self._see_through(nbytes, waited)
            quicker = self._codec_held_up(nbytes, seconds + waited)
        elif waited <= seconds and self._total - nbytes >= SEEN_BYTES:  # the first of a connection has its round trip
            self._link_held_up(nbytes, seconds)
        self._before = seconds
        if not self._tries or self._link < math.inf:
            self._decide(quicker=quicker)

    def _decide(self, *, quicker: bool) -> None:
        """Take another codec, if it gets more through, and let the next upload begin with it."""
        codec, best = self._codec, self._best(quicker=quicker)
        if self._near and self._left and not self._kept and LADDER.index(best) > LADDER.index(codec):
            best, self._taken, self._left = None, self._left[1], None  # the promise was not kept
        if LADDER.index(best) < LADDER.index(codec):
            self._patience = 64 * HELD_BYTES
            if self._near and codec is None and self._link < SLOW_RATE:
                self._kept = True
            elif self._left is None and self._link < math.inf:
                self._left = self._link, self._stats_of(codec).through(self._link)
        elif best != codec:
            self._left = None
        if best != codec:
            self._use(best)
        # a busy service looks like a slow link, but for what a smaller codec promised, which is then not kept
        if (best is None or self._kept or not self._near) and (self._link < math.inf or self._sent > HELD_BYTES):
            self._memory.known = Known("zstd" if best == "zstd-6" else best, self._link, self._patience, self._taken)

    def _resize(self, seconds: float) -> None:
        """Let a batch take some milliseconds: small ones cost more, large ones show late that something changed."""
        settled, shortest, longest = SETTLED, 0.004, 0.016
        if self._near and self._codec is None:
            settled, shortest, longest = (SETTLED, 0.016, 0.064) if self._link < math.inf else (16, 0.001, 0.016)
        largest = LARGEST_BATCH if self._codec is None else 2 * SMALLEST_BATCH
        if self._batches >= settled and seconds < shortest:
            self.batch_bytes = min(2 * self.batch_bytes, largest)
        elif seconds > longest and self.batch_bytes > SMALLEST_BATCH:
            self.batch_bytes //= 2

    def _see_through(self, nbytes: int, waited: float) -> None:
        """Note what the codec gets through: what it does beside everything else, not what its batches took alone."""
        rate, share = self._stats_of(self._codec)
        batches, data, spent = self._through[0] + 1, self._through[1] + nbytes / share, self._through[2] + waited
        spent += self._before  # a batch was made while the one before it left
        self._through = batches, data, spent
        if batches >= SETTLED and data >= TRIED_BYTES:
            new = data / max(spent, 1e-9)
            self._stats[self._codec] = CodecStats((new + rate) / 2 if self._codec in self._seen else new, share)
            self._seen.add(self._codec)
            self._through, self._tries = (0, 0.0, 0.0), False

    def _codec_held_up(self, nbytes: int, seconds: float) -> bool:
        """Return whether more left than buffers hold, so that the link may be fast enough for a quicker codec."""
        self._full = []
        self._free = self._free[0] + nbytes, self._free[1] + seconds
        faster = self._free[0] > HELD_BYTES + self._link * self._free[1]  # than it was
        if not faster and self._free[0] <= self._patience:
            return False
        self._link, self._free = math.inf, (0, 0.0)
        if not self._near:
            self._left = None
        self._patience = HELD_BYTES if faster else self._patience
        return True

    def _link_held_up(self, nbytes: int, seconds: float) -> None:
        """See how fast the link is, and whether a smaller codec keeps its promise: the service may be the slower."""
        self._free = 0, 0.0
        self._full.append((seconds, nbytes))
        # when a service starts its engine; what left first may lie in buffers
        may_pause = self._near and self._codec is None
        counting = sorted(self._full)[:-1] if may_pause else self._full
        spent, left = (sum(part) for part in zip((0.0, 0), *counting, strict=True))
        if left < (FIRST_NEAR_BATCH if may_pause else SEEN_BYTES) or spent < SEEN_SECONDS:
            return
        rate, self._full = _median_rate(self._full[len(self._full) // 2 :]) if may_pause else left / spent, []
        self._seen.discard(self._codec)  # it would get more through
        self._link, self._rate = max(rate, self._rate), rate  # a busy machine may stop the sender for a while
        if self._left and self._sent > HELD_BYTES:
            (link, before), self._left, stats = self._left, None, self._stats_of(self._codec)
            through = self._link / stats.share
            self._kept = through >= (before + stats.through(link)) / 2
            if not self._kept:
                self._taken, self._link = max(before, through), link

    def _best(self, *, quicker: bool) -> Codec:
        """Return the codec that gets most through; where the link's rate is open, one quicker at most, if asked."""
        if self._near and (self._link > NEAR_RATE or self._taken < math.inf):
            return None
        place = LADDER.index(self._codec)
        smallest = 0 if place == 0 or (place == 1 and self._sent >= HELD_BYTES) else 1  # links begin slowly
        steps = LADDER[smallest:] if self._link < math.inf else LADDER[smallest : place + 1 + quicker]

        def worth(step: Codec) -> float:
            effort = WORTH ** (len(LADDER) - LADDER.index(step)) * (STAY if step == self._codec else 1)
            return min(self._stats_of(step).through(self._link), self._taken) * effort

        return max(reversed(steps), key=worth)

    def _stats_of(self, codec: Codec) -> CodecStats:
        """Return what was seen of a codec; else a hopeful guess: what is never tried never shows what it can do."""
        zstd = self._stats.get("zstd", CodecStats(300e6, 0.4))
        guesses = {
            "zstd-6": CodecStats(zstd.rate / 6, zstd.share * 0.9),
            "zstd": zstd,
            "lz4": CodecStats(zstd.rate * 2.5, min(zstd.share * 1.6, 1)),
            None: CodecStats(math.inf, 1),
        }
        rate, share = self._stats.get(codec, guesses[codec])
        # while the link holds up, the one in use shows no rate; where it holds up itself, what it gets through will
        return CodecStats(math.inf if codec == self._codec and codec not in self._seen else rate, share)


def _median_rate(writes: list[tuple[float, int]]) -> float:
    """Return the rate at which half of the bytes left, or faster: a pause does not tell."""
    paces = sorted((seconds / nbytes, nbytes) for seconds, nbytes in writes)
    left = itertools.accumulate(nbytes for _, nbytes in paces)
    half = sum(nbytes for _, nbytes in paces) / 2
    return 1 / next(max(pace, 1e-12) for (pace, _), passed in zip(paces, left, strict=True) if passed >= half)
