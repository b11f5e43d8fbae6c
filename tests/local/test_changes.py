"""Rows deleted, columns added and dropped, and versions restored."""

from __future__ import annotations

import contextlib
import random
import threading

import lance
import pyarrow as pa
import pytest

from tests.local.test_merge import merge
from tests.local.test_service import COLUMNS, TOLD
from tests.support.local import JSON, Process, message, stream

INT8 = pa.int8()
BASE = pa.table({"n": [1, 2, None], "s": ["a;b", 'c")--', "/*"], "V": [1.5, None, 3.5]})


def add(caller, *fields, rows=None):
    if rows is None:
        rows = pa.Table.from_batches([], pa.schema(fields))
    return caller.post_rows("t/add_columns/", rows)


def insert(caller, table):
    return caller.post_rows("t/insert/", table)


def read(caller):
    return caller.read("t").to_pydict()


@pytest.fixture
def there(caller):
    caller.create("t", BASE)
    return caller


@pytest.fixture
def unchanged(there):
    yield there
    assert there.version("t") == 1
    assert there.read("t").equals(BASE)


def test_all_rows_of_a_file_may_be_deleted(there):
    answer = there.ask("delete", predicate="n > 0 OR n IS NULL")
    assert answer.json() == {"num_deleted_rows": 3, "version": 2}
    assert read(there) == {"n": [], "s": [], "V": []}
    assert insert(there, BASE).status_code == 200
    assert there.read("t").equals(BASE)


def test_a_condition_stays_out_of_the_log(there):
    found = there.ask("delete", predicate="n = 1 OR s = 'personal-data'")
    assert found.json()["num_deleted_rows"] == 1
    for path in (there.root / "t.lance").rglob("*"):
        assert path.is_dir() or b"personal-data" not in path.read_bytes(), path


NOT_DELETED = [
    ({}, "filter is missing"),
    ({"predicate": None}, "filter is missing"),
    ({"predicate": " \n"}, "filter is missing"),
    ({"predicate": 7}, "string"),
    ({"predicate": "nope = 1"}, "nope"),
    ({"predicate": "n = 1", "limit": 1}, "'limit'"),
]


@pytest.mark.parametrize(("request_", "words"), NOT_DELETED)
def test_what_cannot_be_deleted_is_refused(unchanged, request_, words):
    answer = unchanged.ask("delete", **request_)
    assert words in message(answer, 400)
    assert str(unchanged.root).strip("/") not in answer.text


@pytest.mark.parametrize(
    "operation", ["delete", "drop_columns", "restore", "add_columns"]
)
def test_a_change_needs_a_table_and_a_type_of_its_body(there, operation):
    for name, kind, status in (("u", JSON, 404), ("t", "text/plain", 415)):
        path = f"/v1/table/{name}/{operation}/"
        assert there.send("POST", path, "{}", content_type=kind).status_code == status


def test_added_columns_have_exactly_their_types_and_take_appended_and_merged_rows(
    caller,
):
    rows = pa.table({"id": [1, 2, 3]})
    for name, (arrow, values) in COLUMNS.items():
        rows = rows.append_column(name, pa.array(values, arrow))
    for number, (field, _, _) in enumerate(TOLD.values()):
        # a primary key is not
        if field.nullable:
            told = field.with_name(f"told {number}")
            rows = rows.append_column(told, pa.nulls(3, field.type))
    caller.create("t", pa.table({"id": [0]}))
    assert add(caller, *list(rows.schema)[1:]).status_code == 200
    assert insert(caller, rows).status_code == 200
    more = rows.set_column(0, "id", pa.array([3, 4, 5]))
    assert merge(caller, more).json()["num_updated_rows"] == 1
    found = caller.read("t").sort_by("id")
    assert found.schema.equals(rows.schema)
    expected = pa.concat_tables([rows[:2], more])
    assert str(found[1:].to_pylist()) == str(expected.to_pylist())
    caller.create("created", rows)
    created = lance.dataset(str(caller.root / "created.lance"))
    assert found.schema.equals(created.schema, check_metadata=True)


def test_columns_are_added_to_a_table_without_rows(caller):
    caller.create("t", BASE[:0])
    assert add(caller, pa.field("new", pa.int8())).status_code == 200
    found = insert(caller, pa.table({"new": pa.array([1], pa.int8())})).status_code
    assert found == 200
    assert read(caller)["new"] == [1]


def fields_of(*names, arrow=INT8):
    return [pa.field(name, arrow) for name in names]


