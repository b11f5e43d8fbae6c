"""One service: its address, key and session, and the requests about one table."""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from rt_frames import errors
from rt_frames._frames.compression import LinkMemory
from rt_frames._http.dialects import Dialect, parse_dialect
from rt_frames._http.options import (
    Key,
    Secret,
    hide_values,
    is_loopback,
    parse_base_url,
    parse_headers,
    parse_retries,
    parse_timeouts,
)
from rt_frames._http.response import (
    parse_count,
    parse_indices,
    parse_no_rows,
    parse_schema,
    parse_version,
)
from rt_frames._http.rows import Rows, query
from rt_frames._http.session import JSON, Request, Result, Session, fresh_headers
from rt_frames._http.where import bind_optional
from rt_frames._names import DialectName, check_table_name, duplicates
from rt_frames._schema.data_type import to_schema
from rt_frames._text import list_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rt_frames._http.response import Response
    from rt_frames.errors import Operation

log = logging.getLogger("rt_frames")


class Description(NamedTuple):
    """A table's columns and version; None where the service does not tell them."""

    schema: pa.Schema | None
    version: int | None


class Service:
    """A service, as `rt_frames.Client` describes it; it can be pickled, without its key."""

    # shown after the address by its clients
    about = ""

    def __init__(
        self,
        url: str,
        *,
        api_key: str,
        timeout: float | tuple[float, float, float] | None = None,
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        verify: bool | str | os.PathLike[str] = True,
        allow_insecure: bool = False,
        dialect: DialectName | Dialect = "documented",
    ) -> None:
        api_key = self._key = Key(api_key)
        headers = hide_values(headers)
        self.dialect = parse_dialect(dialect)
        self._options: dict[str, Any] = {
            "timeout": parse_timeouts(timeout),
            "retries": parse_retries(retries),
            "headers": parse_headers(headers),
            "verify": verify if isinstance(verify, bool) else os.fsdecode(verify),
        }
        base = parse_base_url(url, allow_insecure=allow_insecure)
        self._key.check()
        self.is_loopback = is_loopback(base)
        self.link: LinkMemory | None = LinkMemory()
        self._session = Session(base, self.dialect, self._key, **self._options)
        # salt and fingerprint of the key, for pickles
        self._proof: tuple[bytes, bytes] | None = None
        # why it cannot be used, if it was unpickled without its key
        self._unusable = ""
        # whether `close` was called, after which a default client is forgotten
        self.closed = False

    @property
    def url(self) -> str:
        """The address."""
        return self._session.base

    def __str__(self) -> str:
        return self.url

    def __reduce__(self) -> tuple[Any, ...]:
        if self._proof is None:
            salt = os.urandom(16)
            self._proof = salt, self._key.fingerprint(salt)
        options = {**self._options, "dialect": self.dialect, "allow_insecure": True}
        return _unpickle, (self.url, options, *self._proof)

    def close(self) -> None:
        """Close the connections; a call after that opens new ones."""
        self.closed = True
        self._session.close()

    @property
    def session(self) -> Session:
        """The session; what keeps it from being used is said now that it is needed."""
        if self._proof is not None and not self._unusable and not self._is_checked():
            self._unusable = _explain(
                self.url, "RT_FRAMES_API_KEY is not the key that it was made with"
            )
        if self._unusable:
            raise errors.NotConnectedError(self._unusable)
        return self._session

    def _is_checked(self) -> bool:
        """Return whether its key is the one that it was pickled with, which takes milliseconds the first time."""
        salt, fingerprint = self._proof or (b"", b"")
        return hmac.compare_digest(self._key.fingerprint(salt), fingerprint)

    @property
    def is_picklable(self) -> bool:
        """Whether it can be pickled: further headers may be secrets, and no environment holds them."""
        return not any(
            isinstance(value, Secret) for value in self._options["headers"].values()
        )

    @property
    def takes_parts(self) -> bool:
        """Whether what is large goes to it in parts, as far as it has told; a folder takes all in one request."""
        return self._session.takes_parts and self.dialect.part_bytes is not None

    @property
    def is_embedded(self) -> bool:
        """Whether it has told that it is an embedded service, which checks itself that nobody else writes meanwhile."""
        return self._session.is_embedded

    @property
    def can_rewrite(self) -> bool:
        """Whether it has told that a table can be replaced by what was read of it."""
        return self._session.takes_parts

    def check_name(self, name: Any) -> None:
        """Refuse what no table can be called."""
        check_table_name(name)
        self.dialect.check_name(name)

    def send_json(
        self,
        operation: Operation,
        name: str,
        content: Any,
        parse: Callable[[Response], Any],
        **about: Any,
    ) -> Result:
        """Ask something about a table."""
        self.check_name(name)
        path = self.dialect.path(operation, name)
        body = json.dumps(content, allow_nan=False).encode()
        request = Request(
            operation,
            "POST",
            path,
            JSON,
            parse,
            table=name,
            body=[[body]],
            length=len(body),
            **about,
        )
        return self.session.send(request)

    def describe(
        self, name: str, *, since: int | None = None, **about: Any
    ) -> Description:
        """Ask for a table's schema and version, as they are now; ``since`` is a version that is known."""
        if self.dialect.describe is None:
            return Description(None, None)
        # without it, some servers leave the schema out
        asked = {"load_detailed_metadata": True}

        def parse(answer: Response) -> Description:
            return Description(_to_schema(answer), parse_version(answer))

        found: Description = self._read(
            "describe", name, asked, parse, since=since, **about
        )
        return found

    def read(
        self, name: str, asked: Mapping[str, Any], *, since: int | None = None
    ) -> Rows:
        """Ask for rows, which are read as they come."""
        rows: Rows = self._read(
            "query", name, asked, parse_no_rows, since=since, streams=asked
        )
        return rows

    def read_version(self, name: str, version: int | None) -> Rows:
        """Ask for all rows of a version."""
        return self.read(name, {**query(), "version": version})

    def count(
        self,
        name: str,
        where: str | None = None,
        version: int | None = None,
        *,
        params: Sequence[object] | None = None,
        since: int | None = None,
        **about: Any,
    ) -> int:
        """Count rows."""
        asked: dict[str, Any] = {"version": version}
        condition = bind_optional(where, params)
        if condition is not None:
            asked["predicate"] = condition
        found: int = self._read(
            "count_rows", name, asked, parse_count, since=since, **about
        )
        return found

    def list_indices(self, name: str) -> list[str]:
        """List the names of a table's indices; none where such a service cannot."""
        with contextlib.suppress(errors.ResponseError):
            found: list[str] = self._read(
                "indices", name, {"version": None}, parse_indices
            )
            return found
        return []

    def _read(
        self,
        operation: Operation,
        name: str,
        asked: Mapping[str, Any],
        parse: Callable[[Response], Any],
        *,
        since: int | None = None,
        **about: Any,
    ) -> Any:
        """Ask for something that changes nothing; what is not of a given version is read fresh."""
        headers = {} if asked.get("version") is not None else fresh_headers(since)
        return self.send_json(
            operation, name, asked, parse, headers=headers, **about
        ).value

    def drop(self, name: str, *, etag: str | None = None, **about: Any) -> None:
        """Drop a table, if it is what had an etag; services that give none do not look."""
        self.check_name(name)
        path = self.dialect.path("drop", name)
        start = time.monotonic()
        headers = {"If-Match": etag} if etag else {}
        request = Request(
            "drop",
            "POST",
            path,
            JSON,
            parse_version,
            table=name,
            body=[[b""]],
            length=0,
            headers=headers,
            **about,
        )
        result = self.session.send(request)
        log.info(
            "dropped table %s, %.0f ms, %s",
            name,
            (time.monotonic() - start) * 1000,
            result.request_id,
        )


