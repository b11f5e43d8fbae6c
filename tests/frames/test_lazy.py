"""A query whose result is stored: complete, or an error and nothing stored; it runs once, however it ends."""

from __future__ import annotations

import threading
import time

import lance
import polars as pl
import pytest

import rt_frames as rt

ROWS = 400_000
LATE = pl.select(n=pl.int_range(ROWS)).with_columns(
    at=pl.when(pl.col("n") == ROWS - 5000).then(2**63 - 1).otherwise("n").cast(pl.Datetime("us"))
)
PANICS = {
    "strftime": pl.col("at").dt.strftime("%Y"),
    "truncate": pl.col("at").dt.truncate("1mo"),
    "month_end": pl.col("at").dt.month_end(),
    "offset_by": pl.col("at").dt.offset_by("1mo"),
    "cast": pl.col("at").cast(pl.String),
}


@pytest.fixture
def client(tmp_path):
    with rt.connect(tmp_path / "tables", default=False) as client:
        yield client


def failing(error: BaseException):
    def check(batch: pl.DataFrame) -> pl.DataFrame:
        if batch["n"].max() > ROWS // 2:
            raise error
        return batch

    return LATE.lazy().map_batches(check, streamable=True)


@pytest.mark.parametrize("name", PANICS)
def test_a_query_that_panics_on_one_value_stores_nothing(client, name):
    with pytest.raises(BaseException, match="out-of-range"):  # a panic is no Exception
        client.create_table("t", LATE.lazy().with_columns(x=PANICS[name]))
    assert client.list_tables() == []


@pytest.mark.parametrize("error", [StopIteration(), GeneratorExit(), KeyError("mine"), EOFError()], ids=repr)
def test_whatever_a_users_function_raises_is_not_the_end_of_the_rows(client, error):
    with pytest.raises(BaseException) as raised:  # noqa: PT011  # each in its way
        client.create_table("t", failing(error))
    assert error in (raised.value, raised.value.__cause__) or type(error).__name__ in str(raised.value)
    assert client.list_tables() == []


def test_a_corrupt_file_in_the_middle_of_a_query_stores_nothing(client, tmp_path):
    for part in range(4):
        LATE.write_parquet(tmp_path / f"{part}.parquet", compression="zstd")
    body = (tmp_path / "2.parquet").read_bytes()
    third = len(body) // 3
    (tmp_path / "2.parquet").write_bytes(body[:third] + bytes(third) + body[2 * third :])
    with pytest.raises(pl.exceptions.PolarsError):
        client.create_table("t", pl.scan_parquet(tmp_path / "*.parquet"))
    assert client.list_tables() == []


def test_a_query_runs_once_and_arrives_in_order(client):
    seen = []
    counted = LATE.lazy().map_batches(lambda batch: (seen.append(batch.height), batch)[1], streamable=True)
    assert client.create_table("t", counted).rows == ROWS
    assert sum(seen) == ROWS
    stored = lance.dataset(f"{client}/t.lance").to_table(columns=["n"])
    assert stored["n"].to_numpy().tolist() == list(range(ROWS))


def test_a_query_that_nobody_waits_for_any_more_ends(client):
    client.create_table("t", pl.DataFrame({"n": [1]}))
    seen = []

    def slow(batch: pl.DataFrame) -> pl.DataFrame:
        time.sleep(0.05)
        seen.append(batch.height)
        return batch

    before = threading.active_count()
    with pytest.raises(rt.errors.TableExistsError):
        client.create_table("t", pl.concat([LATE.lazy()] * 20).map_batches(slow, streamable=True))
    ended = len(seen)
    time.sleep(0.3)
    assert len(seen) == ended
    assert threading.active_count() <= before + 1
