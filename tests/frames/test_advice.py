"""Every message that offers code is tried: the code is run, and helps."""

from __future__ import annotations

import ast
import datetime
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

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


def refusal(frame: object, **options: object) -> str:
    with pytest.raises((UnsupportedTypeError, ValueError)) as caught:
        send(frame, **options)
    return str(caught.value)


def objects(*values: object) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


@pytest.mark.parametrize(
    "frame",
    [
        objects(None, None),
        objects([], None),
        objects({"a": None, "b": 1}),
        objects([{"a": []}]),
        pl.DataFrame({"x": [None]}),
        pl.DataFrame({"x": [[None], []]}),
        pl.DataFrame({"x": [{"a": [None], "b": 1.5}]}),
        pl.DataFrame({"x": pl.Series([[None, None]], dtype=pl.Array(pl.Null, 2))}),
        pa.table({"x": pa.array([[], None])}),
        pa.table({"x": pa.array([[[]]], pa.list_view(pa.list_(pa.null())))}),
    ],
)
def test_the_dtypes_that_are_offered_for_a_column_of_no_values_are_taken(frame):
    offered = re.search(r"dtypes=(\{.*\})$", refusal(frame))
    source = send(frame, dtypes=ast.literal_eval(offered[1]))
    rows = [row for batch in source.batches() for row in batch.column(0).to_pylist()]
    assert rows == (frame["x"].tolist() if isinstance(frame, pd.DataFrame) else frame["x"].to_pylist() if isinstance(frame, pa.Table) else frame["x"].to_list())  # fmt: skip  # noqa: E501


def test_whole_numbers_beyond_64_bits_are_sent_as_the_type_that_holds_them():
    (batch,) = send(objects(2**63, 1), dtypes={"x": "uint64"}).batches()
    assert batch.column(0).to_pylist() == [2**63, 1]
    assert "'x', row 0" in refusal(objects(2**70), dtypes={"x": "uint64"})
    (batch,) = send(objects(2**70), dtypes={"x": pa.decimal128(38, 0)}).batches()
    assert batch.column(0).to_pylist() == [2**70]


NOON = datetime.datetime(2020, 1, 1, 12)
DAY, NOON_UTC = NOON.date(), NOON.replace(tzinfo=datetime.UTC)
PERIODS = pd.Series(pd.period_range("2020", periods=2, freq="M"), name="x")
CUT = pd.Series(pd.cut([1, 5], [0, 2, 6]), name="x")


@pytest.mark.parametrize(
    ("frame", "code", "helped"),
    [
        (objects(1.5, Decimal(1)), "df['x'].astype(float)", lambda df: df["x"].astype(float)),
        (objects(DAY, NOON), "pandas.to_datetime(df['x'])", lambda df: pd.to_datetime(df["x"])),
        (
            objects(NOON_UTC, NOON_UTC.astimezone(datetime.timezone(datetime.timedelta(hours=2)))),
            "pandas.to_datetime(df['x'], utc=True)",
            lambda df: pd.to_datetime(df["x"], utc=True),
        ),
        (PERIODS.to_frame(), ".dt.to_timestamp()", lambda df: df["x"].dt.to_timestamp()),
        (CUT.to_frame(), ".cat.rename_categories(str)", lambda df: df["x"].cat.rename_categories(str)),
        (pd.DataFrame({"x": pd.interval_range(0, 2)}), ".array.left", lambda df: pd.Series(df["x"].array.left)),
        (
            pd.DataFrame({"x": pd.arrays.SparseArray([0, 1])}),
            ".sparse.to_dense()",
            lambda df: df["x"].sparse.to_dense(),
        ),
        (pd.DataFrame({"x": [1j]}), ".real", lambda df: df["x"].to_numpy().real),
        (pl.DataFrame({"x": pl.Series([1], dtype=pl.Int128)}), "pl.Int64", lambda df: df["x"].cast(pl.Int64)),
        (pl.DataFrame({"x": pl.Series([1], dtype=pl.UInt128)}), "pl.UInt64", lambda df: df["x"].cast(pl.UInt64)),
    ],
)
def test_what_a_message_offers_makes_a_column_that_can_be_sent(frame, code, helped):
    assert code in refusal(frame)
    column = helped(frame)
    send(column.to_frame() if isinstance(column, pl.Series) else pd.DataFrame({"x": column}))


