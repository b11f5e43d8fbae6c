"""Requests: their purpose, what HTTP needs of them, how they end, and their bodies."""

from __future__ import annotations

import json
import math
import operator
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from rt_frames._arguments import parse_names
from rt_frames._text import show_value

if TYPE_CHECKING:
    from rt_frames import errors
    from rt_frames._protocol.operations import Operation
    from rt_frames._protocol.responses import Response

JSON = "application/json"
ARROW_STREAM = "application/vnd.apache.arrow.stream"
ALL_ROWS = 2**63 - 1
# of a condition, in the metadata of a stream's schema: a query string would be kept in
# logs, and is too long for proxies
WHERE_KEY = b"rt_frames.where"
# servers require all three
_UPSERT_RULES = (
    "when_matched_update_all=true&when_not_matched_insert_all=true"
    "&when_not_matched_by_source_delete=false"
)

Acted = Literal["no", "maybe"]
Lacks = Literal["no", "maybe", "yes"]
Stage = Literal["", "empty", "begin", "part", "commit"]
# "always" needs no second body; "again" repeats the request if its body can be read
# again; "anew" begins a whole multipart write anew, if its source can be read again
Repeat = Literal["never", "always", "again", "anew"]
# bytes-like objects, in the order of sending
Buffers = Iterable[Any]
# the cure for an error, which only the caller knows
Cures = Mapping["type[errors.RemoteError]", str]
NO_CURES: Cures = {}
# what an error, or a service's own message, says of its step, which is not the whole
# call
_OF_A_STEP = {
    "nothing was sent": "this step was not sent",
    "nothing was changed": "this step changed nothing",
    "nothing was stored": "no row was stored",
}


class Explanation(NamedTuple):
    """What a look at the table showed after a failure, and the cure that follows."""

    found: str
    cure: str = ""


@dataclass(frozen=True)
class Failure:
    """Why a request failed.

    Parameters
    ----------
    error : type
        The exception that it becomes.
    text : str
        What happened.
    acted : str
        Whether the service may have acted: "no" or "maybe".
    repeat : str
        Whether to send the request again.
    state : str
        What became of the table.
    cure : str
        What to do.
    facts : dict
        Attributes of the exception.
    found : str
        What a look at the table has shown since.
    hint : str
        What may help besides the cure.
    sent : int
        Bytes of the body that were sent.
    retry_after : float, optional
        Seconds that the service asks to wait.
    lacks : str
        Whether the server lacks the operation: "no", "maybe" or "yes".
    is_final : bool
        Whether a commit has certainly failed, so that its parts may be discarded.
    """

    error: type[errors.RemoteError]
    text: str
    acted: Acted = "no"
    repeat: Repeat = "never"
    state: str = ""
    cure: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    found: str = ""
    hint: str = ""
    sent: int = 0
    retry_after: float | None = None
    lacks: Lacks = "no"
    is_final: bool = False


@dataclass
class LastAttempt:
    """The request of a call that was sent last, if it may change something.

    Attributes
    ----------
    purpose : Purpose or None
        Its purpose.
    may_be_whole : callable
        Returns whether the server may have received the whole request.
    find_late : callable
        Returns the outcome of an attempt that was interrupted, or None: a folder goes
        on for a moment.
    outcome : Result, Failure or None
        The outcome; None until a response was read.
    unknown : Failure or None
        The outcome of the attempt before, if the service may have acted.
    """

    purpose: Purpose | None = None
    may_be_whole: Callable[[], bool] = lambda: False
    find_late: Callable[[], Result | Failure | None] = lambda: None
    outcome: Result | Failure | None = None
    unknown: Failure | None = None

    def begin(
        self,
        purpose: Purpose,
        may_be_whole: Callable[[], bool],
        find_late: Callable[[], Result | Failure | None],
    ) -> None:
        """Record an attempt. What parts change is invisible until the commit."""
        is_visible = purpose.kind not in ("read", "begin", "part")
        self.unknown = find_unknown(self.outcome)
        # an interrupt here must not pair the request before with this outcome
        if self.unknown is None:
            self.purpose = None
        self.may_be_whole = may_be_whole if self.unknown is None else lambda: True
        self.find_late = find_late
        self.outcome = None
        self.purpose = purpose if is_visible else None

    def end(self, outcome: Result | Failure) -> None:
        """Record the outcome. It is unknown if that of an earlier attempt is."""
        self.outcome = outcome
        if isinstance(outcome, Failure):
            self.outcome = find_unknown(outcome, self.unknown) or outcome

    @property
    def sent(self) -> Purpose | None:
        """The purpose, if the service may have received the request."""
        return self.purpose if self.may_be_whole() else None

    def clear(self) -> None:
        """Forget the attempt, which holds the caller's data."""
        self.purpose = None
        self.may_be_whole = lambda: False
        self.find_late = lambda: None
        self.outcome = None
        self.unknown = None


