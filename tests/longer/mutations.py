"""Mutated Arrow streams and HTTP responses.

A folder responds with 200, 400 or 413 and keeps running, its memory stays
bounded, and every listed table can be read. The client returns a value or raises one of
its own errors in time, and neither errors nor logs have the key.
"""

from __future__ import annotations

import json
import pickle
import random
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import rt_frames as rt
from tests.support.local import Process, logged, stream
from tests.support.servers import KEY, Connection, Server

GROWTH = 600  # MB

ENDS = [b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff" * 4, bytes(4)]


def mutated(whole: bytes, draw: random.Random) -> bytes:
    """Overwrite, flip, repeat, insert, drop or cut bytes, one to eight times."""
    data = bytearray(whole)
    if draw.random() < 0.5:
        for _ in range(draw.choice((1, 1, 2, 8))):
            byte = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
            data[draw.randrange(len(data))] = byte
        return bytes(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data))
        piece = bytes(data[at : at + draw.randint(1, 64)])
        changes = [
            bytes([piece[0] ^ 1 << draw.randrange(8)]) + piece[1:],
            draw.choice(ENDS) + piece[4:],
            piece * 2,
            draw.randbytes(draw.randint(1, 16)) + piece,
            b"",
        ]
        end = draw.choice([at + len(piece)] * 5 + [len(data)])
        data[at:end] = draw.choice(changes)
        if not data:
            break
    return bytes(data)


N = range(50)
TABLES = [
    pa.table(
        {"a": N, "f": np.random.default_rng(1).random(50), "b": [True, None] * 25}
    ),
    pa.table({"s": [f"text {i}" for i in N], "l": [[i, None] for i in N]}),
    pa.table({"c": pa.array(["x", "y"] * 25).dictionary_encode()}),
    pa.table({"st": [{"x": i, "y": [str(i)]} for i in N]}),
    pa.table({"v": pa.array([[1.0, 2.0]] * 50, pa.list_(pa.float32(), 2))}),
    pa.table({"d": pa.array([1] * 50).cast("date64")}),
    pa.table({"n": pa.array([1] * 50).cast(pa.decimal128(30, 2))}),
    pa.table({"m": pa.array([[("k", 1)]] * 50, pa.map_("string", "int8"))}),
]


def corpus() -> list[bytes]:
    """Make valid streams of many layouts."""
    streams = []
    for codec in (None, "lz4", "zstd"):
        streams += [stream(table, compression=codec, rows=20) for table in TABLES]
    return streams


def streams(count: int, seed: int) -> Counter[int]:
    """Send mutated streams, and read every table that was accepted."""
    draw = random.Random(seed)
    ends = Counter[int]()
    whole = corpus()
    with (
        tempfile.TemporaryDirectory() as folder,
        logged(),
        Process(Path(folder)) as service,
    ):
        for one in whole:  # warm up before memory is measured
            service.caller.create(f"w{len(one)}", one)
        before = service.megabytes()
        for number in range(count):
            answer = service.caller.create(
                f"t{number}", mutated(draw.choice(whole), draw)
            )
            ends[answer.status_code] += 1
            assert answer.status_code in (200, 400, 413), (number, answer.text)
        assert service.megabytes("VmHWM") - before < GROWTH
        for table in service.tables().values():
            table.to_table().validate(full=True)
        assert service.caller.staged() == []
    return ends


def whole_answers() -> list[bytes]:
    """Make valid responses of several kinds."""
    error = {"error": {"code": 3, "message": f"the key {KEY} is wrong"}}
    found = [
        {"tables": ["a", "b"], "page_token": None},
        error,
        {"version": 7, "location": "s3://x"},
    ]
    answers = []
    for status in (200, 202, 301, 400, 401, 409, 429, 500):
        head = (
            b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\n"
            b"Retry-After: 0\r\n" % status
        )
        for body in [
            *(json.dumps(one).encode() for one in found),
            b"",
            b"<html><body>no</body></html>",
        ]:
            answers.append(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            answers.append(
                head
                + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
                % (len(body), body)
            )
    return answers


def failure(call: Callable[[], object]) -> rt.errors.RemoteError | None:
    """Make a call, and return the error if it is one of the package."""
    try:
        call()
    except rt.errors.RemoteError as error:
        return error
    return None


def answers(count: int, seed: int) -> Counter[str]:
    """Answer calls of every kind with mutated responses."""
    draw = random.Random(seed)
    ends = Counter[str]()
    whole = whole_answers()

    def script(connection: Connection) -> None:
        connection.body(connection.head())
        connection.sock.sendall(mutated(draw.choice(whole), draw))

    with logged(), Server(script) as server:
        client = rt.connect(
            server.url, api_key=KEY, timeout=1, retries=0, default=False
        )
        frame = pa.table({"a": [1, 2, 3]})
        calls = [
            client.list_tables,
            lambda: client.create_table("t", frame),
            lambda: client.table("t").rename({"a": "b"}),
        ]
        for number in range(count):
            started = time.monotonic()
            error = failure(draw.choice(calls))
            shown = (
                "".join(traceback.format_exception(error)) + repr(vars(error))
                if error
                else ""
            )
            assert KEY not in shown + pickle.dumps(error).decode("latin-1")
            ends[type(error).__name__ if error else "a value"] += 1
            assert time.monotonic() - started < 5, number
    return ends
