"""Every kind of frame, at its edges: what is sent, and what is refused before anything is."""

from __future__ import annotations

import datetime as dt
import decimal
import pickle
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.compare import assert_same_values, stored


def sent(data, **options) -> pa.Table:
    """Give what would be sent as a table."""
    from rt_frames._frames.any_frame import open_source

    source = open_source(data, **options)
    table = pa.Table.from_batches(source.batches(), source.schema)
    table.validate(full=True)
    return table


@pytest.mark.parametrize("frame", [pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]})], ids=["pandas", "polars"])
@pytest.mark.parametrize("rows", [0, 1])
def test_empty_frames_and_single_rows_are_tables(client, service, name, frame, rows):
    table = frame.head(rows).remote.to_table(name)
    assert table.rows == rows
    assert stored(service, name).to_pydict() == {"a": [1][:rows]}


@pytest.mark.parametrize("frame", [pd.DataFrame(index=range(3)), pl.DataFrame(), pa.table({})])
def test_a_frame_without_columns_is_refused(remote, server, frame):
    with pytest.raises(ValueError, match="no columns"):
        rt.to_table(frame, "t")
    assert server.requests == []


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, "b"], "must be strings.* 1"),
        ([("a", "b"), "c"], "must be strings"),
        (["a", "a"], "more than once.*'a'"),
        (["a", ""], "must not be empty, and number 2 is"),
        (["a", "x\ny"], "control characters"),
        (["a", "x.y"], "dot.*'x.y'; rename them, or pass clean_names=True"),
    ],
)
def test_labels_that_cannot_be_names_are_refused_by_name(remote, server, labels, message):
    frame = pd.DataFrame([[1, 2]], columns=pd.Index(labels, tupleize_cols=False))
    with pytest.raises(ValueError, match=message):
        frame.remote.to_table("t")
    assert server.requests == []


def multi() -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples([(1, "x"), (2, "y")], names=["k", None])
    return pd.DataFrame({"a": [1.0, 2.0]}, index=index)


@pytest.mark.parametrize(
    ("frame", "index", "columns"),
    [
        (pd.DataFrame({"a": [1]}), None, ["a"]),
        (pd.DataFrame({"a": [1]}), True, ["index", "a"]),
        (pd.DataFrame({"index": [1]}), True, ["level_0", "index"]),
        (pd.DataFrame({"a": [1]}, index=pd.Index([7], name="k")), None, ["k", "a"]),
        (pd.DataFrame({"a": [1]}, index=pd.Index([7], name="k")), False, ["a"]),
        (pd.DataFrame({"a": [1]}, index=pd.Index([7], name="k")), np.False_, ["a"]),
        (pd.DataFrame({"a": [1]}, index=pd.Index([7], name="k")), True, ["k", "a"]),
        (multi(), None, ["k", "level_1", "a"]),
        (multi(), True, ["k", "level_1", "a"]),
        (multi(), False, ["a"]),
        (pd.DataFrame({"a": [1]}, index=pd.DatetimeIndex(["2020-01-01"], name="day")), None, ["day", "a"]),
        (pd.DataFrame({"a": [1]}, index=pd.CategoricalIndex(["u"], name="c")), None, ["c", "a"]),
        (pd.DataFrame({"a": [1]}, index=pd.DatetimeIndex(["2020-01-01"])), None, ["index", "a"]),
        (pd.DataFrame({"a": [1]}, index=pd.DatetimeIndex(["2020-01-01"])), False, ["a"]),
        (pd.DataFrame({"index": [1]}, index=["text"]), None, ["level_0", "index"]),
        (pd.DataFrame({"a": [1]}, index=[1.5]), None, ["index", "a"]),
        (pd.DataFrame({"a": [1]}, index=[True]), None, ["index", "a"]),
        (pd.DataFrame({"a": [1]}, index=pd.Index([7], dtype="Int64")), None, ["a"]),
        (pd.DataFrame({"a": [1]}, index=pd.Index([7], dtype="uint8")), None, ["a"]),
        (pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1, 2)])), None, ["level_0", "level_1", "a"]),
        (pd.DataFrame({"a": [1.5, 2.5, 9.0]}).describe(), None, ["index", "a"]),
        (pd.DataFrame({"a": [1, 2, 3], "b": [3, 1, 2]}).corr(), None, ["index", "a", "b"]),
        (pd.DataFrame({"a": [1, 2, 3]}).query("a > 1"), None, ["a"]),
    ],
)
def test_index_levels_become_columns_by_rule(frame, index, columns):
    table = sent(frame, index=index)
    assert table.schema.names == columns
    assert index is not None or rt.plan_alterations(frame, table.schema).to_json() == {"alterations": []}
    if len(columns) > len(frame.columns):
        wanted = frame.reset_index()
        for have, want in zip(table.columns, wanted.columns, strict=True):
            assert [str(v) for v in have.to_pylist()] == [str(v) for v in wanted[want].tolist()]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [1]}, index=pd.Index([7], name="a")),
        pd.DataFrame({"level_0": [1], "index": [2]}, index=["x"]),  # of which reset_index makes no frame either
    ],
)
def test_an_index_level_named_like_a_column_is_refused(frame):
    with pytest.raises(ValueError, match="levels of the index count, index=False leaves them out"):
        sent(frame)
    assert sent(frame, index=False).to_pydict() == frame.to_dict("list")
    assert sent(frame, clean_names=True).num_columns == len(frame.columns) + 1


