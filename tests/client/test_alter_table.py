"""`alter_table` by name, every morning: what it refuses, and what it has done.

A table is recognised by its name alone if its service can describe it: here a folder,
or another address.
"""

from __future__ import annotations

import datetime
import uuid

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import AlterationError, BadRequest, UnsupportedTypeError
from tests.client.test_displays import seen_in
from tests.schema.test_data_types import MAPS, RECORDED

AT = datetime.datetime(2024, 5, 1, 10, 0, 0, 123456)
STORED = pl.DataFrame(
    {
        "qty": [1, 300],
        "price": [0.1, 1e300],
        "at": [AT, None],
        "day": [AT.date(), None],
        "tag": ["a", "b"],
    }
)
RENAME = {"qty": "quantity"}
CUT = STORED.cast({"price": pl.Float32, "at": pl.Datetime("ms")}, strict=False)


@pytest.fixture(autouse=True)
def client(tmp_path):
    with rt.connect(tmp_path / "tables") as client:
        yield client


@pytest.fixture
def table():
    """Yesterday's table, in a folder."""
    return STORED.remote.to_table("t")


def create(values: list, arrow: pa.DataType) -> rt.RemoteTable:
    """Make a table of one column, c."""
    return rt.to_table(pa.table({"c": pa.array(values, arrow)}), "t")


def stored(table: rt.RemoteTable) -> lance.LanceDataset:
    return lance.dataset(f"{table.client}/t.lance")


def columns_of(table: rt.RemoteTable) -> dict[str, list]:
    return stored(table).to_table().to_pydict()


def test_what_would_change_stored_values_is_refused_column_by_column(table):
    told = r"'price' \(.*'at' \(.*nothing was sent.*lossy=True"
    with pytest.raises(AlterationError, match=told):
        CUT.remote.alter_table("t")
    assert columns_of(table) == STORED.to_dict(as_series=False)
    altered = CUT.remote.alter_table("t", lossy=True)
    assert altered.version == 2
    assert columns_of(table)["at"] == [AT.replace(microsecond=123000), None]


@pytest.mark.parametrize("lossy", [False, True])
def test_what_the_engine_refuses_is_refused_even_where_losses_are_allowed(table, lossy):
    after = STORED.cast({"day": pl.Datetime("us")})
    with pytest.raises(AlterationError, match=r"day: .*rewrite=True.*2 rows, "):
        after.remote.alter_table("t", lossy=lossy)
    assert stored(table).version == 1


HOPELESS = [
    ([1], pa.int64(), pa.binary()),
    ([1], pa.int64(), pa.list_(pa.int64())),
    ([{"x": 1}], pa.struct({"x": pa.int64()}), pa.string()),
    ([[("k", 1)]], pa.map_(pa.string(), pa.int64()), pa.int64()),
    ([[1]], pa.list_(pa.int64()), pa.list_(pa.binary())),
    ([True], pa.bool_(), pa.date32()),
    ([datetime.time(1)], pa.time64("us"), pa.timestamp("us")),
]


@pytest.mark.parametrize(("values", "before", "after"), HOPELESS, ids=str)
def test_a_rewrite_is_offered_for_no_cast_that_it_does_not_make(values, before, after):
    create(values, before)
    with pytest.raises(AlterationError, match="a rewrite cannot cast 'c';"):
        rt.alter_table({"c": after}, "t")
    with pytest.raises(AlterationError, match="a rewrite cannot cast 'c';"):
        rt.alter_table({"c": after}, "t", rewrite=True)


FITTING = [
    ([1], pa.int64(), pa.string()),
    (["1.50"], pa.string(), pa.decimal128(5, 2)),
    (["09:30"], pa.string(), pa.time64("us")),
    ([True], pa.bool_(), pa.int8()),
    ([[1, 2]], pa.list_(pa.int64()), pa.list_(pa.float64(), 2)),
    ([[1]], pa.large_list(pa.int64()), pa.list_(pa.string())),
    (["5"], pa.dictionary(pa.int32(), pa.string()), pa.int64()),
]


