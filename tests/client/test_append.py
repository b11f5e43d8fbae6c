"""Rows added to tables: by name, exactly, all or none, and never twice."""

from __future__ import annotations

import ast
import datetime as dt
import re
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rt_frames.errors import (
    AlterationError,
    BadRequest,
    TableExistsError,
    UnsupportedTypeError,
)
from tests.local.test_service import COLUMNS
from tests.support.hosted import Hosted, Table

WHO = pa.struct({"id": pa.int64(), "name": pa.string()})
SCHEMA = pa.schema(
    {
        "n": pa.int32(),
        "x": pa.float32(),
        "s": pa.large_string(),
        "at": pa.timestamp("ms"),
        "day": pa.date32(),
        "k": pa.dictionary(pa.int32(), pa.string()),
        "tags": pa.large_list(pa.int16()),
        "who": WHO,
        "price": pa.decimal128(9, 2),
    }
)
ROW = {
    "n": 1,
    "x": 0.5,
    "s": "a",
    "at": dt.datetime(2020, 1, 1, 5),
    "day": dt.date(2020, 1, 1),
    "k": "b",
    "tags": [1, None],
    "who": {"id": 7, "name": "c"},
    "price": Decimal(1),
}
NOTHING = dict.fromkeys(ROW)
TABLE = pa.Table.from_pylist([ROW], SCHEMA)


def column_of(values: list, arrow: pa.DataType | None = None) -> pa.Table:
    """Make a table of one column, c."""
    return pa.table({"c": pa.array(values, arrow)})


# of the same families, in any order, and some columns alone
OTHER_TYPES = {
    "who": pa.struct({"name": pa.large_string(), "id": pa.int8()}),
    "n": pa.uint64(),
    "x": pa.float64(),
    "s": pa.dictionary(pa.int32(), pa.string()),
    "k": pa.string(),
    "tags": pa.list_(pa.int64()),
    "price": pa.float64(),
    "at": pa.date32(),
}
OTHER = {
    "who": {"name": "d", "id": 8},
    "n": 2,
    "x": 0.25,
    "s": "u",
    "k": "v",
    "tags": [3],
    "price": 1.5,
    "at": dt.date(2020, 1, 2),
}


def test_rows_are_added_by_name_and_what_is_missing_is_null(place, name):
    place.create(name, TABLE)
    other = place.append(name, pa.Table.from_pylist([OTHER], pa.schema(OTHER_TYPES)))
    last = place.append(name, pl.DataFrame({"n": [3], "s": [None]}))
    assert other.created is False
    assert other.version == 2
    assert other.rows == 1
    assert last.created is False
    assert last.version == 3
    assert last.rows == 1
    found = place.read(name)
    assert found.schema == SCHEMA
    midnight = {"at": dt.datetime(2020, 1, 2)}
    added = NOTHING | OTHER | midnight
    assert found.to_pylist() == [ROW, added, NOTHING | {"n": 3}]


JSON = column_of(["1"], pa.json_())
LAYOUTS = [pa.string(), pa.large_string(), pa.string_view()]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_json_is_added_in_any_layout(place, name, layout):
    place.create(name, JSON)
    place.append(name, column_of(["[2]", None], pa.json_(layout)))
    assert place.read(name)["c"].to_pylist() == ["1", "[2]", None]


def test_json_is_refused_for_bytes_by_name(place, name):
    place.create(name, column_of([b"1"]))
    with pytest.raises(UnsupportedTypeError, match=r"column 'c' is .*json"):
        place.append(name, JSON)


def named(name, item, make=pa.list_):
    return make(pa.field(name, item))


ITEM = named("item", pa.int64())
# as Parquet names items
ELEMENT = named("element", pa.int64())
TEXTS = pa.large_list(pa.string())
KEY = pa.field("k", pa.string(), nullable=False)
LISTS = [
    (ITEM, ELEMENT, [1, None]),
    (ELEMENT, ITEM, [1, None]),
    (ITEM, named("element", pa.int64(), pa.list_view), [1]),
    (named("item", ITEM), named("element", ELEMENT), [[1], None]),
    (TEXTS, named("element", pa.string()), ["a"]),
    (pa.list_(pa.int8(), 2), pa.list_(pa.field("element", pa.int8()), 2), [1, 2]),
    (pa.struct({"x": ITEM}), pa.struct({"x": ELEMENT}), {"x": [1]}),
    (pa.map_("string", ITEM), pa.map_("string", ELEMENT), [("a", [1])]),
    (pa.map_("string", "int64"), pa.map_(KEY, pa.field("v", "int64")), [("a", 1)]),
]


