"""All user-facing messages as a transcript, in ``messages.txt``.

``python -m tests.messages`` makes the calls again and regenerates the file, whose diff
is read in review. Lines after ``>>>`` are Python, and lines after ``$`` are shell
commands; below each is what it prints. Lines that begin with ``#`` are kept.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import io
import logging
import os
import re
import shlex
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import requests
from click.testing import CliRunner

import rt_frames as rt
from rt_frames.cli.main import main
from rt_frames.local import LocalService
from tests.support.hosted import SMALL_PARTS, Hosted
from tests.support.local import stream
from tests.support.servers import KEY, Connection, Server

FILE = Path(__file__).with_suffix(".txt")
CHANGING = [  # parts that differ between runs or machines
    (r"(?<=:)\d{5}\b", "PORT"),
    (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b",
        "ID",
    ),
    (r"\b\d[\d.]* m?s\b(?! timeout)", "N ms"),
    (r"/\S*?/?tmp\S*?/(tables|files)\b", r"/\1"),
    (r"[\d.]+ [kMG]?B sent|[\d,]+ bytes", "SIZE"),
    (r"(?m)^(\s*)\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+ ", r"\1"),
    (r"(?<=_ssl\.c:)\d+", "LINE"),
    # when a version was made
    (r"\b20\d\d-\d\d-\d\d[ T][:\d]{8}\.\d{6}\+00:00", "TIME"),
    (r"(?m)^(\d+ {5,})20\d\d-\d\d-\d\d [:\d]{8}(?=  )", r"\1YYYY-MM-DD hh:mm:ss"),
]
MIME = "application/vnd.apache.arrow.stream"


def hang_up(connection: Connection) -> None:
    """Read a request, then reset the connection."""
    connection.body(connection.head())
    connection.reset()


class Calls:
    """Makes the calls of the transcript in one folder, with one service."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._stack, self._shell, self._log = stack, CliRunner(), io.StringIO()
        (folder / "files").mkdir()
        os.chdir(folder / "files")
        self.service = stack.enter_context(LocalService(folder / "tables", api_key=KEY))
        client = rt.connect(self.service.url, api_key=KEY, dialect="lancedb")
        self.names: dict[str, Any] = {
            "rt": rt,
            "pd": pd,
            "pl": pl,
            "pa": pa,
            "np": np,
            "dd": dask.dataframe,
            "Path": Path,
            "KEY": KEY,
            "datetime": datetime,
            "Decimal": decimal.Decimal,
            "client": client,
            "local": rt.connect(folder / "tables", default=False),
            "folder": folder,
            "answering": self.answering,
            "failing": self.failing,
            "ask": self.ask,
            "listing": self.listing,
            "LocalService": LocalService,
        }
        handler = logging.StreamHandler(self._log)
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        log = logging.getLogger("rt_frames")
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        stack.callback(log.setLevel, logging.NOTSET)
        stack.callback(log.removeHandler, handler)

    def answering(self, *answer: Any, **options: Any) -> rt.Client:
        """Connect to a server that answers each POST alike, or resets it."""
        server = self._stack.enter_context(Server())
        if answer:
            server.answering(answer)
        else:
            server.script = hang_up
        return rt.connect(
            server.url, api_key=KEY, **{"retries": 0, "default": False, **options}
        )

    def listing(self, answer: Any) -> rt.Client:
        """Connect to a server that gives this answer to every request."""
        server = self._stack.enter_context(Server())
        server.listing((200, answer))
        return rt.connect(server.url, api_key=KEY, retries=0, default=False)

    def failing(self, step: str, fault: str) -> rt.Client:
        """Connect to a service with multipart writes that fails at one step."""
        hosted = Hosted(fault=lambda _, at: fault if at == step else "")
        server = self._stack.enter_context(Server(hosted))
        client = rt.connect(
            server.url,
            api_key=KEY,
            dialect=SMALL_PARTS,
            retries=0,
            timeout=2,
            default=False,
        )
        client.list_tables()  # its response says that multipart writes are supported
        return client

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> str:
        """Send a request and return the response; a table is sent as Arrow."""
        if isinstance(body, pa.Table):
            body = stream(body)
        sent = (
            {"data": body, "headers": {"content-type": MIME}}
            if isinstance(body, bytes)
            else {"json": body, "headers": {}}
        )
        sent["headers"] |= {"x-api-key": KEY, **headers}
        answer = requests.request(method, self.service.url + path, timeout=10, **sent)
        return f"{answer.status_code} {answer.text}"

    def say(self, line: str) -> Iterator[str]:
        """Make one call, and yield the lines that it prints."""
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield from (
                self._shell_says(line[2:])
                if line.startswith("$ ")
                else self._python_says(line[4:])
            )
        yield from (f"{one.category.__name__}: {one.message}" for one in warned)
        yield from self._log.getvalue().splitlines()
        self._log.seek(0)
        self._log.truncate()

    def _shell_says(self, command: str) -> Iterator[str]:
        before, _, after = command.partition("rt-frames")
        arguments, given = (
            shlex.split(after),
            dict(one.split("=", 1) for one in before.split()),
        )
        env = {
            "RT_FRAMES_URL": self.service.url,
            "RT_FRAMES_API_KEY": KEY,
            "RT_FRAMES_DIALECT": "lancedb",
            **given,
        }
        said = self._shell.invoke(main, arguments, env=env, prog_name="rt-frames")
        yield from said.output.splitlines()
        yield f"(exit {said.exit_code})"

    def _python_says(self, code: str) -> Iterator[str]:
        try:
            try:
                found = eval(code, self.names)
            except SyntaxError:
                found = exec(code, self.names)
        except Exception as error:  # noqa: BLE001  # any error is part of the transcript
            yield f"{type(error).__name__}: {error}"
            yield from (f"  note: {note}" for note in getattr(error, "__notes__", ()))
        else:
            if found is not None:
                yield found if isinstance(found, str) else repr(found)


def transcript(text: str) -> str:
    """Make a transcript's calls again, and return it with the new output."""
    lines: list[str] = []
    here = Path.cwd()
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            calls = Calls(Path(folder), stack)
            for line in text.splitlines():
                if line.startswith((">>> ", "$ ")):
                    said = "\n".join(calls.say(line))
                    for pattern, name in CHANGING:
                        said = re.sub(pattern, name, said)
                    lines += [
                        line,
                        *(
                            f"    {one}".rstrip()
                            for one in said.splitlines()
                            if one.strip()
                        ),
                    ]
                elif line.startswith("#") or not line:
                    lines.append(line)
            rt.disconnect()
    finally:
        os.chdir(here)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(transcript(FILE.read_text()))
