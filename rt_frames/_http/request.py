"""Values of a request: the request, its purpose, its result or failure."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from rt_frames import errors
from rt_frames._http.response import Response
from rt_frames._http.upload import Buffers, Upload

JSON = "application/json"
# operations that change nothing and may always be repeated
READ_OPERATIONS = ("list", "describe", "count_rows", "query", "indices")
# RFC 4918: no room to store it, so nothing was done
STORED_NOTHING = 507
_ACTIONS = {
    "list": "list tables",
    "query": "read {}",
    "count_rows": "count the rows of {}",
    "append": "append to {}",
    "upsert": "upsert into {}",
    "add_columns": "add columns to {}",
    "drop_columns": "drop columns of {}",
    "delete": "delete rows of {}",
}

Hints = Mapping[type[errors.RemoteError], str]
NO_HINTS: Hints = {}


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


class Failure(NamedTuple):
    """The reason why a request failed.

    It becomes an exception when no retry is left.
    """

    kind: type[errors.RemoteError]
    text: str
    facts: dict[str, Any]
    hint: str = ""

    @property
    def outcome_unknown(self) -> bool:
        """Whether the request may have been carried out."""
        if self.facts.get("status") == STORED_NOTHING:
            return False
        return self.kind in (
            errors.UploadInterrupted,
            errors.OutcomeUnknown,
            errors.ServerError,
        )

    def with_advice(self, advice: str) -> Failure:
        """Append advice, if any."""
        return self._replace(text=f"{self.text}; {advice}") if advice else self


Outcome = Result | Failure


@dataclass
class LastAttempt:
    """The request of a call that was sent last, if it may change something.

    Attributes
    ----------
    request : Request or None
        The request.
    upload : Upload or None
        Its body, which shows how much was sent.
    outcome : Result, Failure or None
        The outcome; None until a response was read.
    """

    request: Request | None = None
    upload: Upload | None = None
    outcome: Outcome | None = None

    def begin(self, request: Request, upload: Upload) -> None:
        """Record an attempt. What parts change is invisible until the commit."""
        is_visible = not request.purpose.is_read and request.multipart_step != "part"
        self.request = request if is_visible else None
        self.upload = upload
        self.outcome = None

    def clear(self) -> None:
        """Forget the attempt, which holds the caller's data."""
        self.request = None
        self.upload = None
        self.outcome = None


class Purpose(NamedTuple):
    """The purpose of a request: facts for errors that only the caller knows.

    Parameters
    ----------
    operation, table : str
        Named in errors.
    rows : int, optional
        Number of rows, reported in errors.
    exhausts_source : bool
        Whether the caller's iterator or reader is exhausted after one attempt.
    exist_ok : bool
        ``if_exists="skip"``: an existing table counts as success.
    listed_before : bool, optional
        Whether the table was listed before; None if nobody listed the tables.
    explain_outcome : callable, optional
        Called with the failure; returns a sentence on whether the write took effect.
    hints : dict of error to hint
        Cures for some errors.
    last_attempt : LastAttempt, optional
        Records each attempt, for the note of an interrupt.
    """

    operation: errors.Operation
    table: str | None = None
    rows: int | None = None
    exhausts_source: bool = False
    exist_ok: bool = False
    listed_before: bool | None = None
    explain_outcome: Callable[[Failure], str] | None = None
    hints: Hints = NO_HINTS
    last_attempt: LastAttempt | None = None

    @property
    def is_read(self) -> bool:
        """Whether the operation changes nothing."""
        return self.operation in READ_OPERATIONS

    @property
    def writes_rows(self) -> bool:
        """Whether the body is rows to store."""
        return self.operation in ("create", "replace", "append", "upsert")

    @property
    def action(self) -> str:
        """The operation in the words of errors, such as "create table 'a'"."""
        words = _ACTIONS.get(self.operation, f"{self.operation} {{}}")
        return words.format(f"table {self.table!r}")

    def error(self, failure: Failure) -> errors.RemoteError:
        """Make the exception of a failure."""
        text = failure.text
        # a second call would store only the remaining rows
        if self.exhausts_source:
            text += "; this reader or iterator is exhausted: create a new one before you send it again"
        hint = self.hints.get(failure.kind, failure.hint)
        if hint:
            text += f"; {hint}"
        return failure.kind(text, table=self.table, rows=self.rows, **failure.facts)


@dataclass(frozen=True)
class Request:
    """One HTTP request, and the parser of its response.

    Parameters
    ----------
    purpose : Purpose
        The operation, and facts for its errors.
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
    is_compressed : callable, optional
        Returns whether what was iterated holds compressed Arrow buffers.
    query : dict, optional
        A query, whose response is read as `Rows`.
    multipart_step : str
        Of a multipart write: the "empty" table that it starts with, a "part", which is
        invisible until the commit, or "complete", the commit.
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
    is_compressed: Callable[[], bool] | None = None
    query: Mapping[str, Any] | None = None
    multipart_step: Literal["", "empty", "part", "complete"] = ""
    max_timeout: float = math.inf
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
