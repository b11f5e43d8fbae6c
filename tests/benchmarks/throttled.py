"""Links of several speeds: codecs, ``"auto"``, the official client. Run: ``python -m tests.benchmarks.throttled``.

The last column says how many times faster ``"auto"`` is than that way.
"""

from __future__ import annotations

import sys

import rt_frames as rt
from tests.benchmarks._frames import alternating, numeric, show
from tests.benchmarks._sinks import sink
from tests.benchmarks.upload import official

NBYTES = 208 * 10**6
RATES = (12.5e6, 125e6, 500e6, 1250e6)


def compare(rate: float, repeats: int) -> None:
    table = numeric(NBYTES)
    with sink(rate=rate) as port, rt.connect(f"http://127.0.0.1:{port}", api_key="k", default=False) as client:
        client._fast = False  # a throttled sink is no loopback
        create = official(client.url)
        ways = {
            str(codec): lambda codec=codec: client.create_table("t", table, compression=codec, progress=False)
            for codec in ("auto", None, "lz4", "zstd")
        }
        found = alternating({**ways, "official client": lambda: create(table)}, repeats)
        show(f"{rate / 1e6:g} MB/s", found, table.nbytes, ours="auto")


def main(rates: list[float]) -> None:
    for rate in rates:
        compare(rate, repeats=1 if rate < 50e6 else 5)


if __name__ == "__main__":
    main([float(rate) * 1e6 for rate in sys.argv[1:]] or list(RATES))
