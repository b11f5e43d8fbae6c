"""Scans: queries of Polars that read a table when they run, and agree with frames."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import threading

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import rt_frames as rt
from rt_frames.errors import (
    AlterationError,
    ResponseError,
    ServerError,
    TableNotFoundError,
    TransportError,
    UnsupportedTypeError,
)
from rt_frames.local import LocalService
from tests.client.test_rows import FOR_POLARS
from tests.support.conditions import KINDS
from tests.support.faults import connected, in_bounds
from tests.support.local import stream, until

# from this version on, Polars raises the errors of sources as they are
KEEPS_ERRORS = int(pl.__version__.partition(".")[0]) >= 2
WIDE = pa.decimal256(60, 2)
FRAME = pl.DataFrame(
    {
        "n": [*range(2000), None],
        "k": [*(f"k{number % 7}" for number in range(2000)), None],
        "x": [number / 8 for number in range(2001)],
        "at": [dt.datetime(2024, 1, 1) + dt.timedelta(hours=n) for n in range(2001)],
        "c": [f"c{number % 5}" for number in range(2001)],
    }
).cast({"at": pl.Datetime("ms", "Europe/Berlin"), "c": pl.Categorical})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table that is read in several batches."""
    folder = tmp_path_factory.mktemp("scans") / "tables"
    with rt.connect(folder, default=False) as client:
        for start in range(0, 2001, 700):
            made = rt.to_table(
                FRAME.slice(start, 700), "t", client=client, if_exists="append"
            )
        yield client.table(made.name)


def fails(kind: type[Exception], words: str):
    """Expect an error of ours, which older versions of Polars repeat in their own."""
    if KEEPS_ERRORS:
        return pytest.raises(kind, match=words)
    return pytest.raises(
        pl.exceptions.ComputeError, match=f"{kind.__name__}: .*{words}"
    )


n = pl.col("n")
k = pl.col("k")
s = pl.col("s")
STEPS = {
    "head": lambda query, _: query.head(450),
    "no rows": lambda query, _: query.head(0),
    "slice": lambda query, _: query.slice(690, 40),
    "slice from the end": lambda query, _: query.slice(-900, 300),
    "tail": lambda query, _: query.tail(800),
    "filter": lambda query, _: query.filter(n % 3 == 1),
    "filter of the service": lambda query, _: query.filter(n > 500, k != "k1"),
    "filter by what is read whole": lambda query, _: query.filter(n > n.mean()),
    "filter by the row before": lambda query, _: query.filter(n.shift(1) % 2 == 0),
    "select": lambda query, _: query.select("k", "n"),
    "with_row_index": lambda query, number: query.with_row_index(f"row {number}"),
    "group_by": lambda query, _: query.group_by("k", maintain_order=True).agg(n.sum()),
    "sort": lambda query, _: query.sort("n", descending=True, nulls_last=True),
    "first of sorted": lambda query, _: query.sort("n").head(15),
}


# by Polars 1.35: the first of a frame in memory, the second of any source in Python
WRONG_BEFORE_2 = {("group_by", "tail"), ("slice", "filter by the row before")}


@pytest.mark.parametrize("first", STEPS)
def test_every_two_steps_of_a_query_give_what_they_give_of_a_frame(table, first):
    scan = table.scan()
    for second, step in STEPS.items():
        if (first, second) in WRONG_BEFORE_2 and not KEEPS_ERRORS:
            continue
        query = step(STEPS[first](scan, 1), 2)
        expected = step(STEPS[first](FRAME.lazy(), 1), 2)
        assert_frame_equal(query.collect(), expected.collect())


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_every_step_gives_the_same_when_it_streams(table, step):
    expected = step(FRAME.lazy(), 1).collect()
    assert_frame_equal(step(table.scan(), 1).collect(engine="streaming"), expected)


FILTERS = [
    n >= 1990,
    (k == "k3") & (pl.col("x") < 5),
    pl.col("c").is_in(["c1", "c9"]) & (n % 2 == 0),
    n.is_null() | (pl.col("at") < pl.col("at").min()),
    (n > 1900) & (n > n.mean()),
    (n > 5) & (n.shift() == 5),
    ~n.is_between(7, 1995),
    n > 1989.5,
]


