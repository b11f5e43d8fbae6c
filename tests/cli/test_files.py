"""Files that the console script reads, read back from the tables they became."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import json

import polars as pl
import pyarrow as pa
import pytest

from tests.support.compare import stored

LATE = 60_000  # rows; more than the sample holds


@pytest.fixture
def create(run, env, service, tmp_path, name):
    """Write bytes to a file, create a table of it with some options, and give the table."""

    def create(content: bytes, file: str = "t.csv", *options: object) -> pa.Table:
        (tmp_path / file).write_bytes(content)
        done = run("create", name, tmp_path / file, *options, **env)
        assert done.returncode == 0, done.stderr
        return stored(service, name)

    return create


@pytest.fixture
def refused(run, env, tmp_path, name):
    """Write bytes to a file that is refused; give what is said, without the folder's name."""

    def refused(content: bytes, file: str = "t.csv", *options: object) -> str:
        (tmp_path / file).write_bytes(content)
        done = run("create", name, tmp_path / file, *options, **env)
        assert (done.returncode, done.stdout) == (1, "")
        assert len(done.stderr.splitlines()) <= 3
        assert name not in run("tables", **env).stdout.split()
        return done.stderr.removeprefix("Error: ").replace(f"{tmp_path}/", "").strip()

    return refused


def test_cells_are_typed_as_what_they_are(create):
    found = create(
        b"n,x,flag,day,at,zoned,time,text,none\n"
        b"1,1.5,true,2020-01-02,2020-01-02 03:04:05,2020-01-02T03:04:05Z,03:04:05,a,\n"
        b',,,,,,,"",\n'
    )
    assert [str(t) for t in found.schema.types] == [
        "int64", "double", "bool", "date32[day]", "timestamp[us]", "timestamp[us, tz=UTC]", "time64[us]",
        "large_string", "large_string",
    ]  # fmt: skip
    first, second = found.to_pylist()
    assert first["at"] == dt.datetime(2020, 1, 2, 3, 4, 5)
    assert first["day"] == dt.date(2020, 1, 2)
    assert second == dict.fromkeys(found.column_names) | {"text": ""}  # what is quoted is not missing


def test_csv_of_a_semicolon_country(create):
    found = create("preis;größe\n1,5;ü\n2;ö\n".encode("cp1252"), "t.csv", "--separator", ";", "--decimal", ",",
                   "--encoding", "cp1252")  # fmt: skip
    assert found.to_pylist() == [{"preis": 1.5, "größe": "ü"}, {"preis": 2.0, "größe": "ö"}]


def test_a_separator_that_was_not_given_is_offered(refused):
    assert refused(b"id;name\n1;a\n") == "t.csv has one column, 'id;name'; give --separator ';'"
    assert "--separator '\\t'" in refused(b"id\tname\n1\ta\n")


@pytest.mark.parametrize(
    ("file", "content", "options"),
    [
        ("t.tsv", b"a\tb\n1\tx\n", []),
        ("t.csv.gz", gzip.compress(b"a,b\n1,x\n", mtime=0), []),
        ("t.tsv.bz2", bz2.compress(b"a\tb\n1\tx\n"), []),
        ("t.ndjson.gz", gzip.compress(b'{"a": 1, "b": "x"}\n', mtime=0), []),
        ("t.txt", b"a\tb\n1\tx\n", ["--format", "csv", "--separator", r"\t"]),
        ("t", b'{"a": 1, "b": "x"}\n', ["--format", "ndjson"]),
        ("utf16.csv", "a,b\n1,x\n".encode("utf-16"), ["--encoding", "utf-16"]),
        ("bom.csv", b"\xef\xbb\xbfa,b\n1,x\n", []),
    ],
)
def test_files_of_many_names_hold_the_same_table(create, file, content, options):
    assert create(content, file, *options).to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize("form", ["csv", "ndjson", "arrow", "parquet"])
def test_standard_input_of_any_format_is_read(run, env, service, name, form, tmp_path):
    rows = {"a": list(range(LATE)), "b": [f"{n} ü" for n in range(LATE)]}
    frame, path = pl.DataFrame(rows), tmp_path / "t"
    {"csv": frame.write_csv, "ndjson": frame.write_ndjson, "arrow": frame.write_ipc_stream,
     "parquet": frame.write_parquet}[form](path)  # fmt: skip
    done = run("create", name, "-", "--format", form, "--sample", "0.01", stdin=path.read_bytes(), **env)
    assert done.returncode == 0, done.stderr
    assert stored(service, name).to_pydict() == rows
    assert "-: its name does not say" in run("create", name, "-", stdin=b"", **env).stderr


