"""A progress bar for uploads that take long enough to make one wonder, where somebody can see it."""

from __future__ import annotations

import importlib.util
import sys
import time
from typing import Any, Self

from rt_frames._text import count

SHOW_AFTER = 2.0  # seconds; shorter uploads show no bar of their own accord


class Progress:
    """Show a tqdm bar: after `SHOW_AFTER` where it can be seen, at once if ``shown`` is True, never if False.

    ::

        with Progress(None, total, "sales") as bar:
            bar.start()                  # once for each attempt
            bar.update(nbytes, rows)     # once for each write

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
        self._began, self._sent = time.monotonic(), 0
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def start(self) -> None:
        """Begin at nothing, also when the body is sent once more."""
        self._sent = 0
        if self._bar is not None:
            self._bar.reset()

    def update(self, nbytes: int, rows: int) -> None:
        """Add bytes that were written, and show how many rows were read so far."""
        self._sent += nbytes
        if self._bar is None:
            if not self._is_due():
                return
            self._bar, nbytes = self._open(), self._sent
        self._bar.set_postfix_str(count(rows, "row"), refresh=False)
        self._bar.update(nbytes)

    def _is_due(self) -> bool:
        if self._shown is None and time.monotonic() - self._began > SHOW_AFTER:
            self._shown = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
        return bool(self._shown)

    def _open(self) -> Any:
        # without widgets tqdm.auto would warn, and draw the same text
        module = importlib.import_module("tqdm.auto" if importlib.util.find_spec("ipywidgets") else "tqdm.std")
        bar = module.tqdm(total=self._total, desc=self._name, unit="B", unit_scale=True)
        bar.start_t -= time.monotonic() - self._began  # so that it shows the time and the rate of the whole upload
        return bar

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