@pytest.mark.parametrize(
    "values",
    [(NOON, NOON_UTC), (DAY, NOON_UTC), ("a", b"b"), (1, b"b"), ("a", [1]), ("a", {"b": 1}), (1, "a", b"b")],
    ids=str,
)
def test_nothing_is_offered_that_would_change_a_value(values):
    assert refusal(objects(*values)).endswith("; make it one kind first")


WITH_MISSING = [
    objects(1, Decimal("0.1"), None),
    objects(2**60 + 1, Decimal(1), None),
    objects(10**400, 0.5, None),
    objects(2**60 + 1, 0.5, None),
    objects("a", 1, None, np.nan, pd.NA, pd.NaT),
    objects(1, True, None),
    pd.DataFrame({"x": pd.PeriodIndex(["2020-01", None], freq="M")}),
    pd.DataFrame({"x": pd.arrays.IntervalArray.from_tuples([(0, 1), None])}),
    pd.DataFrame({"x": pd.cut([1, 5, 9], [0.0, 2.5, 6.5])}),
    pd.DataFrame({"x": pd.Categorical([1, "1", None])}),
]


@pytest.mark.parametrize("frame", WITH_MISSING)
def test_the_text_that_a_message_offers_to_make_leaves_out_what_is_missing(frame):
    code = re.search(r"(?:df\['x'\])?(\.map\(str, .*?\))", refusal(frame))[1]
    text = eval(f"column{code}", {"column": frame["x"]})
    (batch,) = send(text.to_frame()).batches()
    expected = [None if pd.isna(value) else str(value) for value in frame["x"]]
    assert batch.column(0).to_pylist() == expected
    assert None in expected


SALES = pd.DataFrame({"city": ["Bern", "Bern", "Genf"], "month": [1, 2, 1], "sold": [3, 4, 5]})
ODD_NAMES = [
    (SALES.pivot_table(index="city", columns="month", values="sold"), ["city", "1", "2"]),
    (SALES.groupby("city").agg({"sold": ["min", "max"]}), ["city", "sold_min", "sold_max"]),
    (SALES.groupby("city", as_index=False).agg({"sold": ["min", "max"]}), ["city", "sold_min", "sold_max"]),
    (pd.crosstab(SALES["city"], SALES["month"], margins=True), ["city", "1", "2", "All"]),
    (pd.json_normalize([{"a": {"b": 1}, "a_b": 2}]), ["a_b", "a_b_2"]),
    (pd.DataFrame([[1, 2, 3, 4]], columns=["x", "x", "x_2", ""]), ["x", "x_3", "x_2", "_"]),
    (pd.DataFrame([[1, 2]], columns=pd.Index(["a\nb", "a\ud800"], dtype=object)), ["a_b", "a_"]),
    (pd.DataFrame([[1]], columns=pd.to_datetime(["2020-01-01"])), ["2020-01-01 00:00:00"]),
    (pl.DataFrame({"a.b": [1], "": [2]}), ["a_b", "_"]),
    (pl.LazyFrame({"a.b": [1], "a_b": [2]}), ["a_b_2", "a_b"]),
    (pa.table([[1], [2]], ["a", "a"]), ["a", "a_2"]),
    (pa.record_batch([[1], [2]], ["a", "a"]), ["a", "a_2"]),
    (ds.dataset(pa.table({"a.b": [1]})), ["a_b"]),
    ([pl.DataFrame({"a.b": [1]}), pl.DataFrame({"a.b": [2]})], ["a_b"]),
    ((frame for frame in [SALES.rename(columns={"sold": 0})]), ["city", "month", "0"]),
]


