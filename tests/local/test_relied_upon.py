"""Undocumented behaviour of the engine on which folders depend.

The name of a test says what a new release has changed. Most of it is tested in
test_refusals.py, which holds the engine's reasons by column, and in test_versions.py
(names of manifests, reports of transactions and clean-ups).
"""

from __future__ import annotations

import datetime
import struct
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.bitmap import Bitmap
from lance.dataset import Transaction
from lance.optimize import Compaction

TABLE = pa.table(
    {"n": [1, 300], "m": [1, None], "at": [datetime.datetime(2024, 3, 31, 2, 30), None]}
)


@pytest.fixture
def folder(tmp_path) -> str:
    lance.write_dataset(TABLE, str(tmp_path / "t.lance"))
    return str(tmp_path / "t.lance")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"path": "at", "data_type": pa.timestamp("us", "Europe/Berlin")},
            ["Cannot cast timezone", ".rs:"],
        ),
        (
            {"path": "m", "nullable": False},
            ["contains NULL values", 'olumn "m"', ".rs:"],
        ),
        (
            {"path": "n", "data_type": pa.int8()},
            ["LanceError(Arrow)", "Can't cast value 300 to type Int8", ".rs:"],
        ),
    ],
)
def test_lance_refuses_with_these_words_and_then_a_place_in_its_source(
    folder, change, words
):
    with pytest.raises(OSError, match=r"\.rs:") as refused:
        lance.dataset(folder).alter_columns(change)
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize("filter_", ["(n >)", "(n = 'x)", "(x = 1)"])
def test_lance_calls_a_filter_invalid_in_these_words(folder, filter_):
    with pytest.raises(ValueError, match="Invalid user input"):
        lance.dataset(folder).scanner(filter=filter_).to_reader()


FIRST = "(`n` IS NOT NULL AND `n` = 1)"


def test_lance_ends_the_process_for_a_chain_that_is_long(folder):
    """While this is so, `_protocol/conditions.py` makes groups of a thousand."""
    code = "import sys, lance; lance.dataset(sys.argv[1]).to_table(filter=sys.stdin.read())"
    command = [sys.executable, "-c", code, folder]
    text = " OR ".join(["`n` = 1"] * 100_000)
    ended = subprocess.run(command, input=text, text=True, check=False)
    assert ended.returncode < 0
    chain = " OR ".join([FIRST] * 1000)
    groups = " OR ".join([f"({chain})"] * 30)
    assert lance.dataset(folder).count_rows(groups) == 1


def test_lance_refuses_fifty_parentheses_and_takes_forty_levels(folder):
    """Each level of an expression is at most one parenthesis, besides its leaf's."""
    table = lance.dataset(folder)
    with pytest.raises((ValueError, OSError), match="recursion limit"):
        table.count_rows("(" * 60 + FIRST + ")" * 60)
    assert table.count_rows("(" * 40 + FIRST + ")" * 40) == 1


def test_lance_says_that_a_filter_fails_for_a_value(folder):
    rows = lance.dataset(folder).scanner(filter="(n / (n - 1) > 0)").to_reader()
    with pytest.raises(pa.ArrowInvalid, match=r"applying filter expression.*by zero"):
        rows.read_all()


NAN_BELOW = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0000))[0]
DAYS = [datetime.datetime(2024, 1, 5, 3), datetime.datetime(2024, 1, 5, 6), None]
ODD = pa.table(
    {
        "small": pa.array([0, 3, 2**32 - 1], pa.uint32()),
        "one": pa.array([2_000_000, 1, -1], pa.int32()),
        "other": pa.array([2_000, 1, 1], pa.int32()),
        "n": pa.array([1, 2, None], pa.int64()),
        "r": pa.array([NAN_BELOW, 2.0, None]),
        "zero": pa.array([0.0, 1.0, None]),
        "below": pa.array([-0.0, 1.0, None]),
        "s": pa.array(DAYS, pa.timestamp("s")),
        "ns": pa.array(DAYS, pa.timestamp("ns")),
        "east": pa.array(DAYS, pa.timestamp("us", "America/New_York")),
        "text": pa.array(["a", "b", None]),
    }
)
# a condition, and the rows that Lance finds; not those that one expects
FOUND = [
    # whole numbers wrap, and constants take the column's type before
    ("small < 3 - 7", [0, 1]),
    ("one * other < 0", [0, 2]),
    # several IN lists about one column lose its nulls
    ("n NOT IN (1) OR n NOT IN (2)", [0, 1, 2]),
    # NaN with its sign bit is below all numbers
    ("r < 1", [0]),
    # zeros of two signs differ between columns
    ("zero <> below", [0]),
    # a literal finer than its column is cut
    ("s = timestamp '2024-01-05 03:00:00.5'", [0]),
    # a moment outside the years of nanoseconds is null
    ("ns < timestamp '9999-12-31 00:00:00'", []),
    # a date is midnight in UTC, a moment without zone is local midnight
    ("east >= date '2024-01-05'", [0, 1]),
    ("east >= timestamp '2024-01-05 00:00:00'", [1]),
]


