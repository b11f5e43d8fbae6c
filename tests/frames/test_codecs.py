"""Which codec is chosen, and that every choice arrives whole."""

from __future__ import annotations

import threading

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames._frames.compression import UNSEEN, Codecs, Figures, soonest
from rt_frames._prefetch import prefetch

MB = 10**6
USUAL = {"lz4": Figures(1500 * MB, 0.69), "zstd": Figures(480 * MB, 0.46)}


@pytest.mark.parametrize(
    ("link", "figures", "codec"),
    [
        (None, {}, "lz4"),
        (None, USUAL, "lz4"),
        (12.5 * MB, USUAL, "zstd"),
        (125 * MB, USUAL, "zstd"),
        (500 * MB, USUAL, "lz4"),
        (1250 * MB, USUAL, "lz4"),
        (2000 * MB, USUAL, None),
        (10_000 * MB, USUAL, None),
        (12.5 * MB, {"lz4": Figures(1500 * MB, 1.01), "zstd": Figures(480 * MB, 1.0)}, None),
        (12.5 * MB, {"lz4": Figures(1500 * MB, 0.5), "zstd": Figures(10 * MB, 0.1)}, "lz4"),
        (12.5 * MB, {"lz4": Figures(5 * MB, 0.5), "zstd": Figures(5 * MB, 0.1)}, None),
        (100 * MB, {}, None),
    ],
)
def test_the_codec_that_gets_the_data_there_soonest_is_chosen(link, figures, codec):
    assert soonest(link, figures) == codec


def on_link(rate: float) -> Codecs:
    codecs = Codecs("auto", fast=False)
    for codec, (fast, share) in USUAL.items():
        codecs.compressed(codec, 1000, int(1000 * share), 1000 / fast)
    for _ in range(UNSEEN // 2**20):
        codecs.sent(2**20, 1e-6)
    for _ in range(16):
        codecs.sent(2**20, 2**20 / rate)
    return codecs


@pytest.mark.parametrize(("rate", "codec"), [(12.5 * MB, "zstd"), (500 * MB, "lz4"), (4000 * MB, None)])
def test_what_the_systems_buffers_swallow_says_nothing_about_the_link(rate, codec):
    assert on_link(rate).choose() == codec


def test_the_choice_follows_a_link_whose_speed_changes():
    codecs = on_link(4000 * MB)
    assert codecs.choose() is None
    for _ in range(16):
        codecs.sent(2**20, 2**20 / (12.5 * MB))
    assert codecs.choose() == "zstd"


@pytest.mark.parametrize("asked", ["lz4", "zstd", None])
def test_a_codec_that_was_asked_for_is_kept(asked):
    codecs = Codecs(asked, fast=False)
    for _ in range(16):
        codecs.sent(2**20, 10.0)
    assert (codecs.choose(), codecs.adapts, codecs.wants_samples) == (asked, False, False)


def test_auto_on_a_fast_link_is_none_at_once():
    codecs = Codecs("auto", fast=True)
    assert (codecs.choose(), codecs.never) == (None, True)


FRAMES = {
    "numbers": pl.DataFrame({"a": np.arange(5_000_000) % 7, "b": np.arange(5_000_000.0)}),
    "words": pl.DataFrame({"word": [f"w{i % 300}" for i in range(400_000)]}),
    "categories": pl.DataFrame({"word": pl.Series([f"w{i % 300}" for i in range(400_000)], dtype=pl.Categorical)}),
    "empty": pl.DataFrame(schema={"a": pl.Int64}),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("compression", ["auto", "lz4", "zstd", None])
def test_whatever_is_chosen_the_same_data_arrive(remote, server, kind, compression):
    remote._fast = False
    rt.to_table(FRAMES[kind], "t", compression=compression)
    got = pl.from_arrow(pa.ipc.open_stream(server.posts[0].body).read_all())
    assert got.cast({c: pl.String for c in got.columns if c == "word"}).equals(
        FRAMES[kind].cast({c: pl.String for c in got.columns if c == "word"})
    )


def test_auto_compresses_what_shrinks_off_loopback(remote, server):
    remote._fast = False
    rt.to_table(pl.DataFrame({"a": np.zeros(500_000)}), "t")
    assert len(server.posts[0].body) < 400_000


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_batch_that_does_not_shrink_goes_uncompressed(remote, server, codec):
    noise = pl.DataFrame({"a": np.random.default_rng(0).integers(0, 2**63, 100_000)})
    rt.to_table(noise, "t", compression=codec)
    rt.to_table(noise, "t", compression=None)
    assert server.posts[0].body == server.posts[1].body


def prefetch_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "rt_frames prefetch"]


class Steps:
    """A generator of numbers that tells how far it came, and whether it was closed."""

    def __init__(self, count: int, error: BaseException | None = None) -> None:
        self.made, self.closed, self._count, self._error = 0, False, count, error

    def __call__(self):
        try:
            for step in range(self._count):
                self.made += 1
                yield step
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True


def test_everything_comes_in_order_and_no_thread_stays():
    steps = Steps(100)
    assert list(prefetch(steps())) == list(range(100))
    assert (steps.closed, prefetch_threads()) == (True, [])


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt("mine"), SystemExit(3)], ids=repr)
def test_what_the_source_raises_comes_out_as_it_is(error):
    steps = Steps(3, error)
    got = []
    with pytest.raises(type(error)) as raised:
        got.extend(prefetch(steps()))
    assert raised.value is error
    assert (steps.closed, prefetch_threads()) == (True, [])


def test_a_reader_that_stops_closes_the_source_and_ends_the_thread():
    steps = Steps(1000)
    reading = prefetch(steps())
    assert [next(reading), next(reading)] == [0, 1]
    reading.close()
    assert (steps.closed, prefetch_threads()) == (True, [])
    assert steps.made <= 3


def test_an_error_of_the_reader_closes_the_source_and_ends_the_thread():
    steps = Steps(1000)
    reading = prefetch(steps())
    next(reading)
    with pytest.raises(RuntimeError, match="of the reader"):
        reading.throw(RuntimeError("of the reader"))
    assert (steps.closed, prefetch_threads()) == (True, [])


def test_a_generator_is_read_on_the_thread_of_its_caller(remote):
    threads = []

    def frames():
        for _ in range(3):
            threads.append(threading.current_thread())
            yield pl.DataFrame({"a": [1]})

    rt.to_table(frames(), "t", compression="lz4")
    assert set(threads) == {threading.current_thread()}
