"""What is beside an upsert in a folder: streams of others, refusals, and races.

Keys, rows and values are in tests/client/test_upsert.py.
"""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest

from tests.support.local import UPSERT, message, staged, stream, until

RULES = f"{UPSERT}&when_not_matched_by_source_delete=false"
BASE = pa.table({"id": [1, 2, 3], "a": ["x", "y", "z"], "b": [1.0, None, 3.0]})


def merge(caller, rows, *keys, name="t"):
    on = "&".join(f"on={key}" for key in keys or ["id"])
    return caller.post_rows(f"{name}/merge_insert/?{on}&{RULES}", rows)


def counts(answer):
    """Return how many rows a merge updated, and how many it inserted."""
    told = answer.json()
    return told["num_updated_rows"], told["num_inserted_rows"]


def by_key(table, key="id"):
    return sorted(table.to_pylist(), key=lambda row: str(row[key]))


@pytest.fixture
def there(caller):
    caller.create("t", BASE)
    return caller


NEARLY_RESERVED = ["action", "__Action", "_action", "source", "target", "_distance"]


@pytest.mark.parametrize("name", NEARLY_RESERVED)
def test_names_that_only_resemble_the_engines_own_are_merged(caller, name):
    table = pa.table({"id": [1, 2], name: ["a", "b"]})
    assert caller.create("t", table).status_code == 200
    assert counts(merge(caller, table.slice(1))) == (1, 0)
    assert counts(merge(caller, table, name)) == (2, 0)
    assert caller.read("t").equals(table)


def test_categories_are_matched_by_value_whatever_their_codes(caller):
    known = pa.array(["u", "v"]).dictionary_encode()
    caller.create("t", pa.table({"id": known, "n": [1, 2]}))
    rows = []
    for value, number in (("w", 3), ("v", 4), ("x", 5)):
        key = pa.array([value]).dictionary_encode()
        rows.append(pa.record_batch({"id": key, "n": [number]}))
    assert counts(merge(caller, pa.Table.from_batches(rows))) == (1, 2)
    found = caller.read("t").sort_by("n")
    assert found["id"].to_pylist() == ["u", "w", "v", "x"]
    assert found["n"].to_pylist() == [1, 3, 4, 5]
    indices = pa.array([0, 1], pa.int32())
    null_inside = pa.DictionaryArray.from_arrays(indices, pa.array(["u", None]))
    assert "row 1" in message(merge(caller, pa.table({"id": null_inside, "n": [1, 2]})))


REFUSED = {
    "a null key": (
        {"id": [4, None, None]},
        "column 'id', row 1: a key must not be null",
    ),
    "two rows of a new key": (
        {"id": [7, 8, 9, 8]},
        "rows 1 and 3 have the same key (id=8)",
    ),
    "two rows of an old key": ({"id": [1, 1]}, "rows 0 and 1 have the same key (id=1)"),
    "another type": (
        {"id": pa.array([1], pa.int32())},
        "int32, but int64 in the table",
    ),
    "another type of a value": (
        {"id": [1], "a": [b""]},
        "'a' is binary, but string in",
    ),
    "an unknown column": ({"id": [1], "A": ["x"]}, "unknown columns: 'A'"),
    "no key column": ({"a": ["x"]}, "key column 'id' is not in the stream"),
}


