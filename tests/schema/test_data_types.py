"""Arrow type ⇄ data_type object, against what the official client was recorded to send."""

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
from rt_frames._schema.data_type import to_data_type
from rt_frames.errors import UnsupportedTypeError
from tests.support.types import same

RECORDED = [
    (eval(entry["arrow"]), entry["data_type"])  # the file is ours
    for entry in json.loads((Path(__file__).parent / "data_types.json").read_text())
]


@pytest.mark.parametrize(("arrow", "said"), RECORDED, ids=[str(arrow) for arrow, _ in RECORDED])
def test_every_recorded_type_is_said_and_read_as_the_official_client_does(arrow, said):
    assert to_data_type(arrow) == said
    assert same(rt.arrow_type(said), arrow)


def test_a_dictionary_is_said_as_it_is_sent():
    assert rt.data_type(pa.dictionary(pa.int8(), pa.string())) == {"type": "dict:string:int32:false"}
    assert rt.data_type(pa.dictionary(pa.int8(), pa.float32())) == {"type": "float"}


FLAT = [(arrow, said) for arrow, said in RECORDED if "fields" not in said]
names = st.text(st.characters(codec="utf-8"), max_size=8)
zones = st.sampled_from(["UTC", "Europe/Paris", "+05:30", "-01:00", "Etc/GMT+5", "America/Port-au-Prince"])


def decimals(bits: int, most: int) -> st.SearchStrategy:
    made = st.tuples(st.integers(1, most), st.integers(-5, most))
    kind = {128: pa.decimal128, 256: pa.decimal256}[bits]
    return made.map(lambda d: (kind(*d), {"type": f"decimal:{bits}:{d[0]}:{d[1]}"}))


def categorical(parts: tuple) -> tuple:
    (value, said), index = parts
    return pa.dictionary(pa.type_for_alias(index), value), {"type": f"dict:{said['type']}:{index}:false"}


units = st.sampled_from(["s", "ms", "us", "ns"])
one_word = [
    (arrow, said) for arrow, said in FLAT if set(said) == {"type"} and not said["type"].startswith(("null", "dict"))
]
integers = st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
flat = st.one_of(
    st.sampled_from(FLAT),
    st.tuples(units, zones).map(lambda t: (pa.timestamp(*t), {"type": f"timestamp:{t[0]}:{t[1]}"})),
    st.integers(0, 2**31 - 1).map(lambda n: (pa.binary(n), {"type": "fixed_size_binary", "length": n})),
    decimals(128, 38),
    decimals(256, 76),
    st.tuples(st.sampled_from(one_word), integers).map(categorical),
)


def field(name: str, arrow: pa.DataType, said: dict, *, nullable: bool) -> tuple:
    return pa.field(name, arrow, nullable), {"name": name, "type": said, "nullable": nullable}


def nested(inner: st.SearchStrategy) -> st.SearchStrategy:
    fields = st.tuples(names, inner, st.booleans()).map(
        lambda f: field(f[0], *f[1], nullable=f[2] or pa.types.is_null(f[1][0]))
    )
    sized = st.tuples(fields, st.integers(0, 2**31 - 1))
    return st.one_of(
        fields.map(lambda f: (pa.list_(f[0]), {"type": "list", "fields": [f[1]]})),
        fields.map(lambda f: (pa.large_list(f[0]), {"type": "large_list", "fields": [f[1]]})),
        sized.map(
            lambda s: (pa.list_(s[0][0], s[1]), {"type": "fixed_size_list", "fields": [s[0][1]], "length": s[1]})
        ),
        st.lists(fields, max_size=4).map(
            lambda fs: (pa.struct([f[0] for f in fs]), {"type": "struct", "fields": [f[1] for f in fs]})
        ),
    )


composed = st.recursive(flat, nested, max_leaves=6)


@given(composed)
def test_types_composed_of_the_vocabulary_go_both_ways(pair):
    arrow, said = pair
    assert to_data_type(arrow) == said
    assert same(rt.arrow_type(json.loads(json.dumps(said))), arrow)


@pytest.mark.parametrize(
    ("synonym", "arrow"),
    [
        ("utf8", pa.string()),
        ("large_utf8", pa.large_string()),
        ("float16", pa.float16()),
        ("float32", pa.float32()),
        ("float64", pa.float64()),
        ("boolean", pa.bool_()),
        ("dict:utf8:int32:true", pa.dictionary(pa.int32(), pa.string(), ordered=True)),
        ("dict:float32:uint8:false", pa.dictionary(pa.uint8(), pa.float32())),
        ("dict:timestamp:s:UTC:int8:true", pa.dictionary(pa.int8(), pa.timestamp("s", "UTC"), ordered=True)),
        ("decimal:128:10:-2", pa.decimal128(10, -2)),
    ],
)
def test_the_sister_dialects_names_are_read(synonym, arrow):
    assert rt.arrow_type({"type": synonym}) == arrow


