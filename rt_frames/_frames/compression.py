"""Which codec gets the data there fastest: decided batch by batch, from what this upload shows.

Compressing runs beside the sending, so the slower of the two counts. How fast the link is, is seen from the
writes; how fast a codec is and what it leaves of the data, from every batch it compresses and, for the others,
from a sample now and then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Literal, NamedTuple

Compression = Literal["auto", "lz4", "zstd"] | None
Codec = Literal["lz4", "zstd"] | None

SOCKET_BUFFER_BYTES = 4 * 2**20  # what the system takes at once, which says nothing about the link
RECENT_WRITES = 16  # a link's speed changes
BATCHES_PER_SAMPLE = 8  # data change, too
FIRST_CODEC: Codec = "lz4"  # seldom the best, never far from it


class CodecStats(NamedTuple):
    """What a codec does with this data: bytes it takes in per second, and the share of them that is left."""

    rate: float
    share: float


def check_compression(compression: object) -> None:
    """Refuse what is not a codec."""
    if compression not in ("auto", "lz4", "zstd", None):
        raise ValueError(f'compression: expected "auto", "lz4", "zstd" or None, got {compression!r}')


def fastest_codec(link: float | None, stats: Mapping[Literal["lz4", "zstd"], CodecStats]) -> Codec:
    """Choose by the seconds that a byte of data takes; without compression where that is no slower."""
    if link is None:
        return FIRST_CODEC
    best: Codec = None
    least = 1 / link
    for codec, (rate, share) in stats.items():
        seconds = max(1 / rate, share / link)
        if seconds < least:
            best, least = codec, seconds
    return best


class CompressionPolicy:
    """The codec of each batch of one upload; a subclass may choose otherwise.

    Parameters
    ----------
    requested : "auto", "lz4", "zstd" or None
        What the caller asked for.
    fast_link : bool
        Whether the link is known to be faster than compressing; ``"auto"`` is then none at once.

    Attributes
    ----------
    disabled : bool
        Whether nothing of this upload is compressed.
    """

    def __init__(self, requested: Compression, *, fast_link: bool) -> None:
        self.requested = requested
        self.adapts = requested == "auto" and not fast_link
        self._fixed: Codec = None if requested == "auto" else requested
        self.disabled = self._fixed is None and not self.adapts
        self._stats: dict[Literal["lz4", "zstd"], CodecStats] = {}
        self._batches = 0
        self._buffered = 0
        self._writes: deque[tuple[int, float]] = deque(maxlen=RECENT_WRITES)
        self._link: float | None = None

    def next_codec(self) -> Codec:
        """Give the codec for the next batch."""
        self._batches += 1
        return fastest_codec(self._link, self._stats) if self.adapts else self._fixed

    @property
    def wants_samples(self) -> bool:
        """Whether it is time to try the codecs on a part of the next batch."""
        return self.adapts and self._batches % BATCHES_PER_SAMPLE == 0

    def record_compression(self, codec: Codec, before: int, after: int, seconds: float) -> None:
        """Note what a codec did with a batch or a sample."""
        if codec is not None and before:
            self._stats[codec] = CodecStats(before / max(seconds, 1e-9), after / before)

    def record_write(self, nbytes: int, seconds: float) -> None:
        """Note how long a piece took to leave."""
        if self._buffered < SOCKET_BUFFER_BYTES:
            self._buffered += nbytes
            return
        self._writes.append((nbytes, seconds))
        self._link = sum(size for size, _ in self._writes) / max(sum(s for _, s in self._writes), 1e-9)
