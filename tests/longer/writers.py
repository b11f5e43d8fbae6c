"""Two clients whose writes to one table interleave.

The stored table is the result of one order of the confirmed calls in the model.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import lance

import rt_frames as rt
from rt_frames.local import LocalService
from tests.longer import model
from tests.longer.model import NAME, Call, RefusedError, Step, Table
from tests.longer.nightly import REFUSALS, Draw, difference
from tests.support.servers import KEY, Connection, Server, forward

_DRAW: dict[Draw, int] = {
    model.draw_append: 4,
    model.draw_delete: 2,
    model.draw_add: 1,
    model.draw_drop_columns: 1,
    model.draw_rename: 1,
    model.draw_cast: 2,
    model.draw_rewrite: 3,
    model.draw_nullable: 1,
    model.draw_replace: 1,
}
OF_FOLDER = {model.draw_upsert: 5, model.draw_replace_where: 6, **_DRAW}
# it takes one key, and replaces no rows that match
OF_SERVER = {partial(model.draw_upsert, most_keys=1): 5, **_DRAW}


class Proxy:
    """Forwards requests, and makes the other writer's call before one of them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.left = 0
        self.happens = lambda: None

    def __call__(self, connection: Connection) -> None:
        request = connection.body(connection.head())
        self.left -= 1
        if self.left == 0:
            self.happens()
        connection.sock.sendall(forward(request, self.url))


class Pair:
    """Two calls, how they ended, and the tables that may be stored."""

    def __init__(self, table: Table, calls: list[Call]) -> None:
        self.table = table
        self.calls = calls
        # the error of each call that has ended, if it had one
        self.ended: dict[int, BaseException | None] = {}

    def make(self, number: int, client: rt.Client) -> None:
        self.ended[number] = None
        try:
            self.calls[number].do(client)
        except rt.errors.OutcomeUnknown:
            raise
        except REFUSALS as error:
            self.ended[number] = error

    def possible(self) -> Iterator[Table]:
        """Yield the table after each possible order of the commits."""
        for first, second in itertools.product(self.commits(0), self.commits(1)):
            for order in interleaved(first, second):
                with contextlib.suppress(RefusedError):
                    yield functools.reduce(apply, order, self.table)

    def commits(self, number: int) -> Iterator[Sequence[Step]]:
        """Yield the steps that a call may have made."""
        call = self.calls[number]
        error = self.ended[number]
        if error is None:
            yield call.steps
            yield call.planned
        elif not getattr(error, "done", ""):
            yield []
        elif call.frame is not None:
            yield call.steps[:1]
            yield call.planned[:1]
        else:
            yield call.planned[:1]
            yield call.planned[:2]


def apply(table: Table, step: Step) -> Table:
    return step(table)


def interleaved(first: Sequence[Step], second: Sequence[Step]) -> Iterator[list[Step]]:
    if not first or not second:
        yield [*first, *second]
        return
    for rest in interleaved(first[1:], second):
        yield [first[0], *rest]
    for rest in interleaved(first, second[1:]):
        yield [second[0], *rest]


class Writers:
    """Two clients of a server, one of them through a proxy; or two of a folder."""

    def __init__(
        self,
        root: Path,
        draws: dict[Draw, int],
        direct: rt.Client,
        other: rt.Client,
        proxy: Proxy | None = None,
    ) -> None:
        self.root = root
        self.direct = direct
        self.other = other
        self.proxy = proxy
        self._draws = draws

    def draw(self, r: random.Random, table: model.Model) -> Call:
        (one,) = r.choices([*self._draws], [*self._draws.values()])
        return one(r, table)

    def make(self, pair: Pair, r: random.Random) -> str:
        if self.proxy is None or r.random() < 0.3:
            return self.together(pair)
        return self.middle(pair, self.proxy, r)

    def middle(self, pair: Pair, proxy: Proxy, r: random.Random) -> str:
        """Make the second call before some request of the first."""
        proxy.left = r.randint(1, 5)
        proxy.happens = lambda: pair.make(1, self.direct)
        pair.make(0, self.other)
        if 1 not in pair.ended:
            pair.make(1, self.direct)
            return "after"
        return "middle"

    def together(self, pair: Pair) -> str:
        clients = [self.direct, self.direct if self.proxy else self.other]
        start = threading.Barrier(2)

        def make(number: int) -> None:
            start.wait()
            pair.make(number, clients[number])

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(make, number) for number in range(2)]:
                done.result()
        return "together"


def check(writers: Writers, r: random.Random) -> str:
    """Draw a table and two calls, make them, and compare the stored table."""
    frame = model.draw_new(r)
    table = model.created(frame)
    writers.direct.create_table(NAME, frame.make(), if_exists="replace")
    pair = Pair(table, [writers.draw(r, table), writers.draw(r, table)])
    try:
        how = writers.make(pair, r)
        found = lance.dataset(str(writers.root / f"{NAME}.lance")).to_table()
        possible = list(pair.possible())
        assert any(one.is_stored_as(found) for one in possible), "\n".join(
            difference(one, found) for one in possible
        )
    except BaseException as error:
        error.add_note(f"{frame}\n{pair.calls}\n{pair.ended}")
        raise
    confirmed = [*pair.ended.values()].count(None)
    return f"{how}: {confirmed} confirmed"


def run_many(writers: Writers, count: int, seed: int, first: int = 0) -> Counter[str]:
    """Draw numbered pairs. Each can be repeated alone."""
    counts: Counter[str] = Counter()
    for number in range(first, first + count):
        r = random.Random(f"{seed}/{number}")
        try:
            counts[check(writers, r)] += 1
        except BaseException as error:
            error.add_note(f"seed {seed}, pair {number}")
            raise
    return counts


def run_server(count: int, seed: int, first: int = 0) -> Counter[str]:
    """Make calls in each other's middle, and at once."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        options = {"api_key": KEY, "dialect": "lancedb", "timeout": 20, "retries": 0}
        with (
            LocalService(root, api_key=KEY) as service,
            Server(script=(proxy := Proxy(service.url))) as server,
            rt.Client(service.url, **options) as direct,
            rt.Client(server.url, **options) as proxied,
        ):
            for one in (direct, proxied):
                one.list_tables()
            writers = Writers(root, OF_SERVER, direct, proxied, proxy)
            return run_many(writers, count, seed, first)


def run_folder(count: int, seed: int, first: int = 0) -> Counter[str]:
    """Make calls at once."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        one, other = (rt.connect(root, default=False) for _ in range(2))
        with one, other:
            writers = Writers(root, OF_FOLDER, one, other)
            return run_many(writers, count, seed, first)


def run(count: int, seed: int) -> Counter[str]:
    """Run half of the pairs on a server, and half on a folder."""
    half = count // 2
    return run_server(count - half, seed) + run_folder(half, seed)
