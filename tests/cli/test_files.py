"""Files that the CLI reads: each cell is as it stands in the file, or is refused."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import subprocess
import sys
import threading
import uuid
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rt_frames as rt
from tests.support.compare import assert_same_values, lance, stored
from tests.support.hosted import Hosted, Table, serving
from tests.support.processes import python
from tests.support.servers import KEY

LATE = 25_000  # rows; more than types are inferred from
DAY, AT = dt.date(2023, 12, 31), dt.datetime(2023, 12, 31, 10, 5)


@pytest.fixture
def send(run, env, tmp_path, name):
    """Write bytes to files, and make a table of them with some options."""

    def send(
        content: bytes | str, file: str = "t.csv", *options: object, **more: str
    ) -> subprocess.CompletedProcess:
        files = {
            file: content,
            **{f"{key}.{file.partition('.')[2]}": value for key, value in more.items()},
        }
        for key, value in files.items():
            (tmp_path / key).write_bytes(
                value if isinstance(value, bytes) else value.encode()
            )
        return run("create", name, *(tmp_path / key for key in files), *options, **env)

    return send


@pytest.fixture
def create(send, service, name):
    """Make a table of files, and read it back."""

    def create(*given: object, **more: str) -> pa.Table:
        done = send(*given, **more)
        assert (done.returncode, done.stderr) == (0, "")
        return stored(service, name)

    return create


@pytest.fixture
def url(tmp_path):
    return ("--url", tmp_path / "tables")


@pytest.fixture
def refused(send, run, env, tmp_path, name):
    """See that files are refused; give what is said, without the folder's name."""

    def refused(*given: object, **more: str) -> str:
        done = send(*given, **more)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) <= 3
        assert not any(
            word in done.stderr
            for word in (
                "read_csv",
                "strict_mode",
                "sample_size",
                "Traceback",
                "=true",
                "VARCHAR",
                "BIGINT",
            )
        )
        assert name not in run("tables", **env).stdout.split()
        return done.stderr.removeprefix("Error: ").replace(f"{tmp_path}/", "").strip()

    return refused


CELLS = {  # of columns, and what becomes of them
    "whole": (["1", "-2", ""], [1, -2, None]),
    "WHOLE": (["0", "-7", "9223372036854775807"], [0, -7, 2**63 - 1]),
    "real": (["1.5", "-1e3", "1E10"], [1.5, -1000.0, 1e10]),
    "mixed": (["1", "-0", "9007199254740992"], [1.0, -0.0, 2.0**53]),
    "truth": (["true", "FALSE", "True"], [True, False, True]),
    "day": (["2023-12-31", "", "2023-12-31"], [DAY, None, DAY]),
    "at": (
        ["2023-12-31 10:05", "2023-12-31T10:05:00.5", ""],
        [AT, AT.replace(microsecond=500_000), None],
    ),
    "zoned": (
        ["2023-12-31 11:05:00+01:00", "2023-12-31T10:05:00Z", ""],
        [AT.replace(tzinfo=dt.UTC)] * 2 + [None],
    ),
    "time": (
        ["10:00", "23:59:59.25", ""],
        [dt.time(10), dt.time(23, 59, 59, 250_000), None],
    ),
    "none": (["", "", ""], [None, None, None]),
    "empty": (['""', "", "x"], ["", None, "x"]),
    "lines": (['"x\ny"', '"p\r\nq"', ""], ["x\ny", "p\r\nq", None]),
    "quotes": (['"x,;""y"""', '5" pipe', ""], ['x,;"y"', '5" pipe', None]),
    "backslashes": (['"C:\\"', "C:\\new", ""], ["C:\\", "C:\\new", None]),
    "zero": (["x\0y", "", ""], ["x\0y", None, None]),
    "größe": (["ü", "", "é"], ["ü", None, "é"]),
}
TEXTS = [  # columns that stay text, as each has a cell that no type holds as it is written
    *(
        ["12345678901234567890", "-1"],
        ["01067", "10115"],
        ["+4930", "12"],
        ["1_000", "2"],
        [" 1", "2"],
        ["0xFF", "1"],
    ),
    *(
        ["1.5", ".5"],
        ["1.", "1.5"],
        ["1.5", "inf"],
        ["nan", "1.5"],
        ["1e400", "1"],
        ["1e-400", "1"],
    ),
    *(
        ["9007199254740993", "1.5"],
        ["true", "yes"],
        ["T", "F"],
        ["y", "n"],
        ["1", "true"],
        ["NA", "1"],
        ["NULL", "x"],
    ),
    *(
        ["12/31/2023", "31.12.2023"],
        ["2023-12-31", "2023-12-31 10:00"],
        ["2023-1-31", "2023-12-31"],
        ["2023-02-30"],
    ),
    *(
        ["2023-12-31 10:05:00.1234567"],
        ["2023-12-31 24:00"],
        ["2023-12-31 10:00", "2023-12-31 10:00Z"],
        ["24:00"],
    ),
    *(
        ["9:30", "10:00"],
        ["10:00+02:00"],
        ["#1", "# c"],
        [" x ", "y "],
        ["20240131", "2024-01-31"],
    ),
]


