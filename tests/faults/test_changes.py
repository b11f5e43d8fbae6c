"""Faults of upserts, of columns added and dropped, of deletes and of restores.

F46 to F49 of the matrix in README.md.
"""

from __future__ import annotations

import itertools
import logging
import pickle

import numpy as np
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import errors
from tests.faults.test_advice import (
    BEFORE,
    CHANGES,
    NO_X,
    THERE,
    UPSERTED,
    WIDER,
    alter,
    append_wider,
    delete,
    restore,
    rows_of,
    upsert,
    upsert_wider,
    with_versions,
)
from tests.support.faults import MIB, assert_no_key, connected, fails
from tests.support.hosted import Hosted
from tests.support.servers import KEY, Connection
from tests.support.sources import Source


def add(client: rt.Client) -> rt.RemoteTable:
    after = pa.schema([*THERE.schema, pa.field("x", pa.float64())])
    return rt.alter_table(after, "t", add_columns=True, client=client)


def drop(client: rt.Client) -> rt.RemoteTable:
    after = THERE.schema.remove(1)
    return rt.alter_table(after, "t", drop_columns=["s"], client=client)


ONLY_N = [{"n": n} for n in (1, 2, 3, 4)]
# by endpoint: the call, the rows once it is done, and how many requests come before
EACH = {
    "merge_insert": (upsert, CHANGES[upsert][1], 1),
    "add_columns": (add, NO_X, 2),
    "drop_columns": (drop, ONLY_N, 2),
    "delete": (delete, CHANGES[delete][1], 1),
    "restore": (restore, BEFORE.to_pylist(), 1),
}
NOT_UPSERTS = ["add_columns", "drop_columns", "delete", "restore"]
# what an error says of the table
UNCHANGED = "so far the table is unchanged (version 2"
CHANGED = "before: version 2, 4 rows; now: version 3, "
UNTOUCHED = "nothing was "
UNDONE = {  # what is raised, what it says of the table, and how often is asked for it
    "close": (errors.OutcomeUnknown, UNCHANGED, 1),
    "cut": (errors.OutcomeUnknown, UNCHANGED, 1),
    "deaf": (errors.OutcomeUnknown, UNCHANGED, 1),
    "202": (errors.OutcomeUnknown, UNCHANGED, 1),
    "500": (errors.ServerError, UNCHANGED, 1),
    "503": (errors.ServerError, UNCHANGED, 1),
    "507": (errors.ServerError, UNTOUCHED, 1),
    "409": (errors.ConflictError, UNTOUCHED, 1),
    "429": (errors.RateLimited, UNTOUCHED, 2),
}
DONE = {
    "lose the answer": errors.OutcomeUnknown,
    "truncate": errors.OutcomeUnknown,
    "page": errors.OutcomeUnknown,
    "stall": errors.OutcomeUnknown,
    "fail when done": errors.ServerError,
}
ANSWERED = [fault for fault in DONE if fault != "stall"]
# a silence takes a second, so that one change waits for each
UNANSWERED = [("delete", "stall")]
UNANSWERED += itertools.product(["merge_insert", "delete", "restore"], ANSWERED)
BROKEN_OFF = [
    ("merge_insert", "deaf"),
    *itertools.product(NOT_UPSERTS, ["close", "cut"]),
]
REFUSED = itertools.product(EACH, ["202", "500", "503", "507", "409", "429"])


def told(error: errors.RemoteError) -> list[str]:
    """Return what an error says of the table."""
    return [words for words in (UNCHANGED, CHANGED, UNTOUCHED) if words in str(error)]


@pytest.mark.parametrize(("step", "fault"), [*BROKEN_OFF, *REFUSED])
def test_F46_F47_F48_F49_a_change_that_is_not_made_is_sent_again_only_if_that_is_safe(
    caplog, step, fault
):
    call, _, _ = EACH[step]
    kind, state, times = UNDONE[fault]
    hosted = with_versions(Hosted())
    with hosted.connect(retries=1, timeout=(5, 5, 1)) as client:
        hosted.meet(step, fault, times)
        error = fails(lambda: call(client), kind, caplog)
    assert told(error) == [state]
    assert hosted.steps.count(step) == times
    assert rows_of(hosted) == THERE.to_pylist()


