"""The operations of a service, a row each, and the dialects that name their paths.

``documented`` is what the hosted service's documentation shows, ``lancedb`` what
LanceDB's servers speak, and ``folder`` what only a folder has. Bodies, types, headers
and the meaning of a failure are the same in all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import quote

from rt_frames._names import DialectName

# hosted services refuse more than 100 MB in one body; large parts mean few round trips
MAX_BODY_BYTES = 90_000_000


@dataclass(frozen=True)
class Operation:
    """An operation, with its path in each dialect.

    Parameters
    ----------
    name : str
        As in ``if_exists=`` and in logs.
    action : str
        In errors, after "could not"; ``{}`` is the table.
    ability : str
        What a server without it cannot do.
    effect : str
        A "read" changes nothing and may always be repeated; the body of "rows" is rows
        to store; a "change" has a small body.
    documented, lancedb, folder : str or None
        The path, with ``{}`` for the table's name; None if the dialect has none.
    """

    name: str
    action: str
    ability: str
    effect: Literal["read", "rows", "change"]
    documented: str | None = None
    lancedb: str | None = None
    folder: str | None = None

    def is_documented_at(self, path: str, table: str | None) -> bool:
        """Return whether a path is documented: the documentation leaves bodies open."""
        template = self.documented
        return template is not None and path == template.format(_quote(table))


def _quote(table: str | None) -> str:
    return quote(table or "", safe="")


LIST = Operation(
    "list",
    "list tables",
    "list tables",
    effect="read",
    documented="/v1/tables",
    lancedb="/v1/namespace/$/table/list?limit=1000",
)
DESCRIBE = Operation(
    "describe",
    "describe {}",
    "describe a table",
    effect="read",
    # without it, here or in the body, servers may leave schema and version out
    lancedb="/v1/table/{}/describe/?load_detailed_metadata=true",
)
QUERY = Operation(
    "query",
    "read {}",
    "read rows back",
    effect="read",
    lancedb="/v1/table/{}/query/",
)
COUNT = Operation(
    "count_rows",
    "count the rows of {}",
    "count rows",
    effect="read",
    lancedb="/v1/table/{}/count_rows/",
)
INDICES = Operation(
    "indices",
    "list the indices of {}",
    "list the indices of a table",
    effect="read",
    lancedb="/v1/table/{}/index/list/",
)
HISTORY = Operation(
    "history",
    "list the versions of {}",
    "list the versions of a table",
    effect="read",
    lancedb="/v1/table/{}/version/list/",
)
CREATE = Operation(
    "create",
    "create {}",
    "create a table",
    effect="rows",
    documented="/v1/tables/{}",
    # trailing slashes: strict servers answer 404 without them, others strip them
    lancedb="/v1/table/{}/create/?mode=create",
)
REPLACE = Operation(
    "replace",
    "replace {}",
    "delete or replace a table",
    effect="rows",
    lancedb="/v1/table/{}/create/?mode=overwrite",
)
APPEND = Operation(
    "append",
    "append to {}",
    "add rows to a table",
    effect="rows",
    lancedb="/v1/table/{}/insert/",
)
UPSERT = Operation(
    "upsert",
    "upsert into {}",
    "update and insert rows",
    effect="rows",
    lancedb="/v1/table/{}/merge_insert/",
)
REPLACE_WHERE = Operation(
    "replace_where",
    "replace rows of {}",
    "replace rows that match a condition in one commit",
    effect="rows",
    folder="/v1/table/{}/replace_where/",
)
ALTER = Operation(
    "alter",
    "alter {}",
    "alter columns",
    effect="change",
    documented="/v1/table/{}/alter_columns",
    lancedb="/v1/table/{}/alter_columns/",
)
ADD_COLUMNS = Operation(
    "add_columns",
    "add columns to {}",
    "add columns to a table",
    effect="change",
    lancedb="/v1/table/{}/add_columns/",
)
DROP_COLUMNS = Operation(
    "drop_columns",
    "drop columns of {}",
    "drop columns of a table",
    effect="change",
    lancedb="/v1/table/{}/drop_columns/",
)
DELETE = Operation(
    "delete",
    "delete rows of {}",
    "delete rows",
    effect="change",
    lancedb="/v1/table/{}/delete/",
)
RESTORE = Operation(
    "restore",
    "restore {}",
    "restore a version of a table",
    effect="change",
    lancedb="/v1/table/{}/restore/",
)
COMPACT = Operation(
    "compact",
    "compact {}",
    "compact a table",
    effect="change",
    folder="/v1/table/{}/compact/",
)
DROP = Operation(
    "drop",
    "drop {}",
    "drop a table",
    effect="change",
    lancedb="/v1/table/{}/drop/",
)
# the requests around the parts of a write, which are appends; errors name the write
BEGIN_PARTS = Operation(
    "multipart_create",
    "write {} in parts",
    "write a table in parts",
    effect="change",
    lancedb="/v1/table/{}/multipart_write/create",
)
COMMIT_PARTS = Operation(
    "multipart_complete",
    "write {} in parts",
    "write a table in parts",
    effect="change",
    lancedb="/v1/table/{}/multipart_write/complete",
)
ABORT_PARTS = Operation(
    "multipart_abort",
    "write {} in parts",
    "write a table in parts",
    effect="change",
    lancedb="/v1/table/{}/multipart_write/abort",
)

_OTHER_API = 'if the server offers LanceDB\'s API, connect with dialect="lancedb"'
_ALWAYS_POSSIBLE = ("fail", "skip")
_OPTIONAL = (REPLACE, APPEND, UPSERT)


@dataclass(frozen=True)
class Dialect:
    """How one kind of service is addressed.

    Parameters
    ----------
    name : str
        The name passed as ``dialect=``.
    columns : tuple of str
        The columns of the operations that have its paths, the first one first.
    names : str
        Regular expression for valid table names.
    knows_engine : bool
        Whether the engine behind the service is known to be Lance.
    part_bytes : int or None
        Maximum size of one part in bytes; None if one request may be of any size.
    upsert_bytes : int or None
        Maximum size of an upsert in bytes; None if it may be of any size.
    has_several_keys : bool
        Whether an upsert may match by several columns. Other servers may match only one
        of them, and overwrite rows that differ in another.
    describes_extensions : bool
        Whether the description of a table tells extension types.
    limits_history : bool
        Whether a list of versions may have a limit, and begins with the newest.
    is_assumed : bool
        Whether the caller named no dialect, so that a server may speak another one.
    """

    name: DialectName
    columns: tuple[Literal["documented", "lancedb", "folder"], ...]
    names: str = r"(?s:.*)"
    knows_engine: bool = False
    part_bytes: int | None = MAX_BODY_BYTES
    upsert_bytes: int | None = MAX_BODY_BYTES
    has_several_keys: bool = False
    describes_extensions: bool = False
    limits_history: bool = False
    is_assumed: bool = False

    def has(self, operation: Operation) -> bool:
        """Return whether servers of this dialect may have an operation."""
        return any(getattr(operation, column) for column in self.columns)

    def path(self, operation: Operation, table: str | None = None) -> str:
        """Return the path of an operation.

        Raise ValueError if the dialect does not have the operation.
        """
        for column in self.columns:
            template: str | None = getattr(operation, column)
            if template is not None:
                return template.format(_quote(table))
        raise ValueError(
            f'cannot {operation.ability} with dialect="{self.name}"; {_OTHER_API}'
        )

    def check_name(self, name: str) -> None:
        """Raise ValueError if servers of this dialect cannot address the name."""
        if not re.fullmatch(self.names, name):
            raise ValueError(
                f'name: {name!r:.100} is not valid with dialect="{self.name}"; use 1 to 128 '
                "of A-Z, a-z, 0-9, . _ and - ($ would lead into another namespace)"
            )

    def check_if_exists(self, if_exists: Any) -> None:
        """Raise ValueError if this dialect does not support ``if_exists``."""
        optional = [operation.name for operation in _OPTIONAL]
        possible = [*_ALWAYS_POSSIBLE]
        possible += [operation.name for operation in _OPTIONAL if self.has(operation)]
        if if_exists in possible:
            return
        *others, last = [f'"{word}"' for word in possible]
        expected = f"{', '.join(others)} or {last}"
        if if_exists not in optional:
            raise ValueError(f"if_exists: expected {expected}, got {if_exists!r:.100}")
        raise ValueError(
            f'if_exists="{if_exists}": not possible with dialect="{self.name}"; use '
            f"{expected}, or another name, or, {_OTHER_API}"
        )


DOCUMENTED = Dialect("documented", ("documented",))
LANCEDB = Dialect(
    "lancedb", ("lancedb",), names=r"[A-Za-z0-9_.-]{1,128}", knows_engine=True
)
FOLDER = Dialect(
    "documented",
    ("documented", "lancedb", "folder"),
    knows_engine=True,
    part_bytes=None,
    upsert_bytes=None,
    has_several_keys=True,
    describes_extensions=True,
    limits_history=True,
)
DIALECTS = {dialect.name: dialect for dialect in (DOCUMENTED, LANCEDB)}


def parse_dialect(dialect: Any) -> Dialect:
    """Return a dialect by its name. A `Dialect` is returned as it is."""
    if dialect is None:
        return replace(DOCUMENTED, is_assumed=True)
    if isinstance(dialect, Dialect):
        return dialect
    if isinstance(dialect, str) and dialect in DIALECTS:
        return DIALECTS[dialect]
    names = " or ".join(f'"{name}"' for name in DIALECTS)
    raise ValueError(
        f"dialect, or RT_FRAMES_DIALECT: expected {names}, got {dialect!r:.100}"
    )