@pytest.mark.parametrize(("values", "before", "after"), FITTING, ids=str)
def test_a_rewrite_that_is_offered_is_made(values, before, after):
    table = create(values, before)
    with pytest.raises(AlterationError, match="rewrite=True"):
        rt.alter_table({"c": after}, "t")
    rt.alter_table({"c": after}, "t", rewrite=True)
    assert stored(table).schema.field("c").type == after


LISTS = [
    (pa.list_(pa.int64()), pa.large_list(pa.int64())),
    (pa.large_list(pa.int64()), pa.list_(pa.int64())),
    (pa.list_(pa.list_(pa.int64())), pa.list_(pa.large_list(pa.int64()))),
]


@pytest.mark.parametrize(("before", "after"), LISTS, ids=str)
def test_the_kind_of_a_list_is_a_change_of_frames_as_of_schemas(before, after):
    table = create([[], None], before)
    frame = pa.table({"c": pa.array([[]], after)})
    by_frame = rt.plan_alterations(table, frame)
    assert by_frame == rt.plan_alterations(table, frame.schema)
    rt.alter_table(frame, "t")
    assert stored(table).schema.field("c").type == after
    assert columns_of(table) == {"c": [[], None]}


def alter_by_plan(before: pl.DataFrame, after: pl.DataFrame) -> None:
    rt.alter_columns("t", after.remote.plan_alterations(before))


def alter_by_cast(before: pl.DataFrame, after: pl.DataFrame) -> None:
    plan = after.remote.plan_alterations(before)
    rt.table("t").cast({change.path: change.data_type for change in plan})


@pytest.mark.parametrize("alter", [alter_by_plan, alter_by_cast])
def test_every_call_refuses_what_the_engine_refuses_in_the_same_words(table, alter):
    after = pl.DataFrame(schema={**STORED.schema, "day": pl.Datetime("us")})
    with pytest.raises(AlterationError, match=r"day.*nothing was sent") as by_table:
        after.remote.alter_table("t")
    with pytest.raises(AlterationError) as refused:
        alter(STORED, after)
    assert str(refused.value) == str(by_table.value)
    assert stored(table).version == 1


def test_the_first_call_of_a_client_is_offered_a_rewrite_as_well(table):
    plan = rt.plan_alterations({"qty": "int64"}, {"qty": "float64"})
    fresh = rt.connect(f"{table.client}", default=False)
    with pytest.raises(AlterationError, match=r"pass rewrite=True .*2 rows, "):
        fresh.alter_columns("t", plan)


def test_a_cast_is_judged_by_the_type_that_the_table_has_now(table):
    assert table.schema.field("qty").type == pa.int64()
    STORED.cast({"qty": pl.String}).remote.alter_table("t", rewrite=True)
    table.cast({"qty": "utf8"})
    assert stored(table).schema.field("qty").type == pa.string()


def test_changes_that_the_engine_makes_one_by_one_are_made_one_by_one(table):
    after = STORED.cast({"qty": pl.Int32})
    nullable = {"qty": False, "tag": False}
    assert after.remote.alter_table("t", nullable=nullable).version == 3
    assert after.remote.alter_table("t", nullable=nullable).version is None
    assert stored(table).schema.field("qty") == pa.field("qty", pa.int32(), False)
    assert columns_of(table)["qty"] == [1, 300]


PAIRS = pl.DataFrame({"a": [1], "b": [2], "c": [3], "s": [{"x": 4, "y": 5}]})
EXCHANGES = [
    ({"a": "b", "b": "a"}, {}),
    ({"a": "b", "b": "c", "c": "a"}, {"before": PAIRS}),
    ({"s.x": "y", "s.y": "x"}, {"rewrite": True}),
]


