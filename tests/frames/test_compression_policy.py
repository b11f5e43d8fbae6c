"""How fast ``compression="auto"`` is on a link, beside the best fixed codec.

It imports the policy, because no test can have a hundred real links of known speed.
"""

from __future__ import annotations

import math
import random
import statistics

import pytest

from rt_frames._stream.compression import CompressionPolicy, LinkMemory
from tests.support.simulated_link import (
    CONSTANT,
    MB,
    MIXED,
    NUMBERS,
    RANDOM,
    TEXT,
    SimulatedLink,
    SimulatedUpload,
)

CODECS = ("zstd", "lz4", None)
DATA = (MIXED, NUMBERS, TEXT, RANDOM, CONSTANT)


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
