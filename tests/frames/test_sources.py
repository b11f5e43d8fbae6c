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
FRAME, EXTRA = (
    pl.DataFrame(TABLE),
    pa.table({"n": [4], "s": pa.array(["-"], pa.large_string())}),
)
AFTER = [{"path": "n", "data_type": {"type": "int32"}}]


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

    def __init__(self, batch=None) -> None:
        self.batch = batch or TABLE.to_batches()[0]

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


def duckdb_relation(query: str):
    return pytest.importorskip("duckdb").connect().sql(query)


def dask_of(frame: pd.DataFrame, parts: int = 2, **options):
    return pytest.importorskip("dask.dataframe").from_pandas(
        frame, npartitions=parts, **options
    )


TEXT = pd.array(["x", None, "z"], dtype="string[pyarrow]")
SOURCES = {
    "table": lambda: TABLE,
    "chunks and slices": lambda: pa.concat_tables(
        [TABLE, TABLE.slice(0, 0), TABLE]
    ).slice(3),
    "batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(max_chunksize=2),
    "dataset": lambda: ds.dataset(TABLE),
    "scanner": lambda: ds.dataset(pa.concat_tables([TABLE, EXTRA])).scanner(
        ["n", "s"], ds.field("n") < 4
    ),
    "iterator of batches": lambda: iter(TABLE.to_batches(max_chunksize=1)),
    "generator of frames": lambda: (FRAME[row] for row in range(3)),
    "list of frames": lambda: [FRAME[:1].to_pandas(), FRAME[1:].to_pandas()],
    "query": FRAME.lazy,
    "chunks of Polars": lambda: pl.concat([FRAME] * 3, rechunk=False).slice(3, 3),
    "every other row of pandas": lambda: FRAME.to_pandas().iloc[[0, 0, 1, 1, 2, 2]][
        ::2
    ],
    "a column of a block": lambda: pd.DataFrame(
        np.array([[1, 2, 3], [0, 0, 0]]).T, columns=["n", "s"]
    ).assign(s=TEXT),
    "tables of several chunks": lambda: [
        pa.concat_tables([TABLE[:1], TABLE[1:2]]),
        TABLE[2:],
    ],
    "stream of any library": Capsule,
    "batch of any library": OneBatch,
    "batches of any library": lambda: iter(
        [OneBatch(TABLE.to_batches()[0].slice(i, 1)) for i in range(3)]
    ),
    "DuckDB": lambda: duckdb_relation(
        "FROM (VALUES (1, 'x'), (2, NULL), (3, 'z')) t(n, s)"
    ),
    "Dask": lambda: dask_of(FRAME.to_pandas()),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_arrives_whole_and_in_order(client, service, name, kind):
    assert rt.to_table(SOURCES[kind](), name).rows == 3
    assert stored(service, name).to_pydict() == TABLE.to_pydict()


@pytest.mark.parametrize(
    "before",
    [
        *[
            FRAME,
            FRAME.lazy(),
            FRAME.to_pandas(),
            TABLE,
            TABLE.to_batches()[0],
            ds.dataset(TABLE),
            [FRAME, FRAME],
        ],
        *[
            FRAME.schema,
            TABLE.schema,
            {"n": "int64", "s": str},
            {"n": pl.Int64, "s": pd.StringDtype()},
        ],
        *[CapsuleWithSchema(), OneBatch()],
    ],
    ids=lambda before: type(before).__name__,
)
def test_a_plan_is_made_from_frames_and_schemas_of_every_kind(before):
    for after in (FRAME.cast({"n": pl.Int32}), {"n": "int32", "s": "large_string"}):
        assert rt.plan_alterations(before, after).to_json()["alterations"] == AFTER


@pytest.mark.parametrize("side", ["before", "after"])
def test_what_can_be_read_only_once_is_refused_by_a_plan_and_stays_whole(
    client, name, side
):
    frames = (frame for frame in [FRAME, FRAME])
    for once in (frames, TABLE.to_reader(), Capsule(), iter([FRAME])):
        with pytest.raises(TypeError, match=rf"{side}: .*\.schema"):
            rt.plan_alterations(**{"before": FRAME, "after": FRAME, side: once})
    assert rt.to_table(frames, name).rows == 6


NO_BATCHES = [
    pa.array([1]),
    pa.StructArray.from_arrays([pa.array([1])], ["a"], mask=pa.array([True])),
]
NO_FRAMES = [
    3,
    None,
    pd.Series([1]),
    [],
    OneBatch(NO_BATCHES[0]),
    OneBatch(NO_BATCHES[1]),
]


@pytest.mark.parametrize(
    "data", [*NO_FRAMES, Capsule(pa.chunked_array([NO_BATCHES[1]]))]
)
def test_what_is_no_frame_is_refused_as_data_and_in_a_plan(remote, data):
    with pytest.raises((TypeError, ValueError), match=r"^data: "):
        rt.to_table(data, "t")
    for side in ("before", "after"):
        with pytest.raises(TypeError, match=rf"^{side}: "):
            rt.plan_alterations(**{"before": FRAME, "after": FRAME, side: data})


@pytest.mark.parametrize(
    "bad", [pa.record_batch({"a.b": [1]}), pa.record_batch({"a": pa.nulls(1)}), 3]
)
def test_a_source_that_is_refused_is_closed_while_the_error_still_lives(
    remote, server, bad
):
    sources = [
        (Source(make=lambda number: bad), {}),
        (Source(), {"dtypes": {"z": int}}),
    ]
    for source, options in sources:
        with pytest.raises((ValueError, TypeError)) as caught:
            rt.to_table(source.run(), "t", **options)
        assert (source.closed, caught.value is None) == (True, False)
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
LATE = pl.select(n=pl.int_range(ROWS)).with_columns(
    at=pl.when(pl.col("n") == ROWS - 5000)
    .then(2**63 - 1)
    .otherwise("n")
    .cast(pl.Datetime("us"))
)
AT = pl.col("at")


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
    **{
        str(expr): lambda _, expr=expr: LATE.lazy().with_columns(x=expr)
        for expr in [  # which panic, in Polars
            AT.dt.strftime("%Y"),
            AT.dt.truncate("1mo"),
            AT.dt.month_end(),
            AT.dt.offset_by("1mo"),
            AT.cast(pl.String),
        ]
    },
    **{
        repr(error): lambda _, error=error: raising(error)
        for error in [StopIteration(), GeneratorExit(), KeyError("mine"), EOFError()]
    },
    "a corrupt file": corrupt,
}