def test_a_pipe_in_another_encoding_is_read_whole(run, env, service, name):
    text = "a,b\n" + "1,ü\n" * LATE
    options = ("--format", "csv", "--encoding", "cp1252", "--sample", "0.01")
    assert run("create", name, "-", *options, stdin=text.encode("cp1252"), **env).returncode == 0
    assert stored(service, name)["b"].to_pylist() == ["ü"] * LATE


def test_types_that_are_asked_for_are_what_cells_are_parsed_as(create):
    options = ("--dtype", "code=string", "--dtype", "price=decimal128(10, 2)", "--dtype", "kind=category[string]")
    found = create(b"code,price,n\n007,1.10,1\n042,2.25,2\n", "t.csv", *options[:4], "--rename", "code=id")
    assert found.to_pydict()["id"] == ["007", "042"]
    assert str(found["price"].to_pylist()[1]) == "2.25"
    assert found.schema.names == ["id", "price", "n"]


def test_names_that_a_table_cannot_have_are_cleaned_where_that_is_asked_for(create, refused):
    content = b",a.b,a.b,c\n1,2,3,4\n"
    assert "--clean-names" in refused(content)
    assert create(content, "t.csv", "--clean-names", "--rename", "c=d.e").to_pylist() == [
        {"_": 1, "a_b": 2, "a_b_2": 3, "d_e": 4}
    ]


def test_cells_that_mean_null_can_be_named(create):
    found = create(b'a,b\n1,NA\nNA,"NA"\n', "t.csv", "--null", "NA")
    assert found.to_pydict() == {"a": [1, None], "b": [None, None]}


def test_exports_that_quote_everything_have_nulls_where_that_is_said(create):
    assert create(b'a,b\n"1",""\n"",""\n', "t.csv", "--null", "").to_pydict() == {"a": [1, None], "b": [None, None]}


def test_a_column_that_is_empty_in_the_sample_is_text(create):
    found = create(b"a,b\n" + b"1,\n" * LATE + b"2,late\n")
    assert found["b"].to_pylist()[-1] == "late"


