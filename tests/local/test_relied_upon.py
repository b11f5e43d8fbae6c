"""What the embedded service relies upon in its engine, beyond its documents; a name says what a new release moved.

What it relies upon in cheroot is seen in test_http.py (headers, lengths, chunks, early answers), test_together.py
(bodies that are not read), test_end.py and test_folders.py (threads, figures, stopping).
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


TABLE = pa.table({"n": [1, 300], "m": [1, None], "at": [datetime.datetime(2024, 3, 31, 2, 30), None]})


@pytest.fixture
def folder(tmp_path) -> str:
    lance.write_dataset(TABLE, str(tmp_path / "t.lance"))
    return str(tmp_path / "t.lance")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"path": "at", "data_type": pa.timestamp("us", "Europe/Berlin")}, ["Cannot cast timezone", ".rs:"]),
        ({"path": "m", "nullable": False}, ["contains NULL values", 'olumn "m"', ".rs:"]),
        ({"path": "n", "data_type": pa.int8()}, ["LanceError(Arrow)", "Can't cast value 300 to type Int8", ".rs:"]),
    ],
)
def test_lance_refuses_with_these_words_and_then_a_place_in_its_source(folder, change, words):
    with pytest.raises(OSError, match=r"\.rs:") as refused:
        lance.dataset(folder).alter_columns(change)
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize("second", [{"path": "m", "name": "u"}, {"path": "n", "data_type": pa.int32()}])
def test_lance_calls_a_table_that_was_changed_meanwhile_a_conflict(folder, second):
    one, other = lance.dataset(folder), lance.dataset(folder)
    one.alter_columns({"path": "at", "name": "k"})
    with pytest.raises(OSError, match=r"(?i)commit conflict|concurrent transaction"):
        other.alter_columns(second)


def test_lance_numbers_versions_one_by_one(folder):
    """An alteration that is taken back is found by its version."""
    dataset = lance.dataset(folder)
    for number, (old, new) in enumerate([("n", "k"), ("k", "n")], 2):
        dataset.alter_columns({"path": old, "name": new})
        assert (dataset.version, lance.dataset(folder).latest_version) == (number, number)


def test_importing_lance_starts_no_thread_and_warns_of_nothing():
    count = 'len(os.listdir("/proc/self/task"))'
    done = run(f"import os, numpy, pandas, pyarrow\nbefore = {count}\nimport lance\nprint({count} - before)")
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_process_forks_in_silence_before_it_starts_a_service_and_its_child_may_start_one(tmp_path):
    done = run(f"""
import os, warnings
warnings.filterwarnings("ignore", category=DeprecationWarning)  # Python's own, for forks beside a thread of numpy's
from rt_frames.local import LocalService
service = LocalService({str(tmp_path)!r})
if child := os.fork():
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
import pyarrow as pa
from tests.support.local import Caller
with service:
    caller = Caller(service.root, service.url, service.api_key)
    assert caller.create("t", pa.table({{"a": [1]}})).status_code == 200
    caller.close()
""")
    assert (done.returncode, done.stderr) == (0, "")