@pytest.mark.parametrize(("columns", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_merged_is_refused_and_changes_nothing(there, columns, words):
    assert words in message(merge(there, pa.table(columns)), 400)
    assert there.version("t") == 1
    assert there.read("t").equals(BASE)
    assert there.tables() == ["t"]


def test_the_row_of_a_bad_key_is_counted_over_batches(there):
    bad = pa.table({"id": [*range(10, 20), None, *range(20, 30)]})
    assert "row 10:" in message(merge(there, stream(bad, rows=3)))
    twice = pa.table({"id": [*range(10, 30), 12]})
    assert "rows 2 and 20 " in message(merge(there, stream(twice, rows=3)))
    assert there.version("t") == 1


def coded(codes: list, values: list) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(values))


A = coded([0], ["a"])
CODED = {
    "two codes of one value": ([coded([0, 1], ["a", "a"])], "rows 0 and 1"),
    "another dictionary": ([A, coded([1], ["b", "a"])], "rows 0 and 1"),
    "a longer dictionary": ([A, coded([0], ["a", "b"])], "rows 0 and 1"),
    "a null value": ([coded([0, 1], ["a", None])], "row 1: a key must not be null"),
    "a null code": ([coded([0, None], ["a"])], "row 1: a key must not be null"),
}


@pytest.mark.parametrize(("chunks", "words"), CODED.values(), ids=CODED)
def test_categories_are_equal_by_value_whatever_their_codes(caller, chunks, words):
    table = pa.table({"id": pa.chunked_array(chunks)})
    caller.create("t", pa.table({"id": coded([0], ["z"])}))
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    assert words in message(merge(caller, sink.getvalue()), 400)


def test_a_double_far_from_the_first_rows_is_found(there):
    ids = [*range(200_000), 70_000]
    assert "rows 70000 and 200000 " in message(merge(there, pa.table({"id": ids})))
    pairs = pa.table({"id": [*range(200_000), 9], "a": ["x"] * 200_001})
    assert "rows 9 and 200000 " in message(merge(there, pairs, "id", "a"))


NO_KEYS = {
    "floats": pa.array([1.0, float("nan")]),
    "lists": pa.array([[1], [2]]),
    "structs": pa.array([{"x": 1}, {"x": 2}]),
    "nothing": pa.nulls(2),
    "JSON": pa.array(["1", "2"], pa.json_()),
    "categories of floats": pa.array([1.5, 2.5]).dictionary_encode(),
}


@pytest.mark.parametrize("keys", NO_KEYS.values(), ids=NO_KEYS)
def test_keys_of_floats_and_of_nested_types_are_refused(caller, keys):
    table = pa.table({"id": keys, "n": [1, 2]})
    caller.create("t", table)
    assert "cannot be a key" in message(merge(caller, table))
    assert caller.version("t") == 1


UPDATES = "when_matched_update_all"
INSERTS = "when_not_matched_insert_all"
RULED = [
    ("", 501, "when_matched_update_all=true"),
    (f"{UPDATES}=true", 501, "when_not_matched_insert_all=true"),
    (f"{UPDATES}=false&{INSERTS}=true", 501, "updating all matched rows"),
    (f"{UPSERT}&when_not_matched_by_source_delete=true", 501, "source_delete=false"),
    (f"{UPDATES}=true&{UPDATES}_filt=n", 501, "'when_matched_update_all_filt'"),
    (f"{UPDATES}=yes", 400, "true or false"),
    (f"{UPDATES}=TRUE&{INSERTS}=True", 200, ""),
]


@pytest.mark.parametrize(("query", "status", "words"), RULED)
def test_other_rules_than_these_two_are_a_501_that_says_which_there_are(
    there, query, status, words
):
    answer = there.post_rows(f"t/merge_insert?on=id&{query}", BASE)
    assert answer.status_code == status
    assert words in answer.text
    assert there.version("t") == (2 if status == 200 else 1)


def test_keys_are_named_once_and_exactly(there):
    assert "on=" in message(merge(there, BASE, ""))
    assert "'id'" in message(merge(there, BASE, "id", "id"))
    assert "key column 'ID' is not in the table" in message(merge(there, BASE, "ID"))
    odd = pa.table({'a"b': [1], "a b+c&d=é": [1]})
    there.create("odd", odd)
    assert "double quote" in message(merge(there, odd, "a%22b", name="odd"))
    assert counts(merge(there, odd, "a%20b%2Bc%26d%3D%C3%A9", name="odd")) == (1, 0)
    assert merge(there, BASE, name="u").status_code == 404
    untyped = there.send("POST", "/v1/table/t/merge_insert/?on=id", stream(BASE))
    assert untyped.status_code == 415


def test_a_table_s_columns_without_nulls_are_needed_and_get_none(caller):
    types = {"id": pa.int64(), "v": pa.string()}
    fields = [pa.field(name, kind, nullable=False) for name, kind in types.items()]
    schema = pa.schema(fields)
    table = pa.table([[1, 2], ["a", "b"]], schema=schema)
    caller.create("t", table)
    answer = merge(caller, pa.table({"id": [1]}))
    assert "'v' is missing, but must not be null" in message(answer)
    assert "null" in message(merge(caller, pa.table({"id": [1, 3], "v": ["A", None]})))
    assert caller.read("t").equals(table)
    assert merge(caller, pa.table({"id": [1, 3], "v": ["A", "c"]})).status_code == 200
    assert caller.read("t").schema == schema


def test_a_stream_that_ends_early_stores_nothing(there):
    for body in (stream(BASE)[:-8], stream(BASE) + b"x", b"", b"{}"):
        assert merge(there, body).status_code == 400
    assert there.version("t") == 1


def test_no_row_is_a_merge_of_nothing(there):
    answer = merge(there, BASE[:0])
    assert answer.json() == {
        "version": there.version("t"),
        "num_updated_rows": 0,
        "num_inserted_rows": 0,
        "num_deleted_rows": 0,
    }
    assert there.read("t").equals(BASE)


def cast(caller, kind):
    return caller.alter("t", {"path": "a", "data_type": {"type": kind}})


@pytest.mark.parametrize("lacks", [[], ["b"]])
def test_a_column_that_was_cast_or_renamed_before_is_not_null_in_new_rows(there, lacks):
    cast(there, "large_string")
    there.alter("t", {"path": "b", "rename": "c"})
    texts = pa.array(["Y", "n"], pa.large_string())
    rows = pa.table({"id": [2, 9], "a": texts, "c": [2.5, 9.5]})
    rows = rows.drop_columns([{"b": "c"}[name] for name in lacks])
    assert merge(there, rows).status_code == 200
    found = there.read("t").filter(pa.compute.field("id").isin([2, 9])).sort_by("id")
    assert found.select(rows.column_names).equals(rows)
    assert there.read("t").num_rows == 4


def sending(caller, rows, happens):
    """The stream of rows, in whose middle something happens."""
    body = stream(rows, rows=1)
    yield body[:-100]
    until(lambda: staged(caller.root, "/table/rows"))
    happens()
    yield body[-100:]


IN_THE_MIDDLE = pa.table({"id": [2, 9], "a": ["Y", "n"], "b": [2.5, 9.5]})


def test_a_cast_in_the_middle_of_the_stream_is_a_conflict_unless_it_is_undone(there):
    """The table is not locked meanwhile, and its columns are looked at again."""

    def cast_there_and_back():
        assert cast(there, "large_string").status_code == 200
        assert cast(there, "string").status_code == 200

    answer = merge(there, sending(there, IN_THE_MIDDLE, cast_there_and_back))
    assert answer.json()["version"] == 4
    assert by_key(there.read("t"))[1] == {"id": 2, "a": "Y", "b": 2.5}
    body = sending(there, IN_THE_MIDDLE, lambda: cast(there, "large_string"))
    assert "columns were changed while its rows" in message(merge(there, body), 409)
    assert there.version("t") == 5


def test_rows_that_come_in_the_middle_of_the_stream_are_merged_before_it(there):
    more = pa.table({"id": [9, 2], "a": ["Z", "Y2"], "b": [0.5, 0.5]})
    answer = merge(there, sending(there, IN_THE_MIDDLE, lambda: merge(there, more)))
    assert counts(answer) == (2, 0)
    found = there.read("t").filter(pa.compute.field("id").isin([2, 9])).sort_by("id")
    assert found.equals(IN_THE_MIDDLE)


def test_a_table_that_is_dropped_in_the_middle_of_the_stream_stays_dropped(there):
    answer = merge(there, sending(there, IN_THE_MIDDLE, lambda: drop(there)))
    assert answer.status_code == 404
    assert there.tables() == []


def test_rows_for_a_table_that_was_dropped_do_not_reach_a_later_one(there):
    def drop_and_create():
        drop(there)
        there.create("t", BASE)

    answer = merge(there, sending(there, BASE, drop_and_create))
    assert "dropped" in message(answer, 409)
    assert there.version("t") == 1


def drop(caller):
    return caller.send("POST", "/v1/table/t/drop/")


def test_keys_that_are_merged_at_once_are_there_once(there):
    def run(number):
        rows = pa.table({"id": range(2000), "b": [float(number)] * 2000})
        return merge(there, rows).json()

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(run, range(4)))
    assert sorted(answer["version"] for answer in answers) == [2, 3, 4, 5]
    assert sorted(answer["num_inserted_rows"] for answer in answers) == [0, 0, 0, 1997]
    last = max(range(4), key=lambda number: answers[number]["version"])
    assert there.read("t").sort_by("id").to_pydict()["id"] == list(range(2000))
    assert set(there.read("t")["b"].to_pylist()) == {float(last)}


