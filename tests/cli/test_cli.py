"""The console script, as a shell sees it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from rt_frames.cli.main import main
from tests.support.compare import stored
from tests.support.servers import KEY

SCRIPT = str(Path(sys.executable).with_name("rt-frames"))


def run_alone(*args: str) -> subprocess.CompletedProcess[str]:
    """Run the console script in a process of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "rt_frames.cli", *args],
        capture_output=True, text=True, check=False, env=kept, timeout=120,
    )  # fmt: skip


def test_the_script_is_installed():
    done = subprocess.run([SCRIPT, "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"rt-frames, version [\d.]+\n", done.stdout)


def test_the_demo_compares_every_value_and_shows_each_line():
    done = run_alone("demo")
    assert done.returncode == 0, done.stderr
    for line in ("rt.connect(", "df.remote.to_table(", "rt.list_tables()", "after = df.rename(", "alter_table(",
                 "set_nullable("):  # fmt: skip
        assert done.stdout.count(line) == 2
    assert done.stdout.count("every value read back with lance equals the frame's") == 2


def frame() -> pl.DataFrame:
    return pl.DataFrame({"n": [1, 2, None], "s": ["x", None, "z"], "f": [1.5, float("nan"), None]})


def write_stream(path: Path) -> None:
    with pa.ipc.new_stream(str(path), frame().to_arrow().schema) as writer:
        writer.write_table(frame().to_arrow())


WRITERS = {
    "t.parquet": lambda p: frame().write_parquet(p),
    "t.csv": lambda p: frame().write_csv(p),
    "t.ndjson": lambda p: frame().write_ndjson(p),
    "t.arrow": lambda p: frame().write_ipc(p),
    "t.arrows": write_stream,
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_demo_takes_a_file_of_ones_own_and_keeps_the_tables(run, tmp_path, name):
    WRITERS[name](tmp_path / name)
    done = run("demo", str(tmp_path / name), "--keep", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "kept").glob("*.lance")) == ["t_pandas.lance", "t_polars.lance"]


def test_the_demo_leaves_tables_of_an_earlier_one_alone(run, tmp_path):
    frame().write_parquet(tmp_path / "t.parquet")
    words = ("demo", tmp_path / "t.parquet", "--keep", tmp_path / "kept")
    assert run(*words).returncode == 0
    done = run(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: {tmp_path}/kept has a table t_pandas; give another folder to --keep\n"


@pytest.mark.parametrize("rows", [20_000, pytest.param(336_776, marks=pytest.mark.long)])
def test_the_demo_on_the_flights_finds_all_values_equal(run, tmp_path, flights_csv, rows):
    flights = pl.read_csv(flights_csv, null_values="NA", try_parse_dates=True).head(rows)
    flights.write_parquet(tmp_path / "flights.parquet")
    done = run("demo", str(tmp_path / "flights.parquet"))
    assert done.returncode == 0, done.stderr
    assert f"{rows:,} rows" in done.stdout
    assert done.stdout.count("every value read back") == 2


def test_create_list_and_alter_from_a_shell(run, tmp_path, env, service):
    for i in range(2):
        frame().write_parquet(tmp_path / f"{i}.parquet")
    files = [str(tmp_path / f"{i}.parquet") for i in range(2)]
    assert json.loads(run("create", "shell", *files, "--json", **env).stdout)["created"] is True
    assert "shell" in run("tables", **env).stdout.split()
    options = ["--rename", "n=number", "--cast", "n=int32", "--nullable", "s=true", "--lossy"]
    dry = run("alter", "shell", *options, "--dry-run", "--json", **env)
    assert [json.loads(line)["alterations"] for line in dry.stdout.splitlines()] == [
        [{"path": "n", "data_type": {"type": "int32"}}],
        [{"path": "n", "rename": "number"}, {"path": "s", "nullable": True}],
    ]
    done = run("alter", "shell", *options, **env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "request 1 of 2 done: n",
        "request 2 of 2 done: n, s",
    ]
    found = stored(service, "shell")
    assert found.schema.field("number").type == pa.int32()
    assert found["number"].to_pylist() == [1, 2, None, 1, 2, None]


def test_a_second_request_that_is_refused_says_that_the_first_is_done(run, server):
    server.answering((200, {"version": 2}), (400, {"error": {"code": 400, "message": "no such column"}}))
    env = {"RT_FRAMES_URL": server.url, "RT_FRAMES_API_KEY": KEY}
    done = run("alter", "t", "--cast", "a=int32", "--nullable", "b=false", "--lossy", **env)
    assert done.returncode == 1
    assert done.stderr == (
        "half done: request 1 of 2, the cast of a, took effect; request 2, for b, failed\n"
        "Error: could not alter table 't': the service answered 400, no such column; nothing was changed\n"
    )
    assert len(server.posts) == 2


def test_the_example_of_each_help_runs(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("data", "1.csv").write_text("qty,zip\n1,01067\n")
    pl.DataFrame({"units": [1], "zip": ["01067"]}).write_parquet("new.parquet")
    Path("sales.csv").write_text("qty,zip\n1,x\n")
    commands = ["create", "tables", "show", "plan", "alter", "drop", "demo", "serve"]
    assert sorted(commands) == sorted(main.commands)
    for name in commands[:-1]:
        _, *words = shlex.split(main.commands[name].epilog.removeprefix("Example: "))
        done = run(*words)
        assert (done.returncode, words[0]) == (0, name), done.stderr


@pytest.mark.parametrize("args", [["--help"], ["create", "--help"], ["--version"]])
def test_help_loads_no_library_of_frames(args):
    code = (
        f"import sys; from rt_frames.cli.main import main; main({args!r}, standalone_mode=False)\n"
        "assert not {'pyarrow', 'pandas', 'polars', 'requests', 'lance'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_the_key_can_come_from_a_file_and_shows_nowhere(run, tmp_path, service):
    (tmp_path / "key").write_text(KEY + "\n")
    done = run("tables", "--url", service.url, "--key-file", str(tmp_path / "key"))
    assert done.returncode == 0
    assert KEY not in done.stdout + done.stderr


def test_serve_answers_until_it_is_interrupted(run, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "rt_frames.cli", "serve", str(tmp_path)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={k: v for k, v in os.environ.items() if not k.startswith("RT_FRAMES")},
    )  # fmt: skip
    lines = [process.stdout.readline() for _ in range(3)]
    env = dict(line.removeprefix("export ").strip().split("=", 1) for line in lines)
    assert run("tables", "--json", **env).stdout == "[]\n"
    frame().write_parquet(file := tmp_path / "t.parquet")
    for command in (["create", "t", file, "--if-exists", "replace"], ["show", "t"]):  # which not all dialects have
        assert run(*command, **env).returncode == 0
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_a_glob_is_one_table_and_its_schema_change_is_shown_first(run, tmp_path, service, env):
    (tmp_path / "data").mkdir()
    for i in range(12):
        pl.DataFrame({"dep_time": [i], "distance": [100 * i]}).write_parquet(tmp_path / "data" / f"{i:02}.parquet")
    script = Path(SCRIPT)
    line = (
        f"{script} create glob_flights data/*.parquet && {script} alter glob_flights "
        "--rename dep_time=departure --cast distance=int32 --dry-run --lossy"
    )
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ} | env
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True, cwd=tmp_path, env=kept)
    assert re.search(r"^dep_time +departure +renames$", done.stdout, re.MULTILINE)
    assert re.search(r"^distance +int32 +casts$", done.stdout, re.MULTILINE)
    assert stored(service, "glob_flights").to_pydict() == {
        "dep_time": list(range(12)), "distance": [100 * i for i in range(12)],
    }  # fmt: skip
    assert run("create", "quoted_glob", str(tmp_path / "data" / "*.parquet"), **env).returncode == 0
    assert stored(service, "quoted_glob") == stored(service, "glob_flights")


def test_an_interrupted_upload_says_so_and_leaves_no_table(tmp_path, server):
    pl.DataFrame({"n": range(3_000_000)}).write_parquet(tmp_path / "n.parquet")
    begun = threading.Event()

    def read_no_further(connection):
        request = connection.head()
        if request.method == "GET":
            connection.answer(200, {"tables": []})
            request = connection.head()
        connection.body(request, 2**20)
        begun.set()
        time.sleep(60)

    server.script = read_no_further
    process = subprocess.Popen(
        [SCRIPT, "create", "n", str(tmp_path / "n.parquet"), "--url", server.url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "RT_FRAMES_API_KEY": KEY},
    )  # fmt: skip
    assert begun.wait(30)
    time.sleep(0.2)  # Python hears a signal late that comes just as a wait begins; nobody is so quick
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert "interrupted; each request is done whole or not at all: see which, with rt-frames tables and" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("late", [0, 0.1])
def test_ctrl_c_after_the_last_word_of_a_command_ends_it_at_once(tmp_path, late):
    frame().write_csv(tmp_path / "t.csv")
    process = subprocess.Popen(
        [SCRIPT, "create", "t", str(tmp_path / "t.csv"), "--url", str(tmp_path / "tables")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert any(line.startswith("created t: ") for line in iter(process.stdout.readline, ""))
    time.sleep(late)  # its service stops, and then the interpreter
    process.send_signal(signal.SIGINT)
    try:
        _, err = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode in (130, -signal.SIGINT, 0)  # which shells call 130, too; 0 where it was over already
    assert "Traceback" not in err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shells_can_complete_it(shell):
    done = subprocess.run(
        [SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "_RT_FRAMES_COMPLETE": f"{shell}_source"},
    )
    assert "rt-frames" in done.stdout
