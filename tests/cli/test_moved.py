"""Commands that are lines of Python now: the lines run as they are printed."""

from __future__ import annotations

import polars as pl
import pytest

import rt_frames as rt

FRAME = pl.DataFrame({"n": [1, 2], "s": ["x", "y"]})
SUFFIXES = [".parquet", ".csv", ".ndjson", ".json", ".xlsx", ".arrow"]


@pytest.fixture
def moved(run, tmp_path, monkeypatch):
    """Run a command that is gone, and return the line of Python that it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RT_FRAMES_URL", "./tables")

    def moved(*words: str) -> str:
        done = run(*words)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        sentence, line = done.stderr.rstrip().split(": import ")
        assert sentence.startswith("Error: ")
        assert sentence.endswith("in Python now")
        return f"import {line}"

    return moved


def stored(name: str) -> pl.DataFrame:
    return rt.table(name).to_polars()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_export_and_create_are_lines_that_write_and_read_a_file(moved, suffix):
    FRAME.remote.to_table("t")
    exec(moved("export", "t", f"x{suffix}", "--force"))
    exec(moved("create", "copy", f"x{suffix}", "--if-exists", "append"))
    assert stored("copy").equals(FRAME)


@pytest.mark.parametrize("suffix", [".pq", ".jsonl", ".feather", ".ipc"])
def test_other_suffixes_of_a_form_lead_to_its_line(moved, suffix):
    FRAME.remote.to_table("t")
    line = moved("export", "t", f"x{suffix}")
    assert f"'x{suffix}'" in line
    exec(line)
    exec(moved("create", "copy", f"x{suffix}"))
    assert stored("copy").equals(FRAME)


OTHERS = [
    ("t", "x.data"),
    ("t", "a.csv", "b.csv"),
    ("--help",),
    (),
    ("--if-exists", "append", "t", "x.csv.gz"),
]


@pytest.mark.parametrize("words", OTHERS)
def test_other_arguments_lead_to_the_line_for_parquet(moved, words):
    FRAME.write_parquet("FILE.parquet")
    line = moved("create", *words)
    assert line.endswith("; pl.scan_parquet('FILE.parquet').pipe(rt.to_table, 't')")
    exec(line)
    exec(moved("export", *words))
    assert stored("t").equals(FRAME)


def test_alter_and_delete_are_lines_on_the_table(moved):
    FRAME.rename({"s": "old_name"}).remote.to_table("t")
    exec(moved("alter", "t", "--cast", "n=int32", "--dry-run"))
    assert stored("t").columns == ["n", "new_name"]
    exec(moved("delete", "t", "--where", "new_name = 'x'", "--yes"))
    assert stored("t")["n"].to_list() == [2]
    exec(moved("delete", "t"))
    assert stored("t").height == 1


def test_the_lines_are_for_the_service_and_the_names_that_were_typed(moved):
    FRAME.write_csv("it's.csv")
    exec(moved("create", "sales-1", "it's.csv", "--url", "./others"))
    assert rt.list_tables() == ["sales-1"]
    with rt.connect("./others", default=False) as client:
        assert client.table("sales-1").to_polars().equals(FRAME)
