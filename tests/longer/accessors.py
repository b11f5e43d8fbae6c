"""Every accessor against a service that was written from its documentation alone.

Frames of drawn shapes are stored, and later frames alter their tables. What the service
then holds is compared with what pandas, Polars and Arrow themselves export, in the
types that the project's README lists.
"""

from __future__ import annotations

import datetime as dt
import functools
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import types

import rt_frames as rt
from rt_frames import errors
from tests.longer import documented
from tests.longer.model import printed

# a family, a list with the shape of its items, or a dict of shapes
Shape = Any
DAY = dt.datetime(2024, 2, 29)
UNITS = ["s", "ms", "us", "ns"]
ZONES = ["UTC", "Europe/Paris", "Asia/Kolkata"]
# values, and types that hold all of them
FAMILIES: dict[str, tuple[list[Any], list[pa.DataType]]] = {
    "numbers": (
        [0, 1, 2, 100],
        [
            *map(pa.type_for_alias, ["int8", "int16", "int32", "int64"]),
            *map(pa.type_for_alias, ["uint8", "uint16", "uint32", "uint64"]),
            *(pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal128(30, 4)),
        ],
    ),
    "text": (["", "a", "ä", "'"], [pa.string(), pa.large_string(), pa.string_view()]),
    "moments": (
        [DAY, DAY + dt.timedelta(1)],
        [pa.date32(), pa.date64(), *map(pa.timestamp, UNITS)],
    ),
    "zoned": (
        [DAY.replace(tzinfo=dt.UTC)],
        [pa.timestamp(unit, zone) for unit in UNITS[1:] for zone in ZONES],
    ),
    "times": (
        [dt.time(1), dt.time(2, 3)],
        [*map(pa.time32, UNITS[:2]), *map(pa.time64, UNITS[2:])],
    ),
    "spans": ([dt.timedelta(1)], [*map(pa.duration, UNITS)]),
    "bytes": ([b"abc", b"\0\xff'"], [pa.binary(), pa.large_binary(), pa.binary(3)]),
    "bools": ([True, False], [pa.bool_()]),
}
NAMES = ["a", "b", "c", "d", "e f", "é", "select", "A"]
TABLES = ["t", "a b", "é", "100%", "x?y#z", "x+y&z", "日本", "a:b", "%41", "A"]
FRAMES = ["pandas", "ArrowDtype", "Polars"]
SOURCES = ["LazyFrame", "Table", "dataset"]
STREAMS = ["batch", "reader", "stream", "items"]
PANDAS = FRAMES[:2]


def draw_shape(r: random.Random, depth: int = 0) -> Shape:
    kind = r.choice([*FAMILIES, *(["list", "struct"] if depth < 2 else [])])
    if kind == "list":
        return [draw_shape(r, depth + 1)]
    if kind == "struct":
        names = r.sample("xyz", r.randint(1, 3))
        return {name: draw_shape(r, depth + 1) for name in names}
    return kind


def draw_type(r: random.Random, shape: Shape, depth: int = 0) -> pa.DataType:
    if isinstance(shape, list):
        item = draw_type(r, shape[0], depth + 1)
        if types.is_nested(item):
            # which kind of list is around a struct is not compared
            return pa.large_list(item)
        sizes = [lambda one: pa.list_(one, 2)] if shape == ["numbers"] else []
        return r.choice([pa.list_, pa.large_list, *sizes])(item)
    if isinstance(shape, dict):
        inner = [(name, draw_type(r, one, depth + 1)) for name, one in shape.items()]
        return pa.struct(inner)
    if shape == "text" and not depth and r.random() < 0.4:
        index = r.choice([pa.int8(), pa.int16(), pa.int32()])
        return pa.dictionary(index, r.choice([pa.string(), pa.large_string()]))
    return r.choice(FAMILIES[shape][1])


def draw_value(r: random.Random, shape: Shape, nulls: float) -> Any:
    if r.random() < nulls:
        return None
    if isinstance(shape, list):
        return [draw_value(r, shape[0], nulls) for _ in range(2)]
    if isinstance(shape, dict):
        return {name: draw_value(r, one, nulls) for name, one in shape.items()}
    return r.choice(FAMILIES[shape][0])


