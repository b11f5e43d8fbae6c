from __future__ import annotations

import contextlib
import io
import subprocess

import pytest

from rt_frames.cli.main import main


@pytest.fixture
def run(monkeypatch):
    """Run the console script's function in this process, with its own streams."""

    def run(*args: object, **environment: str) -> subprocess.CompletedProcess[str]:
        words = list(map(str, args))
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
            for name, value in environment.items():
                patch.setenv(name, value)
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(err))
            ended = stack.enter_context(pytest.raises(SystemExit))
            main(words)
        shown = [stream.buffer.getvalue().decode() for stream in (out, err)]
        return subprocess.CompletedProcess(words, ended.value.code, *shown)

    return run


@pytest.fixture
def env(service):
    return {"RT_FRAMES_URL": service.url, "RT_FRAMES_API_KEY": service.api_key}


@pytest.fixture
def url(tmp_path):
    return ("--url", tmp_path / "tables")
