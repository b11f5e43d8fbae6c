"""How the cost grows with the frame: many columns, many chunks and odd cells.

Run ``python -m tests.benchmarks.shapes``; parts of the cases' names choose cases. All
cases take some minutes. The cases called ``stream`` make the bytes of a
request, compared with ``pyarrow.ipc``; the others alter a folder's table, compared
with ``lance``. "by hand" divides a case's time by that of these few lines. "half"
divides it by that of half the columns, chunks or rows: 2 is linear, 4 is quadratic.
Times are of the processor.

It imports the stream, because a socket would add its own time to that of the client.
"""

from __future__ import annotations

import datetime as dt
import io
import itertools
import sys
import tempfile
import time
import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import rt_frames as rt
from rt_frames._frames.any_frame import open_source, parse_open_options
from rt_frames._stream.compression import CompressionPolicy
from rt_frames._stream.ipc import IPCStream
from tests.benchmarks._frames import alternating, arrow_of

if TYPE_CHECKING:
    from collections.abc import Callable

REPEATS = 5
NUMBERS = itertools.count()


class Case(NamedTuple):
    """Two ways to do the same: rt_frames, and by hand."""

    ours: Callable[[], Any]
    by_hand: Callable[[], Any]


def wide(columns: int, **field: Any) -> pa.Table:
    schema = pa.schema([pa.field(f"c{i}", pa.int64(), **field) for i in range(columns)])
    return pa.table([pa.array(range(10))] * columns, schema=schema)


def int32(table: pa.Table) -> pa.Table:
    return table.cast(
        pa.schema([field.with_type(pa.int32()) for field in table.schema])
    )


def not_null(table: pa.Table) -> pa.Table:
    """Do what has to be done before such columns are sent."""
    if any(column.null_count for column in table.columns):
        raise ValueError("nulls")
    return table


def coded(columns: int) -> pa.Table:
    return pa.table(
        [pa.array(["a", "b", "a"] * 10).dictionary_encode()] * columns,
        [f"c{i}" for i in range(columns)],
    )


def structs(columns: int) -> pa.Table:
    return pa.table(
        [pa.array([{"x": 1, "y": "a"}] * 30)] * columns,
        [f"c{i}" for i in range(columns)],
    )


def growing(chunks: int) -> pa.Table:
    """Make chunks that each add some values to those before."""
    parts = [
        pa.table({"c": pa.array([f"v{j}" for j in range(5 * i)]).dictionary_encode()})
        for i in range(1, chunks)
    ]
    return pa.concat_tables(parts)


def shifting(chunks: int) -> pa.Table:
    """Make chunks of which each has a tenth of new values."""
    parts = [[f"v{10 * i + j}" for j in range(100)] for i in range(chunks)]
    return pa.concat_tables(
        [pa.table({"c": pa.array(names).dictionary_encode()}) for names in parts]
    )


def objects(cell: Callable[[int], Any], rows: int) -> pd.DataFrame:
    return pd.DataFrame({"o": pd.Series([cell(i) for i in range(rows)], dtype=object)})


def stream(
    data: Any, dtypes: dict[str, Any] | None = None, table: pa.Schema | None = None
) -> None:
    options = replace(parse_open_options(dtypes), table=table)
    source = open_source(data, options)
    for buffers in IPCStream(source, CompressionPolicy(None, None, source.rows.nbytes)):
        del buffers


def write_stream(data: pa.Table | pa.RecordBatchReader) -> None:
    with pa.ipc.new_stream(io.BytesIO(), data.schema) as writer:
        for batch in data.to_batches() if isinstance(data, pa.Table) else data:
            writer.write_batch(batch)


def streamed(
    data: Any, to_table: Callable[[Any], pa.Table] = arrow_of, **options: Any
) -> Case:
    return Case(lambda: stream(data, **options), lambda: write_stream(to_table(data)))


def read_once(table: pa.Table) -> Case:
    return Case(
        lambda: stream(table.to_reader()), lambda: write_stream(table.to_reader())
    )


def planned(table: pa.Table) -> Case:
    before = table.schema
    after = int32(table).schema

    def by_hand() -> str:
        new = {field.name: field for field in after}
        found = [
            (old, new[old.name])
            for old in before
            if old.name in new and old.type != new[old.name].type
        ]
        return str(
            [
                {"path": old.name, "data_type": {"type": str(other.type)}}
                for old, other in found
            ]
        )

    return Case(lambda: rt.plan_alterations(before, after).to_json(), by_hand)