def test_a_change_of_the_index_is_seen_by_a_plan():
    days = pd.DataFrame({"a": [1]}, index=pd.DatetimeIndex(["2020-01-01"]).as_unit("s"))
    assert [c.path for c in rt.plan_alterations(days, days.set_index(days.index.as_unit("ms")))] == ["index"]
    with pytest.raises(rt.errors.AlterationError, match="only before: 'index'"):
        rt.plan_alterations(days, days.reset_index(drop=True))


def test_only_pandas_frames_take_the_index_option():
    with pytest.raises(ValueError, match="only a pandas frame"):
        sent(pl.DataFrame({"a": [1]}), index=True)


def test_chunked_sliced_and_strided_frames_keep_their_values(client, service):
    text = pa.chunked_array([["a", None], ["b", "c"], []])
    arrow = pd.DataFrame({"s": pd.Series(text.to_pandas(types_mapper=pd.ArrowDtype), dtype="string[pyarrow]")})
    frames = {
        "polars_chunks": pl.concat([pl.DataFrame({"s": ["a", None], "n": [1, 2]})] * 3, rechunk=False).slice(1, 4),
        "pandas_rows": pd.DataFrame({"s": list("abcdef"), "n": range(6)}).iloc[1:5:2],
        "pandas_block": pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("xyz")),
        "pandas_chunks": arrow,
        "arrow_chunks": pa.table({"s": text, "n": pa.chunked_array([[1, 2], [3, 4]])}).slice(1, 2),
    }
    for name, frame in frames.items():
        rt.to_table(frame, name)
        expected = pa.Table.from_pandas(frame, preserve_index=False) if isinstance(frame, pd.DataFrame) else frame
        assert_same_values(stored(service, name), expected if isinstance(expected, pa.Table) else expected.to_arrow())


@pytest.mark.parametrize("start", [1, 3, 9])
def test_rows_cut_out_of_polars_structs_are_those_rows(client, service, name, start):
    points = [None if n % 3 == 0 else {"x": n, "y": str(n)} for n in range(20)]
    point = pl.Struct({"x": pl.Int64, "y": pl.String})
    columns = {
        "struct": (points, point),
        "inside": ([None if n % 4 == 0 else {"p": p} for n, p in enumerate(points)], pl.Struct({"p": point})),
        "list": ([None if n % 4 == 0 else [p] * (n % 3) for n, p in enumerate(points)], pl.List(point)),
    }
    frame = pl.DataFrame([pl.Series(label, values, dtype) for label, (values, dtype) in columns.items()])
    for number, cut in enumerate([frame.slice(start, 9), frame.lazy().slice(start, 9)]):
        rt.to_table(cut, f"{name}{number}")
        assert stored(service, f"{name}{number}").to_pylist() == frame.to_dicts()[start : start + 9]