def test_cells_of_several_lines_are_one_cell(create):
    assert create(b'a,b\n1,"x\ny"\n', "t.csv", "--sample", "0.001")["b"].to_pylist() == ["x\ny"]


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (b"oops,x", "t.csv, line 60002: column 'a' is int64, and this is 'oops'; give --dtype a=string, --null 'oops'"),
        (b"1.5,x", "t.csv, line 60002: column 'a' is int64, and this is '1.5'; give --dtype a=float64"),
        (b"1,2,3", "t.csv, line 60002: Expected 2 columns, got 3: 1,2,3"),
        (b"1", "t.csv, line 60002: Expected 2 columns, got 1: 1"),
        (b"1,\xe4", "t.csv, line 60002: column 'b' is not UTF-8; give --encoding, such as cp1252"),
        (b'"o\nops",x', "t.csv, row 60002: column 'a' is int64, and this is 'o\\nops'"),
        (b"\noops,x", "t.csv, row 60002: column 'a' is int64, and this is 'oops'"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_contradicts_the_sample_is_named(refused, cell, words, packed):
    content = b"a,b\n" + b"1,x\n" * LATE + cell + b"\n" + b"1,x\n" * 1000
    sample = ("--sample", "0.1")
    if packed:
        assert words.replace("t.csv", "t.csv.gz") in refused(gzip.compress(content, mtime=0), "t.csv.gz", *sample)
    else:
        assert words in refused(content, "t.csv", *sample)


@pytest.mark.parametrize(
    ("cell", "at"),
    [
        ('2,"oops\n' + "3,yy\n" * 5_000, "line 60002: a quote is opened and never closed"),
        ('2,"oops\n' + "3,yy\n" * 2_000_000, "line 60002: this row is longer than 4 MB, as if a quote is opened"),
        ('"2,oops\n' + "3,yy\n" * 5, 'line 60002: Expected 2 columns, got 1: "2,oops'),
        ('2,"oops', "line 60002: a quote is opened and never closed"),
        ('2,"', "line 60002: a quote is opened and never closed"),
        ('2,"x""', "line 60002: a quote is opened and never closed"),
        ('2,"x\r\n\n', "line 60002: a quote is opened and never closed"),
        ('2,"x\ny"\n2,"x', "row 60003: a quote is opened and never closed"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--dtype", "b=string"), ("--encoding", "latin-1")])
def test_a_quote_that_is_never_closed_is_named(refused, cell, at, options):
    assert f"t.csv, {at}" in refused(b"a,b\n" + b"1,xx\n" * LATE + cell.encode(), "t.csv", "--sample", "0.1", *options)


def test_a_number_whose_quote_is_never_closed_is_named(refused):
    assert refused(b'a,b\n1,2\n3,"4') == "t.csv, line 3: a quote is opened and never closed"


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        (b'5" pipe', '5" pipe'),
        (b'5"', '5"'),
        (b'""', ""),
        (b"", None),
        (b'"x\n"', "x\n"),
        (b'"x\n\n\n"\n\n\n', "x\n\n\n"),
        (b'"x"""', 'x"'),
        (b'"x"\r\n', "x"),
        (b"x\r", "x"),
    ],
)
@pytest.mark.parametrize("pipe", [False, True])
def test_quotes_that_are_closed_or_open_no_cell_pass(create, run, env, service, name, cell, value, pipe):
    content = b"a,b\n0,x\n1," + cell
    if pipe:
        assert run("create", name, "-", "--format", "csv", stdin=content, **env).returncode == 0
    found = stored(service, name) if pipe else create(content)
    assert found.to_pylist() == [{"a": 0, "b": "x"}, {"a": 1, "b": value}]


def test_a_row_longer_than_a_block_is_read_as_the_message_says(create, refused):
    content = b"a,b\n0,x\n" + b'1,"' + b"x\n" * 6_000_000 + b'"\n'
    assert "line 3: this row is longer than 4 MB" in (said := refused(content)), said
    assert len(create(content, "t.csv", "--sample", "13")["b"].to_pylist()[-1]) == 12_000_000


@pytest.mark.parametrize(("first", "late"), [("", "+02:00"), ("Z", "")])
@pytest.mark.parametrize("advice", [("--dtype", "a=string"), ("--sample", "1")])
def test_a_late_time_of_another_kind_of_zone_is_named(create, refused, first, late, advice):
    content = b"a\n" + f"2024-01-01 00:00:00{first}\n".encode() * 10_000 + f"2024-01-01 00:00:00{late}\n".encode()
    kind = "timestamp[us, tz=UTC]" if first else "timestamp[us]"
    assert refused(content, "t.csv", "--sample", "0.01") == (
        f"t.csv, line 10002: column 'a' is {kind}, and this is '2024-01-01 00:00:00{late}', "
        f"with{'' if late else 'out'} a zone; give --dtype a=string, or a larger --sample"
    )
    found = create(content, "t.csv", "--sample", "0.01", *advice)
    assert found["a"].to_pylist()[-1] == f"2024-01-01 00:00:00{late}"


def test_decimals_that_do_not_fit_are_told_as_what_they_are(create, refused):
    options = ("--dtype", "a=decimal128(5, 2)")
    assert refused(b"a\nx\n", "t.csv", *options) == (
        "t.csv, line 2: column 'a' is decimal128(5, 2), and this is 'x'; give --dtype a=string, or --null 'x'"
    )
    assert refused(b"a\n1.234\n", "t.csv", *options) == (
        "t.csv, row 2: column 'a' is decimal128(5, 2): Rescaling Decimal value would cause data loss; "
        "give --dtype a=string"
    )


def test_the_advice_about_a_late_cell_helps(create):
    content = b"a\n" + b"1\n" * LATE + b"1.5\n"
    for options in (["--dtype", "a=float64"], ["--sample", "1"]):
        assert create(content, "t.csv", *options, "--if-exists", "skip")["a"].to_pylist()[-1] == 1.5


def test_a_cell_that_is_not_of_the_type_that_was_asked_for_is_named(refused):
    assert refused(b"a\n1\nx\n", "t.csv", "--dtype", "a=int32").startswith(
        "t.csv, line 3: column 'a' is int32, and this"
    )


def test_a_late_cell_from_a_pipe_is_named_by_its_row(run, env, name):
    options = ("--format", "csv", "--sample", "0.01")
    done = run("create", name, "-", *options, stdin=b"a\n" + b"1\n" * LATE + b"oops\n", **env)
    assert "-, row 60002: column 'a' is int64, and this is 'oops'" in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"a": "x"}', "line 60001: Column(/a) changed from number to string; no type holds both: make all values"),
        (
            b'{"a": 1.5}',
            "line 60001: Failed to convert JSON to int64, couldn't parse:1.5; give --dtype a=float64, or a",
        ),
        (b'{"a": 1, "b": 2, "c": 3}', "line 60001: unexpected field 'b', 'c'; give a larger --sample"),
        (b'{"a": 1, "t', "line 60001: Invalid encoding in string."),
        (b"neither", "line 60001: Invalid value."),
        (b"\n\n[1]", "line 60003: Column() changed from object to array"),
        (b'{"a": 1, "t": "\xe4"}', "line 60001: "),
    ],
)
def test_a_line_of_ndjson_that_contradicts_the_sample_is_named(refused, line, words):
    content = b'{"a": 1, "t": "x"}\n' * LATE + line + b"\n" + b'{"a": 1}\n' * 100
    assert refused(content, "t.ndjson", "--sample", "0.1").startswith(f"t.ndjson, {words}")


