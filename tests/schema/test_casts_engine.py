"""What a plan says of casts and of one request, beside what the engine does."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames import Alteration, AlterationPlan
from tests.schema.test_casts import cast

I32 = pa.int32()
I64 = pa.int64()
TEXT = pa.large_string()
POINT = pa.struct([("x", I32), ("y", I32)])

SCALARS = [
    *map(pa.type_for_alias, ["bool", "int8", "int64", "uint16"]),
    *map(pa.type_for_alias, ["float16", "float32", "float64"]),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(4)),
    *(pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("us", "UTC")),
    *(pa.time32("s"), pa.time64("ns"), pa.duration("s"), pa.duration("us")),
    *(pa.decimal128(10, 2), pa.decimal256(40, 4)),
    *(pa.null(), POINT, pa.dictionary(I32, TEXT), pa.dictionary(I32, I64)),
]
LISTED = [
    *(I32, I64, pa.float32(), pa.string(), TEXT, pa.bool_()),
    *(pa.date32(), pa.timestamp("us"), pa.binary(4), POINT),
]
FIXED = [
    pa.list_(I32, 3),
    pa.list_(pa.field("item", I32, nullable=False), 2),
    pa.list_(pa.field("x", I32), 2),
]
TYPES = [*SCALARS, *FIXED]
for item in LISTED:
    TYPES += [pa.list_(item), pa.large_list(item), pa.list_(item, 2)]


def as_it_is(arrow: pa.DataType) -> dict:
    """Spell a type. Of an Arrow type, `rt.data_type` would change the items' field."""
    said = rt.data_type(arrow)
    if arrow in FIXED:
        item = arrow.value_field
        said["fields"][0] |= {"name": item.name, "nullable": item.nullable}
    return said


def a_row(arrow: pa.DataType) -> pa.Array:
    if arrow in FIXED:
        return pa.array([[1] * arrow.list_size], arrow)
    return pa.nulls(1, arrow)


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.long)])
def test_the_marks_are_what_the_real_engine_does(tmp_path, step):
    lance = pytest.importorskip("lance")
    wrong = []
    for i, before in enumerate(TYPES):
        where = str(tmp_path / str(i))
        lance.write_dataset(pa.table({"c": a_row(before)}), where)
        for after in TYPES[i % step :: step]:
            if after == before:
                continue
            table = lance.dataset(where, version=1)
            table.restore()
            try:
                table.alter_columns({"path": "c", "data_type": after})
                done = table.schema.field("c").type == after
            except OSError:
                done = False
            refused = cast(before, as_it_is(after)).refused
            if done != ("would" in (refused or "") or refused is None):
                wrong.append((str(before), str(after), done))
    assert wrong == []


def rename(path: str, new: str, data_type: pa.DataType | None = None) -> Alteration:
    return Alteration(path, rename=new, data_type=data_type)


CAST_C = Alteration("c", data_type="int64")
NO_NULLS = Alteration("a", nullable=False)
NO_NULLS_CAST = Alteration("a", nullable=False, data_type="int64")
NULLS = Alteration("n", nullable=True)
NULLS_CAST = Alteration("n", nullable=True, data_type="int64")
TOGETHER = {  # alterations that one request takes
    "a swap": [rename("a", "b"), rename("b", "a")],
    "a chain": [rename("a", "b"), rename("b", "d")],
    "a rename to a new name, and a cast": [rename("a", "d"), CAST_C],
    "rename and cast of one column": [rename("a", "d", I64)],
    "a swap, both cast": [rename("a", "b", I64), rename("b", "a", I64)],
    "a cast chain onto a name that moves": [rename("a", "b", I64), rename("b", "d")],
    "nulls allowed and cast of one column": [NULLS_CAST],
    "fields renamed, both cast": [rename("s.x", "p", I64), rename("s.y", "q", I64)],
}
APART = {
    "a swap and another cast": [rename("a", "b"), rename("b", "a"), CAST_C],
    "a swap, one cast": [rename("a", "b", I64), rename("b", "a")],
    "a chain and another cast": [rename("a", "b"), rename("b", "d"), CAST_C],
    "no nulls, and another cast": [NO_NULLS, CAST_C],
    "no nulls and cast of one column": [NO_NULLS_CAST],
    "nulls allowed, and another cast": [NULLS, CAST_C],
    "fields swapped, both cast": [rename("s.x", "y", I64), rename("s.y", "x", I64)],
    "nested swap and a cast": [rename("s.x", "y"), rename("s.y", "x"), CAST_C],
}

FULL = pa.field("n", I32, nullable=False)
SCHEMA = pa.schema([("a", I32), ("b", I32), ("c", I32), FULL, ("s", POINT)])
ROW = {"a": 1, "b": 2, "c": 3, "n": 4, "s": {"x": 5, "y": 6}}


def altered(path: Path, requests: list[list[dict]]) -> pa.Table | None:
    """Let the engine carry out requests on a new table, one after the other."""
    lance = pytest.importorskip("lance")
    table = lance.write_dataset(pa.Table.from_pylist([ROW], SCHEMA), str(path))
    try:
        for request in requests:
            table.alter_columns(*map(for_lance, request))
    except OSError:
        return None
    return table.to_table()


def for_lance(alteration: dict) -> dict:
    one = dict(alteration)
    if "rename" in one:
        one["name"] = one.pop("rename")
    if "data_type" in one:
        one["data_type"] = rt.arrow_type(one["data_type"])
    return one


def one_by_one(body: list[dict]) -> list[list[dict]]:
    """Cast in a first request, and do all else in a second one."""
    casts = []
    others = []
    for one in body:
        rest = dict(one)
        data_type = rest.pop("data_type", None)
        if data_type is not None:
            casts.append({"path": one["path"], "data_type": data_type})
        if len(rest) > 1:
            others.append(rest)
    return [request for request in (casts, others) if request]


@pytest.mark.parametrize("alterations", TOGETHER.values(), ids=TOGETHER)
def test_what_one_request_takes_the_real_engine_takes(tmp_path, alterations):
    plan = AlterationPlan(alterations)
    body = plan.to_json()["alterations"]
    at_once = altered(tmp_path / "at once", [body])
    assert len(plan.requests()) == 1
    assert at_once is not None
    assert at_once == altered(tmp_path / "one by one", one_by_one(body))


@pytest.mark.parametrize("alterations", APART.values(), ids=APART)
def test_what_one_request_does_not_take_the_real_engine_does_not(tmp_path, alterations):
    pytest.importorskip("lance")
    from tests.support.local import STRICT_MERGES

    plan = AlterationPlan(alterations)
    body = plan.to_json()["alterations"]
    right = altered(tmp_path / "one by one", one_by_one(body))
    assert len(plan.requests()) > 1
    assert right is not None
    if STRICT_MERGES:
        assert altered(tmp_path / "at once", [body]) != right
