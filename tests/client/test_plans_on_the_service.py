"""A plan, applied to a real table: it becomes what was asked for, or stays exactly what it was."""

from __future__ import annotations

import itertools
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import rt_frames as rt
from rt_frames.errors import AlterationError, BadRequest
from tests.support.compare import lance
from tests.support.examples import uploading

number = itertools.count()

FAMILIES = [
    [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32()],
    [pa.float16(), pa.float32(), pa.float64()],
    [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.large_string())],
    [pa.binary(), pa.large_binary()],
    [pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ms", "UTC")],
    [pa.time32("s"), pa.time64("us")],
    [pa.duration("s"), pa.duration("ns")],
    [pa.decimal128(10, 2), pa.decimal128(12, 2), pa.decimal256(30, 2)],
]
Pair = tuple[pa.DataType, pa.DataType]


def either(family: list[pa.DataType]) -> st.SearchStrategy[Pair]:
    return st.tuples(st.sampled_from(family), st.sampled_from(family))


leaves = st.sampled_from(FAMILIES).flatmap(either)
names = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=3, unique=True)


def structs(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.dictionaries(st.sampled_from("xyz"), inner, min_size=1, max_size=3).map(
        lambda fields: tuple(pa.struct([(name, pair[side]) for name, pair in fields.items()]) for side in (0, 1))
    )


lists = st.sampled_from(FAMILIES[:1] + FAMILIES[1:2]).flatmap(either).map(lambda pair: tuple(map(pa.list_, pair)))
columns = leaves | structs(leaves) | lists | structs(structs(leaves))


def empty(arrow: pa.DataType) -> pa.Array:
    """Make two rows that every cast of a family takes."""
    return pa.nulls(2, arrow)


def created(client, schema: pa.Schema) -> str:
    name = f"plan_{next(number)}"
    client.create_table(name, pa.table([empty(arrow) for arrow in schema.types], schema=schema))
    return name


def table(service, name: str) -> lance.LanceDataset:
    return lance.dataset(str(Path(service.root) / f"{name}.lance"))


@uploading
@given(data=st.data(), old=names)
def test_the_table_has_the_schema_of_after_and_a_second_plan_is_empty(client, service, data, old):
    pairs = [data.draw(columns) for _ in old]
    new = data.draw(st.permutations(old) | st.just([f"{name}_new" for name in old]))
    before = pa.schema([(name, pair[0]) for name, pair in zip(old, pairs, strict=True)])
    after = pa.schema([(name, pair[1]) for name, pair in zip(new, pairs, strict=True)])
    plan = rt.plan_alterations(before, after, rename={o: n for o, n in zip(old, new, strict=True) if o != n})
    assume(not any(one.refused for one in plan))
    name = created(client, before)
    for request in plan.requests():
        client.alter_columns(name, request)
    found = table(service, name).schema
    assert found.names == after.names
    assert found.types == after.types
    assert not rt.plan_alterations(found, after)


def test_a_plan_that_the_engine_takes_in_two_requests_alone_says_how_to_send_them(client, service):
    before = pl.DataFrame({"a": [1], "b": [2]})
    name = before.remote.to_table(f"plan_{next(number)}", client=client).name
    after = before.cast({"a": pl.Int32})
    with pytest.raises(BadRequest, match=rf"plan_alterations.*requests\(\) .* rt.alter_columns\('{name}', …\)$"):
        after.remote.alter_table(name, before, nullable={"b": False}, client=client)
    for part in after.remote.plan_alterations(before, nullable={"b": False}).requests():
        rt.alter_columns(name, part, client=client)
    assert table(service, name).schema == pa.schema([("a", pa.int32()), pa.field("b", pa.int64(), nullable=False)])


@pytest.mark.parametrize("zone", ["Europe/Berlin", "+05:30"])
def test_a_zone_that_is_dropped_leaves_utcs_clock_as_the_plan_says(client, service, zone):
    local = pd.DataFrame({"at": pd.to_datetime(["2024-07-01 12:00", "2024-01-01 00:30", None])})
    zoned = local.assign(at=local["at"].dt.tz_localize(zone))
    name = f"plan_{next(number)}"
    zoned.remote.to_table(name, client=client)
    with pytest.raises(AlterationError, match=r"at: clock times in .* would become UTC's"):
        local.remote.alter_table(name, zoned, client=client)
    local.remote.alter_table(name, zoned, client=client, lossy=True)
    assert table(service, name).to_table()["at"].to_pylist() == pa.array(zoned["at"].dt.tz_convert(None)).to_pylist()
    zoned.remote.alter_table(name, local, client=client, lossy=True)  # which takes the values for the zone's own clock
    assert table(service, name).to_table()["at"].to_pylist() != pa.array(zoned["at"]).to_pylist()


@uploading
@given(pair=st.tuples(st.sampled_from(FAMILIES), st.sampled_from(FAMILIES)), index=st.integers(0, 20))
def test_outside_a_family_the_refusal_names_column_and_types_and_nothing_changes(client, service, pair, index):
    assume(pair[0] is not pair[1])
    one, other = (family[index % len(family)] for family in pair)
    assume(not (pa.types.is_timestamp(one) and pa.types.is_time(other)))
    name = created(client, pa.schema([("kept", pa.int8()), ("c", one)]))
    plan = rt.plan_alterations(pa.schema([("c", one)]), pa.schema([("c", other)]))
    assert "refused" in str(plan)
    with pytest.raises(BadRequest) as refused:
        client.alter_columns(name, [rt.Alteration("kept", rename="lost"), *plan])
    for words in ("'c'", str(one), str(other)):
        assert words in str(refused.value)
    assert table(service, name).version == 1
    assert table(service, name).schema.names == ["kept", "c"]


@pytest.mark.parametrize(
    ("values", "cast"), [([1.0, 2.0], "int64"), (["2024-07-01"], "datetime64[us]"), ([1, 2], "str")]
)
def test_a_cast_that_the_engine_never_does_is_done_as_plan_and_refusal_say(client, service, values, cast):
    before = pd.DataFrame({"a": values})
    name, after = f"plan_{next(number)}", before.astype(cast)
    before.remote.to_table(name, client=client)
    offered = "store all rows anew, cast, under a new name"
    assert offered in str(after.remote.plan_alterations(before))
    with pytest.raises(
        AlterationError, match=r"all \d rows? can be read, cast exactly|neither read rows back.*so store all"
    ):
        after.remote.alter_table(name, before, client=client)
    with pytest.raises(BadRequest, match=offered):
        rt.alter_columns(name, after.remote.plan_alterations(before), client=client)
    after.remote.to_table(f"{name}_new", client=client)
    with rt.connect(service.root, default=False) as folder:
        after.remote.to_table(name, client=folder, if_exists="replace")
    for stored in (name, f"{name}_new"):
        assert table(service, stored).schema == after.remote.schema


@pytest.mark.parametrize(
    ("nulls", "wanted"), [([1, 2], True), ([1, None], False)], ids=["without nulls", "with a null"]
)
def test_nulls_are_forbidden_only_where_there_are_none(client, service, nulls, wanted):
    name = f"nulls_{wanted}"
    rows = rt.to_table(pa.table({"a": nulls}), name, client=client)
    if wanted:
        rows.set_nullable({"a": False})
    else:
        with pytest.raises(BadRequest, match="'a'"):
            rows.set_nullable({"a": False})
    assert table(service, name).schema.field("a").nullable is not wanted


def test_nulls_that_are_forbidden_already_are_not_forbidden_again(tmp_path):
    frame = pl.DataFrame({"qty": [1, 2]})
    with rt.connect(tmp_path):
        frame.remote.to_table("sales").set_nullable({"qty": False})
        assert not frame.remote.plan_alterations(rt.table("sales"), nullable={"qty": False})
        frame.remote.alter_table("sales", nullable={"qty": False})
        assert rt.table("sales").cast({"qty": "int32"}).version == 3
        frame.cast(pl.Int16).remote.alter_table("sales", nullable={"qty": False})  # one request takes a cast alone
        assert rt.table("sales").schema == pa.schema([pa.field("qty", pa.int16(), nullable=False)])


def test_nullability_is_read_off_two_schemas(client, service):
    before = pa.schema([("a", pa.int64()), pa.field("b", pa.int64(), nullable=False)])
    after = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.int64())])
    client.create_table("off_schemas", pa.table([[1], [2]], schema=before))
    client.alter_columns("off_schemas", rt.plan_alterations(before, after))
    assert table(service, "off_schemas").schema == after


def test_swapped_names_go_in_one_request_and_values_stay_with_their_columns(client, service):
    before = pa.table({"a": [1, 2], "b": ["x", "y"]})
    client.create_table("swap", before)
    after = before.rename_columns(["b", "a"])
    plan = rt.plan_alterations(before, after, rename={"a": "b", "b": "a"})
    assert len(plan.requests()) == 1
    assert client.alter_columns("swap", plan).version == 2
    assert table(service, "swap").to_table() == after


def test_the_fields_of_structs_in_lists_are_renamed_and_cast_by_path(client, service):
    kind = pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))
    client.create_table("inside", pa.table({"l": pa.array([[{"x": 1, "y": "a"}], None], kind)}))
    client.table("inside").rename({"l.item.y": "z"})
    assert table(service, "inside").to_table().to_pydict() == {"l": [[{"x": 1, "z": "a"}], None]}
