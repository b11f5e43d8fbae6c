"""Files that the console script reads: each cell of the table is as it stands in the file, or the file is refused."""

from __future__ import annotations

import bz2
import datetime as dt
import decimal
import gzip
import json
import math
import os
import subprocess
import sys
import threading
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.compare import assert_same_values, stored

LATE = 25_000  # rows; more than the sample holds
DAY, AT = dt.date(2023, 12, 31), dt.datetime(2023, 12, 31, 10, 5)


@pytest.fixture
def create(run, env, service, tmp_path, name):
    """Write bytes to files, create a table of them with some options, and give the table."""

    def create(content: bytes | str, file: str = "t.csv", *options: object, **more: bytes | str) -> pa.Table:
        files = {file: content, **{f"{key}.{file.partition('.')[2]}": value for key, value in more.items()}}
        for key, value in files.items():
            (tmp_path / key).write_bytes(value if isinstance(value, bytes) else value.encode())
        done = run("create", name, *(tmp_path / key for key in files), *options, **env)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return stored(service, name)

    return create


@pytest.fixture
def refused(run, env, tmp_path, name):
    """Write bytes to files that are refused; give what is said, without the folder's name."""

    def refused(content: bytes | str, file: str = "t.csv", *options: object, **more: bytes | str) -> str:
        files = {file: content, **{f"{key}.{file.partition('.')[2]}": value for key, value in more.items()}}
        for key, value in files.items():
            (tmp_path / key).write_bytes(value if isinstance(value, bytes) else value.encode())
        done = run("create", name, *(tmp_path / key for key in files), *options, **env)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) <= 3
        assert not any(word in done.stderr for word in ("read_csv", "strict_mode", "sample_size", "Traceback", "=true"))
        assert name not in run("tables", **env).stdout.split()
        return done.stderr.removeprefix("Error: ").replace(f"{tmp_path}/", "").strip()

    return refused


