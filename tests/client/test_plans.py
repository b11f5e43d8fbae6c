"""Plans applied to real tables: the values are those that Arrow's casts give.

If a plan fails, the values are as they were.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import random
import shutil
from typing import Any

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import types

import rt_frames as rt
from rt_frames.errors import AlterationError, BadRequest
from tests.support.compare import stored

AT = [
    dt.datetime(1969, 12, 31, 23, 59, 59),
    dt.datetime(2024, 2, 29, 12),
    dt.datetime(9999, 12, 31),
]
MIDNIGHTS = [dt.datetime(1969, 12, 31), dt.datetime(9999, 12, 31)]
HALVES = [0.5 * n for n in range(-9, 100)]
QUARTERS = [decimal.Decimal(n) / 4 for n in range(-9, 9)]
SPANS = [dt.timedelta(seconds=n) for n in (-1, 0, 10**6)]
UTC_MS = pa.timestamp("ms", "UTC")
UTC_US = pa.timestamp("us", "UTC")
SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint32(), pa.uint64()]
TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
FAMILIES: list[tuple[list[Any], list[pa.DataType]]] = [
    (list(range(100)), [*SIGNED, *UNSIGNED]),
    (HALVES, [pa.float16(), pa.float32(), pa.float64()]),
    (["", "a", "ä€😀", "x" * 40], [pa.string(), pa.large_string()]),
    ([b"", b"\0\xff"], [pa.binary(), pa.large_binary()]),
    (MIDNIGHTS, [pa.date32(), pa.timestamp("s"), UTC_MS]),
    (AT, [pa.timestamp("s"), pa.timestamp("us"), UTC_MS, UTC_US]),
    (SPANS, [pa.duration("s"), pa.duration("us"), pa.duration("ns")]),
    ([dt.time(0), dt.time(23, 59, 59)], TIMES),
    (QUARTERS, [pa.decimal128(10, 2), pa.decimal128(12, 4), pa.decimal256(40, 2)]),
    ([True, False], [pa.bool_()]),
]
NAMES = "abcdefg"
# before and after
Pair = tuple[pa.DataType, pa.DataType]
Column = tuple[pa.Field, pa.Field]


def fields(r: random.Random, level: int = 0) -> list[Column]:
    old = r.sample(NAMES, r.randint(1, 4 if level else 6))
    new = list(old)
    for _ in range(r.randint(0, 2)):  # exchanged twice, three are a cycle
        i = r.randrange(len(old))
        k = r.randrange(len(old))
        new[i], new[k] = new[k], new[i]
    if r.random() < 0.3:
        new[r.randrange(len(new))] = "new"  # which makes a chain of a cycle
    return [field(r, *names, level) for names in zip(old, new, strict=True)]


def field(r: random.Random, old_name: str, new_name: str, level: int) -> Column:
    old, new = pair(r, level)
    nullable = r.random() < 0.9
    # a null around it counts as one of its own
    later = nullable ^ (r.random() < 0.05 and not (level and nullable))
    return pa.field(old_name, old, nullable), pa.field(new_name, new, later)


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
        both = zip(old.type, new.type, strict=True)
        return {one.name: value(r, one, other) for one, other in both}
    if types.is_list(old.type):
        items = old.type.value_field, new.type.value_field
        return [value(r, *items) for _ in range(r.randrange(4))]
    for values, kinds in FAMILIES:
        if old.type in kinds and new.type in kinds:
            return r.choice(values)
    raise AssertionError(old.type)


def renamed(found: Any, old: pa.DataType, new: pa.DataType) -> Any:
    """Give the fields of a value the names that they have after, wherever they are."""
    if isinstance(found, dict):
        fields = zip(old, new, strict=True)
        return {n.name: renamed(found[o.name], o.type, n.type) for o, n in fields}
    if isinstance(found, list):
        return [renamed(one, old.value_type, new.value_type) for one in found]
    return found


def renames(columns: list[Column], above: str = "") -> dict[str, str]:
    found = {}
    for old, new in columns:
        path = f"{above}{old.name}"
        if old.name != new.name:
            found[path] = new.name
        before = old.type
        after = new.type
        while types.is_list(before):
            path = f"{path}.{before.value_field.name}"
            before = before.value_type
            after = after.value_type
        if types.is_struct(before):
            found |= renames(list(zip(before, after, strict=True)), f"{path}.")
    return found


def draw(r: random.Random, columns: list[Column]) -> tuple[pa.Table, pa.Table]:
    """Draw a table before, and give it as it is to be after."""
    rows = r.choice([1, 5, 40])
    before = []
    after = []
    for old, new in columns:
        values = [value(r, old, new) for _ in range(rows)]
        moved = [renamed(one, old.type, new.type) for one in values]
        before.append(pa.array(values, old.type))
        after.append(pa.array(moved, new.type))
    return (
        pa.table(before, pa.schema([old for old, _ in columns])),
        pa.table(after, pa.schema([new for _, new in columns])),
    )


@pytest.mark.parametrize(
    "seeds", [range(20), pytest.param(range(40, 2200), marks=pytest.mark.long)], ids=len
)
def test_the_values_after_a_plan_are_what_arrow_makes_of_them_in_the_new_types(
    tmp_path, seeds
):
    client = rt.connect(tmp_path, default=False)
    for seed in seeds:
        r = random.Random(seed)
        columns = fields(r)
        before, after = draw(r, columns)
        client.create_table(f"t{seed}", before)
        rename = renames(columns)
        plan = rt.plan_alterations(before.schema, after.schema, rename=rename)
        for request in plan.requests():
            client.alter_columns(f"t{seed}", request)
        found = lance.dataset(tmp_path / f"t{seed}.lance").to_table()
        assert found.schema == after.schema, f"seed {seed}"
        assert found == after, f"seed {seed}"
        assert not rt.plan_alterations(found.schema, after.schema), f"seed {seed}"
        shutil.rmtree(tmp_path / f"t{seed}.lance")


@pytest.fixture
def folder(tmp_path):
    with rt.connect(tmp_path) as client:
        yield client


def dataset(table: rt.RemoteTable) -> lance.LanceDataset:
    return lance.dataset(f"{table.client}/{table.name}.lance")


KINDS = [family[-1] for _, family in FAMILIES if family[-1] != UTC_MS]
# each type, and one of the next family
OUTSIDE = [*itertools.pairwise([*KINDS, KINDS[0]])]


@pytest.mark.parametrize(("before", "after"), OUTSIDE, ids=str)
def test_outside_a_family_the_refusal_names_column_and_types_and_nothing_changes(
    folder, before, after
):
    table = rt.to_table(pa.table({"kept": [1], "c": pa.nulls(1, before)}), "t")
    plan = rt.plan_alterations({"c": before}, {"c": after})
    with pytest.raises(AlterationError) as refused:
        folder.alter_columns("t", [rt.Alteration("kept", rename="lost"), *plan])
    assert f"c: {before}" in str(refused.value)
    assert str(after) in str(refused.value)
    assert dataset(table).version == 1


def test_a_plan_that_the_engine_takes_in_two_requests_alone_says_how_to_send_them(
    client, service, name
):
    before = pl.DataFrame({"a": [1], "b": [2]})
    after = before.cast({"a": pl.Int32})
    nullable = {"b": False}
    before.remote.to_table(name)
    with pytest.raises(BadRequest, match=rf"requests\(\) .*{name}"):
        after.remote.alter_table(name, before, nullable=nullable)
    for part in after.remote.plan_alterations(before, nullable=nullable).requests():
        rt.alter_columns(name, part)
    found = stored(service, name).schema
    assert found.field("a") == pa.field("a", pa.int32())
    assert found.field("b") == pa.field("b", pa.int64(), nullable=False)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "+05:30"])
def test_a_zone_that_is_dropped_leaves_utcs_clock_as_the_plan_says(folder, zone):
    at = pd.Series(pd.to_datetime(["2024-07-01 12:00", "2024-01-01 00:30", None]))
    local = at.to_frame("at")
    zoned = at.dt.tz_localize(zone).to_frame("at")
    in_utc = pa.array(zoned["at"].dt.tz_convert(None))
    table = zoned.remote.to_table("t")
    with pytest.raises(AlterationError, match="UTC"):
        local.remote.alter_table("t", zoned)
    local.remote.alter_table("t", zoned, lossy=True)
    assert table.to_arrow()["at"].to_pylist() == in_utc.to_pylist()
    # takes the values for the zone's own clock
    zoned.remote.alter_table("t", local, lossy=True)
    assert table.to_arrow()["at"].to_pylist() != pa.array(zoned["at"]).to_pylist()
