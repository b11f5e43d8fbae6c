"""A table much larger than the memory it may take goes through the embedded service."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import rt_frames as rt
from tests.compare import lance


def memory(pid: int, what: str) -> int:
    return int(re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def test_two_gigabytes_pass_through_a_service_that_grows_by_less_than_half_of_one(tmp_path):
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("RT_FRAMES")}, "RT_FRAMES_API_KEY": "k"}
    command = [sys.executable, "-m", "rt_frames.cli", "serve", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as service:
        try:
            client = rt.connect(service.stdout.readline().removeprefix("export RT_FRAMES_URL=").strip(), api_key="k")
            rt.to_table(pa.table({"a": [1]}), "warm", client=client)
            before = memory(service.pid, "VmRSS")
            values = np.arange(2**20)
            batches = (pa.record_batch({"a": values + i, "b": values * 0.5}) for i in range(128))
            rt.to_table(batches, "large", client=client)
            grown = memory(service.pid, "VmHWM") - before
        finally:
            service.terminate()
    table = lance.dataset(str(tmp_path / "large.lance"))
    assert table.count_rows() == 128 * 2**20
    assert table.take([0, 2**20, 128 * 2**20 - 1], columns=["a"])["a"].to_pylist() == [0, 1, 2**20 + 126]
    assert grown < 500e6, f"grew by {grown / 1e6:.0f} MB"
