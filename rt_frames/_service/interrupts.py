"""The note of an interrupt (Ctrl-C) that comes after a request was sent whole.

The service may carry the request out all the same, and a second call would store its
rows twice. Whatever ends a call without such a note has changed nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from rt_frames import errors
from rt_frames._display import note_after
from rt_frames._protocol.calls import (
    Failure,
    LastAttempt,
    Purpose,
    Result,
)
from rt_frames._protocol.meanings import cure_unknown


class noting_interrupts:  # noqa: N801  # a context manager
    """Enter with the purpose for the block's requests; note what becomes of the last.

    A block inside another leaves the note to that. Once the block has ended, the public
    call that it is part of adds the note.

    Parameters
    ----------
    purpose : Purpose
        Of the requests.
    """

    def __init__(self, purpose: Purpose) -> None:
        self._purpose = purpose
        self._last: LastAttempt | None = None
        self._before: Callable[[], str] = str

    def __enter__(self) -> Purpose:
        if self._purpose.last_attempt is not None:
            return self._purpose
        last = self._last = LastAttempt()
        before = self._before = note_after.get()
        note_after.set(lambda: _explain(last) or before())
        return self._purpose._replace(last_attempt=last)

    def __exit__(
        self, _kind: object, error: BaseException | None, _traceback: object
    ) -> None:
        if self._last is None:
            return
        note = ""
        # an error of ours says what was done
        if not isinstance(error, errors.RemoteError):
            note = _explain(self._last)
        if note and error is not None:
            error.add_note(note)
        note_after.set((lambda: note) if note else self._before)
        self._last.clear()


def _explain(last: LastAttempt) -> str:
    """Return what became of a request that was sent whole, or "" if nothing was."""
    purpose = last.sent
    if purpose is None:
        return ""
    result = last.outcome
    if result is None:
        # pressed again, it waits no longer
        with contextlib.suppress(KeyboardInterrupt):
            result = last.find_late()
    if isinstance(result, Failure) and result.acted == "no":
        # a refusal is no news: nothing was changed
        return ""
    state = f"it may still be carried out: {cure_unknown(purpose)}"
    if isinstance(result, Result):
        state = _was_done(version_in(result.value))
    without_rows = " without rows" if purpose.stage == "empty" else ""
    return (
        f"the request to {purpose.action}{without_rows} was sent before the interrupt; "
        f"{state}"
    )


def _was_done(version: int | None) -> str:
    if version is None:
        return "it was carried out"
    return f"it was carried out (version {version})"


def version_in(value: object) -> int | None:
    """Return the version in the value of a result, if it has one."""
    first = value[0] if isinstance(value, tuple) else value
    return first if isinstance(first, int) else None