@pytest.mark.parametrize(
    ("early", "late", "dtype"),
    [
        ("1", "1.5", "float64"),
        ("1", "12345678901234567890", "uint64"),
        ("null", "-7", "int64"),
        ("null", "2.5", "float64"),
    ],
)
@pytest.mark.parametrize("by", ["dtype", "sample"])
def test_the_advice_about_a_late_value_of_ndjson_helps(create, refused, early, late, dtype, by):
    content = f'{{"t": "x", "a": {early}}}\n'.encode() * LATE + f'{{"t": "y", "a": {late}}}\n'.encode()
    said = refused(content, "t.ndjson", "--sample", "0.1")
    assert said.endswith(f"; give --dtype a={dtype}, or a larger --sample")
    options = ("--sample", "0.1", "--dtype", f"a={dtype}") if by == "dtype" else ("--sample", "2")
    assert json.loads(late) == create(content, "t.ndjson", *options)["a"].to_pylist()[-1]


def test_types_of_ndjson_that_were_asked_for_in_vain_are_not_advised_again(refused):
    said = refused(b'{"a": 1}\n', "t.ndjson", "--dtype", "a=string")
    assert said == "t.ndjson, line 1: Column(/a) changed from string to number; give --dtype a=int64"
    said = refused(b'{"a": 1}\n' * LATE + b'{"a": "x"}\n', "t.ndjson", "--dtype", "a=int64", "--sample", "0.1")
    assert said.endswith("; no type holds both: make all values of the column one kind first")


def test_a_late_field_of_ndjson_is_read_with_a_larger_sample(create, refused):
    content = b'{"a": 1}\n' * LATE + b'{"a": 1, "neu": 2}\n'
    assert refused(content, "t.ndjson", "--sample", "0.1").endswith("unexpected field 'neu'; give a larger --sample")
    assert create(content, "t.ndjson", "--sample", "2")["neu"].to_pylist()[-2:] == [None, 2]


