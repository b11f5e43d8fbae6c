"""Programs that receive Ctrl-C, and show their stacks if they hang; their memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

LONGEST = 50  # seconds that a program may run; an upload that hangs ends after a minute


def hear_interrupts() -> None:
    """Let SIGINT interrupt this process and its children, even if it was ignored.

    A shell makes its background processes ignore SIGINT, and children inherit that. A
    handler is not inherited, so that children of this process have the default.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def memory(what: str = "VmRSS", pid: int | str = "self") -> int:
    """Return the memory of a process in bytes; ``VmHWM`` is its peak."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{what}:")[1].split()[0]) * 1024


def reset_peak(pid: int | str = "self") -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


class Program(subprocess.Popen[str]):
    """A Python program. If it does not end in time, it is aborted and prints stacks.

    Parameters
    ----------
    *words : object
        The command.
    seconds : float
        How long the program may run.
    **options : object
        Popen's own.
    """

    def __init__(
        self, *words: object, seconds: float = LONGEST, **options: Any
    ) -> None:
        # on SIGABRT, Python then prints the stacks
        options["env"] = {**options.get("env", os.environ), "PYTHONFAULTHANDLER": "1"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        super().__init__([*map(str, words)], text=True, **{**pipes, **options})
        self._watchdog = threading.Timer(seconds, self.send_signal, [signal.SIGABRT])
        self._watchdog.daemon = True
        self._watchdog.start()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; every other method that waits calls this."""
        code = super().wait(timeout)
        self._watchdog.cancel()
        self._watchdog.join()
        return code

    def __exit__(self, *_: object) -> None:
        """Abort the program if it still runs, and print its output for pytest."""
        self.send_signal(signal.SIGABRT)
        sys.stdout.writelines(self.communicate())


def python(*arguments: object, **options: Any) -> Program:
    """Start another interpreter in the root of the project."""
    return Program(sys.executable, *arguments, cwd=Path(__file__).parents[2], **options)
