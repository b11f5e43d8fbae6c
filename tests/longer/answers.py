"""Mutated HTTP answers against the client, and mutated JSON against the embedded service.

The client may give a value or one of its own errors, in time, and the key is in neither errors nor logs; the service
answers 200 or 400 and lives. Run: ``python -m tests.longer.answers [--answers 3000] [--seed N]``.
"""

from __future__ import annotations

import argparse
import collections
import json
import pickle
import random
import tempfile
import time
import traceback
from pathlib import Path

import pyarrow as pa

import rt_frames as rt
from tests.longer.streams import mutated
from tests.support.local import JSON, Process, logged
from tests.support.servers import KEY, Connection, Server

FRAME = pa.table({"a": [1, 2, 3]})
BODIES = [
    {"tables": ["a", "b"], "page_token": None},
    {"error": {"code": 3, "message": f"the key {KEY} is wrong"}},
    {"version": 7, "location": "s3://x"},
]
ALTERATIONS = {
    "alterations": [
        {"path": "a", "rename": "b", "data_type": {"type": "int32"}},
        {"path": "s.x", "nullable": True},
        {
            "path": "l",
            "data_type": {"type": "list", "fields": [{"name": "item", "type": {"type": "int8"}, "nullable": True}]},
        },
    ]
}


def answers() -> list[bytes]:
    """Make valid answers of several kinds."""
    bodies = [json.dumps(body).encode() for body in BODIES] + [b"", b"<html><body>no</body></html>"]
    whole = []
    for status in (200, 202, 301, 400, 401, 409, 429, 500):
        for body in bodies:
            head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nRetry-After: 0\r\n".encode()
            whole.append(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            whole.append(head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    return whole


def ask(client: rt.Client, random_: random.Random) -> str:
    """Make one call of any kind, and say how it ended; anything but an error of ours escapes."""
    call = random_.choice(
        [client.list_tables, lambda: client.create_table("t", FRAME), lambda: client.table("t").rename({"a": "b"})]
    )
    try:
        call()
    except rt.errors.RemoteError as error:
        shown = "".join(traceback.format_exception(error)) + repr(vars(error)) + pickle.dumps(error).decode("latin-1")
        assert KEY not in shown
        return type(error).__name__
    return "a value"


def against_the_client(count: int, random_: random.Random) -> collections.Counter[str]:
    """Answer calls with mutated answers."""
    ends: collections.Counter[str] = collections.Counter()
    whole = answers()

    def script(connection: Connection) -> None:
        connection.body(connection.head())
        connection.sock.sendall(mutated(random_.choice(whole), random_))

    with Server(script) as server:
        client = rt.connect(server.url, api_key=KEY, timeout=1, retries=0, default=False)
        for i in range(count):
            started = time.monotonic()
            ends[ask(client, random_)] += 1
            assert time.monotonic() - started < 5, i
    return ends


def against_the_service(count: int, random_: random.Random) -> collections.Counter[str]:
    """Send mutated alterations."""
    ends: collections.Counter[str] = collections.Counter()
    whole = json.dumps(ALTERATIONS).encode()
    table = pa.table({"a": [1, 2], "s": [{"x": 1}, None], "l": [[1], None]})
    with tempfile.TemporaryDirectory() as folder, Process(Path(folder)) as service:
        service.client.create_table("t", table)
        for i in range(count):
            body = mutated(whole, random_)
            answer = service.caller.send("POST", "/v1/table/t/alter_columns", body, content_type=JSON)
            assert answer.status_code in (200, 400), (i, answer.status_code, answer.text)
            ends[str(answer.status_code)] += 1
        assert service.tables()["t"].to_table().column(0).to_pylist() == [1, 2]
    return ends


def run(count: int, seed: int) -> collections.Counter[str]:
    """Do both, with everything logged, and look for the key in the log."""
    random_ = random.Random(seed)
    with logged():
        return against_the_client(count, random_) + against_the_service(count // 5, random_)


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    print(dict(run(options.answers, options.seed)))


if __name__ == "__main__":
    main()
