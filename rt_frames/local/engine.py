"""Call Lance, and translate its failures into HTTP errors.

Lance has threads of its own, so a process that used it must not fork and use it again.
Its panics are BaseExceptions. ``tests/local/test_relied_upon.py`` covers the texts of
its messages that this depends on.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.types as is_

# as an attribute of lance, it is missing after an interrupt of the first import
from lance.fragment import write_fragments

from rt_frames._schema.data_type import contains, show_type
from rt_frames._text import list_names, one_line
from rt_frames._threads import prefetch
from rt_frames.local import manifests
from rt_frames.local.http_error import HTTPError

# of a column; with larger pages, pylance 14 copies the data first
PAGE_BYTES = 2 * 2**20
# of all columns, until their pages are written
MAX_CACHE_BYTES = 2**27
# of a batch that may be in memory besides the next one
MAX_PREFETCHED_BYTES = 2**26
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
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
RESTORE = (
    "restore an older version, with rt.table(name, version=n).restore(), or replace or drop the "
    "table"
)
_CONFLICT = re.compile(
    "commit conflict|concurrent transaction|concurrent writers", re.IGNORECASE
)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
# with a folder in its path: a file of the table
_NOT_FOUND = re.compile(r"not found: \S+/\S+", re.IGNORECASE)
# in a draft, too
_FILE = re.compile(r"(?:\.lance|/table)/((?:_versions|_deletions|data)\b[\w./-]*)")
# after the reason, Lance names a place in its source code
_SOURCE_PLACE = ".rs:"
_CAST_ERRORS = ("Cast error", "Arithmetic overflow")
_INPUT_ERRORS = ("Invalid user input", "applying filter expression")
# what Lance writes before its reason
_WRAPPERS = re.compile(
    r"\A(?:Invalid user input: |External error: |Query Execution error: |Arrow error: "
    r"|Error applying filter expression to batch: |Schema error: |Error during planning: "
    r"|LanceError\(Arrow\): |Cast error: )+"
)


class Failed(HTTPError):
    """A failure in Lance's own words."""


class Blamed(Failed):
    """One for which Lance blames the input, as it does for a file of zeros, too."""


class Conflict(HTTPError):
    """A change by somebody else, at the same time, to the same table."""


class Locked:
    """A table whose lock is held, listed and opened once for all steps before a commit.

    Parameters
    ----------
    folder : Path
        The table's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @functools.cached_property
    def versions(self) -> list[int]:
        """The versions, oldest first; those that a power cut has cut are set aside."""
        with as_http_errors():
            return manifests.set_aside_cut(self.folder)

    @functools.cached_property
    def newest(self) -> Any:
        """The newest version."""
        return _open_newest(self.folder, self.versions[-1])


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
    if version is None:
        with as_http_errors(state=""):
            newest = manifests.newest_version(folder)
        return _open_newest(folder, newest)
    try:
        return lance.dataset(str(folder), version=version)
    except BaseException as error:
        # panics
        if not is_damage(error):
            with as_http_errors(state=""):
                raise
        raise HTTPError(
            404,
            f"version {version} does not exist, was removed or is damaged{state}",
        ) from error


def _open_newest(folder: Path, newest: int) -> Any:
    try:
        return lance.dataset(str(folder), version=newest)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # panics
        if manifests.newest_version(folder) == newest:
            raise _explain_unreadable(folder, newest, error) from error
    # removed meanwhile
    return open_table(folder)


def _explain_unreadable(folder: Path, version: int, error: BaseException) -> HTTPError:
    known = _find_known_failure(error, "", is_read=True)
    if known is not None:
        return known
    manifest = manifests.locate(folder, version)
    reason, _ = _read_reason(str(error))
    return manifests.Damaged(
        500,
        f"{manifest.relative_to(folder)} of the table is damaged ({reason}); {RESTORE}",
    )


def checkout(table: Any, number: int) -> Any:
    """Open a version of an open table. None if it was removed, or cannot be read."""
    try:
        version = table.checkout_version(number)
    except BaseException as error:
        # panics
        if not is_damage(error):
            raise
        return None
    # of a manifest of zeros, 0
    return version if version.version == number else None


def list_damaged(folder: Path, table: Any) -> list[int]:
    """List the versions before the newest whose manifests are damaged."""
    damaged = []
    for version in manifests.list_versions(folder)[:-1]:
        # which pylance 14 looks at in a clean-up alone
        end = manifests.locate(folder, version).read_bytes()[-len(manifests.END) :]
        if end != manifests.END or checkout(table, version) is None:
            damaged.append(version)
    return damaged


def open_past_damage(target: Locked) -> Any:
    """Open the newest version that can be read, and rename the manifests of newer ones.

    All rows are replaced.
    """
    try:
        return target.newest
    except manifests.Damaged:
        if manifests.set_aside_newest(target.folder):
            return open_past_damage(Locked(target.folder))
        raise


def stage_append(
    staged: Any, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> list[Any]:
    """Write rows for an append to a table in staging; return their fragments."""
    check_fits(schema, staged.schema)
    with feeding(schema, batches) as (reader, _):
        fragments: list[Any] = write_fragments(
            reader,
            staged,
            mode="append",
            data_storage_version=None,
            data_cache_bytes=cache_bytes(schema),
        )
    return fragments


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


def read_transaction(table: Any, version: int) -> Any:
    """Return the transaction that made a version. None if Lance does not tell."""
    # Lance cannot parse those of some operations (pylance 14)
    with contextlib.suppress(Exception):
        return table.read_transaction(version)
    return None


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
        kind = Blamed if known_cure else Failed
        raise kind(400, message) from error


def _read_reason(text: str) -> tuple[str, str]:
    """Return the reason in a message of Lance, and its cure if it is known."""
    for words, (reason, cure) in _REASONS.items():
        if words in text:
            return reason, cure
    reason, place, _ = text.partition(_SOURCE_PLACE)
    if place:
        reason = reason.rpartition(" ")[0]
    reason = _WRAPPERS.sub("", reason)
    cure = ""
    if any(words in text for words in _CAST_ERRORS):
        cure = "choose a type that holds every value"
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
    found = _FILE.search(text)
    if number in _NO_ACCESS:
        place = f"{found[1]} of the table" if found else "its folder"
        state = "" if is_read else "; nothing was stored"
        return HTTPError(
            507,
            f"{subject}the service has no access to {place} ({os.strerror(number)}){state}; allow "
            "it to read and write there, or use another folder",
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
            f"{subject}{found[1] if found else 'a file'} of the table is missing; if this version was "
            f"not just removed by a purge or replacement, {RESTORE}",
        )
    if is_conflict(error):
        return Conflict(
            409,
            f"{subject}another process is changing the table; nothing was changed; try again",
        )
    return None
