"""Rows added to tables: by name, exactly, all or none, and never twice."""

from __future__ import annotations

import ast
import contextlib
import datetime as dt
import random
import re
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing.parametric import column, dataframes

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.local.test_service import COLUMNS
from tests.support.compare import lance
from tests.support.examples import uploading
from tests.support.faults import connected
from tests.support.hosted import Hosted, Table

TABLE = pa.table(
    {
        "n": pa.array([1], pa.int32()),
        "x": pa.array([0.5], pa.float32()),
        "s": pa.array(["a"], pa.large_string()),
        "at": pa.array([dt.datetime(2020, 1, 1, 5)], pa.timestamp("ms")),
        "day": pa.array([dt.date(2020, 1, 1)]),
        "k": pa.array(["b"]).dictionary_encode(),
        "tags": pa.array([[1, None]], pa.large_list(pa.int16())),
        "who": pa.array(
            [{"id": 7, "name": "c"}], pa.struct({"id": pa.int64(), "name": pa.string()})
        ),
        "price": pa.array([Decimal(1)], pa.decimal128(9, 2)),
    }
)
UUIDS = pa.ExtensionArray.from_storage(
    pa.uuid(), pa.array([b"0" * 16, b"1" * 16], pa.binary(16))
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A client of a folder."""
    with rt.connect(
        tmp_path_factory.mktemp("append") / "tables", default=False
    ) as client:
        yield client


@pytest.fixture
def table(folder, name):
    return folder.create_table(name, TABLE)


def append(table, data, **options):
    return rt.to_table(
        data, table.name, client=table.client, if_exists="append", **options
    )


def rows(table):
    return lance.dataset(f"{table.client}/{table.name}.lance").to_table()


OTHER_TYPES = pa.table(
    {  # of the same families, in any order, and some columns alone
        "who": pa.array(
            [{"name": "d", "id": 8}],
            pa.struct({"name": pa.large_string(), "id": pa.int8()}),
        ),
        "n": pa.array([2], pa.uint64()),
        "x": [0.25],
        "s": pa.array(["u"]).dictionary_encode(),
        "k": ["v"],
        "tags": pa.array([[3]], pa.list_(pa.int64())),
        "price": pa.array([1.5]),
        "at": pa.array([dt.date(2020, 1, 2)]),
    }
)


def test_rows_are_added_by_name_and_what_is_missing_is_null(table):
    for version, data in enumerate(
        (TABLE, OTHER_TYPES, pl.DataFrame({"n": [3], "s": [None]})), 2
    ):
        made = append(table, data)
        assert (made.created, made.version, made.rows) == (False, version, 1)
    found = rows(table)
    assert found.schema == TABLE.schema
    (row,) = TABLE.to_pylist()
    nothing = dict.fromkeys(TABLE.column_names)
    at = dt.datetime(2020, 1, 2)
    other = {**OTHER_TYPES.to_pylist()[0], "at": at, "day": None}
    assert found.to_pylist() == [row, row, other, {**nothing, "n": 3}]


def test_json_is_added_in_any_layout(folder):
    made = [
        pa.array(["1", None], pa.json_(layout))
        for layout in (pa.string(), pa.large_string(), pa.string_view())
    ]
    table = folder.create_table("j", pa.table({"j": made[0]}))
    for texts in made:
        append(table, pa.table({"j": texts}))
    assert rows(table)["j"].to_pylist() == ["1", None] * 4


def named(name, item, make=pa.list_):
    return make(pa.field(name, item))


@pytest.mark.parametrize(
    "layout", [pa.string(), pa.large_string(), pa.string_view()], ids=str
)
def test_json_in_any_layout_is_a_column_to_add(folder, name, layout):
    table = folder.create_table(name, pa.table({"id": [1]}))
    texts = pa.array(["[1]"], pa.json_(layout))
    append(table, pa.table({"id": [2], "a": texts}), add_columns=True)
    data = pa.table({"id": [2], "b": texts})
    rt.to_table(
        data, name, client=folder, if_exists="upsert", on="id", add_columns=True
    )
    rt.alter_table(pa.table({"c": texts}), name, client=folder, add_columns=True)
    found = rows(table)
    assert found.schema.types == [pa.int64(), *[pa.json_()] * 3]
    assert found.to_pylist()[1] == {"id": 2, "a": "[1]", "b": "[1]", "c": None}


def test_json_is_refused_for_bytes_by_name(folder, name):
    table = folder.create_table(name, pa.table({"b": pa.array([b"1"], pa.binary(1))}))
    with pytest.raises(rt.errors.UnsupportedTypeError, match=r"column 'b' is .*json"):
        append(table, pa.table({"b": pa.array(["1"], pa.json_())}))


ITEM = named("item", pa.int64())
# as Parquet names items
ELEMENT = named("element", pa.int64())


@pytest.mark.parametrize(
    ("stored", "sent", "value"),
    [
        (ITEM, ELEMENT, [1, None]),
        (ELEMENT, ITEM, [1, None]),
        (ITEM, named("element", pa.int64(), pa.list_view), [1]),
        (named("item", ITEM), named("element", ELEMENT), [[1], None]),
        (pa.large_list(pa.string()), named("e", pa.string(), pa.large_list), ["a"]),
        (pa.large_list(pa.string()), named("element", pa.string()), ["a"]),
        (pa.list_(pa.int8(), 2), pa.list_(pa.field("element", pa.int8()), 2), [1, 2]),
        (pa.struct({"x": ITEM}), pa.struct({"x": ELEMENT}), {"x": [1]}),
        (pa.map_("string", ITEM), pa.map_("string", ELEMENT), [("a", [1])]),
        (
            pa.map_(pa.string(), pa.int64()),
            pa.map_(pa.field("k", pa.string(), False), pa.field("v", pa.int64())),
            [("a", 1)],
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("if_exists", ["append", "upsert"])
def test_lists_fit_a_table_whatever_the_names_of_their_items(
    folder, name, stored, sent, value, if_exists
):
    table = folder.create_table(
        name, pa.table({"id": [1], "c": pa.array([value], stored)})
    )
    data = pa.table({"id": [2, 3], "c": pa.array([value, None], sent)})
    on = "id" if if_exists == "upsert" else None
    rt.to_table(data, name, client=folder, if_exists=if_exists, on=on)
    found = rows(table)
    assert found["c"].to_pylist() == [value, value, None]
    assert found.schema.field("c").type.equals(stored, check_metadata=True)


def test_coded_lists_and_lists_of_uuids_fit_whatever_the_names_of_their_items(folder):
    lists = [
        pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), items, type=arrow)
        for items in (pa.array([1, 2]), UUIDS)
        for arrow in (named("item", items.type), named("element", items.type))
    ]
    coded = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), lists[1])
    table = folder.create_table("v", pa.table({"n": lists[0], "u": lists[2]}))
    append(table, pa.table({"n": coded, "u": lists[3]}))
    for chunked in rows(table).columns:
        first, second = chunked.chunks
        assert first.equals(second)


def test_lists_of_items_as_parquet_and_pandas_name_them_follow_each_other(folder):
    first = pd.DataFrame({"tags": [["a"]]})
    file = pa.BufferOutputStream()
    first.to_parquet(file)
    read = pd.read_parquet(pa.BufferReader(file.getvalue()), dtype_backend="pyarrow")
    table = folder.create_table("p", iter([first, read, first]))
    append(table, iter([read, first]))
    append(table, iter([first, read]))
    assert rows(table)["tags"].to_pylist() == [["a"]] * 7


def test_vectors_and_uuids_are_added_from_pandas(folder):
    identity = uuid.UUID(int=5)
    table = pa.table(
        {
            "e": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
            "u": pa.array([bytes(16)], pa.uuid()),
        }
    )
    made = folder.create_table("e", table)
    append(
        made,
        pd.DataFrame(
            {"e": [np.array([0.5, 1.5], "f4"), [3.0, 4.0]], "u": [identity, None]}
        ),
    )
    for wrong in ([1.0], [0.1, 0.2]):
        with pytest.raises(rt.errors.UnsupportedTypeError, match="column 'e', row 0"):
            append(made, pd.DataFrame({"e": [wrong]}))
    found = rows(made)
    assert found.schema.types == table.schema.types
    assert found.to_pydict() == {
        "e": [[1, 2], [0.5, 1.5], [3, 4]],
        "u": [uuid.UUID(int=0), identity, None],
    }


def test_everything_that_is_sent_once_is_added_once(table):
    batches = pa.table({"n": range(10), "s": ["x"] * 10}).to_batches(max_chunksize=3)
    for data in (
        iter(batches),
        pa.table({"n": range(10)}).to_reader(),
        pl.LazyFrame({"n": range(10)}),
        batches,
    ):
        append(table, data)
    assert rows(table)["n"].to_pylist() == [1, *list(range(10)) * 4]


FAMILIES = [
    [pl.Int8, pl.Int32, pl.Int64, pl.UInt64, pl.Float32, pl.Float64],
    [pl.String, pl.Categorical],
    [pl.Date, pl.Datetime("ms"), pl.Datetime("us")],
    [pl.Duration("ms"), pl.Duration("us")],
    [pl.Decimal(20, 2), pl.Decimal(12, 4)],
    [pl.Boolean],
]


@st.composite
def two_frames(draw):
    """Draw a frame, and a second one with some of its columns.

    The second one has them in any order, each in any type of its family.
    """
    families = {name: draw(st.sampled_from(FAMILIES)) for name in "abc"}
    chosen = draw(st.lists(st.sampled_from([*families]), min_size=1, unique=True))
    return [
        draw(
            dataframes(
                [
                    column(name, dtype=draw(st.sampled_from(families[name])))
                    for name in names
                ],
                max_size=4,
            )
        )
        for names in (families, chosen)
    ]


def meant(data: pl.DataFrame | pa.Table) -> list[list[object]]:
    """Return the values by row, with dates as their midnight.

    A column that is missing holds nulls.
    """
    return [
        [_meant(row.get(name)) for name in "abc"] for row in pa.table(data).to_pylist()
    ]


def _meant(value: object) -> object:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime.combine(value, dt.time())
    return "NaN" if value != value else value  # noqa: PLR0124


@uploading
@given(
    two_frames(),
    st.sampled_from(
        [lambda f: f, pl.DataFrame.to_arrow, pl.DataFrame.lazy, lambda f: iter([f])]
    ),
)
def test_whatever_is_appended_comes_back_by_name_or_is_refused_by_row(
    folder, frames, make
):
    first, then = frames
    table = folder.create_table("drawn", first, if_exists="replace")
    wanted = meant(first)
    refusal = None
    try:
        append(table, make(then))
        wanted += meant(then)
    except rt.errors.UnsupportedTypeError as error:
        refusal = str(error)
    assert meant(rows(table)) == wanted
    assert refusal is None or re.search(r"column '[abc]', (item 0, )?row \d+", refusal)


UNFIT = {  # columns, and what the refusal names; more in tests/messages.txt
    "a number for text": ({"s": [1]}, "'s' is int64, but large_string in the table"),
    "text for a number": ({"n": ["1"]}, r"pass dtypes={'n': 'int\d+'} to convert it"),
    "a truth for a number": ({"n": [True]}, "'n' is bool"),
    "a time for a date": ({"day": [dt.time(5)]}, "'day' is time64"),
    "other fields": ({"who": [{"id": 1, "title": "x"}]}, "'who' is struct"),
}


@pytest.mark.parametrize(("columns", "named"), UNFIT.values(), ids=UNFIT)
def test_what_does_not_fit_exactly_is_refused_by_column_before_anything_is_sent(
    table, columns, named
):
    with pytest.raises((TypeError, ValueError), match=named):
        append(table, pa.table(columns))
    assert rows(table).num_rows == 1


DECIMALS = [  # a decimal, and whether halves, floats and doubles hold it
    ("0.5", True, True, True),
    ("-0.125", True, True, True),
    ("0.1", False, False, True),
    ("3.14", False, False, True),
    ("1000.7", False, False, True),
    ("0.0000001", False, False, True),
    ("2048", True, True, True),
    ("2049", False, True, True),
    ("65504", True, True, True),
    ("65520", False, True, True),
    ("16777217", False, False, True),
    ("9007199254740993", False, False, False),
    (str(2**100), False, True, True),
]


@pytest.mark.parametrize(("text", "half", "single", "double"), DECIMALS)
def test_decimals_fit_floats_as_their_doubles_do(
    folder, name, text, half, single, double
):
    data = pa.table({"x": [Decimal(text)], "xs": [[Decimal(text), None]]})
    for arrow, fits in [
        (pa.float16(), half),
        (pa.float32(), single),
        (pa.float64(), double),
    ]:
        schema = pa.schema({"x": arrow, "xs": pa.list_(arrow)})
        table = folder.create_table(name, schema.empty_table(), if_exists="replace")
        if fits:
            append(table, data)
            found = [{"x": float(text), "xs": [float(text), None]}]
            assert rows(table).to_pylist() == found
            continue
        with pytest.raises(rt.errors.UnsupportedTypeError, match="stored exactly"):
            append(table, data)
        assert rows(table).num_rows == 0


IDS = pa.array([bytes(range(16)), None, bytes(16)], pa.uuid())
KINDS = pa.table(
    {
        **{name: pa.array(values, arrow) for name, (arrow, values) in COLUMNS.items()},
        "id": IDS,
        "doc": pa.array(["1", None, "{}"], pa.json_(pa.string())),
    }
)
NAN = pd.DataFrame({name: [float("nan")] * 3 for name in KINDS.column_names})
NULLS = {label: [None] for label in NAN}
NOT_A_NUMBER = pa.array([float("nan")], pa.float64(), from_pandas=True)
INSIDE = pa.StructArray.from_arrays([NOT_A_NUMBER, NOT_A_NUMBER], ["x", "y"])
RUNS = pa.RunEndEncodedArray.from_arrays([2], pa.nulls(1, pa.int8()))
WITHOUT_A_VALUE = {  # and how many rows it has
    "NaN of pandas": (NAN, 3),
    "None of pandas": (NAN.astype(object).where(NAN.notna(), None), 3),
    "no rows of pandas": (NAN[:0], 0),
    "text of Polars": (pl.DataFrame(NULLS, schema=dict.fromkeys(NAN, pl.String)), 1),
    "numbers of Arrow, streamed": (
        pa.table(dict.fromkeys(NAN, pa.nulls(2, pa.int8()))).to_reader(),
        2,
    ),
    "a query": (pl.LazyFrame(NULLS, schema=dict.fromkeys(NAN, pl.Date)), 1),
    "runs": (pa.table(dict.fromkeys(NAN, RUNS)), 2),
    "fields of structs": (
        pa.table({"point": INSIDE, "points": pa.ListArray.from_arrays([0, 0], INSIDE)}),
        1,
    ),
}


@pytest.mark.parametrize(
    ("data", "number"), WITHOUT_A_VALUE.values(), ids=WITHOUT_A_VALUE
)
def test_a_column_without_a_value_fits_every_column(folder, name, data, number):
    table = folder.create_table(name, KINDS)
    append(table, data)
    found = rows(table)
    assert found.schema == KINDS.schema
    assert found[:3].to_pylist() == KINDS.to_pylist()
    added = found[3:].drop_columns(["point", "points"])
    assert added.num_rows == number
    assert set(map(str, added.to_pydict().values())) == {str([None] * number)}


def test_later_items_without_a_value_fit_and_a_value_of_another_kind_is_refused_with_nothing_stored(
    folder, name
):
    table = folder.create_table(name, KINDS)
    append(table, iter([KINDS, NAN]))
    assert rows(table)[:6].to_pylist() == KINDS.to_pylist() * 2
    made = folder.create_table(f"{name}_made", iter([KINDS, NAN]))
    for found in (rows(made), rows(table)[3:]):
        assert found[3:].to_pydict() == {label: [None] * 3 for label in NAN}
    wrong = NAN.astype({"day": object})
    wrong.loc[2, "day"] = "a day"
    for data in (iter([KINDS, wrong]), iter([NAN, wrong]), wrong):
        words = r"'day' is large_string.* date32"
        with pytest.raises(rt.errors.UnsupportedTypeError, match=words):
            append(table, data)
    assert rows(table).num_rows == 9


NO_CATEGORY = pd.DataFrame({"c": pd.Categorical([None, None])})


@pytest.mark.parametrize("value", ["a", 7])
def test_a_category_without_a_value_fits_tables_and_items_of_any_category(
    folder, name, value
):
    some = pd.DataFrame({"c": pd.Categorical([value])})
    table = folder.create_table(name, iter([some, NO_CATEGORY]))
    append(table, NO_CATEGORY)
    append(table, iter([NO_CATEGORY, some]))
    found = rows(table)["c"]
    assert pa.types.is_dictionary(found.type)
    assert found.to_pylist() == [value, *[None] * 6, value]


def test_a_first_partition_whose_categories_have_no_value_needs_a_type(folder, name):
    dask = pytest.importorskip("dask.dataframe")
    frames = [NO_CATEGORY, pd.DataFrame({"c": pd.Categorical(["a"])})]
    data = dask.from_map(lambda number: frames[number], [0, 1], meta=NO_CATEGORY)
    words = "has no values, so its type is unknown"
    with pytest.raises(rt.errors.UnsupportedTypeError, match=words):
        folder.create_table(name, data)
    table = folder.create_table(name, data, dtypes={"c": "large_string"})
    assert rows(table)["c"].to_pylist() == [None, None, "a"]


FROM_POLARS = ["id", "doc", "bytes", "fixed", "vector", "kind"]


def test_what_was_read_is_added_again_by_every_library(folder, name):
    table = folder.create_table(name, KINDS)
    chosen = table.to_polars(columns=FROM_POLARS)
    for data in (table.to_arrow(), table.to_pandas(), chosen, chosen.lazy(), table):
        append(table, data)
    found = rows(table).select(FROM_POLARS)
    # the table itself was added last
    assert found.to_pylist() == found[:3].to_pylist() * 10


AS_TEXT = {  # of a column in the table, and text that becomes it
    "id": (pa.uuid(), str(uuid.UUID(int=5)), uuid.UUID(int=5)),
    "u": (pa.uint64(), "5", 5),
    "x": (pa.float32(), "0.5", 0.5),
    "h": (pa.float16(), "0.5", 0.5),
    "day": (pa.date32(), "2024-02-29", dt.date(2024, 2, 29)),
    "at": (
        pa.timestamp("ms", "UTC"),
        "2024-02-29T00:00:00Z",
        dt.datetime(2024, 2, 29, tzinfo=dt.UTC),
    ),
    "time": (pa.time32("s"), "10:00:00", dt.time(10)),
    "price": (pa.decimal128(9, 2), "1.10", Decimal("1.10")),
    "ok": (pa.bool_(), "true", True),
}


def test_text_is_refused_for_other_columns_and_cast_by_dtypes(folder, name):
    table = folder.create_table(
        name,
        pa.table({label: pa.nulls(1, arrow) for label, (arrow, *_) in AS_TEXT.items()}),
    )
    for label, (arrow, text, _) in AS_TEXT.items():
        dtypes = {label: arrow}
        with pytest.raises(UnsupportedTypeError, match=f"'{label}' is ") as refused:
            append(table, pa.table({label: [text]}))
        offer = re.search(r"; pass dtypes=(.*) to convert it$", str(refused.value))
        assert offer or label == "id"
        if offer:
            dtypes = ast.literal_eval(offer[1])
        append(table, pl.DataFrame({label: [text]}), dtypes=dtypes)
    added = rows(table)[1:].to_pylist()
    found = [row[label] for label, row in zip(AS_TEXT, added, strict=True)]
    assert found == [value for *_, value in AS_TEXT.values()]


@pytest.mark.parametrize(
    "layout",
    [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_numbers_go_into_text_of_any_layout_by_dtypes_and_so_does_text(
    folder, name, layout
):
    table = folder.create_table(name, pa.table({"v": pa.array(["a"]).cast(layout)}))
    for values in ([5], ["b"], [None]):
        append(table, pd.DataFrame({"v": values}), dtypes={"v": "string"})
    with pytest.raises(UnsupportedTypeError, match="give it that type first"):
        append(table, pd.DataFrame({"v": [5]}))
    assert rows(table)["v"].to_pylist() == ["a", "5", "b", None]


@pytest.mark.parametrize(
    "value", [dt.date(2024, 1, 1), dt.timedelta(1), [1], {"x": 1}], ids=str
)
def test_no_dtype_is_offered_where_there_is_no_such_cast(folder, name, value):
    table = folder.create_table(
        name, pa.table({"n": pa.array([1], pa.int8()), "s": ["a"], "id": IDS[:1]})
    )
    for label in table.schema.names:
        if (label, type(value)) != ("s", dt.date):
            words = rf"'{label}' is .* give it that type first"
            with pytest.raises(rt.errors.UnsupportedTypeError, match=words):
                append(table, pa.table({label: [value]}))


def test_nulls_for_a_column_that_takes_none_are_refused_with_the_cure(folder, name):
    fields = [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("s", pa.string(), nullable=False),
    ]
    table = folder.create_table(
        name, pa.table({"n": [1], "s": ["a"]}, pa.schema(fields))
    )
    data = pd.DataFrame({"n": [2.0, None], "s": [float("nan")] * 2})
    with pytest.raises(rt.errors.UnsupportedTypeError) as refused:
        append(table, data)
    for label in ("n", "s"):
        (cure,) = re.findall(
            rf"in the table: (set_nullable\({{'{label}': True}}\))",
            str(refused.value),
        )
        eval(f"table.{cure}", {"table": folder.table(name)})
    append(table, data)
    assert rows(table)["n"].to_pylist() == [1, 2, None]


@pytest.mark.parametrize("arrow", [pa.string(), pa.large_string(), pa.json_()], ids=str)
def test_text_that_is_no_json_is_not_to_be_sent_as_text(folder, name, arrow):
    made = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1"]))
    table = folder.create_table(name, pa.table({"j": made}))
    bad = pa.table({"j": pa.array(["1", "nope"], arrow)})
    with pytest.raises(rt.errors.BadRequest, match=r"row 1 .*in a column of text"):
        append(table, bad)
    assert rows(table).num_rows == 1


def test_the_caller_rounds_by_writing_the_type_which_must_be_that_of_the_table(table):
    append(table, pl.DataFrame({"x": [0.1]}), dtypes={"x": "float32"})
    words = "'n' is int16, but int32 in the table"
    with pytest.raises(rt.errors.UnsupportedTypeError, match=words):
        append(table, pl.DataFrame({"n": [1]}), dtypes={"n": "int16"})
    assert rows(table)["x"][1].as_py() == pytest.approx(0.1)


def test_where_there_is_no_table_one_is_made(folder):
    made = [
        folder.create_table("made", pl.DataFrame({"n": [n]}), if_exists="append")
        for n in (1, 2)
    ]
    assert [table.created for table in made] == [True, False]
    assert rows(made[0])["n"].to_pylist() == [1, 2]


def test_a_column_that_was_cast_or_renamed_is_no_column_of_nulls(table):
    table.cast({"n": "int64"}).rename({"s": "text"})
    append(table, pl.DataFrame({"n": [2**40], "text": ["z"]}))
    found = rows(table).select(["n", "text"]).to_pylist()[1:]
    assert found == [{"n": 2**40, "text": "z"}]


# Somebody else in the middle of it


def one(n: int) -> pa.Table:
    return pa.table({"n": pa.array([n], pa.int32())})


OTHERS = {
    "nothing": lambda _client: None,
    "append": lambda client: client.create_table(
        "t", pl.DataFrame({"n": [-5]}), if_exists="append"
    ),
    "cast": lambda client: client.table("t").cast({"n": "int64"}),
    "cast there and back": lambda client: (
        client.table("t").cast({"n": "int64"}).cast({"n": "int32"})
    ),
    "rename": lambda client: client.table("t").rename({"n": "m"}),
    "rename there and back": lambda client: (
        client.table("t").rename({"n": "m"}).rename({"m": "n"})
    ),
    "replace": lambda client: client.create_table("t", one(-6), if_exists="replace"),
    "drop": lambda client: client.table("t").drop(),
    "drop and create": lambda client: (
        client.table("t").drop(),
        client.create_table("t", one(-7)),
    ),
}


def meet(client, first: str, then: str, number: int) -> None:
    """Append while somebody else changes the table before and between the rows."""
    sent = pa.table({"n": pa.array([number, number + 1], pa.int32())}).to_batches(
        max_chunksize=1
    )
    client.create_table(
        "t", pa.table({"n": pa.array([0], pa.int32())}), if_exists="replace"
    )

    def meeting():
        yield sent[0]
        OTHERS[first](client)
        yield sent[1]
        if (
            then != "nothing"
            and "t" in client.list_tables()
            and client.table("t").schema.names == ["n"]
        ):
            OTHERS[then](client)

    confirmed = []
    with contextlib.suppress(
        rt.errors.ConflictError, rt.errors.TableNotFoundError, rt.errors.BadRequest
    ):
        client.create_table("t", meeting(), if_exists="append")
        confirmed = [number, number + 1]
    found = (
        client.table("t").to_arrow().column(0).to_pylist()
        if "t" in client.list_tables()
        else []
    )
    assert [n for n in found if n is not None and n > 0] == confirmed
    assert None not in found


@pytest.mark.parametrize("first", OTHERS)
def test_what_somebody_else_does_meanwhile_loses_no_rows_and_makes_no_nulls(
    folder, first
):
    for number, then in enumerate(
        ["nothing", "append", "cast there and back", "drop and create"]
    ):
        meet(folder, first, then, 10 * number + 1)


@pytest.mark.long
def test_500_drawn_meetings_lose_no_rows(folder):
    drawn = random.Random(1)
    for number in range(500):
        meet(
            folder,
            drawn.choice(list(OTHERS)),
            drawn.choice(list(OTHERS)),
            10 * number + 1,
        )


# What a service may do to it


def appending(hosted: Hosted) -> rt.RemoteTable:
    """Append two rows to a table of one, at a service that takes no parts."""
    with hosted.connect(retries=3) as client:
        table = client.create_table("t", one(1))
        return append(table, pl.DataFrame({"n": [2, 3]}))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("cut", r"so far the table is unchanged \(version 1, 1 row\); the write may"),
        ("lose the answer", "before: version 1, 1 row; now: version 2, 3 rows; check"),
    ],
)
def test_an_append_without_an_answer_is_never_sent_again_and_tells_versions_and_rows(
    fault, said
):
    hosted = Hosted(
        version=None, fault=lambda _, step: fault if step == "insert" else ""
    )
    with pytest.raises(rt.errors.TransportError, match=said):
        appending(hosted)
    assert hosted.steps.count("insert") == 1


@pytest.mark.parametrize("status", [409, 503, 429])
def test_a_refused_append_is_repeated_only_where_429_says_that_nothing_was_done(status):
    hosted = Hosted(version=None)
    hosted.fault = lambda _, step: (
        str(status) if step == "insert" and hosted.steps.count("insert") == 1 else ""
    )
    if status == 429:
        assert appending(hosted).version == 2
    else:
        with pytest.raises(rt.errors.ResponseError) as caught:
            appending(hosted)
        assert caught.value.status == status
    assert hosted.steps.count("insert") == 1 + (status == 429)


@pytest.fixture
def contested():
    """A service on which a table appears just after it was found to be missing."""
    hosted = Hosted(version=None)

    def somebody_makes_it(step):
        if step == "describe" and not hosted.tables:
            hosted.tables["t"] = Table([[one(1)]])

    hosted.changed = somebody_makes_it
    return hosted


def test_who_loses_the_race_to_make_the_table_appends(contested):
    with contested.connect() as client:
        made = client.create_table("t", one(2), if_exists="append")
    assert (made.created, made.version) == (False, 2)
    assert contested.steps == ["describe", "create", "describe", "insert"]


@pytest.mark.parametrize(
    "data", [iter([one(2)]), one(2).to_reader()], ids=["iterator", "reader"]
)
def test_who_loses_it_with_what_is_read_once_is_offered_nothing_but_to_send_it_again(
    contested, data
):
    with (
        contested.connect() as client,
        pytest.raises(
            rt.errors.TableExistsError, match="is exhausted: create a new one"
        ) as raised,
    ):
        client.create_table("t", data, if_exists="append")
    assert "if_exists" not in str(raised.value)
    assert contested.tables["t"].rows["n"].to_pylist() == [1]


LONG = {
    "a zone": {"type": f"timestamp:us:{'Z' * 80_000}"},
    "a field": {
        "type": "struct",
        "fields": [{"name": "f" * 80_000, "type": {"type": "int64"}, "nullable": True}],
    },
}


@pytest.mark.parametrize("data_type", LONG.values(), ids=LONG)
@pytest.mark.parametrize("if_exists", ["append", "upsert"])
def test_a_long_type_that_a_service_describes_is_shortened_in_messages(
    server, data_type, if_exists
):
    fields = [
        {"name": "n", "type": {"type": "int64"}, "nullable": True},
        {"name": "a", "type": data_type, "nullable": True},
    ]
    server.answering((200, {"version": 1, "schema": {"fields": fields}}))
    client = connected(server, retries=0, dialect="lancedb")
    on = "n" if if_exists == "upsert" else None
    rows = pl.DataFrame({"n": [1], "a": [True]})
    with pytest.raises((TypeError, rt.errors.ResponseError)) as raised:
        rt.to_table(rows, "t", client=client, if_exists=if_exists, on=on)
    assert len(str(raised.value)) < 800
