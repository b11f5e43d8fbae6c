"""Clients and services killed at random moments: no table is ever listed in part, and old versions stay.

Run: ``python -m tests.longer.kills [--kills 200] [--seed N]``.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import random
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import rt_frames as rt
from tests.support.local import Process, logged
from tests.support.servers import KEY

ROWS = 400_000


def table(number: int) -> pa.Table:
    """Make a table that says itself whether it is whole."""
    return pa.table({"n": np.arange(ROWS) + number, "half": (np.arange(ROWS) + number) / 2})


def work(url: str, number: int, start: object) -> None:
    """Create a table and alter it twice, until killed."""
    client = rt.connect(url, api_key=KEY, default=False, retries=0)
    start.set()
    try:
        made = client.create_table(f"t{number}", table(number))
        made.rename({"half": "halves"}).cast({"n": "int32"})
    except rt.errors.RemoteError:
        pass


def check(service: Process, numbers: range) -> collections.Counter[str]:
    """Read tables back, where they are listed: each must be in one of the three states that it may be in."""
    states: collections.Counter[str] = collections.Counter()
    for name, dataset in service.tables().items():
        number = int(name[1:])
        if number not in numbers:
            continue
        found = dataset.to_table()
        names = found.schema.names
        assert names in (["n", "half"], ["n", "halves"]), names
        assert found.schema.field("n").type in (pa.int64(), pa.int32())
        assert np.array_equal(found["n"].to_numpy(), np.arange(ROWS) + number), name
        assert np.array_equal(found[names[1]].to_numpy(), (np.arange(ROWS) + number) / 2), name
        assert np.array_equal(dataset.checkout_version(1).to_table()["n"].to_numpy(), np.arange(ROWS) + number)
        states["-".join([names[1], str(found.schema.field("n").type)])] += 1
    return states


def run(kills: int, seed: int) -> collections.Counter[str]:
    """Kill a client or the service, look at what is left, and go on."""
    random_ = random.Random(seed)
    counts: collections.Counter[str] = collections.Counter()
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, logged():
        for number in range(kills):
            with Process(Path(folder)) as service:
                start = processes.Event()
                client = processes.Process(target=work, args=(service.caller.url, number, start))
                client.start()
                start.wait(30)
                time.sleep(random_.uniform(0, 0.25))
                victim = random_.choice(["client", "service"])
                (client if victim == "client" else service).kill()
                client.join(30)
                counts[victim] += 1
            with Process(Path(folder)) as again:
                check(again, range(number, number + 1))
                assert [p for p in (Path(folder) / ".rt_frames-staging").iterdir() if p.suffix != ".lock"] == []
        with Process(Path(folder)) as last:
            counts.update(check(last, range(kills)))
    return counts


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    print(dict(run(options.kills, options.seed)))


if __name__ == "__main__":
    main()