def test_ndjson_keeps_texts_that_look_like_times_and_what_is_nested(create):
    rows = [{"at": "2020-01-02", "in": {"x": [1, None], "none": None}}, {"at": "x", "in": {"x": [], "none": "y"}}]
    found = create("".join(json.dumps(row) + "\n" for row in rows).encode(), "t.jsonl")
    assert found.to_pylist() == rows


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("t.csv", b"", "t.csv cannot be read: Empty CSV file"),
        ("t.ndjson", b"", "t.ndjson cannot be read: Empty JSON"),
        (
            "t.ndjson",
            b' [{"a": 1}]',
            "t.ndjson is a JSON array; NDJSON has one object per line, which jq -c '.[]' makes of it",
        ),
        ("t.ndjson", b"1", "t.ndjson, line 1: Column() changed from object to number"),
        (
            "t.ndjson",
            b'\n{"a": 1}\n\n{"a": "x"}\n',
            "t.ndjson, line 4: Column(/a) changed from number to string",
        ),
        ("t.ndjson", b'{"a": 1}\n{"a": }\n', "t.ndjson, line 2: Invalid value."),
        ("t.parquet", b"PAR1 cut", "t.parquet cannot be read: "),
        ("t.arrow", b"ARROW1 cut", "t.arrow cannot be read: "),
        ("t.arrows", b"neither", "t.arrows cannot be read: "),
        ("t.csv.gz", b"not packed", "t.csv.gz cannot be read: "),
        ("t.csv.gz", gzip.compress(b"a\n" * 100, mtime=0)[:-12], "t.csv.gz cannot be read: "),
        ("t.csv", b"a,a\n1,2\n", "column names must be unique; these occur more than once: 'a'"),
        ("t.parquet.gz", b"", "t.parquet.gz: only CSV and NDJSON files may be compressed as a whole"),
        ("t.xlsx", b"PK", "t.xlsx: its name does not say what it holds, as .parquet, .pq, .csv, .tsv, .ndjson"),
        ("t.XLS", b"PK", "t.XLS: its name does not say"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(refused, file, content, words):
    assert refused(content, file).startswith(words)


def test_of_many_files_the_bad_one_is_named(run, env, tmp_path, name):
    for number in range(12):
        (tmp_path / f"{number:02}.csv").write_bytes(b"a,b\n1,x\n" if number != 7 else b"a,b\n1,x,y\n1,x\n")
    done = run("create", name, tmp_path / "*.csv", **env)
    assert f"{tmp_path}/07.csv, line 2: Expected 2 columns, got 3: 1,x,y" in done.stderr
    frame = pl.DataFrame({"n": range(100_000)})
    for number in range(3):
        frame.write_parquet(tmp_path / f"{number}.parquet", compression="uncompressed", statistics=False)
    damaged = bytearray((tmp_path / "1.parquet").read_bytes())
    damaged[4:200] = bytes(196)
    (tmp_path / "1.parquet").write_bytes(damaged)
    assert f"{tmp_path}/1.parquet cannot be read: " in run("create", name, tmp_path / "*.parquet", **env).stderr
    assert name not in run("tables", **env).stdout.split()


@pytest.fixture
def create_many(run, env, service, tmp_path, name):
    """Write files, create a table of them, and give the table."""

    def create_many(files: dict[str, bytes], *options: object) -> pa.Table:
        for file, content in files.items():
            (tmp_path / file).write_bytes(content)
        done = run("create", name, *(tmp_path / file for file in files), *options, **env)
        assert done.returncode == 0, done.stderr
        return stored(service, name)

    return create_many


def test_files_whose_samples_differ_agree(create_many):
    found = create_many({"1.csv": b"a,b,c,d\n,1,1.5,1\n", "2.csv": b"a,b,c,d\nx,3,2,x\nx,2.5,1,\n"})
    assert found.to_pydict() == {
        "a": [None, "x", "x"], "b": [1.0, 3.0, 2.5], "c": [1.5, 2.0, 1.0], "d": ["1", "x", None],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "found", "dtype", "refused"),
    [
        ("7 oops 8", "{}1.csv: text, {}0.csv and 1 more: int64", "int64", "1.csv, line 2: column 'a' is int64"),
        (
            "x 2024-01-01",
            "{}1.csv: date32[day], {}0.csv: text",
            "date32[day]",
            "0.csv, line 2: column 'a' is d",
        ),
        (
            "7 2024-01-01T00:00:00Z 8.5 2024-01-01T00:00:00Z",
            "{}2.csv: double, {}0.csv: int64, {}1.csv and 1 more: timestamp[us, tz=UTC]",
            "timestamp[us, tz=UTC]",
            "0.csv, line 2: column 'a' is timestamp[us, tz=UTC], and this is '7'",
        ),
    ],
)
def test_files_that_make_text_of_a_column_are_named(run, env, service, tmp_path, name, cells, found, dtype, refused):
    paths = [tmp_path / f"{number}.csv" for number in range(len(cells.split()))]
    for path, cell in zip(paths, cells.split(), strict=True):
        path.write_text(f"a,none\n{cell},\n")
    done = run("create", name, *paths, **env)
    found = found.replace("{}", f"{tmp_path}/")
    said = f"column 'a' is read as text, as its type differs ({found}); --dtype a='{dtype}' refuses that"
    assert (done.returncode, done.stderr) == (0, f"Warning: {said}\n")
    assert stored(service, name)["a"].to_pylist() == cells.split()
    done = run("create", f"{name}_2", *paths, "--dtype", f"a={dtype}", **env)
    assert done.returncode == 1
    assert refused in done.stderr


def test_files_that_agree_or_are_told_a_type_are_no_warning(run, env, tmp_path, name):
    for number, cell in enumerate(["1", "", "2.5"]):
        (tmp_path / f"{number}.csv").write_text(f"a,b,c\n{cell},x,{'x' if cell else 1}\n")
    done = run("create", name, tmp_path / "*.csv", "--dtype", "c=string", **env)
    assert (done.returncode, done.stderr) == (0, "")


def test_whole_numbers_that_a_fraction_in_another_file_would_round_stay_text(create_many):
    found = create_many({"1.csv": b"a\n9007199254740993\n", "2.csv": b"a\n1.5\n"})
    assert found["a"].to_pylist() == ["9007199254740993", "1.5"]


