"""Changes of a table, each in one commit."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any

from rt_frames import errors
from rt_frames._frames.where import check
from rt_frames._protocol.calls import (
    JSON,
    Purpose,
    Result,
    json_body,
)
from rt_frames._protocol.meanings import may_lack_operation
from rt_frames._protocol.operations import COMPACT, DELETE, DROP
from rt_frames._protocol.responses import Description, parse_version, parse_written
from rt_frames._service.outcome import ChangeOutcome
from rt_frames._service.service import Service
from rt_frames._service.where import write_where
from rt_frames._text import count

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from rt_frames._protocol.responses import Response

log = logging.getLogger("rt_frames")


def change(
    service: Service,
    purpose: Purpose,
    body: bytes,
    parse: Callable[[Response], Any],
    advice: str,
    *,
    content_type: str = JSON,
    before: Description | None = None,
    is_done: Callable[[pa.Schema], bool] | None = None,
    needs_version: int | None = None,
) -> Result:
    """Make one change of an existing table, in one commit.

    The table is described first, unless it is known as it was ``before``. If the
    outcome is unknown, the table is described again: if ``is_done`` is true for its
    schema, the change succeeded, with a version that may be another writer's;
    otherwise the error reports the version before and now, and the ``advice``.
    """
    name = str(purpose.table)
    # refuses a name, and a dialect without the operation
    request = service.request(purpose, parse, body, content_type=content_type)
    if before is None:
        before = service.describe(name)
    cure = purpose.steps.again or advice
    outcome = ChangeOutcome(service, name, before.version, cure)
    try:
        return service.send(request, outcome.explain)
    except (errors.ResponseError, errors.OutcomeUnknown) as error:
        raise_if_unsupported(service, purpose, error, needs_version)
        # explaining the outcome has described the table
        schema = outcome.schema
        if schema is None or is_done is None or not is_done(schema):
            raise
    log.info("table %s has the requested columns, %s", name, request.id)
    # the newest version may be another writer's
    return Result(None, request.id, len(body))


def raise_if_unsupported(
    service: Service,
    purpose: Purpose,
    error: errors.RemoteError,
    version: int | None = None,
) -> None:
    """Raise ValueError if the server refused because it lacks the operation.

    It is a ResponseError if steps before this one were done. A 404 may also be about
    the table, or about its ``version``.
    """
    if not isinstance(error, errors.ResponseError) or not may_lack_operation(error):
        return
    if isinstance(error, errors.TableNotFoundError):
        try:
            service.describe(str(purpose.table), version=version)
        except errors.RemoteError:
            # the first response tells more
            return
    # columns may have been added before rows are sent
    unchanged = "nothing was changed"
    if purpose.operation.effect == "rows":
        unchanged = "no row was stored"
    message = error.message or "without a message"
    text = f"this server cannot {purpose.operation.ability}: {error.status}, {message}"
    text = purpose.steps.complete(text, unchanged)
    if purpose.steps.done:
        raise errors.ResponseError(text, **vars(error)) from error
    raise ValueError(text) from error


def delete(service: Service, name: str, where: Any) -> tuple[int | None, int | None]:
    """Delete rows. Return the new version and the number of rows, if reported."""
    advice = (
        "it is safe to repeat the delete, unless somebody added such rows meanwhile"
    )
    cure = "nothing was deleted; compare columns with values"
    checked = check(where)
    # a dialect without the operation is refused before a request
    service.dialect.path(DELETE, name)
    before = service.describe(name)
    condition = write_where(checked, before.schema, cure, needs_column=True)
    body = json_body({"predicate": condition})
    purpose = Purpose(DELETE, name)
    result = change(service, purpose, body, parse_written, advice, before=before)
    version, _, _, rows = result.value
    number = "an unknown number of rows" if rows is None else count(rows, "row")
    log.info("deleted %s of table %s, %s", number, name, result.request_id)
    return version, rows


def compact(service: Service, name: str, *, purge: bool) -> Result:
    """Merge the files of a table. The result's value is the new version."""
    if not service.dialect.has(COMPACT):
        raise ValueError(
            f"cannot compact {name!r}: this server has no such request, and LanceDB's "
            "servers merge files by themselves; nothing was changed; leave the call out"
        )
    result = change(
        service,
        Purpose(COMPACT, name),
        json_body({"purge": purge}),
        parse_version,
        "it is safe to compact it again",
    )
    log.info("compacted table %s, %s", name, result.request_id)
    return result


def drop(
    service: Service,
    name: str,
    *,
    max_timeout: float = math.inf,
) -> None:
    start = time.monotonic()
    request = service.request(
        Purpose(DROP, name), parse_version, max_timeout=max_timeout
    )
    result = service.send(request)
    milliseconds = 1000 * (time.monotonic() - start)
    log.info("dropped table %s, %.0f ms, %s", name, milliseconds, result.request_id)
