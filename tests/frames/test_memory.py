"""A table much larger than the memory it may take goes through the embedded service."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import rt_frames as rt
from tests.support.compare import lance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def memory(pid: int, what: str) -> int:
    return int(re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) * 1024


@contextlib.contextmanager
def service(folder: Path) -> Iterator[tuple[rt.Client, Callable[[], int]]]:
    """Serve a folder in a process of its own; give a client, and what tells how far that process grew."""
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("RT_FRAMES")}, "RT_FRAMES_API_KEY": "k"}
    command = [sys.executable, "-m", "rt_frames.cli", "serve", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as process:
        try:
            url = process.stdout.readline().removeprefix("export RT_FRAMES_URL=").strip()
            with rt.connect(url, api_key="k", default=False) as client:
                rt.to_table(pa.table({"a": [1]}), "warm", client=client)
                before = memory(process.pid, "VmRSS")
                yield client, lambda: memory(process.pid, "VmHWM") - before
        finally:
            process.terminate()


def test_two_gigabytes_pass_through_a_service_that_grows_by_less_than_half_of_one(tmp_path):
    with service(tmp_path) as (client, grown):
        values = np.arange(2**20)
        batches = (pa.record_batch({"a": values + i, "b": values * 0.5}) for i in range(128))
        rt.to_table(batches, "large", client=client)
        most = grown()
    table = lance.dataset(str(tmp_path / "large.lance"))
    assert table.count_rows() == 128 * 2**20
    assert table.take([0, 2**20, 128 * 2**20 - 1], columns=["a"])["a"].to_pylist() == [0, 1, 2**20 + 126]
    assert most < 500e6, f"grew by {most / 1e6:.0f} MB"


def test_one_wide_table_after_another_leaves_nothing_behind(tmp_path):
    columns = {f"c{i}": np.arange(2**17) * (i + 0.5) for i in range(20)}
    with service(tmp_path) as (client, grown):
        for number in range(5):
            batches = (pa.record_batch(columns) for _ in range(20))
            assert rt.to_table(batches, f"t{number}", client=client).rows == 20 * 2**17
        most = grown()
    assert most < 500e6, f"grew by {most / 1e6:.0f} MB"