@pytest.mark.parametrize(
    ("separator", "newline", "encoding"),
    [
        (",", "\n", None),
        (";", "\r\n", "utf-8-sig"),
        ("|", "\n", "cp1252"),
        ("\t", "\r\n", "utf-16"),
    ],
)
def test_each_cell_of_csv_is_as_it_stands_in_the_file(
    create, separator, newline, encoding
):
    lines = [
        separator.join(line)
        for line in (CELLS, *zip(*(cells for cells, _ in CELLS.values()), strict=True))
    ]
    content = "".join(line + newline for line in lines).encode(encoding or "utf-8")
    options = [] if encoding in (None, "utf-8-sig") else ["--encoding", encoding]
    found = create(content, "t.csv", "--separator", separator, *options)
    assert found.to_pydict() == {name: values for name, (_, values) in CELLS.items()}
    like = pl.DataFrame(
        {
            "whole": [1],
            "real": [1.5],
            "day": [DAY],
            "at": [AT],
            "empty": ["NA"],
            "none": ["x"],
        }
    )
    assert found.select(like.columns).schema == pa.schema(like.remote.schema)


def test_a_cell_that_no_type_holds_as_it_is_written_makes_its_column_text(create):
    rows = [[cells[row % len(cells)] for cells in TEXTS] for row in range(2)]
    content = "".join(
        ",".join(row) + "\n"
        for row in [[f"c{number}" for number in range(len(TEXTS))], *rows]
    )
    assert [list(row.values()) for row in create(content).to_pylist()] == rows


@pytest.mark.parametrize(
    ("content", "options", "columns"),
    [
        ("a^b\n1^x\n", ["--separator", "^"], {"a": [1], "b": ["x"]}),
        (
            "tag;preis\n1;2,50\n2;-3\n",
            ["--separator", ";"],
            {"tag": [1, 2], "preis": ["2,50", "-3"]},
        ),
        (
            "tag;preis\n1;2,50\n2;-3\n",
            ["--separator", ";", "--decimal", ","],
            {"tag": [1, 2], "preis": [2.5, -3.0]},
        ),
        (
            "preis;n\n1.234,50;1\n",
            ["--separator", ";", "--decimal", ","],
            {"preis": ["1.234,50"], "n": [1]},
        ),
        (
            "d,e\n31.12.2023,2023-12-31\n31.12.2023,\n",
            ["--date-format", "%d.%m.%Y"],
            {"d": [DAY, DAY], "e": ["2023-12-31", None]},
        ),
        (
            "d,e\n01/02/2024,13/13/2024\n",
            ["--date-format", "%m/%d/%Y"],
            {"d": [dt.date(2024, 1, 2)], "e": ["13/13/2024"]},
        ),
        ("d\n1/2/2024\n", ["--date-format", "%d/%m/%Y"], {"d": [dt.date(2024, 2, 1)]}),
        (
            "d\n2024-31-01\n",
            ["--date-format", "%Y-%d-%m"],
            {"d": [dt.date(2024, 1, 31)]},
        ),
        ("d\n2024-01-31\n", ["--date-format", "%Y-%d-%m"], {"d": ["2024-01-31"]}),
        (
            "at,on\n31 Dec 2023 10:05 AM,2023-12-31\n",
            ["--date-format", "%d %b %Y %I:%M %p"],
            {"at": [AT], "on": [DAY]},
        ),
        (
            "at\n20231231 1205 +0200\n",
            ["--date-format", "%Y%m%d %H%M %z"],
            {"at": [AT.replace(tzinfo=dt.UTC)]},
        ),
        ('"a\n1",b\n1,2\n', ["--rename", "a\n1=a"], {"a": [1], "b": [2]}),
        ('a,b\n1,""\n"",x\n', ["--null", ""], {"a": [1, None], "b": [None, "x"]}),
        (
            'a,b\n1,NA\nNA,"NA"\n-,""\n',
            ["--null", "NA", "--null", "-"],
            {"a": [1, None, None], "b": [None, None, ""]},
        ),
        ("1,2\n3,4\n", ["--no-header"], {"column0": [1, 3], "column1": [2, 4]}),
        ("a,b\n1,x\n\n2,y\n\n\n3,", [], {"a": [1, 2, 3], "b": ["x", "y", None]}),
        ("a,b", [], {"a": [], "b": []}),
        # an empty line is a cell where there is one column
        ("a\n1\n\n2\n", [], {"a": [1, None, 2]}),
        # spaces around quotes are none of the cell's
        ('a,b\n1, "x,y" \n', [], {"a": [1], "b": ["x,y"]}),
        ("name\nx y\n", [], {"name": ["x y"]}),
    ],
)
def test_what_a_csv_does_not_say_of_itself_can_be_said(
    create, content, options, columns
):
    assert create(content, "t.csv", *options).to_pydict() == columns


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "t.csv, line 1: there are no columns"),
        ("\na,b\n1,2\n", "t.csv, line 1: there are no columns"),
        (
            "Report of 2024\n\na,b\n1,2\n",
            "t.csv, line 3: Expected Number of Columns: 1 Found: 2: 'a,b'",
        ),
        ("a,b\n1\n2,3\n", "t.csv, line 2: Expected Number of Columns: 2 Found: 1: '1'"),
        (
            "a,b\n1,2,\n1,2,3\n",
            "t.csv, line 3: Expected Number of Columns: 2 Found: 3: '1,2,3'",
        ),
        ('"a"b,c\n1,2\n', "t.csv, line 1: ',' expected after"),
        ('a,b\n1,"x\n2,y\n', "t.csv, line 2: Value with unterminated quote found: "),
        ('a,b\n1,"x"y\n', "t.csv, line 2: Value with unterminated quote found: "),
        (
            'a,b\n1,"x\\"y"\n2,"C:\\new"\n',
            "t.csv, line 2: Value with unterminated quote found: ",
        ),
        (
            "a,b\n" + "1,x\n" * LATE + "1\n",
            f"t.csv, line {LATE + 2}: Expected Number of Columns: 2 Found: 1: '1'",
        ),
        (
            "a,b\n" + "1,x\n" * LATE + '1,"x\n' + "2,y\n" * 200_000,
            f"t.csv, line {LATE + 2}: Value with unterminated",
        ),
        (
            "a,b\n1,2\r\n3,4\n",
            "t.csv: the lines end in a mix of CR LF, LF or CR; convert them to one kind",
        ),
        ("a;b\n1;2\n3\n", "t.csv has one column, 'a;b'; pass --separator ';'"),
        (
            b"a,b\n1,x\n2,\xe4\n",
            "t.csv, line 3: Invalid unicode (byte sequence mismatch) detected: ",
        ),
        (
            "a,b\n1,x\n".encode("utf-16"),
            "t.csv, line 1: not UTF-8; pass --encoding, such as cp1252 or utf-16",
        ),
        ("a,a\n1,2\n", "column names occur more than once: 'a'"),
        ("a,b,\n1,2,\n", "column number 3 has an empty name"),
    ],
)
def test_a_broken_csv_is_refused_by_its_line(refused, content, said):
    assert refused(content).startswith(said)


