"""A rewrite: a table is read, its rows are cast exactly, and they replace it in one commit."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rt_frames import errors
from rt_frames._frames.any_frame import open_source
from rt_frames._frames.compression import CompressionPolicy
from rt_frames._frames.ipc import MIME, IPCStream
from rt_frames._frames.rewrite import altered_schema, with_schema
from rt_frames._http.parts import Parts, Sent, send_parts
from rt_frames._http.response import Failure, parse_version
from rt_frames._http.session import Request
from rt_frames._schema.casts import INSTEAD
from rt_frames._service import Description, Service
from rt_frames._text import Message, count
from rt_frames._writes import Written, explain_failed_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rt_frames._schema.alterations import AlterationPlan

log = logging.getLogger("rt_frames")


def rewrite(service: Service, name: str, schema: pa.Schema | None, plan: AlterationPlan) -> Written:
    """Give a table of this schema the columns of a plan, if nobody else writes meanwhile."""
    service.dialect.path("multipart_create", name)
    if schema is None or not service.can_rewrite:
        raise ValueError(f"rewrite: the service of table {name!r} does not tell that it takes writes in parts")
    table = _UnchangedCheck(service, name, schema)
    renamed, casts = altered_schema(schema, plan)
    rows = pa.RecordBatchReader.from_batches(renamed, table.read(renamed))
    source = open_source(rows, dtypes=casts, exact=True)
    source = dataclasses.replace(source, schema=source.schema.with_metadata(schema.metadata))
    stream = IPCStream(source, CompressionPolicy("auto", service.link, is_loopback=service.is_loopback))
    bodies = functools.partial(stream.parts, service.dialect.part_bytes)

    def send(*request: Any) -> Sent:
        sent, trouble = send_parts(bodies, *request)
        if trouble is None:
            table.check(*service.describe(name))  # not every service checks this itself
        return sent, trouble

    request = Request("alter", "POST", "", MIME, parse_version, table=name, replayable=False)
    parts = Parts(request, service.dialect, send)

    def look(failure: Failure) -> str:
        return explain_failed_parts(service, name, parts, table.before, lambda: "nothing was changed", failure)

    indices = service.list_indices(name)
    try:
        result = service.session.send(request._replace(attempt=parts.attempt, look=look))
    finally:
        source.close()
    if indices:
        log.warning("table %s has no indices any more; these went with the rewrite: %s", name, ", ".join(indices))
    log.info("rewrote table %s, %s, %s", name, count(stream.rows, "row"), result.request_id)
    return Written(None, stream.rows, result.sent, result.value, created=False, request_id=result.request_id)


class _UnchangedCheck:
    """A table that nobody may write to from when it is read on."""

    def __init__(self, service: Service, name: str, schema: pa.Schema) -> None:
        self._service, self._name, self.before = service, name, Description(schema, None)

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield all rows under the names of a schema; nothing is asked before the first is wanted."""
        known, version = self._service.describe(self._name)
        self.before = self.before._replace(version=version)
        self.check(known, version)
        rows = self._service.read_version(self._name, version)
        self.check(rows.schema, version)
        yield from with_schema(rows, schema)

    def check(self, schema: pa.Schema | None, version: int | None) -> None:
        """Raise where it is not any more as it was."""
        if version is None:
            raise ValueError(
                f"rewrite: the service does not tell the version of table {self._name!r}, which a rewrite needs"
            )
        if (schema, version) != self.before:
            text = f"could not rewrite table {self._name!r}: somebody else wrote to it meanwhile; nothing was changed"
            raise errors.ConflictError(text, table=self._name)


def offer_rewrite(service: Service, name: str) -> Message:
    """Say what can be done where the engine refuses a cast."""
    if not service.dialect.multipart_create:
        return Message(f"the service can neither read rows back nor replace a table, so {INSTEAD}")
    if not service.can_rewrite:
        return Message(f"the service takes no writes in parts, which a rewrite needs, so {INSTEAD}")
    rows = "rows"
    with contextlib.suppress(errors.RemoteError):  # must not mask the refusal
        rows = count(service.count(name), "row")
    return Message(f"all {rows} can be read, cast exactly and replaced", "pass {}", rewrite=True)
