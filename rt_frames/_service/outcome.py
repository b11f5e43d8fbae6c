"""Explain a failed request: the sentence of its error, and what became of the table.

`make_error` joins the sentence from the words of `_protocol/meanings.py` and what was
found. The other functions look at the table once, if the outcome is unknown, and return
what they found, with a cure, which takes the place of that of `meanings.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rt_frames import errors
from rt_frames._protocol.calls import Explanation, Failure
from rt_frames._protocol.operations import COUNT, REPLACE_WHERE, UPSERT
from rt_frames._text import count

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from rt_frames._protocol.calls import Purpose
    from rt_frames._protocol.operations import Dialect, Operation
    from rt_frames._protocol.responses import Description

MAY_TAKE_EFFECT = "the write may still take effect"
CHECK_AGAIN = (
    f"{MAY_TAKE_EFFECT}: wait for the service's timeout, and check again before sending "
    "again"
)
_SAFE = "it is safe to send again"
_CANNOT_CHECK = (
    "no request of this service shows whether it is complete: look at it in the "
    "service's dashboard, or store the rows under another name"
)
_CHECK_ROWS = "check the table's rows before sending again"
_NOT_CHECKED = Explanation(
    "the table could not be checked", "check it before sending again"
)
_EXHAUSTED = (
    "this reader or iterator is exhausted: create a new one before you send it again"
)


def explain_unusable(url: str, problem: str) -> str:
    """Return why a client that was unpickled cannot be used."""
    return (
        f"the unpickled client of {url} cannot be used: {problem}, for example on every "
        "Dask worker"
    )


class Tables(Protocol):
    """What an explanation asks of a service."""

    @property
    def dialect(self) -> Dialect: ...

    def describe(self, name: str) -> Description: ...

    def count(self, name: str, version: int | None = None) -> int: ...

    def is_listed(self, name: str | None) -> bool | None: ...


def make_error(failure: Failure, purpose: Purpose) -> errors.RemoteError:
    """Make the exception of a failure, whose text ends with what to do."""
    # whatever the error of an unknown outcome is
    kind = errors.OutcomeUnknown if failure.acted == "maybe" else failure.error
    better_cure = purpose.cures.get(kind, "")
    sentences = [failure.text, failure.state, failure.found]
    if not better_cure:
        sentences.append(failure.cure)
    # a second call would store only the remaining rows
    if purpose.exhausts_source:
        sentences.append(_EXHAUSTED)
    sentences += [better_cure, failure.hint]
    return failure.error(
        purpose.steps.complete(*sentences),
        table=purpose.table,
        rows=purpose.rows,
        done=purpose.steps.done,
        **failure.facts,
    )


def explained(failure: Failure, explain: Callable[[Failure], Explanation]) -> Failure:
    """Add what a look at the table shows. A second error must not mask the first."""
    explanation = _NOT_CHECKED
    with contextlib.suppress(Exception):
        explanation = explain(failure)
    cure = explanation.cure or failure.cure
    if failure.acted == "no":
        cure = "; ".join(filter(None, [failure.cure, explanation.cure]))
    return dataclasses.replace(failure, found=explanation.found, cure=cure)


def explain_by_list(service: Tables, purpose: Purpose, failure: Failure) -> Failure:
    """Explain a create or replace of unknown outcome by the list of tables."""
    listed = service.is_listed(purpose.table)
    failure.facts.update(listed=listed, listed_before=purpose.listed_before)
    found, cure = _describe_list(purpose, failure, listed)
    if listed and not service.dialect.has(COUNT):
        cure = _CANNOT_CHECK
    return dataclasses.replace(failure, found=found, cure=cure)


def _describe_list(
    purpose: Purpose, failure: Failure, listed: bool | None
) -> Explanation:
    table = f"table {purpose.table!r}"
    if purpose.operation.name == "replace" and listed is not False:
        return Explanation(
            f"{table} may hold the old rows or the new ones",
            "check it, or replace it again",
        )
    if listed is None:
        return Explanation(
            f"the tables could not be listed, so {table} may exist",
            "list them before sending again",
        )
    if listed:
        before = "but may have existed before"
        if purpose.listed_before is False:
            before = "and was not before"
        return Explanation(
            f"{table} is listed now, {before}",
            "check that it is complete before you go on",
        )
    if failure.error is errors.UploadInterrupted:
        return Explanation(f"{table} is not listed", _SAFE)
    return Explanation(
        f"{table} is not listed yet", "list the tables again before sending again"
    )


def reclassify_exists(
    failure: Failure, table: str | None, listed: bool | None
) -> Failure:
    """Reclassify "already exists" when the list does not show the table."""
    if listed is None:
        found = f"the tables could not be listed, so table {table!r} may exist"
    else:
        found = f"table {table!r} is not listed, so something else is in the way"
    is_conflict = failure.facts["status"] == 409
    error = errors.ConflictError if is_conflict else errors.BadRequest
    return dataclasses.replace(failure, error=error, found=found)


def explain_rows(
    service: Tables,
    operation: Operation,
    name: str,
    before: Description,
    failure: Failure,
) -> Explanation:
    """Explain the outcome of rows that were sent to a table in one request.

    Of two simultaneous upserts with the same new key, servers may insert both.
    """
    if_unchanged = CHECK_AGAIN
    if_changed = _CHECK_ROWS
    is_safe = operation == REPLACE_WHERE
    if is_safe:
        if_changed = f"{_SAFE}, which replaces the same rows"
    elif operation == UPSERT:
        if_unchanged = (
            f"{MAY_TAKE_EFFECT}: wait for the service's timeout, then send again"
        )
        if_changed = f"{_SAFE}, which updates the rows with the same keys"
    # a truncated body never takes effect
    if is_safe or failure.error is errors.UploadInterrupted:
        if_unchanged = _SAFE
    return _compare_versions(service, name, before, if_unchanged, if_changed)


def explain_commit(
    service: Tables,
    name: str,
    before: Description,
    *,
    if_unchanged: str = CHECK_AGAIN,
    if_changed: str = _CHECK_ROWS,
) -> Explanation:
    """Explain a multipart write whose commit may have been carried out."""
    try:
        return _compare_versions(service, name, before, if_unchanged, if_changed)
    except errors.RemoteError:
        return Explanation("the outcome could not be checked", if_unchanged)


def _compare_versions(
    service: Tables,
    name: str,
    before: Description,
    if_unchanged: str,
    if_changed: str,
) -> Explanation:
    """Compare version and number of rows, before and now.

    The cure is ``if_unchanged`` if the table is unchanged so far, or if its version is
    not reported; otherwise it is ``if_changed``.
    """
    try:
        version = service.describe(name).version
        rows = service.count(name, version=version)
    except errors.TableNotFoundError:
        return Explanation(f"table {name!r} no longer exists, so nothing was stored")
    now = count(rows, "row")
    if None in (before.version, version):
        found = f"the service reports no version; the table has {now} now"
        return Explanation(found, if_unchanged)
    rows_before = service.count(name, version=before.version)
    if version == before.version and rows == rows_before:
        found = f"so far the table is unchanged (version {version}, {now})"
        return Explanation(found, if_unchanged)
    found = _show_change(before.version, rows_before, version, rows)
    return Explanation(found, if_changed)


def _show_change(
    version_before: int | None, rows_before: int, version: int | None, rows: int
) -> str:
    return (
        f"before: version {version_before}, {count(rows_before, 'row')}; "
        f"now: version {version}, {count(rows, 'row')}"
    )


@dataclass
class ChangeOutcome:
    """Explains a change of a table, in one commit, whose outcome is unknown.

    Parameters
    ----------
    service : Service
        The service of the table.
    name : str
        The table's name.
    before : int or None
        The table's version before the change.
    cure : str
        What to do.
    schema : pyarrow.Schema or None
        The table's schema after an unknown outcome.
    """

    service: Tables
    name: str
    before: int | None
    cure: str
    schema: pa.Schema | None = None

    def explain(self, failure: Failure) -> Explanation:  # noqa: ARG002  # as all explanations
        """Return the table's versions and rows before and now, and the cure."""
        try:
            self.schema, version, _ = self.service.describe(self.name)
        except errors.TableNotFoundError:
            return Explanation(f"table {self.name!r} no longer exists")
        if None in (self.before, version):
            return Explanation("the service reports no version", self.cure)
        if version == self.before:
            found = f"so far the table is unchanged (version {version})"
            return Explanation(found, self.cure)
        # a service that merges files makes versions that change no row
        rows_before = self.service.count(self.name, version=self.before)
        rows = self.service.count(self.name, version=version)
        found = _show_change(self.before, rows_before, version, rows)
        return Explanation(found, self.cure)