GERMAN = ("--decimal", ",", "--date-format", "%d.%m.%Y")


@pytest.mark.parametrize(
    ("early", "late", "words", "options"),
    [
        *(
            ("1", late, "whole numbers", ())
            for late in ("1.7", "01067", "-0", "0xFF", "1_000", " 5", "NA", "9" * 19)
        ),
        *(
            ("1.5", late, "numbers", ())
            for late in ("1e400", "9007199254740993", "01067", "nan", ".5", "1e-400")
        ),
        ("1,5", "1.234", "numbers", GERMAN),
        *(("true", late, "true and false", ()) for late in ("t", "1", "yes")),
        *(
            ("2024-01-01", late, "dates", ())
            for late in ("2024-01-01 10:00", "24-01-01", "2024-02-30", "1.1.2024")
        ),
        *(
            ("31.12.2023", late, "dates", GERMAN)
            for late in ("31.12.23", "2023-12-31", "31.02.2023", "31.12.2023 1")
        ),
        *(
            ("2024-01-01 10:00:00", f"2024-01-01{late}", "timestamps", ())
            for late in ("", " 10:00:00+02:00", " 10:00:00.1234567", " 25:00:00")
        ),
        (
            "2024-01-01T10:00:00Z",
            "2024-01-01 10:00:00",
            "timestamps with an offset",
            (),
        ),
        *(
            ("10:00:00", late, "times", ())
            for late in ("24:00:00", "10:00:00+02:00", "1000")
        ),
    ],
)
def test_a_late_cell_that_a_cast_would_change_is_refused_by_row(
    refused, early, late, words, options
):
    said = f"row {LATE}: column 'a' holds {words}, but this cell is '{late}'; pass --dtype a=string"
    content = f"b;a\n{f'0;{early}{chr(10)}' * LATE}1;{late}\n"
    assert refused(content, "t.csv", "--separator", ";", *options) == f"t.csv, {said}"


@pytest.mark.parametrize(
    "options",
    [
        *(
            ["--date-format", form]
            for form in ("yyyy-mm-dd", "%d/%m/%y", "%d.%m.", "%Y-%m-%d %I:%M", "%Q", "")
        ),
        *(
            ["--decimal", "x"],
            ["--decimal", ","],
            ["--dtype", "a=nothing"],
            ["--separator", ";;"],
            ["--encoding", "no"],
            ["--encoding", "base64"],
        ),
    ],
)
def test_wrong_usage_is_refused_before_a_file_is_read(run, tmp_path, options):
    (tmp_path / "t.csv").write_bytes(b"\xff" if "," not in options else b"a,b\n1,2\n")
    done = run("create", "t", tmp_path / "t.csv", *options, "--dry-run")
    assert done.returncode == 2
    assert (
        f"Error: {options[0]}: " in done.stderr
        or f"Invalid value for '{options[0]}'" in done.stderr
    )


