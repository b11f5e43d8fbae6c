"""What the commands of the console script do and say, in this process."""

from __future__ import annotations

import fcntl
import io
import json
import logging
import os
import pty
import re
import shlex
import struct
import termios
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from click.shell_completion import ShellComplete

import rt_frames as rt
from rt_frames.cli.main import main
from tests.support.compare import lance, stored
from tests.support.servers import KEY

FRAME = pl.DataFrame({"n": [1, 2], "s": ["x", None]})


@pytest.fixture
def file(tmp_path):
    FRAME.write_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


@pytest.fixture
def url(tmp_path):
    return ("--url", tmp_path / "tables")


def column(url: tuple[str, Path], name: str) -> list[object]:
    return lance.dataset(str(url[1] / "t.lance")).to_table()[name].to_pylist()


def test_a_table_is_made_shown_replaced_appended_to_and_dropped(run, file, url):
    create = ("create", "t", file, *url, "--if-exists")
    assert run(*create, "fail").stderr == ""  # which is no terminal
    facts = json.loads(run(*create, "replace", "--json").stdout)
    columns = [
        {"name": "n", "type": "int64", "nullable": True},
        {"name": "s", "type": "large_string", "nullable": True},
    ]
    assert (facts.pop("bytes") > 100, facts.pop("version") > 0) == (True, True)
    assert facts == {"table": "t", "created": True, "rows": 2, "columns": columns}
    assert run(*create, "replace").stdout.startswith("replaced t: ")
    assert run(*create, "append").stdout.startswith("appended to t: ")
    assert column(url, "n") == [1, 2, 1, 2]
    skipped = json.loads(run(*create, "skip", "--json").stdout)
    assert (skipped["created"], skipped["rows"]) == (False, None)
    done = run("show", "t", "--rows", "1", *url)
    assert done.stdout.startswith(f"t: 2 columns, 4 rows, at {url[1]}\n")
    assert re.search(r"^n +int64 +yes$", done.stdout, re.MULTILINE)
    assert re.search(r"│ n +┆ s +│\n.*\n│ 1 +┆ x +│\n└.*┘\n\Z", done.stdout)
    shown = json.loads(run("show", "t", "--json", *url).stdout)
    assert (shown["columns"], shown["rows"]) == (columns, 4)
    assert run("drop", "t", *url).returncode == 2  # without --yes
    assert run("tables", *url).stdout == "t\n"
    assert run("drop", "t", "--yes", *url).stdout == f"dropped t, at {url[1]}\n"
    assert run("tables", *url).stdout == ""
    assert run("drop", "t", "--yes", *url).returncode == 1


def test_rows_are_drawn_in_words_and_none_of_an_empty_table(run, url):
    odd = {
        "far": pa.array([2**60], pa.timestamp("s")),
        "day": pa.array([2**31 - 1], pa.date32()),
        "wide": pa.array([Decimal("1.5")], pa.decimal256(50, 3)),
        "text": ["a\x1b[31m\nb"],
        "list": [["x\x1b"]],
        "null": pa.array([None], pa.int64()),
    }
    with rt.connect(url[1], default=False) as client:
        client.create_table("t", pa.table(odd))
        client.create_table("empty", FRAME.clear())
    done = run("show", "t", "--rows", "3", *url, COLUMNS="200")
    assert done.stderr == ""
    *_, row, _ = done.stdout.splitlines()
    cells = [cell.strip() for cell in row.strip("│").split("┆")]
    assert cells == [
        "<value out of range: 115292150460684697…",
        "<value out of range: 2147483647>",
        "1.500",
        r"a\x1b[31m\nb",
        r"['x\x1b']",
        "null",
    ]
    assert run("show", "empty", "--rows", "3", *url).stdout.splitlines()[
        -1
    ].split() == ["s", "large_string", "yes"]


