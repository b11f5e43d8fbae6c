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
        self._began = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def update(self, sent: int, rows: int) -> None:
        """Show how many bytes were sent and rows were read so far; fewer than before where the body is sent anew."""
        if self._bar is None:
            if not self._is_due():
                return
            self._bar = self._open()
        self._bar.set_postfix_str(count(rows, "row"), refresh=False)
        self._bar.update(sent - self._bar.n)

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
