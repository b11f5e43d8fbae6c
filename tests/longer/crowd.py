"""Many clients at once, each creating, listing and altering tables of its own: no error, every value right.

Run: ``python -m tests.longer.crowd [--clients 64] [--seconds 60]``.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import rt_frames as rt
from tests.support.local import Process, logged
from tests.support.servers import KEY

ROWS = 1000


def live(url: str, number: int, until: float, done: dict[str, int]) -> None:
    """Create, list and alter until the time is over; what is wrong raises."""
    with rt.connect(url, api_key=KEY, default=False) as client:
        made = 0
        while time.monotonic() < until or not made:
            name = f"c{number}_{made}"
            table = client.create_table(name, pa.table({"n": np.arange(ROWS) + made, "s": [name] * ROWS}))
            assert (table.version, table.rows) == (1, ROWS)
            assert name in client.list_tables()
            assert table.rename({"n": "number"}).cast({"number": "int32"}).version == 3
            made += 1
            done[name] = made - 1


def run(clients: int, seconds: float) -> int:
    """Let them all live, then read everything back."""
    done: dict[str, int] = {}
    errors: list[BaseException] = []

    def guarded(number: int, url: str, until: float) -> None:
        try:
            live(url, number, until, done)
        except BaseException as error:  # noqa: BLE001  # told below, with all others
            errors.append(error)

    with tempfile.TemporaryDirectory() as folder, logged(), Process(Path(folder)) as service:
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=guarded, args=(i, service.caller.url, until)) for i in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        tables = service.tables()
        assert sorted(tables) == sorted(done)
        for name, dataset in tables.items():
            found = dataset.to_table()
            assert np.array_equal(found["number"].to_numpy(), np.arange(ROWS) + done[name]), name
            assert found["s"].to_pylist() == [name] * ROWS
    return len(done)


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    print(f"{run(options.clients, options.seconds)} tables, every value right")


if __name__ == "__main__":
    main()
