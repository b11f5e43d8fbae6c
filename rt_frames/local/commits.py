"""Commit what was written: every version of a table is made by `commit`.

An error of a request has stored nothing, unless it comes from Lance's commit itself:
then the versions that came since tell whether it was made.

Lance 14 ignores an error of the last write to a data file or a file of deletions, as on
a full disk; a table with such a file cannot be read. So all that a commit refers to is
written and checked first, where no reader sees it:

- New rows go to staging, and are moved into the table's folder.
- An upsert has Lance write its files without a commit.
- A deletion, a replacement of the rows that match and a compaction do, too.
- Any other change is made in a draft, a copy of the table in staging.

What a version consists of is on the disk before its commit, and the commit before the
answer: a power cut loses no change that was answered for. Nothing in staging is synced.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lance
import pyarrow as pa
from lance import LanceOperation
from lance.bitmap import Bitmap
from lance.dataset import Transaction
from lance.fragment import write_fragments

from rt_frames._text import one_line
from rt_frames._threads import Worker, result
from rt_frames.local import engine, manifests, patience, scans
from rt_frames.local.http_error import HTTPError
from rt_frames.local.root import FOLDER_MODE

SYNC_THREADS = 8


class _File(NamedTuple):
    """A file of a table, and its size: the bytes of data, or the rows deleted."""

    # in the table's folder
    name: str
    size: int


def commit(
    folder: Path,
    table: Any,
    operation: Any,
    *,
    staged: Iterable[Path] = (),
    verify: Callable[[], object] | None = None,
    max_retries: int = 20,
    in_staging: bool = False,
) -> int:
    """Commit an operation, all or nothing; return the new version.

    Parameters
    ----------
    folder : Path
        The table's folder.
    table : lance.LanceDataset or None
        The table at the version that the operation was computed from; None for a new
        table.
    operation : lance.LanceOperation.BaseOperation
        The operation. Its new files are in the folder already, or in ``staged``.
    staged : iterable of Path
        Data files in staging, which are moved into the folder.
    verify : callable, optional
        A check after that of the files. Nothing is committed if it raises.
    max_retries : int
        How often Lance may put the operation behind versions committed meanwhile.
    in_staging : bool
        Whether the folder is one of staging, which a power cut may cost.
    """
    files = _list_new_files(table, operation)
    staged = [*staged]
    transaction = Transaction(
        # a table without rows is false
        read_version=0 if table is None else table.version,
        operation=operation,
        uuid=str(uuid.uuid4()),
    )
    try:
        _move(staged, folder / "data")
        _check_whole(folder, files)
        if verify:
            verify()
        if not in_staging:
            paths = [folder / file.name for file in files]
            sync({*paths, *(path.parent for path in paths)})
        patience.current().check()
        version = _commit(folder, table, transaction, max_retries)
    except _OutcomeUnknown:
        raise
    except BaseException:
        # Lance's panics are BaseExceptions (pylance 14)
        for path in staged:
            # for another attempt
            with contextlib.suppress(OSError):
                (folder / "data" / path.name).rename(path)
        for file in files:
            with contextlib.suppress(OSError):
                (folder / file.name).unlink()
        raise
    if not in_staging:
        manifest = manifests.locate(folder, version)
        sync_done([manifest, manifest.parent, folder])
    return version


class _OutcomeUnknown(HTTPError):
    """504 for a change that failed, and may have been made."""


def sync(paths: Iterable[Path]) -> None:
    """Let the disk keep files, and the names in folders, if the power fails now."""
    paths = list(paths)
    with contextlib.ExitStack() as stack:
        # together, they wait for the disk once; the last needs no thread
        others = paths[:-1]
        workers = [stack.enter_context(Worker("sync")) for _ in others[:SYNC_THREADS]]
        replies = [
            worker.submit(_sync, path)
            for worker, path in zip(itertools.cycle(workers), others, strict=False)
        ]
        for path in paths[-1:]:
            _sync(path)
        for reply in replies:
            result(reply)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # some file systems do not sync folders
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(handle)


def sync_done(paths: Iterable[Path]) -> None:
    """Sync a change that was made, whose outcome is unknown if that fails."""
    try:
        sync(paths)
    except OSError as error:
        raise _OutcomeUnknown(
            504,
            f"the change was made, and the disk may not keep it ({error.strerror}); check "
            "the disk and the table",
        ) from error


def sync_table(folder: Path, table: Any) -> None:
    """Sync a version that others may have committed, before older ones are removed."""
    files = [manifests.locate(folder, table.version)]
    for fragment in table.get_fragments():
        files += [folder / file.name for file in _list_files(fragment.metadata)]
    sync({folder, *files, *(file.parent for file in files)})


def publish(staged: Path, target: Path) -> None:
    """Rename a staged table, which the disk keeps then."""
    parts = ("data", "data/*", "_versions", "_versions/*.manifest")
    sync([staged, *itertools.chain.from_iterable(map(staged.glob, parts))])
    patience.current().check()
    staged.rename(target)
    sync_done([target.parent])


def _commit(
    folder: Path, table: Any, transaction: Transaction, max_retries: int
) -> int:
    try:
        # an open table spares Lance another reading of its manifest
        committed = lance.LanceDataset.commit(
            str(folder) if table is None else table,
            transaction,
            max_retries=max_retries,
        )
    except BaseException as error:
        # in staging, or made by others
        if table is None or engine.is_conflict(error):
            raise
        version = _find_commit(folder, table.version, transaction.uuid, error)
        if version is not None:
            return version
        with engine.as_http_errors():
            raise
    return int(committed.version)


def _find_commit(
    folder: Path, before: int, transaction_id: str, error: BaseException
) -> int | None:
    """Return the version that a failed commit has made all the same, or None."""
    try:
        newest = manifests.newest_version(folder)
        table = lance.dataset(str(folder), version=before)
        for version in range(before + 1, newest + 1):
            made: Any = table.read_transaction(version)
            if made.uuid == transaction_id:
                return version
    except BaseException:  # noqa: BLE001  # panics
        raise _OutcomeUnknown(
            504,
            f"the commit failed ({one_line(str(error), 200)}), and the table cannot be "
            "read, which would tell whether it was made; check the table",
        ) from error
    return None


def _list_new_files(table: Any, operation: Any) -> list[_File]:
    """List the files of an operation that the table does not have yet."""
    added, changed = _find_fragments(operation)
    files = []
    for fragment in added:
        files += _list_files(fragment)
    for fragment in changed:
        known = _list_files(table.get_fragment(fragment.id).metadata)
        files += [file for file in _list_files(fragment) if file not in known]
    return files


def _find_fragments(operation: Any) -> tuple[Iterable[Any], Iterable[Any]]:
    """Return the fragments that an operation adds, and those that it changes."""
    match operation:
        case LanceOperation.Append() | LanceOperation.Overwrite():
            return operation.fragments, []
        case LanceOperation.Update():
            return operation.new_fragments, operation.updated_fragments
        case LanceOperation.Delete():
            return [], operation.updated_fragments
        case LanceOperation.Merge():
            return [], operation.fragments
        case LanceOperation.Rewrite():
            groups = [group.new_fragments for group in operation.groups]
            return itertools.chain.from_iterable(groups), []
        case LanceOperation.Project() | LanceOperation.Restore():
            return [], []
    raise NotImplementedError(type(operation).__name__)


def _list_files(fragment: Any) -> list[_File]:
    files = [
        _File(f"data/{file.path}", file.file_size_bytes) for file in fragment.files
    ]
    deleted = fragment.deletion_file
    if deleted is not None:
        files.append(_File(deleted.path(fragment.id), deleted.num_deleted_rows))
    return files


def _move(staged: Iterable[Path], data: Path) -> None:
    paths = list(staged)
    if not all(path.exists() for path in paths):
        raise engine.Conflict(
            409,
            "the staged rows were removed meanwhile; nothing was stored; send them again",
        )
    if paths:
        data.mkdir(exist_ok=True)
    for path in paths:
        path.rename(data / path.name)


@contextlib.contextmanager
def naming_damage(folder: Path, table: Any = None) -> Iterator[None]:
    """Raise, in place of an error in Lance's words, one that names a damaged file.

    Without ``table``, it is one of the newest version.
    """
    try:
        yield
    except engine.Failed as error:
        limit = 1 if isinstance(error, engine.Blamed) else None
        check_readable(folder, table or engine.open_table(folder), limit)
        raise


def check_readable(folder: Path, table: Any, limit: int | None = None) -> None:
    """Raise for a damaged file; ``limit`` reads so many rows of each fragment."""
    options: dict[str, Any] = {"batch_size": 64, "io_buffer_size": scans.BUFFER_BYTES}
    # measuring reads rows, too, which may be the damaged ones
    with contextlib.suppress(engine.Failed), engine.as_http_errors(state=""):
        options = scans.options(table, None, None)
    for fragment in table.get_fragments():
        try:
            with engine.as_http_errors(state=""):
                rows = table.scanner(fragments=[fragment], limit=limit, **options)
                for _ in rows.to_reader():
                    pass
        except engine.Failed as error:
            files = _list_files(fragment.metadata)
            names = _list_cut(folder, files) or [file.name for file in files]
            raise HTTPError(
                500,
                f"{' or '.join(names)} of the table is damaged; {engine.RESTORE}",
            ) from error


def _check_whole(folder: Path, files: list[_File]) -> None:
    """Raise 507 if a file is not what Lance has written."""
    if _list_cut(folder, files):
        raise HTTPError(
            507,
            "the disk has not kept all that was written, as if it were full or failing; "
            "nothing was stored; make room or check the disk, and try again",
        )


def _list_cut(folder: Path, files: list[_File]) -> list[str]:
    cut = []
    for file in files:
        is_whole = False
        # whatever the reason, such a file must not become part of a table
        with contextlib.suppress(Exception):
            is_whole = _is_whole(folder / file.name, file.size)
        if not is_whole:
            cut.append(file.name)
    return cut


def _is_whole(path: Path, size: int) -> bool:
    if path.suffix == ".arrow":
        return path.read_bytes().endswith(b"ARROW1")
    if path.suffix == ".bin":
        # pylance 14 has no public function for this
        read: Any = Bitmap._from_bytes  # type: ignore[attr-defined]  # noqa: SLF001
        return len(read(path.read_bytes())) == size
    return path.stat().st_size == size


def create(folder: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
    """Write a new table, check that it can be read, and return its version."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    with engine.feeding(schema, batches) as (reader, counts):
        transaction = write_fragments(
            reader,
            str(folder),
            mode="create",
            return_transaction=True,
            data_cache_bytes=engine.cache_bytes(schema),
        )
    commit(folder, None, transaction.operation, in_staging=True)
    dataset = lance.dataset(str(folder))
    written = sum(counts)
    readable = dataset.count_rows()
    if readable != written:
        raise HTTPError(500, f"{written} rows were written and {readable} can be read")
    return engine.verify_readable(dataset)