@pytest.mark.parametrize(
    ("content", "options", "columns"),
    [
        ("a,b\n1,x\n2,y\n", [], {"a": [1, 2], "b": ["x", "y"]}),
        ("a;b\n1;x\n", [], {"a": [1], "b": ["x"]}),
        ("a|b\n1|x\n", [], {"a": [1], "b": ["x"]}),
        ("a\tb\n1\tx\n", [], {"a": [1], "b": ["x"]}),
        ("a^b\n1^x\n", ["--separator", "^"], {"a": [1], "b": ["x"]}),
        ("tag;preis\n1;2,50\n2;3\n", [], {"tag": [1, 2], "preis": ["2,50", "3"]}),
        ("tag;preis\n1;2,50\n2;-3\n", ["--decimal", ","], {"tag": [1, 2], "preis": [2.5, -3.0]}),
        ("preis;n\n1.234,50;1\n", ["--decimal", ","], {"preis": ["1.234,50"], "n": [1]}),
        ("d,e\n31.12.2023,x\n1.2.2024,y\n", [], {"d": [DAY, dt.date(2024, 2, 1)], "e": ["x", "y"]}),
        ("d\n12/31/2023\n1/2/2024\n", [], {"d": [DAY, dt.date(2024, 1, 2)]}),
        ("d\n01/02/2024\n", ["--date-format", "%m/%d/%Y"], {"d": [dt.date(2024, 1, 2)]}),
        ("d\n01/02/2024\n", ["--date-format", "%d/%m/%Y"], {"d": [dt.date(2024, 2, 1)]}),
        ("d,e\n2023-12-31,12/31/2023\n", [], {"d": [DAY], "e": ["12/31/2023"]}),
        ("d\n31.12.23\n01.02.24\n", [], {"d": ["31.12.23", "01.02.24"]}),
        ("at\n31.12.2023 10:05:00\n", [], {"at": [AT]}),
        ("at\n12/31/2023 10:05:00 AM\n", [], {"at": [AT]}),
        ("at\n2023-12-31 10:05\n2023-12-31T10:05:00.5\n", [], {"at": [AT, AT.replace(microsecond=500_000)]}),
        ("at\n2023-12-31 11:05:00+01:00\n2023-12-31T10:05:00Z\n", [], {"at": [AT.replace(tzinfo=ZoneInfo("UTC"))] * 2}),
        ("t\n10:00\n23:59:59.25\n", [], {"t": [dt.time(10), dt.time(23, 59, 59, 250_000)]}),
        ("plz\n01067\n10115\n", [], {"plz": ["01067", "10115"]}),
        ("a\n01067\n1.5\n", [], {"a": ["01067", "1.5"]}),
        ("a\n+4930\n12\n", [], {"a": ["+4930", "12"]}),
        ("a\n1_000\n2\n", [], {"a": ["1_000", "2"]}),
        ("a\n1.5\n-1e3\n.5\ninf\nnan\n", [], {"a": [1.5, -1000.0, 0.5, math.inf, math.nan]}),
        ("a\n12345678901234567890\n-1\n", [], {"a": [decimal.Decimal(12345678901234567890), decimal.Decimal(-1)]}),
        (f"a\n{10**45}\n", [], {"a": [str(10**45)]}),
        ("a\ntrue\nFALSE\n\n", [], {"a": [True, False, None]}),
        ("a,b\n1, x \n 2,y\n", [], {"a": [1, 2], "b": [" x ", "y"]}),
        ("a,b\r\n1,x\r\n", [], {"a": [1], "b": ["x"]}),
        ("\ufeffa,b\n1,x\n", [], {"a": [1], "b": ["x"]}),
        ('a,b\n1,"x\ny"\n2,"p\r\nq"\n', [], {"a": [1, 2], "b": ["x\ny", "p\r\nq"]}),
        ('a,b\r\n1,"x\ny"\r\n2,"p\r\nq"\r\n', [], {"a": [1, 2], "b": ["x\ny", "p\r\nq"]}),
        ('a,b\n1,"x,""y"""\n2,5" pipe\n', [], {"a": [1, 2], "b": ['x,"y"', '5" pipe']}),
        ('a,b\n1,"C:\\"\n2,C:\\new\n', [], {"a": [1, 2], "b": ["C:\\", "C:\\new"]}),
        ('"a\n1",b\n1,2\n', ["--rename", "a\n1=a"], {"a": [1], "b": [2]}),
        ('a,b\n1,""\n2,\n', [], {"a": [1, 2], "b": ["", None]}),
        ('a,b\n1,""\n"",x\n', ["--null", ""], {"a": [1, None], "b": [None, "x"]}),
        ('a,b\n1,NA\nNA,"NA"\n', ["--null", "NA"], {"a": [1, None], "b": [None, None]}),
        ("a,b\n1,NA\n2,NULL\n", [], {"a": [1, 2], "b": ["NA", "NULL"]}),
        ("a,b\n#1,x\n# c,y\n", [], {"a": ["#1", "# c"], "b": ["x", "y"]}),
        ("a,A\n1,2\n", [], {"a": [1], "A": [2]}),
        ("1,2\n3,4\n", ["--no-header"], {"column0": [1, 3], "column1": [2, 4]}),
        ("a,b\n1,x\n\n2,y\n\n\n", [], {"a": [1, 2], "b": ["x", "y"]}),
        ("a,b\n1,x\n2,", [], {"a": [1, 2], "b": ["x", None]}),
        ("a,b\n1,x\0y\n", [], {"a": [1], "b": ["x\0y"]}),
        ("a,b", [], {"a": [], "b": []}),
        ("a,b\n", [], {"a": [], "b": []}),
        ("name\nx y\n", [], {"name": ["x y"]}),
        ("größe;b\n1;ü\n".encode("cp1252"), ["--encoding", "cp1252"], {"größe": [1], "b": ["ü"]}),
        ("a,b\n1,\x85ü\n".encode("latin-1"), ["--encoding", "latin-1"], {"a": [1], "b": ["\x85ü"]}),
        ("a,b\n1,😀\n".encode("utf-16"), ["--encoding", "utf-16"], {"a": [1], "b": ["😀"]}),
        ("a,b\n1,x\n".encode("utf-16-be"), ["--encoding", "utf-16-be"], {"a": [1], "b": ["x"]}),
    ],
)
def test_each_cell_of_csv_is_as_it_stands_in_the_file(create, content, options, columns):
    stored, expected = (
        str(cells).replace("zoneinfo.ZoneInfo(key='UTC')", "<UTC>")  # as older pandas calls it
        for cells in (create(content, "t.csv", *options).to_pydict(), columns)
    )
    assert stored == expected  # as text, in which a NaN equals a NaN


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "t.csv, line 1: there are no columns"),
        ("\na,b\n1,2\n", "t.csv, line 1: there are no columns"),
        ("Report of 2024\n\na,b\n1,2\n", "t.csv, line 3: Expected Number of Columns: 1 Found: 2: 'a,b'"),
        ("# comment\na,b\n1,2\n", "t.csv, line 2: Expected Number of Columns: 1 Found: 2: 'a,b'"),
        ("a,b\n1\n2,3\n", "t.csv, line 2: Expected Number of Columns: 2 Found: 1: '1'"),
        ("a,b\n1,2\n1,2,3\n", "t.csv, line 3: Expected Number of Columns: 2 Found: 3: '1,2,3'"),
        ("a,b\n1,2,\n1,2,3\n", "t.csv, line 3: Expected Number of Columns: 2 Found: 3: '1,2,3'"),
        ('a,b\n1,"x\n2,y\n', "t.csv, line 2: Value with unterminated quote found."),
        ('a,b\n1,x\n2,"', "t.csv, line 3: Value with unterminated quote found."),
        ('a,b\n1,"x"y\n', "t.csv, line 2: Value with unterminated quote found."),
        ('a,b\n1,"x\\"y"\n2,"C:\\new"\n', "t.csv, line 2: Value with unterminated quote found."),
        ("a,b\n1,2\r\n3,4\n", "t.csv: some lines end in CR LF and some in LF, or CR; make them alike first"),
        ("a;b\n1;2\n3\n", "t.csv has one column, 'a;b'; give --separator ';'"),
        (b"a,b\n1,x\n2,\xe4\n", "t.csv, line 3: Invalid unicode (byte sequence mismatch) detected."),
        (b"a,\xe4\n1,x\n", "t.csv, line 1: this is not UTF-8; give --encoding, such as cp1252"),
        ("a,b\n1,x\n".encode("utf-16"), "t.csv, line 1: this is not UTF-8; give --encoding, such as cp1252 or utf-16"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "t.csv, line 1: this is not UTF-8"),
        ("a,a\n1,2\n", "column names must be unique; these occur more than once: 'a'"),
        (",b\n1,2\n", "column names must not be empty, and number 1 is"),
        ("a,b,\n1,2,\n", "column names must not be empty, and number 3 is"),
        ("sex\nF\nF\n", "t.csv, row 0: column 'sex' is BOOLEAN, and this is 'F'; give --dtype sex=string"),
        ("a\n1.5\n1e400\n", "t.csv, row 1: column 'a' is DOUBLE, and this is '1e400'; give --dtype a=string"),
        ("a\n1.5\n9007199254740993\n", "t.csv, row 1: column 'a' is DOUBLE, and this is '9007199254740993'"),
        ("at\n2023-12-31 10:05:00.123456789\n", "t.csv, row 0: column 'at' is TIMESTAMP, and this is '2023-12-31 10"),
        ("at\n2023-12-31 10:05:00+01:00\n2023-12-31 10:05:00\n", "t.csv, row 1: column 'at' is TIMESTAMP WITH TIME"),
        ("t\n10:00\n24:00\n", "t.csv, row 1: column 't' is TIME, and this is '24:00'"),
        ("d\n2024-01-01\nepoch\n", "t.csv, row 1: column 'd' is DATE, and this is 'epoch'"),
        ("d\n12/31/2023\n12/31/23\n", "t.csv, row 1: column 'd' is DATE, and this is '12/31/23'"),
    ],
)
def test_a_file_that_would_lose_something_is_refused(refused, content, said):
    assert refused(content).startswith(said)


