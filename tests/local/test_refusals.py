from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

from tests.support.local import ARROW, JSON, LIST_64, NUMBERS, message, nested, stream


def to(name: str) -> dict[str, str]:
    return {"type": name}


REFUSED = {
    "no body": (b"", ["JSON"]),
    "no JSON": (b"{", ["JSON"]),
    "too deep": (b"[" * 100_000, ["JSON"]),
    "an array": (b"[]", ['"alterations"']),
    "nothing": (b"{}", ['"alterations"']),
    "an empty list": ([], ["at least one"]),
    "more than alterations": (b'{"alterations": [{"path": "n", "rename": "k"}], "dry": true}', ["'dry'"]),
    "no object": (["n"], ['"path"']),
    "no path": ([{"rename": "k"}], ['"path"']),
    "unknown field": ([{"path": "n", "name": "k"}], ["'n'", "'name'", "'rename'"]),
    "no change": ([{"path": "n"}], ["'n'", "nothing to change"]),
    "unknown column": ([{"path": "nope", "rename": "k"}], ["'nope'", "'n', 'm'"]),
    "a mistyped column": ([{"path": "dday", "rename": "k"}], ["'dday'", "(did you mean 'day'?); the table has"]),
    "a column in other letters": ([{"path": "BIG", "rename": "k"}], ["'BIG'", "(did you mean 'big'?)"]),
    "a mistyped field of a struct": ([{"path": "deep.day.x", "rename": "k"}], ["'deep.day.x'", "did you mean 'days'?"]),
    "unknown field of a struct": ([{"path": "s.q", "rename": "k"}], ["'s.q'", "'x', 'y'"]),
    "an empty path": ([{"path": "", "rename": "k"}], ["''"]),
    "a path with quotes": ([{"path": "`n`", "rename": "k"}], ["'`n`'"]),
    "one column twice": ([{"path": "n", "rename": "k"}, {"path": "n", "nullable": True}], ["'n'", "more than once"]),
    "rename of the wrong type": ([{"path": "n", "rename": 5}], ["'n'", "string"]),
    "nullable of the wrong type": ([{"path": "n", "nullable": "no"}], ["'n'", "true or false"]),
    "a name that is taken": ([{"path": "n", "rename": "m"}], ["'n'", "'m'", "another name"]),
    "a name that is taken inside": ([{"path": "s.x", "rename": "y"}], ["'s.x'", "'y'"]),
    "two to one name": ([{"path": "n", "rename": "k"}, {"path": "m", "rename": "k"}], ["'n'", "'m'", "'k'"]),
    "no known type": ([{"path": "n", "data_type": to("int65")}], ["'n'", "data_type.type"]),
    "an incomplete type": (
        [{"path": "v", "data_type": {"type": "list", "fields": [{"name": "item"}]}}],
        ["'v'", "data_type.fields[0]"],
    ),
    "between families": ([{"path": "n", "data_type": to("double")}], ["'n'", "int64", "double", "within integers"]),
    "text to number": (
        [{"path": "t", "data_type": to("int64")}],
        ["'t'", "string", "int64", "stays within text", "store all rows anew"],
    ),
    "overflow": ([{"path": "big", "data_type": to("int8")}], ["'big'", "int64", "int8", "300"]),
    "one bad of two": (
        [{"path": "n", "rename": "k"}, {"path": "t", "data_type": to("bool")}],
        ["'t'", "string", "bool"],
    ),
    "swap and cast": (
        [{"path": "n", "rename": "m", "data_type": to("int8")}, {"path": "m", "rename": "n"}],
        ["'n'", "int64", "int8", "send two"],
    ),
    "fields that exchange their names, both cast": (
        [{"path": "pair.p", "rename": "q", "data_type": to("int64")},
         {"path": "pair.q", "rename": "p", "data_type": to("int64")}],
        ["'pair.p'", "int32", "int64", "send two"],
    ),
    "such fields in a list": (
        [{"path": "pairs.item.p", "rename": "q", "data_type": to("int64")},
         {"path": "pairs.item.q", "rename": "p", "data_type": to("int64")}],
        ["'pairs.item.p'", "int32", "int64", "send two"],
    ),
    "no nulls and a cast": (
        [{"path": "n", "nullable": False}, {"path": "m", "data_type": to("int8")}],
        ["'m'", "int64", "int8", "send two"],
    ),
    "no nulls where there are": ([{"path": "at", "nullable": False}], ["'at'", "contains nulls"]),
    "no nulls inside a list": ([{"path": "l.item.x", "nullable": False}], ["'l.item.x'", "inside lists"]),
    "a column and what is inside": (
        [{"path": "v", "data_type": LIST_64}, {"path": "v.item", "rename": "x"}],
        ["'v'", "'v.item'", "two requests"],
    ),
    "inside a map": ([{"path": "map.entries.value", "rename": "x"}], ["'map.entries.value'", "nothing inside a map"]),
    "inside a large_list": (
        [{"path": "ll.item.x", "data_type": to("int64")}],
        ["'ll.item.x'", "int32", "int64", "large_list"],
    ),
    "a time that does not exist in a zone": (
        [{"path": "spring", "data_type": to("timestamp:us:Europe/Berlin")}],
        ["'spring'", "timestamp[us]", "tz=Europe/Berlin", "does not exist in that zone", "nonexistent="],
    ),
    "a time that exists twice in a zone": (
        [{"path": "autumn", "data_type": to("timestamp:s:Europe/Berlin")}],
        ["'autumn'", "timestamp[us]", "tz=Europe/Berlin", "exists twice", "ambiguous="],
    ),
    "a date that nanoseconds cannot hold": (
        [{"path": "day", "data_type": to("timestamp:ns:-")}],
        ["'day'", "date32[day]", "timestamp[ns]", "would wrap"],
    ),
    "such a date in a list in a struct": (
        [{"path": "deep.days", "data_type": {"type": "list", "fields": [
            {"name": "item", "type": to("timestamp:ns:UTC"), "nullable": True}]}}],
        ["'deep.days'", "list<item: date32[day]>", "timestamp[ns, tz=UTC]", "would wrap"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("alterations", "said"), REFUSED.values(), ids=REFUSED)
def test_an_alteration_that_makes_no_sense_is_refused_by_name_and_changes_nothing(caller, alterations, said):
    inner = pa.struct([("x", pa.int32()), ("y", pa.string())])
    far = dt.date(9999, 1, 1)
    before = nested()
    before = before.append_column("big", pa.array([300, 1]))
    before = before.append_column("map", pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())))
    before = before.append_column("ll", pa.array([[{"x": 5, "y": "r"}], []], pa.large_list(inner)))
    before = before.append_column("day", pa.array([far, None]))
    before = before.append_column("spring", pa.array([dt.datetime(2024, 3, 31, 2, 30), None]))
    before = before.append_column("autumn", pa.array([dt.datetime(2024, 10, 27, 2, 30), None]))
    before = before.append_column(
        "deep", pa.array([{"days": [far]}, None], pa.struct([("days", pa.list_(pa.date32()))]))
    )
    pair = pa.struct([("p", pa.int32()), ("q", pa.int32())])
    before = before.append_column("pair", pa.array([{"p": 1, "q": 2}, None], pair))
    before = before.append_column("pairs", pa.array([[{"p": 1, "q": 2}], []], pa.list_(pair)))
    caller.create("t", before)
    body = alterations if isinstance(alterations, bytes) else json.dumps({"alterations": alterations})
    answer = caller.send("POST", "/v1/table/t/alter_columns", body, content_type=JSON)
    assert answer.status_code == 400
    assert [words for words in said if words not in message(answer)] == []
    assert caller.version("t") == 1
    assert caller.read("t").equals(before)


