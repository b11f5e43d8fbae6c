"""An iterator one step ahead of its reader: in order, closed however it ends, and no thread stays."""

from __future__ import annotations

import threading

import pytest

from rt_frames._prefetch import prefetch


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
