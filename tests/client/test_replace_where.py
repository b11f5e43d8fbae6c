"""Rows for those that match a condition: all of them or none, in one commit."""

from __future__ import annotations

import datetime as dt
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import AlterationError, UnsupportedTypeError
from tests.client import test_expressions
from tests.client.test_expressions import OTHERS, draw, draw_table, is_exact
from tests.longer.rows import forward
from tests.support.hosted import SMALL_PARTS, Hosted, Table
from tests.support.servers import KEY, Server

DAY = dt.date(2024, 1, 2)
BEFORE = dt.date(2024, 1, 1)
day = pl.col("day")
BASE = pa.table({"day": [BEFORE, DAY, DAY], "n": [1, 2, 3], "s": ["a", "b", None]})
ROWS = pa.table({"n": [7, 8], "day": [DAY, DAY]})
KEPT = {"day": BEFORE, "n": 1, "s": "a"}
AFTER = [KEPT, {"day": DAY, "n": 7, "s": None}, {"day": DAY, "n": 8, "s": None}]


def replace(place, name, data, where=day == DAY, **options):
    return place.create(name, data, if_exists="replace", where=where, **options)


def dask_frame():
    dd = pytest.importorskip("dask.dataframe")
    frame = ROWS.to_pandas(types_mapper=pd.ArrowDtype)
    return dd.from_pandas(frame, npartitions=2)