class Steps(NamedTuple):
    """The other steps of a call that makes several, each in one commit.

    Parameters
    ----------
    done, left : str
        Which steps were done before, and which were not sent; "" if there are none.
    again : str
        What the same call would do now.
    """

    done: str = ""
    left: str = ""
    again: str = ""

    def complete(self, *sentences: str) -> str:
        """Return the text of an error: sentences about this step, and the others."""
        again = self.again
        # the cure of this step may be to make the same call, too
        said = [one for one in sentences if one != again]
        if again and sentences and again not in sentences:
            # after the cure of this step
            again = f"then {again}"
        text = "; ".join(filter(None, [*said, self.done, self.left, again]))
        for of_the_call, of_the_step in _OF_A_STEP.items() if self.done else ():
            text = text.replace(of_the_call, of_the_step)
        return text


NO_STEPS = Steps()


class Purpose(NamedTuple):
    """The purpose of a request: what it is for, and what errors say of it.

    Parameters
    ----------
    operation, table : Operation, str
        Named in errors. A part has the operation of the whole write.
    rows : int, optional
        Number of rows, reported in errors.
    exhausts_source : bool
        Whether the caller's iterator or reader is exhausted after one attempt.
    exist_ok : bool
        ``if_exists="skip"``: an existing table counts as success.
    listed_before : bool, optional
        Whether the table was listed before; None if nobody listed the tables.
    cures : dict of error to str
        Cures for some errors.
    stage : str
        Of a multipart write: the "empty" table that it starts with, the request to
        "begin" it, a "part", which is invisible until the commit, or the "commit".
    is_compressed : callable
        Returns whether what was sent holds compressed Arrow buffers.
    steps : Steps
        The other steps of its call.
    last_attempt : LastAttempt, optional
        Records each attempt, for the note of an interrupt.
    """

    operation: Operation
    table: str | None = None
    rows: int | None = None
    exhausts_source: bool = False
    exist_ok: bool = False
    listed_before: bool | None = None
    cures: Cures = NO_CURES
    stage: Stage = ""
    # bool() is False
    is_compressed: Callable[[], bool] = bool
    steps: Steps = NO_STEPS
    last_attempt: LastAttempt | None = None

    @property
    def kind(self) -> str:
        """The kind of request, as `rt_frames._protocol.meanings` names it."""
        return self.stage or self.operation.effect

    @property
    def is_read(self) -> bool:
        """Whether the request changes nothing."""
        return self.operation.effect == "read"

    @property
    def action(self) -> str:
        """The operation in the words of errors, such as "create table 'a'"."""
        return self.operation.action.format(f"table {self.table!r}")


