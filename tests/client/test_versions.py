"""Handles of one version: they read it as it was, and never change the table."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import BadRequest, TableNotFoundError
from tests.support.hosted import Hosted, Table

FIRST = pa.table({"id": [1, 2, 3], "s": ["x", "y", None]})
NEW = pa.table({"id": [3, 4], "n": pa.array([30, 40], pa.int8())})


@pytest.fixture
def table(place, name):
    """A table of which version 1 has other rows and columns than the newest."""
    place.create(name, FIRST)
    place.upsert(name, NEW, add_columns=True)
    place.client.table(name).delete("id = 1")
    place.client.table(name).cast({"id": "int32"})
    handle = place.client.table(name)
    handle.alter_columns(rt.AlterationPlan(dropped=["s"]))
    assert place.open(name).version == 6
    return handle


def test_a_handle_of_a_version_reads_it_in_every_way(place, table):
    old = place.client.table(table.name, version=1)
    assert old.version == 1
    assert old.schema == FIRST.schema
    assert old.to_arrow().equals(FIRST)
    assert old.to_polars().equals(pl.from_arrow(FIRST))
    assert old.to_pandas()["id"].tolist() == [1, 2, 3]
    found = old.to_arrow(columns=["s"], where=pl.col("id") == 2).to_pydict()
    assert found == {"s": ["y"]}
    assert old.to_arrow(limit=0).schema == FIRST.schema
    assert old.count() == 3
    assert old.count("s IS NULL") == 1
    assert pa.table(old).equals(FIRST)
    assert pl.DataFrame(old).equals(pl.from_arrow(FIRST))
    scanned = old.scan()
    found = scanned.filter(pl.col("id") > 1).select("s").collect()["s"].to_list()
    assert found == ["y", None]
    assert "version 1" in repr(old)
    assert "large_string" in old._repr_html_() or "string" in old._repr_html_()


def test_each_version_is_what_it_was(place, table):
    columns = [["id", "s"], ["id", "s", "n"], ["id", "s", "n"], ["id", "s", "n"]]
    columns += [["id", "s", "n"], ["id", "n"]]
    rows = [3, 3, 4, 3, 3, 3]
    for version in range(1, 7):
        old = place.client.table(table.name, version=version)
        assert old.schema.names == columns[version - 1]
        assert old.count() == rows[version - 1]
    assert table.to_arrow().schema.types == [pa.int32(), pa.int8()]


def test_a_version_is_a_source_for_other_tables(place, table):
    old = place.client.table(table.name, version=1)
    made = place.create(f"{table.name}_copy", old)
    assert made.to_arrow().equals(FIRST)
    assert place.upsert(f"{table.name}_copy", old).updated == 3


def test_two_uses_of_a_scan_read_the_same_version(place, name):
    place.create(name, FIRST)
    scanned = place.client.table(name).scan()
    place.append(name, FIRST)
    assert pl.concat([scanned, scanned]).collect().height == 6
    assert place.client.table(name).scan().collect().height == 6


WRITES = {
    "delete": lambda t: t.delete("id = 1"),
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
    for version in (1, 6):
        old = place.client.table(table.name, version=version)
        with pytest.raises(ValueError, match=r"is read-only.*restore"):
            write(old)
    assert place.open(table.name).version == 6


def test_it_is_restored_with_rows_and_columns(place, table):
    made = place.client.table(table.name, version=1).restore()
    assert (made.version, made.created) == (7, False)
    assert made.to_arrow().equals(FIRST)
    assert place.read(table.name).equals(FIRST)
    assert made.delete("id = 1") == 1
    assert place.upsert(table.name, FIRST).inserted == 1
    # those in between stay, too
    assert place.client.table(table.name, version=6).restore().version == 10
    assert place.read(table.name).column_names == ["id", "n"]
    assert place.client.table(table.name, version=9).count() == 3


def test_the_newest_can_be_restored_as_well(place, table):
    before = place.read(table.name)
    assert place.client.table(table.name, version=6).restore().version == 7
    assert place.read(table.name).equals(before)


def test_a_handle_without_a_version_restores_none(place, table):
    with pytest.raises(ValueError, match=r"rt\.table\(.*, version=…\)\.restore\(\)"):
        table.restore()
    made = place.append(table.name, pa.table({"id": [5]}))
    with pytest.raises(ValueError, match="restore: this handle is of no version"):
        made.restore()


@pytest.mark.parametrize("version", [0, -1, 1.5, "1", True, 1.0])
def test_what_is_no_version_is_refused(place, name, version):
    with pytest.raises(ValueError, match="version: expected a whole number from 1"):
        place.client.table(name, version=version)


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
    old = place.client.table(table.name, version=99)
    with pytest.raises(TableNotFoundError, match=r"version 99\b"):
        read(old)
    assert place.open(table.name).version == 6


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_version_that_is_gone_is_one_too(tmp_path, read):
    with rt.connect(tmp_path, default=False) as client:
        client.create_table("t", FIRST)
        old = client.table("t", version=1)
        assert old.count() == 3
        client.table("t").compact(purge=True)
        with pytest.raises(TableNotFoundError, match=r"version 1\b"):
            read(old)
        assert client.table("t").count() == 3


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_table_that_is_not_there_is_told_by_its_name(place, name, read):
    with pytest.raises(TableNotFoundError, match=name):
        read(place.client.table(name, version=1))


def test_numbers_begin_again_after_a_drop(place, table):
    old = place.client.table(table.name, version=1)
    table.drop()
    with pytest.raises(TableNotFoundError):
        old.to_arrow()
    other = pa.table({"other": [7]})
    assert place.create(table.name, other).version == 1
    assert old.to_arrow().equals(other)
    with pytest.raises(TableNotFoundError, match="version 2"):
        place.client.table(table.name, version=2).count()


def test_a_replaced_table_has_its_old_versions(place, table):
    other = pa.table({"other": [7]})
    assert place.create(table.name, other, if_exists="replace").version == 7
    assert place.client.table(table.name, version=1).to_arrow().equals(FIRST)
    assert place.client.table(table.name, version=1).restore().version == 8
    assert place.read(table.name).equals(FIRST)


def test_a_condition_that_cannot_be_read_is_refused_as_ever(place, table):
    with pytest.raises(BadRequest, match="nope"):
        place.client.table(table.name, version=1).count("nope = 1")


# Services that cache versions


def test_a_version_is_named_in_each_request_and_nothing_fresher_is_asked_for():
    hosted = Hosted()
    with hosted.connect(retries=0) as client:
        hosted.tables["t"] = Table([[FIRST], [FIRST, FIRST], [FIRST]])
        old = client.table("t", version=2)
        assert old.count() == 6
        assert old.to_arrow().num_rows == 6
        assert old.schema == FIRST.schema
        assert old.scan().collect().height == 6
        reads = list(hosted.server.posts)
        assert len(reads) == 5
        for one in reads:
            assert b'"version": 2' in one.body
            assert not [name for name in one.headers if "x-lancedb-min" in name]


def test_a_server_that_restores_nothing_is_named():
    hosted = Hosted(fault=lambda _, step: "501" if step == "restore" else "")
    with hosted.connect() as client:
        hosted.tables["t"] = Table([[FIRST]])
        with pytest.raises(ValueError, match="cannot restore a version of a table"):
            client.table("t", version=1).restore()
