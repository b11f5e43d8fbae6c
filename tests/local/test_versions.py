"""Nothing of a folder grows forever: versions, parts, lost files."""

from __future__ import annotations

import datetime
import os
import shutil
import time
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rt_frames.local import LocalService
from tests.support.local import (
    UPSERT,
    Caller,
    Write,
    age,
    manifests,
    stream,
    unnamed,
)

ADDED = pa.table({"n": [1, 300]})
ROWS = ADDED.append_column("s", [["a", None]])
NO_TIME = datetime.timedelta(0)


def append(caller):
    return caller.post_rows("t/insert/?mode=append", ADDED)


def append_others(caller):
    return caller.post_rows("t/insert/?mode=append", pa.table({"x": [1]}))


def replace_in_part(caller):
    return caller.post_rows("t/insert/?mode=overwrite", stream(ROWS)[:-8])


def replace(caller):
    return caller.post_rows("t/insert/?mode=overwrite", ROWS)


def in_parts(caller, mode="append", name="t"):
    write = Write(caller, name)
    for part in "ab":
        rows = ADDED if mode == "append" else ROWS
        assert write.part(rows, part, mode).status_code == 200
    return write


def two_in_parts(caller):
    one = in_parts(caller)
    other = in_parts(caller)
    append(caller)
    one.end()
    return other.end()


def cast(caller, column, kind):
    return caller.alter("t", {"path": column, "data_type": {"type": kind}})


def alter(caller):
    is_large = pa.types.is_large_string(caller.read("t").schema.field("s").type)
    return cast(caller, "s", "string" if is_large else "large_string")


def alter_twice(caller):
    alter(caller)
    return alter(caller)


def create_and_drop(caller):
    caller.create("other", ROWS)
    in_parts(caller, name="other")
    return caller.send("POST", "/v1/table/other/drop/")


def merge(caller):
    return caller.post_rows(f"t/merge_insert/?on=n&{UPSERT}", ADDED)


def delete(caller):
    return caller.ask("delete", predicate="n = 1")


def add_and_drop(caller):
    schema = pa.schema([pa.field("new", pa.int8())])
    caller.post_rows("t/add_columns/", schema.empty_table())
    return caller.ask("drop_columns", columns=["new"])


def restore(caller):
    return caller.ask("restore", version=versions(caller.root)[0])


def versions(root):
    table = lance.dataset(str(root / "t.lance"))
    return [version["version"] for version in table.versions()]


def count_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


THINGS = {  # what is done, and the status of its answer
    "append": (append, 200),
    "replace": (replace, 200),
    "append in parts": (lambda caller: in_parts(caller).end(), 200),
    "replace in parts": (lambda caller: in_parts(caller, "overwrite").end(), 200),
    "parts of two at once": (two_in_parts, 200),
    "parts given up": (lambda caller: in_parts(caller).end("abort"), 200),
    "parts abandoned": (lambda caller: in_parts(caller).answer, 200),
    "alter": (alter_twice, 200),
    "merge": (merge, 200),
    "delete": (delete, 200),
    "columns added and dropped": (add_and_drop, 200),
    "create and drop": (create_and_drop, 200),
    "a taken name": (lambda caller: caller.create("t", ROWS), 409),
    "rows that do not fit": (append_others, 400),
    "a table that breaks off": (replace_in_part, 400),
    "values that do not fit": (lambda caller: cast(caller, "n", "int8"), 400),
}


@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.long)])
def test_whatever_is_done_however_often_the_last_two_versions_are_all_that_stays(
    tmp_path, count
):
    caller = Caller(tmp_path, NO_TIME)
    caller.create("t", ROWS)
    open_files = []
    for _ in range(count):
        for what, (do, status) in THINGS.items():
            assert do(caller).status_code == status, what
            assert len(versions(tmp_path)) <= 2, what
        open_files.append(count_open_files())
    assert open_files[-1] <= open_files[0]
    assert len(caller.staged()) == count
    age(tmp_path / ".rt_frames-staging", hours=2)
    newest = append(caller).json()["version"]
    assert caller.staged() == []
    assert versions(tmp_path) == [newest - 1, newest]
    assert unnamed(tmp_path) == []
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {".rt_frames-staging", "t.lance"}


