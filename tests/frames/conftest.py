from __future__ import annotations

import pyarrow as pa
import pytest


@pytest.fixture
def four_cores():
    """Arrow counts four cores, whatever the machine has."""
    cores = pa.cpu_count()
    pa.set_cpu_count(4)
    yield
    pa.set_cpu_count(cores)
