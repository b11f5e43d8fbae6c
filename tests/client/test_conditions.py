"""What a condition may be, and the values in it, which are never read as SQL."""

from __future__ import annotations

import datetime as dt
import enum
import zoneinfo
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.faults import connected

PIECES = ["'", "''", "`", "?", "--", "/*", "*/", ";", ")", "(", "\\", "$$", '"', "\n"]
PIECE = st.sampled_from([*PIECES, " OR 1 = 1"]) | st.characters(codec="utf-8")
HOSTILE = st.lists(PIECE, max_size=12).map("".join)


@settings(max_examples=settings().max_examples // 10)
@given(first=HOSTILE, second=HOSTILE)
def test_no_text_changes_a_condition(place, first, second):
    texts = [first, second, "x", "?", "' OR 1 = 1 --", None]
    table = place.create("h", pa.table({"it's": texts}), if_exists="replace")
    column = pl.col("it's")
    assert table.count(column == first) == texts.count(first)
    found = table.to_arrow(where=column.is_in([first, second]))["it's"].to_pylist()
    assert found == [text for text in texts if text in (first, second)]
    neither = ~(column == first) & (column != second)
    found = table.to_arrow(where=neither)["it's"].to_pylist()
    assert found == [text for text in texts if text not in (first, second, None)]


class Level(enum.IntEnum):
    HIGH = 7

    def __str__(self):
        return "0 OR true"


class Name(str):
    __slots__ = ()

    def replace(self, *_):
        return "0' OR true"


class Price(float):
    def __repr__(self):
        return "0 OR true"


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NOON = dt.datetime(2024, 3, 1, 12, 0, 0, 5)
ONE = pa.table(  # one row, and one of nulls
    {
        "n": pa.array([7, None], pa.int64()),
        "ok": pa.array([True, None]),
        "x": pa.array([0.1, None]),
        "small": pa.array([0.1, None], pa.float32()),
        "text": pa.array(["seven", None]),
        "raw": pa.array([b"\0'", None]),
        "day": pa.array([NOON.date(), None]),
        "at": pa.array([NOON, None], pa.timestamp("us")),
        "fine": pa.array([pd.Timestamp(NOON).value + 1, None], pa.timestamp("ns")),
        "zoned": pa.array([NOON, None], pa.timestamp("us", "Europe/Berlin")),
        "price": pa.array([Decimal("1.50"), None]),
        "far": pa.array([2**64 - 1, None], pa.uint64()),
        "near": pa.array([-(2**63), None], pa.int64()),
    }
)


@pytest.fixture(scope="module")
def table(place):
    return place.create("one", ONE)


FOUND = [  # a column, and a value that is in it
    *(("n", kind(7)) for kind in (int, np.int8, np.uint64, Level, Decimal)),
    ("n", Decimal("7.00")),
    ("far", 2**64 - 1),
    ("far", np.uint64(2**64 - 1)),
    ("near", -(2**63)),
    ("ok", True),
    ("ok", np.True_),
    ("x", 0.1),
    ("x", np.float64(0.1)),
    ("x", Price(0.1)),
    ("small", np.float32(0.1)),
    ("text", "seven"),
    ("text", np.str_("seven")),
    ("text", Name("seven")),
    ("raw", b"\0'"),
    ("raw", np.bytes_(b"\0'")),
    ("day", NOON.date()),
    ("day", np.datetime64("2024-03-01")),
    ("at", NOON),
    ("at", pd.Timestamp(NOON)),
    ("at", np.datetime64(NOON, "us")),
    ("at", np.datetime64(NOON, "ns")),
    ("fine", np.datetime64(NOON, "ns") + np.timedelta64(1, "ns")),
    ("zoned", NOON.replace(tzinfo=dt.UTC).astimezone(BERLIN)),
    ("zoned", pd.Timestamp(NOON, tz="UTC").tz_convert("Europe/Berlin")),
    ("price", Decimal("1.5")),
    ("price", Decimal("1.50")),
]


@pytest.mark.parametrize(
    ("column", "value"),
    FOUND,
    ids=[f"{column}: {type(value).__name__}" for column, value in FOUND],
)
def test_values_of_other_libraries_and_subclasses_are_what_they_hold(
    table, column, value
):
    assert table.count(pl.col(column) == value) == 1
    assert table.count(pl.col(column) != value) == 0


KINDS = [pl.col("n") == 7, [("n", "==", 7)]]


@pytest.mark.parametrize("where", KINDS, ids=str)
def test_expressions_and_tuples_are_taken_in_every_read(table, where):
    assert table.to_arrow(where=where).num_rows == 1
    assert table.to_pandas(where=where, columns=["n"]).shape == (1, 1)
    assert table.to_polars(where=where, limit=1).height == 1
    assert table.count(where) == 1


def test_a_text_of_many_words_is_one_value(place):
    text = "it's (so) " * 700 + "so"
    table = place.create("w", pa.table({"s": [text, "so"]}))
    assert table.count(pl.col("s") == text) == 1


@pytest.mark.parametrize("where", [7, {}, ("n", "==", 1), pl.Series([True])], ids=str)
def test_anything_else_is_asked_to_be_an_expression(server, where):
    table = connected(server, dialect="lancedb").table("t")
    words = r"^where: \w+ is no condition; nothing was sent; pass an expression such as"
    with pytest.raises(ValueError, match=words):
        table.delete(where)
    with pytest.raises(ValueError, match=words):
        table.to_arrow(where=where)
    assert server.requests == []


READ = [  # by every version of Polars, and by us
    "n > 1",
    "n = 7 AND text <> 'x'",
    "`x y` IS NULL OR ok",
    "n BETWEEN 1 AND 7",
]
NOT_READ = [
    "",
    " ",
    "n >",
    "n = ?",
    "true",
    "n = NULL",
    "length(text) > 1",
    "n > 1; DROP TABLE t",
    "n = 1) OR (true",
    "n = 1 -- x",
    " Where n = 1",
    "(" * 150 + "n",
    "n = 1 OR " * 1000 + "n = 1",
]
CALLS = {
    "count": lambda table, where: table.count(where),
    "delete": lambda table, where: table.delete(where),
    "to_arrow": lambda table, where: table.to_arrow(where=where),
    "to_pandas": lambda table, where: table.to_pandas(where=where),
    "to_polars": lambda table, where: table.to_polars(where=where),
    "create_table": lambda table, where: table.client.create_table(
        "t", ONE, if_exists="replace", where=where
    ),
    "to_table": lambda table, where: pl.DataFrame({"n": [1]}).remote.to_table(
        "t", client=table.client, if_exists="replace", where=where
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("dialect", ["documented", "lancedb"])
def test_text_is_refused_by_every_call_and_nothing_is_sent(server, call, dialect):
    table = connected(server, dialect=dialect).table("t")
    words = (
        "'n > 1' is text, .*; nothing was sent; write where=pl.sql_expr[(]'n > 1'[)]$"
    )
    with pytest.raises(ValueError, match=f"^where: {words}"):
        call(table, "n > 1")
    assert server.requests == []


@pytest.mark.parametrize("text", READ)
def test_the_expression_that_is_shown_instead_of_text_is_taken(place, text):
    wide = ONE.append_column("x y", pa.nulls(2, pa.int8()))
    table = place.create("wide", wide, if_exists="replace")
    with pytest.raises(ValueError, match="is text") as refused:
        table.count(text)
    where = eval(str(refused.value).rpartition("write where=")[2], {"pl": pl})
    wanted = table.to_polars().filter(pl.sql_expr(text))
    assert table.to_polars(where=where).equals(wanted)


@pytest.mark.parametrize("text", NOT_READ, ids=lambda text: text[:20])
def test_other_text_is_asked_to_be_an_expression(table, text):
    words = r'is text, .*; pass an expression such as pl\.col\("n"\) > 1, or a list of'
    for call in (table.count, table.delete):
        with pytest.raises(ValueError, match=f"^where: .*{words}"):
            call(text)
    assert table.count() == 2