WIDE = pa.list_(pa.float64(), 2**24)
WIDE_TOGETHER = pa.struct([(name, pa.list_(pa.int64(), 2**23)) for name in "uv"])
NOT_ADDED = {
    "reserved": (fields_of("_row_created_at_version"), "reserved"),
    "there": (fields_of("n", arrow=pa.int64()), "column 'n' already exists"),
    "other case": (fields_of("v"), "columns 'V' and 'v' differ only in case"),
    "of each other": (fields_of("x", "X"), "'x' and 'X'"),
    "twice": (fields_of("x", "x"), "more than once"),
    "no nulls": ([pa.field("x", INT8, nullable=False)], "not nullable"),
    "dot": (fields_of("x.y"), "dot"),
    "no type": (fields_of("x", arrow=pa.null()), "no type"),
    "a type of no table": (fields_of("x", arrow=pa.string_view()), "cast it first"),
    "large values": (
        fields_of("x", arrow=WIDE),
        f"'x': each value of {WIDE}, null or not, takes 134 MB",
    ),
    "inside": (fields_of("x", arrow=pa.list_(WIDE)), "column 'x.item': each value"),
    "together": (fields_of("x", arrow=WIDE_TOGETHER), "column 'x': each value"),
    "none": ([], "0 columns"),
    "too many": (fields_of(*(f"c{i}" for i in range(9998))), "10001 columns"),
    "one good, one bad": (fields_of("x", "s"), "'s'"),
}


@pytest.mark.parametrize(("fields", "words"), NOT_ADDED.values(), ids=NOT_ADDED)
def test_a_column_that_cannot_be_added_is_refused_by_name(unchanged, fields, words):
    answer = add(unchanged, *fields)
    assert words in message(answer, 400)


def test_columns_come_without_rows_and_are_not_computed(unchanged):
    assert "without rows" in message(add(unchanged, rows=pa.table({"x": [None, 1]})))
    new = {"new_columns": [{"name": "m", "expression": "n + 1"}]}
    answer = unchanged.ask("add_columns", **new)
    assert "Arrow schema" in message(answer, 501)
    for body in (stream(BASE.select([0])[:0])[:-8], b"", stream(BASE[:0]) + b"x"):
        assert unchanged.post_rows("t/add_columns/", body).status_code == 400


@pytest.mark.parametrize("name", ["bool", "text", "vector", "point", "map", "kind"])
def test_rows_that_have_values_in_dropped_columns_alone_stay_with_nulls(caller, name):
    arrow, values = COLUMNS[name]
    dropped = pa.array(values, arrow)
    for odd, kept in (("x", dropped), ("an 'odd' x", pa.array([1, 2, 3]))):
        rows = pa.table({odd: dropped, "z": dropped})
        caller.create("t", rows.append_column("kept", kept))
        assert insert(caller, rows).status_code == 200
        assert insert(caller, rows[:1]).status_code == 200
        assert caller.ask("drop_columns", columns=["z", odd]).status_code == 200
        found = caller.read("t")
        assert found[:3].equals(pa.table({"kept": kept}))
        assert found["kept"][3:].to_pylist() == [None] * 4
        assert insert(caller, pa.table({"kept": kept})).status_code == 200
        caller.send("POST", "/v1/table/t/drop/")


@pytest.mark.parametrize("only", [[0], [1], [0, 2]])
def test_rows_keep_their_order_when_columns_are_dropped(caller, only):
    caller.create("t", pa.table({"n": [0], "x": [0]}).slice(0, 0))
    for number in range(4):
        numbers = [10 * number, 10 * number + 1, 10 * number + 2]
        columns = {"x": numbers} if number in only else {"n": numbers, "x": numbers}
        assert insert(caller, pa.table(columns)).status_code == 200
    caller.ask("delete", predicate="x % 10 = 1")
    before = caller.read("t")
    version = caller.version("t")
    answer = caller.ask("drop_columns", columns=["x"])
    assert answer.json() == {"version": version + 1}
    assert caller.read("t").equals(before.drop_columns("x"))


def test_a_new_column_alone_is_left(caller):
    caller.create("t", pa.table({"s": [{"x": 1, "y": [1, 2]}, None]}))
    caller.ask("delete", predicate="s IS NULL")
    add(caller, pa.field("new", pa.struct({"a": pa.int8()})))
    assert caller.ask("drop_columns", columns=["s"]).json() == {"version": 4}
    assert read(caller) == {"new": [None]}
    add(caller, pa.field("s", pa.int8()))
    assert caller.ask("drop_columns", columns=["new"]).status_code == 200
    assert read(caller) == {"s": [None]}


