"""What an error says of a call that makes several steps, each in one commit.

A step that stops leaves those before it done, and those after it are not sent. The
error says so itself; an interrupt, and what a source raises, gets a note.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rt_frames import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

# what an error says of its step, which is not the whole call
_OF_A_STEP = {
    "nothing was sent": "this step was not sent",
    "nothing was changed": "this step changed nothing",
    "nothing was stored": "no row was stored",
}
_SAME_CALL = "the same call"


@contextlib.contextmanager
def telling_steps(done: str, left: str, again: str) -> Iterator[None]:
    """Say in an error of the block, which is one step, how far the call came.

    Parameters
    ----------
    done, left : str
        Which steps were done before, and which were not sent; "" if there are none.
    again : str
        What the same call would do now.
    """
    try:
        yield
    except BaseException as error:
        if done and _is_ours(error):
            text = str(error)
            for words, of_a_step in _OF_A_STEP.items():
                text = text.replace(words, of_a_step)
            error.args = (text,)
        # an interrupt without a note came before the step was sent
        is_told = _is_ours(error) or hasattr(error, "__notes__")
        if done or (left and is_told):
            said = [done, left]
            if _SAME_CALL not in str(error):
                said.append(f"{_SAME_CALL} {again}")
            tell(error, "; ".join(filter(None, said)))
        raise


def tell(error: BaseException, text: str) -> None:
    """Add a sentence to an error, or to the notes of an exception that is not ours."""
    if _is_ours(error):
        error.args = (f"{error}; {text}",)
    else:
        error.add_note(text)


def _is_ours(error: BaseException) -> bool:
    # a ValueError about a server that lacks an operation has the response as its cause
    return isinstance(error, errors.RemoteError) or isinstance(
        error.__cause__, errors.RemoteError
    )
