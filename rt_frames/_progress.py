"""A progress bar for uploads that take long enough to make one wonder, where somebody can see it."""

from __future__ import annotations

import importlib.util
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from rt_frames._display import counted

if TYPE_CHECKING:
    from types import TracebackType

PATIENCE = 2.0  # seconds


class Progress:
    """Show a tqdm bar: after two seconds where it can be seen, at once if ``shown`` is True, never if False.

    Parameters
    ----------
    shown : bool or None
        What the caller asked for.
    total : int or None
        Bytes to send, where known.
    name : str
        What the bar is called.
    """

    def __init__(self, shown: bool | None, total: int | None, name: str) -> None:
        if shown not in (None, True, False):
            raise ValueError(f"progress: expected None, True or False, got {shown!r}")
        self._shown, self._total, self._name = shown, total, name
        self._start, self._sent, self._rows = time.monotonic(), 0, 0
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def start(self) -> None:
        """Begin at nothing, also when the body is sent once more."""
        self._rows = self._sent = 0
        if self._bar is not None:
            self._bar.reset()

    def update(self, sent: int, rows: int) -> None:
        """Count bytes that left, and show how many rows were read by now."""
        self._sent += sent
        self._rows = rows
        if self._bar is not None:
            self._bar.set_postfix_str(self._rows_in_words(), refresh=False)
            self._bar.update(sent)
        elif self._shown or (self._shown is None and time.monotonic() - self._start > PATIENCE):
            self._open()

    def _open(self) -> None:
        if self._shown is None and not _somebody_sees():
            self._shown = False
            return
        # without widgets tqdm.auto would warn, and draw the same text
        tqdm = importlib.import_module("tqdm.auto" if importlib.util.find_spec("ipywidgets") else "tqdm.std").tqdm
        self._bar = tqdm(total=self._total, desc=self._name, unit="B", unit_scale=True)
        self._bar.start_t -= time.monotonic() - self._start
        self._bar.set_postfix_str(self._rows_in_words(), refresh=False)
        self._bar.update(self._sent)

    def _rows_in_words(self) -> str:
        return counted(self._rows, "row")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def _somebody_sees() -> bool:
    return "ipykernel" in sys.modules or sys.stderr.isatty()