def draw_renames(r: random.Random, shapes: dict[str, Shape]) -> dict[str, str]:
    """Draw renames, also in chains and circles, and of fields in structs."""
    old = r.sample([*shapes], r.randint(0, len(shapes)))
    new = r.sample([*shapes, "new", "newer"], len(old))
    names = [dict(zip(old, new, strict=True)).get(one, one) for one in shapes]
    rename = {}
    if len({*names}) == len(names):
        rename = {a: b for a, b in zip(shapes, names, strict=True) if a != b}
    for name, shape in shapes.items():
        if isinstance(shape, dict) and r.random() < 0.4:
            rename[f"{name}.{r.choice([*shape])}"] = "w"
    return rename


def renamed(table: pa.Table, rename: dict[str, str]) -> pa.Table:
    arrays = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = column.combine_chunks()
        if types.is_struct(array.type):
            names = [one.name for one in array.type]
            names = [rename.get(f"{name}.{one}", one) for one in names]
            mask = array.is_null()
            array = pa.StructArray.from_arrays(array.flatten(), names, mask=mask)
        arrays[rename.get(name, name)] = array
    return pa.table(arrays)


def has_circle(rename: dict[str, str]) -> bool:
    def ends(name: str) -> bool:
        for _ in range(len(rename) + 1):
            name = rename.get(name, "")
        return not name

    return not all(map(ends, rename))