def test_ndjson_files_whose_samples_differ_agree_or_the_line_that_does_not_is_named(create_many, run, tmp_path, env):
    assert create_many({"1.ndjson": b'{"a": 1}\n', "2.ndjson": b'{"a": 1.5}\n'})["a"].to_pylist() == [1.0, 1.5]
    (tmp_path / "3.ndjson").write_bytes(b'{"a": 1}\n{"a": "x"}\n')
    (tmp_path / "4.ndjson").write_bytes(b'{"a": "x"}\n')
    done = run("create", "unlike", tmp_path / "1.ndjson", tmp_path / "4.ndjson", **env)
    assert f"{tmp_path}/4.ndjson, line 1: Column(/a) changed from number to string" in done.stderr


def test_columns_in_another_order_are_found_by_name(create_many, run, env, tmp_path):
    pl.DataFrame({"b": ["z"], "a": [3]}).write_parquet(tmp_path / "0.parquet")
    found = create_many({"1.csv": b"a,b\n1,x\n", "2.csv": b"b,a\ny,2\n", "3.ndjson": b'{"b": "z", "a": 3}\n'})
    assert found.to_pydict() == {"a": [1, 2, 3], "b": ["x", "y", "z"]}
    done = run("create", "ordered", tmp_path / "2.csv", tmp_path / "0.parquet", **env)
    assert done.returncode == 0, done.stderr
    late = b"b,a\n" + b"y,2\n" * LATE + b"y,x\n"
    (tmp_path / "4.csv").write_bytes(late)
    done = run("create", "late", tmp_path / "1.csv", tmp_path / "4.csv", "--sample", "0.1", **env)
    assert f"4.csv, line {LATE + 2}: column 'a' is int64, and this is 'x'" in done.stderr


def test_a_file_that_states_its_types_decides_over_samples(create_many, tmp_path, run, env, service):
    pl.DataFrame({"k": [2.5]}).write_parquet(tmp_path / "2.parquet")
    (tmp_path / "1.csv").write_bytes(b"k\n1\n")
    assert run("create", "stated", tmp_path / "1.csv", tmp_path / "2.parquet", **env).returncode == 0
    assert stored(service, "stated")["k"].to_pylist() == [1.0, 2.5]


@pytest.mark.parametrize(
    ("cells", "arrow", "values"),
    [
        (b"12345678901234567890 12345678901234567891", "uint64", [12345678901234567890, 12345678901234567891]),
        (b"-1 12345678901234567890", "large_string", ["-1", "12345678901234567890"]),
        (b"1 123456789012345678901", "large_string", ["1", "123456789012345678901"]),
        (b"+4930123456 0301234", "large_string", ["+4930123456", "0301234"]),
        (b"1.5 9007199254740993", "large_string", ["1.5", "9007199254740993"]),
        (b"0x1F 7", "large_string", ["0x1F", "7"]),
        (b"1.5 1e400", "large_string", ["1.5", "1e400"]),
        (b"1.5 9007199254740992 -1e30 +2.5", "double", [1.5, 2.0**53, -1e30, 2.5]),
        (b"9007199254740993 01067", "int64", [9007199254740993, 1067]),
    ],
)
def test_numbers_of_csv_never_change_in_silence(create, cells, arrow, values):
    found = create(b"a\n" + cells.replace(b" ", b"\n") + b"\n")
    assert (str(found["a"].type), found["a"].to_pylist()) == (arrow, values)


def test_whole_numbers_of_ndjson_never_change_in_silence(create, refused):
    large = [12345678901234567890, 12345678901234567891]
    rows = "".join(f'{{"a": {n}, "in": {{"x": 1.5, "n": 9007199254740993}}}}\n' for n in large)
    for content in (b'{"a": -1}\n{"a": 12345678901234567890}\n', b'{"a": 1.5}\n{"a": 9007199254740993}\n',
                    b'{"a": [{"b": 1.5}, {"b": 9007199254740993}]}\n'):  # fmt: skip
        assert "t.ndjson: column 'a' is " in (said := refused(content, "t.ndjson"))
        assert "; give --dtype a=" in said
    found = create(rows.encode(), "t.ndjson")
    assert found["a"].to_pylist() == large
    assert found["in"].to_pylist()[0] == {"x": 1.5, "n": 9007199254740993}


@pytest.mark.parametrize("dtype", ["float64", "decimal128(38, 0)"])
def test_the_advice_about_numbers_of_ndjson_helps(create, dtype):
    found = create(b'{"a": -1}\n{"a": 12345678901234567890}\n', "t.ndjson", "--dtype", f"a={dtype}")
    assert [int(value) for value in found["a"].to_pylist()] == [
        -1,
        12345678901234567168 if dtype[0] == "f" else 12345678901234567890,
    ]