def test_other_programs_may_write_to_the_table_in_between(there):
    """Who does not lock the table makes a merge begin anew, or be a conflict."""
    path = str(there.root / "t.lance")
    ended = threading.Event()

    def delete_and_append():
        number = 100
        while not ended.is_set():
            lance.dataset(path).delete("id = 2")
            lance.write_dataset(pa.table({"id": [number]}), path, mode="append")
            number += 1
        return number

    with ThreadPoolExecutor(1) as pool:
        appended = pool.submit(delete_and_append)
        statuses = []
        for number in range(12):
            rows = pa.table({"id": [2, 10 + number], "b": [float(number)] * 2})
            statuses.append(merge(there, rows).status_code)
        ended.set()
        last = appended.result()
    assert set(statuses) <= {200, 409}
    merged = [10 + number for number, status in enumerate(statuses) if status == 200]
    found = sorted(there.read("t")["id"].to_pylist())
    assert [number for number in found if number >= 10] == [*merged, *range(100, last)]
    assert found.count(2) <= 1


def test_rows_that_are_not_in_an_index_are_matched(there):
    path = str(there.root / "t.lance")
    lance.dataset(path).create_scalar_index("id", "BTREE")
    rows = pa.table({"id": [2, 9], "a": ["Y", "n"]})
    assert counts(merge(there, rows)) == (1, 1)
    assert counts(merge(there, rows)) == (2, 0)
    found = there.read("t").sort_by("id")
    assert found["id"].to_pylist() == [1, 2, 3, 9]
    assert found["a"].to_pylist() == ["x", "Y", "z", "n"]