def test_what_one_request_cannot_do_is_altered_in_two(run, file, env, service, name):
    run("create", name, file, **env)
    options = [
        "--rename",
        "n=number",
        "--cast",
        "n=int32",
        "--nullable",
        "s=true",
        "--lossy",
    ]
    dry = run("alter", name, *options, "--dry-run", "--json", **env)
    assert [json.loads(line)["alterations"] for line in dry.stdout.splitlines()] == [
        [{"path": "n", "data_type": {"type": "int32"}}],
        [{"path": "n", "rename": "number"}, {"path": "s", "nullable": True}],
    ]
    assert stored(service, name).column_names == ["n", "s"]
    done = run("alter", name, *options, **env)
    assert done.stdout.splitlines()[:2] == [
        "request 1 of 2 done: n",
        "request 2 of 2 done: n, s",
    ]
    found = stored(service, name)
    assert found.schema.field("number").type == pa.int32()
    assert found["number"].to_pylist() == [1, 2]


def test_a_second_request_that_is_refused_says_that_the_first_is_done(run, server):
    server.answering(
        (200, {"version": 2}),
        (400, {"error": {"code": 400, "message": "no such column"}}),
    )
    env = {"RT_FRAMES_URL": server.url, "RT_FRAMES_API_KEY": KEY}
    done = run(
        "alter", "t", "--cast", "a=int32", "--nullable", "b=false", "--lossy", **env
    )
    assert (done.returncode, len(server.posts)) == (1, 2)
    first, error = done.stderr.splitlines()
    assert (
        first
        == "half done: request 1 of 2, for a, took effect; request 2, for b, failed"
    )
    assert "no such column; nothing was changed" in error


NESTED = pa.table(
    {
        "n": [1, 2],
        "in": [[{"a": 1}], []],
        "wide": pa.array([[{"a": 1}], []]),
        "x": [1.5, 2],
    },
    schema=pa.schema(
        {
            "n": pa.int64(),
            "in": pa.list_(pa.struct({"a": pa.int64()})),
            "wide": pa.large_list(pa.struct({"a": pa.int64()})),
            "x": pa.float64(),
        }
    ),
)


@pytest.mark.parametrize(
    ("options", "code", "shown", "error"),
    [
        (["--cast", "in.item.a=int32"], 0, r"^in\.item\.a +int64 +int32 +cast$", ""),
        (
            ["--cast", "n=string"],
            1,
            r"^n +int64 +large_string +cast; refused: ",
            "the engine refuses n: int64 to large",
        ),
        (
            ["--cast", "wide.item.a=int32"],
            1,
            r"refused: nothing inside a large_list is cast",
            "refuses wide.item.a: ",
        ),
        (
            ["--cast", "x=float32"],
            1,
            r"lossy: double to float keeps 7 digits",
            "pass --lossy",
        ),
        (
            ["--cast", "x=float32", "--lossy"],
            0,
            r"lossy: double to float keeps 7 digits",
            "",
        ),
        (
            ["--rename", "widee=k", "--cast", "n=int32"],
            1,
            r"\A\Z",
            "no column 'widee'; did you mean 'wide'",
        ),
    ],
)
def test_a_dry_run_tells_what_the_engine_would_do_with_the_table(
    run, url, options, code, shown, error
):
    with rt.connect(url[1], default=False) as client:
        client.create_table("t", NESTED)
    done = run("alter", "t", *options, "--dry-run", *url)
    assert done.returncode == code
    assert re.search(shown, done.stdout, re.MULTILINE)
    assert error in done.stderr
    assert bool(done.stderr) == bool(code)


def test_a_dry_run_asks_only_a_service_that_describes_tables(run, file, env, name):
    run("create", name, file, **env)
    words, speaking = (
        ("alter", name, "--cast", "n=string", "--dry-run"),
        ("--dialect", "lancedb"),
    )
    assert "refuses n: int64 to large_string" in run(*words, *speaking, **env).stderr
    assert (
        "'n' (its type before is unknown); nothing was sent; pass --lossy"
        in run(*words, **env).stderr
    )
    refused = run(*words, "--rewrite", **env).stderr
    assert 'cannot write a table in parts with dialect="documented"; ' in refused
    assert "connect with --dialect lancedb" in refused
    assert run(*words, "--lossy", **env).returncode == 0
    done = run("alter", "nowhere", *words[2:], *speaking, **env)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_cast_that_the_engine_does_not_do_is_a_rewrite(run, file, url):
    cast = ("alter", "t", "--cast", "n=string", "--rewrite")
    run("create", "t", file, *url)
    assert "rewrite=True to alter_table" in run(*cast, "--dry-run", *url).stdout
    assert column(url, "n") == [1, 2]
    assert run(*cast, *url).stdout.startswith("rewrote t: 2 rows, ")
    assert column(url, "n") == ["1", "2"]
    assert run("alter", "t", "--cast", "s=int8", "--rewrite", *url).returncode == 1
    assert column(url, "s") == ["x", None]


