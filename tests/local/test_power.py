"""What a power cut leaves of a table, and what becomes of it.

`tests/longer/power.py` cuts the power at random moments.
"""

from __future__ import annotations

import logging

import lance
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import ServerError, TableNotFoundError
from tests.support.local import manifests, unnamed

ROWS = pl.DataFrame({"id": [1, 2, 3], "v": [1, 2, 3]})
MORE = pl.DataFrame({"id": [4], "v": [4]})
CUTS = {
    "empty": lambda manifest, _: b"",
    "one block": lambda manifest, _: manifest[:512],
    "zeros": lambda manifest, _: bytes(len(manifest)),
    "zeros before the end": lambda manifest, _: (
        bytes(len(manifest) - 16) + manifest[-16:]
    ),
    "another one": lambda _, before: before,
}
WRITES = {
    "append": lambda table: write(table, MORE, if_exists="append"),
    "upsert": lambda table: write(table, MORE, if_exists="upsert", on="id"),
    "replace": lambda table: write(table, MORE, if_exists="replace"),
    "replace rows": lambda table: write(
        table, MORE, if_exists="replace", where=pl.col("id") == 4
    ),
    "delete": lambda table: table.delete(pl.col("id") == 1),
    "cast": lambda table: table.cast({"v": "int32"}),
    "rename": lambda table: table.rename({"v": "u"}),
    "restore": lambda table: table.client.table(table.name, version=1).restore(),
    "compact": lambda table: table.compact(),
    "purge": lambda table: table.compact(purge=True),
}


def write(table, frame, **options):
    rt.to_table(frame, table.name, client=table.client, **options)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "tables"


@pytest.fixture
def client(root):
    """A client of a folder with a table `t` of two versions, to compare with `u`."""
    with rt.connect(root, default=False) as client:
        for name in ("t", "u"):
            for rows in (ROWS, ROWS[:2]):
                rt.to_table(rows, name, client=client, if_exists="replace")
        yield client


def cut(root, how):
    """Let a table have another version, whose manifest a power cut has cut."""
    before = manifests(root)[2].read_bytes()
    rows = pa.concat_tables([MORE.to_arrow()] * 4)
    # whose files' names take more than a block
    lance.write_dataset(rows, str(root / "t.lance"), mode="append", max_rows_per_file=1)
    newest = manifests(root)[3]
    content = newest.read_bytes()
    newest.write_bytes(CUTS[how](content, before))
    assert newest.read_bytes() != content
    return newest


def read(root, name):
    return lance.dataset(str(root / f"{name}.lance")).to_table()


@pytest.mark.parametrize("how", CUTS)
def test_a_version_that_was_cut_is_left_out_with_a_warning(root, client, how, caplog):
    cut(root, how)
    table = client.table("t")
    with caplog.at_level(logging.WARNING, "rt_frames"):
        assert table.to_polars().equals(ROWS[:2])
    words = "manifest of version 3 is not whole, as after a power cut; the newest whole one is 2"
    assert f"table t: the {words}" in caplog.text
    assert (table.count(), table.columns) == (2, client.table("u").columns)
    assert [version.version for version in table.history()] == [2, 1]
    with pytest.raises(TableNotFoundError, match="version 3 does not exist"):
        client.table("t", version=3).count()


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("what", WRITES)
def test_the_next_write_uses_its_number_again(root, client, how, what):
    newest = cut(root, how)
    content = newest.read_bytes()
    for name in ("t", "u"):
        WRITES[what](client.table(name))
    assert read(root, "t") == read(root, "u")
    assert max(manifests(root)) == max(manifests(root, "u"))
    damaged = newest.with_name(f"{newest.name}.damaged")
    assert what == "purge" or damaged.read_bytes() == content
    client.table("t").compact(purge=True)
    assert unnamed(root) == []


def test_several_versions_may_be_cut(root, client):
    for _ in range(2):
        lance.write_dataset(MORE.to_arrow(), str(root / "t.lance"), mode="append")
    for version in (3, 4):
        manifests(root)[version].write_bytes(b"")
    assert client.table("t").to_polars().equals(ROWS[:2])
    client.table("t").delete(pl.col("id") == 1)
    assert read(root, "t").equals(ROWS[1:2].to_arrow())
    assert [version.version for version in client.table("t").history()] == [3, 2, 1]


@pytest.mark.parametrize("how", ["empty", "zeros", "zeros before the end"])
def test_a_table_whose_first_version_was_cut_is_replaced_or_dropped(root, client, how):
    for name in ("t", "u"):
        rt.to_table(ROWS, name, client=client, if_exists="append")
        client.table(name).compact(purge=True)
        (manifest,) = manifests(root, name).values()
        manifest.write_bytes(CUTS[how](manifest.read_bytes(), b""))
    table = client.table("t")
    for what in ("append", "upsert", "replace rows", "delete", "cast"):
        with pytest.raises(ServerError, match="drop or replace the table"):
            WRITES[what](table)
    WRITES["replace"](table)
    assert read(root, "t").equals(MORE.to_arrow())
    client.table("u").drop()
    assert client.list_tables() == ["t"]
