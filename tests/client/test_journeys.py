"""The main job on real data: all flights from New York in 2013."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
from polars.testing import assert_frame_equal

import rt_frames as rt
from tests.support.compare import assert_same_values, stored


def test_every_value_of_the_flights_arrives_from_pandas(
    client, service, name, flights_csv
):
    read = pd.read_csv(flights_csv, parse_dates=["time_hour"])
    flights = read.astype({"carrier": "category", "dep_time": "Int64"})
    assert flights.remote.to_table(name).rows == len(flights) == 336_776
    assert_same_values(
        stored(service, name), pa.Table.from_pandas(flights, preserve_index=False)
    )


def test_every_value_of_the_flights_streams_in_order_from_a_lazy_frame(
    client, service, name, flights_csv
):
    carrier = pl.col("carrier").cast(pl.Categorical)
    flights = pl.scan_csv(
        flights_csv, try_parse_dates=True, null_values="NA"
    ).with_columns(carrier)
    assert flights.pipe(rt.to_table, name).name == name
    found = pl.from_arrow(stored(service, name))
    assert_frame_equal(
        found, flights.collect(), categorical_as_str=True, check_dtypes=False
    )
