"""How fast ``compression="auto"`` is on a link, beside the best fixed codec.

It imports the policy, because no test can have a hundred real links of known speed.
"""

from __future__ import annotations

import math
import random

import pytest

from rt_frames._frames.compression import CompressionPolicy, LinkMemory
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
LOCAL = {"round_trip": 0.0002}


def best(link, upload):
    """Give the seconds of the best codec."""
    ways = (CompressionPolicy(codec, LinkMemory()) for codec in CODECS)
    return min(
        SimulatedUpload(link=SimulatedLink(**link), **upload).run(policy)
        for policy in ways
    )


def shares(link, upload, **how):
    """Return what share of the best codec's speed two uploads of a client reach."""
    memory, found = LinkMemory(), []
    for _ in range(2):
        policy = CompressionPolicy("auto", memory, **how)
        found.append(
            best(link, upload)
            / SimulatedUpload(link=SimulatedLink(**link), **upload).run(policy)
        )
    return found


def draw(seed, rates, sizes):
    """Draw a steady link and an upload, from ranges of MB/s and MB.

    Buffers have up to 2 MB, and processors one core to many.
    """
    drawn = random.Random(seed)
    rate, size = (
        math.exp(drawn.uniform(*map(math.log, span))) * MB for span in (rates, sizes)
    )
    held = {name: drawn.choice([0.25, 0.5, 1]) * MB for name in ("queue", "socket")}
    data, factor = (
        drawn.choice([MIXED, NUMBERS, TEXT, RANDOM, CONSTANT]),
        drawn.uniform(0.6, 1.6),
    )
    data = {codec: (speed * factor, share) for codec, (speed, share) in data.items()}
    return {
        "rate": rate,
        "round_trip": math.exp(drawn.uniform(*map(math.log, (0.001, 0.1)))),
        **held,
    }, {
        "data": data,
        "size": size,
        "threads": drawn.choice([1, 2, 4, 8]),
    }


@pytest.mark.parametrize(
    ("rates", "sizes", "is_loopback", "usual", "least"),
    [
        ((1, 125), (40, 400), False, 0.97, 0.85),
        ((450, 550), (200, 400), False, 0.9, 0.7),
        ((1, 125), (40, 400), True, 0.92, 0.8),
    ],
    ids=[
        "to the internet",
        "in a data center",
        "through a tunnel that begins on this machine",
    ],
)
def test_auto_is_never_far_slower_than_the_best_codec_on_a_steady_link(
    rates, sizes, is_loopback, usual, least
):
    drawn = [draw(seed, rates, sizes) for seed in range(16)]
    found = sorted(
        share
        for one in drawn
        if best(*one) > 0.3
        for share in shares(*one, is_loopback=is_loopback)
    )
    assert found[len(found) // 2] >= usual
    assert found[0] >= least


@pytest.mark.parametrize(
    "changes", [(12.5, 1, 250), (250, 0.5, 12.5), (1250, 0.2, 30), (30, 0.5, 500)]
)
def test_auto_follows_a_link_that_changes(changes):
    rate, after, later = changes
    for data in (MIXED, NUMBERS, TEXT):
        first, _ = shares(
            {"rate": rate * MB, "changes": [(after, later * MB)]},
            {"data": data, "size": 500 * MB},
        )
        assert first >= 0.9


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    "service", [(80, 90, 100), (110, 140, 160), (70, 150, 200), (250, 350, 400)]
)
def test_auto_does_not_take_a_busy_service_on_this_machine_for_a_slow_link(
    service, threads
):
    """The service takes so much data per second, and less if it must decompress."""
    takes = dict(zip(CODECS, [rate * MB for rate in service], strict=True))
    link = {"rate": takes[None], "service": takes, **LOCAL}
    assert (
        min(
            shares(
                link,
                {"data": MIXED, "size": 300 * MB, "threads": threads},
                is_loopback=True,
            )
        )
        >= 0.95
    )


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_seen_a_codec_and_a_size_come_of_it(seed):
    drawn, memory = random.Random(seed), LinkMemory()
    for _ in range(5):
        policy = CompressionPolicy("auto", memory, is_loopback=drawn.random() < 0.5)
        for _ in range(500):
            codec = (
                policy.next_codec() if drawn.random() < 0.8 else drawn.choice(CODECS)
            )
            sizes = [drawn.choice([0, 1, 2**15, 2**21, 2**34]) for _ in range(2)]
            policy.record(
                codec,
                *sizes,
                *(drawn.choice([0.0, 1e-9, 0.001, 0.03, 5.0, 1e6]) for _ in range(2)),
            )
            assert policy.next_codec() in CODECS
            assert 2**18 <= policy.batch_bytes <= 2**24