SOURCES = {
    "pandas": ROWS.to_pandas,
    "pandas on Arrow": lambda: ROWS.to_pandas(types_mapper=pd.ArrowDtype),
    "Polars": lambda: pl.from_arrow(ROWS),
    "LazyFrame": lambda: pl.from_arrow(ROWS).lazy(),
    "table": lambda: ROWS,
    "reader": lambda: ROWS.to_reader(max_chunksize=1),
    "generator": lambda: (ROWS.slice(number, 1) for number in range(2)),
    "Dask": dask_frame,
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_rows_of_every_source_take_the_place_of_those_that_match(place, name, make):
    place.create(name, BASE)
    first = replace(place, name, make())
    assert (first.created, first.version, first.rows, first.deleted) == (False, 2, 2, 2)
    assert place.rows(name, "n") == AFTER
    assert place.read(name).schema == BASE.schema
    again = replace(place, name, make())
    assert (again.version, again.deleted) == (3, 2)
    assert place.rows(name, "n") == AFTER


def test_the_accessor_tees_and_takes_tuples(place, name):
    place.create(name, BASE)
    frame = ROWS.to_pandas()
    options = {"if_exists": "replace", "client": place.client}
    filters = [("day", "==", DAY), ("n", "in", [7, 8])]
    table = frame.remote.to_table(name, where=filters, **options)
    assert table.deleted == 0
    assert frame.remote.tee(name, where=filters, **options) is frame
    assert sorted(place.read(name)["n"].to_pylist()) == [1, 2, 3, 7, 8]


def test_the_result_and_the_log_tell_both_numbers(place, name, caplog):
    place.create(name, BASE)
    caplog.set_level("INFO", "rt_frames")
    table = replace(place, name, ROWS[:1])
    assert repr(table).startswith(f"RemoteTable({name!r}, 1 row, 2 deleted, ")
    assert f"replaced rows of table {name}, 1 row, 2 columns, " in caplog.text
    assert ", 2 deleted, " in caplog.text
    assert place.upsert(name, BASE, "n").deleted is None
    assert place.create(name, BASE, if_exists="replace").deleted is None


def test_values_are_cast_to_the_tables_types_as_by_an_append(place, name):
    days = pa.array([DAY]).cast(pa.timestamp("s"))
    base = pa.table({"day": days, "n": [1]})
    place.create(name, base)
    at = day == dt.datetime(2024, 1, 2)
    assert replace(place, name, ROWS.set_column(0, "n", [[1.0, 2.0]]), at).deleted == 1
    assert place.read(name)["n"].to_pylist() == [1, 2]
    assert place.read(name).schema == base.schema
    with pytest.raises(UnsupportedTypeError, match=r"column 'n', row 1: "):
        replace(place, name, ROWS.set_column(0, "n", [[1.0, 2.5]]), at)
    with pytest.raises(UnsupportedTypeError, match=r"row 1 does not match"):
        replace(place, name, pd.DataFrame({"day": [DAY, BEFORE], "n": [1, 2]}), at)
    assert place.open(name).version == 2


def test_no_rows_empty_the_place_and_versions_before_can_be_read_and_restored(
    place, name
):
    table = place.create(name, BASE)
    assert replace(place, name, ROWS[:0]).deleted == 2
    assert place.rows(name, "n") == [KEPT]
    assert replace(place, name, ROWS[:0]).deleted == 0
    old = place.client.table(name, version=1)
    assert old.to_arrow().equals(BASE)
    old.restore()
    assert table.to_arrow().equals(BASE)
    assert replace(place, name, BASE, day >= BEFORE).deleted == 3
    assert place.read(name).equals(BASE)


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_a_missing_table_is_made(place, name, make):
    table = replace(place, name, make())
    assert (table.created, table.rows, table.deleted) == (True, 2, 0)
    assert place.read(name)["n"].to_pylist() == [7, 8]
    assert replace(place, name, make()).deleted == 2
    assert place.read(name)["n"].to_pylist() == [7, 8]


def test_a_missing_table_is_made_of_nothing_that_would_be_refused_later(place, name):
    for where, words in [
        (day == "2024", "pass a date"),
        (day.dt.year() == 2024, "cannot be sent"),
        (pl.col("dya") == DAY, "did you mean 'day'"),
        (day == BEFORE, "row 0 does not match"),
    ]:
        for data in (ROWS, ROWS.to_reader()):
            with pytest.raises((ValueError, UnsupportedTypeError), match=words):
                replace(place, name, data, where)
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
    found = [(row["n"], row["new"]) for row in place.rows(name, "n")]
    assert found == [(1, None), (7, "x"), (8, "y")]
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


BAD = pa.concat_tables([ROWS, ROWS.set_column(1, "day", [[DAY, BEFORE]])])
BAD_SOURCES = {
    "pandas": (BAD.to_pandas, "row 3"),
    "Polars": (lambda: pl.from_arrow(BAD), "row 3"),
    "LazyFrame": (lambda: pl.from_arrow(BAD).lazy(), "row 3"),
    "reader": (lambda: BAD.to_reader(max_chunksize=3), "row 3"),
    "generator": (lambda: (BAD[at : at + 2] for at in (0, 2)), "item 1, row 1"),
    "null": (lambda: BAD[:3].set_column(1, "day", [[DAY, DAY, None]]), "row 2"),
}


@pytest.mark.parametrize(("make", "row"), BAD_SOURCES.values(), ids=BAD_SOURCES)
def test_a_row_that_does_not_match_is_named_and_nothing_stored(place, name, make, row):
    place.create(name, BASE)
    words = f"^where: {row} does not match"
    with pytest.raises(UnsupportedTypeError, match=words) as e:
        replace(place, name, make())
    assert e.value.columns == ("day",)
    assert "nothing was stored" in str(e.value)
    assert place.read(name).equals(BASE)
    assert place.open(name).version == 1
    assert not [*place.root.glob(".rt_frames-staging/*/table/data/*")]


def test_a_bad_row_at_the_end_of_gigabytes_stores_nothing(place, name):
    place.create(name, BASE)
    many = pa.table({"n": range(300_000), "day": [DAY] * 300_000})
    batches = (many if at < 20 else BAD for at in range(21))
    with pytest.raises(UnsupportedTypeError, match=r"item 20, row 3 does not match"):
        replace(place, name, batches)
    assert place.read(name).equals(BASE)
    assert place.open(name).version == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"where": day == DAY, "if_exists": "append"}, 'only if_exists="replace"'),
        ({"where": day == DAY, "if_exists": "fail"}, 'only if_exists="replace"'),
        (
            {"where": "day = date '2024-01-02'"},
            r"expected an expression such as pl\.col",
        ),
        ({"where": "true"}, r"expected an expression such as pl\.col"),
        ({"where": pl.lit(value=True)}, "names no column"),
        ({"where": []}, "got no tuple"),
        ({"where": True}, "expected an expression"),
        ({"where": pl.col("s") == "b"}, "the frame has no column 's'"),
        ({"where": (day == DAY) & (pl.col("s") == "b")}, "the frame has no column 's'"),
        ({"where": pl.col("dya") == DAY}, "the frame has no column 'dya'; did you"),
    ],
)
def test_what_cannot_be_meant_is_refused(place, name, options, words):
    place.create(name, BASE)
    with pytest.raises(ValueError, match=f"^where: .*{words}"):
        place.create(name, ROWS, **{"if_exists": "replace", **options})
    assert place.read(name).equals(BASE)
    assert place.open(name).version == 1


@pytest.mark.skipif(not hasattr(pd, "col"), reason="pandas 2 has no expressions")
def test_an_expression_of_pandas_is_refused_with_that_of_polars(place, name):
    place.create(name, BASE)
    with pytest.raises(ValueError, match=r"write \(?pl\.col\('n'\) > 1"):
        replace(place, name, ROWS, pd.col("n") > 1)
    assert place.open(name).version == 1


