"""Call Lance, and translate its failures into HTTP errors.

Lance has threads of its own, so a process that used it must not fork and use it again.
Its panics are BaseExceptions. ``tests/local/test_relied_upon.py`` covers the texts of
its messages that this depends on.
"""

from __future__ import annotations

import bisect
import contextlib
import datetime
import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import lance.fragment
import pyarrow as pa
import pyarrow.types as is_

from rt_frames._schema.data_type import contains, show_type
from rt_frames._text import list_names, one_line
from rt_frames._threads import prefetch
from rt_frames.local.http_error import HTTPError
from rt_frames.local.root import FOLDER_MODE

# of a column; with larger pages, pylance 14 copies the data first
PAGE_BYTES = 2 * 2**20
# of all columns, until their pages are written
MAX_CACHE_BYTES = 2**27
# of a batch that may be in memory besides the next one
MAX_PREFETCHED_BYTES = 2**26
# overwrites that are kept before the next one
MAX_OVERWRITES = 9
# versions that go before one write
MAX_FORGOTTEN = 300
# an unreferenced file younger than this may belong to a write in progress
IN_USE = datetime.timedelta(hours=1)
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_ACCESS = (errno.EROFS, errno.EACCES)
# part of Lance's message → reason, cure
_REASONS = {
    "Cannot cast timezone": (
        "a time does not exist in that zone, or exists twice, as when clocks change",
        (
            "set the zone in the frame, with .dt.tz_localize(…, nonexistent=…, ambiguous=…), "
            "and store it again"
        ),
    ),
    "contains NULL values": (
        "the column contains nulls",
        "fill them, and store the table again",
    ),
}
_CONFLICT = re.compile(
    "commit conflict|concurrent transaction|concurrent writers", re.IGNORECASE
)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
# with a folder in its path: a file of the table
_NOT_FOUND = re.compile(r"not found: \S+/\S+", re.IGNORECASE)
# after the reason, Lance names a place in its source code
_SOURCE_PLACE = ".rs:"
_CAST_ERROR = "Cast error"
_INPUT_ERRORS = ("Invalid user input", "applying filter expression")
# what Lance writes before its reason
_WRAPPERS = re.compile(
    r"\A(?:Invalid user input: |External error: |Query Execution error: |Arrow error: "
    r"|Error applying filter expression to batch: |Schema error: |Error during planning: "
    r"|LanceError\(Arrow\): |Cast error: )+"
)


class Conflict(HTTPError):
    """A change by somebody else, at the same time, to the same table."""


@contextlib.contextmanager
def feeding(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatchReader, list[int]]]:
    """Yield a reader that prefetches one batch, and a list of the batches' row counts.

    Errors of the batches are raised unchanged; Lance would reword them.
    """
    counts: list[int] = []
    causes: list[Exception] = []

    def watched_batches() -> Iterator[pa.RecordBatch]:
        with contextlib.closing(prefetch(batches, _is_small)) as prefetched:
            try:
                for batch in prefetched:
                    counts.append(batch.num_rows)
                    yield batch
            except Exception as error:
                causes.append(error)
                raise

    try:
        yield pa.RecordBatchReader.from_batches(schema, watched_batches()), counts
    except BaseException as error:  # noqa: BLE001  # panics
        raise (causes[0] if causes else error) from None


def _is_small(batch: pa.RecordBatch) -> bool:
    return int(batch.nbytes) < MAX_PREFETCHED_BYTES


def advise_on_codes(schema: pa.Schema) -> str:
    """Return the cure for dictionaries that outgrow their codes, or ""."""
    narrow = narrow_dictionaries(schema)
    if not narrow:
        return ""
    return f"if dictionaries outgrow the codes of columns {list_names(narrow)}, send codes of int32"


def open_table(folder: Path, version: int | None = None, state: str = "") -> Any:
    """Open a table for reading, at a version or, by default, the newest.

    ``state`` ends the message if the version does not exist.
    """
    try:
        return lance.dataset(str(folder), version=version)
    except BaseException as error:
        # panics
        if version is None:
            raise
        raise HTTPError(
            404,
            f"version {version} does not exist or was removed{state}",
        ) from error


def copy_manifest(folder: Path, version: int, staged: Path) -> None:
    """Copy the manifest of a version to a new folder."""
    staged.mkdir(mode=FOLDER_MODE)
    (staged / "_versions").mkdir()
    shutil.copy(_manifest(folder, version), staged / "_versions")


def _manifest(folder: Path, version: int) -> Path:
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
    versions = _list_versions(folder)
    if not versions:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return versions[-1]


