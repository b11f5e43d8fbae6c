"""Rows and columns that commands change: upsert, delete, add and drop."""

from __future__ import annotations

import json

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.compare import lance
from tests.support.servers import KEY

FRAME = pl.DataFrame({"id": [1, 2], "qty": [10, 20]})


@pytest.fixture
def url(tmp_path):
    return ("--url", tmp_path / "tables")


@pytest.fixture
def table(url):
    with rt.connect(url[1], default=False) as client:
        yield client.create_table("t", FRAME)


@pytest.fixture
def csv(tmp_path):
    """Write a CSV file."""

    def write(text: str):
        (tmp_path / "rows.csv").write_text(text)
        return tmp_path / "rows.csv"

    return write


def stored(url) -> pa.Table:
    return lance.dataset(str(url[1] / "t.lance")).to_table().sort_by("id")


def test_rows_are_updated_and_inserted_by_their_key(run, url, csv):
    upsert = ("create", "t", *url, "--if-exists", "upsert", "--on", "id")
    made = run(*upsert, csv("id,qty\n1,10\n2,20\n"))
    assert made.stdout.splitlines()[-1].startswith("created t: ")
    done = run(*upsert, csv("id,qty\n2,21\n3,30\n"))
    assert done.stderr == ""
    # the types are those of the table, so none are printed
    (line,) = done.stdout.splitlines()
    assert line.startswith(
        "upserted into t: 2 columns, 2 rows, 1 updated, 1 inserted, "
    )
    assert stored(url).to_pydict() == {"id": [1, 2, 3], "qty": [10, 21, 30]}
    facts = json.loads(run(*upsert, csv("id,qty\n4,1\n"), "--json").stdout)
    assert (facts["updated"], facts["inserted"], facts["created"]) == (0, 1, False)
    twice = run(*upsert, csv("id,qty\n5,1\n5,2\n"))
    assert twice.returncode == 1
    assert "rows 0 and 1 have the same key, id=5; keep only one of them" in twice.stderr
    assert run(*upsert, "--on", "qty", csv("id,qty\n4,1\n")).returncode == 0


def test_new_columns_are_added_before_the_rows(run, url, table, csv):
    file = csv("id,qty,day,note\n2,21,2024-03-01,x\n3,30,,y\n")
    append = ("create", "t", file, *url, "--if-exists", "append")
    done = run(*append)
    assert done.returncode == 1
    assert "the table has no column 'day', 'note'" in done.stderr
    assert "; rename it, leave it out, or pass --add-columns to add it\n" in done.stderr
    done = run(*append, "--add-columns")
    # the types of new columns are inferred, and so they are printed
    assert "day     date32[day]" in done.stdout
    assert stored(url)["day"].null_count == 3
    upsert = ("create", "t", csv("id,late\n1,true\n"), *url, "--if-exists", "upsert")
    assert run(*upsert, "--on", "id", "--add-columns").returncode == 0
    assert stored(url)["late"].to_pylist() == [True, None, None, None]


def test_a_dry_run_of_an_upsert_looks_at_the_table(run, url, table, csv):
    dry = ("create", "t", *url, "--if-exists", "upsert", "--dry-run", "--on")
    done = run(*dry, "id", csv("id,new\n2,x\n"))
    assert "the table has no column 'new'" in done.stderr
    done = run(*dry, "id", csv("id,new\n2,x\n"), "--add-columns")
    assert "new     large_string" in done.stdout
    done = run(*dry, "other", csv("id,qty\n2,1\n"))
    assert "on: the frame has no column 'other'" in done.stderr
    assert stored(url).to_pydict() == FRAME.to_dict(as_series=False)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--if-exists", "upsert"], "--if-exists upsert needs a key column; pass --on"),
        (["--on", "id"], "--on: only for --if-exists upsert; leave it out"),
        (["--add-columns"], "--add-columns: only for --if-exists append and upsert;"),
        (
            ["--if-exists", "upsert", "--on", "id", "--on", "id"],
            "--on: 'id' is passed twice; pass it once",
        ),
    ],
)
def test_options_of_a_create_that_do_not_go_together(run, server, csv, options, error):
    env = {"RT_FRAMES_URL": server.url, "RT_FRAMES_API_KEY": KEY}
    done = run("create", "t", csv("id\n1\n"), *options, **env)
    assert (done.returncode, server.connections) == (2, 0)
    assert f"Error: {error}" in done.stderr


