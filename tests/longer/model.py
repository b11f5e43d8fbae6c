"""A table in plain Python, and random calls for it with their expected effect.

A `Call` has steps. Each step is one commit. Most calls have one, an append or upsert
that adds columns has two.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import random
import struct
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import types

import rt_frames as rt

NAME = "t"
CATEGORY = pa.dictionary(pa.int32(), pa.large_string())
LIST = pa.large_list(pa.int64())
FAMILIES: dict[str, list[pa.DataType]] = {
    "numbers": [
        *map(pa.type_for_alias, ["int8", "int16", "int32", "int64"]),
        *map(pa.type_for_alias, ["uint8", "uint32", "uint64", "float32", "float64"]),
        *(pa.decimal128(9, 2), pa.decimal128(30, 4)),
    ],
    "text": [pa.string(), pa.large_string(), CATEGORY],
    "dates": [pa.date32(), *map(pa.timestamp, ["s", "ms", "us", "ns"])],
    "times": [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    "binary": [pa.binary(), pa.large_binary()],
    "bool": [pa.bool_()],
    "uuid": [pa.uuid()],
    "list": [LIST],
}
VALUES: dict[str, list[Any]] = {
    "numbers": [0, 1, 2, 3, 4, 5, 6, 7, -1, 100, 200, 300, 70_000, 2**40, 0.5, -2.25],
    "text": ["", "a", "b", "c", "A", "ä", "a\u0308", " ", "1", "x" * 50, "'", "?"],
    "dates": [
        *(dt.date(2024, 2, day) for day in range(20, 30)),
        dt.date(1969, 12, 31),
        dt.datetime(2024, 2, 29, 5),
        dt.datetime(2024, 2, 29, 5, 0, 0, 7000),
        dt.datetime(2024, 2, 29, 5, 0, 0, 7),
    ],
    "times": [*(dt.time(hour) for hour in range(9)), dt.time(1, 2, 3, 4)],
    "binary": [b"", b"\0", b"\xff", b"a", b"A", b"'", b"abc"],
    "bool": [True, False],
    "uuid": [uuid.UUID(int=number) for number in range(8)],
    "list": [[], [1], [1, 2], [None], [2**40]],
}
NAMES = ["a", "b", "c", "d", "e f", "é", "select"]
NAN = float("nan")
_UNITS = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}


class RefusedError(Exception):
    """The call is not possible on this table."""


def family(arrow: pa.DataType) -> str:
    return next(name for name, members in FAMILIES.items() if arrow in members)


def fit(value: Any, arrow: pa.DataType) -> Any:
    """Return a value as a column of this type holds it, if it fits exactly."""
    if value is None:
        return None
    if types.is_integer(arrow):
        return _fit_integer(value, arrow)
    if types.is_floating(arrow):
        return _fit_float(value, arrow)
    if types.is_decimal(arrow):
        return _fit_decimal(value, arrow)
    if types.is_temporal(arrow):
        return _fit_moment(value, arrow)
    if isinstance(value, uuid.UUID) and arrow != pa.uuid():
        return value.bytes
    return value


def _fit_moment(value: Any, arrow: pa.DataType) -> Any:
    if types.is_date(arrow):
        if not isinstance(value, dt.datetime):
            return value
        if value.time() != dt.time():
            raise RefusedError(value)
        return value.date()
    if types.is_timestamp(arrow) and not isinstance(value, dt.datetime):
        return dt.datetime.combine(value, dt.time())
    if value.microsecond % _UNITS[arrow.unit]:
        raise RefusedError(value)
    return value


def _fit_integer(value: Any, arrow: pa.DataType) -> int:
    if value != value or value != int(value):  # noqa: PLR0124
        raise RefusedError(value)
    bits = arrow.bit_width - types.is_signed_integer(arrow)
    least = -(2**bits) if types.is_signed_integer(arrow) else 0
    if not least <= value < 2**bits:
        raise RefusedError(value)
    return int(value)


def _fit_float(value: Any, arrow: pa.DataType) -> float:
    number = float(value)
    if arrow.bit_width == 32:
        (number,) = struct.unpack("f", struct.pack("f", number))
    if number != value and value == value:  # noqa: PLR0124
        raise RefusedError(value)
    return number


def _fit_decimal(value: Any, arrow: pa.DataType) -> Decimal:
    if value != value:  # noqa: PLR0124
        raise RefusedError(value)
    unscaled = Decimal(value).scaleb(arrow.scale)
    if unscaled != int(unscaled) or abs(unscaled) >= 10**arrow.precision:
        raise RefusedError(value)
    return Decimal(int(unscaled)).scaleb(-arrow.scale)


def is_key(arrow: pa.DataType) -> bool:
    return family(arrow) != "list" and not types.is_floating(arrow)


@dataclasses.dataclass(frozen=True)
class Frame:
    """Columns by name, with values and types, and the library of the frame."""

    columns: dict[str, tuple[pa.DataType, list[Any]]]
    library: str

    def __repr__(self) -> str:
        columns = [f"{n}: {t} {v}" for n, (t, v) in self.columns.items()]
        return f"{self.library}({'; '.join(columns)})"

    @property
    def height(self) -> int:
        return len(next(iter(self.columns.values()))[1])

    @property
    def is_stream(self) -> bool:
        return self.library in ("items", "reader", "LazyFrame", "dataset")

    def sent_type(self, name: str) -> pa.DataType:
        """Return the type that a new column has."""
        arrow = self.columns[name][0]
        if self.library == "pandas" and family(arrow) == "text" and arrow != CATEGORY:
            return pa.large_string()
        if self.library not in ("Polars", "LazyFrame"):
            return arrow
        if family(arrow) in ("text", "binary") and arrow != CATEGORY:
            return FAMILIES[family(arrow)][1]
        if types.is_time(arrow):
            return pa.time64("ns")
        return pa.timestamp("ms") if arrow == pa.timestamp("s") else arrow

    def table(self) -> pa.Table:
        arrays = {}
        for name, (arrow, values) in self.columns.items():
            if arrow == pa.uuid():
                stored = [None if one is None else one.bytes for one in values]
                arrays[name] = pa.array(stored, arrow)
            elif pa.types.is_dictionary(arrow):
                # older versions make no dictionary of large text
                plain = pa.array(values, arrow.value_type)
                arrays[name] = plain.dictionary_encode()
            else:
                arrays[name] = pa.array(values, arrow)
        return pa.table(arrays)

    def make(self) -> Any:
        table = self.table()
        match self.library:
            case "items":
                many = max(table.num_rows, 1)
                return (table.slice(at, 1) for at in range(many))
            case "reader":
                return table.to_reader(max_chunksize=2)
            case "Polars":
                return pl.from_arrow(table)
            case "LazyFrame":
                return pl.from_arrow(table).lazy()
            case "pandas":
                return table.to_pandas(types_mapper=pd.ArrowDtype)
            case "dataset":
                return ds.dataset(table)
        return table


@dataclasses.dataclass(frozen=True)
class Model:
    """The contents of a table. Rows have no order."""

    fields: dict[str, pa.Field]
    rows: list[dict[str, Any]]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.fields.values()])

    def counted(self) -> Counter[tuple[str, ...]]:
        """Count rows by their repr: True is not 1, and NaN is NaN."""
        names = [*self.fields]
        return Counter(tuple(printed(row[name]) for name in names) for row in self.rows)

    def is_stored_as(self, table: pa.Table) -> bool:
        """Compare names in their order, types, nullability, nulls and values."""
        rows = table.to_pylist()
        found = Model({field.name: field for field in table.schema}, rows)
        return self.schema == table.schema and self.counted() == found.counted()

    def with_fields(self, fields: list[pa.Field]) -> Model:
        """Return the same rows with these columns. New columns hold nulls."""
        names = [field.name for field in fields]
        rows = [{name: row.get(name) for name in names} for row in self.rows]
        return Model(dict(zip(names, fields, strict=True)), rows)

    def cast(self, name: str, arrow: pa.DataType) -> Model:
        if name not in self.fields:
            raise RefusedError(name)
        fields = dict(self.fields)
        fields[name] = fields[name].with_type(arrow)
        rows = [{**row, name: convert(row[name], arrow)} for row in self.rows]
        return Model(fields, rows)


def convert(value: Any, arrow: pa.DataType) -> Any:
    """Cast as a rewrite does: whole numbers may become text."""
    if isinstance(value, int) and family(arrow) == "text":
        return str(value)
    return fit(value, arrow)


def printed(value: Any) -> str:
    # nanoseconds are pandas' own
    return repr(value.to_pydatetime() if isinstance(value, pd.Timestamp) else value)


Table = Model | None
Step = Callable[[Table], Table]


@dataclasses.dataclass
class Call:
    """A call through a client, and the commits it makes.

    Parameters
    ----------
    text, do, frame : str, callable, Frame
        What it is, and the rows that it sends.
    steps : list of callable
        What each commit makes of the table.
    planned : list of callable, optional
        The commits of a plan that was made before somebody else's commit.
    """

    text: str
    do: Callable[[rt.Client], Any]
    steps: list[Step]
    frame: Frame | None = None
    planned: Sequence[Step] = ()

    def __post_init__(self) -> None:
        self.planned = self.planned or self.steps

    def __repr__(self) -> str:
        return self.text

    def apply(self, table: Table) -> Table:
        for step in self.steps:
            table = step(table)
        return table


def existing(table: Table) -> Model:
    if table is None:
        raise RefusedError("there is no table")
    return table


# What each step does


def created(frame: Frame, keys: list[str] | None = None) -> Model:
    fields = {}
    for name in frame.columns:
        fields[name] = pa.field(name, frame.sent_type(name))
    rows = converted(frame, fields)
    check_keys(rows, fields, keys or [])
    return Model(fields, rows)


def converted(frame: Frame, fields: dict[str, pa.Field]) -> list[dict[str, Any]]:
    """Return a frame's rows in the types of a table."""
    rows: list[dict[str, Any]] = [{} for _ in range(frame.height)]
    for name, (arrow, values) in frame.columns.items():
        field = fields[name]
        has_value = any(value is not None for value in values)
        if has_value and not is_joined(family(arrow), family(field.type)):
            raise RefusedError(name)
        if not field.nullable and None in values:
            raise RefusedError(name)
        for row, value in zip(rows, values, strict=True):
            row[name] = fit(value, field.type)
    return rows


