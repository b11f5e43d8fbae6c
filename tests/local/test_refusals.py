"""What a folder refuses: S06, S07.

By column and with the reason, and nothing is changed.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import re

import pyarrow as pa
import pytest

from tests.support.local import JSON, LIST_64, NUMBERS, message, nested, stream


def to(name: str) -> dict[str, str]:
    return {"type": name}


def cast(path: str, data_type: object, **more: object) -> dict[str, object]:
    return {
        "path": path,
        "data_type": to(data_type) if isinstance(data_type, str) else data_type,
        **more,
    }


def rename(path: str, name: object) -> dict[str, object]:
    return {"path": path, "rename": name}


def no_nulls(path: str) -> dict[str, object]:
    return {"path": path, "nullable": False}


def lists_of(name: str) -> dict[str, object]:
    return {
        "type": "list",
        "fields": [{"name": "item", "type": to(name), "nullable": True}],
    }


FAR = dt.date(9999, 1, 1)
PAIR = pa.struct([("p", pa.int32()), ("q", pa.int32())])
COLUMNS = {
    "big": pa.array([300, 1]),
    "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
    "ll": pa.array([[{"p": 5}], []], pa.large_list(PAIR)),
    "day": pa.array([FAR, None]),
    "spring": pa.array([dt.datetime(2024, 3, 31, 2, 30), None]),
    "autumn": pa.array([dt.datetime(2024, 10, 27, 2, 30), None]),
    "deep": pa.array(
        [{"days": [FAR]}, None], pa.struct([("days", pa.list_(pa.date32()))])
    ),
    "pair": pa.array([{"p": 1, "q": 2}, None], PAIR),
    "dots": pa.array([{"x.y": {"z": 1}}, None]),
    "past": pa.array([dt.datetime(1, 1, 1), None], pa.timestamp("ms")),
}
BEFORE = nested()
for column_name, values_of_column in COLUMNS.items():
    BEFORE = BEFORE.append_column(column_name, values_of_column)
BERLIN = "timestamp:us:Europe/Berlin"
BERLIN_S = "timestamp:s:Europe/Berlin"
NO_ITEM = {"type": "list", "fields": [{"name": "item"}]}
SWAP = [cast("n", "int8", rename="m"), rename("m", "n")]
SWAP_P = cast("pair.p", "int64", rename="q")
SWAP_Q = cast("pair.q", "int64", rename="p")
UTC_NS = lists_of("timestamp:ns:UTC")
N_TO_M = r"'n' \(rename to 'm', from int64 to int8\)"
REFUSED = {
    "no path": ([{"rename": "k"}], 'a string "path"'),
    "unknown member": ([{"path": "n", "name": "k"}], "'n': unknown 'name'.* 'rename'"),
    "mistyped column": ([rename("dday", "k")], r"'dday' \(did you mean 'day'\?\)"),
    "mistyped field": ([rename("deep.day.x", "k")], r"'deep.day.x' .* mean 'days'\?"),
    "inside a number": ([rename("n.x", "k")], "'n.x'; 'n' has no fields"),
    "dot in a name": ([no_nulls("dots.x.y")], "'dots.x.y'; 'dots' has 'x.y'"),
    "beyond a dot": ([rename("dots.x.y.z", "k")], "'dots.x.y.z'; 'dots' has 'x.y'"),
    "taken name inside": ([rename("s.x", "y")], "'s.x' to 'y'"),
    "incomplete type": ([cast("v", NO_ITEM)], r"'v'.*data_type\.fields\[0\]"),
    "codes of dates": ([cast("v", "dict:date32:day:int32:false")], "'v'"),
    "between families": ([cast("n", "double")], "'n'.* int64 to double.*integers only"),
    "swap and cast": (SWAP, "'n'.* int64 to int8.* send two"),
    "swap beside a name": ([rename("t", "u"), *SWAP], f"{N_TO_M}.*'t' .*'u'.*'m'"),
    "swap inside": ([SWAP_P, SWAP_Q], "'pair.p'.* int32 .* send two"),
    "no nulls, a cast": ([no_nulls("n"), cast("m", "int8")], "'m'.* int8.* send two"),
    "nulls": ([no_nulls("at")], "'at' .* contains nulls"),
    "nulls inside": ([no_nulls("l.item.x")], "'l.item.x' .* inside lists"),
    "both": ([cast("v", LIST_64), rename("v.item", "x")], "'v' .*'v.item'.* two req"),
    "in a map": ([rename("map.entries.value", "x")], "'map.entries.value'.* a map"),
    "large list": ([cast("ll.item.p", "int64")], "'ll.item.p'.* int32 to int64.*large"),
    "no time": ([cast("spring", BERLIN)], "'spring'.*does not exist.*nonexistent="),
    "two times": ([cast("autumn", BERLIN_S)], "'autumn'.*Berlin.* twice.* ambiguous="),
    "far date": ([cast("day", "timestamp:ns:-")], r"'day'.*date32\[day\].* would wrap"),
    "inside": ([cast("deep.days", UTC_NS)], r"'deep.days'.*ns, tz=UTC\].* would wrap"),
    "far time": (
        [cast("past", "timestamp:ns:-")],
        "'past'.*; choose a type that holds",
    ),
}


@pytest.mark.parametrize(("alterations", "words"), REFUSED.values(), ids=REFUSED)
def test_S06_an_alteration_that_makes_no_sense_is_refused_by_name_and_changes_nothing(
    caller, alterations, words
):
    caller.create("t", BEFORE)
    assert re.search(words, message(caller.alter("t", *alterations), 400))
    assert caller.version("t") == 1
    assert caller.read("t").equals(BEFORE)


BEYOND = [cast("n", "int32"), rename("t", "u"), cast("big", "int8")]
ONE_OF_SEVERAL = [  # what is asked, what is said, and the column that is not to blame
    ([rename("n", "k"), cast("t", "bool")], "'t' .*string to bool", "n"),
    ([no_nulls("n"), no_nulls("l.item.x")], "'l.item.x'", "n"),
    ([no_nulls("n"), no_nulls("at")], r"'at' \(nullable=False\)", "n"),
    (BEYOND, r"'n' \(from int64 to int32\)", "t"),
    (BEYOND, r"'big' \(from int64 to int8\).*type Int8", "t"),
]


@pytest.mark.parametrize(("alterations", "words", "blameless"), ONE_OF_SEVERAL, ids=str)
@pytest.mark.parametrize("order", [1, -1])
def test_S06_of_several_alterations_the_one_that_makes_no_sense_is_named(
    caller, alterations, words, blameless, order
):
    caller.create("t", BEFORE)
    told = message(caller.alter("t", *alterations[::order]), 400)
    assert re.search(words, told)
    assert f"column {blameless!r}" not in told
    assert caller.version("t") == 1
    assert caller.read("t").equals(BEFORE)


NO_LISTS = [
    (b"[" * 100_000, "JSON"),
    (b'{"alterations": []}', '"alterations"'),
    (b'{"alterations": [{"path": "n", "rename": "k"}], "dry": true}', "'dry'"),
]


@pytest.mark.parametrize(("body", "words"), NO_LISTS)
def test_S06_a_body_that_is_no_list_of_alterations_is_refused(caller, body, words):
    caller.create("t", NUMBERS)
    answer = caller.send("POST", "/v1/table/t/alter_columns", body, content_type=JSON)
    assert words in message(answer, 400)
    assert caller.version("t") == 1


DEEP = functools.reduce(lambda inner, _: pa.list_(inner), range(61), pa.int8())
TYPES = [
    pa.list_(pa.string(), 2),
    pa.list_(pa.struct([("x", pa.int8())]), 2),
    pa.list_(pa.list_(pa.int8()), 2),
    pa.list_(pa.null(), 2),
    pa.list_(pa.int8(), 0),
    pa.list_(pa.int8(), 2**24 + 1),
    pa.binary(2**24 + 1),
    pa.binary(0),
    pa.list_(pa.list_(pa.int8(), 2**12), 2**12 + 1),
    pa.list_(pa.binary(2**12), 2**12 + 1),
    pa.list_(pa.binary(0), 2),
    pa.list_(pa.dictionary(pa.int32(), pa.string()), 2),
    pa.map_(pa.string(), pa.int8(), keys_sorted=True),
    DEEP,
    pa.dictionary(pa.int32(), pa.date32()),
    pa.struct([]),
    pa.list_(pa.null()),
    pa.string_view(),
    pa.decimal32(5, 2),
    pa.month_day_nano_interval(),
    pa.struct([("x", pa.int8()), ("x", pa.int8())]),
    pa.struct([("", pa.int8())]),
    pa.struct([("a\0b", pa.int8())]),
]
# fields with this metadata are read back with other types
FORMS = [{"lance-encoding:blob": "true"}, {"ARROW:extension:name": "lance.json"}]


FIELDS = [pa.field("x", arrow) for arrow in TYPES]
FIELDS += [pa.field("x", pa.large_binary(), metadata=metadata) for metadata in FORMS]


def test_a_type_that_tables_cannot_hold_is_refused_by_column(caller):
    for field in FIELDS:
        outside = pa.field("s", pa.struct([field]))
        for path, column in (("x", field), ("s.x", outside)):
            table = pa.Table.from_batches([], pa.schema([column]))
            answer = caller.create("t", table)
            assert f"'{path}" in message(answer, 400), field
    assert caller.tables() == []


NAMES = ["", "a.b", "`", "*", "x\0y", "tab\t", "a\nb", "\x85", "_rowid", "_rowoffset"]
NAMES += ["__action", "__merge_source_sentinel"]


@pytest.mark.parametrize("name", [*NAMES, "c", "\ud800", 7, ["x"], True], ids=ascii)
def test_S07_a_column_name_that_the_engine_cannot_keep_is_refused_and_changes_nothing(
    caller, name
):
    if name in NAMES:
        answer = caller.create("t", pa.table({name: [1], "b": [2]}))
        assert "name" in message(answer, 400)
    assert caller.create("t", NUMBERS).status_code == 200
    answer = caller.alter("t", rename("a", name))
    assert "'a'" in message(answer, 400)
    assert caller.version("t") == 1
    assert caller.read("t").equals(NUMBERS)


def test_columns_need_to_be_some_and_to_differ(caller):
    assert "0 columns" in message(caller.create("t", stream(pa.table({}))))
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert "'a'" in message(caller.create("t", twice))
    assert caller.tables() == []


def array(arrow: pa.DataType, *values: object) -> pa.Array:
    return pa.array(values, arrow)


def not_null(arrow: pa.DataType) -> pa.Field:
    return pa.field("x", arrow, nullable=False)


def json_of(*texts: str | None) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))


HALF_DAY = pa.array([43_200_000], pa.int64()).view(pa.date64())
INT8 = pa.int8()
OUTSIDE = pa.StructArray.from_arrays(
    [pa.ListArray.from_arrays([0, 1], json_of("1e400"))], ["x"]
)
NULL_IN_LIST = pa.ListArray.from_arrays(
    [0, 2], array(INT8, 1, None), type=pa.list_(not_null(INT8))
)
NULL_IN_MAP = pa.MapArray.from_arrays(
    [0, 1],
    array(pa.string(), "k"),
    array(INT8, None),
    type=pa.map_(pa.string(), not_null(INT8)),
)
DAY_IN_STRUCT = pa.StructArray.from_arrays([HALF_DAY], ["x"])
NULL_IN_STRUCT = pa.StructArray.from_arrays(
    [array(INT8, 1, None)], fields=[not_null(INT8)]
)
VALUES = {
    "half a day in a struct": (DAY_IN_STRUCT, "'c'", "whole number of days"),
    "null in a struct": (NULL_IN_STRUCT, "'c.x'", "contains nulls"),
    "null in a list": (NULL_IN_LIST, "'c.x'", "contains nulls"),
    "null in a map": (NULL_IN_MAP, "'c.entries.value'", "contains nulls"),
    "empty text for JSON": (json_of("1", None, ""), "'c'", "Expecting"),
    "65 bits": (json_of('{"a": [18446744073709551616]}'), "'c'", "64 bits"),
    "endless exponent": (json_of(f'{{"a": 1e-{"9" * 20}}}'), "'c'", "64 bits"),
    "NaN": (json_of('{"a": [NaN]}'), "'c'", "JSON compliant"),
    "half a surrogate": (json_of('{"a": "\\ud800"}'), "'c'", "surrogates"),
    "a name twice": (json_of('{"a": 1, "a": 2}'), "'c'", "'a' more than once"),
    "JSON in a list in a struct": (OUTSIDE, "'c.x.item'", "1e400"),
}


@pytest.mark.parametrize(("values", "column", "said"), VALUES.values(), ids=VALUES)
def test_a_value_that_tables_cannot_hold_is_refused_with_its_path(
    caller, values, column, said
):
    table = pa.table({"fine": pa.nulls(len(values), pa.int8()), "c": values})
    answer = caller.create("t", table)
    assert column in message(answer, 400)
    assert said in message(answer)
    assert caller.tables() == []


MIDNIGHTS = pa.array([0] * 5, pa.date64())
TIMES = pa.array([1, None, 86_400], pa.int32()).view(pa.time32("s"))
INVALID = {
    "date64 of half a day": (pa.chunked_array([MIDNIGHTS, HALF_DAY]), "row 5"),
    "time beyond a day": (TIMES, "row 2"),
    "no UTF-8": (pa.array([b"a", b"\xff"]).view(pa.string()), "row 1"),
    "no JSON": (json_of("1", None, "{"), "row 2"),
    "in a later batch": (pa.chunked_array([json_of("1"), json_of("2", "no")]), "row 2"),
}


@pytest.mark.parametrize(("values", "row"), INVALID.values(), ids=INVALID)
def test_a_value_that_its_type_does_not_allow_is_refused_with_its_row(
    caller, values, row
):
    said = message(caller.create("t", pa.table({"c": values})))
    assert f"column 'c', {row} of the Arrow stream: " in said
    assert "correct " in said
    assert "resend" not in said


def test_nulls_under_a_null_are_no_nulls_of_a_field_that_is_not_nullable(caller):
    inner = pa.array([1, None], pa.int64())
    struct = pa.StructArray.from_arrays(
        [inner], fields=[not_null(pa.int64())], mask=pa.array([False, True])
    )
    types = pa.map_(pa.string(), not_null(pa.int64()))
    table = pa.table({"s": struct, "m": pa.array([[("k", 1)], None], types)})
    assert caller.create("t", table).status_code == 200
    assert caller.read("t").to_pylist() == table.to_pylist()


def test_rows_without_a_column_that_may_not_be_null_are_refused_by_its_name(caller):
    schema = pa.schema([("m", pa.int64()), not_null(pa.int64())])
    caller.create("t", pa.table({"m": [1], "x": [1]}, schema))
    answer = caller.post_rows("t/insert/", pa.table({"m": [2]}))
    assert "'x' is missing" in message(answer, 400)
    assert caller.read("t")["m"].to_pylist() == [1]


def test_json_that_the_engine_keeps_is_stored_with_its_values_at_every_depth(caller):
    texts = json_of(
        '{"b": [1, 2.5, -9223372036854775808, 18446744073709551615], "a": null}',
        None,
        '"text"',
    )
    nested = pa.ListArray.from_arrays([0, 2, 3, 3], texts)
    caller.create("t", pa.table({"c": texts, "l": nested}))
    back = caller.read("t")
    found = [text and json.loads(text) for text in back["c"].to_pylist()]
    assert found == [{"b": [1, 2.5, -(2**63), 2**64 - 1], "a": None}, None, "text"]
    assert [len(texts) for texts in back["l"].to_pylist()] == [2, 1, 0]


ALIKE = [
    json.dumps({"n": i, "l": [i / 3, "é", None], "é x": {"t": 'a:"1, \\n'}})
    for i in range(200)
]
NOT_KEPT = [
    "NaN",
    "01",
    "1.",
    "1 2",
    "1, 2",
    "[1,]",
    "[1 2]",
    "[1",
    '"',
    "'a'",
    '"\\x"',
    '"a\tb"',
    '"\\ud800"',
    '"\\ud800x"',
    '""""',
    "18446744073709551616",
    "-9223372036854775809",
    "1e400",
    "-1.5E+400",
    "1e-400",
    "0.1234567890123456789",
    "100000000000000000001.5",
    '{"d": 1, "d": 2}',
    '[{"d": 1, "d": 2}]',
    '1, "n": 2',
    '{"d": 1, "\\u0064": 2}',
    "1}{",
]
KEPT = [
    "18446744073709551615",
    "-9223372036854775808",
    "1e5",
    "1.0E+2",
    "-0.0",
    "0.1",
    "0.10000000000000001",
    "7 ",
    "0.69999999999999996",
    '"\\u00e9"',
    '"\\ud83d\\ude00"',
    '"12345678901234567890.5"',
    "[]",
    "{}",
    "null",
    '[{"d": 1}, {"d": 2}]',
    '"1e999"',
    "[[1, 2], [3]]",
]