@pytest.mark.filterwarnings("ignore")
def test_any_other_expression_is_refused_and_no_row_goes(place, name):
    rows = test_expressions.ROWS
    place.create(name, rows)
    n = pl.col("n")
    for other, words in OTHERS:
        beside = [other]
        if isinstance(other, pl.Expr):
            beside = [other, (n == 1) & other, other | (n == 1), ~other]
        for one in beside:
            with pytest.raises(ValueError, match=f"^where: .*{words}"):
                replace(place, name, rows, one)
    assert place.read(name).num_rows == 3
    assert place.open(name).version == 1


# What matches, for all types


def counted(frame: pl.DataFrame) -> Counter[str]:
    return Counter(map(repr, frame["id"]))


@pytest.mark.parametrize("number", [100, pytest.param(2000, marks=pytest.mark.long)])
@pytest.mark.filterwarnings("ignore")
def test_the_rows_that_go_and_may_come_are_those_that_polars_finds(tmp_path, number):
    seed = 7 if number == 100 else random.randrange(2**32)
    print("seed", seed)  # noqa: T201  # to draw the same again
    r = random.Random(seed)
    rows = draw_table(r)
    with rt.connect(tmp_path / "tables", default=False) as client:
        table = client.create_table("t", rows)
        frame = table.to_polars().with_row_index("row")
        refused = 0
        for _ in range(number):
            e = draw(r)
            if not e.meta.root_names() or not is_exact(e):
                continue
            places = frame.filter(e)["row"]
            options = {"if_exists": "replace", "where": e}
            done = client.create_table("t", rows.take(places.to_arrow()), **options)
            assert (done.rows, done.deleted) == (len(places), len(places)), str(e)
            others = frame.filter(~frame["row"].is_in(places))["row"]
            if len(others):
                refused += 1
                with pytest.raises(UnsupportedTypeError) as error:
                    client.create_table("t", rows, **options)
                assert f"row {others[0]} does not match" in str(error.value), str(e)
        assert refused > number / 3
        assert counted(table.to_polars()) == counted(frame)


# Twice, and together


NEW_YORK = ZoneInfo("America/New_York")


def test_a_nightly_job_in_new_york_ends_with_its_day_once(place, name):
    def orders(date: dt.date, many: int) -> pd.DataFrame:
        start = dt.datetime.combine(date, dt.time(), NEW_YORK)
        moments = [start + dt.timedelta(hours=hour) for hour in range(many)]
        at = pd.Series(moments).astype("datetime64[us, America/New_York]")
        return pd.DataFrame({"at": at, "price": range(many)})

    def run(date: dt.date, frame: pd.DataFrame) -> rt.RemoteTable:
        start = dt.datetime.combine(date, dt.time(), NEW_YORK)
        end = dt.datetime.combine(date + dt.timedelta(1), dt.time(), NEW_YORK)
        return replace(place, name, frame, pl.col("at").is_between(start, end, "left"))

    # the clocks change on the second day
    for date in (dt.date(2024, 3, 9), dt.date(2024, 3, 10), dt.date(2024, 3, 11)):
        assert run(date, orders(date, 23)).deleted == 0
    date = dt.date(2024, 3, 10)
    bad = orders(date, 23).astype({"price": object})
    bad.loc[7, "price"] = "seven"
    with pytest.raises(UnsupportedTypeError, match="'price'"):
        run(date, bad)
    for _ in range(2):
        assert run(date, orders(date, 23)).deleted == 23
    with ThreadPoolExecutor(2) as pool:
        together = [pool.submit(run, date, orders(date, 23)) for _ in range(2)]
        assert [one.result().deleted for one in together] == [23, 23]
    found = place.read(name).to_pandas()
    days = Counter(found["at"].dt.tz_convert(NEW_YORK).dt.date)
    assert days == {dt.date(2024, 3, number): 23 for number in (9, 10, 11)}


@pytest.mark.parametrize("there", [True, False], ids=["table", "no table"])
@pytest.mark.parametrize("make", [SOURCES["pandas"], SOURCES["LazyFrame"]])
def test_two_runs_at_once_end_in_the_same_rows(place, name, there, make):
    if there:
        place.create(name, BASE.set_column(0, "day", [[BEFORE] * 3]))
    start = threading.Barrier(4)

    def run():
        start.wait()
        return replace(place, name, make())

    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(run) for _ in range(4)]
        results = [one.result() for one in runs]
    assert sorted(one.deleted for one in results) == [0, 2, 2, 2]
    found = [row["n"] for row in place.rows(name, "n") if row["day"] == DAY]
    assert found == [7, 8]


# An unknown outcome


