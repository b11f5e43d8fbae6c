"""Writes that are sent twice, whose answers are lost, and whose service is killed.

`run` makes one write at a time and fails it once, through nginx where it is installed:
the write succeeds, and each row is there once. `together` makes many at once and kills
the service all the time; the ids that Lance keeps tell the order of the calls, and a
model that follows it must hold the same rows.
"""

from __future__ import annotations

import contextlib
import functools
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import lance
import pyarrow as pa
import trustme

import rt_frames as rt
from tests.longer.fronts import binary, started
from tests.support.hosted import with_parts_of
from tests.support.local import Process
from tests.support.servers import KEY, Connection, Request, Server, forward

# the service keeps no version longer than it must
KEEP_NOTHING = """
import datetime, functools, rt_frames.local
rt_frames.local.LocalService = functools.partial(
    rt_frames.local.LocalService, keep=datetime.timedelta(0)
)
"""
FAULTS = [
    "twice",
    "twice at once",
    "lost",
    "not sent",
    "502",
    "an earlier answer",
    "an earlier answer instead",
]
KILLS = ["killed before", "killed meanwhile", "killed after"]
# threads that write at once
WRITERS = 4


class Proxy:
    """Forwards requests to a service. A write may meet a fault.

    Parameters
    ----------
    url : str
        The service.

    Attributes
    ----------
    faults : list of str
        Those of the next writes.
    earlier : bytes
        The last answer that no fault has changed.
    writes : list of Request
        All writes.
    part_fault : str
        That of each part of a multipart write.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.faults: list[str] = []
        self.earlier = b""
        self.writes: list[Request] = []
        self.part_fault = ""

    def draw_fault(self) -> str:
        return self.faults.pop(0) if self.faults else ""

    def restart(self) -> None:
        """Kill the service and start it again."""

    def __call__(self, connection: Connection) -> None:
        request = connection.head()
        fault = ""
        if request.method == "POST" and "x-rt-frames-call" in request.headers:
            self.writes.append(request)
            fault = self.draw_fault()
        elif "upload_part_id" in request.path:
            fault = self.part_fault
        if fault == "truncated":
            connection.body(request, 10**5)
            connection.reset()
            return
        connection.body(request)
        answer = self.answer(request, fault)
        self.earlier = self.earlier if fault else answer
        connection.sock.sendall(answer)

    def answer(self, request: Request, fault: str) -> bytes:
        """Return what the client receives; nothing if the answer is lost."""
        if fault == "not sent":
            return b""
        if fault == "an earlier answer instead":
            return self.earlier
        if fault in ("401", "404", "429"):
            return refusal(fault)
        if fault.startswith("killed"):
            return self._kill(request, fault)
        if fault == "twice at once":
            return self._forward_twice(request)
        answer = self.forward(request)
        instead = {
            "lost": b"",
            "an earlier answer": self.earlier,
            "502": refusal("502"),
        }
        if fault == "twice":
            return self.forward(request)
        if fault == "interrupted":
            signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)
            time.sleep(1)
        return instead.get(fault, answer)

    def _forward_twice(self, request: Request) -> bytes:
        other = threading.Thread(target=self.forward, args=[request])
        other.start()
        answer = self.forward(request)
        other.join()
        return answer

    def _kill(self, request: Request, fault: str) -> bytes:
        """Kill the service before, after or while it answers."""
        answer = b""
        killer = threading.Timer(random.uniform(0, 0.03), self.restart)
        if fault == "killed meanwhile":
            killer.start()
            answer = self.forward(request)
            killer.join()
            return answer
        if fault == "killed after":
            self.forward(request)
        self.restart()
        return answer

    def forward(self, request: Request) -> bytes:
        """Return the service's answer; nothing if the service is gone."""
        with contextlib.suppress(OSError):
            return forward(request, self.url)
        return b""


