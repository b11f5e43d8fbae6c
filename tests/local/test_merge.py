"""What is beside an upsert in a folder: streams of others, refusals, and races.

Keys, rows and values are in tests/client/test_upsert.py.
"""

from __future__ import annotations

import io
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


REFUSED = {  # of rows that come one in each batch
    "a null key": (
        {"id": [4, None, None]},
        "column 'id', row 1: a key must not be null",
    ),
    "two rows of a key": (
        {"id": [7, 8, 9, 8]},
        "rows 1 and 3 have the same key (id=8)",
    ),
    "another type": (
        {"id": pa.array([1], pa.int32())},
        "int32, but int64 in the table",
    ),
    "an unknown column": ({"id": [1], "A": ["x"]}, "unknown columns: 'A'"),
    "no key column": ({"a": ["x"]}, "key column 'id' is not in the stream"),
}


@pytest.mark.parametrize(("columns", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_merged_is_refused_and_changes_nothing(there, columns, words):
    body = stream(pa.table(columns), rows=1)
    assert words in message(merge(there, body), 400)
    assert there.version("t") == 1
    assert there.read("t").equals(BASE)


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


NO_KEYS = {
    "floats": pa.array([1.0, float("nan")]),
    "lists": pa.array([[1], [2]]),
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


def test_a_cast_in_the_middle_of_the_stream_is_a_conflict(there):
    """The table is not locked meanwhile, and its columns are looked at again."""
    body = sending(there, BASE, lambda: cast(there, "large_string"))
    assert "columns were changed while its rows" in message(merge(there, body), 409)
    assert there.version("t") == 2


def test_a_table_that_is_dropped_in_the_middle_of_the_stream_stays_dropped(there):
    answer = merge(there, sending(there, BASE, lambda: drop(there)))
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


def test_rows_that_are_not_in_an_index_are_matched(there):
    path = str(there.root / "t.lance")
    lance.dataset(path).create_scalar_index("id", "BTREE")
    rows = pa.table({"id": [2, 9], "a": ["Y", "n"]})
    assert counts(merge(there, rows)) == (1, 1)
    assert counts(merge(there, rows)) == (2, 0)
    found = there.read("t").sort_by("id")
    assert found["id"].to_pylist() == [1, 2, 3, 9]
    assert found["a"].to_pylist() == ["x", "Y", "z", "n"]