@pytest.mark.parametrize(("frame", "names"), ODD_NAMES)
def test_every_refusal_of_names_ends_with_what_makes_names_of_them(client, service, name, frame, names):
    if not isinstance(frame, Iterator):
        assert refusal(frame).endswith("; rename them, or pass clean_names=True")
        if not isinstance(frame, list) and "dot" not in refusal(frame):  # what is no change may have a dot in a plan
            with pytest.raises(ValueError, match=r"clean_names=True$"):
                rt.plan_alterations(frame, pa.schema({"a": "int8"}))
        assert rt.plan_alterations(frame, dict.fromkeys(names, int), strict=False, clean_names=True) is not None
    table = rt.to_table(frame, name, clean_names=True)
    assert table.schema.names == names
    found = stored(service, name)
    assert found.schema.names == names
    assert found.num_rows == table.rows > 0


def test_names_that_only_the_embedded_service_refuses_are_cleaned_too(client, name):
    odd = {"a`b": "a_b", "_rowid": "_rowid_", "_rowaddr": "_rowaddr_", "_ROWID": "_ROWID"}
    frame = pl.DataFrame({label: [1] for label in odd})
    assert rt.to_table(frame, name, clean_names=True).schema.names == [*odd.values()]
    for label, words in {"a`b": "holds a backtick, which", "_rowid": "is reserved for the engine"}.items():
        with pytest.raises(rt.errors.BadRequest, match=re.escape(f"column name {label!r} {words}")):
            rt.to_table(pl.DataFrame({label: [1]}), f"{name}_2")


def test_a_reader_is_given_clean_names_batch_by_batch():
    reader = pa.table([[1, 2], [3, 4]], ["a.b", "a.b"]).to_reader(max_chunksize=1)
    batches = [batch.to_pydict() for batch in send(reader, clean_names=True).batches()]
    assert batches == [{"a_b": [1], "a_b_2": [3]}, {"a_b": [2], "a_b_2": [4]}]


IN_ANY_ORDER = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "arrow": pa.table,
    "reader": lambda columns: pa.table(columns).to_reader(),
}


@pytest.mark.parametrize("make", IN_ANY_ORDER.values(), ids=IN_ANY_ORDER)
def test_the_labels_of_the_first_frame_name_the_columns_of_all(service, client, name, make):
    first, then = {"x.y": [1], "x`y": [10], "z": [100]}, {"z": [200], "x`y": [20], "x.y": [2]}
    rt.to_table(iter([make(first), make(then)]), name, clean_names=True)
    assert stored(service, name).to_pydict() == {"x_y": [1, 2], "x_y_2": [10, 20], "z": [100, 200]}
    for other in ({"x_z": [3], "x`y": [30], "z": [300]}, {"x.y": [3], "x`y": [30]}):
        with pytest.raises(UnsupportedTypeError, match="same columns"):
            rt.to_table([make(first), make(other)], "other", clean_names=True)
    with pytest.raises(ValueError, match=r"only their order would tell which columns 'x\.z', 'x`z' are; rename them"):
        rt.to_table([make(first), make({"x.z": [3], "x`z": [30], "z": [300]})], "other", clean_names=True)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_plans_tell_columns_by_their_labels_in_any_order(client, name, make):
    columns = {"x.y": [1], "x`y": ["a"], "z": [1.5]}
    frame, turned = make(columns), make(dict(reversed(columns.items())))
    assert not rt.plan_alterations(frame, turned, clean_names=True)
    table = rt.to_table(make({"x.y": [1], "z": [1.5]}), name, clean_names=True)
    assert not rt.plan_alterations(table, make({"z": [1.5], "x.y": [1]}), clean_names=True)
    table = rt.to_table(frame, f"{name}_2", clean_names=True)
    with pytest.raises(ValueError, match=r"only their order would tell which columns 'x\.y', 'x`y' are; rename them"):
        rt.plan_alterations(table, frame, clean_names=True)