def losing(service, *, acts: bool) -> Server:
    """Return a server that loses the first replacement, or the answer to it."""
    lost = []

    def script(connection):
        request = connection.body(connection.head())
        is_lost = request.path.endswith("replace_where/") and not lost
        if is_lost:
            lost.append(request)
        answer = b"" if is_lost and not acts else forward(request, service.url)
        if is_lost:
            connection.reset()
        else:
            connection.sock.sendall(answer)

    return Server(script=script)


@pytest.mark.parametrize("acts", [True, False], ids=["done", "not done"])
def test_rows_are_replaced_once_if_the_answer_is_lost(service, acts):
    options = {"api_key": KEY, "dialect": "lancedb"}
    with (
        losing(service, acts=acts) as server,
        rt.Client(server.url, **options) as client,
    ):
        rt.to_table(BASE, "lost", if_exists="replace", client=client)
        again = {"if_exists": "replace", "where": day == DAY, "client": client}
        assert rt.to_table(ROWS[:1], "lost", **again).deleted == 2
        assert sorted(client.table("lost").to_arrow()["n"].to_pylist()) == [1, 7]


def test_after_an_unknown_outcome_the_same_call_ends_in_the_same_rows(service):
    options = {"api_key": KEY, "dialect": "lancedb", "retries": 0}
    with (
        losing(service, acts=False) as server,
        rt.Client(server.url, **options) as client,
    ):
        rt.to_table(BASE, "lost", if_exists="replace", client=client)
        again = {"if_exists": "replace", "where": day == DAY, "client": client}
        with pytest.raises(rt.errors.OutcomeUnknown) as unknown:
            rt.to_table(ROWS[:1], "lost", **again)
        assert "so far the table is unchanged" in str(unknown.value)
        assert "; it is safe to send again" in str(unknown.value)
        assert rt.to_table(ROWS[:1], "lost", **again).deleted == 2
        assert sorted(client.table("lost").to_arrow()["n"].to_pylist()) == [1, 7]


# Services that cannot


CANNOT = (
    "^where: this server cannot replace rows that match a condition in one commit; "
    "nothing was sent; upsert by key, or delete and append, which are two commits$"
)


@pytest.mark.parametrize("there", [True, False], ids=["table", "no table"])
def test_a_server_of_lancedb_refuses_it_and_every_row_is_there(there):
    tables = {"t": Table([[BASE]])} if there else {}
    hosted = Hosted(tables=tables)
    with Server(script=hosted) as server:
        client = rt.Client(server.url, api_key=KEY, dialect=SMALL_PARTS)
        with pytest.raises(ValueError, match=CANNOT):
            rt.to_table(ROWS, "t", if_exists="replace", where=day == DAY, client=client)
    assert hosted.steps == ["describe"]
    assert not there or hosted.tables["t"].rows.equals(BASE)


@pytest.mark.parametrize("there", [True, False], ids=["table", "no table"])
def test_an_embedded_service_of_03_refuses_it_and_every_row_is_there(there):
    # as it answers: it reports no abilities, and ignores parameters
    headers = {"phalanx-version": "0.4.0", "x-rt-frames": "0.3.0"}
    tables = {"t": Table([[BASE]])} if there else {}
    hosted = Hosted(tables=tables, headers=headers)
    with Server(script=hosted) as server:
        client = rt.Client(server.url, api_key=KEY, dialect="lancedb")
        with pytest.raises(ValueError, match=CANNOT):
            rt.to_table(ROWS, "t", if_exists="replace", where=day == DAY, client=client)
    assert hosted.steps == ["describe"]
    assert not there or hosted.tables["t"].rows.equals(BASE)


@pytest.mark.parametrize("status", [404, 501])
def test_a_server_that_lost_the_ability_refuses_it_and_every_row_is_there(status):
    def fault(_number, step):
        return str(status) if step == "replace_where" else ""

    headers = {"x-rt-frames": "0.4.0", "x-rt-frames-can": "keys replace-where"}
    hosted = Hosted(fault, tables={"t": Table([[BASE]])}, headers=headers)
    with Server(script=hosted) as server:
        client = rt.Client(server.url, api_key=KEY, dialect="lancedb")
        words = f"cannot replace rows .*: {status}, .*no row was stored"
        with pytest.raises(ValueError, match=words):
            rt.to_table(ROWS, "t", if_exists="replace", where=day == DAY, client=client)
    assert hosted.tables["t"].rows.equals(BASE)


def test_the_documented_service_refuses_it_and_offers_the_other_api(server, remote):
    with pytest.raises(ValueError, match=r'not possible with dialect="documented"'):
        rt.to_table(ROWS, "t", if_exists="replace", where=day == DAY, client=remote)
    assert server.requests == []