def is_joined(have: str, target: str) -> bool:
    """Return whether a family may join a column. Others take UUIDs for bytes."""
    return have == target or (have, target) == ("uuid", "binary")


def check_keys(rows: list[Any], fields: dict[str, pa.Field], keys: list[str]) -> None:
    for key in keys:
        if key not in fields or not is_key(fields[key].type):
            raise RefusedError(key)
    found = [tuple(row[key] for key in keys) for row in rows] if keys else []
    if any(None in key for key in found) or len(set(found)) < len(found):
        raise RefusedError(found)


def check_columns(frame: Frame, table: Model, *, add_columns: bool = False) -> None:
    lower = {name.lower() for name in table.fields}
    for name in frame.columns:
        if name in table.fields:
            continue
        if not add_columns or name.lower() in lower:
            raise RefusedError(name)
    for field in table.fields.values():
        if not field.nullable and field.name not in frame.columns:
            raise RefusedError(field.name)


def added_to(table: Model, fields: list[pa.Field]) -> Model:
    lower = {name.lower() for name in table.fields}
    missing = []
    for field in fields:
        known = table.fields.get(field.name)
        # a column that is there with that type counts as added
        if known is not None and known.type == field.type:
            continue
        if field.name.lower() in lower:
            raise RefusedError(field.name)
        missing.append(field)
    return table.with_fields([*table.fields.values(), *missing])