def test_the_example_of_each_help_runs(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("data", "1.csv").write_text("qty,zip\n1,01067\n")
    Path("sales.csv").write_text("qty,zip\n1,x\n")
    commands = ["create", "tables", "show", "export", "alter", "delete", "drop"]
    commands += ["demo", "serve"]
    assert sorted(commands) == sorted(main.commands)
    for name in commands[:-1]:
        _, *words = shlex.split(main.commands[name].epilog.removeprefix("Example: "))
        done = run(*words)
        assert (done.returncode, words[0]) == (0, name), done.stderr


def test_the_demo_compares_every_value_and_leaves_tables_of_an_earlier_one_alone(
    run, tmp_path
):
    equal = "every value read back with lance equals the frame's"
    done = run("demo")
    assert done.returncode == 0, done.stderr
    for line in (
        "rt.connect(",
        "df.remote.to_table(",
        "alter_table(",
        "set_nullable(",
        equal,
    ):
        assert done.stdout.count(line) == 2
    (tmp_path / "t.txt").write_text("a;b\n1;2,5\n2;\n")
    reading = ("--format", "csv", "--separator", ";", "--decimal", ",")
    words = ("demo", tmp_path / "t.txt", *reading, "--keep", tmp_path / "kept")
    assert run(*words).stdout.count(equal) == 2
    for library in ("pandas", "polars"):
        assert lance.dataset(str(tmp_path / "kept" / f"t_{library}.lance")).to_table()[
            "b"
        ].to_pylist() == [2.5, None]
    again = run(*words)
    assert (again.returncode, again.stdout) == (1, "")
    assert (
        "kept already has table 't_pandas'; pass another folder to --keep"
        in again.stderr
    )


@pytest.mark.long
def test_the_demo_on_the_flights_finds_all_values_equal(run, tmp_path, flights_csv):
    pl.read_csv(flights_csv, null_values="NA", try_parse_dates=True).write_parquet(
        tmp_path / "flights.parquet"
    )
    done = run("demo", tmp_path / "flights.parquet")
    assert done.returncode == 0, done.stderr
    assert "336,776 rows" in done.stdout


def test_only_create_and_serve_make_a_folder(run, file, url):
    for command in (["tables"], ["show", "t"], ["alter", "t", "--rename", "a=b"]):
        done = run(*command, *url)
        assert (done.returncode, done.stdout) == (1, "")
        assert (
            "tables: no such folder; rt-frames create and rt-frames serve make it"
            in done.stderr
        )
    assert not url[1].exists()
    assert run("create", "t", file, *url).returncode == 0
    with pytest.raises(ValueError, match="is a file; expected a folder"):
        rt.connect(file, default=False)


def test_quiet_says_nothing_and_verbose_what_was_logged(run, file, env, name):
    create = ("create", name, file, "--if-exists", "skip")
    assert run("-q", *create, **env).stdout == run(*create, "-q", **env).stdout == ""
    for words in ((*create, "-v"), ("-v", *create), (*create, "-q", "-v")):
        said = run(*words, **env).stderr
        assert said.count(f"skipped: table {name} exists") == 1
        assert "GET /v1/tables" not in said
    said = run(*create, "-vv", **env).stderr
    assert "GET /v1/tables 200" in said
    assert KEY not in said
    assert not logging.getLogger("rt_frames").handlers


def test_an_error_is_short_and_verbose_shows_where_it_came_from(run, env, name):
    short, long = (
        run("create", name, "missing.csv", *more, **env) for more in ([], ["-v"])
    )
    assert short.stderr == "Error: missing.csv: no such file\n"
    assert "Traceback" in long.stderr
    assert long.stderr.endswith(short.stderr)


def test_a_name_that_leads_to_another_table_is_refused_by_every_command(
    run, file, server
):
    for *words, name in (
        ["create", file, "--dry-run", "a/b"],
        ["show", "a/b"],
        ["alter", "--cast", "a=int8", "a/b"],
    ):
        command, *others = words
        done = run(command, name, *others, "--url", server.url, RT_FRAMES_API_KEY=KEY)
        assert "Error: name: must not contain / or \\" in done.stderr
        assert (done.returncode, server.connections) == (2, 0)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["alter", "t", "--cast", "n=nothing"],
            "column 'n': dtype 'nothing' is unknown",
        ),
        (["alter", "t", "--rename", "n=n"], "rename: column 'n' is named 'n' already"),
        (["tables", "--url", "t.csv"], "'t.csv' is neither a URL nor a folder"),
        (["tables", "--url", "ftp://x"], "'ftp://x' is no URL of a service"),
    ],
)
def test_words_that_no_service_would_take_are_wrong_usage(run, server, words, error):
    done = run(*words, RT_FRAMES_URL=server.url, RT_FRAMES_API_KEY=KEY)
    assert (done.returncode, server.connections) == (2, 0)
    assert f"Error: {error}" in done.stderr


