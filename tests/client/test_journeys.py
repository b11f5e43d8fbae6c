"""The main job on real data: every flight that left New York in 2013, from pandas and from Polars."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import rt_frames as rt
from tests.support.compare import assert_same_values, stored


@pytest.fixture(scope="module")
def flights_pandas(flights_csv):
    frame = pd.read_csv(flights_csv)
    return frame.assign(
        time_hour=pd.to_datetime(frame["time_hour"]),
        carrier=frame["carrier"].astype("category"),
        dep_time=frame["dep_time"].astype("Int64"),
    )


def test_every_value_of_the_flights_arrives_from_pandas(client, service, name, flights_pandas):
    assert flights_pandas.remote.to_table(name).rows == len(flights_pandas) == 336_776
    assert_same_values(stored(service, name), pa.Table.from_pandas(flights_pandas, preserve_index=False))


def test_every_value_of_the_flights_streams_in_order_from_a_lazy_frame(client, service, name, flights_csv):
    carrier = pl.col("carrier").cast(pl.Categorical)
    flights = pl.scan_csv(flights_csv, try_parse_dates=True, null_values="NA").with_columns(carrier)
    assert flights.pipe(rt.to_table, name).name == name
    found = pl.from_arrow(stored(service, name))
    assert_frame_equal(found, flights.collect(), categorical_as_str=True, check_dtypes=False)


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
    assert after.remote.alter_table(name, before, rename={"dep_time": "departure"}).version == 2
    found = stored(service, name)
    assert (found.schema.field("distance").type, found.schema.field("flight").type) == (pa.int32(), pa.int16())
    assert_same_values(found, pa.Table.from_pandas(after, preserve_index=False))


@pytest.mark.parametrize("to_frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_names_that_were_swapped_are_a_rename_only_where_it_is_said(to_frame):
    before = to_frame({"net": [1.0, 2.0], "gross": [1.2, 2.4], "kept": [1, 2]})
    after = to_frame({"gross": before["net"], "net": before["gross"], "kept": before["kept"]})
    swap = {"net": "gross", "gross": "net"}
    assert not rt.plan_alterations(before, after)
    assert {one.path: one.rename for one in rt.plan_alterations(before, after, rename=swap)} == swap


def test_a_plan_between_libraries_is_empty_for_the_same_data_and_is_not_sent(remote, server, flights_pandas):
    frame = flights_pandas.head(100)
    assert pl.from_pandas(frame).remote.alter_table("t", frame).name == "t"
    assert server.requests == []