@pytest.mark.parametrize(("stored", "sent", "value"), LISTS, ids=str)
def test_lists_fit_a_table_whatever_the_names_of_their_items(
    place, name, stored, sent, value
):
    place.create(name, column_of([value], stored))
    place.append(name, column_of([value, None], sent))
    found = place.read(name)
    assert found["c"].to_pylist() == [value, value, None]
    assert found.schema.field("c").type.equals(stored, check_metadata=True)


UUIDS = pa.array([b"0" * 16, b"1" * 16], pa.uuid())


@pytest.mark.parametrize("items", [pa.array([1, 2]), UUIDS])
def test_coded_lists_and_lists_of_uuids_fit_whatever_the_names_of_their_items(
    place, name, items
):
    ends = pa.array([0, 2], pa.int32())
    item = named("item", items.type)
    element = named("element", items.type)
    plain = pa.ListArray.from_arrays(ends, items, type=item)
    other = pa.ListArray.from_arrays(ends, items, type=element)
    coded = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), other)
    place.create(name, pa.table({"v": plain}))
    place.append(name, pa.table({"v": other if items is UUIDS else coded}))
    first, second = place.read(name)["v"].chunks
    assert first.equals(second)


VECTORS = pa.schema({"e": pa.list_(pa.float32(), 2), "u": pa.uuid()})


def test_vectors_and_uuids_are_added_from_pandas(place, name):
    place.create(name, VECTORS.empty_table())
    identity = uuid.UUID(int=5)
    vectors = [np.array([0.5, 1.5], "f4"), [3.0, 4.0]]
    place.append(name, pd.DataFrame({"e": vectors, "u": [identity, None]}))
    found = place.read(name)
    assert found["e"].to_pylist() == [[0.5, 1.5], [3, 4]]
    assert found["u"].to_pylist() == [identity, None]


@pytest.mark.parametrize("wrong", [[1.0], [0.1, 0.2]], ids=str)
def test_a_vector_of_another_length_or_precision_is_refused(place, name, wrong):
    place.create(name, VECTORS.empty_table())
    with pytest.raises(UnsupportedTypeError, match="column 'e', row 0"):
        place.append(name, pd.DataFrame({"e": [wrong]}))


def test_moments_in_gmt_fit_a_column_without_a_zone_as_those_in_utc_do(place, name):
    moments = pa.array([0], pa.timestamp("us"))
    place.create(name, pa.table({"at": moments}))
    for zone in ("GMT", "UTC"):
        rows = pa.table({"at": moments.cast(pa.timestamp("us", zone))})
        place.create(name, rows, if_exists="append")
    assert place.rows(name, "at") == [{"at": dt.datetime(1970, 1, 1)}] * 3


UNKNOWN = [  # columns that the table lacks, and what is said of them
    (["N"], "no column 'N' (did you mean 'n'?); rename it"),
    (
        ["pricee", "tag"],
        "'pricee' (did you mean 'price'?), 'tag' (did you mean 'tags'?)",
    ),
    (["pricee", "zzz"], "'pricee' (did you mean 'price'?), 'zzz'; "),
]


@pytest.mark.parametrize(("labels", "words"), UNKNOWN)
def test_each_unknown_column_has_its_own_suggestion(place, name, labels, words):
    place.create(name, TABLE)
    with pytest.raises(AlterationError, match=re.escape(words)):
        place.append(name, pl.DataFrame({label: [1] for label in labels}))


UNFIT = {  # columns, and what the refusal names; more in tests/messages.txt
    "a number for text": ({"s": [1]}, "'s' is int64, but large_string in the table"),
    "text for a number": ({"n": ["1"]}, r"pass dtypes={'n': 'int\d+'} to convert it"),
    "a truth for a number": ({"n": [True]}, "'n' is bool.*; give it that type first"),
    "a time for a date": ({"day": [dt.time(5)]}, "'day' is time64"),
    "other fields": ({"who": [{"id": 1, "title": "x"}]}, "'who' is struct"),
    "a long type": ({"n": [{"f" * 80_000: 1}]}, "'n' is struct"),
}


