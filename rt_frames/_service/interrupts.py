"""The note of an interrupt (Ctrl-C) that comes after a request was sent whole.

The service may carry the request out all the same, and a second call would store its
rows twice. Whatever ends a call without such a note has changed nothing.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rt_frames import errors
from rt_frames._protocol.calls import (
    Failure,
    LastAttempt,
    Purpose,
    Request,
    Result,
)
from rt_frames._protocol.meanings import cure_unknown

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def noting_interrupts(purpose: Purpose) -> Iterator[Purpose]:
    """Yield the purpose for the block's requests, and note what becomes of the last.

    A block inside another leaves the note to that.

    Parameters
    ----------
    purpose : Purpose
        Of the requests.
    """
    if purpose.last_attempt is not None:
        yield purpose
        return
    last = LastAttempt()
    try:
        yield purpose._replace(last_attempt=last)
    except errors.RemoteError:
        # it says what was done
        raise
    except BaseException as error:
        note = _explain(last)
        if note:
            error.add_note(note)
        raise
    finally:
        last.clear()


def _explain(last: LastAttempt) -> str:
    """Return what became of a request that was sent whole, or "" if nothing was."""
    request = last.request
    if request is None or not last.may_be_whole():
        return ""
    result = last.outcome
    if result is None:
        # pressed again, it waits no longer
        with contextlib.suppress(KeyboardInterrupt):
            result = last.find_late()
    if isinstance(result, Failure) and result.acted == "no":
        # a refusal is no news: nothing was changed
        return ""
    if isinstance(result, Result):
        return _note(request, _was_done(version_in(result.value)))
    return _note(request, "")


def _note(request: Request, state: str) -> str:
    without_rows = " without rows" if request.step == "empty" else ""
    if not state:
        state = f"it may still be carried out: {cure_unknown(request)}"
    return (
        f"the request to {request.action}{without_rows} was sent before the interrupt; "
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
