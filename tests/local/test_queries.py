"""Reading over HTTP: what a query may ask, and filters that are not given to the engine."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from tests.support.local import ARROW, NUMBERS, Process, message


def ask(caller, operation="query", **request):
    return caller.send("POST", f"/v1/table/t/{operation}/", json.dumps(request))


def rows(answer):
    assert answer.headers["Content-Type"] == ARROW
    with pa.ipc.open_stream(answer.content) as reader:
        return reader.read_all()


def test_rows_are_filtered_counted_selected_and_limited(caller):
    caller.create("t", NUMBERS)
    assert rows(ask(caller)).equals(NUMBERS)
    assert rows(ask(caller, filter="a > 1", columns=["c", "a"], k=1)).to_pylist() == [{"c": None, "a": 2}]
    assert rows(ask(caller, filter="a > 5")).equals(NUMBERS[:0])
    assert rows(ask(caller, k=0)).equals(NUMBERS[:0])
    assert rows(ask(caller, offset=2**62, k=2**63 - 1)).num_rows == 0
    assert ask(caller, "count_rows").json() == 3
    assert ask(caller, "count_rows", predicate="c IS NULL OR lower(c) = 'x'").json() == 2
    caller.alter("t", {"path": "a", "rename": "z"})
    assert rows(ask(caller, version=1)).equals(NUMBERS)
    assert rows(ask(caller)).column_names == ["z", "b", "c"]


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        ({"filter": "nope = 1"}, 400, "No field named nope"),
        ({"filter": "a >"}, 400, "sql parser error"),
        ({"filter": "a"}, 400, "does not return a boolean"),
        ({"filter": "1 / 0 = a"}, 400, "Divide by zero"),
        ({"filter": 7}, 400, "a filter is a string"),
        ({"filter": "a = 1 OR " * 200_000 + "a = 1"}, 400, "a filter is a string of at most 8000 characters"),
        ({"filter": "a = " + "/nope" * 80}, 400, "Error parsing statement"),
        ({"columns": ["nope"]}, 400, "No field named nope"),
        ({"columns": ["a", "a"]}, 400, "Duplicate column"),
        ({"columns": "a"}, 501, "array of strings"),
        ({"columns": {"x": "a + 1"}}, 501, "array of strings"),
        ({"k": -1}, 400, "k is -1"),
        ({"k": 1.5}, 400, "k is 1.5"),
        ({"offset": True}, 400, "offset is True"),
        ({"version": 2**63}, 400, "version is"),
        ({"version": 9}, 404, "no version 9"),
        ({"vector": [1.0]}, 501, "there is no vector search here"),
        ({"full_text_query": {"query": "x"}}, 501, "'full_text_query' is not answered"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_an_error_that_names_it_and_no_path_of_the_machine(caller, request_, status, words):
    caller.create("t", NUMBERS)
    answer = ask(caller, **request_)
    assert answer.status_code == status
    assert words in message(answer)
    assert "/home" not in answer.text
    assert str(caller.root).strip("/") not in answer.text


@pytest.mark.parametrize("body", ["[]", "x", '"x"', "[" * 100_000, b"\xff"])
def test_a_body_that_is_not_an_object_is_refused(caller, body):
    caller.create("t", NUMBERS)
    for operation in ("describe", "count_rows", "query"):
        answer = caller.send("POST", f"/v1/table/t/{operation}/", body)
        assert answer.status_code == 400
        assert "JSON object" in message(answer)


@pytest.mark.parametrize(
    "filter_",
    [
        "+".join(["a"] * 1000) + " > 1",
        "a" + "+1" * 1000 + " > 1",
        ".1" + "*.1" * 1000 + " > 1",
        "||".join(["c"] * 1000) + " = 'x'",
        "c LIKE" + "'x'LIKE" * 1000 + "'x'",
        " AND ".join(f"a > {i}" for i in range(500)),
        "interval " * 800 + "'1 day' = 1",
        "a" + "[1]" * 1000 + " = 1",
        "a" + "::bigint" * 400 + " = 1",
        "a" + " AT TIME ZONE 'x'" * 400 + " = 1",
        "c" + " COLLATE x" * 400 + " = 'x'",
    ],
    ids=[
        "plus",
        "ones",
        "fractions",
        "concatenation",
        "like",
        "and",
        "interval",
        "subscript",
        "cast",
        "zone",
        "collate",
    ],
)
def test_a_filter_that_would_end_the_process_is_refused(caller, filter_):
    caller.create("t", NUMBERS)
    for answer in (ask(caller, filter=filter_), ask(caller, "count_rows", predicate=filter_)):
        assert answer.status_code == 400
        assert "at most 250 words and operators" in message(answer)


def test_a_list_of_numbers_may_be_long(caller):
    caller.create("t", NUMBERS)
    assert rows(ask(caller, filter=f"a IN ({', '.join(map(str, range(2, 1500)))})")).equals(NUMBERS[1:])


def test_no_filter_ends_the_process(tmp_path):
    symbols = random.Random(1)
    words = [*"abc()[]{}<>=+-*/%|&^~!@#?$,.:;\\'\"`_é \t\n", "1", "1.5", "'x'", " AND ", " OR ", " NOT ", " IN (1, 2)"]
    words += [
        " IS NULL",
        "interval ",
        "CASE WHEN ",
        " END",
        "lower(",
        "cast(",
        " as int)",
        " LIKE ",
        "::int",
        "--",
        "/*",
    ]
    with Process(tmp_path) as service:
        assert service.caller.create("t", NUMBERS).status_code == 200
        for _ in range(100):
            filter_ = "".join(symbols.choices(words, k=symbols.randrange(40)))
            answer = ask(service.caller, "count_rows", predicate=filter_)
            assert answer.status_code in (200, 400), filter_
        for one in words:
            assert ask(service.caller, filter=f"a{one}" * 120 + "a").status_code in (200, 400), one
        assert service.alive


def test_a_query_needs_the_key_and_drops_need_a_table(caller):
    caller.create("t", NUMBERS)
    for operation in ("describe", "count_rows", "query", "drop"):
        answer = caller.send("POST", f"/v1/table/t/{operation}/", "{}", x_api_key="wrong")
        assert answer.status_code == 401
        assert caller.send("GET", f"/v1/table/t/{operation}/").status_code == 405
        assert caller.send("POST", f"/v1/table/nix/{operation}/", "{}").status_code == 404
        assert caller.send("POST", f"/v1/table/..%2Ft/{operation}/", "{}").status_code == 400
    assert caller.read("t").equals(NUMBERS)
    assert caller.send("POST", "/v1/table/t/drop").json() == {}
    assert caller.tables() == []
    assert caller.create("t", NUMBERS[:1]).json() == {"version": 1}
