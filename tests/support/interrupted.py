"""What a program does while it is interrupted: calls of a service, and of a folder.

A test starts it by ``python -c``, which ends by Ctrl-C as a script does.
"""

from __future__ import annotations

import collections
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import lance
import numpy as np
import polars as pl
import pyarrow as pa

import rt_frames as rt
from tests.support.servers import KEY

SCHEMA = pa.schema([("a", pa.int64())])
WIDER = SCHEMA.append(pa.field("b", pa.int8()))
RANDOM = np.random.default_rng(0).integers(2**62, size=2**17)
BATCH = pa.record_batch([RANDOM], SCHEMA)
TRACED = ("rt_frames", "requests", "urllib3", "queue", "threading", "contextlib")


class Calls:
    """Calls by name, of a service at a URL."""

    def __init__(self, url: str, verify: Any, seconds: float) -> None:
        options: dict[str, Any] = {"api_key": KEY, "verify": verify, "default": False}
        client = rt.connect(url, **options)
        changing = rt.connect(url, dialect="lancedb", **options)
        self.client = client
        self.changing = changing
        self.seconds = seconds
        self.over = threading.Event()
        self.by_name: dict[str, Callable[[], object]] = {
            "list": client.list_tables,
            "alter": lambda: client.table("t").rename({"a": "b"}),
            "small": lambda: client.create_table("t", BATCH),
            "large": lambda: client.create_table(
                "t", pa.table({"a": np.arange(2**23)})
            ),
            "text": lambda: client.create_table("t", text()),
            "reader": lambda: client.create_table("t", self.reader()),
            "compressed": self.compressed,
            "generator": lambda: client.create_table("t", self.slow()),
            "upsert": lambda: self.upsert(pa.table({"a": np.arange(2**21)})),
            "reading upsert": lambda: self.upsert(self.slow_keys()),
            "add": lambda: self.alter(SCHEMA, WIDER, add_columns=True),
            "drop": lambda: self.alter(WIDER, SCHEMA, drop_columns=["b"]),
            "delete": lambda: changing.table("t").delete(pl.col("a") > 1),
            "restore": lambda: changing.table("t", version=1).restore(),
        }

    def slow(self) -> Iterator[pa.RecordBatch]:
        yield from [BATCH] * 4  # the first leaves once some more are read
        self.over.wait(self.seconds)
        yield BATCH

    def slow_keys(self) -> Iterator[pa.RecordBatch]:
        for n in range(0, 2**19, 2**17):
            yield pa.record_batch([np.arange(n, n + 2**17)], SCHEMA)
        self.over.wait(self.seconds)
        yield BATCH

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(SCHEMA, self.slow())

    def compressed(self) -> None:
        self.client.create_table("t", self.reader(), compression="zstd")

    def upsert(self, data: Any) -> None:
        options: dict[str, Any] = {"if_exists": "upsert", "on": "a"}
        self.changing.create_table("t", data, compression=None, **options)

    def alter(self, before: pa.Schema, after: pa.Schema, **choices: Any) -> None:
        plan = rt.plan_alterations(before, after, **choices)
        self.changing.alter_columns("t", plan)

    def in_turn(self) -> None:
        """Make the calls that are named in turn, and tell how each ended."""
        try:
            for name in map(str.strip, sys.stdin):
                try:
                    self.by_name[name]()
                except KeyboardInterrupt as interrupt:
                    tell("interrupted", *getattr(interrupt, "__notes__", []))
                tell(self.client.list_tables())
        finally:
            self.over.set()

    def everywhere(self) -> None:
        """Interrupt a list at every so many steps, until it has no more."""
        step = at = int(sys.stdin.readline())
        while not interrupted(self.client.list_tables, at)[1]:
            self.client.list_tables()
            at += step
        self.client.list_tables()
        tell(at)

    def on_a_daemon_thread(self) -> None:
        """Upload on such a thread, until there is something to read."""
        threading.Thread(target=self.compressed, daemon=True).start()
        sys.stdin.readline()


def text() -> pl.DataFrame:
    rows = pl.select(n=pl.int_range(2**22))
    return rows.select(text=pl.format("a text of row {}", pl.col("n")))


def tell(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201  # to the test


def interrupted(
    call: Callable[[], object], at: int
) -> tuple[KeyboardInterrupt | None, bool]:
    """Interrupt a call at a step; return the interrupt, and whether it has fewer."""
    here = sys._getframe()
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_globals.get("__name__", "").split(".")[0] in TRACED:
            # once the call has returned, it has no step more
            has_returned = event == "return" and frame.f_back is here
            count += event in ("call", "return") and not has_returned
            if count == at:
                sys.settrace(None)
                raise KeyboardInterrupt
        frame.f_trace_lines = False
        return trace

    try:
        sys.settrace(trace)
        call()
        sys.settrace(None)
    except KeyboardInterrupt as interrupt:
        return interrupt, False
    return None, count < at


class Folder:
    """A folder with a table, which is changed again and again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.client = rt.connect(path, default=False)

    def version(self) -> int | None:
        if "t" not in self.client.list_tables():
            return None
        return lance.dataset(f"{self.path}/t.lance").version

    def change(self, kind: str) -> Callable[[], object]:
        """Make the table if it is gone; return a change of it."""
        if self.version() is None:
            self.client.create_table("t", pa.table({"n": [1]}))
        table = self.client.table("t")
        old, new = ("n", "m") if "n" in table.columns else ("m", "n")
        rows = pa.table({old: [1]})
        create = self.client.create_table
        return {
            "append": functools.partial(create, "t", rows, if_exists="append"),
            "delete": functools.partial(table.delete, [(old, "==", 1)]),
            "rename": functools.partial(table.rename, {old: new}),
            "drop": table.drop,
        }[kind]

    def everywhere(self, kind: str, step: int) -> None:
        """Interrupt changes at every so many steps; tell whether notes were true."""
        at = step
        found: collections.Counter[tuple[bool, bool]] = collections.Counter()
        while True:
            call = self.change(kind)
            before = self.version()
            interrupt, is_over = interrupted(call, at)
            if is_over:
                break
            at += step
            # Python ignores an interrupt where it collects something
            if interrupt is not None:
                notes = getattr(interrupt, "__notes__", [])
                said = "; it was carried out" in "".join(notes)
                found[said, self.version() != before] += 1
        tell(at // step, sorted(found))