@pytest.mark.parametrize(
    ("content", "dtypes", "options", "values"),
    [
        (
            "a,b,c,d,e\n007,1.10,9007199254740992,true,true\n",
            ["int32", "decimal128(10, 2)", "float64", "string", "bool"],
            [],
            [7, Decimal("1.10"), 2.0**53, "true", True],
        ),
        (
            "a,b,c,d\n31.12.2023,31.12.2023,31.12.2023,2023-12-31 10:05:00.123456789\n",
            ["date32", "timestamp[ms]", "string", "string"],
            ["--date-format", "%d.%m.%Y"],
            [
                DAY,
                dt.datetime(2023, 12, 31),
                "31.12.2023",
                "2023-12-31 10:05:00.123456789",
            ],
        ),
        (
            "a;b;c\n1,10;1,5;1,5\n",
            ["decimal128(10, 2)", "float32", "string"],
            ["--decimal", ",", "--separator", ";"],
            [Decimal("1.10"), 1.5, "1,5"],
        ),
    ],
)
def test_a_type_that_is_asked_for_is_cast_exactly(
    create, content, dtypes, options, values
):
    asked = [
        part
        for name, dtype in zip("abcde", dtypes, strict=False)
        for part in ("--dtype", f"{name}={dtype}")
    ]
    assert (
        list(create(content, "t.csv", *asked, *options).to_pylist()[0].values())
        == values
    )


@pytest.mark.parametrize(
    ("cells", "dtype", "row", "options"),
    [
        (["1", "1.7"], "int64", 1, []),
        (["20240102"], "date32", 0, []),
        (["1e400"], "float64", 0, []),
        (["yes"], "bool", 0, []),
        (["1.234"], "decimal128(10, 3)", 0, ["--decimal", ",", "--separator", ";"]),
        (["31.12.2023", "12/31/2023"], "date32", 1, ["--date-format", "%d.%m.%Y"]),
        (["2024-07-01T10:00:00+02:00"], "timestamp[us]", 0, []),
    ],
)
def test_a_cell_that_is_not_of_the_type_that_is_asked_for_is_refused_by_row(
    refused, cells, dtype, row, options
):
    said = refused("\n".join(["a", *cells]), "t.csv", "--dtype", f"a={dtype}", *options)
    assert said.startswith(f"t.csv, row {row}: column 'a' is to be ")


def test_the_type_that_is_offered_if_a_cell_is_refused_can_be_typed(refused, create):
    content = "k,it's odd\n" + "1,2\n" * LATE + "1,0xFF\n"
    assert refused(content).endswith("pass --dtype 'it'\"'\"'s odd=string'")
    assert (
        create(content, "t.csv", "--dtype", "it's odd=string")["it's odd"][-1].as_py()
        == "0xFF"
    )


APPENDED = pa.table(
    {
        "i": pa.array([1], pa.int16()),
        "x": pa.array([0.5], pa.float32()),
        "dec": pa.array([Decimal("1.10")], pa.decimal128(9, 2)),
        "ok": pa.array([True]),
        "d": pa.array([DAY]),
        "t": pa.array([dt.time(1)], pa.time64("ns")),
        "at": pa.array([AT], pa.timestamp("ms")),
        "utc": pa.array([AT], pa.timestamp("us", "UTC")),
        "zoned": pa.array([AT], pa.timestamp("us", "Europe/Berlin")),
        "cat": pa.array(["x"]).dictionary_encode(),
        "id": pa.array([bytes(16)], pa.uuid()),
        "raw": pa.array([b"x"], pa.large_binary()),
        "s": pa.array(["x"], pa.string()),
    }
)


@pytest.fixture
def append(run, url, tmp_path):
    """Append text to a table of many types on a folder."""
    with rt.connect(url[1], default=False) as client:
        client.create_table("t", APPENDED)

    def append(
        content: str, *options: str, file: str = "t.csv"
    ) -> subprocess.CompletedProcess:
        (tmp_path / file).write_text(content)
        return run(
            "create", "t", tmp_path / file, "--if-exists", "append", *options, *url
        )

    return append


@pytest.mark.parametrize("order", [list, sorted])
def test_an_append_takes_the_types_of_the_table(append, url, order):
    cells = {
        "i": ("-7", -7),
        "x": ("2", 2.0),
        "dec": ("3", Decimal("3.00")),
        "ok": ("false", False),
        "d": ("2023-12-31", DAY),
        "t": ("10:00:00.5", dt.time(10, 0, 0, 500_000)),
        "at": ("2023-12-31", dt.datetime(2023, 12, 31)),
        "utc": ("2023-12-31 10:05", AT.replace(tzinfo=dt.UTC)),
        "zoned": ("2023-12-31 10:05Z", AT.replace(tzinfo=dt.UTC)),
        "cat": ("12", "12"),
        "s": ("01067", "01067"),
        "raw": ("1", b"1"),
        "id": (str(uuid.UUID(int=5)), uuid.UUID(int=5)),
    }
    names = order(cells)
    done = append(
        f"{','.join(names)}\n{','.join(cells[name][0] for name in names)}\n{',' * (len(names) - 1)}\n"
    )
    assert (done.stderr, done.returncode) == ("", 0)
    found = lance.dataset(str(url[1] / "t.lance")).to_table()
    added, empty = found.to_pylist()[1:]
    assert {name: added[name] for name in cells} == {
        name: value for name, (_, value) in cells.items()
    }
    assert not any(value is not None for value in empty.values())


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        *(("i", cell) for cell in ("40000", "01067", "1.5", "0x1", "x")),
        *(("x", cell) for cell in ("16777217", "1e39", "nan")),
        *(
            ("dec", "1.555"),
            ("ok", "1"),
            ("ok", "yes"),
            ("d", "31.12.2023"),
            ("d", "2023-12-31 00:00"),
            ("t", "24:00"),
        ),
        *(
            ("at", "2023-12-31 10:00Z"),
            ("at", "2023-12-31 10:00:00.0001"),
            ("zoned", "2023-12-31 10:00"),
            ("id", "x"),
        ),
    ],
)
def test_an_appended_cell_that_the_table_cannot_hold_is_refused_by_row(
    append, url, column, cell
):
    done = append(f"{column}\n{cell}\n")
    assert done.returncode == 1
    assert f"t.csv, row 0: column '{column}' is " in done.stderr
    assert f" in the table, but this cell is '{cell}'; correct it" in done.stderr
    assert lance.dataset(str(url[1] / "t.lance")).count_rows() == 1