@pytest.mark.parametrize("fault", ["close", "cut"])
def test_F46_an_upsert_whose_connection_breaks_is_sent_once(caplog, fault):
    hosted = with_versions(Hosted())
    # its last bytes may leave before the server hangs up, or after it
    kinds = errors.OutcomeUnknown, errors.UploadInterrupted
    with hosted.connect(retries=1, timeout=20) as client:
        hosted.meet("merge_insert", fault)
        with pytest.raises(kinds) as raised:
            upsert(client)
    assert_no_key(raised.value, caplog)
    assert told(raised.value) == [UNCHANGED]
    assert hosted.steps.count("merge_insert") == 1
    assert rows_of(hosted) == THERE.to_pylist()


@pytest.mark.parametrize(("step", "fault"), UNANSWERED)
def test_F46_F48_F49_of_a_change_that_was_made_without_an_answer_versions_are_told(
    caplog, step, fault
):
    call, rows, _ = EACH[step]
    hosted = with_versions(Hosted())
    with hosted.connect(retries=1, timeout=(5, 5, 1)) as client:
        hosted.meet(step, fault)
        error = fails(lambda: call(client), DONE[fault], caplog)
    assert told(error) == [CHANGED]
    assert hosted.steps.count(step) == 1
    assert rows_of(hosted) == sorted(rows, key=str)


@pytest.mark.parametrize("fault", ANSWERED)
@pytest.mark.parametrize("step", ["add_columns", "drop_columns"])
def test_F47_columns_that_were_changed_without_an_answer_are_a_success(step, fault):
    call, rows, _ = EACH[step]
    hosted = with_versions(Hosted())
    with hosted.connect(retries=1, timeout=20) as client:
        hosted.meet(step, fault)
        # the version may be another writer's
        assert call(client).version is None
    assert hosted.steps.count(step) == 1
    assert rows_of(hosted) == sorted(rows, key=str)


CANNOT = {
    "merge_insert": "update and insert rows",
    "add_columns": "add columns to a table",
    "drop_columns": "drop columns of a table",
    "delete": "delete rows",
    "restore": "restore a version of a table",
}


UNABLE = [("delete", status) for status in ("404", "405", "406", "415")]


@pytest.mark.parametrize(("step", "status"), [*UNABLE, *((s, "501") for s in EACH)])
def test_an_old_server_is_said_to_be_unable_and_nothing_is_tried_in_its_place(
    caplog, step, status
):
    call, _, before = EACH[step]
    hosted = with_versions(Hosted())
    unchanged = "no row was stored" if step == "merge_insert" else "nothing was changed"
    words = f"^this server cannot {CANNOT[step]}: {status}, .*{unchanged}$"
    with hosted.connect(retries=1, timeout=20) as client:
        hosted.meet(step, status, 1)
        fails(lambda: call(client), ValueError, caplog, words)
    assert hosted.steps.count(step) == 1
    assert {*hosted.steps[before + 1 :]} <= {"describe", "count_rows", "tables"}
    assert len(hosted.tables["t"].versions) == 2


@pytest.mark.parametrize("step", EACH)
def test_a_404_of_a_table_that_is_gone_is_about_the_table(caplog, step):
    call, _, before = EACH[step]
    hosted = with_versions(Hosted())
    with hosted.connect(timeout=20) as client:

        def fault(number: int, _step: str) -> str:
            if number > before:
                hosted.tables.clear()
            return ""

        hosted.fault = fault
        error = fails(lambda: call(client), errors.TableNotFoundError, caplog)
    assert (error.status, error.table) == (404, "t")
    assert hosted.steps.count(step) == 1


def test_a_404_of_a_version_is_about_the_version(caplog):
    hosted = with_versions(Hosted())
    with hosted.connect(timeout=20) as client:
        table = client.table("t", version=9)
        fails(table.restore, errors.TableNotFoundError, caplog, "no version 9")


SECOND_LOOKS = [(step, "500", "close") for step in EACH]
SECOND_LOOKS += itertools.product(
    ["merge_insert"], ["404", "500", "lose the answer"], ["500", "page", "401"]
)