OFFENDERS = {
    "casts beside those that are done": (
        [{"path": "day", "data_type": to("timestamp:ms:-")}, {"path": "n", "data_type": to("int32"), "rename": "m"},
         {"path": "m", "data_type": to("int16"), "rename": "n"}, {"path": "t", "data_type": to("int64")},
         {"path": "s.x", "data_type": to("string"), "nullable": True}],
        ("nothing was changed, column 't' (from string to int64): string stays within text; "
         "column 's.x' (from int32 to string): int32"),
    ),
    "more casts than are told": (
        [{"path": "n", "data_type": to("float")}, {"path": "t", "data_type": to("bool")},
         {"path": "s.x", "data_type": to("double")}],
        ("nothing was changed, column 'n' (from int64 to float): int64 stays within integers; column 't' (from string "
         "to bool): string stays within text; 1 more column; "),
    ),
    "a change inside lists beside one that is done": (
        [{"path": "n", "nullable": False}, {"path": "l.item.x", "nullable": False}],
        "column 'l.item.x' cannot be changed: the engine cannot look for nulls inside lists",
    ),
    "a column with nulls beside one without": (
        [{"path": "n", "nullable": False}, {"path": "at", "nullable": False}],
        "nothing was changed, column 'at' (nullable=False): the column contains nulls",
    ),
    "a value beyond a type beside those within": (
        [{"path": "at", "data_type": to("date32:day")}, {"path": "n", "data_type": to("int32")},
         {"path": "big", "data_type": to("int8")}, {"path": "v", "data_type": LIST_64},
         {"path": "s.x", "data_type": to("int8")}],
        "nothing was changed, column 'big' (from int64 to int8): the engine says",
    ),
    "such a value in lists in structs": (
        [{"path": "n", "data_type": to("int8")}, {"path": "wide.list", "data_type": {"type": "list", "fields": [
            {"name": "item", "type": to("int8"), "nullable": True}]}}],
        "nothing was changed, column 'wide.list' (from list<item: int64> to list<item: int8>): the engine says",
    ),
    "digits beyond a decimal": (
        [{"path": "n", "data_type": to("int8")}, {"path": "dec", "data_type": to("decimal:128:3:2")}],
        "nothing was changed, column 'dec' (from decimal128(30, 2) to decimal128(3, 2)): the engine says",
    ),
    "a time that does not exist": (
        [{"path": "at", "data_type": to("timestamp:us:Europe/Berlin")},
         {"path": "spring", "data_type": to("timestamp:us:Europe/Berlin")}],
        "nothing was changed, column 'spring' (from timestamp[us] to timestamp[us, tz=Europe/Berlin]): a time does not",
    ),
    "what goes together in no request": (
        [{"path": "t", "rename": "u"}, {"path": "n", "rename": "m", "data_type": to("int8")},
         {"path": "m", "rename": "n"}],
        "nothing was changed, column 'n' (rename to 'm', from int64 to int8); column 't' (rename to 'u'); column 'm'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("alterations", "said"), OFFENDERS.values(), ids=OFFENDERS)
def test_of_several_changes_those_are_named_that_the_engine_refuses(caller, alterations, said):
    before = nested().append_column("day", pa.array([dt.date(2020, 1, 2), None]))
    before = before.append_column("big", pa.array([1, 300]))
    before = before.append_column("wide", pa.array([{"list": [1]}, {"list": [None, 300]}]))
    before = before.append_column("dec", pa.array([1234, 5]).cast(pa.decimal128(30, 2)))
    before = before.append_column("spring", pa.array([dt.datetime(2024, 3, 31, 2, 30), None]))
    caller.create("t", before)
    answer = caller.alter("t", *alterations)
    assert answer.status_code == 400
    assert message(answer).startswith(said)
    assert caller.read("t").equals(before)


def deep(levels: int) -> pa.DataType:
    return pa.list_(deep(levels - 1)) if levels else pa.int8()


TYPES = {
    "fixed_size_list of text": (pa.list_(pa.string(), 2), [None]),
    "fixed_size_list of structs": (pa.list_(pa.struct([("x", pa.int8())]), 2), [None]),
    "fixed_size_list of lists": (pa.list_(pa.list_(pa.int8()), 2), [None]),
    "fixed_size_list of nulls": (pa.list_(pa.null(), 2), [None]),
    "fixed_size_list of none": (pa.list_(pa.int8(), 0), [[]]),
    "huge fixed_size_list": (pa.list_(pa.int8(), 2**24 + 1), []),
    "huge fixed_size_lists": (pa.list_(pa.list_(pa.int8(), 2**12), 2**12 + 1), []),
    "huge fixed_size_list of fixed_size_binary": (pa.list_(pa.binary(2**12), 2**12 + 1), []),
    "huge fixed_size_binary": (pa.binary(2**24 + 1), []),
    "fixed_size_binary of none": (pa.binary(0), []),
    "fixed_size_list of fixed_size_binary of none": (pa.list_(pa.binary(0), 2), []),
    "fixed_size_list of dictionaries": (pa.list_(pa.dictionary(pa.int32(), pa.string()), 2), []),
    "map of sorted keys": (pa.map_(pa.string(), pa.int8(), keys_sorted=True), []),
    "dictionary of dates": (pa.dictionary(pa.int32(), pa.date32()), []),
    "too deep": (deep(61), []),
    "empty struct": (pa.struct([]), [{}]),
    "null inside": (pa.list_(pa.null()), [[None]]),
    "view": (pa.string_view(), ["a"]),
    "interval": (pa.month_day_nano_interval(), [None]),
    "decimal32": (pa.decimal32(5, 2), [None]),
    "fields of one name": (pa.struct([("x", pa.int8()), ("x", pa.int8())]), [None]),
    "field without a name": (pa.struct([("", pa.int8())]), [None]),
    "field with a NUL": (pa.struct([("a\0b", pa.int8())]), [None]),
}


@pytest.mark.parametrize(("arrow", "values"), TYPES.values(), ids=TYPES)
def test_a_type_that_tables_cannot_hold_is_refused_by_column(caller, arrow, values):
    nesting = pa.struct([("inner", arrow)])
    for column, kind in (("col", arrow), ("outer", nesting)):
        table = pa.table({column: pa.nulls(0, kind)}, schema=pa.schema([(column, kind)]))
        answer = caller.create("t", table)
        assert answer.status_code == 400
        assert f"'{column}" in message(answer)
    assert caller.tables() == []
    assert caller.staged() == []


@pytest.mark.parametrize("name", ["", "a.b", "a`b", "a\0b", "tab\t", "\x85", "_rowid", "_rowoffset"])
def test_a_column_name_that_the_engine_cannot_keep_is_refused_at_creation_and_at_renaming(caller, name):
    answer = caller.create("t", pa.table({name: [1], "b": [2]}))
    assert answer.status_code == 400
    assert "name" in message(answer)
    assert caller.tables() == []
    caller.create("t", NUMBERS)
    answer = caller.alter("t", {"path": "a", "rename": name})
    assert answer.status_code == 400
    assert "'a'" in message(answer)
    assert caller.read("t").equals(NUMBERS)


def test_columns_need_to_be_some_and_to_differ(caller):
    assert "0 columns" in message(caller.create("t", stream(pa.table({}))))
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert "'a'" in message(caller.create("t", twice))
    assert caller.tables() == []


def test_wrong_addresses_methods_and_content_types_have_answers_of_their_own(caller):
    body = stream(NUMBERS)
    caller.create("t", NUMBERS)
    asked = [
        (caller.send("GET", "/v1/tables", x_api_key="wrong"), 401),
        (caller.send("GET", "/"), 404),
        (caller.send("GET", "/v1/tables/"), 404),
        (caller.send("POST", "/v1/table/t", body), 404),
        (caller.send("POST", "/v1/tables/a/b", body), 404),
        (caller.send("POST", "/v1/table/none/alter_columns", b"{}", content_type=JSON), 404),
        (caller.send("POST", "/v1/tables", body, content_type=ARROW), 405),
        (caller.send("GET", "/v1/tables/t"), 405),
        (caller.send("DELETE", "/v1/tables/t"), 405),
        (caller.create("t", body), 409),
        (caller.send("POST", "/v1/tables/new", body), 415),
        (caller.send("POST", "/v1/tables/new", body, content_type=JSON), 415),
        (caller.send("POST", "/v1/table/t/alter_columns", b"{}", content_type=ARROW), 415),
    ]
    assert [answer.status_code for answer, _ in asked] == [status for _, status in asked]
    assert all(message(answer) for answer, _ in asked)
    assert caller.tables() == ["t"]


def array(arrow: pa.DataType, *values: object) -> pa.Array:
    return pa.array(values, arrow)


def not_null(arrow: pa.DataType) -> pa.Field:
    return pa.field("x", arrow, nullable=False)


def json_of(*texts: str | None) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))


