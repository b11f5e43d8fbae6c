"""Run the code that messages offer, and see that it helps.

If a message is about names, ``clean_names`` must help.
"""

from __future__ import annotations

import datetime as dt
import pickle
import re
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
    column = frame["x"]
    return column.to_pylist() if isinstance(frame, pa.Table) else column.to_list()


FRAMES = [
    pd.DataFrame({"n": [1]}),
    pl.DataFrame({"n": [1]}),
    pl.LazyFrame({"n": [1]}),
    [pa.table({"n": [1]})],
]


@pytest.mark.parametrize("df", FRAMES, ids=lambda df: type(df).__name__)
def test_the_call_that_is_shown_for_data_and_name_that_were_exchanged_helps(
    tmp_path, df
):
    with rt.connect(tmp_path) as client:
        for call in (
            lambda: rt.to_table("t", df),
            lambda: client.create_table(df, "u"),
            lambda: rt.alter_table("t", df),
        ):
            with pytest.raises(
                TypeError, match="data and name are exchanged; call "
            ) as caught:
                call()
            shown = str(caught.value).partition("; call ")[2]
            # the columns of the frame are known
            if isinstance(df, pd.DataFrame) or "alter_table" not in shown:
                assert eval(shown, {"rt": rt, "client": client, "df": df}).name in (
                    "t",
                    "u",
                )
        assert client.list_tables() == ["t", "u"]


UNTYPED = [
    *[
        objects(None, None),
        objects([], None),
        objects({"a": None, "b": 1}),
        objects([{"a": []}]),
    ],
    pl.DataFrame({"x": [None]}),
    pl.DataFrame({"x": [[None], []]}),
    pl.DataFrame({"x": [{"a": [None], "b": 1.5}]}),
    pl.DataFrame({"x": pl.Series([[None, None]], dtype=pl.Array(pl.Null, 2))}),
    pa.table({"x": pa.array([[], None])}),
    pa.table({"x": pa.array([[[]]], pa.list_view(pa.list_(pa.null())))}),
    # no table can hold these
    pl.DataFrame({"x": pl.Series([["a", "b"], None], dtype=pl.Array(pl.String, 2))}),
    pa.table(
        {
            "x": pa.FixedSizeListArray.from_arrays(
                pa.array([bytes(16), None], pa.uuid()), 2
            )
        }
    ),
    pa.table(
        {
            "x": pa.StructArray.from_arrays(
                [pa.FixedSizeListArray.from_arrays(pa.array(["a", None]), 2)], ["a"]
            )
        }
    ),
]


@pytest.mark.parametrize("frame", UNTYPED)
def test_the_dtypes_that_are_offered_are_taken_and_change_no_value(frame):
    offered = re.search(r"dtypes=(\{.*\})$", refusal(frame))
    assert send(frame, dtypes=eval(offered[1], NAMES)).table()[
        "x"
    ].to_pylist() == values_of(frame)
    if not isinstance(frame, pd.DataFrame):  # a plan has no such option
        with pytest.raises(UnsupportedTypeError, match="'x") as caught:
            rt.plan_alterations(frame, {"x": "int64"})
        assert "dtypes=" not in str(caught.value)


NOON = dt.datetime(2020, 1, 1, 12)
DAY, NOON_UTC = NOON.date(), NOON.replace(tzinfo=dt.UTC)
PERIODS = pd.period_range("2020", periods=2, freq="M", name="m")
NOONS = objects(NOON_UTC, NOON_UTC.astimezone(dt.timezone(dt.timedelta(hours=2))))
CUT_DAYS = pd.cut(pd.to_datetime(["2020-01-01", "2020-02-01", None]), 2)
HELPED = [  # columns, what is offered, and how it is written
    (pd.Series(PERIODS), ".dt.to_timestamp()", "x.dt.to_timestamp()"),
    (
        pd.Series(pd.cut([1, 5], [0, 2, 6])),
        ".cat.rename_categories(str)",
        "x.cat.rename_categories(str)",
    ),
    *[
        (
            pd.Series(pd.arrays.IntervalArray.from_tuples([(0, 1), None])),
            "pandas.IntervalIndex(column).left and .right",
            f"pandas.IntervalIndex(x).{side}",
        )
        for side in ("left", "right")
    ],
    (
        pd.Series(pd.arrays.SparseArray([0, 1])),
        ".sparse.to_dense()",
        "x.sparse.to_dense()",
    ),
    (pd.Series([1j]), ".real", "x.to_numpy().real"),
    (pl.Series("x", [1], dtype=pl.Int128), "pl.Int64", "x.cast(polars.Int64)"),
    (pl.Series("x", [1], dtype=pl.UInt128), "pl.UInt64", "x.cast(polars.UInt64)"),
]