@pytest.mark.parametrize(
    ("early", "late", "kind"),
    [
        *(("1", late, "BIGINT") for late in ("1.7", "01067", "0xFF", "0b1", "1_000", "1e3", "-0", "+5", "x", "NA")),
        *(("1", late, "BIGINT") for late in ("9223372036854775808", "true")),
        *(("1.5", late, "DOUBLE") for late in ("1e400", "9007199254740993", "01067", "1_000.5", "0xFF", "x")),
        *(("true", late, "BOOLEAN") for late in ("1", "t", "yes", "x")),
        *(("2024-01-01", late, "DATE") for late in ("2024-01-01 10:00:00", "24-01-01", "31.12.2023", "2024-02-30")),
        *(("31.12.2023", late, "DATE") for late in ("31.12.23", "12.31.2023", "31.12.2023 10:00")),
        *(("2024-01-01 10:00:00", f"2024-01-01 {late}", "TIMESTAMP") for late in (
            "10:00:00+02:00", "10:00:00Z", "10:00:00.1234567", "10:00:00 Europe/Berlin", "24:00:00", "")),
        *(("2024-01-01T10:00:00Z", f"2024-01-01 {late}", "TIMESTAMP WITH TIME ZONE") for late in (
            "10:00:00", "10:00:00 Europe/Berlin", "10:00:00.1234567Z")),
        *(("10:00:00", late, "TIME") for late in ("24:00:00", "10:00:00 PM", "10:00:00+02:00", "10:00:00.1234567")),
    ],
)  # fmt: skip
def test_a_late_cell_that_a_cast_would_change_is_refused_by_row(refused, early, late, kind):
    said = f"row {LATE}: column 'a' is {kind}, and this is '{late}'; give --dtype a=string"
    assert refused(f"b,a\n{f'0,{early}{chr(10)}' * LATE}1,{late}\n") == f"t.csv, {said}"


@pytest.mark.parametrize(
    ("early", "late", "value"),
    [
        ("1", " 5 ", 5),
        ("1", '"7"', 7),
        ("1", "", None),
        ("1.5", "2", 2.0),
        ("31.12.2023", "1.2.2024", dt.date(2024, 2, 1)),
        ("31.12.2023", "2024-02-01", dt.date(2024, 2, 1)),
        ("2024-01-01 10:00:00", "2024-01-01T10:00", dt.datetime(2024, 1, 1, 10)),
        ("2024-01-01 10:00:00", "2024-01-01 10:00:00.1234560", dt.datetime(2024, 1, 1, 10, 0, 0, 123456)),
    ],
)
def test_a_late_cell_that_is_the_same_value_passes(create, early, late, value):
    assert create(f"b,a\n{f'0,{early}{chr(10)}' * LATE}1,{late}\n")["a"].to_pylist()[-1] == value


@pytest.mark.parametrize(("late", "said"), [
    ("1\n", "Expected Number of Columns: 2 Found: 1: '1'"),
    ("1,2,3\n", "Expected Number of Columns: 2 Found: 3: '1,2,3'"),
    ('1,"x\n' + "2,y\n" * 200_000, "Value with unterminated quote found.: '1,\"x 2,y 2,y"),
    ('1,"x', "Value with unterminated quote found."),
])  # fmt: skip
def test_a_late_row_that_is_broken_is_refused_by_line(refused, late, said):
    assert refused("a,b\n" + "1,x\n" * LATE + late).startswith(f"t.csv, line {LATE + 2}: {said}")


def test_a_larger_sample_finds_the_type_of_late_cells(create):
    content = "a\n" + "1\n" * LATE + "1.5\n"
    assert create(content, "t.csv", "--sample", 2 * LATE)["a"].to_pylist()[-1] == 1.5