def adding_columns_of(frame: Frame, keys: list[str]) -> Step:
    """Return the first commit of an append or upsert with ``add_columns``."""

    def step(table: Table) -> Table:
        if table is None:
            return None
        check_columns(frame, table, add_columns=True)
        # the types alone show it, so it is refused before a column is added
        if any(key not in table.fields for key in keys):
            raise RefusedError(keys)
        names = [name for name in frame.columns if name not in table.fields]
        return added_to(table, [pa.field(n, frame.sent_type(n)) for n in names])

    return step


def appending(frame: Frame) -> Step:
    def step(table: Table) -> Table:
        if table is None:
            return created(frame)
        check_columns(frame, table)
        rows = converted(frame, table.fields)
        nothing = dict.fromkeys(table.fields)
        return Model(table.fields, [*table.rows, *({**nothing, **row} for row in rows)])

    return step


def upserting(frame: Frame, keys: list[str]) -> Step:
    def step(table: Table) -> Table:
        missing = [key for key in keys if key not in frame.columns]
        if missing:
            raise RefusedError(missing)
        if table is None:
            return created(frame, keys)
        check_columns(frame, table)
        rows = converted(frame, table.fields)
        check_keys(rows, table.fields, keys)
        left = {tuple(row[key] for key in keys): row for row in rows}
        matched = set()
        merged = []
        for row in table.rows:
            key = tuple(row[key] for key in keys)
            merged.append({**row, **left.get(key, {})})
            matched.add(key)
        nothing = dict.fromkeys(table.fields)
        for key, row in left.items():
            if key not in matched:
                merged.append({**nothing, **row})
        return Model(table.fields, merged)

    return step