HALF_DAY = pa.array([43_200_000], pa.int64()).view(pa.date64())
VALUES = {
    "date64 of half a day": (HALF_DAY, "'c'", "whole number of days"),
    "such a date in a struct": (pa.StructArray.from_arrays([HALF_DAY], ["x"]), "'c'", "whole number of days"),
    "time beyond a day": (pa.array([86_400], pa.int32()).view(pa.time32("s")), "'c'", "acceptable range"),
    "null in a field that is not nullable": (
        pa.StructArray.from_arrays([array(pa.int8(), 1, None)], fields=[not_null(pa.int8())]),
        "'c.x'", "contains nulls"),
    "such a null in a list": (
        pa.ListArray.from_arrays([0, 2], array(pa.int8(), 1, None), type=pa.list_(not_null(pa.int8()))),
        "'c.x'", "contains nulls"),
    "such a null in a map": (
        pa.MapArray.from_arrays([0, 1], array(pa.string(), "k"), array(pa.int8(), None),
                                type=pa.map_(pa.string(), not_null(pa.int8()))),
        "'c.entries.value'", "contains nulls"),
    "no JSON": (json_of("{"), "'c'", "Expecting"),
    "empty text for JSON": (json_of("1", None, ""), "'c'", "Expecting"),
    "JSON of 65 bits": (json_of('{"a": [18446744073709551616]}'), "'c'", "64 bits"),
    "JSON beyond doubles": (json_of("1e400"), "'c'", "64 bits"),
    "JSON with NaN": (json_of('{"a": [NaN]}'), "'c'", "JSON compliant"),
    "JSON with half a surrogate pair": (json_of('{"a": "\\ud800"}'), "'c'", "surrogates"),
    "JSON with such a name": (json_of('{"\\ud800": 1}'), "'c'", "surrogates"),
    "JSON of one name twice": (json_of('{"a": 1, "a": 2}'), "'c'", "'a' more than once"),
    "JSON in a list in a struct": (
        pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 1], json_of("1e400"))], ["x"]),
        "'c.x.item'", "1e400"),
}  # fmt: skip