@pytest.mark.parametrize("kind", FAILING)
def test_a_query_that_fails_on_a_late_row_raises_and_stores_nothing(
    client, name, tmp_path, kind
):
    with pytest.raises(BaseException) as raised:  # noqa: PT011  # a panic is no Exception
        client.create_table(name, FAILING[kind](tmp_path))
    errors = (
        f"{raised.value!r} {raised.value.__cause__!r} {type(raised.value).__module__}"
    )
    assert "polars" in errors or kind in errors or "out-of-range" in errors
    assert name not in client.list_tables()


def test_a_query_runs_once_and_arrives_in_order(client, service, name):
    seen = []
    counted = LATE.lazy().map_batches(
        lambda batch: (seen.append(batch.height), batch)[1], streamable=True
    )
    assert client.create_table(name, counted).rows == sum(seen) == ROWS
    assert np.array_equal(stored(service, name)["n"], np.arange(ROWS))


def test_a_query_that_nobody_waits_for_any_more_ends(client, name):
    client.create_table(name, FRAME)
    seen = []

    def slow(batch: pl.DataFrame) -> pl.DataFrame:
        time.sleep(0.05)
        seen.append(batch.height)
        return batch

    with pytest.raises(rt.errors.TableExistsError):
        client.create_table(
            name, pl.concat([LATE.lazy()] * 20).map_batches(slow, streamable=True)
        )
    ended = len(seen)
    time.sleep(0.3)
    assert len(seen) == ended
    names = {thread.name for thread in threading.enumerate()}
    assert "rt_frames query" not in names


def test_dask_frames_have_the_accessor_though_dask_was_imported_first():
    pytest.importorskip("dask.dataframe")
    code = "import dask.dataframe as dd, pandas as pd, rt_frames; df = pd.DataFrame({'a': [1]}); "
    code += "print(dd.from_pandas(df, npartitions=1).remote, df.remote)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("to_table") == 2


N = np.arange(8000)
MANY = pd.DataFrame(
    {"n": N, "s": [f"row {i}" for i in N], "f": np.where(N % 7 == 0, np.nan, N / 2)}
)


def with_own_categories(part: pd.DataFrame) -> pd.DataFrame:
    return part.assign(
        c=(part["n"] // 1000).astype(str).astype("category"),
        n=part["n"].where(part["n"] != 2500),
    )


@pytest.mark.parametrize("where", ["threads", "processes"])
def test_dask_partitions_arrive_in_order_with_categories_and_types_of_their_own(
    client, service, name, where
):
    parts = dask_of(MANY, 8).map_partitions(
        with_own_categories, meta={**MANY.dtypes, "n": "float64", "c": "category"}
    )
    with pytest.raises(
        UnsupportedTypeError, match=r"'n' is double in partition 2, but int64"
    ):
        rt.to_table(parts, name)
    if where == "threads":
        rt.to_table(parts, name, dtypes={"n": "int64"})
    else:
        distributed = pytest.importorskip("distributed")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
            ) as cluster,
            distributed.Client(cluster),
        ):
            rt.to_table(parts, name, dtypes={"n": "int64"})
    wanted = {"n": [None if n == 2500 else n for n in N], "s": MANY["s"].tolist()}
    wanted |= {
        "f": [None if n % 7 == 0 else n / 2 for n in N],
        "c": [str(n // 1000) for n in N],
    }
    assert stored(service, name).to_pydict() == wanted


def fails_at_5(part: pd.DataFrame, partition_info: dict | None = None) -> pd.DataFrame:
    if partition_info is not None and partition_info["number"] == 5:
        raise LookupError("no such sensor")
    return part


def test_a_dask_partition_that_fails_is_its_own_error_and_nothing_is_stored(
    client, name
):
    with pytest.raises(LookupError, match="no such sensor"):
        rt.to_table(dask_of(MANY, 8).map_partitions(fails_at_5, meta=MANY), name)
    assert name not in client.list_tables()


@pytest.mark.parametrize(
    "index",
    [pd.date_range("2020-01-01", periods=4), pd.Index([1, 2, 3, 4], name="k"), None],
)
def test_dask_keeps_the_index_as_pandas_does_and_a_plan_computes_nothing(
    client, service, name, index
):
    whole, computed = pd.DataFrame({"a": [1, 2, 3, 4]}, index=index), []
    parts = dask_of(whole).map_partitions(
        lambda part: (computed.append(1), part)[1], meta=whole
    )
    assert parts.remote.schema == whole.remote.schema
    assert not rt.plan_alterations(parts, whole)
    assert computed == []
    parts.remote.to_table(name)
    assert stored(service, name).to_pydict() == whole.reset_index(
        drop=index is None
    ).to_dict("list")
