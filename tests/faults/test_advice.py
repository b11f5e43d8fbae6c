"""Follow the advice of an error: then every row is there once."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest

import rt_frames as rt
from tests.support.hosted import SMALL_PARTS, Hosted, Table, with_parts_of

PIECES = [
    pa.table({"n": np.arange(start, start + 10_000)}) for start in (0, 10_000, 20_000)
]
ROWS = pa.dataset.dataset(pa.concat_tables(PIECES))  # of no known size: three parts
OLD = pa.table({"n": [-1]})


class Writer:
    """Somebody who writes, and does what errors say."""

    def __init__(self, hosted: Hosted, client: rt.Client, if_exists: str) -> None:
        self.hosted = hosted
        self.client = client
        self.if_exists = if_exists
        self.before = self.count()

    def send(self) -> None:
        self.hosted.fault = lambda *_: ""
        self.client.create_table("t", ROWS, if_exists=self.if_exists, compression=None)

    def count(self) -> int | None:
        if "t" not in self.client.list_tables():
            return None
        return self.client.table("t").count()

    def wait(self) -> None:
        self.hosted.fault = lambda *_: ""
        self.hosted.release()

    def drop(self) -> None:
        self.hosted.fault = lambda *_: ""
        with contextlib.suppress(rt.errors.TableNotFoundError):
            self.client.table("t").drop()

    def send_if_unchanged(self) -> None:
        self.wait()
        if self.count() == self.before:
            self.send()

    def wait_drop_and_send(self) -> None:
        self.wait()
        self.drop()
        self.send()

    def drop_and_send(self) -> None:
        self.drop()
        self.send()

    def append(self) -> None:
        self.if_exists = "append"
        self.send()


unchanged = Writer.send_if_unchanged
# in the order in which they are looked for: what an error says, and what is then done
ADVICE = {
    "drop the table if it is empty, and send again": Writer.wait_drop_and_send,
    "if it is empty, drop it before sending again": Writer.drop_and_send,
    "drop it, and send again": Writer.drop_and_send,
    "wait for the service's timeout, and check again before sending again": unchanged,
    "check the table's rows before sending again": unchanged,
    "list the tables again before sending again": unchanged,
    "list them before sending again": unchanged,
    "check that it is complete before you go on": unchanged,
    "check it, or replace it again": Writer.send,
    "safe to send again": Writer.send,
    '"replace" or "append"': Writer.append,
    "nothing was stored": Writer.send,
    "check it, then try again": unchanged,
    "before the next call": Writer.send,
}
# 503 stands for 500 and 504
FAULTS = ["cut", "lose the answer", "late", "503", "429", "409", "507"]
OF_PARTS = [*FAULTS, "twice", "404", "413"]
STEPS = ["create_parts", "part", "complete"]
WHOLE = with_parts_of(None)
CASES = [
    *itertools.product([WHOLE], ["create", "insert"], FAULTS),
    *itertools.product([SMALL_PARTS], ["create"], [*FAULTS, "twice"]),
    *itertools.product([SMALL_PARTS], STEPS, OF_PARTS),
]


def advised(error: Exception, advice: dict[str, Any]) -> Any:
    """Return what the first of these words in an error advises."""
    said = "; ".join([str(error), *getattr(error, "__notes__", ())])
    found = [do for words, do in advice.items() if words in said]
    assert found, said
    return found[0]


@pytest.mark.parametrize("if_exists", ["fail", "append", "replace"])
@pytest.mark.parametrize(
    "has_table", [True, pytest.param(False, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("retries", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(("dialect", "step", "fault"), CASES)
def test_after_what_an_error_advises_every_row_is_there_once(
    if_exists, has_table, retries, dialect, step, fault
):
    hosted = Hosted()
    with hosted.connect(dialect=dialect, retries=retries, timeout=20) as client:
        if has_table and if_exists != "fail":
            client.create_table("t", OLD)
        client.list_tables()
        writer = Writer(hosted, client, if_exists)
        hosted.meet(step, fault, 2)
        try:
            client.create_table("t", ROWS, if_exists=if_exists, compression=None)
        except rt.errors.RemoteError as error:
            advised(error, ADVICE)(writer)
        hosted.release()
    kept = [-1] if has_table and if_exists == "append" else []
    assert hosted.tables["t"].rows["n"].to_pylist() == [*kept, *range(30_000)]


@pytest.mark.parametrize("fault", OF_PARTS)
@pytest.mark.parametrize("step", ["describe", "query", *STEPS])
def test_after_what_the_error_of_a_rewrite_advises_all_is_rewritten_once(step, fault):
    hosted = Hosted()
    texts = pa.schema({"n": pa.string()})
    with hosted.connect(retries=0, timeout=20) as client:
        client.create_table("t", OLD)
        hosted.meet(step, fault, 1)
        for _ in range(2):  # whatever was advised, looking first is a part of the call
            with contextlib.suppress(rt.errors.RemoteError):
                rt.alter_table(texts, "t", rewrite=True, client=client)
            hosted.release()
    assert hosted.tables["t"].rows.to_pydict() == {"n": ["-1"]}
    assert len(hosted.tables["t"].versions) == 2


BEFORE = pa.table({"n": [1, 2, 3], "s": ["a", "b", "c"]})
THERE = pa.table({"n": [1, 2, 3, 4], "s": ["a", "b", "c", "d"]})
UPSERTED = pa.table({"n": [4, 5], "s": ["D", "e"]})
WIDER = UPSERTED.append_column("x", pa.array([1.5, None]))


def upsert(client: rt.Client) -> None:
    client.create_table("t", UPSERTED, if_exists="upsert", on="n")


def upsert_wider(client: rt.Client) -> None:
    options = {"if_exists": "upsert", "on": "n", "add_columns": True}
    client.create_table("t", WIDER, **options)


def append_wider(client: rt.Client) -> None:
    client.create_table("t", WIDER, if_exists="append", add_columns=True)


def alter(client: rt.Client) -> None:
    after = pa.schema({"n": pa.int64(), "x": pa.float64()})
    rt.alter_table(after, "t", add_columns=True, drop_columns=["s"], client=client)


def delete(client: rt.Client) -> None:
    client.table("t").delete([("n", ">", 2)])


def restore(client: rt.Client) -> None:
    client.table("t", version=1).restore()


NEW = [{"n": 4, "s": "D"}, {"n": 5, "s": "e"}]
NO_X = [{**row, "x": None} for row in THERE.to_pylist()]
NEW_X = WIDER.to_pylist()
ONLY_X = [{"n": n, "x": None} for n in (1, 2, 3, 4)]
# by call: the requests that it makes, and the rows that are then there
CHANGES = {
    upsert: (["merge_insert"], [*BEFORE.to_pylist(), *NEW]),
    upsert_wider: (["add_columns", "merge_insert"], [*NO_X[:3], *NEW_X]),
    append_wider: (["add_columns", "insert"], [*NO_X, *NEW_X]),
    alter: (["add_columns", "drop_columns"], ONLY_X),
    delete: (["delete"], BEFORE.to_pylist()[:2]),
    restore: (["restore"], BEFORE.to_pylist()),
}
# of these, the outcome depends on the service
UNCLEAR = ["cut", "lose the answer", "late", "503", "fail when done"]
OF_A_CHANGE = [*FAULTS, "close", "truncate", "page", "fail when done", "202"]
# an append that is made twice is there twice, as nobody asked for it
OF_ALL_BUT_APPENDS = ["twice", "404", "405", "406", "415", "501"]
NO_VERSION = {"tells_version": False}
CHANGING = []
for call, (steps_of_call, _) in CHANGES.items():
    CHANGING += itertools.product([{}], [call], steps_of_call, OF_A_CHANGE)
    steps_to_repeat = [one for one in steps_of_call if one != "insert"]
    CHANGING += itertools.product([{}], [call], steps_to_repeat, OF_ALL_BUT_APPENDS)
    if call not in (alter, restore):
        CHANGING += itertools.product([NO_VERSION], [call], steps_of_call, UNCLEAR)
OF_CHANGES = {  # as ADVICE; a call is made again at once, or once the service is done
    "service's timeout, then send again": "wait",
    "wait for the service's timeout, and check again": "check",
    "check the table's rows": "check",
    "safe to repeat the delete": "again",
    "safe to restore": "again",
    "check it, then try again": "check",
    "safe to send again": "again",
    "nothing was stored": "again",
    "nothing was changed": "again",
    "before the next call": "again",
    "no row was stored": "again",
    "run the same call again": "again",
    "the same call": "again",
}


def with_versions(hosted: Hosted) -> Hosted:
    """Put a table of two versions into a service."""
    hosted.tables["t"] = Table([[BEFORE], [THERE]])
    return hosted


def rows_of(hosted: Hosted) -> list[dict]:
    return sorted(hosted.tables["t"].rows.to_pylist(), key=str)


@pytest.mark.parametrize(("kind", "change", "step", "fault"), CHANGING)
def test_F46_F47_F48_F49_after_what_the_error_of_a_change_advises_it_is_done_once(
    kind, change, step, fault
):
    hosted = with_versions(Hosted(**kind))
    expected = sorted(CHANGES[change][1], key=str)
    with hosted.connect(retries=0, timeout=20) as client:
        hosted.meet(step, fault, 1)
        try:
            change(client)
        except (rt.errors.RemoteError, ValueError) as error:
            done = advised(error, OF_CHANGES)
            if done != "again":
                hosted.release()
            if done != "check" or rows_of(hosted) != expected:
                change(client)
        hosted.release()
    assert rows_of(hosted) == expected
