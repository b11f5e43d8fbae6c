"""The vocabulary of types, both ways: the recorded forms, types composed of them at random, and wrong objects."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rt_frames as rt
from rt_frames._data_types import data_type_of
from rt_frames.errors import UnsupportedTypeError

RECORDED = json.loads((Path(__file__).parent / "data_types.json").read_text())


def recorded(case: dict) -> pa.DataType:
    return eval(case["arrow"], {"pa": pa})


@pytest.mark.parametrize("case", RECORDED, ids=[case["arrow"] for case in RECORDED])
def test_every_recorded_form_is_said_and_read(case):
    assert rt.data_type(recorded(case)) == case["data_type"]
    assert rt.arrow_type(case["data_type"]) == recorded(case)


@pytest.mark.parametrize(
    ("name", "arrow"),
    [
        ("utf8", pa.string()),
        ("large_utf8", pa.large_string()),
        ("float16", pa.float16()),
        ("float32", pa.float32()),
        ("float64", pa.float64()),
        ("boolean", pa.bool_()),
        ("timestamp:us:+01:00", pa.timestamp("us", "+01:00")),
        ("dict:timestamp:s:UTC:int8:true", pa.dictionary(pa.int8(), pa.timestamp("s", "UTC"), ordered=True)),
        ("decimal:256:76:-3", pa.decimal256(76, -3)),
    ],
)
def test_synonyms_and_parameters_are_read(name, arrow):
    assert rt.arrow_type({"type": name}) == arrow


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "data_type: .*object"),
        ("int64", "data_type: .*object"),
        ({}, "data_type: .*type"),
        ({"type": 3}, "data_type: .*type"),
        ({"type": "nope"}, "data_type.type: .*'nope'"),
        ({"type": "timestamp:us"}, "data_type.type: .*timestamp:us"),
        ({"type": "timestamp:fs:UTC"}, "data_type.type"),
        ({"type": "decimal:128:99:2"}, "data_type.type"),
        ({"type": "decimal:64:9:2"}, "data_type.type"),
        ({"type": "dict:string:string:false"}, "data_type.type"),
        ({"type": "dict:string:int8:maybe"}, "data_type.type"),
        ({"type": "fixed_size_list", "fields": [{"name": "item", "type": {"type": "int8"}, "nullable": True}]},
         "data_type.length"),
        ({"type": "fixed_size_binary"}, "data_type.length"),
        ({"type": "fixed_size_binary", "length": -1}, "data_type.length"),
        ({"type": "fixed_size_binary", "length": True}, "data_type.length"),
        ({"type": "int64", "length": 4}, "data_type.length"),
        ({"type": "int64", "fields": [{}]}, "data_type.fields"),
        ({"type": "list"}, "data_type.fields"),
        ({"type": "list", "fields": []}, "data_type.fields"),
        ({"type": "struct", "fields": [{"name": "x", "nullable": True}]}, r"data_type.fields\[0\].type"),
        ({"type": "struct", "fields": [{"type": {"type": "int8"}, "nullable": True}]}, r"data_type.fields\[0\].name"),
        ({"type": "struct", "fields": [{"name": "x", "type": {"type": "int8"}}]}, r"data_type.fields\[0\].nullable"),
        ({"type": "struct", "fields": [{"name": "x", "type": {"type": "?"}, "nullable": True}]},
         r"data_type.fields\[0\].type.type"),
        ({"type": "struct", "fields": ["x"]}, r"data_type.fields\[0\]"),
        ({"type": "struct", "fields": [{"name": "x", "type": {"type": "null"}, "nullable": False}]},
         r"data_type.fields\[0\].nullable"),
    ],
)  # fmt: skip
def test_a_wrong_object_is_refused_with_the_path_inside_it(given, words):
    with pytest.raises(ValueError, match=words):
        rt.arrow_type(given)


def test_an_object_nested_beyond_reading_is_refused():
    deep: dict = {"type": "int8"}
    for _ in range(100_000):
        deep = {"type": "list", "fields": [{"name": "item", "type": deep, "nullable": True}]}
    with pytest.raises(ValueError, match="nested too deeply"):
        rt.arrow_type(deep)


@pytest.mark.parametrize("arrow", [pa.map_(pa.string(), pa.int8()), pa.month_day_nano_interval()])
def test_a_type_without_a_word_is_refused_by_path(arrow):
    with pytest.raises(UnsupportedTypeError, match=r"'outer\.inner'"):
        data_type_of(pa.struct([("inner", arrow)]), "outer")


plain = st.sampled_from([recorded(case) for case in RECORDED if not pa.types.is_nested(recorded(case))])
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)


def fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.Field]:
    made = st.tuples(names, types, st.booleans())
    return made.map(lambda m: pa.field(m[0], m[1], nullable=m[2] or m[1] == pa.null()))  # Arrow's own rule


types = st.recursive(
    plain,
    lambda inner: st.one_of(
        fields(inner).map(pa.list_),
        fields(inner).map(pa.large_list),
        st.builds(pa.list_, fields(inner), st.integers(0, 2**31 - 1)),
        st.lists(fields(inner), max_size=4).map(pa.struct),
    ),
    max_leaves=12,
)


def same(one: pa.DataType, other: pa.DataType) -> bool:
    """Compare the names and nullability of items too, which pyarrow's own equality leaves out."""
    one_inside, other_inside = ([t.field(i) for i in range(t.num_fields)] for t in (one, other))
    return one == other and all(
        (a.name, a.nullable) == (b.name, b.nullable) and same(a.type, b.type)
        for a, b in zip(one_inside, other_inside, strict=True)
    )


@settings(max_examples=3000, deadline=None, derandomize=True)
@given(types)
def test_every_composed_type_is_said_and_read_back_as_it_is(arrow):
    assert same(rt.arrow_type(json.loads(json.dumps(rt.data_type(arrow)))), arrow)