def append(folder: Path, table: Any, staged: Any, fragments: list[Any]) -> int:
    """Append staged rows to their table in one commit; return the new version."""
    check_same_columns(table, staged)
    operation = LanceOperation.Append(fragments)
    return commit(folder, table, operation, staged=data_files(staged, fragments))


def check_same_columns(table: Any, staged: Any) -> None:
    """Raise 409 if rows were staged for other columns than the table has now."""
    if _identity(table) != _identity(staged):
        raise engine.Conflict(
            409,
            "the table's columns were changed while its rows were sent; nothing was stored; try "
            "again",
        )


def _identity(table: Any) -> tuple[pa.Schema, list[Any]]:
    """Return the schema and the field ids; equal schemas may have different ids."""

    def ids(fields: list[Any]) -> list[Any]:
        return [(field.id(), ids(field.children())) for field in fields]

    return table.schema, ids(table.lance_schema.fields())


def replace_by_parts(target: engine.Locked, staged: Path, parts: list[Path]) -> int:
    """Commit staged tables as the next version of a table.

    A `Conflict` if that table has changed since the staging began.
    """
    folder = target.folder
    newest = target.versions[-1]
    if manifests.etag(folder, newest) != manifests.etag(staged):
        raise engine.Conflict(
            409,
            "the table was changed while its new rows were sent; nothing was stored; try again",
        )
    return replace(target, parts, max_retries=0)


