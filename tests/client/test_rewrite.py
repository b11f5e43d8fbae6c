"""Tables that are read, cast exactly and replaced.

Each value is the same afterwards, or the error names its row.
"""

from __future__ import annotations

import datetime
import logging

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import (
    AlterationError,
    ConflictError,
    TableNotFoundError,
    UnsupportedTypeError,
)
from tests.support.hosted import Hosted
from tests.support.local import nested

TEXT = pl.DataFrame(schema={"n": pl.String})


@pytest.fixture
def client(tmp_path):
    with rt.connect(tmp_path / "tables") as client:
        yield client


def stored(table):
    return lance.dataset(f"{table.client}/{table.name}.lance")


def rewrite(
    after: pl.DataFrame | pd.DataFrame | pa.Schema, **options
) -> rt.RemoteTable:
    return rt.alter_table(after, "t", rewrite=True, **options)


DAYS = pa.array(["2024-02-29", None])
BEFORE = nested().select(["n", "s", "l", "v"]).append_column("day", DAYS)
AFTER = {
    "n": pl.Decimal(10, 1),
    "s": pl.Struct({"x": pl.String, "z": pl.String}),
    "l": pl.List(pl.Struct({"x": pl.Float64, "y": pl.String})),
    "v": pl.List(pl.String),
    "at": pl.Date,
}


def test_all_of_a_plan_is_done_at_any_depth(client):
    rt.to_table(BEFORE, "t")
    after = pl.DataFrame(schema=AFTER)
    table = rewrite(after, rename={"day": "at", "s.y": "z"}, nullable={"n": False})
    found = stored(table).to_table()
    assert table.version == 2
    assert table.rows == 2
    assert not found.schema.field("n").nullable
    assert found["n"].to_pylist() == [1, 2]
    assert found["s"].to_pylist() == [{"x": "1", "z": "p"}, {"x": "2", "z": "q"}]
    assert found["l"].to_pylist() == [[{"x": 5.0, "y": "r"}], []]
    assert found["v"].to_pylist() == [["1"], ["2", "3"]]
    assert found["at"].to_pylist() == [datetime.date(2024, 2, 29), None]
    assert table.rename({"at": "day"}).version == 3
    renamed = after.rename({"at": "day"})
    assert not renamed.remote.plan_alterations(rt.table("t"))


IDS = pa.array([bytes(15) + b"1", None], pa.uuid())
KINDS = {
    "id": IDS,
    "doc": pa.array(['{"a":1}', None], pa.json_(pa.string())),
    "ids": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), IDS),
    "who": pa.StructArray.from_arrays([IDS], ["id"]),
}


@pytest.mark.parametrize("kind", ["folder", "hosted"])
def test_uuids_and_json_at_any_depth_stay_what_they_are(client, hosted, kind):
    """A hosted service describes the storage type, and sends the values as they are."""
    it = client if kind == "folder" else hosted[1]
    table = it.create_table("kinds", pa.table({**KINDS, "n": [1, 2]}))
    wanted = pa.table({**KINDS, "n": [1.0, 2.0]})
    rt.alter_table(wanted, "kinds", rewrite=True, client=it)
    found = table.to_arrow()
    assert found.schema == wanted.schema
    assert found.to_pylist() == wanted.to_pylist()


INTEGERS = pa.list_(pa.int64())
MOMENTS = pa.list_(pa.timestamp("us"))
UNITS = [  # a value, its type, and a type whose unit nobody can see in a number
    (1_700_000_000, pa.int64(), pa.timestamp("us")),
    (20240105, pa.int32(), pa.date32()),
    (90, pa.uint16(), pa.duration("s")),
    (1, pa.int64(), pa.time64("us")),
    (1.5, pa.float64(), pa.timestamp("ms", "UTC")),
    (1, pa.decimal128(9, 0), pa.duration("us")),
    (datetime.datetime(2023, 1, 1), pa.timestamp("us"), pa.int64()),
    (datetime.date(2023, 1, 1), pa.date32(), pa.int32()),
    (datetime.time(1), pa.time32("s"), pa.int32()),
    (datetime.timedelta(1), pa.duration("us"), pa.float64()),
    ([1], INTEGERS, MOMENTS),
    ({"x": [1]}, pa.struct({"x": INTEGERS}), pa.struct({"x": MOMENTS})),
]


