"""Writes in parts: any size arrives whole and in order, or nothing of it is seen."""

from __future__ import annotations

import functools
import gc
import itertools
import re
import time

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest

from rt_frames.errors import (
    BadRequest,
    ConflictError,
    PayloadTooLarge,
    RemoteError,
    ResponseError,
    TableExistsError,
    UploadInterrupted,
)
from tests.support.faults import connected
from tests.support.hosted import SMALL_PARTS, Hosted, Table
from tests.support.interrupted import interrupted
from tests.support.servers import Server

ROWS = 10_000  # of each frame: 80 kB, so that each is a part
ALL = list(range(3 * ROWS))
OLD = pa.table({"n": [-1]})


def frames(many: int = 3, happens=lambda: None, error: Exception | None = None):
    """Give frames; then let something happen, and fail."""
    for number in range(many):
        yield pa.table({"n": np.arange(ROWS) + number * ROWS})
    happens()
    if error is not None:
        raise error


def whole() -> pa.Table:
    """Give the same rows as what can be read again."""
    return pa.concat_tables(frames())


@pytest.fixture
def hosted():
    return Hosted()


@pytest.fixture
def client(hosted):
    with hosted.connect(dialect=SMALL_PARTS, retries=1) as client:
        # which tells the server's version: larger than a part, nothing is sent before
        client.list_tables()
        del hosted.steps[:]
        yield client


COUNTED = ["count_rows", "count_rows"]


def numbers(hosted, name="t"):
    return hosted.tables[name].rows["n"].to_pylist()


def test_what_is_larger_than_a_part_goes_in_parts_and_in_order(client, hosted):
    table = client.create_table("t", frames(20), compression=None)
    begun = ["list", "create", "create_parts"]
    assert hosted.steps == [*begun, *["part"] * 20, "complete", *COUNTED]
    assert numbers(hosted) == list(range(20 * ROWS))
    assert max(hosted.sizes) < SMALL_PARTS.part_bytes
    assert hosted.part_ids == sorted(hosted.part_ids)
    for one in hosted.part_ids:
        assert re.fullmatch("00000000-00[01].-8...-[89ab]...-.{12}", one)
    assert table.rows == 20 * ROWS
    assert table.version == 2
    assert table.created is True
    assert table.nbytes > 20 * ROWS * 8
    del hosted.steps[:]
    client.create_table("small", OLD)
    assert hosted.steps == ["create"]


PARTS = ["create_parts", "part", "part", "part", "complete"]
THERE = [
    ("append", [-1, *ALL], ["describe", "describe"], COUNTED),
    ("replace", ALL, ["list", "describe"], COUNTED[:1]),
]


@pytest.mark.parametrize(("if_exists", "after", "looks", "counts"), THERE)
def test_a_table_that_is_there_is_appended_to_or_replaced_in_parts(
    client, hosted, if_exists, after, looks, counts
):
    client.create_table("t", OLD)
    del hosted.steps[:]
    table = client.create_table("t", frames(), if_exists=if_exists, compression=None)
    assert numbers(hosted) == after
    assert hosted.steps == [*looks, *PARTS, *counts]
    assert table.version == 2
    assert table.rows == 3 * ROWS
    client.create_table("new", frames(), if_exists=if_exists)
    assert numbers(hosted, "new") == ALL