def test_what_pandas_calls_missing_is_null_and_a_polars_nan_stays():
    frame = pd.DataFrame(
        {
            "f": [1.0, np.nan],
            "f16": np.array([1, np.nan], dtype="float16"),
            "t": pd.to_datetime(["2020-01-01", None]),
            "d": pd.to_timedelta(["1s", None]),
            "i": pd.array([1, None], dtype="Int64"),
            "b": pd.array([True, None], dtype="boolean"),
            "s": ["x", None],
            "o": np.array(["x", np.nan], dtype=object),
            "c": pd.Categorical(["x", None]),
        }
    )
    table = sent(frame)
    assert {name: table[name].null_count for name in table.schema.names} == dict.fromkeys(frame.columns, 1)
    assert sent(pl.DataFrame({"f": [1.0, float("nan"), None]}))["f"].null_count == 1


def test_infinities_stay_what_they_are():
    frame = pd.DataFrame({"f": [np.inf, -np.inf, 1e308, 1e308]})
    assert sent(frame)["f"].to_pylist() == frame["f"].tolist()


@pytest.mark.parametrize(
    ("values", "arrow"),
    [
        (["a", None, "b"], pa.large_string()),
        ([1, None, 2], pa.int64()),
        ([True, None], pa.bool_()),
        ([b"a", None], pa.binary()),
        ([dt.date(1, 1, 1), dt.date(9999, 12, 31)], pa.date32()),
        ([dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)], pa.timestamp("us")),
        ([dt.time(1, 2, 3), None], pa.time64("us")),
        ([decimal.Decimal("1.25"), decimal.Decimal("100.00")], pa.decimal128(5, 2)),
        ([[1, 2], None, []], pa.list_(pa.int64())),
        ([{"x": 1}, {"x": None}], pa.struct([("x", pa.int64())])),
        ([pd.Timestamp("2020-01-01 00:00:00.000000001")], pa.timestamp("ns")),
        ([pd.Timedelta(1, "ns")], pa.duration("ns")),
        ([np.int64(1), 2], pa.int64()),
        ([np.timedelta64(1, "s"), np.timedelta64(2, "s")], pa.duration("s")),
    ],
)
def test_object_columns_of_one_kind_are_what_they_hold(values, arrow):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    table = sent(pd.DataFrame({"o": pd.Series(column, dtype=object)}))
    assert table.schema.field("o").type == arrow
    back = table["o"].to_pylist()
    values = [pd.Timedelta(v).to_pytimedelta() if isinstance(v, np.timedelta64) else v for v in values]
    assert [None if b is None else str(pd.Timestamp(b) if isinstance(v, pd.Timestamp) else b) for v, b in
            zip(values, back, strict=True)] == [None if v is None else str(v) for v in values]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", 1], "'o' mixes kinds.*str.*row 1.*int"),
        ([None, 1, "a"], "'o' mixes kinds.*int.*row 2.*str"),
        ([True, 1], "mixes kinds.*bool.*row 1.*int"),
        ([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)], "mixes kinds.*date.*row 1.*datetime"),
        ([np.timedelta64(1, "s"), 5], "mixes kinds.*timedelta.*row 1.*int"),
        ([pd.Timestamp("2020"), pd.Timestamp("2020", tz="UTC")], "mixes kinds.*without.*row 1.*with a time zone"),
        ([None, None], "no values and no type.*dtypes"),
        ([1, 2**70], "'o'"),
        (["\ud800"], "'o', row 0"),
        ([1 + 2j], "'o'"),
        ([object()], "'o'"),
        ([decimal.Decimal(1), decimal.Decimal("sNaN")], "'o', row 1: .*is a signalling NaN"),
        ([decimal.Decimal(1), decimal.Decimal("Infinity")], r"'o', row 1: Decimal\('Infinity'\) is infinite"),
    ],
)
def test_object_columns_that_cannot_be_sent_are_refused_by_name_and_row(remote, server, values, message):
    frame = pd.DataFrame({"o": pd.Series(values, dtype=object)})
    with pytest.raises(UnsupportedTypeError, match=message):
        frame.remote.to_table("t")
    assert server.requests == []


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.period_range("2020", periods=2, freq="M"), "Period|period.*to_timestamp"),
        (pd.interval_range(0, 2), "interval"),
        (pd.arrays.SparseArray([0, 1]), "Sparse.*to_dense"),
        ([1j, 2j], "complex.*real"),
    ],
)
def test_pandas_types_without_a_portable_form_are_refused_with_advice(column, message):
    with pytest.raises(UnsupportedTypeError, match=f"'c'.*(?:{message})"):
        sent(pd.DataFrame({"c": column}))


