"""Writes in parts: any size arrives whole and in order, or nothing of it is seen."""

from __future__ import annotations

import itertools
import re
import time

import numpy as np
import pyarrow as pa
import pytest
import requests

import rt_frames as rt
from tests.support.compare import stored
from tests.support.faults import connected
from tests.support.hosted import SMALL_PARTS, Hosted, Table, serving
from tests.support.local import Process
from tests.support.servers import KEY, Server

ROWS = 10_000  # of each frame: 80 kB, so that each is a part


def frames(many: int = 3):
    for number in range(many):
        yield pa.table({"n": np.arange(ROWS) + number * ROWS})


@pytest.fixture
def hosted():
    return Hosted()


@pytest.fixture
def client(hosted):
    with serving(hosted) as server, connected(server, dialect=SMALL_PARTS, retries=1) as client:
        client.list_tables()  # which tells the server's version; what is larger than a part is never sent before that
        del hosted.steps[:]
        yield client


def numbers(hosted, name="t"):
    return hosted.tables[name].rows["n"].to_pylist()


def all_numbers(many: int = 3):
    return list(range(ROWS * many))


def test_what_is_larger_than_a_part_goes_in_parts_and_in_order(client, hosted):
    table = client.create_table("t", frames(20), compression=None)
    assert hosted.steps == ["list", "create", "create_parts", *["part"] * 20, "complete"]
    assert numbers(hosted) == all_numbers(20)
    assert max(hosted.sizes) < SMALL_PARTS.part_bytes
    assert hosted.part_ids == sorted(hosted.part_ids)
    assert all(re.fullmatch("00000000-00[01].-8...-[89ab]...-.{12}", one) for one in hosted.part_ids)
    assert (table.rows, table.version, table.created) == (20 * ROWS, 2, True)
    assert table.nbytes > 20 * ROWS * 8


@pytest.mark.parametrize("if_exists", ["append", "replace"])
def test_a_table_that_is_there_is_appended_to_or_replaced_in_parts(client, hosted, if_exists):
    client.create_table("t", pa.table({"n": [-1]}))
    del hosted.steps[:]
    table = client.create_table("t", frames(), if_exists=if_exists, compression=None)
    assert numbers(hosted) == [-1] * (if_exists == "append") + all_numbers()
    first = "list" if if_exists == "replace" else "describe"
    assert hosted.steps == [first, "describe", "create_parts", "part", "part", "part", "complete"]
    assert (table.version, table.rows) == (2, 3 * ROWS)


def test_replacing_a_table_that_is_not_there_makes_it(client, hosted):
    client.create_table("t", frames(), if_exists="replace")
    assert numbers(hosted) == all_numbers()


def test_a_small_frame_is_one_request(client, hosted):
    client.create_table("t", pa.table({"n": [1]}))
    assert hosted.steps == ["create"]


@pytest.mark.parametrize("version", [None, "0.3.9", "nonsense"])
def test_without_parts_it_is_one_request_and_413_says_what_it_means(version):
    hosted = Hosted(version=version)
    with serving(hosted) as server, connected(server, dialect=SMALL_PARTS) as client:
        client.create_table("t", frames())
        assert hosted.steps == ["list", "create"]
        hosted.fault = lambda _, step: "413" if step == "create" else ""
        with pytest.raises(rt.errors.PayloadTooLarge, match=r"after .* were sent; this server takes no more in one"):
            client.create_table("u", frames())


@pytest.mark.parametrize("step", ["create_parts", "part"])
@pytest.mark.parametrize("fault", ["cut", "500", "503", "429", "lose the answer"])
def test_a_fault_before_the_end_leaves_nothing_and_is_begun_anew_where_that_can_be(client, hosted, step, fault):
    left = [step]
    hosted.fault = lambda _, at: fault if at in left and (left.remove(at) or True) else ""
    rows = pa.table({"n": np.arange(3 * ROWS)})  # can be read again
    client.create_table("t", pa.concat_tables([rows] * 5), compression=None)
    assert numbers(hosted) == all_numbers() * 5
    assert not hosted.uploads or fault == "lose the answer"

    left.append(step)
    if step == "create_parts":
        client.create_table("u", frames())  # nothing was read of it yet
        return
    with pytest.raises(rt.errors.RemoteError, match=r"nothing of it is stored.*is used up") as caught:
        client.create_table("u", frames())
    assert list(hosted.tables) == ["t"]
    assert hosted.steps[-4:] == ["abort", "describe", "count_rows", "drop"]
    assert caught.value.attempts == 1


