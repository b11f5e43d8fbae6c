"""A table that is written to for years has few files, and its rows in their order."""

from __future__ import annotations

import logging
import random
import struct
import threading
import time

import lance
import polars as pl
import pyarrow as pa
import pytest
from lance import LanceOperation
from polars.testing import assert_frame_equal

import rt_frames as rt
from tests.support.killed import SECRET, SECRETS, WRITES
from tests.support.local import JSON, Write, message, unnamed
from tests.support.processes import python

# of small fragments, and one of a write
MOST = 33
KEYS = 5_000


def rows(keys, text: str = "x") -> pl.DataFrame:
    return pl.DataFrame({"id": list(keys), "text": [f"{text}{key}" for key in keys]})


def count_fragments(root) -> int:
    return len(lance.dataset(str(root / "t.lance")).get_fragments())


def stored_as(root, **options) -> None:
    """Store a table as others do, a fragment for each of 40 rows."""
    for number in range(40):
        table = rows([number], "stored").to_arrow()
        lance.write_dataset(table, str(root / "t.lance"), mode="append", **options)


@pytest.fixture
def client(tmp_path):
    with rt.connect(tmp_path, default=False) as client:
        yield client


def test_many_appends_are_few_fragments_and_keep_their_order(tmp_path, client):
    client.create_table("t", rows([0]))
    for number in range(1, 40):
        client.create_table("t", rows([number]), if_exists="append")
        assert count_fragments(tmp_path) <= MOST
    assert_frame_equal(client.table("t").to_polars(), rows(range(40)))


def test_many_upserts_are_few_fragments(tmp_path, client):
    client.create_table("t", rows(range(KEYS), "first"))
    values = dict.fromkeys(range(KEYS), "first")
    for number in range(40):
        keys = random.sample(range(KEYS), 50)
        client.create_table("t", rows(keys, str(number)), if_exists="upsert", on="id")
        values.update(dict.fromkeys(keys, str(number)))
        assert count_fragments(tmp_path) <= MOST
    expected = [f"{value}{key}" for key, value in values.items()]
    found = client.table("t").to_polars().sort("id")
    assert found["text"].to_list() == expected


def test_many_deletes_are_few_fragments(tmp_path, client):
    stored_as(tmp_path)
    assert client.table("t").delete(pl.col("id") == 7) == 1
    assert count_fragments(tmp_path) == 1
    assert client.table("t").to_polars()["id"].to_list() == [*range(7), *range(8, 40)]


@pytest.mark.parametrize(
    ("large", "left"),
    [
        ({"id": range(2**20)}, 1),
        ({"id": range(65), "data": [random.randbytes(2**20) for _ in range(65)]}, 1),
        ({"id": range(200)}, 1),
        ({"id": range(100)}, 0),
    ],
    ids=["many rows", "many bytes", "far more rows", "more rows"],
)
def test_what_is_large_stays_as_it_is(tmp_path, large, left):
    folder = str(tmp_path / "t.lance")
    large = pa.table(large)
    lance.write_dataset(large, folder)
    first = lance.dataset(folder).get_fragments()[0].data_files()[0].path
    for number in range(34):
        row = pa.table({name: [large[name][number]] for name in large.column_names})
        lance.write_dataset(row, folder, mode="append")
    with rt.connect(tmp_path, default=False) as client:
        client.create_table("t", row, if_exists="append")
    files = [
        part.data_files()[0].path for part in lance.dataset(folder).get_fragments()
    ]
    assert len(files) == left + 2
    assert (first in files) == bool(left)


def test_a_large_fragment_is_rewritten_if_a_third_of_its_rows_are_deleted(tmp_path):
    folder = str(tmp_path / "t.lance")
    lance.write_dataset(rows(range(1000)).to_arrow(), folder)
    lance.dataset(folder).delete("id < 333")
    stored_as(tmp_path)
    with rt.connect(tmp_path, default=False) as client:
        client.table("t").delete(pl.col("id") == 999)
        assert client.table("t").count() == 706
    assert count_fragments(tmp_path) == 1


def codes_of_8_bits() -> pa.Table:
    column = pa.array(["a"]).dictionary_encode().cast(pa.dictionary("int8", "string"))
    return pa.table({"id": [1], "text": column})


