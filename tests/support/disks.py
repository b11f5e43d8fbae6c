"""Disks that fail: one call at a time (`failing.c`), or for lack of room."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SOURCE = Path(__file__).with_name("failing.c")
_CONTROL = struct.Struct("iii")


class FailingCalls:
    """Writes below a folder, of which one fails in every process that `env` starts.

    Parameters
    ----------
    work : Path
        Where the library is built.
    folder : Path
        The folder. Calls for other files work.
    """

    def __init__(self, work: Path, folder: Path) -> None:
        library = work / "failing.so"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", library, _SOURCE, "-ldl"], check=True
        )
        control = work / "control"
        control.write_bytes(bytes(_CONTROL.size))
        with control.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), 0)
        self.env = {
            "LD_PRELOAD": str(library),
            "FAILING_CONTROL": str(control),
            "FAILING_FOLDER": str(folder),
        }

    @staticmethod
    def can_be_built() -> bool:
        return shutil.which("cc") is not None

    @contextlib.contextmanager
    def fail(self, call: int, number: int) -> Iterator[None]:
        """Let one call fail, counted from 1, with an errno."""
        self._control[:] = _CONTROL.pack(call, number, 0)
        yield
        self.seen = _CONTROL.unpack(self._control[:])[2]
        self._control[:] = bytes(_CONTROL.size)


@contextlib.contextmanager
def small_disk(work: Path) -> Iterator[Path]:
    """Mount a file system of 8 MB with blocks of 1 kB; OSError if it cannot be."""
    image = new_disk(work / "disk", 8 * 2**20, "-b", "1024")
    with mounted(image, work / "mounted") as folder:
        yield folder


def new_disk(image: Path, size: int, *options: str) -> Path:
    """Make an ext4 file system in a file; OSError if it cannot be."""
    with image.open("wb") as file:
        file.truncate(size)
    _call("mkfs.ext4", "-q", "-m", "0", *options, image)
    return image


@contextlib.contextmanager
def mounted(image: Path, folder: Path, *options: str) -> Iterator[Path]:
    """Mount a file system that is in a file; OSError if it cannot be."""
    folder.mkdir(exist_ok=True)
    _call("mount", "-o", ",".join(["loop", *options]), image, folder)
    try:
        yield folder
    finally:
        _call("umount", "-l", folder)


def _call(*command: object) -> None:
    ended = subprocess.run(
        [*map(str, command)], check=False, capture_output=True, text=True
    )
    if ended.returncode:
        raise OSError(f"{command[0]}: {ended.stderr}")


def fill(folder: Path, blocks: int) -> Path:
    """Fill a disk until so many blocks are free; return the file that does it."""
    path = folder / "ballast"
    free = os.statvfs(folder)
    size = (free.f_bavail - blocks) * free.f_frsize
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    # a file in many pieces takes another block for their list
    with contextlib.suppress(OSError):
        os.posix_fallocate(descriptor, 0, size)
    os.posix_fallocate(descriptor, 0, size - free.f_frsize)
    os.close(descriptor)
    return path
