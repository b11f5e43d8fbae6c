"""What becomes of rows that do not fit: here, and with other libraries.

Run ``python -m tests.benchmarks.peers``, which prints the table of README. Libraries
that are not installed are left out: ``pip install deltalake 'dlt[duckdb]'`` adds two.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, Protocol

import polars as pl

import rt_frames as rt
from rt_frames.local import LocalService
from tests.support.servers import KEY, Connection, Server, forward

DAY, OTHER = date(2024, 3, 5), date(2024, 3, 4)
STORED = pl.DataFrame({"id": [1, 2], "day": [OTHER, DAY], "units": [3, 4]})
HEAD = """
| | 1.5 into an int64 column | a key twice in an upsert | a row of another day in a replaced day | an append whose response is lost |
|---|---|---|---|---|
"""


class Peer(Protocol):
    """A library, with an empty table or a place for one."""

    def append(self, frame: pl.DataFrame) -> None: ...

    def upsert(self, frame: pl.DataFrame) -> None: ...

    def replace_day(self, frame: pl.DataFrame) -> None: ...

    def read(self) -> pl.DataFrame: ...


def new(key: int, units: float, day: date = DAY) -> dict[str, Any]:
    return {"id": key, "day": day, "units": units}


class Folder:
    def __init__(self, root: Path) -> None:
        self.client = rt.connect(root, default=False)

    def append(self, frame: pl.DataFrame) -> None:
        self.client.create_table("t", frame, if_exists="append")

    def upsert(self, frame: pl.DataFrame) -> None:
        self.client.create_table("t", frame, if_exists="upsert", on="id")

    def replace_day(self, frame: pl.DataFrame) -> None:
        where = pl.col("day") == DAY
        self.client.create_table("t", frame, if_exists="replace", where=where)

    def read(self) -> pl.DataFrame:
        return self.client.table("t").to_polars()


class DeltaLake:
    def __init__(self, root: Path) -> None:
        self.path = str(root / "t")

    def append(self, frame: pl.DataFrame) -> None:
        import deltalake

        deltalake.write_deltalake(self.path, frame, mode="append")

    def upsert(self, frame: pl.DataFrame) -> None:
        import deltalake

        merger = deltalake.DeltaTable(self.path).merge(
            frame, "s.id = t.id", source_alias="s", target_alias="t"
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def replace_day(self, frame: pl.DataFrame) -> None:
        import deltalake

        deltalake.write_deltalake(
            self.path, frame, mode="overwrite", predicate=f"day = '{DAY}'"
        )

    def read(self) -> pl.DataFrame:
        return pl.read_delta(self.path)


class LanceDB:
    def __init__(self, root: Path) -> None:
        import lancedb

        self.db = lancedb.connect(root)

    def append(self, frame: pl.DataFrame) -> None:
        if "t" not in self.db.list_tables().tables:
            self.db.create_table("t", frame.to_arrow())
        else:
            self.db.open_table("t").add(frame.to_arrow())

    def upsert(self, frame: pl.DataFrame) -> None:
        merger = self.db.open_table("t").merge_insert("id").when_matched_update_all()
        merger.when_not_matched_insert_all().execute(frame.to_arrow())

    def replace_day(self, frame: pl.DataFrame) -> None:
        self.db.open_table("t").delete(f"day = date '{DAY}'")
        self.append(frame)

    def read(self) -> pl.DataFrame:
        return pl.DataFrame(self.db.open_table("t").to_arrow())


class DuckDB:
    def __init__(self, root: Path) -> None:
        import duckdb

        self.db = duckdb.connect(root / "t.duckdb")
        self.db.execute(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, day DATE, units BIGINT)"
        )

    def append(self, frame: pl.DataFrame) -> None:
        self.db.execute("INSERT INTO t BY NAME SELECT * FROM frame")

    def upsert(self, frame: pl.DataFrame) -> None:
        self.db.execute("INSERT OR REPLACE INTO t BY NAME SELECT * FROM frame")

    def replace_day(self, frame: pl.DataFrame) -> None:
        self.db.execute("BEGIN")
        self.db.execute("DELETE FROM t WHERE day = ?", [DAY])
        self.append(frame)
        self.db.execute("COMMIT")

    def read(self) -> pl.DataFrame:
        return self.db.sql("FROM t").pl()


class DLT:
    def __init__(self, root: Path) -> None:
        import dlt

        self.file = root / "t.duckdb"
        self.pipeline = dlt.pipeline(
            "peers",
            pipelines_dir=str(root / "pipelines"),
            destination=dlt.destinations.duckdb(str(self.file)),
            dataset_name="d",
        )

    def append(
        self, frame: pl.DataFrame, write_disposition: str = "append", **hints: str
    ) -> None:
        self.pipeline.run(
            [frame.to_arrow()],
            table_name="t",
            write_disposition=write_disposition,
            **hints,
        )

    def upsert(self, frame: pl.DataFrame) -> None:
        self.append(frame, "merge", primary_key="id")

    def replace_day(self, frame: pl.DataFrame) -> None:
        import dlt

        resource = dlt.resource(
            [frame.to_arrow()], name="t", write_disposition="merge", merge_key="day"
        )
        self.pipeline.run(resource)

    def read(self) -> pl.DataFrame:
        import duckdb

        with duckdb.connect(self.file) as db:
            return db.sql("FROM d.t").pl()


# by the name of their package
PEERS: dict[str, Callable[[Path], Peer]] = {
    "rt_frames": Folder,
    "deltalake": DeltaLake,
    "lancedb": LanceDB,
    "duckdb": DuckDB,
    "dlt": DLT,
}


def tried(
    peer: Callable[[Path], Peer], write: str, *rows: dict[str, Any]
) -> tuple[str, pl.DataFrame]:
    """Write rows to a stored table. Return the error, and what the table holds then."""
    error = ""
    with tempfile.TemporaryDirectory() as folder:
        made = peer(Path(folder))
        made.append(STORED)
        try:
            getattr(made, write)(pl.DataFrame(rows))
        except Exception as refused:  # noqa: BLE001  # each library has its own
            error = str(refused)
        found = made.read().select(STORED.columns).sort(STORED.columns)
    assert not error or found.equals(STORED), "refused, and yet something is stored"
    return error, found


def refused(error: str, row: int, key: int) -> str:
    """Describe a refusal, which may name the row by its number or its key."""
    named = rf"rows? (\d+ and )?{row}\b|id ?= ?{key}\b|\| {key} "
    return "refused, with its row" if re.search(named, error) else "refused"


def fraction(peer: Callable[[Path], Peer]) -> str:
    error, found = tried(peer, "append", new(3, 5.0), new(4, 1.5))
    if error:
        return refused(error, 1, 4)
    return f"stored as {found['units'][-1]}"


def doubled(peer: Callable[[Path], Peer], key: int) -> str:
    error, found = tried(peer, "upsert", new(key, 5), new(4, 6), new(key, 7))
    if error:
        return refused(error, 2, key)
    kept = found.filter(pl.col("id") == key)["units"].to_list()
    return {(5,): "the first is stored", (5, 7): "both are stored"}[tuple(kept)]


def doubled_keys(peer: Callable[[Path], Peer]) -> str:
    """Double a key that the table lacks, and one that it has."""
    lacked, stored = doubled(peer, 3), doubled(peer, 2)
    return lacked if lacked == stored else f"{lacked}; of a stored key: {stored}"


def stray(peer: Callable[[Path], Peer]) -> str:
    error, found = tried(peer, "replace_day", new(3, 5), new(4, 6, OTHER))
    if error:
        return refused(error, 1, 4)
    return "stored" if 1 in found["id"] else "stored; the other day's rows are deleted"


def losing(url: str) -> Callable[[Connection], None]:
    """Make a proxy that forwards all requests, and loses the responses to appends."""

    def script(connection: Connection) -> None:
        request = connection.body(connection.head())
        response = forward(request, url)
        if "/insert/" in request.path:
            connection.reset()
        else:
            connection.sock.sendall(response)

    return script


def append_here(url: str) -> None:
    with rt.connect(url, api_key=KEY, dialect="lancedb", default=False) as client:
        client.create_table("t", pl.DataFrame([new(3, 5)]), if_exists="append")


def append_lancedb(url: str) -> None:
    import lancedb

    db = lancedb.connect("db://t", api_key=KEY, host_override=url)
    db.open_table("t").add(pl.DataFrame([new(3, 5)]).to_arrow())


APPENDS = {"rt_frames": append_here, "lancedb": append_lancedb}


def lost(package: str) -> str:
    """Append over HTTP, where the library can, and lose the response."""
    if package not in APPENDS:
        return "not over HTTP"
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalService(folder, api_key=KEY) as service,
        Server(script=losing(service.url)) as server,
        rt.connect(folder, default=False) as client,
    ):
        client.create_table("t", STORED)
        try:
            APPENDS[package](server.url)
        except Exception as error:  # noqa: BLE001  # each library has its own
            kind, text = type(error).__name__, str(error)
        assert client.table("t").count() == 3
    told = "before: .*2 rows; now: .*3 rows"
    says = "with the rows before and now" if re.search(told, text) else "no more"
    return f"`{kind}`, {says}"


def lines() -> Iterator[str]:
    """Yield the line of each library that is installed."""
    for package, peer in PEERS.items():
        if importlib.util.find_spec(package):
            cells = [fraction(peer), doubled_keys(peer), stray(peer), lost(package)]
            yield f"| `{package}` | {' | '.join(cells)} |"


if __name__ == "__main__":
    print(HEAD.strip())
    for line in lines():
        print(line, flush=True)
