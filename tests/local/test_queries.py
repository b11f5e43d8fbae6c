"""Reading over HTTP: valid queries, and filters that the engine must not see."""

from __future__ import annotations

import datetime
import json
import random
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.local import ARROW, NUMBERS, Process, message
from tests.support.servers import KEY


def ask(caller, operation="query", **request):
    return caller.send("POST", f"/v1/table/t/{operation}/", json.dumps(request))


def rows(answer):
    assert answer.headers["Content-Type"] == ARROW
    with pa.ipc.open_stream(answer.content) as reader:
        return reader.read_all()


@pytest.fixture
def there(caller):
    caller.create("t", NUMBERS)
    return caller


def test_rows_are_filtered_counted_selected_and_limited(there):
    assert rows(ask(there)).equals(NUMBERS)
    found = rows(ask(there, filter="a > 1", columns=["c", "a"], k=1))
    assert found.to_pylist() == [{"c": None, "a": 2}]
    assert rows(ask(there, filter="a > 5")).equals(NUMBERS[:0])
    assert rows(ask(there, k=0)).equals(NUMBERS[:0])
    assert rows(ask(there, offset=2**62, k=2**63 - 1)).num_rows == 0
    numbers = ", ".join(map(str, range(2, 1500)))
    assert rows(ask(there, filter=f"a IN ({numbers})")).equals(NUMBERS[1:])
    assert ask(there, "count_rows").json() == 3
    assert ask(there, "count_rows", predicate="c IS NULL OR lower(c) = 'x'").json() == 2
    there.alter("t", {"path": "a", "rename": "z"})
    assert rows(ask(there, version=1)).equals(NUMBERS)
    assert rows(ask(there)).column_names == ["z", "b", "c"]


@pytest.mark.parametrize(
    ("request_", "status", "told"),
    [
        ({"filter": 7}, 400, "string"),
        ({"filter": "a = 1 OR " * 200_000 + "a = 1"}, 400, "1.05 MB"),
        ({"filter": "a = " + "/nope" * 80}, 400, "parser error"),
        ({"filter": "length(repeat(c, 2000000000)) > 1"}, 400, "calls repeat()"),
        ({"filter": "length(`LPAD` (c, 2000000000)) > 1"}, 400, "calls lpad()"),
        ({"filter": "array_length(range(1, 10000000000)) > 1"}, 400, "calls range()"),
        ({"filter": "`a` = 1 OR `it's` = repeat(c, 9) OR `it's`"}, 400, "repeat()"),
        (
            {"filter": "length(replace(c, '', 'xxxxxxxxxx')) > 1"},
            400,
            "calls replace()",
        ),
        ({"filter": "Concat (c, c, c) = 'x'"}, 400, "calls concat()"),
        ({"filter": "c || c || c = 'x'"}, 400, "calls ||"),
        ({"filter": f"nullif('{'x' * 2000}', c) = c"}, 400, "has 2,002 characters"),
        ({"filter": f"left('{'x' * 3000}', a) = c"}, 400, "has 3,002 characters"),
        ({"filter": "a = 1 OR " * 12_001 + "a = 1"}, 400, "12,000 conditions"),
        ({"columns": ["nope"]}, 400, "nope"),
        ({"columns": "a"}, 501, "array of strings"),
        ({"k": -1}, 400, "k: expected a non-negative integer, got -1"),
        ({"offset": True}, 400, "integer, got True"),
        ({"version": 2**63}, 400, "version: expected"),
        ({"version": 9}, 404, "version 9"),
        ({"full_text_query": {"query": "x"}}, 501, "'full_text_query'"),
    ],
)
def test_what_cannot_be_answered_is_an_error_that_names_it_and_no_path_of_the_machine(
    there, request_, status, told
):
    answer = ask(there, **request_)
    assert told in message(answer, status)
    assert "/home" not in answer.text
    assert str(there.root).strip("/") not in answer.text


def test_a_filter_may_name_what_it_must_not_call(there):
    assert rows(ask(there, filter="c = 'repeat(x' OR a = 1")).num_rows == 1
    assert rows(ask(there, filter="c = '||' OR `a` = 1")).num_rows == 1


TEXTS = "'a', " * 2000
CALLS = [
    "lower(c) = 'x' AND upper(c) = 'X' AND length(c) = 1",
    "starts_with(c, 'x') AND ends_with(c, 'x') AND contains(c, 'x')",
    "regexp_match(c, '^x$') IS NOT NULL AND regexp_like(c, 'x')",
    "coalesce(c, 'y') = 'x' AND nullif(c, 'y') = 'x'",
    "abs(a) > 0 AND NOT (isnan(b)) AND a IN (1, 2)",
    "CAST(a AS DECIMAL(10, 2)) > 0 AND TRY_CAST(c AS int) IS NULL",
    "to_timestamp('2024-01-01') < now() AND arrow_cast(a, 'Int64') > 0",
    "date_part('year', to_date('2024-01-05')) = 2024",
    f"lower(c) IN ({TEXTS}'x')",
]


