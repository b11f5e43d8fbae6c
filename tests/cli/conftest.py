from __future__ import annotations

import contextlib
import io
import signal
import subprocess

import pytest

from rt_frames.cli.main import main


@pytest.fixture
def run(monkeypatch):
    """Run the console script's function in this process, with its own streams."""

    def run(
        *args: object,
        stdin: bytes | None = None,
        stderr: io.TextIOWrapper | str | None = "",
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        out, err = (
            io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
            for _ in range(2)
        )
        words, interrupts = list(map(str, args)), signal.getsignal(signal.SIGINT)
        with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
            for name, value in environment.items():
                patch.setenv(name, value)
            if stdin is not None:
                patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(
                contextlib.redirect_stderr(err if stderr == "" else stderr)
            )
            ended = stack.enter_context(pytest.raises(SystemExit))
            main(words)
        # a command is the last thing that its process does
        signal.signal(signal.SIGINT, interrupts)
        shown = [stream.buffer.getvalue().decode() for stream in (out, err)]
        return subprocess.CompletedProcess(words, ended.value.code, *shown)

    return run


@pytest.fixture
def env(service):
    return {"RT_FRAMES_URL": service.url, "RT_FRAMES_API_KEY": service.api_key}