@pytest.mark.parametrize(
    ("cell", "dtype"),
    [
        ("12345678901234567890", "uint64"),
        ("-12345678901234567890", "string"),
        ("123456789012345678901", "string"),
        ("+49", "string"),
        ("1.5", "float64"),
        ("01.01.2024", "string"),
    ],
)
def test_the_advice_about_a_late_number_keeps_it(create, refused, cell, dtype):
    content = b"a\n" + b"1\n" * LATE + cell.encode() + b"\n"
    said = refused(content, "t.csv", "--sample", "0.1")
    assert said.endswith(f"this is {cell!r}; give --dtype a={dtype}, or a larger --sample")
    last = create(content, "t.csv", "--sample", "0.1", "--dtype", f"a={dtype}")["a"].to_pylist()[-1]
    assert str(last) == cell


@pytest.mark.parametrize("cell", ["12345678901234567", "-9007199254740993", "1e400", "-1e400"])
@pytest.mark.parametrize("advice", [("--dtype", "a=string"), ("--sample", "8")])
def test_a_late_number_that_a_float_changes_is_named(create, refused, cell, advice):
    content = b"b,a\n" + b"x,1.5\n" * 800_000 + b"x,1e300\nx,inf\nx,9007199254740992\n" + f"y,{cell}\n".encode()
    said = refused(content)
    assert said == (
        f"t.csv, line 800005: column 'a' is double, and this is '{cell}', which it would change; "
        "give --dtype a=string, or a larger --sample"
    )
    assert create(content, "t.csv", *advice)["a"].to_pylist()[-1] == cell


def test_late_numbers_that_a_float_holds_pass(create):
    cells = ["1e300", "-inf", "", "nan", "9007199254740992", "12345678901234568.0"]
    content = b"b,a\n" + b"x,1.5\n" * LATE + "".join(f"x,{cell}\n" for cell in cells).encode()
    found = create(content, "t.csv", "--sample", "0.1")["a"].to_pylist()[LATE:]
    assert [str(value) for value in found] == [
        "1e+300",
        "-inf",
        "None",
        "nan",
        "9007199254740992.0",
        "1.2345678901234568e+16",
    ]


def test_a_decimal_comma_is_offered(create, refused):
    content = b"a;b\n" + b"1;x\n" * LATE + b"12,5;x\n"
    options = ("--separator", ";", "--sample", "0.1")
    assert "give --dtype a=float64 with --decimal ,, or a larger" in refused(content, "t.csv", *options)
    found = create(content, "t.csv", *options, "--dtype", "a=float64", "--decimal", ",")
    assert found["a"].to_pylist()[-1] == 12.5


def test_a_date_that_is_not_iso_is_text_where_a_date_was_asked_for(refused):
    said = refused(b"Datum\n2024-01-02\n01.01.2024\n", "t.csv", "--dtype", "Datum=date32")
    assert said == "t.csv, line 3: column 'Datum' is date32[day], and this is '01.01.2024'; give --dtype Datum=string"


@pytest.mark.parametrize("file", ["t.csv", "t.ndjson"])
def test_a_first_line_that_is_not_utf8_is_told_as_a_later_one(refused, file):
    said = refused("größe;b\n1;2\n".encode("cp1252"), file)
    assert said == f"{file}, line 1: this is not UTF-8; give --encoding, such as cp1252"


@pytest.mark.parametrize(
    ("pack", "words"),
    [
        (gzip.compress, "gzip; decompress it first"),
        (bz2.compress, "bzip2; decompress it first"),
        (lambda text: text.decode().encode("utf-16"), "UTF-16; give --encoding utf-16"),
        (lambda text: b"\xfe\xff" + text.decode().encode("utf-16-be"), "UTF-16; give --encoding utf-16"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_what_standard_input_holds_instead_of_utf8_is_said(run, env, service, name, form, pack, words):
    text = {"csv": b"a,b\n1,x\n", "ndjson": b'{"a": 1, "b": "x"}\n'}[form]
    done = run("create", name, "-", "--format", form, stdin=pack(text), **env)
    assert (done.returncode, done.stderr) == (1, f"Error: -, line 1: this is {words}\n")
    advised = ("--encoding", "utf-16") if "UTF-16" in words else ()
    done = run("create", name, "-", "--format", form, *advised, stdin=pack(text) if advised else text, **env)
    assert done.returncode == 0, done.stderr
    assert stored(service, name).to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"id,price", "'price' added and 'preis' missing"),
        (b"id,preis,x,y", "'x', 'y' added"),
        (b"id", "'preis' missing"),
    ],
)
def test_which_file_has_which_columns_is_said(run, env, tmp_path, name, header, words):
    (tmp_path / "1.csv").write_bytes(b"id,preis\n")
    (tmp_path / "2.csv").write_bytes(header + b"\n")
    done = run("create", name, tmp_path / "1.csv", tmp_path / "2.csv", "--separator", ",", **env)
    said = f"{tmp_path}/2.csv has other columns than {tmp_path}/1.csv: {words}; make them alike first"
    assert (done.returncode, done.stderr) == (1, f"Error: {said}\n")


