"""Tables with files that are damaged, missing or not readable, but by no power cut."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import lance
import polars as pl
import pytest

import rt_frames as rt
from rt_frames.errors import RemoteError, ServerError
from tests.support.local import manifests, unnamed

ROWS = pl.DataFrame({"id": [1, 2, 3]})
MORE = pl.DataFrame({"id": [4]})
NOBODY = 65534


def newest(root, folder):
    files = (root / "t.lance" / folder).iterdir()
    return max(files, key=lambda file: file.stat().st_mtime_ns)


def manifest(root):
    return manifests(root)[2]


def garble(path):
    path.write_bytes(b"\xff" * (path.stat().st_size - 16) + path.read_bytes()[-16:])


def change_end(path):
    path.write_bytes(path.read_bytes()[:-4] + b"\xff" * 4)


def zero(path):
    path.write_bytes(bytes(path.stat().st_size))


def halve(path):
    os.truncate(path, path.stat().st_size // 2)


DAMAGES = {
    "a manifest": (manifest, garble, "is damaged"),
    "half a manifest": (manifest, halve, "is damaged"),
    "no rows": (lambda root: newest(root, "data"), Path.unlink, "is missing"),
    "few rows": (
        lambda root: newest(root, "data"),
        lambda path: os.truncate(path, 9),
        "is damaged",
    ),
}
LOCKED = {
    "a manifest": manifest,
    "rows": lambda root: newest(root, "data"),
    "all rows": lambda root: root / "t.lance" / "data",
}
AIDS = {
    "restore": (lambda table: table.client.table("t", version=1).restore(), ROWS),
    "replace": (
        lambda table: rt.to_table(MORE, "t", client=table.client, if_exists="replace"),
        MORE,
    ),
    "drop": (lambda table: table.drop(), None),
}


@pytest.fixture
def root():
    """A folder that everybody may use, with a table `t` of two versions."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with rt.connect(root, default=False) as client:
            rt.to_table(ROWS, "t", client=client)
            rt.to_table(MORE, "t", client=client, if_exists="append")
            client.table("t").to_polars()
        yield root


def check_aid(root, client, aid):
    mend, expected = AIDS[aid]
    mend(client.table("t"))
    if expected is None:
        assert client.list_tables() == []
        rt.to_table(expected := MORE, "t", client=client)
    assert lance.dataset(str(root / "t.lance")).to_table().equals(expected.to_arrow())


@pytest.mark.parametrize("aid", AIDS)
@pytest.mark.parametrize("name", DAMAGES)
def test_a_read_names_the_damaged_file_and_what_helps_helps(root, name, aid):
    find, damage, words = DAMAGES[name]
    path = find(root)
    damage(path)
    with rt.connect(root, default=False) as client:
        with pytest.raises(RemoteError, match="restore an older version") as refused:
            client.table("t").to_polars()
        file = path.relative_to(root / "t.lance")
        assert f"{file} of the table {words}" in str(refused.value)
        check_aid(root, client, aid)


def garble_start(path):
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(b"\xff" * half + content[half:])


FILES = {"zeros": zero, "half": halve, "garbled": garble_start, "missing": Path.unlink}
CALLS = {
    "count": lambda table: table.count(pl.col("id") > 0),
    "delete": lambda table: table.delete(pl.col("id") > 0),
    "compact": lambda table: table.compact(),
    "purge": lambda table: table.compact(purge=True),
    "cast": lambda table: table.cast({"id": "int32"}),
    "upsert": lambda table: rt.to_table(
        MORE, "t", client=table.client, if_exists="upsert", on="id"
    ),
    "replace rows": lambda table: rt.to_table(
        MORE, "t", client=table.client, if_exists="replace", where=pl.col("id") == 4
    ),
}


