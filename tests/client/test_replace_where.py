"""Rows for those that match a condition: all of them or none, in one commit."""

from __future__ import annotations

import datetime as dt
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import AlterationError, UnsupportedTypeError
from tests.support.conditions import KINDS, draw, draw_table
from tests.support.hosted import Hosted, Table
from tests.support.sources import FORMS

DAY = dt.date(2024, 1, 2)
BEFORE = dt.date(2024, 1, 1)
day = pl.col("day")
BASE = pa.table({"day": [BEFORE, DAY, DAY], "n": [1, 2, 3], "s": ["a", "b", None]})
ROWS = pa.table({"n": [7, 8], "day": [DAY, DAY]})
KEPT = {"day": BEFORE, "n": 1, "s": "a"}
AFTER = [KEPT, {"day": DAY, "n": 7, "s": None}, {"day": DAY, "n": 8, "s": None}]


def replace(place, name, data, where=day == DAY, **options):
    return place.create(name, data, if_exists="replace", where=where, **options)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_rows_of_every_form_take_the_place_of_those_that_match(place, name, form):
    place.create(name, BASE)
    first = replace(place, name, form(ROWS))
    assert first.created is False
    assert first.version == 2
    assert first.rows == 2
    assert first.deleted == 2
    assert place.rows(name, "n") == AFTER
    assert place.read(name).schema == BASE.schema
    again = replace(place, name, form(ROWS))
    assert again.version == 3
    assert again.deleted == 2
    assert place.rows(name, "n") == AFTER


def test_the_accessor_tees_and_takes_tuples(place, name):
    place.create(name, BASE)
    frame = ROWS.to_pandas()
    filters = [("day", "==", DAY), ("n", "in", [7, 8])]
    options = {"if_exists": "replace", "where": filters, "client": place.client}
    assert frame.remote.to_table(name, **options).deleted == 0
    assert frame.remote.tee(name, **options) is frame
    assert sorted(place.read(name)["n"].to_pylist()) == [1, 2, 3, 7, 8]


def test_no_rows_empty_the_place_and_versions_before_can_be_read_and_restored(
    place, name
):
    table = place.create(name, BASE)
    assert replace(place, name, ROWS[:0]).deleted == 2
    assert place.rows(name, "n") == [KEPT]
    assert replace(place, name, ROWS[:0]).deleted == 0
    old = place.table(name, version=1)
    assert old.to_arrow().equals(BASE)
    old.restore()
    assert table.to_arrow().equals(BASE)
    assert replace(place, name, BASE, day >= BEFORE).deleted == 3
    assert place.read(name).equals(BASE)


@pytest.mark.parametrize("form", [FORMS["pandas"], FORMS["generator"]])
def test_a_missing_table_is_made(place, name, form):
    table = replace(place, name, form(ROWS))
    assert table.created is True
    assert table.rows == 2
    assert table.deleted == 0
    assert place.read(name)["n"].to_pylist() == [7, 8]
    assert replace(place, name, form(ROWS)).deleted == 2
    assert place.read(name)["n"].to_pylist() == [7, 8]


LATER = [
    (day == "2024", "pass a date"),
    (day.dt.year() == 2024, "cannot be sent"),
    (pl.col("dya") == DAY, "did you mean 'day'"),
    (day == BEFORE, "row 0 does not match"),
]


@pytest.mark.parametrize(("where", "words"), LATER)
def test_a_missing_table_is_made_of_nothing_that_would_be_refused_later(
    place, name, where, words
):
    with pytest.raises((ValueError, UnsupportedTypeError), match=words):
        replace(place, name, ROWS.to_reader(), where)
    assert name not in place.client.list_tables()


def test_columns_are_added_first_in_a_commit_of_their_own(place, name):
    place.create(name, BASE)
    wide = ROWS.append_column("new", [["x", "y"]])
    with pytest.raises(AlterationError, match=r"pass add_columns=True"):
        replace(place, name, wide)
    with pytest.raises(UnsupportedTypeError, match=r"row 0 does not match"):
        replace(place, name, wide, day == BEFORE, add_columns=True)
    assert place.open(name).version == 1
    assert replace(place, name, wide, add_columns=True).version == 3
    assert [row["new"] for row in place.rows(name, "n")] == [None, "x", "y"]
    assert replace(place, name, wide, add_columns=True).version == 4


NEW = pl.col("new")
# a condition on a new column, and the rows of the table that match it once it is null
BY_NEW = {
    "a value": (NEW == "x", 0),
    "not another value": (~(NEW == "y"), 0),
    "one of some, on a day": (NEW.is_in(["x", "z"]) & (day == DAY), 0),
    "no value": (NEW.is_null() | (NEW == "x"), 3),
}


@pytest.mark.parametrize(("where", "deleted"), BY_NEW.values(), ids=BY_NEW)
def test_a_condition_may_name_a_column_that_is_added(place, name, where, deleted):
    place.create(name, BASE)
    wide = ROWS.append_column("new", [["x", "x"]])
    first = replace(place, name, wide, where, add_columns=True)
    assert (first.deleted, first.version) == (deleted, 3)
    again = replace(place, name, wide, where, add_columns=True)
    assert (again.deleted, again.version) == (2, 4)
    found = [(row["n"], row["new"]) for row in place.rows(name, "n")]
    kept = [] if deleted else [(1, None), (2, None), (3, None)]
    assert found == [*kept, (7, "x"), (8, "x")]


