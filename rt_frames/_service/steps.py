"""A note of how far a call of several steps came, each in one commit.

A step that stops leaves those before it done, and those after it are not sent. The
error of its request says so itself; an interrupt, and what a source raises, gets a
note.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rt_frames import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rt_frames._protocol.calls import Steps


@contextlib.contextmanager
def noting_steps(steps: Steps) -> Iterator[None]:
    """Enter with the steps of the block's requests; note them where no error does."""
    try:
        yield
    except BaseException as error:
        # the cause of a ValueError is the response of a server that is unable
        is_told = getattr(error.__cause__ or error, "done", None) == steps.done
        # an interrupt without a note came before the step was sent
        is_sent = steps.left and hasattr(error, "__notes__")
        if not is_told and (steps.done or is_sent):
            error.add_note(steps.complete())
        if isinstance(error, errors.RemoteError):
            error.add(done=steps.done)
        raise
