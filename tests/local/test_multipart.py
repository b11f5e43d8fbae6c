"""Writes in parts on the embedded service: one commit, in the order of their ids, or nothing."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
import uuid

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rt_frames as rt
from rt_frames.local import LocalService
from tests.support.hosted import SMALL_PARTS
from tests.support.local import ARROW, Process, message, stream, until

BASE = pa.table({"n": [0], "s": ["base"]})


def rows(*numbers):
    return pa.table({"n": list(numbers), "s": [f"row {n}" for n in numbers]})


class Write:
    """A write in parts, by hand."""

    def __init__(self, caller, name="t"):
        self.caller, self.path = caller, f"/v1/table/{name}"
        self.answer = caller.send("POST", f"{self.path}/multipart_write/create/")
        assert self.answer.headers["phalanx-version"] == "0.4.0"
        self.id = self.answer.json().get("upload_id", "")

    def part(self, table, part=None, mode="append", caller=None):
        query = f"upload_id={self.id}&upload_part_id={part or uuid.uuid4()}&mode={mode}"
        return (caller or self.caller).send("POST", f"{self.path}/insert/?{query}", stream(table), content_type=ARROW)

    def end(self, how="complete", caller=None):
        return (caller or self.caller).send("POST", f"{self.path}/multipart_write/{how}?upload_id={self.id}")


@pytest.fixture
def there(caller):
    caller.create("t", BASE)
    return caller


def replace(caller, table):
    return caller.send("POST", "/v1/table/t/create/?mode=overwrite", stream(table), content_type=ARROW)


def numbers(caller):
    return caller.read("t")["n"].to_pylist()


@settings(max_examples=8)
@given(st.lists(st.sampled_from("0123456789abcdef"), unique=True, max_size=6), st.sampled_from(["append", "overwrite"]))
def test_parts_are_seen_at_once_and_in_the_order_of_their_ids_or_given_up(caller, parts, mode):
    version = replace(caller, BASE).json()["version"]
    for how in ("abort", "complete"):
        write = Write(caller)
        assert [write.part(rows(ord(part)), part * 8, mode).status_code for part in parts] == [200] * len(parts)
        assert numbers(caller) == [0]
        assert write.end(how).json() == ({} if how == "abort" else {"version": version + bool(parts)})
        assert [write.end().status_code, write.end("abort").status_code, write.part(rows(2)).status_code] == [404] * 3
    kept = [0] if mode == "append" or not parts else []
    assert numbers(caller) == [*kept, *map(ord, sorted(parts))]
    assert caller.staged() == []


def test_what_cannot_be_is_refused(there):
    assert Write(there, "nowhere").answer.status_code == 404
    write = Write(there)
    assert write.part(rows(1), "aa").status_code == 200
    assert "already" in message(write.part(rows(2), "aa"))
    assert "'x'" in message(write.part(pa.table({"x": [1]})))
    assert "UUID" in message(write.part(rows(1), "../../x"))
    assert write.part(pa.table({"x": [1]}), "bb", "overwrite").status_code == 200
    there.create("u", BASE)
    write.path = "/v1/table/u"
    assert write.end().status_code == 404
    write.path = "/v1/table/t"
    assert "some parts add rows" in message(write.end())
    write = Write(there)
    for part, one in (("a", rows(1)), ("b", pa.table({"x": [1]}))):
        write.part(one, part, "overwrite")
    assert "different columns" in message(write.end())
    assert numbers(there) == [0]


def test_parts_that_replace_may_have_other_columns_than_the_table(there):
    write = Write(there)
    assert [write.part(pa.table({"other": [n]}), str(n), "overwrite").status_code for n in (1, 2)] == [200, 200]
    assert write.end().status_code == 200
    assert there.alter("t", {"path": "other", "rename": "x"}).status_code == 200
    assert there.read("t").to_pydict() == {"x": [1, 2]}


def cast_there_and_back(caller):
    for kind in ("int32", "int64"):
        caller.alter("t", {"path": "n", "data_type": {"type": kind}})


HAPPENS = {
    "cast there and back": cast_there_and_back,
    "rename": lambda caller: caller.alter("t", {"path": "n", "rename": "m"}),
    "drop": lambda caller: caller.send("POST", "/v1/table/t/drop/"),
    "drop and create": lambda caller: (caller.send("POST", "/v1/table/t/drop/"), caller.create("t", BASE)),
    "replace": lambda caller: replace(caller, rows(7)),
    "append": lambda caller: caller.send("POST", "/v1/table/t/insert/", stream(rows(7)), content_type=ARROW),
}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("happens", HAPPENS)
def test_a_change_in_between_is_a_conflict_or_loses_nothing(there, mode, happens):
    write = Write(there)
    assert write.part(rows(1), mode=mode).status_code == 200
    HAPPENS[happens](there)
    before = there.read("t") if happens != "drop" else None
    ended = write.end().status_code
    if mode == "append" and happens in ("append", "replace"):
        # who replaced the table by one of the same columns has the rows added to it, as if they had come after it
        assert (ended, numbers(there)) == (200, [0, 7, 1] if happens == "append" else [7, 1])
    else:
        assert ended == (404 if happens == "drop" else 409)
        assert before is None or there.read("t").equals(before)


def test_every_process_on_a_folder_takes_parts(there, other):
    write = Write(there)
    assert write.part(rows(1), "a", caller=other).status_code == 200
    assert write.part(rows(2), "b").status_code == 200
    with LocalService(there.root):  # which wipes what nobody uses
        assert write.end(caller=other).status_code == 200
    assert numbers(there) == [0, 1, 2]
    assert write.end().status_code == 404


def test_a_part_that_comes_too_late_is_refused(there):
    """One whose body ends after its write was given up."""
    write = Write(there)
    body = stream(pa.table({"n": range(200_000), "s": ["x"] * 200_000}), rows=1000)
    with there.connect() as late:
        path = f"/v1/table/t/insert/?upload_id={write.id}&upload_part_id=aa"
        late.sendall(there.head(path, f"Content-Length: {len(body)}") + body[:-5])
        claimed = there.root / ".rt_frames-staging" / write.id / "table" / "parts" / "aa"
        until(claimed.exists)
        assert "on its way" in message(write.end())
        late.sendall(body[-5:])
        assert b" 404 " in late.recv(1000).split(b"\r\n")[0]
    assert numbers(there) == [0]


@pytest.mark.parametrize("kills", [1, pytest.param(50, marks=pytest.mark.long)])
def test_a_service_that_is_killed_has_all_parts_of_a_write_or_none(tmp_path, kills):
    confirmed = [0]
    for seed in range(kills):
        with Process(tmp_path) as service, contextlib.suppress(OSError, ValueError):
            caller = service.caller
            caller.create("t", BASE)
            threading.Timer(random.Random(seed).uniform(0.02, 0.5), service.kill).start()
            for number in range(1000 * seed + 1, 1000 * seed + 1000):
                write = Write(caller)
                for part in range(3):
                    write.part(rows(number, part), f"{part}")
                if write.end().status_code == 200:
                    confirmed.append(number)
        with LocalService(tmp_path):
            assert list((tmp_path / ".rt_frames-staging").iterdir()) == []
        found = lance.dataset(str(tmp_path / "t.lance")).to_table()["n"].to_pylist()
        there = found[1::6]
        assert found == [0] + [n for number in there for part in range(3) for n in (number, part)]
        assert set(confirmed[1:]) <= set(there)
        assert len(there) <= len(confirmed) + seed
    assert len(confirmed) > 1


def test_a_write_that_nobody_used_for_a_day_is_given_up(there):
    first = Write(there)
    parts = there.root / ".rt_frames-staging" / first.id / "table" / "parts"
    os.utime(parts, (time.time() - 90_000,) * 2)
    second = Write(there)
    assert [path.name for path in there.staged()] == [second.id]
    assert first.end().status_code == 404
    second.end("abort")


def test_our_own_client_writes_in_parts_to_it(caller):
    made = pa.table({"n": np.arange(2 * 10**5), "x": np.arange(2e5)})
    with rt.connect(caller.url, api_key=caller.key, dialect=SMALL_PARTS, default=False) as client:
        client.list_tables()  # whose answer tells that it takes parts
        assert client.create_table("t", iter(made.to_batches(5000)), compression=None).version == 2
    assert caller.read("t").equals(made)
