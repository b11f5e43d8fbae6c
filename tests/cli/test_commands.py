"""What the commands of the console script say, and what they say when something is wrong."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time

import polars as pl
import pyarrow as pa
import pytest
import requests
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


def test_show_tells_the_columns_of_a_table(run, file, tmp_path, name):
    run("create", name, file, "--url", tmp_path / "tables")
    done = run("show", name, "--url", tmp_path / "tables")
    assert done.stdout.splitlines()[0] == f"{name}: 2 columns, at {tmp_path / 'tables'}"
    assert re.search(r"^n +int64 +yes$", done.stdout, re.MULTILINE)
    assert json.loads(run("show", name, "--json", "--url", tmp_path / "tables").stdout)["columns"] == [
        {"name": "n", "type": "int64", "nullable": True},
        {"name": "s", "type": "large_string", "nullable": True},
    ]


def test_show_prints_the_first_rows_and_drop_takes_the_table_away(run, file, tmp_path, name):
    url = ("--url", tmp_path / "tables")
    run("create", name, file, *url)
    done = run("show", name, "--rows", "1", *url)
    assert re.search(r"^ *n +s *\n *1 +x *$", done.stdout, re.MULTILINE)
    assert "--rows cannot be used with --json" in run("show", name, "--rows", "1", "--json", *url).stderr
    done = run("drop", name, *url)
    assert done.returncode == 2
    assert "pass --yes" in done.stderr
    assert run("drop", name, "--yes", *url).stdout == f"dropped {name}, at {tmp_path / 'tables'}\n"
    assert run("tables", *url).stdout == ""
    done = run("drop", name, "--yes", *url)
    assert done.returncode == 1
    assert "there is no table" in done.stderr


def test_create_appends_to_a_table(run, file, tmp_path, name):
    url = ("--url", tmp_path / "tables")
    for done in ("created", "appended to"):
        assert run("create", name, file, "--if-exists", "append", *url).stdout.startswith(f"{done} {name}: ")
    assert lance.dataset(str(tmp_path / "tables" / f"{name}.lance")).to_table()["n"].to_pylist() == [1, 2, 1, 2]


def test_plan_compares_tables_and_files(run, file, tmp_path, name):
    after = tmp_path / "after.csv"
    after.write_text("number,s\n1,x\n")
    url = ("--url", tmp_path / "tables")
    run("create", name, file, *url)
    done = run("plan", name, after, "--rename", "n=number", "--dtype", "number=int32", "--json", *url)
    assert json.loads(done.stdout) == {
        "alterations": [{"path": "n", "rename": "number", "data_type": {"type": "int32"}}]
    }
    assert re.search(
        r"^n +int64 +int32 +casts", run("plan", name, file, "--dtype", "n=int32", *url).stdout, re.MULTILINE
    )
    assert "nothing to alter" in run("plan", file, name, *url).stdout
    assert "nothing to alter" in run("plan", file, file).stdout  # no service is needed


def test_json_tells_rows_and_columns(run, file, env, name):
    facts = json.loads(run("create", name, file, "--json", **env).stdout)
    assert (facts["rows"], facts["created"], facts["table"], facts["version"]) == (2, True, name, 1)
    assert facts["bytes"] > 100
    assert [column["name"] for column in facts["columns"]] == ["n", "s"]
    skipped = json.loads(run("create", name, file, "--json", "--if-exists", "skip", **env).stdout)
    assert (skipped["created"], skipped["rows"]) == (False, None)


NESTED = pa.table(
    {"n": [1, 2], "s": ["x", None], "in": [[{"a": 1}], []], "wide": pa.array([[{"a": 1}], []]), "x": [1.5, 2]}
).cast(
    pa.schema([
        ("n", pa.int64()), ("s", pa.string()), ("in", pa.list_(pa.struct([("a", pa.int64())]))),
        ("wide", pa.large_list(pa.struct([("a", pa.int64())]))), ("x", pa.float64()),
    ])
)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "code", "shown", "error"),
    [
        (["--cast", "n=int32", "--rename", "s=t"], 0, r"^n +int64 +int32 +casts$", ""),
        (["--cast", "in.item.a=int32"], 0, r"^in\.item\.a +int64 +int32 +casts$", ""),
        (["--cast", "n=string"], 1, r"^n +int64 +large_string +casts; refused: int64",
         "Error: nothing was sent; the engine refuses n: int64 to large_string: int64 can be cast to integers"),
        (["--cast", "wide.item.a=int32"], 1, r"refused: nothing inside a large_list is cast",
         "Error: nothing was sent; the engine refuses wide.item.a: int64 to int32: nothing inside a large_list is"),
        (["--cast", "x=float32"], 1, r"lossy: double to float keeps 7 digits",
         "Error: nothing was sent, as stored values may change; x: double to float keeps 7 digits; pass --lossy"),
        (["--cast", "x=float32", "--lossy"], 0, r"lossy: double to float keeps 7 digits", ""),
        (["--rename", "widee=k", "--cast", "n=int32"], 1, r"\A\Z",
         "Error: table 't' has no column 'widee'; did you mean 'wide'"),
    ],
)  # fmt: skip
def test_a_dry_run_looks_at_the_table(run, tmp_path, options, code, shown, error):
    with rt.connect(tmp_path / "tables", default=False) as client:
        client.create_table("t", NESTED)
    done = run("alter", "t", *options, "--dry-run", "--url", tmp_path / "tables")
    assert done.returncode == code
    assert re.search(shown, done.stdout, re.MULTILINE)
    assert done.stderr.startswith(error)
    assert bool(done.stderr) == bool(code)


def test_a_cast_that_the_engine_does_not_do_is_a_rewrite(run, file, tmp_path, name):
    url, cast = ("--url", tmp_path / "tables"), ("alter", name, "--cast", "n=string", "--rewrite")
    run("create", name, file, *url)
    assert "alter --rewrite" in run(*cast, "--dry-run", *url).stdout
    assert run(*cast, *url).stdout.startswith(f"rewrote {name}: 2 rows, ")
    assert lance.dataset(str(tmp_path / "tables" / f"{name}.lance")).to_table()["n"].to_pylist() == ["1", "2"]
    assert "give one of them" in run(*cast, "--lossy", *url).stderr
    assert run("alter", name, "--cast", "s=int8", "--rewrite", *url).returncode == 1


def test_a_dry_run_asks_only_a_service_that_describes_tables(run, file, env, name):
    run("create", name, file, **env)
    words, speaking = ("alter", name, "--cast", "n=string", "--dry-run"), ("--dialect", "lancedb")
    assert "refuses n: int64 to large_string" in run(*words, *speaking, **env).stderr
    assert "n: its type so far is not known; pass --lossy" in run(*words, **env).stderr
    assert "no endpoint to write a table in parts; connect with --dialect" in run(*words, "--rewrite", **env).stderr
    assert run(*words, "--lossy", **env).returncode == 0
    done = run("alter", "nowhere", *words[2:], *speaking, **env)
    assert (done.returncode, done.stdout) == (1, "")
    assert "could not describe table 'nowhere'" in done.stderr


@pytest.mark.parametrize("command", [["tables"], ["show", "t"], ["alter", "t", "--rename", "a=b"], ["plan", "a", "b"]])
def test_only_create_and_serve_make_a_folder(run, tmp_path, file, command):
    done = run(*command, "--url", tmp_path / "typo")
    assert (done.returncode, done.stdout) == (1, "")
    assert "typo: there is no such folder; create and serve make one" in done.stderr
    assert not (tmp_path / "typo").exists()
    assert run("create", "t", file, "--url", tmp_path / "typo").returncode == 0


@pytest.mark.parametrize("args", [["create", "t"], ["tables"]])
def test_a_file_in_place_of_a_folder_is_called_one(run, file, args):
    done = run(*args, *([file] if len(args) > 1 else []), "--url", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{file} is a file; expected a folder" in done.stderr
    with pytest.raises(ValueError, match="is a file; expected a folder"):
        rt.connect(file, default=False)


def test_a_table_that_was_replaced_is_called_so(run, file, tmp_path):
    words = ("create", "t", file, "--if-exists", "replace", "--url", tmp_path / "tables")
    assert run(*words).stdout.startswith("created t: ")
    assert run(*words).stdout.startswith("replaced t: ")


def test_verbosity_may_come_before_the_command(run, file, tmp_path):
    assert run("-q", "create", "t", file, "--url", tmp_path / "tables").stdout == ""
    assert "created table u" in run("-v", "create", "u", file, "--url", tmp_path / "tables").stderr


def test_quiet_says_nothing_and_verbose_what_was_logged(run, file, env, name):
    assert run("create", name, file, "-q", **env).stdout == ""
    done = run("create", name, file, "--if-exists", "skip", "-v", **env)
    assert f"skipped table {name}" in done.stderr
    assert "GET /v1/tables" not in done.stderr
    done = run("create", name, file, "--if-exists", "skip", "-vv", **env)
    assert "GET /v1/tables 200" in done.stderr
    assert KEY not in done.stderr
    assert run("create", f"{name}_2", file, "-q", "-v", **env).stderr.count("created table") == 1
    assert not logging.getLogger("rt_frames").handlers


def test_an_error_is_short_and_verbose_shows_where_it_came_from(run, env, name):
    short, long = (run("create", name, "missing.csv", *more, **env) for more in ([], ["-v"]))
    assert short.stderr == "Error: missing.csv: there is no such file\n"
    assert "Traceback" in long.stderr
    assert long.stderr.endswith(short.stderr)


@pytest.mark.parametrize(
    "command", [["create", "a/b", "FILE", "--dry-run"], ["show", "a/b"], ["alter", "a/b", "--cast", "a=int8"]]
)
def test_a_name_that_leads_to_another_table_is_refused_by_every_command(run, file, server, command):
    words = [file if word == "FILE" else word for word in command]
    done = run(*words, "--url", server.url, RT_FRAMES_API_KEY=KEY)
    assert "Error: name: a table's name cannot contain / or \\" in done.stderr
    assert (done.returncode, server.connections) == (1, 0)


def test_allow_insecure_reaches_a_service_that_is_not_loopback(run, server):
    server.listed = ["a"]
    server.answering((200, {}))
    # 0.0.0.0 leads to this machine, and is no loopback address
    done = run("tables", "--allow-insecure", "--url", f"http://0.0.0.0:{server.port}", RT_FRAMES_API_KEY=KEY)
    assert done.stdout == "a\n"


def complete(*words: object) -> list[str]:
    *args, incomplete = map(str, words)
    completer = ShellComplete(main, {}, "rt-frames", "_RT_FRAMES_COMPLETE")
    return [item.value for item in completer.get_completions(args, incomplete)]


HOSTILE = ["red\x1b[31m", "two\nError: lines", "turned\u202eround", "half\ud800", "bell\x07", "fine é"]


def test_a_terminal_gets_text_of_others_without_what_moves_its_cursor(run, server, tmp_path, monkeypatch):
    server.listed = HOSTILE
    server.answering((200, {}))
    env = {"RT_FRAMES_URL": server.url, "RT_FRAMES_API_KEY": KEY}
    shown = [r"red\x1b[31m", r"two\nError: lines", r"turned\u202eround", r"half\ud800", r"bell\x07", "fine é"]
    assert run("tables", **env).stdout.splitlines() == shown
    assert json.loads(run("tables", "--json", **env).stdout) == HOSTILE
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert complete("show", "") == ["fine é"]
    for number, words in enumerate([("create", "t", tmp_path / "*"), ("-v", "create", "t", tmp_path / "*")]):
        (tmp_path / f"a\x1b[2J\n{number}.csv").write_text("a\n1,2\n")
        done = run(*words, **env)
        assert r"a\x1b[2J\n0.csv" in done.stderr
        assert "\x1b" not in done.stdout + done.stderr
    server.script = lambda connection: (connection.head(), connection.sock.sendall(b"SSH \x1b[2J\r\n\r\n"))
    for words in (["tables"], ["-vv", "tables"]):
        done = run(*words, **env)
        assert r"SSH \x1b[2J" in done.stderr
        assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_what_cannot_be_written_to_standard_error_ends_no_upload(file, service, name, stderr):
    command = shlex.join([sys.executable, "-m", "rt_frames.cli", "create", name, str(file), "--url", service.url])
    env = {**os.environ, "RT_FRAMES_API_KEY": KEY}
    done = subprocess.run(f"{command} {stderr}", shell=True, capture_output=True, text=True, check=False, env=env)
    assert "created" in done.stdout
    assert stored(service, name).num_rows == 2


def test_shells_complete_the_names_of_tables(tmp_path, monkeypatch):
    with rt.connect(tmp_path / "tables", default=False) as client:
        for name in ("sales", "sales_2", "other"):
            client.create_table(name, FRAME)
    monkeypatch.setenv("RT_FRAMES_URL", str(tmp_path / "tables"))
    assert complete("alter", "sa") == ["sales", "sales_2"]
    assert complete("plan", "sales_") == ["sales_2", "sales_"]  # or a file
    monkeypatch.setenv("RT_FRAMES_URL", str(tmp_path / "nowhere"))
    assert complete("show", "--url", tmp_path / "tables", "o") == ["other"]
    assert complete("show", "s") == []
    assert not (tmp_path / "nowhere").exists()


def test_serve_writes_a_line_for_each_request(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "rt_frames.cli", "serve", tmp_path / "tables"], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "RT_FRAMES_API_KEY": KEY},
    )  # fmt: skip
    url = process.stdout.readline().strip().partition("=")[2]
    rt.connect(url, api_key=KEY, default=False).create_table("t", FRAME)
    requests.get(f"{url}/v1/tables%0Ax", headers={"x-api-key": "wrong"}, timeout=9)
    process.send_signal(signal.SIGINT)
    lines = process.communicate(timeout=20)[1].splitlines()
    assert re.search(r" 127\.0\.0\.1 POST /v1/tables/t 200, \d+ bytes received, \d+ ms$", lines[1])
    assert re.search(r" 127\.0\.0\.1 GET /v1/tables%0Ax 401, 0 bytes received, \d+ ms$", lines[2])
    assert KEY not in str(lines)


def run_without(module: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Python where a module is not installed."""
    code = f"import sys; sys.modules[{module!r}] = None; exec(sys.argv.pop(1))"
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False, timeout=60)