@pytest.mark.parametrize(("columns", "words"), UNFIT.values(), ids=UNFIT)
def test_what_does_not_fit_exactly_is_refused_by_column_before_anything_is_sent(
    place, name, columns, words
):
    place.create(name, TABLE)
    with pytest.raises(UnsupportedTypeError, match=words) as refused:
        place.append(name, pa.table(columns))
    assert len(str(refused.value)) < 800
    assert place.read(name).num_rows == 1


IDS = pa.array([bytes(range(16)), None, bytes(16)], pa.uuid())
DOCS = pa.array(["1", None, "{}"], pa.json_(pa.string()))
KINDS = {name: pa.array(values, arrow) for name, (arrow, values) in COLUMNS.items()}
KINDS = pa.table(KINDS | {"id": IDS, "doc": DOCS})
NAN = pd.DataFrame({name: [float("nan")] * 3 for name in KINDS.column_names})
NOT_A_NUMBER = pa.array([float("nan")], pa.float64(), from_pandas=True)
INSIDE = pa.StructArray.from_arrays([NOT_A_NUMBER, NOT_A_NUMBER], ["x", "y"])
STRUCTS = {"point": INSIDE, "points": pa.ListArray.from_arrays([0, 0], INSIDE)}
RUNS = pa.RunEndEncodedArray.from_arrays([2], pa.nulls(1, pa.int8()))
SHORTS = pa.table(dict.fromkeys(NAN, pa.nulls(2, pa.int8())))
WITHOUT_A_VALUE = {  # and how many rows it has
    "NaN of pandas": (NAN, 3),
    "no rows of pandas": (NAN[:0], 0),
    "numbers of Arrow": (SHORTS, 2),
    "runs": (pa.table(dict.fromkeys(NAN, RUNS)), 2),
    "fields of structs": (pa.table(STRUCTS), 1),
}


@pytest.mark.parametrize(
    ("data", "number"), WITHOUT_A_VALUE.values(), ids=WITHOUT_A_VALUE
)
def test_a_column_without_a_value_fits_every_column(place, name, data, number):
    place.create(name, KINDS)
    place.append(name, data)
    found = place.read(name)
    assert found.schema == KINDS.schema
    assert found[:3].to_pylist() == KINDS.to_pylist()
    added = found[3:].drop_columns(["point", "points"])
    assert added.num_rows == number
    assert set(map(str, added.to_pydict().values())) == {str([None] * number)}


def test_later_items_without_a_value_fit(place, name):
    place.create(name, iter([KINDS, NAN]))
    place.append(name, iter([KINDS, NAN]))
    found = place.read(name).to_pylist()
    nothing = dict.fromkeys(KINDS.column_names)
    assert found == [*KINDS.to_pylist(), *[nothing] * 3] * 2


WRONG = NAN.astype({"day": object})
WRONG.loc[2, "day"] = "a day"


@pytest.mark.parametrize("first", [[], [KINDS], [NAN]], ids=len)
def test_a_later_value_of_another_kind_is_refused_with_nothing_stored(
    place, name, first
):
    place.create(name, KINDS)
    words = r"'day' is large_string.* date32"
    with pytest.raises(UnsupportedTypeError, match=words):
        place.append(name, iter([*first, WRONG]))
    assert place.read(name).num_rows == 3


NO_CATEGORY = pd.DataFrame({"c": pd.Categorical([None, None])})


@pytest.mark.parametrize("value", ["a", 7])
def test_a_category_without_a_value_fits_tables_and_items_of_any_category(
    place, name, value
):
    some = pd.DataFrame({"c": pd.Categorical([value])})
    place.create(name, iter([some, NO_CATEGORY]))
    place.append(name, NO_CATEGORY)
    place.append(name, iter([NO_CATEGORY, some]))
    found = place.read(name)["c"]
    assert pa.types.is_dictionary(found.type)
    assert found.to_pylist() == [value, *[None] * 6, value]


def test_a_first_partition_whose_categories_have_no_value_needs_a_type(place, name):
    dask = pytest.importorskip("dask.dataframe")
    frames = [NO_CATEGORY, pd.DataFrame({"c": pd.Categorical(["a"])})]
    data = dask.from_map(lambda number: frames[number], [0, 1], meta=NO_CATEGORY)
    words = "has no values, so its type is unknown"
    with pytest.raises(UnsupportedTypeError, match=words):
        place.create(name, data)
    place.create(name, data, dtypes={"c": "large_string"})
    assert place.read(name)["c"].to_pylist() == [None, None, "a"]


