"""What the embedded service refuses: S06, S07.

By column and with the reason, and nothing is changed.
"""

from __future__ import annotations

import datetime as dt
import functools
import json

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
    "pairs": pa.array([[{"p": 1, "q": 2}], []], pa.list_(PAIR)),
    "wide": pa.array([{"list": [1]}, {"list": [None, 300]}]),
    "dec": pa.array([1234, 5]).cast(pa.decimal128(30, 2)),
}
BEFORE = pa.table(
    {**dict(zip(nested().column_names, nested().columns, strict=True)), **COLUMNS}
)
BERLIN = "timestamp:us:Europe/Berlin"
REFUSED = {  # what is asked, the facts that are told, and the columns that are not to blame
    "no JSON": (b"[" * 100_000, ["JSON"]),
    "no alterations": (b'{"alterations": []}', ['"alterations"']),
    "more than alterations": (
        b'{"alterations": [{"path": "n", "rename": "k"}], "dry": true}',
        ["'dry'"],
    ),
    "no path": ([{"rename": "k"}], ['"path"']),
    "unknown field": ([{"path": "n", "name": "k"}], ["'n'", "'name'", "'rename'"]),
    "a mistyped column": ([rename("dday", "k")], ["'dday'", "did you mean 'day'?"]),
    "a mistyped field of a struct": (
        [rename("deep.day.x", "k")],
        ["'deep.day.x'", "did you mean 'days'?"],
    ),
    "a name that is taken inside": ([rename("s.x", "y")], ["'s.x'", "'y'"]),
    "an incomplete type": (
        [cast("v", {"type": "list", "fields": [{"name": "item"}]})],
        ["'v'", "data_type.fields[0]"],
    ),
    "a dictionary of dates": ([cast("v", "dict:date32:day:int32:false")], ["'v'"]),
    "between families": (
        [cast("n", "double")],
        ["'n'", "int64", "double", "to integers only"],
    ),
    "one bad of two": (
        [rename("n", "k"), cast("t", "bool")],
        ["'t'", "string", "bool"],
        "n",
    ),
    "swap and cast": (
        [cast("n", "int8", rename="m"), rename("m", "n")],
        ["'n'", "int64", "int8", "send two"],
    ),
    "fields that exchange their names, both cast": (
        [cast("pair.p", "int64", rename="q"), cast("pair.q", "int64", rename="p")],
        ["'pair.p'", "int32", "send two"],
    ),
    "no nulls and a cast": (
        [no_nulls("n"), cast("m", "int8")],
        ["'m'", "int64", "int8", "send two"],
    ),
    "no nulls where there are": ([no_nulls("at")], ["'at'", "contains nulls"]),
    "no nulls inside a list": ([no_nulls("l.item.x")], ["'l.item.x'", "inside lists"]),
    "a column and what is inside": (
        [cast("v", LIST_64), rename("v.item", "x")],
        ["'v'", "'v.item'", "two requests"],
    ),
    "inside a map": (
        [rename("map.entries.value", "x")],
        ["'map.entries.value'", "inside a map"],
    ),
    "inside a large_list": (
        [cast("ll.item.p", "int64")],
        ["'ll.item.p'", "int32", "int64", "large_list"],
    ),
    "a time that does not exist in a zone": (
        [cast("spring", BERLIN)],
        ["'spring'", "does not exist", "nonexistent="],
    ),
    "a time that exists twice": (
        [cast("autumn", "timestamp:s:Europe/Berlin")],
        ["'autumn'", "tz=Europe/Berlin", "exists twice", "ambiguous="],
    ),
    "a date that nanoseconds cannot hold": (
        [cast("day", "timestamp:ns:-")],
        ["'day'", "date32[day]", "would wrap"],
    ),
    "such a date in a list in a struct": (
        [cast("deep.days", lists_of("timestamp:ns:UTC"))],
        ["'deep.days'", "timestamp[ns, tz=UTC]", "would wrap"],
    ),
    "a change inside lists beside one that is done": (
        [no_nulls("n"), no_nulls("l.item.x")],
        ["'l.item.x'"],
        "n",
    ),
    "a column with nulls beside one without": (
        [no_nulls("n"), no_nulls("at")],
        ["'at' (nullable=False)"],
        "n",
    ),
    "a value beyond a type beside those within": (
        [cast("n", "int32"), rename("t", "u"), cast("big", "int8")],
        ["'n' (from int64 to int32)", "'big' (from int64 to int8)", "type Int8"],
        "t",
    ),
    "what goes together in no request": (
        [rename("t", "u"), cast("n", "int8", rename="m"), rename("m", "n")],
        ["'n' (rename to 'm', from int64 to int8)", "'t' (rename to 'u')", "'m'"],
    ),
}