@pytest.mark.parametrize(
    ("series", "message"),
    [
        (pl.Series("c", [object()], dtype=pl.Object), "'c'.*Object"),
        (pl.Series("c", [1], dtype=pl.Int128), "'c'.*Int128"),
        (pl.Series("c", [None]), "'c' has no values and no type"),
        (pl.Series("c", [[None]]), "'c.item' has no values and no type"),
    ],
)
def test_polars_types_without_a_portable_form_are_refused_with_advice(series, message):
    with pytest.raises(UnsupportedTypeError, match=message):
        sent(series.to_frame())


def test_dtypes_cast_on_the_way(client, service, name):
    frame = pd.DataFrame({"a": [1, 2], "note": [None, None], "when": ["2020-01-01", "2021-02-03"]})
    rt.to_table(frame, name, dtypes={"a": "int8", "note": str, "when": pl.Date})
    table = stored(service, name)
    assert table.schema.types == [pa.int8(), pa.large_string(), pa.date32()]
    assert table["when"].to_pylist() == [dt.date(2020, 1, 1), dt.date(2021, 2, 3)]


@pytest.mark.parametrize("frame", [pd.DataFrame({"a": [1, 300]}), pl.DataFrame({"a": [1, 300]})])
def test_a_value_that_does_not_fit_dtypes_is_refused_before_anything_is_sent(remote, server, frame):
    with pytest.raises(UnsupportedTypeError, match=r"'a'.*int8.*300"):
        rt.to_table(frame, "t", dtypes={"a": "int8"})
    assert server.requests == []


def test_fields_of_a_struct_are_cast_by_name_and_none_is_lost():
    table = pa.table({"s": pa.array([{"a": 1, "b": 2}])})
    cast = sent(table, dtypes={"s": pa.struct([("b", pa.int8()), ("a", pa.int16())])})
    assert cast["s"].to_pylist() == [{"b": 2, "a": 1}]
    for names in ("xy", "a", "abc"):
        with pytest.raises(UnsupportedTypeError, match=r"'s'.*its fields are 'a', 'b', not"):
            sent(table, dtypes={"s": pa.struct([(name, pa.int8()) for name in names])})


def test_dtypes_names_only_columns_that_are_there():
    with pytest.raises(ValueError, match="'b'"):
        sent(pl.DataFrame({"a": [1]}), dtypes={"b": "int8"})


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical(["b", "a", None, "b"]),
        pd.Categorical([3, 1, None, 3]),
        pd.Categorical([1.5, 2.5, None, 1.5]),
        pd.Categorical(pd.to_datetime(["2020", "2021", None, "2020"])),
    ],
    ids=["text", "integers", "floats", "dates"],
)
def test_categories_are_sent_in_one_form_or_as_their_values(client, service, column, request):
    name = request.node.callspec.id
    frame = pd.DataFrame({"c": column})
    rt.to_table(frame, f"categories_{name}", if_exists="skip")
    found = stored(service, f"categories_{name}")["c"]
    coded = {"text": pa.dictionary(pa.int32(), pa.large_string()), "integers": pa.dictionary(pa.int32(), pa.int64())}
    assert found.type == coded.get(name, found.type)
    assert pa.types.is_dictionary(found.type) == (name in coded)
    assert [str(v) for v in found.to_pylist()] == [str(v) for v in pa.array(column).to_pylist()]