@pytest.mark.parametrize(
    ("column", "code", "written"), HELPED, ids=lambda value: str(value)[:30]
)
def test_what_a_message_offers_makes_a_column_that_can_be_sent(column, code, written):
    frame = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    assert code in refusal(frame({"x": column}))
    send(frame({"x": eval(written, {**NAMES, "x": column})}))


@pytest.mark.parametrize("column", [pd.cut([1, 5], [0, 2, 6]), CUT_DAYS])
def test_what_is_offered_for_intervals_also_helps_with_those_that_are_categories(
    column,
):
    intervals = pd.Series(pd.arrays.IntervalArray(column))
    said = refusal(pd.DataFrame({"x": intervals}))
    offered = re.search(r"(pandas\.IntervalIndex\(column\)\.left)", said)[1]
    text = re.search(r"\.map\(str, .*?\)", said)[0]
    for values in (intervals, pd.Series(column)):
        scope = {**NAMES, "column": values}
        lefts = [None if pd.isna(value) else value.left for value in values]
        found = send(pd.DataFrame({"x": eval(offered, scope)})).table()["x"]
        assert found.to_pylist() == lefts
        texts = [None if pd.isna(value) else str(value) for value in values]
        found = send(pd.DataFrame({"x": eval(f"column{text}", scope)})).table()["x"]
        assert found.to_pylist() == texts


@pytest.mark.parametrize(
    "values",
    [
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
    ],
    ids=str,
)
def test_values_of_several_kinds_are_to_be_of_one_and_no_code_is_offered(values):
    assert refusal(objects(*values)).endswith("; convert it to one type")


WITH_MISSING = [
    objects(10**400, 0.5, None),
    pd.DataFrame({"x": pd.PeriodIndex(["2020-01", None], freq="M")}),
    pd.DataFrame({"x": pd.arrays.IntervalArray.from_tuples([(0, 1), None])}),
    pd.DataFrame({"x": pd.cut([1, 5, 9], [0.0, 2.5, 6.5])}),
    pd.DataFrame({"x": pd.Categorical([1, "1", None])}),
]


@pytest.mark.parametrize("frame", WITH_MISSING)
def test_the_text_that_a_message_offers_to_make_leaves_out_what_is_missing(frame):
    code = re.search(r"(?:df\['x'\])?(\.map\(str, .*?\))", refusal(frame))[1]
    text = eval(f"column{code}", {"column": frame["x"]})
    wanted = [None if pd.isna(value) else str(value) for value in frame["x"]]
    assert send(text.to_frame()).table()["x"].to_pylist() == wanted
    assert None in wanted


def test_all_columns_that_cannot_be_sent_are_named_at_once_each_with_its_reason():
    bad = {
        "period": (pd.period_range("2020", periods=2, freq="M"), "to_timestamp"),
        "mixed": (pd.Series(["a", 1], dtype=object), "row 1"),
        "text": (pd.Series(["a", "\ud800"], dtype=object), "row 1"),
        "empty": (pd.Series([None, None], dtype=object), "no values"),
        "cast": ([1, 300], "300"),
    }
    frame = pd.DataFrame(
        {"fine": [1, 2], **{name: column for name, (column, _) in bad.items()}}
    )
    said = refusal(frame, dtypes={"cast": "int8"}).splitlines()
    assert [
        name
        for name, (_, why) in bad.items()
        if not any(f"'{name}'" in s and why in s for s in said)
    ] == []
    many = refusal(pl.DataFrame({f"c{i}": pl.Series([None]) for i in range(25)}))
    assert (len(many.splitlines()), "15 more" in many) == (12, True)
    assert many.count("such as dtypes={'c") == 10


