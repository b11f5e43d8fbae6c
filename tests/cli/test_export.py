"""Tables that `export` writes to files."""

from __future__ import annotations

import json
import math
import os
import stat
import threading
import time
import uuid
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rt_frames as rt
from tests.support.faults import in_bounds
from tests.support.processes import LONGEST, python
from tests.support.servers import KEY

ROWS = pl.DataFrame(
    {
        "n": [1, 2, None],
        "s": ["", None, 'a,"b"\nc'],
        "x": [0.1, 1e300, None],
        "day": ["2024-03-01", None, "0001-01-01"],
    }
).with_columns(pl.col("day").str.to_date())

ODD = pa.table(
    {
        "category": pa.array(["a", None]).dictionary_encode(),
        "categories": pa.array(
            [["a"], []], pa.list_(pa.dictionary(pa.int32(), pa.string()))
        ),
        "seconds": pa.array([1, None], pa.timestamp("s")),
        "zone": pa.array([1, 2], pa.timestamp("ns", "Europe/Berlin")),
        "time": pa.array([1, 2], pa.time32("s")),
        "duration": pa.array([1, None], pa.duration("s")),
        "wide": pa.array([Decimal("1.50"), None], pa.decimal256(50, 2)),
        "bytes": [b"\xff", b""],
        "struct": [{"a": 1}, None],
        "uuid": pa.array([uuid.UUID(int=1).bytes, None], pa.uuid()),
        "half": pa.array([1.5, None], pa.float16()),
        "json": pa.array(["{}", None], pa.json_()),
        "small": pa.array([1, None], pa.int8()),
    }
)


@pytest.fixture
def url(tmp_path):
    return ("--url", tmp_path / "tables")


@pytest.fixture
def table(url):
    with rt.connect(url[1], default=False) as client:
        yield client.create_table("t", ROWS)


def read_arrow(path):
    return pa.ipc.open_file(path).read_all()


@pytest.mark.parametrize(
    ("suffix", "read", "changed"),
    [
        # Parquet has no seconds
        (
            "parquet",
            pq.read_table,
            {"seconds": pa.timestamp("ms"), "time": pa.time32("ms")},
        ),
        ("PQ", pq.read_table, {"seconds": pa.timestamp("ms"), "time": pa.time32("ms")}),
        ("arrow", read_arrow, {}),
        ("feather", read_arrow, {}),
        ("ipc", read_arrow, {}),
        ("arrows", lambda path: pa.ipc.open_stream(path).read_all(), {}),
    ],
)
def test_a_file_has_the_types_of_the_table(run, url, tmp_path, suffix, read, changed):
    with rt.connect(url[1], default=False) as client:
        client.create_table("t", ODD)
        # whose categories are others
        more = pa.array(["b", "a"]).dictionary_encode()
        client.create_table(
            "t", ODD.set_column(0, "category", more), if_exists="append"
        )
        stored = client.table("t").to_arrow()
    done = run("export", "t", tmp_path / f"o.{suffix}", *url)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.startswith("exported t: 4 rows, 13 columns, ")
    found = read(tmp_path / f"o.{suffix}")
    fields = [
        field.with_type(changed.get(field.name, field.type)) for field in stored.schema
    ]
    assert found.schema.equals(pa.schema(fields))
    assert found.to_pylist() == stored.to_pylist()


def test_a_file_of_arrow_has_one_dictionary_for_all_batches(run, url, tmp_path):
    with rt.connect(url[1], default=False) as client:
        for values in (["a", "b"], ["c", "a"], ["c", None]):
            frame = pl.DataFrame({"c": pl.Series(values, dtype=pl.Categorical)})
            client.create_table("t", frame, if_exists="append")
    run("export", "t", tmp_path / "o.arrow", *url)
    # which reads no dictionary that grows
    found = pl.read_ipc(tmp_path / "o.arrow")["c"]
    assert found.to_list() == ["a", "b", "c", "a", "c", None]


@pytest.mark.parametrize(
    "suffix", ["csv", "tsv", "ndjson", "jsonl", "parquet", "arrow"]
)
def test_what_was_exported_can_be_created(run, url, table, tmp_path, suffix):
    file = tmp_path / f"o.{suffix}"
    assert run("export", "t", file, *url).stderr == ""
    done = run("create", "copy", file, *url, "--dtype", "day=date32")
    assert done.stderr == ""
    with rt.connect(url[1], default=False) as client:
        # JSON of older Polars leaves nulls out, so a first row may lack a column
        assert client.table("copy").to_polars(columns=ROWS.columns).equals(ROWS)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "arrow"])