def test_an_append_is_refused_if_the_table_has_other_columns(
    append, url, run, tmp_path
):
    for dry in ([], ["--dry-run"]):
        assert "the table has no column 'j' (" in append("i,j\n1,2\n", *dry).stderr
    done = append(
        "i,d\n1,31/12/2023\n", "--dry-run", "--date-format", "%d/%m/%Y", "--json"
    )
    kinds = {
        column["name"]: column["type"] for column in json.loads(done.stdout)["columns"]
    }
    assert kinds == {"i": "int16", "d": "date32[day]"}
    assert append("i,d\n1,31/12/2023\n", "--date-format", "%d/%m/%Y").returncode == 0
    done = append(
        '{"i": 2, "d": "2023-12-31", "dec": 1.5, "at": "2023-12-31 10:05"}',
        file="t.ndjson",
    )
    assert (done.stderr, done.returncode) == ("", 0)
    pl.DataFrame({"l": [[1]]}).write_parquet(tmp_path / "l.parquet")
    assert (
        run(
            "create", "l", tmp_path / "l.parquet", "--if-exists", "append", *url
        ).returncode
        == 0
    )
    (tmp_path / "l.csv").write_text("l\n[1]\n")
    done = run("create", "l", tmp_path / "l.csv", "--if-exists", "append", *url)
    assert "column 'l' is large_list<" in done.stderr
    assert done.stderr.endswith(
        "in the table, which CSV cannot hold; use Parquet or NDJSON\n"
    )


@pytest.mark.parametrize(
    ("file", "content", "options"),
    [
        ("t.tsv", b"a\tb\n1\tx\n", []),
        (
            "t.csv.gz",
            gzip.compress(b"a,b\n", mtime=0) + gzip.compress(b"1,x\n", mtime=0),
            [],
        ),
        ("t.csv.zst", pa.compress(b"a,b\n1,x\n", "zstd", asbytes=True), []),
        (
            "t.csv.gz",
            gzip.compress("a,b\n1,x\n".encode("utf-16"), mtime=0),
            ["--encoding", "utf-16"],
        ),
        ("t.txt", b"a\tb\n1\tx\n", ["--format", "csv", "--separator", r"\t"]),
        ("t.ndjson.gz", gzip.compress(b'{"a": 1, "b": "x"}\n', mtime=0), []),
        ("t.jsonl", '{"a": 1, "b": "x"}\n'.encode("utf-16"), ["--encoding", "utf-16"]),
        ("t.json", b'[{"a": 1, "b": "x"}]', []),
        ("t", b'{"a": 1,\n "b": "x"}', ["--format", "json"]),
    ],
    ids=str,
)
def test_files_of_many_names_hold_the_same_table(create, file, content, options):
    assert create(content, file, *options).to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-20], lambda packed: packed[:-8] + bytes(8)]
)
def test_a_compressed_file_that_is_damaged_is_refused(refused, damage):
    packed = gzip.compress(
        "".join(["a,b\n", *(f"{n},x{n * n}\n" for n in range(9000))]).encode(), mtime=0
    )
    assert refused(damage(packed), "t.csv.gz").startswith("t.csv.gz cannot be read: ")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_name_that_reads_like_a_pattern_is_the_file_of_that_name(
    run, env, tmp_path, service, name, suffix
):
    for file, word in ((f"day [1].{suffix}", "right"), (f"day 1.{suffix}", "wrong")):
        frame = pl.DataFrame({"a": [word]})
        (frame.write_csv if suffix == "csv" else frame.write_parquet)(tmp_path / file)
    assert run("create", name, tmp_path / f"day [1].{suffix}", **env).returncode == 0
    assert stored(service, name)["a"].to_pylist() == ["right"]


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_standard_input_is_read_whole(run, env, service, name, form, tmp_path):
    frame = pl.DataFrame({"a": range(60_000)}).with_columns(b=pl.format("{} ü", "a"))
    getattr(frame, f"write_{form}")(tmp_path / "t")
    done = run(
        "create",
        name,
        "-",
        "--format",
        form,
        stdin=(tmp_path / "t").read_bytes(),
        **env,
    )
    assert done.returncode == 0, done.stderr
    assert pl.DataFrame(stored(service, name)).equals(frame)