FOR_POLARS = ["id", "doc", "bytes", "fixed", "vector", "kind"]
READS = {
    "Arrow": lambda table: table.to_arrow(),
    "pandas": lambda table: table.to_pandas(),
    "Polars": lambda table: table.to_polars(columns=FOR_POLARS),
    "the table": lambda table: table,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_what_was_read_is_added_again_by_every_library(place, name, read):
    table = place.create(name, KINDS)
    place.append(name, read(table))
    found = place.read(name).select(FOR_POLARS).to_pylist()
    assert found == KINDS.select(FOR_POLARS).to_pylist() * 2


DAY = dt.datetime(2024, 2, 29, tzinfo=dt.UTC)
AS_TEXT = [  # a column in the table, text that becomes its value, and this value
    (pa.uuid(), str(uuid.UUID(int=5)), uuid.UUID(int=5)),
    (pa.uint64(), "5", 5),
    (pa.float32(), "0.5", 0.5),
    (pa.float16(), "0.5", 0.5),
    (pa.date32(), "2024-02-29", DAY.date()),
    (pa.timestamp("ms", "UTC"), "2024-02-29T00:00:00Z", DAY),
    (pa.time32("s"), "10:00:00", dt.time(10)),
    (pa.decimal128(9, 2), "1.10", Decimal("1.10")),
    (pa.bool_(), "true", True),
]


@pytest.mark.parametrize(("arrow", "text", "value"), AS_TEXT)
def test_text_is_refused_for_other_columns_and_cast_by_dtypes(
    place, name, arrow, text, value
):
    place.create(name, column_of([None], arrow))
    dtypes = {"c": arrow}
    with pytest.raises(UnsupportedTypeError, match="'c' is ") as refused:
        place.append(name, column_of([text]))
    offer = re.search(r"; pass dtypes=(.*) to convert it$", str(refused.value))
    assert offer or arrow == pa.uuid()
    if offer:
        dtypes = ast.literal_eval(offer[1])
    place.append(name, column_of([text]), dtypes=dtypes)
    assert place.read(name)["c"].to_pylist() == [None, value]


HALF = Decimal("0.5")
WIDER = [  # a column of the table, a value, the type that holds both, and the row
    ("int64", 9.5, pa.float64(), "float64", [1.0, 9.5]),
    ("int8", 300, pa.int64(), "int64", [1, 300]),
    ("float32", 0.1, pa.float64(), "float64", [1.0, 0.1]),
    ("int64", HALF, pa.decimal128(9, 2), "decimal128(22, 2)", [1, HALF]),
]


@pytest.mark.parametrize(("stored", "value", "sent", "wider", "values"), WIDER, ids=str)
def test_a_number_that_does_not_fit_shows_the_call_that_changes_the_column(
    place, name, stored, value, sent, wider, values
):
    place.create(name, column_of([1], pa.type_for_alias(stored)))
    with pytest.raises(UnsupportedTypeError, match="row 0") as refused:
        place.append(name, column_of([value], sent))
    line = f'rt.table("{name}").cast({{"c": "{wider}"}}, rewrite=True)'
    assert str(refused.value).endswith(f"change the table's column once: {line}")
    eval(line.replace("rt.table(", "place.table("), {"place": place})
    place.append(name, column_of([value], sent))
    assert place.read(name)["c"].to_pylist() == values


NOT_WIDER = [  # a column of the table, and a value that no type joins with it
    (column_of([0.5]), [2**53 + 1]),
    (column_of(["a"]), [5]),
    (column_of([1]), ["5"]),
    (column_of([1]), [DAY.date()]),
    (column_of([DAY.date()]), [DAY + dt.timedelta(hours=1)]),
]


@pytest.mark.parametrize(("stored", "values"), NOT_WIDER, ids=str)
def test_no_call_that_changes_the_column_is_shown_where_none_would_do(
    place, name, stored, values
):
    place.create(name, stored)
    with pytest.raises(UnsupportedTypeError, match="column 'c'") as refused:
        place.append(name, column_of(values))
    assert ".cast(" not in str(refused.value)
    assert "rewrite" not in str(refused.value)


TEXT_LAYOUTS = [pa.string(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("layout", TEXT_LAYOUTS, ids=str)
def test_numbers_go_into_text_of_any_layout_by_dtypes_and_so_does_text(
    place, name, layout
):
    place.create(name, column_of(["a"], layout))
    for value in (5, "b", None):
        place.append(name, pd.DataFrame({"c": [value]}), dtypes={"c": "string"})
    with pytest.raises(UnsupportedTypeError, match="give it that type first"):
        place.append(name, pd.DataFrame({"c": [5]}))
    assert place.read(name)["c"].to_pylist() == ["a", "5", "b", None]


def test_nulls_for_a_column_that_takes_none_are_refused_with_the_cure(place, name):
    n = pa.field("n", pa.int64(), nullable=False)
    s = pa.field("s", pa.string(), nullable=False)
    place.create(name, pa.schema([n, s]).empty_table())
    missing = pd.DataFrame({"n": [2.0, None], "s": [float("nan")] * 2})
    with pytest.raises(UnsupportedTypeError) as refused:
        place.append(name, missing)
    cures = re.findall(r"in the table: (set_nullable\(.*?\))", str(refused.value))
    assert cures == ["set_nullable({'n': True})", "set_nullable({'s': True})"]
    for cure in cures:
        eval(f"table.{cure}", {"table": place.table(name)})
    place.append(name, missing)
    assert place.read(name)["n"].to_pylist() == [2, None]


def test_a_column_that_must_not_be_null_is_missed_before_a_source_is_read(place, name):
    n = pa.field("n", pa.int64(), nullable=False)
    place.create(name, pa.schema([n, ("s", "string")]).empty_table())
    items = iter([pl.DataFrame({"s": ["a"]}), pl.DataFrame({"s": ["b"]})])
    with pytest.raises(AlterationError, match="are missing: 'n'; add them"):
        place.append(name, items)
    assert next(items)["s"].to_list() == ["b"]


def test_text_that_is_no_json_is_not_to_be_sent_as_text(place, name):
    place.create(name, JSON)
    with pytest.raises(BadRequest, match=r"row 1 .*in a column of text"):
        place.append(name, column_of(["1", "nope"]))
    assert place.read(name).num_rows == 1


@pytest.mark.parametrize("stored", ["float32", "float64"])
def test_a_nan_fits_floats_of_every_size(place, name, stored):
    place.create(name, column_of([0.5], pa.type_for_alias(stored)))
    for sent in (pl.Float32, pl.Float64):
        place.append(name, pl.DataFrame({"c": [float("nan")]}, {"c": sent}))
    assert str(place.read(name)["c"].to_pylist()) == "[0.5, nan, nan]"


def test_the_caller_rounds_by_writing_the_type_which_must_be_that_of_the_table(
    place, name
):
    place.create(name, TABLE)
    place.append(name, pl.DataFrame({"x": [0.1]}), dtypes={"x": "float32"})
    words = "'n' is int16, but int32 in the table; leave it out of dtypes=, or name that type"
    with pytest.raises(UnsupportedTypeError, match=re.escape(words)):
        place.append(name, pl.DataFrame({"n": [1]}), dtypes={"n": "int16"})
    assert place.read(name)["x"][1].as_py() == pytest.approx(0.1)


def test_a_column_that_was_cast_or_renamed_is_no_column_of_nulls(place, name):
    table = place.create(name, TABLE)
    table.cast({"n": "int64"}).rename({"s": "text"})
    place.append(name, pl.DataFrame({"n": [2**40], "text": ["z"]}))
    found = place.read(name).select(["n", "text"]).to_pylist()[1:]
    assert found == [{"n": 2**40, "text": "z"}]


# What a service may do to it


def some(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int32())})


@pytest.fixture
def contested():
    """A service on which a table appears just after it was found to be missing."""
    hosted = Hosted(version=None)

    def somebody_makes_it(step):
        if step == "describe" and not hosted.tables:
            hosted.tables["t"] = Table([[some(1)]])

    hosted.changed = somebody_makes_it
    return hosted


def test_who_loses_the_race_to_make_the_table_appends(contested):
    with contested.connect() as client:
        made = client.create_table("t", some(2), if_exists="append")
    assert made.created is False
    assert made.version == 2
    assert contested.steps == ["describe", "create", "describe", "insert"]


def test_who_loses_it_with_what_is_read_once_is_offered_nothing_but_to_send_it_again(
    contested,
):
    words = "is exhausted: create a new one"
    with (
        contested.connect() as client,
        pytest.raises(TableExistsError, match=words) as raised,
    ):
        client.create_table("t", some(2).to_reader(), if_exists="append")
    assert "if_exists" not in str(raised.value)
    assert contested.tables["t"].rows["n"].to_pylist() == [1]