def test_numbers_that_are_none_can_be_appended_again(run, url, tmp_path, suffix):
    values = [1.5, math.nan, math.inf, -math.inf, None]
    file = tmp_path / f"o.{suffix}"
    with rt.connect(url[1], default=False) as client:
        client.create_table("t", pa.table({"n": range(5), "x": values}))
        assert run("export", "t", file, *url).stderr == ""
        done = run("create", "t", file, "--if-exists", "append", *url)
        assert (done.returncode, done.stderr) == (0, "")
        stored = client.table("t").to_polars()["x"]
    expected = pl.Series("x", values * 2)
    assert stored.equals(expected, null_equal=True)


def test_rows_columns_and_versions_are_chosen(run, url, table, tmp_path):
    table.delete("n = 1")
    file = tmp_path / "o.csv"
    options = ("--columns", "s", "--columns", "n", *url, "--force")
    for more, text in [
        ([], 's,n\n,2\n"a,""b""\nc",\n'),
        (["--limit", "1"], "s,n\n,2\n"),
        (["--limit", "0"], "s,n\n"),
        (["--where", "n > 0", "--version", "1"], 's,n\n"",1\n,2\n'),
    ]:
        assert run("export", "t", file, *options, *more).stderr == ""
        assert file.read_text() == text
    facts = json.loads(run("export", "t", file, *options, *more, "--json").stdout)
    assert facts == {
        "table": "t",
        "file": str(file),
        "rows": 2,
        "columns": [
            {"name": "s", "type": "large_string", "nullable": True},
            {"name": "n", "type": "int64", "nullable": True},
        ],
        "bytes": len(text),
        "version": 1,
    }
    shown = run("show", "t", "--version", "1", "--rows", "9", *url).stdout
    assert shown.startswith("t: 4 columns, 3 rows, version 1, at ")
    assert "2024-03-01" in shown
    assert json.loads(run("show", "t", "--json", *url).stdout)["rows"] == 2
    done = run("show", "t", "--version", "1", "--json", *url)
    assert json.loads(done.stdout)["rows"] == 3


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows", "csv", "ndjson"])
def test_a_table_without_rows_is_a_file(run, url, tmp_path, suffix):
    with rt.connect(url[1], default=False) as client:
        client.create_table("t", ROWS.clear())
    done = run("export", "t", tmp_path / f"o.{suffix}", *url)
    assert (done.stderr, done.returncode) == ("", 0)
    text = {"csv": b"n,s,x,day\n", "ndjson": b""}
    found = (tmp_path / f"o.{suffix}").read_bytes()
    assert found == text.get(suffix, found)


def test_a_suffix_that_tells_no_format_is_wrong_usage_and_nothing_is_asked(
    run, server, tmp_path
):
    for name in ("o.xlsx", "o", "o.json", "o.csv.gz"):
        env = {"RT_FRAMES_URL": server.url, "RT_FRAMES_API_KEY": KEY}
        done = run("export", "t", tmp_path / name, **env)
        assert (done.returncode, server.connections) == (2, 0)
        assert (
            "the file extension chooses the format; use one of .parquet, .pq, .csv, .tsv, "
            ".ndjson, .jsonl, .arrow, .feather, .ipc, .arrows\n" in done.stderr
        )


def test_a_file_is_replaced_only_if_that_is_asked_for(run, url, table, tmp_path):
    real = tmp_path / "real.csv"
    real.write_text("mine")
    real.chmod(0o600)
    file = tmp_path / "o.csv"
    file.symlink_to(real)
    options = ("--columns", "n", *url)
    done = run("export", "t", file, *options)
    assert (done.returncode, real.read_text()) == (1, "mine")
    assert f"{file} exists; choose another name, or pass --force" in done.stderr
    done = run("export", "t", tmp_path / "none" / "o.csv", *options)
    folder = tmp_path / "none"
    assert f"{folder / 'o.csv'}: folder {folder} does not exist; " in done.stderr
    assert run("export", "t", tmp_path, *options).returncode == 2
    assert run("export", "t", file, *options, "--force").returncode == 0
    assert real.read_text() == "n\n1\n2\n\n"
    assert file.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"o.csv", "real.csv", "tables"}


