"""The worst 100 kB that a client can be sent, and what they cost.

Every response goes to a client in a process of its own. Nothing ends it, and it stays
within memory and processor time.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rt_frames as rt
from tests.support import local
from tests.support.faults import connected
from tests.support.local import stream
from tests.support.processes import memory, reset_peak
from tests.support.servers import Server

SIZE = 100_000  # bytes
# above what a process holds before: everything but a batch, and a batch
MEGABYTES = 300
BATCH_MEGABYTES = 1300
# of the processor: everything but a batch, and a batch
SECONDS = 1.0
BATCH_SECONDS = 9.0
TABLE = pa.table({"n": [1, 2], "s": ["a", "b"]})


def zstd(columns: dict[str, Any]) -> bytes:
    return stream(pa.table(columns), compression="zstd")


def lent(buffer: bytes, arrow: pa.DataType, rows: int) -> pa.Array:
    return pa.Array.from_buffers(arrow, rows, [None, pa.py_buffer(buffer)])


def category(rows: int, value: str) -> pa.Array:
    codes = pa.array(np.zeros(rows, np.int8))
    return pa.DictionaryArray.from_arrays(codes, [value])


def nested(levels: int) -> pa.DataType:
    return functools.reduce(lambda inner, _: pa.list_(inner), range(levels), pa.int8())


def views(rows: int) -> pa.Array:
    """Return views that all show one text of 64 kB."""
    text = b"x" * 2**16
    view = struct.pack("<i4sii", len(text), text[:4], 0, 0)
    buffers = [None, pa.py_buffer(view * rows), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string_view(), rows, buffers)


def list_views(rows: int) -> pa.Array:
    offsets = pa.array(np.zeros(rows, np.int32))
    sizes = pa.array(np.full(rows, 2**16, np.int32))
    values = pa.array(np.zeros(2**16, np.int64))
    return pa.ListViewArray.from_arrays(offsets, sizes, values)


def runs(rows: int) -> pa.Array:
    ends = pa.array([rows], pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, pa.array(["x" * 1000]))


def columns(number: int) -> dict[str, Any]:
    return {f"c{index}": pa.array([1], pa.int8()) for index in range(number)}


def many_batches() -> bytes:
    return stream(pa.table({"n": np.arange(300)}), rows=1)


# name → a stream, and whether it is a batch of about 1 GiB
STREAMS: dict[str, tuple[Callable[[], bytes], bool]] = {
    "zeros": (lambda: zstd({"n": np.zeros(2**27 - 2**20, np.int64)}), True),
    "small zeros": (lambda: zstd({"n": np.zeros(2**30 - 2**20, np.int8)}), True),
    "false": (lambda: zstd({"n": lent(bytes(2**28), pa.bool_(), 2**31 - 8)}), True),
    "nothing": (lambda: zstd({"n": pa.nulls(2**24)}), False),
    "nulls": (lambda: zstd({"n": pa.nulls(2**26, pa.int64())}), True),
    "too many zeros": (
        lambda: zstd({f"c{i}": np.zeros(2**24, np.int64) for i in range(9)}),
        False,
    ),
    # Lance 14 takes four times the size of such a cell to store it, seven to merge it
    "a long text": (lambda: zstd({"n": ["x" * 10**8]}), True),
    "empty texts": (
        lambda: zstd({"n": pa.array([""]).take(np.zeros(2**26, int))}),
        True,
    ),
    "a shared text": (lambda: zstd({"n": category(2**20, "x" * 2**20)}), False),
    "a key and a text": (
        lambda: zstd({"n": np.arange(20_000), "s": category(20_000, "x" * 2**20)}),
        False,
    ),
    "many categories": (
        lambda: zstd({f"c{i}": category(1, "x" * 2**24) for i in range(40)}),
        True,
    ),
    "views": (lambda: zstd({"n": views(2**20)}), False),
    "list views": (lambda: zstd({"n": list_views(2**20)}), False),
    "runs": (lambda: zstd({"n": runs(2**31 - 1)}), False),
    "a vector": (lambda: zstd({"n": pa.nulls(1, pa.list_(pa.int8(), 2**24))}), False),
    "no vectors": (
        lambda: zstd({"n": pa.nulls(0, pa.list_(pa.int8(), 2**31 - 1))}),
        False,
    ),
    "empty lists": (lambda: zstd({"n": pa.nulls(2**20, nested(20))}), False),
    "depth": (lambda: zstd({"n": pa.nulls(1, nested(58))}), False),
    "columns": (lambda: zstd(columns(600)), False),
    "batches": (many_batches, False),
    "a long name": (lambda: zstd({"n" * SIZE: [1]}), False),
    "a long zone": (
        lambda: zstd({"n": pa.nulls(1, pa.timestamp("s", "Z" * SIZE))}),
        False,
    ),
}


def deep(levels: int) -> str:
    """Return the JSON of a type of nested lists."""
    start = '{"type": "list", "fields": [{"name": "item", "nullable": true, "type": '
    return start * levels + '{"type": "int8"}' + "}]}" * levels


def seconds_of(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Meter:
    """Measures requests to a process, above what it holds before: Lance has caches.

    Attributes
    ----------
    excess : dict
        What took too much, and how much that was.
    """

    def __init__(self, pid: int) -> None:
        self.excess: dict[str, str] = {}
        self._pid = pid

    @contextlib.contextmanager
    def measured(self, what: str, *, batch: bool) -> Iterator[None]:
        """Measure a block, in which there may be one large batch."""
        reset_peak(self._pid)
        before = memory("VmRSS", self._pid)
        seconds = seconds_of(self._pid)
        yield
        seconds = seconds_of(self._pid) - seconds
        megabytes = (memory("VmHWM", self._pid) - before) // 2**20
        shown = f"{megabytes} MB, {seconds:.1f} s"
        print(f"{what}: {shown}", flush=True)
        max_megabytes = MEGABYTES
        max_seconds = SECONDS
        if batch:
            max_megabytes += BATCH_MEGABYTES
            max_seconds += BATCH_SECONDS
        if megabytes > max_megabytes or seconds > max_seconds:
            self.excess[what] = shown


# calls of a client, and the responses in JSON that are the worst for each
CALLS: dict[str, Callable[[rt.Client], Any]] = {
    "list": lambda client: client.list_tables(),
    "count": lambda client: client.table("t").count(),
    "describe": lambda client: client.table("t").schema,
    "scan": lambda client: client.table("t").scan(),
    "create": lambda client: client.create_table("t", TABLE),
    "delete": lambda client: client.table("t").delete("n = 1"),
    "append": lambda client: client.create_table("t", TABLE, if_exists="append"),
}
READS: dict[str, Callable[[rt.Client], Any]] = {
    "batches": lambda client: count_rows(client.table("t")),
    "polars": lambda client: client.table("t").to_polars(),
    "pandas": lambda client: client.table("t").to_pandas(),
}


def count_rows(table: Any) -> int:
    return sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(table))


def described(kind: str, number: int = 1) -> bytes:
    """Describe columns of a type, which is JSON."""
    start = '{"nullable": true, "name": '
    fields = [f'{start}"c{index}", "type": {kind}}}' for index in range(number)]
    text = f'{{"version": 1, "schema": {{"fields": [{", ".join(fields)}]}}}}'
    return text.encode()


VECTOR = (
    '{"type": "fixed_size_list", "length": 16777216, "fields": '
    '[{"name": "item", "type": {"type": "int64"}, "nullable": true}]}'
)
DIGITS = "9" * SIZE
ANSWERS: dict[str, bytes] = {
    "a long number": DIGITS.encode(),
    "a small number": f"1e-{DIGITS}".encode(),
    "depth": b"[" * SIZE + b"]" * SIZE,
    "objects": b'{"a":' * SIZE + b"1" + b"}" * SIZE,
    "names": json.dumps({"tables": ["n" * SIZE]}).encode(),
    "many names": json.dumps({"tables": ["n"] * (SIZE // 5)}).encode(),
    "a page": json.dumps({"tables": [], "page_token": ""}).encode(),
    "a long type": described('{"type": "' + "x" * SIZE + '"}'),
    "a long zone": described('{"type": "timestamp:us:' + "Z" * SIZE + '"}'),
    "a deep type": described(deep(500)),
    "types of types": described('{"type": "' + "dict:" * (SIZE // 5) + 'int8"}'),
    "vectors": described(VECTOR, 500),
    "columns": described('{"type": "int8"}', 1500),
    "escapes": json.dumps({"error": {"message": "\\" * (SIZE // 4)}}).encode(),
    "ampersands": json.dumps({"error": {"message": "&lt;%41" * (SIZE // 7)}}).encode(),
}


def measure_client() -> None:
    """Answer a client with each response; print what took too much."""
    with Server() as server:
        server.answering((200, stream(TABLE)))
        for read in READS.values():
            attempt(read, server)
        meter = Meter(os.getpid())
        for name, body in ANSWERS.items():
            for status in (200, 400, 501):
                server.listing((status, body))
                for call, ask in CALLS.items():
                    with meter.measured(f"{name} {status}, {call}", batch=False):
                        attempt(ask, server)
        for name, (make, batch) in STREAMS.items():
            server.listing((200, make()))
            # the memory in which the body was made
            pa.default_memory_pool().release_unused()
            with meter.measured(f"{name}, list", batch=False):
                attempt(CALLS["list"], server)
            for call, ask in READS.items():
                # a frame of large batches may be as large as they are
                if batch and call != "batches":
                    continue
                with meter.measured(f"{name}, {call}", batch=batch):
                    attempt(ask, server)
    print(json.dumps(meter.excess))


def attempt(ask: Callable[[rt.Client], Any], server: Server) -> None:
    """Make a call over a connection of its own, which gets the new response."""
    client = connected(server, retries=0, dialect="lancedb", timeout=(5, 5, 30))
    with client, contextlib.suppress(rt.errors.RemoteError, ValueError, TypeError):
        ask(client)


def run(_count: int = 1, _seed: int = 0) -> dict[str, str]:
    """Run `measure_client` in a process of its own; return what took too much."""
    printed = local.run(
        "from tests.longer import bounds; bounds.measure_client()", seconds=600
    )
    excess: dict[str, str] = json.loads(printed.splitlines()[-1])
    return excess