@dataclasses.dataclass(frozen=True)
class Place:
    """The rows whose column has a value, or is null, drawn for a column's type."""

    name: str
    arrow: pa.DataType
    value: Any

    @property
    def expression(self) -> pl.Expr:
        column = pl.col(self.name)
        if self.value is None:
            return column.is_null()
        is_uuid = isinstance(self.value, uuid.UUID)
        return column == pl.lit(self.value.bytes if is_uuid else self.value)

    def holds(self, fields: dict[str, pa.Field]) -> Callable[[Any], bool]:
        """Return the test of a row of a table whose column may have another type."""
        if self.name not in fields:
            raise RefusedError(self.name)
        if self.value is None:
            return lambda row: row[self.name] is None
        arrow = fields[self.name].type
        is_alike = types.is_date(arrow) == types.is_date(self.arrow)
        if family(arrow) != family(self.arrow) or not is_alike:
            raise RefusedError(self.name)
        value = fit(self.value, arrow)
        return lambda row: row[self.name] == value


def replacing_where(frame: Frame, place: Place) -> Step:
    def step(table: Table) -> Table:
        if place.name not in frame.columns:
            raise RefusedError(place.name)
        if table is None:
            new = created(frame)
            table = Model(new.fields, [])
        check_columns(frame, table)
        rows = converted(frame, table.fields)
        holds = place.holds(table.fields)
        if not all(map(holds, rows)):
            raise RefusedError(rows)
        kept = [row for row in table.rows if not holds(row)]
        nothing = dict.fromkeys(table.fields)
        return Model(table.fields, [*kept, *({**nothing, **row} for row in rows)])

    return step


# Random calls


def draw_values(r: random.Random, arrow: pa.DataType, many: int) -> list[Any]:
    """Draw values of a type. Most columns have no value twice."""
    pool = list(VALUES[family(arrow)])
    if types.is_floating(arrow):
        pool.append(NAN)
    held = []
    for value in pool:
        try:
            held.append(fit(value, arrow))
        except RefusedError:
            continue
    if many <= len(held) and r.random() < 0.7:
        values = r.sample(held, many)
    else:
        values = r.choices(held, k=many)
    if r.random() < 0.3:
        values = [None if r.random() < 0.3 else value for value in values]
    return values


def draw_type(r: random.Random) -> pa.DataType:
    names = [*FAMILIES, "numbers", "numbers", "text", "text", "dates"]
    return r.choice(FAMILIES[r.choice(names)])


def draw_frame(r: random.Random, columns: dict[str, pa.DataType]) -> Frame:
    many = r.choice([0, 1, 1, 2, 3, 4, 5])
    drawn = {
        name: (arrow, draw_values(r, arrow, many)) for name, arrow in columns.items()
    }
    libraries = ["Arrow", "items", "reader", "dataset", "pandas"]
    if pa.uuid() not in columns.values():
        libraries += ["Polars", "LazyFrame", "Polars"]
    return Frame(drawn, r.choice(libraries))


def draw_new(r: random.Random) -> Frame:
    names = r.sample(NAMES, r.randint(1, 4))
    return draw_frame(r, {name: draw_type(r) for name in names})


def draw_rows(
    r: random.Random, table: Table, keys: list[str], *, more: bool = False
) -> Frame:
    """Draw a frame for a table: some columns, in any order, of similar types."""
    if table is None:
        return draw_new(r)
    names = [*table.fields]
    if r.random() < 0.5:
        names = r.sample(names, r.randint(1, len(names)))
    names += [key for key in keys if key not in names]
    columns = {}
    for name in r.sample(names, len(names)):
        arrow = table.fields[name].type
        chance = r.random()
        if chance < 0.35:
            arrow = r.choice(FAMILIES[family(arrow)])
        elif chance < 0.4:
            arrow = draw_type(r)
        columns[name] = arrow
    if more or r.random() < 0.05:
        for name in r.sample(NAMES, r.randint(1, 2)):
            new = name.upper() if r.random() < 0.1 else name
            columns.setdefault(new, draw_type(r))
    return draw_frame(r, columns)


