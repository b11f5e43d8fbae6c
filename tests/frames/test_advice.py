"""Run the code that messages offer, and see that it helps.

If a message is about names, ``clean_names`` must help.
"""

from __future__ import annotations

import datetime as dt
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.compare import stored
from tests.support.sent import send

NAMES = {"pandas": pd, "polars": pl, "pyarrow": pa}


def refusal(frame: object, **options: object) -> str:
    with pytest.raises((UnsupportedTypeError, ValueError, TypeError)) as caught:
        send(frame, **options)
    if isinstance(caught.value, UnsupportedTypeError):
        assert pickle.loads(pickle.dumps(caught.value)).columns == caught.value.columns
    return str(caught.value)


def objects(*values: object) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


def values_of(frame: object) -> list:
    if isinstance(frame, pa.Table):
        return frame["x"].to_pylist()
    return frame["x"].to_list()


FRAMES = [
    pd.DataFrame({"n": [1]}),
    pl.DataFrame({"n": [1]}),
    pl.LazyFrame({"n": [1]}),
    [pa.table({"n": [1]})],
]


def call_shown(wrong: Callable[[], object]) -> str:
    """Make a call whose data and name are exchanged, and return the one to make."""
    with pytest.raises(TypeError, match="data and name are exchanged; call ") as caught:
        wrong()
    return str(caught.value).partition("; call ")[2]


@pytest.mark.parametrize("df", FRAMES, ids=lambda df: type(df).__name__)
def test_the_call_that_is_shown_for_data_and_name_that_were_exchanged_helps(
    tmp_path, df
):
    with rt.connect(tmp_path) as client:
        scope = {"rt": rt, "client": client, "df": df}
        shown = call_shown(lambda: rt.to_table("t", df))
        assert eval(shown, scope).name == "t"
        shown = call_shown(lambda: client.create_table(df, "u"))
        assert eval(shown, scope).name == "u"
        shown = call_shown(lambda: rt.alter_table("t", df))
        assert eval(shown, scope).name == "t"
        assert client.list_tables() == ["t", "u"]


TEXT_PAIRS = pl.Series([["a", "b"], None], dtype=pl.Array(pl.String, 2))
NULL_PAIRS = pl.Series([[None, None]], dtype=pl.Array(pl.Null, 2))
PAIRS_OF = pa.FixedSizeListArray.from_arrays
IDENTIFIERS = PAIRS_OF(pa.array([bytes(16), None], pa.uuid()), 2)
STRUCTS = pa.StructArray.from_arrays([PAIRS_OF(pa.array(["a", None]), 2)], ["a"])
UNTYPED = [
    objects(None, None),
    objects([], None),
    objects({"a": None, "b": 1}),
    objects([{"a": []}]),
    pl.DataFrame({"x": [None]}),
    pl.DataFrame({"x": [[None], []]}),
    pl.DataFrame({"x": [{"a": [None], "b": 1.5}]}),
    pl.DataFrame({"x": NULL_PAIRS}),
    pa.table({"x": pa.array([[], None])}),
    pa.table({"x": pa.array([[[]]], pa.list_view(pa.list_(pa.null())))}),
    # no table can hold these
    pl.DataFrame({"x": TEXT_PAIRS}),
    pa.table({"x": IDENTIFIERS}),
    pa.table({"x": STRUCTS}),
]


@pytest.mark.parametrize("frame", UNTYPED)
def test_the_dtypes_that_are_offered_are_taken_and_change_no_value(frame):
    offered = re.search(r"dtypes=(\{.*\})$", refusal(frame))[1]
    sent = send(frame, dtypes=eval(offered, NAMES)).table()
    assert sent["x"].to_pylist() == values_of(frame)


@pytest.mark.parametrize("frame", UNTYPED[4:])
def test_a_plan_which_has_no_such_option_offers_no_dtypes(frame):
    with pytest.raises(UnsupportedTypeError, match="'x") as caught:
        rt.plan_alterations(frame, {"x": "int64"})
    assert "dtypes=" not in str(caught.value)