@pytest.mark.parametrize("filter_", CALLS)
def test_functions_whose_results_are_no_larger_than_their_arguments_are_called(
    there, filter_
):
    assert rows(ask(there, filter=f"a = 1 AND ({filter_})")).num_rows == 1


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (
            {"filter": "a >"},
            "invalid filter: sql parser error: Expected: an expression, found: )",
        ),
        ({"filter": "c = 'x"}, "invalid filter: Unterminated string literal"),
        (
            {"filter": "c = ' SELECT (sql parser error: x)' AND"},
            "invalid filter: sql parser error: Expected: an expression, found: )",
        ),
        ({"filter": "a"}, "invalid filter: The filter a does not return a boolean"),
        ({"filter": "1 / 0 = a"}, "invalid filter: Divide by zero error"),
        (
            {"filter": "nope = 1"},
            "invalid filter: No field named nope. Valid fields are a, b, c",
        ),
        ({"columns": ["nope"]}, "invalid query: No field named nope"),
        (
            {"columns": ["a"], "filter": "a >"},
            "invalid query: sql parser error: Expected: an expression, found: )",
        ),
    ],
)
def test_the_engine_s_reason_is_told_without_the_statement_that_it_made(
    there, request_, told
):
    assert message(ask(there, **request_)) == f"{told}; correct it"


SLIPS = {
    "day = '2024-01-05'": "date '2024-01-05', or pass an expression",
    "day IN ('x')": "date '2024-01-05', or pass an expression",
    "at > '2024'": "timestamp '2024-01-05 00:00:00', or pass an expression",
    "n = 'a'": "write a value of that type, or pass an expression",
    "x y > 1": "write a column name of several words as `x y`",
    "n > 1 LIMIT 1": "rest out, or write a column name of several words as `x y`",
    "WHERE n > 1": "starts with WHERE; leave that word out",
    '"x y" > 1': "odd column names in `…`",
}


@pytest.mark.parametrize(("slip", "cure"), SLIPS.items())
def test_a_common_slip_is_told_its_cure(caller, slip, cure):
    days = [datetime.datetime(2024, 1, 5)]
    table = pa.table({"n": [1], "x y": [1], "at": days})
    table = table.append_column("day", table["at"].cast("date32"))
    caller.create("t", table)
    assert message(ask(caller, filter=slip)).endswith(cure)


def test_a_body_that_is_not_an_object_is_refused(there):
    for body in ("[]", "x", "[" * 100_000, b"\xff"):
        for operation in ("describe", "count_rows", "query"):
            answer = there.send("POST", f"/v1/table/t/{operation}/", body)
            assert "JSON object" in message(answer, 400)


NESTED = {
    "plus": "+".join(["a"] * 1000) + " > 1",
    "ones": "a" + "+1" * 1000 + " > 1",
    "fractions": ".1" + "*.1" * 1000 + " > 1",
    "concatenation": "||".join(["c"] * 1000) + " = 'x'",
    "like": "c LIKE" + "'x'LIKE" * 1000 + "'x'",
    "a word that ends nothing": ("NOT " * 99 + "(end > 1 AND ") * 9 + "true" + ")" * 9,
    "intervals": "interval '1 day' AND " * 300 + "true",
    "between": "a" + " BETWEEN 1 AND a" * 400 + " > 1",
    "case": "CASE WHEN a > 1 AND " * 300 + "true" + " THEN true END" * 300,
    "arrays": "[a, " * 300 + "1" + "]" * 300 + " = 1",
    "parentheses": "(a > 1 AND " * 260 + "true" + ")" * 260,
    "interval": "interval " * 800 + "'1 day' = 1",
    "subscript": "a" + "[1]" * 1000 + " = 1",
    "cast": "a" + "::bigint" * 400 + " = 1",
    "zone": "a" + " AT TIME ZONE 'x'" * 400 + " = 1",
    "collate": "c" + " COLLATE x" * 400 + " = 'x'",
    "text": "c" + " LIKE 'x y z'" * 400,
    "an escaped quote": "E'\\'' = c OR " + "NOT " * 400 + "E'\\'' = c",
}


def test_a_filter_that_would_end_the_process_is_refused(there):
    for what, filter_ in NESTED.items():
        assert "250" in message(ask(there, filter=filter_), 400), what
        answer = ask(there, "count_rows", predicate=filter_)
        assert "250" in message(answer, 400), what


HIDING = {
    "comments that open and close a text": "/*'*/" + "NOT " * 400 + "a > 1 /*'*/",
    "texts in another quote": "\"'\" = 'x' OR " + "NOT " * 400 + "\"'\" = 'x'",
}


def test_a_filter_whose_quotes_the_engine_reads_in_another_way_is_refused(there):
    for what, filter_ in HIDING.items():
        answer = ask(there, filter=filter_)
        assert "the filter" in message(answer, 400), what