def child(kind: object, name: object = "x", nullable: object = True) -> dict:
    return {"name": name, "type": kind, "nullable": nullable}


INT = {"type": "int64"}
WRONG = [
    (None, r"data_type: .*got None"),
    ("int64", r"data_type: .*got 'int64'"),
    ({}, r"data_type: .*\"type\""),
    ({"type": 5}, r"data_type: .*\{'type': 5\}"),
    ({"type": "nope"}, r"data_type\.type: unknown type 'nope'"),
    ({"type": ""}, r"data_type\.type: unknown"),
    ({"type": "INT64"}, r"data_type\.type: unknown"),
    ({"type": "map"}, r"data_type\.type: unknown"),
    ({"type": "timestamp:us"}, r"data_type\.type: unknown"),
    ({"type": "timestamp:us:"}, r"data_type\.type: unknown"),
    ({"type": "timestamp:d:-"}, r"data_type\.type: unknown"),
    ({"type": "time32:ns"}, r"data_type\.type: unknown"),
    ({"type": "decimal:128:39:0"}, r"data_type\.type: unknown"),
    ({"type": "decimal:128:0:0"}, r"data_type\.type: unknown"),
    ({"type": "decimal:64:10:2"}, r"data_type\.type: unknown"),
    ({"type": "decimal:128:10"}, r"data_type\.type: unknown"),
    ({"type": "decimal:128: 10:2"}, r"data_type\.type: unknown"),
    ({"type": "decimal:128:1_0:2"}, r"data_type\.type: unknown"),
    ({"type": "decimal:128:99999999999999999999:2"}, r"data_type\.type: unknown"),
    ({"type": "decimal:128:10:99999999999999999999"}, r"data_type\.type: unknown"),
    ({"type": "dict:string:int8"}, r"data_type\.type: unknown"),
    ({"type": "dict:string:float:false"}, r"data_type\.type: unknown"),
    ({"type": "dict:string:int8:no"}, r"data_type\.type: unknown"),
    ({"type": "dict:nope:int8:false"}, r"data_type\.type: unknown"),
    ({"type": "int64", "fields": [child(INT)]}, r"data_type\.fields: .*no fields"),
    ({"type": "int64", "length": 8}, r"data_type\.length: .*no length"),
    ({"type": "fixed_size_binary"}, r"data_type\.length: .*got None"),
    ({"type": "fixed_size_binary", "length": -1}, r"data_type\.length: .*got -1"),
    ({"type": "fixed_size_binary", "length": 2**31}, r"data_type\.length"),
    ({"type": "fixed_size_binary", "length": True}, r"data_type\.length: .*got True"),
    ({"type": "fixed_size_binary", "length": 2.0}, r"data_type\.length: .*got 2\.0"),
    ({"type": "fixed_size_list", "fields": [child(INT)]}, r"data_type\.length: .*got None"),
    ({"type": "fixed_size_list", "length": 3}, r"data_type\.fields: .*got None"),
    ({"type": "list"}, r"data_type\.fields: .*got None"),
    ({"type": "list", "fields": []}, r"data_type\.fields: .*exactly one.*got 0"),
    ({"type": "large_list", "fields": [child(INT), child(INT)]}, r"data_type\.fields: .*exactly one.*got 2"),
    ({"type": "struct", "fields": {}}, r"data_type\.fields: .*got \{\}"),
    ({"type": "struct", "fields": [5]}, r"data_type\.fields\[0\]: .*got 5"),
    ({"type": "struct", "fields": [child(INT), {"name": "y", "nullable": True}]}, r"data_type\.fields\[1\]\.type: "),
    ({"type": "struct", "fields": [child("int64")]}, r"data_type\.fields\[0\]\.type: .*got 'int64'"),
    ({"type": "struct", "fields": [child(INT, name=None)]}, r"data_type\.fields\[0\]\.name: .*got None"),
    ({"type": "struct", "fields": [child(INT, name="\ud800")]}, r"data_type\.fields\[0\]\.name: .*surrogates"),
    (
        {"type": "struct", "fields": [child({"type": "null"}, nullable=False)]},
        r"data_type\.fields\[0\]\.nullable: .*null",
    ),
    ({"type": "struct", "fields": [child(INT, nullable=None)]}, r"data_type\.fields\[0\]\.nullable: .*got None"),
    ({"type": "struct", "fields": [child(INT, nullable=1)]}, r"data_type\.fields\[0\]\.nullable: .*got 1"),
    (
        {"type": "list", "fields": [child({"type": "struct", "fields": [child(INT), child({"type": "nope"})]})]},
        r"data_type\.fields\[0\]\.type\.fields\[1\]\.type\.type: unknown type 'nope'",
    ),
]