def test_categories_of_many_batches_share_one_dictionary():
    frame = pl.DataFrame({"c": pl.Series(["a", "b", None, "c"] * 3, dtype=pl.Categorical)})
    batches = [frame.slice(i, 2).to_arrow().to_batches()[0] for i in range(0, 12, 2)]
    table = sent(pa.Table.from_batches(batches))
    assert table["c"].to_pylist() == frame["c"].to_list()
    assert len({tuple(chunk.dictionary.to_pylist()) for chunk in table["c"].chunks}) == 1


def test_dictionaries_that_together_outgrow_their_codes_are_stored(client, service, name):
    halves = [pa.array([f"{half}{i}" for i in range(100)]).dictionary_encode() for half in "abc"]
    batches = [pa.record_batch({"c": half.cast(pa.dictionary(pa.int8(), pa.string()))}) for half in halves]
    rt.to_table(iter(batches), name)
    found = stored(service, name)["c"]
    assert found.type == pa.dictionary(pa.int32(), pa.string())
    assert found.to_pylist() == [word for half in halves for word in half.to_pylist()]


def test_views_run_ends_and_small_decimals_become_portable():
    views = pa.array(["a", None, "long enough to be no inline view"]).cast(pa.string_view())
    ends = pa.RunEndEncodedArray.from_arrays([2, 3], [1, None])
    small = pa.array([decimal.Decimal("1.25"), None, None], pa.decimal32(5, 2))
    table = sent(pa.table({"v": views, "r": ends, "d": small, "s": pa.StructArray.from_arrays([views], ["x"])}))
    large = pa.large_string()
    assert table.schema.types == [large, pa.int64(), pa.decimal128(5, 2), pa.struct([("x", large)])]
    assert table["r"].to_pylist() == [1, 1, None]
    assert table["v"].to_pylist() == [row["x"] for row in table["s"].to_pylist()] == views.to_pylist()


class Unhashable(pa.ExtensionType):
    """A type of somebody's own, as Arrow's documentation shows how to write one."""

    def __init__(self) -> None:
        super().__init__(pa.int8(), "tests.unhashable")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable)

    __hash__ = None


def test_an_extension_type_of_ones_own_is_sent_as_its_storage():
    column = pa.ExtensionArray.from_storage(Unhashable(), pa.array([1, None], pa.int8()))
    table = sent(pa.table({"e": column, "n": [1, 2]}))
    assert table.to_pydict() == {"e": [1, None], "n": [1, 2]}
    assert table.schema.types == [pa.int8(), pa.int64()]


def arrow_table() -> pa.Table:
    return pa.table({"a": [1, 2, 3], "s": ["x", None, "z"]})


def generator_of_frames():
    yield pl.DataFrame({"a": [1], "s": ["x"]})
    yield pl.DataFrame({"a": [2, 3], "s": [None, "z"]}, schema={"a": pl.Int64, "s": pl.String})


@pytest.mark.parametrize(
    "make",
    [
        arrow_table,
        lambda: arrow_table().to_batches()[0],
        lambda: arrow_table().to_reader(max_chunksize=2),
        lambda: ds.dataset(arrow_table()),
        lambda: iter(arrow_table().to_batches(max_chunksize=1)),
        generator_of_frames,
        lambda: [pd.DataFrame({"a": [1], "s": ["x"]}), pd.DataFrame({"a": [2, 3], "s": [None, "z"]})],
        lambda: pl.DataFrame(arrow_table()).lazy(),
    ],
    ids=["table", "batch", "reader", "dataset", "batches", "generator", "list", "lazy"],
)
def test_every_source_arrives_whole_and_in_order(client, service, name, make):
    assert rt.to_table(make(), name).rows == 3
    assert stored(service, name).to_pydict() == arrow_table().to_pydict()


