"""CSV against Parquet, from the console script to the embedded service. Run: ``python -m tests.benchmarks.csv``."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from tests.benchmarks._frames import WORDS, alternating

ROWS = 6_000_000


def trips(rows: int) -> pl.DataFrame:
    """Whole numbers, floats, times, few words and many, and flags, as exports of shops and cabs have them."""
    rng = np.random.default_rng(1)
    seconds = rng.integers(0, 10**8, rows).astype("timedelta64[s]")
    return pl.DataFrame(
        {
            "id": np.arange(rows),
            "customer": pl.Series(rng.integers(0, 10**6, rows)).cast(pl.String) + "@example.com",
            "place": WORDS[rng.integers(0, len(WORDS), rows)],
            "fare": rng.random(rows) * 100,
            "at": np.datetime64("2020-01-01T00:00:00", "us") + seconds,
            "paid": rng.random(rows) < 0.5,
        }
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        frame = trips(ROWS)
        frame.write_csv(root / "trips.csv", datetime_format="%Y-%m-%d %H:%M:%S")
        frame.write_parquet(root / "trips.parquet")
        del frame

        def create(suffix: str) -> None:
            command = ["create", "trips", str(root / f"trips.{suffix}"), "--url", str(root / "tables"), "-q"]
            subprocess.run([sys.executable, "-m", "rt_frames.cli", *command], check=True)
            shutil.rmtree(root / "tables")

        medians = alternating({name: lambda name=name: create(name) for name in ("csv", "parquet")}, 5)
        for name, seconds in medians.items():
            size = (root / f"trips.{name}").stat().st_size / 1e6
            print(f"{name:<10}{size:>6.0f} MB{seconds:>8.2f} s")
        print(f"CSV takes {medians['csv'] / medians['parquet']:.1f} times as long")


if __name__ == "__main__":
    main()
