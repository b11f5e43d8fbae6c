"""Writes in parts on the embedded service: one commit, in the order of their ids, or nothing."""

from __future__ import annotations

import random
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.local import ARROW, Caller, Process, message, stream
from tests.support.servers import KEY

BASE = pa.table({"n": [0], "s": ["base"]})


def rows(*numbers):
    return pa.table({"n": list(numbers), "s": [f"row {n}" for n in numbers]})


class Write:
    """A write in parts, by hand."""

    def __init__(self, caller, name="t"):
        self.caller, self.path = caller, f"/v1/table/{name}"
        answer = caller.send("POST", f"{self.path}/multipart_write/create/")
        assert answer.headers["phalanx-version"] == "0.4.0"
        self.id = answer.json().get("upload_id", "")
        self.answer = answer

    def part(self, table, part=None, more="", caller=None):
        query = f"upload_id={self.id}&upload_part_id={part or uuid.uuid4()}{more}"
        return (caller or self.caller).send("POST", f"{self.path}/insert/?{query}", stream(table), content_type=ARROW)

    def end(self, how="complete", caller=None):
        return (caller or self.caller).send("POST", f"{self.path}/multipart_write/{how}?upload_id={self.id}")


@pytest.fixture
def there(caller):
    caller.create("t", BASE)
    return caller


def numbers(caller):
    return caller.read("t")["n"].to_pylist()


def test_parts_are_seen_at_once_and_in_the_order_of_their_ids(there):
    write = Write(there)
    for part in ("c", "a", "b"):
        assert write.part(rows(ord(part)), f"{part}" * 8).status_code == 200
    assert numbers(there) == [0]
    assert write.end().json() == {"version": 2}
    assert numbers(there) == [0, ord("a"), ord("b"), ord("c")]
    assert there.read("t")["s"].to_pylist()[1] == "row 97"
    assert write.end().status_code == 404
    assert there.staged() == []


def test_replacing_in_parts(there):
    write = Write(there)
    replacing = pa.table({"other": [1.5]}), pa.table({"other": [2.5]})
    assert [write.part(one, f"{at}a", "&mode=overwrite").status_code for at, one in enumerate(replacing)] == [200, 200]
    assert numbers(there) == [0]
    assert write.end().status_code == 200
    assert there.read("t").to_pydict() == {"other": [1.5, 2.5]}
    assert there.alter("t", {"path": "other", "rename": "x"}).status_code == 200


def test_what_is_given_up_leaves_nothing(there):
    write = Write(there)
    write.part(rows(1))
    assert write.end("abort").status_code == 200
    assert [write.end("abort").status_code, write.end().status_code, write.part(rows(2)).status_code] == [404] * 3
    assert numbers(there) == [0]
    assert there.staged() == []


def test_what_cannot_be_is_refused(there):
    assert Write(there, "nowhere").answer.status_code == 404
    nameless = there.send(
        "POST", "/v1/table/t/insert/?upload_id=&upload_part_id=aa", stream(rows(1)), content_type=ARROW
    )
    assert nameless.status_code == 404
    write = Write(there)
    assert write.end().json() == {"version": 1}
    write = Write(there)
    assert write.part(rows(1), "aa").status_code == 200
    assert "was sent already" in message(write.part(rows(2), "aa"))
    assert "no columns 'x'" in message(write.part(pa.table({"x": [1]})))
    assert "give a UUID" in message(write.part(rows(1), "../../x"))
    assert write.part(pa.table({"x": [1]}), "bb", "&mode=overwrite").status_code == 200
    there.create("u", BASE)
    write.path = "/v1/table/u"
    assert write.end().status_code == 404
    write.path = "/v1/table/t"
    assert "some parts add rows" in message(write.end())
    write = Write(there)
    for at, one in enumerate((rows(1), pa.table({"x": [1]}))):
        write.part(one, f"{at}a", "&mode=overwrite")
    assert "different columns" in message(write.end())
    assert numbers(there) == [0]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("happens", ["cast there and back", "rename", "drop", "drop and create", "replace", "append"])
def test_a_change_in_between_is_a_conflict_or_loses_nothing(there, mode, happens):
    write = Write(there)
    assert write.part(rows(1), more=f"&mode={mode}").status_code == 200
    if happens == "cast there and back":
        for kind in ("int32", "int64"):
            there.alter("t", {"path": "n", "data_type": {"type": kind}})
    elif happens == "rename":
        there.alter("t", {"path": "n", "rename": "m"})
    elif happens.startswith("drop"):
        there.send("POST", "/v1/table/t/drop/")
        if happens.endswith("create"):
            there.create("t", BASE)
    elif happens == "replace":
        there.send("POST", "/v1/table/t/create/?mode=overwrite", stream(rows(7)), content_type=ARROW)
    else:
        there.send("POST", "/v1/table/t/insert/", stream(rows(7)), content_type=ARROW)
    before = there.read("t") if happens != "drop" else None
    if mode == "append" and happens in ("append", "replace"):
        # who replaced the table by one of the same columns has the rows added to it, as if they had come after it
        assert write.end().status_code == 200
        assert numbers(there) == ([0, 7, 1] if happens == "append" else [7, 1])
        return
    assert write.end().status_code == (404 if happens == "drop" else 409)
    if happens != "drop":
        assert there.read("t").equals(before)