def test_what_was_done_before_an_error_is_told(run, url, table, csv):
    parts = csv("id,day\n5,2024-03-01\n5,2024-03-02\n")
    words = ("create", "t", parts, *url, "--if-exists", "upsert", "--on", "id")
    done = run(*words, "--add-columns")
    assert done.returncode == 1
    error, note = done.stderr.splitlines()
    assert error.startswith("Error: rows 0 and 1 have the same key")
    assert note.startswith("table 't': columns 'day' were added before the error, ")


def test_rows_are_deleted_when_that_is_confirmed(run, url, table):
    delete = ("delete", "t", *url)
    assert "Missing option '--where'" in run(*delete).stderr
    done = run(*delete, "--where", "qty > 10")
    assert (done.returncode, done.stdout) == (2, "")
    assert "this would delete 1 row of table 't'; nothing was changed; " in done.stderr
    assert stored(url).num_rows == 2
    done = run(*delete, "--where", "qty > 10", "--yes")
    assert done.stdout == f"deleted 1 row of t, at {url[1]}\n"
    assert stored(url)["id"].to_pylist() == [1]
    facts = json.loads(run(*delete, "--where", "qty > 99", "--yes", "--json").stdout)
    assert facts["deleted"] == 0
    for where, error in [
        ("nothing = 1", "No field named nothing"),
        ("qty = 1; x", "follows a semicolon"),
        ("qty = ?", "1 ? outside quotes"),
        ("", "where: expected an SQL condition"),
    ]:
        for more in ([], ["--yes"]):
            done = run(*delete, "--where", where, *more)
            assert done.returncode == 1
            assert error in done.stderr
    assert run("delete", "nowhere", "--where", "a = 1", *url).returncode == 1


def test_a_service_may_not_tell_how_many_rows_it_deleted(run, server):
    server.answering((200, {"version": 3}))
    env = {"RT_FRAMES_URL": server.url, "RT_FRAMES_API_KEY": KEY}
    words = ("delete", "t", "--where", "n = 1", "--yes", "--dialect", "lancedb")
    assert run(*words, **env).stdout == f"deleted rows of t, at {server.url}\n"
    assert json.loads(run(*words, "--json", **env).stdout)["deleted"] is None
    done = run(*words[:-2], **env)
    assert done.returncode == 1
    assert "connect with --dialect lancedb" in done.stderr


def test_columns_are_altered_added_and_dropped_in_this_order(run, url, table):
    alter = ("alter", "t", *url, "--rename", "qty=units", "--drop-columns", "id")
    alter = (*alter, "--add-columns", "day=date32", "--add-columns", "qty=string")
    dry = run(*alter, "--dry-run")
    assert dry.stdout.startswith(
        "AlterationPlan: 1 alteration, 2 added columns, 1 dropped column"
    )
    dry = run(*alter, "--dry-run", "--json")
    assert [json.loads(line) for line in dry.stdout.splitlines()] == [
        {"alterations": [{"path": "qty", "rename": "units"}]},
        {
            "add_columns": [
                {"name": "day", "type": "date32[day]", "nullable": True},
                {"name": "qty", "type": "large_string", "nullable": True},
            ]
        },
        {"drop_columns": ["id"]},
    ]
    assert stored(url).column_names == ["id", "qty"]
    done = run(*alter)
    assert done.stdout.splitlines()[:3] == [
        "request 1 of 3 done: qty",
        "request 2 of 3 done: day, qty",
        "request 3 of 3 done: id",
    ]
    found = lance.dataset(str(url[1] / "t.lance")).to_table()
    assert found.to_pydict() == {
        "units": [10, 20],
        "day": [None, None],
        "qty": [None, None],
    }
    assert found.schema.field("day").type == pa.date32()