def _to_schema(response: Response) -> pa.Schema | None:
    """Read the schema in a table's description; None where the service does not tell it."""
    if (found := parse_schema(response)) is None:
        return None
    try:
        schema = to_schema(found)
    except (ValueError, errors.UnsupportedTypeError) as error:
        raise ValueError(
            f"the description of its columns is not understood: {error}"
        ) from None
    if twice := duplicates(schema.names):
        raise ValueError(
            f"the description of its columns names {list_names(twice)} twice"
        )
    return schema


def _unpickle(
    url: str, options: dict[str, Any], salt: bytes, fingerprint: bytes
) -> Service:
    """Make a service again in another process, whose environment must hold the same key: keys are not pickled.

    What is missing there is told when it is used: pools do not survive an error before that, and who only hands it on,
    as a cluster's scheduler does, needs no key.
    """
    key = Key(os.environ.get("RT_FRAMES_API_KEY"))
    problem = ""
    if not key:
        problem = _explain(url, "RT_FRAMES_API_KEY is not set; keys are not pickled")
    try:
        service = Service(url, api_key=key or "none", **options)
    except ValueError as error:
        # a missing CA bundle, or an invalid key
        problem = problem or _explain(url, str(error))
        service = Service(url, api_key="none", **{**options, "verify": False})
    service._proof, service._unusable = (salt, fingerprint), problem  # noqa: SLF001  # same package
    return service


def _explain(url: str, problem: str) -> str:
    return f"a client of {url} was unpickled where {problem}; set it right in that process, such as a Dask worker"
