"""Dask frames on a cluster: workers send their partitions, and one commit shows all."""

from __future__ import annotations

import contextlib
import gc
import os
import threading

import dask
import lance
import numpy as np
import pandas as pd
import polars as pl
import pytest

import rt_frames as rt
from rt_frames.errors import BadRequest, NotConnectedError, UnsupportedTypeError
from tests.support.compare import stored
from tests.support.hosted import SMALL_PARTS, Hosted
from tests.support.local import until
from tests.support.servers import KEY

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
longer = pytest.importorskip("tests.longer.cluster")


def senders(hosted) -> set[int]:
    """Return the numbers of the partitions that were sent by workers."""
    return {int(one[:8], 16) for one in hosted.part_ids}


def partition(number: int) -> pd.DataFrame:
    """Make a partition; those of even numbers have rows."""
    rows = 5000 if number % 2 == 0 else 0
    n = np.arange(rows) + number * 5000
    words = pd.Series(n % 7).astype("str")
    return pd.DataFrame({"n": n, "word": words})


def frame(first: int = 1, last: int = 9, make=partition):
    return dd.from_map(make, range(first, last), meta=partition(1))


ROWS = pd.concat(map(partition, range(1, 9)))


@pytest.fixture(scope="module")
def workers():
    with longer.cluster() as address, distributed.Client(address) as client:
        yield client


@pytest.fixture
def remote(service, workers):
    return rt.connect(service.url, api_key=KEY, dialect="lancedb", default=False)


@pytest.fixture
def hosted():
    return Hosted()


@pytest.fixture
def scripted(hosted, workers):
    with hosted.connect(dialect=SMALL_PARTS, retries=1, timeout=10) as client:
        yield client


@pytest.fixture
def cluster(hosted, monkeypatch):
    """A function that starts a cluster of threads, and a client that writes from it."""
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    local = {"processes": False, "dashboard_address": "127.0.0.1:0"}

    @contextlib.contextmanager
    def start(**options: int):
        with (
            distributed.Client(**local, **options) as workers,
            hosted.connect(dialect=SMALL_PARTS, retries=1, timeout=10) as client,
        ):
            yield workers, client

    return start


@pytest.fixture
def in_process(cluster):
    with cluster(n_workers=2, threads_per_worker=1) as both:
        yield both


def wait_until_free(client) -> None:
    """Wait until the cluster released all that a client had."""

    def is_free():
        gc.collect()
        return not client.futures

    until(is_free, seconds=20)


def test_workers_send_their_partitions_in_order_and_one_commit(remote, service, name):
    table = remote.create_table(name, frame())
    assert stored(service, name).to_pydict() == ROWS.to_dict("list")
    assert table.rows == len(ROWS)
    assert table.created is True
    assert table.version == 2
    assert table.schema.names == ["n", "word"]

    assert remote.create_table(name, frame(1, 3), if_exists="skip").created is False
    remote.create_table(name, frame(10, 12), if_exists="append")
    found = stored(service, name)["n"].to_pylist()
    assert found == [*ROWS["n"], *range(50_000, 55_000)]
    remote.create_table(name, frame(3, 6), if_exists="replace", dtypes={"n": "int32"})
    assert stored(service, name)["n"].to_pylist() == [*range(20_000, 25_000)]
    assert stored(service, name)["n"].type == "int32"


def test_workers_clean_names_and_cast(remote, service, name):
    labelled = frame().rename(columns={"n": "a.b"})
    options = {"clean_names": True, "dtypes": {"a_b": pl.Int32}}
    remote.create_table(name, labelled, **options)
    remote.create_table(name, labelled, if_exists="append", **options)
    found = stored(service, name)
    assert found["a_b"].to_pylist() == [*ROWS["n"], *ROWS["n"]]
    assert found["a_b"].type == "int32"


FAR = {2: 1, 3: 1, 4: 2**40}


def test_partitions_are_fitted_to_the_table_that_is_there(remote, service, name):
    first = pd.DataFrame({"more": [1.5], "word": ["a"], "n": [-1]})
    remote.create_table(name, first, dtypes={"n": "int32"})
    remote.create_table(name, frame(1, 6), if_exists="append")
    found = stored(service, name)
    assert found.schema.field("n").type == "int32"
    got = found["n"].to_pylist()
    assert got == [-1, *range(10_000, 15_000), *range(20_000, 25_000)]
    assert found["more"].null_count == 10_000
    far = frame(2, 5, lambda number: partition(number).assign(n=FAR[number]))
    words = "column 'n', partition 2, row 0"
    with pytest.raises(UnsupportedTypeError, match=words):
        remote.create_table(name, far, if_exists="append")
    assert stored(service, name).equals(found)