WRITES = ["append", "replace", "replace in parts", "alter", "merge", "delete"]


@settings(max_examples=settings.default.max_examples // 40)
@given(st.lists(st.sampled_from(WRITES), max_size=18), st.integers(0, 18))
@example(["replace"] * 12, 0)
@example(["replace in parts"] * 8 + ["append"] * 3 + ["replace", "alter"], 1)
@example(["append"] * 12, 5)
def test_before_a_write_go_versions_of_a_day_ago_and_behind_the_ninth_overwrite(
    caller, history, old
):
    shutil.rmtree(caller.root / "t.lance", ignore_errors=True)
    caller.create("t", ROWS)
    for what in history:
        (alter if what == "alter" else THINGS[what][0])(caller)
    newest = 1 + len(history)
    old = min(old, newest - 1)
    age(caller.root / "t.lance" / "_versions", hours=1)
    for version in versions(caller.root):
        if version <= old + 1:  # what was replaced by it was replaced then
            age(manifests(caller.root)[version], hours=25 - version / 100)
    overwrites = [1]
    for number, what in enumerate(history, 2):
        if what.startswith("replace"):
            overwrites.append(number)
    ninth = overwrites[-9] if len(overwrites) >= 9 else 1
    append(caller)
    found = versions(caller.root)
    assert found == [*range(max(ninth, old + 1), newest + 1), newest + 1]
    assert unnamed(caller.root) == []
    assert caller.read("t").num_rows > 0


def test_a_version_is_restored_even_if_the_next_write_would_have_removed_it(tmp_path):
    caller = Caller(tmp_path, NO_TIME)
    caller.create("t", ROWS)
    assert replace(caller).status_code == delete(caller).status_code == 200
    assert versions(tmp_path) == [2, 3]
    assert restore(caller).json() == {"version": 4}
    assert caller.read("t").equals(ROWS)
    assert versions(tmp_path) == [2, 3, 4]
    append(caller)
    assert versions(tmp_path) == [4, 5]
    assert unnamed(tmp_path) == []
    assert caller.ask("restore", version=3).status_code == 404


def test_what_a_tag_names_and_what_others_read_within_the_day_stays(caller):
    caller.create("t", ROWS)
    lance.dataset(str(caller.root / "t.lance")).tags.create("kept", 1)
    reading = lance.dataset(str(caller.root / "t.lance"))
    for _ in range(11):
        age(caller.root / "t.lance" / "_versions", hours=1)
        replace(caller)
    assert versions(caller.root) == [1, *range(3, 13)]
    assert reading.to_table().equals(ROWS)


def test_some_hundred_versions_go_at_once_and_the_others_at_the_next_write(caller):
    caller.create("t", ADDED)
    for number in range(320):
        lance.dataset(str(caller.root / "t.lance")).update({"n": f"n + {number}"})
    age(caller.root / "t.lance", hours=25)
    for left in (21, 2):
        append(caller)
        assert len(versions(caller.root)) == left + 1
    assert unnamed(caller.root) == []


def test_of_thousands_of_versions_those_whose_day_is_over_go_together(caller):
    """The engine reads all manifests to remove any."""
    caller.create("t", ADDED)
    for _ in range(29):
        lance.write_dataset(ADDED, str(caller.root / "t.lance"), mode="append")
    for gone, left in ((2, 30), (3, 28)):
        for version in versions(caller.root)[: gone + 1]:
            age(manifests(caller.root)[version], hours=25)
        append(caller)
        assert len(versions(caller.root)) == left + 1


@pytest.mark.parametrize(("keep", "hours"), [(24, 23), (24, 25), (0, 0.5), (0, 2)])
def test_files_that_a_killed_process_left_go_with_a_version_unless_they_are_young(
    tmp_path, keep, hours
):
    places = ["_deletions/0-1-2.arrow", "_transactions/1-0.txn", "data/0.lance"]
    caller = Caller(tmp_path, datetime.timedelta(hours=keep))
    caller.create("t", ROWS)
    append(caller)
    age(tmp_path / "t.lance", 25)
    for place in places:
        lost = tmp_path / "t.lance" / place
        lost.parent.mkdir(exist_ok=True)
        lost.write_bytes(b"lost")
        age(lost, hours)
    append(caller)
    assert versions(tmp_path) == [2, 3]
    assert unnamed(tmp_path) == ([] if hours > max(keep, 1) else places)
    assert caller.read("t").num_rows == 6


def test_files_behind_a_link_in_a_table_are_left_however_old_they_are(tmp_path):
    others = tmp_path / "others"
    others.mkdir()
    names = ["mine.lance", "0-1-2.arrow", "1-0.txn"]
    for name in names:
        (others / name).write_text("mine")
    table = tmp_path / "t.lance"
    caller = Caller(tmp_path, NO_TIME)
    caller.create("t", ROWS)
    shutil.rmtree(table / "_transactions")
    for link in ("data/link", "_deletions/link", "_indices/deep/link"):
        (table / link).parent.mkdir(parents=True, exist_ok=True)
        (table / link).symlink_to(others)
    (table / "_transactions").symlink_to(others)
    for _ in range(3):
        age(others, hours=24 * 30)
        assert replace(caller).status_code == 200
    assert caller.read("t").equals(ROWS)
    assert {*names} <= {path.name for path in others.iterdir()}


def test_parts_outlive_their_process_and_hold_no_descriptor(tmp_path):
    caller = Caller(tmp_path, datetime.timedelta(days=1))
    caller.create("t", ROWS)
    before = count_open_files()
    writes = [in_parts(caller) for _ in range(10)]
    assert count_open_files() <= before
    caller = Caller(tmp_path, datetime.timedelta(days=1))
    age(tmp_path / ".rt_frames-staging" / writes[0].id, hours=23)
    age(tmp_path / ".rt_frames-staging" / writes[1].id, hours=25)
    append(caller)
    found = [write.end(caller=caller).status_code for write in writes]
    assert found == [200, 404, *[200] * 8]
    assert caller.read("t").num_rows == 2 + 2 + 9 * 4
    assert caller.staged() == []


@pytest.mark.parametrize("keep", [-datetime.timedelta(1), 3600, "1 day", None])
def test_how_long_versions_are_kept_is_a_time(tmp_path, keep):
    with pytest.raises((TypeError, ValueError), match=r"keep: expected a .*timedelta"):
        LocalService(tmp_path, keep=keep)


# in hours before now
CLOCKS = {
    "right": ([50, 40, 3, 2], 1),
    "behind once": ([50, 40, 5e5, 3, 2], 1),
    "behind at the last write": ([50, 40, 3, 5e5], 0),
    "behind, after a long time": ([5000, 5e5, 2], 0),
    "behind until the last write": ([5e5, 5e5, 5e5, 0.1], 0),
    "behind at first": ([5e5, 40, 3, 2], 1),
    "ahead once": ([50, 40, -1e5, 3, 2], 1),
    "ahead once, long ago": ([60, 50, -1e5, 40, 30, 3], 4),
    "ahead at first": ([-1e5, 40, 3, 2], 1),
    "ahead at the last write": ([60, 50, 40, -1e5], 2),
    "ahead now": ([1e5 + 5, 1e5 + 4, 1e5 + 3], 0),
}


@pytest.mark.parametrize(("hours", "removed"), CLOCKS.values(), ids=CLOCKS)
def test_a_clock_that_is_wrong_for_one_write_changes_little(tmp_path, hours, removed):
    caller = Caller(tmp_path)
    caller.create("t", ROWS)
    for _ in hours[1:]:
        append(caller)
    for version, ago in enumerate(hours, 1):
        then = time.time() - 3600 * ago
        os.utime(manifests(tmp_path)[version], (then, then))
    append(caller)
    assert versions(tmp_path)[0] == 1 + removed
