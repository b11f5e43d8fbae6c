"""Multipart writes: each request stages one part, and a last request commits them all.

A write is a folder in the staging of a `Store`. The name of the folder is the upload
id, so every process on that root can find it. It holds the rows, the name of their
table and a claim for each part: an empty file until the part has arrived, then the JSON
of its fragments (null if the part replaces rows). Nothing is locked between requests,
so an abandoned write ends by its age, or with its table.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from rt_frames.local import commits, engine
from rt_frames.local.http_error import HTTPError
from rt_frames.local.store import (
    STAGED,
    UPLOAD,
    Missing,
    Store,
    check_unchanged,
    locked,
)


class _NoUpload(HTTPError):
    """404 for an upload id that no open multipart write has."""

    def __init__(self) -> None:
        super().__init__(
            404,
            "unknown upload_id; the multipart write was completed, aborted or expired, or its "
            "table was dropped",
        )


class Uploads:
    """The multipart writes of one root.

    Parameters
    ----------
    store : Store
        The tables of that root.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, name: str) -> tuple[str, int]:
        """Begin a multipart write to a table; return its id, and the version."""
        with (
            engine.as_http_errors(),
            self._store.append_folder(name) as folder,
        ):
            # with this folder, staging outlives the request
            (folder / "parts").mkdir()
            return folder.parent.name, engine.newest_version(folder)

    def add_part(
        self,
        name: str,
        upload_id: str,
        part: str,
        *,
        replace: bool,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
    ) -> None:
        """Write a part, invisible until the commit."""
        fragments_json: list[str] | None = None
        with (
            engine.as_http_errors(),
            self._upload_folder(name, upload_id) as folder,
            _claimed(folder / "parts" / part) as claim,
        ):
            try:
                if replace:
                    commits.create(folder / "replacing" / part, schema, batches)
                else:
                    fragments_json = engine.stage_append(folder, schema, batches)
                with self._store.locked_table(name):
                    _check_open(folder)
                    claim.write_text(json.dumps(fragments_json))
            except BaseException:
                # if the write has ended meanwhile, that is the reason to report
                with contextlib.suppress(Missing), self._store.locked_table(name):
                    _check_open(folder)
                raise

    def complete(self, name: str, upload_id: str, etag: str = "") -> int:
        """Commit the parts in the order of their ids; return the new version."""
        with (
            engine.as_http_errors(),
            self._upload_folder(name, upload_id) as folder,
        ):
            try:
                with self._store.locked_table(name) as target:
                    _check_open(folder)
                    # first, so that a second request cannot commit again
                    (folder / UPLOAD).unlink()
                    check_unchanged(target, etag)
                    self._store.forget_versions(target)
                    return _commit(target, folder)
            finally:
                shutil.rmtree(folder.parent, ignore_errors=True)

    def abort(self, name: str, upload_id: str) -> None:
        """Abort a multipart write, and remove its parts."""
        with (
            engine.as_http_errors(),
            self._upload_folder(name, upload_id) as folder,
            self._store.locked_table(name),
        ):
            _check_open(folder)
            (folder / UPLOAD).unlink()
            shutil.rmtree(folder.parent, ignore_errors=True)

    @contextlib.contextmanager
    def _upload_folder(self, name: str, upload_id: str) -> Iterator[Path]:
        """Yield the folder of a multipart write, locked against clean-ups."""
        folder = self._store.staging / upload_id / "table"
        with contextlib.ExitStack() as locks:
            if not STAGED.fullmatch(upload_id):
                raise _NoUpload
            try:
                if (folder / UPLOAD).read_text() != name:
                    raise _NoUpload
                locks.enter_context(locked(folder.parent, shared=True))
            except FileNotFoundError:
                raise _NoUpload from None
            yield folder
            # absent if the write has ended
            with contextlib.suppress(FileNotFoundError):
                os.utime(folder / "parts")


def _commit(target: Path, folder: Path) -> int:
    """Append the parts to the table, or replace its rows; return its version."""
    claims = sorted((folder / "parts").iterdir())
    texts = [claim.read_text() for claim in claims]
    if "" in texts:
        raise engine.Conflict(
            409,
            "a part is still being sent; nothing was stored; complete the write after it",
        )
    parts = [json.loads(text) for text in texts]
    if not parts:
        return int(engine.open_table(target).version)
    replacing = parts.count(None)
    if replacing == len(parts):
        tables = [folder / "replacing" / claim.name for claim in claims]
        return commits.replace_by_parts(target, folder, tables)
    if replacing:
        raise HTTPError(
            400,
            "some parts add rows and others replace them; nothing was changed; send all in "
            "one mode",
        )
    return commits.append(target, folder, itertools.chain.from_iterable(parts))


@contextlib.contextmanager
def _claimed(path: Path) -> Iterator[Path]:
    """Create the claim of a part, and remove it on failure.

    Raise 409 if the part was sent before.
    """
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        raise HTTPError(
            409, f"part {path.name!r} was already sent; give each part its own id"
        ) from None
    except FileNotFoundError:
        raise _NoUpload from None
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _check_open(folder: Path) -> None:
    """Raise 404 if the write has ended, and remove rows that were staged since."""
    if not (folder / UPLOAD).exists():
        shutil.rmtree(folder.parent, ignore_errors=True)
        raise _NoUpload
