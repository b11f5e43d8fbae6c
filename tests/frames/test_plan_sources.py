"""What a plan is made from: anything that has columns, and nothing that would be used up."""

from __future__ import annotations

import gc

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.compare import stored
from tests.support.sent import send
from tests.support.sources import Source

BEFORE = pl.DataFrame({"n": [1, 2], "s": ["x", "y"]})
AFTER = [{"path": "n", "data_type": {"type": "int32"}}]
TABLE = BEFORE.to_arrow()


class Capsule:
    """A frame of a library that nobody knows, whose stream may be one that is used up."""

    def __init__(self, data=TABLE) -> None:
        self.asked, self.data = 0, data

    def __arrow_c_stream__(self, requested_schema=None):
        self.asked += 1
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


@pytest.mark.parametrize(
    "data", [OneBatch(), iter([OneBatch(), OneBatch()]), [OneBatch()]], ids=["alone", "iterator", "list"]
)
def test_a_batch_of_any_library_is_sent_alone_and_in_iterators(service, client, name, data):
    rows = rt.to_table(data, name).rows
    assert stored(service, name).to_pylist() == (TABLE.to_pylist() * 2)[:rows]


NO_BATCHES = [pa.array([1]), pa.StructArray.from_arrays([pa.array([1])], ["a"], mask=pa.array([True]))]


@pytest.mark.parametrize("array", NO_BATCHES, ids=["column", "null"])
def test_what_is_no_batch_is_refused(client, array):
    with pytest.raises(UnsupportedTypeError, match=r"^data: Arrow cannot read what .*OneBatch offers"):
        rt.to_table(OneBatch(array), "t")
    for odd in (OneBatch(NO_BATCHES[0]), pa.int64()):
        with pytest.raises(TypeError, match=r"^before: .* is neither a frame in memory nor a schema"):
            rt.plan_alterations(odd, BEFORE)


def test_a_stream_of_rows_that_are_null_as_a_whole_is_refused(client):
    with pytest.raises(UnsupportedTypeError, match=r"^data: it has rows that are null as a whole"):
        rt.to_table(Capsule(pa.chunked_array([NO_BATCHES[1]])), "t")
    assert "t" not in rt.list_tables()


@pytest.mark.parametrize(
    "before",
    [
        *[BEFORE, BEFORE.lazy(), BEFORE.to_pandas(), TABLE, TABLE.to_batches()[0], ds.dataset(TABLE), [BEFORE, BEFORE]],
        *[BEFORE.schema, TABLE.schema, {"n": "int64", "s": str}, {"n": pl.Int64, "s": pd.StringDtype()}],
        *[CapsuleWithSchema(), OneBatch()],
    ],
    ids=lambda before: type(before).__name__,
)
def test_a_plan_is_made_from_frames_and_schemas_of_every_kind(before):
    for after in (BEFORE.cast({"n": pl.Int32}), {"n": "int32", "s": "large_string"}):
        assert rt.plan_alterations(before, after).to_json()["alterations"] == AFTER
    assert getattr(before, "asked", 0) == 0


def test_a_plan_is_made_from_the_table_that_was_created(client, name):
    table = rt.to_table(BEFORE, name)
    plan = rt.plan_alterations(table, BEFORE.cast({"n": pl.Int32}))
    assert plan.to_json()["alterations"] == AFTER
    with pytest.raises(ValueError, match=f"before: the columns of table {name!r} are not known here"):
        rt.plan_alterations(client.table(name), BEFORE)


def test_a_plan_computes_no_dask_partition():
    dd = pytest.importorskip("dask.dataframe")
    computed = []

    def touch(part):
        computed.append(len(part))
        return part

    meta = pd.DataFrame({"n": pd.Series(dtype="int64"), "s": pd.Series(dtype="string")})
    frame = dd.from_pandas(BEFORE.to_pandas(), npartitions=2).map_partitions(touch, meta=meta)
    assert rt.plan_alterations(frame, BEFORE.cast({"n": pl.Int32})).to_json()["alterations"] == AFTER
    assert computed == []


@pytest.mark.parametrize("side", ["before", "after"])
def test_what_can_be_read_only_once_is_refused_by_a_plan_and_stays_whole(client, name, side):
    frames = (frame for frame in [BEFORE, BEFORE])
    for once in (frames, TABLE.to_reader(), Capsule(), iter([BEFORE])):
        sides = {"before": BEFORE, "after": BEFORE, side: once}
        with pytest.raises(TypeError, match=rf"{side}: .*use up its rows.*Pass .*\.schema"):
            rt.plan_alterations(**sides)
    assert rt.to_table(frames, f"{name}_{side}".replace("[", "_")).rows == 4


@pytest.mark.parametrize("data", [3, "text", None, pd.Series([1]), {1: "int64"}, []])
def test_what_has_no_columns_is_refused_by_a_plan(data):
    with pytest.raises(TypeError, match="after: "):
        rt.plan_alterations(BEFORE, data)


@pytest.mark.parametrize("bad", [pa.record_batch({"a.b": [1]}), pa.record_batch({"a": pa.nulls(1)}), 3])
def test_a_source_that_is_refused_is_closed_while_the_error_still_lives(remote, server, bad):
    source = Source(make=lambda number: bad)
    with pytest.raises((ValueError, TypeError)) as caught:
        rt.to_table(source.run(), "t")
    assert source.closed
    with pytest.raises(ValueError, match="'z'"):
        rt.to_table((good := Source()).run(), "t", dtypes={"z": int})
    assert good.closed
    assert server.requests == []
    assert caught.value is not None


def test_a_refused_duckdb_relation_leaves_the_connection_free(remote, server):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    relation = connection.sql('select i as "a.b" from range(1000000) t(i)')
    with pytest.raises(ValueError, match="a dot") as caught:
        rt.to_table(relation, "t")
    gc.collect()
    assert connection.sql("select 1").fetchall() == [(1,)]
    assert server.requests == []
    assert caught.value is not None


@pytest.mark.parametrize("frame", [pl.DataFrame({"n": [None]}), pa.table({"n": pa.nulls(1)})])
def test_a_plan_that_meets_a_column_without_a_type_offers_no_option_that_it_has_not(frame):
    with pytest.raises(rt.errors.UnsupportedTypeError, match="cast it to the type") as caught:
        rt.plan_alterations(frame, pl.DataFrame({"n": [1]}))
    assert "dtypes=" not in str(caught.value)


def test_a_stream_that_arrow_cannot_read_is_refused_with_the_reason():
    frame = pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128)})
    with pytest.raises(UnsupportedTypeError, match=r"data: Arrow cannot read .*; cast the column first"):
        send(Capsule(frame))
