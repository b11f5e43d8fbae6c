"""List files that were begun in a table's folder, and are in none of its versions.

A purge removes them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# in a table's folder while it is written to, and later if that fails
_WRITING = "_rt_frames_writing"
# the names of files there that such writes began
_BEGUN = "_rt_frames_begun"
# what Lance writes there (pylance 14); other files are somebody else's
_WRITTEN = ("data/**/*", "_deletions/*", "_transactions/*", "_versions/*")


@contextlib.contextmanager
def marking_writes(folder: Path) -> Iterator[None]:
    """List what a block began, if it fails.

    On a disk without room, and if the process is killed, it leaves a mark by which the
    next one does. The caller holds the table's lock.
    """
    mark = folder / _WRITING
    # what a disk without room does not list is removed an hour later
    with contextlib.suppress(OSError):
        if mark.exists():
            add(folder, mark.stat().st_mtime)
        mark.touch()
    has_failed = True
    try:
        yield
        has_failed = False
    finally:
        with contextlib.suppress(OSError):
            if has_failed:
                add(folder, mark.stat().st_mtime)
            mark.unlink()


def add(folder: Path, since: float) -> None:
    """List the files that Lance has written since then, but no version."""
    names = []
    for path in itertools.chain(*map(folder.glob, _WRITTEN)):
        # staged files were written before, and then renamed
        is_new = path.is_file() and path.stat().st_ctime >= since
        if is_new and path.suffix not in (".manifest", ".json"):
            names.append(f"{path.relative_to(folder)}\n")
    if names:
        with (folder / _BEGUN).open("a", encoding="utf-8") as listed:
            listed.writelines(names)


def remove(folder: Path, table: Any) -> None:
    """Remove the files that are listed, and the list."""
    begun = folder / _BEGUN
    if begun.exists():
        # others may have committed one of them since
        named = {*table.tracked_files().read_all()["path"].to_pylist()}
        for name in {*begun.read_text("utf-8").splitlines()} - named:
            (folder / name).unlink(missing_ok=True)
        begun.unlink(missing_ok=True)
