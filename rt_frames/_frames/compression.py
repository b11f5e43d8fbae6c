"""Which codec gets the data there soonest: decided batch by batch, from what this upload shows.

Compressing runs beside the sending, so the slower of the two counts. How fast the link is, is seen from the
pieces that leave; how fast a codec is and what it leaves of the data, from every batch it compresses and, for
the others, from a sample now and then.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Compression = Literal["auto", "lz4", "zstd"] | None
Codec = Literal["lz4", "zstd"] | None
CODECS: tuple[Compression, ...] = ("auto", "lz4", "zstd", None)

UNSEEN = 4 * 2**20  # bytes that the system's own buffers swallow at once, which says nothing about the link
RECENT = 16  # pieces of 1 MiB; a link's speed changes
AGAIN = 8  # batches after which the codecs are sampled again; data change, too
START: Codec = "lz4"  # seldom the best, never far from it


class Figures(NamedTuple):
    """What a codec does with this data: bytes it takes in per second, and the share of them that is left."""

    rate: float
    share: float


def check_compression(compression: object) -> None:
    """Refuse what is no codec."""
    if compression not in CODECS:
        raise ValueError(f'compression: expected "auto", "lz4", "zstd" or None, got {compression!r}')


def soonest(link: float | None, figures: Mapping[Literal["lz4", "zstd"], Figures]) -> Codec:
    """Choose by the seconds that a byte of data takes; without compression where that is no slower."""
    if link is None:
        return START
    best: Codec = None
    least = 1 / link
    for codec, (rate, share) in figures.items():
        seconds = max(1 / rate, share / link)
        if seconds < least:
            best, least = codec, seconds
    return best


class Codecs:
    """The codec of each batch of one upload.

    Parameters
    ----------
    compression : "auto", "lz4", "zstd" or None
        What the caller asked for.
    fast : bool
        Whether the link is known to be faster than compressing; ``"auto"`` is then none at once.
    """

    def __init__(self, compression: Compression, *, fast: bool) -> None:
        self.adapts = compression == "auto" and not fast
        self._fixed: Codec = None if compression == "auto" else compression
        self._figures: dict[Literal["lz4", "zstd"], Figures] = {}
        self._batches = 0
        self._swallowed = 0
        self._pieces: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._link: float | None = None

    @property
    def never(self) -> bool:
        """Whether nothing of this upload is compressed."""
        return not self.adapts and self._fixed is None

    def choose(self) -> Codec:
        """Give the codec for the next batch."""
        self._batches += 1
        return soonest(self._link, self._figures) if self.adapts else self._fixed

    @property
    def wants_samples(self) -> bool:
        """Whether it is time to try the codecs on a part of the next batch."""
        return self.adapts and self._batches % AGAIN == 0

    def compressed(self, codec: Codec, before: int, after: int, seconds: float) -> None:
        """Note what a codec did with a batch or a sample."""
        if codec is not None and before:
            self._figures[codec] = Figures(before / max(seconds, 1e-9), after / before)

    def sent(self, size: int, seconds: float) -> None:
        """Note how long a piece took to leave."""
        if self._swallowed < UNSEEN:
            self._swallowed += size
            return
        self._pieces.append((size, seconds))
        self._link = sum(size for size, _ in self._pieces) / max(sum(s for _, s in self._pieces), 1e-9)