def test_a_url_of_the_environment_that_cannot_be_used_is_no_wrong_usage(run):
    assert run("tables", RT_FRAMES_URL="ftp://x").returncode == 1


def test_the_key_can_come_from_a_file_and_reach_a_service_that_is_not_loopback(
    run, server, tmp_path
):
    server.listed = ["a"]
    server.answering((200, {}))
    (tmp_path / "key").write_text(KEY + "\n")
    # 0.0.0.0 leads to this machine, and is no loopback address
    words = (
        "tables",
        "--url",
        f"http://0.0.0.0:{server.port}",
        "--key-file",
        tmp_path / "key",
        "-vv",
    )
    assert (run(*words).returncode, server.connections) == (1, 0)
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
    assert complete("alter", "sa") == ["sales", "sales_2"]
    monkeypatch.setenv("RT_FRAMES_URL", str(tmp_path / "nowhere"))
    assert complete("show", *url, "o") == ["other"]
    assert complete("show", "s") == []
    assert not (tmp_path / "nowhere").exists()


def test_a_terminal_gets_text_of_others_without_what_moves_its_cursor(
    run, server, tmp_path, monkeypatch
):
    server.listed = [
        "red\x1b[31m",
        "two\nError: lines",
        "turned\u202eround",
        "half\ud800",
        "bell\x07",
        "fine é",
    ]
    server.answering((200, {}))
    env = {"RT_FRAMES_URL": server.url, "RT_FRAMES_API_KEY": KEY}
    shown = [
        r"red\x1b[31m",
        r"two\nError: lines",
        r"turned\u202eround",
        r"half\ud800",
        r"bell\x07",
        "fine é",
    ]
    assert run("tables", **env).stdout.splitlines() == shown
    assert json.loads(run("tables", "--json", **env).stdout) == server.listed
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert complete("show", "") == ["fine é"]
    (tmp_path / "a\x1b[2J\n.csv").write_text("a\n1,2\n")
    done = run("-v", "create", "t", tmp_path / "*")
    assert r"a\x1b[2J\n.csv" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    server.script = lambda connection: (
        connection.head(),
        connection.sock.sendall(b"SSH \x1b[2J\r\n\r\n"),
    )
    done = run("-vv", "tables")
    assert r"SSH \x1b[2J" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_terminal_sees_how_far_an_upload_is_from_its_beginning(run, file, url):
    watched, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    with open(terminal, "w", encoding="utf-8") as stderr:  # noqa: PTH123  # by its number
        assert run("create", "t", file, *url, stderr=stderr).returncode == 0
    assert re.search(r"t: .*B \[.*, 2 rows\]", os.read(watched, 10_000).decode())
    os.close(watched)


def test_what_cannot_be_written_to_standard_error_ends_no_upload(run, file, url):
    with io.TextIOWrapper(
        Path("/dev/full").open("wb", buffering=0), write_through=True
    ) as full:
        # None: Python's stand-in for a closed one
        for stderr in (full, None):
            assert (
                "created t"
                in run("create", "t", file, "-v", *url, stderr=stderr).stdout
            )
            assert column(url, "n") == [1, 2]
            run("drop", "t", "--yes", *url)
