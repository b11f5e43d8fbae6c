"""Tables in a folder: ``ROOT/NAME.lance``, created whole or not at all.

A table is written into ``ROOT/.rt_frames-staging``, read back, and published by one
rename, or committed as the next version of the table that it replaces. Changes to an
existing table lock its folder. Several processes may serve one root.

Each request locks its own staging folder. A folder without a lock was left by a killed
process, or belongs to a multipart write between two requests. Each write first removes
the folders that killed processes left, abandoned multipart writes, and expired versions
of its table. A dropped table is renamed in staging, and then its files are removed.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import lance
import pyarrow as pa

from rt_frames.local import (
    begun,
    cleanup,
    commits,
    compaction,
    engine,
    manifests,
    merge,
    patience,
    replace_where,
)
from rt_frames.local.http_error import HTTPError
from rt_frames.local.root import FOLDER_MODE, STAGING

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
STAGED = re.compile(r"[0-9a-f]{32}")
# a table that was dropped, until its files are removed
_DROPPED = re.compile(r"[0-9a-f]{32}\.dropped")
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_ATTEMPTS = 4
KEEP = datetime.timedelta(days=1)
# seconds between two attempts to take a lock
MAX_PAUSE = 0.02
# between two searches for files that killed processes left in a table
SEARCH_SECONDS = 3600
# a file next to staged rows, with the name of their table; removed by commit and drop
UPLOAD = "upload"


class Missing(HTTPError):
    """404 for a table that does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(404, f"table {name!r} does not exist")


