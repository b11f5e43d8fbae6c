"""A rewrite: read a table, cast its rows exactly, and replace it in one commit.

A folder is sent one request, with the ETag of what was read; other servers take parts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from rt_frames import errors
from rt_frames._frames.any_frame import open_source, parse_open_options
from rt_frames._protocol.calls import (
    ARROW_STREAM,
    Cures,
    Explanation,
    Failure,
    Purpose,
    Request,
    Result,
    query,
)
from rt_frames._protocol.operations import ALTER, QUERY, REPLACE
from rt_frames._protocol.responses import Description, parse_version
from rt_frames._schema.data_type import map_types, storage
from rt_frames._service.interrupts import noting_interrupts
from rt_frames._service.multipart import MultipartUpload, Sent, send_parts
from rt_frames._service.outcome import explain_commit
from rt_frames._service.reads import list_indices, read_rows
from rt_frames._service.service import Service
from rt_frames._service.write import WriteResult
from rt_frames._stream.compression import CompressionPolicy
from rt_frames._stream.ipc import IPCStream
from rt_frames._text import count, list_some
from rt_frames._values.rewrite import (
    altered_batches,
    altered_schema,
    explain_stuck,
    with_metadata_of,
)

if TYPE_CHECKING:
    from rt_frames._schema.alterations import AlterationPlan
    from rt_frames._stream.source import Source

log = logging.getLogger("rt_frames")

_INSTEAD = (
    "cast all its rows and store them under a new name, as replacing the table would "
    "drop rows that the frame lacks"
)
_CHECK_COLUMNS = "check the table's columns before you alter it again"
_CHANGED = "somebody else wrote to it meanwhile"
_CURES: Cures = {errors.ConflictError: f"{_CHANGED}; try again"}


def replace_columns(
    service: Service, name: str, schema: pa.Schema | None, plan: AlterationPlan
) -> WriteResult:
    """Apply a plan that was made for this schema, in one commit.

    It fails if somebody else writes meanwhile.
    """
    service.dialect.path(QUERY, name)
    if schema is None or not _can_rewrite(service):
        raise ValueError(
            f"rewrite: the service of table {name!r} does not report that it supports "
            "multipart writes; nothing was changed"
        )
    advice = explain_stuck(plan)
    if advice:
        raise errors.AlterationError(
            f"could not rewrite table {name!r}: {list_some([*map(str, plan)])}; nothing was "
            f"sent; {advice}"
        )
    rewriting = _Rewriting(service, name, schema, plan)
    indices = list_indices(service, name)
    result = rewriting.run()
    if indices:
        log.warning(
            "the rewrite dropped the indices of table %s: %s; create them again",
            name,
            ", ".join(indices),
        )
    log.info(
        "rewrote table %s, %s, %s",
        name,
        count(rewriting.rows, "row"),
        result.request_id,
    )
    return WriteResult(
        rows=rewriting.rows,
        nbytes=result.sent,
        version=result.value,
        created=False,
        request_id=result.request_id,
    )


def _can_rewrite(service: Service) -> bool:
    return service.replaces_in_one or service.has_parts


class _Rewriting:
    """Reads one version of a table, and sends it with the columns of a plan."""

    def __init__(
        self, service: Service, name: str, schema: pa.Schema, plan: AlterationPlan
    ) -> None:
        self._service = service
        self._name = name
        self._plan = plan
        self._before = Description(schema, None)
        self.rows = 0

    def run(self) -> Result:
        """Read and replace all rows. The result's value is the new version."""
        service = self._service
        purpose = Purpose(ALTER, self._name)
        with noting_interrupts(purpose) as noted:
            if service.replaces_in_one:
                return self._replace(noted)
            request = Request(noted, "", parse_version, content_type=ARROW_STREAM)
            upload = MultipartUpload(service, request, self._send_parts)
            return upload.run(
                self._explain_outcome, lambda: (self._before.version, self.rows)
            )

    def _explain_outcome(self, failure: Failure) -> Explanation:
        if failure.acted == "no":
            return Explanation("nothing was changed")
        return explain_commit(
            self._service, self._name, self._before, if_changed=_CHECK_COLUMNS
        )

    def _replace(self, purpose: Purpose) -> Result:
        """Replace the newest version in one request, unless it has changed since."""
        service = self._service
        self._describe()
        source = self._open()
        with contextlib.closing(source.rows):
            stream = self._stream(source)
            request = Request(
                purpose._replace(cures=_CURES),
                service.dialect.path(REPLACE, self._name),
                parse_version,
                content_type=ARROW_STREAM,
                headers={"If-Match": str(self._before.etag)},
                body=stream,
                length=stream.length,
                nbytes=source.rows.nbytes,
                replayable=False,
            )
            result = service.send(request, self._explain_outcome)
        self.rows = stream.rows
        return result

    def _send_parts(self, request: Request) -> Sent:
        """Send all rows of the newest version as parts.

        The upload was created before, so that the server can check for later changes.
        """
        service = self._service
        self._describe()
        source = self._open()
        with contextlib.closing(source.rows):
            stream = self._stream(source)
            sent, failure = send_parts(stream, service, request)
        self.rows = stream.rows
        if failure is None:
            self._check(service.describe(self._name), self._before)
        return sent, failure

    def _describe(self) -> None:
        """Look at the newest version, which has the columns of the plan."""
        newest = self._service.describe(self._name)
        if newest.version is None:
            raise ValueError(
                "rewrite: the service does not report the version of table "
                f"{self._name!r}, which a rewrite needs; nothing was changed"
            )
        self._check(newest.schema, self._before.schema)
        self._before = newest

    def _stream(self, source: Source) -> IPCStream:
        service = self._service
        policy = CompressionPolicy(
            "auto", service.link, is_loopback=service.is_loopback
        )
        return IPCStream(source, policy)

    def _open(self) -> Source:
        """Read the described version, renamed and cast by the plan.

        Columns keep their metadata.
        """
        content = {**query(), "version": self._before.version}
        rows = read_rows(self._service, self._name, content)
        try:
            self._check(_stored(rows.schema), _stored(self._before.schema))
            renamed, casts = altered_schema(rows.schema, self._plan)
            batches = altered_batches(rows, renamed, self._plan)
            reader = pa.RecordBatchReader.from_batches(renamed, batches)
            options = dataclasses.replace(parse_open_options(casts), exact=True)
            source = open_source(reader, options)
        except BaseException:
            rows.close()
            raise
        schema = with_metadata_of(source.plan.schema, renamed)
        return dataclasses.replace(source, plan=source.plan._replace(schema=schema))

    def _check(self, current: object, expected: object) -> None:
        if current != expected:
            raise errors.ConflictError(
                f"could not alter table {self._name!r}: {_CHANGED}; nothing was "
                "changed; try again",
                table=self._name,
            )


def _stored(schema: pa.Schema | None) -> list[pa.Field]:
    """Return fields without extension types, which some services do not describe."""
    return [field.with_type(map_types(field.type, storage)) for field in schema or ()]


def offer_rewrite(service: Service, name: str) -> str:
    """Return the cure for a cast that the engine refuses."""
    rows = "rows"
    # must not mask the refusal; the response also shows what the server supports
    with contextlib.suppress(errors.RemoteError):
        rows = count(service.count(name), "row")
    if not _can_rewrite(service):
        return (
            "the service does not support multipart writes, which a rewrite needs, so "
            f"{_INSTEAD}"
        )
    return (
        f"pass rewrite=True to alter_table or cast, which reads all {rows}, and casts "
        "them exactly or not at all"
    )