class Folder:
    """A folder, and another one for what is altered by hand."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._client = rt.connect(folder / "ours", default=False)
        self.cases: dict[str, Callable[[int], Case]] = {
            "alter_table, casts": self.cast,
            "alter_table, renames": lambda columns: self.rename(columns, plans=True),
            "alter_columns, renames": lambda columns: self.rename(columns, plans=False),
        }

    def _stored(self, table: pa.Table) -> tuple[rt.RemoteTable, str]:
        path = str(self._folder / f"{next(NUMBERS)}.lance")
        lance.write_dataset(table, path)
        return self._client.create_table(f"t{next(NUMBERS)}", table), path

    def cast(self, columns: int) -> Case:
        """Cast all columns, and back again the next time."""
        table = wide(columns)
        stored, path = self._stored(table)
        frames = itertools.cycle([int32(table), table])
        types = itertools.cycle([pa.int32(), pa.int64()])
        names = table.column_names

        def by_hand() -> None:
            arrow = next(types)
            changes = [{"path": name, "data_type": arrow} for name in names]
            lance.dataset(path).alter_columns(*changes)

        return Case(
            lambda: rt.alter_table(next(frames), stored.name, client=self._client),
            by_hand,
        )

    def rename(self, columns: int, *, plans: bool) -> Case:
        """Rename all columns, and back again the next time."""
        table = wide(columns)
        stored, path = self._stored(table)
        names = table.column_names
        sides = itertools.cycle([("", "_"), ("_", "")])
        others = itertools.cycle([("", "_"), ("_", "")])

        def ours() -> None:
            old, new = next(sides)
            renames = {name + old: name + new for name in names}
            if plans:
                frame = table.rename_columns([name + new for name in names])
                rt.alter_table(frame, stored.name, rename=renames, client=self._client)
            else:
                stored.rename(renames)

        def by_hand() -> None:
            old, new = next(others)
            changes = [{"path": name + old, "name": name + new} for name in names]
            lance.dataset(path).alter_columns(*changes)

        return Case(ours, by_hand)


def dtypes(columns: int) -> dict[str, str]:
    return dict.fromkeys(wide(columns).column_names, "int32")


def not_nullable(columns: int) -> pa.Table:
    return wide(columns, nullable=False)


def ten_chunks(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table] * 10)


def smaller(columns: int) -> pa.Schema:
    return int32(wide(columns)).schema


def in_polars(columns: int) -> pl.DataFrame:
    return pl.from_arrow(wide(columns))


def in_pandas(columns: int) -> pd.DataFrame:
    return wide(columns).to_pandas()


# cells of a column of objects
OBJECTS: dict[str, Callable[[int], Any]] = {
    "text": lambda i: f"text {i % 1000}",
    "date": lambda i: dt.date.fromordinal(730_000 + i % 1000),
    "Decimal": lambda i: Decimal(i) / 100,
    "dict": lambda i: {"x": i, "name": f"text {i % 1000}"},
    "array": lambda i: np.arange(i % 5, dtype="float64"),
    "Timedelta": lambda i: pd.Timedelta(i, "s"),
    "set": lambda i: {i, i + 1},
    "UUID": lambda i: uuid.UUID(int=i),
}
unify = pa.Table.unify_dictionaries
COLUMNS = {
    "stream, Arrow": lambda n: streamed(wide(n)),
    "stream, Polars": lambda n: streamed(in_polars(n)),
    "stream, pandas": lambda n: streamed(in_pandas(n)),
    "stream, not null": lambda n: streamed(not_nullable(n), not_null),
    "stream, ten chunks": lambda n: streamed(ten_chunks(wide(n))),
    "stream, dtypes=": lambda n: streamed(wide(n), int32, dtypes=dtypes(n)),
    "stream, append": lambda n: streamed(wide(n), table=wide(n).schema),
    "stream, append casts": lambda n: streamed(wide(n), int32, table=smaller(n)),
    "plan_alterations": lambda n: planned(wide(n)),
}
NESTED = {
    "stream, dictionaries": lambda n: streamed(coded(n)),
    "stream, dictionaries, ten chunks": lambda n: streamed(ten_chunks(coded(n))),
    "stream, structs": lambda n: streamed(structs(n)),
}
CHUNKS = {
    "stream, growing dictionary": lambda n: streamed(growing(n), unify),
    "stream, shifting dictionary": lambda n: streamed(shifting(n), unify),
    "stream, reader, growing": lambda n: read_once(growing(n)),
}
CELLS = {}
for kind, cell in OBJECTS.items():
    CELLS[f"stream, {kind}"] = lambda n, cell=cell: streamed(objects(cell, n))
# how many columns, chunks or rows the cases have
SIZES = [(8000, COLUMNS), (2000, NESTED), (1000, CHUNKS), (200_000, CELLS)]


def main(wanted: list[str], part: int = 1, repeats: int = REPEATS) -> None:
    print(f"{'case':<40}{'ours':>10}{'by hand':>10}{'half':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for whole, cases in [*SIZES, (8000, Folder(Path(folder)).cases)]:
            size = whole // part
            for name, make in cases.items():
                if not wanted or any(word in name for word in wanted):
                    title = f"{name}, {size:,}"
                    show(title, make(size), make(size // 2), repeats)


def show(name: str, case: Case, half: Case, repeats: int) -> None:
    ways = {"ours": case.ours, "by hand": case.by_hand, "half": half.ours}
    medians = alternating(ways, repeats, time.process_time)
    ours = medians["ours"]
    by_hand = ours / medians["by hand"]
    less = ours / medians["half"]
    print(f"{name:<40}{ours * 1000:>7.0f} ms{by_hand:>10.1f}{less:>8.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
