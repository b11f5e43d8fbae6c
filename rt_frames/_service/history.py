"""The versions of a table: list them, find one by its time, restore one."""

from __future__ import annotations

import datetime
import logging
from operator import attrgetter
from typing import TYPE_CHECKING

from rt_frames import errors
from rt_frames._protocol.calls import Purpose, Request, Result, json_body
from rt_frames._protocol.operations import HISTORY, RESTORE
from rt_frames._protocol.responses import parse_version, parse_versions
from rt_frames._service.changes import change
from rt_frames._service.service import OF_A_VERSION, fresh_headers

if TYPE_CHECKING:
    from rt_frames._protocol.versions import Version
    from rt_frames._service.service import Service

log = logging.getLogger("rt_frames")

# versions in which a time is looked for first
_RECENT = 100


def list_versions(
    service: Service, name: str, limit: int | None = None, *, since: int | None = None
) -> list[Version]:
    """List the newest versions of a table, newest first."""
    service.check_name(name)
    path = service.dialect.path(HISTORY, name)
    # other servers may list the oldest first
    if limit is not None and service.dialect.limits_history:
        path += f"?limit={limit}"
    request = Request(
        Purpose(HISTORY, name), path, parse_versions, headers=fresh_headers(since)
    )
    versions: list[Version] = service.list_pages(request) or []
    versions.sort(key=attrgetter("version"), reverse=True)
    return versions[:limit]


def version_at(service: Service, name: str, moment: datetime.datetime) -> int:
    """Return the number of the newest version at a time.

    Raise TableNotFoundError if all versions are newer.
    """
    versions: list[Version] = []
    # a time is seldom long ago, but other servers list all versions
    limits = (_RECENT, None) if service.dialect.limits_history else (None,)
    for limit in limits:
        versions = list_versions(service, name, limit)
        for index, version in enumerate(versions):
            if version.time == moment or _begins_before(versions, index, moment):
                return version.version
        if limit is not None and len(versions) < limit:
            break
    text = f"table {name!r} has no version of {moment} or before"
    if versions:
        oldest = versions[-1]
        text += f"; the oldest, {oldest.version}, is of {oldest.time}"
    text += "; pass a later time"
    raise errors.TableNotFoundError(text, table=name)


def _begins_before(
    versions: list[Version], index: int, moment: datetime.datetime
) -> bool:
    """Return whether a version, of a list with the newest first, is of before a moment.

    One whose clock was wrong is not between its neighbours: it came after the older.
    """
    time = versions[index].time
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    newer = versions[index - 1].time if index else tomorrow
    older = versions[index + 1].time if index + 1 < len(versions) else time
    if older <= newer and not older <= time <= newer:
        return older < moment
    return time <= moment


def restore(service: Service, name: str, version: int) -> Result:
    """Make an old version the newest. The result's value is the new version."""
    body = json_body({"version": version})
    advice = f"it is safe to restore version {version} again"
    try:
        before = service.describe(name)
    except errors.ServerError:
        # the newest version may be damaged, which is mended
        before = service.describe(name, version=version)
    result = change(
        service,
        Purpose(RESTORE, name, cures=OF_A_VERSION),
        body,
        parse_version,
        advice,
        before=before,
        needs_version=version,
    )
    log.info("restored version %d of table %s, %s", version, name, result.request_id)
    return result
