"""Python programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys


def bare_environment() -> dict[str, str]:
    """Give what of the environment says where programs and modules are, and nothing else."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}


def run_python(code: str, *options: str, **environment: str) -> str:
    """Run some lines, with nothing else set than ``environment``, and give what they print; they must end well."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True, text=True, check=False, env={**bare_environment(), **environment}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
