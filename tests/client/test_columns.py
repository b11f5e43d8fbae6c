"""Columns that are added and dropped: by appends, upserts, alterations and rewrites."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import (
    AlterationError,
    BadRequest,
    ConflictError,
    UnsupportedTypeError,
)
from tests.support.sources import FORMS

BASE = pa.table({"id": [1, 2], "s": ["x", None]})
DAY = dt.date(2024, 2, 29)
NEW = pa.table({"id": [2, 3], "x": [0.5, None], "day": [None, DAY]})


def alter(place, name, data, **options):
    return rt.alter_table(data, name, client=place.client, **options)


# With rows


FIRST = {"id": 1, "s": "x", "x": None, "day": None}
SECOND = {"id": 2, "s": None, "x": None, "day": None}
LAST = {"id": 3, "s": None, "x": None, "day": DAY}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_only_the_rows_have_is_added_with_its_type(place, name, form):
    place.create(name, BASE)
    table = place.append(name, form(NEW), add_columns=True)
    # the columns, then the rows
    assert table.version == 3
    assert table.created is False
    assert table.rows == 2
    assert place.table(name, version=2).count() == 2
    assert place.read(name).schema.types[2:] == [pa.float64(), pa.date32()]
    assert place.rows(name) == [FIRST, SECOND, SECOND | {"x": 0.5}, LAST]


def test_an_upsert_adds_columns_too(place, name):
    place.create(name, BASE)
    table = place.upsert(name, NEW, add_columns=True)
    assert table.version == 3
    assert table.updated == 1
    assert table.inserted == 1
    assert place.rows(name) == [FIRST, SECOND | {"x": 0.5}, LAST]


def test_without_it_a_new_column_is_an_error_that_offers_it(place, name):
    place.create(name, BASE)
    words = r"rename it.* add_columns=True to add it"
    with pytest.raises(AlterationError, match=words):
        place.append(name, NEW)
    assert place.open(name).version == 1


NOT_ADDED = {
    "case": ({"S": ["x"]}, "'S'"),
    "reserved": ({"_rowid": [1]}, "_rowid"),
    "reserved by upserts": ({"__action": [1]}, "__action"),
    "no type": ({"new": pa.nulls(1)}, "'new'"),
    "dot": ({"a.b": [1]}, "a.b"),
    "types of others": ({"new": [1], "s": [1]}, "'s' is int64"),
}


@pytest.mark.parametrize(("columns", "words"), NOT_ADDED.values(), ids=NOT_ADDED)
def test_what_cannot_be_added_is_refused_with_nothing_changed(
    place, name, columns, words
):
    place.create(name, BASE)
    with pytest.raises((ValueError, TypeError, BadRequest), match=words):
        place.append(name, pa.table(columns), add_columns=True)
    assert place.open(name).version == 1


def test_a_refusal_after_columns_were_added_says_so_and_the_same_call_finishes(
    place, name
):
    def rows(last):
        yield pl.DataFrame({"id": [5], "x": [1]})
        yield pl.DataFrame({"id": [last], "x": [2]})

    place.create(name, BASE.set_column(0, "id", BASE["id"].cast(pa.int8())))
    words = "column 'id', item 1, row 0"
    with pytest.raises(UnsupportedTypeError, match=words) as refused:
        place.append(name, rows(300), add_columns=True)
    done = "columns 'x' were added before"
    assert refused.value.done == done
    assert refused.value.__notes__ == [
        f"{done}; the same call would only write the rows"
    ]
    assert place.read(name).to_pydict() == {**BASE.to_pydict(), "x": [None, None]}
    place.append(name, rows(6), add_columns=True)
    assert place.read(name)["x"].to_pylist() == [None, None, 1, 2]
    assert place.open(name).version == 3


@pytest.mark.parametrize("if_exists", ["fail", "skip", "replace"])
def test_other_writes_add_no_columns(place, name, if_exists):
    with pytest.raises(ValueError, match="add_columns: only"):
        place.create(name, BASE, if_exists=if_exists, add_columns=True)
    with pytest.raises(ValueError, match="add_columns: expected True or False"):
        place.append(name, BASE, add_columns="x")


# With alterations


def test_changes_then_columns_that_come_then_columns_that_go(place, name):
    before = place.create(name, BASE.append_column("old", [[1, 2]]))
    after = {"id": "int32", "text": "utf8", "new": "timestamp[us, tz=UTC]"}
    options = {"rename": {"s": "text"}, "add_columns": True, "drop_columns": ["old"]}
    changes, added, dropped = rt.plan_alterations(before, after, **options).requests()
    assert [str(one) for one in changes] == ["id: int64 to int32", "s: renamed to text"]
    assert added.added.names == ["new"]
    assert dropped.to_json() == {"columns": ["old"]}
    table = alter(place, name, after, **options)
    assert table.version == 4
    for words in ("int64 to int32", "new: added", "old: dropped"):
        assert words in repr(table)
    found = place.read(name).to_pydict()
    assert found == {"id": [1, 2], "text": ["x", None], "new": [None, None]}
    assert alter(place, name, after, **options).version is None
    assert place.open(name).version == 4


def test_a_rewrite_that_is_refused_drops_nothing(place, name):
    place.create(name, BASE)
    with pytest.raises(UnsupportedTypeError, match="column 's', row 0"):
        alter(place, name, {"s": "int64"}, rewrite=True, drop_columns=["id"])
    assert place.open(name).version == 1


@pytest.mark.parametrize("rewrite", [False, True])
def test_only_drop_columns_drops(place, name, rewrite):
    place.create(name, BASE.append_column("x", [[1, 2]]))
    table = alter(place, name, {"id": "int64"}, drop_columns=["x"], rewrite=rewrite)
    assert table.version == 2
    assert place.read(name).equals(BASE)


def and_meanwhile(rows: pa.Table, happens) -> Iterator[pa.Table]:
    """Yield rows. Before, when their table was described, something else happens."""
    happens()
    yield rows


X = pa.table({"id": [3], "x": [0.5]})
XY = pa.table({"id": [4], "x": [1.5], "y": ["new"]})
Y = pa.table({"id": [5], "y": ["later"]})


@pytest.mark.parametrize(("theirs", "ours"), [(X, X), (X, XY), (XY, X), (Y, XY)])
def test_of_two_jobs_that_add_a_column_at_once_the_second_goes_on(
    place, name, theirs, ours
):
    place.create(name, BASE)
    ours = ours.set_column(0, "id", pa.array([9]))
    rows = and_meanwhile(ours, lambda: place.append(name, theirs, add_columns=True))
    place.append(name, rows, add_columns=True)
    nothing = dict.fromkeys(place.read(name).column_names)
    assert {*nothing} == {"id", "s", *theirs.column_names, *ours.column_names}
    *_, last, newest = place.rows(name)
    assert last == nothing | theirs.to_pylist()[0]
    assert newest == nothing | ours.to_pylist()[0]


@pytest.mark.parametrize("dtype", ["string", "int64"])
def test_a_column_that_two_jobs_add_with_other_types_is_a_conflict(place, name, dtype):
    place.create(name, BASE)
    other = pa.table({"id": [3], "x": pa.nulls(1, dtype)})
    rows = and_meanwhile(X, lambda: place.append(name, other, add_columns=True))
    words = f"somebody else added column 'x' meanwhile, as {dtype}, not double"
    with pytest.raises(ConflictError, match=words) as refused:
        place.append(name, rows, add_columns=True)
    assert refused.value.status == 400
    assert place.read(name)["id"].to_pylist() == [1, 2, 3]


def test_a_plan_adds_no_column_that_was_there_before(place, name):
    place.create(name, BASE)
    there = rt.AlterationPlan(added=pa.schema([("s", BASE["s"].type)]))
    assert place.client.alter_columns(name, there).version is None
    other = rt.AlterationPlan(added=pa.schema([("s", pa.int8())]))
    with pytest.raises(BadRequest, match="already exists"):
        place.client.alter_columns(name, other)
    assert place.read(name).equals(BASE)
