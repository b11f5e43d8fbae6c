"""Where each operation goes: what the service's documentation says, and what servers of its family speak today.

Bodies, types and the key's header are the same in both; so is everything about what is certain.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from rt_frames.errors import Operation

DialectName = Literal["documented", "lancedb"]


class Dialect(NamedTuple):
    """The address of each operation, with ``{}`` for the table; None for what such a server cannot do.

    Parameters
    ----------
    name : str
        What people call it by.
    tables, create, alter : str
        The operations that every server has.
    replace, describe : str or None
        Those that some have.
    names : str
        A pattern of the names that a table may have, beside what any address can carry.
    """

    name: str
    tables: str
    create: str
    alter: str
    replace: str | None = None
    describe: str | None = None
    names: str = r"(?s:.*)"

    def path(self, operation: Operation, name: str) -> str:
        """Return the address of an operation that such a server has, on one table."""
        template: str = getattr(self, operation)
        return template.format(quote(name, safe=""))

    @property
    def other(self) -> Dialect:
        """The dialect that a server may speak which does not know these addresses."""
        return DOCUMENTED if self.name == LANCEDB.name else LANCEDB

    def check_name(self, name: str) -> None:
        """Refuse names that such a server reads as something else, or not at all."""
        if not re.fullmatch(self.names, name):
            raise ValueError(
                f"name: {name!r:.100} is not a table name in dialect={self.name!r}; it has 1 to 128 of the letters "
                "A to Z and a to z, digits, and . _ - ($ would lead into another namespace)"
            )

    def check_if_exists(self, if_exists: Any) -> None:
        """Refuse what such a server cannot do to a table that is there already."""
        possible = ["fail", "skip", *(["replace"] if self.replace else [])]
        if if_exists in possible:
            return
        others = " or ".join(f'"{word}"' for word in possible)
        if if_exists == "append":
            raise ValueError(
                'if_exists: "append" is not possible: the service documents no way to add rows to a table; '
                f"use {others}, or another name"
            )
        if if_exists == "replace":
            raise ValueError(
                'if_exists: "replace" is not possible: the service documents no way to delete or replace a table; '
                f'use {others}, another name, or connect(…, dialect="lancedb") where the server speaks it'
            )
        raise ValueError(f"if_exists: expected {others}, got {if_exists!r:.100}")


DOCUMENTED = Dialect("documented", "/v1/tables", "/v1/tables/{}", "/v1/table/{}/alter_columns")
LANCEDB = Dialect(
    "lancedb",
    "/v1/namespace/$/table/list?limit=1000",
    # slashes at the end: strict servers answer 404 without them, others trim them
    create="/v1/table/{}/create/?mode=create",
    alter="/v1/table/{}/alter_columns/",
    replace="/v1/table/{}/create/?mode=overwrite",
    describe="/v1/table/{}/describe/",
    names=r"[A-Za-z0-9_.-]{1,128}",
)
FOLDER = DOCUMENTED._replace(replace=LANCEDB.replace, describe=LANCEDB.describe)


def parse_dialect(dialect: Any) -> Dialect:
    """Read ``dialect``: a name, or a dialect itself."""
    if isinstance(dialect, Dialect):
        return dialect
    for known in (DOCUMENTED, LANCEDB):
        if dialect == known.name:
            return known
    raise ValueError(f'dialect, or RT_FRAMES_DIALECT: expected "documented" or "lancedb", got {dialect!r:.100}')
