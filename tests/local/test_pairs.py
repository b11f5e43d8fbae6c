"""Two writers in each other's middle: one of the two orders gives what is stored.

The model is a table of plain Python: names with types, and rows. Who is refused has
changed nothing.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from tests.local.test_multipart import Write
from tests.support.local import JSON, UPSERT, stream, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WHERE = "rt_frames.where"
TYPES = {"id": pa.int64(), "a": pa.string(), "b": pa.int32()}


class RefusedError(Exception):
    """Such an operation is not possible on such a table."""


@dataclasses.dataclass(frozen=True)
class Table:
    """What a table holds; its rows in any order."""

    types: dict[str, pa.DataType]
    rows: list[dict[str, Any]]

    def __eq__(self, other):
        if not isinstance(other, Table):
            return False
        return self.types == other.types and self._counted() == other._counted()

    __hash__ = None

    def _counted(self):
        rows = (tuple(sorted(row.items())) for row in self.rows)
        return collections.Counter(rows)

    def check_fits(self, types):
        for name, arrow in types.items():
            if self.types.get(name) != arrow:
                raise RefusedError(name)

    def filled(self, row):
        return {name: row.get(name) for name in self.types}


@dataclasses.dataclass(frozen=True)
class Operation:
    """A request, whose body waits in its middle, and what it does to a table."""

    what: str
    send: Callable[..., int]
    apply: Callable[[Table], Table]

    def __repr__(self):
        return self.what


def draw_rows(drawn: random.Random, names: list[str]) -> pa.Table:
    ids = drawn.sample(range(9), drawn.randrange(1, 5))
    values = {"a": ["x", "y", None], "b": [1, 2, None]}
    columns = {"id": pa.array(ids, TYPES["id"])}
    for name in names:
        columns[name] = pa.array(drawn.choices(values[name], k=len(ids)), TYPES[name])
    return pa.table(columns)


def send_slowly(path: str, rows: pa.Table) -> Callable[..., int]:
    def send(caller, name, wait):
        def body() -> Iterator[bytes]:
            whole = stream(rows, rows=1)
            yield whole[:-100]
            until(caller.staged)
            wait()
            yield whole[-100:]

        return caller.post_rows(f"{name}/{path}", body()).status_code

    return send


def send_json(path: str, **request: Any) -> Callable[..., int]:
    def send(caller, name, wait):
        wait()
        body = json.dumps(request)
        answer = caller.send(
            "POST", f"/v1/table/{name}/{path}/", body, content_type=JSON
        )
        return answer.status_code

    return send


def append(drawn: random.Random) -> Operation:
    rows = draw_rows(drawn, drawn.choice([["a", "b"], ["a"], ["b"]]))

    def apply(table):
        table.check_fits(dict(zip(rows.schema.names, rows.schema.types, strict=True)))
        added = [table.filled(row) for row in rows.to_pylist()]
        return Table(table.types, [*table.rows, *added])

    def send_in_parts(caller, name, wait):
        write = Write(caller, name)
        status = write.part(rows).status_code
        wait()
        return write.end().status_code if status == 200 else status

    if drawn.random() < 0.5:
        return Operation(f"append in parts {rows.to_pydict()}", send_in_parts, apply)
    return Operation(f"append {rows.to_pydict()}", send_slowly("insert/", rows), apply)


def upsert(drawn: random.Random) -> Operation:
    rows = draw_rows(drawn, drawn.choice([["a", "b"], ["a"], ["b"], []]))

    def apply(table):
        table.check_fits(dict(zip(rows.schema.names, rows.schema.types, strict=True)))
        new = {row["id"]: row for row in rows.to_pylist()}
        kept = [{**row, **new.get(row["id"], {})} for row in table.rows]
        old = {row["id"] for row in table.rows}
        added = [table.filled(row) for key, row in new.items() if key not in old]
        return Table(table.types, [*kept, *added])

    return Operation(
        f"upsert {rows.to_pydict()}",
        send_slowly(f"merge_insert/?on=id&{UPSERT}", rows),
        apply,
    )


def replace(drawn: random.Random) -> Operation:
    rows = draw_rows(drawn, drawn.choice([["a", "b"], ["b", "a"], ["a"]]))
    types = dict(zip(rows.schema.names, rows.schema.types, strict=True))
    send = send_slowly("insert/?mode=overwrite", rows)
    after = Table(types, rows.to_pylist())
    return Operation(f"replace {rows.to_pydict()}", send, lambda _: after)


def with_where(rows: pa.Table, where: str | bytes | None) -> pa.Table:
    """Return rows whose stream says which rows they replace."""
    return rows.replace_schema_metadata({} if where is None else {WHERE: where})


def draw_condition(drawn: random.Random) -> tuple[str, Any]:
    return drawn.choice([("id", 1), ("id", 5), ("a", "x"), ("b", 2)])


def without(table: Table, name: str, value: Any) -> Table:
    if name not in table.types:
        raise RefusedError(name)
    return Table(table.types, [row for row in table.rows if row[name] != value])


def replace_where(drawn: random.Random) -> Operation:
    name, value = draw_condition(drawn)
    rows = draw_rows(drawn, ["a", "b"])
    same = pa.array([value] * rows.num_rows, TYPES[name])
    rows = rows.set_column(rows.schema.get_field_index(name), name, same)
    condition = f"{name} = {value!r}"

    def apply(table):
        table.check_fits(TYPES)
        kept = without(table, name, value).rows
        return Table(table.types, [*kept, *map(table.filled, rows.to_pylist())])

    send = send_slowly("replace_where/", with_where(rows, condition))
    return Operation(f"where {condition} {rows.to_pydict()}", send, apply)


def delete(drawn: random.Random) -> Operation:
    name, value = draw_condition(drawn)

    def apply(table):
        return without(table, name, value)

    condition = f"{name} = {value!r}"
    return Operation(
        f"delete {condition}", send_json("delete", predicate=condition), apply
    )


def add(drawn: random.Random) -> Operation:
    name = drawn.choice(["c", "c", "b"])
    empty = pa.schema([pa.field(name, TYPES.get(name, pa.int8()))]).empty_table()

    def send(caller, table, wait):
        wait()
        return caller.post_rows(f"{table}/add_columns/", empty).status_code

    def apply(table):
        if name in table.types:
            raise RefusedError(name)
        types = {**table.types, name: empty.schema.field(name).type}
        return Table(types, [{**row, name: None} for row in table.rows])

    return Operation(f"add {name}", send, apply)


def drop(drawn: random.Random) -> Operation:
    name = drawn.choice(["a", "b"])

    def apply(table):
        if name not in table.types:
            raise RefusedError(name)
        types = {other: arrow for other, arrow in table.types.items() if other != name}
        rows = [{other: row[other] for other in types} for row in table.rows]
        return Table(types, rows)

    return Operation(f"drop {name}", send_json("drop_columns", columns=[name]), apply)


def cast(drawn: random.Random) -> Operation:
    name, arrow, word = drawn.choice(
        [("a", pa.large_string(), "large_string"), ("b", pa.int64(), "int64")]
    )

    def apply(table):
        if name not in table.types:
            raise RefusedError(name)
        return Table({**table.types, name: arrow}, table.rows)

    alteration = {"path": name, "data_type": {"type": word}}
    send = send_json("alter_columns", alterations=[alteration])
    return Operation(f"cast {name} to {word}", send, apply)


def restore(_: random.Random) -> Operation:
    return Operation("restore", send_json("restore", version=1), lambda _: START)


START = Table(
    TYPES,
    [
        {"id": number, "a": "xyz"[number % 3], "b": [1, 2, None][number % 3]}
        for number in range(6)
    ],
)
KINDS = [append, upsert, replace, replace_where, delete, add, drop, cast, restore]
CHANGING_COLUMNS = ("add", "drop", "cast", "replace", "restore")


def read(caller, name: str) -> Table:
    table = lance.dataset(str(caller.root / f"{name}.lance")).to_table()
    types = dict(zip(table.schema.names, table.schema.types, strict=True))
    return Table(types, table.to_pylist())


def send_both(callers, name, pair, *, inside: bool) -> list[int]:
    """Send the second in the middle of the first, or both half and then on."""
    first, second = pair
    if inside:
        statuses = []
        other = lambda: statuses.append(second.send(callers[1], name, int))  # noqa: E731
        return [first.send(callers[0], name, other), *statuses]
    both = threading.Barrier(2, timeout=60)
    with ThreadPoolExecutor(2) as pool:
        sent = [
            pool.submit(one.send, caller, name, both.wait)
            for one, caller in zip(pair, callers, strict=True)
        ]
        return [one.result() for one in sent]


def apply_all(operations) -> Table | None:
    table = START
    with contextlib.suppress(RefusedError):
        for one in operations:
            table = one.apply(table)
        return table
    return None


def check(pair, statuses, found: Table) -> None:
    done = [one for one, status in zip(pair, statuses, strict=True) if status == 200]
    assert found in [apply_all(done), apply_all(done[::-1])]
    for one, other, status in zip(pair, pair[::-1], statuses, strict=True):
        if status == 409:
            assert one.what.startswith(("append", "upsert", "where"))
            assert other.what.startswith(CHANGING_COLUMNS)
        elif status != 200:
            assert status == 400
            assert apply_all([one]) is None or apply_all([other, one]) is None


@pytest.mark.parametrize(
    "trials", [range(25), pytest.param(range(25, 500), marks=pytest.mark.long)]
)
def test_two_writers_are_as_good_as_one_after_the_other(caller, other, trials):
    for trial in trials:
        drawn = random.Random(trial)
        pair = [drawn.choice(KINDS)(drawn) for _ in range(2)]
        name = f"t{trial}"
        inside = drawn.random() < 0.5
        body = pa.Table.from_pylist(START.rows, pa.schema(TYPES))
        assert caller.create(name, body).status_code == 200
        statuses = send_both([caller, other], name, pair, inside=inside)
        try:
            check(pair, statuses, read(caller, name))
        except AssertionError as error:
            raise AssertionError(f"{trial}: {pair}, {inside}: {statuses}") from error
        assert caller.send("POST", f"/v1/table/{name}/drop/").status_code == 200