@pytest.mark.parametrize("place", ["folder", "hosted"])
@pytest.mark.parametrize(("value", "before", "after"), UNITS, ids=str)
def test_no_number_becomes_a_time_or_back(client, hosted, place, value, before, after):
    it = client if place == "folder" else hosted[1]
    rows = pa.table({"c": pa.array([value], before)})
    table = it.create_table("units", rows)
    schema = pa.schema({"c": after})
    calls = [
        lambda: rt.alter_table(schema, "units", client=it),
        lambda: rt.alter_table(schema, "units", rewrite=True, client=it),
        lambda: table.cast({"c": after}),
        lambda: table.cast({"c": after}, rewrite=True),
    ]
    for call in calls:
        with pytest.raises(AlterationError, match="convert them in the frame") as error:
            call()
        assert "rewrite=True" not in str(error.value)
    assert it.table("units").to_arrow().equals(rows)


def test_what_does_not_fit_is_refused_by_row_and_nothing_changes(client):
    table = rt.to_table(pa.table({"x": ["0.5", "0.1"], "keep": ["a", "b"]}), "t")
    after = pl.DataFrame(schema={"x": pl.Float32, "keep": pl.String})
    with pytest.raises(AlterationError, match="rewrite=True"):
        after.remote.alter_table("t")
    with pytest.raises(ValueError, match="rewrite, lossy"):
        rewrite(after, lossy=True)
    with pytest.raises(UnsupportedTypeError, match="column 'x', row 1"):
        rewrite(after)
    assert stored(table).version == 1


def indices(client) -> list[str]:
    dataset = lance.dataset(f"{client}/t.lance")
    return [index.name for index in dataset.describe_indices()]


INDEXED = pa.table({"i": [1, 2], "n": [1, 2], "x": [0.5, 1.5]})
PERMITTED = [  # what changes, how many commits it is, and whether it needs all rows
    ({"i": "int64", "n": "int32", "x": "float64"}, {}, 1, False),
    ({"i": "int64", "m": "int64", "x": "float64"}, {"rename": {"n": "m"}}, 1, False),
    ({"i": "int64", "n": "int8", "y": "date32"}, {"add_columns": True}, 2, False),
    ({"i": "int64", "x": "float64"}, {"drop_columns": ["n"]}, 1, False),
    ({"i": "int64", "n": "float64", "x": "float64"}, {}, 1, True),
    ({"i": "int64", "m": "float64", "x": "float64"}, {"rename": {"n": "m"}}, 1, True),
    ({"i": "int64", "x": "float32"}, {"drop_columns": ["n"]}, 1, True),
    ({"i": "int64", "n": "float64", "y": "date32"}, {"add_columns": True}, 1, True),
]


@pytest.mark.parametrize(("after", "options", "commits", "is_rewritten"), PERMITTED)
def test_a_table_is_rewritten_only_if_a_change_needs_it(
    client, after, options, commits, is_rewritten
):
    made = lance.write_dataset(INDEXED, f"{client}/t.lance")
    made.create_scalar_index("i", "BTREE")
    table = rewrite(after, **options)
    assert table.version == 2 + commits
    assert table.rows == (2 if is_rewritten else None)
    assert indices(client) == ([] if is_rewritten else ["i_idx"])
    types = {field.name: field.type for field in stored(table).schema}
    assert {name: types[name] for name in after} == {
        name: pa.type_for_alias(word) for name, word in after.items()
    }