def test_a_part_has_all_dictionaries_and_is_no_larger_than_others(client, hosted):
    words = [f"{number:0100}" for number in range(300)]
    codes = np.random.default_rng(0).integers(0, len(words), 10 * ROWS)
    column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), words)
    table = pa.table({"n": column})
    client.create_table("t", table.to_reader(max_chunksize=ROWS // 2), compression=None)
    assert hosted.tables["t"].rows["n"].to_pylist() == column.to_pylist()
    assert hosted.steps.count("part") > 4
    assert 90_000 < max(hosted.sizes) < SMALL_PARTS.part_bytes


def test_parts_are_smaller_than_what_hosted_services_take_in_one_body():
    hosted = Hosted(version="0.10.0")
    table = pa.table({"n": np.random.default_rng(1).integers(2**62, size=2 * 10**7)})
    with hosted.connect(timeout=30) as client:
        client.create_table("t", table, compression=None)
    assert hosted.tables["t"].rows.equals(table)
    assert hosted.steps.count("part") == 2


@pytest.mark.parametrize("version", [None, "0.3.9", "nonsense"])
def test_without_parts_it_is_one_request_and_413_says_what_it_means(version):
    hosted = Hosted(version=version)
    with hosted.connect(dialect=SMALL_PARTS) as client:
        client.create_table("t", frames())
        assert hosted.steps == ["list", "create"]
        hosted.meet("create", "413")
        with pytest.raises(PayloadTooLarge, match="in one"):
            client.create_table("u", frames())


FAULTS = ["cut", "500", "lose the answer"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_begin_that_fails_is_repeated_as_nothing_was_read_yet(client, hosted, fault):
    hosted.meet("create_parts", fault, 1)
    client.create_table("t", frames())
    assert numbers(hosted) == ALL


@pytest.mark.parametrize("fault", FAULTS)
def test_a_part_that_fails_has_the_write_begin_anew(client, hosted, fault):
    hosted.meet("part", fault, 1)
    client.create_table("t", whole(), compression=None)
    assert numbers(hosted) == ALL
    assert hosted.uploads == {}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_part_that_fails_leaves_nothing_of_what_is_read_once(client, hosted, fault):
    hosted.meet("part", fault, 1)
    words = r"nothing was stored.*is exhausted"
    with pytest.raises(RemoteError, match=words) as caught:
        client.create_table("t", frames())
    assert hosted.tables == {}
    assert hosted.steps[-4:] == ["abort", "describe", "count_rows", "drop"]
    assert caught.value.attempts == 1


@pytest.mark.parametrize("wait", ["61", "3600", "999999999"])
@pytest.mark.parametrize("status", ["429", "503"])
@pytest.mark.parametrize("step", ["create_parts", "part"])
def test_a_wait_beyond_the_deadline_ends_the_call(client, hosted, step, status, wait):
    hosted.retry_after = wait
    hosted.meet(step, status)
    with pytest.raises(ResponseError, match=f"wait {int(wait):,} s") as caught:
        client.create_table("t", whole(), compression=None)
    assert caught.value.retry_after == int(wait)
    assert caught.value.attempts == 1
    assert hosted.steps.count(step) == 1
    assert hosted.tables == {}


def test_what_a_source_raises_leaves_nothing(client, hosted):
    with pytest.raises(LookupError, match="of mine"):
        client.create_table("t", frames(2, error=LookupError("of mine")))
    assert hosted.tables == {}
    assert hosted.uploads == {}


def test_an_interrupt_waits_for_no_service_that_has_stalled(hosted):
    with hosted.connect(dialect=SMALL_PARTS, timeout=(1, 1, 60)) as client:
        client.create_table("t", OLD)

        def stalls():
            hosted.meet("abort", "stall", 1)

        interrupted = frames(2, stalls, KeyboardInterrupt())
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            client.create_table("t", interrupted, if_exists="append")
        # a duration, since the read timeout must not be waited for
        assert time.monotonic() - start < 30
    assert numbers(hosted) == [-1]
    assert hosted.uploads == {}


def test_an_interrupt_before_the_end_leaves_nothing_and_needs_no_note(client, hosted):
    hosted.interrupt_after("part")
    with pytest.raises(KeyboardInterrupt) as caught:
        client.create_table("t", whole(), compression=None)
    assert getattr(caught.value, "__notes__", []) == []
    assert hosted.tables == {}


# between any two instructions, urllib3 may leave a connection
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_step_leaves_no_empty_table_without_advice(client, hosted):
    at, is_over = 0, False
    while not is_over:
        at += 97
        name = f"t{at}"
        create = functools.partial(client.create_table, name, frames())
        interrupt, is_over = interrupted(create, at)
        notes = "; ".join(getattr(interrupt, "__notes__", []))
        if name not in hosted.tables:
            assert notes == "" or "it may still be carried out" in notes
        elif not numbers(hosted, name):
            assert "drop the table" in notes or "check the table" in notes
    # those connections warn here, and not in another test
    del interrupt
    gc.collect()


DROP = "wait for the service's timeout, drop the table if it is empty, and send again"
SENT = [
    ("create", "create table 't' without rows", DROP),
    ("complete", "create table 't'", "check the table before sending it again"),
]


@pytest.mark.parametrize(("step", "request_to", "cure"), SENT)
def test_an_interrupt_tells_what_may_become_of_a_write_in_parts(
    client, hosted, step, request_to, cure
):
    client.list_tables()
    hosted.interrupt_after(step)
    with pytest.raises(KeyboardInterrupt) as caught:
        client.create_table("t", whole(), compression=None)
    (note,) = caught.value.__notes__
    assert note == (
        f"the request to {request_to} was sent before the interrupt; it may still be "
        f"carried out: {cure}"
    )
    assert "t" in hosted.tables


@pytest.mark.parametrize("if_exists", ["append", "replace"])
@pytest.mark.parametrize("fault", ["cut", "500", "429"])
def test_a_commit_is_asked_for_once_and_told_with_the_version_and_rows_before(
    client, hosted, fault, if_exists
):
    client.create_table("t", OLD)
    hosted.meet("complete", fault)
    words = r"so far the table is unchanged \(version 1, 1 row\)"
    with pytest.raises(RemoteError, match=words):
        client.create_table("t", whole(), if_exists=if_exists, compression=None)
    assert numbers(hosted) == [-1]
    assert hosted.steps.count("complete") == 1
    assert "abort" not in hosted.steps


DONE = [
    ("append", "lose the answer", [-1, *ALL]),
    ("replace", "lose the answer", ALL),
    # as a proxy may have sent it twice
    ("append", "twice", [-1, *ALL]),
]


@pytest.mark.parametrize(("if_exists", "fault", "after"), DONE)
def test_a_commit_without_an_answer_is_told_with_both_versions(
    client, hosted, if_exists, fault, after
):
    client.create_table("t", OLD)
    hosted.meet("complete", fault)
    words = f"before: version 1, 1 row; now: version 2, {len(after):,} rows;"
    with pytest.raises(RemoteError, match=words):
        client.create_table("t", whole(), if_exists=if_exists, compression=None)
    assert numbers(hosted) == after
    assert hosted.steps.count("complete") == 1


def test_a_new_table_whose_commit_has_no_answer_is_not_dropped(client, hosted):
    hosted.meet("complete", "lose the answer")
    words = "before: version 1, 0 rows; now: version 2, 30,000 rows;"
    with pytest.raises(RemoteError, match=words):
        client.create_table("t", whole(), compression=None)
    assert numbers(hosted) == ALL
    assert "drop" not in hosted.steps


def test_a_refused_end_of_a_new_table_says_that_it_is_there_without_rows(
    client, hosted
):
    hosted.meet("complete", "409")
    words = r"table 't', created.* may still exist"
    with pytest.raises(ConflictError, match=words):
        client.create_table("t", frames())
    assert hosted.tables["t"].rows.num_rows == 0


def test_a_replacement_that_was_overtaken_begins_anew_where_it_can(client, hosted):
    def somebody_writes(step):
        if step == "part" and len(hosted.tables["t"].versions) == 1:
            hosted.tables["t"].versions.append([pa.table({"n": [-2]})])

    client.create_table("t", OLD)
    hosted.changed = somebody_writes
    client.create_table("t", whole(), if_exists="replace", compression=None)
    assert numbers(hosted) == ALL
    del hosted.tables["t"].versions[1:]
    with pytest.raises(ConflictError, match="nothing was stored"):
        client.create_table("t", frames(), if_exists="replace")
    assert numbers(hosted) == [-2]


def test_a_table_that_somebody_changed_meanwhile_is_left(client, hosted):
    def somebody_writes(step):
        if step == "create_parts":
            hosted.tables["t"].versions.append([OLD[:0]])

    hosted.meet("part", "400")
    hosted.changed = somebody_writes
    with pytest.raises(BadRequest, match="somebody else changed table 't'"):
        client.create_table("t", frames())
    assert len(hosted.tables["t"].versions) == 2


def test_a_table_that_somebody_made_anew_meanwhile_is_left(client, hosted):
    anew = Table([[OLD]])
    rows = frames(2, lambda: hosted.tables.update(t=anew), LookupError())
    with pytest.raises(LookupError) as caught:
        client.create_table("t", rows)
    assert hosted.tables["t"] is anew
    assert "somebody else changed table 't'" in caught.value.__notes__[0]


@pytest.mark.long
def test_a_gigabyte_arrives_whole_and_in_order_below_the_limit_of_a_body(hosted):
    numbers = np.arange(500_000)
    batches = (pa.table({"n": numbers + at * 500_000}) for at in range(250))
    with hosted.connect(timeout=60) as client:
        table = client.create_table("t", batches, compression=None)
    assert table.nbytes > 10**9
    assert max(hosted.sizes) <= 90_000_000
    assert np.array_equal(
        hosted.tables["t"].rows["n"].to_numpy(), np.arange(250 * 500_000)
    )


def test_a_service_that_goes_away_between_parts_interrupts_the_upload(hosted):
    server = Server(hosted).__enter__()
    with connected(server, dialect=SMALL_PARTS, retries=0) as client:
        client.list_tables()
        gone = iter(server.__exit__, None)
        words = r"table 't', created.* may still exist"
        with pytest.raises(UploadInterrupted, match=words) as caught:
            client.create_table("t", itertools.chain(frames(4), gone, frames(2)))
    assert "nothing was sent" not in str(caught.value)
    assert caught.value.bytes_sent >= sum(hosted.sizes) > max(hosted.sizes)


def test_what_was_sent_counts_though_a_second_attempt_finds_nobody(hosted):
    server = Server(hosted).__enter__()

    def goes_away(_, step):
        if step == "part" and hosted.steps.count("part") == 3:
            server.__exit__()
            return "cut"
        return ""

    hosted.fault = goes_away
    with connected(server, dialect=SMALL_PARTS, retries=1) as client:
        client.list_tables()
        with pytest.raises(UploadInterrupted) as caught:
            client.create_table("t", pa.dataset.dataset(whole()), compression=None)
    assert caught.value.attempts == 2
    assert caught.value.bytes_sent > 2 * 8 * ROWS
    assert "nothing was sent" not in str(caught.value)


def test_an_empty_table_is_not_skipped_for_a_frame_with_rows(client, hosted):
    client.create_table("t", pa.table({"n": pa.array([], pa.int64())}))
    words = "try again later, or drop it if it stays empty"
    with pytest.raises(TableExistsError, match=words) as raised:
        client.create_table("t", frames(), if_exists="skip")
    assert "if_exists" not in str(raised.value)
    words = r'if_exists="skip", "replace" or "append"$'
    with pytest.raises(TableExistsError, match=words):
        client.create_table("t", frames())
    client.create_table("u", frames())
    assert not client.create_table("u", frames(), if_exists="skip").created
