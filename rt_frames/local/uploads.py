"""Multipart writes: each request stages one part, and a last request commits them all.

A write is a folder in the staging of a `Store`. The name of the folder is the upload
id, so every process on that root can find it. It holds the rows, the name of their
table and a file for each part, with the JSON of what was staged. Until a part has
arrived, the file is empty, and its name is longer: a proxy may send a part twice, even
at once. Nothing is locked between requests, so an abandoned write ends by its age, or
with its table.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from rt_frames.local import commits, engine, manifests
from rt_frames.local.http_error import HTTPError
from rt_frames.local.store import (
    STAGED,
    UPLOAD,
    Missing,
    Store,
    locked,
)


class _NoUpload(HTTPError):
    """404 for an upload id that no open multipart write has."""

    def __init__(self) -> None:
        super().__init__(
            404,
            "unknown upload_id; the multipart write was completed, aborted or expired, or its "
            "table was dropped or purged",
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
            return folder.parent.name, manifests.newest_version(folder)

    def add_part(
        self,
        name: str,
        upload_id: str,
        part: str,
        *,
        replace: bool,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        content: Callable[[], str],
    ) -> None:
        """Write a part, invisible until the commit.

        ``content`` tells its content from any other, once the batches were read. A part
        that is there with the same content is left as it is.
        """
        fragments_json: list[str] | None = None
        with (
            engine.as_http_errors(),
            self._upload_folder(name, upload_id) as folder,
            _arriving(folder / "parts", part) as arriving,
        ):
            try:
                if replace:
                    table = folder / "replacing" / arriving.name
                    commits.create(table, schema, batches)
                else:
                    draft = lance.dataset(str(folder))
                    fragments = engine.stage_append(draft, schema, batches)
                    fragments_json = [json.dumps(each.to_json()) for each in fragments]
                staged = {
                    "content": content(),
                    "fragments": fragments_json,
                    "table": arriving.name,
                }
                with self._store.locked_table(name):
                    _check_open(folder)
                    _keep(folder / "parts" / part, arriving, staged)
            except BaseException:
                # if the write has ended meanwhile, that is the reason to report
                with contextlib.suppress(Missing), self._store.locked_table(name):
                    _check_open(folder)
                raise

    def complete(self, name: str, upload_id: str) -> int:
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
                if (folder / UPLOAD).read_text("utf-8") != name:
                    raise _NoUpload
                locks.enter_context(locked(folder.parent, shared=True))
            except FileNotFoundError:
                raise _NoUpload from None
            yield folder
            # absent if the write has ended
            with contextlib.suppress(FileNotFoundError):
                os.utime(folder / "parts")


def _commit(target: engine.Locked, folder: Path) -> int:
    """Append the parts to the table, or replace its rows; return its version."""
    files = sorted((folder / "parts").iterdir())
    staged = [file for file in files if not file.suffix]
    arriving = {file.stem for file in files if file.suffix}
    if not arriving.issubset(file.name for file in staged):
        raise engine.Conflict(
            409,
            "a part is still being sent; nothing was stored; complete the write after it",
        )
    parts = [json.loads(file.read_text("utf-8")) for file in staged]
    if not parts:
        return target.versions[-1]
    added = [part["fragments"] for part in parts if part["fragments"] is not None]
    if not added:
        tables = [folder / "replacing" / part["table"] for part in parts]
        return commits.replace_by_parts(target, folder, tables)
    if len(added) < len(parts):
        raise HTTPError(
            400,
            "some parts add rows and others replace them; nothing was changed; send all in "
            "one mode",
        )
    fragments_json = itertools.chain.from_iterable(added)
    fragments = [*map(lance.FragmentMetadata.from_json, fragments_json)]
    draft = lance.dataset(str(folder))
    return commits.append(target.folder, target.newest, draft, fragments)


@contextlib.contextmanager
def _arriving(parts: Path, part: str) -> Iterator[Path]:
    """Yield the empty file of a part that has not arrived yet."""
    path = parts / f"{part}.{uuid.uuid4().hex}"
    try:
        path.touch()
    except FileNotFoundError:
        raise _NoUpload from None
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _keep(path: Path, arriving: Path, staged: dict[str, Any]) -> None:
    """Keep what was staged for a part, unless it is there.

    Raise 409 if it is there with other content.
    """
    if not path.exists():
        arriving.write_text(json.dumps(staged), "utf-8")
        arriving.rename(path)
    elif json.loads(path.read_text("utf-8"))["content"] != staged["content"]:
        raise HTTPError(
            409,
            f"part {path.name!r} was already sent, with other content; give each part its own id",
        )


def _check_open(folder: Path) -> None:
    """Raise 404 if the write has ended, and remove rows that were staged since."""
    if not (folder / UPLOAD).exists():
        shutil.rmtree(folder.parent, ignore_errors=True)
        raise _NoUpload