@pytest.mark.parametrize(("rename", "options"), EXCHANGES, ids=str)
def test_exchanged_names_are_refused_as_a_second_call_would_change_them_back(
    rename, options
):
    table = PAIRS.remote.to_table("t")
    with pytest.raises(AlterationError, match=r"exchange their names.*third name"):
        PAIRS.remote.alter_table("t", rename=rename, **options)
    assert stored(table).version == 1
    assert table.rename(rename).version == 2  # does as it is told


def test_names_that_move_on_are_no_exchange():
    table = PAIRS.remote.to_table("t")
    rename = {"a": "b", "b": "d"}
    after = PAIRS.rename(rename)
    after.remote.alter_table("t", rename=rename)
    after.remote.alter_table("t", rename=rename)
    assert stored(table).to_table().to_pylist() == after.to_dicts()


OPTIONS = {"rename": RENAME, "nullable": {"quantity": False}}
LATER = [
    {"rename": RENAME, "nullable": {"qty": False}},
    {"rename": RENAME},
    {**OPTIONS, "before": STORED},
]


@pytest.mark.parametrize("options", LATER)
def test_a_second_call_changes_nothing_and_says_so(table, options):
    today = STORED.rename(RENAME).cast({"quantity": pl.Int32, "tag": pl.Categorical})
    for part in today.remote.plan_alterations(table, **OPTIONS).requests():
        rt.alter_columns("t", part)
    assert stored(table).version == 3
    assert not today.remote.plan_alterations(rt.table("t"), **OPTIONS)
    again = today.remote.alter_table("t", **options)
    assert "nothing to alter" in repr(again)
    assert "nothing to alter" in seen_in(again).words
    assert stored(table).version == 3


def test_casts_to_the_types_that_columns_have_change_nothing(table):
    types = {field.name: field.type for field in stored(table).schema}
    again = rt.table("t").cast(types)
    assert "nothing to alter" in repr(again)
    assert stored(table).version == 1
    both = rt.Alteration("qty", rename="quantity", data_type=types["qty"])
    renamed = rt.table("t").alter_columns(both)
    assert list(map(str, renamed._changed)) == ["qty: renamed to quantity"]
    assert stored(table).schema.names[0] == "quantity"


def test_a_name_that_is_dropped_and_taken_takes_the_two_calls_that_are_told(table):
    today = STORED.drop("price").rename({"qty": "price"})
    options = {"rename": {"qty": "price"}, "drop_columns": ["price"]}
    words = "make two calls: first drop 'price', with a frame without it and without"
    with pytest.raises(ValueError, match=words):
        today.remote.alter_table("t", **options)
    today.drop("price").remote.alter_table("t", drop_columns=["price"])
    today.remote.alter_table("t", rename={"qty": "price"})
    assert stored(table).to_table()["price"].to_pylist() == STORED["qty"].to_list()


def test_what_is_half_done_is_finished(table):
    table.cast({"qty": "int32"})
    today = STORED.rename(RENAME).cast({"quantity": pl.Int32})
    today.remote.alter_table("t", STORED, rename=RENAME)
    assert stored(table).schema.field("quantity").type == pa.int32()


FIRST = {"a": 1, "b": "x", "o": {"i": 1, "l": [{"x": 1}]}}
LATER_ROW = {"b": 1, "c": "x", "outer": {"inner": 1, "l": [{"y": 1}]}}
CHAIN = {"b": "c", "a": "b", "o": "outer", "o.i": "inner", "o.l.item.x": "y"}


def test_renames_in_a_chain_and_inside_structs_are_known_as_done():
    table = rt.to_table(pa.Table.from_pylist([FIRST]), "t")
    after = pa.Table.from_pylist([LATER_ROW])
    plan = rt.plan_alterations(table, after, rename=CHAIN)
    assert [one.path for one in plan] == ["b", "a", "o.i", "o.l.item.x", "o"]
    rt.alter_columns("t", plan)
    assert columns_of(table) == after.to_pydict()
    assert not rt.plan_alterations(rt.table("t"), after, rename=CHAIN)