@pytest.mark.parametrize("damage", FILES)
@pytest.mark.parametrize("folder", ["data", "_deletions"])
def test_each_call_names_the_damaged_file_and_changes_nothing(root, folder, damage):
    words = "is missing" if damage == "missing" else "is damaged"
    with rt.connect(root, default=False) as client:
        table = client.table("t")
        table.delete(pl.col("id") == 2)
        path = newest(root, folder)
        FILES[damage](path)
        for call in CALLS.values():
            with pytest.raises(
                ServerError, match=r"table\(name, version=n\)"
            ) as refused:
                call(table)
            assert path.name in str(refused.value)
            assert words in str(refused.value)
        assert sorted(manifests(root)) == [1, 2, 3]
        # as an answer, or after the rows before it
        with pytest.raises(RemoteError, match=r"table\(name, version=n\)") as refused:
            table.to_polars(where=pl.col("id") > 0)
        assert path.name in str(refused.value)


def test_a_file_that_is_damaged_in_its_middle_is_named(root):
    with rt.connect(root, default=False) as client:
        rows = pl.DataFrame({"id": range(2 * 10**6)})
        table = rt.to_table(rows, "large", client=client)
        path = max(
            (root / "large.lance/data").iterdir(), key=lambda file: file.stat().st_size
        )
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            file.write(bytes(4096))
        for call in (rt.RemoteTable.to_polars, CALLS["count"], CALLS["delete"]):
            with pytest.raises(RemoteError, match="is damaged; restore") as refused:
                call(table)
            assert path.name in str(refused.value)
            assert "read it again" not in str(refused.value)


@pytest.mark.parametrize("damage", FILES)
def test_a_purge_keeps_the_versions_before_rows_that_are_damaged(root, damage):
    with rt.connect(root, default=False) as client:
        table = rt.to_table(MORE, "t", client=client, if_exists="replace")
        FILES[damage](newest(root, "data"))
        with pytest.raises(ServerError, match="restore an older version"):
            table.compact(purge=True)
        assert sorted(manifests(root)) == [1, 2, 3]
        check_aid(root, client, "restore")


@pytest.mark.parametrize("damage", FILES)
@pytest.mark.parametrize("folder", ["data", "_deletions"])
def test_no_version_is_restored_whose_rows_are_damaged(root, folder, damage):
    with rt.connect(root, default=False) as client:
        table = client.table("t")
        table.delete(pl.col("id") == 2)
        path = newest(root, folder)
        rt.to_table(MORE, "t", client=client, if_exists="replace")
        FILES[damage](path)
        words = f"{path.name} of the table is (damaged|missing)"
        with pytest.raises(ServerError, match=words):
            client.table("t", version=3).restore()
        assert sorted(manifests(root)) == [1, 2, 3, 4]
        assert table.to_polars().equals(MORE)


@pytest.mark.parametrize(
    "call",
    [
        lambda table: table.to_polars(),
        lambda table: table.compact(purge=True),
        lambda table: table.client.table("t", version=table.version).restore(),
    ],
    ids=["read", "purge", "restore"],
)
def test_a_damaged_file_of_rows_whose_widths_are_measured_is_named(root, call):
    texts = pl.DataFrame({"s": [f"{n:099}" for n in range(2000)]})
    with rt.connect(root, default=False) as client:
        table = rt.to_table(texts, "t", client=client, if_exists="replace")
        path = newest(root, "data")
        halve(path)
        with pytest.raises(ServerError, match=f"{path.name} of the table is damaged"):
            call(table)


@pytest.mark.parametrize("aid", ["restore", "replace"])
def test_a_purge_removes_the_files_of_a_version_that_was_set_aside(root, aid):
    garble(manifest(root))
    (root / "t.lance/README.md").touch()
    with rt.connect(root, default=False) as client:
        check_aid(root, client, aid)
        client.table("t").compact(purge=True)
    # somebody else's
    assert unnamed(root) == ["README.md"]


def test_a_manifest_with_another_end_is_read_and_not_set_aside(root):
    change_end(manifest(root))
    with rt.connect(root, default=False) as client:
        assert client.table("t").to_polars().equals(pl.concat([ROWS, MORE]))
        rt.to_table(MORE, "t", client=client, if_exists="append")
        assert [version.version for version in client.table("t").history()] == [3, 2, 1]
    expected = pl.concat([ROWS, MORE, MORE])
    assert lance.dataset(str(root / "t.lance")).to_table().equals(expected.to_arrow())


