"""Columns that are added to a table or dropped, each call in one commit."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pyarrow as pa

from rt_frames import errors
from rt_frames._protocol.calls import ARROW_STREAM, Result, add_columns_body, json_body
from rt_frames._protocol.responses import Description, parse_version
from rt_frames._schema.data_type import map_types, show_type, storage
from rt_frames._service.changes import change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rt_frames._protocol.calls import Purpose
    from rt_frames._service.service import Service

_RUN_AGAIN = "run the same call again for the missing changes"


def add_columns(
    service: Service,
    purpose: Purpose,
    columns: pa.Schema,
    before: Description | None = None,
) -> Result:
    """Add columns of nulls. The result's value is the new version, if it is known.

    Columns that somebody else adds meanwhile, with the same types, are a success, and
    so are all of them after an unknown outcome.
    """
    if before is None:
        before = service.describe(str(purpose.table))
    added = _stored_types(columns)
    try:
        return change(
            service,
            purpose,
            add_columns_body(columns),
            parse_version,
            _RUN_AGAIN,
            content_type=ARROW_STREAM,
            before=before,
            is_done=lambda schema: added.items() <= _stored_types(schema).items(),
        )
    except (errors.BadRequest, errors.ConflictError) as error:
        missing = _without_added(service, purpose, columns, before, error)
        request_id = str(error.request_id)
    if not len(missing):
        return Result(None, request_id, 0)
    return add_columns(service, purpose, missing)


def _without_added(
    service: Service,
    purpose: Purpose,
    columns: pa.Schema,
    before: Description,
    error: errors.ResponseError,
) -> pa.Schema:
    """Return the columns that the table does not have now.

    Raise ConflictError if one has another type and was not there ``before``, and the
    ``error`` if it was, or if nobody added any.
    """
    name = str(purpose.table)
    schema = None
    # must not mask the refusal
    with contextlib.suppress(errors.RemoteError):
        schema = service.describe(name).schema
    stored = _stored_types(schema or pa.schema([]))
    known = before.schema.names if before.schema else []
    missing = []
    for field in columns:
        if field.name not in stored:
            missing.append(field)
            continue
        theirs = stored[field.name]
        if theirs == map_types(field.type, storage):
            continue
        if field.name in known:
            raise error
        text = purpose.steps.complete(
            f"table {name!r}: somebody else added column {field.name!r} meanwhile, as "
            f"{show_type(theirs)}, not {show_type(field.type)}",
            "nothing was changed",
            purpose.steps.again or "run the same call again",
        )
        raise errors.ConflictError(text, **vars(error)) from None
    if len(missing) == len(columns):
        raise error
    return pa.schema(missing)


def drop_columns(service: Service, purpose: Purpose, columns: Sequence[str]) -> Result:
    """Drop columns. The result's value is the new version, if it is known.

    After an unknown outcome, a table that has none of the columns is a success.
    """
    return change(
        service,
        purpose,
        json_body({"columns": [*columns]}),
        parse_version,
        _RUN_AGAIN,
        is_done=lambda schema: set(columns).isdisjoint(schema.names),
    )


def _stored_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return types by column; some services do not describe extension types."""
    return {field.name: map_types(field.type, storage) for field in schema}