@pytest.mark.parametrize(
    ("alterations", "said", "blameless"),
    [(*row[:2], row[2:]) for row in REFUSED.values()],
    ids=REFUSED,
)
def test_S06_an_alteration_that_makes_no_sense_is_refused_by_name_and_changes_nothing(
    caller, alterations, said, blameless
):
    caller.create("t", BEFORE)
    body = (
        alterations
        if isinstance(alterations, bytes)
        else json.dumps({"alterations": alterations})
    )
    for sent in (
        body,
        *([json.dumps({"alterations": alterations[::-1]})] if blameless else []),
    ):
        answer = caller.send(
            "POST", "/v1/table/t/alter_columns", sent, content_type=JSON
        )
        assert answer.status_code == 400
        assert [words for words in said if words not in message(answer)] == []
        assert [
            column for column in blameless if f"column {column!r}" in message(answer)
        ] == []
    assert caller.version("t") == 1
    assert caller.read("t").equals(BEFORE)


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
        for path, outer in {
            "x": field,
            "s.x": pa.field("s", pa.struct([field])),
        }.items():
            answer = caller.create(
                "t",
                pa.Table.from_arrays(
                    [pa.nulls(0, outer.type)], schema=pa.schema([outer])
                ),
            )
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
VALUES = {
    "date64 of half a day": (HALF_DAY, "'c'", "whole number of days"),
    "such a date in a struct": (
        pa.StructArray.from_arrays([HALF_DAY], ["x"]),
        "'c'",
        "whole number of days",
    ),
    "time beyond a day": (
        pa.array([86_400], pa.int32()).view(pa.time32("s")),
        "'c'",
        "acceptable range",
    ),
    "null in a field that is not nullable": (
        pa.StructArray.from_arrays([array(INT8, 1, None)], fields=[not_null(INT8)]),
        "'c.x'",
        "contains nulls",
    ),
    "such a null in a list": (NULL_IN_LIST, "'c.x'", "contains nulls"),
    "such a null in a map": (NULL_IN_MAP, "'c.entries.value'", "contains nulls"),
    "no JSON": (json_of("{"), "'c'", "Expecting"),
    "empty text for JSON": (json_of("1", None, ""), "'c'", "Expecting"),
    "JSON of 65 bits": (json_of('{"a": [18446744073709551616]}'), "'c'", "64 bits"),
    "JSON beyond doubles": (json_of("1e400"), "'c'", "64 bits"),
    "JSON of digits that no double has": (
        json_of("[0.1234567890123456789]"),
        "'c'",
        "64 bits",
    ),
    "JSON that a double has as zero": (json_of('{"a": 1e-400}'), "'c'", "64 bits"),
    "JSON with an endless exponent": (
        json_of('{"a": 1e-99999999999999999999}'),
        "'c'",
        "64 bits",
    ),
    "JSON with NaN": (json_of('{"a": [NaN]}'), "'c'", "JSON compliant"),
    "JSON with half a surrogate pair": (
        json_of('{"a": "\\ud800"}'),
        "'c'",
        "surrogates",
    ),
    "JSON with such a name": (json_of('{"\\ud800": 1}'), "'c'", "surrogates"),
    "JSON of one name twice": (
        json_of('{"a": 1, "a": 2}'),
        "'c'",
        "'a' more than once",
    ),
    "JSON in a list in a struct": (OUTSIDE, "'c.x.item'", "1e400"),
}


@pytest.mark.parametrize(("values", "column", "said"), VALUES.values(), ids=VALUES)
def test_a_value_that_tables_cannot_hold_is_refused_with_its_path(
    caller, values, column, said
):
    answer = caller.create(
        "t", pa.table({"fine": pa.nulls(len(values), pa.int8()), "c": values})
    )
    assert column in message(answer, 400)
    assert said in message(answer)
    assert caller.tables() == []