def refusal(status: str) -> bytes:
    """Return the answer of a proxy that refuses or fails."""
    return (
        f"HTTP/1.1 {status} x\r\nContent-Length: 0\r\nRetry-After: 0\r\n\r\n".encode()
    )


class Killed(Proxy):
    """A proxy of a service in another process, which it may kill."""

    def __init__(self, root: Path, before: str = "") -> None:
        self._start = functools.partial(Process, root, before)
        self._lock = threading.Lock()
        self.service = self._start()
        super().__init__(self.service.caller.url)

    def restart(self) -> None:
        with self._lock:
            self.close()
            self.service = self._start()
            self.url = self.service.caller.url

    def close(self) -> None:
        """Kill the service."""
        self.service.kill()
        self.service.__exit__()


@contextlib.contextmanager
def served(proxy: Proxy, place: Path) -> Iterator[str]:
    """Serve a proxy, behind nginx if that is installed; yield the URL."""
    # for nginx, which gives up root
    place.chmod(0o711)
    certificate = trustme.CA().issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(place / "cert.pem"))
    with Server(script=proxy) as server:
        if binary("nginx") is None:
            yield server.url
            return
        with started("nginx", place, server.url) as (_, doors):
            yield doors["plain"]


class Run:
    """Writes to one table, whose rows it knows."""

    def __init__(self, clients: list[rt.Client], root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self._clients = clients
        self._root = root
        self._number = 0
        self.rows: list[tuple[int, int]] = []

    def frame(self, many: int = 0) -> pa.Table:
        """Make rows with new ids."""
        first = self._number * 100_000
        ids = list(range(first, first + (many or self.random.choice([1, 20, 20_000]))))
        return pa.table({"id": ids, "n": [self._number] * len(ids)})

    def write(self) -> str:
        """Make a drawn write that must succeed, and check the table."""
        self._number += 1
        client = self.random.choice(self._clients)
        kinds = ["append", "upsert", "replace", "create", "delete", "restore"]
        kind = self.random.choice(kinds if self.rows else ["create"])
        getattr(self, f"_{kind}")(client)
        table = lance.dataset(str(self._root / "t.lance")).to_table()
        found = zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True)
        assert sorted(found) == sorted(self.rows), kind
        return kind

    def _create(self, client: rt.Client) -> None:
        if "t" in client.list_tables():
            client.table("t").drop()
        frame = self.frame()
        client.create_table("t", frame)
        self.rows = tuples(frame)

    def _replace(self, client: rt.Client) -> None:
        frame = self.frame()
        client.create_table("t", frame, if_exists="replace")
        self.rows = tuples(frame)

    def _append(self, client: rt.Client) -> None:
        frame = self.frame()
        client.create_table("t", frame, if_exists="append")
        self.rows += tuples(frame)

    def _upsert(self, client: rt.Client) -> None:
        ids = [row[0] for row in self.rows[:10]]
        old = pa.table({"id": ids, "n": [-self._number] * len(ids)})
        new = self.frame()
        frame = pa.concat_tables([old, new])
        is_replayable = self.random.random() < 0.5
        data = frame if is_replayable else frame.to_reader()
        try:
            table = client.create_table("t", data, if_exists="upsert", on="id")
            assert (table.updated, table.inserted) == (len(ids), len(new))
        except (rt.errors.OutcomeUnknown, rt.errors.ServerError):
            # the error says that this is safe
            assert not is_replayable
            client.create_table("t", frame, if_exists="upsert", on="id")
        self.rows = tuples(frame) + self.rows[10:]

    def _delete(self, client: rt.Client) -> None:
        gone = self.rows[0][0]
        assert client.table("t").delete(f"id = {gone}") == 1
        self.rows = self.rows[1:]

    def _restore(self, client: rt.Client) -> None:
        version = lance.dataset(str(self._root / "t.lance")).version
        client.table("t", version=version).restore()


def tuples(table: pa.Table) -> list[tuple[int, int]]:
    return list(zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True))


