"""The manifests of a table, one for each version, without Lance."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pathlib import Path

from rt_frames.local.root import FOLDER_MODE


def copy(folder: Path, version: int, staged: Path) -> None:
    """Copy the manifest of a version to a new folder of a table."""
    staged.mkdir(mode=FOLDER_MODE)
    (staged / "_versions").mkdir()
    shutil.copy(locate(folder, version), staged / "_versions")


def locate(folder: Path, version: int) -> Path:
    """Return the manifest of a version.

    Manifests are numbered down from 2**64 - 1, in older tables up from 1.
    """
    versions = folder / "_versions"
    manifest = versions / f"{2**64 - 1 - version:020}.manifest"
    if manifest.exists():
        return manifest
    return versions / f"{version}.manifest"


def newest_version(folder: Path) -> int:
    """Return the newest version, even if its manifest cannot be read."""
    versions = list_versions(folder)
    if not versions:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return versions[-1]


def list_versions(folder: Path) -> list[int]:
    """List the versions that exist, oldest first, without reading their manifests."""
    with os.scandir(folder / "_versions") as files:
        names = [file.name.removesuffix(".manifest") for file in files]
    numbers = [int(name) for name in names if name.isdigit()]
    return sorted(min(number, 2**64 - 1 - number) for number in numbers)


def etag(folder: Path, version: int | None = None) -> str:
    """Return an ETag: a hash of the manifest of a version, by default the newest."""
    manifest = locate(folder, version or newest_version(folder))
    return hashlib.sha256(manifest.read_bytes()).hexdigest()
