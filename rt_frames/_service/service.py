"""A service: its address, key and session, and single requests about a table."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hmac
import math
import os
import time
import uuid
from typing import TYPE_CHECKING, Any, TypeVar

from rt_frames import errors
from rt_frames._frames.compression import LinkMemory
from rt_frames._http.arguments import (
    ConnectionOptions,
    Key,
    Secret,
    is_loopback,
    parse_base_url,
)
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
    find_call,
    json_body,
)
from rt_frames._protocol.operations import LANCEDB, LIST, Dialect, Operation
from rt_frames._protocol.responses import (
    PARTS_SINCE,
    Description,
    parse_count,
    parse_description,
    parse_table_names,
)
from rt_frames._service.interrupts import noting_interrupts
from rt_frames._service.outcome import (
    explain_by_list,
    explain_unusable,
    explained,
    make_error,
    reclassify_exists,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rt_frames._protocol.calls import Explanation
    from rt_frames._protocol.responses import Response

T = TypeVar("T")

# a version may be gone as well as a table
OF_A_VERSION: Cures = {
    errors.TableNotFoundError: "check the table's name and the version"
}
# seconds that an interrupted write waits for its result
RESULT_SECONDS = 2.0


class Service:
    """A service, with the parameters of `rt_frames.Client`; pickled without its key."""

    repr_suffix = ""

    def __init__(
        self,
        url: str,
        key: Key,
        options: ConnectionOptions,
        dialect: Dialect,
        *,
        allow_insecure: bool = False,
    ) -> None:
        self.dialect = dialect
        self._options = options
        base = parse_base_url(url, allow_insecure=allow_insecure)
        key.check()
        self._key = key
        self.is_loopback = is_loopback(base)
        self.link: LinkMemory | None = LinkMemory()
        self._session = Session(base, key, options)
        # (salt, fingerprint) of the key, which replace it in pickles
        self._proof: tuple[bytes, bytes] | None = None
        # set if this service was unpickled without its key
        self._unpickle_error = ""
        # a closed default client is forgotten
        self.closed = False

    @property
    def url(self) -> str:
        return self._session.base

    def __str__(self) -> str:
        return self.url

    def __reduce__(self) -> tuple[Any, ...]:
        if self._proof is None:
            salt = os.urandom(16)
            self._proof = (salt, self._key.fingerprint(salt))
        return _unpickle, (self.url, self._options, self.dialect, *self._proof)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self.closed = True
        self._session.close()

    @property
    def session(self) -> Session:
        """The session.

        Raises NotConnectedError if this service was unpickled without its key.
        """
        if self._proof is not None and not self._unpickle_error:
            salt, fingerprint = self._proof
            # scrypt: takes milliseconds the first time
            if not hmac.compare_digest(self._key.fingerprint(salt), fingerprint):
                self._unpickle_error = explain_unusable(
                    self.url,
                    "RT_FRAMES_API_KEY in this process is not the key that it was made "
                    "with; set the right key here",
                )
        if self._unpickle_error:
            raise errors.NotConnectedError(self._unpickle_error)
        return self._session

    @property
    def is_picklable(self) -> bool:
        """Whether the service can be pickled.

        False if it has extra headers that may be secrets.
        """
        return not any(
            isinstance(value, Secret) for value in self._options.headers.values()
        )

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
    def can(self) -> frozenset[str]:
        """What responses have shown that the server can do."""
        return self._session.can

    def begin_version(
        self, name: str | None, before: Description | None = None
    ) -> int | None:
        """Return a table's version before a write; 0 if there is no table.

        None if the server is not known to store a write once: one of LanceDB's dialect
        is asked for its list if it has not answered yet. The table is described unless
        it is known as it was ``before``.
        """
        self.check_name(name)
        if not self._session.has_answered and self.dialect.has(operations.DESCRIBE):
            # a server need not list
            with contextlib.suppress(errors.ResponseError):
                self.list_tables(before=Purpose(LIST, name))
        if "once" not in self.can:
            return None
        if before is None:
            before = Description(None, 0)
            with contextlib.suppress(errors.TableNotFoundError):
                before = self.describe(str(name))
        return before.version

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
        with noting_interrupts(request.purpose, self.find_result) as noted:
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
        elif failure.acted == "maybe" and request.kind == "rows":
            failure = explain_by_list(self, purpose, failure)
        elif failure.lacks == "yes":
            failure = self._name_dialect(failure)
        raise make_error(failure, purpose)

    def list_tables(
        self, before: Purpose | None = None, retries: int | None = None
    ) -> list[str]:
        """List all tables, following pages.

        ``before`` is the write that this check precedes; errors name its table.
        """
        purpose = Purpose(LIST)
        if before is not None:
            purpose = before._replace(operation=LIST, exist_ok=False, cures=NO_CURES)
        headers = fresh_headers() if self.dialect.has(operations.DESCRIBE) else {}
        path = self.dialect.path(LIST)
        request = Request(purpose, path, parse_table_names, "GET", headers=headers)
        return self.list_pages(request, retries)

    def list_pages(self, first: Request, retries: int | None = None) -> list[Any]:
        """Return all items of a list, following pages."""
        deadline = time.monotonic() + self._options.timeouts.read
        separator = "&" if "?" in first.path else "?"
        request = first
        items: list[Any] = []
        tokens: set[str] = set()
        while True:
            result = self.send(request, retries=retries)
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
                text = f"could not {first.action}: {problem}"
                facts = {"status": 200, "request_id": result.request_id, "attempts": 1}
                failure = Failure(errors.ResponseError, text, facts=facts)
                raise make_error(failure, first.purpose)
            path = f"{first.path}{separator}page_token={token}"
            request = dataclasses.replace(first, path=path, id=str(uuid.uuid4()))

    def is_listed(self, name: str | None) -> bool | None:
        """Return whether a table is listed, or None if the list cannot be read."""
        # must not mask the first failure
        with contextlib.suppress(Exception):
            return name in self.list_tables(retries=0)
        return None

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

    def find_result(self, request: Request) -> Result | None:
        """Return the result of a write that was interrupted, or None if unknown.

        A server that stores a write once is asked, until the write can have ended.
        """
        deadline = time.monotonic() + RESULT_SECONDS
        asked = find_call(request, max_timeout=RESULT_SECONDS)
        while request.since is not None and time.monotonic() < deadline:
            outcome = self.session.send(asked, retries=0)
            if isinstance(outcome, Result):
                return outcome
            time.sleep(0.02)
        return None

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


def fresh_headers(version: int | None = None) -> dict[str, str]:
    """Return headers with which LanceDB's servers bypass their cache.

    They then read the newest version, and at least ``version``.
    """
    now = datetime.datetime.now(datetime.UTC)
    headers = {"x-lancedb-min-timestamp": now.isoformat(timespec="microseconds")}
    if version is not None:
        headers["x-lancedb-min-version"] = str(version)
    return headers


def _unpickle(
    url: str,
    options: ConnectionOptions,
    dialect: Dialect,
    salt: bytes,
    fingerprint: bytes,
) -> Service:
    """Make a service in another process, whose environment must hold the same key.

    A missing or wrong key is reported on first use: an exception while unpickling
    breaks a process pool, and a scheduler that only passes the service on needs no key.
    """
    key = Key(os.environ.get("RT_FRAMES_API_KEY"))
    problem = ""
    if not key:
        key = Key("none")
        problem = explain_unusable(
            url,
            "keys are not pickled, and RT_FRAMES_API_KEY is not set in this process; "
            "set it here",
        )
    try:
        service = Service(url, key, options, dialect, allow_insecure=True)
    except ValueError as error:
        # a missing CA bundle, or an invalid key
        problem = problem or explain_unusable(
            url, f"in this process, {error}; correct this here"
        )
        unverified = dataclasses.replace(options, verify=False)
        service = Service(url, Key("none"), unverified, dialect, allow_insecure=True)
    service._proof = (salt, fingerprint)  # noqa: SLF001  # same module
    service._unpickle_error = problem  # noqa: SLF001  # same module
    return service
