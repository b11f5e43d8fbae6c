"""What the commands of the console script do and say, in this process."""

from __future__ import annotations

import json
import logging
import re
import shlex
from decimal import Decimal

import lance
import polars as pl
import pyarrow as pa
import pytest
from click.shell_completion import ShellComplete

import rt_frames as rt
from rt_frames.cli.main import main
from tests.support.servers import KEY

FRAME = pl.DataFrame({"n": [1, 2], "s": ["x", None]})


@pytest.fixture
def table(url):
    with rt.connect(url[1], default=False) as client:
        yield client.create_table("t", FRAME)


FACTS = {
    "table": "t",
    "columns": [
        {"name": "n", "type": "int64", "nullable": True},
        {"name": "s", "type": "large_string", "nullable": True},
    ],
    "rows": 2,
    "version": 1,
}


def test_a_table_is_listed_shown_and_dropped(run, url, table):
    assert run("tables", *url).stdout == "t\n"
    shown = run("show", "t", "--rows", "1", *url).stdout
    assert shown.startswith(f"t: 2 columns, 2 rows, at {url[1]}\n")
    assert re.search(r"^n +int64 +yes$", shown, re.MULTILINE)
    assert re.search(r"│ n +┆ s +│\n.*\n│ 1 +┆ x +│\n└.*┘\n\Z", shown)
    assert json.loads(run("show", "t", "--json", *url).stdout) == FACTS
    assert run("show", "t", "--rows", "1", "--json", *url).returncode == 2
    # without --yes
    assert run("drop", "t", *url).returncode == 2
    assert run("tables", *url).stdout == "t\n"
    assert run("drop", "t", "--yes", *url).stdout == f"dropped t, at {url[1]}\n"
    assert run("tables", *url).stdout == ""
    assert run("drop", "t", "--yes", *url).returncode == 1


def test_an_earlier_version_is_shown(run, url, table):
    table.delete(pl.col("n") == 1)
    shown = run("show", "t", "--version", "1", "--rows", "9", *url).stdout
    assert shown.startswith("t: 2 columns, 2 rows, version 1, at ")
    assert "│ 1 ┆ x" in shown
    shown = run("show", "t", "--version", "1", "--json", *url).stdout
    assert json.loads(shown)["version"] == 1
    assert json.loads(run("show", "t", "--json", *url).stdout)["rows"] == 1


def test_the_versions_of_a_table_are_listed(run, url, table):
    table.delete(pl.col("n") == 1)
    *_, newest, oldest = run("history", "t", *url).stdout.splitlines()
    assert newest.split()[::3] == ["2", "delete"]
    assert oldest.split()[::4] == ["1", "2"]
    listed = run("history", "t", "--limit", "1", "--json", *url).stdout
    time = table.history()[0].time.isoformat()
    version = {"version": 2, "time": time, "operation": "delete", "rows": 1}
    assert json.loads(listed) == [version]
    assert run("history", "none", *url).returncode == 1


def test_a_version_is_restored_if_that_is_confirmed(run, url, table):
    table.delete(pl.col("n") == 1)
    assert run("restore", "t", "1", *url).returncode == 2
    assert table.count() == 1
    done = run("restore", "t", "1", "--yes", *url)
    assert done.stdout == f"restored version 1 of t as version 3, at {url[1]}\n"
    assert table.count() == 2
    assert run("restore", "t", "1", "--yes", "-q", *url).stdout == ""
    assert run("restore", "t", "99", "--yes", *url).returncode == 1


def test_every_version_that_was_asked_for_is_printed(run, url, table):
    for _ in range(70):
        table.delete(pl.col("n") == 99)
    printed = run("history", "t", *url).stdout.splitlines()
    assert printed[0] == "71 versions, newest first"
    assert printed[-1].startswith("1  ")


ODD = [
    (2**60, pa.timestamp("s"), "<value out of range: 115292150460684697…"),
    (2**31 - 1, pa.date32(), "<value out of range: 2147483647>"),
    (Decimal("1.5"), pa.decimal256(50, 3), "1.500"),
    ("a\x1b[31m\nb", pa.string(), r"a\x1b[31m\nb"),
    (["x\x1b"], pa.list_(pa.string()), r"['x\x1b']"),
    (None, pa.int64(), "null"),
]


