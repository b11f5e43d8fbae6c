"""Arrow types ⇄ data_type objects, against what the official client was seen to send.

`rt.data_type` makes an Arrow type portable first, but spells the type that an object
describes as it is. So the tests read an object, and let it be spelled again.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.types import same

RECORDED = [
    (eval(entry["arrow"]), entry["data_type"])  # the file is ours
    for entry in json.loads((Path(__file__).parent / "data_types.json").read_text())
]


@pytest.mark.parametrize(
    ("arrow", "said"), RECORDED, ids=[str(arrow) for arrow, _ in RECORDED]
)
def test_every_recorded_type_is_said_and_read_as_the_official_client_does(arrow, said):
    assert same(rt.arrow_type(said), arrow)
    assert rt.data_type(said) == said


FLAT = [(arrow, said) for arrow, said in RECORDED if "fields" not in said]
ONE_WORD = [
    pair
    for pair in FLAT
    if set(pair[1]) == {"type"} and not pair[1]["type"].startswith(("null", "dict"))
]
names = st.text(st.characters(codec="utf-8"), max_size=8)
lengths = st.integers(0, 2**10)
# multiplied by those inside, at most 2**24
list_sizes = st.integers(0, 4)
units = st.sampled_from(["s", "ms", "us", "ns"])
zones = st.sampled_from(
    ["UTC", "Europe/Paris", "+05:30", "-01:00", "Etc/GMT+5", "America/Port-au-Prince"]
)
codes = st.sampled_from(
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)


def decimals(bits: int, most: int) -> st.SearchStrategy:
    kind = {128: pa.decimal128, 256: pa.decimal256}[bits]
    made = st.tuples(st.integers(1, most), st.integers(-5, most))
    return made.map(lambda d: (kind(*d), {"type": f"decimal:{bits}:{d[0]}:{d[1]}"}))


def categorical(parts: tuple) -> tuple:
    (value, said), index = parts
    return pa.dictionary(pa.type_for_alias(index), value), {
        "type": f"dict:{said['type']}:{index}:false"
    }


flat = st.one_of(
    st.sampled_from(FLAT),
    st.tuples(units, zones).map(
        lambda t: (pa.timestamp(*t), {"type": f"timestamp:{t[0]}:{t[1]}"})
    ),
    lengths.map(lambda n: (pa.binary(n), {"type": "fixed_size_binary", "length": n})),
    decimals(128, 38),
    decimals(256, 76),
    st.tuples(st.sampled_from(ONE_WORD), codes).map(categorical),
)


def field(parts: tuple) -> tuple:
    name, (arrow, said), nullable = parts
    nullable = nullable or pa.types.is_null(arrow)
    return pa.field(name, arrow, nullable), {
        "name": name,
        "type": said,
        "nullable": nullable,
    }


def nested(inner: st.SearchStrategy) -> st.SearchStrategy:
    fields = st.tuples(names, inner, st.booleans()).map(field)
    kinds = st.sampled_from([(pa.list_, "list"), (pa.large_list, "large_list")])
    return st.one_of(
        st.tuples(kinds, fields).map(
            lambda k: (k[0][0](k[1][0]), {"type": k[0][1], "fields": [k[1][1]]})
        ),
        st.tuples(fields, list_sizes).map(
            lambda s: (
                pa.list_(s[0][0], s[1]),
                {"type": "fixed_size_list", "fields": [s[0][1]], "length": s[1]},
            )
        ),
        st.lists(fields, max_size=4).map(
            lambda fs: (
                pa.struct([f[0] for f in fs]),
                {"type": "struct", "fields": [f[1] for f in fs]},
            )
        ),
    )


composed = st.recursive(flat, nested, max_leaves=6)


@given(composed)
def test_types_composed_of_the_vocabulary_go_both_ways(pair):
    arrow, said = pair
    assert same(rt.arrow_type(json.loads(json.dumps(said))), arrow)
    assert rt.data_type(said) == said


SYNONYMS = {
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "boolean": pa.bool_(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "dict:utf8:int32:true": pa.dictionary(pa.int32(), pa.string(), ordered=True),
    "dict:float32:uint8:false": pa.dictionary(pa.uint8(), pa.float32()),
    "dict:timestamp:s:UTC:int8:true": pa.dictionary(
        pa.int8(), pa.timestamp("s", "UTC"), ordered=True
    ),
}


@pytest.mark.parametrize(("synonym", "arrow"), SYNONYMS.items())
def test_the_sister_dialects_names_are_read(synonym, arrow):
    assert rt.arrow_type({"type": synonym}) == arrow


def child(kind: object, name: object = "x", nullable: object = True) -> dict:
    return {"name": name, "type": kind, "nullable": nullable}


def struct(*fields: object) -> dict:
    return {"type": "struct", "fields": [*fields]}


INT = {"type": "int64"}
UNKNOWN = [
    *(
        "nope",
        "timestamp:us:" + "Z" * 101,
        "",
        "INT64",
        "map",
        "timestamp:us",
        "timestamp:us:",
        "timestamp:d:-",
        "time32:ns",
        "decimal:128:39:0",
    ),
    *(
        "decimal:128:0:0",
        "decimal:64:10:2",
        "decimal:128:10",
        "decimal:128: 10:2",
        "decimal:128:1_0:2",
    ),
    *(
        "decimal:128:99999999999999999999:2",
        "decimal:128:10:99999999999999999999",
        "dict:string:int8",
    ),
    *("dict:string:float:false", "dict:string:int8:no", "dict:nope:int8:false"),
]


def vector(size: int, item: object) -> dict:
    return {"type": "fixed_size_list", "fields": [child(item)], "length": size}


WRONG = [  # objects, the path to what is wrong in them, and what is there
    *(
        (wrong, "", shown)
        for wrong, shown in [
            (None, "None"),
            ("int64", "'int64'"),
            ({}, '"type"'),
            ({"type": 5}, "5"),
        ]
    ),
    *(({"type": word}, ".type", "unknown") for word in UNKNOWN),
    ({"type": "int64", "fields": [child(INT)]}, ".fields", "no fields"),
    ({"type": "int64", "length": 8}, ".length", "no length"),
    *(
        ({"type": "fixed_size_binary", "length": n}, ".length", repr(n))
        for n in (None, -1, 2**24 + 1, 2**31, True, 2.0)
    ),
    ({"type": "fixed_size_list", "fields": [child(INT)]}, ".length", "None"),
    ({"type": "fixed_size_list", "length": 3}, ".fields", "None"),
    (vector(2**24 + 1, INT), ".length", "16777216"),
    (vector(2**12, vector(2**13, INT)), ".length", "16,777,216"),
    (
        vector(2, {"type": "fixed_size_binary", "length": 2**24}),
        ".length",
        "multiplied",
    ),
    ({"type": "list"}, ".fields", "None"),
    ({"type": "list", "fields": []}, ".fields", "got 0"),
    ({"type": "large_list", "fields": [child(INT), child(INT)]}, ".fields", "got 2"),
    ({"type": "struct", "fields": {}}, ".fields", "{}"),
    (struct(5), ".fields[0]", "5"),
    (struct(child(INT), {"name": "y", "nullable": True}), ".fields[1].type", "None"),
    (struct(child("int64")), ".fields[0].type", "'int64'"),
    (struct(child(INT, name=None)), ".fields[0].name", "None"),
    (struct(child(INT, name="\ud800")), ".fields[0].name", "surrogates"),
    (struct(child({"type": "null"}, nullable=False)), ".fields[0].nullable", "null"),
    *(
        (struct(child(INT, nullable=odd)), ".fields[0].nullable", repr(odd))
        for odd in (None, 1)
    ),
    (
        {
            "type": "list",
            "fields": [child(struct(child(INT), child({"type": "nope"})))],
        },
        ".fields[0].type.fields[1].type.type",
        "'nope'",
    ),
    *(
        (
            {"type": "map", "fields": [child(entries, "entries")] * many},
            ".fields",
            "map",
        )
        for entries, many in [
            (INT, 1),
            (struct(), 1),
            (struct(child(INT, "key"), child(INT, "value")), 1),
            (struct(child(INT, "key", nullable=False)), 1),
            (struct(child(INT, "key", nullable=False), child(INT, "value")), 2),
        ]
    ),
]


@pytest.mark.parametrize(
    ("wrong", "at", "shown"), WRONG, ids=[ascii(wrong)[:70] for wrong, *_ in WRONG]
)
def test_a_wrong_object_is_a_value_error_that_shows_the_path_inside_it(
    wrong, at, shown
):
    for read in (
        (rt.arrow_type, rt.data_type) if isinstance(wrong, dict) else (rt.arrow_type,)
    ):
        with pytest.raises(ValueError, match="data_type") as error:
            read(wrong)
        assert type(error.value) is ValueError
        path, _, told = str(error.value).partition(": ")
        assert path == f"data_type{at}"
        assert shown in told


def test_any_mapping_is_an_object():
    said = MappingProxyType({"type": "list", "fields": [MappingProxyType(child(INT))]})
    assert same(rt.arrow_type(said), pa.list_(pa.field("x", pa.int64())))
    assert rt.data_type(said) == {"type": "list", "fields": [child(INT)]}


keys = st.sampled_from(["type", "fields", "length", "name", "nullable"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
json_values = st.recursive(
    scalars | st.sampled_from(["list", "struct"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5)
    ),
    max_leaves=10,
)


@st.composite
def spoiled(draw) -> dict:
    """A right object with one value somewhere inside exchanged or left out."""
    whole = copy.deepcopy(draw(composed)[1])
    at = whole
    while True:
        key = draw(
            st.sampled_from(sorted(at))
            if isinstance(at, dict)
            else st.integers(0, len(at) - 1)
        )
        if not isinstance(at[key], dict | list) or not at[key] or draw(st.booleans()):
            break
        at = at[key]
    if draw(st.booleans()):
        at[key] = draw(json_values)
    else:
        del at[key]
    return whole


@given(json_values | spoiled())
def test_whatever_else_an_object_holds_it_is_read_or_a_value_error(value):
    try:
        arrow = rt.arrow_type(value)
    except ValueError as error:
        message = str(error)
    else:
        said = rt.data_type(value)
        assert same(rt.arrow_type(said), arrow)
        assert rt.data_type(said) == said
        return
    assert message.startswith("data_type")


@pytest.mark.parametrize("levels", [32, 33, 5000])
def test_what_is_nested_too_deeply_is_an_error_on_either_side(levels):
    arrow = pa.int8()
    said = {"type": "int8"}
    for _ in range(levels):
        arrow = pa.list_(arrow)
        said = {"type": "list", "fields": [child(said)]}
    for convert, deep in (
        (rt.data_type, arrow),
        (rt.data_type, said),
        (rt.arrow_type, said),
    ):
        if levels == 32:
            convert(deep)
        else:
            with pytest.raises(UnsupportedTypeError, match="32"):
                convert(deep)


def map_of(key: dict, value: dict) -> dict:
    entries = child(struct(child(key, "key", nullable=False), value), "entries", False)
    return {"type": "map", "fields": [entries]}


INNER_MAP = map_of({"type": "date32:day"}, child({"type": "double"}, "value"))
MAPS = [
    (
        pa.map_(pa.string(), pa.int8()),
        map_of({"type": "string"}, child({"type": "int8"}, "value")),
    ),
    (
        pa.map_(pa.int32(), pa.list_(pa.map_(pa.date32(), pa.float64()))),
        map_of(
            {"type": "int32"},
            child({"type": "list", "fields": [child(INNER_MAP, "item")]}, "value"),
        ),
    ),
    (
        pa.map_(
            pa.string(), pa.field("v", pa.struct([("x", pa.bool_())]), nullable=False)
        ),
        map_of(
            {"type": "string"},
            child(struct(child({"type": "bool"})), "v", nullable=False),
        ),
    ),
]


@pytest.mark.parametrize(("arrow", "said"), MAPS, ids=[str(arrow) for arrow, _ in MAPS])
def test_a_map_is_read_as_services_describe_it(arrow, said):
    assert rt.arrow_type(said) == arrow


STORED = [
    (pa.uuid(), {"type": "fixed_size_binary", "length": 16}),
    (pa.json_(pa.large_string()), {"type": "string"}),
    (
        pa.list_(pa.field("u", pa.uuid())),
        {"type": "list", "fields": [child(rt.data_type(pa.binary(16)), "u")]},
    ),
    (
        pa.dictionary(pa.int8(), pa.string(), ordered=True),
        {"type": "dict:string:int32:false"},
    ),
    (pa.dictionary(pa.int8(), pa.float32()), {"type": "float"}),
]


@pytest.mark.parametrize(("arrow", "said"), STORED, ids=str)
def test_a_type_is_said_as_it_is_stored(arrow, said):
    assert rt.data_type(arrow) == said


WITHOUT_A_WORD = [
    pa.map_(pa.string(), pa.int8()),
    pa.timestamp("us", "-"),
    pa.dictionary(pa.int8(), pa.timestamp("us", "-")),
    pa.dense_union([pa.field("a", pa.int8())]),
    pa.month_day_nano_interval(),
]


@pytest.mark.parametrize("arrow", WITHOUT_A_WORD, ids=str)
def test_a_type_without_a_word_is_refused_with_its_path(arrow):
    inner = pa.struct([pa.field("inner", pa.list_(pa.field("x", arrow)))])
    with pytest.raises(UnsupportedTypeError, match=r"^column 'outer\.inner\.x': "):
        rt.Alteration("outer", data_type=inner)
