"""Faults of upserts, of columns added and dropped, of deletes and of restores.

F46 to F49 of the matrix in README.md.
"""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import random
import re
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import errors
from tests.faults.test_advice import (
    BEFORE,
    CHANGES,
    NO_X,
    OF_CHANGES,
    THERE,
    UPSERTED,
    WIDER,
    advised,
    alter,
    append_wider,
    delete,
    restore,
    rows_of,
    upsert,
    upsert_wider,
    with_versions,
)
from tests.support.faults import MIB, Source, assert_no_key, connected, fails
from tests.support.hosted import Hosted, serving
from tests.support.processes import python
from tests.support.servers import KEY, Connection


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
FAULTS = {  # what is raised, whether the change is done, and how often it is asked for
    "close": (errors.OutcomeUnknown, False, 1),
    "cut": (errors.OutcomeUnknown, False, 1),
    "deaf": (errors.OutcomeUnknown, False, 1),
    "lose the answer": (errors.OutcomeUnknown, True, 1),
    "truncate": (errors.OutcomeUnknown, True, 1),
    "page": (errors.OutcomeUnknown, True, 1),
    "stall": (errors.OutcomeUnknown, True, 1),
    "202": (errors.OutcomeUnknown, False, 1),
    "500": (errors.ServerError, False, 1),
    "fail when done": (errors.ServerError, True, 1),
    "503": (errors.ServerError, False, 1),
    "507": (errors.ServerError, False, 1),
    "409": (errors.ConflictError, False, 1),
    "429": (errors.RateLimited, False, 2),
}
OPEN = (errors.OutcomeUnknown, errors.ServerError)


