"""Rows for those that match, in a folder, and beside other processes."""

from __future__ import annotations

import contextlib
import threading
import time

import lance
import pyarrow as pa
import pytest

from tests.support.local import ARROW, message, stream

BASE = pa.table({"day": [1, 2, 2], "n": [10, 20, 21]})
ROWS = pa.table({"day": [2, 2, 2], "n": [30, 31, 32]})
PATH = "/v1/table/t/replace_where/"
WHERE = "rt_frames.where"


def with_where(rows, where):
    """Return rows whose stream says which rows they replace."""
    return rows.replace_schema_metadata({} if where is None else {WHERE: where})


def ask(caller, rows=ROWS, where="day = 2", query="", **headers):
    body = stream(with_where(rows, where))
    headers = {"content_type": ARROW, **headers}
    return caller.send("POST", PATH + query, body, **headers)


@pytest.fixture
def there(caller):
    caller.create("t", BASE)
    return caller


def folder(caller):
    return str(caller.root / "t.lance")


def numbers(caller):
    return sorted(caller.read("t")["n"].to_pylist())


REFUSED = [
    ("n < 32", "1 of the 3 rows do not match the condition"),
    ("day = 2 AND n IS NULL", "3 of the 3 rows do not match the condition"),
    (None, "the condition is missing"),
    (" ", "the condition is missing"),
    ("month = 2", "invalid filter"),
    (b"\xff", "invalid filter"),
]


@pytest.mark.parametrize(("where", "words"), REFUSED)
def test_what_does_not_fit_the_condition_is_refused(there, where, words):
    answer = ask(there, where=where)
    assert words in message(answer, 400)
    assert there.version("t") == 1
    assert there.read("t").equals(BASE)


def test_parameters_and_other_bodies_are_refused(there):
    for query in ("?mode=overwrite", "?where=true", "?on=day&x", "?mode"):
        assert "unknown parameters: " in message(ask(there, query=query), 400)
    assert ask(there, content_type="application/json").status_code == 415
    assert ask(there, rows=ROWS.append_column("z", [[1, 1, 1]])).status_code == 400
    assert there.post_rows("t/replace_where/", b"junk").status_code == 400
    assert there.version("t") == 1
    whole = stream(with_where(ROWS, "day = 2"))
    assert there.post_rows("u/replace_where/", whole).status_code == 404


def test_the_condition_becomes_no_part_of_the_table_nor_of_the_log(there, caplog):
    assert ask(there, where="day = 2 OR n = 987654321").status_code == 200
    assert lance.dataset(folder(there)).schema.metadata in (None, {})
    for file in (there.root / "t.lance").rglob("*"):
        assert file.is_dir() or b"987654321" not in file.read_bytes(), file
    assert "987654321" not in caplog.text


# Beside what others do with the folder


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_indices_find_the_rows_before_and_after(there, kind):
    table = lance.dataset(folder(there))
    table.create_scalar_index("day", kind)
    for rows in (ROWS, ROWS[:1], ROWS[:0], ROWS):
        assert ask(there, rows=rows).status_code == 200
        table = lance.dataset(folder(there))
        assert table.count_rows("day = 2") == rows.num_rows
        table.optimize.optimize_indices()
    assert table.to_table(filter="day = 1")["n"].to_pylist() == [10]
    assert numbers(there) == [10, 30, 31, 32]


def test_tables_of_others_keep_their_row_ids_and_casts(caller):
    table = lance.write_dataset(
        BASE, folder(caller), max_rows_per_file=1, enable_stable_row_ids=True
    )
    table.delete("n = 21")
    table.alter_columns({"path": "n", "data_type": pa.int32()})
    rows = ROWS.set_column(1, "n", ROWS["n"].cast(pa.int32()))
    for _ in range(2):
        assert ask(caller, rows=rows).status_code == 200
        found = lance.dataset(folder(caller)).to_table(with_row_id=True)
        assert sorted(found["n"].to_pylist()) == [10, 30, 31, 32]
        assert len({*found["_rowid"].to_pylist()}) == 4


def outsiders(caller, change, pause):
    """Let somebody who locks nothing change the table now and then."""
    stop = threading.Event()
    done = []

    def run():
        while not stop.wait(pause):
            # of a conflict
            with contextlib.suppress(OSError):
                change(lance.dataset(folder(caller)), len(done))
                done.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    return stop, thread, done


def delete_one(table, number):
    table.delete(f"n = {100 + number}")


def compact(table, _number):
    table.optimize.compact_files()


def merge_one(table, number):
    rows = pa.table({"day": [3], "n": [1000 + number]})
    table.merge_insert("n").when_not_matched_insert_all().execute(rows)


def append_one(table, number):
    rows = pa.table({"day": [3], "n": [1000 + number]})
    lance.write_dataset(rows, table.uri, mode="append")


@pytest.mark.parametrize("change", [delete_one, compact, merge_one, append_one])
def test_what_others_change_meanwhile_is_neither_lost_nor_undone(caller, change):
    many = pa.table({"day": [1] * 400, "n": range(100, 500)})
    caller.create("t", pa.concat_tables([BASE, many]))
    start = time.monotonic()
    assert ask(caller).status_code == 200
    # as long as a call takes here, so that some have room
    pause = time.monotonic() - start
    stop, thread, done = outsiders(caller, change, pause)
    try:
        answers = [ask(caller).status_code for _ in range(8)]
    finally:
        stop.set()
        thread.join()
    assert {*answers} <= {200, 409}
    assert answers.count(200) > 3
    found = caller.read("t")
    got = sorted(found.filter(pa.compute.field("day") == 2)["n"].to_pylist())
    assert got == [30, 31, 32]
    left = found.filter(pa.compute.field("day") == 1)["n"].to_pylist()
    gone = {100 + number for number in range(len(done))} if change is delete_one else ()
    assert {*left} == {10, *range(100, 500)} - {*gone}
    merged = found.filter(pa.compute.field("day") == 3).num_rows
    assert merged == (len(done) if change in (merge_one, append_one) else 0)