@pytest.mark.parametrize(("value", "arrow", "drawn"), ODD, ids=repr)
def test_a_row_is_drawn_in_words(run, url, value, arrow, drawn):
    with rt.connect(url[1], default=False) as client:
        client.create_table("t", pa.table({"c": pa.array([value], arrow)}))
    done = run("show", "t", "--rows", "3", *url)
    assert done.stderr == ""
    *_, row, _ = done.stdout.splitlines()
    assert row.strip("│ ") == drawn


def test_no_row_is_drawn_of_an_empty_table(run, url):
    with rt.connect(url[1], default=False) as client:
        client.create_table("empty", FRAME.clear())
    found = run("show", "empty", "--rows", "3", *url).stdout.splitlines()[-1].split()
    assert found == ["s", "large_string", "yes"]


def test_the_example_of_each_help_runs(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with rt.connect("./tables", default=False) as client:
        client.create_table("sales", FRAME)
    shown = {name for name, command in main.commands.items() if not command.hidden}
    order = ["tables", "show", "history", "restore", "compact", "drop", "demo"]
    assert shown == {*order, "serve"}
    for name in order:
        _, *words = shlex.split(main.commands[name].epilog.removeprefix("Example: "))
        done = run(*words)
        assert (done.returncode, words[0]) == (0, name), done.stderr


def statements(printed: str) -> list[str]:
    lines = printed.splitlines()
    return [line.removeprefix(">>> ") for line in lines if line.startswith(">>> ")]


def test_what_the_demo_prints_can_be_typed_in_any_folder(run, tmp_path, monkeypatch):
    printed = run("demo").stdout
    assert printed.count("\nTrue\n") == 2
    assert printed.splitlines()[-1].startswith("next: type these lines into ")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for line in statements(printed):
        exec(re.sub(r"rt\.connect\(.*\)", 'rt.connect("./tables")', line), names)
    assert [*tmp_path.iterdir()] == [tmp_path / "tables"]
    for name in ("sales_pandas", "sales_polars"):
        stored = lance.dataset(f"tables/{name}.lance").to_table()
        assert stored.to_pydict() == {"region": ["north", "south"], "units": [3, 4]}
        assert stored.schema.field("units").type == pa.int32()


def test_the_demo_keeps_its_tables_and_says_how_to_look_at_them(
    run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for folder in ("kept", tmp_path / "with 'quotes'"):
        printed = run("demo", "--keep", folder).stdout
        *_, last = printed.splitlines()
        _, *words = shlex.split(last.removeprefix("next: "))
        assert words[0] == "show"
        assert "│ north  ┆ 3     │" in run(*words).stdout
    again = run("demo", "--keep", "kept")
    assert again.returncode == 1
    assert again.stdout == ""
    assert again.stderr == (
        "Error: kept already has table 'sales_pandas'; pass another folder to --keep\n"
    )


COMMANDS = [["tables"], ["show", "t"], ["history", "t"], ["drop", "t", "--yes"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_only_serve_and_demo_make_a_folder(run, url, command):
    done = run(*command, *url)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no such folder; rt-frames serve or rt.connect() makes it" in done.stderr
    assert not url[1].exists()


def test_quiet_says_nothing_and_verbose_what_was_logged(run, env, client, name):
    def drop(*words: str) -> tuple[str, str]:
        rt.to_table(FRAME, name, client=client)
        done = run(*words, **env)
        assert done.returncode == 0
        return done.stdout, done.stderr

    words = ("drop", name, "--yes", "--dialect", "lancedb")
    assert drop("-q", *words) == drop(*words, "-q") == ("", "")
    for verbose in ((*words, "-v"), ("-v", *words), (*words, "-q", "-v")):
        out, log = drop(*verbose)
        assert out.startswith(f"dropped {name}, at ")
        assert log.count(f"dropped table {name}") == 1
        assert "POST /v1/table/" not in log
    _, log = drop(*words, "-vv")
    assert re.search(f"POST /v1/table/{name}/drop/? 200", log)
    assert KEY not in log
    assert not logging.getLogger("rt_frames").handlers


def test_an_error_is_short_and_verbose_shows_where_it_came_from(run, url):
    short = run("tables", *url)
    long = run("tables", *url, "-v")
    assert short.stderr.count("\n") == 1
    assert "Traceback" in long.stderr
    assert long.stderr.endswith(short.stderr)


def test_a_name_that_leads_to_another_table_is_refused_by_every_command(run, server):
    for words in (["show", "a/b"], ["drop", "a/b", "--yes"]):
        done = run(*words, "--url", server.url, RT_FRAMES_API_KEY=KEY)
        assert "Error: name: must not contain / or \\" in done.stderr
        assert done.returncode == 2
        assert server.connections == 0


NO_URLS = [
    ("t.csv", "'t.csv' is neither a URL nor a folder"),
    ("ftp://x", "'ftp://x' is no URL of a service"),
]


@pytest.mark.parametrize(("url", "error"), NO_URLS)
def test_a_url_that_no_service_can_have_is_wrong_usage(run, url, error):
    done = run("tables", "--url", url)
    assert done.returncode == 2
    assert f"Error: {error}" in done.stderr


def test_a_url_of_the_environment_that_cannot_be_used_is_no_wrong_usage(run):
    assert run("tables", RT_FRAMES_URL="ftp://x").returncode == 1


def test_the_key_can_come_from_a_file_and_reach_a_service_that_is_not_loopback(
    run, server, tmp_path
):
    server.listed = ["a"]
    server.answering((200, {}))
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    # 0.0.0.0 leads to this machine, and is no loopback address
    url = f"http://0.0.0.0:{server.port}"
    words = ["tables", "--url", url, "--key-file", file, "-vv"]
    assert run(*words).returncode == 1
    assert server.connections == 0
    done = run(*words, "--allow-insecure")
    assert done.stdout == "a\n"
    assert server.requests[-1].headers["x-api-key"] == KEY
    assert KEY not in done.stderr


def complete(*words: object) -> list[str]:
    *args, incomplete = map(str, words)
    completer = ShellComplete(main, {}, "rt-frames", "_RT_FRAMES_COMPLETE")
    return [item.value for item in completer.get_completions(args, incomplete)]


def test_shells_complete_the_names_of_tables(tmp_path, monkeypatch, url):
    with rt.connect(url[1], default=False) as client:
        for name in ("sales", "sales_2", "other"):
            client.create_table(name, FRAME)
    monkeypatch.setenv("RT_FRAMES_URL", str(url[1]))
    assert complete("drop", "sa") == ["sales", "sales_2"]
    monkeypatch.setenv("RT_FRAMES_URL", str(tmp_path / "nowhere"))
    assert complete("show", *url, "o") == ["other"]
    assert complete("show", "s") == []
    assert not (tmp_path / "nowhere").exists()


def test_shells_complete_the_versions_of_a_table(tmp_path, url, table):
    for _ in range(10):
        table.delete(pl.col("n") == 99)
    assert complete("restore", *url, "t", "") == [str(n) for n in range(11, 0, -1)]
    assert complete("restore", *url, "t", "1") == ["11", "10", "1"]
    assert complete("restore", *url, "none", "") == []


SHOWN = {
    "red\x1b[31m": r"red\x1b[31m",
    "two\nError: lines": r"two\nError: lines",
    "turned\u202eround": r"turned\u202eround",
    "half\ud800": r"half\ud800",
    "bell\x07": r"bell\x07",
    "fine é": "fine é",
}


def test_a_terminal_gets_text_of_others_without_what_moves_its_cursor(
    run, server, monkeypatch
):
    server.listed = [*SHOWN]
    server.answering((200, {}))
    env = {"RT_FRAMES_URL": server.url, "RT_FRAMES_API_KEY": KEY}
    assert run("tables", **env).stdout.splitlines() == [*SHOWN.values()]
    assert json.loads(run("tables", "--json", **env).stdout) == server.listed
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert complete("show", "") == ["fine é"]

    def answer_by_ssh(connection):
        connection.head()
        connection.sock.sendall(b"SSH \x1b[2J\r\n\r\n")

    server.script = answer_by_ssh
    done = run("-vv", "tables")
    assert r"SSH \x1b[2J" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
