"""A service: its session, and single requests about a table."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import time
import uuid
from typing import TYPE_CHECKING, Any, TypeVar

from rt_frames import errors
from rt_frames._http.arguments import NO_SECRETS, ConnectionOptions, Secrets
from rt_frames._http.session import Session
from rt_frames._names import check_table_name
from rt_frames._protocol import operations
from rt_frames._protocol.calls import (
    NO_CURES,
    Cures,
    Failure,
    Purpose,
    Request,
    Result,
    count_body,
    describe_body,
    json_body,
)
from rt_frames._protocol.operations import LANCEDB, LIST, Dialect, Operation
from rt_frames._protocol.responses import (
    PARTS_SINCE,
    Description,
    parse_count,
    parse_description,
    parse_open_names,
    parse_table_names,
    parse_told_names,
)
from rt_frames._service.interrupts import noting_interrupts
from rt_frames._service.outcome import (
    explain_by_list,
    explained,
    make_error,
    reclassify_exists,
)
from rt_frames._stream.compression import LinkMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rt_frames._http.transport import Transport
    from rt_frames._protocol.calls import Explanation
    from rt_frames._protocol.responses import Response

T = TypeVar("T")

# a version may be gone as well as a table
OF_A_VERSION: Cures = {
    errors.TableNotFoundError: "check the table's name and the version"
}


class Service:
    """What a client calls, through a transport.

    Parameters
    ----------
    transport : Transport
        What answers.
    options : ConnectionOptions
        As `rt_frames.connect` has parsed them.
    dialect : Dialect
        How it is addressed.
    secrets : Secrets
        What no error may show.
    """

    repr_suffix = ""
    # False if the service has extra headers that may be secrets
    is_picklable = True
    # whether the service is on this machine
    is_loopback = True
    # what uploads have learned about the link; None without one
    link: LinkMemory | None = None

    def __init__(
        self,
        transport: Transport,
        options: ConnectionOptions,
        dialect: Dialect,
        secrets: Secrets = NO_SECRETS,
    ) -> None:
        self.dialect = dialect
        self._options = options
        self._session = Session(transport, options, secrets)
        # a closed default client is forgotten
        self.closed = False

    @property
    def url(self) -> str:
        """The address, or the folder."""
        return self._session.transport.base

    def __str__(self) -> str:
        return self.url

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self.closed = True
        self._session.close()

    @property
    def session(self) -> Session:
        """The session. Raise NotConnectedError if it cannot be used in this process."""
        return self._session

    @property
    def splits_writes(self) -> bool:
        """Whether a write that is larger than a part is sent in parts.

        False for a folder, and until a response has shown the server's version.
        """
        return self.has_parts and self.dialect.part_bytes is not None

    @property
    def has_parts(self) -> bool:
        """Whether a response has shown that the server has multipart writes."""
        is_new = self._session.server_version >= PARTS_SINCE
        return is_new and self.dialect.has(operations.BEGIN_PARTS)

    @property
    def replaces_in_one(self) -> bool:
        """Whether any table can be replaced by one request, if it is unchanged."""
        return self.dialect.part_bytes is None

    def check_name(self, name: Any) -> None:
        """Raise if the name is not a valid table name."""
        check_table_name(name)
        self.dialect.check_name(name)

    def send(
        self,
        request: Request,
        explain: Callable[[Failure], Explanation] | None = None,
        retries: int | None = None,
    ) -> Result:
        """Send a request. Raise its error if it fails.

        ``explain`` looks at the table if the outcome is unknown. An interrupt gets a
        note of what became of the request.
        """
        with noting_interrupts(request.purpose) as noted:
            request = dataclasses.replace(request, purpose=noted)
            outcome = self.session.send(request, retries)
            if isinstance(outcome, Result):
                return outcome
            return self._explain(request, outcome, explain)

    def _explain(
        self,
        request: Request,
        failure: Failure,
        explain: Callable[[Failure], Explanation] | None,
    ) -> Result:
        """Raise the error of a request, or return the result that it is."""
        purpose = request.purpose
        if purpose.exist_ok and failure.error is errors.TableExistsError:
            listed = self.is_listed(purpose.table)
            if listed:
                return Result(None, request.id, 0, created=False)
            failure = reclassify_exists(failure, purpose.table, listed)
        elif failure.acted == "maybe" and explain is not None:
            failure = explained(failure, explain)
        elif failure.acted == "maybe" and purpose.kind == "rows":
            failure = explain_by_list(self, purpose, failure)
        elif failure.lacks == "yes":
            failure = self._name_dialect(failure)
        raise make_error(failure, purpose)

    def list_tables(self) -> list[str]:
        """List all tables, following pages."""
        return self._list() or []

    def _list(
        self, before: Purpose | None = None, retries: int | None = None
    ) -> list[str] | None:
        """List all tables, or return None if the service responds with nothing.

        ``before`` is the write that this check precedes; errors name its table.
        """
        purpose = Purpose(LIST)
        if before is not None:
            purpose = before._replace(operation=LIST, exist_ok=False, cures=NO_CURES)
        headers = fresh_headers() if self.dialect.has(operations.DESCRIBE) else {}
        path = self.dialect.path(LIST)
        parse: Callable[[Response], Any] = parse_table_names
        if LIST.is_documented_at(path, None):
            parse = parse_open_names
            if before is not None and not before.exist_ok:
                # a list in another form tells nothing, and the create is refused
                parse = parse_told_names
        request = Request(purpose, path, parse, "GET", headers=headers)
        return self.list_pages(request, retries)

    def list_pages(
        self, first: Request, retries: int | None = None
    ) -> list[Any] | None:
        """Return all items of a list, following pages; None if a page is empty."""
        deadline = time.monotonic() + self._options.timeouts.read
        separator = "&" if "?" in first.path else "?"
        request = first
        items: list[Any] = []
        tokens: set[str] = set()
        while True:
            result = self.send(request, retries=retries)
            if result.value is None:
                return None
            page, token = result.value
            items += page
            if token is None:
                return items
            problem = ""
            if token in tokens:
                problem = "the service returned the same page_token twice; report this to its operator"
            tokens.add(token)
            if time.monotonic() > deadline:
                seconds = self._options.timeouts.read
                problem = f"{len(tokens):,} pages took the whole read timeout, {seconds:g} s; increase the timeout"
            if problem:
                text = f"could not {first.purpose.action}: {problem}"
                facts = {"status": 200, "request_id": result.request_id, "attempts": 1}
                failure = Failure(errors.ResponseError, text, facts=facts)
                raise make_error(failure, first.purpose)
            path = f"{first.path}{separator}page_token={token}"
            request = dataclasses.replace(first, path=path, id=str(uuid.uuid4()))

    def is_listed(self, name: str | None) -> bool | None:
        """Return whether a table is listed, or None if the list cannot be read."""
        # must not mask the first failure
        with contextlib.suppress(Exception):
            return _is_in(name, self._list(retries=0))
        return None

    def is_listed_before(self, write: Purpose) -> bool | None:
        """Return whether the table of a write is listed; None if that is not told.

        Raise if the service refuses the list.
        """
        return _is_in(write.table, self._list(before=write))

    def _name_dialect(self, failure: Failure) -> Failure:
        """Offer LanceDB's dialect if the server lists its tables in it.

        It is not looked for if the caller named one.
        """
        if not self.dialect.is_assumed:
            return failure
        request = Request(Purpose(LIST), LANCEDB.path(LIST), parse_table_names, "GET")
        with contextlib.suppress(Exception):
            if isinstance(self.session.send(request, retries=0), Result):
                cure = (
                    "this server offers another API; connect with "
                    'dialect="lancedb", or check the URL'
                )
                return dataclasses.replace(failure, cure=cure)
        return failure

    def request(
        self,
        purpose: Purpose,
        parse: Callable[[Response], Any],
        body: bytes = b"",
        **options: Any,
    ) -> Request:
        """Return a request about a table, after its name was checked."""
        self.check_name(purpose.table)
        path = self.dialect.path(purpose.operation, str(purpose.table))
        return Request(purpose, path, parse, body=[[body]], length=len(body), **options)

    def describe(
        self,
        name: str,
        *,
        version: int | None = None,
        since: int | None = None,
        max_timeout: float = math.inf,
    ) -> Description:
        """Return a table's schema and version, now or at ``version``.

        The response is at least of version ``since``.
        """
        if not self.dialect.has(operations.DESCRIBE):
            return Description(None, None)
        return self.ask(
            operations.DESCRIBE,
            name,
            describe_body(version),
            parse_description,
            since=since,
            max_timeout=max_timeout,
        )

    def count(
        self,
        name: str,
        version: int | None = None,
        condition: str | None = None,
        *,
        since: int | None = None,
        max_timeout: float = math.inf,
    ) -> int:
        """Count rows, or those that match a condition in SQL."""
        return self.ask(
            operations.COUNT,
            name,
            count_body(version, condition),
            parse_count,
            since=since,
            max_timeout=max_timeout,
        )

    def ask(
        self,
        operation: Operation,
        name: str,
        content: Mapping[str, Any],
        parse: Callable[[Response], T],
        *,
        since: int | None = None,
        **options: Any,
    ) -> T:
        """Make a request that changes nothing, and return its value.

        Caches are bypassed unless ``content`` names a version.
        """
        is_pinned = content.get("version") is not None
        request = self.request(
            Purpose(operation, name, cures=OF_A_VERSION if is_pinned else NO_CURES),
            parse,
            json_body(content),
            headers={} if is_pinned else fresh_headers(since),
            **options,
        )
        value: T = self.send(request).value
        return value


def _is_in(name: str | None, listed: list[str] | None) -> bool | None:
    # without a table, or truncated: it would mean that it is safe to send again
    return None if listed is None else name in listed


def fresh_headers(version: int | None = None) -> dict[str, str]:
    """Return headers with which LanceDB's servers bypass their cache.

    They then read the newest version, and at least ``version``.
    """
    now = datetime.datetime.now(datetime.UTC)
    headers = {"x-lancedb-min-timestamp": now.isoformat(timespec="microseconds")}
    if version is not None:
        headers["x-lancedb-min-version"] = str(version)
    return headers