@pytest.mark.parametrize(
    ("wrong", "message"), WRONG, ids=[str(wrong)[:70].encode("ascii", "replace") for wrong, _ in WRONG]
)
def test_a_wrong_object_is_a_value_error_that_shows_the_path_inside_it(wrong, message):
    with pytest.raises(ValueError, match=message) as error:
        rt.arrow_type(wrong)
    assert not isinstance(error.value, UnicodeError)
    if isinstance(wrong, dict):
        with pytest.raises(ValueError, match=message):
            rt.data_type(wrong)


def test_any_mapping_is_an_object():
    said = MappingProxyType({"type": "list", "fields": [MappingProxyType(child(INT))]})
    assert same(rt.arrow_type(said), pa.list_(pa.field("x", pa.int64())))
    assert rt.data_type(said) == {"type": "list", "fields": [child(INT)]}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["list", "struct"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "fields", "length", "name", "nullable"]), inner, max_size=5)
    ),
    max_leaves=10,
)


@st.composite
def spoiled(draw) -> dict:
    """A right object with one value somewhere inside exchanged or left out."""
    whole = copy.deepcopy(draw(composed)[1])
    at = whole
    while True:
        key = draw(st.sampled_from(sorted(at)) if isinstance(at, dict) else st.integers(0, len(at) - 1))
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
    said, message = None, ""
    try:
        said = to_data_type(rt.arrow_type(value))
    except ValueError as error:
        message = str(error)
    assert message.startswith("data_type") if said is None else to_data_type(rt.arrow_type(said)) == said


def test_an_ordered_dictionary_is_called_unordered_since_no_order_is_stored():
    assert to_data_type(pa.dictionary(pa.int32(), pa.string(), ordered=True)) == {"type": "dict:string:int32:false"}


@pytest.mark.parametrize("levels", [32, 33, 5000])
def test_what_is_nested_too_deeply_is_an_error_on_either_side(levels):
    arrow, said = pa.int8(), {"type": "int8"}
    for _ in range(levels):
        arrow, said = pa.list_(arrow), {"type": "list", "fields": [child(said)]}
    if levels == 32:
        assert rt.arrow_type(rt.data_type(arrow)) == arrow
        assert rt.arrow_type(said) == arrow
        return
    for convert, deep in ((to_data_type, arrow), (rt.data_type, arrow), (rt.data_type, said), (rt.arrow_type, said)):
        with pytest.raises(UnsupportedTypeError, match="more than 32 levels deep"):
            convert(deep)


MAPS = [
    pa.map_(pa.string(), pa.int8()),
    pa.map_(pa.int32(), pa.list_(pa.map_(pa.date32(), pa.float64()))),
    pa.map_(pa.string(), pa.field("v", pa.struct([("x", pa.bool_())]), nullable=False)),
]


@pytest.mark.parametrize("arrow", MAPS, ids=str)
def test_a_map_is_read_as_services_describe_it(arrow):
    said = to_data_type(arrow, maps=True)
    assert said["type"] == "map"
    assert rt.arrow_type(said) == arrow


@pytest.mark.parametrize(
    "entries",
    [
        [INT],
        [{"type": "struct", "fields": []}],
        [{"type": "struct", "fields": [child(INT, "key", nullable=True), child(INT, "value")]}],
        [{"type": "struct", "fields": [child(INT, "key", nullable=False)]}],
        [{"type": "struct", "fields": [child(INT, "key", nullable=False), child(INT, "value")]}] * 2,
    ],
)
def test_a_map_has_one_field_of_keys_and_values(entries):
    with pytest.raises(ValueError, match=r"data_type\.fields: .* map"):
        rt.arrow_type({"type": "map", "fields": [child(one, "entries") for one in entries]})


@pytest.mark.parametrize(
    ("arrow", "said"),
    [
        (pa.uuid(), {"type": "fixed_size_binary", "length": 16}),
        (pa.json_(pa.string()), {"type": "string"}),
        (pa.json_(pa.large_string()), {"type": "large_string"}),
        (pa.list_(pa.field("u", pa.uuid())), {"type": "list", "fields": [child(rt.data_type(pa.binary(16)), "u")]}),
    ],
    ids=str,
)
def test_an_extension_type_is_said_as_its_storage(arrow, said):
    assert rt.data_type(arrow) == said


@pytest.mark.parametrize(
    "arrow",
    [
        pa.map_(pa.string(), pa.int8()),
        pa.string_view(),
        pa.list_view(pa.int8()),
        pa.decimal32(5, 2),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.month_day_nano_interval(),
        pa.dictionary(pa.int8(), pa.binary(3)),
        pa.timestamp("us", "-"),
    ],
    ids=str,
)
def test_a_type_without_a_word_is_refused_with_its_path(arrow):
    outer = pa.struct([pa.field("inner", pa.list_(pa.field("x", arrow)))])
    with pytest.raises(UnsupportedTypeError, match=r"^column 'outer\.inner\.x': .*cast it"):
        to_data_type(outer, "outer")
