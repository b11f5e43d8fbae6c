"""What is checked of a folder, and of the process, before Lance is loaded."""

from __future__ import annotations

import os
from pathlib import Path

# of folders, which others may not read
FOLDER_MODE = 0o700
# where rows are written before they are part of a table
STAGING = ".rt_frames-staging"

# the processes that used Lance: this one, and those that it was forked from
_processes: set[int] = set()


def make_root(root: Path) -> None:
    """Make the folder of tables. Refuse a table's, with which its tables would go."""
    _check_threads()
    resolved = root.resolve()
    for folder in (resolved, *resolved.parents):
        is_named = folder == resolved or folder.suffix == ".lance"
        if is_named and (folder / "_versions").is_dir():
            raise ValueError(
                f"{folder} is a table, not a folder of tables; nothing was changed; use "
                f"{folder.parent}"
            )
    staging = resolved / STAGING
    if staging.is_symlink():
        raise ValueError(f"{staging} is a link, which is not followed; remove it")
    resolved.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def _check_threads() -> None:
    """Refuse a number of threads with which an upsert of pylance 14 never ends."""
    threads = os.environ.get("LANCE_IO_THREADS", "")
    if threads.isdecimal() and int(threads) < 2:
        raise ValueError(
            f"LANCE_IO_THREADS={threads}: with fewer than two threads, Lance's upserts "
            "never end; nothing was changed; set it to 2 or more, or unset it"
        )


def check_process() -> None:
    """Raise RuntimeError in a process that was forked after Lance was used.

    Lance's threads do not survive a fork (pylance 14): the child would hang or crash.
    """
    if _processes - {os.getpid()}:
        raise RuntimeError(
            "a folder cannot be used in a process forked from one that used it: its "
            "engine does not survive a fork; start processes with multiprocessing's "
            "'spawn'"
        )


def note_process() -> None:
    """Note that this process uses Lance."""
    _processes.add(os.getpid())
