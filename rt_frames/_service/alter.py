"""Alterations of one table, for alter_table, alter_columns, cast and rename.

They agree about what is sent, and about what is refused as the engine's. The engine is
known of folders and of LanceDB's servers: there, changes that it refuses are not sent,
and changes that it does not make at once go one after the other. Any other service is
sent what it was asked for, in one request, and answers for itself.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rt_frames import errors
from rt_frames._names import did_you_mean
from rt_frames._protocol.calls import NO_STEPS, Cures, Purpose, Steps, json_body
from rt_frames._protocol.operations import ADD_COLUMNS, ALTER, DESCRIBE, DROP_COLUMNS
from rt_frames._protocol.responses import parse_version
from rt_frames._schema.alterations import (
    Alteration,
    AlterationPlan,
    by_kind,
    describe_changes,
    find_cycles,
    renamed_paths,
)
from rt_frames._schema.casts import list_kind_on_path
from rt_frames._schema.data_type import iter_fields
from rt_frames._service.columns import add_columns, drop_columns
from rt_frames._service.replace_columns import offer_rewrite
from rt_frames._service.service import Service
from rt_frames._service.steps import noting_steps
from rt_frames._service.write import WriteResult
from rt_frames._text import list_names, list_some
from rt_frames._values.rewrite import explain_stuck

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

log = logging.getLogger("rt_frames")


def _requests(service: Service, plan: AlterationPlan) -> list[AlterationPlan]:
    """Split a plan into those of one request each.

    Raise ValueError if the service has no endpoints to add or drop columns.
    """
    if len(plan.added):
        service.dialect.path(ADD_COLUMNS)
    if plan.dropped:
        service.dialect.path(DROP_COLUMNS)
    return plan.requests() if service.dialect.knows_engine else by_kind(plan)


def with_types(
    service: Service, name: str, plan: AlterationPlan, since: int | None
) -> AlterationPlan:
    """Return a plan whose casts know the types before, if the engine is known."""
    untyped = any(map(_is_untyped_cast, plan))
    if not untyped or not service.dialect.knows_engine:
        return plan
    schema = None
    # the request itself fails for the same reason
    with contextlib.suppress(errors.RemoteError):
        schema = service.describe(name, since=since).schema
    return _typed(plan, schema)


def with_open_casts(
    name: str, plan: AlterationPlan, schema: pa.Schema
) -> AlterationPlan:
    """Return the casts to types that columns of the table do not have yet."""
    paths = [path for path, *_ in iter_fields(schema)]
    for change in plan:
        if change.path not in paths:
            raise errors.AlterationError(
                f"table {name!r} has no column {change.path!r}; nothing was sent; "
                f"{did_you_mean(change.path, paths)}"
            )
    return _typed(plan, schema)


def _typed(plan: AlterationPlan, schema: pa.Schema | None) -> AlterationPlan:
    """Return a plan that knows the types before, without casts that change nothing."""
    known = {}
    for path, field, parents in iter_fields(schema or ()):
        known[path] = {"before": field.type, "lists": list_kind_on_path(parents)}

    def with_type(change: Alteration) -> Alteration:
        if not _is_untyped_cast(change):
            return change
        return replace(change, **known.get(change.path, {}))

    changes = map(_without_same_type, map(with_type, plan))
    return replace(plan, changes=tuple(filter(None, changes)))


def _without_same_type(change: Alteration) -> Alteration | None:
    if change.data_type is None or change.data_type != change.before:
        return change
    if change.rename is None and change.nullable is None:
        return None
    return replace(change, data_type=None)


def _is_untyped_cast(change: Alteration) -> bool:
    return change.data_type is not None and change.before is None


def needs_rewrite(service: Service, plan: AlterationPlan) -> bool:
    """Return whether the engine refuses a change, or its cast may change values."""
    knows_engine = service.dialect.knows_engine
    return any(change.loss or (knows_engine and change.refused) for change in plan)


def check_engine(service: Service, name: str, plan: AlterationPlan) -> None:
    """Raise AlterationError if the engine is known, and refuses a change.

    An unknown one may make renames one after the other, and cannot exchange names.
    """
    if not service.dialect.knows_engine:
        _check_no_exchange(plan)
    refused = [change for change in plan if change.refused]
    if not refused or not service.dialect.knows_engine:
        return
    cure = explain_stuck(refused) or offer_rewrite(service, name)
    reasons = [f"{change} ({change.refused})" for change in refused]
    raise errors.AlterationError(
        f"the engine refuses {list_some(reasons)}; nothing was sent; {cure}"
    )


def _check_no_exchange(plan: AlterationPlan) -> None:
    for cycle in find_cycles(renamed_paths(plan)):
        raise errors.AlterationError(
            f"rename: columns {list_names(cycle)} exchange their names, and this service "
            "may rename one after the other; nothing was sent; first rename one of them "
            "to a third name, in a separate call"
        )


def send_all(service: Service, name: str, plan: AlterationPlan) -> WriteResult:
    """Change, add and drop columns, in this order, with a request for each step."""
    parts = _requests(service, plan)
    changes = list(map(describe_changes, parts))
    again = "the same call makes what is missing" if len(parts) > 1 else ""
    result = WriteResult()
    for number, part in enumerate(parts):
        done = _list_steps("done before", changes[:number])
        left = _list_steps("not sent", changes[number + 1 :])
        steps = Steps(done, left, again)
        with noting_steps(steps):
            result = send(service, name, part, steps)
    return result


def _list_steps(state: str, steps: Sequence[list[str]]) -> str:
    changes = list(itertools.chain(*steps))
    return f"{state}: {list_some(changes)}" if changes else ""


def send(
    service: Service, name: str, plan: AlterationPlan, steps: Steps = NO_STEPS
) -> WriteResult:
    """Send a plan of one request: it adds, drops or changes columns."""
    start = time.monotonic()
    if len(plan.added):
        purpose = Purpose(ADD_COLUMNS, name, steps=steps)
        result = add_columns(service, purpose, plan.added)
    elif plan.dropped:
        purpose = Purpose(DROP_COLUMNS, name, steps=steps)
        result = drop_columns(service, purpose, plan.dropped)
    else:
        request = service.request(
            Purpose(ALTER, name, cures=_cures(service, name, plan), steps=steps),
            parse_version,
            json_body(plan.to_json()),
        )
        result = service.send(request)
    milliseconds = 1000 * (time.monotonic() - start)
    log.info("altered table %s, %.0f ms, %s", name, milliseconds, result.request_id)
    return WriteResult(
        version=result.value, created=False, request_id=result.request_id
    )


def _cures(service: Service, name: str, plan: AlterationPlan) -> Cures:
    """Return the advice for changes that are refused, or whose outcome is unknown."""
    cures: dict[type[errors.RemoteError], str] = {}
    if not service.dialect.has(DESCRIBE):
        cures[errors.OutcomeUnknown] = (
            "no request of this service shows the table's columns: look at them in the "
            "service's dashboard before sending it again"
        )
    casts = [
        str(replace(change, rename=None, nullable=None))
        for change in plan
        if change.data_type is not None
    ]
    if len(plan.requests()) > 1:
        cures[errors.BadRequest] = (
            "rt.AlterationPlan(…).requests() splits it in two; send each with "
            f"rt.alter_columns({name!r}, …)"
        )
    elif casts and not service.dialect.knows_engine:
        cures[errors.BadRequest] = (
            f"this service may not make these casts: {list_some(casts)}"
        )
    return cures