def test_the_parts_of_a_partition_follow_each_other(scripted, hosted):
    data = frame(make=lambda number: pd.concat([partition(number)] * 100))
    table = scripted.create_table("t", data, compression=None)
    assert hosted.steps.count("part") > 4
    assert senders(hosted) == {1, 3, 5, 7}
    assert hosted.tables["t"].rows.num_rows == table.rows == 100 * len(ROWS)
    assert hosted.steps.count("complete") == 1


def failing(number):
    if number == 6:
        raise LookupError("of mine")
    return partition(number)


def odd(number):
    return partition(number).assign(n="x") if number == 6 else partition(number)


ODD = "'n' is .*string in partition 5, but int64"
BAD = [(failing, LookupError, "of mine"), (odd, UnsupportedTypeError, ODD)]


@pytest.mark.parametrize(("make", "error", "told"), BAD)
def test_a_partition_that_raises_or_does_not_fit_leaves_no_table(
    scripted, hosted, make, error, told
):
    with pytest.raises(error, match=told):
        scripted.create_table("t", frame(make=make))
    assert hosted.uploads == {}
    assert hosted.tables == {}


@pytest.mark.parametrize("if_exists", ["append", "replace"])
def test_a_partition_that_raises_leaves_the_table_as_it_was(
    scripted, hosted, if_exists
):
    scripted.create_table("t", partition(2))
    with pytest.raises(LookupError):
        scripted.create_table("t", frame(make=failing), if_exists=if_exists)
    assert hosted.uploads == {}
    assert len(hosted.tables["t"].versions) == 1


def set_key(key: str) -> None:
    os.environ["RT_FRAMES_API_KEY"] = key


def set_version(version: str) -> None:
    import rt_frames

    rt_frames.__version__ = version


@contextlib.contextmanager
def meanwhile(run, change, value: str, usual: str):
    """Let workers or the scheduler have something else than they have."""
    run(change, value)
    try:
        yield
    finally:
        run(change, usual)


def test_a_worker_without_the_key_says_so_before_anything_is_begun(
    scripted, hosted, workers
):
    words = "RT_FRAMES_API_KEY is not set"
    with (
        meanwhile(workers.run, set_key, "", KEY),
        pytest.raises(NotConnectedError, match=words),
    ):
        scripted.create_table("t", frame())
    assert set(hosted.steps) == {"list"}
    # an exception could keep something there
    wait_until_free(workers)


def test_nothing_stays_on_the_cluster_and_an_error_is_that_of_the_client_itself(
    remote, workers, name
):
    wrong = frame(
        2, 6, lambda number: partition(number).assign(n=2.5 if number == 4 else 1)
    )
    told = []
    for scheduler in (None, "threads"):
        with (
            dask.config.set(scheduler=scheduler),
            pytest.raises(UnsupportedTypeError) as error,
        ):
            remote.create_table(name, wrong, dtypes={"n": "int64"})
        told.append(str(error.value))
    assert told[0] == told[1]
    assert "'n', partition 2, row 0" in told[0]
    table = remote.create_table(name, frame())
    assert table.count() == len(ROWS)
    wait_until_free(workers)


def test_partitions_without_rows_need_not_fit(remote, service, name):
    def make(number):
        if number % 2 == 0:
            return partition(number)
        return pd.DataFrame({"n": [], "other": []})

    for scheduler in (None, "threads"):
        with dask.config.set(scheduler=scheduler):
            remote.create_table(name, frame(make=make), if_exists="replace")
        assert stored(service, name).to_pydict() == ROWS.to_dict("list")


SECRET = {"x-tenant": "mine"}
OPEN = {"X-LanceDB-Database": "mine"}
HEADERS = [(SECRET, [0]), (OPEN, [1, 3, 5, 7]), (OPEN | SECRET, [0])]


