"""Folders of tables: S11. Foreign files stay, and removed folders are made again."""

from __future__ import annotations

import shutil
import stat
import time

import lance
import polars as pl
import pytest

import rt_frames as rt
from tests.support.local import run
from tests.support.processes import python

FRAME = pl.DataFrame({"a": [1, 2]})


def test_S11_what_lies_in_a_foreign_staging_folder_stays(tmp_path):
    for folder in (
        ".staging/release-1",
        ".rt_frames-staging/release-1",
        f".rt_frames-staging/{'0' * 32}",
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "important.txt").write_text("mine")
    with rt.connect(tmp_path, default=False) as client:
        client.create_table("t", FRAME)
    assert len(list(tmp_path.rglob("important.txt"))) == 3


def test_S11_a_staging_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / ".rt_frames-staging").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"staging is a link, .*; remove it$"):
        rt.connect(tmp_path / "tables", default=False)
    assert list(tmp_path.glob("elsewhere/*")) == []


@pytest.mark.parametrize("inside", ["", "data", "_versions/deep"])
def test_a_table_is_no_folder_of_tables(tmp_path, inside):
    with rt.connect(tmp_path, default=False) as client:
        client.create_table("sales", FRAME)
    table = tmp_path / "sales.lance"
    with pytest.raises(ValueError, match="is a table") as refused:
        rt.connect(table / inside, default=False)
    assert str(refused.value).endswith(f"use {tmp_path}")
    assert not list(table.rglob(".rt_frames-staging"))


@pytest.mark.parametrize("name", ["sales.lance", "a.b.LANCE", ".lance"])
def test_a_table_is_not_named_like_a_folder_of_tables(tmp_path, name):
    with rt.connect(tmp_path, default=False) as client:
        for if_exists in ("fail", "append", "replace"):
            with pytest.raises((rt.errors.BadRequest, ValueError)):
                client.create_table(name, FRAME, if_exists=if_exists)
        assert client.list_tables() == []


def test_a_table_that_has_such_a_name_already_is_read_replaced_and_dropped(tmp_path):
    lance.write_dataset(FRAME.to_arrow(), str(tmp_path / "old.lance.lance"))
    with rt.connect(tmp_path, default=False) as client:
        table = client.create_table("old.lance", FRAME[:1], if_exists="replace")
        assert table.to_polars().equals(FRAME[:1])
        table.drop()
        assert client.list_tables() == []


MODES = """
import os, sys, polars as pl, rt_frames as rt
os.umask(0)
with rt.connect(sys.argv[1], default=False) as client:
    client.create_table("t", pl.DataFrame({"a": [1]}))
"""


def test_folders_that_are_made_for_tables_are_their_owners_alone(tmp_path):
    run(MODES, tmp_path / "tables")
    for folder in ("tables", "tables/t.lance", "tables/.rt_frames-staging"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700, folder


def test_folders_that_are_there_keep_their_modes(tmp_path):
    folder = tmp_path / "tables"
    lance.write_dataset(FRAME.to_arrow(), str(folder / "t.lance"))
    folder.chmod(0o775)
    (folder / "t.lance").chmod(0o755)
    with rt.connect(folder, default=False) as client:
        client.create_table("t", FRAME, if_exists="append")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o775
    assert stat.S_IMODE((folder / "t.lance").stat().st_mode) == 0o755


def test_S11_a_folder_that_was_removed_is_made_again(tmp_path):
    folder = tmp_path / "tables"
    with rt.connect(folder, default=False) as client:
        for _ in range(2):
            assert client.list_tables() == []
            client.create_table("t", FRAME)
            found = lance.dataset(str(folder / "t.lance")).to_table().to_pydict()
            assert found == {"a": [1, 2]}
            shutil.rmtree(folder)


MANY = """
import gc, os, resource, sys, threading, time, polars as pl, rt_frames as rt
from pathlib import Path
folder, closed, opened = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
frame = pl.DataFrame({"a": [1, 2]})
def threads():
    # those named "Dummy" are the engine's
    return sum("Dummy" not in thread.name for thread in threading.enumerate())
def used(numbers):
    for i in numbers:
        with rt.connect(folder / f"closed {i}", default=False) as client:
            client.create_table("t", frame)
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE")
    return len(os.listdir("/proc/self/fd")), memory
before = used(range(5))
after = used(range(5, 5 + closed))
assert after[0] <= before[0], (before, after)
assert after[1] - before[1] < 16 * 2**20, (before, after)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
clients = [rt.connect(folder / f"open {i}", default=False) for i in range(opened)]
for client in clients:
    client.create_table("t", frame)
assert [client.list_tables() for client in clients] == [["t"]] * opened
assert threads() == 1
print(time.time())
"""


@pytest.mark.long
def test_S11_folders_leave_nothing_behind_and_end_at_once(tmp_path):
    """No thread, descriptor or memory, whether they are closed or open."""
    closed = 200
    opened = 50
    ended = float(run(MANY, tmp_path, closed, opened))
    # half a second, on a machine that has nothing else to do
    assert time.time() - ended < 6
    assert len(list(tmp_path.glob("*/t.lance"))) == 5 + closed + opened


STARTING = """
import sys, rt_frames as rt
import lance
print("imported", flush=True)
for _ in range(5): rt.connect(sys.argv[1], default=False).list_tables()
"""


def test_a_folder_is_opened_while_another_process_writes_to_it(tmp_path):
    with (
        rt.connect(tmp_path, default=False) as client,
        python("-c", STARTING, tmp_path) as starting,
    ):
        number = 0
        starting.stdout.readline()
        while starting.poll() is None:
            client.create_table(f"t{number}", FRAME)
            number += 1
        assert starting.communicate()[1] == ""
        assert len(client.list_tables()) == number
