"""URL paths of each dialect.

Bodies, types, headers and what a failure means are the same in all.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import quote

from rt_frames._names import DialectName
from rt_frames.errors import Operation

UNDOCUMENTED: dict[str, str] = {
    "replace": "delete or replace a table",
    "append": "add rows to a table",
    "upsert": "update and insert rows",
    "add_columns": "add columns to a table",
    "drop_columns": "drop columns of a table",
    "delete": "delete rows",
    "restore": "restore a version of a table",
    "describe": "describe a table",
    "query": "read rows back",
    "count_rows": "count rows",
    "drop": "drop a table",
    "indices": "list the indices of a table",
    "multipart_create": "write a table in parts",
    "multipart_complete": "write a table in parts",
    "multipart_abort": "write a table in parts",
}
_OTHER_API = 'if the server offers LanceDB\'s API, connect with dialect="lancedb"'
_OPTIONAL_CHOICES = ("replace", "append", "upsert")


class Dialect(NamedTuple):
    """The path of each operation, with ``{}`` for the table's name.

    Parameters
    ----------
    name : str
        The name passed as ``dialect=``.
    tables, create, alter : str
        The operations that every server has.
    replace, append, upsert, … : str or None
        The operations that some servers have; None if this dialect has none.
    names : str
        Regular expression for valid table names.
    knows_engine : bool
        Whether the engine behind the service is known to be Lance.
    part_bytes : int or None
        Maximum size of one part in bytes; None if one request may be of any size.
    is_assumed : bool
        Whether the caller named no dialect, so that a server may speak another one.
    """

    name: DialectName
    tables: str
    create: str
    alter: str
    replace: str | None = None
    append: str | None = None
    upsert: str | None = None
    add_columns: str | None = None
    drop_columns: str | None = None
    delete: str | None = None
    restore: str | None = None
    describe: str | None = None
    query: str | None = None
    count_rows: str | None = None
    drop: str | None = None
    indices: str | None = None
    multipart_create: str | None = None
    multipart_complete: str | None = None
    multipart_abort: str | None = None
    knows_engine: bool = False
    names: str = r"(?s:.*)"
    # hosted services refuse more than 100 MB; large parts mean few round trips
    part_bytes: int | None = 90_000_000
    is_assumed: bool = False

    def path(self, operation: Operation | str, name: str) -> str:
        """Return the path of an operation on one table.

        Raise ValueError if the dialect does not have the operation.
        """
        template: str | None = getattr(self, operation)
        if template is None:
            text = f'cannot {UNDOCUMENTED[operation]} with dialect="{self.name}"'
            raise ValueError(f"{text}; {_OTHER_API}")
        return template.format(quote(name, safe=""))

    def check_name(self, name: str) -> None:
        """Raise ValueError if servers of this dialect cannot address the name."""
        if not re.fullmatch(self.names, name):
            raise ValueError(
                f'name: {name!r:.100} is not valid with dialect="{self.name}"; use 1 to 128 '
                "of A-Z, a-z, 0-9, . _ and - ($ would lead into another namespace)"
            )

    def check_if_exists(self, if_exists: Any) -> None:
        """Raise ValueError if this dialect does not support ``if_exists``."""
        possible = ["fail", "skip"]
        possible += [word for word in _OPTIONAL_CHOICES if getattr(self, word)]
        if if_exists in possible:
            return
        *others, last = [f'"{word}"' for word in possible]
        expected = f"{', '.join(others)} or {last}"
        if if_exists not in _OPTIONAL_CHOICES:
            raise ValueError(f"if_exists: expected {expected}, got {if_exists!r:.100}")
        text = f'if_exists="{if_exists}": not possible with dialect="{self.name}"'
        raise ValueError(f"{text}; use {expected}, or another name, or, {_OTHER_API}")


DOCUMENTED = Dialect(
    "documented", "/v1/tables", "/v1/tables/{}", "/v1/table/{}/alter_columns"
)
LANCEDB = Dialect(
    "lancedb",
    "/v1/namespace/$/table/list?limit=1000",
    # trailing slashes: strict servers answer 404 without them, others strip them
    create="/v1/table/{}/create/?mode=create",
    alter="/v1/table/{}/alter_columns/",
    replace="/v1/table/{}/create/?mode=overwrite",
    append="/v1/table/{}/insert/",
    upsert="/v1/table/{}/merge_insert/",
    add_columns="/v1/table/{}/add_columns/",
    drop_columns="/v1/table/{}/drop_columns/",
    delete="/v1/table/{}/delete/",
    restore="/v1/table/{}/restore/",
    # without it, here or in the body, servers may leave schema and version out
    describe="/v1/table/{}/describe/?load_detailed_metadata=true",
    query="/v1/table/{}/query/",
    count_rows="/v1/table/{}/count_rows/",
    drop="/v1/table/{}/drop/",
    indices="/v1/table/{}/index/list/",
    multipart_create="/v1/table/{}/multipart_write/create",
    multipart_complete="/v1/table/{}/multipart_write/complete",
    multipart_abort="/v1/table/{}/multipart_write/abort",
    knows_engine=True,
    names=r"[A-Za-z0-9_.-]{1,128}",
)
FOLDER = DOCUMENTED._replace(
    **{name: getattr(LANCEDB, name) for name in UNDOCUMENTED},
    knows_engine=True,
    part_bytes=None,
)


DIALECTS = {dialect.name: dialect for dialect in (DOCUMENTED, LANCEDB)}


def parse_dialect(dialect: Any) -> Dialect:
    """Return a dialect by its name. A `Dialect` is returned as it is."""
    if dialect is None:
        return DOCUMENTED._replace(is_assumed=True)
    if isinstance(dialect, Dialect):
        return dialect
    if isinstance(dialect, str) and dialect in DIALECTS:
        return DIALECTS[dialect]
    names = " or ".join(f'"{name}"' for name in DIALECTS)
    raise ValueError(
        f"dialect, or RT_FRAMES_DIALECT: expected {names}, got {dialect!r:.100}"
    )