def fails_as(
    call: Callable[[], object],
    kinds: list[type[errors.RemoteError]],
    caplog: pytest.LogCaptureFixture,
) -> errors.RemoteError:
    """Make a call that must fail in one of some ways."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises(tuple(kinds)) as raised:
        call()
    assert type(raised.value) in kinds
    assert_no_key(raised.value, caplog)
    return raised.value


# a second each, which one change waits for
SLOW = ("deaf", "stall")
CASES = [("merge_insert", "deaf"), ("delete", "stall")]
CASES += itertools.product(EACH, [fault for fault in FAULTS if fault not in SLOW])


@pytest.mark.parametrize(("step", "fault"), CASES)
def test_F46_F47_F48_F49_each_fault_has_its_error_and_is_sent_again_only_if_safe(
    caplog, step, fault
):
    call, done_rows, _ = EACH[step]
    kind, is_done, times = FAULTS[fault]
    kinds = [kind]
    if step == "merge_insert" and fault in ("close", "cut"):
        # the last bytes may leave before the server hangs up, or after it
        kinds = [errors.OutcomeUnknown, errors.UploadInterrupted]
    hosted = with_versions(Hosted())
    with hosted.connect(retries=1, timeout=(5, 5, 1)) as client:
        hosted.meet(step, fault, times)
        if is_done and step in ("add_columns", "drop_columns"):
            # the version may be another writer's
            assert call(client).version is None
        else:
            said = str(fails_as(lambda: call(client), kinds, caplog))
            is_open = kinds[0] in OPEN and fault != "507"
            now = "3" if is_done else "2"
            versions = re.search(
                r"(?:before: version 2\b.*; now: version|unchanged \(version) (\d)",
                said,
            )
            assert (versions and versions[1]) == (now if is_open else None), said
            is_truncated = kinds[-1] is errors.UploadInterrupted
            assert ("nothing was" in said) == (not is_open and not is_truncated)
    assert hosted.steps.count(step) == times
    expected = done_rows if is_done else THERE.to_pylist()
    assert rows_of(hosted) == sorted(expected, key=str)


@pytest.mark.parametrize("step", EACH)
def test_F46_F47_F48_F49_429_is_waited_for_and_the_change_made_once(step):
    call, done_rows, _ = EACH[step]
    hosted = with_versions(Hosted())
    with hosted.connect(retries=2, timeout=20) as client:
        hosted.meet(step, "429", 2)
        call(client)
    assert hosted.steps.count(step) == 3
    assert len(hosted.tables["t"].versions) == 3
    assert rows_of(hosted) == sorted(done_rows, key=str)


@pytest.mark.parametrize("step", EACH)
def test_F46_F47_F48_F49_of_a_refused_connection_nothing_was_sent(caplog, step):
    call, _, before = EACH[step]
    hosted = with_versions(Hosted())
    left = [*range(before)]
    with serving(hosted) as server:

        def script(connection: Connection) -> None:
            """Describe the table on a connection of its own, then hang up."""
            request = connection.body(connection.head())
            left.pop()
            if not left:
                server._listener.shutdown(socket.SHUT_RDWR)
                server._listener.close()
            answer = hosted.answer(request, hosted.step(request))
            connection.answer(*answer, {"Connection": "close"})

        server.script = script
        client = connected(server, dialect="lancedb", retries=1)
        error = fails(lambda: call(client), errors.ConnectError, caplog)
        server._listener = socket.create_server(("127.0.0.1", 0))
    assert "nothing was sent" in str(error)
    assert error.attempts == 2
    assert rows_of(hosted) == THERE.to_pylist()


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
        error = fails(lambda: call(client), kind.get(status, OPEN[0]), caplog)
    looked = "the table could not be checked; check it" in str(error)
    assert looked == (status != "404")


@pytest.mark.parametrize("body", [{}, b""])
def test_old_servers_that_tell_no_numbers_succeed_with_unknown_numbers(server, body):
    fields = rt.data_type(pa.struct(list(THERE.schema)))["fields"]

    def script(connection: Connection) -> None:
        while True:
            request = connection.body(connection.head())
            is_look = "/describe/" in request.path
            described = {"version": 1, "schema": {"fields": fields}}
            connection.answer(200, described if is_look else body)

    server.script = script
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


def test_columns_that_were_added_before_what_an_old_server_refuses_are_told(caplog):
    hosted = with_versions(Hosted())
    with hosted.connect(retries=0, timeout=20) as client:
        hosted.meet("merge_insert", "501", 1)
        error = fails(lambda: upsert_wider(client), ValueError, caplog, "no row")
    assert "columns 'x' were added before, and contain nulls" in str(error)
    assert rows_of(hosted) == NO_X


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


def test_F47_a_plan_goes_on_after_columns_that_were_added_without_an_answer():
    hosted = with_versions(Hosted())
    with hosted.connect(retries=0, timeout=(5, 5, 1)) as client:
        left = {"add_columns": "stall", "drop_columns": "truncate"}
        hosted.fault = lambda _, at: left.pop(at, "")
        alter(client)
    assert left == {}
    assert rows_of(hosted) == sorted(CHANGES[alter][1], key=str)


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
    big = pa.table({"n": np.arange(4 * MIB)})
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
    assert (len(merges), error.attempts, error.rows) == (1, 1, 4 * MIB)


@pytest.mark.parametrize(("status", "times"), [("429", 1), ("503", 1)])
def test_F46_an_upsert_that_can_be_read_once_is_sent_once(caplog, status, times):
    hosted = with_versions(Hosted())
    kinds = {"429": errors.RateLimited, "503": errors.ServerError}
    source = Source(1, make=lambda _: UPSERTED)
    with hosted.connect(retries=2, timeout=20) as client:
        hosted.meet("merge_insert", status, 3)
        fails(
            lambda: client.create_table("t", source.run(), if_exists="upsert", on="n"),
            kinds[status],
            caplog,
            "iterator is exhausted",
        )
    assert hosted.steps.count("merge_insert") == times
    assert source.closed


@pytest.mark.parametrize(
    ("keys", "error", "kind"),
    [
        ([5, 6, 7], KeyError("row 7"), KeyError),
        ([9, 9], None, errors.UnsupportedTypeError),
    ],
)
def test_F46_what_a_source_or_a_double_key_breaks_off_stores_nothing(
    caplog, keys, error, kind
):
    hosted = with_versions(Hosted())
    pieces = [pa.table({"n": [key], "s": ["x"]}) for key in keys]
    source = Source(len(keys), error, make=pieces.__getitem__)
    rows = source.run()
    with hosted.connect(retries=2, timeout=20) as client:
        fails(
            lambda: client.create_table("t", rows, if_exists="upsert", on="n"),
            kind,
            caplog,
        )
    assert source.closed
    assert rows_of(hosted) == THERE.to_pylist()
    assert len(hosted.tables["t"].versions) == 2


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


READ_FAULTS = ["500", "503", "429", "close", "cut", "truncate"]
WRITE_FAULTS = [fault for fault in FAULTS if fault not in ("deaf", "stall")]
# what counts before the others, and after them
UNCHECKED = {"the table could not be checked; check it": "check"}
AFTER_READS = {
    "try again later": "again",
    "; try again": "again",
    "check the URL": "again",
}


class Drawn:
    """Draws changes, and faults that they meet; follows what errors advise.

    It knows which rows must be there in the end.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        kinds = [{}, {"tells_version": False}]
        self.hosted = with_versions(Hosted(**self.random.choice(kinds)))
        self.added = 0
        self.told: list[str] = []

    @property
    def table(self) -> pa.Table:
        return self.hosted.tables["t"].rows

    def rows(self, extra: Sequence[str] = ()) -> pa.Table:
        """Draw rows of the table's columns, and of more, with keys of their own."""
        keys = self.random.sample(range(12), self.random.randint(1, 6))
        columns = {"n": keys}
        for name in [*self.table.column_names, *extra]:
            if name != "n":
                columns[name] = [f"{name}{self.random.randrange(100)}" for _ in keys]
        return pa.table(columns)

    def draw(self, client: rt.Client) -> tuple[Callable[[], object], list[dict]]:
        """Draw a call, and compute the rows that it leaves."""
        draws = [
            self.draw_upsert,
            self.draw_append,
            self.draw_delete,
            self.draw_restore,
            self.draw_add,
        ]
        if len(self.table.column_names) > 1:
            draws.append(self.draw_drop)
        return self.random.choice(draws)(client)

    def new_column(self) -> str:
        self.added += 1
        return f"c{self.added}"

    def write(
        self, client: rt.Client, kept: list[dict], rows: pa.Table, **options: Any
    ) -> tuple[Callable[[], object], list[dict]]:
        nulls = {}
        for name in rows.column_names:
            if name not in self.table.column_names:
                nulls[name] = None
        left = [{**row, **nulls} for row in kept] + rows.to_pylist()
        options["add_columns"] = bool(nulls)
        return lambda: client.create_table("t", rows, **options), left

    def draw_rows(self) -> pa.Table:
        if self.random.random() < 0.5:
            return self.rows([self.new_column()])
        return self.rows()

    def draw_append(self, client):
        rows = self.draw_rows()
        return self.write(client, self.table.to_pylist(), rows, if_exists="append")

    def draw_upsert(self, client):
        rows = self.draw_rows()
        keys = rows["n"].to_pylist()
        kept = [row for row in self.table.to_pylist() if row["n"] not in keys]
        return self.write(client, kept, rows, if_exists="upsert", on="n")

    def draw_delete(self, client):
        least = self.random.randrange(12)
        left = [row for row in self.table.to_pylist() if row["n"] < least]
        return lambda: client.table("t").delete([("n", ">=", least)]), left

    def draw_restore(self, client):
        versions = self.hosted.tables["t"].versions
        number = self.random.randint(1, len(versions))
        left = pa.concat_tables(versions[number - 1]).to_pylist()
        return client.table("t", version=number).restore, left

    def draw_add(self, client):
        name = self.new_column()
        after = self.table.schema.append(pa.field(name, pa.string()))
        left = [{**row, name: None} for row in self.table.to_pylist()]
        options = {"add_columns": True, "client": client}
        return lambda: rt.alter_table(after, "t", **options), left

    def draw_drop(self, client):
        name = self.random.choice([n for n in self.table.column_names if n != "n"])
        left = self.table.drop_columns([name])
        options = {"drop_columns": [name], "client": client}
        return lambda: rt.alter_table(left.schema, "t", **options), left.to_pylist()

    def set_faults(self) -> None:
        """Have some of the next requests meet a fault each."""
        first = len(self.hosted.steps) + 1
        numbers = {first + self.random.randrange(6) for _ in range(3)}

        def fault(number: int, step: str) -> str:
            if number not in numbers:
                return ""
            is_read = step in ("describe", "count_rows", "list")
            if not is_read and self.random.random() < 0.2:
                return "late"
            return self.random.choice(READ_FAULTS if is_read else WRITE_FAULTS)

        self.hosted.fault = fault

    def change(self, client: rt.Client) -> None:
        """Make a change, and do what its errors advise until it is done."""
        call, expected = self.draw(client)
        expected.sort(key=str)
        self.set_faults()
        for _ in range(10):
            try:
                call()
                break
            except errors.RemoteError as error:
                self.told.append(str(error))
                done = advised(error, {**UNCHECKED, **OF_CHANGES, **AFTER_READS})
                if done != "again":
                    self.hosted.release()
                if done == "check" and rows_of(self.hosted) == expected:
                    break
        self.hosted.fault = lambda *_: ""
        self.hosted.release()
        assert rows_of(self.hosted) == expected