ALL_BAD = [
    pl.DataFrame(
        {
            "a": pl.Series([1], dtype=pl.Int128),
            "b": pl.Series([object()], dtype=pl.Object),
            "c": [1],
        }
    ),
    pa.table(
        {
            "a": pa.nulls(1),
            "b": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
            "c": [1],
        }
    ),
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


ODD_NAMES = [
    (
        SALES.pivot_table(index="city", columns="month", values="sold"),
        ["city", "1", "2"],
    ),
    (
        SALES.groupby("city").agg({"sold": ["min", "max"]}),
        ["city", "sold_min", "sold_max"],
    ),
    (
        SALES.groupby("city", as_index=False).agg({"sold": ["min", "max"]}),
        ["city", "sold_min", "sold_max"],
    ),
    (
        pd.crosstab(SALES["city"], SALES["month"], margins=True),
        ["city", "1", "2", "All"],
    ),
    (pd.json_normalize([{"a": {"b": 1}, "a_b": 2}]), ["a_b", "a_b_2"]),
    (
        pd.DataFrame([[1, 2, 3, 4]], columns=["x", "x", "x_2", ""]),
        ["x", "x_3", "x_2", "_"],
    ),
    (
        pd.DataFrame([[1, 2]], columns=pd.Index(["a\nb", "a\ud800"], dtype=object)),
        ["a_b", "a_"],
    ),
    (
        pd.DataFrame([[1]], columns=pd.to_datetime(["2020-01-01"])),
        ["2020-01-01 00:00:00"],
    ),
    (
        pd.DataFrame([[1, 2]], columns=pd.Index([pd.NA, "<NA>"], dtype=object)),
        ["<NA>_2", "<NA>"],
    ),
    (pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name=pd.NA)), ["<NA>", "a"]),
    (
        pd.DataFrame([[1, 2]], columns=pd.Index([Label(), "a_b"], dtype=object)),
        ["a_b_2", "a_b"],
    ),
    (pl.DataFrame({"a.b": [1], "": [2]}), ["a_b", "_"]),
    (pl.LazyFrame({"a.b": [1], "a_b": [2]}), ["a_b_2", "a_b"]),
    (pa.table([[1], [2]], ["a", "a"]), ["a", "a_2"]),
    (pa.record_batch([[1], [2]], ["a", "a"]), ["a", "a_2"]),
    (ds.dataset(pa.table({"a.b": [1]})), ["a_b"]),
    ([pl.DataFrame({"a.b": [1]}), pl.DataFrame({"a.b": [2]})], ["a_b"]),
    ((frame for frame in [SALES.rename(columns={"sold": 0})]), ["city", "month", "0"]),
]


@pytest.mark.parametrize(("frame", "names"), ODD_NAMES)
def test_every_refusal_of_names_offers_what_makes_names_of_them(
    client, service, name, frame, names
):
    if not isinstance(frame, Iterator):
        assert "clean_names=True" in refusal(frame)
        assert (
            rt.plan_alterations(frame, dict.fromkeys(names, int), clean_names=True)
            is not None
        )
    table = rt.to_table(frame, name, clean_names=True)
    assert table.schema.names == stored(service, name).schema.names == names


