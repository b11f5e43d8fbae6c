"""How long a plan takes, by the number of columns; every column changes. Run: ``python tests/benchmarks/plan.py``."""

from __future__ import annotations

import statistics
import time

import pyarrow as pa

from rt_frames._schema.compare import plan

SIZES = (1_000, 10_000, 40_000)
REPEATS = 5


def schema(columns: int, arrow: pa.DataType) -> pa.Schema:
    return pa.schema([(f"column_{i}", arrow) for i in range(columns)])


def milliseconds(columns: int) -> float:
    """Give the median time of one plan, the schemas being there already."""
    before, after = schema(columns, pa.int64()), schema(columns, pa.int32())
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        plan(before, after)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def main() -> None:
    print(f"{'columns':>10}{'median ms':>12}{'us/column':>12}")
    for columns in SIZES:
        taken = milliseconds(columns)
        print(f"{columns:>10,}{taken:>12.1f}{taken * 1000 / columns:>12.2f}")


if __name__ == "__main__":
    main()