@pytest.mark.parametrize(("headers", "partitions"), HEADERS)
def test_headers_go_to_the_workers_unless_they_may_be_secrets_and_the_rows_come_here(
    hosted, workers, headers, partitions
):
    options = {"dialect": SMALL_PARTS, "retries": 1, "timeout": 10, "headers": headers}
    with hosted.connect(**options) as client:
        assert client.create_table("t", frame()).rows == len(ROWS)
    assert senders(hosted) == {*partitions}
    assert hosted.tables["t"].rows["n"].to_pylist() == ROWS["n"].tolist()
    for request in hosted.server.requests:
        assert {**headers} == {n: request.headers.get(n.lower()) for n in headers}


def test_a_part_that_fails_begins_the_write_anew_and_a_refused_one_ends_it(
    scripted, hosted
):
    hosted.meet("part", "503", 1)
    scripted.create_table("t", frame())
    assert hosted.tables["t"].rows["n"].to_pylist() == ROWS["n"].tolist()
    assert hosted.steps.count("create_parts") == 2

    hosted.meet("part", "422")
    with pytest.raises(BadRequest, match="nothing was stored") as caught:
        scripted.create_table("u", frame())
    assert caught.value.attempts == 1
    assert list(hosted.tables) == ["t"]


LATE = threading.Event()
FIRST_SENT = threading.Event()
GO_ON = threading.Event()


def waiting(number):
    if number == 4:
        LATE.set()
        GO_ON.wait(20)
    if number == 6:
        LATE.wait(20)
        FIRST_SENT.wait(20)
        raise LookupError("of mine")
    return partition(number)


def running(dask_worker):
    return len(dask_worker.state.all_running_tasks)


def test_a_partition_that_comes_when_its_write_has_failed_is_not_sent(hosted, cluster):
    hosted.changed = lambda step: FIRST_SENT.set() if step == "part" else None
    with cluster(n_workers=1, threads_per_worker=8) as (workers, client):
        with pytest.raises(LookupError):
            client.create_table("t", frame(2, 7, waiting))
        steps = len(hosted.steps)
        GO_ON.set()
        until(lambda: not any(workers.run(running).values()), seconds=20)
        assert len(hosted.steps) == steps


async def lose_a_worker(dask_scheduler):
    (busy,) = filter(lambda one: one.processing, dask_scheduler.workers.values())
    await dask_scheduler.remove_worker(busy.address, stimulus_id="lost")


def test_a_partition_whose_worker_is_lost_once_it_has_arrived_is_stored_once(
    hosted, in_process
):
    """The scheduler has another worker send it again.

    A test of its own kills workers, which takes long.
    """
    workers, client = in_process
    lost = []

    def lose(step: str) -> None:
        if step == "part" and not lost:
            lost.append(workers.run_on_scheduler(lose_a_worker))

    hosted.changed = lose
    client.create_table("t", frame(2, 3))
    assert hosted.tables["t"].rows["n"].to_pylist() == partition(2)["n"].tolist()
    assert hosted.steps.count("create_parts") == 2
    assert hosted.steps.count("complete") == 1


def test_partitions_without_rows_make_a_table_without_rows(scripted, hosted):
    table = scripted.create_table("t", frame(1, 2))
    assert table.rows == 0
    assert hosted.tables["t"].rows.num_rows == 0


def test_a_folder_and_other_schedulers_go_through_the_client(
    scripted, hosted, workers, tmp_path
):
    rt.connect(tmp_path, default=False).create_table("t", frame())
    found = lance.dataset(tmp_path / "t.lance").to_table()["n"].to_pylist()
    assert found == ROWS["n"].tolist()
    with dask.config.set(scheduler="threads"):
        scripted.create_table("t", frame())
    assert senders(hosted) == {0}


def test_workers_in_this_process_write_too(hosted, in_process):
    _, client = in_process
    client.create_table("t", frame())
    assert senders(hosted) == {1, 3, 5, 7}


def test_a_cluster_without_this_package_has_the_rows_come_here(
    remote, service, workers, name, caplog
):
    with meanwhile(workers.run_on_scheduler, set_version, "0.0.1", rt.__version__):
        assert remote.create_table(name, frame()).rows == len(ROWS)
    assert "through this process" in caplog.text
    assert stored(service, name).to_pydict() == ROWS.to_dict("list")


def test_the_scheduler_needs_no_key(remote, service, workers, name):
    with meanwhile(workers.run_on_scheduler, set_key, "", KEY):
        remote.create_table(name, frame())
    assert stored(service, name).to_pydict() == ROWS.to_dict("list")