def test_a_table_that_is_neither_before_nor_after_is_named_with_its_differences(table):
    table.cast({"qty": "int16"})
    with pytest.raises(AlterationError, match="qty: int16 to int32"):
        STORED.cast({"qty": pl.Int32}).remote.alter_table("t", STORED)
    assert stored(table).version == 2


def test_a_rename_that_is_the_wrong_way_round_is_named_as_such(table):
    today = STORED.rename(RENAME)
    wrong = {"quantity": "qty"}
    with pytest.raises(AlterationError, match=r"pass rename={'qty': 'quantity'}"):
        rt.plan_alterations(table, today, rename=wrong)


@pytest.mark.parametrize("name", ["qty", "quantity"])
def test_nullable_takes_old_and_new_names(name):
    today = STORED.rename(RENAME)
    nullable = {name: False}
    plan = today.remote.plan_alterations(STORED, rename=RENAME, nullable=nullable)
    change = {"path": "qty", "rename": "quantity", "nullable": False}
    assert plan.to_json() == {"alterations": [change]}


def test_nullable_does_not_take_both_names_of_a_column():
    today = STORED.rename(RENAME)
    both = {"qty": False, "quantity": False}
    with pytest.raises(AlterationError, match="'qty'"):
        today.remote.plan_alterations(STORED, rename=RENAME, nullable=both)


def test_a_file_that_is_none_or_no_schema_is_named(table, tmp_path):
    (tmp_path / "no.schema").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"no\.schema"):
        STORED.remote.alter_table("t", tmp_path / "no.schema")
    with pytest.raises(FileNotFoundError):
        STORED.remote.alter_table("t", tmp_path / "missing.schema")


KEYED = pd.DataFrame(
    {("price", "max"): [1.5], ("price", "min"): [0.5]},
    index=pd.Index([7], name="key"),
)
CLEAN = {"clean_names": True, "index": False}
MAX_FLOAT = {"price_max": "float32"}
MIN_FLOAT = {"price_min": "float32"}


def test_the_options_of_a_create_mean_the_same_in_plans():
    created = KEYED.remote.to_table("t", dtypes=MAX_FLOAT, **CLEAN)
    same = KEYED.remote.alter_table("t", dtypes=MAX_FLOAT, **CLEAN)
    first, second = KEYED.remote.plan_alterations(created, dtypes=MIN_FLOAT, **CLEAN)
    assert created.schema.names == ["price_max", "price_min"]
    assert same.version is None
    assert str(first) == "price_max: float to double"
    assert str(second) == "price_min: double to float"


def test_an_option_that_does_not_fit_the_table_or_frame_is_refused_in_plans():
    created = KEYED.remote.to_table("t", **CLEAN)
    told = "the table and the frame have different columns; only in the frame: 'key'; "
    with pytest.raises(AlterationError, match=told):
        KEYED.remote.alter_table("t", clean_names=True)
    with pytest.raises(ValueError, match=r"dtypes: .*nope"):
        KEYED.remote.alter_table("t", dtypes={"nope": "int8"}, **CLEAN)
    with pytest.raises(ValueError, match="index: "):
        pl.DataFrame({"price_max": [1.5]}).remote.plan_alterations(created, index=True)


def test_the_order_of_a_dictionary_is_no_difference_as_none_is_stored():
    codes = pa.array([1, 0, None], pa.int32())
    words = pa.array(["a", "b"], pa.large_string())
    ordered = pa.DictionaryArray.from_arrays(codes, words, ordered=True)
    inside = pa.StructArray.from_arrays([ordered], names=["x"])
    frame = pa.table({"c": ordered, "s": inside})
    created = rt.to_table(frame, "t")
    assert created.schema == stored(created).schema
    assert rt.table("t").schema == stored(created).schema
    assert not rt.plan_alterations(created, frame)
    assert not rt.plan_alterations(frame, rt.table("t"))