OLD = {"garbled": garble, "another end": change_end, "zeros": zero, "half": halve}


@pytest.mark.parametrize("damage", OLD)
def test_an_old_version_that_is_damaged_is_not_listed_and_purged(root, damage):
    with rt.connect(root, default=False) as client:
        table = client.table("t")
        table.delete(pl.col("id") == 4)
        path = manifest(root)
        OLD[damage](path)
        listed = [version.version for version in table.history()]
        # Lance does not look at its end
        assert listed == ([3, 2, 1] if damage == "another end" else [3, 1])
        table.compact(purge=True)
        assert [version.version for version in table.history()] == [
            max(manifests(root))
        ]
        assert len(manifests(root)) == 1
        assert table.to_polars().equals(ROWS)
    assert unnamed(root) == []


@pytest.mark.parametrize("damage", OLD)
def test_an_old_version_that_is_damaged_keeps_no_others(root, damage):
    with rt.connect(root, default=False) as client:
        for _ in range(12):
            rt.to_table(MORE, "t", client=client, if_exists="replace")
            OLD[damage](manifest(root)) if len(manifests(root)) == 3 else None
        assert sorted(manifests(root)) == [*range(5, 15)]
        assert client.table("t").to_polars().equals(MORE)


@contextlib.contextmanager
def locked(root, path, mode=0):
    """Be somebody who has no more access to a path than its mode gives."""
    for each in (root, *root.rglob("*")):
        os.chown(each, NOBODY, -1)
    path.chmod(mode)
    try:
        os.seteuid(NOBODY)
        yield
    finally:
        os.seteuid(0)


WITHOUT_VERSIONS = {
    "replace": (AIDS["replace"][0], [0, 0o444, 0o555]),
    "restore": (AIDS["restore"][0], [0, 0o444, 0o555]),
    "purge": (lambda table: table.compact(purge=True), [0, 0o444, 0o555]),
    "read": (lambda table: table.to_polars(), [0, 0o444]),
    "read an older one": (
        lambda table: table.client.table("t", version=1).to_polars(),
        [0, 0o444],
    ),
}


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("what", WITHOUT_VERSIONS)
def test_without_access_to_the_versions_nothing_is_changed(root, what, is_damaged):
    call, modes = WITHOUT_VERSIONS[what]
    garble(manifest(root)) if is_damaged else None
    before = {path: path.read_bytes() for path in manifests(root).values()}
    for mode in modes:
        with (
            locked(root, root / "t.lance/_versions", mode),
            rt.connect(root, default=False) as client,
            pytest.raises(ServerError, match=r"no access to _versions|is damaged"),
        ):
            call(client.table("t"))
    assert {path: path.read_bytes() for path in manifests(root).values()} == before


def test_a_purge_names_the_file_without_access(root):
    with (
        locked(root, root / "t.lance/data", 0o444),
        rt.connect(root, default=False) as client,
        pytest.raises(ServerError, match="no access to data/"),
    ):
        client.table("t").compact(purge=True)


@pytest.mark.parametrize("aid", AIDS)
@pytest.mark.parametrize("name", LOCKED)
def test_a_read_names_the_file_without_access_and_no_newer_one_takes_its_place(
    root, name, aid
):
    if (name, aid) == ("all rows", "replace"):
        pytest.skip("new rows cannot be written there")
    path = LOCKED[name](root)
    with locked(root, path), rt.connect(root, default=False) as client:
        with pytest.raises(RemoteError, match="no access to") as refused:
            client.table("t").to_polars()
        assert str(path.relative_to(root / "t.lance")) in str(refused.value)
        if name == "a manifest" and aid != "drop":
            with pytest.raises(ServerError, match="no access to _versions"):
                AIDS[aid][0](client.table("t"))
        elif name == "a manifest":
            check_aid(root, client, aid)
