"""The manifests of a table, one for each version, without Lance."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
from pathlib import Path

from rt_frames.local import begun
from rt_frames.local.http_error import HTTPError
from rt_frames.local.root import FOLDER_MODE

log = logging.getLogger("rt_frames")

# keys of a manifest's members: the number of each, and the kind of its value
_FIELD = 1 << 3 | 2
_FRAGMENT = 2 << 3 | 2
_VERSION = 3 << 3
END = b"LANC"
# a power cut leaves whole blocks of a file, or zeros in their place
_BLOCK_BYTES = 512
# manifests that were read last
_KEPT = 4


def copy(folder: Path, version: int, staged: Path) -> None:
    """Copy the manifest of a version to a new folder of a table."""
    staged.mkdir(mode=FOLDER_MODE)
    (staged / "_versions").mkdir()
    manifest = locate(folder, version)
    (staged / "_versions" / manifest.name).write_bytes(read(manifest))


def read(manifest: Path) -> bytes:
    """Return the bytes of a manifest, which is read once unless it is changed."""
    state = manifest.stat()
    return _read(manifest, (state.st_ino, state.st_ctime_ns, state.st_size))


@functools.lru_cache(_KEPT)
def _read(manifest: Path, _state: tuple[int, ...]) -> bytes:
    return manifest.read_bytes()


def locate(folder: Path, version: int) -> Path:
    """Return the manifest of a version.

    Manifests are numbered down from 2**64 - 1, in older tables up from 1.
    """
    versions = folder / "_versions"
    manifest = versions / f"{2**64 - 1 - version:020}.manifest"
    if manifest.exists():
        return manifest
    return versions / f"{version}.manifest"


class Damaged(HTTPError):
    """An error of a table that cannot be opened, and so not be changed."""


def newest_version(folder: Path) -> int:
    """Return the newest version that no power cut has cut."""
    return _list_whole(folder)[0][-1]


def set_aside_cut(folder: Path) -> list[int]:
    """Set aside the manifests that a power cut has cut, with which every write fails.

    The next write uses their numbers again. Return the other versions, oldest first.
    """
    versions, cut = _list_whole(folder)
    set_aside(folder, cut)
    return versions


def set_aside_newest(folder: Path) -> bool:
    """Set aside the newest manifest of several; return whether there are."""
    versions = list_versions(folder)
    if len(versions) > 1:
        set_aside(folder, versions[-1:])
    return len(versions) > 1


def set_aside(folder: Path, versions: list[int]) -> None:
    """Rename manifests, and list the files that came with them, for a purge.

    The caller holds the table's lock.
    """
    for version in versions:
        older = [number for number in list_versions(folder) if number < version]
        since = locate(folder, older[-1]).stat().st_mtime if older else 0
        # what a disk without room does not list is removed an hour later
        with contextlib.suppress(OSError):
            begun.add(folder, since)
        manifest = locate(folder, version)
        manifest.rename(f"{manifest}.damaged")


def _list_whole(folder: Path) -> tuple[list[int], list[int]]:
    """List the versions but the newest ones that a power cut has cut, and those.

    A warning names those.
    """
    versions = list_versions(folder)
    cut: list[int] = []
    while versions:
        version = versions[-1]
        if _is_cut(folder, version):
            cut.append(versions.pop())
            continue
        for lost in cut:
            log.warning(
                "table %s: the manifest of version %d is not whole, as after a power cut; "
                "the newest whole one is %d",
                folder.stem,
                lost,
                version,
            )
        return versions, cut
    raise Damaged(
        500,
        "no version of the table has a whole manifest; drop or replace the table",
    )


def list_versions(folder: Path) -> list[int]:
    """List the versions that exist, oldest first, without reading their manifests."""
    with os.scandir(folder / "_versions") as files:
        names = [file.name.removesuffix(".manifest") for file in files]
    numbers = [int(name) for name in names if name.isdigit()]
    return sorted(min(number, 2**64 - 1 - number) for number in numbers)


def _is_cut(folder: Path, version: int) -> bool:
    # removed meanwhile, or damaged otherwise
    with contextlib.suppress(OSError, IndexError):
        manifest = read(locate(folder, version))
        if not manifest.endswith(END):
            # no power cut leaves another length, or other bytes at its end
            return len(manifest) % _BLOCK_BYTES == 0 or manifest.endswith(b"\0")
        return _read_version(manifest) not in (None, version)
    return False


def _read_version(manifest: bytes) -> int | None:
    """Return the version in a manifest: the number after the fields and fragments.

    0 if that was not written, None if this is no manifest.
    """
    # the length of the message comes first
    start = 4 + int.from_bytes(manifest[-16:-8], "little")
    key, number, start = _read_member(manifest, start)
    while key in (_FIELD, _FRAGMENT):
        key, number, start = _read_member(manifest, start + number)
    return {_VERSION: number, 0: 0}.get(key)


def _read_member(message: bytes, start: int) -> tuple[int, int, int]:
    """Return the key of a protobuf's member, its value or length, and where it ends."""
    key = message[start]
    number = shift = 0
    while True:
        start += 1
        number |= (message[start] & 0x7F) << shift
        shift += 7
        if message[start] < 0x80:
            return key, number, start + 1


def etag(folder: Path, version: int | None = None) -> str:
    """Return an ETag: a hash of the manifest of a version, by default the newest."""
    manifest = locate(folder, version or newest_version(folder))
    return hashlib.sha256(read(manifest)).hexdigest()
