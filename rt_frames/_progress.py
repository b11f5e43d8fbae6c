"""A progress bar for long uploads, in a terminal or a notebook."""

from __future__ import annotations

import contextlib
import html
import io
import sys
import time
from typing import Any, Self

from tqdm import tqdm

from rt_frames._text import count, format_bytes

# seconds; shorter uploads show no bar unless asked
SHOW_AFTER = 2.0
# seconds between redraws in a notebook
_REDRAW_AFTER = 0.2
_BAR_STYLE = 'style="width:20em;vertical-align:middle;accent-color:#0b7285"'


class Progress:
    """A progress bar.

    It is shown at once if ``shown`` is True, never if False; if None, after
    `SHOW_AFTER` seconds in a terminal or notebook.

    Parameters
    ----------
    shown : bool or None
        The caller's ``progress=``.
    total : int or None
        Bytes to send, if known.
    name : str
        The bar's label.
    """

    def __init__(self, shown: bool | None, total: int | None, name: str) -> None:
        self._shown = shown
        self._total = total
        self._name = name
        self._started = time.monotonic()
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> Self:
        return self

    def update(self, sent: int, rows: int) -> None:
        """Set the totals so far. A retry moves the bar back."""
        try:
            self._draw(sent, rows)
        except Exception:  # noqa: BLE001  # a failing display does not end the upload
            self._shown = False
            self.__exit__()

    def _draw(self, sent: int, rows: int) -> None:
        if self._bar is None:
            is_due = time.monotonic() - self._started > SHOW_AFTER
            if self._shown is None and is_due:
                # a program without a console has no stderr
                in_terminal = sys.stderr is not None and sys.stderr.isatty()
                self._shown = _in_notebook() or in_terminal
            if not self._shown:
                return
            bar_class = _NotebookBar if _in_notebook() else tqdm
            self._bar = bar_class(
                total=self._total, desc=self._name, unit="B", unit_scale=True
            )
            # so that time and rate are those of the whole upload
            self._bar.start_t -= time.monotonic() - self._started
        self._bar.set_postfix_str(count(rows, "row"), refresh=False)
        self._bar.update(sent - self._bar.n)

    def __exit__(self, *_: object) -> None:
        bar = self._bar
        self._bar = None
        with contextlib.suppress(Exception):
            if bar is not None:
                bar.close()


def _in_notebook() -> bool:
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class _NotebookBar(tqdm):  # type: ignore[type-arg]  # it iterates nothing
    """A tqdm bar drawn as HTML, in the colours of the browser's theme.

    A text bar goes to stderr, which notebooks show as an error. Without a total, the
    bar moves but does not fill.
    """

    _handle: Any = None

    def __init__(self, **options: Any) -> None:
        super().__init__(file=io.StringIO(), mininterval=_REDRAW_AFTER, **options)

    def display(self, *_: Any, **_options: Any) -> None:
        """Draw the bar. tqdm calls this now and then, and at the end."""
        state = self.format_dict
        seconds = max(state["elapsed"], 1e-3)
        size = format_bytes(self.n)
        if self.total:
            size += f" of {format_bytes(self.total)}"
        parts = [size]
        if state["postfix"]:
            parts.append(state["postfix"])
        parts.append(f"{format_bytes(self.n / seconds)}/s")
        parts.append(f"{seconds:.0f} s")
        text = f"{self.desc}: {', '.join(parts)}"
        total = self.total
        # a closed bar is disabled (tqdm 4.70): the upload is complete
        if not total and self.disable:
            total = self.n
        value = f' value="{self.n}" max="{total}"' if total else ""
        bar = f"<progress{value} {_BAR_STYLE}></progress>"
        label = f'<label style="color:inherit">{bar} {html.escape(text)}</label>'
        outputs = {"text/plain": text, "text/html": label}
        if self._handle is None:
            display = sys.modules["IPython"].display.display
            self._handle = display(outputs, raw=True, display_id=True)
        else:
            self._handle.update(outputs, raw=True)
