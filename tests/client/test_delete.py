"""Rows that are deleted: those for which a condition holds, which is never a null."""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest

from rt_frames.errors import BadRequest, OutcomeUnknown, RateLimited, TableNotFoundError
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


def left(place, table) -> list[int]:
    return sorted(place.read(table.name)["id"].to_pylist())


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
    assert left(place, table) == kept
    stored = place.read(table.name)
    rows = ROWS.filter(pa.compute.is_in(ROWS["id"], pa.array(kept, pa.int64())))
    assert stored.schema == ROWS.schema
    assert str(stored.to_pylist()) == str(rows.to_pylist())
    assert table.count() == len(kept)
    assert place.open(table.name).version <= 2
    assert table.delete(condition) == 0


def test_old_versions_keep_the_rows(place, table):
    assert table.delete("id = 1") == 1
    old = place.client.table(table.name, version=1)
    assert old.count() == 4
    assert old.restore().count() == 4


VALUES = {
    "s": ["it's", "? ` \\"],
    "id": [1, 4],
    "day": [dt.date(2024, 2, 29)],
    "x y": [0.5, 2.0],
    "b": [b"\0'", b""],
    "at": [dt.datetime(2024, 2, 29, 1, 2, 3, 4)],
    "utc": [dt.datetime(2024, 2, 29, tzinfo=dt.UTC)],
    "price": [Decimal("0.10")],
    "who": [uuid.UUID(int=7)],
    "yes": [True, False],
}


@pytest.mark.parametrize("column", VALUES)
def test_values_are_given_in_an_expression(place, name, column):
    values = VALUES[column]
    if column == "who":
        array = pa.array([one.bytes for one in values], pa.uuid())
    else:
        array = pa.array(values)
    numbers = range(len(values))
    table = place.create(name, pa.table({column: array, "id_": numbers}))
    place.append(name, pa.table({"id_": [9]}))
    for number, value in enumerate(values):
        condition = pl.col(column) == getattr(value, "bytes", value)
        assert table.delete(condition) == 1
        assert table.delete(condition) == 0
        kept = [*numbers[number + 1 :], 9]
        assert place.read(name)["id_"].to_pylist() == kept


def test_only_a_test_for_null_matches_a_null(place, table):
    assert table.delete("s = NULL") == 0
    assert table.delete(~pl.col("s").is_in(["a", None])) == 2
    assert table.delete(pl.col("s").is_null()) == 1
    assert left(place, table) == [1]


UNUSABLE = {
    "none": (None, "where: a delete needs a condition"),
    "a semicolon": ("id = 1; DROP TABLE t", "ignores everything after it"),
    "a parenthesis": ("id = 1) OR (true", "parenthesis"),
    "double quotes": ('s = "a"', "reads"),
    "a comment": ("id = 1 -- x", "comment"),
    "a comment inside": ("id = 1 /* x", "comment"),
    "a placeholder": (
        "id = ?",
        "no value stands for it; nothing was sent; pass an expression",
    ),
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
        place.client.table(name).delete("id = 1")


def test_a_day_is_redone_by_a_deletion_and_an_append(place, table):
    day = dt.date(2024, 2, 29)
    rows = pl.DataFrame({"id": [20, 21], "day": [day, day]})
    for _ in range(2):
        table.delete(pl.col("day") == day)
        place.append(table.name, rows)
    assert left(place, table) == [1, 3, 4, 20, 21]


def test_the_log_tells_how_many(place, table, caplog):
    caplog.set_level("INFO", "rt_frames")
    table.delete("id > 2")
    assert f"deleted 2 rows of table {table.name}" in caplog.text
    assert "id > 2" not in caplog.text
    table.delete("id = 1")
    assert f"deleted 1 row of table {table.name}" in caplog.text


# Services that are not embedded


class Deleting(Hosted):
    """A hosted service that deletes the first row, whatever is asked for."""

    tells = True

    def delete(self, table: Table, *_):
        table.versions.append([table.rows[1:]])
        told = {"num_deleted_rows": 1, "version": len(table.versions)}
        return 200, told if self.tells else {}


@pytest.fixture
def hosted():
    return Deleting()


@pytest.fixture
def handle(hosted):
    with hosted.connect(retries=2, timeout=20) as client:
        hosted.tables["t"] = Table([[ROWS]])
        yield client.table("t")


def test_the_condition_is_sent_in_parentheses(hosted, handle):
    assert handle.delete("s = 'it''s'") == 1
    (post,) = [one for one in hosted.server.posts if "/delete/" in one.path]
    assert post.path == "/v1/table/t/delete/"
    (predicate,) = json.loads(post.body).values()
    assert predicate.replace(" ", "") == "(s='it''s')"


@pytest.mark.parametrize("where", ["id = 1", pl.col("id") == 1, [("id", "==", 1)]])
def test_the_table_is_described_once(hosted, handle, where):
    hosted.server.requests.clear()
    handle.delete(where)
    asked = [post.path.split("/")[4] for post in hosted.server.posts]
    assert asked == ["describe", "delete"]


def test_a_server_may_tell_no_number(hosted, handle, caplog):
    hosted.tells = False
    caplog.set_level("INFO", "rt_frames")
    assert handle.delete("id = 1") is None
    assert "deleted an unknown number of rows" in caplog.text


def test_a_read_after_it_is_at_least_of_its_version(hosted, handle):
    handle.delete("id = 1")
    assert handle.count() == 3
    assert hosted.server.posts[-1].headers["x-lancedb-min-version"] == "2"


def test_it_is_not_repeated_once_its_outcome_is_open(hosted, handle):
    hosted.meet("delete", "lose the answer")
    with pytest.raises(OutcomeUnknown) as raised:
        handle.delete("id = 1")
    assert hosted.steps.count("delete") == 1
    assert re.search(
        "before: version 1, 4 rows; now: version 2, 3 rows; it is safe to repeat the "
        "delete",
        str(raised.value),
    )


def test_it_is_repeated_where_the_service_was_busy(hosted, handle):
    hosted.meet("delete", "429", 1)
    assert handle.delete("id = 1") == 1
    hosted.meet("delete", "429")
    with pytest.raises(RateLimited):
        handle.delete("id = 1")
    assert len(hosted.tables["t"].versions) == 2


@pytest.mark.parametrize("status", [404, 405, 406, 501])
def test_a_server_without_it_is_named(hosted, handle, status):
    hosted.meet("delete", str(status))
    with pytest.raises(ValueError, match="this server cannot delete rows"):
        handle.delete("id = 1")
