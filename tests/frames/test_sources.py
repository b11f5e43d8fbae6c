"""Frames, streams, queries and Dask: read once, whole, in order, and closed."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.compare import stored
from tests.support.sources import Source

TABLE = pa.table({"n": [1, 2, 3], "s": pa.array(["x", None, "z"], pa.large_string())})
FRAME = pl.DataFrame(TABLE)
EXTRA = pa.table({"n": [4], "s": pa.array(["-"], pa.large_string())})
FOUR = pa.concat_tables([TABLE, EXTRA])
TWICE = pa.concat_tables([TABLE, TABLE.slice(0, 0), TABLE])
BATCH = TABLE.to_batches()[0]


class Capsule:
    """A frame of an unknown library, whose stream may be exhausted."""

    def __init__(self, data=TABLE) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema=None):
        return self.data.__arrow_c_stream__(requested_schema)


class CapsuleWithSchema(Capsule):
    def __arrow_c_schema__(self):
        return TABLE.schema.__arrow_c_schema__()


class OneBatch:
    """A batch of a library that nobody knows, as arro3 and nanoarrow have them."""

    def __init__(self, batch=BATCH) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


def duckdb_relation(query: str):
    return pytest.importorskip("duckdb").connect().sql(query)


def dask_of(frame: pd.DataFrame, parts: int = 2):
    dask = pytest.importorskip("dask.dataframe")
    return dask.from_pandas(frame, npartitions=parts)


VALUES = "FROM (VALUES (1, 'x'), (2, NULL), (3, 'z')) t(n, s)"
THIRDS = [FRAME[:1], FRAME[1:2], FRAME[2:]]
CHUNKED = pa.concat_tables([TABLE[:1], TABLE[1:2]])
EACH_TWICE = FRAME.to_pandas().iloc[[0, 0, 1, 1, 2, 2]]
# of which pandas keeps two columns in one block
NUMBERS = pd.DataFrame(np.array([[1, 0], [2, 0], [3, 0]]), columns=["n", "s"])
TEXT = pd.array(["x", None, "z"], dtype="string[pyarrow]")
SOURCES = {
    "table": lambda: TABLE,
    "chunks and slices": lambda: TWICE.slice(3),
    "batch": lambda: BATCH,
    "reader": lambda: TABLE.to_reader(max_chunksize=2),
    "dataset": lambda: ds.dataset(TABLE),
    "scanner": lambda: ds.dataset(FOUR).scanner(["n", "s"], ds.field("n") < 4),
    "iterator of batches": lambda: iter(TABLE.to_batches(max_chunksize=1)),
    "generator of frames": lambda: (frame for frame in THIRDS),
    "list of frames": lambda: [FRAME[:1].to_pandas(), FRAME[1:].to_pandas()],
    "query": FRAME.lazy,
    "chunks of Polars": lambda: pl.concat([FRAME] * 3, rechunk=False).slice(3, 3),
    "every other row of pandas": lambda: EACH_TWICE[::2],
    "a column of a block": lambda: NUMBERS.assign(s=TEXT),
    "tables of several chunks": lambda: [CHUNKED, TABLE[2:]],
    "stream of any library": Capsule,
    "batch of any library": OneBatch,
    "batches of any library": lambda: iter([OneBatch(BATCH[:1]), OneBatch(BATCH[1:])]),
    "DuckDB": lambda: duckdb_relation(VALUES),
    "Dask": lambda: dask_of(FRAME.to_pandas()),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_arrives_whole_and_in_order(client, service, name, kind):
    assert rt.to_table(SOURCES[kind](), name).rows == 3
    assert stored(service, name).to_pydict() == TABLE.to_pydict()


BEFORE = [
    FRAME,
    FRAME.lazy(),
    FRAME.to_pandas(),
    TABLE,
    BATCH,
    ds.dataset(TABLE),
    [FRAME, FRAME],
    FRAME.schema,
    TABLE.schema,
    {"n": "int64", "s": str},
    {"n": pl.Int64, "s": pd.StringDtype()},
    CapsuleWithSchema(),
    OneBatch(),
]
AFTER = [FRAME.cast({"n": pl.Int32}), {"n": "int32", "s": "large_string"}]


@pytest.mark.parametrize("before", BEFORE, ids=lambda before: type(before).__name__)
@pytest.mark.parametrize("after", AFTER, ids=["frame", "schema"])
def test_a_plan_is_made_from_frames_and_schemas_of_every_kind(before, after):
    plan = rt.plan_alterations(before, after)
    cast = {"path": "n", "data_type": {"type": "int32"}}
    assert plan.to_json() == {"alterations": [cast]}


ONCE = {
    "generator": lambda: (frame for frame in [FRAME, FRAME]),
    "reader": lambda: pa.concat_tables([TABLE, TABLE]).to_reader(),
    "capsule": lambda: Capsule(pa.concat_tables([TABLE, TABLE])),
    "iterator": lambda: iter([FRAME, FRAME]),
}


@pytest.mark.parametrize("kind", ONCE)
def test_what_can_be_read_only_once_is_refused_by_a_plan_and_stays_whole(
    client, name, kind
):
    once = ONCE[kind]()
    with pytest.raises(TypeError, match=r"before: .*\.schema"):
        rt.plan_alterations(once, FRAME)
    with pytest.raises(TypeError, match=r"after: .*\.schema"):
        rt.plan_alterations(FRAME, once)
    assert rt.to_table(once, name).rows == 6


ONES = pa.array([1])
NULL_ROW = pa.StructArray.from_arrays([ONES], ["a"], mask=pa.array([True]))
NO_FRAMES = [
    3,
    None,
    pd.Series([1]),
    [],
    OneBatch(ONES),
    OneBatch(NULL_ROW),
    Capsule(pa.chunked_array([NULL_ROW])),
]


@pytest.mark.parametrize("data", NO_FRAMES)
def test_what_is_no_frame_is_refused_as_data_and_in_a_plan(remote, data):
    with pytest.raises((TypeError, ValueError), match=r"^data: "):
        rt.to_table(data, "t")
    with pytest.raises(TypeError, match=r"^before: "):
        rt.plan_alterations(data, FRAME)
    with pytest.raises(TypeError, match=r"^after: "):
        rt.plan_alterations(FRAME, data)


@pytest.mark.parametrize(
    ("item", "dtypes"),
    [
        (pa.record_batch({"a.b": [1]}), None),
        (pa.record_batch({"a": pa.nulls(1)}), None),
        (3, None),
        (pa.record_batch({"a": [1]}), {"z": int}),
    ],
)
def test_a_source_that_is_refused_is_closed_while_the_error_still_lives(
    remote, server, item, dtypes
):
    source = Source(make=lambda number: item)
    with pytest.raises((ValueError, TypeError)) as caught:
        rt.to_table(source.run(), "t", dtypes=dtypes)
    assert source.closed
    assert caught.value is not None
    assert server.requests == []


def test_a_relation_that_is_refused_can_be_read_while_the_error_still_lives(
    remote, server
):
    relation = duckdb_relation(
        'SELECT i AS "a.b", INTERVAL 1 DAY AS lasts FROM range(5000) t(i)'
    )
    with pytest.raises(ValueError, match=r"'a\.b'") as caught:
        rt.to_table(relation, "t")
    gc.collect()
    assert relation.limit(1).fetchall()
    assert caught.value is not None
    assert server.requests == []


ROWS = 400_000
N = pl.col("n")
AT = pl.col("at")
MOMENTS = pl.when(N == ROWS - 5000).then(2**63 - 1).otherwise(N).cast(pl.Datetime("us"))
LATE = pl.select(n=pl.int_range(ROWS)).with_columns(at=MOMENTS)


def raising(error: BaseException) -> pl.LazyFrame:
    def check(batch: pl.DataFrame) -> pl.DataFrame:
        if batch["n"].max() > ROWS // 2:
            raise error
        return batch

    return LATE.lazy().map_batches(check, streamable=True)


def corrupt(folder) -> pl.LazyFrame:
    for part in range(4):
        LATE.write_parquet(folder / f"{part}.parquet", compression="zstd")
    body = (folder / "2.parquet").read_bytes()
    third = len(body) // 3
    (folder / "2.parquet").write_bytes(body[:third] + bytes(third) + body[2 * third :])
    return pl.scan_parquet(folder / "*.parquet")


FAILING = {
    # which panic, in Polars
    "year": lambda _: LATE.lazy().with_columns(AT.dt.strftime("%Y")),
    "a month later": lambda _: LATE.lazy().with_columns(AT.dt.offset_by("1mo")),
    "text": lambda _: LATE.lazy().with_columns(AT.cast(pl.String)),
    "StopIteration()": lambda _: raising(StopIteration()),
    "KeyError('mine')": lambda _: raising(KeyError("mine")),
    "EOFError()": lambda _: raising(EOFError()),
    "a corrupt file": corrupt,
}


@pytest.mark.parametrize("kind", FAILING)
def test_a_query_that_fails_on_a_late_row_raises_and_stores_nothing(
    client, name, tmp_path, kind
):
    with pytest.raises(BaseException) as raised:  # noqa: PT011  # a panic is no Exception
        client.create_table(name, FAILING[kind](tmp_path))
    error = raised.value
    told = f"{error!r} {error.__cause__!r} {type(error).__module__}"
    assert "polars" in told or kind in told or "out-of-range" in told
    assert name not in client.list_tables()


def test_a_query_runs_once_and_arrives_in_order(client, service, name):
    seen = []

    def count(batch: pl.DataFrame) -> pl.DataFrame:
        seen.append(batch.height)
        return batch

    table = client.create_table(name, LATE.lazy().map_batches(count, streamable=True))
    assert table.rows == ROWS
    assert sum(seen) == ROWS
    assert np.array_equal(stored(service, name)["n"], np.arange(ROWS))


def test_a_query_that_nobody_waits_for_any_more_ends(client, name):
    client.create_table(name, FRAME)
    seen = []

    def slow(batch: pl.DataFrame) -> pl.DataFrame:
        time.sleep(0.05)
        seen.append(batch.height)
        return batch

    query = pl.concat([LATE.lazy()] * 20).map_batches(slow, streamable=True)
    with pytest.raises(rt.errors.TableExistsError):
        client.create_table(name, query)
    ended = len(seen)
    time.sleep(0.3)
    assert len(seen) == ended
    names = [thread.name for thread in threading.enumerate()]
    assert "rt_frames query" not in names


DASK_FIRST = """
import dask.dataframe as dd, pandas as pd, rt_frames
frame = pd.DataFrame({"a": [1]})
print(frame.remote)
print(dd.from_pandas(frame, npartitions=1).remote)
"""


def test_dask_frames_have_the_accessor_though_dask_was_imported_first():
    pytest.importorskip("dask.dataframe")
    command = [sys.executable, "-W", "ignore", "-c", DASK_FIRST]
    assert subprocess.check_output(command, text=True).count("to_table") == 2


NUMBERED = np.arange(8000)
MANY = pd.DataFrame(
    {
        "n": NUMBERED,
        "s": [f"row {n}" for n in NUMBERED],
        "f": np.where(NUMBERED % 7 == 0, np.nan, NUMBERED / 2),
    }
)


def with_own_categories(part: pd.DataFrame) -> pd.DataFrame:
    thousands = (part["n"] // 1000).astype(str).astype("category")
    return part.assign(c=thousands, n=part["n"].where(part["n"] != 2500))


def test_dask_partitions_arrive_in_order_with_categories_and_types_of_their_own(
    client, service, name
):
    kinds = {**MANY.dtypes, "n": "float64", "c": "category"}
    parts = dask_of(MANY, 8).map_partitions(with_own_categories, meta=kinds)
    told = r"'n' is double in partition 2, but int64"
    with pytest.raises(UnsupportedTypeError, match=told):
        rt.to_table(parts, name)
    rt.to_table(parts, name, dtypes={"n": "int64"})
    found = stored(service, name).to_pydict()
    assert found["n"] == [None if n == 2500 else n for n in NUMBERED]
    assert found["s"] == MANY["s"].tolist()
    assert found["f"] == [None if n % 7 == 0 else n / 2 for n in NUMBERED]
    assert found["c"] == [str(n // 1000) for n in NUMBERED]


def fails_at_5(part: pd.DataFrame, partition_info: dict | None = None) -> pd.DataFrame:
    if partition_info is not None and partition_info["number"] == 5:
        raise LookupError("no such sensor")
    return part


def test_a_dask_partition_that_fails_is_its_own_error_and_nothing_is_stored(
    client, name
):
    parts = dask_of(MANY, 8).map_partitions(fails_at_5, meta=MANY)
    with pytest.raises(LookupError, match="no such sensor"):
        rt.to_table(parts, name)
    assert name not in client.list_tables()


DAYS = pd.date_range("2020-01-01", periods=4)
LEVELS = [
    (DAYS, {"index": DAYS.to_pydatetime().tolist(), "a": [1, 2, 3, 4]}),
    (pd.Index([5, 6, 7, 8], name="k"), {"k": [5, 6, 7, 8], "a": [1, 2, 3, 4]}),
    (None, {"a": [1, 2, 3, 4]}),
]


@pytest.mark.parametrize(("index", "columns"), LEVELS)
def test_dask_keeps_the_index_as_pandas_does_and_a_plan_computes_nothing(
    client, service, name, index, columns
):
    whole = pd.DataFrame({"a": [1, 2, 3, 4]}, index=index)
    computed = []

    def compute(part: pd.DataFrame) -> pd.DataFrame:
        computed.append(1)
        return part

    parts = dask_of(whole).map_partitions(compute, meta=whole)
    assert parts.remote.schema == whole.remote.schema
    assert not rt.plan_alterations(parts, whole)
    assert computed == []
    parts.remote.to_table(name)
    assert stored(service, name).to_pydict() == columns