def test_a_named_pipe_is_read_whole_and_its_copy_is_removed(
    env, service, name, tmp_path
):
    os.mkfifo(tmp_path / "pipe.csv")
    text = "a,b\n" + "1,ü\n" * 60_000
    writer = threading.Thread(
        target=(tmp_path / "pipe.csv").write_bytes, args=[text.encode("cp1252")]
    )
    writer.start()
    (tmp_path / "scratch").mkdir()
    words = ("create", name, tmp_path / "pipe.csv", "--encoding", "cp1252")
    scratch = {"TMPDIR": str(tmp_path / "scratch")}
    with python("-m", "rt_frames.cli", *words, env=os.environ | env | scratch) as done:
        _, error = done.communicate()
    writer.join()
    assert done.returncode == 0, error
    assert stored(service, name)["b"].to_pylist() == ["ü"] * 60_000
    assert list((tmp_path / "scratch").iterdir()) == []


def test_each_value_of_json_is_as_it_stands_in_the_file(create):
    row = {
        "whole": 9007199254740993,
        "real": 1.5,
        "mixed": 2.0,
        "truth": True,
        "none": None,
        "day": "2024-01-31",
        "uuid": "123E4567-e89b-12d3-a456-426614174000",
        "zeros": "01067",
        "odd": 'x\0\n"y ü',
        'say "x"': 1,
        "in": {"d": "2024-01-31", "b": [1, None], "a": True},
        "floats": [0.5, 1e15, -2.0, 123456789012345.0, 1e-7],
    }
    line = json.dumps(row)
    content = (
        "\ufeff"
        + (line.replace("2.0", "2", 1) + "\r\n") * LATE
        + '{"late": true}\n\n{"mixed": 2.5, "none": 1}\n'
    )
    nothing = {**dict.fromkeys(row), "late": None}
    assert create(content, "t.ndjson").slice(LATE - 1).to_pylist() == [
        {**row, "late": None},
        {**nothing, "late": True},
        {**nothing, "mixed": 2.5, "none": 1},
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "t.ndjson: there are no columns"),
        ('{"a": 1}\n[1]\n', "t.ndjson, row 1: "),
        ('{"a": 1}\nnull\n', "t.ndjson, row 1: not an object"),
        (
            '{"a": 1}\n' * LATE + '{"a": \n',
            f"t.ndjson, line {LATE + 1}: malformed JSON: Expecting value",
        ),
        ('[{"a":1},\n{"a":2}]', "t.ndjson, line 1: malformed JSON: "),
        ('{"a": 1} {"a": 2}\n', "t.ndjson, line 1: malformed JSON: Extra data"),
        ('{"a": 1, "a": 2}\n', "t.ndjson, line 1: key 'a' occurs twice in an object"),
        ('{"": 1}\n', "column number 1 has an empty name"),
        ('{"a": [1, "x"]}\n', "t.ndjson, row 0: Could not convert 'x' with type str"),
        ('{"a": 1}\n' * LATE + '{"a": true}\n', "t.ndjson, row 25000: "),
        ('{"a": 1}\n' * LATE + '{"a": "1"}\n' * 5000, "t.ndjson, row 25000: "),
        # at the end of a batch
        ('{"a": 1}\n' * 12_288 + '{"a": true}\n' * 9, "t.ndjson, row 12288: "),
        (
            '{"a": 1.5}\n{"a": true}\n',
            "t.ndjson, row 1: true and false are not numbers",
        ),
        ('{"a": 1.5}\n' * LATE + '{"a": true}\n', "t.ndjson, row 25000: "),
        (
            '{"a": [{"y": 1.5, "x": [0.5]}, {"x": [false]}]}\n',
            "t.ndjson, row 0: true and false are not numbers",
        ),
        ('{"a": "\\ud800"}\n', "t.ndjson, row 0: "),
        (
            '{"a": 1e-400}\n',
            "t.ndjson, line 1: 1e-400 does not fit into a 64-bit float",
        ),
        (
            '{"a": 18446744073709551616}\n',
            "t.ndjson, row 0: an integer does not fit into int64; write it as text",
        ),
        (
            '{"a": 1.5}\n{"a": 1e400}\n',
            "t.ndjson, line 2: 1e400 does not fit into a 64-bit float",
        ),
        (
            '{"a": 1.5}\n{"a": 9007199254740993}\n',
            "t.ndjson, row 1: Integer value 9007199254740993 is outside",
        ),
        ('{"a": 9007199254740993}\n' * LATE + '{"a": 1.5}\n', "t.ndjson, row "),
        (
            '{"a":{"x":[0.5,9007199254740993]}}\n',
            "t.ndjson, row 0: Integer value 9007199254740993",
        ),
        ("[" * 100_000, "t.ndjson, line 1: "),
        (b'{"a": "\xe4"}\n', "t.ndjson, line 1: not UTF-8; pass --encoding"),
    ],
)
def test_json_that_would_lose_something_is_refused(refused, content, said):
    assert refused(content, "t.ndjson").startswith(said)


def test_a_file_of_json_that_has_an_object_in_each_line_is_told_so(refused):
    assert refused('{"a": 1}\n{"a": 2}\n', "t.json").endswith(
        "if each line holds an object, pass --format ndjson"
    )


