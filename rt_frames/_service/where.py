"""A condition of a public call → SQL for the service."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from rt_frames._frames import where as conditions
from rt_frames._protocol.conditions import (
    MAX_BYTES,
    to_sql,
    write_condition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from rt_frames._schema.leaves import Condition


def write_fitting(conditions: Iterable[Condition]) -> str | None:
    """Return the SQL of those conditions that fit into one request, or None.

    One that is too long is left out.
    """
    texts = []
    room = MAX_BYTES
    for condition in conditions:
        with contextlib.suppress(ValueError):
            text = write_condition(condition)
            size = len(f"{text} AND ".encode())
            if size <= room:
                texts.append(text)
                room -= size
    return " AND ".join(texts) or None


def write_where(
    where: Any, schema: pa.Schema | None, cure: str, *, needs_column: bool = False
) -> str:
    """Return the SQL of a checked condition, with values in the types of the columns.

    ``cure`` is what to do instead of a part that cannot be sent. With ``needs_column``,
    a condition without a column is refused.
    """
    if schema is None:
        raise ValueError(
            f"where: the service does not tell the types of the columns; {cure}"
        )
    condition = conditions.to_condition(where, schema, cure, needs_column=needs_column)
    return to_sql(condition)
