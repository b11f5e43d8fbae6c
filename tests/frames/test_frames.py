"""Frames of pandas and Polars come back value by value.

What cannot be stored is refused by column, before anything is sent.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.extra import pandas as hpd
from polars.testing import assert_frame_equal
from polars.testing.parametric import dataframes

import rt_frames as rt
from tests.support.compare import differing, stored
from tests.support.examples import uploading
from tests.support.sent import send

number = itertools.count()


def there_and_back(client, service, frame, **options) -> pa.Table | None:
    """Store a frame and read it with lance; None where it was refused by column."""
    name = f"frame_{next(number)}"
    try:
        rows = client.create_table(name, frame, **options).rows
    except (rt.errors.RemoteError, ValueError) as refused:
        named = [repr(column)[1:-1] for column in [*frame.columns, "no columns"]]
        assert any(column in str(refused) for column in named)  # noqa: PT017
        assert name not in client.list_tables()
        return None
    found = stored(service, name)
    shutil.rmtree(Path(service.root) / f"{name}.lance")
    assert found.num_rows == rows == len(frame)
    return found


nested = {pl.List: 3, pl.Array: 3, pl.Struct: 3}
flat = [
    pl.Int8,
    pl.UInt64,
    pl.Float32,
    pl.String,
    pl.Binary,
    pl.Boolean,
    pl.Date,
    pl.Datetime,
    pl.Categorical,
]
if tuple(map(int, pl.__version__.split(".")[:2])) < (1, 38):
    flat.remove(pl.Categorical)  # until then Polars could not make arrays of them


@uploading
@given(
    dataframes(max_cols=4, max_size=6, allow_null=True)
    | dataframes(
        max_cols=3,
        max_size=6,
        allowed_dtypes=[*nested, *flat],
        allow_null=True,
        min_cols=1,
    )
)
def test_every_polars_frame_comes_back_equal_or_is_refused_by_column(
    client, service, frame
):
    stored = there_and_back(client, service, frame)
    if stored is not None:
        assert_frame_equal(
            pl.from_arrow(stored),
            frame,
            categorical_as_str=True,
            check_dtypes=False,
            check_exact=True,
        )


text = st.text(st.characters(codec="utf-8"), max_size=8)
moments = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
whole, real, cents = (
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.integers(-(10**9), 10**9),
)
prices = cents.map(lambda many: decimal.Decimal(many) / 100)
spans = st.timedeltas(dt.timedelta(-(10**5)), dt.timedelta(10**5))
kinds = [
    text,
    whole,
    st.booleans(),
    st.binary(max_size=4),
    st.dates(),
    st.datetimes(),
    st.times(),
    real,
    spans,
    prices,
    st.lists(whole, max_size=3),
    st.fixed_dictionaries({"x": whole, "y": text}),
    text | whole,
]


def objects_column(values: list) -> pd.Series:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return pd.Series(array, dtype=object)


# pandas 2 takes other units of timedeltas through objects only
COARSE = "s" if int(pd.__version__[0]) >= 3 else "ns"
numpy_dtypes = st.one_of(
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.boolean_dtypes(),
    hnp.datetime64_dtypes(max_period="s", min_period="ns"),
    hnp.timedelta64_dtypes(max_period=COARSE, min_period="ns"),
    hnp.complex_number_dtypes(),
)
numpy_columns = numpy_dtypes.flatmap(
    lambda dtype: hpd.series(dtype=dtype, index=hpd.range_indexes(max_size=6))
)
paris, small = (
    moments.map(lambda moment: pd.Timestamp(moment, tz="UTC")),
    st.integers(-128, 127),
)
optional = {
    "Int8": small,
    "UInt64": st.integers(0, 2**64 - 1),
    "Float32": st.floats(width=32, allow_nan=False),
    "boolean": st.booleans(),
    "string": text,
    "str": text,
    "int64[pyarrow]": whole,
    "double[pyarrow]": real,
    "datetime64[ns, Europe/Paris]": paris,
    "datetime64[us, UTC]": paris,
    "category": text,
    pd.CategoricalDtype([1, 5, 9]): st.sampled_from([1, 5, 9]),
    pd.ArrowDtype(pa.decimal128(10, 2)): prices,
    pd.ArrowDtype(pa.list_(pa.string())): st.lists(text, max_size=3),
    pd.ArrowDtype(pa.date32()): st.dates(),
    pd.ArrowDtype(pa.struct([("x", pa.int8())])): st.fixed_dictionaries({"x": small}),
}
optional_columns = st.sampled_from(list(optional)).flatmap(
    lambda dtype: st.lists(st.none() | optional[dtype], max_size=6).map(
        lambda values: pd.Series(values, dtype=dtype)
    )
)


cells = st.one_of(
    *kinds,
    moments.map(lambda m: m.replace(tzinfo=dt.UTC)),
    moments.map(lambda m: pd.Timestamp(m) + pd.Timedelta(1)),
    cents.map(lambda n: np.timedelta64(n, "ms")),
    cents.map(lambda n: np.datetime64(n, "s")),
    st.sampled_from(
        [
            None,
            pd.NA,
            pd.NaT,
            float("nan"),
            np.datetime64("NaT", "s"),
            np.timedelta64("NaT", "s"),
        ]
    ),
    hnp.arrays(
        st.sampled_from([">i4", "i8", "M8[ms]", "m8[s]", "M8[D]"]), st.integers(0, 3)
    ),
    hnp.arrays("f4", st.integers(0, 3)).map(np.nan_to_num),
    st.lists(whole, max_size=3).map(
        lambda some: np.ma.array(
            some, mask=[i % 2 for i in range(len(some))], dtype="i8"
        )
    ),
)
nested_cells = st.recursive(
    cells,
    lambda c: st.lists(c, max_size=3) | st.fixed_dictionaries({"a": c}),
    max_leaves=4,
)
repeated = st.tuples(
    st.lists(nested_cells, min_size=1, max_size=1), st.integers(1, 3)
).map(lambda some: some[0] * some[1])
mixed = st.tuples(repeated, st.lists(nested_cells, max_size=2)).map(
    lambda some: objects_column(some[0] + some[1])
)
alike = (
    st.sampled_from(kinds)
    .flatmap(lambda kind: st.lists(st.none() | kind, max_size=6))
    .map(objects_column)
)
pandas_columns = numpy_columns | optional_columns | alike


@uploading
@given(
    st.lists(pandas_columns, min_size=1, max_size=3)
    | st.lists(mixed, min_size=1, max_size=1)
)
def test_every_pandas_frame_comes_back_equal_or_is_refused_by_column(
    client, service, columns
):
    rows = min(map(len, columns))
    frame = pd.DataFrame(
        {
            f"c{i}": series.iloc[:rows].reset_index(drop=True)
            for i, series in enumerate(columns)
        }
    )
    stored = there_and_back(client, service, frame)
    if stored is not None:
        for name in frame.columns:
            assert differing(stored[name], frame[name]) == [], (name, frame[name].dtype)


@pytest.mark.parametrize("start", [1, 3, 9])
def test_rows_cut_out_of_polars_structs_are_those_rows(client, service, name, start):
    points = [None if n % 3 == 0 else {"x": n, "y": str(n)} for n in range(20)]
    point = pl.Struct({"x": pl.Int64, "y": pl.String})
    columns = {
        "struct": (points, point),
        "inside": (
            [None if n % 4 == 0 else {"p": p} for n, p in enumerate(points)],
            pl.Struct({"p": point}),
        ),
        "list": (
            [None if n % 4 == 0 else [p] * (n % 3) for n, p in enumerate(points)],
            pl.List(point),
        ),
    }
    frame = pl.DataFrame(
        [pl.Series(label, values, dtype) for label, (values, dtype) in columns.items()]
    )
    for number, cut in enumerate([frame.slice(start, 9), frame.lazy().slice(start, 9)]):
        rt.to_table(cut, f"{name}{number}")
        assert (
            stored(service, f"{name}{number}").to_pylist()
            == frame.to_dicts()[start : start + 9]
        )


PAIR = pl.Array(pl.Int64, 2)
PAIRS = [None if n % 3 == 0 else [n, None] for n in range(20)]
CUTS = {
    "slice": lambda frame: frame.slice(5, 9),
    "lazy slice": lambda frame: frame.lazy().slice(5, 9),
    "lazy filter": lambda frame: frame.lazy().filter(
        pl.int_range(pl.len()).is_between(5, 13)
    ),
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_rows_cut_out_of_polars_arrays_are_those_rows(client, service, name, cut):
    frame = pl.DataFrame(
        {
            "array": pl.Series(PAIRS, dtype=PAIR),
            "arrays": pl.Series(
                [[pair, None] for pair in PAIRS], dtype=pl.Array(PAIR, 2)
            ),
            "list": pl.Series([[pair, None] for pair in PAIRS], dtype=pl.List(PAIR)),
        }
    )
    rt.to_table(cut(frame), name)
    assert stored(service, name).to_pylist() == frame.to_dicts()[5:14]


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
    table = send(frame).table()
    assert {
        name: table[name].null_count for name in table.schema.names
    } == dict.fromkeys(frame.columns, 1)
    assert (
        send(pl.DataFrame({"f": [1.0, float("nan"), None]})).table()["f"].null_count
        == 1
    )


def test_dtypes_cast_on_the_way_and_the_callers_frame_is_never_changed(client, service):
    frame = pd.DataFrame(
        {"a": [1, 2], "note": [None, None], "when": ["2020-01-01", "2021-02-03"]},
        pd.Index([5, 6], name="k"),
    )
    copy = frame.copy(deep=True)
    table = there_and_back(
        client,
        service,
        frame,
        dtypes={"a": "int8", "note": str, "when": pl.Date, "k": "float32"},
    )
    pd.testing.assert_frame_equal(frame, copy)
    assert table.schema.types == [
        pa.float32(),
        pa.int8(),
        pa.large_string(),
        pa.date32(),
    ]
    days = [dt.date(2020, 1, 1), dt.date(2021, 2, 3)]
    assert table.to_pydict() == {
        "k": [5, 6],
        "a": [1, 2],
        "note": [None, None],
        "when": days,
    }


def labeled(*labels: object) -> pd.DataFrame:
    return pd.DataFrame(
        [range(len(labels))], columns=pd.Index([*labels], tupleize_cols=False)
    )


REFUSED = [  # frames, options, and what is named
    (pd.DataFrame(index=range(3)), {}, "no columns"),
    (pl.DataFrame(), {}, "no columns"),
    (pa.table({}), {}, "no columns"),
    (labeled(1, "b"), {}, "strings|1"),
    (labeled(("a", "b"), "c"), {}, "strings|('a', 'b')"),
    (labeled("a", "a"), {}, "more than once|'a'"),
    (labeled("a", ""), {}, "empty|number 2"),
    (labeled("a", "x\ny"), {}, "control characters"),
    (labeled("a", "x.y"), {}, "dot|'x.y'|clean_names=True"),
    (pd.DataFrame({"a": [1, 300]}), {"dtypes": {"a": "int8"}}, "'a'|row 1|300|int8"),
    (pl.DataFrame({"a": [1, 300]}), {"dtypes": {"a": "int8"}}, "'a'|row 1|300|int8"),
    (pl.DataFrame({"a": [1]}), {"dtypes": {"b": "int8"}}, "'b'"),
    (pl.DataFrame({"a": [1]}), {"index": True}, "index|pandas"),
    (pd.DataFrame({"a": [1]}, index=pd.Index([7], name="a")), {}, "'a'|index=False"),
    (
        pd.DataFrame({"level_0": [1], "index": [2]}, index=["x"]),
        {},
        "'level_0'|index=False",
    ),
]


@pytest.mark.parametrize(
    ("frame", "options", "facts"), REFUSED, ids=lambda value: str(value)[:20]
)
def test_what_cannot_be_sent_is_named_before_anything_is_sent(
    remote, server, frame, options, facts
):
    with pytest.raises((ValueError, rt.errors.UnsupportedTypeError)) as refused:
        rt.to_table(frame, "t", **options)
    assert [fact for fact in facts.split("|") if fact not in str(refused.value)] == []
    assert server.requests == []
    if "index=False" in facts:
        assert send(frame, index=False).table().to_pydict() == frame.to_dict("list")
        assert (
            send(frame, clean_names=True).table().num_columns == len(frame.columns) + 1
        )


def one(level: object = None, *, column: str = "a", **named: object) -> pd.DataFrame:
    return pd.DataFrame(
        {column: [1]}, index=None if level is None else pd.Index([level], **named)
    )


DAY, MULTI = (
    pd.DatetimeIndex(["2020-01-01"]),
    pd.MultiIndex.from_tuples([(1, "x"), (2, "y")], names=["k", None]),
)


def in_runs(level: object) -> pd.Index:
    return pd.Index(
        pd.arrays.ArrowExtensionArray(
            pa.chunked_array([pa.RunEndEncodedArray.from_arrays([1], [level])])
        )
    )


FRAMES = [  # frames, the option, and the columns
    (one(), None, ["a"]),
    (one(), True, ["index", "a"]),
    (one(column="index"), True, ["level_0", "index"]),
    (one("text", column="index"), None, ["level_0", "index"]),
    *[(one(7, name="k"), option, ["k", "a"]) for option in (None, True)],
    *[(one(7, name="k"), option, ["a"]) for option in (False, np.False_)],
    *[
        (pd.DataFrame({"a": [1.0, 2.0]}, MULTI), option, ["k", "level_1", "a"])
        for option in (None, True)
    ],
    (pd.DataFrame({"a": [1.0, 2.0]}, MULTI), False, ["a"]),
    (pd.DataFrame({"a": [1]}, DAY.rename("day")), None, ["day", "a"]),
    (pd.DataFrame({"a": [1]}, DAY), None, ["index", "a"]),
    (pd.DataFrame({"a": [1]}, DAY), False, ["a"]),
    (pd.DataFrame({"a": [1]}, pd.CategoricalIndex(["u"], name="c")), None, ["c", "a"]),
    (
        pd.DataFrame({"a": [1]}, pd.MultiIndex.from_tuples([(1, 2)])),
        None,
        ["level_0", "level_1", "a"],
    ),
    *[
        (pd.DataFrame({column: [1]}, pd.MultiIndex.from_arrays([["x"]])), option, names)
        for column, option, names in [
            ("a", None, ["level_0", "a"]),
            ("a", True, ["level_0", "a"]),
            ("index", None, ["level_0", "index"]),
            ("a", False, ["a"]),
        ]
    ],
    *[(one(level), None, ["index", "a"]) for level in (1.5, True)],
    *[(one(7, dtype=dtype), None, ["a"]) for dtype in ("Int64", "uint8")],
    *[
        (one("x", dtype=pd.ArrowDtype(arrow)), None, ["index", "a"])
        for arrow in (
            pa.string_view(),
            pa.large_string(),
            pa.dictionary(pa.int8(), pa.string()),
        )
    ],
    *[
        (one([7], dtype=pd.ArrowDtype(pa.list_view(pa.int8()))), option, ["index", "a"])
        for option in (None, True)
    ],
    (pd.DataFrame({"a": [1]}, in_runs(7)), None, ["a"]),
    (pd.DataFrame({"a": [1]}, in_runs("x")), None, ["index", "a"]),
    (pd.DataFrame({"a": [1.5, 2.5, 9.0]}).describe(), None, ["index", "a"]),
    (pd.DataFrame({"a": [1, 2, 3], "b": [3, 1, 2]}).corr(), None, ["index", "a", "b"]),
    (pd.DataFrame({"a": [1, 2, 3]}).query("a > 1"), None, ["a"]),
]


@pytest.mark.parametrize(("frame", "index", "columns"), FRAMES)
def test_index_levels_become_columns_by_rule(frame, index, columns):
    table = send(frame, index=index).table()
    assert table.schema.names == columns
    assert index is not None or rt.plan_alterations(frame, table.schema).to_json() == {
        "alterations": []
    }
    if len(columns) > len(frame.columns):
        wanted = frame.reset_index()
        assert list(wanted.columns) == columns
        for have, want in zip(table.columns, wanted.columns, strict=True):
            assert [str(v) for v in have.to_pylist()] == [
                str(v) for v in wanted[want].tolist()
            ]


def test_a_change_of_the_index_is_seen_by_a_plan():
    days = pd.DataFrame({"a": [1]}, index=pd.DatetimeIndex(["2020-01-01"]).as_unit("s"))
    assert [
        c.path
        for c in rt.plan_alterations(days, days.set_index(days.index.as_unit("ms")))
    ] == ["index"]
    plan = rt.plan_alterations(days, days.reset_index(drop=True))
    assert plan.left_alone == ("index",)
