"""Dask frames on a cluster: its workers send the partitions, and one commit shows all.

It imports one private module, because nothing else shows what a write leaves on the
scheduler.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time

import dask
import lance
import numpy as np
import pandas as pd
import polars as pl
import pytest

import rt_frames as rt
from tests.support.compare import stored
from tests.support.hosted import SMALL_PARTS, Hosted
from tests.support.servers import KEY

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
longer = pytest.importorskip("tests.longer.cluster")

META = {"n": "int64", "word": "str"}


def partition(number: int) -> pd.DataFrame:
    """Make a partition; those of even numbers have rows."""
    rows = 5000 if number % 2 == 0 else 0
    n = np.arange(rows) + number * 5000
    return pd.DataFrame(
        {"n": n, "word": pd.Series([f"w{one % 7}" for one in n], dtype="str")}
    )


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
def in_process(hosted, monkeypatch):
    """A cluster of threads, and a client that writes from it."""
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    options = {
        "processes": False,
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
    }
    with (
        distributed.Client(**options) as workers,
        hosted.connect(dialect=SMALL_PARTS, retries=1, timeout=10) as client,
    ):
        yield workers, client


def is_free(client) -> bool:
    """Return whether the cluster released all that a client had, after a while."""
    until = time.monotonic() + 20
    while client.futures and time.monotonic() < until:
        gc.collect()
        time.sleep(0.05)
    return not client.futures


def test_workers_send_their_partitions_in_order_and_one_commit(remote, service, name):
    table = remote.create_table(name, frame())
    assert stored(service, name).to_pydict() == ROWS.to_dict("list")
    assert (table.rows, table.created, table.version) == (len(ROWS), True, 2)
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


def test_partitions_are_fitted_to_the_table_that_is_there(remote, service, name):
    remote.create_table(
        name, pd.DataFrame({"more": [1.5], "word": ["a"], "n": pd.array([-1], "int32")})
    )
    remote.create_table(name, frame(1, 6), if_exists="append")
    found = stored(service, name)
    assert found.schema.field("n").type == "int32"
    got = found["n"].to_pylist()
    assert got == [-1, *range(10_000, 15_000), *range(20_000, 25_000)]
    assert found["more"].null_count == 10_000
    far = frame(
        2, 5, lambda number: partition(number).assign(n=2**40 if number == 4 else 1)
    )
    words = "column 'n', partition 2, row 0"
    with pytest.raises(rt.errors.UnsupportedTypeError, match=words):
        remote.create_table(name, far, if_exists="append")
    assert stored(service, name).equals(found)


def test_the_parts_of_a_partition_follow_each_other(scripted, hosted):
    data = frame(make=lambda number: pd.concat([partition(number)] * 150))
    table = scripted.create_table("t", data, compression=None)
    assert hosted.steps.count("part") > 8
    assert {one[:8] for one in hosted.part_ids} == {
        f"{number:08x}" for number in (1, 3, 5, 7)
    }
    assert hosted.tables["t"].rows.num_rows == table.rows == 150 * len(ROWS)
    assert hosted.steps.count("complete") == 1


def failing(number):
    if number == 6:
        raise LookupError("of mine")
    return partition(number)


def odd(number):
    return partition(number).assign(n="x") if number == 6 else partition(number)


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (failing, LookupError, "of mine"),
        (
            odd,
            rt.errors.UnsupportedTypeError,
            "'n' is .*string in partition 5, but int64",
        ),
    ],
)
@pytest.mark.parametrize("if_exists", ["fail", "append", "replace"])
def test_a_partition_that_raises_or_does_not_fit_leaves_nothing(
    scripted, hosted, make, error, told, if_exists
):
    if if_exists != "fail":
        scripted.create_table("t", partition(2))
    with pytest.raises(error, match=told):
        scripted.create_table("t", frame(make=make), if_exists=if_exists)
    assert hosted.uploads == {}
    found = [len(table.versions) for table in hosted.tables.values()]
    assert found == [1] * (if_exists != "fail")


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
    with (
        meanwhile(workers.run, set_key, "", KEY),
        pytest.raises(
            rt.errors.NotConnectedError, match="RT_FRAMES_API_KEY is not set"
        ),
    ):
        scripted.create_table("t", frame())
    assert set(hosted.steps) == {"list"}
    assert is_free(workers)  # of what an exception could keep there


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
            pytest.raises(rt.errors.UnsupportedTypeError) as error,
        ):
            remote.create_table(name, wrong, dtypes={"n": "int64"})
        told.append(str(error.value))
    assert told[0] == told[1]
    assert "'n', partition 2, row 0" in told[0]
    table = remote.create_table(name, frame())
    assert table.count() == len(ROWS)
    assert is_free(workers)


def test_partitions_without_rows_need_not_fit(remote, service, name):
    def make(number):
        return (
            partition(number)
            if number % 2 == 0
            else pd.DataFrame({"n": [], "other": []})
        )

    for scheduler in (None, "threads"):
        with dask.config.set(scheduler=scheduler):
            remote.create_table(name, frame(make=make), if_exists="replace")
        assert stored(service, name).to_pydict() == ROWS.to_dict("list")


SECRET = {"x-tenant": "mine"}
OPEN = {"X-LanceDB-Database": "mine"}


@pytest.mark.parametrize(
    ("headers", "partitions"),
    [(SECRET, [0]), (OPEN, [1, 3, 5, 7]), ({**OPEN, **SECRET}, [0])],
)
def test_headers_go_to_the_workers_unless_they_may_be_secrets_and_the_rows_come_here(
    hosted, workers, headers, partitions
):
    options = {"dialect": SMALL_PARTS, "retries": 1, "timeout": 10, "headers": headers}
    with hosted.connect(**options) as client:
        assert client.create_table("t", frame()).rows == len(ROWS)
    assert {int(one[:8], 16) for one in hosted.part_ids} == {*partitions}
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
    with pytest.raises(rt.errors.BadRequest, match="nothing was stored") as caught:
        scripted.create_table("u", frame())
    assert caught.value.attempts == 1
    assert list(hosted.tables) == ["t"]


def kept(dask_scheduler):
    """Return what a scheduler keeps of writes."""
    from rt_frames._service import cluster

    return [*dask_scheduler.extensions["queues"].queues, *cluster._begun]


@pytest.mark.parametrize(
    ("make", "fault"), [(partition, ""), (failing, ""), (odd, ""), (partition, "part")]
)
def test_a_write_leaves_nothing_on_the_scheduler_whatever_became_of_it(
    scripted, hosted, workers, make, fault
):
    hosted.meet(fault, "422")
    with contextlib.suppress(LookupError, rt.errors.RemoteError):
        scripted.create_table("t", frame(make=make))
    assert "create_parts" in hosted.steps
    assert workers.run_on_scheduler(kept) == []


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


def test_a_partition_that_comes_when_its_write_has_failed_is_not_sent(
    hosted, monkeypatch
):
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    hosted.changed = lambda step: FIRST_SENT.set() if step == "part" else None
    options = {
        "processes": False,
        "n_workers": 1,
        "threads_per_worker": 8,
        "dashboard_address": "127.0.0.1:0",
    }
    with (
        distributed.Client(**options) as workers,
        hosted.connect(dialect=SMALL_PARTS, retries=1, timeout=10) as client,
    ):
        with pytest.raises(LookupError):
            client.create_table("t", frame(2, 7, waiting))
        steps = len(hosted.steps)
        GO_ON.set()
        until = time.monotonic() + 20
        while any(workers.run(running).values()) and time.monotonic() < until:
            time.sleep(0.05)
        assert len(hosted.steps) == steps
        assert workers.run_on_scheduler(kept) == []


async def lose_a_worker(dask_scheduler):
    (busy,) = (
        worker for worker in dask_scheduler.workers.values() if worker.processing
    )
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
    assert (table.rows, hosted.tables["t"].rows.num_rows) == (0, 0)


def test_a_folder_and_other_schedulers_go_through_the_client(
    scripted, hosted, workers, tmp_path
):
    rt.connect(tmp_path, default=False).create_table("t", frame())
    found = lance.dataset(tmp_path / "t.lance").to_table()["n"].to_pylist()
    assert found == ROWS["n"].tolist()
    with dask.config.set(scheduler="threads"):
        scripted.create_table(
            "t",
            frame(make=lambda number: partition(number).assign(word=str(os.getpid()))),
        )
    assert set(hosted.tables["t"].rows["word"].to_pylist()) == {str(os.getpid())}


def test_workers_in_this_process_write_too(hosted, in_process):
    _, client = in_process
    client.create_table("t", frame())
    assert {one[:8] for one in hosted.part_ids} == {
        f"{number:08x}" for number in (1, 3, 5, 7)
    }


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
