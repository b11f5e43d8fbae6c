"""Wide tables and wide rows: whole pages on disk, a few batches in memory."""

from __future__ import annotations

import time

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import rt_frames as rt
from tests.support.local import Process
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
        idle = service.memory() // 2**20
        reader = iter(pa.RecordBatchReader.from_stream(client.table("t")))
        read = next(reader).num_rows
        time.sleep(2)
        assert service.peak_megabytes() - idle < 80
        assert read + sum(batch.num_rows for batch in reader) == 6 * 10**6