@pytest.mark.parametrize(("step", "status", "look"), SECOND_LOOKS)
def test_what_a_second_look_meets_hides_no_first_fault_of_a_change(
    caplog, step, status, look
):
    call, _, before = EACH[step]
    hosted = with_versions(Hosted())

    def fault(number: int, at: str) -> str:
        if at == step:
            return status
        return look if number > before else ""

    kind = {"404": errors.TableNotFoundError, "500": errors.ServerError}
    with hosted.connect(retries=0, timeout=20) as client:
        hosted.fault = fault
        error = fails(
            lambda: call(client), kind.get(status, errors.OutcomeUnknown), caplog
        )
    looked = "the table could not be checked; check it" in str(error)
    assert looked == (status != "404")


@pytest.mark.parametrize("body", [{}, b""])
def test_old_servers_that_tell_no_numbers_succeed_with_unknown_numbers(server, body):
    fields = rt.data_type(pa.struct(list(THERE.schema)))["fields"]
    look = (200, {"version": 1, "schema": {"fields": fields}})
    server.responding(lambda one: look if "/describe/" in one.path else (200, body))
    client = connected(server, dialect="lancedb")
    made = client.create_table("t", UPSERTED, if_exists="upsert", on="n")
    assert (made.updated, made.inserted, made.version) == (None, None, None)
    assert (made.rows, made.created) == (2, False)
    assert client.table("t").delete([("n", ">", 1)]) is None
    assert client.table("t", version=1).restore().version is None
    assert add(client).version is None
    assert drop(client).version is None


WIDER_SCHEMA = pa.schema([*THERE.schema, pa.field("x", pa.float64())])
ADD_X = rt.plan_alterations(THERE.schema, WIDER_SCHEMA, add_columns=True)
DROP_S = rt.plan_alterations(THERE.schema, THERE.schema.remove(1), drop_columns=["s"])
UNDOCUMENTED = [
    upsert,
    append_wider,
    delete,
    restore,
    lambda client: client.alter_columns("t", ADD_X),
    lambda client: client.alter_columns("t", DROP_S),
]


@pytest.mark.parametrize("call", UNDOCUMENTED)
def test_the_documented_service_has_none_of_them_and_is_asked_nothing(server, call):
    words = r'(cannot|not possible).* dialect="documented".*dialect="lancedb"'
    with pytest.raises(ValueError, match=words):
        call(connected(server))
    assert server.requests == []


def test_servers_are_not_asked_to_compact():
    hosted = with_versions(Hosted())
    with (
        hosted.connect() as client,
        pytest.raises(
            ValueError, match="merge files by themselves; nothing was changed"
        ),
    ):
        client.table("t").compact(purge=True)
    assert hosted.steps == []


def test_an_append_whose_new_columns_are_refused_says_that_its_iterator_is_exhausted(
    caplog,
):
    hosted = with_versions(Hosted())
    options = {"if_exists": "append", "add_columns": True}
    with hosted.connect(retries=0, timeout=20) as client:
        for status, kind in (("400", errors.BadRequest), ("503", errors.ServerError)):
            hosted.meet("add_columns", status, 1)
            source = Source(make=lambda _: WIDER)
            rows = source.run()
            said = fails(
                lambda rows=rows: client.create_table("t", rows, **options),
                kind,
                caplog,
            )
            assert "iterator is exhausted: create a new one" in str(said)
            assert source.closed


@pytest.mark.parametrize(
    ("change", "step"), [(append_wider, "insert"), (upsert_wider, "merge_insert")]
)
def test_rows_with_new_columns_take_three_requests(change, step):
    hosted = with_versions(Hosted())
    with hosted.connect(retries=0, timeout=20) as client:
        change(client)
    assert hosted.steps == ["describe", "add_columns", step]


@pytest.mark.parametrize("change", [append_wider, upsert_wider])
@pytest.mark.parametrize("fault", ["lose the answer", "fail when done", "truncate"])
def test_F47_rows_follow_columns_that_were_added_without_an_answer(
    caplog, change, fault
):
    hosted = with_versions(Hosted())
    with hosted.connect(retries=0, timeout=20) as client:
        hosted.meet("add_columns", fault, 1)
        change(client)
    assert hosted.steps.count("add_columns") == 1
    assert rows_of(hosted) == sorted(CHANGES[change][1], key=str)


