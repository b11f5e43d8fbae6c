"""The versions of a table: when each was made, and by which operation."""

from __future__ import annotations

import datetime
import re
from typing import Any

from rt_frames.local import engine

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
# of compactions, which change no row
_COMPACT = "compact"
# Lance's operation → ours
_WORDS = {
    "Overwrite": "replace",
    "Update": "upsert",
    "Merge": "alter",
    "Project": "alter",
    "Rewrite": _COMPACT,
}
# what pylance 14 returns for operations that have no class in Python
_UNNAMED = "BaseOperation"


def list_versions(table: Any, limit: int | None) -> list[dict[str, Any]]:
    """List the newest versions, newest first, in the form of LanceDB's servers.

    A compaction's versions are left out, unless what it compacted is gone.
    """
    # a purge may remove all that were found, but not what is open
    return _list_open(table, limit) or [_describe(table, _name_operation(table))]


def _list_open(table: Any, limit: int | None) -> list[dict[str, Any]]:
    # a newer one was lost in a power cut, or was made since
    numbers = [ref["version"] for ref in table.version_refs()]
    numbers = sorted(filter(table.version.__ge__, numbers), reverse=True)
    listed: list[dict[str, Any]] = []
    operation = ""
    compacted = None
    for number in numbers:
        if len(listed) == limit:
            return listed
        version = engine.checkout(table, number)
        if version is None:
            continue
        newer = operation
        operation = _name_operation(version)
        # Lance reserves the numbers of the new fragments in a version before
        # (pylance 14)
        if operation == "" and newer == _COMPACT:
            operation = _COMPACT
        if operation == _COMPACT:
            compacted = version
        else:
            compacted = None
            listed.append(_describe(version, operation))
    if compacted is not None:
        listed.append(_describe(compacted, _COMPACT))
    return listed


def _describe(version: Any, operation: str) -> dict[str, Any]:
    # `versions()` of pylance 14 has local times, in which an hour may come twice
    facts = version._ds.current_version()  # noqa: SLF001
    time = _EPOCH + datetime.timedelta(microseconds=facts["timestamp"] // 1000)
    metadata = facts["metadata"]
    if operation:
        metadata["operation"] = operation
    return {
        "version": facts["version"],
        "timestamp": time.isoformat(),
        "metadata": metadata,
    }


def _name_operation(version: Any) -> str:
    """Return the word for what made a version, or "" if Lance does not tell."""
    transaction = engine.read_transaction(version, version.version)
    if transaction is None:
        return ""
    operation = transaction.operation
    kind = type(operation).__name__
    if kind == _UNNAMED:
        return ""
    if kind == "Overwrite" and transaction.read_version == 0:
        return "create"
    # an update by Lance itself, such as a merge, names the fields that it wrote
    if kind == "Update" and not operation.fields_for_preserving_frag_bitmap:
        return "replace where"
    word = _WORDS.get(kind) or re.sub("(?<!^)(?=[A-Z])", " ", kind).lower()
    if word == "alter":
        before = engine.checkout(version, version.version - 1)
        return _name_alteration(version, before)
    return word


def _name_alteration(version: Any, before: Any) -> str:
    """Return whether columns were added, dropped, or only altered, if that is known."""
    if before is None:
        return "alter"
    added = len(version.schema) - len(before.schema)
    if added > 0:
        return "add columns"
    return "drop columns" if added < 0 else "alter"