def test_the_packages_words_are_the_shells_options(run, env, tmp_path, name):
    (tmp_path / "t.csv").write_bytes(b"a\n1\n")
    done = run("create", name, tmp_path / "t.csv", "--dtype", "b=int64", **env)
    assert done.stderr == "Error: --dtype: there is no column 'b'; the columns are ['a']\n"
    done = run("create", name, tmp_path / "t.csv", "--if-exists", "replace", **env)
    assert done.stderr.startswith('Error: --if-exists: "replace" is not possible: ')


def test_files_of_several_formats_are_one_table(run, env, service, tmp_path, name):
    frame = pl.DataFrame({"n": [1], "s": ["x"]})
    frame.write_csv(tmp_path / "1.csv")
    frame.write_parquet(tmp_path / "2.parquet")
    frame.write_ipc(tmp_path / "3.arrow")
    frame.write_ipc_stream(tmp_path / "4.arrows", compat_level=pl.CompatLevel.oldest())
    done = run("create", name, *(tmp_path / file for file in ("1.csv", "2.parquet", "3.arrow", "4.arrows")), **env)
    assert done.returncode == 0, done.stderr
    assert stored(service, name).to_pydict() == {"n": [1] * 4, "s": ["x"] * 4}


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_name_that_reads_like_a_pattern_is_the_file_of_that_name(run, env, tmp_path, service, name, suffix):
    for file, word in ((f"day [1].{suffix}", "right"), (f"day 1.{suffix}", "wrong")):
        frame = pl.DataFrame({"a": [word]})
        frame.write_parquet(tmp_path / file) if suffix == "parquet" else frame.write_ipc(tmp_path / file)
    assert run("create", name, tmp_path / f"day [1].{suffix}", **env).returncode == 0
    assert stored(service, name)["a"].to_pylist() == ["right"]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"id,c\n007,1\n", ["--rename", "id=code", "--dtype", "id=string"]),
        (b"i.d,c\n007,1\n", ["--clean-names", "--dtype", "i.d=string"]),
    ],
)
def test_a_type_is_given_under_the_files_name_of_a_column(create, content, options):
    assert create(content, "t.csv", *options).to_pydict() in ({"code": ["007"], "c": [1]}, {"i_d": ["007"], "c": [1]})


@pytest.mark.parametrize(
    "content",
    [b'\xef\xbb\xbf{"a": 1.5}\n{"a": 2}\n', b'{\n "a": 1.5}\n\n{"a":\n2}', b'{"a": 1.5} {"a": 2}\n'],
    ids=["byte order mark", "on several lines", "on one line"],
)
def test_objects_of_json_may_lie_as_they_like(create, content):
    assert create(content, "t.ndjson")["a"].to_pylist() == [1.5, 2]


def test_whole_numbers_that_share_a_line_are_looked_at_each(refused):
    assert "rounds 9007199254740993" in refused(b'{"a": 1.5} {"a": 9007199254740993}\n', "t.ndjson")


def test_texts_of_json_become_what_was_asked_for(create):
    content = b'{"d": "2024-01-31", "p": "1.10"}\n'
    found = create(content, "t.ndjson", "--dtype", "d=date32", "--dtype", "p=decimal128(10, 2)")
    assert [str(t) for t in found.schema.types] == ["date32[day]", "decimal128(10, 2)"]
    assert str(found.to_pylist()[0]["p"]) == "1.10"


def test_a_sample_holds_at_least_a_row(create):
    names, row = (",".join(words) for words in ([f"column{i}" for i in range(300)], ["12"] * 300))
    found = create(f"{names}\n{row}\n{row}\n".encode(), "t.csv", "--sample", "0.001")
    assert {str(t) for t in found.schema.types} == {"int64"}


def test_a_header_without_a_line_end_is_a_table_without_rows(create):
    assert create(b"a,b").to_pydict() == {"a": [], "b": []}