def test_labels_that_are_no_text_are_known_again_in_any_order(service, client, name):
    labels = [1, "1", 1.5, float("nan"), ("a", "b"), "a_b", "a.b", True]
    frame = pd.DataFrame([range(len(labels))], columns=pd.Index(labels, dtype=object))
    rt.to_table([frame, frame.iloc[:, ::-1] + 10], name, clean_names=True)
    assert [set(column) for column in stored(service, name).to_pydict().values()] == [
        {n, n + 10} for n in range(len(labels))
    ]


def test_dask_frames_are_given_clean_names():
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(SALES.rename(columns={"sold": "sold.at"}), npartitions=2)
    (first, *_) = send(frame, clean_names=True).batches()
    assert first.schema.names == ["city", "month", "sold_at"]


def test_dtypes_and_plans_go_by_the_clean_names():
    frame = SALES.groupby("city").agg({"sold": ["min", "max"]})
    schema = send(frame, clean_names=True, dtypes={"sold_max": "int16"}).schema
    assert schema == pa.schema({"city": pa.large_string(), "sold_min": pa.int64(), "sold_max": pa.int16()})
    with pytest.raises(ValueError, match=r"dtypes names columns.*'sold.max'.*the columns are.*'sold_max'"):
        send(frame, clean_names=True, dtypes={"sold.max": "int16"})
    plan = rt.plan_alterations(frame, frame.astype({("sold", "max"): "int16"}), clean_names=True)
    assert plan.to_json() == {"alterations": [{"path": "sold_max", "data_type": {"type": "int16"}}]}


def test_a_table_of_clean_names_is_altered_next_morning_by_its_name_alone(tmp_path):
    frame = SALES.groupby("city").agg({"sold": ["min", "max"]})
    with rt.connect(tmp_path):
        frame.remote.to_table("sales", clean_names=True)
        frame.astype("int32").remote.alter_table("sales", clean_names=True)
        assert [str(field.type) for field in rt.table("sales").schema] == ["large_string", "int32", "int32"]


def test_names_that_need_no_cleaning_stay_what_they_are():
    assert send(SALES, clean_names=True).schema == send(SALES).schema
    with pytest.raises(ValueError, match="clean_names: expected True or False, got 'yes'"):
        send(SALES, clean_names="yes")


@pytest.mark.parametrize(
    "index",
    [
        pd.period_range("2020", periods=2, freq="M", name="m"),
        pd.period_range("2020", periods=2, freq="M"),
        pd.CategoricalIndex(pd.cut([1, 5], [0, 2, 6]), name="m"),
        pd.MultiIndex.from_arrays([[1, 2], pd.period_range("2020", periods=2, freq="M")]),
        pd.Index(["a", 1]),
    ],
)
def test_a_level_of_the_index_becomes_a_column_as_the_message_says(index):
    frame = pd.DataFrame({"x": [1, 2]}, index=index)
    for opened in (send, lambda frame: rt.plan_alterations(frame, frame)):
        with pytest.raises(UnsupportedTypeError, match=r"it is a level of the index: call df\.reset_index\(\) first$"):
            opened(frame)
    send(frame, index=False)
    column = frame.reset_index().iloc[:, -2]
    helped = (
        column.dt.to_timestamp() if isinstance(column.dtype, pd.PeriodDtype) else column.map(str, na_action="ignore")
    )
    send(pd.DataFrame({"m": helped}))


@pytest.mark.parametrize("dtype", ["float", "int33", {"type": "int33"}, {"type": "list"}, "object", complex])
def test_a_dtype_that_means_nothing_is_refused_with_its_column(dtype):
    assert re.search(r"column 'x'", refusal(objects(1), dtypes={"x": dtype}))
    with pytest.raises((ValueError, TypeError), match="column 'x'"):
        rt.plan_alterations({"x": dtype}, {"x": int})