def planned_before(table: Table, frame: Frame, steps: list[Step]) -> Sequence[Step]:
    """Return the commits of a call that adds the columns that a table lacked before."""
    if table is None or len(steps) == 1:
        return steps
    names = [name for name in frame.columns if name not in table.fields]
    added = [pa.field(name, frame.sent_type(name)) for name in names]
    return [functools.partial(adding, added=added), steps[-1]]


def draw_append(r: random.Random, table: Table) -> Call:
    more = r.random() < 0.3
    frame = draw_rows(r, table, [], more=more)
    steps = [appending(frame)]
    if more:
        steps.insert(0, adding_columns_of(frame, []))

    def do(client: rt.Client) -> Any:
        options = {"if_exists": "append", "add_columns": more}
        return client.create_table(NAME, frame.make(), **options)

    planned = planned_before(table, frame, steps)
    return Call(f"append {frame}, add_columns={more}", do, steps, frame, planned)


def draw_upsert(r: random.Random, table: Table, *, most_keys: int = 2) -> Call:
    more = r.random() < 0.3
    keys = []
    if table is not None:
        good = [f.name for f in table.fields.values() if is_key(f.type)]
        names = good or [*table.fields]
        if r.random() < 0.05:
            names = [*table.fields]
        keys = r.sample(names, min(r.choice([1, 1, most_keys]), len(names)))
    frame = draw_rows(r, table, keys, more=more)
    if table is None or r.random() < 0.03:
        keys = r.sample([*frame.columns], 1)
    steps = [upserting(frame, keys)]
    if more:
        steps.insert(0, adding_columns_of(frame, keys))

    def do(client: rt.Client) -> Any:
        options = {"if_exists": "upsert", "on": keys, "add_columns": more}
        return client.create_table(NAME, frame.make(), **options)

    planned = planned_before(table, frame, steps)
    return Call(
        f"upsert {frame}, on={keys}, add_columns={more}", do, steps, frame, planned
    )


def draw_place(r: random.Random, fields: dict[str, pa.Field]) -> Place:
    names = [name for name, field in fields.items() if field.type != LIST]
    if not names or r.random() < 0.1:
        name = r.choice([*fields])
        return Place(name, fields[name].type, None)
    name = r.choice(names)
    arrow = fields[name].type
    values = draw_values(r, arrow, 5)
    known = [one for one in values if one is not None and one == one]  # noqa: PLR0124
    return Place(name, arrow, r.choice(known or [None]))


def draw_replace_where(r: random.Random, table: Table) -> Call:
    more = r.random() < 0.2
    frame = draw_rows(r, table, [], more=more)
    fields = {name: pa.field(name, frame.sent_type(name)) for name in frame.columns}
    place = draw_place(r, table.fields if table is not None else fields)
    if r.random() < 0.9:
        same = (place.arrow, [place.value] * frame.height)
        library = "Arrow" if place.arrow == pa.uuid() else frame.library
        frame = Frame({**frame.columns, place.name: same}, library)
    steps = [replacing_where(frame, place)]
    if more:
        steps.insert(0, adding_columns_of(frame, []))

    def do(client: rt.Client) -> Any:
        where = place.expression
        options = {"if_exists": "replace", "where": where, "add_columns": more}
        return client.create_table(NAME, frame.make(), **options)

    planned = planned_before(table, frame, steps)
    return Call(
        f"where {place}: {frame}, add_columns={more}", do, steps, frame, planned
    )


def draw_replace(r: random.Random, table: Model) -> Call:
    return draw_create(r, table, if_exists="replace")


def draw_create(r: random.Random, table: Table, *, if_exists: str = "") -> Call:
    frame = draw_new(r)
    if table is not None and r.random() < 0.5:
        frame = draw_rows(r, table, [])
    if not if_exists:
        if_exists = r.choice(["fail", "skip"] if table is None else ["fail", "replace"])

    def step(now: Table) -> Table:
        if now is not None and if_exists == "fail":
            raise RefusedError("exists")
        return created(frame)

    def do(client: rt.Client) -> Any:
        return client.create_table(NAME, frame.make(), if_exists=if_exists)

    return Call(f"create {frame}, if_exists={if_exists}", do, [step], frame)


