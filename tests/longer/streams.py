"""Mutated Arrow streams against the embedded service: it lives, its memory stays, every listed table can be read.

Run: ``python -m tests.longer.streams [--streams 10000] [--seed N]``.
"""

from __future__ import annotations

import argparse
import collections
import random
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.support.local import Process, logged, stream

GROWTH = 600 * 2**20  # bytes


def corpus() -> list[bytes]:
    """Make valid streams of many layouts."""
    rows = 50
    tables = [
        pa.table({"a": np.arange(rows), "f": np.random.default_rng(1).random(rows), "b": [True, None] * (rows // 2)}),
        pa.table({"s": [f"text {i}" for i in range(rows)], "l": [[i, None] for i in range(rows)]}),
        pa.table({"c": pa.array(["x", "y"] * (rows // 2)).dictionary_encode()}),
        pa.table({"st": [{"x": i, "y": [str(i)]} for i in range(rows)]}),
        pa.table(
            {"v": pa.array([[1.0, 2.0]] * rows, pa.list_(pa.float32(), 2)), "d": pa.array([1] * rows).cast("date64")}
        ),
        pa.table(
            {
                "n": pa.array([1] * rows).cast(pa.decimal128(30, 2)),
                "m": pa.array([[("k", 1)]] * rows, pa.map_("string", "int8")),
            }
        ),
    ]
    return [stream(table, compression=codec, rows=20) for table in tables for codec in (None, "lz4", "zstd")]


def mutated(whole: bytes, random_: random.Random) -> bytes:
    """Overwrite single bytes, or flip, cut, repeat, insert or drop something once to four times."""
    data = bytearray(whole)
    if random_.random() < 0.5:
        for _ in range(random_.choice((1, 1, 2, 8))):
            data[random_.randrange(len(data))] = random_.choice((0, 1, 127, 128, 255, random_.randrange(256)))
        return bytes(data)
    for _ in range(random_.randint(1, 4)):
        at = random_.randrange(len(data))
        end = min(len(data), at + random_.randint(1, 64))
        change = random_.choice(["flip", "number", "cut", "repeat", "insert", "drop"])
        if change == "flip":
            data[at] ^= 1 << random_.randrange(8)
        elif change == "number":
            data[at : at + 4] = random_.choice([b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff" * 4, bytes(4)])
        elif change == "cut":
            del data[at:]
        elif change == "repeat":
            data[at:at] = data[at:end]
        elif change == "insert":
            data[at:at] = random_.randbytes(random_.randint(1, 16))
        else:
            del data[at:end]
        if not data:
            return b""
    return bytes(data)


def run(streams: int, seed: int) -> collections.Counter[int]:
    """Send them all, and look at everything that was taken."""
    random_ = random.Random(seed)
    answers: collections.Counter[int] = collections.Counter()
    seeds = corpus()
    with tempfile.TemporaryDirectory() as folder, logged(), Process(Path(folder)) as service:
        for whole in seeds:  # warm
            service.caller.create(f"w{len(whole)}", whole)
        before = service.memory()
        for i in range(streams):
            answer = service.caller.create(f"t{i}", mutated(random_.choice(seeds), random_))
            answers[answer.status_code] += 1
            assert service.alive, f"stream {i} killed the service"
            assert answer.status_code in (200, 400), (i, answer.status_code, answer.text)
        grown = service.memory("VmHWM") - before
        assert grown < GROWTH, f"memory grew by {grown / 2**20:.0f} MiB"
        for table in service.tables().values():
            table.to_table().validate(full=True)
        assert service.caller.staged() == []
    return answers


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    print(dict(run(options.streams, options.seed)))


if __name__ == "__main__":
    main()
