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
MAY_TAKE_EFFECT = "the write may still take effect"
CHECK_AGAIN = (
    f"{MAY_TAKE_EFFECT}: wait for the service's timeout, and check again before sending "
    "again"
)
_SAFE = "it is safe to send again"
_CHECK_ROWS = "check the table's rows before sending again"


def explain_append(
    service: Service, name: str, before: Description, failure: Failure
) -> str:
    """Explain the outcome of an append in one request."""
    if not failure.outcome_unknown:
        return ""
    if_unchanged = CHECK_AGAIN
    # a truncated body never takes effect
    if failure.kind is errors.UploadInterrupted:
        if_unchanged = _SAFE
    return _compare_versions(service, name, before, if_unchanged, _CHECK_ROWS)


def explain_upsert(
    service: Service, name: str, before: Description, failure: Failure
) -> str:
    """Explain the outcome of an upsert.

    An embedded service runs two upserts one after the other. On other servers, two
    simultaneous upserts with the same new key both insert it.
    """
    if not failure.outcome_unknown:
        return ""
    if_unchanged = f"{MAY_TAKE_EFFECT}: wait for the service's timeout, then send again"
    if service.is_embedded or failure.kind is errors.UploadInterrupted:
        if_unchanged = _SAFE
    if_changed = f"{_SAFE}, which updates the rows with the same keys"
    return _compare_versions(service, name, before, if_unchanged, if_changed)


def explain_multipart(
    service: Service,
    name: str,
    upload: MultipartUpload,
    before: Description,
    clean_up: Callable[[], str],
    failure: Failure,
    *,
    if_unchanged: str = CHECK_AGAIN,
    if_changed: str = _CHECK_ROWS,
) -> str:
    """Explain the outcome of a multipart write. Clean up if no commit started."""
    if not upload.commit_started or failure.kind in _REFUSED:
        return clean_up()
    try:
        return _compare_versions(service, name, before, if_unchanged, if_changed)
    except errors.RemoteError:
        return f"the outcome could not be checked; {if_unchanged}"


def _compare_versions(
    service: Service,
    name: str,
    before: Description,
    if_unchanged: str,
    if_changed: str,
) -> str:
    """Compare version and number of rows, before and now, and append a cure.

    The cure is ``if_unchanged`` if the table is unchanged so far, or if its version is
    not reported; otherwise it is ``if_changed``.
    """
    try:
        _, version = service.describe(name)
        rows = service.count(name, version=version)
    except errors.TableNotFoundError:
        return f"table {name!r} no longer exists, so nothing was stored"
    now = count(rows, "row")
    if None in (before.version, version):
        return (
            f"the service reports no version; the table has {now} now; {if_unchanged}"
        )
    rows_before = service.count(name, version=before.version)
    if version == before.version and rows == rows_before:
        return (
            f"so far the table is unchanged (version {version}, {now}); {if_unchanged}"
        )
    return (
        f"before: version {before.version}, {count(rows_before, 'row')}; "
        f"now: version {version}, {now}; {if_changed}"
    )
