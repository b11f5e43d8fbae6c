"""Nested types have as many levels as everything on their way takes, and no more."""

from __future__ import annotations

import functools
import time

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.compare import stored

MAKERS = {
    "list": pa.large_list,
    "struct": lambda inner: pa.struct([("f", inner)]),
    "map": lambda inner: pa.map_(pa.string(), inner),
    "polars": pl.List,
}


def nested(kind: str, levels: int) -> object:
    return functools.reduce(
        lambda inner, _: MAKERS[kind](inner), range(levels), pl.Int64 if kind == "polars" else pa.int64()
    )


def frame(kind: str, levels: int) -> object:
    dtype = nested(kind, levels)
    return pl.DataFrame(schema={"x": dtype}) if kind == "polars" else pa.schema([("x", dtype)]).empty_table()


@pytest.mark.parametrize("kind", MAKERS)
def test_the_last_level_that_is_taken_is_stored(client, service, name, kind):
    rt.to_table(frame(kind, 16 if kind == "map" else 32), name)
    assert stored(service, name).schema.names == ["x"]


@pytest.mark.parametrize("levels", [33, 70, 300])
@pytest.mark.parametrize("kind", MAKERS)
def test_one_level_more_is_refused_by_column_before_anything_is_sent(remote, server, kind, levels):
    deep, flat = frame(kind, levels), {"x": "int64"}
    for attempt in (
        lambda: rt.to_table(deep, "t"),
        lambda: rt.to_table(pa.table({"x": [1]}), "t", dtypes={"x": nested(kind, levels)}),
        lambda: rt.plan_alterations(deep, flat),
        lambda: rt.plan_alterations(flat, deep),
        lambda: rt.Alteration("x", data_type=nested(kind, levels)),
    ):
        with pytest.raises(UnsupportedTypeError, match=r"'x\..*more than 32 levels deep"):
            attempt()
    assert server.requests == []


@pytest.mark.parametrize("kind", MAKERS)
def test_five_thousand_levels_are_refused_at_once(kind):
    dtype, start = nested(kind, 5000), time.perf_counter()
    for before in ({"x": dtype}, pl.Schema({"x": dtype}) if kind == "polars" else pa.schema([("x", dtype)])):
        with pytest.raises(UnsupportedTypeError, match=r"'x\..*more than 32 levels deep"):
            rt.plan_alterations(before, {"x": "int64"})
    assert time.perf_counter() - start < 2


class Odd(type):
    def __hash__(cls) -> int:
        raise RuntimeError("no hash")


def test_a_class_that_refuses_to_be_hashed_is_no_dtype_and_no_crash():
    with pytest.raises(UnsupportedTypeError, match="as a dtype cannot be sent"):
        rt.data_type(Odd("X", (), {}))