@pytest.mark.parametrize("condition", FILTERS, ids=str)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_a_filter_finds_the_same_rows_however_the_query_runs(
    table, condition, engine, tmp_path
):
    query = table.scan().filter(condition)
    expected = FRAME.filter(condition)
    assert_frame_equal(query.collect(engine=engine), expected)
    query.sink_parquet(tmp_path / "t.parquet", engine=engine)
    assert_frame_equal(pl.read_parquet(tmp_path / "t.parquet"), expected)
    joined = query.join(table.scan(), on="n", nulls_equal=True).select("n").sort("n")
    wanted = expected.select("n").sort("n")
    assert_frame_equal(joined.collect(engine=engine), wanted)


def test_several_queries_of_a_table_run_together(table):
    query = table.scan().filter(pl.col("n") >= 1990)
    expected = FRAME.filter(pl.col("n") >= 1990)
    first, second, last = pl.collect_all(
        [query, query.select("k"), table.scan().tail(3)]
    )
    assert_frame_equal(first, expected)
    assert_frame_equal(second, expected.select("k"))
    assert_frame_equal(last, FRAME.tail(3))


def test_a_scan_has_the_schema_and_the_rows_of_to_polars(table):
    scan = table.scan()
    assert scan.collect_schema() == FRAME.schema
    assert_frame_equal(scan.collect(), FRAME)
    assert scan.select(pl.len()).collect().item() == FRAME.height
    assert scan.select(pl.lit(1), pl.len()).collect().row(0) == (1, FRAME.height)


def test_a_scan_gives_its_batches_one_by_one(table):
    batches = []
    table.scan().sink_batches(batches.append, engine="streaming")
    assert len(batches) > 1
    assert_frame_equal(pl.concat(batches), FRAME)


EVERY = pa.table({name: column.take([0]) for name, (column, _) in KINDS.items()})


@pytest.mark.parametrize("rows", [EVERY, EVERY[:0]], ids=["a row", "no row"])
def test_columns_of_every_type_are_those_of_to_polars(table, rows, capfd):
    every = table.client.create_table("every", rows, if_exists="replace")
    expected = every.to_polars()
    assert every.scan().collect_schema() == expected.schema
    assert_frame_equal(every.scan().collect(), expected)
    assert "panicked" not in capfd.readouterr().err


WIDES = [WIDE, pa.list_(WIDE), pa.struct({"a": WIDE})]


@pytest.mark.parametrize("wide", WIDES, ids=str)
@pytest.mark.parametrize("rows", [0, 2])
def test_wide_decimals_are_refused_before_polars_panics(table, wide, rows, capfd):
    data = pa.table({"c": pa.nulls(rows, wide), "n": pa.array(range(rows), "int64")})
    odd = table.client.create_table("wide", data, if_exists="replace")
    words = re.escape(f"'c': Polars cannot hold Arrow's {wide}; leave it out")
    with pytest.raises(UnsupportedTypeError, match=words):
        odd.to_polars()
    with fails(UnsupportedTypeError, words):
        odd.scan().collect()
    assert odd.scan().select("n").collect()["n"].to_list() == [*range(rows)]
    alone = table.client.create_table("wide", data.select(["c"]), if_exists="replace")
    assert alone.scan().collect_schema() == {"c": pl.Object()}
    assert "panicked" not in capfd.readouterr().err


@pytest.fixture
def odd(table, request):
    column, _, _ = FOR_POLARS[request.param]
    rows = pa.table({"x": column, "n": range(len(column))})
    return table.client.create_table("odd", rows, if_exists="replace")


@pytest.mark.parametrize("odd", FOR_POLARS, indirect=True)
def test_what_polars_cannot_hold_is_refused_where_it_is_read(odd):
    scan = odd.scan()
    assert scan.select("n").collect().height == odd.count()
    with fails(UnsupportedTypeError, "'x': Polars cannot hold"):
        scan.collect()


