"""What is small or local: ten rows, the import, the embedded service. Run: ``python -m tests.benchmarks.small``."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
import requests

import rt_frames as rt
from rt_frames.local import LocalService
from tests.benchmarks._frames import alternating, numeric, show, stream_of
from tests.benchmarks._sinks import sink
from tests.benchmarks.upload import NBYTES, post


def ten_rows() -> None:
    frame = pl.DataFrame({"n": range(10), "word": [f"w{i}" for i in range(10)], "x": [i / 3 for i in range(10)]})
    body = stream_of(frame)
    with sink() as port, rt.connect(f"http://127.0.0.1:{port}", api_key="k", default=False) as client:
        ways = {"rt_frames": lambda: client.create_table("t", frame), "requests.post": lambda: post(client.url, body)}
        with requests.Session() as session:
            pooled = lambda: session.post(f"{client.url}/v1/tables/t", data=body).raise_for_status()  # noqa: E731
            medians = alternating({**ways, "one requests.Session": pooled}, 200)
    for name, seconds in medians.items():
        print(f"ten rows              {name:<28}{seconds * 1000:>10.2f} ms")


def imports() -> None:
    with tempfile.TemporaryDirectory() as compiled:  # as it is after an installation, whatever the environment says
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = compiled

        def python(code: str) -> None:
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)

        medians = alternating({"pass": lambda: python("pass"), "ours": lambda: python("import rt_frames")}, 25)
    above = (medians["ours"] - medians["pass"]) * 1000
    print(f"import rt_frames      {'above python -c pass':<28}{above:>10.2f} ms")


def embedded() -> None:
    import lance

    table, numbers = numeric(NBYTES), itertools.count()
    with tempfile.TemporaryDirectory() as folder, LocalService(folder) as service:
        by_folder = rt.connect(Path(folder), default=False)
        by_url = rt.connect(service.url, api_key=service.api_key, default=False)

        def create(client: rt.Client) -> None:
            name = f"t{next(numbers)}"
            client.create_table(name, table, progress=False)
            shutil.rmtree(Path(folder) / f"{name}.lance")

        def in_process() -> None:
            path = Path(folder) / "in_process.lance"
            lance.write_dataset(table, str(path))
            shutil.rmtree(path)

        ways = {
            "a folder": lambda: create(by_folder),
            "a URL of this machine": lambda: create(by_url),
            "lance.write_dataset": in_process,
        }
        for measured, clock in {"": time.perf_counter, " (CPU)": time.process_time}.items():
            medians = alternating(ways, 9, clock)
            show(f"embedded{measured}", medians, table.nbytes, "lance.write_dataset")


if __name__ == "__main__":
    ten_rows()
    imports()
    embedded()
