"""Sequences of calls, as of nightly jobs, compared with a model at each step."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lance
import pyarrow as pa

import rt_frames as rt
from rt_frames.local import LocalService
from tests.longer import model
from tests.longer.model import NAME, Call, Model, RefusedError, Table
from tests.support.servers import KEY

REFUSALS = (rt.errors.RemoteError, ValueError, TypeError)
STEPS = 9
Draw = Callable[[random.Random, Table], Call]

_MAY_CREATE: dict[Draw, int] = {model.draw_append: 5, model.draw_create: 1}
_CHANGES: dict[Draw, int] = {
    model.draw_delete: 3,
    model.draw_add: 1,
    model.draw_drop_columns: 1,
    model.draw_rename: 1,
    model.draw_cast: 2,
    model.draw_nullable: 1,
    model.draw_alter: 3,
}
OF_FOLDER = {model.draw_upsert: 7, model.draw_replace_where: 5, **_MAY_CREATE}
# it takes one key, and replaces no rows that match
OF_SERVER = {partial(model.draw_upsert, most_keys=1): 7, **_MAY_CREATE}
# by the first word of a call's text
KINDS = (
    "append",
    "upsert",
    "where",
    "delete",
    "add",
    "drop",
    "rename",
    "cast",
    "nullable",
    "alter",
    "create",
    "restore",
    "compact",
    "purge",
)
# what the engine keeps of deleted rows: it refuses to cast a column without nulls if
# one had a null, and a folder refuses a purge that would leave a category of one
_OF_DELETED_ROWS = (
    "Found unmasked nulls for non-nullable",
    "may have categories that no row has, and a purge would leave them",
)


class Sequence:
    """One table, its expected contents, and those of each version."""

    def __init__(
        self,
        client: rt.Client,
        root: Path,
        may_create: dict[Draw, int],
        r: random.Random,
    ) -> None:
        self.client = client
        self.folder = root / f"{NAME}.lance"
        self.may_create = may_create
        self.r = r
        self.table: Table = None
        self.history: dict[int, Model] = {}
        self.done: list[str] = []
        self.counts: Counter[str] = Counter()

    def draw(self) -> Call:
        if self.table is None:
            return self.r.choice([*self.may_create])(self.r, None)
        chance = self.r.random()
        if chance < 0.03:
            return Call("drop table", lambda c: c.table(NAME).drop(), [lambda _: None])
        if chance < 0.1:
            return self.draw_restore()
        # servers merge files by themselves
        if chance < 0.15 and self.may_create is OF_FOLDER:
            return self.draw_compact()
        draws = {**self.may_create, **_CHANGES}
        (draw,) = self.r.choices([*draws], [*draws.values()])
        return draw(self.r, self.table)

    def draw_restore(self) -> Call:
        version = self.r.choice([*self.history])
        then = self.history[version]

        def do(client: rt.Client) -> object:
            return client.table(NAME, version=version).restore()

        return Call(f"restore {version}", do, [lambda _: then])

    def draw_compact(self) -> Call:
        purge = self.r.random() < 0.5

        def do(client: rt.Client) -> object:
            compacted = client.table(NAME).compact(purge=purge)
            if purge:
                self.history = {}
            return compacted

        return Call("purge" if purge else "compact", do, [lambda table: table])

    def step(self) -> None:
        """Make a call, and compare the stored table with the model."""
        call = self.draw()
        self.done.append(call.text)
        kind = call.text.split(" ")[0]
        try:
            expected = call.apply(self.table)
        except RefusedError:
            self.refuse(call)
            self.counts[f"{kind}: refused"] += 1
            return
        try:
            result = call.do(self.client)
        except rt.errors.BadRequest as error:
            if not any(words in str(error) for words in _OF_DELETED_ROWS):
                raise
            self.counts[f"{kind}: refused"] += 1
            self.compare()
            return
        if isinstance(result, rt.RemoteTable):
            self.check_counts(kind, call, result)
        elif isinstance(result, int):
            assert result == len(self.table.rows) - len(expected.rows)
        self.counts[f"{kind}: done"] += 1
        self.table = expected
        self.compare()

    def check_counts(self, kind: str, call: Call, result: rt.RemoteTable) -> None:
        if result.version is not None:
            assert result.version == lance.dataset(str(self.folder)).version
        if call.frame is not None:
            assert result.rows == call.frame.height
        if kind == "upsert" and self.table is not None:
            inserted = len(call.apply(self.table).rows) - len(self.table.rows)
            assert result.inserted == inserted
        if kind == "where":
            before = 0 if self.table is None else len(self.table.rows)
            after = len(call.apply(self.table).rows)
            assert result.deleted == before + call.frame.height - after

    def refuse(self, call: Call) -> None:
        """Check that a call is refused, and changes only columns it names."""
        try:
            result = call.do(self.client)
        except REFUSALS as error:
            done = getattr(error, "done", "")
        else:
            raise AssertionError(f"not refused: {result!r}")
        if done:
            assert call.frame is not None
            assert call.frame.is_stream
            added = call.steps[0](self.table)
            new = [name for name in added.fields if name not in self.table.fields]
            assert f"columns {', '.join(map(repr, new))} " in done
            self.table = added
        self.compare()

    def compare(self) -> None:
        if self.table is None:
            assert not self.folder.exists()
            self.history = {}
            return
        stored = lance.dataset(str(self.folder))
        found = stored.to_table()
        assert self.table.is_stored_as(found), difference(self.table, found)
        before = self.history.setdefault(stored.version, self.table)
        assert before.is_stored_as(found), "an old version was changed"
        # numbers begin again after a drop
        if self.r.random() < 0.2:
            version = self.r.choice([*self.history])
            read = self.client.table(NAME, version=version).to_arrow()
            assert self.history[version].is_stored_as(read)


def difference(table: Model, found: pa.Table) -> str:
    return f"expected {table.schema}\n{table.rows}\nfound {found.schema}\n{found.to_pylist()}"


def run(count: int, seed: int, first: int = 0) -> Counter[str]:
    """Run numbered sequences. Each can be repeated alone."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tables"
        with (
            LocalService(root, api_key=KEY) as service,
            rt.Client(service.url, api_key=KEY, dialect="lancedb") as remote,
            rt.connect(Path(folder) / "folder", default=False) as local,
        ):
            places = [
                (remote, root, OF_SERVER),
                (local, Path(folder) / "folder", OF_FOLDER),
            ]
            for number in range(first, first + count):
                r = random.Random(f"{seed}/{number}")
                sequence = Sequence(*places[number % 2], r)
                try:
                    for _ in range(r.randint(3, STEPS)):
                        sequence.step()
                    if sequence.table is not None:
                        sequence.client.table(NAME).drop()
                except BaseException as error:
                    done = "\n".join(sequence.done)
                    error.add_note(f"seed {seed}, sequence {number}:\n{done}")
                    raise
                counts += sequence.counts
    return counts