class Store:
    """The tables of one folder.

    Parameters
    ----------
    root : path
        The folder.
    keep : datetime.timedelta
        How long to keep replaced versions of a table, and uncompleted multipart writes.
    """

    def __init__(self, root: Path, keep: datetime.timedelta = KEEP) -> None:
        self.root = root.resolve()
        self.keep = keep
        self.staging = self.root / STAGING
        # a table's folder → when files of killed processes were last looked for
        self._searched: dict[Path, float] = {}

    def _make_folder(self) -> None:
        """Create root and staging, which somebody may have removed meanwhile."""
        self.root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        self.staging.mkdir(mode=FOLDER_MODE, exist_ok=True)

    def names(self, after: str = "") -> Iterator[str]:
        """Yield the tables with names greater than ``after``, sorted.

        Each is looked at only when it is asked for: lists come in pages.
        """
        for name in sorted(name for name in self._list_names() if name > after):
            versions = f"{self.root}/{name}.lance/_versions"
            if _NAME.fullmatch(name) and os.path.isdir(versions):  # noqa: PTH112  # a third of pathlib's time
                yield name

    def _list_names(self) -> list[str]:
        """List the names of what may be tables, as the folder spells them."""
        files = []
        # the folder may have been removed
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            files = [entry.name for entry in os.scandir(self.root)]
        return [
            file.removesuffix(".lance") for file in files if file.endswith(".lance")
        ]

    def check_free(self, name: str, *, replace: bool = False) -> None:
        """Refuse an invalid name, and a taken name unless its table is replaced."""
        folder = self._folder(name)
        if name.lower().endswith(".lance") and not self._is_table(name):
            raise HTTPError(
                400,
                f"{name!r} ends in '.lance', as the folders of tables do; nothing was changed; "
                f"name the table {name[: name.lower().index('.lance')]!r}",
            )
        # another process may create or drop the table between two checks
        for _ in range(_ATTEMPTS):
            if replace and self._is_table(name):
                return
            with contextlib.suppress(FileNotFoundError):
                if not os.path.lexists(folder):
                    return
                if folder.is_dir() and not any(folder.iterdir()):
                    return
        raise self._taken(name)

    def check_there(self, name: str) -> None:
        """Raise `Missing` if no table has the name."""
        if not self._is_table(name):
            raise Missing(name)

    def open(self, name: str, version: int | None = None) -> Any:
        """Open a table for reading, at its newest version by default."""
        self.check_there(name)
        with self._reading(name):
            return engine.open_table(self._folder(name), version)

    def naming_damage(self, name: str, table: Any) -> AbstractContextManager[None]:
        """Raise, in place of an error in Lance's words, one that names a file."""
        return commits.naming_damage(self._folder(name), table)

    def etag(self, name: str, version: int) -> str:
        """Return the ETag of a version of a table."""
        with self._reading(name), engine.as_http_errors():
            return manifests.etag(self._folder(name), version)

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Enter to read a table. If it was dropped meanwhile, that is the error."""
        try:
            yield
        except Exception:
            self.check_there(name)
            raise

    def _taken(self, name: str) -> HTTPError:
        if self._is_table(name):
            return HTTPError(409, f"table {name!r} already exists")
        for other in self.names():
            with contextlib.suppress(FileNotFoundError):
                if self._folder(other).samefile(self._folder(name)):
                    return HTTPError(
                        409,
                        f"table {other!r} already exists, and this file system does not "
                        f"distinguish {name!r} from it",
                    )
        return HTTPError(
            400,
            f"'{name}.lance' in the service's folder is not a table, so it is not replaced; "
            "nothing was changed; remove it, or choose another name",
        )

    def _is_table(self, name: str) -> bool:
        folder = self._folder(name)
        with engine.as_http_errors():
            if not (folder / "_versions").is_dir():
                return False
        # a file system that folds case opens table a by the path of A, but lists only a
        folds_case = folder.with_name(folder.name.swapcase()).exists()
        return not folds_case or name in self._list_names()

    def _folder(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise HTTPError(
                400,
                f"{name!r:.200} is not a valid table name; use 1 to 128 of A-Z, a-z, 0-9, "
                "'_', '-' and '.', and no '.' at the start",
            )
        return self.root / f"{name}.lance"

    def create(
        self,
        name: str,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        *,
        replace: bool = False,
        etag: str = "",
    ) -> int:
        """Write a table in staging, check that it can be read, and publish it.

        With an ETag, only if it replaces the table that has it. Return the version.
        """
        if etag:
            self.check_there(name)
        # now, so that the new rows have the space of expired versions
        if replace:
            with contextlib.suppress(Missing), self.locked_table(name) as target:
                _check_unchanged(target, etag)
                self.forget_versions(target)
        with (
            engine.as_http_errors(cure=engine.advise_on_codes(schema)),
            self._temporary_folder() as folder,
        ):
            staged = folder / "table"
            version = commits.create(staged, schema, batches)
            if etag:
                with self.locked_table(name) as target:
                    _check_unchanged(target, etag)
                    return commits.replace(target, [staged], max_retries=0)
            new_version = self._publish(staged, name, replace=replace)
            return version if new_version is None else new_version

    def append(
        self, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
    ) -> int:
        """Append all rows to a table, or none; return its new version."""
        with (
            engine.as_http_errors(),
            self.append_folder(name) as folder,
        ):
            staged = lance.dataset(str(folder))
            fragments = engine.stage_append(staged, schema, batches)
            with self.locked_table(name) as target:
                _check_not_dropped(folder)
                table = compaction.merge_small(target)
                return commits.append(target.folder, table, staged, fragments)

    def replace_where(
        self,
        name: str,
        condition: str,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
    ) -> dict[str, int]:
        """Replace the rows that match; return the new version and their number."""
        with (
            engine.as_http_errors(),
            self.append_folder(name) as folder,
        ):
            staged = lance.dataset(str(folder))
            rows = replace_where.stage(staged, condition, schema, batches)
            with self.locked_table(name) as target:
                _check_not_dropped(folder)
                commit = replace_where.commit
                return _retry(target, partial(commit, staged, rows, condition))

    def merge(
        self,
        name: str,
        keys: list[str],
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
    ) -> dict[str, int]:
        """Upsert rows by key; return the new version and the counts."""
        with (
            engine.as_http_errors(),
            self._temporary_folder() as staged,
        ):
            folder = staged / "table"
            with self.locked_table(name) as target:
                merge.check(keys, schema, target.newest.schema)
                self.forget_versions(target)
                folder.mkdir()
                (folder / UPLOAD).write_text(name, "utf-8")
            merge.stage(folder, keys, schema, batches)
            with self.locked_table(name) as target:
                _check_not_dropped(folder)
                return _retry(target, partial(merge.commit, folder, keys))

    @contextlib.contextmanager
    def append_folder(self, name: str) -> Iterator[Path]:
        """Yield a staging folder with the manifest and the name of its table."""
        with self._temporary_folder() as staged:
            folder = staged / "table"
            with self.locked_table(name) as target:
                self.forget_versions(target)
                # with the ids of fields: without them, a column that was ever cast
                # would be null in the new rows
                manifests.copy(target.folder, target.versions[-1], folder)
                (folder / UPLOAD).write_text(name, "utf-8")
            yield folder

    def _publish(self, staged: Path, name: str, *, replace: bool) -> int | None:
        """Move a staged table into place.

        Return the new version if it replaced a table, else None.
        """
        target = self._folder(name)
        for _ in range(_ATTEMPTS):
            if replace:
                # `Missing` if the name is free
                with contextlib.suppress(Missing), self.locked_table(name) as old:
                    try:
                        return commits.replace(old, [staged])
                    except manifests.Damaged:
                        self._remove(target)
            try:
                commits.publish(staged, target)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
            else:
                return None
            if not replace:
                break
        raise self._taken(name)

    @contextlib.contextmanager
    def _temporary_folder(self) -> Iterator[Path]:
        self._wipe()
        folder = self.staging / uuid.uuid4().hex
        with contextlib.ExitStack() as locks:
            # or `_wipe` in another process could remove it before it is locked
            with locked(self.staging):
                folder.mkdir(mode=FOLDER_MODE)
                locks.enter_context(locked(folder, shared=True))
            try:
                yield folder
            finally:
                if not _is_multipart(folder):
                    shutil.rmtree(folder, ignore_errors=True)

    def _wipe(self) -> None:
        """Remove staging folders of dead processes and abandoned multipart writes."""
        self._make_folder()
        with locked(self.staging):
            expired = time.time() - max(self.keep, cleanup.IN_USE).total_seconds()
            for folder in self._folders():
                # BlockingIOError: in use; FileNotFoundError: removed meanwhile
                with (
                    contextlib.suppress(BlockingIOError, FileNotFoundError),
                    locked(folder, wait=False),
                ):
                    # once locked: until then, a request may make it multipart
                    if _is_multipart(folder):
                        last_request = (folder / "table" / "parts").stat().st_mtime
                        if last_request > expired:
                            continue
                    shutil.rmtree(folder, ignore_errors=True)
            for folder in self.staging.iterdir():
                if _DROPPED.fullmatch(folder.name):
                    _delete(folder)

    def _folders(self) -> Iterator[Path]:
        """Yield the staging folders, leaving out anything that others put there."""
        for folder in self.staging.iterdir():
            if not STAGED.fullmatch(folder.name):
                continue
            if folder.is_symlink() or not folder.is_dir():
                continue
            with contextlib.suppress(FileNotFoundError):
                if all(entry.name == "table" for entry in folder.iterdir()):
                    yield folder

    def change(
        self,
        name: str,
        change: Callable[[Path, engine.Locked], T],
        spared: int | None = None,
    ) -> T:
        """Change a table by one commit. Version ``spared`` is kept, even if expired.

        The change gets a path in staging, and the table.
        """
        with contextlib.ExitStack() as contexts:
            with engine.as_http_errors():
                staged = contexts.enter_context(self._temporary_folder())
            target = contexts.enter_context(self.locked_table(name))
            self.forget_versions(target, spared)
            return _retry(target, partial(change, staged / "table"))

    def end_idle_writes(self, name: str) -> None:
        """Remove the rows of a table's multipart writes, unless a part arrives."""
        for staged in self._folders():
            with (
                contextlib.suppress(BlockingIOError, FileNotFoundError),
                locked(staged, wait=False),
            ):
                if (staged / "table" / UPLOAD).read_text("utf-8") == name:
                    shutil.rmtree(staged, ignore_errors=True)

    def forget_versions(self, target: engine.Locked, spared: int | None = None) -> None:
        """Remove a table's old versions, and once an hour files in none of them."""
        now = time.monotonic()
        since = now - SEARCH_SECONDS
        searches = self._searched.copy().items()
        recent = {searched: at for searched, at in searches if at > since}
        is_due = target.folder not in recent
        has_removed = cleanup.forget_versions(
            target, self.keep, spared, finds_lost=is_due
        )
        if has_removed and is_due:
            self._searched = {**recent, target.folder: now}

    def drop(self, name: str) -> None:
        """Drop a table atomically. Open readers lose its files."""
        with self.locked_table(name) as target, engine.as_http_errors():
            self._make_folder()
            self._remove(target.folder)
            # staged rows must not reach a later table of the same name
            for staged in self._folders():
                upload = staged / "table" / UPLOAD
                with contextlib.suppress(FileNotFoundError):
                    if upload.read_text("utf-8") == name:
                        upload.unlink()
            self._wipe()

    def _remove(self, target: Path) -> None:
        """Remove a table at once, and then its files.

        It is renamed, not moved into a new folder, for which a full disk has no room.
        """
        dropped = self.staging / f"{uuid.uuid4().hex}.dropped"
        patience.current().check()
        target.rename(dropped)
        # or a power cut could bring back a table without its files
        commits.sync_done([self.root])
        _delete(dropped)

    @contextlib.contextmanager
    def locked_table(self, name: str) -> Iterator[engine.Locked]:
        """Lock a table's folder against changes by other threads and processes."""
        folder = self._folder(name)
        exists = False
        with contextlib.ExitStack() as locks:
            with (
                engine.as_http_errors(),
                contextlib.suppress(FileNotFoundError, NotADirectoryError),
            ):
                handle = locks.enter_context(locked(folder))
                is_same = os.path.samestat(os.fstat(handle), folder.stat())
                exists = is_same and self._is_table(name)
            # the previous holder of the lock may have dropped or replaced the folder
            if not exists:
                raise Missing(name)
            locks.enter_context(commits.naming_damage(folder))
            locks.enter_context(begun.marking_writes(folder))
            yield engine.Locked(folder)


