"""Explain a write whose outcome is unknown, for its error.

Each function describes the table once, and returns text that ends with a cure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rt_frames import errors
from rt_frames._text import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from rt_frames._http.multipart import MultipartUpload
    from rt_frames._http.request import Failure
    from rt_frames._service.service import Description, Service

_REFUSED = (errors.ConflictError, errors.BadRequest, errors.AuthenticationError)
MAY_DO_IT = "but the service may still do it"
MAY_BE_LATE = (
    f"{MAY_DO_IT}: wait until its time-out is over, and check again before you send "
    "again"
)
_SAFE = "so it is safe to send again"
_CHECK_FIRST = "check whether the rows are there before you send them again"


def explain_append(
    service: Service, name: str, before: Description, failure: Failure
) -> str:
    """Explain the outcome of an append in one request."""
    if not failure.outcome_unknown:
        return ""
    late = MAY_BE_LATE
    # a truncated body never takes effect
    if failure.kind is errors.UploadInterrupted:
        late = _SAFE
    return compare_versions(service, name, before, late)


def explain_upsert(
    service: Service, name: str, before: Description, failure: Failure
) -> str:
    """Explain the outcome of an upsert.

    An embedded service runs two upserts one after the other. On other servers, two
    simultaneous upserts with the same new key both insert it.
    """
    if not failure.outcome_unknown:
        return ""
    late = f"{MAY_DO_IT}: wait until its time-out is over, then send again"
    if service.is_embedded or failure.kind is errors.UploadInterrupted:
        late = _SAFE
    again = "it may be sent again, as rows with its keys are updated then"
    return compare_versions(service, name, before, late, again)


def explain_multipart(
    service: Service,
    name: str,
    upload: MultipartUpload,
    before: Description,
    clean_up: Callable[[], str],
    failure: Failure,
    *,
    late: str = MAY_BE_LATE,
    check: str = _CHECK_FIRST,
) -> str:
    """Explain the outcome of a multipart write. Clean up if no commit started."""
    if not upload.commit_started or failure.kind in _REFUSED:
        return clean_up()
    try:
        return compare_versions(service, name, before, late, check)
    except errors.RemoteError:
        return f"its outcome could not be looked at, {late}"


def compare_versions(
    service: Service,
    name: str,
    before: Description,
    late: str,
    check: str = _CHECK_FIRST,
) -> str:
    """Compare version and number of rows, before and now.

    The cure is ``late`` if the table is unchanged so far, or if its version is not
    reported; otherwise it is ``check``.
    """
    try:
        _, version = service.describe(name)
        rows = service.count(name, version=version)
    except errors.TableNotFoundError:
        return f"there is no table {name!r} any more, so nothing of it is stored"
    if None in (before.version, version):
        return f"its version is not told, and it has {count(rows, 'row')} now, {late}"
    rows_before = service.count(name, version=before.version)
    comparison = (
        f"it had version {before.version} and {count(rows_before, 'row')} before, "
        f"and has {version} and {rows:,} now"
    )
    if version == before.version and rows == rows_before:
        return f"{comparison}: nothing was done so far, {late}"
    return f"{comparison}: {check}"
