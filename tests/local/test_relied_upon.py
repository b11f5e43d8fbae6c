"""Undocumented behaviour of the engine on which the embedded service depends.

The name of a test says what a new release has changed. Most of it is tested in
test_refusals.py, which holds the engine's reasons by column, and in test_versions.py
(names of manifests, reports of transactions and clean-ups).

What the service needs of cheroot is tested in test_http.py (headers, lengths, chunks,
early responses), test_together.py (bodies that are not read), test_end.py and
test_folders.py (threads, forks, figures, stopping):

- `ConnectionClass`, `RequestHandlerClass` and `gateway` choose the classes of a server.
- A connection has `rfile`, `wfile`, `socket` and `close`. `rfile` is made with
  `rbufsize`, reads into its buffer with `peek`, and is asked with `has_data` whether a
  connection need not wait.
- A request has `conn`, `chunked_read` and `close_connection`, reads headers with
  `header_reader` and refuses with `simple_response`. As many bytes as `rfile.remaining`
  says are read before a response is sent.
- A server has `expiration_interval`, `max_request_header_size` and `error_log`, calls
  `process_conn` for a readable connection, clears `ready` when it begins to stop, keeps
  figures in `logging.statistics`.
- Of its pool `requests` it calls `start`, `put`, `get` and `stop`. Its threads are
  `WorkerThread`s, with a `server`, and a `conn` while they respond, and end when `get`
  returns `_SHUTDOWNREQUEST`. They are daemons if the thread that starts them is one.
"""

from __future__ import annotations

import datetime

import lance
import pyarrow as pa
import pytest
from lance.bitmap import Bitmap

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


@pytest.mark.parametrize(
    ("filter_", "words"),
    [
        (
            "(n >)",
            [
                "Error parsing statement: SELECT 1 FROM t WHERE (n >) (sql parser error: "
            ],
        ),
        (
            "(n = 'x)",
            [
                "Error tokenizing statement: SELECT 1 FROM t ",
                "(Unterminated ",
                " at Line: 1",
            ],
        ),
        ("(x = 1)", ["Schema error: No field named x."]),
    ],
)
def test_lance_calls_a_filter_invalid_in_these_words(folder, filter_, words):
    with pytest.raises(ValueError, match="Invalid user input") as refused:
        lance.dataset(folder).scanner(filter=filter_).to_reader()
    assert [word for word in words if word not in str(refused.value)] == []


def test_lance_says_that_a_filter_fails_for_a_value(folder):
    rows = lance.dataset(folder).scanner(filter="(n / (n - 1) > 0)").to_reader()
    with pytest.raises(pa.ArrowInvalid, match=r"applying filter expression.*by zero"):
        rows.read_all()


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
    one, other = lance.dataset(folder), lance.dataset(folder)
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
