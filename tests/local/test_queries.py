"""Reading over HTTP: queries, and those that the engine refuses."""

from __future__ import annotations

import random
import re
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.local import ARROW, NUMBERS, Process, message
from tests.support.servers import KEY


def rows(answer):
    assert answer.headers["Content-Type"] == ARROW
    with pa.ipc.open_stream(answer.content) as reader:
        return reader.read_all()


@pytest.fixture
def there(caller):
    caller.create("t", NUMBERS)
    return caller


def test_rows_are_filtered_counted_selected_and_limited(there):
    assert rows(there.ask("query")).equals(NUMBERS)
    found = rows(there.ask("query", filter="a > 1", columns=["c", "a"], k=1))
    assert found.to_pylist() == [{"c": None, "a": 2}]
    assert rows(there.ask("query", filter="a > 5")).equals(NUMBERS[:0])
    assert rows(there.ask("query", k=0)).equals(NUMBERS[:0])
    assert rows(there.ask("query", offset=2**62, k=2**63 - 1)).num_rows == 0
    numbers = ", ".join(map(str, range(2, 1500)))
    assert rows(there.ask("query", filter=f"a IN ({numbers})")).equals(NUMBERS[1:])
    assert there.ask("count_rows").json() == 3
    assert there.ask("count_rows", predicate="c IS NULL OR lower(c) = 'x'").json() == 2
    there.alter("t", {"path": "a", "rename": "z"})
    assert rows(there.ask("query", version=1)).equals(NUMBERS)
    assert rows(there.ask("query")).column_names == ["z", "b", "c"]


@pytest.mark.parametrize(
    ("request_", "status", "told"),
    [
        ({"filter": 7}, 400, "string"),
        ({"filter": "a = " + "/nope" * 80}, 400, "parsing statement"),
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
    answer = there.ask("query", **request_)
    assert told in message(answer, status)
    assert "/home" not in answer.text
    assert str(there.root).strip("/") not in answer.text


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"filter": "a >"}, "invalid filter: .*Expected: an expression, found: EOF"),
        ({"filter": "c = 'x"}, "invalid filter: .*Unterminated string literal"),
        ({"filter": "a"}, "invalid filter: The filter a does not return a boolean"),
        ({"filter": "1 / 0 = a"}, "invalid filter: Divide by zero error"),
        ({"filter": "nope = 1"}, "invalid filter: No field named nope"),
        ({"columns": ["nope"]}, "invalid query: No field named nope"),
    ],
)
def test_the_engine_s_reason_is_told(there, request_, told):
    assert re.match(f"{told}.*; correct it$", message(there.ask("query", **request_)))


def test_a_body_that_is_not_an_object_is_refused(there):
    for body in ("[]", "x", "[" * 100_000, b"\xff"):
        for operation in ("describe", "count_rows", "query"):
            answer = there.send("POST", f"/v1/table/t/{operation}/", body)
            assert "JSON object" in message(answer, 400)


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
    batches = list(pa.ipc.open_stream(caller.ask("query").content))
    assert sum(batch.num_rows for batch in batches) == len(column)
    assert max(batch.nbytes for batch in batches) < 3 * 2**20


def test_the_values_of_categories_do_not_make_batches_small(caller):
    column = pa.DictionaryArray.from_arrays(CODES, texts(100, rows=40_000))
    caller.create("t", pa.table({"k": column}))
    assert len(list(pa.ipc.open_stream(caller.ask("query").content))) == 1


def batches_of(caller, table: pa.Table) -> list[pa.RecordBatch]:
    """Store a table, read it, and return the batches, but not the last."""
    caller.create("t", table)
    batches = list(pa.ipc.open_stream(caller.ask("query").content))
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
def test_two_readers_of_repetitive_text_take_sixty_megabytes_each(tmp_path, sizes):
    def count_rows(url: str) -> int:
        with rt.connect(url, api_key=KEY, dialect="lancedb", default=False) as client:
            reader = pa.RecordBatchReader.from_stream(client.table("t"))
            return sum(batch.num_rows for batch in reader)

    with Process(tmp_path) as service:
        idle = service.megabytes("VmHWM")
        with rt.connect(tmp_path, default=False) as client:
            client.create_table("t", pa.table({"s": texts(*sizes, rows=45_000)}))
        with ThreadPoolExecutor(2) as pool:
            reads = [pool.submit(count_rows, service.caller.url) for _ in range(2)]
        assert [read.result() for read in reads] == [450_000] * 2
        assert service.megabytes("VmHWM") - idle <= 120
