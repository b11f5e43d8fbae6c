"""Columns that are added and dropped: by appends, upserts, alterations and rewrites."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pandas as pd
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
from tests.local.test_service import COLUMNS

BASE = pa.table({"id": [1, 2], "s": ["x", None]})
KINDS = pa.table(
    {name: pa.array(values, arrow) for name, (arrow, values) in COLUMNS.items()}
)
NEW = pa.table({"id": [2, 3], "x": [0.5, None], "day": [None, dt.date(2024, 2, 29)]})


def alter(place, name, data, **options):
    return rt.alter_table(data, name, client=place.client, **options)


# With rows


@pytest.mark.parametrize(
    "make",
    [
        pa.table,
        pl.from_arrow,
        lambda rows: pl.from_arrow(rows).lazy(),
        lambda rows: rows.to_reader(max_chunksize=1),
        lambda rows: iter([rows[:1], rows[1:]]),
    ],
    ids=["table", "Polars", "LazyFrame", "reader", "items"],
)
@pytest.mark.parametrize("if_exists", ["append", "upsert"])
def test_what_only_the_frame_has_is_added_with_its_type(place, name, make, if_exists):
    place.create(name, BASE)
    on = {"on": "id"} if if_exists == "upsert" else {}
    options = {"if_exists": if_exists, "add_columns": True, **on}
    table = place.create(name, make(NEW), **options)
    # the columns, then the rows
    assert (table.version, table.created, table.rows) == (3, False, 2)
    found = place.read(name)
    added = [pa.field("x", pa.float64()), pa.field("day", pa.date32())]
    assert found.schema == pa.schema([*BASE.schema, *added])
    nothing = {"s": None, "x": None, "day": None}
    expected = [{**nothing, **row} for row in BASE.to_pylist()]
    if if_exists == "upsert":
        expected[1] = {**expected[1], **NEW.to_pylist()[0]}
        expected.append({**nothing, **NEW.to_pylist()[1]})
    else:
        expected += [{**nothing, **row} for row in NEW.to_pylist()]
    assert place.rows(name) == sorted(expected, key=lambda row: row["id"])
    assert place.client.table(name, version=2).to_arrow().num_rows == 2
    again = place.create(name, make(NEW[:0]), **options)
    assert again.version == 4
    assert place.read(name).schema == found.schema


def test_columns_of_every_type_are_added_exactly(place, name):
    place.create(name, BASE)
    place.append(name, KINDS, add_columns=True)
    found = place.read(name)
    assert found.schema == pa.schema([*BASE.schema, *KINDS.schema])
    rows = found.select(KINDS.column_names)
    assert str(rows[2:].to_pylist()) == str(KINDS.to_pylist())
    assert all(column[:2].null_count == 2 for column in rows.columns)


def test_nothing_is_added_for_a_frame_without_new_columns(place, name):
    place.create(name, BASE)
    assert place.append(name, BASE, add_columns=True).version == 2
    assert place.upsert(name, BASE, add_columns=True).version == 3
    assert place.read(name).schema == BASE.schema


def test_the_first_call_makes_the_table(place, name):
    assert place.append(name, BASE, add_columns=True).created
    assert place.read(name).equals(BASE)


@pytest.mark.parametrize("if_exists", ["append", "upsert"])
def test_without_it_a_new_column_is_an_error_that_offers_it(place, name, if_exists):
    place.create(name, BASE)
    on = "id" if if_exists == "upsert" else None
    words = r"rename it.* add_columns=True to add it"
    with pytest.raises(AlterationError, match=words):
        place.create(name, NEW, if_exists=if_exists, on=on)
    assert place.open(name).version == 1


NOT_ADDED = {
    "case": (pa.table({"S": ["x"]}), "'S'"),
    "reserved": (pa.table({"_rowid": [1]}), "_rowid"),
    "reserved by upserts": (pa.table({"__action": [1]}), "__action"),
    "no type": (pa.table({"new": pa.nulls(1)}), "'new'"),
    "dot": (pa.table({"a.b": [1]}), "a.b"),
    "types of others": (pa.table({"new": [1], "s": [1]}), "'s' is int64"),
}


@pytest.mark.parametrize(("data", "words"), NOT_ADDED.values(), ids=NOT_ADDED)
@pytest.mark.parametrize("streamed", [False, True])
def test_what_cannot_be_added_is_refused_with_nothing_changed(
    place, name, data, words, streamed
):
    place.create(name, BASE)
    sent = data.to_reader() if streamed and words != "'s' is int64" else data
    with pytest.raises((ValueError, TypeError, BadRequest), match=words):
        place.append(name, sent, add_columns=True)
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
    (note,) = refused.value.__notes__
    assert note == (
        f"table '{name}': columns 'x' were added before the error, and contain "
        "nulls; the same call would now only write the rows"
    )
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
    place.create(name, pa.table({"id": [1, 2], "s": ["x", None], "old": [1.0, 2.0]}))
    after = {"id": "int32", "text": "string", "new": "timestamp[us, tz=UTC]"}
    plan = rt.plan_alterations(
        place.client.table(name),
        after,
        rename={"s": "text"},
        add_columns=True,
        drop_columns=["old"],
    )
    kinds = [(len(one), one.added.names, one.dropped) for one in plan.requests()]
    assert kinds == [(2, [], ()), (0, ["new"], ()), (0, [], ("old",))]
    assert plan.requests()[2].to_json() == {"columns": ["old"]}
    for word in ("add", "drop", "rename"):
        assert word in repr(plan)
    options = {"rename": {"s": "text"}, "add_columns": True, "drop_columns": ["old"]}
    table = alter(place, name, after, lossy=True, **options)
    assert table.version == 4
    for words in ("int64 to int32", "new: added", "old: dropped"):
        assert words in repr(table)
    found = place.read(name).to_pydict()
    assert found == {"id": [1, 2], "text": ["x", None], "new": [None, None]}
    assert alter(place, name, after, **options).version is None
    assert place.open(name).version == 4


def test_a_rewrite_does_all_of_it_in_one_commit(place, name):
    place.create(name, pa.table({"id": [1, 2], "s": ["7", None], "old": [1.0, 2.0]}))
    after = pl.DataFrame(schema={"id": pl.String, "n": pl.Int8, "new": pl.Date})
    options = {"rename": {"s": "n"}, "add_columns": True, "drop_columns": ["old"]}
    table = alter(place, name, after, rewrite=True, **options)
    assert (table.version, table.rows) == (2, 2)
    found = place.read(name)
    assert found.to_pydict() == {"id": ["1", "2"], "n": [7, None], "new": [None, None]}
    assert found.schema.types == [pa.large_string(), pa.int8(), pa.date32()]
    assert alter(place, name, after, rewrite=True, **options).version is None
    place.append(name, pa.table({"id": ["x"]}))
    with pytest.raises(UnsupportedTypeError, match="column 'id', row 2"):
        alter(place, name, {"id": "int64"}, rewrite=True, drop_columns=["n"])
    assert place.open(name).version == 3
    assert "n" in place.read(name).column_names


def test_what_only_the_table_has_is_left_alone(place, name):
    place.create(name, BASE)
    plan = rt.plan_alterations(place.client.table(name), {"id": "int64"})
    assert not plan
    assert plan.left_alone == ("s",)
    assert "left alone" in repr(plan)
    assert alter(place, name, {"id": "int64"}).version is None
    assert place.read(name).equals(BASE)


@pytest.mark.parametrize("rewrite", [False, True])
def test_only_drop_columns_drops(place, name, rewrite):
    place.create(name, BASE.append_column("x", [[1, 2]]))
    before = place.client.table(name)
    table = alter(place, name, {"id": "int64"}, drop_columns=["x"], rewrite=rewrite)
    assert table.version == 2
    assert place.read(name).equals(BASE)
    # it is an old version that still has them
    assert before.client.table(name, version=1).to_arrow()["x"].to_pylist() == [1, 2]


REFUSED = {
    "in the frame": ({"drop_columns": ["id"]}, "'id'"),
    "taken by a rename": (
        {"drop_columns": ["s"], "rename": {"x": "s"}},
        "'s'",
    ),
    "inside a struct": ({"drop_columns": ["s.x"]}, "s.x"),
    "twice": ({"drop_columns": ["s", "s"]}, "'s'"),
    "text": ({"drop_columns": "s"}, "drop_columns"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_dropped_is_refused_with_nothing_changed(
    place, name, options, words
):
    place.create(name, BASE.append_column("x", [[1, 2]]))
    with pytest.raises((ValueError, TypeError), match=words):
        alter(place, name, {"id": "int64", "s": "string"}, **options)
    assert place.open(name).version == 1


def test_a_new_name_that_differs_by_case_alone_is_refused(place, name):
    place.create(name, BASE)
    with pytest.raises(ValueError, match="'S'"):
        alter(place, name, {"id": "int64", "S": "int8"}, add_columns=True)
    assert place.open(name).version == 1


def test_without_add_columns_the_error_offers_both(place, name):
    place.create(name, BASE)
    with pytest.raises(AlterationError) as refused:
        alter(place, name, {"id": "int64", "text": "utf8"})
    assert "rename={'s': 'text'}" in str(refused.value)
    assert "add_columns=True" in str(refused.value)
    assert "drop_columns" not in str(refused.value)


@pytest.mark.parametrize("kind", [BadRequest, KeyboardInterrupt])
def test_what_fails_half_way_names_what_was_done_and_the_same_call_finishes(
    place, name, kind, monkeypatch
):
    place.create(name, BASE.append_column("old", [[1, 2]]))
    after = {"id": "int32", "new": "int8"}
    options = {"add_columns": True, "drop_columns": ["old"]}

    def fail_to_drop(*_):
        raise kind("made up")

    with monkeypatch.context() as patch:
        patch.setattr("rt_frames._service.alter.drop_columns", fail_to_drop)
        with pytest.raises(kind, match="made up") as refused:
            alter(place, name, after, **options)
    (note,) = refused.value.__notes__
    assert note.startswith(
        "changed before the error: id: int64 to int32; new: added, int8"
    )
    assert note.endswith("the same call makes the rest")
    assert place.read(name).column_names == ["id", "s", "old", "new"]
    table = alter(place, name, after, **options)
    assert table.version == 4
    assert place.read(name).column_names == ["id", "s", "new"]


def and_meanwhile(rows: pa.Table, happens) -> Iterator[pa.Table]:
    """Yield rows. Before, when their table was described, something else happens."""
    happens()
    yield rows


X = pa.table({"id": [3], "x": [0.5]})
XY = pa.table({"id": [4], "x": [1.5], "y": ["new"]})
Y = pa.table({"id": [5], "y": ["later"]})


@pytest.mark.parametrize("if_exists", ["append", "upsert"])
@pytest.mark.parametrize(
    ("theirs", "ours"), [(X, X), (X, XY), (XY, X), (XY, XY), (Y, XY)]
)
def test_of_two_jobs_that_add_a_column_at_once_the_second_goes_on(
    place, name, theirs, ours, if_exists
):
    place.create(name, BASE)
    ours = ours.set_column(0, "id", pa.array([9]))
    options = {"add_columns": True, "if_exists": if_exists}
    if if_exists == "upsert":
        options["on"] = "id"
    rows = and_meanwhile(ours, lambda: place.create(name, theirs, **options))
    place.create(name, rows, **options)
    nothing = dict.fromkeys(place.read(name).column_names)
    expected = [*BASE.to_pylist(), *theirs.to_pylist(), *ours.to_pylist()]
    assert place.rows(name) == [nothing | row for row in expected]
    assert {*nothing} == {"id", "s", *theirs.column_names, *ours.column_names}


@pytest.mark.parametrize("dtype", ["string", "int64", "float32"])
def test_a_column_that_two_jobs_add_with_other_types_is_a_conflict(place, name, dtype):
    place.create(name, BASE)
    other = pa.table({"id": [3], "x": pa.nulls(1, dtype)})
    rows = and_meanwhile(X, lambda: place.append(name, other, add_columns=True))
    words = (
        f"somebody else added column 'x' meanwhile, as {other['x'].type}, not double"
    )
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


def test_rows_that_have_values_in_dropped_columns_alone_can_still_be_read(place, name):
    place.create(name, BASE)
    place.append(name, pd.DataFrame({"id": [3, 4]}))
    place.append(name, pd.DataFrame({"id": [5], "new": ["n"]}), add_columns=True)
    alter(place, name, {"new": "string"}, drop_columns=["id", "s"])
    assert place.read(name).schema == pa.schema({"new": pa.large_string()})
    assert sorted(map(str, place.read(name)["new"].to_pylist())) == ["None"] * 4 + ["n"]
    assert place.client.table(name).count("new IS NULL") == 4


def test_a_column_that_was_dropped_and_added_again_is_null(place, name):
    place.create(name, BASE)
    handle = place.client.table(name)
    handle.alter_columns(rt.AlterationPlan(dropped=["s"]))
    assert handle.schema.names == ["id"]
    handle.alter_columns(rt.AlterationPlan(added=pa.schema({"s": pa.string()})))
    assert handle.schema.names == ["id", "s"]
    assert place.read(name)["s"].to_pylist() == [None, None]
    place.upsert(name, pa.table({"id": [1], "s": ["new"]}))
    assert place.rows(name) == [{"id": 1, "s": "new"}, {"id": 2, "s": None}]
