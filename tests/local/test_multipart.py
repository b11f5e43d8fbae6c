"""Multipart writes: one commit, in order of ids, or nothing."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.local import (
    ARROW,
    UPSERT,
    Caller,
    Process,
    Write,
    age,
    message,
    stream,
    unnamed,
    until,
)

INT8 = pa.int8()
BASE = pa.table({"n": [0], "s": ["base"]})


def rows(*numbers):
    return pa.table({"n": list(numbers), "s": [f"row {n}" for n in numbers]})


class Late:
    """A call whose body stops before its end, until it is finished."""

    def __init__(self, call, body: bytes) -> None:
        self._going = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._answer = self._pool.submit(call, self._pieces(body))

    def _pieces(self, body):
        yield body[:-5]
        assert self._going.wait(60)
        yield body[-5:]

    def finish(self) -> int:
        """Send the end; return the status."""
        self._going.set()
        with self._pool:
            return self._answer.result().status_code


@pytest.fixture
def there(caller):
    caller.create("t", BASE)
    return caller


def replace(caller, table):
    return caller.post_rows("t/create/?mode=overwrite", table)


def numbers(caller):
    return caller.read("t")["n"].to_pylist()


@settings(max_examples=8)
@given(
    st.lists(st.sampled_from("0123456789abcdef"), unique=True, max_size=6),
    st.sampled_from(["append", "overwrite"]),
)
def test_parts_are_seen_at_once_and_in_the_order_of_their_ids_or_given_up(
    caller, parts, mode
):
    version = replace(caller, BASE).json()["version"]
    for how in ("abort", "complete"):
        write = Write(caller)
        assert [
            write.part(rows(ord(part)), part * 8, mode).status_code for part in parts
        ] == [200] * len(parts)
        assert numbers(caller) == [0]
        found = write.end(how).json()
        told = {} if how == "abort" else {"version": version + bool(parts)}
        assert found == told
        assert [
            write.end().status_code,
            write.end("abort").status_code,
            write.part(rows(2)).status_code,
        ] == [404] * 3
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


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_part_that_arrives_twice_is_stored_once(there, mode):
    write = Write(there)
    for part in ("a", "b", "a", "b"):
        assert write.part(rows(ord(part)), part, mode).status_code == 200
    assert write.end().json() == {"version": 2}
    assert numbers(there)[-2:] == [97, 98]
    assert len(numbers(there)) == (3 if mode == "append" else 2)


@pytest.mark.parametrize(
    ("second", "mode"),
    [(rows(2), "append"), (rows(1, 1), "append"), (rows(1), "overwrite")],
)
def test_a_part_of_other_content_needs_an_id_of_its_own(there, second, mode):
    write = Write(there)
    assert write.part(rows(1), "a").status_code == 200
    refused = write.part(second, "a", mode)
    assert "already sent, with other content" in message(refused, 409)
    assert write.end().json() == {"version": 2}
    assert numbers(there) == [0, 1]


@pytest.mark.parametrize("ends", ["before the commit", "after it"])
def test_a_part_that_arrives_again_need_not_wait_for_its_first_arrival(there, ends):
    write = Write(there)
    slow = Late(lambda body: write.part(body, "a"), stream(rows(1)))
    until(lambda: write.arriving("a"))
    assert write.part(rows(1), "a").status_code == 200
    if ends == "before the commit":
        assert slow.finish() == 200
    assert write.end().json() == {"version": 2}
    if ends == "after it":
        assert slow.finish() == 404
    assert numbers(there) == [0, 1]


def test_a_part_is_known_to_the_next_process(tmp_path):
    with Process(tmp_path) as first:
        first.caller.create("t", BASE)
        write = Write(first.caller)
        assert write.part(rows(1), "a").status_code == 200
        first.kill()
    with Process(tmp_path) as second:
        assert write.part(rows(1), "a", caller=second.caller).status_code == 200
        assert write.part(rows(2), "a", caller=second.caller).status_code == 409
        assert write.end(caller=second.caller).status_code == 200
        assert numbers(second.caller) == [0, 1]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_parts_are_written_to_a_table_without_rows(caller, mode):
    caller.create("t", BASE[:0])
    write = Write(caller)
    for number, part in enumerate((rows(1), BASE[:0], rows(2))):
        assert write.part(part, str(number), mode).status_code == 200
    assert write.end().json() == {"version": 2}
    assert numbers(caller) == [1, 2]


def test_parts_that_replace_may_have_other_columns_than_the_table(there):
    write = Write(there)
    assert [
        write.part(pa.table({"other": [n]}), str(n), "overwrite").status_code
        for n in (1, 2)
    ] == [200, 200]
    assert write.end().status_code == 200
    assert there.alter("t", {"path": "other", "rename": "x"}).status_code == 200
    assert there.read("t").to_pydict() == {"x": [1, 2]}


def cast(caller, *types, column="n"):
    for name in types:
        caller.alter("t", {"path": column, "data_type": {"type": name}})


def add(caller, name, arrow=INT8):
    empty = pa.schema({name: arrow}).empty_table()
    return caller.post_rows("t/add_columns/", empty)


def drop_and_add(caller):
    caller.ask("drop_columns", columns=["s"])
    add(caller, "s", pa.string())


def cast_and_restore(caller):
    cast(caller, "large_string", column="s")
    caller.ask("restore", version=1)


MERGE = f"t/merge_insert/?on=n&{UPSERT}"
HAPPENS = {  # a change, and how a write in parts that adds rows ends after it
    "cast there and back": (lambda caller: cast(caller, "int32", "int64"), 409),
    "rename": (lambda caller: caller.alter("t", {"path": "s", "rename": "m"}), 409),
    "add": (lambda caller: add(caller, "new"), 409),
    "drop": (lambda caller: caller.ask("drop_columns", columns=["s"]), 409),
    "drop and add": (drop_and_add, 409),
    "cast and restore": (cast_and_restore, 200),
    "replace": (lambda caller: replace(caller, rows(7)), 200),
    "append": (lambda caller: caller.post_rows("t/insert/", rows(7)), 200),
    "delete": (lambda caller: caller.ask("delete", predicate="n = 0"), 200),
    "merge": (lambda caller: caller.post_rows(MERGE, rows(0)), 200),
}


@pytest.mark.parametrize(("happens", "status"), HAPPENS.values(), ids=HAPPENS)
def test_a_change_in_between_is_a_conflict_or_loses_nothing(there, happens, status):
    write = Write(there)
    assert write.part(rows(1)).status_code == 200
    happens(there)
    before = there.read("t")
    assert write.end().status_code == status
    added = [rows(1)] if status == 200 else []
    assert there.read("t").equals(pa.concat_tables([before, *added]))


@pytest.mark.parametrize(("happens", "_"), HAPPENS.values(), ids=HAPPENS)
def test_any_change_in_between_is_a_conflict_for_parts_that_replace(there, happens, _):
    write = Write(there)
    assert write.part(rows(1), mode="overwrite").status_code == 200
    happens(there)
    before = there.read("t")
    assert write.end().status_code == 409
    assert there.read("t").equals(before)


WRITES = {
    "an append": "t/insert/",
    "a merge": MERGE,
    "a replacement of rows": "t/replace_where/",
}


@pytest.mark.parametrize("what", WRITES)
@pytest.mark.parametrize(("happens", "status"), HAPPENS.values(), ids=HAPPENS)
def test_rows_on_their_way_while_a_table_changes_are_a_conflict_or_lose_nothing(
    there, what, happens, status
):
    whole = stream(rows(7).replace_schema_metadata({"rt_frames.where": "n = 7"}))
    between = []

    def body():
        yield whole[:-100]
        until(there.staged)
        happens(there)
        between.extend(there.read("t").to_pylist())
        yield whole[-100:]

    answer = there.post_rows(WRITES[what], body())
    # rows that lack a new column fit
    assert answer.status_code in {status, 200}
    expected = between
    if answer.status_code == 200:
        nulls = dict.fromkeys(there.read("t").column_names)
        kept = [row for row in between if what == "an append" or row["n"] != 7]
        expected = [*kept, {**nulls, **rows(7).to_pylist()[0]}]
    found = there.read("t").to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, expected))


def test_parts_that_were_begun_before_a_restore_of_other_columns_are_a_conflict(there):
    add(there, "new")
    more = rows(1).append_column("new", pa.array([1], INT8))
    write = Write(there)
    assert write.part(more).status_code == 200
    there.ask("restore", version=1)
    assert write.end().status_code == 409
    assert there.read("t").equals(BASE)
    there.ask("restore", version=2)
    write = Write(there)
    assert write.part(more).status_code == 200
    there.ask("restore", version=1)
    # the new column has the number that the old one had
    add(there, "new")
    ended = write.end().status_code, there.read("t")["new"].to_pylist()
    assert ended in ((409, [None]), (200, [None, 1]))


def test_a_part_that_comes_too_late_is_refused(there):
    """One whose body ends after its write was given up."""
    write = Write(there)
    body = stream(pa.table({"n": range(200_000), "s": ["x"] * 200_000}), rows=1000)
    late = Late(lambda pieces: write.part(pieces, "aa"), body)
    until(lambda: write.arriving("aa"))
    assert "still being sent" in message(write.end())
    assert late.finish() == 404
    assert numbers(there) == [0]


@pytest.mark.long
def test_a_service_that_is_killed_has_all_parts_of_a_write_or_none(tmp_path):
    confirmed = [0]
    for seed in range(20):
        with Process(tmp_path) as service, contextlib.suppress(OSError, ValueError):
            caller = service.caller
            caller.create("t", BASE)
            threading.Timer(
                random.Random(seed).uniform(0.02, 0.5), service.kill
            ).start()
            for number in range(1000 * seed + 1, 1000 * seed + 1000):
                write = Write(caller)
                for part in range(3):
                    write.part(rows(number, part), f"{part}")
                if write.end().status_code == 200:
                    confirmed.append(number)
        age(tmp_path / ".rt_frames-staging", hours=25)
        caller = Caller(tmp_path)
        caller.post_rows("u/create/?mode=overwrite", BASE)
        assert caller.staged() == []
        found = lance.dataset(str(tmp_path / "t.lance")).to_table()["n"].to_pylist()
        there = found[1::6]
        assert found == [0] + [
            n for number in there for part in range(3) for n in (number, part)
        ]
        assert set(confirmed[1:]) <= set(there)
        assert len(there) <= len(confirmed) + seed
    assert len(confirmed) > 1


@pytest.mark.parametrize("then", ["append", "begin", "alter", "drop another"])
def test_parts_that_nobody_went_on_with_for_a_day_are_given_up_by_any_write(
    there, then
):
    there.create("u", BASE)
    write = Write(there)
    write.part(rows(1))
    parts = write.parts
    age(parts, hours=23)
    assert write.part(rows(2)).status_code == 200
    assert parts.stat().st_mtime > time.time() - 1000
    age(parts, hours=25)
    if then == "begin":
        assert Write(there, "u").end("abort").status_code == 200
    elif then == "alter":
        assert there.alter("u", {"path": "n", "rename": "m"}).status_code == 200
    elif then == "append":
        assert there.post_rows("u/insert/", rows(3)).status_code == 200
    else:
        assert there.send("POST", "/v1/table/u/drop/").status_code == 200
    assert there.staged() == []
    assert (write.part(rows(3)).status_code, write.end().status_code) == (404, 404)


def test_the_day_of_a_part_begins_with_its_end(there):
    write = Write(there)
    parts = write.parts
    slow = Late(lambda body: write.part(body, "aa"), stream(rows(1)))
    until(lambda: write.arriving("aa"))
    age(parts, hours=25)
    assert replace(there, BASE).status_code == 200
    assert slow.finish() == 200
    assert replace(there, BASE).status_code == 200
    assert write.end().status_code == 200
    assert numbers(there) == [0, 1]


def test_parts_outlive_the_process_that_began_them_and_end_with_their_table(tmp_path):
    with Process(tmp_path) as first, Process(tmp_path) as other:
        first.caller.create("t", BASE)
        kept = Write(first.caller)
        lost = Write(first.caller)
        kept.part(rows(1))
        lost.part(rows(2))
        first.kill()
        with Process(tmp_path) as third:
            assert kept.part(rows(3), "f", caller=other.caller).status_code == 200
            assert kept.end(caller=third.caller).status_code == 200
            assert sorted(numbers(third.caller)) == [0, 1, 3]
            assert third.caller.send("POST", "/v1/table/t/drop/").status_code == 200
            assert third.caller.staged() == []
            assert lost.end(caller=other.caller).status_code == 404


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize(
    "columns", [BASE, pa.table({"n": [5], "s": ["x"], "more": [1]})]
)
def test_what_comes_for_a_table_that_was_dropped_and_made_again_is_not_stored(
    there, mode, columns
):
    """A request that was delayed on its way, such as a commit or a part in a proxy."""
    write = Write(there)
    assert write.part(rows(1), mode=mode).status_code == 200
    there.send("POST", "/v1/table/t/drop/")
    assert there.staged() == []
    assert write.end().status_code == 404
    there.create("t", columns)
    late = [
        write.end(),
        write.part(rows(2), mode=mode),
        write.end(),
        write.end("abort"),
    ]
    found = [(one.status_code, "its table was dropped" in message(one)) for one in late]
    assert found == [(404, True)] * 4
    assert there.read("t").equals(columns)
    assert there.version("t") == 1


def test_a_part_on_its_way_while_its_table_is_dropped_and_made_again_is_refused(there):
    write = Write(there)
    body = stream(pa.table({"n": range(200_000), "s": ["x"] * 200_000}), rows=1000)
    single = Late(lambda pieces: there.post_rows("t/insert/", pieces), body)
    part = Late(lambda pieces: write.part(pieces, "aa"), body)
    until(lambda: write.arriving("aa"))
    until(lambda: len(there.staged()) == 2)
    there.send("POST", "/v1/table/t/drop/")
    there.create("t", BASE)
    # 404 if it looks for the table between the two
    assert single.finish() in (404, 409)
    assert part.finish() == 404
    assert numbers(there) == [0]


def test_rows_replace_the_version_that_if_match_names(there):
    etag = there.ask("describe").json()["etag"]
    assert overwrite(there, "t", rows(1), if_match=etag).status_code == 200
    assert there.read("t").equals(rows(1))
    assert overwrite(there, "new", rows(1), if_match=etag).status_code == 404
    assert there.tables() == ["t"]


@pytest.mark.parametrize(
    "happens", ["rename", "replace", "append", "cast there and back"]
)
def test_rows_replace_no_other_version_than_if_match_names(there, happens):
    etag = there.ask("describe").json()["etag"]
    change, _ = HAPPENS[happens]
    change(there)
    before = there.read("t")
    answer = overwrite(there, "t", rows(1), if_match=etag)
    assert "ETag" in message(answer, 409)
    assert there.read("t").equals(before)


def overwrite(caller, name, table, **headers):
    path = f"/v1/table/{name}/create/?mode=overwrite"
    return caller.send("POST", path, stream(table), content_type=ARROW, **headers)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("version", [3, 4, 14])
def test_old_versions_that_are_removed_meanwhile_are_no_change_of_the_table(
    there, version, mode
):
    """Manifests are named from 2**64 - 1 downwards, so other versions end alike."""
    table = str(there.root / "t.lance")
    for _ in range(version - 1):
        lance.write_dataset(BASE, table, mode="append")
    write = Write(there)
    write.part(rows(1), mode=mode)
    lance.dataset(table).cleanup_old_versions(retain_versions=1)
    assert write.end().json() == {"version": version + 1}


def test_a_conflict_with_another_writer_leaves_no_file_behind(there):
    """One that commits between the service's check of the table and its commit."""
    # the wide table takes a while to open
    table = there.root / "t.lance"
    wide = pa.table({f"c{i}": [i] for i in range(3000)})
    said = ""
    for delay in range(200):
        replace(there, BASE)
        write = Write(there)
        write.part(wide, mode="overwrite")
        begun = write.parts.with_name("upload")
        other = lance.LanceOperation.Append(
            lance.fragment.write_fragments(rows(9), str(table), mode="append")
        )
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(write.end)
            until(lambda begun=begun: not begun.exists())
            time.sleep(delay % 20 / 1000)
            with contextlib.suppress(OSError):
                lance.LanceDataset.commit(
                    str(table), other, read_version=there.version("t")
                )
            said = message(ended.result()) if ended.result().status_code == 409 else ""
        if "another process is changing the table" in said:
            break
        there.send("POST", "/v1/table/t/drop/")
    assert "another process is changing the table" in said
    assert numbers(there) == [0, 9]
    assert unnamed(there.root) == []


def test_no_write_removes_another_one_that_begins(there):
    """Before each write, a folder removes what killed processes left in staging."""
    stopped = threading.Event()

    def refused():
        rename = {"path": "x", "rename": "y"}
        while not stopped.is_set():
            assert Caller(there.root).alter("t", rename).status_code == 400

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(refused) for _ in range(3)]
        try:
            for _ in range(100):
                assert Write(there).end("abort").status_code == 200
        finally:
            stopped.set()
        for writer in writers:
            writer.result()