@pytest.mark.parametrize(
    ("content", "options", "values"),
    [
        ("a\n007\n", ["int32"], [7]),
        ("a\n1.10\n2\n", ["decimal128(10, 2)"], [decimal.Decimal("1.10"), decimal.Decimal("2.00")]),
        ("a;b\n1,10;x\n", ["decimal128(10, 2)", "--decimal", ","], [decimal.Decimal("1.10")]),
        ("a;b\n1,5;x\n", ["float32", "--decimal", ","], [1.5]),
        ("a;b\n1,5;x\n", ["string", "--decimal", ","], ["1,5"]),
        ("a\n9007199254740992\n", ["float64"], [2.0**53]),
        ("a\n31.12.2023\n", ["date32"], [DAY]),
        ("a\n31.12.2023\n", ["timestamp[ms]"], [dt.datetime(2023, 12, 31)]),
        ("a\n31.12.2023\n", ["string"], ["31.12.2023"]),
        ("a\ntrue\n", ["string"], ["true"]),
        ("a\ntrue\n", ["bool"], [True]),
    ],
)
def test_a_type_that_is_asked_for_is_cast_exactly(create, content, options, values):
    assert create(content, "t.csv", "--dtype", f"a={options[0]}", *options[1:])["a"].to_pylist() == values


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("a\n1\n1.7\n", ["int64"], "column 'a', row 1 of t.csv: "),
        ("a\n20240102\n", ["date32"], "column 'a', row 0 of t.csv: "),
        ("a\n1e400\n", ["float64"], "column 'a', row 0 of t.csv: "),
        ("a;b\n1.234;x\n", ["float64", "--decimal", ","], "column 'a', row 0 of t.csv: "),
        ("a;b\n1.234;x\n", ["decimal128(10, 3)", "--decimal", ","], "column 'a', row 0 of t.csv: "),
        ("a\n31.12.2023\n12/31/2023\n", ["date32"], "column 'a', row 0 of t.csv: "),
    ],
)
def test_a_cell_that_is_not_of_the_type_that_is_asked_for_is_refused_by_row(refused, content, options, said):
    assert said in refused(content, "t.csv", "--dtype", f"a={options[0]}", *options[1:])


def test_a_point_is_no_decimal_comma(refused):
    assert refused("a;b\n" + "1,5;x\n" * LATE + "1.234;x\n", "t.csv", "--decimal", ",").startswith(
        f"t.csv, row {LATE}: column 'a' is DOUBLE, and this is '1.234'"
    )


@pytest.mark.parametrize(
    ("file", "content", "options"),
    [
        ("t.tsv", b"a\tb\n1\tx\n", []),
        ("t.csv.gz", gzip.compress(b"a,b\n", mtime=0) + gzip.compress(b"1,x\n", mtime=0), []),
        ("t.tsv.bz2", bz2.compress(b"a\tb\n1\tx\n"), []),
        ("t.csv.zst", pa.compress(b"a,b\n1,x\n", "zstd", asbytes=True), []),
        ("t.csv.gz", gzip.compress("a,b\n1,x\n".encode("utf-16"), mtime=0), ["--encoding", "utf-16"]),
        ("t.ndjson.gz", gzip.compress(b'{"a": 1, "b": "x"}\n', mtime=0), []),
        ("t.txt", b"a\tb\n1\tx\n", ["--format", "csv", "--separator", r"\t"]),
        ("t", b'{"a": 1, "b": "x"}\n', ["--format", "ndjson"]),
        ("t.json", b'[{"a": 1, "b": "x"}]', []),
        ("t.json", b'{"a": 1,\n "b": "x"}', []),
        ("t.jsonl", '{"a": 1, "b": "x"}\n'.encode("utf-16"), ["--encoding", "utf-16"]),
        ("day [1]*?.csv", b"a,b\n1,x\n", []),
    ],
)
def test_files_of_many_names_hold_the_same_table(create, file, content, options):
    assert create(content, file, *options).to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_a_name_that_reads_like_a_pattern_is_the_file_of_that_name(run, env, tmp_path, service, name, suffix):
    for file, word in ((f"day [1].{suffix}", "right"), (f"day 1.{suffix}", "wrong")):
        frame, path = pl.DataFrame({"a": [word]}), tmp_path / file
        {"csv": frame.write_csv, "ndjson": frame.write_ndjson, "parquet": frame.write_parquet,
         "arrow": frame.write_ipc}[suffix](path)  # fmt: skip
    assert run("create", name, tmp_path / f"day [1].{suffix}", **env).returncode == 0
    assert stored(service, name)["a"].to_pylist() == ["right"]


@pytest.mark.parametrize("damage", [lambda packed: packed[:-20], lambda packed: packed[:-8] + bytes(8)])
def test_a_compressed_file_that_is_damaged_is_refused(refused, damage):
    packed = gzip.compress("".join(["a,b\n", *(f"{n},x{n * n}\n" for n in range(9000))]).encode(), mtime=0)
    assert refused(damage(packed), "t.csv.gz").startswith("t.csv.gz cannot be read: ")