def test_what_a_source_raises_leaves_nothing(client, hosted):
    def failing():
        yield from frames(2)
        raise LookupError("of mine")

    with pytest.raises(LookupError, match="of mine"):
        client.create_table("t", failing())
    assert hosted.tables == {}
    assert hosted.uploads == {}


def test_an_interrupt_waits_for_no_service_that_has_stalled(client, hosted):
    def interrupted():
        yield from frames(2)
        hosted.fault = lambda _, step: "stall" if step == "abort" else "503"
        raise KeyboardInterrupt

    client.create_table("t", pa.table({"n": [1]}))
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        client.create_table("t", interrupted(), if_exists="append")
    assert time.monotonic() - start < 30  # the answer to any other request is waited for ten times as long
    assert numbers(hosted) == [1]


@pytest.mark.parametrize("if_exists", ["fail", "append", "replace"])
@pytest.mark.parametrize("fault", ["lose the answer", "cut", "500"])
def test_an_open_end_is_told_with_versions_and_never_sent_again(client, hosted, fault, if_exists):
    if if_exists != "fail":
        client.create_table("t", pa.table({"n": [-1]}))
    hosted.fault = lambda _, step: fault if step == "complete" else ""
    rows = pa.concat_tables(frames())
    with pytest.raises((rt.errors.OutcomeUnknown, rt.errors.ServerError)) as caught:
        client.create_table("t", rows, if_exists=if_exists, compression=None)
    had = 0 if if_exists == "fail" else 1
    told = re.search(r"it had version 1 and (\d) rows? before, and has (\d) and ([\d,]+) now", str(caught.value))
    assert int(told[1]) == had
    assert int(told[3].replace(",", "")) == hosted.tables["t"].rows.num_rows
    assert hosted.steps.count("complete") == 1
    assert not {"abort", "drop"} & {*hosted.steps}


def test_a_refused_end_of_a_new_table_says_that_it_is_there_without_rows(client, hosted):
    hosted.fault = lambda _, step: "409" if step == "complete" else ""
    with pytest.raises(rt.errors.ConflictError, match="but table 't', which was made for it, may be there"):
        client.create_table("t", frames())
    assert hosted.tables["t"].rows.num_rows == 0


def test_a_replacement_that_was_overtaken_begins_anew_where_it_can(client, hosted):
    def somebody_writes(step):
        if step == "part" and len(hosted.tables["t"].versions) == 1:
            hosted.tables["t"].versions.append([pa.table({"n": [-2]})])

    client.create_table("t", pa.table({"n": [-1]}))
    hosted.changed = somebody_writes
    client.create_table("t", pa.concat_tables(frames()), if_exists="replace", compression=None)
    assert numbers(hosted) == all_numbers()
    del hosted.tables["t"].versions[1:]
    with pytest.raises(rt.errors.ConflictError, match="nothing of it is stored"):
        client.create_table("t", frames(), if_exists="replace")
    assert numbers(hosted) == [-2]


def test_a_table_that_somebody_changed_meanwhile_is_left(client, hosted):
    hosted.fault = lambda _, step: "400" if step == "part" else ""
    hosted.changed = lambda step: (
        hosted.tables["t"].versions.append([pa.table({"n": [5]})]) if step == "create_parts" else None
    )
    with pytest.raises(rt.errors.BadRequest, match="somebody else has changed table 't', which stays"):
        client.create_table("t", frames())
    assert numbers(hosted) == [5]


@pytest.mark.parametrize("if_exists", ["fail", "append", "replace"])
@pytest.mark.parametrize("fault", ["twice", "429"])
def test_a_commit_is_never_asked_for_again_and_may_have_been_done_though_it_was_refused(
    client, hosted, if_exists, fault
):
    """As behind a front that sends a request again, and gives the second answer."""
    if if_exists != "fail":
        client.create_table("t", pa.table({"n": [-1]}))
    hosted.fault = lambda _, step: fault if step == "complete" else ""
    with pytest.raises(rt.errors.RemoteError, match=r"look whether the rows are there|nothing was added so far"):
        client.create_table("t", pa.concat_tables(frames()), if_exists=if_exists)
    assert hosted.steps.count("complete") == 1
    assert numbers(hosted)[-ROWS * 3 :] == all_numbers() or fault == "429"


def failing_after(happens):
    yield from frames(2)
    happens()
    raise LookupError("of mine")