WORDS = [
    *"abc()[]{}<>=+-*/%|&^~!@#?$,.:;\\'\"`_é \t\n",
    "1",
    "1.5",
    "'x'",
    " AND ",
    " OR ",
    " NOT ",
    " IN (1, 2)",
]
WORDS += [
    " IS NULL",
    "interval ",
    "CASE WHEN ",
    " END",
    "lower(",
    "cast(",
    " as int)",
    " LIKE ",
    "::int",
    "--",
    "/*",
]


def test_no_filter_ends_the_process(other):
    drawn = random.Random(1)
    filters = ["".join(drawn.choices(WORDS, k=drawn.randrange(40))) for _ in range(100)]
    filters += [f"a{word}" * 120 + "a" for word in WORDS]
    assert other.create("t", NUMBERS).status_code == 200
    for one in filters:
        assert ask(other, "count_rows", predicate=one).status_code in (200, 400), one


def texts(*sizes: int, rows: int = 10_000) -> pa.Array:
    """Make texts that compress well: so many rows of each size."""
    return pa.chunked_array([["x" * size] * rows for size in sizes]).combine_chunks()


CODES = pa.array(range(40_000), pa.int32())
LONG_TEXT = texts(500, 500, 500, 500)
COMPRESSIBLE = {
    "text": LONG_TEXT,
    "a short head": texts(5, 5, 5, 5, 5, 5, 5, 2000),
    "lists": pa.ListArray.from_arrays(
        pa.array(range(0, 4_000_001, 100)), pa.repeat(0, 4_000_000)
    ),
    "structs": pa.StructArray.from_arrays([LONG_TEXT], ["s"]),
}


@pytest.mark.parametrize("column", COMPRESSIBLE.values(), ids=COMPRESSIBLE)
def test_batches_of_rows_that_compress_well_are_small_in_memory(caller, column):
    caller.create("t", pa.table({"n": range(len(column)), "s": column}))
    batches = list(pa.ipc.open_stream(ask(caller).content))
    assert sum(batch.num_rows for batch in batches) == len(column)
    assert max(batch.nbytes for batch in batches) < 3 * 2**20


def test_the_values_of_categories_do_not_make_batches_small(caller):
    column = pa.DictionaryArray.from_arrays(CODES, texts(100, rows=40_000))
    caller.create("t", pa.table({"k": column}))
    assert len(list(pa.ipc.open_stream(ask(caller).content))) == 1


def batches_of(caller, table: pa.Table) -> list[pa.RecordBatch]:
    """Store a table, read it, and return the batches, but not the last."""
    caller.create("t", table)
    batches = list(pa.ipc.open_stream(ask(caller).content))
    assert pa.Table.from_batches(batches) == table
    return batches[:-1]


def test_a_batch_of_a_read_takes_a_megabyte_of_memory(caller):
    table = pa.table({name: range(200_000) for name in "abcd"})
    sizes = {batch.nbytes for batch in batches_of(caller, table)}
    assert sizes == {2**20}


@pytest.mark.parametrize(
    ("column", "rows"),
    [(pa.array([1] * 400_000, pa.int8()), 2**17), (pa.array(["x"] * 40_000), 2**13)],
)
def test_a_batch_of_narrow_rows_has_not_too_many_for_a_first_one_soon(
    caller, column, rows
):
    batches = batches_of(caller, pa.table({"c": column}))
    assert {batch.num_rows for batch in batches} == {rows}


def test_large_rows_that_no_sample_meets_do_not_make_large_batches(caller):
    draw = random.Random(0)
    cells = [draw.randbytes(400_000) if n % 100 == 7 else b"" for n in range(6_400)]
    sizes = [batch.nbytes for batch in batches_of(caller, pa.table({"c": cells}))]
    assert 2**21 < max(sizes) < 2**23


@pytest.mark.long
@pytest.mark.parametrize(
    "sizes", [[1000] * 10, [20] * 5 + [2000] * 5, [20] * 9 + [9000]]
)
def test_two_readers_of_repetitive_text_take_a_hundred_megabytes(tmp_path, sizes):
    def count_rows(url: str) -> int:
        with rt.connect(url, api_key=KEY, dialect="lancedb", default=False) as client:
            reader = pa.RecordBatchReader.from_stream(client.table("t"))
            return sum(batch.num_rows for batch in reader)

    with Process(tmp_path) as service:
        idle = service.peak_megabytes()
        with rt.connect(tmp_path, default=False) as client:
            client.create_table("t", pa.table({"s": texts(*sizes, rows=45_000)}))
        with ThreadPoolExecutor(2) as pool:
            reads = [pool.submit(count_rows, service.caller.url) for _ in range(2)]
        assert [read.result() for read in reads] == [450_000] * 2
        assert service.peak_megabytes() - idle <= 100