MIDNIGHT = pa.array([0] * 5, pa.date64())
INVALID = {
    "date64 of half a day": (pa.chunked_array([MIDNIGHT, HALF_DAY]), "row 5"),
    "time beyond a day": (
        pa.array([1, None, 86_400], pa.int32()).view(pa.time32("s")),
        "row 2",
    ),
    "no UTF-8": (pa.array([b"a", b"\xff"]).view(pa.string()), "row 1"),
    "no JSON": (json_of("1", None, "{"), "row 2"),
    "no JSON in a later batch": (
        pa.chunked_array([json_of("1", "2"), json_of("3", "nope")]),
        "row 3",
    ),
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
    table = pa.table(
        {
            "s": struct,
            "m": pa.array(
                [[("k", 1)], None], pa.map_(pa.string(), not_null(pa.int64()))
            ),
        }
    )
    assert caller.create("t", table).status_code == 200
    assert caller.read("t").to_pylist() == table.to_pylist()


def test_rows_without_a_column_that_may_not_be_null_are_refused_by_its_name(caller):
    caller.create(
        "t",
        pa.table(
            {"m": [1], "x": [1]},
            schema=pa.schema([("m", pa.int64()), not_null(pa.int64())]),
        ),
    )
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
    for i in range(2000)
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


@pytest.mark.parametrize(
    ("texts", "status"), [(NOT_KEPT, 400), (KEPT, 200)], ids=["not kept", "kept"]
)
@pytest.mark.parametrize("place", [0, 1, 999, 2000])
def test_one_text_among_many_of_its_form_is_refused_or_stored_as_if_it_were_alone(
    caller, texts, status, place
):
    for number, value in enumerate(texts):
        text = f'{{"n": {value}, "l": [0.5, "x", null], "é x": {{"t": ""}}}}'
        column = [*ALIKE[:place], text, *ALIKE[place:]]
        answer = caller.create(f"t{number}", pa.table({"c": json_of(*column)}))
        assert answer.status_code == status, value
        if status == 400:
            assert "'c'" in message(answer)
            assert repr(text)[:100] in message(answer)
        else:
            back = caller.read(f"t{number}")["c"].to_pylist()
            found = [json.loads(one) for one in back]
            assert found == [json.loads(one) for one in column]
    assert len(caller.tables()) == (0 if status == 400 else len(texts))


def test_json_of_many_forms_and_of_deep_ones_is_read_text_by_text(caller):
    deep = ["[" * 200 + str(i) + "]" * 200 for i in range(500)]
    objects = ['{"k": ' * 200 + str(i) + "}" * 200 for i in range(2000)]
    unlike = [json.dumps({f"k{i}": i, "l": [[[{"deep": i}]]]}) for i in range(500)]
    for name, column in {"a": deep, "b": [*objects, *unlike]}.items():
        assert caller.create(name, pa.table({"c": json_of(*column)})).status_code == 200
        found = [json.loads(one) for one in caller.read(name)["c"].to_pylist()]
        assert found == [json.loads(one) for one in column]
        answer = caller.create(
            "t", pa.table({"c": json_of(*column, '{"k": 1, "k": 2}')})
        )
        assert "'k' more than once" in message(answer, 400)


@pytest.mark.parametrize(
    ("alike", "text"),
    [
        ('{"k\\": 1, \\"k": 0}', '{"k": 1, "k": 0}'),
        ('{"\\\\u006b": 1, "k": 1}', '{"\\u006b": 1, "k": 1}'),
    ],
)
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
    batches = [
        pa.record_batch(
            {
                "n": [b] * 100,
                "k": pa.array([f"{i}-{b}" for i in range(100)]).cast(small),
            }
        )
        for b in (0, 1)
    ]
    answer = caller.create("t", pa.Table.from_batches(batches))
    assert "'k', send codes of int32" in message(answer, 400)
    table = pa.Table.from_batches(batches[:1])
    assert caller.create("t", table).status_code == 200
    assert caller.read("t").equals(table)
