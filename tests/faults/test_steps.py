"""Calls of several steps that stop: what the error tells is what was done.

The same call, made again, does what is missing, and no row is stored twice.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import (
    BadRequest,
    OutcomeUnknown,
    RemoteError,
    UnsupportedTypeError,
)
from tests.support.hosted import Hosted, Table

BASE = pa.table({"id": [1, 2], "s": ["x", None], "old": [1, 2]})
AFTER = {"id": "int32", "s": "utf8", "new": "int8"}
OPTIONS = {"add_columns": True, "drop_columns": ["old"]}
CHANGED = {"id": [1, 2], "s": ["x", None], "new": [None, None]}
STEPS = {
    "alter_columns": "id: int64 to int32",
    "add_columns": "new: added, int8",
    "drop_columns": "old: dropped",
}
DONE = ["lose the answer", "truncate", "fail when done"]
NOT_DONE = ["close", "400", "409", "429", "500", "501", "507"]


@pytest.fixture
def hosted():
    # a service speaks of its step, too
    return Hosted(tables={"t": Table([[BASE]])}, reason="made up; nothing was changed")


def alter(client) -> rt.RemoteTable:
    return rt.alter_table(AFTER, "t", client=client, **OPTIONS)


@pytest.mark.parametrize("fault", [*DONE, *NOT_DONE])
@pytest.mark.parametrize("step", STEPS)
def test_F47_an_alteration_that_stops_tells_each_step(hosted, step, fault):
    names = list(STEPS)
    before = names[: names.index(step)]
    after = names[names.index(step) + 1 :]
    hosted.meet(step, fault, 1)
    with hosted.connect(retries=0) as client:
        if step != "alter_columns" and fault in DONE:
            # a description shows that it is done
            alter(client)
        else:
            with pytest.raises((RemoteError, ValueError)) as caught:
                alter(client)
            said = str(caught.value)
            done = "; ".join(STEPS[name] for name in before)
            left = "; ".join(STEPS[name] for name in after)
            assert (f"done before: {done}" in said) is bool(before)
            assert (f"not sent: {left}" in said) is bool(after)
            assert said.endswith("the same call makes what is missing")
            assert not hasattr(caught.value, "__notes__")
            # once something was done, no argument is at fault
            assert isinstance(caught.value, RemoteError) or not before
            assert not (before and "nothing was" in said)
            hosted.fault = lambda _number, _step: ""
            alter(client)
    assert hosted.tables["t"].rows.to_pydict() == CHANGED
    assert len(hosted.tables["t"].versions) == 4


@pytest.mark.parametrize("step", STEPS)
def test_F47_the_notes_of_an_interrupt_tell_each_step(hosted, step):
    names = list(STEPS)
    before = names[: names.index(step)]
    after = names[names.index(step) + 1 :]
    hosted.interrupt_after(step)
    with hosted.connect() as client:
        with pytest.raises(KeyboardInterrupt) as caught:
            alter(client)
        notes = "; ".join(caught.value.__notes__)
        assert "was sent before the interrupt" in notes
        assert ("done before: id: int64 to int32" in notes) is bool(before)
        for name in after:
            assert STEPS[name] in notes.partition("not sent: ")[2]
        assert "the same call makes what is missing" in notes
        alter(client)
    assert hosted.tables["t"].rows.to_pydict() == CHANGED


def test_an_interrupt_before_the_first_step_has_no_note(hosted):
    hosted.interrupt_after("describe")
    with hosted.connect() as client, pytest.raises(KeyboardInterrupt) as caught:
        alter(client)
    assert not hasattr(caught.value, "__notes__")
    assert len(hosted.tables["t"].versions) == 1


# Rows whose columns are added first

WIDER = pa.table({"id": [3], "s": ["y"], "old": [3], "x": [1.5]})
STORED = [{**row, "x": None} for row in BASE.to_pylist()]
WRITES = [("append", "insert", {}), ("upsert", "merge_insert", {"on": "id"})]
ADDED = "columns 'x' were added before"


def write(client, if_exists: str, options: dict, rows=WIDER) -> None:
    client.create_table("t", rows, if_exists=if_exists, add_columns=True, **options)


@pytest.mark.parametrize("fault", NOT_DONE)
@pytest.mark.parametrize(("if_exists", "rows", "options"), WRITES)
@pytest.mark.parametrize("is_rows", [False, True])
def test_F47_rows_that_stop_tell_of_their_columns(
    hosted, is_rows, if_exists, rows, options, fault
):
    hosted.meet(rows if is_rows else "add_columns", fault, 1)
    with hosted.connect(retries=0) as client:
        with pytest.raises((RemoteError, ValueError)) as caught:
            write(client, if_exists, options)
        said = str(caught.value)
        assert (ADDED in said) is is_rows
        assert ("no row was sent" in said) is not is_rows
        assert "the same call" in said
        assert not (is_rows and "nothing was" in said)
        write(client, if_exists, options)
    assert hosted.tables["t"].rows.to_pylist() == [*STORED, *WIDER.to_pylist()]
    assert len(hosted.tables["t"].versions) == 3


@pytest.mark.parametrize(("if_exists", "rows", "options"), WRITES)
def test_F47_rows_without_an_answer_tell_of_their_columns(
    hosted, if_exists, rows, options
):
    hosted.meet(rows, "lose the answer", 1)
    with hosted.connect() as client:
        words = f"now: version 3, 3 rows;.*; {ADDED}; then the same call would only"
        with pytest.raises(OutcomeUnknown, match=words) as caught:
            write(client, if_exists, options)
        assert caught.value.done == ADDED
    assert hosted.tables["t"].rows.to_pylist() == [*STORED, *WIDER.to_pylist()]


@pytest.mark.parametrize(("if_exists", "rows", "options"), WRITES)
def test_F47_an_interrupt_of_new_columns_tells_that_no_row_was_sent(
    hosted, if_exists, rows, options
):
    hosted.interrupt_after("add_columns")
    with hosted.connect() as client:
        with pytest.raises(KeyboardInterrupt) as caught:
            write(client, if_exists, options)
        sent, left = caught.value.__notes__
        assert sent.startswith("the request to add columns to table 't' was sent")
        assert left == (
            "no row was sent; the same call adds the columns and writes the rows"
        )
        write(client, if_exists, options)
    assert hosted.tables["t"].rows.to_pylist() == [*STORED, *WIDER.to_pylist()]


SOURCES = {
    "ours": ([WIDER, WIDER.set_column(0, "id", [[2.5]])], UnsupportedTypeError),
    "the caller's": ([WIDER, LookupError("of mine")], LookupError),
}


@pytest.mark.parametrize(("items", "kind"), SOURCES.values(), ids=SOURCES)
def test_F47_what_a_source_raises_tells_of_the_columns(hosted, items, kind):
    def rows():
        for item in items:
            if isinstance(item, Exception):
                raise item
            yield item

    with hosted.connect() as client, pytest.raises(kind) as caught:
        write(client, "append", {}, rows())
    (note,) = caught.value.__notes__
    assert note == f"{ADDED}; the same call would only write the rows"
    assert hosted.tables["t"].rows.to_pylist() == STORED


# Exchanged with a real service


def test_a_folder_tells_each_step_and_the_same_call_makes_the_rest(tmp_path):
    frame = pl.DataFrame({"id": [1, 2], "s": ["x", None]})
    with rt.connect(tmp_path / "tables", default=False) as client:
        client.create_table("t", frame)
        after = {"id": "int32", "s": "utf8", "new": "int8", "_rowid": "int64"}
        with pytest.raises((BadRequest, ValueError)) as caught:
            rt.alter_table(after, "t", add_columns=True, client=client)
        assert "done before: " in str(caught.value)
        del after["_rowid"]
        rt.alter_table(after, "t", add_columns=True, client=client)
        assert client.table("t").columns == ["id", "s", "new"]
