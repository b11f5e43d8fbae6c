"""Writes a table of secrets again and again, until it is killed.

``python -m tests.support.killed FOLDER WRITE``
"""

from __future__ import annotations

import itertools
import sys

import polars as pl

import rt_frames as rt

SECRET = "4e07408562bedb8b60ce05c1decfe3ad"
SECRETS = pl.DataFrame({"id": range(10_000), "ssn": [SECRET] * 10_000})


def append(client: rt.Client, _number: int) -> None:
    client.create_table("t", SECRETS, if_exists="append")


def upsert(client: rt.Client, _number: int) -> None:
    client.create_table("t", SECRETS, if_exists="upsert", on="id")


def cast(client: rt.Client, number: int) -> None:
    client.table("t").cast({"ssn": ("string", "large_string")[number % 2]})


def compact(client: rt.Client, _number: int) -> None:
    client.table("t").compact(purge=True)


def replace(client: rt.Client, _number: int) -> None:
    client.create_table("t", SECRETS, if_exists="replace")


WRITES = {write.__name__: write for write in (append, upsert, cast, compact, replace)}

if __name__ == "__main__":
    client = rt.connect(sys.argv[1], default=False)
    client.table("t").count()
    print("ready", flush=True)  # noqa: T201  # the parent waits for it
    for number in itertools.count():
        WRITES[sys.argv[2]](client, number)