@pytest.mark.parametrize("form", ["csv", "ndjson", "json", "arrow", "parquet"])
def test_standard_input_of_any_format_is_read_whole(run, env, service, name, form, tmp_path):
    rows = {"a": list(range(60_000)), "b": [f"{n} ü" for n in range(60_000)]}
    frame, path = pl.DataFrame(rows), tmp_path / "t"
    {"csv": frame.write_csv, "ndjson": frame.write_ndjson, "json": frame.write_json, "arrow": frame.write_ipc_stream,
     "parquet": frame.write_parquet}[form](path)  # fmt: skip
    done = run("create", name, "-", "--format", form, stdin=path.read_bytes(), **env)
    assert done.returncode == 0, done.stderr
    assert stored(service, name).to_pydict() == rows
    assert "-: its name does not say" in run("create", name, "-", stdin=b"", **env).stderr


def test_a_named_pipe_is_read_whole_and_its_copy_is_removed(run, env, service, name, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.csv")
    text = "a,b\n" + "1,ü\n" * 60_000
    writer = threading.Thread(target=(tmp_path / "pipe.csv").write_bytes, args=[text.encode("cp1252")])
    writer.start()
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    done = run("create", name, tmp_path / "pipe.csv", "--encoding", "cp1252", **env)
    writer.join()
    assert done.returncode == 0, done.stderr
    assert stored(service, name)["b"].to_pylist() == ["ü"] * 60_000
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ('{"a": 1, "b": "x"}\n{"a": 2, "b": null}\n', {"a": [1, 2], "b": ["x", None]}),
        ('{"a": 1}\n' * LATE + '{"a": 2.5, "late": true}\n', {"a": [2.5], "late": [True]}),
        ('{"a": 1}\n{}\n', {"a": [None]}),
        ('{"n": null}\n', {"n": [None]}),
        ('{"d": "2024-01-31", "t": "10:00", "u": "123E4567-e89b-12d3-a456-426614174000", "z": "01067"}\n',
         {"d": ["2024-01-31"], "t": ["10:00"], "u": ["123E4567-e89b-12d3-a456-426614174000"], "z": ["01067"]}),
        ('{"x": {"d": "2024-01-31", "l": [1, null]}}\n',
         {"x": [{"d": "2024-01-31", "l": [1, None]}]}),
        ('{"a": 1.5} {"a": 2}\n', {"a": [2.0]}),
        ('\ufeff{"a": 1}\n\n', {"a": [1]}),
        ('{"a": 12345678901234567890}\n', {"a": [decimal.Decimal(12345678901234567890)]}),
        ('{"a": "x\\u0000\\n\\"y"}\n', {"a": ['x\0\n"y']}),
        ('{"say \\"x\\"": 1, "STRUCT(a DATE)": "2024-01-31"}\n', {'say "x"': [1], "STRUCT(a DATE)": ["2024-01-31"]}),
    ],
)  # fmt: skip
def test_each_value_of_json_is_as_it_stands_in_the_file(create, content, columns):
    found = create(content, "t.ndjson")
    assert found.slice(len(found) - len(next(iter(columns.values())))).to_pydict() == columns


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "t.ndjson cannot be read: "),
        ("[1, 2]", "t.ndjson cannot be read: "),
        ('{"a": 1}\n[1]\n', "t.ndjson cannot be read: "),
        ('{"a": 1}\n' * LATE + '{"a": \n', f"t.ndjson, line {LATE + 1}: malformed JSON: unexpected"),
        ('{"a": 1}\nneither\n', "t.ndjson, line 2: malformed JSON: "),
        ('{"a": 1, "a": 2}\n', "t.ndjson cannot be read: JSON transform error in line 1: Object"),
        ('{"a": 1, "A": 2}\n', "t.ndjson: columns without names, or equal but for case: 'A', 'A_1'"),
        ('{"": 1}\n', "t.ndjson"),
        ('{"a": 1}\n{"a": "x"}\n', "t.ndjson: 'a' holds values of several kinds, or none; give --dtype a=string"),
        ('{"a": [1, "x"]}\n', "t.ndjson: 'a' holds values of several kinds, or none; give --dtype a=string"),
        ('{"a": 1.5}\n{"a": 1e400}\n', "t.ndjson, row 1: column 'a' is DOUBLE, and this is '1e400'"),
        ('{"a": 1.5}\n{"a": 9007199254740993}\n', "t.ndjson, row 1: column 'a' is DOUBLE, and this is '9007"),
        ('{"a": {"x": [1e400]}}\n', "t.ndjson, row 0: column 'a' is STRUCT(x DOUBLE[]), and this is"),
        (b'{"a": "\xe4"}\n', "t.ndjson, value 1: malformed JSON: invalid UTF-8"),
    ],
)
def test_json_that_would_lose_something_is_refused(refused, content, said):
    assert refused(content, "t.ndjson").startswith(said)


@pytest.mark.parametrize(
    ("content", "dtype", "values"),
    [
        ('{"a": 1}\n{"a": "x"}\n', "string", ["1", "x"]),
        ('{"a": 1.5}\n{"a": 9007199254740993}\n', "string", ["1.5", "9007199254740993"]),
        ('{"a": "2024-01-31"}\n', "date32", [dt.date(2024, 1, 31)]),
        ('{"a": "1.10"}\n{"a": 2.5}\n', "decimal128(10, 2)", [decimal.Decimal("1.10"), decimal.Decimal("2.50")]),
        ('{"a": true}\n', "bool", [True]),
    ],
)
def test_json_becomes_what_was_asked_for(create, content, dtype, values):
    assert create(content, "t.ndjson", "--dtype", f"a={dtype}")["a"].to_pylist() == values


