"""Many clients at once, each creating, listing and altering tables of its own: no error, every value right."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

import rt_frames as rt
from tests.support.local import Process, logged
from tests.support.servers import KEY

ROWS = 1000


def live(url: str, client_number: int, until: float) -> dict[str, int]:
    """Create, list and alter until the time is over; give the tables, and what is in them."""
    made: dict[str, int] = {}
    with rt.connect(url, api_key=KEY, default=False) as client:
        while time.monotonic() < until or not made:
            number, name = len(made), f"c{client_number}_{len(made)}"
            table = client.create_table(name, pa.table({"n": np.arange(ROWS) + number, "s": [name] * ROWS}))
            assert (table.version, table.rows) == (1, ROWS)
            assert name in client.list_tables()
            assert table.rename({"n": "number"}).cast({"number": "int32"}).version == 3
            made[name] = number
    return made


def run(seconds: int, seed: int, clients: int = 64) -> Counter[str]:
    """Let them all live, then read everything back."""
    with tempfile.TemporaryDirectory() as folder, logged(), Process(Path(folder)) as service:
        until = time.monotonic() + seconds
        with ThreadPoolExecutor(clients) as pool:
            lives = [pool.submit(live, service.caller.url, number, until) for number in range(clients)]
        made = {name: number for one in lives for name, number in one.result().items()}
        tables = service.tables()
        assert tables.keys() == made.keys()
        for name, dataset in tables.items():
            found = dataset.to_table()
            assert np.array_equal(found["number"].to_numpy(), np.arange(ROWS) + made[name]), name
            assert found["s"].to_pylist() == [name] * ROWS
    return Counter(tables=len(made))