def test_names_that_only_the_embedded_service_refuses_are_cleaned_too(client, name):
    odd = {
        "a`b": "a_b",
        "_rowid": "_rowid_",
        "*": "*_",
        "_rowaddr": "_rowaddr_",
        "__action": "__action_",
        "_ROWID": "_ROWID",
    }
    frame = pl.DataFrame({label: [1] for label in odd})
    assert rt.to_table(frame, name, clean_names=True).schema.names == [*odd.values()]
    for label in ("a`b", "_rowid"):
        with pytest.raises(rt.errors.BadRequest, match=re.escape(repr(label))):
            rt.to_table(pl.DataFrame({label: [1]}), f"{name}_2")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_the_labels_of_all_frames_must_be_those_of_the_first(
    service, client, name, make
):
    first = {"x.y": [1], "x`y": [10], "z": [100]}
    then = {"x.y": [2], "x`y": [20], "z": [200]}
    table = rt.to_table(iter([make(first), make(then)]), name, clean_names=True)
    assert stored(service, name).to_pydict() == {
        "x_y": [1, 2],
        "x_y_2": [10, 20],
        "z": [100, 200],
    }
    turned = dict(reversed(then.items()))
    for other, unlike in (
        (turned, "column 1 is 'z', but 'x.y' in the first frame"),
        ({**then, "z.z": [0]}, "same columns"),
        ({"x.y": [3], "x`y": [30]}, "same columns"),
        ({"x_y": [3], "x`y": [30], "z": [300]}, "column 1 is 'x_y', but 'x.y'"),
    ):
        with pytest.raises((ValueError, UnsupportedTypeError), match=re.escape(unlike)):
            rt.to_table([make(first), make(other)], "other", clean_names=True)
    # each side of a plan is cleaned alone
    assert not rt.plan_alterations(make(first), make(turned), clean_names=True)
    assert not rt.plan_alterations(table, make(first), clean_names=True)


def test_labels_that_are_no_text_are_known_again(service, client, name):
    labels = [1, "1", 1.5, float("nan"), ("a", "b"), "a_b", "a.b", True]

    def frame(labels: list[object], first: int) -> pd.DataFrame:
        columns = pd.Index(labels, dtype=object)
        return pd.DataFrame([range(first, first + len(labels))], columns=columns)

    # another NaN, and a number of NumPy's
    again = [np.int64(1), "1", 1.5, np.float64("nan"), *labels[4:]]
    rt.to_table([frame(labels, 0), frame(again, 10)], name, clean_names=True)
    columns = stored(service, name).to_pydict().values()
    assert [*columns] == [[n, n + 10] for n in range(len(labels))]
    for odd in (["1", 1, *labels[2:]], [True, *labels[1:]]):
        with pytest.raises(ValueError, match="in the first frame"):
            rt.to_table([frame(labels, 0), frame(odd, 10)], "other", clean_names=True)


def test_dtypes_plans_and_dask_go_by_the_clean_names():
    frame = SALES.groupby("city").agg({"sold": ["min", "max"]})
    schema = send(frame, clean_names=True, dtypes={"sold_max": "int16"}).schema
    assert schema == pa.schema(
        {"city": pa.large_string(), "sold_min": pa.int64(), "sold_max": pa.int16()}
    )
    assert "'sold_max'" in refusal(
        frame, clean_names=True, dtypes={"sold.max": "int16"}
    )
    plan = rt.plan_alterations(
        frame, frame.astype({("sold", "max"): "int16"}), clean_names=True
    )
    assert plan.to_json() == {
        "alterations": [{"path": "sold_max", "data_type": {"type": "int16"}}]
    }
    assert send(SALES, clean_names=True).schema == send(SALES).schema
    assert "clean_names" in refusal(SALES, clean_names="yes")
    parts = pytest.importorskip("dask.dataframe").from_pandas(
        SALES.rename(columns={"sold": "a.b"}), npartitions=2
    )
    assert send(parts, clean_names=True).schema.names == ["city", "month", "a_b"]


LEVELS = [
    *[
        PERIODS,
        PERIODS.rename(None),
        pd.CategoricalIndex(pd.cut([1, 5], [0, 2, 6]), name="m"),
    ],
    *[pd.MultiIndex.from_arrays([[1, 2], PERIODS]), pd.Index(["a", 1])],
]