@pytest.mark.parametrize("odd", ["moments in seconds"], indirect=True)
def test_rows_that_polars_can_hold_are_read_and_the_first_other_is_named(odd):
    scan = odd.scan()
    assert_frame_equal(scan.head(3).collect(), odd.to_polars(limit=3))
    odd.client.create_table("odd", odd.to_arrow()[2:], if_exists="append")
    with fails(UnsupportedTypeError, "row 3: "):
        odd.client.table("odd").scan().collect()


@pytest.mark.parametrize("odd", ["decimals of 256 bits"], indirect=True)
def test_a_query_that_polars_cannot_hold_is_not_stored(odd):
    told = r"'x': .* scan\(\), .* to_arrow\(\)"
    with pytest.raises(UnsupportedTypeError, match=told):
        odd.client.create_table("copy", odd.scan())


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_uses_of_a_scan_agree_while_another_writes(tmp_path, engine):
    client = rt.connect(tmp_path / "tables", default=False)
    scan = client.create_table("t", pl.DataFrame({"n": range(1000)})).scan()

    def append(frame):
        client.create_table("t", pl.DataFrame({"n": [-1]}), if_exists="append")
        return frame

    query = pl.concat([scan.map_batches(append), scan.filter(pl.col("n") < 10), scan])
    assert query.collect(engine=engine).height == 2010
    assert client.table("t").count(pl.col("n") == -1) > 0
    client.table("t").rename({"n": "m"})
    assert scan.collect(engine=engine).columns == ["n"]
    newest = client.table("t").scan()
    both = pl.concat([scan, newest.rename({"m": "n"})])
    assert both.collect(engine=engine).height == 1000 + client.table("t").count()


def test_a_table_is_replaced_by_a_query_of_itself(tmp_path):
    with LocalService(tmp_path, keep=dt.timedelta(0)) as service:
        rt.connect(service.url, api_key=service.api_key, dialect="lancedb")
        rt.to_table(FRAME, "s")
        query = rt.table("s").scan().filter(pl.col("n") < 1000)
        kept = query.pipe(rt.to_table, "s", if_exists="replace")
        assert_frame_equal(kept.to_polars(), FRAME.head(1000))


def test_a_scan_of_a_version_that_is_gone_says_so(tmp_path):
    with rt.connect(tmp_path) as client:
        scan = client.create_table("s", FRAME).scan()
        rt.table("s").compact(purge=True)
        with fails(TableNotFoundError, "version 1 does not exist"):
            scan.collect()
        rt.table("s").drop()
        with pytest.raises(TableNotFoundError, match="'s'"):
            rt.table("s").scan()


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_a_scan_that_is_used_twice_loses_no_filter(table, engine):
    """As a pure source does in Polars 2.0 and 2.1."""
    k1 = pl.col("k") == "k1"

    def query(rows):
        rows = rows.filter(pl.col("n") > 5)
        some = rows.filter(pl.col("n") < 130).cache().filter(k1)
        return rows.filter(k1).join(some, on="n", how="semi").select("n").sort("n")

    found = query(table.scan()).collect(engine=engine)
    assert_frame_equal(found, query(FRAME.lazy()).collect(engine=engine))


def test_a_filter_by_a_moment_that_cannot_be_printed_reads_what_it_should(table, capfd):
    far = pl.lit(pl.Series([2**62]).cast(pl.Datetime("us", "Europe/Berlin")))
    at = pl.col("at").cast(pl.Datetime("us", "Europe/Berlin"))
    for condition in (at < far, ~(pl.col("at") >= far), pl.col("at").is_in([2**62])):
        with contextlib.suppress(pl.exceptions.PolarsError):
            table.scan().filter(condition, pl.col("n") < 3).collect()
    assert "panicked" not in capfd.readouterr().err


# What is asked of a service

ROWS = pa.table({"n": [1, 2, 3], "s": ["a", "b", "c"]})
FIELDS = rt.data_type(pa.struct(ROWS.schema))["fields"]