def replace(target: engine.Locked, tables: list[Path], **options: Any) -> int:
    """Commit staged tables as the next version of a table."""
    old = engine.open_past_damage(target)
    new = [lance.dataset(str(table)) for table in tables]
    fragments = []
    files = []
    for table in new:
        if table.schema != new[0].schema:
            raise HTTPError(
                400,
                "the parts have different columns; nothing was changed; send all in one schema",
            )
        added = [fragment.metadata for fragment in table.get_fragments()]
        fragments += added
        files += data_files(table, added)
    operation = LanceOperation.Overwrite(new[0].lance_schema, fragments)
    return commit(target.folder, old, operation, staged=files, **options)


def field_ids(fields: list[Any]) -> set[int]:
    """Return the ids of fields and of all inside them."""
    ids = set()
    for field in fields:
        ids.add(field.id())
        ids |= field_ids(field.children())
    return ids


def data_files(staged: Any, fragments: list[Any]) -> list[Path]:
    """Return the data files of fragments of a staged table."""
    files = []
    for fragment in fragments:
        files += [Path(staged.uri, "data", file.path) for file in fragment.files]
    return files


def draft(folder: Path, table: Any, staged: Path) -> Any:
    """Open a copy of a table, to change it where no reader sees it.

    The copy has a manifest of its own in ``staged``, and the files of the table: what
    Lance writes there is in the table's folder, and in none of its versions.
    """
    # of an earlier attempt
    shutil.rmtree(staged, ignore_errors=True)
    manifests.copy(folder, table.version, staged)
    # what pylance 14 cannot make through a link
    for name in ("data", "_deletions"):
        (folder / name).mkdir(exist_ok=True)
    for name in ("data", "_deletions", "_indices"):
        (staged / name).symlink_to(folder / name)
    return lance.dataset(str(staged))


def last_operation(changed: Any) -> Any:
    """Return what the last commit did, to commit it elsewhere."""
    return changed.read_transaction(changed.version).operation