def test_json_becomes_what_was_asked_for(create):
    dtypes = {"a": "string", "c": "date32", "d": "decimal128(10, 2)", "e": "bool"}
    options = [
        part
        for name, dtype in dtypes.items()
        for part in ("--dtype", f"{name}={dtype}")
    ]
    content = '{"a": 1, "c": "2024-01-31", "d": 1.1, "e": true}\n{"a": 2, "c": null, "d": 2.5, "e": null}\n'
    assert create(content, "t.ndjson", *options).to_pydict() == {
        "a": ["1", "2"],
        "c": [dt.date(2024, 1, 31), None],
        "d": [Decimal("1.10"), Decimal("2.50")],
        "e": [True, None],
    }


def test_an_integer_of_json_beyond_int64_is_written_as_text(create):
    content = '{"n": "18446744073709551615"}\n'
    found = create(content, "t.ndjson", "--dtype", "n=uint64")
    assert found.equals(pa.table({"n": pa.array([2**64 - 1], pa.uint64())}))


@pytest.mark.parametrize(
    ("first", "file", "second", "columns"),
    [
        (
            "a,b,c,d\n1,,12,x\n",
            "t.csv",
            "a,b,c,d\n1.5,7,01067,\n",
            {"a": [1.0, 1.5], "b": [None, 7], "c": ["12", "01067"], "d": ["x", None]},
        ),
        ("a,b\n1,x\n", "t.csv", "b,a\n01,2.5\n", {"a": [1.0, 2.5], "b": ["x", "01"]}),
        (
            '{"a": 1}\n',
            "t.ndjson",
            '{"b": "x", "a": 1.5}\n',
            {"a": [1.0, 1.5], "b": [None, "x"]},
        ),
    ],
)
def test_types_are_inferred_from_all_files(create, first, file, second, columns):
    assert create(first, file, u=second).to_pydict() == columns


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            "id,price\n",
            "u.csv has other columns than t.csv (extra: 'price'; missing: 'preis'); give all files the same columns",
        ),
        (
            "id,preis\n1,2\n3\n",
            "u.csv, line 3: Expected Number of Columns: 2 Found: 1: '3'",
        ),
        (
            "id,preis\n" + "1,2\n" * LATE + "1,2.5\n",
            f"u.csv, row {LATE}: column 'preis' holds whole numbers, but this cell is",
        ),
    ],
)
def test_the_file_that_is_not_like_the_first_is_named(refused, second, said):
    assert refused("id,preis\n1,2\n", "t.csv", u=second).startswith(said)


def test_of_many_files_the_one_that_cannot_be_read_is_named(
    run, env, refused, tmp_path, name
):
    assert refused('{"a": 1}\n', "t.ndjson", u='{"a": \n').startswith(
        "u.ndjson, line 1: malformed JSON: "
    )
    for number in range(3):
        frame = pl.DataFrame({"a": range(number, number + 1000)})
        frame.write_parquet(
            tmp_path / f"{number}.parquet", compression="uncompressed", statistics=False
        )
    damaged = bytearray((tmp_path / "1.parquet").read_bytes())
    damaged[4:200] = bytes(196)
    (tmp_path / "1.parquet").write_bytes(damaged)
    assert (
        f"{tmp_path}/1.parquet cannot be read: "
        in run("create", name, tmp_path / "*.parquet", **env).stderr
    )
    assert name not in run("tables", **env).stdout.split()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("t.parquet", b""),
        ("t.parquet", b"PAR1\0\0\0\0PAR1"),
        ("t.arrow", b"no"),
        ("t.arrow", b"ARROW1\0\0\0\0ARROW1"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(refused, file, content):
    assert refused(content, file).startswith(f"{file} cannot be read: ")


TYPED = {
    "int8": pa.array([1, None, -128], pa.int8()),
    "text": pa.array(["x", None, ""]),
    "bytes": pa.array([b"\xff", None, b""]),
    "decimal": pa.array(
        [Decimal("1.10"), None, Decimal("-0.01")], pa.decimal128(38, 2)
    ),
    "day": pa.array([DAY, None, dt.date(1, 1, 1)]),
    "second": pa.array([2**40, None, -(2**40)], pa.timestamp("s")),
    "zoned": pa.array([2**60 + 1, None, -1], pa.timestamp("ns", "Europe/Berlin")),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int16())),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "category": pa.array(["x", None, "y"]).dictionary_encode(),
    "uuid": pa.array([b"\1" * 16, None, b"\2" * 16], pa.uuid()),
}
MAPS = pa.array([[("k", 1), ("k", 2)], None, []], pa.map_(pa.string(), pa.int64()))


def write_arrow(table: pa.Table, path: str) -> None:
    with (pa.ipc.new_stream if path.endswith("s") else pa.ipc.new_file)(
        path, table.schema
    ) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows"])
def test_types_of_parquet_and_arrow_are_the_files(
    run, env, service, tmp_path, name, suffix
):
    # a type that Parquet has not
    lacking = {"second"} if suffix == "parquet" else set()
    table = pa.table(
        {name: array for name, array in TYPED.items() if name not in lacking}
    )
    write = pq.write_table if suffix == "parquet" else write_arrow
    write(table.append_column("map", MAPS), str(tmp_path / f"t.{suffix}"))
    done = run("create", name, tmp_path / f"t.{suffix}", **env)
    assert done.returncode == 0, done.stderr
    found = stored(service, name)
    assert found["map"].to_pylist() == MAPS.to_pylist()  # with equal keys
    coded = pa.dictionary(pa.int32(), pa.large_string())
    for got, given in zip(
        found.drop("map").schema.types, table.schema.types, strict=True
    ):
        assert got in (given, coded)
    assert_same_values(found.drop("map"), table)


