"""The main job on real data: every flight that left New York in 2013, from pandas and from Polars."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import rt_frames as rt
from tests.support.compare import assert_same_values, stored, stored_by_lancedb


@pytest.fixture(scope="module")
def flights_pandas(flights_csv):
    frame = pd.read_csv(flights_csv)
    return frame.assign(
        time_hour=pd.to_datetime(frame["time_hour"]),
        carrier=frame["carrier"].astype("category"),
        dep_time=frame["dep_time"].astype("Int64"),
    )


@pytest.fixture(scope="module")
def flights_polars(flights_csv):
    return pl.read_csv(flights_csv, try_parse_dates=True, null_values="NA").with_columns(
        pl.col("carrier").cast(pl.Categorical)
    )


def test_the_flights_are_all_there(flights_pandas, flights_polars):
    assert len(flights_pandas) == flights_polars.height == 336_776


@pytest.mark.parametrize("read", [stored, stored_by_lancedb], ids=["lance", "lancedb"])
def test_every_value_of_the_flights_arrives_from_pandas(client, service, name, flights_pandas, read):
    table = flights_pandas.remote.to_table(name)
    assert table.rows == 336_776
    assert name in client.list_tables()
    assert_same_values(read(service, name), pa.Table.from_pandas(flights_pandas, preserve_index=False))


@pytest.mark.parametrize("read", [stored, stored_by_lancedb], ids=["lance", "lancedb"])
def test_every_value_of_the_flights_arrives_from_polars(client, service, name, flights_polars, read):
    assert flights_polars.remote.to_table(name).rows == 336_776
    found = pl.from_arrow(read(service, name))
    assert_frame_equal(found, flights_polars, categorical_as_str=True, check_dtypes=False)


def test_a_lazy_frame_streams_in_order(client, service, name, flights_csv, flights_polars):
    lazy = pl.scan_csv(flights_csv, try_parse_dates=True, null_values="NA")
    assert lazy.pipe(rt.to_table, name).name == name
    assert_frame_equal(pl.from_arrow(stored(service, name)), flights_polars.with_columns(pl.col("carrier").cast(str)))


def test_a_chain_goes_on_behind_tee(client, service, name):
    frame = pl.DataFrame({"n": [1, 2, 3]})
    assert frame.remote.tee(name) is frame
    total = frame.with_columns(n=pl.col("n") * 2).remote.tee(name + "_2").select(pl.col("n").sum()).item()
    assert total == 12
    assert stored(service, name + "_2").to_pydict() == {"n": [2, 4, 6]}


def test_the_table_follows_the_frame_from_pandas(client, service, name, flights_pandas):
    before = flights_pandas.head(1000)
    before.remote.to_table(name)
    after = before.rename(columns={"dep_time": "departure"}).astype({"distance": "int32", "flight": "int16"})
    table = after.remote.alter_table(name, before, rename={"dep_time": "departure"})
    assert table.version == 2
    found = stored(service, name)
    assert found.schema.field("distance").type == pa.int32()
    assert found.schema.field("flight").type == pa.int16()
    assert_same_values(found, pa.Table.from_pandas(after, preserve_index=False))


def test_a_rename_is_never_guessed_and_the_error_writes_the_call(flights_pandas, flights_polars):
    for before, after in (
        (flights_pandas, flights_pandas.rename(columns={"air_time": "minutes"})),
        (flights_polars, flights_polars.rename({"air_time": "minutes"})),
    ):
        with pytest.raises(rt.errors.AlterationError, match=r"pass rename=\{'air_time': 'minutes'\}$"):
            rt.plan_alterations(before, after)


@pytest.mark.parametrize("to_frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_names_that_were_swapped_are_a_rename_only_where_it_is_said(to_frame):
    before = to_frame({"net": [1.0, 2.0], "gross": [1.2, 2.4], "kept": [1, 2]})
    after = to_frame({"gross": before["net"], "net": before["gross"], "kept": before["kept"]})
    swap = {"net": "gross", "gross": "net"}
    assert not rt.plan_alterations(before, after)
    assert {one.path: one.rename for one in rt.plan_alterations(before, after, rename=swap)} == swap


def test_fields_of_structs_are_retyped_by_their_path(client, service, name):
    before = pl.DataFrame({"place": [{"x": 1, "y": 2.0}, {"x": 3, "y": None}]})
    before.remote.to_table(name)
    after = before.with_columns(pl.col("place").cast(pl.Struct({"x": pl.Int32, "y": pl.Float64})))
    plan = after.remote.plan_alterations(before)
    assert plan.to_json() == {"alterations": [{"path": "place.x", "data_type": {"type": "int32"}}]}
    after.remote.alter_table(name, before)
    assert_frame_equal(pl.from_arrow(stored(service, name)), after)


def test_one_request_each_for_rename_cast_and_nullability(client, service, name):
    table = rt.to_table(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), name)
    versions = [
        table.rename({"a": "number"}).version,
        table.cast({"number": "int16"}).version,
        table.set_nullable({"number": False}).version,
    ]
    assert versions == [2, 3, 4]
    assert stored(service, name).schema.field("number") == pa.field("number", pa.int16(), nullable=False)


def test_a_plan_between_libraries_is_empty_for_the_same_data(flights_pandas):
    frame = flights_pandas.head(100)
    assert not rt.plan_alterations(frame, pl.from_pandas(frame), strict=True)


def test_an_empty_plan_is_not_sent(remote, server):
    frame = pl.DataFrame({"a": [1]})
    assert frame.remote.alter_table("t", frame).name == "t"
    assert server.requests == []
