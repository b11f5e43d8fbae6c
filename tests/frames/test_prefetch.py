"""An iterator one step ahead of its reader, and work on several threads: in order, and no thread stays."""

from __future__ import annotations

import gc
import random
import threading
import time
import weakref

import pytest

from rt_frames._prefetch import parallel_map, prefetch


def prefetch_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "rt_frames prefetch"]


def workers() -> int:
    return sum(thread.name == "rt_frames worker" for thread in threading.enumerate())


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


def in_parallel(work, items, threads: int = 4, is_cheap=lambda item: False):
    return parallel_map(lambda: work, iter(items), threads, is_cheap)


def test_what_several_threads_make_comes_in_order():
    def slow(item: int) -> tuple[int, str]:
        time.sleep(random.Random(item).uniform(0, 0.005))
        return item, threading.current_thread().name

    made = list(in_parallel(slow, range(100)))
    assert [item for item, _ in made] == list(range(100))
    assert {name for _, name in made} == {"rt_frames worker"}
    assert workers() == 0


def test_threads_are_at_work_side_by_side():
    meeting = threading.Barrier(2)
    assert len(list(in_parallel(lambda _: meeting.wait(30), range(20), threads=2))) == 20


def test_nothing_but_what_is_worth_it_leaves_the_thread_and_one_thread_makes_all_itself():
    def where(_) -> threading.Thread:
        return threading.current_thread()

    here = threading.current_thread()
    assert set(in_parallel(where, range(9), is_cheap=lambda _: True)) == {here}
    assert set(in_parallel(where, range(9), threads=1)) == {here}
    first, second, *_, last = in_parallel(where, range(9), is_cheap=lambda item: item != 1)
    assert first is here
    assert here not in (second, last)


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt("mine"), SystemExit(3)], ids=repr)
def test_what_the_work_on_an_item_raises_comes_out_in_its_place(error):
    def work(item: int) -> int:
        if item == 5:
            raise error
        return item

    got, steps = [], Steps(1000)
    with pytest.raises(type(error)) as raised:
        got.extend(in_parallel(work, steps()))
    assert raised.value is error
    assert got == list(range(5))
    assert workers() == 0
    assert steps.made <= 11


@pytest.mark.parametrize("ends", ["closed", "source"])
def test_a_reader_that_stops_and_a_source_that_fails_end_the_threads(ends):
    reading = in_parallel(lambda item: item, Steps(3, ValueError("mine"))() if ends == "source" else range(1000))
    assert next(reading) == 0
    if ends == "closed":
        reading.close()
    else:
        with pytest.raises(ValueError, match="mine"):
            list(reading)
    assert workers() == 0


def test_no_more_is_made_ahead_than_the_reader_waits_for():
    steps = Steps(1000)
    reading = in_parallel(lambda item: item, steps())
    for got in range(50):
        assert next(reading) == got
        time.sleep(0.01)
    assert steps.made <= 53
    reading.close()
    quick, busy = Steps(1000), threading.Semaphore(0)
    reading = in_parallel(lambda item: busy.acquire() and item, quick())
    threading.Timer(0.1, busy.release, [1000]).start()
    assert next(reading) == 0
    assert quick.made <= 5
    reading.close()


class Rows:
    """What can be told to be gone."""


def test_items_and_what_was_made_of_them_are_let_go_of():
    known: list[weakref.ref] = []

    def rows():
        for _ in range(50):
            item = Rows()
            known.append(weakref.ref(item))
            yield item
            del item

    most = 0
    for made in in_parallel(lambda _: Rows(), rows()):
        known.append(weakref.ref(made))
        most = max(most, sum(each() is not None for each in known))
    del made
    assert most <= 12
    assert [each for each in known if each() is not None] == []


def test_an_error_holds_no_item_once_it_was_dropped():
    gc.disable()
    try:
        known: list[weakref.ref] = []

        def work(item: Rows) -> None:
            known.append(weakref.ref(item))
            raise ValueError

        with pytest.raises(ValueError) as raised:  # noqa: PT011
            list(in_parallel(work, (Rows() for _ in range(3))))
        del raised
        assert [each for each in known if each() is not None] == []
    finally:
        gc.enable()
