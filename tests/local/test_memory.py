"""Wide tables and wide rows: whole pages on disk, a few batches in memory.

Which columns a condition touches is asked of ``local.scans`` itself.
"""

from __future__ import annotations

import shutil
import time

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import rt_frames as rt
from rt_frames.local import scans
from tests.support.local import Process
from tests.support.processes import reset_peak
from tests.support.servers import KEY


def pages(folder) -> list[int]:
    """Return the number of pages of each column in each file of a table."""
    files = [LanceFileReader(str(path)) for path in folder.glob("data/*")]
    columns = [column for file in files for column in file.metadata().columns]
    return [len(column.pages) for column in columns]


def test_a_column_of_a_wide_table_that_comes_in_batches_is_one_page(tmp_path):
    draw = np.random.default_rng(0)
    table = pa.table({f"c{n}": draw.random(20_000) for n in range(40)})

    def batches() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(
            table.schema, table.to_batches(max_chunksize=1000)
        )

    with rt.connect(tmp_path, default=False) as client:
        client.create_table("t", batches())
        client.create_table("t", batches(), if_exists="append")
    assert pages(tmp_path / "t.lance") == [1] * 80
    stored = lance.dataset(str(tmp_path / "t.lance")).to_table()
    assert stored == pa.concat_tables([table, table])


@pytest.mark.long
def test_a_reader_that_pauses_takes_one_buffer_however_many_files_there_are(tmp_path):
    draw = np.random.default_rng(0)
    for _ in range(6):
        rows = pa.table({name: draw.random(10**6) for name in "abcd"})
        lance.write_dataset(rows, tmp_path / "t.lance", mode="append")
    with (
        Process(tmp_path) as service,
        rt.connect(
            service.caller.url, api_key=KEY, dialect="lancedb", default=False
        ) as client,
    ):
        client.table("t").head()
        idle = service.megabytes()
        reader = iter(pa.RecordBatchReader.from_stream(client.table("t")))
        read = next(reader).num_rows
        time.sleep(2)
        assert service.megabytes("VmHWM") - idle < 80
        assert read + sum(batch.num_rows for batch in reader) == 6 * 10**6


ROWS = 600
CELL = 10**6


def texts() -> pa.Array:
    """Make texts that take little room on disk."""
    return pa.array(f"{n}{'x' * CELL}" for n in range(ROWS))


def numbers() -> pa.Array:
    return pa.array(np.random.default_rng(0).random(ROWS * CELL // 8))


WIDE = {
    "texts": texts,
    "lists": lambda: pa.ListArray.from_arrays(
        pa.array(range(0, ROWS * CELL // 8 + 1, CELL // 8), pa.int32()), numbers()
    ),
    "arrays": lambda: pa.FixedSizeListArray.from_arrays(numbers(), CELL // 8),
}
SOME = "(s IS NULL OR n < 3)"
CALLS = {
    "a count": ("count_rows", {"predicate": SOME}),
    "a deletion": ("delete", {"predicate": SOME}),
    "a filter": ("query", {"filter": SOME, "columns": ["n"]}),
    "a read": ("query", {"filter": SOME}),
}


@pytest.fixture(scope="module", params=WIDE)
def wide(request, tmp_path_factory):
    """The path of a table with large values in its column ``s``."""
    path = tmp_path_factory.mktemp("wide") / "t.lance"
    table = pa.table({"n": range(ROWS), "s": WIDE[request.param]()})
    with rt.connect(path.parent, default=False) as client:
        client.create_table("t", table)
    return path


# how much depends on how Lance's threads meet; all rows take over 1,100
A_FEW_MB = 800


def taken(service: Process, operation: str, **request: object) -> int:
    """Make a request, and return by how many megabytes the memory has grown."""
    service.caller.send("POST", "/v1/table/t/query/", '{"k": 1, "columns": ["n"]}')
    reset_peak(service.pid)
    before = service.megabytes()
    answer = service.caller.ask(operation, **request)
    assert answer.status_code == 200, answer.text
    return service.megabytes("VmHWM") - before


@pytest.mark.long
@pytest.mark.parametrize("call", CALLS)
def test_what_is_touched_by_a_condition_is_in_memory_for_a_few_rows(
    wide, tmp_path, call
):
    operation, request = CALLS[call]
    shutil.copytree(wide, tmp_path / "t.lance")
    with Process(tmp_path) as service:
        assert taken(service, operation, **request) < A_FEW_MB
    left = lance.dataset(str(tmp_path / "t.lance")).to_table(columns=["n"])
    deleted = 3 if call == "a deletion" else 0
    assert left["n"].to_pylist() == [*range(deleted, ROWS)]


@pytest.mark.long
def test_a_column_of_nulls_is_compacted_with_a_few_of_them_in_memory(tmp_path):
    for start in range(0, 3000, 1500):
        rows = pa.table({"n": range(start, start + 1500)})
        lance.write_dataset(rows, tmp_path / "t.lance", mode="append")
    added = pa.schema({"s": pa.list_(pa.float64(), 2**16)})
    lance.dataset(str(tmp_path / "t.lance")).add_columns(added)
    with Process(tmp_path) as service:
        assert taken(service, "compact") < A_FEW_MB
    table = lance.dataset(str(tmp_path / "t.lance"))
    assert len(table.get_fragments()) == 1
    assert table.count_rows("s IS NULL") == 3000
    assert table.to_table(columns=["n"])["n"].to_pylist() == [*range(3000)]


def test_columns_that_only_a_condition_names_are_touched(tmp_path):
    """Whatever their names: each word of one stands in the condition."""
    names = ["plain", "Two Words", "a-b", "größe", 'x"y', "+"]
    cells = pa.array(["x" * 10**6] * 20)
    lance.write_dataset(
        pa.table([range(20), *[cells] * 6], ["n", *names]), tmp_path / "t"
    )
    table = lance.dataset(str(tmp_path / "t"))
    assert scans.options(table, ["n"], None)["batch_size"] > 1000
    for name in names:
        condition = f"`{name}` = 'z'"
        assert table.count_rows(condition) == 0
        assert scans.options(table, ["n"], condition)["batch_size"] == 1