INSTALL = 'pip install "rt_frames[local]"'


@pytest.mark.parametrize("module", ["cheroot", "lance"])
@pytest.mark.parametrize("command", [["serve", "t"], ["tables", "--url", "."], ["demo"]])
def test_a_missing_extra_is_a_sentence_with_its_command(module, command, tmp_path):
    code = "from rt_frames.cli.main import main; main()"
    done = run_without(module, code, *command)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {module} must be installed for this: {INSTALL}\n"


def test_connect_to_a_folder_says_so_too():
    done = run_without("lance", "import rt_frames as rt; rt.connect('./t')")
    assert done.stderr.splitlines()[-1].endswith(f"lance must be installed for this: {INSTALL}")


@pytest.mark.parametrize("times", [1, pytest.param(30, marks=pytest.mark.long)])
@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_the_end_of_the_script_is_not_that_of_a_thread_that_still_read_the_sample(tmp_path, suffix, times):
    """One that came back into Python after its end aborted a run of three."""
    (tmp_path / "a.csv").write_text("id,x\n1,2.5\n")
    (tmp_path / "a.ndjson").write_text('{"id": 1}\n')
    code = (
        "from pathlib import Path; from rt_frames.cli.files import open_files; import pandas\n"
        f"open_files([Path('a.{suffix}')])"
    )
    for _ in range(times):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_ends_a_csv_at_once(tmp_path, server):
    """A gigabyte of CSV would take seconds; it is read while nobody takes what was made of it."""
    with (tmp_path / "big.csv").open("wb") as file:
        file.write(b"a,b\n" + b"1,some text\n" * 4_000_000)

    def take_nothing(connection):
        request = connection.head()
        if request.method == "GET":
            connection.answer(200, {"tables": []})
            connection.head()
        time.sleep(60)

    server.script = take_nothing
    process = subprocess.Popen(
        [sys.executable, "-m", "rt_frames.cli", "create", "n", tmp_path / "big.csv", "--url", server.url],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "RT_FRAMES_API_KEY": KEY},
    )  # fmt: skip
    while len(server.requests) < 2:
        time.sleep(0.05)
    time.sleep(0.2)  # Python hears a signal late that comes just as a wait begins; nobody is so quick
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=20)[1]
    assert process.returncode == 130
    assert "interrupted" in err
    assert time.monotonic() - start < 6


def test_a_terminal_sees_how_far_an_upload_is_from_its_beginning(file, tmp_path):
    watched, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    subprocess.run(
        [sys.executable, "-m", "rt_frames.cli", "create", "t", file, "--url", tmp_path / "t"],
        stdout=subprocess.DEVNULL, stderr=terminal, check=True,
    )  # fmt: skip
    os.close(terminal)
    assert re.search(r"t: .*B \[.*, 2 rows\]", os.read(watched, 10_000).decode())


def test_types_of_a_table_from_csv_are_those_of_pandas_and_polars(run, env, service, tmp_path, name):
    (tmp_path / "t.csv").write_text("at,s,n\n2020-01-02 03:04:05,x,1\n")
    run("create", name, tmp_path / "t.csv", **env)
    frame = pl.read_csv(tmp_path / "t.csv", try_parse_dates=True)
    assert stored(service, name).schema == pa.schema(frame.remote.schema)