@pytest.mark.parametrize(
    ("suffix", "form", "refused"),
    [
        ("csv", "CSV", ["duration", "wide", "bytes", "struct", "uuid", "categories"]),
        ("ndjson", "NDJSON", ["wide", "bytes", "uuid"]),
    ],
)
def test_columns_that_text_cannot_hold_are_refused(
    run, url, tmp_path, suffix, form, refused
):
    with rt.connect(url[1], default=False) as client:
        client.create_table("t", ODD)
    file = tmp_path / f"o.{suffix}"
    done = run("export", "t", file, *url)
    assert (done.returncode, file.exists()) == (1, False)
    assert f"{file} cannot be written: {form} cannot hold column " in done.stderr
    for name in ODD.column_names:
        assert (f"'{name}', " in done.stderr) == (name in refused)
    kept = [name for name in ODD.column_names if name not in refused]
    words = [word for name in kept for word in ("--columns", name)]
    assert run("export", "t", file, *words, *url).returncode == 0


def test_a_value_that_text_cannot_hold_leaves_the_file_as_it_was(run, url, tmp_path):
    days = pa.table({"day": pa.array([1, 2**31 - 1], pa.date32())})
    with rt.connect(url[1], default=False) as client:
        client.create_table("t", days)
    file = tmp_path / "o.csv"
    file.write_text("mine")
    done = run("export", "t", file, "--force", *url)
    assert (done.returncode, file.read_text()) == (1, "mine")
    assert (
        "rows 0 to 1 hold a value that Polars cannot write as text; export to"
        in done.stderr
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "tables"]


def test_a_type_that_parquet_cannot_hold_is_a_sentence(run, url, tmp_path):
    far = pa.table({"at": pa.array([2**60], pa.timestamp("s"))})
    with rt.connect(url[1], default=False) as client:
        client.create_table("t", far)
    done = run("export", "t", tmp_path / "o.parquet", *url)
    assert done.returncode == 1
    assert "o.parquet cannot be written: " in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


BATCH = pa.record_batch({"n": pa.array(range(2**19))})
REPEATS = 75


def streaming(repeats: int, then=None):
    """Make a script that sends 4 MB again and again, and ends unless it should not."""
    head = BATCH.schema.serialize().to_pybytes()
    batch = BATCH.serialize().to_pybytes()
    tail = b"\xff\xff\xff\xff\0\0\0\0"

    def script(connection):
        connection.body(connection.head())
        size = len(head) + REPEATS * len(batch) + len(tail)
        kind = "application/vnd.apache.arrow.stream"
        connection.sock.sendall(
            f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n".encode()
        )
        connection.sock.sendall(head)
        for _ in range(repeats):
            connection.sock.sendall(batch)
        if then is not None:
            then()
        else:
            connection.sock.sendall(tail)

    return script


@pytest.fixture
def lancedb(server):
    return {
        "RT_FRAMES_URL": server.url,
        "RT_FRAMES_API_KEY": KEY,
        "RT_FRAMES_DIALECT": "lancedb",
    }


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "ndjson"])
def test_rows_are_written_as_they_come(run, server, lancedb, tmp_path, suffix):
    """Three hundred megabytes, of which only a few are in memory."""
    server.script = streaming(REPEATS)
    file = tmp_path / f"o.{suffix}"
    with in_bounds(60, 200):
        done = run("export", "t", file, **lancedb)
    assert done.stdout.startswith("exported t: 39,321,600 rows, 1 column, ")
    file.unlink()


def test_rows_that_end_too_early_make_no_file(run, server, lancedb, tmp_path):
    server.script = streaming(3, then=lambda: None)
    file = tmp_path / "o.parquet"
    file.write_bytes(b"mine")
    done = run("export", "t", file, "--force", **lancedb)
    assert (done.returncode, file.read_bytes()) == (1, b"mine")
    assert "the response failed after 1,572,864 rows" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["o.parquet"]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_ctrl_c_leaves_no_file(server, lancedb, tmp_path, suffix):
    begun = threading.Event()
    ended = threading.Event()

    def wait():
        begun.set()
        ended.wait(LONGEST)

    server.script = streaming(3, then=wait)
    words = ("-m", "rt_frames.cli", "export", "t", tmp_path / f"o.{suffix}")
    with python(*words, env=lancedb) as process:
        assert begun.wait(LONGEST)
        # Python hears a signal late that comes just as a wait begins
        time.sleep(0.5)
        process.send_signal(2)
        out, err = process.communicate()
        ended.set()
    assert (process.returncode, out) == (130, "")
    assert err == "interrupted\n"
    assert [*tmp_path.iterdir()] == []


def test_a_pipe_or_device_is_never_replaced(run, url, table, tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    done = run("export", "t", pipe, "--force", *url)
    assert done.returncode == 1
    assert f"{pipe} is not a regular file; choose another name" in done.stderr
    assert pipe.is_fifo()
