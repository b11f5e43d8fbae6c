"""Ctrl-C at random moments of a write, until its last one.

An interrupt that comes after everything was sent says in a note what became of the
write; without a note, nothing was stored. What it says is compared with what Lance
reads in the end.
"""

from __future__ import annotations

import random
import re
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa

import rt_frames as rt
from tests.support.local import Process

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 50_000
KINDS = ("append", "upsert", "alter", "delete")
# seconds until a service has certainly ended what it received
SETTLED = 0.4
SAID = {
    "done": re.compile(r"; it was carried out(?: \(version (\d+)\))?$"),
    "open": re.compile("; it may still be carried out: check"),
}


class Table:
    """One table, whose newest version tells which call changed it."""

    def __init__(self, client: rt.Client, root: Path) -> None:
        self._client = client
        self._folder = root / "t.lance"
        self._number = 0
        self._take()

    def _take(self) -> None:
        """Begin with a new table."""
        rows = {"key": range(ROWS), "call": [0] * ROWS}
        types = {"key": "int64", "call": "int64"}
        self._client.create_table("t", pa.table(rows), dtypes=types)

    def version(self) -> int:
        return lance.dataset(str(self._folder)).version

    def prepare(self, kind: str) -> tuple[Callable[[], Any], Callable[[], bool]]:
        """Return a call, and a function that tells whether it was carried out."""
        self._number += 1
        number = self._number
        table = self._client.table("t")
        rows = pa.table({"key": range(ROWS), "call": [number] * ROWS})
        if kind != "upsert":
            keys = range(number * ROWS, (number + 1) * ROWS)
            rows = rows.set_column(0, "key", pa.array(keys))
        if kind in ("append", "upsert"):
            options = {"if_exists": kind, "on": "key" if kind == "upsert" else None}
            return (
                lambda: self._client.create_table("t", rows, **options),
                lambda: self._count(f"call = {number}") == ROWS,
            )
        if kind == "alter":
            dtype = "int32" if number % 2 else "int64"
            column = f"c{number}"
            plan = rt.AlterationPlan(added=pa.schema([(column, dtype)]))
            self._client.alter_columns("t", plan)
            return (
                lambda: table.rename({column: f"d{number}"}),
                lambda: f"d{number}" in self._names(),
            )
        self._client.create_table("t", rows, if_exists="append")
        return (
            lambda: table.delete([("call", "==", number)]),
            lambda: self._count(f"call = {number}") == 0,
        )

    def _count(self, where: str) -> int:
        return lance.dataset(str(self._folder)).count_rows(where)

    def _names(self) -> list[str]:
        return lance.dataset(str(self._folder)).schema.names

    def shrink(self) -> None:
        """Begin anew once the table is large."""
        if lance.dataset(str(self._folder)).count_rows() > 20 * ROWS:
            self._client.table("t").drop()
            self._take()


def press(call: Callable[[], Any], delay: float) -> KeyboardInterrupt | None:
    """Make a call, and interrupt it after some seconds if it has not ended."""
    signal.setitimer(signal.ITIMER_REAL, delay)
    try:
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt as interrupt:
        # otherwise it came here, after the call
        if interrupt.__traceback__.tb_next is not None:
            return interrupt
    return None


def read_note(interrupt: KeyboardInterrupt) -> tuple[str, int | None]:
    """Return what the note of an interrupt says, and the version that it names."""
    notes = getattr(interrupt, "__notes__", [])
    assert len(notes) < 2, notes
    for note in notes:
        assert note.startswith("the request to "), note
        for said, pattern in SAID.items():
            match = pattern.search(note)
            if match:
                return said, int(match[1]) if pattern.groups and match[1] else None
    assert not notes, notes
    return "nothing", None


def interrupt_calls(
    client: rt.Client, root: Path, count: int, seed: int
) -> Counter[str]:
    """Interrupt so many calls, in turn of each kind."""
    drawn = random.Random(seed)
    table = Table(client, root)
    takes: dict[str, float] = {}
    found = Counter[str]()
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        call, was_done = table.prepare(kind)
        if kind not in takes:
            start = time.monotonic()
            call()
            takes[kind] = time.monotonic() - start
            call, was_done = table.prepare(kind)
        interrupt = press(call, drawn.uniform(0.1, 1.1) * takes[kind])
        if interrupt is None:
            assert was_done()
            found[f"{kind}: ended"] += 1
            continue
        said, version = read_note(interrupt)
        if said != "done":
            time.sleep(SETTLED)
        done = was_done()
        found[f"{kind}: says {said}, {'done' if done else 'not done'}"] += 1
        if said != "open":
            assert done == (said == "done"), f"{kind}: {said}, but {done}"
        if version is not None:
            assert version == table.version()
        table.shrink()
    return found


def run(count: int, seed: int) -> Counter[str]:
    """Interrupt so many calls on a folder, and as many at a URL."""
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    found = Counter[str]()
    try:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            with rt.connect(root, default=False) as client:
                for what, many in interrupt_calls(client, root, count, seed).items():
                    found[f"folder, {what}"] += many
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            with Process(root) as service:
                url = service.caller.url
                key = service.caller.key
                client = rt.connect(url, api_key=key, dialect="lancedb", default=False)
                for what, many in interrupt_calls(client, root, count, seed).items():
                    found[f"URL, {what}"] += many
                client.close()
    finally:
        signal.signal(signal.SIGALRM, handler)
    return found