def draw_delete(r: random.Random, table: Model) -> Call:
    place = draw_place(r, table.fields)
    # rows of another value, or of any if the place is of nulls
    is_other = r.random() < 0.3
    where = place.expression
    if is_other:
        where = ~where

    def step(now: Table) -> Table:
        now = existing(now)
        holds = place.holds(now.fields)
        kept = []
        for row in now.rows:
            is_null = row[place.name] is None and place.value is not None
            if is_null or holds(row) == is_other:
                kept.append(row)
        return Model(now.fields, kept)

    def do(client: rt.Client) -> Any:
        return client.table(NAME).delete(where)

    return Call(f"delete where {where}", do, [step])


def draw_new_name(r: random.Random, table: Model) -> str:
    taken = {name.lower() for name in table.fields}
    return r.choice([name for name in [*NAMES, "new"] if name not in taken] or ["more"])


def draw_cast_type(
    r: random.Random, arrow: pa.DataType, *, rewrite: bool
) -> pa.DataType:
    """Draw a type to which the engine or a rewrite casts without changing values."""
    if types.is_integer(arrow):
        whole = [one for one in FAMILIES["numbers"] if types.is_integer(one)]
        return r.choice([*FAMILIES["numbers"], *FAMILIES["text"]] if rewrite else whole)
    if arrow == pa.float32() and not rewrite:
        return pa.float64()
    if family(arrow) in ("text", "binary") or rewrite:
        return r.choice(FAMILIES[family(arrow)])
    return arrow


def draw_cast(r: random.Random, table: Model) -> Call:
    name = r.choice([*table.fields])
    arrow = draw_cast_type(r, table.fields[name].type, rewrite=False)

    def step(now: Table) -> Table:
        now = existing(now)
        if name in now.fields and not _is_cast(now.fields[name].type, arrow):
            raise RefusedError(name)
        return now.cast(name, arrow)

    def do(client: rt.Client) -> Any:
        return client.table(NAME).cast({name: arrow})

    return Call(f"cast {name} to {arrow}", do, [step])


def _is_cast(have: pa.DataType, arrow: pa.DataType) -> bool:
    """Return whether a cast is made, or is none: to the type that is there."""
    if have == arrow:
        return True
    if have == pa.uuid():
        return False
    if types.is_integer(have) or types.is_integer(arrow):
        return types.is_integer(have) and types.is_integer(arrow)
    if types.is_decimal(have) or types.is_decimal(arrow):
        return types.is_decimal(have) and types.is_decimal(arrow)
    return family(have) == family(arrow)


def draw_rename(r: random.Random, table: Model) -> Call:
    name = r.choice([*table.fields])
    new = draw_new_name(r, table)

    def step(now: Table) -> Table:
        now = existing(now)
        if name not in now.fields or new in now.fields:
            raise RefusedError(name)
        return renamed(now, {name: new})

    def do(client: rt.Client) -> Any:
        return client.table(NAME).rename({name: new})

    return Call(f"rename {name} to {new}", do, [step])


def renamed(table: Model, names: dict[str, str]) -> Model:
    fields = {}
    for name, field in table.fields.items():
        new = names.get(name, name)
        fields[new] = field.with_name(new)
    rows = [{names.get(n, n): value for n, value in row.items()} for row in table.rows]
    return Model(fields, rows)


def draw_nullable(r: random.Random, table: Model) -> Call:
    name = r.choice([*table.fields])
    may = r.random() < 0.4

    def step(now: Table) -> Table:
        now = existing(now)
        if name not in now.fields:
            raise RefusedError(name)
        if not may and any(row[name] is None for row in now.rows):
            raise RefusedError(name)
        fields = {**now.fields, name: now.fields[name].with_nullable(may)}
        return Model(fields, now.rows)

    def do(client: rt.Client) -> Any:
        return client.table(NAME).set_nullable({name: may})

    return Call(f"nullable {name} {may}", do, [step])