def test_digits_of_json_that_a_float_would_not_hold_are_refused(refused):
    said = refused('{"a": 0.12345678901234567890}\n', "t.ndjson", "--dtype", "a=decimal128(38, 20)")
    assert said.startswith("t.ndjson, row 0: column 'a' is a float, and this is '0.1234567890123456")


def test_types_hold_in_the_samples_of_all_files(create):
    found = create("a,b,c,d\n1,,12,x\n", "1.csv", u="a,b,c,d\n1.5,7,01067,\n")
    assert found.to_pydict() == {"a": [1.0, 1.5], "b": [None, 7], "c": ["12", "01067"], "d": ["x", None]}


def test_json_files_make_one_table(create):
    found = create('{"a": 1}\n', "1.ndjson", u='{"a": 1.5, "b": "x"}\n')
    assert found.to_pydict() == {"a": [1.0, 1.5], "b": [None, "x"]}


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("id,price\n", "u.csv has other columns than t.csv: 'price' added and 'preis' missing; make them alike first"),
        ("id,preis,x,y\n1,2,3,4\n", "u.csv has other columns than t.csv: 'x', 'y' added; make them alike first"),
        ("id\n1\n", "u.csv has other columns than t.csv: 'preis' missing; make them alike first"),
        ("preis,id\n1,2\n", "u.csv has other columns than t.csv: their order; make them alike first"),
        ("id;preis\n1;2\n", "u.csv has one column, 'id;preis'; give --separator ';'"),
        ("id,preis\n1,2\n3\n", "u.csv, line 3: Expected Number of Columns: 2 Found: 1: '3'"),
        ("id,preis\n" + "1,2\n" * LATE + "1,2.5\n", f"u.csv, row {LATE}: column 'preis' is BIGINT, and this is"),
    ],
)
def test_the_file_that_is_not_like_the_first_is_named(refused, second, said):
    assert refused("id,preis\n1,2\n", "t.csv", u=second).startswith(said)


def test_of_many_json_files_the_bad_one_is_named(refused):
    assert refused('{"a": 1}\n', "t.ndjson", u='{"a": \n').startswith("u.ndjson, value 1: malformed JSON: ")


def test_files_of_several_formats_are_refused(run, env, tmp_path, name):
    (tmp_path / "1.csv").write_text("a\n1\n")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "2.parquet")
    done = run("create", name, tmp_path / "1.csv", tmp_path / "2.parquet", **env)
    assert done.stderr == "Error: the files are of several formats, csv and parquet; make them alike first\n"


ZONED = pa.timestamp("ns", "Europe/Berlin")
TYPED = {
    "int8": pa.array([1, None, -128], pa.int8()),
    "uint64": pa.array([1, None, 2**64 - 1], pa.uint64()),
    "float32": pa.array([0.1, None, math.nan], pa.float32()),
    "half": pa.array([1.5, None, -0.0], pa.float32()).cast(pa.float16()),
    "bool": pa.array([True, None, False]),
    "text": pa.array(["x", None, ""]),
    "large_text": pa.array(["x", None, "ü"], pa.large_string()),
    "bytes": pa.array([b"\xff", None, b""]),
    "fixed": pa.array([b"abc", None, b"\0\0\0"], pa.binary(3)),
    "decimal": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal("-0.01")], pa.decimal128(38, 2)),
    "day": pa.array([DAY, None, dt.date(1, 1, 1)]),
    "day64": pa.array([DAY, None, DAY], pa.date64()),
    "second": pa.array([2**40, None, -(2**40)], pa.timestamp("s")),
    "zoned": pa.array([2**60 + 1, None, -1], ZONED),
    "time": pa.array([1, None, 86_399_999_999_999], pa.time64("ns")),
    "duration": pa.array([2**62 + 1, None, -1], pa.duration("ns")),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int16())),
    "fixed_list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "category": pa.array(["x", None, "y"]).dictionary_encode(),
    "uuid": pa.array([b"\1" * 16, None, b"\2" * 16], pa.uuid()),
}


def write_arrow_stream(table: pa.Table, path: str) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def write_arrow_file(table: pa.Table, path: str) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


WRITERS = {"parquet": pq.write_table, "arrow": write_arrow_file, "arrows": write_arrow_stream}


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_type_of_parquet_and_arrow_is_the_files(run, env, service, tmp_path, name, suffix):
    lacking = {"second", "day64"} if suffix == "parquet" else set()  # types that Parquet has not
    if suffix == "parquet" and pa.__version__.startswith("22."):  # which writes no fixed-size lists that may be null
        lacking.add("fixed_list")
    table = pa.table({name: array for name, array in TYPED.items() if name not in lacking})
    WRITERS[suffix](table, str(tmp_path / f"t.{suffix}"))
    done = run("create", name, tmp_path / f"t.{suffix}", **env)
    assert done.returncode == 0, done.stderr
    found = stored(service, name)
    coded = pa.dictionary(pa.int32(), pa.large_string())
    assert [
        one for one in zip(found.schema.types, table.schema.types, strict=True) if one[0] not in (one[1], coded)
    ] == []
    assert_same_values(found, table)


