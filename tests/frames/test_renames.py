"""Renames are inferred where memory proves them, and nowhere else."""

from __future__ import annotations

import decimal
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames._frames.renames import detect_renames
from rt_frames.errors import AlterationError

ROWS = 400
NUMBERS = [1, None, 3, 4] * (ROWS // 4)
WORDS = ["north", None, "a word that is too long to be kept inline", "x"] * (ROWS // 4)
DAYS = pd.date_range("2020", periods=ROWS, freq="h")
NUMPY = ("int8", "int64", "uint32", "float32", "float64", "timedelta64[ns]")
POLARS = {
    **{str(dtype): (NUMBERS, dtype) for dtype in (pl.Int8, pl.UInt32, pl.Int64, pl.Float32, pl.Float64)},
    **{str(dtype): (WORDS, dtype) for dtype in (pl.String, pl.Categorical, pl.Enum(["north", "x", WORDS[2]]))},
    "Duration": (NUMBERS, pl.Duration("us")),
    "Boolean": ([True, None, False, True] * (ROWS // 4), pl.Boolean),
    "Binary": ([b"a", None, b"bc", b""] * (ROWS // 4), pl.Binary),
    "Datetime": ([*DAYS.to_pydatetime()], pl.Datetime("us", "UTC")),
    "Date": ([*DAYS.date], pl.Date),
    "Time": ([*DAYS.time], pl.Time),
    "Decimal": ([decimal.Decimal("1.25"), None] * (ROWS // 2), pl.Decimal(9, 2)),
    "List": ([[1, None], None, [], [2]] * (ROWS // 4), pl.List(pl.Int64)),
    "List(Categorical)": ([["a"], None, [], ["b", "a"]] * (ROWS // 4), pl.List(pl.Categorical)),
    "Array": ([[1, 2], None] * (ROWS // 2), pl.Array(pl.Int16, 2)),
    "Struct": ([{"n": 1, "s": "x"}, None] * (ROWS // 2), pl.Struct({"n": pl.Int64, "s": pl.String})),
    "Struct(Categorical)": ([{"c": "x"}, {"c": "y"}] * (ROWS // 2), pl.Struct({"c": pl.Categorical})),
}  # fmt: skip
PANDAS = {
    **{name: (NUMBERS, name) for name in ("Int8", "Int64", "UInt16", "Float32", "Float64", "int64[pyarrow]")},
    **{name: (WORDS, name) for name in ("str", "string", "string[python]", "category", "object")},
    "str on Python's": (WORDS, pd.StringDtype("python", **({"na_value": np.nan} if pd.__version__ >= "3" else {}))),
    **{name: ([1, 2, 3, 4] * (ROWS // 4), name) for name in NUMPY},
    **{name: ([True, False] * (ROWS // 2), name) for name in ("bool", "boolean")},
    **{name: (DAYS, name) for name in ("datetime64[ns]", "timestamp[us][pyarrow]")},
    "datetime64[ns, UTC]": (DAYS.tz_localize("UTC"), None),
}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore:before and after")  # with strict=False, where no rename is found


def polars_frame(kind: str, name: str, *, other: bool = False) -> pl.DataFrame:
    values, dtype = POLARS[kind]
    return pl.DataFrame({name: pl.Series(values[::-1] if other else values, dtype=dtype)})


def pandas_frame(kind: str, name: str, *, other: bool = False) -> pd.DataFrame:
    values, dtype = PANDAS[kind]
    return pd.DataFrame({name: pd.Series(list(values)[:: -1 if other else 1], dtype=dtype)})


KINDS = [(polars_frame, kind) for kind in POLARS] + [(pandas_frame, kind) for kind in PANDAS]


def renames(before: object, after: object) -> dict[str, str | None]:
    return {one.path: one.rename for one in rt.plan_alterations(before, after, strict=False)}


@pytest.mark.parametrize("times", [500, pytest.param(5_000, marks=pytest.mark.long)])
def test_no_rename_is_inferred_between_frames_that_have_nothing_in_common(times):
    """Two pairs each: one of which is let go of while it is compared, and one that is kept."""
    for number, (make, kind) in zip(range(times), itertools.cycle(KINDS), strict=False):
        other = number % 2 == 1
        assert renames(make(kind, "a"), make(kind, "b", other=other)) == {}, kind
        before = make(kind, "a")
        after = make(kind, "b", other=other)
        assert renames(before, after) == {}, kind


NOT_PROVABLE = ("Struct(Categorical)", "boolean")  # each export of these is a copy


@pytest.mark.parametrize(("make", "kind"), KINDS, ids=[kind for _, kind in KINDS])
def test_a_rename_is_inferred_from_the_same_memory(make, kind):
    frame = make(kind, "a")
    if isinstance(frame, pd.DataFrame):
        lazily = {"copy": False} if pd.__version__ < "3" else {}  # what pandas 3 always does
        made = [frame.rename(columns={"a": "b"}, **lazily), frame.set_axis(["b"], axis=1, **lazily)]
    else:
        made = [frame.rename({"a": "b"}), frame.select(pl.col("a").alias("b")), frame.with_columns(b="a").drop("a")]
    for after in made:
        assert renames(frame, after) == ({} if kind in NOT_PROVABLE else {"a": "b"})


def arrow(array: pa.Array, name: str) -> pa.Table:
    return pa.table({name: array})


ITEMS = pa.array(range(50))
NUMBERED = pl.DataFrame({"a": [1, 2, 3] * 20})
CODES = pa.array([0, 1] * 20, pa.int8())
ODD = [number % 2 == 1 for number in range(50)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (NUMBERED, NUMBERED.select(b=pl.when(pl.col("a") > 1).then("a"))),
        (NUMBERED, NUMBERED.select(b=pl.col("a").replace(1, None))),
        (NUMBERED[:-1], NUMBERED[1:].rename({"a": "b"})),
        (NUMBERED, NUMBERED.select(b="a", c="a")),
        (
            arrow(pa.DictionaryArray.from_arrays(CODES, pa.array(["x", "y"])), "a"),
            arrow(pa.DictionaryArray.from_arrays(CODES, pa.array(["y", "x"])), "b"),
        ),
        (
            arrow(pa.ListArray.from_arrays(pa.array([0, 10, 50], pa.int32()), ITEMS), "a"),
            arrow(pa.ListArray.from_arrays(pa.array([0, 20, 50], pa.int32()), ITEMS), "b"),
        ),
        (
            arrow(pa.StructArray.from_arrays([ITEMS[:40]], ["x"]), "a"),
            arrow(pa.StructArray.from_arrays([ITEMS[10:]], ["x"]), "b"),
        ),
        (
            arrow(pa.StructArray.from_arrays([ITEMS], ["x"]), "a"),
            arrow(pa.StructArray.from_arrays([ITEMS], ["x"], mask=pa.array(ODD)), "b"),
        ),
        (
            pd.DataFrame({"a": pd.arrays.IntegerArray(ITEMS.to_numpy(), np.zeros(50, bool))}, copy=False),
            pd.DataFrame({"b": pd.arrays.IntegerArray(ITEMS.to_numpy(), np.array(ODD))}, copy=False),
        ),
        (pl.DataFrame({"a": pl.Series([1] * 9).is_null()}), pl.DataFrame({"b": pl.Series([0.5] * 9).is_null()})),
        (
            pl.DataFrame({"a": pl.repeat(None, 9, dtype=pl.Int64, eager=True)}),
            pl.DataFrame({"b": pl.repeat(None, 9, dtype=pl.Int64, eager=True)}),
        ),
        (NUMBERED[:0], NUMBERED[:0].rename({"a": "b"})),
    ],
    ids=[
        *["nulls", "replaced", "slices", "two candidates", "dictionaries", "offsets", "inner offsets", "struct nulls"],
        *["masks", "lent zeros", "lent nulls", "no rows"],
    ],
)
def test_shared_memory_that_means_something_else_is_no_rename(before, after):
    assert renames(before, after) == {}


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.array([b"", b""], pa.binary(0)),
        lambda: pl.Series([None], dtype=pl.List(pl.Enum(["x", "y"]))),
        lambda: pl.Series([None, None], dtype=pl.Enum(["x", "y"])),
    ],
)
def test_columns_that_hold_nothing_prove_nothing(make):
    before, after = (
        pl.DataFrame({name: make()}) if isinstance(make(), pl.Series) else arrow(make(), name) for name in "ab"
    )
    assert renames(before, after) == {}


def test_a_chain_of_renames_is_offered_as_the_memory_tells_it():
    before = pl.DataFrame({"a": [1], "b": [2], "k": [3]})
    after = before.select(b="a", c="b", k="k")
    with pytest.raises(AlterationError, match=r"pass rename=\{'a': 'b', 'b': 'c'\}$"):
        rt.plan_alterations(before, after)
    plan = rt.plan_alterations(before, after, rename={"a": "b", "b": "c"})
    assert [(one.path, one.rename) for one in plan] == [("a", "b"), ("b", "c")]
    broken = before.select(b="a", c=pl.Series([9]), k="k")
    with pytest.raises(AlterationError) as caught:
        rt.plan_alterations(before, broken)
    assert "'a': 'c'" not in str(caught.value)


@pytest.mark.parametrize("to_frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_names_that_were_swapped_are_renames_and_an_order_that_changed_is_none(to_frame):
    before = to_frame({"net": [1.0, 2.0], "gross": [1.2, 2.4], "text": ["a", "b"], "kept": [1, 2]})
    swapped, order = {"net": "gross", "gross": "net", "text": "note"}, ["kept", "gross", "text", "net"]
    if isinstance(before, pa.Table):
        after, reordered = before.rename_columns(["gross", "net", "note", "kept"]), before.select(order)
    else:
        lazily = {"copy": False} if pd.__version__ < "3" else {}  # what pandas 3 always does
        after = before.rename(columns=swapped, **lazily) if isinstance(before, pd.DataFrame) else before.rename(swapped)
        reordered = before[order]
    for rename in (None, {"text": "note"}):
        assert {a.path: a.rename for a in rt.plan_alterations(before, after, rename=rename)} == swapped
    assert not rt.plan_alterations(before, reordered)


def test_categories_that_arrow_cannot_export_prove_nothing():
    values = pd.Index([np.uint32(36), np.int32(5)], dtype=object)
    frame = pd.DataFrame({"a": pd.Categorical.from_codes([0, 1, -1], values)})
    assert detect_renames(frame, frame.rename(columns={"a": "b"})) == {}
