"""Dask frames: partitions go over the wire in order, wherever they are computed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.frames.test_streams import settled
from tests.support.compare import stored

dd = pytest.importorskip("dask.dataframe")


def frame(partitions: int = 8) -> pd.DataFrame:
    n = 1000 * partitions
    return pd.DataFrame(
        {
            "n": np.arange(n),
            "s": [f"row {i}" for i in range(n)],
            "c": pd.Categorical([f"k{i % 3}" for i in range(n)]),
            "f": np.where(np.arange(n) % 7 == 0, np.nan, np.arange(n) / 2),
        }
    )


def check(service, name: str, wanted: pd.DataFrame) -> None:
    found = stored(service, name)
    assert found["n"].to_pylist() == wanted["n"].tolist()
    assert found["s"].to_pylist() == wanted["s"].tolist()
    assert found["c"].to_pylist() == wanted["c"].tolist()
    assert found["f"].to_pylist() == [None if np.isnan(f) else f for f in wanted["f"]]


def test_a_dask_frame_on_local_threads_arrives_in_order(client, service, name):
    table = dd.from_pandas(frame(), npartitions=8).remote.to_table(name)
    assert table.created
    check(service, name, frame())


def test_a_dask_frame_on_a_cluster_of_processes_arrives_in_order(client, service, name):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, processes=True, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster),
    ):
        rt.to_table(dd.from_pandas(frame(40), npartitions=40), name)
    check(service, name, frame(40))


def with_own_categories(part: pd.DataFrame) -> pd.DataFrame:
    return part.assign(c=(part["n"] // 1000).astype(str).astype("category"))


def test_categories_that_differ_between_partitions_become_one_column(client, service, name):
    ddf = dd.from_pandas(frame()[["n"]], npartitions=8).map_partitions(with_own_categories)
    rt.to_table(ddf, name)
    assert stored(service, name)["c"].to_pylist() == [str(n // 1000) for n in range(8000)]


def with_a_gap(part: pd.DataFrame) -> pd.DataFrame:
    return part.assign(n=part["n"].where(part["n"] != 2500))


def test_types_that_differ_between_partitions_are_reconciled_where_one_is_named(client, service, name):
    ddf = dd.from_pandas(frame()[["n"]], npartitions=8).map_partitions(with_a_gap, meta={"n": "float64"})
    with pytest.raises(UnsupportedTypeError, match=r"'n' is double in partition 2 and int64 in the first one"):
        rt.to_table(ddf, name)
    rt.to_table(ddf, name, dtypes={"n": "int64"})
    assert stored(service, name)["n"].to_pylist() == [None if n == 2500 else n for n in range(8000)]


def broken(part: pd.DataFrame, partition_info: dict | None = None) -> pd.DataFrame:
    if partition_info is not None and partition_info["number"] == 5:
        raise LookupError("no such sensor")
    return part


def test_a_failing_partition_is_its_own_error_and_nothing_is_created(client, name):
    ddf = dd.from_pandas(frame(), npartitions=8)
    with pytest.raises(LookupError, match="no such sensor"):
        rt.to_table(ddf.map_partitions(broken, meta=ddf._meta), name)
    assert name not in client.list_tables()


def odd(part: pd.DataFrame, partition_info: dict | None = None) -> pd.DataFrame:
    if partition_info is not None and partition_info["number"] == 2:
        return part.assign(n=part["n"].astype(str).astype(object) + 0 * part["s"].str[:0])
    return part


def test_a_partition_of_another_type_is_refused_by_its_number(client, name):
    ddf = dd.from_pandas(frame(), npartitions=8)
    with pytest.raises(UnsupportedTypeError, match=r"'n'.*partition 2 "):
        rt.to_table(ddf.map_partitions(odd, meta=ddf._meta), name)
    assert name not in client.list_tables()


def test_the_accessor_is_there_whichever_is_imported_first():
    for order in ("rt_frames, dask.dataframe as dd", "dask.dataframe as dd, rt_frames"):
        code = (
            f"import {order}, pandas as pd; df = pd.DataFrame({{'a': [1]}}); ddf = dd.from_pandas(df, npartitions=1)\n"
            "assert 'remote' in dir(ddf); print(ddf.remote, df.remote)"
        )
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.count("to_table") == 2


def test_the_schema_computes_no_partition_and_leaves_nothing_running():
    computed = []

    def part(number: int) -> pd.DataFrame:
        computed.append(number)
        return pd.DataFrame({"n": [number], "s": ["x"]})

    frame = dd.from_map(part, range(3), meta=pd.DataFrame({"n": [0], "s": ["x"]}))
    threads = threading.active_count()
    assert frame.remote.schema.names == ["n", "s"]
    assert frame.remote.plan_alterations(frame).to_json() == {"alterations": []}
    assert (computed, threading.active_count()) == ([], threads)


@pytest.mark.parametrize("index", [pd.date_range("2020-01-01", periods=4), pd.Index([1, 2, 3, 4], name="k"), None])
def test_the_index_is_kept_by_the_same_rule_as_of_a_pandas_frame(client, service, name, index):
    whole = pd.DataFrame({"a": [1, 2, 3, 4]}, index=index)
    parts = dd.from_pandas(whole, npartitions=2)
    parts.remote.to_table(name)
    found = stored(service, name)
    assert parts.remote.schema == found.schema == whole.remote.schema
    assert not rt.plan_alterations(parts, whole)
    if index is not None:
        assert pd.Index(found.column(0).to_pylist()).equals(pd.Index(index.tolist()))


def test_partitions_are_computed_side_by_side_and_only_a_few_ahead(remote, server):
    computed, running, together, begun, go_on = [], [], [], threading.Event(), threading.Event()

    def part(number: int) -> pd.DataFrame:
        computed.append(number)
        running.append(number)
        time.sleep(0.05)
        together.append(len(running))
        running.remove(number)
        return pd.DataFrame({"n": np.random.default_rng(number).integers(2**62, size=2**19)})

    def hold(connection):
        request = connection.head()
        if request.method == "GET":
            connection.answer(200, {"tables": []})
            request = connection.head()
        connection.body(request, 2**20)
        begun.set()
        go_on.wait(30)
        connection.reset()

    server.script = hold
    frame = dd.from_map(part, range(40), meta=pd.DataFrame({"n": np.arange(2)}))

    def upload() -> None:
        with pytest.raises(rt.errors.RemoteError):
            remote.create_table("t", frame)

    thread = threading.Thread(target=upload)
    thread.start()
    assert begun.wait(30)
    settled(lambda: len(computed))
    assert max(together) > 1
    assert sorted(computed) == [*range(len(computed))]
    assert 1 < len(computed) < 20  # of 4 MiB; the system's buffers hold some
    go_on.set()
    thread.join(30)
    assert not thread.is_alive()