def among_others(value: str, place: int) -> tuple[str, list[str]]:
    """Return a JSON text with a value, and a column that has it at a place."""
    text = f'{{"n": {value}, "l": [0.5, "x", null], "é x": {{"t": ""}}}}'
    return text, [*ALIKE[:place], text, *ALIKE[place:]]


def parsed(texts: list[str]) -> list[object]:
    return [json.loads(text) for text in texts]


@pytest.mark.parametrize("place", [0, 150])
def test_one_text_that_would_change_among_many_is_refused(caller, place):
    for value in NOT_KEPT:
        text, column = among_others(value, place)
        told = message(caller.create("t", pa.table({"c": json_of(*column)})), 400)
        assert "'c'" in told
        assert repr(text)[:100] in told
    assert caller.tables() == []


@pytest.mark.parametrize("place", [0, 150])
def test_one_text_of_any_form_among_many_is_stored(caller, place):
    for number, value in enumerate(KEPT):
        _, column = among_others(value, place)
        answer = caller.create(f"t{number}", pa.table({"c": json_of(*column)}))
        assert answer.status_code == 200, value
        assert parsed(caller.read(f"t{number}")["c"].to_pylist()) == parsed(column)


def test_json_of_many_forms_and_of_deep_ones_is_read_text_by_text(caller):
    column = []
    for i in range(100):
        column.append("[" * 200 + str(i) + "]" * 200)
        column.append('{"k": ' * 200 + str(i) + "}" * 200)
        column.append(json.dumps({f"k{i}": i, "l": [[[{"deep": i}]]]}))
    assert caller.create("t", pa.table({"c": json_of(*column)})).status_code == 200
    assert parsed(caller.read("t")["c"].to_pylist()) == parsed(column)
    answer = caller.create("u", pa.table({"c": json_of(*column, '{"k": 1, "k": 2}')}))
    assert "'k' more than once" in message(answer, 400)