@pytest.mark.parametrize(
    "word",
    ["text", "varchar(20)", "INTEGER", "bigint", "date", "datetime", "timestamp", "time", "decimal(10,2)", "numeric",
     "numeric(5, 1)", "blob", "strng", "flaot64", "boolen", "int46"],
)  # fmt: skip
def test_the_dtype_that_a_word_may_mean_is_offered_and_known(word):
    offered = re.search(r'did you mean "(.+)"\?$', refusal(objects("a"), dtypes={"x": word}))
    assert rt.data_type(offered[1])


def test_the_type_that_is_offered_for_a_category_of_text_is_taken():
    offered = re.search(r"for text (pyarrow\.dictionary\(.*\))$", refusal(objects("a", "b"), dtypes={"x": "category"}))
    source = send(objects("a", "b"), dtypes={"x": eval(offered[1], {"pyarrow": pa})})
    assert source.schema.field("x").type == pa.dictionary(pa.int32(), pa.large_string())


RENAMED = SALES.rename(columns={"sold": "units"}).astype({"units": "int32"})


@pytest.mark.parametrize("rename", [None, {"solt": "units"}], ids=["", "mistyped"])
@pytest.mark.parametrize(
    ("after", "casts"),
    [
        (RENAMED, "; 'sold' is then cast from int64 to int32"),
        (SALES.copy().rename(columns={"sold": "amount"}), ""),
        (RENAMED.rename(columns={"city": "City"}), "; 'sold' is then cast from int64 to int32"),
        (SALES.copy().rename(columns=str.upper), ""),
    ],
)
def test_the_options_that_are_offered_for_renamed_columns_make_the_plan(client, service, name, after, casts, rename):
    with pytest.raises(rt.errors.AlterationError) as caught:
        rt.plan_alterations(SALES.copy(), after, rename=rename)
    offered = re.search(r"pass (rename=\{.*?\})(.*)$", str(caught.value))
    assert offered[2] == casts
    options = eval(f"dict({offered[1]})")
    SALES.remote.to_table(name)
    after.remote.alter_table(name, SALES, **options)
    assert stored(service, name).schema == after.remote.schema


def test_strict_false_that_leaves_nothing_to_do_says_so_where_it_was_asked_for():
    for plan in (lambda: RENAMED.remote.plan_alterations(SALES, strict=False),
                 lambda: rt.plan_alterations(SALES, RENAMED, strict=False)):  # fmt: skip
        with pytest.warns(UserWarning, match="nothing is altered; if they were renamed, pass rename=") as warned:
            assert not plan()
        assert warned[0].filename == __file__
    assert rt.plan_alterations(SALES, RENAMED.astype({"month": "int8"}), strict=False)[0].path == "month"


def run(code: str, data: object) -> object:
    return eval(code, {"data": data, "pandas": pd, "polars": pl, "pyarrow": pa})


ROWS = [{"city": "Bern", "sold": 3}, {"city": "Genf", "sold": 4}]


@pytest.mark.parametrize(
    ("data", "code", "helped"),
    [
        (SALES["sold"], ".to_frame()", SALES["sold"].to_frame()),
        (pl.Series("a", [1]), ".to_frame()", pl.Series("a", [1]).to_frame()),
        (pa.array([1]), 'pyarrow.table({"name": data})', None),
        (pa.chunked_array([[1]]), 'pyarrow.table({"name": data})', None),
        (ROWS, "pandas.DataFrame(data)", None),
        (iter(ROWS), "pandas.DataFrame(data)", None),
        ({"city": ["Bern"]}, "pandas.DataFrame(data)", None),
        (np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), "pandas.DataFrame(data)", None),
    ],
)
def test_what_is_no_frame_becomes_one_as_the_message_says(data, code, helped):
    with pytest.raises(TypeError, match=r"^data: ") as caught:
        send(data)
    assert code in str(caught.value)
    assert list(send(run(code, data) if helped is None else helped).batches())


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".ndjson", ".arrow", ".CSV"])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_read_as_the_message_says(tmp_path, suffix, kind):
    path = tmp_path / f"sales{suffix}"
    frame = pl.from_pandas(SALES)
    write = {".csv": frame.write_csv, ".ndjson": frame.write_ndjson, ".arrow": frame.write_ipc}
    write.get(suffix.lower(), frame.write_parquet)(path)
    with pytest.raises(TypeError, match="is not a dataframe") as caught:
        send(kind(path))
    code = re.search(r"for example with (polars\..*\))$", str(caught.value))[1]
    assert sum(batch.num_rows for batch in send(run(code, None)).batches()) == 3


