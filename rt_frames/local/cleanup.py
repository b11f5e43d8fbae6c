"""Remove old versions of a table, and files that killed processes left."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import time
from pathlib import Path
from typing import Any

import lance

from rt_frames.local import begun, commits, engine, manifests

# overwrites that are kept before the next one
MAX_OVERWRITES = 9
# versions that go before one write
MAX_FORGOTTEN = 300
# an unreferenced file younger than this may belong to a write in progress
IN_USE = datetime.timedelta(hours=1)
# a clock that shows an earlier time is wrong, as one that begins in 1970
_FIRST = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC).timestamp()


def forget_versions(
    target: engine.Locked,
    keep: datetime.timedelta,
    spared: int | None = None,
    *,
    finds_lost: bool = True,
) -> bool:
    """Remove versions replaced longer than ``keep`` ago or before the ninth overwrite.

    Overwrites are counted from the newest. Lance reads every manifest for a clean-up,
    so expired versions wait until they are a tenth of all, and some hundred go at once.
    With ``finds_lost``, files that killed processes left are removed, too, for which
    Lance reads all manifests twice. Return whether there was something to remove.
    """
    # a clean-up that fails is repeated before the next write
    with contextlib.suppress(Exception):
        folder = target.folder
        versions = target.versions
        expired = _count_replaced(folder, versions, keep)
        if expired < len(versions) // 10:
            expired = 0
        if not expired and len(versions) <= MAX_OVERWRITES:
            return False
        overwritten = _count_overwritten(target.newest, versions)
        outdated = versions[: max(expired, overwritten)][:MAX_FORGOTTEN]
        if spared in outdated:
            outdated.remove(spared)
        # Lance follows links, and would remove the files of others (pylance 14)
        if outdated and not has_link(folder):
            _remove_versions(folder, target.newest, outdated, keep, finds_lost)
            return True
    return False


def purge_versions(folder: Path) -> None:
    """Remove all versions but the newest, and files that killed processes left."""
    versions = manifests.list_versions(folder)
    table = engine.open_table(folder)
    _remove_versions(folder, table, versions[:-1], IN_USE)
    for damaged in folder.glob("_versions/*.damaged"):
        damaged.unlink()
    begun.remove(folder, table)


def _remove_versions(
    folder: Path,
    table: Any,
    versions: list[int],
    keep: datetime.timedelta,
    finds_lost: bool = True,
) -> None:
    commits.sync_table(folder, table)
    options = {"versions": versions, "error_if_tagged_old_versions": False}
    lost = []
    try:
        # the files of a manifest that was set aside may be wanted
        if finds_lost and not [*folder.glob("_versions/*.damaged")]:
            lost = table.explain_cleanup_old_versions(
                delete_unverified=True, include_files=True, **options
            ).candidate_files
        table.cleanup_old_versions(**options)
    except BaseException as error:
        # panics; Lance reads all manifests (pylance 14)
        damaged = engine.list_damaged(folder, table) if engine.is_damage(error) else []
        if not damaged:
            raise
        manifests.set_aside(folder, damaged)
        left = [version for version in versions if version not in damaged]
        _remove_versions(folder, table, left, keep, finds_lost)
        return
    unused_since = time.time() - max(keep, IN_USE).total_seconds()
    _remove_unreferenced(folder, lost, unused_since)


def _count_replaced(folder: Path, versions: list[int], age: datetime.timedelta) -> int:
    """Count the versions that were replaced longer ago than this.

    A version was replaced when the next one was written, or the one after that, if the
    next one's clock was wrong: it is before the version's own time, before any table of
    this package, or in the future.
    """
    seconds = age.total_seconds()
    now = time.time()

    def written_at(version: int) -> float:
        return manifests.locate(folder, version).stat().st_mtime

    # or all would go if this clock is ahead; if it is not, the next write asks again
    newest = written_at(versions[-1])
    if now > newest + 2 * seconds:
        now = newest
    for index, version in enumerate(versions[:-1]):
        own = written_at(version)
        since = own if _FIRST <= own <= now else _FIRST
        later = map(written_at, itertools.islice(versions, index + 1, None))
        replaced = next((at for at in later if since <= at <= now), now)
        if replaced > now - seconds:
            return index
    return len(versions) - 1


def _count_overwritten(table: Any, versions: list[int]) -> int:
    """Count the versions before the ninth overwrite from the end.

    0 if the newest version is not an overwrite.
    """
    if not _is_overwrite(table, versions[-1]):
        return 0
    overwrites = 0
    for index in reversed(range(len(versions))):
        overwrites += _is_overwrite(table, versions[index])
        if overwrites == MAX_OVERWRITES:
            return index
    return 0


def _is_overwrite(table: Any, version: int) -> bool:
    operation = getattr(engine.read_transaction(table, version), "operation", None)
    return isinstance(operation, lance.LanceOperation.Overwrite)


def has_link(folder: Path) -> bool:
    """Return whether something in a table's folder is a link."""
    for place, folders, files in os.walk(folder):
        if any((Path(place) / name).is_symlink() for name in (*folders, *files)):
            return True
    return False


def _locate(folder: Path, file: Any) -> Path:
    path: str = file.path
    return folder / path.rpartition(f"{folder.name}/")[2]


def _remove_unreferenced(folder: Path, files: list[Any], before: float) -> None:
    """Remove files that killed processes left. pylance 14 keeps them for a week."""
    for file in files:
        path = _locate(folder, file)
        with contextlib.suppress(OSError):
            if file.unverified and path.stat().st_mtime < before:
                path.unlink()