@pytest.mark.parametrize(("values", "column", "said"), VALUES.values(), ids=VALUES)
def test_a_value_that_tables_cannot_hold_is_refused_with_its_path(caller, values, column, said):
    answer = caller.create("t", pa.table({"fine": pa.nulls(len(values), pa.int8()), "c": values}))
    assert answer.status_code == 400
    assert column in message(answer)
    assert said in message(answer)
    assert caller.tables() == []


def test_nulls_under_a_null_are_no_nulls_of_a_field_that_is_not_nullable(caller):
    inner = pa.array([1, None], pa.int64())
    struct = pa.StructArray.from_arrays([inner], fields=[not_null(pa.int64())], mask=pa.array([False, True]))
    table = pa.table({"s": struct, "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), not_null(pa.int64())))})
    assert caller.create("t", table).status_code == 200
    assert caller.read("t").to_pylist() == table.to_pylist()


def test_json_that_the_engine_keeps_is_stored_with_its_values_at_every_depth(caller):
    texts = json_of('{"b": [1, 2.5, -9223372036854775808, 18446744073709551615], "a": null}', None, '"text"')
    nested = pa.ListArray.from_arrays([0, 2, 3, 3], texts)
    caller.create("t", pa.table({"c": texts, "l": nested}))
    back = caller.read("t")
    assert [text and json.loads(text) for text in back["c"].to_pylist()] == [
        {"b": [1, 2.5, -(2**63), 2**64 - 1], "a": None}, None, "text"
    ]  # fmt: skip
    assert [len(texts) for texts in back["l"].to_pylist()] == [2, 1, 0]


@pytest.mark.parametrize("name", ["string", "large_string", "binary", "large_binary"])
def test_json_is_not_cast_to_the_engines_form_of_it(caller, name):
    caller.create("t", pa.table({"c": json_of('{"a": 1}')}))
    answer = caller.alter("t", {"path": "c", "data_type": to(name)})
    assert (answer.status_code, "'c'" in message(answer)) == (400, True)
    assert caller.version("t") == 1


def test_a_form_of_storage_that_is_read_back_otherwise_is_refused(caller):
    for metadata in ({"lance-encoding:blob": "true"}, {"ARROW:extension:name": "lance.json"}):
        field = pa.field("x", pa.large_binary(), metadata=metadata)
        for name, schema in {"x": pa.schema([field]), "s.x": pa.schema([("s", pa.struct([field]))])}.items():
            answer = caller.create("t", schema.empty_table())
            assert (answer.status_code, f"'{name}'" in message(answer)) == (400, True)


def test_dictionaries_that_outgrow_their_codes_are_refused_and_small_ones_are_stored(caller):
    small = pa.dictionary(pa.int8(), pa.string())
    batches = [
        pa.record_batch({"n": [b] * 100, "k": pa.array([f"{i}-{b}" for i in range(100)]).cast(small)}) for b in (0, 1)
    ]
    answer = caller.create("t", pa.Table.from_batches(batches))
    assert answer.status_code == 400
    assert "columns 'k', send codes of int32" in message(answer)
    table = pa.Table.from_batches(batches[:1])
    assert caller.create("t", table).status_code == 200
    assert caller.read("t").equals(table)


def test_a_cast_to_a_type_that_tables_cannot_hold_is_refused(caller):
    caller.create("t", nested())
    big = {"type": "fixed_size_list", "length": 2**24 + 1, "fields": LIST_64["fields"]}
    for data_type in (to("null"), to("dict:date32:day:int32:false"), big):
        answer = caller.alter("t", {"path": "v", "data_type": data_type})
        assert answer.status_code == 400
        assert "'v'" in message(answer)
    assert caller.version("t") == 1
