"""Tables much larger than the memory that they may take go through the embedded service."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.support.compare import lance
from tests.support.local import Process


@pytest.fixture
def service(tmp_path):
    """A service in a process of its own, of which ``grown()`` tells by how many bytes it ever grew."""
    with Process(tmp_path) as running:
        rt.to_table(pa.table({"a": [1]}), "warm", client=running.client)
        before = running.memory()
        running.grown = lambda: running.memory("VmHWM") - before
        yield running


@pytest.mark.long  # the plain command has 800 MB, in local/test_service.py
def test_two_gigabytes_pass_through_a_service_that_grows_by_less_than_half_of_one(service):
    values = np.arange(2**20)
    batches = (pa.record_batch({"a": values + i, "b": values * 0.5}) for i in range(128))
    rt.to_table(batches, "large", client=service.client)
    most = service.grown()
    table = lance.dataset(str(service.root / "large.lance"))
    assert table.count_rows() == 128 * 2**20
    assert table.take([0, 2**20, 128 * 2**20 - 1], columns=["a"])["a"].to_pylist() == [0, 1, 2**20 + 126]
    assert most < 500e6, f"grew by {most / 1e6:.0f} MB"


@pytest.mark.parametrize(("batches", "limit"), [(4, 300e6), pytest.param(20, 500e6, marks=pytest.mark.long)])
def test_one_wide_table_after_another_leaves_nothing_behind(service, batches, limit):
    columns = {f"c{i}": np.arange(2**17) * (i + 0.5) for i in range(20)}
    for number in range(5):
        parts = (pa.record_batch(columns) for _ in range(batches))
        assert rt.to_table(parts, f"t{number}", client=service.client).rows == batches * 2**17
    most = service.grown()
    assert most < limit, f"grew by {most / 1e6:.0f} MB"