def answered(server, version, *answers):
    """Return a scan by a service that describes a table, and then gives these rows."""
    described = {"schema": {"fields": FIELDS}, "version": version}
    server.answering((200, described), *((200, stream(one)) for one in answers))
    return connected(server, dialect="lancedb", retries=0).table("t").scan()


def asked(server):
    return [json.loads(post.body) for post in server.posts[1:]]


ALL_ROWS = 2**63 - 1
ASKED = {  # a query, the rows that it gets, and what it asks for
    "a filter": (lambda q: q.filter(n > 1), ROWS, ["n", "s"], ALL_ROWS),
    "a column": (lambda q: q.select("s").head(2), ROWS.select(["s"])[:2], ["s"], 2),
    "first rows": (lambda q: q.head(2).filter(n > 1), ROWS[:2], ["n", "s"], 2),
    "a sum": (lambda q: q.select(n.sum()), ROWS.select(["n"]), ["n"], ALL_ROWS),
}


@pytest.mark.parametrize(
    ("make", "rows", "columns", "limit"), ASKED.values(), ids=ASKED
)
def test_a_query_asks_for_its_columns_and_first_rows_of_the_version_described(
    server, make, rows, columns, limit
):
    scan = answered(server, 7, rows)
    assert [post.path.split("/")[4] for post in server.posts] == ["describe"]
    found = make(scan).collect()
    assert_frame_equal(found, make(pl.from_arrow(rows).lazy()).collect())
    (query,) = asked(server)
    assert query["columns"] == columns
    assert query["k"] == limit
    assert query["version"] == 7
    assert "x-lancedb-min-timestamp" not in server.posts[1].headers


MANY = [str(number) * 10 for number in range(50_000)]
ABOVE = "(`n` IS NOT NULL AND `n` > 1)"
TWO = f"{ABOVE} AND `n` IS NOT NULL"
HANDED = {
    "a filter": (lambda q: q.filter(n > 1), ABOVE),
    "two": (lambda q: q.filter(n > 1).filter(n.is_not_null()), TWO),
    "below a selection": (lambda q: q.select("s", "n").filter(n > 1), ABOVE),
    "below a group": (lambda q: q.group_by("n", "s").len().filter(n > 1), ABOVE),
    "beside a function": (lambda q: q.filter(n > 1, s.str.len_chars() < 9), ABOVE),
    "beside a cast": (lambda q: q.filter(n > 1, n.cast(pl.Int8) < 9), ABOVE),
    "beside a fraction": (lambda q: q.filter(n > 1, n < 9.5), ABOVE),
    "beside a long list": (lambda q: q.filter(n > 1, ~s.is_in(MANY)), ABOVE),
    "a long list": (lambda q: q.filter((n > 1) | s.is_in(MANY)), None),
    "a function": (lambda q: q.filter(n.abs() > 1), None),
    "either": (lambda q: q.filter((n > 1) | (n.abs() > 1)), None),
    "an aggregate": (lambda q: q.filter(n > n.min()), None),
    "after the first rows": (lambda q: q.head(3).filter(n > 1), None),
    "after a number": (lambda q: q.with_row_index().filter(n > 1), None),
    "after a shift": (lambda q: q.with_columns(s.shift()).filter(n > 1), None),
}


@pytest.mark.parametrize(("make", "condition"), HANDED.values(), ids=HANDED)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_what_the_service_can_filter_is_handed_over(server, make, condition, engine):
    """A service that sends more rows is no harm: they are filtered here, too."""
    found = make(answered(server, 7, ROWS)).collect(engine=engine)
    assert set(found["n"]) == {2, 3}
    (sent,) = asked(server)
    assert sent.get("filter") == condition


def test_without_a_version_each_run_reads_anew(server):
    text = ROWS.set_column(0, "n", pa.array(["1", "2", "3"]))
    scan = answered(server, None, ROWS, ROWS[:1], text)
    assert scan.collect().height == 3
    assert scan.collect().height == 1
    with fails(AlterationError, r"'n' is String now, .*call scan\(\) again"):
        scan.collect()
    assert [one["version"] for one in asked(server)] == [None] * 3
    assert "x-lancedb-min-timestamp" in server.posts[1].headers