NOON = dt.datetime(2020, 1, 1, 12)
DAY = NOON.date()
NOON_UTC = NOON.replace(tzinfo=dt.UTC)
PERIODS = pd.period_range("2020", periods=2, freq="M", name="m")
CUTS = pd.cut([1, 5], [0, 2, 6])
CUT_DAYS = pd.cut(pd.to_datetime(["2020-01-01", "2020-02-01", None]), 2)
INTERVALS = pd.arrays.IntervalArray.from_tuples([(0, 1), None])
SIDES = "pandas.IntervalIndex(column).left and .right"
AS_TEXT = ".cat.rename_categories(str)"
HELPED = [  # columns, what is offered, and how it is written
    (pd.Series(PERIODS), ".dt.to_timestamp()", "x.dt.to_timestamp()"),
    (pd.Series(CUTS), AS_TEXT, "x.cat.rename_categories(str)"),
    (pd.Series(INTERVALS), SIDES, "pandas.IntervalIndex(x).left"),
    (pd.Series(INTERVALS), SIDES, "pandas.IntervalIndex(x).right"),
    (pd.Series([0], dtype="Sparse"), ".sparse.to_dense()", "x.sparse.to_dense()"),
    (pd.Series([1j]), ".real", "x.to_numpy().real"),
]


@pytest.mark.parametrize(("x", "code", "written"), HELPED)
def test_what_a_message_offers_makes_a_column_that_can_be_sent(x, code, written):
    assert code in refusal(pd.DataFrame({"x": x}))
    helped = eval(written, {"pandas": pd, "x": x})
    send(pd.DataFrame({"x": helped}))


NARROWER = [(pl.Int128, "pl.Int64"), (pl.UInt128, "pl.UInt64")]


@pytest.mark.parametrize(("dtype", "code"), NARROWER)
def test_what_a_message_offers_for_polars_long_numbers_can_be_sent(dtype, code):
    frame = pl.DataFrame({"x": [1]}, schema={"x": dtype})
    assert code in refusal(frame)
    send(frame.cast(eval(code, {"pl": pl})))


@pytest.mark.parametrize("column", [CUTS, CUT_DAYS], ids=["numbers", "days"])
@pytest.mark.parametrize("kind", [pd.arrays.IntervalArray, pd.Categorical])
def test_what_is_offered_for_intervals_also_helps_with_those_that_are_categories(
    column, kind
):
    said = refusal(pd.DataFrame({"x": pd.arrays.IntervalArray(column)}))
    left = re.search(r"pandas\.IntervalIndex\(column\)\.left", said)[0]
    text = re.search(r"\.map\(str, .*?\)", said)[0]
    scope = {"pandas": pd, "column": pd.Series(kind(column))}
    frame = pd.DataFrame(
        {"left": eval(left, scope), "text": eval(f"column{text}", scope)}
    )
    sent = send(frame).table()
    present = [value for value in column if not pd.isna(value)]
    assert sent["left"].drop_null().to_pylist() == [value.left for value in present]
    assert sent["text"].drop_null().to_pylist() == [str(value) for value in present]
    assert sent["left"].null_count == len(column) - len(present)


MIXED = [
    (NOON, NOON_UTC),
    (DAY, NOON_UTC),
    ("a", b"b"),
    (1, b"b"),
    ("a", [1]),
    ("a", {"b": 1}),
    (1, "a", b"b"),
    (1, "a"),
    (1, True),
    (1.5, Decimal(1)),
    (DAY, NOON),
]


@pytest.mark.parametrize("values", MIXED, ids=str)
def test_values_of_several_kinds_are_to_be_of_one_and_no_code_is_offered(values):
    assert refusal(objects(*values)).endswith("; convert it to one type")