@pytest.mark.parametrize("suffix", WRITERS)
def test_maps_keep_equal_keys(run, env, service, tmp_path, name, suffix):
    table = pa.table(
        {"m": pa.array([[("k", 1), ("k", 2)], None, []], pa.map_(pa.string(), pa.int64())), "n": [1, 2, 3]}
    )
    WRITERS[suffix](table, str(tmp_path / f"t.{suffix}"))
    done = run("create", name, tmp_path / f"t.{suffix}", **env)
    assert done.returncode == 0, done.stderr
    assert stored(service, name).to_pylist() == table.to_pylist()


@pytest.mark.parametrize("suffix", WRITERS)
def test_two_columns_of_one_name_are_refused(run, env, tmp_path, name, suffix):
    WRITERS[suffix](pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), str(tmp_path / f"t.{suffix}"))
    done = run("create", name, tmp_path / f"t.{suffix}", **env)
    assert (done.returncode, done.stdout) == (1, "")
    assert "column names must be unique; these occur more than once: 'a'" in done.stderr
    assert name not in run("tables", **env).stdout.split()


@pytest.mark.parametrize("file", ["t.parquet", "t.arrow"])
@pytest.mark.parametrize("content", [b"", b"neither", b"PAR1\0\0\0\0PAR1", b"ARROW1\0\0\0\0ARROW1"])
def test_a_file_that_cannot_be_read_is_named(refused, file, content):
    assert refused(content, file).startswith(f"{file} cannot be read: ")


def test_of_many_parquet_files_the_bad_one_is_named(run, env, tmp_path, name):
    for number in range(3):
        frame = pl.DataFrame({"a": range(number, number + 1000)})
        frame.write_parquet(tmp_path / f"{number}.parquet", compression="uncompressed", statistics=False)
    damaged = bytearray((tmp_path / "1.parquet").read_bytes())
    damaged[4:200] = bytes(196)
    (tmp_path / "1.parquet").write_bytes(damaged)
    assert f"{tmp_path}/1.parquet cannot be read: " in run("create", name, tmp_path / "*.parquet", **env).stderr
    assert name not in run("tables", **env).stdout.split()


def test_names_that_a_table_cannot_have_are_cleaned_where_that_is_asked_for(create, refused):
    content = ",a.b,a.b,c\n1,2,3,4\n"
    assert "--clean-names" in refused(content)
    assert create(content, "t.csv", "--clean-names", "--rename", "c=d.e").to_pylist() == [
        {"_": 1, "a_b": 2, "a_b_2": 3, "d_e": 4}
    ]


@pytest.mark.parametrize(
    ("content", "options", "columns"),
    [
        ("id,c\n007,1\n", ["--rename", "id=code", "--dtype", "id=string"], {"code": ["007"], "c": [1]}),
        ("i.d,c\n007,1\n", ["--clean-names", "--dtype", "i.d=string"], {"i_d": ["007"], "c": [1]}),
        ("it's,c\n1,2\n", ["--rename", "it's=x"], {"x": [1], "c": [2]}),
    ],
)
def test_options_go_by_the_files_names_of_columns(create, content, options, columns):
    assert create(content, "t.csv", *options).to_pydict() == columns


def test_an_odd_name_is_said_as_it_is(refused):
    assert refused("it's\n" + "1\n" * LATE + "it's\n").endswith(
        """column "it's" is BIGINT, and this is 'it's'; give --dtype 'it'"'"'s=string'"""
    )


GERMAN = "tag;preis;am;plz\n1;2,50;31.12.2023;01067\n"


def test_create_prints_what_was_inferred_of_text(run, env, tmp_path, name):
    (tmp_path / "t.csv").write_text(GERMAN)
    command = ("create", name, tmp_path / "t.csv", "--decimal", ",")
    lines = run(*command, "--dry-run").stdout.splitlines()
    assert lines[0] == f"{name}: 4 columns, separator ';', dates as %d.%m.%Y"
    assert [line.split()[:2] for line in lines[4:]] == [
        ["tag", "int64"], ["preis", "double"], ["am", "date32[day]"], ["plz", "large_string"],
    ]  # fmt: skip
    created = run(*command, **env).stdout.splitlines()
    assert created[:-1] == lines
    assert created[-1].startswith(f"created {name}: 4 columns, 1 row")
    assert run(*command, "--if-exists", "skip", "-q", **env).stdout == ""


def test_dates_that_fit_either_way_round_are_warned_of(run, tmp_path):
    for dates, warned in (
        ("01/02/2024\n03/04/2024\n", True),
        ("01/02/2024\n01/13/2024\n", False),
        ("1.2.2024\n", False),
    ):
        (tmp_path / "t.csv").write_text(f"d\n{dates}")
        said = run("create", "t", tmp_path / "t.csv", "--dry-run", "--quiet").stderr
        assert ("%m/%d/%Y would fit as well; give --date-format" in said) == warned