def test_a_rewrite_adds_and_drops_in_its_one_commit(run, url, table):
    words = ("alter", "t", *url, "--cast", "id=string", "--drop-columns", "qty")
    words = (*words, "--add-columns", "day=date32", "--rewrite")
    (line,) = run(*words, "--dry-run", "--json").stdout.splitlines()
    assert [*json.loads(line)] == ["alterations", "add_columns", "drop_columns"]
    before = table.version
    facts = json.loads(run(*words, "--json").stdout)
    assert (facts["requests"], facts["version"]) == (1, before + 1)
    assert stored(url).to_pydict() == {"id": ["1", "2"], "day": [None, None]}


@pytest.mark.parametrize(
    ("options", "code", "error"),
    [
        (["--drop-columns", "idd"], 1, "table 't' has no column 'idd'; did you mean"),
        (["--drop-columns", "a.b"], 2, "'a.b' is a nested field; only whole"),
        (["--drop-columns", "id", "--drop-columns", "id"], 2, "'id' is passed twice"),
        (["--drop-columns", "id", "--cast", "id=int8"], 2, "'id' is also changed or"),
        (["--drop-columns", "z", "--add-columns", "z=int8"], 2, "'z' is also changed"),
        (["--drop-columns", "id", "--drop-columns", "qty"], 1, "these are all columns"),
        (["--add-columns", "id=int8"], 1, "table 't' already has column 'id'"),
        (["--add-columns", "ID=int8"], 1, "differ only in case; rename one of them"),
        (["--add-columns", "a.b=int8"], 2, "add_columns: 'a.b' contains a dot"),
        (["--add-columns", "a=nothing"], 2, "column 'a': dtype 'nothing' is unknown"),
        (["--add-columns", "a"], 2, "--add-columns: expected NAME=DTYPE, got 'a'"),
        (["--add-columns", "=int8"], 2, "column number 1 has an empty name"),
    ],
)
def test_columns_that_cannot_be_added_or_dropped(run, url, table, options, code, error):
    done = run("alter", "t", *options, *url)
    assert (done.returncode, done.stdout) == (code, "")
    assert error in done.stderr
    assert stored(url).to_pydict() == FRAME.to_dict(as_series=False)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((400, {"error": "no such column"}), "no such column"),
        ((405, {}), "this server cannot drop columns"),
    ],
)
def test_a_third_request_that_is_refused_says_that_two_are_done(
    run, server, answer, reason
):
    described = (200, {"version": 1})
    server.answering(
        described,
        (200, {"version": 2}),
        described,
        (200, {"version": 3}),
        described,
        answer,
    )
    env = {"RT_FRAMES_URL": server.url, "RT_FRAMES_API_KEY": KEY}
    words = ("alter", "t", "--rename", "a=b", "--add-columns", "day=date32")
    done = run(*words, "--drop-columns", "c", "--dialect", "lancedb", **env)
    assert done.returncode == 1
    half, error = done.stderr.splitlines()
    assert half == (
        "half done: requests 1 to 2 of 3, for a, day, took effect; "
        "request 3, for c, failed"
    )
    assert reason in error


def test_where_columns_are_not_added_nor_dropped_nothing_is_asked(run, server):
    env = {"RT_FRAMES_URL": server.url, "RT_FRAMES_API_KEY": KEY}
    for option in (["--add-columns", "a=int8"], ["--drop-columns", "a"]):
        for more in ([], ["--dry-run"]):
            done = run("alter", "t", *option, *more, **env)
            assert (done.returncode, server.connections) == (1, 0)
            assert "connect with --dialect lancedb" in done.stderr
