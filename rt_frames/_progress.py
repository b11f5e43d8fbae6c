"""A progress bar for uploads that take long enough to make one wonder, where somebody can see it."""

from __future__ import annotations

import html
import sys
import time
from typing import Any, Self

from rt_frames._text import count, format_bytes

SHOW_AFTER = 2.0  # seconds; shorter uploads show no bar of their own accord
_REDRAW_AFTER = 0.2  # seconds; so often does a notebook draw it anew


class Progress:
    """Show a bar: after `SHOW_AFTER` where it can be seen, at once if ``shown`` is True, never if False.

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
            self._shown = _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())
        return bool(self._shown)

    def _open(self) -> Any:
        if _in_notebook():
            return _NotebookBar(self._total, self._name, self._began)
        from tqdm import tqdm

        bar = tqdm(total=self._total, desc=self._name, unit="B", unit_scale=True)
        bar.start_t -= time.monotonic() - self._began  # so that it shows the time and the rate of the whole upload
        return bar

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _in_notebook() -> bool:
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class _NotebookBar:
    """What tqdm shows in a terminal, as HTML: the browser draws the bar, in the colours of its theme.

    Without a total the bar moves and does not fill. tqdm itself writes to stderr, which notebooks show as an error.
    """

    def __init__(self, total: int | None, name: str, began: float) -> None:
        display: Any = sys.modules["IPython"].display.display
        self.n, self._total, self._name, self._began, self._rows = 0, total, name, began, ""
        self._drawn = time.monotonic()
        self._handle: Any = display(self._draw(), raw=True, display_id=True)

    def set_postfix_str(self, text: str, *, refresh: bool) -> None:  # noqa: ARG002  # the signature is tqdm's
        self._rows = text

    def update(self, sent: int) -> None:
        self.n += sent
        if time.monotonic() - self._drawn > _REDRAW_AFTER:
            self._drawn = time.monotonic()
            self._handle.update(self._draw(), raw=True)

    def close(self) -> None:
        self._handle.update(self._draw(ended=True), raw=True)

    def _draw(self, *, ended: bool = False) -> dict[str, str]:
        seconds = max(time.monotonic() - self._began, 1e-3)
        size = format_bytes(self.n) + (f" of {format_bytes(self._total)}" if self._total else "")
        facts = (size, self._rows, f"{format_bytes(int(self.n / seconds))}/s", f"{seconds:.0f} s")
        text = f"{self._name}: {', '.join(filter(None, facts))}"
        known = self._total or (self.n if ended else None)
        value = f' value="{self.n}" max="{known or 1}"' if known else ""
        bar = f'<progress{value} style="width:20em;vertical-align:middle;accent-color:#0b7285"></progress>'
        return {"text/plain": text, "text/html": f'<div style="color:inherit">{bar} {html.escape(text)}</div>'}
