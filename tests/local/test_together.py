"""Callers of the embedded service at the same time, and alterations that are refused: S05 to S07."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import requests

import rt_frames as rt
from tests.support.compare import stored
from tests.support.local import ARROW, TABLE, Caller, Process, message, stream

# S05 to S07


def test_s05_of_four_creates_of_one_name_one_succeeds_and_its_table_is_whole(caller):
    tables = [pa.table({"n": [i] * 50_000}) for i in range(4)]
    for turn in range(5):
        callers = [Caller(caller.root, caller.url, caller.key) for _ in tables]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda one, table, name=f"t{turn}": one.create(name, table), callers, tables))
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        assert all("already exists" in message(answer) for answer in answers if answer.status_code == 409)
        won = next(i for i, answer in enumerate(answers) if answer.status_code == 200)
        assert caller.read(f"t{turn}").equals(tables[won])
        for one in callers:
            one.close()


def test_s05_a_taken_name_is_refused_before_the_body_is_read(caller):
    caller.create("t", TABLE)
    with caller.connect() as connection:
        connection.sendall(caller.head("/v1/tables/t", f"Content-Length: {2**40}"))
        started = time.monotonic()
        answer = connection.recv(65536)
        assert time.monotonic() - started < 2
    assert b" 409 " in answer.split(b"\r\n")[0]
    assert b"Connection: close" in answer


def test_s06_alters_at_once_are_done_one_after_the_other_and_none_is_lost(caller):
    caller.create("t", pa.table({f"c{i}": [i] for i in range(8)}))
    callers = [Caller(caller.root, caller.url, caller.key) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda one, i: one.alter("t", {"path": f"c{i}", "rename": f"d{i}"}), callers, range(8)))
    for one in callers:
        one.close()
    assert sorted(answer.json()["version"] for answer in answers) == list(range(2, 10))
    assert caller.read("t").to_pylist() == [{f"d{i}": i for i in range(8)}]


def test_s06_alters_to_one_name_at_once_leave_one_column_of_that_name(caller):
    for turn in range(5):
        caller.create(f"t{turn}", pa.table({"a": [1], "b": [2]}))
        callers = [Caller(caller.root, caller.url, caller.key) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            answers = list(
                pool.map(
                    lambda one, old, name=f"t{turn}": one.alter(name, {"path": old, "rename": "x"}),
                    callers,
                    "ab",
                )
            )
        for one in callers:
            one.close()
        assert sorted(answer.status_code for answer in answers) == [200, 400]
        assert sorted(caller.read(f"t{turn}").column_names) in (["b", "x"], ["a", "x"])


def test_s06_alters_of_two_processes_at_once_are_both_done_or_one_is_a_conflict(caller):
    caller.create("t", pa.table({f"c{i}": range(1000) for i in range(20)}))
    with Process(caller.root) as other:
        start = threading.Barrier(2)

        def alternate(one: Caller, columns: range) -> list[int]:
            start.wait()
            return [one.alter("t", {"path": f"c{i}", "data_type": {"type": "int32"}}).status_code for i in columns]

        with ThreadPoolExecutor(2) as pool:
            runs = [
                pool.submit(alternate, caller, range(0, 20, 2)),
                pool.submit(alternate, other.caller, range(1, 20, 2)),
            ]
        even, odd = (run.result() for run in runs)
    statuses = list(itertools.chain(*zip(even, odd, strict=True)))
    assert set(statuses) <= {200, 409}
    assert statuses.count(200) >= 10
    after = caller.read("t")
    assert [str(t) for t in after.schema.types] == ["int32" if status == 200 else "int64" for status in statuses]
    assert all(column.to_pylist() == list(range(1000)) for column in after.columns)


def test_s06_one_bad_alteration_in_a_list_leaves_all_columns_as_they_were(caller):
    caller.create("t", TABLE)
    good = [
        {"path": "n", "rename": "m"},
        {"path": "n", "data_type": {"type": "int8"}},
        {"path": "k", "nullable": True},
    ]
    for first, bad in itertools.product(
        good, ({"path": "text", "data_type": {"type": "int8"}}, {"path": "x", "rename": "y"})
    ):
        for alterations in ([first, bad], [bad, first]):
            answer = caller.alter("t", *alterations)
            assert answer.status_code == 400
            assert bad["path"] in message(answer)
    assert caller.version("t") == 1
    assert caller.read("t").equals(TABLE)


@pytest.mark.parametrize("name", ["", "\0", "x\0y", "a.b", "text", "_rowid", "a\nb", "\ud800", "`", 7, ["x"], True])
def test_s07_a_bad_new_name_is_refused_and_changes_nothing(caller, name):
    caller.create("t", TABLE)
    answer = caller.alter("t", {"path": "n", "rename": name})
    assert answer.status_code == 400
    assert "'n'" in message(answer)
    assert caller.version("t") == 1
    assert caller.read("t").equals(TABLE)


def replace(one: Caller, number: int) -> requests.Response:
    body = stream(pa.table({"n": [number] * 1000}))
    return one.send("POST", "/v1/table/t/create/?mode=overwrite", body, content_type=ARROW)


def test_one_process_describes_and_alters_a_table_that_another_replaces(caller):
    replace(caller, 0)
    with Process(caller.root) as other, ThreadPoolExecutor(1) as pool:
        replacing = pool.submit(lambda: [replace(other.caller, i).json()["version"] for i in range(1, 31)])
        altered, described = [], []
        while not replacing.done() or len(altered) < 5:
            answer = caller.alter("t", {"path": "n", "data_type": {"type": "int32"}})
            assert answer.status_code == 200
            altered.append(answer.json()["version"])
            answer = caller.send("POST", "/v1/table/t/describe/", "{}").json()
            described.append(answer["version"])
            assert [field["type"] for field in answer["schema"]["fields"]] in ([{"type": "int32"}], [{"type": "int64"}])
            assert len(set(caller.read("t")["n"].to_pylist())) == 1
    versions = sorted(altered + replacing.result())
    assert versions == list(range(2, len(versions) + 2))
    assert described == sorted(described)
    assert set(caller.read("t")["n"].to_pylist()) == {30}


def test_a_table_that_another_process_drops_and_creates_is_whole_or_not_there(caller):
    with Process(caller.root) as other, ThreadPoolExecutor(2) as pool:

        def drop_and_create() -> list[int]:
            drop = "/v1/table/t/drop/"
            return [
                answer.status_code
                for i in range(20)
                for answer in (replace(other.caller, i), other.caller.send("POST", drop))
            ]

        def change() -> list[int]:
            alteration = {"path": "n", "data_type": {"type": "int32"}}
            return [
                answer.status_code for i in range(20) for answer in (caller.alter("t", alteration), replace(caller, i))
            ]

        both = [pool.submit(drop_and_create), pool.submit(change)]
        while not all(one.done() for one in both):
            with contextlib.suppress(ValueError, OSError):  # it is not there now
                assert len(set(caller.read("t")["n"].to_pylist())) == 1
    statuses = both[0].result() + both[1].result()
    assert set(statuses) <= {200, 404}
    assert statuses.count(200) >= 60
    for name in caller.tables():
        assert caller.read(name).num_rows == 1000
    assert replace(caller, 1).status_code == 200


def test_memory_that_is_used_again_mixes_no_values(client, service, name):
    def frame(seed: int) -> pa.Table:
        rng = np.random.default_rng(seed)
        return pa.table({"n": rng.integers(0, 2**62, 6_000_000), "x": rng.normal(size=6_000_000)})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda seed: rt.to_table(frame(seed), f"{name}_{seed}", client=client), range(3)))
    for seed in range(3):
        assert stored(service, f"{name}_{seed}").equals(frame(seed))
