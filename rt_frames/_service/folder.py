"""The tables of a folder: requests are calls in this process, without a socket.

A call works on a thread of its own, which takes the body piece by piece from the
caller's thread: a generator may belong to that thread, and Ctrl-C interrupts the wait.
Nothing is committed before the whole body was taken, nor after an interrupt.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from requests.structures import CaseInsensitiveDict

from rt_frames._http.arguments import ConnectionOptions
from rt_frames._http.transport import ReplyError
from rt_frames._protocol.operations import FOLDER
from rt_frames._service.service import Service
from rt_frames._text import show_value
from rt_frames._threads import Worker, prefetch, result

if TYPE_CHECKING:
    from rt_frames._http.transport import Head
    from rt_frames._http.upload import Upload
    from rt_frames.local.application import Answer, Application
    from rt_frames.local.patience import Patience

# seconds that an interrupted call waits for its outcome
OUTCOME_SECONDS = 2.0
# bytes; a larger piece of a response is not read ahead
READ_AHEAD_BYTES = 2**26


class FolderService(Service):
    """The service of one folder, in this process."""

    repr_suffix = ", folder"

    def __init__(self, folder: Path, options: ConnectionOptions) -> None:
        self._shown = str(folder)
        # whatever the working directory is later, or in another process
        self._folder = folder.absolute()
        super().__init__(FolderTransport(self._folder), options, FOLDER)

    def __str__(self) -> str:
        return self._shown

    def __reduce__(self) -> tuple[Any, ...]:
        # the folder is not made here: an exception while unpickling breaks a process
        # pool
        options = dataclasses.replace(self._options, verify=True)
        return FolderService, (self._folder, options)


def open_folder(folder: Path, options: ConnectionOptions) -> FolderService:
    """Make the folder, and return its service. Lance is loaded by the first request."""
    from rt_frames.local.root import check_process, make_root

    check_process()
    try:
        make_root(folder)
    except OSError as error:
        raise not_a_folder(folder, error) from error
    return FolderService(folder, options)


def not_a_folder(target: str | os.PathLike[str], error: Exception) -> ValueError:
    folder = show_value(os.fspath(target))
    reason = getattr(error, "strerror", None) or error
    return ValueError(
        f"{folder} cannot be a folder of tables: {reason}; choose another"
    )


class FolderTransport:
    """Calls the application of a folder."""

    # a call's answer cannot be lost, nor be another one's
    is_certain = True

    def __init__(self, folder: Path) -> None:
        self.base = str(folder)
        self._folder = folder

    @functools.cached_property
    def _application(self) -> Application:
        # the engine is loaded only if a folder is used
        from rt_frames.local.application import Application
        from rt_frames.local.store import Store

        return Application(Store(self._folder))

    def close(self) -> None:
        """Do nothing: nothing is open between two calls."""

    def send(self, head: Head, upload: Upload) -> FolderReply:
        """Call the application on a thread, and feed it the body."""
        from rt_frames.local.patience import Patience
        from rt_frames.local.root import check_process, note_process

        check_process()
        note_process()
        call = _Call(Patience(head.timeouts.read))
        upload.find_reply = call.find_reply
        with Worker("folder") as worker:
            try:
                answered = worker.submit(call.answer, self._application, head)
                call.feed(upload)
                reply: FolderReply = result(answered)
            except BaseException:
                call.abandon()
                raise
        return reply


class _Call:
    """One request in progress.

    Parameters
    ----------
    patience : Patience
        How long it waits for locks, and whether the caller still wants it.
    """

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        # whether to make another group of buffers
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        # groups; None at the end
        self._made: SimpleQueue[list[memoryview] | None] = SimpleQueue()
        self._buffers: list[memoryview] = []
        self._is_ended = False
        self._reply: FolderReply | None = None

    def answer(self, application: Application, head: Head) -> FolderReply:
        """Carry out the request; runs on the call's thread."""
        from rt_frames.local.application import Asked
        from rt_frames.local.arrow_stream import Body

        headers = {name.lower(): value for name, value in head.headers.items()}
        asked = Asked(head.method, head.path, headers, Body(self._receive))
        _calls.add(self)
        try:
            self._reply = FolderReply(application.answer(asked, self._patience))
            return self._reply
        finally:
            _calls.discard(self)
            self._wanted.put(False)

    def _receive(self, size: int) -> memoryview:
        """Return at most ``size`` bytes of the body; none at its end.

        The next group is made after all of this one was taken: its memory may be that
        of this one.
        """
        while not self._buffers and not self._is_ended:
            self._patience.check()
            self._wanted.put(True)
            made = self._made.get()
            self._patience.check()
            self._is_ended = made is None
            self._buffers = made or []
        if self._is_ended:
            return memoryview(b"")
        first = self._buffers[0]
        if len(first) > size:
            self._buffers[0] = first[size:]
        else:
            del self._buffers[0]
        return first[:size]

    def feed(self, upload: Upload) -> None:
        """Make what the call's thread asks for, until it has answered."""
        upload.started = True
        upload.complete = upload.complete or upload.length == 0
        with contextlib.closing(upload.groups()) as groups:
            while self._wanted.get():
                group = next(groups, None)
                if group is None:
                    upload.complete = upload.at_end = True
                    self._made.put(None)
                    continue
                # an empty buffer cannot be cast
                buffers = [memoryview(one).cast("B") for one in group if len(one)]
                upload.sent += sum(map(len, buffers))
                self._made.put(buffers)
                del group, buffers
                if upload.on_sent is not None:
                    upload.on_sent(upload.sent)

    def abandon(self) -> None:
        """Let the call end without a commit, if there was none yet."""
        self._patience.is_over = True
        self._made.put([])

    def find_reply(self) -> FolderReply | None:
        """Return the reply to an interrupted call, or None if it takes long."""
        deadline = time.monotonic() + OUTCOME_SECONDS
        while self._reply is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._reply


_calls: set[_Call] = set()


@atexit.register
def _abandon_calls() -> None:
    """Let the calls of daemon threads end, whose bodies nobody makes any more."""
    for call in list(_calls):
        call.abandon()


class FolderReply:
    """An answer. What is computed while it is read is computed on a thread."""

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = CaseInsensitiveDict(answer.headers)
        self._pieces: Iterator[bytes] = iter(answer.payload)
        if not isinstance(answer.payload, list):
            self._pieces = prefetch(_computed(answer.payload), _is_small)
        self._piece = memoryview(b"")

    def read(self, size: int) -> memoryview:
        """Return a view of at most ``size`` bytes; none at the end."""
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return memoryview(b"")
            self._piece = memoryview(piece)
        first = self._piece[:size]
        self._piece = self._piece[size:]
        return first

    def close(self) -> None:
        """Read no more."""
        if isinstance(self._pieces, Generator):
            self._pieces.close()


def _computed(payload: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a payload; what fails in the engine is a truncated response."""
    try:
        yield from payload
    except Exception as error:
        raise ReplyError(str(error)) from error


def _is_small(piece: bytes) -> bool:
    return len(piece) < READ_AHEAD_BYTES