def test_a_condition_on_a_column_that_only_the_frame_has_needs_add_columns(place, name):
    place.create(name, BASE)
    wide = ROWS.append_column("new", [["x", "x"]])
    with pytest.raises(
        AlterationError, match=r"'new'.*pass add_columns=True to add it"
    ):
        replace(place, name, wide, NEW == "x")
    assert place.open(name).version == 1


# Refused: nothing is stored, and nothing goes


BAD = pa.table({"n": [7, 8, 7, 8], "day": [DAY, DAY, DAY, BEFORE]})
NULL = pa.table({"n": [7, 8], "day": [DAY, None]})
UNFIT = [  # a form, the rows, and the one that does not match
    ("pandas", BAD, "row 3"),
    ("LazyFrame", BAD, "row 3"),
    ("reader", BAD, "row 3"),
    ("generator", BAD, "item 3, row 0"),
    ("Arrow", NULL, "row 1"),
]


@pytest.mark.parametrize(("form", "rows", "row"), UNFIT)
def test_a_row_that_does_not_match_is_named_and_nothing_stored(
    place, name, form, rows, row
):
    place.create(name, BASE)
    words = f"^where: {row} does not match"
    with pytest.raises(UnsupportedTypeError, match=words) as refused:
        replace(place, name, FORMS[form](rows))
    assert refused.value.columns == ("day",)
    assert "nothing was stored" in str(refused.value)
    assert place.read(name).equals(BASE)
    assert place.open(name).version == 1
    assert not [*place.root.glob(".rt_frames-staging/*/table/data/*")]


@pytest.mark.parametrize("if_exists", ["append", "fail"])
def test_only_a_replacement_has_a_condition(place, name, if_exists):
    with pytest.raises(ValueError, match=r'^where: .*only if_exists="replace"'):
        place.create(name, ROWS, if_exists=if_exists, where=day == DAY)


MEANINGLESS = [
    (pl.lit(value=True), "names no column"),
    ([], "got no tuple"),
    (True, "bool is no condition; nothing was sent; pass an expression"),
    ((day == DAY) & (pl.col("s") == "b"), "the frame has no column 's'"),
    (day.dt.year() == 2024, "cannot be sent; nothing was sent; compare columns"),
]


@pytest.mark.parametrize(("where", "words"), MEANINGLESS)
def test_what_cannot_be_meant_is_refused(place, name, where, words):
    place.create(name, BASE)
    with pytest.raises(ValueError, match=f"^where: .*{words}"):
        replace(place, name, ROWS, where)
    assert place.open(name).version == 1


# What matches, for all types


def counted(frame: pl.DataFrame) -> Counter[str]:
    return Counter(map(repr, frame["id"]))


@pytest.mark.parametrize("number", [40, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore")
def test_the_rows_that_go_and_may_come_are_those_that_polars_finds(tmp_path, number):
    seed = 7 if number == 40 else random.randrange(2**32)
    print("seed", seed)  # noqa: T201  # to draw the same again
    r = random.Random(seed)
    names = [*KINDS]
    rows = draw_table(r, names)
    with rt.connect(tmp_path / "tables", default=False) as client:
        table = client.create_table("t", rows)
        frame = table.to_polars().with_row_index("row")
        refused = 0
        for _ in range(number):
            e = draw(r, names)
            if not e.meta.root_names():
                continue
            places = frame.filter(e)["row"]
            options = {"if_exists": "replace", "where": e}
            done = client.create_table("t", rows.take(places.to_arrow()), **options)
            assert (done.rows, done.deleted) == (len(places), len(places)), str(e)
            others = frame.filter(~frame["row"].is_in(places))["row"]
            if len(others):
                refused += 1
                words = f"row {others[0]} does not match"
                with pytest.raises(UnsupportedTypeError, match=words):
                    client.create_table("t", rows, **options)
        assert refused > number / 3
        assert counted(table.to_polars()) == counted(frame)


# Twice, and together


@pytest.mark.parametrize("there", [True, False], ids=["table", "no table"])
def test_two_runs_at_once_end_in_the_same_rows(place, name, there):
    if there:
        place.create(name, BASE.set_column(0, "day", [[BEFORE] * 3]))
    start = threading.Barrier(4)

    def run():
        start.wait()
        return replace(place, name, pl.from_arrow(ROWS).lazy())

    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(run) for _ in range(4)]
        results = [one.result() for one in runs]
    assert sorted(one.deleted for one in results) == [0, 2, 2, 2]
    found = [row["n"] for row in place.rows(name, "n") if row["day"] == DAY]
    assert found == [7, 8]


# Services that cannot


CANNOT = (
    "^where: this server cannot replace rows that match a condition in one commit; "
    "nothing was sent; upsert by key, or delete and append, which are two commits$"
)


OF_DAY = {"if_exists": "replace", "where": day == DAY}


def test_a_server_that_cannot_refuses_it_and_every_row_is_there():
    headers = {"x-rt-frames": "0.4.0", "x-rt-frames-can": "replace-where"}
    hosted = Hosted(tables={"t": Table([[BASE]])}, headers=headers)
    with hosted.connect() as client, pytest.raises(ValueError, match=CANNOT):
        client.create_table("t", ROWS, **OF_DAY)
    assert hosted.steps == []
    assert hosted.tables["t"].rows.equals(BASE)


def test_the_documented_service_refuses_it_and_offers_the_other_api(server, remote):
    with pytest.raises(ValueError, match=r'not possible with dialect="documented"'):
        remote.create_table("t", ROWS, **OF_DAY)
    assert server.requests == []
