"""F50: a write in parts is counted after its commit, which knows nothing of its parts.

The servers lose a part, store one twice, or respond as to an earlier request.
"""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import OutcomeUnknown
from tests.client.test_parts import ALL, OLD, ROWS, client, frames, hosted, numbers

__all__ = ["client", "hosted"]

WRITES = ["fail", "append", "replace", "upsert"]


def write(client, if_exists: str) -> rt.RemoteTable:
    """Make a write in parts; that of an upsert creates the table."""
    options = {"on": "n"} if if_exists == "upsert" else {}
    return client.create_table(
        "t", frames(), if_exists=if_exists, compression=None, **options
    )


def prepare(client, if_exists: str) -> int:
    """Store a table, unless it is to be created. Return its rows."""
    if if_exists in ("fail", "upsert"):
        return 0
    client.create_table("t", OLD)
    return 1


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("if_exists", WRITES)
def test_a_part_that_the_service_lost_is_missed(client, hosted, if_exists, number):
    before = prepare(client, if_exists)
    hosted.loses_part = lambda at: at == number
    verb = "has" if if_exists == "replace" else "added"
    words = f"30,000 rows were sent, but version 2 {verb} 20,000;"
    with pytest.raises(OutcomeUnknown, match=words) as caught:
        write(client, if_exists)
    now = 2 * ROWS + (before if if_exists == "append" else 0)
    assert f"now: version 2, {now:,} rows; check the table" in str(caught.value)
    assert len(numbers(hosted)) == now
    assert hosted.steps.count("complete") == 1
    assert "drop" not in hosted.steps


@pytest.mark.parametrize("if_exists", WRITES)
def test_a_part_that_the_service_stored_twice_is_found(client, hosted, if_exists):
    prepare(client, if_exists)
    hosted.doubles_part = lambda at: at == 2
    verb = "has" if if_exists == "replace" else "added"
    words = f"30,000 rows were sent, but version 2 {verb} 40,000;"
    with pytest.raises(OutcomeUnknown, match=words):
        write(client, if_exists)


@pytest.mark.parametrize("if_exists", ["append", "replace"])
def test_a_commit_that_is_answered_as_an_earlier_one_is_unknown(
    client, hosted, if_exists
):
    prepare(client, if_exists)
    write(client, if_exists)
    hosted.meet("complete", "as complete")
    words = "the commit of 30,000 rows reported version 2, but .* had version 2 before"
    with pytest.raises(OutcomeUnknown, match=words) as caught:
        write(client, if_exists)
    assert "so far the table is unchanged (version 2, " in str(caught.value)
    assert len(hosted.tables["t"].versions) == 2


@pytest.mark.parametrize("answered", ["create", "complete"])
def test_a_rewrite_that_changed_nothing_is_unknown(client, hosted, answered):
    prepare(client, "append")
    write(client, "append")
    hosted.told["create"] = 200, {"version": 1}
    hosted.meet("complete", f"as {answered}")
    frame = pa.table({"n": pa.array([], pa.float64())})
    with pytest.raises(OutcomeUnknown, match="so far the table is unchanged"):
        rt.alter_table(frame, "t", rewrite=True, client=client)
    assert hosted.tables["t"].rows.schema.field("n").type == pa.int64()
    hosted.fault = lambda _number, _step: ""
    rt.alter_table(frame, "t", rewrite=True, client=client)
    assert numbers(hosted) == [-1, *ALL]
    assert hosted.tables["t"].rows.schema.field("n").type == pa.float64()


def test_a_rewrite_whose_part_is_lost_is_missed(client, hosted):
    prepare(client, "append")
    write(client, "append")
    hosted.loses_part = lambda at: at == 5
    frame = pa.table({"n": pa.array([], pa.float64())})
    with pytest.raises(OutcomeUnknown, match="but version 3 has"):
        rt.alter_table(frame, "t", rewrite=True, client=client)


def test_the_rows_of_other_writers_are_not_counted(client, hosted):
    """An append is compared with the version before its own, not with that it met."""

    def appended(step):
        if step == "part":
            versions = hosted.tables["t"].versions
            versions.append([*versions[-1], OLD])
        if step == "complete":
            hosted.tables["t"].versions.append([OLD])

    prepare(client, "append")
    hosted.changed = appended
    table = write(client, "append")
    assert table.version == 5
    assert hosted.tables["t"].versions[4][-3:] == [
        pa.table({"n": np.arange(ROWS) + number * ROWS}) for number in range(3)
    ]


@pytest.mark.parametrize("step", ["complete", "describe"])
def test_without_a_version_nothing_is_counted(client, hosted, step):
    prepare(client, "append")
    hosted.tells_version = step != "describe"
    hosted.told["part"] = 200, {}
    if step == "complete":
        hosted.complete_tells_version = False
    table = write(client, "append")
    assert numbers(hosted) == [-1, *ALL]
    assert table.version == (2 if step == "describe" else None)
    assert hosted.steps.count("count_rows") == (2 if step == "describe" else 0)


def test_where_the_version_before_is_gone_nothing_is_compared(client, hosted):
    prepare(client, "append")
    hosted.fault = lambda number, step: (
        "404" if step == "count_rows" and hosted.steps.count(step) == 2 else ""
    )
    assert write(client, "append").version == 2
    assert numbers(hosted) == [-1, *ALL]


def test_a_count_is_retried_as_any_read(client, hosted):
    prepare(client, "append")
    hosted.loses_part = lambda at: at == 1
    hosted.meet("count_rows", "503", 1)
    with pytest.raises(OutcomeUnknown, match="but version 2 added 20,000;"):
        write(client, "append")


def test_a_count_that_fails_is_a_warning(client, hosted, caplog):
    prepare(client, "append")
    hosted.meet("count_rows", "503")
    with caplog.at_level(logging.WARNING, "rt_frames"):
        assert write(client, "append").version == 2
    (record,) = caplog.records
    assert "the rows of table t were not counted: could not count" in record.message
    assert numbers(hosted) == [-1, *ALL]