@pytest.mark.parametrize("runs", [10, pytest.param(300, marks=pytest.mark.long)])
def test_F46_F47_F48_F49_drawn_changes_through_drawn_faults_are_made_once(
    runs, monkeypatch
):
    # what is drawn is not how long is waited
    monkeypatch.setattr("rt_frames._http.session.time.sleep", lambda _: None)
    for seed in range(runs):
        drawn = Drawn(seed)
        retries = drawn.random.randrange(3)
        with drawn.hosted.connect(retries=retries, timeout=20) as client:
            for _ in range(4):
                try:
                    drawn.change(client)
                except Exception as error:
                    error.add_note(f"seed {seed}: {drawn.told}")
                    raise


KEYS = 20_000


def upserted(number: int) -> pa.Table:
    """Make rows of all keys that carry the number of their upsert."""
    return pa.table({"n": range(KEYS), "run": pa.array([number] * KEYS, pa.int64())})


def number_of(root: Path) -> int:
    """Tell which upsert wrote the rows of a table: one for all of them."""
    found = lance.dataset(str(root / "t.lance")).to_table().sort_by("n")
    number = found["run"][0].as_py()
    assert found.equals(upserted(number)), number
    return number


class Serving:
    """``rt-frames serve`` on a folder, in a process that can be killed."""

    def __init__(self, root: Path) -> None:
        env = {**os.environ, "RT_FRAMES_API_KEY": KEY}
        self.process = python("-m", "rt_frames.cli", "serve", root, env=env)
        self.url = self.process.stdout.readline().strip().partition("=")[2]

    def connect(self) -> rt.Client:
        return rt.connect(
            self.url, api_key=KEY, dialect="lancedb", retries=0, default=False
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


# what is certain of an upsert by the words of its error
CERTAIN = {
    "nothing was sent": False,
    "nothing was stored": False,
    "could not describe": False,
    "the table could not be checked; check it": None,
}


@pytest.mark.long
def test_F46_of_a_service_that_is_killed_in_mid_upsert_the_error_is_true(
    tmp_path, caplog
):
    rt.connect(tmp_path, default=False).create_table("t", upserted(0))
    number = last = 0
    for kill in range(15):
        serving = Serving(tmp_path)
        client = serving.connect()
        client.table("t").count()
        seconds = random.Random(kill).uniform(0.02, 0.6)
        timer = threading.Timer(seconds, serving.process.kill)
        timer.start()
        try:
            while True:
                number += 1
                upsert_all(client, number)
                last = number
        except errors.RemoteError as error:
            assert_no_key(error, caplog)
            said = str(error)
        timer.join()
        serving.kill()
        found = number_of(tmp_path)
        is_done = [done for words, done in CERTAIN.items() if words in said]
        assert is_done, said
        assert found in ((last,) if is_done[0] is False else (last, number)), said
        again = Serving(tmp_path)
        upsert_all(again.connect(), number)
        assert number_of(tmp_path) == number
        last = number
        again.kill()


def upsert_all(client: rt.Client, number: int) -> None:
    rows = upserted(number)
    client.create_table("t", rows, if_exists="upsert", on="n")