CASTS = [  # types, the rows afterwards, and whether they were rewritten
    ({"n": "int32"}, [(1, 0.5), (2, 1.5)], False),
    ({"n": "float64"}, [(1.0, 0.5), (2.0, 1.5)], True),
    ({"x": "float32"}, [(1, 0.5), (2, 1.5)], True),
    ({"n": "int8", "x": "string"}, [(1, "0.5"), (2, "1.5")], True),
    ({"n": "int64"}, [(1, 0.5), (2, 1.5)], None),
]


@pytest.mark.parametrize("place", ["folder", "hosted"])
@pytest.mark.parametrize(("types", "rows", "is_rewritten"), CASTS, ids=str)
def test_a_cast_may_rewrite_the_table_as_alter_table_does(
    client, hosted, place, types, rows, is_rewritten
):
    it = client if place == "folder" else hosted[1]
    it.create_table("c", pa.table({"n": [1, 2], "x": [0.5, 1.5]}))
    cast = it.table("c").cast(types, rewrite=True)
    assert cast.version == (None if is_rewritten is None else 2)
    assert cast.rows == (2 if is_rewritten else None)
    assert it.table("c").to_polars().rows() == rows
    assert it.table("c").cast(types, rewrite=True).version is None


def test_a_cast_that_rewrites_is_exact_and_names_what_it_cannot_do(client):
    table = rt.to_table(pa.table({"x": [0.5, 0.1], "v": [[1], [2]]}), "t")
    with pytest.raises(UnsupportedTypeError, match="column 'x', row 1"):
        table.cast({"x": "float32"}, rewrite=True)
    with pytest.raises(AlterationError, match=r"no column 'y'; .* known: 'v'"):
        table.cast({"y": "float32"}, rewrite=True)
    with pytest.raises(AlterationError, match="a rewrite cannot cast 'v';"):
        table.cast({"v": "int64"}, rewrite=True)
    with pytest.raises(ValueError, match="rewrite: expected True or False"):
        table.cast({"x": "float32"}, rewrite="yes")
    assert stored(table).version == 1


MARKS = {"made": "by others"}
KEY = {"lance-schema:unenforced-primary-key": "true"}
ID = pa.field("id", pa.int64(), nullable=False, metadata=KEY)
WEIGHT = pa.field("n", pa.int64(), metadata={"unit": "kg"})
GRAMS = pa.field("g", pa.float32(), metadata={"unit": "g"})
METRES = pa.field("item", pa.int64(), metadata={"unit": "m"})
INSIDE = [pa.field("s", pa.struct([GRAMS])), pa.field("l", pa.list_(METRES))]


def test_metadata_stays_and_indices_go_with_a_warning(client, caplog):
    rows = {"id": [7], "n": [1], "s": [{"g": 0.5}], "l": [[1]]}
    made = pa.table(rows, pa.schema([ID, WEIGHT, *INSIDE], MARKS))
    path = f"{client}/t.lance"
    lance.write_dataset(made, path).create_scalar_index("n", "BTREE")
    rewrite(made.schema.set(1, pa.field("m", pa.string())), rename={"n": "m"})
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    found = lance.dataset(path)
    weight = WEIGHT.with_name("m").with_type(pa.string())
    assert len(warnings) == 1
    assert "n_idx" in warnings[0].message
    wanted = {"id": [7], "m": ["1"], "s": [{"g": 0.5}], "l": [[1]]}
    assert found.to_table().to_pydict() == wanted
    schema = pa.schema([ID, weight, *INSIDE], MARKS)
    assert found.schema.equals(schema, check_metadata=True)


class AfterRequest(logging.Filter):
    """Calls a function once, when a request to a path was logged."""

    def __init__(self, path: str, act) -> None:
        super().__init__()
        self.path = path
        self.acts = [act]

    def filter(self, record: logging.LogRecord) -> bool:
        if self.path in record.getMessage() and self.acts:
            self.acts.pop()()
        return True


def write(*numbers: int, **options) -> None:
    rt.to_table(pa.table({"n": numbers}), "t", **options)