@dataclass(frozen=True)
class Request:
    """What HTTP needs of one request, and the parser of its response.

    Parameters
    ----------
    purpose : Purpose
        What the request is for; HTTP passes it on.
    path, method, content_type, headers : str, and dict of str to str
        As HTTP has them; the session adds its own headers.
    parse : callable
        Returns the value of a successful response, or raises ValueError.
    body : iterable of groups of buffers, optional
        Iterated again for each attempt.
    length : int, optional
        Bytes of the body. It is sent in chunks if the length is not known.
    nbytes : int, optional
        About how many bytes the body has, if the length is not known.
    on_sent : callable, optional
        Called after each piece with the total bytes sent.
    replayable : bool
        Whether the body can be iterated again.
    query : dict, optional
        A query, whose response is read as rows.
    max_timeout : float
        Upper limit for the configured connect and read timeouts.
    id : str
        Sent with each attempt; the requests of a multipart write share one.
    """

    purpose: Purpose
    path: str
    parse: Callable[[Response], Any]
    method: str = "POST"
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Iterable[Buffers] | None = None
    length: int | None = None
    nbytes: int | None = None
    on_sent: Callable[[int], None] | None = None
    replayable: bool = True
    query: Mapping[str, Any] | None = None
    max_timeout: float = math.inf
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def has_open_body(self) -> bool:
        """Whether the documentation leaves the body of a success open."""
        purpose = self.purpose
        return purpose.operation.is_documented_at(self.path, purpose.table)


class Result(NamedTuple):
    """The result of a successful request.

    Parameters
    ----------
    value : object
        The value that `Request.parse` returned.
    request_id : str
        The id of the request.
    sent : int
        Bytes of the body.
    created : bool
        False if the table existed, which ``exist_ok`` allows.
    """

    value: Any
    request_id: str
    sent: int
    created: bool = True


def find_unknown(
    outcome: Result | Failure | None, earlier: Failure | None = None
) -> Failure | None:
    """Return the failure after which the service may have acted, or None.

    It is the outcome, or that of an earlier attempt.
    """
    if not isinstance(outcome, Failure):
        return None
    return outcome if outcome.acted == "maybe" else earlier


def json_body(content: Any) -> bytes:
    """Return the body of a JSON request."""
    return json.dumps(content, allow_nan=False).encode()


def describe_body(version: int | None) -> dict[str, Any]:
    """Return the body that asks for a table's schema and version."""
    # otherwise some servers omit the schema
    content: dict[str, Any] = {"load_detailed_metadata": True}
    if version is not None:
        content["version"] = version
    return content


def count_body(version: int | None, condition: str | None) -> dict[str, Any]:
    """Return the body that asks for a number of rows."""
    content: dict[str, Any] = {"version": version}
    if condition is not None:
        content["predicate"] = condition
    return content


def query(columns: Any = None, limit: Any = None) -> dict[str, Any]:
    """Return the body of a query for all rows, in the form of the official client."""
    body: dict[str, Any] = {
        "k": ALL_ROWS,
        "prefilter": True,
        "vector": [],
        "version": None,
    }
    if limit is not None:
        body["k"] = _parse_limit(limit)
    if columns is not None:
        body["columns"] = parse_names("columns", columns)
    return body


def _parse_limit(limit: Any) -> int:
    is_number = hasattr(limit, "__index__") and not isinstance(limit, bool)
    if not is_number or not 0 <= limit <= ALL_ROWS:
        raise ValueError(f"limit: expected a number of rows, got {show_value(limit)}")
    return operator.index(limit)


def add_columns_body(columns: pa.Schema) -> bytes:
    """Return the Arrow stream, without a batch, that adds columns of nulls."""
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, columns).close()
    return bytes(sink.getvalue())


def with_where(schema: pa.Schema, where: str) -> pa.Schema:
    """Return the schema of a stream that replaces the rows that match a condition."""
    return schema.with_metadata({WHERE_KEY: where})


def upsert_query(keys: Sequence[str]) -> str:
    """Return the query string of an upsert."""
    on = "&".join(f"on={quote(key, safe='')}" for key in keys)
    return f"?{on}&{_UPSERT_RULES}"


def upload_query(upload_id: str) -> str:
    """Return the query string of the requests of one multipart write."""
    return f"?upload_id={quote(upload_id, safe='')}"