@pytest.mark.parametrize(
    ("content", "options", "columns"),
    [
        (
            ",a.b,a.b,c\n1,2,3,4\n",
            ["--clean-names", "--rename", "c=d.e"],
            {"_": [1], "a_b": [2], "a_b_2": [3], "d_e": [4]},
        ),
        (
            "id,c\n007,1\n",
            ["--rename", "id=code", "--dtype", "id=string"],
            {"code": ["007"], "c": [1]},
        ),
        (
            "i.d,c\n007,1\n",
            ["--clean-names", "--dtype", "i.d=string"],
            {"i_d": ["007"], "c": [1]},
        ),
        ("it's,c\n1,2\n", ["--rename", "it's=x"], {"x": [1], "c": [2]}),
    ],
)
def test_columns_are_renamed_by_the_files_names_of_them(
    create, content, options, columns
):
    assert create(content, "t.csv", *options).to_pydict() == columns


def test_files_of_a_pattern_follow_each_other_by_their_names(
    run, env, service, tmp_path, name
):
    for number in (2, 1, 3):
        (tmp_path / f"{number}.csv").write_text(f"n\n{number}\n")
    done = run("create", name, tmp_path / "*.csv", "--json", **env)
    assert json.loads(done.stdout)["rows"] == 3
    assert stored(service, name)["n"].to_pylist() == [1, 2, 3]


def test_create_prints_the_types_of_text_and_a_dry_run_only_those(
    run, env, tmp_path, name
):
    (tmp_path / "t.csv").write_text("tag;preis;am;plz\n1;2,50;31.12.2023;01067\n")
    options = ("--decimal", ",", "--separator", ";", "--date-format", "%d.%m.%Y")
    command = ("create", name, tmp_path / "t.csv", *options)
    nowhere = ("--dry-run", "--url", "http://127.0.0.1:9")
    lines = run(*command, *nowhere).stdout.splitlines()
    assert lines[0] == f"{name}: 4 columns"
    kinds = {
        "tag": "int64",
        "preis": "double",
        "am": "date32[day]",
        "plz": "large_string",
    }
    assert dict(line.split()[:2] for line in lines[4:]) == kinds
    found = json.loads(run(*command, *nowhere, "--json").stdout)
    assert {column["name"]: column["type"] for column in found["columns"]} == kinds
    created = run(*command, **env).stdout.splitlines()
    assert created[:-1] == lines
    assert created[-1].startswith(f"created {name}: 4 columns, 1 row")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "t.parquet")
    assert (
        "a       int64"
        in run(
            "create", "t", tmp_path / "t.parquet", "--dry-run", "--url", tmp_path / "no"
        ).stdout
    )
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    "command", [["create", "t", "FILE", "--dry-run"], ["demo", "FILE"]]
)
def test_text_needs_the_extra_files_and_parquet_does_not(
    run, command, tmp_path, monkeypatch
):
    (tmp_path / "t.csv").write_text("a\n1\n")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    text, parquet = (
        [str(tmp_path / file) if word == "FILE" else word for word in command]
        for file in ("t.csv", "t.parquet")
    )
    assert run(*parquet).returncode == 0
    done = run(*text)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "Error: duckdb must be installed for this: pip install "
    )


@pytest.mark.long
def test_a_large_file_is_not_held(tmp_path, env, service, name):
    """Of 600 MB little is in memory at a time."""
    with (tmp_path / "t.csv").open("wb") as file:
        file.write(b"a,b,c\n")
        for _ in range(60):
            file.write(
                b"1,2.5,some text that is long enough to matter in the memory of a process\n"
                * 140_000
            )
    code = (
        "import atexit; from rt_frames.cli.main import main; from tests.support.faults import resident\n"
        "atexit.register(lambda: print(resident('VmHWM') // 2**20))\n"  # ru_maxrss would count the parent's, too
        "main()"
    )
    command = [sys.executable, "-c", code, "create", name, tmp_path / "t.csv", "-q"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | env
    )
    assert stored(service, name).num_rows == 60 * 140_000
    assert int(done.stdout) < 500


@pytest.mark.parametrize("version", [None, "0.4.0"])
def test_a_copy_of_a_file_is_read_again_if_somebody_creates_the_table_meanwhile(
    run, tmp_path, version
):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"n\n2\n"))
    hosted = Hosted(version=version)

    def create_first(_number: int, step: str) -> str:
        if step == "create":
            hosted.tables.setdefault("t", Table([[pa.table({"n": [1]})]]))
        return ""

    hosted.fault = create_first
    with serving(hosted) as server:
        done = run(
            *("create", "t", tmp_path / "t.csv.gz", "--if-exists", "append"),
            RT_FRAMES_URL=server.url,
            RT_FRAMES_API_KEY=KEY,
            RT_FRAMES_DIALECT="lancedb",
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert hosted.steps.count("create") == 1
    assert hosted.tables["t"].rows["n"].to_pylist() == [1, 2]