def test_what_changed_is_shown_and_a_handle_is_never_stale(table):
    assert table.schema.field("qty").type == pa.int64()
    qty = rt.Alteration("qty", rename="n", data_type="int32")
    altered = table.alter_columns([qty, rt.Alteration("tag", rename="k")])
    told = "qty: renamed to n, int64 to int32; tag: renamed to k"
    assert told in repr(altered)
    assert told in seen_in(altered).words
    assert table.schema.field("n").type == pa.int32()
    today = STORED.rename({"qty": "n", "tag": "k"}).cast({"n": pl.Int16})
    today.remote.alter_table("t", table)
    assert table.schema.field("n").type == pa.int16()


def test_a_table_that_others_wrote_may_hold_columns_that_could_not_be_sent(client):
    lance.write_dataset(pa.table({"c": pa.nulls(2), "n": [1, 2]}), f"{client}/t.lance")
    assert rt.alter_table({"n": "int8"}, "t").version == 2
    with pytest.raises(AlterationError, match="'c'"):
        rt.alter_table({"n": "int8", "c": "string"}, "t")


UUIDS = pa.array([bytes(range(16))], pa.uuid())
MOMENT = pa.array([0], pa.timestamp("us", "+00:00"))
STORED_AS = {  # types that libraries read as others
    "text": pa.array(["a"]),
    "codes": pa.array(["a"]).dictionary_encode(),
    "long codes": pa.array([1]).dictionary_encode(),
    "offset": MOMENT,
    "seconds": pa.array([0], pa.timestamp("s")),
    "span": pa.array([0], pa.duration("s")),
    "time": pa.array([0], pa.time32("s")),
    "bytes": pa.array([b"a"]),
    "fixed": pa.array([b"ab"], pa.binary(2)),
    "blobs": pa.array([[b"ab", b"cd"]], pa.list_(pa.binary(2), 2)),
    "half": pa.array([0.5], pa.float16()),
    "map": pa.array([[("k", "v")]], pa.map_(pa.string(), pa.string())),
    "who": pa.array([{"x": "a", "at": b"ab"}]),
    "id": UUIDS,
    "ids": pa.StructArray.from_arrays([UUIDS], ["id"]),
    "doc": pa.array(["{}"], pa.json_(pa.string())),
    "shorts": pa.array([[1]], pa.list_(pa.int8())),
    "n": pa.array([1]),
}
READ_AND_CAST = {
    "pandas": lambda table: table.to_pandas().astype({"n": "int32"}),
    "Polars": lambda table: table.to_polars().cast({"n": pl.Int32}),
    "query": lambda table: table.scan().cast({"n": pl.Int32}),
    "Arrow": lambda table: cast_in_arrow(table.to_arrow()),
}


def cast_in_arrow(rows: pa.Table) -> pa.Table:
    number = rows.column_names.index("n")
    return rows.set_column(number, "n", rows["n"].cast(pa.int32()))


@pytest.mark.parametrize("read", READ_AND_CAST.values(), ids=READ_AND_CAST)
@pytest.mark.parametrize("rewrite", [False, True])
def test_of_a_frame_that_was_read_only_what_was_cast_is_changed(read, rewrite):
    table = rt.to_table(pa.table(STORED_AS), "t")
    before = stored(table).schema
    altered = rt.alter_table(read(table), "t", rewrite=rewrite)
    assert list(map(str, altered._changed)) == ["n: int64 to int32"]
    number = before.get_field_index("n")
    assert stored(table).schema == before.set(number, pa.field("n", pa.int32()))


INSIDE = {"id": pl.Binary, "doc": pl.String, "ids": pl.Struct({"id": pl.Binary})}


