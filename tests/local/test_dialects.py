"""The addresses that servers of this family speak today: lists in pages, create, replace, describe."""

from __future__ import annotations

import datetime
import shutil

import lance
import pyarrow as pa
import pytest

from rt_frames.local import engine
from tests.support.local import ARROW, JSON, TABLE, message, stream

OTHER = pa.table({"other": [1.5, None], "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64()))})


def put(caller, name, table, mode="create", slash="/"):
    return caller.send("POST", f"/v1/table/{name}/create{slash}?mode={mode}", stream(table), content_type=ARROW)


def described(caller, name, body=b"{}"):
    answer = caller.send("POST", f"/v1/table/{name}/describe/", body, content_type=JSON)
    assert answer.status_code == 200
    return answer.json()


@pytest.mark.parametrize("path", ["/v1/namespace/$/table/list", "/v1/namespace/%24/table/list", "/v1/table/"])
def test_a_list_comes_in_pages_of_the_size_asked_for(caller, path):
    for name in "dabce":
        assert caller.create(name, TABLE).status_code == 200
    assert caller.send("GET", path).json() == {"tables": list("abcde")}
    first = caller.send("GET", f"{path}?limit=2").json()
    assert first["tables"] == ["a", "b"]
    second = caller.send("GET", f"{path}?limit=3&page_token={first['page_token']}").json()
    assert second == {"tables": ["c", "d", "e"]}
    for limit in ("0", "-1", "x", "1.5", "\N{SUPERSCRIPT TWO}", "9" * 30):
        answer = caller.send("GET", f"{path}?limit={limit}")
        assert answer.status_code == 400
        assert "limit" in message(answer)


@pytest.mark.parametrize("slash", ["/", ""])
def test_a_table_created_at_one_address_is_taken_at_the_other(caller, slash):
    assert put(caller, "t", TABLE, slash=slash).json() == {"version": 1}
    assert caller.read("t").equals(TABLE)
    taken = put(caller, "t", OTHER, slash=slash)
    assert taken.status_code == 400
    assert message(taken) == "table 't' already exists"
    assert caller.create("t", OTHER).status_code == 409
    assert caller.read("t").equals(TABLE)


def test_alter_is_answered_with_a_slash_and_without(caller):
    caller.create("t", TABLE)
    for i, path in enumerate(("/v1/table/t/alter_columns/", "/v1/table/t/alter_columns"), 2):
        body = '{"alterations": [{"path": "n", "nullable": true}]}'
        assert caller.send("POST", path, body, content_type=JSON).json() == {"version": i}


def test_a_table_is_described_in_the_words_of_alterations_and_maps_in_those_of_the_specification(caller):
    caller.create("t", pa.table({"n": [1], "k": TABLE["k"][:1], "m": OTHER["m"][:1]}))
    key = {"name": "key", "type": {"type": "string"}, "nullable": False}
    value = {"name": "value", "type": {"type": "int64"}, "nullable": True}
    entries = {"name": "entries", "type": {"type": "struct", "fields": [key, value]}, "nullable": False}
    fields = [
        {"name": "n", "type": {"type": "int64"}, "nullable": True},
        {"name": "k", "type": {"type": "dict:string:int32:false"}, "nullable": True},
        {"name": "m", "type": {"type": "map", "fields": [entries]}, "nullable": True},
    ]
    assert described(caller, "t") == {"version": 1, "schema": {"fields": fields}}
    caller.alter("t", {"path": "n", "rename": "o", "data_type": {"type": "int32"}})
    fields[0] = {"name": "o", "type": {"type": "int32"}, "nullable": True}
    assert described(caller, "t", b"") == {"version": 2, "schema": {"fields": fields}}


def test_a_table_that_is_not_there_cannot_be_described_or_altered(caller):
    for operation in ("describe", "alter_columns"):
        answer = caller.send("POST", f"/v1/table/t/{operation}/", b"{}", content_type=JSON)
        assert answer.status_code == 404
        assert "there is no table 't'" in message(answer)


def test_a_replaced_table_has_the_new_columns_and_who_has_the_old_one_open_goes_on_reading(caller):
    caller.create("t", TABLE)
    old = lance.dataset(str(caller.root / "t.lance"))
    assert put(caller, "t", OTHER, "overwrite").json() == {"version": 2}
    assert caller.read("t").equals(OTHER)
    assert old.to_table().equals(TABLE)
    assert caller.tables() == ["t"]
    assert described(caller, "t")["version"] == 2
    assert caller.alter("t", {"path": "other", "data_type": {"type": "float"}}).json() == {"version": 3}


def test_replace_makes_a_table_where_there_is_none(caller):
    assert put(caller, "t", TABLE, "overwrite").json() == {"version": 1}
    assert caller.read("t").equals(TABLE)


def test_tables_without_rows_are_replaced_and_replace(caller):
    for i, table in enumerate((TABLE[:0], TABLE, OTHER[:0], OTHER), 1):
        assert put(caller, "t", table, "overwrite").json() == {"version": i}
        assert caller.read("t").equals(table)


def test_of_the_versions_that_were_replaced_the_last_ten_stay(caller):
    for i in range(1, 15):
        put(caller, "t", pa.table({"n": [i]}), "overwrite")
    dataset = lance.dataset(str(caller.root / "t.lance"))
    assert [version["version"] for version in dataset.versions()] == list(range(4, 15))
    assert len(list((caller.root / "t.lance" / "data").iterdir())) == 11
    assert dataset.checkout_version(4).to_table().to_pylist() == [{"n": 4}]


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1"])
def test_tables_that_older_engines_wrote_are_replaced(caller, version):
    lance.write_dataset(TABLE, str(caller.root / "t.lance"), data_storage_version=version)
    assert put(caller, "t", OTHER, "overwrite").status_code == 200
    assert caller.read("t").equals(OTHER)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_not_a_table_is_not_replaced(caller, kind):
    path = caller.root / "t.lance"
    if kind == "folder":
        path.mkdir()
    other = path / "x" if kind == "folder" else path
    other.write_text("mine")
    answer = put(caller, "t", TABLE, "overwrite")
    kept = other.read_text()
    other.unlink()
    assert answer.status_code == 400
    assert "is in the service's folder and no table" in message(answer)
    assert kept == "mine"


def test_a_bad_stream_and_a_bad_mode_leave_the_table_as_it_was(caller):
    caller.create("t", TABLE)
    cut = stream(OTHER)[:-8]
    path = "/v1/table/t/create/?mode=overwrite"
    assert caller.send("POST", path, cut, content_type=ARROW).status_code == 400
    assert put(caller, "t", OTHER, "append").status_code == 400
    assert caller.read("t").equals(TABLE)
    assert caller.version("t") == 1
    assert len(list((caller.root / "t.lance" / "data").iterdir())) == 1


def test_a_commit_that_fails_leaves_the_table_and_its_files_as_they_were(caller):
    caller.create("t", TABLE)
    transactions = caller.root / "t.lance" / "_transactions"
    shutil.rmtree(transactions)
    transactions.write_text("in the way")
    answer = put(caller, "t", OTHER, "overwrite")
    assert answer.status_code == 500
    assert "the table could not be stored: the file system failed" in message(answer)
    assert caller.read("t").equals(TABLE)
    assert len(list((caller.root / "t.lance" / "data").iterdir())) == 1
    transactions.unlink()
    assert put(caller, "t", OTHER, "overwrite").status_code == 200
    assert caller.read("t").equals(OTHER)


def test_what_was_replaced_longer_ago_than_ten_minutes_goes_and_what_a_tag_names_stays(caller):
    for i in range(1, 5):
        put(caller, "t", pa.table({"n": [i]}), "overwrite")
    dataset = lance.dataset(str(caller.root / "t.lance"))
    dataset.tags.create("kept", 1)
    engine.forget_versions(caller.root / "t.lance", datetime.timedelta(0))
    assert [version["version"] for version in dataset.versions()] == [1, 4]
    assert caller.read("t").to_pylist() == [{"n": 4}]
