"""Fifteen small writes in a row, through TLS and a round trip of 50 ms.

Run: ``python -m tests.benchmarks.small_writes``. Each loop has connections of its own; ``requests.Session`` sends bytes
that are already there, on one connection.
"""

from __future__ import annotations

import json

import polars as pl
import requests

import rt_frames as rt
from tests.benchmarks._frames import alternating, stream_of
from tests.benchmarks._sinks import sink
from tests.benchmarks.link import Link, linked
from tests.benchmarks.links import certificate
from tests.benchmarks.upload import HEADERS

WRITES, ROUND_TRIP = 15, 0.05
FRAME = pl.DataFrame({"n": range(10), "word": [f"w{i}" for i in range(10)], "x": [i / 3 for i in range(10)]})
CHANGE = {"alterations": [{"path": "n", "rename": "m"}]}


def main() -> None:
    link, body, change = Link(1250e6, ROUND_TRIP, 1e6), stream_of(FRAME), json.dumps(CHANGE).encode()
    with certificate("127.0.0.1") as paths, sink(certificate=paths["server"]) as inner, linked(inner, link) as port:
        url, verify = f"https://127.0.0.1:{port}", str(paths["ca"])

        def ours(kind: str) -> None:
            with rt.connect(url, api_key="k", verify=verify, default=False) as client:
                for number in range(WRITES):
                    if kind == "creates":
                        client.create_table(f"t{number}", FRAME, progress=False)
                    else:
                        client.table("t").rename({"n": "m"})

        def theirs(kind: str) -> None:
            path, data = ("/v1/tables/t", body) if kind == "creates" else ("/v1/table/t/alter_columns", change)
            with requests.Session() as session:
                for _ in range(WRITES):
                    session.post(url + path, data=data, headers=HEADERS, verify=verify).raise_for_status()

        for kind in ("creates", "alters"):
            ways = {"ours": lambda kind=kind: ours(kind), "theirs": lambda kind=kind: theirs(kind)}
            medians = alternating(ways, 5)
            us, them = medians["ours"], medians["theirs"]
            print(f"{WRITES} {kind:<8}{us:>7.3f} s, requests.Session {them:.3f} s: {us / them:.2f} times as long")


if __name__ == "__main__":
    main()