def test_what_uuids_and_json_are_inside_is_no_change_of_them():
    table = rt.to_table(pa.table({name: STORED_AS[name] for name in INSIDE}), "t")
    before = stored(table).schema
    after = rt.alter_table(pl.DataFrame(schema=INSIDE), "t", rewrite=True)
    assert "nothing to alter" in repr(after)
    assert stored(table).schema == before


TEXTS_OF_MAPS = [
    pa.map_(pa.string(), pa.string()),
    pa.map_(pa.large_string(), pa.string()),
    pa.map_(pa.large_string(), pa.list_(pa.struct({"x": pa.large_string()}))),
    pa.map_(pa.string(), pa.large_list(pa.struct({"x": pa.string()}))),
]


@pytest.mark.parametrize("after", TEXTS_OF_MAPS, ids=str)
@pytest.mark.parametrize("before", TEXTS_OF_MAPS, ids=str)
def test_the_layout_of_what_is_in_maps_is_no_difference(before, after):
    rt.to_table(pa.schema({"m": before, "l": pa.list_(before)}).empty_table(), "t")
    schema = pa.schema({"m": after, "l": pa.list_(after)})
    if (before in TEXTS_OF_MAPS[:2]) == (after in TEXTS_OF_MAPS[:2]):
        assert rt.alter_table(schema, "t").version is None
        return
    with pytest.raises((AlterationError, UnsupportedTypeError), match="'m'"):
        rt.alter_table(schema, "t")


BELOW_0 = -880_000_000


CUTS = [
    (pa.timestamp("ns"), pa.timestamp("s"), "nanoseconds .* towards 1970"),
    (pa.timestamp("ns", "UTC"), pa.timestamp("s", "UTC"), "towards 1970"),
    (pa.duration("ns"), pa.duration("s"), "nanoseconds .* towards 0"),
]


@pytest.mark.parametrize(("before", "after", "direction"), CUTS)
def test_a_lossy_cast_of_what_is_below_0_cuts_as_the_refusal_says(
    before, after, direction
):
    table = create([BELOW_0, -BELOW_0], before)
    frame = {"c": after}
    with pytest.raises(AlterationError, match=direction):
        rt.alter_table(frame, "t")
    rt.alter_table(frame, "t", lossy=True)
    found = stored(table).to_table()["c"].cast(pa.int64())
    assert found.to_pylist() == [0, 0]


ID = "00010203-0405-0607-0809-0a0b0c0d0e0f"
ID_BYTES = uuid.UUID(ID).bytes
CATEGORY = pa.dictionary(pa.int32(), pa.string())


SPECIAL = [
    (ID, pa.string(), pa.uuid(), ID_BYTES),
    (ID_BYTES, pa.binary(), pa.uuid(), ID_BYTES),
    (ID_BYTES, pa.binary(16), pa.uuid(), ID_BYTES),
    ("[1]", pa.string(), pa.json_(), "[1]"),
    ("[1]", pa.large_string(), pa.json_(pa.large_string()), "[1]"),
    ("true", CATEGORY, pa.json_(), "true"),
    (7, pa.int64(), pa.json_(), "7"),
]


@pytest.mark.parametrize(("value", "before", "after", "read"), SPECIAL)
def test_a_column_becomes_uuids_or_json_by_a_rewrite(value, before, after, read):
    table = create([value, None], before)
    frame = {"c": after}
    with pytest.raises(AlterationError, match="rewrite=True"):
        rt.alter_table(frame, "t")
    rt.alter_table(frame, "t", rewrite=True)
    found = stored(table).to_table()["c"].chunk(0)
    assert found.type.extension_name == after.extension_name
    assert found.storage.to_pylist() == [read, None]


def test_text_that_is_no_json_does_not_become_json():
    table = rt.to_table(pa.table({"c": ["[1]", "x"]}), "t")
    with pytest.raises(BadRequest, match=r"JSON 'x'.*nothing was stored"):
        rt.alter_table(pa.schema({"c": pa.json_()}), "t", rewrite=True)
    assert table.to_arrow()["c"].to_pylist() == ["[1]", "x"]


