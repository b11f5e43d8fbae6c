"""Arrow types ⇄ data_type objects, against what the official client was seen to send.

`rt.data_type` makes an Arrow type portable first, but spells the type that an object
describes as it is. So the tests read an object, and let it be spelled again.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rt_frames as rt
from rt_frames.errors import UnsupportedTypeError
from tests.support.types import same

entries = json.loads((Path(__file__).parent / "data_types.json").read_text())
# the file is ours
RECORDED = [(eval(entry["arrow"]), entry["data_type"]) for entry in entries]


UTC_SECONDS = pa.timestamp("s", "UTC")
PRICE = pa.decimal128(10, 2)
# at the edges of what a word says
WORDS = [
    (pa.timestamp("s", "+05:30"), "timestamp:s:+05:30"),
    (pa.timestamp("ms", "Etc/GMT+5"), "timestamp:ms:Etc/GMT+5"),
    (pa.timestamp("ns", "-01:00"), "timestamp:ns:-01:00"),
    (pa.decimal128(1, -5), "decimal:128:1:-5"),
    (pa.decimal128(38, 38), "decimal:128:38:38"),
    (pa.decimal256(1, 76), "decimal:256:1:76"),
    (pa.decimal256(76, -5), "decimal:256:76:-5"),
    (pa.dictionary(pa.int8(), pa.bool_()), "dict:bool:int8:false"),
    (pa.dictionary(pa.int64(), pa.float64()), "dict:double:int64:false"),
    (pa.dictionary(pa.uint16(), pa.date32()), "dict:date32:day:uint16:false"),
    (pa.dictionary(pa.uint64(), UTC_SECONDS), "dict:timestamp:s:UTC:uint64:false"),
    (pa.dictionary(pa.int16(), PRICE), "dict:decimal:128:10:2:int16:false"),
]
KNOWN = [*RECORDED, *((arrow, {"type": word}) for arrow, word in WORDS)]


@pytest.mark.parametrize(("arrow", "said"), KNOWN, ids=str)
def test_every_recorded_type_is_said_and_read_as_the_official_client_does(arrow, said):
    assert same(rt.arrow_type(said), arrow)
    assert rt.data_type(said) == said


FLAT = [(arrow, said) for arrow, said in KNOWN if "fields" not in said]
names = st.text(st.characters(codec="utf-8"), max_size=8)
# multiplied by those inside, at most 2**24
list_sizes = st.integers(0, 4)
Pair = tuple[pa.DataType, dict]
Field = tuple[pa.Field, dict]


# each of these functions gives a type and its object


def field(name: str, kind: Pair, nullable: bool) -> Field:
    arrow, said = kind
    nullable = nullable or pa.types.is_null(arrow)
    made = {"name": name, "type": said, "nullable": nullable}
    return pa.field(name, arrow, nullable), made


def a_list(item: Field) -> Pair:
    return pa.list_(item[0]), {"type": "list", "fields": [item[1]]}


def large_list(item: Field) -> Pair:
    return pa.large_list(item[0]), {"type": "large_list", "fields": [item[1]]}


def fixed_list(item: Field, size: int) -> Pair:
    said = {"type": "fixed_size_list", "fields": [item[1]], "length": size}
    return pa.list_(item[0], size), said


def structure(fields: list[Field]) -> Pair:
    said = {"type": "struct", "fields": [one for _, one in fields]}
    return pa.struct([one for one, _ in fields]), said


def nested(inner: st.SearchStrategy) -> st.SearchStrategy:
    fields = st.builds(field, names, inner, st.booleans())
    lists = st.builds(a_list, fields) | st.builds(large_list, fields)
    fixed_lists = st.builds(fixed_list, fields, list_sizes)
    structs = st.builds(structure, st.lists(fields, max_size=4))
    return lists | fixed_lists | structs


composed = st.recursive(st.sampled_from(FLAT), nested, max_leaves=6)


@given(composed)
def test_types_composed_of_the_vocabulary_go_both_ways(pair):
    arrow, said = pair
    assert same(rt.arrow_type(json.loads(json.dumps(said))), arrow)
    assert rt.data_type(said) == said


SYNONYMS = [
    ("utf8", pa.string()),
    ("large_utf8", pa.large_string()),
    ("boolean", pa.bool_()),
    ("float16", pa.float16()),
    ("float32", pa.float32()),
    ("float64", pa.float64()),
    ("date32", pa.date32()),
    ("date64", pa.date64()),
    ("dict:utf8:int32:true", pa.dictionary(pa.int32(), pa.string(), ordered=True)),
    ("dict:float32:uint8:false", pa.dictionary(pa.uint8(), pa.float32())),
    ("dict:timestamp:s:UTC:int8:true", pa.dictionary(pa.int8(), UTC_SECONDS, True)),
]


@pytest.mark.parametrize(("synonym", "arrow"), SYNONYMS)
def test_the_sister_dialects_names_are_read(synonym, arrow):
    assert rt.arrow_type({"type": synonym}) == arrow


def child(kind: object, name: object = "x", nullable: object = True) -> dict:
    return {"name": name, "type": kind, "nullable": nullable}


def struct(*fields: object) -> dict:
    return {"type": "struct", "fields": [*fields]}


INT = {"type": "int64"}
DIGITS = "9" * 20
UNKNOWN = [
    *("nope", "", "INT64", "map"),
    *("timestamp:us", "timestamp:us:", "timestamp:d:-", "time32:ns"),
    "timestamp:us:" + "Z" * 101,
    *("decimal:128:39:0", "decimal:128:0:0", "decimal:64:10:2", "decimal:128:10"),
    *("decimal:128: 10:2", "decimal:128:1_0:2"),
    *(f"decimal:128:{DIGITS}:2", f"decimal:128:10:{DIGITS}"),
    *("dict:string:int8", "dict:string:float:false"),
    *("dict:string:int8:no", "dict:nope:int8:false"),
]


@pytest.mark.parametrize("word", UNKNOWN)
def test_an_unknown_word_is_a_value_error(word):
    with pytest.raises(ValueError, match=r"^data_type\.type: .*unknown"):
        rt.arrow_type({"type": word})


def vector(size: int, item: object) -> dict:
    return {"type": "fixed_size_list", "fields": [child(item)], "length": size}


def binary(length: object) -> dict:
    return {"type": "fixed_size_binary", "length": length}


def entries_of(*fields: dict) -> dict:
    return {"type": "map", "fields": [child(struct(*fields), "entries")]}


KEY = child(INT, "key", nullable=False)
NAMELESS = {"name": "y", "nullable": True}
DEEP = {"type": "list", "fields": [child(struct(child(INT), child({"type": "nope"})))]}
TWO_ENTRIES = {"type": "map", "fields": [child(struct(KEY, child(INT, "value")))] * 2}
WRONG = [  # objects, the path to what is wrong in them, and what is there
    (None, "", "None"),
    ("int64", "", "'int64'"),
    ({}, "", '"type"'),
    ({"type": 5}, "", "5"),
    ({"type": "int64", "fields": [child(INT)]}, ".fields", "no fields"),
    ({"type": "int64", "length": 8}, ".length", "no length"),
    (binary(None), ".length", "None"),
    (binary(-1), ".length", "-1"),
    (binary(2**24 + 1), ".length", "16777217"),
    (binary(2**31), ".length", "2147483648"),
    (binary(True), ".length", "True"),
    (binary(2.0), ".length", "2.0"),
    ({"type": "fixed_size_list", "fields": [child(INT)]}, ".length", "None"),
    ({"type": "fixed_size_list", "length": 3}, ".fields", "None"),
    (vector(2**24 + 1, INT), ".length", "16777216"),
    (vector(2**12, vector(2**13, INT)), ".length", "16,777,216"),
    (vector(2, binary(2**24)), ".length", "multiplied"),
    ({"type": "list"}, ".fields", "None"),
    ({"type": "list", "fields": []}, ".fields", "got 0"),
    ({"type": "large_list", "fields": [child(INT), child(INT)]}, ".fields", "got 2"),
    ({"type": "struct", "fields": {}}, ".fields", "{}"),
    (struct(5), ".fields[0]", "5"),
    (struct(child(INT), NAMELESS), ".fields[1].type", "None"),
    (struct(child("int64")), ".fields[0].type", "'int64'"),
    (struct(child(INT, name=None)), ".fields[0].name", "None"),
    (struct(child(INT, name="\ud800")), ".fields[0].name", "surrogates"),
    (struct(child({"type": "null"}, nullable=False)), ".fields[0].nullable", "null"),
    (struct(child(INT, nullable=None)), ".fields[0].nullable", "None"),
    (struct(child(INT, nullable=1)), ".fields[0].nullable", "1"),
    (DEEP, ".fields[0].type.fields[1].type.type", "'nope'"),
    ({"type": "map", "fields": [child(INT, "entries")]}, ".fields", "map"),
    (entries_of(), ".fields", "map"),
    (entries_of(child(INT, "key"), child(INT, "value")), ".fields", "map"),
    (entries_of(KEY), ".fields", "map"),
    (TWO_ENTRIES, ".fields", "map"),
]


@pytest.mark.parametrize(("wrong", "at", "shown"), WRONG)
def test_a_wrong_object_is_a_value_error_that_shows_the_path_inside_it(
    wrong, at, shown
):
    with pytest.raises(ValueError, match="data_type") as error:
        rt.arrow_type(wrong)
    assert type(error.value) is ValueError
    path, _, told = str(error.value).partition(": ")
    assert path == f"data_type{at}"
    assert shown in told


@pytest.mark.parametrize(("wrong", "at"), [row[:2] for row in WRONG[2:6]])
def test_a_wrong_object_is_no_dtype(wrong, at):
    with pytest.raises(ValueError, match=f"^data_type{re.escape(at)}: "):
        rt.data_type(wrong)


def test_any_mapping_is_an_object():
    said = MappingProxyType({"type": "list", "fields": [MappingProxyType(child(INT))]})
    assert same(rt.arrow_type(said), pa.list_(pa.field("x", pa.int64())))
    assert rt.data_type(said) == {"type": "list", "fields": [child(INT)]}


keys = st.sampled_from(["type", "fields", "length", "name", "nullable"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
inside = scalars | st.sampled_from(["list", "struct"])


def containers(inner: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5)


json_values = st.recursive(inside, containers, max_leaves=10)


@st.composite
def spoiled(draw) -> dict:
    """A right object with one value somewhere inside exchanged or left out."""
    whole = copy.deepcopy(draw(composed)[1])
    at = whole
    while True:
        places = sorted(at) if isinstance(at, dict) else range(len(at))
        key = draw(st.sampled_from(places))
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
        arrow = None
        message = str(error)
    if arrow is None:
        assert message.startswith("data_type")
    else:
        said = rt.data_type(value)
        assert same(rt.arrow_type(said), arrow)
        assert rt.data_type(said) == said


def lists_in_lists(levels: int) -> Pair:
    arrow = pa.int8()
    said = {"type": "int8"}
    for _ in range(levels):
        arrow = pa.list_(arrow)
        said = {"type": "list", "fields": [child(said)]}
    return arrow, said


def test_a_type_may_be_nested_32_levels_deep():
    arrow, said = lists_in_lists(32)
    assert rt.arrow_type(said) == arrow
    rt.data_type(arrow)
    rt.data_type(said)


@pytest.mark.parametrize("levels", [33, 5000])
def test_what_is_nested_too_deeply_is_an_error_on_either_side(levels):
    arrow, said = lists_in_lists(levels)
    with pytest.raises(UnsupportedTypeError, match="32"):
        rt.data_type(arrow)
    with pytest.raises(UnsupportedTypeError, match="32"):
        rt.data_type(said)
    with pytest.raises(UnsupportedTypeError, match="32"):
        rt.arrow_type(said)


def map_of(key: str, value: dict) -> dict:
    entries = struct(child({"type": key}, "key", nullable=False), value)
    return {"type": "map", "fields": [child(entries, "entries", nullable=False)]}


BYTES = child({"type": "int8"}, "value")
DOUBLES = map_of("date32:day", child({"type": "double"}, "value"))
LISTED = child({"type": "list", "fields": [child(DOUBLES, "item")]}, "value")
FLAGS = child(struct(child({"type": "bool"})), "v", nullable=False)
ARROW_DOUBLES = pa.map_(pa.date32(), pa.float64())
ARROW_FLAGS = pa.field("v", pa.struct([("x", pa.bool_())]), nullable=False)
MAPS = [
    (pa.map_(pa.string(), pa.int8()), map_of("string", BYTES)),
    (pa.map_(pa.int32(), pa.list_(ARROW_DOUBLES)), map_of("int32", LISTED)),
    (pa.map_(pa.string(), ARROW_FLAGS), map_of("string", FLAGS)),
]


@pytest.mark.parametrize(("arrow", "said"), MAPS, ids=str)
def test_a_map_is_read_as_services_describe_it(arrow, said):
    assert rt.arrow_type(said) == arrow


UUIDS = pa.list_(pa.field("u", pa.uuid()))
ORDERED = pa.dictionary(pa.int8(), pa.string(), ordered=True)
STORED = [
    (pa.uuid(), binary(16)),
    (pa.json_(pa.large_string()), {"type": "string"}),
    (UUIDS, {"type": "list", "fields": [child(binary(16), "u")]}),
    (ORDERED, {"type": "dict:string:int32:false"}),
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