OTHERS = {  # what somebody else adds meanwhile
    "another type": pa.field("x", pa.int64()),
    "another name": pa.field("X", pa.float64()),
}


@pytest.mark.parametrize("field", OTHERS.values(), ids=OTHERS)
def test_F47_what_is_there_but_differs_is_not_done(caplog, field):
    hosted = with_versions(Hosted())

    def somebody(step: str) -> None:
        hosted.tables["t"].versions[-1] = [
            THERE.append_column(field, pa.nulls(4, field.type))
        ]

    with hosted.connect(retries=0, timeout=20) as client:
        hosted.meet("add_columns", "lose the answer", 1)
        hosted.changed = lambda step: step == "add_columns" and somebody(step)
        fails(
            lambda: add(client),
            errors.OutcomeUnknown,
            caplog,
            "before: version 2, 4 rows;",
        )


@pytest.mark.parametrize(("change", "rows"), [(add, NO_X), (alter, CHANGES[alter][1])])
def test_a_plan_goes_on_if_somebody_else_adds_its_column_meanwhile(change, rows):
    hosted = with_versions(Hosted())
    theirs = THERE.append_column("x", pa.nulls(4, pa.float64()))

    def somebody(step: str) -> None:
        # once this plan has looked
        if step == "describe" and len(hosted.tables["t"].versions) == 2:
            hosted.tables["t"].versions.append([theirs])

    with hosted.connect(retries=0, timeout=20) as client:
        hosted.changed = somebody
        change(client)
    assert hosted.steps.count("add_columns") == 1
    assert rows_of(hosted) == sorted(rows, key=str)


def test_F46_an_upsert_that_is_cut_in_its_body_is_sent_once_and_safe_to_send_again(
    wire, caplog
):
    server, connect = wire
    big = pa.table({"n": np.arange(2 * MIB)})
    fields = rt.data_type(pa.struct(list(big.schema)))["fields"]

    def script(connection: Connection) -> None:
        while True:
            request = connection.head()
            if "merge_insert" in request.path:
                connection.body(request, 3 * MIB)
                return connection.reset()
            connection.body(request)
            is_count = "count_rows" in request.path
            described = {"version": 2, "schema": {"fields": fields}}
            connection.answer(200, b"4" if is_count else described)

    server.script = script
    client = connect(dialect="lancedb", timeout=20)
    options = {"if_exists": "upsert", "on": "n", "compression": None}
    error = fails(
        lambda: client.create_table("t", big, **options),
        errors.UploadInterrupted,
        caplog,
        r"so far the table is unchanged.*; it is safe to send again",
    )
    merges = [one for one in server.posts if "merge_insert" in one.path]
    assert (len(merges), error.attempts, error.rows) == (1, 1, 2 * MIB)


def test_no_log_repr_pickle_or_progress_of_them_has_the_key(
    caplog, capsys, monkeypatch
):
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    hosted = with_versions(Hosted())
    with hosted.connect(timeout=20) as client:
        made = client.create_table(
            "t", UPSERTED, if_exists="upsert", on="n", progress=True
        )
        pinned = client.table("t", version=1)
        tables = [made, pinned, add(client), drop(client), pinned.restore()]
        delete(client)
        for table in tables:
            shown = f"{table!r} {vars(table)} {table._repr_html_()}"
            packed = pickle.dumps(table)
            again = pickle.loads(packed)
            assert KEY not in f"{shown} {packed}"
            assert (again.version, repr(again)) == (table.version, repr(table))
            assert again.count() == table.count()
        again = pickle.loads(pickle.dumps(pinned))
        assert again.to_arrow() == BEFORE
        with pytest.raises(ValueError, match="read-only"):
            again.delete([("n", "==", 1)])
        again.restore()
        unpickled = pickle.loads(pickle.dumps(made))
        hosted.server.requests.clear()
        unpickled.count()
        assert hosted.server.requests[-1].headers["x-lancedb-min-version"] == "3"
    assert rows_of(hosted) == BEFORE.to_pylist()
    assert "t: 100%" in (shown := capsys.readouterr().err)
    assert "2 rows" in shown
    assert KEY not in caplog.text + shown
