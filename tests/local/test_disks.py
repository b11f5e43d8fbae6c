"""Writes to disks that fail at any of their calls, or have no room at any point.

After each, the table can be read, has the rows from before or after, and the outcome
that the caller is told is true.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import shutil

import lance
import polars as pl
import pytest
import requests

import rt_frames as rt
from tests.support.disks import FailingCalls, fill, small_disk
from tests.support.local import JSON, Process, Write, message, unnamed
from tests.support.servers import KEY


def make_rows(count: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "id": range(count),
            "v": [number * 7 % 1000 for number in range(count)],
            "only": [f"{number}" for number in range(count)],
        }
    )


ROWS = make_rows(2000)
# of so many deleted rows Lance writes a bitmap, a `.bin`, and of fewer an `.arrow`
MANY_ROWS = make_rows(100_000)
THIRDS = pl.col("v").is_in(range(0, 100_000, 3))
# a fragment that would be empty without its only column
ONLY = pl.DataFrame({"only": ["a", "b"]})
MORE = pl.DataFrame({"id": range(1990, 2100), "v": range(110)})
NULLS = pl.DataFrame({"new": pl.Series([None], dtype=pl.String)})


def to_table(frame: pl.DataFrame, name: str = "t", **options):
    return lambda there: rt.to_table(frame, name, client=there.client, **options)


def alter(frame: pl.DataFrame, **options):
    return lambda there: rt.alter_table(frame, "t", client=there.client, **options)


def in_parts(there: Tried) -> None:
    write = Write(there.caller)
    write.answer.raise_for_status()
    for number in range(2):
        part = f"{number:08}-0000-8000-8000-000000000000"
        write.part(MORE.to_arrow(), part).raise_for_status()
    write.end().raise_for_status()


def replace_rows(there: Tried) -> None:
    where = {"rt_frames.where": "id BETWEEN 1990 AND 2099"}
    rows = MORE.to_arrow().replace_schema_metadata(where)
    there.caller.post_rows("t/replace_where/", rows).raise_for_status()


def purge(there: Tried) -> None:
    compact = "/v1/table/t/compact/"
    body = '{"purge": true}'
    there.caller.send("POST", compact, body, content_type=JSON).raise_for_status()


def purge_and_append(there: Tried) -> None:
    purge(there)
    rt.to_table(MORE, "t", client=there.client, if_exists="append")


WRITES = {
    "create": to_table(ROWS, "new"),
    "append": to_table(MORE, if_exists="append"),
    "append in parts": in_parts,
    "upsert": to_table(MORE, if_exists="upsert", on="id"),
    "delete": lambda there: there.client.table("t").delete(pl.col("id") < 10),
    "delete many": lambda there: there.client.table("t").delete(THIRDS),
    "cast": lambda there: there.client.table("t").cast({"v": "int32"}),
    "rename": lambda there: there.client.table("t").rename({"v": "u"}),
    "add": alter(NULLS, add_columns=True),
    "drop": alter(MORE, drop_columns=["only"]),
    "replace": to_table(MORE, if_exists="replace"),
    "replace rows": replace_rows,
    "rewrite": alter(ROWS.cast({"v": pl.String}), rewrite=True),
    "restore": lambda there: there.client.table("t", version=1).restore(),
    "append to many files": to_table(MORE, if_exists="append"),
    "upsert into many files": to_table(MORE, if_exists="upsert", on="id"),
    "delete from many files": lambda there: there.client.table("t").delete(
        pl.col("id") < 10
    ),
    "purge many files": purge_and_append,
}
ERRORS = itertools.cycle([errno.ENOSPC, errno.EIO])
# statuses of a server that may have committed
UNKNOWN = (500, 504)
LONG = pytest.mark.long
ALWAYS = ("append", "delete many")
FAILURES = [
    pytest.param(what, next(ERRORS), marks=() if what in ALWAYS else LONG)
    for what in WRITES
]


@pytest.fixture
def table(tmp_path, name):
    """A folder with a table of two versions, or of many that are merged, to copy."""
    folder = tmp_path / "template"
    rows = MANY_ROWS if name == "delete many" else ROWS
    with rt.connect(folder, default=False) as client:
        rt.to_table(rows, "t", client=client)
        rt.to_table(ONLY, "t", client=client, if_exists="append")
        if name.endswith("many files"):
            client.table("t").delete(pl.col("v") == 7)
            for row in ROWS.to_arrow().slice(0, 32).to_batches(max_chunksize=1):
                lance.write_dataset(row, str(folder / "t.lance"), mode="append")
    return folder / "t.lance"


def read(root):
    """Read every table, in any order of rows."""
    tables = {}
    for folder in root.glob("*.lance"):
        rows = lance.dataset(str(folder)).to_table()
        tables[folder.name] = rows.sort_by(
            [(c, "ascending") for c in rows.column_names]
        )
    return tables


def told(there: Tried) -> str:
    """Return which rows the caller must believe to be there."""
    try:
        there.write(there)
    except rt.errors.OutcomeUnknown:
        return "either"
    except rt.errors.RemoteError as error:
        return "either" if error.status in UNKNOWN else "before"
    except requests.HTTPError as error:
        return "either" if error.response.status_code in UNKNOWN else "before"
    return "after"


class Tried:
    """A table that is written to, again and again from the beginning."""

    def __init__(self, service: Process, template, write) -> None:
        self.root = service.root
        self.caller = service.caller
        self.client = rt.connect(
            self.caller.url, api_key=KEY, dialect="lancedb", default=False
        )
        self.template = template
        self.write = write
        self.reset()
        self.before = read(self.root)
        assert told(self) == "after"
        self.after = read(self.root)
        assert self.before != self.after

    def reset(self) -> None:
        for folder in self.root.glob("*.lance"):
            shutil.rmtree(folder)
        shutil.copytree(self.template, self.root / "t.lance")

    def check(self, said: str, what: object) -> None:
        found = read(self.root)
        if said == "either":
            assert found in (self.before, self.after), what
        else:
            assert found == getattr(self, said), (what, said)


@pytest.mark.skipif(not FailingCalls.can_be_built(), reason="needs a C compiler")
@pytest.mark.parametrize(("name", "number"), FAILURES)
def test_whichever_call_of_a_write_fails_the_table_is_whole_and_the_outcome_true(
    tmp_path, monkeypatch, table, name, number
):
    root = tmp_path / "tables"
    calls = FailingCalls(tmp_path, root)
    for variable, value in calls.env.items():
        monkeypatch.setenv(variable, value)
    with Process(root) as service:
        tried = Tried(service, table, WRITES[name])
        told_so = set()
        call = 1
        while True:
            tried.reset()
            with calls.fail(call, number):
                said = told(tried)
            if calls.seen < call:
                break
            tried.check(said, call)
            told_so.add(said)
            call += 1
    assert call > 4
    # the last syncs come after the commit, and a look at the columns shows new ones
    late = "after" if name in ("add", "drop") else "either"
    assert {"before", late} <= told_so


@pytest.fixture
def full(tmp_path):
    """A caller on a disk that has a table `t`, an upload to it, and no free block."""
    with contextlib.ExitStack() as contexts:
        try:
            disk = contexts.enter_context(small_disk(tmp_path))
        except OSError as error:
            pytest.skip(str(error))
        service = contexts.enter_context(Process(disk / "tables"))
        assert service.caller.create("t", MORE.to_arrow()).status_code == 200
        write = Write(service.caller)
        fill(disk, 0)
        yield service.caller, write


def test_a_table_can_be_dropped_to_make_room(full):
    caller, _ = full
    answer = caller.send("POST", "/v1/table/t/drop/")
    assert answer.status_code == 200
    assert (caller.tables(), caller.staged()) == ([], [])
    (caller.root.parent / "ballast").unlink()
    assert caller.create("t", MORE.to_arrow()).status_code == 200


def test_parts_without_room_are_refused_as_such_and_can_be_aborted(full):
    caller, write = full
    part = write.part(MORE.to_arrow())
    assert "disk is full" in message(part, 507)
    begun = caller.send("POST", "/v1/table/t/multipart_write/create/")
    assert "disk is full" in message(begun, 507)
    assert write.end("abort").status_code == 200
    assert caller.staged() == []
    assert caller.read("t").equals(MORE.to_arrow())


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "cast" else LONG) for name in WRITES],
)
def test_however_little_room_there_is_the_table_is_whole_and_the_outcome_true(
    tmp_path, table, name
):
    try:
        with small_disk(tmp_path) as disk, Process(disk / "tables") as service:
            tried = Tried(service, table, WRITES[name])
            told_so = set()
            for blocks in (*range(0, 60, 2), 1000):
                tried.reset()
                ballast = fill(disk, blocks)
                said = told(tried)
                ballast.unlink()
                tried.check(said, blocks)
                told_so.add(said)
                if said == "before":
                    purge(tried)
                    assert unnamed(tried.root) == [], blocks
    except OSError as error:
        pytest.skip(str(error))
    assert told_so == {"before", "after"}