def test_a_dry_run_sends_nothing_and_needs_no_service(run, tmp_path):
    (tmp_path / "t.csv").write_text(GERMAN)
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "t.parquet")
    url = "http://127.0.0.1:9"
    found = json.loads(run("create", "t", tmp_path / "t.csv", "--dry-run", "--json", "--url", url).stdout)
    assert [column["type"] for column in found["columns"]] == ["int64", "large_string", "date32[day]", "large_string"]
    assert "a       int64" in run("create", "t", tmp_path / "t.parquet", "--dry-run", "--url", url).stdout
    assert run("create", "t", tmp_path / "t.parquet", "--dry-run", "--url", tmp_path / "none").returncode == 0
    assert not (tmp_path / "none").exists()
    (tmp_path / "t.csv").write_text("a,b\n1\n")
    assert "t.csv, line 2: Expected" in run("create", "t", tmp_path / "t.csv", "--dry-run").stderr


@pytest.mark.parametrize("command", [["create", "t", "FILE", "--dry-run"], ["plan", "FILE", "FILE"], ["demo", "FILE"]])
def test_text_needs_the_extra_files_and_parquet_does_not(command, tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "t.parquet")
    code = "import sys; sys.modules['duckdb'] = None; from rt_frames.cli.main import main; main()"
    for file, returncode in (("t.csv", 1), ("t.parquet", 0)):
        words = [str(tmp_path / file) if word == "FILE" else word for word in command]
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert done.returncode == returncode, done.stderr
        if returncode:
            assert done.stderr.startswith("Error: duckdb must be installed for this: pip install ")
            assert '[files]"' in done.stderr


def test_plan_and_demo_take_the_options_that_say_how_files_are_read(run, tmp_path):
    (tmp_path / "t.txt").write_text("a;b\n1;2,5\n")
    options = ("--format", "csv", "--separator", ";", "--decimal", ",")
    assert "nothing to alter" in run("plan", tmp_path / "t.txt", tmp_path / "t.txt", *options).stdout
    done = run("demo", tmp_path / "t.txt", *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("every value read back with lance equals the frame's") == 2


@pytest.mark.long
def test_a_large_file_is_not_held(tmp_path):
    """Of 600 MB little is in memory at a time."""
    with (tmp_path / "t.csv").open("wb") as file:
        file.write(b"a,b,c\n")
        for _ in range(60):
            file.write(b"1,2.5,some text that is long enough to matter in the memory of a process\n" * 140_000)
    code = (
        "from pathlib import Path; from rt_frames.cli.files import open_files\n"
        "from tests.support.faults import resident\n"
        f"source, _ = open_files([Path({str(tmp_path / 't.csv')!r})])\n"
        "rows = sum(chunk.rows for chunk in source.chunks())\n"
        "print(rows, resident('VmHWM') // 2**20)"  # ru_maxrss would count the parent's, too
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rows, megabytes = map(int, done.stdout.split())
    assert rows == 60 * 140_000
    assert megabytes < 500


@pytest.mark.parametrize(
    ("content", "file", "options", "said"),
    [
        ('{"a":[0.5,9007199254740993]}\n', "t.ndjson", [], "t.ndjson, row 0: column 'a' is DOUBLE[], and this is"),
        ('{"a":{"x":0.5}}\n{"a":{"x":9007199254740993}}\n', "t.ndjson", [], "t.ndjson, row 1: column 'a' is STRUCT"),
        ('[{"a":1},\n{"a":}]', "t.json", [], "t.json, value 2: malformed JSON: unexpected character"),
        (
            b'{"a":"\xff"}\n',
            "t.ndjson",
            [],
            "t.ndjson, value 1: malformed JSON: invalid UTF-8 encoding in string; give --en",
        ),
        ("a\n2024-07-01T10:00:00+02:00\n", "t.csv", ["--dtype", "a=timestamp[us]"], "column 'a', row 0 of t.csv: "),
        ("k, v\n" + "1,2\n" * LATE + "1,0xFF\n", "t.csv", [], f"t.csv, row {LATE}: column ' v' is BIGINT"),
        ("a,b\n1,2\r\n3,4\n", "t.csv", [], "t.csv: some lines end in CR LF and some in LF, or CR; make them alike"),
        ("a\n1\n", "t.csv", ["--decimal", "x"], "--decimal: expected . or , and not the separator, got 'x'"),
        ("a\n1\n", "t.csv", ["--decimal", ",", "--separator", ","], "--decimal: expected . or , and not the separator"),
        ('{"a":"NA"}\n', "t.ndjson", ["--null", "NA"], "--null: only CSV has it, and this is ndjson; leave it out"),
        ('{"a":1}\n', "t.ndjson", ["--no-header"], "--no-header: only CSV has it, and this is ndjson; leave it out"),
    ],
)
def test_what_would_become_another_value_is_refused_where_it_stands(refused, content, file, options, said):
    assert refused(content, file, *options).startswith(said)


def test_a_type_that_is_offered_can_be_typed(refused, create):
    content = "k,it's odd\n" + "1,2\n" * LATE + "1,0xFF\n"
    assert refused(content).rstrip().endswith("give --dtype 'it'\"'\"'s odd=string'")
    assert create(content, "t.csv", "--dtype", "it's odd=string")["it's odd"][-1].as_py() == "0xFF"


def test_floats_inside_json_stay_what_they_are(create):
    rows = [[0.5, 1e15, -2.0, 123456789012345.0, 1e-7], []]
    assert create("".join(json.dumps({"a": row}) + "\n" for row in rows), "t.ndjson")["a"].to_pylist() == rows
