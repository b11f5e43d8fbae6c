"""Ten rows, fifteen writes in a row, and the import.

Run ``python -m tests.benchmarks.small``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import requests
import trustme

import rt_frames as rt
from tests.benchmarks._frames import alternating, stream_of
from tests.benchmarks._sinks import sink
from tests.benchmarks.link import Link, linked
from tests.benchmarks.upload import HEADERS, post

FRAME = pl.DataFrame(
    {
        "n": range(10),
        "word": [f"w{i}" for i in range(10)],
        "x": [i / 3 for i in range(10)],
    }
)
CHANGE = b'{"alterations": [{"path": "n", "rename": "m"}]}'
WRITES = 15
ROUND_TRIP = 0.05


def ten_rows() -> None:
    body = stream_of(FRAME)
    with (
        sink() as port,
        rt.connect(f"http://127.0.0.1:{port}", api_key="k", default=False) as client,
    ):
        ways = {
            "rt_frames": lambda: client.create_table("t", FRAME),
            "requests.post": lambda: post(client.url, body),
        }
        with requests.Session() as session:

            def pooled() -> None:
                session.post(f"{client.url}/v1/tables/t", data=body).raise_for_status()

            medians = alternating({**ways, "one requests.Session": pooled}, 200)
    for name, seconds in medians.items():
        print(f"ten rows              {name:<28}{seconds * 1000:>10.2f} ms")


def writes_in_a_row() -> None:
    """Write through TLS with a round trip; the session sends prepared bytes."""
    authority = trustme.CA()
    body = stream_of(FRAME)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        authority.cert_pem.write_to_path(folder / "ca.pem")
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
            folder / "server.pem"
        )
        port = stack.enter_context(sink("http", folder / "server.pem"))
        port = stack.enter_context(linked(port, Link(1250e6, ROUND_TRIP, 1e6)))
        url = f"https://127.0.0.1:{port}"
        verify = str(folder / "ca.pem")

        def ours(write: Callable[[rt.Client], object]) -> None:
            with rt.connect(url, api_key="k", verify=verify, default=False) as client:
                for _ in range(WRITES):
                    write(client)

        def theirs(path: str, data: bytes) -> None:
            with requests.Session() as session:
                for _ in range(WRITES):
                    session.post(
                        url + path, data=data, headers=HEADERS, verify=verify
                    ).raise_for_status()

        medians = alternating(
            {
                "creates": lambda: ours(
                    lambda client: client.create_table("t", FRAME, progress=False)
                ),
                "creates by hand": lambda: theirs("/v1/tables/t", body),
                "alters": lambda: ours(
                    lambda client: client.table("t").rename({"n": "m"})
                ),
                "alters by hand": lambda: theirs("/v1/table/t/alter_columns", CHANGE),
            }
        )
    for kind in ("creates", "alters"):
        us = medians[kind]
        them = medians[f"{kind} by hand"]
        taken = f"{us:>7.3f} s, requests.Session {them:.3f} s"
        print(f"{WRITES} {kind:<8}{taken}: {us / them:.2f} times as long")


def imports() -> None:
    # as it is after an installation, whatever the environment says
    with tempfile.TemporaryDirectory() as compiled:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name != "PYTHONDONTWRITEBYTECODE"
        }
        environment["PYTHONPYCACHEPREFIX"] = compiled

        def python(code: str) -> None:
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)

        medians = alternating(
            {
                "pass": lambda: python("pass"),
                "ours": lambda: python("import rt_frames"),
            },
            25,
        )
    above = (medians["ours"] - medians["pass"]) * 1000
    print(f"import rt_frames      {'above python -c pass':<28}{above:>10.2f} ms")


if __name__ == "__main__":
    ten_rows()
    writes_in_a_row()
    imports()