ESCAPED = [
    ('{"k\\": 1, \\"k": 0}', '{"k": 1, "k": 0}'),
    ('{"\\\\u006b": 1, "k": 1}', '{"\\u006b": 1, "k": 1}'),
]


@pytest.mark.parametrize(("alike", "text"), ESCAPED)
def test_a_name_with_escapes_does_not_stand_for_what_it_says(caller, alike, text):
    answer = caller.create("t", pa.table({"c": json_of(*[alike] * 100, text)}))
    assert "'k' more than once" in message(answer, 400)
    found = caller.create("t", pa.table({"c": json_of(*[alike] * 100)})).status_code
    assert found == 200


def test_json_is_not_cast_to_the_engines_form_of_it(caller):
    caller.create("t", pa.table({"c": json_of('{"a": 1}')}))
    for name in ("string", "large_string", "binary", "large_binary"):
        answer = caller.alter("t", cast("c", name))
        assert "'c'" in message(answer, 400)
    assert caller.version("t") == 1


def test_dictionaries_that_outgrow_their_codes_are_refused_and_small_ones_are_stored(
    caller,
):
    small = pa.dictionary(pa.int8(), pa.string())
    batches = []
    for batch in (0, 1):
        codes = pa.array([f"{i}-{batch}" for i in range(100)]).cast(small)
        batches.append(pa.record_batch({"n": [batch] * 100, "k": codes}))
    answer = caller.create("t", pa.Table.from_batches(batches))
    assert "'k', send codes of int32" in message(answer, 400)
    table = pa.Table.from_batches(batches[:1])
    assert caller.create("t", table).status_code == 200
    assert caller.read("t").equals(table)