def with_index(root):
    stored_as(root)
    lance.dataset(str(root / "t.lance")).create_scalar_index("id", "BTREE")


def with_narrow_codes(root):
    for _ in range(40):
        folder = str(root / "t.lance")
        lance.write_dataset(codes_of_8_bits(), folder, mode="append")


@pytest.mark.parametrize("store", [with_index, with_narrow_codes])
def test_what_the_engine_cannot_merge_without_harm_is_left_and_refused(tmp_path, store):
    store(tmp_path)
    with rt.connect(tmp_path, default=False) as client:
        table = client.table("t")
        table.delete(pl.col("id") == 0)
        before = table.to_arrow()
        version = lance.dataset(str(tmp_path / "t.lance")).version
        for purge in (False, True):
            with pytest.raises(rt.errors.BadRequest, match="nothing was changed"):
                table.compact(purge=purge)
        assert count_fragments(tmp_path) >= 39
        assert lance.dataset(str(tmp_path / "t.lance")).version == version
        assert table.to_arrow().equals(before)


def test_an_error_of_it_does_not_fail_the_write(tmp_path, client, caplog):
    client.create_table("t", rows([0]))
    stored_as(tmp_path)
    # a file that the write does not read
    part = lance.dataset(str(tmp_path / "t.lance")).get_fragments()[7]
    (tmp_path / "t.lance" / "data" / part.data_files()[0].path).unlink()
    with caplog.at_level(logging.WARNING, "rt_frames"):
        client.create_table("t", rows([1]), if_exists="append")
    assert "table t: small files were not merged" in caplog.text
    assert client.table("t").count() == 42


# Compact and purge


def test_compact_merges_at_once_and_keeps_old_versions(tmp_path, client):
    for number in range(5):
        client.create_table("t", rows([number]), if_exists="append")
    merged = client.table("t").compact()
    assert merged.version == 6
    assert count_fragments(tmp_path) == 1
    assert_frame_equal(merged.to_polars(), rows(range(5)))
    assert client.table("t", version=3).count() == 3
    assert client.table("t").compact().version == 6


PEOPLE = pl.DataFrame({"id": [1, 2, 3], "ssn": ["a", SECRET, "c"]})
NUMBERS = pl.DataFrame({"id": [1], "n": pl.Series([1 / 3], dtype=pl.Float32)})