def test_a_scanner_of_a_dataset_is_sent():
    scanner = ds.dataset(pa.table({"a": [1, 2, 3]})).scanner(columns=["a"], filter=ds.field("a") > 1)
    assert [batch.to_pydict() for batch in send(scanner).batches()] == [{"a": [2, 3]}]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: rt.to_table(SALES, "t", client="http://x"), r"client: expected what rt\.connect.* got 'http://x'"),
        (lambda c: rt.list_tables(client=rt), "client: expected"),
        (lambda c: c.table("t").rename("sold"), r"columns: expected a dict by path.* got 'sold'"),
        (lambda c: c.table("t").rename([("a", "b")]), "columns: expected a dict by path"),
        (lambda c: c.table("t").cast({}), r"dtypes: expected a dict by path.* got \{\}"),
        (lambda c: c.table("t").set_nullable("sold"), "nullable: expected a dict by path"),
        (
            lambda c: SALES.remote.plan_alterations("sales"),
            "before: expected a frame or schema, got the string 'sales'",
        ),
        (lambda c: rt.plan_alterations(SALES, "sales"), "after: expected a frame or schema"),
    ],
)
def test_a_wrong_argument_is_named_as_it_was_written(remote, server, call, message):
    with pytest.raises(TypeError, match=message):
        call(remote)
    assert server.requests == []


def test_geometries_are_sent_as_the_message_says():
    geopandas = pytest.importorskip("geopandas")
    frame = geopandas.GeoDataFrame({"a": [1]}, geometry=geopandas.points_from_xy([7.4], [46.9]))
    assert "column 'geometry': a geometry cannot be sent; make bytes of it, with .to_wkb()" in refusal(frame)
    assert send(frame.to_wkb()).schema.names == ["a", "geometry"]


def test_notebooks_show_the_callers_line_and_the_one_that_raised(remote):
    ultratb = pytest.importorskip("IPython.core.ultratb")

    def frames(call):
        try:
            call()
        except Exception:  # noqa: BLE001  # whatever it raises
            text = "\n".join(ultratb.FormattedTB(mode="Context").structured_traceback(*sys.exc_info()))
            return re.findall(r"^File .*/([\w.]+):\d+, in ([\w.]+)", re.sub(r"\x1b\[[0-9;]*m", "", text), re.MULTILINE)
        raise AssertionError

    def generate():
        yield SALES
        raise RuntimeError("of the caller's own")

    with rt.connect("http://127.0.0.1:9", api_key="k", retries=0, default=False) as nobody:
        for call, raised, others in (
            (lambda: SALES.remote.to_table("t", client=nobody), "session.py", 0),
            (lambda: objects("a", 1).remote.to_table("t"), "objects.py", 0),
            (lambda: RENAMED.remote.plan_alterations(SALES), "compare.py", 0),
            (lambda: rt.to_table(pa.table({"x": ["a"]}), "t", dtypes={"x": "int8"}), "convert.py", 0),
        ):
            shown = [file for file, _ in frames(call) if file != Path(__file__).name]
            assert (len(shown) - 1, shown[-1]) == (others, raised)
    assert frames(lambda: rt.to_table(generate(), "t"))[-1][0] == Path(__file__).name
    rt.disconnect()
    assert [file for file, _ in frames(lambda: SALES.remote.to_table("t"))][2:] == ["_api.py"]