class Stream:
    """What any library offers that exports Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self.__arrow_c_stream__ = table.__arrow_c_stream__


def convert(kind: str, table: pa.Table) -> Any:
    """Return a table as a frame of this kind."""
    # NumPy has no nested types
    nested = {
        one: pd.ArrowDtype(one) for one in table.schema.types if types.is_nested(one)
    }
    makers: dict[str, Callable[[], Any]] = {
        "pandas": lambda: table.to_pandas(types_mapper=nested.get),
        "ArrowDtype": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
        "Polars": lambda: pl.from_arrow(table),
        "LazyFrame": lambda: pl.from_arrow(table).lazy(),
        "Table": lambda: table,
        "dataset": lambda: ds.dataset(table),
        "batch": lambda: table.to_batches()[0],
        "reader": lambda: table.to_reader(max_chunksize=2),
        "stream": lambda: Stream(table),
        "items": lambda: (table.slice(at, 2) for at in range(0, table.num_rows, 2)),
    }
    return makers[kind]()


# What the service should hold


def exported(kind: str, table: pa.Table) -> pa.Table:
    """Return what a library itself exports, in the types of the README."""
    frame = convert(kind, table)
    if kind in PANDAS:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    elif kind in ("Polars", "LazyFrame"):
        table = frame.lazy().collect().to_arrow()
    fields = []
    for field in table.schema:
        arrow = sent(field.type)
        if kind in PANDAS and types.is_string(arrow):
            arrow = pa.large_string()
        if kind == "pandas" and types.is_dictionary(arrow):
            arrow = pa.dictionary(pa.int32(), pa.large_string())
        fields.append(field.with_type(arrow))
    arrays = [
        documented.cast(column.combine_chunks(), field.type)
        for column, field in zip(table.columns, fields, strict=True)
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def sent(arrow: pa.DataType) -> pa.DataType:
    if types.is_struct(arrow):
        return pa.struct([one.with_type(sent(one.type)) for one in arrow])
    if types.is_fixed_size_list(arrow):
        return pa.list_(sent(arrow.value_type), arrow.list_size)
    if types.is_large_list(arrow):
        return pa.large_list(sent(arrow.value_type))
    if types.is_list(arrow):
        return pa.list_(sent(arrow.value_type))
    if types.is_dictionary(arrow):
        return pa.dictionary(pa.int32(), sent(arrow.value_type))
    return pa.large_string() if arrow == pa.string_view() else arrow


def is_same(have: pa.Table, want: pa.Table) -> bool:
    """Compare names, types, nullability and values, in order."""
    fields = [field.remove_metadata() for field in have.schema]
    rows = [printed(row) for row in have.to_pylist()]
    return pa.schema(fields) == want.schema.remove_metadata() and rows == [
        printed(row) for row in want.to_pylist()
    ]


# What is refused, whatever the service does

DF = pl.DataFrame({"n": [1]})
MORE = DF.with_columns(m=1)
REFUSED: dict[str, Callable[[str], Any]] = {
    "pandas Series": lambda t: rt.to_table(pd.Series([1], name="n"), t),
    "Polars Series": lambda t: rt.to_table(pl.Series("n", [1]), t),
    "altered by a Series": lambda t: rt.alter_table(pl.Series("n", [1]), t, DF),
    "append": lambda t: DF.remote.to_table(t, if_exists="append"),
    "upsert": lambda t: DF.remote.to_table(t, if_exists="upsert", on="n"),
    "replace": lambda t: DF.remote.to_table(t, if_exists="replace"),
    "added": lambda t: MORE.remote.alter_table(t, DF, add_columns=True),
    "not added": lambda t: MORE.remote.alter_table(t, DF),
    "dropped": lambda t: DF.remote.alter_table(t, MORE, drop_columns="m"),
    "rewrite": lambda t: DF.cast(pl.Float32).remote.alter_table(t, DF, rewrite=True),
    "no before": DF.remote.alter_table,
    "lossy": lambda t: DF.cast(pl.Float32).remote.alter_table(t, DF),
    "no such rename": lambda t: DF.remote.alter_table(t, DF, rename={"x": "y"}),
    "cast by a rewrite": lambda t: rt.table(t).cast({"n": "float"}, rewrite=True),
    "no changes": lambda t: rt.alter_columns(t, []),
    "changes nothing": lambda t: rt.alter_columns(t, [{"path": "n"}]),
    "no type": lambda t: rt.table(t).cast({"n": "int65"}),
    "delete": lambda t: rt.table(t).delete(pl.col("n") > 0),
    "restore": lambda t: rt.table(t, version=1).restore(),
    "columns": lambda t: rt.table(t).columns,
    "slash": lambda t: DF.remote.to_table(f"{t}/{t}"),
    "no name": lambda _: DF.remote.to_table(""),
    "dots": lambda _: DF.remote.to_table(".."),
    "dot in a column": DF.rename({"n": "n.m"}).remote.to_table,
    "complex": pd.DataFrame({"n": [1j]}).remote.to_table,
    "no type of nulls": pd.DataFrame({"n": [None]}).remote.to_table,
    "Object": pl.DataFrame({"n": [DF]}, {"n": pl.Object}).remote.to_table,
}
METHODS = "to_pandas to_polars to_arrow head scan count history compact drop"
for method in METHODS.split():
    REFUSED[method] = functools.partial(
        lambda method, t: getattr(rt.table(t), method)(), method
    )
# What a status means to a list, a create and an alteration
STATUSES: dict[int, tuple[type[Exception], ...]] = {
    404: (errors.ResponseError, errors.ResponseError, errors.TableNotFoundError),
    409: (errors.ResponseError, errors.TableExistsError, errors.ConflictError),
    **dict.fromkeys((400, 422), (errors.BadRequest,) * 3),
    **dict.fromkeys((401, 403), (errors.AuthenticationError,) * 3),
    **dict.fromkeys((405, 415), (errors.ResponseError,) * 3),
    413: (errors.PayloadTooLarge,) * 3,
    429: (errors.RateLimited,) * 3,
    **dict.fromkeys((500, 503), (errors.ServerError,) * 3),
}


class Round:
    """A table that is stored, altered, listed and refused, each by a drawn accessor."""

    def __init__(self, r: random.Random, service: documented.Service, url: str) -> None:
        self.r = r
        self.service = service
        self.counts: Counter[str] = Counter()
        dialect = r.choice([None, "documented"])
        key = documented.KEY
        self.client = rt.connect(url, api_key=key, dialect=dialect, retries=0)
        self.name = r.choice(TABLES)
        self.shapes = {name: draw_shape(r) for name in r.sample(NAMES, r.randint(1, 5))}
        self.values = {
            name: [draw_value(r, shape, nulls) for nulls in (0, 0.1, 0.1)]
            for name, shape in self.shapes.items()
        }

    def draw_table(self) -> pa.Table:
        """Draw the types of the columns."""
        arrays = {}
        for name, shape in self.shapes.items():
            arrow = draw_type(self.r, shape)
            coded = types.is_dictionary(arrow)
            array = pa.array(self.values[name], arrow.value_type if coded else arrow)
            arrays[name] = array.dictionary_encode().cast(arrow) if coded else array
        return pa.table(arrays)

    def ask(self, call: Callable[[], Any], posts: int = 1) -> Any:
        """Make a call that makes so many changes; return None if that is unknown."""
        before = len(self.service.requests)
        result = None
        try:
            result = call()
        except errors.OutcomeUnknown:
            assert 202 in [one[0] for one in self.service.responses[before:]]
        asked = self.service.requests[before:]
        assert sum(one.startswith("POST") for one in asked) == posts, asked
        return result

    def refuse(self, call: Callable[[], Any], words: str = ".") -> None:
        """Make a call that is refused before anything is sent."""
        before = len(self.service.requests)
        with pytest.raises((ValueError, TypeError), match=words):
            call()
        assert len(self.service.requests) == before

    def create(self) -> None:
        self.kind = self.r.choice([*FRAMES, *FRAMES, *SOURCES, *STREAMS])
        table = self.draw_table()
        frame = self.frame = convert(self.kind, table)
        name = self.name
        calls: dict[str, Callable[[], Any]] = {
            "rt.to_table": lambda: rt.to_table(frame, name),
            "rt.tee": lambda: rt.tee(frame, name),
            "Client.create_table": lambda: self.client.create_table(name, frame),
        }
        if self.kind not in STREAMS:
            calls["skip"] = lambda: self.create_if_missing(frame)
        if self.kind in FRAMES:
            calls["df.remote.to_table"] = lambda: frame.remote.to_table(name)
            calls["df.remote.tee"] = lambda: frame.remote.tee(name)
        if self.kind in (*FRAMES, "LazyFrame"):
            calls["df.pipe"] = lambda: frame.pipe(rt.to_table, name)
        call = self.r.choice([*calls])
        result = self.ask(calls[call])
        self.stored = exported(self.kind, table)
        assert is_same(self.service.tables[name], self.stored)
        schema = self.stored.schema
        self.befores = [schema, dict(zip(schema.names, schema.types, strict=True))]
        if self.kind not in STREAMS:
            self.befores.append(frame)
        if isinstance(result, rt.RemoteTable):
            assert result.schema == self.stored.schema.remove_metadata()
        elif result is not None:
            assert result is frame
        self.counts[call] += 1
        self.counts[f"from {self.kind}"] += 1

    def create_if_missing(self, frame: Any) -> rt.RemoteTable:
        """Create a table; "skip" is refused where a list does not tell what exists."""
        try:
            return rt.to_table(frame, self.name, if_exists="skip")
        except errors.ResponseError:
            assert not self.service.is_plainly_listed
        return rt.to_table(frame, self.name)

    def alter(self) -> None:
        r = self.r
        rename = draw_renames(r, self.shapes)
        later = renamed(self.draw_table(), rename)
        kind = r.choice([*FRAMES, *FRAMES, *SOURCES, "schema"])
        want = exported("Table" if kind == "schema" else kind, later)
        nullable, fields = {}, []
        for field in want.schema:
            name = field.name
            if not want[name].null_count and name not in rename and r.random() < 0.2:
                nullable[name] = False
            fields.append(field.with_nullable(nullable.get(name, True)))
        want = pa.table(want.columns, schema=pa.schema(fields))
        options: dict[str, Any] = {"rename": rename}
        if kind == "schema":
            data: Any = want.schema
            before: Any = self.stored.schema
        else:
            columns = r.sample(later.column_names, later.num_columns)
            data = convert(kind, later.select(columns))
            options["nullable"] = nullable
            before = self.r.choice(self.befores)
        if isinstance(before, pa.Schema):
            before = self.draw_schema(before)
        call, make = self.draw_call(kind, data, before, options)
        is_changed = want.schema != self.stored.schema
        if has_circle(rename):
            self.refuse(lambda: make(lossy=True), "exchange their names")
            call, want = "circle", self.stored
        elif is_changed or "alter_table" in call:
            try:
                self.ask(make, int(is_changed))
            except errors.AlterationError:
                self.refuse(make, "lossy=True")
                self.ask(lambda: make(lossy=True), int(is_changed))
        assert is_same(self.service.tables[self.name], want)
        self.stored = want
        self.counts[call] += 1
        self.counts[f"to {kind}"] += 1

    def draw_schema(self, schema: pa.Schema) -> Any:
        """Pass a schema as it is, or as a file."""
        if self.r.random() < 0.5:
            return schema
        path = Path(self.folder) / "schema"
        path.write_bytes(schema.serialize())
        return path

    def draw_call(
        self, kind: str, data: Any, before: Any, options: dict[str, Any]
    ) -> tuple[str, Callable[..., Any]]:
        name = self.name

        def plan() -> rt.AlterationPlan:
            return rt.plan_alterations(before, data, **options)

        calls: dict[str, Callable[..., Any]] = {
            "rt.alter_table": lambda **lossy: rt.alter_table(
                data, name, before, **options, **lossy
            ),
            "rt.alter_columns": lambda **_: rt.alter_columns(name, plan()),
            "Client.alter_columns": lambda **_: self.client.alter_columns(
                name, [*plan()]
            ),
            "RemoteTable.alter_columns": lambda **_: rt.table(name).alter_columns(
                plan().to_json()["alterations"]
            ),
        }
        if kind in FRAMES:
            calls["df.remote.alter_table"] = lambda **lossy: data.remote.alter_table(
                name, before, **options, **lossy
            )
            calls["df.remote.plan_alterations"] = lambda **_: rt.alter_columns(
                name, data.remote.plan_alterations(before, **options)
            )
        call = self.r.choice([*calls])
        return call, calls[call]

    def step_by_step(self) -> None:
        """Cast, rename and restrict a column by the methods of a handle."""
        at = self.r.randrange(self.stored.num_columns)
        name = self.stored.column_names[at]
        arrow = sent(draw_type(self.r, [*self.shapes.values()][at]))
        if types.is_nested(arrow):
            # its fields may have new names
            arrow = self.stored.schema.field(name).type
        column = documented.cast(self.stored[name].combine_chunks(), arrow)
        field = pa.field("last", arrow, nullable=column.null_count > 0)
        table = rt.table(self.name)
        self.ask(lambda: table.cast({name: arrow}))
        self.ask(lambda: table.rename({name: "last"}))
        self.ask(lambda: table.set_nullable({"last": field.nullable}))
        self.stored = self.stored.set_column(at, field, column)
        assert is_same(self.service.tables[self.name], self.stored)

    def list(self) -> None:
        try:
            names = rt.list_tables()
        except errors.ResponseError:
            assert not self.service.is_plainly_listed
            self.counts["list: refused"] += 1
        else:
            assert sorted(names) == sorted(self.service.tables)
            self.counts["list: read"] += 1

    def fail(self) -> None:
        """Make three calls that the service refuses, each in words of its own."""
        status = self.r.choice([*STATUSES])
        self.service.refuses = status, f"not «this» {documented.KEY}"
        calls: list[Callable[[], Any]] = [
            rt.list_tables,
            lambda: DF.remote.to_table("new"),
            lambda: rt.alter_columns(self.name, {"path": "a", "rename": "b"}),
        ]
        for call, expected in zip(calls, STATUSES[status], strict=True):
            before = len(self.service.responses)
            with pytest.raises(expected) as caught:
                call()
            error = caught.value
            assert (type(error), error.status) == (expected, status)
            assert documented.KEY not in f"{error} {vars(error)} {error.args}"
            body = self.service.responses[before][2].replace(b"\0", b"")
            spellings = ("not «".encode(), b"not \xab", b"not \\u00ab")
            is_said = any(one in body for one in spellings)
            assert ("not «this»" in str(error)) == is_said
        self.service.refuses = None
        self.counts[str(status)] += 1

    def refuse_some(self) -> None:
        for what in self.r.sample([*REFUSED], 5):
            self.refuse(functools.partial(REFUSED[what], self.name))
            self.counts[what] += 1

    def run(self) -> Counter[str]:
        with tempfile.TemporaryDirectory() as self.folder:
            self.create()
            self.alter()
        self.step_by_step()
        self.list()
        self.fail()
        self.refuse_some()
        assert is_same(self.service.tables[self.name], self.stored)
        return self.counts


def run(count: int, seed: int, first: int = 0) -> Counter[str]:
    """Store and alter this many tables. Count the calls."""
    counts: Counter[str] = Counter()
    with documented.serving() as (service, url):
        for number in range(first, first + count):
            r = random.Random(f"{seed} {number}")
            service.draw(r)
            try:
                counts += Round(r, service, url).run()
            except BaseException as error:
                error.add_note(f"accessors.run(1, {seed}, {number})")
                raise
    return counts