def draw_add(r: random.Random, table: Model) -> Call:
    names = r.sample(NAMES, r.randint(1, 2))
    names = [name.upper() if r.random() < 0.1 else name for name in names]
    fields = [pa.field(name, draw_type(r)) for name in names]

    def step(now: Table) -> Table:
        return added_to(existing(now), fields)

    def do(client: rt.Client) -> Any:
        plan = rt.AlterationPlan(added=pa.schema(fields))
        return client.alter_columns(NAME, plan)

    return Call(f"add {fields}", do, [step])


def draw_drop_columns(r: random.Random, table: Model) -> Call:
    names = r.sample([*table.fields], r.randint(1, min(2, len(table.fields))))

    def step(now: Table) -> Table:
        now = existing(now)
        left = [field for name, field in now.fields.items() if name not in names]
        if not left or not {*names} <= {*now.fields}:
            raise RefusedError(names)
        return now.with_fields(left)

    def do(client: rt.Client) -> Any:
        return client.alter_columns(NAME, rt.AlterationPlan(dropped=names))

    return Call(f"drop columns {names}", do, [step])


def altered(
    now: Model, schema: pa.Schema, rename: dict[str, str], drop: list[str]
) -> Model:
    """Give a table the columns of a schema, and drop some; others stay as they are.

    Columns that are already dropped or renamed count as done.
    """
    names = {}
    for old, new in rename.items():
        if old in now.fields and new in now.fields:
            raise RefusedError(new)
        if old in now.fields:
            names[old] = new
    now = renamed(now, names)
    for field in schema:
        if field.name in now.fields:
            now = now.cast(field.name, field.type)
            now = Model({**now.fields, field.name: field}, now.rows)
    now = added_to(now, [field for field in schema if field.name not in now.fields])
    return dropped(now, drop)


def carried_out(
    now: Table, casts: dict[str, pa.DataType], rename: dict[str, str]
) -> Model:
    """Make the changes of a plan; columns that it does not name stay as they are."""
    now = existing(now)
    missing = {*casts, *rename} - {*now.fields}
    if missing:
        raise RefusedError(missing)
    for name, arrow in casts.items():
        now = now.cast(name, arrow)
    return renamed(now, rename)


def adding(now: Table, added: list[pa.Field]) -> Model:
    return added_to(existing(now), added)


def dropped(now: Table, drop: list[str]) -> Model:
    now = existing(now)
    return now.with_fields([f for name, f in now.fields.items() if name not in drop])


def draw_rewrite(r: random.Random, table: Model) -> Call:
    return draw_alter(r, table, rewrite=True)


def draw_alter(r: random.Random, table: Model, *, rewrite: bool | None = None) -> Call:
    """Draw renames, casts, added and dropped columns: one or more commits."""
    if rewrite is None:
        rewrite = r.random() < 0.6
    names = r.sample([*table.fields], len(table.fields))
    rename = {}
    if r.random() < 0.4:
        rename = {names[0]: draw_new_name(r, table)}
    drop = names[-1:] if len(names) > 1 and r.random() < 0.4 else []
    casts = {}
    if r.random() < 0.7:
        have = table.fields[names[0]].type
        arrow = draw_cast_type(r, have, rewrite=rewrite)
        if rewrite or not types.is_integer(arrow) or have.bit_width < arrow.bit_width:
            casts = {names[0]: arrow}
    added = []
    if r.random() < 0.4:
        free = [n for n in NAMES if n not in table.fields and n not in rename.values()]
        added = [pa.field(name, draw_type(r)) for name in free[:1]]
    after = []
    for name, field in table.fields.items():
        if name in drop:
            continue
        new = field.with_type(casts.get(name, field.type))
        after.append(new.with_name(rename.get(name, name)))
    schema = pa.schema([*after, *added])

    def step(now: Table) -> Table:
        return altered(existing(now), schema, rename, drop)

    def do(client: rt.Client) -> Any:
        return rt.alter_table(
            schema,
            NAME,
            client=client,
            rename=rename,
            add_columns=True,
            drop_columns=drop,
            rewrite=rewrite,
        )

    text = f"alter to {schema.to_string()!r}, {rename=}, {drop=}, {rewrite=}"
    planned = [
        functools.partial(carried_out, casts=casts, rename=rename),
        functools.partial(adding, added=added),
        functools.partial(dropped, drop=drop),
    ]
    return Call(text, do, [step], planned=planned)