def test_a_table_that_was_made_anew_with_rows_is_left(client, hosted):
    mine = Table([[pa.table({"n": [5]})]])
    with pytest.raises(LookupError) as caught:
        client.create_table("t", failing_after(lambda: hosted.tables.update(t=mine)))
    assert hosted.tables["t"] is mine
    assert "nothing of it is stored; somebody else has changed table 't'" in caught.value.__notes__[0]


def relay(service, happens):
    """Return a server that hands requests on to a service; ``happens`` is told each step, and may lose its answer."""

    def script(connection):
        while True:
            request = connection.head()
            connection.body(request)
            step = Hosted.step(request)
            fault = happens(step)
            head = {n: v for n, v in request.headers.items() if n.lower() in ("x-api-key", "content-type", "if-match")}
            found = requests.request(request.method, service.url + request.path, data=request.body, headers=head)
            if fault == "lose the answer":
                return connection.reset()
            told = {k: v for k, v in found.headers.items() if k in ("phalanx-version", "ETag")}
            connection.answer(found.status_code, found.json(), told)

    return Server(script=script)


def test_what_is_written_between_the_last_look_and_the_drop_is_kept(service, name):
    """The embedded service drops a table only if it is as it was made."""
    direct = rt.connect(service.url, api_key=KEY, dialect="lancedb", default=False)
    steps = []

    def appended(step):
        steps.append(step)
        if step == "drop":
            direct.create_table(name, pa.table({"n": [5]}), if_exists="append")

    with relay(service, appended) as server, connected(server, dialect=SMALL_PARTS, timeout=10) as client:
        client.list_tables()
        with pytest.raises(LookupError) as caught:
            client.create_table(name, failing_after(lambda: None))
    assert steps[-1] == "drop"
    assert stored(service, name)["n"].to_pylist() == [5]
    assert "may be there without rows" in caught.value.__notes__[0]


@pytest.mark.parametrize("times", [5, pytest.param(100, marks=pytest.mark.long)])
def test_a_commit_whose_answer_is_lost_is_never_doubled_and_never_dropped(service, name, times):
    steps, rows = [], list[int]()

    def lost(step):
        steps.append(step)
        return "lose the answer" if step == "complete" else ""

    with relay(service, lost) as server, connected(server, dialect=SMALL_PARTS, timeout=10) as client:
        client.list_tables()
        for number in range(times):
            if_exists = ("append", "replace")[number % 2] if number else "fail"
            rows = all_numbers() if if_exists != "append" else rows + all_numbers()
            with pytest.raises(rt.errors.OutcomeUnknown, match=f"has {number + 2} and {len(rows):,} now: look"):
                client.create_table(name, pa.concat_tables(frames()), if_exists=if_exists)
            assert stored(service, name)["n"].to_pylist() == rows
    assert steps.count("complete") == times
    assert not {"abort", "drop"} & {*steps}


@pytest.mark.long
def test_a_gigabyte_arrives_whole_and_in_order_below_the_limit_of_a_body(hosted):
    def batches():
        for number in range(250):
            yield pa.table({"n": np.arange(500_000) + number * 500_000})

    with serving(hosted) as server, connected(server, dialect="lancedb", timeout=60) as client:
        table = client.create_table("t", batches(), compression=None)
    assert table.nbytes > 10**9
    assert max(hosted.sizes) <= 64 * 2**20
    assert np.array_equal(hosted.tables["t"].rows["n"].to_numpy(), np.arange(250 * 500_000))


def test_a_service_that_goes_away_between_parts_interrupts_the_upload(tmp_path):
    with Process(tmp_path) as service:
        client = rt.connect(service.caller.url, api_key=KEY, dialect=SMALL_PARTS, retries=0, default=False)
        client.list_tables()
        with pytest.raises(rt.errors.UploadInterrupted, match="may be there without rows; drop it then") as caught:
            client.create_table("t", itertools.chain(frames(4), iter(service.kill, None), frames(2)))
    assert "nothing was sent" not in str(caught.value)
    assert caught.value.bytes_sent > 0


def test_an_empty_table_is_not_skipped_for_a_frame_with_rows(client, hosted):
    client.create_table("t", pa.table({"n": pa.array([], pa.int64())}))
    with pytest.raises(
        rt.errors.TableExistsError, match="is empty: an upload may have been killed; drop it, or append"
    ):
        client.create_table("t", frames(), if_exists="skip")
    client.create_table("u", frames())
    assert not client.create_table("u", frames(), if_exists="skip").created