def run(count: int, seed: int) -> Counter[str]:
    """Make writes, each with a fault."""
    counts = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        proxy = Killed(place / "tables", KEEP_NOTHING)
        with (
            served(proxy, place) as url,
            rt.Client(url, api_key=KEY, dialect="lancedb", retries=5) as whole,
            rt.Client(
                url, api_key=KEY, dialect=with_parts_of(200_000), retries=5
            ) as in_parts,
        ):
            # the answer tells that it has parts
            in_parts.list_tables()
            one = Run([whole, in_parts], place / "tables", seed)
            for _ in range(count):
                fault = one.random.choice(FAULTS + KILLS)
                proxy.faults = [fault]
                proxy.part_fault = one.random.choice(["", "twice", "twice at once"])
                counts[f"{one.write()}: {fault}"] += 1
        proxy.close()
    return counts


class Call(NamedTuple):
    """A call of one writer."""

    if_exists: str
    frame: pa.Table

    def apply(self, rows: dict[int, int]) -> None:
        """Make the call on the model: a number for each id."""
        for key, number in tuples(self.frame):
            assert self.if_exists == "upsert" or key not in rows
            rows[key] = number


class Writers:
    """Makes calls in several threads, under faults and kills."""

    def __init__(self, url: str, seed: int) -> None:
        self._url = url
        self._seed = seed
        # request id → call
        self.calls: dict[str, Call] = {}

    def write(self, writer: int, count: int) -> None:
        """Append rows with ids of the writer's own, and upsert those of all."""
        draw = random.Random(self._seed + writer)
        with rt.Client(self._url, api_key=KEY, dialect="lancedb", retries=9) as client:
            for number in range(count):
                first = 10**6 * (writer + 1) + 10 * number
                call = Call("append", numbered(range(first, first + 10), number))
                if draw.random() < 0.3:
                    call = Call("upsert", numbered(draw.sample(range(50), 10), first))
                on = "id" if call.if_exists == "upsert" else None
                table = client.create_table(
                    "t", call.frame, if_exists=call.if_exists, on=on
                )
                self.calls[str(table.request_id)] = call

    def check(self, folder: Path) -> None:
        """Make the calls on a model, in the order of their commits."""
        dataset = lance.dataset(str(folder))
        rows: dict[int, int] = {}
        ids = []
        for version in range(2, dataset.version + 1):
            transaction = dataset.read_transaction(version)
            # the service merges small files now and then
            if isinstance(transaction.operation, lance.LanceOperation.Rewrite):
                continue
            ids.append(transaction.transaction_properties["rt_frames.call"])
            self.calls[ids[-1]].apply(rows)
        assert sorted(ids) == sorted(self.calls)
        assert sorted(tuples(dataset.to_table())) == sorted(rows.items())


def numbered(ids: Iterable[int], number: int) -> pa.Table:
    return pa.table({"id": [*ids]}).append_column("n", [[number] * 10])


def together(count: int, seed: int) -> Counter[str]:
    """Make many writes at once while the service is killed again and again."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        proxy = Killed(place / "tables")
        proxy.service.client.create_table("t", numbered(range(10), 0).slice(0, 0))
        faults = [*15 * [""], *FAULTS[:5]]
        proxy.draw_fault = lambda: draw.choice(faults)  # type: ignore[method-assign]
        kills = 0
        with served(proxy, place) as url, ThreadPoolExecutor(WRITERS) as pool:
            writers = Writers(url, seed)
            each = count // WRITERS
            running = [pool.submit(writers.write, one, each) for one in range(WRITERS)]
            while not all(one.done() for one in running):
                began = time.monotonic()
                proxy.restart()
                kills += 1
                # up at least as long as a start takes, which depends on the machine
                time.sleep(time.monotonic() - began + draw.uniform(0, 3))
            for one in running:
                one.result()
        writers.check(place / "tables" / "t.lance")
        proxy.close()
    return Counter(calls=len(writers.calls), writes=len(proxy.writes), kills=kills)