def files_with(root, value: bytes) -> list[str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return [path.name for path in files if value in path.read_bytes()]


def delete(client, _root):
    client.table("t").delete([("ssn", "=", SECRET)])


def delete_as_others_do(_client, root):
    lance.dataset(str(root / "t.lance")).delete(f"ssn = '{SECRET}'")


def delete_all_as_others_do(_client, root):
    lance.dataset(str(root / "t.lance")).delete(f"ssn >= 'a' or ssn = '{SECRET}'")


def drop_column(client, _root):
    rt.alter_table(PEOPLE.drop("ssn"), "t", client=client, drop_columns=["ssn"])


def upsert(client, _root):
    hidden = PEOPLE.with_columns(ssn=pl.lit("hidden"))
    rt.to_table(hidden, "t", client=client, if_exists="upsert", on="id")


def replace(client, _root):
    rt.to_table(PEOPLE.drop("ssn"), "t", client=client, if_exists="replace")


def restore(client, _root):
    client.table("t", version=1).restore()


REMOVALS = [
    (delete, 0),
    (delete, 40),
    (delete_as_others_do, 0),
    (delete_as_others_do, 40),
    (delete_all_as_others_do, 0),
    (drop_column, 0),
    (drop_column, 40),
    (upsert, 0),
    (replace, 0),
    (restore, 0),
]


@pytest.mark.parametrize(("remove", "others"), REMOVALS)
def test_after_a_purge_no_byte_on_the_disk_is_of_what_was_removed(
    tmp_path, client, remove, others
):
    client.create_table("t", PEOPLE.clear())
    for number in range(others):
        row = pa.table({"id": [10 + number], "ssn": pa.array(["b"], pa.large_string())})
        lance.write_dataset(row, str(tmp_path / "t.lance"), mode="append")
    client.create_table("t", PEOPLE, if_exists="append")
    remove(client, tmp_path)
    before = client.table("t").to_polars()
    assert files_with(tmp_path, SECRET.encode()) != []
    purged = client.table("t").compact(purge=True)
    assert_frame_equal(purged.to_polars(), before)
    assert files_with(tmp_path, SECRET.encode()) == []
    assert unnamed(tmp_path) == []
    assert len(lance.dataset(str(tmp_path / "t.lance")).versions()) == 1


def kill_a_writer(root, what, seconds) -> None:
    with python("-m", "tests.support.killed", root, what) as writer:
        assert writer.stdout.readline() == "ready\n"
        time.sleep(seconds)
        writer.kill()


@pytest.mark.parametrize("what", WRITES)
def test_a_purge_leaves_no_byte_of_what_a_killed_write_began(tmp_path, client, what):
    for _ in range(3):
        client.create_table("t", SECRETS, if_exists="replace")
        kill_a_writer(tmp_path, what, random.uniform(0, 0.2))
        client.table("t").delete([("ssn", "=", SECRET)])
        assert client.table("t").compact(purge=True).count() == 0
        assert files_with(tmp_path, SECRET.encode()) == []
        assert unnamed(tmp_path) == []


def test_a_purge_leaves_what_others_have_yet_to_commit(tmp_path, client):
    client.create_table("t", PEOPLE)
    table = lance.dataset(str(tmp_path / "t.lance"))
    more = PEOPLE.to_arrow().cast(table.schema)
    new = lance.fragment.write_fragments(more, table, mode="append")
    kill_a_writer(tmp_path, "compact", 0.1)
    client.table("t").compact(purge=True)
    table = lance.dataset(str(tmp_path / "t.lance"))
    appended = lance.LanceDataset.commit(
        table, LanceOperation.Append(new), read_version=table.version
    )
    assert appended.to_table().num_rows == 6


def test_after_a_purge_no_byte_on_the_disk_is_of_a_column_before_its_cast(
    tmp_path, client
):
    client.create_table("t", NUMBERS)
    client.table("t").cast({"n": "float64"})
    value = struct.pack("<f", NUMBERS["n"][0])
    assert files_with(tmp_path, value) != []
    assert client.table("t").compact(purge=True).count() == 1
    assert files_with(tmp_path, value) == []


def test_a_purge_leaves_files_from_before_the_first_outdated_one(tmp_path, client):
    folder = str(tmp_path / "t.lance")
    for first in range(0, 4 * 2**20, 2**20):
        table = pa.table({"id": range(first, first + 2**20)})
        lance.write_dataset(table, folder, mode="append")
    before = lance.dataset(folder).get_fragments()
    client.table("t").delete(pl.col("id") == 2**21)
    client.table("t").compact(purge=True)
    after = lance.dataset(folder).get_fragments()
    found = [part.data_files() for part in after[:2]]
    assert found == [part.data_files() for part in before[:2]]
    ids = client.table("t").to_polars()["id"]
    assert ids.len() == 2**22 - 1
    assert ids.is_sorted()


def test_a_purge_that_would_leave_categories_of_deleted_rows_is_refused(
    tmp_path, client
):
    names = pl.Series(["deleted-name", "kept", "kept"], dtype=pl.Categorical)
    client.create_table("t", pl.DataFrame({"id": [1, 2, 3], "name": names}))
    table = client.table("t")
    assert table.compact(purge=True).count() == 3
    table.delete(pl.col("id") == 1)
    with pytest.raises(rt.errors.BadRequest, match=r"'name'.*nothing was changed") as e:
        table.compact(purge=True)
    assert """first call rt.table("t").cast({'name': 'large_string'});""" in str(
        e.value
    )
    table.cast({"name": "large_string"})
    table.cast({"name": pl.Categorical})
    assert table.compact(purge=True).count() == 2
    assert files_with(tmp_path, b"deleted-name") == []


def test_a_purge_tells_how_to_be_rid_of_categories_inside_others(tmp_path, client):
    names = pa.array(["deleted-name", "kept"]).dictionary_encode()
    person = pa.StructArray.from_arrays([names], ["name"])
    client.create_table("t", pa.table({"id": [1, 2], "person": person}))
    client.table("t").delete(pl.col("id") == 1)
    with pytest.raises(rt.errors.BadRequest, match="first call") as refused:
        client.table("t").compact(purge=True)
    cure = str(refused.value).partition("first call ")[2].partition(";")[0]
    eval(cure, {"rt": client})
    assert client.table("t").compact(purge=True).count() == 1
    assert files_with(tmp_path, b"deleted-name") == []


def with_tag(root):
    lance.dataset(str(root / "t.lance")).tags.create("kept", 1)


def with_branch(root):
    lance.dataset(str(root / "t.lance")).create_branch("other")


def with_link(root):
    (root / "t.lance" / "data" / "link").symlink_to(root)


@pytest.mark.parametrize("change", [with_tag, with_branch, with_link])
def test_a_purge_that_would_leave_old_files_is_refused(tmp_path, client, change):
    client.create_table("t", PEOPLE)
    change(tmp_path)
    delete(client, tmp_path)
    with pytest.raises(rt.errors.BadRequest, match="nothing was changed"):
        client.table("t").compact(purge=True)
    assert len(lance.dataset(str(tmp_path / "t.lance")).versions()) == 2
    assert client.table("t").compact().count() == 2


def test_a_purge_ends_writes_in_parts(caller):
    caller.create("t", PEOPLE.to_arrow())
    write = Write(caller)
    write.part(PEOPLE.to_arrow(), "a", "overwrite")
    compacted = caller.send(
        "POST", "/v1/table/t/compact/", '{"purge": true}', content_type=JSON
    )
    assert compacted.json() == {"version": 2}
    assert caller.staged() == []
    assert "dropped or purged" in message(write.end(), 404)


@pytest.mark.parametrize("body", ['{"purge": 1}', '{"all": true}', "[]"])
def test_a_body_that_says_something_else_is_refused(caller, body):
    caller.create("t", PEOPLE.to_arrow())
    answer = caller.send("POST", "/v1/table/t/compact/", body, content_type=JSON)
    assert answer.status_code == 400
    assert caller.version("t") == 1


def test_a_handle_of_a_version_does_not_compact(client):
    client.create_table("t", PEOPLE)
    with pytest.raises(ValueError, match="read-only"):
        client.table("t", version=1).compact()


# Beside other writers and readers


def test_who_reads_what_is_purged_gets_an_error_and_no_other_rows(tmp_path, client):
    for number in range(60):
        table = pa.table({"n": [number, number], "data": [random.randbytes(2**20)] * 2})
        lance.write_dataset(table, str(tmp_path / "t.lance"), mode="append")
    reading = pa.RecordBatchReader.from_stream(client.table("t", version=60))
    reading.read_next_batch()
    client.table("t").delete(pl.col("n") == 59)
    client.table("t").compact(purge=True)
    with pytest.raises(pa.ArrowInvalid, match=r"the response failed after .* rows"):
        reading.read_all()
    with pytest.raises(rt.errors.TableNotFoundError, match=r"version 60 .*removed"):
        client.table("t", version=60).count()


def test_others_who_change_what_was_merged_meanwhile_are_told_of_a_conflict(
    tmp_path, client
):
    stored_as(tmp_path)
    folder = str(tmp_path / "t.lance")
    stale = lance.dataset(folder)
    fragment = stale.get_fragments()[7].delete("id = 7")
    client.table("t").compact()
    operation = LanceOperation.Delete([fragment] if fragment else [], [7], "id = 7")
    with pytest.raises(OSError, match="conflict"):
        lance.LanceDataset.commit(folder, operation, read_version=stale.version)
    assert client.table("t").count() == 40


def test_others_who_add_rows_all_the_time_lose_none(tmp_path, client):
    stored_as(tmp_path)
    ended = threading.Event()
    added = []

    def add() -> None:
        while not ended.wait(0.02):
            number = 10_000 + len(added)
            table = rows([number]).to_arrow()
            lance.write_dataset(table, str(tmp_path / "t.lance"), mode="append")
            added.append(number)

    others = threading.Thread(target=add)
    others.start()
    try:
        for number in range(100, 130):
            client.create_table("t", rows([number]), if_exists="append")
    finally:
        ended.set()
        others.join()
    assert len(added) > 5
    found = client.table("t").to_polars()["id"].sort().to_list()
    assert found == [*range(40), *range(100, 130), *added]