@pytest.mark.parametrize("index", LEVELS, ids=lambda index: type(index).__name__)
def test_a_level_of_the_index_becomes_a_column_as_the_message_says(index):
    frame = pd.DataFrame({"x": [1, 2]}, index=index)
    assert "df.reset_index()" in refusal(frame)
    with pytest.raises(UnsupportedTypeError, match=r"df\.reset_index\(\)"):
        rt.plan_alterations(frame, frame)
    send(frame, index=False)
    send(frame.reset_index().iloc[:, [-2]].map(str))


@pytest.mark.parametrize(
    "dtype",
    ["float", "int33", {"type": "int33"}, {"type": "list"}, "object", complex],
    ids=str,
)
def test_a_dtype_that_means_nothing_is_refused_with_its_column(dtype):
    assert "column 'x'" in refusal(objects(1), dtypes={"x": dtype})
    with pytest.raises((ValueError, TypeError), match="column 'x'"):
        rt.plan_alterations({"x": dtype}, {"x": int})


@pytest.mark.parametrize(
    "word",
    [
        "text",
        "varchar(20)",
        "INTEGER",
        "bigint",
        "date",
        "datetime",
        "timestamp",
        "time",
        "decimal(10,2)",
        "numeric",
        "numeric(5, 1)",
        "blob",
        "strng",
        "flaot64",
        "boolen",
        "int46",
    ],
)
def test_the_dtype_that_a_word_may_mean_is_offered_and_known(word):
    assert rt.data_type(
        re.search(r'"(.+)"\?$', refusal(objects("a"), dtypes={"x": word}))[1]
    )


def test_the_type_that_is_offered_for_a_category_of_text_is_taken():
    offered = re.search(
        r"(pyarrow\.dictionary\(.*\))$",
        refusal(objects("a", "b"), dtypes={"x": "category"}),
    )[1]
    assert pa.types.is_dictionary(
        send(objects("a", "b"), dtypes={"x": eval(offered, NAMES)})
        .schema.field("x")
        .type
    )


DURATION = pa.array([1], pa.duration("s"))
PAIRS = [  # columns of two items, and the type that is offered
    ([-(2**63)], np.uint64([2**64 - 1]), "decimal128(20, 0)"),
    (np.int8([-128]), np.uint64([2**64 - 1]), "decimal128(20, 0)"),
    ([-(2**63)], [Decimal("1.25")], "decimal128(22, 2)"),
    (np.int8([-128]), [Decimal("1.25")], "decimal128(5, 2)"),
    (np.uint64([2**64 - 1]), [Decimal("1.25")], "decimal128(22, 2)"),
    (np.float32([0.5]), [Decimal("12345.6789")], "double"),
    ([-128], np.uint32([2**32 - 1]), "int64"),
    ([1], [0.5], "double"),
]


@pytest.mark.parametrize(("first", "second", "offered"), PAIRS)
def test_the_type_that_is_offered_for_items_of_two_types_holds_both(
    first, second, offered
):
    columns = [pa.array(first), pa.array(second)]
    for pair in (columns, columns[::-1]):
        items = [pa.table({"x": column}) for column in pair]
        assert refusal(iter(items)).endswith(f"pass dtypes={{'x': {offered!r}}}")
        found = send(iter(items), dtypes={"x": offered}).table()["x"]
        values = [column.cast(found.type)[0] for column in pair]
        assert found.to_pylist() == [value.as_py() for value in values]


@pytest.mark.parametrize("other", [[1], ["a"], [dt.datetime(2020, 1, 1)]])
def test_no_type_is_offered_for_durations_and_what_they_cannot_be_cast_to(other):
    items = [pa.table({"x": DURATION}), pa.table({"x": other})]
    for pair in (items, items[::-1]):
        assert refusal(iter(pair)).endswith("; give both the same type")


RENAMED = SALES.rename(columns={"sold": "units"}).astype({"units": "int32"})


