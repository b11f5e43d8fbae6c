"""Rows that are deleted: those for which a condition holds, which is never a null."""

from __future__ import annotations

import json

import polars as pl
import pyarrow as pa
import pytest

from tests.support.hosted import Hosted, Table

ROWS = pa.table({"id": [1, 2, 3, 4], "s": ["a", "it's", None, "? ` \\"]})


@pytest.fixture
def table(place, name):
    return place.create(name, ROWS)


n = pl.col("id")
s = pl.col("s")
CONDITIONS = [
    (n > 2, [1, 2]),
    (s != "a", [1, 3]),
    ([[("id", "==", 1)], [("id", "==", 4)]], [2, 3]),
]


@pytest.mark.parametrize(("condition", "kept"), CONDITIONS, ids=str)
def test_rows_for_which_it_holds_go_and_are_counted(place, table, condition, kept):
    assert table.delete(condition) == 4 - len(kept)
    assert place.read(table.name).equals(ROWS.take([number - 1 for number in kept]))
    assert table.delete(condition) == 0


def test_a_delete_needs_a_condition(place, table):
    with pytest.raises(ValueError, match=r"^where: a delete needs a condition"):
        table.delete(None)
    assert place.open(table.name).version == 1


# Servers


@pytest.fixture
def hosted():
    return Hosted(tables={"t": Table([[ROWS]])})


@pytest.fixture
def handle(hosted):
    with hosted.connect(retries=2, timeout=20) as client:
        yield client.table("t")


def test_the_condition_is_sent_as_sql(hosted, handle):
    assert handle.delete(s == "it's") == 1
    post = hosted.server.posts[-1]
    assert post.path == "/v1/table/t/delete/"
    text = "(`s` IS NOT NULL AND `s` = 'it''s')"
    assert json.loads(post.body) == {"predicate": text}


@pytest.mark.parametrize("where", [n == 1, [("id", "==", 1)]], ids=str)
def test_the_table_is_described_once(hosted, handle, where):
    handle.delete(where)
    assert hosted.steps == ["describe", "delete"]


def test_a_read_after_it_is_at_least_of_its_version(hosted, handle):
    handle.delete(pl.col("id") == 1)
    assert handle.count() == 3
    assert hosted.server.posts[-1].headers["x-lancedb-min-version"] == "2"