def _list_versions(folder: Path) -> list[int]:
    """List the versions that exist, oldest first, without reading their manifests."""
    with os.scandir(folder / "_versions") as files:
        names = [file.name.removesuffix(".manifest") for file in files]
    numbers = [int(name) for name in names if name.isdigit()]
    return sorted(min(number, 2**64 - 1 - number) for number in numbers)


def etag(folder: Path, version: int | None = None) -> str:
    """Return an ETag: a hash of the manifest of a version, by default the newest."""
    manifest = _manifest(folder, version or newest_version(folder))
    return hashlib.sha256(manifest.read_bytes()).hexdigest()


def stage_append(
    staged: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> list[str]:
    """Write rows for an append into staging; return their fragments as JSON."""
    check_fits(schema, lance.dataset(str(staged)).schema)
    with feeding(schema, batches) as (reader, _):
        fragments = lance.fragment.write_fragments(
            reader,
            str(staged),
            mode="append",
            data_storage_version=None,
            data_cache_bytes=cache_bytes(schema),
        )
    return [json.dumps(fragment.to_json()) for fragment in fragments]


def cache_bytes(schema: pa.Schema) -> int:
    """Return the bytes of a file's columns that wait for their pages to be full."""
    return min(PAGE_BYTES * len(schema), MAX_CACHE_BYTES)


def check_fits(schema: pa.Schema, table: pa.Schema) -> None:
    """Refuse rows whose columns do not match the table's by name and type."""
    types = {field.name: field.type for field in schema}
    fields = {field.name: field for field in table}
    unknown = [name for name in types if name not in fields]
    if unknown:
        raise HTTPError(
            400,
            f"unknown columns: {list_names(unknown)}; the table has {list_names(fields)}; "
            "nothing was changed",
        )
    for name, field in fields.items():
        if name not in types:
            if not field.nullable:
                raise HTTPError(
                    400,
                    f"column {name!r} is missing, but must not be null; nothing was changed; send it",
                )
        elif types[name] != field.type:
            raise HTTPError(
                400,
                f"column {name!r} is {show_type(types[name])}, but {show_type(field.type)} "
                "in the table; nothing was changed; cast it, or send it again if the table was "
                "altered meanwhile",
            )


def forget_versions(
    folder: Path,
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
        versions = _list_versions(folder)
        table: Any = lance.dataset(str(folder))
        expired = _count_replaced(folder, versions, keep)
        if expired < len(versions) // 10:
            expired = 0
        overwritten = _count_overwritten(table, versions)
        outdated = versions[: max(expired, overwritten)][:MAX_FORGOTTEN]
        if spared in outdated:
            outdated.remove(spared)
        # Lance follows links, and would remove the files of others (pylance 14)
        if outdated and not has_link(folder):
            _remove_versions(folder, table, outdated, keep, finds_lost)
            return True
    return False


def read_transaction(table: Any, version: int) -> Any:
    """Return the transaction that made a version. None if Lance does not tell."""
    # Lance cannot parse those of some operations (pylance 14)
    with contextlib.suppress(Exception):
        return table.read_transaction(version)
    return None


def purge_versions(folder: Path) -> None:
    """Remove all versions but the newest, and files that killed processes left."""
    versions = _list_versions(folder)
    _remove_versions(folder, lance.dataset(str(folder)), versions[:-1], IN_USE)


def _remove_versions(
    folder: Path,
    table: Any,
    versions: list[int],
    keep: datetime.timedelta,
    finds_lost: bool = True,
) -> None:
    options = {"versions": versions, "error_if_tagged_old_versions": False}
    lost = []
    if finds_lost:
        lost = table.explain_cleanup_old_versions(
            delete_unverified=True, include_files=True, **options
        ).candidate_files
    table.cleanup_old_versions(**options)
    unused_since = time.time() - max(keep, IN_USE).total_seconds()
    _remove_unreferenced(folder, lost, unused_since)


def _count_replaced(folder: Path, versions: list[int], age: datetime.timedelta) -> int:
    """Count the versions that were replaced longer ago than this."""
    # a version was replaced when the next one was written
    limit = time.time() - age.total_seconds()

    def written_at(version: int) -> float:
        return _manifest(folder, version).stat().st_mtime

    return bisect.bisect_right(versions[1:], limit, key=written_at)


def _count_overwritten(table: Any, versions: list[int]) -> int:
    """Count the versions before the ninth overwrite from the end.

    0 if the newest version is not an overwrite.
    """
    if len(versions) <= MAX_OVERWRITES or not _is_overwrite(table, versions[-1]):
        return 0
    overwrites = 0
    for index in reversed(range(len(versions))):
        overwrites += _is_overwrite(table, versions[index])
        if overwrites == MAX_OVERWRITES:
            return index
    return 0


def _is_overwrite(table: Any, version: int) -> bool:
    operation = getattr(read_transaction(table, version), "operation", None)
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


def verify_readable(dataset: Any, columns: list[str] | None = None) -> int:
    """Raise if the first or last row cannot be read. Return the version."""
    rows = dataset.count_rows()
    if rows and columns != []:
        dataset.take([0, rows - 1], columns=columns)
        # Lance joins dictionaries per page, and any may then outgrow its codes
        # (pylance 14)
        narrow = narrow_dictionaries(dataset.schema)
        if columns is not None:
            narrow = [name for name in narrow if name in columns]
        if narrow:
            for _ in dataset.to_batches(columns=narrow):
                pass
    return int(dataset.version)


def narrow_dictionaries(schema: pa.Schema) -> list[str]:
    """List columns with a dictionary, at any depth, whose codes have under 32 bits."""
    return [field.name for field in schema if contains(field.type, _has_narrow_codes)]


def _has_narrow_codes(arrow: pa.DataType) -> bool:
    return bool(is_.is_dictionary(arrow) and arrow.index_type.bit_width < 32)


@contextlib.contextmanager
def as_http_errors(
    subject: str = "",
    *,
    invalid: str = "",
    state: str = "nothing was changed",
    cure: str = "",
) -> Iterator[None]:
    """Turn the exceptions of Lance and the file system into HTTP errors.

    ``subject`` is the part of the request that failed. ``state`` and ``cure`` go with a
    reason in Lance's own words; a read has no state. If Lance blames the input,
    ``invalid`` names it, as in "invalid filter: …".
    """
    try:
        yield
    except (HTTPError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        # Lance's panics are BaseExceptions (pylance 14)
        known = _find_known_failure(
            error, f"{subject}: " if subject else "", is_read=not state
        )
        if known is not None:
            raise known from error
        text = str(error) or type(error).__name__
        reason, known_cure = _read_reason(text)
        if invalid and any(words in text for words in _INPUT_ERRORS):
            subject = f"invalid {invalid}"
            known_cure = "correct it"
        message = f"{subject or 'the engine failed'}: {reason}"
        for addition in (state, cure or known_cure):
            if addition:
                message += f"; {addition}"
        raise HTTPError(400, message) from error


def _read_reason(text: str) -> tuple[str, str]:
    """Return the reason in a message of Lance, and its cure if it is known."""
    for words, (reason, cure) in _REASONS.items():
        if words in text:
            return reason, cure
    reason, place, _ = text.partition(_SOURCE_PLACE)
    if place:
        reason = reason.rpartition(" ")[0]
    reason = _WRAPPERS.sub("", reason)
    cure = "choose a type that holds every value" if _CAST_ERROR in text else ""
    return one_line(reason, 300).rstrip(" ,:."), cure


def is_conflict(error: BaseException) -> bool:
    """Return whether somebody else changed the table at the same time."""
    return isinstance(error, Conflict) or bool(_CONFLICT.search(str(error)))


def is_damage(error: BaseException) -> bool:
    """Return whether files of the table are at fault, not the disk or the memory."""
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        return False
    known = _find_known_failure(error, "", is_read=True)
    return known is None or bool(_NOT_FOUND.search(str(error)))


def _find_known_failure(
    error: BaseException, subject: str, *, is_read: bool
) -> HTTPError | None:
    """Translate a failure of disk, memory, threads or a commit. None for others."""
    text = str(error)
    number = getattr(error, "errno", None)
    in_text = _OS_ERROR.search(text)
    if not number and in_text:
        number = int(in_text[1])
    if number in _DISK_FULL:
        return HTTPError(
            507,
            f"{subject}the disk is full ({os.strerror(number)}); nothing was stored; make room and try again",
        )
    if number in _NO_ACCESS:
        return HTTPError(
            507,
            f"{subject}the service has no access to its folder ({os.strerror(number)}); nothing was "
            "stored; allow it to read and write there, or use another folder",
        )
    if number:
        reason = f"{subject}the file system failed ({os.strerror(number)})"
        cure = "check the service's folder"
        if is_read:
            return HTTPError(500, f"{reason}; {cure}")
        return HTTPError(507, f"{reason}; nothing was stored; {cure}")
    if isinstance(error, MemoryError) or "can't start new thread" in text:
        return HTTPError(
            503,
            f"{subject}the service is short of threads or memory ({text}); try again later",
        )
    if _NOT_FOUND.search(text):
        return HTTPError(
            500,
            f"{subject}a file of the table is missing, as if this version was removed "
            "meanwhile; try again, and check the folder if it stays so",
        )
    if is_conflict(error):
        return Conflict(
            409,
            f"{subject}another process is changing the table; nothing was changed; try again",
        )
    return None
