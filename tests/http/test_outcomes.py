"""What an attempt comes to, told from the state of the body and the answer alone, as the head of `session` has it."""

from __future__ import annotations

import pytest
from urllib3.exceptions import NewConnectionError

from rt_frames import errors
from rt_frames._http.options import Key, Secrets
from rt_frames._http.response import Response, error_class, parse_table_names, parse_version
from rt_frames._http.session import Request, _interpret, _interpret_failure, _may_repeat
from rt_frames._http.upload import Upload

KEY = Secrets([Key("made-up")])
LIST = Request("list", "GET", "/v1/tables", "application/json", parse_table_names)
CREATE = Request("create", "POST", "/v1/tables/t", "application/json", parse_version, table="t", body=[[b"abc"]])
ALTER = Request(
    "alter", "POST", "/v1/table/t/alter_columns", "application/json", parse_version, table="t", body=[[b""]]
)


def sent(request: Request, how_far: str) -> Upload | None:
    if request.body is None:
        return None
    begun, complete = how_far != "nothing", how_far == "all"
    return Upload(request.body, None, 1, begun=begun, complete=complete, sent=2 if begun else 0)


@pytest.mark.parametrize(
    ("request_", "how_far", "kind", "again"),
    [
        (LIST, "nothing", errors.ConnectError, True),
        (CREATE, "nothing", errors.ConnectError, True),
        (ALTER, "nothing", errors.ConnectError, True),
        (LIST, "all", errors.TransportError, True),
        (CREATE, "part", errors.UploadInterrupted, False),
        (ALTER, "part", errors.OutcomeUnknown, False),
        (CREATE, "all", errors.OutcomeUnknown, False),
        (ALTER, "all", errors.OutcomeUnknown, False),
    ],
    ids=lambda value: getattr(value, "operation", None) or getattr(value, "__name__", None),
)
def test_without_an_answer_the_state_of_the_body_decides(request_, how_far, kind, again):
    error = NewConnectionError(None, "refused") if how_far == "nothing" else ConnectionResetError("reset made-up")
    outcome = _interpret_failure(request_, sent(request_, how_far), error, "https://x.test", KEY)
    assert (outcome.kind, _may_repeat(outcome, request_)) == (kind, again)
    assert "made-up" not in str(outcome)
    assert ("nothing was sent" in str(outcome)) == (how_far == "nothing")


@pytest.mark.parametrize(
    ("status", "again"),
    [
        (429, [LIST, CREATE, ALTER]),
        *((status, [LIST]) for status in (500, 502, 503, 504)),
        *((status, []) for status in (302, 400, 401, 404, 409, 413, 501)),
    ],
)
def test_an_answer_is_asked_for_again_only_where_that_is_safe(status, again):
    for request in (LIST, CREATE, ALTER):
        outcome = _interpret(request, sent(request, "all"), Response(status, {}, b""), KEY)
        assert outcome.kind is error_class(status, request.operation)
        assert _may_repeat(outcome, request) == (request in again)


@pytest.mark.parametrize(("status", "how_far"), [(200, "part"), (202, "all"), (101, "all")])
def test_a_success_that_cannot_be_one_is_outcome_unknown(status, how_far):
    for request in (CREATE, ALTER):
        outcome = _interpret(request, sent(request, how_far), Response(status, {}, b"{}"), KEY)
        assert (outcome.kind, _may_repeat(outcome, request)) == (errors.OutcomeUnknown, False)


def test_a_success_is_the_value_in_its_answer():
    assert _interpret(CREATE, sent(CREATE, "all"), Response(200, {}, b'{"version": 3}'), KEY) == 3
    assert _interpret(LIST, None, Response(200, {}, b'["a"]'), KEY) == (["a"], None)


def test_a_key_at_the_place_where_a_message_is_cut_does_not_show_in_part():
    body = b"x" * 296 + b" made-up and more"
    outcome = _interpret(CREATE, sent(CREATE, "all"), Response(400, {}, body), KEY)
    assert "made" not in str(outcome)
