"""Rows that are deleted: those for which a condition holds, which is never a null."""

from __future__ import annotations

import datetime as dt
import json

import polars as pl
import pyarrow as pa
import pytest

from rt_frames.errors import BadRequest, TableNotFoundError
from tests.support.hosted import Hosted, Table

ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "s": ["a", "it's", None, "? ` \\"],
        "day": [dt.date(2024, 2, 28), dt.date(2024, 2, 29), None, dt.date(2024, 3, 1)],
        "x y": [0.5, None, float("nan"), 2.0],
    }
)


@pytest.fixture
def table(place, name):
    return place.create(name, ROWS)


CONDITIONS = {
    "id > 2": [1, 2],
    "s = 'it''s'": [1, 3, 4],
    "s <> 'a'": [1, 3],
    "NOT (s = 'a')": [1, 3],
    "s IS DISTINCT FROM 'a'": [1],
    "s IS NULL": [1, 2, 4],
    "s IN ('a', NULL)": [2, 3, 4],
    "s = NULL": [1, 2, 3, 4],
    "day < date '2024-02-29'": [2, 3, 4],
    "day <> date '2024-02-29'": [2, 3],
    "`x y` < 1": [2, 3, 4],
    "id = 1 OR id = 4": [2, 3],
    "true": [],
    "false": [1, 2, 3, 4],
}


@pytest.mark.parametrize(("condition", "kept"), CONDITIONS.items())
def test_rows_for_which_it_holds_go_and_are_counted(place, table, condition, kept):
    assert table.delete(condition) == 4 - len(kept)
    rows = [row for row in ROWS.to_pylist() if row["id"] in kept]
    stored = place.read(table.name)
    assert stored.schema == ROWS.schema
    assert str(stored.to_pylist()) == str(rows)
    assert table.delete(condition) == 0


UNUSABLE = {
    "none": (None, "where: a delete needs a condition"),
    "a semicolon": ("id = 1; DROP TABLE t", "ignores everything after it"),
    "a parenthesis": ("id = 1) OR (true", "parenthesis"),
    "double quotes": ('s = "a"', "reads"),
    "a comment": ("id = 1 -- x", "comment"),
    "a comment inside": ("id = 1 /* x", "comment"),
    "a placeholder": ("id = ?", "no value stands for it; nothing was sent; pass an"),
    "a keyword": (" Where id = 1", "WHERE; nothing was sent; leave that word out"),
}


@pytest.mark.parametrize(("where", "words"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_is_no_condition_is_refused_before_anything_is_sent(
    place, table, where, words
):
    with pytest.raises(ValueError, match=words):
        table.delete(where)
    assert place.read(table.name).num_rows == 4
    assert place.open(table.name).version == 1


@pytest.mark.parametrize("where", ["nope = 1", "id", "id = 'x' AND"])
def test_what_the_service_refuses_deletes_nothing(place, table, where):
    with pytest.raises(BadRequest):
        table.delete(where)
    assert place.open(table.name).version == 1


def test_a_table_that_is_not_there_is_told_by_its_name(place, name):
    with pytest.raises(TableNotFoundError, match=name):
        place.table(name).delete("id = 1")


def test_the_log_tells_how_many(place, table, caplog):
    caplog.set_level("INFO", "rt_frames")
    table.delete("id > 2")
    assert f"deleted 2 rows of table {table.name}" in caplog.text
    assert "id > 2" not in caplog.text
    table.delete("id = 1")
    assert f"deleted 1 row of table {table.name}" in caplog.text


# Services that are not embedded


@pytest.fixture
def hosted():
    return Hosted(tables={"t": Table([[ROWS]])})


@pytest.fixture
def handle(hosted):
    with hosted.connect(retries=2, timeout=20) as client:
        yield client.table("t")


def test_the_condition_is_sent_in_parentheses(hosted, handle):
    assert handle.delete("s = 'it''s'") == 1
    post = hosted.server.posts[-1]
    assert post.path == "/v1/table/t/delete/"
    assert json.loads(post.body) == {"predicate": "(s = 'it''s')"}


@pytest.mark.parametrize("where", ["id = 1", pl.col("id") == 1, [("id", "==", 1)]])
def test_the_table_is_described_once(hosted, handle, where):
    handle.delete(where)
    assert hosted.steps == ["describe", "delete"]


def test_a_read_after_it_is_at_least_of_its_version(hosted, handle):
    handle.delete("id = 1")
    assert handle.count() == 3
    assert hosted.server.posts[-1].headers["x-lancedb-min-version"] == "2"