def test_a_service_that_describes_no_columns_is_asked_for_a_row(server):
    row = stream(ROWS[:1])
    server.answering((200, {"version": 3}), (200, row), (200, stream(ROWS)))
    scan = connected(server, dialect="lancedb", retries=0).table("t").scan()
    assert scan.collect().height == 3
    assert [one["k"] for one in asked(server)] == [1, 2**63 - 1]


def sending(batches: int, left: threading.Event):
    """Make a script that sends a batch of 2 MB again and again."""
    numbers = pa.record_batch({"n": range(2**17), "s": ["a"] * 2**17})

    def script(connection):
        request = connection.body(connection.head())
        if "describe" in request.path:
            described = {"schema": {"fields": FIELDS}, "version": 1}
            connection.answer(200, described)
            return
        connection.sock.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        sink = connection.sock.makefile("wb")
        try:
            with pa.ipc.new_stream(sink, numbers.schema) as writer:
                for _ in range(batches):
                    writer.write_batch(numbers)
        except OSError:
            left.set()
        # what is still buffered has nowhere to go
        with contextlib.suppress(OSError):
            sink.close()

    return script


def test_a_table_is_written_to_a_file_a_few_batches_at_a_time(server, tmp_path):
    """Of three hundred megabytes, only a few are in memory."""
    server.script = sending(200, threading.Event())
    scan = connected(server, dialect="lancedb").table("t").scan()
    file = tmp_path / "t.parquet"
    with in_bounds(seconds=60, mib=200):
        scan.sink_parquet(file)
    assert pl.scan_parquet(file).select(pl.len()).collect().item() == 200 * 2**17
    file.unlink()


def test_a_query_that_has_its_rows_hangs_up(server):
    left = threading.Event()
    server.script = sending(500, left)
    scan = connected(server, dialect="lancedb", timeout=20).table("t").scan()
    query = scan.filter(pl.col("n") % 2 == 0).head(3)
    assert query.collect(engine="streaming")["n"].to_list() == [0, 2, 4]
    # Polars may let go of a source only when it is called again
    until(lambda: pl.select(1).lazy().collect() is not None and left.is_set())


def test_an_answer_that_is_cut_is_an_error_of_the_query(server):
    body = stream(ROWS, rows=1)
    described = {"schema": {"fields": FIELDS}, "version": 1}
    server.answering((200, described), (200, body[:-8]), (500, {"error": "no"}))
    scan = connected(server, dialect="lancedb", retries=0).table("t").scan()
    with fails(TransportError, "after 3 rows"):
        scan.collect()
    with fails(ServerError, "500"):
        scan.collect(engine="streaming")


def vectors(columns: int, *sizes: int) -> list[dict]:
    """Describe columns of fixed-size lists, the innermost size first."""
    described = {"type": "int64"}
    for size in sizes:
        item = {"name": "item", "type": described, "nullable": True}
        described = {"type": "fixed_size_list", "fields": [item], "length": size}
    names = [f"c{number}" for number in range(columns)]
    return [{"name": name, "type": described, "nullable": True} for name in names]


@pytest.mark.parametrize("sizes", [(2**31 - 1,), (2**13, 2**12), (2**20, 2**20)])
def test_a_scan_refuses_to_describe_vectors_that_no_memory_holds(server, sizes):
    server.answering((200, {"version": 1, "schema": {"fields": vectors(1, *sizes)}}))
    table = connected(server, retries=0, dialect="lancedb").table("t")
    with (
        in_bounds(seconds=10, mib=64),
        pytest.raises(ResponseError, match="not valid"),
    ):
        table.scan()


def test_a_scan_of_many_large_vectors_takes_no_memory_for_them(server):
    fields = vectors(200, 2**24)
    server.answering((200, {"version": 1, "schema": {"fields": fields}}))
    table = connected(server, retries=0, dialect="lancedb").table("t")
    with in_bounds(seconds=10, mib=64):
        schema = table.scan().collect_schema()
    assert schema["c199"] == pl.Array(pl.Int64, 2**24)