def make_anew() -> None:
    rt.table("t").drop()
    write(1, 2)


MEANWHILE = [  # what somebody does while the rows are read, the error, the rows then
    (lambda: write(3, if_exists="append"), ConflictError, [1, 2, 3]),
    (lambda: write(4, if_exists="replace"), ConflictError, [4]),
    (make_anew, ConflictError, [1, 2]),
    (lambda: rt.table("t").drop(), TableNotFoundError, None),
]


@pytest.mark.parametrize(("happens", "kind", "left"), MEANWHILE)
def test_a_folder_refuses_a_rewrite_if_somebody_else_wrote_meanwhile(
    client, caplog, happens, kind, left
):
    write(1, 2)
    caplog.set_level("DEBUG", "rt_frames")
    logger = logging.getLogger("rt_frames")
    logger.addFilter(after := AfterRequest("/t/query/", happens))
    with pytest.raises(kind, match="nothing was changed"):
        rewrite(TEXT)
    logger.removeFilter(after)
    assert after.acts == []
    assert client.list_tables() == ([] if left is None else ["t"])
    if left is not None:
        assert client.table("t").to_polars()["n"].to_list() == left


def test_a_folder_is_sent_no_parts(client, caplog):
    write(1, 2)
    caplog.set_level("DEBUG", "rt_frames")
    rewrite(TEXT)
    assert "multipart" not in caplog.text


@pytest.fixture
def hosted():
    """A hosted service that gives rows, with a client and a table of two rows."""
    hosted = Hosted()
    with hosted.connect(retries=0) as client:
        client.create_table("t", pa.table({"n": [1, 2]}))
        client.list_tables()
        yield hosted, client


@pytest.mark.parametrize("happens", ["create_parts", "part"])
def test_what_somebody_else_writes_meanwhile_is_not_lost(hosted, happens):
    hosted, client = hosted

    def somebody_writes(step):
        if step == happens:
            hosted.tables["t"].versions.append([pa.table({"n": [1, 2, 3]})])

    hosted.changed = somebody_writes
    with pytest.raises(ConflictError, match="nothing was changed"):
        rewrite(TEXT, client=client)
    assert hosted.tables["t"].rows["n"].to_pylist() == [1, 2, 3]
    # the service itself sees that one
    assert ("complete" in hosted.steps) == (happens == "create_parts")
    assert hosted.uploads == {}
    hosted.changed = lambda _: None
    assert rewrite(TEXT, client=client).rows == 3
    assert hosted.tables["t"].rows["n"].to_pylist() == ["1", "2", "3"]


def test_a_rewrite_asks_for_versions(hosted):
    hosted, client = hosted
    describe = hosted.describe
    hosted.describe = lambda *about: (200, {**describe(*about)[1], "version": None})
    with pytest.raises(ValueError, match="'t'"):
        rewrite(TEXT, client=client)
    assert hosted.uploads == {}


def test_a_rewrite_starts_over_if_it_fails_before_its_commit():
    hosted = Hosted()
    with hosted.connect(retries=1) as client:
        client.create_table("t", pa.table({"n": [1, 2]}))
        hosted.meet("part", "429", 1)
        assert rewrite(TEXT, client=client).rows == 2
    assert hosted.tables["t"].rows["n"].to_pylist() == ["1", "2"]


def test_a_look_that_fails_hides_no_refusal(hosted):
    hosted, client = hosted
    hosted.meet("count_rows", "500")
    with pytest.raises(AlterationError, match="rewrite=True"):
        TEXT.remote.alter_table("t", client=client)


def test_a_service_that_cannot_rewrite_says_what_is_left():
    old = Hosted(version="0.3.0")
    with old.connect() as client:
        before = client.create_table("t", pa.table({"n": [1]}))
        with pytest.raises(AlterationError, match="so cast all its rows"):
            TEXT.remote.alter_table("t", before, client=client)