def test_every_process_on_a_folder_takes_parts(tmp_path):
    with Process(tmp_path) as one, Process(tmp_path) as two, Process(tmp_path) as three:
        one.caller.create("t", BASE)
        write = Write(one.caller)
        assert write.part(rows(1), "a", caller=two.caller).status_code == 200
        assert write.part(rows(2), "b", caller=three.caller).status_code == 200
        with Process(tmp_path) as four:  # which wipes what nobody uses
            assert write.end(caller=four.caller).status_code == 200
        assert numbers(one.caller) == [0, 1, 2]
        assert write.end(caller=two.caller).status_code == 404


def test_a_part_that_comes_too_late_is_refused(there):
    """One whose body ends after its write was given up."""
    write = Write(there)
    body = stream(pa.table({"n": range(200_000), "s": ["x"] * 200_000}), rows=1000)
    with there.connect() as late:
        path = f"/v1/table/t/insert/?upload_id={write.id}&upload_part_id=aa"
        late.sendall(there.head(path, f"Content-Length: {len(body)}") + body[:-5])
        claimed = there.root / ".rt_frames-staging" / write.id / "table" / "parts" / "aa"
        while not claimed.exists():
            time.sleep(0.01)
        assert "still on its way" in message(write.end())
        late.sendall(body[-5:])
        assert b" 404 " in late.recv(1000).split(b"\r\n")[0]
    assert numbers(there) == [0]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("how", ["complete", "abort"])
def test_parts_that_meet_the_end_of_their_write_are_stored_or_refused(there, how, mode):
    for _ in range(5):
        there.send("POST", "/v1/table/t/create/?mode=overwrite", stream(BASE), content_type=ARROW)
        write = Write(there)
        callers = [Caller(there.root, there.url, there.key) for _ in range(4)]
        with ThreadPoolExecutor(5) as pool:
            sent = [pool.submit(write.part, rows(n), None, f"&mode={mode}", one) for n, one in enumerate(callers, 1)]
            ended = pool.submit(write.end, how).result().status_code
        answers = [one.result().status_code for one in sent]
        for one in callers:
            one.close()
        assert {ended, *answers} <= {200, 404, 409}
        taken = {n for n, status in enumerate(answers, 1) if status == 200}
        if how == "abort" or ended == 409:
            assert numbers(there) == [0]
        elif taken:
            assert {*numbers(there)} == taken | ({0} if mode == "append" else set())
        assert there.staged() == []


def kill_amid(tmp_path, seed):
    """Kill a service at a drawn moment of writes in parts; return how many were confirmed and how many are there."""
    random_, confirmed = random.Random(seed), []
    with Process(tmp_path) as service:
        service.caller.create("t", BASE)
        threading.Timer(random_.uniform(0.02, 0.5), service.kill).start()
        try:
            for number in range(1, 1000):
                write = Write(service.caller)
                for part in range(3):
                    assert write.part(rows(number * 10 + part), f"{part}").status_code == 200
                if write.end().status_code == 200:
                    confirmed.append(number)
        except (OSError, ValueError):
            pass
    with Process(tmp_path) as again:
        assert again.caller.staged() == []
    found = lance.dataset(str(tmp_path / "t.lance")).to_table()["n"].to_pylist()
    assert found[0] == 0
    there = [number // 10 for number in found[1::3]]
    assert found[1:] == [number * 10 + part for number in there for part in range(3)]
    assert there[: len(confirmed)] == confirmed
    assert len(there) <= len(confirmed) + 1
    return len(confirmed)


@pytest.mark.parametrize("count", [4, pytest.param(50, marks=pytest.mark.long)])
def test_a_service_that_is_killed_has_all_parts_of_a_write_or_none(tmp_path, count):
    assert sum(kill_amid(tmp_path / str(seed), seed) for seed in range(count)) > 0


def test_the_official_client_writes_in_parts(tmp_path):
    import lancedb

    big = pa.table({"n": range(300_000), "s": ["x" * 20] * 300_000})
    with Process(tmp_path) as service:
        service.caller.create("t", BASE)
        table = lancedb.connect("db://x", api_key=KEY, host_override=service.caller.url).open_table("t")
        table.add(big, write_parallelism=3)
        assert table.count_rows() == 300_001
        assert sorted(numbers(service.caller)) == [0, *range(300_000)][:1] + sorted([0, *range(300_000)])[1:]
        table.add(big, mode="overwrite", write_parallelism=3)
        assert sorted(numbers(service.caller)) == list(range(300_000))
        assert service.caller.staged() == []


def test_a_write_that_nobody_used_for_a_day_is_given_up(there):
    import os

    first = Write(there)
    parts = there.root / ".rt_frames-staging" / first.id / "table" / "parts"
    os.utime(parts, (time.time() - 90_000,) * 2)
    second = Write(there)
    assert [path.name for path in there.staged()] == [second.id]
    assert first.end().status_code == 404
    second.end("abort")


def test_our_own_client_writes_in_parts_to_it(tmp_path):
    from rt_frames._http.dialects import LANCEDB

    with Process(tmp_path) as service:
        dialect = LANCEDB._replace(part_bytes=2**20)
        with rt.connect(service.caller.url, api_key=KEY, default=False) as plain:
            client = rt.Client(plain.url, api_key=KEY, dialect=dialect)
            made = pa.table({"n": range(10**6), "k": pa.array(["a", "b"] * 500_000)})
            batches = (made.slice(at, 50_000) for at in range(0, 10**6, 50_000))
            assert client.create_table("t", batches, compression=None).version == 2
            assert service.caller.read("t").equals(made)
            client.create_table("t", iter([made[:10]]), if_exists="replace")
            client.create_table("t", iter([made[10:30]]), if_exists="append")
            assert service.caller.read("t").equals(made[:30])
            client.close()