def _delete(dropped: Path) -> None:
    """Remove the files of a dropped table, or the link that it was."""
    if dropped.is_symlink():
        dropped.unlink(missing_ok=True)
    else:
        shutil.rmtree(dropped, ignore_errors=True)


def _check_unchanged(target: engine.Locked, etag: str) -> None:
    """Raise 409 if the table no longer has the ETag. Empty matches any."""
    if etag and etag != manifests.etag(target.folder, target.versions[-1]):
        raise HTTPError(
            409, "the table's ETag is not the one in If-Match; nothing was changed"
        )


def _retry(target: engine.Locked, attempt: Callable[[engine.Locked], T]) -> T:
    """Repeat an attempt if a process that does not lock the table was faster."""
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(engine.Conflict):
            return attempt(target)
        target = engine.Locked(target.folder)
    return attempt(target)


def _check_not_dropped(staged: Path) -> None:
    if not (staged / UPLOAD).exists():
        raise engine.Conflict(
            409,
            "the table was dropped while its rows were sent; nothing was stored; send them again",
        )


def _is_multipart(staged: Path) -> bool:
    """Return whether a staging folder belongs to an open multipart write."""
    folder = staged / "table"
    return (folder / UPLOAD).exists() and (folder / "parts").exists()


@contextlib.contextmanager
def locked(folder: Path, *, shared: bool = False, wait: bool = True) -> Iterator[int]:
    """Lock a folder, also against other processes; yield its descriptor.

    With ``wait=False``, raise BlockingIOError if somebody else holds the lock.
    """
    # for type checkers: Windows has no fcntl, and `rt_frames.local` refuses it
    if sys.platform == "win32":
        raise NotImplementedError
    lock_mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    pause = 0.001
    # of a FIFO, open would wait for a writer
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while not _try_lock(handle, lock_mode, folder):
            if not wait:
                raise BlockingIOError
            patience.current().wait(pause)
            pause = min(2 * pause, MAX_PAUSE)
        yield handle
    finally:
        # OSError if the lock itself failed
        with contextlib.suppress(OSError):
            # explicitly: a process that was forked meanwhile has the handle, too
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _try_lock(handle: int, mode: int, folder: Path) -> bool:
    """Take a lock that nobody else holds. Return whether it was taken."""
    # for type checkers, as above
    if sys.platform == "win32":
        raise NotImplementedError
    try:
        fcntl.flock(handle, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        reason = (
            "the file system does not support locks, which keep writers apart; "
            "use a folder on another file system"
        )
        raise OSError(error.errno, reason, str(folder)) from None
    return True
