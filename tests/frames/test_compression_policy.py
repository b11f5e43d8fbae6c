"""What ``compression="auto"`` gets through simulated links, beside the best fixed codec."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import threading

import pytest

import rt_frames as rt
from rt_frames._frames.compression import CompressionPolicy, LinkMemory
from tests.support.simulated_link import CONSTANT, MB, MIXED, NUMBERS, RANDOM, TEXT, SimulatedLink, SimulatedUpload

CODECS = ("zstd", "lz4", None)
DRAWS = 100
AT_LEAST = 0.3  # seconds: what takes less is over before anything can be learned


def scaled(data, factor):
    return {codec: (rate * factor, share) for codec, (rate, share) in data.items()}


def slow_start(rate, round_trip):
    """Give the rates of a connection whose window doubles with each round trip."""
    rates = itertools.takewhile(lambda now: now < rate, (15_000 * 2**trip / round_trip for trip in itertools.count()))
    return [(trip * round_trip, now) for trip, now in enumerate([*rates, rate], 1)]


def draw(seed, rates, sizes=(40, 400), buffers=(0.25, 0.5, 1, 2, 4)):
    """Draw a link and an upload: MB/s and MB, from slow machines to those with many cores, buffers up to 8 MB."""
    drawn = random.Random(seed)
    rate, size = (math.exp(drawn.uniform(*map(math.log, span))) * MB for span in (rates, sizes))
    round_trip = math.exp(drawn.uniform(math.log(0.001), math.log(0.1)))
    link = {"rate": rate, "round_trip": round_trip}
    link |= {name: drawn.choice(buffers) * MB for name in ("queue", "socket")}
    if drawn.random() < 0.3:
        link["changes"] = slow_start(rate, round_trip)
    data = drawn.choice([MIXED, NUMBERS, TEXT, RANDOM, CONSTANT])
    upload = {"data": scaled(data, drawn.uniform(0.6, 1.6)), "size": size, "threads": drawn.choice([1, 1, 2, 2, 4, 8])}
    return link, upload


def seconds(link, upload, policy):
    return SimulatedUpload(link=SimulatedLink(**link), **upload).run(policy)


def best_of(link, upload):
    return min(seconds(link, upload, CompressionPolicy(codec, LinkMemory())) for codec in CODECS)


def ratios(draws, *, is_loopback=False):
    """Give the best codec's seconds by those of a client's first and second upload: three lists, sorted."""
    firsts, seconds_ = [], []
    for link, upload in draws:
        best, memory = best_of(link, upload), LinkMemory()
        if best >= AT_LEAST:
            for found in (firsts, seconds_):
                policy = CompressionPolicy("auto", memory, is_loopback=is_loopback)
                found.append(best / seconds(link, upload, policy))
    return sorted(firsts), sorted(seconds_)


def facts(found):
    """Give median, 5th percentile and worst."""
    return statistics.median(found), found[len(found) // 20], found[0]


def at_least(found, *wanted):
    return all(got >= want for got, want in zip(facts(found), wanted, strict=True))


def test_up_to_125_mb_per_second_it_is_as_fast_as_the_best_codec():
    first, second = ratios(draw(seed, (1, 125)) for seed in range(DRAWS))
    assert at_least(first, 0.99, 0.95, 0.85), facts(first)
    assert at_least(second, 0.99, 0.95, 0.85), facts(second)


def test_at_500_mb_per_second_large_uploads_find_a_quicker_codec_on_the_way():
    first, second = ratios(draw(seed, (450, 550), (200, 500)) for seed in range(DRAWS))
    assert at_least(first, 0.93, 0.8, 0.7), facts(first)
    assert at_least(second, 0.95, 0.85, 0.75), facts(second)


def test_through_a_tunnel_that_begins_on_this_machine_it_soon_compresses():
    draws = (draw(seed, (1, 125), buffers=(0.25, 0.5, 1)) for seed in range(DRAWS))
    first, second = ratios(draws, is_loopback=True)
    assert at_least(first, 0.93, 0.85, 0.8), facts(first)
    assert at_least(second, 0.98, 0.95, 0.9), facts(second)


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("rate", [250, 400, 1000, 4000])
@pytest.mark.parametrize("data", [MIXED, NUMBERS, TEXT, RANDOM], ids=["mixed", "numbers", "text", "random"])
def test_a_service_on_this_machine_that_is_no_tunnel_is_sent_nothing_compressed(data, rate, threads):
    memory, link = LinkMemory(), {"rate": rate * MB, "round_trip": 0.0002}
    for _ in range(2):
        upload = SimulatedUpload(data, 500 * MB, SimulatedLink(**link), threads=threads)
        took = upload.run(CompressionPolicy("auto", memory, is_loopback=True))
        none = seconds(link, {"data": data, "size": 500 * MB, "threads": threads}, CompressionPolicy(None, memory))
        assert (set(upload.codecs), took <= none / 0.95) == ({None}, True)


@pytest.mark.parametrize("service", [(80, 90, 100), (110, 140, 160), (70, 150, 200), (250, 350, 400)])
def test_a_busy_service_on_this_machine_is_not_taken_for_a_slow_link(service):
    """It shares the processor: it takes so much data per second, and less of what it must decompress."""
    takes = {codec: rate * MB for codec, rate in zip(CODECS, service, strict=True)}
    link = {"rate": takes[None], "round_trip": 0.0002, "service": takes}
    first, second = ratios([(link, {"data": MIXED, "size": 300 * MB, "threads": 2})], is_loopback=True)
    assert min(first + second) >= 0.95, (first, second)


def test_a_service_that_stops_for_a_moment_is_not_taken_for_a_slow_link():
    """As when it starts its engine."""
    link = {"rate": 4000 * MB, "round_trip": 0.0002, "changes": [(0.02, 1000), (0.3, 400 * MB)]}
    for threads in (1, 2, 4):
        upload = SimulatedUpload(MIXED, 500 * MB, SimulatedLink(**link), threads=threads)
        upload.run(CompressionPolicy("auto", LinkMemory(), is_loopback=True))
        assert upload.bytes_by(None) >= 400 * MB


@pytest.mark.parametrize("changes", [(12.5, 1, 250), (250, 0.5, 12.5), (1250, 0.2, 30), (30, 0.5, 500)])
def test_a_link_that_changes_is_followed(changes):
    rate, after, later = changes
    link = {"rate": rate * MB, "changes": [(after, later * MB)]}
    first, _ = ratios((link, {"data": data, "size": 500 * MB}) for data in (MIXED, NUMBERS, TEXT))
    assert first[0] >= 0.9, first


@pytest.mark.parametrize("rate", [8, 60, 125])
@pytest.mark.parametrize("source", [3, 30])
def test_a_source_that_is_slower_than_the_link_misleads_nobody(rate, source):
    first, _ = ratios([({"rate": rate * MB}, {"data": TEXT, "size": 100 * MB, "source": source * MB})])
    assert first[0] >= 0.9, first


def test_a_remote_address_begins_with_zstd_and_loopback_with_none():
    first = [CompressionPolicy("auto", LinkMemory(), is_loopback=here).next_codec() for here in (False, True)]
    assert first == ["zstd", None]


@pytest.mark.parametrize("is_loopback", [False, True])
@pytest.mark.parametrize(("rate", "codec"), [(12.5, "zstd"), (400, "lz4"), (1250, None)])
def test_the_next_upload_begins_with_what_the_last_one_learned(rate, codec, is_loopback):
    memory = LinkMemory()
    first = CompressionPolicy("auto", memory, is_loopback=is_loopback)
    SimulatedUpload(MIXED, 300 * MB, SimulatedLink(rate * MB)).run(first)
    following = CompressionPolicy("auto", memory, is_loopback=is_loopback)
    assert following.next_codec() == (codec if rate < 180 or not is_loopback else None)


@pytest.mark.parametrize("codec", CODECS)
def test_a_codec_that_was_asked_for_is_kept_and_teaches_nothing(codec):
    memory = LinkMemory()
    upload = SimulatedUpload(MIXED, 200 * MB, SimulatedLink(MB))
    upload.run(CompressionPolicy(codec, memory))
    assert (set(upload.codecs), memory) == ({codec}, LinkMemory())


def test_what_is_too_small_to_learn_from_teaches_nothing():
    memory = LinkMemory()
    for nbytes in (None, 10_000, MB):
        policy = CompressionPolicy("auto", memory, nbytes)
        SimulatedUpload(MIXED, nbytes or 10 * MB, SimulatedLink(1250 * MB)).run(policy)
    assert memory == LinkMemory()


def test_a_last_batch_of_a_few_rows_says_nothing_about_a_codec():
    policy = CompressionPolicy("auto", LinkMemory())
    for _ in range(100):
        policy.record("zstd", 2 * MB, MB, 0.001, 0.01)
        policy.record(policy.next_codec(), 100, 160, 10.0, 0)
        if policy.next_codec() != "zstd":
            return
    pytest.fail("the sender waited for each batch, and no quicker codec was tried")


def test_without_a_link_nothing_is_compressed_unless_asked_for():
    assert CompressionPolicy("auto", None).disabled
    assert CompressionPolicy("zstd", None).next_codec() == "zstd"


@pytest.mark.parametrize(
    ("is_loopback", "nbytes", "disabled"),
    [
        (True, None, False),
        (True, 3 * MB, False),
        (True, MB, True),
        (False, MB, False),
        (False, 10_000, True),
        (False, 0, True),
    ],
)
def test_a_single_batch_leaves_nothing_to_adapt(is_loopback, nbytes, disabled):
    assert CompressionPolicy("auto", LinkMemory(), nbytes, is_loopback=is_loopback).disabled == disabled
    assert not CompressionPolicy("zstd", LinkMemory(), nbytes, is_loopback=is_loopback).disabled


@pytest.mark.parametrize("word", ["gzip", "", "ZSTD", 6, True])
def test_what_is_not_a_codec_is_refused(word):
    with pytest.raises(ValueError, match="compression: expected"):
        rt.to_table(
            {"a": [1]}, "t", compression=word, client=rt.connect("http://127.0.0.1:9", api_key="k", default=False)
        )


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_seen_a_codec_and_a_size_come_of_it(seed):
    drawn, memory = random.Random(seed), LinkMemory()
    for _ in range(5):
        policy = CompressionPolicy("auto", memory, is_loopback=drawn.random() < 0.5)
        for _ in range(1000):
            codec = policy.next_codec() if drawn.random() < 0.8 else drawn.choice(CODECS)
            before, after = (drawn.choice([0, 1, 2**15, 2**21, 2**34]) for _ in range(2))
            spent = [drawn.choice([0.0, 1e-9, 0.001, 0.03, 5.0, 1e6]) for _ in range(2)]
            policy.record(codec, before, after, *spent)
            assert policy.next_codec() in CODECS
            assert 2**18 <= policy.batch_bytes <= 2**24


def test_uploads_of_several_threads_may_share_what_they_learn():
    memory, errors = LinkMemory(), []

    def upload():
        try:
            for rate in (12.5, 1250) * 5:
                policy = CompressionPolicy("auto", memory)
                SimulatedUpload(MIXED, 100 * MB, SimulatedLink(rate * MB)).run(policy)
        except Exception as error:  # noqa: BLE001  # told to the test
            errors.append(error)

    threads = [threading.Thread(target=upload) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert CompressionPolicy("auto", memory).next_codec() in CODECS
