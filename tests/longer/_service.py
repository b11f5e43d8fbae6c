"""The embedded service in a process of its own, for runs that may kill it."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

import lance

import rt_frames as rt

KEY = "k-longer-run"


class Service:
    """A service on a folder; ``client`` talks to it. What either side logs or prints must not hold the key."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._log = io.StringIO()
        self._handler = logging.StreamHandler(self._log)

    def __enter__(self) -> Self:
        logging.getLogger().addHandler(self._handler)
        logging.getLogger().setLevel(logging.DEBUG)
        self._printed = tempfile.TemporaryFile("w+")  # closed where this service ends
        env = {**os.environ, "RT_FRAMES_API_KEY": KEY, "RUST_BACKTRACE": "0"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rt_frames.cli", "serve", str(self.root)],
            stdout=subprocess.PIPE, stderr=self._printed, text=True, env=env,
        )  # fmt: skip
        self.url = self.process.stdout.readline().removeprefix("export RT_FRAMES_URL=").strip()
        self.client = rt.connect(self.url, api_key=KEY, default=False)
        return self

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def memory(self, what: str = "VmRSS") -> int:
        """Tell the process's memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{what}:\s+(\d+) kB", status)[1]) * 1024

    def tables(self) -> dict[str, lance.LanceDataset]:
        """Open every listed table with lance."""
        return {name: lance.dataset(str(self.root / f"{name}.lance")) for name in self.client.list_tables()}

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(timeout=20)
        self.process.stdout.close()
        logging.getLogger().removeHandler(self._handler)
        self._printed.seek(0)
        assert KEY not in self._log.getvalue()
        assert KEY not in self._printed.read()
        self._printed.close()
