"""Addresses, methods and content types of a folder: S10."""

from __future__ import annotations

import pytest

from tests.support.local import ARROW, JSON, NUMBERS, TABLE, message, stream

BODY = stream(TABLE)
NAMES = [
    "..",
    ".",
    ".hidden",
    "%2e%2e",
    "..%2f..%2fx",
    "%2Fetc%2Fx",
    "a%2Fb",
    "..%5cx",
    "file:%2F%2F%2Ftmp%2Fx",
    "s3:%2F%2Fb%2Fx",
    "a%00b",
    "%0a",
    "%20",
    "%C3%A9",
    "%FF",
    "x" * 129,
    "a:b",
    ".staging",
    "~",
    "a%3Fb",
    "%252e%252e",
]
CLIMBING = [
    "tables/../x",
    "tables/../../x",
    "/tables/x",
    "tables/x/",
    "../v1/tables/x",
    "TABLES/x",
]
PATHS = [
    *(pytest.param(f"tables/{name}", 400, id=name[:20]) for name in NAMES),
    *(pytest.param(f"table/{name}/alter_columns", 400) for name in NAMES),
    *(pytest.param(path, 404) for path in CLIMBING),
]


@pytest.mark.parametrize(("path", "status"), PATHS)
def test_S10_a_name_or_path_that_could_lead_elsewhere_is_refused(caller, path, status):
    before = sorted(caller.root.parent.rglob("*"))
    answer = caller.send("POST", f"/v1/{path}", BODY, content_type=ARROW)
    assert answer.status_code == status
    assert sorted(caller.root.parent.rglob("*")) == before


TABLES = ("describe", "count_rows", "query", "alter_columns", "drop")
WRONG = [
    ("GET", "/", None, 404),
    ("GET", "/v1/tables/", None, 404),
    ("POST", "/v1/table/t", ARROW, 404),
    ("POST", "/v1/tables/a/b", ARROW, 404),
    ("POST", "/v1/tables", ARROW, 405),
    ("GET", "/v1/tables/t", None, 405),
    ("POST", "/v1/table/t/update/", JSON, 501),
    ("POST", f"/v1/table/t/{'x' * 1000}/", JSON, 501),
    ("DELETE", "/v1/tables/t", None, 405),
    ("POST", "/v1/tables/t", ARROW, 409),
    ("POST", "/v1/tables/new", None, 415),
    ("POST", "/v1/tables/new", JSON, 415),
    ("POST", "/v1/table/t/alter_columns", ARROW, 415),
    *(("GET", f"/v1/table/t/{last}/", None, 405) for last in TABLES),
    *(("POST", f"/v1/table/nix/{last}/", JSON, 404) for last in TABLES),
    *(("POST", f"/v1/table/..%2Ft/{last}/", JSON, 400) for last in TABLES),
]


def test_wrong_addresses_methods_and_content_types_have_answers_of_their_own(caller):
    caller.create("t", NUMBERS)
    for method, path, kind, status in WRONG:
        body = b"{}" if kind == JSON else BODY
        answer = caller.send(method, path, body, content_type=kind)
        assert (answer.status_code, 0 < len(message(answer)) < 140) == (status, True), (
            path
        )
        assert "/nix/" not in path or "'nix'" in message(answer)
    assert caller.tables() == ["t"]
    assert caller.read("t").equals(NUMBERS)