NOT_DROPPED = [
    (["nope"], "unknown columns: 'nope'"),
    (["n", "N"], "unknown columns: 'N'"),
    (["s.x"], "unknown columns: 's.x'"),
    (["n", "s", "V"], "all columns"),
    (["n", "n"], "more than once"),
    (["_rowid"], "'_rowid'"),
    ([], "names are missing"),
    ("n", "names are missing"),
    ([1], "names are missing"),
    (None, "names are missing"),
]


@pytest.mark.parametrize(("columns", "words"), NOT_DROPPED)
def test_what_cannot_be_dropped_is_refused(unchanged, columns, words):
    answer = unchanged.ask("drop_columns", columns=columns)
    assert words in message(answer, 400)
    assert "'x'" in message(unchanged.ask("drop_columns", columns=["n"], x=1))


def test_a_field_in_a_column_is_not_dropped(caller):
    caller.create("t", pa.table({"n": [1], "s": [{"x": 1, "y": 2}]}))
    assert caller.ask("drop_columns", columns=["s.x"]).status_code == 400
    assert read(caller) == {"n": [1], "s": [{"x": 1, "y": 2}]}


def test_a_column_dropped_and_added_again_has_none_of_its_old_values(there):
    there.ask("drop_columns", columns=["n"])
    add(there, pa.field("n", pa.int64()))
    assert read(there)["n"] == [None] * 3
    assert insert(there, BASE).status_code == 200
    rows = pa.table({"s": ["/*", "new"], "n": [7, 8]})
    assert merge(there, rows, "s").status_code == 200
    found = there.read("t").select(["s", "n"]).to_pylist()
    old = {("a;b", None), ('c")--', None), ("a;b", 1), ('c")--', 2)}
    assert {tuple(row.values()) for row in found} == {*old, ("/*", 7), ("new", 8)}


NOT_RESTORED = [
    ({"version": 9}, 404, "version 9 does not exist"),
    ({"version": 0}, 404, "version 0 does not exist"),
    ({"version": -1}, 400, "version: expected a non-negative integer, got -1"),
    ({"version": "1"}, 400, "integer, got '1'"),
    ({"version": True}, 400, "integer, got True"),
    ({"version": 2**63}, 400, "version: expected"),
    ({"version": None}, 400, '"version"'),
    ({"version": 1, "tag": "x"}, 400, '"version"'),
    ({}, 400, '"version"'),
]


@pytest.mark.parametrize(("request_", "status", "words"), NOT_RESTORED)
def test_what_cannot_be_restored_is_refused(unchanged, request_, status, words):
    answer = unchanged.ask("restore", **request_)
    assert words in message(answer, status)


MERGED = pa.table({"n": [1, 9], "s": ["merged", "new"]})
CYCLE = [
    lambda caller: merge(caller, MERGED, "n"),
    lambda caller: add(caller, pa.field("new", pa.int8())),
    lambda caller: caller.ask("drop_columns", columns=["new"]),
    lambda caller: caller.ask("delete", predicate="n = 9"),
    lambda caller: caller.ask("restore", version=1),
]


def test_the_only_columns_of_old_rows_may_be_dropped_though_they_must_not_be_null(
    caller,
):
    required = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    caller.create("t", pa.table({"id": [1, 2]}, schema=required))
    assert add(caller, pa.field("k", pa.large_string())).status_code == 200
    assert caller.ask("drop_columns", columns=["id"]).status_code == 200
    assert caller.read("t").to_pydict() == {"k": [None, None]}


@pytest.mark.long
def test_S16_a_service_that_is_killed_has_each_change_whole_or_not_at_all(tmp_path):
    path = str(tmp_path / "t.lance")

    def found():
        table = lance.dataset(path).to_table()
        return table.schema, sorted(map(str, table.to_pylist()))

    with Process(tmp_path) as service:
        states = []
        service.caller.create("t", BASE)
        for change in CYCLE:
            states.append(found())
            assert change(service.caller).status_code == 200
        assert found() == states[0]
    for seed in range(15):
        confirmed = 0
        with Process(tmp_path) as service, contextlib.suppress(OSError):
            assert CYCLE[-1](service.caller).status_code == 200
            seconds = random.Random(seed).uniform(0.05, 0.5)
            threading.Timer(seconds, service.kill).start()
            while CYCLE[confirmed % 5](service.caller).status_code == 200:
                confirmed += 1
        assert not service.alive
        assert found() in (states[confirmed % 5], states[(confirmed + 1) % 5])