def test_what_polars_reads_otherwise_is_renamed_beside_a_cast():
    fields = {"time": pa.time64("us"), "n": pa.int64()}
    table = rt.to_table(pa.schema(fields).empty_table(), "kinds")
    rename = {"time": "clock"}
    own = table.to_polars().rename(rename).cast({"n": pl.Int8})
    plan = rt.plan_alterations(table, own, rename=rename)
    assert [str(one) for one in plan] == ["time: renamed to clock", "n: int64 to int8"]


RECORDED_TYPES = [arrow for arrow, _ in [*RECORDED, *MAPS] if arrow != pa.null()]
STORABLE = [
    *RECORDED_TYPES,
    pa.dictionary(pa.int32(), pa.int64()),
    pa.list_(pa.time64("us")),
    pa.struct([("x", pa.date64()), ("y", pa.int8())]),
]
EVERY = pa.table({str(n): pa.nulls(2, arrow) for n, arrow in enumerate(STORABLE)})


def test_every_type_is_known_again():
    table = rt.to_table(EVERY, "t")
    assert not rt.plan_alterations(table, EVERY)
    assert not rt.plan_alterations(rt.table("t"), table.schema)


READ_BY = {
    "to_polars": lambda table, columns: table.to_polars(columns=columns),
    "scan": lambda table, columns: table.scan().select(columns),
    "schema": lambda table, columns: table.to_polars(columns=columns).schema,
}


@pytest.mark.parametrize("read", READ_BY.values(), ids=READ_BY)
def test_every_type_as_polars_reads_it_is_no_change_of_the_tables(read):
    table = rt.to_table(EVERY, "t")
    with pytest.raises(UnsupportedTypeError) as refused:
        table.to_polars()
    readable = [
        name for name in EVERY.column_names if name not in refused.value.columns
    ]
    own = read(table, readable)
    assert len(readable) > 30
    assert not rt.plan_alterations(table, own)
    table.alter_columns(rt.AlterationPlan(dropped=[*refused.value.columns]))
    assert rt.alter_table(own, "t", rewrite=True).version is None


def test_a_list_of_frames_leaves_times_that_polars_reads_as_they_are(client, name):
    times = pa.array([1], pa.time64("us"))
    table = client.create_table(name, pa.table({"t": times}))
    frame = pl.DataFrame({"t": [datetime.time(0, 0, 0, 1)]})
    for data in (frame, [frame]):
        assert "nothing to alter" in repr(rt.alter_table(data, name, client=client))
    assert table.schema.field("t").type == times.type


@pytest.mark.parametrize("name", ["t", "u"], ids=["same name", "renamed"])
def test_a_type_that_is_asked_for_is_a_change_even_if_polars_reads_the_column_so(name):
    table = rt.to_table(pa.table({"t": pa.nulls(1, pa.time64("us"))}), "times")
    rename = {} if name == "t" else {"t": name}
    own = table.to_polars().rename(rename)
    plan = rt.plan_alterations(table, own, dtypes={name: "time64[ns]"}, rename=rename)
    exact = rt.plan_alterations(table, own.to_arrow().schema, rename=rename)
    assert plan[0].data_type == pa.time64("ns")
    assert exact[0].data_type == pa.time64("ns")


def test_only_the_field_that_changed_is_cast_inside_a_struct():
    fields = pa.struct({"at": pa.time64("us"), "n": pa.int64()})
    table = rt.to_table(pa.schema({"s": fields}).empty_table(), "structs")
    after = pl.Schema({"s": pl.Struct({"at": pl.Time, "n": pl.Int32})})
    plan = rt.plan_alterations(table, after)
    assert [str(one) for one in plan] == ["s.n: int64 to int32"]