def test_a_frame_of_an_iterator_is_let_go_of_before_the_next_is_made(remote, server):
    made: list[weakref.ref[pd.DataFrame]] = []
    alive: list[int] = []

    def frames():
        for i in range(5):
            alive.append(sum(one() is not None for one in made))
            frame = pd.DataFrame({"n": np.arange(100_000) + i})
            made.append(weakref.ref(frame))
            yield frame
            del frame

    rt.to_table(frames(), "t")
    assert alive == [0] * 5


@pytest.mark.parametrize("data", [3, "text", {"a": [1]}, None, pd.Series([1]), pl.Series([1])])
def test_what_is_no_frame_is_refused(remote, server, data):
    with pytest.raises(TypeError, match="data: "):
        rt.to_table(data, "t")
    assert server.requests == []


def test_a_batch_that_does_not_fit_names_itself_and_the_column(client):
    frames = iter([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]}), pl.DataFrame({"a": ["x"]})])
    with pytest.raises(UnsupportedTypeError, match=r"'a'.*item 2 "):
        rt.to_table(frames, "misfit")
    assert "misfit" not in client.list_tables()


def test_the_callers_frame_is_never_changed(client, name):
    frame = pd.DataFrame({"a": [1.5, np.nan], "c": pd.Categorical(["x", "y"])}, index=pd.Index([1, 2], name="k"))
    copy = frame.copy(deep=True)
    rt.to_table(frame, name, dtypes={"a": "float32"})
    pd.testing.assert_frame_equal(frame, copy)


def refused(data, **options) -> UnsupportedTypeError:
    with pytest.raises(UnsupportedTypeError) as raised:
        sent(data, **options)
    assert pickle.loads(pickle.dumps(raised.value)).columns == raised.value.columns
    return raised.value


def test_all_columns_that_cannot_be_sent_are_named_at_once_each_with_its_reason():
    frame = pd.DataFrame(
        {
            "fine": [1, 2],
            "period": pd.period_range("2020", periods=2, freq="M"),
            "mixed": pd.Series(["a", 1], dtype=object),
            "text": pd.Series(["a", "\ud800"], dtype=object),
            "empty": pd.Series([None, None], dtype=object),
            "complex": [1j, 2j],
            "cast": [1, 300],
        }
    )
    error = refused(frame, dtypes={"cast": "int8"})
    assert error.columns == tuple(frame.columns[1:])
    assert str(error).startswith("6 columns cannot be sent:\n")
    for column, reason in {
        "period": "to_timestamp", "mixed": "row 1 is int", "text": "row 1", "empty": "no values", "cast": "300",
    }.items():  # fmt: skip
        assert any(f"'{column}'" in line and reason in line for line in str(error).splitlines()), column


def test_of_many_columns_that_cannot_be_sent_ten_are_explained_and_all_are_told():
    error = refused(pl.DataFrame({f"c{i}": pl.Series([None]) for i in range(25)}))
    assert error.columns == tuple(f"c{i}" for i in range(25))
    assert len(str(error).splitlines()) == 12
    assert "and 15 more: 'c10'" in str(error)


@pytest.mark.parametrize(
    "data",
    [
        pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128), "b": pl.Series([object()], dtype=pl.Object), "c": [1]}),
        pa.table({"a": pa.nulls(1), "b": pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "c": [1]}),
        [pl.DataFrame({"a": [None], "b": [[None]], "c": [1]})],
    ],
    ids=["Polars", "Arrow", "a list"],
)
def test_every_kind_of_data_names_all_its_columns_that_cannot_be_sent(data):
    assert refused(data).columns == ("a", "b")


def test_a_source_that_is_refused_is_closed():
    closed = []

    def frames():
        try:
            yield pl.DataFrame({"a": [None]})
        finally:
            closed.append(True)

    error = refused(frames())
    assert (closed, error.columns) == ([True], ("a",))


def test_a_connection_of_duckdb_is_free_again_while_the_refusal_is_kept():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    relation = connection.sql("select null::int[][] as fine, interval 1 day as lasts from range(5000)")
    error = refused(relation)
    assert error.columns == ("lasts",)
    assert connection.sql("select 42").fetchall() == [(42,)]