WITH_MISSING = [
    objects(10**400, 0.5, None),
    pd.DataFrame({"x": pd.PeriodIndex(["2020-01", None], freq="M")}),
    pd.DataFrame({"x": INTERVALS}),
    pd.DataFrame({"x": pd.cut([1, 5, 9], [0.0, 2.5, 6.5])}),
    pd.DataFrame({"x": pd.Categorical([1, "1", None])}),
]


@pytest.mark.parametrize("frame", WITH_MISSING)
def test_the_text_that_a_message_offers_to_make_leaves_out_what_is_missing(frame):
    code = re.search(r"(?:df\['x'\])?(\.map\(str, .*?\))", refusal(frame))[1]
    text = eval(f"column{code}", {"column": frame["x"]})
    sent = send(text.to_frame()).table()["x"]
    present = frame["x"].dropna()
    assert sent.drop_null().to_pylist() == [str(value) for value in present]
    assert sent.null_count == len(frame) - len(present) > 0


def test_all_columns_that_cannot_be_sent_are_named_at_once_each_with_its_reason():
    frame = pd.DataFrame(
        {
            "fine": [1, 2],
            "period": pd.period_range("2020", periods=2, freq="M"),
            "mixed": pd.Series(["a", 1], dtype=object),
            "text": pd.Series(["a", "\ud800"], dtype=object),
            "empty": pd.Series([None, None], dtype=object),
            "cast": [1, 300],
        }
    )
    said = refusal(frame, dtypes={"cast": "int8"})
    assert re.search(r"'period'.*to_timestamp", said)
    assert re.search(r"'mixed'.*row 1", said)
    assert re.search(r"'text'.*row 1", said)
    assert re.search(r"'empty'.*no values", said)
    assert re.search(r"'cast'.*300", said)
    assert "fine" not in said


def test_of_many_columns_that_cannot_be_sent_ten_are_named():
    said = refusal(pl.DataFrame({f"c{i}": [None] for i in range(25)}))
    assert len(said.splitlines()) == 12
    assert "15 more" in said
    assert said.count("such as dtypes={'c") == 10


LONG = pl.Series([1], dtype=pl.Int128)
OBJECTS = pl.Series([object()], dtype=pl.Object)
PARTS = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
ALL_BAD = [
    pl.DataFrame({"a": LONG, "b": OBJECTS, "c": [1]}),
    pa.table({"a": pa.nulls(1), "b": PARTS, "c": [1]}),
    [pl.DataFrame({"a": [None], "b": [[None]], "c": [1]})],
]


@pytest.mark.parametrize("data", ALL_BAD, ids=["Polars", "Arrow", "a list"])
def test_every_kind_of_data_names_all_its_columns_that_cannot_be_sent(data):
    with pytest.raises(UnsupportedTypeError) as refused:
        send(data)
    assert refused.value.columns == ("a", "b")


SALES = pd.DataFrame(
    {"city": ["Bern", "Bern", "Genf"], "month": [1, 2, 1], "sold": [3, 4, 5]}
)