@pytest.mark.parametrize(("condition", "rows"), FOUND)
def test_lance_finds_other_rows_than_a_condition_says(tmp_path, condition, rows):
    table = lance.write_dataset(ODD, str(tmp_path / "odd.lance"))
    found = table.to_table(columns=["n"], filter=condition, with_row_id=True)
    assert found["_rowid"].to_pylist() == rows


@pytest.mark.parametrize(
    ("condition", "suffix"), [("n < 10", ".arrow"), ("n % 3 = 0", ".bin")]
)
def test_the_end_of_a_file_of_deletions_tells_that_lance_wrote_all_of_it(
    tmp_path, condition, suffix
):
    lance.write_dataset(pa.table({"n": range(100_000)}), str(tmp_path / "many.lance"))
    deleted = lance.dataset(str(tmp_path / "many.lance"))
    rows = deleted.delete(condition)["num_deleted_rows"]
    (path,) = (tmp_path / "many.lance" / "_deletions").iterdir()
    data = path.read_bytes()
    assert path.suffix == suffix
    if suffix == ".arrow":
        assert data.endswith(b"ARROW1")
        return
    assert len(Bitmap._from_bytes(data)) == rows
    for end in range(0, len(data), 101):
        with pytest.raises(ValueError, match="deserialize"):
            Bitmap._from_bytes(data[:end])


@pytest.mark.parametrize(
    "second", [{"path": "m", "name": "u"}, {"path": "n", "data_type": pa.int32()}]
)
def test_lance_calls_a_table_that_was_changed_meanwhile_a_conflict(folder, second):
    one = lance.dataset(folder)
    other = lance.dataset(folder)
    one.alter_columns({"path": "at", "name": "k"})
    with pytest.raises(OSError, match=r"(?i)commit conflict|concurrent transaction"):
        other.alter_columns(second)


def test_lance_calls_rows_that_were_changed_meanwhile_a_conflict_of_a_merge(folder):
    rows = pa.table({"n": [1]})
    one, other = (lance.dataset(folder).merge_insert("n") for _ in range(2))
    one.when_matched_update_all().execute(rows)
    other = other.when_matched_update_all().conflict_retries(0)
    with pytest.raises(OSError, match="Too many concurrent writers"):
        other.execute(rows)


def test_the_file_of_a_transaction_is_named_by_its_uuid_and_goes_with_its_version(
    folder,
):
    table = lance.dataset(folder)
    rename = LanceOperation.Project(table.lance_schema)
    transaction = Transaction(read_version=1, operation=rename, uuid="an-id")
    lance.LanceDataset.commit(table, transaction)
    table = lance.write_dataset(TABLE, folder, mode="append")
    files = Path(folder, "_transactions")
    assert len(list(files.glob("1-an-id.txn"))) == 1
    table.cleanup_old_versions(versions=[2])
    assert list(files.glob("1-an-id.txn")) == []


def test_a_plan_has_all_fragments_that_are_not_excluded_if_the_threshold_is_negative(
    folder,
):
    for _ in range(3):
        lance.write_dataset(TABLE, folder, mode="append")
    table = lance.dataset(folder)
    options = {
        "excluded_fragment_ids": [0, 1],
        "materialize_deletions_threshold": -1.0,
    }
    (task,) = Compaction.plan(table, options).tasks
    assert [fragment.id for fragment in task.fragments] == [2, 3]


def test_rewritten_fragments_get_new_ids_and_come_last(folder):
    for _ in range(3):
        lance.write_dataset(TABLE, folder, mode="append")
    table = lance.dataset(folder)
    (task,) = Compaction.plan(table, {"excluded_fragment_ids": [0, 3]}).tasks
    new = task.execute(table).new_fragments
    assert [fragment.id for fragment in new] == [0]
    group = LanceOperation.RewriteGroup(task.fragments, new)
    rewritten = lance.LanceDataset.commit(
        folder, LanceOperation.Rewrite([group], []), read_version=table.version
    )
    assert [part.fragment_id for part in rewritten.get_fragments()] == [0, 3, 4]


def test_dictionaries_that_outgrow_their_codes_are_merged_without_an_error(tmp_path):
    for number in range(3):
        values = [f"{number}-{n}" for n in range(100)]
        codes = (
            pa.array(values).dictionary_encode().cast(pa.dictionary("int8", "string"))
        )
        table = pa.table({"c": codes})
        lance.write_dataset(table, str(tmp_path / "t"), mode="append")
    table = lance.dataset(str(tmp_path / "t"))
    table.optimize.compact_files()
    with pytest.raises(BaseException, match=r"(?i)dictionary|overflow"):
        lance.dataset(str(tmp_path / "t")).to_table()
