"""Carry out a call once, however often it is sent.

A client gives each write an id, and the version of the table at which the write began;
both are the same in its retries. The id is kept with the version that the write made,
as properties of Lance's transaction, and so is the response; it also names the file of
the transaction, which tells at once that an id is new. `check` looks for the id
under the table's lock, just before a commit; `rt_frames.local.wsgi` looks for it before
it reports an error, as of a name that the first attempt has taken.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from rt_frames.local import engine
from rt_frames.local.http_error import HTTPError

_ID = "rt_frames.call"
_TARGET = "rt_frames.target"
_ANSWER = "rt_frames.answer"


class Call(NamedTuple):
    """The call that a request belongs to.

    Parameters
    ----------
    id : str
        The same in each attempt.
    since : int
        The table's version when the call began; 0 if there was none, or if nobody has
        looked.
    target : str
        Path and query of the request; "" to look for the call alone.
    """

    id: str
    since: int
    target: str


class CannotTell(HTTPError):
    """409 for a call that may have been carried out in a version that is gone."""

    def __init__(self) -> None:
        super().__init__(
            409,
            "versions since this call began are gone, as after a purge or a drop, so whether "
            "it was carried out before cannot be told; nothing was stored now; check the table",
        )


_current: ContextVar[Call | None] = ContextVar("call", default=None)


def is_id(text: str) -> bool:
    """Return whether a text has the form of a call's id."""
    return re.fullmatch(r"[0-9a-f-]{36}", text) is not None


def parse(call_id: str, since: str, target: str) -> Call | None:
    """Return the call of a request; None if it has no id."""
    if not call_id:
        return None
    if not is_id(call_id):
        raise HTTPError(400, f"x-rt-frames-call: expected a UUID, got {call_id!r:.100}")
    if not re.fullmatch(r"[0-9]{1,18}", since):
        raise HTTPError(
            400, f"x-rt-frames-since: expected a version, got {since!r:.100}"
        )
    return Call(call_id, int(since), target)


@contextlib.contextmanager
def serving(call: Call | None) -> Iterator[None]:
    """Keep the call with each commit of the block."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)


def properties(numbers: dict[str, int]) -> dict[str, str]:
    """Return what a commit keeps of the current call: its response, but the version."""
    call = _current.get()
    if call is None:
        return {}
    return {_ID: call.id, _TARGET: call.target, _ANSWER: json.dumps(numbers)}


def transaction_id() -> str:
    """Return the id of the current call, or a new one for a commit without a call."""
    call = _current.get()
    return str(uuid.uuid4()) if call is None else call.id


def check(folder: Path, table: Any) -> None:
    """Raise if the current call was carried out, or may have been.

    The table is that of the folder, at its newest version.
    """
    call = _current.get()
    if call is not None and find(folder, table, call) is not None:
        raise HTTPError(409, "this call was carried out before; nothing was stored now")


def find(folder: Path, table: Any, call: Call) -> dict[str, int] | None:
    """Return the response to a call that was carried out, or None.

    Raise `CannotTell` if versions since it began are gone.
    """
    if table.version < call.since:
        # dropped, and created again
        raise CannotTell
    if not call.since and not engine.has_transaction(folder, call.id):
        return None
    for version in range(table.version, call.since, -1):
        try:
            written = engine.written_at(folder, version)
        except FileNotFoundError:
            raise CannotTell from None
        # a call is no older than its retries
        if not call.since and written < time.time() - engine.YOUNG.total_seconds():
            return None
        transaction = engine.read_transaction(table, version)
        kept = getattr(transaction, "transaction_properties", None) or {}
        if kept.get(_ID) != call.id:
            continue
        if call.target not in ("", kept[_TARGET]):
            raise HTTPError(
                422,
                "x-rt-frames-call: another request had this id; nothing was changed; give "
                "each call its own",
            )
        return {"version": version, **json.loads(kept[_ANSWER])}
    return None
