"""Handles of one version: they read it as it was, and never change the table."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import TableNotFoundError
from tests.support.hosted import Hosted, Table

FIRST = pa.table({"id": [1, 2, 3], "s": ["x", "y", None]})
NEW = pa.table({"id": [3, 4], "n": pa.array([30, 40], pa.int8())})


def make_versions(place, name):
    """Make a table of which version 1 has other rows and columns than the newest."""
    place.create(name, FIRST)
    place.upsert(name, NEW, add_columns=True)
    place.table(name).delete(pl.col("id") == 1)
    place.table(name).cast({"id": "int32"})
    handle = place.table(name)
    handle.alter_columns(rt.AlterationPlan(dropped=["s"]))
    assert place.open(name).version == 6
    return handle


@pytest.fixture(scope="module")
def table(place):
    """A table of several versions, which is only read."""
    return make_versions(place, "versions")


def test_a_handle_of_a_version_reads_it_in_every_way(place, table):
    old = place.table(table.name, version=1)
    frame = pl.from_arrow(FIRST)
    assert old.version == 1
    assert old.schema == FIRST.schema
    assert old.to_arrow().equals(FIRST)
    assert old.to_polars().equals(frame)
    assert old.to_pandas()["id"].tolist() == [1, 2, 3]
    assert old.to_arrow(columns=["s"], where=pl.col("id") == 2).to_pydict() == {
        "s": ["y"]
    }
    assert old.count() == 3
    assert old.count(pl.col("s").is_null()) == 1
    assert pa.table(old).equals(FIRST)
    assert old.scan().filter(pl.col("id") > 1).collect().equals(frame[1:])
    assert "version 1" in repr(old)
    assert "string" in old._repr_html_()


def test_a_version_is_a_source_for_other_tables(place, table):
    old = place.table(table.name, version=1)
    made = place.create(f"{table.name}_copy", old)
    assert made.to_arrow().equals(FIRST)
    assert place.upsert(f"{table.name}_copy", old).updated == 3


WRITES = {
    "delete": lambda t: t.delete(pl.col("id") == 1),
    "drop": lambda t: t.drop(),
    "rename": lambda t: t.rename({"id": "key"}),
    "cast": lambda t: t.cast({"id": "int32"}),
    "nullable": lambda t: t.set_nullable({"id": False}),
    "alter": lambda t: t.alter_columns([rt.Alteration("id", rename="key")]),
    "add": lambda t: t.alter_columns(
        rt.AlterationPlan(added=pa.schema({"new": pa.int8()}))
    ),
    "nothing": lambda t: t.alter_columns(rt.AlterationPlan()),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_it_is_never_written_to(place, table, write):
    old = place.table(table.name, version=1)
    with pytest.raises(ValueError, match=r"is read-only.*restore"):
        write(old)
    assert place.open(table.name).version == 6


def test_it_is_restored_with_rows_and_columns(place, name):
    make_versions(place, name)
    made = place.table(name, version=1).restore()
    assert made.version == 7
    assert made.created is False
    assert made.to_arrow().equals(FIRST)
    assert place.read(name).equals(FIRST)
    assert made.delete(pl.col("id") == 1) == 1
    assert place.upsert(name, FIRST).inserted == 1
    # those in between stay, too
    assert place.table(name, version=6).restore().version == 10
    assert place.read(name).column_names == ["id", "n"]
    assert place.table(name, version=9).count() == 3


@pytest.mark.parametrize("version", [0, -1, 1.5, "1", True, 1.0])
def test_what_is_no_version_is_refused(place, name, version):
    with pytest.raises(
        ValueError, match=r"version: (expected a whole number from 1|'1' is no number)"
    ):
        place.table(name, version=version)


READS = {
    "rows": lambda t: t.to_arrow(),
    "Polars": lambda t: t.to_polars(),
    "pandas": lambda t: t.to_pandas(),
    "count": lambda t: t.count(),
    "schema": lambda t: t.schema,
    "stream": pa.table,
    "scan": lambda t: t.scan(),
    "restore": lambda t: t.restore(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_version_that_is_not_there_is_a_table_not_found_that_says_version(
    place, table, read
):
    old = place.table(table.name, version=99)
    with pytest.raises(TableNotFoundError, match=r"version 99\b"):
        read(old)
    assert place.open(table.name).version == 6


def test_a_version_that_is_gone_is_one_too(place, name):
    place.create(name, FIRST)
    old = place.table(name, version=1)
    assert old.count() == 3
    place.table(name).compact(purge=True)
    with pytest.raises(TableNotFoundError, match=r"version 1\b"):
        old.count()
    assert place.table(name).count() == 3


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_table_that_is_not_there_is_told_by_its_name(place, name, read):
    with pytest.raises(TableNotFoundError, match=name):
        read(place.table(name, version=1))


# Services that cache versions


def test_a_version_is_named_in_each_request_and_nothing_fresher_is_asked_for():
    hosted = Hosted(tables={"t": Table([[FIRST], [FIRST, FIRST], [FIRST]])})
    with hosted.connect(retries=0) as client:
        old = client.table("t", version=2)
        assert old.count() == 6
        assert old.to_arrow().num_rows == 6
        assert old.schema == FIRST.schema
        assert old.scan().collect().height == 6
    assert len(hosted.server.posts) == 5
    for read in hosted.server.posts:
        assert b'"version": 2' in read.body
        assert "x-lancedb-min" not in "".join(read.headers)