ROWS = [{"city": "Bern", "sold": 3}, {"city": "Genf", "sold": 4}]
NO_FRAMES = [
    (SALES["sold"], "data.to_frame()"),
    (pl.Series("a", [1]), "data.to_frame()"),
    (pa.array([1]), 'pyarrow.table({"name": data})'),
    (pa.chunked_array([[1]]), 'pyarrow.table({"name": data})'),
    (ROWS, "pandas.DataFrame(data)"),
    (iter(ROWS), "pandas.DataFrame(data)"),
    ({"city": ["Bern"]}, "pandas.DataFrame(data)"),
    (np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), "pandas.DataFrame(data)"),
]


@pytest.mark.parametrize(("data", "code"), NO_FRAMES, ids=lambda value: str(value)[:20])
def test_what_is_no_frame_becomes_one_as_the_message_says(data, code):
    assert code.removeprefix("data") in refusal(data)
    assert send(eval(code, {**NAMES, "data": data})).table().num_rows


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".ndjson", ".arrow", ".CSV"])
def test_a_path_is_read_as_the_message_says(tmp_path, suffix):
    path, frame = tmp_path / f"sales{suffix}", pl.from_pandas(SALES)
    write = {
        ".csv": frame.write_csv,
        ".ndjson": frame.write_ndjson,
        ".arrow": frame.write_ipc,
    }
    write.get(suffix.lower(), frame.write_parquet)(path)
    for given in (path, str(path)):
        assert (
            send(eval(re.search(r"(polars\..*\))$", refusal(given))[1], NAMES))
            .table()
            .num_rows
            == 3
        )


WRONG = [
    (lambda c: rt.to_table(SALES, "t", client="http://x"), "client|'http://x'"),
    (lambda c: rt.list_tables(client=rt), "client"),
    (lambda c: c.table("t").rename("sold"), "columns|dict|'sold'"),
    (lambda c: c.table("t").rename([("a", "b")]), "columns|dict"),
    (lambda c: c.table("t").cast({}), "dtypes|dict|{}"),
    (lambda c: c.table("t").set_nullable("sold"), "nullable|dict"),
    (lambda c: SALES.remote.plan_alterations("sales"), "before|'sales'"),
    (lambda c: rt.plan_alterations(SALES, "sales"), "after|'sales'"),
    (lambda c: rt.to_table(SALES, "t", compression="gzip"), "compression|'gzip'"),
    (lambda c: rt.to_table(SALES, "t", compression=6), "compression|6"),
]


@pytest.mark.parametrize(("call", "facts"), WRONG)
def test_a_wrong_argument_is_named_as_it_was_written(remote, server, call, facts):
    with pytest.raises(
        (TypeError, ValueError), match=f"^{facts.partition('|')[0]}: "
    ) as caught:
        call(remote)
    assert [fact for fact in facts.split("|") if fact not in str(caught.value)] == []
    assert server.requests == []


def test_notebooks_show_the_callers_line_and_the_one_that_raised(remote):
    ultratb = pytest.importorskip("IPython.core.ultratb")

    def files(call) -> list[str]:
        with pytest.raises(Exception) as raised:  # noqa: PT011
            call()
        error = raised.value
        trace = ultratb.FormattedTB(mode="Context").structured_traceback(
            type(error), error, error.__traceback__
        )
        text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(trace))
        return [
            Path(file).name
            for file in re.findall(r"^File (.*):\d+, in ", text, re.MULTILINE)
        ]

    def generate():
        yield SALES
        raise RuntimeError("of the caller's own")

    with rt.connect(
        "http://127.0.0.1:9", api_key="k", retries=0, default=False
    ) as nobody:
        for call in (
            lambda: SALES.remote.to_table("t", client=nobody),
            lambda: objects("a", 1).remote.to_table("t"),
            lambda: RENAMED.remote.plan_alterations(SALES),
            lambda: rt.to_table(pa.table({"x": ["a"]}), "t", dtypes={"x": "int8"}),
        ):
            assert (
                len([file for file in files(call) if file != Path(__file__).name]) == 1
            )
    assert files(lambda: rt.to_table(generate(), "t"))[-1] == Path(__file__).name
