"""The main job on real data: all flights from New York in 2013."""

from __future__ import annotations

import os

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import rt_frames as rt
from tests.support.compare import assert_same_values, stored
from tests.support.processes import python


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


LARGE = """
import sys
import polars as pl
import rt_frames as rt
from tests.support.processes import memory

pl.scan_csv(sys.argv[1]).pipe(rt.to_table, sys.argv[2])
print(memory("VmHWM") // 2**20)
"""


@pytest.mark.long
def test_a_large_file_is_not_held(tmp_path, service, name):
    """Of 1.2 GB, half at most is in memory: what Polars reads ahead."""
    line = b"1,2.5,some text that is long enough to matter in the memory of a process\n"
    with (tmp_path / "t.csv").open("wb") as file:
        file.write(b"a,b,c\n")
        for _ in range(120):
            file.write(line * 140_000)
    key = {"RT_FRAMES_URL": service.url, "RT_FRAMES_API_KEY": service.api_key}
    with python("-c", LARGE, tmp_path / "t.csv", name, env=os.environ | key) as program:
        out, err = program.communicate()
    assert program.returncode == 0, err
    assert stored(service, name).num_rows == 120 * 140_000
    assert int(out) < 700
