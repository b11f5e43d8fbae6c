"""Tables as Lance keeps them: ``ROOT/NAME.lance``, created whole or not at all.

A table is written into ``ROOT/.staging``, opened and read, and published by one rename. Every writer holds a
lock on its staging folder, so that a folder without a lock is what a killed process left, and is wiped.
Several processes may serve one folder. Lance has threads of its own: a process must not fork and go on using it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import re
import shutil
import threading
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any, cast

from rt_frames.local._ahead import ahead
from rt_frames.local._problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_CONFLICTS = 3


class Store:
    """The tables of one folder.

    Parameters
    ----------
    root : path
        Made when it is missing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._staging = self.root / ".staging"
        self._staging.mkdir(parents=True, exist_ok=True)
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)
        self._wipe()

    def names(self) -> list[str]:
        """List the tables, sorted."""
        found = (folder.name.removesuffix(".lance") for folder in self.root.glob("*.lance"))
        return sorted(name for name in found if _NAME.fullmatch(name) and self.exists(name))

    def exists(self, name: str) -> bool:
        """Tell whether a table of that name is there."""
        return (self._folder(name) / "_versions").is_dir()

    def _folder(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise Problem(400, "a table's name has 1 to 128 letters, digits, '_', '-' or '.', and no dot at its start")
        return self.root / f"{name}.lance"

    def check_free(self, name: str) -> None:
        """Refuse a name that is taken, or that cannot be one."""
        if self._folder(name).exists() and self.exists(name):
            raise Problem(409, f"table {name!r} already exists")

    def create(self, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
        """Write a table beside the others, look at it, and publish it at once."""
        target = self._folder(name)
        with self._staged() as folder:
            version = _write(folder / "table.lance", schema, batches)
            try:
                (folder / "table.lance").rename(target)
            except OSError as error:
                if error.errno in _TAKEN:
                    raise Problem(409, f"table {name!r} already exists") from error
                raise
        return version

    @contextlib.contextmanager
    def _staged(self) -> Iterator[Path]:
        folder = self._staging / uuid.uuid4().hex
        lock = folder.with_suffix(".lock")
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            folder.mkdir()
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                lock.unlink(missing_ok=True)

    def _wipe(self) -> None:
        """Remove what writers left that live no more."""
        for lock in self._staging.glob("*.lock"):
            with contextlib.suppress(OSError), lock.open("w") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)

    def alter(self, name: str, changes: list[dict[str, Any]]) -> int:
        """Apply checked changes, all or none, and give the new version."""
        with self._locks[name]:
            for attempt in range(_CONFLICTS + 1):
                try:
                    return _alter(self._folder(name), changes)
                except _Conflict as conflict:
                    if attempt == _CONFLICTS:
                        raise Problem(409, f"table {name!r} is being changed by another process: {conflict}") from None
        raise AssertionError  # the loop returns or raises

    def schema(self, name: str) -> pa.Schema:
        """Read a table's schema."""
        import lance

        if not self._folder(name).exists() or not self.exists(name):
            raise Problem(404, f"there is no table {name!r}")
        return lance.dataset(str(self._folder(name))).schema


class _Conflict(Exception):  # an event that is tried again
    pass


def _write(target: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    import lance
    import pyarrow as pa

    problems: list[BaseException] = []
    rows = 0

    def watched() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        try:
            with contextlib.closing(ahead(batches)) as coming:
                for batch in coming:
                    rows += batch.num_rows
                    yield batch
        except BaseException as error:  # what crosses to Lance comes back as something else
            problems.append(error)
            raise

    try:
        lance.write_dataset(pa.RecordBatchReader.from_batches(schema, watched()), str(target))
        return _look_at(target, rows)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of the engine are BaseExceptions
        cause = problems[0] if problems and not isinstance(problems[0], GeneratorExit) else error
        if isinstance(cause, Problem):
            raise cause from None
        raise _failure(cause, "the table could not be stored") from error


def _look_at(folder: Path, rows: int | None = None) -> int:
    """Open a table and read of it, so that none is published that cannot be read."""
    import lance

    dataset = lance.dataset(str(folder))
    count = dataset.count_rows()
    if rows is not None and count != rows:
        raise Problem(500, f"{rows} rows were written and {count} can be read")
    if count:
        dataset.take([0, count - 1])
    return int(dataset.version)


def _failure(error: BaseException, what: str) -> Problem:
    text = str(error)
    full = any(sign in text for sign in ("No space left", "os error 28", "Disk quota", "Permission denied"))
    if full or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS)):
        return Problem(507, f"{what}: the disk is full or cannot be written to")
    return Problem(400, f"{what}: {first_words(error)}")


def first_words(error: BaseException) -> str:
    """Keep the engine's reason, without the places in its source."""
    text = re.split(r",? ?(?:/[^ ]*)?/?rust/[^ ]*\.rs", str(error) or type(error).__name__)[0]
    return " ".join(text.split())[:300].rstrip(" ,:")


def _alter(folder: Path, changes: list[dict[str, Any]]) -> int:
    import lance

    dataset = lance.dataset(str(folder))
    before = dataset.version
    try:
        dataset.alter_columns(*cast("list[Any]", changes))
        return _look_at(folder)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of the engine are BaseExceptions
        if "ommit conflict" in str(error):
            raise _Conflict(first_words(error)) from error
        _restore(folder, before)
        raise _failure(error, "the engine refuses the change, and nothing was changed") from error


def _restore(folder: Path, version: int) -> None:
    """Go back to the version before, where a failing change left another one."""
    import lance

    dataset: Any = lance.dataset(str(folder))
    if dataset.version != version:
        dataset.checkout_version(version).restore()
