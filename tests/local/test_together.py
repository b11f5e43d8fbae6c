"""Simultaneous callers of a folder, in one process and in two: S05, S06."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
import requests

from tests.support.local import TABLE, Caller, message, stream, until


@pytest.fixture
def at_once(caller):
    """A function that makes calls at once."""

    def run(*calls):
        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(lambda call: call(caller), calls))

    return run


def cast_to_int32(one: Caller, column: str) -> requests.Response:
    return one.alter("t", {"path": column, "data_type": {"type": "int32"}})


def test_S05_of_four_creates_of_one_name_one_succeeds_and_its_table_is_whole(
    caller, at_once
):
    def create(number):
        table = pa.table({"n": [number] * 50_000})
        return lambda one: one.create("t", table)

    answers = at_once(*map(create, range(4)))
    statuses = [answer.status_code for answer in answers]
    assert sorted(statuses) == [200, 409, 409, 409]
    for answer in answers:
        if answer.status_code == 409:
            assert "already exists" in message(answer)
    assert caller.read("t")["n"].to_pylist() == [statuses.index(200)] * 50_000


def test_S05_a_taken_name_is_refused_before_the_body_is_read(caller):
    caller.create("t", TABLE)
    asked = []

    def body():
        asked.append("once")
        yield stream(TABLE)

    assert caller.create("t", body()).status_code == 409
    assert asked == []


def test_S06_alters_at_once_are_done_one_after_the_other_and_none_is_lost(
    caller, at_once
):
    caller.create("t", pa.table({f"c{i}": [i] for i in range(8)}))

    def rename(old, new):
        return lambda one: one.alter("t", {"path": old, "rename": new})

    answers = at_once(*(rename(f"c{i}", f"d{i}") for i in range(8)))
    versions = [answer.json()["version"] for answer in answers]
    assert sorted(versions) == [*range(2, 10)]
    assert caller.read("t").to_pylist() == [{f"d{i}": i for i in range(8)}]
    # to one name at once: one column has it
    answers = at_once(rename("d0", "x"), rename("d1", "x"))
    assert sorted(answer.status_code for answer in answers) == [200, 400]
    assert caller.read("t").column_names.count("x") == 1


def test_S06_S14_alters_of_two_processes_at_once_are_both_done_or_one_is_a_conflict(
    caller, other
):
    caller.create("t", pa.table({f"c{i}": range(1000) for i in range(20)}))
    start = threading.Barrier(2)

    def alternate(one: Caller, first: int) -> list[int]:
        start.wait()
        return [cast_to_int32(one, f"c{i}").status_code for i in range(first, 20, 2)]

    with ThreadPoolExecutor(2) as pool:
        even = pool.submit(alternate, caller, 0)
        odd = pool.submit(alternate, other, 1)
        statuses = [*even.result(), *odd.result()]
    assert set(statuses) <= {200, 409}
    assert statuses.count(200) >= 10
    after = caller.read("t")
    order = [*range(0, 20, 2), *range(1, 20, 2)]
    for number, status in zip(order, statuses, strict=True):
        column = after[f"c{number}"]
        assert column.type == (pa.int32() if status == 200 else pa.int64())
        assert column.to_pylist() == list(range(1000))


def replace(one: Caller, number: int) -> requests.Response:
    rows = pa.table({"n": [number] * 1000})
    return one.post_rows("t/create/?mode=overwrite", rows)


def test_one_process_describes_and_alters_a_table_that_another_replaces(caller, other):
    replace(caller, 0)
    with ThreadPoolExecutor(1) as pool:
        replacing = pool.submit(
            lambda: [replace(other, i).json()["version"] for i in range(1, 21)]
        )
        altered = []
        described = []
        while not replacing.done() or len(altered) < 5:
            answer = cast_to_int32(caller, "n")
            assert answer.status_code == 200
            altered.append(answer.json()["version"])
            answer = caller.ask("describe").json()
            described.append(answer["version"])
            (field,) = answer["schema"]["fields"]
            assert field["type"]["type"] in ("int32", "int64")
            assert len(set(caller.read("t")["n"].to_pylist())) == 1
    versions = sorted(altered + replacing.result())
    assert versions == list(range(2, len(versions) + 2))
    assert described == sorted(described)
    assert set(caller.read("t")["n"].to_pylist()) == {20}


def test_a_table_that_another_process_drops_and_creates_is_whole_or_not_there(
    caller, other
):
    def drop_and_create():
        statuses = []
        for number in range(15):
            statuses.append(replace(other, number).status_code)
            dropped = other.send("POST", "/v1/table/t/drop/")
            statuses.append(dropped.status_code)
        return statuses

    def alter_and_create():
        statuses = []
        for number in range(15):
            statuses.append(cast_to_int32(caller, "n").status_code)
            statuses.append(replace(caller, number).status_code)
        return statuses

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(drop_and_create), pool.submit(alter_and_create)]
        while not all(one.done() for one in both):
            with contextlib.suppress(ValueError, OSError):  # it is not there now
                assert len(set(caller.read("t")["n"].to_pylist())) == 1
    statuses = both[0].result() + both[1].result()
    assert set(statuses) <= {200, 404}
    assert statuses.count(200) >= 45
    assert replace(caller, 1).status_code == 200
    assert caller.read("t").num_rows == 1000


def test_S06_a_table_that_is_dropped_while_it_is_described_is_not_there(caller):
    statuses = [404]

    def describe():
        while not done.is_set():
            statuses.append(caller.ask("describe").status_code)

    done = threading.Event()
    reader = threading.Thread(target=describe, daemon=True)
    reader.start()
    for _ in range(30):
        caller.create("t", TABLE)
        until(lambda: statuses[-1] != 404)
        caller.ask("drop")
    done.set()
    reader.join()
    assert set(statuses) == {200, 404}