class Label:
    """A label that cannot be compared."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise TypeError

    def __str__(self) -> str:
        return "a.b"


SOLD = SALES.groupby("city").agg({"sold": ["min", "max"]})
MONTHS = SALES.pivot_table(index="city", columns="month", values="sold")
TOTALS = pd.crosstab(SALES["city"], SALES["month"], margins=True)
NO_LABELS = pd.Index([pd.NA, "a"], dtype=object)
BROKEN_TEXTS = pd.Index(["a\nb", "a\ud800"], dtype=object)
HOSTILE = pd.Index([Label(), "a"], dtype=object)
ODD_NAMES = [
    (MONTHS, ["city", "1", "2"]),
    (SOLD, ["city", "sold_min", "sold_max"]),
    (SOLD.reset_index(), ["city", "sold_min", "sold_max"]),
    (TOTALS, ["city", "1", "2", "All"]),
    (pd.json_normalize([{"a": {"b": 1}, "a_c": 2}]), ["a_c", "a_b"]),
    (pd.DataFrame([[1, 2]], columns=["y", ""]), ["y", "_"]),
    (pd.DataFrame([[1, 2]], columns=BROKEN_TEXTS), ["a_b", "a_"]),
    (pd.DataFrame([[1]], columns=[NOON]), ["2020-01-01 12:00:00"]),
    (pd.DataFrame([[1, 2]], columns=NO_LABELS), ["<NA>", "a"]),
    (pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name=pd.NA)), ["<NA>", "a"]),
    (pd.DataFrame([[1, 2]], columns=HOSTILE), ["a_b", "a"]),
    (pl.DataFrame({"a.b": [1], "": [2]}), ["a_b", "_"]),
    (ds.dataset(pa.table({"a.b": [1]})), ["a_b"]),
    ([pl.DataFrame({"a.b": [1]}), pl.DataFrame({"a.b": [2]})], ["a_b"]),
]


@pytest.mark.parametrize(("frame", "names"), ODD_NAMES)
def test_every_refusal_of_names_offers_what_makes_names_of_them(
    client, service, name, frame, names
):
    assert "clean_names=True" in refusal(frame)
    rt.plan_alterations(frame, dict.fromkeys(names, int), clean_names=True)
    table = rt.to_table(frame, name, clean_names=True)
    assert table.schema.names == names
    assert stored(service, name).schema.names == names


ONLY_EMBEDDED = [
    ("a`b", "a_b"),
    ("_rowid", "_rowid_"),
    ("*", "*_"),
    ("_rowaddr", "_rowaddr_"),
    ("__action", "__action_"),
    ("_ROWID", "_ROWID"),
]


@pytest.mark.parametrize(("odd", "clean"), ONLY_EMBEDDED)
def test_names_that_only_a_folder_refuses_are_cleaned_too(client, name, odd, clean):
    table = rt.to_table(pl.DataFrame({odd: [1]}), name, clean_names=True)
    assert table.schema.names == [clean]


@pytest.mark.parametrize("odd", ["a`b", "_rowid"])
def test_names_that_a_folder_refuses_are_named(client, name, odd):
    with pytest.raises(rt.errors.BadRequest, match=re.escape(repr(odd))):
        rt.to_table(pl.DataFrame({odd: [1]}), name)


LABELS = {"x.y": 1, "x`z": 10, "z": 100}
TURNED = {"z": 200, "x`z": 20, "x.y": 2}
OF_ONE_ROW = {
    "pandas": lambda row: pd.DataFrame([row]),
    "Polars": lambda row: pl.DataFrame([row]),
    "query": lambda row: pl.LazyFrame([row]),
    "Arrow": lambda row: pa.Table.from_pylist([row]),
}


@pytest.mark.parametrize("make", OF_ONE_ROW.values(), ids=OF_ONE_ROW)
def test_a_name_is_that_of_its_label_whatever_stands_beside_it(tmp_path, make):
    rt.connect(tmp_path)
    first = make(LABELS)
    alone = make({"x.y": 3})
    clean = {"clean_names": True}
    table = rt.to_table(iter([first, make(TURNED)]), "t", **clean)
    rt.to_table(alone, "t", if_exists="append", **clean)
    rt.to_table(make(TURNED), "t", if_exists="upsert", on="x_z", **clean)
    found = lance.dataset(tmp_path / "t.lance").to_table().sort_by("x_y").to_pydict()
    assert found == {"x_y": [1, 2, 3], "x_z": [10, 20, None], "z": [100, 200, None]}
    assert not rt.plan_alterations(first, make(TURNED), **clean)
    assert not rt.plan_alterations(table, alone, **clean)
    cast = rt.alter_table(alone, "t", dtypes={"x_y": "int32"}, **clean)
    assert cast.schema.field("x_y").type == pa.int32()


OTHER_LABELS = [{**TURNED, "z.z": 0}, {"x.y": 3}, {**TURNED, "y": 0}]


@pytest.mark.parametrize("other", OTHER_LABELS)
@pytest.mark.parametrize("make", OF_ONE_ROW.values(), ids=OF_ONE_ROW)
def test_all_frames_of_one_table_have_the_same_labels(client, make, other):
    with pytest.raises(UnsupportedTypeError, match="same columns"):
        rt.to_table([make(LABELS), make(other)], "other", clean_names=True)


def labelled(*labels: object) -> pd.DataFrame:
    return pd.DataFrame([range(len(labels))], columns=pd.Index(labels, dtype=object))


INDEXED = pd.DataFrame({"index": [1]}, index=["a"])
ONE_NAME = [  # columns, and how both labels are named
    (labelled("a.x", "a_x"), "'a.x' and 'a_x' both become 'a_x'"),
    (labelled("a_x", "a.x"), "'a_x' and 'a.x' both become 'a_x'"),
    (labelled("x", "x"), "'x' and 'x' both become 'x'"),
    (labelled(1, "1"), "1 and '1' both become '1'"),
    (labelled(("a", "b"), "a_b"), "('a', 'b') and 'a_b' both become 'a_b'"),
    (labelled(float("nan"), "nan"), "nan and 'nan' both become 'nan'"),
    (pl.LazyFrame({"a.b": [1], "a_b": [2]}), "'a.b' and 'a_b' both become 'a_b'"),
    (pa.table([[1], [2]], ["a", "a"]), "'a' and 'a' both become 'a'"),
    (pa.record_batch([[1], [2]], ["a", "a"]), "'a' and 'a' both become 'a'"),
    (INDEXED, "'index' and 'index' both become 'index'"),
]


@pytest.mark.parametrize(("frame", "words"), ONE_NAME, ids=lambda part: str(part)[:40])
def test_two_labels_that_become_one_name_are_refused_both_named(client, frame, words):
    with pytest.raises(ValueError, match=re.escape(f"the labels {words}; nothing")):
        rt.to_table(frame, "other", clean_names=True)
    with pytest.raises(ValueError, match=re.escape(words)):
        rt.plan_alterations({"n": "int8"}, frame, clean_names=True)
    assert "other" not in client.list_tables()


def test_columns_of_one_label_are_not_told_to_clean_their_names():
    assert "clean_names" not in refusal(labelled("x", "x"))


def test_dtypes_go_by_the_clean_names():
    sent = send(SOLD, clean_names=True, dtypes={"sold_max": "int16"}).schema
    assert sent.names == ["city", "sold_min", "sold_max"]
    assert sent.field("sold_min").type == pa.int64()
    assert sent.field("sold_max").type == pa.int16()
    said = refusal(SOLD, clean_names=True, dtypes={"sold.max": "int16"})
    assert "'sold_max'" in said


def test_a_dask_frame_has_clean_names():
    dask = pytest.importorskip("dask.dataframe")
    parts = dask.from_pandas(SALES.rename(columns={"sold": "a.b"}), npartitions=2)
    assert send(parts, clean_names=True).schema.names == ["city", "month", "a_b"]


def test_clean_names_stay_and_the_option_is_true_or_false():
    assert send(SALES, clean_names=True).schema == send(SALES).schema
    assert "clean_names" in refusal(SALES, clean_names="yes")


LEVELS = [
    PERIODS,
    PERIODS.rename(None),
    pd.CategoricalIndex(CUTS, name="m"),
    pd.MultiIndex.from_arrays([[1, 2], PERIODS]),
    pd.Index(["a", 1]),
]


@pytest.mark.parametrize("index", LEVELS, ids=lambda index: type(index).__name__)
def test_a_level_of_the_index_becomes_a_column_as_the_message_says(index):
    frame = pd.DataFrame({"x": [1, 2]}, index=index)
    assert "df.reset_index()" in refusal(frame)
    with pytest.raises(UnsupportedTypeError, match=r"df\.reset_index\(\)"):
        rt.plan_alterations(frame, frame)
    send(frame, index=False)
    send(frame.reset_index().iloc[:, [-2]].map(str))


MEANINGLESS = ["float", "int33", {"type": "int33"}, {"type": "list"}, "object", complex]


@pytest.mark.parametrize("dtype", MEANINGLESS, ids=str)
def test_a_dtype_that_means_nothing_is_refused_with_its_column(dtype):
    assert "column 'x'" in refusal(objects(1), dtypes={"x": dtype})
    with pytest.raises((ValueError, TypeError), match="column 'x'"):
        rt.plan_alterations({"x": dtype}, {"x": int})


WORDS = [
    *("text", "varchar(20)", "INTEGER", "bigint", "blob"),
    *("date", "datetime", "timestamp", "time"),
    *("decimal(10,2)", "numeric", "numeric(5, 1)"),
    *("strng", "flaot64", "boolen", "int46"),
]


@pytest.mark.parametrize("word", WORDS)
def test_the_dtype_that_a_word_may_mean_is_offered_and_known(word):
    said = refusal(objects("a"), dtypes={"x": word})
    offered = re.search(r'"(.+)"\?$', said)[1]
    assert rt.data_type(offered)


def test_the_type_that_is_offered_for_a_category_of_text_is_taken():
    said = refusal(objects("a", "b"), dtypes={"x": "category"})
    offered = re.search(r"(pyarrow\.dictionary\(.*\))$", said)[1]
    sent = send(objects("a", "b"), dtypes={"x": eval(offered, NAMES)})
    assert pa.types.is_dictionary(sent.schema.field("x").type)


SMALLEST = -(2**63)
LARGEST = np.uint64([2**64 - 1])
PAIRS = [  # columns of two items, and the type that is offered
    ([SMALLEST], LARGEST, "decimal128(20, 0)"),
    (np.int8([-128]), LARGEST, "decimal128(20, 0)"),
    ([SMALLEST], [Decimal("1.25")], "decimal128(22, 2)"),
    (np.int8([-128]), [Decimal("1.25")], "decimal128(5, 2)"),
    (LARGEST, [Decimal("1.25")], "decimal128(22, 2)"),
    (np.float32([0.5]), [Decimal("12345.6789")], "float64"),
    ([-128], np.uint32([2**32 - 1]), "int64"),
    ([1], [0.5], "float64"),
]
PAIRS += [(second, first, offered) for first, second, offered in PAIRS]


@pytest.mark.parametrize(("first", "second", "offered"), PAIRS)
def test_the_type_that_is_offered_for_items_of_two_types_holds_both(
    first, second, offered
):
    columns = [pa.array(first), pa.array(second)]
    items = [pa.table({"x": column}) for column in columns]
    said = refusal(iter(items))
    assert said.endswith(f"pass dtypes={{'x': {offered!r}}}")
    sent = send(iter(items), dtypes={"x": offered}).table()["x"]
    assert sent == pa.chunked_array([column.cast(sent.type) for column in columns])


@pytest.mark.parametrize("other", [[1], ["a"], [NOON]])
def test_no_type_is_offered_for_durations_and_what_they_cannot_be_cast_to(other):
    duration = pa.table({"x": pa.array([1], pa.duration("s"))})
    other = pa.table({"x": other})
    assert refusal(iter([duration, other])).endswith("; give both the same type")
    assert refusal(iter([other, duration])).endswith("; give both the same type")


ROWS = [{"city": "Bern", "sold": 3}, {"city": "Genf", "sold": 4}]
RECORDS = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
NO_FRAMES = [
    (SALES["sold"], "data.to_frame()"),
    (pl.Series("a", [1]), "data.to_frame()"),
    (pa.array([1]), 'pyarrow.table({"name": data})'),
    (pa.chunked_array([[1]]), 'pyarrow.table({"name": data})'),
    (ROWS, "pandas.DataFrame(data)"),
    (iter(ROWS), "pandas.DataFrame(data)"),
    ({"city": ["Bern"]}, "pandas.DataFrame(data)"),
    (RECORDS, "pandas.DataFrame(data)"),
]


@pytest.mark.parametrize(("data", "code"), NO_FRAMES, ids=lambda value: str(value)[:20])
def test_what_is_no_frame_becomes_one_as_the_message_says(data, code):
    assert code.removeprefix("data") in refusal(data)
    made = eval(code, {**NAMES, "data": data})
    assert send(made).table().num_rows


WRITERS = [
    (".csv", pl.DataFrame.write_csv),
    (".CSV", pl.DataFrame.write_csv),
    (".parquet", pl.DataFrame.write_parquet),
    (".ndjson", pl.DataFrame.write_ndjson),
    (".arrow", pl.DataFrame.write_ipc),
]


@pytest.mark.parametrize(("suffix", "write"), WRITERS)
@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_read_as_the_message_says(tmp_path, suffix, write, kind):
    path = tmp_path / f"sales{suffix}"
    write(pl.from_pandas(SALES), path)
    code = re.search(r"polars\..*\)$", refusal(kind(path)))[0]
    assert send(eval(code, NAMES)).table().num_rows == 3


WRONG = [  # the argument that a message names first, what else it tells, a call
    ("client", "'http://x'", lambda c: rt.to_table(SALES, "t", client="http://x")),
    ("client", "", lambda c: rt.list_tables(client=rt)),
    ("columns", "dict.*'sold'", lambda c: c.table("t").rename("sold")),
    ("columns", "dict", lambda c: c.table("t").rename([("a", "b")])),
    ("dtypes", "dict.*{}", lambda c: c.table("t").cast({})),
    ("nullable", "dict", lambda c: c.table("t").set_nullable("sold")),
    ("before", "'sales'", lambda c: SALES.remote.plan_alterations("sales")),
    ("after", "'sales'", lambda c: rt.plan_alterations(SALES, "sales")),
    ("compression", "'gzip'", lambda c: rt.to_table(SALES, "t", compression="gzip")),
    ("compression", "6", lambda c: rt.to_table(SALES, "t", compression=6)),
]


@pytest.mark.parametrize(("argument", "facts", "call"), WRONG)
def test_a_wrong_argument_is_named_as_it_was_written(
    remote, server, argument, facts, call
):
    with pytest.raises((TypeError, ValueError), match=f"^{argument}: .*{facts}"):
        call(remote)
    assert server.requests == []


def generate():
    yield SALES
    raise RuntimeError("of the caller's own")


def cast_text_to_numbers(client: rt.Client) -> None:
    rt.to_table(pa.table({"x": ["a"]}), "t", dtypes={"x": "int8"})


RENAMED = SALES.rename(columns={"sold": "units"}).astype({"units": "int32"})
# calls that raise, and whether the last line that is shown is one of ours
RAISING = [
    (lambda client: SALES.remote.to_table("t", client=client), True),
    (lambda client: objects("a", 1).remote.to_table("t"), True),
    (lambda client: RENAMED.remote.plan_alterations(SALES), True),
    (cast_text_to_numbers, True),
    (lambda client: rt.to_table(generate(), "t"), False),
]


@pytest.mark.parametrize(("call", "is_ours"), RAISING)
def test_notebooks_show_the_callers_line_and_the_one_that_raised(remote, call, is_ours):
    ultratb = pytest.importorskip("IPython.core.ultratb")
    nobody = rt.connect("http://127.0.0.1:9", api_key="k", retries=0, default=False)
    with pytest.raises(Exception) as raised:  # noqa: PT011
        call(nobody)
    shown = ultratb.FormattedTB(mode="Context").structured_traceback(
        raised.type, raised.value, raised.tb
    )
    text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(shown))
    files = re.findall(r"^File .*?([^/\s]+):\d+, in ", text, re.MULTILINE)
    ours = [file for file in files if file != Path(__file__).name]
    if is_ours:
        assert len(ours) == 1
    else:
        assert files[-1] == Path(__file__).name
