"""Plans applied to real tables: the values are those that Arrow's casts give.

If a plan fails, the values are as they were.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
import shutil
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import types

import rt_frames as rt
from rt_frames.errors import AlterationError, BadRequest
from tests.support.compare import lance, stored

AT = [
    dt.datetime(1969, 12, 31, 23, 59, 59),
    dt.datetime(2024, 2, 29, 12),
    dt.datetime(9999, 12, 31),
]
FAMILIES: list[tuple[list[Any], list[pa.DataType]]] = [
    (
        list(range(100)),
        [
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.uint8(),
            pa.uint32(),
            pa.uint64(),
        ],
    ),
    ([0.5 * n for n in range(-9, 100)], [pa.float16(), pa.float32(), pa.float64()]),
    (["", "a", "ä€😀", "x" * 40], [pa.string(), pa.large_string()]),
    ([b"", b"\0\xff"], [pa.binary(), pa.large_binary()]),
    (
        [dt.datetime(1969, 12, 31), *AT[2:]],
        [pa.date32(), pa.timestamp("s"), pa.timestamp("ms", "UTC")],
    ),
    (
        AT,
        [
            pa.timestamp("s"),
            pa.timestamp("us"),
            pa.timestamp("ms", "UTC"),
            pa.timestamp("us", "UTC"),
        ],
    ),
    (
        [dt.timedelta(seconds=n) for n in (-1, 0, 10**6)],
        [pa.duration("s"), pa.duration("us"), pa.duration("ns")],
    ),
    (
        [dt.time(0), dt.time(23, 59, 59)],
        [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    ),
    (
        [decimal.Decimal(n) / 4 for n in range(-9, 9)],
        [pa.decimal128(10, 2), pa.decimal128(12, 4), pa.decimal256(40, 2)],
    ),
    ([True, False], [pa.bool_()]),
]
NAMES = "abcdefg"
Pair = tuple[pa.DataType, pa.DataType]
# each before and after, one column after the other
Fields = list[tuple[pa.Field, pa.Field]]


def fields(r: random.Random, level: int = 0) -> Fields:
    old = r.sample(NAMES, r.randint(1, 4 if level else 6))
    new = list(old)
    for _ in range(r.randint(0, 2)):  # exchanged twice, three are a cycle
        i, k = r.randrange(len(old)), r.randrange(len(old))
        new[i], new[k] = new[k], new[i]
    if r.random() < 0.3:
        new[r.randrange(len(new))] = "new"  # which makes a chain of a cycle
    return [field(r, names, level) for names in zip(old, new, strict=True)]


def field(
    r: random.Random, names: tuple[str, str], level: int
) -> tuple[pa.Field, pa.Field]:
    old, new = pair(r, level)
    nullable = r.random() < 0.9
    # a null around it counts as one of its own
    later = nullable ^ (r.random() < 0.05 and not (level and nullable))
    return pa.field(names[0], old, nullable), pa.field(names[1], new, later)


def pair(r: random.Random, level: int) -> Pair:
    kind = r.random() + level * 0.15
    if kind < 0.35:
        old, new = zip(*fields(r, level + 1), strict=True)
        return pa.struct(old), pa.struct(new)
    if kind < 0.5:
        old, new = pair(r, level + 1)
        return pa.list_(old), pa.list_(new)
    # fields of one family can be mixed up without an error
    _, family = r.choice([FAMILIES[0], r.choice(FAMILIES)])
    return r.choice(family), r.choice(family) if r.random() < 0.6 else family[0]


def value(r: random.Random, old: pa.Field, new: pa.Field) -> Any:
    """Draw a value that a column may hold before and after."""
    if old.nullable and new.nullable and r.random() < 0.2:
        return None
    if types.is_struct(old.type):
        return {
            one.name: value(r, one, other)
            for one, other in zip(old.type, new.type, strict=True)
        }
    if types.is_list(old.type):
        return [
            value(r, old.type.value_field, new.type.value_field)
            for _ in range(r.randrange(4))
        ]
    return r.choice(
        next(values for values, kinds in FAMILIES if {old.type, new.type} <= set(kinds))
    )


def renamed(found: Any, old: pa.DataType, new: pa.DataType) -> Any:
    """Give the fields of a value the names that they have after, wherever they are."""
    if isinstance(found, dict):
        return {
            n.name: renamed(found[o.name], o.type, n.type)
            for o, n in zip(old, new, strict=True)
        }
    if isinstance(found, list):
        return [renamed(one, old.value_type, new.value_type) for one in found]
    return found


def renames(columns: Fields, above: str = "") -> dict[str, str]:
    found = {}
    for old, new in columns:
        path = f"{above}{old.name}"
        found |= {path: new.name} if old.name != new.name else {}
        before, after = old.type, new.type
        while types.is_list(before):
            path, before, after = (
                f"{path}.{before.value_field.name}",
                before.value_type,
                after.value_type,
            )
        if types.is_struct(before):
            found |= renames(list(zip(before, after, strict=True)), f"{path}.")
    return found


def filled(columns: Fields, values: list[list[Any]], side: int) -> pa.Table:
    schema = pa.schema([both[side] for both in columns])
    return pa.table(
        [pa.array(one, field.type) for one, field in zip(values, schema, strict=True)],
        schema,
    )


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 2200), marks=pytest.mark.long)], ids=len
)
def test_the_values_after_a_plan_are_what_arrow_makes_of_them_in_the_new_types(
    tmp_path, seeds
):
    with rt.connect(tmp_path, default=False) as client:
        for seed in seeds:
            r = random.Random(seed)
            columns, rows = fields(r), r.choice([1, 5, 40])
            values = [[value(r, *both) for _ in range(rows)] for both in columns]
            before = filled(columns, values, 0)
            moved = [
                [renamed(one, old.type, new.type) for one in column]
                for column, (old, new) in zip(values, columns, strict=True)
            ]
            after = filled(columns, moved, 1)
            name = rt.to_table(before, f"t{seed}", client=client).name
            for request in rt.plan_alterations(
                before.schema, after.schema, rename=renames(columns)
            ).requests():
                rt.alter_columns(name, request, client=client)
            found = lance.dataset(tmp_path / f"{name}.lance").to_table()
            assert (found.schema, found) == (after.schema, after), f"seed {seed}"
            assert not rt.plan_alterations(found.schema, after.schema), f"seed {seed}"
            shutil.rmtree(tmp_path / f"{name}.lance")


@pytest.fixture
def folder(tmp_path):
    with rt.connect(tmp_path) as client:
        yield client


def dataset(table: rt.RemoteTable) -> lance.LanceDataset:
    return lance.dataset(f"{table.client}/{table.name}.lance")


def test_outside_a_family_the_refusal_names_column_and_types_and_nothing_changes(
    folder,
):
    kinds = [family[-1] for _, family in FAMILIES]
    table = rt.to_table(
        pa.table({"kept": [1], **{str(kind): pa.nulls(1, kind) for kind in kinds}}), "t"
    )
    dates, times = {4, 5}, 7  # the numbers of families
    for number, before in enumerate(kinds):
        for other, after in enumerate(kinds):
            if number == other or (number in dates and other in {*dates, times}):
                continue
            plan = rt.plan_alterations({str(before): before}, {str(before): after})
            assert "refused" in str(plan)
            with pytest.raises(AlterationError) as refused:
                folder.alter_columns("t", [rt.Alteration("kept", rename="lost"), *plan])
            assert all(
                word in str(refused.value)
                for word in (f"{before}: {before}", str(after))
            )
    assert (dataset(table).version, dataset(table).schema.names) == (
        1,
        ["kept", *map(str, kinds)],
    )


def test_a_plan_that_the_engine_takes_in_two_requests_alone_says_how_to_send_them(
    client, service, name
):
    before = pl.DataFrame({"a": [1], "b": [2]})
    after = before.cast({"a": pl.Int32})
    before.remote.to_table(name)
    with pytest.raises(BadRequest, match=rf"requests\(\) .*{name}"):
        after.remote.alter_table(name, before, nullable={"b": False})
    for part in after.remote.plan_alterations(before, nullable={"b": False}).requests():
        rt.alter_columns(name, part)
    assert stored(service, name).schema == pa.schema(
        [("a", pa.int32()), pa.field("b", pa.int64(), nullable=False)]
    )


@pytest.mark.parametrize("zone", ["Europe/Berlin", "+05:30"])
def test_a_zone_that_is_dropped_leaves_utcs_clock_as_the_plan_says(folder, zone):
    local = pd.DataFrame(
        {"at": pd.to_datetime(["2024-07-01 12:00", "2024-01-01 00:30", None])}
    )
    zoned = local.assign(at=local["at"].dt.tz_localize(zone))
    table = zoned.remote.to_table("t")
    with pytest.raises(AlterationError, match="UTC"):
        local.remote.alter_table("t", zoned)
    local.remote.alter_table("t", zoned, lossy=True)
    assert (
        table.to_arrow()["at"].to_pylist()
        == pa.array(zoned["at"].dt.tz_convert(None)).to_pylist()
    )
    # takes the values for the zone's own clock
    zoned.remote.alter_table("t", local, lossy=True)
    assert table.to_arrow()["at"].to_pylist() != pa.array(zoned["at"]).to_pylist()
